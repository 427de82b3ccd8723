//! How far the session has got with one event.

use super::step::{Report, Step};
use crate::policy::{Action, Decision, Reason};
use crate::time::UnixMillis;
use crate::tracker::{Change, TrackedEvent, TrackedStatus};

/// Everything that a session keeps about one tracked event, in addition to what the tracker keeps.
#[derive(Clone, Debug)]
pub(super) struct EventProgress {
    pub(super) first_seen: UnixMillis,
    /// A change that is not reported yet.
    pub(super) change: Option<Change>,
    /// The decision about the event in the newest document. `None` until the first document after a start: until then,
    /// nothing is prepared or approved.
    decision: Option<Decision>,
    decision_unreported: bool,
    pub(super) preparation: PreparationState,
    /// Whether the host is recovering. The event is forgotten when it has recovered.
    pub(super) recovering: bool,
    /// How many approvals of this event failed in a row.
    pub(super) approval_failures: u8,
    approval_retry_at: Option<UnixMillis>,
}

/// How far the preparation for an event is. The numbers are those in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreparationState {
    /// `Step::Prepare` was not issued.
    NotIssued = 0,
    /// `Step::Prepare` was issued, and the host has not reported a result.
    Running = 1,
    /// `Step::Prepare` was issued before a restart that interrupted the preparation.
    Interrupted = 2,
    /// The host is ready.
    Ready = 3,
    /// The preparation failed.
    Failed = 4,
}

impl EventProgress {
    pub(super) fn new(first_seen: UnixMillis) -> Self {
        Self {
            first_seen,
            change: None,
            decision: None,
            decision_unreported: false,
            preparation: PreparationState::NotIssued,
            recovering: false,
            approval_failures: 0,
            approval_retry_at: None,
        }
    }

    /// Takes the next step for the event and records that it was issued. Without `acts`, only reports are issued.
    pub(super) fn next_step<'s>(&mut self, event: &'s TrackedEvent, acts: bool) -> Option<Step<'s>> {
        if let Some(change) = self.change.take() {
            return Some(Step::Report(Report::Change { change, event }));
        }
        if core::mem::take(&mut self.decision_unreported)
            && let Some(decision) = self.decision
        {
            return Some(Step::Report(Report::Decision { decision, event }));
        }
        if event.is_gone() {
            if self.needs_recovery() {
                self.recovering = true;
                return Some(Step::Recover { event });
            }
        } else if acts && self.needs_preparation() {
            self.preparation = PreparationState::Running;
            return Some(Step::Prepare { event });
        }
        None
    }

    /// Records the decision about the event in the newest document.
    pub(super) fn decide(&mut self, decision: Decision) {
        if !self.decision.is_some_and(|known| known.same_as(&decision)) {
            // The change `started` already reports why a known event is now held.
            let known_started = self.decision.is_some() && decision.reason == Reason::AlreadyStarted;
            self.decision_unreported |= !known_started;
        }
        self.decision = Some(decision);
    }

    fn needs_preparation(&self) -> bool {
        matches!(self.preparation, PreparationState::NotIssued | PreparationState::Interrupted)
            && self.decision.is_some_and(|decision| decision.action == Action::Prepare)
    }

    /// Whether a recovery of a gone event is due. A preparation in progress is allowed to finish first.
    fn needs_recovery(&self) -> bool {
        self.prepare_was_issued() && self.preparation != PreparationState::Running && !self.recovering
    }

    /// Whether `Step::Prepare` was issued, so that `Step::Recover` must follow.
    pub(super) fn prepare_was_issued(&self) -> bool {
        self.preparation != PreparationState::NotIssued
    }

    /// Whether nothing is left to do about the event, so that it can be forgotten.
    pub(super) fn is_finished(&self, event: &TrackedEvent) -> bool {
        event.is_gone() && self.change.is_none() && !self.decision_unreported && !self.prepare_was_issued()
    }

    /// The earliest time at which the event may be approved; `None` if it may not be, or not yet.
    pub(super) fn approve_at(&self, event: &TrackedEvent) -> Option<UnixMillis> {
        let decision = self.decision?;
        let allowed = match decision.action {
            // The event may have required a preparation before it changed.
            Action::Approve => !matches!(self.preparation, PreparationState::Running | PreparationState::Failed),
            Action::Prepare => self.preparation == PreparationState::Ready,
            Action::Hold | Action::Ignore => false,
        };
        if !allowed || event.is_approved() || event.is_gone() || event.status != TrackedStatus::Scheduled {
            return None;
        }
        let turn = self.first_seen.plus(decision.approve_after?.saturating_mul(1000));
        Some(self.approval_retry_at.map_or(turn, |retry| retry.max(turn)))
    }

    /// Records a failed approval; `back_off` returns the delay in milliseconds after so many failures.
    pub(super) fn approval_failed(&mut self, now: UnixMillis, back_off: impl FnOnce(u32) -> u32) {
        self.approval_failures = self.approval_failures.saturating_add(1);
        self.approval_retry_at = Some(now.plus(back_off(u32::from(self.approval_failures))));
    }
}
