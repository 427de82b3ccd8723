//! Why a command failed, and its exit code.

use std::fmt;

/// Why a command failed.
#[derive(Debug)]
pub(super) struct CommandError {
    pub(super) exit_code: u8,
    pub(super) message: String,
}

impl CommandError {
    /// The endpoint cannot be reached or refuses, or nothing can be approved.
    pub(super) fn endpoint(message: impl Into<String>) -> Self {
        Self { exit_code: 1, message: message.into() }
    }

    /// The output cannot be written.
    pub(super) fn output(reason: &dyn fmt::Display) -> Self {
        Self { exit_code: 1, message: format!("cannot write to standard output: {reason}") }
    }

    /// The arguments are invalid, or cannot be used on this machine.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { exit_code: 2, message: message.into() }
    }

    /// The input is not a valid document.
    pub(super) fn document(message: impl Into<String>) -> Self {
        Self { exit_code: 3, message: message.into() }
    }

    /// `wait`: the time is over.
    pub(super) fn time_over(message: impl Into<String>) -> Self {
        Self { exit_code: 4, message: message.into() }
    }
}
