//! What a session of Python knows from notifications: their order, and the events in them.

use pyo3::prelude::*;
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events_core::{
    Arrival, Document, EventId, Notification, NotificationOrder, NotificationOutcome, Session,
    SessionSource, UnixMillis,
};

use crate::errors;

/// The notifications of a session so far.
pub(crate) struct Notified {
    /// `None` if the source is documents alone.
    order: Option<Box<NotificationOrder<EVENTS_MAX>>>,
    /// The JSON object of each event that is followed, as it was in its newest notification before the end.
    objects: Vec<(EventId, String)>,
    /// These objects as a document.
    body: Vec<u8>,
}

impl Notified {
    pub(crate) fn new(source: SessionSource) -> Self {
        let order =
            (source != SessionSource::Documents).then(|| Box::new(NotificationOrder::new()));
        Self {
            order,
            objects: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Passes a notification on to the session.
    pub(crate) fn apply(
        &mut self,
        session: &mut Session<EVENTS_MAX>,
        notification: &Notification<'_>,
        now: UnixMillis,
    ) -> NotificationOutcome {
        let arrival = self
            .order
            .as_mut()
            .map_or(Arrival::New, |order| order.observe(notification));
        let outcome = session.on_notification(notification, arrival, now);
        if outcome == NotificationOutcome::Applied && !notification.state().is_end() {
            let event_id = EventId::new(&notification.event().event_id());
            self.objects.retain(|(id, _)| *id != event_id);
            self.objects
                .push((event_id, notification.event().object().to_owned()));
            // To look for each of them takes long with many events.
            let followed = || session.events().chain(session.recovering());
            if self.objects.len() > followed().count() {
                self.objects
                    .retain(|(id, _)| followed().any(|event| event.event_id() == id));
            }
            let objects: Vec<_> = self
                .objects
                .iter()
                .map(|(_, object)| object.as_str())
                .collect();
            self.body = format!(r#"{{"Events":[{}]}}"#, objects.join(",")).into_bytes();
        }
        outcome
    }

    /// Records that an event is over.
    pub(crate) fn end(&mut self, event_id: &EventId) {
        if let Some(order) = &mut self.order {
            order.end(event_id);
        }
    }

    /// The events as a document, if there were any.
    pub(crate) fn document(&self) -> Option<Document<'_>> {
        Document::parse(&self.body).ok()
    }
}

/// The source of this word.
pub(crate) fn source_of(py: Python<'_>, word: &str) -> PyResult<SessionSource> {
    let found = SessionSource::ALL
        .into_iter()
        .find(|known| known.word() == word);
    let words = || SessionSource::ALL.map(SessionSource::word).join(", ");
    found.ok_or_else(|| {
        errors::config(
            py,
            &format!("unknown source {word:?}; expected one of {}", words()),
        )
    })
}
