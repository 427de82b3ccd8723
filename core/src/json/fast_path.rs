//! Reads text that is as expected: each function compares the text with what usually comes next and returns `None` if it
//! is something else, or if the text is nearly over. The caller then reads it with the [`Scanner`].
//!
//! The functions take and return the rest of the text instead of a position in it, so that it stays in registers.

use core::slice;

use super::block::{BLOCK, WIDE, masks};
use super::{Integer, Scanner, Text, escape};

/// Whether this path is used. Tests disable it to compare it with the plain one.
#[cfg(not(test))]
pub(crate) const fn is_enabled() -> bool {
    true
}

#[cfg(test)]
pub(crate) fn is_enabled() -> bool {
    !DISABLED.get()
}

#[cfg(test)]
std::thread_local! {
    pub(crate) static DISABLED: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

impl<'a> Scanner<'a> {
    /// The whole text.
    pub(crate) const fn text(&self) -> &'a str {
        self.text
    }

    /// The text from the current position on.
    #[inline]
    pub(crate) fn rest_of_text(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The position at which this rest of the text starts.
    #[inline]
    pub(crate) const fn offset_of(&self, rest: &'a [u8]) -> usize {
        self.text.len().wrapping_sub(rest.len())
    }

    /// Moves to the start of this rest of the text.
    #[inline]
    pub(crate) const fn step_to(&mut self, rest: &'a [u8]) {
        self.at = self.offset_of(rest);
    }

    /// Steps over the white space before an object's first member or an array's first element. Returns the separator of
    /// the others, if they are separated alike.
    #[inline]
    pub(crate) fn separator(&mut self) -> Separator {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.separator_with_space()
        } else {
            Separator::SPACE
        }
    }

    #[inline(never)] // Compact documents have no white space.
    fn separator_with_space(&mut self) -> Separator {
        let start = *self;
        self.skip_space();
        Separator::new(start.rest(), self.at.wrapping_sub(start.at))
    }
}

/// The rest of the text from the value on, if the value starts with the byte `first` here or after one space.
#[inline]
pub(crate) fn value(first: u8, text: &[u8]) -> Option<&[u8]> {
    match text {
        [byte, ..] if *byte == first => Some(text),
        [b' ', value @ ..] if value.first() == Some(&first) => Some(value),
        _ => None,
    }
}

/// What a string is expected to be.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    Text(&'static [u8]),
    /// A length of at least 16.
    Length(usize),
    Unknown,
}

/// Reads a string without escapes whose opening quote is before `text`. Returns its length and the text after its closing
/// quote.
///
/// A correct expectation is faster than a search: the processor predicts it, and reads on before the comparison is done.
#[inline(always)]
#[allow(clippy::inline_always)] // Measured: a call costs a third of a short string.
pub(crate) fn plain_string(expected: Expected, text: &[u8]) -> Option<(usize, &[u8])> {
    match expected {
        Expected::Text(string) => {
            if let Some([b'"', after @ ..]) = text.strip_prefix(string) {
                return Some((string.len(), after));
            }
        }
        Expected::Length(length) => {
            if let Some((string, [b'"', after @ ..])) = text.split_at_checked(length)
                && is_plain(string)
            {
                return Some((length, after));
            }
        }
        Expected::Unknown => {}
    }
    match after_plain(text)? {
        [b'"', after @ ..] => Some((text.len().wrapping_sub(after.len()).wrapping_sub(1), after)),
        _ => None,
    }
}

/// Whether a text of at least 16 bytes has no byte that is special in a string.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_string`.
fn is_plain(bytes: &[u8]) -> bool {
    let (blocks, _) = bytes.as_chunks();
    let Some(last) = bytes.last_chunk() else {
        return false;
    };
    blocks.iter().fold(masks::special(last), |any, block| {
        any | masks::special(block)
    }) == 0
}

/// The rest of the text from the first byte on that is special in a string; `None` near the end of the text.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_string`.
fn after_plain(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        match masks::special(rest.first_chunk()?) {
            0 => rest = rest.get(BLOCK..)?,
            // The position is inside the block; the mask spares a check of that.
            ends => return rest.get(ends.trailing_zeros() as usize & BLOCK.wrapping_sub(1)..),
        }
    }
}

/// Reads a whole number of at most nine digits. Returns it and the text after it.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_string`.
pub(crate) fn short_integer(text: &[u8]) -> Option<(Integer, &[u8])> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let negative = digits.len() != text.len();
    let mut magnitude: u32 = 0;
    let mut rest = digits;
    while let [byte @ b'0'..=b'9', after @ ..] = rest {
        // A leading zero is not allowed, and a tenth digit may overflow.
        if digits.len().wrapping_sub(after.len()) > 9
            || magnitude == 0 && rest.len() != digits.len()
        {
            return None;
        }
        magnitude = magnitude
            .wrapping_mul(10)
            .wrapping_add(u32::from(byte & 0xf));
        rest = after;
    }
    let is_whole =
        matches!(rest, [b',' | b'}' | b' ' | b'\n' | b'\r', ..]) && rest.len() != digits.len();
    is_whole.then(|| {
        (
            Integer::Exactly {
                negative: negative && magnitude != 0,
                magnitude: magnitude.into(),
            },
            rest,
        )
    })
}

/// The ends of many short strings that follow each other. It tests 64 bytes at once for all strings in them, and the next
/// 64 without waiting for the end of a string.
pub(crate) struct PlainEnds<'a> {
    blocks: slice::Iter<'a, [u8; WIDE]>,
    /// The special bytes of the current block that no string has passed.
    ends: u64,
    /// The length of the text from the current block on.
    length: usize,
}

impl<'a> PlainEnds<'a> {
    /// For strings in `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        let (blocks, _) = text.as_bytes().as_chunks();
        Self {
            blocks: blocks.iter(),
            ends: 0,
            // The block before the first one.
            length: text.len().wrapping_add(WIDE),
        }
    }

    /// Splits `rest`, which starts after an opening quote, into the string and the text after its closing quote. `None` near
    /// the end of the text, and for a string with escapes unless `ESCAPES`. No rest starts before the last string's end.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    pub(crate) fn split<const ESCAPES: bool>(
        &mut self,
        rest: &'a str,
    ) -> Option<(Text<'a>, &'a str)> {
        let mut length = self.next(rest.as_bytes())?;
        let mut escaped = false;
        while ESCAPES && let [b'\\', escape @ ..] = rest.as_bytes().get(length..)? {
            let (_, letters) = escape::decode(escape)?;
            let plain = self.next(escape.get(letters..)?)?;
            length = length
                .wrapping_add(1)
                .wrapping_add(letters)
                .wrapping_add(plain);
            escaped = true;
        }
        // Only a quote is compared: the compiler sees that it starts a character.
        if rest.as_bytes().get(length) != Some(&b'"') {
            return None;
        }
        let (string, after) = rest.split_at_checked(length)?;
        Some((Text::from_raw(string, escaped), after.strip_prefix('"')?))
    }

    /// How far away the first special byte of `rest` is. Those before it are separators, or parts of an escape.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    fn next(&mut self, rest: &[u8]) -> Option<usize> {
        loop {
            while self.ends == 0 {
                self.ends = special(self.blocks.next()?);
                self.length = self.length.wrapping_sub(WIDE);
            }
            let place = self.ends.trailing_zeros() as usize;
            self.ends &= self.ends.wrapping_sub(1);
            let from = self.length.wrapping_sub(place);
            if let Some(distance) = rest.len().checked_sub(from) {
                return Some(distance);
            }
        }
    }
}

#[inline]
fn special(block: &[u8; WIDE]) -> u64 {
    let (blocks, _) = block.as_chunks();
    blocks.iter().rev().fold(0, |mask, block| {
        mask << BLOCK | u64::from(masks::special(block))
    })
}

/// What separates the members of an object or the strings of an array if it is more than a comma: a comma, white space and
/// the opening quote of the next string.
#[derive(Clone, Copy)]
pub(crate) struct Separator {
    /// From the comma to the quote, the first byte lowest.
    bytes: u128,
    mask: u128,
    /// At most 16.
    length: usize,
}

impl Separator {
    /// A comma and one space, as some encoders write on one line.
    const SPACE: Self = Self {
        bytes: 0x22_20_2c,
        mask: 0xff_ff_ff,
        length: 3,
    };
    /// Matches nothing: no text has such bytes.
    const NONE: Self = Self {
        bytes: u128::MAX,
        mask: u128::MAX,
        length: 0,
    };

    /// A comma and the white space before the first quote: the first `length` bytes of `text`.
    fn new(text: &[u8], length: usize) -> Self {
        let Some(white) = text.first_chunk().filter(|_| length <= 14) else {
            return Self::NONE;
        };
        let length = length.wrapping_add(2);
        let [unused, ..] = 16_usize.wrapping_sub(length).to_le_bytes();
        let mask = u128::MAX.wrapping_shr(u32::from(unused).wrapping_mul(8));
        Self {
            bytes: (u128::from_le_bytes(*white) << 8 | u128::from(b',')) & mask,
            mask,
            length,
        }
    }

    /// The text after the separator.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    pub(crate) fn strip<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.starts(text.as_bytes()) {
            text.get(self.length..)
        } else {
            None
        }
    }

    /// The text after a comma and a quote, or after the separator.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    pub(crate) fn strip_any<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        match text {
            [b',', b'"', next @ ..] => Some(next),
            _ if self.starts(text) => text.get(self.length..),
            _ => None,
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_string`.
    fn starts(&self, text: &[u8]) -> bool {
        text.first_chunk()
            .is_some_and(|bytes| (u128::from_le_bytes(*bytes) ^ self.bytes) & self.mask == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::super::block::is_special;
    use super::super::block::tests::near_bytes;
    use super::*;

    #[test]
    fn a_separator_matches_only_itself() {
        for white in ["\n  ", " ", "\t", "\r\n", "              "] {
            let separator = Separator::new(format!("{white}\"{:20}", "").as_bytes(), white.len());
            assert_eq!(separator.length, white.len() + 2);
            let text = format!(",{white}\"EventId and the rest of the text");
            assert_eq!(separator.strip(&text), text.get(separator.length..));
            assert_eq!(
                separator.strip_any(text.as_bytes()),
                text.as_bytes().get(separator.length..)
            );
            for other in [
                &text[1..],
                &text.replace(',', ";"),
                &text.replace('"', "'"),
                &format!(", {text}"),
                &text[..12],
            ] {
                assert_eq!(separator.strip(other), None, "{other}");
                assert_eq!(separator.strip_any(other.as_bytes()), None, "{other}");
            }
            let compact = ",\"EventId and the rest of the text";
            assert_eq!(
                separator.strip_any(compact.as_bytes()),
                compact.as_bytes().get(2..)
            );
        }
        // A longer one, or one near the end of the text, matches nothing.
        let text = format!("{:15}\"{:20}", "", "");
        assert_eq!(
            Separator::new(text.as_bytes(), 15).strip(&format!(",{text}")),
            None
        );
        assert_eq!(
            Separator::new(b" \"a\": 1}", 1).strip(", \"and sixteen bytes"),
            None
        );
        assert_eq!(
            Separator::SPACE.strip(", \"and sixteen bytes"),
            Some("and sixteen bytes")
        );
    }

    #[test]
    fn a_string_reads_the_same_with_any_expectation() {
        let rest = ",\"and so on for sixteen bytes";
        let long = "x".repeat(40);
        for string in [
            "",
            "Scheduled",
            "Schedule",
            "Scheduled1",
            "caf\u{e9}",
            &long[..28],
            &long[..29],
            &long[..30],
            &long,
        ] {
            let text = format!("{string}\"{rest}");
            for expected in [
                Expected::Unknown,
                Expected::Text(b"Scheduled"),
                Expected::Length(29),
            ] {
                let read = plain_string(expected, text.as_bytes());
                assert_eq!(read, Some((string.len(), rest.as_bytes())), "{string}");
            }
        }
        // A quote at the expected place does not end a string with special bytes before it.
        for special in ["\\n", "\n\n", "\"\""] {
            for place in [0, 15, 16, 27] {
                let text = format!("{}{special}{}\"{rest}", &long[..place], &long[..27 - place]);
                assert_eq!(text.find(rest), Some(30));
                let expected = (special == "\"\"").then(|| (place, &text.as_bytes()[place + 1..]));
                assert_eq!(
                    plain_string(Expected::Length(29), text.as_bytes()),
                    expected,
                    "{text}"
                );
            }
        }
        assert_eq!(plain_string(Expected::Unknown, b"near the end\""), None);
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
            let read = short_integer(text.as_bytes()).map(|(number, after)| {
                assert_eq!(after, &text.as_bytes()[text.len() - 1..]);
                number
            });
            let expected = number.map(|(negative, magnitude)| Integer::Exactly {
                negative,
                magnitude,
            });
            assert_eq!(read, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn plain_text_ends_where_reading_single_bytes_says(bytes in near_bytes(), at in 0_usize..210) {
            let rest = bytes.get(at..).unwrap_or_default();
            let end = rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
            if let Some(after) = after_plain(rest) {
                prop_assert_eq!(rest.len() - after.len(), end);
            }
            prop_assert_eq!(is_plain(rest), rest.len() >= BLOCK && end == rest.len());
        }

        #[test]
        fn short_strings_end_where_the_scanner_says(
            parts in prop::collection::vec(prop_oneof![near_bytes(), escapes()], 0..6),
            steps in prop::collection::vec(0_usize..17, 200),
        ) {
            let (parts, steps): (Vec<Vec<u8>>, Vec<usize>) = (parts, steps);
            let bytes = parts.concat();
            let text = std::string::String::from_utf8_lossy(&bytes);
            let (mut ends, mut rest) = (PlainEnds::new(&text), &*text);
            for step in steps {
                let quoted = format!("\"{rest}");
                let mut scanner = Scanner::new(&quoted, 0, 0);
                let expected = scanner.string().ok().map(|string| (string, scanner.rest_of_text()));
                let raw = |split: Option<(Text<'_>, &str)>| {
                    split.map(|(string, after)| (string.raw().len(), string.as_str().is_some(), after.len()))
                };
                // Long strings and those near the end may be left to the scanner.
                let must = expected.is_some_and(|(string, _)| string.raw().len() < WIDE) && rest.len() >= 2 * WIDE;
                let fresh = PlainEnds::new(rest).split::<true>(rest);
                prop_assert!(fresh.is_none() && !must || raw(fresh) == raw(expected));
                let Some(split) = ends.split::<true>(rest) else {
                    prop_assert!(!must);
                    break;
                };
                prop_assert_eq!(raw(Some(split)), raw(expected));
                let Some(after) = split.1.get(step..) else { break };
                rest = after;
            }
        }
    }

    fn escapes() -> impl Strategy<Value = Vec<u8>> {
        let escape = prop::sample::select(
            [
                r"\n",
                r"\\",
                r#"\""#,
                r"\u0022",
                r"\ud83d\ude00",
                "\"",
                "ab",
            ]
            .to_vec(),
        );
        prop::collection::vec(escape, 0..40).prop_map(|escapes| escapes.concat().into_bytes())
    }
}
