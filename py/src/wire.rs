//! Members of a document or an event by their JSON names, with the values that Python's `json` gives.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use scheduled_events_core::Members;

use crate::words::loads;

/// The value of the member `name` of the object at the start of `object`; the last one if there are several, as in a `dict`.
pub(crate) fn member<'py>(py: Python<'py>, object: &str, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = Members::new(object).filter(|(member, _)| *member == *name).last();
    found.map(|(_, raw)| value(py, raw)).transpose()
}

/// Whether the object at the start of `object` has the member `name`.
pub(crate) fn contains(object: &str, name: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(name) = name.cast::<PyString>() else { return Ok(false) };
    let name = name.to_cow()?;
    Ok(Members::new(object).any(|(member, _)| member == *name))
}

/// All members as a `dict`.
pub(crate) fn dict<'py>(py: Python<'py>, object: &str) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, raw) in Members::new(object) {
        dict.set_item(name.to_string(), value(py, raw)?)?;
    }
    Ok(dict)
}

/// What `json.loads` makes of the value.
pub(crate) fn value<'py>(py: Python<'py>, raw: &str) -> PyResult<Bound<'py, PyAny>> {
    // Most values are strings without escapes, which need no call of Python.
    match raw.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) if !text.contains('\\') => Ok(PyString::new(py, text).into_any()),
        _ => loads(py, raw),
    }
}
