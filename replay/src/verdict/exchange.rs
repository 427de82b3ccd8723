//! A request and its answer, and the checks that need nothing else.

use std::sync::Arc;
use std::time::Duration;

use super::finding::Findings;
use super::rules::Rule;
use crate::fault::plan::RequestKind;
use crate::http::ReplayRequest;
use crate::http::route;
use crate::http::wire::ApiVersion;
use crate::timeline::document::EventFacts;
use scheduled_events_core::wire::UNDERSCORED_API_VERSION;

/// Header fields that only a proxy adds.
const PROXY_FIELDS: [&str; 8] = [
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "Forwarded",
    "Via",
    "Proxy-Connection",
    "Proxy-Authorization",
];

/// A request and its answer, from the time when it arrived to the time when its answer was decided.
#[allow(clippy::struct_excessive_bools)] // Each is about a fact of its own.
pub(crate) struct Exchange<'a> {
    pub(crate) request: &'a ReplayRequest,
    /// The newest version that the service has.
    pub(crate) newest: ApiVersion,
    /// `None` for a request that was refused.
    pub(crate) kind: Option<RequestKind>,
    pub(crate) arrived: Duration,
    pub(crate) answered: Duration,
    /// `None` if a fault suppressed the response.
    pub(crate) status: Option<u16>,
    /// The response's field `Location`, and the time in its field `Retry-After`.
    pub(crate) location: Option<&'a str>,
    pub(crate) retry_after: Option<Duration>,
    /// The faults that applied, as written.
    pub(crate) faults: &'a [String],
    /// Whether the client received the whole answer without a delay.
    pub(crate) is_intact: bool,
    /// Whether no client can read the answer.
    pub(crate) is_broken: bool,
    /// Whether the client may have waited for the answer, or for its end.
    pub(crate) is_slow: bool,
    /// The body of the answer to a request that was refused.
    pub(crate) refusal: Option<&'a [u8]>,
    /// The document that was sent, and whether a fault changed the members of its events.
    pub(crate) document: Option<&'a [u8]>,
    pub(crate) is_altered: bool,
    /// The machine's events in the document, as the scenario has them, with whether each is Started.
    pub(crate) shown: &'a [(Arc<EventFacts>, bool)],
    /// Whether the document has an event of any machine.
    pub(crate) shows_any: bool,
    /// Whether the document has a Scheduled event of another machine.
    pub(crate) shows_other: bool,
    /// The machine's events that the document lacks, because the version does not have their type.
    pub(crate) hidden: &'a [Arc<EventFacts>],
    /// For each event that the request approves, its known members.
    pub(crate) approves: &'a [(String, Option<Arc<EventFacts>>)],
}

impl<'a> Exchange<'a> {
    /// An approval that has no answer yet.
    pub(crate) fn unanswered(
        request: &'a ReplayRequest,
        now: Duration,
        newest: ApiVersion,
    ) -> Self {
        Self {
            request,
            newest,
            kind: Some(RequestKind::EventsPost),
            arrived: now,
            answered: now,
            status: None,
            location: None,
            retry_after: None,
            faults: &[],
            is_intact: false,
            is_broken: false,
            is_slow: false,
            refusal: None,
            document: None,
            is_altered: false,
            shown: &[],
            shows_any: false,
            shows_other: false,
            hidden: &[],
            approves: &[],
        }
    }
}

impl Exchange<'_> {
    pub(crate) fn is_poll(&self) -> bool {
        self.kind == Some(RequestKind::EventsGet)
    }

    /// The version of a request for a document that was refused because it is too new for the service.
    pub(crate) fn refused_version(&self) -> Option<&'static str> {
        let version = route::newer_version(self.request, self.newest);
        version.filter(|_| self.kind.is_none())
    }

    /// Whether the answer contains nothing for a client, which repeats the request.
    pub(crate) fn has_failed(&self) -> bool {
        !self.is_intact || !matches!(self.status, Some(200 | 304))
    }

    /// The answer as text for a message, with the faults that caused it.
    pub(crate) fn answer(&self) -> String {
        let mut text = self.status.map_or_else(
            || "no response".to_owned(),
            |status| format!("status {status}"),
        );
        if !self.faults.is_empty() {
            text = format!("{text} ({})", self.faults.join(", "));
        }
        text
    }

    pub(crate) fn check(&self, findings: &mut Findings) {
        let Some(body) = self.refusal.filter(|_| self.refused_version().is_none()) else {
            return self.check_request(findings);
        };
        let before = findings.broken();
        self.check_request(findings);
        if findings.broken() == before {
            let Self { request, .. } = self;
            let message = format!(
                "{} {} is refused: {}",
                request.method,
                request.target,
                String::from_utf8_lossy(body)
            );
            findings.add(Rule::Url, self.arrived, None, message);
        }
    }

    /// Whether the request is for the path of the events.
    fn is_of_events(&self) -> bool {
        route::is_events(self.request.path_and_query().0)
    }

    /// Whether the client tries to approve something, whatever the answer.
    pub(crate) fn is_approval(&self) -> bool {
        self.request.method == "POST" && self.is_of_events()
    }

    fn check_request(&self, findings: &mut Findings) {
        let Self {
            request,
            arrived: at,
            ..
        } = *self;
        let request_line = || format!("{} {}", request.method, request.target);
        if request.method.is_empty() {
            return findings.add(
                Rule::Url,
                at,
                None,
                "found data that is no HTTP request, a part of one, or one over a limit".into(),
            );
        }
        let (path, query) = request.path_and_query();
        let is_absolute = request.target.starts_with("http://");
        let of_proxy = PROXY_FIELDS
            .into_iter()
            .find(|name| request.header(name).next().is_some());
        findings.expect(
            !is_absolute && of_proxy.is_none(),
            Rule::Route,
            at,
            || match of_proxy {
                Some(field) => format!(
                    "found the field {field}, which a proxy adds, in {}",
                    request_line()
                ),
                None => format!(
                    "found {}, a request to a proxy; expected a path",
                    request_line()
                ),
            },
        );
        let user_agent = request
            .header("User-Agent")
            .any(|value| !value.trim().is_empty());
        findings.expect(user_agent, Rule::UserAgent, at, || {
            format!("found none in {}", request_line())
        });
        let is_known = route::is_known(&request.method, path);
        findings.expect(is_known || is_absolute, Rule::Url, at, || {
            format!("found {}", request_line())
        });
        if !is_known {
            return;
        }
        let parameters = route::parameters(query);
        let versions: Vec<_> = parameters
            .iter()
            .filter(|(name, _)| name == "api-version")
            .map(|(_, value)| value.as_str())
            .collect();
        let is_valid =
            matches!(versions[..], [version] if route::has_version(path, version, self.newest));
        // Nobody can know which versions a service has: `fallback` checks what follows.
        let is_valid = is_valid || self.refused_version().is_some();
        findings.expect(is_valid, Rule::Version, at, || match versions[..] {
            [] => format!("found no api-version in {}", request_line()),
            [version] => format!("the service does not have version {version:?}"),
            _ => format!("found {} of them in {}", versions.len(), request_line()),
        });
        if !route::is_events(path) || versions != [UNDERSCORED_API_VERSION] {
            let found: Vec<_> = request.header("Metadata").collect();
            findings.expect(found == ["true"], Rule::Header, at, || match found[..] {
                [] => format!("found no Metadata field in {}", request_line()),
                _ => format!("found Metadata: {} in {}", found.join(", "), request_line()),
            });
        }
    }
}
