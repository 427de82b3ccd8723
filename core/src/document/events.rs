//! The events of a document. They are read again when they are visited, since the document stores no more than the first.

use super::Document;
use crate::duplicate_ids::DUPLICATE_ID_WINDOW;
use crate::event::{EVENT_DEPTH, Event, NameBuffer};
use crate::json::{Scanner, Text};
use crate::names::VmNames;

impl<'a> Document<'a> {
    /// The events in the document's order. An element that is not an object, has no `EventId`, or repeats one is left out
    /// and listed in [`problems`](Self::problems).
    pub const fn events(&self) -> Events<'a> {
        Events {
            document: *self,
            cursor: EventCursor::START,
        }
    }

    /// Returns the event at `cursor` and moves the cursor to the next one, or returns `None` after the last event.
    ///
    /// This is [`events`](Self::events) for a caller that keeps the document and the position apart, such as a binding to
    /// another language. A new cursor starts at the first event.
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
        if cursor.ids >= self.ids {
            return None;
        }
        if let (Some(event), 0) = (&self.first, cursor.ids) {
            let offset = event.offset().saturating_add(event.object().len());
            *cursor = EventCursor {
                offset,
                index: 1,
                ids: 1,
            };
            return Some(*event);
        }
        self.read_next_event(cursor)
    }

    /// The events as the machine with these names sees them: those of [`events`](Self::events), in which no other entry hides
    /// an event of this machine. Of several events with one `EventId`, the first that names this machine counts if there
    /// is one, after all others; if an earlier one does not name it, it has a problem in its `EventId`, so that no policy
    /// approves it. Among the first [`DUPLICATE_ID_WINDOW`] ids, as in `events`.
    ///
    /// ```
    /// use scheduled_events_core::{Document, Member, VmNames};
    ///
    /// let body = br#"{"Events":[{"EventId":"d-1","Resources":["vm_9"]},{"EventId":"D-1","Resources":["vm_0"]}]}"#;
    /// let document = Document::parse(body)?;
    /// let event = document.events_for(VmNames::new(&["vm_0"])).next().unwrap();
    /// assert_eq!((event.index(), event.unreliable_member()), (1, Some(Member::EventId)));
    /// assert_eq!(document.events_for(VmNames::new(&["vm_1"])).next().unwrap().index(), 0);
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn events_for<'n>(&self, names: VmNames<'n>) -> EventsFor<'a, 'n> {
        EventsFor {
            events: self.events(),
            names,
            repeated: false,
        }
    }

    /// The first event of this machine that repeats the id of this event, which is of other machines.
    #[cold]
    #[inline(never)]
    fn own_repetition(&self, first: &Event<'a>, names: VmNames<'_>) -> Option<Event<'a>> {
        if names.owns(first) != Some(false) {
            return None;
        }
        let elements = Elements::new(self.text, self.events_offset, self.has_problems);
        let events = elements.filter_map(|element| element.event);
        let mut repetitions = events
            .filter(Event::has_id)
            .take(DUPLICATE_ID_WINDOW)
            .filter(|event| event.event_id().is_same_name(&first.event_id()));
        let mut own = repetitions.find(|event| names.owns(event) == Some(true))?;
        own.mark_repeated();
        Some(own)
    }

    /// The ids of all events, duplicates included.
    pub(super) fn ids(&self) -> impl Iterator<Item = Text<'a>> + use<'a> {
        let elements = Elements::new(self.text, self.events_offset, self.has_problems);
        elements
            .filter_map(|element| element.event)
            .filter(Event::has_id)
            .map(|event| event.event_id())
    }

    #[inline(never)]
    fn read_next_event(&self, cursor: &mut EventCursor) -> Option<Event<'a>> {
        let mut elements = match cursor.ids {
            0 => Elements::new(self.text, self.events_offset, self.has_problems),
            _ => Elements::after(self.text, *cursor, self.has_problems),
        };
        while let Some(element) = elements.next() {
            let Some(event) = element.event.filter(Event::has_id) else {
                continue;
            };
            let position = cursor.ids;
            cursor.ids = position.saturating_add(1);
            if !self.duplicates.contains(position) {
                (cursor.offset, cursor.index) = (elements.scanner.offset(), elements.index);
                return Some(event);
            }
        }
        // Only duplicates were left.
        cursor.ids = self.ids;
        None
    }
}

/// A position among a document's events, for [`Document::next_event`]. The default is before the first event.
///
/// A cursor borrows nothing and belongs to the document that moved it. With another document `next_event` does not panic,
/// but which events it returns is unspecified.
///
/// ```
/// use scheduled_events_core::{Document, EventCursor};
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#)?;
/// let mut cursor = EventCursor::default();
/// assert!(document.next_event(&mut cursor).is_some_and(|event| event.event_id() == "a"));
/// // Store the cursor and go on later.
/// assert!(document.next_event(&mut cursor).is_some_and(|event| event.event_id() == "b"));
/// assert!(document.next_event(&mut cursor).is_none());
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EventCursor {
    /// The end of the last event.
    offset: usize,
    /// The next element's index.
    index: usize,
    /// How many ids were passed, duplicates included.
    ids: usize,
}

impl EventCursor {
    const START: Self = Self {
        offset: 0,
        index: 0,
        ids: 0,
    };
}

/// Iterator over a document's events.
///
/// ```
/// use scheduled_events_core::Document;
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#)?;
/// let mut events = document.events();
/// assert_eq!(events.len(), 2);
/// assert!(events.next().is_some_and(|event| event.event_id() == "a"));
/// assert_eq!(events.len(), 1);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
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
        (self.len(), Some(self.len()))
    }
}

impl ExactSizeIterator for Events<'_> {
    // The provided method compares both bounds, and could panic as far as the compiler knows.
    fn len(&self) -> usize {
        let Document {
            ids, duplicates, ..
        } = self.document;
        let returned = self
            .cursor
            .ids
            .saturating_sub(duplicates.count_before(self.cursor.ids));
        ids.saturating_sub(duplicates.count())
            .saturating_sub(returned)
    }
}

/// Iterator over a document's events as one machine sees them, made by [`Document::events_for`].
///
/// ```
/// use scheduled_events_core::{Document, VmNames};
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a"},{"EventId":"b"}]}"#)?;
/// assert_eq!(document.events_for(VmNames::new(&["vm_0"])).count(), 2);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventsFor<'a, 'n> {
    events: Events<'a>,
    names: VmNames<'n>,
    /// Whether the events that another one does not hide were returned, and those that repeat an id follow.
    repeated: bool,
}

impl<'a> Iterator for EventsFor<'a, '_> {
    type Item = Event<'a>;

    #[inline(never)]
    fn next(&mut self) -> Option<Event<'a>> {
        let Events { document, cursor } = &mut self.events;
        loop {
            let event = document.next_event(cursor);
            // Beyond the window nothing is known about repeated ids, so each event is shown as it is. This also bounds the search.
            let is_searched = cursor.ids <= DUPLICATE_ID_WINDOW && !document.duplicates.is_empty();
            match event {
                Some(event) if is_searched => match document.own_repetition(&event, self.names) {
                    None if !self.repeated => return Some(event),
                    Some(own) if self.repeated => return Some(own),
                    _ => {}
                },
                Some(event) if !self.repeated => return Some(event),
                None if !self.repeated && !document.duplicates.is_empty() => {
                    self.repeated = true;
                    *cursor = EventCursor::START;
                }
                _ => return None,
            }
        }
    }
}

/// One element of the `Events` array.
pub(super) struct Element<'a> {
    pub(super) index: usize,
    pub(super) offset: usize,
    /// `None` if the element is not an object.
    pub(super) event: Option<Event<'a>>,
}

/// The elements of an `Events` array that was checked, so that reading it again does not fail.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    scanner: Scanner<'a>,
    index: usize,
    first: bool,
    /// Whether there is any problem in the array.
    has_problems: bool,
}

impl<'a> Elements<'a> {
    pub(super) const NONE: Self = Self {
        scanner: Scanner::new("", 0, 0),
        index: 0,
        first: true,
        has_problems: false,
    };

    /// The elements of the array whose bracket is at `offset`.
    pub(super) fn new(text: &'a str, offset: usize, has_problems: bool) -> Self {
        let mut scanner = Scanner::new(text, offset, EVENT_DEPTH.wrapping_sub(1));
        if scanner.open_array().is_err() {
            Self::NONE
        } else {
            Self {
                scanner,
                index: 0,
                first: true,
                has_problems,
            }
        }
    }

    /// The elements after the event that the cursor has passed.
    const fn after(text: &'a str, cursor: EventCursor, has_problems: bool) -> Self {
        let scanner = Scanner::new(text, cursor.offset, EVENT_DEPTH);
        Self {
            scanner,
            index: cursor.index,
            first: false,
            has_problems,
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        if !self.scanner.next_element(&mut self.first).ok()? {
            *self = Self::NONE;
            return None;
        }
        let (index, offset) = (self.index, self.scanner.offset());
        self.index = index.saturating_add(1);
        if self.scanner.peek() != Some(b'{') {
            self.scanner.value().ok()?;
            return Some(Element {
                index,
                offset,
                event: None,
            });
        }
        let mut event = Event::unread(&self.scanner, index);
        event
            .read(
                &mut self.scanner,
                &mut NameBuffer::checked(self.has_problems),
            )
            .ok()?;
        Some(Element {
            index,
            offset,
            event: Some(event),
        })
    }
}
