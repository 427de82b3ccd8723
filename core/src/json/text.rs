//! A string of the document: borrowed with its escapes, which are decoded when it is read.

use core::fmt;

use serde::{Serialize, Serializer};

use super::block::plain_end;
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
    /// The texts of a document were checked. In other texts, an invalid escape becomes U+FFFD or the escaped character.
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
    pub fn chars(&self) -> impl Iterator<Item = char> + Clone + 'a {
        Chars { rest: self.raw.chars(), escaped: self.escaped }
    }

    /// The decoded parts of a text with escapes.
    fn pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = Chars { rest: self.raw.chars(), escaped: true };
        core::iter::from_fn(move || {
            let text = rest.rest.as_str();
            match text.split_at_checked(plain_end(text.as_bytes(), 0)) {
                Some((run, after)) if !run.is_empty() => {
                    rest.rest = after.chars();
                    Some(Piece::Run(run))
                }
                _ => rest.next().map(Piece::Escaped),
            }
        })
    }

    /// The length of the decoded text in UTF-8 bytes.
    pub fn decoded_len(&self) -> usize {
        match self.as_str() {
            Some(text) => text.len(),
            None => self.pieces().fold(0, |length: usize, piece| length.saturating_add(piece.len())),
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
        if let Some(text) = self.as_str() {
            return text.eq_ignore_ascii_case(other);
        }
        let fold = |char: char| char.to_ascii_lowercase();
        self.chars().map(fold).eq(other.chars().map(fold))
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
        let needed = self.decoded_len();
        let Some(target) = buffer.get_mut(..needed) else {
            return Err(BufferTooSmall { needed });
        };
        let mut rest = &mut *target;
        let mut put = |text: &str| {
            let (place, after) = core::mem::take(&mut rest).split_at_mut_checked(text.len()).unwrap_or_default();
            place.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
            rest = after;
        };
        match self.as_str() {
            Some(text) => put(text),
            None => self.pieces().for_each(|piece| match piece {
                Piece::Run(text) => put(text),
                Piece::Escaped(char) => put(char.encode_utf8(&mut [0; 4])),
            }),
        }
        // Whole characters fill the target, so this is UTF-8.
        core::str::from_utf8(target).map_err(|_| BufferTooSmall { needed })
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        match self.as_str() {
            Some(text) => f.pad(text),
            None => self.chars().try_for_each(|char| f.write_char(char)),
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
            (Some(this), Some(that)) => this == that,
            _ => self.chars().eq(other.chars()),
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

/// A part of a text with escapes.
enum Piece<'a> {
    /// Characters without an escape.
    Run(&'a str),
    /// A decoded escape.
    Escaped(char),
}

impl Piece<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Run(text) => text.len(),
            Self::Escaped(char) => char.len_utf8(),
        }
    }
}

/// Iterator over the decoded characters.
#[derive(Clone)]
struct Chars<'a> {
    rest: core::str::Chars<'a>,
    escaped: bool,
}

impl Chars<'_> {
    /// Reads four hexadecimal digits as a UTF-16 unit.
    fn unit(&mut self) -> u32 {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.rest.next().and_then(|char| char.to_digit(16)).unwrap_or(0);
            unit = unit << 4 | digit;
        }
        unit
    }
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let char = self.rest.next()?;
        if char != '\\' || !self.escaped {
            return Some(char);
        }
        Some(match self.rest.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.unit();
                let code = if let 0xd800..=0xdbff = first {
                    // The low half follows as another escape.
                    self.rest.next();
                    self.rest.next();
                    let low_half = self.unit() & 0x3ff;
                    ((first & 0x3ff) << 10).wrapping_add(0x1_0000) | low_half
                } else {
                    first
                };
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => other,
        })
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
