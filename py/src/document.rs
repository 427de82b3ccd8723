//! `Document`, and its sequence of events.

use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyDict, PyDictItems, PyDictKeys, PyDictValues, PyIterator, PyList, PySlice, PyString, PyTuple,
};
use scheduled_events::record::Record;
use scheduled_events_core::{Document as CoreDocument, Member};

use crate::body::{Body, Key};
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
    Ok(Document { body: Body::read(data)? })
}

/// A Scheduled Events document, checked once.
///
/// Items by the wire's names (``document["Events"]``) give what a script written for ``json.loads`` expects.
#[pyclass(frozen, mapping, module = "scheduled_events")]
pub(crate) struct Document {
    pub(crate) body: Body,
}

impl Document {
    pub(crate) fn of(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Self { body: Body::of(py, bytes)? })
    }

    fn length(&self) -> usize {
        self.body.entries.len()
    }

    /// The events, which are made where Python needs them.
    fn each<'a, 'py>(slf: &'a Bound<'py, Self>) -> impl ExactSizeIterator<Item = Place<'a, 'py>> {
        (0..slf.get().length()).map(|index| Place { document: slf, index })
    }

    /// The document as core knows it, read again.
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<CoreDocument<'_>> {
        CoreDocument::parse(self.body.bytes()).map_err(|error| parse_error(py, error, self.body.bytes()))
    }

    fn object(&self) -> &str {
        std::str::from_utf8(self.body.bytes()).unwrap_or_default().trim_start_matches('\u{feff}')
    }

    fn list<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(slf.py(), Self::each(slf))
    }

    fn dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let dict = PyDict::new(py);
        for (name, raw) in scheduled_events_core::Members::of(slf.get().object()) {
            let value = if name == *"Events" { Self::list(slf)?.into_any() } else { wire::value(py, raw)? };
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
        Ok(match &self.body.incarnation {
            Key::Number(number) => Some(number.into_pyobject(py)?.into_any()),
            Key::Text(text) => Some(text.into_pyobject(py)?.into_any()),
            Key::Absent => None,
        })
    }

    /// The events, in the document's order; those without an id of their own are left out, and are problems.
    #[getter]
    fn events(slf: &Bound<'_, Self>) -> Events {
        Events { document: slf.clone().unbind() }
    }

    /// What is odd in the document: a tuple of Problem.
    #[getter]
    fn problems<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let document = self.core(py)?;
        let class = words::record_class(py, "Problem")?;
        let problems = document.problems().map(|problem| {
            let Record::Problem { event, member, kind, line, column } = Record::problem(&problem, self.body.bytes())
            else {
                return Err(PyTypeError::new_err("a problem is a problem"));
            };
            class.call1((event, member.map(Member::name), kind.word(), line, column, problem.offset))
        });
        PyTuple::new(py, problems.collect::<PyResult<Vec<_>>>()?)
    }

    /// Whether an event of the document concerns one of these names: mostly none does, and no event is made to tell.
    fn concerns(&self, vm_names: &Bound<'_, PyAny>) -> PyResult<bool> {
        let body = &self.body;
        with_names(vm_names, |names| body.entries.iter().any(|entry| body.concerns(entry, names)))
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
            return Ok(Some(Self::list(slf)?.into_any()));
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
            let (mine, others) = (&slf.get().body, &other.get().body);
            mine.bytes() == others.bytes() || {
                mine.incarnation == others.incarnation && Self::list(slf)?.eq(Self::list(other)?)?
            }
        } else if other.is_instance_of::<PyDict>() {
            Self::dict(slf)?.eq(other)?
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (&self.body.incarnation, self.body.entries.len()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let incarnation = match self.incarnation(py)? {
            Some(incarnation) => incarnation.repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("<Document incarnation={incarnation} events={}>", self.body.entries.len()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.import("scheduled_events")?.getattr("parse")?, (self.__bytes__(py),)))
    }
}

/// The events of a document: a sequence that makes each event when it is asked for.
#[pyclass(frozen, sequence, module = "scheduled_events")]
pub(crate) struct Events {
    document: Py<Document>,
}

/// The place of an event, which becomes one where Python needs it.
struct Place<'a, 'py> {
    document: &'a Bound<'py, Document>,
    index: usize,
}

impl<'py> IntoPyObject<'py> for Place<'_, 'py> {
    type Target = Event;
    type Output = Bound<'py, Event>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, Event>> {
        Bound::new(py, Event::new(self.document, self.index)?)
    }
}

/// So many events are iterated over faster when they are made at once; a real document mostly has one.
const FEW: usize = 4;

impl Events {
    fn tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, Document::each(self.document.bind(py)))
    }
}

#[pymethods]
impl Events {
    fn __len__(&self) -> usize {
        self.document.get().length()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let document = self.document.bind(py);
        let length = document.get().length();
        if let Ok(slice) = index.cast::<PySlice>() {
            let (first, end, step): (isize, isize, isize) = slice.call_method1("indices", (length,))?.extract()?;
            let range = py.import("builtins")?.getattr("range")?.call1((first, end, step))?;
            let events = range.try_iter()?.map(|index| Event::new(document, index?.extract()?));
            return Ok(PyTuple::new(py, events.collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
        let index: isize = index.extract()?;
        let from_front = if index < 0 { length.checked_add_signed(index) } else { usize::try_from(index).ok() };
        match from_front.filter(|&index| index < length) {
            Some(index) => Ok(Bound::new(py, Event::new(document, index)?)?.into_any()),
            None => Err(PyIndexError::new_err("there is no such event")),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let end = self.__len__();
        if end <= FEW {
            return Ok(self.tuple(py)?.try_iter()?.into_any());
        }
        Ok(Bound::new(py, EventsIterator { document: self.document.clone_ref(py), next: 0, end })?.into_any())
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let builtins = py.import("builtins")?;
        builtins.getattr("reversed")?.call1((self.tuple(py)?,))
    }

    fn __contains__(&self, py: Python<'_>, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.tuple(py)?.contains(event)
    }

    /// The place of an event; raises ValueError where it is none of these.
    #[pyo3(signature = (value, start=0, stop=None))]
    fn index(&self, py: Python<'_>, value: &Bound<'_, PyAny>, start: isize, stop: Option<isize>) -> PyResult<usize> {
        let stop = stop.unwrap_or(isize::MAX);
        self.tuple(py)?.call_method1("index", (value, start, stop))?.extract()
    }

    /// How often an event stands here.
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.tuple(py)?.call_method1("count", (value,))?.extract()
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let mine = self.tuple(py)?;
        let same = if let Ok(other) = other.cast::<Self>() {
            mine.eq(other.get().tuple(py)?)?
        } else if other.is_instance_of::<PyTuple>() {
            mine.eq(other)?
        } else if let Ok(other) = other.cast::<PyList>() {
            mine.eq(other.to_tuple())?
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.tuple(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Events {}>", self.tuple(py)?.to_list().repr()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let getattr = py.import("builtins")?.getattr("getattr")?;
        (getattr, (&self.document, "events")).into_pyobject(py)
    }
}

/// Iterator over `Events`.
#[pyclass(module = "scheduled_events")]
pub(crate) struct EventsIterator {
    document: Py<Document>,
    next: usize,
    end: usize,
}

#[pymethods]
impl EventsIterator {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        let index = self.next;
        if index == self.end {
            return Ok(None);
        }
        self.next = index + 1;
        Event::new(self.document.bind(py), index).map(Some)
    }

    const fn __length_hint__(&self) -> usize {
        self.end - self.next
    }
}
