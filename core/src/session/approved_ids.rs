//! Which events a POST approves, and which were approved before.

use super::limits::BATCH_MAX;

/// The slots of the events that one POST approves.
pub(super) type ApprovalSlots = heapless::Vec<u16, BATCH_MAX>;

/// How many approved events are remembered after they are gone.
pub(super) const APPROVED_IDS: usize = 16;

/// Hashes of the ids of approved events that are gone, a ring: an event that returns is not approved again.
#[derive(Clone, Debug, Default)]
pub(super) struct ApprovedIds {
    pub(super) hashes: [u64; APPROVED_IDS],
    pub(super) next: u8,
}

impl ApprovedIds {
    pub(super) fn insert(&mut self, hash: u64) {
        if self.contains(hash) {
            return;
        }
        if let Some(oldest) = self.hashes.get_mut(usize::from(self.next)) {
            *oldest = hash;
        }
        let next = self.next.saturating_add(1);
        self.next = if usize::from(next) < APPROVED_IDS { next } else { 0 };
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }
}
