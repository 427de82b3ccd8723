//! What the service answers, and why there is no usable answer.

use std::error::Error as _;
use std::io;
use std::time::SystemTime;

use scheduled_events_core::Cause;
use ureq::http::{HeaderMap, header};

use super::{RequestFailure, ResponseHead};
use crate::limits::{BODY_MAX, ERROR_BODY_MAX};

/// The advice where the service refuses this process, which without that protocol it never does.
const NOT_LISTED: &str =
    "where the Metadata Security Protocol is enforced, its allowlist has to name this program";

/// A whole HTTP response of any status.
///
/// ```
/// use scheduled_events::imds::HttpResponse;
///
/// let response = HttpResponse { status: 503, body: b"busy".to_vec(), ..HttpResponse::default() };
/// assert_eq!(response.error_message("the API version"), "busy; try again in a minute");
/// ```
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The `Retry-After` header in seconds. A date is converted.
    pub retry_after: Option<u32>,
    /// The service's time of day, from the `Date` header.
    pub date: Option<SystemTime>,
    /// The body, at most [`BODY_MAX`] bytes.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Why the service refuses a request that is repeated if that may help, if it gives a reason.
    ///
    /// ```
    /// use scheduled_events::imds::HttpResponse;
    ///
    /// let response = |status| HttpResponse { status, body: b"no".to_vec(), ..HttpResponse::default() };
    /// assert!(response(400).refusal().is_some_and(|reason| reason.starts_with("no")));
    /// assert_eq!(response(503).refusal().as_deref(), Some("no"));
    /// assert_eq!(response(200).refusal(), None);
    /// ```
    pub fn refusal(&self) -> Option<String> {
        matches!(self.status, 400..=599)
            .then(|| self.explained("the API version", ""))
            .filter(|message| !message.is_empty())
    }

    /// The reason that the service gives for refusing a request, with advice if there is any. Empty if it gives none. `version` is what
    /// the reader of the message calls the API version, such as an option.
    pub fn error_message(&self, version: &str) -> String {
        self.explained(version, "try again in a minute")
    }

    /// The reason and the advice; `retry` is that for what a repetition may help against.
    fn explained(&self, version: &str, retry: &str) -> String {
        let text = String::from_utf8_lossy(&self.body);
        // As everywhere from text: a reader of bytes would be another copy of it.
        let body = std::str::from_utf8(&self.body).unwrap_or_default();
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let error = body["error"].as_str().unwrap_or(text.trim());
        // The error is a word then, and this is the sentence.
        let described = body["error_description"]
            .as_str()
            .map_or(String::new(), |description| format!(": {description}"));
        let message = format!("{error}{described}");
        let mut message: String = message.chars().take(300).collect();
        let versions = body["newest-versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_str);
        let versions: Vec<_> = versions.collect();
        let advice = match self.status {
            400 if !versions.is_empty() => format!("try {version} {}", versions.join(" or ")),
            401 | 403 => NOT_LISTED.into(),
            304 | 404 | 408 | 410 | 429 | 500..=599 => retry.to_owned(),
            300..=399 => "redirects are not followed".into(),
            _ => return message,
        };
        if !message.is_empty() && !advice.is_empty() {
            message.push_str("; ");
        }
        message + &advice
    }
}

/// Reads a response. An unreadable body is a failure only if the status needs one: a 429 still asks for patience, and an approval
/// has succeeded whatever follows its status.
pub(super) fn response(
    result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    needs_body: impl Fn(u16) -> bool,
) -> Result<HttpResponse, RequestFailure> {
    let mut response = result.map_err(|error| failure(&error))?;
    let needed = needs_body(response.status().as_u16());
    let limit = if needed { BODY_MAX } else { ERROR_BODY_MAX };
    let body = match response.body_mut().with_config().limit(limit).read_to_vec() {
        Err(error) if needed => return Err(failure(&error)),
        body => body.unwrap_or_default(),
    };
    let headers = response.headers();
    Ok(HttpResponse {
        status: response.status().as_u16(),
        retry_after: retry_after(headers),
        date: date(headers),
        body,
    })
}

/// Status and header, for a trace.
pub(super) fn response_head(response: &ureq::http::Response<ureq::Body>) -> ResponseHead {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let fields = response.headers().iter();
    ResponseHead {
        status: response.status().as_u16(),
        headers: fields
            .map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())))
            .collect(),
    }
}

/// `Retry-After` in seconds. A date is compared with the service's own clock if the response has a `Date`.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let moment = httpdate::parse_http_date(text).ok()?;
    let wait = moment
        .duration_since(date(headers).unwrap_or_else(SystemTime::now))
        .unwrap_or_default();
    // Rounded up.
    u32::try_from(
        wait.as_secs()
            .saturating_add(u64::from(wait.subsec_nanos() > 0)),
    )
    .ok()
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(header::DATE)?.to_str().ok()?).ok()
}

pub(super) fn failure(error: &ureq::Error) -> RequestFailure {
    let cause = match error {
        ureq::Error::Timeout(_) => Cause::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Cause::Unreachable,
        ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => Cause::TooLarge,
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Cause::Timeout,
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => Cause::Unreachable,
            _ if wraps_too_large(error) => Cause::TooLarge,
            _ => Cause::ConnectionLost,
        },
        _ => Cause::ConnectionLost,
    };
    RequestFailure {
        cause,
        detail: error.to_string(),
    }
}

/// The error for a body beyond the limit comes from a reader, so it is inside an I/O error.
fn wraps_too_large(error: &io::Error) -> bool {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ureq::Error>());
    matches!(inner, Some(ureq::Error::BodyExceedsLimit(_)))
        || error.source().is_some_and(|source| {
            matches!(
                source.downcast_ref(),
                Some(ureq::Error::BodyExceedsLimit(_))
            )
        })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_advice_for_a_304_is_not_that_for_a_redirect() {
        let advice = |status| {
            HttpResponse {
                status,
                ..HttpResponse::default()
            }
            .error_message("the API version")
        };
        assert_eq!(advice(304), "try again in a minute");
        for status in [301, 302, 307, 308] {
            assert_eq!(advice(status), "redirects are not followed");
        }
    }

    #[test]
    fn the_description_of_an_error_is_shown_and_a_process_that_is_refused_learns_why_that_may_be() {
        let refusal = |status, body: &str| {
            let body = body.as_bytes().to_vec();
            let answer = HttpResponse {
                status,
                body,
                ..HttpResponse::default()
            };
            answer.refusal().unwrap_or_default()
        };
        let described = r#"{"error":"too_many_requests","error_description":"Retry in 2 s"}"#;
        assert_eq!(refusal(429, described), "too_many_requests: Retry in 2 s");
        assert_eq!(refusal(500, "\r\nbusy\r\n"), "busy");
        for status in [401, 403] {
            assert_eq!(refusal(status, ""), NOT_LISTED);
            assert_eq!(refusal(status, "no"), format!("no; {NOT_LISTED}"));
        }
    }

    #[test]
    fn reads_retry_after_as_seconds_and_as_a_date() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(with("7"), Some(7));
        assert_eq!(with("soon"), None);
        assert_eq!(with("Mon, 19 Sep 2016 18:29:47 GMT"), Some(0));
        let ahead = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(30));
        assert!(with(&ahead).is_some_and(|seconds| (28..=30).contains(&seconds)));
        // The service's clock is years slow.
        let mut headers = HeaderMap::new();
        headers.insert(
            header::DATE,
            "Mon, 19 Sep 2016 18:29:40 GMT".parse().unwrap(),
        );
        headers.insert(
            header::RETRY_AFTER,
            "Mon, 19 Sep 2016 18:29:47 GMT".parse().unwrap(),
        );
        assert_eq!(retry_after(&headers), Some(7));
    }
}
