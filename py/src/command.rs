//! The command `scheduled-events`, run inside Python.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs the command with these arguments, the program's name first, and returns its exit code.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| {
        let code = scheduled_events_cli::run(arguments);
        // Python flushes its own output at exit, not Rust's.
        let _ = std::io::stdout().flush();
        (0..=u8::MAX)
            .find(|&number| ExitCode::from(number) == code)
            .unwrap_or(1)
    })
}
