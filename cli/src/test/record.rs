//! `record`: converts a watcher's records, or captured exchanges, to a scenario.

use std::path::Path;

use crate::args::RecordArgs;
use crate::audit_lines::read_audit;
use crate::error::CommandError;
use crate::output::{diagnose, print};
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
    if recording.lost > 0 {
        diagnose(
            "warning",
            &format!(
                "{name}: {} records were lost when it was written",
                recording.lost
            ),
        );
    }
    if recording.unreadable > 0 {
        diagnose(
            "warning",
            &format!(
                "{name}: {} lines are no record, and were left out",
                recording.unreadable
            ),
        );
    }
    Ok(text)
}
