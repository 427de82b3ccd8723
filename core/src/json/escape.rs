//! Escapes in strings (RFC 8259 section 7).

use crate::error::{ExpectedToken, ParseError, ParseErrorKind};

/// Decodes the escape after whose backslash `rest` starts. Returns its character and its length without the backslash;
/// `None` if it is invalid. The high half of a surrogate pair needs the low half after it.
#[inline(never)]
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
            if first & 0xfc00 != 0xd800 {
                // The low half of a pair is no character.
                return Some((char::from_u32(first)?, 5));
            }
            let low = unit(*rest.strip_prefix(b"\\u")?.first_chunk()?)?;
            let pair = (first & 0x3ff) << 10 | low & 0x3ff;
            return if low & 0xfc00 == 0xdc00 {
                Some((char::from_u32(pair.wrapping_add(0x1_0000))?, 11))
            } else {
                None
            };
        }
        _ => return None,
    };
    Some((char, 1))
}

/// The UTF-16 unit of four hexadecimal digits.
fn unit(digits: [u8; 4]) -> Option<u32> {
    // Without a branch for each digit: what is none has this bit.
    const NONE: u32 = 0x1_0000;
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(NONE);
    let [first, second, third, fourth] = digits.map(digit);
    let unit = first << 12 | second << 8 | third << 4 | fourth;
    (unit < NONE).then_some(unit)
}

/// Why the escape whose backslash is at this byte is invalid.
#[cold]
#[inline(never)]
pub(super) fn error(text: &str, backslash: usize) -> ParseError {
    let escape = text.as_bytes().get(backslash..).unwrap_or_default();
    let is_high_half = matches!(escape, [_, b'u', _, b'8' | b'9' | b'A' | b'B' | b'a' | b'b', ..]);
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
