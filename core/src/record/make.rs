//! How records are made: of events, documents, problems, decisions, and what a session reports.

use super::{EventMembers, GateOutcome, Record, ResourceList, TimedRecord};
use crate::document::Document;
use crate::error::Position;
use crate::event::{Event, Problem};
use crate::json::Text;
use crate::names::VmNames;
use crate::policy::Decision;
use crate::session::{GatePhase, Report, Untracked};
use crate::time::UnixSeconds;
use crate::tracker::{TrackedEvent, TrackedStatus};
use crate::wire::ADVICE_API_VERSION;

impl<'a> EventMembers<'a> {
    /// The members of the event of this id, of which nothing else is known.
    pub const fn unknown(event_id: Text<'a>) -> Self {
        Self {
            event_id,
            event_type: None,
            event_status: None,
            resource_type: None,
            resources: None,
            not_before: None,
            description: None,
            event_source: None,
            duration_in_seconds: None,
            mine: None,
        }
    }

    /// The members of an event in its document.
    #[inline(never)] // It is called in several places.
    pub fn from_event(event: &Event<'a>, names: VmNames<'_>) -> Self {
        let resources = event.resources();
        Self {
            event_id: event.event_id(),
            event_type: event.event_type().map(|word| word.text()),
            event_status: event.event_status().map(|word| word.text()),
            resource_type: event.resource_type(),
            resources: resources
                .is_present()
                .then_some(ResourceList::Document(resources)),
            not_before: event.not_before().moment(),
            description: event.description(),
            event_source: event.event_source().map(|word| word.text()),
            duration_in_seconds: event.duration_in_seconds(),
            mine: names.owns(event),
        }
    }

    /// The members that a tracker keeps of an event; the others are `None`.
    ///
    /// ```
    /// use scheduled_events_core::record::EventMembers;
    /// use scheduled_events_core::{Document, Tracker, UnixSeconds, VmNames};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","Resources":["vm"]}]}"#)?;
    /// let mut tracker = Tracker::<16>::new();
    /// tracker.observe(&document, VmNames::new(&["vm"]), UnixSeconds(0), |_, _| ())?;
    /// let members = EventMembers::from_tracked(tracker.iter().next().unwrap());
    /// assert!(members.event_status.is_some_and(|word| word == "Scheduled"));
    /// assert!(members.mine == Some(true) && members.resources.is_none()); // a tracker keeps no names
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_tracked(event: &'a TrackedEvent) -> Self {
        let event_type = Text::plain(event.event_type());
        let event_status = match event.status() {
            TrackedStatus::Unclear => None,
            TrackedStatus::Scheduled => Some(Text::plain("Scheduled")),
            TrackedStatus::Started => Some(Text::plain("Started")),
            TrackedStatus::Advisory => Some(Text::plain("Advisory")),
        };
        Self {
            event_id: Text::plain(event.event_id().as_str()),
            event_type: (!event_type.is_empty()).then_some(event_type),
            event_status,
            resource_type: None,
            resources: None,
            not_before: event.not_before(),
            description: None,
            event_source: None,
            duration_in_seconds: event.duration_in_seconds(),
            mine: event.mine(),
        }
    }

    /// These members, which a tracker keeps, and all others as the newest document that had the event has them.
    ///
    /// A tracker knows more than a document of the status, which never goes back, of `NotBefore`, which documents blank when the
    /// event starts, and of whether the event is this machine's. It keeps the case in which the id was first seen.
    ///
    /// ```
    /// use scheduled_events_core::record::EventMembers;
    /// use scheduled_events_core::{Document, Tracker, UnixSeconds, VmNames};
    ///
    /// let scheduled = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT"}]}"#;
    /// let started = br#"{"Events":[{"EventId":"a","EventStatus":"Started","Description":"Reboot"}]}"#;
    /// let mut tracker = Tracker::<16>::new();
    /// for body in [&scheduled[..], started] {
    ///     tracker.observe(&Document::parse(body)?, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ())?;
    /// }
    /// let newest = Document::parse(started)?.events().next().map(|event| EventMembers::from_event(&event, VmNames::UNKNOWN));
    /// let members = EventMembers::from_tracked(tracker.iter().next().unwrap()).with_newest(newest);
    /// assert!(members.event_status.is_some_and(|word| word == "Started"));
    /// assert!(members.description.is_some_and(|text| text == "Reboot"));
    /// assert_eq!(members.not_before, Some(UnixSeconds(1_649_716_018)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_newest(self, newest: Option<Self>) -> Self {
        newest.map_or(self, |newest| Self {
            event_id: self.event_id,
            event_status: if self
                .event_status
                .is_some_and(|status| status == *"Advisory")
            {
                newest.event_status.or(self.event_status)
            } else {
                self.event_status.or(newest.event_status)
            },
            not_before: self.not_before.or(newest.not_before),
            mine: self.mine.or(newest.mine),
            ..newest
        })
    }
}

impl<'a> Record<'a> {
    /// A document's own record.
    pub fn from_document(document: &Document<'a>) -> Self {
        Self::Document {
            incarnation: document.incarnation(),
            events: document.events().len(),
            // `count` panics on overflow.
            problems: document
                .problems()
                .fold(0, |count: usize, _| count.saturating_add(1)),
        }
    }

    /// A problem. `body` is what its document was parsed from, if that is still in memory.
    pub fn from_problem(problem: &Problem, body: Option<&[u8]>) -> Self {
        let position = body.map(|body| Position::of(body, problem.offset));
        Self::Problem {
            event: problem.event,
            member: problem.member,
            kind: problem.kind,
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
        }
    }

    /// A decision about this event.
    ///
    /// ```
    /// use scheduled_events_core::record::{EventMembers, Record};
    /// use scheduled_events_core::{Document, Policy, UnixSeconds, VmNames};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventType":"Reboot","EventStatus":"Scheduled"}]}"#)?;
    /// let (event, names) = (document.events().next().unwrap(), VmNames::new(&["vm"]));
    /// let decision = Policy::observe().decide(&event, names, UnixSeconds(0));
    /// let record = serde_json::to_string(&Record::from_decision(&decision, EventMembers::from_event(&event, names)))?;
    /// assert!(record.starts_with(
    ///     r#"{"record":"decision","event_id":"a","action":"hold","rule":null,"reason":"the policy only observes","#
    /// ));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn from_decision(decision: &Decision, event: EventMembers<'a>) -> Self {
        Self::Decision {
            event,
            action: decision.action,
            rule: decision.rule,
            reason: decision.reason,
        }
    }

    /// The last call for an event: the machine prepares for it although the gate has not answered yes.
    ///
    /// ```
    /// use scheduled_events_core::record::{EventMembers, Record};
    /// use scheduled_events_core::{Document, VmNames};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventType":"Reboot","EventStatus":"Scheduled"}]}"#)?;
    /// let event = EventMembers::from_event(&document.events().next().unwrap(), VmNames::new(&["vm"]));
    /// let record = serde_json::to_string(&Record::last_call(event))?;
    /// assert!(record.contains(r#""event_id":"a""#) && record.contains(r#""outcome":"last-call""#), "{record}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn last_call(event: EventMembers<'a>) -> Self {
        Self::Gate {
            phase: GatePhase::Prepare,
            outcome: GateOutcome::LastCall,
            event,
        }
    }

    /// A report of a [`Session`](crate::Session). `body` is the newest document, if it is still in memory.
    ///
    /// [`Report::map`] makes the event's members: by [`EventMembers::from_tracked`], or by the host that keeps whole events.
    ///
    /// ```
    /// use scheduled_events_core::record::{EventMembers, Record};
    /// use scheduled_events_core::{Change, Report, Text};
    ///
    /// let event = EventMembers::unknown(Text::plain("a"));
    /// let report = Report::Change { change: Change::Started, event };
    /// let record = serde_json::to_string(&Record::from_report(&report, None))?;
    /// assert!(record.starts_with(r#"{"record":"change","change":"started","event_id":"a","#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn from_report(report: &Report<EventMembers<'a>>, body: Option<&[u8]>) -> Self {
        match report {
            Report::Change { change, event } => Self::Change {
                change: *change,
                event: *event,
            },
            Report::Decision { decision, event } => Self::from_decision(decision, *event),
            Report::LastCall { event } => Self::last_call(*event),
            Report::Problem(problem) => Self::from_problem(problem, body),
            Report::Untracked(Untracked { own, others }) => Self::Untracked {
                own: *own,
                others: *others,
            },
            Report::NoAdvice => Self::NoAdvice {
                api_version: ADVICE_API_VERSION,
            },
        }
    }

    /// The record with the time at which it was made, as a watcher emits it.
    pub const fn at(self, time: UnixSeconds) -> TimedRecord<'a> {
        TimedRecord {
            record: self,
            time,
            machine: None,
            vm_id: None,
        }
    }
}
