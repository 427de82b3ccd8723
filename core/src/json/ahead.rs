//! Sixteen bytes at once: whether what is expected stands ahead.

/// Up to sixteen bytes, to be compared all at once, where there are so many in the text.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    bytes: u128,
    mask: u128,
    length: usize,
}

impl Beginning {
    /// Of what nothing begins with: no text has such bytes.
    pub(crate) const NONE: Self = Self { bytes: u128::MAX, mask: u128::MAX, length: 0 };

    /// Of one text and the other behind it.
    pub(crate) const fn of(text: &[u8], behind: &[u8]) -> Self {
        Self { bytes: 0, mask: 0, length: 0 }.after(behind).after(text)
    }

    /// The same behind this text.
    const fn after(mut self, mut text: &[u8]) -> Self {
        while let [before @ .., byte] = text {
            self.bytes = self.bytes << 8 | *byte as u128;
            self.mask = self.mask << 8 | 0xff;
            self.length = self.length.wrapping_add(1);
            text = before;
        }
        self
    }

    pub(super) const fn length(&self) -> usize {
        self.length
    }

    #[inline]
    pub(super) fn stands_at(&self, text: &[u8], at: usize) -> bool {
        sixteen(text, at).is_some_and(|there| (there ^ self.bytes) & self.mask == 0)
    }
}

/// What stood between two strings of an object or array, from the comma to the quote: all of an object's members, and all
/// strings of an array, are mostly separated alike.
#[derive(Clone, Copy)]
pub(crate) struct Separator {
    start: usize,
    length: usize,
}

impl Separator {
    /// What stands from byte `start` to the quote at byte `quote`.
    pub(super) const fn new(start: usize, quote: usize) -> Self {
        Self { start, length: quote.wrapping_sub(start).wrapping_add(1) }
    }

    /// Where its quote is if the same stands at byte `at` again, and is no longer than sixteen bytes.
    #[inline]
    pub(super) fn quote_at(self, text: &[u8], at: usize) -> Option<usize> {
        let (there, here) = sixteen(text, self.start).zip(sixteen(text, at))?;
        let equal = (there ^ here).trailing_zeros() as usize / 8;
        (equal >= self.length).then(|| at.wrapping_add(self.length).wrapping_sub(1))
    }
}

/// Sixteen bytes, the first one lowest.
#[inline]
fn sixteen(text: &[u8], at: usize) -> Option<u128> {
    text.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u128::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_stands_there_whole_or_not() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for length in 0..=16 {
            let (front, back) = text[3..3 + length].split_at(length / 3);
            let beginning = Beginning::of(front, back);
            assert_eq!(beginning.length(), length);
            for at in 0..=10 {
                assert_eq!(beginning.stands_at(text, at), at == 3 || length == 0, "{length} at {at}");
            }
            // There are no sixteen bytes any more.
            assert!(!beginning.stands_at(text, 11));
        }
        assert!(!Beginning::NONE.stands_at(text, 0));
    }

    #[test]
    fn what_separated_is_found_again_whole() {
        let text = b"1,   \"2,   \"3,  \"4,   \"567890123456789";
        let separator = Separator::new(1, 5);
        for (at, quote) in [(1, Some(5)), (7, Some(11)), (13, None), (18, Some(22)), (2, None), (30, None)] {
            assert_eq!(separator.quote_at(text, at), quote, "{at}");
        }
        let long = [b' '; 64];
        assert_eq!(Separator::new(0, 15).quote_at(&long, 20), Some(35));
        assert_eq!(Separator::new(0, 16).quote_at(&long, 20), None);
    }
}
