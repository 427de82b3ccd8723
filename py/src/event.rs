//! `Event`: one event of a document, read as it is asked for.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyDictItems, PyDictKeys, PyDictValues, PyIterator, PyString, PyTuple};
use scheduled_events::imds::names_for;
use scheduled_events::record::EventRecord;
use scheduled_events_core::{Event as CoreEvent, Member, Text, UnixSeconds};
use serde_json::json;

use crate::body::{Body, Entry};
use crate::convert::{datetime, with_names};
use crate::words::Words;
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
    body: Body,
    entry: Entry,
}

impl Event {
    pub(crate) fn new(py: Python<'_>, body: &Body, entry: Entry) -> PyResult<Self> {
        let words = Words::get(py)?;
        let kind = body.word(py, &entry, Member::EventType, &words.types)?;
        let status = body.word(py, &entry, Member::EventStatus, &words.statuses)?;
        Ok(Self { kind, status, body: body.share(py), entry })
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
        Self::of(py, object.to_string().as_bytes())
    }

    /// Reads an event out of bytes of one's own.
    fn of(py: Python<'_>, object: &[u8]) -> PyResult<Self> {
        let body = Body::copy(py, &[b"{\"Events\":[", object, b"]}"].concat());
        let mut entries = Vec::new();
        body.read_each(py, |entry| entries.push(entry))?;
        match entries[..] {
            [entry] => Self::new(py, &body, entry),
            _ => Err(PyValueError::new_err("the bytes are no event")),
        }
    }

    /// Its place in the document's `Events`, left-out ones counted.
    pub(crate) fn index(&self) -> usize {
        self.core().index()
    }

    /// Whether one of these names stands among its resources.
    pub(crate) fn is_about(&self, names: &[&str]) -> bool {
        self.body.concerns(&self.entry, names)
    }

    /// The event as core knows it.
    pub(crate) fn core(&self) -> CoreEvent<'_> {
        self.body.event(&self.entry)
    }

    fn object(&self) -> &str {
        self.body.object(&self.entry)
    }

    fn text<'py>(&self, py: Python<'py>, member: Member) -> PyResult<Option<Bound<'py, PyString>>> {
        self.body.text(&self.entry, member).map(|text| PyString::from_bytes(py, &text)).transpose()
    }

    /// The value of a member that needs no look at the event's text.
    fn quick<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let event = self.core();
        let member = match name {
            "EventId" => Member::EventId,
            "EventType" => Member::EventType,
            "EventStatus" => Member::EventStatus,
            "EventSource" => Member::EventSource,
            "ResourceType" => Member::ResourceType,
            "Description" => Member::Description,
            "NotBefore" if event.not_before().moment().is_some() => Member::NotBefore,
            "Resources" if event.resources().is_present() && event.unreliable_member().is_none() => {
                return Ok(Some(self.resources(py)?.to_list().into_any()));
            }
            _ => return Ok(None),
        };
        let plain = self.body.plain(&self.entry, member);
        plain.map(|plain| PyString::from_bytes(py, plain).map(Bound::into_any)).transpose()
    }

    fn same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.object() == other.object() || wire::dict(py, self.object())?.eq(wire::dict(py, other.object())?)?)
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
        Ok(self.text(py, Member::EventId)?.unwrap_or_else(|| PyString::new(py, "")))
    }

    /// Who caused the event: an ``EventSource``, or another word as a plain text.
    #[getter]
    fn event_source(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.body.word(py, &self.entry, Member::EventSource, &Words::get(py)?.sources)
    }

    /// ``VirtualMachine`` so far.
    #[getter]
    fn resource_type<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.text(py, Member::ResourceType)
    }

    /// The names of the machines concerned; empty where the document names none.
    #[getter]
    fn resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if let Some(few) = self.body.few_names(&self.entry) {
            return PyTuple::new(py, few);
        }
        let names = self.core().resources();
        PyTuple::new(py, names.iter().map(|name| resource(py, &name)).collect::<Vec<_>>())
    }

    /// The moment before which the event does not start unless it is approved: aware, in UTC.
    #[getter]
    fn not_before<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.core().not_before().moment().map_or(Ok(None), |moment| datetime(py, moment))
    }

    /// A sentence about the event.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.text(py, Member::Description)
    }

    /// How many seconds the interruption is expected to last; None where it is unknown, which Azure writes as -1.
    #[getter]
    fn duration_in_seconds(&self) -> Option<u32> {
        self.core().duration_in_seconds()
    }

    /// Whether one of these names stands among the event's resources, compared whole and without ASCII case.
    fn concerns(&self, vm_names: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_names(vm_names, |names| self.is_about(names))
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
            self.same(py, other.get())?
        } else if other.is_instance_of::<PyDict>() {
            wire::dict(py, self.object())?.eq(other)?
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.body.text(&self.entry, Member::EventId).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |text: Option<String>| match text {
            Some(text) => Ok(PyString::new(py, &text).repr()?.to_string()),
            None => PyResult::Ok("None".to_owned()),
        };
        let event = EventRecord::new(&self.core(), names_for(&[], ""));
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
    Event::of(py, object)
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
