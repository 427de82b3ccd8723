//! The instance metadata service: this machine's name and zone, and the document with the scheduled
//! events.

use std::time::Duration;

use scheduled_events_core::wire;
use serde::Deserialize;

use crate::http;

/// The first request after a boot may take long.
const REQUEST_TIME: Duration = Duration::from_secs(30);

const RESPONSE_MAX: usize = 256 * 1024;

/// The first request for events after a boot may take two minutes.
const DOCUMENT_TIME: Duration = Duration::from_secs(130);

/// The longest document that is read.
const DOCUMENT_MAX: usize = 4 * 1024 * 1024;

/// What instance metadata contains about this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Compute {
    /// The virtual machine's name, as in the `Resources` of events.
    pub name: String,
    /// The availability zone; empty without one.
    #[serde(default)]
    pub zone: String,
    /// The settings for the operating system.
    #[serde(default, rename = "osProfile")]
    pub os_profile: OsProfile,
}

/// The settings for the operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct OsProfile {
    /// The host's name, which differs from the machine's name in scale sets.
    #[serde(default, rename = "computerName")]
    pub computer_name: String,
}

/// Asks the metadata service.
///
/// # Errors
/// A sentence: it cannot be reached, or has no name. It suggests no remedy, which depends on the
/// purpose of the request.
pub async fn compute(endpoint: &str) -> Result<Compute, String> {
    let url = format!(
        "{}/metadata/instance/compute?api-version=2021-02-01&format=json",
        endpoint.trim_end_matches('/')
    );
    let problem = |why: &str| format!("cannot ask {endpoint} about this machine: {why}");
    let request = http::client(REQUEST_TIME)?
        .get(url)
        .header("Metadata", "true");
    let response = request
        .send()
        .await
        .map_err(|error| problem(&http::reason(&error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(problem(&format!("status {}", status.as_u16())));
    }
    let body = http::body(response, RESPONSE_MAX)
        .await
        .map_err(|why| problem(&why))?;
    let compute: Compute =
        serde_json::from_slice(&body).map_err(|error| problem(&error.to_string()))?;
    if compute.name.is_empty() {
        Err(problem("the name is empty"))
    } else {
        Ok(compute)
    }
}

/// The document with the scheduled events.
///
/// # Errors
/// A sentence: the service does not answer with a document.
pub async fn events(endpoint: &str) -> Result<Vec<u8>, String> {
    let url = format!(
        "{}{}?api-version={}",
        endpoint.trim_end_matches('/'),
        wire::PATH,
        wire::API_VERSION
    );
    let problem = |why: &str| format!("cannot ask {endpoint} whether the event is over: {why}");
    let request = http::client(DOCUMENT_TIME)?
        .get(url)
        .header(wire::HEADER_NAME, wire::HEADER_VALUE);
    let response = request
        .send()
        .await
        .map_err(|error| problem(&http::reason(&error)))?;
    // Only a document shows that an event is over.
    if response.status() != reqwest::StatusCode::OK {
        return Err(problem(&format!("status {}", response.status().as_u16())));
    }
    http::body(response, DOCUMENT_MAX)
        .await
        .map_err(|why| problem(&why))
}
