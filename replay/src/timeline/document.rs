//! The output of a timeline: documents, their events, and transitions.

use std::sync::Arc;
use std::time::Duration;

use crate::scenario::is_advice;

/// A document, before it is written for a version of the service.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::{Scenario, Timeline};
///
/// let mut timeline = Timeline::new(&Scenario::builtin("user-reboot").unwrap(), "web_0", 60.0, 7);
/// timeline.advance(Duration::from_secs(1));
/// let document = timeline.document();
/// assert_eq!((document.incarnation, document.events.len()), (2, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayDocument {
    /// `DocumentIncarnation`.
    pub incarnation: u64,
    /// The open events, in the scenario's order.
    pub events: Vec<DocumentEvent>,
}

/// An event as a document shows it.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::{Scenario, Timeline};
///
/// let mut timeline = Timeline::new(&Scenario::builtin("user-reboot").unwrap(), "web_0", 60.0, 7);
/// timeline.advance(Duration::from_secs(1));
/// let event = &timeline.document().events[0];
/// assert!(!event.started && event.not_before.is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentEvent {
    /// The members that never change.
    pub facts: Arc<EventFacts>,
    /// `EventStatus`: Started, or else Scheduled or Advisory.
    pub started: bool,
    /// `NotBefore` as time since the first document; `None` once Started, and of advice.
    pub not_before: Option<Duration>,
}

/// The members of an event that are the same in all documents.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::{Scenario, Timeline};
///
/// let mut timeline = Timeline::new(&Scenario::builtin("preempt").unwrap(), "spot_3", 60.0, 7);
/// timeline.advance(Duration::from_secs(1));
/// let facts = &timeline.document().events[0].facts;
/// assert_eq!((facts.event_type.as_str(), &facts.resources[..]), ("Preempt", &["spot_3".to_owned()][..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFacts {
    /// `EventId`, an upper-case GUID.
    pub event_id: String,
    /// `EventType`.
    pub event_type: String,
    /// `EventSource`.
    pub event_source: String,
    /// `Description`.
    pub description: String,
    /// `DurationInSeconds`.
    pub duration_in_seconds: i64,
    /// `Resources`, with placeholders replaced.
    pub resources: Vec<String>,
    /// Whether `EventStatus` is `Advisory` in place of Scheduled.
    pub is_advisory: bool,
}

impl EventFacts {
    /// Whether it is advice (`docs/inside/wire.md`, section 7): its type or its status says so. Advice never
    /// starts, and an approval of it has no effect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events_replay::{Scenario, Timeline};
    ///
    /// let mut timeline = Timeline::new(&Scenario::builtin("rebalance").unwrap(), "spot_3", 60.0, 7);
    /// timeline.advance(Duration::from_secs(1));
    /// assert!(timeline.document().events[0].facts.is_advice());
    /// ```
    pub fn is_advice(&self) -> bool {
        is_advice(&self.event_type, self.is_advisory)
    }
}

/// A transition, `at` a time since the first document.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::document::Transition;
/// use scheduled_events_replay::{Scenario, Timeline, TransitionKind};
///
/// let mut timeline = Timeline::new(&Scenario::builtin("user-reboot").unwrap(), "web_0", 60.0, 7);
/// timeline.advance(Duration::from_secs(1));
/// let transitions = timeline.take_transitions();
/// assert!(matches!(transitions[..], [Transition::Event { kind: TransitionKind::Appeared, .. }]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// An event changed.
    Event {
        /// When it changed.
        at: Duration,
        /// How it changed.
        kind: TransitionKind,
        /// The event after the change, or before it if the event ended.
        event: DocumentEvent,
        /// The incarnation of the first document that shows the change.
        incarnation: u64,
    },
    /// The incarnation started again.
    IncarnationReset {
        /// When it started again.
        at: Duration,
        /// The new incarnation.
        incarnation: u64,
    },
}

/// `EventStatus`. Documents have the first three statuses; outside the machine, the end of an event
/// is reported as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventStatus {
    Scheduled,
    Advisory,
    Started,
    Completed,
    Canceled,
}

impl DocumentEvent {
    /// Its status in a document.
    pub(crate) fn status(&self) -> EventStatus {
        if self.started {
            EventStatus::Started
        } else {
            self.facts.announced()
        }
    }
}

impl EventFacts {
    /// The status until the event starts.
    pub(crate) fn announced(&self) -> EventStatus {
        if self.is_advisory {
            EventStatus::Advisory
        } else {
            EventStatus::Scheduled
        }
    }
}

impl EventStatus {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::Advisory => "Advisory",
            Self::Started => "Started",
            Self::Completed => "Completed",
            Self::Canceled => "Canceled",
        }
    }
}

/// How an event changed.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::document::Transition;
/// use scheduled_events_replay::{Scenario, Timeline, TransitionKind};
///
/// // A hardware failure gives no notice: the event appears as Started.
/// let mut timeline = Timeline::new(&Scenario::builtin("hardware-failure").unwrap(), "web_0", 60.0, 7);
/// timeline.advance(Duration::from_secs(3600));
/// let kinds: Vec<_> = timeline.take_transitions().into_iter().filter_map(|transition| match transition {
///     Transition::Event { kind, .. } => Some(kind),
///     Transition::IncarnationReset { .. } => None,
/// }).collect();
/// assert_eq!(kinds, [TransitionKind::Appeared, TransitionKind::Gone]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransitionKind {
    /// The event is in the document for the first time: Scheduled or Advisory, or Started if there
    /// was no notice.
    Appeared,
    /// A request approved the event. The document does not show this.
    Approved,
    /// `NotBefore` changed.
    Rescheduled,
    /// From Scheduled to Started.
    Started,
    /// From Scheduled or Advisory to absent.
    Cancelled,
    /// From Started to absent.
    Gone,
}

/// The result of an approval.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::document::ApprovalResult;
/// use scheduled_events_replay::{Scenario, Timeline};
///
/// let mut timeline = Timeline::new(&Scenario::builtin("user-reboot").unwrap(), "web_0", 60.0, 7);
/// let now = Duration::from_secs(1);
/// assert_eq!(timeline.approve("a", now), ApprovalResult::Unknown);
/// let id = timeline.document().events[0].facts.event_id.clone();
/// assert_eq!(timeline.approve(&id, now), ApprovalResult::Accepted);
/// assert_eq!(timeline.approve(&id, now), ApprovalResult::WithoutEffect);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalResult {
    /// The first approval of a Scheduled event.
    Accepted,
    /// The event was approved before, is Started, has ended or is advice: a valid request without
    /// effect.
    WithoutEffect,
    /// No event with this `EventId` has appeared yet.
    Unknown,
}
