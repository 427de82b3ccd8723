//! The log: lines on standard error.

use std::io;

use scheduled_events_core::record::Printable;
use scheduled_events_text::stream::{Stream, Target};

use crate::address::without_secrets;

static ERRORS: Stream = Stream::new(Target::Errors, |severity, message| {
    ERRORS.enqueue(format!("{severity}: {message}\n").as_bytes());
});

/// From now on, a reader of the log that hangs delays this program only for a limited time.
///
/// # Errors
/// The system refuses a thread.
pub fn start_writer() -> io::Result<()> {
    ERRORS.start_writer()
}

/// Waits until everything is written, for a limited time.
pub fn flush_on_exit() {
    ERRORS.flush_on_exit();
}

/// Writes a line that is safe to print, without the secrets in its addresses. A log that cannot be
/// written, because the disk is full or its reader has ended, must not end the program.
pub fn line(line: &str) {
    let _ = ERRORS.write(format!("{}\n", without_secrets(line)).as_bytes());
}

/// Escapes all characters that are unsafe to print, and writes the line.
pub fn printable(message: &str) {
    line(&Printable(message).to_string());
}
