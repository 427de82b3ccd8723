//! What can be wrong with a document, and where.

use core::fmt;

use serde::Serialize;

use crate::event::Member;

/// Why a document was refused, and at which byte.
///
/// Only four things refuse a document: it is not JSON (RFC 8259, strictly), it is no object, it has no `Events`
/// array, or a known member stands twice. Whatever else is odd becomes a [`Problem`] of one event.
///
/// ```
/// use scheduled_events_core::{Document, ParseErrorKind, Position};
///
/// let body = b"{\"DocumentIncarnation\":1,\n \"Events\":[}";
/// let error = Document::parse(body).unwrap_err();
/// assert_eq!(error.kind, ParseErrorKind::UnexpectedByte);
/// assert_eq!(error.position(body), Position { line: 2, column: 12 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// The byte at which it is wrong, counted from 0; the input's length where the input ended too early.
    pub offset: usize,
}

impl ParseError {
    pub(crate) const fn new(kind: ParseErrorKind, offset: usize) -> Self {
        Self { kind, offset }
    }

    /// Line and column of the error in `input`, which must be the bytes that were parsed.
    pub fn position(&self, input: &[u8]) -> Position {
        Position::of(input, self.offset)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind.message(), self.offset)
    }
}

impl core::error::Error for ParseError {}

/// The kinds of [`ParseError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The input ends inside a value: a cut-off body, or an empty one.
    UnexpectedEnd,
    /// A byte that cannot stand there.
    UnexpectedByte,
    /// A raw byte below 0x20 inside a string.
    ControlCharacter,
    /// A backslash that starts no escape of RFC 8259.
    InvalidEscape,
    /// Half of a `\uD800`-`\uDFFF` pair.
    LoneSurrogate,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// A number outside the grammar, such as `01` or `1.`.
    InvalidNumber,
    /// More than [`MAX_DEPTH`](crate::MAX_DEPTH) objects and arrays inside each other.
    TooDeep,
    /// The document is a value, but no object.
    NotAnObject,
    /// The document has no `Events`, or they are no array.
    NoEvents,
    /// A member that the document defines stands twice in one object.
    RepeatedMember,
    /// Something follows the document.
    TrailingData,
}

impl ParseErrorKind {
    /// The kind as a word, as records spell it: `unexpected-byte`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::UnexpectedEnd => "unexpected-end",
            Self::UnexpectedByte => "unexpected-byte",
            Self::ControlCharacter => "control-character",
            Self::InvalidEscape => "invalid-escape",
            Self::LoneSurrogate => "lone-surrogate",
            Self::InvalidUtf8 => "invalid-utf8",
            Self::InvalidNumber => "invalid-number",
            Self::TooDeep => "too-deep",
            Self::NotAnObject => "not-an-object",
            Self::NoEvents => "no-events",
            Self::RepeatedMember => "repeated-member",
            Self::TrailingData => "trailing-data",
        }
    }

    /// What is wrong, in a few words for a person.
    pub const fn message(self) -> &'static str {
        match self {
            Self::UnexpectedEnd => "the document ends too early",
            Self::UnexpectedByte => "this byte cannot stand here",
            Self::ControlCharacter => "a control character stands unescaped in a string",
            Self::InvalidEscape => "this is no escape sequence of JSON",
            Self::LoneSurrogate => "half of a surrogate pair stands alone",
            Self::InvalidUtf8 => "these bytes are not UTF-8",
            Self::InvalidNumber => "this is no number of JSON",
            Self::TooDeep => "more than 32 objects and arrays stand inside each other",
            Self::NotAnObject => "the document is not an object",
            Self::NoEvents => "the document has no array \"Events\"",
            Self::RepeatedMember => "this member stands here for the second time",
            Self::TrailingData => "something follows after the end of the document",
        }
    }
}

/// A place in a text, as editors count: line and column from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The line, from 1; lines end with a line feed.
    pub line: u32,
    /// The column, from 1, in characters; a byte order mark is not counted.
    pub column: u32,
}

impl Position {
    /// The position of the byte at `offset` in `input`; an offset beyond the end counts as the end.
    ///
    /// Runs over the input up to there, so it is for messages, not for loops.
    pub fn of(input: &[u8], offset: usize) -> Self {
        let before = input.get(..offset).unwrap_or(input);
        let before = before.strip_prefix(b"\xef\xbb\xbf").unwrap_or(before);
        let mut position = Self { line: 1, column: 1 };
        for &byte in before {
            if byte == b'\n' {
                position.line = position.line.saturating_add(1);
                position.column = 1;
            } else if byte & 0xc0 != 0x80 {
                // Continuation bytes of UTF-8 belong to a character that has been counted.
                position.column = position.column.saturating_add(1);
            }
        }
        position
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Something odd in one event, or in the document's own members, that does not refuse the document.
///
/// An event with a problem in a member that decisions rest on is held, never approved: see
/// [`Event::unreliable_member`](crate::Event::unreliable_member).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Index in the document's `Events` array, elements that are left out counted; `None` for the document itself.
    pub event: Option<usize>,
    /// The member concerned; `None` where no member is, as for an element that is no object.
    pub member: Option<Member>,
    /// The first byte of the value concerned, or of the event where a member is missing.
    pub offset: usize,
    /// What is odd.
    pub kind: ProblemKind,
}

/// The kinds of [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// The event has no `EventId`: it is left out.
    Missing,
    /// An event with this `EventId` stands earlier in the document: this one is left out.
    Repeated,
    /// The `EventId` is empty.
    Empty,
    /// The `EventId` is longer than [`EVENT_ID_MAX`](crate::EVENT_ID_MAX) bytes; or a text is so long that a view cannot
    /// keep its place, which takes gibibytes (see [`Event`](crate::Event)).
    TooLong,
    /// The member's value has a type that it cannot have.
    WrongType,
    /// An element of `Events` is no object: it is left out.
    NotAnObject,
    /// A number that is larger or smaller than its meaning allows.
    OutOfRange,
    /// A number with a fraction, or a text that is no number, where a whole number is meant.
    NotAnInteger,
    /// A `NotBefore` that is neither RFC 1123 nor ISO 8601, or a date that does not exist.
    UnreadableTime,
}

impl ProblemKind {
    /// The kind as a word, as records spell it: `unreadable-time`.
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

/// The caller's buffer cannot hold the result; nothing useful was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTooSmall {
    /// The bytes that the result takes.
    pub needed: usize,
}

impl fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the buffer is too small: {} bytes are needed", self.needed)
    }
}

impl core::error::Error for BufferTooSmall {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert_eq!(size_of::<ParseError>(), 2 * size_of::<usize>());
    }

    #[test]
    fn positions_count_characters_and_skip_the_mark() {
        let text = "\u{feff}{\n \"ü\": x".as_bytes();
        let x = text.len() - 1;
        assert_eq!(Position::of(text, x), Position { line: 2, column: 7 });
        assert_eq!(Position::of(text, usize::MAX), Position { line: 2, column: 8 });
        assert_eq!(Position::of(b"", 0), Position { line: 1, column: 1 });
    }

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
