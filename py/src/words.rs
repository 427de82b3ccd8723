//! The package's enumerations and record classes.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};
use scheduled_events_core::record::{EXAMPLES, KINDS, Printable};
use serde::Serialize;

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

/// A class of the package's `_records`.
pub(crate) fn record_class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("scheduled_events._records")?.getattr(name)
}

/// The JSON of a record, from which [`record`] makes the package's object.
pub(crate) fn json(record: &impl Serialize) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

/// The package's object for a record in JSON.
pub(crate) fn record<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    record_class(py, "from_dict")?.call1((loads(py, json)?,))
}

/// The same for a failed poll into which `repeated` earlier ones were merged.
pub(crate) fn failed_poll<'py>(
    py: Python<'py>,
    json: &str,
    repeated: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let more = PyDict::new(py);
    more.set_item("repeated", repeated)?;
    record_class(py, "from_dict")?.call((loads(py, json)?,), Some(&more))
}

/// What Python's `json.loads` makes of the text.
pub(crate) fn loads<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((json,))
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

/// An example of each kind of record in JSON, for tests.
#[pyfunction]
#[pyo3(name = "_record_examples")]
pub(crate) fn record_examples() -> Vec<String> {
    EXAMPLES.iter().map(json).collect()
}

/// The text with each character escaped that would act on a terminal, or hide or reorder the text around it.
#[pyfunction]
#[pyo3(name = "_printable")]
pub(crate) fn printable(text: &str) -> String {
    Printable(text).to_string()
}
