//! Reports the watcher's state to systemd: ready, alive, a status in words, stopping.
//!
//! systemd sets `NOTIFY_SOCKET` for a unit of `Type=notify`, and `WATCHDOG_USEC` for one with
//! `WatchdogSec`. Without them, this reports nothing.

use std::time::{Duration, Instant};

use crate::output::format::{count, date_and_time, printable};
use crate::platform;
use scheduled_events::watch::WatchStatus;

/// The connection to systemd, if there is one.
pub(crate) struct Supervisor {
    listens: bool,
    /// How often the watcher reports that it is alive.
    every: Option<Duration>,
    alive_at: Option<Instant>,
    ready: bool,
    status: String,
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        Self {
            listens: platform::has_supervisor(),
            // A third of the time after which systemd restarts the process.
            every: platform::watchdog_timeout()
                .map(|patience| patience / 3)
                .filter(|every| !every.is_zero()),
            alive_at: None,
            ready: false,
            status: String::new(),
        }
    }

    /// Reports the state if it changed, and that the watcher is alive, which holds only while it
    /// polls. Returns how soon to call again.
    pub(crate) fn heartbeat(&mut self, watch: WatchStatus<'_>) -> Option<Duration> {
        self.heartbeat_of(watch, watch.answered, status(watch))
    }

    /// The same, for a command that has another status, or is ready at another time.
    pub(crate) fn heartbeat_of(
        &mut self,
        watch: WatchStatus<'_>,
        ready: bool,
        status: String,
    ) -> Option<Duration> {
        if !self.listens {
            return None;
        }
        let ready = ready && !self.ready;
        let status = Some(status).filter(|status| *status != self.status);
        let alive = self.reports_alive(watch);
        if ready || status.is_some() || alive {
            platform::notify_supervisor(ready, status.as_deref(), alive);
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

    /// Whether it is time for a keep-alive.
    fn reports_alive(&self, watch: WatchStatus<'_>) -> bool {
        let late = |every| self.alive_at.is_none_or(|at| at.elapsed() >= every);
        watch.is_polling && self.every.is_some_and(late)
    }

    /// Reports that the process stops.
    pub(crate) fn stopping(&self) {
        if self.listens {
            platform::notify_stopping();
        }
    }
}

/// The status that `systemctl status` and the status line show.
pub(crate) fn status(watch: WatchStatus<'_>) -> String {
    let about = match watch.events {
        _ if !watch.answered => "waiting for the first document".to_owned(),
        0 => "no events".to_owned(),
        events => format!("following {}", count(events, "event")),
    };
    let about = match watch.blind_since {
        Some(since) => format!("blind since {} UTC; {about}", date_and_time(since).1),
        None => about,
    };
    let about = if watch.out_of_service {
        format!("out of service; {about}")
    } else {
        about
    };
    match watch.failure {
        // Text from outside must not start a line of its own.
        Some(trouble) => format!("{about}; the last poll failed: {}", printable(trouble)),
        None => about,
    }
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::UnixSeconds;

    use super::*;

    #[test]
    fn a_watcher_that_does_not_poll_is_not_alive() {
        let every = Some(Duration::from_secs(1));
        let supervisor = Supervisor {
            listens: true,
            every,
            alive_at: None,
            ready: true,
            status: String::new(),
        };
        for is_polling in [true, false] {
            let watch = WatchStatus {
                answered: true,
                events: 0,
                failure: None,
                is_polling,
                ..WatchStatus::default()
            };
            assert_eq!(supervisor.reports_alive(watch), is_polling);
        }
    }

    #[test]
    fn the_status_is_one_line() {
        let watch = WatchStatus {
            answered: false,
            events: 0,
            failure: Some("status 500\nREADY=1"),
            is_polling: true,
            ..WatchStatus::default()
        };
        assert_eq!(
            status(watch).lines().collect::<Vec<_>>().len(),
            1,
            "{}",
            status(watch)
        );
        assert!(
            status(watch)
                .starts_with("waiting for the first document; the last poll failed: status 500")
        );
        for (events, expected) in [
            (0, "no events"),
            (1, "following 1 event"),
            (2, "following 2 events"),
        ] {
            let watch = WatchStatus {
                answered: true,
                events,
                failure: None,
                is_polling: true,
                ..WatchStatus::default()
            };
            assert_eq!(status(watch), expected);
            let out = WatchStatus {
                out_of_service: true,
                ..watch
            };
            assert_eq!(status(out), format!("out of service; {expected}"));
            let blind = WatchStatus {
                blind_since: Some(UnixSeconds(1_649_715_658)),
                ..watch
            };
            assert_eq!(
                status(blind),
                format!("blind since 22:20:58 UTC; {expected}")
            );
        }
    }
}
