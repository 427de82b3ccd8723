//! Windows: job objects, locks, owners of files.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use scheduled_events_windows::job::{self, Job};
use scheduled_events_windows::{files, text};

use super::{FileError, LockAttempt};

// From the Windows documentation of CreateFile.
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const FILE_SHARE_READ: u32 = 1;
const FILE_SHARE_WRITE: u32 = 2;
const ERROR_SHARING_VIOLATION: i32 = 32;

/// `ERROR_SHARING_VIOLATION`, `ERROR_NO_SYSTEM_RESOURCES` and `ERROR_COMMITMENT_LIMIT`.
const TEMPORARY: [i32; 3] = [ERROR_SHARING_VIOLATION, 1450, 1455];

/// Time since the first call. It never steps.
pub(crate) fn boot_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Creates the command's process so that it waits for [`CommandTree::new`], and so that a Ctrl-C for this process does not reach it.
pub(crate) fn new_group(command: &mut Command) {
    command.creation_flags(job::CREATION_FLAGS);
}

/// A command and everything that it started: a job object. The end of this process, however it comes, ends them, too.
pub(crate) struct CommandTree(Job);

impl CommandTree {
    /// Lets a command run, in a job object of its own.
    pub(crate) fn new(child: &mut Child, _mark: &str) -> io::Result<Self> {
        Job::start(child).map(Self).inspect_err(|_| {
            // It has not run yet.
            let _ = child.kill();
        })
    }

    /// Sends the command Ctrl-Break. A program that has no console is killed after the grace.
    pub(crate) fn terminate(&mut self, _child: &mut Child) {
        self.0.send_break();
    }

    /// Kills the command and everything that it started.
    pub(crate) fn kill(&mut self, _child: &mut Child) {
        self.0.kill();
    }

    /// Whether something runs that the command started, after its own process has ended.
    pub(crate) fn has_others(&mut self) -> bool {
        self.0.processes() > 0
    }

    /// Kills what is left after the command's own process has ended.
    pub(crate) fn kill_rest(&mut self, _child: &mut Child) {
        self.0.kill();
    }

    /// What the command started stays when this value is dropped.
    pub(crate) fn release(&self) {
        self.0.release();
    }
}

/// Not known here.
pub(crate) fn process_start(_process: u32) -> Option<u64> {
    None
}

/// See [`process_start`].
pub(crate) fn boot_id() -> String {
    String::new()
}

/// See [`process_start`].
pub(crate) fn end_command(_process: u32, _leader_runs: bool, _mark: &str, _kill: bool) {}

/// See [`process_start`].
pub(crate) fn has_marked_process(_mark: &str) -> bool {
    false
}

/// Follows no link. New files inherit the folder's access list.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
}

/// Opens a file for reading unless it is a link.
pub(crate) fn open_no_link(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)?;
    if file.metadata()?.is_symlink() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a link; give the path that it leads to",
        ));
    }
    Ok(file)
}

/// Renames a file so that it replaces another one, also on the disk.
pub(crate) fn replace_file(from: &Path, to: &Path) -> io::Result<()> {
    files::replace(from, to)
}

/// Decodes a line of a command's output.
pub(crate) fn decode_output(bytes: &[u8]) -> String {
    text::decode_output(bytes)
}

/// Whether a file belongs to the system alone, which is not known here.
pub(crate) fn belongs_to_root(_metadata: &Metadata) -> bool {
    false
}

/// Access lists protect the folder, and are not checked.
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn check_owner(_metadata: &Metadata) -> Result<(), FileError> {
    Ok(())
}

/// See [`check_owner`].
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn check_writers(_metadata: &Metadata) -> Result<(), FileError> {
    Ok(())
}

/// See [`check_owner`].
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

/// See [`private`].
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn make_readable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Whether the path leads to this open file. A link does not.
pub(crate) fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    files::is_same(file, path)
}

/// Opens the file so that no other process can write it. A link is opened itself, and [`check_file`](crate::files::check_file) refuses it.
pub(crate) fn lock(path: &Path) -> io::Result<LockAttempt> {
    lock_with(OpenOptions::new().create(true).truncate(false), path)
}

/// Like [`lock`], for a file that does not exist.
pub(crate) fn lock_new(path: &Path) -> io::Result<LockAttempt> {
    lock_with(OpenOptions::new().create_new(true), path)
}

/// The lock file, if a process has the lock: open for reading.
pub(crate) fn lock_holder(path: &Path) -> io::Result<Option<File>> {
    let shared = FILE_SHARE_READ | FILE_SHARE_WRITE;
    match private(OpenOptions::new().write(true))
        .share_mode(shared)
        .open(path)
    {
        Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => {
            private(OpenOptions::new().read(true))
                .share_mode(shared)
                .open(path)
                .map(Some)
        }
        opened => opened.map(|_| None),
    }
}

fn lock_with(options: &mut OpenOptions, path: &Path) -> io::Result<LockAttempt> {
    private(options.read(true).write(true)).share_mode(FILE_SHARE_READ);
    match options.open(path) {
        Ok(file) => Ok(LockAttempt::Acquired(file)),
        Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => {
            let shared = FILE_SHARE_READ | FILE_SHARE_WRITE;
            private(OpenOptions::new().read(true))
                .share_mode(shared)
                .open(path)
                .map(LockAttempt::Held)
        }
        Err(error) => Err(error),
    }
}

/// Closing the file releases the lock.
pub(crate) fn unlock(_file: &File) {}

/// Windows needs no more for a durable rename.
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether starting a process failed for a reason that may go away: no memory, no system resources, a page file that grows, or a
/// program that is being written.
pub(crate) fn is_temporary_spawn_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
        || error
            .raw_os_error()
            .is_some_and(|code| TEMPORARY.contains(&code))
}
