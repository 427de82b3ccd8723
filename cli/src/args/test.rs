//! The arguments of commands that test: `replay`, `record`, `scenarios`, `demo`, `capture`, `contract`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use scheduled_events_core::wire::API_VERSION;
use scheduled_events_replay::server::MAX_MACHINES;
use scheduled_events_replay::{Fault, fault};

use super::shared::{LogArgs, MachineArgs, OutputArgs, ServiceArgs, interval, speed, timeout};

#[derive(Args)]
pub(crate) struct ScenariosArgs {
    /// Print the file of a scenario, as a start for another one
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    pub(crate) show: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Name of a built-in scenario, or path of a scenario file
    #[arg(value_name = "SCENARIO", default_value = "user-reboot")]
    pub(crate) scenario: String,
    /// Speed factor: 60 turns minutes into seconds [default: 60, or less if an event's notice is
    /// short]
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(crate) speed: Option<f64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
#[allow(clippy::struct_excessive_bools)] // Each is an option of its own.
pub(crate) struct CaptureArgs {
    /// Append every exchange with the service to FILE, as a line of JSON with a sequence number:
    /// when it was, method, path, status, header and body of both. Only you can read the file. At
    /// 8 MiB it is renamed to FILE.1, that one to FILE.2, up to FILE.4
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Replace the names of machines and groups, ids, subscriptions and addresses before they are
    /// written, each by the same one every time. FILE.names keeps what was replaced, for the next
    /// run: keep it to yourself
    #[arg(long)]
    pub(crate) mask: bool,
    /// Also send what the service should refuse, such as a request without its header, and ask for
    /// every version: once at the start, and the versions again when an event is announced or
    /// starts
    #[arg(long)]
    pub(crate) probe: bool,
    /// Approve each event of this machine, twice, which starts it: only on a machine that nobody
    /// needs. An event that names other machines as well is not approved
    #[arg(long)]
    pub(crate) approve: bool,
    /// Time between two polls, at least 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Exit when at least one event was seen, and all have ended [default: on Ctrl-C]
    #[arg(long)]
    pub(crate) until_idle: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct ContractArgs {
    /// The file of `capture --to`; the files before it, FILE.4 to FILE.1, are read first. `-` is
    /// standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct RecordArgs {
    /// The file of `watch --audit` or of `capture --to`; the files before it, FILE.4 to FILE.1, are
    /// read first. `-` is standard input
    #[arg(value_name = "AUDIT")]
    pub(crate) audit: PathBuf,
    /// Leave out names of machines, ids of events and times of the day
    #[arg(long)]
    pub(crate) mask: bool,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct ReplayArgs {
    /// Name of a built-in scenario, or path of a scenario file or of an audit file of `watch
    /// --audit`
    #[arg(value_name = "SCENARIO|FILE")]
    pub(crate) scenario: String,
    /// Address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Speed factor: 60 turns minutes into seconds
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    pub(crate) speed: f64,
    /// Name of the machine under test
    #[arg(long, value_name = "NAME", default_value = "WestNO_0")]
    pub(crate) vm_name: String,
    /// Serve the same documents to N machines, each at an address of its own that serves its name:
    /// WestNO_0, WestNO_1, and so on. With a port, it is the first machine's, and the others have
    /// the next ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = machines)]
    pub(crate) machines: u32,
    /// Serve Azure Resource Manager and Azure Resource Graph as well, for programs that handle
    /// events outside the machines (in preview at Azure). Their address is printed; with a port, it
    /// is the one after the machines'
    #[arg(long)]
    pub(crate) control_plane: bool,
    /// Send Event Grid's messages to this queue of Azurite,
    /// http://HOST:PORT/devstoreaccount1/QUEUE, or to another account's with a SAS token after `?`.
    /// Implies --control-plane, and the scenario starts at once
    #[arg(long, value_name = "URL")]
    pub(crate) control_plane_queue: Option<String>,
    /// Approve a user's reboot or redeploy automatically, as a scheduledEventsPolicy does:
    /// `reboot`, `redeploy` or both. These events appear as Started
    #[arg(
        long,
        value_name = "TYPES",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) automatically_approve: String,
    /// The newest api-version that the service has: 2024-07-09 shows advice, as in the scenario
    /// `rebalance`. A request for a newer one is refused
    #[arg(long, value_name = "VERSION", default_value = API_VERSION)]
    pub(crate) newest_api_version: String,
    /// The same number gives the events the same EventIds [default: different ones each time]
    #[arg(long, value_name = "NUMBER", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Misbehave (repeatable), optionally in certain requests only: `status:503@2-4`,
    /// `post.reset@1`
    #[arg(long, value_name = "KIND[:ARG][@FROM-TO]", long_help = fault_help())]
    pub(crate) fault: Vec<Fault>,
    /// Write which rules of the wire contract the clients keep to FILE, which ends in .xml (JUnit),
    /// .ndjson or .html, when COMMAND has ended, or without one on Ctrl-C
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How long COMMAND may go on once all events of the scenario have ended. Then it is terminated
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = timeout, requires = "command")]
    pub(crate) linger: Duration,
    /// A client to test: run for each machine, with the machine's address in
    /// SCHEDULED_EVENTS_ENDPOINT and its name in SCHEDULED_EVENTS_MACHINE.
    /// SCHEDULED_EVENTS_CONTROL_PLANE and SCHEDULED_EVENTS_QUEUE have the addresses outside the
    /// machines
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:0".to_owned())
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "expected a whole number from 0, such as 7".to_owned())
}

fn machines(text: &str) -> Result<u32, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=MAX_MACHINES).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {MAX_MACHINES}"))
}

fn fault_help() -> String {
    let mut help = "Misbehave (repeatable). Kinds of fault:\n".to_owned();
    for (kind, about) in fault::KINDS {
        // Writing to a string does not fail.
        let _ = writeln!(help, "  {kind:<28} {about}");
    }
    help += "The prefixes `get.`, `post.` and `name.` select requests by method or purpose, `arm.` and `graph.` those to Azure Resource \
             Manager and Azure Resource Graph; `@3-5` and `@3-` select them by number, `@0s-70s` by time.\n\
             Faults of Event Grid's messages, with the prefix `message.`:\n";
    for (kind, about) in fault::MESSAGE_KINDS {
        let _ = writeln!(help, "  {kind:<28} {about}");
    }
    help
}
