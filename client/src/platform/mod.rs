//! What differs between operating systems: one module for Unix and one for Windows, with the same functions.

use std::fs::File;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The variable that identifies the processes of a command.
pub(crate) const COMMAND_ID: &str = "SCHEDULED_EVENTS_COMMAND_ID";

/// The variable by which systemd passes the boot's id to a unit that cannot read it.
#[cfg(unix)]
pub(crate) const BOOT_ID: &str = "SCHEDULED_EVENTS_BOOT_ID";

/// Result of trying to lock a file.
pub(crate) enum LockAttempt {
    /// This process has the lock until the file is closed.
    Acquired(File),
    /// Another process has the lock. The file is open for reading.
    Held(File),
}

#[cfg(unix)]
mod unix {
    use std::fs::{self, File, Metadata, OpenOptions};
    use std::io;
    use std::net::TcpListener;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, geteuid, kill_process_group};
    use rustix::time::{ClockId, clock_gettime};
    use sd_notify::NotifyState;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
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
        pub(crate) fn new(child: &Child, mark: &str) -> Self {
            Self::of(child.id(), mark)
        }

        #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
        fn of(process: u32, mark: &str) -> Self {
            Self {
                leader: Pid::from_raw(process.cast_signed()),
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

        /// Sends a signal to all processes. Returns whether there was one outside the group.
        #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
        fn signal(&mut self, signal: Signal, leader_runs: bool) -> bool {
            // Before the signal ends what connects them.
            #[cfg(target_os = "linux")]
            self.others.find(leader_runs);
            if let Some(leader) = self.leader {
                // Fails if the group has already ended.
                let _ = kill_process_group(leader, signal);
            }
            #[cfg(target_os = "linux")]
            let is_found = self.others.signal(signal);
            #[cfg(not(target_os = "linux"))]
            let is_found = false;
            is_found
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

    /// A text that changes when the machine starts again: from [`BOOT_ID`], or from the system; empty if neither has it.
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

    /// Asks a command to terminate that another process started, with all that it started; or kills them.
    pub(crate) fn end_command(process: u32, mark: &str, kill: bool) {
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        CommandTree::of(process, mark).signal(signal, true);
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

    /// Checks that only its owner can write a file.
    ///
    /// # Errors
    /// What is wrong, to follow the name of the file.
    pub(crate) fn check_writers(metadata: &Metadata) -> Result<(), String> {
        let mode = metadata.mode() & 0o7777;
        if mode & 0o022 == 0 { Ok(()) } else { Err(format!("can be written by others (mode {mode:04o})")) }
    }

    /// Whether both describe one file, whatever its names.
    pub(crate) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
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

    /// Waits for a connection. Returns whether there may be one.
    pub(crate) fn wait_for_connection(listener: &TcpListener, timeout: Duration) -> bool {
        let mut listeners = [PollFd::new(listener, PollFlags::IN)];
        let timeout = timeout.try_into().ok();
        poll(&mut listeners, timeout.as_ref()).is_ok_and(|ready| ready > 0)
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

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use rustix::process::{Pid, Signal, kill_process};

    /// The processes that a command started, outside its process group too.
    pub(super) struct Descendants {
        leader: u32,
        variable: Vec<u8>,
        /// The processes found so far and when they started, so that no signal reaches another process that has the id by now.
        found: BTreeMap<u32, u64>,
    }

    impl Descendants {
        pub(super) fn new(leader: u32, mark: &str) -> Self {
            Self { leader, variable: format!("{}={mark}", super::COMMAND_ID).into_bytes(), found: BTreeMap::new() }
        }

        /// Searches for processes: children of the leader or of processes found before, and those with the variable.
        pub(super) fn find(&mut self, leader_runs: bool) {
            self.found.retain(|process, start| process_start(*process) == Some(*start));
            let mut family: BTreeSet<u32> = self.found.keys().copied().collect();
            if leader_runs {
                family.insert(self.leader);
            }
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            let all: Vec<_> =
                numbers.filter_map(|process| Some((process, process_start(process)?, parent(process)?))).collect();
            // A child's id can be lower than its parent's.
            let mut known = 0;
            while known != family.len() {
                known = family.len();
                let children = all.iter().filter(|(.., parent)| family.contains(parent)).map(|(process, ..)| *process);
                family.extend(children.collect::<Vec<_>>());
            }
            for (process, start, _) in all {
                if process != self.leader && (family.contains(&process) || self.has_variable(process)) {
                    self.found.insert(process, start);
                }
            }
        }

        /// Sends a signal to the processes found. Returns whether there was one.
        pub(super) fn signal(&self, signal: Signal) -> bool {
            for (process, start) in &self.found {
                if process_start(*process) == Some(*start)
                    && let Some(process) = Pid::from_raw(process.cast_signed())
                {
                    // Fails for processes of other users, and for one that has just ended.
                    let _ = kill_process(process, signal);
                }
            }
            !self.found.is_empty()
        }

        fn has_variable(&self, process: u32) -> bool {
            // Unreadable for processes of other users, and empty for those that have ended.
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == self.variable)
        }
    }

    /// The parent of a process that has not ended.
    fn parent(process: u32) -> Option<u32> {
        stat(process, 1)
    }

    /// When a process started that has not ended, in clock ticks since the machine started.
    pub(super) fn process_start(process: u32) -> Option<u64> {
        stat(process, 19)
    }

    /// A number from the status of a process that has not ended, counted from the field after its name.
    fn stat<T: std::str::FromStr>(process: u32, field: usize) -> Option<T> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name is in parentheses, and may contain some.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        let number = fields.get(field)?.parse().ok()?;
        (!has_ended).then_some(number)
    }
}

#[cfg(windows)]
mod windows {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::net::TcpListener;
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
    pub(crate) fn end_command(_process: u32, _mark: &str, _kill: bool) {}

    /// New files inherit the folder's access list.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    /// Opens a file for reading.
    pub(crate) fn open_no_link(path: &Path) -> io::Result<File> {
        File::open(path)
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
}
