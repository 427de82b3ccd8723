//! The changes in an event's life.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A change in the life of one event.
///
/// In the order in which they can come: `scheduled` or `started-without-notice` first; then `rescheduled` and `updated`,
/// any number of times; `started` at most once, unless it started without notice; and one of `completed`, `cancelled`
/// and `ended` last. An event whose first status is no known word is `scheduled` too, and has started without notice
/// when it goes from there to `Started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Seen for the first time, not started yet.
    Scheduled,
    /// Under way, and seen scheduled before.
    Started,
    /// Under way when it was first seen, as after a hardware failure.
    StartedWithoutNotice,
    /// `NotBefore` moved.
    Rescheduled,
    /// Another member changed.
    Updated,
    /// It was under way, and is gone.
    Completed,
    /// It was scheduled, not approved, `NotBefore` still ahead, and is gone.
    Cancelled,
    /// It was scheduled, approved or past `NotBefore`, and is gone: whether it happened cannot be told.
    Ended,
}

impl Change {
    /// All changes, in the order of their numbers in a snapshot.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Started,
        Self::StartedWithoutNotice,
        Self::Rescheduled,
        Self::Updated,
        Self::Completed,
        Self::Cancelled,
        Self::Ended,
    ];

    /// The change as a word: `started-without-notice`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Started => "started",
            Self::StartedWithoutNotice => "started-without-notice",
            Self::Rescheduled => "rescheduled",
            Self::Updated => "updated",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Ended => "ended",
        }
    }

    /// Whether the event is gone.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Ended)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
