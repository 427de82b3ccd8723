//! The members of the document and its events.

use core::fmt;

use serde::Serialize;

use crate::json::Text;

/// A member that the document or its events define.
///
/// ```
/// use scheduled_events_core::{Document, Member};
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a","DurationInSeconds":"a while"}]}"#)?;
/// let member = document.problems().next().and_then(|problem| problem.member);
/// assert_eq!(member, Some(Member::DurationInSeconds));
/// assert_eq!(Member::DurationInSeconds.name(), "DurationInSeconds");
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
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
    /// Whether a text of this length is no word for this member, which cannot be read then.
    #[inline]
    pub(super) const fn is_empty_word(self, length: usize) -> bool {
        length == 0 && matches!(self, Self::EventType | Self::EventStatus)
    }

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

    /// The event's member with this name, escapes decoded, case compared.
    pub(crate) fn of_event(name: &Text<'_>) -> Option<Self> {
        Self::named(name)
            .filter(|member| !matches!(member, Self::DocumentIncarnation | Self::Events))
    }

    /// The document's own member with this name.
    pub(crate) fn of_document(name: &Text<'_>) -> Option<Self> {
        Self::named(name)
            .filter(|member| matches!(member, Self::DocumentIncarnation | Self::Events))
    }

    fn named(name: &Text<'_>) -> Option<Self> {
        // The longest name has 19 bytes. A name that is longer when decoded is unknown.
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

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberSet(u16);

impl MemberSet {
    pub(crate) const EMPTY: Self = Self(0);

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
