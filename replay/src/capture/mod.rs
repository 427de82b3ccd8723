//! Captured exchanges with the metadata service: a request and what came back, as one line of JSON.
//!
//! `scheduled-events capture` writes them, [`contract`](crate::contract) judges the service by them, and
//! [`Recording`](crate::scenario::Recording) makes a scenario of them. This file defines the line, and `mask` replaces what
//! tells whose machine it was.

mod mask;

use scheduled_events_core::UnixSeconds;
use scheduled_events_core::wire::{NAME_PATH, PATH};
use serde::Serialize;
use serde_json::Value;

pub use crate::resource::is_guid;
pub use mask::{Mask, Replacement};

/// Why there is no whole response.
///
/// ```
/// use scheduled_events_replay::capture::CapturedFailure;
///
/// let failure = CapturedFailure { cause: "timeout".into(), detail: "timeout: global".into() };
/// assert_eq!(serde_json::to_string(&failure)?, r#"{"cause":"timeout","detail":"timeout: global"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CapturedFailure {
    /// The cause, as the record `poll-failed` has it: `timeout`, `unreachable`, `connection-lost`, `too-large`.
    pub cause: String,
    /// The message of the HTTP library.
    pub detail: String,
}

/// A request and what came back. It is written with a first member `record`, which is `exchange`; the file adds `sequence`.
///
/// ```
/// use scheduled_events_replay::capture::CapturedExchange;
///
/// let line = r#"{"record":"exchange","time":"2026-03-01T10:00:00Z","unix_ms":1772359200250,"took_ms":3,"method":"GET",
///     "target":"/metadata/scheduledevents?api-version=2020-07-01","request_headers":[["Metadata","true"]],"request_body":"",
///     "status":200,"headers":[["date","Sun, 01 Mar 2026 10:00:00 GMT"]],"body":"{\"DocumentIncarnation\":1,\"Events\":[]}",
///     "failure":null,"sequence":7}"#;
/// let exchange = CapturedExchange::parse(line).ok_or("an exchange")?;
/// assert_eq!((exchange.api_version(), exchange.header("Date").is_some()), (Some("2020-07-01"), true));
/// assert!(exchange.is_poll() && !exchange.is_own_name() && exchange.request_header("metadata") == Some("true"));
/// assert_eq!((exchange.service_time().0, exchange.sequence), (1_772_359_200, Some(7)));
/// assert!(CapturedExchange::parse(r#"{"record":"approval"}"#).is_none());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "record", rename = "exchange")]
pub struct CapturedExchange {
    /// When the request was sent, RFC 3339, in UTC.
    pub time: String,
    /// The same in milliseconds since 1970.
    pub unix_ms: i64,
    /// The time from the request to the end of the response, in milliseconds.
    pub took_ms: i64,
    /// `GET` or `POST`.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// The header fields that the client set. The HTTP library adds `Host`, `Accept` and others.
    pub request_headers: Vec<(String, String)>,
    /// The body of the request; empty for a `GET`.
    pub request_body: String,
    /// The status of the response, also of one whose body is not whole.
    pub status: Option<u16>,
    /// The header fields of the response, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body of the response. Bytes that are no UTF-8 are replaced.
    pub body: String,
    /// Why the response is not whole.
    pub failure: Option<CapturedFailure>,
    /// The number of the line, which continues in the next file.
    #[serde(skip)]
    pub sequence: Option<u64>,
}

impl CapturedExchange {
    /// Reads a line; `None` if it is no exchange, such as another record.
    pub fn parse(line: &str) -> Option<Self> {
        // The record is the first member, as in every record.
        let is_exchange = line.trim_start().starts_with("{\"record\":\"exchange\"");
        let value: Value = is_exchange.then(|| serde_json::from_str(line).ok())??;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let fields = |name: &str| {
            let fields = value[name].as_array()?.iter();
            let field = |field: &Value| {
                Some((field[0].as_str()?.to_owned(), field[1].as_str()?.to_owned()))
            };
            fields.map(field).collect::<Option<Vec<_>>>()
        };
        let status = match &value["status"] {
            Value::Null => None,
            status => Some(u16::try_from(status.as_u64()?).ok()?),
        };
        let failure = match &value["failure"] {
            Value::Null => None,
            failure => Some(CapturedFailure {
                cause: failure["cause"].as_str()?.to_owned(),
                detail: failure["detail"].as_str()?.to_owned(),
            }),
        };
        Some(Self {
            time: text("time")?,
            unix_ms: value["unix_ms"].as_i64()?,
            took_ms: value["took_ms"].as_i64()?,
            method: text("method")?,
            target: text("target")?,
            request_headers: fields("request_headers")?,
            request_body: text("request_body")?,
            status,
            headers: fields("headers")?,
            body: text("body")?,
            failure,
            sequence: value["sequence"].as_u64(),
        })
    }

    /// The value of a header field of the response.
    pub fn header(&self, name: &str) -> Option<&str> {
        field(&self.headers, name)
    }

    /// The value of a header field of the request.
    pub fn request_header(&self, name: &str) -> Option<&str> {
        field(&self.request_headers, name)
    }

    /// The API version that the request names once, if it does.
    pub fn api_version(&self) -> Option<&str> {
        let query = self.target.split_once('?')?.1;
        let mut versions = query
            .split('&')
            .filter_map(|parameter| parameter.strip_prefix("api-version="));
        versions.next().filter(|_| versions.next().is_none())
    }

    /// Whether it asks for a document.
    pub fn is_poll(&self) -> bool {
        self.method == "GET" && self.is_of_events()
    }

    /// Whether it is an approval.
    ///
    /// ```
    /// use scheduled_events_replay::capture::CapturedExchange;
    ///
    /// let target = "/metadata/scheduledevents?api-version=2020-07-01".to_owned();
    /// let post = CapturedExchange { method: "POST".into(), target, ..CapturedExchange::default() };
    /// assert!(post.is_approval() && !post.is_poll());
    /// ```
    pub fn is_approval(&self) -> bool {
        self.method == "POST" && self.is_of_events()
    }

    /// Whether it asks for the name of the machine.
    pub fn is_own_name(&self) -> bool {
        self.target == NAME_PATH
    }

    /// When the response was sent, by the service's clock if it has a `Date`, else by the machine's. In whole seconds.
    pub fn service_time(&self) -> UnixSeconds {
        let date = self.header("Date").and_then(UnixSeconds::parse);
        let arrived = self.unix_ms.saturating_add(self.took_ms);
        date.unwrap_or(UnixSeconds(arrived.div_euclid(1000)))
    }

    /// The whole body of a 200; `None` for anything else.
    ///
    /// ```
    /// use scheduled_events_replay::capture::CapturedExchange;
    ///
    /// let answered = |status| CapturedExchange { status: Some(status), body: "{}".into(), ..CapturedExchange::default() };
    /// assert_eq!((answered(200).answer(), answered(404).answer()), (Some("{}"), None));
    /// ```
    pub fn answer(&self) -> Option<&str> {
        let is_whole = self.status == Some(200) && self.failure.is_none();
        is_whole.then_some(self.body.as_str())
    }

    /// The `EventId`s of an approval, as written. Empty if its body is none.
    ///
    /// ```
    /// use scheduled_events_replay::capture::CapturedExchange;
    ///
    /// let request_body = r#"{"StartRequests":[{"EventId":"a"}]}"#.to_owned();
    /// assert_eq!(CapturedExchange { request_body, ..CapturedExchange::default() }.approves(), ["a"]);
    /// ```
    pub fn approves(&self) -> Vec<String> {
        let body: Value = serde_json::from_str(&self.request_body).unwrap_or_default();
        let requests = body["StartRequests"].as_array().into_iter().flatten();
        let ids = requests.filter_map(|request| request["EventId"].as_str());
        ids.map(str::to_owned).collect()
    }

    fn is_of_events(&self) -> bool {
        self.target.split('?').next() == Some(PATH)
    }
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = fields
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}
