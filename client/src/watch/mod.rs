//! The watcher: polls the metadata service, reports changes, decides, prepares, approves and recovers.
//!
//! Core's [`Session`] makes every decision. This folder gives it what it does not have: a clock, HTTP, a state file, and a host
//! that acts. Start with [`Watcher::builder`]; implement [`Host`] to act on the watcher's thread; [`Poller`] only reads.

// Read it in this order:
//
// * `builder`: how a watcher is configured. `functions`: the functions that it may be given.
// * `host`: the trait that a caller may implement instead, and the notes for its log. `reply`: how it answers.
// * `message`: how other threads report to the watcher.
// * this file: `Watcher`, the loop that does what the session says. `incoming`: what it does with the answers that other threads
//   send.
// * `poller`: its requests, for a program that only looks.
// * `error`: why there is none. `transport`, `name`, `identity`, `persistence`, `sight`: its parts. Each has one responsibility and knows none of the others.

mod builder;
mod error;
mod functions;
mod host;
mod identity;
mod incoming;
mod message;
mod name;
mod persistence;
mod poller;
mod reply;
mod sight;
mod transport;

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::record::EventMembers;
use scheduled_events_core::{
    Report, Session, SessionConfig, SessionConfigError, UnixMillis, UnixSeconds,
};

use crate::clock::{Clock, ClockMonitor};
use crate::failure_log::FailureLog;
use crate::imds::{Imds, names_for};
use crate::limits::{EVENTS_MAX, NAME_TIMEOUT, POLLING_OVERDUE, REQUEST_OVERDUE};
use crate::platform;
use crate::record::{EventRecord, HookOutcome, Record};
use crate::session::{EventRecords, GateAnswers, OwnedStep, with_report};
use crate::state::{LoadResult, PendingHook, StateFile};

pub use builder::WatcherBuilder;
pub use error::WatcherError;
pub use functions::Task;
pub use host::{Host, Note, Poll, Severity, WatchStatus};
pub use message::{Completion, WatcherHandle};
pub use poller::{Polled, Poller};
pub use reply::{GateReply, PrepareReply, RecoverReply};

use builder::Options;
use functions::Functions;
use identity::MachineId;
use message::Message;
use name::MachineName;
use persistence::Persistence;
use sight::SightMonitor;
use transport::Transport;

/// Why a watcher stopped.
///
/// ```
/// use scheduled_events::watch::{StopReason, Watcher};
/// # use scheduled_events_replay::{Scenario, Server, ServerConfig};
/// # let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// # let endpoint = server.url();
///
/// let reason = Watcher::builder().endpoint(endpoint).max_polls(Some(1)).build()?.run();
/// assert_eq!(reason, StopReason::PollsDone { answered: true });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// An event was seen, and none is left.
    Idle,
    /// The requested number of polls is done.
    PollsDone {
        /// Whether at least one was answered with a document.
        answered: bool,
    },
    /// It was stopped through its handle.
    Stopped,
}

/// Watches one machine: a session with all that it needs around it.
///
/// A program that prepares takes two functions, or implements [`Host`] and calls [`run_with`](Self::run_with).
///
/// ```
/// use scheduled_events::watch::{StopReason, Watcher};
/// use scheduled_events_core::{Action, Policy, Rule};
/// # use scheduled_events_replay::{Scenario, Server, ServerConfig};
/// # let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?).speed(60.0))?;
/// # let endpoint = server.url();
///
/// let mut watcher = Watcher::builder()
///     .endpoint(endpoint) // without this, the service of every Azure machine
///     .policy(Policy::new(&[Rule::new(Action::Prepare)])?)
///     .prepare(|task| {
///         println!("draining for {}", task.event().event_id);
///         Ok(())
///     })
///     .recover(|_| Ok(println!("back in service")))
///     .on_record(|record| println!("{record}"))
///     .until_idle(true)
///     .build()?;
/// let handle = watcher.handle(); // on any thread, `handle.stop()` ends it
/// assert_eq!(watcher.run(), StopReason::Idle);
/// # drop(handle);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watcher {
    session: Box<Session<EVENTS_MAX>>,
    options: Options,
    functions: Functions,
    clock: ClockMonitor,
    transport: Transport,
    name: MachineName,
    events: EventRecords,
    persistence: Persistence,
    sight: SightMonitor,
    polls: Polls,
    /// The bytes of the newest document, which the offsets of problems refer to.
    body: Vec<u8>,
    /// The newest attempt to recover this machine.
    recovery: Option<u32>,
    /// Which answers of the gate were reported.
    gate_answers: GateAnswers,
    /// The attempts that the host works on.
    running: HashSet<u32>,
    machine_id: MachineId,
    id_unknown_noted: bool,
    /// Whether it was said that there is no advice, or that it cannot be seen.
    no_advice_noted: bool,
    /// Stale documents since the last new one.
    stale: FailureLog,
    /// What reading and writing the state file has to say, until there is a host.
    start_notes: Vec<Note>,
    messages: Receiver<Message>,
    sender: Sender<Message>,
}

/// The polls of this run.
#[derive(Default)]
struct Polls {
    started: u64,
    /// Whether one was answered with a document.
    answered: bool,
    /// Why the last one failed, if it did.
    failure: Option<String>,
}

impl Watcher {
    /// The configuration of a watcher, which makes it.
    pub fn builder() -> WatcherBuilder {
        WatcherBuilder::new()
    }

    fn new(
        imds: Imds,
        options: Options,
        state_file: Option<(StateFile, LoadResult)>,
        functions: Functions,
    ) -> Result<Self, WatcherError> {
        let session = new_session(&options)?;
        let (sender, messages) = mpsc::channel();
        let clock = ClockMonitor::new(Clock::at_speed(imds.speed()));
        let transport = Transport::new(imds.clone(), sender.clone());
        let machine_id = MachineId::new(state_file.as_ref().map(|_| imds.clone()), sender.clone());
        let name = MachineName::new(
            options.vm_names.clone(),
            options.api_version.clone(),
            imds,
            sender.clone(),
        );
        let sight = SightMonitor::new(options.interval);
        let mut watcher = Self {
            session,
            options,
            functions,
            clock,
            transport,
            name,
            events: EventRecords::default(),
            persistence: Persistence::default(),
            sight,
            polls: Polls::default(),
            body: Vec::new(),
            recovery: None,
            gate_answers: GateAnswers::default(),
            running: HashSet::new(),
            machine_id,
            id_unknown_noted: false,
            no_advice_noted: false,
            stale: FailureLog::default(),
            start_notes: Vec::new(),
            messages,
            sender,
        };
        if let Some((file, loaded)) = state_file {
            let (events, note) =
                watcher
                    .persistence
                    .restore(&mut watcher.session, &file, loaded)?;
            watcher.events = events;
            watcher.start_notes.extend(note);
            // A dry run does nothing, so a later run must not find it done.
            if !watcher.options.dry_run {
                let note = watcher.persistence.write_to(
                    file,
                    &mut watcher.session,
                    &watcher.events,
                    &watcher.clock,
                )?;
                watcher.start_notes.extend(note);
            }
        }
        Ok(watcher)
    }

    /// A handle that stops this watcher from another thread.
    pub fn handle(&self) -> WatcherHandle {
        WatcherHandle(self.sender.clone())
    }

    /// Watches until there is a reason to stop, and calls the functions of the builder.
    pub fn run(&mut self) -> StopReason {
        let mut functions = std::mem::take(&mut self.functions);
        let reason = self.run_with(&mut functions);
        self.functions = functions;
        reason
    }

    /// Watches until there is a reason to stop, with this host in the place of the functions. [`PrepareReply`] has an example with
    /// a whole event.
    ///
    /// ```
    /// use scheduled_events::watch::{Host, StopReason, Watcher};
    ///
    /// struct Observer;
    /// impl Host for Observer {}
    ///
    /// let mut watcher = Watcher::builder().endpoint("http://127.0.0.1:9").build()?;
    /// watcher.handle().stop();
    /// assert_eq!(watcher.run_with(&mut Observer), StopReason::Stopped);
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn run_with(&mut self, host: &mut dyn Host) -> StopReason {
        for note in std::mem::take(&mut self.start_notes) {
            host.note(&note);
        }
        self.report_sight(host);
        let reason = self.watch(host);
        self.persistence.retry_now();
        self.save(host);
        self.persistence.remove_sight();
        reason
    }

    fn watch(&mut self, host: &mut dyn Host) -> StopReason {
        if let Some(reason) = self.await_identity(host) {
            return reason;
        }
        for hook in self.persistence.take_hooks() {
            self.start_hook(hook, host);
        }
        loop {
            if let Some(reason) = self.step(host) {
                return reason;
            }
        }
    }

    /// Requests the machine's own name and its id once before the first poll, so that the first decision already knows which
    /// events are its own, and whose state was restored.
    fn await_identity(&mut self, host: &mut dyn Host) -> Option<StopReason> {
        let mut awaited = 0;
        if !self.name.is_known() {
            self.name.request();
            awaited += 1;
        }
        awaited += u32::from(self.machine_id.request());
        // A look-up of the service's host name can take longer than the request's timeout.
        let deadline = Instant::now() + NAME_TIMEOUT + REQUEST_OVERDUE;
        while awaited > 0 {
            let Ok(message) = self
                .messages
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            else {
                // Not answered: polling starts, and the request for the name is repeated until it is.
                if !self.name.is_known() {
                    self.name
                        .on_silence()
                        .into_iter()
                        .for_each(|note| host.note(&note));
                }
                break;
            };
            awaited -= u32::from(matches!(message, Message::Name(_) | Message::MachineId(_)));
            if let Some(reason) = self.on_message(message, host) {
                return Some(reason);
            }
        }
        None
    }

    /// Does what the session says next, or waits. Returns why the watcher stops, if it does.
    fn step(&mut self, host: &mut dyn Host) -> Option<StopReason> {
        // All messages at once, so that many commands that end together cause one write of the state file.
        while let Ok(message) = self.messages.try_recv() {
            if let Some(reason) = self.on_message(message, host) {
                return Some(reason);
            }
        }
        let wake_within = self.heartbeat(host);
        // Checked before the next poll, which is already due if the last response was slow.
        if self.options.until_idle && self.is_idle() {
            return Some(StopReason::Idle);
        }
        self.check_clock(host);
        let now = self.clock.clock.now();
        let step = OwnedStep::new(self.session.take_step(now), |event| self.events.of(event));
        // The last poll may be so long ago that the next one is due without a wait.
        if matches!(step, OwnedStep::Get { .. }) && self.polls_done() {
            return Some(self.finish(host));
        }
        if step.is_stored_first() {
            self.save(host);
        }
        match step {
            OwnedStep::Report(report) => self.on_report(report, host),
            OwnedStep::Prepare {
                event,
                by_last_call,
                attempt,
            } => {
                self.report(
                    &event,
                    |event| Record::Prepare {
                        outcome: HookOutcome::Begun,
                        attempt: Some(attempt),
                        event,
                    },
                    host,
                );
                let time_left = time_left(event.not_before, self.clock.time_of_day());
                let (id, sender) = self.begin(attempt, &event);
                host.prepare(
                    &event,
                    PrepareReply::new(attempt, id, by_last_call, time_left, sender),
                );
            }
            OwnedStep::Recover {
                events,
                own,
                attempt,
            } => {
                let (id, sender) = self.begin(attempt, &events[0]);
                let reply = RecoverReply::new(attempt, id, sender);
                self.recovery = own.then_some(attempt).or(self.recovery);
                if self.options.dry_run {
                    reply.report(HookOutcome::DryRun);
                } else {
                    host.recover(&events, reply);
                }
            }
            OwnedStep::Gate {
                event,
                phase,
                attempt,
            } => {
                let (id, sender) = self.begin(attempt, &event);
                host.gate(&event, GateReply::new(attempt, id, phase, sender));
            }
            OwnedStep::Cancel { attempt } => host.cancel(attempt),
            OwnedStep::Get {
                api_version,
                timeout_ms,
            } => {
                self.polls.started += 1;
                let timeout = self.options.request_timeout(timeout_ms);
                let repeat_version = self.session.repeat_version().to_owned();
                self.transport.get(api_version, repeat_version, timeout);
            }
            OwnedStep::Post {
                body,
                api_version,
                timeout_ms,
            } => {
                host.before_approval();
                let timeout = self.options.request_timeout(timeout_ms);
                self.transport.post(api_version, body, timeout);
            }
            OwnedStep::Wait { until } => return self.wait(until, wake_within, host),
        }
        None
    }

    /// Records that the host works on the attempt from now on. Returns what its reply needs.
    fn begin(&mut self, attempt: u32, event: &EventRecord) -> (String, Sender<Message>) {
        self.running.insert(attempt);
        (event.event_id.clone(), self.sender.clone())
    }

    /// Waits for a message, until the session or somebody else has something to do.
    fn wait(
        &mut self,
        until: UnixMillis,
        wake_within: Option<Duration>,
        host: &mut dyn Host,
    ) -> Option<StopReason> {
        self.events.retain_tracked(&self.session);
        if !self.session.awaits_answer() && self.polls_done() {
            return Some(self.finish(host));
        }
        if self.transport.repeat() {
            host.note(&Note::NoAnswerYet);
        }
        if !self.no_advice_noted && self.session.advice_unseen_since().is_some() {
            self.no_advice_noted = true;
            host.note(&Note::AdviceUnseen);
        }
        let clock = self.clock.clock;
        let wait = clock.real(Duration::from_millis(until.millis_since(clock.now())));
        let wait = [
            self.name.retry(),
            self.machine_id.retry(),
            wake_within,
            self.transport.check(),
        ]
        .into_iter()
        .flatten()
        .fold(wait, Duration::min);
        match self.messages.recv_timeout(wait) {
            Ok(message) => self.on_message(message, host),
            // The watcher holds a sender itself, so the channel stays open.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// All polls are done: waits for what the host still runs. Nothing else is started.
    fn finish(&mut self, host: &mut dyn Host) -> StopReason {
        while self.persistence.has_hooks() || !self.running.is_empty() {
            let wait = self.heartbeat(host).unwrap_or(Duration::from_secs(3600));
            let Ok(message) = self.messages.recv_timeout(wait) else {
                continue;
            };
            if let Some(reason) = self.on_message(message, host) {
                return reason;
            }
        }
        StopReason::PollsDone {
            answered: self.polls.answered,
        }
    }

    fn on_report(&mut self, report: Report<EventRecord>, host: &mut dyn Host) {
        self.no_advice_noted |= matches!(report, Report::NoAdvice);
        with_report(&report, Some(&self.body), |record| {
            self.emit(&record, host);
        });
        if let Report::Change { change, event } = report {
            self.start_hook(PendingHook { change, event }, host);
        }
    }

    /// Reports a record about an event.
    fn report(
        &self,
        event: &EventRecord,
        record: impl for<'a> FnOnce(EventMembers<'a>) -> Record<'a>,
        host: &mut dyn Host,
    ) {
        let names = event.resource_names();
        self.emit(&record(event.members(names.as_deref())), host);
    }

    /// Passes a record on, with the time and this machine's name.
    fn emit(&self, record: &Record<'_>, host: &mut dyn Host) {
        let record = record.at(self.time_of_day());
        host.record(&record.of_machine(self.name.first(), self.machine_id.known()));
    }

    fn start_hook(&mut self, hook: PendingHook, host: &mut dyn Host) {
        // A dry run only reports.
        if self.options.dry_run {
            return;
        }
        let number = self.persistence.next_hook();
        let completion = Completion::new(number, self.sender.clone());
        let left = time_left(hook.event.not_before, self.clock.time_of_day());
        let started = host.changed(hook.change, &hook.event, left, completion);
        self.persistence
            .change_reported(number, started.then_some(hook));
    }

    /// Says once that the wall clock was set too far to be believed.
    fn check_clock(&mut self, host: &mut dyn Host) {
        if self.clock.newly_rejects_step() {
            host.note(&Note::ClockStepIgnored);
        }
    }

    /// Passes the time of day on to the session. Returns the time now.
    fn set_time(&mut self) -> UnixMillis {
        self.session.set_time_of_day_ahead(self.clock.ahead_ms());
        self.clock.clock.now()
    }

    /// The time for records, by the service's clock where it is known: they have the times of events, too.
    fn time_of_day(&self) -> UnixSeconds {
        self.clock.time_of_day().seconds()
    }

    fn heartbeat(&mut self, host: &mut dyn Host) -> Option<Duration> {
        self.check_sight(host);
        let wake_within = host.heartbeat(WatchStatus {
            answered: self.polls.answered,
            blind_since: self.sight.blind_since(),
            blind_for: self.sight.blind_for(),
            clock_offset_seconds: self.clock.offset_seconds(),
            events: self.events.len(),
            failure: self.polls.failure.as_deref(),
            // Once all polls are done, only hooks are waited for.
            is_polling: self.polls_done()
                || self.transport.idle_time() < self.options.interval + POLLING_OVERDUE,
            out_of_service: self.session.out_of_service_since().is_some(),
            open_failures: self.session.open_failures(),
            save_failures: self.persistence.failed_saves(),
            is_unsaved: self.persistence.is_failing(),
        });
        // Once all polls are done, no document is expected.
        let check = self.sight.check_in().filter(|_| !self.polls_done());
        let report = self.persistence.has_file().then(|| self.sight.report_in());
        [wake_within, check, report].into_iter().flatten().min()
    }

    /// Says once that no document arrives, and reports it beside the state file.
    fn check_sight(&mut self, host: &mut dyn Host) {
        let now = self.clock.time_of_day();
        // Once all polls are done, no document is expected.
        if !self.polls_done()
            && let Some(note) = self.sight.check(self.polls.failure.as_deref(), now)
        {
            host.note(&note);
        }
        self.report_sight(host);
    }

    fn report_sight(&mut self, host: &mut dyn Host) {
        if !self.persistence.has_file() {
            return;
        }
        let cause = self.polls.failure.as_deref();
        let now = self.clock.clock.now();
        let unseen = self.session.advice_unseen_since();
        let unseen = unseen.map(|since| Duration::from_millis(now.millis_since(since)));
        let report = self.sight.report(cause, unseen, self.clock.time_of_day());
        if let Some(note) = report.and_then(|report| self.persistence.report_sight(&report)) {
            host.note(&note);
        }
    }

    fn save(&mut self, host: &mut dyn Host) {
        if let Some(note) = self
            .persistence
            .save(&mut self.session, &self.events, &self.clock)
        {
            host.note(&note);
        }
    }

    fn is_idle(&self) -> bool {
        !self.session.awaits_answer()
            && self.session.is_idle()
            && self.session.has_seen_event()
            && !self.persistence.has_hooks()
    }

    fn polls_done(&self) -> bool {
        self.options
            .max_polls
            .is_some_and(|max| self.polls.started >= max)
    }
}

/// Makes the session on a stack of its own. It is large and passes through the stack more than once; a thread gives its stack
/// back.
fn new_session(options: &Options) -> Result<Box<Session<EVENTS_MAX>>, SessionConfigError> {
    let names: Vec<&str> = options.vm_names.iter().map(String::as_str).collect();
    let boot_id = platform::boot_id();
    let config = SessionConfig {
        policy: options.policy.clone(),
        interval_ms: u32::try_from(options.interval.as_millis()).unwrap_or(u32::MAX),
        dry_run: options.dry_run,
        gate: options.gate,
        last_call: options.last_call,
        prepare_retries: options.prepare_retries,
        recover_all: options.recover_all,
        seed: seed(),
        machine_id: "",
        boot_id: &boot_id,
        api_version: options.version(),
        ..SessionConfig::new(names_for(&names, &options.api_version))
    };
    thread::scope(|scope| {
        match thread::Builder::new().spawn_scoped(scope, || boxed_session(&config)) {
            Ok(maker) => maker.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // The system refuses another thread.
            Err(_) => boxed_session(&config),
        }
    })
}

// A function that it is inlined into would need the stack for it, too.
#[inline(never)]
fn boxed_session(
    config: &SessionConfig<'_>,
) -> Result<Box<Session<EVENTS_MAX>>, SessionConfigError> {
    Session::new(config).map(Box::new)
}

fn time_left(not_before: Option<UnixSeconds>, now: UnixMillis) -> Option<Duration> {
    not_before.map(|start| Duration::from_millis(UnixMillis::from(start).millis_since(now)))
}

/// A random number for [`SessionConfig::seed`] and [`Tracker::with_seed`](scheduled_events_core::Tracker::with_seed): it spreads
/// retries over time, and ids over the tracker's table.
///
/// ```
/// use scheduled_events_core::Tracker;
///
/// let tracker = Tracker::<16>::with_seed(scheduled_events::watch::seed());
/// assert_eq!(tracker.len(), 0);
/// ```
pub fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
