//! The command line: subcommands, options and their help.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use scheduled_events_core::{Change, UnixSeconds, limits};

use crate::hooks::CommandLine;
use crate::imds::{API_VERSION, ENDPOINT};
use crate::limits::INTERVAL_MAX;
use crate::replay::Fault;

/// Watch Azure Scheduled Events: decide, prepare, approve and recover
#[derive(Parser)]
#[command(
    name = "scheduled-events",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Try it without Azure:  scheduled-events demo\n\n\
                  Exit codes:\n  \
                  0  success\n  \
                  1  the endpoint cannot be reached or refuses, or the output cannot be written\n  \
                  2  usage error\n  \
                  3  the input is not a valid document"
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Poll once and print the announced events
    #[command(after_help = "Example:  scheduled-events list --json | jq -r 'select(.record==\"event\").event_type'")]
    List(ListArgs),
    /// Poll continuously: report changes, decide, prepare, approve and recover
    #[command(
        after_help = "Example:  scheduled-events watch --policy sample --state /var/lib/scheduled-events/state\n\
                      Example:  scheduled-events watch --policy drain.toml --prepare 'systemctl stop app' \\\n          \
                      --recover 'systemctl start app' --on scheduled='logger -t azure maintenance ahead'\n\n\
                      A COMMAND is split into words as a shell does it, and run without a shell. It receives the event in\n\
                      environment variables (SCHEDULED_EVENTS_EVENT_ID, SCHEDULED_EVENTS_EVENT_TYPE, one per member) and as\n\
                      JSON on standard input. A preparation is terminated when its event is over or becomes another one,\n\
                      and a recovery when the machine must prepare again. Otherwise a command may run for 15 minutes; a\n\
                      preparation may run for any time if the start of the event is known, and a command for a change\n\
                      until then."
    )]
    Watch(WatchArgs),
    /// Approve events by id: Azure may then start them early, on all machines they affect
    #[command(after_help = "Example:  scheduled-events approve C7061BAC-AFDC-4513-B24B-AA5F13A16123")]
    Approve(ApproveArgs),
    /// Validate a saved document and show the decisions, without network
    #[command(
        after_help = "Example:  scheduled-events check saved.json --vm-name WestNO_0 --policy sample --now 2022-04-11T22:20:00Z"
    )]
    Check(CheckArgs),
    /// Serve a scenario as Azure's metadata service would
    #[command(after_help = "Example:  scheduled-events replay preempt --speed 10\n\
                      Example:  scheduled-events replay live-migration --fault post.status:500@1-3 --fault empty@5\n\
                      Then:     scheduled-events watch --endpoint http://127.0.0.1:PORT --policy sample --until-idle")]
    Replay(ReplayArgs),
    /// List the built-in scenarios
    #[command(after_help = "Example:  scheduled-events scenarios")]
    Scenarios(ScenariosArgs),
    /// Replay and watch a scenario in one process
    #[command(after_help = "Example:  scheduled-events demo preempt")]
    Demo(DemoArgs),
}

/// The environment variable for the endpoint.
pub(super) const ENDPOINT_VARIABLE: &str = "SCHEDULED_EVENTS_ENDPOINT";

#[derive(Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
pub(super) struct ApproveArgs {
    /// Ids of events, as `list` prints them
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Keep the state in FILE, so that the next run continues where this one ends
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Run COMMAND when an event changes (repeatable). CHANGE: scheduled, started, started-without-notice, rescheduled,
    /// updated, completed, cancelled or ended. Other machines' events count too; the variable SCHEDULED_EVENTS_MINE is
    /// true or false
    #[arg(long, value_name = "CHANGE=COMMAND", value_parser = on_change)]
    pub(super) on: Vec<(Change, CommandLine)>,
    /// Run COMMAND to prepare for an event; exit code 0 means ready: the event may be approved
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) prepare: Option<CommandLine>,
    /// Run COMMAND to take the machine back into service, once nothing keeps it out: none of its events that were prepared
    /// for, and none that has started. If it fails, it is run again after 5 seconds at first and 5 minutes at last
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) recover: Option<CommandLine>,
    /// Also run the --recover COMMAND after events of this machine that started without being prepared for
    #[arg(long)]
    pub(super) recover_all: bool,
    /// Terminate a preparation that takes longer; its event is not approved then [default: none if the start of the event
    /// is known, else 15min]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(super) prepare_timeout: Option<Duration>,
    /// Ask COMMAND before each preparation (SCHEDULED_EVENTS_PHASE is prepare) and each approval (approve). Exit code 0
    /// means go on, 75 that another machine approves, any other one not yet: it is asked again every 5 seconds. The
    /// policy's leader is ignored
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) gate: Option<CommandLine>,
    /// Time between two polls, at least 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(super) interval: Duration,
    /// Exit when at least one event was seen, in this run or in the state file, and all have ended
    #[arg(long)]
    pub(super) until_idle: bool,
    /// Exit after N polls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_polls: Option<u64>,
    /// Decide and report, but do not prepare, approve or recover
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Args)]
pub(super) struct CheckArgs {
    /// The document; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// API version of the document
    #[arg(long, value_name = "VERSION", default_value = API_VERSION)]
    pub(super) api_version: String,
    /// Decide as if it were this time, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) now: Option<UnixSeconds>,
}

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// Name of a built-in scenario, or path of a scenario file
    #[arg(value_name = "SCENARIO|FILE")]
    pub(super) scenario: String,
    /// Address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub(super) listen: SocketAddr,
    /// Speed factor: 60 turns minutes into seconds
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    pub(super) speed: f64,
    /// Name of the machine under test
    #[arg(long, value_name = "NAME", default_value = "WestNO_0")]
    pub(super) vm_name: String,
    /// Misbehave (repeatable), optionally in certain requests only: `status:503@2-4`, `post.reset@1`
    #[arg(long, value_name = "KIND[:ARG][@FROM-TO]", long_help = fault_help())]
    pub(super) fault: Vec<Fault>,
}

#[derive(Args)]
pub(super) struct ScenariosArgs {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
pub(super) struct DemoArgs {
    /// Name of a built-in scenario, or path of a scenario file
    #[arg(value_name = "SCENARIO", default_value = "user-reboot")]
    pub(super) scenario: String,
    /// Speed factor: 60 turns minutes into seconds
    #[arg(long, value_name = "X", default_value_t = 60.0, value_parser = speed)]
    pub(super) speed: f64,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The metadata service.
#[derive(Args)]
pub(super) struct ServiceArgs {
    /// URL of the metadata service
    #[arg(long, value_name = "URL", default_value = ENDPOINT, env = ENDPOINT_VARIABLE)]
    pub(super) endpoint: String,
    /// Allow an endpoint that is neither Azure's address nor on this machine
    #[arg(long)]
    pub(super) allow_endpoint: bool,
    /// API version to request
    #[arg(long, value_name = "VERSION", default_value = API_VERSION)]
    pub(super) api_version: String,
}

/// The names of this machine.
#[derive(Args)]
pub(super) struct MachineArgs {
    /// This machine's name in the Resources of events (repeatable) [default: from the metadata service]
    #[arg(long, value_name = "NAME", value_parser = vm_name)]
    pub(super) vm_name: Vec<String>,
}

impl MachineArgs {
    pub(super) fn names(&self) -> Vec<&str> {
        self.vm_name.iter().map(String::as_str).collect()
    }
}

/// The policy.
#[derive(Args)]
pub(super) struct PolicyArgs {
    /// Which events to approve, prepare for, hold or ignore: a TOML file, or a preset. `observe` never approves. `sample`
    /// approves user-initiated events and freezes shorter than 9 seconds, as Microsoft's Python sample of 2020 does, but
    /// only if the event names this machine first in its Resources and can be read completely; it holds all other events
    #[arg(long, value_name = "observe|sample|FILE.toml", default_value = "observe")]
    pub(super) policy: String,
}

/// The output format.
#[derive(Args)]
pub(super) struct OutputArgs {
    /// Print records as JSON Lines
    #[arg(long)]
    pub(super) json: bool,
}

fn on_change(text: &str) -> Result<(Change, CommandLine), String> {
    let (word, command) = text.split_once('=').ok_or("expected CHANGE=COMMAND, such as completed='logger done'")?;
    let change = Change::ALL.into_iter().find(|change| change.word() == word).ok_or_else(|| {
        let words: Vec<_> = Change::ALL.into_iter().map(Change::word).collect();
        format!("found {word:?}, expected one of {}", words.join(", "))
    })?;
    Ok((change, CommandLine::parse(command)?))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:0".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval =
        humantime::parse_duration(text).map_err(|error| format!("{error}; expected a time such as 1s or 500ms"))?;
    if interval < Duration::from_millis(u64::from(limits::INTERVAL_MIN_MS)) {
        return Err(format!(
            "expected at least {} ms; the service refuses faster polls with status 429",
            limits::INTERVAL_MIN_MS
        ));
    }
    if interval > INTERVAL_MAX {
        return Err("expected at most an hour; the notice of an event can be as short as 30 seconds".into());
    }
    Ok(interval)
}

fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("expected a time longer than zero".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}; expected a time such as 90s or 10min")),
    }
}

fn time(text: &str) -> Result<UnixSeconds, String> {
    UnixSeconds::parse(text).ok_or_else(|| "expected a time such as 2022-04-11T22:20:00Z".into())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.001..=100_000.0).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.001 to 100000".into()),
    }
}

fn vm_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the name is empty".into()),
        name if name.len() > limits::NAME_MAX => Err(format!("the name is longer than {} bytes", limits::NAME_MAX)),
        name => Ok(name.to_owned()),
    }
}

fn fault_help() -> String {
    let mut help = "Misbehave (repeatable). Kinds of fault:\n".to_owned();
    for (kind, about) in crate::replay::fault::KINDS {
        // Writing to a string does not fail.
        let _ = writeln!(help, "  {kind:<28} {about}");
    }
    help + "The prefixes `get.`, `post.` and `name.` select requests by method or purpose; `@3-5` and `@3-` select them by \
            number, `@0s-70s` by time."
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::limits::COMMAND_TIME;

    #[test]
    fn the_help_of_watch_names_every_change_and_the_time_of_a_command() {
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("watch").expect("the subcommand").render_long_help().to_string();
        for change in Change::ALL {
            assert!(help.contains(change.word()), "{change}");
        }
        assert!(help.contains(&format!("for {} minutes", COMMAND_TIME.as_secs() / 60)), "{help}");
        assert!(help.contains(&format!("at least {}ms", limits::INTERVAL_MIN_MS)), "{help}");
    }
}
