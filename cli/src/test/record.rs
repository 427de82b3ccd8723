//! `record`: converts a watcher's records, or captured exchanges, to a scenario.

use std::path::Path;

use crate::args::RecordArgs;
use crate::audit_lines::{read_audit, warn_of_missing_lines};
use crate::error::CommandError;
use crate::output::print;
use scheduled_events_replay::scenario::{Recording, RecordingError};

pub(crate) fn record(args: &RecordArgs) -> Result<(), CommandError> {
    print(recorded(&args.audit, args.mask)?.as_bytes())
}

/// The records of an audit file, as the text of a scenario.
pub(crate) fn recorded(audit: &Path, mask: bool) -> Result<String, CommandError> {
    let mut recording = Recording::default();
    let name = read_audit(audit, &mut |line| recording.add(line))?;
    let text = recording.scenario(mask).map_err(|error| {
        let advice = match error {
            RecordingError::NoRecord => {
                "; expected the file of `watch --audit` or `capture --to`, or the output of `watch --json`"
            }
            _ => "",
        };
        CommandError::document(format!("{name}: {error}{advice}"))
    })?;
    warn_of_missing_lines(&name, recording.lost, recording.unreadable);
    Ok(text)
}
