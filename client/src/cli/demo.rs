//! `demo`: the main job on the replay server, in one process.

use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::{Change, Policy, Preparation};

use super::Failure;
use super::host::Teller;
use super::look::{BOLD, DIM, GOOD, shown};
use super::options::Demo;
use super::replay::load;
use super::watch::stop_on_signals;
use crate::imds::{API_VERSION, Imds};
use crate::policy_file;
use crate::record::{EventRecord, Record};
use crate::replay::{Server, ServerConfig};
use crate::watch::{Ended, Handle, Host, Note, Options, Pulse, Reply, Watch};

/// What the demonstration does about events: what a careful operator would begin with.
const POLICY: &str = r#"
[[rule]]
event = "Freeze"
max_duration = "9s"
action = "approve"
[[rule]]
action = "prepare"
"#;

const VM_NAME: &str = "WestNO_0";

/// How long the pretended drain takes, however fast the scenario is played.
const DRAIN: Duration = Duration::from_millis(1_500);

/// How long a scenario may be over before the demonstration ends without having seen anything of it.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn demo(options: &Demo) -> Result<(), Failure> {
    let scenario = load(&options.scenario)?;
    let about = shown(&scenario.about);
    let server = Server::start(ServerConfig::new(scenario).speed(options.speed).vm_name(VM_NAME.to_owned()))
        .map_err(|error| Failure::usage(format!("cannot listen on this machine: {error}")))?;
    let imds = Imds::new(&server.url(), API_VERSION, false).map_err(Failure::usage)?;
    let policy = policy_file::parse(POLICY).unwrap_or_else(|_| Policy::sample());
    let teller = Teller { json: options.output.json };
    teller.say(&format!(
        "{BOLD}Azure tells a virtual machine what is about to happen to it; this machine pretends to be one.{BOLD:#}\n\
         \n\
         The scenario {BOLD}{}{BOLD:#}, {} times faster than life:\n  {about}\n\
         The policy: approve freezes of up to nine seconds at once; prepare for everything else, then approve it.\n",
        shown(&options.scenario),
        options.speed,
    ));
    let watch_options = Options {
        api_version: API_VERSION.to_owned(),
        vm_names: vec![VM_NAME.to_owned()],
        policy,
        interval: Duration::from_millis(250),
        dry_run: false,
        until_idle: true,
        max_polls: None,
        timeout: None,
    };
    let mut watch = Watch::new(imds, watch_options, None).map_err(Failure::usage)?;
    stop_on_signals(watch.handle())?;
    let mut host = DemoHost { teller, server, over_since: None, handle: watch.handle() };
    let ended = watch.run(&mut host);
    if ended == Ended::Stopped && host.over_since.is_some() {
        host.teller.say("The scenario was over before anything was seen of it; a lower --speed shows it.");
    }
    if ended == Ended::Idle {
        host.teller.say(&format!(
            "\n{GOOD}Nothing is left.{GOOD:#} On a real machine: {BOLD}scheduled-events watch --policy FILE.toml --prepare \
             COMMAND --recover COMMAND{BOLD:#}\n{DIM}Other scenarios: scheduled-events scenarios{DIM:#}"
        ));
    }
    Ok(())
}

/// Pretends to drain, and says in words what happens.
struct DemoHost {
    teller: Teller,
    server: Server,
    /// Since when the scenario is over and nothing is followed.
    over_since: Option<Instant>,
    handle: Handle,
}

impl DemoHost {
    fn explain(&self, text: &str) {
        self.teller.say(&format!("{:24}{DIM}{text}{DIM:#}", ""));
    }
}

impl Host for DemoHost {
    fn record(&mut self, record: &Record, event: Option<&EventRecord>) {
        self.teller.record(record, event);
        match record {
            Record::Approval { status: Some(200), .. } => {
                self.explain("Azure was told that it may go ahead; without that it waits until the start time.");
            }
            Record::Change { change: Change::Started, .. } => self.explain("It happens now."),
            Record::Change { change: Change::StartedWithoutNotice, .. } => {
                self.explain("It happens already; there was no time to prepare.");
            }
            Record::Change { change: Change::Completed, .. } => {
                self.explain("The event is gone from the document: that is how Azure says that it is over.");
            }
            Record::Change { change: Change::Cancelled, .. } => self.explain("Azure called it off before it began."),
            Record::Change { change: Change::Ended, .. } => {
                self.explain("The event is gone; whether it happened cannot be told from outside.");
            }
            _ => {}
        }
    }

    fn note(&mut self, note: Note<'_>) {
        Teller::note(&note);
    }

    fn pulse(&mut self, pulse: Pulse<'_>) -> Option<Duration> {
        if self.server.finished() && pulse.answered && pulse.events == 0 {
            if self.over_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                self.handle.stop();
            }
        } else {
            self.over_since = None;
        }
        None
    }

    fn prepare(&mut self, _event: &EventRecord, _time_left: Option<Duration>, reply: Reply) {
        self.explain("Preparing: here your command would drain connections, checkpoint, fail over.");
        thread::spawn(move || {
            thread::sleep(DRAIN);
            reply.prepared(Preparation::Ready, "ready");
        });
    }

    fn rescheduled(&mut self, _event: &EventRecord, _time_left: Option<Duration>) {
        self.explain("The start time moved.");
    }

    fn recover(&mut self, _event: &EventRecord, _still_open: usize, reply: Reply) {
        self.explain("Recovering: here your command would take the machine back into service.");
        thread::spawn(move || {
            thread::sleep(DRAIN / 2);
            reply.recovered("done");
        });
    }
}

/// The module's own promise: its policy is one that loads.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_loads() {
        assert_eq!(policy_file::parse(POLICY).unwrap().rules().len(), 2);
    }
}
