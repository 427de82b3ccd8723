//! The replay server, for tests. `verdict` has what it finds about its clients.

mod verdict;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{mem, process};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use scheduled_events_core::wire::API_VERSION;
use scheduled_events_replay::{ConfigError, Fault, Scenario, Server, ServerConfig};

use crate::convert::{Arg, utf8};
use crate::errors::{self, About};
pub(crate) use verdict::{PyFinding, PyVerdict};

/// A running imitation of Azure's metadata service: a context manager that returns the URL.
#[pyclass(frozen, name = "Replay", module = "scheduled_events")]
pub(crate) struct PyReplay {
    state: Mutex<State>,
    /// The name and the URL of each machine.
    machines: Vec<(String, String)>,
    /// The process that serves. A process that is forked from it has this object, but not its threads.
    process: u32,
}

struct State {
    /// `None` once it is closed.
    server: Option<Server>,
    /// The verdict, once the test has ended.
    verdict: Option<Py<PyVerdict>>,
}

/// Serve a scenario like Azure's metadata service, until the ``with`` block ends or close() is called.
///
/// ``scenario`` is a built-in name or a TOML file; ``speed`` 60 turns minutes into seconds; ``faults`` have the form of
/// the command's ``--fault``. Scenario time starts with the first request for events. The service has the versions up
/// to ``newest_api_version``: ``2024-07-09`` shows advice. With several ``machines`` each has an address, and the
/// faults, of its own. Raises ConfigError for an invalid argument.
#[pyfunction]
#[pyo3(signature = (scenario, *, speed=Arg(1.0), faults=Arg(Vec::new()), vm_name=Arg("WestNO_0".to_owned()),
                    listen=Arg("127.0.0.1:0".to_owned()), seed=None, newest_api_version=Arg(API_VERSION.to_owned()),
                    machines=Arg(1)),
       text_signature = "(scenario, *, speed=1.0, faults=(), vm_name='WestNO_0', listen='127.0.0.1:0', seed=None, \
                         newest_api_version='2020-07-01', machines=1)")]
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
    machines: Arg<u32>,
) -> PyResult<PyReplay> {
    let listen: SocketAddr = listen
        .0
        .parse()
        .map_err(|_| {
            let found = &listen.0;
            errors::config(
                py,
                &format!("{found:?} is not an address with a port, such as 127.0.0.1:0"),
            )
        })
        .about(py, "listen")?;
    let scenario = Scenario::load(&utf8(&scenario.str()?)?)
        .map_err(|error| errors::config(py, &error.to_string()))
        .about(py, "scenario")?;
    let mut config = ServerConfig::new(scenario)
        // A test asks for a verdict or not.
        .without_verdict()
        .speed(speed.0)
        .vm_name(&vm_name.0)
        .newest_api_version(newest_api_version.0)
        .machines(machines.0)
        .listen(listen);
    for text in &faults.0 {
        config = config.fault(fault_of(py, text).about(py, "faults")?);
    }
    if let Some(seed) = seed {
        config = config.seed(seed.0);
    }
    config.check().or_else(|error| {
        let argument = match error {
            ConfigError::Speed => "speed",
            ConfigError::VmName => "vm_name",
            ConfigError::Machines => "machines",
            _ => "newest_api_version",
        };
        Err(errors::config(py, &error.to_string())).about(py, argument)
    })?;
    let server = py.detach(|| Server::start(config))?;
    let machines = server.machines().iter();
    let machines = machines
        .map(|machine| (machine.name.clone(), machine.url()))
        .collect();
    Ok(PyReplay {
        state: Mutex::new(State {
            server: Some(server),
            verdict: None,
        }),
        machines,
        process: process::id(),
    })
}

/// Return the names of the built-in scenarios, each with its description.
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
    /// The endpoint for a client of the first machine, such as ``http://127.0.0.1:40123``.
    #[getter]
    fn url(&self) -> &str {
        &self.machines[0].1
    }

    /// The endpoints of all machines by their names, that of the first one first.
    #[getter]
    fn machines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let machines = PyDict::new(py);
        for (name, url) in &self.machines {
            machines.set_item(name, url)?;
        }
        Ok(machines)
    }

    /// Whether every event of the scenario has appeared and ended.
    #[getter]
    fn finished(&self) -> PyResult<bool> {
        self.with_server(Server::finished)
    }

    /// Apply the next change of the scenario now, and return whether there was one.
    ///
    /// There is none before the first request for events, and none once every event has ended. With a low speed, such as
    /// 0.01, nothing changes but by a step, so that a test neither waits nor depends on how fast the machine is.
    fn step(&self) -> PyResult<bool> {
        self.with_server(Server::step)
    }

    /// Add a fault of the form of ``faults`` while the server runs, before its others.
    ///
    /// Its window counts from now on: ``post.status:503@1`` is the next approval. Without ``machine``, which is one of
    /// the names, it is a fault of every machine.
    #[pyo3(signature = (fault, machine=None))]
    fn inject_fault(
        &self,
        py: Python<'_>,
        fault: Arg<String>,
        machine: Option<Arg<String>>,
    ) -> PyResult<()> {
        let fault = fault_of(py, &fault.0).about(py, "fault")?;
        for number in self.numbers(py, machine)? {
            self.with_server(|server| server.inject_fault(number, fault.clone()))?
                .map_err(|error| errors::config(py, &error.to_string()))?;
        }
        Ok(())
    }

    /// Remove the faults of a machine; without ``machine`` those of every machine.
    #[pyo3(signature = (machine=None))]
    fn clear_faults(&self, py: Python<'_>, machine: Option<Arg<String>>) -> PyResult<()> {
        for number in self.numbers(py, machine)? {
            self.with_server(|server| server.clear_faults(number))?;
        }
        Ok(())
    }

    /// Return the requests so far, oldest first.
    ///
    /// Each is a dictionary of machine, method, target, headers, body and status.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let requests = self.with_server(Server::requests)?;
        let requests = requests.into_iter().map(|request| {
            let dict = PyDict::new(py);
            let machine = self.machines.get(request.machine);
            dict.set_item("machine", machine.map(|(name, _)| name))?;
            dict.set_item("method", request.method)?;
            dict.set_item("target", request.target)?;
            dict.set_item("headers", request.headers)?;
            dict.set_item("body", PyBytes::new(py, &request.body))?;
            dict.set_item("status", request.status)?;
            Ok(dict)
        });
        PyList::new(py, requests.collect::<PyResult<Vec<_>>>()?)
    }

    /// End the test, and return which rules of the wire contract the clients kept: they send no more requests.
    ///
    /// The server runs on. Later calls return the same, also after close(), which ends the test if nothing else did.
    fn finish(&self, py: Python<'_>) -> PyResult<Py<PyVerdict>> {
        let verdicts = {
            let state = self.lock();
            if let Some(verdict) = &state.verdict {
                return Ok(verdict.clone_ref(py));
            }
            let server = state.server.as_ref();
            verdict::conclude(server.ok_or_else(|| errors::closed("replay server"))?)
        };
        // Not while the state is locked: Python code may run while objects are made.
        let verdict = Py::new(py, PyVerdict::new(py, &verdicts)?)?;
        Ok(self.lock().verdict.get_or_insert(verdict).clone_ref(py))
    }

    /// Stop the server and free its port.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != process::id() {
            return Ok(());
        }
        let open = self.lock().server.is_some();
        if open {
            self.finish(py)?;
        }
        let server = self.lock().server.take();
        py.detach(|| drop(server));
        Ok(())
    }

    fn __enter__(&self) -> &str {
        self.url()
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<Replay at {}>", self.url())
    }
}

impl PyReplay {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_server<T>(&self, with: impl FnOnce(&Server) -> T) -> PyResult<T> {
        let state = self.lock();
        let server = state.server.as_ref();
        server
            .map(with)
            .ok_or_else(|| errors::closed("replay server"))
    }

    /// The number of the machine of this name; of every machine without a name.
    fn numbers(
        &self,
        py: Python<'_>,
        machine: Option<Arg<String>>,
    ) -> PyResult<std::ops::Range<usize>> {
        let Some(Arg(wanted)) = machine else {
            return Ok(0..self.machines.len());
        };
        let names = || self.machines.iter().map(|(name, _)| name.as_str());
        let number = names().position(|name| name == wanted);
        number.map(|number| number..number + 1).ok_or_else(|| {
            let known: Vec<_> = names().take(3).collect();
            let more = if self.machines.len() > 3 { ", …" } else { "" };
            let known = known.join(", ");
            let message = format!("machine: found {wanted:?}, expected one of {known}{more}");
            errors::config(py, &message)
        })
    }
}

fn fault_of(py: Python<'_>, text: &str) -> PyResult<Fault> {
    text.parse::<Fault>()
        .map_err(|error| errors::config(py, &error.to_string()))
}

impl Drop for PyReplay {
    fn drop(&mut self) {
        if self.process != process::id() {
            // The threads to wait for and the connections to shut down are the parent's.
            let state = self.state.get_mut();
            mem::forget(state.unwrap_or_else(PoisonError::into_inner).server.take());
        }
    }
}
