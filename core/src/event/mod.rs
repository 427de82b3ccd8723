//! One event of the document.

mod member;
mod read;
mod resources;
mod words;

use core::fmt;

pub use member::Member;
use member::MemberSet;
pub(crate) use read::Names;
pub use resources::{ResourceNames, Resources};
pub use words::{EventSource, EventStatus, EventType, NotBefore};

use crate::json::{Scanner, Text};
use crate::time::UnixSeconds;

/// How deep an event stands: inside the document's object and its `Events` array.
pub(crate) const EVENT_DEPTH: u32 = 2;

/// One event: a maintenance, an eviction or a deletion of one or more virtual machines.
///
/// A view of the caller's bytes, from [`Document::events`](crate::Document::events). What the document does not say is
/// `None`; what it says in a way that cannot be understood is `None` too, and a [`Problem`](crate::Problem) of the
/// document. Microsoft's page on Scheduled Events, "Event properties", describes the members.
///
/// It keeps places in those bytes, in 32 bits: a text that has two gibibytes, or starts four behind its event's brace, is
/// not read, and is a problem of the kind [`TooLong`](crate::ProblemKind::TooLong).
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// From brace to brace; empty until the closing brace was read.
    object: &'a str,
    /// Where the object is in the bytes that were parsed.
    offset: usize,
    layout: EventLayout,
}

/// Where the members of an event are, counted from its opening brace.
///
/// It borrows nothing, for a caller that keeps an event's bytes elsewhere, such as in an object of another language.
///
/// ```
/// use scheduled_events_core::{Document, EventType};
///
/// let (object, layout) = {
///     let body = br#"{"Events":[{"EventId":"a","EventType":"Reboot"}]}"#.to_vec();
///     let document = Document::parse(&body)?;
///     let event = document.events().next().unwrap();
///     (event.object().to_owned(), event.layout())
/// };
/// let event = layout.event(&object);
/// assert_eq!(event.event_type(), Some(EventType::Reboot));
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names)] // The names are the wire's own.
pub struct EventLayout {
    index: usize,
    /// Where the values of members are, each in its own place: texts, and the bracket of `Resources`.
    values: [Span; VALUES],
    not_before: NotBeforeKind,
    /// `u32::MAX` where it is unknown.
    duration_in_seconds: u32,
    problems: MemberSet,
}

impl EventLayout {
    const fn new(index: usize) -> Self {
        Self {
            index,
            values: [Span::NONE; VALUES],
            not_before: NotBeforeKind::Unset,
            duration_in_seconds: u32::MAX,
            problems: MemberSet::EMPTY,
        }
    }

    /// Returns the event over the bytes of its object, which [`Event::object`] returned with this layout.
    ///
    /// Other bytes do not panic: texts that do not fit into them are empty.
    pub const fn event<'b>(&self, object: &'b str) -> Event<'b> {
        Event { object, offset: 0, layout: *self }
    }

    #[inline]
    fn span(&self, member: Member) -> Option<Span> {
        self.values.get(member as usize).copied().filter(|span| span.start != 0)
    }
}

/// All members but `DurationInSeconds`.
const VALUES: usize = Member::DurationInSeconds as usize;

/// A text of the event: where it starts behind its quote, counted from the event's brace, and its length. The length's
/// highest bit tells of escapes.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// 0, where the brace itself is, for a text that is not there.
    start: u32,
    length: u32,
}

const ESCAPED: u32 = 1 << 31;

/// A [`NotBefore`] without its text.
#[derive(Clone, Copy, Debug)]
enum NotBeforeKind {
    At(UnixSeconds),
    Unset,
    Unreadable,
}

impl Span {
    const NONE: Self = Self { start: 0, length: 0 };

    /// `None` where the place does not fit.
    #[inline]
    fn of(start: usize, length: usize, escaped: bool) -> Option<Self> {
        let start = u32::try_from(start).ok().filter(|start| *start != 0)?;
        let length = u32::try_from(length).ok().filter(|length| length & ESCAPED == 0)?;
        Some(Self { start, length: if escaped { length | ESCAPED } else { length } })
    }

    /// How long a text may be in which every place fits.
    const NEAR: usize = (ESCAPED - 1) as usize;

    /// A place in a text of at most [`NEAR`](Self::NEAR) bytes, without escapes.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // It fits.
    const fn near(start: usize, length: usize) -> Self {
        Self { start: start as u32, length: length as u32 }
    }

    /// The length in bytes.
    const fn length(self) -> usize {
        (self.length & !ESCAPED) as usize
    }

    const fn is_escaped(self) -> bool {
        self.length & ESCAPED != 0
    }
}

impl<'a> Event<'a> {
    /// `EventId`: opaque, the same through the event's life; compare it without ASCII case, echo it unchanged.
    #[inline]
    pub fn event_id(&self) -> Text<'a> {
        self.text(Member::EventId).unwrap_or(Text::plain(""))
    }

    /// `EventType`: the impact to expect.
    #[inline]
    pub fn event_type(&self) -> Option<EventType<'a>> {
        self.text(Member::EventType).map(EventType::of)
    }

    /// `EventStatus`: announced or under way. An event that is over is absent from the document.
    #[inline]
    pub fn event_status(&self) -> Option<EventStatus<'a>> {
        self.text(Member::EventStatus).map(EventStatus::of)
    }

    /// `ResourceType`, `VirtualMachine` so far.
    pub fn resource_type(&self) -> Option<Text<'a>> {
        self.text(Member::ResourceType)
    }

    /// `Resources`: the names of the machines concerned; empty where the member is absent.
    pub fn resources(&self) -> Resources<'a> {
        let bracket = self.layout.span(Member::Resources).map(|span| span.start as usize);
        Resources::new(bracket.map(|bracket| Scanner::new(self.object, bracket, EVENT_DEPTH.wrapping_add(1))))
    }

    /// `NotBefore`: the event does not start before this moment, unless it is approved.
    pub fn not_before(&self) -> NotBefore<'a> {
        match self.layout.not_before {
            NotBeforeKind::At(moment) => NotBefore::At(moment),
            NotBeforeKind::Unset => NotBefore::Unset,
            NotBeforeKind::Unreadable => NotBefore::Unreadable(self.text(Member::NotBefore).unwrap_or(Text::plain(""))),
        }
    }

    /// `Description` (since API version 2019-04-01).
    pub fn description(&self) -> Option<Text<'a>> {
        self.text(Member::Description)
    }

    /// `EventSource`: who caused the event (since API version 2019-08-01).
    #[inline]
    pub fn event_source(&self) -> Option<EventSource<'a>> {
        self.text(Member::EventSource).map(EventSource::of)
    }

    /// `DurationInSeconds`: how long the interruption is expected to last (since API version 2020-07-01); `None` where
    /// it is absent or unknown, which Azure writes as -1. At most 4,294,967,294.
    pub const fn duration_in_seconds(&self) -> Option<u32> {
        match self.layout.duration_in_seconds {
            u32::MAX => None,
            seconds => Some(seconds),
        }
    }

    /// Where the event stands in the document's `Events` array, elements that were left out counted.
    pub const fn index(&self) -> usize {
        self.layout.index
    }

    /// The JSON object that the event was read from, from brace to brace.
    ///
    /// ```
    /// use scheduled_events_core::{Document, Members};
    ///
    /// let document = Document::parse(br#"{"Events":[ {"EventId":"a","New":[1]} ]}"#)?;
    /// let event = document.events().next().unwrap();
    /// assert_eq!(event.object(), r#"{"EventId":"a","New":[1]}"#);
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn object(&self) -> &'a str {
        self.object
    }

    /// Where the event's members are in its [`object`](Self::object).
    pub const fn layout(&self) -> EventLayout {
        self.layout
    }

    /// The first member with a problem among those that decisions rest on: `EventId`, `EventType`, `EventStatus`,
    /// `EventSource`, `DurationInSeconds` and `Resources`. An event that has one is held, whatever the policy says.
    pub fn unreliable_member(&self) -> Option<Member> {
        if !self.has_problems() {
            return None;
        }
        [
            Member::EventId,
            Member::EventType,
            Member::EventStatus,
            Member::EventSource,
            Member::DurationInSeconds,
            Member::Resources,
        ]
        .into_iter()
        .find(|member| self.layout.problems.contains(*member))
    }

    /// Whether the event has any problem at all.
    pub(crate) const fn has_problems(&self) -> bool {
        !self.layout.problems.is_empty()
    }

    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    /// Where the value of `EventId` stands; the event's brace where there is none.
    pub(crate) fn id_offset(&self) -> usize {
        match self.layout.span(Member::EventId) {
            Some(span) => self.offset.saturating_add(span.start as usize).saturating_sub(1),
            None => self.offset,
        }
    }

    /// Whether the event names itself; without that it is left out.
    pub(crate) fn has_id(&self) -> bool {
        self.layout.span(Member::EventId).is_some()
    }

    pub(crate) fn lacks_id_for_no_other_reason(&self) -> bool {
        !self.has_id() && !self.layout.problems.contains(Member::EventId)
    }

    /// The text of a member as the document has it; `None` for a member that is absent or not a string. A `NotBefore` that
    /// is not a string is its JSON value, as in [`NotBefore::Unreadable`].
    #[inline]
    pub fn text(&self, member: Member) -> Option<Text<'a>> {
        if matches!(member, Member::Resources) {
            return None;
        }
        Some(text_at(self.object, 0, self.layout.span(member)?))
    }
}

/// The text at `span`, counted from byte `offset` of `text`.
#[inline]
fn text_at(text: &str, offset: usize, span: Span) -> Text<'_> {
    let start = offset.wrapping_add(span.start as usize);
    let raw = text.get(start..).and_then(|rest| rest.get(..span.length())).unwrap_or_default();
    Text::from_raw(raw, span.is_escaped())
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("index", &self.index())
            .field("event_id", &self.event_id())
            .field("event_type", &self.event_type())
            .field("event_status", &self.event_status())
            .field("resource_type", &self.resource_type())
            .field("resources", &self.resources())
            .field("not_before", &self.not_before())
            .field("description", &self.description())
            .field("event_source", &self.event_source())
            .field("duration_in_seconds", &self.duration_in_seconds())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event<'_>>() <= 128, "{}", size_of::<Event<'_>>());
    }

    #[test]
    fn an_event_is_shown_with_its_members_and_nothing_that_a_terminal_obeys() {
        let event =
            Event::parse("{\"EventId\":\"a\u{9b}\",\"EventType\":\"Freeze\",\"Resources\":[\"vm\"]}".as_bytes());
        let shown = format!("{:?}", event.unwrap());
        for part in [
            "index: 0",
            r#"event_id: "a\u{9b}""#,
            "event_type: Some(Freeze)",
            "resources: [\"vm\"]",
            "not_before: Unset",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    #[test]
    fn a_text_without_escapes_is_told_as_such() {
        let event = Event::parse(br#"{"EventId":"a","Description":"b\u0063"}"#).unwrap();
        assert_eq!(event.event_id().as_str(), Some("a"));
        assert_eq!(event.description().unwrap().as_str(), None);
    }

    #[test]
    fn what_lies_too_far_behind_the_brace_has_no_place() {
        let span = |start, length| Span::of(start, length, true).map(|span| (span.start, span.length));
        assert_eq!(span(1, 0), Some((1, ESCAPED)));
        assert_eq!(span(u32::MAX as usize, (ESCAPED - 1) as usize), Some((u32::MAX, u32::MAX)));
        assert_eq!(span(0, 0), None);
        assert_eq!(span(1, ESCAPED as usize), None);
        #[cfg(target_pointer_width = "64")]
        assert_eq!(span(1 << 32, 0), None);
    }
}
