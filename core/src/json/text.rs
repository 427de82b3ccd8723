//! A string of the document: borrowed with its escapes, which are decoded when it is read.

use core::fmt;

use serde::{Serialize, Serializer};

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
        Self {
            raw: text,
            escaped: false,
        }
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
        Chars {
            rest: self.raw.chars(),
            escaped: self.escaped,
        }
    }

    /// The length of the decoded text in UTF-8 bytes.
    pub fn decoded_len(&self) -> usize {
        match self.as_str() {
            Some(text) => text.len(),
            None => self.chars().fold(0, |length: usize, char| {
                length.wrapping_add(char.len_utf8())
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
        match self.as_str() {
            Some(text) => text.eq_ignore_ascii_case(other),
            None => self.folded().eq(Text::plain(other).folded()),
        }
    }

    /// Whether both decoded texts are equal, ASCII case ignored.
    #[inline(never)]
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
    #[inline(never)] // Measured: inlined, it takes time from the reading of texts without escapes.
    pub fn copy_to<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, BufferTooSmall> {
        let bytes = self.copy_bytes_to(buffer)?;
        // Whole characters were copied, so this is UTF-8.
        core::str::from_utf8(bytes).map_err(|_| BufferTooSmall {
            needed: bytes.len(),
        })
    }

    /// Copies the decoded text to the front of `buffer`, and returns its UTF-8 as bytes: faster than [`copy_to`](Self::copy_to)
    /// for a caller who needs no `str`.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert_eq!(Text::from_raw(r"caf\u00e9", true).copy_bytes_to(&mut [0; 9]), Ok("café".as_bytes()));
    /// ```
    pub fn copy_bytes_to<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], BufferTooSmall> {
        // Decoding makes no text longer.
        let needed = if self.raw.len() <= buffer.len() {
            0
        } else {
            self.decoded_len()
        };
        if needed > buffer.len() {
            return Err(BufferTooSmall { needed });
        }
        let length = if self.escaped {
            copy_decoded(self.raw.as_bytes(), buffer)
        } else {
            buffer
                .iter_mut()
                .zip(self.raw.bytes())
                .for_each(|(to, from)| *to = from);
            self.raw.len()
        };
        Ok(buffer.get(..length).unwrap_or_default())
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
        self.chars()
            .flat_map(char::escape_debug)
            .try_for_each(|char| f.write_char(char))?;
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

/// Copies the decoded characters to the front of the buffer and returns their length.
///
/// Byte by byte, because the processor predicts where escapes are, and does not wait for a search.
fn copy_decoded(raw: &[u8], buffer: &mut [u8]) -> usize {
    let mut rest = raw;
    let mut length: usize = 0;
    while let Some(places) = buffer.get_mut(length..) {
        let plain = places
            .iter_mut()
            .zip(rest)
            .take_while(|(_, byte)| **byte != b'\\');
        let run = plain.map(|(place, byte)| *place = *byte).count();
        length = length.wrapping_add(run);
        // Each of these is a branch, which is predicted.
        let Some(special) = rest.get(run..) else {
            break;
        };
        let Some((_, escape)) = special.split_first() else {
            break;
        };
        rest = escape;
        if let Some((char, letters)) = escape::decode(escape)
            && let Some(after) = escape.get(letters..)
            && let Some(places) = buffer.get_mut(length..)
        {
            rest = after;
            length = length.wrapping_add(put(char, places));
        }
    }
    length
}

/// Copies a character to the front of the buffer and returns its length.
#[inline]
fn put(char: char, places: &mut [u8]) -> usize {
    if let (Ok(byte @ ..0x80), [place, ..]) = (u8::try_from(u32::from(char)), &mut *places) {
        *place = byte;
        return 1;
    }
    let mut utf8 = [0; 4];
    let bytes = char.encode_utf8(&mut utf8).as_bytes();
    places
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    bytes.len()
}

/// Iterator over the decoded characters.
#[derive(Clone)]
struct Chars<'a> {
    rest: core::str::Chars<'a>,
    escaped: bool,
}

impl Iterator for Chars<'_> {
    type Item = char;

    #[inline]
    fn next(&mut self) -> Option<char> {
        match self.rest.next() {
            Some('\\') if self.escaped => self.next_escaped(),
            char => char,
        }
    }
}

impl Chars<'_> {
    /// The character after a backslash.
    #[inline(never)] // It has many callers, all for texts with escapes.
    fn next_escaped(&mut self) -> Option<char> {
        let escape = self.rest.as_str();
        let Some((char, length)) = escape::decode(escape.as_bytes()) else {
            return self.rest.next();
        };
        self.rest = escape.get(length..).unwrap_or_default().chars();
        Some(char)
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
        for raw in [
            "",
            "a",
            r"\n",
            r"\\",
            r"ab\n\tc",
            r"\u00e9é\ud83d\ude00x",
            r#"\"\/ \u0000"#,
            r"\ud800",
            r"\",
        ] {
            let text = Text::from_raw(raw, true);
            let characters: std::string::String = text.chars().collect();
            assert_eq!(text.decoded_len(), characters.len(), "{raw}");
            let mut buffer = [b'.'; 20];
            assert_eq!(text.copy_to(&mut buffer), Ok(characters.as_str()), "{raw}");
            assert_eq!(
                text.copy_bytes_to(&mut buffer),
                Ok(characters.as_bytes()),
                "{raw}"
            );
            assert!(
                buffer[characters.len()..].iter().all(|byte| *byte == b'.'),
                "{raw}"
            );
            let mut short = [b'.'; 20];
            if let Some(less) = characters.len().checked_sub(1) {
                let refused = text.copy_to(&mut short[..less]);
                assert_eq!(
                    refused,
                    Err(BufferTooSmall {
                        needed: characters.len()
                    }),
                    "{raw}"
                );
                assert_eq!(short, [b'.'; 20], "{raw}");
            }
        }
    }
}
