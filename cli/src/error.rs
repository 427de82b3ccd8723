//! Why a command failed, and its exit code.

use std::fmt;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit_code: u8,
    pub(crate) message: String,
}

impl CommandError {
    /// The endpoint cannot be reached or refuses, or nothing can be approved.
    pub(crate) fn endpoint(message: impl Into<String>) -> Self {
        Self {
            exit_code: 1,
            message: message.into(),
        }
    }

    /// What was printed is the reason.
    pub(crate) const fn printed() -> Self {
        Self {
            exit_code: 1,
            message: String::new(),
        }
    }

    /// The output cannot be written.
    pub(crate) fn output(reason: &dyn fmt::Display) -> Self {
        Self {
            exit_code: 1,
            message: format!("cannot write to standard output: {reason}"),
        }
    }

    /// The arguments are invalid, or cannot be used on this machine.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self {
            exit_code: 2,
            message: text(&message),
        }
    }

    /// The input is not a valid document.
    pub(crate) fn document(message: impl Into<String>) -> Self {
        Self {
            exit_code: 3,
            message: message.into(),
        }
    }

    /// `wait`: the time is over.
    pub(crate) fn time_over(message: impl Into<String>) -> Self {
        Self {
            exit_code: 4,
            message: message.into(),
        }
    }
}

/// One function for all types of errors keeps the command small.
fn text(message: &dyn fmt::Display) -> String {
    message.to_string()
}
