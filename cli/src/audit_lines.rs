//! The lines of audit files, for commands that read a watcher's records.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use scheduled_events::audit::earlier_files;
use scheduled_events::limits::RECORDING_MAX;

use crate::error::CommandError;
use crate::output::diagnose;
use crate::output::format::count;

/// Reads the lines of an audit file and of the files before it, or of standard input. Returns its
/// name for messages.
pub(crate) fn read_audit(path: &Path, add: &mut dyn FnMut(&str)) -> Result<String, CommandError> {
    let mut left = RECORDING_MAX;
    let failed =
        |name: &str, error: io::Error| CommandError::usage(format!("cannot read {name}: {error}"));
    if path == Path::new("-") {
        let name = "<stdin>".to_owned();
        read(add, io::stdin().lock(), &mut left).map_err(|error| failed(&name, error))?;
        return Ok(name);
    }
    let name = path.display().to_string();
    for older in earlier_files(path) {
        let name = older.display().to_string();
        match File::open(&older) {
            Ok(file) => {
                read(add, BufReader::new(file), &mut left).map_err(|error| failed(&name, error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&name, error)),
        }
    }
    let file = File::open(path).map_err(|error| failed(&name, error))?;
    read(add, BufReader::new(file), &mut left).map_err(|error| failed(&name, error))?;
    Ok(name)
}

/// Warns of lines that the file lacks, and of those that are no records.
pub(crate) fn warn_of_missing_lines(name: &str, lost: u64, unreadable: u64) {
    if lost > 0 {
        let text = format!("{name}: {lost} records were lost when it was written");
        diagnose("warning", &text);
    }
    if unreadable > 0 {
        let lines = count(usize::try_from(unreadable).unwrap_or(usize::MAX), "line");
        let text = format!("{name}: left out {lines} without a record");
        diagnose("warning", &text);
    }
}

/// Adds the lines, up to `left` bytes.
fn read(add: &mut dyn FnMut(&str), input: impl BufRead, left: &mut u64) -> io::Result<()> {
    let mut input = input.take(*left + 1);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        *left = left.checked_sub(length).ok_or_else(|| {
            io::Error::other(format!(
                "it has more than {} MiB; cut out the time that matters",
                RECORDING_MAX >> 20
            ))
        })?;
        add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}
