//! The output of the commands.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use crate::failure::Failure;

/// Writes a result to standard output. A reader that has seen enough, such as `head`, needs no message.
///
/// # Errors
/// A failure without a message, if the reader has ended; another one if the output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::refused(""),
        _ => Failure::refused(format!("cannot write to standard output: {error}")),
    })
}

/// The columns of the terminal that standard output is, if it is one.
pub fn output_width() -> Option<usize> {
    let output = io::stdout();
    let (columns, _) = output.is_terminal().then(|| terminal_size::terminal_size_of(&output))??;
    Some(usize::from(columns.0)).filter(|columns| *columns > 0)
}
