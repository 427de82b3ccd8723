//! The loop that keeps a worker: messages and times lead from one [`State`] to the next.

use std::io::ErrorKind;
use std::mem;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use scheduled_events_core::GateAnswer;
use scheduled_events_core::spot::{Phase, Signal};

use super::eviction::{Eviction, Remaining, Stop};
use super::held_lock::HeldLock;
use super::hooks::{Commands, Purpose, Started};
use super::lines::{announced, kind};
use super::message::{Announcement, RunHandle, RunMessage};
use super::options::RunOptions;
use super::other_runs::other_workers;
use super::phase_file::PhaseFile;
use super::state::{Processing, Spawning, State};
use super::worker::Worker;
use crate::platform;
use scheduled_events::failure_log::FailureLog;
use scheduled_events::hooks::{CommandLine, CommandOutcome, end_all, is_temporary_spawn_error};
use scheduled_events::limits::{COMMAND_TIME, RUN_ANSWER_WAIT, RUN_SPAWN_RETRY};
use scheduled_events::record::{EventRecord, HookOutcome};
use scheduled_events::watch::{PrepareReply, RecoverReply};

/// The exit code if a command before the worker fails: `env`, `nohup` and `timeout` use the same
/// for failures of their own.
const EXIT_OWN_FAILURE: u8 = 125;
const EXIT_CANNOT_EXECUTE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Keeps a worker: starts it, stops it in time, and starts it again.
pub(crate) struct Supervisor {
    pub(super) options: RunOptions,
    pub(super) state: State,
    pub(super) commands: Commands,
    /// The checkpoint command, while it runs: a regular one or the last one.
    pub(super) checkpoint: Option<Started>,
    /// The purpose of that command, for the log.
    pub(super) checkpoint_is_for: String,
    /// Advice for which a checkpoint is due.
    advice: Option<EventRecord>,
    /// What the watcher waits for, until the worker has started.
    recovery: Option<Recovery>,
    /// Whether an event is open that started before the worker was stopped for it.
    has_started_event: bool,
    /// Whether the worker is started although it is unknown whether the event that it was stopped
    /// for is over.
    pub(super) is_unconfirmed: bool,
    /// The signal that asked this process to end.
    pub(super) ending: Option<i32>,
    /// Why the last approval was refused, so that each reason is logged once.
    not_approved: String,
    handle: RunHandle,
    messages: Receiver<RunMessage>,
}

/// A recovery that the watcher has requested.
struct Recovery {
    event: Option<EventRecord>,
    reply: RecoverReply,
}

impl Supervisor {
    pub(crate) fn new(options: RunOptions) -> Self {
        let (sender, messages) = mpsc::channel();
        let handle = RunHandle(sender);
        Self {
            commands: Commands::new(handle.clone(), options.log),
            options,
            state: State::IDLE,
            checkpoint: None,
            checkpoint_is_for: String::new(),
            advice: None,
            recovery: None,
            has_started_event: false,
            is_unconfirmed: false,
            ending: None,
            not_approved: String::new(),
            handle,
            messages,
        }
    }

    pub(crate) fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// Keeps the worker until it ends by itself, or until this process is asked to end. Returns the
    /// exit code.
    pub(crate) fn run(&mut self) -> u8 {
        self.begin();
        loop {
            if let State::Exited(code) = self.state {
                return code;
            }
            // This value holds a sender itself, so the channel stays open.
            if let Ok(message) = self.messages.recv_timeout(self.wait()) {
                self.on_message(message);
            }
            self.tick();
        }
    }

    /// Starts where the last run was interrupted.
    fn begin(&mut self) {
        let last = self.options.phase_file.as_ref().and_then(PhaseFile::last);
        match last {
            None => self.warm_up(),
            // The events for which the last run stopped the worker may still be open, which the
            // next document shows.
            Some(last)
                if last.is_same_boot && matches!(last.phase, Phase::Evicted | Phase::Shutdown) =>
            {
                self.log(
                    "note",
                    "the last run stopped the worker for an event; waiting for a document",
                );
                self.enter(Phase::Shutdown);
                self.state = State::Shutdown {
                    answer_by: Some(Instant::now() + RUN_ANSWER_WAIT),
                };
            }
            Some(last) if !last.is_same_boot && self.options.commands.resume.is_some() => {
                self.state = State::Identifying {
                    until: Instant::now() + RUN_ANSWER_WAIT,
                };
            }
            Some(last) => match last.phase.next(Signal::Restarted) {
                Some(Phase::Recover) => self.resume(),
                _ => self.warm_up(),
            },
        }
    }

    /// How long to wait for a message.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let lock = self.options.lock.as_ref().map(HeldLock::check_at);
        [self.state.next(now), lock]
            .into_iter()
            .flatten()
            .map(|time| time.saturating_duration_since(now))
            .min()
            .unwrap_or(Duration::from_secs(3600))
    }

    /// Carries out what is due.
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        if let Some(problem) = self.options.lock.as_mut().and_then(HeldLock::check) {
            self.log("error", &problem);
        }
        match &mut self.state {
            State::Identifying { until } if *until <= now => {
                self.log(
                    "warning",
                    "the machine's id is not known: resuming as if the last run was this machine's",
                );
                self.resume();
            }
            State::Spawning(spawning) if spawning.retry_at <= now => {
                let failures = mem::take(&mut spawning.failures);
                self.spawn(failures);
            }
            State::Processing(_) => self.tick_worker(now),
            State::Evicted(_) => self.tick_stop(now),
            State::Shutdown {
                answer_by: Some(until),
            } if *until <= now => {
                self.is_unconfirmed = true;
                self.log(
                    "warning",
                    "the metadata service does not answer: starting the worker again",
                );
                self.resume();
            }
            _ => {}
        }
    }

    /// Carries out what is due while the worker runs.
    fn tick_worker(&mut self, now: Instant) {
        let State::Processing(processing) = &mut self.state else {
            return;
        };
        if let Some(status) = processing.worker.ended() {
            if self.ending.is_none() || !processing.worker.runs() {
                return self.on_own_end(status);
            }
            // Its processes may still save something.
            processing.kill_after(self.options.grace);
        }
        if processing.is_kill_due(now) {
            processing.worker.kill();
        }
        if processing.goes_on(now) {
            self.ending = None;
            processing.stay(self.options.every);
            return self.log("note", "the worker goes on after the signal");
        }
        let is_due = processing.is_checkpoint_due(now);
        if self.checkpoint.is_none() && (is_due || self.advice.is_some()) {
            let advice = self.advice.take();
            self.start_checkpoint(advice.as_ref(), Instant::now().checked_add(COMMAND_TIME));
        }
    }

    pub(super) fn on_message(&mut self, message: RunMessage) {
        match message {
            RunMessage::Prepare(announcement, reply) => self.on_notice(&announcement, reply),
            RunMessage::Started(event) => self.on_started(event),
            RunMessage::Advised(advice) => self.on_advice(advice),
            RunMessage::Cancel(attempt) => self.on_cancel(attempt),
            RunMessage::Over { out_of_service } => self.on_over(out_of_service),
            RunMessage::Recover(event, reply) => self.on_recover(Recovery { event, reply }),
            RunMessage::Approve {
                event,
                at_once,
                reply,
            } => {
                let answer = match self.may_approve(&event, at_once) {
                    Ok(()) => GateAnswer::Open,
                    Err(why) => {
                        if why != self.not_approved {
                            self.log("note", &format!("{} is not approved: {why}", kind(&event)));
                            self.not_approved = why;
                        }
                        GateAnswer::Closed
                    }
                };
                reply.report(answer);
            }
            RunMessage::Answered { out_of_service } => self.on_answer(out_of_service),
            RunMessage::Identified { state_is_own } => self.on_identity(state_is_own),
            RunMessage::Signal(signal) => self.on_signal(signal),
            RunMessage::WorkerEnded => {}
            RunMessage::CommandEnded(number, outcome) => self.on_command_ended(number, &outcome),
        }
    }

    fn on_notice(&mut self, announcement: &Announcement, reply: PrepareReply) {
        let what = announced(&announcement.event, announcement.seconds_left());
        match &mut self.state {
            State::Shutdown { answer_by } => {
                *answer_by = None;
                self.log("warning", &format!("{what}: no worker runs"));
                reply.ready();
            }
            State::Evicted(eviction) => {
                eviction.hasten(announcement, self.options.grace);
                eviction.preparing.push(reply);
                eviction.starts_again = false;
                self.log(
                    "warning",
                    &format!("{what}: the worker is being stopped already"),
                );
            }
            state => {
                let does = if state.worker().is_some() {
                    self.options.stopping(announcement)
                } else {
                    "the worker is not started".to_owned()
                };
                self.log("warning", &format!("{what}: {does}"));
                self.evict(Some(announcement), vec![reply]);
            }
        }
    }

    /// Saves a checkpoint, and another one after a regular one that may have begun before.
    fn on_advice(&mut self, advice: EventRecord) {
        let what = announced(&advice, None);
        if let State::Processing(_) = self.state {
            self.log("warning", &format!("{what}: saving a checkpoint"));
            self.advice = Some(advice);
        } else {
            self.log(
                "note",
                &format!("{what}: no worker runs that a checkpoint could be of"),
            );
        }
    }

    /// The machine may end at any moment, so there is no time for a checkpoint.
    fn on_started(&mut self, event: EventRecord) {
        self.has_started_event = true;
        let announcement = Announcement {
            event,
            start: Some(Instant::now()),
        };
        match &mut self.state {
            State::Shutdown { answer_by } => *answer_by = None,
            State::Evicted(eviction) => eviction.hasten(&announcement, self.options.grace),
            _ => {
                let kind = kind(&announcement.event);
                self.log(
                    "warning",
                    &format!("{kind} has started: stopping the worker"),
                );
                self.evict(Some(&announcement), Vec::new());
            }
        }
    }

    fn on_cancel(&mut self, attempt: u32) {
        if let State::Evicted(eviction) = &mut self.state
            && let Some(reply) = eviction.take_preparing(attempt)
        {
            reply.report(HookOutcome::Cancelled);
            if eviction.can_go_on() && self.ending.is_none() && !self.has_started_event {
                self.go_on();
            }
        } else if let Some(recovery) = self
            .recovery
            .take_if(|recovery| recovery.reply.attempt() == attempt)
        {
            recovery.reply.report(HookOutcome::Cancelled);
            if !matches!(self.state, State::Evicted(_) | State::Shutdown { .. }) {
                self.evict(None, Vec::new());
            }
        }
    }

    fn on_over(&mut self, out_of_service: bool) {
        self.has_started_event = false;
        match &mut self.state {
            // The watcher will request the recovery.
            _ if out_of_service => {}
            State::Shutdown { .. } => self.on_event_over(),
            State::Evicted(eviction) => eviction.starts_again = true,
            _ => {}
        }
    }

    fn on_recover(&mut self, recovery: Recovery) {
        self.is_unconfirmed = false;
        if let State::Processing(_) = self.state {
            return recovery.reply.done();
        }
        self.recovery = Some(recovery);
        if let State::Shutdown { answer_by } = &mut self.state {
            *answer_by = None;
            if !self.has_started_event {
                self.on_event_over();
            }
        }
    }

    fn on_event_over(&mut self) {
        self.log("note", "the event is over: starting the worker again");
        self.resume();
    }

    /// Handles the first document after the start, if the last run had stopped the worker for an
    /// event.
    fn on_answer(&mut self, out_of_service: bool) {
        if let State::Shutdown { answer_by } = &mut self.state {
            if answer_by.take().is_some() && !out_of_service {
                self.resume();
            }
        } else if !out_of_service {
            self.is_unconfirmed = false;
            if let State::Evicted(eviction) = &mut self.state {
                eviction.keeps_out = false;
            }
        } else if self.is_unconfirmed {
            self.log(
                "warning",
                "the event that the worker was stopped for is not over: stopping it again",
            );
            self.evict(None, Vec::new());
        }
    }

    fn on_identity(&mut self, state_is_own: bool) {
        if !matches!(self.state, State::Identifying { .. }) {
            return;
        }
        if state_is_own {
            self.resume();
        } else {
            self.log(
                "note",
                "the last run was another machine's: there is nothing to resume",
            );
            self.warm_up();
        }
    }

    fn on_command_ended(&mut self, number: u64, outcome: &CommandOutcome) {
        let log = self.options.log;
        if self
            .checkpoint
            .take_if(|command| command.is(number))
            .is_some()
        {
            // Why it was cancelled has been said.
            if !matches!(outcome, CommandOutcome::Cancelled) && outcome.log("checkpoint", log) {
                self.log("note", &format!("saved {}", self.checkpoint_is_for));
            }
            return;
        }
        match &mut self.state {
            State::Resuming(command) if command.is(number) => {
                if outcome.log("resume", log) {
                    self.on_resumed();
                } else {
                    self.cannot_start(EXIT_OWN_FAILURE);
                }
            }
            State::WarmingUp(command) if command.is(number) => {
                if outcome.log("warm-up", log) {
                    self.process();
                } else {
                    self.cannot_start(EXIT_OWN_FAILURE);
                }
            }
            State::Evicted(eviction) => match &mut eviction.remaining {
                Remaining::Command(command) if command.is(number) => self.on_gone(None),
                Remaining::Command(_) => {}
                Remaining::Worker(worker, stop) => {
                    if stop.command_ended(number) && !outcome.log("stop", log) {
                        worker.terminate();
                    }
                }
            },
            _ => {}
        }
    }

    /// Restores the latest checkpoint, before the warm-up.
    fn resume(&mut self) {
        self.enter(Phase::Recover);
        match self.options.commands.resume.clone() {
            Some(command) => {
                self.state = State::Resuming(self.start_before_worker(&command, "resume"));
            }
            None => self.on_resumed(),
        }
    }

    fn on_resumed(&mut self) {
        self.enter(Phase::Resume);
        self.warm_up();
    }

    fn warm_up(&mut self) {
        self.enter(Phase::Warmup);
        match self.options.commands.warmup.clone() {
            Some(command) => {
                self.state = State::WarmingUp(self.start_before_worker(&command, "warm-up"));
            }
            None => self.process(),
        }
    }

    fn process(&mut self) {
        self.enter(Phase::Processing);
        self.spawn(FailureLog::default());
    }

    /// Starts the worker, unless the system refuses it.
    fn spawn(&mut self, mut failures: FailureLog) {
        let handle = self.handle();
        let on_end = move || handle.send(RunMessage::WorkerEnded);
        match Worker::start(&self.options.worker, on_end) {
            Ok(worker) => {
                self.log(
                    "note",
                    &format!("started the worker, process {}", worker.id()),
                );
                self.state = State::Processing(Processing::new(worker, self.options.every));
                if let Some(recovery) = self.recovery.take() {
                    recovery.reply.done();
                }
            }
            Err(error) if is_temporary_spawn_error(&error) => {
                let reason = error.to_string();
                if failures.reports(&reason) {
                    self.log(
                        "warning",
                        &format!("the worker cannot be started yet: {reason}; this is tried again"),
                    );
                }
                self.state = State::Spawning(Spawning {
                    retry_at: Instant::now() + RUN_SPAWN_RETRY,
                    failures,
                });
            }
            Err(error) => {
                let program = self
                    .options
                    .worker
                    .first()
                    .map(|word| word.to_string_lossy().into_owned());
                self.log(
                    "error",
                    &format!(
                        "cannot start the worker {:?}: {error}",
                        program.unwrap_or_default()
                    ),
                );
                let is_missing = error.kind() == ErrorKind::NotFound;
                self.cannot_start(if is_missing {
                    EXIT_NOT_FOUND
                } else {
                    EXIT_CANNOT_EXECUTE
                });
            }
        }
    }

    /// Handles a worker that cannot be started now. A recovery is repeated; otherwise a service
    /// manager restarts this program.
    fn cannot_start(&mut self, exit_code: u8) {
        self.state = State::IDLE;
        match self.recovery.take() {
            None => self.exit(exit_code),
            Some(recovery) => {
                // Until then the machine is out of service.
                self.evict(None, Vec::new());
                recovery.reply.failed();
            }
        }
    }

    /// Stops what runs.
    fn evict(&mut self, announcement: Option<&Announcement>, preparing: Vec<PrepareReply>) {
        if let Some(recovery) = self.recovery.take() {
            recovery.reply.report(HookOutcome::Cancelled);
        }
        // The last checkpoint is one for the advice, too.
        self.advice = None;
        let keeps_out = mem::take(&mut self.is_unconfirmed);
        let remaining = match mem::replace(&mut self.state, State::IDLE) {
            State::Processing(processing) => Remaining::Worker(
                processing.worker,
                Box::new(Stop::new(announcement, self.options.grace)),
            ),
            State::Resuming(command) | State::WarmingUp(command) => {
                command.running().cancel();
                Remaining::Command(command)
            }
            _ => {
                self.enter(Phase::Evicted);
                return self.shut_down(preparing, false, None);
            }
        };
        self.state = State::Evicted(Eviction {
            remaining,
            preparing,
            keeps_out,
            starts_again: false,
        });
        self.enter(Phase::Evicted);
    }

    /// Keeps the worker, since nothing is left that it was to be stopped for.
    fn go_on(&mut self) {
        let State::Evicted(Eviction {
            remaining: Remaining::Worker(worker, _),
            ..
        }) = mem::replace(&mut self.state, State::IDLE)
        else {
            return;
        };
        self.log("note", "the event is over: the worker goes on");
        self.enter(Phase::Processing);
        self.state = State::Processing(Processing::new(worker, self.options.every));
    }

    /// Handles the end of everything that an eviction stops.
    pub(super) fn on_gone(&mut self, status: Option<ExitStatus>) {
        if let State::Evicted(eviction) = mem::replace(&mut self.state, State::IDLE) {
            self.shut_down(eviction.preparing, eviction.starts_again, status);
        }
    }

    /// Reports that nothing runs, and starts again if nothing keeps the worker from running.
    fn shut_down(
        &mut self,
        preparing: Vec<PrepareReply>,
        starts_again: bool,
        status: Option<ExitStatus>,
    ) {
        if let Some(status) = status {
            self.log("note", &format!("the worker has stopped ({status})"));
        }
        self.enter(Phase::Shutdown);
        for reply in preparing {
            reply.ready();
        }
        if let Some(signal) = self.ending {
            self.exit(status.map_or_else(|| exit_code_of_signal(signal), exit_code));
        } else if !self.has_started_event && (starts_again || self.recovery.is_some()) {
            self.resume();
        }
    }

    /// Handles the end of a worker that this program did not ask to end, or, once this program was
    /// asked to end, the end of all processes of the worker.
    pub(super) fn on_own_end(&mut self, status: ExitStatus) {
        // An exit code is the worker's own answer. A signal, as of the system when memory is short, is not.
        if self.ending.is_none() && platform::ending_signal(status).is_some() {
            self.log("warning", &format!("the worker was ended ({status})"));
        }
        // A checkpoint is complete only if the worker reports so and nobody asked it to end.
        if status.success()
            && self.ending.is_none()
            && let Some(Err(error)) = self.options.phase_file.as_ref().map(PhaseFile::remove)
        {
            self.log("warning", &format!("cannot remove the phase file: {error}"));
        }
        self.exit(exit_code(status));
    }

    /// Ends all commands that still run, and then this program.
    pub(super) fn exit(&mut self, code: u8) {
        let all = [self.checkpoint.as_ref(), self.state.command()];
        let all = all.into_iter().flatten().map(Started::running);
        end_all(&all.collect::<Vec<_>>());
        if let State::Evicted(eviction) = mem::replace(&mut self.state, State::Exited(code)) {
            // Not failed: the next run prepares.
            let preparing = eviction.preparing.into_iter();
            preparing.for_each(PrepareReply::leave_open);
        }
    }

    /// Enters a phase: publishes it, and saves it for the next run before anything is done in it.
    fn enter(&mut self, phase: Phase) {
        self.not_approved.clear();
        if let Some(Err(error)) = self
            .options
            .phase_file
            .as_ref()
            .map(|file| file.save(phase))
        {
            self.log(
                "error",
                &format!("cannot write the phase file, so the next run may not resume: {error}"),
            );
        }
        (self.options.on_phase)(phase);
    }

    /// Starts the resume or the warm-up command.
    fn start_before_worker(&mut self, command: &CommandLine, label: &'static str) -> Started {
        let recovery = self.recovery.as_ref();
        let purpose = Purpose {
            label,
            event: recovery.and_then(|recovery| recovery.event.as_ref()),
            worker: None,
            deadline: Instant::now().checked_add(COMMAND_TIME),
        };
        self.commands.start(command, &purpose)
    }

    pub(super) fn start_checkpoint(
        &mut self,
        event: Option<&EventRecord>,
        deadline: Option<Instant>,
    ) {
        if let Some(command) = &self.options.commands.checkpoint {
            let purpose = Purpose {
                label: "checkpoint",
                event,
                worker: self.state.worker().map(|worker| worker.id()),
                deadline,
            };
            self.checkpoint = Some(self.commands.start(command, &purpose));
            self.checkpoint_is_for = match event {
                Some(event) => format!("a checkpoint, for {}", kind(event)),
                None => "a checkpoint".to_owned(),
            };
        }
    }

    /// Refuses the approval of this event, with the reason, if it is not allowed.
    fn may_approve(&self, event: &EventRecord, at_once: bool) -> Result<(), String> {
        if !self.options.approve {
            return Err("there is no --approve".to_owned());
        }
        // A name that is repeated is one machine.
        let mut names = event.resources.iter().flatten();
        let first = names.next();
        if first.is_some_and(|first| names.any(|name| !name.eq_ignore_ascii_case(first))) {
            return Err("it affects other machines, too, which may not be ready".to_owned());
        }
        if at_once {
            return Ok(());
        }
        if self.options.lock.as_ref().is_some_and(HeldLock::is_lost) {
            return Err("another process has replaced the lock, and may have a worker".to_owned());
        }
        if !matches!(self.state, State::Shutdown { .. }) {
            return Err("the worker is not gone".to_owned());
        }
        match self
            .options
            .state_file
            .as_deref()
            .map_or(Ok(0), other_workers)
        {
            Ok(0) => Ok(()),
            Ok(others) => Err(format!("workers of other runs are not gone: {others}")),
            Err(reason) => Err(format!(
                "cannot tell whether workers of other runs are gone: {reason}"
            )),
        }
    }

    pub(crate) fn log(&self, label: &str, text: &str) {
        (self.options.log)(label, text);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.or(platform::ending_signal(status).map(exit_code_of_signal))
        .unwrap_or(EXIT_OWN_FAILURE)
}

/// The exit code with which shells report the end of a process by a signal.
pub(crate) fn exit_code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(EXIT_OWN_FAILURE)
}
