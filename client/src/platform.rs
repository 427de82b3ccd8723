//! What differs between operating systems, and nothing else: one part for Unix, one for Windows, with the same functions.

use std::fs::File;

#[cfg(unix)]
pub(crate) use unix::{
    boot_time, end_group, in_own_group, lock, on_stop, passes, private, supervisor_listens, supervisor_patience,
    survive_file_limits, sync_folder, tell_supervisor, tell_supervisor_of_stop, unlock,
};
#[cfg(windows)]
pub(crate) use windows::{
    boot_time, end_group, in_own_group, lock, on_stop, passes, private, supervisor_listens, supervisor_patience,
    survive_file_limits, sync_folder, tell_supervisor, tell_supervisor_of_stop, unlock,
};

/// What came of the wish for a lock.
pub(crate) enum Lock {
    /// It is held until the file is closed, however this process ends.
    Held(File),
    /// Another process holds it; the file is open for reading.
    Taken(File),
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

    use super::Lock;

    /// How long a process that was asked to stop has for it, commands that it runs included.
    const STOP_PATIENCE: Duration = Duration::from_secs(3);

    /// Time since the machine started, sleep included; it never steps.
    pub(crate) fn boot_time() -> Duration {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = ClockId::Monotonic;
        Duration::try_from(clock_gettime(clock)).unwrap_or_default()
    }

    /// Makes the command the head of a process group of its own, so that it can be ended with all that it started.
    pub(crate) fn in_own_group(command: &mut Command) {
        command.process_group(0);
    }

    /// Ends the command's process group: politely, or for good.
    pub(crate) fn end_group(child: &mut Child, for_good: bool) {
        let signal = if for_good { Signal::KILL } else { Signal::TERM };
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            // It may be gone already, which is what was wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// New files are for this user alone, and a link in a file's place is not followed: in a folder where others may
    /// write, it could lead anywhere.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
    }

    /// Opens the file and locks it.
    pub(crate) fn lock(path: &Path) -> io::Result<Lock> {
        let file = private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock::Held(file)),
            Err(Errno::WOULDBLOCK) => Ok(Lock::Taken(file)),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the lock back, whoever else has the file open.
    pub(crate) fn unlock(file: &File) {
        let _ = flock(file, FlockOperation::Unlock);
    }

    /// A rename lasts once its folder is on disk.
    pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// Whether a process could not be started for a reason that may pass: too many of them, or of their files, no memory,
    /// or a program that is being written.
    pub(crate) fn passes(error: &io::Error) -> bool {
        let passing = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
        Errno::from_io_error(error).is_some_and(|error| passing.contains(&error))
    }

    /// From now on a limit on the size of files fails a write, and does not end the process.
    pub(crate) fn survive_file_limits() -> io::Result<()> {
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
    }

    /// Calls the function, from another thread, each time when a signal asks the process to stop: SIGINT, SIGTERM, or
    /// SIGHUP from a terminal that is closed, unless whoever started the process wants that ignored, as nohup does. A
    /// process that was asked and does not stop is ended by the next signal.
    pub(crate) fn on_stop(stop: impl Fn() + Send + 'static) -> io::Result<()> {
        let mut wanted = vec![SIGINT, SIGTERM];
        if !hang_up_is_ignored() {
            wanted.push(SIGHUP);
        }
        let mut signals = Signals::new(wanted)?;
        let answer = move || {
            let mut asked: Option<Instant> = None;
            for signal in signals.forever() {
                if asked.get_or_insert_with(Instant::now).elapsed() > STOP_PATIENCE {
                    let _ = emulate_default_handler(signal);
                }
                stop();
            }
        };
        thread::Builder::new().spawn(answer).map(drop)
    }

    /// Linux tells by a mask whose lowest bit is signal 1.
    fn hang_up_is_ignored() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    }

    /// Whether systemd started the process and wants to hear how it is doing.
    pub(crate) fn supervisor_listens() -> bool {
        std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
    }

    /// The silence after which systemd gives the process up, if ever.
    pub(crate) fn supervisor_patience() -> Option<Duration> {
        sd_notify::watchdog_enabled()
    }

    /// Tells systemd that the process is ready, what it is about, and that it is alive: those of the three that are news.
    pub(crate) fn tell_supervisor(ready: bool, status: Option<&str>, alive: bool) {
        let news = [
            ready.then_some(NotifyState::Ready),
            status.map(NotifyState::Status),
            alive.then_some(NotifyState::Watchdog),
        ];
        // Whoever does not listen any more misses nothing that the journal does not have.
        let _ = sd_notify::notify(&news.into_iter().flatten().collect::<Vec<_>>());
    }

    /// Tells systemd that the process is about to end.
    pub(crate) fn tell_supervisor_of_stop() {
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

    use super::Lock;

    // The numbers below are Windows' own, from its documentation of CreateProcess, CreateFile and system errors.
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    const FILE_SHARE_READ: u32 = 1;
    const FILE_SHARE_WRITE: u32 = 2;
    const ERROR_SHARING_VIOLATION: i32 = 32;

    /// Time since the process began to look; it never steps.
    pub(crate) fn boot_time() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    /// Keeps a Ctrl-C meant for this process from the command.
    pub(crate) fn in_own_group(command: &mut Command) {
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    /// Ends the command with all that it started: by asking its windows to close, or for good.
    pub(crate) fn end_group(child: &mut Child, for_good: bool) {
        let mut taskkill = Command::new("taskkill");
        taskkill.args(["/T", "/PID", &child.id().to_string()]);
        if for_good {
            taskkill.arg("/F");
        }
        let ended = taskkill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if for_good && !ended.is_ok_and(|status| status.success()) {
            // It may be gone already, which is what was wanted.
            let _ = child.kill();
        }
    }

    /// New files inherit the folder's access list.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    /// Opens the file so that no other process can write it.
    pub(crate) fn lock(path: &Path) -> io::Result<Lock> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).share_mode(FILE_SHARE_READ);
        match options.open(path) {
            Ok(file) => Ok(Lock::Held(file)),
            Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => {
                let shared = FILE_SHARE_READ | FILE_SHARE_WRITE;
                OpenOptions::new().read(true).share_mode(shared).open(path).map(Lock::Taken)
            }
            Err(error) => Err(error),
        }
    }

    /// The lock goes with the file.
    pub(crate) fn unlock(_file: &File) {}

    /// A rename needs no more here.
    #[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
    pub(crate) fn sync_folder(_folder: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Calls the function, from another thread, each time when Ctrl-C asks the process to stop.
    pub(crate) fn on_stop(stop: impl Fn() + Send + 'static) -> io::Result<()> {
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

    /// Whether a process could not be started for a reason that may pass.
    pub(crate) fn passes(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::OutOfMemory
    }

    /// There is no such limit here.
    #[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
    pub(crate) fn survive_file_limits() -> io::Result<()> {
        Ok(())
    }

    /// Nobody asks here how a process is doing.
    pub(crate) fn supervisor_listens() -> bool {
        false
    }

    /// Nobody gives a silent process up here.
    pub(crate) fn supervisor_patience() -> Option<Duration> {
        None
    }

    /// Nobody is to be told here.
    pub(crate) fn tell_supervisor(_ready: bool, _status: Option<&str>, _alive: bool) {}

    /// Nobody is to be told here.
    pub(crate) fn tell_supervisor_of_stop() {}
}
