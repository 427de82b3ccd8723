//! What documents and approvals show of an event together: its notice, the order of its statuses, its start and its end.

use std::collections::HashMap;

use scheduled_events_core::UnixSeconds;

use super::document::{Status, WireDocument, WireEvent, version_of};
use super::{ServiceRule, Sightings};
use crate::capture::CapturedExchange;

/// How far a time in whole seconds, and one that was read between two polls, can be from the truth, in seconds.
const TOLERANCE: i64 = 2;

/// How long a request takes at most.
const OVERLAP_MAX_MS: i64 = 180_000;

/// How old the last document can be that shows that there is no such event.
const UNKNOWN_AGE_MAX_MS: i64 = 60_000;

/// Without a request for so long, the service is switched off.
const IDLE_MS: i64 = 24 * 3600 * 1000;

/// An event, as the exchanges show it. All times are the service's, in seconds, and those of polls: what happened was at most a poll
/// earlier.
///
/// ```
/// use scheduled_events_core::UnixSeconds;
/// use scheduled_events_replay::contract::ObservedEvent;
///
/// let mut event = ObservedEvent::default();
/// (event.first_seen, event.not_before) = (UnixSeconds(100), Some(UnixSeconds(1000)));
/// (event.approved, event.started) = (Some(UnixSeconds(101)), Some(UnixSeconds(103)));
/// assert_eq!((event.notice(), event.start_after_approval()), (Some(900), Some(2)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedEvent {
    /// The `EventId`, in upper case.
    pub event_id: String,
    /// The `EventType`.
    pub event_type: String,
    /// The exchange that shows it first.
    pub exchange: u64,
    /// When it was first seen.
    pub first_seen: UnixSeconds,
    /// The `NotBefore` with which it was first seen.
    pub not_before: Option<UnixSeconds>,
    /// When its approval got a 200.
    pub approved: Option<UnixSeconds>,
    /// When it was first seen as Started.
    pub started: Option<UnixSeconds>,
    /// When a document lacked it first.
    pub gone: Option<UnixSeconds>,
    last_not_before: Option<UnixSeconds>,
    is_scheduled: bool,
}

impl Default for ObservedEvent {
    fn default() -> Self {
        Self {
            event_id: String::new(),
            event_type: String::new(),
            exchange: 0,
            first_seen: UnixSeconds(0),
            not_before: None,
            approved: None,
            started: None,
            gone: None,
            last_not_before: None,
            is_scheduled: false,
        }
    }
}

impl ObservedEvent {
    /// The time from the first sight to `NotBefore`, in seconds.
    pub fn notice(&self) -> Option<i64> {
        self.not_before.map(|at| at.since(self.first_seen))
    }

    /// The time from its approval to its start, in seconds.
    pub fn start_after_approval(&self) -> Option<i64> {
        Some(self.started?.since(self.approved?))
    }
}

/// The events so far, and the last document of each version.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives {
    pub(super) events: Vec<ObservedEvent>,
    index: HashMap<String, usize>,
    last: HashMap<String, LastDocument>,
    /// When the last document arrived, in milliseconds since 1970 by the machine's clock.
    arrived: i64,
}

#[derive(Clone, Debug)]
struct LastDocument {
    incarnation: Option<u64>,
    events: Vec<WireEvent>,
    time: UnixSeconds,
}

impl Lives {
    pub(super) fn document(
        &mut self,
        exchange: &CapturedExchange,
        document: &WireDocument,
        sightings: &mut Sightings,
    ) {
        let sent = exchange.unix_ms;
        let arrived = sent.saturating_add(exchange.took_ms);
        // Of two requests at once it is unknown which document is the newer one. A clock may be set back.
        if sent < self.arrived && self.arrived.saturating_sub(sent) < OVERLAP_MAX_MS {
            return;
        }
        // Then the service was switched off, and may begin again.
        if sent.saturating_sub(self.arrived) > IDLE_MS {
            self.last.clear();
        }
        self.arrived = arrived;
        let (version, now) = (version_of(exchange), exchange.service_time());
        let last = self.last.get(&version);
        let incarnations = last
            .and_then(|last| last.incarnation)
            .zip(document.incarnation);
        if let Some((before, incarnation)) = incarnations {
            sightings.note(ServiceRule::IncarnationGrows, incarnation >= before, || {
                format!("found {incarnation} after {before}")
            });
        }
        let incarnations =
            incarnations.filter(|_| last.is_some_and(|last| last.events != document.events));
        if let Some((before, incarnation)) = incarnations {
            sightings.note(
                ServiceRule::IncarnationChanges,
                incarnation != before,
                || format!("found other events with {incarnation} again"),
            );
        }
        let before = last.map(|last| last.time);
        let absent: Vec<_> = last
            .into_iter()
            .flat_map(|last| &last.events)
            .filter(|event| document.events.iter().all(|other| other.id != event.id))
            .map(|event| event.id.clone())
            .collect();
        for event in &document.events {
            self.event(event, before, now, sightings);
        }
        for id in absent {
            if let Some(event) = self.known(&id) {
                if event.gone.is_none() {
                    sightings.note(ServiceRule::NoReturn, true, String::new);
                }
                event.gone.get_or_insert(now);
            }
        }
        let last = LastDocument {
            incarnation: document.incarnation,
            events: document.events.clone(),
            time: now,
        };
        self.last.insert(version, last);
    }

    fn known(&mut self, id: &str) -> Option<&mut ObservedEvent> {
        let index = self.index.get(&id.to_ascii_uppercase())?;
        self.events.get_mut(*index)
    }

    /// Applies an event of a document. `before` is the time of the last document of this version.
    fn event(
        &mut self,
        event: &WireEvent,
        before: Option<UnixSeconds>,
        now: UnixSeconds,
        sightings: &mut Sightings,
    ) {
        let exchange = sightings.exchange;
        let Some(known) = self.known(&event.id) else {
            let observed = ObservedEvent {
                event_id: event.id.clone(),
                event_type: event.event_type.clone(),
                exchange,
                first_seen: now,
                not_before: event.not_before,
                started: (event.status == Status::Started).then_some(now),
                last_not_before: event.not_before,
                is_scheduled: event.status == Status::Scheduled,
                ..ObservedEvent::default()
            };
            if event.status == Status::Scheduled {
                notice(&observed, before, sightings);
            }
            self.index.insert(event.id.clone(), self.events.len());
            self.events.push(observed);
            return;
        };
        if let Some(gone) = known.gone {
            sightings.note(ServiceRule::NoReturn, false, || {
                format!(
                    "found {} again, {} s after it had left",
                    event.id,
                    now.since(gone)
                )
            });
            known.gone = None;
        }
        match event.status {
            Status::Scheduled => {
                known.last_not_before = event.not_before.or(known.last_not_before);
                if known.started.is_some() {
                    sightings.note(ServiceRule::StatusOrder, false, || {
                        format!("found {} Scheduled after it was Started", event.id)
                    });
                }
                known.is_scheduled = true;
            }
            Status::Started if known.is_scheduled && known.started.is_none() => {
                known.started = Some(now);
                sightings.note(ServiceRule::StatusOrder, true, String::new);
                if let (None, Some(not_before)) = (known.approved, known.last_not_before) {
                    let early = not_before.since(now);
                    sightings.note(ServiceRule::EarliestStart, early <= TOLERANCE, || {
                        format!(
                            "found {} Started {early} s before it; no approval is in the capture",
                            event.id
                        )
                    });
                }
            }
            Status::Started => {
                known.started.get_or_insert(now);
            }
            Status::Other => {}
        }
    }

    pub(super) fn approval(&mut self, exchange: &CapturedExchange, sightings: &mut Sightings) {
        let Some(status) = exchange.status else {
            return;
        };
        // A failure of the service says nothing about a request.
        if matches!(status, 401 | 403 | 410 | 429 | 500..) {
            return;
        }
        let ids = exchange.approves();
        let now = exchange.service_time();
        let found = || format!("found status {status}");
        if ids.is_empty() {
            return;
        }
        if ids.iter().any(|id| self.known(id).is_none()) {
            // Only a document from just before shows that there is no such event.
            let age = exchange.unix_ms.saturating_sub(self.arrived);
            if (0..UNKNOWN_AGE_MAX_MS).contains(&age) {
                sightings.note(ServiceRule::ApprovalUnknown, status == 400, found);
            }
            return;
        }
        let is_open = |event: &ObservedEvent| event.gone.is_none();
        let events: Vec<_> = ids
            .iter()
            .filter_map(|id| self.index.get(&id.to_ascii_uppercase()))
            .copied()
            .collect();
        let (mut is_repeated, mut are_scheduled) = (true, true);
        for event in events.iter().filter_map(|index| self.events.get(*index)) {
            is_repeated &= event.approved.is_some();
            are_scheduled &= event.started.is_none() && event.is_scheduled && is_open(event);
        }
        if is_repeated {
            sightings.note(ServiceRule::ApprovalRepeated, status == 200, found);
        } else if are_scheduled {
            sightings.note(ServiceRule::Approval, status == 200, found);
        }
        if status == 200 {
            for index in events {
                if let Some(event) = self.events.get_mut(index) {
                    event.approved.get_or_insert(now);
                }
            }
        }
    }
}

/// Checks the notice of an event that was just announced. `before` is the time of the last document without it, or unknown.
fn notice(event: &ObservedEvent, before: Option<UnixSeconds>, sightings: &mut Sightings) {
    let (rule, minimum) = match event.event_type.as_str() {
        "Freeze" => (ServiceRule::NoticeFreeze, 15 * 60),
        "Reboot" => (ServiceRule::NoticeReboot, 15 * 60),
        "Redeploy" => (ServiceRule::NoticeRedeploy, 10 * 60),
        "Preempt" => (ServiceRule::NoticePreempt, 30),
        "Terminate" => (ServiceRule::NoticeTerminate, 5 * 60),
        _ => return,
    };
    let (Some(not_before), Some(notice)) = (event.not_before, event.notice()) else {
        return;
    };
    // It was announced between the last document and this one.
    let at_most = before.map(|before| not_before.since(before));
    if notice >= minimum - TOLERANCE {
        sightings.note(rule, true, String::new);
    } else if let Some(at_most) = at_most.filter(|at_most| *at_most < minimum - TOLERANCE) {
        sightings.note(rule, false, || {
            format!("found {notice} s, and {at_most} s from the document before, which lacks it")
        });
    }
}
