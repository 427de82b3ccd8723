//! One event of the document, and the words it uses.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::error::{ParseError, ParseErrorKind, ProblemKind};
use crate::event_id::EVENT_ID_MAX;
use crate::json::{Integer, Scanner, Text, Value, integer};
use crate::time::UnixSeconds;

/// How deep an event stands: inside the document's object and its `Events` array.
pub(crate) const EVENT_DEPTH: u32 = 2;

/// One event: a maintenance, an eviction or a deletion of one or more virtual machines.
///
/// A view of the caller's bytes, from [`Document::events`](crate::Document::events). What the document does not say is
/// `None`; what it says in a way that cannot be understood is `None` too, and a [`Problem`](crate::Problem) of the
/// document. Microsoft's page on Scheduled Events, "Event properties", describes the members.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names)] // The names are the wire's own.
pub struct Event<'a> {
    index: usize,
    offset: usize,
    id_offset: usize,
    event_id: Text<'a>,
    event_type: Option<EventType<'a>>,
    event_status: Option<EventStatus<'a>>,
    resource_type: Option<Text<'a>>,
    resources: Resources<'a>,
    not_before: NotBefore<'a>,
    description: Option<Text<'a>>,
    event_source: Option<EventSource<'a>>,
    duration_in_seconds: Option<u32>,
    problems: MemberSet,
}

impl<'a> Event<'a> {
    /// `EventId`: opaque, the same through the event's life; compare it without ASCII case, echo it unchanged.
    pub const fn event_id(&self) -> Text<'a> {
        self.event_id
    }

    /// `EventType`: the impact to expect.
    pub const fn event_type(&self) -> Option<EventType<'a>> {
        self.event_type
    }

    /// `EventStatus`: announced or under way. An event that is over is absent from the document.
    pub const fn event_status(&self) -> Option<EventStatus<'a>> {
        self.event_status
    }

    /// `ResourceType`, `VirtualMachine` so far.
    pub const fn resource_type(&self) -> Option<Text<'a>> {
        self.resource_type
    }

    /// `Resources`: the names of the machines concerned; empty where the member is absent.
    pub const fn resources(&self) -> Resources<'a> {
        self.resources
    }

    /// `NotBefore`: the event does not start before this moment, unless it is approved.
    pub const fn not_before(&self) -> NotBefore<'a> {
        self.not_before
    }

    /// `Description` (since API version 2019-04-01).
    pub const fn description(&self) -> Option<Text<'a>> {
        self.description
    }

    /// `EventSource`: who caused the event (since API version 2019-08-01).
    pub const fn event_source(&self) -> Option<EventSource<'a>> {
        self.event_source
    }

    /// `DurationInSeconds`: how long the interruption is expected to last (since API version 2020-07-01); `None` where
    /// it is absent or unknown, which Azure writes as -1. At most 4,294,967,294.
    pub const fn duration_in_seconds(&self) -> Option<u32> {
        self.duration_in_seconds
    }

    /// Where the event stands in the document's `Events` array, elements that were left out counted.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The first member with a problem among those that decisions rest on: `EventId`, `EventType`, `EventStatus`,
    /// `EventSource`, `DurationInSeconds` and `Resources`. An event that has one is held, whatever the policy says.
    pub fn unreliable_member(&self) -> Option<Member> {
        [
            Member::EventId,
            Member::EventType,
            Member::EventStatus,
            Member::EventSource,
            Member::DurationInSeconds,
            Member::Resources,
        ]
        .into_iter()
        .find(|member| self.problems.contains(*member))
    }

    /// Whether the event has any problem at all.
    pub(crate) const fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    /// Where the value of `EventId` stands.
    pub(crate) const fn id_offset(&self) -> usize {
        self.id_offset
    }

    /// Whether the event names itself; without that it is left out.
    pub(crate) const fn has_id(&self) -> bool {
        self.id_offset != 0
    }

    pub(crate) const fn lacks_id_for_no_other_reason(&self) -> bool {
        !self.has_id() && !self.problems.contains(Member::EventId)
    }

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
        let event = Self::read(&mut scanner, 0)?;
        scanner.skip_space();
        match scanner.peek() {
            None => Ok(event),
            Some(_) => Err(ParseError::new(ParseErrorKind::TrailingData, scanner.offset())),
        }
    }

    /// Reads the object that starts here.
    pub(crate) fn read(scanner: &mut Scanner<'a>, index: usize) -> Result<Self, ParseError> {
        let mut event = Self::blank(index, scanner.offset());
        event.fill(scanner)?;
        Ok(event)
    }

    /// Reads the object that starts here into an event that is blank; in place, since events are not small.
    pub(crate) fn fill(&mut self, scanner: &mut Scanner<'a>) -> Result<(), ParseError> {
        let mut seen = MemberSet::default();
        let mut first = true;
        scanner.open_object()?;
        while let Some((name_offset, name)) = scanner.next_member(&mut first)? {
            match Member::of_event(&name) {
                Some(member) => {
                    if seen.contains(member) {
                        return Err(ParseError::new(ParseErrorKind::RepeatedMember, name_offset));
                    }
                    seen.insert(member);
                    if self.take(member, scanner)?.is_some() {
                        self.problems.insert(member);
                    }
                }
                None => drop(scanner.value()?),
            }
        }
        Ok(())
    }

    /// The `EventId` of the object that starts here, and where it stands; the object was read before.
    pub(crate) fn id_of(scanner: &mut Scanner<'a>) -> Option<(usize, Text<'a>)> {
        let mut id = None;
        let mut first = true;
        scanner.open_object().ok()?;
        while let Some((_, name)) = scanner.next_member(&mut first).ok()? {
            let offset = scanner.offset();
            if let Value::String(text) = scanner.value().ok()?
                && name == *Member::EventId.name()
            {
                id = Some((offset, text));
            }
        }
        id
    }

    pub(crate) fn blank(index: usize, offset: usize) -> Self {
        Self {
            index,
            offset,
            id_offset: 0,
            event_id: Text::plain(""),
            event_type: None,
            event_status: None,
            resource_type: None,
            resources: Resources::ABSENT,
            not_before: NotBefore::Unset,
            description: None,
            event_source: None,
            duration_in_seconds: None,
            problems: MemberSet::default(),
        }
    }

    /// Reads the value of one member; what is odd about it, if anything. `null` is as good as absent.
    pub(crate) fn take(
        &mut self,
        member: Member,
        scanner: &mut Scanner<'a>,
    ) -> Result<Option<ProblemKind>, ParseError> {
        let start = scanner.offset();
        if member == Member::Resources && scanner.peek() == Some(b'[') {
            self.resources = Resources { array: Some(*scanner) };
            return Ok(only_strings(scanner)?.then_some(ProblemKind::WrongType));
        }
        let value = scanner.value()?;
        let text = match (member, value) {
            (_, Value::Null) => return Ok(None),
            (Member::DurationInSeconds, _) => return Ok(self.take_duration(value).err()),
            (Member::NotBefore, Value::String(text)) => {
                self.not_before = NotBefore::of(text);
                let unreadable = matches!(self.not_before, NotBefore::Unreadable(_));
                return Ok(unreadable.then_some(ProblemKind::UnreadableTime));
            }
            (Member::NotBefore, _) => {
                self.not_before = NotBefore::Unreadable(Text::plain(scanner.since(start)));
                return Ok(Some(ProblemKind::WrongType));
            }
            (_, Value::String(text)) if member != Member::Resources => text,
            _ => return Ok(Some(ProblemKind::WrongType)),
        };
        match member {
            Member::EventId => {
                self.event_id = text;
                self.id_offset = start;
                if text.is_empty() {
                    return Ok(Some(ProblemKind::Empty));
                }
                if text.raw().len() > EVENT_ID_MAX && text.decoded_len() > EVENT_ID_MAX {
                    return Ok(Some(ProblemKind::TooLong));
                }
            }
            Member::EventType => self.event_type = Some(EventType::of(text)),
            Member::EventStatus => self.event_status = Some(EventStatus::of(text)),
            Member::EventSource => self.event_source = Some(EventSource::of(text)),
            Member::ResourceType => self.resource_type = Some(text),
            Member::Description => self.description = Some(text),
            _ => {}
        }
        Ok(None)
    }

    /// A whole number, a float without a fraction, or a text of either; -1 means unknown.
    fn take_duration(&mut self, value: Value<'_>) -> Result<(), ProblemKind> {
        let mut buffer = [0; 32];
        let number = match value {
            Value::Number(number) => number,
            Value::String(text) => {
                let text = text.copy_to(&mut buffer).map_err(|_| ProblemKind::NotAnInteger)?;
                let mut scanner = Scanner::new(text, 0, 0);
                match scanner.number() {
                    Ok(number) if scanner.peek().is_none() => number,
                    _ => return Err(ProblemKind::NotAnInteger),
                }
            }
            _ => return Err(ProblemKind::WrongType),
        };
        match integer(number) {
            Integer::Exactly { negative: true, magnitude: 1 } => Ok(()),
            Integer::Exactly { negative: false, magnitude } => match u32::try_from(magnitude) {
                Ok(seconds) if seconds != u32::MAX => {
                    self.duration_in_seconds = Some(seconds);
                    Ok(())
                }
                _ => Err(ProblemKind::OutOfRange),
            },
            Integer::Exactly { .. } | Integer::TooLarge => Err(ProblemKind::OutOfRange),
            Integer::Fraction => Err(ProblemKind::NotAnInteger),
        }
    }
}

/// Reads the array that starts here; whether anything but strings stands in it.
fn only_strings(scanner: &mut Scanner<'_>) -> Result<bool, ParseError> {
    let mut others = false;
    let mut first = true;
    scanner.open_array()?;
    while scanner.next_element(&mut first)? {
        others |= !matches!(scanner.value()?, Value::String(_));
    }
    Ok(others)
}

/// The members that the document and its events define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(missing_docs)] // The names are the wire's own.
#[non_exhaustive]
pub enum Member {
    EventId,
    EventStatus,
    EventType,
    ResourceType,
    Resources,
    NotBefore,
    Description,
    EventSource,
    DurationInSeconds,
    DocumentIncarnation,
    Events,
}

impl Member {
    /// The member's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventId => "EventId",
            Self::EventStatus => "EventStatus",
            Self::EventType => "EventType",
            Self::ResourceType => "ResourceType",
            Self::Resources => "Resources",
            Self::NotBefore => "NotBefore",
            Self::Description => "Description",
            Self::EventSource => "EventSource",
            Self::DurationInSeconds => "DurationInSeconds",
            Self::DocumentIncarnation => "DocumentIncarnation",
            Self::Events => "Events",
        }
    }

    /// The event's member of this name, escapes decoded, case kept.
    pub(crate) fn of_event(name: &Text<'_>) -> Option<Self> {
        Self::named(name).filter(|member| !matches!(member, Self::DocumentIncarnation | Self::Events))
    }

    /// The document's own member of this name.
    pub(crate) fn of_document(name: &Text<'_>) -> Option<Self> {
        Self::named(name).filter(|member| matches!(member, Self::DocumentIncarnation | Self::Events))
    }

    fn named(name: &Text<'_>) -> Option<Self> {
        // The longest name has 19 bytes; whatever is longer once it is decoded is unknown.
        let mut buffer = [0; 24];
        let name = match name.as_str() {
            Some(name) => name,
            None => name.copy_to(&mut buffer).ok()?,
        };
        Some(match name {
            "EventId" => Self::EventId,
            "EventStatus" => Self::EventStatus,
            "EventType" => Self::EventType,
            "ResourceType" => Self::ResourceType,
            "Resources" => Self::Resources,
            "NotBefore" => Self::NotBefore,
            "Description" => Self::Description,
            "EventSource" => Self::EventSource,
            "DurationInSeconds" => Self::DurationInSeconds,
            "DocumentIncarnation" => Self::DocumentIncarnation,
            "Events" => Self::Events,
            _ => return None,
        })
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemberSet(u16);

impl MemberSet {
    pub(crate) const fn contains(self, member: Member) -> bool {
        self.0 & member.bit() != 0
    }

    pub(crate) const fn insert(&mut self, member: Member) {
        self.0 |= member.bit();
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// An open enumeration of the wire: the known words, and whatever else comes along.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $word:ident),+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $($(#[$doc])* $word,)+
            /// A word that this crate does not know.
            Other(Text<'a>),
        }

        impl<'a> $name<'a> {
            fn of(text: Text<'a>) -> Self {
                $(if text == *stringify!($word) { return Self::$word; })+
                Self::Other(text)
            }

            /// The word as the wire spells it.
            pub const fn text(&self) -> Text<'a> {
                match self {
                    $(Self::$word => Text::plain(stringify!($word)),)+
                    Self::Other(text) => *text,
                }
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.text().fmt(f)
            }
        }

        impl Serialize for $name<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.text().serialize(serializer)
            }
        }
    };
}

words! {
    /// The impact that an event will have.
    EventType {
        /// The machine pauses for a few seconds; memory, open files and connections survive.
        Freeze,
        /// The machine restarts; memory is lost.
        Reboot,
        /// The machine moves to another host; memory and temporary disks are lost.
        Redeploy,
        /// The spot machine is evicted; temporary disks are lost. Notice: 30 seconds at least.
        Preempt,
        /// The machine is to be deleted.
        Terminate
    }
}

words! {
    /// How far an event has come.
    EventStatus {
        /// Announced; it can be approved.
        Scheduled,
        /// Under way.
        Started
    }
}

impl EventStatus<'_> {
    /// Whether the word says that the event is over, which the metadata service never says, but Event Grid and test
    /// servers do.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Other(text) if *text == *"Completed") || self.is_cancelled()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Other(text) if *text == *"Canceled" || *text == *"Cancelled")
    }
}

words! {
    /// Who caused an event.
    EventSource {
        /// Azure itself.
        Platform,
        /// A person or program with rights on the machine.
        User
    }
}

/// When an event can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBefore<'a> {
    /// Not before this moment.
    At(UnixSeconds),
    /// Blank, null or absent: so it is once the event has started.
    Unset,
    /// There is a value, but no time can be read from it: treat it as unknown. It is kept as it stands.
    Unreadable(Text<'a>),
}

impl<'a> NotBefore<'a> {
    fn of(text: Text<'a>) -> Self {
        if text.chars().all(|char| char == ' ' || char == '\t') {
            return Self::Unset;
        }
        // The longest time that is read has 40 characters or so, however many digits its fraction has.
        let mut buffer = [0; 64];
        match text.copy_to(&mut buffer).ok().and_then(UnixSeconds::parse) {
            Some(moment) => Self::At(moment),
            None => Self::Unreadable(text),
        }
    }

    /// The moment, where one is known.
    pub const fn moment(&self) -> Option<UnixSeconds> {
        match self {
            Self::At(moment) => Some(*moment),
            Self::Unset | Self::Unreadable(_) => None,
        }
    }
}

/// The names of the machines that an event concerns: read from the document as they are asked for.
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
#[derive(Clone, Copy, Debug)]
pub struct Resources<'a> {
    /// At the array's bracket.
    array: Option<Scanner<'a>>,
}

impl<'a> Resources<'a> {
    const ABSENT: Self = Self { array: None };

    /// Whether the event has the member at all, as an array.
    pub const fn is_present(&self) -> bool {
        self.array.is_some()
    }

    /// Where the array starts in the bytes that the event was read from.
    pub const fn offset(&self) -> Option<usize> {
        match &self.array {
            Some(scanner) => Some(scanner.offset()),
            None => None,
        }
    }

    /// The names of the array that `text` begins with, as [`offset`](Self::offset) has told; none where no array is.
    pub const fn of(text: &'a str) -> Self {
        Self { array: Some(Scanner::new(text, 0, EVENT_DEPTH)) }
    }

    /// The names, in the document's order; elements that are no strings are skipped.
    pub fn iter(&self) -> ResourceNames<'a> {
        let mut inside = self.array;
        if let Some(scanner) = &mut inside
            && scanner.open_array().is_err()
        {
            inside = None;
        }
        ResourceNames { inside, first: true }
    }
}

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

/// Iterator over [`Resources`].
#[derive(Clone, Debug)]
pub struct ResourceNames<'a> {
    inside: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Iterator for ResourceNames<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        let scanner = self.inside.as_mut()?;
        // The array was checked when the document was parsed, so reading it again does not fail.
        while let Ok(true) = scanner.next_element(&mut self.first) {
            match scanner.value() {
                Ok(Value::String(name)) => return Some(name),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.inside = None;
        None
    }
}
