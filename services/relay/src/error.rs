//! Why the relay cannot forward records.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use scheduled_events_common::http::HttpError;
use scheduled_events_common::secret::SecretError;

/// Why the relay cannot start, or has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum RelayError {
    /// Another process relays with this folder of states.
    InUse(PathBuf),
    /// The settings of a target cannot be used.
    Target {
        /// Its name.
        name: String,
        /// What is wrong with them.
        error: SettingError,
    },
    /// The system refuses what the relay needs.
    Io {
        /// What cannot be done.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The task of a target ended: how.
    Ended(String),
}

impl RelayError {
    /// For `map_err`: the system refuses this.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Io {
            what: what.into(),
            error,
        }
    }
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(folder) => write!(
                f,
                "another process relays with the state in {}; end it, or choose another folder in `relay.state`",
                folder.display()
            ),
            Self::Target { name, error } => write!(f, "target {name:?}: {error}"),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
            Self::Ended(how) => write!(f, "a target's task ended: {how}"),
        }
    }
}

impl Error for RelayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Target { error, .. } => Some(error),
            Self::Io { error, .. } => Some(error),
            Self::InUse(_) | Self::Ended(_) => None,
        }
    }
}

/// Why a setting cannot be used. A file that it names can change while the relay runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettingError {
    /// It is missing, has no effect, or has an invalid value: a sentence.
    Invalid(String),
    /// Its value, or the content of its file, is invalid.
    Malformed {
        /// The value or the file.
        what: String,
        /// What is wrong with it.
        error: Box<dyn Error + Send + Sync>,
    },
    /// The system cannot read its file.
    Unreadable {
        /// The file.
        file: String,
        /// The error of the system.
        error: io::Error,
    },
    /// Its file has no secret.
    Secret {
        /// The setting.
        setting: String,
        /// What is wrong with the file.
        error: SecretError,
    },
    /// The HTTP client cannot be set up with it.
    Http(HttpError),
}

impl SettingError {
    /// Whether it may be another one later, although the configuration stays as it is.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::Http(_)
                | Self::Secret {
                    error: SecretError::Unreadable { .. },
                    ..
                }
        )
    }

    /// For `map_err`: this is malformed.
    pub(crate) fn malformed<E: Error + Send + Sync + 'static>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        |error| Self::Malformed {
            what: what.into(),
            error: error.into(),
        }
    }

    /// For `map_err`: this file cannot be read.
    pub(crate) fn unreadable(file: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Unreadable {
            file: file.into(),
            error,
        }
    }
}

impl From<&str> for SettingError {
    fn from(sentence: &str) -> Self {
        Self::Invalid(sentence.to_owned())
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(sentence) => f.write_str(sentence),
            Self::Malformed { what, error } => write!(f, "{what}: {error}"),
            Self::Unreadable { file, error } => write!(f, "cannot read {file}: {error}"),
            Self::Secret { setting, error } => write!(f, "`{setting}`: {error}"),
            Self::Http(error) => error.fmt(f),
        }
    }
}

impl Error for SettingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(_) => None,
            Self::Malformed { error, .. } => Some(&**error),
            Self::Unreadable { error, .. } => Some(error),
            Self::Secret { error, .. } => Some(error),
            Self::Http(error) => error.source(),
        }
    }
}
