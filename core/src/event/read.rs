//! Reads an event member by member, in any order.

use super::layout::{NotBeforeKind, Span};
use super::{
    EVENT_DEPTH, Event, EventLayout, Member, MemberSet, NameBuffer, NotBefore, ProblemKind,
};
use crate::error::{ParseError, ParseErrorKind};
use crate::event_id::{EVENT_ID_MAX, EventId};
use crate::json::{Integer, Quoted, Scanner, Text, Value, integer};

impl<'a> Event<'a> {
    /// Reads a single event: an object as in a document's `Events`.
    ///
    /// # Errors
    /// [`ParseError`] if the bytes are not JSON, not an object, or repeat a known member.
    ///
    /// ```
    /// use scheduled_events_core::{Event, EventType};
    ///
    /// let event = Event::parse(br#"{"EventId":"a","EventType":"Preempt"}"#)?;
    /// assert_eq!(event.event_type(), Some(EventType::Preempt));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub fn parse(input: &'a [u8]) -> Result<Self, ParseError> {
        let text = core::str::from_utf8(input).map_err(|error| {
            let offset = error.valid_up_to();
            ParseError::found(
                ParseErrorKind::InvalidUtf8,
                offset,
                input.get(offset).copied(),
            )
        })?;
        let mut scanner = Scanner::new(text, 0, EVENT_DEPTH);
        scanner.expect_object()?;
        let mut event = Self::unread(&scanner, 0);
        event.read(&mut scanner, &mut NameBuffer::new(&mut []))?;
        scanner.expect_end()?;
        Ok(event)
    }

    /// An event that starts at the scanner's position and has not been read.
    pub(crate) const fn unread(scanner: &Scanner<'a>, index: usize) -> Self {
        Self {
            object: "",
            offset: scanner.offset(),
            layout: EventLayout::new(index),
        }
    }

    /// Reads the object that starts here into an unread event. In place, because events are not small.
    pub(crate) fn read(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut NameBuffer<'_, 'a>,
    ) -> Result<(), ParseError> {
        scanner.open_object()?;
        #[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
        let mut seen = self.read_in_usual_order(scanner, names);
        #[cfg(not(all(feature = "fast-path", target_pointer_width = "64")))]
        let mut seen = MemberSet::EMPTY;

        let mut first = seen.is_empty();
        while let Some((name_offset, name)) = scanner.next_member(&mut first)? {
            self.read_member(scanner, name_offset, &name, &mut seen, names)?;
        }
        self.object = scanner.since(self.offset);
        Ok(())
    }

    /// Reads the member whose value starts here.
    #[inline(never)]
    fn read_member(
        &mut self,
        scanner: &mut Scanner<'a>,
        name_offset: usize,
        name: &Text<'_>,
        seen: &mut MemberSet,
        names: &mut NameBuffer<'_, 'a>,
    ) -> Result<(), ParseError> {
        let Some(member) = Member::of_event(name) else {
            scanner.value()?;
            return Ok(());
        };
        if seen.contains(member) {
            return Err(ParseError::new(ParseErrorKind::RepeatedMember, name_offset));
        }
        seen.insert(member);
        if self.read_value(member, scanner, names)?.is_some() {
            self.layout.problems.insert(member);
        }
        Ok(())
    }

    /// Reads the value of one member and returns its problem, if any. `null` is the same as absent.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a program that lists problems has two callers, and reads a tenth slower.
    pub(crate) fn read_value(
        &mut self,
        member: Member,
        scanner: &mut Scanner<'a>,
        names: &mut NameBuffer<'_, 'a>,
    ) -> Result<Option<ProblemKind>, ParseError> {
        let start = scanner.offset();
        if member == Member::Resources && scanner.peek() == Some(b'[') {
            let only_strings = names.read(scanner)?;
            let span = Span::new(start.wrapping_sub(self.offset), 0, false);
            return Ok(self
                .set_span(member, span)
                .or((!only_strings).then_some(ProblemKind::WrongType)));
        }
        if scanner.peek() == Some(b'"') {
            let string = scanner.string_here()?;
            return Ok(match member {
                Member::Resources => Some(ProblemKind::WrongType),
                Member::DurationInSeconds => self.set_duration_text(&scanner.quoted(string)),
                _ => self.set_text(member, scanner, string),
            });
        }
        let value = scanner.value()?;
        Ok(match (member, value) {
            (_, Value::Null) => None,
            (Member::DurationInSeconds, Value::Number(number)) => {
                self.set_duration(integer(number))
            }
            (Member::NotBefore, _) => {
                let length = scanner.offset().wrapping_sub(start);
                if self
                    .set_span(
                        member,
                        Span::new(start.wrapping_sub(self.offset), length, false),
                    )
                    .is_none()
                {
                    self.layout.not_before = NotBeforeKind::Unreadable;
                }
                Some(ProblemKind::WrongType)
            }
            _ => Some(ProblemKind::WrongType),
        })
    }

    /// Sets the span of a value, or returns the problem if it does not fit.
    #[inline]
    fn set_span(&mut self, member: Member, span: Option<Span>) -> Option<ProblemKind> {
        let Some(span) = span else {
            return Some(ProblemKind::TooLong);
        };
        self.layout.set_span(member, span);
        None
    }

    /// Sets the text of a member and returns its problem, if any.
    #[inline]
    pub(super) fn set_text(
        &mut self,
        member: Member,
        scanner: &Scanner<'a>,
        string: Quoted,
    ) -> Option<ProblemKind> {
        let length = string.end.wrapping_sub(string.start);
        if member.is_empty_word(length) {
            return Some(ProblemKind::Empty);
        }
        let span = Span::new(
            string.start.wrapping_sub(self.offset),
            length,
            string.escaped,
        );
        self.set_span(member, span).or_else(|| match member {
            Member::EventId => id_problem(scanner, string),
            Member::NotBefore => self.set_not_before(scanner.quoted(string)),
            _ => None,
        })
    }

    #[inline]
    pub(super) fn set_not_before(&mut self, text: Text<'a>) -> Option<ProblemKind> {
        self.layout.not_before = match NotBefore::new(text) {
            NotBefore::At(moment) => NotBeforeKind::At(moment),
            NotBefore::Unset => NotBeforeKind::Unset,
            NotBefore::Unreadable(_) => NotBeforeKind::Unreadable,
        };
        matches!(self.layout.not_before, NotBeforeKind::Unreadable)
            .then_some(ProblemKind::UnreadableTime)
    }

    #[cold]
    fn set_duration_text(&mut self, text: &Text<'_>) -> Option<ProblemKind> {
        let mut buffer = [0; 32];
        let Ok(text) = text.copy_to(&mut buffer) else {
            return Some(ProblemKind::NotAnInteger);
        };
        let mut scanner = Scanner::new(text, 0, 0);
        match scanner.number() {
            Ok(number) if scanner.peek().is_none() => self.set_duration(integer(number)),
            _ => Some(ProblemKind::NotAnInteger),
        }
    }

    /// Sets the duration; -1 means unknown.
    #[inline]
    pub(super) fn set_duration(&mut self, seconds: Integer) -> Option<ProblemKind> {
        match seconds {
            Integer::Exactly {
                negative: true,
                magnitude: 1,
            } => None,
            Integer::Exactly {
                negative: false,
                magnitude,
            } => match u32::try_from(magnitude) {
                Ok(seconds) if seconds != u32::MAX => {
                    self.layout.duration_in_seconds = seconds;
                    None
                }
                _ => Some(ProblemKind::OutOfRange),
            },
            Integer::Exactly { .. } | Integer::TooLarge => Some(ProblemKind::OutOfRange),
            Integer::Fraction => Some(ProblemKind::NotAnInteger),
        }
    }
}

/// The problem of an `EventId`, if any.
#[inline]
pub(super) fn id_problem(scanner: &Scanner<'_>, id: Quoted) -> Option<ProblemKind> {
    match id.end.wrapping_sub(id.start) {
        0 => Some(ProblemKind::Empty),
        // Decoding never makes a text longer.
        1..=EVENT_ID_MAX => None,
        _ => (!EventId::keeps_whole(&scanner.quoted(id))).then_some(ProblemKind::TooLong),
    }
}
