//! `Session`: the whole client without I/O.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{
    PyBaseException, PyConnectionError, PyConnectionRefusedError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use scheduled_events::clock::Clock;
use scheduled_events::imds::names_for;
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events::record::EventRecord;
use scheduled_events_core::record::{CauseWord, EventMembers, Record};
use scheduled_events_core::{
    Cause, Document, EventId, Preparation, Report, RequestOutcome, Response, Session, SessionConfig, Step,
    TrackedEvent, UnixMillis, VmNames,
};

use crate::convert::{Moment, Names, datetime, span};
use crate::event::{PyEvent, event_object};
use crate::policy::PyPolicy;
use crate::{errors, words};

/// The whole client without I/O: ask next() what to do, do it, and feed the result back.
///
/// It paces the polls, reports changes, decides when to prepare, approve and recover, and survives restarts through
/// snapshot() and restore(). ``now`` is the current time by default, from a clock that never steps.
#[pyclass(frozen, name = "Session", module = "scheduled_events")]
pub(crate) struct PySession {
    inner: Mutex<Inner>,
    api_version: String,
}

struct Inner {
    core: Box<Session<EVENTS_MAX>>,
    clock: Clock,
    /// The newest document, for the positions of problems and the members of events.
    body: Vec<u8>,
    posted: Vec<String>,
}

/// A step that borrows nothing. Python code may call the session again while the step becomes a Python object, so the
/// session must not be locked then.
enum OwnedStep {
    Get {
        timeout_ms: u32,
    },
    Post {
        body: Vec<u8>,
        timeout_ms: u32,
        event_ids: Vec<String>,
    },
    Wait {
        until: UnixMillis,
        seconds: f64,
    },
    /// A `Prepare` or `Recover`, with the event's JSON object.
    Hook {
        name: &'static str,
        event_id: String,
        object: String,
    },
    /// A record, in JSON.
    Report {
        json: String,
    },
}

impl PySession {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PySession {
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
            policy: PyPolicy::named(policy)?,
            interval_ms: u32::try_from(span(interval, "interval")?.as_millis()).unwrap_or(u32::MAX),
            dry_run,
            seed: seed.unwrap_or_else(|| clock.now().0.unsigned_abs().rotate_left(20) ^ u64::from(std::process::id())),
        };
        let core = Session::new(&config).map_err(|error| errors::config(py, &error.to_string()))?;
        let inner = Inner { core: Box::new(core), clock, body: Vec::new(), posted: Vec::new() };
        Ok(Self { inner: Mutex::new(inner), api_version: api_version.to_owned() })
    }

    /// Returns what to do now: a Get, Post, Wait, Prepare, Recover or Report.
    #[pyo3(signature = (now=None))]
    fn next<'py>(&self, py: Python<'py>, now: Option<Moment>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.lock().next(now);
        let class = |name| words::record_class(py, name);
        let seconds = |millis: u32| f64::from(millis) / 1000.0;
        match step {
            OwnedStep::Get { timeout_ms } => class("Get")?.call1((seconds(timeout_ms),)),
            OwnedStep::Post { body, timeout_ms, event_ids } => {
                class("Post")?.call1((PyBytes::new(py, &body), seconds(timeout_ms), PyTuple::new(py, event_ids)?))
            }
            OwnedStep::Wait { until, seconds } => class("Wait")?.call1((datetime(py, until.seconds())?, seconds)),
            OwnedStep::Hook { name, event_id, object } => {
                let fields = PyDict::new(py);
                fields.set_item("event_id", event_id)?;
                fields.set_item("event", PyEvent::from_object(py, object.as_bytes())?)?;
                class(name)?.call((), Some(&fields))
            }
            OwnedStep::Report { json } => class("Report")?.call1((words::record(py, &json)?,)),
        }
    }

    /// Applies the response to the request; returns a PollFailed, an Approval, or None.
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
            inner.record_of(outcome, Some(status), now)
        };
        record.map(|json| words::record(py, &json)).transpose()
    }

    /// Notes that the request failed; ``cause`` is ``timeout``, ``unreachable``, ``connection-lost``, ``too-large``, or an
    /// exception. Returns a PollFailed, an Approval, or None.
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
            inner.record_of(outcome, None, now)
        };
        record.map(|json| words::record(py, &json)).transpose()
    }

    /// Completes a Prepare. False if no preparation for this event is in progress.
    #[pyo3(signature = (event_id, ready=true))]
    fn prepared(&self, event_id: &str, ready: bool) -> bool {
        let preparation = if ready { Preparation::Ready } else { Preparation::Failed };
        self.lock().core.prepared(event_id, preparation)
    }

    /// Completes a Recover. False if no recovery from this event is in progress.
    fn recovered(&self, event_id: &str) -> bool {
        self.lock().core.recovered(event_id)
    }

    /// Sets or replaces this machine's names.
    fn set_names(&self, py: Python<'_>, vm_names: Names) -> PyResult<()> {
        let names = vm_names.borrowed();
        let set = self.lock().core.set_names(names_for(&names, &self.api_version));
        set.map_err(|error| errors::config(py, &error.to_string()))
    }

    /// Returns what a restart needs, as bytes for restore().
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

    /// Continues from a snapshot. Raises SnapshotError for bytes that no session wrote.
    fn restore(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<()> {
        let restored = self.lock().core.restore(snapshot);
        restored.map_err(|error| errors::snapshot(py, &error.to_string()))
    }

    /// Whether a request is in progress: its response was not fed back yet.
    #[getter]
    fn awaits_answer(&self) -> bool {
        self.lock().core.awaits_answer()
    }

    /// Whether an event was seen, in this run or before the snapshot.
    #[getter]
    fn has_seen_event(&self) -> bool {
        self.lock().core.has_seen_event()
    }

    /// Whether the newest document has no events, and nothing is left to do.
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

    fn next(&mut self, now: Option<Moment>) -> OwnedStep {
        let now = self.now(now);
        match self.core.next(now) {
            Step::Get { timeout_ms } => OwnedStep::Get { timeout_ms },
            Step::Post { body, timeout_ms } => {
                let body = body.to_vec();
                self.posted = self.core.posted().map(ToString::to_string).collect();
                OwnedStep::Post { body, timeout_ms, event_ids: self.posted.clone() }
            }
            #[allow(clippy::cast_precision_loss)] // Waits are short.
            Step::Wait { until } => OwnedStep::Wait { until, seconds: until.millis_since(now) as f64 / 1000.0 },
            Step::Prepare { event } => OwnedStep::hook("Prepare", &self.body, event),
            Step::Recover { event } => OwnedStep::hook("Recover", &self.body, event),
            Step::Report(report) => {
                let document = Document::parse(&self.body).ok();
                let record = match &report {
                    Report::Change { change, event } => {
                        Record::Change { change: *change, event: members_of(document.as_ref(), event) }
                    }
                    _ => Record::from_report(&report, Some(&self.body)),
                };
                OwnedStep::Report { json: words::json(&record.at(now.seconds())) }
            }
        }
    }

    /// The record of a request's outcome in JSON, if it has one.
    fn record_of(&mut self, outcome: RequestOutcome, status: Option<u16>, now: UnixMillis) -> Option<String> {
        let posted = std::mem::take(&mut self.posted);
        let event_ids: Vec<&str> = posted.iter().map(String::as_str).collect();
        let record = match outcome {
            RequestOutcome::PollFailed { cause, retry_in_ms } => {
                Record::PollFailed { cause: CauseWord(cause), retry_in_ms }
            }
            RequestOutcome::Approved | RequestOutcome::ApprovalFailed { .. } => {
                Record::Approval { event_ids: &event_ids, status }
            }
            _ => return None,
        };
        Some(words::json(&record.at(now.seconds())))
    }
}

impl OwnedStep {
    fn hook(name: &'static str, body: &[u8], event: &TrackedEvent) -> Self {
        let document = Document::parse(body).ok();
        let object = event_object(&EventRecord::from(&members_of(document.as_ref(), event)));
        Self::Hook { name, event_id: event.event_id().to_string(), object }
    }
}

/// All that is known of an event: its members in the document, if it has the event, and what is tracked of it.
pub(crate) fn members_of<'a>(document: Option<&Document<'a>>, tracked: &'a TrackedEvent) -> EventMembers<'a> {
    let known = EventMembers::from_tracked(tracked);
    let mut events = document.into_iter().flat_map(Document::events);
    match events.find(|event| EventId::new(&event.event_id()) == *tracked.event_id()) {
        Some(event) => {
            let members = EventMembers::from_event(&event, VmNames::UNKNOWN);
            EventMembers {
                event_id: known.event_id,
                not_before: members.not_before.or(known.not_before),
                mine: known.mine,
                ..members
            }
        }
        None => known,
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
    let word: String =
        cause.extract().map_err(|_| PyTypeError::new_err("expected a cause as a str, or an exception"))?;
    let words = || known.map(|cause| cause.word()).join(", ");
    let found = known.into_iter().find(|cause| cause.word() == word);
    found.ok_or_else(|| PyValueError::new_err(format!("unknown cause {word:?}; expected one of {}", words())))
}
