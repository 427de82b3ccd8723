//! The arguments of commands that show something: `list`, `wait`, `status`, `check`, `discover`,
//! `timeline`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use scheduled_events::imds::AUTO_API_VERSION;
use scheduled_events_core::{EventKind, UnixSeconds};

use super::shared::{MachineArgs, OutputArgs, STATE_FILE, ServiceArgs, timeout, vm_name};
use crate::event_filter::event_kind;

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print only the events of this machine
    #[arg(long)]
    pub(crate) mine: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct WaitArgs {
    /// Wait for an event of one of these types, separated by commas: Freeze, Reboot, Redeploy,
    /// Preempt, Terminate, SpotRebalanceRecommendation, which is advice, or Other for any other type
    /// [default: any type but advice]
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = event_kind)]
    pub(crate) types: Vec<EventKind>,
    /// Wait for an event of this machine
    #[arg(long)]
    pub(crate) mine: bool,
    /// Stop after this time with exit code 4 [default: wait forever]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// The state file of `watch --state FILE`
    #[arg(long, value_name = "FILE", default_value = STATE_FILE)]
    pub(crate) state: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The document; `-` is standard input. Without it, --config and --policy print what would be
    /// done about events; --policy reads a document if standard input is a file or a pipe [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Check a configuration file of `watch`, and decide as a watcher with it
    #[arg(long = "config", value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// This machine's name in the Resources of events (repeatable). Without it, all events are held
    #[arg(long, value_name = "NAME", value_parser = vm_name)]
    pub(crate) vm_name: Vec<String>,
    /// The policy: a TOML file, or a preset [default: observe]
    #[arg(long, value_name = "observe|sample|FILE.toml")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// API version of the document; `auto` is one that has all that the policy names
    #[arg(long, value_name = "auto|VERSION", default_value = AUTO_API_VERSION)]
    pub(crate) api_version: String,
    /// Decide as if it were this time, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) now: Option<UnixSeconds>,
    /// Read no document, but print the policy as source code: `c` is a header that defines
    /// `scheduled_events_policy`
    #[arg(long, value_name = "LANGUAGE", conflicts_with_all = ["file", "json"])]
    pub(crate) r#as: Option<Language>,
}

/// The languages in which `check` prints a policy.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Language {
    C,
}

fn time(text: &str) -> Result<UnixSeconds, String> {
    UnixSeconds::parse(text).ok_or_else(|| "expected a time such as 2022-04-11T22:20:00Z".into())
}

#[derive(Args)]
pub(crate) struct DiscoverArgs {
    /// Read the lease files below another folder than the root
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct TimelineArgs {
    /// The files of `watch --audit`, one for each machine; the files before each, FILE.4 to FILE.1,
    /// are read first. `-` is standard input
    #[arg(value_name = "AUDIT", required = true)]
    pub(crate) audits: Vec<PathBuf>,
    /// Draw the maintenance that this event belongs to [default: the last one]
    #[arg(long, value_name = "ID")]
    pub(crate) event: Option<String>,
}
