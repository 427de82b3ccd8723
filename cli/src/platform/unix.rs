//! Unix: signals, systemd, the journal's socket.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::LockState;
use rustix::fs::{Access, AtFlags, CWD, FileType, FlockOperation, accessat, flock, fstat, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use scheduled_events::files::open_no_link;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// How long the process and its commands have to stop before another signal ends it at once.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether standard input is a device, such as `/dev/null`, and neither a file nor a pipe.
pub(crate) fn is_stdin_null() -> bool {
    fstat(io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device())
}

/// The signal that ended a process, if one did.
pub(crate) fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Calls the function on another thread for each signal that is passed on to a worker.
pub(crate) fn on_passed_on_signal(pass_on: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    on_signals(passed_on(), pass_on)
}

/// Whether a signal asks a process to end. SIGHUP asks some to read their configuration again.
pub(crate) fn asks_to_end(signal: i32) -> bool {
    [SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}

/// Whether it is the signal with which service managers and containers end a process.
pub(crate) fn terminates(signal: i32) -> bool {
    signal == SIGTERM
}

/// Whether a signal reports that the terminal is gone.
pub(crate) fn hangs_up(signal: i32) -> bool {
    signal == SIGHUP
}

/// Whether the stream is the one that `JOURNAL_STREAM` names as device and inode.
pub(crate) fn is_stream(stream: &impl AsFd, named: &str) -> bool {
    fstat(stream).is_ok_and(|found| format!("{}:{}", found.st_dev, found.st_ino) == named)
}

/// A connected datagram socket that never waits for its reader.
#[derive(Debug)]
pub(crate) struct DatagramSocket(UnixDatagram);

impl DatagramSocket {
    /// Connects to the socket at this path.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends a datagram. Returns whether it was accepted as a whole.
    pub(crate) fn send(&self, datagram: &[u8]) -> bool {
        self.0
            .send(datagram)
            .is_ok_and(|length| length == datagram.len())
    }
}

/// Whether this user may execute the file.
pub(crate) fn may_execute(path: &Path) -> bool {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// The access rights and the owner of a file: ` (mode 644, of user 0)`.
pub(crate) fn mode_in_words(path: &Path) -> String {
    fs::metadata(path).map_or(String::new(), |found| {
        format!(
            " (mode {:o}, of user {})",
            found.mode() & 0o7777,
            found.uid()
        )
    })
}

/// Checks that this user may write the file or folder, and that its file system is writable.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    let mut wanted = Access::WRITE_OK;
    if path.is_dir() {
        wanted |= Access::EXEC_OK;
    }
    accessat(CWD, path, wanted, AtFlags::EACCESS).map_err(Into::into)
}

/// The bytes that this user may still write to the file system; none if it has no room for another
/// file.
pub(crate) fn free_space(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    let out_of_files = found.f_files > 0 && found.f_favail == 0;
    Some(if out_of_files {
        0
    } else {
        found.f_bavail.saturating_mul(found.f_frsize)
    })
}

/// Whether a process has the lock of this file, and its id if the file has it. This process has the
/// lock for a moment if nobody else does.
pub(crate) fn locked_by(lock: &Path) -> LockState {
    let Ok(mut file) = open_no_link(lock) else {
        return LockState::Free;
    };
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
        return LockState::Free;
    }
    let mut text = [0; 16];
    let length = file.read(&mut text).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..length]);
    let first = text.lines().next();
    LockState::Held(first.and_then(|first| first.trim().parse().ok()))
}

/// Whether no program that this process starts gains rights, as `sudo` does.
pub(crate) fn gains_no_rights() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NoNewPrivs:"));
    line.is_some_and(|value| value.trim() == "1")
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// From now on, a write beyond the limit on file sizes fails and does not end the process.
pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Calls the function on another thread each time a signal asks the process to stop: SIGINT,
/// SIGTERM, and SIGHUP unless the process was started with SIGHUP ignored, as by nohup. A signal
/// that arrives when the process should have stopped ends it. On SIGHUP, `reload` is called if
/// there is one, and the process goes on.
pub(crate) fn on_stop_signal(
    stop: impl Fn() + Send + 'static,
    reload: Option<Arc<dyn Fn() + Send + Sync>>,
) -> io::Result<()> {
    let mut stop_signals = vec![SIGINT, SIGTERM];
    if !hang_up_is_ignored() {
        stop_signals.push(SIGHUP);
    }
    let mut first: Option<Instant> = None;
    on_signals(stop_signals, move |signal| {
        if let Some(reload) = reload.as_ref().filter(|_| hangs_up(signal)) {
            return reload();
        }
        if first.get_or_insert_with(Instant::now).elapsed() > STOP_TIMEOUT {
            let _ = emulate_default_handler(signal);
        }
        stop();
    })
}

/// Whether systemd expects notifications.
pub(crate) fn has_supervisor() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}

/// The time without a keep-alive after which systemd considers the process hung, if there is one.
pub(crate) fn watchdog_timeout() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Notifies systemd, as far as given, that the process is ready, of its status, and that it is
/// alive.
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

/// The signals that are passed on to a worker, and to this program as a child: SIGHUP unless the process was started with it
/// ignored.
pub(crate) fn passed_on() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    if !hang_up_is_ignored() {
        signals.push(SIGHUP);
    }
    signals
}

/// Calls the function on another thread for each of these signals. If the system refuses the
/// thread, signals keep their previous effect, so that one that asks a process to end is not lost.
fn on_signals(signals: Vec<i32>, act: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let (sender, registered) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let (signals, result) = Signals::new(signals)
            .map_or_else(|error| (None, Err(error)), |new| (Some(new), Ok(())));
        let _ = sender.send(result);
        if let Some(mut signals) = signals {
            signals.forever().for_each(act);
        }
    })?;
    registered
        .recv()
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Whether the process was started with SIGHUP ignored. Linux shows a mask whose lowest bit is
/// signal 1, which is SIGHUP.
fn hang_up_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
