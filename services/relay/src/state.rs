//! The saved state of each target: the last record that it has accepted, and the open events.
//!
//! Each target has one file, which is replaced as a whole, so that a crash at any moment leaves the
//! old one or the new one. Records that were accepted but not yet saved are sent again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use scheduled_events::files::temporary;
use serde::{Deserialize, Serialize};

use crate::audit::Position;
use crate::error::RelayError;
use crate::events::OpenEvents;
use scheduled_events_common::log;

/// The largest state file that is read, in bytes.
const SIZE_MAX: u64 = 64 * 1024 * 1024;

/// The largest file of rejected records, in bytes.
const REJECTED_MAX: u64 = 8 * 1024 * 1024;

/// The suffix of temporary files' names.
const TEMPORARY: &str = ".relay.json.new";

/// The saved state of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The last line of the audit file that needs no further attempt, or the position before the oldest one; absent if the file
    /// could not be read: forwarding begins with the oldest line then.
    pub position: Option<Position>,
    /// The events that were open after it.
    #[serde(default)]
    pub events: OpenEvents,
}

/// The folder of the state files, locked for this process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates the folder if needed, and locks it.
    ///
    /// # Errors
    /// It cannot be written, or another process uses it.
    pub fn open(path: &Path) -> Result<Self, RelayError> {
        let name = path.display();
        fs::create_dir_all(path)
            .map_err(RelayError::io(format!("cannot create the folder {name}")))?;
        let lock_path = path.join("lock");
        let lock = private().create(true).append(true).open(&lock_path);
        let lock_name = lock_path.display();
        let lock = lock.map_err(RelayError::io(format!("cannot write {lock_name}")))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => RelayError::InUse(path.to_owned()),
            error => RelayError::io(format!("cannot lock {lock_name}"))(error.into()),
        })?;
        // A target that is no longer configured would never remove its own. Other programs may have
        // files here, too.
        let entries =
            fs::read_dir(path).map_err(RelayError::io(format!("cannot read the folder {name}")))?;
        for left in entries.flatten().map(|entry| entry.path()) {
            if left.to_str().is_some_and(|left| left.ends_with(TEMPORARY)) {
                let what = format!("cannot remove {}", left.display());
                temporary::remove_left(&left).map_err(RelayError::io(what))?;
            }
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The state file of a target.
    pub fn file(&self, target: &str) -> StateFile {
        StateFile {
            folder: self.path.clone(),
            name: target.to_owned(),
        }
    }
}

/// The state file of one target.
#[derive(Clone, Debug)]
pub struct StateFile {
    folder: PathBuf,
    name: String,
}

impl StateFile {
    /// Reads it; `None` if there is none. An unreadable file is kept under another name: all
    /// records are sent again then, which is better than to leave some out.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn load(&self) -> io::Result<Option<State>> {
        let path = self.path("json");
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(file) if file.metadata()?.len() > SIZE_MAX => {}
            Ok(file) => match serde_json::from_reader(io::BufReader::new(file)) {
                Ok(state) => return Ok(Some(state)),
                Err(error) if error.is_io() => return Err(error.into()),
                Err(_) => {}
            },
        }
        let kept = self.path("unreadable");
        fs::rename(&path, &kept)?;
        log::printable(&format!(
            "{} is no state file, and is now {}; all records are sent again",
            path.display(),
            kept.display()
        ));
        Ok(None)
    }

    /// Replaces it.
    ///
    /// # Errors
    /// Those of the file system. The old file stays then.
    pub fn save(&self, state: &State) -> io::Result<()> {
        let new = self.folder.join(format!("{}{TEMPORARY}", self.name));
        temporary::replace(&self.path("json"), &new, |mut file| {
            file.write_all(&serde_json::to_vec(state)?)?;
            file.sync_data()
        })?;
        File::open(&self.folder)?.sync_all()
    }

    /// Keeps a record that the target rejects, as a line of a file. When the file is full, it
    /// replaces the one before it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn keep_rejected(&self, line: &str) -> io::Result<PathBuf> {
        let path = self.path("rejected");
        if fs::metadata(&path).is_ok_and(|found| found.len() >= REJECTED_MAX) {
            fs::rename(&path, self.path("rejected.1"))?;
        }
        let mut file = private().create(true).append(true).open(&path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()?;
        Ok(path)
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}.{suffix}", self.name))
    }
}

/// Options for a file that only this user can read, and that is no link.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    options.mode(0o600).custom_flags(flags);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_relay_left_is_removed_and_what_a_living_one_writes_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = folder.path().join("removed-target.relay.json.new");
        // The watcher's metrics, for example.
        let others =
            ["watch.prom.new", "state.tmp", "plans.json.new"].map(|name| folder.path().join(name));
        for path in others.iter().chain([&left]) {
            fs::write(path, "{").expect("written");
        }
        let living = Folder::open(folder.path()).expect("the folder");
        assert!(
            !left.exists() && others.iter().all(|path| path.exists()),
            "only its own is removed"
        );
        living.file("hook").save(&State::default()).expect("saved");
        let writing = folder.path().join("hook.relay.json.new");
        fs::write(&writing, "{").expect("written");
        assert!(
            Folder::open(folder.path())
                .is_err_and(|why| why.to_string().contains("another process relays"))
        );
        assert!(writing.exists() && folder.path().join("hook.json").exists());
        // A failure leaves none.
        fs::remove_file(folder.path().join("hook.json")).expect("removed");
        fs::create_dir(folder.path().join("hook.json")).expect("a folder");
        assert!(living.file("hook").save(&State::default()).is_err() && !writing.exists());
    }
}
