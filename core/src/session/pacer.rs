//! When the next request may be sent.

use super::limits::{
    BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS, FIRST_TIMEOUT_MS, POLL_GAP_MAX_MS, REQUEST_SPACING_MS,
    SILENCE_MS, TIMEOUT_MS,
};
use crate::time::UnixMillis;

/// Schedules requests: one poll per interval, and one when a gate opens for an approval, back-off with jitter after failures,
/// a pause if the server asks for one, at most five requests per second, and never a long time without a poll.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    interval_ms: u32,
    next_poll: UnixMillis,
    last_poll: Option<UnixMillis>,
    last_request: Option<UnixMillis>,
    /// Whether the last request was a POST.
    posted_last: bool,
    /// Whether the last poll was sent although a POST was due, and did not fail.
    post_waits: bool,
    /// The end of the pause that the server requested with `Retry-After`.
    paused_until: UnixMillis,
    /// How many polls failed in a row.
    failures: u32,
    /// When the service last answered, or was last given a long time to answer.
    patient_at: Option<UnixMillis>,
    random: u64,
}

impl Pacer {
    pub(super) fn new(interval_ms: u32, seed: u64) -> Self {
        let start = UnixMillis(i64::MIN);
        Self {
            interval_ms,
            next_poll: start,
            last_poll: None,
            last_request: None,
            posted_last: false,
            post_waits: false,
            paused_until: start,
            failures: 0,
            patient_at: None,
            random: mix(seed),
        }
    }

    /// The earliest time for a request of any kind, as far as the number of requests per second is concerned.
    fn spaced_at(&self) -> UnixMillis {
        self.last_request
            .map_or(UnixMillis(i64::MIN), |last| last.plus(REQUEST_SPACING_MS))
    }

    /// The latest time for a poll.
    fn latest_poll_at(&self) -> UnixMillis {
        self.last_poll.map_or(UnixMillis(i64::MIN), |last| {
            last.plus(self.interval_ms.max(POLL_GAP_MAX_MS))
        })
    }

    /// The earliest time for a poll.
    pub(super) fn poll_at(&self) -> UnixMillis {
        let due = self
            .next_poll
            .max(self.paused_until)
            .min(self.latest_poll_at());
        due.max(self.spaced_at())
    }

    /// The earliest time for a POST.
    pub(super) fn post_at(&self) -> UnixMillis {
        self.paused_until.max(self.spaced_at())
    }

    /// Whether a poll comes before a POST at this time. They alternate, since otherwise approvals that keep failing would
    /// block polling; and a POST is not sent if it could delay the next poll too long, unless it waited for the last poll
    /// already: slow polls would block approvals.
    pub(super) fn poll_has_priority(&self, now: UnixMillis) -> bool {
        if self.posted_last && self.poll_at() <= now {
            return true;
        }
        !self.post_waits && self.latest_poll_at() < now.plus(TIMEOUT_MS)
    }

    /// Milliseconds until the next poll.
    pub(super) fn next_poll_in(&self, now: UnixMillis) -> u32 {
        u32::try_from(self.poll_at().millis_since(now)).unwrap_or(u32::MAX)
    }

    /// Records that a POST is sent.
    pub(super) fn posted(&mut self, now: UnixMillis) {
        self.last_request = Some(now);
        self.posted_last = true;
        self.post_waits = false;
    }

    /// Records that a poll is sent, while a POST is due or not, and returns its timeout in milliseconds. The next poll is due
    /// an interval later, however long this one takes.
    pub(super) fn polled(&mut self, now: UnixMillis, post_is_due: bool) -> u32 {
        self.last_request = Some(now);
        self.last_poll = Some(now);
        self.posted_last = false;
        self.post_waits = post_is_due;
        self.next_poll = now.plus(self.interval_ms);
        if self
            .patient_at
            .is_some_and(|at| now.millis_since(at) < u64::from(SILENCE_MS))
        {
            return TIMEOUT_MS;
        }
        self.patient_at = Some(now);
        FIRST_TIMEOUT_MS
    }

    /// Does not wait for the interval to end, unless polls fail.
    pub(super) fn poll_soon(&mut self, now: UnixMillis) {
        if self.failures == 0 {
            self.next_poll = self.next_poll.min(now);
        }
    }

    /// Does not wait for the interval or for a back-off to end: the next poll asks for something else than the one that failed.
    pub(super) fn poll_at_once(&mut self, now: UnixMillis) {
        self.failures = 0;
        self.poll_soon(now);
    }

    /// Limits all delays counted from `now`, so that a clock that was set back does not stop polling.
    pub(super) fn set_clock(&mut self, now: UnixMillis) {
        let latest = now.plus(self.interval_ms.max(POLL_GAP_MAX_MS));
        self.next_poll = self.next_poll.min(latest);
        self.paused_until = self.paused_until.min(latest);
        for last in [
            &mut self.last_poll,
            &mut self.last_request,
            &mut self.patient_at,
        ] {
            *last = last.map(|last| last.min(now));
        }
    }

    /// Records that the service responded as expected.
    pub(super) fn answered(&mut self, now: UnixMillis) {
        self.failures = 0;
        self.patient_at = Some(now);
    }

    /// Records a failed poll and returns the milliseconds until the next one. A `permanent` failure is retried at the
    /// longest interval.
    pub(super) fn failed(&mut self, now: UnixMillis, permanent: bool) -> u32 {
        self.failures = self.failures.saturating_add(1);
        self.post_waits = false;
        let delay = if permanent {
            BACK_OFF_MAX_MS
        } else {
            self.back_off(self.failures)
        };
        self.next_poll = now.plus(delay);
        self.next_poll_in(now)
    }

    /// Sends no request for this many seconds, but for no longer than polls may be apart.
    pub(super) fn pause(&mut self, now: UnixMillis, seconds: u32) {
        let pause = seconds.saturating_mul(1000).min(POLL_GAP_MAX_MS);
        self.paused_until = self.paused_until.max(now.plus(pause));
    }

    /// The delay after so many failures in a row: 1, 2, 4, 8, 10 seconds, minus a random part of up to one half, so that
    /// a thousand machines that failed together do not retry together.
    pub(super) fn back_off(&mut self, failures: u32) -> u32 {
        let doublings = failures.saturating_sub(1).min(16);
        let full = (BACK_OFF_FIRST_MS << doublings.min(8)).min(BACK_OFF_MAX_MS);
        let spread = self.random().checked_rem(full >> 1).unwrap_or(0);
        full.saturating_sub(spread)
    }

    /// The next number of xorshift64, which is good enough to spread retries.
    fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        u32::try_from(self.random >> 32).unwrap_or(0)
    }
}

/// The finalizer of splitmix64: turns similar seeds into dissimilar generator states. The state must not be zero.
fn mix(seed: u64) -> u64 {
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
        fn back_off_doubles_up_to_its_limit_with_at_most_half_of_it_random(failures in 1_u32.., seed: u64) {
            let full = (1000_u64 << (failures - 1).min(10)).min(10_000) as u32;
            let delay = Pacer::new(1000, seed).back_off(failures);
            prop_assert!(delay <= full && delay >= full / 2, "{delay} of {full}");
        }
    }

    #[test]
    fn a_clock_set_back_by_a_year_does_not_stop_polling() {
        let mut pacer = Pacer::new(1000, 1);
        let now = UnixMillis(1_700_000_000_000);
        pacer.polled(now, false);
        let earlier = UnixMillis(now.0 - 365 * 86_400_000);
        pacer.set_clock(earlier);
        assert!(pacer.poll_at() <= earlier.plus(60_000));
    }

    #[test]
    fn a_poll_that_does_not_wait_for_its_interval_waits_for_all_else() {
        let now = UnixMillis(1_700_000_000_000);
        let mut pacer = Pacer::new(60_000, 1);
        pacer.polled(now, false);
        pacer.poll_soon(now);
        assert_eq!(pacer.poll_at(), now.plus(REQUEST_SPACING_MS));
        pacer.pause(now, 5);
        assert_eq!(pacer.poll_at(), now.plus(5_000));
        let delay = pacer.failed(now.plus(5_000), true);
        pacer.poll_soon(now.plus(5_001));
        assert_eq!(pacer.poll_at(), now.plus(5_000).plus(delay));
    }

    #[test]
    fn seeds_are_mixed_like_splitmix64() {
        // The first outputs of the reference implementation for these seeds.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(
            mix(0_u64.wrapping_sub(0x9e37_79b9_7f4a_7c15)),
            1,
            "a zero state would stay zero"
        );
    }

    #[test]
    fn delays_differ_between_failures_and_between_machines() {
        // The first numbers of xorshift64 with the shifts 13, 7 and 17, computed independently of this code.
        let mut pacer = Pacer {
            random: 88_172_645_463_325_252,
            ..Pacer::new(1000, 0)
        };
        for expected in [
            8_748_534_153_485_358_512_u64,
            3_040_900_993_826_735_515,
            3_453_997_556_048_239_312,
        ] {
            assert_eq!(u64::from(pacer.random()), expected >> 32);
            assert_eq!(pacer.random, expected);
        }
        let machines: std::collections::BTreeSet<_> = (0..100)
            .map(|seed| Pacer::new(1000, seed).back_off(4))
            .collect();
        let failures: std::collections::BTreeSet<_> = (0..100).map(|_| pacer.back_off(4)).collect();
        for delays in [machines, failures] {
            assert!(
                delays.len() > 30 && delays.first() < Some(&5000) && delays.last() > Some(&7000),
                "{delays:?}"
            );
        }
    }
}
