//! The start of a long-running command: threads, which the system may refuse, signals, and the
//! programs that it keeps.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use scheduled_events::failure_log::FailureLog;
use scheduled_events::hooks::is_temporary_spawn_error;
use scheduled_events::limits::THREAD_RETRY;
use scheduled_events::watch::WatcherHandle;

use crate::error::CommandError;
use crate::output::diagnose;
use crate::platform;

/// Stops the watcher on the signals that ask a process to end. The watcher saves its state, and
/// running commands are terminated. On SIGHUP, `reload` is called in place of that.
pub(crate) fn stop_on_signals(
    handle: &WatcherHandle,
    reload: Option<&Arc<dyn Fn() + Send + Sync>>,
) -> Result<(), CommandError> {
    patiently(|| {
        let handle = handle.clone();
        platform::on_stop_signal(move || handle.stop(), reload.cloned())
    })
}

/// Makes a write beyond the limit on the size of files fail, in place of a signal that ends the process.
pub(crate) fn survive_size_limit() -> Result<(), CommandError> {
    platform::ignore_file_size_signal().map_err(|error| signals(&error))
}

/// Starts threads, and repeats that while the system refuses them: a machine that is short of
/// threads for a moment does not stay unwatched.
pub(crate) fn patiently<T>(mut start: impl FnMut() -> io::Result<T>) -> Result<T, CommandError> {
    let mut log = FailureLog::default();
    loop {
        match start() {
            Err(error) if is_temporary_spawn_error(&error) => {
                let reason = format!("cannot start a thread yet: {error}; this is tried again");
                if log.reports(&reason) {
                    diagnose("warning", &reason);
                }
                thread::sleep(THREAD_RETRY);
            }
            result => {
                return result.map_err(|error| {
                    CommandError::usage(format!("cannot start a thread: {error}"))
                });
            }
        }
    }
}

/// The command of these words, for a process group of its own.
///
/// # Errors
/// There are no words.
pub(crate) fn command_in_group(words: &[OsString]) -> io::Result<Command> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    // The group is not the terminal's foreground, so reading the terminal would stop it for ever.
    if io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    Ok(command)
}

pub(crate) fn signals(error: &io::Error) -> CommandError {
    CommandError::usage(format!("cannot handle signals: {error}"))
}
