//! The HTTP client of this process for Azure's own crates: without proxy and redirects, with limits
//! for the time and the size of a response.

use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{
    AsyncRawResponse, ClientOptions, HttpClient, Request, RetryOptions, Transport,
};
use reqwest::Method;
use scheduled_events_common::http::{self, HttpError};
use scheduled_events_common::secret::without_echo;

/// The time limit of one request. The queue answers a request for messages at once.
pub const REQUEST_TIME: Duration = Duration::from_secs(20);

/// The longest response to a request of Azure's crates: 32 messages of 64 KiB, each character as a
/// reference of six bytes, and XML around them.
const RESPONSE_MAX: usize = 13 * 1024 * 1024;

#[derive(Debug)]
struct Client(reqwest::Client);

/// The options for Azure's crates. They repeat no request: the caller does that, and knows how long
/// it may.
///
/// # Errors
/// HTTP cannot be set up.
pub fn options() -> Result<ClientOptions, HttpError> {
    Ok(ClientOptions {
        transport: Some(Transport::new(std::sync::Arc::new(Client(client(
            REQUEST_TIME,
        )?)))),
        retry: RetryOptions::none(),
        ..ClientOptions::default()
    })
}

/// A client whose requests end after `time` and name this program.
///
/// # Errors
/// HTTP cannot be set up.
pub fn client(time: Duration) -> Result<reqwest::Client, HttpError> {
    let builder =
        http::builder(time).user_agent(concat!("scheduled-events-hub/", env!("CARGO_PKG_VERSION")));
    builder.build().map_err(HttpError::Setup)
}

#[async_trait]
impl HttpClient for Client {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let problem = |kind, why: String| Error::with_message(kind, why);
        let method = Method::from_bytes(request.method().as_str().as_bytes());
        let method = method.map_err(|error| problem(ErrorKind::Other, error.to_string()))?;
        let mut builder = self.0.request(method, request.url().clone());
        for (name, value) in request.headers().iter() {
            builder = builder.header(name.as_str(), value.as_str());
        }
        let body: azure_core::Bytes = request.body().into();
        // Storage refuses a write without a length, and one with two.
        let has_length = request
            .headers()
            .iter()
            .any(|(name, _)| name.as_str().eq_ignore_ascii_case("content-length"));
        if body.is_empty()
            && !has_length
            && !matches!(request.method(), azure_core::http::Method::Get)
        {
            builder = builder.header("Content-Length", "0");
        }
        let sent = builder.body(body).send().await;
        let response = sent.map_err(|error| {
            let kind = if error.is_connect() {
                ErrorKind::Connection
            } else {
                ErrorKind::Io
            };
            problem(kind, http::reason(&error.without_url()))
        })?;
        let status = response.status().as_u16();
        let mut headers = Headers::new();
        for (name, value) in response.headers() {
            if let Ok(value) = value.to_str() {
                headers.insert(
                    HeaderName::from(name.as_str().to_owned()),
                    HeaderValue::from(value.to_owned()),
                );
            }
        }
        let body = http::body(response, RESPONSE_MAX)
            .await
            .map_err(|why| problem(ErrorKind::Io, why.to_string()))?;
        Ok(AsyncRawResponse::from_bytes(status.into(), headers, body))
    }
}

/// The longest code of Azure.
const CODE_MAX: usize = 48;

/// A code of Azure, such as `AuthorizationFailed`; empty if it is anything else.
pub fn code(text: &str) -> &str {
    let is_code = text.len() <= CODE_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_code { text } else { "" }
}

/// The error in one line, without secrets.
pub fn reason(error: &Error) -> String {
    let text = match (error.http_status(), error.kind()) {
        (
            Some(status),
            ErrorKind::HttpResponse {
                error_code: Some(found),
                ..
            },
        ) if !code(found).is_empty() => {
            format!("status {}, {}", u16::from(status), code(found))
        }
        (Some(status), _) => format!("status {}", u16::from(status)),
        _ => http::reason(error),
    };
    // azure_identity appends a link to more information.
    let text = text.split("\nTo troubleshoot, ").next().unwrap_or_default();
    let short: String = without_echo(text, &[]).chars().take(400).collect();
    short.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_one_word() {
        let token = "eyJ0".repeat(20);
        assert_eq!(
            (code("AuthorizationFailed"), code("a b"), code(&token)),
            ("AuthorizationFailed", "", "")
        );
    }
}
