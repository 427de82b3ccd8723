//! The scanner: front to back over the text, with the position of whatever is wrong.
//!
//! What nearly every document consists of is inlined where it is used, and is short; the rest stands out of line.

use super::ahead::{Separator, short_integer};
use super::block::{WORDS_ARE_WIDE, close_end, plain_end, space_end};
use super::{Integer, Text};
use crate::error::{ParseError, ParseErrorKind};

/// How many objects and arrays may stand inside each other, the document's own object counted.
///
/// RFC 8259 section 9 lets a reader set such a limit. A real document is four deep.
pub const MAX_DEPTH: u32 = 32;

type Result<T> = core::result::Result<T, ParseError>;

/// A value that was just read. Objects and arrays are skipped, after they were checked; their raw text is kept.
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
/// The text is UTF-8 already; everything else of RFC 8259 is checked here. A scanner set back to a place that was
/// read before reads the same again, which is how views iterate without storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

/// A string as it stands in the text: its first byte behind the opening quote, the closing quote, and whether escapes
/// stand between them.
#[derive(Clone, Copy)]
pub(crate) struct Quoted {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) escaped: bool,
}

/// The error for place `at`, where something else was due.
#[cold]
#[inline(never)] // It gets no scanner, so that its callers can keep theirs in registers.
fn unexpected<T>(text: &str, at: usize) -> Result<T> {
    let kind = if at < text.len() { ParseErrorKind::UnexpectedByte } else { ParseErrorKind::UnexpectedEnd };
    Err(ParseError::new(kind, at))
}

/// Where the string ends that is plain up to place `at`, and does not end there.
#[cold]
#[inline(never)] // As for `unexpected`.
fn closing_quote(text: &str, at: usize) -> Result<usize> {
    let mut scanner = Scanner::new(text, at, 0);
    loop {
        match scanner.peek() {
            Some(b'"') => return Ok(scanner.at),
            Some(b'\\') => scanner.escape()?,
            None => return scanner.fail(ParseErrorKind::UnexpectedEnd),
            Some(_) => return scanner.fail(ParseErrorKind::ControlCharacter),
        }
        scanner.at = plain_end(text.as_bytes(), scanner.at);
    }
}

impl<'a> Scanner<'a> {
    /// A scanner of `text` that starts at byte `at`, with `depth` objects and arrays open around that place.
    pub(crate) const fn new(text: &'a str, at: usize, depth: u32) -> Self {
        Self { text, at, depth }
    }

    pub(crate) const fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// The text from byte `start` up to here.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The string that was read.
    #[inline]
    pub(crate) fn quoted(&self, string: Quoted) -> Text<'a> {
        // What was read stands there.
        Text::from_raw(self.text.get(string.start..string.end).unwrap_or_default(), string.escaped)
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over a byte that `peek` has shown; the position never passes the end.
    fn bump(&mut self) {
        self.at = self.at.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn skip_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.at = space_end(self.text.as_bytes(), self.at);
        }
    }

    /// The error for a place where something else was due.
    #[inline]
    pub(crate) fn unexpected<T>(&self) -> Result<T> {
        unexpected(self.text, self.at)
    }

    #[inline]
    fn fail<T>(&self, kind: ParseErrorKind) -> Result<T> {
        Err(ParseError::new(kind, self.at))
    }

    /// What is left of the text from here on.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The same as text.
    #[inline]
    pub(crate) fn rest_of_text(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The place of what is left of this text.
    #[inline]
    pub(crate) const fn place_of(&self, rest: &'a [u8]) -> usize {
        self.text.len().wrapping_sub(rest.len())
    }

    /// Steps to what is left of this text.
    #[inline]
    pub(crate) const fn step_to(&mut self, rest: &'a [u8]) {
        self.at = self.place_of(rest);
    }

    /// Steps over the white space here, behind which an object's first member or an array's first element stands; what
    /// separates the others, if it does so alike.
    #[inline]
    pub(crate) fn separator(&mut self) -> Separator {
        if self.peek().is_some_and(|byte| byte <= b' ') { self.white_separator() } else { Separator::SPACE }
    }

    #[inline(never)] // Compact documents have none.
    fn white_separator(&mut self) -> Separator {
        let start = *self;
        self.skip_space();
        Separator::of(start.rest(), self.at.wrapping_sub(start.at))
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.bump();
        }
        found
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.eat(byte) { Ok(()) } else { self.unexpected() }
    }

    /// Steps into an object or array whose opening bracket is here.
    fn open(&mut self) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return self.fail(ParseErrorKind::TooDeep);
        }
        self.depth = self.depth.wrapping_add(1);
        self.bump();
        Ok(())
    }

    fn close(&mut self) {
        self.depth = self.depth.wrapping_sub(1);
        self.bump();
    }

    /// Leaves the object or array that is open here, if this closing bracket of its kind is next.
    #[inline]
    pub(crate) fn eat_closing(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(bracket);
        if found {
            self.close();
        }
        found
    }

    /// Steps into the object whose brace is here; then [`next_member`](Self::next_member) until it says `None`.
    pub(crate) fn open_object(&mut self) -> Result<()> {
        if self.peek() == Some(b'{') { self.open() } else { self.unexpected() }
    }

    /// Steps into the array whose bracket is here; then [`next_element`](Self::next_element) until it says `false`.
    pub(crate) fn open_array(&mut self) -> Result<()> {
        if self.peek() == Some(b'[') { self.open() } else { self.unexpected() }
    }

    /// Steps over a comma, if a string follows it at once: what stands between nearly any two members or strings.
    #[inline]
    pub(crate) fn eat_comma_before_quote(&mut self) -> bool {
        let found = self.rest().starts_with(b",\"");
        if found {
            self.bump();
        }
        found
    }

    /// Leaves the object or array that is open here, whose text was checked before.
    #[inline]
    pub(crate) fn leave_checked(&mut self) {
        self.at = close_end(self.text.as_bytes(), self.at);
        self.depth = self.depth.wrapping_sub(1);
    }

    /// The next member's name and the offset of its opening quote, with the scanner before its value; `None` after
    /// the object's end. `first` says whether a member was read before.
    pub(crate) fn next_member(&mut self, first: &mut bool) -> Result<Option<(usize, Text<'a>)>> {
        if !self.next_name(first)? {
            return Ok(None);
        }
        let offset = self.at;
        Ok(Some((offset, self.name_and_colon()?)))
    }

    /// Whether the object has another member, with the scanner before its name's opening quote.
    #[inline]
    pub(crate) fn next_name(&mut self, first: &mut bool) -> Result<bool> {
        if !*first && self.eat_comma_before_quote() {
            return Ok(true);
        }
        let another = self.next_item(first, b'}')?;
        if another && self.peek() != Some(b'"') { self.unexpected() } else { Ok(another) }
    }

    /// Whether the array has another element, with the scanner before it.
    #[inline]
    pub(crate) fn next_element(&mut self, first: &mut bool) -> Result<bool> {
        if WORDS_ARE_WIDE
            && !*first
            && let [b',', next, ..] = self.rest()
            && *next > b' '
            && *next != b']'
        {
            self.bump();
            return Ok(true);
        }
        self.next_item(first, b']')
    }

    #[inline]
    fn next_item(&mut self, first: &mut bool, end: u8) -> Result<bool> {
        self.skip_space();
        if self.peek() == Some(end) {
            self.close();
            return Ok(false);
        }
        if !core::mem::take(first) {
            self.expect(b',')?;
            self.skip_space();
            if self.peek() == Some(end) {
                return self.unexpected();
            }
        }
        Ok(true)
    }

    /// The name that starts here, with the scanner before its value.
    #[inline(never)]
    pub(crate) fn name_and_colon(&mut self) -> Result<Text<'a>> {
        if self.peek() != Some(b'"') {
            return self.unexpected();
        }
        let name = self.string_here()?;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(self.quoted(name))
    }

    /// Reads the value that starts here, whatever it is.
    #[inline(never)]
    pub(crate) fn value(&mut self) -> Result<Value<'a>> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.skip_compound().map(|()| Value::Object),
            Some(b'[') => self.skip_compound().map(|()| Value::Array),
            _ => self.bare(),
        }
    }

    /// Skips the object or array that starts here. What is open is remembered in the bits of one word, which is
    /// what makes recursion needless and the depth bounded.
    #[inline(never)]
    fn skip_compound(&mut self) -> Result<()> {
        let outside = self.depth;
        let mut objects: u32 = 0; // the lowest bit: whether the innermost open one is an object
        loop {
            // A value starts here.
            match self.peek() {
                Some(b'{') => {
                    self.open()?;
                    objects = objects << 1 | 1;
                    self.skip_space();
                    if self.peek() != Some(b'}') {
                        self.name_and_colon()?;
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
                _ => drop(self.bare()?),
            }
            // A value has ended, or an empty object or array is about to.
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                self.skip_space();
                match (self.peek(), objects & 1) {
                    (Some(b'}'), 1) | (Some(b']'), 0) => {
                        self.close();
                        objects >>= 1;
                    }
                    (Some(b','), 1) => {
                        self.bump();
                        self.skip_space();
                        self.name_and_colon()?;
                        break;
                    }
                    (Some(b','), _) => {
                        self.bump();
                        self.skip_space();
                        break;
                    }
                    _ => return self.unexpected(),
                }
            }
        }
    }

    /// A number or one of the three literals.
    fn bare(&mut self) -> Result<Value<'a>> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.literal(b"true").map(|()| Value::Boolean),
            Some(b'f') => self.literal(b"false").map(|()| Value::Boolean),
            Some(b'n') => self.literal(b"null").map(|()| Value::Null),
            _ => self.unexpected(),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<()> {
        word.iter().try_for_each(|&byte| self.expect(byte))
    }

    /// RFC 8259 section 6: `[ minus ] int [ frac ] [ exp ]`.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.eat(b'-');
        if self.eat(b'0') {
            if let Some(b'0'..=b'9') = self.peek() {
                return self.fail(ParseErrorKind::InvalidNumber);
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

    /// Steps over the number that starts here, if it is a short one.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `short_integer`.
    pub(crate) fn short_integer(&mut self) -> Option<Integer> {
        let (number, behind) = short_integer(self.rest())?;
        self.step_to(behind);
        Some(number)
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.bump();
        }
        if self.at != start {
            return Ok(());
        }
        self.fail(if self.peek().is_none() { ParseErrorKind::UnexpectedEnd } else { ParseErrorKind::InvalidNumber })
    }

    /// Reads the string whose opening quote is here.
    #[inline(never)]
    pub(crate) fn string(&mut self) -> Result<Text<'a>> {
        if self.peek() == Some(b'"') { self.string_here().map(|string| self.quoted(string)) } else { self.unexpected() }
    }

    /// Reads the string whose opening quote was seen here: [`string`](Self::string) for the places that count.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a call costs a third of a short string.
    pub(crate) fn string_here(&mut self) -> Result<Quoted> {
        let start = self.at.wrapping_add(1);
        let mut end = plain_end(self.text.as_bytes(), start);
        let escaped = self.text.as_bytes().get(end) != Some(&b'"');
        if escaped {
            end = closing_quote(self.text, end)?;
        }
        self.at = end.wrapping_add(1);
        Ok(Quoted { start, end, escaped })
    }

    /// Checks the escape whose backslash is here; a surrogate must be the high half of a pair (RFC 8259 section 7).
    fn escape(&mut self) -> Result<()> {
        let backslash = self.at;
        match self.escaped_unit()? {
            0xd800..=0xdbff => {
                let lone = Err(ParseError::new(ParseErrorKind::LoneSurrogate, backslash));
                let second = self.at;
                match self.peek() {
                    Some(b'\\') => {}
                    None => return self.fail(ParseErrorKind::UnexpectedEnd),
                    Some(_) => return lone,
                }
                match self.text.as_bytes().get(second.wrapping_add(1)) {
                    Some(b'u') => {}
                    None => return Err(ParseError::new(ParseErrorKind::UnexpectedEnd, second.wrapping_add(1))),
                    Some(_) => return lone,
                }
                if let 0xdc00..=0xdfff = self.escaped_unit()? { Ok(()) } else { lone }
            }
            0xdc00..=0xdfff => Err(ParseError::new(ParseErrorKind::LoneSurrogate, backslash)),
            _ => Ok(()),
        }
    }

    /// Steps over one escape; its UTF-16 unit where it is a `\uXXXX`, 0 for the short ones.
    fn escaped_unit(&mut self) -> Result<u32> {
        let backslash = self.at;
        self.bump();
        let unit = match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.bump();
                return Ok(0);
            }
            Some(b'u') => {
                self.bump();
                let mut unit = 0;
                for _ in 0..4 {
                    match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                        Some(digit) => unit = unit << 4 | digit,
                        None if self.peek().is_none() => return self.fail(ParseErrorKind::UnexpectedEnd),
                        None => return Err(ParseError::new(ParseErrorKind::InvalidEscape, backslash)),
                    }
                    self.bump();
                }
                unit
            }
            None => return self.fail(ParseErrorKind::UnexpectedEnd),
            Some(_) => return Err(ParseError::new(ParseErrorKind::InvalidEscape, backslash)),
        };
        Ok(unit)
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
        if scanner.peek().is_some() { scanner.unexpected() } else { Ok(value) }
    }

    fn refused(text: &str) -> (ParseErrorKind, usize) {
        let error = read(text).expect_err(text);
        (error.kind, error.offset)
    }

    #[test]
    fn errors_name_the_first_wrong_byte() {
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
    fn nesting_ends_at_the_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(32)).is_ok());
        assert_eq!(refused(&nested(33)), (ParseErrorKind::TooDeep, 32));
        assert_eq!(refused(&"[".repeat(200_000)), (ParseErrorKind::TooDeep, 32));
        let objects: String = "{\"a\":".repeat(200_000);
        assert_eq!(refused(&objects), (ParseErrorKind::TooDeep, 32 * 5));
        let mixed = format!("{}1{}", "[{\"a\":".repeat(16), "}]".repeat(16));
        assert!(read(&mixed).is_ok());
    }

    #[test]
    fn a_pair_of_surrogates_is_a_character() {
        let Ok(Value::String(text)) = read("\"\\ud83d\\ude00\"") else { panic!("not read") };
        assert!(text == "\u{1f600}");
    }
}
