//! `Document`: what was read, its events made.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyDictItems, PyDictKeys, PyDictValues, PyIterator, PyList, PyString, PyTuple};
use scheduled_events::record::Record;
use scheduled_events_core::{Document as CoreDocument, Incarnation, Member};

use crate::body::Body;
use crate::convert::with_names;
use crate::errors::parse_error;
use crate::event::Event;
use crate::{wire, words};

/// Reads a Scheduled Events document, as the metadata service gives it.
///
/// Texts are made only when they are read. Raises ParseError for what is no document; what is odd in one event is
/// among the document's problems.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn parse(data: &Bound<'_, PyAny>) -> PyResult<Document> {
    Document::new(data.py(), Body::of(data)?)
}

/// A Scheduled Events document, checked once.
///
/// Items by the wire's names (``document["Events"]``) give what a script written for ``json.loads`` expects.
#[pyclass(frozen, mapping, module = "scheduled_events")]
pub(crate) struct Document {
    /// The events, in the document's order; those without an id of their own are left out, and are problems.
    #[pyo3(get)]
    events: Py<PyTuple>,
    body: Body,
    incarnation: Key,
}

/// `DocumentIncarnation`, owned.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Number(u64),
    Text(String),
    Absent,
}

impl Key {
    fn of(incarnation: Incarnation<'_>) -> Self {
        match incarnation {
            Incarnation::Number(number) => Self::Number(number),
            Incarnation::Text(text) => Self::Text(text.to_string()),
            Incarnation::Absent => Self::Absent,
        }
    }
}

impl Document {
    fn new(py: Python<'_>, body: Body) -> PyResult<Self> {
        // A real document mostly has one event, which needs no list.
        let (mut first, mut others) = (None, Vec::new());
        let document = body.read_each(py, |entry| {
            let event = Event::new(py, &body, entry).and_then(|event| Bound::new(py, event));
            if first.is_none() { first = Some(event) } else { others.push(event) }
        })?;
        let events = if others.is_empty() {
            PyTuple::new(py, first.transpose()?)?
        } else {
            let mut events = first.into_iter().chain(others).collect::<PyResult<Vec<_>>>()?;
            if document.events().len() != events.len() {
                let mut standing = document.events().map(|event| event.index()).peekable();
                events.retain(|event| standing.next_if_eq(&event.get().index()).is_some());
            }
            PyTuple::new(py, events)?
        };
        Ok(Self { events: events.unbind(), incarnation: Key::of(document.incarnation()), body })
    }

    /// Reads a document out of bytes of one's own.
    pub(crate) fn of(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Self::new(py, Body::copy(py, bytes))
    }

    /// The document as core knows it, read again.
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<CoreDocument<'_>> {
        CoreDocument::parse(self.body.bytes()).map_err(|error| parse_error(py, error, self.body.bytes()))
    }

    fn object(&self) -> &str {
        std::str::from_utf8(self.body.bytes()).unwrap_or_default().trim_start_matches('\u{feff}')
    }

    fn list<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        self.events.bind(py).to_list()
    }

    fn dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let dict = PyDict::new(py);
        for (name, raw) in scheduled_events_core::Members::of(slf.get().object()) {
            let value = if name == *"Events" { slf.get().list(py).into_any() } else { wire::value(py, raw)? };
            dict.set_item(name.to_string(), value)?;
        }
        Ok(dict)
    }
}

#[pymethods]
impl Document {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("incarnation", "events")
    }

    /// Changes with every change of the document; good for equality, for nothing else.
    #[getter]
    fn incarnation<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match &self.incarnation {
            Key::Number(number) => Some(number.into_pyobject(py)?.into_any()),
            Key::Text(text) => Some(text.into_pyobject(py)?.into_any()),
            Key::Absent => None,
        })
    }

    /// What is odd in the document: a tuple of Problem.
    #[getter]
    fn problems<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let document = self.core(py)?;
        let class = words::record_class(py, "Problem")?;
        let problems = document.problems().map(|problem| {
            let Record::Problem { event, member, kind, line, column } =
                Record::from_problem(&problem, Some(self.body.bytes()))
            else {
                return Err(PyTypeError::new_err("a problem is a problem"));
            };
            class.call1((event, member.map(Member::name), kind.word(), line, column, problem.offset))
        });
        PyTuple::new(py, problems.collect::<PyResult<Vec<_>>>()?)
    }

    /// Whether an event of the document concerns one of these names.
    fn concerns(&self, vm_names: &Bound<'_, PyAny>) -> PyResult<bool> {
        let events = self.events.bind(vm_names.py());
        with_names(vm_names, |names| {
            events.iter_borrowed().any(|event| event.cast::<Event>().is_ok_and(|event| event.get().is_about(names)))
        })
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::get(slf, name, None)?.ok_or_else(|| PyKeyError::new_err(name.clone().unbind()))
    }

    /// The member of this name on the wire, or the default.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(name) = key.cast::<PyString>() else { return Ok(default) };
        let name = name.to_cow()?;
        if &*name == "Events" {
            return Ok(Some(slf.get().list(slf.py()).into_any()));
        }
        Ok(wire::member(slf.py(), slf.get().object(), &name)?.or(default))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = name.cast::<PyString>() else { return Ok(false) };
        let name = name.to_cow()?;
        Ok(scheduled_events_core::Members::of(self.object()).any(|(member, _)| member == *name))
    }

    fn __len__(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(Self::dict(slf)?.len())
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyIterator>> {
        Self::dict(slf)?.try_iter()
    }

    /// The names of the document's members on the wire.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDictKeys>> {
        Ok(Self::dict(slf)?.call_method0("keys")?.cast_into()?)
    }

    /// The values of the document's members on the wire.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDictValues>> {
        Ok(Self::dict(slf)?.call_method0("values")?.cast_into()?)
    }

    /// Names and values of the document's members on the wire.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDictItems>> {
        Ok(Self::dict(slf)?.call_method0("items")?.cast_into()?)
    }

    /// The bytes that were read.
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.body.bytes())
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let same = if let Ok(other) = other.cast::<Self>() {
            slf.get().body.bytes() == other.get().body.bytes() || Self::dict(slf)?.eq(Self::dict(other)?)?
        } else if other.is_instance_of::<PyDict>() {
            Self::dict(slf)?.eq(other)?
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (&self.incarnation, self.events.bind(py).len()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let incarnation = match self.incarnation(py)? {
            Some(incarnation) => incarnation.repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("<Document incarnation={incarnation} events={}>", self.events.bind(py).len()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.import("scheduled_events")?.getattr("parse")?, (self.__bytes__(py),)))
    }
}
