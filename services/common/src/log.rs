//! The log: lines on standard error.

use std::io::Write as _;

use scheduled_events_core::record::Printable;

use crate::address::without_secrets;

/// Writes a line that is safe to print, without the secrets in its addresses. A log that cannot be
/// written, because the disk is full or its reader has ended, must not end the program.
pub fn line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", without_secrets(line));
}

/// Escapes all characters that are unsafe to print, and writes the line.
pub fn printable(message: &str) {
    line(&Printable(message).to_string());
}
