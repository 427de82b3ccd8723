//! Records that are read: the same [`Record`] that the watcher wrote.

use scheduled_events_core::record::{GateOutcome, HookOutcome, Record};
use scheduled_events_core::{Change, GatePhase, UnixSeconds};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::EventRecord;

/// A record of a watcher about events, as a line of its audit file has it: a change, a gate's answer, a preparation, a recovery or
/// an approval.
///
/// ```
/// use scheduled_events::record::{HookOutcome, ReadRecord, Record};
///
/// let line = r#"{"record":"prepare","event_id":"a","outcome":"ready","mine":true,"sequence":7}"#;
/// let read = ReadRecord::from_line(line).unwrap();
/// read.with(|record| {
///     assert!(matches!(record, Record::Prepare { outcome: HookOutcome::Ready, event, .. } if event.event_id == "a"));
/// });
/// assert!(ReadRecord::from_line(r#"{"record":"gap","lost":7}"#).is_none()); // about no event
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ReadRecord {
    kind: Kind,
    event: EventRecord,
    /// The events of an approval or a recovery.
    event_ids: Vec<String>,
    /// The events of an approval.
    events: Vec<EventRecord>,
}

/// What a record has besides its events.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Change(Change),
    Gate(GatePhase, GateOutcome),
    Prepare(HookOutcome, Option<u32>),
    Recover(Option<HookOutcome>),
    Approval(Option<u16>),
}

/// The members of all kinds.
#[derive(Deserialize)]
struct Line {
    record: String,
    change: Option<String>,
    phase: Option<String>,
    outcome: Option<String>,
    attempt: Option<u32>,
    status: Option<u16>,
    #[serde(default)]
    event_ids: Vec<String>,
    #[serde(default)]
    events: Vec<EventRecord>,
    #[serde(default)]
    event_id: String,
    event_type: Option<String>,
    event_status: Option<String>,
    resource_type: Option<String>,
    resources: Option<Vec<String>>,
    not_before: Option<UnixSeconds>,
    description: Option<String>,
    event_source: Option<String>,
    duration_in_seconds: Option<u32>,
    mine: Option<bool>,
}

impl ReadRecord {
    /// The record of this line; `None` if it is about no event, or no record.
    ///
    /// A later version may write other words. They mean what claims least: an update of the event, a gate that is closed, a command
    /// that failed.
    pub fn from_line(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        let outcome = |word: &Option<String>| known(word.as_deref(), HookOutcome::Failed);
        let kind = match line.record.as_str() {
            "change" => Kind::Change(known(line.change.as_deref(), Change::Updated)),
            "gate" => Kind::Gate(
                known(line.phase.as_deref(), GatePhase::Prepare),
                known(line.outcome.as_deref(), GateOutcome::Closed),
            ),
            "prepare" => Kind::Prepare(outcome(&line.outcome), line.attempt),
            "recover" => Kind::Recover(line.outcome.is_some().then(|| outcome(&line.outcome))),
            "approval" => Kind::Approval(line.status),
            _ => return None,
        };
        Some(Self {
            kind,
            event: EventRecord {
                event_id: line.event_id,
                event_type: line.event_type,
                event_status: line.event_status,
                resource_type: line.resource_type,
                resources: line.resources,
                not_before: line.not_before,
                description: line.description,
                event_source: line.event_source,
                duration_in_seconds: line.duration_in_seconds,
                mine: line.mine,
            },
            event_ids: line.event_ids,
            events: line.events,
        })
    }

    /// Calls `then` with the record.
    pub fn with<R>(&self, then: impl FnOnce(&Record<'_>) -> R) -> R {
        let names = self.event.resource_names();
        let event = self.event.members(names.as_deref());
        let event_ids: Vec<_> = self.event_ids.iter().map(String::as_str).collect();
        match self.kind {
            Kind::Change(change) => then(&Record::Change { change, event }),
            Kind::Gate(phase, outcome) => then(&Record::Gate {
                phase,
                outcome,
                event,
            }),
            Kind::Prepare(outcome, attempt) => then(&Record::Prepare {
                outcome,
                attempt,
                event,
            }),
            Kind::Recover(outcome) => then(&Record::Recover {
                event_ids: &event_ids,
                outcome,
                event,
            }),
            Kind::Approval(status) => {
                let names: Vec<_> = self
                    .events
                    .iter()
                    .map(EventRecord::resource_names)
                    .collect();
                let events = self.events.iter().zip(&names);
                let events: Vec<_> = events
                    .map(|(event, names)| event.members(names.as_deref()))
                    .collect();
                then(&Record::Approval {
                    event_ids: &event_ids,
                    status,
                    events: &events,
                })
            }
        }
    }
}

/// The variant with this word; without one, `otherwise`.
fn known<'a, T: Deserialize<'a>>(word: Option<&'a str>, otherwise: T) -> T {
    let read = word.map(|word| {
        let word: StrDeserializer<'a, Error> = word.into_deserializer();
        T::deserialize(word)
    });
    read.and_then(Result::ok).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::record::EXAMPLES;

    use super::super::write_json;
    use super::*;

    fn written(record: &Record<'_>) -> String {
        let mut line = Vec::new();
        write_json(&record.at(UnixSeconds(0)), &mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_record_that_is_read_is_the_one_that_was_written() {
        let mut kinds = Vec::new();
        for example in EXAMPLES {
            let line = written(example);
            if let Some(read) = ReadRecord::from_line(&line) {
                assert_eq!(read.with(written), line);
                kinds.push(example.kind());
            }
        }
        assert_eq!(kinds, ["change", "approval", "prepare", "gate", "recover"]);
        let begins = r#"{"record":"recover","event_ids":["a"],"outcome":null}"#;
        let read = ReadRecord::from_line(begins).unwrap();
        read.with(|record| assert!(matches!(record, Record::Recover { outcome: None, .. })));
    }

    #[test]
    fn a_word_of_a_later_version_claims_least() {
        let read = |line: &str| ReadRecord::from_line(line).unwrap().kind;
        for (line, expected) in [
            (
                r#"{"record":"change","change":"postponed"}"#,
                Kind::Change(Change::Updated),
            ),
            (
                r#"{"record":"gate","outcome":"ajar"}"#,
                Kind::Gate(GatePhase::Prepare, GateOutcome::Closed),
            ),
            (
                r#"{"record":"recover","outcome":"half-done"}"#,
                Kind::Recover(Some(HookOutcome::Failed)),
            ),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
        for line in ["", "7", "{}", "not a record", r#"{"record":"x"}"#] {
            assert_eq!(ReadRecord::from_line(line), None, "{line}");
        }
    }
}
