//! The failure of a command.

use std::fmt::Display;

/// Why a command failed, and its exit code.
pub struct Failure {
    /// 1 or 2.
    pub exit_code: u8,
    /// Empty if there is nothing to report.
    pub message: String,
}

impl Failure {
    /// A service cannot be reached, or refuses.
    pub fn refused(error: impl Display) -> Self {
        Self {
            exit_code: 1,
            message: error.to_string(),
        }
    }

    /// The arguments or the configuration are invalid.
    pub fn usage(error: impl Display) -> Self {
        Self {
            exit_code: 2,
            message: error.to_string(),
        }
    }
}
