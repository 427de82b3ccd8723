//! `Document`: a parsed document and its events. `body` has the bytes that they share, and `event` is one of them.

pub(crate) mod body;
pub(crate) mod event;

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDictItems, PyDictKeys, PyDictValues, PyIterator, PyTuple};
use scheduled_events_core::record::Record;
use scheduled_events_core::{Document, Incarnation};

use crate::convert::with_names;
use crate::errors::About;
use crate::wire::JsonObject;
use crate::words::{Fields, printed};
use body::Body;
use event::PyEvent;

/// Parse a Scheduled Events document. Raises ParseError if the input is not one.
///
/// Anything invalid inside one event is among the document's problems. Strings are made only when they are read.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn parse(data: &Bound<'_, PyAny>) -> PyResult<PyDocument> {
    PyDocument::new(data.py(), Body::from_python(data).about(data.py(), "data")?)
}

/// A Scheduled Events document, validated when it is parsed.
///
/// Items by their JSON names (``document["Events"]``) are what a script written for ``json.loads`` expects.
#[pyclass(frozen, mapping, name = "Document", module = "scheduled_events")]
pub(crate) struct PyDocument {
    /// The events, in the document's order. Those without an id, or with the id of an earlier one, are left out, and are
    /// problems. Only the first 64 ids are compared.
    #[pyo3(get)]
    events: Py<PyTuple>,
    /// Changes whenever the document changes; compare it for equality only.
    #[pyo3(get)]
    incarnation: Py<PyAny>,
    body: Body,
}

impl PyDocument {
    fn new(py: Python<'_>, body: Body) -> PyResult<Self> {
        let document = body.parse(py)?;
        let events = document
            .events()
            .map(|event| Bound::new(py, PyEvent::new(py, &body, &event)));
        let events = PyTuple::new(py, events.collect::<PyResult<Vec<_>>>()?)?.unbind();
        let incarnation = match document.incarnation() {
            Incarnation::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
            Incarnation::Text(text) => text.to_string().into_pyobject(py)?.into_any().unbind(),
            Incarnation::Absent => py.None(),
        };
        Ok(Self {
            events,
            incarnation,
            body,
        })
    }

    /// Parses a copy of `bytes`.
    pub(crate) fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Self::new(py, Body::copy(py, bytes))
    }

    /// Parses the document again.
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<Document<'_>> {
        self.body.parse(py)
    }
}

impl JsonObject for PyDocument {
    fn object(&self) -> &str {
        std::str::from_utf8(self.body.bytes())
            .unwrap_or_default()
            .trim_start_matches('\u{feff}')
    }

    /// `Events` is a list of `Event`.
    fn own_value<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyAny>> {
        (name == "Events").then(|| self.events.bind(py).to_list().into_any())
    }
}

#[pymethods]
impl PyDocument {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("incarnation", "events")
    }

    /// What is invalid in the document: a tuple of Problem.
    #[getter]
    fn problems<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let document = self.core(py)?;
        let problems = document.problems().map(|problem| {
            let record = Record::from_problem(&problem, Some(self.body.bytes()));
            Fields::of(&record)
                .with("offset", problem.offset)
                .record(py)
        });
        PyTuple::new(py, problems.collect::<PyResult<Vec<_>>>()?)
    }

    /// Whether an event of the document concerns one of these names.
    fn concerns(&self, vm_names: &Bound<'_, PyAny>) -> PyResult<bool> {
        let events = self.events.bind(vm_names.py());
        with_names(vm_names, |names| {
            events.iter_borrowed().any(|event| {
                event
                    .cast::<PyEvent>()
                    .is_ok_and(|event| event.get().is_about(names))
            })
        })
    }

    /// Return the document's own record, as the command prints it with ``--json``.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        printed(py, &Record::from_document(&self.core(py)?))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.item(py, name)
    }

    /// Return the member of this JSON name, or the default.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, key)?.or(default))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.contains(name)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.dict(py)?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.dict(py)?.try_iter()
    }

    /// The JSON names of the document's members.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictKeys>> {
        self.view(py, "keys")
    }

    /// The values of the document's members.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictValues>> {
        self.view(py, "values")
    }

    /// The JSON names and values of the document's members.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictItems>> {
        self.view(py, "items")
    }

    /// The bytes that were parsed.
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.body.bytes())
    }

    fn __eq__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.equals(py, other)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        (
            self.incarnation.bind(py).hash()?,
            self.events.bind(py).len(),
        )
            .hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (incarnation, events) = (
            self.incarnation.bind(py).repr()?,
            self.events.bind(py).len(),
        );
        Ok(format!(
            "<Document incarnation={incarnation} events={events}>"
        ))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((
            py.import("scheduled_events")?.getattr("parse")?,
            (self.__bytes__(py),),
        ))
    }
}
