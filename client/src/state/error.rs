//! Why a state file cannot be used.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::content::Damage;
use crate::files::lock::LockError;
use crate::files::{FileError, PathError};

/// Why a state file cannot be used.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::error::PathError;
/// use scheduled_events::state::{StateFile, StateFileError};
///
/// let refused = StateFile::open(Path::new("/no/such/folder/state"));
/// assert!(matches!(refused, Err(StateFileError::Path { error: PathError::FolderMissing { .. }, .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StateFileError {
    /// There can be no such file at this path.
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        error: PathError,
    },
    /// Another process uses the file, or its lock cannot be used.
    Lock(LockError),
    /// The file was replaced by one that is not private.
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: FileError,
    },
    /// The system cannot read the file.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file is damaged, and is only read, so it stays where it is.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Damage,
    },
    /// The file is damaged, and the system cannot move it.
    NotMoved {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Damage,
        /// Where it was to be moved.
        quarantine: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The system cannot write the file.
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The error of the system, or of [`StateFile::check_lock`](super::StateFile::check_lock).
        error: io::Error,
    },
}

impl fmt::Display for StateFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path, error } => {
                write!(f, "cannot use the state file {}: {error}", path.display())
            }
            Self::Lock(error) => error.fmt(f),
            Self::Refused { path, error } => write!(
                f,
                "cannot use the state file {}: it {error}; remove it, or choose another path",
                path.display()
            ),
            Self::Unreadable { path, error } => {
                write!(f, "cannot read the state file {}: {error}", path.display())
            }
            Self::Damaged { path, reason } => write!(
                f,
                "the state file {} is damaged ({reason}), and is only read, not moved; move it, or run without it",
                path.display()
            ),
            Self::NotMoved {
                path,
                reason,
                quarantine,
                error,
            } => write!(
                f,
                "the state file {} is damaged ({reason}) and cannot be moved to {}: {error}",
                path.display(),
                quarantine.display()
            ),
            Self::NotWritten { path, error } => {
                let reason = format!("{}: {error}", path.display());
                write!(f, "cannot write the state file {reason}")
            }
        }
    }
}

impl Error for StateFileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Path { error, .. } => Some(error),
            Self::Lock(error) => error.source(),
            Self::Refused { error, .. } => Some(error),
            Self::Damaged { reason, .. } => Some(reason),
            Self::Unreadable { error, .. }
            | Self::NotMoved { error, .. }
            | Self::NotWritten { error, .. } => Some(error),
        }
    }
}

impl From<LockError> for StateFileError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}
