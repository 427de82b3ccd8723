//! What differs between operating systems, and nothing else.

pub(crate) use imp::{boot_time, end_group, in_own_group, lock, private};

#[cfg(unix)]
mod imp {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::time::Duration;

    use rustix::fs::{FlockOperation, flock};
    use rustix::process::{Pid, Signal, kill_process_group};
    use rustix::time::{ClockId, clock_gettime};

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

    /// New files are for this user alone.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600)
    }

    /// Locks the file until it is closed; `false` where another process holds it.
    pub(crate) fn lock(file: &File) -> io::Result<bool> {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::process::{Child, Command};
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// Time since the process started; it never steps.
    pub(crate) fn boot_time() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    /// There are no process groups here.
    pub(crate) fn in_own_group(_command: &mut Command) {}

    /// Ends the command itself; what it started stays.
    pub(crate) fn end_group(child: &mut Child, _for_good: bool) {
        let _ = child.kill();
    }

    /// New files inherit the folder's access list.
    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    /// No lock is taken here.
    pub(crate) fn lock(_file: &File) -> io::Result<bool> {
        Ok(true)
    }
}
