//! A string of the document: borrowed, still escaped, read with its escapes decoded.

use core::fmt;

use serde::{Serialize, Serializer};

use super::block::plain_end;
use crate::error::BufferTooSmall;

/// A string of the document, as it stands there: borrowed from the caller's bytes, escapes and all.
///
/// Whatever reads it sees it decoded: comparison, display, iteration and copy join surrogate pairs and resolve `\n` and
/// its like. Nothing is stored, and nothing can fail: the document was checked when it was parsed. Display writes the
/// characters as they are; escape them before they reach a terminal or a log line.
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
    /// The text that stands between the quotes, and whether escapes stand in it: [`raw`](Self::raw) and
    /// [`as_str`](Self::as_str) the other way round.
    ///
    /// The texts of a document were checked. In what was not, an escape that is none becomes U+FFFD or stands for itself.
    ///
    /// ```
    /// use scheduled_events_core::Text;
    ///
    /// assert!(Text::from_raw(r"caf\u00e9", true) == "café");
    /// ```
    pub const fn from_raw(raw: &'a str, escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// A text that has no escapes: the bytes are the characters.
    pub const fn plain(text: &'a str) -> Self {
        Self { raw: text, escaped: false }
    }

    /// The bytes between the quotes, escapes not decoded.
    pub const fn raw(&self) -> &'a str {
        self.raw
    }

    /// The text without a copy, where it has no escapes; real documents have none.
    pub const fn as_str(&self) -> Option<&'a str> {
        if self.escaped { None } else { Some(self.raw) }
    }

    /// Whether the text is empty.
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The characters, escapes decoded.
    pub fn chars(&self) -> impl Iterator<Item = char> + Clone + 'a {
        Chars { rest: self.raw.chars(), escaped: self.escaped }
    }

    /// The pieces of a text with escapes, decoded.
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

    /// The length of the decoded text in bytes of UTF-8.
    pub fn decoded_len(&self) -> usize {
        match self.as_str() {
            Some(text) => text.len(),
            None => self.pieces().fold(0, |length: usize, piece| length.saturating_add(piece.len())),
        }
    }

    /// Whether the decoded text equals `other` but for the case of ASCII letters, as Azure compares ids and names.
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
    /// [`BufferTooSmall`] when it does not fit; it tells the bytes needed.
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
        // Whole characters were written to exactly the bytes they need, so this is UTF-8.
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

/// A piece of a decoded text.
enum Piece<'a> {
    /// What stands for itself.
    Run(&'a str),
    /// What was escaped.
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

/// Decodes as it goes.
#[derive(Clone)]
struct Chars<'a> {
    rest: core::str::Chars<'a>,
    escaped: bool,
}

impl Chars<'_> {
    /// The UTF-16 unit of the four digits that follow.
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
                    // The low half follows as another escape; a pair counts from 0x10000 on.
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
    fn what_is_not_escaped_is_there_as_it_stands() {
        assert_eq!(Text::plain("é").as_str(), Some("é"));
        assert_eq!(Text::from_raw("é", false).as_str(), Some("é"));
        assert_eq!(Text::from_raw("é", true).as_str(), None);
        assert!(Text::plain("").is_empty() && !Text::plain(" ").is_empty());
        assert!(Text::plain("é") == "é" && Text::plain("é") != "e" && Text::plain("é") == *"é");
    }

    #[test]
    fn what_is_copied_is_what_the_characters_say() {
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
