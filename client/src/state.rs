//! The state file: what a restart must know. It is replaced atomically, so a crash leaves the old file or the new one.
//!
//! The first line names the format and has a CRC-32 of the rest, which is JSON: the session's snapshot, the tracked events in
//! readable form, and the hooks that have not ended.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::Change;
use serde::{Deserialize, Serialize};

use crate::limits::{LOCK_TIMEOUT, STATE_FILE_MAX};
use crate::platform::{self, LockAttempt};
use crate::record::EventRecord;

/// How the first line starts.
const FORMAT: &str = "scheduled-events state 1";

/// How the first line starts in every version of the format.
const ANY_FORMAT: &str = "scheduled-events state ";

/// The content of a state file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The session's snapshot.
    pub session: Vec<u8>,
    /// The tracked events with all their members.
    pub events: Vec<EventRecord>,
    /// The hooks that have not ended.
    pub hooks: Vec<PendingHook>,
}

/// The hook of a change that was reported, which has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingHook {
    /// The change.
    pub change: Change,
    /// The event, as it was at that time.
    pub event: EventRecord,
}

/// A state file, locked for this process.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// The system releases the lock when the process ends, in whatever way.
    lock: File,
    /// The process that has the lock. A process forked from it has a copy of this value, which must not release the lock.
    process: u32,
}

/// What opening a state file found.
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
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Content {
    session: String,
    events: Vec<EventRecord>,
    // Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending_hooks: Vec<PendingHook>,
}

impl StateFile {
    /// Opens the state file at `path`, which need not exist, and locks it.
    ///
    /// Symbolic links are followed, so that the target is replaced and not the link, and all paths to a file use one lock.
    ///
    /// # Errors
    /// A sentence that says what is wrong: the folder cannot be written, another process uses the file, or the path is a device,
    /// a pipe or a folder.
    pub fn open(path: &Path) -> Result<(Self, LoadResult), String> {
        let path =
            &follow_links(path).map_err(|error| format!("cannot read the state file {}: {error}", path.display()))?;
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(format!(
                "cannot use the state file {}: not a regular file; choose another path",
                path.display()
            ));
        }
        let lock = lock(path)?;
        let file = Self { path: path.clone(), lock, process: process::id() };
        let loaded = match read(path) {
            Ok(None) => LoadResult::Missing,
            Ok(Some(Ok(state))) => LoadResult::State(state),
            Ok(Some(Err(reason))) => file.quarantine(&reason)?,
            Err(error) => return Err(format!("cannot read the state file {}: {error}", path.display())),
        };
        Ok((file, loaded))
    }

    /// Renames the damaged file to the first free name of `FILE.damaged-1`, `FILE.damaged-2`, and so on.
    ///
    /// # Errors
    /// A sentence that says why the file cannot be renamed.
    pub fn quarantine(&self, reason: &str) -> Result<LoadResult, String> {
        let mut number = 1_u64;
        let mut quarantine = sibling(&self.path, "damaged-1");
        while quarantine.exists() {
            number += 1;
            quarantine = sibling(&self.path, &format!("damaged-{number}"));
        }
        fs::rename(&self.path, &quarantine).map_err(|error| {
            format!(
                "the state file {} is damaged ({reason}) and cannot be moved to {}: {error}",
                self.path.display(),
                quarantine.display()
            )
        })?;
        Ok(LoadResult::Damaged { quarantine, reason: reason.to_owned() })
    }

    /// Replaces the file: writes a temporary one, syncs it, renames it, and syncs the folder.
    ///
    /// # Errors
    /// An error of the system. The file is then unchanged.
    pub fn save(&self, state: &State) -> io::Result<()> {
        let temporary = sibling(&self.path, "tmp");
        // A crash may have left this file. In a folder where others can write, somebody else may have created it: a file that they
        // can read, or a link to a file that they cannot write.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = platform::private(OpenOptions::new().write(true).create_new(true)).open(&temporary)?;
        file.write_all(&format(state)?)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, &self.path)?;
        sync_folder(&self.path)
    }

    /// The file's path, with links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The end of a chain of symbolic links, which need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    /// As in Linux.
    const LINKS_MAX: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        // An absolute target replaces the folder.
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("too many links"))
}

impl Drop for StateFile {
    fn drop(&mut self) {
        if self.process == process::id() {
            platform::unlock(&self.lock);
        }
    }
}

fn lock(path: &Path) -> Result<File, String> {
    let lock_path = sibling(path, "lock");
    let failed =
        |error: &io::Error| format!("cannot use the state file {}: {}: {error}", path.display(), lock_path.display());
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let mut lock = loop {
        match platform::lock(&lock_path).map_err(|error| failed(&error))? {
            LockAttempt::Acquired(lock) => break lock,
            LockAttempt::Held(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            LockAttempt::Held(lock) => {
                let mut holder = String::new();
                let _ = lock.take(20).read_to_string(&mut holder);
                return Err(format!(
                    "the state file {} is in use by process {}; stop that process or use another state file",
                    path.display(),
                    holder.trim()
                ));
            }
        }
    };
    let holder = format!("{:<10}\n", process::id());
    lock.set_len(0).and_then(|()| lock.write_all(holder.as_bytes())).map_err(|error| failed(&error))?;
    Ok(lock)
}

/// The file's state or what is wrong with it; `None` if there is no file.
fn read(path: &Path) -> io::Result<Option<Result<State, String>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(STATE_FILE_MAX).read_to_end(&mut bytes)?;
    Ok(Some(parse(&bytes)))
}

fn parse(bytes: &[u8]) -> Result<State, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
    let (head, content) = text.split_once('\n').ok_or("it has no complete first line")?;
    let checksum = head.strip_prefix(FORMAT).ok_or_else(|| match head.strip_prefix(ANY_FORMAT) {
        Some(rest) => {
            let version: String = rest.chars().take_while(char::is_ascii_digit).take(9).collect();
            format!("another version of this program wrote it: expected \"{FORMAT}\", found \"{ANY_FORMAT}{version}\"")
        }
        None => format!("its first line does not start with {FORMAT:?}"),
    })?;
    if checksum.trim() != format!("{:08x}", crc32fast::hash(content.as_bytes())) {
        return Err("its checksum does not match its content".into());
    }
    let content: Content = serde_json::from_str(content).map_err(|error| error.to_string())?;
    let session = decode_hex(&content.session).ok_or("its snapshot is not hexadecimal")?;
    Ok(State { session, events: content.events, hooks: content.pending_hooks })
}

fn format(state: &State) -> io::Result<Vec<u8>> {
    let mut session = String::with_capacity(state.session.len() * 2);
    for byte in &state.session {
        let _ = write!(session, "{byte:02x}");
    }
    let content = Content { session, events: state.events.clone(), pending_hooks: state.hooks.clone() };
    let mut content = serde_json::to_string_pretty(&content)?;
    content.push('\n');
    Ok(format!("{FORMAT} {:08x}\n{content}", crc32fast::hash(content.as_bytes())).into_bytes())
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// `FILE.suffix`, in the same folder.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes a rename of the file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    platform::sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("scheduled-events-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn state() -> State {
        let event = EventRecord { event_id: "a\u{1b}[2J".into(), ..EventRecord::default() };
        let hooks = vec![PendingHook { change: Change::StartedWithoutNotice, event: event.clone() }];
        State { session: vec![0, 1, 0xff], events: vec![event], hooks }
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
    fn a_file_truncated_or_changed_at_any_byte_is_damaged() {
        let whole = format(&state()).unwrap();
        assert_eq!(parse(&whole), Ok(state()));
        for index in 0..whole.len() {
            assert!(parse(&whole[..index]).is_err(), "{index} bytes were accepted");
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[index] ^= 1 << bit;
                // The case of the checksum's digits does not matter.
                let accepted = parse(&changed);
                assert!(
                    accepted.is_err() || accepted == Ok(state()) && changed.eq_ignore_ascii_case(&whole),
                    "{index}"
                );
            }
        }
    }

    #[test]
    fn damaged_files_are_kept_under_different_names() {
        let folder = folder("damaged");
        let path = folder.join("state");
        for content in ["", "one", "two"] {
            fs::write(&path, content).unwrap();
            let (_, loaded) = StateFile::open(&path).unwrap();
            let LoadResult::Damaged { quarantine, .. } = loaded else { panic!("{content:?} was accepted") };
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
        assert!(StateFile::open(&path).unwrap_err().contains("state.lock"));
        fs::remove_file(folder.join("state.lock")).unwrap();

        let (file, _) = StateFile::open(&path).unwrap();
        symlink(&precious, folder.join("state.tmp")).unwrap();
        file.save(&state()).unwrap();
        let open_to_all = folder.join("state.tmp");
        fs::write(&open_to_all, "").unwrap();
        fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o666)).unwrap();
        file.save(&state()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn links_are_followed_to_the_file_and_its_lock() {
        use std::os::unix::fs::symlink;

        let folder = folder("followed");
        fs::create_dir(folder.join("real")).unwrap();
        let (path, one, two) = (folder.join("real/state"), folder.join("one"), folder.join("real/two"));
        symlink("real/two", &one).unwrap();
        symlink("state", &two).unwrap();
        let (file, _) = StateFile::open(&one).unwrap();
        file.save(&state()).unwrap();
        assert!(fs::symlink_metadata(&one).unwrap().is_symlink());
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert!(StateFile::open(&path).unwrap_err().contains("in use"));
        fs::remove_file(&two).unwrap();
        symlink("two", &two).unwrap();
        assert!(StateFile::open(&one).unwrap_err().contains("too many links"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn devices_pipes_and_folders_are_rejected_and_not_moved() {
        let folder = folder("device");
        let error = StateFile::open(Path::new("/dev/null")).unwrap_err();
        assert!(error.contains("/dev/null: not a regular file"), "{error}");
        assert!(!Path::new("/dev/null.lock").exists());
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, &folder] {
            assert!(StateFile::open(path).unwrap_err().contains("not a regular file"));
        }
        assert!(pipe.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_another_version_is_reported_as_such() {
        let folder = folder("version");
        let path = folder.join("state");
        fs::write(&path, "scheduled-events state 2 00000000\n{}\n").unwrap();
        let (_, loaded) = StateFile::open(&path).unwrap();
        let LoadResult::Damaged { quarantine, reason } = loaded else { panic!("it was accepted") };
        assert!(reason.ends_with("found \"scheduled-events state 2\""), "{reason}");
        assert!(quarantine.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_second_user_is_rejected_with_the_process_of_the_first() {
        let folder = folder("second");
        let path = folder.join("state");
        let first = StateFile::open(&path).unwrap();
        let error = StateFile::open(&path).unwrap_err();
        assert!(error.contains(&format!("in use by process {}", process::id())), "{error}");
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
        holder.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let error = StateFile::open(Path::new("/nonexistent/folder/state")).unwrap_err();
        assert!(error.contains("/nonexistent/folder/state"), "{error}");
    }
}
