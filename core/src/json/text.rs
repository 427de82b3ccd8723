//! A string of the document: borrowed with its escapes, which are decoded when it is read.

use core::fmt;

use serde::{Serialize, Serializer};

use super::block::plain_end;
use super::escape;
use crate::error::BufferTooSmall;

/// A string of the document, borrowed from the caller's bytes with its escapes.
///
/// Comparison, display, iteration and copying decode it: they resolve escapes such as `\n` and join surrogate pairs.
/// Nothing is stored, and nothing fails: the document was checked when it was parsed. Display writes the characters as they
/// are, control characters included; escape them before you write them to a terminal or a log.
///
/// ```
/// use scheduled_events_core::Document;
///
/// let body = br#"{"Events":[{"EventId":"a","Description":"caf\u00e9 \ud83d\ude00"}]}"#;
/// let document = Document::parse(body)?;
/// let event = document.events().next().unwrap();
/// let description = event.description().unwrap();
/// assert!(description == "café 😀");
/// assert_eq!(description.decoded_len(), 10);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Creates a text from the bytes between the quotes. `escaped` is whether they have escapes.
    ///
    /// The texts of a document were checked. In other texts, the backslash of an invalid escape is left out.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert!(Text::from_raw(r"caf\u00e9", true) == "café");
    /// ```
    pub const fn from_raw(raw: &'a str, escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// Creates a text without escapes.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert!(Text::plain("vm_0").eq_ignore_ascii_case("VM_0"));
    /// ```
    pub const fn plain(text: &'a str) -> Self {
        Self { raw: text, escaped: false }
    }

    /// The text between the quotes, escapes not decoded.
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a\u002fb"}]}"#)?;
    /// let id = document.events().next().unwrap().event_id();
    /// assert_eq!(id.raw(), r"a\u002fb");
    /// assert_eq!(id.as_str(), None); // it has to be decoded
    /// assert_eq!(id.chars().collect::<String>(), "a/b");
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn raw(&self) -> &'a str {
        self.raw
    }

    /// The text if it has no escapes, as the texts that Azure sends.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert_eq!(Text::plain("vm_0").as_str(), Some("vm_0"));
    /// assert_eq!(Text::from_raw(r"vm\u005f0", true).as_str(), None);
    /// ```
    pub const fn as_str(&self) -> Option<&'a str> {
        if self.escaped { None } else { Some(self.raw) }
    }

    /// Whether the text is empty.
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":""}]}"#)?;
    /// assert!(document.events().next().unwrap().event_id().is_empty());
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The decoded characters.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert!(Text::from_raw(r"caf\u00e9", true).chars().eq("café".chars()));
    /// ```
    pub fn chars(&self) -> impl Iterator<Item = char> + Clone + use<'a> {
        // `flat_map` would take three times the stack.
        Chars { run: "".chars(), escape: None, pieces: Pieces { rest: self.raw, escaped: self.escaped } }
    }

    /// The decoded text in parts: characters without an escape, and the character of the escape after them.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&'a str, Option<char>)> + Clone + 'a {
        Pieces { rest: self.raw, escaped: self.escaped }
    }

    /// The length of the decoded text in UTF-8 bytes.
    #[inline(never)] // It has several callers.
    pub fn decoded_len(&self) -> usize {
        match self.as_str() {
            Some(text) => text.len(),
            None => self.pieces().fold(0, |length: usize, (run, escaped)| {
                length.wrapping_add(run.len()).wrapping_add(escaped.map_or(0, char::len_utf8))
            }),
        }
    }

    /// Whether the decoded text equals `other`, ASCII case ignored, as Azure compares ids and names.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert!(Text::plain("WestNO_0").eq_ignore_ascii_case("westno_0"));
    /// assert!(!Text::plain("WestNO_0").eq_ignore_ascii_case("westno_01"));
    /// ```
    pub fn eq_ignore_ascii_case(&self, other: &str) -> bool {
        self.equals(other, true)
    }

    /// Whether both decoded texts are equal, ASCII case ignored.
    pub(crate) fn is_same_name(&self, other: &Text<'_>) -> bool {
        match other.as_str() {
            Some(other) => self.eq_ignore_ascii_case(other),
            None => self.folded().eq(other.folded()),
        }
    }

    /// The decoded characters, ASCII letters in lower case.
    pub(crate) fn folded(&self) -> impl Iterator<Item = char> + Clone + use<'a> {
        self.chars().map(|char| char.to_ascii_lowercase())
    }

    /// Whether each part of the decoded text is the same as that of `other` in its place.
    #[inline(never)]
    fn equals(&self, other: &str, ignore_case: bool) -> bool {
        if let Some(text) = self.as_str() {
            return is_same(text, other, ignore_case);
        }
        let rest = self.pieces().try_fold(other, |rest, (run, escaped)| {
            let rest = after(rest, run, ignore_case)?;
            escaped.map_or(Some(rest), |char| after(rest, char.encode_utf8(&mut [0; 4]), ignore_case))
        });
        rest.is_some_and(str::is_empty)
    }

    /// Copies the decoded text to the front of `buffer`.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    ///
    /// ```
    /// use scheduled_events_core::{BufferTooSmall, Text};
    ///
    /// let mut buffer = [0; 4];
    /// assert_eq!(Text::plain("vm_0").copy_to(&mut buffer), Ok("vm_0"));
    /// assert_eq!(Text::plain("vm_10").copy_to(&mut buffer), Err(BufferTooSmall { needed: 5 }));
    /// ```
    pub fn copy_to<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, BufferTooSmall> {
        // Decoding makes no text longer.
        let needed = if self.raw.len() <= buffer.len() { 0 } else { self.decoded_len() };
        if needed > buffer.len() {
            return Err(BufferTooSmall { needed });
        }
        let mut length: usize = 0;
        let mut put = |text: &str| {
            let end = length.wrapping_add(text.len());
            let place = buffer.get_mut(length..end).unwrap_or_default();
            place.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
            length = end;
        };
        for (run, escaped) in self.pieces() {
            put(run);
            if let Some(char) = escaped {
                put(char.encode_utf8(&mut [0; 4]));
            }
        }
        // Whole characters were copied, so this is UTF-8.
        core::str::from_utf8(buffer.get(..length).unwrap_or_default()).map_err(|_| BufferTooSmall { needed: length })
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        match self.as_str() {
            Some(text) => f.pad(text),
            None => self.pieces().try_for_each(|(run, escaped)| {
                f.write_str(run)?;
                escaped.map_or(Ok(()), |char| f.write_char(char))
            }),
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        f.write_char('"')?;
        self.chars().flat_map(char::escape_debug).try_for_each(|char| f.write_char(char))?;
        f.write_char('"')
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Text<'_>) -> bool {
        match (self.as_str(), other.as_str()) {
            (_, Some(that)) => self.equals(that, false),
            (Some(this), None) => other.equals(this, false),
            (None, None) => self.chars().eq(other.chars()),
        }
    }
}

impl Eq for Text<'_> {}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        *self == Text::plain(other)
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_str(self),
        }
    }
}

/// What follows in `text` after a part that is the same.
#[inline(never)]
fn after<'a>(text: &'a str, part: &str, ignore_case: bool) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(part.len())?;
    is_same(start, part, ignore_case).then_some(rest)
}

fn is_same(one: &str, other: &str, ignore_case: bool) -> bool {
    if ignore_case { one.eq_ignore_ascii_case(other) } else { one == other }
}

/// Iterator over the decoded characters.
#[derive(Clone)]
struct Chars<'a> {
    run: core::str::Chars<'a>,
    escape: Option<char>,
    pieces: Pieces<'a>,
}

impl Iterator for Chars<'_> {
    type Item = char;

    #[inline(never)] // It has many callers, all for texts with escapes.
    fn next(&mut self) -> Option<char> {
        loop {
            if let Some(char) = self.run.next().or_else(|| self.escape.take()) {
                return Some(char);
            }
            let (run, escape) = self.pieces.next()?;
            (self.run, self.escape) = (run.chars(), escape);
        }
    }
}

/// Iterator over the parts of a text.
#[derive(Clone)]
struct Pieces<'a> {
    rest: &'a str,
    escaped: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (&'a str, Option<char>);

    fn next(&mut self) -> Option<(&'a str, Option<char>)> {
        let text = self.rest;
        if text.is_empty() {
            return None;
        }
        if !self.escaped {
            return Some((core::mem::take(&mut self.rest), None));
        }
        let end = plain_end(text.as_bytes(), 0);
        let (run, special) = text.split_at_checked(end).unwrap_or_default();
        let (escaped, length) = match special.as_bytes() {
            [] => (None, 0),
            [b'\\', escape @ ..] => {
                escape::decode(escape).map_or((None, 1), |(char, length)| (Some(char), length.wrapping_add(1)))
            }
            // Texts of a document have none of these.
            [byte, ..] => (Some(char::from(*byte)), 1),
        };
        self.rest = special.get(length..).unwrap_or_default();
        Some((run, escaped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_str_returns_texts_without_escapes() {
        assert_eq!(Text::plain("é").as_str(), Some("é"));
        assert_eq!(Text::from_raw("é", false).as_str(), Some("é"));
        assert_eq!(Text::from_raw("é", true).as_str(), None);
        assert!(Text::plain("").is_empty() && !Text::plain(" ").is_empty());
        assert!(Text::plain("é") == "é" && Text::plain("é") != "e" && Text::plain("é") == *"é");
    }

    #[test]
    fn copy_to_writes_the_decoded_characters() {
        for raw in ["", "a", r"\n", r"\\", r"ab\n\tc", r"\u00e9é\ud83d\ude00x", r#"\"\/ \u0000"#, r"\ud800", r"\"] {
            let text = Text::from_raw(raw, true);
            let characters: std::string::String = text.chars().collect();
            assert_eq!(text.decoded_len(), characters.len(), "{raw}");
            let mut buffer = [b'.'; 20];
            assert_eq!(text.copy_to(&mut buffer), Ok(characters.as_str()), "{raw}");
            assert!(buffer[characters.len()..].iter().all(|byte| *byte == b'.'), "{raw}");
            let mut short = [b'.'; 20];
            if let Some(less) = characters.len().checked_sub(1) {
                let refused = text.copy_to(&mut short[..less]);
                assert_eq!(refused, Err(BufferTooSmall { needed: characters.len() }), "{raw}");
                assert_eq!(short, [b'.'; 20], "{raw}");
            }
        }
    }
}
