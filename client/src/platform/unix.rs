//! Unix: process groups, locks, owners of files.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, geteuid, kill_process_group, waitid};
use rustix::time::{ClockId, clock_gettime};

use super::{FileError, LockAttempt};

/// How often the processes are searched for that an ended command left running.
const KILL_ROUNDS: u32 = 20;

/// Time since the machine started, including suspended time. It never steps.
pub(crate) fn boot_time() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Puts the command in a process group of its own, so that it can be ended with its children.
pub(crate) fn new_group(command: &mut Command) {
    command.process_group(0);
}

/// A command and everything that it started, as far as that can be found.
pub(crate) struct CommandTree {
    /// The command's process, which is the leader of its group.
    leader: Option<Pid>,
    #[cfg(target_os = "linux")]
    others: super::linux::Descendants,
}

impl CommandTree {
    /// The tree of a command that has the mark as its variable [`COMMAND_ID`](super::COMMAND_ID).
    #[allow(clippy::unnecessary_wraps, clippy::needless_pass_by_ref_mut)] // The same function as on Windows.
    pub(crate) fn new(child: &mut Child, mark: &str) -> io::Result<Self> {
        Ok(Self::of(Some(child.id()), mark))
    }

    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
    fn of(process: Option<u32>, mark: &str) -> Self {
        Self {
            leader: process.and_then(|process| Pid::from_raw(process.cast_signed())),
            #[cfg(target_os = "linux")]
            others: super::linux::Descendants::new(process, mark),
        }
    }

    /// Asks all processes to terminate.
    pub(crate) fn terminate(&mut self, _child: &mut Child) {
        self.signal(Signal::TERM, true);
    }

    /// Kills all processes.
    pub(crate) fn kill(&mut self, _child: &mut Child) {
        self.signal(Signal::KILL, true);
    }

    /// Kills what is left after the command's own process has ended.
    pub(crate) fn kill_rest(&mut self, _child: &mut Child) {
        // A process that is killed may just have started another one.
        for _ in 0..KILL_ROUNDS {
            if !self.signal(Signal::KILL, false) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the command started stays.
    #[allow(clippy::unused_self)] // The same method as on Windows.
    pub(crate) fn release(&self) {}

    /// Asks all processes to terminate. The command's own may have ended.
    pub(crate) fn terminate_all(&mut self, leader_runs: bool) {
        self.signal(Signal::TERM, leader_runs);
    }

    /// Kills all processes. The command's own may have ended.
    pub(crate) fn kill_all(&mut self, leader_runs: bool) {
        self.signal(Signal::KILL, leader_runs);
    }

    /// Sends a signal to the process group.
    pub(crate) fn pass_on(&self, signal: i32) {
        if let Some((leader, signal)) = self.leader.zip(Signal::from_named_raw(signal)) {
            // Fails if the group has already ended.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Whether something runs that the command started, after its own process has ended.
    pub(crate) fn has_others(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        {
            self.others.find(false);
            !self.others.is_empty()
        }
        #[cfg(not(target_os = "linux"))]
        self.leader
            .is_some_and(|leader| rustix::process::test_kill_process_group(leader).is_ok())
    }

    /// Sends a signal to all processes. Returns whether there was one outside the group.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
    fn signal(&mut self, signal: Signal, leader_runs: bool) -> bool {
        // Before the signal ends what connects them.
        #[cfg(target_os = "linux")]
        self.others.find(leader_runs);
        // Fails if the group has already ended.
        let _ = self.leader.map(|leader| kill_process_group(leader, signal));
        #[cfg(target_os = "linux")]
        let is_found = self.others.signal(signal);
        #[cfg(not(target_os = "linux"))]
        let is_found = false;
        is_found
    }
}

/// Waits until a child of this process has ended, and leaves its status to the caller that collects it. Returns false if it cannot be
/// waited for.
pub(crate) fn wait_for_end(child: u32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let Some(child) = Pid::from_raw(child.cast_signed()) else {
        return false;
    };
    loop {
        match waitid(WaitId::Pid(child), options) {
            Err(Errno::INTR) => {}
            ended => return ended.is_ok(),
        }
    }
}

/// When a process started, if it runs. Together with its id that identifies it until the machine starts again.
#[cfg(target_os = "linux")]
pub(crate) fn process_start(process: u32) -> Option<u64> {
    super::linux::process_start(process)
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn process_start(_process: u32) -> Option<u64> {
    None
}

/// A text that changes when the machine starts again: from [`BOOT_ID`](super::BOOT_ID), or from the system; empty if neither has it.
pub(crate) fn boot_id() -> String {
    let given = std::env::var(super::BOOT_ID).unwrap_or_default();
    let id = if given.is_empty() {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    } else {
        given
    };
    // systemd writes it without the hyphens.
    id.trim().replace('-', "")
}

/// Whether a process runs that has the mark of a command in its environment.
#[cfg(target_os = "linux")]
pub(crate) fn has_marked_process(mark: &str) -> bool {
    super::linux::Descendants::new(None, mark).exist()
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn has_marked_process(_mark: &str) -> bool {
    false
}

/// Asks a command to terminate that another process started, with all that it started; or kills them. If its own process has ended,
/// its id may be that of another one.
pub(crate) fn end_command(process: u32, leader_runs: bool, mark: &str, kill: bool) {
    let signal = if kill { Signal::KILL } else { Signal::TERM };
    CommandTree::of(leader_runs.then_some(process), mark).signal(signal, leader_runs);
}

/// Creates files for this user alone, and follows no symbolic link: in a folder where others can write, a link could lead
/// anywhere.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
}

/// Opens a file for reading unless it is a link, without waiting for the other end of a pipe.
pub(crate) fn open_no_link(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Renames a file so that it replaces another one.
pub(crate) fn replace_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Decodes a line of a command's output.
pub(crate) fn decode_output(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks that a file or folder belongs to this user or to root.
///
/// # Errors
/// [`FileError::OwnedBy`].
pub(crate) fn check_owner(metadata: &Metadata) -> Result<(), FileError> {
    match metadata.uid() {
        0 => Ok(()),
        owner if owner == geteuid().as_raw() => Ok(()),
        user => Err(FileError::OwnedBy { user }),
    }
}

/// Whether a file belongs to root and nobody else can write it.
pub(crate) fn belongs_to_root(metadata: &Metadata) -> bool {
    metadata.uid() == 0 && check_writers(metadata).is_ok()
}

/// Checks that only its owner can write a file.
///
/// # Errors
/// [`FileError::WritableByOthers`].
pub(crate) fn check_writers(metadata: &Metadata) -> Result<(), FileError> {
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 == 0 {
        Ok(())
    } else {
        Err(FileError::WritableByOthers { mode })
    }
}

/// Lets nobody but its owner read a file, if that is this user.
pub(crate) fn make_private(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o700 == mode || metadata.uid() != geteuid().as_raw() {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Lets everybody read a file, and only its owner write it, whatever the umask.
pub(crate) fn make_readable(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Whether the path leads to this open file. A link does not.
pub(crate) fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let (one, other) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Opens the file, which need not exist, and locks it unless another process has the lock.
pub(crate) fn lock(path: &Path) -> io::Result<LockAttempt> {
    lock_with(OpenOptions::new().create(true).truncate(false), path)
}

/// Like [`lock`], for a file that does not exist.
pub(crate) fn lock_new(path: &Path) -> io::Result<LockAttempt> {
    lock_with(OpenOptions::new().create_new(true), path)
}

fn lock_with(options: &mut OpenOptions, path: &Path) -> io::Result<LockAttempt> {
    let file = private(options.read(true).write(true)).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(LockAttempt::Acquired(file)),
        Err(Errno::WOULDBLOCK) => Ok(LockAttempt::Held(file)),
        Err(error) => Err(error.into()),
    }
}

/// The lock file, if a process has the lock: open for reading. This process has the lock for a moment if nobody else does.
pub(crate) fn lock_holder(path: &Path) -> io::Result<Option<File>> {
    open_lock(path).map(|(file, is_held)| is_held.then_some(file))
}

/// The lock file, open for reading, and whether a process has the lock. This process has it for a moment if nobody else does.
pub(crate) fn open_lock(path: &Path) -> io::Result<(File, bool)> {
    let file = open_no_link(path)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok((file, false)),
        Err(Errno::WOULDBLOCK) => Ok((file, true)),
        Err(error) => Err(error.into()),
    }
}

/// Releases the lock, even if a forked process still has the file open.
pub(crate) fn unlock(file: &File) {
    let _ = flock(file, FlockOperation::Unlock);
}

/// Makes a rename in the folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether starting a process failed for a reason that may go away: too many processes or open files, no memory, or a program
/// that is being written.
pub(crate) fn is_temporary_spawn_error(error: &io::Error) -> bool {
    let temporary = [
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::TXTBSY,
    ];
    Errno::from_io_error(error).is_some_and(|error| temporary.contains(&error))
}
