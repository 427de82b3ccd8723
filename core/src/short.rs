//! Texts in fixed memory.
//!
//! heapless copies a text by adding lengths, and not every compiler sees that the sum cannot overflow; a program that
//! links this crate would then carry a panic that never happens. An array that is cut to length has none to carry.

use crate::json::Text;

/// As many of the text's first characters as fit into `limit` bytes, and whether those are all.
pub(crate) fn beginning<const N: usize>(text: &Text<'_>, limit: usize) -> (heapless::String<N, u8>, bool) {
    let mut bytes = [0; N];
    let mut length: usize = 0;
    let mut utf8 = [0; 4];
    let mut whole = true;
    for char in text.chars() {
        let char = char.encode_utf8(&mut utf8).as_bytes();
        let end = length.saturating_add(char.len());
        let Some(place) = bytes.get_mut(length..end).filter(|_| end <= limit) else {
            whole = false;
            break;
        };
        for (to, from) in place.iter_mut().zip(char) {
            *to = *from;
        }
        length = end;
    }
    (of_utf8(bytes, length), whole)
}

/// The first `length` of the bytes, which are whole characters.
pub(crate) fn of_utf8<const N: usize>(bytes: [u8; N], length: usize) -> heapless::String<N, u8> {
    let mut bytes = heapless::Vec::from_array(bytes);
    bytes.truncate(length);
    heapless::String::from_utf8(bytes).unwrap_or_default()
}

/// The whole text; `None` where it does not fit.
pub(crate) fn kept<const N: usize>(text: &str) -> Option<heapless::String<N, u8>> {
    let (text, whole) = beginning(&Text::plain(text), N);
    whole.then_some(text)
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
    fn characters_are_kept_whole_or_not_at_all() {
        assert_eq!(kept::<4>("vm_0").as_deref(), Some("vm_0"));
        assert_eq!(kept::<4>("vm_10"), None);
        let (text, whole) = beginning::<8>(&Text::plain("aéé"), 4);
        assert_eq!((text.as_str(), whole), ("aé", false));
        let (text, whole) = beginning::<2>(&Text::plain("aéé"), 4);
        assert_eq!((text.as_str(), whole), ("a", false));
    }
}
