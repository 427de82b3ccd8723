//! Escapes in strings (RFC 8259 section 7).

use crate::error::{ExpectedToken, ParseError, ParseErrorKind};

/// Decodes the escape after whose backslash `rest` starts. Returns its character and its length without the backslash;
/// `None` if it is invalid. The high half of a surrogate pair needs the low half after it.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[allow(clippy::inline_always)] // So that the length is predicted, not computed. On small processors code size matters.
pub(super) fn decode(rest: &[u8]) -> Option<(char, usize)> {
    let (letter, rest) = rest.split_first()?;
    let char = match letter {
        b'"' | b'\\' | b'/' => char::from(*letter),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (digits, rest) = rest.split_first_chunk()?;
            let first = unit(*digits)?;
            if let Some(char) = char::from_u32(first) {
                return Some((char, 5));
            }
            // Half of a surrogate pair.
            let second = unit(*rest.strip_prefix(b"\\u")?.first_chunk()?)?;
            if (first << 16 | second) & 0xfc00_fc00 != 0xd800_dc00 {
                return None;
            }
            let pair = (first & 0x3ff) << 10 | second & 0x3ff;
            return Some((char::from_u32(pair.wrapping_add(0x1_0000))?, 11));
        }
        _ => return None,
    };
    Some((char, 1))
}

/// The UTF-16 unit of four hexadecimal digits. Tests and converts all of them at once, in the bytes of one word.
fn unit(digits: [u8; 4]) -> Option<u32> {
    const ONES: u32 = 0x0101_0101;
    const HIGHS: u32 = ONES << 7;
    let digits = u32::from_be_bytes(digits);
    // The highest bit of each byte that is at least `least`. No sum carries into the next byte.
    let from = |bytes: u32, least: u8| {
        (bytes & !HIGHS).wrapping_add(ONES.wrapping_mul(0x80_u32.wrapping_sub(least.into())))
    };
    let lower = digits | ONES << 5;
    let decimal = from(digits, b'0') & !from(digits, b'9' + 1);
    let letters = from(lower, b'a') & !from(lower, b'f' + 1);
    if (decimal | letters) & !digits & HIGHS != HIGHS {
        return None;
    }
    // In `a` and `A` the lower four bits are 1, and bit 6 is set.
    let halves =
        (digits & ONES.wrapping_mul(0xf)).wrapping_add((digits >> 6 & ONES).wrapping_mul(9));
    let bytes = halves | halves >> 4;
    Some(bytes >> 8 & 0xff00 | bytes & 0xff)
}

/// Why the escape whose backslash is at this byte is invalid.
#[cold]
#[inline(never)]
pub(super) fn error(text: &[u8], backslash: usize) -> ParseError {
    let escape = text.get(backslash..).unwrap_or_default();
    let is_high_half = matches!(
        escape,
        [_, b'u', _, b'8' | b'9' | b'A' | b'B' | b'a' | b'b', ..]
    );
    for place in 1..if is_high_half { 12 } else { 6 } {
        let (kind, expected) = match place {
            1 => (ParseErrorKind::InvalidEscape, ExpectedToken::EscapeLetter),
            6 | 7 => (ParseErrorKind::LoneSurrogate, ExpectedToken::LowSurrogate),
            _ => (ParseErrorKind::InvalidEscape, ExpectedToken::HexDigit),
        };
        let Some(&byte) = escape.get(place) else {
            return ParseError::new(ParseErrorKind::UnexpectedEnd, text.len()).expected(expected);
        };
        let is_valid = match place {
            1 => b"\"\\/bfnrtu".contains(&byte),
            6 => byte == b'\\',
            7 => byte == b'u',
            _ => byte.is_ascii_hexdigit(),
        };
        if !is_valid {
            return ParseError::found(kind, backslash, Some(byte)).expected(expected);
        }
    }
    ParseError::new(ParseErrorKind::LoneSurrogate, backslash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::unit;

    proptest! {
        #[test]
        fn a_unit_has_four_hexadecimal_digits(digits in prop::array::uniform4(prop_oneof![
            8 => prop::sample::select(b"0189afAF".to_vec()),
            1 => prop::sample::select(b"/:@G`g\x10\x19".to_vec()),
            1 => any::<u8>(),
        ])) {
            let valid = digits.iter().all(u8::is_ascii_hexdigit);
            let text = core::str::from_utf8(&digits).unwrap_or_default();
            prop_assert_eq!(unit(digits), valid.then(|| u32::from_str_radix(text, 16).unwrap()));
        }
    }
}
