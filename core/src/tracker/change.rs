//! The changes of an event, and their words.

use crate::words::words;

/// A change of an event. The position of a change in [`ALL`](Self::ALL) is its number in a snapshot.
///
/// The changes of an event come in this order: first `scheduled` or `started-without-notice`; then `rescheduled` and
/// `updated`, any number of times; `started` at most once, and not after `started-without-notice`; finally one of
/// `completed`, `cancelled` and `ended`. An event whose first status is unknown is also `scheduled`, and
/// `started-without-notice` if it goes from there to `Started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The event was seen for the first time, and has not started.
    Scheduled,
    /// The event started. It was seen as `Scheduled` before.
    Started,
    /// The event had started when it was first seen, as after a hardware failure.
    StartedWithoutNotice,
    /// `NotBefore` changed.
    Rescheduled,
    /// Another member changed.
    Updated,
    /// The event had started and is gone.
    Completed,
    /// The event is gone before `NotBefore`. It had not started and was not approved.
    Cancelled,
    /// The event is gone. It had not started, but was approved or past `NotBefore`: whether it happened is unknown.
    Ended,
}

words!(Change {
    Scheduled => "scheduled",
    Started => "started",
    StartedWithoutNotice => "started-without-notice",
    Rescheduled => "rescheduled",
    Updated => "updated",
    Completed => "completed",
    Cancelled => "cancelled",
    Ended => "ended",
});

impl Change {
    /// Whether the event is gone.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Ended)
    }
}
