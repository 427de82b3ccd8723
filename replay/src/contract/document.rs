//! What a single document shows.

use std::fmt;

use scheduled_events_core::api_version::Feature;
use scheduled_events_core::wire::UNDERSCORED_API_VERSION;
use scheduled_events_core::{EventKind, UnixSeconds};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{ServiceRule, Sightings};
use crate::capture::CapturedExchange;
use crate::resource::is_guid;

/// The members of an event in the order of the documents.
const MEMBERS: [(&str, Option<Feature>); 9] = [
    ("EventId", None),
    ("EventStatus", None),
    ("EventType", None),
    ("ResourceType", None),
    ("Resources", None),
    ("NotBefore", None),
    ("Description", Some(Feature::Description)),
    ("EventSource", Some(Feature::EventSource)),
    ("DurationInSeconds", Some(Feature::DurationInSeconds)),
];

/// The characters of an RFC 1123 date.
const DATE_LENGTH: usize = 29;

/// A document, as it was sent.
#[derive(Clone, Debug)]
pub(super) struct WireDocument {
    pub(super) incarnation: Option<u64>,
    pub(super) events: Vec<WireEvent>,
}

/// The members of an event that others depend on. Ids are in upper case, since they are compared without case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireEvent {
    pub(super) id: String,
    pub(super) event_type: String,
    pub(super) status: Status,
    pub(super) not_before: Option<UnixSeconds>,
    /// All members, for comparing.
    members: Vec<(String, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Scheduled,
    Started,
    Other,
}

/// An object's members in their order.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Body {
    document_incarnation: Value,
    events: Vec<Members>,
}

/// Reads a document, and notes what it shows. `None` if it is none.
pub(super) fn read(body: &str, version: &str, sightings: &mut Sightings) -> Option<WireDocument> {
    let read = serde_json::from_str::<Body>(body);
    sightings.note(ServiceRule::Document, read.is_ok(), || {
        read.as_ref()
            .err()
            .map_or_else(String::new, |error| format!("found no document: {error}"))
    });
    let Body {
        document_incarnation,
        events,
    } = read.ok()?;
    let incarnation = document_incarnation.as_u64();
    sightings.note(ServiceRule::Incarnation, incarnation.is_some(), || {
        format!("found {document_incarnation}")
    });
    sightings.note(ServiceRule::Compact, is_compact(body), || {
        "found white space between them".to_owned()
    });
    let events = events
        .into_iter()
        .map(|members| event(members, version, sightings))
        .collect();
    Some(WireDocument {
        incarnation,
        events,
    })
}

fn event(Members(members): Members, version: &str, sightings: &mut Sightings) -> WireEvent {
    names_of_members(&members, version, sightings);
    let member = |name: &str| {
        let found = members.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    };
    let text = |name: &str| member(name).and_then(Value::as_str);
    let status = match text("EventStatus") {
        Some("Scheduled") => Status::Scheduled,
        Some("Started") => Status::Started,
        _ => Status::Other,
    };
    let event_type = text("EventType").unwrap_or_default();
    let is_advice =
        event_type == "SpotRebalanceRecommendation" || text("EventStatus") == Some("Advisory");
    let mut check = |rule, name: &str, is_kept: &dyn Fn(&Value) -> bool| {
        if let Some(value) = member(name) {
            sightings.note(rule, is_kept(value), || format!("found {name} {value}"));
        }
    };
    check(ServiceRule::EventId, "EventId", &|value| {
        value
            .as_str()
            .is_some_and(|id| is_guid(id) && !id.bytes().any(|byte| byte.is_ascii_lowercase()))
    });
    check(ServiceRule::EventType, "EventType", &|value| {
        value.as_str().is_some_and(|word| has_type(word, version))
    });
    check(ServiceRule::EventStatus, "EventStatus", &|_| {
        status != Status::Other || is_advice
    });
    check(ServiceRule::ResourceType, "ResourceType", &|value| {
        value == "VirtualMachine"
    });
    check(ServiceRule::Resources, "Resources", &|value| {
        let names = value.as_array().filter(|names| !names.is_empty());
        names.is_some_and(|names| {
            let is_name = |name: &Value| name.as_str().is_some_and(|name| !name.is_empty());
            names.iter().all(is_name)
        })
    });
    check(ServiceRule::Underscore, "Resources", &|value| {
        let mut names = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let expected = version == UNDERSCORED_API_VERSION;
        names.all(|name| name.starts_with('_') == expected)
    });
    match status {
        Status::Scheduled if !is_advice => check(ServiceRule::NotBefore, "NotBefore", &|value| {
            value.as_str().is_some_and(is_date)
        }),
        Status::Started => check(ServiceRule::NotBeforeBlank, "NotBefore", &|value| {
            value == ""
        }),
        _ => {}
    }
    check(ServiceRule::Description, "Description", &Value::is_string);
    check(ServiceRule::EventSource, "EventSource", &|value| {
        value == "Platform" || value == "User"
    });
    check(ServiceRule::Duration, "DurationInSeconds", &|value| {
        value.as_i64().is_some_and(|seconds| seconds >= -1)
    });
    WireEvent {
        id: text("EventId").unwrap_or_default().to_ascii_uppercase(),
        event_type: event_type.to_owned(),
        status,
        not_before: text("NotBefore").and_then(UnixSeconds::parse),
        members,
    }
}

/// Checks which members there are, and their order.
fn names_of_members(members: &[(String, Value)], version: &str, sightings: &mut Sightings) {
    let has = |since: &Option<Feature>| since.is_none_or(|feature| feature.is_in(version));
    let expected: Vec<_> = MEMBERS
        .iter()
        .filter(|(_, since)| has(since))
        .map(|(name, _)| *name)
        .collect();
    let found: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    let missing = expected.iter().find(|name| !found.contains(name));
    sightings.note(ServiceRule::Members, missing.is_none(), || {
        format!("found no {} at {version}", missing.unwrap_or(&""))
    });
    let other = found.iter().find(|name| !expected.contains(name));
    sightings.note(ServiceRule::OtherMembers, other.is_none(), || {
        format!("found {:?} at {version}", other.unwrap_or(&""))
    });
    let known: Vec<_> = found
        .iter()
        .filter(|name| expected.contains(name))
        .collect();
    let in_order: Vec<_> = expected
        .iter()
        .filter(|name| found.contains(name))
        .collect();
    sightings.note(ServiceRule::MemberOrder, known == in_order, || {
        format!("found {}", found.join(", "))
    });
}

/// Whether documents of this version have events of this type.
fn has_type(word: &str, version: &str) -> bool {
    let kind = match word {
        "Freeze" => EventKind::Freeze,
        "Reboot" => EventKind::Reboot,
        "Redeploy" => EventKind::Redeploy,
        "Preempt" => EventKind::Preempt,
        "Terminate" => EventKind::Terminate,
        "SpotRebalanceRecommendation" => EventKind::SpotRebalanceRecommendation,
        _ => return false,
    };
    Feature::Events(kind).is_in(version)
}

fn is_date(text: &str) -> bool {
    text.len() == DATE_LENGTH && text.ends_with(" GMT") && UnixSeconds::parse(text).is_some()
}

/// Whether valid JSON has no white space outside its texts.
fn is_compact(json: &str) -> bool {
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        if in_text {
            in_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            return false;
        } else {
            in_text = byte == b'"';
        }
    }
    true
}

/// The version of a document, for comparing only what is comparable.
pub(super) fn version_of(exchange: &CapturedExchange) -> String {
    exchange.api_version().unwrap_or_default().to_owned()
}
