//! What a client was shown of the events whose members a fault changed.
//!
//! An approval is judged by that, not by what the scenario knows: a client that approves what
//! nobody can read must not pass because the event happens to be its own. Only documents that a
//! fault changed are parsed, and those after them, until they show each event as the scenario has
//! it. So a thousand machines cost nothing without such a fault.

use std::collections::HashMap;
use std::time::Duration;

use scheduled_events_core::wire::UNDERSCORED_API_VERSION;
use scheduled_events_core::{Document, Event, EventStatus, Member, VmNames};

use super::exchange::Exchange;
use super::finding::Findings;
use super::rules::Rule;
use crate::http::route;

/// The first bytes of a compressed body.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// An event as the client's last document with it showed it.
#[derive(Clone, Debug)]
pub(crate) struct AlteredEvent {
    /// Since when all documents showed it as it may be approved, or may not.
    since: Duration,
    /// When the last of them was answered.
    last: Duration,
    has_ended: bool,
    /// What forbids an approval: `no Resources`, `an unreadable EventType`.
    pub(crate) unreadable: Option<String>,
    /// Whether readable names include this machine's.
    pub(crate) is_own: bool,
    pub(crate) status: ShownStatus,
    pub(crate) is_advice: bool,
    /// `EventType`, or `event`.
    pub(crate) noun: String,
    pub(crate) resources: Vec<String>,
}

/// `EventStatus`, as far as a verdict depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownStatus {
    Scheduled,
    Started,
    Other,
}

/// The events that a fault changed, by their `EventId` in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlteredEvents(HashMap<String, AlteredEvent>);

impl AlteredEvents {
    /// The event as it was shown before a time, if a fault changed it.
    pub(crate) fn before(&self, at: Duration, event_id: &str) -> Option<&AlteredEvent> {
        // A document may have been answered while a request was in progress.
        self.get(event_id).filter(|shown| shown.since < at)
    }

    /// The event as the document of this answer showed it.
    pub(crate) fn in_answer(
        &self,
        exchange: &Exchange<'_>,
        event_id: &str,
    ) -> Option<&AlteredEvent> {
        self.get(event_id)
            .filter(|shown| shown.last == exchange.answered)
    }

    /// Notes that an event has ended: later documents do not have it.
    pub(crate) fn ended(&mut self, event_id: &str) {
        if let Some(shown) = self.0.get_mut(&event_id.to_ascii_lowercase()) {
            shown.has_ended = true;
        }
    }

    /// Applies the document of an answer.
    pub(crate) fn exchange(
        &mut self,
        exchange: &Exchange<'_>,
        machine: &str,
        findings: &mut Findings,
    ) {
        let Some(body) = exchange.document else {
            return;
        };
        if !exchange.is_altered && self.0.values().all(|shown| shown.has_ended) {
            return;
        }
        if body.starts_with(&GZIP) {
            // Whether a client reads it is unknown.
            return self.0.clear();
        }
        let Some(events) = read(body, exchange, machine) else {
            return;
        };
        for (id, mut shown) in events {
            if !exchange.is_altered {
                self.0.remove(&id);
                continue;
            }
            if exchange.is_intact && shown.unreadable.is_some() {
                findings.check(Rule::ApprovedUnreadable);
            }
            // The client may have read a document that was delayed or damaged, or not.
            let is_harmless = shown.may_be_approved() && shown.status == ShownStatus::Scheduled;
            if !exchange.is_intact && !is_harmless {
                continue;
            }
            if let Some(before) = self.0.get(&id)
                && before.status == shown.status
                && before.may_be_approved() == shown.may_be_approved()
            {
                shown.since = before.since;
            }
            self.0.insert(id, shown);
        }
    }

    fn get(&self, event_id: &str) -> Option<&AlteredEvent> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&event_id.to_ascii_lowercase())
    }
}

/// The events of a document, by their `EventId` in lower case. `None` if it is none.
fn read(
    body: &[u8],
    exchange: &Exchange<'_>,
    machine: &str,
) -> Option<HashMap<String, AlteredEvent>> {
    let names = [machine];
    let mut names = VmNames::new(&names);
    if is_underscored(exchange) {
        names = names.underscored();
    }
    let mut events = HashMap::<String, AlteredEvent>::new();
    // This visits the events that repeat an id, too, however many events a document has.
    let document = Document::parse_each(body, &mut [], |event, _, _| {
        let id = event.event_id().to_string().to_ascii_lowercase();
        let mut shown = AlteredEvent::new(event, names, exchange.answered);
        if let Some(other) = events.get(&id) {
            shown.is_own |= other.is_own;
            shown.unreadable = Some("its EventId twice".to_owned());
        }
        events.insert(id, shown);
    });
    document.is_ok().then_some(events)
}

impl AlteredEvent {
    /// Whether an approval of it, as it was shown, is right while it is Scheduled.
    fn may_be_approved(&self) -> bool {
        self.unreadable.is_none() && self.is_own && !self.is_advice
    }

    fn new(event: &Event<'_>, names: VmNames<'_>, at: Duration) -> Self {
        // A missing source or duration is as good as one that is unknown: older versions have none.
        let missing = || {
            let is_missing = [
                (Member::EventType, event.event_type().is_none()),
                (Member::EventStatus, event.event_status().is_none()),
                (Member::Resources, !event.resources().is_present()),
            ];
            let mut missing = is_missing.into_iter().filter(|(_, is_missing)| *is_missing);
            missing
                .next()
                .map(|(member, _)| format!("no {}", member.name()))
        };
        let unreadable = event
            .unreliable_member()
            .map(|member| format!("an unreadable {}", member.name()))
            .or_else(missing);
        let event_type = event.text(Member::EventType);
        Self {
            since: at,
            last: at,
            has_ended: false,
            unreadable,
            is_own: names.owns(event) == Some(true),
            status: match event.event_status() {
                Some(EventStatus::Scheduled) => ShownStatus::Scheduled,
                Some(EventStatus::Started) => ShownStatus::Started,
                _ => ShownStatus::Other,
            },
            is_advice: event.is_advice(),
            noun: event_type.map_or_else(|| "event".to_owned(), |text| text.to_string()),
            resources: event
                .resources()
                .iter()
                .map(|name| name.to_string())
                .collect(),
        }
    }
}

/// Whether the answer has a `_` before each name.
fn is_underscored(exchange: &Exchange<'_>) -> bool {
    let (_, query) = exchange.request.target.split_once('?').unwrap_or_default();
    route::parameters(query)
        .iter()
        .any(|(name, value)| name == "api-version" && value == UNDERSCORED_API_VERSION)
}
