//! What differs between operating systems: one module for Unix and one for Windows, with the same functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;

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

/// Why an open file is not private. `Display` follows the name of the file.
///
/// ```
/// use scheduled_events::files::FileError;
///
/// let error = FileError::WritableByOthers { mode: 0o666 };
/// assert_eq!(format!("the state file {error}"), "the state file can be written by others (mode 0666)");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// It is a folder, a device or a pipe.
    NotAFile,
    /// It belongs to a user other than this one and root.
    OwnedBy {
        /// The user's id.
        user: u32,
    },
    /// Users other than its owner can write it.
    WritableByOthers {
        /// The bits of its mode.
        mode: u32,
    },
    /// It cannot be looked at.
    Unreadable(io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFile => write!(f, "is not a regular file"),
            Self::OwnedBy { user } => write!(f, "belongs to the user {user}"),
            Self::WritableByOthers { mode } => {
                write!(f, "can be written by others (mode {mode:04o})")
            }
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            Self::NotAFile | Self::OwnedBy { .. } | Self::WritableByOthers { .. } => None,
        }
    }
}
