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
    print(recorded(&args.audit, args.mask)?.as_bytes())
}

/// What an audit file recorded, as the text of a scenario.
pub(super) fn recorded(audit: &Path, mask: bool) -> Result<String, CommandError> {
    let mut recording = Recording::default();
    let name = read_audit(audit, &mut |line| recording.add(line))?;
    let text = recording.scenario(mask).map_err(|reason| CommandError::document(format!("{name}: {reason}")))?;
    if recording.lost > 0 {
        diagnose("warning", &format!("{name}: {} records were lost when it was written", recording.lost));
    }
    if recording.unreadable > 0 {
        diagnose("warning", &format!("{name}: {} lines are no record, and were left out", recording.unreadable));
    }
    Ok(text)
}

/// Reads the lines of an audit file and of the files before it, or of standard input. Returns its name for messages.
pub(super) fn read_audit(path: &Path, add: &mut dyn FnMut(&str)) -> Result<String, CommandError> {
    let mut left = RECORDING_MAX;
    let failed = |name: &str, error: io::Error| CommandError::usage(format!("cannot read {name}: {error}"));
    if path == Path::new("-") {
        let name = "<stdin>".to_owned();
        read(add, io::stdin().lock(), &mut left).map_err(|error| failed(&name, error))?;
        return Ok(name);
    }
    let name = path.display().to_string();
    for number in (1..=AUDIT_FILES_MAX).rev() {
        let older = format!("{name}.{number}");
        match File::open(numbered(path, number)) {
            Ok(file) => read(add, BufReader::new(file), &mut left).map_err(|error| failed(&older, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&older, error)),
        }
    }
    let file = File::open(path).map_err(|error| failed(&name, error))?;
    read(add, BufReader::new(file), &mut left).map_err(|error| failed(&name, error))?;
    Ok(name)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Adds the lines, as long as they are not more than `left` bytes.
fn read(add: &mut dyn FnMut(&str), input: impl BufRead, left: &mut u64) -> io::Result<()> {
    let mut input = input.take(*left + 1);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        *left = left.checked_sub(length).ok_or_else(|| {
            io::Error::other(format!("it has more than {} MiB; cut out the time that matters", RECORDING_MAX >> 20))
        })?;
        add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}
