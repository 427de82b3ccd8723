//! What is expected: a reader who knows what should stand next compares it at once, and leaves everything else to a
//! [`Scanner`](super::Scanner).
//!
//! What is left of the text is handed from step to step. Each is `None` where something else stands, or where the text is
//! nearly over.

use super::Integer;
use super::block::{behind_plain, is_plain};

/// What is left from the value's first byte on, which stands here at once or behind a space.
#[inline]
pub(crate) fn value(first: u8, text: &[u8]) -> Option<&[u8]> {
    match text {
        [byte, ..] if *byte == first => Some(text),
        [b' ', value @ ..] if value.first() == Some(&first) => Some(value),
        _ => None,
    }
}

/// The length of the plain string whose opening quote is before the text, and what is left behind its closing quote.
#[inline(always)]
#[allow(clippy::inline_always)] // Measured: a call costs a third of a short string.
fn plain_string(text: &[u8]) -> Option<(usize, &[u8])> {
    match behind_plain(text)? {
        [b'"', behind @ ..] => Some((text.len().wrapping_sub(behind.len()).wrapping_sub(1), behind)),
        _ => None,
    }
}

/// What a string mostly is.
#[derive(Clone, Copy)]
pub(crate) enum Usual {
    Text(&'static [u8]),
    /// At least sixteen.
    Length(usize),
    Unknown,
}

/// The same for a string that is mostly like this. A processor goes on behind what is guessed while it still looks whether
/// the guess was right; what is looked for it has to wait for.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_string`.
pub(crate) fn plain_string_like(usual: Usual, text: &[u8]) -> Option<(usize, &[u8])> {
    match usual {
        Usual::Text(string) => {
            if let Some([b'"', behind @ ..]) = text.strip_prefix(string) {
                return Some((string.len(), behind));
            }
        }
        Usual::Length(length) => {
            if let Some((string, [b'"', behind @ ..])) = text.split_at_checked(length)
                && is_plain(string)
            {
                return Some((length, behind));
            }
        }
        Usual::Unknown => {}
    }
    plain_string(text)
}

/// The number that the text begins with, if it is a whole one of at most nine digits, as Azure writes them, and what is left
/// behind it.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_string`; each document and each event has one.
pub(crate) fn short_integer(text: &[u8]) -> Option<(Integer, &[u8])> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let negative = digits.len() != text.len();
    let mut magnitude: u32 = 0;
    let mut at = digits;
    while let [byte @ b'0'..=b'9', after @ ..] = at {
        // A zero is the only digit or not the first one.
        if digits.len().wrapping_sub(after.len()) > 9 || magnitude == 0 && at.len() != digits.len() {
            return None;
        }
        magnitude = magnitude.wrapping_mul(10).wrapping_add(u32::from(byte & 0xf));
        at = after;
    }
    let ended = matches!(at, [b',' | b'}' | b' ' | b'\n' | b'\r', ..]) && at.len() != digits.len();
    ended.then(|| (Integer::Exactly { negative: negative && magnitude != 0, magnitude: magnitude.into() }, at))
}

/// What stands between a string and the quote of the next one, where that is not a comma alone: all members of an object
/// and all strings of an array are mostly separated alike.
#[derive(Clone, Copy)]
pub(crate) struct Separator {
    /// From the comma to the quote, the first one lowest.
    bytes: u128,
    mask: u128,
    /// At most sixteen.
    length: usize,
}

impl Separator {
    /// A comma and a space, which some write where they break no lines.
    pub(super) const SPACE: Self = Self { bytes: 0x22_20_2c, mask: 0xff_ff_ff, length: 3 };
    /// What separates nothing: no text has such bytes.
    const NONE: Self = Self { bytes: u128::MAX, mask: u128::MAX, length: 0 };

    /// A comma and the white space that the text begins with, `length` bytes of it, before the first quote.
    pub(super) fn of(text: &[u8], length: usize) -> Self {
        let Some(white) = text.first_chunk().filter(|_| length <= 14) else { return Self::NONE };
        let length = length.wrapping_add(2);
        let [unused, ..] = 16_usize.wrapping_sub(length).to_le_bytes();
        let mask = u128::MAX.wrapping_shr(u32::from(unused).wrapping_mul(8));
        Self { bytes: (u128::from_le_bytes(*white) << 8 | u128::from(b',')) & mask, mask, length }
    }

    /// How many bytes it has, from the comma to the quote.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// What is left behind the separator.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    pub(crate) fn next<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.begins(text.as_bytes()) { text.get(self.length..) } else { None }
    }

    /// What is left behind a comma and the quote that follows it at once, or behind the separator.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    pub(crate) fn comma_or_next<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        match text {
            [b',', b'"', next @ ..] => Some(next),
            _ if self.begins(text) => text.get(self.length..),
            _ => None,
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    fn begins(&self, text: &[u8]) -> bool {
        text.first_chunk().is_some_and(|bytes| (u128::from_le_bytes(*bytes) ^ self.bytes) & self.mask == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn what_separated_is_found_again_whole() {
        for white in ["\n  ", " ", "\t", "\r\n", "              "] {
            let separator = Separator::of(format!("{white}\"{:20}", "").as_bytes(), white.len());
            assert_eq!(separator.len(), white.len() + 2);
            let text = format!(",{white}\"EventId and what stands behind it");
            assert_eq!(separator.next(&text), text.get(separator.len()..));
            assert_eq!(separator.comma_or_next(text.as_bytes()), text.as_bytes().get(separator.len()..));
            for other in
                [&text[1..], &text.replace(',', ";"), &text.replace('"', "'"), &format!(", {text}"), &text[..12]]
            {
                assert_eq!(separator.next(other), None, "{other}");
                assert_eq!(separator.comma_or_next(other.as_bytes()), None, "{other}");
            }
            let compact = ",\"EventId and what stands behind it";
            assert_eq!(separator.comma_or_next(compact.as_bytes()), compact.as_bytes().get(2..));
        }
        // What is longer, or near the end of the text, separates nothing.
        let text = format!("{:15}\"{:20}", "", "");
        assert_eq!(Separator::of(text.as_bytes(), 15).next(&format!(",{text}")), None);
        assert_eq!(Separator::of(b" \"a\": 1}", 1).next(", \"and sixteen bytes"), None);
        assert_eq!(Separator::SPACE.next(", \"and sixteen bytes"), Some("and sixteen bytes"));
    }

    #[test]
    fn a_string_is_what_it_is_whatever_is_usual() {
        let rest = ",\"and so on for sixteen bytes";
        let long = "x".repeat(40);
        for string in
            ["", "Scheduled", "Schedule", "Scheduled1", "caf\u{e9}", &long[..28], &long[..29], &long[..30], &long]
        {
            let text = format!("{string}\"{rest}");
            for usual in [Usual::Unknown, Usual::Text(b"Scheduled"), Usual::Length(29)] {
                let read = plain_string_like(usual, text.as_bytes());
                assert_eq!(read, Some((string.len(), rest.as_bytes())), "{string}");
            }
        }
        // A quote in the usual place does not make a string of what is not plain before it.
        for odd in ["\\n", "\n\n", "\"\""] {
            for place in [0, 15, 16, 27] {
                let text = format!("{}{odd}{}\"{rest}", &long[..place], &long[..27 - place]);
                assert_eq!(text.find(rest), Some(30));
                let expected = (odd == "\"\"").then(|| (place, &text.as_bytes()[place + 1..]));
                assert_eq!(plain_string_like(Usual::Length(29), text.as_bytes()), expected, "{text}");
            }
        }
        assert_eq!(plain_string_like(Usual::Unknown, b"near the end\""), None);
    }

    #[test]
    fn short_integers_are_whole_and_have_an_end() {
        for (text, number) in [
            ("0,", Some((false, 0))),
            ("-1}", Some((true, 1))),
            ("123456789\n", Some((false, 123_456_789))),
            ("-0 ", Some((false, 0))),
            ("1234567890,", None),
            ("01,", None),
            ("1.5,", None),
            ("1e2,", None),
            ("-,", None),
            ("7", None),
            ("", None),
        ] {
            let read = short_integer(text.as_bytes()).map(|(number, behind)| {
                assert_eq!(behind, &text.as_bytes()[text.len() - 1..]);
                number
            });
            let expected = number.map(|(negative, magnitude)| Integer::Exactly { negative, magnitude });
            assert_eq!(read, expected, "{text}");
        }
    }
}
