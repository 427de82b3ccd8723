//! What changed between one document and the next.

mod change;
mod tracked;

use core::fmt;

pub use change::Change;
pub(crate) use tracked::Flags;
pub use tracked::{TrackedEvent, TrackedStatus};

use crate::document::Document;
use crate::event::Event;
use crate::event_id::EventId;
use crate::hash::Hash;
use crate::json::Text;
use crate::names::VmNames;
use crate::time::UnixSeconds;

/// Remembers the events of the last document and tells what the next one changes: at most `N` events, at most 128
/// bytes each, found in constant time. Ids that were made to be found in one place take longer: a thousand of them some
/// milliseconds.
///
/// ```
/// use scheduled_events_core::{Change, Document, Tracker, UnixSeconds, VmNames};
///
/// let scheduled = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled"}]}"#;
/// let started = br#"{"Events":[{"EventId":"a","EventStatus":"Started"}]}"#;
/// let empty = br#"{"Events":[]}"#;
///
/// let mut tracker = Tracker::<16>::new();
/// let mut changes = Vec::new();
/// for body in [&scheduled[..], scheduled, started, empty, empty] {
///     let document = Document::parse(body)?;
///     tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |change, _event| changes.push(change))?;
/// }
/// assert_eq!(changes, [Change::Scheduled, Change::Started, Change::Completed]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tracker<const N: usize> {
    slots: heapless::Vec<Slot, N, u16>,
    /// For each hash, modulo N, the first slot of a chain.
    buckets: [u16; N],
    /// The first slot that is free again.
    free: u16,
    used: u16,
    /// Hash of the document that was observed last, and of the names: the same again changes nothing.
    last: Option<u64>,
}

#[derive(Clone, Debug)]
struct Slot {
    event: TrackedEvent,
    /// The next slot of the same chain.
    next: u16,
    used: bool,
}

const NO_SLOT: u16 = u16::MAX;

impl<const N: usize> Default for Tracker<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Tracker<N> {
    /// A tracker that has seen nothing. `N` is 1 to 65,534.
    pub const fn new() -> Self {
        const { assert!(0 < N && N < NO_SLOT as usize, "a tracker holds 1 to 65,534 events") };
        Self { slots: heapless::Vec::new(), buckets: [NO_SLOT; N], free: NO_SLOT, used: 0, last: None }
    }

    /// Takes a document and tells each change to `on_change`, with what is now known of the event: changes of known
    /// events first, then those that are gone, then new ones. Work is linear in the document and in what is tracked.
    ///
    /// Give it parsed documents only: a failed poll, an empty body or a 304 says nothing, so it ends nothing.
    ///
    /// # Errors
    /// [`TrackerFull`] when the document holds more than `N` events. Nothing is changed, and nothing told.
    pub fn observe(
        &mut self,
        document: &Document<'_>,
        names: VmNames<'_>,
        now: UnixSeconds,
        mut on_change: impl FnMut(Change, &TrackedEvent),
    ) -> Result<(), TrackerFull> {
        let same = document.hash_with(names);
        if self.last == Some(same) {
            return Ok(());
        }
        if document.events().len() > N {
            let needed = count_open(document);
            if needed > N {
                return Err(TrackerFull { needed });
            }
        }
        self.last = Some(same);
        let seen = self.observe_known(document, names, |_, change, event| on_change(change, event));
        for slot in 0..self.slots_used() {
            let change = self.end_if_absent(slot, now);
            // Those that a word has ended were told above.
            let Some(event) = self.get(slot).filter(|event| event.is_gone()) else { continue };
            if let Some(change) = change {
                on_change(change, event);
            }
            self.remove(slot);
        }
        if seen.new == 0 {
            return Ok(());
        }
        for event in document.events() {
            if let Some((slot, change)) = self.insert(&event, names)
                && let Some(event) = self.get(slot)
            {
                on_change(change, event);
            }
        }
        Ok(())
    }

    /// Notes that an approval of this event succeeded, which `cancelled` and `ended` are told apart by. `false` where
    /// the event is not tracked.
    pub fn approved(&mut self, event_id: &EventId) -> bool {
        let Some(event) = self.find(event_id).and_then(|slot| self.get_mut(slot)) else { return false };
        event.flags.set(Flags::APPROVED, true);
        true
    }

    /// The events that were in the last document, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.slots.iter().filter(|slot| slot.used).map(|slot| &slot.event)
    }

    /// How many events are tracked.
    pub const fn len(&self) -> usize {
        self.used as usize
    }

    /// Whether no event is tracked.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    // The steps of observing, from which a session makes its own order. A slot stays with its event until it is
    // removed.

    /// Brings the tracked events up to date, and notes which of them the document holds.
    pub(crate) fn observe_known(
        &mut self,
        document: &Document<'_>,
        names: VmNames<'_>,
        mut on_change: impl FnMut(u16, Change, &TrackedEvent),
    ) -> Seen {
        for slot in &mut self.slots {
            slot.event.flags.set(Flags::PRESENT, false);
        }
        let mut seen = Seen::default();
        let mut over = false;
        for event in document.events() {
            if is_over(&event) {
                over = true;
                continue;
            }
            seen.open = seen.open.saturating_add(1);
            let slot = self.find_text(&event.event_id());
            let known = slot.and_then(|slot| Some((slot, self.get_mut(slot)?))).filter(|(_, known)| !known.is_gone());
            let Some((slot, tracked)) = known else {
                seen.new = seen.new.saturating_add(1);
                continue;
            };
            // The second of two events with one id.
            if tracked.flags.has(Flags::PRESENT) {
                continue;
            }
            if let Some(change) = tracked.seen_again(&event, names) {
                on_change(slot, change, tracked);
            }
        }
        if !over {
            return seen;
        }
        // Servers that say so when an event is over leave it in the document for a while.
        for event in document.events().filter(is_over) {
            let Some(slot) = self.find_text(&event.event_id()) else { continue };
            let Some(tracked) = self.get_mut(slot) else { continue };
            if !tracked.flags.has(Flags::PRESENT) && !tracked.is_gone() {
                let change = tracked.end(event.event_status().as_ref(), UnixSeconds(i64::MAX));
                tracked.flags.set(Flags::GONE, true);
                on_change(slot, change, tracked);
            }
        }
        seen
    }

    /// Marks the slot's event as gone if the document that was observed last does not hold it.
    pub(crate) fn end_if_absent(&mut self, slot: u16, now: UnixSeconds) -> Option<Change> {
        let event = self.get_mut(slot)?;
        if event.flags.has(Flags::PRESENT) || event.is_gone() {
            return None;
        }
        event.flags.set(Flags::GONE, true);
        Some(event.end(None, now))
    }

    /// Starts to track an event that is not tracked yet; `None` where it is, where it is over, and where there is no
    /// room.
    pub(crate) fn insert(&mut self, event: &Event<'_>, names: VmNames<'_>) -> Option<(u16, Change)> {
        if is_over(event) {
            return None;
        }
        if self.find_text(&event.event_id()).is_some() {
            return None;
        }
        let event_id = EventId::new(&event.event_id());
        let (tracked, change) = TrackedEvent::first_seen(event, event_id, names);
        Some((self.place(tracked)?, change))
    }

    /// Puts an event into a free slot.
    pub(crate) fn place(&mut self, event: TrackedEvent) -> Option<u16> {
        let bucket = Self::bucket(event.event_id.hash());
        let head = *self.buckets.get(bucket)?;
        let new = Slot { event, next: head, used: true };
        let slot = if let Some(free) = self.slots.get_mut(usize::from(self.free)) {
            let slot = self.free;
            self.free = free.next;
            *free = new;
            slot
        } else {
            let slot = u16::try_from(self.slots.len()).ok()?;
            self.slots.push(new).ok()?;
            slot
        };
        *self.buckets.get_mut(bucket)? = slot;
        self.used = self.used.saturating_add(1);
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: u16) {
        let Some(event) = self.get(slot) else { return };
        let bucket = Self::bucket(event.event_id.hash());
        let after = self.slots.get(usize::from(slot)).map_or(NO_SLOT, |removed| removed.next);
        let Some(head) = self.buckets.get_mut(bucket) else { return };
        if *head == slot {
            *head = after;
        } else {
            let mut before = *head;
            while let Some(link) = self.slots.get_mut(usize::from(before)) {
                if link.next == slot {
                    link.next = after;
                    break;
                }
                before = link.next;
            }
        }
        if let Some(removed) = self.slots.get_mut(usize::from(slot)) {
            removed.used = false;
            removed.next = self.free;
            self.free = slot;
            self.used = self.used.saturating_sub(1);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.buckets = [NO_SLOT; N];
        self.free = NO_SLOT;
        self.used = 0;
        self.last = None;
    }

    pub(crate) fn find(&self, event_id: &EventId) -> Option<u16> {
        self.find_text(&Text::plain(event_id.as_str()))
    }

    /// The slot of the event that has this id, as a document spells it.
    pub(crate) fn find_text(&self, id: &Text<'_>) -> Option<u16> {
        let kept;
        let mut id = *id;
        if !EventId::keeps_whole(&id) {
            kept = EventId::new(&id);
            id = Text::plain(kept.as_str());
        }
        let mut next = *self.buckets.get(Self::bucket(Hash::of_id(&id)))?;
        while let Some(slot) = self.slots.get(usize::from(next)) {
            if id.eq_ignore_ascii_case(slot.event.event_id.as_str()) {
                return Some(next);
            }
            next = slot.next;
        }
        None
    }

    pub(crate) fn get(&self, slot: u16) -> Option<&TrackedEvent> {
        self.slots.get(usize::from(slot)).filter(|slot| slot.used).map(|slot| &slot.event)
    }

    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut TrackedEvent> {
        self.slots.get_mut(usize::from(slot)).filter(|slot| slot.used).map(|slot| &mut slot.event)
    }

    /// All slots are below this number.
    pub(crate) fn slots_used(&self) -> u16 {
        u16::try_from(self.slots.len()).unwrap_or(NO_SLOT)
    }

    fn bucket(hash: u64) -> usize {
        usize::try_from(hash >> 1 & 0x7fff_ffff).unwrap_or(0).checked_rem(N).unwrap_or(0)
    }
}

/// What was seen of a document while the events that are known were brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How many events are not over.
    pub(crate) open: usize,
    /// How many of those are not tracked, or have come back before their end was dealt with.
    pub(crate) new: usize,
}

/// How many of the document's events are not over.
fn count_open(document: &Document<'_>) -> usize {
    document.events().filter(|event| !is_over(event)).fold(0, |count: usize, _| count.saturating_add(1))
}

pub(crate) fn is_over(event: &Event<'_>) -> bool {
    event.event_status().is_some_and(|status| status.is_over())
}

/// A document holds more events than the tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerFull {
    /// How many events the document holds.
    pub needed: usize,
}

impl fmt::Display for TrackerFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the document holds {} events, more than the tracker", self.needed)
    }
}

impl core::error::Error for TrackerFull {}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_same_document_is_looked_at_again_when_the_names_change() {
        let body = br#"{"Events":[{"EventId":"a","Resources":["vm_0"]}]}"#;
        let document = Document::parse(body).unwrap();
        let mut tracker = Tracker::<4>::new();
        for (names, mine) in
            [(VmNames::UNKNOWN, None), (VmNames::new(&["vm_0"]), Some(true)), (VmNames::new(&["vm_1"]), Some(false))]
        {
            tracker.observe(&document, names, UnixSeconds(0), |_, _| ()).unwrap();
            assert_eq!(tracker.iter().next().unwrap().mine(), mine);
        }
    }

    #[test]
    fn a_document_that_does_not_fit_is_refused_each_time() {
        let body = br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#;
        let document = Document::parse(body).unwrap();
        let mut tracker = Tracker::<1>::new();
        for _ in 0..2 {
            let refused = tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ());
            assert_eq!(refused, Err(TrackerFull { needed: 2 }));
        }
        assert!(tracker.is_empty());
    }

    #[test]
    fn events_of_one_bucket_go_in_any_order() {
        let document = |ids: &[String]| {
            let events: Vec<_> = ids.iter().map(|id| format!("{{\"EventId\":\"{id}\"}}")).collect();
            format!("{{\"Events\":[{}]}}", events.join(","))
        };
        let bucket = |id: &String| Tracker::<4>::bucket(Hash::of_id(&Text::plain(id)));
        let all: Vec<_> = (0..).map(|n| format!("e{n}")).filter(|id| bucket(id) == 3).take(4).collect();
        // Every order in which four events can go, as the digits of a number.
        for order in (0..256).map(|order| [order >> 6 & 3, order >> 4 & 3, order >> 2 & 3, order & 3]) {
            let (mut tracker, mut left) = (Tracker::<4>::new(), all.clone());
            for step in 0..=4_usize {
                if let Some(place) = step.checked_sub(1) {
                    left.retain(|id| *id != all[order[place]]);
                }
                let body = document(&left);
                tracker
                    .observe(&Document::parse(body.as_bytes()).unwrap(), VmNames::UNKNOWN, UnixSeconds(0), |_, _| {})
                    .unwrap();
                let found = |id: &String| tracker.find_text(&Text::plain(id)).is_some();
                assert!(all.iter().all(|id| found(id) == left.contains(id)), "{order:?}, {left:?}");
                assert_eq!(tracker.len(), left.len());
            }
        }
    }

    #[test]
    fn an_event_takes_at_most_128_bytes() {
        let state = size_of::<Tracker<1024>>();
        assert!(state <= 1024 * 128, "{state}");
    }
}
