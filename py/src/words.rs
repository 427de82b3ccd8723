//! The package's enumerations, and how its records are made.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};
use scheduled_events_core::record::{EXAMPLES, KINDS, Printable, Record};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::convert::{Moment, datetime};

/// An enumeration of the package, `scheduled_events._words`.
#[derive(Clone, Copy)]
pub(crate) enum Enumeration {
    EventType,
    EventStatus,
    EventSource,
    Action,
}

impl Enumeration {
    /// The member for `word`, or the word itself as a `str` if the enumeration does not have it.
    pub(crate) fn member<'py>(self, py: Python<'py>, word: &str) -> PyResult<Bound<'py, PyAny>> {
        let word = PyString::new(py, word);
        let member = self.members(py)?.get_item(&word)?;
        Ok(member.unwrap_or_else(|| word.into_any()))
    }

    fn members(self, py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
        static MEMBERS: [PyOnceLock<Py<PyDict>>; 4] = [const { PyOnceLock::new() }; 4];
        let (place, name) = match self {
            Self::EventType => (0, "EventType"),
            Self::EventStatus => (1, "EventStatus"),
            Self::EventSource => (2, "EventSource"),
            Self::Action => (3, "Action"),
        };
        let members = MEMBERS[place].get_or_try_init(py, || {
            let all = py.import("scheduled_events._words")?.getattr("MEMBERS")?;
            PyResult::Ok(all.get_item(name)?.cast_into::<PyDict>()?.unbind())
        })?;
        Ok(members.bind(py))
    }
}

/// The fields of a record or of a step. They outlive what they were read from, and need no interpreter until Python gets them.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// The members of a record or of an event.
    pub(crate) fn of(record: &impl Serialize) -> Self {
        match serde_json::to_value(record) {
            Ok(Value::Object(members)) => Self(members),
            _ => Self(Map::new()),
        }
    }

    /// The same with a field that is not a member.
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.insert(name.to_owned(), json!(value));
        self
    }

    /// The package's record, of the class of its kind.
    pub(crate) fn record(mut self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let kind = self.0.remove("record").unwrap_or_default();
        let class = class(py, "_RECORDS")?.get_item(kind.as_str())?;
        class.call((), Some(&self.arguments(py)?))
    }

    /// An object of this class of the package's `_records`.
    pub(crate) fn object<'py>(self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        class(py, name)?.call((), Some(&self.arguments(py)?))
    }

    /// The fields as arguments of a class.
    pub(crate) fn arguments(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let arguments = PyDict::new(py);
        for (name, value) in self.0 {
            let value = argument(py, &name, value)?;
            arguments.set_item(name, value)?;
        }
        Ok(arguments)
    }
}

/// The value of the field `name`.
fn argument<'py>(py: Python<'py>, name: &str, value: Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Number(number) => number.as_u64().into_bound_py_any(py),
        Value::String(_)
            if matches!(name, "act_from" | "not_before" | "since" | "time" | "until") =>
        {
            let moment = serde_json::from_value(value).ok();
            let moment = moment.map_or(Ok(None), |moment| datetime(py, moment))?;
            moment.into_bound_py_any(py)
        }
        Value::String(word) if name == "action" => Enumeration::Action.member(py, &word),
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| argument(py, name, item));
            PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_bound_py_any(py)
        }
        Value::Object(event) => Fields(event).object(py, "EventRecord"),
    }
}

/// A class of the package's `_records`.
pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("scheduled_events._records")?.getattr(name)
}

/// What Python's `json.loads` makes of the text.
pub(crate) fn loads<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((json,))
}

/// The record as the command prints it, with its members in their order.
pub(crate) fn printed<'py>(py: Python<'py>, record: &Record<'_>) -> PyResult<Bound<'py, PyAny>> {
    loads(py, &serde_json::to_string(record).unwrap_or_default())
}

/// The members of each kind of record, without `record` and `time`.
#[pyfunction]
#[pyo3(name = "_record_members")]
pub(crate) fn record_members(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let kinds = PyDict::new(py);
    for kind in KINDS {
        kinds.set_item(
            kind.name,
            PyTuple::new(
                py,
                kind.members().map(|member| member.name).collect::<Vec<_>>(),
            )?,
        )?;
    }
    Ok(kinds)
}

/// An example of each kind of record as the command prints it, for tests.
#[pyfunction]
#[pyo3(name = "_record_examples")]
pub(crate) fn record_examples(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    EXAMPLES
        .iter()
        .map(|example| printed(py, example))
        .collect()
}

/// The object of the example of this kind, for tests.
#[pyfunction]
#[pyo3(name = "_record_example", signature = (kind, time=None))]
pub(crate) fn record_example<'py>(
    py: Python<'py>,
    kind: &str,
    time: Option<Moment>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let example = EXAMPLES.iter().find(|example| example.kind() == kind);
    let fields = example.map(|example| match time {
        Some(time) => Fields::of(&example.at(time.0.seconds())),
        None => Fields::of(example),
    });
    fields.map(|fields| fields.record(py)).transpose()
}

/// The text with each character escaped that would act on a terminal, or hide or reorder the text around it.
#[pyfunction]
#[pyo3(name = "_printable")]
pub(crate) fn printable(text: &str) -> String {
    Printable(text).to_string()
}
