//! Records as short lines, for people.

use core::fmt::{self, Write};

use super::{EventMembers, HookOutcome, Printable, Record, TimedRecord};
use crate::document::Incarnation;

/// One line with what matters most; `{:?}` has everything. Characters that are unsafe to print are escaped.
///
/// ```
/// use scheduled_events_core::record::{CauseWord, Record};
/// use scheduled_events_core::{Cause, UnixSeconds};
///
/// let record = Record::Approval { event_ids: &["a", "b"], status: Some(200), events: &[] };
/// assert_eq!(record.to_string(), "a, b: approved");
/// let failed = Record::PollFailed { cause: CauseWord(Cause::Timeout), retry_in_ms: 1_000 };
/// assert_eq!(failed.at(UnixSeconds(0)).to_string(), "1970-01-01T00:00:00Z poll failed: timeout; the next one follows in 1000 ms");
/// ```
impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_line(&mut Escaping(f))
    }
}

/// The time, and the line of the record.
impl fmt::Display for TimedRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.time, self.record)
    }
}

/// Escapes what is unsafe to print.
struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write!(self.0, "{}", Printable(text))
    }
}

impl Record<'_> {
    fn write_line(&self, f: &mut impl Write) -> fmt::Result {
        match self {
            Self::Document {
                incarnation,
                events,
                problems,
            } => {
                f.write_str("document")?;
                match incarnation {
                    Incarnation::Number(number) => write!(f, " {number}")?,
                    Incarnation::Text(text) => write!(f, " {text}")?,
                    Incarnation::Absent => {}
                }
                f.write_str(": ")?;
                count(f, *events, "event")?;
                f.write_str(", ")?;
                count(f, *problems, "problem")
            }
            Self::Event { event } => {
                subject(f, event)?;
                if let Some(status) = event.event_status {
                    write!(f, ": {status}")?;
                }
                start(f, event)
            }
            Self::Problem {
                member, kind, line, ..
            } => {
                f.write_str("problem: ")?;
                if let Some(member) = member {
                    write!(f, "{member}: ")?;
                }
                f.write_str(kind.word())?;
                line.map_or(Ok(()), |line| write!(f, " in line {line}"))
            }
            Self::Change { change, event } => {
                subject(f, event)?;
                write!(f, ": {change}")?;
                if change.is_end() {
                    return Ok(());
                }
                start(f, event)
            }
            Self::Decision {
                action,
                reason,
                event,
                ..
            } => {
                subject(f, event)?;
                write!(f, ": {action} ({reason})")
            }
            Self::Approval {
                event_ids, status, ..
            } => {
                list(f, event_ids)?;
                match status {
                    Some(200..=299) => f.write_str(": approved"),
                    Some(status) => write!(f, ": not approved, status {status}"),
                    None => f.write_str(": not approved, no response"),
                }
            }
            Self::Prepare { outcome, event, .. } => {
                subject(f, event)?;
                write!(f, ": prepare {outcome}")
            }
            Self::Gate {
                phase,
                outcome,
                event,
            } => {
                subject(f, event)?;
                write!(f, ": gate {outcome} ({phase})")
            }
            Self::Recover {
                event_ids, outcome, ..
            } => {
                list(f, event_ids)?;
                write!(
                    f,
                    ": recover {}",
                    outcome.map_or("pending", HookOutcome::word)
                )
            }
            Self::PollFailed { cause, retry_in_ms } => {
                write!(
                    f,
                    "poll failed: {cause}; the next one follows in {retry_in_ms} ms"
                )
            }
            Self::Untracked { own, others } => {
                f.write_str("not tracked: ")?;
                count(f, *own, "own event")?;
                write!(f, ", {others} of other machines")
            }
            Self::NoAdvice { api_version } => {
                write!(
                    f,
                    "no advice: the service does not know API version {api_version}"
                )
            }
            Self::Gap { lost, since } => write!(f, "{lost} records are missing since {since}"),
            Self::Status {
                in_service, events, ..
            } => {
                let service = if *in_service { "in" } else { "out of" };
                write!(f, "{service} service, ")?;
                count(f, *events, "event")
            }
            Self::Waiting {
                waits_for, event, ..
            } => {
                subject(f, event)?;
                write!(f, ": waits for {waits_for}")
            }
            Self::Scenario { name, about } => write!(f, "{name}: {about}"),
        }
    }
}

fn count(f: &mut impl Write, number: usize, noun: &str) -> fmt::Result {
    let plural = if number == 1 { "" } else { "s" };
    write!(f, "{number} {noun}{plural}")
}

/// The event's id and type.
fn subject(f: &mut impl Write, event: &EventMembers<'_>) -> fmt::Result {
    if event.event_id.is_empty() {
        f.write_str("(no id)")?;
    }
    write!(f, "{}", event.event_id)?;
    event
        .event_type
        .map_or(Ok(()), |event_type| write!(f, " {event_type}"))
}

/// When the event may start.
fn start(f: &mut impl Write, event: &EventMembers<'_>) -> fmt::Result {
    event
        .not_before
        .map_or(Ok(()), |time| write!(f, ", not before {time}"))
}

fn list(f: &mut impl Write, ids: &[&str]) -> fmt::Result {
    let mut separator = "";
    for id in ids {
        write!(f, "{separator}{id}")?;
        separator = ", ";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::super::EXAMPLES;
    use super::*;
    use crate::time::UnixSeconds;

    #[test]
    fn each_kind_of_record_has_a_line() {
        const FREEZE: &str = "C7061BAC-AFDC-4513-B24B-AA5F13A16123 Freeze: ";
        let lines: Vec<_> = EXAMPLES
            .iter()
            .map(|record| record.to_string().replace(FREEZE, "_"))
            .collect();
        assert_eq!(
            lines,
            [
                "document 2: 1 event, 0 problems",
                "_Scheduled, not before 2022-04-11T22:26:58Z",
                "problem: NotBefore: unreadable-time in line 1",
                "_scheduled, not before 2022-04-11T22:26:58Z",
                "_approve (short interruption)",
                "C7061BAC-AFDC-4513-B24B-AA5F13A16123: approved",
                "_prepare ready",
                "_gate open (approve)",
                "C7061BAC-AFDC-4513-B24B-AA5F13A16123: recover done",
                "poll failed: status-503; the next one follows in 1000 ms",
                "not tracked: 0 own events, 12 of other machines",
                "no advice: the service does not know API version 2024-07-09",
                "17 records are missing since 2022-04-11T22:20:00Z",
                "out of service, 1 event",
                "_waits for preparation",
                "user-reboot: A user restarts this VM in the portal, and the restart waits for the VM's approval.",
            ]
        );
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let record = Record::Approval {
            event_ids: &["a\u{1b}[2J\n"],
            status: None,
            events: &[],
        };
        assert_eq!(
            record.at(UnixSeconds(0)).to_string(),
            r"1970-01-01T00:00:00Z a\u{1b}[2J\u{a}: not approved, no response"
        );
    }
}
