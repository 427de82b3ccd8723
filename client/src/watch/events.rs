//! The tracked events with all their members. The session keeps only what it needs to decide.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{Document, EventId, Session, Text, TrackedEvent, VmNames};

use crate::limits::EVENTS_MAX;
use crate::record::{EventRecord, event_key};

/// The newest record of each tracked event.
#[derive(Default)]
pub(super) struct EventRecords(HashMap<String, EventRecord>);

impl EventRecords {
    pub(super) fn new(events: Vec<EventRecord>) -> Self {
        Self(
            events
                .into_iter()
                .map(|event| (event_key(&event.event_id), event))
                .collect(),
        )
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Copies the document's events. A known `NotBefore` is kept where the document has none, as for Started events; and so is the
    /// case in which an id was first seen, which the session posts.
    pub(super) fn apply(&mut self, document: &Document<'_>, names: VmNames<'_>) {
        for event in document.events() {
            let mut record = EventRecord::new(&event, names);
            let key = event_key(&record.event_id);
            if let Some(known) = self.0.get(&key) {
                record.not_before = record.not_before.or(known.not_before);
                if known.event_id.eq_ignore_ascii_case(&record.event_id) {
                    record.event_id.clone_from(&known.event_id);
                }
            }
            self.0.insert(key, record);
        }
    }

    /// Drops the events that are not tracked any more.
    pub(super) fn retain_tracked(&mut self, session: &Session<EVENTS_MAX>) {
        if self.0.len() > session.events().count() {
            let tracked = session.events().chain(session.recovering());
            let tracked: HashSet<_> = tracked
                .map(|event| event_key(event.event_id().as_str()))
                .collect();
            self.0.retain(|key, _| tracked.contains(key));
        }
    }

    pub(super) fn get(&self, event_id: &str) -> Option<&EventRecord> {
        self.0.get(&event_key(event_id))
    }

    /// The record of a tracked event: the members of its newest document, or those that the session keeps.
    pub(super) fn of(&self, event: &TrackedEvent) -> EventRecord {
        let Some(mut record) = self.get(event.event_id().as_str()).cloned() else {
            return EventRecord::of_tracked(event);
        };
        record.update(event);
        record
    }

    /// The record of the event of this id, which is written as it is here. Of an event that is known no more, only the id is
    /// left.
    pub(super) fn named(&self, event_id: &str, session: &Session<EVENTS_MAX>) -> EventRecord {
        let id = EventId::new(&Text::plain(event_id));
        let tracked = session
            .events()
            .chain(session.recovering())
            .find(|event| *event.event_id() == id);
        let known = tracked
            .map(|event| self.of(event))
            .or_else(|| self.get(event_id).cloned());
        EventRecord {
            event_id: event_id.to_owned(),
            ..known.unwrap_or_default()
        }
    }

    /// The records of the tracked events, and of those that are still to be recovered from, ordered by event id.
    pub(super) fn tracked(&self, session: &Session<EVENTS_MAX>) -> Vec<EventRecord> {
        let tracked = session.events().chain(session.recovering());
        let records = tracked.filter_map(|event| self.get(event.event_id().as_str()));
        let mut events: Vec<_> = records.cloned().collect();
        events.sort_by(|one, other| one.event_id.cmp(&other.event_id));
        // A tracked event may also be one to recover from.
        events.dedup_by(|one, other| one.event_id == other.event_id);
        events
    }
}
