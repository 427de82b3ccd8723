//! Decides which requests are answered: those that have the keys.
//!
//! A page of another site that runs in a browser on this machine can send requests here. It cannot
//! read the token, its `Origin` is another one, and a name of its own that resolves to this address
//! (DNS rebinding) is another `Host`.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Control;
use super::refusal::Refusal;

/// Headers of every response.
const SECURITY: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Refuses requests to another name or from another site, and protects every response.
pub(super) async fn check_address(
    State(control): State<Control>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match control.keys.check_address(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => Refusal(StatusCode::FORBIDDEN, error.to_string()).into_response(),
    };
    for (name, value) in SECURITY {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Refuses requests without the token.
pub(super) async fn check_token(
    State(control): State<Control>,
    request: Request,
    next: Next,
) -> Response {
    if control.keys.opens(request.headers()) {
        return next.run(request).await;
    }
    let message =
        "the token is missing or wrong: open the link that the program printed when it started";
    Refusal(StatusCode::UNAUTHORIZED, message.to_owned()).into_response()
}

/// Gives up on a request that is not complete in time. Only for requests that need no token: others
/// may wait.
pub(super) async fn in_time(
    State(limit): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    tokio::time::timeout(limit, next.run(request))
        .await
        .unwrap_or_else(|_| {
            Refusal(
                StatusCode::REQUEST_TIMEOUT,
                "the request did not arrive in time".to_owned(),
            )
            .into_response()
        })
}
