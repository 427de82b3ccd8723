//! Access by the wire's names, with the values that Python's `json` would have given.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use scheduled_events_core::Members;

/// The value of the member `name` of the object that `object` begins with; of several the last one, as in a `dict`.
pub(crate) fn member<'py>(py: Python<'py>, object: &str, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = Members::of(object).filter(|(member, _)| *member == *name).last();
    found.map(|(_, raw)| value(py, raw)).transpose()
}

/// All members as a `dict`.
pub(crate) fn dict<'py>(py: Python<'py>, object: &str) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, raw) in Members::of(object) {
        dict.set_item(name.to_string(), value(py, raw)?)?;
    }
    Ok(dict)
}

/// What `json.loads` makes of the value. Plain texts and small numbers take a shorter way to the same.
pub(crate) fn value<'py>(py: Python<'py>, raw: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Some(text) = raw.strip_prefix('"').and_then(|text| text.strip_suffix('"'))
        && !text.contains('\\')
    {
        return Ok(PyString::new(py, text).into_any());
    }
    match raw {
        "null" => return Ok(py.None().into_bound(py)),
        _ if raw.len() < 18 => {
            if let Ok(number) = raw.parse::<i64>() {
                return Ok(number.into_pyobject(py)?.into_any());
            }
        }
        _ => {}
    }
    LOADS.import(py, "json", "loads")?.call1((raw,))
}
