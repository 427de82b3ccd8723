//! `demo`: replays a scenario and watches it, in one process.

use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::{Change, Policy, Preparation};

use super::args::DemoArgs;
use super::error::CommandError;
use super::format::{BOLD, GOOD, printable};
use super::printer::{RecordPrinter, print_note};
use super::replay::load;
use super::watch::stop_on_signals;
use crate::imds::{API_VERSION, Imds};
use crate::policy_file;
use crate::record::{EventRecord, HookOutcome, Record, TimedRecord};
use crate::replay::{Server, ServerConfig};
use crate::watch::{Host, Note, Reply, StopReason, WatchStatus, Watcher, WatcherHandle, WatcherOptions};

/// The policy of the demonstration.
const POLICY: &str = r#"
[[rule]]
event = "Freeze"
max_duration = "9s"
action = "approve"
[[rule]]
action = "prepare"
"#;

const VM_NAME: &str = "WestNO_0";

/// How long the simulated preparation takes, at any speed.
const PREPARATION_TIME: Duration = Duration::from_millis(1_500);

/// How long the demonstration goes on after the end of a scenario of which it saw nothing.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn demo(args: &DemoArgs) -> Result<(), CommandError> {
    let scenario = load(&args.scenario)?;
    let about = printable(&scenario.about);
    let server = Server::start(ServerConfig::new(scenario).speed(args.speed).vm_name(VM_NAME.to_owned()))
        .map_err(|error| CommandError::usage(format!("cannot listen on this machine: {error}")))?;
    let imds = Imds::new(&server.url(), API_VERSION, false).map_err(CommandError::usage)?;
    let policy = policy_file::parse(POLICY).unwrap_or_else(|_| Policy::sample());
    let printer = RecordPrinter { json: args.output.json };
    printer.message(&format!(
        "{BOLD}A virtual machine and Azure's metadata service, simulated on this machine.{BOLD:#}\n\n\
         Scenario: {BOLD}{}{BOLD:#}, {} times faster than in Azure\n          {about}\n\
         Policy:   approve freezes of up to 9 seconds; prepare for all other events, then approve them\n",
        printable(&args.scenario),
        args.speed,
    ));
    let watch_options = WatcherOptions {
        vm_names: vec![VM_NAME.to_owned()],
        policy,
        interval: Duration::from_millis(250),
        until_idle: true,
        ..WatcherOptions::default()
    };
    let mut watch = Watcher::new(imds, watch_options, None).map_err(CommandError::usage)?;
    stop_on_signals(watch.handle())?;
    let mut host = DemoHost { printer, server, over_since: None, handle: watch.handle() };
    let ended = watch.run(&mut host);
    if ended == StopReason::Stopped && host.over_since.is_some() {
        host.printer.message("The scenario ended between two polls; a lower --speed shows it.");
    }
    if ended == StopReason::Idle {
        host.printer.message(&format!(
            "\n{GOOD}All events have ended.{GOOD:#}\n\
             On a virtual machine:  {BOLD}scheduled-events watch --policy FILE.toml --prepare COMMAND --recover COMMAND{BOLD:#}\n\
             Other scenarios:       {BOLD}scheduled-events scenarios{BOLD:#}"
        ));
    }
    Ok(())
}

/// Simulates the preparation and the recovery, and explains what happens.
struct DemoHost {
    printer: RecordPrinter,
    server: Server,
    /// When the scenario ended with no event left.
    over_since: Option<Instant>,
    handle: WatcherHandle,
}

impl DemoHost {
    fn explain(&self, text: &str) {
        self.printer.remark(text);
    }
}

impl Host for DemoHost {
    fn record(&mut self, record: &TimedRecord<'_>, event: Option<&EventRecord>) {
        self.printer.record(record, event);
        match record.record {
            Record::Approval { status: Some(200), .. } => {
                self.explain("Azure may now start the event; without approval it waits until the start time.");
            }
            Record::Change { change: Change::Rescheduled, .. } => self.explain("The event has a new start time."),
            Record::Change { change: Change::Started, .. } => self.explain("The event is in progress."),
            Record::Change { change: Change::StartedWithoutNotice, .. } => {
                self.explain("The event is already in progress; there was no time to prepare.");
            }
            Record::Change { change: Change::Completed, .. } => {
                self.explain("The event is no longer in the document: this is how Azure reports that it is over.");
            }
            Record::Change { change: Change::Cancelled, .. } => {
                self.explain(
                    "The event is no longer in the document, and its start time is not reached: Azure cancelled it.",
                );
            }
            Record::Change { change: Change::Ended, .. } => {
                self.explain("The event is no longer in the document; whether it happened is unknown.");
            }
            _ => {}
        }
    }

    fn note(&mut self, note: &Note) {
        print_note(note);
    }

    fn heartbeat(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        if self.server.finished() && status.answered && status.events == 0 {
            if self.over_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                self.handle.stop();
            }
        } else {
            self.over_since = None;
        }
        None
    }

    fn prepare(&mut self, _event: &EventRecord, _time_left: Option<Duration>, reply: Reply) {
        self.explain("Preparing: here the --prepare command runs, for example to drain connections or to fail over.");
        thread::spawn(move || {
            thread::sleep(PREPARATION_TIME);
            reply.prepared(Preparation::Ready, HookOutcome::Ready);
        });
    }

    fn recover(&mut self, _events: &[EventRecord], reply: Reply) {
        self.explain("Recovering: here the --recover command runs, to take the machine back into service.");
        thread::spawn(move || {
            thread::sleep(PREPARATION_TIME / 2);
            reply.recovered(HookOutcome::Done);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_loads() {
        assert_eq!(policy_file::parse(POLICY).unwrap().rules().len(), 2);
    }
}
