//! One error for all that can fail in this crate.

use std::fmt;

use crate::audit::AuditError;
use crate::files::lock::LockError;
use crate::files::{FileError, PathError};
use crate::hooks::CommandLineError;
use crate::imds::{ImdsError, MetadataError, RequestFailure};
use crate::metrics::MetricsFileError;
use crate::policy_file::{LoadError, PolicyError, RuleError};
use crate::resource_name::NameError;
use crate::state::StateFileError;
use crate::watch::WatcherError;

/// Why something of this crate failed: for programs that pass all its errors on with `?`.
///
/// Each function returns the narrower error of its module, which is one variant here. `Display` writes the sentence of that error, and
/// [`source`](std::error::Error::source) is that error's source.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::lock::LockError;
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
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A path at which there can be no private file.
    Path(PathError),
    /// An open file that is not private.
    File(FileError),
    /// A lock that another process has, or that cannot be used.
    Lock(LockError),
    /// The state file.
    StateFile(StateFileError),
    /// The audit file.
    Audit(AuditError),
    /// The metrics file.
    MetricsFile(MetricsFileError),
    /// How the metadata service is to be reached.
    Imds(ImdsError),
    /// A request that has no usable response.
    Request(RequestFailure),
    /// The machine's own name or id is unknown.
    Metadata(MetadataError),
    /// A policy that cannot be loaded.
    Load(LoadError),
    /// The text of a policy.
    Policy(PolicyError),
    /// A member of a rule, or the leader.
    Rule(RuleError),
    /// A watcher that cannot be made.
    Watcher(WatcherError),
    /// The text of a command.
    CommandLine(CommandLineError),
    /// The name of a resource.
    Name(NameError),
}

/// What all variants have in common.
macro_rules! variants {
    ($($variant:ident($error:ty),)*) => {
        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(error) => error.fmt(f),)*
                }
            }
        }

        impl std::error::Error for Error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                match self {
                    $(Self::$variant(error) => error.source(),)*
                }
            }
        }

        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

variants! {
    Path(PathError),
    File(FileError),
    Lock(LockError),
    StateFile(StateFileError),
    Audit(AuditError),
    MetricsFile(MetricsFileError),
    Imds(ImdsError),
    Request(RequestFailure),
    Metadata(MetadataError),
    Load(LoadError),
    Policy(PolicyError),
    Rule(RuleError),
    Watcher(WatcherError),
    CommandLine(CommandLineError),
    Name(NameError),
}
