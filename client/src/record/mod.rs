//! Records as JSON Lines, and events that outlive their document.
//!
//! [`scheduled_events_core::record`] defines the records; `docs/use/records.md` describes them.

mod read;

use std::io::{self, Write};

use scheduled_events_core::record::{EventMembers, PrintableJson, ResourceList};
use scheduled_events_core::{Event, EventId, Text, TrackedEvent, UnixSeconds, VmNames};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use read::ReadRecord;
pub use scheduled_events_core::record::{GateOutcome, HookOutcome, Record, TimedRecord};

/// Writes a record as one line of JSON, with all characters escaped that are unsafe to print.
///
/// # Errors
/// Those of the output.
///
/// ```
/// use scheduled_events::record::{Record, write_json};
///
/// let mut line = Vec::new();
/// write_json(&Record::Approval { event_ids: &["a\u{202e}"], status: Some(200), events: &[] }, &mut line)?;
/// assert_eq!(line, b"{\"record\":\"approval\",\"event_ids\":[\"a\\u202e\"],\"status\":200,\"events\":[]}\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_json(record: &impl Serialize, mut output: impl Write) -> io::Result<()> {
    let json = serde_json::to_string(record)?;
    output.write_all(format!("{}\n", PrintableJson(&json)).as_bytes())?;
    output.flush()
}

/// An event that outlives its document: an owned copy of [`EventMembers`], for the state file and for hooks.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events_core::{Document, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","EventType":"Reboot","Resources":["web_0","web_1"]}]}"#.to_vec();
/// let document = Document::parse(&body)?;
/// let event = EventRecord::new(&document.events().next().unwrap(), VmNames::new(&["web_0"]));
/// drop(body); // the record remains
/// assert_eq!((event.event_id.as_str(), event.mine), ("a", Some(true)));
///
/// let names = event.resource_names();
/// assert_eq!(names.as_deref(), Some(&["web_0", "web_1"][..]));
/// assert!(event.members(names.as_deref()).event_type.is_some_and(|word| word == "Reboot"));
///
/// let variables = event.variables();
/// assert!(variables.contains(&("RESOURCES".to_owned(), "web_0,web_1".to_owned())));
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The members are those of `EventMembers`.
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
        Self::from(&EventMembers::from_event(event, names))
    }

    /// Copies what a tracker keeps of an event.
    ///
    /// ```
    /// use scheduled_events::record::EventRecord;
    /// use scheduled_events_core::{Document, Tracker, UnixSeconds, VmNames};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled"}]}"#)?;
    /// let mut tracker = Tracker::<16>::new();
    /// let mut records = Vec::new();
    /// tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, event| records.push(EventRecord::of_tracked(event)))?;
    /// assert_eq!(records[0].event_status.as_deref(), Some("Scheduled"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_tracked(event: &TrackedEvent) -> Self {
        Self::from(&EventMembers::from_tracked(event))
    }

    /// All that is known of a tracked event whose newest record this is: of the status, `NotBefore` and whether it is this
    /// machine's, the tracker knows more. See [`EventMembers::with_newest`].
    ///
    /// ```
    /// use scheduled_events::record::EventRecord;
    /// use scheduled_events_core::{Document, Tracker, UnixSeconds, VmNames};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Started","Description":"Reboot"}]}"#)?;
    /// let newest = EventRecord::new(&document.events().next().unwrap(), VmNames::UNKNOWN);
    /// let (mut tracker, mut records) = (Tracker::<16>::new(), Vec::new());
    /// let on_change = |_, event: &_| records.push(newest.with_tracked(event));
    /// tracker.observe(&document, VmNames::new(&["web_0"]), UnixSeconds(700), on_change)?;
    /// assert_eq!((records[0].mine, records[0].description.as_deref()), (Some(false), Some("Reboot")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_tracked(&self, event: &TrackedEvent) -> Self {
        let names = self.resource_names();
        let newest = Some(self.members(names.as_deref()));
        Self {
            // A tracker cuts an id that is too long to be approved.
            event_id: self.event_id.clone(),
            ..Self::from(&EventMembers::from_tracked(event).with_newest(newest))
        }
    }

    /// The names in `resources`, for [`members`](Self::members).
    pub fn resource_names(&self) -> Option<Vec<&str>> {
        self.resources
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect())
    }

    /// The event as records show it; `names` are its [`resource_names`](Self::resource_names).
    pub fn members<'a>(&'a self, names: Option<&'a [&'a str]>) -> EventMembers<'a> {
        let text = |text: &'a Option<String>| text.as_deref().map(Text::plain);
        EventMembers {
            event_id: Text::plain(&self.event_id),
            event_type: text(&self.event_type),
            event_status: text(&self.event_status),
            resource_type: text(&self.resource_type),
            resources: names.map(ResourceList::Names),
            not_before: self.not_before,
            description: text(&self.description),
            event_source: text(&self.event_source),
            duration_in_seconds: self.duration_in_seconds,
            mine: self.mine,
        }
    }

    /// The members as names in upper case and texts, for a command's environment. Unknown members are left out.
    /// Resources are joined with commas, which no resource's name contains.
    pub fn variables(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(members)) = serde_json::to_value(self) else {
            return Vec::new();
        };
        let variable = |(name, value): (String, Value)| {
            let text = match value {
                Value::Null => return None,
                Value::String(text) => text,
                Value::Array(names) => names
                    .iter()
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join(","),
                // Not `to_string`, which brings a writer with indentation, too.
                value => serde_json::to_string(&value).unwrap_or_default(),
            };
            Some((name.to_ascii_uppercase(), text))
        };
        members.into_iter().filter_map(variable).collect()
    }
}

/// An event id as a map key. Ids are compared without ASCII case, and long ones as the session shortens them.
///
/// ```
/// use scheduled_events::record::event_key;
///
/// assert_eq!(event_key("C7061BAC-AFDC"), event_key("c7061bac-afdc"));
/// ```
pub fn event_key(event_id: &str) -> String {
    EventId::new(&Text::plain(event_id))
        .as_str()
        .to_ascii_lowercase()
}

impl From<&EventMembers<'_>> for EventRecord {
    fn from(event: &EventMembers<'_>) -> Self {
        let text = |text: Option<Text<'_>>| text.map(|text| text.to_string());
        Self {
            event_id: event.event_id.to_string(),
            event_type: text(event.event_type),
            event_status: text(event.event_status),
            resource_type: text(event.resource_type),
            resources: event
                .resources
                .map(|names| names.iter().map(|name| name.to_string()).collect()),
            not_before: event.not_before,
            description: text(event.description),
            event_source: text(event.event_source),
            duration_in_seconds: event.duration_in_seconds,
            mine: event.mine,
        }
    }
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::Document;
    use scheduled_events_core::record::EXAMPLES;

    use super::*;

    fn line(record: &impl Serialize) -> String {
        let mut line = Vec::new();
        write_json(record, &mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn unsafe_characters_are_escaped_and_mean_the_same() {
        let id = "Zoë\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{feff}\u{e0001}";
        let line = line(&Record::Approval {
            event_ids: &[id],
            status: None,
            events: &[],
        });
        assert!(
            line.contains(r"Zoë\u001b[2J\u009b2J\u007f\u202e\ufeff\udb40\udc01"),
            "{line}"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&line).unwrap()["event_ids"][0],
            id
        );
    }

    #[test]
    fn an_owned_event_is_written_as_core_writes_it() {
        let Some(Record::Event { event }) = EXAMPLES.iter().find(|record| record.kind() == "event")
        else {
            panic!("an example of an event")
        };
        let owned = EventRecord::from(event);
        assert_eq!(line(&owned), line(event));
        let names = owned.resource_names();
        assert_eq!(line(&owned.members(names.as_deref())), line(event));
        let unknown = EventRecord {
            event_id: "a".into(),
            ..EventRecord::default()
        };
        assert_eq!(line(&unknown), line(&unknown.members(None)));
    }

    #[test]
    fn an_event_survives_being_written_and_read() {
        let body = br#"{"Events":[{"EventId":"a","NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Resources":["x\n"]}]}"#;
        let document = Document::parse(body).unwrap();
        let record = EventRecord::new(&document.events().next().unwrap(), VmNames::UNKNOWN);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<EventRecord>(&text).unwrap(), record);
    }

    #[test]
    fn variables_are_the_known_members_as_text() {
        let event = EventRecord {
            event_id: "a".into(),
            resources: Some(vec!["vm_0".into(), "vm_1".into()]),
            not_before: Some(UnixSeconds(0)),
            duration_in_seconds: Some(5),
            mine: Some(false),
            ..EventRecord::default()
        };
        let variables = event.variables();
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            variables,
            [
                ("DURATION_IN_SECONDS", "5"),
                ("EVENT_ID", "a"),
                ("MINE", "false"),
                ("NOT_BEFORE", "1970-01-01T00:00:00Z"),
                ("RESOURCES", "vm_0,vm_1"),
            ]
        );
    }
}
