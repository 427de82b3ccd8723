//! Requests to Azure Resource Manager.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use azure_core::credentials::Secret;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode, Url};
use scheduled_events::clock::Clock;
use scheduled_events_common::http::{self, HttpError};
use scheduled_events_common::log;
use scheduled_events_common::secret::without_echo;
use scheduled_events_core::approval::{AcknowledgeError, acknowledge};
use scheduled_events_core::{
    BufferTooSmall, ResourceId, ResourceIdError, Text, UnixMillis, UnixSeconds,
};
use serde::Deserialize;
use tokio::time::Instant;

use super::identity::{Identity, IdentityError};
use super::transport::{self, REQUEST_TIME, client};

/// The longest response: a page of Resource Graph has at most 16 MiB.
const RESPONSE_MAX: usize = 17 * 1024 * 1024;

/// The header of Resource Graph with the time until the full quota is available again, as
/// `hh:mm:ss`.
const QUOTA_RESETS_AFTER: &str = "x-ms-user-quota-resets-after";

/// If this machine's clock differs from Azure's by at least this much, Azure's counts. Azure sends
/// whole seconds, and an answer takes a while.
const CLOCK_DIFFERENCE_MIN: Duration = Duration::from_secs(60);

/// The longest pause that is accepted.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// The client of Azure Resource Manager.
#[derive(Clone, Debug)]
pub struct Arm {
    client: reqwest::Client,
    management: Url,
    identity: Identity,
    time: Arc<AzureTime>,
}

/// Azure's time of day, from its answers: Azure starts events by it.
#[derive(Debug)]
struct AzureTime {
    clock: Clock,
    /// How far Azure's clock is ahead of this machine's, in milliseconds.
    ahead_ms: Mutex<Option<i64>>,
    has_warned: AtomicBool,
}

impl AzureTime {
    /// Reads the time in the header `Date` of an answer.
    fn observe(&self, headers: &HeaderMap) {
        let text = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = text.and_then(UnixSeconds::parse) else {
            return;
        };
        *self.ahead_ms.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(UnixMillis::from(date).0 - self.clock.now().0);
        let lag = date.since(self.clock.time_of_day().seconds());
        if lag.unsigned_abs() >= CLOCK_DIFFERENCE_MIN.as_secs()
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            let (difference, word) = (
                lag.unsigned_abs(),
                if lag > 0 { "behind" } else { "ahead of" },
            );
            log::line(&format!(
                "warning: this machine's clock is {difference} s {word} Azure's, which counts; set it"
            ));
        }
    }
}

/// Why a request failed. Several callers may wait for the answer to one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ArmError {
    /// The request cannot be made.
    Invalid(ApprovalError),
    /// The approval was not sent: its event has changed, or this hub stops.
    Withdrawn,
    /// The approval was not sent: the gate's yes is too old.
    Late,
    /// The approval was not sent: another hub may have taken over.
    NotActive,
    /// There is no token for the request.
    NoToken(Arc<IdentityError>),
    /// There was no response.
    Unreachable {
        /// The address, without its scheme.
        place: String,
        /// The error of the request.
        error: Arc<HttpError>,
    },
    /// The answer of Resource Graph is not the expected one.
    NotUnderstood {
        /// What it does, after "Resource Graph".
        answer: &'static str,
        /// What its reader found.
        error: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The answer to an approval is a success, but not the documented one. It is not known what it
    /// means, so it approves nothing.
    UnknownApproval {
        /// Its status.
        status: u16,
    },
    /// The service refused.
    Refused(Refusal),
}

/// Why an approval cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The resource's id is invalid.
    Resource {
        /// The id.
        id: String,
        /// What was expected.
        error: ResourceIdError,
    },
    /// An event's id is invalid.
    Event(AcknowledgeError),
    /// The request is longer than it was going to be.
    TooLong(BufferTooSmall),
}

/// A service's refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// The status of the response.
    #[serde(skip)]
    pub status: u16,
    /// The reason in one word, such as `AuthorizationFailed`.
    pub code: String,
    /// The reason for people.
    pub message: String,
    /// Which of several requests were refused; empty if all were.
    pub details: Vec<Detail>,
    /// How long to wait before the next request, if the service specifies it.
    #[serde(skip)]
    pub pause: Option<Duration>,
}

/// The refusal of one of several requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// The id of the event.
    pub target: String,
    /// The reason in one word.
    pub code: String,
    /// The reason for people.
    pub message: String,
}

impl ArmError {
    /// The status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        Some(self.refusal()?.status)
    }

    /// How long to wait before the next request, if the service specifies it.
    pub fn pause(&self) -> Option<Duration> {
        self.refusal()?.pause
    }

    /// The same, with this much of the pause left.
    #[must_use]
    pub fn with_pause(self, left: Duration) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Refusal {
                pause: Some(left),
                ..refusal
            }),
            other => other,
        }
    }

    /// The service's refusal, if there was a response.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl Refusal {
    /// The same without what the server repeats of the request: its texts are shown.
    fn without_echo(mut self, secret: &str) -> Self {
        let clean = |code: &mut String, message: &mut String| {
            *code = without_echo(transport::code(code), &[secret]);
            *message = without_echo(message, &[secret]);
        };
        clean(&mut self.code, &mut self.message);
        for detail in &mut self.details {
            clean(&mut detail.code, &mut detail.message);
        }
        self
    }

    /// Whether the answer names the refused events: each detail names one of `event_ids`. Other
    /// errors of ARM have details, too, with other targets or without one: they refuse all events.
    pub fn is_in_part(&self, event_ids: &[&str]) -> bool {
        let names_one = |detail: &Detail| {
            event_ids
                .iter()
                .any(|id| detail.target.eq_ignore_ascii_case(id))
        };
        !self.details.is_empty() && self.details.iter().all(names_one)
    }

    /// Whether the events that no detail names were approved. With a status of failure, none may
    /// have been.
    pub fn approves_others(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl fmt::Display for ArmError {
    /// One line, escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::Withdrawn => f.write_str("what was decided before no longer counts"),
            Self::Late => f.write_str(
                "it could not be sent soon after the gate's yes, and the gate is asked again",
            ),
            Self::NotActive => f.write_str("another hub may have taken over"),
            Self::NoToken(error) => error.fmt(f),
            Self::Unreachable { place, error } => write!(f, "{place} does not answer: {error}"),
            Self::NotUnderstood { answer, error } => {
                write!(f, "Resource Graph {answer}")?;
                error.as_ref().map_or(Ok(()), |error| {
                    // It may quote the answer.
                    let text = without_echo(&error.to_string(), &[]);
                    write!(f, " {}", text.escape_debug())
                })
            }
            Self::UnknownApproval { status } => write!(
                f,
                "status {status}, and no text \"Successfully Approved\" in `value`, as Azure documents it: this approves nothing"
            ),
            Self::Refused(Refusal {
                status,
                code,
                message,
                ..
            }) => {
                write!(f, "status {status}")?;
                for text in [code, message].into_iter().filter(|text| !text.is_empty()) {
                    let text: String = text.chars().take(300).collect();
                    write!(f, ", {}", text.escape_debug())?;
                }
                Ok(())
            }
        }
    }
}

impl Error for ArmError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => error.source(),
            Self::NoToken(error) => error.source(),
            Self::Unreachable { error, .. } => Some(&**error),
            Self::NotUnderstood { error, .. } => error.as_ref().map(|error| &**error as _),
            Self::Withdrawn
            | Self::Late
            | Self::NotActive
            | Self::UnknownApproval { .. }
            | Self::Refused(_) => None,
        }
    }
}

impl fmt::Display for ApprovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource { id, error } => write!(f, "{id:?} is {error}"),
            Self::Event(error) => error.fmt(f),
            Self::TooLong(error) => error.fmt(f),
        }
    }
}

impl Error for ApprovalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Resource { error, .. } => Some(error),
            Self::Event(error) => error.source(),
            Self::TooLong(error) => error.source(),
        }
    }
}

impl Arm {
    /// The client of the service at this address.
    ///
    /// # Errors
    /// HTTP cannot be set up.
    pub fn new(management: Url, identity: Identity) -> Result<Self, HttpError> {
        let time = AzureTime {
            clock: Clock::start(),
            ahead_ms: Mutex::default(),
            has_warned: AtomicBool::default(),
        };
        Ok(Self {
            client: client(REQUEST_TIME)?,
            management,
            identity,
            time: Arc::new(time),
        })
    }

    /// Azure's time of day, if an answer has shown it and it differs much from this machine's.
    pub fn time_unlike(&self, own: UnixMillis) -> Option<UnixMillis> {
        let ahead_ms = (*self
            .time
            .ahead_ms
            .lock()
            .unwrap_or_else(PoisonError::into_inner))?;
        let time = UnixMillis(self.time.clock.now().0.saturating_add(ahead_ms));
        (u128::from(time.0.abs_diff(own.0)) >= CLOCK_DIFFERENCE_MIN.as_millis()).then_some(time)
    }

    /// Approves events of a resource, for all machines that they affect. The token is the one of
    /// [`Self::access`]. The request ends at `until`, if it has no answer before.
    ///
    /// # Errors
    /// The refusal. Some of several events may have been approved.
    pub async fn acknowledge(
        &self,
        token: &Secret,
        resource_id: &str,
        event_ids: &[&str],
        until: Instant,
    ) -> Result<(), ArmError> {
        let (path, body) = approval(resource_id, event_ids).map_err(ArmError::Invalid)?;
        let (status, answer) = self
            .send_with(token, Method::POST, &path, body, until)
            .await?;
        if status == StatusCode::OK && is_approval(&answer) {
            return Ok(());
        }
        // An error approves nothing, whatever its status is.
        match refusal(status, &answer, None) {
            Refusal { code, details, .. } if code.is_empty() && details.is_empty() => {
                let status = status.as_u16();
                Err(ArmError::UnknownApproval { status })
            }
            refusal => Err(ArmError::Refused(refusal.without_echo(token.secret()))),
        }
    }

    fn base(&self) -> &str {
        self.management.as_str().trim_end_matches('/')
    }

    /// The token for requests. A request that has one waits for none.
    ///
    /// # Errors
    /// There is none.
    pub async fn access(&self) -> Result<Secret, ArmError> {
        self.identity
            .token(self.base())
            .await
            .map_err(|error| ArmError::NoToken(Arc::new(error)))
    }

    /// Sends a request and returns the body of its response. `path` begins with `/` and has its
    /// query.
    ///
    /// # Errors
    /// There was no response, or it reports a failure.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, ArmError> {
        let token = self.access().await?;
        self.send_with(&token, method, path, body, Instant::now() + REQUEST_TIME)
            .await
            .map(|(_, body)| body)
    }

    async fn send_with(
        &self,
        token: &Secret,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        until: Instant,
    ) -> Result<(StatusCode, Vec<u8>), ArmError> {
        let base = self.base();
        let place = base.split("://").last().unwrap_or_default();
        let failed = |error: HttpError| ArmError::Unreachable {
            place: place.to_owned(),
            error: Arc::new(error),
        };
        let mut request = self.client.request(method, format!("{base}{path}"));
        let left = until.saturating_duration_since(Instant::now());
        request = request.timeout(left.min(REQUEST_TIME));
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.secret()));
        request = match body {
            Some(body) => request.header(CONTENT_TYPE, "application/json").body(body),
            None => request.header(reqwest::header::CONTENT_LENGTH, "0"),
        };
        let response = request
            .send()
            .await
            .map_err(|error| failed(HttpError::Connection(error.without_url())))?;
        self.time.observe(response.headers());
        let (status, pause) = (response.status(), pause(response.headers()));
        if status == StatusCode::UNAUTHORIZED {
            self.identity.forget(base, Some(token));
        }
        let body = http::body(response, RESPONSE_MAX).await.map_err(failed)?;
        // The answer to a list that was approved in part has status 207.
        let is_done = status.is_success() && status != StatusCode::MULTI_STATUS;
        if is_done {
            Ok((status, body))
        } else {
            let refusal = refusal(status, &body, pause);
            Err(ArmError::Refused(refusal.without_echo(token.secret())))
        }
    }
}

/// Whether this is the documented answer to an approval: `{"value": "Successfully Approved"}`, in one
/// place with more words.
fn is_approval(body: &[u8]) -> bool {
    let answer: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).unwrap_or_default();
    let text = answer.get("value").and_then(|value| value.as_str());
    let has_error = answer.keys().any(|key| key.eq_ignore_ascii_case("error"));
    text.is_some_and(|text| {
        text.to_ascii_lowercase()
            .starts_with("successfully approved")
    }) && !has_error
}

/// The path and the body of the request that approves events of a resource.
///
/// # Errors
/// The resource's id or an event's id is invalid.
pub fn approval(
    resource_id: &str,
    event_ids: &[&str],
) -> Result<(String, Option<Vec<u8>>), ApprovalError> {
    let resource = ResourceId::parse(Text::plain(resource_id)).map_err(|error| {
        let id = resource_id.to_owned();
        ApprovalError::Resource { id, error }
    })?;
    let request = acknowledge(resource, event_ids).map_err(ApprovalError::Event)?;
    let mut path = vec![0; request.path_len()];
    let path = request
        .write_path(&mut path)
        .map_err(ApprovalError::TooLong)?
        .to_owned();
    let mut body = vec![0; request.body_len()];
    request
        .write_body(&mut body)
        .map_err(ApprovalError::TooLong)?;
    Ok((path, (!body.is_empty()).then_some(body)))
}

/// The error in a response, in ARM's form if the response has it.
fn refusal(status: StatusCode, body: &[u8], pause: Option<Duration>) -> Refusal {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        error: Refusal,
    }
    let Body { error } = serde_json::from_slice(body).unwrap_or_default();
    Refusal {
        status: status.as_u16(),
        pause,
        ..error
    }
}

/// How long to wait before the next request, from the headers.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let after = text(RETRY_AFTER.as_str())
        .and_then(|text| text.trim().parse().ok())
        .map(Duration::from_secs);
    let quota = text(QUOTA_RESETS_AFTER).and_then(clock);
    after.max(quota).map(|pause| pause.min(PAUSE_MAX))
}

/// A time as `hh:mm:ss`.
fn clock(text: &str) -> Option<Duration> {
    let parts: Vec<u64> = text
        .trim()
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else {
        return None;
    };
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    minutes
        .checked_mul(60)?
        .checked_add(seconds)
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use scheduled_events_test_support::TestServer;

    use super::super::identity::tests::Issuer;
    use super::*;

    #[tokio::test]
    async fn a_token_that_is_refused_is_not_sent_again() {
        let server = TestServer::start(|connection| {
            let mut lines = BufReader::new(&**connection).lines().map_while(Result::ok);
            loop {
                let headers: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
                if headers.is_empty() {
                    break;
                }
                let is_refused = headers
                    .iter()
                    .any(|header| header.ends_with("Bearer token-1"));
                let status = if is_refused {
                    "401 Unauthorized"
                } else {
                    "200 OK"
                };
                let _ = write!(
                    &**connection,
                    "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"
                );
            }
        });
        let issuer = Issuer::new();
        let arm = Arm::new(server.url().parse().expect("an address"), issuer.identity())
            .expect("a client");
        let statuses = [
            arm.send(Method::POST, "/a", None).await,
            arm.send(Method::POST, "/a", None).await,
        ];
        let statuses = statuses.map(|result| result.err().and_then(|error| error.status()));
        assert_eq!((statuses, issuer.count()), ([Some(401), None], 2));
    }

    #[test]
    fn a_pause_is_the_longer_of_what_two_headers_say() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs
                .iter()
                .map(|(name, value)| {
                    (
                        name.parse().expect("a name"),
                        value.parse().expect("a value"),
                    )
                })
                .collect()
        };
        for (pairs, expected) in [
            (&[][..], None),
            (&[("retry-after", "7")], Some(7)),
            (&[(QUOTA_RESETS_AFTER, "00:01:05")], Some(65)),
            (
                &[("retry-after", "7"), (QUOTA_RESETS_AFTER, "00:00:03")],
                Some(7),
            ),
            (&[("retry-after", "soon"), (QUOTA_RESETS_AFTER, "5")], None),
            (&[(QUOTA_RESETS_AFTER, "99999999999999999:00:00")], None),
            (&[("retry-after", "86400")], Some(600)),
        ] {
            let headers: HeaderMap = headers(pairs);
            assert_eq!(
                pause(&headers),
                expected.map(Duration::from_secs),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn a_refusal_is_read_and_shown_in_one_line() {
        let body = br#"{"error":{"code":"Conflict","message":"a\nb","details":[{"target":"E1","code":"NotFound"}]}}"#;
        let refusal = refusal(StatusCode::CONFLICT, body, None);
        assert_eq!(refusal.details[0].target, "E1");
        assert_eq!(
            ArmError::Refused(refusal).to_string(),
            r"status 409, Conflict, a\nb"
        );
        let error = ArmError::Refused(super::refusal(StatusCode::BAD_GATEWAY, b"<html>", None));
        assert_eq!(error.to_string(), "status 502");
    }
}
