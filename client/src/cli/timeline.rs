//! `timeline`: draws a maintenance from audit files.

use std::path::{Path, PathBuf};

use clap::Args;

use super::error::CommandError;
use super::output::{diagnose, print};
use super::record::read_audit;
use crate::picture::{AuditLane, Maintenance, draw};

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(super) struct TimelineArgs {
    /// The files of `watch --audit`, one for each machine; the files before each, FILE.4 to FILE.1, are read first. `-` is
    /// standard input
    #[arg(value_name = "AUDIT", required = true)]
    audits: Vec<PathBuf>,
    /// Draw the maintenance that this event belongs to [default: the last one]
    #[arg(long, value_name = "ID")]
    event: Option<String>,
}

pub(super) fn timeline(args: &TimelineArgs) -> Result<(), CommandError> {
    let mut lanes = Vec::new();
    for path in &args.audits {
        let mut lane = AuditLane::new(machine_of(path));
        let name = read_audit(path, &mut |line| lane.add(line))?;
        if lane.unreadable > 0 {
            diagnose("warning", &format!("{name}: {} lines are no record, and were left out", lane.unreadable));
        }
        lanes.push(lane);
    }
    let maintenance = Maintenance::choose(lanes, args.event.as_deref()).map_err(CommandError::document)?;
    print(draw(&maintenance).as_bytes())
}

/// What a lane is called if its events do not name the machine: the file without its ending.
fn machine_of(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
