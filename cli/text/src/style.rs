//! Colours and weights of text on a terminal.

use anstyle::{AnsiColor, Style};

/// A title, or what counts most.
pub const BOLD: Style = Style::new().bold();
/// What is less important: headings and advice.
pub const DIM: Style = Style::new().dimmed();
/// As it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// To be looked at.
pub const CAUTION: Style = AnsiColor::Yellow.on_default();
/// To be corrected.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// All other text.
pub const PLAIN: Style = Style::new();
