//! `Session`: the whole client without I/O.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{
    PyBaseException, PyConnectionError, PyConnectionRefusedError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use scheduled_events::clock::Clock;
use scheduled_events::imds::names_for;
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events::record::{EventRecord, Record};
use scheduled_events_core::record::CauseWord;
use scheduled_events_core::{
    Cause, EventId, Preparation, RequestOutcome, Response, Session as CoreSession, SessionConfig, Step, TrackedEvent,
    UnixMillis,
};
use serde_json::Value;

use crate::convert::{Moment, Names, datetime, span};
use crate::event::Event;
use crate::policy::Policy;
use crate::{errors, words};

/// The whole client, without I/O: ask next() what to do, do it, and tell what came of it.
///
/// It keeps the pace of polling, tells changes, decides, says when to prepare, when to approve and when to recover, and
/// survives restarts through snapshot() and restore(). ``now`` is everywhere the current time by default, from a
/// clock that never steps.
#[pyclass(frozen, module = "scheduled_events")]
pub(crate) struct Session {
    inner: Mutex<Inner>,
    api_version: String,
}

struct Inner {
    core: Box<CoreSession<EVENTS_MAX>>,
    clock: Clock,
    /// The document that was read last, for the places of problems and the members of events.
    body: Vec<u8>,
    posted: Vec<String>,
}

/// What is to be done, taken out of the session.
enum Due {
    Get(u32),
    Post(Vec<u8>, u32, Vec<String>),
    Wait(UnixMillis, f64),
    Work(&'static str, EventRecord),
    Report(Value),
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (policy=None, vm_names=None, *, interval=1.0, dry_run=false, seed=None,
                        api_version="2020-07-01"))]
    fn new(
        py: Python<'_>,
        policy: Option<&Bound<'_, PyAny>>,
        vm_names: Option<Names>,
        interval: f64,
        dry_run: bool,
        seed: Option<u64>,
        api_version: &str,
    ) -> PyResult<Self> {
        let vm_names = vm_names.unwrap_or_default();
        let names = vm_names.borrowed();
        let clock = Clock::start();
        let config = SessionConfig {
            names: names_for(&names, api_version),
            policy: Policy::named(policy)?,
            interval_ms: u32::try_from(span(interval, "interval")?.as_millis()).unwrap_or(u32::MAX),
            dry_run,
            seed: seed.unwrap_or_else(|| clock.now().0.unsigned_abs().rotate_left(20) ^ u64::from(std::process::id())),
        };
        let core = CoreSession::new(&config).map_err(|error| errors::config(py, &error.to_string()))?;
        let inner = Inner { core: Box::new(core), clock, body: Vec::new(), posted: Vec::new() };
        Ok(Self { inner: Mutex::new(inner), api_version: api_version.to_owned() })
    }

    /// What to do now: Get, Post, Wait, Prepare, Recover or Report.
    #[pyo3(signature = (now=None))]
    fn next<'py>(&self, py: Python<'py>, now: Option<Moment>) -> PyResult<Bound<'py, PyAny>> {
        let due = self.lock().next(now);
        let class = |name| words::record_class(py, name);
        let seconds = |millis: u32| f64::from(millis) / 1000.0;
        match due {
            Due::Get(timeout) => class("Get")?.call1((seconds(timeout),)),
            Due::Post(body, timeout, ids) => {
                class("Post")?.call1((PyBytes::new(py, &body), seconds(timeout), PyTuple::new(py, ids)?))
            }
            Due::Wait(until, seconds) => class("Wait")?.call1((datetime(py, until.seconds())?, seconds)),
            Due::Work(name, record) => {
                let event = Event::of_record(py, &record)?;
                class(name)?.call1((record.event_id, py.None(), event))
            }
            Due::Report(record) => class("Report")?.call1((words::record(py, &record)?,)),
        }
    }

    /// Takes the answer to the request under way; gives a PollFailed, an Approval, or None.
    #[pyo3(signature = (status, body=None, retry_after=None, now=None))]
    fn on_response<'py>(
        &self,
        py: Python<'py>,
        status: u16,
        body: Option<&Bound<'py, PyAny>>,
        retry_after: Option<f64>,
        now: Option<Moment>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let body = match body {
            None => Vec::new(),
            Some(body) if body.is_instance_of::<PyString>() => body.extract::<String>()?.into_bytes(),
            Some(body) => body.extract::<Vec<u8>>()?,
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It saturates.
        let retry_after = retry_after.map(|seconds| seconds.ceil() as u32);
        let record = {
            let mut inner = self.lock();
            let now = inner.now(now);
            let outcome = inner.core.on_response(&Response { status, retry_after, body: &body }, now);
            if outcome == RequestOutcome::Document {
                inner.body = body;
            }
            inner.told(outcome, Some(status), now)
        };
        record.map(|record| words::record(py, &record)).transpose()
    }

    /// Takes note that the request under way got no answer; ``cause`` is ``timeout``, ``unreachable``, ``connection-lost``
    /// or ``too-large``, or the exception that says so. Gives a PollFailed, an Approval, or None.
    #[pyo3(signature = (cause, now=None))]
    fn on_failure<'py>(
        &self,
        py: Python<'py>,
        cause: &Bound<'py, PyAny>,
        now: Option<Moment>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let cause = cause_of(cause)?;
        let record = {
            let mut inner = self.lock();
            let now = inner.now(now);
            let outcome = inner.core.on_failure(cause, now);
            inner.told(outcome, None, now)
        };
        record.map(|record| words::record(py, &record)).transpose()
    }

    /// Answers Prepare. False where no preparation of this event is under way.
    #[pyo3(signature = (event_id, ready=true))]
    fn prepared(&self, event_id: &str, ready: bool) -> bool {
        let preparation = if ready { Preparation::Ready } else { Preparation::Failed };
        self.lock().core.prepared(event_id, preparation)
    }

    /// Answers Recover. False where no recovery of this event is under way.
    fn recovered(&self, event_id: &str) -> bool {
        self.lock().core.recovered(event_id)
    }

    /// Sets this machine's names once they are known, or anew.
    fn set_names(&self, py: Python<'_>, vm_names: Names) -> PyResult<()> {
        let names = vm_names.borrowed();
        let set = self.lock().core.set_names(names_for(&names, &self.api_version));
        set.map_err(|error| errors::config(py, &error.to_string()))
    }

    /// What a restart must not forget, as bytes for restore().
    fn snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let inner = self.lock();
        let mut buffer = Vec::new();
        let length = inner.core.snapshot(&mut buffer).unwrap_or_else(|small| {
            buffer.resize(small.needed, 0);
            inner.core.snapshot(&mut buffer).unwrap_or(0)
        });
        drop(inner);
        PyBytes::new(py, buffer.get(..length).unwrap_or_default())
    }

    /// Takes up where a snapshot left off. Raises SnapshotError for bytes that no session wrote.
    fn restore(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<()> {
        let restored = self.lock().core.restore(snapshot);
        restored.map_err(|error| errors::snapshot(py, &error.to_string()))
    }

    /// Whether a request is under way, whose answer was not fed back yet.
    #[getter]
    fn awaits_answer(&self) -> bool {
        self.lock().core.awaits_answer()
    }

    /// Whether an event was seen, in this run or before the snapshot.
    #[getter]
    fn has_seen_event(&self) -> bool {
        self.lock().core.has_seen_event()
    }

    /// Whether the newest document announces nothing, and nothing is left to do.
    #[getter]
    fn is_idle(&self) -> bool {
        self.lock().core.is_idle()
    }

    fn __repr__(&self) -> String {
        format!("<Session of {} events>", self.lock().core.events().count())
    }
}

impl Inner {
    fn now(&self, now: Option<Moment>) -> UnixMillis {
        now.map_or_else(|| self.clock.now(), |now| now.0)
    }

    fn next(&mut self, now: Option<Moment>) -> Due {
        let now = self.now(now);
        let due = match self.core.next(now) {
            Step::Get { timeout_ms } => Due::Get(timeout_ms),
            Step::Post { body, timeout_ms } => Due::Post(body.to_vec(), timeout_ms, Vec::new()),
            #[allow(clippy::cast_precision_loss)] // Waits are seconds.
            Step::Wait { until } => Due::Wait(until, until.millis_since(now) as f64 / 1000.0),
            Step::Prepare { event } => Due::Work("Prepare", known(&self.body, event)),
            Step::Recover { event } => Due::Work("Recover", known(&self.body, event)),
            Step::Report(report) => {
                let record = Record::from_report(&report, Some(&self.body)).at(now.seconds());
                Due::Report(serde_json::to_value(record).unwrap_or_default())
            }
        };
        if let Due::Post(body, timeout, _) = due {
            self.posted = self.core.posted().map(ToString::to_string).collect();
            return Due::Post(body, timeout, self.posted.clone());
        }
        due
    }

    fn told(&mut self, outcome: RequestOutcome, status: Option<u16>, now: UnixMillis) -> Option<Value> {
        let posted = std::mem::take(&mut self.posted);
        let event_ids: Vec<_> = posted.iter().map(String::as_str).collect();
        let record = match outcome {
            RequestOutcome::PollFailed { cause, retry_in_ms } => {
                Record::PollFailed { cause: CauseWord(cause), retry_in_ms }
            }
            RequestOutcome::Approved | RequestOutcome::ApprovalFailed { .. } => {
                Record::Approval { event_ids: &event_ids, status }
            }
            _ => return None,
        };
        serde_json::to_value(record.at(now.seconds())).ok()
    }
}

/// All that is known of an event: its members in the newest document, and what the session keeps of it.
fn known(body: &[u8], tracked: &TrackedEvent) -> EventRecord {
    let kept = EventRecord::of_tracked(tracked);
    let document = scheduled_events_core::Document::parse(body).ok();
    let mut events = document.iter().flat_map(scheduled_events_core::Document::events);
    match events.find(|event| EventId::new(&event.event_id()) == *tracked.event_id()) {
        Some(event) => {
            let record = EventRecord::new(&event, names_for(&[], ""));
            EventRecord { event_id: kept.event_id, not_before: record.not_before.or(kept.not_before), ..record }
        }
        None => kept,
    }
}

fn cause_of(cause: &Bound<'_, PyAny>) -> PyResult<Cause> {
    let py = cause.py();
    if cause.is_instance_of::<PyBaseException>() {
        let is = |kind: Bound<'_, pyo3::types::PyType>| cause.is_instance(&kind);
        return Ok(if is(py.get_type::<PyTimeoutError>())? {
            Cause::Timeout
        } else if is(py.get_type::<PyConnectionRefusedError>())? || !is(py.get_type::<PyConnectionError>())? {
            Cause::Unreachable
        } else {
            Cause::ConnectionLost
        });
    }
    let known = [Cause::Timeout, Cause::Unreachable, Cause::ConnectionLost, Cause::TooLarge];
    let word: String = cause.extract().map_err(|_| PyTypeError::new_err("a cause is a word or an exception"))?;
    let words = || known.map(|cause| cause.word()).join(", ");
    let found = known.into_iter().find(|cause| cause.word() == word);
    found.ok_or_else(|| PyValueError::new_err(format!("{word:?} is no cause; the causes are {}", words())))
}
