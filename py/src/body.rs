//! The bytes of a document, with an index of what stands where: texts become Python's only when they are read.

use std::borrow::Cow;
use std::ops::Range;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use scheduled_events_core::{Document, Event, EventLayout, Member, Text};

use crate::errors::parse_error;
use crate::words::Known;

/// A document's bytes, which it shares with its events.
pub(crate) struct Body(PyBackedBytes);

/// An event, and where its object stands.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    layout: EventLayout,
    start: usize,
    end: usize,
    few_names: FewNames,
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

impl Body {
    /// The bytes of a document out of `bytes`, `bytearray`, `memoryview` or `str`, copying at most once.
    pub(crate) fn of(input: &Bound<'_, PyAny>) -> PyResult<Self> {
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
        Ok(Self(bytes))
    }

    /// A copy of bytes of one's own.
    pub(crate) fn copy(py: Python<'_>, bytes: &[u8]) -> Self {
        Self(PyBackedBytes::from(PyBytes::new(py, bytes)))
    }

    /// The same bytes, shared.
    pub(crate) fn share(&self, py: Python<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }

    /// Reads the document, and shows each event and what is kept of it; a repeated id's too, which does not stand.
    pub(crate) fn read_each(&self, py: Python<'_>, mut each: impl FnMut(Entry)) -> PyResult<Document<'_>> {
        let bytes = self.bytes();
        let document = Document::parse_each(bytes, &mut [Text::plain(""); FEW], |event, object, names| {
            each(Entry::of(event, object, names, bytes));
        });
        document.map_err(|error| parse_error(py, error, bytes))
    }

    /// The bytes that were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of an event's object.
    fn of_object(&self, entry: &Entry) -> &[u8] {
        self.0.get(entry.start..entry.end).unwrap_or_default()
    }

    /// The text of an event's object.
    pub(crate) fn object(&self, entry: &Entry) -> &str {
        str::from_utf8(self.of_object(entry)).unwrap_or_default()
    }

    /// The event as core knows it.
    pub(crate) fn event(&self, entry: &Entry) -> Event<'_> {
        entry.layout.event(self.object(entry))
    }

    /// The text of a member, if the event has it and it has no escapes.
    pub(crate) fn plain(&self, entry: &Entry, member: Member) -> Option<&[u8]> {
        self.event(entry).text(member)?.as_str().map(str::as_bytes)
    }

    /// The decoded text of a member.
    pub(crate) fn text(&self, entry: &Entry, member: Member) -> Option<Cow<'_, [u8]>> {
        let text = self.event(entry).text(member)?;
        Some(match text.as_str() {
            Some(plain) => Cow::Borrowed(plain.as_bytes()),
            None => Cow::Owned(text.to_string().into_bytes()),
        })
    }

    /// A word of an open enumeration as one of those that are known, or as a text; None where there is none.
    pub(crate) fn word(&self, py: Python<'_>, entry: &Entry, member: Member, known: &[Known]) -> PyResult<Py<PyAny>> {
        let Some(text) = self.text(entry, member) else { return Ok(py.None()) };
        match known.iter().find(|known| known.word.as_bytes() == &*text) {
            Some(known) => Ok(known.member.clone_ref(py)),
            None => Ok(PyString::from_bytes(py, &text)?.into_any().unbind()),
        }
    }

    /// The names in an event's `Resources`, when their places are known.
    pub(crate) fn few_names(&self, entry: &Entry) -> Option<impl ExactSizeIterator<Item = PlainName<'_>>> {
        let few = entry.few_names.places.get(..usize::from(entry.few_names.count))?;
        let object = self.of_object(entry);
        Some(few.iter().map(|&(start, length)| {
            let start = usize::from(start);
            PlainName(object.get(start..start + usize::from(length)).unwrap_or_default())
        }))
    }

    /// Whether one of these names stands among the event's `Resources`.
    pub(crate) fn concerns(&self, entry: &Entry, names: &[&str]) -> bool {
        match self.few_names(entry) {
            Some(mut few) => {
                few.any(|resource| names.iter().any(|name| resource.0.eq_ignore_ascii_case(name.as_bytes())))
            }
            None => self
                .event(entry)
                .resources()
                .iter()
                .any(|resource| names.iter().any(|name| resource.eq_ignore_ascii_case(name))),
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

impl Entry {
    fn of(event: &Event<'_>, object: Range<usize>, names: Option<&[Text<'_>]>, bytes: &[u8]) -> Self {
        let base = bytes.as_ptr() as usize + object.start;
        Self {
            layout: event.layout(),
            start: object.start,
            end: object.end,
            few_names: names.and_then(|names| FewNames::of(names, base)).unwrap_or(MANY),
        }
    }
}

impl FewNames {
    fn of(names: &[Text<'_>], base: usize) -> Option<Self> {
        let mut few = Self { places: [(0, 0); FEW], count: u8::try_from(names.len()).ok()? };
        for (place, name) in few.places.iter_mut().zip(names) {
            // The name borrows from the event's bytes, so that the difference of the addresses is its place there.
            let name = name.as_str()?;
            *place = (u16::try_from(name.as_ptr() as usize - base).ok()?, u8::try_from(name.len()).ok()?);
        }
        Some(few)
    }
}
