//! A hash of 64 bits: for table look-ups, for telling whether a text is the one that was seen last, and as the
//! checksum of snapshots.
//!
//! It guards against accidents, not against somebody who wants collisions: who can write documents can make two that look
//! alike, and ids that are slow to look up, a few milliseconds for a thousand. Where that would hide an event, the real
//! bytes are compared too. Two inputs of one length never collide when they differ in one word of eight bytes
//! only. The bytes alone count, not the pieces in which they come, nor the processor.

use crate::json::Text;

#[derive(Clone, Copy)]
pub(crate) struct Hash {
    state: u64,
    /// The bytes that do not fill a word yet, the first one lowest.
    word: u64,
    /// How many bytes there were.
    length: u64,
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 over the golden ratio, odd

impl Hash {
    pub(crate) const fn new() -> Self {
        Self { state: FACTOR, word: 0, length: 0 }
    }

    /// The hash of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::new();
        hash.bytes(bytes);
        hash.finish()
    }

    /// The hash of an id as it reads, without ASCII case. A few other characters count as one, too.
    pub(crate) fn of_id(id: &Text<'_>) -> u64 {
        let mut hash = Self::new();
        match id.as_str() {
            Some(id) => hash.caseless_bytes(id.as_bytes()),
            None => hash.chars(id, Self::caseless_bytes),
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

    /// A bijection of the state for each word.
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
            self.word = rest.iter().rev().fold(0, |word, &byte| word << 8 | fold(byte.into()) & 0xff);
            self.length = self.length.wrapping_add(rest.len() as u64);
            return;
        }
        for &byte in rest {
            let [byte, ..] = fold(byte.into()).to_le_bytes();
            self.byte(byte);
        }
    }

    /// Hashes a text as it reads, and an end mark, so that `"a","b"` differs from `"ab",""`.
    pub(crate) fn text(&mut self, text: &Text<'_>) {
        match text.as_str() {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.chars(text, Self::bytes),
        }
        self.byte(0xff);
    }

    // Not through a pointer: what is behind one might unwind, for all that a caller knows, and the C library would carry
    // what it takes to catch that.
    #[cold]
    fn chars(&mut self, text: &Text<'_>, take: impl Fn(&mut Self, &[u8])) {
        let mut utf8 = [0; 4];
        for char in text.chars() {
            take(self, char.encode_utf8(&mut utf8).as_bytes());
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

    /// Snapshots and shortened ids carry hashes, so that they must not change.
    #[test]
    fn stays_what_it_is() {
        for (text, expected) in [
            ("", 0x9718_0a97_bedc_8359),
            ("a", 0x56df_24b2_0f42_6817),
            ("C7061BAC-AFDC-4513-B24B-AA5F13A16123", 0xfd8b_f1da_4018_b2a5),
        ] {
            assert_eq!(Hash::of(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_text_counts_as_it_reads() {
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
        fn only_the_bytes_count(bytes: Vec<u8>, cut in 0_usize..100, other in 0_usize..100) {
            let (first, rest) = bytes.split_at(cut.min(bytes.len()));
            let (second, third) = rest.split_at(other.min(rest.len()));
            prop_assert_eq!(of(&[first, second, third]), Hash::of(&bytes));
        }

        #[test]
        fn a_changed_byte_is_always_seen(mut bytes in prop::collection::vec(any::<u8>(), 1..200), place: prop::sample::Index, change in 1..=u8::MAX) {
            let before = Hash::of(&bytes);
            let place = place.index(bytes.len());
            bytes[place] ^= change;
            prop_assert_ne!(Hash::of(&bytes), before);
            bytes[place] ^= change;
            bytes.push(0);
            prop_assert_ne!(Hash::of(&bytes), before);
        }

        #[test]
        fn case_does_not_count(id in "\\PC{0,40}") {
            let mut hashes = [id.clone(), id.to_ascii_uppercase(), id.to_ascii_lowercase()]
                .map(|id| Hash::of_id(&Text::plain(&id)))
                .to_vec();
            hashes.dedup();
            prop_assert_eq!(hashes.len(), 1);
        }
    }
}
