//! Reports about the running daemon, for systemd.

use std::io;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

/// The longest status line.
const STATUS_MAX: usize = 300;

/// The service manager, if one started the daemon and expects notifications.
#[derive(Debug)]
pub struct Supervisor {
    /// Without a keep-alive for this long, the daemon counts as hung.
    watchdog: Option<Duration>,
    status: String,
}

impl Supervisor {
    /// The service manager of this process.
    #[allow(clippy::new_without_default)] // It reads the environment.
    pub fn new() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled(),
            status: String::new(),
        }
    }

    /// Reports the status, if it has changed. The first report also states that the daemon is
    /// ready.
    pub fn show(&mut self, status: &str) {
        let status: String = status.chars().take(STATUS_MAX).collect();
        if status != self.status {
            let ready = self.status.is_empty().then_some(NotifyState::Ready);
            notify(
                &ready
                    .into_iter()
                    .chain([NotifyState::Status(&status)])
                    .collect::<Vec<_>>(),
            );
            self.status = status;
        }
    }

    /// Sends a keep-alive if the last round of the daemon's work, this long ago, is recent.
    pub fn keep_alive(&self, last_round: Duration) {
        if self.watchdog.is_some_and(|limit| last_round < limit) {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// How long may pass between two keep-alives.
    pub fn interval(&self) -> Duration {
        self.watchdog.map_or(Duration::from_secs(1), |limit| {
            (limit / 4).min(Duration::from_secs(1))
        })
    }
}

/// Reports that the daemon is about to end.
pub fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Waits until SIGTERM or SIGINT asks this process to end. From now on these signals do not end it
/// by themselves.
///
/// # Errors
/// The operating system allows no handler.
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn notify(states: &[NotifyState<'_>]) {
    // Nothing depends on it, and the log has the same information.
    let _ = sd_notify::notify(states);
}
