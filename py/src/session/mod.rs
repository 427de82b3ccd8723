//! `Session`: the whole client without I/O.

mod attempts;
mod notified;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{
    PyBaseException, PyConnectionError, PyConnectionRefusedError, PyTimeoutError,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};
use scheduled_events::clock::Clock;
use scheduled_events::imds::{API_VERSION, names_for};
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events::session::{EventRecords, OwnedStep, with_approval, with_report};
use scheduled_events::watch;
use scheduled_events_core::record::{CauseWord, Record};
use scheduled_events_core::{
    AnswerOutcome, ApiVersion, Cause, GateAnswer, NotificationOutcome, Preparation, Report,
    RequestOutcome, Response, Session, SessionConfig, SessionSource, UnixMillis, VmNames,
};

use crate::convert::{Arg, Moment, Names, Offset, datetime, gate_answer, span};
use crate::document::body::Body;
use crate::document::event::{PyEvent, event_object};
use crate::errors::{self, About};
use crate::ids::EventIdArgument;
use crate::notification::PyNotification;
use crate::policy::{PyPolicy, last_call_of};
use crate::words::{self, Fields};
use attempts::{Attempts, Task};
use notified::{Notified, source_of};

/// The whole client without I/O: ask next() what to do, do it, and feed the result back.
///
/// It paces the polls, reports changes, decides when to prepare, approve and recover, and survives restarts through
/// snapshot() and restore(). ``now`` is the current time by default, from a clock that never steps.
///
/// With ``gate``, it asks before each preparation and each approval, and ignores the policy's leader; ``last_call`` is
/// when it prepares although the gate has not answered yes, as for Client.watch. ``prepare_retries`` is how often a
/// failed preparation is given again at most; by default as often as there is time. With ``recover_all``, it recovers
/// after every event of this machine that started, prepared for or not. ``machine_id`` is an id that a clone of this
/// machine does not have, such as its vmId, and ``boot_id`` one that changes at each boot.
///
/// Each Get and Post has the ``api_version`` of its request: the one of the argument, or by default 2020-07-01; a Get
/// has 2024-07-09 while a rule names SpotRebalanceRecommendation, or with ``needs_advice``, as long as the service
/// knows it.
///
/// With the ``source`` "notifications" or "both", on_notification() feeds it what Azure says outside the machine. With
/// notifications alone it never polls, and a Post is sent as ``acknowledge_request(resource_id, step.event_ids)``.
/// After a restart, pass the notifications that are known, such as the rows of Resource Graph, before you call next().
#[pyclass(frozen, name = "Session", module = "scheduled_events")]
pub(crate) struct PySession {
    inner: Mutex<Inner>,
    api_version: String,
}

struct Inner {
    core: Box<Session<EVENTS_MAX>>,
    clock: Clock,
    /// The newest document, for the positions of problems.
    body: Vec<u8>,
    events: EventRecords,
    attempts: Attempts,
    notified: Notified,
}

/// A step, and what only the session knows about it. It borrows nothing: Python code may call the session again while the step
/// becomes a Python object, so the session must not be locked then.
struct Issued {
    step: OwnedStep,
    now: UnixMillis,
    /// The ids of the events that a POST approves.
    posted: Vec<String>,
    /// The event of an attempt that is cancelled.
    cancelled: Option<String>,
    /// The record of a report.
    record: Option<Fields>,
}

impl PySession {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (policy=None, vm_names=None, *, interval=Arg(1.0), dry_run=Arg(false), gate=Arg(false),
                        last_call=None, prepare_retries=None, recover_all=Arg(false), seed=None, machine_id=None, boot_id=None,
                        source=Arg(SessionSource::Documents.word().to_owned()),
                        api_version=None, needs_advice=Arg(false)),
           text_signature = "(policy=None, vm_names=None, *, interval=1.0, dry_run=False, gate=False, last_call=None, prepare_retries=None, recover_all=False, \
                             seed=None, machine_id=None, boot_id=None, source='documents', api_version=None, needs_advice=False)")]
    #[allow(clippy::fn_params_excessive_bools)] // Python passes them by name.
    fn new(
        py: Python<'_>,
        policy: Option<&Bound<'_, PyAny>>,
        vm_names: Option<Names>,
        interval: Arg<f64>,
        dry_run: Arg<bool>,
        gate: Arg<bool>,
        last_call: Option<&Bound<'_, PyAny>>,
        prepare_retries: Option<Arg<u32>>,
        recover_all: Arg<bool>,
        seed: Option<Arg<u64>>,
        machine_id: Option<Arg<String>>,
        boot_id: Option<Arg<String>>,
        source: Arg<String>,
        api_version: Option<Arg<String>>,
        needs_advice: Arg<bool>,
    ) -> PyResult<Self> {
        let vm_names = vm_names.unwrap_or_default();
        let names = vm_names.borrowed();
        let (clock, source) = (Clock::start(), source_of(py, &source.0)?);
        let api_version = api_version.map(|version| version.0);
        let version = api_version.as_deref();
        let config = SessionConfig {
            policy: PyPolicy::named(policy)?,
            interval_ms: u32::try_from(span(py, interval.0, "interval")?.as_millis())
                .unwrap_or(u32::MAX),
            dry_run: dry_run.0,
            gate: gate.0,
            last_call: last_call_of(last_call)?,
            prepare_retries: prepare_retries.map(|retries| retries.0),
            recover_all: recover_all.0,
            source,
            machine_id: machine_id.as_ref().map_or("", |id| &id.0),
            boot_id: boot_id.as_ref().map_or("", |id| &id.0),
            seed: seed.map_or_else(watch::seed, |seed| seed.0),
            api_version: match version {
                Some(version) => ApiVersion::Fixed(version),
                None if needs_advice.0 => ApiVersion::Advice,
                None => ApiVersion::Auto,
            },
            ..SessionConfig::new(names_for(&names, version.unwrap_or(API_VERSION)))
        };
        let core = Session::new(&config).map_err(|error| errors::config(py, &error.to_string()))?;
        let inner = Inner {
            core: Box::new(core),
            clock,
            body: Vec::new(),
            events: EventRecords::default(),
            attempts: Attempts::default(),
            notified: Notified::new(source),
        };
        Ok(Self {
            inner: Mutex::new(inner),
            api_version: api_version.unwrap_or_else(|| API_VERSION.to_owned()),
        })
    }

    /// Return what to do now: a Get, Post, Wait, PrepareDue, RecoverDue, GateDue, Cancel or Report.
    #[pyo3(signature = (now=None))]
    fn next<'py>(&self, py: Python<'py>, now: Option<Moment>) -> PyResult<Bound<'py, PyAny>> {
        let Issued {
            step,
            now,
            posted,
            cancelled,
            record,
        } = self.lock().next(now);
        let class = |name| words::class(py, name);
        let seconds = |millis: u32| f64::from(millis) / 1000.0;
        match step {
            OwnedStep::Get {
                api_version,
                timeout_ms,
            } => class("Get")?.call1((seconds(timeout_ms), api_version)),
            OwnedStep::Post {
                body,
                api_version,
                timeout_ms,
            } => class("Post")?.call1((
                PyBytes::new(py, &body),
                seconds(timeout_ms),
                PyTuple::new(py, posted)?,
                api_version,
            )),
            #[allow(clippy::cast_precision_loss)] // Waits are short.
            OwnedStep::Wait { until } => class("Wait")?.call1((
                datetime(py, until.seconds())?,
                until.millis_since(now) as f64 / 1000.0,
            )),
            OwnedStep::Prepare {
                event,
                by_last_call,
                attempt,
            } => Fields::of(&event)
                .with("attempt", attempt)
                .with("by_last_call", by_last_call)
                .object(py, "PrepareDue"),
            OwnedStep::Recover {
                events,
                own,
                attempt,
            } => {
                let objects = events
                    .iter()
                    .map(|event| PyEvent::from_object(py, event_object(event).as_bytes()))
                    .collect::<PyResult<Vec<_>>>()?;
                let Some(last) = events.first() else {
                    unreachable!("a recovery is for at least one event")
                };
                let ids: Vec<_> = events.iter().map(|event| &event.event_id).collect();
                let fields = Fields::of(last)
                    .with("attempt", attempt)
                    .with("event_ids", ids)
                    .with("own", own);
                let arguments = fields.arguments(py)?;
                arguments.set_item("events", PyTuple::new(py, objects)?)?;
                class("RecoverDue")?.call((), Some(&arguments))
            }
            OwnedStep::Gate {
                event,
                phase,
                attempt,
            } => Fields::of(&event)
                .with("attempt", attempt)
                .with("phase", phase.word())
                .object(py, "GateDue"),
            OwnedStep::Cancel { attempt } => class("Cancel")?.call1((attempt, cancelled)),
            OwnedStep::Report(_) => {
                let record = record.map(|record| record.record(py)).transpose()?;
                class("Report")?.call1((record,))
            }
        }
    }

    /// The version of the API that every service knows, for requests beside a Get without an answer.
    ///
    /// They are sent after 5 seconds and then every 10.
    #[getter]
    fn repeat_version(&self) -> String {
        self.lock().core.repeat_version().to_owned()
    }

    /// Apply the response to the request, and return a PollFailed, an Approval, or None.
    ///
    /// ``repeated`` says that it is the answer to a request in ``repeat_version``: what it does not have may still be
    /// there.
    #[pyo3(signature = (status, body=None, retry_after=None, now=None, repeated=Arg(false)),
           text_signature = "($self, status, body=None, retry_after=None, now=None, repeated=False)")]
    fn on_response<'py>(
        &self,
        py: Python<'py>,
        status: Arg<u16>,
        body: Option<&Bound<'py, PyAny>>,
        retry_after: Option<Arg<f64>>,
        now: Option<Moment>,
        repeated: Arg<bool>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let status = status.0;
        let body = body
            .map(Body::from_python)
            .transpose()
            .about(py, "body")?
            .map_or_else(Vec::new, |body| body.bytes().to_vec());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It saturates.
        let retry_after = retry_after.map(|seconds| seconds.0.ceil() as u32);
        let record = {
            let mut inner = self.lock();
            let now = inner.now(now);
            let Inner { core, events, .. } = &mut *inner;
            if repeated.0 {
                core.repeat_answered();
            }
            let response = Response {
                status,
                retry_after,
                body: &body,
            };
            let outcome = core.on_response_with(&response, now, |document| {
                // Which events are this machine's, the session knows.
                events.apply(document, VmNames::UNKNOWN);
            });
            if outcome == RequestOutcome::Document {
                inner.body = body;
            }
            inner.record_of(outcome, Some(status), now)
        };
        record.map(|record| record.record(py)).transpose()
    }

    /// Note that the request failed, and return a PollFailed, an Approval, or None.
    ///
    /// ``cause`` is ``timeout``, ``unreachable``, ``connection-lost``, ``too-large``, or an exception.
    #[pyo3(signature = (cause, now=None))]
    fn on_failure<'py>(
        &self,
        py: Python<'py>,
        cause: &Bound<'py, PyAny>,
        now: Option<Moment>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let cause = cause_of(cause).about(py, "cause")?;
        let record = {
            let mut inner = self.lock();
            let now = inner.now(now);
            let outcome = inner.core.on_failure(cause, now);
            inner.record_of(outcome, None, now)
        };
        record.map(|record| record.record(py)).transpose()
    }

    /// Apply a notification, if the source has them; then call next().
    ///
    /// The result is "applied" if the event is followed and is as the notification says. It is "ignored" if the
    /// notification is late, its event is over or was never followed, or a document says more about it. It is
    /// "untracked" if too many events are followed: pass the notification again when one of them is over.
    #[pyo3(signature = (notification, now=None))]
    fn on_notification(
        &self,
        notification: Arg<Bound<'_, PyNotification>>,
        now: Option<Moment>,
    ) -> &'static str {
        let mut inner = self.lock();
        let now = inner.now(now);
        let Inner {
            core,
            events,
            notified,
            ..
        } = &mut *inner;
        let notification = notification.0.get().core();
        let outcome = core.on_notification(&notification, notified.arrival(&notification), now);
        if outcome == NotificationOutcome::Applied && !notification.state().is_end() {
            events.insert(notification.event(), VmNames::UNKNOWN);
        }
        outcome.word()
    }

    /// Complete a PrepareDue, also one that was cancelled. Without ``attempt``, it is the one in progress.
    ///
    /// False if the answer counts for nothing: no preparation for this event is in progress, it was cancelled, or
    /// ``attempt`` is the number of another one. One that is not ready is given again after 5 seconds to a minute,
    /// while there is time, unless ``retry`` is False.
    #[pyo3(signature = (event_id, ready=Arg(true), attempt=None, *, retry=Arg(true)),
           text_signature = "($self, event_id, ready=True, attempt=None, *, retry=True)")]
    fn prepared(
        &self,
        event_id: EventIdArgument,
        ready: Arg<bool>,
        attempt: Option<Arg<u32>>,
        retry: Arg<bool>,
    ) -> bool {
        let attempt = attempt.map(|attempt| attempt.0);
        let preparation = match (ready.0, retry.0) {
            (true, _) => Preparation::Ready,
            (false, true) => Preparation::Failed,
            (false, false) => Preparation::Abandoned,
        };
        self.lock()
            .answer(Task::Prepare, &event_id.0, attempt, |core, attempt| {
                core.prepared(attempt, preparation)
            })
    }

    /// Complete a RecoverDue, also one that was cancelled. Without ``attempt``, it is the one in progress.
    ///
    /// One that is not done is issued again, after 5 seconds to 5 minutes. False if the answer counts for nothing: no
    /// recovery for which this event is the last one is in progress, it was cancelled, or ``attempt`` is the number of
    /// another one.
    #[pyo3(signature = (event_id, done=Arg(true), attempt=None, now=None),
           text_signature = "($self, event_id, done=True, attempt=None, now=None)")]
    fn recovered(
        &self,
        event_id: EventIdArgument,
        done: Arg<bool>,
        attempt: Option<Arg<u32>>,
        now: Option<Moment>,
    ) -> bool {
        let attempt = attempt.map(|attempt| attempt.0);
        let mut inner = self.lock();
        let now = inner.now(now);
        inner.answer(Task::Recover, &event_id.0, attempt, |core, attempt| {
            core.recovered(attempt, done.0, now)
        })
    }

    /// Answer a GateDue: True to go on, False for not yet, or "another-approves", as the words of the record do.
    ///
    /// It is asked again after 5 seconds unless the answer is True. An event is approved only if a poll that begins
    /// after the answer shows it unchanged. False if the answer counts for nothing.
    #[pyo3(signature = (event_id, answer, attempt=None, now=None))]
    fn gate_answered(
        &self,
        py: Python<'_>,
        event_id: EventIdArgument,
        answer: &Bound<'_, PyAny>,
        attempt: Option<Arg<u32>>,
        now: Option<Moment>,
    ) -> PyResult<bool> {
        let attempt = attempt.map(|attempt| attempt.0);
        let answer: GateAnswer = gate_answer(answer).about(py, "answer")?;
        let mut inner = self.lock();
        let now = inner.now(now);
        Ok(
            inner.answer(Task::Gate, &event_id.0, attempt, |core, attempt| {
                core.gate_answered(attempt, answer, now)
            }),
        )
    }

    /// Set or replace this machine's names.
    fn set_names(&self, py: Python<'_>, vm_names: Names) -> PyResult<()> {
        let names = vm_names.borrowed();
        let set = self
            .lock()
            .core
            .set_names(names_for(&names, &self.api_version));
        set.map_err(|error| errors::config(py, &error.to_string()))
    }

    /// Set another policy: a Policy, the name of a preset, or the path of a file.
    ///
    /// The next document is decided with it. A preparation that was issued goes on, and what it led to counts.
    fn set_policy(&self, policy: &Bound<'_, PyAny>) -> PyResult<()> {
        let policy = PyPolicy::named(Some(policy))?;
        self.lock().core.set_policy(policy);
        Ok(())
    }

    /// Set how far the time of day is ahead of the ``now`` of the other methods; negative if it is behind.
    ///
    /// A NotBefore is a time of day: it is reached sooner if the system clock was set forward, or if the machine was
    /// frozen while the clock of ``now`` stood still. Where ``now`` is not passed, the session knows it.
    fn set_time_of_day_ahead(&self, ahead: Offset) {
        self.lock().core.set_time_of_day_ahead(ahead.0);
    }

    /// What each event waits for, and why: a tuple of Waiting, in the order of ``events``.
    ///
    /// Nothing changes by asking.
    #[pyo3(signature = (now=None))]
    fn waiting<'py>(&self, py: Python<'py>, now: Option<Moment>) -> PyResult<Bound<'py, PyTuple>> {
        let all: Vec<Fields> = {
            let mut inner = self.lock();
            let now = inner.now_of_day(now);
            let waiting = inner.core.waiting(now);
            waiting
                .map(|(event, waiting)| {
                    let decision = waiting.decision;
                    Fields::of(&inner.events.of(event))
                        .with("waits_for", waiting.waits_for)
                        .with("since", waiting.since)
                        .with("until", waiting.until)
                        .with("attempt", waiting.attempt)
                        .with("action", decision.map(|decision| decision.action))
                        .with("rule", waiting.rule())
                        .with("reason", waiting.reason().map(|reason| reason.to_string()))
                        .with("last_call", waiting.by_last_call)
                })
                .collect()
        };
        let objects = all.into_iter().map(|fields| fields.object(py, "Waiting"));
        PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
    }

    /// Return what a restart needs, as bytes for restore().
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

    /// Continue from a snapshot.
    ///
    /// Raises SnapshotError, whose kind says why, for bytes that no session of this machine wrote; the session is empty
    /// then.
    fn restore(&self, py: Python<'_>, snapshot: Arg<PyBackedBytes>) -> PyResult<()> {
        let restored = {
            let mut inner = self.lock();
            inner.attempts.clear();
            inner.core.restore(&snapshot.0)
        };
        restored.map_err(|error| errors::snapshot(py, error))
    }

    /// The events that are followed, this machine's own first if there are too many: a tuple of EventRecord.
    #[getter]
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let events: Vec<Fields> = {
            let inner = self.lock();
            let events = inner.core.events();
            events
                .map(|event| Fields::of(&inner.events.of(event)))
                .collect()
        };
        let records = events
            .into_iter()
            .map(|event| event.object(py, "EventRecord"));
        PyTuple::new(py, records.collect::<PyResult<Vec<_>>>()?)
    }

    /// Since when this machine is out of service: an aware datetime in UTC, or None if it is in service.
    ///
    /// It is out of service from the first preparation until it has recovered.
    #[getter]
    fn out_of_service_since<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let since = self.lock().core.out_of_service_since();
        since.map_or(Ok(None), |since| datetime(py, since.seconds()))
    }

    /// Since when the version of the API that has advice brings no documents, while the other one does.
    ///
    /// That was so for several polls in a row.
    #[getter]
    fn advice_unseen_since<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let since = self.lock().core.advice_unseen_since();
        since.map_or(Ok(None), |since| datetime(py, since.seconds()))
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

    /// The same. The session's own clock also says how far the time of day is ahead of it.
    fn now_of_day(&mut self, now: Option<Moment>) -> UnixMillis {
        if now.is_none() {
            let (time_of_day, now) = (self.clock.time_of_day(), self.clock.now());
            self.core
                .set_time_of_day_ahead(time_of_day.0.saturating_sub(now.0));
        }
        self.now(now)
    }

    fn next(&mut self, now: Option<Moment>) -> Issued {
        let now = self.now_of_day(now);
        let step = OwnedStep::new(self.core.take_step(now), |event| self.events.of(event));
        let mut issued = Issued {
            step,
            now,
            posted: Vec::new(),
            cancelled: None,
            record: None,
        };
        let attempts = &mut self.attempts;
        match &issued.step {
            OwnedStep::Get { .. } => {}
            OwnedStep::Wait { .. } => self.events.retain_tracked(&self.core),
            OwnedStep::Post { .. } => {
                issued.posted = self.core.posted().map(ToString::to_string).collect();
            }
            OwnedStep::Prepare { event, attempt, .. } => {
                attempts.issued(*attempt, Task::Prepare, &event.event_id);
            }
            OwnedStep::Recover {
                events, attempt, ..
            } => {
                if let Some(last) = events.first() {
                    attempts.issued(*attempt, Task::Recover, &last.event_id);
                }
            }
            OwnedStep::Gate { event, attempt, .. } => {
                attempts.issued(*attempt, Task::Gate, &event.event_id);
            }
            OwnedStep::Cancel { attempt } => {
                issued.cancelled = attempts.event_id(*attempt).map(ToString::to_string);
            }
            OwnedStep::Report(report) => {
                let record = with_report(report, Some(&self.body), |record| {
                    Fields::of(&record.at(now.seconds()))
                });
                issued.record = Some(match report {
                    Report::Decision { decision, .. } => record.with("act_from", decision.act_from),
                    Report::Change { change, event } if change.is_end() => {
                        self.notified.end(&event.event_id);
                        record
                    }
                    _ => record,
                });
            }
        }
        issued
    }

    /// Passes an answer on to the session, if it is for a step in progress. Returns whether it counts.
    fn answer(
        &mut self,
        task: Task,
        event_id: &str,
        attempt: Option<u32>,
        pass_on: impl FnOnce(&mut Session<EVENTS_MAX>, u32) -> AnswerOutcome,
    ) -> bool {
        let attempt = self.attempts.answered(task, event_id, attempt);
        attempt.is_some_and(|attempt| pass_on(&mut self.core, attempt) == AnswerOutcome::Accepted)
    }

    /// The record of a request's outcome, if it has one.
    fn record_of(
        &self,
        outcome: RequestOutcome,
        status: Option<u16>,
        now: UnixMillis,
    ) -> Option<Fields> {
        let fields = |record: Record<'_>| Some(Fields::of(&record.at(now.seconds())));
        match outcome {
            RequestOutcome::PollFailed { cause, retry_in_ms } => fields(Record::PollFailed {
                cause: CauseWord(cause),
                retry_in_ms,
            }),
            RequestOutcome::Approved | RequestOutcome::ApprovalFailed { .. } => {
                let posted = self.core.posted();
                let events: Vec<_> = posted
                    .map(|id| self.events.named(id.as_str(), &self.core))
                    .collect();
                with_approval(&events, status, fields)
            }
            _ => None,
        }
    }
}

fn cause_of(cause: &Bound<'_, PyAny>) -> PyResult<Cause> {
    let py = cause.py();
    if cause.is_instance_of::<PyBaseException>() {
        let is = |kind: Bound<'_, pyo3::types::PyType>| cause.is_instance(&kind);
        return Ok(if is(py.get_type::<PyTimeoutError>())? {
            Cause::Timeout
        } else if is(py.get_type::<PyConnectionRefusedError>())?
            || !is(py.get_type::<PyConnectionError>())?
        {
            Cause::Unreachable
        } else {
            Cause::ConnectionLost
        });
    }
    let known = [
        Cause::Timeout,
        Cause::Unreachable,
        Cause::ConnectionLost,
        Cause::TooLarge,
    ];
    let word: String = cause
        .extract()
        .map_err(|_| errors::argument(py, "expected a cause as a str, or an exception"))?;
    let words = || known.map(|cause| cause.word()).join(", ");
    let found = known.into_iter().find(|cause| cause.word() == word);
    found.ok_or_else(|| {
        errors::config(
            py,
            &format!("unknown cause {word:?}; expected one of {}", words()),
        )
    })
}
