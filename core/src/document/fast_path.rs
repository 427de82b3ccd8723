//! Reads the start of a document in the form in which Azure writes it: `DocumentIncarnation`, then `Events`.

use super::{Document, Incarnation};
use crate::json::fast_path::{is_enabled, short_integer};
use crate::json::{Integer, Scanner};

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UsualStart {
    Nothing,
    Incarnation,
    /// The name `Events` is read too; the scanner is at its value.
    IncarnationAndEventsName,
}

impl<'a> Document<'a> {
    /// Reads the members from the first one on, as long as they are as expected.
    #[inline]
    pub(super) fn read_usual_start(&mut self, scanner: &mut Scanner<'a>) -> UsualStart {
        if !is_enabled() {
            return UsualStart::Nothing;
        }
        let separator = scanner.separator();
        let number = scanner.rest().strip_prefix(b"\"DocumentIncarnation\":");
        let Some(number) = number.map(|number| number.strip_prefix(b" ").unwrap_or(number)) else {
            return UsualStart::Nothing;
        };
        let Some((Integer::Exactly { negative: false, magnitude }, after)) = short_integer(number) else {
            return UsualStart::Nothing;
        };
        self.incarnation = Incarnation::Number(magnitude);
        scanner.step_to(after);
        let Some(value) = separator.strip_any(after).and_then(|name| name.strip_prefix(b"Events\":")) else {
            return UsualStart::Incarnation;
        };
        scanner.step_to(value);
        scanner.skip_space();
        UsualStart::IncarnationAndEventsName
    }
}
