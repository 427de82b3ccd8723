//! Errors: why a document is refused, and where; and a buffer that is too small.

use core::fmt;

use serde::Serialize;

/// Why a document was refused, and at which byte.
///
/// A document is refused only if it is not JSON (RFC 8259, strictly), is not an object, has no `Events` array, or repeats
/// a known member. Anything else that is invalid becomes a [`Problem`](crate::Problem) of one event.
///
/// [`message`](Self::message) names what was found and what was expected. Two errors are equal if their kinds and offsets
/// are; the message does not count.
///
/// ```
/// use scheduled_events_core::{Document, ParseErrorKind, Position};
///
/// let body = b"{\"DocumentIncarnation\":1,\n \"Events\":[}";
/// let error = Document::parse(body).unwrap_err();
/// assert_eq!(error.kind, ParseErrorKind::UnexpectedByte);
/// assert_eq!(error.position(body), Position { line: 2, column: 12 });
/// assert_eq!(error.to_string(), "expected a value, found `}` at byte 37");
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// The byte at which it is wrong, counted from 0; the input's length if the input ends too early.
    pub offset: usize,
    /// What would have been right at that byte, if the kind does not say it.
    expected: Option<ExpectedToken>,
    /// The byte that was found; `None` if it is not known or the input ends there.
    found: Option<u8>,
}

impl ParseError {
    pub(crate) const fn new(kind: ParseErrorKind, offset: usize) -> Self {
        Self {
            kind,
            offset,
            expected: None,
            found: None,
        }
    }

    /// The error for the byte `found` where something else was expected.
    pub(crate) const fn found(kind: ParseErrorKind, offset: usize, found: Option<u8>) -> Self {
        Self {
            kind,
            offset,
            expected: None,
            found,
        }
    }

    #[must_use]
    pub(crate) const fn expected(self, expected: ExpectedToken) -> Self {
        Self {
            expected: Some(expected),
            ..self
        }
    }

    /// Line and column of the error in `input`, which must be the bytes that were parsed.
    pub fn position(&self, input: &[u8]) -> Position {
        Position::of(input, self.offset)
    }

    /// What is wrong, without the position: what was found and what was expected, as far as that is known. The text is
    /// printable ASCII whatever the input.
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let error = Document::parse(br#"{"Events":[]]"#).unwrap_err();
    /// assert_eq!(error.message().to_string(), "expected `,` or `}` after a member, found `]`");
    /// ```
    pub const fn message(&self) -> impl fmt::Display + use<> {
        ErrorMessage(*self)
    }
}

impl PartialEq for ParseError {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.offset == other.offset
    }
}

impl Eq for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", ErrorMessage(*self), self.offset)
    }
}

impl core::error::Error for ParseError {}

/// What JSON, or the document's form, allows at some byte.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedToken {
    Value,
    MemberName,
    MemberNameOrEnd,
    Colon,
    CommaOrBrace,
    CommaOrBracket,
    Object,
    Array,
    String,
    StringEnd,
    True,
    False,
    Null,
    Digit,
    /// No further digit after a leading zero.
    NoLeadingZero,
    EscapeLetter,
    HexDigit,
    LowSurrogate,
}

impl ExpectedToken {
    const fn words(self) -> &'static str {
        match self {
            Self::Value => "a value",
            Self::MemberName => "a member name",
            Self::MemberNameOrEnd => "a member name or `}`",
            Self::Colon => "`:` after a member name",
            Self::CommaOrBrace => "`,` or `}` after a member",
            Self::CommaOrBracket => "`,` or `]` after an element",
            Self::Object => "an object",
            Self::Array => "an array as `Events`",
            Self::String => "a string",
            Self::StringEnd => "the end of a string",
            Self::True => "`true`",
            Self::False => "`false`",
            Self::Null => "`null`",
            Self::Digit => "a digit",
            Self::NoLeadingZero => "no digit after a leading zero",
            Self::EscapeLetter => "an escape after `\\`",
            Self::HexDigit => "four hexadecimal digits after `\\u`",
            Self::LowSurrogate => "a low surrogate such as `\\udc00` after a high one",
        }
    }
}

/// The message of an error.
struct ErrorMessage(ParseError);

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError {
            kind,
            expected,
            found,
            ..
        } = self.0;
        match (kind, expected, found) {
            (
                ParseErrorKind::InvalidEscape,
                Some(ExpectedToken::EscapeLetter),
                Some(byte @ b' '..=b'~'),
            ) => {
                write!(f, "`\\{}` is not a JSON escape", char::from(byte))
            }
            (ParseErrorKind::InvalidNumber, Some(ExpectedToken::NoLeadingZero), Some(byte)) => {
                write!(
                    f,
                    "a number starts with `0{}`: leading zeros are not allowed",
                    char::from(byte)
                )
            }
            (ParseErrorKind::ControlCharacter, _, Some(byte)) => {
                write!(f, "unescaped control character 0x{byte:02x} in a string")
            }
            (ParseErrorKind::InvalidUtf8, _, Some(byte)) => {
                write!(f, "byte 0x{byte:02x} is not valid UTF-8 here")
            }
            (ParseErrorKind::TrailingData, _, Some(byte)) => {
                write!(
                    f,
                    "expected the end of the document, found {}",
                    FoundByte(byte)
                )
            }
            (ParseErrorKind::UnexpectedEnd, Some(expected), _) => {
                write!(f, "expected {}, but the document ends", expected.words())
            }
            (_, Some(expected), Some(byte)) => write!(
                f,
                "expected {}, found {}",
                expected.words(),
                FoundByte(byte)
            ),
            _ => f.write_str(kind.message()),
        }
    }
}

/// A byte of the input, printable.
struct FoundByte(u8);

impl fmt::Display for FoundByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'`' => f.write_str("a backtick"),
            byte @ b'!'..=b'~' => write!(f, "`{}`", char::from(byte)),
            byte => write!(f, "byte 0x{byte:02x}"),
        }
    }
}

/// The kinds of [`ParseError`].
///
/// ```
/// use scheduled_events_core::{Document, ParseErrorKind};
///
/// // The body was cut off.
/// let error = Document::parse(br#"{"Events":[{"EventId":"a""#).unwrap_err();
/// assert_eq!(error.kind, ParseErrorKind::UnexpectedEnd);
/// assert_eq!(error.kind.word(), "unexpected-end");
/// assert_eq!(ParseErrorKind::TrailingData.message(), "unexpected data after the document");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The input ends inside a value: a truncated body, or an empty one.
    UnexpectedEnd,
    /// A byte that JSON does not allow there.
    UnexpectedByte,
    /// An unescaped byte below 0x20 inside a string.
    ControlCharacter,
    /// A backslash that starts no escape of RFC 8259.
    InvalidEscape,
    /// Half of a `\uD800`-`\uDFFF` pair.
    LoneSurrogate,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// A number outside the grammar, such as `01` or `1.`.
    InvalidNumber,
    /// More than [`MAX_DEPTH`](crate::MAX_DEPTH) nested objects and arrays.
    TooDeep,
    /// The document is a JSON value, but not an object.
    NotAnObject,
    /// The document has no `Events`, or `Events` is not an array.
    NoEvents,
    /// A member that the document defines occurs twice in one object.
    RepeatedMember,
    /// There is something after the document.
    TrailingData,
}

impl ParseErrorKind {
    /// The kind as a word, as in records: `unexpected-byte`.
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

    /// What is wrong, as a sentence for any error of this kind. [`ParseError::message`] is more precise.
    pub const fn message(self) -> &'static str {
        match self {
            Self::UnexpectedEnd => "the document ends too early",
            Self::UnexpectedByte => "unexpected byte",
            Self::ControlCharacter => "unescaped control character in a string",
            Self::InvalidEscape => "invalid escape in a string",
            Self::LoneSurrogate => "surrogate escape without its other half",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::InvalidNumber => "invalid number",
            Self::TooDeep => "more than 32 nested objects and arrays",
            Self::NotAnObject => "the document is not an object",
            Self::NoEvents => "the document has no `Events` array",
            Self::RepeatedMember => "a known member occurs twice in one object",
            Self::TrailingData => "unexpected data after the document",
        }
    }
}

/// A position in a text as editors count: line and column from 1, the column in characters.
///
/// ```
/// use scheduled_events_core::{Document, Position};
///
/// let body = "{\"Zoë\": 1,\n \"Events\": 2}".as_bytes();
/// let error = Document::parse(body).unwrap_err();
/// assert_eq!(Position::of(body, error.offset), Position { line: 2, column: 12 });
/// assert_eq!(error.position(body).to_string(), "2:12");
/// ```
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
    /// It reads the input up to there: use it for messages, not in loops. [`Positions`] is for several offsets.
    pub fn of(input: &[u8], offset: usize) -> Self {
        Positions::new(input).of(offset)
    }
}

/// The positions of several bytes of one input, in one pass if they are asked for in ascending order.
///
/// ```
/// use scheduled_events_core::{Document, Positions};
///
/// let body = b"{\"Events\":[\n {\"EventId\":\"a\",\"NotBefore\":\"soon\"},\n 7]}";
/// let mut positions = Positions::new(body);
/// let problems: Vec<_> = Document::parse(body)?.problems().map(|problem| positions.of(problem.offset)).collect();
/// assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2:29", "3:2"]);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Positions<'a> {
    input: &'a [u8],
    /// The bytes that `position` accounts for.
    offset: usize,
    position: Position,
}

impl<'a> Positions<'a> {
    const BYTE_ORDER_MARK: &'static [u8] = b"\xef\xbb\xbf";

    /// Starts at the beginning of `input`.
    pub fn new(input: &'a [u8]) -> Self {
        let offset = if input.starts_with(Self::BYTE_ORDER_MARK) {
            Self::BYTE_ORDER_MARK.len()
        } else {
            0
        };
        Self {
            input,
            offset,
            position: Position { line: 1, column: 1 },
        }
    }

    /// The position of the byte at `offset`; an offset beyond the end counts as the end.
    ///
    /// It reads the input from the last offset that was asked for. From a greater one it goes back to the beginning.
    pub fn of(&mut self, offset: usize) -> Position {
        let offset = offset.min(self.input.len());
        if offset < self.offset {
            *self = Self::new(self.input);
        }
        for &byte in self.input.get(self.offset..offset).unwrap_or_default() {
            if byte == b'\n' {
                self.position.line = self.position.line.saturating_add(1);
                self.position.column = 1;
            } else if byte & 0xc0 != 0x80 {
                // Continuation bytes of UTF-8 belong to a character that has been counted.
                self.position.column = self.position.column.saturating_add(1);
            }
        }
        self.offset = self.offset.max(offset);
        self.position
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The caller's buffer cannot hold the result. The contents of the buffer are unspecified.
///
/// ```
/// use scheduled_events_core::StartRequests;
///
/// let approval = StartRequests::new(&["a"]);
/// let error = approval.write(&mut [0; 8]).unwrap_err();
/// let mut body = vec![0; error.needed];
/// assert_eq!(approval.write(&mut body), Ok(error.needed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTooSmall {
    /// The bytes that the result takes.
    pub needed: usize,
}

impl fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the buffer is too small: {} bytes are needed",
            self.needed
        )
    }
}

impl core::error::Error for BufferTooSmall {}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::document::Document;

    #[test]
    fn errors_are_two_words() {
        assert_eq!(size_of::<ParseError>(), 2 * size_of::<usize>());
    }

    #[test]
    fn positions_count_characters_and_skip_the_byte_order_mark() {
        let text = "\u{feff}{\n \"ü\": x".as_bytes();
        let x = text.len() - 1;
        assert_eq!(Position::of(text, x), Position { line: 2, column: 7 });
        assert_eq!(
            Position::of(text, usize::MAX),
            Position { line: 2, column: 8 }
        );
        assert_eq!(Position::of(b"", 0), Position { line: 1, column: 1 });
    }

    #[test]
    fn positions_of_several_bytes_are_those_of_each() {
        let text = "\u{feff}{\n \"ü\": x\n\n}".as_bytes();
        let mut positions = Positions::new(text);
        let offsets = (3..text.len() + 2).chain([5, 9, 4, usize::MAX, 3]);
        for offset in offsets {
            assert_eq!(positions.of(offset), Position::of(text, offset), "{offset}");
        }
        assert_eq!(positions.of(0), Position { line: 1, column: 1 });
    }

    #[test]
    fn messages_name_what_was_found_and_what_was_expected() {
        for (text, message) in [
            (&b""[..], "expected a value, but the document ends"),
            (b"[1,]", "expected a value, found `]`"),
            (b"[1 2]", "expected `,` or `]` after an element, found `2`"),
            (b"{", "expected a member name or `}`, but the document ends"),
            (b"{1", "expected a member name or `}`, found `1`"),
            (b"{\"a\":1,}", "expected a member name, found `}`"),
            (
                b"{\"a\":[{1:2}]}",
                "expected a member name or `}`, found `1`",
            ),
            (b"{\"a\":[{\"\":2,}]}", "expected a member name, found `}`"),
            (
                b"{\"a\":[{\"\":2]}",
                "expected `,` or `}` after a member, found `]`",
            ),
            (
                b"{\"Events\":[]]",
                "expected `,` or `}` after a member, found `]`",
            ),
            (
                b"{\"Events\" 7",
                "expected `:` after a member name, found `7`",
            ),
            (b"{\"Events\":}", "expected a value, found `}`"),
            (b"{\"Events\":`", "expected a value, found a backtick"),
            (b"{\"Events\":\x1b", "expected a value, found byte 0x1b"),
            (
                "{\"Events\":é".as_bytes(),
                "expected a value, found byte 0xc3",
            ),
            (b"{\"Events\":nul}", "expected `null`, found `}`"),
            (
                b"{\"Events\":\"a",
                "expected the end of a string, but the document ends",
            ),
            (b"{\"Events\":\"\\x\"", "`\\x` is not a JSON escape"),
            (
                b"{\"Events\":\"\\\x1b\"",
                "expected an escape after `\\`, found byte 0x1b",
            ),
            (
                b"{\"Events\":\"\\u12g4\"",
                "expected four hexadecimal digits after `\\u`, found `g`",
            ),
            (
                b"{\"Events\":\"\\ud800!\"",
                "expected a low surrogate such as `\\udc00` after a high one, found `!`",
            ),
            (
                b"{\"Events\":\"\\ud800\\n\"",
                "expected a low surrogate such as `\\udc00` after a high one, found `n`",
            ),
            (
                b"{\"Events\":\"\\udc00\"",
                "surrogate escape without its other half",
            ),
            (
                b"{\"Events\":\"\n\"",
                "unescaped control character 0x0a in a string",
            ),
            (
                b"{\"Events\":01",
                "a number starts with `01`: leading zeros are not allowed",
            ),
            (b"{\"Events\":-x", "expected a digit, found `x`"),
            (b"{\"Events\":1.", "expected a digit, but the document ends"),
            (b"{\"Events\":\"\xff\"", "byte 0xff is not valid UTF-8 here"),
            (b"7", "expected an object, found `7`"),
            (
                b"{\"Events\":7}",
                "expected an array as `Events`, found `7`",
            ),
            (b"{}", "the document has no `Events` array"),
            (
                b"{\"Events\":[],\"Events\":[]}",
                "a known member occurs twice in one object",
            ),
            (
                b"{\"Events\":[]} x",
                "expected the end of the document, found `x`",
            ),
        ] {
            let error = Document::parse(text).unwrap_err();
            assert_eq!(
                error.message().to_string(),
                message,
                "{}",
                text.escape_ascii()
            );
            assert_eq!(
                error.to_string(),
                std::format!("{message} at byte {}", error.offset)
            );
            assert_eq!(
                error,
                ParseError::new(error.kind, error.offset),
                "the message does not count"
            );
        }
    }
}
