//! Tables for people.

use std::fmt::Write as _;

/// Cells below each other.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings and no row.
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.to_owned()).collect()] }
    }

    /// Adds a row. Its texts must be safe to print.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Writes the table, or this text if it has no rows.
    pub fn write(&self, text: &mut String, without_rows: &str) {
        if self.rows.len() == 1 {
            let _ = writeln!(text, "{without_rows}");
            return;
        }
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}
