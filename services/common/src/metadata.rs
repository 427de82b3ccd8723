//! The instance metadata service: this machine's name and zone, and the document with the scheduled
//! events.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use reqwest::StatusCode;
use scheduled_events_core::wire;
use serde::Deserialize;

use crate::http::{self, HttpError};

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

/// Why the metadata service has no answer. It suggests no remedy, which depends on the purpose of
/// the request.
#[derive(Debug)]
pub struct MetadataError {
    endpoint: String,
    /// Whether it was asked about the machine, not about its events.
    is_about_machine: bool,
    /// What is wrong.
    pub reason: MetadataReason,
}

/// What is wrong with the metadata service.
#[derive(Debug)]
#[non_exhaustive]
pub enum MetadataReason {
    /// It cannot be reached, or its answer is too long.
    Http(HttpError),
    /// It answers with this status.
    Status(u16),
    /// Its answer has another shape.
    Invalid(serde_json::Error),
    /// The machine has no name.
    NoName,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint, reason, ..
        } = self;
        if let MetadataReason::Http(error @ HttpError::Setup(_)) = reason {
            error.fmt(f)
        } else if self.is_about_machine {
            write!(f, "cannot ask {endpoint} about this machine: {reason}")
        } else {
            write!(
                f,
                "cannot ask {endpoint} whether the event is over: {reason}"
            )
        }
    }
}

impl fmt::Display for MetadataReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(error) => error.fmt(f),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Invalid(error) => error.fmt(f),
            Self::NoName => f.write_str("the name is empty"),
        }
    }
}

impl Error for MetadataError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.reason {
            MetadataReason::Http(error) => Some(error),
            MetadataReason::Invalid(error) => Some(error),
            MetadataReason::Status(_) | MetadataReason::NoName => None,
        }
    }
}

/// Asks the metadata service about this machine.
///
/// # Errors
/// It cannot be reached, or has no name.
pub async fn compute(endpoint: &str) -> Result<Compute, MetadataError> {
    let path = "/metadata/instance/compute?api-version=2021-02-01&format=json";
    let answer = async {
        let accepts = StatusCode::is_success;
        let body = get(endpoint, path, REQUEST_TIME, RESPONSE_MAX, accepts).await?;
        let compute: Compute = serde_json::from_slice(&body).map_err(MetadataReason::Invalid)?;
        if compute.name.is_empty() {
            Err(MetadataReason::NoName)
        } else {
            Ok(compute)
        }
    };
    answer.await.map_err(|reason| MetadataError {
        endpoint: endpoint.to_owned(),
        is_about_machine: true,
        reason,
    })
}

/// The document with the scheduled events.
///
/// # Errors
/// The service does not answer with a document.
pub async fn events(endpoint: &str) -> Result<Vec<u8>, MetadataError> {
    events_of(endpoint, wire::API_VERSION).await
}

/// The same with advice, where the service knows the version of the API that has it.
///
/// # Errors
/// The service does not answer with a document.
pub async fn events_with_advice(endpoint: &str) -> Result<Vec<u8>, MetadataError> {
    match events_of(endpoint, wire::ADVICE_API_VERSION).await {
        Err(MetadataError {
            reason: MetadataReason::Status(400 | 404),
            ..
        }) => events(endpoint).await,
        // Without an answer it is not known whether there is advice.
        answer => answer,
    }
}

async fn events_of(endpoint: &str, api_version: &str) -> Result<Vec<u8>, MetadataError> {
    let path = format!("{}?api-version={api_version}", wire::PATH);
    // Only a document shows that an event is over.
    let accepts = |status: &StatusCode| *status == StatusCode::OK;
    get(endpoint, &path, DOCUMENT_TIME, DOCUMENT_MAX, accepts)
        .await
        .map_err(|reason| MetadataError {
            endpoint: endpoint.to_owned(),
            is_about_machine: false,
            reason,
        })
}

/// The body of an answer with a status that `accepts` accepts.
async fn get(
    endpoint: &str,
    path: &str,
    time: Duration,
    limit: usize,
    accepts: fn(&StatusCode) -> bool,
) -> Result<Vec<u8>, MetadataReason> {
    let request = http::client(time)
        .map_err(MetadataReason::Http)?
        .get(format!("{}{path}", endpoint.trim_end_matches('/')))
        .header(wire::HEADER_NAME, wire::HEADER_VALUE);
    let response = request
        .send()
        .await
        .map_err(|error| MetadataReason::Http(HttpError::Connection(error)))?;
    let status = response.status();
    if !accepts(&status) {
        return Err(MetadataReason::Status(status.as_u16()));
    }
    http::body(response, limit)
        .await
        .map_err(MetadataReason::Http)
}
