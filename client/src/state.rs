//! The state file: what a restart must not forget, written so that a crash leaves the old one or the new one.
//!
//! The first line names the form and carries a CRC-32 of the rest, which is JSON: the session's snapshot, and the
//! events in words for whoever looks into the file, and what was to be run for changes and has not ended.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::Change;
use serde::{Deserialize, Serialize};

use crate::platform::{self, Lock};
use crate::record::EventRecord;

const FORM: &str = "scheduled-events state 1";

/// What such a line begins with whatever its version.
const ANY_FORM: &str = "scheduled-events state ";

/// How long a lock that is held is waited for. A process that is killed while it starts a command leaves a copy of itself
/// behind, which holds the lock for the moment until it has become that command.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The largest state file that is read: a thousand events with a thousand resources each stay below it.
const SIZE_MAX: u64 = 64 * 1024 * 1024;

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The session's snapshot.
    pub session: Vec<u8>,
    /// The events that are followed, with all their members.
    pub events: Vec<EventRecord>,
    /// What was to be run for changes and has not ended.
    pub owed: Vec<Owed>,
}

/// Something to be run for a change, which has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// The change.
    pub change: Change,
    /// The event, as it was then.
    pub event: EventRecord,
}

/// A state file, locked for this process.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Held as long as the state file is in use; the system releases it with the process, however it ends.
    lock: File,
    /// The process that holds it. One that was forked from it has a copy, which must not keep the file in use.
    process: u32,
}

/// What was found when a state file was opened.
#[derive(Debug)]
pub enum Found {
    /// No file, so nothing to remember.
    Nothing,
    /// The state of the last run.
    State(State),
    /// A file that cannot be trusted; it was set aside for a person to look at.
    Damaged {
        /// Where it lies now.
        set_aside: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Content {
    session: String,
    events: Vec<EventRecord>,
    // Left out where there is none, as by versions that knew of none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owed: Vec<Owed>,
}

impl StateFile {
    /// Opens the state file at `path`, which need not exist, and locks it.
    ///
    /// A link is followed, so that the file is replaced where it is, and whoever uses it by another name holds the same lock.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what to do: the folder cannot be written, another process uses the file, or
    /// it is none but a device, a pipe or a folder, which is not to be moved out of the way.
    pub fn open(path: &Path) -> Result<(Self, Found), String> {
        let path =
            &followed(path).map_err(|error| format!("cannot read the state file {}: {error}", path.display()))?;
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return Err(format!(
                "cannot use the state file {}: it is no regular file; give --state another path",
                path.display()
            ));
        }
        let lock = lock(path)?;
        let file = Self { path: path.clone(), lock, process: process::id() };
        let found = match read(path) {
            Ok(None) => Found::Nothing,
            Ok(Some(Ok(state))) => Found::State(state),
            Ok(Some(Err(why))) => file.set_aside(&why)?,
            Err(error) => return Err(format!("cannot read the state file {}: {error}", path.display())),
        };
        Ok((file, found))
    }

    /// Moves the file out of the way, under a name that is not taken, and keeps it.
    ///
    /// # Errors
    /// A sentence that says what is wrong: the folder does not let itself be written.
    pub fn set_aside(&self, why: &str) -> Result<Found, String> {
        for number in 1.. {
            let set_aside = beside(&self.path, &format!("damaged-{number}"));
            if set_aside.exists() {
                continue;
            }
            fs::rename(&self.path, &set_aside).map_err(|error| {
                format!("the state file {} is damaged ({why}), and cannot be set aside: {error}", self.path.display())
            })?;
            return Ok(Found::Damaged { set_aside, why: why.to_owned() });
        }
        unreachable!("there are more numbers than files")
    }

    /// Replaces the file: a temporary one is written, synced and renamed, and the folder synced.
    ///
    /// # Errors
    /// The file then is what it was before.
    pub fn save(&self, state: &State) -> io::Result<()> {
        let temporary = beside(&self.path, "tmp");
        // A crash may have left one. Where others may write into the folder, one of them may have put it there: a file
        // that is theirs to read, or a link to one that is not theirs to write.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = platform::private(OpenOptions::new().write(true).create_new(true)).open(&temporary)?;
        file.write_all(&written(state)?)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, &self.path)?;
        sync_folder(&self.path)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Where a chain of links leads to, whether or not there is a file.
fn followed(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS_MAX: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        // A path that is absolute takes the place of the folder.
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
    let lock_path = beside(path, "lock");
    let failed =
        |error: &io::Error| format!("cannot use the state file {}: {}: {error}", path.display(), lock_path.display());
    let deadline = Instant::now() + LOCK_PATIENCE;
    let mut lock = loop {
        match platform::lock(&lock_path).map_err(|error| failed(&error))? {
            Lock::Held(lock) => break lock,
            Lock::Taken(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            Lock::Taken(lock) => {
                let mut holder = String::new();
                let _ = lock.take(20).read_to_string(&mut holder);
                return Err(format!(
                    "the state file {} is in use by process {}; stop that one, or give this one its own --state",
                    path.display(),
                    holder.trim()
                ));
            }
        }
    };
    let note = format!("{:<10}\n", std::process::id());
    lock.set_len(0).and_then(|()| lock.write_all(note.as_bytes())).map_err(|error| failed(&error))?;
    Ok(lock)
}

/// The file's state, or what is wrong with it; `None` where there is no file.
fn read(path: &Path) -> io::Result<Option<Result<State, String>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    Ok(Some(parse(&bytes)))
}

fn parse(bytes: &[u8]) -> Result<State, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let (head, content) = text.split_once('\n').ok_or("it has no first line")?;
    let checksum = head.strip_prefix(FORM).ok_or_else(|| match head.strip_prefix(ANY_FORM) {
        Some(other) => {
            let version: String = other.chars().take_while(char::is_ascii_digit).take(9).collect();
            format!("another version of this program wrote it: {ANY_FORM}{version}")
        }
        None => format!("its first line is not {FORM:?}"),
    })?;
    if checksum.trim() != format!("{:08x}", crc32fast::hash(content.as_bytes())) {
        return Err("its checksum is wrong, so it was cut off or changed".into());
    }
    let content: Content = serde_json::from_str(content).map_err(|error| error.to_string())?;
    let session = unhex(&content.session).ok_or("its snapshot is not hexadecimal")?;
    Ok(State { session, events: content.events, owed: content.owed })
}

fn written(state: &State) -> io::Result<Vec<u8>> {
    let mut session = String::with_capacity(state.session.len() * 2);
    for byte in &state.session {
        let _ = write!(session, "{byte:02x}");
    }
    let mut content =
        serde_json::to_string_pretty(&Content { session, events: state.events.clone(), owed: state.owed.clone() })?;
    content.push('\n');
    Ok(format!("{FORM} {:08x}\n{content}", crc32fast::hash(content.as_bytes())).into_bytes())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// `FILE.suffix`, beside the file.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// A rename lasts once its folder is on disk.
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
        let owed = vec![Owed { change: Change::StartedWithoutNotice, event: event.clone() }];
        State { session: vec![0, 1, 0xff], events: vec![event], owed }
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let folder = folder("saved");
        let path = folder.join("state");
        let (file, found) = StateFile::open(&path).unwrap();
        assert!(matches!(found, Found::Nothing));
        file.save(&state()).unwrap();
        drop(file);
        let (_, found) = StateFile::open(&path).unwrap();
        assert!(matches!(found, Found::State(found) if found == state()));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_cut_off_anywhere_is_set_aside_and_kept() {
        let folder = folder("cut");
        let path = folder.join("state");
        let whole = written(&state()).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let (_, found) = StateFile::open(&path).unwrap();
            let Found::Damaged { set_aside, .. } = found else { panic!("{end} bytes were trusted") };
            assert_eq!(fs::read(&set_aside).unwrap(), whole[..end]);
            fs::remove_file(set_aside).unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn neither_a_link_nor_a_file_of_somebody_elses_in_the_way_is_written_to() {
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
    fn a_link_is_followed_to_the_file_and_its_lock() {
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
    fn what_is_no_file_is_refused_and_stays_where_it_is() {
        let folder = folder("device");
        let error = StateFile::open(Path::new("/dev/null")).unwrap_err();
        assert!(error.contains("/dev/null: it is no regular file"), "{error}");
        assert!(!Path::new("/dev/null.lock").exists());
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, &folder] {
            assert!(StateFile::open(path).unwrap_err().contains("it is no regular file"));
        }
        assert!(pipe.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_another_version_is_called_that() {
        let folder = folder("version");
        let path = folder.join("state");
        fs::write(&path, "scheduled-events state 2 00000000\n{}\n").unwrap();
        let (_, found) = StateFile::open(&path).unwrap();
        let Found::Damaged { set_aside, why } = found else { panic!("it was trusted") };
        assert_eq!(why, "another version of this program wrote it: scheduled-events state 2");
        assert!(set_aside.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_second_user_is_refused_and_told_who_has_it() {
        let folder = folder("second");
        let path = folder.join("state");
        let first = StateFile::open(&path).unwrap();
        let refused = StateFile::open(&path).unwrap_err();
        assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
        drop(first);
        assert!(StateFile::open(&path).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_lock_that_outlives_its_process_for_a_moment_is_waited_for() {
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
    fn a_folder_that_is_not_there_is_an_error() {
        let error = StateFile::open(Path::new("/nonexistent/folder/state")).unwrap_err();
        assert!(error.contains("/nonexistent/folder/state"), "{error}");
    }
}
