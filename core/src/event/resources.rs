//! The names of the machines that an event affects.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::json::{Scanner, Text};

/// The names of the machines that an event affects. Each iteration reads them from the document.
///
/// ```
/// use scheduled_events_core::Document;
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a","Resources":["vm_0","vm_1"]}]}"#)?;
/// let event = document.events().next().unwrap();
/// assert_eq!(event.resources().iter().count(), 2);
/// assert!(event.resources().iter().any(|name| name == "vm_1"));
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// At the array's opening bracket.
    array: Option<Scanner<'a>>,
}

impl<'a> Resources<'a> {
    /// The names in the array that starts at the scanner's position.
    pub(crate) const fn new(array: Option<Scanner<'a>>) -> Self {
        Self { array }
    }

    /// Whether the event has the member, as an array.
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b","Resources":[]}]}"#)?;
    /// let present: Vec<_> = document.events().map(|event| event.resources().is_present()).collect();
    /// assert_eq!(present, [false, true]);
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn is_present(&self) -> bool {
        self.array.is_some()
    }

    /// The names in the document's order. Elements that are not strings are skipped.
    #[inline]
    pub fn iter(&self) -> ResourceNames<'a> {
        let mut inside = self.array;
        if let Some(scanner) = &mut inside
            && scanner.open_array().is_err()
        {
            inside = None;
        }
        ResourceNames {
            inside,
            first: true,
        }
    }

    /// Whether they name more than one machine. A repeated name counts once.
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","Resources":["vm_0","VM_0"]}]}"#)?;
    /// assert!(!document.events().next().unwrap().resources().are_several());
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub fn are_several(&self) -> bool {
        let mut first: Option<Text<'a>> = None;
        for name in self {
            match first {
                None => first = Some(name),
                Some(first) if !first.is_same_name(&name) => return true,
                Some(_) => {}
            }
        }
        false
    }

    /// The number of machines that are named before the first name for which `is_wanted` holds; `None` if there is no such
    /// name. A repeated name counts once among the first [`COMPARED`].
    pub(crate) fn rank(&self, is_wanted: impl Fn(&Text<'a>) -> bool) -> Option<usize> {
        let (mut rank, mut index): (usize, usize) = (0, 0);
        for name in self {
            if is_wanted(&name) {
                return Some(rank);
            }
            let mut before = self.iter().take(index.min(COMPARED));
            if before.all(|other| !other.is_same_name(&name)) {
                rank = rank.saturating_add(1);
            }
            index = index.saturating_add(1);
        }
        None
    }
}

/// How many names of an event are compared with each later one, so that the time stays linear in the event's length.
const COMPARED: usize = 64;

impl<'a> IntoIterator for Resources<'a> {
    type Item = Text<'a>;
    type IntoIter = ResourceNames<'a>;

    fn into_iter(self) -> ResourceNames<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Resources<'a> {
    type Item = Text<'a>;
    type IntoIter = ResourceNames<'a>;

    fn into_iter(self) -> ResourceNames<'a> {
        self.iter()
    }
}

impl Serialize for Resources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl fmt::Debug for Resources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

/// Iterator over [`Resources`].
///
/// ```
/// use scheduled_events_core::Document;
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a","Resources":["vm_0","vm_1"]}]}"#)?;
/// let event = document.events().next().unwrap();
/// let mut names = event.resources().iter();
/// assert!(names.next().is_some_and(|name| name == "vm_0"));
/// assert_eq!(names.count(), 1);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone)]
pub struct ResourceNames<'a> {
    inside: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Iterator for ResourceNames<'a> {
    type Item = Text<'a>;

    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a call for each name costs more than half of what reading it does.
    fn next(&mut self) -> Option<Text<'a>> {
        let scanner = self.inside.as_mut()?;
        // The document was checked when it was parsed, so reading it again does not fail.
        while let Ok(true) = scanner.next_element(&mut self.first) {
            if scanner.peek() == Some(b'"') {
                return scanner
                    .string_here()
                    .ok()
                    .map(|string| scanner.quoted(string));
            }
            if scanner.value().is_err() {
                break;
            }
        }
        self.inside = None;
        None
    }
}

impl fmt::Debug for ResourceNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
