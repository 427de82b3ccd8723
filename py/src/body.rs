//! The bytes of a document, with an index of what stands where: texts become Python's only when they are read.

use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use scheduled_events_core::{
    Document, Event, EventSource, EventStatus, EventType, Incarnation, ParseError, ResourceNames, Resources, Text,
    UnixSeconds,
};

use crate::errors::parse_error;

/// A document's bytes and its index.
pub(crate) struct Body {
    bytes: PyBackedBytes,
    pub(crate) incarnation: Key,
    pub(crate) entries: Vec<Entry>,
}

/// `DocumentIncarnation`, owned.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Number(u64),
    Text(String),
    Absent,
}

/// Where an event and its texts stand. The places of texts count from the event's first byte.
pub(crate) struct Entry {
    start: u32,
    end: u32,
    pub(crate) id: Span,
    pub(crate) event_type: Word,
    pub(crate) status: Word,
    pub(crate) source: Word,
    pub(crate) resource_type: Option<Span>,
    pub(crate) description: Option<Span>,
    /// Where the array `Resources` starts.
    pub(crate) resources: Option<u32>,
    few_names: FewNames,
    pub(crate) not_before: Option<UnixSeconds>,
    pub(crate) duration: Option<u32>,
    /// A member that decisions rest on has a problem.
    pub(crate) unreliable: bool,
    index: u32,
}

/// A text inside an event.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    start: u32,
    length: u32,
    /// It has escapes, so that its characters are not its bytes.
    pub(crate) escaped: bool,
}

/// Where the names in `Resources` stand, when they are few and without escapes, as they mostly are: they are then not
/// looked for again.
#[derive(Clone, Copy)]
struct FewNames {
    /// Starts and lengths: small, since every event carries them.
    places: [(u16, u8); FEW],
    count: u8,
}

/// So many names are few.
const FEW: usize = 4;

/// More names than are few, which are read from the text; so are those with escapes, and those too far away or too long
/// for a place.
const MANY: FewNames = FewNames { places: [(0, 0); FEW], count: u8::MAX };

/// A word of an open enumeration.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    Absent,
    /// The number of a known word.
    Known(u8),
    Other(Span),
}

impl Body {
    /// Reads a document out of `bytes`, `bytearray`, `memoryview` or `str`, copying at most once.
    pub(crate) fn read(input: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = input.py();
        let bytes = if let Ok(bytes) = input.cast::<PyBytes>() {
            PyBackedBytes::from(bytes.clone())
        } else if let Ok(bytes) = input.cast::<PyByteArray>() {
            PyBackedBytes::from(bytes.clone())
        } else if input.is_instance_of::<PyString>() {
            // A lone surrogate is passed on as bytes that are not UTF-8, and is refused with its place.
            let encoded = input.call_method1("encode", ("utf-8", "surrogatepass"))?;
            PyBackedBytes::from(encoded.cast_into::<PyBytes>()?)
        } else if input.is_instance_of::<PyMemoryView>() {
            PyBackedBytes::from(input.call_method0("tobytes")?.cast_into::<PyBytes>()?)
        } else {
            let name = input.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a document is bytes, bytearray, memoryview or str, not {name}")));
        };
        Self::index(py, bytes)
    }

    /// Reads a document out of bytes of one's own.
    pub(crate) fn of(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Self::index(py, PyBackedBytes::from(PyBytes::new(py, bytes)))
    }

    fn index(py: Python<'_>, bytes: PyBackedBytes) -> PyResult<Self> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(PyValueError::new_err("a document has less than 4 GiB"));
        }
        let (incarnation, entries) = indexed(&bytes).map_err(|error| parse_error(py, error, &bytes))?;
        Ok(Self { bytes, incarnation, entries })
    }

    /// The bytes that were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of an event's object.
    pub(crate) fn object(&self, entry: &Entry) -> &[u8] {
        self.bytes.get(entry.start as usize..entry.end as usize).unwrap_or_default()
    }

    /// The event itself, read again: it was checked when the document was read.
    pub(crate) fn event(&self, entry: &Entry) -> PyResult<Event<'_>> {
        Event::parse(self.object(entry)).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A text inside an event; `find` finds it again where it has escapes to decode.
    pub(crate) fn text<'py>(
        &self,
        py: Python<'py>,
        entry: &Entry,
        span: Span,
        find: impl FnOnce(&Event<'_>) -> Option<String>,
    ) -> PyResult<Bound<'py, PyString>> {
        if span.escaped {
            return Ok(PyString::new(py, &find(&self.event(entry)?).unwrap_or_default()));
        }
        let start = span.start as usize;
        PyString::from_bytes(py, self.object(entry).get(start..start + span.length as usize).unwrap_or_default())
    }

    /// The names in an event's `Resources`, when their places are known.
    pub(crate) fn few_names(&self, entry: &Entry) -> Option<impl ExactSizeIterator<Item = PlainName<'_>>> {
        let few = entry.few_names.places.get(..usize::from(entry.few_names.count))?;
        let object = self.object(entry);
        Some(few.iter().map(|&(start, length)| {
            let start = usize::from(start);
            PlainName(object.get(start..start + usize::from(length)).unwrap_or_default())
        }))
    }

    /// A word of an open enumeration as one of the `known` members, or as a text; None where there is none.
    pub(crate) fn word(
        &self,
        py: Python<'_>,
        entry: &Entry,
        word: Word,
        known: &[Py<PyAny>],
        find: impl FnOnce(&Event<'_>) -> Option<String>,
    ) -> PyResult<Py<PyAny>> {
        Ok(match word {
            Word::Absent => py.None(),
            Word::Known(number) => known[usize::from(number)].clone_ref(py),
            Word::Other(span) => self.text(py, entry, span, find)?.into_any().unbind(),
        })
    }

    /// The names in an event's `Resources`.
    pub(crate) fn names(&self, entry: &Entry) -> ResourceNames<'_> {
        let array = entry.resources.and_then(|start| self.object(entry).get(start as usize..));
        Resources::of(array.and_then(|array| std::str::from_utf8(array).ok()).unwrap_or_default()).iter()
    }

    /// Whether one of these names stands among the event's `Resources`.
    pub(crate) fn concerns(&self, entry: &Entry, names: &[&str]) -> bool {
        match self.few_names(entry) {
            Some(mut few) => {
                few.any(|resource| names.iter().any(|name| resource.0.eq_ignore_ascii_case(name.as_bytes())))
            }
            None => self.names(entry).any(|resource| names.iter().any(|name| resource.eq_ignore_ascii_case(name))),
        }
    }
}

/// A name without escapes, whose bytes are its characters.
pub(crate) struct PlainName<'a>(&'a [u8]);

impl<'py> IntoPyObject<'py> for PlainName<'_> {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        PyString::from_bytes(py, self.0)
    }
}

/// About the length of a short event as Azure writes it, to guess how many there are.
const EVENT_LENGTH: usize = 384;

fn indexed(bytes: &[u8]) -> Result<(Key, Vec<Entry>), ParseError> {
    let mut entries = Vec::with_capacity(bytes.len() / EVENT_LENGTH + 1);
    let document = Document::parse_each(bytes, &mut [Text::plain(""); FEW], |event, object, names| {
        entries.push(Entry::of(event, object, names, bytes));
    })?;
    if document.events().len() != entries.len() {
        let mut standing = document.events().map(|event| event.index()).peekable();
        entries.retain(|entry| standing.next_if_eq(&(entry.index as usize)).is_some());
    }
    let incarnation = match document.incarnation() {
        Incarnation::Number(number) => Key::Number(number),
        Incarnation::Text(text) => Key::Text(text.to_string()),
        Incarnation::Absent => Key::Absent,
    };
    Ok((incarnation, entries))
}

impl Entry {
    fn of(event: &Event<'_>, object: Range<usize>, names: Option<&[Text<'_>]>, bytes: &[u8]) -> Self {
        let base = bytes.as_ptr() as usize + object.start;
        let span = |text: Text<'_>| Span {
            // The text borrows from the event's bytes, so that the difference of the addresses is its place there.
            start: small(text.raw().as_ptr() as usize - base),
            length: small(text.raw().len()),
            escaped: text.as_str().is_none(),
        };
        let word =
            |known: u8, text: Text<'_>| if known == OTHER { Word::Other(span(text)) } else { Word::Known(known) };
        Self {
            id: span(event.event_id()),
            event_type: event.event_type().map_or(Word::Absent, |kind| word(number_of_type(kind), kind.text())),
            status: event.event_status().map_or(Word::Absent, |status| {
                let known = match status {
                    EventStatus::Scheduled => 0,
                    EventStatus::Started => 1,
                    EventStatus::Other(_) => OTHER,
                };
                word(known, status.text())
            }),
            source: event.event_source().map_or(Word::Absent, |source| {
                let known = match source {
                    EventSource::Platform => 0,
                    EventSource::User => 1,
                    EventSource::Other(_) => OTHER,
                };
                word(known, source.text())
            }),
            resource_type: event.resource_type().map(span),
            description: event.description().map(span),
            resources: event.resources().offset().map(|offset| small(offset - object.start)),
            few_names: names.and_then(|names| FewNames::of(names, base)).unwrap_or(MANY),
            not_before: event.not_before().moment(),
            duration: event.duration_in_seconds(),
            unreliable: event.unreliable_member().is_some(),
            index: small(event.index()),
            start: small(object.start),
            end: small(object.end),
        }
    }
}

impl FewNames {
    fn of(names: &[Text<'_>], base: usize) -> Option<Self> {
        let mut few = Self { places: [(0, 0); FEW], count: u8::try_from(names.len()).ok()? };
        for (place, name) in few.places.iter_mut().zip(names) {
            let name = name.as_str()?;
            *place = (u16::try_from(name.as_ptr() as usize - base).ok()?, u8::try_from(name.len()).ok()?);
        }
        Some(few)
    }
}

const OTHER: u8 = u8::MAX;

fn number_of_type(kind: EventType<'_>) -> u8 {
    match kind {
        EventType::Freeze => 0,
        EventType::Reboot => 1,
        EventType::Redeploy => 2,
        EventType::Preempt => 3,
        EventType::Terminate => 4,
        EventType::Other(_) => OTHER,
    }
}

/// A place in a document of less than 4 GiB.
fn small(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
