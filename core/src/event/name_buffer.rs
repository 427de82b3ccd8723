//! A caller's buffer for the names in an event's `Resources`.

use crate::error::ParseError;
use crate::json::{Scanner, Text, Value};

/// Reads arrays of names and keeps those of the last event, as far as they fit.
pub(crate) struct NameBuffer<'r, 'a> {
    pub(super) buffer: &'r mut [Text<'a>],
    pub(super) count: usize,
    /// The array was read before and holds nothing but strings, so that it can be skipped.
    skip: bool,
}

impl<'r, 'a> NameBuffer<'r, 'a> {
    pub(crate) const fn new(buffer: &'r mut [Text<'a>]) -> Self {
        Self {
            buffer,
            count: 0,
            skip: false,
        }
    }

    /// For a document that was read before. `has_problems` is whether arrays may hold anything but strings.
    pub(crate) const fn checked(has_problems: bool) -> Self {
        Self {
            buffer: &mut [],
            count: 0,
            skip: !has_problems,
        }
    }

    /// The names of the last event, if all of them fit.
    pub(crate) fn names(&self) -> Option<&[Text<'a>]> {
        self.buffer.get(..self.count)
    }

    /// Forgets the names of the last event.
    pub(crate) const fn clear(&mut self) {
        self.count = 0;
    }

    /// Reads the array that starts here. Returns whether all its elements are strings.
    #[inline(never)]
    pub(super) fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<bool, ParseError> {
        self.count = 0;
        scanner.open_array()?;
        if self.skip {
            scanner.leave_checked();
            return Ok(true);
        }
        #[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
        if self.read_plain_names(scanner) {
            return Ok(true);
        }
        let mut first = self.count == 0;
        let mut only_strings = true;
        while scanner.next_element(&mut first)? {
            match scanner.value()? {
                Value::String(name) => self.push(name),
                _ => only_strings = false,
            }
        }
        Ok(only_strings)
    }

    #[inline]
    fn push(&mut self, name: Text<'a>) {
        if let Some(entry) = self.buffer.get_mut(self.count) {
            *entry = name;
        }
        self.count = self.count.saturating_add(1);
    }
}
