//! What differs between operating systems for a program: signals, the supervisor, the journal. One module for Unix and one for
//! Windows, with the same functions. What the library needs of a system is in the library.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
