//! What a run has to say: typed records, one JSON object a line for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use scheduled_events_core::{
    Action, Change, Decision, Document, Event, Member, Position, Problem, ProblemKind, TrackedEvent, TrackedStatus,
    UnixSeconds, VmNames,
};
use serde::{Deserialize, Serialize};

/// One record. Serialised, it is an object whose first member, `record`, tells the kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A document was read.
    Document {
        /// Its incarnation: a number, a string or null.
        incarnation: serde_json::Value,
        /// How many events it holds.
        events: usize,
        /// How many problems it has.
        problems: usize,
    },
    /// An event of the document.
    Event(EventRecord),
    /// Something odd in the document.
    Problem {
        /// Index in the `Events` array; null for the document itself.
        event: Option<usize>,
        /// The member concerned.
        member: Option<Member>,
        /// What is odd.
        kind: ProblemKind,
        /// The line, from 1.
        line: u32,
        /// The column in characters, from 1.
        column: u32,
    },
    /// An event changed.
    Change {
        /// What changed.
        change: Change,
        /// The event.
        event_id: String,
        /// Its type.
        event_type: Option<String>,
        /// Its status, the last one known.
        event_status: Option<&'static str>,
        /// Its start, the last one known.
        not_before: Option<UnixSeconds>,
        /// Whether it concerns this machine.
        mine: Option<bool>,
        /// When the change was seen.
        time: UnixSeconds,
    },
    /// What is done about an event.
    Decision {
        /// The event.
        event_id: String,
        /// What is done.
        action: Action,
        /// The rule that says so, from 1.
        rule: Option<u16>,
        /// Why.
        reason: String,
    },
    /// An approval was answered; the status is null where no answer came.
    Approval {
        /// The events.
        event_ids: Vec<String>,
        /// The status of the answer.
        status: Option<u16>,
    },
    /// A preparation ended.
    Prepare {
        /// The event.
        event_id: String,
        /// How it ended.
        outcome: &'static str,
    },
    /// A recovery ended.
    Recover {
        /// The event.
        event_id: String,
        /// How it ended.
        outcome: &'static str,
    },
    /// A poll failed; nothing ended by that.
    PollFailed {
        /// Why, as a word.
        cause: String,
        /// Milliseconds until the next poll.
        retry_in_ms: u32,
    },
    /// More events are announced than can be followed.
    Untracked {
        /// This machine's own.
        own: usize,
        /// Other machines'.
        others: usize,
    },
    /// A scenario that the replay server knows.
    Scenario {
        /// Its name.
        name: String,
        /// What it shows.
        about: String,
    },
}

/// An event with all its members; what the document does not say is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are the wire's own.
pub struct EventRecord {
    pub event_id: String,
    pub event_type: Option<String>,
    pub event_status: Option<String>,
    pub resource_type: Option<String>,
    pub resources: Option<Vec<String>>,
    pub not_before: Option<UnixSeconds>,
    pub description: Option<String>,
    pub event_source: Option<String>,
    pub duration_in_seconds: Option<u32>,
    pub mine: Option<bool>,
}

impl EventRecord {
    /// Copies an event out of its document.
    pub fn new(event: &Event<'_>, names: VmNames<'_>) -> Self {
        Self {
            event_id: event.event_id().to_string(),
            event_type: event.event_type().map(|word| word.to_string()),
            event_status: event.event_status().map(|word| word.to_string()),
            resource_type: event.resource_type().map(|text| text.to_string()),
            resources: event
                .resources()
                .is_present()
                .then(|| event.resources().iter().map(|name| name.to_string()).collect()),
            not_before: event.not_before().moment(),
            description: event.description().map(|text| text.to_string()),
            event_source: event.event_source().map(|word| word.to_string()),
            duration_in_seconds: event.duration_in_seconds(),
            mine: names.owns(event),
        }
    }

    /// What is known of an event whose document is not at hand.
    pub fn of_tracked(event: &TrackedEvent) -> Self {
        Self {
            event_id: event.event_id().to_string(),
            event_type: Some(event.event_type().to_owned()).filter(|word| !word.is_empty()),
            event_status: status_word(event.status()).map(str::to_owned),
            not_before: event.not_before(),
            duration_in_seconds: event.duration_in_seconds(),
            mine: event.mine(),
            ..Self::default()
        }
    }

    /// The members as pairs of names and texts, for a command's environment; what is unknown is left out. Resources are
    /// joined with commas, which no resource's name contains.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("EVENT_ID", self.event_id.clone())];
        let mut add = |name, value: Option<String>| variables.extend(value.map(|value| (name, value)));
        add("EVENT_TYPE", self.event_type.clone());
        add("EVENT_STATUS", self.event_status.clone());
        add("RESOURCE_TYPE", self.resource_type.clone());
        add("RESOURCES", self.resources.as_ref().map(|names| names.join(",")));
        add("NOT_BEFORE", self.not_before.map(|moment| moment.to_string()));
        add("DESCRIPTION", self.description.clone());
        add("EVENT_SOURCE", self.event_source.clone());
        add("DURATION_IN_SECONDS", self.duration_in_seconds.map(|seconds| seconds.to_string()));
        add("MINE", self.mine.map(|mine| mine.to_string()));
        variables
    }
}

/// Whether a character would act on a terminal, or turn or hide the text around it.
pub(crate) fn acts_on_terminals(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn status_word(status: TrackedStatus) -> Option<&'static str> {
    match status {
        TrackedStatus::Unclear => None,
        TrackedStatus::Scheduled => Some("Scheduled"),
        TrackedStatus::Started => Some("Started"),
    }
}

impl Record {
    /// The document's own record.
    pub fn document(document: &Document<'_>) -> Self {
        Self::Document {
            incarnation: serde_json::to_value(document.incarnation()).unwrap_or_default(),
            events: document.events().len(),
            problems: document.problems().count(),
        }
    }

    /// A problem, with its place in `body`, from which its document was parsed.
    pub fn problem(problem: &Problem, body: &[u8]) -> Self {
        let Position { line, column, .. } = Position::of(body, problem.offset);
        Self::Problem { event: problem.event, member: problem.member, kind: problem.kind, line, column }
    }

    /// A change, seen at `time`.
    pub fn change(change: Change, event: &TrackedEvent, time: UnixSeconds) -> Self {
        Self::Change {
            change,
            event_id: event.event_id().to_string(),
            event_type: Some(event.event_type().to_owned()).filter(|word| !word.is_empty()),
            event_status: status_word(event.status()),
            not_before: event.not_before(),
            mine: event.mine(),
            time,
        }
    }

    /// A decision about the event of this id.
    pub fn decision(decision: &Decision, event_id: &str) -> Self {
        Self::Decision {
            event_id: event_id.to_owned(),
            action: decision.action,
            rule: decision.rule,
            reason: decision.reason.to_string(),
        }
    }

    /// Writes the record as one line of JSON.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write_json(&self, mut output: impl Write) -> io::Result<()> {
        let mut line = String::new();
        for char in serde_json::to_string(self)?.chars() {
            if acts_on_terminals(char) {
                // JSON may escape any character of a string, and outside of strings there is none of these.
                let _ = write!(line, "\\u{:04x}", u32::from(char));
            } else {
                line.push(char);
            }
        }
        line.push('\n');
        output.write_all(line.as_bytes())?;
        output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(record: &Record) -> String {
        let mut line = Vec::new();
        record.write_json(&mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn records_are_spelt_as_documented() {
        let records = [
            (
                Record::Document { incarnation: 2.into(), events: 1, problems: 0 },
                r#"{"record":"document","incarnation":2,"events":1,"problems":0}"#,
            ),
            (
                Record::Event(EventRecord { event_id: "a".into(), mine: Some(true), ..EventRecord::default() }),
                r#"{"record":"event","event_id":"a","event_type":null,"event_status":null,"resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":true}"#,
            ),
            (
                Record::Problem {
                    event: Some(0),
                    member: Some(Member::NotBefore),
                    kind: ProblemKind::UnreadableTime,
                    line: 1,
                    column: 203,
                },
                r#"{"record":"problem","event":0,"member":"NotBefore","kind":"unreadable-time","line":1,"column":203}"#,
            ),
            (
                Record::Approval { event_ids: vec!["a".into()], status: Some(200) },
                r#"{"record":"approval","event_ids":["a"],"status":200}"#,
            ),
            (
                Record::Prepare { event_id: "a".into(), outcome: "ready" },
                r#"{"record":"prepare","event_id":"a","outcome":"ready"}"#,
            ),
            (
                Record::PollFailed { cause: "timeout".into(), retry_in_ms: 1000 },
                r#"{"record":"poll-failed","cause":"timeout","retry_in_ms":1000}"#,
            ),
        ];
        for (record, expected) in records {
            assert_eq!(line(&record).trim_end(), expected);
        }
    }

    #[test]
    fn what_would_act_on_a_terminal_is_escaped_and_means_the_same() {
        let id = "Zoë\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{feff}";
        let record = Record::Approval { event_ids: vec![id.into()], status: None };
        let line = line(&record);
        assert!(line.contains(r"Zoë\u001b[2J\u009b2J\u007f\u202e\ufeff"), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["event_ids"][0], id);
    }

    #[test]
    fn an_event_survives_being_written_and_read() {
        let body = br#"{"Events":[{"EventId":"a","NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Resources":["x\n"]}]}"#;
        let document = Document::parse(body).unwrap();
        let record = EventRecord::new(&document.events().next().unwrap(), VmNames::UNKNOWN);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<EventRecord>(&text).unwrap(), record);
    }
}
