//! `demo`: replays a scenario and watches it, in one process.

use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::{Change, Policy};

use super::replay::load;
use crate::args::DemoArgs;
use crate::error::CommandError;
use crate::output::check_written;
use crate::output::format::printable;
use crate::output::style::{BOLD, GOOD};
use crate::output::table::wrap;
use crate::output::terminal;
use crate::startup::stop_on_signals;
use crate::watch::printer::{RecordPrinter, Stamp, print_note};
use scheduled_events::imds::Imds;
use scheduled_events::policy_file;
use scheduled_events::record::{EventRecord, Record, TimedRecord};
use scheduled_events::watch::{
    Host, Note, PrepareReply, RecoverReply, StopReason, WatchStatus, Watcher, WatcherHandle,
};
use scheduled_events_replay::{ADVICE_API_VERSION, Scenario, Server, ServerConfig};

/// The policy of the demonstration.
const POLICY: &str = r#"
[[rule]]
event = "Freeze"
max_duration = "9s"
action = "approve"
[[rule]]
action = "prepare"
[[rule]]
event = "SpotRebalanceRecommendation"
action = "prepare"
"#;

const VM_NAME: &str = "WestNO_0";

/// The default speed, at which most scenarios take less than half a minute.
const SPEED_MAX: f64 = 60.0;

/// The shortest notice of an event at the default speed, enough for the preparation and the
/// approval.
const NOTICE_MIN: Duration = Duration::from_secs(5);

/// How long the simulated preparation takes, at any speed.
const PREPARATION_TIME: Duration = Duration::from_millis(1_500);

/// How long the demonstration continues after the end of a scenario of which it saw no event.
const PATIENCE: Duration = Duration::from_secs(2);

fn introduction(scenario: &str, speed: f64, about: &str, width: Option<usize>) -> String {
    let lines = |text| wrap(text, width.map(|width| width.saturating_sub(10))).join("\n          ");
    let policy = lines(
        "approve freezes of up to 9 seconds; prepare for all other events, then approve them",
    );
    let about = lines(about);
    format!(
        "{BOLD}A virtual machine and Azure's metadata service, simulated on this machine.{BOLD:#}\n\n\
         Scenario: {BOLD}{scenario}{BOLD:#}, {speed} times faster than in Azure\n          {about}\n\
         Policy:   {policy}\n"
    )
}

pub(crate) fn demo(args: &DemoArgs) -> Result<(), CommandError> {
    let scenario = load(&args.scenario)?;
    let about = printable(&scenario.about);
    let speed = args.speed.unwrap_or_else(|| default_speed(&scenario));
    let server = Server::start(
        ServerConfig::new(scenario)
            .without_verdict()
            .speed(speed)
            .newest_api_version(ADVICE_API_VERSION)
            .vm_name(VM_NAME.to_owned()),
    )
    .map_err(|error| CommandError::usage(format!("cannot listen on this machine: {error}")))?;
    let imds = Imds::new(&server.url()).map_err(CommandError::usage)?;
    let policy = policy_file::parse(POLICY).unwrap_or_else(|_| Policy::sample());
    let printer = RecordPrinter::new(&args.output, args.log.verbose, Stamp::Time);
    let name = printable(&args.scenario);
    printer.message(&introduction(
        &name,
        speed,
        &about,
        terminal::output_width(),
    ));
    let mut watch = Watcher::builder()
        .imds(imds)
        .vm_names([VM_NAME])
        .policy(policy)
        .interval(Duration::from_millis(250))
        .until_idle(true)
        .build()
        .map_err(CommandError::usage)?;
    stop_on_signals(&watch.handle(), None)?;
    let mut host = DemoHost {
        printer,
        server,
        over_since: None,
        handle: watch.handle(),
    };
    let ended = watch.run_with(&mut host);
    host.printer.finish();
    if ended == StopReason::Stopped && host.over_since.is_some() {
        host.printer
            .message("The scenario ended between two polls; a lower --speed shows it.");
    }
    if ended == StopReason::Idle {
        host.printer.message(&format!(
            "\n{GOOD}All events have ended.{GOOD:#}\n\
             On a virtual machine:  {BOLD}scheduled-events watch --policy FILE.toml --prepare COMMAND --recover COMMAND{BOLD:#}\n\
             Other scenarios:       {BOLD}scheduled-events scenarios{BOLD:#}"
        ));
    }
    check_written()
}

/// The speed at which every event can be prepared for and approved before it starts: lower than
/// usual for a short notice.
fn default_speed(scenario: &Scenario) -> f64 {
    let notices = scenario
        .events
        .iter()
        .filter(|event| !event.without_notice && !event.is_advice())
        .map(|event| event.notice);
    let shortest = notices
        .map(|notice| notice.as_secs_f64())
        .fold(f64::INFINITY, f64::min);
    (shortest / NOTICE_MIN.as_secs_f64())
        .clamp(1.0, SPEED_MAX)
        .floor()
}

/// Simulates the preparation and the recovery, and explains each step.
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
    fn record(&mut self, record: &TimedRecord<'_>) {
        self.printer.record(record);
        let event = match &record.record {
            Record::Change { event, .. } => Some(event),
            Record::Approval { events, .. } => events.first(),
            _ => None,
        };
        if event.is_some_and(|event| event.mine == Some(false)) {
            return;
        }
        match record.record {
            Record::Change {
                change: Change::Rescheduled,
                ..
            } => self.explain("The event has a new start time."),
            Record::Approval {
                status: Some(200), ..
            } => {
                self.explain("Azure may now start the event; without approval it waits until the start time.");
            }
            Record::Change {
                change: Change::Started,
                ..
            } => self.explain("The event is in progress."),
            Record::Change {
                change: Change::StartedWithoutNotice,
                ..
            } => {
                self.explain("The event is already in progress; there was no time to prepare.");
            }
            Record::Change {
                change: Change::Completed,
                ..
            } => {
                self.explain("The event is no longer in the document: this is how Azure reports that it is over.");
            }
            Record::Change {
                change: Change::Cancelled,
                ..
            } => {
                self.explain(
                    "The event is no longer in the document, and its start time is not reached: Azure cancelled it.",
                );
            }
            Record::Change {
                change: Change::Advised,
                ..
            } => {
                self.explain("Advice: the risk of an eviction is high. It may never come, and approving has no effect.");
            }
            Record::Change {
                change: Change::AdviceWithdrawn,
                ..
            } => {
                self.explain("Azure does not advise any more. Without an eviction, the machine goes back into service.");
            }
            Record::Change {
                change: Change::Ended,
                ..
            } => {
                self.explain(
                    "The event is no longer in the document; whether it happened is unknown.",
                );
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
        self.printer.heartbeat(status)
    }

    fn prepare(&mut self, _event: &EventRecord, reply: PrepareReply) {
        self.explain("Preparing: here the --prepare command runs, for example to drain connections or to fail over.");
        later(PREPARATION_TIME, move || {
            reply.ready();
        });
    }

    fn recover(&mut self, _events: &[EventRecord], reply: RecoverReply) {
        self.explain(
            "Recovering: here the --recover command runs, to take the machine back into service.",
        );
        later(PREPARATION_TIME / 2, move || {
            reply.done();
        });
    }
}

/// Acts after this time. Without a thread for it, the reply is dropped, and the attempt repeated.
fn later(time: Duration, act: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().spawn(move || {
        thread::sleep(time);
        act();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_loads() {
        assert_eq!(policy_file::parse(POLICY).unwrap().rules().len(), 3);
    }

    #[test]
    fn every_notice_leaves_time_to_prepare_and_no_demonstration_takes_a_minute() {
        for (name, _) in Scenario::builtins() {
            let scenario = Scenario::builtin(name).expect(name);
            let speed = default_speed(&scenario);
            for event in &scenario.events {
                let real = |time: Duration| time.div_f64(speed);
                assert!(
                    event.without_notice || event.is_advice() || real(event.notice) >= NOTICE_MIN,
                    "{name}"
                );
                let moved = event
                    .reschedule
                    .map_or(Duration::ZERO, |change| change.after + change.notice);
                let longest = match event.cancelled_after {
                    Some(after) if event.is_advice() => event.appears + after,
                    _ => event.appears + event.notice.max(moved) + event.started_for,
                };
                assert!(
                    real(longest) <= Duration::from_secs(45),
                    "{name}: {:?}",
                    real(longest)
                );
            }
        }
        assert!(NOTICE_MIN > PREPARATION_TIME * 2);
        let speed_of = |name| default_speed(&Scenario::builtin(name).expect(name));
        assert_eq!(
            (speed_of("preempt"), speed_of("user-reboot")),
            (6.0, SPEED_MAX)
        );
    }

    #[test]
    fn the_introduction_fits_into_the_terminal() {
        for (name, about) in Scenario::builtins() {
            let text = introduction(name, 60.0, &about, Some(80));
            let plain = text
                .replace(&BOLD.to_string(), "")
                .replace(&format!("{BOLD:#}"), "");
            assert!(plain.lines().all(|line| line.len() <= 80), "{plain}");
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(words(&introduction(name, 60.0, &about, None)), words(&text));
        }
    }
}
