//! Reports about the running daemon: for systemd, and for the metrics file.

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
    fn a_file_with_metrics_is_replaced_and_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fleet.prom");
        let precious = folder.path().join("precious");
        fs::write(&precious, "kept").expect("written");
        std::os::unix::fs::symlink(&precious, folder.path().join("fleet.prom.tmp"))
            .expect("a link");
        replace(&path, "up 1\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "up 1\n");
        assert_eq!(
            fs::metadata(&path).expect("the file").permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(fs::read_to_string(&precious).expect("the file"), "kept");
        // The temporary file of a killed process is removed, but not that of one that still writes.
        let temporary = folder.path().join("fleet.prom.tmp");
        fs::write(&temporary, "half").expect("written");
        replace(&path, "up 0\n").expect("written");
        assert!(!temporary.exists());
        let writer = temporary::create(&temporary, 0o600).expect("a writer");
        assert_eq!(
            replace(&path, "up 1\n").expect_err("it is refused").kind(),
            io::ErrorKind::WouldBlock
        );
        assert!(temporary.exists());
        drop(writer);
        replace(&path, "up 1\n").expect("written");
        // A failure leaves none either.
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        assert!(replace(&path, "up 1\n").is_err() && !temporary.exists());
    }
}
