//! `doctor --rehearse`: a whole maintenance with the real policy and the real commands, against a
//! service of this program. Nothing is sent to Azure, and no file of the watcher is used.
//!
//! The service plays a scenario in real time, with the notice that Azure gives, so that commands
//! take as long as they will. What would only be waited for is shortened. The host is that of
//! `watch`, and this file notes what it does.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scheduled_events::hooks;
use scheduled_events::imds::Imds;
use scheduled_events::limits::NAME_TIMEOUT;
use scheduled_events::record::{EventRecord, HookOutcome, Record, TimedRecord};
use scheduled_events::watch::{
    Completion, GateReply, Host, Note, Poll, PrepareReply, RecoverReply, StopReason, WatchStatus,
    Watcher, WatcherHandle,
};
use scheduled_events_core::{Action, Change, Policy};
use scheduled_events_replay::{ADVICE_API_VERSION, Scenario, Server, ServerConfig};

use crate::args::DoctorArgs;
use crate::config::load_policy;
use crate::doctor::{Check, Finding, ReportRequest, commands, finish, managed_units, no_recover};
use crate::endpoint::connect;
use crate::error::CommandError;
use crate::output::format::{count, duration, printable};
use crate::output::{diagnose, print};
use crate::startup::{patiently, stop_on_signals};
use crate::test::load;
use crate::watch::host::CommandHost;
use crate::watch::printer::{RecordPrinter, Stamp};

/// The scenario for each type of an event.
const TYPES: [(&str, &str); 6] = [
    ("freeze", "live-migration"),
    ("reboot", "user-reboot"),
    ("redeploy", "redeploy"),
    ("preempt", "preempt"),
    ("terminate", "terminate"),
    ("spotrebalancerecommendation", "rebalance"),
];

/// The name of this machine if neither an option nor the metadata service has it.
const NO_NAME: &str = "WestNO_0";

/// What is only waited for: from the first document to the event, from the approval to its start,
/// and from there to its end.
const APPEARS: Duration = Duration::from_secs(1);
const STARTS: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(5);

/// How long a preparation that is over may wait for its approval before the event starts without
/// one.
const APPROVED_WITHIN: Duration = Duration::from_secs(5);

/// Rehearses the scenario of `--rehearse`.
pub(crate) fn rehearse(args: DoctorArgs, scenario: &str) -> Result<(), CommandError> {
    let report = ReportRequest::of(&args);
    let watch = args.watch;
    let policy = load_policy(&watch.policy.policy, &watch.config)?;
    let mut played = load(scenario_name(scenario))?;
    shorten(&mut played, &policy);
    let json = watch.output.json;
    if !args.yes {
        ask(&watch)?;
    }
    let name = watch.machine.vm_name.first().cloned().or_else(|| {
        let imds = connect(&watch.service).ok()?;
        imds.vm_name(NAME_TIMEOUT).ok()
    });
    let name = name.unwrap_or_else(|| NO_NAME.to_owned());
    let notice = played
        .events
        .iter()
        .filter(|event| !event.without_notice && !event.is_advice())
        .map(|event| event.notice)
        .min();
    let config = ServerConfig::new(played)
        .without_verdict()
        .newest_api_version(ADVICE_API_VERSION)
        .vm_name(name.clone());
    let server = Server::start(config)
        .map_err(|error| CommandError::usage(format!("cannot listen on this machine: {error}")))?;
    let imds = Imds::new(&server.url()).map_err(CommandError::usage)?;
    let printer = RecordPrinter::new(&watch.output, watch.log.verbose, Stamp::Time);
    printer.message(&format!(
        "rehearsing {} as {}: nothing is sent to Azure, and the files of the watcher are not used; press Ctrl-C to stop",
        printable(scenario),
        printable(&name)
    ));
    if watch.gate.is_some() {
        printer.message("the gate is not asked: it would hold back other machines");
    }
    let builder = Watcher::builder()
        .imds(imds)
        .vm_names([name])
        .policy(policy)
        .advice(crate::watch::needs_advice(&watch.on))
        .interval(watch.interval.min(Duration::from_secs(1)))
        // A repetition would show the same.
        .prepare_retries(watch.prepare_retries.or(Some(0)))
        .recover_all(watch.recover_all)
        .until_idle(true);
    let mut inner = CommandHost::new(printer);
    let units = watch
        .prepare
        .as_ref()
        .map(managed_units)
        .unwrap_or_default();
    let before = states(&units);
    let (has_prepare, has_recover, has_on) = (
        watch.prepare.is_some(),
        watch.recover.is_some(),
        !watch.on.is_empty(),
    );
    inner.prepare = watch.prepare;
    inner.recover = watch.recover;
    inner.prepare_timeout = watch.prepare_timeout;
    inner.on = watch.on;
    let mut watcher = builder.build().map_err(CommandError::usage)?;
    patiently(hooks::reserve_thread)?;
    stop_on_signals(&watcher.handle(), None)?;
    let mut host = RehearsalHost {
        inner,
        server,
        handle: watcher.handle(),
        is_silent: json,
        held: None,
        prepare: Progress::default(),
        recover: Progress::default(),
        changes: 0,
        approved: false,
        start_at: None,
        event: None,
    };
    let ended = watcher.run_with(&mut host);
    host.inner.printer.finish();
    host.inner.stop();
    let mut findings = host.findings(notice, ended, [has_prepare, has_recover, has_on]);
    findings.extend(left_different(&units, &before));
    finish(findings, json, report.as_ref())
}

/// The name of a scenario for a type of event, or the text itself.
fn scenario_name(text: &str) -> &str {
    let known = TYPES
        .iter()
        .find(|(kind, _)| text.eq_ignore_ascii_case(kind));
    known.map_or(text, |(_, scenario)| scenario)
}

/// Shortens what would only be waited for. The notice stays, unless a rule prepares later.
fn shorten(scenario: &mut Scenario, policy: &Policy) {
    let rules = policy.rules();
    let has_notice = rules.iter().any(|rule| rule.min_notice.is_some());
    let before = rules.iter().filter_map(|rule| rule.prepare_before).max();
    for event in &mut scenario.events {
        event.appears = event.appears.min(APPEARS);
        event.starts_after_approval = event.starts_after_approval.min(STARTS);
        event.started_for = event.started_for.min(LASTS);
        if let Some(before) = before.filter(|_| !has_notice) {
            event.notice = event.notice.min(Duration::from_secs(before.into()));
        }
    }
}

/// Asks whether the commands may run.
fn ask(watch: &crate::args::WatchArgs) -> Result<(), CommandError> {
    let lines: Vec<_> = commands(watch)
        .filter(|(check, ..)| *check != Check::Gate)
        .map(|(_, option, command)| {
            format!("  {option} {}\n", printable(&command.words().join(" ")))
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    confirm("the commands of the options", &lines.concat())
}

/// Asks whether the commands of a unit may run.
#[cfg(unix)]
pub(crate) fn confirm_unit(unit: &str) -> Result<(), CommandError> {
    confirm(&format!("the commands of the unit {}", printable(unit)), "")
}

/// Asks on the terminal whether these commands may run. `lines` has them, if they are known.
///
/// # Errors
/// There is no terminal, or the answer is not yes.
fn confirm(commands: &str, lines: &str) -> Result<(), CommandError> {
    let refused = |text: &str| CommandError::usage(text);
    if !io::stdin().is_terminal() {
        return Err(CommandError::usage(format!(
            "a rehearsal runs {commands} on this machine; add --yes if that is wanted"
        )));
    }
    let question =
        format!("A rehearsal runs {commands} on this machine, now.\n{lines}Run them? [y/N] ");
    print(question.as_bytes())?;
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(refused("nothing was run")),
    }
}

/// What is known about the runs of one command.
#[derive(Default)]
struct Progress {
    started: Option<Instant>,
    /// How long the last run took, and its result.
    ended: Option<(Duration, HookOutcome)>,
}

impl Progress {
    fn begin(&mut self) {
        self.started = Some(Instant::now());
    }

    fn end(&mut self, outcome: HookOutcome) {
        if let Some(started) = self.started {
            self.ended = Some((started.elapsed(), outcome));
        }
    }
}

/// The host of `watch`, with notes about what it did.
struct RehearsalHost {
    inner: CommandHost,
    server: Server,
    handle: WatcherHandle,
    /// Whether no record is printed.
    is_silent: bool,
    /// The decision that leaves nothing to rehearse.
    held: Option<String>,
    prepare: Progress,
    recover: Progress,
    /// How many changes had commands.
    changes: usize,
    approved: bool,
    /// When the event starts without an approval.
    start_at: Option<Instant>,
    event: Option<String>,
}

impl RehearsalHost {
    fn observe(&mut self, record: &Record<'_>) {
        match record {
            Record::Decision {
                action: action @ (Action::Hold | Action::Ignore),
                reason,
                event,
                ..
            } if event.mine != Some(false) => {
                self.held = Some(format!("{}: {reason}", action.word()));
                self.event = Some(event.event_id.to_string());
                self.start_at.get_or_insert_with(Instant::now);
            }
            Record::Approval {
                status: Some(200), ..
            } => self.approved = true,
            Record::Prepare { outcome, event, .. } if *outcome != HookOutcome::Begun => {
                self.prepare.end(*outcome);
                self.event = Some(event.event_id.to_string());
                self.start_at = Some(Instant::now() + APPROVED_WITHIN);
            }
            Record::Recover {
                outcome: Some(outcome),
                ..
            } if *outcome != HookOutcome::Begun => {
                self.recover.end(*outcome);
                // It would be run again for ever.
                if !outcome.has_recovered() {
                    self.handle.stop();
                }
            }
            _ => {}
        }
    }

    /// Starts the event as Azure would at its `NotBefore`, once nothing else is waited for.
    fn start_event(&mut self) {
        if self.start_at.is_some_and(|at| at <= Instant::now()) {
            self.start_at = None;
            if let Some(event) = self.event.as_ref().filter(|_| !self.approved) {
                self.server.approve(event);
            }
        }
    }

    /// What the rehearsal showed.
    fn findings(
        &self,
        notice: Option<Duration>,
        ended: StopReason,
        [has_prepare, has_recover, has_on]: [bool; 3],
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let policy = match (&self.held, self.approved) {
            (Some(held), false) => Finding::warn(
                Check::Policy,
                format!("the event was not approved ({held})"),
                "if it is to be prepared for or approved, add a rule to the policy",
            ),
            (_, true) => Finding::ok(Check::Policy, "the event was approved"),
            (None, false) => Finding::ok(Check::Policy, "the event started without an approval"),
        };
        findings.push(policy);
        findings.push(hook(
            (Check::Prepare, "--prepare", has_prepare),
            &self.prepare,
            HookOutcome::Ready,
            notice,
        ));
        findings.push(if has_prepare || has_recover {
            hook(
                (Check::Recover, "--recover", has_recover),
                &self.recover,
                HookOutcome::Done,
                None,
            )
        } else {
            Finding::ok(Check::Recover, "none")
        });
        if has_on {
            let found = format!(
                "{} had commands; their output is above",
                count(self.changes, "change")
            );
            findings.push(Finding::ok(Check::On, found));
        }
        if ended == StopReason::Stopped && self.recover.ended.is_none() {
            findings.push(Finding::fail(
                Check::Recover,
                "the rehearsal was stopped before its end",
                "look at what is out of service",
            ));
        }
        findings
    }
}

/// What a command did.
fn hook(
    (check, option, is_given): (Check, &str, bool),
    progress: &Progress,
    success: HookOutcome,
    notice: Option<Duration>,
) -> Finding {
    let Some((took, outcome)) = progress.ended else {
        return match (is_given, progress.started) {
            (false, _) => Finding::ok(check, "none"),
            (true, None) => Finding::warn(
                check,
                format!("{option} did not run"),
                "see policy: only an event that is prepared for runs it",
            ),
            (true, Some(_)) => Finding::fail(
                check,
                format!("{option} did not end"),
                "let it end by itself",
            ),
        };
    };
    if outcome == HookOutcome::NoCommand {
        return match check {
            Check::Recover => no_recover(),
            _ => Finding::fail(
                check,
                format!("there is no {option}: the event was held"),
                format!("add {option} COMMAND"),
            ),
        };
    }
    let of_notice = notice.map_or(String::new(), |notice| {
        format!(" of a notice of {}", duration(notice.as_secs()))
    });
    let found = format!(
        "{option}: {} after {}{of_notice}",
        outcome.word(),
        seconds(took)
    );
    if outcome != success {
        return Finding::fail(check, found, "its output and its exit code are above");
    }
    // Azure counts from the announcement, and polls, approvals and other programs take a part.
    if notice.is_some_and(|notice| took > notice / 2) {
        let advice = "make it faster: a poll and the approval take a part of the notice, too";
        return Finding::warn(check, found, advice);
    }
    Finding::ok(check, found)
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        duration(time.as_secs())
    }
}

/// Whether each unit is active, as `systemctl` has it.
fn states(units: &[String]) -> Vec<String> {
    let state = |unit: &String| {
        let output = Command::new("systemctl")
            .args(["is-active", "--", unit])
            .stdin(Stdio::null())
            .output();
        output.map_or(String::new(), |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    };
    units.iter().map(state).collect()
}

/// The units that are not as they were before.
fn left_different(units: &[String], before: &[String]) -> Vec<Finding> {
    let after = states(units);
    let pairs = units.iter().zip(before.iter().zip(&after));
    pairs
        // Without systemd nothing is known.
        .filter(|(_, (before, after))| !before.is_empty() && !after.is_empty())
        .map(|(unit, (before, after))| {
            if before == after {
                Finding::ok(Check::Recover, format!("{unit} is {after}, as before"))
            } else {
                Finding::fail(
                    Check::Recover,
                    format!("{unit} was {before} and is {after}"),
                    format!("start it, and let --recover do so: systemctl start {unit}"),
                )
            }
        })
        .collect()
}

impl Host for RehearsalHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        self.observe(&record.record);
        if !self.is_silent {
            self.inner.record(record);
        }
    }

    fn polled(&mut self, poll: &Poll<'_>) {
        self.inner.polled(poll);
    }

    fn note(&mut self, note: &Note) {
        diagnose(note.severity().word(), &note.to_string());
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        self.prepare.begin();
        self.inner.prepare(event, reply);
    }

    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        self.recover.begin();
        self.inner.recover(events, reply);
    }

    fn gate(&mut self, event: &EventRecord, reply: GateReply) {
        self.inner.gate(event, reply);
    }

    fn cancel(&mut self, attempt: u32) {
        self.inner.cancel(attempt);
    }

    fn heartbeat(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        self.start_event();
        let wake_within = self.inner.heartbeat(status);
        let until_start = self
            .start_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        wake_within.into_iter().chain(until_start).min()
    }

    fn changed(
        &mut self,
        change: Change,
        event: &EventRecord,
        time_left: Option<Duration>,
        completion: Completion,
    ) -> bool {
        let has_commands = self.inner.changed(change, event, time_left, completion);
        self.changes += usize::from(has_commands);
        has_commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_scenario_that_exists() {
        for (kind, scenario) in TYPES {
            assert!(Scenario::builtin(scenario).is_some(), "{scenario}");
            assert_eq!(scenario_name(&kind.to_ascii_uppercase()), scenario);
        }
        assert_eq!(scenario_name("scale-in"), "scale-in");
    }

    #[test]
    fn a_command_that_takes_most_of_the_notice_is_reported() {
        let ended = |took, outcome| Progress {
            started: Some(Instant::now()),
            ended: Some((Duration::from_secs(took), outcome)),
        };
        let notice = Some(Duration::from_secs(900));
        let check = |progress: &Progress| {
            hook(
                (Check::Prepare, "--prepare", true),
                progress,
                HookOutcome::Ready,
                notice,
            )
        };
        let json = |finding: Finding| serde_json::to_string(&finding).unwrap();
        assert_eq!(
            json(check(&ended(52, HookOutcome::Ready))),
            r#"{"check":"prepare","outcome":"ok","found":"--prepare: ready after 52 s of a notice of 15 min","do":null}"#
        );
        assert!(json(check(&ended(500, HookOutcome::Ready))).contains(r#""outcome":"warn""#));
        assert!(json(check(&ended(1, HookOutcome::Failed))).contains(r#""outcome":"fail""#));
        assert!(json(check(&Progress::default())).contains("did not run"));
    }

    #[test]
    fn the_notice_stays_unless_a_rule_prepares_later() {
        let mut scenario = Scenario::builtin("user-reboot").unwrap();
        shorten(&mut scenario, &Policy::sample());
        let event = &scenario.events[0];
        assert_eq!(event.notice, Duration::from_secs(900));
        assert!(
            event.appears + event.starts_after_approval + event.started_for
                < Duration::from_secs(10)
        );
        let late = "[[rule]]\naction = \"prepare\"\nprepare_before = \"2min\"\n";
        shorten(
            &mut scenario,
            &scheduled_events::policy_file::parse(late).unwrap(),
        );
        assert_eq!(scenario.events[0].notice, Duration::from_secs(120));
    }
}
