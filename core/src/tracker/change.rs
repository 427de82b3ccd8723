//! The changes of an event, and their words.

use crate::words::words;

/// A change of an event. The position of a change in [`ALL`](Self::ALL) is its number in a snapshot.
///
/// The changes of an event come in this order: first `scheduled` or `started-without-notice`; then `rescheduled` and
/// `updated`, any number of times; `started` at most once, and not after `started-without-notice`; finally one of
/// `completed`, `cancelled` and `ended`. An event whose first status is unknown is also `scheduled`, and
/// `started-without-notice` if it goes from there to `Started`.
///
/// [Advice](crate::Event::is_advice) is first `advised` and finally `advice-withdrawn`. If it becomes maintenance under the same id,
/// that is `scheduled` or `started-without-notice` then, and the other way round `advised`.
///
/// ```
/// use scheduled_events_core::Change;
///
/// assert_eq!(Change::StartedWithoutNotice.word(), "started-without-notice");
/// let ends: Vec<_> = Change::ALL.into_iter().filter(|change| change.is_end()).collect();
/// assert_eq!(ends, [Change::Completed, Change::Cancelled, Change::Ended, Change::AdviceWithdrawn]);
/// ```
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
    /// Advice was seen for the first time.
    Advised,
    /// The advice is gone. What it advised of may happen all the same.
    AdviceWithdrawn,
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
    Advised => "advised",
    AdviceWithdrawn => "advice-withdrawn",
});

impl Change {
    /// Whether the event is gone.
    pub const fn is_end(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Cancelled | Self::Ended | Self::AdviceWithdrawn
        )
    }
}

/// Changes of one event that are not reported yet: those of one document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(u16);

impl Changes {
    /// The order in which changes of one document are reported.
    const ORDER: [Change; 10] = [
        Change::Advised,
        Change::Scheduled,
        Change::StartedWithoutNotice,
        Change::Rescheduled,
        Change::Updated,
        Change::Started,
        Change::Completed,
        Change::Cancelled,
        Change::Ended,
        Change::AdviceWithdrawn,
    ];

    /// The changes of a snapshot; `None` for bits that have no meaning.
    pub(crate) fn from_bits(bits: u16) -> Option<Self> {
        let known = Change::ALL
            .into_iter()
            .fold(0, |known, change| known | Self::bit(change));
        (bits & !known == 0).then_some(Self(bits))
    }

    /// One bit for each change. A snapshot contains them.
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// Not every compiler knows how many changes there are.
    const fn bit(change: Change) -> u16 {
        1_u16.wrapping_shl(change as u32)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn insert(&mut self, change: Change) {
        self.0 |= Self::bit(change);
    }

    /// Adds these changes.
    pub(crate) const fn extend(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether one of the changes is the end of the event.
    pub(crate) fn has_end(self) -> bool {
        self.iter().any(Change::is_end)
    }

    /// Takes out the change to report next.
    pub(crate) fn take_first(&mut self) -> Option<Change> {
        let first = self.iter().next()?;
        self.0 &= !Self::bit(first);
        Some(first)
    }

    /// The changes, in the order in which they are reported.
    pub(crate) fn iter(self) -> impl Iterator<Item = Change> {
        Self::ORDER
            .into_iter()
            .filter(move |&change| self.0 & Self::bit(change) != 0)
    }
}
