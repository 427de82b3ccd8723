//! Strings, numbers and literals: the values that hold no others.

use super::block::plain_end;
use super::scan::{Result, Scanner, Value};
use super::{Text, escape};
use crate::error::{ExpectedToken, ParseError, ParseErrorKind};

/// A string that was read: its first byte after the opening quote, the closing quote, and whether it has escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) escaped: bool,
}

impl<'a> Scanner<'a> {
    /// The text of a string that was read.
    #[inline]
    pub(crate) fn quoted(&self, string: Quoted) -> Text<'a> {
        Text::from_raw(
            self.text.get(string.start..string.end).unwrap_or_default(),
            string.escaped,
        )
    }

    /// Reads the string that starts here.
    #[inline(never)]
    pub(crate) fn string(&mut self) -> Result<Text<'a>> {
        match self.peek() {
            Some(b'"') => self.string_here().map(|string| self.quoted(string)),
            _ => self.unexpected(ExpectedToken::String),
        }
    }

    /// Reads the string whose opening quote is here, inlined where speed matters.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a call costs a third of a short string.
    pub(crate) fn string_here(&mut self) -> Result<Quoted> {
        let start = self.at.wrapping_add(1);
        let mut end = plain_end(self.text.as_bytes(), start);
        let escaped = self.text.as_bytes().get(end) != Some(&b'"');
        if escaped {
            end = escaped_string_end(self.text.as_bytes(), end)?;
        }
        self.at = end.wrapping_add(1);
        Ok(Quoted {
            start,
            end,
            escaped,
        })
    }

    /// A number or one of the three literals.
    pub(super) fn number_or_literal(&mut self) -> Result<Value<'a>> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self
                .literal(b"true", ExpectedToken::True)
                .map(|()| Value::Boolean),
            Some(b'f') => self
                .literal(b"false", ExpectedToken::False)
                .map(|()| Value::Boolean),
            Some(b'n') => self
                .literal(b"null", ExpectedToken::Null)
                .map(|()| Value::Null),
            _ => self.unexpected(ExpectedToken::Value),
        }
    }

    fn literal(&mut self, word: &[u8], expected: ExpectedToken) -> Result<()> {
        word.iter()
            .try_for_each(|&byte| self.expect(byte, expected))
    }

    /// RFC 8259 section 6: `[ minus ] int [ frac ] [ exp ]`.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.eat(b'-');
        if self.eat(b'0') {
            if let Some(b'0'..=b'9') = self.peek() {
                let error = self.error_at(ParseErrorKind::InvalidNumber, self.at);
                return Err(error.expected(ExpectedToken::NoLeadingZero));
            }
        } else {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.bump();
            if let Some(b'+' | b'-') = self.peek() {
                self.bump();
            }
            self.digits()?;
        }
        Ok(self.since(start))
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.bump();
        }
        if self.at != start {
            return Ok(());
        }
        if self.peek().is_none() {
            return self.unexpected(ExpectedToken::Digit);
        }
        Err(self
            .error_at(ParseErrorKind::InvalidNumber, self.at)
            .expected(ExpectedToken::Digit))
    }
}

/// The closing quote of the string that is plain up to byte `at` and continues there with an escape or an error.
#[cold]
#[inline(never)] // Without a scanner as its argument, so that callers can keep theirs in registers.
fn escaped_string_end(bytes: &[u8], mut at: usize) -> Result<usize> {
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let length = match rest.split_first() {
            Some((b'"', _)) => return Ok(at),
            Some((b'\\', escape)) => {
                escape::decode(escape)
                    .ok_or_else(|| escape::error(bytes, at))?
                    .1
            }
            Some((byte, _)) => {
                return Err(ParseError::found(
                    ParseErrorKind::ControlCharacter,
                    at,
                    Some(*byte),
                ));
            }
            None => {
                return Err(ParseError::new(ParseErrorKind::UnexpectedEnd, at)
                    .expected(ExpectedToken::StringEnd));
            }
        };
        at = plain_end(bytes, at.wrapping_add(1).wrapping_add(length));
    }
}
