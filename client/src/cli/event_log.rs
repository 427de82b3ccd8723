//! The Event Log of Windows: entries for this machine's events and for diagnostics, with ids that never change.
//!
//! Entries are added once [`open`] was called: by a service, and by `watch --event-log`.

use std::sync::OnceLock;

use scheduled_events_core::Change;
use scheduled_events_core::record::EventMembers;
use scheduled_events_windows::event_log::{EventLog, Level};

use super::error::CommandError;
use super::format::{cell, printable, sentence};
use super::service::NAME;
use crate::record::{HookOutcome, Record, TimedRecord};

static LOG: OnceLock<EventLog> = OnceLock::new();

/// What an entry is about. The numbers are public: alerts select by them. docs/windows.md lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Watching = 100,
    Stopped = 101,
    Scheduled = 110,
    Started = 111,
    StartedWithoutNotice = 112,
    Rescheduled = 113,
    Updated = 114,
    Completed = 115,
    Cancelled = 116,
    Ended = 117,
    Decision = 120,
    Approved = 130,
    NotApproved = 131,
    Prepared = 140,
    NotPrepared = 141,
    Recovered = 150,
    NotRecovered = 151,
    Problem = 160,
    Untracked = 161,
    Note = 200,
    Warning = 201,
    Error = 202,
    CommandOutput = 210,
}

impl Entry {
    const fn level(self) -> Level {
        match self {
            Self::Error => Level::Error,
            Self::Started
            | Self::StartedWithoutNotice
            | Self::NotApproved
            | Self::NotPrepared
            | Self::NotRecovered
            | Self::Problem
            | Self::Untracked
            | Self::Warning => Level::Warning,
            _ => Level::Information,
        }
    }

    const fn of_change(change: Change) -> Self {
        match change {
            Change::Scheduled => Self::Scheduled,
            Change::Started => Self::Started,
            Change::StartedWithoutNotice => Self::StartedWithoutNotice,
            Change::Rescheduled => Self::Rescheduled,
            Change::Updated => Self::Updated,
            Change::Completed => Self::Completed,
            Change::Cancelled => Self::Cancelled,
            Change::Ended => Self::Ended,
        }
    }
}

/// From now on, entries are added.
///
/// # Errors
/// Windows refuses the log.
pub(super) fn open() -> Result<(), CommandError> {
    let log =
        EventLog::open(NAME).map_err(|error| CommandError::usage(format!("cannot open the Event Log: {error}")))?;
    let _ = LOG.set(log);
    Ok(())
}

/// Adds an entry. Without the log nothing is lost: it has what standard output, standard error and the audit file have.
pub(super) fn add(entry: Entry, text: &str) {
    if let Some(log) = LOG.get() {
        let _ = log.report(entry.level(), entry as u32, text);
    }
}

/// Adds a diagnostic. A label that is no severity is that of a command's output.
pub(super) fn diagnostic(label: &str, message: &str) {
    match label {
        "error" => add(Entry::Error, &printable(message)),
        "warning" => add(Entry::Warning, &printable(message)),
        "note" => add(Entry::Note, &printable(message)),
        _ => add(Entry::CommandOutput, &format!("{label}: {}", printable(message))),
    }
}

/// Adds a record, unless it is about another machine's event.
pub(super) fn record(timed: &TimedRecord<'_>) {
    if LOG.get().is_none() {
        return;
    }
    match &timed.record {
        Record::Change { change, event } if event.mine != Some(false) => {
            let start = event.not_before.map_or(String::new(), |time| format!("; starts at {time}"));
            let text = event.description.map(|text| sentence(&text.to_string())).filter(|text| !text.is_empty());
            let text = text.map_or(String::new(), |text| format!("; {text}"));
            add(Entry::of_change(*change), &format!("{}: {}{start}{text}", change.word(), named(event)));
        }
        Record::Decision { action, reason, event, .. } if event.mine != Some(false) => {
            add(Entry::Decision, &format!("{}: {}; {reason}", action.word(), named(event)));
        }
        Record::Approval { status, events, .. } => {
            let (entry, word) = match status {
                Some(200..=299) => (Entry::Approved, "approved"),
                _ => (Entry::NotApproved, "not approved"),
            };
            let status = status.map_or("no response".to_owned(), |status| format!("status {status}"));
            for event in *events {
                add(entry, &format!("{word}: {}; {status}", named(event)));
            }
        }
        Record::Prepare { outcome: Some(outcome), event } => match outcome {
            HookOutcome::Ready => add(Entry::Prepared, &format!("prepared: {}", named(event))),
            _ => add(Entry::NotPrepared, &format!("not prepared: {}; {}", named(event), outcome.word())),
        },
        Record::Recover { outcome: Some(outcome), event, .. } => match outcome {
            HookOutcome::Done | HookOutcome::NoCommand | HookOutcome::DryRun => {
                add(Entry::Recovered, &format!("recovered: {}; {}", named(event), outcome.word()));
            }
            _ => add(Entry::NotRecovered, &format!("not recovered: {}; {}", named(event), outcome.word())),
        },
        Record::Problem { event, member, kind, .. } => {
            let place = event.map_or("the document".to_owned(), |event| format!("event {event}"));
            let member = member.map_or(String::new(), |member| format!(", {member}"));
            add(Entry::Problem, &format!("problem: {place}{member}: {}", kind.word()));
        }
        Record::Untracked { own, others } => {
            let text = format!("untracked: {own} events of this machine and {others} of others are not followed");
            add(Entry::Untracked, &text);
        }
        // Failed polls are notes.
        _ => {}
    }
}

fn named(event: &EventMembers<'_>) -> String {
    let event_type = event.event_type.map_or("-".to_owned(), |word| cell(&word.to_string()));
    format!("{event_type} {}", sentence(&event.event_id.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_id() {
        let page = include_str!("../../../docs/windows.md");
        for change in Change::ALL {
            let id = Entry::of_change(change) as u32;
            assert!(page.contains(&format!("| {id} | `{}` |", change.word())), "{id} {change}");
        }
        for entry in [
            Entry::Watching,
            Entry::Stopped,
            Entry::Decision,
            Entry::Approved,
            Entry::NotApproved,
            Entry::Prepared,
            Entry::NotPrepared,
            Entry::Recovered,
            Entry::NotRecovered,
            Entry::Problem,
            Entry::Untracked,
            Entry::Note,
            Entry::Warning,
            Entry::Error,
            Entry::CommandOutput,
        ] {
            assert!(page.contains(&format!("\n| {} | ", entry as u32)), "{entry:?}");
        }
    }
}
