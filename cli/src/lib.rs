//! The command `scheduled-events`: arguments, output and exit codes.
//!
//! Results and records go to standard output, diagnostics to standard error. `scheduled-events --help` has the exit codes.
//!
//! [`run()`] runs a command line. The files are in folders by task:
//!
//! - `args` defines the command line. `config` merges it with a configuration file.
//! - `look`: `list`, `wait`, `status`, `config`, `check`, `discover`, `timeline`. `picture` draws the output
//!   of `timeline`.
//! - `watch`: `watch`. `run`: `run`, with the worker that it keeps.
//! - `doctor`: `doctor`. `rehearse`: its `--rehearse`.
//! - `operate`: `approve`, `terminate-profile`, `simulate-eviction`, `service`, `completions`,
//!   `man`.
//! - `test`: `replay`, `record`, `scenarios`, `demo`, `capture`, `contract`.
//! - `output` formats and writes text. `endpoint` finds the metadata service and sends requests to
//!   it. `startup`, `systemd` and `platform` integrate the command with the system.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api_version;
mod args;
mod audit_lines;
mod config;
mod doctor;
mod endpoint;
mod error;
mod event_filter;
mod look;
mod operate;
mod output;
mod own_files;
mod picture;
mod platform;
mod policy_words;
mod rehearse;
#[cfg(unix)]
mod run;
mod startup;
mod systemd;
mod test;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Command, DoctorArgs};
use config::{Merged, ParseError};
use error::CommandError;
#[cfg(windows)]
use output::event_log;

/// Runs the command with these arguments, the first of which is the program's name, and returns its
/// exit code.
///
/// ```
/// use std::process::ExitCode;
///
/// // The whole `main` of a program that has the command inside.
/// let code = scheduled_events_cli::run(["scheduled-events", "scenarios"].map(Into::into));
/// assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
/// ```
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let Merged { cli, in_force } = match config::parse(&arguments) {
        Ok(merged) => merged,
        Err(ParseError::Arguments(error)) => {
            // Help and version are not errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        Err(ParseError::File(error)) => {
            output::diagnose("error", &error.message);
            return ExitCode::from(error.exit_code);
        }
    };
    // A watcher runs for months, and needs them at its start only.
    let is_used = matches!(cli.command, Command::Config(_) | Command::Watch(_));
    let in_force = is_used.then_some(in_force);
    anstream::ColorChoice::from(cli.color).write_global();
    if cli.quiet {
        output::be_quiet();
    }
    let result = match cli.command {
        Command::List(args) => look::list(&args),
        Command::Approve(args) => operate::approve(&args),
        Command::Wait(args) => look::wait(&args),
        // A command may leave processes to the first process of a container.
        #[cfg(unix)]
        Command::Watch(args)
            if watch::runs_commands(&args) && scheduled_events::hooks::is_first_process() =>
        {
            return run::in_first_process();
        }
        Command::Watch(args) => watch::watch(args, in_force.map(|options| (&*arguments, options))),
        Command::Status(args) => look::status(&args),
        #[cfg(unix)]
        Command::Run(args) => return run::run(args),
        Command::Config(args) => {
            in_force.map_or(Ok(()), |in_force| look::config(&args.watch, &in_force))
        }
        Command::Check(args) => look::check(&args),
        Command::Doctor(args) => doctor_or_rehearsal(args),
        Command::Replay(args) => test::replay(args),
        Command::Discover(args) => look::discover(&args),
        Command::Record(args) => test::record(&args),
        Command::Capture(args) => test::capture(args),
        Command::Contract(args) => test::contract(&args),
        Command::Timeline(args) => look::timeline(&args),
        Command::Scenarios(args) => test::scenarios(&args),
        Command::Demo(args) => test::demo(&args),
        Command::TerminateProfile(args) => operate::terminate_profile(&args),
        Command::SimulateEviction(args) => operate::simulate_eviction(&args),
        #[cfg(windows)]
        Command::Service(args) => operate::service(args),
        Command::Completions(args) => operate::completions(&args),
        Command::Man(args) => operate::man(&args),
    };
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.message.is_empty() {
                output::diagnose("error", &error.message);
            }
            ExitCode::from(error.exit_code)
        }
    };
    #[cfg(windows)]
    event_log::flush_on_exit();
    code
}

/// Runs the checks, or rehearses an event.
fn doctor_or_rehearsal(args: DoctorArgs) -> Result<(), CommandError> {
    startup::survive_size_limit()?;
    let Some(scenario) = args.rehearse.clone() else {
        return doctor::doctor(&args);
    };
    if let Some(mistake) = args.watch.config.mistake {
        return Err(CommandError::usage(mistake));
    }
    #[cfg(unix)]
    if let Some(unit) = &args.unit {
        return doctor::rehearse_as_unit(unit, &scenario, &args, rehearse::confirm_unit);
    }
    rehearse::rehearse(args, &scenario)
}
