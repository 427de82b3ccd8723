//! Tables for people.

use std::fmt::Write as _;

/// The space between two columns.
const GAP: usize = 2;

/// Rows of cells.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings and no row.
    pub fn new(heads: &[&str]) -> Self {
        Self {
            rows: vec![heads.iter().map(|&head| head.to_owned()).collect()],
        }
    }

    /// Adds a row. Its texts must be safe to print.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Writes the table, or `without_rows` if it has none.
    pub fn write(&self, text: &mut String, without_rows: &str) {
        self.write_within(None, text, without_rows);
    }

    /// The same for a terminal with this many columns: cells that do not fit go below their rows,
    /// each with its heading.
    pub fn write_within(&self, terminal: Option<usize>, text: &mut String, without_rows: &str) {
        let [heads, rows @ ..] = &*self.rows else {
            return;
        };
        if rows.is_empty() {
            let _ = writeln!(text, "{without_rows}");
            return;
        }
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..heads.len()).map(width).collect();
        let mut end = 0;
        let fits = |width: &&usize| {
            end += **width + GAP;
            terminal.is_none_or(|terminal| end <= terminal + GAP)
        };
        let beside = widths.iter().take_while(fits).count().max(1);
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths).take(beside) {
                let _ = write!(line, "{cell:width$}{:GAP$}", "");
            }
            let _ = writeln!(text, "{}", line.trim_end());
            for (head, cell) in heads
                .iter()
                .zip(row)
                .skip(beside)
                .filter(|(_, cell)| index > 0 && !cell.is_empty())
            {
                let _ = writeln!(text, "{:GAP$}{}: {cell}", "", head.to_lowercase());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_do_not_fit_are_below_their_rows() {
        let mut table = Table::new(&["TYPE", "GROUP", "EVENT"]);
        table.row(["Freeze", "a", "743c"].map(str::to_owned));
        table.row(["Reboot", "web", ""].map(str::to_owned));
        let written = |terminal| {
            let mut text = String::new();
            table.write_within(terminal, &mut text, "none");
            text
        };
        let whole = "TYPE    GROUP  EVENT\nFreeze  a      743c\nReboot  web\n";
        assert_eq!(
            (written(None).as_str(), written(Some(20)).as_str()),
            (whole, whole)
        );
        assert_eq!(
            written(Some(19)),
            "TYPE    GROUP\nFreeze  a\n  event: 743c\nReboot  web\n"
        );
        assert_eq!(
            written(Some(3)),
            "TYPE\nFreeze\n  group: a\n  event: 743c\nReboot\n  group: web\n"
        );
    }
}
