//! Entries in Windows' Application log.

use std::io;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::EventLog::{
    EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, EVENTLOG_WARNING_TYPE, RegisterEventSourceW,
    ReportEventW,
};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_SET_VALUE, REG_DWORD, REG_EXPAND_SZ, REG_OPTION_NON_VOLATILE,
    RegCloseKey, RegCreateKeyExW, RegDeleteKeyW, RegSetValueExW,
};

use crate::{check, check_code, wide};

/// The key of the sources of the Application log.
const SOURCES: &str = r"SYSTEM\CurrentControlSet\Services\EventLog\Application";

/// The messages of a program that every Windows has: `%1`, the text that was logged, for the ids from 1 to 1000.
const MESSAGES: &str = r"%SystemRoot%\System32\EventCreate.exe";

/// The longest text that Windows accepts, in UTF-16 code units.
const TEXT_MAX: usize = 31_839;

/// How important an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Everything else.
    Information,
}

/// The Application log, opened for a source.
#[derive(Debug)]
pub struct EventLog(HANDLE);

// SAFETY: Windows accepts the handle on every thread.
unsafe impl Send for EventLog {}
// SAFETY: as above; ReportEventW needs no order of calls.
unsafe impl Sync for EventLog {}

impl EventLog {
    /// Opens the log. It is never closed: it is for the whole run.
    ///
    /// # Errors
    /// Those of Windows.
    pub fn open(source: &str) -> io::Result<Self> {
        // SAFETY: the name ends with a zero.
        let log = unsafe { RegisterEventSourceW(null(), wide(source)?.as_ptr()) };
        if log.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self(log))
        }
    }

    /// Adds an entry. Long texts are shortened.
    ///
    /// # Errors
    /// Those of Windows: the service of the log does not run, for example.
    pub fn report(&self, level: Level, id: u32, text: &str) -> io::Result<()> {
        let kind = match level {
            Level::Error => EVENTLOG_ERROR_TYPE,
            Level::Warning => EVENTLOG_WARNING_TYPE,
            Level::Information => EVENTLOG_INFORMATION_TYPE,
        };
        let mut wide = wide(without_insertions(text))?;
        if wide.len() > TEXT_MAX {
            wide.truncate(TEXT_MAX - 1);
            wide.push(0);
        }
        let texts = [wide.as_ptr()];
        // SAFETY: there is one text, which ends with a zero, and no data.
        check(unsafe {
            ReportEventW(
                self.0,
                kind,
                0,
                id,
                null_mut(),
                1,
                0,
                texts.as_ptr(),
                null(),
            )
        })
    }
}

/// The text without what the Event Viewer would replace: a percent sign before a digit gets an invisible character.
fn without_insertions(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars().filter(|char| *char != '\0') {
        if char.is_ascii_digit() && plain.ends_with('%') {
            plain.push('\u{200b}');
        }
        plain.push(char);
    }
    plain
}

/// Registers a source, so that the Event Viewer shows its texts.
///
/// # Errors
/// Those of Windows: it takes an administrator.
pub fn register_source(source: &str) -> io::Result<()> {
    let name = wide(format!(r"{SOURCES}\{source}"))?;
    let mut key: HKEY = null_mut();
    // SAFETY: all texts end with a zero, and the lengths are those of the values in bytes.
    unsafe {
        check_code(RegCreateKeyExW(
            HKEY_LOCAL_MACHINE,
            name.as_ptr(),
            0,
            null(),
            REG_OPTION_NON_VOLATILE,
            KEY_SET_VALUE,
            null(),
            &raw mut key,
            null_mut(),
        ))?;
        let (file, file_name) = (wide(MESSAGES)?, wide("EventMessageFile")?);
        let file_size = u32::try_from(file.len() * 2).unwrap_or_default();
        let written = check_code(RegSetValueExW(
            key,
            file_name.as_ptr(),
            0,
            REG_EXPAND_SZ,
            file.as_ptr().cast(),
            file_size,
        ));
        let types = EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE;
        let (types, types_name) = (u32::from(types).to_le_bytes(), wide("TypesSupported")?);
        let written = written.and_then(|()| {
            check_code(RegSetValueExW(
                key,
                types_name.as_ptr(),
                0,
                REG_DWORD,
                types.as_ptr(),
                4,
            ))
        });
        RegCloseKey(key);
        written
    }
}

/// Removes a source. Its entries stay.
///
/// # Errors
/// Those of Windows.
pub fn remove_source(source: &str) -> io::Result<()> {
    let name = wide(format!(r"{SOURCES}\{source}"))?;
    // SAFETY: the name ends with a zero.
    match check_code(unsafe { RegDeleteKeyW(HKEY_LOCAL_MACHINE, name.as_ptr()) }) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_inserts_nothing() {
        assert_eq!(without_insertions("100 % of\0 %PATH%"), "100 % of %PATH%");
        assert_eq!(without_insertions("%1 %%2"), "%\u{200b}1 %%\u{200b}2");
    }
}
