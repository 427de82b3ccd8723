//! The phase of the last run, from which the next one resumes.
//!
//! It is one line in `STATE.phase`, beside the state file: a name of the format, the phase and the
//! id of the boot.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use scheduled_events_core::spot::Phase;

use scheduled_events::clock::boot_id;
use scheduled_events::files::{check_file, open_no_link, replace, sibling};

/// The first word of the file.
const FORMAT: &str = "scheduled-events-run-1";

/// The longest file that is read, in bytes.
const FILE_MAX: u64 = 1024;

/// The file with the phase. The lock of the state file protects it, too.
pub(crate) struct PhaseFile {
    path: PathBuf,
    /// The state that the last run left.
    last: Option<LastRun>,
}

/// The end of the last run, whose worker had not ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastRun {
    pub(crate) phase: Phase,
    /// Whether the machine has not booted since.
    pub(crate) is_same_boot: bool,
}

impl PhaseFile {
    /// The phase file beside a state file.
    ///
    /// # Errors
    /// A sentence: why it cannot be read, or must not be used.
    pub(crate) fn beside(state_file: &Path) -> Result<Self, String> {
        let path = sibling(state_file, "phase");
        let last = read(&path)
            .map_err(|reason| format!("cannot use the file {}: {reason}", path.display()))?;
        Ok(Self { path, last })
    }

    pub(crate) fn last(&self) -> Option<LastRun> {
        self.last
    }

    /// Saves the phase.
    pub(crate) fn save(&self, phase: Phase) -> io::Result<()> {
        replace(
            &self.path,
            format!("{FORMAT} {phase} {}\n", boot_id()).as_bytes(),
        )
    }

    /// Removes the phase: the worker has done its work.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn read(path: &Path) -> Result<Option<LastRun>, String> {
    let file = match open_no_link(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?,
    };
    check_file(&file).map_err(|reason| format!("it {reason}; remove it"))?;
    let mut text = String::new();
    // A damaged file still shows that there was a worker.
    let _ = file.take(FILE_MAX).read_to_string(&mut text);
    Ok(Some(parse(&text)))
}

/// The contents of a file. One that cannot be read means that a worker was processing.
fn parse(text: &str) -> LastRun {
    let words: Vec<_> = text.trim_end_matches('\n').split(' ').collect();
    let known = match words[..] {
        [FORMAT, phase, boot] => Phase::ALL
            .into_iter()
            .find(|known| known.word() == phase)
            .zip(Some(boot)),
        _ => None,
    };
    let this_boot = boot_id();
    let is_same = |boot: &str| !boot.is_empty() && boot == this_boot;
    known.map_or(
        LastRun {
            phase: Phase::Processing,
            is_same_boot: false,
        },
        |(phase, boot)| LastRun {
            phase,
            is_same_boot: is_same(boot),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_again_and_anything_else_is_a_worker_that_was_interrupted() {
        let folder =
            std::env::temp_dir().join(format!("scheduled-events-phase-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let state = folder.join("state");
        assert_eq!(PhaseFile::beside(&state).unwrap().last(), None);
        for phase in Phase::ALL {
            PhaseFile::beside(&state).unwrap().save(phase).unwrap();
            let last = PhaseFile::beside(&state).unwrap().last().unwrap();
            assert_eq!(
                (last.phase, last.is_same_boot),
                (phase, !boot_id().is_empty())
            );
        }
        let interrupted = LastRun {
            phase: Phase::Processing,
            is_same_boot: false,
        };
        for text in [
            "",
            "\0",
            "scheduled-events-run-1 asleep boot",
            "scheduled-events-run-2 shutdown boot",
            "shutdown",
        ] {
            assert_eq!(parse(text), interrupted, "{text:?}");
        }
        assert_eq!(
            parse("scheduled-events-run-1 shutdown \n"),
            LastRun {
                phase: Phase::Shutdown,
                ..interrupted
            }
        );
        PhaseFile::beside(&state).unwrap().remove().unwrap();
        assert_eq!(PhaseFile::beside(&state).unwrap().last(), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
