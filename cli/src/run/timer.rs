//! Times that repeat.

use std::time::{Duration, Instant};

/// How often to search for new processes of a worker that is being killed.
const KILL_INTERVAL: Duration = Duration::from_millis(250);

/// Something that is due repeatedly.
pub(super) struct Timer {
    at: Instant,
    every: Duration,
}

impl Timer {
    pub(super) fn new(first: Duration, every: Duration) -> Self {
        Self {
            at: Instant::now() + first,
            every,
        }
    }

    /// Kills after the grace, then again what was started meanwhile.
    pub(super) fn kill_after(grace: Duration) -> Self {
        Self::new(grace, KILL_INTERVAL)
    }

    /// When it is due next.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Whether it is due. Then it is next due after the interval.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.at <= now;
        if is_due {
            self.at = now + self.every;
        }
        is_due
    }
}
