//! `timeline`: draws a maintenance from audit files.

use std::path::Path;

use crate::args::TimelineArgs;
use crate::audit_lines::{read_audit, warn_of_missing_lines};
use crate::error::CommandError;
use crate::output::print;
use crate::picture::{AuditLane, Maintenance, draw};

pub(crate) fn timeline(args: &TimelineArgs) -> Result<(), CommandError> {
    let mut lanes = Vec::new();
    for path in &args.audits {
        let mut lane = AuditLane::new(machine_of(path));
        let name = read_audit(path, &mut |line| lane.add(line))?;
        warn_of_missing_lines(&name, 0, lane.unreadable);
        lanes.push(lane);
    }
    let maintenance =
        Maintenance::choose(lanes, args.event.as_deref()).map_err(CommandError::document)?;
    print(draw(&maintenance).as_bytes())
}

/// The name of a lane if its events do not name the machine: the file's name without its extension.
fn machine_of(path: &Path) -> String {
    path.file_stem()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
