//! The command `scheduled-events-hub`: arguments, output and exit codes.
//!
//! Results go to standard output, diagnostics to standard error. Exit codes: 0 done; 1 something
//! cannot be reached or refuses; 2 the arguments or the configuration are invalid.

mod access;
mod approve;
mod check;
mod events;
mod events_policy;
mod status;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use rustix::process::Signal;
use scheduled_events::hooks::{is_first_process, run_as_first_process};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::program::{block_on, exit, manual, serve};

use crate::config::{Config, DEFAULT_FILE};

/// Scheduled Events of whole Azure subscriptions, seen, prepared for and approved from outside the
/// machines (preview).
#[derive(Parser)]
#[command(name = "scheduled-events-hub", version, max_term_width = 100)]
struct Cli {
    /// The configuration [default: /etc/scheduled-events/hub.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run: read what is announced, run commands, approve
    Run,
    /// Check the configuration and the access to Azure, and print what gives a missing right;
    /// nothing is changed
    Check {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Show the machines that have an open event or are out of service, and what each waits for
    Status {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Show what is announced for all machines of the subscriptions, from Azure Resource Graph
    Events(events::EventsArgs),
    /// Approve events: lets Azure start them early, on all machines that they affect
    Approve(approve::ApproveArgs),
    /// Print the settings with which Azure publishes events outside the machines
    EventsPolicy(events_policy::PolicyArgs),
    /// Print the manual page
    Man,
}

/// Runs the command with these arguments, the first of which is the program's name, and returns its
/// exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit(arguments, |cli: Cli| {
        let file = cli.config.as_deref();
        let configured = file.unwrap_or(Path::new(DEFAULT_FILE));
        match &cli.command {
            Command::Run if is_first_process() => {
                let code = run_as_first_process(&[Signal::INT, Signal::TERM].map(Signal::as_raw));
                return code.map(ExitCode::from).map_err(|error| {
                    Failure::refused(format!("cannot start another process: {error}"))
                });
            }
            Command::Run => {
                let config = Config::load(configured).map_err(Failure::usage)?;
                serve(crate::run::run(config))?.map_err(|error| {
                    if error.is_of_settings() {
                        Failure::usage(error)
                    } else {
                        Failure::refused(error)
                    }
                })
            }
            Command::Check { json } => block_on(check::check(configured, *json))?,
            Command::Status { json } => block_on(status::status(configured, *json))?,
            Command::Events(arguments) => block_on(events::events(file, arguments))?,
            Command::Approve(arguments) => block_on(approve::approve(file, arguments))?,
            Command::EventsPolicy(arguments) => events_policy::events_policy(arguments),
            Command::Man => manual(
                Cli::command(),
                concat!("scheduled-events-hub ", env!("CARGO_PKG_VERSION")),
            ),
        }
        .map(|()| ExitCode::SUCCESS)
    })
}
