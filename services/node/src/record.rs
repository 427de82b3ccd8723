//! The record in the Node object that the node is out of service, and the changes to it.
//!
//! The record is an annotation, and changes in the same request as the cordon. So the node is never
//! cordoned without a record of who did it, whenever the process or the machine ends. Every change
//! names the version of the object that it is based on: the list of taints, which others change
//! too, can only be replaced as a whole.

use std::fmt;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::NodeConfig;
use crate::event::HookEvent;

/// The annotation with the record, and the key of the taint.
pub const OUT_OF_SERVICE: &str = "scheduled-events/out-of-service";
/// The annotation that shows people the progress of a drain.
pub const PROGRESS: &str = "scheduled-events/progress";
/// The name under which the server records the fields that this program set.
pub const FIELD_MANAGER: &str = "scheduled-events";
/// The label that keeps the load balancers of Kubernetes away from a node, whatever its value is.
pub const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// How many events are recorded; a machine has one or two at a time.
const EVENTS_MAX: usize = 16;

/// The record that a node is out of service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct OutOfService {
    /// Whether this program cordoned the node. Otherwise somebody else had done so before.
    pub cordoned: bool,
    /// Whether this program took the node out of the load balancers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
    /// When the node went out of service, in RFC 3339.
    pub since: String,
    /// The boot during which that happened, if this program ran on the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The events that are the reason.
    pub events: Vec<RecordedEvent>,
}

/// An event in the record.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct RecordedEvent {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Whether it is advice, which only a newer version of the metadata service's API has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_advice: bool,
    /// When it starts at the earliest, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

/// Who cordoned a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cordon {
    /// Nobody.
    None,
    /// This program.
    Ours,
    /// Somebody else, with the name under which the server knows them, if it does.
    Others(Option<String>),
}

/// The record of a node; `None` if it has none, or one that cannot be read.
pub fn record_of(node: &Node) -> Option<OutOfService> {
    serde_json::from_str(annotation(node, OUT_OF_SERVICE)?).ok()
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata
        .annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Who cordoned a node: the record contains what this program did, and the server knows whether
/// somebody else has undone and repeated it since.
pub fn cordon_of(node: &Node) -> Cordon {
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) {
        return Cordon::None;
    }
    let recorded = record_of(node).is_some_and(|record| record.cordoned);
    let mut owners = node
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .filter(|entry| {
            let fields = entry
                .fields_v1
                .as_ref()
                .map(|fields| &fields.0["f:spec"]["f:unschedulable"]);
            fields.is_some_and(|field| !field.is_null())
        });
    let other = owners.find(|entry| entry.manager.as_deref() != Some(FIELD_MANAGER));
    match other {
        Some(entry) => Cordon::Others(entry.manager.clone()),
        None if recorded => Cordon::Ours,
        None => Cordon::Others(None),
    }
}

/// The change that takes a node out of service for an event, or keeps it out for another one;
/// `None` if no change is needed.
pub fn take_out(
    node: &Node,
    event: Option<&HookEvent>,
    options: &NodeConfig,
    now: &str,
    boot_id: Option<&str>,
) -> Option<Value> {
    let before = record_of(node);
    let mut record = before.clone().unwrap_or_else(|| OutOfService {
        since: now.to_owned(),
        ..OutOfService::default()
    });
    let cordon = cordon_of(node);
    record.cordoned = matches!(cordon, Cordon::None | Cordon::Ours);
    let reported = node
        .status
        .as_ref()
        .and_then(|status| status.node_info.as_ref())
        .map(|info| info.boot_id.as_str());
    // After a boot, until the node reports it, the record keeps the earlier boot.
    if let Some(boot_id) = boot_id.filter(|boot_id| reported == Some(boot_id)) {
        record.boot_id = Some(boot_id.to_owned());
    }
    if let Some(event) = event {
        record.events.retain(|earlier| earlier.id != event.event_id);
        record.events.push(RecordedEvent {
            id: event.event_id.clone(),
            event_type: event.type_word().to_owned(),
            is_advice: event.is_advice(),
            not_before: event.not_before.clone(),
        });
        let surplus = record.events.len().saturating_sub(EVENTS_MAX);
        record.events.drain(..surplus);
    }
    // Somebody else set a label that exists already, unless the record names it.
    let exclude = options.exclude_from_load_balancers && label(node, EXCLUDED).is_none();
    record.excluded |= exclude;
    let taints = with_taint(node, event, options);
    if cordon != Cordon::None && taints.is_none() && !exclude && before.as_ref() == Some(&record) {
        return None;
    }
    let mut patch = based_on(node);
    patch["metadata"]["annotations"] = json!({ OUT_OF_SERVICE: json!(record).to_string() });
    if cordon == Cordon::None {
        patch["spec"]["unschedulable"] = json!(true);
    }
    if exclude {
        patch["metadata"]["labels"] = json!({ EXCLUDED: FIELD_MANAGER });
    }
    if let Some(taints) = taints {
        patch["spec"]["taints"] = json!(taints);
    }
    Some(patch)
}

/// The change that puts a node back into service, as far as this program took it out; `None` if it
/// did not.
pub fn put_back(node: &Node) -> Option<Value> {
    let taints = taints_of(node);
    let tainted = taints.iter().any(|taint| taint.key == OUT_OF_SERVICE);
    let recorded =
        annotation(node, OUT_OF_SERVICE).is_some() || annotation(node, PROGRESS).is_some();
    if !tainted && !recorded {
        return None;
    }
    let mut patch = based_on(node);
    patch["metadata"]["annotations"] = json!({ OUT_OF_SERVICE: null, PROGRESS: null });
    if cordon_of(node) == Cordon::Ours {
        patch["spec"]["unschedulable"] = Value::Null;
    }
    // With another value, somebody else has set it since.
    if record_of(node).is_some_and(|record| record.excluded)
        && label(node, EXCLUDED) == Some(FIELD_MANAGER)
    {
        patch["metadata"]["labels"] = json!({ EXCLUDED: null });
    }
    if tainted {
        let others: Vec<_> = taints
            .iter()
            .filter(|taint| taint.key != OUT_OF_SERVICE)
            .collect();
        patch["spec"]["taints"] = if others.is_empty() {
            Value::Null
        } else {
            json!(others)
        };
    }
    Some(patch)
}

/// Why a node cannot go back into service yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReady {
    /// Its status is from before the boot.
    BeforeBoot,
    /// It reports that it is not, with this reason.
    Reported(String),
    /// It does not report whether it is.
    Unknown,
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeBoot => f.write_str("the node's status is from before the boot"),
            Self::Reported(reason) => {
                write!(f, "the node is not ready: {}", reason.escape_debug())
            }
            Self::Unknown => f.write_str("the node does not report whether it is ready"),
        }
    }
}

impl std::error::Error for NotReady {}

/// Checks that a node can go back into service.
///
/// # Errors
/// It is not ready, or its report is from before the boot.
pub fn check_ready(node: &Node, boot_id: Option<&str>) -> Result<(), NotReady> {
    let status = node.status.as_ref();
    let reported = status
        .and_then(|status| status.node_info.as_ref())
        .map(|info| info.boot_id.as_str());
    // Only if the record shows that this node reports the boot id of this program.
    let on_node = record_of(node).is_some_and(|record| record.boot_id.is_some());
    if on_node && boot_id.is_some() && reported != boot_id {
        return Err(NotReady::BeforeBoot);
    }
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => {
            let reason = ready.message.as_deref().or(ready.reason.as_deref());
            Err(NotReady::Reported(
                reason.unwrap_or("no reason given").to_owned(),
            ))
        }
        None => Err(NotReady::Unknown),
    }
}

/// A patch that applies only to this version of the node.
fn based_on(node: &Node) -> Value {
    json!({ "metadata": { "resourceVersion": node.metadata.resource_version } })
}

fn taints_of(node: &Node) -> &[Taint] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

/// The node's taints with this program's; `None` if it is there already, or is not wanted.
fn with_taint(node: &Node, event: Option<&HookEvent>, options: &NodeConfig) -> Option<Vec<Taint>> {
    let effect = options.taint.word()?;
    let taints = taints_of(node);
    if taints
        .iter()
        .any(|taint| taint.key == OUT_OF_SERVICE && taint.effect == effect)
    {
        return None;
    }
    let mut taints: Vec<_> = taints
        .iter()
        .filter(|taint| taint.key != OUT_OF_SERVICE)
        .cloned()
        .collect();
    taints.push(Taint {
        key: OUT_OF_SERVICE.into(),
        value: event.map(|event| event.type_word().to_owned()),
        effect: effect.into(),
        time_added: None,
    });
    Some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TaintEffect;

    const NOW: &str = "2026-11-22T10:00:00Z";

    fn node(value: Value) -> Node {
        let mut node = json!({"metadata": {"name": "n", "resourceVersion": "7", "annotations": {}}, "spec": {}, "status": {}});
        merge(&mut node, value);
        serde_json::from_value(node).unwrap()
    }

    /// A merge as RFC 7396 defines it, as the server applies it.
    fn merge(target: &mut Value, patch: Value) {
        let Value::Object(patch) = patch else {
            return *target = patch;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(&key);
            } else {
                merge(&mut target[key], value);
            }
        }
    }

    fn apply(node: &Node, patch: Value) -> Node {
        let mut value = serde_json::to_value(node).unwrap();
        merge(&mut value, patch);
        serde_json::from_value(value).unwrap()
    }

    fn event(id: &str) -> HookEvent {
        HookEvent {
            event_id: id.into(),
            event_type: Some("Reboot".into()),
            ..HookEvent::default()
        }
    }

    fn out(node: &Node, id: &str) -> Option<Value> {
        take_out(
            node,
            Some(&event(id)),
            &NodeConfig::default(),
            NOW,
            Some("boot-1"),
        )
    }

    fn owned_by(manager: &str) -> Value {
        json!([{"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}])
    }

    #[test]
    fn record_and_cordon_are_one_change_of_one_version() {
        let patch = out(&node(json!({})), "A").unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["spec"]["unschedulable"], true);
        assert_eq!(
            patch["spec"]["taints"],
            json!([{"key": OUT_OF_SERVICE, "value": "Reboot", "effect": "NoSchedule"}])
        );
        let record: OutOfService = serde_json::from_str(
            patch["metadata"]["annotations"][OUT_OF_SERVICE]
                .as_str()
                .unwrap(),
        )
        .unwrap();
        assert_eq!(
            (
                record.cordoned,
                record.since.as_str(),
                record.events[0].id.as_str()
            ),
            (true, NOW, "A")
        );
    }

    #[test]
    fn a_second_run_changes_nothing_and_a_second_event_is_added() {
        let after = apply(&node(json!({})), out(&node(json!({})), "A").unwrap());
        assert_eq!(out(&after, "A"), None);
        let both = apply(&after, out(&after, "B").unwrap());
        let record = record_of(&both).unwrap();
        assert!(record.cordoned);
        assert_eq!(
            record
                .events
                .iter()
                .map(|event| event.id.as_str())
                .collect::<Vec<_>>(),
            ["A", "B"]
        );
    }

    #[test]
    fn put_back_leaves_the_node_as_it_was() {
        let before = node(
            json!({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
            "metadata": {"annotations": {"keep": "me"}}}),
        );
        let after = apply(&before, out(&before, "A").unwrap());
        assert_eq!(cordon_of(&after), Cordon::Ours);
        assert_eq!(apply(&after, put_back(&after).unwrap()), before);
        assert_eq!(put_back(&before), None);
    }

    #[test]
    fn what_somebody_else_cordoned_stays_cordoned() {
        let theirs = node(
            json!({"spec": {"unschedulable": true}, "metadata": {"managedFields": owned_by("kubectl-cordon")}}),
        );
        let after = apply(&theirs, out(&theirs, "A").unwrap());
        assert!(!record_of(&after).unwrap().cordoned);
        assert_eq!(
            cordon_of(&after),
            Cordon::Others(Some("kubectl-cordon".into()))
        );
        assert_eq!(apply(&after, put_back(&after).unwrap()), theirs);
        // The same if the server does not know who did it.
        let unknown = node(json!({"spec": {"unschedulable": true}}));
        let after = apply(&unknown, out(&unknown, "A").unwrap());
        assert_eq!(apply(&after, put_back(&after).unwrap()), unknown);
    }

    #[test]
    fn a_cordon_that_was_undone_and_done_again_by_somebody_else_stays() {
        let ours = apply(&node(json!({})), out(&node(json!({})), "A").unwrap());
        let theirs = apply(
            &ours,
            json!({"metadata": {"managedFields": owned_by("kubectl-cordon")}}),
        );
        let patch = put_back(&theirs).unwrap();
        assert_eq!(patch["spec"].get("unschedulable"), None);
        assert_eq!(
            apply(&theirs, patch).spec.unwrap().unschedulable,
            Some(true)
        );
        // The next event does not claim it either.
        assert!(
            !record_of(&apply(&theirs, out(&theirs, "B").unwrap()))
                .unwrap()
                .cordoned
        );
        // With this program's name it still belongs to this program.
        assert_eq!(
            cordon_of(&apply(
                &ours,
                json!({"metadata": {"managedFields": owned_by(FIELD_MANAGER)}})
            )),
            Cordon::Ours
        );
    }

    #[test]
    fn a_node_that_somebody_uncordoned_is_cordoned_again() {
        let ours = apply(&node(json!({})), out(&node(json!({})), "A").unwrap());
        let undone = apply(&ours, json!({"spec": {"unschedulable": null}}));
        assert_eq!(cordon_of(&undone), Cordon::None);
        assert_eq!(out(&undone, "A").unwrap()["spec"]["unschedulable"], true);
    }

    #[test]
    fn a_damaged_record_is_replaced_and_never_uncordons() {
        let damaged = node(
            json!({"spec": {"unschedulable": true}, "metadata": {"annotations": {OUT_OF_SERVICE: "{"}}}),
        );
        assert_eq!(
            put_back(&damaged).unwrap()["spec"].get("unschedulable"),
            None
        );
        assert!(
            !record_of(&apply(&damaged, out(&damaged, "A").unwrap()))
                .unwrap()
                .cordoned
        );
    }

    #[test]
    fn the_taint_is_as_configured() {
        let options = NodeConfig {
            taint: TaintEffect::None,
            ..NodeConfig::default()
        };
        let patch = take_out(&node(json!({})), None, &options, NOW, None).unwrap();
        assert_eq!(patch["spec"].get("taints"), None);
        let old = node(
            json!({"spec": {"taints": [{"key": OUT_OF_SERVICE, "effect": "PreferNoSchedule"}]}}),
        );
        let patch = take_out(&old, None, &NodeConfig::default(), NOW, None).unwrap();
        assert_eq!(
            patch["spec"]["taints"],
            json!([{"key": OUT_OF_SERVICE, "effect": "NoSchedule"}])
        );
    }

    #[test]
    fn a_node_leaves_the_load_balancers_and_comes_back_only_if_it_was_there() {
        let options = NodeConfig {
            exclude_from_load_balancers: true,
            ..NodeConfig::default()
        };
        let take_out = |node: &Node| take_out(node, Some(&event("A")), &options, NOW, None);
        let before = node(json!({"metadata": {"labels": {"keep": "me"}}}));
        let after = apply(&before, take_out(&before).unwrap());
        assert_eq!(label(&after, EXCLUDED), Some(FIELD_MANAGER));
        assert_eq!(take_out(&after), None);
        assert_eq!(apply(&after, put_back(&after).unwrap()), before);
        // Without the option, and where the label existed before, it stays as it is.
        assert_eq!(
            label(&apply(&before, out(&before, "A").unwrap()), EXCLUDED),
            None
        );
        for value in ["", FIELD_MANAGER] {
            let theirs = node(json!({"metadata": {"labels": {EXCLUDED: value}}}));
            let after = apply(&theirs, take_out(&theirs).unwrap());
            assert!(!record_of(&after).unwrap().excluded);
            assert_eq!(apply(&after, put_back(&after).unwrap()), theirs);
        }
        // A label that somebody else has set since stays; a label that somebody removed is set
        // again.
        let theirs = apply(&after, json!({"metadata": {"labels": {EXCLUDED: "true"}}}));
        assert_eq!(
            label(&apply(&theirs, put_back(&theirs).unwrap()), EXCLUDED),
            Some("true")
        );
        let removed = apply(&after, json!({"metadata": {"labels": {EXCLUDED: null}}}));
        assert_eq!(
            label(&apply(&removed, take_out(&removed).unwrap()), EXCLUDED),
            Some(FIELD_MANAGER)
        );
    }

    #[test]
    fn the_record_does_not_grow_without_bound() {
        let mut current = node(json!({}));
        for number in 0..40 {
            current = apply(&current, out(&current, &format!("E{number}")).unwrap());
        }
        let events = record_of(&current).unwrap().events;
        assert_eq!(
            (events.len(), events[EVENTS_MAX - 1].id.as_str()),
            (EVENTS_MAX, "E39")
        );
    }

    #[test]
    fn a_status_from_before_the_boot_is_not_ready() {
        let info = |boot: &str| {
            json!({"architecture": "", "bootID": boot, "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""})
        };
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": info("boot-1")}});
        let before = node(ready.clone());
        let after = apply(&before, out(&before, "A").unwrap());
        assert_eq!(
            check_ready(&after, Some("boot-1")),
            Ok(()),
            "nothing was booted yet"
        );
        assert!(
            check_ready(&after, Some("boot-2"))
                .unwrap_err()
                .to_string()
                .contains("before the boot")
        );
        let booted = apply(&after, json!({"status": {"nodeInfo": info("boot-2")}}));
        assert_eq!(check_ready(&booted, Some("boot-2")), Ok(()));
        // On another machine the boot ids are unrelated.
        let remote = apply(
            &before,
            take_out(
                &before,
                None,
                &NodeConfig::default(),
                NOW,
                Some("elsewhere"),
            )
            .unwrap(),
        );
        assert_eq!(check_ready(&remote, Some("elsewhere")), Ok(()));
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "PLEG\n"}]}});
        assert_eq!(
            check_ready(&apply(&before, not_ready), None).map_err(|error| error.to_string()),
            Err("the node is not ready: PLEG\\n".into())
        );
        assert!(check_ready(&node(json!({})), None).is_err());
    }
}
