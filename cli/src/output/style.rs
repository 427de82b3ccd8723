//! Colours and weights of text on a terminal.

use anstyle::{AnsiColor, Style};
use scheduled_events_core::Action;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const CAUTION: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const PLAIN: Style = Style::new();

/// The style of an action.
pub(crate) const fn action_style(action: Action) -> Style {
    match action {
        Action::Approve => GOOD,
        Action::Prepare => CAUTION,
        Action::Hold => BAD,
        Action::Ignore => DIM,
    }
}
