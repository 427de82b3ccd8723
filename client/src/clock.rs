//! Time: steady for the pace, and the time of day for what is due at a moment of the day.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixMillis;

use crate::platform::boot_time;

/// How far the wall clock may have moved and still be believed. A machine that is frozen, moved to another host or given
/// the right time is off by less; a year is somebody's mistake.
pub const STEP_MAX: Duration = Duration::from_secs(3600);

/// Tells the time without ever stepping: the wall clock is read once, and a monotonic clock that counts sleep too says
/// how much later it is. A wall clock that is set back or forth while the program runs moves no poll and no back-off.
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

    /// A clock anchored to the wall clock now, on which time passes so many times faster; 0 counts as 1.
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
        Self { anchor_ms: wall_ms(), since: boot_time(), started: Instant::now(), speed: speed.max(1) }
    }

    /// The time now, which never steps.
    pub fn now(&self) -> UnixMillis {
        let passed = boot_time().saturating_sub(self.since).saturating_mul(self.speed);
        UnixMillis(self.anchor_ms.saturating_add(millis(passed)))
    }

    /// The time of day, by which a `NotBefore` is meant: moved as the wall clock was since the start, unless that is
    /// more than [`STEP_MAX`].
    ///
    /// No clock of a virtual machine counts the seconds for which its host holds it; the wall clock is set right
    /// afterwards, and then says how much less time is left.
    pub fn time_of_day(&self) -> UnixMillis {
        UnixMillis(self.now().0.saturating_add(self.moved_ms()))
    }

    /// How far the time of day has come apart from what the clock that commands are timed by has counted, in
    /// milliseconds. It changes where the machine slept or stood still, and where its clock was set.
    pub fn skew_ms(&self) -> i64 {
        let passed = millis(boot_time().saturating_sub(self.since));
        passed.saturating_add(self.moved_ms()).saturating_sub(millis(self.started.elapsed()))
    }

    /// How long so much of this clock's time really takes.
    pub fn real(&self, time: Duration) -> Duration {
        time / self.speed
    }

    /// Whether the wall clock was moved by more than [`STEP_MAX`] since the start, so that it is not believed.
    pub fn is_doubtful(&self) -> bool {
        let moved = self.wall_moved_ms();
        believed(moved) != moved
    }

    fn moved_ms(&self) -> i64 {
        believed(self.wall_moved_ms())
    }

    fn wall_moved_ms(&self) -> i64 {
        let passed = millis(boot_time().saturating_sub(self.since));
        wall_ms().saturating_sub(self.anchor_ms).saturating_sub(passed)
    }
}

/// By how much the wall clock was moved, as far as it is believed.
fn believed(moved_ms: i64) -> i64 {
    if moved_ms.unsigned_abs() <= millis(STEP_MAX).unsigned_abs() { moved_ms } else { 0 }
}

fn wall_ms() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_moved_is_believed_up_to_an_hour() {
        for seconds in [0, 30, -30, 3_600, -3_600] {
            assert_eq!(believed(seconds * 1_000), seconds * 1_000);
        }
        for seconds in [3_601, -3_601, 365 * 86_400, -365 * 86_400] {
            assert_eq!(believed(seconds * 1_000), 0);
        }
    }

    #[test]
    fn the_steady_clock_goes_on_and_the_skew_stays() {
        let clock = Clock::start();
        let (before, skew) = (clock.now(), clock.skew_ms());
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.now().millis_since(before) >= 20);
        assert!(clock.time_of_day().0.abs_diff(clock.now().0) < 1_000);
        // Both are read one after the other, so a busy machine moves them apart a little.
        assert!(clock.skew_ms().abs_diff(skew) < 1_000);
    }
}
