//! Why a document was refused, and places in it.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{ParseError, ParseErrorKind, Position};

use crate::boundary::boundary;
use crate::memory::{bytes, output};
use crate::status::schedev_status;

/// Why a document was refused.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_parse_error {
    /// No error.
    SCHEDEV_PARSE_ERROR_NONE = 0,
    /// The input ends inside a value: a cut-off body, or an empty one.
    SCHEDEV_PARSE_ERROR_UNEXPECTED_END = 1,
    /// A byte that cannot stand there.
    SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE = 2,
    /// A raw byte below 0x20 inside a string.
    SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER = 3,
    /// A backslash that starts no escape of RFC 8259.
    SCHEDEV_PARSE_ERROR_INVALID_ESCAPE = 4,
    /// Half of a surrogate pair.
    SCHEDEV_PARSE_ERROR_LONE_SURROGATE = 5,
    /// Bytes that are not UTF-8.
    SCHEDEV_PARSE_ERROR_INVALID_UTF8 = 6,
    /// A number outside the grammar, such as "01" or "1.".
    SCHEDEV_PARSE_ERROR_INVALID_NUMBER = 7,
    /// More than 32 objects and arrays inside each other.
    SCHEDEV_PARSE_ERROR_TOO_DEEP = 8,
    /// The document is a value, but no object.
    SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT = 9,
    /// The document has no "Events", or they are no array.
    SCHEDEV_PARSE_ERROR_NO_EVENTS = 10,
    /// A member that the document defines stands twice in one object.
    SCHEDEV_PARSE_ERROR_REPEATED_MEMBER = 11,
    /// Something follows the document.
    SCHEDEV_PARSE_ERROR_TRAILING_DATA = 12,
    /// A kind that this version of the header does not name.
    SCHEDEV_PARSE_ERROR_OTHER = 255,
}

use schedev_parse_error::*;

impl schedev_parse_error {
    const fn of(kind: ParseErrorKind) -> Self {
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

/// The kinds, their words, and what they say.
const KINDS: [(schedev_parse_error, &CStr, &CStr); 13] = [
    (SCHEDEV_PARSE_ERROR_NONE, c"none", c"no error"),
    (SCHEDEV_PARSE_ERROR_UNEXPECTED_END, c"unexpected-end", c"the document ends too early"),
    (SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE, c"unexpected-byte", c"unexpected byte"),
    (SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER, c"control-character", c"unescaped control character in a string"),
    (SCHEDEV_PARSE_ERROR_INVALID_ESCAPE, c"invalid-escape", c"invalid escape in a string"),
    (SCHEDEV_PARSE_ERROR_LONE_SURROGATE, c"lone-surrogate", c"surrogate escape without its other half"),
    (SCHEDEV_PARSE_ERROR_INVALID_UTF8, c"invalid-utf8", c"invalid UTF-8"),
    (SCHEDEV_PARSE_ERROR_INVALID_NUMBER, c"invalid-number", c"invalid number"),
    (SCHEDEV_PARSE_ERROR_TOO_DEEP, c"too-deep", c"more than 32 nested objects and arrays"),
    (SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT, c"not-an-object", c"the document is not an object"),
    (SCHEDEV_PARSE_ERROR_NO_EVENTS, c"no-events", c"the document has no `Events` array"),
    (SCHEDEV_PARSE_ERROR_REPEATED_MEMBER, c"repeated-member", c"a known member occurs twice in one object"),
    (SCHEDEV_PARSE_ERROR_TRAILING_DATA, c"trailing-data", c"unexpected data after the document"),
];

fn kind_of(number: u32) -> Option<&'static (schedev_parse_error, &'static CStr, &'static CStr)> {
    KINDS.iter().find(|(kind, ..)| *kind as u32 == number)
}

/// Why a document was refused, and where. The caller's; written when a function returns SCHEDEV_ERROR_PARSE.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_error {
    /// A schedev_parse_error.
    pub kind: u32,
    /// The line, from 1; lines end with a line feed.
    pub line: u32,
    /// The column, from 1, in characters; a byte order mark is not counted.
    pub column: u32,
    /// The byte, from 0; the length of the input where it ended too early.
    pub offset: usize,
}

impl schedev_error {
    pub(crate) const NONE: Self = Self { kind: SCHEDEV_PARSE_ERROR_NONE as u32, line: 0, column: 0, offset: 0 };

    pub(crate) const fn at(error: ParseError, position: Position) -> Self {
        Self {
            kind: schedev_parse_error::of(error.kind) as u32,
            line: position.line,
            column: position.column,
            offset: error.offset,
        }
    }
}

/// What is wrong, in a few words for a person, the place left aside: "unexpected byte".
///
/// @param error  the error; NULL counts as no error.
/// @return a constant text that ends with NUL; never NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_error_message(error: *const schedev_error) -> *const c_char {
    // SAFETY: the conventions of the header: it is NULL, or points to an error.
    let kind = unsafe { error.as_ref() }.map_or(SCHEDEV_PARSE_ERROR_NONE as u32, |error| error.kind);
    kind_of(kind).map_or(c"the document was refused", |(_, _, message)| message).as_ptr()
}

/// A schedev_parse_error as a word: "unexpected-byte".
///
/// @param kind  a schedev_parse_error, or any other number.
/// @return a constant text that ends with NUL; "other" for a number that has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_parse_error_word(kind: u32) -> *const c_char {
    kind_of(kind).map_or(c"other", |(_, word, _)| word).as_ptr()
}

/// A place in a text, as editors count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_position {
    /// The line, from 1; lines end with a line feed.
    pub line: u32,
    /// The column, from 1, in characters; a byte order mark is not counted.
    pub column: u32,
}

/// The line and the column of a byte, such as the one of a schedev_problem. Runs over the text up to there, so it is for
/// messages, not for loops.
///
/// @param data      the text; NULL where len is 0.
/// @param len       its length in bytes.
/// @param offset    the byte, from 0; beyond the end it counts as the end.
/// @param position  receives the place.
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
        // SAFETY: the conventions of the header.
        let (text, place) = unsafe { (bytes(data, len)?, output(position)?) };
        let position = Position::of(text, offset);
        place.write(schedev_position { line: position.line, column: position.column });
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
            let (_, word, message) = kind_of(schedev_parse_error::of(kind) as u32).unwrap();
            assert_eq!((word.to_str(), message.to_str()), (Ok(kind.word()), Ok(kind.message())));
        }
    }
}
