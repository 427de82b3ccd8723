//! Routes requests, or refuses them as the service does (`docs/inside/wire.md`, sections 1 and 5).

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::fault::plan::RequestKind;
use crate::http::wire::{self, ApiVersion};
use crate::http::{ReplayRequest, ReplayResponse};
use scheduled_events_core::wire::UNDERSCORED_API_VERSION;

/// A request that the service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    EventsGet(ApiVersion),
    EventsPost,
    Name,
    VmId,
    /// The whole instance metadata, in a version.
    Instance(&'static str),
    /// Its member `compute` alone.
    Compute(&'static str),
    /// A token of the machine's managed identity.
    Token,
}

impl Route {
    pub(crate) fn kind(self) -> RequestKind {
        match self {
            Self::EventsGet(_) => RequestKind::EventsGet,
            Self::EventsPost => RequestKind::EventsPost,
            Self::Name | Self::VmId | Self::Instance(_) | Self::Compute(_) | Self::Token => {
                RequestKind::Name
            }
        }
    }
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It asks for events in a version that the service does not have. A fault may choose the answer.
    UnknownVersion(RequestKind),
    /// This is the answer.
    Other(ReplayResponse),
}

impl From<ReplayResponse> for Refusal {
    fn from(response: ReplayResponse) -> Self {
        Self::Other(response)
    }
}

const EVENTS_PATH: &str = "/metadata/scheduledevents";
const INSTANCE_PATH: &str = "/metadata/instance";
const COMPUTE_PATH: &str = "/metadata/instance/compute";
const NAME_PATH: &str = "/metadata/instance/compute/name";
const VM_ID_PATH: &str = "/metadata/instance/compute/vmId";
const TOKEN_PATH: &str = "/metadata/identity/oauth2/token";
/// Its first version.
const TOKEN_VERSION: &str = "2018-02-01";

/// Routes a request by all of its parts except the body, for a service whose newest version this is.
///
/// Checks in this order: the Host header (400), path (404), method (405), the Metadata header,
/// X-Forwarded-For and the query (400).
pub(crate) fn route(request: &ReplayRequest, newest: ApiVersion) -> Result<Route, Refusal> {
    if !is_local(request) {
        return Err(bad_request("The Host header must be an IP address or localhost").into());
    }
    let (path, query) = request.path_and_query();
    let instance = match path {
        EVENTS_PATH => false,
        INSTANCE_PATH | COMPUTE_PATH | NAME_PATH | VM_ID_PATH | TOKEN_PATH => true,
        _ => return Err(ReplayResponse::json(404, wire::error_body("Not found")).into()),
    };
    let post = match (request.method.as_str(), instance) {
        ("GET", _) => false,
        ("POST", false) => true,
        _ => {
            let allow = if instance { "GET" } else { "GET, POST" };
            return Err(
                ReplayResponse::json(405, wire::error_body("Method not allowed"))
                    .with("Allow", allow)
                    .into(),
            );
        }
    };
    let parameters = parameters(query);
    let value = |wanted: &str| {
        parameters
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    };
    // The header is required since the version after the preview.
    let needs_header = instance || value("api-version") != Some(UNDERSCORED_API_VERSION);
    if needs_header && !request.header("Metadata").eq(["true"]) {
        return Err(ReplayResponse::json(400, wire::MISSING_HEADER).into());
    }
    if request.header("X-Forwarded-For").next().is_some() {
        let message = "Requests with an X-Forwarded-For header are not served";
        return Err(bad_request(message).into());
    }
    let repeated = parameters.iter().enumerate().find(|(index, (name, _))| {
        parameters
            .iter()
            .skip(index + 1)
            .any(|(other, _)| other == name)
    });
    if let Some((_, (name, _))) = repeated.filter(|(_, (name, _))| name != "api-version") {
        return Err(bad_request(&format!("The query parameter {name} is repeated")).into());
    }
    let asked = value("api-version").filter(|_| repeated.is_none());
    let version = asked.filter(|version| has_version(path, version, newest));
    let bad_version = || ReplayResponse::json(400, wire::bad_instance_version());
    if path == TOKEN_PATH {
        return match value("resource").filter(|resource| !resource.is_empty()) {
            _ if version.is_none() => Err(bad_version().into()),
            None => Err(bad_request("A token needs a resource in the query").into()),
            Some(_) => Ok(Route::Token),
        };
    }
    if instance {
        let version = version
            .and_then(wire::instance_version)
            .ok_or_else(bad_version)?;
        // JSON is the default format. A single value is not available in it, and an object is not
        // served in another one.
        let format = value("format").unwrap_or("json");
        return match path {
            INSTANCE_PATH | COMPUTE_PATH if format != "json" => {
                Err(bad_request("An object needs format=json in the query").into())
            }
            INSTANCE_PATH => Ok(Route::Instance(version)),
            COMPUTE_PATH => Ok(Route::Compute(version)),
            _ if format != "text" => {
                Err(bad_request("A single value needs format=text in the query").into())
            }
            NAME_PATH => Ok(Route::Name),
            _ => Ok(Route::VmId),
        };
    }
    match version.and_then(ApiVersion::parse) {
        Some(_) if post => Ok(Route::EventsPost),
        Some(version) => Ok(Route::EventsGet(version)),
        None if asked.is_some_and(|asked| !asked.is_empty()) => {
            Err(Refusal::UnknownVersion(if post {
                RequestKind::EventsPost
            } else {
                RequestKind::EventsGet
            }))
        }
        None => Err(unknown_version(newest).into()),
    }
}

/// The service's answer to a request for events in a version that it does not have.
pub(crate) fn unknown_version(newest: ApiVersion) -> ReplayResponse {
    ReplayResponse::json(400, wire::bad_events_version(newest))
}

/// Whether the service has this path, and this method for it.
pub(crate) fn is_known(method: &str, path: &str) -> bool {
    match path {
        EVENTS_PATH => matches!(method, "GET" | "POST"),
        INSTANCE_PATH | COMPUTE_PATH | NAME_PATH | VM_ID_PATH | TOKEN_PATH => method == "GET",
        _ => false,
    }
}

/// Whether a path is that of the events.
pub(crate) fn is_events(path: &str) -> bool {
    path == EVENTS_PATH
}

/// The version of a request for documents, if some service has it, but not one whose newest version
/// this is.
pub(crate) fn newer_version(request: &ReplayRequest, newest: ApiVersion) -> Option<&'static str> {
    let (path, query) = request.target.split_once('?')?;
    let parameters = parameters(query);
    let mut asked = parameters
        .iter()
        .filter(|(name, _)| name == "api-version")
        .map(|(_, value)| value.as_str());
    let version = ApiVersion::parse(asked.next()?)?;
    let is_newer = request.method == "GET"
        && path == EVENTS_PATH
        && asked.next().is_none()
        && version > newest;
    is_newer.then(|| version.text())
}

/// Whether the service has this version for a known path.
pub(crate) fn has_version(path: &str, version: &str, newest: ApiVersion) -> bool {
    match path {
        EVENTS_PATH => ApiVersion::parse(version).is_some_and(|version| version <= newest),
        TOKEN_PATH => {
            wire::instance_version(version).is_some_and(|version| version >= TOKEN_VERSION)
        }
        _ => wire::instance_version(version).is_some(),
    }
}

/// Whether no web page can have sent the request through a name of its own: the Host header is an
/// address, or `localhost`.
pub(crate) fn is_local(request: &ReplayRequest) -> bool {
    let mut hosts = request.header("Host");
    hosts.next().is_none_or(is_address) && hosts.next().is_none()
}

/// Whether a Host header names an address or `localhost`.
///
/// No source documents the real service's behaviour. Here the check protects this machine: a web
/// page whose name resolves to this address (DNS rebinding) sends its own name.
fn is_address(host: &str) -> bool {
    let has_digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(has_digits);
        return is_port && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    has_digits(port) && (name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok())
}

/// Parses the body of a POST into the `EventIds` that it approves. Unknown members are ignored: the
/// example in the 2017 documentation has a `DocumentIncarnation`.
pub(crate) fn start_requests(body: &[u8]) -> Result<Vec<String>, ReplayResponse> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| bad_request(&format!("The body is not JSON: {error}")))?;
    let requests = body.get("StartRequests").and_then(Value::as_array);
    let requests = requests
        .filter(|requests| !requests.is_empty())
        .ok_or_else(|| bad_request("The body has no list of StartRequests, or an empty one"))?;
    let ids = requests
        .iter()
        .map(|request| request.get("EventId")?.as_str().map(str::to_owned));
    ids.collect::<Option<_>>()
        .ok_or_else(|| bad_request("One of the StartRequests has no EventId that is a text"))
}

pub(crate) fn bad_request(message: &str) -> ReplayResponse {
    ReplayResponse::json(400, wire::error_body(&format!("Bad request. {message}")))
}

/// The decoded query parameters. Names are in lower case, so that `API-Version` repeats
/// `api-version`.
pub(crate) fn parameters(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name).to_ascii_lowercase(), decode(value))
        })
        .collect()
}

pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        rest = tail;
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = tail.get(2..).unwrap_or_default();
            }
            (b'+', ..) => bytes.push(b' '),
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> ReplayRequest {
        ReplayRequest {
            method: method.into(),
            target: target.into(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            ..ReplayRequest::default()
        }
    }

    fn status(method: &str, target: &str, headers: &[(&str, &str)]) -> u16 {
        match routed(method, target, headers) {
            Ok(_) => 200,
            Err(Refusal::UnknownVersion(_)) => 400,
            Err(Refusal::Other(response)) => response.status,
        }
    }

    fn routed(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Route, Refusal> {
        route(&request(method, target, headers), ApiVersion::STABLE)
    }

    const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
    const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
    const TRUE: &[(&str, &str)] = &[("metadata", "true")];

    #[test]
    fn routes_known_requests() {
        assert_eq!(status("GET", EVENTS, TRUE), 200);
        assert_eq!(routed("POST", EVENTS, TRUE), Ok(Route::EventsPost));
        assert_eq!(routed("GET", NAME, TRUE), Ok(Route::Name));
        assert_eq!(
            routed("GET", &NAME.replace("/name", "/vmId"), TRUE),
            Ok(Route::VmId)
        );
        let instance = "/metadata/instance?api-version=2021-12-13&format=json";
        assert_eq!(
            routed("GET", instance, TRUE),
            Ok(Route::Instance("2021-12-13"))
        );
        let token = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F";
        assert_eq!(routed("GET", token, TRUE), Ok(Route::Token));
        let compute = "/metadata/instance/compute?api-version=2019-03-11";
        assert_eq!(
            routed("GET", compute, TRUE),
            Ok(Route::Compute("2019-03-11"))
        );
        assert_eq!(
            status(
                "GET",
                "/metadata/scheduledevents?api%2Dversion=2017%2d03-01",
                TRUE
            ),
            200
        );
        for version in ["2017-03-01", "2017-08-01", "2020-07-01"] {
            let target = format!("/metadata/scheduledevents?api-version={version}");
            assert_eq!(
                status("GET", &target, &[]),
                if version == "2017-03-01" { 200 } else { 400 },
                "{version}"
            );
        }
        assert_eq!(
            status(
                "GET",
                "/metadata/scheduledevents?other=1&api-version=2017-08-01",
                TRUE
            ),
            200
        );
    }

    #[test]
    fn refuses_other_requests() {
        for (method, target, headers, expected) in [
            ("GET", "/", TRUE, 404),
            ("GET", "/metadata/scheduledevents/", TRUE, 404),
            (
                "GET",
                "/metadata/instance/network?api-version=2021-02-01",
                TRUE,
                404,
            ),
            ("GET", "/metadata/instance?api-version=2021-02-01", &[], 400),
            ("GET", "/metadata/instance", TRUE, 400),
            (
                "GET",
                "/metadata/instance?api-version=2020-07-01",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/instance?api-version=2021-02-01&format=text",
                TRUE,
                400,
            ),
            (
                "POST",
                "/metadata/instance?api-version=2021-02-01",
                TRUE,
                405,
            ),
            (
                "GET",
                "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=a",
                &[],
                400,
            ),
            (
                "GET",
                "/metadata/identity/oauth2/token?api-version=2018-02-01",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/identity/oauth2/token?api-version=2017-12-01&resource=a",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/identity/oauth2/token?resource=a",
                TRUE,
                400,
            ),
            (
                "POST",
                "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=a",
                TRUE,
                405,
            ),
            ("PUT", EVENTS, TRUE, 405),
            ("HEAD", EVENTS, TRUE, 405),
            ("POST", NAME, TRUE, 405),
            ("GET", EVENTS, &[], 400),
            ("GET", NAME, &[], 400),
            ("POST", EVENTS, &[], 400),
            ("GET", EVENTS, &[("Metadata", "false")], 400),
            ("GET", EVENTS, &[("Metadata", "True")], 400),
            (
                "GET",
                EVENTS,
                &[("Metadata", "true"), ("Metadata", "true")],
                400,
            ),
            (
                "GET",
                EVENTS,
                &[("Metadata", "true"), ("x-forwarded-for", "")],
                400,
            ),
            (
                "GET",
                NAME,
                &[("Metadata", "true"), ("X-Forwarded-For", "10.0.0.1")],
                400,
            ),
            ("GET", "/metadata/scheduledevents", TRUE, 400),
            ("GET", "/metadata/scheduledevents?api-version=", TRUE, 400),
            (
                "GET",
                "/metadata/scheduledevents?api-version=latest",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/scheduledevents?api-version=2021-02-01",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/scheduledevents?api-version=2020-07-01&api-version=2020-07-01",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/scheduledevents?api-version=2020-07-01&API-Version=2020-07-01",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/scheduledevents?api-version=2020-07-01&a=1&a=2",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/instance/compute/name?api-version=2021-02-01",
                TRUE,
                400,
            ),
            (
                "GET",
                "/metadata/instance/compute/name?format=text",
                TRUE,
                400,
            ),
        ] {
            assert_eq!(
                status(method, target, headers),
                expected,
                "{method} {target} {headers:?}"
            );
        }
    }

    #[test]
    fn parses_approval_bodies() {
        let ids =
            start_requests(br#"{"StartRequests":[{"EventId":"a"},{"EventId":"b","x":1}],"DocumentIncarnation":"5"}"#);
        assert_eq!(ids, Ok(vec!["a".to_owned(), "b".to_owned()]));
        for body in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"StartRequests":[]}"#,
            r#"{"StartRequests":[{}]}"#,
            r#"{"StartRequests":[{"EventId":1}]}"#,
            r#"{"StartRequests":[["a"]]}"#,
            r#"[[{"EventId":"a"}]]"#,
            r#"[[["a"]]]"#,
            r#"{"StartRequests":{"EventId":"a"}}"#,
        ] {
            assert_eq!(
                start_requests(body.as_bytes()).map_err(|response| response.status),
                Err(400),
                "{body}"
            );
        }
    }

    #[test]
    fn invalid_percent_escapes_stay_as_they_are() {
        assert_eq!(decode("a%2"), "a%2");
        assert_eq!(decode("100%zz+%41"), "100%zz A");
    }
}
