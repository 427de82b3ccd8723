//! The members of an event that the gate needs.

use std::collections::BTreeSet;

use jiff::Timestamp;
use scheduled_events::record::EventRecord;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use scheduled_events_common::hexadecimal::hexadecimal;
use scheduled_events_common::names::Name;

/// The most characters of an event's id: more than Azure is known to use.
const ID_MAX: usize = 64;

/// An event, as the command's hooks get it on their standard input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "HookEvent")]
pub struct Event {
    /// The event's id, in lower case.
    pub id: String,
    /// The id as the service wrote it, for people.
    pub written_id: String,
    /// The type, such as `Reboot`.
    pub event_type: String,
    /// How many seconds it interrupts the machines; `None` if that is unknown.
    pub duration: Option<u64>,
    /// The machines that it affects.
    pub resources: BTreeSet<Name>,
    /// Whether Azure waits for an approval only so briefly that taking turns would be useless: a
    /// `Preempt`.
    pub is_urgent: bool,
    /// Whether it is advice, which is never approved, and may never come.
    pub is_advice: bool,
    /// When Azure starts it at the latest; `None` if that is unknown.
    pub not_before: Option<Timestamp>,
}

#[derive(Deserialize)]
struct HookEvent {
    event_id: String,
    event_type: Option<String>,
    event_status: Option<String>,
    duration_in_seconds: Option<i64>,
    resources: Option<Vec<Name>>,
    not_before: Option<String>,
}

impl From<HookEvent> for Event {
    fn from(event: HookEvent) -> Self {
        let resources = event.resources.unwrap_or_default().into_iter().collect();
        let not_before = event.not_before.and_then(|text| text.parse().ok());
        // Azure's -1 is an unknown duration.
        let duration = event
            .duration_in_seconds
            .and_then(|seconds| seconds.try_into().ok());
        Self {
            duration,
            not_before,
            ..Self::new(
                &event.event_id,
                &event.event_type.unwrap_or_default(),
                resources,
            )
        }
        .with_status(event.event_status.as_deref())
    }
}

impl From<&EventRecord> for Event {
    fn from(event: &EventRecord) -> Self {
        let resources = event.resources.iter().flatten();
        let resources = resources.map(|name| Name::from(name.as_str())).collect();
        Self {
            duration: event.duration_in_seconds.map(u64::from),
            not_before: event
                .not_before
                .and_then(|time| Timestamp::from_second(time.0).ok()),
            ..Self::new(
                &event.event_id,
                event.event_type.as_deref().unwrap_or_default(),
                resources,
            )
        }
        .with_status(event.event_status.as_deref())
    }
}

impl Event {
    /// An event of this id and type that affects these machines, at an unknown time and for an
    /// unknown duration.
    pub fn new(id: &str, event_type: &str, resources: BTreeSet<Name>) -> Self {
        let is_urgent = event_type == "Preempt";
        let is_advice = event_type == "SpotRebalanceRecommendation";
        let (written_id, event_type) = (id.to_owned(), event_type.to_owned());
        Self {
            id: id.to_ascii_lowercase(),
            written_id,
            event_type,
            duration: None,
            resources,
            is_urgent,
            is_advice,
            not_before: None,
        }
    }

    /// The event with this status: `Advisory` says of any type that it is advice.
    fn with_status(mut self, status: Option<&str>) -> Self {
        self.is_advice |= status == Some("Advisory");
        self.is_urgent &= !self.is_advice;
        self
    }

    /// When Azure starts it at the latest, as registers have it: in seconds since 1970.
    pub(super) fn not_before_seconds(&self) -> Option<u64> {
        self.not_before
            .map(|time| u64::try_from(time.as_second()).unwrap_or_default())
    }

    /// The key of the event's register. An event that changes keeps it, so that each machine has one
    /// mark for the event, whatever it was when the mark was made.
    ///
    /// ```
    /// use scheduled_events_gate::event::Event;
    ///
    /// let event = |kind| Event::new("C7061BAC", kind, ["a".into()].into());
    /// assert_eq!(event("Reboot").key(), event("Redeploy").key());
    /// ```
    pub fn key(&self) -> String {
        format!("{}{REGISTER}", events_prefix(&self.id))
    }
}

/// The end of the key of an event's register. Earlier versions of this program have a hash of the event there.
const REGISTER: &str = "event";

/// The prefix of the keys of an event's registers, from its id in lower case.
pub fn events_prefix(id: &str) -> String {
    format!("events/{}/", id_key(id))
}

/// An event's id as part of a register's key. An id that is not of the usual form is hashed: it is
/// data from outside.
fn id_key(id: &str) -> String {
    let usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=ID_MAX).contains(&id.len()) && id.bytes().all(usual) {
        return id.to_owned();
    }
    format!(
        "sha256-{}",
        hexadecimal(&Sha256::digest(id.as_bytes())[..12])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_with_and_without_json() {
        let record = EventRecord {
            event_id: "E".into(),
            event_type: Some("Preempt".into()),
            resources: Some(vec!["a".into(), "B".into()]),
            not_before: Some(scheduled_events_core::UnixSeconds(1_649_716_018)),
            duration_in_seconds: Some(5),
            ..EventRecord::default()
        };
        for record in [record, EventRecord::default()] {
            let json = serde_json::to_string(&record).expect("JSON");
            let of_json: Event = serde_json::from_str(&json).expect("an event");
            assert_eq!(Event::from(&record), of_json, "{json}");
        }
    }

    /// Keys are paths in the folder engine, and an id is data from outside.
    #[test]
    fn an_id_that_is_not_of_the_usual_form_is_hashed() {
        let long = "a".repeat(ID_MAX + 1);
        let unusual = [
            "",
            ".",
            "..",
            "../../etc/x",
            "/etc/x",
            "a/b",
            "a.b",
            "a\0b",
            "a b",
            "\u{e9}",
            &long,
        ];
        let prefixes: BTreeSet<_> = unusual.iter().map(|id| events_prefix(id)).collect();
        assert_eq!(
            prefixes.len(),
            unusual.len(),
            "they are distinct: {prefixes:?}"
        );
        for id in unusual {
            let key = Event::new(id, "Reboot", ["../x".into()].into()).key();
            assert!(
                key.starts_with(&events_prefix(id)) && key.len() <= 200,
                "{key}"
            );
            let parts: Vec<_> = key.split('/').collect();
            assert!(
                parts.len() == 3 && parts[0] == "events" && parts[1].starts_with("sha256-"),
                "{id:?}: {key}"
            );
            assert!(
                parts[1..]
                    .concat()
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
                "{key}"
            );
        }
        assert_eq!(events_prefix(&long[1..]), format!("events/{}/", &long[1..]));
        let id = "368d8799-233c-4d16-8e3a-0c6c6ab4efec";
        assert_eq!(events_prefix(id), format!("events/{id}/"));
    }
}
