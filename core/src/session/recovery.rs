//! Taking a machine back into service: whether that is due, runs, or is tried again after a failure.

use super::command::{AnswerOutcome, Command};
use super::limits::{RECOVERY_RETRY_FIRST_MS, RECOVERY_RETRY_MAX_MS};
use crate::time::UnixMillis;

/// The recovery of this machine, which covers all of its events, or of another machine from one event.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// Since when the machine is out of service; `None` if it is in service.
    pub(super) due_since: Option<UnixMillis>,
    pub(super) command: Option<Command>,
    /// How often it failed in a row.
    pub(super) failures: u8,
    pub(super) retry_at: Option<UnixMillis>,
}

impl Recovery {
    /// Whether a recovery has to follow some time.
    pub(super) const fn is_due(&self) -> bool {
        self.due_since.is_some()
    }

    /// Whether nothing is left to do.
    pub(super) const fn is_over(&self) -> bool {
        self.due_since.is_none() && self.command.is_none()
    }

    /// Records that the machine goes out of service.
    pub(super) fn require(&mut self, now: UnixMillis) {
        self.due_since.get_or_insert(now);
        self.failures = 0;
        self.retry_at = None;
    }

    /// Whether the recovery may start now, as far as it depends on earlier attempts.
    pub(super) fn may_start(&self, now: UnixMillis) -> bool {
        self.is_due() && self.command.is_none() && self.retry_at.is_none_or(|at| at <= now)
    }

    /// When a failed recovery is tried again.
    pub(super) fn retry_at(&self) -> Option<UnixMillis> {
        self.retry_at
            .filter(|_| self.is_due() && self.command.is_none())
    }

    /// Limits the delay, so that a clock that was set back does not extend it.
    pub(super) fn set_clock(&mut self, now: UnixMillis) {
        self.retry_at = self
            .retry_at
            .map(|at| at.min(now.plus(RECOVERY_RETRY_MAX_MS)));
    }

    /// Records that `Step::Recover` is issued.
    pub(super) fn start(&mut self, attempt: u32, now: UnixMillis) {
        self.command = Some(Command::new(attempt, now));
    }

    /// Records the host's answer to this attempt.
    pub(super) fn answer(&mut self, attempt: u32, done: bool, now: UnixMillis) -> AnswerOutcome {
        let Some(command) = self.command.take_if(|command| command.attempt == attempt) else {
            return AnswerOutcome::Unexpected;
        };
        if command.is_cancelled() {
            return AnswerOutcome::Cancelled;
        }
        if done {
            *self = Self::default();
        } else {
            let doublings = u32::from(self.failures.min(8));
            self.retry_at =
                Some(now.plus((RECOVERY_RETRY_FIRST_MS << doublings).min(RECOVERY_RETRY_MAX_MS)));
            self.failures = self.failures.saturating_add(1);
        }
        AnswerOutcome::Accepted
    }
}
