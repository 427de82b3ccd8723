//! The events that are open, according to the records that were forwarded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::Record;

/// How many open events are kept. Beyond that, further ones have no span and are not repeated.
const EVENTS_MAX: usize = 1024;

/// How many steps of an event are kept: the first ones.
const STEPS_MAX: usize = 64;

/// The longest description that is kept, in characters.
const DESCRIPTION_MAX: usize = 512;

/// How many names of machines are kept.
const RESOURCES_MAX: usize = 64;

/// The events that are open, by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpenEvents(BTreeMap<String, OpenEvent>);

/// An event, according to the records that were forwarded. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenEvent {
    /// Its id, as Azure wrote it.
    pub event_id: String,
    /// Its type.
    pub event_type: Option<String>,
    /// Its initiator, the `EventSource`.
    pub event_source: Option<String>,
    /// The names of the machines that it affects.
    pub resources: Vec<String>,
    /// The earliest time at which it starts.
    pub not_before: Option<i64>,
    /// Azure's description.
    pub description: Option<String>,
    /// When its first record was made.
    pub since: i64,
    /// When it was observed to start.
    pub started: Option<i64>,
    /// When it was observed to end.
    pub ended: Option<i64>,
    /// Its steps.
    pub steps: Vec<EventStep>,
}

/// A step of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventStep {
    /// When.
    pub time: i64,
    /// The record's kind, and for a change its kind after a dot.
    pub name: String,
    /// The result, in the record's own words.
    pub outcome: Option<String>,
}

impl OpenEvents {
    /// Applies a record, and returns the event that it is about, as it is afterwards. An event that
    /// is over is removed.
    pub fn apply(&mut self, record: &Record) -> Option<OpenEvent> {
        let id = record.event_id()?;
        let time = record.time("time")?.0;
        // Ids are compared without case.
        let key = id.to_ascii_lowercase();
        let is_known = self.0.contains_key(&key);
        // Only a change opens an event: other records may follow its end.
        if !is_known && (record.kind() != "change" || self.0.len() >= EVENTS_MAX) {
            return None;
        }
        let event = self.0.entry(key.clone()).or_insert_with(|| OpenEvent {
            since: time,
            ..OpenEvent::default()
        });
        event.update(record, id, time);
        if record.is_end() {
            self.0.remove(&key)
        } else {
            Some(event.clone())
        }
    }

    /// The events.
    pub fn iter(&self) -> impl Iterator<Item = &OpenEvent> {
        self.0.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl OpenEvent {
    fn update(&mut self, record: &Record, id: &str, time: i64) {
        let text = |member: &str| record.text(member).map(str::to_owned);
        id.clone_into(&mut self.event_id);
        self.event_type = text("event_type").or(self.event_type.take());
        self.event_source = text("event_source").or(self.event_source.take());
        self.not_before = record
            .time("not_before")
            .map(|time| time.0)
            .or(self.not_before);
        if let Some(description) = record.text("description") {
            self.description = Some(description.chars().take(DESCRIPTION_MAX).collect());
        }
        if let Some(Value::Array(names)) = record.get("resources") {
            let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
            self.resources = names.take(RESOURCES_MAX).collect();
        }
        if matches!(record.change(), Some("started" | "started-without-notice")) {
            self.started = self.started.or(Some(time));
        }
        if record.is_end() {
            self.ended = Some(time);
        }
        if self.steps.len() < STEPS_MAX {
            let name = match record.change() {
                Some(change) => format!("change.{change}"),
                None => record.kind().to_owned(),
            };
            let outcome = ["outcome", "action", "reason"]
                .iter()
                .find_map(|member| text(member));
            self.steps.push(EventStep {
                time,
                name,
                outcome,
            });
        }
    }
}
