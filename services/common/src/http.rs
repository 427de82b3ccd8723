//! The HTTP client and the TLS provider of this process.

use std::error::Error;
use std::fmt;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use crate::address::without_secrets;

/// The time limit of a connection attempt.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// Why there is no client, or no body of a response.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// The client cannot be set up.
    Setup(reqwest::Error),
    /// The server cannot be reached, or the connection was lost.
    Connection(reqwest::Error),
    /// The body is longer than this many bytes.
    TooLong(usize),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => write!(f, "cannot set up HTTP: {}", reason(error)),
            Self::Connection(error) => f.write_str(&reason(error)),
            Self::TooLong(limit) => write!(f, "the response has more than {limit} bytes"),
        }
    }
}

impl Error for HttpError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Setup(error) | Self::Connection(error) => Some(error),
            Self::TooLong(_) => None,
        }
    }
}

/// Installs the TLS provider. It must run before the first connection of any library; further calls
/// do nothing.
pub fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that one is installed already, which only another thread of a test can
        // have done.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A client that uses no proxy, follows no redirect, verifies certificates against the system's
/// roots, and whose requests end after `time`.
///
/// # Errors
/// [`HttpError::Setup`].
pub fn client(time: Duration) -> Result<reqwest::Client, HttpError> {
    builder(time).build().map_err(HttpError::Setup)
}

/// The settings of [`client`], for a client that needs more, such as a certificate authority of its
/// own.
///
/// Where the system has no authorities, as in an image that contains only this program, the client
/// trusts only the certificates that are added. Otherwise it could not even reach a server without
/// TLS.
pub fn builder(time: Duration) -> reqwest::ClientBuilder {
    static HAS_AUTHORITIES: OnceLock<bool> = OnceLock::new();

    install_tls();
    let builder = reqwest::Client::builder();
    let builder = if *HAS_AUTHORITIES.get_or_init(|| reqwest::Client::builder().build().is_ok()) {
        builder
    } else {
        builder.tls_certs_only([])
    };
    builder
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIME)
        .timeout(time)
        .user_agent(concat!(
            "scheduled-events-fleet/",
            env!("CARGO_PKG_VERSION")
        ))
}

/// The body of a response, if it has at most `limit` bytes.
///
/// # Errors
/// It is longer, or the connection failed.
pub async fn body(mut response: reqwest::Response, limit: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(HttpError::Connection)? {
        if body.len() + chunk.len() > limit {
            return Err(HttpError::TooLong(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error with its causes: reqwest prints only the outermost one. Its addresses are without user
/// information and queries.
pub fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    without_secrets(&text)
}
