//! The members of an object, with their values as JSON.

use crate::json::{Scanner, Text};

/// Iterator over the members of a JSON object, known and unknown: each name, and the value as JSON.
///
/// Use it with [`Event::object`](crate::Event::object) to read a member that this crate does not know.
///
/// ```
/// use scheduled_events_core::Members;
///
/// let mut members = Members::new(r#"{"EventId":"a", "DurationInSeconds": -1, "New": {"b": [2]}}"#);
/// let (name, value) = members.find(|(name, _)| *name == *"DurationInSeconds").unwrap();
/// assert_eq!((name.as_str(), value), (Some("DurationInSeconds"), "-1"));
/// assert_eq!(members.next().unwrap().1, r#"{"b": [2]}"#);
/// assert_eq!(Members::new("no object").count(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Members<'a> {
    inside: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Members<'a> {
    /// The members of the object at the start of `text`. The iterator ends at the first byte that is not JSON.
    pub fn new(text: &'a str) -> Self {
        let mut scanner = Scanner::new(text, 0, 0);
        scanner.skip_space();
        Self {
            inside: scanner.open_object().is_ok().then_some(scanner),
            first: true,
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Text<'a>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let mut scanner = self.inside.take()?;
        let (_, name) = scanner.next_member(&mut self.first).ok()??;
        let start = scanner.offset();
        scanner.value().ok()?;
        let value = scanner.since(start);
        self.inside = Some(scanner);
        Some((name, value))
    }
}
