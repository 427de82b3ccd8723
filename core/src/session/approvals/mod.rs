//! Approvals: which events are due, the body that approves them, and the results of the POST.

mod approved_ids;

pub(super) use approved_ids::{ApprovalSlots, ApprovedIds};

use super::event_progress::{EventProgress, deadline};
use super::limits::{BATCH_MAX, BODY_MAX};
use super::{Request, Session, response::Cause, response::RequestOutcome};
use crate::approval::StartRequests;
use crate::event_id::EventId;
use crate::time::UnixMillis;
use crate::tracker::{Flags, Tracker};

impl<const N: usize> Session<N> {
    /// The earliest time at which an event may be approved.
    pub(super) fn approve_at(&self, now: UnixMillis) -> Option<UnixMillis> {
        if !self.acts() {
            return None;
        }
        let context = self.context(now);
        self.tracked()
            .filter_map(|(_, event, progress)| progress.approve_at(event, context, &self.machine))
            .min()
    }

    /// The events to approve with one POST: those whose approval failed least often first, and of those the ones that start
    /// soonest. An event whose approval failed is sent alone, so that an id which the service refuses does not block the
    /// others.
    pub(super) fn due_approvals(&self, now: UnixMillis) -> ApprovalSlots {
        let context = self.context(now);
        let is_due = |event, progress: &EventProgress| {
            progress
                .approve_at(event, context, &self.machine)
                .is_some_and(|at| at <= now)
        };
        let mut slots = ApprovalSlots::new();
        let mut ids: heapless::Vec<&EventId, BATCH_MAX> = heapless::Vec::new();
        loop {
            let due = self
                .tracked()
                .filter(|(slot, event, progress)| !slots.contains(slot) && is_due(event, progress));
            let first = due.min_by_key(|(_, event, progress)| {
                (progress.approval_failures, deadline(event.not_before()))
            });
            let Some((slot, event, progress)) = first else {
                break;
            };
            let alone = progress.approval_failures > 0;
            if alone && !ids.is_empty() {
                break;
            }
            if ids.push(&event.event_id).is_err() || StartRequests::new(&ids).len() > BODY_MAX {
                break;
            }
            // Both lists have the same capacity.
            let _ = slots.push(slot);
            if alone {
                break;
            }
        }
        slots
    }

    /// Records a successful approval.
    pub(super) fn approved(&mut self, slots: ApprovalSlots) -> RequestOutcome {
        for &slot in &slots {
            if let Some(event) = self.tracker.get_mut(slot) {
                event.flags.set(Flags::APPROVED, true);
            }
        }
        self.request = Request::Answered(slots);
        RequestOutcome::Approved
    }

    /// Records a failed approval and schedules the next attempt for each of its events.
    pub(super) fn approval_failed(
        &mut self,
        slots: ApprovalSlots,
        cause: Cause,
        now: UnixMillis,
    ) -> RequestOutcome {
        for &slot in &slots {
            if let Some(progress) = self.progress.get_mut(usize::from(slot)) {
                progress.approval_failed(now, |failures| self.pacer.back_off(failures));
            }
        }
        self.request = Request::Answered(slots);
        RequestOutcome::ApprovalFailed { cause }
    }
}

/// Writes the body that approves the events in these slots. Returns `false` if there are none.
pub(super) fn write_start_requests<const N: usize>(
    tracker: &Tracker<N>,
    slots: &ApprovalSlots,
    body: &mut heapless::Vec<u8, BODY_MAX>,
) -> bool {
    let mut ids: heapless::Vec<&EventId, BATCH_MAX> = heapless::Vec::new();
    for event in slots.iter().filter_map(|&slot| tracker.get(slot)) {
        // Both lists have the same capacity.
        let _ = ids.push(&event.event_id);
    }
    let requests = StartRequests::new(&ids);
    body.clear();
    !ids.is_empty() && body.resize_default(requests.len()).is_ok() && requests.write(body).is_ok()
}
