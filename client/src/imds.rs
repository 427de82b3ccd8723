//! The metadata service over HTTP: one request, one answer, nothing believed that was not asked for.
//!
//! Plain HTTP, never through a proxy, never to where a redirect points; `Metadata: true` and `api-version` on every
//! request; bodies, headers and time bounded.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events_core::{Cause, limits};
use ureq::http::{HeaderMap, Uri, header};

/// Where the metadata service lives on every Azure virtual machine in a virtual network.
pub const ENDPOINT: &str = "http://169.254.169.254";

/// The API version that is asked for unless told otherwise: the newest documented one.
pub const API_VERSION: &str = "2020-07-01";

/// The version whose resources carry a leading underscore.
pub const UNDERSCORED_API_VERSION: &str = "2017-03-01";

/// The longest body that is read. A document of a thousand events takes half a mebibyte.
pub const BODY_MAX: u64 = 8 * 1024 * 1024;

/// The longest body that is read where only the status counts.
const REMARK_MAX: u64 = 64 * 1024;

/// The longest head of an answer that is read: the service's own has less than one kibibyte.
pub const HEAD_MAX: usize = 16 * 1024;

/// The buffer for requests. A longer one goes out in parts; those of a watch have three kibibytes at most.
const REQUEST_BUFFER: usize = 4 * 1024;

/// The API version for the machine's own name.
const NAME_API_VERSION: &str = "2021-02-01";

/// The shortest time between two requests, whatever they ask for: the service answers 429 past five in a second.
const SPACING: Duration = Duration::from_millis(limits::REQUEST_SPACING_MS as u64);

/// What Azure allows in no name of a machine; a page of HTML has it, and would make every event another machine's.
const NOT_IN_NAMES: &str = " <>\"/\\[]:|+=;,?*@&'`";

/// How long the question for the machine's own name may take. It is asked again later, so it never holds up a poll for
/// long.
pub const NAME_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP answer, whatever it says.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The `ETag` header.
    pub etag: Option<String>,
    /// The `Retry-After` header in seconds, a date converted.
    pub retry_after: Option<u32>,
    /// The body, at most [`BODY_MAX`] bytes.
    pub body: Vec<u8>,
}

/// No usable answer.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why, as a session wants to know it.
    pub cause: Cause,
    /// What the transport says about it.
    pub detail: String,
}

/// A connection to the metadata service, kept alive between requests.
#[derive(Clone, Debug)]
pub struct Imds {
    agent: ureq::Agent,
    endpoint: String,
    events: String,
    /// When the next request may go out; all clones keep the same pace.
    next: Arc<Mutex<Option<Instant>>>,
    speed: u32,
}

impl Imds {
    /// Prepares requests to `endpoint`, a URL such as `http://169.254.169.254`; nothing is sent yet.
    ///
    /// An endpoint that is neither that address nor a loopback address is refused unless `allow_any` is set: whoever
    /// answers there decides when this machine's services are drained.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the endpoint or the version, and what to do.
    ///
    /// ```
    /// use scheduled_events::imds::{API_VERSION, Imds};
    ///
    /// assert!(Imds::new("http://169.254.169.254", API_VERSION, false).is_ok());
    /// assert!(Imds::new("http://example.com", API_VERSION, false).is_err());
    /// assert!(Imds::new("https://169.254.169.254", API_VERSION, false).is_err());
    /// ```
    pub fn new(endpoint: &str, api_version: &str, allow_any: bool) -> Result<Self, String> {
        let endpoint = endpoint.trim_end_matches('/');
        let uri: Uri = endpoint.parse().map_err(|error| format!("the endpoint {endpoint:?} is no URL: {error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err(format!("the endpoint {endpoint:?} must start with http://, as {ENDPOINT} does"));
        }
        if uri.path().len() > 1
            || uri.query().is_some()
            || uri.authority().is_some_and(|host| host.as_str().contains('@'))
        {
            return Err(format!("the endpoint {endpoint:?} must be a scheme, a host and a port, as {ENDPOINT} is"));
        }
        // A port that is none would be taken for 80 without a word.
        if uri.authority().is_some_and(|host| host.as_str() != host.host()) && uri.port_u16().is_none() {
            return Err(format!("the endpoint {endpoint:?} names a port outside 0 to 65535"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let local = host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            || host == "169.254.169.254";
        if !local && !allow_any {
            return Err(format!(
                "the endpoint {endpoint:?} is neither 169.254.169.254 nor on this machine; --allow-endpoint accepts it"
            ));
        }
        if api_version.is_empty() || !api_version.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(format!("{api_version:?} is no API version; the newest is {API_VERSION}"));
        }
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(HEAD_MAX)
            // Both buffers are kept as long as the connection is, which is for months. That of answers has room for more
            // than the longest head, since a longer one is recognised when it is there.
            .input_buffer_size(HEAD_MAX * 2)
            .output_buffer_size(REQUEST_BUFFER)
            .max_idle_connections(1)
            .user_agent(concat!("scheduled-events/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let events = format!("{endpoint}/metadata/scheduledevents?api-version={api_version}");
        Ok(Self { agent, endpoint: endpoint.to_owned(), events, next: Arc::default(), speed: 1 })
    }

    /// Lets time pass so many times faster for the pace of requests, and for a watch that is made with this: a rehearsal
    /// of months in hours, against a service of one's own that keeps up. Timeouts stay as they are. Azure's service
    /// answers 429 past five requests a second, so this is nothing for a machine that is watched in earnest.
    #[must_use]
    pub fn at_speed(self, speed: u32) -> Self {
        Self { speed: speed.max(1), ..self }
    }

    /// How many times faster time passes than it really does.
    pub fn speed(&self) -> u32 {
        self.speed
    }

    /// Waits until a request may go out. A watch keeps its polls and approvals apart by itself, but knows nothing of
    /// the question for the name, which goes out beside them.
    fn await_turn(&self) {
        let now = Instant::now();
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = next.map_or(now, |next| next.max(now));
            *next = Some(turn + SPACING / self.speed);
            turn
        };
        thread::sleep(turn.saturating_duration_since(now));
    }

    /// The endpoint, without a path.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Asks for the document.
    ///
    /// # Errors
    /// [`Failure`] where there is no whole answer in time; any status is an answer.
    pub fn events(&self, if_none_match: Option<&str>, timeout: Duration) -> Result<Answer, Failure> {
        self.await_turn();
        let mut request = self.agent.get(&self.events).header("Metadata", "true");
        if let Some(etag) = if_none_match {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        answer(request.config().timeout_global(Some(timeout)).build().call(), |status| status == 200)
    }

    /// Posts an approval.
    ///
    /// # Errors
    /// [`Failure`] where there is no whole answer in time; any status is an answer.
    pub fn approve(&self, body: &[u8], timeout: Duration) -> Result<Answer, Failure> {
        self.await_turn();
        let request = self.agent.post(&self.events).header("Metadata", "true").content_type("application/json");
        // What the service says beside the status is undocumented, so nothing about it can make an approval fail.
        answer(request.config().timeout_global(Some(timeout)).build().send(body), |_| false)
    }

    /// Asks for the machine's own name, as the `Resources` of its events spell it.
    ///
    /// # Errors
    /// A sentence that says why there is no name.
    pub fn vm_name(&self, timeout: Duration) -> Result<String, String> {
        let url =
            format!("{}/metadata/instance/compute/name?api-version={NAME_API_VERSION}&format=text", self.endpoint);
        self.await_turn();
        let request = self.agent.get(url).header("Metadata", "true");
        let answer = answer(request.config().timeout_global(Some(timeout)).build().call(), |status| status == 200)
            .map_err(|failure| format!("{} ({})", failure.cause, failure.detail))?;
        if answer.status != 200 {
            return Err(format!("status {}", answer.status));
        }
        let name = String::from_utf8(answer.body).map_err(|_| "the answer is not UTF-8".to_owned())?;
        let name = name.trim();
        if name.is_empty()
            || name.len() > 128
            || name.chars().any(|char| char.is_control() || NOT_IN_NAMES.contains(char))
        {
            return Err(format!("{:?} is no name of a machine", name.chars().take(60).collect::<String>()));
        }
        Ok(name.to_owned())
    }
}

/// What the service says with a status that refuses a request, and what may help.
pub fn remark(answer: &Answer) -> String {
    let said = String::from_utf8_lossy(&answer.body);
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = body["error"].as_str().unwrap_or(said.trim());
    let mut said: String = said.chars().take(300).collect();
    let versions = body["newest-versions"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    let versions: Vec<_> = versions.collect();
    let advice = match answer.status {
        400 if !versions.is_empty() => format!("--api-version {} may help", versions.join(" or ")),
        404 | 408 | 410 | 429 | 500..=599 => "try again in a minute".into(),
        300..=399 => "redirects are not followed".into(),
        _ => return said,
    };
    if !said.is_empty() {
        said.push_str("; ");
    }
    said + &advice
}

/// Takes an answer. A body that cannot be read makes it unusable only where one is needed with its status: a 429 asks for
/// patience, and an approval has succeeded, whatever follows.
fn answer(
    result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    needs_body: impl Fn(u16) -> bool,
) -> Result<Answer, Failure> {
    let mut response = result.map_err(|error| failure(&error))?;
    let needed = needs_body(response.status().as_u16());
    let limit = if needed { BODY_MAX } else { REMARK_MAX };
    let body = match response.body_mut().with_config().limit(limit).read_to_vec() {
        Err(error) if needed => return Err(failure(&error)),
        body => body.unwrap_or_default(),
    };
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    Ok(Answer {
        status: response.status().as_u16(),
        etag: text(header::ETAG).map(str::to_owned),
        retry_after: retry_after(response.headers()),
        body,
    })
}

/// `Retry-After`: seconds, or a date. A date is the service's, so it is held against the service's own clock where the
/// answer tells that.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let moment = httpdate::parse_http_date(text).ok()?;
    let date = headers.get(header::DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let wait = moment.duration_since(date.unwrap_or_else(SystemTime::now)).unwrap_or_default();
    // A started second is waited for in full.
    u32::try_from(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))).ok()
}

fn failure(error: &ureq::Error) -> Failure {
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
    Failure { cause, detail: error.to_string() }
}

/// The body limit comes out of a reader, and so inside an I/O error.
fn wraps_too_large(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    matches!(inner, Some(ureq::Error::BodyExceedsLimit(_)))
        || error.source().is_some_and(|source| matches!(source.downcast_ref(), Some(ureq::Error::BodyExceedsLimit(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_refused_say_why() {
        for (endpoint, reason) in [
            ("https://169.254.169.254", "must start with http://"),
            ("169.254.169.254", "must start with http://"),
            ("http://127.0.0.1/metadata", "a scheme, a host and a port"),
            ("http://user@127.0.0.1", "a scheme, a host and a port"),
            ("http://127.0.0.1:99999", "a port"),
            ("http://127.0.0.1:", "a port"),
            ("http://10.0.0.4", "--allow-endpoint"),
            ("http://169.254.169.254.example.com", "--allow-endpoint"),
            ("http://", "must start with http://"),
            ("http://[::1", "is no URL"),
        ] {
            let refused = Imds::new(endpoint, API_VERSION, false).expect_err(endpoint);
            assert!(refused.contains(reason), "{endpoint}: {refused}");
        }
        assert!(Imds::new("http://127.0.0.1:80/", API_VERSION, false).is_ok());
        assert!(Imds::new("http://[::1]:8080", API_VERSION, false).is_ok());
        assert!(Imds::new("http://10.0.0.4", API_VERSION, true).is_ok());
        assert!(Imds::new(ENDPOINT, "2020-07-01&x=1", false).is_err());
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
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
        // A service whose clock is years off from ours.
        let mut headers = HeaderMap::new();
        headers.insert(header::DATE, "Mon, 19 Sep 2016 18:29:40 GMT".parse().unwrap());
        headers.insert(header::RETRY_AFTER, "Mon, 19 Sep 2016 18:29:47 GMT".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(7));
    }
}
