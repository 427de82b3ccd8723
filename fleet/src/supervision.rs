//! Reports about the running daemon: for systemd, and for the metrics file.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use crate::temporary;

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

/// The values in the metrics file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// How many events of this machine started without a decision of the gate.
    pub(crate) forced: u64,
    /// How many open events the watcher asked about.
    pub(crate) events: usize,
    /// Whether the engine answers, and its registers are valid.
    pub(crate) engine_up: bool,
    /// How many machines had other limits for a group than this one at the last read.
    pub(crate) limits_differ: usize,
    /// How many machines this process has forgotten.
    pub(crate) forgotten: u64,
    /// How many slots of other machines this process has freed.
    pub(crate) freed: u64,
}

impl Metrics {
    /// The text in Prometheus' format.
    fn text(self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in [
            (
                "forced_total",
                "counter",
                "Events of this machine that started without a decision of the gate.",
                self.forced,
            ),
            (
                "events",
                "gauge",
                "Events that the gate was asked about and that are not over.",
                self.events as u64,
            ),
            (
                "forgotten_total",
                "counter",
                "Machines that were silent for so long that this daemon deleted their registers.",
                self.forgotten,
            ),
            (
                "freed_total",
                "counter",
                "Places of silent machines that this daemon has freed after an event.",
                self.freed,
            ),
            (
                "limits_differ",
                "gauge",
                "Machines that had other limits of a group than this one at the last look.",
                self.limits_differ as u64,
            ),
            (
                "engine_up",
                "gauge",
                "Whether the store of the registers answers, and what was read of it is valid.",
                u64::from(self.engine_up),
            ),
        ] {
            let name = format!("scheduled_events_fleet_{name}");
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
            );
        }
        text
    }

    /// Replaces the file, which other users may read: the metrics collector is one.
    pub(crate) fn write(self, path: &Path) -> io::Result<()> {
        replace(path, &self.text())
    }
}

/// Replaces a metrics file by this text. Other users may read it: the metrics collector is one.
///
/// # Errors
/// Those of the file system, and [`io::ErrorKind::WouldBlock`] if another process writes the file.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    // An earlier process left it, or somebody else created a link.
    let temporary = Path::new(&temporary);
    temporary::remove_left(temporary)?;
    let mut file = temporary::create(temporary, 0o644)?;
    let result = (|| {
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        fs::rename(temporary, path)
    })();
    if result.is_err() {
        let _ = fs::remove_file(temporary);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_file_is_replaced_and_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fleet.prom");
        let precious = folder.path().join("precious");
        fs::write(&precious, "kept").expect("written");
        std::os::unix::fs::symlink(&precious, folder.path().join("fleet.prom.tmp"))
            .expect("a link");
        let metrics = Metrics {
            forced: 2,
            events: 1,
            engine_up: true,
            limits_differ: 0,
            forgotten: 3,
            freed: 4,
        };
        metrics.write(&path).expect("written");
        let text = fs::read_to_string(&path).expect("the file");
        assert!(
            text.contains(
                "# TYPE scheduled_events_fleet_forced_total counter\nscheduled_events_fleet_forced_total 2\n"
            )
        );
        assert!(
            text.ends_with("scheduled_events_fleet_engine_up 1\n"),
            "{text}"
        );
        assert_eq!(
            fs::metadata(&path).expect("the file").permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(fs::read_to_string(&precious).expect("the file"), "kept");
        // The temporary file of a killed process is removed, but not that of one that still writes.
        let temporary = folder.path().join("fleet.prom.tmp");
        fs::write(&temporary, "half").expect("written");
        metrics.write(&path).expect("written");
        assert!(!temporary.exists());
        let writer = temporary::create(&temporary, 0o600).expect("a writer");
        assert_eq!(
            metrics.write(&path).expect_err("it is refused").kind(),
            io::ErrorKind::WouldBlock
        );
        assert!(temporary.exists());
        drop(writer);
        metrics.write(&path).expect("written");
        // A failure leaves none either.
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        assert!(metrics.write(&path).is_err() && !temporary.exists());
    }
}
