//! The command line: subcommands, options and their help.

#[cfg(unix)]
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use scheduled_events_core::{Change, EventKind, UnixSeconds, limits};

use super::discover::DiscoverArgs;
use super::event_filter::event_kind;
use super::operator::{SimulateEvictionArgs, TerminateProfileArgs};
use super::record::RecordArgs;
use super::replay::ReplayArgs;
use super::timeline::TimelineArgs;
use crate::hooks::CommandLine;
use crate::imds::{API_VERSION, ENDPOINT};
use crate::limits::INTERVAL_MAX;
#[cfg(unix)]
use crate::limits::RUN_GRACE_MAX;

/// Watch Azure Scheduled Events: decide, prepare, approve and recover
#[derive(Parser)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
#[command(
    name = "scheduled-events",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 120,
    after_help = "Try it without Azure:  scheduled-events demo\n\n\
                  Exit codes:\n  \
                  0  success\n  \
                  1  the endpoint cannot be reached or refuses, nothing can be approved, or the output cannot be written\n  \
                  2  usage error\n  \
                  3  the input is not a valid document\n  \
                  4  wait: the time is over\n\n\
                  `run` ends with the exit code of its worker."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Print no progress for people, and only warnings and errors on standard error. Results, records and the output of
    /// your commands are printed
    #[arg(long, short, global = true, display_order = 1000)]
    pub(super) quiet: bool,
    /// When to use colour: `auto` means on a terminal, unless NO_COLOR is set in the environment
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", display_order = 1000)]
    pub(super) color: ColorWhen,
}

/// When to use colour. `auto` is on terminals, unless the environment variable `NO_COLOR` is set.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum ColorWhen {
    Auto,
    Always,
    Never,
}

impl From<ColorWhen> for anstream::ColorChoice {
    fn from(when: ColorWhen) -> Self {
        match when {
            ColorWhen::Auto => Self::Auto,
            ColorWhen::Always => Self::Always,
            ColorWhen::Never => Self::Never,
        }
    }
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // There is one value, made once.
pub(super) enum Command {
    /// Poll once and print the announced events
    #[command(after_help = "Example:  scheduled-events list --json | jq -r 'select(.record==\"event\").event_type'")]
    List(ListArgs),
    /// Poll continuously: report changes, decide, prepare, approve and recover
    #[command(
        after_help = "Example:  scheduled-events watch --policy sample --state /var/lib/scheduled-events/state\n\
                      Example:  scheduled-events watch --policy drain.toml --prepare 'systemctl stop app' \\\n          \
                      --recover 'systemctl start app' --on scheduled='logger -t azure maintenance ahead'\n\n\
                      A COMMAND is split into words as a shell does it, and run without a shell. It receives the event in \
                      environment variables (SCHEDULED_EVENTS_EVENT_ID, SCHEDULED_EVENTS_EVENT_TYPE, one per member) and as \
                      JSON on standard input. A preparation is terminated when its event is over or becomes another one, and a \
                      recovery when the machine must prepare again. Otherwise a command may run for 15 minutes; a preparation \
                      may run for any time if the start of the event is known, and a command for a change until that \
                      start (NotBefore)."
    )]
    Watch(WatchArgs),
    /// Approve events: Azure may then start them early, on all machines they affect
    #[command(
        override_usage = "scheduled-events approve [OPTIONS] <ID>...\n       \
                          scheduled-events approve [OPTIONS] --mine | --type <TYPES>",
        after_help = "Example:  scheduled-events approve C7061BAC-AFDC-4513-B24B-AA5F13A16123\n\
                      Example:  scheduled-events approve --mine --type Freeze,Reboot\n\n\
                      It polls first, and approves either all events that were named, or none: each must be announced, \
                      wait for approval and name this machine."
    )]
    Approve(ApproveArgs),
    /// Wait until an event is announced, for shell scripts
    #[command(after_help = "Example:  scheduled-events wait --mine --type Preempt,Terminate && systemctl stop app\n\
                      Example:  scheduled-events wait --timeout 10min || [ $? -eq 4 ]\n\n\
                      Exit codes: 0 an event that matches is announced, Scheduled or Started, and was printed as by `list` \
                      (one that is Completed or Canceled is over); \
                      1 the time is over and no poll was answered with a document, or there was an event and this machine's \
                      name, which --mine needs, is unknown; 4 the time is over. Failed polls are reported on standard error and repeated.")]
    Wait(WaitArgs),
    /// Show whether the machine is in service, and what each open event waits for, from the state file of `watch`
    #[command(after_help = "Example:  scheduled-events status\n\
                      Example:  scheduled-events status --json | jq -e 'select(.record==\"status\").in_service'\n\n\
                      It changes nothing, and shows what the watcher saved last; a watcher saves when something changes. Times \
                      are those of the watcher's clock. Exit codes: 0 the state was printed, also if nothing watches now; 2 there \
                      is no state file, or it cannot be read; 3 it is damaged, or no state file.")]
    Status(StatusArgs),
    /// Keep an interruptible workload, such as a worker on a Spot machine: start it, stop it in time, start it again
    #[cfg(unix)]
    #[command(
        override_usage = "scheduled-events run [OPTIONS] -- <COMMAND>...",
        after_help = "Example:  scheduled-events run --approve --state /var/lib/worker/state -- python3 worker.py\n\
                      Example:  scheduled-events run --approve --grace 8s --checkpoint 'worker-save' --every 5min \\\n          \
                      --resume 'worker-restore' --state /var/lib/worker/state -- worker --queue jobs\n\n\
                      The worker starts after the warm-up, whether the metadata service answers or not. When an event of \
                      this machine is announced that stops it, a last checkpoint is made, which ends 2 seconds and the \
                      grace before the event at the latest. Then the worker and all that it started get SIGTERM, and \
                      SIGKILL after the grace. Once the event is cancelled or over, the resume command and the warm-up \
                      run, and the worker starts again. With --state, that also happens in the run after a boot.\n\n\
                      The worker has standard input and output, and a process group of its own; signals are passed on to \
                      that. Commands run without a shell and get SCHEDULED_EVENTS_PHASE (warm-up, checkpoint, stop, \
                      resume), SCHEDULED_EVENTS_WORKER_PID while the worker runs, and the event in variables and on \
                      standard input if there is one.\n\n\
                      Exit codes: that of a worker that ends by itself, which is not started again, whether it succeeded \
                      or failed; 128+N if signal N ended it, or ended this program while no worker ran; 2 usage error, or \
                      the state file or the lock is in use; 125 the warm-up or the resume command failed at the start; \
                      126 the worker cannot be executed; 127 it is not found. There is none if the machine goes away \
                      first: with --state, the next run resumes."
    )]
    Run(RunArgs),
    /// Validate a saved document and show the decisions, without network
    #[command(
        after_help = "Example:  scheduled-events check saved.json --vm-name WestNO_0 --policy sample --now 2022-04-11T22:20:00Z\n\
                      Example:  scheduled-events check --policy drain.toml --as c > policy.h"
    )]
    Check(CheckArgs),
    /// Serve a scenario as Azure's metadata service would
    #[command(after_help = "Example:  scheduled-events replay preempt --speed 10\n\
                      Example:  scheduled-events replay live-migration --fault post.status:500@1-3 --fault empty@5\n\
                      Then:     scheduled-events watch --endpoint http://127.0.0.1:PORT --policy sample --until-idle")]
    Replay(ReplayArgs),
    /// Find the metadata service of a machine outside a virtual network, in its DHCP lease
    #[command(after_help = "Example:  scheduled-events discover\n\
                      Example:  scheduled-events list --endpoint auto\n\n\
                      It reads the lease files of systemd-networkd, NetworkManager, dhclient and dhcpcd, and prints \
                      http://ADDRESS from the newest one that has DHCP option 245. Exit code 1: there is none.")]
    Discover(DiscoverArgs),
    /// Make a scenario of what a watcher saw, for `replay` and `demo`
    #[command(after_help = "Example:  scheduled-events record --mask /var/lib/scheduled-events/audit > seen.toml\n\
                      Example:  scheduled-events watch --json --max-polls 600 | scheduled-events record - > seen.toml\n\
                      Then:     scheduled-events replay seen.toml")]
    Record(RecordArgs),
    /// Draw a maintenance of one or several machines as a picture, for a post-mortem
    #[command(after_help = "Example:  scheduled-events timeline /var/lib/scheduled-events/audit > maintenance.svg\n\
                      Example:  scheduled-events timeline WestNO_*.audit > maintenance.svg\n\n\
                      It prints SVG, which any browser shows. Events that follow each other within an hour are one maintenance.")]
    Timeline(TimelineArgs),
    /// List the built-in scenarios, or print the file of one
    #[command(after_help = "Example:  scheduled-events scenarios\n\
                      Example:  scheduled-events scenarios --show preempt > my.toml && scheduled-events demo my.toml")]
    Scenarios(ScenariosArgs),
    /// Replay and watch a scenario in one process
    #[command(after_help = "Example:  scheduled-events demo preempt")]
    Demo(DemoArgs),
    /// Print how a scale set announces deletions with Terminate events, for the tool of your choice
    #[command(
        after_help = "Example:  scheduled-events terminate-profile --scale-set web --resource-group shop --timeout 10m --as az\n\n\
                      It prints what an operator runs, the update of the instances included; it changes nothing and uses no \
                      network."
    )]
    TerminateProfile(TerminateProfileArgs),
    /// Print how to evict a Spot machine for a drill, for the tool of your choice
    #[command(
        override_usage = "scheduled-events simulate-eviction --resource-group <NAME> --vm <NAME> --as <TOOL>\n       \
                          scheduled-events simulate-eviction --resource-group <NAME> --scale-set <NAME> --instance <ID> --as \
                          <TOOL>",
        after_help = "Example:  scheduled-events simulate-eviction --resource-group shop --vm worker --as az\n\n\
                      It prints what an operator runs, and what to expect; it changes nothing and uses no network."
    )]
    SimulateEviction(SimulateEvictionArgs),
    /// Watch as a Windows service: install, start, stop and remove it
    #[cfg(windows)]
    Service(super::service::WindowsServiceArgs),
    /// Print completions for a shell
    #[command(after_help = "Example:  scheduled-events completions bash > \
                            ~/.local/share/bash-completion/completions/scheduled-events")]
    Completions(CompletionsArgs),
    /// Print the manual page, or that of one command
    #[command(after_help = "Example:  scheduled-events man | man -l -\n\
                            Example:  scheduled-events man watch > scheduled-events-watch.1")]
    Man(ManArgs),
}

/// The environment variable for the endpoint.
pub(super) const ENDPOINT_VARIABLE: &str = "SCHEDULED_EVENTS_ENDPOINT";

/// The state file of the systemd unit.
#[cfg(not(windows))]
const STATE_FILE: &str = "/var/lib/scheduled-events/state";
#[cfg(windows)]
pub(super) const STATE_FILE: &str = r"C:\ProgramData\scheduled-events\state";

#[derive(Args)]
pub(super) struct ListArgs {
    /// Print only the events of this machine
    #[arg(long)]
    pub(super) mine: bool,
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
    #[arg(required_unless_present_any = ["mine", "types"], conflicts_with_all = ["mine", "types"], value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Approve all events of this machine that wait for approval
    #[arg(long, conflicts_with = "others")]
    pub(super) mine: bool,
    /// Approve all events of these types that wait for approval, separated by commas: those of this machine, with --others
    /// those of all machines
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = event_kind)]
    pub(super) types: Vec<EventKind>,
    /// Also approve events that do not name this machine. Another machine's Terminate is never approved: each machine
    /// approves its own
    #[arg(long)]
    pub(super) others: bool,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
pub(super) struct WaitArgs {
    /// Wait for an event of one of these types, separated by commas: Freeze, Reboot, Redeploy, Preempt, Terminate, or Other
    /// for any other type [default: any type]
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = event_kind)]
    pub(super) types: Vec<EventKind>,
    /// Wait for an event of this machine
    #[arg(long)]
    pub(super) mine: bool,
    /// Stop after this time with exit code 4 [default: wait forever]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
#[allow(clippy::struct_excessive_bools)] // Each is an option of its own.
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
    /// Keep the state in FILE, so that the next run continues where this one ends
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Append every record to FILE, as a line of JSON with a sequence number. An approval is posted once the records before
    /// it are synced to the disk, or after 2 seconds. At 8 MiB the file is renamed to FILE.1, that one to FILE.2, up to
    /// FILE.4
    #[arg(long, value_name = "FILE")]
    pub(super) audit: Option<PathBuf>,
    /// Write metrics for Prometheus to FILE, for node_exporter's textfile collector, which reads files that end in `.prom`.
    /// The file is replaced as a whole, at most once a second, and everybody may read it
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_file: Option<PathBuf>,
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
    /// Exit after N polls, once the commands that run then have ended; Ctrl-C ends them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_polls: Option<u64>,
    /// Decide and report, but do not prepare, approve or recover, run no command and change no file
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Also log this machine's events, warnings and errors to the Application log of Windows. The service always does
    #[cfg(windows)]
    #[arg(long)]
    pub(super) event_log: bool,
}

#[cfg(unix)]
#[derive(Args)]
pub(super) struct RunArgs {
    /// The worker: a program and its arguments. Its standard input is empty if this program's is a terminal
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) worker: Vec<OsString>,
    /// Stop the worker for events of these types, separated by commas: Freeze, Reboot, Redeploy, Preempt, Terminate, or Other for
    /// any other type. The default is every type that ends the processes of this machine; a Freeze only pauses them
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        value_parser = event_kind,
        default_value = "Preempt,Terminate,Reboot,Redeploy"
    )]
    pub(super) stop_on: Vec<EventKind>,
    /// Decide with the rules of a TOML file or a preset in place of --stop-on: `prepare` stops the worker. With --approve, `approve`
    /// approves an event without stopping it
    #[arg(long, value_name = "observe|sample|FILE.toml", conflicts_with = "stop_on")]
    pub(super) policy: Option<String>,
    /// Approve an event once the worker is gone, so that it starts at once. If several runs have their state files in one folder,
    /// once the last of their workers is gone. An event that also affects other machines is not approved
    #[arg(long)]
    pub(super) approve: bool,
    /// Time between SIGTERM and SIGKILL. An eviction has a notice of 30 seconds, and less when it is seen
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = grace)]
    pub(super) grace: Duration,
    /// Run COMMAND to save a checkpoint: regularly, and once more when an event that stops the worker is announced
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) checkpoint: Option<CommandLine>,
    /// Time between two checkpoints [default: only when an event is announced]
    #[arg(long, value_name = "TIME", value_parser = timeout, requires = "checkpoint")]
    pub(super) every: Option<Duration>,
    /// Run COMMAND before the worker starts, each time; exit code 0 means that it may
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) warmup: Option<CommandLine>,
    /// Run COMMAND before the warm-up if the worker was interrupted, to restore the latest checkpoint: after an event, after a boot,
    /// or if the last run ended before the worker had done its work
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) resume: Option<CommandLine>,
    /// Run COMMAND in place of sending SIGTERM. If it fails, SIGTERM is sent; SIGKILL follows after the grace
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(super) stop_command: Option<CommandLine>,
    /// Lock FILE as long as this program runs, so that the worker runs once on this machine
    #[arg(long, value_name = "FILE")]
    pub(super) lock: Option<PathBuf>,
    /// Keep the state in FILE, so that the next run continues where this one ends. It is locked, too
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Time between two polls, at least 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(super) interval: Duration,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Args)]
pub(super) struct StatusArgs {
    /// The state file of `watch --state FILE`
    #[arg(long, value_name = "FILE", default_value = STATE_FILE)]
    pub(super) state: PathBuf,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
pub(super) struct CheckArgs {
    /// The document; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(super) file: PathBuf,
    /// This machine's name in the Resources of events (repeatable). Without it, all events are held
    #[arg(long, value_name = "NAME", value_parser = vm_name)]
    pub(super) vm_name: Vec<String>,
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
    /// Read no document, but print the policy as source code: `c` is a header that defines `scheduled_events_policy`
    #[arg(long, value_name = "LANGUAGE", conflicts_with_all = ["file", "json"])]
    pub(super) r#as: Option<Language>,
}

/// The languages in which `check` prints a policy.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Language {
    C,
}

#[derive(Args)]
pub(super) struct ScenariosArgs {
    /// Print the file of a scenario, as a start for another one
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    pub(super) show: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args)]
pub(super) struct DemoArgs {
    /// Name of a built-in scenario, or path of a scenario file
    #[arg(value_name = "SCENARIO", default_value = "user-reboot")]
    pub(super) scenario: String,
    /// Speed factor: 60 turns minutes into seconds [default: 60, or less if an event's notice is short]
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(super) speed: Option<f64>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(super) struct ManArgs {
    /// The command; without one, the page describes the program
    #[arg(value_name = "COMMAND")]
    pub(super) command: Option<String>,
}

/// The metadata service.
#[derive(Args)]
pub(super) struct ServiceArgs {
    /// URL of the metadata service, or `auto`: the usual address if it answers when the command starts, else the address that
    /// `discover` finds. A lease file that does not belong to root needs --allow-endpoint
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

/// How much a log for people has.
#[derive(Args)]
pub(super) struct LogArgs {
    /// Print each event of other machines, instead of one line per poll that sums them up
    #[arg(long, short)]
    pub(super) verbose: bool,
}

fn on_change(text: &str) -> Result<(Change, CommandLine), String> {
    let (word, command) = text.split_once('=').ok_or("expected CHANGE=COMMAND, such as completed='logger done'")?;
    let change = Change::ALL.into_iter().find(|change| change.word() == word).ok_or_else(|| {
        let words: Vec<_> = Change::ALL.into_iter().map(Change::word).collect();
        format!("found {word:?}, expected one of {}", words.join(", "))
    })?;
    Ok((change, CommandLine::parse(command)?))
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

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(timeout) if timeout < Duration::from_secs(1) => Err("expected at least 1s".into()),
        Ok(timeout) => Ok(timeout),
        Err(error) => Err(format!("{error}; expected a time such as 10min or 30s")),
    }
}

#[cfg(unix)]
fn grace(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(grace) if grace > RUN_GRACE_MAX => Err("expected at most an hour".into()),
        Ok(grace) => Ok(grace),
        Err(error) => Err(format!("{error}; expected a time such as 8s")),
    }
}

fn time(text: &str) -> Result<UnixSeconds, String> {
    UnixSeconds::parse(text).ok_or_else(|| "expected a time such as 2022-04-11T22:20:00Z".into())
}

pub(super) fn speed(text: &str) -> Result<f64, String> {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::limits::{AUDIT_FILE_MAX, AUDIT_FILES_MAX, AUDIT_WAIT, COMMAND_TIME};

    #[test]
    fn the_help_of_watch_names_every_change_and_the_time_of_a_command() {
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("watch").expect("the subcommand").render_long_help().to_string();
        for change in Change::ALL {
            assert!(help.contains(change.word()), "{change}");
        }
        assert!(help.contains(&format!("for {} minutes", COMMAND_TIME.as_secs() / 60)), "{help}");
        assert!(help.contains(&format!("at least {}ms", limits::INTERVAL_MIN_MS)), "{help}");
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&format!("or after {} seconds", AUDIT_WAIT.as_secs())), "{help}");
        assert!(help.contains(&format!("At {} MiB", AUDIT_FILE_MAX >> 20)), "{help}");
        assert!(help.contains(&format!("up to FILE.{AUDIT_FILES_MAX}")), "{help}");
    }
}
