//! The host of `watch`: prints records and runs the user's commands.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use scheduled_events_core::{Change, GateAnswer, GatePhase, Policy, RequestOutcome};

use crate::doctor::NameCheck;
use crate::output::format::printable;
use crate::output::{self, diagnose};
use crate::systemd::Supervisor;
use crate::watch::gate_lines::GateLines;
use crate::watch::printer::{RecordPrinter, print_note};
use crate::watch::reload::Pending;
use scheduled_events::audit::Audit;
use scheduled_events::hooks::{
    CommandEvent, CommandLine, CommandOutcome, RunningCommand, end_all, log_refused,
};
use scheduled_events::limits::{
    COMMAND_TIME, COMMAND_TIME_MAX, COMMAND_TIME_MIN, GATE_ANOTHER_APPROVES, GATE_TIME,
    HOOKS_AT_ONCE, HOOKS_WAITING_MAX,
};
use scheduled_events::metrics::{CommandKind, CommandMetrics, Metrics, MetricsFile};
use scheduled_events::record::{EventRecord, HookOutcome, TimedRecord, event_key};
use scheduled_events::watch::{
    Completion, GateReply, Host, Note, Poll, PrepareReply, RecoverReply, WatchStatus,
};

/// Prints records and runs the user's commands.
pub(crate) struct CommandHost {
    pub(crate) printer: RecordPrinter,
    pub(crate) audit: Option<Audit>,
    pub(crate) metrics: Option<(Metrics, MetricsFile)>,
    pub(crate) name_check: Option<NameCheck>,
    pub(crate) prepare: Option<CommandLine>,
    pub(crate) recover: Option<CommandLine>,
    pub(crate) gate: Option<CommandLine>,
    /// How long a preparation may run; `None` for the default.
    pub(crate) prepare_timeout: Option<Duration>,
    pub(crate) on: Vec<(Change, CommandLine)>,
    /// What was read again, if the configuration is.
    pub(crate) reloaded: Option<Pending>,
    supervisor: Supervisor,
    gate_lines: GateLines,
    /// Running preparations, recoveries and questions to the gate, by attempt.
    running: HashMap<u32, RunningCommand>,
    /// Commands for changes of this machine's events, and of others'.
    on_own: CommandQueue,
    on_others: CommandQueue,
}

/// Commands for changes. Some run and the others wait: a document may announce a thousand events.
#[derive(Default)]
struct CommandQueue {
    waiting: VecDeque<ChangeCommands>,
    running: Vec<Vec<RunningCommand>>,
}

/// The commands for one change.
struct ChangeCommands {
    commands: Vec<CommandLine>,
    change: Change,
    event: EventRecord,
    /// The deadline of the commands: when the event may start.
    due: Option<Instant>,
    metrics: Option<CommandMetrics>,
    completion: Completion,
}

impl CommandQueue {
    /// Drops the waiting commands for an earlier change of the same kind, whose event is outdated,
    /// and the oldest ones if too many wait.
    fn make_way(&mut self, change: Change, event: &EventRecord) {
        let key = event_key(&event.event_id);
        let is_outdated = |waiting: &ChangeCommands| {
            waiting.change == change && event_key(&waiting.event.event_id) == key
        };
        let outdated = self
            .waiting
            .iter()
            .position(is_outdated)
            .and_then(|index| self.waiting.remove(index));
        if let Some(outdated) = outdated {
            outdated.completion.complete();
        } else if self.waiting.len() >= HOOKS_WAITING_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            let text = format!(
                "too many commands wait: none is run for {} of {}",
                oldest.change, oldest.event.event_id
            );
            diagnose("error", &text);
            oldest.completion.complete();
        }
    }

    /// Starts as many waiting commands as may run.
    fn start(&mut self) {
        self.running
            .retain(|commands| commands.iter().any(|running| !running.has_ended()));
        while self.running.len() < HOOKS_AT_ONCE
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.running.push(waiting.start());
        }
    }
}

impl ChangeCommands {
    fn start(self) -> Vec<RunningCommand> {
        let label = format!("on {}", self.change);
        let left = self
            .due
            .map(|due| due.saturating_duration_since(Instant::now()))
            .filter(|left| !left.is_zero());
        let unfinished = Arc::new(AtomicUsize::new(self.commands.len()));
        let completion = AtEnd::new(self.completion);
        let start = |command: CommandLine| {
            let (label, unfinished, completion) =
                (label.clone(), Arc::clone(&unfinished), completion.clone());
            let extra = [("SCHEDULED_EVENTS_CHANGE", self.change.word())];
            let on_event = move |event| match event {
                CommandEvent::Line(line) => diagnose(&label, &line),
                CommandEvent::Refused(why) => log_refused(&label, &why, diagnose),
                CommandEvent::Ended(ended) => {
                    ended.log(&label, diagnose);
                    if unfinished.fetch_sub(1, Ordering::SeqCst) == 1 {
                        completion.take().into_iter().for_each(Completion::complete);
                    }
                }
            };
            let on_event = counted(CommandKind::Change, self.metrics.clone(), on_event);
            command.start(&self.event, &extra, Some(deadline(left)), on_event)
        };
        self.commands.into_iter().map(start).collect()
    }
}

impl CommandHost {
    pub(crate) fn new(printer: RecordPrinter) -> Self {
        Self {
            printer,
            audit: None,
            metrics: None,
            name_check: None,
            prepare: None,
            recover: None,
            gate: None,
            prepare_timeout: None,
            on: Vec::new(),
            reloaded: None,
            supervisor: Supervisor::new(),
            gate_lines: GateLines::default(),
            running: HashMap::new(),
            on_own: CommandQueue::default(),
            on_others: CommandQueue::default(),
        }
    }

    /// Starts a command for an attempt, which [`cancel`](Host::cancel) ends.
    fn start(
        &mut self,
        (kind, command): (CommandKind, &CommandLine),
        (event, variables): (&EventRecord, &[(&str, &str)]),
        time: Option<Duration>,
        attempt: u32,
        on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
    ) {
        self.running.retain(|_, running| !running.has_ended());
        let attempt_text = attempt.to_string();
        let variables = [
            variables,
            &[("SCHEDULED_EVENTS_ATTEMPT", attempt_text.as_str())],
        ]
        .concat();
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        let on_event = counted(kind, self.command_metrics(), on_event);
        self.running.insert(
            attempt,
            command.start(event, &variables, deadline, on_event),
        );
    }

    fn command_metrics(&self) -> Option<CommandMetrics> {
        self.metrics.as_ref().map(|(metrics, _)| metrics.commands())
    }

    /// Passes the metrics to the file if they changed and it may be written again. Returns how soon
    /// to call again.
    fn write_metrics(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        let lost = self.audit.as_ref().map_or(0, Audit::lost);
        let (metrics, file) = self.metrics.as_mut()?;
        metrics.status(status, output::dropped_records().saturating_add(lost));
        if !metrics.is_changed() {
            return None;
        }
        let wait = file.wait();
        if wait.is_zero() {
            file.write(metrics.text());
        }
        (!wait.is_zero()).then_some(wait)
    }

    /// Writes the metrics for the last time.
    pub(crate) fn finish_metrics(&mut self) {
        if let Some((metrics, file)) = &mut self.metrics {
            file.finish(metrics.text());
        }
    }

    /// Ends all commands that still run: asks them first, then kills them.
    pub(crate) fn stop(&self) {
        self.supervisor.stopping();
        let on_changes = self
            .on_own
            .running
            .iter()
            .chain(&self.on_others.running)
            .flatten();
        let all: Vec<_> = self.running.values().chain(on_changes).collect();
        end_all(&all);
    }
}

impl Host for CommandHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        if let Some(audit) = &self.audit {
            audit.record(record);
        }
        if let Some((metrics, _)) = &mut self.metrics {
            metrics.record(record);
        }
        #[cfg(windows)]
        crate::output::event_log::record(record);
        self.printer.record(record);
    }

    fn polled(&mut self, poll: &Poll<'_>) {
        if let Some((metrics, _)) = &mut self.metrics {
            metrics.polled(poll);
        }
        let has_document = matches!(
            poll.outcome,
            RequestOutcome::Document | RequestOutcome::Unchanged
        );
        if let Some(check) = self.name_check.as_mut().filter(|_| has_document) {
            check.on_document();
        }
    }

    fn before_approval(&mut self) {
        if let Some(audit) = &self.audit {
            audit.sync();
        }
    }

    fn note(&mut self, note: &Note) {
        print_note(note);
    }

    fn reload(&mut self) -> Option<Result<Policy, Box<dyn Error + Send + Sync>>> {
        let pending = self.reloaded.as_ref()?;
        let result = pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        if let Some((metrics, _)) = &mut self.metrics {
            metrics.reloaded(result.is_ok());
        }
        Some(result.map_err(Into::into).map(|new| {
            // Commands that run go on.
            self.prepare = new.prepare;
            self.recover = new.recover;
            self.gate = new.gate;
            self.prepare_timeout = new.prepare_timeout;
            self.on = new.on;
            new.policy
        }))
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        let Some(command) = self.prepare.clone() else {
            diagnose(
                "warning",
                "an event needs preparation, but there is no --prepare COMMAND; the event is held",
            );
            return reply.report(HookOutcome::NoCommand);
        };
        // Once the machine is out of service, the file records it, whatever ends the watcher
        // meanwhile.
        if let Some(audit) = &self.audit {
            audit.sync_unless_stalled();
        }
        // It may run beyond the start of the event: a checkpoint may still succeed. The event's end
        // cancels the preparation.
        let time_left = reply.time_left();
        let time = self.prepare_timeout.or(if time_left.is_some() {
            None
        } else {
            Some(COMMAND_TIME)
        });
        let attempt = reply.attempt();
        // A command that used the time of day would trust a clock that the watcher may know to be
        // wrong.
        let seconds_left = time_left.map(|left| left.as_secs().to_string());
        let seconds_left = seconds_left
            .as_deref()
            .map(|seconds| ("SCHEDULED_EVENTS_SECONDS_LEFT", seconds));
        let last_call = reply
            .by_last_call()
            .then_some(("SCHEDULED_EVENTS_LAST_CALL", "1"));
        let variables: Vec<_> = seconds_left.into_iter().chain(last_call).collect();
        let reply = AtEnd::new(reply);
        self.start(
            (CommandKind::Prepare, &command),
            (event, &variables),
            time,
            attempt,
            move |event: CommandEvent| match event {
                CommandEvent::Line(line) => diagnose("prepare", &line),
                CommandEvent::Refused(why) => log_refused("prepare", &why, diagnose),
                CommandEvent::Ended(ended) => {
                    let outcome = outcome("prepare", HookOutcome::Ready, &ended);
                    reply
                        .take()
                        .into_iter()
                        .for_each(|reply| reply.report(outcome));
                }
            },
        );
    }

    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        let (Some(command), Some(last)) = (self.recover.clone(), events.first()) else {
            return reply.report(HookOutcome::NoCommand);
        };
        // One per line: an id with a line feed must not look like two.
        let ids = events
            .iter()
            .map(|event| printable(&event.event_id))
            .collect::<Vec<_>>()
            .join("\n");
        let (attempt, variables) = (
            reply.attempt(),
            [("SCHEDULED_EVENTS_EVENT_IDS", ids.as_str())],
        );
        let recover = (CommandKind::Recover, &command);
        let reply = AtEnd::new(reply);
        self.start(
            recover,
            (last, &variables),
            Some(COMMAND_TIME),
            attempt,
            move |event: CommandEvent| match event {
                CommandEvent::Line(line) => diagnose("recover", &line),
                CommandEvent::Refused(why) => log_refused("recover", &why, diagnose),
                CommandEvent::Ended(ended) => {
                    let outcome = outcome("recover", HookOutcome::Done, &ended);
                    reply
                        .take()
                        .into_iter()
                        .for_each(|reply| reply.report(outcome));
                }
            },
        );
    }

    fn gate(&mut self, event: &EventRecord, reply: GateReply) {
        let Some(command) = self.gate.clone() else {
            return reply.open();
        };
        let phase = reply.phase();
        let (attempt, variables) = (reply.attempt(), [("SCHEDULED_EVENTS_PHASE", phase.word())]);
        let gate = (CommandKind::Gate, &command);
        let (lines, event_id) = (self.gate_lines.clone(), event.event_id.clone());
        lines.ask(&event_id, phase);
        let reply = AtEnd::new(reply);
        self.start(
            gate,
            (event, &variables),
            Some(GATE_TIME),
            attempt,
            move |event: CommandEvent| match event {
                CommandEvent::Line(line) if !lines.is_new(&event_id, phase, &line) => {}
                CommandEvent::Line(line) => diagnose("gate", &line),
                CommandEvent::Refused(why) => log_refused("gate", &why, diagnose),
                CommandEvent::Ended(ended) => {
                    let answer = gate_answer(phase, &ended);
                    reply
                        .take()
                        .into_iter()
                        .for_each(|reply| reply.report(answer));
                }
            },
        );
    }

    fn cancel(&mut self, attempt: u32) {
        if let Some(running) = self.running.get(&attempt) {
            running.cancel();
        }
    }

    fn heartbeat(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        self.on_own.start();
        self.on_others.start();
        let wake_within = [
            self.printer.heartbeat(status),
            self.supervisor.heartbeat(status),
            self.write_metrics(status),
        ];
        wake_within.into_iter().flatten().min()
    }

    fn changed(
        &mut self,
        change: Change,
        event: &EventRecord,
        time_left: Option<Duration>,
        completion: Completion,
    ) -> bool {
        let wanted = self.on.iter().filter(|(wanted, _)| *wanted == change);
        let commands: Vec<_> = wanted.map(|(_, command)| command.clone()).collect();
        if commands.is_empty() {
            return false;
        }
        let due = time_left
            .filter(|_| !change.is_end())
            .map(|left| Instant::now() + left.min(COMMAND_TIME_MAX));
        // Others' events must not delay this machine's.
        let is_own = event.mine != Some(false);
        let metrics = self.command_metrics();
        let queue = if is_own {
            &mut self.on_own
        } else {
            &mut self.on_others
        };
        queue.make_way(change, event);
        queue.waiting.push_back(ChangeCommands {
            commands,
            change,
            event: event.clone(),
            due,
            metrics,
            completion,
        });
        queue.start();
        true
    }
}

/// What is answered once, when a command has ended: its events may be reported by several threads.
struct AtEnd<T>(Arc<Mutex<Option<T>>>);

impl<T> AtEnd<T> {
    fn new(answered: T) -> Self {
        Self(Arc::new(Mutex::new(Some(answered))))
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Clone for AtEnd<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Counts a command when it has ended.
fn counted(
    kind: CommandKind,
    metrics: Option<CommandMetrics>,
    on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
) -> impl Fn(CommandEvent) + Clone + Send + 'static {
    let started = Instant::now();
    move |event| {
        if let (CommandEvent::Ended(ended), Some(metrics)) = (&event, &metrics) {
            metrics.ended(kind, ended, started.elapsed());
        }
        on_event(event);
    }
}

fn deadline(time_left: Option<Duration>) -> Instant {
    Instant::now()
        + time_left.map_or(COMMAND_TIME, |left| {
            left.clamp(COMMAND_TIME_MIN, COMMAND_TIME_MAX)
        })
}

/// The gate's answer from the end of its command. Only a failure to answer is printed.
fn gate_answer(phase: GatePhase, ended: &CommandOutcome) -> GateAnswer {
    match ended {
        CommandOutcome::Succeeded => GateAnswer::Open,
        CommandOutcome::Failed {
            code: Some(GATE_ANOTHER_APPROVES),
            ..
        } if phase == GatePhase::Approve => GateAnswer::AnotherApproves,
        CommandOutcome::Failed { code: Some(_), .. } => GateAnswer::Closed,
        _ => {
            ended.log("gate", diagnose);
            GateAnswer::Closed
        }
    }
}

/// The outcome of a command, for its record: `success`, or why it failed. A failure is also
/// printed.
fn outcome(label: &str, success: HookOutcome, ended: &CommandOutcome) -> HookOutcome {
    ended.log(label, diagnose);
    ended.for_record(success)
}
