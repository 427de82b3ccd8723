//! The command `scheduled-events-fleet`: arguments, output and exit codes.
//!
//! Results go to standard output, diagnostics to standard error. Exit codes: 0 done; 1 something cannot be reached or
//! refuses; 2 the arguments or the configuration are invalid. `ask` has those of a gate.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::names::Name;
use scheduled_events_common::output::print;
use scheduled_events_common::program::{block_on, exit, manual};
use scheduled_events_gate::cli::{ask, delete_register, free, probe, run as run_daemon, status};
use scheduled_events_node::{announce, drain, uncordon};
use scheduled_events_relay::trial::TrialResult;

use crate::config::{Config, load_relay};

/// One approval for many machines: the gate that `scheduled-events watch --gate` asks.
#[derive(Parser)]
#[command(name = "scheduled-events-fleet", version, max_term_width = 100)]
struct Cli {
    /// The configuration of this machine
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/scheduled-events/fleet.toml",
        global = true
    )]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon of this machine
    Run,
    /// Answer `scheduled-events watch --gate`: exit code 0 yes, 75 another machine approves, 1 not yet
    Ask,
    /// End with 0 if this machine's daemon works, whether or not its store answers: for a liveness probe
    Probe,
    /// Show who is out of service or about to be, who is not ready, and why nothing moves
    Status {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Free the slots of a machine that will not come back, and forget it
    ///
    /// Waits for three heartbeats first. A machine that runs its daemon frees its slots itself, once it is back in service.
    Free {
        /// The machine's name, as in the `Resources` of events
        #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
        machine: String,
        /// Free the slots at once, although the machine may run and be out of service
        #[arg(long)]
        force: bool,
    },
    /// Delete a register that cannot be read, and print what it contained
    ///
    /// One that is valid stays. Without the register of a group, nobody knows which places were taken: first see to it that all of its
    /// machines are in service. Machines write their own registers again, and mark themselves again for an event.
    DeleteRegister {
        /// The register, such as `groups/web`, as `status` and the log name it
        key: String,
        /// Delete it also if another version of this program wrote it
        #[arg(long)]
        force: bool,
    },
    /// Cordon this machine's Kubernetes node and evict its pods: for `watch --prepare`
    ///
    /// Reads the event as JSON on standard input, as every hook of `scheduled-events` gets it; at a terminal, or without
    /// input, there is no event. Ends with 0 once no pod is left that counts, and with 1 if that takes too long.
    Drain(NodeArguments),
    /// Put the node back into service, as far as `drain` took it out: for `watch --recover`
    Uncordon {
        #[command(flatten)]
        node: NodeArguments,
        /// Do nothing while one of the events that the node is out of service for is announced or in progress
        #[arg(long)]
        if_over: bool,
    },
    /// Show an event on this machine's Kubernetes node, whether or not it is drained: for `watch --on`
    Announce(NodeArguments),
    /// Forward the records of the audit file to other systems
    Relay {
        /// Send a message to each target, print what it answers, and end: with 1 if one did not accept it
        #[arg(long)]
        test: bool,
    },
    /// Print the manual page
    Man,
}

#[derive(clap::Args)]
struct NodeArguments {
    /// The node [default: `NODE_NAME`, or what follows from the machine's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Prints what each target answered. Returns the exit code 1 if one did not accept the message.
fn print_trial(results: &[TrialResult]) -> Result<ExitCode, Failure> {
    let lines = results.iter().map(|result| format!("{result}\n"));
    print(&lines.collect::<String>())?;
    let all = results.iter().all(|result| result.failure.is_none());
    Ok(if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the command with these arguments, of which the first is the program's name, and returns its exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit(arguments, |cli: Cli| run_command(&cli.command, &cli.config))
}

fn run_command(command: &Command, file: &Path) -> Result<ExitCode, Failure> {
    if matches!(command, Command::Man) {
        let source = concat!("scheduled-events-fleet ", env!("CARGO_PKG_VERSION"));
        return manual(Cli::command(), source).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Relay { test } = command {
        let file = load_relay(file).map_err(Failure::usage)?;
        if *test {
            let results = block_on(scheduled_events_relay::test(&file))?;
            return print_trial(&results.map_err(Failure::refused)?);
        }
        return block_on(scheduled_events_relay::run(&file))?
            .map(|()| ExitCode::SUCCESS)
            .map_err(Failure::refused);
    }
    let Config { gate, node } = Config::load(file).map_err(Failure::usage)?;
    match command {
        Command::Ask => return ask(&gate),
        Command::Probe => probe(&gate),
        Command::Run => block_on(run_daemon(gate))?,
        Command::Status { json } => block_on(status(&gate, *json))?,
        Command::Free { machine, force } => {
            block_on(free(&gate, &Name::from(machine.as_str()), *force))?
        }
        Command::DeleteRegister { key, force } => block_on(delete_register(&gate, key, *force))?,
        Command::Drain(arguments) => block_on(drain::run(&node, arguments.node.as_deref()))?,
        Command::Uncordon {
            node: arguments,
            if_over,
        } => block_on(uncordon::run(&node, arguments.node.as_deref(), *if_over))?,
        Command::Announce(arguments) => block_on(announce::run(&node, arguments.node.as_deref()))?,
        Command::Relay { .. } | Command::Man => Ok(()),
    }
    .map(|()| ExitCode::SUCCESS)
}
