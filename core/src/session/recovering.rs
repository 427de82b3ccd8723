//! The events that a recovery is for.

use super::event_progress::EventProgress;
use crate::time::UnixMillis;
use crate::tracker::{Slots, TrackedEvent};

/// The events that a recovery is for, the one that ended last first. See [`Step::Recover`](super::Step::Recover).
///
/// ```
/// use scheduled_events_core::{Recovering, TrackedEvent};
///
/// /// What an operator reads.
/// fn describe(events: Recovering<'_>) -> String {
///     let ids: Vec<_> = events.iter().map(|event| event.event_id().as_str()).collect();
///     format!("back in service after {}", ids.join(", "))
/// }
/// # let _ = describe;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Recovering<'s> {
    last: &'s TrackedEvent,
    /// The event that is not tracked any more, for others.
    dropped: Option<&'s TrackedEvent>,
    tracked: Slots<'s>,
    /// Empty if the recovery is for the last event only.
    progress: &'s [EventProgress],
}

impl<'s> Recovering<'s> {
    /// Another machine's recovery, which is for one event.
    pub(super) const fn one(event: &'s TrackedEvent) -> Self {
        Self {
            last: event,
            dropped: None,
            tracked: Slots::NONE,
            progress: &[],
        }
    }

    /// The recovery of this machine: from the events that ended while it was out of service, and from the last one that was
    /// `dropped` for others. `None` if there is none yet.
    pub(super) fn of(
        tracked: Slots<'s>,
        progress: &'s [EventProgress],
        dropped: Option<&'s TrackedEvent>,
    ) -> Option<Self> {
        // It may have returned and ended again.
        let dropped = dropped.filter(|dropped| {
            ended(tracked, progress).all(|(_, event)| event.event_id != dropped.event_id)
        });
        let last = ended(tracked, progress).max_by_key(|(at, _)| *at);
        Some(Self {
            last: last.map(|(_, event)| event).or(dropped)?,
            dropped,
            tracked,
            progress,
        })
    }

    /// The event that ended last.
    pub const fn last(&self) -> &'s TrackedEvent {
        self.last
    }

    /// All events, the one that ended last first, each once.
    pub fn iter(&self) -> impl Iterator<Item = &'s TrackedEvent> + use<'s> {
        let last = self.last;
        let ended = ended(self.tracked, self.progress).map(|(_, event)| event);
        let others = self.dropped.into_iter().chain(ended);
        core::iter::once(last).chain(others.filter(move |event| event.event_id != last.event_id))
    }
}

/// The tracked events that ended while the machine was out of service, and when.
fn ended<'s>(
    tracked: Slots<'s>,
    progress: &'s [EventProgress],
) -> impl Iterator<Item = (UnixMillis, &'s TrackedEvent)> {
    tracked
        .iter()
        .zip(progress)
        .filter_map(|(event, progress)| Some((progress.ended?, event?)))
}
