//! `Notifications`, `Notification` and `Request`: events and approvals outside the machine.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyIterator, PyTuple};
use scheduled_events_core::approval::acknowledge;
use scheduled_events_core::{Notification, Notifications, ResourceId, Text, UnixMillis};

use crate::convert::{Arg, datetime_of_millis};
use crate::document::body::Body;
use crate::document::event::PyEvent;
use crate::errors::{self, About};
use crate::ids::EventIds;

/// Parse notifications of Event Grid or Resource Graph. Raises ParseError if the input is not JSON.
///
/// The input is one message, in Event Grid's schema or in that of CloudEvents 1.0, an array of them, a row of Resource
/// Graph, or its answer. What is no Scheduled Event of a machine is left out and counted. In preview at Azure.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn parse_notifications(data: &Bound<'_, PyAny>) -> PyResult<PyNotifications> {
    let (py, body) = (data.py(), Body::from_python(data).about(data.py(), "data")?);
    let notifications = Notifications::parse(body.bytes());
    let notifications =
        notifications.map_err(|error| errors::parse_error(py, error, body.bytes()))?;
    let items = notifications
        .iter()
        .map(|notification| Bound::new(py, PyNotification::new(py, &body, &notification)?));
    let items = PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)?.unbind();
    let validation_code = notifications.validation_code().map(|code| code.to_string());
    let left_out = notifications.left_out();
    Ok(PyNotifications {
        items,
        left_out,
        validation_code,
        body,
    })
}

/// The notifications in one body: a sequence of Notification, in the order of the body.
#[pyclass(frozen, sequence, name = "Notifications", module = "scheduled_events")]
pub(crate) struct PyNotifications {
    items: Py<PyTuple>,
    /// How many messages and rows are left out: other topics, the maintenance of AKS, a validation.
    #[pyo3(get)]
    left_out: usize,
    /// The code of Event Grid's validation. A web hook returns ``{"validationResponse": code}``.
    #[pyo3(get)]
    validation_code: Option<String>,
    body: Body,
}

#[pymethods]
impl PyNotifications {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.items.bind(py).len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.items.bind(py).as_any().get_item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.items.bind(py).try_iter()
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.items.bind(py).as_any().contains(value)
    }

    /// Return the index of a notification. Raises ValueError if it is not there.
    fn index(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.items.bind(py).index(value)
    }

    /// Return how often a notification is there.
    fn count<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyInt>> {
        Ok(self
            .items
            .bind(py)
            .call_method1("count", (value,))?
            .cast_into()?)
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("builtins")?
            .getattr("reversed")?
            .call1((self.items.bind(py),))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let items = self.items.bind(py).to_list().repr()?;
        Ok(format!(
            "<Notifications {items} left_out={}>",
            self.left_out
        ))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let function = py
            .import("scheduled_events")?
            .getattr("parse_notifications")?;
        Ok((function, (PyBytes::new(py, self.body.bytes()),)))
    }
}

/// One notification: that an event is in some state.
///
/// Notifications arrive at least once and in any order. An event goes from ``scheduled`` to ``started`` to ``completed`` or
/// ``canceled``, never back: ignore one of an earlier state.
#[pyclass(frozen, eq, name = "Notification", module = "scheduled_events")]
pub(crate) struct PyNotification {
    /// The id of the message, the same if it is delivered again; None for a row of Resource Graph.
    #[pyo3(get)]
    id: Option<String>,
    /// When the event changed, or the message was sent: an aware datetime in UTC; None if neither is known.
    #[pyo3(get)]
    time: Option<Py<PyAny>>,
    /// The machine, or the set that the machines are in, as received, maybe followed by the event; or empty.
    #[pyo3(get)]
    resource_id: String,
    /// ``scheduled``, ``started``, ``completed``, ``canceled``, or another word; empty if there is none.
    #[pyo3(get)]
    state: String,
    /// The event, with the members that it has in a document.
    #[pyo3(get)]
    event: Py<PyEvent>,
    /// The id of each machine of the event in Azure Resource Manager; compare them without ASCII case. Names that no machine
    /// can have are left out, and it is empty if resource_id is not the id of a machine or a set.
    #[pyo3(get)]
    machines: Py<PyTuple>,
    /// The time as it was received, also outside of the years that Python has.
    moment: Option<UnixMillis>,
}

impl PyNotification {
    fn new(py: Python<'_>, body: &Body, notification: &Notification<'_>) -> PyResult<Self> {
        let machines = notification.machines().into_iter().flatten();
        let machines: Vec<_> = machines
            .filter_map(|machine| Some(machine.ok()?.to_string()))
            .collect();
        let time = notification
            .time()
            .map(|time| datetime_of_millis(py, time))
            .transpose()?
            .flatten();
        Ok(Self {
            id: notification.id().map(|id| id.to_string()),
            time: time.map(Bound::unbind),
            resource_id: notification.resource_id().to_string(),
            state: notification.state().to_string(),
            event: Py::new(py, PyEvent::new(py, body, notification.event()))?,
            machines: PyTuple::new(py, machines)?.unbind(),
            moment: notification.time(),
        })
    }

    /// The notification as a core type, without its id and its resource.
    pub(crate) fn core(&self) -> Notification<'_> {
        Notification::new(self.event.get().core(), self.moment)
    }
}

impl PartialEq for PyNotification {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |py: Python<'_>| {
            let events = self
                .event
                .bind(py)
                .as_any()
                .eq(other.event.bind(py))
                .unwrap_or(false);
            let times = match (&self.time, &other.time) {
                (Some(one), Some(other)) => one.bind(py).eq(other.bind(py)).unwrap_or(false),
                (one, other) => one.is_none() && other.is_none(),
            };
            events && times
        };
        self.id == other.id && self.resource_id == other.resource_id && Python::attach(is_same)
    }
}

#[pymethods]
impl PyNotification {
    #[classattr]
    fn __match_args__() -> (
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
    ) {
        ("id", "time", "resource_id", "state", "event")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = self.id.as_ref().into_pyobject(py)?.repr()?;
        let state = self.state.as_str().into_pyobject(py)?.repr()?;
        Ok(format!(
            "<Notification {id} state={state} event={}>",
            self.event.bind(py).repr()?
        ))
    }
}

/// Return the request to Azure Resource Manager that approves these events: ids, events, or what has one.
///
/// ``resource_id`` is the machine or the set that the events are of, as a Notification has it. Raises ConfigError if
/// that is no such id, or if the id of an event is not a GUID. In preview at Azure.
#[pyfunction]
pub(crate) fn acknowledge_request(
    py: Python<'_>,
    resource_id: Arg<String>,
    event_ids: EventIds,
) -> PyResult<PyRequest> {
    let resource = ResourceId::parse(Text::plain(&resource_id.0));
    let resource = resource
        .map_err(|error| errors::config(py, &error.to_string()))
        .about(py, "resource_id")?;
    let request = acknowledge(resource, &event_ids.0)
        .map_err(|error| errors::config(py, &error.to_string()))
        .about(py, "event_ids")?;
    let (mut path, mut body) = (vec![0; request.path_len()], vec![0; request.body_len()]);
    let path = request
        .write_path(&mut path)
        .map(str::to_owned)
        .unwrap_or_default();
    let length = request.write_body(&mut body).unwrap_or_default();
    body.truncate(length);
    Ok(PyRequest {
        method: request.method(),
        path,
        body: PyBytes::new(py, &body).unbind(),
    })
}

/// A request to Azure Resource Manager. The path follows ``https://management.azure.com``, or another cloud's address.
#[pyclass(frozen, name = "Request", module = "scheduled_events")]
pub(crate) struct PyRequest {
    /// ``POST``.
    #[pyo3(get)]
    method: &'static str,
    /// The path with its query.
    #[pyo3(get)]
    path: String,
    /// The body: empty for one event, JSON for several.
    #[pyo3(get)]
    body: Py<PyBytes>,
}

#[pymethods]
impl PyRequest {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("method", "path", "body")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = self.path.as_str().into_pyobject(py)?.repr()?;
        Ok(format!(
            "<Request {} path={path} body={}>",
            self.method,
            self.body.bind(py).repr()?
        ))
    }
}
