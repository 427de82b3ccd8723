//! Why an audit file cannot be used.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::files::PathError;
use crate::files::lock::LockError;

/// Why an audit file cannot be used.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::audit::{Audit, AuditError};
///
/// let refused = Audit::open(Path::new("/no/such/folder/audit"), |_| {});
/// assert!(matches!(refused.err(), Some(AuditError::Path { .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditError {
    /// There can be no such file at this path, or at that of an earlier one.
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        error: PathError,
    },
    /// The file, or an earlier one, has other content. It is not changed.
    NotAnAuditFile {
        /// The file.
        path: PathBuf,
    },
    /// Another process uses the file, or its lock cannot be used.
    Lock(LockError),
    /// The system cannot read or write the file.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason): (_, &dyn fmt::Display) = match self {
            Self::Path { path, error } => (path, error),
            Self::NotAnAuditFile { path } => (
                path,
                &"it is not an audit file, and is not changed; choose another path",
            ),
            Self::Lock(error) => return error.fmt(f),
            Self::Io { path, error } => (path, error),
        };
        write!(f, "cannot use the audit file {}: {reason}", path.display())
    }
}

impl Error for AuditError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Path { error, .. } => Some(error),
            Self::NotAnAuditFile { .. } => None,
            Self::Lock(error) => error.source(),
            Self::Io { error, .. } => Some(error),
        }
    }
}

impl From<LockError> for AuditError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}
