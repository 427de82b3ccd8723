//! The command line.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use scheduled_events_core::{Change, UnixSeconds, limits};

use crate::hooks::CommandLine;
use crate::imds::{API_VERSION, ENDPOINT};
use crate::replay::Fault;

/// Live through Azure maintenance: watch Scheduled Events, decide, prepare, approve, recover.
#[derive(Parser)]
#[command(
    name = "scheduled-events",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Try it without Azure:  scheduled-events demo\n\
                  Exit codes: 0 done; 1 the endpoint could not be reached, or refused; 2 usage; 3 not a valid document."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) task: Task,
}

#[derive(Subcommand)]
pub(super) enum Task {
    /// Show the events that are announced now: one poll, as a table
    #[command(after_help = "Example:  scheduled-events list --json | jq -r 'select(.record==\"event\").event_type'")]
    List(List),
    /// Watch, decide, prepare, approve, recover: the main job
    #[command(
        after_help = "Example:  scheduled-events watch --policy sample --state /var/lib/scheduled-events/state\n\
                      Example:  scheduled-events watch --policy drain.toml --prepare 'systemctl stop app' \\\n          \
                      --recover 'systemctl start app' --on scheduled='logger -t azure maintenance ahead'\n\n\
                      A COMMAND is split into words as a shell does it, and run without a shell. It gets the event as\n\
                      SCHEDULED_EVENTS_EVENT_ID, _EVENT_TYPE and so on in its environment, and as JSON on stdin. It is\n\
                      ended when the event may start (NotBefore), or after 15 minutes where that is unknown."
    )]
    Watch(Watch),
    /// Approve events, so that Azure may start them early, for all the machines they name
    #[command(after_help = "Example:  scheduled-events approve C7061BAC-AFDC-4513-B24B-AA5F13A16123")]
    Approve(Approve),
    /// Check a saved document, and say what would be decided; the network is not touched
    #[command(
        after_help = "Example:  scheduled-events check saved.json --vm-name WestNO_0 --policy sample --now 2022-04-11T22:20:00Z"
    )]
    Check(Check),
    /// Serve a scenario as Azure's metadata service would, to test against
    #[command(after_help = "Example:  scheduled-events replay preempt --speed 10\n\
                      Example:  scheduled-events replay live-migration --fault post.status:500@1-3 --fault empty@5\n\
                      Then:     scheduled-events watch --endpoint http://127.0.0.1:PORT --policy sample --until-idle")]
    Replay(Replay),
    /// Name the scenarios that can be replayed
    #[command(after_help = "Example:  scheduled-events scenarios")]
    Scenarios(Scenarios),
    /// Replay a scenario and watch it, in one process: nothing to install, nothing to set up
    #[command(after_help = "Example:  scheduled-events demo preempt")]
    Demo(Demo),
}

/// Names the endpoint where no option does.
pub(super) const ENDPOINT_VARIABLE: &str = "SCHEDULED_EVENTS_ENDPOINT";

#[derive(Args)]
pub(super) struct List {
    #[command(flatten)]
    pub(super) service: Service,
    #[command(flatten)]
    pub(super) machine: Machine,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
pub(super) struct Approve {
    /// The ids of the events, as `list` shows them
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) service: Service,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
#[allow(clippy::struct_excessive_bools)] // Switches of a command line are independent.
#[allow(clippy::doc_markdown)] // A terminal shows them as they stand.
pub(super) struct Watch {
    #[command(flatten)]
    pub(super) service: Service,
    #[command(flatten)]
    pub(super) machine: Machine,
    #[command(flatten)]
    pub(super) rules: Rules,
    #[command(flatten)]
    pub(super) output: Output,
    /// Remember in FILE what a restart must not forget
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Run COMMAND when an event changes: scheduled, started, started-without-notice, rescheduled, updated, completed,
    /// cancelled or ended (repeatable); other machines' events too: SCHEDULED_EVENTS_MINE tells
    #[arg(long, value_name = "CHANGE=COMMAND", value_parser = on_change)]
    pub(super) on: Vec<(Change, CommandLine)>,
    /// Run COMMAND to get ready for an event; exit code 0 means ready
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) prepare: Option<CommandLine>,
    /// Run COMMAND when an event that was prepared for is gone; SCHEDULED_EVENTS_STILL_OPEN tells how many other events of
    /// this machine are not
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) recover: Option<CommandLine>,
    /// The time between two polls, 200ms at least
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(super) interval: Duration,
    /// End once an event was seen, in this run or in the state file, and none is left
    #[arg(long)]
    pub(super) until_idle: bool,
    /// End after N polls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_polls: Option<u64>,
    /// Decide and report, but neither prepare nor approve
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Args)]
pub(super) struct Check {
    /// The document; `-` or nothing reads standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) machine: Machine,
    #[command(flatten)]
    pub(super) rules: Rules,
    #[command(flatten)]
    pub(super) output: Output,
    /// The API version that the document came from
    #[arg(long, value_name = "VERSION", default_value = API_VERSION)]
    pub(super) api_version: String,
    /// Decide as of this moment, RFC 3339 (default: now)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) now: Option<UnixSeconds>,
}

#[derive(Args)]
pub(super) struct Replay {
    /// A scenario's name, or the path of a scenario file
    #[arg(value_name = "SCENARIO|FILE")]
    pub(super) scenario: String,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub(super) listen: SocketAddr,
    /// How many times faster than life; 60 turns minutes into seconds
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    pub(super) speed: f64,
    /// The name of the machine under test
    #[arg(long, value_name = "NAME", default_value = "WestNO_0")]
    pub(super) vm_name: String,
    /// Misbehave (repeatable), perhaps in some requests only: `status:503@2-4`, `post.reset@1`
    #[arg(long, value_name = "KIND[:ARG][@FROM-TO]", long_help = fault_help())]
    pub(super) fault: Vec<Fault>,
}

#[derive(Args)]
pub(super) struct Scenarios {
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
pub(super) struct Demo {
    /// The scenario, one of `scheduled-events scenarios`
    #[arg(value_name = "SCENARIO", default_value = "user-reboot")]
    pub(super) scenario: String,
    /// How many times faster than life
    #[arg(long, value_name = "X", default_value_t = 60.0, value_parser = speed)]
    pub(super) speed: f64,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Where the metadata service is.
#[derive(Args)]
pub(super) struct Service {
    /// The metadata service
    #[arg(long, value_name = "URL", default_value = ENDPOINT, env = ENDPOINT_VARIABLE)]
    pub(super) endpoint: String,
    /// Accept an endpoint that is neither Azure's address nor on this machine
    #[arg(long)]
    pub(super) allow_endpoint: bool,
    /// The API version to ask for
    #[arg(long, value_name = "VERSION", default_value = API_VERSION)]
    pub(super) api_version: String,
}

/// Who this machine is.
#[derive(Args)]
pub(super) struct Machine {
    /// This machine's name as events spell it (default: asked from the metadata service; repeatable)
    #[arg(long, value_name = "NAME", value_parser = vm_name)]
    pub(super) vm_name: Vec<String>,
}

impl Machine {
    pub(super) fn names(&self) -> Vec<&str> {
        self.vm_name.iter().map(String::as_str).collect()
    }
}

/// What to do about events.
#[derive(Args)]
pub(super) struct Rules {
    /// What to do: `observe` never approves; `sample` approves what a user started and short freezes; or a TOML file
    #[arg(long, value_name = "observe|sample|FILE.toml", default_value = "observe")]
    pub(super) policy: String,
}

/// How to say it.
#[derive(Args)]
pub(super) struct Output {
    /// Print JSON Lines
    #[arg(long)]
    pub(super) json: bool,
}

fn on_change(text: &str) -> Result<(Change, CommandLine), String> {
    let (word, command) = text.split_once('=').ok_or("it must be CHANGE=COMMAND, as in completed='logger done'")?;
    let change = Change::ALL.into_iter().find(|change| change.word() == word).ok_or_else(|| {
        let words: Vec<_> = Change::ALL.into_iter().map(Change::word).collect();
        format!("{word:?} is no change; the changes are {}", words.join(", "))
    })?;
    Ok((change, CommandLine::parse(command)?))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it takes an IP address and a port, such as 127.0.0.1:0".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 1s or 500ms"))?;
    if interval < Duration::from_millis(u64::from(limits::INTERVAL_MIN_MS)) {
        return Err(format!("it must be {} ms at least, or the service answers 429", limits::INTERVAL_MIN_MS));
    }
    if interval > Duration::from_secs(3600) {
        return Err("it must be an hour at most; a notice can be as short as 30 seconds".into());
    }
    Ok(interval)
}

fn moment(text: &str) -> Result<UnixSeconds, String> {
    UnixSeconds::parse(text).ok_or_else(|| "write it as 2022-04-11T22:20:00Z".into())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.001..=100_000.0).contains(&speed) => Ok(speed),
        _ => Err("it must be a number from 0.001 to 100000".into()),
    }
}

fn vm_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the name is empty".into()),
        name if name.len() > limits::NAME_MAX => Err(format!("a name has {} bytes at most", limits::NAME_MAX)),
        name => Ok(name.to_owned()),
    }
}

fn fault_help() -> String {
    let mut help = "Misbehave; repeatable, and several combine. The kinds:\n".to_owned();
    for (kind, about) in crate::replay::fault::KINDS {
        // Writing to a string does not fail.
        let _ = writeln!(help, "  {kind:<28} {about}");
    }
    help + "Prefixes `get.`, `post.` and `name.` choose the requests; `@3-5`, `@3-` and `@0s-70s` the time."
}
