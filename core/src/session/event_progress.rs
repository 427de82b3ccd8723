//! What a session has to do about one event, and how far it got.

use crate::policy::{Action, Decision, Reason};
use crate::time::UnixMillis;
use crate::tracker::{Change, TrackedEvent, TrackedStatus};

/// What a session has to do about one tracked event.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) first_seen: UnixMillis,
    /// A change that was not reported yet.
    pub(super) change: Option<Change>,
    /// What the last document led to; `None` before the first since the start, and then nothing is done.
    pub(super) decision: Option<Decision>,
    pub(super) decision_unreported: bool,
    pub(super) prepare: Prepare,
    pub(super) recovery: Recovery,
    pub(super) approval: Approval,
}

/// How far the preparation got. Whatever was said must be recovered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepare {
    /// Not said.
    NotYet = 0,
    /// Said; the host has not answered.
    Running = 2,
    /// Said before a restart; the host will not answer any more.
    Interrupted = 3,
    /// The host is ready.
    Ready = 4,
    /// The host could not get ready.
    Failed = 5,
}

/// How far the recovery got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Not said.
    NotYet = 0,
    /// Said; the host has not answered.
    Running = 1,
    /// The host has recovered.
    Done = 2,
}

/// Attempts to approve that failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Approval {
    pub(super) failures: u8,
    pub(super) retry_at: Option<UnixMillis>,
}

impl Work {
    pub(super) fn new(first_seen: UnixMillis) -> Self {
        Self {
            first_seen,
            change: None,
            decision: None,
            decision_unreported: false,
            prepare: Prepare::NotYet,
            recovery: Recovery::NotYet,
            approval: Approval::default(),
        }
    }

    /// Takes the decision that the newest document leads to.
    pub(super) fn decide(&mut self, decision: Decision) {
        if !self.decision.is_some_and(|known| known.same_as(&decision)) {
            // That an event which was decided about has started is told as a change already.
            let known = self.decision.is_some() && decision.reason == Reason::AlreadyStarted;
            self.decision_unreported |= !known;
        }
        self.decision = Some(decision);
    }

    /// Whether the host is to be told to prepare.
    pub(super) fn wants_preparation(&self) -> bool {
        matches!(self.prepare, Prepare::NotYet | Prepare::Interrupted)
            && self.decision.is_some_and(|decision| decision.action == Action::Prepare)
    }

    /// When the event may be approved; `None` while, or because, it may not.
    pub(super) fn approve_at(&self, event: &TrackedEvent) -> Option<UnixMillis> {
        let decision = self.decision?;
        let allowed = match decision.action {
            // It may have asked for a preparation before it changed.
            Action::Approve => !matches!(self.prepare, Prepare::Running | Prepare::Failed),
            Action::Prepare => self.prepare == Prepare::Ready,
            Action::Hold | Action::Ignore => false,
        };
        if !allowed || event.is_approved() || event.is_gone() || event.status != TrackedStatus::Scheduled {
            return None;
        }
        let turn = self.first_seen.plus(decision.approve_after?.saturating_mul(1000));
        Some(self.approval.retry_at.map_or(turn, |retry| retry.max(turn)))
    }

    /// Whether the host was told to prepare, so that it must be told to recover.
    pub(super) const fn prepare_was_said(&self) -> bool {
        matches!(self.prepare, Prepare::Running | Prepare::Interrupted | Prepare::Ready | Prepare::Failed)
    }

    /// Whether nothing is left to do about an event that is gone.
    pub(super) fn is_done(&self) -> bool {
        self.change.is_none() && (!self.prepare_was_said() || self.recovery == Recovery::Done)
    }
}
