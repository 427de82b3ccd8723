//! Many bytes at a time: where a string's plain run ends, where white space does, and where an object or array does.
//!
//! Each question about a block of bytes is answered by a mask with one bit for each of them, the first byte's lowest. On
//! x86-64 SSE2 answers, which every such processor has; elsewhere 64-bit words do, where a processor has such words.

use core::slice;

const BLOCK: usize = 16;
const WIDE: usize = 64;

/// Whether a mask of 64 bits is a word; otherwise byte after byte takes less code, and hardly more time.
pub(crate) const WORDS_ARE_WIDE: bool = cfg!(target_pointer_width = "64");

/// Where the first byte at or behind `at` stands that does not stand for itself in a string: a quote, a backslash, or a
/// control character. The end of `bytes` where there is none.
#[inline(always)]
#[allow(clippy::inline_always)] // Measured: in a program that reads strings in many places a thousand names take 6 % more.
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    // A branch is foreseen; a default instead of it would have to be chosen before the bytes can be loaded.
    let Some(mut rest) = bytes.get(at..) else { return at };
    while WORDS_ARE_WIDE && let Some((block, after)) = rest.split_first_chunk() {
        let ends = masks::special(block);
        if ends != 0 {
            return at.wrapping_add(ends.trailing_zeros() as usize);
        }
        at = at.wrapping_add(BLOCK);
        rest = after;
    }
    at.wrapping_add(rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len()))
}

/// Whether all of a text of at least sixteen bytes stand for themselves in a string.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_end`.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    let (blocks, _) = bytes.as_chunks();
    let Some(last) = bytes.last_chunk() else { return false };
    blocks.iter().fold(masks::special(last), |any, block| any | masks::special(block)) == 0
}

/// What is left from the first byte on that does not stand for itself in a string. `None` where blocks of sixteen bytes do
/// not tell.
#[inline(always)]
#[allow(clippy::inline_always)] // As for `plain_end`.
pub(super) fn behind_plain(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        match masks::special(rest.first_chunk()?) {
            0 => rest = rest.get(BLOCK..)?,
            // It is in the block: with the mask nobody has to check that.
            ends => return rest.get(ends.trailing_zeros() as usize & BLOCK.wrapping_sub(1)..),
        }
    }
}

/// Where many short strings end that follow each other: 64 bytes are looked at once for all of them, and the next 64 without
/// waiting for where one ends.
pub(crate) struct PlainEnds<'a> {
    blocks: slice::Iter<'a, [u8; WIDE]>,
    /// The bytes of the block that do not stand for themselves.
    ends: u64,
    /// Where in the block what is left begins.
    place: u32,
}

impl<'a> PlainEnds<'a> {
    /// Of the strings in this text, the first of which begins it.
    pub(crate) fn new(text: &'a str) -> Self {
        let (blocks, _) = text.as_bytes().as_chunks();
        let mut blocks = blocks.iter();
        let ends = blocks.next().map_or(0, specials);
        Self { blocks, ends, place: 0 }
    }

    /// The plain string whose opening quote is before what is left of the text, and what is left behind its closing quote.
    /// `None` for one that is long or not plain, and where the text is nearly over.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_end`.
    pub(crate) fn split(&mut self, left: &'a str) -> Option<(&'a str, &'a str)> {
        let ends = self.ends.wrapping_shr(self.place);
        let length = if ends == 0 {
            let before = 64_u32.wrapping_sub(self.place);
            self.ends = specials(self.blocks.next()?);
            self.place = self.ends.trailing_zeros();
            if self.ends == 0 {
                return None;
            }
            before.wrapping_add(self.place)
        } else {
            let length = ends.trailing_zeros();
            self.place = self.place.wrapping_add(length);
            length
        };
        let (string, behind) = left.split_at_checked(length as usize)?;
        Some((string, behind.strip_prefix('"')?))
    }

    /// Goes on behind the closing quote and so many bytes more, at most sixteen.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `plain_end`.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let [bytes, ..] = bytes.to_le_bytes();
        self.place = self.place.wrapping_add(1).wrapping_add(bytes.into());
        if self.place >= 64 {
            self.place = self.place.wrapping_sub(64);
            self.ends = self.blocks.next().map_or(0, specials);
        }
    }
}

#[inline]
fn specials(block: &[u8; WIDE]) -> u64 {
    let (blocks, _) = block.as_chunks();
    blocks.iter().rev().fold(0, |mask, block| mask << BLOCK | u64::from(masks::special(block)))
}

/// Where the first byte at or behind `at` stands that is no white space of JSON's.
///
/// Indentation is compared, not measured: what a processor foresees it does not have to wait for.
#[inline(never)] // Compact documents have none.
pub(super) fn space_end(bytes: &[u8], at: usize) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let [b' ' | b'\t' | b'\n' | b'\r', after @ ..] = rest {
        rest = after;
        while let Some(after) = rest.strip_prefix(b"    ") {
            rest = after;
        }
        while let Some(after) = rest.strip_prefix(b"  ") {
            rest = after;
        }
    }
    bytes.len().wrapping_sub(rest.len())
}

/// Where the object or array ends that stands open at `at`, outside of any string: behind its closing bracket. The text
/// was checked before; `bytes.len()` where it turns out not to have been.
#[inline(never)]
pub(super) fn close_end(bytes: &[u8], mut at: usize) -> usize {
    let mut state = Nesting { open: 1, in_string: false, escaped: false };
    let mut rest = bytes.get(at..).unwrap_or_default();
    while WORDS_ARE_WIDE && let Some((block, after)) = rest.split_first_chunk() {
        let marks = masks::marks(block);
        // A block with an escape is gone through byte by byte; there are few.
        let end = if marks.backslashes == 0 && !state.escaped { state.pass(&marks) } else { state.pass_each(block) };
        if let Some(place) = end {
            return at.wrapping_add(place);
        }
        at = at.wrapping_add(WIDE);
        rest = after;
    }
    at.wrapping_add(state.pass_each(rest).unwrap_or(rest.len()))
}

/// What stands in 64 bytes.
struct Marks {
    quotes: u64,
    backslashes: u64,
    /// Of `{` and `[`.
    opening: u64,
    /// Of `}` and `]`.
    closing: u64,
}

/// How many brackets are open, and whether a string is.
struct Nesting {
    open: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Goes over 64 bytes without a backslash; where in them the last bracket was closed.
    fn pass(&mut self, marks: &Marks) -> Option<usize> {
        // A bit for each byte that has an odd number of quotes at or before it.
        let mut strings = marks.quotes;
        for distance in [1, 2, 4, 8, 16, 32] {
            strings ^= strings.wrapping_shl(distance);
        }
        if self.in_string {
            strings = !strings;
        }
        self.in_string = strings >> 63 != 0;
        let mut closing = marks.closing & !strings;
        let mut opening = marks.opening & !strings;
        while closing != 0 {
            let place = closing.trailing_zeros();
            let before = opening & 1_u64.wrapping_shl(place).wrapping_sub(1);
            opening ^= before;
            self.open = self.open.wrapping_add(before.count_ones()).wrapping_sub(1);
            if self.open == 0 {
                return Some((place as usize).wrapping_add(1));
            }
            closing &= closing.wrapping_sub(1);
        }
        self.open = self.open.wrapping_add(opening.count_ones());
        None
    }

    /// The same for any bytes.
    #[inline(never)]
    fn pass_each(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut place: usize = 0;
        for &byte in bytes {
            place = place.wrapping_add(1);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.open = self.open.wrapping_add(1),
                b'}' | b']' => {
                    self.open = self.open.wrapping_sub(1);
                    if self.open == 0 {
                        return Some(place);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The block as two words, the first byte lowest.
#[cfg(any(test, target_pointer_width = "64"))]
fn halves(block: &[u8; BLOCK]) -> [u64; 2] {
    let (words, _) = block.as_chunks();
    let [low, high] = words else { return [0; 2] };
    [*low, *high].map(u64::from_le_bytes)
}

const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[allow(unsafe_code)] // Measured beside the words below: S is read in three quarters of the time, X in two thirds.
mod masks {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
        _mm_xor_si128,
    };

    use super::{BLOCK, Marks, WIDE, halves};

    #[inline]
    pub(super) fn special(block: &[u8; BLOCK]) -> u32 {
        // SAFETY: this module is compiled only where SSE2 is enabled for the whole program.
        unsafe { sse2_special(block) }
    }

    #[inline]
    pub(super) fn marks(block: &[u8; WIDE]) -> Marks {
        // SAFETY: this module is compiled only where SSE2 is enabled for the whole program.
        unsafe { sse2_marks(block) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn sse2_marks(block: &[u8; WIDE]) -> Marks {
        let mut marks = Marks { quotes: 0, backslashes: 0, opening: 0, closing: 0 };
        let (blocks, _) = block.as_chunks();
        for block in blocks.iter().rev() {
            let bytes = load(block);
            // `[` and `{` differ in this bit, and so do `]` and `}`.
            let folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            marks.quotes = marks.quotes << 16 | u64::from(bits(equal(bytes, b'"')));
            marks.backslashes = marks.backslashes << 16 | u64::from(bits(equal(bytes, b'\\')));
            marks.opening = marks.opening << 16 | u64::from(bits(equal(folded, b'{')));
            marks.closing = marks.closing << 16 | u64::from(bits(equal(folded, b'}')));
        }
        marks
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn sse2_special(block: &[u8; BLOCK]) -> u32 {
        let bytes = load(block);
        // With this bit turned over a quote is a space, a space is a quote, and controls are controls.
        let turned = _mm_xor_si128(bytes, _mm_set1_epi8(2));
        let quotes_and_controls = _mm_cmpeq_epi8(_mm_min_epu8(turned, _mm_set1_epi8(0x20)), turned);
        bits(_mm_or_si128(quotes_and_controls, equal(bytes, b'\\')))
    }

    /// The two halves become one load, without a pointer.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(block: &[u8; BLOCK]) -> __m128i {
        let [low, high] = halves(block).map(u64::cast_signed);
        _mm_set_epi64x(high, low)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal(bytes: __m128i, byte: u8) -> __m128i {
        _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn bits(bytes: __m128i) -> u32 {
        _mm_movemask_epi8(bytes).cast_unsigned()
    }
}

#[cfg(all(target_pointer_width = "64", not(all(target_arch = "x86_64", target_feature = "sse2"))))]
use words as masks;

#[cfg(not(target_pointer_width = "64"))]
use bytes as masks;

/// The same answers byte after byte.
#[cfg(any(test, not(target_pointer_width = "64")))]
mod bytes {
    use super::{BLOCK, Marks, WIDE, is_special};

    pub(super) fn special(block: &[u8; BLOCK]) -> u32 {
        block.iter().rev().fold(0, |mask, &byte| mask << 1 | u32::from(is_special(byte)))
    }

    pub(super) fn marks(block: &[u8; WIDE]) -> Marks {
        Marks {
            quotes: mask(block, |byte| byte == b'"'),
            backslashes: mask(block, |byte| byte == b'\\'),
            opening: mask(block, |byte| byte == b'{' || byte == b'['),
            closing: mask(block, |byte| byte == b'}' || byte == b']'),
        }
    }

    fn mask(block: &[u8], test: impl Fn(u8) -> bool) -> u64 {
        block.iter().rev().fold(0, |mask, &byte| mask << 1 | u64::from(test(byte)))
    }
}

/// The same answers from 64-bit words.
#[cfg(any(test, all(target_pointer_width = "64", not(all(target_arch = "x86_64", target_feature = "sse2")))))]
mod words {
    use super::{BLOCK, Marks, WIDE, halves};

    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;

    pub(super) fn special(block: &[u8; BLOCK]) -> u32 {
        mask(block, |word| equal(word, b'"') | equal(word, b'\\') | below_space(word))
    }

    pub(super) fn marks(block: &[u8; WIDE]) -> Marks {
        let mut marks = Marks { quotes: 0, backslashes: 0, opening: 0, closing: 0 };
        let (blocks, _) = block.as_chunks();
        for block in blocks.iter().rev() {
            // `[` and `{` differ in one bit, and so do `]` and `}`.
            let folded = |word| word | ONES << 5;
            marks.quotes = marks.quotes << 16 | u64::from(mask(block, |word| equal(word, b'"')));
            marks.backslashes = marks.backslashes << 16 | u64::from(mask(block, |word| equal(word, b'\\')));
            marks.opening = marks.opening << 16 | u64::from(mask(block, |word| equal(folded(word), b'{')));
            marks.closing = marks.closing << 16 | u64::from(mask(block, |word| equal(folded(word), b'}')));
        }
        marks
    }

    /// One bit for each byte whose highest bit `test` sets.
    fn mask(block: &[u8; BLOCK], test: impl Fn(u64) -> u64) -> u32 {
        let [low, high] = halves(block).map(|word| {
            // The multiplication gathers the eight bits in the highest byte, the first byte's lowest.
            let [.., bits] = (test(word) >> 7).wrapping_mul(0x0102_0408_1020_4080).to_le_bytes();
            u32::from(bits)
        });
        low | high << 8
    }

    /// The highest bit of each byte that is `byte`.
    const fn equal(word: u64, byte: u8) -> u64 {
        let other = word ^ ONES.wrapping_mul(byte as u64);
        // No byte's sum carries into the next one.
        !((other & !HIGHS).wrapping_add(!HIGHS) | other) & HIGHS
    }

    /// The highest bit of each byte below 0x20.
    const fn below_space(word: u64) -> u64 {
        !((word & !HIGHS).wrapping_add(ONES.wrapping_mul(0x60)) | word) & HIGHS
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Bytes of which many are near the ones that count.
    fn near_bytes() -> impl Strategy<Value = Vec<u8>> {
        let near = prop::sample::select(b"\x00\x08\t\n\x0b\r\x1f !\"#[\\]\x7f\x80\x89\x8a\xa0\xa2\xdc\xff".to_vec());
        prop::collection::vec(prop_oneof![2 => Just(b'a'), 5 => Just(b' '), 2 => near, 2 => any::<u8>()], 0..200)
    }

    #[test]
    fn every_byte_in_every_place_is_told_alike() {
        // Under Miri each byte takes a thousand times as long.
        for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 17 } else { 1 }) {
            for other in [b'a', b' ', 0, 0xff] {
                for place in 0..BLOCK {
                    let mut block = [other; BLOCK];
                    block[place] = byte;
                    let expected = bytes::special(&block);
                    assert_eq!(masks::special(&block), expected);
                    assert_eq!(words::special(&block), expected);
                }
            }
        }
    }

    #[test]
    fn brackets_close_outside_of_strings_only() {
        for (rest, end) in [
            ("", None),
            ("[1", None),
            ("]", Some(1)),
            ("}]", Some(1)),
            (r#""]"]"#, Some(4)),
            (r#""\"]"]"#, Some(6)),
            (r#""\\"]"]"#, Some(5)),
            ("[{}]]]", Some(5)),
        ] {
            // In the first block; in the next one; behind an escape in its block, and behind one on the border of two.
            let long = "a".repeat(62);
            for before in ["", &format!("{long}{long}"), r#""\\""#, &format!(r#""{long}\"""#)] {
                for after in ["", &format!("{long}{long}")] {
                    let bytes = format!("{before}{rest}{after}");
                    let expected = end.map_or(bytes.len(), |end| before.len() + end);
                    assert_eq!(close_end(bytes.as_bytes(), 0), expected, "{bytes}");
                }
            }
        }
    }

    /// Pieces of JSON that mostly stay open for several blocks; strings may hold brackets, and few hold escapes.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            6 => Just("abcdefghijklmnop"),
            3 => prop::sample::select(vec!["{", "["]),
            2 => prop::sample::select(vec!["}", "]"]),
            4 => Just("\""),
            1 => prop::sample::select(vec!["\\\"", "\\\\", "é"]),
        ];
        prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn brackets_close_where_byte_for_byte_reading_says(bytes in pieces(), at in 0_usize..3) {
            let mut state = Nesting { open: 1, in_string: false, escaped: false };
            let rest = bytes.get(at..).unwrap_or_default();
            let expected = at + state.pass_each(rest).unwrap_or(rest.len());
            prop_assert_eq!(close_end(&bytes, at), expected);
        }

        #[test]
        fn all_ways_to_mark_agree(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"\"\\[]{}".to_vec())], WIDE)) {
            let block = bytes.first_chunk().unwrap();
            let marked = |marks: Marks| (marks.quotes, marks.backslashes, marks.opening, marks.closing);
            let expected = marked(bytes::marks(block));
            prop_assert_eq!(marked(masks::marks(block)), expected);
            prop_assert_eq!(marked(words::marks(block)), expected);
        }

        #[test]
        fn short_strings_end_where_byte_for_byte_reading_says(bytes in near_bytes(), steps in prop::collection::vec(0_usize..17, 200)) {
            let text = std::string::String::from_utf8_lossy(&bytes);
            let (mut ends, mut rest) = (PlainEnds::new(&text), &*text);
            for step in steps {
                let end = rest.bytes().position(is_special);
                let expected = end.filter(|&end| rest.as_bytes()[end] == b'"').map(|end| (&rest[..end], &rest[end + 1..]));
                let fresh = PlainEnds::new(rest).split(rest);
                let Some(split) = ends.split(rest) else {
                    // What is long, or near the end, may be left to others.
                    prop_assert!(expected.is_none() || rest.len() < 2 * WIDE || end > Some(WIDE - 1));
                    break;
                };
                prop_assert_eq!(Some(split), expected);
                prop_assert!(fresh.is_none() && rest.len() < WIDE || fresh == expected);
                let Some(after) = split.1.get(step..) else { break };
                ends.skip(step);
                rest = after;
            }
        }

        #[test]
        fn runs_end_where_byte_for_byte_reading_says(bytes in near_bytes(), places in prop::collection::vec(0_usize..210, 1..9)) {
            for at in places {
                let end = |ends: fn(u8) -> bool| (at..bytes.len()).find(|&at| ends(bytes[at]));
                let expected = end(is_special).unwrap_or(at.max(bytes.len()));
                prop_assert_eq!(plain_end(&bytes, at), expected);
                let rest = bytes.get(at..).unwrap_or_default();
                if let Some(behind) = behind_plain(rest) {
                    prop_assert_eq!(bytes.len() - behind.len(), expected);
                }
                prop_assert_eq!(is_plain(rest), rest.len() >= BLOCK && expected == bytes.len());
                let visible = |byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
                prop_assert_eq!(space_end(&bytes, at), end(visible).unwrap_or(bytes.len()));
            }
        }
    }
}
