//! FNV-1a, 64 bits: a short hash for table look-ups and a checksum for snapshots.
//!
//! It guards against accidents, not against somebody who wants collisions; whatever relies on it compares the real
//! bytes too, or bounds its own work.

use crate::json::Text;

#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) const fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(byte);
        }
    }

    /// Hashes a text's decoded bytes.
    pub(crate) fn chars(&mut self, chars: impl Iterator<Item = char>) {
        let mut utf8 = [0; 4];
        for char in chars {
            self.bytes(char.encode_utf8(&mut utf8).as_bytes());
        }
    }

    /// Hashes a text as it reads, and an end mark, so that `"a","b"` differs from `"ab",""`.
    pub(crate) fn text(&mut self, text: &Text<'_>) {
        match text.as_str() {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.chars(text.chars()),
        }
        self.byte(0xff);
    }

    pub(crate) const fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;

    #[test]
    fn agrees_with_the_published_vectors() {
        for (text, expected) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            let mut hash = Hash::new();
            hash.bytes(text.as_bytes());
            assert_eq!(hash.finish(), expected, "{text}");
        }
    }
}
