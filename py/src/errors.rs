//! The exceptions that the package's `_errors` defines.

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use scheduled_events::imds::HttpResponse;
use scheduled_events::policy_file::PolicyError;
use scheduled_events_core::record::{CauseWord, Printable};
use scheduled_events_core::terminate::ProfileRule;
use scheduled_events_core::{Cause, ParseError, SnapshotError};

const MODULE: &str = "scheduled_events._errors";

/// The exception `name` with this message; `fill` adds its attributes.
fn error(
    py: Python<'_>,
    name: &str,
    message: &str,
    fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    let made = || {
        let details = PyDict::new(py);
        fill(&details)?;
        py.import(MODULE)?
            .getattr(name)?
            .call((message,), Some(&details))
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// `ParseError`: `text` is what was parsed.
pub(crate) fn parse_error(py: Python<'_>, found: ParseError, text: &[u8]) -> PyErr {
    let position = found.position(text);
    let message = format!(
        "{} at line {}, column {}",
        found.message(),
        position.line,
        position.column
    );
    error(py, "ParseError", &message, |details| {
        details.set_item("kind", found.kind.word())?;
        details.set_item("offset", found.offset)?;
        details.set_item("line", position.line)?;
        details.set_item("column", position.column)
    })
}

/// `Error`.
pub(crate) fn base(py: Python<'_>, message: &str) -> PyErr {
    error(py, "Error", message, |_| Ok(()))
}

/// `EndpointError` for a response that is no success. Its cause is that of the record of such a poll.
pub(crate) fn refused(py: Python<'_>, response: &HttpResponse) -> PyErr {
    let status = response.status;
    let (message, cause) = if status == 200 {
        (
            "the endpoint responded with an empty body, which does not mean that there are no events".to_owned(),
            Cause::EmptyBody,
        )
    } else {
        let text: String = String::from_utf8_lossy(&response.body)
            .chars()
            .take(300)
            .collect();
        let colon = if text.is_empty() { "" } else { ": " };
        let message = format!(
            "the endpoint responded with status {status}{colon}{}",
            Printable(&text)
        );
        (message, Cause::of_status(status))
    };
    error(py, "EndpointError", &message, |details| {
        details.set_item("cause", CauseWord(cause).to_string())?;
        details.set_item("status", status)?;
        details.set_item("retry_after", response.retry_after)
    })
}

/// `EndpointError` for a request without a response.
pub(crate) fn unreachable(py: Python<'_>, cause: Cause, detail: &str) -> PyErr {
    let status = match cause {
        Cause::Status(status) | Cause::Redirect(status) => Some(status),
        _ => None,
    };
    no_response(
        py,
        &format!("{cause} ({})", Printable(detail)),
        &CauseWord(cause).to_string(),
        status,
    )
}

/// `EndpointError` with this cause.
pub(crate) fn no_response(
    py: Python<'_>,
    message: &str,
    cause: &str,
    status: Option<u16>,
) -> PyErr {
    error(py, "EndpointError", message, |details| {
        details.set_item("cause", cause)?;
        details.set_item("status", status)
    })
}

/// `PolicyError` for the TOML text that is called `name`.
pub(crate) fn policy_file(py: Python<'_>, refused: &PolicyError, name: &str) -> PyErr {
    let place = refused
        .position
        .map_or(String::new(), |position| format!("{position}: "));
    error(
        py,
        "PolicyError",
        &format!("{name}{place}{}", refused.message),
        |details| {
            details.set_item("line", refused.position.map(|position| position.line))?;
            details.set_item("column", refused.position.map(|position| position.column))
        },
    )
}

/// `PolicyError` without a position.
pub(crate) fn policy(py: Python<'_>, message: &str) -> PyErr {
    error(py, "PolicyError", message, |_| Ok(()))
}

/// `ConfigError`.
pub(crate) fn config(py: Python<'_>, message: &str) -> PyErr {
    error(py, "ConfigError", message, |_| Ok(()))
}

/// `ArgumentError`: an argument has a type that is not accepted.
pub(crate) fn argument(py: Python<'_>, message: &str) -> PyErr {
    error(py, "ArgumentError", message, |_| Ok(()))
}

/// What the interpreter refuses about an argument, as an error of this package.
pub(crate) fn of_argument(py: Python<'_>, error: PyErr) -> PyErr {
    let kind = error.get_type(py);
    if kind.is(py.get_type::<PyTypeError>()) || kind.is(py.get_type::<PyOverflowError>()) {
        argument(py, &error.value(py).to_string())
    } else if error.is_instance_of::<PyUnicodeError>(py) {
        config(py, &error.value(py).to_string())
    } else {
        error
    }
}

/// Results of which an error can be about an argument.
pub(crate) trait About<T> {
    /// The error's message begins with the argument's name, as that of an argument that `PyO3` cannot convert.
    fn about(self, py: Python<'_>, argument: &str) -> PyResult<T>;
}

impl<T> About<T> for PyResult<T> {
    fn about(self, py: Python<'_>, argument: &str) -> PyResult<T> {
        self.inspect_err(|error| {
            // An exception of the interpreter has no notes before Python 3.11.
            let note = format!("while processing '{argument}'");
            let _ = error.value(py).call_method1("add_note", (note,));
        })
    }
}

/// `StateError`.
pub(crate) fn state(py: Python<'_>, message: &str) -> PyErr {
    error(py, "StateError", message, |_| Ok(()))
}

/// `SnapshotError`.
pub(crate) fn snapshot(py: Python<'_>, refused: SnapshotError) -> PyErr {
    let kind = match refused {
        SnapshotError::UnknownVersion(_) => "unknown-version",
        SnapshotError::TooManyEvents => "too-many-events",
        SnapshotError::OtherMachine => "other-machine",
        _ => "damaged",
    };
    error(py, "SnapshotError", &refused.to_string(), |details| {
        details.set_item("kind", kind)
    })
}

/// `ProfileError`.
pub(crate) fn profile(py: Python<'_>, rule: ProfileRule) -> PyErr {
    error(py, "ProfileError", rule.message(), |details| {
        details.set_item("rule", rule.word())
    })
}

/// `CapacityError`: a document has `needed` events.
pub(crate) fn capacity(py: Python<'_>, needed: usize, capacity: usize) -> PyErr {
    let message = format!("the document has {needed} events, and a tracker holds {capacity}");
    error(py, "CapacityError", &message, |details| {
        details.set_item("needed", needed)
    })
}

/// `RuntimeError` for a use after the close.
pub(crate) fn closed(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("the {what} is closed"))
}
