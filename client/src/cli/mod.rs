//! The command: options, exit codes, and what goes where.
//!
//! Records and tables go to stdout, diagnostics to stderr. Exit codes: 0 done; 1 the endpoint could not be reached, or
//! refused, or the output not be written; 2 usage; 3 the input is no valid document.

mod check;
mod demo;
mod endpoint;
mod host;
mod look;
mod options;
mod output;
mod replay;
mod systemd;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use options::{Cli, Task};

/// Why the command did not do what it was asked for.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The endpoint could not be reached, or refused.
    fn endpoint(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// What was asked for is known, and cannot be written.
    fn output(error: &std::io::Error) -> Self {
        Self { code: 1, message: format!("cannot write to standard output: {error}") }
    }

    /// What was asked for cannot be done as it was asked.
    fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// The input is no valid document.
    fn document(message: impl Into<String>) -> Self {
        Self { code: 3, message: message.into() }
    }
}

/// Runs the command with these arguments, the program's name first, and says how it ended.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors, and go to stdout.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let result = match cli.task {
        Task::List(options) => endpoint::list(&options),
        Task::Approve(options) => endpoint::approve(&options),
        Task::Watch(options) => watch::watch(options),
        Task::Check(options) => check::check(&options),
        Task::Replay(options) => replay::replay(options),
        Task::Scenarios(options) => replay::scenarios(&options),
        Task::Demo(options) => demo::demo(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            look::diagnose("error", &failure.message);
            ExitCode::from(failure.code)
        }
    }
}
