//! Random pauses, since machines that begin together must not come back together, and random numbers.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// A random part of this duration: 0 to 999 thousandths.
pub fn part_of(longest: Duration) -> Duration {
    let thousandths = u32::try_from(RandomState::new().hash_one(0) % 1000).unwrap_or(0);
    longest * thousandths / 1000
}

/// A random number that other programs read exactly, too: one below 2^53, and not 0.
pub fn number() -> u64 {
    (RandomState::new().hash_one(0) >> 11).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_differ_and_are_no_longer() {
        let longest = Duration::from_secs(10);
        let parts: std::collections::BTreeSet<_> = (0..100).map(|_| part_of(longest)).collect();
        assert!(
            parts.len() > 30 && parts.iter().all(|part| *part < longest),
            "{parts:?}"
        );
    }
}
