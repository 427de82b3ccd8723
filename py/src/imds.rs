//! The metadata service: one request and its response, awaited without the interpreter's lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scheduled_events::imds::{
    API_VERSION, ENDPOINT, Imds, ImdsError, RequestFailure, name_unknown,
};
use scheduled_events::limits::NAME_TIMEOUT;
use scheduled_events::watch::Poller;
use scheduled_events_core::{StartRequests, limits};

use crate::convert::{Arg, span};
use crate::document::PyDocument;
use crate::errors::{self, About};
use crate::ids::EventIds;

/// How long a wait lasts before signals are checked: the longest delay of Ctrl-C.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The metadata service, for the package's Client.
#[pyclass(frozen, name = "Imds", module = "scheduled_events._native")]
pub(crate) struct PyImds {
    pub(crate) transport: Imds,
    pub(crate) timeout: Option<Duration>,
    /// Whether a request was answered. The first one may start the service, which takes minutes.
    answered: AtomicBool,
    /// The lines of the trace that Python has not logged yet, if there is a trace.
    trace: Option<Arc<Mutex<Vec<String>>>>,
}

#[pymethods]
impl PyImds {
    #[new]
    fn new(
        py: Python<'_>,
        endpoint: Option<Arg<String>>,
        api_version: Option<Arg<String>>,
        timeout: Option<Arg<f64>>,
        allow_endpoint: Arg<bool>,
        user_agent: Option<Arg<String>>,
        trace: bool,
    ) -> PyResult<Self> {
        let (endpoint, version) = (
            endpoint.as_ref().map_or(ENDPOINT, |endpoint| &endpoint.0),
            api_version
                .as_ref()
                .map_or(API_VERSION, |version| &version.0),
        );
        let transport = if allow_endpoint.0 {
            Imds::at_any_endpoint(endpoint)
        } else {
            Imds::new(endpoint)
        };
        let transport = transport.and_then(|imds| imds.with_api_version(version));
        let transport = transport.map_err(|error| {
            let advice = match error {
                ImdsError::NotLocal { .. } => "; allow_endpoint=True accepts it",
                _ => "",
            };
            errors::config(py, &format!("{error}{advice}"))
        })?;
        let transport = match user_agent {
            Some(text) => transport
                .with_user_agent(&text.0)
                .map_err(|error| errors::config(py, &error.to_string()))
                .about(py, "user_agent")?,
            None => transport,
        };
        let timeout = timeout
            .map(|seconds| span(py, seconds.0, "timeout"))
            .transpose()?;
        let trace = trace.then(Arc::<Mutex<Vec<String>>>::default);
        let transport = match &trace {
            Some(lines) => {
                let lines = Arc::clone(lines);
                transport.with_trace(move |exchange| {
                    lines
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(exchange.to_string());
                })
            }
            None => transport,
        };
        Ok(Self {
            transport,
            timeout,
            answered: AtomicBool::new(false),
            trace,
        })
    }

    /// Takes the lines of the trace that were not taken yet.
    fn take_trace(&self) -> Vec<String> {
        let lines = self
            .trace
            .as_ref()
            .map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner));
        lines
            .map(|mut lines| std::mem::take(&mut *lines))
            .unwrap_or_default()
    }

    fn poll(&self, py: Python<'_>) -> PyResult<PyDocument> {
        let (transport, timeout) = (self.transport.clone(), self.timeout());
        // Nobody waits for one connection: a request that may take two minutes is sent again beside the first one.
        let poll = move || {
            let version = transport.api_version();
            let polled = Poller::new(&transport).poll(version, version, timeout, &mut |_| ());
            polled.answer
        };
        let answer = wait_for(py, poll)?.map_err(|failure| failed(py, &failure))?;
        self.answered.store(true, Ordering::Relaxed);
        match answer.status {
            200 if !answer.body.trim_ascii().is_empty() => PyDocument::from_bytes(py, &answer.body),
            _ => Err(errors::refused(py, &answer)),
        }
    }

    fn approve(&self, py: Python<'_>, events: EventIds) -> PyResult<()> {
        let (transport, timeout, body) = (self.transport.clone(), self.timeout(), body(&events.0));
        let answer = wait_for(py, move || transport.approve(&body, timeout))?
            .map_err(|failure| failed(py, &failure))?;
        self.answered.store(true, Ordering::Relaxed);
        match answer.status {
            200..=299 => Ok(()),
            _ => Err(errors::refused(py, &answer)),
        }
    }

    fn vm_name(&self, py: Python<'_>) -> PyResult<String> {
        let (transport, timeout) = (self.transport.clone(), self.timeout.unwrap_or(NAME_TIMEOUT));
        let name = wait_for(py, move || transport.vm_name(timeout))?;
        name.map_err(|reason| errors::no_response(py, &name_unknown(&reason), "no-name", None))
    }

    #[getter]
    fn endpoint(&self) -> &str {
        self.transport.endpoint()
    }
}

impl PyImds {
    /// The metadata service for a watcher, which logs its own trace with `log`.
    pub(crate) fn for_watcher(&self, log: impl Fn(String) + Send + Sync + 'static) -> Imds {
        let transport = self.transport.clone();
        if self.trace.is_none() {
            return transport;
        }
        transport.with_trace(move |exchange| log(exchange.to_string()))
    }

    fn timeout(&self) -> Duration {
        let answered = self.answered.load(Ordering::Relaxed);
        let default = if answered {
            limits::TIMEOUT_MS
        } else {
            limits::FIRST_TIMEOUT_MS
        };
        self.timeout
            .unwrap_or(Duration::from_millis(u64::from(default)))
    }
}

/// The body of a POST that approves these events.
#[pyfunction]
#[pyo3(name = "_start_requests")]
pub(crate) fn start_requests(py: Python<'_>, events: EventIds) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &body(&events.0))
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

/// Runs `work` on its own thread and waits for it. Ctrl-C ends the wait; the work ends with its own time-out.
fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("scheduled-events-request".into())
        .spawn(move || {
            let _ = sender.send(work());
        })?;
    let receiver = Mutex::new(receiver);
    loop {
        let result = py.detach(|| {
            receiver
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv_timeout(SLICE)
        });
        match result {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the request's thread panicked"));
            }
        }
    }
}
