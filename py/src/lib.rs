//! The Python module `scheduled_events._native`: core and client, converted and nothing else.
//!
//! What Python spells better than Rust (exceptions, enumerations, records, the client's front) stands in the package
//! beside it, `python/scheduled_events`.
// The documentation of what Python sees is Python's, and arguments are extracted for one call.
#![allow(clippy::doc_markdown, clippy::needless_pass_by_value, clippy::too_many_arguments)]

mod body;
mod command;
mod convert;
mod document;
mod errors;
mod event;
mod imds;
mod policy;
mod replay;
mod session;
mod tracker;
mod watch;
mod wire;
mod words;

use pyo3::prelude::*;

/// What the package `scheduled_events` is made of; use that one.
#[pymodule]
mod _native {
    use std::sync::OnceLock;

    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;
    use pyo3::types::PyMapping;

    #[pymodule_export]
    use crate::command::run;
    #[pymodule_export]
    use crate::document::{Document, parse};
    #[pymodule_export]
    use crate::event::{Event, event_of_bytes};
    #[pymodule_export]
    use crate::imds::{Imds, start_requests};
    #[pymodule_export]
    use crate::policy::{Policy, Rule, rule_of_text};
    #[pymodule_export]
    use crate::replay::{Replay, replay, scenarios};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::tracker::Tracker;
    #[pymodule_export]
    use crate::watch::{Task, Watch};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Objects that are looked up once belong to one interpreter, and each interpreter has builtins of its own.
        static INTERPRETER: OnceLock<usize> = OnceLock::new();
        let builtins = module.py().import("builtins")?.as_ptr() as usize;
        if *INTERPRETER.get_or_init(|| builtins) != builtins {
            return Err(PyImportError::new_err("scheduled_events works in one interpreter of a process only"));
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        PyMapping::register::<Event>(module.py())?;
        PyMapping::register::<Document>(module.py())
    }
}
