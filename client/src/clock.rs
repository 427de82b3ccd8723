//! The clock that a session wants: the wall clock, read once, and then steadily on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixMillis;

use crate::platform::boot_time;

/// Tells the time without ever stepping: the wall clock is read once, and a monotonic clock that counts sleep too says
/// how much later it is. A wall clock that is set back or forth while the program runs moves no deadline.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor_ms: i64,
    since: Duration,
}

impl Clock {
    /// A clock anchored to the wall clock now.
    pub fn start() -> Self {
        let since = boot_time();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { anchor_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX), since }
    }

    /// The time now.
    pub fn now(&self) -> UnixMillis {
        let passed = boot_time().saturating_sub(self.since);
        UnixMillis(self.anchor_ms.saturating_add(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX)))
    }
}
