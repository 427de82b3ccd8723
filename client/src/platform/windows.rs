//! Windows: process groups, signals, locks.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::net::TcpListener;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::LockAttempt;

// From the Windows documentation of CreateProcess, CreateFile and system error codes.
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
const FILE_SHARE_READ: u32 = 1;
const FILE_SHARE_WRITE: u32 = 2;
const ERROR_SHARING_VIOLATION: i32 = 32;

/// Time since the first call. It never steps.
pub(crate) fn boot_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Puts the command in a process group of its own, so that a Ctrl-C for this process does not reach it.
pub(crate) fn new_group(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// A command and its children.
pub(crate) struct CommandTree;

#[allow(clippy::unused_self)] // The same functions as on Unix.
impl CommandTree {
    /// The tree of a command.
    pub(crate) fn new(_child: &Child, _mark: &str) -> Self {
        Self
    }

    /// Asks the windows of the command and its children to close.
    pub(crate) fn terminate(&mut self, child: &mut Child) {
        taskkill(child, &[]);
    }

    /// Kills the command and its children.
    pub(crate) fn kill(&mut self, child: &mut Child) {
        if !taskkill(child, &["/F"]) {
            // Fails if it has already ended.
            let _ = child.kill();
        }
    }

    /// Not known here.
    pub(crate) fn has_others(&mut self) -> bool {
        false
    }

    /// Kills what is left after the command's own process has ended.
    pub(crate) fn kill_rest(&mut self, child: &mut Child) {
        taskkill(child, &["/F"]);
    }
}

fn taskkill(child: &Child, options: &[&str]) -> bool {
    let mut taskkill = Command::new("taskkill");
    taskkill.args(options).args(["/T", "/PID", &child.id().to_string()]);
    let status = taskkill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
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

/// New files inherit the folder's access list.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a file for reading.
pub(crate) fn open_no_link(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Whether a file belongs to the system alone, which is not known here.
pub(crate) fn belongs_to_root(_metadata: &Metadata) -> bool {
    false
}

/// Access lists protect the folder, and are not checked.
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn check_owner(_metadata: &Metadata) -> Result<(), String> {
    Ok(())
}

/// See [`check_owner`].
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn check_writers(_metadata: &Metadata) -> Result<(), String> {
    Ok(())
}

/// See [`check_owner`].
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

/// There is no journal.
pub(crate) fn is_stream(_stream: &impl AsHandle, _named: &str) -> bool {
    false
}

/// See [`is_stream`].
#[derive(Debug)]
pub(crate) struct DatagramSocket;

impl DatagramSocket {
    /// See [`is_stream`].
    pub(crate) fn connect(_path: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// See [`is_stream`].
    #[allow(clippy::unused_self)] // The same method as on Unix.
    pub(crate) fn send(&self, _datagram: &[u8]) -> bool {
        false
    }
}

/// See [`private`].
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn make_readable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// A file that is open without `FILE_SHARE_DELETE` cannot be replaced.
pub(crate) fn is_same_file(_one: &Metadata, _other: &Metadata) -> bool {
    true
}

/// Opens the file so that no other process can write it.
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
    match OpenOptions::new().write(true).share_mode(shared).open(path) {
        Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => {
            OpenOptions::new().read(true).share_mode(shared).open(path).map(Some)
        }
        opened => opened.map(|_| None),
    }
}

fn lock_with(options: &mut OpenOptions, path: &Path) -> io::Result<LockAttempt> {
    options.read(true).write(true).share_mode(FILE_SHARE_READ);
    match options.open(path) {
        Ok(file) => Ok(LockAttempt::Acquired(file)),
        Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => {
            let shared = FILE_SHARE_READ | FILE_SHARE_WRITE;
            OpenOptions::new().read(true).share_mode(shared).open(path).map(LockAttempt::Held)
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

/// Calls the function on another thread each time Ctrl-C asks the process to stop.
pub(crate) fn on_stop_signal(stop: impl Fn() + Send + 'static) -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    let answer = move || {
        loop {
            if asked.swap(false, Ordering::SeqCst) {
                stop();
            }
            thread::sleep(Duration::from_millis(100));
        }
    };
    thread::Builder::new().spawn(answer).map(drop)
}

/// Waits for a connection. Returns whether there may be one.
pub(crate) fn wait_for_connection(_listener: &TcpListener, _timeout: Duration) -> bool {
    thread::sleep(Duration::from_millis(5));
    true
}

/// Whether starting a process failed for a reason that may go away.
pub(crate) fn is_temporary_spawn_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
}

/// Windows has no such limit.
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
    Ok(())
}

/// Windows has no supervisor that expects notifications.
pub(crate) fn has_supervisor() -> bool {
    false
}

/// See [`has_supervisor`].
pub(crate) fn watchdog_timeout() -> Option<Duration> {
    None
}

/// See [`has_supervisor`].
pub(crate) fn notify_supervisor(_ready: bool, _status: Option<&str>, _alive: bool) {}

/// See [`has_supervisor`].
pub(crate) fn notify_stopping() {}
