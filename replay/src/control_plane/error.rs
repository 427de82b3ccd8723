//! Errors in the form of Azure Resource Manager: `{"error": {"code", "message", "details"}}`.

use std::fmt::Write as _;

use crate::http::{ReplayResponse, reason};

/// The header of Resource Graph with the time until the full quota is available again.
pub(crate) const QUOTA_RESETS_AFTER: &str = "x-ms-user-quota-resets-after";

/// Its value: the quota of Resource Graph is per five seconds.
pub(crate) const QUOTA_WINDOW: &str = "00:00:05";

/// A refusal.
pub(crate) fn refusal(status: u16, code: &str, message: &str) -> ReplayResponse {
    refusals(status, code, message, &[])
}

/// A refusal of several things, each with its target, its code and its message.
pub(crate) fn refusals(
    status: u16,
    code: &str,
    message: &str,
    details: &[(&str, &str, &str)],
) -> ReplayResponse {
    // A text cannot fail.
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let mut body = format!(r#"{{"error":{{"code":"{code}","message":{}"#, text(message));
    for (number, (target, code, message)) in details.iter().enumerate() {
        body += if number == 0 { r#","details":["# } else { "," };
        // Writing to a string does not fail.
        let _ = write!(
            body,
            r#"{{"target":{},"code":"{code}","message":"{message}"}}"#,
            text(target)
        );
    }
    body += if details.is_empty() { "}}" } else { "]}}" };
    ReplayResponse::json(status, body)
}

/// The refusal with the status of a fault.
pub(crate) fn of_status(status: u16) -> ReplayResponse {
    let (code, message) = match status {
        204 | 304 => return ReplayResponse::new(status),
        200..=399 => return ReplayResponse::json(status, "{}"),
        401 => ("InvalidAuthenticationToken", "The access token is invalid."),
        403 => (
            "AuthorizationFailed",
            "The client does not have authorization to perform this action over this scope.",
        ),
        409 => ("Conflict", "The event cannot be acknowledged."),
        429 => ("TooManyRequests", reason(status)),
        _ => ("Error", reason(status)),
    };
    let response = refusal(status, code, message);
    match status {
        401 => response.with("WWW-Authenticate", "Bearer error=\"invalid_token\""),
        429 => response.with(QUOTA_RESETS_AFTER, QUOTA_WINDOW),
        _ => response,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn fact_errors_are_in_the_form_of_resource_manager() {
        for status in [401, 403, 404, 409, 429, 500, 502, 503] {
            let response = of_status(status);
            let body: Value = serde_json::from_slice(&response.body).expect("JSON");
            let text = |name: &str| {
                body["error"][name]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
            };
            assert!(
                response.status == status && text("code") && text("message"),
                "{body}"
            );
        }
        assert!(
            of_status(429)
                .headers
                .contains(&(QUOTA_RESETS_AFTER, QUOTA_WINDOW.to_owned()))
        );
        assert!(of_status(204).body.is_empty());
    }
}
