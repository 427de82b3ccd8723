//! The command `scheduled-events-fleet`: arguments, output and exit codes.
//!
//! Results go to standard output, diagnostics to standard error. Exit codes: 0 done; 1 something
//! cannot be reached or refuses; 2 the arguments or the configuration are invalid. `ask` has the
//! exit codes of a gate.

mod ask;
mod delete_register;
mod free;
pub mod output;
mod probe;
mod status;
pub mod table;

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::Config;
use crate::daemon::Daemon;
use crate::engine;
use crate::failure::Failure;
use crate::http::install_tls;
use crate::log;
use crate::metadata::{self, Compute};
use crate::names::Name;
#[cfg(feature = "kubernetes")]
use crate::node;
use crate::relay::{self, file::RelayFile};
use crate::supervision::{asked_to_stop, notify_stopping};
use output::print;

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
    /// Answer `scheduled-events watch --gate`: exit code 0 yes, 75 another machine approves, 1 not
    /// yet
    Ask,
    /// End with 0 if this machine's daemon works, whether or not its store answers: for a liveness
    /// probe
    Probe,
    /// Show who is out of service or about to be, who is not ready, and why nothing moves
    Status {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Free the slots of a machine that will not come back, and forget it
    ///
    /// Waits for three heartbeats first. A machine that runs its daemon frees its slots itself,
    /// once it is back in service.
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
    /// One that is valid stays. Without the register of a group, nobody knows which places were
    /// taken: first see to it that all of its machines are in service. Machines write their own
    /// registers again, and mark themselves again for an event.
    DeleteRegister {
        /// The register, such as `groups/web`, as `status` and the log name it
        key: String,
        /// Delete it also if another version of this program wrote it
        #[arg(long)]
        force: bool,
    },
    /// Cordon this machine's Kubernetes node and evict its pods: for `watch --prepare`
    ///
    /// Reads the event as JSON on standard input, as every hook of `scheduled-events` gets it; at a
    /// terminal, or without input, there is no event. Ends with 0 once no pod is left that counts,
    /// and with 1 if that takes too long.
    #[cfg(feature = "kubernetes")]
    Drain(NodeArguments),
    /// Put the node back into service, as far as `drain` took it out: for `watch --recover`
    #[cfg(feature = "kubernetes")]
    Uncordon {
        #[command(flatten)]
        node: NodeArguments,
        /// Do nothing while one of the events that the node is out of service for is announced or
        /// in progress
        #[arg(long)]
        if_over: bool,
    },
    /// Show an event on this machine's Kubernetes node, whether or not it is drained: for `watch
    /// --on`
    #[cfg(feature = "kubernetes")]
    Announce(NodeArguments),
    /// Forward the records of the audit file to other systems
    Relay,
    /// Print the manual page
    Man,
}

#[cfg(feature = "kubernetes")]
#[derive(clap::Args)]
struct NodeArguments {
    /// The node [default: `NODE_NAME`, or what follows from the machine's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Runs the command with these arguments, the first of which is the program's name, and returns its
/// exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit(arguments, |cli: Cli| run_command(&cli.command, &cli.config))
}

/// Parses the arguments of a command, runs it, prints a failure, and returns its exit code.
pub fn exit<T: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    command: impl FnOnce(T) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let parsed = match T::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are not errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match command(parsed) {
        Ok(code) => code,
        Err(failure) => {
            if !failure.message.is_empty() {
                log::line(&format!("error: {}", failure.message));
            }
            ExitCode::from(failure.exit_code)
        }
    }
}

fn run_command(command: &Command, file: &Path) -> Result<ExitCode, Failure> {
    if matches!(command, Command::Man) {
        let source = concat!("scheduled-events-fleet ", env!("CARGO_PKG_VERSION"));
        return manual(Cli::command(), source).map(|()| ExitCode::SUCCESS);
    }
    if matches!(command, Command::Relay) {
        // `relay` needs less of the configuration than the other commands.
        let file = RelayFile::load(file).map_err(Failure::usage)?;
        return block_on(relay::run(&file))?
            .map(|()| ExitCode::SUCCESS)
            .map_err(Failure::refused);
    }
    let config = Config::load(file).map_err(Failure::usage)?;
    match command {
        Command::Ask => return ask::ask(&config),
        Command::Probe => probe::probe(&config),
        Command::Run => block_on(run_daemon(config))?,
        Command::Status { json } => block_on(status::status(&config, *json))?,
        Command::Free { machine, force } => {
            block_on(free::free(&config, &Name::from(machine.as_str()), *force))?
        }
        Command::DeleteRegister { key, force } => {
            block_on(delete_register::delete_register(&config, key, *force))?
        }
        #[cfg(feature = "kubernetes")]
        Command::Drain(arguments) => {
            block_on(node::drain::run(&config, arguments.node.as_deref()))?
        }
        #[cfg(feature = "kubernetes")]
        Command::Uncordon { node, if_over } => {
            block_on(node::uncordon::run(&config, node.node.as_deref(), *if_over))?
        }
        #[cfg(feature = "kubernetes")]
        Command::Announce(arguments) => {
            block_on(node::announce::run(&config, arguments.node.as_deref()))?
        }
        Command::Relay | Command::Man => Ok(()),
    }
    .map(|()| ExitCode::SUCCESS)
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

/// Runs a future and the tasks that it spawns on this thread until the future ends.
///
/// # Errors
/// The system refuses a resource that the runtime needs.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    install_tls();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::refused(format!("cannot start: {error}")))?;
    let result = tokio::task::LocalSet::new().block_on(&runtime, future);
    // Do not wait for a file system call that hangs.
    runtime.shutdown_background();
    Ok(result)
}

async fn run_daemon(config: Config) -> Result<(), Failure> {
    let engine = engine::open(&config).await.map_err(Failure::usage)?;
    let needs_zone = config.groups.iter().any(|group| group.per_zone);
    let asked = match &config.machine {
        Some(_) if !needs_zone => Compute::default(),
        known => metadata::compute(&config.metadata).await.map_err(|why| {
            let advice = if known.is_some() {
                "a group with `per_zone` needs its zone"
            } else {
                "set `machine`"
            };
            Failure::refused(format!("{why}; {advice}"))
        })?,
    };
    let machine = Name::from(config.machine.clone().unwrap_or(asked.name));
    let zone = Some(asked.zone).filter(|zone| !zone.is_empty());
    let daemon = Daemon::new(config, machine, zone, engine);
    let end = async {
        asked_to_stop().map_err(|error| error.to_string())?.await;
        Ok(())
    };
    let socket = daemon.socket().to_owned();
    let result = tokio::select! {
        result = daemon.run(|| log::line(&format!("ready at {}", socket.display()))) => result,
        result = end => result,
    };
    notify_stopping();
    result.map_err(Failure::refused)
}
