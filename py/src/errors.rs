//! Exceptions: the package defines them, this raises them.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use scheduled_events::policy_file::PolicyError;
use scheduled_events_core::record::CauseWord;
use scheduled_events_core::{Cause, ParseError};

/// Where the exceptions are defined.
const MODULE: &str = "scheduled_events._errors";

/// The exception `name` with this message; `fill` adds its attributes.
fn error(py: Python<'_>, name: &str, message: &str, fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    let made = || {
        let details = PyDict::new(py);
        fill(&details)?;
        py.import(MODULE)?.getattr(name)?.call((message,), Some(&details))
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// `ParseError`: `text` is what was parsed.
pub(crate) fn parse_error(py: Python<'_>, error_found: ParseError, text: &[u8]) -> PyErr {
    let position = error_found.position(text);
    let message = format!("{} at line {}, column {}", error_found.message(), position.line, position.column);
    error(py, "ParseError", &message, |details| {
        details.set_item("kind", error_found.kind.word())?;
        details.set_item("offset", error_found.offset)?;
        details.set_item("line", position.line)?;
        details.set_item("column", position.column)
    })
}

/// `Error`, for what no other one tells.
pub(crate) fn base(py: Python<'_>, message: &str) -> PyErr {
    error(py, "Error", message, |_| Ok(()))
}

/// `EndpointError` for an answer that refuses.
pub(crate) fn refused(py: Python<'_>, status: u16, body: &[u8]) -> PyErr {
    let said: String = String::from_utf8_lossy(body).chars().filter(|char| !char.is_control()).take(300).collect();
    let colon = if said.is_empty() { "" } else { ": " };
    error(py, "EndpointError", &format!("the endpoint answered with status {status}{colon}{said}"), |details| {
        details.set_item("status", status)
    })
}

/// `EndpointError` for an answer that did not come.
pub(crate) fn unreachable(py: Python<'_>, cause: Cause, detail: &str) -> PyErr {
    let status = match cause {
        Cause::Status(status) | Cause::Redirect(status) => Some(status),
        _ => None,
    };
    no_answer(py, &format!("{cause} ({detail})"), &CauseWord(cause).to_string(), status)
}

/// `EndpointError` with a cause in words.
pub(crate) fn no_answer(py: Python<'_>, message: &str, cause: &str, status: Option<u16>) -> PyErr {
    error(py, "EndpointError", message, |details| {
        details.set_item("cause", cause)?;
        details.set_item("status", status)
    })
}

/// `PolicyError`, from a text that `name` names.
pub(crate) fn policy(py: Python<'_>, refused: &PolicyError, name: &str) -> PyErr {
    let place = refused.position.map_or(String::new(), |position| format!("{position}: "));
    error(py, "PolicyError", &format!("{name}{place}{}", refused.message), |details| {
        details.set_item("line", refused.position.map(|position| position.line))?;
        details.set_item("column", refused.position.map(|position| position.column))
    })
}

/// `PolicyError` without a place.
pub(crate) fn policy_text(py: Python<'_>, message: &str) -> PyErr {
    error(py, "PolicyError", message, |_| Ok(()))
}

/// `ConfigError`.
pub(crate) fn config(py: Python<'_>, message: &str) -> PyErr {
    error(py, "ConfigError", message, |_| Ok(()))
}

/// `StateError`.
pub(crate) fn state(py: Python<'_>, message: &str) -> PyErr {
    error(py, "StateError", message, |_| Ok(()))
}

/// `SnapshotError`.
pub(crate) fn snapshot(py: Python<'_>, message: &str) -> PyErr {
    error(py, "SnapshotError", message, |_| Ok(()))
}

/// `CapacityError`: a document holds `needed` events.
pub(crate) fn capacity(py: Python<'_>, needed: usize, room: usize) -> PyErr {
    let message = format!("the document holds {needed} events, and a tracker {room}");
    error(py, "CapacityError", &message, |details| details.set_item("needed", needed))
}

/// What is used after it was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("the {what} is closed"))
}
