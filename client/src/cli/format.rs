//! Text for people: tables, times in words, colour on terminals, and no character that is unsafe to print.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use scheduled_events_core::record::Printable;
use scheduled_events_core::{Action, UnixSeconds};

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const CAUTION: Style = AnsiColor::Yellow.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const PLAIN: Style = Style::new();

/// The style of an action.
pub(super) const fn action_style(action: Action) -> Style {
    match action {
        Action::Approve => GOOD,
        Action::Prepare => CAUTION,
        Action::Hold => BAD,
        Action::Ignore => DIM,
    }
}

/// Text from outside, with unsafe characters escaped.
pub(super) fn printable(text: &str) -> String {
    Printable(text).to_string()
}

/// The names of machines, the first few of them.
pub(super) fn names(names: impl IntoIterator<Item = impl Display>) -> String {
    const FEW: usize = 3;
    let mut names = names.into_iter();
    let mut list: Vec<_> = names.by_ref().take(FEW).map(|name| printable(&name.to_string())).collect();
    match names.count() {
        0 if list.is_empty() => return "-".into(),
        0 => {}
        more => list.push(format!("and {more} more")),
    }
    list.join(", ")
}

/// A number of things: `1 event`, `2 events`.
pub(super) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The time of day now.
pub(super) fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// A length of time in seconds: `14 min 32 s`, `2 h 5 min`, `3 d 4 h`.
pub(super) fn duration(seconds: u64) -> String {
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

/// A time relative to now: `in 14 min 32 s`, `2 min ago`, `now`.
pub(super) fn from_now(moment: UnixSeconds, now: UnixSeconds) -> String {
    match moment.since(now) {
        0 => "now".into(),
        ahead @ 1.. => format!("in {}", duration(ahead.unsigned_abs())),
        past => format!("{} ago", duration(past.unsigned_abs())),
    }
}

/// The time of day: `22:26:58`.
pub(super) fn time_of_day(moment: UnixSeconds) -> String {
    let text = moment.to_string();
    text.get(text.len() - 9..text.len() - 1).unwrap_or_default().to_owned()
}

/// A table. Each column but the last is as wide as its widest cell.
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

    /// Adds a line below the last row, aligned with the second column.
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
    fn durations_and_times_are_in_words() {
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
            assert_eq!(duration(seconds), words);
        }
        assert_eq!(from_now(UnixSeconds(10), UnixSeconds(75)), "1 min 5 s ago");
        assert_eq!(from_now(UnixSeconds(75), UnixSeconds(10)), "in 1 min 5 s");
    }

    #[test]
    fn unsafe_characters_are_escaped() {
        assert_eq!(printable("\u{1b}[2Jgone\r\n\u{202e}txt"), "\\u{1b}[2Jgone\\u{d}\\u{a}\\u{202e}txt");
        assert_eq!(printable("Zoë 😀"), "Zoë 😀");
    }

    #[test]
    fn columns_are_aligned() {
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
