//! Tables and paragraphs as wide as the terminal, aligned by the columns that text occupies there.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::style::DIM;

/// The widest cell with text from outside, and the widest name, in terminal columns.
pub const CELL_MAX: usize = 40;

/// The longest text below a row, in terminal columns. Azure's descriptions have up to 88
/// characters.
pub const TEXT_MAX: usize = 400;

/// The space between two columns.
const GAP: usize = 2;

/// The last column wraps in at least this width. If less is left, it moves below its row.
const LAST_COLUMN_MIN: usize = 24;

/// The narrowest terminal that tables fit. On a narrower one, the terminal breaks lines.
const TERMINAL_MIN: usize = 20;

/// A table. Each column but the last is as wide as its widest cell. Columns that the terminal has
/// no space for are printed below their rows.
///
/// ```
/// use scheduled_events_text::style::PLAIN;
/// use scheduled_events_text::table::Table;
///
/// let mut table = Table::with_headings(["NAME", "STATE"]);
/// table.row([("web".to_owned(), PLAIN), ("ready".to_owned(), PLAIN)]);
/// let mut text = Vec::new();
/// table.print(anstream::StripStream::new(&mut text), Some(80)).unwrap();
/// assert_eq!(String::from_utf8(text).unwrap(), "NAME  STATE\nweb   ready\n");
/// ```
#[derive(Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    cells: Vec<(String, Style)>,
    /// Lines below the cells.
    below: Vec<(String, Style)>,
}

impl Table {
    /// A table with these headings.
    pub fn with_headings(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            headings: headings.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Its texts must be safe to print.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        self.rows.push(Row {
            cells: cells.into_iter().collect(),
            below: Vec::new(),
        });
    }

    /// Adds a paragraph below the last row, aligned with the second column.
    pub fn below(&mut self, text: String, style: Style) {
        if let Some(row) = self.rows.last_mut() {
            row.below.push((text, style));
        }
    }

    /// Prints the table for a terminal of this width; without one, no line is broken.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn print(&self, mut output: impl io::Write, terminal: Option<usize>) -> io::Result<()> {
        let terminal = terminal.map(|columns| columns.max(TERMINAL_MIN));
        let widths = self.column_widths();
        let shown = terminal.map_or(widths.len(), |terminal| fitting_columns(&widths, terminal));
        let indent = widths.first().map_or(0, |width| width + GAP);
        let below_width = terminal.map(|terminal| terminal.saturating_sub(indent));
        if !self.headings.is_empty() {
            let headings: Vec<_> = self
                .headings
                .iter()
                .map(|heading| (heading.clone(), DIM))
                .collect();
            print_cells(&mut output, &headings, &widths[..shown], terminal)?;
        }
        for Row { cells, below } in &self.rows {
            let (beside, moved) = cells.split_at(shown.min(cells.len()));
            // What is below such a row belongs to the one above.
            if moved.is_empty() || beside.iter().any(|(text, _)| !text.is_empty()) {
                print_cells(&mut output, beside, &widths[..shown], terminal)?;
            }
            let moved = moved.iter().zip(shown..).map(|((text, style), column)| {
                let heading = self
                    .headings
                    .get(column)
                    .map(|heading| heading.to_lowercase() + ": ");
                (heading.unwrap_or_default() + text, *style)
            });
            for (text, style) in moved.chain(below.iter().cloned()) {
                for line in wrap(&text, below_width) {
                    writeln!(output, "{}{style}{line}{style:#}", " ".repeat(indent))?;
                }
            }
        }
        Ok(())
    }

    fn column_widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self
            .headings
            .iter()
            .map(|heading| heading.width())
            .collect();
        for row in &self.rows {
            widths.resize(widths.len().max(row.cells.len()), 0);
            for (width, (text, _)) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(text.width());
            }
        }
        widths
    }
}

/// How many columns fit side by side. The last one may wrap.
fn fitting_columns(widths: &[usize], terminal: usize) -> usize {
    let mut end = 0;
    for (column, width) in widths.iter().enumerate() {
        let start = if column == 0 { 0 } else { end + GAP };
        end = start + width;
        let wraps = column > 0
            && column + 1 == widths.len()
            && terminal.saturating_sub(start) >= LAST_COLUMN_MIN;
        if end > terminal && !wraps {
            return column.max(1);
        }
    }
    widths.len()
}

/// Prints cells side by side. The last one wraps.
fn print_cells(
    output: &mut impl io::Write,
    cells: &[(String, Style)],
    widths: &[usize],
    terminal: Option<usize>,
) -> io::Result<()> {
    let mut line = String::new();
    let mut start = 0;
    for (column, ((text, style), width)) in cells.iter().zip(widths).enumerate() {
        if column + 1 < widths.len() {
            // Writing to a string does not fail.
            let padding = " ".repeat(width.saturating_sub(text.width()) + GAP);
            let _ = write!(line, "{style}{text}{style:#}{padding}");
            start += width + GAP;
            continue;
        }
        let mut parts = wrap(
            text,
            terminal.map(|terminal| terminal.saturating_sub(start)),
        )
        .into_iter();
        let first = parts.next().unwrap_or_default();
        let _ = write!(line, "{style}{first}{style:#}");
        for part in parts {
            writeln!(output, "{}", line.trim_end())?;
            line = format!("{}{style}{part}{style:#}", " ".repeat(start));
        }
    }
    writeln!(output, "{}", line.trim_end())
}

/// The text, cut after `max` terminal columns, the last of which is then `…`.
///
/// Colour is not counted, so cut before colour is added.
///
/// ```
/// assert_eq!(scheduled_events_text::table::cut("abcde", 4), "abc…");
/// ```
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    // No character occupies more columns than it has bytes.
    if text.len() <= max || text.width() <= max {
        return Cow::Borrowed(text);
    }
    let mut width = 0;
    let fits = |&(_, char): &(usize, char)| {
        width += char.width().unwrap_or(0);
        width < max
    };
    let end = text
        .char_indices()
        .take_while(fits)
        .last()
        .map_or(0, |(start, char)| start + char.len_utf8());
    Cow::Owned(format!("{}…", &text[..end]))
}

/// The lines of a paragraph of at most `width` columns. It breaks at spaces, and inside words that
/// are wider than a line.
///
/// ```
/// assert_eq!(scheduled_events_text::table::wrap("one two three", Some(7)), ["one two", "three"]);
/// ```
pub fn wrap(text: &str, width: Option<usize>) -> Vec<Cow<'_, str>> {
    let Some(width) = width
        .map(|width| width.max(2))
        .filter(|width| text.width() > *width)
    else {
        return vec![Cow::Borrowed(text)];
    };
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut line_width = 0;
    for word in text.split(' ') {
        let word_width = word.width();
        if line_width > 0 && line_width + 1 + word_width <= width {
            line.push(' ');
            line.push_str(word);
            line_width += 1 + word_width;
            continue;
        }
        if line_width > 0 {
            lines.push(Cow::Owned(std::mem::take(&mut line)));
            line_width = 0;
        }
        for char in word.chars() {
            let char_width = char.width().unwrap_or(0);
            if line_width + char_width > width {
                lines.push(Cow::Owned(std::mem::take(&mut line)));
                line_width = 0;
            }
            line.push(char);
            line_width += char_width;
        }
    }
    lines.push(Cow::Owned(line));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::PLAIN;

    fn cells<const N: usize>(texts: [&str; N]) -> [(String, Style); N] {
        texts.map(|text| (text.to_owned(), PLAIN))
    }

    fn printed(table: &Table, terminal: Option<usize>) -> String {
        let mut text = Vec::new();
        table
            .print(anstream::StripStream::new(&mut text), terminal)
            .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::default();
        table.row(cells(["a", "bbb", "c"]));
        table.row(cells(["aaa", "b", "c"]));
        table.below("below".into(), PLAIN);
        assert_eq!(
            printed(&table, None),
            "a    bbb  c\naaa  b    c\n     below\n"
        );
    }

    #[test]
    fn wide_and_combining_characters_are_counted_as_terminals_show_them() {
        let mut table = Table::default();
        table.row(cells(["日本", "x"]));
        table.row(cells(["e\u{301}", "x"]));
        table.row(cells(["abcd", "x"]));
        assert_eq!(printed(&table, None), "日本  x\ne\u{301}     x\nabcd  x\n");
    }

    #[test]
    fn columns_without_space_move_below_and_the_last_one_wraps() {
        let mut table = Table::with_headings(["", "TYPE", "STATUS", "RESOURCES"]);
        table.row(cells([
            "*",
            "Terminate",
            "Scheduled",
            "machine_1, machine_2, machine_3",
        ]));
        table.below("an-id".into(), PLAIN);
        assert_eq!(
            printed(&table, Some(60)),
            "   TYPE       STATUS     RESOURCES\n*  Terminate  Scheduled  machine_1, machine_2, machine_3\n   an-id\n"
        );
        assert_eq!(
            printed(&table, Some(50)),
            "   TYPE       STATUS     RESOURCES\n*  Terminate  Scheduled  machine_1, machine_2,\n                         machine_3\n   \
             an-id\n"
        );
        assert_eq!(
            printed(&table, Some(40)),
            "   TYPE       STATUS\n*  Terminate  Scheduled\n   resources: machine_1, machine_2,\n   machine_3\n   an-id\n"
        );
        for terminal in 20..60 {
            let text = printed(&table, Some(terminal));
            assert!(
                text.lines().all(|line| line.width() <= terminal),
                "{terminal}:\n{text}"
            );
        }
    }

    #[test]
    fn a_row_without_anything_beside_is_a_part_of_the_one_above() {
        let mut table = Table::default();
        table.row(cells(["FAIL", "a-long-name-of-a-check", "what was found"]));
        table.row(cells(["", "", "-> what to do"]));
        assert_eq!(
            printed(&table, Some(40)),
            "FAIL  a-long-name-of-a-check\n      what was found\n      -> what to do\n"
        );
    }

    #[test]
    fn texts_are_cut_after_whole_characters() {
        for (text, max, expected) in [
            ("abcd", 4, "abcd"),
            ("abcde", 4, "abc…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
            ("", 4, ""),
        ] {
            assert_eq!(cut(text, max), expected, "{text} {max}");
            assert!(cut(text, max).width() <= max);
        }
        assert_eq!(cut(&"x".repeat(70_000), CELL_MAX).chars().count(), CELL_MAX);
    }

    #[test]
    fn paragraphs_break_at_spaces_and_inside_long_words() {
        assert_eq!(wrap("one two three", Some(7)), ["one two", "three"]);
        assert_eq!(
            wrap("one abcdefghij", Some(4)),
            ["one", "abcd", "efgh", "ij"]
        );
        assert_eq!(wrap("日本語", Some(4)), ["日本", "語"]);
        assert_eq!(wrap("one two", None), ["one two"]);
    }

    #[test]
    fn cells_of_70000_characters_are_printed() {
        let mut table = Table::default();
        table.row(cells([&"x".repeat(70_000), "b"]));
        table.row(cells(["a", "b"]));
        assert_eq!(printed(&table, None).lines().count(), 2);
        assert!(printed(&table, Some(80)).lines().count() > 2);
    }
}
