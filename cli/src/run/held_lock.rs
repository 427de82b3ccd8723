//! The lock of `--lock`, which this process may lose.

use std::path::PathBuf;
use std::time::Instant;

use scheduled_events::files::lock::FileLock;
use scheduled_events::limits::{LOCK_CHECK, LOCK_LOST_REPEAT};

/// A lock that is checked repeatedly, since its file can be removed, and another process can then
/// lock a new one.
pub(crate) struct HeldLock {
    lock: FileLock,
    path: PathBuf,
    check_at: Instant,
    is_lost: bool,
}

impl HeldLock {
    pub(crate) fn new(lock: FileLock, path: PathBuf) -> Self {
        Self {
            lock,
            path,
            check_at: Instant::now() + LOCK_CHECK,
            is_lost: false,
        }
    }

    /// When the next check is due.
    pub(crate) fn check_at(&self) -> Instant {
        self.check_at
    }

    /// Whether the last check found that another process has replaced it.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Checks the lock if that is due. Returns the text to report, if any.
    pub(crate) fn check(&mut self) -> Option<String> {
        if Instant::now() < self.check_at {
            return None;
        }
        let error = self.lock.check_at(&self.path).err();
        self.is_lost = error.is_some();
        self.check_at = Instant::now()
            + if self.is_lost {
                LOCK_LOST_REPEAT
            } else {
                LOCK_CHECK
            };
        error.map(|error| format!("another run may have a worker, too: {error}"))
    }
}
