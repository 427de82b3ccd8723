//! Strings, numbers and literals: the values that hold no others.

use super::Text;
use super::block::plain_end;
use super::scan::{Result, Scanner, Value};
use crate::error::{ExpectedToken, ParseError, ParseErrorKind};

/// A string that was read: its first byte after the opening quote, the closing quote, and whether it has escapes.
#[derive(Clone, Copy)]
pub(crate) struct Quoted {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) escaped: bool,
}

impl<'a> Scanner<'a> {
    /// The text of a string that was read.
    #[inline]
    pub(crate) fn quoted(&self, string: Quoted) -> Text<'a> {
        Text::from_raw(self.text.get(string.start..string.end).unwrap_or_default(), string.escaped)
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
            end = escaped_string_end(self.text, end)?;
        }
        self.at = end.wrapping_add(1);
        Ok(Quoted { start, end, escaped })
    }

    /// Checks the escape that starts here; a surrogate must be the high half of a pair (RFC 8259 section 7).
    fn escape(&mut self) -> Result<()> {
        let backslash = self.at;
        let lone = ParseError::new(ParseErrorKind::LoneSurrogate, backslash);
        match self.escaped_unit()? {
            0xd800..=0xdbff => {
                for expected in *b"\\u" {
                    match self.peek() {
                        Some(byte) if byte == expected => self.bump(),
                        None => return self.unexpected(ExpectedToken::LowSurrogate),
                        found => {
                            let lone = ParseError::found(ParseErrorKind::LoneSurrogate, backslash, found);
                            return Err(lone.expected(ExpectedToken::LowSurrogate));
                        }
                    }
                }
                if let 0xdc00..=0xdfff = self.hex_unit(backslash)? { Ok(()) } else { Err(lone) }
            }
            0xdc00..=0xdfff => Err(lone),
            _ => Ok(()),
        }
    }

    /// Steps over one escape. Returns the UTF-16 unit of `\uXXXX`, 0 for the short escapes.
    fn escaped_unit(&mut self) -> Result<u32> {
        let backslash = self.at;
        self.bump();
        let escape = self.peek();
        match escape {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.bump();
                Ok(0)
            }
            Some(b'u') => {
                self.bump();
                self.hex_unit(backslash)
            }
            None => self.unexpected(ExpectedToken::EscapeLetter),
            found => Err(ParseError::found(ParseErrorKind::InvalidEscape, backslash, found)
                .expected(ExpectedToken::EscapeLetter)),
        }
    }

    /// Reads the four digits of the escape whose backslash is at `backslash`.
    fn hex_unit(&mut self, backslash: usize) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(byte) = self.peek() else { return self.unexpected(ExpectedToken::HexDigit) };
            let Some(digit) = char::from(byte).to_digit(16) else {
                let error = ParseError::found(ParseErrorKind::InvalidEscape, backslash, Some(byte));
                return Err(error.expected(ExpectedToken::HexDigit));
            };
            unit = unit << 4 | digit;
            self.bump();
        }
        Ok(unit)
    }

    /// A number or one of the three literals.
    pub(super) fn number_or_literal(&mut self) -> Result<Value<'a>> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.literal(b"true", ExpectedToken::True).map(|()| Value::Boolean),
            Some(b'f') => self.literal(b"false", ExpectedToken::False).map(|()| Value::Boolean),
            Some(b'n') => self.literal(b"null", ExpectedToken::Null).map(|()| Value::Null),
            _ => self.unexpected(ExpectedToken::Value),
        }
    }

    fn literal(&mut self, word: &[u8], expected: ExpectedToken) -> Result<()> {
        word.iter().try_for_each(|&byte| self.expect(byte, expected))
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
        Err(self.error_at(ParseErrorKind::InvalidNumber, self.at).expected(ExpectedToken::Digit))
    }
}

/// The closing quote of the string that is plain up to byte `at` and continues there with an escape or an error.
#[cold]
#[inline(never)] // Without a scanner as its argument, so that callers can keep theirs in registers.
fn escaped_string_end(text: &str, at: usize) -> Result<usize> {
    let mut scanner = Scanner::new(text, at, 0);
    loop {
        match scanner.peek() {
            Some(b'"') => return Ok(scanner.at),
            Some(b'\\') => scanner.escape()?,
            None => return scanner.unexpected(ExpectedToken::StringEnd),
            Some(_) => return Err(scanner.error_at(ParseErrorKind::ControlCharacter, scanner.at)),
        }
        scanner.at = plain_end(text.as_bytes(), scanner.at);
    }
}
