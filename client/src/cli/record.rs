//! `record`: makes a scenario of what a watcher saw.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use super::error::CommandError;
use super::output::{diagnose, print};
use crate::limits::{AUDIT_FILES_MAX, RECORDING_MAX};
use crate::replay::recording::Recording;

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(super) struct RecordArgs {
    /// The file of `watch --audit`; the files before it, FILE.4 to FILE.1, are read first. `-` is standard input
    #[arg(value_name = "AUDIT")]
    audit: PathBuf,
    /// Leave out names of machines, ids of events and times of the day
    #[arg(long)]
    mask: bool,
}

pub(super) fn record(args: &RecordArgs) -> Result<(), CommandError> {
    let mut recording = Recording::default();
    let mut left = RECORDING_MAX;
    let from_input = args.audit == Path::new("-");
    let name = if from_input { "<stdin>".to_owned() } else { args.audit.display().to_string() };
    let failed = |name: &str, error: io::Error| CommandError::usage(format!("cannot read {name}: {error}"));
    if from_input {
        read(&mut recording, io::stdin().lock(), &mut left).map_err(|error| failed(&name, error))?;
    } else {
        for number in (1..=AUDIT_FILES_MAX).rev() {
            let older = format!("{name}.{number}");
            match File::open(numbered(&args.audit, number)) {
                Ok(file) => {
                    read(&mut recording, BufReader::new(file), &mut left).map_err(|error| failed(&older, error))?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&older, error)),
            }
        }
        let file = File::open(&args.audit).map_err(|error| failed(&name, error))?;
        read(&mut recording, BufReader::new(file), &mut left).map_err(|error| failed(&name, error))?;
    }
    let text = recording.scenario(args.mask).map_err(|reason| CommandError::document(format!("{name}: {reason}")))?;
    if recording.lost > 0 {
        diagnose("warning", &format!("{name}: {} records were lost when it was written", recording.lost));
    }
    if recording.unreadable > 0 {
        diagnose("warning", &format!("{name}: {} lines are no record, and were left out", recording.unreadable));
    }
    print(text.as_bytes())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Adds the lines, as long as they are not more than `left` bytes.
fn read(recording: &mut Recording, input: impl BufRead, left: &mut u64) -> io::Result<()> {
    let mut input = input.take(*left + 1);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        *left = left.checked_sub(length).ok_or_else(|| {
            io::Error::other(format!("it has more than {} MiB; cut out the time that matters", RECORDING_MAX >> 20))
        })?;
        recording.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}
