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
use scheduled_events_common::output::print_findings;
use scheduled_events_common::program::{block_on, exit, manual, serve};
use scheduled_events_gate::cli::{
    ask, check as check_gate, delete_register, free, probe, run as run_daemon, status,
};
use scheduled_events_node::check::check as check_node;
use scheduled_events_node::config::NodeConfig;
use scheduled_events_node::{announce, drain, uncordon};
use scheduled_events_relay::error::RelayError;

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
    /// Check what an event will need of this machine's gate and of its Kubernetes node; nothing is changed
    ///
    /// The gate: its daemon, the store, the groups of this machine with their limits, and machines whose limits differ. The
    /// node: whether it exists, and each right of `drain` and `uncordon`. Ends with 1 if there is a failure.
    Check {
        /// The part [default: the gate if there is an `engine`, and the node in a pod, with KUBECONFIG, or with a table `node`]
        #[arg(value_enum)]
        part: Option<Part>,
        #[command(flatten)]
        node: NodeArguments,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
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
        /// With --test: print one JSON object per line
        #[arg(long, requires = "test")]
        json: bool,
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

/// What `check` looks at.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The gate
    Gate,
    /// The Kubernetes node
    Node,
}

/// Prints what is found of a part, or of all that are configured.
async fn check(
    config: &Config,
    part: Option<Part>,
    node: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let is_checked =
        |this: Part, is_configured: bool| part.map_or(is_configured, |part| part == this);
    let (has_gate, has_node) = (config.gate.engine.is_some(), uses_node(config, node));
    if !has_gate && (part == Some(Part::Gate) || !has_node) {
        return Err(Failure::usage(
            "the configuration has no `engine`, so that there is no gate; `check node` checks the node",
        ));
    }
    let mut findings = Vec::new();
    if is_checked(Part::Gate, has_gate) {
        findings.extend(check_gate(&config.gate).await);
    }
    if is_checked(Part::Node, has_node) {
        findings.extend(check_node(&config.node, node).await);
    }
    print_findings(&findings, json)
}

/// Whether this machine seems to have a node.
fn uses_node(config: &Config, argument: Option<&str>) -> bool {
    let has = |variable| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    argument.is_some()
        || has("KUBERNETES_SERVICE_HOST")
        || has("KUBECONFIG")
        || config.node.node != NodeConfig::default()
}

/// Runs the command with these arguments, of which the first is the program's name, and returns its exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit(arguments, |cli: Cli| run_command(&cli.command, &cli.config))
}

/// The settings of a target are part of the configuration. A file that cannot be read now may be read later.
fn of_relay(error: RelayError) -> Failure {
    match &error {
        RelayError::Target { error: why, .. } if !why.may_pass() => Failure::usage(error),
        _ => Failure::refused(error),
    }
}

fn run_command(command: &Command, file: &Path) -> Result<ExitCode, Failure> {
    if matches!(command, Command::Man) {
        let source = concat!("scheduled-events-fleet ", env!("CARGO_PKG_VERSION"));
        return manual(Cli::command(), source).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Relay { test, json } = command {
        let file = load_relay(file).map_err(Failure::usage)?;
        if *test {
            let results = block_on(scheduled_events_relay::test(&file))?;
            return print_findings(&results.map_err(of_relay)?, *json).map(|()| ExitCode::SUCCESS);
        }
        return serve(scheduled_events_relay::run(&file))?
            .map(|()| ExitCode::SUCCESS)
            .map_err(of_relay);
    }
    let Config { gate, node } = Config::load(file).map_err(Failure::usage)?;
    match command {
        Command::Ask => return ask(&gate),
        Command::Probe => probe(&gate),
        Command::Check {
            part,
            node: arguments,
            json,
        } => {
            let (config, name) = (Config { gate, node }, arguments.node.as_deref());
            block_on(check(&config, *part, name, *json))?
        }
        Command::Run => serve(run_daemon(gate))?,
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
        Command::Announce(arguments) => serve(announce::run(&node, arguments.node.as_deref()))?,
        Command::Relay { .. } | Command::Man => Ok(()),
    }
    .map(|()| ExitCode::SUCCESS)
}
