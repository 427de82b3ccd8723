//! Standard output and standard error.
//!
//! A command that answers one question writes directly and waits for its reader, as
//! `scheduled-events list | less` should. A watcher must not wait: a log without a reader must not
//! delay the next poll. After [`start_writers`] each stream has a
//! [thread that writes](scheduled_events_text::stream).
//!
//! This file prints. `stream` has the two streams, `status_line` the line that is
//! rewritten in place; `journal` and `event_log` also receive diagnostics and records. `format`,
//! `style` and `terminal` format text, with what all programs share: `scheduled_events_text`.

#[cfg(windows)]
pub(crate) mod event_log;
pub(crate) mod format;
pub(crate) mod journal;
pub(crate) mod status_line;
mod stream;
pub(crate) mod style;
pub(crate) mod terminal;

use scheduled_events::record::write_json;
use serde::Serialize;

use crate::error::CommandError;
use stream::{ERRORS, OUTPUT, diagnostic};

pub(crate) use scheduled_events_text::table;

pub(crate) use stream::{
    be_quiet, check_written, dropped_records, flush_on_exit, is_quiet, start_writers,
};

/// Prints a diagnostic line, such as `error: …`, to standard error.
pub(crate) fn diagnose(label: &str, message: &str) {
    #[cfg(windows)]
    event_log::diagnostic(label, message);
    if label == "note" && is_quiet() {
        return;
    }
    let _hidden = status_line::hide();
    // There is no other place to report a failure of standard error.
    let _ = ERRORS.write(&diagnostic(label, message));
}

/// Prints the result of a command to standard output.
pub(crate) fn print(text: &[u8]) -> Result<(), CommandError> {
    let _hidden = status_line::hide();
    OUTPUT
        .write(text)
        .map_err(|error| CommandError::output(&error))
}

/// Prints a record, the result of a command, to standard output.
pub(crate) fn print_record(record: &impl Serialize) -> Result<(), CommandError> {
    let mut line = Vec::new();
    write_json(record, &mut line).map_err(|error| CommandError::output(&error))?;
    print(&line)
}

/// Prints progress for people to standard output. The command continues even if that fails.
pub(crate) fn print_progress(text: &str) {
    if !is_quiet() {
        let _ = print(text.as_bytes());
    }
}

/// Prints a record of progress to standard output. The command continues even if that fails.
pub(crate) fn print_progress_record(record: &impl Serialize) {
    let _ = print_record(record);
}
