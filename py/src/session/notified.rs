//! The order of the notifications that a session of Python gets.

use pyo3::prelude::*;
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events_core::{
    Arrival, EventId, Notification, NotificationOrder, SessionSource, Text,
};

use crate::errors;

/// The order of a session's notifications; `None` if its source is documents alone.
pub(crate) struct Notified(Option<Box<NotificationOrder<EVENTS_MAX>>>);

impl Notified {
    pub(crate) fn new(source: SessionSource) -> Self {
        Self((source != SessionSource::Documents).then(|| Box::new(NotificationOrder::new())))
    }

    /// Whether the notification is new, repeated or late.
    pub(crate) fn arrival(&mut self, notification: &Notification<'_>) -> Arrival {
        self.0
            .as_mut()
            .map_or(Arrival::New, |order| order.observe(notification))
    }

    /// Records that an event is over.
    pub(crate) fn end(&mut self, event_id: &str) {
        if let Some(order) = &mut self.0 {
            order.end(&EventId::new(&Text::plain(event_id)));
        }
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
