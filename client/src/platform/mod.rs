//! What differs between operating systems: one module for Unix and one for Windows, with the same functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The variable that identifies the processes of a command.
pub(crate) const COMMAND_ID: &str = "SCHEDULED_EVENTS_COMMAND_ID";

/// The variable by which systemd passes the boot's id to a unit that cannot read it.
#[cfg(unix)]
pub(crate) const BOOT_ID: &str = "SCHEDULED_EVENTS_BOOT_ID";

/// Result of trying to lock a file.
pub(crate) enum LockAttempt {
    /// This process has the lock until the file is closed.
    Acquired(File),
    /// Another process has the lock. The file is open for reading.
    Held(File),
}
