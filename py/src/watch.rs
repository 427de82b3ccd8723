//! A watch: the client's own, on a thread of its own, told to Python as it is asked.
//!
//! That thread never needs the interpreter's lock, so that a busy interpreter delays no poll and no approval.

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
use scheduled_events_core::{Preparation, Session, SessionConfig, VmNames};
use serde_json::Value;

use crate::convert::{Names, span};
use crate::event::Event;
use crate::imds::{Imds, SLICE};
use crate::policy::Policy;
use crate::{errors, words};

/// A running watch, behind the package's Watch.
#[pyclass(frozen, module = "scheduled_events._native")]
pub(crate) struct Watch {
    handle: WatcherHandle,
    told: Mutex<Receiver<Told>>,
    tasks: Mutex<Receiver<Task>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Why the last poll failed.
    cause: Mutex<Option<String>>,
    endpoint: String,
    /// The process that watches. One that was forked from it has this object, but not its threads.
    process: u32,
}

/// What a watch has to tell.
enum Told {
    Record(Value),
    Note(u8, String),
    Ended(StopReason),
}

#[pymethods]
impl Watch {
    #[new]
    #[pyo3(signature = (imds, *, policy, vm_names, api_version, interval, until_idle, max_polls, dry_run, state,
                        prepares, recovers))]
    #[allow(clippy::fn_params_excessive_bools)] // They come by name.
    fn new(
        py: Python<'_>,
        imds: &Bound<'_, Imds>,
        policy: Option<&Bound<'_, PyAny>>,
        vm_names: Option<Names>,
        api_version: Option<&str>,
        interval: f64,
        until_idle: bool,
        max_polls: Option<u64>,
        dry_run: bool,
        state: Option<PathBuf>,
        prepares: bool,
        recovers: bool,
    ) -> PyResult<Self> {
        let transport = imds.get().transport.clone();
        let options = WatcherOptions {
            api_version: api_version.unwrap_or(API_VERSION).to_owned(),
            vm_names: vm_names.unwrap_or_default().0,
            policy: Policy::named(policy)?,
            interval: span(interval, "interval")?,
            dry_run,
            until_idle,
            max_polls,
            timeout: imds.get().timeout,
        };
        check(&options).map_err(|why| errors::config(py, &why))?;
        let endpoint = transport.endpoint().to_owned();
        // A session is made on the stack, and a thread gives its stack back.
        let maker = thread::Builder::new().spawn(move || {
            let state = state.as_deref().map(StateFile::open).transpose()?;
            Watcher::new(transport, options, state)
        })?;
        let made = py.detach(|| maker.join());
        let watch = made.map_err(|_| PyRuntimeError::new_err("the watch could not be made"))?;
        let mut watch = watch.map_err(|why| errors::state(py, &why))?;
        let handle = watch.handle();
        let ((sender, told), (task_sender, tasks)) = (mpsc::channel(), mpsc::channel());
        let mut host = Teller { told: sender.clone(), tasks: task_sender, prepares, recovers };
        let thread = thread::Builder::new().name("scheduled-events-watch".into()).spawn(move || {
            let ended = watch.run(&mut host);
            // The state file is free again before the end is told.
            drop((watch, host));
            let _ = sender.send(Told::Ended(ended));
        })?;
        Ok(Self {
            handle,
            told: Mutex::new(told),
            tasks: Mutex::new(tasks),
            thread: Mutex::new(Some(thread)),
            cause: Mutex::default(),
            endpoint,
            process: process::id(),
        })
    }

    /// The next record, or a pair of a log level and a message; None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_elsewhere() {
            return Err(errors::base(py, "the watch runs in the process that this one was forked from"));
        }
        loop {
            let told = py.detach(|| self.told.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE));
            match told {
                Ok(Told::Record(record)) => {
                    if let Some(cause) = record.get("cause").and_then(Value::as_str) {
                        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause.to_owned());
                    }
                    return words::record(py, &record).map(Some);
                }
                Ok(Told::Note(level, text)) => return Ok(Some((level, text).into_pyobject(py)?.into_any())),
                Ok(Told::Ended(StopReason::PollsDone { answered: false })) => {
                    let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let cause = cause.as_deref().unwrap_or("no-document");
                    let message = format!("no poll of {} was answered with a document: {cause}", self.endpoint);
                    let status = cause.strip_prefix("status-").and_then(|status| status.parse().ok());
                    return Err(errors::no_answer(py, &message, cause, status));
                }
                Ok(Told::Ended(_)) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    // After the end has been told nothing more is; anything else is a defect.
                    let joined = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                    return match joined.map(|thread| py.detach(|| thread.join())) {
                        Some(Err(_)) => Err(PyRuntimeError::new_err("the watch broke down")),
                        _ => Ok(None),
                    };
                }
            }
        }
    }

    /// The next preparation or recovery; None when no more will come.
    fn task(&self, py: Python<'_>) -> Option<Task> {
        if self.is_elsewhere() {
            return None;
        }
        py.detach(|| self.tasks.lock().unwrap_or_else(PoisonError::into_inner).recv().ok())
    }

    /// Ends the watch, and waits until its state is kept.
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

impl Watch {
    fn is_elsewhere(&self) -> bool {
        self.process != process::id()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_elsewhere() {
            self.handle.stop();
        }
    }
}

/// Options that a session refuses are the caller's mistake, and told as that.
fn check(options: &WatcherOptions) -> Result<(), String> {
    let names: Vec<&str> = options.vm_names.iter().map(String::as_str).collect();
    let interval_ms = u32::try_from(options.interval.as_millis()).unwrap_or(u32::MAX);
    let names = if names.is_empty() { VmNames::UNKNOWN } else { names_for(&names, &options.api_version) };
    match Session::<1>::new(&SessionConfig { interval_ms, ..SessionConfig::new(names) }) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// A preparation or recovery that is to be done for an event.
#[pyclass(frozen, module = "scheduled_events._native")]
pub(crate) struct Task {
    recovery: bool,
    record: EventRecord,
    time_left: Option<Duration>,
    reply: Mutex<Option<Reply>>,
}

#[pymethods]
impl Task {
    #[getter]
    fn is_recovery(&self) -> bool {
        self.recovery
    }

    #[getter]
    fn event(&self, py: Python<'_>) -> PyResult<Event> {
        Event::of_record(py, &self.record)
    }

    #[getter]
    fn time_left(&self) -> Option<f64> {
        self.time_left.map(|left| left.as_secs_f64())
    }

    /// Says how it ended.
    fn done(&self, well: bool) {
        let Some(reply) = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        match (self.recovery, well) {
            (false, true) => reply.prepared(Preparation::Ready, HookOutcome::Ready),
            (false, false) => reply.prepared(Preparation::Failed, HookOutcome::Failed),
            (true, true) => reply.recovered(HookOutcome::Done),
            (true, false) => reply.recovered(HookOutcome::Failed),
        }
    }

    /// It may have been done or not, so that a restart has to do it again.
    fn abandon(&self) {
        drop(self.reply.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // What nobody has done was not done.
        self.done(false);
    }
}

/// The host of the client's watch: passes everything on.
struct Teller {
    told: Sender<Told>,
    tasks: Sender<Task>,
    prepares: bool,
    recovers: bool,
}

const INFO: u8 = 20;
const WARNING: u8 = 30;
const ERROR: u8 = 40;

impl Teller {
    fn say(&self, level: u8, text: &str) {
        let _ = self.told.send(Told::Note(level, harmless(text)));
    }

    fn task(&self, event: &EventRecord, recovery: bool, time_left: Option<Duration>, reply: Reply) {
        let task = Task { recovery, record: event.clone(), time_left, reply: Mutex::new(Some(reply)) };
        let _ = self.tasks.send(task);
    }
}

impl Host for Teller {
    fn record(&mut self, record: &TimedRecord<'_>, _event: Option<&EventRecord>) {
        let _ = self.told.send(Told::Record(serde_json::to_value(record).unwrap_or_default()));
    }

    fn note(&mut self, note: &Note) {
        let level = match note.severity() {
            Severity::Note => INFO,
            Severity::Warning => WARNING,
            Severity::Error => ERROR,
        };
        self.say(level, &note.to_string());
    }

    fn prepare(&mut self, event: &EventRecord, time_left: Option<Duration>, reply: Reply) {
        if self.prepares {
            self.task(event, false, time_left, reply);
        } else {
            self.say(WARNING, "an event is to be prepared for, but nothing prepares; it is held");
            reply.prepared(Preparation::Failed, HookOutcome::NoCommand);
        }
    }

    fn rescheduled(&mut self, _event: &EventRecord, _time_left: Option<Duration>) {}

    fn recover(&mut self, event: &EventRecord, _still_open: usize, reply: Reply) {
        if self.recovers {
            self.task(event, true, None, reply);
        } else {
            reply.recovered(HookOutcome::NoCommand);
        }
    }
}

/// Text from outside, with what would act on a terminal spelt out.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() { harmless.extend(char.escape_unicode()) } else { harmless.push(char) }
    }
    harmless
}
