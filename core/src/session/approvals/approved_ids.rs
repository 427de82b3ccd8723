//! Which events a POST approves, and which were approved before.

use crate::session::limits::BATCH_MAX;

/// The slots of the events that one POST approves.
pub(in crate::session) type ApprovalSlots = heapless::Vec<u16, BATCH_MAX>;

/// Hashes of the ids of approved events that are gone, as many as events are tracked: an event that returns is not approved
/// again. Beyond the capacity the oldest is forgotten.
///
/// `heapless::HistoryBuf` would be shorter, but it has panics that the compiler does not remove.
#[derive(Clone, Debug)]
pub(in crate::session) struct ApprovedIds<const N: usize> {
    hashes: heapless::Vec<u64, N>,
    /// The index of the oldest one, once the list is full; 0 before.
    oldest: usize,
}

impl<const N: usize> ApprovedIds<N> {
    pub(in crate::session) const fn new() -> Self {
        Self {
            hashes: heapless::Vec::new(),
            oldest: 0,
        }
    }

    pub(in crate::session) fn insert(&mut self, hash: u64) {
        if self.contains(hash) || self.hashes.push(hash).is_ok() {
            return;
        }
        if let Some(oldest) = self.hashes.get_mut(self.oldest) {
            *oldest = hash;
        }
        let next = self.oldest.saturating_add(1);
        self.oldest = if next < self.hashes.len() { next } else { 0 };
    }

    pub(in crate::session) fn contains(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }

    /// The hashes, the oldest first.
    pub(in crate::session) fn iter(&self) -> impl Iterator<Item = u64> {
        let (newer, older) = self
            .hashes
            .split_at_checked(self.oldest)
            .unwrap_or_default();
        older.iter().chain(newer).copied()
    }

    pub(in crate::session) fn len(&self) -> usize {
        self.hashes.len()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut ids = ApprovedIds::<3>::new();
        for (hash, expected) in [
            (1, &[1][..]),
            (2, &[1, 2]),
            (1, &[1, 2]),
            (3, &[1, 2, 3]),
            (4, &[2, 3, 4]),
            (3, &[2, 3, 4]),
            (5, &[3, 4, 5]),
        ] {
            ids.insert(hash);
            assert_eq!(ids.iter().collect::<Vec<_>>(), expected);
            assert!(ids.contains(hash) && ids.len() == expected.len());
        }
        for hash in 6..20 {
            ids.insert(hash);
            assert_eq!(ids.iter().collect::<Vec<_>>(), [hash - 2, hash - 1, hash]);
        }
    }
}
