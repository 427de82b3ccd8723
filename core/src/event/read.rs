//! How an event is read: member by member, in any order, the documented one the fastest.

use super::{EVENT_DEPTH, Event, EventLayout, Member, MemberSet, NotBefore, NotBeforeKind, Span, text_at};
use crate::error::{ParseError, ParseErrorKind, ProblemKind};
use crate::event_id::{EVENT_ID_MAX, EventId};
use crate::json::{
    Integer, PlainEnds, Quoted, Scanner, Separator, Text, Value, WORDS_ARE_WIDE, integer, plain_string_like,
    short_integer, value,
};

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
    pub(crate) fn fill(&mut self, scanner: &mut Scanner<'a>, names: &mut Names<'_, 'a>) -> Result<(), ParseError> {
        scanner.open_object()?;
        // The member that stands next where Azure writes the document.
        let mut due = Some(Member::EventId);
        // Where code is dear, all members are read alike.
        if WORDS_ARE_WIDE {
            let _ = self.fill_as_written(scanner, names, &mut due);
        }
        let mut first = due == Some(Member::EventId);
        let mut seen = MemberSet::before(due);
        if seen.contains(Member::NotBefore)
            && let Some(span) = self.layout.span(Member::NotBefore)
            && self.take_time(text_at(scanner.text(), self.offset, span)).is_some()
        {
            self.layout.problems.insert(Member::NotBefore);
        }
        if !scanner.eat_closing(b'}') {
            while scanner.next_name(&mut first)? {
                (seen, due) = self.read_member(scanner, seen, due, names)?;
            }
        }
        self.object = scanner.since(self.offset);
        Ok(())
    }

    /// Reads the members from the object's beginning on, as long as they stand as Azure writes them; `None` where they no
    /// longer do. Then one is `due` that is not read, and the scanner stands behind the last one that is. The time is not
    /// read here but by the caller, whose frame is smaller.
    #[inline(never)]
    fn fill_as_written(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
        due: &mut Option<Member>,
    ) -> Option<()> {
        if scanner.text().len() > Span::NEAR {
            return None;
        }
        let separator = &scanner.separator();
        let name = scanner.rest().strip_prefix(b"\"")?;
        // Written out, so that each member is known where it is read.
        let name = self.text_as_written(Member::EventId, name, separator, scanner, due)?;
        let name = self.text_as_written(Member::EventStatus, name, separator, scanner, due)?;
        let name = self.text_as_written(Member::EventType, name, separator, scanner, due)?;
        let name = self.text_as_written(Member::ResourceType, name, separator, scanner, due)?;
        let name = self.names_as_written(name, separator, scanner, names, due)?;
        let name = self.text_as_written(Member::NotBefore, name, separator, scanner, due)?;
        let name = self.text_as_written(Member::Description, name, separator, scanner, due)?;
        let name = self.text_as_written(Member::EventSource, name, separator, scanner, due)?;
        let number = Member::DurationInSeconds.behind_name(name)?;
        let (seconds, behind) = short_integer(number.strip_prefix(b" ").unwrap_or(number))?;
        scanner.step_to(behind);
        *due = Member::DurationInSeconds.next();
        if self.take_duration(seconds).is_err() {
            self.layout.problems.insert(Member::DurationInSeconds);
        }
        Some(())
    }

    /// Reads the member that is due, if it stands as Azure writes it and is a plain text: `name` is what is left behind the
    /// opening quote. The same of the name behind it, if it is separated alike.
    #[inline(always)]
    #[allow(clippy::inline_always)] // So that what is left stays in registers.
    fn text_as_written(
        &mut self,
        member: Member,
        name: &'a [u8],
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        due: &mut Option<Member>,
    ) -> Option<&'a [u8]> {
        let inside = value(b'"', member.behind_name(name)?)?.get(1..)?;
        let (length, behind) = plain_string_like(member.usual_text(), inside)?;
        let start = scanner.place_of(inside);
        scanner.step_to(behind);
        *due = member.next();
        self.put(member, Span::near(start.wrapping_sub(self.offset), length));
        let string = Quoted { start, end: start.wrapping_add(length), escaped: false };
        if member == Member::EventId && odd_id(scanner, string).is_some() {
            self.layout.problems.insert(member);
        }
        separator.comma_or_next(behind)
    }

    /// The same for an array of plain names.
    #[inline(always)]
    #[allow(clippy::inline_always)] // It has one caller.
    fn names_as_written(
        &mut self,
        name: &'a [u8],
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
        due: &mut Option<Member>,
    ) -> Option<&'a [u8]> {
        let array = value(b'[', Member::Resources.behind_name(name)?)?;
        let before = *scanner;
        scanner.step_to(array);
        if !names.read(scanner).is_ok_and(|all| all) {
            *scanner = before;
            return None;
        }
        *due = Member::Resources.next();
        self.put(Member::Resources, Span::near(scanner.place_of(array).wrapping_sub(self.offset), 0));
        separator.comma_or_next(scanner.rest())
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
            self.layout.problems.insert(member);
        }
        Ok((seen, member.next()))
    }

    /// An event of which nothing is known yet but that it starts here.
    pub(crate) fn blank(scanner: &Scanner<'a>, index: usize) -> Self {
        Self { object: "", offset: scanner.offset(), layout: EventLayout::new(index) }
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
                if self.put_if_it_fits(member, Span::of(start.wrapping_sub(self.offset), length, false)) {
                    self.layout.not_before = NotBeforeKind::Unreadable;
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
        let odd = !names.read(scanner)? && names.read_rest(scanner)?;
        Ok(if self.put_if_it_fits(Member::Resources, place) {
            odd.then_some(ProblemKind::WrongType)
        } else {
            Some(ProblemKind::TooLong)
        })
    }

    /// Keeps the place of a value; whether it has one.
    #[inline]
    fn put_if_it_fits(&mut self, member: Member, place: Option<Span>) -> bool {
        if let Some(place) = place {
            self.put(member, place);
        }
        place.is_some()
    }

    #[inline]
    fn put(&mut self, member: Member, place: Span) {
        if let Some(value) = self.layout.values.get_mut(member as usize) {
            *value = place;
        }
    }

    /// Keeps a text; what is odd about it, if anything.
    #[inline]
    fn keep(&mut self, member: Member, scanner: &Scanner<'a>, string: Quoted) -> Option<ProblemKind> {
        let length = string.end.wrapping_sub(string.start);
        if !self.put_if_it_fits(member, Span::of(string.start.wrapping_sub(self.offset), length, string.escaped)) {
            return Some(ProblemKind::TooLong);
        }
        match member {
            Member::EventId => odd_id(scanner, string),
            Member::NotBefore => self.take_time(scanner.quoted(string)),
            _ => None,
        }
    }

    /// Reads a time; what is odd about it, if anything.
    #[inline]
    fn take_time(&mut self, text: Text<'a>) -> Option<ProblemKind> {
        self.layout.not_before = match NotBefore::of(text) {
            NotBefore::At(moment) => NotBeforeKind::At(moment),
            NotBefore::Unset => NotBeforeKind::Unset,
            NotBefore::Unreadable(_) => NotBeforeKind::Unreadable,
        };
        matches!(self.layout.not_before, NotBeforeKind::Unreadable).then_some(ProblemKind::UnreadableTime)
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
                    self.layout.duration_in_seconds = seconds;
                    Ok(())
                }
                _ => Err(ProblemKind::OutOfRange),
            },
            Integer::Exactly { .. } | Integer::TooLarge => Err(ProblemKind::OutOfRange),
            Integer::Fraction => Err(ProblemKind::NotAnInteger),
        }
    }
}

/// What is odd about an `EventId`, if anything.
#[inline]
fn odd_id(scanner: &Scanner<'_>, id: Quoted) -> Option<ProblemKind> {
    match id.end.wrapping_sub(id.start) {
        0 => Some(ProblemKind::Empty),
        // Most are short as they stand, and are not cut out for that to be seen.
        1..=EVENT_ID_MAX => None,
        _ => (!EventId::keeps_whole(&scanner.quoted(id))).then_some(ProblemKind::TooLong),
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

    /// Reads the array that starts here, or the beginning of it, up to what is no plain name; whether that was all of it. The
    /// scanner stays behind the last name that was read.
    #[inline(never)]
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<bool, ParseError> {
        scanner.open_array()?;
        if self.checked {
            scanner.leave_checked();
            return Ok(true);
        }
        self.count = 0;
        if !WORDS_ARE_WIDE {
            return Ok(false);
        }
        let compact = scanner.peek() == Some(b'"');
        Ok(compact && self.read_compact(scanner) || self.read_separated(scanner))
    }

    /// Reads plain names that commas alone separate; whether the array ends behind them.
    #[inline(always)]
    #[allow(clippy::inline_always)] // It has one caller.
    fn read_compact(&mut self, scanner: &mut Scanner<'a>) -> bool {
        let first = scanner.rest_of_text().strip_prefix('"');
        self.read_plain(scanner, first, 2, |behind| behind.strip_prefix(",\""))
    }

    /// Reads on where white space stands behind the commas too.
    #[inline(never)] // What it needs would take registers from the other one.
    fn read_separated(&mut self, scanner: &mut Scanner<'a>) -> bool {
        let separator = &scanner.separator();
        let rest = scanner.rest_of_text();
        let first = if self.count == 0 { rest.strip_prefix('"') } else { separator.next(rest) };
        self.read_plain(scanner, first, separator.len(), |behind| separator.next(behind))
    }

    /// Reads plain names; whether the array ends behind them. `next` is what is left behind the first one's opening quote,
    /// `behind_separator` tells it of the others, and `between` how many bytes separate.
    #[inline(always)]
    #[allow(clippy::inline_always)] // So that each caller has a loop for what separates there.
    fn read_plain(
        &mut self,
        scanner: &mut Scanner<'a>,
        mut next: Option<&'a str>,
        between: usize,
        behind_separator: impl Fn(&'a str) -> Option<&'a str>,
    ) -> bool {
        let mut last = scanner.rest_of_text();
        let mut ends = PlainEnds::new(next.unwrap_or_default());
        let mut count = self.count;
        while let Some(inside) = next
            && let Some((name, behind)) = ends.split(inside)
        {
            if let Some(place) = self.room.get_mut(count) {
                *place = Text::plain(name);
            }
            count = count.wrapping_add(1);
            ends.skip(between);
            last = behind;
            next = behind_separator(behind);
        }
        self.count = count;
        scanner.step_to(last.as_bytes());
        scanner.eat_closing(b']')
    }

    /// Reads what is left of the array; whether anything but strings stands there.
    #[inline(never)]
    fn read_rest(&mut self, scanner: &mut Scanner<'a>) -> Result<bool, ParseError> {
        let mut first = self.count == 0;
        let mut others = false;
        while scanner.next_element(&mut first)? {
            match scanner.value()? {
                Value::String(name) => {
                    if let Some(place) = self.room.get_mut(self.count) {
                        *place = name;
                    }
                    self.count = self.count.wrapping_add(1);
                }
                _ => others = true,
            }
        }
        Ok(others)
    }
}
