//! Why the metadata service cannot be asked, and why its answer says nothing.

use std::error::Error;
use std::fmt;

use scheduled_events_core::Cause;

use super::{API_VERSION, ENDPOINT, USER_AGENT_MAX};

/// Why requests cannot be prepared.
///
/// ```
/// use scheduled_events::imds::{Imds, ImdsError};
///
/// let refused = Imds::new("http://10.0.0.4");
/// assert!(matches!(refused, Err(ImdsError::NotLocal { endpoint }) if endpoint == "http://10.0.0.4"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ImdsError {
    /// The endpoint is not a URL.
    NotAUrl {
        /// The endpoint, without what can be a secret.
        endpoint: String,
        /// The error of the URL's reader.
        error: Box<dyn Error + Send + Sync>,
    },
    /// The scheme of the endpoint is not `http`.
    NotHttp {
        /// The endpoint, without what can be a secret.
        endpoint: String,
    },
    /// The endpoint has a path, a query, a fragment or user information.
    NotAnOrigin {
        /// The endpoint, without what can be a secret.
        endpoint: String,
        /// What may have been meant.
        instead: String,
    },
    /// The port of the endpoint is no number, or too large.
    InvalidPort {
        /// The endpoint, without what can be a secret.
        endpoint: String,
    },
    /// The endpoint is neither Azure's address nor on this machine, and others are not allowed: see
    /// [`Imds::at_any_endpoint`](super::Imds::at_any_endpoint).
    NotLocal {
        /// The endpoint, without what can be a secret.
        endpoint: String,
    },
    /// The text cannot be an API version.
    InvalidApiVersion(String),
    /// The text cannot be a `User-Agent`.
    InvalidUserAgent(String),
}

impl fmt::Display for ImdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAUrl { endpoint, error } => {
                write!(f, "the endpoint {endpoint:?} is not a URL: {error}")
            }
            Self::NotHttp { endpoint } => write!(
                f,
                "the endpoint {endpoint:?} must start with http://, as {ENDPOINT} does"
            ),
            Self::NotAnOrigin { endpoint, instead } => write!(
                f,
                "the endpoint {endpoint:?} must be a scheme, a host and a port; try {instead}"
            ),
            Self::InvalidPort { endpoint } => write!(
                f,
                "the endpoint {endpoint:?} must have a port from 0 to 65535, or none"
            ),
            Self::NotLocal { endpoint } => write!(
                f,
                "the endpoint {endpoint:?} is neither 169.254.169.254 nor on this machine"
            ),
            Self::InvalidApiVersion(text) => write!(
                f,
                "{text:?} is not an API version; the newest is {API_VERSION}"
            ),
            Self::InvalidUserAgent(text) => write!(
                f,
                "{text:?} is not a User-Agent; expected 1 to {USER_AGENT_MAX} characters of visible ASCII"
            ),
        }
    }
}

impl Error for ImdsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotAUrl { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

/// Why there is no usable response. `Display` writes the cause and the detail: `timeout (…)`.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::imds::Imds;
/// use scheduled_events_core::Cause;
///
/// // Nothing listens on port 1.
/// let failure = Imds::new("http://127.0.0.1:1")?.events(Duration::from_secs(2)).unwrap_err();
/// assert_eq!(failure.cause, Cause::Unreachable);
/// assert!(!failure.detail.is_empty());
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestFailure {
    /// The cause, for the session.
    pub cause: Cause,
    /// The message of the HTTP library.
    pub detail: String,
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cause, self.detail)
    }
}

impl Error for RequestFailure {}

/// Why the machine's own name or id is unknown.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::imds::{Imds, MetadataError};
///
/// // Nothing listens on port 1.
/// let unknown = Imds::new("http://127.0.0.1:1")?.vm_name(Duration::from_secs(2));
/// assert!(matches!(unknown, Err(MetadataError::Request(_))));
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MetadataError {
    /// There is no usable response.
    Request(RequestFailure),
    /// The service refuses the request with this status.
    Status(u16),
    /// The response is not text.
    NotText,
    /// Azure allows no such name. This is its start.
    NotAName(String),
    /// No id is so long or has such characters. This is its start.
    NotAnId(String),
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(failure) => failure.fmt(f),
            Self::Status(status) => write!(f, "status {status}"),
            Self::NotText => write!(f, "the response is not UTF-8"),
            Self::NotAName(start) => write!(f, "{start:?} is not a machine name"),
            Self::NotAnId(start) => write!(f, "{start:?} is not an id"),
        }
    }
}

impl Error for MetadataError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Request(failure) => Some(failure),
            _ => None,
        }
    }
}
