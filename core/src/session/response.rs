//! Classifies the answer to a request.

use core::fmt;

use super::documents::DocumentKind;
use super::versions::{PollAnswer, VersionOutcome};
use super::{Request, Session};
use crate::document::Document;
use crate::error::{ParseError, Position};
use crate::hash::Hash;
use crate::time::UnixMillis;
use crate::tracker::Flags;

/// An HTTP response.
///
/// ```
/// use scheduled_events_core::{Cause, RequestOutcome, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
/// let now = UnixMillis(1_600_000_000_000);
/// assert!(matches!(session.take_step(now), Step::Get { .. }));
/// let busy = Response { status: 429, retry_after: Some(3), body: b"" };
/// let outcome = session.on_response(&busy, now);
/// assert!(matches!(outcome, RequestOutcome::PollFailed { cause: Cause::Status(429), .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The `Retry-After` header in seconds. The host converts a date.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: &'a [u8],
}

/// The result of a request.
///
/// ```
/// use scheduled_events_core::{RequestOutcome, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
/// let mut now = UnixMillis(1_600_000_000_000);
/// let response = Response { status: 200, body: br#"{"DocumentIncarnation":1,"Events":[]}"#, ..Response::default() };
/// let mut outcomes = Vec::new();
/// while outcomes.len() < 2 {
///     match session.take_step(now) {
///         Step::Get { .. } => outcomes.push(session.on_response(&response, now)),
///         Step::Wait { until } => now = until,
///         _ => unreachable!("there is no event"),
///     }
/// }
/// assert_eq!(outcomes, [RequestOutcome::Document, RequestOutcome::Unchanged]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// The document was accepted and applied.
    Document,
    /// The body equals that of the newest document.
    Unchanged,
    /// The document was superseded earlier. It is ignored, unless it is served for
    /// [`STALE_GRACE_MS`](crate::limits::STALE_GRACE_MS).
    Stale,
    /// The poll failed. It ends no event and is repeated.
    PollFailed {
        /// Why it failed.
        cause: Cause,
        /// Milliseconds until the next poll.
        retry_in_ms: u32,
    },
    /// The approval succeeded. [`Session::posted`](crate::Session::posted) lists its events.
    Approved,
    /// The approval failed. It is repeated while the event is `Scheduled`. [`Session::posted`](crate::Session::posted) lists
    /// its events.
    ApprovalFailed {
        /// Why it failed.
        cause: Cause,
    },
    /// There is no request in progress. Nothing changed.
    Unexpected,
}

/// Why a request failed.
///
/// ```
/// use scheduled_events_core::Cause;
///
/// let cause = Cause::of_status(503);
/// assert_eq!(cause.word(), "status");
/// assert_eq!(cause.to_string(), "status 503");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// There was no complete response in time.
    Timeout,
    /// The connection could not be established.
    Unreachable,
    /// The connection was lost, or the response is not HTTP.
    ConnectionLost,
    /// The response is larger than the host accepts.
    TooLarge,
    /// A redirect. Redirects are never followed.
    Redirect(u16),
    /// Another unexpected status, 304 included: requests are never conditional.
    Status(u16),
    /// Status 200 with an empty body.
    EmptyBody,
    /// The body is not a document.
    NotADocument {
        /// What is wrong.
        error: ParseError,
        /// Where it is.
        position: Position,
    },
}

impl Cause {
    /// The word for this cause in records, without the status: `timeout`, `status`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::ConnectionLost => "connection-lost",
            Self::TooLarge => "too-large",
            Self::Redirect(_) => "redirect",
            Self::Status(_) => "status",
            Self::EmptyBody => "empty-body",
            Self::NotADocument { .. } => "not-a-document",
        }
    }

    /// Whether the request itself is refused, so that a retry after a second is unlikely to succeed.
    const fn is_permanent(&self) -> bool {
        matches!(self, Self::Status(400..=403 | 405..=407 | 409 | 411..=428 | 430..=499) | Self::Redirect(_))
    }

    /// The cause for a response of this status, which is not 200.
    ///
    /// ```
    /// use scheduled_events_core::Cause;
    ///
    /// assert_eq!(Cause::of_status(302), Cause::Redirect(302));
    /// assert_eq!(Cause::of_status(304), Cause::Status(304));
    /// ```
    pub const fn of_status(status: u16) -> Self {
        match status {
            304 => Self::Status(304),
            300..=399 => Self::Redirect(status),
            _ => Self::Status(status),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("the request timed out"),
            Self::Unreachable => f.write_str("connection failed"),
            Self::ConnectionLost => f.write_str("connection lost"),
            Self::TooLarge => f.write_str("the response is too large"),
            Self::Redirect(status) => write!(f, "status {status}: redirects are not followed"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::EmptyBody => f.write_str("the response is empty, expected a document"),
            Self::NotADocument { error, position } => {
                let Position { line, column } = position;
                write!(
                    f,
                    "invalid document: line {line}, column {column}: {}",
                    error.message()
                )
            }
        }
    }
}

impl<const N: usize> Session<N> {
    /// Passes the response to the request in progress.
    ///
    /// Only a document can end an event: a response with status 200 whose body can be parsed. Every other response to a
    /// poll is a failed poll.
    pub fn on_response(&mut self, response: &Response<'_>, now: UnixMillis) -> RequestOutcome {
        self.on_response_with(response, now, |_| ())
    }

    /// Like [`on_response`](Self::on_response), and passes the parsed document to `on_document` before it is applied, so
    /// that a host which keeps more about events than the session does not parse the body again.
    ///
    /// `on_document` is called exactly when the result is [`RequestOutcome::Document`].
    ///
    /// ```
    /// use scheduled_events_core::{Response, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.take_step(now), Step::Get { .. }));
    /// let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"a","Description":"Host maintenance"}]}"#;
    /// let mut descriptions = Vec::new();
    /// session.on_response_with(&Response { status: 200, body, ..Response::default() }, now, |document| {
    ///     descriptions.extend(document.events().map(|event| event.description().map(|text| text.to_string())));
    /// });
    /// assert_eq!(descriptions, [Some("Host maintenance".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_response_with(
        &mut self,
        response: &Response<'_>,
        now: UnixMillis,
        on_document: impl FnOnce(&Document<'_>),
    ) -> RequestOutcome {
        let is_preview = matches!(self.request, Request::Get) && self.versions.asked_for_preview();
        match (response.status, response.retry_after) {
            (500..=599, Some(_)) if is_preview => {}
            (429 | 500..=599, Some(seconds)) => self.pacer.pause(now, seconds),
            _ => {}
        }
        match (
            core::mem::replace(&mut self.request, Request::None),
            response.status,
        ) {
            (request @ (Request::None | Request::Answered(_)), _) => self.unexpected(request),
            (Request::Post(slots), 200..=299) => {
                self.pacer.answered(now);
                self.approved(slots)
            }
            (Request::Post(slots), status) => {
                self.approval_failed(slots, Cause::of_status(status), now)
            }
            (Request::Get, 200) => self.on_body(response.body, now, on_document),
            (Request::Get, status) => self.poll_failed(Cause::of_status(status), now),
        }
    }

    /// Reports that the request in progress has no usable response.
    ///
    /// ```
    /// use scheduled_events_core::{Cause, RequestOutcome, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.take_step(now), Step::Get { .. }));
    /// let RequestOutcome::PollFailed { cause, retry_in_ms } = session.on_failure(Cause::Timeout, now) else {
    ///     panic!("expected a failed poll");
    /// };
    /// assert_eq!(cause, Cause::Timeout);
    /// assert!(matches!(session.take_step(now), Step::Wait { until } if until == now.plus(retry_in_ms)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failure(&mut self, cause: Cause, now: UnixMillis) -> RequestOutcome {
        match core::mem::replace(&mut self.request, Request::None) {
            request @ (Request::None | Request::Answered(_)) => self.unexpected(request),
            Request::Post(slots) => self.approval_failed(slots, cause, now),
            Request::Get => self.poll_failed(cause, now),
        }
    }

    /// The version of the API that a repetition of the GET in progress names, which is sent beside it because it has no answer yet:
    /// the one that every service knows, since a service that accepts requests for the newer one may never answer them. See
    /// [`Step::Get`](crate::Step::Get).
    ///
    /// ```
    /// use scheduled_events_core::{ApiVersion, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let api_version = ApiVersion::Advice;
    /// let mut session = Session::<16>::new(&SessionConfig { api_version, ..SessionConfig::new(VmNames::new(&["vm"])) })?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.take_step(now), Step::Get { api_version: "2024-07-09", .. }));
    /// // It has no answer after five seconds.
    /// assert_eq!(session.repeat_version(), "2020-07-01");
    /// let body = br#"{"DocumentIncarnation":1,"Events":[]}"#;
    /// session.repeat_answered(); // the first answer is one to a repetition
    /// session.on_response(&Response { status: 200, body, ..Response::default() }, now.plus(5_100));
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn repeat_version(&self) -> &str {
        self.versions.of_post()
    }

    /// Says that the answer which is passed on next is one to a repetition of the GET in progress, which named the
    /// [`repeat_version`](Self::repeat_version): what it does not have may still be there.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, UnixMillis, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// session.repeat_answered(); // no GET is in progress, so that this changes nothing
    /// session.take_step(UnixMillis(1_600_000_000_000));
    /// session.repeat_answered();
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn repeat_answered(&mut self) {
        if matches!(self.request, Request::Get) {
            self.versions.repeat_answered();
        }
    }

    /// A result of which there is no request in progress.
    fn unexpected(&mut self, request: Request) -> RequestOutcome {
        self.request = request;
        RequestOutcome::Unexpected
    }

    fn poll_failed(&mut self, cause: Cause, now: UnixMillis) -> RequestOutcome {
        let answer = match cause {
            Cause::Status(400 | 404) => PollAnswer::Refused,
            _ => PollAnswer::Other,
        };
        let retry_in_ms = match self.versions.answered(answer, now) {
            VersionOutcome::PollAgain if cause != Cause::Status(429) => {
                self.pacer.poll_at_once(now);
                self.pacer.next_poll_in(now)
            }
            _ => self.pacer.failed(now, cause.is_permanent()),
        };
        RequestOutcome::PollFailed { cause, retry_in_ms }
    }

    /// The body of a response with status 200 to a poll.
    fn on_body(
        &mut self,
        body: &[u8],
        now: UnixMillis,
        on_document: impl FnOnce(&Document<'_>),
    ) -> RequestOutcome {
        if body.trim_ascii().is_empty() {
            // The service responds, so the next poll is not delayed.
            self.pacer.answered(now);
            if self.versions.answered(PollAnswer::Other, now) == VersionOutcome::PollAgain {
                self.pacer.poll_at_once(now);
            }
            return RequestOutcome::PollFailed {
                cause: Cause::EmptyBody,
                retry_in_ms: self.pacer.next_poll_in(now),
            };
        }
        let hash = Hash::of(body);
        let is_preview = self.versions.asked_for_preview();
        let is_unchanged = self.documents.is_unchanged(hash, is_preview);
        let known = is_unchanged.then(|| self.versions.answered(PollAnswer::Document, now));
        // With another version, the same bytes may end advice.
        if known.is_some_and(|version| version != VersionOutcome::Anew) {
            self.pacer.answered(now);
            self.documents.confirm();
            self.confirm_events();
            return RequestOutcome::Unchanged;
        }
        let document = match Document::parse(body) {
            Ok(document) => document,
            Err(error) => {
                let position = error.position(body);
                return self.poll_failed(Cause::NotADocument { error, position }, now);
            }
        };
        self.pacer.answered(now);
        if known.is_none() {
            self.versions.answered(PollAnswer::Document, now);
        }
        let is_known = self.tracker.is_empty() || !self.versions.has_choice();
        self.documents.read_in(is_preview, is_known, now);
        let keeps_advice = self.versions.keeps_advice();
        let new = match self.documents.classify(hash, document.incarnation(), now) {
            DocumentKind::New => {
                self.documents.accept(hash);
                true
            }
            DocumentKind::Newest => {
                self.documents.confirm();
                false
            }
            DocumentKind::Stale { since } => {
                self.documents.reject(since);
                return RequestOutcome::Stale;
            }
        };
        on_document(&document);
        self.with_names(|session, names| {
            session.apply_document(&document, names, new, keeps_advice, now);
        });
        self.confirm_events();
        RequestOutcome::Document
    }

    /// Records that the newest poll showed the events as they are, but for those that no document has shown.
    fn confirm_events(&mut self) {
        for (slot, progress) in (0..self.tracker.slots_used()).zip(&mut self.progress) {
            if self
                .tracker
                .get(slot)
                .is_some_and(|event| !event.flags.has(Flags::NOTIFIED))
            {
                // Unless the document lacks one that it may be too old for.
                if !progress.is_absent() {
                    progress.confirm(self.polls);
                }
            }
        }
    }
}
