//! Arguments of several subcommands, and parsers for the values of options.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use scheduled_events::hooks::CommandLine;
use scheduled_events::imds::{AUTO_API_VERSION, ENDPOINT};
use scheduled_events::limits::INTERVAL_MAX;
use scheduled_events::resource_name::Name;
use scheduled_events_core::limits;

/// The environment variable for the endpoint.
pub(crate) const ENDPOINT_VARIABLE: &str = "SCHEDULED_EVENTS_ENDPOINT";

/// The state file of the systemd unit.
#[cfg(not(windows))]
pub(crate) const STATE_FILE: &str = "/var/lib/scheduled-events/state";
#[cfg(windows)]
pub(crate) const STATE_FILE: &str = r"C:\ProgramData\scheduled-events\state";

/// The configuration file of the systemd unit.
#[cfg(not(windows))]
pub(crate) const CONFIG_FILE: &str = "/etc/scheduled-events/watch.toml";
#[cfg(windows)]
pub(crate) const CONFIG_FILE: &str = r"C:\ProgramData\scheduled-events\watch.toml";

/// The metadata service.
#[derive(Args)]
pub(crate) struct ServiceArgs {
    /// URL of the metadata service, or `auto`: the usual address if it answers when the command
    /// starts, else the address that `discover` finds. A lease file that does not belong to root
    /// needs --allow-endpoint
    #[arg(long, value_name = "URL", default_value = ENDPOINT, env = ENDPOINT_VARIABLE)]
    pub(crate) endpoint: String,
    /// Allow an endpoint that is neither Azure's address nor on this machine
    #[arg(long)]
    pub(crate) allow_endpoint: bool,
    /// API version to request; `auto` is 2020-07-01, and 2024-07-09, which shows advice, for what
    /// needs it, if the service has it
    #[arg(long, value_name = "auto|VERSION", default_value = AUTO_API_VERSION)]
    pub(crate) api_version: String,
}

/// The configuration file.
#[derive(Args, Default)]
pub(crate) struct ConfigArgs {
    /// Read options from FILE, in TOML. The key of each is its name with `_` for `-`; a table
    /// `[on]` has a command for each change, and the tables of a policy may be in the same file.
    /// Options on the command line replace those of the file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What the file has: options and rules are those of one reading.
    #[arg(skip)]
    pub(crate) text: Option<String>,
    /// Where the file names the policy.
    #[arg(skip)]
    pub(crate) policy_at: Option<String>,
    /// The keys of the file that are for another command.
    #[arg(skip)]
    pub(crate) unused: Vec<String>,
    /// Why the file could not be used, for `doctor`, which goes on without it.
    #[arg(skip)]
    pub(crate) mistake: Option<String>,
}

/// The names of this machine.
#[derive(Args)]
pub(crate) struct MachineArgs {
    /// This machine's name in the Resources of events (repeatable) [default: from the metadata
    /// service]
    #[arg(long, value_name = "NAME", value_parser = vm_name)]
    pub(crate) vm_name: Vec<String>,
}

/// The policy.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// Which events to approve, prepare for, hold or ignore: a TOML file, or a preset. `observe`
    /// never approves. `sample` approves user-initiated events and freezes shorter than 9 seconds,
    /// as Microsoft's Python sample of 2020 does, but only if the event names this machine first in
    /// its Resources and can be read completely; it holds all other events
    #[arg(
        long,
        value_name = "observe|sample|FILE.toml",
        default_value = "observe"
    )]
    pub(crate) policy: String,
}

/// The output format.
#[derive(Args)]
pub(crate) struct OutputArgs {
    /// Print records as JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much a log for people has.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Print each event of other machines, instead of one line per poll that sums them up
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; expected a time such as 1s or 500ms"))?;
    if interval < Duration::from_millis(u64::from(limits::INTERVAL_MIN_MS)) {
        return Err(format!(
            "expected at least {} ms; the service refuses faster polls with status 429",
            limits::INTERVAL_MIN_MS
        ));
    }
    if interval > INTERVAL_MAX {
        return Err(
            "expected at most an hour; the notice of an event can be as short as 30 seconds".into(),
        );
    }
    Ok(interval)
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(timeout) if timeout < Duration::from_secs(1) => Err("expected at least 1s".into()),
        Ok(timeout) => Ok(timeout),
        Err(error) => Err(format!("{error}; expected a time such as 10min or 30s")),
    }
}

pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.001..=100_000.0).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.001 to 100000".into()),
    }
}

/// A command, split into words.
pub(super) fn command_line(text: &str) -> Result<CommandLine, String> {
    CommandLine::parse(text).map_err(|error| error.to_string())
}

/// The name of a resource.
pub(super) fn resource_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| error.to_string())
}

/// The name of a resource group.
pub(super) fn group_name(text: &str) -> Result<Name, String> {
    Name::parse_group(text).map_err(|error| error.to_string())
}

pub(super) fn vm_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the name is empty".into()),
        name if name.len() > limits::NAME_MAX => Err(format!(
            "the name is longer than {} bytes",
            limits::NAME_MAX
        )),
        name => Ok(name.to_owned()),
    }
}
