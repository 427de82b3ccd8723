//! The bytes of a document, which it shares with its events.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use scheduled_events_core::Document;

use crate::errors::{argument, parse_error};

/// The bytes of a document, owned by Python.
pub(crate) struct Body(PyBackedBytes);

impl Body {
    /// The bytes of `bytes`, `bytearray`, `memoryview` or `str`, copied at most once.
    pub(crate) fn from_python(input: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = if let Ok(bytes) = input.cast::<PyBytes>() {
            PyBackedBytes::from(bytes.clone())
        } else if let Ok(bytes) = input.cast::<PyByteArray>() {
            PyBackedBytes::from(bytes.clone())
        } else if input.is_instance_of::<PyString>() {
            // The parser refuses the bytes of a lone surrogate, and reports where they are.
            let encoded = input.call_method1("encode", ("utf-8", "surrogatepass"))?;
            PyBackedBytes::from(encoded.cast_into::<PyBytes>()?)
        } else if input.is_instance_of::<PyMemoryView>() {
            PyBackedBytes::from(input.call_method0("tobytes")?.cast_into::<PyBytes>()?)
        } else {
            let name = input.get_type().name()?;
            let message = format!("expected bytes, bytearray, memoryview or str, not {name}");
            return Err(argument(input.py(), &message));
        };
        Ok(Self(bytes))
    }

    /// A copy of `bytes`.
    pub(crate) fn copy(py: Python<'_>, bytes: &[u8]) -> Self {
        Self(PyBackedBytes::from(PyBytes::new(py, bytes)))
    }

    /// The same bytes, shared.
    pub(crate) fn share(&self, py: Python<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }

    /// Parses the document.
    pub(crate) fn parse(&self, py: Python<'_>) -> PyResult<Document<'_>> {
        Document::parse(self.bytes()).map_err(|error| parse_error(py, error, self.bytes()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
