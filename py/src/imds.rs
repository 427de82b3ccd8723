//! The metadata service: one request, one answer, waited for without the interpreter's lock.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scheduled_events::imds::{API_VERSION, ENDPOINT, Imds as Transport, RequestFailure};
use scheduled_events::limits::NAME_TIMEOUT;
use scheduled_events_core::{StartRequests, limits};

use crate::convert::span;
use crate::document::Document;
use crate::errors;

/// How long a wait lasts before signals are looked at; what Ctrl-C has to wait at most.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The metadata service, behind the package's Client.
#[pyclass(frozen, module = "scheduled_events._native")]
pub(crate) struct Imds {
    pub(crate) transport: Transport,
    pub(crate) timeout: Option<Duration>,
    pace: Mutex<Pace>,
}

#[derive(Default)]
struct Pace {
    /// The first request may wake the service up, which takes minutes.
    answered: bool,
}

#[pymethods]
impl Imds {
    #[new]
    fn new(
        py: Python<'_>,
        endpoint: Option<&str>,
        api_version: Option<&str>,
        timeout: Option<f64>,
        allow_endpoint: bool,
    ) -> PyResult<Self> {
        let (endpoint, version) = (endpoint.unwrap_or(ENDPOINT), api_version.unwrap_or(API_VERSION));
        let transport = Transport::new(endpoint, version, allow_endpoint)
            .map_err(|why| errors::config(py, &why.replace("--allow-endpoint", "allow_endpoint=True")))?;
        let timeout = timeout.map(|seconds| span(seconds, "timeout")).transpose()?;
        Ok(Self { transport, timeout, pace: Mutex::default() })
    }

    fn poll(&self, py: Python<'_>) -> PyResult<Option<Document>> {
        let (transport, timeout) = (self.transport.clone(), self.timeout());
        let answer = waited(py, move || transport.events(timeout))?.map_err(|failure| failed(py, &failure))?;
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).answered = true;
        match answer.status {
            200 if answer.body.trim_ascii().is_empty() => Ok(None),
            200 => Document::of(py, &answer.body).map(Some),
            status => Err(errors::refused(py, status, &answer.body)),
        }
    }

    fn approve(&self, py: Python<'_>, ids: Vec<String>) -> PyResult<()> {
        let (transport, timeout, body) = (self.transport.clone(), self.timeout(), body(&ids));
        let answer = waited(py, move || transport.approve(&body, timeout))?.map_err(|failure| failed(py, &failure))?;
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).answered = true;
        match answer.status {
            200..=299 => Ok(()),
            status => Err(errors::refused(py, status, &answer.body)),
        }
    }

    fn vm_name(&self, py: Python<'_>) -> PyResult<String> {
        let (transport, timeout) = (self.transport.clone(), self.timeout.unwrap_or(NAME_TIMEOUT));
        let name = waited(py, move || transport.vm_name(timeout))?;
        name.map_err(|why| errors::no_answer(py, &format!("this machine's name is not known: {why}"), "no-name", None))
    }

    #[getter]
    fn endpoint(&self) -> &str {
        self.transport.endpoint()
    }
}

impl Imds {
    fn timeout(&self) -> Duration {
        let answered = self.pace.lock().unwrap_or_else(PoisonError::into_inner).answered;
        let usual = if answered { limits::TIMEOUT_MS } else { limits::FIRST_TIMEOUT_MS };
        self.timeout.unwrap_or(Duration::from_millis(u64::from(usual)))
    }
}

/// The body of a POST that approves these events.
#[pyfunction]
#[pyo3(name = "_start_requests")]
pub(crate) fn start_requests(py: Python<'_>, ids: Vec<String>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &body(&ids))
}

fn body(ids: &[String]) -> Vec<u8> {
    let approval = StartRequests::new(ids);
    let mut body = vec![0; approval.len()];
    let length = approval.write(&mut body).unwrap_or(0);
    body.truncate(length);
    body
}

fn failed(py: Python<'_>, failure: &RequestFailure) -> PyErr {
    errors::unreachable(py, failure.cause, &failure.detail)
}

/// Does `work` on a thread of its own, and waits for it with an eye on signals: Ctrl-C ends the wait, not the work,
/// which its own time-out ends.
fn waited<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new().name("scheduled-events-request".into()).spawn(move || {
        let _ = sender.send(work());
    })?;
    let receiver = Mutex::new(receiver);
    loop {
        let told = py.detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE));
        match told {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the request came to no end")),
        }
    }
}
