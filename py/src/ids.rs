//! Events as arguments: ids, or what has one.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMapping, PyString};

use crate::convert::utf8;
use crate::document::event::PyEvent;
use crate::errors;

/// One event: its id, the event, a mapping with an `EventId`, or a record or step about one event.
pub(crate) struct EventIdArgument(pub(crate) String);

/// One event or several, at least one, none with an empty id.
pub(crate) struct EventIds(pub(crate) Vec<String>);

impl<'a, 'py> FromPyObject<'a, 'py> for EventIdArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        id_of(&object)?
            .map(Self)
            .ok_or_else(|| refused(&object, "an event or its id", ""))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for EventIds {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let ids = if let Some(id) = id_of(&object)? {
            vec![id]
        } else if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
            return Err(refused(&object, "ids or events", ""));
        } else {
            let items = object
                .try_iter()
                .map_err(|_| refused(&object, "ids or events", ""))?;
            let id = |item: &Bound<'py, PyAny>| {
                id_of(item)?.ok_or_else(|| refused(item, "ids or events", ""))
            };
            items.map(|item| id(&item?)).collect::<PyResult<Vec<_>>>()?
        };
        if ids.is_empty() || ids.iter().any(String::is_empty) {
            return Err(errors::config(
                object.py(),
                "expected at least one event to approve, and no empty id",
            ));
        }
        Ok(Self(ids))
    }
}

/// The id of the event that the argument is, if it is one. Iterating over a mapping would give its keys, so a mapping without an
/// `EventId` is an error.
fn id_of(argument: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(id) = argument.cast::<PyString>() {
        return Ok(Some(utf8(id)?.into_owned()));
    }
    if let Ok(event) = argument.cast::<PyEvent>() {
        return Ok(Some(event.get().core().event_id().to_string()));
    }
    let id = if argument.cast::<PyMapping>().is_ok() {
        argument.get_item("EventId").map_err(|error| {
            let hint = if argument.contains("Events").unwrap_or(false) {
                "; a document has .events"
            } else {
                ""
            };
            let is_absent = error.is_instance_of::<PyKeyError>(argument.py());
            if is_absent {
                refused(
                    argument,
                    "ids or events",
                    &format!(" without an EventId{hint}"),
                )
            } else {
                error
            }
        })?
    } else {
        match argument.getattr_opt("event_id")? {
            Some(id) => id,
            None => return Ok(None),
        }
    };
    match id.cast::<PyString>() {
        Ok(id) => Ok(Some(utf8(id)?.into_owned())),
        Err(_) => Err(refused(&id, "a str as the event's id", "")),
    }
}

fn refused(found: &Bound<'_, PyAny>, expected: &str, more: &str) -> PyErr {
    let kind = found
        .get_type()
        .name()
        .map_or_else(|_| String::new(), |name| name.to_string());
    errors::argument(
        found.py(),
        &format!("expected {expected}, not {kind}{more}"),
    )
}
