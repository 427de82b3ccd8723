//! The arguments of `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use scheduled_events::hooks::CommandLine;
use scheduled_events::limits::{RUN_GRACE_MAX, RUN_STOP_BEFORE_MAX};
use scheduled_events_core::EventKind;

use super::shared::{ConfigArgs, MachineArgs, ServiceArgs, command_line, interval, timeout};
use crate::event_filter::event_kind;

#[cfg(unix)]
#[derive(Args)]
pub(crate) struct RunArgs {
    /// The worker: a program and its arguments. Its standard input is empty if this program's is a
    /// terminal
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) worker: Vec<OsString>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Stop the worker for events of these types, separated by commas: Freeze, Reboot, Redeploy,
    /// Preempt, Terminate, or Other for any other type. The default is every type that ends the
    /// processes of this machine; a Freeze only pauses them
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        value_parser = event_kind,
        default_value = "Preempt,Terminate,Reboot,Redeploy"
    )]
    pub(crate) stop_on: Vec<EventKind>,
    /// Decide with the rules of a TOML file or a preset in place of --stop-on: `prepare` stops the
    /// worker. With --approve, `approve` approves an event without stopping it
    #[arg(
        long,
        value_name = "observe|sample|FILE.toml",
        conflicts_with = "stop_on"
    )]
    pub(crate) policy: Option<String>,
    /// Approve an event once the worker is gone, so that it starts at once. If several runs have
    /// their state files in one folder, once the last of their workers is gone. An event that also
    /// affects other machines is not approved
    #[arg(long)]
    pub(crate) approve: bool,
    /// Time between SIGTERM and SIGKILL. An eviction has a notice of 30 seconds, and less when it
    /// is seen
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = grace)]
    pub(crate) grace: Duration,
    /// Without --approve, let the worker go on until TIME before an event that stops it; with it,
    /// too, if it is given [default: the grace and 30s, and at once for a notice of less than 2
    /// minutes or with --approve]. In a --policy, for rules without `prepare_before`
    #[arg(long, value_name = "TIME", value_parser = stop_before)]
    pub(crate) stop_before: Option<Duration>,
    /// Run COMMAND to save a checkpoint: regularly, once more before the worker is stopped for an
    /// event, and on advice
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) checkpoint: Option<CommandLine>,
    /// Time between two checkpoints [default: only when an event is announced]
    #[arg(long, value_name = "TIME", value_parser = timeout, requires = "checkpoint")]
    pub(crate) every: Option<Duration>,
    /// On advice that an eviction is likelier than usual (SpotRebalanceRecommendation): save a
    /// checkpoint, stop the worker until the advice is withdrawn, or let it go on. Rules of a
    /// --policy that name advice come first [default: checkpoint with --checkpoint, else ignore]
    #[arg(long, value_enum, requires_if("checkpoint", "checkpoint"))]
    pub(crate) on_advice: Option<OnAdvice>,
    /// Run COMMAND before the worker starts, each time; exit code 0 means that it may
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) warmup: Option<CommandLine>,
    /// Run COMMAND before the warm-up if the worker was interrupted, to restore the latest
    /// checkpoint: after an event, after a boot, or if the last run ended before the worker had
    /// done its work
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) resume: Option<CommandLine>,
    /// Run COMMAND in place of sending SIGTERM. If it fails, SIGTERM is sent; SIGKILL follows after
    /// the grace
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) stop_command: Option<CommandLine>,
    /// Lock FILE as long as this program runs, so that the worker runs once on this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) lock: Option<PathBuf>,
    /// Keep the state in FILE, so that the next run continues where this one ends. It is locked,
    /// too
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Time between two polls, at least 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

/// What to do on advice.
#[cfg(unix)]
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnAdvice {
    Checkpoint,
    Stop,
    Ignore,
}

#[cfg(unix)]
impl RunArgs {
    /// What to do on advice, as given or by default.
    pub(crate) fn on_advice(&self) -> OnAdvice {
        self.on_advice.unwrap_or(match self.checkpoint {
            Some(_) => OnAdvice::Checkpoint,
            None => OnAdvice::Ignore,
        })
    }
}

#[cfg(unix)]
fn stop_before(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(before) if before > RUN_STOP_BEFORE_MAX => Err("expected at most 30 days".into()),
        Ok(before) => Ok(before),
        Err(error) => Err(format!("{error}; expected a time such as 2min")),
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
