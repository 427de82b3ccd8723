//! Documents and events as mappings: members by their JSON names, with the values that Python's `json` gives.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::type_object::PyTypeCheck;
use pyo3::types::{PyDict, PyString};
use scheduled_events_core::Members;

use crate::words::loads;

/// A class that Python reads like the `dict` of a JSON object. A class has one block of methods for Python, so each class
/// lists the methods of a mapping and takes what they do from here.
pub(crate) trait JsonObject: pyo3::PyClass<Frozen = True> + Sync {
    /// Text that starts with the JSON object.
    fn object(&self) -> &str;

    /// The value of a member that is present and does not have the value of Python's `json`.
    fn own_value<'py>(&self, _py: Python<'py>, _name: &str) -> Option<Bound<'py, PyAny>> {
        None
    }

    /// The value of the member `name`; the last one if there are several, as in a `dict`.
    fn value<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(name) = name.cast::<PyString>() else {
            return Ok(None);
        };
        let Ok(name) = name.to_cow() else {
            return Ok(None);
        };
        if let Some(value) = self.own_value(py, &name) {
            return Ok(Some(value));
        }
        let found = Members::new(self.object())
            .filter(|(member, _)| *member == *name)
            .last();
        found.map(|(_, raw)| from_json(py, raw)).transpose()
    }

    /// The same, or `KeyError`.
    fn item<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value(py, name)?
            .ok_or_else(|| PyKeyError::new_err(name.clone().unbind()))
    }

    /// Whether there is a member `name`.
    fn contains(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = name.cast::<PyString>() else {
            return Ok(false);
        };
        let Ok(name) = name.to_cow() else {
            return Ok(false);
        };
        Ok(Members::new(self.object()).any(|(member, _)| member == *name))
    }

    /// All members.
    fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, raw) in Members::new(self.object()) {
            let name = name.to_string();
            let value = self
                .own_value(py, &name)
                .map_or_else(|| from_json(py, raw), Ok)?;
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// The `keys`, `values` or `items` of all members.
    fn view<'py, T: PyTypeCheck>(&self, py: Python<'py>, method: &str) -> PyResult<Bound<'py, T>> {
        Ok(self.dict(py)?.call_method0(method)?.cast_into()?)
    }

    /// Whether `other`, an object of this class or a `dict`, has the same members; `NotImplemented` for others.
    fn equals<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let equal = if let Ok(other) = other.cast::<Self>() {
            let other = other.get();
            self.object() == other.object() || self.dict(py)?.eq(other.dict(py)?)?
        } else if other.is_instance_of::<PyDict>() {
            self.dict(py)?.eq(other)?
        } else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        Ok(equal.into_pyobject(py)?.to_owned().into_any())
    }
}

/// What `json.loads` makes of the value.
fn from_json<'py>(py: Python<'py>, raw: &str) -> PyResult<Bound<'py, PyAny>> {
    // Most values are strings without escapes, which need no call of Python.
    match raw
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    {
        Some(text) if !text.contains('\\') => Ok(PyString::new(py, text).into_any()),
        _ => loads(py, raw),
    }
}
