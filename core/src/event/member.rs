//! The members by their names on the wire.

use core::fmt;

use serde::Serialize;

use crate::json::{Scanner, Text, Usual};

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
        let Some(behind) = scanner.rest().strip_prefix(b"\"").and_then(|inside| self.behind_name(inside)) else {
            return false;
        };
        scanner.step_to(behind);
        scanner.skip_space();
        true
    }

    /// What is left behind the member's name, whose opening quote is before the text, and its colon. Of a member that is
    /// known where this stands one comparison is left there.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(crate) fn behind_name(self, text: &[u8]) -> Option<&[u8]> {
        match self {
            Self::EventId => text.strip_prefix(b"EventId\":"),
            Self::EventStatus => text.strip_prefix(b"EventStatus\":"),
            Self::EventType => text.strip_prefix(b"EventType\":"),
            Self::ResourceType => text.strip_prefix(b"ResourceType\":"),
            Self::Resources => text.strip_prefix(b"Resources\":"),
            Self::NotBefore => text.strip_prefix(b"NotBefore\":"),
            Self::Description => text.strip_prefix(b"Description\":"),
            Self::EventSource => text.strip_prefix(b"EventSource\":"),
            Self::DurationInSeconds => text.strip_prefix(b"DurationInSeconds\":"),
            Self::DocumentIncarnation => text.strip_prefix(b"DocumentIncarnation\":"),
            Self::Events => text.strip_prefix(b"Events\":"),
        }
    }

    /// The text that the member mostly has.
    #[inline]
    pub(crate) const fn usual_text(self) -> Usual {
        match self {
            Self::EventId => Usual::Length(36),
            Self::EventStatus => Usual::Text(b"Scheduled"),
            Self::ResourceType => Usual::Text(b"VirtualMachine"),
            Self::NotBefore => Usual::Length(29),
            Self::EventSource => Usual::Text(b"Platform"),
            _ => Usual::Unknown,
        }
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberSet(u16);

impl MemberSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn contains(self, member: Member) -> bool {
        self.0 & member.bit() != 0
    }

    /// The members of an event that stand before this one where Azure writes them; all of them before none.
    pub(crate) const fn before(due: Option<Member>) -> Self {
        let due = match due {
            Some(member) => member,
            None => Member::DocumentIncarnation,
        };
        Self(due.bit().wrapping_sub(1))
    }

    pub(crate) const fn insert(&mut self, member: Member) {
        self.0 |= member.bit();
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
