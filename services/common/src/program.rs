//! What each program does with its arguments, and the runtime in which it works.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;
use crate::http::install_tls;
use crate::log;
use crate::output::print;

/// Parses the arguments of a command, runs it, and returns its exit code. A failure is printed.
pub fn exit<T: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    command: impl FnOnce(T) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let parsed = match T::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are no errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let code = match command(parsed) {
        Ok(code) => code,
        Err(failure) => {
            if !failure.message.is_empty() {
                log::line(&format!("error: {}", failure.message));
            }
            ExitCode::from(failure.exit_code)
        }
    };
    log::flush_on_exit();
    code
}

/// Prints the manual page of a command.
///
/// # Errors
/// The output cannot be written.
pub fn manual(command: clap::Command, source: &str) -> Result<(), Failure> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command).source(source);
    man.render(&mut page)
        .map_err(|error| Failure::refused(format!("cannot make the page: {error}")))?;
    print(&String::from_utf8_lossy(&page))
}

/// Runs a daemon as [`block_on`] does. A log whose reader hangs does not hold it up.
///
/// # Errors
/// The system refuses what a runtime needs, or a thread.
pub fn serve<T>(daemon: impl Future<Output = T>) -> Result<T, Failure> {
    let started = log::start_writer();
    started.map_err(|error| Failure::refused(format!("cannot start: {error}")))?;
    block_on(daemon)
}

/// Runs a future, and what it spawns, on this thread until it has ended.
///
/// # Errors
/// The system refuses what a runtime needs.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    install_tls();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::refused(format!("cannot start: {error}")))?;
    let result = tokio::task::LocalSet::new().block_on(&runtime, future);
    // A call of a file system that hangs is not waited for.
    runtime.shutdown_background();
    Ok(result)
}
