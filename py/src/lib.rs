//! The Python module `scheduled_events._native`: it converts between Python and the crates `core` and `client`.
//!
//! The Python package, `python/scheduled_events`, has what is simpler in Python: exceptions, enumerations, record
//! classes and the client. A Rust type `PyX` is the class `X` of Python.
//!
//! The order to read: `words` and `convert`; `document::body`, `document::event`, `document`; `ids`; then one file for each class or
//! function.
// Docstrings follow Python's conventions, and Python's arguments are owned by the call.
#![allow(
    clippy::doc_markdown,
    clippy::needless_pass_by_value,
    clippy::too_many_arguments
)]

mod command;
mod convert;
mod document;
mod errors;
mod ids;
mod imds;
mod notification;
mod policy;
mod replay;
mod session;
mod spot;
mod terminate;
mod tracker;
mod watch;
mod wire;
mod words;

use pyo3::prelude::*;

/// The native part of the package `scheduled_events`; import that one.
#[pymodule(gil_used = false)]
mod _native {
    use std::sync::OnceLock;

    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;
    use pyo3::types::{PyMapping, PySequence};

    #[pymodule_export]
    use crate::command::run;
    #[pymodule_export]
    use crate::convert::names;
    #[pymodule_export]
    use crate::document::event::{PyEvent, event_of_record, unpickle_event};
    #[pymodule_export]
    use crate::document::{PyDocument, parse};
    #[pymodule_export]
    use crate::imds::{PyImds, start_requests};
    #[pymodule_export]
    use crate::notification::{
        PyNotification, PyNotifications, PyRequest, acknowledge_request, parse_notifications,
    };
    #[pymodule_export]
    use crate::policy::{PyPolicy, PyRule, unpickle_policy};
    #[pymodule_export]
    use crate::replay::{PyFinding, PyReplay, PyVerdict, replay, scenarios};
    #[pymodule_export]
    use crate::session::PySession;
    #[pymodule_export]
    use crate::spot::next_phase;
    #[pymodule_export]
    use crate::terminate::{check_os_image_timeout, check_profile, format_timeout, parse_timeout};
    #[pymodule_export]
    use crate::tracker::PyTracker;
    #[pymodule_export]
    use crate::watch::{PyTask, PyWatch};
    #[pymodule_export]
    use crate::words::{printable, record_example, record_examples, record_members};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Cached Python objects belong to one interpreter, and each interpreter has its own builtins.
        static INTERPRETER: OnceLock<usize> = OnceLock::new();
        let builtins = module.py().import("builtins")?.as_ptr() as usize;
        if *INTERPRETER.get_or_init(|| builtins) != builtins {
            return Err(PyImportError::new_err(
                "scheduled_events supports one interpreter in a process",
            ));
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        PyMapping::register::<PyEvent>(module.py())?;
        PyMapping::register::<PyDocument>(module.py())?;
        PySequence::register::<PyNotifications>(module.py())
    }
}
