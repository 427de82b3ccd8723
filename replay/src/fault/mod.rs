//! Faults: how the server misbehaves, and for which requests.
//!
//! The syntax is `[SCOPE.]KIND[:ARGUMENT][@WINDOW]`:
//!
//! ```
//! use scheduled_events_replay::Fault;
//!
//! let fault: Fault = "post.status:500@1-3".parse()?; // the first three approvals
//! assert_eq!(fault.to_string(), "post.status:500@1-3");
//! let _: Fault = "status:410@0s-70s".parse()?; // all requests in the first 70 seconds
//! assert!("statsu:410".parse::<Fault>().unwrap_err().to_string().contains("did you mean `status`"));
//! # Ok::<(), scheduled_events_replay::FaultError>(())
//! ```
//!
//! **Scope.** Without a scope, a fault applies to requests for events, GET and POST. `get.` and
//! `post.` restrict it to one method. `name.` applies it to requests for the VM's name instead.
//! Outside the machines, `arm.` applies it to approvals that are sent to Azure Resource Manager,
//! and `graph.` to queries of Azure Resource Graph. `message.` has kinds of its own,
//! [`MESSAGE_KINDS`], for the messages of Event Grid.
//!
//! **Window.** `@3` is the third request, `@3-5` the third to the fifth, `@3-` all from the third
//! on. Requests are counted from 1 within the scope: `post.status:500@1` is the first POST, however
//! many GETs came before it. `@0s-70s` and `@5s-` are spans of real time since the first request
//! for events or for the name, or to the control plane; the end is exclusive. Messages are counted
//! in the order of the changes that they report, and their time counts from the start of the
//! scenario. Without a window, the fault applies to every request or message.
//!
//! **Refused requests.** A request that the service refuses (no `Metadata: true`, an unknown
//! version, another path) gets that refusal. It is not counted, and no fault applies to it, except
//! `unknown-version`, which chooses the answer for an unknown version and counts these requests.
//!
//! **Combinations.** Delays add up. Faults that alter the document (`stale`, `incarnation-back`,
//! `vanish`, `started-without-scheduled`) and `content-type` combine. Of the other faults, the
//! first one applies. A POST has no effect if `status`, `retry-after`, `redirect`, `reset`,
//! `silence` or `not-http` answers it; it has its effect if its answer is delayed or damaged.
//! Faults of a message combine, except that a lost message stays lost.
//!
//! **Seconds** are real seconds, never divided by the speed of the replay: `2`, `0.5`, `500ms` or
//! `2min`.
//!
//! [`KINDS`] and [`MESSAGE_KINDS`] list the kinds.

// `kind` has these tables. This file parses a fault, and `plan` combines the faults of one request.

pub(crate) mod kind;
pub(crate) mod plan;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::fault::kind::{FaultKind, MessageFaultKind, parse_seconds};

pub use crate::fault::kind::{FaultError, KINDS, MESSAGE_KINDS};

/// One way to misbehave, and when. See the [module](self) for the syntax.
///
/// ```
/// use scheduled_events_replay::Fault;
///
/// let fault: Fault = "status:503@2-4".parse()?; // the second to the fourth request
/// assert_eq!(fault.to_string(), "status:503@2-4");
/// # Ok::<(), scheduled_events_replay::FaultError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) scope: FaultScope,
    pub(crate) action: FaultAction,
    window: FaultWindow,
}

/// The requests that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultScope {
    /// GET and POST for events.
    Events,
    Get,
    Post,
    Name,
    /// Approvals that are sent to Azure Resource Manager.
    Arm,
    /// Queries of Azure Resource Graph.
    Graph,
    /// Messages of Event Grid.
    Message,
}

/// The prefixes of the scopes.
const SCOPES: [(&str, FaultScope); 6] = [
    ("get", FaultScope::Get),
    ("post", FaultScope::Post),
    ("name", FaultScope::Name),
    ("arm", FaultScope::Arm),
    ("graph", FaultScope::Graph),
    ("message", FaultScope::Message),
];

/// The effect, on a request or on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultAction {
    Request(FaultKind),
    Message(MessageFaultKind),
}

/// When a fault applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultWindow {
    Always,
    /// Request numbers from 1, both ends included.
    Count(u64, Option<u64>),
    /// Time since the first request, the end excluded.
    Time(Duration, Option<Duration>),
}

impl Fault {
    /// Whether the fault applies to request number `count` of its scope, `since_first` after the
    /// first request.
    pub(crate) fn applies(&self, count: u64, since_first: Duration) -> bool {
        if self.is_first_call_delay() {
            return count == 1;
        }
        match self.window {
            FaultWindow::Always => true,
            FaultWindow::Count(from, to) => count >= from && to.is_none_or(|to| count <= to),
            FaultWindow::Time(from, to) => {
                since_first >= from && to.is_none_or(|to| since_first < to)
            }
        }
    }
}

impl Fault {
    /// Whether the fault applies outside the machines.
    pub(crate) fn is_outside(&self) -> bool {
        matches!(
            self.scope,
            FaultScope::Arm | FaultScope::Graph | FaultScope::Message
        )
    }

    fn is_first_call_delay(&self) -> bool {
        matches!(
            self.action,
            FaultAction::Request(FaultKind::FirstCallDelay(_))
        )
    }

    /// This fault with a window that counts from request number `requests` of its scope,
    /// `since_first` after the first one. `None` for `first-call-delay` after the first request.
    pub(crate) fn later(mut self, requests: u64, since_first: Duration) -> Option<Self> {
        if requests > 0 && self.is_first_call_delay() {
            return None;
        }
        self.window = match self.window {
            FaultWindow::Always if requests == 0 => FaultWindow::Always,
            FaultWindow::Always => FaultWindow::Count(requests + 1, None),
            FaultWindow::Count(from, to) => FaultWindow::Count(
                from.saturating_add(requests),
                to.map(|to| to.saturating_add(requests)),
            ),
            FaultWindow::Time(from, to) => FaultWindow::Time(
                from.saturating_add(since_first),
                to.map(|to| to.saturating_add(since_first)),
            ),
        };
        Some(self)
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (rest, window) = match text.rsplit_once('@') {
            Some((rest, window)) => (rest, window.parse()?),
            None => (text, FaultWindow::Always),
        };
        let (name, argument) = match rest.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (rest, None),
        };
        let (scope, name) = match name.split_once('.') {
            Some((prefix, name)) => {
                let scope = SCOPES.iter().find(|(known, _)| *known == prefix);
                let unknown = || {
                    let all: Vec<_> = SCOPES
                        .iter()
                        .map(|(prefix, _)| format!("{prefix}."))
                        .collect();
                    FaultError::new(format!(
                        "unknown scope `{prefix}.`: write {}, or no scope",
                        all.join(", ")
                    ))
                };
                (scope.ok_or_else(unknown)?.1, name)
            }
            None => (FaultScope::Events, name),
        };
        if scope == FaultScope::Message {
            let action = FaultAction::Message(MessageFaultKind::parse(name, argument)?);
            return Ok(Self {
                scope,
                action,
                window,
            });
        }
        let kind = FaultKind::parse(name, argument)?;
        if matches!(kind, FaultKind::FirstCallDelay(_)) && window != FaultWindow::Always {
            return Err(FaultError::new(
                "first-call-delay always applies to the first request: remove the @, or delay other requests with \
                 slow-headers:SECONDS@FROM-TO"
                    .to_owned(),
            ));
        }
        if kind.is_of_refusals() && !is_of_events(scope) {
            return Err(FaultError::new(format!(
                "{name} is about requests for events: remove the scope"
            )));
        }
        if kind.alters_document() && !matches!(scope, FaultScope::Events | FaultScope::Get) {
            return Err(FaultError::new(format!(
                "{name} alters the document, which only a GET returns: remove the scope"
            )));
        }
        Ok(Self {
            scope,
            action: FaultAction::Request(kind),
            window,
        })
    }
}

fn is_of_events(scope: FaultScope) -> bool {
    matches!(
        scope,
        FaultScope::Events | FaultScope::Get | FaultScope::Post
    )
}

impl FromStr for FaultWindow {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let invalid = || {
            FaultError::new(format!(
                "invalid window `@{text}`: write @3, @3-5 or @3- for requests counted from 1, @0s-70s or @5s- for seconds"
            ))
        };
        let (from, to) = match text.split_once('-') {
            Some((from, to)) => (from, Some(to)),
            None => (text, None),
        };
        let is_count = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if is_count(from) && to.is_none_or(is_count) {
            let from: u64 = from.parse().map_err(|_| invalid())?;
            let to: Option<u64> = match to {
                None => Some(from),
                Some("") => None,
                Some(to) => Some(to.parse().map_err(|_| invalid())?),
            };
            if from == 0 || to.is_some_and(|to| to < from) {
                return Err(invalid());
            }
            return Ok(Self::Count(from, to));
        }
        let seconds = |text: &str| {
            if is_count(text) {
                None
            } else {
                parse_seconds(text)
            }
        };
        let start = seconds(from).ok_or_else(invalid)?;
        let end = match to {
            None => return Err(invalid()),
            Some("") => None,
            Some(to) => Some(seconds(to).filter(|end| *end > start).ok_or_else(invalid)?),
        };
        Ok(Self::Time(start, end))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((prefix, _)) = SCOPES.iter().find(|(_, scope)| *scope == self.scope) {
            write!(f, "{prefix}.")?;
        }
        match &self.action {
            FaultAction::Request(kind) => write!(f, "{kind}")?,
            FaultAction::Message(kind) => write!(f, "{kind}")?,
        }
        match self.window {
            FaultWindow::Always => Ok(()),
            FaultWindow::Count(from, Some(to)) if from == to => write!(f, "@{from}"),
            FaultWindow::Count(from, Some(to)) => write!(f, "@{from}-{to}"),
            FaultWindow::Count(from, None) => write!(f, "@{from}-"),
            FaultWindow::Time(from, Some(to)) => {
                write!(f, "@{}s-{}s", from.as_secs_f64(), to.as_secs_f64())
            }
            FaultWindow::Time(from, None) => write!(f, "@{}s-", from.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::kind::name_of;

    fn fault(text: &str) -> Fault {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_kind_parses_and_displays_the_same_text() {
        let texts = [
            "empty",
            "status:429",
            "unknown-version:404",
            "first-call-delay:120",
            "idle-off:86400",
            "idle-off:86400,0.5",
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
            "member:EventStatus",
            "member:DurationInSeconds,{\"s\":1}",
            "repeated-id",
            "clock:-600",
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
        let messages = ["late:5", "lost", "repeated", "new-id", "reversed:3"];
        for ((syntax, _), text) in MESSAGE_KINDS.iter().zip(messages) {
            let text = format!("message.{text}@2");
            assert!(text.starts_with(&format!("message.{}", name_of(syntax))));
            assert_eq!(fault(&text).to_string(), text);
        }
        assert_eq!(MESSAGE_KINDS.len(), messages.len());
        for text in ["arm.status:409@1", "graph.retry-after:5"] {
            assert_eq!(fault(text).to_string(), text);
        }
    }

    #[test]
    fn other_spellings_parse_to_the_same_fault() {
        for (text, canonical) in [
            ("stale:500ms", "stale:0.5"),
            ("stale:2s", "stale:2"),
            ("slow-body:2min", "slow-body:120"),
            ("huge-body:1GB", "huge-body:1000000000"),
            ("huge-body:3kb", "huge-body:3000"),
            ("redirect:301,/redirected", "redirect:301"),
            ("status:410@0s-1min", "status:410@0s-60s"),
            ("post.reset@2-2", "post.reset@2"),
        ] {
            assert_eq!(fault(text).to_string(), canonical);
            assert_eq!(fault(text), fault(canonical));
        }
    }

    #[test]
    fn parses_scopes() {
        assert_eq!(fault("get.empty").scope, FaultScope::Get);
        assert_eq!(
            fault("post.status:500@1-3").window,
            FaultWindow::Count(1, Some(3))
        );
        assert_eq!(fault("name.status:404").to_string(), "name.status:404");
        assert_eq!(
            fault("redirect:302,http://a.example/").scope,
            FaultScope::Events
        );
    }

    #[test]
    fn errors_say_what_was_found_and_what_to_write() {
        for (text, part) in [
            ("statsu:500", "did you mean `status`?"),
            ("statsu:500", "started-without-scheduled"),
            ("", "unknown fault ``; the faults are empty"),
            ("status", "write status:CODE"),
            (
                "status:99",
                "expected a status from 200 to 599, found `99`: write status:CODE",
            ),
            ("status:", "needs an argument"),
            ("empty:1", "takes no argument"),
            ("stale:-1", "a number of seconds"),
            ("stale:1e99", "a number of seconds"),
            ("stale:NaN", "a number of seconds"),
            ("huge-body:many", "a number of bytes"),
            ("redirect:304", "301, 302, 303, 307 or 308"),
            ("content-type:a\r\nb", "a header value"),
            (
                "put.empty",
                "write get., post., name., arm., graph., message., or no scope",
            ),
            (
                "message.status:500",
                "unknown fault `status`; the faults are late:SECONDS, lost",
            ),
            ("arm.lost", "unknown fault `lost`"),
            ("message.reversed:1", "a count from 2 to 1000"),
            ("graph.vanish", "alters the document"),
            ("empty@0", "counted from 1"),
            ("empty@5-3", "invalid window"),
            ("empty@", "invalid window"),
            ("empty@70s", "invalid window"),
            ("empty@5-70s", "invalid window"),
            ("empty@7s-7s", "invalid window"),
            ("first-call-delay:3@2", "remove the @"),
            ("post.vanish", "alters the document"),
            ("name.stale:1", "alters the document"),
        ] {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_window_selects_requests_by_number_or_time() {
        let hit =
            |text: &str, count, seconds| fault(text).applies(count, Duration::from_secs(seconds));
        assert!(hit("empty", 1, 0) && hit("empty", 1_000_000, 99));
        assert!(
            !hit("empty@3-5", 2, 0)
                && hit("empty@3-5", 3, 0)
                && hit("empty@3-5", 5, 0)
                && !hit("empty@3-5", 6, 0)
        );
        assert!(!hit("empty@3", 4, 0) && hit("empty@3-", 4, 0));
        assert!(
            hit("empty@0s-70s", 9, 0) && hit("empty@0s-70s", 9, 69) && !hit("empty@0s-70s", 9, 70)
        );
        assert!(!hit("empty@5s-", 1, 4) && hit("empty@5s-", 1, 5));
        assert!(hit("first-call-delay:1", 1, 0) && !hit("first-call-delay:1", 2, 0));
    }
}
