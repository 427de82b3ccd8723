//! Faults: how the server misbehaves, and to which requests.
//!
//! A fault is written `[SCOPE.]KIND[:ARGUMENT][@WINDOW]`:
//!
//! ```
//! use scheduled_events::replay::Fault;
//!
//! let fault: Fault = "post.status:500@1-3".parse()?; // the first three approvals
//! assert_eq!(fault.to_string(), "post.status:500@1-3");
//! let _: Fault = "status:410@0s-70s".parse()?; // everything in the first 70 seconds
//! assert!("statsu:410".parse::<Fault>().unwrap_err().to_string().contains("did you mean `status`"));
//! # Ok::<(), scheduled_events::replay::FaultError>(())
//! ```
//!
//! **Scope.** Without one, a fault hits requests for events, GET and POST. `get.` and `post.` narrow
//! that to one method; `name.` means the request for the VM's name instead.
//!
//! **Window.** `@3` is the third request, `@3-5` the third to the fifth, `@3-` all from the third on.
//! Requests are counted from 1 within the scope, so `post.status:500@1` is the first POST, whatever
//! came before. `@0s-70s` and `@5s-` are spans of real time since the first request for events or
//! for the name; the end is exclusive. Without a window every request is hit.
//!
//! **What is hit.** A request that the service refuses anyway (no `Metadata: true`, an unknown version,
//! another path) gets that refusal, is not counted and meets no fault.
//!
//! **Together.** The first fault that decides the answer wins. Delays add up. What alters the document
//! (`stale`, `incarnation-back`, `vanish`, `started-without-scheduled`) or the content type combines.
//! Whether a POST takes effect: not if it is answered by `status`, `retry-after`, `redirect`, `reset`, `silence`
//! or `not-http`; it does if its answer is merely delayed or damaged.
//!
//! **Seconds** are real ones, never divided by the playback's speed, and may be written `2`, `0.5`,
//! `500ms` or `2min`. [`KINDS`] lists the kinds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Every kind of fault: how it is written, and what it does.
pub const KINDS: &[(&str, &str)] = &[
    ("empty", "200 with an empty body"),
    ("status:CODE", "that status with a realistic body, 200 to 599"),
    ("first-call-delay:SECONDS", "the first request waits so long"),
    ("stale:SECONDS", "the document as it was so long ago"),
    ("reset", "the connection is reset, the request unread"),
    ("reset-mid-body", "the connection is reset in the middle of the body"),
    ("slow-headers:SECONDS", "the head trickles in over that time"),
    ("slow-body:SECONDS", "the body trickles in over that time"),
    ("silence", "no answer at all until the client gives up"),
    ("short-body", "the body ends before its Content-Length"),
    ("endless-body", "a chunked body without an end"),
    ("huge-body:BYTES", "the document, followed by blanks up to that size (KB, MB, GB allowed)"),
    ("many-headers:COUNT", "so many header fields"),
    ("long-header:BYTES", "a header field of that length (KB, MB, GB allowed)"),
    ("not-http", "bytes that are no HTTP, and the end of the connection"),
    ("gzip", "a gzip body that nobody asked for"),
    ("content-type:TYPE", "another Content-Type"),
    ("redirect:CODE[,LOCATION]", "301, 302, 303, 307 or 308 to LOCATION (default http://127.0.0.1:9/)"),
    ("retry-after:VALUE", "429 with Retry-After: seconds, an HTTP date, or date+SECONDS"),
    ("half-document", "the first half of the document, properly framed"),
    ("not-json", "200 with a text that is not JSON"),
    ("incarnation-back:N", "an incarnation lower by N"),
    ("vanish", "a document without events although they are on"),
    ("started-without-scheduled", "events are shown only once they are Started"),
];

/// One way to misbehave, and when. See the [module](self) for the syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(super) scope: Scope,
    pub(super) kind: Kind,
    pub(super) window: Window,
}

/// Why a text is no fault; the message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultError(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Events,
    Get,
    Post,
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Status(u16),
    FirstCallDelay(Duration),
    Stale(Duration),
    Reset,
    ResetMidBody,
    SlowHeaders(Duration),
    SlowBody(Duration),
    Silence,
    ShortBody,
    EndlessBody,
    HugeBody(u64),
    ManyHeaders(u32),
    LongHeader(u64),
    NotHttp,
    Gzip,
    ContentType(String),
    Redirect(u16, String),
    RetryAfter(RetryAfter),
    HalfDocument,
    NotJson,
    IncarnationBack(u64),
    Vanish,
    StartedWithoutScheduled,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RetryAfter {
    Text(String),
    /// An HTTP date so many seconds after the answer.
    DateIn(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Always,
    /// Numbers of requests from 1, both ends included.
    Count(u64, Option<u64>),
    /// Since the first request, the end excluded.
    Time(Duration, Option<Duration>),
}

const DEFAULT_LOCATION: &str = "http://127.0.0.1:9/";

/// No fault lasts longer than this many seconds, eleven days.
const MAX_SECONDS: f64 = 1_000_000.0;

impl Fault {
    /// Whether the fault hits request number `count` of its scope, `since_first` after the first request.
    pub(super) fn hits(&self, count: u64, since_first: Duration) -> bool {
        if matches!(self.kind, Kind::FirstCallDelay(_)) {
            return count == 1;
        }
        match self.window {
            Window::Always => true,
            Window::Count(from, to) => count >= from && to.is_none_or(|to| count <= to),
            Window::Time(from, to) => since_first >= from && to.is_none_or(|to| since_first < to),
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (rest, window) = match text.rsplit_once('@') {
            Some((rest, window)) => (rest, parse_window(window)?),
            None => (text, Window::Always),
        };
        let (name, argument) = match rest.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (rest, None),
        };
        let (scope, name) = match name.split_once('.') {
            Some(("get", name)) => (Scope::Get, name),
            Some(("post", name)) => (Scope::Post, name),
            Some(("name", name)) => (Scope::Name, name),
            Some((scope, _)) => {
                return Err(FaultError(format!("`{scope}.` is no scope: write get., post. or name., or none")));
            }
            None => (Scope::Events, name),
        };
        let kind = parse_kind(name, argument)?;
        if matches!(kind, Kind::FirstCallDelay(_)) && window != Window::Always {
            return Err(FaultError(
                "first-call-delay is always about the first request: leave the @ out, or delay others with \
                 slow-headers:SECONDS@FROM-TO"
                    .to_owned(),
            ));
        }
        if kind.alters_document() && matches!(scope, Scope::Post | Scope::Name) {
            return Err(FaultError(format!("{name} alters the document, which only a GET gets: leave the scope out")));
        }
        Ok(Self { scope, kind, window })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scope {
            Scope::Events => "",
            Scope::Get => "get.",
            Scope::Post => "post.",
            Scope::Name => "name.",
        })?;
        write!(f, "{}", self.kind)?;
        match self.window {
            Window::Always => Ok(()),
            Window::Count(from, Some(to)) if from == to => write!(f, "@{from}"),
            Window::Count(from, Some(to)) => write!(f, "@{from}-{to}"),
            Window::Count(from, None) => write!(f, "@{from}-"),
            Window::Time(from, Some(to)) => {
                write!(f, "@{}s-{}s", from.as_secs_f64(), to.as_secs_f64())
            }
            Window::Time(from, None) => write!(f, "@{}s-", from.as_secs_f64()),
        }
    }
}

impl Kind {
    pub(super) fn alters_document(&self) -> bool {
        matches!(self, Self::Stale(_) | Self::IncarnationBack(_) | Self::Vanish | Self::StartedWithoutScheduled)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Status(code) => write!(f, "status:{code}"),
            Self::FirstCallDelay(delay) => write!(f, "first-call-delay:{}", delay.as_secs_f64()),
            Self::Stale(age) => write!(f, "stale:{}", age.as_secs_f64()),
            Self::Reset => f.write_str("reset"),
            Self::ResetMidBody => f.write_str("reset-mid-body"),
            Self::SlowHeaders(span) => write!(f, "slow-headers:{}", span.as_secs_f64()),
            Self::SlowBody(span) => write!(f, "slow-body:{}", span.as_secs_f64()),
            Self::Silence => f.write_str("silence"),
            Self::ShortBody => f.write_str("short-body"),
            Self::EndlessBody => f.write_str("endless-body"),
            Self::HugeBody(bytes) => write!(f, "huge-body:{bytes}"),
            Self::ManyHeaders(count) => write!(f, "many-headers:{count}"),
            Self::LongHeader(bytes) => write!(f, "long-header:{bytes}"),
            Self::NotHttp => f.write_str("not-http"),
            Self::Gzip => f.write_str("gzip"),
            Self::ContentType(value) => write!(f, "content-type:{value}"),
            Self::Redirect(code, location) if location == DEFAULT_LOCATION => {
                write!(f, "redirect:{code}")
            }
            Self::Redirect(code, location) => write!(f, "redirect:{code},{location}"),
            Self::RetryAfter(RetryAfter::Text(value)) => write!(f, "retry-after:{value}"),
            Self::RetryAfter(RetryAfter::DateIn(span)) => {
                write!(f, "retry-after:date+{}", span.as_secs_f64())
            }
            Self::HalfDocument => f.write_str("half-document"),
            Self::NotJson => f.write_str("not-json"),
            Self::IncarnationBack(by) => write!(f, "incarnation-back:{by}"),
            Self::Vanish => f.write_str("vanish"),
            Self::StartedWithoutScheduled => f.write_str("started-without-scheduled"),
        }
    }
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FaultError {}

/// The bare name of an entry of [`KINDS`].
fn name_of(syntax: &'static str) -> &'static str {
    syntax.split(':').next().unwrap_or(syntax)
}

fn parse_kind(name: &str, argument: Option<&str>) -> Result<Kind, FaultError> {
    let Some((syntax, _)) = KINDS.iter().find(|(syntax, _)| name_of(syntax) == name) else {
        let known = || KINDS.iter().map(|(syntax, _)| name_of(syntax));
        let hint =
            super::nearest(name, known()).map_or_else(String::new, |nearest| format!(" did you mean `{nearest}`?"));
        let all = KINDS.iter().map(|(syntax, _)| *syntax).collect::<Vec<_>>().join(", ");
        return Err(FaultError(format!("`{name}` is no fault:{hint} known are {all}")));
    };
    let argument = match (argument, syntax.contains(':')) {
        (Some(argument), true) if !argument.is_empty() => argument,
        (_, true) => {
            return Err(FaultError(format!("{name} needs an argument: write {syntax}")));
        }
        (Some(_), false) => {
            return Err(FaultError(format!("{name} takes no argument: write {syntax}")));
        }
        (None, false) => "",
    };
    let wrong = |what: &str| FaultError(format!("`{argument}` is not {what}: write {syntax}"));
    let seconds = || parse_seconds(argument).ok_or_else(|| wrong("a number of seconds"));
    let bytes = || parse_bytes(argument).ok_or_else(|| wrong("a number of bytes"));
    Ok(match name {
        "empty" => Kind::Empty,
        "status" => Kind::Status(parse_code(argument, 200..=599).ok_or_else(|| wrong("a status between 200 and 599"))?),
        "first-call-delay" => Kind::FirstCallDelay(seconds()?),
        "stale" => Kind::Stale(seconds()?),
        "reset" => Kind::Reset,
        "reset-mid-body" => Kind::ResetMidBody,
        "slow-headers" => Kind::SlowHeaders(seconds()?),
        "slow-body" => Kind::SlowBody(seconds()?),
        "silence" => Kind::Silence,
        "short-body" => Kind::ShortBody,
        "endless-body" => Kind::EndlessBody,
        "huge-body" => Kind::HugeBody(bytes()?),
        "many-headers" => Kind::ManyHeaders(argument.parse().map_err(|_| wrong("a count"))?),
        "long-header" => Kind::LongHeader(bytes()?),
        "not-http" => Kind::NotHttp,
        "gzip" => Kind::Gzip,
        "content-type" => Kind::ContentType(header_value(argument).ok_or_else(|| wrong("a header value"))?),
        "redirect" => {
            let (code, location) = argument.split_once(',').unwrap_or((argument, DEFAULT_LOCATION));
            let code = parse_code(code, 301..=308).filter(|code| !(304..=306).contains(code));
            let code = code.ok_or_else(|| wrong("a redirect of 301, 302, 303, 307 or 308"))?;
            Kind::Redirect(code, header_value(location).ok_or_else(|| wrong("a header value"))?)
        }
        "retry-after" => Kind::RetryAfter(match argument.strip_prefix("date+") {
            Some(span) => RetryAfter::DateIn(parse_seconds(span).ok_or_else(|| wrong("a number of seconds"))?),
            None => RetryAfter::Text(header_value(argument).ok_or_else(|| wrong("a header value"))?),
        }),
        "half-document" => Kind::HalfDocument,
        "not-json" => Kind::NotJson,
        "incarnation-back" => Kind::IncarnationBack(argument.parse().map_err(|_| wrong("a number"))?),
        "vanish" => Kind::Vanish,
        _ => Kind::StartedWithoutScheduled,
    })
}

fn parse_window(text: &str) -> Result<Window, FaultError> {
    let wrong = || {
        FaultError(format!(
            "`@{text}` is no window: write @3, @3-5 or @3- for requests counted from 1, @0s-70s or @5s- for seconds"
        ))
    };
    let (from, to) = match text.split_once('-') {
        Some((from, to)) => (from, Some(to)),
        None => (text, None),
    };
    let is_count = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if is_count(from) && to.is_none_or(is_count) {
        let from: u64 = from.parse().map_err(|_| wrong())?;
        let to: Option<u64> = match to {
            None => Some(from),
            Some("") => None,
            Some(to) => Some(to.parse().map_err(|_| wrong())?),
        };
        if from == 0 || to.is_some_and(|to| to < from) {
            return Err(wrong());
        }
        return Ok(Window::Count(from, to));
    }
    let unit_seconds = |text: &str| {
        if is_count(text) { None } else { parse_seconds(text) }
    };
    let start = unit_seconds(from).ok_or_else(wrong)?;
    let end = match to {
        None => return Err(wrong()),
        Some("") => None,
        Some(to) => Some(unit_seconds(to).filter(|end| *end > start).ok_or_else(wrong)?),
    };
    Ok(Window::Time(start, end))
}

fn parse_seconds(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let duration = match number.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => humantime::parse_duration(text).ok()?,
    };
    (duration.as_secs_f64() <= MAX_SECONDS).then_some(duration)
}

fn parse_code(text: &str, range: std::ops::RangeInclusive<u16>) -> Option<u16> {
    text.parse().ok().filter(|code| range.contains(code))
}

fn parse_bytes(text: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];
    let (number, unit) =
        units.into_iter().find_map(|(suffix, unit)| Some((upper.strip_suffix(suffix)?, unit))).unwrap_or((&upper, 1));
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A fault must not be able to smuggle a line break into the server's own framing.
fn header_value(text: &str) -> Option<String> {
    let fits = !text.is_empty() && text.chars().all(|c| !c.is_control());
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Fault {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_kind_parses_and_prints_itself() {
        let texts = [
            "empty",
            "status:429",
            "first-call-delay:120",
            "stale:0.5",
            "reset",
            "reset-mid-body",
            "slow-headers:2",
            "slow-body:2",
            "silence",
            "short-body",
            "endless-body",
            "huge-body:1000000000",
            "many-headers:100000",
            "long-header:1000",
            "not-http",
            "gzip",
            "content-type:text/html; charset=utf-8",
            "redirect:307",
            "redirect:302,http://example.com:80/x",
            "retry-after:7",
            "retry-after:Wed, 21 Oct 2026 07:28:00 GMT",
            "retry-after:date+5",
            "half-document",
            "not-json",
            "incarnation-back:2",
            "vanish",
            "started-without-scheduled",
        ];
        for text in texts {
            assert_eq!(fault(text).to_string(), text);
            for window in ["@3", "@3-5", "@3-", "@0s-70s", "@2.5s-"] {
                if !text.starts_with("first-call-delay") {
                    let with = format!("{text}{window}");
                    assert_eq!(fault(&with).to_string(), with);
                }
            }
        }
        for (syntax, _) in KINDS {
            let name = name_of(syntax);
            assert!(texts.iter().any(|text| name_of(text) == name), "{name}");
        }
    }

    #[test]
    fn other_spellings_mean_the_same() {
        for (text, canonical) in [
            ("stale:500ms", "stale:0.5"),
            ("stale:2s", "stale:2"),
            ("slow-body:2min", "slow-body:120"),
            ("huge-body:1GB", "huge-body:1000000000"),
            ("huge-body:3kb", "huge-body:3000"),
            ("redirect:301,http://127.0.0.1:9/", "redirect:301"),
            ("status:410@0s-1min", "status:410@0s-60s"),
            ("post.reset@2-2", "post.reset@2"),
        ] {
            assert_eq!(fault(text).to_string(), canonical);
            assert_eq!(fault(text), fault(canonical));
        }
    }

    #[test]
    fn scopes_are_prefixes() {
        assert_eq!(fault("get.empty").scope, Scope::Get);
        assert_eq!(fault("post.status:500@1-3").window, Window::Count(1, Some(3)));
        assert_eq!(fault("name.status:404").to_string(), "name.status:404");
        assert_eq!(fault("redirect:302,http://a.example/").scope, Scope::Events);
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, part) in [
            ("statsu:500", "did you mean `status`?"),
            ("statsu:500", "started-without-scheduled"),
            ("", "`` is no fault: known are empty"),
            ("status", "write status:CODE"),
            ("status:99", "a status between 200 and 599"),
            ("status:", "needs an argument"),
            ("empty:1", "takes no argument"),
            ("stale:-1", "a number of seconds"),
            ("stale:1e99", "a number of seconds"),
            ("stale:NaN", "a number of seconds"),
            ("huge-body:many", "a number of bytes"),
            ("redirect:304", "301, 302, 303, 307 or 308"),
            ("content-type:a\r\nb", "a header value"),
            ("put.empty", "write get., post. or name."),
            ("empty@0", "counted from 1"),
            ("empty@5-3", "no window"),
            ("empty@", "no window"),
            ("empty@70s", "no window"),
            ("empty@5-70s", "no window"),
            ("empty@7s-7s", "no window"),
            ("first-call-delay:3@2", "leave the @ out"),
            ("post.vanish", "alters the document"),
            ("name.stale:1", "alters the document"),
        ] {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn windows_select_requests() {
        let hit = |text: &str, count, seconds| fault(text).hits(count, Duration::from_secs(seconds));
        assert!(hit("empty", 1, 0) && hit("empty", 1_000_000, 99));
        assert!(!hit("empty@3-5", 2, 0) && hit("empty@3-5", 3, 0) && hit("empty@3-5", 5, 0) && !hit("empty@3-5", 6, 0));
        assert!(!hit("empty@3", 4, 0) && hit("empty@3-", 4, 0));
        assert!(hit("empty@0s-70s", 9, 0) && hit("empty@0s-70s", 9, 69) && !hit("empty@0s-70s", 9, 70));
        assert!(!hit("empty@5s-", 1, 4) && hit("empty@5s-", 1, 5));
        assert!(hit("first-call-delay:1", 1, 0) && !hit("first-call-delay:1", 2, 0));
    }
}
