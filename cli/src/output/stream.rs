//! The command's two streams, and what it prints to them beside results.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use scheduled_events_text::stream::{Stream, Target};

use super::format::printable;
use super::journal::{self, Priority};
use super::style::{BAD, CAUTION};
use crate::error::CommandError;

pub(crate) static OUTPUT: Stream = Stream::new(Target::Output, report);
pub(crate) static ERRORS: Stream = Stream::new(Target::Errors, report);

/// Whether progress for people, and notes, are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether progress for people is left out.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// From now on, leaves out progress for people, and notes.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Writes the status line, which also counts as progress.
pub(crate) fn write_status(text: &str) {
    if !is_quiet() {
        let _ = OUTPUT.write(text.as_bytes());
    }
}

/// From now on, a stalled reader delays callers only for a limited time.
pub(crate) fn start_writers() -> io::Result<()> {
    OUTPUT.start_writer()?;
    ERRORS.start_writer()
}

/// Waits until everything is written, for a limited time.
pub(crate) fn flush_on_exit() {
    OUTPUT.flush_on_exit();
    ERRORS.flush_on_exit();
}

/// The number of records that were dropped so far, because no reader took them from standard
/// output.
pub(crate) fn dropped_records() -> u64 {
    OUTPUT.dropped()
}

/// Whether everything that was printed to standard output so far was written: for commands that
/// continue without it.
///
/// # Errors
/// The first failure.
pub(crate) fn check_written() -> Result<(), CommandError> {
    OUTPUT
        .failure()
        .map_or(Ok(()), |reason| Err(CommandError::output(&reason)))
}

/// A diagnostic as a line.
pub(crate) fn diagnostic(label: &str, message: &str) -> Vec<u8> {
    let style = if label == "error" { BAD } else { CAUTION };
    let prefix = if journal::has_errors() {
        Priority::of_label(label).prefix()
    } else {
        String::new()
    };
    format!("{prefix}{style}{label}:{style:#} {}\n", printable(message)).into_bytes()
}

/// Reports texts that were dropped or could not be written.
fn report(label: &str, message: &str) {
    ERRORS.enqueue(&diagnostic(label, message));
}
