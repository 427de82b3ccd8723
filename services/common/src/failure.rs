//! The failure of a command.

/// Why a command failed, and its exit code.
pub struct Failure {
    /// 1 or 2.
    pub exit_code: u8,
    /// Empty if there is nothing to report.
    pub message: String,
}

impl Failure {
    /// A service cannot be reached, or refuses.
    pub fn refused(message: impl Into<String>) -> Self {
        Self {
            exit_code: 1,
            message: message.into(),
        }
    }

    /// The arguments or the configuration are invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit_code: 2,
            message: message.into(),
        }
    }
}
