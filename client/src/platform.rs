//! What differs between operating systems: one module for Unix and one for Windows, with the same functions.

use std::fs::File;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Result of trying to lock a file.
pub(crate) enum LockAttempt {
    /// This process has the lock until the file is closed.
    Acquired(File),
    /// Another process has the lock. The file is open for reading.
    Held(File),
}

#[cfg(unix)]
mod unix {
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, kill_process_group};
    use rustix::time::{ClockId, clock_gettime};
    use sd_notify::NotifyState;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use super::LockAttempt;

    /// How long the process has to stop, its commands included, before another signal ends it at once.
    const STOP_TIMEOUT: Duration = Duration::from_secs(3);

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

    /// Asks the command's process group to terminate.
    pub(crate) fn terminate_group(child: &mut Child) {
        signal_group(child, Signal::TERM);
    }

    /// Kills the command's process group.
    pub(crate) fn kill_group(child: &mut Child) {
        signal_group(child, Signal::KILL);
    }

    fn signal_group(child: &Child, signal: Signal) {
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            // Fails if the group has already ended.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Creates files for this user alone, and follows no symbolic link: in a folder where others can write, a link could lead
    /// anywhere.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
    }

    /// Opens the file, and locks it unless another process has the lock.
    pub(crate) fn lock(path: &Path) -> io::Result<LockAttempt> {
        let file = private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(LockAttempt::Acquired(file)),
            Err(Errno::WOULDBLOCK) => Ok(LockAttempt::Held(file)),
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
        let temporary = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
        Errno::from_io_error(error).is_some_and(|error| temporary.contains(&error))
    }

    /// From now on, a write beyond the limit on file sizes fails and does not end the process.
    pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
    }

    /// Calls the function on another thread each time a signal asks the process to stop: SIGINT, SIGTERM, and SIGHUP unless the
    /// process was started with SIGHUP ignored, as by nohup. A signal that arrives when the process should have stopped ends it.
    pub(crate) fn on_stop_signal(stop: impl Fn() + Send + 'static) -> io::Result<()> {
        let mut stop_signals = vec![SIGINT, SIGTERM];
        if !hang_up_is_ignored() {
            stop_signals.push(SIGHUP);
        }
        let mut signals = Signals::new(stop_signals)?;
        let handle = move || {
            let mut first: Option<Instant> = None;
            for signal in signals.forever() {
                if first.get_or_insert_with(Instant::now).elapsed() > STOP_TIMEOUT {
                    let _ = emulate_default_handler(signal);
                }
                stop();
            }
        };
        thread::Builder::new().spawn(handle).map(drop)
    }

    /// Whether the process was started with SIGHUP ignored. Linux shows a mask whose lowest bit is signal 1, which is SIGHUP.
    fn hang_up_is_ignored() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    }

    /// Whether systemd expects notifications.
    pub(crate) fn has_supervisor() -> bool {
        std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
    }

    /// The time without a keep-alive after which systemd considers the process hung, if there is one.
    pub(crate) fn watchdog_timeout() -> Option<Duration> {
        sd_notify::watchdog_enabled()
    }

    /// Notifies systemd that the process is ready, of its status, and that it is alive, as far as they are given.
    pub(crate) fn notify_supervisor(ready: bool, status: Option<&str>, alive: bool) {
        let notifications = [
            ready.then_some(NotifyState::Ready),
            status.map(NotifyState::Status),
            alive.then_some(NotifyState::Watchdog),
        ];
        // Nothing depends on it, and the journal has the same information.
        let _ = sd_notify::notify(&notifications.into_iter().flatten().collect::<Vec<_>>());
    }

    /// Notifies systemd that the process is stopping.
    pub(crate) fn notify_stopping() {
        let _ = sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }
}

#[cfg(windows)]
mod windows {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt;
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

    /// Asks the windows of the command and its children to close.
    pub(crate) fn terminate_group(child: &mut Child) {
        taskkill(child, &[]);
    }

    /// Kills the command and its children.
    pub(crate) fn kill_group(child: &mut Child) {
        if !taskkill(child, &["/F"]) {
            // Fails if it has already ended.
            let _ = child.kill();
        }
    }

    fn taskkill(child: &Child, options: &[&str]) -> bool {
        let mut taskkill = Command::new("taskkill");
        taskkill.args(options).args(["/T", "/PID", &child.id().to_string()]);
        let status = taskkill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// New files inherit the folder's access list.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    /// Opens the file so that no other process can write it.
    pub(crate) fn lock(path: &Path) -> io::Result<LockAttempt> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).share_mode(FILE_SHARE_READ);
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
}
