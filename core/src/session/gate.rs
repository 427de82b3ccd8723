//! The gate of an event: the host's answer to whether this machine may prepare, and whether the event may be approved.

use super::command::GatePhase;
use super::limits::GATE_RETRY_MS;
use crate::time::UnixMillis;

/// The host's answer to [`Step::Gate`](super::Step::Gate).
///
/// ```
/// use scheduled_events_core::GateAnswer;
/// use scheduled_events_core::limits::GATE_ANOTHER_APPROVES;
///
/// // The exit code of a gate's command.
/// let answer = |code| match code {
///     0 => GateAnswer::Open,
///     GATE_ANOTHER_APPROVES => GateAnswer::AnotherApproves,
///     _ => GateAnswer::Closed,
/// };
/// assert_eq!(answer(75).word(), "another-approves");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateAnswer {
    /// Go on.
    Open,
    /// Another machine approves the event for this one too. In the phase [`GatePhase::Prepare`] it counts as
    /// [`Closed`](Self::Closed).
    AnotherApproves,
    /// Not yet.
    Closed,
}

crate::words::words!(GateAnswer {
    Open => "open",
    AnotherApproves => "another-approves",
    Closed => "closed",
});

/// What the gate answered about an event as it is. It is forgotten when the event changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    prepare_open: bool,
    /// The number of polls that had begun when the gate opened for the approval.
    opened_at_poll: Option<u32>,
    /// Whether a later poll showed the event unchanged.
    confirmed: bool,
    /// When the gate is asked again.
    ask_at: Option<UnixMillis>,
}

impl Gate {
    /// Whether the preparation may be issued.
    pub(super) const fn lets_prepare(&self) -> bool {
        self.prepare_open
    }

    /// Whether the gate has answered, and not with yes, whether this machine may prepare.
    pub(super) const fn has_refused_to_prepare(&self) -> bool {
        !self.prepare_open && self.ask_at.is_some()
    }

    /// Whether the event may be approved.
    pub(super) const fn lets_approve(&self) -> bool {
        self.opened_at_poll.is_some() && self.confirmed
    }

    /// Whether the event may be approved as soon as a poll shows it unchanged.
    pub(super) const fn awaits_confirmation(&self) -> bool {
        self.opened_at_poll.is_some() && !self.confirmed
    }

    /// When the gate is to be asked in this phase: at once, or after an answer that was not yes. `None` if it is open.
    pub(super) fn ask_at(&self, phase: GatePhase) -> Option<UnixMillis> {
        let is_open = match phase {
            GatePhase::Prepare => self.prepare_open,
            GatePhase::Approve => self.opened_at_poll.is_some(),
        };
        if is_open {
            None
        } else {
            Some(self.ask_at.unwrap_or(UnixMillis(i64::MIN)))
        }
    }

    /// Records an answer, after so many polls have begun.
    pub(super) fn answer(
        &mut self,
        phase: GatePhase,
        answer: GateAnswer,
        polls: u32,
        now: UnixMillis,
    ) {
        self.ask_at = None;
        match (phase, answer) {
            (GatePhase::Prepare, GateAnswer::Open) => self.prepare_open = true,
            (GatePhase::Approve, GateAnswer::Open) => {
                (self.opened_at_poll, self.confirmed) = (Some(polls), false);
            }
            _ => self.ask_at = Some(now.plus(GATE_RETRY_MS)),
        }
    }

    /// Records that the answer to this poll, counted from 1, shows the event unchanged.
    pub(super) fn confirm(&mut self, poll: u32) {
        self.confirmed |= self.opened_at_poll.is_some_and(|opened| poll > opened);
    }

    /// Forgets that the gate opened for an approval, which failed: the gate is asked before each one.
    pub(super) fn approval_failed(&mut self) {
        (self.opened_at_poll, self.confirmed) = (None, false);
    }

    /// Limits the delay, so that a clock that was set back does not extend it.
    pub(super) fn set_clock(&mut self, now: UnixMillis) {
        self.ask_at = self.ask_at.map(|at| at.min(now.plus(GATE_RETRY_MS)));
    }
}
