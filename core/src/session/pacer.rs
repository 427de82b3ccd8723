//! When the next request may go out.

use super::limits::{
    BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS, FIRST_TIMEOUT_MS, REQUEST_SPACING_MS, RETRY_AFTER_MAX_S, TIMEOUT_MS,
};
use crate::time::UnixMillis;

/// The pace of polling: one poll an interval, back-off with jitter after failures, a pause where the server asks for
/// one, and never more than five requests a second.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    interval_ms: u32,
    next_poll: UnixMillis,
    last_request: Option<UnixMillis>,
    /// Whether that was no poll.
    posted_last: bool,
    /// What the server asked for with `Retry-After`.
    paused_until: UnixMillis,
    failures: u32,
    answered: bool,
    random: u64,
}

impl Pace {
    pub(super) fn new(interval_ms: u32, seed: u64) -> Self {
        let start = UnixMillis(i64::MIN);
        Self {
            interval_ms,
            next_poll: start,
            last_request: None,
            posted_last: false,
            paused_until: start,
            failures: 0,
            answered: false,
            random: mixed(seed),
        }
    }

    /// The earliest moment for a request of any kind.
    pub(super) fn request_at(&self) -> UnixMillis {
        let spaced = self.last_request.map_or(UnixMillis(i64::MIN), |last| last.plus(REQUEST_SPACING_MS));
        spaced.max(self.paused_until)
    }

    /// The earliest moment for a poll.
    pub(super) fn poll_at(&self) -> UnixMillis {
        self.next_poll.max(self.request_at())
    }

    /// How long a request may take: the first one wakes the service up, which takes up to two minutes.
    pub(super) const fn timeout_ms(&self) -> u32 {
        if self.answered { TIMEOUT_MS } else { FIRST_TIMEOUT_MS }
    }

    /// Whether the last request was none to poll.
    pub(super) const fn posted_last(&self) -> bool {
        self.posted_last
    }

    /// A request that is no poll goes out.
    pub(super) fn posted(&mut self, now: UnixMillis) {
        self.last_request = Some(now);
        self.posted_last = true;
    }

    /// A poll goes out: the next is due an interval after this one, however long this one takes.
    pub(super) fn polled(&mut self, now: UnixMillis) {
        self.last_request = Some(now);
        self.posted_last = false;
        self.next_poll = now.plus(self.interval_ms);
    }

    /// A clock that went back must not stop the polling until it has caught up.
    pub(super) fn clock_is(&mut self, now: UnixMillis) {
        let furthest = now.plus(self.interval_ms.max(RETRY_AFTER_MAX_S.saturating_mul(1000)));
        self.next_poll = self.next_poll.min(furthest);
        self.paused_until = self.paused_until.min(furthest);
        self.last_request = self.last_request.map(|last| last.min(now));
    }

    pub(super) fn answered(&mut self) {
        self.failures = 0;
        self.answered = true;
    }

    /// The poll failed; how long until the next, in milliseconds. `hopeless` for answers that will not get better soon.
    pub(super) fn failed(&mut self, now: UnixMillis, hopeless: bool) -> u32 {
        self.failures = self.failures.saturating_add(1);
        let delay = if hopeless { BACK_OFF_MAX_MS } else { self.back_off(self.failures) };
        self.next_poll = now.plus(delay).max(self.paused_until);
        u32::try_from(self.poll_at().millis_since(now)).unwrap_or(u32::MAX)
    }

    /// The server asked for silence.
    pub(super) fn pause(&mut self, now: UnixMillis, seconds: u32) {
        let pause = seconds.min(RETRY_AFTER_MAX_S).saturating_mul(1000);
        self.paused_until = self.paused_until.max(now.plus(pause));
    }

    /// The delay after so many failures in a row: 1, 2, 4, 8, 10 seconds, less up to half of it by chance, so that a
    /// thousand machines that failed together do not come back together.
    pub(super) fn back_off(&mut self, failures: u32) -> u32 {
        let doublings = failures.saturating_sub(1).min(16);
        let full = (BACK_OFF_FIRST_MS << doublings.min(8)).min(BACK_OFF_MAX_MS);
        let spread = self.random().checked_rem(full >> 1).unwrap_or(0);
        full.saturating_sub(spread)
    }

    /// xorshift: good enough to spread retries.
    fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        u32::try_from(self.random >> 32).unwrap_or(0)
    }
}

/// The generator's first state, such that seeds which differ little lead to numbers that differ much: the last steps of
/// splitmix64. The one bad state is zero.
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn back_off_grows_to_its_limit_and_keeps_half(failures in 1_u32.., seed: u64) {
            let full = (1000_u64 << (failures - 1).min(10)).min(10_000) as u32;
            let delay = Pace::new(1000, seed).back_off(failures);
            prop_assert!(delay <= full && delay >= full / 2, "{delay} of {full}");
        }
    }

    #[test]
    fn a_clock_set_back_by_a_year_does_not_stop_the_polling() {
        let mut pace = Pace::new(1000, 1);
        let now = UnixMillis(1_700_000_000_000);
        pace.polled(now);
        let earlier = UnixMillis(now.0 - 365 * 86_400_000);
        pace.clock_is(earlier);
        assert!(pace.poll_at() <= earlier.plus(60_000));
    }

    #[test]
    fn seeds_are_mixed_as_splitmix64_does() {
        // What its reference implementation gives first, for these seeds.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(mixed(0_u64.wrapping_sub(0x9e37_79b9_7f4a_7c15)), 1, "zero would stay zero");
    }

    #[test]
    fn delays_differ_from_failure_to_failure_and_from_machine_to_machine() {
        // The first numbers of xorshift64 with the shifts 13, 7 and 17, computed apart from this code.
        let mut pace = Pace { random: 88_172_645_463_325_252, ..Pace::new(1000, 0) };
        for expected in [8_748_534_153_485_358_512_u64, 3_040_900_993_826_735_515, 3_453_997_556_048_239_312] {
            assert_eq!(u64::from(pace.random()), expected >> 32);
            assert_eq!(pace.random, expected);
        }
        let machines: std::collections::BTreeSet<_> = (0..100).map(|seed| Pace::new(1000, seed).back_off(4)).collect();
        let failures: std::collections::BTreeSet<_> = (0..100).map(|_| pace.back_off(4)).collect();
        for delays in [machines, failures] {
            assert!(delays.len() > 30 && delays.first() < Some(&5000) && delays.last() > Some(&7000), "{delays:?}");
        }
    }
}
