//! `Watch`: the client's watcher on its own thread, whose records Python fetches.
//!
//! That thread never takes the interpreter's lock and never waits for Python, so a busy interpreter, a reader that stopped, or a
//! log that blocks delays no poll and no approval. Records, tasks and messages for the log have a way of their own each.

mod records;

use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use scheduled_events::clock::Clock;
use scheduled_events::imds::{AUTO_API_VERSION, names_for};
use scheduled_events::record::{EventRecord, HookOutcome, Record, TimedRecord};
use scheduled_events::watch::{
    Completion, GateReply, Host, Note, PrepareReply, RecoverReply, Severity, StopReason, Watcher,
    WatcherHandle,
};
use scheduled_events_core::{Change, GatePhase, Session, SessionConfig, VmNames};

use crate::convert::{Arg, Names, gate_answer, span};
use crate::document::event::{PyEvent, event_object};
use crate::errors;
use crate::imds::{PyImds, SLICE};
use crate::policy::{PyPolicy, last_call_of};
use crate::words::{self, Fields};
use records::{Next, Records, Unread, UnreadKind};

/// The most messages that wait to be logged. Beyond it they are lost.
const LOG_MAX: usize = 1024;

/// A running watcher, for the package's Watch.
#[pyclass(frozen, name = "Watch", module = "scheduled_events._native")]
pub(crate) struct PyWatch {
    handle: WatcherHandle,
    records: Arc<Records>,
    tasks: Mutex<Receiver<TaskMessage>>,
    log: Mutex<Receiver<LogMessage>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Why the last poll failed.
    cause: Mutex<Option<String>>,
    endpoint: String,
    /// The process that runs the watcher. A process that is forked from it has this object, but not its thread.
    process: u32,
}

/// What the functions of the caller are called for.
enum TaskMessage {
    Task(PyTask),
    /// The task of this attempt is void.
    Cancel(u32),
}

/// A log level, or 0 for a line of the trace, and a message.
type LogMessage = (u8, String);

/// Ends the records when the watcher's thread ends, also if it panics.
struct EndOfRecords(Arc<Records>);

impl Drop for EndOfRecords {
    fn drop(&mut self) {
        self.0.end(None);
    }
}

#[pymethods]
impl PyWatch {
    #[new]
    #[pyo3(signature = (imds, *, policy, vm_names, api_version, interval, until_idle, max_polls, dry_run,
                        last_call, prepare_retries, recover_all, state, prepares, recovers, gates))]
    #[allow(clippy::fn_params_excessive_bools)] // Python passes them by name.
    fn new(
        py: Python<'_>,
        imds: &Bound<'_, PyImds>,
        policy: Option<&Bound<'_, PyAny>>,
        vm_names: Option<Names>,
        api_version: Option<Arg<String>>,
        interval: Arg<f64>,
        until_idle: Arg<bool>,
        max_polls: Option<Arg<u64>>,
        dry_run: Arg<bool>,
        last_call: Option<&Bound<'_, PyAny>>,
        prepare_retries: Option<Arg<u32>>,
        recover_all: Arg<bool>,
        state: Option<Arg<PathBuf>>,
        prepares: bool,
        recovers: bool,
        gates: bool,
    ) -> PyResult<Self> {
        let (log_sender, log) = mpsc::sync_channel(LOG_MAX);
        let trace = log_sender.clone();
        let transport = imds.get().for_watcher(move |line| {
            let _ = trace.try_send((TRACE, line));
        });
        let dry_run = dry_run.0;
        let api_version = version_of(api_version);
        let vm_names = vm_names.unwrap_or_default().0;
        let policy = PyPolicy::named(policy)?;
        let interval = span(py, interval.0, "interval")?;
        let last_call = last_call_of(last_call)?;
        check(&vm_names, &api_version, interval).map_err(|error| errors::config(py, &error))?;
        let endpoint = transport.endpoint().to_owned();
        let mut builder = Watcher::builder()
            .imds(transport)
            .api_version(api_version)
            .vm_names(vm_names)
            .policy(policy)
            .interval(interval)
            .dry_run(dry_run)
            .asks_gate(gates)
            .last_call(last_call)
            .prepare_retries(prepare_retries.map(|retries| retries.0))
            .recover_all(recover_all.0)
            .until_idle(until_idle.0)
            .max_polls(max_polls.map(|polls| polls.0))
            .timeout(imds.get().timeout);
        if let Some(path) = state {
            builder = builder.state_file(path.0);
        }
        // A session is built on the stack, and the stack of a thread is freed with it.
        let builder = thread::Builder::new().spawn(move || builder.build())?;
        let built = py.detach(|| builder.join());
        let watcher = built
            .map_err(|_| PyRuntimeError::new_err("the thread that builds the watcher panicked"))?;
        let mut watcher = watcher.map_err(|error| errors::state(py, &error.to_string()))?;
        let handle = watcher.handle();
        let records = Arc::<Records>::default();
        let (task_sender, tasks) = mpsc::channel();
        let mut host = PyHost {
            records: Arc::clone(&records),
            tasks: task_sender,
            log: log_sender,
            change: None,
            prepares,
            recovers,
            dry_run,
        };
        let end = EndOfRecords(Arc::clone(&records));
        let thread = thread::Builder::new()
            .name("scheduled-events-watch".into())
            .spawn(move || {
                let end = end;
                let reason = watcher.run_with(&mut host);
                // Unlock the state file before the end is reported.
                drop((watcher, host));
                end.0.end(Some(reason));
            })?;
        Ok(Self {
            handle,
            records,
            tasks: Mutex::new(tasks),
            log: Mutex::new(log),
            thread: Mutex::new(Some(thread)),
            cause: Mutex::default(),
            endpoint,
            process: process::id(),
        })
    }

    /// Refuses what a watcher would refuse, without a watcher.
    #[staticmethod]
    fn check(
        py: Python<'_>,
        policy: Option<&Bound<'_, PyAny>>,
        vm_names: Option<Names>,
        api_version: Option<Arg<String>>,
        interval: Arg<f64>,
        last_call: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        PyPolicy::named(policy)?;
        let interval = span(py, interval.0, "interval")?;
        last_call_of(last_call)?;
        let vm_names = vm_names.unwrap_or_default().0;
        check(&vm_names, &version_of(api_version), interval)
            .map_err(|error| errors::config(py, &error))
    }

    /// Returns the next record; None at the end, or if there is none yet and it does not wait. A change that is returned counts as
    /// reported.
    fn next<'py>(&self, py: Python<'py>, wait: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_elsewhere() {
            return Err(errors::base(
                py,
                "the watcher belongs to the parent process; start one after the fork",
            ));
        }
        let span = if wait { SLICE } else { Duration::ZERO };
        loop {
            match py.detach(|| self.records.next(span)) {
                Next::Record(unread) => return self.read(py, unread).map(Some),
                Next::Dropped(count) => {
                    return words::class(py, "Dropped")?.call1((count,)).map(Some);
                }
                Next::Ended(StopReason::PollsDone { answered: false }) => {
                    let cause = self
                        .cause
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                    let cause = cause.as_deref().unwrap_or("no-document");
                    let message =
                        format!("no poll of {} returned a document: {cause}", self.endpoint);
                    let status = cause
                        .split_once("status-")
                        .and_then(|(_, status)| status.parse().ok());
                    return Err(errors::no_response(py, &message, cause, status));
                }
                Next::Nothing if wait => py.check_signals()?,
                Next::Ended(_) | Next::Nothing => return Ok(None),
                Next::Over => {
                    let joined = self
                        .thread
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                    return match joined.map(|thread| py.detach(|| thread.join())) {
                        Some(Err(_)) => Err(PyRuntimeError::new_err("the watcher panicked")),
                        _ => Ok(None),
                    };
                }
            }
        }
    }

    /// Waits until more records than `seen` were added, and returns their number; None once none follows.
    fn wait(&self, py: Python<'_>, seen: u64) -> Option<u64> {
        if self.is_elsewhere() {
            return None;
        }
        loop {
            match py.detach(|| self.records.wait(seen, SLICE * 20)) {
                Some(added) if added == seen => {}
                added => return added,
            }
        }
    }

    /// Whether no record follows those that were not read.
    #[getter]
    fn has_ended(&self) -> bool {
        self.records.has_ended()
    }

    /// Returns the next message for the log, with its level, or 0 for the trace; None when the watcher has ended.
    fn message(&self, py: Python<'_>) -> Option<LogMessage> {
        if self.is_elsewhere() {
            return None;
        }
        py.detach(|| {
            self.log
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv()
                .ok()
        })
    }

    /// Returns the next preparation, recovery or question to the gate, or the number of an attempt that is void; None when the
    /// watcher has ended.
    fn task<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_elsewhere() {
            return Ok(None);
        }
        match py.detach(|| {
            self.tasks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv()
        }) {
            Ok(TaskMessage::Task(task)) => Ok(Some(Bound::new(py, task)?.into_any())),
            Ok(TaskMessage::Cancel(attempt)) => Ok(Some(attempt.into_pyobject(py)?.into_any())),
            Err(_) => Ok(None),
        }
    }

    /// Stops the watcher and waits until its state is saved.
    fn close(&self, py: Python<'_>) {
        if self.is_elsewhere() {
            return;
        }
        self.handle.stop();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            py.detach(|| drop(thread.join()));
        }
    }
}

impl PyWatch {
    fn read<'py>(&self, py: Python<'py>, unread: Unread) -> PyResult<Bound<'py, PyAny>> {
        let Unread { record, kind } = unread;
        match kind {
            UnreadKind::Change(completion) => {
                let change = record.record(py)?;
                completion.complete();
                Ok(change)
            }
            UnreadKind::PollFailed { cause, repeated } => {
                *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
                record.with("repeated", repeated).record(py)
            }
            UnreadKind::Other => record.record(py),
        }
    }

    fn is_elsewhere(&self) -> bool {
        self.process != process::id()
    }
}

impl Drop for PyWatch {
    fn drop(&mut self) {
        if !self.is_elsewhere() {
            self.handle.stop();
        }
    }
}

/// The API version of the requests, or the word for its choice.
fn version_of(argument: Option<Arg<String>>) -> String {
    argument.map_or_else(|| AUTO_API_VERSION.to_owned(), |version| version.0)
}

/// Checks the options that a session would refuse.
fn check(vm_names: &[String], api_version: &str, interval: Duration) -> Result<(), String> {
    let names: Vec<&str> = vm_names.iter().map(String::as_str).collect();
    let interval_ms = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
    let names = if names.is_empty() {
        VmNames::UNKNOWN
    } else {
        names_for(&names, api_version)
    };
    match Session::<1>::new(&SessionConfig {
        interval_ms,
        ..SessionConfig::new(names)
    }) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// What Python does for the watcher: a preparation, a recovery, or an answer of the gate.
#[pyclass(frozen, name = "Task", module = "scheduled_events._native")]
pub(crate) struct PyTask {
    kind: TaskKind,
    attempt: u32,
    /// The JSON objects of the events, the one that it is about first.
    objects: Vec<String>,
    reply: Mutex<Option<TaskReply>>,
}

/// What a task is answered through.
enum TaskReply {
    Preparation(PrepareReply),
    Recovery(RecoverReply),
    Gate(GateReply),
}

#[derive(Clone, Copy)]
enum TaskKind {
    Preparation,
    Recovery,
    Gate(GatePhase),
}

#[pymethods]
impl PyTask {
    /// ``preparation``, ``recovery`` or ``gate``.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.kind {
            TaskKind::Preparation => "preparation",
            TaskKind::Recovery => "recovery",
            TaskKind::Gate(_) => "gate",
        }
    }

    /// The number of the attempt, by which it is cancelled.
    #[getter]
    fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The events, the one that it is about first.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Vec<PyEvent>> {
        self.objects
            .iter()
            .map(|object| PyEvent::from_object(py, object.as_bytes()))
            .collect()
    }

    /// What the gate is asked: ``prepare`` or ``approve``.
    #[getter]
    fn phase(&self) -> Option<&'static str> {
        match self.kind {
            TaskKind::Gate(phase) => Some(phase.word()),
            TaskKind::Preparation | TaskKind::Recovery => None,
        }
    }

    /// Reports whether it succeeded; of a gate, whether it is open. A preparation that did not is tried again if `retry` says
    /// so. Only the first report counts.
    fn complete(&self, success: bool, retry: bool) {
        let Some(reply) = self.take_reply() else {
            return;
        };
        match (reply, success) {
            (TaskReply::Preparation(reply), true) => reply.ready(),
            (TaskReply::Preparation(reply), false) if retry => reply.failed(),
            (TaskReply::Preparation(reply), false) => reply.abandoned(),
            (TaskReply::Recovery(reply), true) => reply.done(),
            (TaskReply::Recovery(reply), false) => reply.failed(),
            (TaskReply::Gate(reply), true) => reply.open(),
            (TaskReply::Gate(reply), false) => reply.closed(),
        }
    }

    /// Reports the answer of a gate. Raises ValueError for what is no answer, and then reports nothing.
    fn answer(&self, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let answer = gate_answer(answer)?;
        if let TaskKind::Gate(_) = self.kind
            && let Some(TaskReply::Gate(reply)) = self.take_reply()
        {
            reply.report(answer);
        }
        Ok(())
    }

    /// Reports nothing: whether it succeeded is unknown, and a restart repeats it.
    fn abandon(&self) {
        match self.take_reply() {
            Some(TaskReply::Preparation(reply)) => reply.leave_open(),
            Some(TaskReply::Recovery(reply)) => reply.leave_open(),
            Some(TaskReply::Gate(reply)) => reply.leave_open(),
            None => {}
        }
    }
}

impl PyTask {
    fn take_reply(&self) -> Option<TaskReply> {
        self.reply
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Drop for PyTask {
    fn drop(&mut self) {
        self.complete(false, true);
    }
}

/// The watcher's host: passes records, tasks and messages for the log to Python.
struct PyHost {
    records: Arc<Records>,
    tasks: Sender<TaskMessage>,
    log: SyncSender<LogMessage>,
    /// The record of the change that `changed` is called for next.
    change: Option<Fields>,
    prepares: bool,
    recovers: bool,
    dry_run: bool,
}

const TRACE: u8 = 0;
const INFO: u8 = 20;
const WARNING: u8 = 30;
const ERROR: u8 = 40;

impl PyHost {
    fn log(&self, level: u8, text: String) {
        let _ = self.log.try_send((level, text));
    }

    fn task(&self, events: &[EventRecord], reply: TaskReply) {
        let (kind, attempt) = match &reply {
            TaskReply::Preparation(reply) => (TaskKind::Preparation, reply.attempt()),
            TaskReply::Recovery(reply) => (TaskKind::Recovery, reply.attempt()),
            TaskReply::Gate(reply) => (TaskKind::Gate(reply.phase()), reply.attempt()),
        };
        let objects = events.iter().map(event_object).collect();
        let task = PyTask {
            kind,
            attempt,
            objects,
            reply: Mutex::new(Some(reply)),
        };
        let _ = self.tasks.send(TaskMessage::Task(task));
    }
}

impl Host for PyHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        let fields = Fields::of(record);
        let kind = match record.record {
            // A dry run does not call `changed`.
            Record::Change { .. } if !self.dry_run => {
                self.change = Some(fields);
                return;
            }
            Record::PollFailed { cause, .. } => UnreadKind::PollFailed {
                cause: cause.to_string(),
                repeated: 0,
            },
            _ => UnreadKind::Other,
        };
        self.records.add(Unread {
            record: fields,
            kind,
        });
    }

    /// A change that nobody has read is an open hook for the watcher, which reports it again after a restart.
    fn changed(
        &mut self,
        change: Change,
        event: &EventRecord,
        _: Option<Duration>,
        completion: Completion,
    ) -> bool {
        let record = self.change.take().unwrap_or_else(|| {
            let names = event.resource_names();
            let record = Record::Change {
                change,
                event: event.members(names.as_deref()),
            };
            Fields::of(&record.at(Clock::start().now().seconds()))
        });
        self.records.add(Unread {
            record,
            kind: UnreadKind::Change(completion),
        });
        true
    }

    fn note(&mut self, note: &Note) {
        let level = match note.severity() {
            Severity::Note => INFO,
            Severity::Warning => WARNING,
            Severity::Error => ERROR,
        };
        self.log(level, note.to_string());
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        if self.prepares {
            self.task(std::slice::from_ref(event), TaskReply::Preparation(reply));
        } else {
            self.log(
                WARNING,
                "the policy says to prepare, but there is no function for it; the event is held"
                    .to_owned(),
            );
            reply.report(HookOutcome::NoCommand);
        }
    }

    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        if self.recovers {
            self.task(events, TaskReply::Recovery(reply));
        } else {
            reply.report(HookOutcome::NoCommand);
        }
    }

    fn gate(&mut self, event: &EventRecord, reply: GateReply) {
        self.task(std::slice::from_ref(event), TaskReply::Gate(reply));
    }

    /// A Python function cannot be interrupted, but may look whether it still counts.
    fn cancel(&mut self, attempt: u32) {
        let _ = self.tasks.send(TaskMessage::Cancel(attempt));
    }
}
