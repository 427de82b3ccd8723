//! The HTTP client and the TLS provider of this process.

use std::sync::{Once, OnceLock};
use std::time::Duration;

use crate::address::without_secrets;

/// The time limit of a connection attempt.
const CONNECT_TIME: Duration = Duration::from_secs(2);

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
/// A sentence if the client cannot be set up.
pub fn client(time: Duration) -> Result<reqwest::Client, String> {
    builder(time)
        .build()
        .map_err(|error| format!("cannot set up HTTP: {}", reason(&error)))
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
/// A sentence: it is longer, or the connection failed.
pub async fn body(mut response: reqwest::Response, limit: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(format!("the response has more than {limit} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error with its causes: reqwest prints only the outermost one. Its addresses are without user
/// information and queries.
pub fn reason(error: &dyn std::error::Error) -> String {
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
