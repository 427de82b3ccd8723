//! A command that the host runs for the session.

use crate::time::UnixMillis;

/// A step that the host works on: [`Step::Prepare`](super::Step::Prepare), [`Step::Recover`](super::Step::Recover) or
/// [`Step::Gate`](super::Step::Gate) was issued, and the host has not answered it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    /// Which answer belongs to it.
    pub(super) attempt: u32,
    /// When the step was issued.
    pub(super) since: UnixMillis,
    cancellation: Cancellation,
}

/// What the host asks its gate: may this machine go on?
///
/// ```
/// use scheduled_events_core::GatePhase;
///
/// assert_eq!(GatePhase::ALL.map(GatePhase::word), ["prepare", "approve"]);
/// assert_eq!(GatePhase::Approve.word(), "approve");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatePhase {
    /// Before the preparation: may the machine go out of service?
    Prepare,
    /// Before the approval: may the event start, on all machines that it affects?
    Approve,
}

crate::words::words!(GatePhase {
    Prepare => "prepare",
    Approve => "approve",
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancellation {
    None,
    Wanted,
    Issued,
}

impl Command {
    pub(super) const fn new(attempt: u32, now: UnixMillis) -> Self {
        Self {
            attempt,
            since: now,
            cancellation: Cancellation::None,
        }
    }

    /// Makes the session ask the host to end the command. Its answer will not count.
    pub(super) fn cancel(&mut self) {
        if self.cancellation == Cancellation::None {
            self.cancellation = Cancellation::Wanted;
        }
    }

    pub(super) fn is_cancelled(self) -> bool {
        self.cancellation != Cancellation::None
    }

    /// Whether `Step::Cancel` is to be issued now, which is recorded.
    pub(super) fn take_cancellation(&mut self) -> bool {
        let wanted = self.cancellation == Cancellation::Wanted;
        if wanted {
            self.cancellation = Cancellation::Issued;
        }
        wanted
    }
}

/// The attempt numbers of a session: each one is used once, across restarts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts(pub(super) u32);

impl Attempts {
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

/// The result of a preparation.
///
/// ```
/// use scheduled_events_core::Preparation;
///
/// // The result of a drain script.
/// let preparation = |exit_code| match exit_code {
///     0 => Preparation::Ready,
///     78 => Preparation::Abandoned,
///     _ => Preparation::Failed,
/// };
/// assert_eq!(preparation(1), Preparation::Failed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// The host is ready: the event may be approved.
    Ready,
    /// The host is not ready. [`Step::Prepare`](super::Step::Prepare) is issued again after
    /// [`PREPARE_RETRY_FIRST_MS`](super::limits::PREPARE_RETRY_FIRST_MS), later each time, while the event is `Scheduled`, its
    /// start is not nearer than this attempt took, and
    /// [`prepare_retries`](super::SessionConfig::prepare_retries) are left: earlier if it would come too late. A snapshot has
    /// the number of failures, so a restart neither tries more often nor at once.
    Failed,
    /// The host is not ready and will not be: the event is not approved, unless it becomes another one.
    Abandoned,
}

/// What the session made of the host's answer to a step.
///
/// ```
/// use scheduled_events_core::{AnswerOutcome, Preparation, Session, SessionConfig, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
/// // Nothing was issued with this number.
/// assert_eq!(session.prepared(7, Preparation::Ready), AnswerOutcome::Unexpected);
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AnswerOutcome {
    /// The answer counts.
    Accepted,
    /// The answer does not count: the step was cancelled. What the host ran for it has ended, so that the next one may start.
    Cancelled,
    /// No step with this attempt number awaits an answer. Nothing changed.
    Unexpected,
}
