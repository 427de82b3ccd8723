//! The clock of a store, as its answers show it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap};
use tokio::time::Instant;

/// A time by the store's own clock, in milliseconds since 1970 on that clock. It is only compared
/// with other times of the same store, so the clock need not be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreTime(pub u64);

impl StoreTime {
    /// The time since an earlier one. One that is later by no more than `JUMP_MIN` counts as now;
    /// `None` if it is later by more.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        let is_ahead = Duration::from_millis(earlier.0.saturating_sub(self.0)) > JUMP_MIN;
        (!is_ahead).then(|| Duration::from_millis(self.0.saturating_sub(earlier.0)))
    }
}

impl From<SystemTime> for StoreTime {
    fn from(time: SystemTime) -> Self {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The store's time, and how stable its clock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The time.
    pub now: StoreTime,
    /// How long this process has seen no jump of the clock.
    pub steady_for: Duration,
}

/// The clock's greatest deviation without a jump: a `Date` has whole seconds, and the servers of
/// one store have clocks of their own.
const JUMP_MIN: Duration = Duration::from_secs(30);

/// The store's clock as its last answer showed it. Between two answers this process's own clock,
/// which never jumps, measures the time.
#[derive(Debug, Default)]
pub(super) struct StoreClock(Mutex<Option<Shown>>);

#[derive(Clone, Copy, Debug)]
struct Shown {
    time: StoreTime,
    at: Instant,
    steady_since: Instant,
}

impl Shown {
    fn now(self) -> StoreTime {
        let passed = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        StoreTime(self.time.0.saturating_add(passed))
    }
}

impl StoreClock {
    /// Sets the clock to the time that an answer showed.
    pub(super) fn saw(&self, time: StoreTime) {
        let (mut shown, at) = (
            self.0.lock().unwrap_or_else(PoisonError::into_inner),
            Instant::now(),
        );
        let has_jumped =
            |before: Shown| Duration::from_millis(before.now().0.abs_diff(time.0)) > JUMP_MIN;
        let steady_since = shown
            .filter(|before| !has_jumped(*before))
            .map_or(at, |before| before.steady_since);
        *shown = Some(Shown {
            time,
            at,
            steady_since,
        });
    }

    /// Sets the clock to the `Date` in an answer's headers.
    pub(super) fn saw_headers(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| httpdate::parse_http_date(date).ok()) {
            self.saw(date.into());
        }
    }

    /// The time now; `None` before the first answer.
    pub(super) fn now(&self) -> Option<Clock> {
        let shown = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(Clock {
            now: shown.now(),
            steady_for: shown.steady_since.elapsed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_on_between_two_answers_and_follows_the_last_one() {
        let clock = StoreClock::default();
        let answer = |date: &'static str| {
            clock.saw_headers(&HeaderMap::from_iter([(
                DATE,
                reqwest::header::HeaderValue::from_static(date),
            )]));
        };
        assert_eq!(clock.now(), None);
        answer("Sun, 06 Nov 1994 08:49:37 GMT");
        let first = StoreTime(784_111_777_000);
        let shows = |after: i64, steady_for: u64| {
            let now = StoreTime(first.0.saturating_add_signed(after));
            let steady_for = Duration::from_millis(steady_for);
            assert_eq!(clock.now(), Some(Clock { now, steady_for }));
        };
        let passes = async |millis| tokio::time::advance(Duration::from_millis(millis)).await;
        passes(1500).await;
        shows(1500, 1500);
        answer("yesterday");
        clock.saw_headers(&HeaderMap::new());
        shows(1500, 1500);
        answer("Sun, 06 Nov 1994 08:49:36 GMT");
        shows(-1000, 1500);
        passes(500).await;
        answer("Mon, 07 Nov 1994 08:49:36 GMT");
        shows(86_399_000, 0);
        assert_eq!(
            first.since(clock.now().expect("a time").now),
            None,
            "a later time"
        );
    }

    /// A store's `Date` can be one second before that of its own write.
    #[test]
    fn what_was_written_just_now_is_not_of_a_later_time() {
        let now = StoreTime(784_111_777_000);
        for (written, age) in [
            (-2000, Some(2000)),
            (0, Some(0)),
            (1000, Some(0)),
            (30_000, Some(0)),
            (30_001, None),
        ] {
            assert_eq!(
                now.since(StoreTime(now.0.saturating_add_signed(written))),
                age.map(Duration::from_millis)
            );
        }
    }
}
