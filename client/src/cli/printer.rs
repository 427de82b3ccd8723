//! Prints the records and notes of a watcher: as JSON Lines, or as lines for people.

use std::fmt::Display;

use anstyle::Style;
use scheduled_events_core::record::{EventMembers, ResourceList};
use scheduled_events_core::{Change, UnixSeconds};

use super::format::{BAD, CAUTION, DIM, GOOD, PLAIN, action_style, duration, from_now, names, printable, time_of_day};
use super::output::{diagnose, print_progress, print_progress_record};
use crate::record::{EventRecord, HookOutcome, Record, TimedRecord};
use crate::watch::Note;

/// The column at which lines below a record start.
const INDENT: usize = 25;

/// Prints the records and notes of a watcher.
pub(super) struct RecordPrinter {
    pub(super) json: bool,
}

impl RecordPrinter {
    /// Prints a record; `event` is the one that it is about, if it is about one.
    pub(super) fn record(&self, timed: &TimedRecord<'_>, event: Option<&EventRecord>) {
        if self.json {
            print_progress_record(timed);
            return;
        }
        let event_type = event.and_then(|event| event.event_type.as_deref()).unwrap_or("-");
        let line = |word: &str, style: Style, event_type: &dyn Display, id: &dyn Display, rest: &str| {
            let time = time_of_day(timed.time);
            let (event_type, id) = (printable(&event_type.to_string()), printable(&id.to_string()));
            let line = format!("{DIM}{time}{DIM:#}  {style}{word:<13}{style:#}  {event_type:<9}  {id}  {rest}");
            print_progress(&format!("{}\n", line.trim_end()));
        };
        match &timed.record {
            Record::Change { change, event } => {
                let event_type = event.event_type.map_or("-".to_owned(), |word| word.to_string());
                line(change.word(), change_style(*change), &event_type, &event.event_id, "");
                if !matches!(change, Change::Started) && !change.is_end() {
                    Self::below(&summary(event, timed.time));
                    if let Some(text) = event.description.filter(|text| !text.is_empty()) {
                        Self::below(&printable(&text.to_string()));
                    }
                }
            }
            Record::Decision { event_id, action, rule, reason } => {
                let rule = rule.map_or(String::new(), |rule| format!(" (rule {rule})"));
                line(action.word(), action_style(*action), &event_type, event_id, &format!("{reason}{rule}"));
            }
            Record::Approval { event_ids, status } => {
                let (word, style) = match status {
                    Some(200..=299) => ("approved", GOOD),
                    _ => ("not approved", BAD),
                };
                let status = status.map_or("no response".into(), |status| format!("status {status}"));
                for id in *event_ids {
                    let event_type = if event.is_some_and(|event| event.event_id == *id) { event_type } else { "-" };
                    line(word, style, &event_type, id, &status);
                }
            }
            Record::Prepare { event_id, outcome: Some(outcome) } => {
                let (word, style) = match outcome {
                    HookOutcome::Ready => ("prepared", GOOD),
                    _ => ("not prepared", BAD),
                };
                line(word, style, &event_type, event_id, outcome.word());
            }
            Record::Recover { event_id, outcome: Some(outcome), .. } => {
                let (word, style) = match outcome {
                    HookOutcome::Done => ("recovered", GOOD),
                    HookOutcome::NoCommand | HookOutcome::DryRun => ("recovered", PLAIN),
                    _ => ("not recovered", BAD),
                };
                line(word, style, &event_type, event_id, outcome.word());
            }
            Record::Problem { event, member, kind, line: row, column } => {
                let place = event.map_or("the document".to_owned(), |event| format!("event {event}"));
                let member = member.map_or(String::new(), |member| format!(", {member}"));
                let position = row.zip(*column).map_or(String::new(), |(row, column)| format!(" at {row}:{column}"));
                line("problem", CAUTION, &"-", &format!("{place}{member}: {}{position}", kind.word()), "");
            }
            Record::Untracked { own, others } => {
                let text = format!("too many events: {own} of this machine and {others} of others are not followed");
                line("untracked", BAD, &"-", &text, "");
            }
            // Failed polls are printed as notes.
            _ => {}
        }
    }

    fn below(text: &str) {
        print_progress(&format!("{:INDENT$}{DIM}{text}{DIM:#}\n", ""));
    }

    /// Prints a line below the last record, for people only.
    pub(super) fn remark(&self, text: &str) {
        if !self.json {
            Self::below(text);
        }
    }

    /// Prints a line of its own, for people only.
    pub(super) fn message(&self, text: &str) {
        if !self.json {
            print_progress(&format!("{text}\n"));
        }
    }
}

/// Prints a note of a watcher to standard error.
pub(super) fn print_note(note: &Note) {
    diagnose(note.severity().word(), &note.to_string());
}

const fn change_style(change: Change) -> Style {
    match change {
        Change::Scheduled | Change::Rescheduled | Change::Updated => CAUTION,
        Change::Started | Change::StartedWithoutNotice => BAD,
        Change::Completed | Change::Cancelled | Change::Ended => GOOD,
    }
}

/// What an operator needs first: when, how long, who, where.
fn summary(event: &EventMembers<'_>, now: UnixSeconds) -> String {
    let start = match event.not_before {
        _ if event.event_status.is_some_and(|status| status == "Started") => "in progress".to_owned(),
        Some(time) if time < now => format!("was due {}, at {time}", from_now(time, now)),
        Some(time) => format!("starts {}, at {time}", from_now(time, now)),
        None => "start time unknown".to_owned(),
    };
    let interruption = match event.duration_in_seconds {
        None => "duration unknown".to_owned(),
        Some(0) => "no interruption".to_owned(),
        Some(seconds) => format!("interruption of {}", duration(seconds.into())),
    };
    let source = event.event_source.map(|source| format!("; caused by {}", printable(&source.to_string())));
    let resources: Vec<_> = event.resources.iter().flat_map(ResourceList::iter).collect();
    let whose = match event.mine {
        Some(true) if resources.len() > 1 => " (including this machine)",
        Some(true) => " (this machine)",
        Some(false) => " (not this machine)",
        None => "",
    };
    format!("{start}; {interruption}{}; affects {}{whose}", source.unwrap_or_default(), names(resources))
}
