//! The content of a message of the queue or of a row of Resource Graph, kept as received.
//!
//! Core reads it ([`Notifications`]). This module has the copies that outlive a message, and the
//! members that core leaves out, since no decision depends on them: the region and the zone, which
//! hooks receive.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::str::Utf8Error;

use base64::DecodeError;
use scheduled_events::record::{EventRecord, event_key};
use scheduled_events_core::{
    MachineId, Notification, Notifications, ParseError, Position, ResourceId, Text, VmNames,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What identifies an event. Two resources may have events with the same id, which are two events.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    /// The [key](key_of) of the resource that the event is of.
    pub scope: String,
    /// The event's id as a key.
    pub id: String,
}

impl EventKey {
    /// The event of a resource with this key of an id.
    pub fn new(resource_id: &str, key: &str) -> Self {
        Self {
            scope: key_of(resource_id),
            id: key.to_owned(),
        }
    }

    /// The subscription, in lower case.
    pub fn subscription(&self) -> &str {
        self.scope.split('/').next().unwrap_or_default()
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.id, self.scope)
    }
}

/// The content of one message or row about one event.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The message or row, as received.
    pub message: Rc<str>,
    /// The event's id as a key. A machine identifies its events by this alone.
    pub key: String,
    /// Whether it is a row of Resource Graph: the record, where a message is news.
    pub is_row: bool,
    /// The event.
    pub event: EventRecord,
    /// Its state: `scheduled`, `started`, `completed`, `canceled` or another word.
    pub state: String,
    /// Whether it is over.
    pub is_end: bool,
    /// The resource for the approval.
    pub resource_id: String,
    /// The machines that it affects: the id and the name of each.
    pub machines: Vec<(String, String)>,
    /// The names of other machines that it may still affect: it has named them before.
    pub may_be_named: Vec<String>,
    /// The region, empty if unknown.
    pub location: String,
    /// The zone, empty if unknown.
    pub zone: String,
}

/// The content of a body.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    /// The notices about events.
    pub notices: Vec<Notice>,
    /// How many messages and rows are not about events of machines.
    pub left_out: usize,
    /// Why some events are ignored: errors in the ids of their resources, or in one of several
    /// messages or rows.
    pub problems: Vec<String>,
    /// Whether it is a message of the queue.
    pub is_queued: bool,
}

/// Why a message or a row cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoticeError {
    /// It was received this many times, and never deleted.
    NeverDeleted(i64),
    /// A message of the queue is not Base64.
    NotBase64(DecodeError),
    /// It is not UTF-8.
    NotUtf8(Utf8Error),
    /// It is not JSON.
    NotJson(serde_json::Error),
    /// It has not the form of a notification.
    NotNotification(ParseError, Position),
    /// It is about an event of a machine, in a form that this version does not know.
    UnknownForm,
    /// None of its events can be followed.
    NoEvent(Vec<String>),
}

impl fmt::Display for NoticeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverDeleted(received) => {
                write!(f, "it was received {received} times and never deleted")
            }
            Self::NotBase64(error) => write!(f, "it is not Base64: {error}"),
            Self::NotUtf8(error) => write!(f, "it is not UTF-8: {error}"),
            Self::NotJson(error) => write!(f, "it is not JSON: {error}"),
            Self::NotNotification(error, position) => write!(f, "{position}: {}", error.message()),
            Self::UnknownForm => f.write_str(
                "it is about an event of a machine, in a form that is not known: is there a newer version?",
            ),
            Self::NoEvent(problems) => f.write_str(&problems.join("; ")),
        }
    }
}

impl Error for NoticeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotBase64(error) => Some(error),
            Self::NotUtf8(error) => Some(error),
            Self::NotJson(error) => Some(error),
            Self::NotNotification(error, _) => Some(error),
            Self::NeverDeleted(_) | Self::UnknownForm | Self::NoEvent(_) => None,
        }
    }
}

/// Reads a message, an array of messages, or an array of rows.
///
/// # Errors
/// Why the body cannot be read.
pub fn read(body: &[u8]) -> Result<Notices, NoticeError> {
    let mut found = Notices::default();
    let text = std::str::from_utf8(body).map_err(NoticeError::NotUtf8)?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with('[') {
        let messages: Vec<&RawValue> = serde_json::from_str(text).map_err(NoticeError::NotJson)?;
        // A message that cannot be read must not hide the others.
        for (index, message) in messages.into_iter().enumerate() {
            if let Err(why) = found.read(message.get()) {
                found.problems.push(format!(
                    "row or message {} of {} bytes cannot be read: {why}",
                    index + 1,
                    message.get().len()
                ));
            }
        }
    } else {
        found.read(text)?;
    }
    Ok(found)
}

impl Notices {
    fn read(&mut self, message: &str) -> Result<(), NoticeError> {
        let notifications = Notifications::parse(message.as_bytes()).map_err(|error| {
            NoticeError::NotNotification(error, error.position(message.as_bytes()))
        })?;
        if notifications.is_empty() && is_of_a_machine(message) {
            return Err(NoticeError::UnknownForm);
        }
        self.left_out += notifications.left_out();
        let named = with_own_name(message);
        let message: Rc<str> = named.as_deref().unwrap_or(message).into();
        let notifications = Notifications::parse(message.as_bytes()).map_err(|error| {
            NoticeError::NotNotification(error, error.position(message.as_bytes()))
        })?;
        let places = Places::of(&message);
        for notification in &notifications {
            let notice = Notice::new(&notification, &message, &places, &mut self.problems);
            self.notices.extend(notice);
        }
        Ok(())
    }
}

/// Whether a message names an event of a machine, whatever its members are. Messages of other
/// services have other providers.
fn is_of_a_machine(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    [
        "/providers/microsoft.compute/",
        "/providers/microsoft.maintenance/scheduledevents/",
    ]
    .iter()
    .all(|part| message.contains(part))
}

impl Notice {
    /// What identifies its event.
    pub fn event_key(&self) -> EventKey {
        EventKey::new(&self.resource_id, &self.key)
    }

    /// `None` if the resource is none that has events.
    fn new(
        notification: &Notification<'_>,
        message: &Rc<str>,
        places: &Places,
        problems: &mut Vec<String>,
    ) -> Option<Self> {
        let event = EventRecord::new(notification.event(), VmNames::UNKNOWN);
        let mut problem = |why: &dyn fmt::Display| {
            problems.push(format!(
                "event {} of {:?}: {why}",
                event.event_id,
                notification.resource_id().to_string()
            ));
        };
        let resource = notification.resource().map_err(|why| problem(&why)).ok()?;
        let named = notification.machines().map_err(|why| problem(&why)).ok()?;
        let mut machines = Vec::new();
        for machine in named {
            match machine {
                Ok(machine) => machines.push((machine.to_string(), machine.name().to_string())),
                // The other machines are followed. The event is not approved, since this one is
                // never ready.
                Err(why) => problem(&why),
            }
        }
        // A machine that is named twice is one machine.
        let mut seen = HashSet::new();
        machines.retain(|(id, _)| seen.insert(key_of(id)));
        Some(Self {
            message: message.clone(),
            key: event_key(&event.event_id),
            is_row: false,
            state: notification.state().word().to_string(),
            is_end: notification.state().is_end(),
            resource_id: resource.to_string(),
            machines,
            may_be_named: Vec::new(),
            location: places.location.clone(),
            zone: places.zone.clone(),
            event,
        })
    }
}

/// The subscription in the id of a resource, as core writes it:
/// `/subscriptions/ID/resourceGroups/NAME/…`.
pub fn subscription_of(resource_id: &str) -> &str {
    resource_id.split('/').nth(2).unwrap_or_default()
}

/// The resource group in the id of a resource.
pub fn group_of(resource_id: &str) -> &str {
    resource_id.split('/').nth(4).unwrap_or_default()
}

/// What identifies a machine or a set: subscription, group and name, in lower case. A machine of a
/// uniform scale set has an id with its number and one with its name, and is one machine. The key
/// of a set ends with a slash.
pub fn key_of(resource_id: &str) -> String {
    let id = Text::plain(resource_id);
    let key = match (MachineId::parse(id), ResourceId::parse(id)) {
        (Ok(machine), _) => format!(
            "{}/{}/{}",
            machine.subscription(),
            machine.resource_group(),
            machine.name()
        ),
        (_, Ok(set)) => format!(
            "{}/{}/{}/",
            set.subscription(),
            set.resource_group(),
            set.name()
        ),
        _ => resource_id.to_owned(),
    };
    key.to_ascii_lowercase()
}

/// Passes a message's content about an event, if there is any, to the function.
pub fn with_notification<T>(
    message: &str,
    event: &EventKey,
    work: impl FnOnce(&Notification<'_>) -> T,
) -> Option<T> {
    let notifications = Notifications::parse(message.as_bytes()).ok()?;
    let is_it = |notification: &Notification<'_>| {
        event_key(&notification.event().event_id().to_string()) == event.id
            && notification
                .resource()
                .is_ok_and(|resource| key_of(&resource.to_string()) == event.scope)
    };
    notifications
        .iter()
        .find(is_it)
        .map(|notification| work(&notification))
}

/// A message's content about an event, as if the event were over by now.
pub fn ended(message: &str, event: &EventKey) -> Notices {
    let ended = with_members(message, &event.id, |members| {
        members.insert("EventStatus".into(), "Completed".into());
        members.insert(
            "Description".into(),
            "Azure does not have this event any more".into(),
        );
    });
    let mut notices = read(ended.as_bytes()).unwrap_or_default();
    notices
        .notices
        .retain(|notice| notice.event_key() == *event);
    notices
}

/// A message, as it would be if the event had started and were not over.
pub fn started(message: &str, event: &EventKey) -> String {
    with_members(message, &event.id, |members| {
        members.insert("EventStatus".into(), "Started".into());
    })
}

/// A message in which the members of the event with this key are changed, wherever they are.
fn with_members(
    message: &str,
    key: &str,
    change: impl Fn(&mut serde_json::Map<String, Value>) + Copy,
) -> String {
    fn apply(
        value: &mut Value,
        key: &str,
        change: impl Fn(&mut serde_json::Map<String, Value>) + Copy,
    ) {
        match value {
            Value::Array(list) => list.iter_mut().for_each(|value| apply(value, key, change)),
            Value::Object(members) => {
                if members
                    .get("EventId")
                    .and_then(Value::as_str)
                    .is_some_and(|id| event_key(id) == key)
                {
                    change(members);
                }
                members
                    .values_mut()
                    .for_each(|value| apply(value, key, change));
            }
            _ => {}
        }
    }
    let mut found: Value = serde_json::from_str(message).unwrap_or_default();
    apply(&mut found, key, change);
    found.to_string()
}

/// The message with the machine's name in `Resources`, if it is about an event of a machine that it
/// does not list: a session acts only for a machine that is named.
fn with_own_name(message: &str) -> Option<String> {
    let notifications = Notifications::parse(message.as_bytes()).ok()?;
    let mut named = None;
    for notification in &notifications {
        if notification.event().resources().iter().next().is_none()
            && let Ok(machine) = MachineId::parse(notification.resource_id())
        {
            let key = event_key(&notification.event().event_id().to_string());
            let name = machine.name().to_string();
            let text = named.as_deref().unwrap_or(message);
            named = Some(with_members(text, &key, |members| {
                members.insert("Resources".into(), vec![name.as_str()].into());
            }));
        }
    }
    named
}

/// The longest name of a region or a zone, in bytes.
const PLACE_MAX: usize = 100;

/// The location of a message's machines.
#[derive(Debug, Default)]
struct Places {
    location: String,
    zone: String,
}

impl Places {
    /// From a row of Resource Graph, or from the `resourceInfo` of a message.
    fn of(message: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Message {
            location: Value,
            zones: Value,
            data: Value,
        }
        let Message {
            mut location,
            mut zones,
            mut data,
        } = serde_json::from_str(message).unwrap_or_default();
        if let Some(info) = data.get_mut("resourceInfo") {
            (location, zones) = (info["location"].take(), info["zones"].take());
        }
        // Hooks get it as a variable. A value that is too long or has a zero byte would keep them
        // from starting.
        let is_place = |text: &&str| text.len() <= PLACE_MAX && !text.contains(char::is_control);
        let text = |value: &Value| {
            value
                .as_str()
                .filter(is_place)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            location: text(&location),
            zone: text(zones.get(0).unwrap_or(&zones)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute";

    #[test]
    fn a_message_and_a_row_say_the_same() {
        let properties =
            r#"{"EventId":"A","EventStatus":"Started","Resources":["front_3","FRONT_3"]}"#;
        let id = format!(
            "{GROUP}/virtualMachineScaleSets/front/providers/microsoft.maintenance/scheduledevents/A"
        );
        let kind = "microsoft.maintenance/scheduledevents";
        let row = format!(
            r#"[{{"id":"{id}","type":"{kind}","location":"westus2","zones":["2"],"properties":{properties}}}]"#
        );
        let message = format!(
            r#"{{"id":"1","eventType":"Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
            "data":{{"resourceInfo":{{"id":"{id}","type":"{kind}","location":"westus2","zones":["2"],"properties":{properties}}}}}}}"#
        );
        for body in [row, message] {
            let read = read(body.as_bytes()).expect("it can be read");
            let [notice] = &read.notices[..] else {
                panic!("one notice: {read:?}")
            };
            assert_eq!(
                (notice.key.as_str(), notice.state.as_str()),
                ("a", "started")
            );
            assert_eq!(
                (notice.location.as_str(), notice.zone.as_str()),
                ("westus2", "2")
            );
            assert_eq!(
                notice.resource_id,
                format!("{GROUP}/virtualMachineScaleSets/front")
            );
            let machine = format!("{GROUP}/virtualMachineScaleSets/front/virtualMachines/3");
            assert_eq!(notice.machines, [(machine, "front_3".to_owned())]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let why = |body: &[u8]| read(body).expect_err("an error").to_string();
        assert!(why(b"{]").starts_with("1:2: "));
        assert!(why(b"\xff").starts_with("it is not UTF-8"));
        let other = br#"{"type":"microsoft.maintenance/scheduledevents","id":"/x","properties":{"EventId":"A"}}"#;
        let read = read(other).expect("it can be read");
        assert_eq!(
            (read.notices.len(), read.problems.len()),
            (0, 1),
            "{read:?}"
        );
    }
}
