//! The replay server, for tests.

use std::sync::{Mutex, PoisonError};
use std::{mem, process};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use scheduled_events_core::wire::API_VERSION;
use scheduled_events_replay::{Fault, Scenario, Server, ServerConfig};

use crate::convert::{Arg, utf8};
use crate::errors;

/// A running imitation of Azure's metadata service: a context manager that returns the URL.
#[pyclass(frozen, name = "Replay", module = "scheduled_events")]
pub(crate) struct PyReplay {
    server: Mutex<Option<Server>>,
    url: String,
    /// The process that serves. A process that is forked from it has this object, but not its threads.
    process: u32,
}

/// Serves a scenario like Azure's metadata service, until the ``with`` block ends or close() is called.
///
/// ``scenario`` is a built-in name or a TOML file; ``speed`` 60 turns minutes into seconds; ``faults`` have the
/// form of the command's ``--fault``. Scenario time starts with the first request for events. The service has the
/// versions up to ``newest_api_version``: ``2024-07-09`` shows advice.
#[pyfunction]
#[pyo3(signature = (scenario, *, speed=Arg(1.0), faults=Arg(Vec::new()), vm_name=Arg("WestNO_0".to_owned()),
                    listen=Arg("127.0.0.1:0".to_owned()), seed=None, newest_api_version=Arg(API_VERSION.to_owned())),
       text_signature = "(scenario, *, speed=1.0, faults=(), vm_name='WestNO_0', listen='127.0.0.1:0', seed=None, newest_api_version='2020-07-01')")]
#[allow(clippy::similar_names, clippy::too_many_arguments)] // They are the command's.
pub(crate) fn replay(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    speed: Arg<f64>,
    faults: Arg<Vec<String>>,
    vm_name: Arg<String>,
    listen: Arg<String>,
    seed: Option<Arg<u64>>,
    newest_api_version: Arg<String>,
) -> PyResult<PyReplay> {
    let listen = listen.0;
    let listen = listen.parse().map_err(|_| {
        errors::config(
            py,
            &format!("{listen:?} is not an address with a port, such as 127.0.0.1:0"),
        )
    })?;
    let scenario = Scenario::load(&utf8(&scenario.str()?)?)
        .map_err(|error| errors::config(py, &error.to_string()))?;
    let mut config = ServerConfig::new(scenario)
        .without_verdict()
        .speed(speed.0)
        .vm_name(&vm_name.0)
        .newest_api_version(newest_api_version.0)
        .listen(listen);
    for fault in faults.0 {
        config = config.fault(
            fault
                .parse::<Fault>()
                .map_err(|error| errors::config(py, &error.to_string()))?,
        );
    }
    if let Some(seed) = seed {
        config = config.seed(seed.0);
    }
    let server = py
        .detach(|| Server::start(config))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => errors::config(py, &error.to_string()),
            _ => error.into(),
        })?;
    let url = server.url();
    Ok(PyReplay {
        server: Mutex::new(Some(server)),
        url,
        process: process::id(),
    })
}

/// The names of the built-in scenarios, each with its description.
#[pyfunction]
pub(crate) fn scenarios(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, about) in Scenario::builtins() {
        dict.set_item(name, about)?;
    }
    Ok(dict)
}

#[pymethods]
impl PyReplay {
    /// The endpoint for a client, such as ``http://127.0.0.1:40123``.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Whether every event of the scenario has appeared and ended.
    #[getter]
    fn finished(&self) -> PyResult<bool> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server
            .as_ref()
            .map(Server::finished)
            .ok_or_else(|| errors::closed("replay server"))
    }

    /// Apply the next change of the scenario now, and return whether there was one.
    ///
    /// There is none before the first request for events, and none once every event has ended. With a low speed, such as
    /// 0.01, nothing changes but by a step, so that a test neither waits nor depends on how fast the machine is.
    fn step(&self) -> PyResult<bool> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server
            .as_ref()
            .map(Server::step)
            .ok_or_else(|| errors::closed("replay server"))
    }

    /// The requests so far, oldest first: dictionaries of method, target, headers, body and status.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let requests = {
            let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
            server
                .as_ref()
                .map(Server::requests)
                .ok_or_else(|| errors::closed("replay server"))?
        };
        let requests = requests.into_iter().map(|request| {
            let dict = PyDict::new(py);
            dict.set_item("method", request.method)?;
            dict.set_item("target", request.target)?;
            dict.set_item("headers", request.headers)?;
            dict.set_item("body", PyBytes::new(py, &request.body))?;
            dict.set_item("status", request.status)?;
            Ok(dict)
        });
        PyList::new(py, requests.collect::<PyResult<Vec<_>>>()?)
    }

    /// Stops the server and frees its port.
    fn close(&self, py: Python<'_>) {
        if self.process != process::id() {
            return;
        }
        let server = self
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        py.detach(|| drop(server));
    }

    fn __enter__(&self) -> &str {
        &self.url
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<Replay at {}>", self.url)
    }
}

impl Drop for PyReplay {
    fn drop(&mut self) {
        if self.process != process::id() {
            // The threads to wait for and the connections to shut down are the parent's.
            mem::forget(
                self.server
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
        }
    }
}
