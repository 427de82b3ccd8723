//! The differences between operating systems for a program: signals, the supervisor, the journal.
//! One module for Unix and one for Windows, with the same functions. The library has its own for
//! what it needs of a system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Who has the lock of a file.
pub(crate) enum LockState {
    /// Nobody, or it cannot be known.
    Free,
    /// A process, with its id if the lock file has it.
    #[cfg_attr(windows, allow(dead_code))]
    Held(Option<u32>),
}
