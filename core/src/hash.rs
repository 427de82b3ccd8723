//! A 64-bit hash for table look-ups, for detecting changed texts, and as the checksum of snapshots.
//!
//! It detects accidents, not attacks: the author of a document can create collisions. Where a collision would hide an event,
//! the bytes themselves are compared too, and where it would make look-ups slow, the hash has a seed. Two
//! inputs of one length that differ in a single word of eight bytes never collide. The hash depends only on the bytes, not
//! on how they are divided into calls, nor on the processor.

use crate::json::Text;

#[derive(Clone, Copy)]
pub(crate) struct Hash {
    state: u64,
    /// The bytes of the incomplete word, the first one lowest.
    word: u64,
    /// The number of bytes so far.
    length: u64,
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 over the golden ratio, odd

impl Hash {
    pub(crate) const fn new() -> Self {
        Self {
            state: FACTOR,
            word: 0,
            length: 0,
        }
    }

    /// The hash of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::new();
        hash.bytes(bytes);
        hash.finish()
    }

    /// The hash of a decoded id, ASCII case ignored. A few other pairs of characters hash alike, too.
    pub(crate) fn of_id(id: &Text<'_>) -> u64 {
        Self::of_id_with(0, id)
    }

    /// The same with a seed, so that ids whose hashes are equal for one seed have different ones for another.
    pub(crate) fn of_id_with(seed: u64, id: &Text<'_>) -> u64 {
        let mut hash = Self::new();
        hash.state ^= seed;
        match id.as_str() {
            Some(id) => hash.caseless_bytes(id.as_bytes()),
            None => hash.chars(id, true),
        }
        hash.finish()
    }

    pub(crate) const fn byte(&mut self, byte: u8) {
        let place = (self.length & 7) as u32;
        self.word |= (byte as u64) << place.wrapping_mul(8);
        self.length = self.length.wrapping_add(1);
        if place == 7 {
            self.mix(self.word);
            self.word = 0;
        }
    }

    /// For each word a bijection of the state.
    const fn mix(&mut self, word: u64) {
        self.state = (self.state.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.each(bytes, |word| word);
    }

    /// Hashes bytes as if their ASCII letters were lower case.
    fn caseless_bytes(&mut self, bytes: &[u8]) {
        self.each(bytes, |word| word | 0x2020_2020_2020_2020);
    }

    #[inline]
    fn each(&mut self, bytes: &[u8], fold: impl Fn(u64) -> u64) {
        let mut rest = bytes;
        if self.length.is_multiple_of(8) {
            while let Some((word, after)) = rest.split_first_chunk() {
                self.mix(fold(u64::from_le_bytes(*word)));
                self.length = self.length.wrapping_add(8);
                rest = after;
            }
            self.word = rest
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | fold(byte.into()) & 0xff);
            self.length = self.length.wrapping_add(rest.len() as u64);
            return;
        }
        for &byte in rest {
            let [byte, ..] = fold(byte.into()).to_le_bytes();
            self.byte(byte);
        }
    }

    /// Hashes a decoded text and an end mark, so that `"a","b"` differs from `"ab",""`.
    pub(crate) fn text(&mut self, text: &Text<'_>) {
        match text.as_str() {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.chars(text, false),
        }
        self.byte(0xff);
    }

    #[cold]
    fn chars(&mut self, text: &Text<'_>, caseless: bool) {
        for char in text.chars() {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                self.byte(if caseless { byte | 0x20 } else { byte });
            }
        }
    }

    pub(crate) const fn finish(mut self) -> u64 {
        self.mix(self.word);
        self.mix(self.length);
        let hash = (self.state ^ self.state >> 32).wrapping_mul(FACTOR);
        hash ^ hash >> 29
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::Hash;
    use crate::json::Text;

    fn of(parts: &[&[u8]]) -> u64 {
        let mut hash = Hash::new();
        for part in parts {
            hash.bytes(part);
        }
        hash.finish()
    }

    /// Snapshots and shortened ids contain hashes, so these must not change.
    #[test]
    fn known_hashes_do_not_change() {
        for (text, expected) in [
            ("", 0x9718_0a97_bedc_8359),
            ("a", 0x56df_24b2_0f42_6817),
            (
                "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
                0xfd8b_f1da_4018_b2a5,
            ),
        ] {
            assert_eq!(Hash::of(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_hashed_decoded() {
        let hash = |text: &Text<'_>| {
            let mut hash = Hash::new();
            hash.text(text);
            hash.finish()
        };
        let (plain, escaped) = (Text::plain("Aé"), Text::from_raw(r"\u0041\u00e9", true));
        assert_eq!(hash(&plain), hash(&escaped));
        assert_eq!(Hash::of_id(&plain), Hash::of_id(&escaped));
        assert_ne!(hash(&plain), hash(&Text::plain("")));
        assert_ne!(hash(&plain), hash(&Text::plain("aé")));
        assert_ne!(Hash::of_id(&escaped), Hash::of_id(&Text::plain("")));
    }

    proptest! {
        #[test]
        fn the_division_into_calls_does_not_matter(bytes: Vec<u8>, cut in 0_usize..100, other in 0_usize..100) {
            let (first, rest) = bytes.split_at(cut.min(bytes.len()));
            let (second, third) = rest.split_at(other.min(rest.len()));
            prop_assert_eq!(of(&[first, second, third]), Hash::of(&bytes));
        }

        #[test]
        fn a_changed_byte_changes_the_hash(mut bytes in prop::collection::vec(any::<u8>(), 1..200), place: prop::sample::Index, change in 1..=u8::MAX) {
            let before = Hash::of(&bytes);
            let place = place.index(bytes.len());
            bytes[place] ^= change;
            prop_assert_ne!(Hash::of(&bytes), before);
            bytes[place] ^= change;
            bytes.push(0);
            prop_assert_ne!(Hash::of(&bytes), before);
        }

        #[test]
        fn ascii_case_does_not_change_the_hash_of_an_id(id in "\\PC{0,40}") {
            let mut hashes = [id.clone(), id.to_ascii_uppercase(), id.to_ascii_lowercase()]
                .map(|id| Hash::of_id(&Text::plain(&id)))
                .to_vec();
            hashes.dedup();
            prop_assert_eq!(hashes.len(), 1);
        }
    }
}
