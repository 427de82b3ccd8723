//! The arguments of `doctor`.

use std::path::PathBuf;

use clap::Args;

use super::watch::WatchArgs;

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(crate) struct DoctorArgs {
    /// Check as this unit of systemd runs the watcher: with its command line, its user and its
    /// sandbox. Needs root
    #[arg(
        long,
        value_name = "UNIT",
        conflicts_with_all = ["WatchArgs", "MachineArgs", "PolicyArgs"]
    )]
    pub(crate) unit: Option<String>,
    /// Write a report to FILE, as text without names, ids and addresses: the findings, the versions,
    /// the unit and the last records
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Rehearse a maintenance: run the watcher with these options and its real commands against a
    /// service of this program, which plays SCENARIO: the name of a built-in scenario, such as
    /// user-reboot, live-migration or preempt; the type of an event, such as reboot or freeze; or a
    /// file. Nothing is sent to Azure
    #[arg(long, value_name = "SCENARIO")]
    pub(crate) rehearse: Option<String>,
    /// Rehearse without asking before commands are run
    #[arg(long, requires = "rehearse")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    /// The process of the unit's watcher
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) unit_process: Option<u32>,
}
