//! The loop that keeps a worker: it advances the phase, and carries out each phase's actions.

use std::io::ErrorKind;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use scheduled_events_core::spot::{Phase, Signal};
use scheduled_events_core::{GateAnswer, GatePhase, Preparation};

use super::held_lock::HeldLock;
use super::hooks::{Commands, Purpose, Started};
use super::message::{Announcement, RunHandle, RunMessage};
use super::options::RunOptions;
use super::other_runs::other_workers;
use super::phase_file::PhaseFile;
use super::stop_progress::{KILL_INTERVAL, Stop};
use super::worker::Worker;
use crate::platform;
use scheduled_events::failure_log::FailureLog;
use scheduled_events::hooks::{CommandLine, CommandOutcome, end_all, is_temporary_spawn_error};
use scheduled_events::limits::{COMMAND_TIME, RUN_ANSWER_WAIT, RUN_SPAWN_RETRY};
use scheduled_events::record::{EventRecord, HookOutcome};
use scheduled_events::watch::Reply;

/// The exit code if a command before the worker fails: `env`, `nohup` and `timeout` use the same
/// for failures of their own.
const EXIT_OWN_FAILURE: u8 = 125;
const EXIT_CANNOT_EXECUTE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Keeps a worker: starts it, stops it in time, and starts it again.
pub(crate) struct Supervisor {
    pub(crate) options: RunOptions,
    pub(crate) phase: Phase,
    pub(crate) worker: Option<Worker>,
    pub(crate) commands: Commands,
    /// The warm-up or the resume command.
    before_worker: Option<Started>,
    /// The checkpoint command.
    pub(crate) checkpoint: Option<Started>,
    pub(crate) checkpoint_at: Option<Instant>,
    /// The progress of stopping the worker, in the phase `Evicted`.
    pub(crate) stop: Option<Stop>,
    /// Receivers of the report that the worker is gone.
    preparing: Vec<Reply>,
    /// The receiver of the report that the worker has started again.
    recovering: Option<Reply>,
    /// The event that the recovery is about.
    recovered_event: Option<EventRecord>,
    /// How long to wait for a document that shows whether the worker may start. Only if the last
    /// run stopped it for an event, since this boot.
    answer_by: Option<Instant>,
    /// How long to wait for the machine's id, which shows whether there is something to resume: a
    /// copied disk has the files of another machine.
    identity_by: Option<Instant>,
    /// Whether an event is open that started before the worker was stopped for it.
    has_started_event: bool,
    /// Whether the last such event was over before the worker had stopped.
    starts_again: bool,
    /// Whether the worker was started although it is unknown whether the event that it was stopped
    /// for is over.
    is_unconfirmed: bool,
    spawn_at: Option<Instant>,
    spawn_failures: FailureLog,
    /// The signal that asked this process to end.
    pub(crate) ending: Option<i32>,
    /// When a worker that still runs counts as having handled that signal and continuing.
    pub(crate) goes_on_at: Option<Instant>,
    /// When the worker is killed after that, unless it is stopped for an event meanwhile.
    pub(crate) kill_at: Option<Instant>,
    pub(crate) exit: Option<u8>,
    /// Why the last approval was refused, so that each reason is logged once.
    not_approved: String,
    handle: RunHandle,
    messages: Receiver<RunMessage>,
}

impl Supervisor {
    pub(crate) fn new(options: RunOptions) -> Self {
        let (sender, messages) = mpsc::channel();
        let handle = RunHandle(sender);
        Self {
            commands: Commands::new(handle.clone(), options.log),
            options,
            phase: Phase::Warmup,
            worker: None,
            before_worker: None,
            checkpoint: None,
            checkpoint_at: None,
            stop: None,
            preparing: Vec::new(),
            recovering: None,
            recovered_event: None,
            answer_by: None,
            identity_by: None,
            has_started_event: false,
            starts_again: false,
            is_unconfirmed: false,
            spawn_at: None,
            spawn_failures: FailureLog::default(),
            ending: None,
            goes_on_at: None,
            kill_at: None,
            exit: None,
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
    pub(crate) fn run(mut self) -> u8 {
        self.begin();
        loop {
            if let Some(code) = self.exit {
                self.end_commands();
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
            None => self.enter(Phase::Warmup),
            // The events for which the last run stopped the worker may still be open, which the
            // next document shows.
            Some(last)
                if last.is_same_boot && matches!(last.phase, Phase::Evicted | Phase::Shutdown) =>
            {
                self.log(
                    "note",
                    "the last run stopped the worker for an event; waiting for a document",
                );
                self.answer_by = Some(Instant::now() + RUN_ANSWER_WAIT);
                self.enter(Phase::Shutdown);
            }
            Some(last) if !last.is_same_boot && self.options.commands.resume.is_some() => {
                self.identity_by = Some(Instant::now() + RUN_ANSWER_WAIT);
            }
            Some(last) => {
                self.enter(last.phase.next(Signal::Restarted).unwrap_or(Phase::Warmup));
            }
        }
    }

    /// How long to wait for a message.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let stop = self.stop.as_ref().map(Stop::next);
        let lock = self.options.lock.as_ref().map(HeldLock::check_at);
        let own = [
            self.identity_by,
            self.checkpoint_at,
            self.answer_by,
            self.spawn_at,
            self.goes_on_at,
            self.kill_at,
        ];
        let waits = own
            .into_iter()
            .chain([stop, lock])
            .flatten()
            .map(|time| time.saturating_duration_since(now));
        let check = self.worker.as_ref().and_then(Worker::check_within);
        waits
            .chain(check)
            .min()
            .unwrap_or(Duration::from_secs(3600))
    }

    fn on_message(&mut self, message: RunMessage) {
        match message {
            RunMessage::Prepare(announcement, reply) => self.on_notice(&announcement, reply),
            RunMessage::Cancel(attempt) => self.on_cancel(attempt),
            RunMessage::Recover(event, reply) => self.on_recover(event, reply),
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
                reply.gate(GatePhase::Approve, answer);
            }
            RunMessage::Answered { out_of_service } => self.on_answer(out_of_service),
            RunMessage::Identified { state_is_own } => self.on_identity(state_is_own),
            RunMessage::Started(event) => self.on_started(event),
            RunMessage::Over { out_of_service } => self.on_over(out_of_service),
            RunMessage::Signal(signal) => self.on_signal(signal),
            RunMessage::WorkerEnded => {}
            RunMessage::CommandEnded(number, outcome) => self.on_command_ended(number, &outcome),
        }
    }

    fn on_identity(&mut self, state_is_own: bool) {
        if self.identity_by.take().is_none() {
            return;
        }
        if state_is_own {
            self.enter(Phase::Recover);
        } else {
            self.log(
                "note",
                "the last run was another machine's: there is nothing to resume",
            );
            self.enter(Phase::Warmup);
        }
    }

    fn on_notice(&mut self, announcement: &Announcement, reply: Reply) {
        self.is_unconfirmed = false;
        self.answer_by = None;
        self.identity_by = None;
        self.starts_again = false;
        self.preparing.push(reply);
        match self.phase {
            Phase::Shutdown => self.report_gone(),
            Phase::Evicted => {
                if let Some(stop) = &mut self.stop {
                    stop.hasten(announcement, self.options.grace);
                }
            }
            _ => {
                let kind = kind(&announcement.event);
                if self.worker.is_some() {
                    let grace = humantime::format_duration(self.options.grace);
                    self.log(
                        "warning",
                        &format!(
                            "{kind} is announced: stopping the worker, which has {grace} to end"
                        ),
                    );
                } else {
                    self.log(
                        "warning",
                        &format!("{kind} is announced: the worker is not started"),
                    );
                }
                self.begin_stop(Some(announcement));
            }
        }
    }

    /// The machine may end at any moment, so there is no time for a checkpoint.
    fn on_started(&mut self, event: EventRecord) {
        self.has_started_event = true;
        self.is_unconfirmed = false;
        self.answer_by = None;
        self.identity_by = None;
        let announcement = Announcement {
            event,
            start: Some(Instant::now()),
        };
        match self.phase {
            Phase::Shutdown => {}
            Phase::Evicted => {
                if let Some(stop) = &mut self.stop {
                    stop.hasten(&announcement, self.options.grace);
                }
            }
            _ => {
                let kind = kind(&announcement.event);
                self.log(
                    "warning",
                    &format!("{kind} has started: stopping the worker"),
                );
                self.begin_stop(Some(&announcement));
            }
        }
    }

    fn on_over(&mut self, out_of_service: bool) {
        self.has_started_event = false;
        match self.phase {
            // The watcher will request the recovery.
            _ if out_of_service => {}
            Phase::Shutdown if self.ending.is_none() => {
                self.log("note", "the event is over: starting the worker again");
                self.advance(Signal::Withdrawn);
            }
            Phase::Evicted => self.starts_again = true,
            _ => {}
        }
    }

    /// Advances to the phase `Evicted`, in which [`tick`](Self::tick) stops the running processes.
    fn begin_stop(&mut self, announcement: Option<&Announcement>) {
        self.checkpoint_at = None;
        self.spawn_at = None;
        self.goes_on_at = None;
        self.kill_at = None;
        if let Some(command) = &self.before_worker {
            command.running().cancel();
        }
        if let Some(reply) = self.recovering.take() {
            reply.recovered(HookOutcome::Cancelled);
        }
        self.stop = Some(Stop::new(announcement, self.options.grace));
        self.advance(Signal::Notice);
    }

    fn on_cancel(&mut self, attempt: u32) {
        if let Some(index) = self
            .preparing
            .iter()
            .position(|reply| reply.attempt() == attempt)
        {
            self.preparing
                .remove(index)
                .prepared(Preparation::Failed, HookOutcome::Cancelled);
            let can_go_on =
                self.worker.is_some() && self.stop.as_ref().is_some_and(|stop| !stop.has_asked());
            if self.preparing.is_empty()
                && can_go_on
                && self.ending.is_none()
                && !self.has_started_event
            {
                self.log("note", "the event is over: the worker goes on");
                self.stop = None;
                self.advance(Signal::Withdrawn);
            }
        } else if self
            .recovering
            .as_ref()
            .is_some_and(|reply| reply.attempt() == attempt)
        {
            match self.phase {
                Phase::Evicted | Phase::Shutdown => {
                    if let Some(reply) = self.recovering.take() {
                        reply.recovered(HookOutcome::Cancelled);
                    }
                }
                _ => self.begin_stop(None),
            }
        }
    }

    fn on_recover(&mut self, event: Option<EventRecord>, reply: Reply) {
        self.answer_by = None;
        self.is_unconfirmed = false;
        self.recovered_event = event;
        if self.phase == Phase::Processing && self.worker.is_some() {
            reply.recovered(HookOutcome::Done);
            return;
        }
        self.recovering = Some(reply);
        if self.phase == Phase::Shutdown && self.ending.is_none() && !self.has_started_event {
            self.log("note", "the event is over: starting the worker again");
            self.advance(Signal::Withdrawn);
        }
    }

    /// Handles the first document after the start, if the last run had stopped the worker for an
    /// event.
    fn on_answer(&mut self, out_of_service: bool) {
        if self.answer_by.take().is_some() && !out_of_service {
            self.advance(Signal::Withdrawn);
        } else if std::mem::take(&mut self.is_unconfirmed) && out_of_service {
            self.log(
                "warning",
                "the event that the worker was stopped for is not over: stopping it again",
            );
            self.begin_stop(None);
        }
    }

    fn on_command_ended(&mut self, number: u64, outcome: &CommandOutcome) {
        if self
            .before_worker
            .take_if(|command| command.is(number))
            .is_some()
        {
            match self.phase {
                Phase::Recover if outcome.log("resume", self.options.log) => {
                    self.advance(Signal::Recovered);
                }
                Phase::Warmup if outcome.log("warm-up", self.options.log) => {
                    self.advance(Signal::WarmedUp);
                }
                Phase::Recover | Phase::Warmup => self.cannot_start(EXIT_OWN_FAILURE),
                _ => {}
            }
        } else if self
            .checkpoint
            .take_if(|command| command.is(number))
            .is_some()
        {
            outcome.log("checkpoint", self.options.log);
        } else if let Some(stop) = &mut self.stop
            && stop.command_ended(number)
            && !outcome.log("stop", self.options.log)
            && let Some(worker) = &mut self.worker
        {
            worker.terminate();
        }
    }

    /// Carries out the actions that are due.
    fn tick(&mut self) {
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= Instant::now());
        if self.exit.is_some() {
            return;
        }
        if self.phase == Phase::Evicted {
            self.tick_stop();
        } else if let Some(status) = self.worker.as_mut().and_then(Worker::ended) {
            if self.ending.is_none() || !self.worker.as_mut().is_some_and(Worker::runs) {
                return self.on_own_end(status);
            }
            // Its processes may still save something.
            self.kill_after_grace();
        }
        if is_due(self.goes_on_at) {
            self.on_going_on();
        }
        if is_due(self.kill_at)
            && let Some(worker) = &mut self.worker
        {
            worker.kill();
            self.kill_at = Some(Instant::now() + KILL_INTERVAL);
        }
        if is_due(self.answer_by) {
            self.answer_by = None;
            self.is_unconfirmed = true;
            self.log(
                "warning",
                "the metadata service does not answer: starting the worker again",
            );
            self.advance(Signal::Withdrawn);
        }
        if let Some(problem) = self.options.lock.as_mut().and_then(HeldLock::check) {
            self.log("error", &problem);
        }
        if is_due(self.identity_by) {
            self.log(
                "warning",
                "the machine's id is not known: resuming as if the last run was this machine's",
            );
            self.on_identity(true);
        }
        if is_due(self.spawn_at) {
            self.spawn_at = None;
            self.start_worker();
        }
        if is_due(self.checkpoint_at) {
            self.checkpoint_at = self.options.every.map(|every| Instant::now() + every);
            if self.checkpoint.is_none() {
                self.start_checkpoint(None, Instant::now().checked_add(COMMAND_TIME));
            }
        }
    }

    /// Handles the end of a worker that this program did not ask to end, or, once this program was
    /// asked to end, the end of all processes of the worker.
    pub(crate) fn on_own_end(&mut self, status: ExitStatus) {
        self.worker = None;
        // A checkpoint is complete only if the worker reports so and nobody asked it to end.
        if status.success()
            && self.ending.is_none()
            && let Some(Err(error)) = self.options.phase_file.as_ref().map(PhaseFile::remove)
        {
            self.log("warning", &format!("cannot remove the phase file: {error}"));
        }
        self.exit = Some(exit_code(status));
    }

    /// Handles the end of the worker and all of its processes.
    pub(crate) fn on_gone(&mut self, status: Option<ExitStatus>) {
        self.worker = None;
        self.stop = None;
        if let Some(status) = status {
            self.log("note", &format!("the worker has stopped ({status})"));
        }
        self.advance(Signal::Stopped);
        self.report_gone();
        if let Some(signal) = self.ending {
            self.exit = Some(status.map_or_else(|| exit_code_of_signal(signal), exit_code));
        } else if !self.has_started_event
            && (std::mem::take(&mut self.starts_again) || self.recovering.is_some())
        {
            self.advance(Signal::Withdrawn);
        }
    }

    fn report_gone(&mut self) {
        for reply in self.preparing.drain(..) {
            reply.prepared(Preparation::Ready, HookOutcome::Ready);
        }
    }

    /// Refuses the approval of this event, with the reason, if it is not allowed.
    fn may_approve(&self, event: &EventRecord, at_once: bool) -> Result<(), String> {
        if !self.options.approve {
            return Err("there is no --approve".to_owned());
        }
        if event
            .resources
            .as_ref()
            .is_some_and(|resources| resources.len() > 1)
        {
            return Err("it affects other machines, too, which may not be ready".to_owned());
        }
        if at_once {
            return Ok(());
        }
        if self.options.lock.as_ref().is_some_and(HeldLock::is_lost) {
            return Err("another process has replaced the lock, and may have a worker".to_owned());
        }
        if self.worker.is_some() || self.phase != Phase::Shutdown {
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

    /// Advances the phase, if the signal has a meaning in it.
    fn advance(&mut self, signal: Signal) {
        if let Some(next) = self.phase.next(signal) {
            self.enter(next);
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
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
        match phase {
            Phase::Recover => {
                self.run_before_worker(self.options.commands.resume.clone(), Signal::Recovered);
            }
            Phase::Resume => self.advance(Signal::Resumed),
            Phase::Warmup => {
                self.run_before_worker(self.options.commands.warmup.clone(), Signal::WarmedUp);
            }
            Phase::Processing => {
                self.checkpoint_at = self.options.every.map(|every| Instant::now() + every);
                if self.worker.is_none() {
                    self.start_worker();
                }
            }
            Phase::Evicted | Phase::Shutdown => {}
        }
    }

    /// Runs the warm-up or the resume command, or continues without it.
    fn run_before_worker(&mut self, command: Option<CommandLine>, without: Signal) {
        let Some(command) = command else {
            return self.advance(without);
        };
        let label = if self.phase == Phase::Recover {
            "resume"
        } else {
            "warm-up"
        };
        let deadline = Instant::now().checked_add(COMMAND_TIME);
        let event = self.recovered_event.as_ref();
        let purpose = Purpose {
            label,
            event,
            worker: None,
            deadline,
        };
        self.before_worker = Some(self.commands.start(&command, &purpose));
    }

    fn start_worker(&mut self) {
        let handle = self.handle();
        match Worker::start(&self.options.worker, move || {
            handle.send(RunMessage::WorkerEnded);
        }) {
            Ok(worker) => {
                self.log(
                    "note",
                    &format!("started the worker, process {}", worker.id()),
                );
                self.worker = Some(worker);
                self.spawn_failures.succeeded();
                self.recovered_event = None;
                if let Some(reply) = self.recovering.take() {
                    reply.recovered(HookOutcome::Done);
                }
            }
            Err(error) if is_temporary_spawn_error(&error) => {
                let reason = error.to_string();
                if self.spawn_failures.reports(&reason) {
                    self.log(
                        "warning",
                        &format!("the worker cannot be started yet: {reason}; this is tried again"),
                    );
                }
                self.spawn_at = Some(Instant::now() + RUN_SPAWN_RETRY);
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
        match self.recovering.take() {
            None => self.exit = Some(exit_code),
            Some(reply) => {
                // Until then the machine is out of service.
                self.stop = Some(Stop::new(None, self.options.grace));
                self.advance(Signal::Notice);
                self.on_gone(None);
                reply.recovered(HookOutcome::Failed);
            }
        }
    }

    pub(crate) fn start_checkpoint(
        &mut self,
        event: Option<&EventRecord>,
        deadline: Option<Instant>,
    ) {
        if let Some(command) = self.options.commands.checkpoint.clone() {
            let worker = self.worker.as_ref().map(Worker::id);
            let purpose = Purpose {
                label: "checkpoint",
                event,
                worker,
                deadline,
            };
            self.checkpoint = Some(self.commands.start(&command, &purpose));
        }
    }

    /// Whether the warm-up or the resume command still runs.
    pub(crate) fn runs_before_worker(&self) -> bool {
        self.before_worker.is_some()
    }

    /// Ends all commands that still run.
    fn end_commands(&self) {
        let stop = self.stop.as_ref().and_then(Stop::command);
        let all = [self.before_worker.as_ref(), self.checkpoint.as_ref(), stop]
            .into_iter()
            .flatten();
        end_all(&all.map(Started::running).collect::<Vec<_>>());
    }

    pub(crate) fn log(&self, label: &str, text: &str) {
        (self.options.log)(label, text);
    }
}

/// The type of an event, for the log.
fn kind(event: &EventRecord) -> &str {
    event.event_type.as_deref().unwrap_or("an event")
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
