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
///     format!("back in service after {}, of which {} ended last", ids.join(", "), events.last().event_id())
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
        Iter::of(Some(*self))
    }
}

/// The events of a recovery, or none.
pub(super) struct Iter<'s> {
    events: Option<Recovering<'s>>,
    is_first: bool,
    slot: usize,
}

impl<'s> Iter<'s> {
    pub(super) const fn of(events: Option<Recovering<'s>>) -> Self {
        Self {
            events,
            is_first: true,
            slot: 0,
        }
    }
}

impl<'s> Iterator for Iter<'s> {
    type Item = &'s TrackedEvent;

    fn next(&mut self) -> Option<Self::Item> {
        let events = self.events.as_mut()?;
        if core::mem::take(&mut self.is_first) {
            return Some(events.last);
        }
        let is_other = |event: &&TrackedEvent| event.event_id != events.last.event_id;
        if let Some(dropped) = events.dropped.take().filter(is_other) {
            return Some(dropped);
        }
        while let Some(progress) = events.progress.get(self.slot) {
            let event = events.tracked.get(self.slot).filter(is_other);
            self.slot = self.slot.saturating_add(1);
            if event.is_some() && progress.ended.is_some() {
                return event;
            }
        }
        None
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
