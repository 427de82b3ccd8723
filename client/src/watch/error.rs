//! Why there can be no watcher.

use std::error::Error;
use std::fmt;

use scheduled_events_core::SessionConfigError;

use crate::state::StateFileError;

/// Why there can be no watcher.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::imds::{API_VERSION, ENDPOINT, Imds};
/// use scheduled_events::watch::{Watcher, WatcherError, WatcherOptions};
/// use scheduled_events_core::SessionConfigError;
///
/// let options = WatcherOptions { interval: Duration::ZERO, ..WatcherOptions::default() };
/// let refused = Watcher::new(Imds::new(ENDPOINT, API_VERSION, false)?, options, None);
/// assert!(matches!(refused, Err(WatcherError::Options(SessionConfigError::IntervalTooShort))));
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WatcherError {
    /// An option is out of range.
    Options(SessionConfigError),
    /// The state file cannot be written, or is damaged and cannot be moved.
    StateFile(StateFileError),
}

impl fmt::Display for WatcherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::StateFile(error) => error.fmt(f),
        }
    }
}

impl Error for WatcherError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Options(error) => Some(error),
            Self::StateFile(error) => Some(error),
        }
    }
}

impl From<SessionConfigError> for WatcherError {
    fn from(error: SessionConfigError) -> Self {
        Self::Options(error)
    }
}

impl From<StateFileError> for WatcherError {
    fn from(error: StateFileError) -> Self {
        Self::StateFile(error)
    }
}
