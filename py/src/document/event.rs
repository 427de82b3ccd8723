//! `Event`: one event of a document. Its members are read when Python asks for them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDictItems, PyDictKeys, PyDictValues, PyIterator, PyString, PyTuple};
use scheduled_events::imds::{API_VERSION, names_for};
use scheduled_events::record::EventRecord;
use scheduled_events_core::record::{EventMembers, Record};
use scheduled_events_core::{Event, EventLayout, Text, UnixSeconds};
use serde_json::json;

use super::body::Body;
use crate::convert::{Arg, LAST_SECOND, Moment, Names, datetime, with_names};
use crate::wire::JsonObject;
use crate::words::{self, Enumeration};

/// One event: maintenance, an eviction or a deletion of one or more virtual machines.
///
/// Attributes are the meaning of the members; one that is absent or invalid is None. Items by their JSON names
/// (``event["EventId"]``) are what ``json.loads`` gives.
#[pyclass(frozen, mapping, name = "Event", module = "scheduled_events")]
pub(crate) struct PyEvent {
    body: Body,
    /// Where the event's object is in the body.
    range: Range<usize>,
    layout: EventLayout,
}

impl PyEvent {
    /// An event of the document that `body` holds.
    pub(crate) fn new(py: Python<'_>, body: &Body, event: &Event<'_>) -> Self {
        let object = event.object();
        // The object borrows from the body, so the difference of the addresses is its offset there.
        let start = object.as_ptr() as usize - body.bytes().as_ptr() as usize;
        Self {
            body: body.share(py),
            range: start..start + object.len(),
            layout: event.layout(),
        }
    }

    /// Parses an event's object.
    pub(crate) fn from_object(py: Python<'_>, object: &[u8]) -> PyResult<Self> {
        let body = Body::copy(py, &[b"{\"Events\":[", object, b"]}"].concat());
        let event = body
            .parse(py)?
            .events()
            .next()
            .ok_or_else(|| PyValueError::new_err("not an event"))?;
        Ok(Self::new(py, &body, &event))
    }

    /// Whether one of these names is among its resources.
    pub(crate) fn is_about(&self, names: &[&str]) -> bool {
        let mut resources = self.core().resources().iter();
        resources.any(|resource| names.iter().any(|name| resource.eq_ignore_ascii_case(name)))
    }

    /// The event as a core type.
    pub(crate) fn core(&self) -> Event<'_> {
        self.layout.event(self.object())
    }
}

impl JsonObject for PyEvent {
    fn object(&self) -> &str {
        self.body
            .bytes()
            .get(self.range.clone())
            .and_then(|object| str::from_utf8(object).ok())
            .unwrap_or_default()
    }
}

#[pymethods]
impl PyEvent {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("event_id", "event_type", "event_status")
    }

    /// The event's id: opaque; compare it without ASCII case, and return it unchanged.
    #[getter]
    fn event_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        string(py, self.core().event_id())
    }

    /// The expected impact: an ``EventType``, or a str for a word that this package does not know.
    #[getter]
    fn event_type<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        word(
            py,
            Enumeration::EventType,
            self.core().event_type().map(|word| word.text()),
        )
    }

    /// The event's progress: an ``EventStatus``, or a str for a word that this package does not know.
    #[getter]
    fn event_status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        word(
            py,
            Enumeration::EventStatus,
            self.core().event_status().map(|word| word.text()),
        )
    }

    /// Who caused the event: an ``EventSource``, or a str for a word that this package does not know.
    #[getter]
    fn event_source<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        word(
            py,
            Enumeration::EventSource,
            self.core().event_source().map(|word| word.text()),
        )
    }

    /// ``VirtualMachine``.
    #[getter]
    fn resource_type<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.core().resource_type().map(|text| string(py, text))
    }

    /// The names of the machines that the event affects; empty if the document has none.
    #[getter]
    fn resources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let names = self.core().resources().iter().map(|name| string(py, name));
        PyTuple::new(py, names.collect::<Vec<_>>())
    }

    /// The earliest time at which the event starts without an approval: an aware datetime in UTC.
    #[getter]
    fn not_before<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.core()
            .not_before()
            .moment()
            .map_or(Ok(None), |moment| datetime(py, moment))
    }

    /// Azure's description of the event.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.core().description().map(|text| string(py, text))
    }

    /// The expected length of the interruption in seconds; None if it is unknown, which Azure writes as -1.
    #[getter]
    fn duration_in_seconds(&self) -> Option<u32> {
        self.core().duration_in_seconds()
    }

    /// Whether it is advice and no maintenance, by its type or its status: there is nothing to approve.
    #[getter]
    fn is_advice(&self) -> bool {
        self.core().is_advice()
    }

    /// Whether one of these names is among the resources. Whole names are compared, without ASCII case.
    fn concerns(&self, vm_names: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_names(vm_names, |names| self.is_about(names))
    }

    /// Return the event's record, as the command prints it with ``--json``.
    ///
    /// Without names, ``mine`` is None.
    #[pyo3(signature = (vm_names=None, *, api_version=Arg(API_VERSION.to_owned())),
           text_signature = "($self, vm_names=None, *, api_version='2020-07-01')")]
    fn to_dict<'py>(
        &self,
        py: Python<'py>,
        vm_names: Option<Names>,
        api_version: Arg<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let vm_names = vm_names.unwrap_or_default();
        let event = EventMembers::from_event(
            &self.core(),
            names_for(&vm_names.borrowed(), &api_version.0),
        );
        words::printed(py, &Record::Event { event })
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

    /// The JSON names of the event's members.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictKeys>> {
        self.view(py, "keys")
    }

    /// The values of the event's members.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictValues>> {
        self.view(py, "values")
    }

    /// The JSON names and values of the event's members.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDictItems>> {
        self.view(py, "items")
    }

    fn __eq__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.equals(py, other)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.core().event_id().to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let event = self.core();
        let shown = |text: Option<Text<'_>>| match text {
            Some(text) => Ok(string(py, text).repr()?.to_string()),
            None => PyResult::Ok("None".to_owned()),
        };
        let resources = event.resources();
        let mut names = resources
            .iter()
            .take(3)
            .map(|name| shown(Some(name)))
            .collect::<PyResult<Vec<_>>>()?;
        if let Some(more) = resources
            .iter()
            .count()
            .checked_sub(3)
            .filter(|&more| more > 0)
        {
            names.push(format!("and {more} more"));
        }
        Ok(format!(
            "<Event {} event_type={} event_status={} resources=[{}] not_before={} event_source={} duration_in_seconds={}>",
            shown(Some(event.event_id()))?,
            shown(event.event_type().map(|word| word.text()))?,
            shown(event.event_status().map(|word| word.text()))?,
            names.join(", "),
            event
                .not_before()
                .moment()
                .map_or("None".to_owned(), |moment| moment.to_string()),
            shown(event.event_source().map(|word| word.text()))?,
            event
                .duration_in_seconds()
                .map_or("None".to_owned(), |seconds| seconds.to_string()),
        ))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let function = py.import("scheduled_events._native")?.getattr("_event")?;
        Ok((function, (PyBytes::new(py, self.object().as_bytes()),)))
    }
}

/// Restores a pickled event.
#[pyfunction]
#[pyo3(name = "_event")]
pub(crate) fn unpickle_event(py: Python<'_>, object: &[u8]) -> PyResult<PyEvent> {
    PyEvent::from_object(py, object)
}

/// The attributes of a record or a step about an event.
#[derive(FromPyObject)]
pub(crate) struct AboutEvent {
    event_id: Option<String>,
    event_type: Option<String>,
    event_status: Option<String>,
    resource_type: Option<String>,
    resources: Option<Vec<String>>,
    not_before: Option<Moment>,
    description: Option<String>,
    event_source: Option<String>,
    duration_in_seconds: Option<u32>,
}

/// Makes the event of a record or a step; `None` if that has no event's id.
#[pyfunction]
#[pyo3(name = "_event_of_record")]
pub(crate) fn event_of_record(py: Python<'_>, record: AboutEvent) -> PyResult<Option<PyEvent>> {
    let Some(event_id) = record.event_id else {
        return Ok(None);
    };
    let event = EventRecord {
        event_id,
        event_type: record.event_type,
        event_status: record.event_status,
        resource_type: record.resource_type,
        resources: record.resources,
        not_before: record.not_before.map(|moment| moment.0.seconds()),
        description: record.description,
        event_source: record.event_source,
        duration_in_seconds: record.duration_in_seconds,
        mine: None,
    };
    PyEvent::from_object(py, event_object(&event).as_bytes()).map(Some)
}

/// The JSON object of an event whose document is gone, with the members that are known.
pub(crate) fn event_object(event: &EventRecord) -> String {
    let mut object = json!({
        "EventId": event.event_id,
        "NotBefore": event.not_before.and_then(rfc_1123).unwrap_or_default(),
        "DurationInSeconds": event.duration_in_seconds.map_or(-1, i64::from),
    });
    let texts = [
        ("EventStatus", &event.event_status),
        ("EventType", &event.event_type),
        ("ResourceType", &event.resource_type),
        ("Description", &event.description),
        ("EventSource", &event.event_source),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            object[name] = json!(text);
        }
    }
    if let Some(names) = &event.resources {
        object["Resources"] = json!(names);
    }
    object.to_string()
}

fn string<'py>(py: Python<'py>, text: Text<'_>) -> Bound<'py, PyString> {
    match text.as_str() {
        Some(text) => PyString::new(py, text),
        None => PyString::new(py, &text.to_string()),
    }
}

fn word<'py>(
    py: Python<'py>,
    known: Enumeration,
    word: Option<Text<'_>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(word) = word else { return Ok(None) };
    match word.as_str() {
        Some(word) => known.member(py, word),
        None => known.member(py, &word.to_string()),
    }
    .map(Some)
}

/// The time as Azure writes it; `None` outside of the years of this form.
fn rfc_1123(moment: UnixSeconds) -> Option<String> {
    let since_1970 = Duration::from_secs(u64::try_from(moment.0).ok()?);
    (moment.0 <= LAST_SECOND).then(|| httpdate::fmt_http_date(UNIX_EPOCH + since_1970))
}
