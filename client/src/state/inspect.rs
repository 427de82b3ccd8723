//! Looks at a state file that another process may use: changes nothing, and takes no lock.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use scheduled_events_core::snapshot_length;

use super::content::{Damage, State, parse};
use super::sight::Sight;
use crate::files::sibling;
use crate::limits::STATE_FILE_MAX;
use crate::platform;

/// What a state file shows to somebody who only looks.
///
/// ```
/// use scheduled_events::state::{Inspection, State, StateFile};
/// use scheduled_events_core::{Session, SessionConfig, VmNames};
///
/// # let folder = std::env::temp_dir().join(format!("inspection-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("state");
/// let (file, _) = StateFile::open(&path)?;
/// let session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
/// let mut snapshot = vec![0; Session::<16>::SNAPSHOT_MAX];
/// let length = session.snapshot(&mut snapshot)?;
/// snapshot.truncate(length);
/// file.save(&State { session: snapshot, ..State::default() })?;
///
/// let inspection = Inspection::of(&path)?;
/// assert!(inspection.watched); // by this process
/// assert!(inspection.state.events.is_empty() && !inspection.snapshot_only);
/// assert_ne!(inspection.is_outdated(), Some(true));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The state when it was saved last.
    pub state: State,
    /// When that was.
    pub saved: SystemTime,
    /// Whether a watcher uses the file now.
    pub watched: bool,
    /// Whether the file is only a session's snapshot, as the C library and Python write it. Whether such a program watches is unknown.
    pub snapshot_only: bool,
    /// The id of that watcher's process.
    pub process: Option<u32>,
    /// What that watcher reports about itself; `None` if it reports nothing.
    pub sight: Option<Sight>,
}

/// Why a state file cannot be shown. `Display` writes what is wrong, to follow the name of the file.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::state::{InspectError, Inspection};
///
/// assert!(matches!(Inspection::of(Path::new("/no/such/state")), Err(InspectError::Missing)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum InspectError {
    /// There is no file, or no folder.
    Missing,
    /// The file or its lock cannot be read.
    Unreadable(io::Error),
    /// The file is not a state file, or is damaged, for this reason.
    Damaged(Damage),
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::Damaged(reason) => write!(f, "is damaged: {reason}"),
        }
    }
}

impl std::error::Error for InspectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Missing => None,
            Self::Unreadable(error) => Some(error),
            Self::Damaged(reason) => Some(reason),
        }
    }
}

impl Inspection {
    /// Looks at the state file at `path`.
    ///
    /// Unlike [`StateFile::open`](super::StateFile::open) it reads the file of any user: nothing is run because of what it says.
    ///
    /// # Errors
    /// [`InspectError`] if there is no file, if it cannot be read, or if it is not a state file.
    pub fn of(path: &Path) -> Result<Self, InspectError> {
        let (bytes, saved) = match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(InspectError::Missing);
            }
            read => read.map_err(InspectError::Unreadable)?,
        };
        let state = parse(&bytes).map_err(InspectError::Damaged)?;
        let snapshot_only = snapshot_length(&bytes) == Some(bytes.len());
        let holder = match platform::lock_holder(&sibling(path, "lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            holder => holder.map_err(InspectError::Unreadable)?,
        };
        let watched = holder.is_some();
        let process = holder.and_then(|lock| {
            let mut first = String::new();
            lock.take(20).read_to_string(&mut first).ok()?;
            first.lines().next()?.trim().parse().ok()
        });
        let sight = process.and_then(|process| Sight::read(path, process));
        Ok(Self {
            state,
            saved,
            watched,
            snapshot_only,
            process,
            sight,
        })
    }

    /// Whether the file was saved before the machine was started, or on another machine; `None` if that is unknown.
    pub fn is_outdated(&self) -> Option<bool> {
        let (then, now) = (&self.state.status.boot_id, platform::boot_id());
        (!then.is_empty() && !now.is_empty()).then(|| *then != now)
    }
}

fn read(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    // A pipe or a device could take forever.
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = platform::open_no_link(path)?;
    let saved = file.metadata()?.modified()?;
    let mut bytes = Vec::new();
    file.take(STATE_FILE_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, saved))
}
