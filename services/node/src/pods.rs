//! Which of a node's pods a drain evicts, which it leaves alone, and which prevent its completion.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::config::{NodeConfig, PodRule};

/// The grace period of a pod that specifies none.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// The treatment of a pod by a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Evict it, and wait until it is gone.
    Evict,
    /// Leave it alone: it does not count.
    Leave,
    /// Leave it alone, and do not report the node as drained while it is there.
    Hold(HoldReason),
}

/// The rules for certain pods in one drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRules {
    /// For pods with an `emptyDir` volume.
    pub empty_dir: PodRule,
    /// For pods without a controller.
    pub unmanaged: PodRule,
}

impl PodRules {
    /// The rules of a drain for an event of this type, or for none.
    pub fn new(options: &NodeConfig, event_type: Option<&str>) -> Self {
        Self {
            empty_dir: options.empty_dir.for_event(event_type),
            unmanaged: options.unmanaged,
        }
    }
}

/// Why a pod prevents the completion of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// Its data in an `emptyDir` volume would be lost.
    EmptyDir,
    /// Nothing would create it again.
    Unmanaged,
}

impl HoldReason {
    /// The reason, and the setting that changes the treatment.
    pub fn text(self) -> &'static str {
        match self {
            Self::EmptyDir => "has an emptyDir volume (node.empty_dir)",
            Self::Unmanaged => "has no controller that creates it again (node.unmanaged)",
        }
    }
}

/// A pod, as a drain needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainPod {
    /// Its identity: a pod with the same name and another identity is another pod.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long it may take to end.
    pub grace: Duration,
    /// It is being deleted.
    pub terminating: bool,
    /// The drain's treatment of it.
    pub treatment: Treatment,
}

impl DrainPod {
    /// Classifies a pod.
    pub fn of(pod: &Pod, rules: PodRules) -> Self {
        let metadata = &pod.metadata;
        let grace = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            grace: grace.map_or(DEFAULT_GRACE, |seconds| {
                Duration::from_secs(seconds.try_into().unwrap_or(0))
            }),
            terminating: metadata.deletion_timestamp.is_some(),
            treatment: treatment(pod, rules),
        }
    }

    /// Namespace and name, as kubectl prints them.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn treatment(pod: &Pod, rules: PodRules) -> Treatment {
    let metadata = &pod.metadata;
    // The kubelet runs mirror pods from files on the node; a deletion removes only the API's copy.
    if metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key("kubernetes.io/config.mirror"))
    {
        return Treatment::Leave;
    }
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Treatment::Leave;
    }
    let controller = metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    // The DaemonSet's controller would create it again at once, even on a cordoned node.
    if controller.is_some_and(|owner| owner.kind == "DaemonSet") {
        return Treatment::Leave;
    }
    // The drain waits for a pod that is being deleted, whatever the rules are.
    if metadata.deletion_timestamp.is_some() {
        return Treatment::Evict;
    }
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let has_empty_dir = volumes
        .into_iter()
        .flatten()
        .any(|volume| volume.empty_dir.is_some());
    let applicable = [
        (controller.is_none(), rules.unmanaged, HoldReason::Unmanaged),
        (has_empty_dir, rules.empty_dir, HoldReason::EmptyDir),
    ];
    let of_rule = |wanted| {
        applicable
            .iter()
            .find(|(applies, rule, _)| *applies && *rule == wanted)
    };
    match (of_rule(PodRule::Leave), of_rule(PodRule::Hold)) {
        (Some(_), _) => Treatment::Leave,
        (None, Some((_, _, reason))) => Treatment::Hold(*reason),
        (None, None) => Treatment::Evict,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Pod {
        let mut value = json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u1",
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true}
                ],
            },
            "spec": {"containers": [], "terminationGracePeriodSeconds": 60},
            "status": {"phase": "Running"},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn rules() -> PodRules {
        PodRules::new(&NodeConfig::default(), Some("Reboot"))
    }

    fn of(change: impl FnOnce(&mut Value)) -> Treatment {
        DrainPod::of(&pod(change), rules()).treatment
    }

    #[test]
    fn a_pod_of_a_controller_is_evicted() {
        let found = DrainPod::of(&pod(|_| {}), rules());
        assert_eq!(found.treatment, Treatment::Evict);
        assert_eq!(
            (found.path().as_str(), found.grace),
            ("shop/web-1", Duration::from_secs(60))
        );
        assert_eq!(
            DrainPod::of(&pod(|pod| pod["spec"] = json!({"containers": []})), rules()).grace,
            DEFAULT_GRACE
        );
    }

    #[test]
    fn mirror_daemonset_and_finished_pods_are_left() {
        let mirror = json!({"kubernetes.io/config.mirror": "hash"});
        assert_eq!(
            of(|pod| pod["metadata"]["annotations"] = mirror),
            Treatment::Leave
        );
        assert_eq!(
            of(|pod| pod["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet")),
            Treatment::Leave
        );
        assert_eq!(
            of(|pod| pod["status"]["phase"] = json!("Succeeded")),
            Treatment::Leave
        );
        assert_eq!(
            of(|pod| pod["status"]["phase"] = json!("Failed")),
            Treatment::Leave
        );
    }

    #[test]
    fn an_owner_that_is_no_controller_does_not_count() {
        let unmanaged = Treatment::Hold(HoldReason::Unmanaged);
        assert_eq!(
            of(|pod| pod["metadata"]["ownerReferences"][0]["controller"] = json!(false)),
            unmanaged
        );
        assert_eq!(
            of(|pod| pod["metadata"]["ownerReferences"] = json!([])),
            unmanaged
        );
    }

    #[test]
    fn rules_decide_about_empty_dir_and_unmanaged_pods() {
        let bare = |pod: &mut Value| {
            pod["metadata"]["ownerReferences"] = json!([]);
            pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        };
        for (unmanaged, empty_dir, expected) in [
            (
                PodRule::Hold,
                PodRule::Hold,
                Treatment::Hold(HoldReason::Unmanaged),
            ),
            (
                PodRule::Evict,
                PodRule::Hold,
                Treatment::Hold(HoldReason::EmptyDir),
            ),
            (
                PodRule::Hold,
                PodRule::Evict,
                Treatment::Hold(HoldReason::Unmanaged),
            ),
            (PodRule::Evict, PodRule::Evict, Treatment::Evict),
            (PodRule::Leave, PodRule::Hold, Treatment::Leave),
            (PodRule::Evict, PodRule::Leave, Treatment::Leave),
        ] {
            let rules = PodRules {
                empty_dir,
                unmanaged,
            };
            assert_eq!(
                DrainPod::of(&pod(bare), rules).treatment,
                expected,
                "{unmanaged:?} {empty_dir:?}"
            );
        }
    }

    #[test]
    fn what_an_event_takes_in_any_case_holds_nothing_up() {
        let scratch =
            |pod: &mut Value| pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        let held = Treatment::Hold(HoldReason::EmptyDir);
        for (event_type, expected) in [
            (Some("Redeploy"), Treatment::Evict),
            (Some("Preempt"), Treatment::Evict),
            (Some("Terminate"), Treatment::Evict),
            (Some("Reboot"), held),
            (Some("Freeze"), held),
            (Some("Another"), held),
            (None, held),
        ] {
            let rules = PodRules::new(&NodeConfig::default(), event_type);
            assert_eq!(
                DrainPod::of(&pod(scratch), rules).treatment,
                expected,
                "{event_type:?}"
            );
        }
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_waited_for() {
        let treatment = of(|pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T10:00:00Z");
            pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        });
        assert_eq!(treatment, Treatment::Evict);
    }
}
