//! Rows of text with aligned columns.

/// The rows, the first of which are the headings.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut table = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += cell;
            line += &" ".repeat(width + 2 - cell.chars().count());
        }
        table += line.trim_end();
        table.push('\n');
    }
    table
}
