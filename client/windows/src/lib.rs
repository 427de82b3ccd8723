//! What the command `scheduled-events` needs of Windows beyond the standard library. It is empty on other systems.
//!
//! * [`job`]: a command and all that it starts, ended together. [`stop`]: Ctrl-C, the end of a console, a shutdown.
//! * [`service`]: a service and its installation. [`event_log`]: entries in the Application log.
//! * [`files`]: replacing a file, and folders for administrators alone. [`text`]: output in the console's code page.
//!
//! The client itself forbids `unsafe`; this crate makes the calls that need it, each in a safe function.
#![cfg(windows)]

pub mod event_log;
pub mod files;
pub mod job;
pub mod service;
pub mod stop;
pub mod text;

use std::ffi::OsStr;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawSocket, AsSocket};
use std::ptr;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};

/// From now on, processes that this one starts do not inherit the socket: a connection that an accepted socket closes stays open as
/// long as another process has it.
///
/// # Errors
/// Those of Windows.
pub fn forbid_inheritance(socket: &impl AsSocket) -> io::Result<()> {
    let socket = socket.as_socket();
    let handle = ptr::with_exposed_provenance_mut(
        usize::try_from(socket.as_raw_socket()).unwrap_or_default(),
    );
    // SAFETY: the socket is open, and is a handle.
    check(unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) })
}

/// A text as Windows takes it: UTF-16, with a zero at its end.
///
/// # Errors
/// The text contains a zero.
fn wide(text: impl AsRef<OsStr>) -> io::Result<Vec<u16>> {
    let mut wide: Vec<u16> = text.as_ref().encode_wide().collect();
    if wide.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the text contains a zero character",
        ));
    }
    wide.push(0);
    Ok(wide)
}

/// The result of a call that returns zero on failure.
fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The result of a call that returns an error code.
fn check_code(code: u32) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code.cast_signed()))
    }
}
