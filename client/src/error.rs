//! One error for all that can fail in this crate, and the errors that belong to no module of the documentation.

#[doc(inline)]
pub use crate::files::lock::LockError;
#[doc(inline)]
pub use crate::files::{FileError, PathError};
#[doc(inline)]
pub use crate::hooks::CommandLineError;
#[doc(inline)]
pub use crate::resource_name::NameError;

use crate::audit::AuditError;
use crate::imds::{ImdsError, MetadataError, RequestFailure};
use crate::metrics::MetricsFileError;
use crate::policy_file::{LoadError, PolicyError, RuleError};
use crate::state::{InspectError, StateFileError};
use crate::watch::WatcherError;

/// Why something of this crate failed: for programs that pass all its errors on with `?`.
///
/// Each function returns the narrower error of its module, which is one variant here. `Display` writes the sentence of that error, and
/// [`source`](std::error::Error::source) is that error's source.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::error::LockError;
/// use scheduled_events::policy_file::load;
/// use scheduled_events::state::StateFileError;
/// use scheduled_events::watch::{Watcher, WatcherError};
///
/// fn watcher(state: &Path) -> Result<Watcher, scheduled_events::Error> {
///     Ok(Watcher::builder().policy(load("sample")?).state_file(state).build()?)
/// }
///
/// # let folder = std::env::temp_dir().join(format!("error-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("state");
/// let first = watcher(&path)?;
/// let Err(scheduled_events::Error::Watcher(WatcherError::StateFile(error))) = watcher(&path) else {
///     panic!("two watchers have one state file");
/// };
/// assert!(matches!(error, StateFileError::Lock(LockError::InUse { process, .. }) if process == Some(std::process::id())));
/// # drop(first);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum Error {
    /// A path at which there can be no private file.
    Path(#[from] PathError),
    /// An open file that is not private.
    File(#[from] FileError),
    /// A lock that another process has, or that cannot be used.
    Lock(#[from] LockError),
    /// The state file.
    StateFile(#[from] StateFileError),
    /// A state file that cannot be inspected.
    #[error("the state file {0}")]
    Inspect(#[from] InspectError),
    /// The audit file.
    Audit(#[from] AuditError),
    /// The metrics file.
    MetricsFile(#[from] MetricsFileError),
    /// How the metadata service is to be reached.
    Imds(#[from] ImdsError),
    /// A request that has no usable response.
    Request(#[from] RequestFailure),
    /// The machine's own name or id is unknown.
    Metadata(#[from] MetadataError),
    /// A policy that cannot be loaded.
    Load(#[from] LoadError),
    /// The text of a policy.
    Policy(#[from] PolicyError),
    /// A member of a rule, or the leader.
    Rule(#[from] RuleError),
    /// A watcher that cannot be made.
    Watcher(#[from] WatcherError),
    /// The text of a command.
    CommandLine(#[from] CommandLineError),
    /// The name of a resource.
    Name(#[from] NameError),
}
