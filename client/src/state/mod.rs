//! The state file: what a restart must know. It is replaced atomically, so a crash leaves the old file or the new one.
//!
//! It starts with the session's snapshot, which the C library and Python read and write, too. A line of text with the format's
//! name and a CRC-32 follows, and JSON: what the session waits for and the tracked events in readable form, and the hooks that
//! have not ended. The file has some hundred kilobytes at most, however large the documents are.
//!
//! A user who can write the file decides which commands run, so a file or a folder of another user is refused, and no link is
//! followed to the file.

// `content` is the format, `bounds` keeps it small, `inspect` reads a file that another process uses, `sight` is what that process
// reports beside it, and `error` says why one cannot be used.

mod bounds;
mod content;
mod error;
mod inspect;
mod sight;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::files::lock::{CommandRegister, FileLock, LockError};
use crate::files::{check_file, check_path, open_no_link, replace, sibling};
use crate::limits::STATE_FILE_MAX;
use crate::platform;

pub use content::{Damage, MachineStatus, PendingHook, State, WaitingEvent};
pub use error::StateFileError;
pub use inspect::{InspectError, Inspection};
pub use sight::Sight;

pub(crate) use sight::SightReport;

use content::{format, parse};

/// A state file, locked for this process or only read.
///
/// ```
/// use scheduled_events::state::{LoadResult, State, StateFile};
/// use scheduled_events_core::{Session, SessionConfig, VmNames};
///
/// # let folder = std::env::temp_dir().join(format!("state-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("state");
/// let (file, loaded) = StateFile::open(&path)?;
/// assert!(matches!(loaded, LoadResult::Missing)); // this is the first run
/// assert_eq!(file.path(), path);
/// let session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
/// let mut snapshot = vec![0; Session::<16>::SNAPSHOT_MAX];
/// let length = session.snapshot(&mut snapshot)?;
/// snapshot.truncate(length);
/// file.save(&State { session: snapshot, ..State::default() })?;
/// file.check_lock()?; // nobody has replaced it
///
/// // Another process cannot use the file, but it can look at it.
/// assert!(StateFile::open(&path).is_err());
/// let (_, loaded) = StateFile::open_read_only(&path)?;
/// assert!(matches!(loaded, LoadResult::State(_)));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    lock: FileLock,
}

/// What opening a state file found.
///
/// ```
/// use scheduled_events::state::{LoadResult, StateFile};
///
/// # let folder = std::env::temp_dir().join(format!("load-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("state");
/// std::fs::write(&path, "torn")?;
/// let (_, loaded) = StateFile::open(&path)?;
/// let LoadResult::Damaged { quarantine, .. } = loaded else { panic!("expected a damaged file") };
/// assert_eq!(quarantine, folder.join("state.damaged-1"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadResult {
    /// There is no file.
    Missing,
    /// The state of the last run.
    State(State),
    /// The file is damaged and was moved out of the way.
    Damaged {
        /// The file's new path.
        quarantine: PathBuf,
        /// What is wrong with it.
        reason: Damage,
    },
}

impl StateFile {
    /// Opens the state file at `path`, which need not exist, and locks it.
    ///
    /// # Errors
    /// [`StateFileError`]: the folder does not exist or cannot be written, another process uses the file, the file
    /// or its folder belongs to a user other than this one and root, others can write the file, or the path is a link, a device, a
    /// pipe or a folder. Links further up the path are followed.
    pub fn open(path: &Path) -> Result<(Self, LoadResult), StateFileError> {
        Self::open_with(path, |path| FileLock::acquire(path, "state file"))
    }

    /// Reads the state file at `path`, which need not exist, and changes nothing: neither is it locked, nor moved if it is damaged,
    /// nor can it be [saved](Self::save). For dry runs.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), except that another process may use the file; and a damaged file.
    pub fn open_read_only(path: &Path) -> Result<(Self, LoadResult), StateFileError> {
        Self::open_with(path, |_| Ok(FileLock::none("state file")))
    }

    fn open_with(
        path: &Path,
        lock: impl FnOnce(&Path) -> Result<FileLock, LockError>,
    ) -> Result<(Self, LoadResult), StateFileError> {
        check_path(path).map_err(|error| StateFileError::Path {
            path: path.to_owned(),
            error,
        })?;
        let file = Self {
            path: path.to_owned(),
            lock: lock(path)?,
        };
        let loaded = match read(path, !file.lock.is_none())? {
            None => LoadResult::Missing,
            Some(Ok(state)) => LoadResult::State(state),
            Some(Err(reason)) => LoadResult::Damaged {
                quarantine: file.quarantine(&reason)?,
                reason,
            },
        };
        Ok((file, loaded))
    }

    /// Renames the damaged file to the first free name of `FILE.damaged-1`, `FILE.damaged-2`, and so on. Returns its new path.
    ///
    /// # Errors
    /// [`StateFileError::NotMoved`], or [`StateFileError::Damaged`] for a file that is [only read](Self::open_read_only).
    ///
    /// ```
    /// use scheduled_events::state::{Damage, StateFile};
    ///
    /// # let folder = std::env::temp_dir().join(format!("quarantine-example-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let (file, _) = StateFile::open(&folder.join("state"))?;
    /// std::fs::write(file.path(), "what a session refuses")?;
    /// assert_eq!(file.quarantine(&Damage::NotAStateFile)?, folder.join("state.damaged-1"));
    /// assert!(!file.path().exists());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quarantine(&self, reason: &Damage) -> Result<PathBuf, StateFileError> {
        if self.lock.is_none() {
            return Err(StateFileError::Damaged {
                path: self.path.clone(),
                reason: reason.clone(),
            });
        }
        let mut number = 1_u64;
        let mut quarantine = sibling(&self.path, "damaged-1");
        // A link counts, whatever it leads to.
        while fs::symlink_metadata(&quarantine).is_ok() {
            number += 1;
            quarantine = sibling(&self.path, &format!("damaged-{number}"));
        }
        match fs::rename(&self.path, &quarantine) {
            Ok(()) => Ok(quarantine),
            Err(error) => Err(StateFileError::NotMoved {
                path: self.path.clone(),
                reason: reason.clone(),
                quarantine,
                error,
            }),
        }
    }

    /// Replaces the file: writes a temporary one, syncs it, renames it, and syncs the folder. Long texts are shortened or left out.
    ///
    /// # Errors
    /// An error of the system, or of [`check_lock`](Self::check_lock). The file is then unchanged.
    pub fn save(&self, state: &State) -> io::Result<()> {
        self.check_lock()?;
        replace(&self.path, &format(&bounds::bounded(state))?)
    }

    /// Checks that this process still has the lock on the file. A lock file that was removed is created again.
    ///
    /// # Errors
    /// Another process has replaced the lock file, so that it may use the state file, too. From then on this value does not write
    /// the file any more: the other process may have a newer state. Or the file is only read, or an error of the system.
    pub fn check_lock(&self) -> io::Result<()> {
        self.lock.check(&self.path)
    }

    /// Reports beside the file whether documents arrive.
    ///
    /// # Errors
    /// An error of the system, or of [`check_lock`](Self::check_lock).
    pub(crate) fn report_sight(&self, sight: &Sight) -> io::Result<()> {
        self.check_lock()?;
        sight.write(&self.path)
    }

    /// Removes that report.
    pub(crate) fn remove_sight(&self) {
        if self.check_lock().is_ok() {
            Sight::remove(&self.path);
        }
    }

    /// The register of the commands that this process runs. It has those that the last process left running.
    pub(crate) fn commands(&self) -> CommandRegister {
        self.lock.commands()
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The file's state or what is wrong with it; `None` if there is no file. A file that others can read is made private if wanted.
///
/// # Errors
/// Why the file cannot be read, or must not be used.
fn read(path: &Path, make_private: bool) -> Result<Option<Result<State, Damage>>, StateFileError> {
    let cannot_read = |error| StateFileError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let file = match open_no_link(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot_read)?,
    };
    check_file(&file).map_err(|error| StateFileError::Refused {
        path: path.to_owned(),
        error,
    })?;
    if make_private {
        platform::make_private(&file).map_err(cannot_read)?;
    }
    let mut bytes = Vec::new();
    file.take(STATE_FILE_MAX)
        .read_to_end(&mut bytes)
        .map_err(cannot_read)?;
    Ok(Some(parse(&bytes)))
}

#[cfg(test)]
mod tests {
    use std::process;
    use std::thread;
    use std::time::Duration;

    use std::fs::OpenOptions;
    use std::io::Write as _;

    use scheduled_events_core::Change;

    use super::*;
    use crate::record::EventRecord;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("scheduled-events-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn state() -> State {
        let event = EventRecord {
            event_id: "a\u{1b}[2J".into(),
            ..EventRecord::default()
        };
        let hooks = vec![PendingHook {
            change: Change::StartedWithoutNotice,
            event: event.clone(),
        }];
        State {
            session: vec![0, 1, 0xff],
            events: vec![event],
            hooks,
            status: MachineStatus::default(),
        }
    }

    #[test]
    fn a_saved_state_is_loaded_again() {
        let folder = folder("saved");
        let path = folder.join("state");
        let (file, loaded) = StateFile::open(&path).unwrap();
        assert_eq!(loaded, LoadResult::Missing);
        file.save(&state()).unwrap();
        drop(file);
        let (_, loaded) = StateFile::open(&path).unwrap();
        assert_eq!(loaded, LoadResult::State(state()));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn damaged_files_are_kept_under_different_names() {
        let folder = folder("damaged");
        let path = folder.join("state");
        for content in ["", "one", "two"] {
            write_private(&path, content);
            let (_, loaded) = StateFile::open(&path).unwrap();
            let LoadResult::Damaged { quarantine, .. } = loaded else {
                panic!("{content:?} was accepted")
            };
            assert_eq!(fs::read_to_string(&quarantine).unwrap(), content);
        }
        assert!(folder.join("state.damaged-3").exists() && !path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_link_or_file_in_place_of_the_temporary_file_or_the_lock_is_not_written() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = folder("link");
        let path = folder.join("state");
        let precious = folder.join("precious");
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, folder.join("state.lock")).unwrap();
        assert!(
            StateFile::open(&path)
                .unwrap_err()
                .to_string()
                .contains("state.lock")
        );
        fs::remove_file(folder.join("state.lock")).unwrap();

        let (file, _) = StateFile::open(&path).unwrap();
        symlink(&precious, folder.join("state.tmp")).unwrap();
        file.save(&state()).unwrap();
        let open_to_all = folder.join("state.tmp");
        fs::write(&open_to_all, "").unwrap();
        fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o666)).unwrap();
        file.save(&state()).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::remove_dir_all(folder).unwrap();
    }

    /// Writes a file that the state file's checks accept, whatever the umask.
    fn write_private(path: &Path, content: &str) {
        let mut file =
            platform::private(OpenOptions::new().write(true).create(true).truncate(true))
                .open(path)
                .unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_link_to_the_file_is_refused_and_one_to_its_folder_followed() {
        use std::os::unix::fs::symlink;

        let folder = folder("links");
        fs::create_dir(folder.join("real")).unwrap();
        write_private(&folder.join("real/state"), "damaged");
        symlink("real/state", folder.join("link")).unwrap();
        symlink("real/missing", folder.join("dangling")).unwrap();
        symlink("real", folder.join("folder")).unwrap();
        for name in ["link", "dangling"] {
            let error = StateFile::open(&folder.join(name)).unwrap_err().to_string();
            assert!(error.contains("it is a link"), "{error}");
            // A link that appears after the first check.
            assert!(
                read(&folder.join(name), false)
                    .unwrap_err()
                    .to_string()
                    .contains("cannot read"),
                "{name}"
            );
        }
        assert_eq!(fs::read(folder.join("real/state")).unwrap(), b"damaged");
        assert_eq!(fs::read_dir(folder.join("real")).unwrap().count(), 1);
        // As systemd does for a service with DynamicUser.
        let (_, loaded) = StateFile::open(&folder.join("folder/state")).unwrap();
        assert!(matches!(loaded, LoadResult::Damaged { .. }));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_others_can_write_is_refused_and_stays() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = folder("writable");
        let path = folder.join("state");
        let (file, _) = StateFile::open(&path).unwrap();
        file.save(&state()).unwrap();
        drop(file);
        for mode in [0o620, 0o602, 0o666] {
            for name in ["state", "state.lock"] {
                fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
                let error = StateFile::open(&path).unwrap_err().to_string();
                assert!(
                    error.contains(name) && error.contains("can be written by others"),
                    "{error}"
                );
                fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
            }
        }
        assert!(matches!(
            StateFile::open(&path).unwrap().1,
            LoadResult::State(_)
        ));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_refused_file_leaves_no_lock_and_one_that_others_can_read_is_made_private() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = folder("modes");
        let path = folder.join("state");
        let (file, _) = StateFile::open(&path).unwrap();
        file.save(&state()).unwrap();
        drop(file);
        fs::remove_file(folder.join("state.lock")).unwrap();
        let set = |name: &str, mode| {
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |name: &str| {
            fs::metadata(folder.join(name))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        set("state", 0o666);
        assert!(
            StateFile::open(&path)
                .unwrap_err()
                .to_string()
                .contains("can be written by others")
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a lock was left");
        set("state", 0o644);
        drop(StateFile::open_read_only(&path).unwrap());
        assert_eq!(mode("state"), 0o644, "reading only changes no file");
        drop(StateFile::open(&path).unwrap());
        assert_eq!((mode("state"), mode("state.lock")), (0o600, 0o600));
        set("state.lock", 0o644);
        drop(StateFile::open(&path).unwrap());
        assert_eq!(mode("state.lock"), 0o600);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_file_or_folder_of_another_user_is_refused_and_stays() {
        use std::os::unix::fs::chown;

        let folder = folder("stranger");
        let path = folder.join("state");
        let (file, _) = StateFile::open(&path).unwrap();
        file.save(&state()).unwrap();
        drop(file);
        // Only root can give files away.
        if chown(&path, Some(64_018), None).is_err() {
            return;
        }
        for name in ["state", "state.lock", "."] {
            chown(&path, Some(0), None).unwrap();
            chown(folder.join(name), Some(64_018), None).unwrap();
            let error = StateFile::open(&path).unwrap_err().to_string();
            assert!(
                error.contains("belongs to the user 64018"),
                "{name}: {error}"
            );
            assert!(StateFile::open_read_only(&path).is_err() || name == "state.lock");
            chown(folder.join(name), Some(0), None).unwrap();
        }
        assert!(matches!(
            StateFile::open(&path).unwrap().1,
            LoadResult::State(_)
        ));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_lock_file_that_was_removed_is_created_again_and_one_that_was_replaced_ends_writing() {
        let folder = folder("replaced");
        let (path, lock) = (folder.join("state"), folder.join("state.lock"));
        let (file, _) = StateFile::open(&path).unwrap();
        fs::remove_file(&lock).unwrap();
        file.save(&state()).unwrap();
        assert!(
            StateFile::open(&path)
                .unwrap_err()
                .to_string()
                .contains(&format!("in use by process {}", process::id()))
        );

        fs::remove_file(&lock).unwrap();
        let (stranger, _) = StateFile::open(&path).unwrap();
        let theirs = State {
            session: vec![7],
            ..State::default()
        };
        stranger.save(&theirs).unwrap();
        for _ in 0..2 {
            let error = file.save(&state()).unwrap_err().to_string();
            assert!(error.contains("state.lock was replaced"), "{error}");
            // Nor later, when the other process is gone: its state may be newer.
            let _ = fs::remove_file(&lock);
        }
        assert_eq!(read(&path, false).unwrap(), Some(Ok(theirs)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn commands_of_a_killed_process_are_found_as_long_as_they_run() {
        use crate::files::lock::CommandProcess;

        let folder = folder("commands");
        let path = folder.join("state");
        let mut child = process::Command::new("sleep").arg("600").spawn().unwrap();
        let started = platform::process_start(child.id()).unwrap();
        let running = CommandProcess {
            process: child.id(),
            started,
            mark: "mark".into(),
        };
        let (file, _) = StateFile::open(&path).unwrap();
        for command in [
            running.clone(),
            // Another process has this id by now.
            CommandProcess {
                process: process::id(),
                started: 0,
                mark: "another".into(),
            },
            CommandProcess {
                process: 0,
                started: 0,
                mark: "none".into(),
            },
        ] {
            file.commands().add(command);
        }
        drop(file);
        let (file, _) = StateFile::open(&path).unwrap();
        assert_eq!(file.commands().all(), [running]);
        // They stay until they are removed.
        drop(file);
        let (file, _) = StateFile::open(&path).unwrap();
        let register = file.commands();
        assert!(register.all()[0].runs());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!register.all()[0].runs());
        register.remove(child.id());
        drop(file);
        assert!(
            StateFile::open(&path)
                .unwrap()
                .0
                .commands()
                .all()
                .is_empty()
        );
        // The file is open in the register, but the lock is free. After another start of the machine all ids are others.
        let lock = folder.join("state.lock");
        let text = fs::read_to_string(&lock).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        fs::write(
            &lock,
            format!(
                "1\nanother-boot\n1 {} mark\n",
                platform::process_start(1).unwrap_or(0)
            ),
        )
        .unwrap();
        assert!(
            StateFile::open(&path)
                .unwrap()
                .0
                .commands()
                .all()
                .is_empty()
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn reading_only_changes_no_file() {
        let folder = folder("read-only");
        let path = folder.join("state");
        assert_eq!(
            StateFile::open_read_only(&path).unwrap().1,
            LoadResult::Missing
        );
        let (held, _) = StateFile::open(&path).unwrap();
        held.save(&state()).unwrap();
        let (file, loaded) = StateFile::open_read_only(&path).unwrap();
        assert_eq!(loaded, LoadResult::State(state()));
        assert!(file.save(&State::default()).is_err());
        write_private(&path, "damaged");
        assert!(
            StateFile::open_read_only(&path)
                .unwrap_err()
                .to_string()
                .contains("damaged")
        );
        assert!(file.quarantine(&Damage::Checksum).is_err());
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            2,
            "the file and its lock"
        );
        drop(held);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn devices_pipes_and_folders_are_rejected_and_not_moved() {
        let folder = folder("device");
        let error = StateFile::open(Path::new("/dev/null"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/dev/null: not a regular file"), "{error}");
        assert!(!Path::new("/dev/null.lock").exists());
        let pipe = folder.join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        for path in [&pipe, &folder] {
            assert!(
                StateFile::open(path)
                    .unwrap_err()
                    .to_string()
                    .contains("not a regular file")
            );
        }
        assert!(pipe.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_another_version_is_reported_as_such() {
        let folder = folder("version");
        let path = folder.join("state");
        write_private(&path, "SEVS\nscheduled-events state 3 00000000\n{}\n");
        let (_, loaded) = StateFile::open(&path).unwrap();
        let LoadResult::Damaged { quarantine, reason } = loaded else {
            panic!("it was accepted")
        };
        assert!(
            reason
                .to_string()
                .ends_with("found \"scheduled-events state 3\""),
            "{reason}"
        );
        assert!(quarantine.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_second_user_is_rejected_with_the_process_of_the_first() {
        let folder = folder("second");
        let path = folder.join("state");
        let first = StateFile::open(&path).unwrap();
        let error = StateFile::open(&path).unwrap_err().to_string();
        assert!(
            error.contains(&format!("in use by process {}", process::id())),
            "{error}"
        );
        drop(first);
        assert!(StateFile::open(&path).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let folder = folder("moment");
        let path = folder.join("state");
        let first = StateFile::open(&path).unwrap();
        let holder = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(first);
        });
        assert!(StateFile::open(&path).is_ok());
        scheduled_events_test_support::wait::join(holder);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let error = StateFile::open(Path::new("/nonexistent/folder/state"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the folder /nonexistent/folder does not exist; create it"),
            "{error}"
        );
    }
}
