//! The command `uncordon`: puts the node back into service once it is ready.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use scheduled_events_core::Document;
use tokio::time::Instant;

use crate::api::{NodeApi, NodeError};
use crate::conditions::{PENDING, WantedCondition, condition_of, has_ours, of_service};
use crate::config::Config;
use crate::event::HookEvent;
use crate::name::node_name;
use crate::record::{Cordon, check_ready, cordon_of, put_back, record_of};
use crate::reporter::Reporter;
use crate::{boot_id, print};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::metadata;

/// How often to read the node while it is not ready.
const PACE: Duration = Duration::from_secs(1);

/// Puts the node back into service, as far as `drain` took it out.
///
/// # Errors
/// The node is not ready in time; or its name is missing.
pub async fn run(config: &Config, node: Option<&str>, if_over: bool) -> Result<(), Failure> {
    let name = node_name(node, config).await.map_err(Failure::usage)?;
    // The command recovers the machine, not an event: which event ended last makes no difference.
    HookEvent::from_stdin().map_err(Failure::usage)?;
    let api = NodeApi::connect(&name).await.map_err(Failure::usage)?;
    let boot_id = boot_id();
    let begin = Instant::now();
    let mut printed = String::new();
    loop {
        let endpoint = if_over.then_some(config.metadata.as_str());
        let failure = match attempt(&api, boot_id.as_deref(), endpoint).await {
            Ok((node, outcome)) => {
                print(&format!("node {name}: {outcome}"));
                if put_back(&node).is_none() {
                    clear_conditions(&api, node, &outcome).await;
                }
                return Ok(());
            }
            Err(NodeError::Refused(message)) => {
                return Err(Failure::refused(format!(
                    "cannot uncordon node {name}: {message}"
                )));
            }
            // After a redeployment the kubelet may have to register it first.
            Err(NodeError::NotFound) => format!("there is no node {name}"),
            Err(error @ (NodeError::Conflict | NodeError::Failed(_))) => error.to_string(),
        };
        if failure != printed {
            print(&format!("node {name}: not back in service yet: {failure}"));
            printed.clone_from(&failure);
        }
        if begin.elapsed() + PACE >= config.node.ready_timeout {
            return Err(Failure::refused(format!(
                "node {name} is not back in service: {failure}"
            )));
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Returns the current node, and the result in words. With an endpoint, the events in its document
/// keep the node as it is.
async fn attempt(
    api: &NodeApi,
    boot_id: Option<&str>,
    endpoint: Option<&str>,
) -> Result<(Node, String), NodeError> {
    let node = api.get().await?;
    if let (Some(record), Some(endpoint)) = (record_of(&node), endpoint) {
        let has_advice = record.events.iter().any(|event| event.is_advice);
        let open = open_events(endpoint, has_advice).await?;
        if let Some(event) = record
            .events
            .iter()
            .find(|event| open.contains(&event.id.to_ascii_lowercase()))
        {
            let outcome = format!(
                "stays out of service, because {} {} is not over",
                event.event_type,
                event.id.escape_debug()
            );
            return Ok((node, outcome));
        }
    }
    let cordon = cordon_of(&node);
    let Some(patch) = put_back(&node) else {
        return Ok((node, "was not taken out of service".into()));
    };
    check_ready(&node, boot_id).map_err(NodeError::failed)?;
    let node = api.patch(&patch).await?;
    let outcome = match cordon {
        Cordon::Ours => "is back in service".to_owned(),
        Cordon::None => "is back in service; somebody else had uncordoned it".to_owned(),
        Cordon::Others(manager) => {
            let manager = manager.as_deref().unwrap_or("somebody else");
            format!(
                "stays cordoned, because {} cordoned it",
                manager.escape_debug()
            )
        }
    };
    Ok((node, outcome))
}

/// The ids of the events in the metadata service's document, in lower case.
async fn open_events(endpoint: &str, with_advice: bool) -> Result<Vec<String>, NodeError> {
    let body = if with_advice {
        metadata::events_with_advice(endpoint).await
    } else {
        metadata::events(endpoint).await
    };
    let body = body.map_err(NodeError::failed)?;
    let document = Document::parse(&body).map_err(|error| {
        NodeError::failed(format!(
            "cannot ask {endpoint} whether the event is over: the document is invalid: {error}"
        ))
    })?;
    Ok(document
        .events()
        .map(|event| event.event_id().to_string().to_ascii_lowercase())
        .collect())
}

/// Clears the conditions.
async fn clear_conditions(api: &NodeApi, node: Node, outcome: &str) {
    let pending = condition_of(&node, PENDING).is_some_and(|found| found.status == "True");
    if pending || has_ours(&node) {
        let reporter = Reporter::start(api.clone(), node);
        let message = "No event keeps this machine out of service";
        let mut conditions = of_service(message);
        conditions.push(WantedCondition::pending(false, "NoEvent", message));
        reporter.conditions(conditions);
        reporter.event(false, "ScheduledEventOver", &format!("The node {outcome}"));
        reporter.finish().await;
    }
}
