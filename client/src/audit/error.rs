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
        /// What the file is, for messages: `audit file`.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        error: PathError,
    },
    /// The file, or an earlier one, has other content. It is not changed.
    NotAnAuditFile {
        /// What the file is, for messages: `audit file`.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Another process uses the file, or its lock cannot be used.
    Lock(LockError),
    /// The system cannot read or write the file.
    Io {
        /// What the file is, for messages: `audit file`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_audit_file;
        let (what, path, reason): (_, _, &dyn fmt::Display) = match self {
            Self::Path { what, path, error } => (what, path, error),
            Self::NotAnAuditFile { what, path } => {
                no_audit_file = format!("it is no {what}, and is not changed; choose another path");
                (what, path, &no_audit_file)
            }
            Self::Lock(error) => return error.fmt(f),
            Self::Io { what, path, error } => (what, path, error),
        };
        write!(f, "cannot use the {what} {}: {reason}", path.display())
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
