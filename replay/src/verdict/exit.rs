//! How the process of a client ended: a crash is a failed test, even of a client that broke no rule.

use std::fmt;
use std::process::ExitStatus;

use super::Outcome;

/// How the process of a client ended. `Display` writes it as the end of a sentence.
///
/// ```
/// use std::process::Command;
///
/// use scheduled_events_replay::verdict::{ClientExit, Outcome};
///
/// let exit = ClientExit::ByItself(Command::new("false").status()?);
/// assert_eq!(exit.outcome(), Outcome::Failed);
/// # #[cfg(unix)]
/// assert_eq!(exit.to_string(), "the command ended with exit status: 1");
/// assert_eq!(ClientExit::Stopped.outcome(), Outcome::NotChecked);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientExit {
    /// It still ran when the test ended, and was stopped.
    Stopped,
    /// It ended by itself, with this status.
    ByItself(ExitStatus),
}

impl ClientExit {
    /// The name of the test case in reports.
    pub const ID: &'static str = "exit-status";

    /// Whether the process ended as a client does that works: a status other than success is a
    /// failure. That of a process that was stopped means nothing.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Stopped => Outcome::NotChecked,
            Self::ByItself(status) if status.success() => Outcome::Passed,
            Self::ByItself(_) => Outcome::Failed,
        }
    }

    /// The exit code; `None` if there is none, as after a signal.
    pub(super) fn code(self) -> Option<i32> {
        match self {
            Self::Stopped => None,
            Self::ByItself(status) => status.code(),
        }
    }
}

impl fmt::Display for ClientExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the command still ran at the end and was stopped"),
            Self::ByItself(status) => write!(f, "the command ended with {status}"),
        }
    }
}
