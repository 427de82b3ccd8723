//! Reads the start of a document in the form in which Azure writes it: `DocumentIncarnation`, then `Events`.

use super::{Document, Incarnation};
use crate::json::fast_path::{is_enabled, short_integer};
use crate::json::{Integer, Scanner};

impl<'a> Document<'a> {
    /// Reads the members from the first one on, as long as they are as expected. Returns whether it has read
    /// `DocumentIncarnation`, and whether the name `Events` too, so that the scanner is at its value.
    #[inline]
    pub(super) fn read_usual_start(&mut self, scanner: &mut Scanner<'a>) -> (bool, bool) {
        if !is_enabled() {
            return (false, false);
        }
        let separator = scanner.separator();
        let number = scanner.rest().strip_prefix(b"\"DocumentIncarnation\":");
        let number = number.map(|number| number.strip_prefix(b" ").unwrap_or(number));
        let Some((
            Integer::Exactly {
                negative: false,
                magnitude,
            },
            after,
        )) = number.and_then(short_integer)
        else {
            return (false, false);
        };
        self.incarnation = Incarnation::Number(magnitude);
        scanner.step_to(after);
        let Some(value) = separator
            .strip_any(after)
            .and_then(|name| name.strip_prefix(b"Events\":"))
        else {
            return (true, false);
        };
        scanner.step_to(value);
        scanner.skip_space();
        (true, true)
    }
}
