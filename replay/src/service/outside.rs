//! What a service keeps for its control plane, and the messages about changes that it sends.

use std::sync::mpsc::Sender;
use std::time::{Instant, SystemTime};

use crate::control_plane::delivery::{Letter, Mail};
use crate::control_plane::row;
use crate::fault::Fault;
use crate::fault::plan::{FaultPlanner, RequestKind};
use crate::http::wire::wall_time;
use crate::report::ReplayEvent;
use crate::timeline::document::{EventStatus, Transition, TransitionKind};
use crate::timeline::event_id::EventIds;

/// What the service keeps for its control plane.
pub(crate) struct Outside {
    pub(crate) planner: FaultPlanner,
    pub(crate) first_request: Option<Instant>,
    /// The outer ids of messages.
    ids: EventIds,
    /// The thread that delivers messages, if there is a queue.
    mail: Option<Sender<Mail>>,
}

impl Outside {
    pub(crate) fn new(faults: &[Fault], seed: u64, mail: Option<Sender<Mail>>) -> Self {
        let planner = FaultPlanner::new(faults.into());
        Self { planner, first_request: None, ids: EventIds(seed), mail }
    }

    /// The same, from the beginning.
    pub(super) fn again(self, faults: &[Fault]) -> Self {
        Self { ids: self.ids, ..Self::new(faults, 0, self.mail) }
    }

    /// Sends a message about a change. Returns the report of one that a fault has lost.
    pub(super) fn post(&mut self, transition: &Transition, epoch: SystemTime) -> Option<ReplayEvent> {
        let (Some(mail), Transition::Event { at, kind, event, .. }) = (&self.mail, transition) else { return None };
        let status = match kind {
            TransitionKind::Approved => return None,
            TransitionKind::Cancelled => EventStatus::Canceled,
            TransitionKind::Gone => EventStatus::Completed,
            TransitionKind::Appeared | TransitionKind::Rescheduled | TransitionKind::Started => event.status(),
        };
        let plan = self.planner.plan(RequestKind::Message, *at);
        let mut next = || self.ids.next().to_ascii_lowercase();
        let (id, second_id) = (next(), next());
        let content = row::message(&id, event, status, epoch, wall_time(epoch, *at));
        let letter = Letter::new(event.facts.event_id.clone(), status.word(), content, plan.names.clone());
        if plan.message.is_lost {
            return Some(letter.report(Some("it is lost".to_owned())));
        }
        // The thread ends only when the server stops.
        let _ =
            mail.send(Mail::Letter { letter: Box::new(letter), delay: plan.delay, faults: plan.message, second_id });
        None
    }

    /// Whether messages are sent.
    pub(super) fn fills_queue(&self) -> bool {
        self.mail.is_some()
    }

    pub(super) fn finish(&mut self) {
        if let Some(mail) = &self.mail {
            let _ = mail.send(Mail::Finished);
        }
    }
}

impl Letter {
    pub(crate) fn report(&self, failure: Option<String>) -> ReplayEvent {
        let (event_id, faults) = (self.event_id.clone(), self.faults.clone());
        ReplayEvent::Message { event_id, event_status: self.status, failure, faults }
    }
}
