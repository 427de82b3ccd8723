//! `Event`: one event of a document, read as it is asked for.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyDictItems, PyDictKeys, PyDictValues, PyIterator, PyList, PyString, PyTuple};
use scheduled_events::record::EventRecord;
use scheduled_events::watch::names_for;
use scheduled_events_core::{Event as CoreEvent, Text, UnixSeconds};
use serde_json::json;

use crate::body::{Body, Entry, Span, Word};
use crate::convert::{datetime, with_names};
use crate::document::Document;
use crate::words::{SOURCES, STATUSES, TYPES, Words};
use crate::{convert, wire};

/// One event: a maintenance, an eviction or a deletion of one or more virtual machines.
///
/// Attributes give what the document means; what it does not say, or says unreadably, is None. Items by the wire's
/// names (``event["EventId"]``) give what ``json.loads`` would have given.
#[pyclass(frozen, mapping, module = "scheduled_events")]
pub(crate) struct Event {
    /// The impact to expect: an ``EventType``, or another word as a plain text.
    // This and the next are fields, which Python reads without a call. They cost next to nothing to make: words that are
    // known exist already.
    #[pyo3(get, name = "event_type")]
    kind: Py<PyAny>,
    /// How far the event has come: an ``EventStatus``, or another word as a plain text.
    #[pyo3(get, name = "event_status")]
    status: Py<PyAny>,
    document: Py<Document>,
    index: usize,
}

impl Event {
    pub(crate) fn new(document: &Bound<'_, Document>, index: usize) -> PyResult<Self> {
        let py = document.py();
        let words = Words::get(py)?;
        let body = &document.get().body;
        let entry = &body.entries[index];
        let kind = body
            .word(py, entry, entry.event_type, &words.types, |event| event.event_type().map(|word| word.to_string()))?;
        let status = body.word(py, entry, entry.status, &words.statuses, |event| {
            event.event_status().map(|word| word.to_string())
        })?;
        Ok(Self { kind, status, document: document.clone().unbind(), index })
    }

    /// An event whose document is not at hand, from what is known of it.
    pub(crate) fn of_record(py: Python<'_>, record: &EventRecord) -> PyResult<Self> {
        let not_before = record.not_before.and_then(rfc_1123).unwrap_or_default();
        let mut object = json!({"EventId": record.event_id, "NotBefore": not_before,
            "DurationInSeconds": record.duration_in_seconds.map_or(-1, i64::from)});
        let texts = [
            ("EventStatus", &record.event_status),
            ("EventType", &record.event_type),
            ("ResourceType", &record.resource_type),
            ("Description", &record.description),
            ("EventSource", &record.event_source),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                object[name] = json!(text);
            }
        }
        if let Some(names) = &record.resources {
            object["Resources"] = json!(names);
        }
        let body = Body::of(py, json!({"Events": [object]}).to_string().as_bytes())?;
        Self::new(&Bound::new(py, Document { body })?, 0)
    }

    fn body(&self) -> &Body {
        &self.document.get().body
    }

    fn entry(&self) -> &Entry {
        &self.body().entries[self.index]
    }

    /// The event as core knows it, read again.
    pub(crate) fn core(&self) -> PyResult<CoreEvent<'_>> {
        self.body().event(self.entry())
    }

    fn object(&self) -> &str {
        std::str::from_utf8(self.body().object(self.entry())).unwrap_or_default()
    }

    fn text<'py>(
        &self,
        py: Python<'py>,
        span: Option<Span>,
        find: impl FnOnce(&CoreEvent<'_>) -> Option<String>,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        span.map(|span| self.body().text(py, self.entry(), span, find)).transpose()
    }

    fn names(&self) -> impl Iterator<Item = Text<'_>> {
        self.body().names(self.entry())
    }

    /// The value of a member that needs no look at the event's text.
    fn quick<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = self.entry();
        let word = |word: Word, known: &[&str]| match word {
            Word::Known(number) => Some(PyString::intern(py, known[usize::from(number)]).into_any()),
            _ => None,
        };
        Ok(match name {
            "EventId" => Some(self.event_id(py)?.into_any()),
            "EventType" => word(entry.event_type, &TYPES),
            "EventStatus" => word(entry.status, &STATUSES),
            "EventSource" => word(entry.source, &SOURCES),
            "Resources" if entry.resources.is_some() && !entry.unreliable => Some(match self.body().few_names(entry) {
                Some(few) => PyList::new(py, few)?.into_any(),
                None => PyList::new(py, self.names().map(|name| resource(py, &name)).collect::<Vec<_>>())?.into_any(),
            }),
            _ => None,
        })
    }

    fn same(&self, other: &Self) -> PyResult<bool> {
        if self.object() == other.object() {
            return Ok(true);
        }
        Ok(self.record()? == other.record()?)
    }

    fn record(&self) -> PyResult<EventRecord> {
        Ok(EventRecord::new(&self.core()?, names_for(&[], "")))
    }
}

#[pymethods]
impl Event {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("event_id", "event_type", "event_status")
    }

    /// The event's id: opaque; compare it without ASCII case, echo it unchanged.
    #[getter]
    fn event_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let entry = self.entry();
        self.body().text(py, entry, entry.id, |event| Some(event.event_id().to_string()))
    }

    /// Who caused the event: an ``EventSource``, or another word as a plain text.
    #[getter]
    fn event_source(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let entry = self.entry();
        self.body().word(py, entry, entry.source, &Words::get(py)?.sources, |event| {
            event.event_source().map(|word| word.to_string())
        })
    }

    /// ``VirtualMachine`` so far.
    #[getter]
    fn resource_type<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.text(py, self.entry().resource_type, |event| event.resource_type().map(|text| text.to_string()))
    }

    /// The names of the machines concerned; empty where the document names none.
    #[getter]
    fn resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self.body().few_names(self.entry()) {
            Some(few) => PyTuple::new(py, few),
            None => PyTuple::new(py, self.names().map(|name| resource(py, &name)).collect::<Vec<_>>()),
        }
    }

    /// The moment before which the event does not start unless it is approved: aware, in UTC.
    #[getter]
    fn not_before<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.entry().not_before.map_or(Ok(None), |moment| datetime(py, moment))
    }

    /// A sentence about the event.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.text(py, self.entry().description, |event| event.description().map(|text| text.to_string()))
    }

    /// How many seconds the interruption is expected to last; None where it is unknown, which Azure writes as -1.
    #[getter]
    fn duration_in_seconds(&self) -> Option<u32> {
        self.entry().duration
    }

    /// Whether one of these names stands among the event's resources, compared whole and without ASCII case.
    fn concerns(&self, vm_names: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_names(vm_names, |names| self.body().concerns(self.entry(), names))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, name, None)?.ok_or_else(|| PyKeyError::new_err(name.clone().unbind()))
    }

    /// The member of this name on the wire, or the default.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(name) = key.cast::<PyString>() else { return Ok(default) };
        let name = name.to_cow()?;
        let found = match self.quick(py, &name)? {
            Some(value) => Some(value),
            None => wire::member(py, self.object(), &name)?,
        };
        Ok(found.or(default))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = name.cast::<PyString>() else { return Ok(false) };
        let name = name.to_cow()?;
        Ok(scheduled_events_core::Members::of(self.object()).any(|(member, _)| member == *name))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(wire::dict(py, self.object())?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        wire::dict(py, self.object())?.try_iter()
    }

    /// The names of the event's members on the wire.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictKeys>> {
        Ok(wire::dict(py, self.object())?.call_method0("keys")?.cast_into()?)
    }

    /// The values of the event's members on the wire.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictValues>> {
        Ok(wire::dict(py, self.object())?.call_method0("values")?.cast_into()?)
    }

    /// Names and values of the event's members on the wire.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictItems>> {
        Ok(wire::dict(py, self.object())?.call_method0("items")?.cast_into()?)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let same = if let Ok(other) = other.cast::<Self>() {
            self.same(other.get())?
        } else if other.is_instance_of::<PyDict>() {
            wire::dict(py, self.object())?.eq(other)?
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        self.core()?.event_id().to_string().hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |text: Option<String>| match text {
            Some(text) => Ok(PyString::new(py, &text).repr()?.to_string()),
            None => PyResult::Ok("None".to_owned()),
        };
        let event = self.record()?;
        let resources = event.resources.unwrap_or_default();
        let mut names =
            resources.iter().take(3).cloned().map(|name| shown(Some(name))).collect::<PyResult<Vec<_>>>()?;
        if let Some(more) = resources.len().checked_sub(3).filter(|&more| more > 0) {
            names.push(format!("and {more} more"));
        }
        Ok(format!(
            "<Event {} event_type={} event_status={} resources=[{}] not_before={} event_source={} duration_in_seconds={}>",
            shown(Some(event.event_id))?,
            shown(event.event_type)?,
            shown(event.event_status)?,
            names.join(", "),
            event.not_before.map_or("None".to_owned(), |moment| moment.to_string()),
            shown(event.event_source)?,
            event.duration_in_seconds.map_or("None".to_owned(), |seconds| seconds.to_string()),
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let again = py.import("scheduled_events._native")?.getattr("_event")?;
        Ok((again, (PyBytes::new(py, self.object().as_bytes()),)))
    }
}

/// The event of these bytes, for pickles.
#[pyfunction]
#[pyo3(name = "_event")]
pub(crate) fn event_of_bytes(py: Python<'_>, object: &[u8]) -> PyResult<Event> {
    let body = Body::of(py, &[b"{\"Events\":[", object, b"]}"].concat())?;
    if body.entries.len() == 1 {
        Event::new(&Bound::new(py, Document { body })?, 0)
    } else {
        Err(pyo3::exceptions::PyValueError::new_err("the bytes are no event"))
    }
}

fn resource<'py>(py: Python<'py>, name: &Text<'_>) -> Bound<'py, PyString> {
    match name.as_str() {
        Some(name) => PyString::new(py, name),
        None => PyString::new(py, &name.to_string()),
    }
}

/// The moment as Azure writes it; `None` outside of the years that this form knows.
fn rfc_1123(moment: UnixSeconds) -> Option<String> {
    let since_1970 = std::time::Duration::from_secs(u64::try_from(moment.0).ok()?);
    let known = moment.0 <= convert::LAST_SECOND;
    known.then(|| httpdate::fmt_http_date(std::time::UNIX_EPOCH + since_1970))
}
