//! The metadata service over HTTP (`docs/inside/wire.md`, section 1).
//!
//! Plain HTTP, without a proxy, and without following redirects. Every request carries `Metadata: true` and `api-version`, and is
//! never conditional. Bodies, heads and times are bounded.

// This file sends requests. `response` has what comes back, `error` why nothing does, and `resolver` the addresses of host names.

mod error;
mod resolver;
mod response;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::{Cause, VmNames, limits, wire};
use ureq::http::Uri;
use ureq::unversioned::transport::DefaultConnector;

use crate::limits::{CONNECT_TIMEOUT, HEAD_MAX};

pub use error::{ImdsError, MetadataError, RequestFailure};
pub use response::HttpResponse;

use resolver::DirectResolver;
use response::{response, response_head};

/// The address of the metadata service on every Azure virtual machine in a virtual network.
pub const ENDPOINT: &str = wire::ENDPOINT;

/// The newest API version that is generally available.
pub const API_VERSION: &str = wire::API_VERSION;

/// The word for no API version in particular: [`API_VERSION`], unless something needs a newer one.
pub const AUTO_API_VERSION: &str = "auto";

/// The API version whose resource names start with an underscore.
pub const UNDERSCORED_API_VERSION: &str = wire::UNDERSCORED_API_VERSION;

/// The path and the query of what the instance's metadata has about the machine, as JSON.
const COMPUTE_PATH: &str = "/metadata/instance/compute?api-version=2021-02-01";

/// The request buffer, in bytes. A longer request is sent in parts; those of a watcher have at most 3 KiB.
const REQUEST_BUFFER: usize = 4 * 1024;

/// The shortest time between two requests of any kind. The service answers 429 beyond five a second.
const SPACING: Duration = Duration::from_millis(limits::REQUEST_SPACING_MS as u64);

/// The longest `User-Agent`, in bytes.
pub const USER_AGENT_MAX: usize = 256;

/// Characters that Azure allows in no machine name. They reject an HTML page, which would make every event another machine's.
const NOT_IN_NAMES: &str = " <>\"/\\[]:|+=;,?*@&'`";

/// A request and its result, for a trace. `Display` writes it as one line without text from outside:
/// `GET /metadata/scheduledevents?api-version=2020-07-01 200 12 ms 345 bytes`.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::imds::Exchange;
/// use scheduled_events_core::Cause;
///
/// let exchange = Exchange {
///     method: "GET",
///     target: "/metadata/scheduledevents?api-version=2020-07-01",
///     request_headers: &[("Metadata", "true")],
///     request_body: b"",
///     result: Err(Cause::Timeout),
///     detail: Some("timeout: global"),
///     head: None,
///     body: b"",
///     time: Duration::from_millis(5_003),
///     bytes: 0,
/// };
/// assert_eq!(exchange.to_string(), "GET /metadata/scheduledevents?api-version=2020-07-01 timeout 5003 ms 0 bytes");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The path and the query.
    pub target: &'a str,
    /// The header fields that this client sets. The HTTP library adds `Host`, `Accept`, and `User-Agent` if there is none here.
    pub request_headers: &'a [(&'a str, &'a str)],
    /// The body of the request; empty for a `GET`.
    pub request_body: &'a [u8],
    /// The status of the response, or why there is no whole one.
    pub result: Result<u16, Cause>,
    /// The message of the HTTP library, if there is no whole response.
    pub detail: Option<&'a str>,
    /// Status line and header of the response, also of one whose body is not whole.
    pub head: Option<&'a ResponseHead>,
    /// The body of the response.
    pub body: &'a [u8],
    /// The time from the request to the end of the response.
    pub time: Duration,
    /// The length of the response's body.
    pub bytes: usize,
}

/// The status and the header of a response, for a trace.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// use scheduled_events::imds::Imds;
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let (sender, heads) = mpsc::channel();
/// let imds = Imds::new(&server.url())?;
/// imds.with_trace(move |exchange| drop(sender.send(exchange.head.cloned()))).events(Duration::from_secs(5))?;
/// let head = heads.recv()?.ok_or("a response")?;
/// assert_eq!(head.status, 200);
/// assert!(head.headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("application/json")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// Each header field in the order in which it was sent, its name in lower case. Bytes that are no UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
}

impl fmt::Display for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.method, self.target)?;
        match &self.result {
            Ok(status) => write!(f, "{status}")?,
            Err(cause) => f.write_str(cause.word())?,
        }
        write!(f, " {} ms {} bytes", self.time.as_millis(), self.bytes)
    }
}

/// What is called with each exchange.
#[derive(Clone)]
struct Trace(Arc<dyn Fn(&Exchange<'_>) + Send + Sync>);

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

/// A connection to the metadata service, kept alive between requests.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::imds::Imds;
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let scenario = Scenario::builtin("user-reboot").ok_or("a built-in name")?;
/// let server = Server::start(ServerConfig::new(scenario).vm_name("web_0").speed(60.0))?;
/// let imds = Imds::new(&server.url())?;
/// assert_eq!(imds.endpoint(), server.url());
/// assert_eq!(imds.vm_name(Duration::from_secs(5))?, "web_0");
/// assert_eq!(imds.vm_id(Duration::from_secs(5))?.len(), 36);
/// let response = imds.events(Duration::from_secs(5))?;
/// assert_eq!((response.status, &response.body[..]), (200, &br#"{"DocumentIncarnation":1,"Events":[]}"#[..]));
/// // No event has this id.
/// let refused = imds.approve(br#"{"StartRequests":[{"EventId":"a"}]}"#, Duration::from_secs(5));
/// assert_eq!(refused?.status, 400);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Imds {
    agent: ureq::Agent,
    user_agent: Option<String>,
    trace: Option<Trace>,
    endpoint: String,
    /// The address of events, up to the version.
    events: String,
    api_version: String,
    /// When the next request may be sent. All clones share it.
    next: Arc<Mutex<Option<Instant>>>,
    speed: u32,
}

impl Default for Imds {
    /// Requests to the service of every Azure machine, [`ENDPOINT`].
    fn default() -> Self {
        Self::prepared(ENDPOINT)
    }
}

impl Imds {
    /// Prepares requests to `endpoint`, a URL such as `http://169.254.169.254`, in [`API_VERSION`]. Nothing is sent yet.
    ///
    /// Endpoints other than that address and loopback addresses are rejected, since the responses decide when this machine is drained;
    /// see [`at_any_endpoint`](Self::at_any_endpoint).
    ///
    /// # Errors
    /// [`ImdsError`]: what is wrong with the endpoint, and what to do.
    ///
    /// ```
    /// use scheduled_events::imds::Imds;
    ///
    /// assert!(Imds::new("http://169.254.169.254").is_ok());
    /// assert!(Imds::new("http://example.com").is_err());
    /// assert!(Imds::new("https://169.254.169.254").is_err());
    /// ```
    pub fn new(endpoint: &str) -> Result<Self, ImdsError> {
        Self::checked(endpoint, false)
    }

    /// The same with any host: for a service that is forwarded from elsewhere. The server there decides when this machine is
    /// drained.
    ///
    /// # Errors
    /// [`ImdsError`]: what is wrong with the endpoint.
    ///
    /// ```
    /// use scheduled_events::imds::Imds;
    ///
    /// assert!(Imds::at_any_endpoint("http://10.0.0.4").is_ok());
    /// assert!(Imds::at_any_endpoint("http://10.0.0.4/metadata").is_err());
    /// ```
    pub fn at_any_endpoint(endpoint: &str) -> Result<Self, ImdsError> {
        Self::checked(endpoint, true)
    }

    fn checked(endpoint: &str, allow_any: bool) -> Result<Self, ImdsError> {
        let endpoint = endpoint.trim_end_matches('/');
        let shown = without_secrets(endpoint);
        let uri: Uri = match endpoint.parse::<Uri>() {
            Ok(uri) => uri,
            Err(error) => {
                return Err(ImdsError::NotAUrl {
                    endpoint: shown,
                    error: error.into(),
                });
            }
        };
        if uri.scheme_str() != Some("http") {
            return Err(ImdsError::NotHttp { endpoint: shown });
        }
        // The library drops a fragment without an error.
        if uri.path().len() > 1
            || uri.query().is_some()
            || endpoint.contains('#')
            || uri
                .authority()
                .is_some_and(|host| host.as_str().contains('@'))
        {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            let instead = if authority.contains('@') {
                ENDPOINT.to_owned()
            } else {
                format!("http://{authority}")
            };
            return Err(ImdsError::NotAnOrigin {
                endpoint: shown,
                instead,
            });
        }
        // The HTTP library would silently replace an invalid port by 80.
        if uri
            .authority()
            .is_some_and(|host| host.as_str() != host.host())
            && uri.port_u16().is_none()
        {
            return Err(ImdsError::InvalidPort { endpoint: shown });
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let local = host.eq_ignore_ascii_case("localhost")
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
            || host == "169.254.169.254";
        if !local && !allow_any {
            return Err(ImdsError::NotLocal { endpoint: shown });
        }
        Ok(Self::prepared(endpoint))
    }

    fn prepared(endpoint: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(HEAD_MAX)
            // The buffers live as long as the connection, which can be months. The input buffer is larger than the largest head,
            // since the library detects a larger one only once it is buffered.
            .input_buffer_size(HEAD_MAX * 2)
            .output_buffer_size(REQUEST_BUFFER)
            .max_idle_connections(1)
            .user_agent(concat!("scheduled-events/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), DirectResolver);
        let events = format!("{endpoint}{}?api-version=", wire::PATH);
        let endpoint = endpoint.to_owned();
        Self {
            agent,
            user_agent: None,
            trace: None,
            endpoint,
            events,
            api_version: API_VERSION.to_owned(),
            next: Arc::default(),
            speed: 1,
        }
    }

    /// Names this version of the API in the requests. [`AUTO_API_VERSION`] means [`API_VERSION`] here;
    /// [`events_in`](Self::events_in) names another one.
    ///
    /// # Errors
    /// [`ImdsError::InvalidApiVersion`] for what cannot be one.
    ///
    /// ```
    /// use scheduled_events::imds::Imds;
    ///
    /// assert_eq!(Imds::default().with_api_version("2019-08-01")?.api_version(), "2019-08-01");
    /// assert!(Imds::default().with_api_version("2020-07-01&x=1").is_err());
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn with_api_version(self, api_version: &str) -> Result<Self, ImdsError> {
        if api_version.is_empty()
            || !api_version
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(ImdsError::InvalidApiVersion(api_version.to_owned()));
        }
        let api_version = match api_version {
            AUTO_API_VERSION => API_VERSION,
            version => version,
        };
        Ok(Self {
            api_version: api_version.to_owned(),
            ..self
        })
    }

    /// Sends this `User-Agent` in the place of this crate's own.
    ///
    /// # Errors
    /// [`ImdsError::InvalidUserAgent`] if the text is empty, longer than [`USER_AGENT_MAX`] bytes, or not visible ASCII with inner spaces.
    ///
    /// ```
    /// use scheduled_events::imds::Imds;
    ///
    /// let imds = Imds::default();
    /// assert!(imds.clone().with_user_agent("my-agent/1.2").is_ok());
    /// assert!(imds.with_user_agent("two\r\nlines").is_err());
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn with_user_agent(self, text: &str) -> Result<Self, ImdsError> {
        let is_visible = text
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if text.is_empty() || text.len() > USER_AGENT_MAX || !is_visible || text.trim() != text {
            return Err(ImdsError::InvalidUserAgent(text.to_owned()));
        }
        Ok(Self {
            user_agent: Some(text.to_owned()),
            ..self
        })
    }

    /// Calls `trace` after each request, on the thread that made it. It delays the result.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// use scheduled_events::imds::Imds;
    ///
    /// let (sender, lines) = mpsc::channel();
    /// let imds = Imds::new("http://127.0.0.1:1")?;
    /// let imds = imds.with_trace(move |exchange| drop(sender.send(exchange.to_string())));
    /// assert!(imds.events(Duration::from_secs(2)).is_err());
    /// assert!(lines.recv().unwrap().starts_with("GET /metadata/scheduledevents?api-version="));
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    #[must_use]
    pub fn with_trace(self, trace: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        Self {
            trace: Some(Trace(Arc::new(trace))),
            ..self
        }
    }

    /// Makes time pass `speed` times faster for the spacing of requests, and for a watcher that is made with this. It rehearses
    /// months in hours against a local service that keeps up. Timeouts stay as they are. Not for Azure's service, which answers
    /// 429 beyond five requests a second.
    ///
    /// ```
    /// use scheduled_events::imds::Imds;
    ///
    /// let imds = Imds::new("http://127.0.0.1:8080")?.at_speed(60);
    /// assert_eq!(imds.speed(), 60);
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    #[must_use]
    pub fn at_speed(self, speed: u32) -> Self {
        Self {
            speed: speed.max(1),
            ..self
        }
    }

    /// How many times faster than real time passes.
    ///
    /// ```
    /// use scheduled_events::imds::Imds;
    ///
    /// assert_eq!(Imds::default().speed(), 1);
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn speed(&self) -> u32 {
        self.speed
    }

    /// Waits until the next request may be sent. A session spaces its polls and approvals itself, but does not know of the request
    /// for the name, which is sent by another thread.
    fn wait_for_turn(&self) {
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

    /// The version of the API that [`events`](Self::events) and [`approve`](Self::approve) name.
    ///
    /// ```
    /// use scheduled_events::imds::{API_VERSION, Imds};
    ///
    /// assert_eq!(Imds::default().api_version(), API_VERSION);
    /// # Ok::<(), scheduled_events::imds::ImdsError>(())
    /// ```
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Requests the document.
    ///
    /// # Errors
    /// [`RequestFailure`] if no whole response arrives in time. Any status is a response.
    pub fn events(&self, timeout: Duration) -> Result<HttpResponse, RequestFailure> {
        self.events_in(&self.api_version, timeout)
    }

    /// Requests the document in this version, as [`Step::Get`](scheduled_events_core::Step::Get) names it.
    ///
    /// # Errors
    /// [`RequestFailure`] if no whole response arrives in time. Any status is a response.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::imds::{API_VERSION, Imds};
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("rebalance").ok_or("a built-in name")?))?;
    /// let imds = Imds::new(&server.url())?;
    /// // Most services do not have the version that shows advice.
    /// assert_eq!(imds.events_in("2024-07-09", Duration::from_secs(5))?.status, 400);
    /// assert_eq!(imds.events_in(API_VERSION, Duration::from_secs(5))?.status, 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn events_in(
        &self,
        api_version: &str,
        timeout: Duration,
    ) -> Result<HttpResponse, RequestFailure> {
        self.get(&format!("{}{api_version}", self.events), timeout)
    }

    /// Posts an approval: `body` is what [`StartRequests::write`](scheduled_events_core::StartRequests::write) writes.
    ///
    /// # Errors
    /// [`RequestFailure`] if no whole response arrives in time. Any status is a response.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::core::{Document, StartRequests};
    /// use scheduled_events::imds::Imds;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?).speed(60.0))?;
    /// let (imds, timeout) = (Imds::new(&server.url())?, Duration::from_secs(5));
    /// let id = loop {
    ///     let response = imds.events(timeout)?;
    ///     assert_eq!(response.status, 200);
    ///     if let Some(event) = Document::parse(&response.body)?.events().next() {
    ///         break event.event_id().to_string();
    ///     }
    /// };
    /// let mut body = [0; 256];
    /// let length = StartRequests::new(&[id.as_str()]).write(&mut body)?;
    /// assert_eq!(imds.approve(&body[..length], timeout)?.status, 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn approve(&self, body: &[u8], timeout: Duration) -> Result<HttpResponse, RequestFailure> {
        self.approve_in(&self.api_version, body, timeout)
    }

    /// Posts an approval in this version, as [`Step::Post`](scheduled_events_core::Step::Post) names it.
    ///
    /// # Errors
    /// [`RequestFailure`] if no whole response arrives in time. Any status is a response.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::imds::{API_VERSION, Imds};
    /// # use scheduled_events_replay::{Scenario, Server, ServerConfig};
    /// # let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// # let url = server.url();
    ///
    /// let imds = Imds::new(&url)?;
    /// let body = br#"{"StartRequests":[{"EventId":"a"}]}"#;
    /// assert_eq!(imds.approve_in(API_VERSION, body, Duration::from_secs(5))?.status, 400); // no event has this id
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn approve_in(
        &self,
        api_version: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<HttpResponse, RequestFailure> {
        let url = format!("{}{api_version}", self.events);
        let mut headers = self.headers();
        headers.push(("Content-Type", "application/json"));
        // The body of the response is undocumented, so nothing about it makes an approval fail.
        self.exchange("POST", &url, &headers, body, timeout, |_| false)
    }

    /// Sends a `GET` for this path and query with these header fields, in the place of the client's own: a request that the service
    /// may refuse, to see what it answers.
    ///
    /// # Errors
    /// [`RequestFailure`] if no whole response arrives in time. Any status is a response.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::imds::Imds;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// let imds = Imds::new(&server.url())?;
    /// // Without `Metadata: true`.
    /// let refused = imds.probe("/metadata/scheduledevents?api-version=2020-07-01", &[], Duration::from_secs(5))?;
    /// assert_eq!(refused.status, 400);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn probe(
        &self,
        target: &str,
        headers: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<HttpResponse, RequestFailure> {
        let url = format!("{}{target}", self.endpoint);
        self.exchange("GET", &url, headers, b"", timeout, |_| false)
    }

    fn get(&self, url: &str, timeout: Duration) -> Result<HttpResponse, RequestFailure> {
        let needs_body = |status| status == 200;
        self.exchange("GET", url, &self.headers(), b"", timeout, needs_body)
    }

    /// The header fields of every request.
    fn headers(&self) -> Vec<(&str, &str)> {
        let user_agent = self.user_agent.as_deref();
        let user_agent = user_agent.map(|text| ("User-Agent", text));
        let own = (wire::HEADER_NAME, wire::HEADER_VALUE);
        [Some(own), user_agent].into_iter().flatten().collect()
    }

    /// Sends a request when it is its turn, and reads the response.
    fn exchange(
        &self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
        request_body: &[u8],
        timeout: Duration,
        needs_body: impl Fn(u16) -> bool,
    ) -> Result<HttpResponse, RequestFailure> {
        self.wait_for_turn();
        let started = Instant::now();
        let received = if method == "POST" {
            let request = headers.iter().fold(self.agent.post(url), with_header);
            let request = request.config().timeout_global(Some(timeout)).build();
            request.send(request_body)
        } else {
            let request = headers.iter().fold(self.agent.get(url), with_header);
            let request = request.config().timeout_global(Some(timeout)).build();
            request.call()
        };
        let Some(Trace(trace)) = &self.trace else {
            return response(received, needs_body);
        };
        let head = received.as_ref().ok().map(response_head);
        let result = response(received, needs_body);
        let body = result.as_ref().map_or(&[][..], |response| &response.body);
        trace(&Exchange {
            method,
            target: url.strip_prefix(&self.endpoint).unwrap_or(url),
            request_headers: headers,
            request_body,
            result: result
                .as_ref()
                .map(|response| response.status)
                .map_err(|failure| failure.cause),
            detail: result.as_ref().err().map(|failure| failure.detail.as_str()),
            head: head.as_ref(),
            body,
            time: started.elapsed(),
            bytes: body.len(),
        });
        result
    }

    /// Requests the machine's own name, as the `Resources` of its events spell it.
    ///
    /// # Errors
    /// [`MetadataError`]: why the name is unknown.
    pub fn vm_name(&self, timeout: Duration) -> Result<String, MetadataError> {
        let name = self.text(wire::NAME_PATH, timeout)?;
        let name = name.trim();
        if name.is_empty()
            || name.len() > limits::NAME_MAX
            || name
                .chars()
                .any(|char| char.is_control() || NOT_IN_NAMES.contains(char))
        {
            return Err(MetadataError::NotAName(name.chars().take(60).collect()));
        }
        Ok(name.to_owned())
    }

    /// Requests the machine's `vmId`, which a clone of its disk does not share.
    ///
    /// # Errors
    /// [`MetadataError`]: why the id is unknown.
    pub fn vm_id(&self, timeout: Duration) -> Result<String, MetadataError> {
        let id = self.text(wire::VM_ID_PATH, timeout)?;
        let id = id.trim();
        if id.is_empty() || id.len() > limits::NAME_MAX || id.chars().any(char::is_control) {
            return Err(MetadataError::NotAnId(id.chars().take(60).collect()));
        }
        Ok(id.to_owned())
    }

    /// Requests what the instance's metadata has about the machine, its object `compute`, as JSON: its name, its scale set, whether it
    /// is a Spot machine.
    ///
    /// # Errors
    /// [`MetadataError`]: why there is none.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::imds::Imds;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let scenario = Scenario::builtin("preempt").ok_or("a built-in name")?;
    /// let server = Server::start(ServerConfig::new(scenario).vm_name("web_0"))?;
    /// let imds = Imds::new(&server.url())?;
    /// assert!(imds.compute(Duration::from_secs(5))?.contains(r#""vmScaleSetName":"web""#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compute(&self, timeout: Duration) -> Result<String, MetadataError> {
        self.text(COMPUTE_PATH, timeout)
    }

    /// Requests one member of the instance's metadata, as text.
    fn text(&self, path: &str, timeout: Duration) -> Result<String, MetadataError> {
        let url = format!("{}{path}", self.endpoint);
        let response = self.get(&url, timeout).map_err(MetadataError::Request)?;
        if response.status != 200 {
            return Err(MetadataError::Status(response.status));
        }
        String::from_utf8(response.body).map_err(|_| MetadataError::NotText)
    }
}

fn with_header<B>(
    request: ureq::RequestBuilder<B>,
    (name, value): &(&str, &str),
) -> ureq::RequestBuilder<B> {
    request.header(*name, *value)
}

/// The message for people that this machine's own name is unknown, with the reason: the error of [`Imds::vm_name`].
///
/// ```
/// use scheduled_events::imds::name_unknown;
///
/// assert_eq!(name_unknown("status 404"), "cannot determine this machine's own name (status 404)");
/// ```
pub fn name_unknown(reason: impl fmt::Display) -> String {
    format!("cannot determine this machine's own name ({reason})")
}

/// These names, spelled as in the documents of this API version.
///
/// ```
/// use scheduled_events::imds::{API_VERSION, UNDERSCORED_API_VERSION, names_for};
///
/// assert!(!names_for(&["web_0"], API_VERSION).is_underscored());
/// assert!(names_for(&["web_0"], UNDERSCORED_API_VERSION).is_underscored()); // `_web_0` in its documents
/// ```
pub fn names_for<'a>(names: &'a [&'a str], api_version: &str) -> VmNames<'a> {
    let names = VmNames::new(names);
    if api_version == UNDERSCORED_API_VERSION {
        names.underscored()
    } else {
        names
    }
}

/// An address as messages show it: user information, a query and a fragment can be secrets. It need not be valid.
fn without_secrets(address: &str) -> String {
    let (scheme, rest) = address.split_at(address.find("://").map_or(0, |at| at + 3));
    let (user, place) = match rest.rsplit_once('@') {
        // It is unknown where the secret begins and ends.
        Some((user, _)) if user.contains(['?', '#']) => return format!("{scheme}***"),
        Some((_, place)) => ("***@", place),
        None => ("", rest),
    };
    match place.find(['?', '#']) {
        Some(at) => format!("{scheme}{user}{}***", &place[..=at]),
        None => format!("{scheme}{user}{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_endpoint_is_reported_with_the_reason() {
        for (endpoint, reason) in [
            ("https://169.254.169.254", "must start with http://"),
            ("169.254.169.254", "must start with http://"),
            ("http://127.0.0.1/metadata", "a scheme, a host and a port"),
            ("http://user@127.0.0.1", "a scheme, a host and a port"),
            ("http://127.0.0.1#x", "a scheme, a host and a port"),
            ("http://127.0.0.1:8080/#", "a scheme, a host and a port"),
            (
                "http://127.0.0.1:80/metadata/scheduledevents?api-version=2020-07-01",
                "; try http://127.0.0.1:80",
            ),
            ("http://127.0.0.1:99999", "a port"),
            ("http://127.0.0.1:", "a port"),
            ("http://10.0.0.4", "nor on this machine"),
            ("http://169.254.169.254.example.com", "nor on this machine"),
            ("http://", "must start with http://"),
            ("http://[::1", "is not a URL"),
        ] {
            let refused = Imds::new(endpoint).expect_err(endpoint);
            let refused = refused.to_string();
            assert!(refused.contains(reason), "{endpoint}: {refused}");
        }
        for (endpoint, shown) in [
            ("http://user:secret@127.0.0.1/", "http://***@127.0.0.1"),
            (
                "http://127.0.0.1/x?sig=secret#secret",
                "http://127.0.0.1/x?***",
            ),
            ("http://127.0.0.1#secret", "http://127.0.0.1#***"),
            ("http://127.0.0.1/?sig=secret@secret", "http://***"),
            ("https://user:sec?ret@127.0.0.1", "https://***"),
            ("user:secret@127.0.0.1", "***@127.0.0.1"),
            ("http://user:secret@[::1", "http://***@[::1"),
        ] {
            let refused = Imds::at_any_endpoint(endpoint).expect_err(endpoint);
            let refused = refused.to_string();
            assert!(
                refused.contains(&format!("{shown:?}")) && !refused.contains("sec"),
                "{endpoint}: {refused}"
            );
        }
        assert!(Imds::new("http://127.0.0.1:80/").is_ok());
        assert!(Imds::new("http://[::1]:8080").is_ok());
        assert!(Imds::at_any_endpoint("http://10.0.0.4").is_ok());
        assert!(Imds::default().with_api_version("2020-07-01&x=1").is_err());
    }

    #[test]
    fn a_user_agent_is_sent_and_a_trace_has_one_line_for_each_request() {
        use scheduled_events_replay::{Scenario, Server, ServerConfig};

        let server = Server::start(
            ServerConfig::new(Scenario::builtin("preempt").unwrap()).without_verdict(),
        )
        .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let imds = Imds::new(&server.url()).unwrap();
        for refused in [
            "",
            " a",
            "a\nb: c",
            "\u{e9}",
            &"a".repeat(USER_AGENT_MAX + 1),
        ] {
            assert!(
                imds.clone().with_user_agent(refused).is_err(),
                "{refused:?}"
            );
        }
        let imds = imds.with_user_agent("agent/1.0 (test)").unwrap();
        let imds = imds.with_trace(move |exchange| seen.lock().unwrap().push(exchange.to_string()));
        let timeout = Duration::from_secs(30);
        imds.events(timeout).unwrap();
        imds.approve(b"{}", timeout).unwrap();
        imds.vm_name(timeout).unwrap();
        for request in server.requests() {
            let agents = request
                .headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
            assert!(
                agents
                    .map(|(_, value)| value.as_str())
                    .eq(["agent/1.0 (test)"]),
                "{:?}",
                request.headers
            );
        }
        drop(server);
        assert!(imds.events(timeout).is_err());
        let lines = lines.lock().unwrap();
        let expected = [
            (
                "GET /metadata/scheduledevents?api-version=2020-07-01 200 ",
                " ms 37 bytes",
            ),
            (
                "POST /metadata/scheduledevents?api-version=2020-07-01 400 ",
                " bytes",
            ),
            (
                "GET /metadata/instance/compute/name?api-version=2021-02-01&format=text 200 ",
                " ms 8 bytes",
            ),
            (
                "GET /metadata/scheduledevents?api-version=2020-07-01 unreachable ",
                " ms 0 bytes",
            ),
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, (start, end)) in lines.iter().zip(expected) {
            assert!(line.starts_with(start) && line.ends_with(end), "{line}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_connection_that_nobody_accepts_fails_long_before_the_request_times_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // A queue of one connection, which is taken.
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let _queued = std::net::TcpStream::connect(address).unwrap();
        let imds = Imds::new(&format!("http://{address}")).unwrap();
        let since = Instant::now();
        let failure = imds
            .events(Duration::from_secs(130))
            .expect_err("no connection");
        assert_eq!(failure.cause, Cause::Timeout);
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "it took {:?}",
            since.elapsed()
        );
    }
}
