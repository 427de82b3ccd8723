//! The document: checked once, then read without errors and without storage.
//!
//! This file parses the document; [`events`] visits its events, [`problems`] lists what is invalid in it.
//! `fast_path` reads the start of documents as Azure writes them, and is optional.

mod events;
#[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
mod fast_path;
mod problems;

use core::ops::Range;

pub use events::{EventCursor, Events, EventsFor};
pub use problems::Problems;
use serde::{Serialize, Serializer};

use crate::duplicate_ids::{self, DuplicateIds, IdHashes};
use crate::error::{ExpectedToken, ParseError, ParseErrorKind};
use crate::event::{Event, Member, NameBuffer, ProblemKind};
use crate::hash::Hash;
use crate::json::{Integer, Scanner, Text, Value, integer};
use crate::names::VmNames;

/// The Scheduled Events document: a view of the caller's bytes, checked once.
///
/// Parsing is strict about form and tolerant about meaning. The bytes must be one JSON text (RFC 8259, UTF-8, a leading
/// byte order mark allowed) that is an object with an array `Events`, in which no known member occurs twice.
/// Everything else is data: unknown members are skipped, unknown words are kept, and an invalid value in one event is a
/// [`Problem`](crate::Problem) of that event, which changes neither the other events nor the rest of that one.
///
/// There is no limit on events or resources but the length of the input. Parsing takes time linear in that length and
/// no memory. The document detects repeated ids among its first [`DUPLICATE_ID_WINDOW`](crate::DUPLICATE_ID_WINDOW)
/// ids, and leaves the later event out of [`events`](Self::events). Beyond these it compares no ids; a
/// [`Tracker`](crate::Tracker) keeps the first event of an id in any case.
///
/// ```
/// use scheduled_events_core::{Document, Incarnation, ProblemKind};
///
/// let body = br#"{"DocumentIncarnation":7,"Events":[
///     {"EventId":"a","EventType":"Preempt","NotBefore":"soon"},
///     {"EventType":"Reboot"}]}"#;
/// let document = Document::parse(body)?;
/// assert_eq!(document.incarnation(), Incarnation::Number(7));
/// assert_eq!(document.events().count(), 1); // the second has no id
/// let kinds: Vec<_> = document.problems().map(|problem| problem.kind).collect();
/// assert_eq!(kinds, [ProblemKind::UnreadableTime, ProblemKind::Missing]);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
///
/// The view cannot outlive its bytes:
///
/// ```compile_fail
/// use scheduled_events_core::Document;
///
/// let body = Vec::from(br#"{"Events":[]}"#);
/// let document = Document::parse(&body).unwrap();
/// drop(body);
/// document.events();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    text: &'a str,
    incarnation: Incarnation<'a>,
    incarnation_problem: Option<(usize, ProblemKind)>,
    /// Of the bracket of the `Events` array; 0 until the array is found.
    events_offset: usize,
    /// How many elements of `Events` have an id, duplicates included.
    ids: usize,
    /// While the document is read, the ids that may be duplicates.
    duplicates: DuplicateIds,
    /// Whether there is any problem in the `Events` array.
    has_problems: bool,
    /// The array's first element, if it is an event with an id. Most documents have one event, which is then not read twice.
    first: Option<Event<'a>>,
}

impl<'a> Document<'a> {
    /// Checks `input` and keeps a view of it.
    ///
    /// # Errors
    /// [`ParseError`] with kind and offset if `input` is not a document. [`ParseError::position`] has line and column.
    #[inline] // So that the result is not copied.
    pub fn parse(input: &'a [u8]) -> Result<Self, ParseError> {
        Self::parse_each(input, &mut [], |_, _, _| ())
    }

    /// Checks `input` as [`parse`](Self::parse) does, and calls `each` with every event that has an id while it is read. A
    /// caller that copies what it needs from the events does not read them a second time.
    ///
    /// `each` gets the event, the range of its object in `input`, and the names in its `Resources`. `names` is the buffer
    /// for the names of one event at a time. If they do not all fit, `each` gets `None`, and [`Event::resources`] reads
    /// them again.
    ///
    /// If an error is returned, discard what `each` was called with. `each` is also called for an event that repeats an id.
    /// If [`events`](Self::events) has fewer events than `each` was called with, [`Event::index`] identifies those that remain.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    ///
    /// ```
    /// use scheduled_events_core::{Document, Event, Text};
    ///
    /// let body = br#"{"Events":[{"EventId":"a"},{"EventId":"b","Resources":["vm_0","vm_1"]}]}"#;
    /// let mut objects = Vec::new();
    /// let mut machines = 0;
    /// let document = Document::parse_each(body, &mut [Text::plain(""); 100], |event, bytes, names| {
    ///     objects.push(bytes);
    ///     machines += names.map_or_else(|| event.resources().iter().count(), |names| names.len());
    /// })?;
    /// assert_eq!((document.events().len(), objects.len(), machines), (2, 2, 2));
    /// assert!(Event::parse(&body[objects[1].clone()])?.event_id() == "b");
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    #[inline]
    pub fn parse_each(
        input: &'a [u8],
        names: &mut [Text<'a>],
        mut each: impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<Self, ParseError> {
        // Created in place, because copying it costs more than reading a small document.
        let mut result = Ok(Self::EMPTY);
        if let Ok(document) = &mut result
            && let Err(error) = document.read_bytes(input, &mut NameBuffer::new(names), &mut each)
        {
            result = Err(error);
        }
        result
    }

    const EMPTY: Self = Self {
        text: "",
        incarnation: Incarnation::Absent,
        incarnation_problem: None,
        events_offset: 0,
        ids: 0,
        duplicates: DuplicateIds::NONE,
        has_problems: false,
        first: None,
    };

    #[inline]
    fn read_bytes(
        &mut self,
        input: &'a [u8],
        names: &mut NameBuffer<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        match core::str::from_utf8(input) {
            Ok(text) => self.read(text, names, each)?,
            Err(error) => return Err(self.not_utf8(input, error.valid_up_to(), names, each)),
        }
        if !self.duplicates.is_empty() {
            self.resolve_duplicates();
        }
        Ok(())
    }

    /// Removes the ids from [`duplicates`](Self::duplicates) that only have the hash of an earlier one.
    #[cold]
    #[inline(never)]
    fn resolve_duplicates(&mut self) {
        let suspects = core::mem::replace(&mut self.duplicates, DuplicateIds::NONE);
        self.duplicates = duplicate_ids::resolve(suspects, || self.ids());
        self.has_problems |= !self.duplicates.is_empty();
    }

    /// The error for input whose bytes at `offset` are not UTF-8. An error in the text before them comes first.
    #[cold]
    #[inline(never)]
    fn not_utf8(
        &mut self,
        input: &'a [u8],
        offset: usize,
        names: &mut NameBuffer<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> ParseError {
        let valid = input
            .get(..offset)
            .and_then(|valid| core::str::from_utf8(valid).ok())
            .unwrap_or_default();
        match self.read(valid, names, each) {
            Err(error) if error.kind != ParseErrorKind::UnexpectedEnd => error,
            _ => ParseError::found(
                ParseErrorKind::InvalidUtf8,
                offset,
                input.get(offset).copied(),
            ),
        }
    }

    #[inline(never)] // It has two callers.
    fn read(
        &mut self,
        text: &'a str,
        names: &mut NameBuffer<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        let start = if text.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8()
        } else {
            0
        };
        let mut scanner = Scanner::new(text, start, 0);
        scanner.expect_object()?;
        self.text = text;
        scanner.open_object()?;
        #[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
        let (mut incarnation_seen, mut at_events) = self.read_usual_start(&mut scanner);
        #[cfg(not(all(feature = "fast-path", target_pointer_width = "64")))]
        let (mut incarnation_seen, mut at_events) = (false, false);

        let mut first = !incarnation_seen;
        loop {
            let offset = scanner.offset();
            let (name_offset, member) = if core::mem::take(&mut at_events) {
                (offset, Some(Member::Events))
            } else {
                let Some((name_offset, name)) = scanner.next_member(&mut first)? else {
                    break;
                };
                (name_offset, Member::of_document(&name))
            };
            let repeated = Err(ParseError::new(ParseErrorKind::RepeatedMember, name_offset));
            match member {
                Some(Member::DocumentIncarnation) if incarnation_seen => return repeated,
                Some(Member::DocumentIncarnation) => {
                    incarnation_seen = true;
                    self.read_incarnation(&mut scanner)?;
                }
                Some(_) if self.events_offset != 0 => return repeated,
                Some(_) => self.read_events(&mut scanner, names, each)?,
                None => drop(scanner.value()?),
            }
        }
        if self.events_offset == 0 {
            return Err(ParseError::new(
                ParseErrorKind::NoEvents,
                scanner.offset().saturating_sub(1),
            ));
        }
        scanner.expect_end()
    }

    fn read_incarnation(&mut self, scanner: &mut Scanner<'a>) -> Result<(), ParseError> {
        let offset = scanner.offset();
        let problem = match scanner.value()? {
            Value::Null => None,
            Value::String(text) => {
                self.incarnation = Incarnation::Text(text);
                None
            }
            Value::Number(number) => match integer(number) {
                Integer::Exactly {
                    negative: false,
                    magnitude,
                } => {
                    self.incarnation = Incarnation::Number(magnitude);
                    None
                }
                Integer::Exactly { .. } | Integer::TooLarge => Some(ProblemKind::OutOfRange),
                Integer::Fraction => Some(ProblemKind::NotAnInteger),
            },
            Value::Boolean | Value::Array | Value::Object => Some(ProblemKind::WrongType),
        };
        self.incarnation_problem = problem.map(|kind| (offset, kind));
        Ok(())
    }

    fn read_events(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut NameBuffer<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        let offset = scanner.offset();
        if scanner.peek() != Some(b'[') {
            scanner.value()?;
            return Err(scanner
                .error_at(ParseErrorKind::NoEvents, offset)
                .expected(ExpectedToken::Array));
        }
        scanner.open_array()?;
        self.events_offset = offset;
        let mut first = true;
        if !scanner.next_element(&mut first)? {
            return Ok(());
        }
        if scanner.peek() == Some(b'{') {
            let event = self.first.insert(Event::unread(scanner, 0));
            event.read(scanner, names)?;
            self.has_problems = event.has_problems() || !event.has_id();
            if event.has_id() {
                self.ids = 1;
                each(event, event.offset()..scanner.offset(), names.names());
            } else {
                self.first = None;
            }
        } else {
            self.has_problems = true;
            scanner.value()?;
        }
        // A second element is rare; only then is the search for duplicate ids needed.
        if !scanner.next_element(&mut first)? {
            return Ok(());
        }
        self.duplicates = self.read_more_events(scanner, names, each)?;
        Ok(())
    }

    /// Reads the elements after the first one, starting at the second. Returns the ids that may be duplicates.
    #[inline(never)] // Documents with one event do not need its stack.
    fn read_more_events(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut NameBuffer<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<DuplicateIds, ParseError> {
        let mut hashes = IdHashes::new();
        if let Some(event) = &self.first {
            hashes.insert(&event.event_id());
        }
        let mut index: usize = 1;
        loop {
            if scanner.peek() == Some(b'{') {
                let mut event = Event::unread(scanner, index);
                names.clear();
                event.read(scanner, names)?;
                self.has_problems |= event.has_problems() || !event.has_id();
                if event.has_id() {
                    self.ids = self.ids.saturating_add(1);
                    each(&event, event.offset()..scanner.offset(), names.names());
                    hashes.insert(&event.event_id());
                }
            } else {
                self.has_problems = true;
                scanner.value()?;
            }
            index = index.saturating_add(1);
            if !scanner.next_element(&mut false)? {
                return Ok(hashes.suspects());
            }
        }
    }

    /// `DocumentIncarnation`: changes with every change of the document. Compare it for equality only.
    pub const fn incarnation(&self) -> Incarnation<'a> {
        self.incarnation
    }

    /// Hash of the document's bytes and of these names.
    pub(crate) fn hash_with(&self, names: VmNames<'_>) -> u64 {
        let mut hash = Hash::new();
        hash.bytes(self.text.as_bytes());
        names.hash_into(&mut hash);
        hash.finish()
    }
}

/// `DocumentIncarnation`: a number from Azure, a string from some test servers, absent in others.
///
/// Compare it for equality only. It skips numbers, and it starts again after a day without polls.
///
/// ```
/// use scheduled_events_core::{Document, Incarnation};
///
/// let document = Document::parse(br#"{"DocumentIncarnation":7,"Events":[]}"#)?;
/// assert_eq!(document.incarnation(), Incarnation::Number(7));
/// let document = Document::parse(br#"{"Events":[]}"#)?;
/// assert_eq!(document.incarnation(), Incarnation::Absent);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incarnation<'a> {
    /// A whole number.
    Number(u64),
    /// Any string.
    Text(Text<'a>),
    /// No incarnation, or an invalid one.
    Absent,
}

impl Serialize for Incarnation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => text.serialize(serializer),
            Self::Absent => serializer.serialize_none(),
        }
    }
}
