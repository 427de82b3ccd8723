//! Reports the watcher's state to systemd: ready, alive, a status in words, stopping.
//!
//! systemd sets `NOTIFY_SOCKET` for a unit of `Type=notify`, and `WATCHDOG_USEC` for one with `WatchdogSec`. Without them
//! nothing is reported.

use std::time::{Duration, Instant};

use super::format::{count, printable};
use crate::platform;
use crate::watch::Pulse;

/// The connection to systemd, if there is one.
pub(super) struct Supervisor {
    listens: bool,
    /// How often the watcher reports that it is alive.
    every: Option<Duration>,
    alive_at: Option<Instant>,
    ready: bool,
    status: String,
}

impl Supervisor {
    pub(super) fn new() -> Self {
        Self {
            listens: platform::supervisor_listens(),
            // A third of the time after which systemd restarts the process.
            every: platform::supervisor_patience().map(|patience| patience / 3).filter(|every| !every.is_zero()),
            alive_at: None,
            ready: false,
            status: String::new(),
        }
    }

    /// Reports the state if it changed, and that the watcher is alive. Returns how soon to call again.
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

    /// Reports that the process stops.
    pub(super) fn stopping(&self) {
        if self.listens {
            platform::tell_supervisor_of_stop();
        }
    }
}

/// The status that `systemctl status` shows.
fn status(pulse: Pulse<'_>) -> String {
    let about = match pulse.events {
        _ if !pulse.answered => "waiting for the first document".to_owned(),
        0 => "no events".to_owned(),
        events => format!("following {}", count(events, "event")),
    };
    match pulse.trouble {
        // Text from outside must not start a line of its own.
        Some(trouble) => format!("{about}; the last poll failed: {}", printable(trouble)),
        None => about,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_one_line() {
        let pulse = Pulse { answered: false, events: 0, trouble: Some("status 500\nREADY=1") };
        assert_eq!(status(pulse).lines().collect::<Vec<_>>().len(), 1, "{}", status(pulse));
        assert!(status(pulse).starts_with("waiting for the first document; the last poll failed: status 500"));
        assert_eq!(status(Pulse { answered: true, events: 0, trouble: None }), "no events");
        assert_eq!(status(Pulse { answered: true, events: 1, trouble: None }), "following 1 event");
        assert_eq!(status(Pulse { answered: true, events: 2, trouble: None }), "following 2 events");
    }
}
