//! Tracks events from one document to the next and reports what changed.
//!
//! This file is the tracker: a hash table in fixed memory. `tracked` is what it keeps about one event and how a new
//! document changes that; `change` lists the changes.

mod change;
mod tracked;

use core::fmt;

pub use change::Change;
pub(crate) use change::Changes;
pub(crate) use tracked::{Difference, Flags, TYPE_MAX, digest};
pub use tracked::{TrackedEvent, TrackedStatus};

use crate::document::Document;
use crate::event::Event;
use crate::event_id::EventId;
use crate::hash::Hash;
use crate::json::Text;
use crate::names::VmNames;
use crate::time::UnixSeconds;

/// Keeps the events of the last document and reports what the next one changes: up to `N` events of up to 128 bytes.
///
/// An event is found in constant time. If the author of the documents could be hostile, make the tracker
/// [`with_seed`](Self::with_seed): otherwise ids can be chosen that take time in proportion to their number.
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
    /// The seed of the ids' hashes.
    seed: u64,
    slots: heapless::Vec<Slot, N, u16>,
    /// For each hash, modulo N, the first slot of a chain.
    buckets: [u16; N],
    /// The head of the list of free slots.
    free: u16,
    used: u16,
    /// The last observation. The same document with the same names changes nothing.
    last: Option<Observation>,
}

#[derive(Clone, Copy, Debug)]
struct Observation {
    /// Hash of the document and the names.
    hash: u64,
    ignored: usize,
}

#[derive(Clone, Debug)]
struct Slot {
    event: TrackedEvent,
    /// The next slot of the same chain, or of the list of free slots.
    next: u16,
    used: bool,
}

const NO_SLOT: u16 = u16::MAX;

/// The slots of a tracker of any capacity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots<'t>(&'t [Slot]);

impl<'t> Slots<'t> {
    pub(crate) const NONE: Self = Self(&[]);

    /// The event in this slot, if it is in use.
    pub(crate) fn get(self, slot: usize) -> Option<&'t TrackedEvent> {
        let slot = self.0.get(slot).filter(|slot| slot.used)?;
        Some(&slot.event)
    }

    /// The event of each slot that is in use.
    pub(crate) fn iter(self) -> impl Iterator<Item = Option<&'t TrackedEvent>> {
        self.0.iter().map(|slot| slot.used.then_some(&slot.event))
    }
}

impl<const N: usize> Default for Tracker<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Tracker<N> {
    /// Creates a tracker without events. `N` is 1 to 65,534.
    pub const fn new() -> Self {
        Self::with_seed(0)
    }

    /// Creates a tracker without events that places them by a random number which the author of the documents does not know.
    ///
    /// ```
    /// use scheduled_events_core::Tracker;
    ///
    /// // From the system's random numbers.
    /// let seed = 0x5eed;
    /// assert!(Tracker::<16>::with_seed(seed).is_empty());
    /// ```
    pub const fn with_seed(seed: u64) -> Self {
        const {
            assert!(
                0 < N && N < NO_SLOT as usize,
                "a tracker holds 1 to 65,534 events"
            );
        };
        Self {
            seed,
            slots: heapless::Vec::new(),
            buckets: [NO_SLOT; N],
            free: NO_SLOT,
            used: 0,
            last: None,
        }
    }

    /// Applies a document and calls `on_change` for each change, with the event after it: changes of known events first,
    /// then ends, then new events. The time is linear in the document and the tracked events.
    ///
    /// If an `EventId` is repeated, the first event with it counts and the others are ignored. Returns how many were
    /// ignored. [`Document::events`] already omits repeated ids among the first 64, so this concerns only those beyond.
    ///
    /// Call it for parsed documents only. A failed poll or an empty body carries no information and ends nothing.
    ///
    /// # Errors
    /// [`TrackerFull`] if the document contains more than `N` events, those that are ignored included. Nothing is
    /// changed then, and `on_change` is not called.
    pub fn observe(
        &mut self,
        document: &Document<'_>,
        names: VmNames<'_>,
        now: UnixSeconds,
        mut on_change: impl FnMut(Change, &TrackedEvent),
    ) -> Result<usize, TrackerFull> {
        let hash = document.hash_with(names);
        if let Some(last) = self.last.filter(|last| last.hash == hash) {
            return Ok(last.ignored);
        }
        if document.events().len() > N {
            let needed = count_open(document);
            if needed > N {
                return Err(TrackerFull { needed });
            }
        }
        let seen = self.observe_known(document, names, |_, difference, event| {
            difference
                .changes
                .iter()
                .for_each(|change| on_change(change, event));
        });
        for slot in 0..self.slots_used() {
            let change = self.end_if_absent(slot, now);
            // The end of an event with a final status was reported above.
            let Some(event) = self.get(slot).filter(|event| event.is_gone()) else {
                continue;
            };
            if let Some(change) = change {
                on_change(change, event);
            }
            self.remove(slot);
        }
        let mut ignored = seen.repeated;
        if seen.new > 0 {
            let mut inserted: usize = 0;
            for event in document.events_for(names) {
                if let Some((slot, change)) = self.insert(&event, names)
                    && let Some(event) = self.get(slot)
                {
                    inserted = inserted.saturating_add(1);
                    on_change(change, event);
                }
            }
            // All of them fit, so the others have the id of one that was inserted.
            ignored = ignored.saturating_add(seen.new.saturating_sub(inserted));
        }
        self.last = Some(Observation { hash, ignored });
        Ok(ignored)
    }

    /// Records that the event was approved, so that its end is reported as `ended`, not as `cancelled`. Returns `false` if
    /// the event is not tracked.
    ///
    /// ```
    /// use scheduled_events_core::{Change, Document, EventId, Text, Tracker, UnixSeconds, VmNames};
    ///
    /// let scheduled = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled"}]}"#)?;
    /// let empty = Document::parse(br#"{"Events":[]}"#)?;
    /// let mut tracker = Tracker::<16>::new();
    /// tracker.observe(&scheduled, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ())?;
    /// assert!(tracker.approved(&EventId::new(&Text::plain("a"))));
    /// assert!(!tracker.approved(&EventId::new(&Text::plain("b"))));
    /// let mut changes = Vec::new();
    /// tracker.observe(&empty, VmNames::UNKNOWN, UnixSeconds(1), |change, _| changes.push(change))?;
    /// assert_eq!(changes, [Change::Ended]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn approved(&mut self, event_id: &EventId) -> bool {
        let Some(event) = self.find(event_id).and_then(|slot| self.get_mut(slot)) else {
            return false;
        };
        event.flags.set(Flags::APPROVED, true);
        true
    }

    /// The events of the last document, in no particular order.
    ///
    /// ```
    /// use scheduled_events_core::{Document, Tracker, UnixSeconds, VmNames};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#)?;
    /// let mut tracker = Tracker::<16>::new();
    /// tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ())?;
    /// let mut ids: Vec<_> = tracker.iter().map(|event| event.event_id().as_str()).collect();
    /// ids.sort();
    /// assert_eq!(ids, ["a", "b"]);
    /// assert_eq!(tracker.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.slots
            .iter()
            .filter(|slot| slot.used)
            .map(|slot| &slot.event)
    }

    /// How many events are tracked.
    ///
    /// ```
    /// use scheduled_events_core::Tracker;
    ///
    /// assert_eq!(Tracker::<16>::new().len(), 0);
    /// ```
    pub const fn len(&self) -> usize {
        self.used as usize
    }

    /// Whether no event is tracked.
    ///
    /// ```
    /// use scheduled_events_core::Tracker;
    ///
    /// assert!(Tracker::<16>::new().is_empty());
    /// ```
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    // The parts of `observe`, which a session combines in its own order. An event keeps its slot until it is removed.

    /// Updates the tracked events that the document contains and marks them as present.
    pub(crate) fn observe_known(
        &mut self,
        document: &Document<'_>,
        names: VmNames<'_>,
        mut on_difference: impl FnMut(u16, Difference, &TrackedEvent),
    ) -> Seen {
        for slot in &mut self.slots {
            slot.event.flags.set(Flags::PRESENT, false);
        }
        let mut seen = Seen::default();
        let mut over = false;
        for event in document.events_for(names) {
            if is_over(&event) {
                over = true;
                continue;
            }
            seen.open = seen.open.saturating_add(1);
            let slot = self.find_text(&event.event_id());
            let known = slot
                .and_then(|slot| Some((slot, self.get_mut(slot)?)))
                .filter(|(_, known)| !known.is_gone());
            let Some((slot, tracked)) = known else {
                seen.new = seen.new.saturating_add(1);
                continue;
            };
            if tracked.flags.has(Flags::PRESENT) {
                seen.repeated = seen.repeated.saturating_add(1);
                continue;
            }
            let difference = tracked.seen_again(&event, names);
            if !difference.changes.is_empty() || difference.voids_preparation {
                on_difference(slot, difference, tracked);
            }
        }
        if !over {
            return seen;
        }
        // Some servers leave an event that is over in the document for a while, with a final status.
        for event in document.events().filter(is_over) {
            let Some(slot) = self.find_text(&event.event_id()) else {
                continue;
            };
            let Some(tracked) = self.get_mut(slot) else {
                continue;
            };
            if tracked.flags.has(Flags::PRESENT) {
                seen.repeated = seen.repeated.saturating_add(1);
            } else if !tracked.is_gone() {
                let change = tracked.end(event.event_status().as_ref(), UnixSeconds(i64::MAX));
                tracked.flags.set(Flags::GONE, true);
                let mut changes = Changes::default();
                changes.insert(change);
                on_difference(
                    slot,
                    Difference {
                        changes,
                        voids_preparation: false,
                    },
                    tracked,
                );
            }
        }
        seen
    }

    /// Marks the event in this slot as gone if it is not marked as present.
    pub(crate) fn end_if_absent(&mut self, slot: u16, now: UnixSeconds) -> Option<Change> {
        let event = self.get_mut(slot)?;
        if event.flags.has(Flags::PRESENT) || event.is_gone() {
            return None;
        }
        event.flags.set(Flags::GONE, true);
        Some(event.end(None, now))
    }

    /// Starts to track an event. Returns `None` if it is tracked already, if it is over, or if the tracker is full.
    pub(crate) fn insert(
        &mut self,
        event: &Event<'_>,
        names: VmNames<'_>,
    ) -> Option<(u16, Change)> {
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

    /// Starts to track the gone event in this slot anew: the event has returned under its id. An approval is remembered.
    pub(crate) fn renew(
        &mut self,
        slot: u16,
        event: &Event<'_>,
        names: VmNames<'_>,
    ) -> Option<Change> {
        let known = self.get_mut(slot)?;
        let (mut renewed, change) = TrackedEvent::first_seen(event, known.event_id.clone(), names);
        renewed.flags.set(Flags::APPROVED, known.is_approved());
        *known = renewed;
        Some(change)
    }

    /// Stores an event in a free slot. Returns `None` if the tracker is full.
    pub(crate) fn place(&mut self, event: TrackedEvent) -> Option<u16> {
        let bucket = self.bucket(&Text::plain(event.event_id.as_str()));
        let head = *self.buckets.get(bucket)?;
        let new = Slot {
            event,
            next: head,
            used: true,
        };
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
        let bucket = self.bucket(&Text::plain(event.event_id.as_str()));
        let after = self
            .slots
            .get(usize::from(slot))
            .map_or(NO_SLOT, |removed| removed.next);
        let Some(head) = self.buckets.get_mut(bucket) else {
            return;
        };
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

    /// The slot of the event with this id.
    pub(crate) fn find_text(&self, id: &Text<'_>) -> Option<u16> {
        let kept;
        let mut id = *id;
        if !EventId::keeps_whole(&id) {
            kept = EventId::new(&id);
            id = Text::plain(kept.as_str());
        }
        let mut next = *self.buckets.get(self.bucket(&id))?;
        while let Some(slot) = self.slots.get(usize::from(next)) {
            if id.eq_ignore_ascii_case(slot.event.event_id.as_str()) {
                return Some(next);
            }
            next = slot.next;
        }
        None
    }

    pub(crate) fn get(&self, slot: u16) -> Option<&TrackedEvent> {
        self.slots
            .get(usize::from(slot))
            .filter(|slot| slot.used)
            .map(|slot| &slot.event)
    }

    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut TrackedEvent> {
        self.slots
            .get_mut(usize::from(slot))
            .filter(|slot| slot.used)
            .map(|slot| &mut slot.event)
    }

    pub(crate) fn slots(&self) -> Slots<'_> {
        Slots(&self.slots)
    }

    /// The number of slots in use or free again: every slot is below it.
    pub(crate) fn slots_used(&self) -> u16 {
        u16::try_from(self.slots.len()).unwrap_or(NO_SLOT)
    }

    fn bucket(&self, id: &Text<'_>) -> usize {
        let hash = Hash::of_id_with(self.seed, id);
        usize::try_from(hash >> 1 & 0x7fff_ffff)
            .unwrap_or(0)
            .checked_rem(N)
            .unwrap_or(0)
    }
}

/// What [`Tracker::observe_known`] counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How many events are not over.
    pub(crate) open: usize,
    /// How many of those are not tracked, or are tracked as gone.
    pub(crate) new: usize,
    /// How many repeat the id of a tracked event that precedes them.
    pub(crate) repeated: usize,
}

/// How many events of the document are not over.
fn count_open(document: &Document<'_>) -> usize {
    document
        .events()
        .filter(|event| !is_over(event))
        .fold(0, |count: usize, _| count.saturating_add(1))
}

/// Whether the event has a final status.
pub(crate) fn is_over(event: &Event<'_>) -> bool {
    event.event_status().is_some_and(|status| status.is_over())
}

/// A document contains more events than the tracker can hold.
///
/// ```
/// use scheduled_events_core::{Document, Tracker, TrackerFull, UnixSeconds, VmNames};
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#)?;
/// let mut tracker = Tracker::<1>::new();
/// let error = tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ()).unwrap_err();
/// assert_eq!(error, TrackerFull { needed: 2 });
/// assert!(tracker.is_empty());
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerFull {
    /// How many events the document contains.
    pub needed: usize,
}

impl fmt::Display for TrackerFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the document contains {} events, more than the tracker can hold",
            self.needed
        )
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
    fn a_document_is_applied_again_after_the_names_change() {
        let body = br#"{"Events":[{"EventId":"a","Resources":["vm_0"]}]}"#;
        let document = Document::parse(body).unwrap();
        let mut tracker = Tracker::<4>::new();
        for (names, mine) in [
            (VmNames::UNKNOWN, None),
            (VmNames::new(&["vm_0"]), Some(true)),
            (VmNames::new(&["vm_1"]), Some(false)),
        ] {
            tracker
                .observe(&document, names, UnixSeconds(0), |_, _| ())
                .unwrap();
            assert_eq!(tracker.iter().next().unwrap().mine(), mine);
        }
    }

    #[test]
    fn a_document_with_too_many_events_is_refused_each_time() {
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
    fn events_of_one_bucket_can_be_removed_in_any_order() {
        let document = |ids: &[String]| {
            let events: Vec<_> = ids
                .iter()
                .map(|id| format!("{{\"EventId\":\"{id}\"}}"))
                .collect();
            format!("{{\"Events\":[{}]}}", events.join(","))
        };
        let bucket = |id: &String| Tracker::<4>::new().bucket(&Text::plain(id));
        let all: Vec<_> = (0..)
            .map(|n| format!("e{n}"))
            .filter(|id| bucket(id) == 3)
            .take(4)
            .collect();
        // The digits of a number in base 4: every order in which four events can be removed, and more.
        for order in
            (0..256).map(|order| [order >> 6 & 3, order >> 4 & 3, order >> 2 & 3, order & 3])
        {
            let (mut tracker, mut left) = (Tracker::<4>::new(), all.clone());
            for step in 0..=4_usize {
                if let Some(place) = step.checked_sub(1) {
                    left.retain(|id| *id != all[order[place]]);
                }
                let body = document(&left);
                tracker
                    .observe(
                        &Document::parse(body.as_bytes()).unwrap(),
                        VmNames::UNKNOWN,
                        UnixSeconds(0),
                        |_, _| {},
                    )
                    .unwrap();
                let found = |id: &String| tracker.find_text(&Text::plain(id)).is_some();
                assert!(
                    all.iter().all(|id| found(id) == left.contains(id)),
                    "{order:?}, {left:?}"
                );
                assert_eq!(tracker.len(), left.len());
            }
        }
    }

    #[test]
    fn repeated_ids_that_the_document_does_not_omit_are_ignored_and_counted() {
        const FIRST: usize = 70;
        let document = |status: &str| {
            let first =
                (0..FIRST).map(|n| format!(r#"{{"EventId":"e{n}","EventStatus":"{status}"}}"#));
            let again = ["e66", "E67", "e66"]
                .map(|id| format!(r#"{{"EventId":"{id}","EventStatus":"Unknown"}}"#));
            format!(
                r#"{{"Events":[{}]}}"#,
                first.chain(again).collect::<Vec<_>>().join(",")
            )
        };
        let mut tracker = Tracker::<80>::new();
        for (status, change) in [
            ("Scheduled", Change::Scheduled),
            ("Started", Change::Started),
        ] {
            let body = document(status);
            let document = Document::parse(body.as_bytes()).unwrap();
            let mut changes = Vec::new();
            let ignored =
                tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |change, _| {
                    changes.push(change);
                });
            assert_eq!(ignored, Ok(3));
            assert_eq!(changes, [change; FIRST]);
            let again = tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, _| {
                panic!("a change")
            });
            assert_eq!(again, Ok(3), "the same document again");
        }
        assert_eq!(tracker.len(), FIRST);
    }

    #[test]
    fn ids_that_share_a_bucket_do_not_with_another_seed() {
        let buckets = |seed: u64| {
            let tracker = Tracker::<1024>::with_seed(seed);
            move |id: &String| tracker.bucket(&Text::plain(id))
        };
        let known = buckets(0);
        let ids: Vec<_> = (0..)
            .map(|n| format!("e{n}"))
            .filter(|id| known(id) == 7)
            .take(200)
            .collect();
        for seed in 1..20 {
            let bucket = buckets(seed);
            let mut places: Vec<_> = ids.iter().map(bucket).collect();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() > 150, "seed {seed}: {} buckets", places.len());
        }
    }

    #[test]
    fn a_tracked_event_takes_at_most_128_bytes() {
        let state = size_of::<Tracker<1024>>();
        assert!(state <= 1024 * 128, "{state}");
    }
}
