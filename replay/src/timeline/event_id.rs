//! `EventId`s: upper-case GUIDs, as the service sends them (`docs/inside/wire.md`, section 2).

/// Generates version 4 GUIDs with `SplitMix64`: the same seed gives the same GUIDs. Not for
/// secrets.
#[derive(Clone, Debug)]
pub(crate) struct EventIds(pub(crate) u64);

impl EventIds {
    pub(crate) fn next(&mut self) -> String {
        let high = self.next_u64() & !0xF000 | 0x4000;
        let low = self.next_u64() & !(0b11 << 62) | (0b10 << 62);
        format!(
            "{:08X}-{:04X}-{:04X}-{:04X}-{:012X}",
            high >> 32,
            (high >> 16) & 0xFFFF,
            high & 0xFFFF,
            low >> 48,
            low & 0xFFFF_FFFF_FFFF
        )
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_are_upper_case_ids_that_depend_on_the_seed() {
        let mut ids = EventIds(42);
        let first = ids.next();
        assert_eq!(first, EventIds(42).next());
        assert_ne!(first, ids.next());
        assert_ne!(first, EventIds(43).next());
        assert_eq!(first.len(), 36);
        let parts: Vec<_> = first.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(
            first
                .bytes()
                .all(|b| b == b'-' || b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
        );
        assert_eq!(first.as_bytes()[14], b'4');
        assert!(b"89AB".contains(&first.as_bytes()[19]));
    }
}
