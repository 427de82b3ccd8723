//! Which events a POST approves, and which were approved before.

use super::limits::BATCH_MAX;

/// The slots of the events that one POST approves.
pub(super) type ApprovalSlots = heapless::Vec<u16, BATCH_MAX>;

/// Hashes of the ids of approved events that are gone, as many as events are tracked: an event that returns is not approved
/// again. Beyond the capacity the oldest is forgotten.
#[derive(Clone, Debug)]
pub(super) struct ApprovedIds<const N: usize>(heapless::HistoryBuf<u64, N>);

impl<const N: usize> ApprovedIds<N> {
    pub(super) const fn new() -> Self {
        Self(heapless::HistoryBuf::new())
    }

    pub(super) fn insert(&mut self, hash: u64) {
        if !self.contains(hash) {
            self.0.write(hash);
        }
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.0.contains(&hash)
    }

    /// The hashes, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.oldest_ordered().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
