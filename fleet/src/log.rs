//! The log: lines on standard error.

use std::io::Write as _;

use scheduled_events_core::record::Printable;

/// Writes a line that is safe to print. A log that cannot be written, because the disk is full or its reader has ended, must not end
/// the program.
pub(crate) fn line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a line with all characters escaped that are unsafe to print.
pub(crate) fn printable(message: &str) {
    line(&Printable(message).to_string());
}
