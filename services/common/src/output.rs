//! The output of the commands.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::PrintableJson;
use scheduled_events_text::finding::{Finding, has_failure, text};
use serde::Serialize;

use crate::failure::Failure;

/// Writes a result to standard output. A reader that closes the pipe early, such as `head`, is no
/// error to report.
///
/// # Errors
/// A failure without a message if the reader closed the pipe; a failure with one if the output
/// cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    // It strips colours where standard output is no terminal.
    let mut output = anstream::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::refused(""),
            _ => Failure::refused(format!("cannot write to standard output: {error}")),
        })
}

/// Prints the findings of a `check` as `scheduled-events doctor` does: for people, or one JSON object a line.
///
/// # Errors
/// A failure without a message if a finding is one; a failure with one if the output cannot be written.
pub fn print_findings<C: AsRef<str> + Serialize>(
    findings: &[Finding<C>],
    json: bool,
) -> Result<(), Failure> {
    if json {
        for finding in findings {
            let line = serde_json::to_string(finding).map_err(Failure::refused)?;
            print(&format!("{}\n", PrintableJson(&line)))?;
        }
    } else {
        print(&text(findings, output_width()))?;
    }
    if has_failure(findings) {
        return Err(Failure::refused(""));
    }
    Ok(())
}

/// The columns of the terminal, if standard output is one.
pub fn output_width() -> Option<usize> {
    let output = io::stdout();
    let (columns, _) = output
        .is_terminal()
        .then(|| terminal_size::terminal_size_of(&output))??;
    Some(usize::from(columns.0)).filter(|columns| *columns > 0)
}

/// A moment as text, such as `2026-11-25 22:26 UTC, in 14m 32s`.
///
/// ```
/// use scheduled_events_core::UnixSeconds;
/// use scheduled_events_common::output::moment;
///
/// let at = UnixSeconds(1_795_645_612);
/// assert_eq!(moment(at, UnixSeconds(at.0 - 872)), "2026-11-25 22:26 UTC, in 14m 32s");
/// ```
pub fn moment(at: UnixSeconds, now: UnixSeconds) -> String {
    let written = at.to_string();
    let minute = written.get(..16).unwrap_or(&written).replace('T', " ");
    let left = Duration::from_secs(u64::try_from(at.since(now)).unwrap_or_default());
    // Two units are precise enough.
    let text = humantime::format_duration(left).to_string();
    let text: Vec<_> = text.split(' ').take(2).collect();
    let ahead = if left.is_zero() {
        String::new()
    } else {
        format!(", in {}", text.join(" "))
    };
    format!("{minute} UTC{ahead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ahead_has_two_units_at_most() {
        let at = UnixSeconds(1_795_645_612);
        for (ahead, expected) in [
            (0, ""),
            (59, ", in 59s"),
            (60, ", in 1m"),
            (872, ", in 14m 32s"),
            (7505, ", in 2h 5m"),
            (405_000_000, ", in 12years 10months"),
        ] {
            assert_eq!(
                moment(at, UnixSeconds(at.0 - ahead)),
                format!("2026-11-25 22:26 UTC{expected}")
            );
        }
    }
}
