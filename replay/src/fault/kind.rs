//! The tables of fault kinds, and the arguments they take.
//!
//! The two macro calls below are the only lists of the kinds: of faults of requests, and of faults
//! of Event Grid's messages. They define [`FaultKind`] and [`MessageFaultKind`], their parsers,
//! their `Display`, and [`KINDS`] and [`MESSAGE_KINDS`], which generate the command's help and
//! `docs/inside/faults.md`. An exhaustive `match` in `FaultPlan` defines the behaviour of each kind, so a
//! kind without behaviour does not compile. `FaultPlan::is_intact` has no such `match`: it changes
//! for a kind that delays or loses the answer.

use std::fmt;
use std::time::Duration;

use crate::suggest::nearest;

/// Defines the kinds of fault: variant and argument type, syntax, description.
macro_rules! fault_kinds {
    (
        $(#[$kinds_doc:meta])* $kinds:ident, $(#[$enum_doc:meta])* $enum:ident;
        $($variant:ident $(($argument:ty))? = $syntax:literal, $about:literal;)*
    ) => {
        $(#[$kinds_doc])*
        pub const $kinds: &[(&str, &str)] = &[$(($syntax, $about)),*];

        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum $enum {
            $($variant $(($argument))?,)*
        }

        impl $enum {
            /// Parses a kind and its argument.
            pub(crate) fn parse(name: &str, argument: Option<&str>) -> Result<Self, FaultError> {
                $(if name == name_of($syntax) {
                    return fault_kinds!(@parse $variant $(($argument))?, $syntax, argument);
                })*
                Err(unknown_kind(name, $kinds))
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(fault_kinds!(@display self, f, $variant $(($argument))?, $syntax);)*
                Ok(())
            }
        }
    };
    (@parse $variant:ident, $syntax:literal, $text:ident) => {
        match $text {
            None => Ok(Self::$variant),
            Some(_) => Err(FaultError(format!("{} takes no argument", $syntax))),
        }
    };
    (@parse $variant:ident ($argument:ty), $syntax:literal, $text:ident) => {
        parse_argument::<$argument>($syntax, $text).map(Self::$variant)
    };
    (@display $self:ident, $f:ident, $variant:ident, $syntax:literal) => {
        if matches!($self, Self::$variant) {
            return $f.write_str($syntax);
        }
    };
    (@display $self:ident, $f:ident, $variant:ident ($argument:ty), $syntax:literal) => {
        if let Self::$variant(argument) = $self {
            return write!($f, "{}:{argument}", name_of($syntax));
        }
    };
}

fault_kinds! {
    /// Every kind of fault of a request: its syntax, and its effect.
    KINDS,
    /// A fault of a request.
    FaultKind;
    Empty = "empty", "answer 200 with an empty body";
    Status(StatusCode) = "status:CODE", "answer this status, 200 to 599, with the body that the service sends";
    UnknownVersion(StatusCode) = "unknown-version:CODE", "answer a request for an api-version that the service does not have with this status, 200 to 599 (default 400, with newest-versions)";
    FirstCallDelay(Seconds) = "first-call-delay:SECONDS", "delay the first response";
    IdleOff(IdleTime) = "idle-off:SECONDS[,DELAY]", "switch off after that long without a request for events, and delay the next one (default 2min)";
    Stale(Seconds) = "stale:SECONDS", "serve the document as it was that long ago";
    Reset = "reset", "reset the connection instead of answering";
    ResetMidBody = "reset-mid-body", "reset the connection in the middle of the body";
    SlowHeaders(Seconds) = "slow-headers:SECONDS", "take that long to send the header";
    SlowBody(Seconds) = "slow-body:SECONDS", "take that long to send the body";
    Silence = "silence", "send no response until the client closes the connection";
    ShortBody = "short-body", "end the body before its Content-Length";
    EndlessBody = "endless-body", "send a chunked body that never ends";
    HugeBody(ByteCount) = "huge-body:BYTES", "pad the document to that size (KB, MB, GB allowed)";
    ManyHeaders(FieldCount) = "many-headers:COUNT", "send that many header fields";
    LongHeader(ByteCount) = "long-header:BYTES", "send a header field of that length (KB, MB, GB allowed)";
    NotHttp = "not-http", "send bytes that are not HTTP, and close the connection";
    Gzip = "gzip", "compress the body, which the client did not request";
    ContentType(HeaderValue) = "content-type:TYPE", "send another Content-Type";
    Redirect(Location) = "redirect:CODE[,LOCATION]", "redirect with 301, 302, 303, 307 or 308 (default to /redirected, where the verdict sees who follows)";
    RetryAfter(RetryTime) = "retry-after:VALUE", "answer 429 with Retry-After: seconds, an HTTP date, or date+SECONDS";
    HalfDocument = "half-document", "send the first half of the document, with a matching Content-Length";
    NotJson = "not-json", "answer 200 with a text that is not JSON";
    IncarnationBack(Decrement) = "incarnation-back:N", "lower the incarnation by N";
    Vanish = "vanish", "serve a document without events while events are open";
    StartedWithoutScheduled = "started-without-scheduled", "show events only once they are Started";
    Member(EventMember) = "member:NAME[,JSON]", "give this member of each event that value, or leave it out";
    RepeatedId = "repeated-id", "before each event, show one of another VM with the same EventId";
    Clock(ClockOffset) = "clock:SECONDS", "have a clock that is ahead of this machine's, or behind it (-600), in Date and NotBefore";
}

fault_kinds! {
    /// Every kind of fault of a message of Event Grid: its syntax, and its effect.
    MESSAGE_KINDS,
    /// A fault of a message of Event Grid.
    MessageFaultKind;
    Late(Seconds) = "late:SECONDS", "deliver the message that much later";
    Lost = "lost", "never deliver the message";
    Repeated = "repeated", "deliver the message twice, with the same outer id";
    NewId = "new-id", "deliver the message twice, the second time under a new outer id";
    Reversed(MessageCount) = "reversed:COUNT", "collect that many messages, 2 to 1000, and deliver them in reverse order; the last ones when the scenario is over";
}

/// Why a text is not a fault, and the form to write instead.
///
/// ```
/// use scheduled_events_replay::Fault;
///
/// let error = "statsu:410".parse::<Fault>().unwrap_err();
/// assert!(error.to_string().contains("did you mean `status`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultError(String);

impl FaultError {
    pub(crate) fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FaultError {}

impl FaultKind {
    /// Whether the fault applies to requests for a version that the service does not have, and to no others.
    pub(crate) fn is_of_refusals(&self) -> bool {
        matches!(self, Self::UnknownVersion(_))
    }

    /// Whether the fault changes the contents of a document, which only a GET returns.
    pub(crate) fn alters_document(&self) -> bool {
        matches!(
            self,
            Self::Stale(_)
                | Self::IncarnationBack(_)
                | Self::Vanish
                | Self::StartedWithoutScheduled
                | Self::Member(_)
                | Self::RepeatedId
                | Self::Clock(_)
        )
    }
}

/// The argument of a fault. `Display` writes the form that `parse` reads.
trait Argument: Sized + fmt::Display {
    /// The expected form of the argument, for the error message.
    const EXPECTED: &str;

    fn parse(text: &str) -> Option<Self>;
}

/// A span of real time: `2`, `0.5`, `500ms`, `2min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

/// How long without a request switches the service off, and the delay of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleTime {
    pub(crate) idle: Duration,
    pub(crate) delay: Duration,
}

/// A size in bytes, optionally in KB, MB or GB of powers of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteCount(pub(crate) u64);

/// A number of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldCount(pub(crate) u32);

/// A number of messages whose order can be reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageCount(pub(crate) usize);

/// By how much the incarnation is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decrement(pub(crate) u64);

/// An HTTP status from 200 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusCode(pub(crate) u16);

/// A header value without control characters: a fault must not be able to add lines to the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderValue(pub(crate) String);

/// A member of an event, and its value; `None` leaves it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventMember {
    pub(crate) name: String,
    pub(crate) value: Option<serde_json::Value>,
}

/// By how many seconds the service's clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockOffset(pub(crate) i32);

/// A redirect and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) status: u16,
    pub(crate) location: String,
}

/// The value of `Retry-After`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RetryTime {
    /// As written.
    Text(String),
    /// An HTTP date, this long after the answer.
    DateIn(Duration),
}

/// A path of this server, which has nothing there, so that the verdict sees a client that follows.
const DEFAULT_LOCATION: &str = "/redirected";

/// The documented delay of the first response.
const FIRST_DELAY: Duration = Duration::from_secs(120);

/// The longest time a fault may take: eleven days.
const MAX_SECONDS: f64 = 1_000_000.0;

impl Argument for Seconds {
    const EXPECTED: &str = "a number of seconds";

    fn parse(text: &str) -> Option<Self> {
        parse_seconds(text).map(Self)
    }
}

impl Argument for IdleTime {
    const EXPECTED: &str = "a number of seconds, with or without `,DELAY`";

    fn parse(text: &str) -> Option<Self> {
        let (idle, delay) = text.split_once(',').unwrap_or((text, ""));
        let delay = if delay.is_empty() {
            FIRST_DELAY
        } else {
            parse_seconds(delay)?
        };
        Some(Self {
            idle: parse_seconds(idle)?,
            delay,
        })
    }
}

impl Argument for ByteCount {
    const EXPECTED: &str = "a number of bytes";

    fn parse(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];
        let with_unit = units
            .into_iter()
            .find_map(|(suffix, unit)| Some((upper.strip_suffix(suffix)?, unit)));
        let (number, unit) = with_unit.unwrap_or((&upper, 1));
        number.parse::<u64>().ok()?.checked_mul(unit).map(Self)
    }
}

impl Argument for FieldCount {
    const EXPECTED: &str = "a count";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl Argument for MessageCount {
    const EXPECTED: &str = "a count from 2 to 1000";

    fn parse(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|count| (2..=1000).contains(count))
            .map(Self)
    }
}

impl Argument for Decrement {
    const EXPECTED: &str = "a number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl Argument for StatusCode {
    const EXPECTED: &str = "a status from 200 to 599";

    fn parse(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|code| (200..=599).contains(code))
            .map(Self)
    }
}

impl Argument for HeaderValue {
    const EXPECTED: &str = "a header value";

    fn parse(text: &str) -> Option<Self> {
        let valid = !text.is_empty() && text.chars().all(|c| !c.is_control());
        valid.then(|| Self(text.to_owned()))
    }
}

impl Argument for EventMember {
    const EXPECTED: &str = "a member's name, with or without `,JSON`";

    fn parse(text: &str) -> Option<Self> {
        let (name, value) = match text.split_once(',') {
            Some((name, json)) => (name, Some(serde_json::from_str(json).ok()?)),
            None => (text, None),
        };
        let name = HeaderValue::parse(name)?.0;
        Some(Self { name, value })
    }
}

impl Argument for ClockOffset {
    const EXPECTED: &str = "a whole number of seconds";

    fn parse(text: &str) -> Option<Self> {
        let seconds: i32 = text.parse().ok()?;
        (f64::from(seconds).abs() <= MAX_SECONDS).then_some(Self(seconds))
    }
}

impl Argument for Location {
    const EXPECTED: &str = "a status of 301, 302, 303, 307 or 308, with or without `,LOCATION`";

    fn parse(text: &str) -> Option<Self> {
        let (status, location) = text.split_once(',').unwrap_or((text, DEFAULT_LOCATION));
        let status = status
            .parse()
            .ok()
            .filter(|status| matches!(status, 301..=303 | 307 | 308))?;
        Some(Self {
            status,
            location: HeaderValue::parse(location)?.0,
        })
    }
}

impl Argument for RetryTime {
    const EXPECTED: &str = "a header value, or date+SECONDS";

    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("date+") {
            Some(span) => parse_seconds(span).map(Self::DateIn),
            None => HeaderValue::parse(text).map(|value| Self::Text(value.0)),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs_f64())
    }
}

impl fmt::Display for IdleTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.idle.as_secs_f64())?;
        if self.delay == FIRST_DELAY {
            Ok(())
        } else {
            write!(f, ",{}", self.delay.as_secs_f64())
        }
    }
}

/// Writes the value of a newtype.
macro_rules! display_value {
    ($($argument:ident),*) => {$(
        impl fmt::Display for $argument {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

display_value!(
    ByteCount,
    FieldCount,
    MessageCount,
    Decrement,
    StatusCode,
    HeaderValue,
    ClockOffset
);

impl fmt::Display for EventMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.value
            .as_ref()
            .map_or(Ok(()), |value| write!(f, ",{value}"))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if self.location == DEFAULT_LOCATION {
            Ok(())
        } else {
            write!(f, ",{}", self.location)
        }
    }
}

impl fmt::Display for RetryTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(value) => f.write_str(value),
            Self::DateIn(span) => write!(f, "date+{}", span.as_secs_f64()),
        }
    }
}

/// The name in a syntax: the part before the argument.
pub(crate) fn name_of(syntax: &'static str) -> &'static str {
    syntax.split(':').next().unwrap_or(syntax)
}

fn unknown_kind(name: &str, kinds: &[(&'static str, &str)]) -> FaultError {
    let names = kinds.iter().map(|(syntax, _)| name_of(syntax));
    let hint = nearest(name, names).map_or_else(String::new, |nearest| {
        format!(" (did you mean `{nearest}`?)")
    });
    let all = kinds
        .iter()
        .map(|(syntax, _)| *syntax)
        .collect::<Vec<_>>()
        .join(", ");
    FaultError(format!(
        "unknown fault `{name}`{hint}; the faults are {all}"
    ))
}

fn parse_argument<A: Argument>(syntax: &'static str, text: Option<&str>) -> Result<A, FaultError> {
    match text {
        None | Some("") => Err(FaultError(format!(
            "{} needs an argument: write {syntax}",
            name_of(syntax)
        ))),
        Some(text) => A::parse(text).ok_or_else(|| {
            FaultError(format!(
                "expected {}, found `{text}`: write {syntax}",
                A::EXPECTED
            ))
        }),
    }
}

pub(crate) fn parse_seconds(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let duration = match number.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => humantime::parse_duration(text).ok()?,
    };
    (duration.as_secs_f64() <= MAX_SECONDS).then_some(duration)
}
