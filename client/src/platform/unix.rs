//! Unix: process groups, signals, locks, systemd.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, geteuid, kill_process, kill_process_group, wait, waitid,
};
use rustix::time::{ClockId, clock_gettime};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::LockAttempt;

/// How often the processes are searched for that an ended command left running.
const KILL_ROUNDS: u32 = 20;

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
        self.leader.is_some_and(|leader| rustix::process::test_kill_process_group(leader).is_ok())
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
    let Some(child) = Pid::from_raw(child.cast_signed()) else { return false };
    loop {
        match waitid(WaitId::Pid(child), options) {
            Err(Errno::INTR) => {}
            ended => return ended.is_ok(),
        }
    }
}

/// Starts the command, passes signals on to it, and waits for all processes that this one inherits, until the command ends.
/// Returns its exit code, or 128 + N if signal N ended it.
///
/// # Errors
/// The command cannot be started, or signals cannot be handled.
pub(crate) fn be_first_process(mut command: Command) -> io::Result<u8> {
    let mut signals = Signals::new(passed_on())?;
    let child = Pid::from_raw(command.spawn()?.id().cast_signed());
    thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            if let Some((child, signal)) = child.zip(Signal::from_named_raw(signal)) {
                // Fails once it has ended.
                let _ = kill_process(child, signal);
            }
        }
    })?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if Some(process) == child => {
                let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The signal that ended a process, if one did.
pub(crate) fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// The signals that are passed on to a worker: SIGHUP unless the process was started with it ignored.
fn passed_on() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    if !hang_up_is_ignored() {
        signals.push(SIGHUP);
    }
    signals
}

/// Calls the function on another thread for each signal that is passed on to a worker.
pub(crate) fn on_passed_on_signal(pass_on: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    on_signals(passed_on(), pass_on)
}

/// Calls the function on another thread for each of these signals. If the system refuses the thread, signals do what they did
/// before, so that one that asks a process to end does not get lost.
fn on_signals(signals: Vec<i32>, act: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let (sender, registered) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let (signals, result) =
            Signals::new(signals).map_or_else(|error| (None, Err(error)), |new| (Some(new), Ok(())));
        let _ = sender.send(result);
        if let Some(mut signals) = signals {
            signals.forever().for_each(act);
        }
    })?;
    registered.recv().unwrap_or_else(|error| Err(io::Error::other(error)))
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
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
}

/// Opens a file for reading unless it is a link, without waiting for the other end of a pipe.
pub(crate) fn open_no_link(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
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
/// What is wrong, to follow the name of the file.
pub(crate) fn check_owner(metadata: &Metadata) -> Result<(), String> {
    match metadata.uid() {
        0 => Ok(()),
        owner if owner == geteuid().as_raw() => Ok(()),
        owner => Err(format!("belongs to the user {owner}")),
    }
}

/// Whether a file belongs to root and nobody else can write it.
pub(crate) fn belongs_to_root(metadata: &Metadata) -> bool {
    metadata.uid() == 0 && check_writers(metadata).is_ok()
}

/// Checks that only its owner can write a file.
///
/// # Errors
/// What is wrong, to follow the name of the file.
pub(crate) fn check_writers(metadata: &Metadata) -> Result<(), String> {
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 == 0 { Ok(()) } else { Err(format!("can be written by others (mode {mode:04o})")) }
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
        self.0.send(datagram).is_ok_and(|length| length == datagram.len())
    }
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
    let temporary = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
    Errno::from_io_error(error).is_some_and(|error| temporary.contains(&error))
}

/// Waits for connections. Returns the indices of the listeners that may have one.
pub(crate) fn wait_for_connections(listeners: &[TcpListener], timeout: Duration) -> Vec<usize> {
    let mut polled: Vec<_> = listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
    let timeout = timeout.try_into().ok();
    if poll(&mut polled, timeout.as_ref()).is_err() {
        return Vec::new();
    }
    polled.iter().enumerate().filter(|(_, listener)| !listener.revents().is_empty()).map(|(index, _)| index).collect()
}

/// The standard library keeps connections from processes that this one starts.
pub(crate) fn keep_from_children(_stream: &TcpStream) {}

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
    let mut first: Option<Instant> = None;
    on_signals(stop_signals, move |signal| {
        if first.get_or_insert_with(Instant::now).elapsed() > STOP_TIMEOUT {
            let _ = emulate_default_handler(signal);
        }
        stop();
    })
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
    let notifications =
        [ready.then_some(NotifyState::Ready), status.map(NotifyState::Status), alive.then_some(NotifyState::Watchdog)];
    // Nothing depends on it, and the journal has the same information.
    let _ = sd_notify::notify(&notifications.into_iter().flatten().collect::<Vec<_>>());
}

/// Notifies systemd that the process is stopping.
pub(crate) fn notify_stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}
