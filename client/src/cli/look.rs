//! What a person sees: tables, times in human words, colour on terminals, nothing that could act on a terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use scheduled_events_core::UnixSeconds;

use super::Failure;
use super::output::{ERRORS, OUTPUT};
use crate::record::{Record, acts_on_terminals};

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const CAUTION: Style = AnsiColor::Yellow.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const PLAIN: Style = Style::new();

/// Prints a diagnostic line, such as `error: …`, to stderr.
pub(super) fn diagnose(kind: &str, message: &str) {
    let style = if kind == "error" { BAD } else { CAUTION };
    // There is nowhere else to say that it cannot be said.
    let _ = ERRORS.write(format!("{style}{kind}:{style:#} {}\n", shown(message)).as_bytes());
}

/// Prints to stdout on the way; the command goes on whatever comes of it.
pub(super) fn say(text: &str) {
    let _ = OUTPUT.write(text.as_bytes());
}

/// Prints a record to stdout on the way; the command goes on whatever comes of it.
pub(super) fn say_record(record: &Record) {
    let _ = answer_record(record);
}

/// Prints what the command was asked for to stdout.
pub(super) fn answer(text: &[u8]) -> Result<(), Failure> {
    OUTPUT.write(text).map_err(|error| Failure::output(&error))
}

/// Prints a record that the command was asked for to stdout.
pub(super) fn answer_record(record: &Record) -> Result<(), Failure> {
    let mut line = Vec::new();
    record.write_json(&mut line).map_err(|error| Failure::output(&error))?;
    answer(&line)
}

/// Text from outside, made harmless: control characters, and those that turn or hide text, are spelt out.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if acts_on_terminals(char) {
            let _ = write!(shown, "{}", char.escape_unicode());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// A span of seconds in words: `14 min 32 s`, `2 h 5 min`, `3 d 4 h`.
pub(super) fn span(seconds: u64) -> String {
    let (days, hours, minutes, left) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes, left) {
        (0, 0, 0, left) => format!("{left} s"),
        (0, 0, minutes, 0) => format!("{minutes} min"),
        (0, 0, minutes, left) => format!("{minutes} min {left} s"),
        (0, hours, 0, _) => format!("{hours} h"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, 0, ..) => format!("{days} d"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

/// A moment as seen from now: `in 14 min 32 s`, `2 min ago`, `now`.
pub(super) fn from_now(moment: UnixSeconds, now: UnixSeconds) -> String {
    match moment.since(now) {
        0 => "now".into(),
        ahead @ 1.. => format!("in {}", span(ahead.unsigned_abs())),
        past => format!("{} ago", span(past.unsigned_abs())),
    }
}

/// The time of day of a moment: `22:26:58`.
pub(super) fn time_of_day(moment: UnixSeconds) -> String {
    let text = moment.to_string();
    text.get(text.len() - 9..text.len() - 1).unwrap_or_default().to_owned()
}

/// A table whose columns are as wide as their widest cell; the last one is left ragged.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

struct Row {
    cells: Vec<(String, Style)>,
    /// Lines below the cells.
    below: Vec<String>,
}

impl Table {
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        self.rows.push(Row { cells: cells.into_iter().collect(), below: Vec::new() });
    }

    /// A line below the row that was added last, starting under its second column.
    pub(super) fn below(&mut self, line: String) {
        if let Some(row) = self.rows.last_mut() {
            row.below.push(line);
        }
    }

    pub(super) fn print(&self, mut output: impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for Row { cells, below } in &self.rows {
            let mut line = String::new();
            for (column, (text, style)) in cells.iter().enumerate() {
                let padding = if column + 1 == cells.len() { 0 } else { widths[column] + 2 - text.chars().count() };
                let _ = write!(line, "{style}{text}{style:#}{:padding$}", "");
            }
            writeln!(output, "{}", line.trim_end())?;
            for line in below {
                writeln!(output, "{:indent$}{DIM}{line}{DIM:#}", "", indent = widths[0] + 2)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_in_words() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (872, "14 min 32 s"),
            (3600, "1 h"),
            (7500, "2 h 5 min"),
            (86_400, "1 d"),
            (273_600, "3 d 4 h"),
        ] {
            assert_eq!(span(seconds), words);
        }
        assert_eq!(from_now(UnixSeconds(10), UnixSeconds(75)), "1 min 5 s ago");
        assert_eq!(from_now(UnixSeconds(75), UnixSeconds(10)), "in 1 min 5 s");
    }

    #[test]
    fn terminal_escapes_are_shown_not_obeyed() {
        assert_eq!(shown("\u{1b}[2Jgone\r\n\u{202e}txt"), "\\u{1b}[2Jgone\\u{d}\\u{a}\\u{202e}txt");
        assert_eq!(shown("Zoë 😀"), "Zoë 😀");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::default();
        let cells = |texts: [&str; 3]| texts.map(|text| (text.to_owned(), PLAIN));
        table.row(cells(["a", "bbb", "c"]));
        table.row(cells(["aaa", "b", "c"]));
        table.below("below".into());
        let mut text = Vec::new();
        table.print(anstream::StripStream::new(&mut text)).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "a    bbb  c\naaa  b    c\n     below\n");
    }
}
