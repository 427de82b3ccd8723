//! The command `scheduled-events-hub`: arguments, output and exit codes.
//!
//! Results go to standard output, diagnostics to standard error. Exit codes: 0 done; 1 something cannot be reached or
//! refuses; 2 the arguments or the configuration are invalid.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use scheduled_events_fleet::cli::{block_on, exit, manual};
use scheduled_events_fleet::failure::Failure;

use crate::config::Config;

/// Scheduled Events of whole Azure subscriptions, seen, prepared for and approved from outside the machines (preview).
#[derive(Parser)]
#[command(name = "scheduled-events-hub", version, max_term_width = 100)]
struct Cli {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/scheduled-events/hub.toml")]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run: read what is announced, run commands, approve
    Run,
    /// Print the manual page
    Man,
}

/// Runs the command with these arguments, of which the first is the program's name, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit(arguments, |cli: Cli| {
        match &cli.command {
            Command::Run => {
                let config = Config::load(&cli.config).map_err(Failure::usage)?;
                block_on(crate::run::run(config))?.map_err(Failure::refused)
            }
            Command::Man => manual(Cli::command(), concat!("scheduled-events-hub ", env!("CARGO_PKG_VERSION"))),
        }
        .map(|()| ExitCode::SUCCESS)
    })
}
