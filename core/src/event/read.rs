//! How an event is read: member by member, in any order, the documented one the fastest.

use super::{EVENT_DEPTH, Event, Member, MemberSet, NotBefore, Span, Start, VALUES};
use crate::error::{ParseError, ParseErrorKind, ProblemKind};
use crate::event_id::EventId;
use crate::json::{Integer, PlainEnds, Quoted, Scanner, Text, Value, WORDS_ARE_WIDE, integer};

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
        outer.open_object()?;
        // One whose address nobody gets lives in registers. So what stands out of line gets the outer one.
        let mut scanner = *outer;
        let mut seen = MemberSet::default();
        let mut first = true;
        // The member that stands next where Azure writes the document.
        let mut due = Some(Member::EventId);
        let mut end = scanner.offset();
        'members: while scanner.next_name(&mut first)? {
            let separator = scanner.separator_from(end);
            let mut name = scanner;
            while let Some(member) = due
                && !seen.contains(member)
                && member.eat_up_to_text(&mut scanner)
                && let Some(string) = scanner.plain_inside()
            {
                seen.insert(member);
                due = member.next();
                first = false;
                if self.keep(member, &scanner, string).is_some() {
                    self.problems.insert(member);
                }
                if !scanner.eat_comma_before_quote() && !scanner.eat_separator(separator) {
                    end = scanner.offset();
                    continue 'members;
                }
                name = scanner;
            }
            // Where code is dear, these two are read like any other.
            let due_is = |member| WORDS_ARE_WIDE && due == Some(member) && !seen.contains(member);
            let read = if due_is(Member::Resources)
                && Member::Resources.eat_name_inline(&mut scanner)
                && scanner.peek() == Some(b'[')
            {
                *outer = scanner;
                Some((Member::Resources, self.take_names(outer, names)?))
            } else if due_is(Member::DurationInSeconds)
                && Member::DurationInSeconds.eat_name_inline(&mut scanner)
                && let Some(seconds) = scanner.short_integer()
            {
                *outer = scanner;
                Some((Member::DurationInSeconds, self.take_duration(seconds).err()))
            } else {
                None
            };
            if let Some((member, problem)) = read {
                seen.insert(member);
                due = member.next();
                if problem.is_some() {
                    self.problems.insert(member);
                }
            } else {
                *outer = name;
                (seen, due) = self.read_member(outer, seen, due, names)?;
            }
            scanner = *outer;
            end = scanner.offset();
        }
        *outer = scanner;
        Ok(())
    }

    /// Reads the member whose name starts here, whatever it is; what was seen with it, and which is due behind it.
    #[inline(never)]
    fn read_member(
        &mut self,
        scanner: &mut Scanner<'a>,
        mut seen: MemberSet,
        due: Option<Member>,
        names: &mut Names<'_, 'a>,
    ) -> Result<(MemberSet, Option<Member>), ParseError> {
        let name_offset = scanner.offset();
        let member = match due {
            Some(member) if member.eat_name(scanner) => Some(member),
            _ => Member::of_event(&scanner.name_and_colon()?),
        };
        let Some(member) = member else {
            scanner.value()?;
            return Ok((seen, due));
        };
        if seen.contains(member) {
            return Err(ParseError::new(ParseErrorKind::RepeatedMember, name_offset));
        }
        seen.insert(member);
        if self.take(member, scanner, names)?.is_some() {
            self.problems.insert(member);
        }
        Ok((seen, member.next()))
    }

    /// The `EventId` of the object that starts here, and where it stands; the object was read before.
    #[inline(never)] // Its stack is not to be added to its caller's.
    pub(crate) fn id_of(scanner: &mut Scanner<'a>) -> Option<(usize, Text<'a>)> {
        let mut first = true;
        scanner.open_object().ok()?;
        while scanner.next_name(&mut first).ok()? {
            let name = scanner.name_and_colon().ok()?;
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
            values: [Span::NONE; VALUES],
            not_before: Start::Unset,
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
        let start = scanner.offset();
        if member == Member::Resources && scanner.peek() == Some(b'[') {
            return self.take_names(scanner, names);
        }
        if scanner.peek() == Some(b'"') {
            let string = scanner.string_here()?;
            return Ok(match member {
                Member::Resources => Some(ProblemKind::WrongType),
                Member::DurationInSeconds => self.take_duration_text(&scanner.quoted(string)).err(),
                _ => self.keep(member, scanner, string),
            });
        }
        if member == Member::DurationInSeconds
            && let Some(seconds) = scanner.short_integer()
        {
            return Ok(self.take_duration(seconds).err());
        }
        let value = scanner.value()?;
        Ok(match (member, value) {
            (_, Value::Null) => None,
            (Member::DurationInSeconds, Value::Number(number)) => self.take_duration(integer(number)).err(),
            (Member::NotBefore, _) => {
                let length = scanner.offset().wrapping_sub(start);
                if self.put(member, Span::of(start.wrapping_sub(self.offset), length, false)) {
                    self.not_before = Start::Unreadable;
                }
                Some(ProblemKind::WrongType)
            }
            _ => Some(ProblemKind::WrongType),
        })
    }

    /// Reads the array of `Resources` that starts here; what is odd about it, if anything.
    #[inline]
    fn take_names(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
    ) -> Result<Option<ProblemKind>, ParseError> {
        let place = Span::of(scanner.offset().wrapping_sub(self.offset), 0, false);
        let odd = names.read(scanner)?;
        Ok(if self.put(Member::Resources, place) {
            odd.then_some(ProblemKind::WrongType)
        } else {
            Some(ProblemKind::TooLong)
        })
    }

    /// Keeps the place of a value; whether it has one.
    #[inline]
    fn put(&mut self, member: Member, place: Option<Span>) -> bool {
        if let Some((value, place)) = self.values.get_mut(member as usize).zip(place) {
            *value = place;
        }
        place.is_some()
    }

    /// Keeps a text; what is odd about it, if anything.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As for `take`.
    fn keep(&mut self, member: Member, scanner: &Scanner<'a>, string: Quoted) -> Option<ProblemKind> {
        let length = string.end.wrapping_sub(string.start);
        if !self.put(member, Span::of(string.start.wrapping_sub(self.offset), length, string.escaped)) {
            return Some(ProblemKind::TooLong);
        }
        match member {
            Member::EventId if length == 0 => Some(ProblemKind::Empty),
            Member::EventId => (!EventId::keeps_whole(&scanner.quoted(string))).then_some(ProblemKind::TooLong),
            Member::NotBefore => {
                self.not_before = match NotBefore::of(scanner.quoted(string)) {
                    NotBefore::At(moment) => Start::At(moment),
                    NotBefore::Unset => Start::Unset,
                    NotBefore::Unreadable(_) => Start::Unreadable,
                };
                matches!(self.not_before, Start::Unreadable).then_some(ProblemKind::UnreadableTime)
            }
            _ => None,
        }
    }

    #[cold]
    fn take_duration_text(&mut self, text: &Text<'_>) -> Result<(), ProblemKind> {
        let mut buffer = [0; 32];
        let text = text.copy_to(&mut buffer).map_err(|_| ProblemKind::NotAnInteger)?;
        let mut scanner = Scanner::new(text, 0, 0);
        match scanner.number() {
            Ok(number) if scanner.peek().is_none() => self.take_duration(integer(number)),
            _ => Err(ProblemKind::NotAnInteger),
        }
    }

    /// A whole number, a float without a fraction, or a text of either; -1 means unknown.
    #[inline]
    fn take_duration(&mut self, seconds: Integer) -> Result<(), ProblemKind> {
        match seconds {
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
    #[inline(never)]
    fn read(&mut self, outer: &mut Scanner<'a>) -> Result<bool, ParseError> {
        outer.open_array()?;
        if self.checked {
            outer.leave_checked();
            return Ok(false);
        }
        let mut others = false;
        let mut count: usize = 0;
        let mut keep = |name| {
            if let Some(place) = self.room.get_mut(count) {
                *place = name;
            }
            count = count.wrapping_add(1);
        };
        let mut scanner = *outer; // As in `fill`.
        let mut ends = PlainEnds::UNKNOWN;
        let mut end = scanner.offset();
        let mut first = true;
        while scanner.next_element(&mut first)? {
            let separator = scanner.separator_from(end);
            if scanner.peek() != Some(b'"') {
                others = true;
                *outer = scanner;
                outer.value()?;
                scanner = *outer;
                end = scanner.offset();
                continue;
            }
            if !scanner.plain_strings(separator, &mut ends, |name| keep(Text::plain(name))) {
                *outer = scanner;
                keep(outer.string()?);
                scanner = *outer;
            }
            end = scanner.offset();
        }
        *outer = scanner;
        self.count = count;
        Ok(others)
    }
}
