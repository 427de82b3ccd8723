//! Reads many bytes at a time: finds the end of a string's plain bytes, of white space, and of an object or array.
//!
//! Each search tests a block of bytes at once and gets a mask with one bit for each byte, the first byte's lowest. On
//! x86-64 the test uses SSE2, and on ARM64 it uses NEON, which every such processor has. On other 64-bit processors it uses
//! 64-bit words, on 32-bit ones single bytes.

pub(super) const BLOCK: usize = 16;
pub(super) const WIDE: usize = 64;

/// Whether masks of 64 bits fit into a register. Otherwise single bytes take less code and hardly more time.
const WORDS_ARE_WIDE: bool = cfg!(target_pointer_width = "64");

/// The offset, from `at` on, of the first byte that is special in a string: a quote, a backslash, or a control character.
/// The end of `bytes` if there is none.
#[inline(always)]
#[allow(clippy::inline_always)] // Measured: in a program that reads strings in many places a thousand names take 6 % more.
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    // A branch, because it is predicted: a default would have to be selected before the bytes can be loaded.
    let Some(mut rest) = bytes.get(at..) else {
        return at;
    };
    while WORDS_ARE_WIDE && let Some((block, after)) = rest.split_first_chunk() {
        let ends = masks::special(block);
        if ends != 0 {
            return at.wrapping_add(ends.trailing_zeros() as usize);
        }
        at = at.wrapping_add(BLOCK);
        rest = after;
    }
    at.wrapping_add(
        rest.iter()
            .position(|&byte| is_special(byte))
            .unwrap_or(rest.len()),
    )
}

/// The offset, from `at` on, of the first byte that is not JSON white space.
///
/// Indentation is compared in steps of four and two spaces, because such branches are predicted well.
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

/// The offset after the closing bracket of the object or array that is open at `at`, outside of any string. The text was
/// checked before; if it was not, and there is no such bracket, the result is `bytes.len()`.
#[inline(never)]
pub(super) fn close_end(bytes: &[u8], mut at: usize) -> usize {
    let mut state = Nesting {
        open: 1,
        in_string: false,
        escaped: false,
    };
    let mut rest = bytes.get(at..).unwrap_or_default();
    while WORDS_ARE_WIDE && let Some((block, after)) = rest.split_first_chunk() {
        let marks = masks::marks(block);
        // Blocks with escapes are rare, and are read byte by byte.
        let end = if marks.backslashes == 0 && !state.escaped {
            state.pass(&marks)
        } else {
            state.pass_each(block)
        };
        if let Some(place) = end {
            return at.wrapping_add(place);
        }
        at = at.wrapping_add(WIDE);
        rest = after;
    }
    at.wrapping_add(state.pass_each(rest).unwrap_or(rest.len()))
}

/// Masks of the bytes of interest in a block of 64 bytes.
struct Marks {
    quotes: u64,
    backslashes: u64,
    /// `{` and `[`.
    opening: u64,
    /// `}` and `]`.
    closing: u64,
}

/// The state of the search for a closing bracket.
struct Nesting {
    open: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Reads a block without backslashes. Returns the position in it after the bracket that closes the outermost level.
    fn pass(&mut self, marks: &Marks) -> Option<usize> {
        // One bit for each byte that has an odd number of quotes at or before it.
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

    /// Does the same for any bytes.
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

pub(super) const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(
        target_arch = "aarch64",
        target_feature = "neon",
        target_endian = "little"
    )
))]
#[allow(unsafe_code)] // Measured on x86-64: compared with `words`, S takes three quarters of the time, X two thirds.
pub(super) mod masks {
    #[cfg(target_arch = "aarch64")]
    use neon::{bits, equal, fold, load, special_bytes};
    #[cfg(target_arch = "x86_64")]
    use sse2::{bits, equal, fold, load, special_bytes};

    use super::{BLOCK, Marks, WIDE, halves};

    #[inline]
    pub(in crate::json) fn special(block: &[u8; BLOCK]) -> u32 {
        // SAFETY: this module is compiled only where SSE2 or NEON is enabled for the whole program.
        unsafe { bits(special_bytes(load(block))) }
    }

    #[inline]
    pub(super) fn marks(block: &[u8; WIDE]) -> Marks {
        let mut marks = Marks {
            quotes: 0,
            backslashes: 0,
            opening: 0,
            closing: 0,
        };
        let (blocks, _) = block.as_chunks();
        for block in blocks.iter().rev() {
            // SAFETY: as in `special`.
            let [quotes, backslashes, opening, closing] = unsafe {
                let bytes = load(block);
                let folded = fold(bytes);
                [
                    bits(equal(bytes, b'"')),
                    bits(equal(bytes, b'\\')),
                    bits(equal(folded, b'{')),
                    bits(equal(folded, b'}')),
                ]
            };
            marks.quotes = marks.quotes << 16 | u64::from(quotes);
            marks.backslashes = marks.backslashes << 16 | u64::from(backslashes);
            marks.opening = marks.opening << 16 | u64::from(opening);
            marks.closing = marks.closing << 16 | u64::from(closing);
        }
        marks
    }

    #[cfg(target_arch = "x86_64")]
    mod sse2 {
        use core::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
            _mm_set1_epi8, _mm_xor_si128,
        };

        use super::{BLOCK, halves};

        /// Compiles to one load, without a pointer.
        #[inline]
        #[target_feature(enable = "sse2")]
        pub(super) fn load(block: &[u8; BLOCK]) -> __m128i {
            let [low, high] = halves(block).map(u64::cast_signed);
            _mm_set_epi64x(high, low)
        }

        /// Sets the bit in which `[` and `{` differ, and `]` and `}`.
        #[inline]
        #[target_feature(enable = "sse2")]
        pub(super) fn fold(bytes: __m128i) -> __m128i {
            _mm_or_si128(bytes, _mm_set1_epi8(0x20))
        }

        #[inline]
        #[target_feature(enable = "sse2")]
        pub(super) fn equal(bytes: __m128i, byte: u8) -> __m128i {
            _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()))
        }

        #[inline]
        #[target_feature(enable = "sse2")]
        pub(super) fn special_bytes(bytes: __m128i) -> __m128i {
            // Flipping this bit swaps the quote and the space; control characters remain control characters.
            let flipped = _mm_xor_si128(bytes, _mm_set1_epi8(2));
            let quotes_and_controls =
                _mm_cmpeq_epi8(_mm_min_epu8(flipped, _mm_set1_epi8(0x20)), flipped);
            _mm_or_si128(quotes_and_controls, equal(bytes, b'\\'))
        }

        #[inline]
        #[target_feature(enable = "sse2")]
        pub(super) fn bits(bytes: __m128i) -> u32 {
            _mm_movemask_epi8(bytes).cast_unsigned()
        }
    }

    #[cfg(target_arch = "aarch64")]
    mod neon {
        use core::arch::aarch64::{
            uint8x16_t, vandq_u8, vceqq_u8, vcleq_u8, vcombine_u8, vcreate_u8, vdupq_n_u8,
            vdupq_n_u64, veorq_u8, vgetq_lane_u16, vorrq_u8, vpaddq_u8, vreinterpretq_u8_u64,
            vreinterpretq_u16_u8,
        };

        use super::{BLOCK, halves};

        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn load(block: &[u8; BLOCK]) -> uint8x16_t {
            let [low, high] = halves(block);
            vcombine_u8(vcreate_u8(low), vcreate_u8(high))
        }

        /// Sets the bit in which `[` and `{` differ, and `]` and `}`.
        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn fold(bytes: uint8x16_t) -> uint8x16_t {
            vorrq_u8(bytes, vdupq_n_u8(0x20))
        }

        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn equal(bytes: uint8x16_t, byte: u8) -> uint8x16_t {
            vceqq_u8(bytes, vdupq_n_u8(byte))
        }

        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn special_bytes(bytes: uint8x16_t) -> uint8x16_t {
            // As with SSE2.
            let flipped = veorq_u8(bytes, vdupq_n_u8(2));
            let quotes_and_controls = vcleq_u8(flipped, vdupq_n_u8(0x20));
            vorrq_u8(quotes_and_controls, equal(bytes, b'\\'))
        }

        /// Each byte keeps the bit of its place among eight. Three additions of neighbours join eight bytes into one.
        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn bits(bytes: uint8x16_t) -> u32 {
            let places = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            let places = vandq_u8(bytes, places);
            let pairs = vpaddq_u8(places, places);
            let fours = vpaddq_u8(pairs, pairs);
            vgetq_lane_u16(vreinterpretq_u16_u8(vpaddq_u8(fours, fours)), 0).into()
        }
    }
}

#[cfg(all(
    target_pointer_width = "64",
    not(any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(
            target_arch = "aarch64",
            target_feature = "neon",
            target_endian = "little"
        )
    ))
))]
pub(super) use words as masks;

#[cfg(not(target_pointer_width = "64"))]
pub(super) use bytes as masks;

/// The same masks from single bytes.
#[cfg(any(test, not(target_pointer_width = "64")))]
pub(super) mod bytes {
    use super::{BLOCK, Marks, WIDE, is_special};

    pub(in crate::json) fn special(block: &[u8; BLOCK]) -> u32 {
        block
            .iter()
            .rev()
            .fold(0, |mask, &byte| mask << 1 | u32::from(is_special(byte)))
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
        block
            .iter()
            .rev()
            .fold(0, |mask, &byte| mask << 1 | u64::from(test(byte)))
    }
}

/// The same masks from 64-bit words.
#[cfg(any(
    test,
    all(
        target_pointer_width = "64",
        not(any(
            all(target_arch = "x86_64", target_feature = "sse2"),
            all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            )
        ))
    )
))]
pub(super) mod words {
    use super::{BLOCK, Marks, WIDE, halves};

    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;

    pub(in crate::json) fn special(block: &[u8; BLOCK]) -> u32 {
        mask(block, |word| {
            equal(word, b'"') | equal(word, b'\\') | below_space(word)
        })
    }

    pub(super) fn marks(block: &[u8; WIDE]) -> Marks {
        let mut marks = Marks {
            quotes: 0,
            backslashes: 0,
            opening: 0,
            closing: 0,
        };
        let (blocks, _) = block.as_chunks();
        for block in blocks.iter().rev() {
            // `[` and `{` differ in one bit, and so do `]` and `}`.
            let folded = |word| word | ONES << 5;
            marks.quotes = marks.quotes << 16 | u64::from(mask(block, |word| equal(word, b'"')));
            marks.backslashes =
                marks.backslashes << 16 | u64::from(mask(block, |word| equal(word, b'\\')));
            marks.opening =
                marks.opening << 16 | u64::from(mask(block, |word| equal(folded(word), b'{')));
            marks.closing =
                marks.closing << 16 | u64::from(mask(block, |word| equal(folded(word), b'}')));
        }
        marks
    }

    /// One bit for each byte whose highest bit `test` sets.
    fn mask(block: &[u8; BLOCK], test: impl Fn(u64) -> u64) -> u32 {
        let [low, high] = halves(block).map(|word| {
            // The multiplication gathers the eight bits in the highest byte, the first byte's lowest.
            let [.., bits] = (test(word) >> 7)
                .wrapping_mul(0x0102_0408_1020_4080)
                .to_le_bytes();
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
pub(super) mod tests {
    use std::format;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Bytes, many of which are special or differ from a special byte by little.
    pub(in crate::json) fn near_bytes() -> impl Strategy<Value = Vec<u8>> {
        let near = prop::sample::select(
            b"\x00\x08\t\n\x0b\r\x1f !\"#[\\]\x7f\x80\x89\x8a\xa0\xa2\xdc\xff".to_vec(),
        );
        prop::collection::vec(
            prop_oneof![2 => Just(b'a'), 5 => Just(b' '), 2 => near, 2 => any::<u8>()],
            0..200,
        )
    }

    #[test]
    fn all_implementations_find_the_same_special_bytes() {
        // Under Miri each byte takes a thousand times as long.
        let [bytes_apart, places_apart] = if cfg!(miri) { [17, 7] } else { [1, 1] };
        for byte in (0..=u8::MAX).step_by(bytes_apart) {
            for other in [b'a', b' ', 0, 0xff] {
                for place in (0..BLOCK).step_by(places_apart) {
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
    fn brackets_in_strings_do_not_close() {
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
            // In the first block, in the next one, after an escape in its block, after an escape across two blocks.
            let long = "a".repeat(62);
            for before in [
                "",
                &format!("{long}{long}"),
                r#""\\""#,
                &format!(r#""{long}\"""#),
            ] {
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
        fn brackets_close_where_reading_single_bytes_says(bytes in pieces(), at in 0_usize..3) {
            let mut state = Nesting { open: 1, in_string: false, escaped: false };
            let rest = bytes.get(at..).unwrap_or_default();
            let expected = at + state.pass_each(rest).unwrap_or(rest.len());
            prop_assert_eq!(close_end(&bytes, at), expected);
        }

        #[test]
        fn all_implementations_make_the_same_marks(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"\"\\[]{}".to_vec())], WIDE)) {
            let block = bytes.first_chunk().unwrap();
            let marked = |marks: Marks| (marks.quotes, marks.backslashes, marks.opening, marks.closing);
            let expected = marked(bytes::marks(block));
            prop_assert_eq!(marked(masks::marks(block)), expected);
            prop_assert_eq!(marked(words::marks(block)), expected);
        }

        #[test]
        fn plain_bytes_end_where_reading_single_bytes_says(bytes in near_bytes(), places in prop::collection::vec(0_usize..210, 1..9)) {
            for at in places {
                let end = |ends: fn(u8) -> bool| (at..bytes.len()).find(|&at| ends(bytes[at]));
                let expected = end(is_special).unwrap_or(at.max(bytes.len()));
                prop_assert_eq!(plain_end(&bytes, at), expected);
                let visible = |byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
                prop_assert_eq!(space_end(&bytes, at), end(visible).unwrap_or(bytes.len()));
            }
        }
    }
}
