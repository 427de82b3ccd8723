//! How an event is read: member by member, in any order, the documented one the fastest.

use core::num::NonZeroU32;

use super::{EVENT_DEPTH, Event, Member, MemberSet, NotBefore, Span, Start};
use crate::error::{ParseError, ParseErrorKind, ProblemKind};
use crate::event_id::EventId;
use crate::json::{Integer, Scanner, Text, Value, integer};

impl<'a> Event<'a> {
    /// Reads one event on its own: an object as it stands in a document's `Events`.
    ///
    /// # Errors
    /// [`ParseError`] where the bytes are no JSON, no object, or hold a known member twice.
    ///
    /// ```
    /// use scheduled_events_core::{Event, EventType};
    ///
    /// let event = Event::parse(br#"{"EventId":"a","EventType":"Preempt"}"#)?;
    /// assert_eq!(event.event_type(), Some(EventType::Preempt));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub fn parse(input: &'a [u8]) -> Result<Self, ParseError> {
        let text = core::str::from_utf8(input)
            .map_err(|error| ParseError::new(ParseErrorKind::InvalidUtf8, error.valid_up_to()))?;
        let mut scanner = Scanner::new(text, 0, EVENT_DEPTH);
        scanner.skip_space();
        if scanner.peek() != Some(b'{') {
            let start = scanner.offset();
            scanner.value()?;
            return Err(ParseError::new(ParseErrorKind::NotAnObject, start));
        }
        let mut event = Self::blank(&scanner, 0);
        event.fill(&mut scanner, &mut Names::new(&mut []))?;
        scanner.skip_space();
        match scanner.peek() {
            None => Ok(event),
            Some(_) => Err(ParseError::new(ParseErrorKind::TrailingData, scanner.offset())),
        }
    }

    /// Reads the object that starts here into an event that is blank; in place, since events are not small.
    pub(crate) fn fill(&mut self, outer: &mut Scanner<'a>, names: &mut Names<'_, 'a>) -> Result<(), ParseError> {
        let mut scanner = *outer; // One of its own can live in registers.
        let mut seen = MemberSet::default();
        let mut first = true;
        // The member that stands next where Azure writes the document.
        let mut due = Some(Member::EventId);
        scanner.open_object()?;
        while scanner.next_name(&mut first)? {
            let name_offset = scanner.offset();
            let member = match due {
                Some(member) if member.eat_name(&mut scanner) => Some(member),
                _ => Member::of_event(&scanner.name_and_colon()?),
            };
            let Some(member) = member else {
                scanner.value()?;
                continue;
            };
            if seen.contains(member) {
                return Err(ParseError::new(ParseErrorKind::RepeatedMember, name_offset));
            }
            seen.insert(member);
            due = member.next();
            if self.take(member, &mut scanner, names)?.is_some() {
                self.problems.insert(member);
            }
        }
        *outer = scanner;
        Ok(())
    }

    /// The `EventId` of the object that starts here, and where it stands; the object was read before.
    pub(crate) fn id_of(scanner: &mut Scanner<'a>) -> Option<(usize, Text<'a>)> {
        let mut first = true;
        scanner.open_object().ok()?;
        while let Some((_, name)) = scanner.next_member(&mut first).ok()? {
            let offset = scanner.offset();
            let value = scanner.value().ok()?;
            if name == *Member::EventId.name() {
                scanner.leave_checked();
                return if let Value::String(text) = value { Some((offset, text)) } else { None };
            }
        }
        None
    }

    /// An event of which nothing is known yet but that it starts here.
    pub(crate) fn blank(scanner: &Scanner<'a>, index: usize) -> Self {
        Self {
            text: scanner.text(),
            index,
            offset: scanner.offset(),
            event_id: None,
            event_type: None,
            event_status: None,
            resource_type: None,
            description: None,
            event_source: None,
            not_before: Start::Unset,
            resources: None,
            duration_in_seconds: u32::MAX,
            problems: MemberSet::default(),
        }
    }

    /// Reads the value of one member; what is odd about it, if anything. `null` is as good as absent.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a program that asks for problems has two callers, and reads a tenth slower.
    pub(crate) fn take(
        &mut self,
        member: Member,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
    ) -> Result<Option<ProblemKind>, ParseError> {
        let start = scanner.offset().wrapping_sub(self.offset);
        if member == Member::Resources && scanner.peek() == Some(b'[') {
            self.resources = u32::try_from(start).ok().and_then(NonZeroU32::new);
            let odd = names.read(scanner)?;
            return Ok(match self.resources {
                Some(_) => odd.then_some(ProblemKind::WrongType),
                None => Some(ProblemKind::TooLong),
            });
        }
        if scanner.peek() == Some(b'"') {
            let text = scanner.string_here()?;
            let place = Span::of(start.wrapping_add(1), text.raw().len(), text.as_str().is_none());
            return Ok(match place {
                Some(place) => self.take_text(member, text, place),
                None => Some(ProblemKind::TooLong),
            });
        }
        let before = scanner.offset();
        let value = scanner.value()?;
        Ok(match (member, value) {
            (_, Value::Null) => None,
            (Member::DurationInSeconds, Value::Number(number)) => self.take_duration(number).err(),
            (Member::NotBefore, _) => {
                let length = scanner.offset().wrapping_sub(before);
                self.not_before = Span::of(start, length, false).map_or(Start::Unset, Start::Unreadable);
                Some(ProblemKind::WrongType)
            }
            _ => Some(ProblemKind::WrongType),
        })
    }

    /// Takes a member that is a text; what is odd about it, if anything.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `take`, its one caller.
    fn take_text(&mut self, member: Member, text: Text<'a>, place: Span) -> Option<ProblemKind> {
        match member {
            Member::EventId => {
                self.event_id = Some(place);
                if text.is_empty() {
                    return Some(ProblemKind::Empty);
                }
                if !EventId::keeps_whole(&text) {
                    return Some(ProblemKind::TooLong);
                }
            }
            Member::EventType => self.event_type = Some(place),
            Member::EventStatus => self.event_status = Some(place),
            Member::EventSource => self.event_source = Some(place),
            Member::ResourceType => self.resource_type = Some(place),
            Member::Description => self.description = Some(place),
            Member::NotBefore => match NotBefore::of(text) {
                NotBefore::At(moment) => self.not_before = Start::At(moment),
                NotBefore::Unset => self.not_before = Start::Unset,
                NotBefore::Unreadable(_) => {
                    self.not_before = Start::Unreadable(place);
                    return Some(ProblemKind::UnreadableTime);
                }
            },
            Member::DurationInSeconds => return self.take_duration_text(&text).err(),
            Member::Resources | Member::DocumentIncarnation | Member::Events => return Some(ProblemKind::WrongType),
        }
        None
    }

    #[cold]
    fn take_duration_text(&mut self, text: &Text<'_>) -> Result<(), ProblemKind> {
        let mut buffer = [0; 32];
        let text = text.copy_to(&mut buffer).map_err(|_| ProblemKind::NotAnInteger)?;
        let mut scanner = Scanner::new(text, 0, 0);
        match scanner.number() {
            Ok(number) if scanner.peek().is_none() => self.take_duration(number),
            _ => Err(ProblemKind::NotAnInteger),
        }
    }

    /// A whole number, a float without a fraction, or a text of either; -1 means unknown.
    fn take_duration(&mut self, number: &str) -> Result<(), ProblemKind> {
        match integer(number) {
            Integer::Exactly { negative: true, magnitude: 1 } => Ok(()),
            Integer::Exactly { negative: false, magnitude } => match u32::try_from(magnitude) {
                Ok(seconds) if seconds != u32::MAX => {
                    self.duration_in_seconds = seconds;
                    Ok(())
                }
                _ => Err(ProblemKind::OutOfRange),
            },
            Integer::Exactly { .. } | Integer::TooLarge => Err(ProblemKind::OutOfRange),
            Integer::Fraction => Err(ProblemKind::NotAnInteger),
        }
    }
}

/// Where the names of an event's `Resources` are put when they are read first, if anywhere.
pub(crate) struct Names<'r, 'a> {
    room: &'r mut [Text<'a>],
    count: usize,
    /// They were read before, and are nothing but names.
    checked: bool,
}

impl<'r, 'a> Names<'r, 'a> {
    pub(crate) const fn new(room: &'r mut [Text<'a>]) -> Self {
        Self { room, count: 0, checked: false }
    }

    /// The array was read before; `odd` if anything but names may stand in it.
    pub(crate) const fn read_before(odd: bool) -> Self {
        Self { room: &mut [], count: 0, checked: !odd }
    }

    /// The names of the event that was read last, if there was room for all of them.
    pub(crate) fn kept(&self) -> Option<&[Text<'a>]> {
        self.room.get(..self.count)
    }

    /// Forgets the names of the event before.
    pub(crate) const fn clear(&mut self) {
        self.count = 0;
    }

    /// Reads the array that starts here; whether anything but strings stands in it.
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<bool, ParseError> {
        if self.checked {
            scanner.open_array()?;
            scanner.leave_checked();
            return Ok(false);
        }
        let mut others = false;
        let mut count: usize = 0;
        let room = &mut *self.room;
        scanner.array(|name| match name {
            Some(name) => {
                if let Some(place) = room.get_mut(count) {
                    *place = name;
                }
                count = count.saturating_add(1);
            }
            None => others = true,
        })?;
        self.count = count;
        Ok(others)
    }
}
