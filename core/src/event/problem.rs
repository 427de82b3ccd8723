//! What is invalid in a document that is not refused for it.

use serde::Serialize;

use super::Member;

/// Something invalid in one event, or in the document's own members, for which the document is not refused.
///
/// An event with a problem in a member that decisions depend on is never approved: see
/// [`Event::unreliable_member`](crate::Event::unreliable_member).
///
/// ```
/// use scheduled_events_core::{Document, Member, Position, ProblemKind};
///
/// let body = b"{\"Events\":[\n {\"EventId\":\"a\",\"NotBefore\":\"soon\"}]}";
/// let problem = Document::parse(body)?.problems().next().unwrap();
/// assert_eq!((problem.event, problem.member), (Some(0), Some(Member::NotBefore)));
/// assert_eq!(problem.kind, ProblemKind::UnreadableTime);
/// assert_eq!(Position::of(body, problem.offset).to_string(), "2:29");
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Index in the document's `Events` array, elements that are left out counted; `None` for the document itself.
    pub event: Option<usize>,
    /// The member; `None` for a problem of no member, such as an element that is not an object.
    pub member: Option<Member>,
    /// The first byte of the value, or of the event if a member is missing.
    pub offset: usize,
    /// What is invalid.
    pub kind: ProblemKind,
}

/// The kinds of [`Problem`].
///
/// ```
/// use scheduled_events_core::{Document, ProblemKind};
///
/// let body = br#"{"Events":[{"EventType":"Reboot"},{"EventId":"a"},{"EventId":"A"},7]}"#;
/// let kinds: Vec<_> = Document::parse(body)?.problems().map(|problem| problem.kind).collect();
/// assert_eq!(kinds, [ProblemKind::Missing, ProblemKind::Repeated, ProblemKind::NotAnObject]);
/// assert_eq!(kinds[2].word(), "not-an-object");
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// The event has no `EventId`: it is left out.
    Missing,
    /// An earlier event of the document has this `EventId`: this one is left out. A document compares its first
    /// [`DUPLICATE_ID_WINDOW`](crate::DUPLICATE_ID_WINDOW) ids; a session compares all.
    Repeated,
    /// The `EventId`, the `EventType` or the `EventStatus` is empty. An empty type or status is read as absent.
    Empty,
    /// The `EventId` is longer than [`EVENT_ID_MAX`](crate::EVENT_ID_MAX) bytes, or a value is 2 GiB long or 4 GiB away
    /// from the start of its event (see [`Event`](crate::Event)).
    TooLong,
    /// The member's value has a type that it cannot have.
    WrongType,
    /// An element of `Events` is not an object: it is left out.
    NotAnObject,
    /// A number that is larger or smaller than its meaning allows.
    OutOfRange,
    /// A number with a fraction, or a text that is not a number, instead of a whole number.
    NotAnInteger,
    /// A `NotBefore` that is neither RFC 1123 nor ISO 8601, or a date that does not exist.
    UnreadableTime,
}

impl ProblemKind {
    /// The kind as a word, as in records: `unreadable-time`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Repeated => "repeated",
            Self::Empty => "empty",
            Self::TooLong => "too-long",
            Self::WrongType => "wrong-type",
            Self::NotAnObject => "not-an-object",
            Self::OutOfRange => "out-of-range",
            Self::NotAnInteger => "not-an-integer",
            Self::UnreadableTime => "unreadable-time",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProblemKind;

    #[test]
    fn words_are_what_serde_writes() {
        for kind in [
            ProblemKind::Missing,
            ProblemKind::Repeated,
            ProblemKind::Empty,
            ProblemKind::TooLong,
            ProblemKind::WrongType,
            ProblemKind::NotAnObject,
            ProblemKind::OutOfRange,
            ProblemKind::NotAnInteger,
            ProblemKind::UnreadableTime,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
