//! One line on a terminal that is rewritten in place, as a sign of life while nothing happens.
//!
//! It is never written to a file or a pipe. Other output hides it first, so that no other line is
//! mixed with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use unicode_width::UnicodeWidthStr;

use super::stream::write_status;
use super::style::DIM;
use super::table::cut;
use super::terminal;

/// The columns that the line occupies now.
static SHOWN: Mutex<usize> = Mutex::new(0);

/// Shows the line, or replaces its text, if standard output is a terminal. The text must be safe to
/// print.
pub(crate) fn show(text: &str) {
    let Some(columns) = terminal::output_width() else {
        return;
    };
    // After the last column, some terminals start a new line.
    let text = cut(text, columns.saturating_sub(1).max(1));
    let width = text.width();
    let mut shown = lock();
    let rest = " ".repeat(shown.saturating_sub(width));
    write_status(&format!("\r{DIM}{text}{DIM:#}{rest}"));
    *shown = width;
}

/// Removes the line. It stays hidden until the returned value is dropped.
pub(crate) fn hide() -> Hidden {
    let mut shown = lock();
    if *shown > 0 {
        write_status(&format!("\r{}\r", " ".repeat(*shown)));
        *shown = 0;
    }
    Hidden(shown)
}

/// While this exists, no other thread shows the line.
pub(crate) struct Hidden(#[allow(dead_code)] MutexGuard<'static, usize>);

fn lock() -> MutexGuard<'static, usize> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
