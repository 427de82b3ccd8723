//! One event of the document, and the words it uses.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::error::{ParseError, ParseErrorKind, ProblemKind};
use crate::event_id::EventId;
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
        let mut event = Self::blank(0, scanner.offset());
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
    #[inline]
    pub(crate) fn take(
        &mut self,
        member: Member,
        scanner: &mut Scanner<'a>,
        names: &mut Names<'_, 'a>,
    ) -> Result<Option<ProblemKind>, ParseError> {
        let start = scanner.offset();
        if member == Member::Resources && scanner.peek() == Some(b'[') {
            self.resources = Resources { array: Some(*scanner) };
            return Ok(names.read(scanner)?.then_some(ProblemKind::WrongType));
        }
        if scanner.peek() == Some(b'"') {
            let text = scanner.string_here()?;
            return Ok(self.take_text(member, text, start));
        }
        let value = scanner.value()?;
        Ok(match (member, value) {
            (_, Value::Null) => None,
            (Member::DurationInSeconds, Value::Number(number)) => self.take_duration(number).err(),
            (Member::NotBefore, _) => {
                self.not_before = NotBefore::Unreadable(Text::plain(scanner.since(start)));
                Some(ProblemKind::WrongType)
            }
            _ => Some(ProblemKind::WrongType),
        })
    }

    /// Takes a member that is a text, whose value stands at `offset`; what is odd about it, if anything.
    #[inline]
    fn take_text(&mut self, member: Member, text: Text<'a>, offset: usize) -> Option<ProblemKind> {
        match member {
            Member::EventId => {
                self.event_id = text;
                self.id_offset = offset;
                if text.is_empty() {
                    return Some(ProblemKind::Empty);
                }
                if !EventId::keeps_whole(&text) {
                    return Some(ProblemKind::TooLong);
                }
            }
            Member::EventType => self.event_type = Some(EventType::of(text)),
            Member::EventStatus => self.event_status = Some(EventStatus::of(text)),
            Member::EventSource => self.event_source = Some(EventSource::of(text)),
            Member::ResourceType => self.resource_type = Some(text),
            Member::Description => self.description = Some(text),
            Member::NotBefore => {
                self.not_before = NotBefore::of(text);
                if let NotBefore::Unreadable(_) = self.not_before {
                    return Some(ProblemKind::UnreadableTime);
                }
            }
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

    /// Steps over the member's name, its colon and the space behind, if they stand here as Azure writes them.
    #[inline]
    pub(crate) fn eat_name(self, scanner: &mut Scanner<'_>) -> bool {
        match self {
            Self::EventId => scanner.eat_exactly(b"\"EventId\":"),
            Self::EventStatus => scanner.eat_exactly(b"\"EventStatus\":"),
            Self::EventType => scanner.eat_exactly(b"\"EventType\":"),
            Self::ResourceType => scanner.eat_exactly(b"\"ResourceType\":"),
            Self::Resources => scanner.eat_exactly(b"\"Resources\":"),
            Self::NotBefore => scanner.eat_exactly(b"\"NotBefore\":"),
            Self::Description => scanner.eat_exactly(b"\"Description\":"),
            Self::EventSource => scanner.eat_exactly(b"\"EventSource\":"),
            Self::DurationInSeconds => scanner.eat_exactly(b"\"DurationInSeconds\":"),
            Self::DocumentIncarnation => scanner.eat_exactly(b"\"DocumentIncarnation\":"),
            Self::Events => scanner.eat_exactly(b"\"Events\":"),
        }
    }

    /// The member behind this one in the documents that Azure writes.
    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::EventId => Some(Self::EventStatus),
            Self::EventStatus => Some(Self::EventType),
            Self::EventType => Some(Self::ResourceType),
            Self::ResourceType => Some(Self::Resources),
            Self::Resources => Some(Self::NotBefore),
            Self::NotBefore => Some(Self::Description),
            Self::Description => Some(Self::EventSource),
            Self::EventSource => Some(Self::DurationInSeconds),
            Self::DocumentIncarnation => Some(Self::Events),
            Self::DurationInSeconds | Self::Events => None,
        }
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
                let mut buffer = [0; 16];
                match text.as_str().or_else(|| text.copy_to(&mut buffer).ok().map(|word| &*word)) {
                    $(Some(stringify!($word)) => Self::$word,)+
                    _ => Self::Other(text),
                }
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
        let moment = match text.as_str() {
            Some(text) => UnixSeconds::parse(text),
            None => Self::parse_escaped(&text),
        };
        match moment {
            Some(moment) => Self::At(moment),
            None if text.chars().all(|char| char == ' ' || char == '\t') => Self::Unset,
            None => Self::Unreadable(text),
        }
    }

    #[cold]
    fn parse_escaped(text: &Text<'_>) -> Option<UnixSeconds> {
        // The longest time that is read has 40 characters or so, however many digits its fraction has.
        text.copy_to(&mut [0; 64]).ok().and_then(UnixSeconds::parse)
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
    #[inline]
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

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        let scanner = self.inside.as_mut()?;
        // The array was checked when the document was parsed, so reading it again does not fail.
        while let Ok(true) = scanner.next_element(&mut self.first) {
            if scanner.peek() == Some(b'"') {
                return scanner.string_here().ok();
            }
            if scanner.value().is_err() {
                break;
            }
        }
        self.inside = None;
        None
    }
}
