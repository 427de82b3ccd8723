//! The first process of a container, or of any other process namespace.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use signal_hook::iterator::Signals;

/// Whether this process is the first one of a container: see [`run_as_first_process`].
pub fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Does the work of the first process of a container, and starts this program again as a child that does its own.
///
/// The first process inherits all processes whose parents end, as commands leave some, and must wait for each, or they stay as
/// zombies. When it ends, the kernel ends all others. This one waits for processes, and passes these signals on, until the child
/// ends. Returns the child's exit code, or 128 + N if signal N ended it. Call this before any other thread is started.
///
/// ```
/// use scheduled_events::hooks::{is_first_process, run_as_first_process};
///
/// if is_first_process() {
///     let code = run_as_first_process(&[2, 15])?; // SIGINT and SIGTERM
///     std::process::exit(code.into());
/// }
/// // Watch, and run commands.
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The child cannot be started, or signals cannot be handled.
pub fn run_as_first_process(signals: &[i32]) -> io::Result<u8> {
    let mut words = fs::read("/proc/self/cmdline")
        .map(|line| split(&line))
        .unwrap_or_default();
    if words.is_empty() {
        words = env::args_os().collect();
    }
    // Without /proc, the program is searched for by its name on the command line.
    let program = env::current_exe().map_or_else(|_| words[0].clone(), Into::into);
    let mut command = Command::new(program);
    // With its own name unchanged, which an interpreter needs to find its libraries.
    command.arg0(&words[0]).args(&words[1..]);
    let mut signals = Signals::new(signals)?;
    let child = Pid::from_raw(command.spawn()?.id().cast_signed());
    thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            if let Some((child, signal)) = child.zip(Signal::from_named_raw(signal)) {
                // Fails once the child has ended.
                let _ = kill_process(child, signal);
            }
        }
    })?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if Some(process) == child => {
                let code = status
                    .exit_status()
                    .or(status.terminating_signal().map(|signal| 128 + signal));
                return Ok(code
                    .and_then(|code| u8::try_from(code).ok())
                    .unwrap_or(u8::MAX));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The words of a command line as the kernel shows it.
fn split(line: &[u8]) -> Vec<OsString> {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    line.split(|byte| *byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}
