//! One error for all that can fail in this crate.

use std::io;

use crate::control_plane::queue::QueueAddressError;
use crate::fault::FaultError;
use crate::scenario::{LoadError, RecordingError, ScenarioError};
use crate::server::ConfigError;
use crate::server::control::ControlError;

/// Why something of this crate failed: for programs that pass all its errors on with `?`.
///
/// Each function returns the narrower error of its module, which is one variant here. `Display` writes the sentence of that error, and
/// [`source`](std::error::Error::source) is that error's source.
///
/// ```
/// use scheduled_events_replay::{Error, Fault, Scenario, Server, ServerConfig};
///
/// fn server(scenario: &str, fault: &str) -> Result<Server, Error> {
///     let config = ServerConfig::new(Scenario::load(scenario)?).fault(fault.parse::<Fault>()?);
///     Ok(Server::start(config)?)
/// }
///
/// assert!(matches!(server("preemt", "empty"), Err(Error::Load(_))));
/// let error = server("preempt", "emty").err().ok_or("an unknown fault")?;
/// assert!(error.to_string().contains("did you mean `empty`?"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum Error {
    /// The port, or a setting of the server, which is in it as a [`ConfigError`].
    Io(#[from] io::Error),
    /// A setting of the server.
    Config(#[from] ConfigError),
    /// A request to a server that plays.
    Control(#[from] ControlError),
    /// The text of a fault.
    Fault(#[from] FaultError),
    /// A scenario that cannot be loaded.
    Load(#[from] LoadError),
    /// The text of a scenario.
    Scenario(#[from] ScenarioError),
    /// Records from which there can be no scenario.
    Recording(#[from] RecordingError),
    /// The address of a queue.
    QueueAddress(#[from] QueueAddressError),
}
