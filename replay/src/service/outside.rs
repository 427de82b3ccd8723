//! A service's state for its control plane, and the messages about changes that it sends.

use std::mem;
use std::time::{Instant, SystemTime};

use crate::control_plane::delivery::{Letter, Mail};
use crate::control_plane::row;
use crate::fault::Fault;
use crate::fault::plan::{FaultPlanner, RequestKind};
use crate::http::wire::wall_time;
use crate::report::ReplayEvent;
use crate::timeline::document::{EventStatus, Transition, TransitionKind};
use crate::timeline::event_id::EventIds;

/// The service's state for its control plane.
pub(crate) struct Outside {
    pub(crate) planner: FaultPlanner,
    pub(crate) first_request: Option<Instant>,
    /// The outer ids of messages.
    ids: EventIds,
    /// The mail that the delivering thread has not taken yet; `None` without a queue.
    mail: Option<Vec<Mail>>,
}

impl Outside {
    pub(crate) fn new(faults: &[Fault], seed: u64, has_queue: bool) -> Self {
        let planner = FaultPlanner::new(faults.into());
        Self {
            planner,
            first_request: None,
            ids: EventIds(seed),
            mail: has_queue.then(Vec::new),
        }
    }

    /// Whether a client may have used it: it was asked, or fills a queue.
    pub(super) fn may_be_used(&self) -> bool {
        self.first_request.is_some() || self.fills_queue()
    }

    /// The same, from the beginning.
    pub(super) fn again(self, faults: &[Fault]) -> Self {
        Self {
            ids: self.ids,
            ..Self::new(faults, 0, self.mail.is_some())
        }
    }

    /// Sends a message about a change. If a fault has lost it, returns the report of that.
    pub(super) fn post(
        &mut self,
        transition: &Transition,
        epoch: SystemTime,
    ) -> Option<ReplayEvent> {
        let (
            Some(mail),
            Transition::Event {
                at, kind, event, ..
            },
        ) = (&mut self.mail, transition)
        else {
            return None;
        };
        let status = match kind {
            TransitionKind::Approved => return None,
            TransitionKind::Cancelled => EventStatus::Canceled,
            TransitionKind::Gone => EventStatus::Completed,
            TransitionKind::Appeared | TransitionKind::Rescheduled | TransitionKind::Started => {
                event.status()
            }
        };
        let plan = self.planner.plan(RequestKind::Message, *at);
        let faults = &plan.message;
        let mut letter = Letter {
            event_id: event.facts.event_id.clone(),
            status: status.word(),
            content: String::new(),
            faults: plan.names,
            failures: 0,
        };
        if faults.is_lost {
            return Some(letter.report(Some("it is lost".to_owned())));
        }
        let mut write = || {
            let id = self.ids.next().to_ascii_lowercase();
            row::message(&id, event, status, epoch, wall_time(epoch, *at))
        };
        letter.content = write();
        let mut letters = vec![letter.clone()];
        if faults.is_repeated {
            letters.push(letter.clone());
        }
        if faults.has_new_id {
            letters.push(Letter {
                content: write(),
                ..letter
            });
        }
        mail.push(Mail::Letters {
            letters,
            delay: plan.delay,
            reversed: faults.reversed,
        });
        None
    }

    /// Whether messages are sent.
    pub(super) fn fills_queue(&self) -> bool {
        self.mail.is_some()
    }

    /// The mail since the last call.
    pub(super) fn take_mail(&mut self) -> Vec<Mail> {
        self.mail.as_mut().map(mem::take).unwrap_or_default()
    }

    pub(super) fn finish(&mut self) {
        if let Some(mail) = &mut self.mail {
            mail.push(Mail::Finished);
        }
    }
}

impl Letter {
    pub(crate) fn report(&self, failure: Option<String>) -> ReplayEvent {
        let (event_id, faults) = (self.event_id.clone(), self.faults.clone());
        ReplayEvent::Message {
            event_id,
            event_status: self.status,
            failure,
            faults,
        }
    }
}
