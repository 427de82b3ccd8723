//! Why there can be no watcher.

use std::error::Error;
use std::fmt;

use scheduled_events_core::SessionConfigError;

use crate::imds::ImdsError;
use crate::state::StateFileError;

/// Why there can be no watcher.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::watch::{Watcher, WatcherError};
/// use scheduled_events_core::SessionConfigError;
///
/// let refused = Watcher::builder().interval(Duration::ZERO).build();
/// assert!(matches!(refused, Err(WatcherError::Options(SessionConfigError::IntervalTooShort))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WatcherError {
    /// An option is out of range.
    Options(SessionConfigError),
    /// The endpoint of the metadata service is refused.
    Imds(ImdsError),
    /// The state file cannot be written, or is damaged and cannot be moved.
    StateFile(StateFileError),
}

impl fmt::Display for WatcherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::Imds(error) => error.fmt(f),
            Self::StateFile(error) => error.fmt(f),
        }
    }
}

impl Error for WatcherError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Options(error) => Some(error),
            Self::Imds(error) => Some(error),
            Self::StateFile(error) => Some(error),
        }
    }
}

impl From<SessionConfigError> for WatcherError {
    fn from(error: SessionConfigError) -> Self {
        Self::Options(error)
    }
}

impl From<ImdsError> for WatcherError {
    fn from(error: ImdsError) -> Self {
        Self::Imds(error)
    }
}

impl From<StateFileError> for WatcherError {
    fn from(error: StateFileError) -> Self {
        Self::StateFile(error)
    }
}
