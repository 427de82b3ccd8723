//! The arguments of `service`, on Windows.

use std::ffi::OsString;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct WindowsServiceArgs {
    #[command(subcommand)]
    pub(crate) command: ServiceCommand,
}

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Install the service, which watches with these options; it starts with the machine, and again
    /// after a failure
    #[command(
        override_usage = "scheduled-events service install [-- <WATCH OPTIONS>...]",
        after_help = "Example:  scheduled-events service install -- --policy C:\\ProgramData\\scheduled-events\\policy.toml \
                      --prepare \"'C:\\Program Files\\scheduled-events\\drain.cmd'\"\n\n\
                      It needs an administrator. The commands run as LocalSystem: keep them where only \
                      administrators can write. Relative paths of files become absolute. Without --state, the state is kept in \
                      C:\\ProgramData\\scheduled-events\\state; that folder is for SYSTEM and administrators alone. The service \
                      logs to the Application log. `service start` starts it."
    )]
    Install(WatchOptions),
    /// Stop the service and remove it; its state stays
    Uninstall,
    /// Start the service
    Start,
    /// Stop the service: it saves its state, and ends the commands that run
    Stop,
    /// Show whether the service runs; `scheduled-events status` shows what it is doing
    Status,
    /// Watch, as the service manager starts it
    #[command(hide = true)]
    Run(WatchOptions),
}

#[derive(Args)]
pub(crate) struct WatchOptions {
    /// Options of `scheduled-events watch`
    #[arg(last = true, value_name = "WATCH OPTIONS")]
    pub(crate) options: Vec<OsString>,
}
