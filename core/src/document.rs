//! The document: checked once, then read without errors and without storage.

use core::ops::Range;

use serde::{Serialize, Serializer};

use crate::error::{ParseError, ParseErrorKind, Problem, ProblemKind};
use crate::event::{EVENT_DEPTH, Event, Member, Names};
use crate::hash::Hash;
use crate::json::{Integer, Scanner, Text, Value, integer};
use crate::names::VmNames;
use crate::repeated::{RepeatFinder, Repeats};

/// The Scheduled Events document: a view of the caller's bytes, checked once.
///
/// Parsing is strict about form and tolerant about meaning. The bytes must be one JSON text (RFC 8259, UTF-8, a leading
/// byte order mark allowed) that is an object with an array `Events` and in which no known member stands twice.
/// Everything else is data: unknown members and words are skipped or kept, and what is odd in one event is a
/// [`Problem`] that leaves the other events, and the rest of that one, as they are.
///
/// There is no limit on events or resources but the length of the input. A document is read in time linear in its
/// length, and without storage, so the search for repeated ids has its bounds: among the first 1,024 elements of `Events`
/// it finds them unless hundreds of ids are repeated, or several ids were made to look alike. One that it overlooks stays
/// in [`events`](Self::events); a [`Tracker`](crate::Tracker) takes the first event of an id all the same.
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
    /// Where the `Events` array starts.
    events_offset: usize,
    events: usize,
    repeats: Repeats,
    /// Whether there is any problem in the `Events` array.
    odd: bool,
    /// The array's first element, where that is an event, and where it ends. A real document mostly has one event, which
    /// is then not read twice.
    first: Option<(Event<'a>, usize)>,
}

impl<'a> Document<'a> {
    /// Checks `input` and keeps a view of it.
    ///
    /// # Errors
    /// [`ParseError`] with kind and offset for what is no document. Line and column come from
    /// [`ParseError::position`].
    #[inline] // What it returns is then not copied.
    pub fn parse(input: &'a [u8]) -> Result<Self, ParseError> {
        Self::parse_each(input, &mut [], |_, _, _| ())
    }

    /// Checks `input` as [`parse`](Self::parse) does, and shows each event that has an id while it is read: for a caller
    /// who keeps what it needs and would otherwise read all events twice.
    ///
    /// `each` gets the event, where the bytes of its object are, and the names in its `Resources`, which are then not read
    /// twice either: `names` is room for those of one event at a time. Where they do not all fit, `each` gets `None`,
    /// and [`Event::resources`] reads them once more.
    ///
    /// Nothing that was shown counts when an error is returned. An event that repeats an id is shown too; where
    /// [`events`](Self::events) is shorter than what was shown, it tells by [`Event::index`] which ones stand.
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
        // Made where it is handed out, since it is not small.
        let mut result = Ok(Self::EMPTY);
        if let Ok(document) = &mut result
            && let Err(error) = document.read_bytes(input, &mut Names::new(names), &mut each)
        {
            result = Err(error);
        }
        result
    }

    /// A document of which nothing is known yet.
    const EMPTY: Self = Self {
        text: "",
        incarnation: Incarnation::Absent,
        incarnation_problem: None,
        events_offset: 0,
        events: 0,
        repeats: Repeats::NONE,
        odd: false,
        first: None,
    };

    #[inline]
    fn read_bytes(
        &mut self,
        input: &'a [u8],
        names: &mut Names<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        match core::str::from_utf8(input) {
            Ok(text) => self.read(text, names, each),
            Err(error) => Err(self.not_utf8(input, error.valid_up_to(), names, each)),
        }
    }

    /// What is wrong first is told first: the text before the broken bytes at `offset` may be no document already.
    #[cold]
    #[inline(never)]
    fn not_utf8(
        &mut self,
        input: &'a [u8],
        offset: usize,
        names: &mut Names<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> ParseError {
        let valid = input.get(..offset).and_then(|valid| core::str::from_utf8(valid).ok()).unwrap_or_default();
        match self.read(valid, names, each) {
            Err(error) if error.kind != ParseErrorKind::UnexpectedEnd => error,
            _ => ParseError::new(ParseErrorKind::InvalidUtf8, offset),
        }
    }

    #[inline(never)] // It has two callers.
    fn read(
        &mut self,
        text: &'a str,
        names: &mut Names<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let mut scanner = Scanner::new(text, start, 0);
        scanner.skip_space();
        if scanner.peek() != Some(b'{') {
            let start = scanner.offset();
            scanner.value()?;
            return Err(ParseError::new(ParseErrorKind::NotAnObject, start));
        }
        self.text = text;
        let mut incarnation_seen = false;
        let mut first = true;
        scanner.open_object()?;
        let mut due = Some(Member::DocumentIncarnation);
        while scanner.next_name(&mut first)? {
            let repeated = Err(ParseError::new(ParseErrorKind::RepeatedMember, scanner.offset()));
            let member = match due {
                Some(member) if member.eat_name(&mut scanner) => Some(member),
                _ => Member::of_document(&scanner.name_and_colon()?),
            };
            due = member.and_then(Member::next);
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
            return Err(ParseError::new(ParseErrorKind::NoEvents, scanner.offset().saturating_sub(1)));
        }
        scanner.skip_space();
        if scanner.peek().is_some() {
            return Err(ParseError::new(ParseErrorKind::TrailingData, scanner.offset()));
        }
        Ok(())
    }

    fn read_incarnation(&mut self, scanner: &mut Scanner<'a>) -> Result<(), ParseError> {
        let offset = scanner.offset();
        let number = match scanner.short_integer() {
            Some(number) => Some(number),
            None => match scanner.value()? {
                Value::Null => return Ok(()),
                Value::String(text) => {
                    self.incarnation = Incarnation::Text(text);
                    return Ok(());
                }
                Value::Number(number) => Some(integer(number)),
                Value::Boolean | Value::Array | Value::Object => None,
            },
        };
        let problem = match number {
            Some(Integer::Exactly { negative: false, magnitude }) => {
                self.incarnation = Incarnation::Number(magnitude);
                return Ok(());
            }
            Some(Integer::Exactly { .. } | Integer::TooLarge) => ProblemKind::OutOfRange,
            Some(Integer::Fraction) => ProblemKind::NotAnInteger,
            None => ProblemKind::WrongType,
        };
        self.incarnation_problem = Some((offset, problem));
        Ok(())
    }

    fn read_events(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        let offset = scanner.offset();
        if scanner.peek() != Some(b'[') {
            scanner.value()?;
            return Err(ParseError::new(ParseErrorKind::NoEvents, offset));
        }
        scanner.open_array()?;
        self.events_offset = offset;
        let mut first = true;
        if !scanner.next_element(&mut first)? {
            return Ok(());
        }
        if scanner.peek() == Some(b'{') {
            let (event, end) = self.first.insert((Event::blank(scanner, 0), 0));
            event.fill(scanner, names)?;
            *end = scanner.offset();
            self.odd = event.has_problems() || !event.has_id();
            if event.has_id() {
                self.events = 1;
                each(event, event.offset()..*end, names.kept());
            } else {
                self.first = None;
            }
        } else {
            self.odd = true;
            scanner.value()?;
        }
        // A second element is rare, and so is what it takes to find repeated ids.
        if scanner.next_element(&mut first)? { self.read_more(scanner, names, each) } else { Ok(()) }
    }

    /// Reads the elements behind the first one; the scanner stands before the second.
    #[inline(never)] // What it needs to find repeated ids is gone from the stack when the document is handed on.
    fn read_more(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
        each: &mut impl FnMut(&Event<'a>, Range<usize>, Option<&[Text<'a>]>),
    ) -> Result<(), ParseError> {
        let mut finder = RepeatFinder::new(self.text, self.events_offset, &mut self.repeats);
        if let Some((event, _)) = &self.first {
            finder.see(event);
        }
        let mut index: usize = 1;
        loop {
            if scanner.peek() == Some(b'{') {
                let mut event = Event::blank(scanner, index);
                names.clear();
                event.fill(scanner, names)?;
                self.odd |= event.has_problems() || !event.has_id();
                if event.has_id() {
                    self.events = self.events.saturating_add(1);
                    each(&event, event.offset()..scanner.offset(), names.kept());
                    finder.see(&event);
                }
            } else {
                self.odd = true;
                scanner.value()?;
            }
            index = index.saturating_add(1);
            if !scanner.next_element(&mut false)? {
                break;
            }
        }
        finder.finish(self.odd);
        self.events = self.events.saturating_sub(self.repeats.count());
        self.odd |= self.repeats.count() > 0;
        Ok(())
    }

    /// `DocumentIncarnation`: changes with every change of the document. Good for equality, for nothing else.
    pub const fn incarnation(&self) -> Incarnation<'a> {
        self.incarnation
    }

    /// The events, in the document's order. An element that is no object, has no `EventId`, or repeats one is left out,
    /// and stands among the [`problems`](Self::problems).
    pub const fn events(&self) -> Events<'a> {
        Events { document: *self, cursor: EventCursor::START }
    }

    /// Returns the event at `cursor` and moves the cursor on, or `None` after the last event.
    ///
    /// This is [`events`](Self::events) for a caller that keeps the document and the position in different places, such as
    /// behind a C interface. A new cursor starts at the first event.
    ///
    /// ```
    /// use scheduled_events_core::{Document, EventCursor};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#)?;
    /// let mut cursor = EventCursor::default();
    /// assert!(document.next_event(&mut cursor).unwrap().event_id() == "a");
    /// assert!(document.next_event(&mut cursor).unwrap().event_id() == "b");
    /// assert!(document.next_event(&mut cursor).is_none());
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    #[inline]
    pub fn next_event(&self, cursor: &mut EventCursor) -> Option<Event<'a>> {
        if cursor.seen >= self.events {
            return None;
        }
        if let (Some((event, end)), 0) = (&self.first, cursor.seen) {
            *cursor = EventCursor { offset: *end, index: 1, seen: 1 };
            return Some(*event);
        }
        self.next_unread_event(cursor)
    }

    /// The next event behind the first, which is read again.
    #[inline(never)]
    fn next_unread_event(&self, cursor: &mut EventCursor) -> Option<Event<'a>> {
        let mut elements = match cursor.seen {
            0 => Elements::new(self.text, self.events_offset, self.odd),
            _ => Elements { index: cursor.index, ..Elements::after_first(self.text, cursor.offset, self.odd) },
        };
        let event = elements.next_event(&self.repeats)?;
        let (offset, index) = (elements.scanner.offset(), elements.index);
        *cursor = EventCursor { offset, index, seen: cursor.seen.saturating_add(1) };
        Some(event)
    }

    /// Hash of the document's bytes and of these names.
    pub(crate) fn hash_with(&self, names: VmNames<'_>) -> u64 {
        let mut hash = Hash::new();
        hash.bytes(self.text.as_bytes());
        names.hash_into(&mut hash);
        hash.finish()
    }

    /// What is odd: the document's own problems first, then each event's, in the order in which they stand.
    pub fn problems(&self) -> Problems<'a> {
        Problems {
            text: self.text,
            own: self.incarnation_problem,
            elements: if self.odd { Elements::new(self.text, self.events_offset, true) } else { Elements::NONE },
            repeats: self.repeats,
            inside: None,
        }
    }
}

/// `DocumentIncarnation`: a number on the wire, a string in some servers, absent in others.
///
/// Compare for equality only. It skips numbers, and it starts again when nobody polled for a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incarnation<'a> {
    /// A whole number.
    Number(u64),
    /// A string, whatever it says.
    Text(Text<'a>),
    /// No incarnation, or one that cannot be understood.
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

/// A position among a document's events, for [`Document::next_event`]. The default is before the first event.
///
/// A cursor borrows nothing and belongs to the document that moved it. With another document `next_event` does not panic,
/// but the events that it returns are unspecified.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventCursor {
    /// Where the last event ends.
    offset: usize,
    /// The next element's index.
    index: usize,
    /// How many events were returned.
    seen: usize,
}

impl EventCursor {
    const START: Self = Self { offset: 0, index: 0, seen: 0 };
}

/// Iterator over a document's events.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    document: Document<'a>,
    cursor: EventCursor,
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    #[inline]
    fn next(&mut self) -> Option<Event<'a>> {
        self.document.next_event(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.document.events.saturating_sub(self.cursor.seen);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Events<'_> {}

/// One element of the `Events` array, whatever it is.
pub(crate) struct Element<'a> {
    pub(crate) index: usize,
    pub(crate) offset: usize,
    /// `None` where it is no object.
    pub(crate) event: Option<Event<'a>>,
}

/// The elements of an `Events` array that was checked before, so that reading it again does not fail.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    scanner: Scanner<'a>,
    index: usize,
    first: bool,
    /// Whether there is any problem in the array.
    odd: bool,
}

impl<'a> Elements<'a> {
    const NONE: Self = Self { scanner: Scanner::new("", 0, 0), index: 0, first: true, odd: false };

    /// The elements of the array whose bracket stands at `offset`.
    pub(crate) fn new(text: &'a str, offset: usize, odd: bool) -> Self {
        let mut scanner = Scanner::new(text, offset, EVENT_DEPTH.wrapping_sub(1));
        if scanner.open_array().is_err() { Self::NONE } else { Self { scanner, index: 0, first: true, odd } }
    }

    /// The elements but the first, which ends at `offset`.
    const fn after_first(text: &'a str, offset: usize, odd: bool) -> Self {
        Self { scanner: Scanner::new(text, offset, EVENT_DEPTH), index: 1, first: false, odd }
    }

    /// Shows the next element: its place among them, where it stands, and the event that it is. Events are shown where they
    /// were read, since they are not small.
    #[inline]
    fn show_next<T>(&mut self, show: impl FnOnce(usize, usize, Option<&Event<'a>>) -> T) -> Option<T> {
        if !self.scanner.next_element(&mut self.first).ok()? {
            *self = Self::NONE;
            return None;
        }
        let (index, offset) = (self.index, self.scanner.offset());
        self.index = index.saturating_add(1);
        if self.scanner.peek() != Some(b'{') {
            self.scanner.value().ok()?;
            return Some(show(index, offset, None));
        }
        let mut event = Event::blank(&self.scanner, index);
        event.fill(&mut self.scanner, &mut Names::read_before(self.odd)).ok()?;
        Some(show(index, offset, Some(&event)))
    }

    /// The next event that has an id and does not repeat one.
    #[inline]
    fn next_event(&mut self, repeats: &Repeats) -> Option<Event<'a>> {
        loop {
            let event = self.show_next(|_, _, event| {
                event.filter(|event| event.has_id() && !repeats.contains(event.index())).copied()
            })?;
            if event.is_some() {
                return event;
            }
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        self.show_next(|index, offset, event| Element { index, offset, event: event.copied() })
    }
}

/// Iterator over a document's problems.
#[derive(Clone, Debug)]
pub struct Problems<'a> {
    text: &'a str,
    own: Option<(usize, ProblemKind)>,
    elements: Elements<'a>,
    repeats: Repeats,
    /// The event that is being gone through.
    inside: Option<Inside<'a>>,
}

/// Where in an event the search for problems stands.
#[derive(Clone, Debug)]
struct Inside<'a> {
    event: Event<'a>,
    repeated: bool,
    scanner: Scanner<'a>,
    first: bool,
    /// Inside `Resources`: whether an element was read there yet.
    resources: Option<bool>,
}

impl Iterator for Problems<'_> {
    type Item = Problem;

    fn next(&mut self) -> Option<Problem> {
        if let Some((offset, kind)) = self.own.take() {
            return Some(Problem { event: None, member: Some(Member::DocumentIncarnation), offset, kind });
        }
        loop {
            if let Some(inside) = &mut self.inside {
                if let Some(problem) = inside.next() {
                    return Some(problem);
                }
                self.inside = None;
            }
            let element = self.elements.next()?;
            let Some(event) = element.event else {
                let kind = ProblemKind::NotAnObject;
                return Some(Problem { event: Some(element.index), member: None, offset: element.offset, kind });
            };
            let repeated = event.has_id() && self.repeats.contains(element.index);
            if event.has_problems() || repeated {
                self.inside = Inside::new(self.text, event, repeated);
            }
            if event.lacks_id_for_no_other_reason() {
                let (member, kind) = (Some(Member::EventId), ProblemKind::Missing);
                return Some(Problem { event: Some(element.index), member, offset: element.offset, kind });
            }
        }
    }
}

impl<'a> Inside<'a> {
    fn new(text: &'a str, event: Event<'a>, repeated: bool) -> Option<Self> {
        let mut scanner = Scanner::new(text, event.offset(), EVENT_DEPTH);
        let event = Event::blank(&scanner, event.index());
        scanner.open_object().ok()?;
        Some(Self { event, repeated, scanner, first: true, resources: None })
    }

    /// The next problem of the event; reading what was checked before does not fail.
    fn next(&mut self) -> Option<Problem> {
        loop {
            let (member, offset, kind) = if let Some(first) = &mut self.resources {
                if !self.scanner.next_element(first).ok()? {
                    self.resources = None;
                    continue;
                }
                let offset = self.scanner.offset();
                let odd = !matches!(self.scanner.value().ok()?, Value::String(_));
                (Member::Resources, offset, odd.then_some(ProblemKind::WrongType))
            } else {
                let (_, name) = self.scanner.next_member(&mut self.first).ok()??;
                let offset = self.scanner.offset();
                match Member::of_event(&name) {
                    Some(Member::Resources) if self.scanner.peek() == Some(b'[') => {
                        self.scanner.open_array().ok()?;
                        self.resources = Some(true);
                        continue;
                    }
                    Some(Member::EventId) if self.repeated => {
                        self.scanner.value().ok()?;
                        (Member::EventId, offset, Some(ProblemKind::Repeated))
                    }
                    Some(member) => {
                        (member, offset, self.event.take(member, &mut self.scanner, &mut Names::new(&mut [])).ok()?)
                    }
                    None => {
                        self.scanner.value().ok()?;
                        continue;
                    }
                }
            };
            if let Some(kind) = kind {
                return Some(Problem { event: Some(self.event.index()), member: Some(member), offset, kind });
            }
        }
    }
}
