//! What the tracker keeps about one event, and how a new document changes it.

use super::change::{Change, Changes};
use crate::event::{Event, EventStatus, NotBefore};
use crate::event_id::EventId;
use crate::fixed_str;
use crate::hash::Hash;
use crate::json::Text;
use crate::names::VmNames;
use crate::time::UnixSeconds;

/// The status of a tracked event. `Started` is final: a stale document does not undo it.
///
/// ```
/// use scheduled_events_core::{Document, TrackedStatus, Tracker, UnixSeconds, VmNames};
///
/// let started = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Started"}]}"#)?;
/// let stale = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled"}]}"#)?;
/// let mut tracker = Tracker::<16>::new();
/// for document in [started, stale] {
///     tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ())?;
///     assert_eq!(tracker.iter().next().unwrap().status(), TrackedStatus::Started);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackedStatus {
    /// The status is missing or unknown.
    Unclear,
    /// The event was last seen as `Scheduled`.
    Scheduled,
    /// The event was seen as `Started`.
    Started,
    /// The event was last seen as [advice](crate::Event::is_advice), whatever its status.
    Advisory,
}

impl TrackedStatus {
    fn of(event: &Event<'_>) -> Self {
        match event.event_status() {
            _ if event.is_advice() => Self::Advisory,
            Some(EventStatus::Scheduled) => Self::Scheduled,
            Some(EventStatus::Started) => Self::Started,
            _ => Self::Unclear,
        }
    }
}

/// How many bytes of an event's type are kept. The longest type seen so far has 27.
pub(crate) const TYPE_MAX: usize = 28;

pub(crate) const NOT_BEFORE_UNKNOWN: UnixSeconds = UnixSeconds(i64::MIN);

/// An event as a [`Tracker`](crate::Tracker) keeps it, independent of the document.
///
/// ```
/// use scheduled_events_core::{Document, TrackedStatus, Tracker, UnixSeconds, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Freeze","Resources":["vm"],
///     "NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","DurationInSeconds":5}]}"#;
/// let mut tracker = Tracker::<16>::new();
/// tracker.observe(&Document::parse(body)?, VmNames::new(&["vm"]), UnixSeconds(0), |_, _| ())?;
/// let event = tracker.iter().next().unwrap();
/// assert_eq!((event.event_id().as_str(), event.event_type()), ("a", "Freeze"));
/// assert_eq!(event.status(), TrackedStatus::Scheduled);
/// assert_eq!(event.not_before(), Some(UnixSeconds(1_649_716_018)));
/// assert_eq!(event.duration_in_seconds(), Some(5));
/// assert_eq!(event.mine(), Some(true));
/// assert!(!event.is_approved() && !event.is_gone());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TrackedEvent {
    /// `NOT_BEFORE_UNKNOWN` if it is unknown: an `Option` would take eight bytes more.
    pub(crate) not_before: UnixSeconds,
    /// Hash of the members whose change is reported as `updated`.
    pub(crate) digest: u32,
    pub(crate) duration: u32,
    pub(crate) event_id: EventId,
    pub(crate) event_type: heapless::String<TYPE_MAX, u8>,
    pub(crate) status: TrackedStatus,
    pub(crate) flags: Flags,
}

/// What a document changed about a tracked event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    pub(crate) changes: Changes,
    /// Whether a preparation for the event as it was does not suffice any more.
    pub(crate) voids_preparation: bool,
}

/// Facts about a tracked event, as bits. A snapshot contains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    /// `Resources` names this machine.
    pub(crate) const MINE: u8 = 1;
    /// The names of this machine are known, so that `MINE` is meaningful.
    pub(crate) const NAMES_KNOWN: u8 = 2;
    /// An approval succeeded.
    pub(crate) const APPROVED: u8 = 4;
    /// The event was seen as `Scheduled`.
    pub(crate) const SEEN_SCHEDULED: u8 = 8;
    /// The document that is being applied contains the event.
    pub(crate) const PRESENT: u8 = 16;
    /// The event is gone. Its slot is kept until its end is reported and the host has recovered.
    pub(crate) const GONE: u8 = 32;
    /// Only notifications have shown the event so far, so that it is not over if a document does not have it.
    pub(crate) const NOTIFIED: u8 = 64;
    /// A notification says that the event is over. Its slot is kept until the document does not have it any more either.
    pub(crate) const END_NOTIFIED: u8 = 128;

    /// The facts of a snapshot; `None` for some that exclude each other.
    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        let flags = Self(bits);
        if flags.has(Self::END_NOTIFIED) && !flags.has(Self::GONE) {
            None
        } else {
            Some(flags)
        }
    }

    pub(crate) const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub(crate) const fn set(&mut self, bit: u8, on: bool) {
        if on {
            self.0 |= bit;
        } else {
            self.0 &= !bit;
        }
    }
}

impl TrackedEvent {
    /// The event's id, as written when it was first seen.
    pub const fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// The first 28 bytes of the event's type, as last received in a readable form; empty if the event has none.
    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    /// The event's status.
    pub const fn status(&self) -> TrackedStatus {
        self.status
    }

    /// Whether the event was last seen as [advice](crate::Event::is_advice).
    ///
    /// ```
    /// use scheduled_events_core::{Change, Document, Tracker, UnixSeconds, VmNames};
    ///
    /// let body = br#"{"Events":[{"EventId":"a","EventType":"SpotRebalanceRecommendation","EventStatus":"Advisory"}]}"#;
    /// let mut tracker = Tracker::<16>::new();
    /// tracker.observe(&Document::parse(body)?, VmNames::UNKNOWN, UnixSeconds(0), |change, event| {
    ///     assert!(event.is_advice() && change == Change::Advised);
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn is_advice(&self) -> bool {
        matches!(self.status, TrackedStatus::Advisory)
    }

    /// The last known `NotBefore`. Documents omit it when the event starts.
    pub const fn not_before(&self) -> Option<UnixSeconds> {
        if self.not_before.0 == NOT_BEFORE_UNKNOWN.0 {
            None
        } else {
            Some(self.not_before)
        }
    }

    /// The `DurationInSeconds` of the last document in which the event was readable; `None` if it is unknown.
    pub const fn duration_in_seconds(&self) -> Option<u32> {
        if self.duration == u32::MAX {
            None
        } else {
            Some(self.duration)
        }
    }

    /// Whether `Resources` names this machine; `None` while the names of this machine are unknown.
    pub const fn mine(&self) -> Option<bool> {
        if self.flags.has(Flags::NAMES_KNOWN) {
            Some(self.flags.has(Flags::MINE))
        } else {
            None
        }
    }

    /// Whether an approval of the event succeeded.
    pub const fn is_approved(&self) -> bool {
        self.flags.has(Flags::APPROVED)
    }

    /// Whether the event is no longer in the document.
    pub const fn is_gone(&self) -> bool {
        self.flags.has(Flags::GONE)
    }

    pub(super) fn first_seen(
        event: &Event<'_>,
        event_id: EventId,
        names: VmNames<'_>,
    ) -> (Self, Change) {
        let word = event
            .event_type()
            .map_or(Text::plain(""), |word| word.text());
        let (event_type, _) = fixed_str::truncated(&word, TYPE_MAX);
        let mut tracked = Self {
            not_before: event.not_before().moment().unwrap_or(NOT_BEFORE_UNKNOWN),
            digest: digest(event),
            duration: event.duration_in_seconds().unwrap_or(u32::MAX),
            event_id,
            event_type,
            status: TrackedStatus::of(event),
            flags: Flags(Flags::PRESENT),
        };
        tracked.note_owner(event, names);
        let change = match tracked.status {
            TrackedStatus::Started => Change::StartedWithoutNotice,
            TrackedStatus::Advisory => Change::Advised,
            TrackedStatus::Scheduled => {
                tracked.flags.set(Flags::SEEN_SCHEDULED, true);
                Change::Scheduled
            }
            TrackedStatus::Unclear => Change::Scheduled,
        };
        (tracked, change)
    }

    /// Updates the event from the document. Returns what changed.
    pub(crate) fn seen_again(&mut self, event: &Event<'_>, names: VmNames<'_>) -> Difference {
        self.flags.set(Flags::PRESENT, true);
        self.note_owner(event, names);
        let mut changes = Changes::default();
        let digest = digest(event);
        if digest != self.digest {
            self.digest = digest;
            changes.insert(Change::Updated);
        }
        let seen = TrackedStatus::of(event);
        let status = match seen {
            // What cannot be read does not turn advice into maintenance.
            TrackedStatus::Unclear if self.is_advice() => TrackedStatus::Advisory,
            status => status,
        };
        // What advice is prepared for is not what maintenance is prepared for.
        let is_other_kind = self.is_advice() != (status == TrackedStatus::Advisory);
        let voids_preparation = (self.update_interruption(event, seen)
            || is_other_kind && status != TrackedStatus::Started)
            && self.status != TrackedStatus::Started;
        if self.status == TrackedStatus::Started {
            return Difference {
                changes,
                voids_preparation,
            };
        }
        if let NotBefore::At(moment) = event.not_before()
            && status != TrackedStatus::Started
            && self.not_before != moment
        {
            self.not_before = moment;
            changes.insert(Change::Rescheduled);
        }
        if status != self.status {
            self.status = status;
            match status {
                // The most important change, so the only one that is reported.
                TrackedStatus::Started => {
                    changes = Changes::default();
                    let noticed = self.flags.has(Flags::SEEN_SCHEDULED);
                    changes.insert(if noticed {
                        Change::Started
                    } else {
                        Change::StartedWithoutNotice
                    });
                }
                TrackedStatus::Advisory => changes.insert(Change::Advised),
                _ if is_other_kind => changes.insert(Change::Scheduled),
                _ if changes.is_empty() => changes.insert(Change::Updated),
                _ => {}
            }
            match status {
                TrackedStatus::Scheduled => self.flags.set(Flags::SEEN_SCHEDULED, true),
                TrackedStatus::Advisory => self.flags.set(Flags::SEEN_SCHEDULED, false),
                TrackedStatus::Started | TrackedStatus::Unclear => {}
            }
        }
        Difference {
            changes,
            voids_preparation,
        }
    }

    /// Updates the type and the duration from a document that can be read. Returns whether the event is another kind of
    /// interruption, or a longer one, than the one that the host may have prepared for.
    fn update_interruption(&mut self, event: &Event<'_>, status: TrackedStatus) -> bool {
        if status == TrackedStatus::Unclear || event.unreliable_member().is_some() {
            return false;
        }
        let word = event
            .event_type()
            .map_or(Text::plain(""), |word| word.text());
        let (event_type, _) = fixed_str::truncated(&word, TYPE_MAX);
        let duration = event.duration_in_seconds().unwrap_or(u32::MAX);
        // A type that could not be read may have been this one.
        let was_other = !self.event_type.is_empty() && event_type != self.event_type;
        let is_other = was_other || duration > self.duration;
        self.event_type = event_type;
        self.duration = duration;
        is_other && status != TrackedStatus::Started
    }

    fn note_owner(&mut self, event: &Event<'_>, names: VmNames<'_>) {
        if let Some(mine) = names.owns(event) {
            self.flags.set(Flags::NAMES_KNOWN, true);
            self.flags.set(Flags::MINE, mine);
        }
    }

    /// Classifies the end of the event, which is absent or has the final status `last`.
    pub(super) fn end(&self, last: Option<&EventStatus<'_>>, now: UnixSeconds) -> Change {
        match last {
            _ if self.is_advice() => Change::AdviceWithdrawn,
            Some(status) if status.is_cancelled() && self.status != TrackedStatus::Started => {
                Change::Cancelled
            }
            Some(_)
                if self.flags.has(Flags::SEEN_SCHEDULED)
                    || self.status == TrackedStatus::Started =>
            {
                Change::Completed
            }
            _ if self.status == TrackedStatus::Started => Change::Completed,
            _ if self.is_approved() => Change::Ended,
            _ if self.status == TrackedStatus::Scheduled
                && self.not_before().is_some_and(|start| now < start) =>
            {
                Change::Cancelled
            }
            _ => Change::Ended,
        }
    }
}

/// Hash of the members whose change is reported as `updated`: all but id, status and `NotBefore`, which have changes of
/// their own.
pub(crate) fn digest(event: &Event<'_>) -> u32 {
    let mut hash = Hash::new();
    let words = [
        event.event_type().map(|word| word.text()),
        event.event_source().map(|word| word.text()),
        event.resource_type(),
        event.description(),
    ];
    for word in words {
        hash.byte(u8::from(word.is_some()));
        hash.text(&word.unwrap_or(Text::plain("")));
    }
    hash.bytes(
        &event
            .duration_in_seconds()
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    for name in event.resources() {
        hash.text(&name);
    }
    let hash = hash.finish();
    u32::try_from(hash >> 32).unwrap_or(0)
}
