//! The files of the options: whether this user can write them, where, and who uses them.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use scheduled_events::files::{check_path, folder_of, sibling};
use scheduled_events::limits::{AUDIT_FILE_MAX, AUDIT_FILES_MAX};
use scheduled_events::state::{InspectError, Inspection};

use super::check::{Check, Finding};
use super::others::check_collector;
use crate::args::WatchArgs;
use crate::output::format::duration;
use crate::own_files::check_files as check_paths;
use crate::platform::{self, LockState};

const MIB: u64 = 1 << 20;

/// What the state and its temporary copy, or the metrics, may need.
const SMALL: u64 = 4 * MIB;

/// What the audit file and those before it may need.
const AUDIT: u64 = (AUDIT_FILES_MAX as u64 + 1) * AUDIT_FILE_MAX;

/// Whether the files can be written. `own_process` is the unit's watcher, which may use them.
pub(super) fn check_files(args: &WatchArgs, own_process: Option<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = check_paths(args) {
        findings.push(Finding::fail(
            Check::State,
            error.message,
            "write another path",
        ));
    }
    findings.extend(match &args.state {
        Some(path) => {
            let mut findings = place(Check::State, path, SMALL);
            findings.extend(lock(Check::State, path, own_process));
            findings.extend(state(path));
            findings
        }
        None => vec![Finding::ok(Check::State, "none")],
    });
    findings.extend(match &args.audit {
        Some(path) => {
            let mut findings = place(Check::Audit, path, AUDIT);
            findings.extend(lock(Check::Audit, path, own_process));
            findings
        }
        None => vec![Finding::ok(Check::Audit, "none")],
    });
    findings.extend(match &args.metrics_file {
        Some(path) => metrics(path, own_process),
        None => vec![Finding::ok(Check::Metrics, "none")],
    });
    findings
}

/// Whether a private file can be written at this path, and whether there is room for it.
fn place(check: Check, path: &Path, needs: u64) -> Vec<Finding> {
    if let Err(error) = check_path(path) {
        let text = error.to_string();
        let (found, advice) = text.split_once("; ").unwrap_or((&text, "see the message"));
        let found = format!("{}: {found}", path.display());
        return vec![Finding::fail(check, found, advice)];
    }
    writable(check, path, needs)
}

/// Whether this user may write the file and its folder, and the room that is left.
fn writable(check: Check, path: &Path, needs: u64) -> Vec<Finding> {
    let folder = folder_of(path);
    let parts = [Some(folder), Some(path).filter(|path| path.exists())];
    for part in parts.into_iter().flatten() {
        if let Err(error) = platform::check_writable(part) {
            let found = format!(
                "cannot write {}{}: {error}",
                part.display(),
                platform::mode_in_words(part)
            );
            let advice = "run the watcher as its owner, or choose a folder that it may write";
            return vec![Finding::fail(check, found, advice)];
        }
    }
    let found = match fs::metadata(path) {
        Ok(_) => format!("{}{}", path.display(), platform::mode_in_words(path)),
        Err(_) => format!("{} does not exist yet", path.display()),
    };
    let mut findings = vec![Finding::ok(check, found)];
    findings.extend(platform::free_space(folder).and_then(|free| room(check, free, needs)));
    findings
}

/// Too little room on the disk.
fn room(check: Check, free: u64, needs: u64) -> Option<Finding> {
    let found = format!(
        "{} KiB are free there, and it may need {} MiB",
        free / 1024,
        needs / MIB
    );
    let advice = "make room on the disk, or choose another one";
    match free {
        // A page or two are written at once.
        0..=65_535 => Some(Finding::fail(check, found, advice)),
        free if free < needs => Some(Finding::warn(check, found, advice)),
        _ => None,
    }
}

/// Another process that uses the file: a second watcher does not start.
fn lock(check: Check, path: &Path, own_process: Option<u32>) -> Option<Finding> {
    let process = match platform::locked_by(&sibling(path, "lock")) {
        LockState::Free => return None,
        LockState::Held(Some(id)) if Some(id) == own_process => {
            return Some(Finding::ok(check, "in use by the unit's watcher"));
        }
        LockState::Held(Some(id)) => format!("process {id}"),
        LockState::Held(None) => "a process".to_owned(),
    };
    Some(Finding::warn(
        check,
        format!("{process} uses it: another watcher with this file does not start"),
        "if that is not the watcher in question, stop it or choose another file",
    ))
}

/// What the state file has, and whether its watcher gets documents.
fn state(path: &Path) -> Option<Finding> {
    let inspection = match Inspection::of(path) {
        Ok(inspection) => inspection,
        // Writing it is checked.
        Err(InspectError::Missing | InspectError::Unreadable(_)) => return None,
        Err(error) => {
            let advice = "a watcher moves it away and starts without state; keep it for a report";
            return Some(Finding::warn(Check::State, format!("it {error}"), advice));
        }
    };
    let age = SystemTime::now()
        .duration_since(inspection.saved)
        .unwrap_or_default();
    let saved = format!("saved {} ago", duration(age.as_secs()));
    let Some(sight) = &inspection.sight else {
        return Some(Finding::ok(Check::State, saved));
    };
    let last = sight
        .last_document
        .map_or("no document yet".to_owned(), |last| {
            let ago = sight.now().since(last).max(0).unsigned_abs();
            format!("last document {} ago", duration(ago))
        });
    let found = format!("{saved}, {last}");
    Some(match sight.overdue() {
        Some(_) => Finding::warn(
            Check::State,
            format!("{found}; the watcher hangs"),
            "restart the watcher",
        ),
        None if sight.blind => Finding::warn(
            Check::State,
            format!("{found}; the watcher gets no documents"),
            "see service, and the watcher's log",
        ),
        None => Finding::ok(Check::State, found),
    })
}

/// The file for Prometheus' `node_exporter`, whose folder may belong to somebody else.
fn metrics(path: &Path, own_process: Option<u32>) -> Vec<Finding> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        let found = format!("there is no folder {}", folder.display());
        let advice = "create it, and start node_exporter with --collector.textfile.directory";
        return vec![Finding::fail(Check::Metrics, found, advice)];
    }
    if path.is_dir() {
        let found = format!("{} is a folder", path.display());
        return vec![Finding::fail(
            Check::Metrics,
            found,
            "write the path of a file",
        )];
    }
    let mut findings = writable(Check::Metrics, path, SMALL);
    // The sandbox of a unit hides other processes: they are looked at outside of it.
    if own_process.is_none() {
        findings.extend(check_collector(path));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduled_events_text::finding::Outcome;

    #[test]
    fn a_full_disk_fails_and_a_nearly_full_one_warns() {
        let outcome = |free| room(Check::Audit, free, AUDIT).map(|finding| finding.outcome);
        assert_eq!(outcome(0), Some(Outcome::Fail));
        assert_eq!(outcome(MIB), Some(Outcome::Warn));
        assert_eq!(outcome(1 << 40), None);
    }
}
