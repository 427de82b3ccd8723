//! The tracked events with all their members. The session keeps only what it needs to decide.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{Document, Event, EventId, Session, Text, TrackedEvent, VmNames};

use crate::record::{EventRecord, event_key};

/// The newest record of each event of a session, by the event's id.
///
/// ```
/// use scheduled_events::session::EventRecords;
/// use scheduled_events_core::{Document, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
///
/// let (names, now) = (VmNames::new(&["vm"]), UnixMillis(1_600_000_000_000));
/// let (mut session, mut events) = (Session::<16>::new(&SessionConfig::new(names))?, EventRecords::default());
/// assert!(matches!(session.take_step(now), Step::Get { .. }));
/// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","Resources":["vm"],"Description":"Host update"}]}"#;
/// session.on_response_with(&Response { status: 200, body, ..Response::default() }, now, |document| events.apply(document, names));
/// let event = events.of(session.events().next().unwrap());
/// assert_eq!(event.description.as_deref(), Some("Host update")); // the session does not keep it
/// assert_eq!(event.mine, Some(true));
///
/// // By the id in any case; an id that nobody knows has a record without other members.
/// assert_eq!((events.len(), events.is_empty(), events.get("A").is_some()), (1, false, true));
/// assert_eq!(events.named("b", &session).description, None);
/// // What a state file holds, and what is kept in memory.
/// assert_eq!(events.tracked(&session).len(), 1);
/// events.retain_tracked(&session);
/// // An event that comes without a document, as in a notification.
/// events.insert(&Document::parse(body).unwrap().events().next().unwrap(), names);
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventRecords(HashMap<String, EventRecord>);

impl EventRecords {
    /// The records that a state file holds.
    pub fn new(events: Vec<EventRecord>) -> Self {
        Self(
            events
                .into_iter()
                .map(|event| (event_key(&event.event_id), event))
                .collect(),
        )
    }

    /// How many events are known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no event is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies the document's events.
    pub fn apply(&mut self, document: &Document<'_>, names: VmNames<'_>) {
        for event in document.events_for(names) {
            self.insert(&event, names);
        }
    }

    /// Copies an event of a document or of a notification. A known `NotBefore` is kept where the event has none, as after its start;
    /// and so is the case in which an id was first seen, which the session posts.
    pub fn insert(&mut self, event: &Event<'_>, names: VmNames<'_>) {
        let mut record = EventRecord::new(event, names);
        let key = event_key(&record.event_id);
        if let Some(known) = self.0.get(&key) {
            record.not_before = record.not_before.or(known.not_before);
            if known.event_id.eq_ignore_ascii_case(&record.event_id) {
                record.event_id.clone_from(&known.event_id);
            }
        }
        self.0.insert(key, record);
    }

    /// Drops the events that the session does not track any more.
    pub fn retain_tracked<const N: usize>(&mut self, session: &Session<N>) {
        if self.0.len() > session.events().count() {
            let tracked = session.events().chain(session.recovering());
            let tracked: HashSet<_> = tracked
                .map(|event| event_key(event.event_id().as_str()))
                .collect();
            self.0.retain(|key, _| tracked.contains(key));
        }
    }

    /// The newest record of the event of this id.
    pub fn get(&self, event_id: &str) -> Option<&EventRecord> {
        self.0.get(&event_key(event_id))
    }

    /// All that is known of a tracked event: the members of its newest document, and what the session keeps.
    pub fn of(&self, event: &TrackedEvent) -> EventRecord {
        let newest = self.get(event.event_id().as_str());
        newest.map_or_else(
            || EventRecord::of_tracked(event),
            |newest| newest.with_tracked(event),
        )
    }

    /// The record of the event of this id, which is written as it is here. Of an event that is known no more, only the id is
    /// left.
    pub fn named<const N: usize>(&self, event_id: &str, session: &Session<N>) -> EventRecord {
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
    pub fn tracked<const N: usize>(&self, session: &Session<N>) -> Vec<EventRecord> {
        let tracked = session.events().chain(session.recovering());
        let records = tracked.filter_map(|event| self.get(event.event_id().as_str()));
        let mut events: Vec<_> = records.cloned().collect();
        events.sort_by(|one, other| one.event_id.cmp(&other.event_id));
        // A tracked event may also be one to recover from.
        events.dedup_by(|one, other| one.event_id == other.event_id);
        events
    }
}
