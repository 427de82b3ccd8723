//! Why a file cannot be one that a program keeps for itself.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::platform::FileError;

/// Why there can be no private file at a path. `Display` says what to do, too.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::{PathError, check_path};
///
/// let error = check_path(Path::new("/no/such/folder/state")).unwrap_err();
/// assert!(matches!(error, PathError::FolderMissing { folder } if folder == Path::new("/no/such/folder")));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PathError {
    /// There is no such folder.
    FolderMissing {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder cannot be looked at.
    FolderUnreadable {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// What should be the folder is something else.
    NotAFolder {
        /// Its path.
        folder: PathBuf,
    },
    /// The folder belongs to another user.
    FolderRefused {
        /// The folder.
        folder: PathBuf,
        /// Whose it is.
        error: FileError,
    },
    /// The path is a link.
    Link,
    /// The path is a folder, a device or a pipe.
    NotAFile,
    /// Another user owns the file, or can write it.
    Refused(FileError),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FolderMissing { folder } => write!(
                f,
                "the folder {} does not exist; create it, or choose another path",
                folder.display()
            ),
            Self::FolderUnreadable { folder, error } => {
                write!(f, "the folder {}: {error}", folder.display())
            }
            Self::NotAFolder { folder } => write!(
                f,
                "{} is not a folder; choose another path",
                folder.display()
            ),
            Self::FolderRefused { folder, error } => write!(
                f,
                "the folder {} {error}; choose a folder of your own",
                folder.display()
            ),
            Self::Link => write!(f, "it is a link; give the path that it leads to"),
            Self::NotAFile => write!(f, "not a regular file; choose another path"),
            Self::Refused(error) => write!(f, "it {error}; remove it, or choose another path"),
        }
    }
}

impl Error for PathError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::FolderUnreadable { error, .. } => Some(error),
            Self::FolderRefused { error, .. } | Self::Refused(error) => Some(error),
            Self::FolderMissing { .. } | Self::NotAFolder { .. } | Self::Link | Self::NotAFile => {
                None
            }
        }
    }
}
