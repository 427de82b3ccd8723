//! The terminal, if standard output or standard error is one.

use std::io::{self, IsTerminal};

/// The columns of the terminal, if standard output is one.
pub(crate) fn output_width() -> Option<usize> {
    width(&io::stdout())
}

#[cfg(unix)]
fn width(stream: &(impl IsTerminal + std::os::fd::AsFd)) -> Option<usize> {
    columns(stream.is_terminal(), || {
        terminal_size::terminal_size_of(stream)
    })
}

#[cfg(windows)]
fn width(stream: &(impl IsTerminal + std::os::windows::io::AsHandle)) -> Option<usize> {
    columns(stream.is_terminal(), || {
        terminal_size::terminal_size_of(stream)
    })
}

fn columns(
    is_terminal: bool,
    size: impl FnOnce() -> Option<(terminal_size::Width, terminal_size::Height)>,
) -> Option<usize> {
    // A terminal of unknown size reports 0 columns.
    let (terminal_size::Width(columns), _) = size().filter(|_| is_terminal)?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}
