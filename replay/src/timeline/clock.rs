//! The scenario's time: its relation to real time at a speed, and while it is paused.

use std::time::Duration;

/// Maps real times since the first document to times of the scenario, and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScenarioClock {
    /// One moment in both times. The speed holds from there on.
    real: Duration,
    scenario: Duration,
    speed: f64,
    is_paused: bool,
}

/// The longest time, reached at speeds far below or above one: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

impl ScenarioClock {
    /// A clock that runs. A speed that is not a positive finite number counts as 1.
    pub(crate) fn new(speed: f64) -> Self {
        Self {
            real: Duration::ZERO,
            scenario: Duration::ZERO,
            speed: valid(speed),
            is_paused: false,
        }
    }

    pub(crate) fn speed(&self) -> f64 {
        self.speed
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The scenario's time at a real time.
    pub(crate) fn scenario_at(&self, real: Duration) -> Duration {
        if self.is_paused {
            return self.scenario;
        }
        self.scenario
            .saturating_add(multiply(real.saturating_sub(self.real), self.speed))
    }

    /// The real time at which the scenario reaches a time, if the clock continues from its last
    /// change.
    pub(crate) fn real_at(&self, scenario: Duration) -> Duration {
        self.real
            .saturating_add(divide(scenario.saturating_sub(self.scenario), self.speed))
    }

    pub(crate) fn pause(&mut self, real: Duration) {
        self.anchor(real);
        self.is_paused = true;
    }

    pub(crate) fn resume(&mut self, real: Duration) {
        self.anchor(real);
        self.is_paused = false;
    }

    pub(crate) fn set_speed(&mut self, speed: f64, real: Duration) {
        self.anchor(real);
        self.speed = valid(speed);
    }

    /// Makes `scenario` the scenario's time at `real`.
    pub(crate) fn jump(&mut self, scenario: Duration, real: Duration) {
        (self.real, self.scenario) = (real, scenario);
    }

    fn anchor(&mut self, real: Duration) {
        self.jump(self.scenario_at(real), real);
    }
}

fn valid(speed: f64) -> f64 {
    if speed.is_finite() && speed > 0.0 {
        speed
    } else {
        1.0
    }
}

// Speed 1 stays exact to the nanosecond, which a product of floating-point numbers would not be.

#[allow(clippy::float_cmp)]
fn multiply(time: Duration, speed: f64) -> Duration {
    if speed == 1.0 {
        return time.min(LONGEST);
    }
    Duration::try_from_secs_f64(time.as_secs_f64() * speed).map_or(LONGEST, |it| it.min(LONGEST))
}

#[allow(clippy::float_cmp)]
fn divide(time: Duration, speed: f64) -> Duration {
    if speed == 1.0 {
        return time.min(LONGEST);
    }
    Duration::try_from_secs_f64(time.as_secs_f64() / speed).map_or(LONGEST, |it| it.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn both_directions_agree_at_any_speed_and_across_pauses() {
        let mut clock = ScenarioClock::new(1.0);
        clock.set_speed(60.0, secs(10));
        assert_eq!(
            (clock.scenario_at(secs(11)), clock.real_at(secs(70))),
            (secs(70), secs(11))
        );
        clock.pause(secs(11));
        assert_eq!(clock.scenario_at(secs(100)), secs(70));
        clock.resume(secs(100));
        assert_eq!(
            (clock.scenario_at(secs(101)), clock.real_at(secs(130))),
            (secs(130), secs(101))
        );
        clock.jump(secs(1000), secs(101));
        clock.set_speed(0.5, secs(101));
        assert_eq!(
            (clock.scenario_at(secs(103)), clock.real_at(secs(1001))),
            (secs(1001), secs(103))
        );
    }

    #[test]
    fn extreme_speeds_and_times_have_a_limit() {
        for speed in [
            0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
            f64::MAX,
        ] {
            let clock = ScenarioClock::new(speed);
            assert!(clock.speed() > 0.0);
            assert!(
                clock.real_at(Duration::MAX) <= LONGEST
                    && clock.scenario_at(Duration::MAX) <= LONGEST,
                "{speed}"
            );
        }
    }
}
