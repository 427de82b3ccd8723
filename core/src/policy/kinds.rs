//! The types and sources of events, as rules name them, and sets of them.

use crate::event::{Event, EventSource, EventType};
use crate::words::words;

/// The type of an event, as a rule names it.
///
/// ```
/// use scheduled_events_core::{EventKind, EventType, Text};
///
/// assert_eq!(EventKind::from(EventType::Preempt), EventKind::Preempt);
/// assert_eq!(EventKind::from(EventType::Other(Text::plain("Cool"))), EventKind::Other);
/// assert_eq!(EventKind::Preempt.word(), "Preempt");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // These are Azure's words.
pub enum EventKind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
    /// Any other type.
    Other,
    /// Advice, which no other word names.
    SpotRebalanceRecommendation,
}

words!(EventKind {
    Freeze => "Freeze",
    Reboot => "Reboot",
    Redeploy => "Redeploy",
    Preempt => "Preempt",
    Terminate => "Terminate",
    Other => "Other",
    SpotRebalanceRecommendation => "SpotRebalanceRecommendation",
});

impl From<EventType<'_>> for EventKind {
    fn from(event_type: EventType<'_>) -> Self {
        match event_type {
            EventType::Freeze => Self::Freeze,
            EventType::Reboot => Self::Reboot,
            EventType::Redeploy => Self::Redeploy,
            EventType::Preempt => Self::Preempt,
            EventType::Terminate => Self::Terminate,
            EventType::SpotRebalanceRecommendation => Self::SpotRebalanceRecommendation,
            EventType::Other(_) => Self::Other,
        }
    }
}

/// The source of an event, as a rule names it.
///
/// ```
/// use scheduled_events_core::{EventSource, SourceKind};
///
/// assert_eq!(SourceKind::from(EventSource::User), SourceKind::User);
/// assert_eq!(SourceKind::User.word(), "User");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // These are Azure's words.
pub enum SourceKind {
    Platform,
    User,
    /// Any other source.
    Other,
}

words!(SourceKind {
    Platform => "Platform",
    User => "User",
    Other => "Other",
});

impl From<EventSource<'_>> for SourceKind {
    fn from(source: EventSource<'_>) -> Self {
        match source {
            EventSource::Platform => Self::Platform,
            EventSource::User => Self::User,
            EventSource::Other(_) => Self::Other,
        }
    }
}

/// A set of event types.
///
/// ```
/// use scheduled_events_core::{EventKind, EventTypes};
///
/// let set = EventTypes::of(&[EventKind::Freeze, EventKind::Reboot]);
/// assert!(set.contains(EventKind::Reboot) && !set.contains(EventKind::Preempt));
/// assert_eq!(set.bits(), 0b11);
/// assert_eq!(EventTypes::from_bits(0b11), Some(set));
/// assert_eq!(EventTypes::from_bits(0b1000_0000), None);
/// // Advice is in a set only if it is named.
/// assert!(!EventTypes::ANY.contains(EventKind::SpotRebalanceRecommendation));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventTypes(u8);

impl Default for EventTypes {
    /// [`ANY`](Self::ANY).
    fn default() -> Self {
        Self::ANY
    }
}

impl EventTypes {
    /// Every type, including unknown ones, but no advice: that is matched only by who names it.
    pub const ANY: Self = Self(0b11_1111);

    const ADVICE: Self = Self(1 << EventKind::SpotRebalanceRecommendation as u8);

    /// Exactly these types.
    pub fn of(kinds: &[EventKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u8))
    }

    /// The set as bits, from the lowest: Freeze, Reboot, Redeploy, Preempt, Terminate, any other type,
    /// `SpotRebalanceRecommendation`.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these [`bits`](Self::bits); `None` for bits that have no meaning.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !(Self::ANY.0 | Self::ADVICE.0) == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Whether events of this type are among them.
    pub const fn contains(self, kind: EventKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether an event matches. Advice matches by that alone, whatever its type; an event without a readable type matches no
    /// set but that of every type.
    pub(super) fn matches(self, event: &Event<'_>) -> bool {
        match event.event_type() {
            _ if event.is_advice() => self.contains(EventKind::SpotRebalanceRecommendation),
            Some(event_type) => self.contains(EventKind::from(event_type)),
            None => self.0 & Self::ANY.0 == Self::ANY.0,
        }
    }
}

/// A set of event sources.
///
/// ```
/// use scheduled_events_core::{EventSources, SourceKind};
///
/// let set = EventSources::of(&[SourceKind::User]);
/// assert_eq!(set.bits(), 0b10);
/// assert_eq!(EventSources::from_bits(0b10), Some(set));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventSources(u8);

impl Default for EventSources {
    /// [`ANY`](Self::ANY).
    fn default() -> Self {
        Self::ANY
    }
}

impl EventSources {
    /// Every source, including unknown ones, and events without a source.
    pub const ANY: Self = Self(0b1111);

    /// Exactly these sources. An event without a source does not match.
    pub fn of(kinds: &[SourceKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u8))
    }

    /// The set as bits, from the lowest: Platform, User, any other source, none.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these [`bits`](Self::bits); `None` for bits that have no meaning.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ANY.0 == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    pub(super) fn matches(self, source: Option<EventSource<'_>>) -> bool {
        let bit = source.map_or(3, |source| SourceKind::from(source) as u8);
        self.0 & 1 << bit != 0
    }
}
