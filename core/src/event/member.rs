//! The members by their names on the wire.

use core::fmt;

use serde::Serialize;

use crate::json::{Beginning, Scanner, Text};

/// The members that the document and its events define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(missing_docs)] // The names are the wire's own.
#[non_exhaustive]
pub enum Member {
    EventId,
    EventStatus,
    EventType,
    ResourceType,
    Resources,
    NotBefore,
    Description,
    EventSource,
    DurationInSeconds,
    DocumentIncarnation,
    Events,
}

impl Member {
    /// The member's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventId => "EventId",
            Self::EventStatus => "EventStatus",
            Self::EventType => "EventType",
            Self::ResourceType => "ResourceType",
            Self::Resources => "Resources",
            Self::NotBefore => "NotBefore",
            Self::Description => "Description",
            Self::EventSource => "EventSource",
            Self::DurationInSeconds => "DurationInSeconds",
            Self::DocumentIncarnation => "DocumentIncarnation",
            Self::Events => "Events",
        }
    }

    /// The event's member of this name, escapes decoded, case kept.
    pub(crate) fn of_event(name: &Text<'_>) -> Option<Self> {
        Self::named(name).filter(|member| !matches!(member, Self::DocumentIncarnation | Self::Events))
    }

    /// The document's own member of this name.
    pub(crate) fn of_document(name: &Text<'_>) -> Option<Self> {
        Self::named(name).filter(|member| matches!(member, Self::DocumentIncarnation | Self::Events))
    }

    fn named(name: &Text<'_>) -> Option<Self> {
        // The longest name has 19 bytes; whatever is longer once it is decoded is unknown.
        let mut buffer = [0; 24];
        let name = match name.as_str() {
            Some(name) => name,
            None => name.copy_to(&mut buffer).ok()?,
        };
        Some(match name {
            "EventId" => Self::EventId,
            "EventStatus" => Self::EventStatus,
            "EventType" => Self::EventType,
            "ResourceType" => Self::ResourceType,
            "Resources" => Self::Resources,
            "NotBefore" => Self::NotBefore,
            "Description" => Self::Description,
            "EventSource" => Self::EventSource,
            "DurationInSeconds" => Self::DurationInSeconds,
            "DocumentIncarnation" => Self::DocumentIncarnation,
            "Events" => Self::Events,
            _ => return None,
        })
    }

    /// Steps over the member's name, its colon and the space behind, if they stand here as Azure writes them.
    #[inline(never)]
    pub(crate) fn eat_name(self, scanner: &mut Scanner<'_>) -> bool {
        self.eat_name_inline(scanner)
    }

    /// The same for a member that is known where this stands, of which one comparison is left there.
    #[inline(always)]
    #[allow(clippy::inline_always)] // A call would take the scanner out of its registers.
    pub(crate) fn eat_name_inline(self, scanner: &mut Scanner<'_>) -> bool {
        match self {
            Self::EventId => scanner.eat_exactly(b"\"EventId\":"),
            Self::EventStatus => scanner.eat_exactly(b"\"EventStatus\":"),
            Self::EventType => scanner.eat_exactly(b"\"EventType\":"),
            Self::ResourceType => scanner.eat_exactly(b"\"ResourceType\":"),
            Self::Resources => scanner.eat_exactly(b"\"Resources\":"),
            Self::NotBefore => scanner.eat_exactly(b"\"NotBefore\":"),
            Self::Description => scanner.eat_exactly(b"\"Description\":"),
            Self::EventSource => scanner.eat_exactly(b"\"EventSource\":"),
            Self::DurationInSeconds => scanner.eat_exactly(b"\"DurationInSeconds\":"),
            Self::DocumentIncarnation => scanner.eat_exactly(b"\"DocumentIncarnation\":"),
            Self::Events => scanner.eat_exactly(b"\"Events\":"),
        }
    }

    /// Steps over the member's name, its colon and the quote behind, if its value is a text, and they stand here as Azure
    /// writes them, or with a space.
    #[inline]
    pub(crate) fn eat_up_to_text(self, scanner: &mut Scanner<'_>) -> bool {
        const fn of(member: Member) -> [Beginning; 2] {
            let name = member.name().as_bytes();
            [Beginning::of(name, b"\":\""), Beginning::of(name, b"\": \"")]
        }
        const BEGINNINGS: [[Beginning; 2]; 8] = [
            of(Member::EventId),
            of(Member::EventStatus),
            of(Member::EventType),
            of(Member::ResourceType),
            [Beginning::NONE; 2],
            of(Member::NotBefore),
            of(Member::Description),
            of(Member::EventSource),
        ];
        let Some([compact, spaced]) = BEGINNINGS.get(self as usize) else { return false };
        scanner.eat_in_quotes(compact) || scanner.eat_in_quotes(spaced)
    }

    /// The member behind this one in the documents that Azure writes.
    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::EventId => Some(Self::EventStatus),
            Self::EventStatus => Some(Self::EventType),
            Self::EventType => Some(Self::ResourceType),
            Self::ResourceType => Some(Self::Resources),
            Self::Resources => Some(Self::NotBefore),
            Self::NotBefore => Some(Self::Description),
            Self::Description => Some(Self::EventSource),
            Self::EventSource => Some(Self::DurationInSeconds),
            Self::DocumentIncarnation => Some(Self::Events),
            Self::DurationInSeconds | Self::Events => None,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemberSet(u16);

impl MemberSet {
    pub(crate) const fn contains(self, member: Member) -> bool {
        self.0 & member.bit() != 0
    }

    pub(crate) const fn insert(&mut self, member: Member) {
        self.0 |= member.bit();
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
