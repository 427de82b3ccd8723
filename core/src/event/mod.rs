//! One event of the document.
//!
//! This file has the event and its accessors; `layout` holds where its members are, and `read` finds them. `fast_path`
//! finds them faster in events as Azure writes them, and is optional.

#[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
mod fast_path;
mod layout;
mod member;
mod name_buffer;
mod problem;
mod read;
mod resources;
mod words;

use core::fmt;

pub use layout::EventLayout;
use layout::NotBeforeKind;
pub use member::Member;
use member::MemberSet;
pub(crate) use name_buffer::NameBuffer;
pub use problem::{Problem, ProblemKind};
pub use resources::{ResourceNames, Resources};
pub use words::{EventSource, EventStatus, EventType, NotBefore};

use crate::json::{Scanner, Text};

/// The depth of an event: it is inside the document's object and its `Events` array.
pub(crate) const EVENT_DEPTH: u32 = 2;

/// One event: a maintenance, an eviction or a deletion of one or more virtual machines.
///
/// A view of the caller's bytes, from [`Document::events`](crate::Document::events). A member that is absent is `None`. So
/// is an invalid one, which is also a [`Problem`] of the document. `docs/inside/wire.md`, section 3, describes the members.
///
/// Positions in the event are kept in 32 bits: a text of 2 GiB or more, or one that starts 4 GiB after the event's brace,
/// is not read and is a problem of the kind [`TooLong`](ProblemKind::TooLong).
///
/// ```
/// use scheduled_events_core::{Document, EventSource, EventStatus, EventType, UnixSeconds};
///
/// let body = br#"{"Events":[{"EventId":"C7061BAC","EventStatus":"Scheduled","EventType":"Freeze",
///     "ResourceType":"VirtualMachine","Resources":["WestNO_0"],"NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT",
///     "Description":"Virtual machine is being paused","EventSource":"Platform","DurationInSeconds":5}]}"#;
/// let document = Document::parse(body)?;
/// let event = document.events().next().unwrap();
/// assert!(event.event_id() == "C7061BAC");
/// assert_eq!(event.event_status(), Some(EventStatus::Scheduled));
/// assert_eq!(event.event_type(), Some(EventType::Freeze));
/// assert!(event.resource_type().is_some_and(|word| word == "VirtualMachine"));
/// assert!(event.resources().iter().any(|name| name == "WestNO_0"));
/// assert_eq!(event.not_before().moment(), UnixSeconds::parse("2022-04-11T22:26:58Z"));
/// assert!(event.description().is_some_and(|text| text == "Virtual machine is being paused"));
/// assert_eq!(event.event_source(), Some(EventSource::Platform));
/// assert_eq!(event.duration_in_seconds(), Some(5));
/// assert_eq!(event.index(), 0);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// From brace to brace; empty until the closing brace is read.
    object: &'a str,
    /// Of the object in the bytes that were parsed.
    offset: usize,
    layout: EventLayout,
}

impl<'a> Event<'a> {
    /// `EventId`: opaque and constant through the event's life. Compare it without ASCII case, send it back unchanged.
    #[inline]
    pub fn event_id(&self) -> Text<'a> {
        self.text(Member::EventId).unwrap_or(Text::plain(""))
    }

    /// `EventType`: the impact to expect.
    #[inline]
    pub fn event_type(&self) -> Option<EventType<'a>> {
        self.text(Member::EventType).map(EventType::new)
    }

    /// `EventStatus`: scheduled or started. An event that has ended is absent from the document.
    #[inline]
    pub fn event_status(&self) -> Option<EventStatus<'a>> {
        self.text(Member::EventStatus).map(EventStatus::new)
    }

    /// Whether the event is advice and no maintenance: its type is `SpotRebalanceRecommendation`, or its status `Advisory`. What it
    /// advises of may never happen, so that there is nothing to approve: `docs/inside/wire.md`, section 6.
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let body = br#"{"Events":[{"EventId":"a","EventType":"SpotRebalanceRecommendation","EventStatus":"Scheduled"},
    ///     {"EventId":"b","EventType":"Preempt","EventStatus":"Advisory"},{"EventId":"c","EventType":"Preempt"}]}"#;
    /// let document = Document::parse(body)?;
    /// assert!(document.events().map(|event| event.is_advice()).eq([true, true, false]));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    #[inline(never)] // It is called in several places.
    pub fn is_advice(&self) -> bool {
        self.event_type() == Some(EventType::SpotRebalanceRecommendation)
            || self.event_status() == Some(EventStatus::Advisory)
    }

    /// `ResourceType`: `VirtualMachine` so far.
    pub fn resource_type(&self) -> Option<Text<'a>> {
        self.text(Member::ResourceType)
    }

    /// `Resources`: the names of the affected machines; empty if the member is absent.
    pub fn resources(&self) -> Resources<'a> {
        let bracket = self
            .layout
            .span(Member::Resources)
            .map(|span| span.start as usize);
        Resources::new(
            bracket.map(|bracket| Scanner::new(self.object, bracket, EVENT_DEPTH.wrapping_add(1))),
        )
    }

    /// `NotBefore`: the event does not start before this time unless it is approved.
    pub fn not_before(&self) -> NotBefore<'a> {
        match self.layout.not_before {
            NotBeforeKind::At(moment) => NotBefore::At(moment),
            NotBeforeKind::Unset => NotBefore::Unset,
            NotBeforeKind::Unreadable => {
                NotBefore::Unreadable(self.text(Member::NotBefore).unwrap_or(Text::plain("")))
            }
        }
    }

    /// `Description` (since API version 2019-04-01).
    pub fn description(&self) -> Option<Text<'a>> {
        self.text(Member::Description)
    }

    /// `EventSource`: who caused the event (since API version 2019-08-01).
    #[inline]
    pub fn event_source(&self) -> Option<EventSource<'a>> {
        self.text(Member::EventSource).map(EventSource::new)
    }

    /// `DurationInSeconds`: the expected length of the interruption (since API version 2020-07-01), at most 4,294,967,294.
    /// `None` if it is absent or unknown, which Azure writes as -1.
    pub const fn duration_in_seconds(&self) -> Option<u32> {
        match self.layout.duration_in_seconds {
            u32::MAX => None,
            seconds => Some(seconds),
        }
    }

    /// The text of a member as the document has it; `None` for a member that is absent or not a string. A `NotBefore` that
    /// is not a string is its JSON value, as in [`NotBefore::Unreadable`].
    ///
    /// ```
    /// use scheduled_events_core::{Document, Member};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","NotBefore":"soon"}]}"#)?;
    /// let event = document.events().next().unwrap();
    /// assert!(event.text(Member::NotBefore).is_some_and(|text| text == "soon"));
    /// assert_eq!(event.text(Member::Description), None);
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    #[inline]
    pub fn text(&self, member: Member) -> Option<Text<'a>> {
        if matches!(member, Member::Resources) {
            return None;
        }
        Some(self.layout.span(member)?.text_in(self.object, 0))
    }

    /// The event's index in the document's `Events` array, elements that are left out counted.
    pub const fn index(&self) -> usize {
        self.layout.index
    }

    /// The JSON object that the event was read from, from brace to brace.
    ///
    /// ```
    /// use scheduled_events_core::Document;
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
    ///
    /// ```
    /// use scheduled_events_core::Document;
    ///
    /// let body = br#"{"Events":[{"EventId":"a","DurationInSeconds":5}]}"#.to_vec();
    /// let document = Document::parse(&body)?;
    /// let event = document.events().next().unwrap();
    /// // A host that keeps the bytes of an event need not read them again.
    /// let (layout, object) = (event.layout(), event.object().to_owned());
    /// drop(body);
    /// assert_eq!(layout.event(&object).duration_in_seconds(), Some(5));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn layout(&self) -> EventLayout {
        self.layout
    }

    /// The first member with a problem among those that decisions depend on: `EventId`, `EventType`, `EventStatus`,
    /// `EventSource`, `DurationInSeconds` and `Resources`. An event that has one is never approved by a policy.
    ///
    /// ```
    /// use scheduled_events_core::{Document, Member};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventType":7,"NotBefore":"soon"}]}"#)?;
    /// let event = document.events().next().unwrap();
    /// assert_eq!(event.unreliable_member(), Some(Member::EventType)); // no decision depends on NotBefore
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
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

    /// Whether the value of this member has a problem.
    pub(crate) fn has_problem(&self, member: Member) -> bool {
        self.has_problems() && self.layout.problems.contains(member)
    }

    /// Whether the event has any problem.
    pub(crate) const fn has_problems(&self) -> bool {
        !self.layout.problems.is_empty()
    }

    /// Records that another event of the document has the same id.
    pub(crate) fn mark_repeated(&mut self) {
        self.layout.problems.insert(Member::EventId);
    }

    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    /// The offset of the value of `EventId`, or of the event's brace if it has none.
    pub(crate) fn id_offset(&self) -> usize {
        match self.layout.span(Member::EventId) {
            Some(span) => self
                .offset
                .saturating_add(span.start as usize)
                .saturating_sub(1),
            None => self.offset,
        }
    }

    /// Whether the event has an id. One without is left out.
    pub(crate) fn has_id(&self) -> bool {
        self.layout.span(Member::EventId).is_some()
    }

    /// Whether the event has no id, and no problem in `EventId` that explains it.
    pub(crate) fn lacks_id(&self) -> bool {
        !self.has_id() && !self.layout.problems.contains(Member::EventId)
    }
}

impl EventLayout {
    /// Returns the event of this layout over the bytes of its object: the text that [`Event::object`] returned.
    ///
    /// Other bytes do not panic: a text that does not fit into them is empty.
    pub const fn event<'b>(&self, object: &'b str) -> Event<'b> {
        Event {
            object,
            offset: 0,
            layout: *self,
        }
    }
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
    fn an_event_has_at_most_128_bytes() {
        assert!(size_of::<Event<'_>>() <= 128, "{}", size_of::<Event<'_>>());
    }

    #[test]
    fn debug_shows_the_members_and_escapes_control_characters() {
        let event = Event::parse(
            "{\"EventId\":\"a\u{9b}\",\"EventType\":\"Freeze\",\"Resources\":[\"vm\"]}".as_bytes(),
        );
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
    fn only_a_text_without_escapes_is_a_str() {
        let event = Event::parse(br#"{"EventId":"a","Description":"b\u0063"}"#).unwrap();
        assert_eq!(event.event_id().as_str(), Some("a"));
        assert_eq!(event.description().unwrap().as_str(), None);
    }
}
