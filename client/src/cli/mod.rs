//! The command `scheduled-events`: arguments, output and exit codes.
//!
//! Results and records go to standard output, diagnostics to standard error. Exit codes: 0 success; 1 the endpoint cannot
//! be reached or refuses, nothing can be approved, or the output cannot be written; 2 usage error; 3 the input is not a
//! valid document; 4 `wait`: the time is over. `run` ends with the exit code of its worker.
//!
//! Read `args` for what the command accepts, then the module of a subcommand. `output` writes, `format` and
//! `printer` turn facts into text.

mod approve;
mod args;
mod check;
mod clients;
#[cfg(all(test, unix))]
mod commands_page;
mod demo;
mod discover;
mod document;
mod endpoint;
mod error;
mod event_filter;
#[cfg(windows)]
mod event_log;
mod format;
mod host;
mod install;
mod journal;
mod operator;
mod others;
mod output;
mod own_files;
mod policy_source;
mod printer;
mod record;
mod replay;
#[cfg(unix)]
mod run;
#[cfg(windows)]
mod service;
mod status;
mod status_line;
mod systemd;
mod table;
mod terminal;
mod timeline;
mod wait;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Runs the command with these arguments, of which the first is the program's name, and returns its exit code.
///
/// ```
/// use std::process::ExitCode;
///
/// // The whole `main` of a program that has the command inside.
/// let code = scheduled_events::cli::run(["scheduled-events", "scenarios"].map(Into::into));
/// assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
/// ```
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    anstream::ColorChoice::from(cli.color).write_global();
    if cli.quiet {
        output::be_quiet();
    }
    let result = match cli.command {
        Command::List(args) => endpoint::list(&args),
        Command::Approve(args) => approve::approve(&args),
        Command::Wait(args) => wait::wait(&args),
        // A command may leave processes to the first process of a container.
        #[cfg(unix)]
        Command::Watch(args) if watch::runs_commands(&args) && crate::run::init::is_first() => {
            return run::in_first_process();
        }
        Command::Watch(args) => watch::watch(args),
        Command::Status(args) => status::status(&args),
        #[cfg(unix)]
        Command::Run(args) => return run::run(args),
        Command::Check(args) => check::check(&args),
        Command::Replay(args) => replay::replay(args),
        Command::Discover(args) => discover::discover(&args),
        Command::Record(args) => record::record(&args),
        Command::Timeline(args) => timeline::timeline(&args),
        Command::Scenarios(args) => replay::scenarios(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::TerminateProfile(args) => operator::terminate_profile(&args),
        Command::SimulateEviction(args) => operator::simulate_eviction(&args),
        #[cfg(windows)]
        Command::Service(args) => service::service(args),
        Command::Completions(args) => install::completions(&args),
        Command::Man(args) => install::man(&args),
    };
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::diagnose("error", &error.message);
            ExitCode::from(error.exit_code)
        }
    };
    #[cfg(windows)]
    event_log::flush_on_exit();
    code
}
