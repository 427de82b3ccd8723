//! The lock of a state file or an audit file: which process uses it, and which commands that process runs.
//!
//! The lock file's first line has the id of the process. The second one identifies the time since the machine started, and each
//! further one a running command. A process that is killed leaves them there for the next one.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{FileError, check_file, is_disk_full, sibling};
use crate::limits::LOCK_TIMEOUT;
use crate::platform::{self, LockAttempt};

/// The extension of a lock file, after the name of the file that it locks.
pub const LOCK_SUFFIX: &str = "lock";

/// The longest lock file. A longer file is something else, and must not be overwritten.
const LOCK_FILE_MAX: u64 = 256 * 1024;

/// The length of the first line of a lock file, a process id, in bytes.
const LOCK_LINE_MAX: u64 = 11;

/// The lock of a file that one process at a time may write. Dropping it releases the lock.
///
/// ```
/// use scheduled_events::files::lock::{FileLock, LockError};
///
/// # let folder = std::env::temp_dir().join(format!("lock-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let path = folder.join("numbers");
/// let lock = FileLock::acquire(&path, "file of numbers")?; // creates numbers.lock
/// assert!(matches!(FileLock::acquire(&path, "file of numbers"), Err(LockError::InUse { .. })));
/// assert!(lock.check(&path).is_ok());
/// drop(lock);
///
/// let lock_file = folder.join("once");
/// let lock = FileLock::acquire_at(&lock_file, &lock_file, "lock")?; // the lock file itself has this name
/// assert!(lock.check_at(&lock_file).is_ok());
/// assert!(lock.commands().is_empty()); // no earlier holder was killed while a command ran
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), LockError>(())
/// ```
#[derive(Debug)]
pub struct FileLock {
    /// What the file is, for messages: `state file`.
    what: &'static str,
    inner: Arc<Mutex<Inner>>,
    /// The process that has the lock. A process forked from it has a copy of this value, which must not release the lock.
    process: u32,
}

#[derive(Debug)]
struct Inner {
    file: LockFile,
    commands: BTreeMap<u32, CommandProcess>,
}

#[derive(Debug)]
enum LockFile {
    /// The system releases the lock when the process ends, in whatever way.
    Held(File),
    /// Another process has replaced the lock file, and may use the state file.
    Lost,
    /// The state file is only read.
    None,
}

/// The process of a command that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandProcess {
    pub(crate) process: u32,
    /// When it started; see [`platform::process_start`].
    pub(crate) started: u64,
    /// What the command and its children have in their environment.
    pub(crate) mark: String,
}

/// How the mark of a `run`'s worker starts.
pub(crate) const WORKER_MARK: &str = "worker-";

impl CommandProcess {
    /// Whether the process still runs, and not another one that has its id by now; or, of a worker, something that it started. What
    /// another command leaves when it ends by itself is not part of it any more.
    pub(crate) fn runs(&self) -> bool {
        self.leader_runs() || self.is_worker() && platform::has_marked_process(&self.mark)
    }

    /// Asks all that still belongs to the command to terminate, or kills it.
    pub(crate) fn end(&self, kill: bool) {
        platform::end_command(self.process, self.leader_runs(), &self.mark, kill);
    }

    pub(crate) fn is_worker(&self) -> bool {
        self.mark.starts_with(WORKER_MARK)
    }

    fn leader_runs(&self) -> bool {
        platform::process_start(self.process) == Some(self.started)
    }
}

/// The running commands in a lock file. [`hooks::register_with`](crate::hooks::register_with) adds those that are started.
///
/// ```
/// use scheduled_events::files::lock::FileLock;
///
/// # let path = std::env::temp_dir().join(format!("register-of-lock-example-{}", std::process::id()));
/// let lock = FileLock::acquire_at(&path, &path, "lock")?;
/// assert!(lock.commands().is_empty());
/// # drop(lock);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CommandRegister(Arc<Mutex<Inner>>);

impl CommandRegister {
    pub(crate) fn add(&self, command: CommandProcess) {
        self.change(|commands| drop(commands.insert(command.process, command)));
    }

    pub(crate) fn remove(&self, process: u32) {
        self.change(|commands| drop(commands.remove(&process)));
    }

    /// Whether no command is registered.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).commands.is_empty()
    }

    /// All commands that are registered.
    pub(crate) fn all(&self) -> Vec<CommandProcess> {
        lock(&self.0).commands.values().cloned().collect()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u32, CommandProcess>)) {
        let mut inner = lock(&self.0);
        change(&mut inner.commands);
        // A full disk must not stop a command. Without the entry, the next run may start it beside itself.
        let _ = inner.write();
    }
}

impl Inner {
    fn write(&mut self) -> io::Result<()> {
        let LockFile::Held(file) = &mut self.file else {
            return Ok(());
        };
        let mut text = format!("{:<10}\n{}\n", process::id(), platform::boot_id());
        for CommandProcess {
            process,
            started,
            mark,
        } in self.commands.values()
        {
            let _ = writeln!(text, "{process} {started} {mark}");
        }
        // No sync: commands do not survive a crash of the machine.
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    }
}

impl FileLock {
    /// No lock, for a file that is only read.
    pub(crate) fn none(what: &'static str) -> Self {
        Self::with(what, LockFile::None, BTreeMap::new())
    }

    /// Locks the file at `path`, which is a `what`. A lock that is released soon is waited for.
    ///
    /// # Errors
    /// [`LockError`]: another process has the lock, or the lock file cannot be used.
    pub fn acquire(path: &Path, what: &'static str) -> Result<Self, LockError> {
        Self::acquire_at(path, &sibling(path, LOCK_SUFFIX), what)
    }

    /// Locks the file at `path` through the lock file at `named`, which may be the same one.
    ///
    /// # Errors
    /// Those of [`acquire`](Self::acquire).
    pub fn acquire_at(path: &Path, named: &Path, what: &'static str) -> Result<Self, LockError> {
        let mut file = open(path, named, what)?;
        let mut text = String::new();
        // A damaged lock file has no commands.
        let _ = file.read_to_string(&mut text);
        let lock = Self::with(what, LockFile::Held(file), left_running(&text));
        let written = lock.inner().write();
        match written {
            // The lock is held all the same. What it protects is written to the same disk, and that failure is reported.
            Err(error) if !is_disk_full(&error) => Err(LockError::Unusable {
                what,
                path: path.to_owned(),
                lock: named.to_owned(),
                problem: LockProblem::Io(error),
            }),
            _ => Ok(lock),
        }
    }

    fn with(what: &'static str, file: LockFile, commands: BTreeMap<u32, CommandProcess>) -> Self {
        Self {
            what,
            inner: Arc::new(Mutex::new(Inner { file, commands })),
            process: process::id(),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self.inner().file, LockFile::None)
    }

    /// The register of running commands in the lock file.
    pub fn commands(&self) -> CommandRegister {
        CommandRegister(Arc::clone(&self.inner))
    }

    /// Checks that the file at `path` is still locked for this process. A lock file that was removed is created again.
    ///
    /// # Errors
    /// Those of the system, and one that says that another process has replaced the lock file.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        self.check_at(&sibling(path, LOCK_SUFFIX))
    }

    /// Checks that the lock file at this path is still locked for this process. One that was removed is created again.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub fn check_at(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        let held = match &inner.file {
            LockFile::Held(held) => held,
            LockFile::Lost => return Err(self.replaced(path)),
            LockFile::None => return Err(io::Error::other("it is only read, not written")),
        };
        match platform::is_same_file(held, path) {
            Ok(true) => {
                if held.metadata()?.len() == 0 {
                    // The disk was full at the start.
                    let _ = inner.write();
                }
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match platform::lock_new(path)
            {
                Ok(LockAttempt::Acquired(new)) => {
                    inner.file = LockFile::Held(new);
                    return inner.write();
                }
                // Another process was faster.
                Ok(LockAttempt::Held(_)) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            },
            Ok(false) => {}
            Err(error) => return Err(error),
        }
        inner.file = LockFile::Lost;
        Err(self.replaced(path))
    }

    fn replaced(&self, lock_path: &Path) -> io::Error {
        io::Error::other(format!(
            "{} was replaced, so another process may use the {}; this one does not write it any more: stop one of them, and \
             restart the other",
            lock_path.display(),
            self.what
        ))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A register may still have the file open.
        let mut inner = self.inner();
        if let LockFile::Held(file) = &inner.file
            && self.process == process::id()
        {
            platform::unlock(file);
            inner.file = LockFile::None;
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The commands that a lock file lists, whether they run or not.
fn listed(text: &str) -> impl Iterator<Item = CommandProcess> {
    text.lines().skip(2).filter_map(|line| {
        let mut words = line.split(' ');
        let (process, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(CommandProcess {
            process,
            started,
            mark: words.next()?.to_owned(),
        })
    })
}

/// The commands in a lock file that still run.
fn left_running(text: &str) -> BTreeMap<u32, CommandProcess> {
    let (boot, now) = (text.lines().nth(1).unwrap_or_default(), platform::boot_id());
    let is_known = !boot.is_empty() && !now.is_empty();
    if is_known && boot != now {
        return BTreeMap::new();
    }
    // If the system does not identify its boots, the ids may be those of other processes. A mark is a command's alone.
    let runs = |command: &CommandProcess| {
        if is_known {
            command.runs()
        } else {
            platform::has_marked_process(&command.mark)
        }
    };
    listed(text)
        .filter(runs)
        .map(|command| (command.process, command))
        .collect()
}

/// The number of workers that are registered in the lock file at this path and are not gone, with all that they started. The process
/// that holds the lock removes those that are gone, so that all others count, even if they cannot be seen from here, as in another
/// process namespace.
///
/// # Errors
/// An error of the system. A file that was removed meanwhile has none.
///
/// ```
/// use scheduled_events::files::lock::{FileLock, workers_in};
///
/// # let path = std::env::temp_dir().join(format!("workers-in-example-{}.lock", std::process::id()));
/// let lock = FileLock::acquire_at(&path, &path, "lock")?;
/// assert_eq!(workers_in(&path)?, 0);
/// # drop(lock);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(unix)]
pub fn workers_in(lock_path: &Path) -> io::Result<usize> {
    let (mut file, is_held) = match platform::open_lock(lock_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    let mut text = String::new();
    // A damaged lock file has no commands.
    let _ = (&mut file).take(LOCK_FILE_MAX).read_to_string(&mut text);
    if is_held {
        return Ok(listed(&text).filter(CommandProcess::is_worker).count());
    }
    Ok(left_running(&text)
        .values()
        .filter(|command| command.is_worker())
        .count())
}

/// Opens and locks the lock file at `lock_path`, of the file at `path`.
fn open(path: &Path, lock_path: &Path, what: &'static str) -> Result<File, LockError> {
    let unusable = |problem| LockError::Unusable {
        what,
        path: path.to_owned(),
        lock: lock_path.to_owned(),
        problem,
    };
    let failed = |error| unusable(LockProblem::Io(error));
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match platform::lock(lock_path).map_err(failed)? {
            LockAttempt::Acquired(lock) => {
                check_file(&lock).map_err(|error| unusable(LockProblem::Refused(error)))?;
                if !is_lock(&lock).map_err(failed)? {
                    return Err(unusable(LockProblem::NotALock));
                }
                platform::make_private(&lock).map_err(failed)?;
                if platform::is_same_file(&lock, lock_path).is_ok_and(|is_same| is_same) {
                    return Ok(lock);
                }
                // It was replaced meanwhile.
                if Instant::now() >= deadline {
                    return Err(unusable(LockProblem::Replaced));
                }
            }
            LockAttempt::Held(_) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            LockAttempt::Held(lock) => {
                let mut holder = String::new();
                let _ = lock.take(20).read_to_string(&mut holder);
                let first = holder.lines().next().unwrap_or_default();
                return Err(LockError::InUse {
                    what,
                    path: path.to_owned(),
                    process: first.trim().parse().ok(),
                });
            }
        }
    }
}

/// Whether a file is empty or has the content of a lock file, which begins with the id of a process. A loss of power may leave zeros.
fn is_lock(mut file: &File) -> io::Result<bool> {
    if file.metadata()?.len() > LOCK_FILE_MAX {
        return Ok(false);
    }
    let mut start = Vec::new();
    file.take(LOCK_LINE_MAX).read_to_end(&mut start)?;
    file.rewind()?;
    let line = start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let first = String::from_utf8_lossy(line);
    let first = first.trim_matches([' ', '\0', '\r']);
    Ok(first.is_empty() || first.parse::<u32>().is_ok())
}

/// Why a file cannot be locked.
///
/// ```
/// use std::path::PathBuf;
///
/// use scheduled_events::files::lock::LockError;
///
/// let error = LockError::InUse { what: "state file", path: PathBuf::from("state"), process: Some(1) };
/// assert_eq!(
///     error.to_string(),
///     "the state file state is in use by process 1; stop that process or use another state file"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has the lock, or this one has it already.
    InUse {
        /// What is locked: `state file`.
        what: &'static str,
        /// The path of what is locked.
        path: PathBuf,
        /// The id of the process, if the lock file has it.
        process: Option<u32>,
    },
    /// The lock file cannot be used.
    Unusable {
        /// What was to be locked: `state file`.
        what: &'static str,
        /// The path of what was to be locked.
        path: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// What is wrong with the lock file.
        problem: LockProblem,
    },
}

/// What is wrong with a lock file.
///
/// ```
/// use scheduled_events::files::lock::{FileLock, LockError, LockProblem};
///
/// let path = std::env::temp_dir().join("no/such/folder/lock");
/// let refused = FileLock::acquire_at(&path, &path, "lock");
/// assert!(matches!(refused, Err(LockError::Unusable { problem: LockProblem::Io(_), .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LockProblem {
    /// The system cannot open, lock or write it.
    Io(io::Error),
    /// Another user owns it, or can write it, or it is no file.
    Refused(FileError),
    /// Its content is not that of a lock file.
    NotALock,
    /// Other processes replace it again and again.
    Replaced,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse {
                what,
                path,
                process,
            } => {
                let advice = match process {
                    None => format!("another process; stop that process or use another {what}"),
                    Some(id) if *id == process::id() => {
                        format!("process {id}, which is this one; use another {what}")
                    }
                    Some(id) => format!("process {id}; stop that process or use another {what}"),
                };
                write!(f, "the {what} {} is in use by {advice}", path.display())
            }
            Self::Unusable {
                what,
                path,
                lock,
                problem,
            } => {
                let lock = lock.display();
                let reason = match problem {
                    LockProblem::Io(error) => {
                        let path = path.display();
                        return write!(f, "cannot use the {what} {path}: {lock}: {error}");
                    }
                    LockProblem::Refused(error) => format!("{lock} {error}; remove it"),
                    LockProblem::NotALock => {
                        format!("{lock} is not a lock file; choose another path")
                    }
                    LockProblem::Replaced => format!("{lock} is replaced all the time"),
                };
                write!(f, "cannot use the {what} {}: {reason}", path.display())
            }
        }
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unusable { problem, .. } => match problem {
                LockProblem::Io(error) => Some(error),
                LockProblem::Refused(error) => Some(error),
                LockProblem::NotALock | LockProblem::Replaced => None,
            },
            Self::InUse { .. } => None,
        }
    }
}
