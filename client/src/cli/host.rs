//! Who does what a watch says: tells people and programs, and runs the user's commands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::{Change, Preparation, UnixSeconds};

use super::check::{now, resources, style_of};
use super::look::{self, BAD, CAUTION, DIM, GOOD, PLAIN, shown};
use super::systemd::Supervisor;
use crate::hooks::{CommandLine, Ended, Running, Told};
use crate::record::{EventRecord, Record};
use crate::watch::{Debt, Host, Note, Pulse, Reply, key};

/// How long a command may run where the event's start is not known.
const UNKNOWN_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// What a command is given at least, even when the event is due.
const LEAST_TIME: Duration = Duration::from_secs(5);

/// Days ahead, as with predicted failures, a command still has to end some day.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// For how many changes of this machine's events, and of others', commands run at once.
const CHANGES_AT_ONCE: usize = 8;

/// How long running commands have to end when the watch is stopped.
const STOP_GRACE: Duration = Duration::from_millis(1_200);

/// Tells records: as JSON Lines, or as lines for a person.
pub(super) struct Teller {
    pub(super) json: bool,
}

impl Teller {
    pub(super) fn record(&self, record: &Record, event: Option<&EventRecord>) {
        if self.json {
            look::say_record(record);
            return;
        }
        match record {
            Record::Change { change, event_id, event_type, time, .. } => {
                let style = match change {
                    Change::Scheduled | Change::Rescheduled | Change::Updated => CAUTION,
                    Change::Started | Change::StartedWithoutNotice => BAD,
                    Change::Completed | Change::Cancelled | Change::Ended => GOOD,
                };
                Self::line(*time, change.word(), style, event_type.as_deref(), event_id, "");
                let news = !matches!(change, Change::Started) && !change.is_end();
                if let Some(event) = event.filter(|_| news) {
                    Self::below(&facts(event, *time));
                    if let Some(text) = event.description.as_deref().filter(|text| !text.is_empty()) {
                        Self::below(&shown(text));
                    }
                }
            }
            Record::Decision { event_id, action, rule, reason } => {
                let rule = rule.map_or(String::new(), |rule| format!(" (rule {rule})"));
                let reason = format!("{reason}{rule}");
                Self::line(now(), action.word(), style_of(*action), type_of(event), event_id, &reason);
            }
            Record::Approval { event_ids, status } => {
                let (word, style) = if status.is_some_and(|status| (200..300).contains(&status)) {
                    ("approved", GOOD)
                } else {
                    ("not approved", BAD)
                };
                let status = status.map_or("no answer".into(), |status| format!("status {status}"));
                for id in event_ids {
                    let event_type = type_of(event.filter(|event| event.event_id == *id));
                    Self::line(now(), word, style, event_type, id, &status);
                }
            }
            Record::Prepare { event_id, outcome } => {
                let style = if *outcome == "ready" { GOOD } else { BAD };
                Self::line(now(), "prepared", style, type_of(event), event_id, outcome);
            }
            Record::Recover { event_id, outcome } => {
                let style = if *outcome == "done" { GOOD } else { BAD };
                Self::line(now(), "recovered", style, type_of(event), event_id, outcome);
            }
            Record::Problem { event, member, kind, line, column } => {
                let place = event.map_or("the document".to_owned(), |event| format!("event {event}"));
                let member = member.map_or(String::new(), |member| format!(", {member}"));
                let text = format!("{place}{member}: {} at {line}:{column}", kind.word());
                Self::line(now(), "problem", CAUTION, None, &text, "");
            }
            Record::Untracked { own, others } => {
                let text = format!("no room for {own} own events and {others} of other machines");
                Self::line(now(), "untracked", BAD, None, &text, "");
            }
            _ => {}
        }
    }

    fn line(time: UnixSeconds, word: &str, style: anstyle::Style, kind: Option<&str>, id: &str, rest: &str) {
        let time = look::time_of_day(time);
        let kind = shown(kind.unwrap_or("-"));
        let line = format!("{DIM}{time}{DIM:#}  {style}{word:<12}{style:#}  {kind:<9}  {}  {rest}", shown(id));
        look::say(&format!("{}\n", line.trim_end()));
    }

    fn below(text: &str) {
        look::say(&format!("{:24}{DIM}{text}{DIM:#}\n", ""));
    }

    /// Says something that is no record, to people only.
    pub(super) fn say(&self, text: &str) {
        if !self.json {
            look::say(&format!("{PLAIN}{text}{PLAIN:#}\n"));
        }
    }

    pub(super) fn note(note: &Note<'_>) {
        match note {
            Note::Named(name) => look::diagnose("note", &format!("this machine is {name}")),
            Note::NameUnknown(why) => look::diagnose(
                "warning",
                &format!("this machine's own name could not be asked ({why}); until it is known, all is held"),
            ),
            Note::StateDamaged(what) => look::diagnose("warning", what),
            Note::StateNotSaved(why) => look::diagnose(
                "error",
                &format!("the state file could not be written, so a restart would forget: {why}"),
            ),
            Note::Restored { events: 0 } => {}
            Note::Restored { events } => {
                look::diagnose("note", &format!("taking up the last run's state, {events} events"));
            }
            Note::Failed(why) => look::diagnose("warning", why),
            Note::Stale => look::diagnose("warning", "an old document was served again; it is not believed yet"),
            Note::ClockDoubtful => look::diagnose(
                "warning",
                "the wall clock was moved by more than an hour, which is not believed; if it is right now, start the watch again",
            ),
        }
    }
}

fn type_of(event: Option<&EventRecord>) -> Option<&str> {
    event.and_then(|event| event.event_type.as_deref())
}

/// What an operator wants to know first: when, how long, who, where.
fn facts(event: &EventRecord, now: UnixSeconds) -> String {
    let starts = match event.not_before {
        _ if event.event_status.as_deref() == Some("Started") => "under way".into(),
        Some(moment) => format!("starts {} at {moment}", look::from_now(moment, now)),
        None => "starts at an unknown time".into(),
    };
    let duration = event.duration_in_seconds.map_or("for an unknown time".into(), |seconds| match seconds {
        0 => "without interruption".into(),
        seconds => format!("for {}", look::span(seconds.into())),
    });
    let source = event.event_source.as_deref().map_or(String::new(), |source| format!(", by {}", shown(source)));
    let mine = match event.mine {
        Some(true) => " (this machine's)",
        Some(false) => " (not this machine's)",
        None => "",
    };
    format!("{starts}, {duration}{source}, on {}{mine}", resources(event))
}

/// Runs the user's commands.
pub(super) struct CommandHost {
    pub(super) teller: Teller,
    pub(super) prepare: Option<CommandLine>,
    pub(super) recover: Option<CommandLine>,
    pub(super) on: Vec<(Change, CommandLine)>,
    supervisor: Supervisor,
    preparing: HashMap<String, Running>,
    recovering: Vec<Running>,
    /// Commands for changes of this machine's events, and for those of others.
    on_own: Commands,
    on_others: Commands,
}

/// Commands for changes: some run, the others wait for their turn. A document may announce a thousand events.
#[derive(Default)]
struct Commands {
    waiting: VecDeque<Waiting>,
    running: Vec<Vec<Running>>,
}

/// What is to be run for one change.
struct Waiting {
    commands: Vec<CommandLine>,
    change: Change,
    event: EventRecord,
    /// When the event may start, where the commands should have ended by then.
    due: Option<Instant>,
    debt: Debt,
}

impl Commands {
    /// Starts what waits, as far as it is its turn.
    fn start(&mut self) {
        self.running.retain(|commands| commands.iter().any(|running| !running.has_ended()));
        while self.running.len() < CHANGES_AT_ONCE
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.running.push(waiting.start());
        }
    }
}

impl Waiting {
    fn start(self) -> Vec<Running> {
        let label = format!("on {}", self.change);
        let left = self.due.map(|due| due.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        let unfinished = Arc::new(AtomicUsize::new(self.commands.len()));
        let start = |command: CommandLine| {
            let (label, unfinished, debt) = (label.clone(), Arc::clone(&unfinished), self.debt.clone());
            let extra = [("SCHEDULED_EVENTS_CHANGE", self.change.word())];
            command.start(&self.event, &extra, Some(deadline(left)), move |told| match told {
                Told::Line(line) => log(&label, &line),
                Told::Ended(ended) => {
                    outcome(&label, &ended);
                    if unfinished.fetch_sub(1, Ordering::SeqCst) == 1 {
                        debt.paid();
                    }
                }
            })
        };
        self.commands.into_iter().map(start).collect()
    }
}

impl CommandHost {
    pub(super) fn new(teller: Teller) -> Self {
        Self {
            teller,
            prepare: None,
            recover: None,
            on: Vec::new(),
            supervisor: Supervisor::new(),
            preparing: HashMap::new(),
            recovering: Vec::new(),
            on_own: Commands::default(),
            on_others: Commands::default(),
        }
    }

    /// Ends what still runs: politely, then for good.
    pub(super) fn stop(&self) {
        self.supervisor.stopping();
        let on_changes = || self.on_own.running.iter().chain(&self.on_others.running).flatten();
        let all = || self.recovering.iter().chain(self.preparing.values()).chain(on_changes());
        for running in all() {
            running.end();
        }
        let patience = Instant::now() + STOP_GRACE;
        while Instant::now() < patience && all().any(|running| !running.has_ended()) {
            thread::sleep(Duration::from_millis(10));
        }
        for running in all() {
            running.end_for_good();
        }
        let patience = Instant::now() + Duration::from_millis(300);
        while Instant::now() < patience && all().any(|running| !running.has_ended()) {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Host for CommandHost {
    fn record(&mut self, record: &Record, event: Option<&EventRecord>) {
        self.teller.record(record, event);
    }

    fn note(&mut self, note: Note<'_>) {
        Teller::note(&note);
    }

    fn prepare(&mut self, event: &EventRecord, time_left: Option<Duration>, reply: Reply) {
        let Some(command) = &self.prepare else {
            look::diagnose("warning", "an event is to be prepared for, but there is no --prepare command; it is held");
            reply.prepared(Preparation::Failed, "no-command");
            return;
        };
        self.preparing.retain(|_, running| !running.has_ended());
        let tell = move |told: Told| match told {
            Told::Line(line) => log("prepare", &line),
            Told::Ended(ended) => match outcome("prepare", &ended) {
                "done" => reply.prepared(Preparation::Ready, "ready"),
                word => reply.prepared(Preparation::Failed, word),
            },
        };
        let running = command.start(event, &[], Some(deadline(time_left)), tell);
        self.preparing.insert(key(&event.event_id), running);
    }

    fn rescheduled(&mut self, event: &EventRecord, time_left: Option<Duration>) {
        if let Some(running) = self.preparing.get(&key(&event.event_id)) {
            running.set_deadline(Some(deadline(time_left)));
        }
    }

    fn recover(&mut self, event: &EventRecord, still_open: usize, reply: Reply) {
        let Some(command) = &self.recover else {
            reply.recovered("no-command");
            return;
        };
        self.recovering.retain(|running| !running.has_ended());
        let tell = move |told: Told| match told {
            Told::Line(line) => log("recover", &line),
            Told::Ended(ended) => reply.recovered(outcome("recover", &ended)),
        };
        let still_open = still_open.to_string();
        let extra = [("SCHEDULED_EVENTS_STILL_OPEN", still_open.as_str())];
        self.recovering.push(command.start(event, &extra, Some(deadline(None)), tell));
    }

    fn pulse(&mut self, pulse: Pulse<'_>) -> Option<Duration> {
        self.on_own.start();
        self.on_others.start();
        self.supervisor.pulse(pulse)
    }

    fn changed(&mut self, change: Change, event: &EventRecord, time_left: Option<Duration>, debt: Debt) -> bool {
        let wanted = self.on.iter().filter(|(wanted, _)| *wanted == change);
        let commands: Vec<_> = wanted.map(|(_, command)| command.clone()).collect();
        if commands.is_empty() {
            return false;
        }
        let due = time_left.filter(|_| !change.is_end()).map(|left| Instant::now() + left.min(LONGEST));
        // Others' events never keep this machine's own waiting.
        let own = event.mine != Some(false);
        let place = if own { &mut self.on_own } else { &mut self.on_others };
        place.waiting.push_back(Waiting { commands, change, event: event.clone(), due, debt });
        place.start();
        true
    }
}

fn deadline(time_left: Option<Duration>) -> Instant {
    Instant::now() + time_left.map_or(UNKNOWN_DEADLINE, |left| left.clamp(LEAST_TIME, LONGEST))
}

fn log(label: &str, line: &str) {
    look::diagnose(label, line);
}

/// Says how a command ended if it did not end well, and gives the word for the record.
fn outcome(label: &str, ended: &Ended) -> &'static str {
    match ended {
        Ended::Well => "done",
        Ended::Badly(why) => {
            look::diagnose("warning", &format!("the {label} command failed: {why}"));
            "failed"
        }
        Ended::Late => {
            look::diagnose("warning", &format!("the {label} command ran out of time and was ended"));
            "timed-out"
        }
        Ended::Stopped => {
            look::diagnose("warning", &format!("the {label} command was ended, since the watch stops"));
            "stopped"
        }
        Ended::NotStarted(why) => {
            look::diagnose("error", &format!("the {label} command could not be started: {why}"));
            "failed"
        }
    }
}
