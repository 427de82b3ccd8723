//! Two readings of time: a steady one that paces requests, and the time of day that event deadlines refer to.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use scheduled_events_core::{UnixMillis, UnixSeconds};

use crate::limits::{
    CLOCK_AGREEMENT, CLOCK_DEVIATION_MIN, CLOCK_DOUBT, CLOCK_DOUBT_ONCE, CLOCK_SAMPLES,
    CLOCK_STEP_MAX, CLOCK_WITNESSES,
};
use crate::platform::{self, boot_time};

/// A clock that never steps.
///
/// It reads the wall clock once, at the start, and adds what a monotonic clock that also counts suspended time has measured since.
/// Setting the wall clock therefore moves no poll and no retry.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::clock::Clock;
///
/// let clock = Clock::start();
/// let before = clock.now();
/// assert!(clock.now().millis_since(before) < 60_000);
/// assert_eq!(clock.real(Duration::from_secs(5)), Duration::from_secs(5));
/// // Nobody has set the wall clock meanwhile.
/// assert!(!clock.rejects_step());
/// assert!(clock.skew_ms().abs() < 60_000);
/// assert!(clock.time_of_day().0.abs_diff(clock.now().0) < 60_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor_ms: i64,
    since: Duration,
    started: Instant,
    speed: u32,
}

impl Clock {
    /// A clock anchored to the wall clock now.
    pub fn start() -> Self {
        Self::at_speed(1)
    }

    /// A clock anchored to the wall clock now, on which time passes `speed` times faster; 0 counts as 1.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::clock::Clock;
    ///
    /// let clock = Clock::at_speed(60);
    /// let before = clock.now();
    /// std::thread::sleep(clock.real(Duration::from_secs(1)));
    /// assert!(clock.now().millis_since(before) >= 1_000);
    /// ```
    pub fn at_speed(speed: u32) -> Self {
        Self {
            anchor_ms: wall_ms(),
            since: boot_time(),
            started: Instant::now(),
            speed: speed.max(1),
        }
    }

    /// The time now. It never steps.
    pub fn now(&self) -> UnixMillis {
        let elapsed = boot_time()
            .saturating_sub(self.since)
            .saturating_mul(self.speed);
        UnixMillis(self.anchor_ms.saturating_add(millis(elapsed)))
    }

    /// The time of day, which `NotBefore` refers to: [`now`](Self::now), corrected by the steps of the wall clock since the start
    /// unless they exceed [`CLOCK_STEP_MAX`].
    ///
    /// No clock of a virtual machine counts the time for which its host freezes it. Time synchronisation sets the wall clock
    /// afterwards, and only that shows how much less time is left.
    pub fn time_of_day(&self) -> UnixMillis {
        UnixMillis(self.now().0.saturating_add(self.accepted_step_ms()))
    }

    /// How far the time of day is ahead of the clock that times commands, in milliseconds. It changes when the machine is
    /// suspended or frozen, and when its wall clock is set.
    pub fn skew_ms(&self) -> i64 {
        let elapsed = millis(boot_time().saturating_sub(self.since));
        elapsed
            .saturating_add(self.accepted_step_ms())
            .saturating_sub(millis(self.started.elapsed()))
    }

    /// The real duration of `time` on this clock.
    pub fn real(&self, time: Duration) -> Duration {
        time / self.speed
    }

    /// Whether the wall clock has stepped by more than [`CLOCK_STEP_MAX`] since the start, so that the step is ignored.
    pub fn rejects_step(&self) -> bool {
        let step = self.step_ms();
        accepted(step) != step
    }

    fn accepted_step_ms(&self) -> i64 {
        accepted(self.step_ms())
    }

    fn step_ms(&self) -> i64 {
        let elapsed = millis(boot_time().saturating_sub(self.since));
        wall_ms()
            .saturating_sub(self.anchor_ms)
            .saturating_sub(elapsed)
    }
}

/// A text that changes when the machine starts again: from the variable `SCHEDULED_EVENTS_BOOT_ID`, or from the system; empty if
/// neither has it.
///
/// ```
/// use scheduled_events::clock::boot_id;
///
/// assert_eq!(boot_id(), boot_id());
/// ```
pub fn boot_id() -> String {
    platform::boot_id()
}

/// The time of day that an event's `NotBefore` refers to, by the `Date` of one answer: the service's if this machine's differs from it
/// by more than [`CLOCK_DEVIATION_MIN`], unless it is [doubtful](is_doubtful).
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use scheduled_events::clock::time_of_day_by;
///
/// let own = time_of_day_by(None);
/// let hour = Duration::from_secs(3600);
/// assert!(time_of_day_by(Some(SystemTime::now() + hour)).since(own) > 3500);
/// assert!(time_of_day_by(Some(SystemTime::now() + 1_000 * hour)).since(own) < 3500);
/// ```
pub fn time_of_day_by(date: Option<SystemTime>) -> UnixSeconds {
    let mut monitor = ClockMonitor::new(Clock::start());
    if let Some(date) = date.filter(|date| !is_doubtful(*date)) {
        let _ = monitor.on_service_time(date, Duration::ZERO);
    }
    monitor.time_of_day().seconds()
}

/// Whether the `Date` of one answer differs by more than [`CLOCK_DOUBT_ONCE`] from this machine's clock: one of the two is wrong, and
/// a single answer does not say which. It does not count then.
///
/// ```
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
///
/// use scheduled_events::clock::is_doubtful;
///
/// assert!(is_doubtful(UNIX_EPOCH));
/// assert!(!is_doubtful(SystemTime::now() + Duration::from_secs(3 * 3600)));
/// ```
pub fn is_doubtful(date: SystemTime) -> bool {
    unix_ms(date).abs_diff(wall_ms()) > millis(CLOCK_DOUBT_ONCE).unsigned_abs()
}

/// A [`Clock`] that reports when the wall clock was set too far to be believed, and that knows the service's time of day.
#[derive(Debug)]
pub(crate) struct ClockMonitor {
    pub(crate) clock: Clock,
    rejects_step: bool,
    /// How far the service's time of day was ahead of the clock at its last answers, in milliseconds.
    service_ahead_ms: VecDeque<i64>,
    /// The same of answers in a row that are too far from what is believed, and agree with each other.
    doubtful_ms: Vec<i64>,
    deviates: bool,
}

/// How this machine's wall clock differs from the service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deviation {
    Lags(Duration),
    Ahead(Duration),
}

impl ClockMonitor {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self {
            clock,
            rejects_step: false,
            service_ahead_ms: VecDeque::new(),
            doubtful_ms: Vec::new(),
            deviates: false,
        }
    }

    /// Whether the wall clock stepped too far since the last call, so that the step is ignored.
    pub(crate) fn newly_rejects_step(&mut self) -> bool {
        let before = self.rejects_step;
        self.rejects_step = self.clock.rejects_step();
        self.rejects_step && !before
    }

    /// How far the time of day is ahead of the clock, in milliseconds: the service's where this machine's differs from it, since
    /// Azure starts events by its own clock.
    pub(crate) fn ahead_ms(&self) -> i64 {
        let own = self.clock.accepted_step_ms();
        match self.deviation() {
            Some(Deviation::Lags(time)) => own.saturating_add(millis(time)),
            Some(Deviation::Ahead(time)) => own.saturating_sub(millis(time)),
            None => own,
        }
    }

    /// The time of day, which is [ahead](Self::ahead_ms) of the clock.
    pub(crate) fn time_of_day(&self) -> UnixMillis {
        UnixMillis(self.clock.now().0.saturating_add(self.ahead_ms()))
    }

    /// Learns the service's time of day from an answer that took so long. Returns how this machine's differs from it, if it newly
    /// does.
    pub(crate) fn on_service_time(
        &mut self,
        date: SystemTime,
        took: Duration,
    ) -> Option<Deviation> {
        // A faster clock is for demonstrations.
        if self.clock.speed > 1 {
            return None;
        }
        let ahead_ms = unix_ms(date).saturating_sub(self.clock.now().0);
        self.add_sample(ahead_ms, millis(took));
        let deviation = self.deviation();
        let before = std::mem::replace(&mut self.deviates, deviation.is_some());
        deviation.filter(|_| !before)
    }

    /// The first answer is believed, since it is this machine's clock that is wrong more often, unless it differs by more than a day.
    /// Later, one that is far from what is believed may be wrong; several in a row that agree are the service's clock from now on.
    fn add_sample(&mut self, ahead_ms: i64, took_ms: i64) {
        let own = self.clock.accepted_step_ms();
        let best = self.service_ahead_ms.iter().max().copied();
        let believed = best.unwrap_or(own);
        // The service has written the date, in whole seconds, before the answer arrived, and maybe long before.
        let latest_ms = ahead_ms.saturating_add(took_ms).saturating_add(1_000);
        if took_ms >= 1_000 && (ahead_ms..=latest_ms).contains(&believed) {
            self.doubtful_ms.clear();
            return;
        }
        let doubt = best.map_or(CLOCK_DOUBT_ONCE, |_| CLOCK_DOUBT);
        if ahead_ms.abs_diff(believed) <= millis(doubt).unsigned_abs() {
            self.doubtful_ms.clear();
            if self.service_ahead_ms.len() == CLOCK_SAMPLES {
                self.service_ahead_ms.pop_front();
            }
            self.service_ahead_ms.push_back(ahead_ms);
            return;
        }
        let span = millis(CLOCK_AGREEMENT).unsigned_abs();
        let agree = |other: &i64| other.abs_diff(ahead_ms) <= span;
        if !self.doubtful_ms.iter().all(agree) {
            self.doubtful_ms.clear();
        }
        self.doubtful_ms.push(ahead_ms);
        if self.doubtful_ms.len() >= CLOCK_WITNESSES {
            self.service_ahead_ms = std::mem::take(&mut self.doubtful_ms).into();
        }
    }

    /// By how many seconds this machine's time of day is ahead of the service's, less than zero if it lags: zero as long as it differs
    /// by no more than [`CLOCK_DEVIATION_MIN`]. `None` if no answer had a date.
    pub(crate) fn offset_seconds(&self) -> Option<i64> {
        self.service_ahead_ms.front()?;
        let seconds = |time: Duration| millis(time).saturating_add(500) / 1_000;
        Some(match self.deviation() {
            Some(Deviation::Lags(time)) => seconds(time).saturating_neg(),
            Some(Deviation::Ahead(time)) => seconds(time),
            None => 0,
        })
    }

    /// How this machine's time of day differs from the service's, if it does by more than [`CLOCK_DEVIATION_MIN`].
    ///
    /// The service sends whole seconds, and an answer that took long shows an earlier time. So the largest difference of the
    /// last answers is the best one, and may be up to a second too small.
    fn deviation(&self) -> Option<Deviation> {
        let best = *self.service_ahead_ms.iter().max()?;
        let behind = best.saturating_sub(self.clock.accepted_step_ms());
        let ahead = behind.saturating_add(1_000).saturating_neg();
        let span = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let min = millis(CLOCK_DEVIATION_MIN);
        if behind > min {
            Some(Deviation::Lags(span(behind)))
        } else if ahead > min {
            Some(Deviation::Ahead(span(ahead)))
        } else {
            None
        }
    }
}

/// The step of the wall clock that is accepted.
fn accepted(step_ms: i64) -> i64 {
    if step_ms.unsigned_abs() <= millis(CLOCK_STEP_MAX).unsigned_abs() {
        step_ms
    } else {
        0
    }
}

fn wall_ms() -> i64 {
    unix_ms(SystemTime::now())
}

fn unix_ms(time: SystemTime) -> i64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_up_to_an_hour_are_accepted() {
        for seconds in [0, 30, -30, 3_600, -3_600] {
            assert_eq!(accepted(seconds * 1_000), seconds * 1_000);
        }
        for seconds in [3_601, -3_601, 365 * 86_400, -365 * 86_400] {
            assert_eq!(accepted(seconds * 1_000), 0);
        }
    }

    /// Fault 31 of `tests/field-faults.md`.
    #[test]
    fn the_clock_of_the_service_counts_in_both_directions() {
        // What is reported, and how far the time of day is then ahead of the clock.
        let after = |clock: Clock, dates: &[i64]| {
            let mut monitor = ClockMonitor::new(clock);
            let date = |ahead: &i64| {
                UNIX_EPOCH + Duration::from_millis((wall_ms() + ahead * 1_000).unsigned_abs())
            };
            let reported: String = dates
                .iter()
                .map(
                    |ahead| match monitor.on_service_time(date(ahead), Duration::ZERO) {
                        Some(Deviation::Lags(_)) => 'b',
                        Some(Deviation::Ahead(_)) => 'a',
                        None => '-',
                    },
                )
                .collect();
            // The clocks are read one after the other, and a date lacks up to a second.
            (
                reported,
                (monitor.ahead_ms() + 5_000).div_euclid(10_000) * 10,
            )
        };
        assert_eq!(after(Clock::start(), &[]), (String::new(), 0));
        assert_eq!(after(Clock::start(), &[1_200, 1_200]), ("b-".into(), 1_200));
        assert_eq!(after(Clock::start(), &[-600, -600]), ("a-".into(), -600));
        assert_eq!(after(Clock::start(), &[1, 2, -1, -2]), ("----".into(), 0));
        // An answer that took long shows an earlier time, which counts for nothing beside the others.
        assert_eq!(after(Clock::start(), &[0, -30, 0]), ("---".into(), 0));
        assert_eq!(after(Clock::start(), &[30, 0, 30]), ("b--".into(), 30));
        // The last 60 answers count.
        let corrected: Vec<_> = std::iter::once(1_200).chain([0; 60]).collect();
        let (reported, ahead) = after(Clock::start(), &corrected);
        assert_eq!((reported.trim_end_matches('-'), ahead), ("b", 0));
        assert_eq!(after(Clock::at_speed(60), &[1_200]), ("-".into(), 0));
    }

    /// Fault 31 of `tests/field-faults.md`.
    #[test]
    fn fault_31_one_date_that_is_wrong_by_years_counts_for_nothing() {
        const YEARS: i64 = 10 * 365 * 86_400;
        // How many seconds the time of day is ahead of the clock after each of these dates, in tens.
        let after = |dates: &[i64]| -> Vec<i64> {
            let mut monitor = ClockMonitor::new(Clock::start());
            let each = |ahead: &i64| {
                let _ = monitor.on_service_time(
                    UNIX_EPOCH + Duration::from_millis((wall_ms() + ahead * 1_000).unsigned_abs()),
                    Duration::ZERO,
                );
                (monitor.ahead_ms() + 5_000).div_euclid(10_000) * 10
            };
            dates.iter().map(each).collect()
        };
        for lie in [YEARS, -YEARS, 7_200, -7_200, 3_000, -3_000] {
            assert_eq!(after(&[0, lie, 0, lie, 0]), [0; 5]);
            assert_eq!(after(&[0, lie, lie, 0, lie]), [0; 5]);
            assert_eq!(after(&[600, lie, 600]), [600; 3]);
            // Lies that do not agree.
            assert_eq!(after(&[0, lie, -lie, 2 * lie, lie]), [0; 5]);
        }
        for lie in [YEARS, -YEARS] {
            assert_eq!(after(&[lie]), [0]);
            assert_eq!(after(&[lie, -lie, 2 * lie, lie]), [0; 4]);
        }
        // A clock that is steadily wrong is that of the service, and one that is corrected is, too.
        for wrong in [10_800, -10_800, 600, -600, YEARS] {
            let first = if wrong == YEARS { 0 } else { wrong };
            assert_eq!(after(&[wrong; 5]), [first, first, wrong, wrong, wrong]);
            let corrected = [wrong, wrong, wrong, 0, wrong, 0, 0, 0];
            let expected = [first, first, wrong, wrong, wrong, wrong, wrong, 0];
            assert_eq!(after(&corrected), expected);
        }
        // A first answer that is wrong, and by less than a day, counts until three others agree.
        assert_eq!(after(&[7_200, 0, 0, 0]), [7_200, 7_200, 7_200, 0]);
        assert_eq!(after(&[10_800, 10_797, 10_802]), [10_800; 3]);
    }

    #[test]
    fn an_answer_that_took_long_does_not_say_that_this_clock_is_ahead() {
        let late = |took: u64| {
            let mut monitor = ClockMonitor::new(Clock::start());
            let written = UNIX_EPOCH + Duration::from_millis((wall_ms() - 120_000).unsigned_abs());
            monitor.on_service_time(written, Duration::from_secs(took))
        };
        assert!(matches!(late(0), Some(Deviation::Ahead(_))));
        assert!(matches!(late(100), Some(Deviation::Ahead(_))));
        assert!(late(121).is_none());
    }

    #[test]
    fn the_clock_advances_and_its_skew_stays_constant() {
        let clock = Clock::start();
        let (before, skew) = (clock.now(), clock.skew_ms());
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.now().millis_since(before) >= 20);
        // The clocks are read one after the other, so a busy machine moves them apart.
        assert!(clock.time_of_day().0.abs_diff(clock.now().0) < 5_000);
        assert!(clock.skew_ms().abs_diff(skew) < 5_000);
    }
}
