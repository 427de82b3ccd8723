//! Errors with a description, and positions in a document.

use core::fmt::{self, Write};
use std::ffi::{CStr, c_char};

use scheduled_events_core::terminate::ProfileRule;
use scheduled_events_core::{ParseError, ParseErrorKind, Position};

use crate::abi::pointers::{bytes, output};
use crate::boundary::boundary;
use crate::status::schedev_status;

/// Why a document is refused.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_parse_error {
    /// No error.
    SCHEDEV_PARSE_ERROR_NONE = 0,
    /// The input ends before the document does: it is truncated, or empty.
    SCHEDEV_PARSE_ERROR_UNEXPECTED_END = 1,
    /// A byte that JSON does not allow there.
    SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE = 2,
    /// A byte below 0x20 inside a string.
    SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER = 3,
    /// A backslash that does not start an escape of RFC 8259.
    SCHEDEV_PARSE_ERROR_INVALID_ESCAPE = 4,
    /// An escape of one half of a surrogate pair without the other.
    SCHEDEV_PARSE_ERROR_LONE_SURROGATE = 5,
    /// Bytes that are not UTF-8.
    SCHEDEV_PARSE_ERROR_INVALID_UTF8 = 6,
    /// A number that JSON does not allow, such as "01" or "1.".
    SCHEDEV_PARSE_ERROR_INVALID_NUMBER = 7,
    /// More than 32 nested objects and arrays.
    SCHEDEV_PARSE_ERROR_TOO_DEEP = 8,
    /// The document is not an object.
    SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT = 9,
    /// The document has no "Events", or it is not an array.
    SCHEDEV_PARSE_ERROR_NO_EVENTS = 10,
    /// An object has a known member twice.
    SCHEDEV_PARSE_ERROR_REPEATED_MEMBER = 11,
    /// Data after the end of the document.
    SCHEDEV_PARSE_ERROR_TRAILING_DATA = 12,
    /// A kind that this version of the header does not name.
    SCHEDEV_PARSE_ERROR_OTHER = 255,
}

use schedev_parse_error::*;

impl schedev_parse_error {
    const fn from_core(kind: ParseErrorKind) -> Self {
        match kind {
            ParseErrorKind::UnexpectedEnd => SCHEDEV_PARSE_ERROR_UNEXPECTED_END,
            ParseErrorKind::UnexpectedByte => SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE,
            ParseErrorKind::ControlCharacter => SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER,
            ParseErrorKind::InvalidEscape => SCHEDEV_PARSE_ERROR_INVALID_ESCAPE,
            ParseErrorKind::LoneSurrogate => SCHEDEV_PARSE_ERROR_LONE_SURROGATE,
            ParseErrorKind::InvalidUtf8 => SCHEDEV_PARSE_ERROR_INVALID_UTF8,
            ParseErrorKind::InvalidNumber => SCHEDEV_PARSE_ERROR_INVALID_NUMBER,
            ParseErrorKind::TooDeep => SCHEDEV_PARSE_ERROR_TOO_DEEP,
            ParseErrorKind::NotAnObject => SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT,
            ParseErrorKind::NoEvents => SCHEDEV_PARSE_ERROR_NO_EVENTS,
            ParseErrorKind::RepeatedMember => SCHEDEV_PARSE_ERROR_REPEATED_MEMBER,
            ParseErrorKind::TrailingData => SCHEDEV_PARSE_ERROR_TRAILING_DATA,
            _ => SCHEDEV_PARSE_ERROR_OTHER,
        }
    }
}

/// The kinds, their words and their messages.
const KINDS: [(schedev_parse_error, &CStr, &CStr); 13] = [
    (SCHEDEV_PARSE_ERROR_NONE, c"none", c"no error"),
    (
        SCHEDEV_PARSE_ERROR_UNEXPECTED_END,
        c"unexpected-end",
        c"the document ends too early",
    ),
    (
        SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE,
        c"unexpected-byte",
        c"unexpected byte",
    ),
    (
        SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER,
        c"control-character",
        c"unescaped control character in a string",
    ),
    (
        SCHEDEV_PARSE_ERROR_INVALID_ESCAPE,
        c"invalid-escape",
        c"invalid escape in a string",
    ),
    (
        SCHEDEV_PARSE_ERROR_LONE_SURROGATE,
        c"lone-surrogate",
        c"surrogate escape without its other half",
    ),
    (
        SCHEDEV_PARSE_ERROR_INVALID_UTF8,
        c"invalid-utf8",
        c"invalid UTF-8",
    ),
    (
        SCHEDEV_PARSE_ERROR_INVALID_NUMBER,
        c"invalid-number",
        c"invalid number",
    ),
    (
        SCHEDEV_PARSE_ERROR_TOO_DEEP,
        c"too-deep",
        c"more than 32 nested objects and arrays",
    ),
    (
        SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT,
        c"not-an-object",
        c"the document is not an object",
    ),
    (
        SCHEDEV_PARSE_ERROR_NO_EVENTS,
        c"no-events",
        c"the document has no `Events` array",
    ),
    (
        SCHEDEV_PARSE_ERROR_REPEATED_MEMBER,
        c"repeated-member",
        c"a known member occurs twice in one object",
    ),
    (
        SCHEDEV_PARSE_ERROR_TRAILING_DATA,
        c"trailing-data",
        c"unexpected data after the document",
    ),
];

fn kind_of(number: u32) -> Option<&'static (schedev_parse_error, &'static CStr, &'static CStr)> {
    KINDS.iter().find(|(kind, ..)| *kind as u32 == number)
}

/// The size of schedev_error.message, the NUL included. No message is longer.
pub const SCHEDEV_ERROR_MESSAGE_MAX_BYTES: usize = 128;

/// Why a document is refused, and where, if a function returns SCHEDEV_ERROR_PARSE; or the rule by which a profile is refused,
/// if it returns SCHEDEV_ERROR_PROFILE, which has no position: line, column and offset are 0. Otherwise it is not written.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_error {
    /// A schedev_parse_error or a schedev_profile_rule. No number is in both.
    pub kind: u32,
    /// The line, from 1. Lines end with a line feed.
    pub line: u32,
    /// The column in characters, from 1. A byte order mark is not counted.
    pub column: u32,
    /// The offset of the invalid byte; the length of the input if it is truncated.
    pub offset: usize,
    /// What was found and what was expected, in printable ASCII and with a NUL at its end: read it with
    /// schedev_error_message().
    pub message: [c_char; SCHEDEV_ERROR_MESSAGE_MAX_BYTES],
    /// For later versions: zero.
    pub reserved: [u64; 2],
}

impl schedev_error {
    pub(crate) const NONE: Self = Self {
        kind: SCHEDEV_PARSE_ERROR_NONE as u32,
        line: 0,
        column: 0,
        offset: 0,
        message: [0; SCHEDEV_ERROR_MESSAGE_MAX_BYTES],
        reserved: [0; 2],
    };

    pub(crate) fn new(error: ParseError, position: Position) -> Self {
        let result = Self {
            kind: schedev_parse_error::from_core(error.kind) as u32,
            line: position.line,
            column: position.column,
            offset: error.offset,
            ..Self::NONE
        };
        result.with_message(&error.message())
    }

    /// The rule of this number, without a position.
    pub(crate) fn of_rule(kind: u32, rule: ProfileRule) -> Self {
        Self { kind, ..Self::NONE }.with_message(&rule.message())
    }

    fn with_message(mut self, text: &dyn fmt::Display) -> Self {
        let mut message = Message {
            buffer: &mut self.message,
            length: 0,
        };
        // A message that does not fit ends early.
        let _ = write!(message, "{text}");
        self
    }
}

/// Writes a text of ASCII, and leaves a NUL at its end.
struct Message<'b> {
    buffer: &'b mut [c_char; SCHEDEV_ERROR_MESSAGE_MAX_BYTES],
    length: usize,
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let next = self.length.wrapping_add(1);
            let place = self
                .buffer
                .get_mut(self.length)
                .filter(|_| next < SCHEDEV_ERROR_MESSAGE_MAX_BYTES);
            *place.ok_or(fmt::Error)? = c_char::from_ne_bytes([byte]);
            self.length = next;
        }
        Ok(())
    }
}

/// Returns what is wrong as a message for people, without the position: what was found and what was expected.
///
/// @param error  the error; NULL is no error.
/// @return a string, never NULL: the error's own message, valid as long as the error, or a static one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_error_message(error: *const schedev_error) -> *const c_char {
    // SAFETY: by the conventions of the header it is NULL or points to an error.
    let error = unsafe { error.as_ref() };
    // An error that the caller made has no message, or none that ends.
    if let Some(error) = error.filter(|error| error.message[0] != 0 && error.message.contains(&0)) {
        return error.message.as_ptr();
    }
    let kind = error.map_or(SCHEDEV_PARSE_ERROR_NONE as u32, |error| error.kind);
    kind_of(kind)
        .map_or(c"the document was refused", |(_, _, message)| message)
        .as_ptr()
}

/// Returns a schedev_parse_error as a word, such as "unexpected-byte".
///
/// @param kind  a schedev_parse_error, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_parse_error_word(kind: u32) -> *const c_char {
    kind_of(kind).map_or(c"other", |(_, word, _)| word).as_ptr()
}

/// A line and a column, as editors count them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_position {
    /// The line, from 1. Lines end with a line feed.
    pub line: u32,
    /// The column in characters, from 1. A byte order mark is not counted.
    pub column: u32,
}

/// Returns the line and column of an offset, such as that of a schedev_problem. It reads the text up to there.
///
/// @param data      the text; NULL if len is 0.
/// @param len       its length in bytes.
/// @param offset    the offset in bytes; the end of the text if it is larger than len.
/// @param position  receives the line and column.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_position_of(
    data: *const c_char,
    len: usize,
    offset: usize,
    position: *mut schedev_position,
) -> schedev_status {
    boundary(|| {
        let (text, output) = (checked!(bytes(data, len)), checked!(output(position)));
        let position = Position::of(text, offset);
        output.write(schedev_position {
            line: position.line,
            column: position.column,
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_messages_are_those_of_core() {
        use ParseErrorKind::*;
        let all = [
            UnexpectedEnd,
            UnexpectedByte,
            ControlCharacter,
            InvalidEscape,
            LoneSurrogate,
            InvalidUtf8,
            InvalidNumber,
            TooDeep,
            NotAnObject,
            NoEvents,
            RepeatedMember,
            TrailingData,
        ];
        assert_eq!(all.len() + 1, KINDS.len());
        for kind in all {
            let (_, word, message) = kind_of(schedev_parse_error::from_core(kind) as u32).unwrap();
            assert_eq!(
                (word.to_str(), message.to_str()),
                (Ok(kind.word()), Ok(kind.message()))
            );
        }
    }
    #[test]
    fn the_message_names_what_was_found_and_expected() {
        let message = |error: &schedev_error| {
            // SAFETY: the error lives, and the string ends with a NUL.
            unsafe { CStr::from_ptr(schedev_error_message(error)) }
                .to_str()
                .unwrap()
                .to_owned()
        };
        for body in [
            &b"{\"Events\":[}"[..],
            b"",
            b"{\"Events\":[]]",
            b"{\"Events\":[\"\\ud83d\\n\"]}",
            b"[]",
            b"{\"a\":\"\x1b\"}",
        ] {
            let error = scheduled_events_core::Document::parse(body).unwrap_err();
            assert_eq!(
                message(&schedev_error::new(error, error.position(body))),
                error.message().to_string()
            );
        }
        let mut own = schedev_error {
            kind: SCHEDEV_PARSE_ERROR_TOO_DEEP as u32,
            ..schedev_error::NONE
        };
        assert_eq!(message(&own), ParseErrorKind::TooDeep.message());
        own.message = [1; SCHEDEV_ERROR_MESSAGE_MAX_BYTES];
        assert_eq!(message(&own), ParseErrorKind::TooDeep.message());
        let mut long = Message {
            buffer: &mut own.message,
            length: 0,
        };
        assert!(write!(long, "{}", "x".repeat(SCHEDEV_ERROR_MESSAGE_MAX_BYTES)).is_err());
        assert_eq!(long.length, SCHEDEV_ERROR_MESSAGE_MAX_BYTES - 1);
    }
}
