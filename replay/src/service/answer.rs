//! The action for a request, once its faults are known.

use std::time::{Duration, SystemTime};

use crate::fault::kind::RetryTime;
use crate::fault::plan::{AnswerFault, Damage, FaultPlan};
use crate::http::ReplayResponse;
use crate::http::wire;

/// The action for a request.
pub(crate) enum ServiceAction {
    /// Close the connection: the server is stopping.
    Stop,
    Reset,
    Silence,
    NotHttp,
    Respond(Box<Delivery>),
}

/// A response and how to send it.
pub(crate) struct Delivery {
    pub(crate) response: ReplayResponse,
    pub(crate) damage: Option<Damage>,
    pub(crate) slow_headers: Duration,
    pub(crate) slow_body: Duration,
}

/// The body of a response to an approval when a fault needs one. The service itself sends none.
const PLACEHOLDER_BODY: &str = r#"{"note":"placeholder body, to be damaged by a fault"}"#;

impl Delivery {
    /// A response sent without faults.
    pub(crate) fn plain(response: ReplayResponse) -> Self {
        Self {
            response,
            damage: None,
            slow_headers: Duration::ZERO,
            slow_body: Duration::ZERO,
        }
    }
}

impl ServiceAction {
    pub(crate) fn respond(mut response: ReplayResponse, plan: &FaultPlan) -> Self {
        if let Some(content_type) = &plan.content_type {
            response = response.with("Content-Type", content_type);
        }
        let damage = match plan.answer {
            Some(AnswerFault::Damage(damage)) => Some(damage),
            _ => None,
        };
        let (slow_headers, slow_body) = (plan.slow_headers, plan.slow_body);
        Self::Respond(Box::new(Delivery {
            response,
            damage,
            slow_headers,
            slow_body,
        }))
    }

    /// The fault that replaces the answer, so that the request has no effect. `of_status` creates
    /// the service's response for a status.
    pub(crate) fn instead_of_answer(
        plan: &FaultPlan,
        of_status: fn(u16) -> ReplayResponse,
    ) -> Option<Self> {
        Some(match plan.answer.as_ref()? {
            AnswerFault::Reset => Self::Reset,
            AnswerFault::Silence => Self::Silence,
            AnswerFault::NotHttp => Self::NotHttp,
            AnswerFault::Status(code) => Self::respond(of_status(*code), plan),
            AnswerFault::RetryAfter(value) => {
                Self::respond(of_status(429).with("Retry-After", retry_after(value)), plan)
            }
            AnswerFault::Redirect(code, location) => {
                Self::respond(ReplayResponse::new(*code).with("Location", location), plan)
            }
            _ => return None,
        })
    }

    /// The service's answer, changed as the faults demand. Only a 200 is changed.
    pub(crate) fn answer(mut response: ReplayResponse, plan: &FaultPlan) -> Self {
        if response.status != 200 {
            return Self::respond(response, plan);
        }
        let needs_body = !plan.slow_body.is_zero()
            || matches!(
                plan.answer,
                Some(AnswerFault::Damage(_) | AnswerFault::HalfDocument | AnswerFault::Gzip)
            );
        if response.body.is_empty() && needs_body {
            response = ReplayResponse::json(200, PLACEHOLDER_BODY);
        }
        let response = match plan.answer {
            Some(AnswerFault::Empty) => response.body(""),
            Some(AnswerFault::NotJson) => ReplayResponse::json(200, "not json"),
            Some(AnswerFault::HalfDocument) => {
                let half = response.body.len() / 2;
                response.body.truncate(half);
                response
            }
            Some(AnswerFault::Gzip) => {
                let packed = wire::gzip(&response.body);
                response.with("Content-Encoding", "gzip").body(packed)
            }
            _ => response,
        };
        Self::respond(response, plan)
    }

    /// The response, unless a fault suppressed it.
    pub(crate) fn response(&self) -> Option<&ReplayResponse> {
        match self {
            Self::Respond(delivery) => Some(&delivery.response),
            _ => None,
        }
    }
}

/// The response of the metadata service for a status.
pub(crate) fn status_response(status: u16) -> ReplayResponse {
    match status {
        204 | 304 => ReplayResponse::new(status),
        // Captured in public from a throttled POST.
        429 => ReplayResponse::text(429, "Throttle Result: Too Many Requests"),
        200..=399 => ReplayResponse::json(status, "{}"),
        _ => ReplayResponse::json(status, wire::error_body(crate::http::reason(status))),
    }
}

/// The time that a `Retry-After` asks for, if it can be read.
pub(super) fn retry_time(value: &str) -> Option<Duration> {
    let seconds = value.parse().map(Duration::from_secs).ok();
    seconds.or_else(|| {
        let time = httpdate::parse_http_date(value).ok()?;
        Some(time.duration_since(SystemTime::now()).unwrap_or_default())
    })
}

fn retry_after(value: &RetryTime) -> String {
    match value {
        RetryTime::Text(text) => text.clone(),
        RetryTime::DateIn(span) => {
            httpdate::fmt_http_date(wire::wall_time(SystemTime::now(), *span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_responses_have_the_body_of_the_service() {
        assert_eq!(
            status_response(429).body,
            b"Throttle Result: Too Many Requests"
        );
        assert_eq!(status_response(410).body, br#"{"error":"Gone"}"#);
        assert!(status_response(204).body.is_empty());
        assert_eq!(retry_after(&RetryTime::Text("7".into())), "7");
        assert!(
            httpdate::parse_http_date(&retry_after(&RetryTime::DateIn(Duration::from_secs(5))))
                .is_ok()
        );
    }
}
