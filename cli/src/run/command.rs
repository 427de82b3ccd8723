//! `run`: keeps an interruptible workload beside a watcher.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::record::Record;
use scheduled_events_core::spot::Phase;
use scheduled_events_core::{
    Action, Change, GatePhase, Reason, RequestOutcome, TrackedStatus, UnixSeconds,
};

use super::held_lock::HeldLock;
use super::lines::{Configured, Decided, announced, goes_on, kind};
use super::message::{Announcement, RunHandle};
use super::options::{RunCommands, RunOptions};
use super::phase_file::PhaseFile;
use super::policy::{ending_types, policy, with_advice};
use super::supervisor::Supervisor;
use crate::api_version::policy_warning;
use crate::args::{ConfigArgs, OnAdvice, RunArgs};
use crate::endpoint::connect;
use crate::error::CommandError;
use crate::output::format::{count, from_now};
use crate::output::{self, diagnose};
use crate::own_files::OwnFiles;
use crate::platform;
use crate::startup::{patiently, survive_size_limit};
use crate::systemd::{self, Supervisor as Systemd};
use crate::watch::printer::print_note;
use scheduled_events::failure_log::FailureLog;
use scheduled_events::files::check_path;
use scheduled_events::files::lock::FileLock;
use scheduled_events::hooks;
use scheduled_events::record::{EventRecord, TimedRecord, event_key};
use scheduled_events::state::StateFile;
use scheduled_events::watch::{
    GateReply, Host, Note, Poll, PrepareReply, RecoverReply, WatchStatus, Watcher,
};

/// Keeps the worker, and returns its exit code.
pub(crate) fn run(args: RunArgs) -> ExitCode {
    if hooks::is_first_process() {
        in_first_process()
    } else {
        exit_code(try_run(args))
    }
}

/// Restarts this program as a child, since this is the first process. Returns the child's exit
/// code.
pub(crate) fn in_first_process() -> ExitCode {
    exit_code(
        hooks::run_as_first_process(&platform::passed_on())
            .map_err(|error| CommandError::usage(format!("cannot start another process: {error}"))),
    )
}

fn exit_code(result: Result<u8, CommandError>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            diagnose("error", &error.message);
            ExitCode::from(error.exit_code)
        }
    }
}

/// Says what of the file is for a watcher, if a person may expect more of it.
fn note_unused(config: &ConfigArgs) {
    let commands = ["prepare", "recover", "gate", "on", "dry_run"];
    let unused = config.unused.iter().map(String::as_str);
    let unused: Vec<_> = unused.filter(|key| commands.contains(key)).collect();
    if let (false, Some(path)) = (unused.is_empty(), &config.config) {
        let text = format!(
            "`run` ignores what is for `watch` in {}: {}",
            path.display(),
            unused.join(", ")
        );
        diagnose("note", &text);
    }
}

fn try_run(args: RunArgs) -> Result<u8, CommandError> {
    let files = OwnFiles::default()
        .state(args.state.as_deref())
        .run(args.lock.as_deref(), args.state.as_deref());
    files
        .config(args.config.config.as_deref())
        .policy(args.policy.as_deref().unwrap_or_default())
        .check()?;
    note_unused(&args.config);
    let policy = policy(&args)?;
    if let Some(warning) = policy_warning(&policy, &args.service.api_version) {
        diagnose("warning", &warning);
    }
    let on_advice = args.on_advice();
    let policy = with_advice(policy, on_advice)?;
    let waits = policy.rules().iter().map(|rule| rule.prepare_before);
    let configured = Configured {
        waits: waits.collect(),
        by_stop_on: args.policy.is_none(),
        approve: args.approve,
        ignores_advice: args.on_advice == Some(OnAdvice::Ignore),
    };
    let ending_types = ending_types(&policy);
    let imds = connect(&args.service)?;
    survive_size_limit()?;
    let lock = args
        .lock
        .as_deref()
        .map(lock)
        .transpose()
        .map_err(CommandError::usage)?;
    let state = args
        .state
        .as_deref()
        .map(StateFile::open)
        .transpose()
        .map_err(CommandError::usage)?;
    let phase_file = args
        .state
        .as_deref()
        .map(PhaseFile::beside)
        .transpose()
        .map_err(CommandError::usage)?;
    let left = match (&state, &lock) {
        (Some((file, _)), _) => hooks::register_with(file),
        (None, Some(lock)) => hooks::register_commands(lock.commands()),
        (None, None) => 0,
    };
    if left > 0 {
        diagnose(
            "note",
            &format!(
                "ended {} that the last run left running",
                count(left, "process")
            ),
        );
    }
    patiently(output::start_writers)?;
    patiently(hooks::reserve_thread)?;
    let watcher = Watcher::builder()
        .imds(imds)
        .state(state)
        .api_version(args.service.api_version)
        .vm_names(args.machine.vm_name)
        // With `ignore`, it gets its line all the same, where other options ask for the version.
        .advice(on_advice != OnAdvice::Ignore)
        .policy(policy)
        .interval(args.interval)
        .asks_gate(true)
        .build()
        .map_err(CommandError::usage)?;
    let shared_phase = Arc::new(Mutex::new(Phase::Warmup));
    let in_phase = Arc::clone(&shared_phase);
    let was_started = Cell::new(false);
    let mut supervisor = Supervisor::new(RunOptions {
        worker: args.worker,
        grace: args.grace,
        every: args.every,
        commands: RunCommands {
            warmup: args.warmup,
            checkpoint: args.checkpoint,
            stop: args.stop_command,
            resume: args.resume,
        },
        approve: args.approve,
        lock: lock
            .zip(args.lock)
            .map(|(lock, path)| HeldLock::new(lock, path)),
        phase_file,
        state_file: args.state,
        log: diagnose,
        on_phase: Box::new(move |phase| {
            *in_phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
            // The watcher cannot do this: it may still wait for the metadata service.
            if phase == Phase::Processing
                && !was_started.replace(true)
                && platform::has_supervisor()
            {
                platform::notify_supervisor(true, Some(phase.word()), false);
            }
        }),
    });
    let host = RunHost::new(
        supervisor.handle(),
        shared_phase,
        ending_types,
        configured,
        on_advice,
    );
    let watcher_handle = watcher.handle();
    // A refused thread drops what it was given.
    let to_start = Arc::new(Mutex::new(Some((watcher, host))));
    let watching = patiently(|| {
        let given = Arc::clone(&to_start);
        let take = move || given.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread::Builder::new()
            .spawn(move || take().map(|(mut watcher, mut host)| watcher.run_with(&mut host)))
    })?;
    // Last: while the main thread waits for another one, a signal ends the process at once.
    patiently(|| {
        let handle = supervisor.handle();
        platform::on_passed_on_signal(move |signal| handle.signal(signal))
    })?;
    let code = supervisor.run();
    if platform::has_supervisor() {
        platform::notify_stopping();
    }
    watcher_handle.stop();
    // The watcher saves the state. A panic has been printed, and ends the shipped program.
    let _ = watching.join();
    // Not before: what the supervisor was asked for has not failed.
    drop(supervisor);
    output::flush_on_exit();
    Ok(code)
}

/// Locks the file of `--lock`, which must be empty or a lock file, since it is overwritten.
fn lock(path: &Path) -> Result<FileLock, String> {
    check_path(path).map_err(|error| format!("cannot use the lock {}: {error}", path.display()))?;
    FileLock::acquire_at(path, path, "lock").map_err(|error| error.to_string())
}

/// The host of the watcher: passes everything on to the supervisor, and reports to systemd.
struct RunHost {
    supervisor: RunHandle,
    /// The supervisor's phase.
    phase: Arc<Mutex<Phase>>,
    systemd: Systemd,
    /// The policy's decision about each event of this machine, in this run.
    decisions: HashMap<String, Decided>,
    configured: Configured,
    on_advice: OnAdvice,
    /// Advice that was first seen in this run, until a checkpoint is saved for it.
    advised: HashSet<String>,
    /// The event that this poll announced last, which is reported with its time.
    announced: Option<String>,
    /// The types of events that stop the worker even if they had started when they were first seen:
    /// those that end the machine.
    ending_types: Vec<&'static str>,
    /// The open events of these types that have started.
    started: HashSet<String>,
    poll_failures: FailureLog,
    /// The supervisor's knowledge whether events keep the worker from running.
    out_of_service: Option<bool>,
}

impl RunHost {
    fn new(
        supervisor: RunHandle,
        phase: Arc<Mutex<Phase>>,
        ending_types: Vec<&'static str>,
        configured: Configured,
        on_advice: OnAdvice,
    ) -> Self {
        Self {
            supervisor,
            phase,
            systemd: Systemd::new(),
            decisions: HashMap::new(),
            configured,
            on_advice,
            advised: HashSet::new(),
            announced: None,
            ending_types,
            started: HashSet::new(),
            poll_failures: FailureLog::default(),
            out_of_service: None,
        }
    }

    /// Whether an event of this type ends the machine, and with it the worker, even without a
    /// preparation.
    fn ends_machine(&self, kind: &str) -> bool {
        self.ending_types.contains(&kind)
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a decision means for the worker, unless the supervisor says it.
    fn decided(&mut self, event: EventRecord, now: UnixSeconds, decided: Decided) {
        let key = event_key(&event.event_id);
        let is_first = self.decisions.insert(key.clone(), decided).is_none();
        let line = match decided.reason {
            // Its change is reported.
            Reason::AlreadyStarted => None,
            Reason::Advice if self.on_advice == OnAdvice::Checkpoint => {
                if self.advised.remove(&key) {
                    self.supervisor.advised(event);
                    None
                } else {
                    let what = announced(&event, None);
                    is_first.then(|| format!("{what}: the last run did what is to be done"))
                }
            }
            _ => {
                let runs = self.phase() == Phase::Processing;
                goes_on(&event, now, decided, &self.configured, runs)
            }
        };
        if let Some(line) = line {
            diagnose("note", &line);
        }
    }

    /// Says how an event goes on.
    fn say_change(&mut self, change: Change, event: &EventRecord, now: UnixSeconds) {
        let kind = kind(event);
        let this = Some(event_key(&event.event_id));
        let what = match change {
            // Advice that has become an eviction changes in several ways at once.
            Change::Scheduled => return self.announced = this,
            Change::Rescheduled if self.announced == this => return,
            Change::Rescheduled => match event.not_before {
                Some(start) => format!("rescheduled, and may start {}", from_now(start, now)),
                None => "rescheduled, for an unknown time".to_owned(),
            },
            Change::Started if !self.ends_machine(kind) => "started".to_owned(),
            Change::AdviceWithdrawn => "withdrawn".to_owned(),
            change if change.is_end() => change.word().to_owned(),
            _ => return,
        };
        diagnose("note", &format!("{kind}: {what}"));
    }

    /// Reports an event that has started to the supervisor, once.
    fn started(&mut self, event: EventRecord) {
        if self.started.insert(event_key(&event.event_id)) {
            self.supervisor.started(event);
        }
    }
}

impl Host for RunHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        match &record.record {
            Record::Decision {
                action,
                rule,
                reason,
                event,
                ..
            } if event.mine == Some(true) => {
                let decided = Decided {
                    action: *action,
                    rule: *rule,
                    reason: *reason,
                };
                let event = EventRecord::from(event);
                self.decided(event, record.time, decided);
            }
            Record::Change {
                change: Change::StartedWithoutNotice,
                event,
            } if event.mine == Some(true) => {
                let event = EventRecord::from(event);
                let kind = kind(&event);
                if self.ends_machine(kind) {
                    self.started(event);
                } else {
                    diagnose(
                        "note",
                        &format!("{kind} had started when it was first seen: the worker goes on"),
                    );
                }
            }
            // The machine's own name may not be known yet.
            Record::Change {
                change: Change::Advised,
                event,
            } => {
                self.advised.insert(event_key(&event.event_id.to_string()));
            }
            Record::Change { change, event } if event.mine == Some(true) => {
                let event = EventRecord::from(event);
                self.say_change(*change, &event, record.time);
                if change.is_end() {
                    let key = event_key(&event.event_id);
                    self.decisions.remove(&key);
                    self.advised.remove(&key);
                }
            }
            Record::Approval {
                event_ids,
                status: Some(200..=299),
                ..
            } => {
                diagnose("note", &format!("approved {}", event_ids.join(", ")));
            }
            _ => {}
        }
    }

    /// Follows the events that have started and for which the worker was not stopped: because they
    /// were not announced, because the rule did not prepare for them yet, or because the last run
    /// reported them.
    fn polled(&mut self, poll: &Poll<'_>) {
        // Records of this poll follow.
        self.announced = None;
        if poll.outcome != RequestOutcome::Document {
            return;
        }
        let had_started = !self.started.is_empty();
        // If the machine is out of service, the worker is stopped for another event, or for this
        // one, which was announced.
        let out_of_service = poll.out_of_service();
        for event in poll
            .events()
            .filter(|event| !out_of_service && event.mine() == Some(true))
        {
            let decision = self.decisions.get(&event_key(event.event_id().as_str()));
            let was_due = decision.is_none_or(|decided| decided.action == Action::Prepare);
            if event.status() == TrackedStatus::Started
                && was_due
                && self.ends_machine(event.event_type())
            {
                self.started(EventRecord::of_tracked(event));
            }
        }
        let open: HashSet<_> = poll
            .events()
            .map(|event| event_key(event.event_id().as_str()))
            .collect();
        self.started.retain(|key| open.contains(key));
        if had_started && self.started.is_empty() {
            self.supervisor.over(out_of_service);
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::PollFailed(reason) if !self.poll_failures.reports(reason) => {}
            note => print_note(note),
        }
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        let start = reply
            .time_left()
            .and_then(|left| Instant::now().checked_add(left));
        self.supervisor.prepare(
            Announcement {
                event: event.clone(),
                start,
            },
            reply,
        );
    }

    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        self.supervisor.recover(events.first().cloned(), reply);
    }

    fn gate(&mut self, event: &EventRecord, reply: GateReply) {
        match reply.phase() {
            GatePhase::Prepare => reply.open(),
            GatePhase::Approve => {
                // A rule approves it without stopping the worker.
                let decided = self.decisions.get(&event_key(&event.event_id));
                let at_once = decided.is_some_and(|decided| decided.action == Action::Approve);
                self.supervisor.approve(event.clone(), at_once, reply);
            }
        }
    }

    fn cancel(&mut self, attempt: u32) {
        self.supervisor.cancel(attempt);
    }

    fn identified(&mut self, state_is_own: bool) {
        self.supervisor.identified(state_is_own);
    }

    fn heartbeat(&mut self, watch: WatchStatus<'_>) -> Option<Duration> {
        if watch.failure.is_none() && watch.answered {
            self.poll_failures.succeeded();
        }
        if watch.answered && self.out_of_service != Some(watch.out_of_service) {
            self.out_of_service = Some(watch.out_of_service);
            self.supervisor.answered(watch.out_of_service);
        }
        let phase = self.phase();
        // The supervisor's thread reports that the unit is ready, once the worker has started.
        self.systemd
            .heartbeat_of(watch, false, format!("{phase}; {}", systemd::status(watch)))
    }
}
