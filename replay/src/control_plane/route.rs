//! Routes a request to the control plane, or refuses it as Azure Resource Manager does.

use super::error::refusal;
use crate::fault::plan::RequestKind;
use crate::http::route::{decode, is_local, parameters};
use crate::http::{ReplayRequest, ReplayResponse};
use crate::resource::{SUBSCRIPTION, is_guid};

/// A request that the control plane answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlRoute {
    /// Approve one event of a resource. Both are in lower case.
    Acknowledge { resource: String, event_id: String },
    /// Approve several events of a resource, which the body names.
    AcknowledgeList { resource: String },
    /// Query Resource Graph.
    Graph,
}

impl ControlRoute {
    pub(crate) fn kind(&self) -> RequestKind {
        match self {
            Self::Acknowledge { .. } | Self::AcknowledgeList { .. } => RequestKind::Arm,
            Self::Graph => RequestKind::Graph,
        }
    }
}

/// The versions of `scheduledevents` of `Microsoft.Maintenance`.
const ACKNOWLEDGE_VERSIONS: &[&str] = &["2023-10-01-preview", "2025-10-01-preview"];

/// The versions of Resource Graph that answer with an array of objects. Azure's client for Python
/// still uses the first.
const GRAPH_VERSIONS: &[&str] = &["2021-03-01", "2022-10-01", "2024-04-01"];

/// The types of `Microsoft.Compute` that have Scheduled Events.
const RESOURCE_TYPES: [&str; 3] = [
    "virtualmachines",
    "virtualmachinescalesets",
    "availabilitysets",
];

/// Routes a request by all of its parts except the body. Paths are compared without case, as
/// Resource Manager does.
///
/// Checks in this order: the Host header (400), the token (401), the path (404), the method (405),
/// `api-version` (400) and the rights in the subscription (403).
pub(crate) fn route(request: &ReplayRequest) -> Result<ControlRoute, ReplayResponse> {
    if !is_local(request) {
        return Err(refusal(
            400,
            "BadRequest",
            "The Host header must be an IP address or localhost.",
        ));
    }
    authorize(request)?;
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let lower = decode(path).to_ascii_lowercase();
    let segments: Vec<_> = lower.trim_matches('/').split('/').collect();
    let (subscription, route) = match segments[..] {
        ["providers", "microsoft.resourcegraph", "resources"] => (None, ControlRoute::Graph),
        ["subscriptions", subscription, ..] => (Some(subscription), acknowledgement(&segments)?),
        _ => return Err(unknown_path(path)),
    };
    if request.method != "POST" {
        let message = format!(
            "The HTTP method {} is not supported at this path.",
            request.method
        );
        return Err(refusal(405, "HttpMethodNotSupported", &message).with("Allow", "POST"));
    }
    let versions = if subscription.is_none() {
        GRAPH_VERSIONS
    } else {
        ACKNOWLEDGE_VERSIONS
    };
    check_version(query, versions)?;
    match subscription {
        Some(subscription) if !is_accessible(subscription) => Err(refusal(
            403,
            "AuthorizationFailed",
            &format!(
                "The client does not have authorization to perform action \
                 'Microsoft.Maintenance/scheduledEvents/acknowledge/action' over scope '{}' or the scope is invalid.",
                path.split('?').next().unwrap_or_default()
            ),
        )),
        _ => Ok(route),
    }
}

/// Whether the caller has rights in a subscription: in that of the machines. Every other one counts
/// as one without rights.
pub(crate) fn is_accessible(subscription: &str) -> bool {
    subscription.eq_ignore_ascii_case(SUBSCRIPTION)
}

/// Accepts any token that is not empty.
fn authorize(request: &ReplayRequest) -> Result<(), ReplayResponse> {
    let token = request.header("Authorization").next().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("Bearer")
            .then_some(token.trim())
    });
    if token.is_some_and(|token| !token.is_empty()) {
        return Ok(());
    }
    let message =
        "Authentication failed. The 'Authorization' header is missing, or has no bearer token.";
    Err(refusal(401, "AuthenticationFailed", message).with("WWW-Authenticate", "Bearer"))
}

fn acknowledgement(segments: &[&str]) -> Result<ControlRoute, ReplayResponse> {
    let resource = |parts: &[&str]| format!("/{}", parts.join("/"));
    match *segments {
        [
            "subscriptions",
            _,
            "resourcegroups",
            _,
            "providers",
            "microsoft.compute",
            resource_type,
            _,
            "providers",
            "microsoft.maintenance",
            "scheduledevents",
            ref rest @ ..,
        ] if RESOURCE_TYPES.contains(&resource_type) => match *rest {
            [] => Ok(ControlRoute::AcknowledgeList {
                resource: resource(&segments[..8]),
            }),
            [event_id, "acknowledge"] if is_guid(event_id) => Ok(ControlRoute::Acknowledge {
                resource: resource(&segments[..8]),
                event_id: event_id.to_owned(),
            }),
            [event_id, "acknowledge"] => Err(invalid_id(event_id)),
            _ => Err(unknown_path(&resource(segments))),
        },
        _ => Err(unknown_path(&resource(segments))),
    }
}

pub(crate) fn invalid_id(event_id: &str) -> ReplayResponse {
    refusal(
        400,
        "BadRequest",
        &format!("The id of an event must be a GUID, found '{event_id}'."),
    )
}

fn unknown_path(path: &str) -> ReplayResponse {
    let message = format!(
        "No resource or action is at '{path}'. This emulator of the control plane has the acknowledgement of Scheduled Events and \
         the queries of Resource Graph only."
    );
    refusal(404, "InvalidResourceType", &message)
}

fn check_version(query: &str, versions: &[&str]) -> Result<(), ReplayResponse> {
    let parameters = parameters(query);
    let Some((_, version)) = parameters.iter().find(|(name, _)| name == "api-version") else {
        let message =
            "The api-version query parameter (?api-version=) is required for all requests.";
        return Err(refusal(400, "MissingApiVersionParameter", message));
    };
    if versions.contains(&version.as_str()) {
        return Ok(());
    }
    let message = format!(
        "The api-version '{version}' is invalid. The supported versions are '{}'.",
        versions.join(", ")
    );
    Err(refusal(400, "InvalidApiVersionParameter", &message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourcegroups/replay/providers/\
                            Microsoft.Compute/virtualMachines/db";
    const EVENTS: &str = "/providers/Microsoft.Maintenance/scheduledevents";
    const ID: &str = "C7061BAC-AFDC-4513-B24B-AA5F13A16123";

    fn post(target: &str) -> ReplayRequest {
        let headers = vec![("authorization".to_owned(), "bearer x".to_owned())];
        ReplayRequest {
            method: "POST".into(),
            target: target.into(),
            headers,
            ..ReplayRequest::default()
        }
    }

    fn code(request: &ReplayRequest) -> (u16, String) {
        let response = route(request).expect_err(&request.target);
        let body: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
        (
            response.status,
            body["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    #[test]
    fn fact_paths_are_compared_without_case() {
        let target = format!("{RESOURCE}{EVENTS}/{ID}/acknowledge?api-version=2025-10-01-preview");
        for target in [
            target
                .to_ascii_uppercase()
                .replace("API-VERSION=", "api-version=")
                .replace("PREVIEW", "preview"),
            target,
        ] {
            let found = route(&post(&target)).expect("a route");
            let (resource, event_id) = (RESOURCE.to_ascii_lowercase(), ID.to_ascii_lowercase());
            assert_eq!(found, ControlRoute::Acknowledge { resource, event_id });
        }
    }

    #[test]
    fn fact_an_acknowledgement_has_two_versions() {
        for version in ["2023-10-01-preview", "2025-10-01-preview"] {
            let target = format!("{RESOURCE}{EVENTS}?api-version={version}");
            assert!(matches!(
                route(&post(&target)),
                Ok(ControlRoute::AcknowledgeList { .. })
            ));
        }
        assert_eq!(
            code(&post(&format!("{RESOURCE}{EVENTS}"))).1,
            "MissingApiVersionParameter"
        );
        assert_eq!(
            code(&post(&format!("{RESOURCE}{EVENTS}?api-version=2024-04-01"))).1,
            "InvalidApiVersionParameter"
        );
    }

    #[test]
    fn fact_the_type_is_a_machine_a_scale_set_or_an_availability_set() {
        for (resource_type, is_known) in [
            ("virtualMachines", true),
            ("virtualMachineScaleSets", true),
            ("availabilitySets", true),
            ("disks", false),
        ] {
            let resource = RESOURCE.replace("virtualMachines", resource_type);
            let target = format!("{resource}{EVENTS}?api-version=2025-10-01-preview");
            assert_eq!(route(&post(&target)).is_ok(), is_known, "{resource_type}");
        }
    }

    #[test]
    fn fact_the_id_of_an_event_is_a_guid() {
        let target = |id: &str| {
            format!("{RESOURCE}{EVENTS}/{id}/acknowledge?api-version=2025-10-01-preview")
        };
        for id in [
            "7",
            "%22",
            &ID[1..],
            &format!("{ID}0"),
            &ID.replace('-', "0"),
        ] {
            assert_eq!(
                code(&post(&target(id))),
                (400, "BadRequest".to_owned()),
                "{id}"
            );
        }
    }

    #[test]
    fn a_request_without_a_token_or_rights_is_refused() {
        let target = format!("{RESOURCE}{EVENTS}?api-version=2025-10-01-preview");
        for header in [None, Some("Basic eDp4"), Some("Bearer"), Some("Bearer  ")] {
            let mut request = post(&target);
            request.headers = header
                .map(|value| ("Authorization".to_owned(), value.to_owned()))
                .into_iter()
                .collect();
            assert_eq!(
                code(&request),
                (401, "AuthenticationFailed".to_owned()),
                "{header:?}"
            );
        }
        let other = target.replacen("00000000", "11111111", 1);
        assert_eq!(code(&post(&other)), (403, "AuthorizationFailed".to_owned()));
        let get = ReplayRequest {
            method: "GET".into(),
            ..post(&target)
        };
        assert_eq!(code(&get), (405, "HttpMethodNotSupported".to_owned()));
        assert_eq!(code(&post("/subscriptions?api-version=2022-12-01")).0, 404);
        let mut named = post(&target);
        named
            .headers
            .push(("Host".to_owned(), "rebound.example".to_owned()));
        assert_eq!(code(&named).0, 400);
    }
}
