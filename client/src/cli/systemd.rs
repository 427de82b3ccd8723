//! Tells systemd how the watch is doing: that it is ready, that it is alive, what it is about, and that it stops.
//!
//! Nothing is told where nobody asks: systemd sets `NOTIFY_SOCKET` for a unit of `Type=notify`, and `WATCHDOG_USEC` where
//! the unit has a `WatchdogSec`.

use std::time::{Duration, Instant};

use super::look::shown;
use crate::platform;
use crate::watch::Pulse;

/// The way to systemd, if it is there.
pub(super) struct Supervisor {
    listens: bool,
    /// How often it wants to hear that the watch is alive, and with room to spare.
    every: Option<Duration>,
    alive_at: Option<Instant>,
    ready: bool,
    status: String,
}

impl Supervisor {
    pub(super) fn new() -> Self {
        Self {
            listens: platform::supervisor_listens(),
            // A third of the time after which it gives the process up.
            every: platform::supervisor_patience().map(|patience| patience / 3).filter(|every| !every.is_zero()),
            alive_at: None,
            ready: false,
            status: String::new(),
        }
    }

    /// The watch went round its loop; how soon it should do so again.
    pub(super) fn pulse(&mut self, pulse: Pulse<'_>) -> Option<Duration> {
        if !self.listens {
            return None;
        }
        let ready = pulse.answered && !self.ready;
        let status = Some(status(pulse)).filter(|status| *status != self.status);
        let late = |every| self.alive_at.is_none_or(|at| at.elapsed() >= every);
        let alive = self.every.is_some_and(late);
        if ready || status.is_some() || alive {
            platform::tell_supervisor(ready, status.as_deref(), alive);
        }
        self.ready |= ready;
        if let Some(status) = status {
            self.status = status;
        }
        if alive {
            self.alive_at = Some(Instant::now());
        }
        self.every
    }

    /// The watch has ended, and what it started is being ended.
    pub(super) fn stopping(&self) {
        if self.listens {
            platform::tell_supervisor_of_stop();
        }
    }
}

/// What `systemctl status` shows.
fn status(pulse: Pulse<'_>) -> String {
    let about = match pulse.events {
        _ if !pulse.answered => "waiting for the first document".to_owned(),
        0 => "nothing is announced".to_owned(),
        1 => "following 1 event".to_owned(),
        events => format!("following {events} events"),
    };
    match pulse.trouble {
        // Nothing from outside may look like a line of its own.
        Some(trouble) => format!("{about}; the last poll failed: {}", shown(trouble)),
        None => about,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_one_line_in_words() {
        let pulse = Pulse { answered: false, events: 0, trouble: Some("status 500\nREADY=1") };
        assert_eq!(
            status(pulse).lines().collect::<Vec<_>>().len(),
            1,
            "text from outside made a line of its own: {}",
            status(pulse)
        );
        assert!(status(pulse).starts_with("waiting for the first document; the last poll failed: status 500"));
        assert_eq!(status(Pulse { answered: true, events: 0, trouble: None }), "nothing is announced");
        assert_eq!(status(Pulse { answered: true, events: 1, trouble: None }), "following 1 event");
        assert_eq!(status(Pulse { answered: true, events: 2, trouble: None }), "following 2 events");
    }
}
