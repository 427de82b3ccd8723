//! `timeline`: draws a maintenance from audit files.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::TimelineArgs;
use crate::audit_lines::{read_audit, warn_of_missing_lines};
use crate::error::CommandError;
use crate::output::print;
use crate::picture::{AuditLane, Maintenance, draw};

pub(crate) fn timeline(args: &TimelineArgs) -> Result<(), CommandError> {
    let mut lanes: Vec<AuditLane> = Vec::new();
    for path in &args.audits {
        let (mut lane, first) = (AuditLane::new(machine_of(path, &args.audits)), lanes.len());
        let before = unreadable_in(&lanes);
        // Which of the lanes the last line was for; that of lines without a machine.
        let mut current = None;
        let mut number = 0;
        let name = read_audit(path, &mut |line| {
            number += u64::from(!line.trim().is_empty());
            let Some(machine) = machine_in(line) else {
                return current
                    .map_or(&mut lane, |index| &mut lanes[index])
                    .add(line);
            };
            let known = lanes.iter().position(|lane| lane.is_of(&machine));
            let index = known.unwrap_or_else(|| {
                let mut new = AuditLane::new(machine.clone());
                // What this file has from before its watcher knew the name, or from an earlier version.
                if lanes.len() == first {
                    std::mem::swap(&mut new, &mut lane);
                }
                lanes.push(new.of(machine));
                lanes.len() - 1
            });
            current = Some(index);
            lanes[index].add(line);
        })?;
        let unreadable = lane.unreadable + unreadable_in(&lanes) - before;
        if number > 0 && unreadable == number {
            return Err(CommandError::document(format!(
                "{name}: it has no record of a watcher; expected the file of `watch --audit`, or the output of `watch --json`"
            )));
        }
        warn_of_missing_lines(&name, 0, unreadable);
        if current.is_none() || !lane.is_empty() {
            lanes.push(lane);
        }
    }
    let maintenance =
        Maintenance::choose(lanes, args.event.as_deref()).map_err(CommandError::document)?;
    print(draw(&maintenance).as_bytes())
}

/// How many lines of these lanes are no record.
fn unreadable_in(lanes: &[AuditLane]) -> u64 {
    lanes.iter().map(|lane| lane.unreadable).sum()
}

/// The name of the machine that this record names.
fn machine_in(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct OfMachine {
        machine: Option<String>,
    }

    serde_json::from_str::<OfMachine>(line).ok()?.machine
}

/// The name of a lane if neither its records nor its events name the machine: the file's name without its extension, with the folder if
/// several files have that name.
fn machine_of(path: &Path, all: &[PathBuf]) -> String {
    let stem = |path: &Path| {
        path.file_stem()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let name = stem(path);
    let is_unique = all.iter().filter(|other| stem(other) == name).count() < 2;
    let folder = path.parent().and_then(Path::file_name);
    match folder.filter(|_| !is_unique) {
        Some(folder) => format!("{}/{name}", folder.to_string_lossy()),
        None => name,
    }
}
