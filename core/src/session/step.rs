//! What a session asks its host to do.

use core::fmt;

use crate::event::Problem;
use crate::policy::Decision;
use crate::time::UnixMillis;
use crate::tracker::{Change, TrackedEvent};

/// What the host does next, as returned by [`Session::next`](crate::Session::next).
#[derive(Debug)]
pub enum Step<'s> {
    /// Send a GET. Pass the response to [`on_response`](crate::Session::on_response), or the failure to
    /// [`on_failure`](crate::Session::on_failure).
    Get {
        /// The timeout of the request, in milliseconds.
        timeout_ms: u32,
    },
    /// Send this body with POST, and pass on the result as for a GET. [`Session::posted`](crate::Session::posted) lists
    /// the events that it approves.
    Post {
        /// The body, JSON.
        body: &'s [u8],
        /// The timeout of the request, in milliseconds.
        timeout_ms: u32,
    },
    /// There is nothing to do until this time. Call `next` again then, or earlier after any other call.
    Wait {
        /// When to call `next` again.
        until: UnixMillis,
    },
    /// Prepare for the event, then call [`prepared`](crate::Session::prepared). The event's `not_before` is the
    /// deadline.
    Prepare {
        /// The event: of this machine, or of another one that a rule covers.
        event: &'s TrackedEvent,
    },
    /// The event is over: take the machine back into service, then call [`recovered`](crate::Session::recovered).
    Recover {
        /// The event as it was last seen.
        event: &'s TrackedEvent,
    },
    /// Show or log this report.
    Report(Report<'s>),
}

/// Information for people and logs.
#[derive(Clone, Copy, Debug)]
pub enum Report<'s> {
    /// An event changed.
    Change {
        /// What changed.
        change: Change,
        /// The event after the change.
        event: &'s TrackedEvent,
    },
    /// The policy decided about an event for the first time, or differently than before.
    Decision {
        /// The decision.
        decision: Decision,
        /// The event.
        event: &'s TrackedEvent,
    },
    /// A problem in the newest document. Its offset refers to the body of that document.
    Problem(Problem),
    /// The number of events that the session cannot track changed.
    Untracked(Untracked),
}

impl fmt::Display for Report<'_> {
    /// Writes one line. Ids are written as received: escape control characters before you print it to a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change { change, event } => write!(f, "{}: {change}", event.event_id()),
            Self::Decision { decision, event } => {
                write!(f, "{}: {} ({})", event.event_id(), decision.action, decision.reason)
            }
            Self::Problem(problem) => write!(f, "{} at byte {}", problem.kind.word(), problem.offset),
            Self::Untracked(Untracked { own, others }) => {
                write!(f, "not tracked: {own} own events, {others} of other machines")
            }
        }
    }
}

/// How many events of the newest document exceed the capacity of the session.
///
/// An event of another machine that is evicted for one of this machine's is reported as new when it is tracked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// Events of this machine, those with the latest deadlines. More than zero is an error: the session is too small.
    pub own: usize,
    /// Events of other machines.
    pub others: usize,
}

/// The result of a preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// The host is ready: the event may be approved.
    Ready,
    /// The host is not ready and will not be: the event is never approved.
    Failed,
}
