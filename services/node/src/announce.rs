//! The command `announce`: shows an event on the node, whether or not it is drained for it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use scheduled_events_core::{Document, EventStatus, EventType};
use tokio::time::Instant;

use crate::api::{NodeApi, NodeError};
use crate::conditions::{
    BY_LAST_CALL, OpenEvents, PENDING, WantedCondition, condition_of, of_change as conditions_of,
};
use crate::config::{AddedConditions, Config};
use crate::event::HookEvent;
use crate::name::node_name;
use crate::print;
use crate::record::record_of;
use scheduled_events_common::failure::Failure;
use scheduled_events_common::metadata;
use scheduled_events_common::names::Name;

/// How long a failed request is repeated.
const RETRY_TIME: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PACE: Duration = Duration::from_secs(1);

/// The values to show.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    pending: bool,
    /// The event's type, as the condition's reason.
    reason: String,
    /// The reason of the Event.
    event: &'static str,
    text: String,
}

impl Shown {
    /// The message of the condition. The text that a drain by the last call wrote stays true until
    /// the machine is back in service.
    fn message(&self, before: Option<&NodeCondition>) -> String {
        let before = before
            .and_then(|before| before.message.as_deref())
            .unwrap_or_default();
        let last_call = if self.pending && before.ends_with(BY_LAST_CALL) {
            BY_LAST_CALL
        } else {
            ""
        };
        format!("{}{last_call}", self.text)
    }
}

/// Shows the change that `scheduled-events watch --on` reports.
///
/// # Errors
/// The change or the event is missing; the API server or the metadata service does not answer.
pub async fn run(config: &Config, node: Option<&str>) -> Result<(), Failure> {
    let change = std::env::var("SCHEDULED_EVENTS_CHANGE").unwrap_or_default();
    let event = HookEvent::from_stdin().map_err(Failure::usage)?;
    let (Some(event), false) = (event, change.is_empty()) else {
        let problem = "there is no change of an event; `announce` is a command for `scheduled-events watch --on`";
        return Err(Failure::usage(problem));
    };
    if event.mine == Some(false) {
        return Ok(());
    }
    // Advice announces nothing: it is an Event on the node, and no condition.
    let name = node_name(node, config).await.map_err(Failure::usage)?;
    let api = NodeApi::connect(&name).await.map_err(Failure::usage)?;
    let begin = Instant::now();
    loop {
        let why = match show(&api, config, &change, &event).await {
            Ok(()) => return Ok(()),
            Err(error @ (NodeError::Conflict | NodeError::Failed(_)))
                if begin.elapsed() + PACE < RETRY_TIME =>
            {
                error
            }
            Err(error) => {
                return Err(Failure::refused(format!(
                    "node {name}: cannot show the event: {error}"
                )));
            }
        };
        print(&format!("node {name}: cannot show the event yet: {why}"));
        tokio::time::sleep(PACE).await;
    }
}

async fn show(
    api: &NodeApi,
    config: &Config,
    change: &str,
    event: &HookEvent,
) -> Result<(), NodeError> {
    let added = &config.node.conditions;
    let node = api.get().await?;
    if event.is_advice() || change == "advice-withdrawn" {
        return publish(api, &node, &of_advice(change, event)).await;
    }
    let mut shown = of_change(change, event);
    let is_over = !shown.pending;
    let has_started = matches!(change, "started" | "started-without-notice");
    let mut open = OpenEvents::default();
    // What other events are about is of interest to conditions that speak of all of them.
    if is_over || added.contains(&AddedConditions::Lifecycle) {
        let others = other_events(config, event).await?;
        open = others.open;
        if let (true, Some(reason)) = (is_over, others.first) {
            shown.pending = true;
            shown.reason = reason;
        }
    }
    if !is_over {
        open.add(event.is_preempt(), has_started);
    }
    let message = shown.message(condition_of(&node, PENDING));
    let mut conditions = Vec::new();
    // Until `uncordon`, the node is out of service.
    if shown.pending || record_of(&node).is_none() {
        conditions.push(WantedCondition::pending(
            shown.pending,
            &shown.reason,
            &message,
        ));
    }
    let (cause, text) = (&shown.reason, &shown.text);
    conditions.extend(conditions_of(added, event, has_started, open, cause, text));
    api.set_conditions(&node, &conditions).await?;
    publish(api, &node, &shown).await
}

async fn publish(api: &NodeApi, node: &Node, shown: &Shown) -> Result<(), NodeError> {
    api.publish(node, false, shown.event, &shown.text).await
}

fn of_advice(change: &str, event: &HookEvent) -> Shown {
    let (kind, id) = (event.type_word(), event.event_id.escape_debug());
    let (name, text) = if change == "advice-withdrawn" {
        (
            "ScheduledEventAdviceWithdrawn",
            format!("{kind} {id} is withdrawn"),
        )
    } else {
        (
            "ScheduledEventAdvised",
            format!("{kind} {id} is advice: this machine may be evicted"),
        )
    };
    Shown {
        pending: false,
        reason: kind.to_owned(),
        event: name,
        text,
    }
}

fn of_change(change: &str, event: &HookEvent) -> Shown {
    let (kind, id) = (event.type_word(), event.event_id.escape_debug());
    let is_over = matches!(change, "completed" | "cancelled" | "ended");
    let has_started = matches!(change, "started" | "started-without-notice");
    let not_before = event
        .not_before
        .as_deref()
        .unwrap_or("at an unknown time")
        .escape_debug();
    let (name, text) = match change {
        _ if is_over => (
            "ScheduledEventOver",
            format!("{kind} {id} is over: {}", change.escape_debug()),
        ),
        _ if has_started => ("ScheduledEventStarted", format!("{kind} {id} has started")),
        _ => (
            "ScheduledEventAnnounced",
            format!("{kind} {id} not before {not_before}"),
        ),
    };
    let reason = if is_over { "NoEvent" } else { kind };
    Shown {
        pending: !is_over,
        reason: reason.to_owned(),
        event: name,
        text,
    }
}

/// The other events of this machine.
#[derive(Debug, Default)]
struct OtherEvents {
    /// The type of the first one.
    first: Option<String>,
    open: OpenEvents,
}

/// The other events of this machine that the metadata service announces.
async fn other_events(config: &Config, event: &HookEvent) -> Result<OtherEvents, NodeError> {
    let endpoint = &config.metadata;
    let machine = match &config.machine {
        Some(machine) => Name::from(machine.as_str()),
        None => Name::from(
            metadata::compute(endpoint)
                .await
                .map_err(|why| NodeError::failed(format!("{why}; set `machine`")))?
                .name,
        ),
    };
    let body = metadata::events(endpoint)
        .await
        .map_err(NodeError::failed)?;
    let document = Document::parse(&body).map_err(|error| {
        NodeError::failed(format!("{endpoint}: the document is invalid: {error}"))
    })?;
    let mut others = OtherEvents::default();
    for other in document.events() {
        let is_same = other
            .event_id()
            .to_string()
            .eq_ignore_ascii_case(&event.event_id);
        let is_mine = || {
            let mut names = other.resources().into_iter();
            names.any(|name| Name::from(name.to_string()) == machine)
        };
        if is_same || !is_mine() {
            continue;
        }
        if other.is_advice() {
            continue;
        }
        let event_type = other.event_type();
        let is_preempt = event_type == Some(EventType::Preempt);
        let has_started = other.event_status() == Some(EventStatus::Started);
        others.open.add(is_preempt, has_started);
        let event_type = event_type.map(|event_type| event_type.to_string());
        others.first.get_or_insert_with(|| {
            let other = HookEvent {
                event_type,
                ..HookEvent::default()
            };
            other.type_word().to_owned()
        });
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_change() {
        let event = HookEvent {
            event_id: "A\n1".into(),
            event_type: Some("Freeze".into()),
            not_before: Some("2026-11-23T05:00:00Z".into()),
            ..HookEvent::default()
        };
        for (change, pending, reason, name, text) in [
            (
                "scheduled",
                true,
                "Freeze",
                "ScheduledEventAnnounced",
                "Freeze A\\n1 not before 2026-11-23T05:00:00Z",
            ),
            (
                "rescheduled",
                true,
                "Freeze",
                "ScheduledEventAnnounced",
                "Freeze A\\n1 not before 2026-11-23T05:00:00Z",
            ),
            (
                "started",
                true,
                "Freeze",
                "ScheduledEventStarted",
                "Freeze A\\n1 has started",
            ),
            (
                "cancelled",
                false,
                "NoEvent",
                "ScheduledEventOver",
                "Freeze A\\n1 is over: cancelled",
            ),
        ] {
            let expected = Shown {
                pending,
                reason: reason.into(),
                event: name,
                text: text.into(),
            };
            assert_eq!(of_change(change, &event), expected);
        }
    }
}
