//! The requests about a node and its pods: each has a time limit, and none is repeated here.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::Request;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use serde_json::{Value, json};

use crate::conditions::{WantedCondition, changes};
use crate::plan::{Answer, Removal};
use crate::record::{FIELD_MANAGER, PROGRESS};
use scheduled_events_common::kubernetes::{ConnectError, connect, describe, status_code};

/// How long one request may take.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The longest answer to an eviction that is read.
const ANSWER_MAX: usize = 64 * 1024;
/// The longest note of an Event, in bytes; the server refuses 1024.
const NOTE_MAX: usize = 1000;

/// Why a request about a node failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// The node changed meanwhile. With its new version the request can succeed.
    Conflict,
    /// There is no such node.
    NotFound,
    /// A repetition does not help.
    Refused(String),
    /// A repetition may help.
    Failed(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("it changed meanwhile"),
            Self::NotFound => f.write_str("it does not exist"),
            Self::Refused(message) => f.write_str(message),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => error.source(),
            Self::Conflict | Self::NotFound | Self::Refused(_) => None,
        }
    }
}

impl NodeError {
    /// What a repetition may help against.
    pub(crate) fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// The API, for one node.
#[derive(Clone)]
pub struct NodeApi {
    client: Client,
    name: String,
}

impl NodeApi {
    /// For the node with this name.
    ///
    /// # Errors
    /// There is no credential.
    pub async fn connect(name: &str) -> Result<Self, ConnectError> {
        Ok(Self {
            client: connect().await?,
            name: name.to_owned(),
        })
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// The pods of all namespaces.
    pub fn pods(&self) -> Api<Pod> {
        Api::all(self.client.clone())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The current node.
    ///
    /// # Errors
    /// Of any kind but a conflict.
    pub async fn get(&self) -> Result<Node, NodeError> {
        node_result(self.nodes().get(&self.name)).await
    }

    /// Changes the node.
    ///
    /// # Errors
    /// Of any kind.
    pub async fn patch(&self, patch: &Value) -> Result<Node, NodeError> {
        node_result(
            self.nodes()
                .patch(&self.name, &parameters(), &Patch::Merge(patch)),
        )
        .await
    }

    /// Shows people the progress of the drain.
    ///
    /// # Errors
    /// Of any kind but a conflict.
    pub async fn show_progress(&self, text: &str) -> Result<(), NodeError> {
        self.patch(&json!({ "metadata": { "annotations": { PROGRESS: text } } }))
            .await
            .map(drop)
    }

    /// Sets conditions, except those that somebody else has set, and returns the node. `node` is the
    /// object as last read.
    ///
    /// # Errors
    /// Of any kind but a conflict.
    pub async fn set_conditions(
        &self,
        node: &Node,
        wanted: &[WantedCondition],
    ) -> Result<Option<Node>, NodeError> {
        let conditions = changes(node, wanted, &Time(Timestamp::now()));
        if conditions.is_empty() {
            return Ok(None);
        }
        // The server merges conditions by their type: those of the kubelet stay as they are.
        let patch = json!({ "status": { "conditions": conditions } });
        node_result(
            self.nodes()
                .patch_status(&self.name, &parameters(), &Patch::Strategic(patch)),
        )
        .await
        .map(Some)
    }

    /// Publishes an Event about the node.
    ///
    /// # Errors
    /// [`NodeError::Failed`].
    pub async fn publish(
        &self,
        node: &Node,
        warning: bool,
        reason: &str,
        text: &str,
    ) -> Result<(), NodeError> {
        let reporter = Reporter {
            controller: FIELD_MANAGER.into(),
            instance: Some(self.name.clone()),
        };
        let recorder = Recorder::new(self.client.clone(), reporter);
        let event = Event {
            type_: if warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.into(),
            note: Some(truncated(text, NOTE_MAX).to_owned()),
            action: "Maintenance".into(),
            secondary: None,
        };
        let published = limited(recorder.publish(&event, &node.object_ref(&()))).await;
        published.map_err(|error| {
            NodeError::failed(error.map_or_else(timed_out, |error| describe(&error)))
        })
    }

    /// Requests the removal of a pod.
    pub async fn remove(&self, removal: &Removal) -> Answer {
        match tokio::time::timeout(REQUEST_TIME, self.send_removal(removal)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Failed {
                message: describe(&error),
            },
            Err(_) => Answer::Failed {
                message: timed_out(),
            },
        }
    }

    /// Builds the request itself, since the client's own eviction leaves out the grace period, and
    /// hides the pause that a server asks for in a header.
    async fn send_removal(&self, removal: &Removal) -> Result<Answer, kube::Error> {
        let pod = &removal.pod;
        let url = Request::new(Pod::url_path(&(), Some(&pod.namespace)));
        let grace_period_seconds = removal.grace_seconds.map(i64::from);
        let identity = Some(pod.uid.clone());
        let request = if removal.force {
            let preconditions = Some(kube::api::Preconditions {
                uid: identity,
                resource_version: None,
            });
            let grace_period_seconds = removal.grace_seconds;
            let parameters = DeleteParams {
                grace_period_seconds,
                preconditions,
                ..DeleteParams::default()
            };
            url.delete(&pod.name, &parameters)
        } else {
            let (name, namespace) = (Some(pod.name.clone()), Some(pod.namespace.clone()));
            let preconditions = Some(Preconditions {
                uid: identity,
                resource_version: None,
            });
            let eviction = Eviction {
                metadata: ObjectMeta {
                    name,
                    namespace,
                    ..ObjectMeta::default()
                },
                delete_options: Some(DeleteOptions {
                    grace_period_seconds,
                    preconditions,
                    ..DeleteOptions::default()
                }),
            };
            let body = serde_json::to_vec(&eviction).map_err(kube::Error::SerdeError)?;
            url.create_subresource("eviction", &pod.name, &PostParams::default(), body)
        };
        let request = request.map_err(kube::Error::BuildRequest)?.map(Body::from);
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let header = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let body = http_body_util::Limited::new(response.into_body(), ANSWER_MAX)
            .collect()
            .await;
        let body = body
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        Ok(answer(code, header, &body))
    }
}

/// The meaning of an answer to a removal.
fn answer(code: u16, retry_after: Option<u64>, body: &[u8]) -> Answer {
    // Not every error is JSON: the server's own limit of requests returns plain text.
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let details = &status["details"];
    let retry_after = retry_after
        .or_else(|| details["retryAfterSeconds"].as_u64())
        .map(Duration::from_secs);
    let budget = details["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|cause| cause["reason"] == "DisruptionBudget");
    let message = || {
        let text = status["message"]
            .as_str()
            .map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
        format!("{} ({code})", truncated(&text, 300).escape_debug())
    };
    match code {
        200..=299 => Answer::Accepted,
        // Another pod with this name has another identity, which is a conflict.
        404 | 409 => Answer::Gone,
        429 => match budget {
            Some(cause) => {
                let text = cause["message"]
                    .as_str()
                    .unwrap_or("a disruption budget does not allow it");
                Answer::Budget {
                    message: truncated(text, 300).escape_debug().to_string(),
                    retry_after,
                }
            }
            None => Answer::Overloaded { retry_after },
        },
        503 => Answer::Overloaded { retry_after },
        _ => Answer::Failed { message: message() },
    }
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// Runs a request with its time limit, and returns `Err(None)` if it took too long.
async fn limited<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Option<kube::Error>> {
    match tokio::time::timeout(REQUEST_TIME, request).await {
        Ok(result) => result.map_err(Some),
        Err(_) => Err(None),
    }
}

fn timed_out() -> String {
    format!("no answer within {} s", REQUEST_TIME.as_secs())
}

async fn node_result<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, NodeError> {
    limited(request).await.map_err(|error| {
        let Some(error) = error else {
            return NodeError::failed(timed_out());
        };
        let message = describe(&error);
        match status_code(&error) {
            Some(409) => NodeError::Conflict,
            Some(404) => NodeError::NotFound,
            // A missing right or credential may be replaced within one run of a hook.
            Some(400 | 405 | 415 | 422) => NodeError::Refused(message),
            _ => NodeError::failed(message),
        }
    })
}

/// The first `limit` bytes of a text, at most.
fn truncated(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_budgets_or_an_overload() {
        let budget = json!({"kind": "Status", "code": 429, "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}]}});
        let message = "The disruption budget web needs 2 healthy pods".to_owned();
        let body = budget.to_string();
        assert_eq!(
            answer(429, None, body.as_bytes()),
            Answer::Budget {
                message: message.clone(),
                retry_after: None
            }
        );
        let ten = Some(Duration::from_secs(10));
        assert_eq!(
            answer(429, Some(10), body.as_bytes()),
            Answer::Budget {
                message,
                retry_after: ten
            }
        );
        assert_eq!(
            answer(429, Some(1), b"Too many requests"),
            Answer::Overloaded {
                retry_after: Some(Duration::from_secs(1))
            }
        );
        let details = json!({"details": {"retryAfterSeconds": 10}}).to_string();
        assert_eq!(
            answer(429, None, details.as_bytes()),
            Answer::Overloaded { retry_after: ten }
        );
        assert_eq!(
            answer(503, None, b""),
            Answer::Overloaded { retry_after: None }
        );
    }

    #[test]
    fn other_answers() {
        assert_eq!(answer(201, None, b"{}"), Answer::Accepted);
        assert_eq!(answer(404, None, b"{}"), Answer::Gone);
        assert_eq!(answer(409, None, b"{}"), Answer::Gone);
        assert_eq!(
            answer(500, None, b"two\nbudgets"),
            Answer::Failed {
                message: "two\\nbudgets (500)".into()
            }
        );
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!((truncated("äöü", 3), truncated("abc", 9)), ("ä", "abc"));
    }
}
