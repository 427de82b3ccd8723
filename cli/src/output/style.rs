//! Colours and weights of text on a terminal.

use anstyle::Style;
use scheduled_events_core::Action;

pub(crate) use scheduled_events_text::style::{BAD, BOLD, CAUTION, DIM, GOOD, PLAIN};

/// The style of an action.
pub(crate) const fn action_style(action: Action) -> Style {
    match action {
        Action::Approve => GOOD,
        Action::Prepare => CAUTION,
        Action::Hold => BAD,
        Action::Ignore => DIM,
    }
}
