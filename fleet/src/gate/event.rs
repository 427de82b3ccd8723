//! What the gate must know of an event.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::names::Name;

/// The most characters of an event's id: more than any that Azure was seen to use.
const ID_MAX: usize = 64;

/// An event, as the command's hooks get it on their standard input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "HookEvent")]
pub struct Event {
    /// The event's id, in lower case.
    pub id: String,
    /// What happens, such as `Reboot`.
    pub event_type: String,
    /// The machines that it affects.
    pub resources: BTreeSet<Name>,
    /// Whether Azure waits for an approval so shortly that taking turns would be in vain: a `Preempt`.
    pub is_urgent: bool,
    /// When Azure starts it at the latest; `None` if that is unknown.
    pub not_before: Option<Timestamp>,
}

#[derive(Deserialize)]
struct HookEvent {
    event_id: String,
    event_type: Option<String>,
    resources: Option<Vec<Name>>,
    not_before: Option<String>,
}

impl From<HookEvent> for Event {
    fn from(event: HookEvent) -> Self {
        let resources = event.resources.unwrap_or_default().into_iter().collect();
        let not_before = event.not_before.and_then(|text| text.parse().ok());
        Self { not_before, ..Self::new(&event.event_id, &event.event_type.unwrap_or_default(), resources) }
    }
}

impl Event {
    /// An event of this id and type that affects these machines, at an unknown time.
    pub fn new(id: &str, event_type: &str, resources: BTreeSet<Name>) -> Self {
        let is_urgent = event_type == "Preempt";
        Self { id: id.to_ascii_lowercase(), event_type: event_type.to_owned(), resources, is_urgent, not_before: None }
    }

    /// The key of the event's register. Another type, or other machines, make it another register: what was decided for the
    /// event as it was says nothing about the event as it is. The incarnation is not part of it: it changes with any other event.
    ///
    /// ```
    /// use scheduled_events_fleet::gate::Event;
    ///
    /// let event = |resources: &[&str]| Event::new("C7061BAC", "Reboot", resources.iter().map(|&name| name.into()).collect());
    /// assert_eq!(event(&["b", "A"]).key(), event(&["a", "B", "b"]).key());
    /// assert_ne!(event(&["a", "b"]).key(), event(&["a"]).key());
    /// ```
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.event_type.as_bytes());
        for resource in &self.resources {
            hash.update([0]);
            hash.update(resource.as_str().to_ascii_lowercase());
        }
        format!("{}{}", events_prefix(&self.id), hex(&hash.finalize()[..12]))
    }
}

/// What the keys of an event's registers begin with, by its id in lower case.
pub fn events_prefix(id: &str) -> String {
    format!("events/{}/", id_key(id))
}

/// An event's id as part of a register's key. An id that is not of the usual form is hashed: it is data from outside.
fn id_key(id: &str) -> String {
    let usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=ID_MAX).contains(&id.len()) && id.bytes().all(usual) {
        return id.to_owned();
    }
    format!("sha256-{}", hex(&Sha256::digest(id.as_bytes())[..12]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are paths in the folder engine, and an id is data from outside.
    #[test]
    fn an_id_that_is_not_of_the_usual_form_is_hashed() {
        let long = "a".repeat(ID_MAX + 1);
        let unusual = ["", ".", "..", "../../etc/x", "/etc/x", "a/b", "a.b", "a\0b", "a b", "\u{e9}", &long];
        let prefixes: BTreeSet<_> = unusual.iter().map(|id| events_prefix(id)).collect();
        assert_eq!(prefixes.len(), unusual.len(), "they are distinct: {prefixes:?}");
        for id in unusual {
            let key = Event::new(id, "Reboot", ["../x".into()].into()).key();
            assert!(key.starts_with(&events_prefix(id)) && key.len() <= 200, "{key}");
            let parts: Vec<_> = key.split('/').collect();
            assert!(parts.len() == 3 && parts[0] == "events" && parts[1].starts_with("sha256-"), "{id:?}: {key}");
            assert!(parts[1..].concat().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{key}");
        }
        assert_eq!(events_prefix(&long[1..]), format!("events/{}/", &long[1..]));
        let id = "368d8799-233c-4d16-8e3a-0c6c6ab4efec";
        assert_eq!(events_prefix(id), format!("events/{id}/"));
    }
}
