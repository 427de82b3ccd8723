//! The scanner: reads JSON from front to back and reports the position of the first error.
//!
//! This file reads objects, arrays and what separates their parts; `scalar` reads strings, numbers and literals. What
//! most documents consist of is inlined and short; the rest is in functions of its own.

use super::Text;
use super::block::{close_end, space_end};
use crate::error::{ExpectedToken, ParseError, ParseErrorKind};

/// How many objects and arrays may be nested, the document's own object counted.
///
/// RFC 8259 section 9 allows such a limit. The documents that Azure sends have a depth of four.
pub const MAX_DEPTH: u32 = 32;

pub(super) type Result<T> = core::result::Result<T, ParseError>;

/// A value that was read. Objects and arrays are checked and skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Boolean,
    Number(&'a str),
    String(Text<'a>),
    Array,
    Object,
}

/// Reads one JSON text from front to back.
///
/// The text is valid UTF-8; the scanner checks everything else of RFC 8259. A scanner that starts again at an earlier
/// position reads the same again: this is how views iterate without storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    depth: u32,
}

/// The error for the byte at `at`, where something else was expected.
#[cold]
#[inline(never)] // Without a scanner as its argument, so that callers can keep theirs in registers.
fn unexpected<T>(text: &str, at: usize, expected: ExpectedToken) -> Result<T> {
    let found = text.as_bytes().get(at).copied();
    let kind = if found.is_some() {
        ParseErrorKind::UnexpectedByte
    } else {
        ParseErrorKind::UnexpectedEnd
    };
    Err(ParseError::found(kind, at, found).expected(expected))
}

/// What is expected after a value in an object or array.
const fn separator_or_end(in_object: bool) -> ExpectedToken {
    if in_object {
        ExpectedToken::CommaOrBrace
    } else {
        ExpectedToken::CommaOrBracket
    }
}

impl<'a> Scanner<'a> {
    /// A scanner of `text` that starts at byte `at`, inside `depth` objects and arrays.
    pub(crate) const fn new(text: &'a str, at: usize, depth: u32) -> Self {
        Self { text, at, depth }
    }

    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// The text from byte `start` to the current position.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The text from the current position on.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over a byte that [`peek`](Self::peek) has returned.
    pub(super) const fn bump(&mut self) {
        self.at = self.at.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn skip_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.at = space_end(self.text.as_bytes(), self.at);
        }
    }

    /// The error for the current byte, where something else was expected.
    #[inline]
    pub(super) fn unexpected<T>(&self, expected: ExpectedToken) -> Result<T> {
        unexpected(self.text, self.at, expected)
    }

    /// The error of this kind for the byte at `offset`.
    #[cold]
    pub(crate) fn error_at(&self, kind: ParseErrorKind, offset: usize) -> ParseError {
        ParseError::found(kind, offset, self.text.as_bytes().get(offset).copied())
    }

    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.bump();
        }
        found
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8, expected: ExpectedToken) -> Result<()> {
        if self.eat(byte) {
            Ok(())
        } else {
            self.unexpected(expected)
        }
    }

    /// Steps into an object or array whose opening bracket is here.
    fn open(&mut self) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error_at(ParseErrorKind::TooDeep, self.at));
        }
        self.depth = self.depth.wrapping_add(1);
        self.bump();
        Ok(())
    }

    const fn close(&mut self) {
        self.depth = self.depth.wrapping_sub(1);
        self.bump();
    }

    /// Leaves the current object or array if its closing bracket is next, after white space.
    #[inline]
    pub(crate) fn eat_closing(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(bracket);
        if found {
            self.close();
        }
        found
    }

    /// Skips white space up to the object that the whole text must be.
    pub(crate) fn expect_object(&mut self) -> Result<()> {
        self.skip_space();
        if self.peek() == Some(b'{') {
            return Ok(());
        }
        let start = self.at;
        self.value()?;
        Err(self
            .error_at(ParseErrorKind::NotAnObject, start)
            .expected(ExpectedToken::Object))
    }

    /// Checks that nothing but white space is left.
    pub(crate) fn expect_end(&mut self) -> Result<()> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error_at(ParseErrorKind::TrailingData, self.at)),
        }
    }

    /// Steps into the object whose brace is here. Call [`next_member`](Self::next_member) until it returns `None`.
    pub(crate) fn open_object(&mut self) -> Result<()> {
        if self.peek() == Some(b'{') {
            self.open()
        } else {
            self.unexpected(ExpectedToken::Object)
        }
    }

    /// Steps into the array whose bracket is here. Call [`next_element`](Self::next_element) until it returns `false`.
    pub(crate) fn open_array(&mut self) -> Result<()> {
        if self.peek() == Some(b'[') {
            self.open()
        } else {
            self.unexpected(ExpectedToken::Array)
        }
    }

    /// Leaves the current object or array, whose text was checked before.
    #[inline]
    pub(crate) fn leave_checked(&mut self) {
        self.at = close_end(self.text.as_bytes(), self.at);
        self.depth = self.depth.wrapping_sub(1);
    }

    /// Returns the next member's name and the offset of its opening quote, and moves to its value; `None` after the
    /// object's end. `first` is whether no member was read yet.
    #[inline]
    pub(crate) fn next_member(&mut self, first: &mut bool) -> Result<Option<(usize, Text<'a>)>> {
        let expected = if *first {
            ExpectedToken::MemberNameOrEnd
        } else {
            ExpectedToken::MemberName
        };
        // Most members are separated by a comma alone.
        if !*first && self.rest().starts_with(b",\"") {
            self.bump();
        } else if !self.next_item(first, b'}', expected)? {
            return Ok(None);
        }
        let offset = self.at;
        Ok(Some((offset, self.name_and_colon(expected)?)))
    }

    /// Moves to the next element of the array and returns whether there is one. `first` is whether none was read yet.
    #[inline]
    pub(crate) fn next_element(&mut self, first: &mut bool) -> Result<bool> {
        // Most elements are separated by a comma alone.
        if !*first
            && let [b',', next, ..] = self.rest()
            && *next > b' '
            && *next != b']'
        {
            self.bump();
            return Ok(true);
        }
        self.next_item(first, b']', ExpectedToken::Value)
    }

    #[inline]
    fn next_item(&mut self, first: &mut bool, end: u8, expected: ExpectedToken) -> Result<bool> {
        if self.eat_closing(end) {
            return Ok(false);
        }
        if !core::mem::take(first) {
            self.expect(b',', separator_or_end(end == b'}'))?;
            self.skip_space();
            if self.peek() == Some(end) {
                return self.unexpected(expected);
            }
        }
        Ok(true)
    }

    /// Reads the member name that starts here and moves to the member's value.
    #[inline(never)]
    fn name_and_colon(&mut self, expected: ExpectedToken) -> Result<Text<'a>> {
        if self.peek() != Some(b'"') {
            return self.unexpected(expected);
        }
        let name = self.string_here()?;
        self.skip_space();
        self.expect(b':', ExpectedToken::Colon)?;
        self.skip_space();
        Ok(self.quoted(name))
    }

    /// Reads the value that starts here.
    #[inline(never)]
    pub(crate) fn value(&mut self) -> Result<Value<'a>> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.skip_compound().map(|()| Value::Object),
            Some(b'[') => self.skip_compound().map(|()| Value::Array),
            _ => self.number_or_literal(),
        }
    }

    /// Skips the object or array that starts here. One bit per level holds whether it is an object, so that there is no
    /// recursion and the depth is bounded.
    #[inline(never)]
    fn skip_compound(&mut self) -> Result<()> {
        let outside = self.depth;
        let mut objects: u32 = 0; // the lowest bit is the innermost level's
        loop {
            // A value starts here.
            match self.peek() {
                Some(b'{') => {
                    self.open()?;
                    objects = objects << 1 | 1;
                    self.skip_space();
                    if self.peek() != Some(b'}') {
                        self.name_and_colon(ExpectedToken::MemberNameOrEnd)?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.open()?;
                    objects <<= 1;
                    self.skip_space();
                    if self.peek() != Some(b']') {
                        continue;
                    }
                }
                Some(b'"') => drop(self.string()?),
                _ => drop(self.number_or_literal()?),
            }
            // After a value, or at the end of an empty object or array.
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                self.skip_space();
                let in_object = objects & 1 == 1;
                match (self.peek(), in_object) {
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.close();
                        objects >>= 1;
                    }
                    (Some(b','), _) => {
                        self.bump();
                        self.skip_space();
                        if in_object {
                            self.name_and_colon(ExpectedToken::MemberName)?;
                        }
                        break;
                    }
                    _ => return self.unexpected(separator_or_end(in_object)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;

    use super::*;

    fn read(text: &str) -> Result<Value<'_>> {
        let mut scanner = Scanner::new(text, 0, 0);
        let value = scanner.value()?;
        scanner.skip_space();
        if scanner.peek().is_some() {
            scanner.unexpected(ExpectedToken::Value)
        } else {
            Ok(value)
        }
    }

    fn refused(text: &str) -> (ParseErrorKind, usize) {
        let error = read(text).expect_err(text);
        (error.kind, error.offset)
    }

    #[test]
    fn errors_are_at_the_first_wrong_byte() {
        use ParseErrorKind::*;
        for (text, kind, offset) in [
            ("", UnexpectedEnd, 0),
            ("[1,]", UnexpectedByte, 3),
            ("[,1]", UnexpectedByte, 1),
            ("[1 2]", UnexpectedByte, 3),
            ("[1}", UnexpectedByte, 2),
            ("{\"a\":1,}", UnexpectedByte, 7),
            ("{\"a\" 1}", UnexpectedByte, 5),
            ("{a:1}", UnexpectedByte, 1),
            ("{\"a\":}", UnexpectedByte, 5),
            ("nul]", UnexpectedByte, 3),
            ("nul", UnexpectedEnd, 3),
            ("+1", UnexpectedByte, 0),
            (".5", UnexpectedByte, 0),
            ("01", InvalidNumber, 1),
            ("-x", InvalidNumber, 1),
            ("-", UnexpectedEnd, 1),
            ("1.}", InvalidNumber, 2),
            ("1ex", InvalidNumber, 2),
            ("1e+]", InvalidNumber, 3),
            ("\"a\nb\"", ControlCharacter, 2),
            ("\"a", UnexpectedEnd, 2),
            ("\"\\q\"", InvalidEscape, 1),
            ("\"\\u12g4\"", InvalidEscape, 1),
            ("\"\\u12", UnexpectedEnd, 5),
            ("\"\\", UnexpectedEnd, 2),
            ("\"\\ud800\"", LoneSurrogate, 1),
            ("\"\\ud800\\n\"", LoneSurrogate, 1),
            ("\"\\ud800\\ud800\"", LoneSurrogate, 1),
            ("\"\\ud800\\u0041\"", LoneSurrogate, 1),
            ("\"a\\udc00\"", LoneSurrogate, 2),
            ("\"\\ud800\\u00", UnexpectedEnd, 11),
        ] {
            assert_eq!(refused(text), (kind, offset), "{text}");
        }
    }

    #[test]
    fn nesting_deeper_than_the_limit_is_an_error() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deepest = MAX_DEPTH as usize;
        assert!(read(&nested(deepest)).is_ok());
        assert_eq!(
            refused(&nested(deepest + 1)),
            (ParseErrorKind::TooDeep, deepest)
        );
        assert!(
            ParseErrorKind::TooDeep
                .message()
                .starts_with(&format!("more than {MAX_DEPTH} nested "))
        );
        assert_eq!(refused(&"[".repeat(200_000)), (ParseErrorKind::TooDeep, 32));
        let objects: String = "{\"a\":".repeat(200_000);
        assert_eq!(refused(&objects), (ParseErrorKind::TooDeep, 32 * 5));
        let mixed = format!("{}1{}", "[{\"a\":".repeat(16), "}]".repeat(16));
        assert!(read(&mixed).is_ok());
    }

    #[test]
    fn a_surrogate_pair_is_one_character() {
        let Ok(Value::String(text)) = read("\"\\ud83d\\ude00\"") else {
            panic!("not a string")
        };
        assert!(text == "\u{1f600}");
    }
}
