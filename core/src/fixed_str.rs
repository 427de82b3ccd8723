//! Strings of fixed capacity.
//!
//! `heapless` appends by adding lengths, and not every compiler proves that the sum does not overflow: a program that links
//! this crate would then contain a panic that never happens. Truncating an array needs no such proof.

use crate::json::Text;

/// The text's first characters that fit into `limit` bytes, and whether that is the whole text.
pub(crate) fn truncated<const N: usize>(
    text: &Text<'_>,
    limit: usize,
) -> (heapless::String<N, u8>, bool) {
    let mut bytes = [0; N];
    let mut length: usize = 0;
    let mut utf8 = [0; 4];
    let mut complete = true;
    for char in text.chars() {
        let char = char.encode_utf8(&mut utf8).as_bytes();
        let end = length.saturating_add(char.len());
        let Some(place) = bytes.get_mut(length..end).filter(|_| end <= limit) else {
            complete = false;
            break;
        };
        for (to, from) in place.iter_mut().zip(char) {
            *to = *from;
        }
        length = end;
    }
    (from_utf8(bytes, length), complete)
}

/// The first `length` bytes, which are complete characters.
pub(crate) fn from_utf8<const N: usize>(bytes: [u8; N], length: usize) -> heapless::String<N, u8> {
    let mut bytes = heapless::Vec::from_array(bytes);
    bytes.truncate(length);
    heapless::String::from_utf8(bytes).unwrap_or_default()
}

/// The whole text; `None` if it does not fit.
pub(crate) fn from_str<const N: usize>(text: &str) -> Option<heapless::String<N, u8>> {
    let (text, complete) = truncated(&Text::plain(text), N);
    complete.then_some(text)
}

/// The lower four bits as a hexadecimal digit.
pub(crate) fn hex_digit(bits: u8) -> u8 {
    match bits & 0xf {
        digit @ 0..10 => digit.wrapping_add(b'0'),
        digit => digit.wrapping_sub(10).wrapping_add(b'a'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut_in_two() {
        assert_eq!(from_str::<4>("vm_0").as_deref(), Some("vm_0"));
        assert_eq!(from_str::<4>("vm_10"), None);
        let (text, complete) = truncated::<8>(&Text::plain("aéé"), 4);
        assert_eq!((text.as_str(), complete), ("aé", false));
        let (text, complete) = truncated::<2>(&Text::plain("aéé"), 4);
        assert_eq!((text.as_str(), complete), ("a", false));
    }
}
