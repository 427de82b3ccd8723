//! The conditions of a Node that this program sets. No I/O.
//!
//! Besides its own condition, which only people read, the configuration can add conditions that
//! other programs act on. Kubernetes defines no owner of these, so somebody else may set them, too:
//! a condition that somebody else has set to true is neither changed nor cleared.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;

use crate::config::AddedConditions;
use crate::event::HookEvent;
use crate::record::FIELD_MANAGER;

/// The type of this program's own condition.
pub const PENDING: &str = "ScheduledEventPending";
/// The end of that condition's message from a drain by the last call until the machine is back in
/// service.
pub const BY_LAST_CALL: &str = "; drained by the last call, without the gate's yes";

const PLANNED: &str = "MaintenancePlanned";
const IN_PROGRESS: &str = "MaintenanceInProgress";
const DRAINING: &str = "DrainInProgress";
const DRAINED: &str = "Drained";
const TERMINATING: &str = "Terminating";
const PREEMPTION: &str = "PreemptionScheduled";
/// Those that the configuration can add.
const ADDED: [&str; 6] = [
    PLANNED,
    IN_PROGRESS,
    DRAINING,
    DRAINED,
    TERMINATING,
    PREEMPTION,
];

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCondition {
    /// Its type.
    pub kind: &'static str,
    /// Its status.
    pub status: bool,
    /// Why it has this status, as one word.
    pub reason: String,
    /// The same for people.
    pub message: String,
}

impl WantedCondition {
    /// This program's own condition.
    pub fn pending(status: bool, reason: &str, message: &str) -> Self {
        condition(PENDING, status, reason, message)
    }
}

/// The progress of a drain, as conditions show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStage {
    /// It begins.
    Begun,
    /// No pod that counts is left.
    Drained,
    /// The deadline has passed.
    Failed,
}

/// What the events of this machine are about to do, or do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenEvents {
    /// Whether one is announced.
    pub planned: bool,
    /// Whether one has started.
    pub in_progress: bool,
    /// Whether one is a Preempt.
    pub preempt: bool,
}

impl OpenEvents {
    /// Adds an event.
    pub fn add(&mut self, is_preempt: bool, has_started: bool) {
        self.planned |= !has_started;
        self.in_progress |= has_started;
        self.preempt |= is_preempt;
    }
}

/// The conditions while a node is drained: for an event, or by hand.
pub fn of_drain(
    added: &[AddedConditions],
    stage: DrainStage,
    event: Option<&HookEvent>,
    message: &str,
) -> Vec<WantedCondition> {
    let cause = event.map_or("AdminRequested", HookEvent::type_word);
    let mut wanted = Vec::new();
    if added.contains(&AddedConditions::Lifecycle) {
        let mut set =
            |kind, status, reason: &str| wanted.push(condition(kind, status, reason, message));
        match stage {
            DrainStage::Begun => {
                if event.is_some_and(|event| !event.is_advice()) {
                    set(PLANNED, true, cause);
                }
                set(DRAINING, true, cause);
                set(DRAINED, false, cause);
            }
            DrainStage::Drained => {
                set(DRAINING, false, "DrainCompleted");
                set(DRAINED, true, "DrainCompleted");
            }
            DrainStage::Failed => {
                set(DRAINING, false, "DrainFailed");
                set(DRAINED, false, "DrainFailed");
            }
        }
    }
    if let (DrainStage::Begun, Some(event)) = (stage, event) {
        wanted.extend(of_preempt(added, event, false));
    }
    wanted
}

/// The conditions after a change of an event, when these events of the machine are open; `cause` is
/// the type of one of them.
pub fn of_change(
    added: &[AddedConditions],
    event: &HookEvent,
    has_started: bool,
    open: OpenEvents,
    cause: &str,
    message: &str,
) -> Vec<WantedCondition> {
    let mut wanted = Vec::new();
    if added.contains(&AddedConditions::Lifecycle) {
        for (kind, status) in [(PLANNED, open.planned), (IN_PROGRESS, open.in_progress)] {
            let reason = if status { cause } else { "NoEvent" };
            wanted.push(condition(kind, status, reason, message));
        }
    }
    if open.preempt {
        wanted.extend(of_preempt(added, event, has_started));
    } else {
        for kind in [TERMINATING, PREEMPTION] {
            wanted.push(condition(kind, false, "NoEvent", message));
        }
    }
    wanted
}

/// The conditions of a node that is back in service, whatever the configuration adds now.
pub fn of_service(message: &str) -> Vec<WantedCondition> {
    ADDED
        .into_iter()
        .map(|kind| condition(kind, false, "NoEvent", message))
        .collect()
}

/// In the words in which the programs that set these conditions for a Preempt write them, since
/// those that act on them read the words.
fn of_preempt(
    added: &[AddedConditions],
    event: &HookEvent,
    has_started: bool,
) -> Vec<WantedCondition> {
    if !event.is_preempt() {
        return Vec::new();
    }
    let mut wanted = Vec::new();
    if added.contains(&AddedConditions::Terminating) {
        let message = "Azure evicts this machine";
        wanted.push(condition(
            TERMINATING,
            true,
            "TerminationRequested",
            message,
        ));
    }
    if added.contains(&AddedConditions::PreemptionScheduled) {
        let status = if has_started { "Started" } else { "Scheduled" };
        let start = event
            .start()
            .ok()
            .flatten()
            .filter(|_| !has_started)
            .and_then(rfc1123)
            .map_or_else(String::new, |start| format!(": {start}"));
        let id = event.event_id.escape_debug();
        let message = format!("Preempt {status}{start}. EventId: {id}");
        wanted.push(condition(
            PREEMPTION,
            true,
            "SpotEvictionIncoming",
            &message,
        ));
    }
    wanted
}

fn rfc1123(time: Timestamp) -> Option<String> {
    DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&time)
        .ok()
}

fn condition(kind: &'static str, status: bool, reason: &str, message: &str) -> WantedCondition {
    WantedCondition {
        kind,
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// The node's condition of this type.
pub fn condition_of<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == kind)
}

/// Whether the node has a condition that the configuration can add, is true, and is ours.
pub fn has_ours(node: &Node) -> bool {
    ADDED
        .iter()
        .any(|kind| is_true(node, kind) && owner_of(node, kind) == Owner::Ours)
}

/// The conditions to write, of those wanted; `now` is their time.
pub fn changes(node: &Node, wanted: &[WantedCondition], now: &Time) -> Vec<NodeCondition> {
    wanted
        .iter()
        .filter(|wanted| is_to_write(node, wanted))
        .map(|wanted| {
            let status = if wanted.status { "True" } else { "False" };
            let unchanged_since = condition_of(node, wanted.kind)
                .filter(|before| before.status == status)
                .and_then(|before| before.last_transition_time.clone());
            NodeCondition {
                type_: wanted.kind.into(),
                status: status.into(),
                reason: Some(wanted.reason.clone()),
                message: Some(wanted.message.clone()),
                last_heartbeat_time: Some(now.clone()),
                last_transition_time: Some(unchanged_since.unwrap_or_else(|| now.clone())),
            }
        })
        .collect()
}

/// The own condition always. Of the others, one that is not there needs no false, and one that is
/// true is its writer's.
fn is_to_write(node: &Node, wanted: &WantedCondition) -> bool {
    if wanted.kind == PENDING {
        return true;
    }
    if is_true(node, wanted.kind) {
        return match owner_of(node, wanted.kind) {
            Owner::Ours => true,
            Owner::Others | Owner::Unknown => false,
        };
    }
    wanted.status
}

fn is_true(node: &Node, kind: &str) -> bool {
    condition_of(node, kind).is_some_and(|condition| condition.status == "True")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Ours,
    Others,
    Unknown,
}

/// Who set the status of a condition, as the server records it.
fn owner_of(node: &Node, kind: &str) -> Owner {
    let key = format!("k:{{\"type\":\"{kind}\"}}");
    let mut owner = Owner::Unknown;
    for entry in node.metadata.managed_fields.iter().flatten() {
        let status = entry
            .fields_v1
            .as_ref()
            .map(|fields| &fields.0["f:status"]["f:conditions"][&key]["f:status"]);
        if status.is_none_or(serde_json::Value::is_null) {
            continue;
        }
        if entry.manager.as_deref() != Some(FIELD_MANAGER) {
            return Owner::Others;
        }
        owner = Owner::Ours;
    }
    owner
}
