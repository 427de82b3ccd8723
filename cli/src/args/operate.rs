//! The arguments of commands for operators: `approve`, `terminate-profile`, `simulate-eviction`,
//! `completions`, `man`.

use clap::{Args, ValueEnum};
use scheduled_events::resource_name::Name;
use scheduled_events_core::EventKind;
use scheduled_events_core::terminate::{NotBeforeTimeout, ProfileRule};

use super::shared::{MachineArgs, OutputArgs, ServiceArgs, group_name, resource_name};
use crate::event_filter::event_kind;

#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// Ids of events, as `list` prints them
    #[arg(required_unless_present_any = ["mine", "types"], conflicts_with_all = ["mine", "types"], value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Approve all events of this machine that wait for approval
    #[arg(long, conflicts_with = "others")]
    pub(crate) mine: bool,
    /// Approve all events of these types that wait for approval, separated by commas: those of this
    /// machine, with --others those of all machines
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = event_kind)]
    pub(crate) types: Vec<EventKind>,
    /// Also approve events that do not name this machine. Another machine's Terminate is never
    /// approved: each machine approves its own
    #[arg(long)]
    pub(crate) others: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// The command; without one, the page describes the program
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct TerminateProfileArgs {
    /// Name of the scale set
    #[arg(long, value_name = "NAME", value_parser = resource_name, allow_hyphen_values = true)]
    pub(crate) scale_set: Name,
    /// Name of its resource group
    #[arg(long, value_name = "NAME", value_parser = group_name, allow_hyphen_values = true)]
    pub(crate) resource_group: Name,
    /// How long a deletion waits for its approval: 5 to 15 minutes, such as 10m or PT10M
    #[arg(long, value_name = "TIME", required_unless_present = "disable", value_parser = profile_timeout)]
    pub(crate) timeout: Option<NotBeforeTimeout>,
    /// Announce deletions no more
    #[arg(long, conflicts_with = "timeout")]
    pub(crate) disable: bool,
    /// Print how to create the scale set, with az, powershell or portal
    #[arg(long, conflicts_with = "disable")]
    pub(crate) create: bool,
    /// The tool to print it for
    #[arg(long = "as", value_name = "TOOL")]
    pub(crate) tool: ProfileTool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileTool {
    /// Commands for the Azure CLI in a POSIX shell
    Az,
    /// Commands for the Az module
    Powershell,
    /// HTTP requests
    Rest,
    /// Steps in the Azure portal
    Portal,
    /// A part of a Bicep template
    Bicep,
    /// A part of a Terraform configuration, for the azurerm provider
    Terraform,
}

/// A time-out in the form of this program's other options, or in ISO 8601.
fn profile_timeout(text: &str) -> Result<NotBeforeTimeout, String> {
    let refused = |rule: ProfileRule| format!("{} ({rule})", rule.message());
    if text.starts_with('P') {
        return NotBeforeTimeout::parse(text).map_err(refused);
    }
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; expected a time such as 10m or PT10M"))?;
    if time.subsec_nanos() > 0 {
        return Err("expected whole seconds".into());
    }
    NotBeforeTimeout::from_seconds(u32::try_from(time.as_secs()).unwrap_or(u32::MAX))
        .map_err(refused)
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct SimulateEvictionArgs {
    /// Name of the resource group
    #[arg(long, value_name = "NAME", value_parser = group_name, allow_hyphen_values = true)]
    pub(crate) resource_group: Name,
    /// Name of the Spot machine
    #[arg(long, value_name = "NAME", value_parser = resource_name, allow_hyphen_values = true, conflicts_with = "scale_set",
        required_unless_present = "scale_set")]
    pub(crate) vm: Option<Name>,
    /// Name of the scale set of Spot instances
    #[arg(long, value_name = "NAME", value_parser = resource_name, allow_hyphen_values = true, requires = "instance")]
    pub(crate) scale_set: Option<Name>,
    /// Id of the instance of the scale set
    #[arg(long, value_name = "ID", value_parser = resource_name, allow_hyphen_values = true, requires = "scale_set",
        conflicts_with = "vm")]
    pub(crate) instance: Option<Name>,
    /// The tool to print it for
    #[arg(long = "as", value_name = "TOOL")]
    pub(crate) tool: EvictionTool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvictionTool {
    /// A command for the Azure CLI in a POSIX shell
    Az,
    /// A command for the Az module
    Powershell,
    /// An HTTP request
    Rest,
}
