//! `Watch`: the client's watcher on its own thread, whose records Python fetches.
//!
//! That thread never takes the interpreter's lock, so a busy interpreter delays no poll and no approval.

use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use scheduled_events::imds::{API_VERSION, names_for};
use scheduled_events::record::{EventRecord, HookOutcome, TimedRecord};
use scheduled_events::state::StateFile;
use scheduled_events::watch::{Host, Note, Reply, Severity, StopReason, Watcher, WatcherHandle, WatcherOptions};
use scheduled_events_core::{GateAnswer, GatePhase, Preparation, Session, SessionConfig, VmNames};

use crate::convert::{Names, gate_answer, span};
use crate::event::{PyEvent, event_object};
use crate::imds::{PyImds, SLICE};
use crate::policy::PyPolicy;
use crate::{errors, words};

/// A running watcher, for the package's Watch.
#[pyclass(frozen, name = "Watch", module = "scheduled_events._native")]
pub(crate) struct PyWatch {
    handle: WatcherHandle,
    outputs: Mutex<Receiver<WatchOutput>>,
    tasks: Mutex<Receiver<PyTask>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Why the last poll failed.
    cause: Mutex<Option<String>>,
    endpoint: String,
    /// The process that runs the watcher. A process that is forked from it has this object, but not its thread.
    process: u32,
}

/// What a watcher reports.
enum WatchOutput {
    /// A record in JSON.
    Record(String),
    /// A log level and a message.
    Note(u8, String),
    Stopped(StopReason),
}

#[pymethods]
impl PyWatch {
    #[new]
    #[pyo3(signature = (imds, *, policy, vm_names, api_version, interval, until_idle, max_polls, dry_run,
                        recover_all, state, prepares, recovers, gates))]
    #[allow(clippy::fn_params_excessive_bools)] // Python passes them by name.
    fn new(
        py: Python<'_>,
        imds: &Bound<'_, PyImds>,
        policy: Option<&Bound<'_, PyAny>>,
        vm_names: Option<Names>,
        api_version: Option<&str>,
        interval: f64,
        until_idle: bool,
        max_polls: Option<u64>,
        dry_run: bool,
        recover_all: bool,
        state: Option<PathBuf>,
        prepares: bool,
        recovers: bool,
        gates: bool,
    ) -> PyResult<Self> {
        let transport = imds.get().transport.clone();
        let options = WatcherOptions {
            api_version: api_version.unwrap_or(API_VERSION).to_owned(),
            vm_names: vm_names.unwrap_or_default().0,
            policy: PyPolicy::named(policy)?,
            interval: span(interval, "interval")?,
            dry_run,
            gate: gates,
            recover_all,
            until_idle,
            max_polls,
            timeout: imds.get().timeout,
        };
        check(&options).map_err(|message| errors::config(py, &message))?;
        let endpoint = transport.endpoint().to_owned();
        // A session is built on the stack, and the stack of a thread is freed with it.
        let builder = thread::Builder::new().spawn(move || {
            let open = if dry_run { StateFile::open_read_only } else { StateFile::open };
            let state = state.as_deref().map(open).transpose()?;
            Watcher::new(transport, options, state)
        })?;
        let built = py.detach(|| builder.join());
        let watcher = built.map_err(|_| PyRuntimeError::new_err("the thread that builds the watcher panicked"))?;
        let mut watcher = watcher.map_err(|message| errors::state(py, &message))?;
        let handle = watcher.handle();
        let ((sender, outputs), (task_sender, tasks)) = (mpsc::channel(), mpsc::channel());
        let mut host = PyHost { outputs: sender.clone(), tasks: task_sender, prepares, recovers };
        let thread = thread::Builder::new().name("scheduled-events-watch".into()).spawn(move || {
            let reason = watcher.run(&mut host);
            // Unlock the state file before the end is reported.
            drop((watcher, host));
            let _ = sender.send(WatchOutput::Stopped(reason));
        })?;
        Ok(Self {
            handle,
            outputs: Mutex::new(outputs),
            tasks: Mutex::new(tasks),
            thread: Mutex::new(Some(thread)),
            cause: Mutex::default(),
            endpoint,
            process: process::id(),
        })
    }

    /// Returns the next record, or a log level and a message; None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_elsewhere() {
            return Err(errors::base(py, "the watcher belongs to the parent process; start one after the fork"));
        }
        loop {
            let output = py.detach(|| self.outputs.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE));
            match output {
                Ok(WatchOutput::Record(json)) => {
                    let record = words::record(py, &json)?;
                    if record.getattr("record")?.eq("poll-failed")? {
                        let cause = record.getattr("cause")?.extract()?;
                        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
                    }
                    return Ok(Some(record));
                }
                Ok(WatchOutput::Note(level, text)) => return Ok(Some((level, text).into_pyobject(py)?.into_any())),
                Ok(WatchOutput::Stopped(StopReason::PollsDone { answered: false })) => {
                    let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let cause = cause.as_deref().unwrap_or("no-document");
                    let message = format!("no poll of {} returned a document: {cause}", self.endpoint);
                    let status = cause.strip_prefix("status-").and_then(|status| status.parse().ok());
                    return Err(errors::no_response(py, &message, cause, status));
                }
                Ok(WatchOutput::Stopped(_)) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    // The end was reported before, or the thread panicked.
                    let joined = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                    return match joined.map(|thread| py.detach(|| thread.join())) {
                        Some(Err(_)) => Err(PyRuntimeError::new_err("the watcher panicked")),
                        _ => Ok(None),
                    };
                }
            }
        }
    }

    /// Returns the next preparation, recovery or question to the gate; None when the watcher has ended.
    fn task(&self, py: Python<'_>) -> Option<PyTask> {
        if self.is_elsewhere() {
            return None;
        }
        py.detach(|| self.tasks.lock().unwrap_or_else(PoisonError::into_inner).recv().ok())
    }

    /// Stops the watcher and waits until its state is saved.
    fn close(&self, py: Python<'_>) {
        if self.is_elsewhere() {
            return;
        }
        self.handle.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            py.detach(|| drop(thread.join()));
        }
    }
}

impl PyWatch {
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

/// Checks the options that a session would refuse.
fn check(options: &WatcherOptions) -> Result<(), String> {
    let names: Vec<&str> = options.vm_names.iter().map(String::as_str).collect();
    let interval_ms = u32::try_from(options.interval.as_millis()).unwrap_or(u32::MAX);
    let names = if names.is_empty() { VmNames::UNKNOWN } else { names_for(&names, &options.api_version) };
    match Session::<1>::new(&SessionConfig { interval_ms, ..SessionConfig::new(names) }) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// What Python does for the watcher: a preparation, a recovery, or an answer of the gate.
#[pyclass(frozen, name = "Task", module = "scheduled_events._native")]
pub(crate) struct PyTask {
    kind: TaskKind,
    /// The event's JSON object.
    object: String,
    time_left: Option<Duration>,
    reply: Mutex<Option<Reply>>,
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

    #[getter]
    fn event(&self, py: Python<'_>) -> PyResult<PyEvent> {
        PyEvent::from_object(py, self.object.as_bytes())
    }

    /// What the gate is asked: ``prepare`` or ``approve``.
    #[getter]
    fn phase(&self) -> Option<&'static str> {
        match self.kind {
            TaskKind::Gate(phase) => Some(phase.word()),
            TaskKind::Preparation | TaskKind::Recovery => None,
        }
    }

    #[getter]
    fn time_left(&self) -> Option<f64> {
        self.time_left.map(|left| left.as_secs_f64())
    }

    /// Reports whether it succeeded; of a gate, whether it is open. Only the first report counts.
    fn complete(&self, success: bool) {
        let Some(reply) = self.take_reply() else { return };
        match (self.kind, success) {
            (TaskKind::Preparation, true) => reply.prepared(Preparation::Ready, HookOutcome::Ready),
            (TaskKind::Preparation, false) => reply.prepared(Preparation::Failed, HookOutcome::Failed),
            (TaskKind::Recovery, true) => reply.recovered(HookOutcome::Done),
            (TaskKind::Recovery, false) => reply.recovered(HookOutcome::Failed),
            (TaskKind::Gate(phase), true) => reply.gate(phase, GateAnswer::Open),
            (TaskKind::Gate(phase), false) => reply.gate(phase, GateAnswer::Closed),
        }
    }

    /// Reports the answer of a gate. Raises ValueError for what is no answer, and then reports nothing.
    fn answer(&self, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let answer = gate_answer(answer)?;
        if let TaskKind::Gate(phase) = self.kind
            && let Some(reply) = self.take_reply()
        {
            reply.gate(phase, answer);
        }
        Ok(())
    }

    /// Reports nothing: whether it succeeded is unknown, and a restart repeats it.
    fn abandon(&self) {
        drop(self.take_reply());
    }
}

impl PyTask {
    fn take_reply(&self) -> Option<Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for PyTask {
    fn drop(&mut self) {
        self.complete(false);
    }
}

/// The watcher's host: passes records, notes and tasks to Python.
struct PyHost {
    outputs: Sender<WatchOutput>,
    tasks: Sender<PyTask>,
    prepares: bool,
    recovers: bool,
}

const INFO: u8 = 20;
const WARNING: u8 = 30;
const ERROR: u8 = 40;

impl PyHost {
    fn log(&self, level: u8, text: String) {
        let _ = self.outputs.send(WatchOutput::Note(level, text));
    }

    fn task(&self, event: &EventRecord, kind: TaskKind, time_left: Option<Duration>, reply: Reply) {
        let object = event_object(event);
        let task = PyTask { kind, object, time_left, reply: Mutex::new(Some(reply)) };
        let _ = self.tasks.send(task);
    }
}

impl Host for PyHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        let _ = self.outputs.send(WatchOutput::Record(words::json(record)));
    }

    fn note(&mut self, note: &Note) {
        let level = match note.severity() {
            Severity::Note => INFO,
            Severity::Warning => WARNING,
            Severity::Error => ERROR,
        };
        self.log(level, note.to_string());
    }

    fn prepare(&mut self, event: &EventRecord, time_left: Option<Duration>, reply: Reply) {
        if self.prepares {
            self.task(event, TaskKind::Preparation, time_left, reply);
        } else {
            self.log(
                WARNING,
                "the policy says to prepare, but there is no function for it; the event is held".to_owned(),
            );
            reply.prepared(Preparation::Failed, HookOutcome::NoCommand);
        }
    }

    fn recover(&mut self, events: &[EventRecord], reply: Reply) {
        match events.first() {
            Some(last) if self.recovers => self.task(last, TaskKind::Recovery, None, reply),
            _ => reply.recovered(HookOutcome::NoCommand),
        }
    }

    fn gate(&mut self, event: &EventRecord, phase: GatePhase, reply: Reply) {
        self.task(event, TaskKind::Gate(phase), None, reply);
    }

    // `cancel` does nothing: a Python function cannot be interrupted. Its result is reported and ignored when it returns.
}
