//! The arguments of `watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use scheduled_events::hooks::CommandLine;
use scheduled_events::policy_file::duration_in_seconds;
use scheduled_events_core::{Change, LastCall};

use super::shared::{
    CONFIG_FILE, ConfigArgs, LogArgs, MachineArgs, OutputArgs, PolicyArgs, ServiceArgs,
    command_line, interval, timeout,
};

/// The arguments of a command about what `watch` would do: those of `watch`, and by default the
/// configuration file of the unit.
#[derive(Args)]
#[command(mut_arg("config", |config| config.default_value(CONFIG_FILE)))]
pub(crate) struct ConfiguredArgs {
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
#[allow(clippy::struct_excessive_bools)] // Each is an option of its own.
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Keep the state in FILE, so that the next run continues where this one ends
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Append every record to FILE, as a line of JSON with a sequence number. A preparation begins
    /// and an approval is posted once the records before it are synced to the disk, or after 2
    /// seconds. At 8 MiB the file is renamed to FILE.1, that one to FILE.2, up to FILE.4
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Write metrics for Prometheus to FILE, for node_exporter's textfile collector, which reads
    /// files that end in `.prom`. The file is replaced as a whole, at most once a second, and
    /// everybody may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_file: Option<PathBuf>,
    /// Run COMMAND when an event changes (repeatable). CHANGE: scheduled, started,
    /// started-without-notice, rescheduled, updated, completed, cancelled, ended, advised or
    /// advice-withdrawn. Other machines' events count too; the variable SCHEDULED_EVENTS_MINE is
    /// true or false
    #[arg(long, value_name = "CHANGE=COMMAND", value_parser = on_change)]
    pub(crate) on: Vec<(Change, CommandLine)>,
    /// Run COMMAND to prepare for an event; exit code 0 means ready: the event may be approved
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) prepare: Option<CommandLine>,
    /// Run COMMAND to take the machine back into service, once nothing keeps it out: none of its
    /// events that were prepared for, and none that has started. If it fails, it is run again after
    /// 5 seconds at first and 5 minutes at last
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) recover: Option<CommandLine>,
    /// Also run the --recover COMMAND after events of this machine that started without being
    /// prepared for
    #[arg(long)]
    pub(crate) recover_all: bool,
    /// Terminate a preparation that takes longer; its event is not approved then [default: none if
    /// the start of the event is known, else 15min]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(crate) prepare_timeout: Option<Duration>,
    /// Run a preparation that failed again at most N times. It is run again after 5 seconds, later
    /// each time and at most a minute later, while the event has not started and its start is not
    /// nearer than the last run took. Exit code 78 means do not run it again [default: no limit]
    #[arg(long, value_name = "N|never", value_parser = retries)]
    pub(crate) prepare_retries: Option<u32>,
    /// Ask COMMAND before each preparation (SCHEDULED_EVENTS_PHASE is prepare) and each approval
    /// (approve). Exit code 0 means go on, 75 that another machine approves, any other one not yet:
    /// it is asked again every 5 seconds. The policy's leader is ignored
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    pub(crate) gate: Option<CommandLine>,
    /// Prepare TIME before the start of an event although the gate has not answered yes: Azure
    /// starts it in any case. Approving still takes the gate's yes. `never` does not prepare
    /// without it [default: half of the notice, at most 5min; at once for a Preempt and for less
    /// than a minute]
    #[arg(long, value_name = "TIME|never", value_parser = last_call, requires = "gate")]
    pub(crate) last_call: Option<LastCall>,
    /// Time between two polls, at least 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Exit when at least one event was seen, in this run or in the state file, and all have ended
    #[arg(long)]
    pub(crate) until_idle: bool,
    /// Exit after N polls, once the commands that run then have ended; Ctrl-C ends them
    #[arg(long, value_name = "N", value_parser = polls)]
    pub(crate) max_polls: Option<u64>,
    /// Decide and report, but do not prepare, approve or recover, run no command and change no file
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also log this machine's events, warnings and errors to the Application log of Windows. The
    /// service always does
    #[cfg(windows)]
    #[arg(long)]
    pub(crate) event_log: bool,
}

fn last_call(text: &str) -> Result<LastCall, String> {
    if text == "never" {
        return Ok(LastCall::Never);
    }
    duration_in_seconds(text)
        .map(LastCall::Before)
        .map_err(|error| {
            format!("{error}; expected a time before the start of an event, such as 2min, or never")
        })
}

fn polls(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(polls) if polls > 0 => Ok(polls),
        _ => Err("expected a number of polls from 1, such as 600".into()),
    }
}

fn retries(text: &str) -> Result<u32, String> {
    if text == "never" {
        return Ok(0);
    }
    let number = text.parse();
    number.map_err(|_| {
        format!("found {text:?}, expected how often to try again, such as 3, or never")
    })
}

fn on_change(text: &str) -> Result<(Change, CommandLine), String> {
    let (word, command) = text
        .split_once('=')
        .ok_or("expected CHANGE=COMMAND, such as completed='logger done'")?;
    let change = Change::ALL
        .into_iter()
        .find(|change| change.word() == word)
        .ok_or_else(|| {
            let words: Vec<_> = Change::ALL.into_iter().map(Change::word).collect();
            format!("found {word:?}, expected one of {}", words.join(", "))
        })?;
    let command = command_line(command)?;
    Ok((change, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_is_in_whole_seconds() {
        for (text, expected) in [
            ("never", Ok(LastCall::Never)),
            ("1min 30s", Ok(LastCall::Before(90))),
            ("0s", Ok(LastCall::Before(0))),
            (
                "500ms",
                Err("\"500ms\" is not a whole number of seconds; expected a time before the start"),
            ),
            (
                "200years",
                Err("\"200years\" is too long; expected a time before the start"),
            ),
            ("soon", Err("\"soon\" is not a duration such as \"8s\"")),
        ] {
            match (last_call(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                (found, expected) => panic!("{text}: {found:?}, {expected:?}"),
            }
        }
    }
}
