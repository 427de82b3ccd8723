//! The chart's admission policies: a pod changes its own node and no other, and removes pods from
//! its own node only.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::cluster::chart::Access;
use crate::cluster::{Cluster, client, event, text};

/// The policies' messages.
const NODE: &str = "only the node that the token is bound to may be changed";
const DELETIONS: &str = "only pods of the node that the token is bound to may be deleted";
const EVICTIONS: &str = "only pods of the node that the token is bound to may be evicted";

/// The server's message when it refuses a request.
fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> String {
    match result {
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        other => panic!("expected a refusal, found {other:?}"),
    }
}

async fn change(client: &Client, node: &str, subresource: bool) -> Result<Node, kube::Error> {
    let (nodes, parameters) = (Api::<Node>::all(client.clone()), PatchParams::default());
    if subresource {
        let condition = json!({"type": "ScheduledEventPending", "status": "True"});
        let patch = json!({"status": {"conditions": [condition]}});
        nodes
            .patch_status(node, &parameters, &Patch::Strategic(patch))
            .await
    } else {
        let patch = json!({"metadata": {"annotations": {"scheduled-events/progress": "test"}}});
        nodes.patch(node, &parameters, &Patch::Merge(patch)).await
    }
}

impl Cluster {
    /// Waits until the server enforces the policies, which happens a moment after their creation.
    fn wait_for_policies(&self, other: &Self, access: Access) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"test": "policies"}}}));
        let parameters = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let agent = self.block_on(self.agent_client());
        let nodes = Api::<Node>::all(agent.clone());
        self.wait_for("the policy about nodes", || {
            self.block_on(nodes.patch(&other.node, &parameters, &patch))
                .is_err()
                .then_some(())
        });
        if access == Access::Chart {
            return;
        }
        other.add_pod("probe-1", |_| {});
        let pods = Api::<Pod>::namespaced(agent, &other.namespace);
        let evict = EvictParams {
            post_options: kube::api::PostParams {
                dry_run: true,
                ..Default::default()
            },
            ..Default::default()
        };
        let delete = DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        };
        self.wait_for("the policy about deletions", || {
            self.block_on(pods.delete("probe-1", &delete))
                .is_err()
                .then_some(())
        });
        self.wait_for("the policy about evictions", || {
            self.block_on(pods.evict("probe-1", &evict))
                .is_err()
                .then_some(())
        });
    }
}

#[test]
fn a_pod_changes_no_node_but_its_own() {
    let Some(cluster) = Cluster::real(Access::Chart) else {
        return;
    };
    let other = Cluster::real(Access::Chart).unwrap();
    cluster.wait_for_policies(&other, Access::Chart);
    let agent = cluster.block_on(cluster.agent_client());
    for subresource in [false, true] {
        let answer = refusal(cluster.block_on(change(&agent, &other.node, subresource)));
        assert!(
            answer.starts_with("422 ") && answer.contains(NODE),
            "{answer}"
        );
        cluster
            .block_on(change(&agent, &cluster.node, subresource))
            .unwrap();
    }
    // The command that a wrong NODE_NAME causes.
    let output = wait::output(&mut cluster.fleet(&["drain", "--node", &other.node]));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains(NODE), "{}", text(&output));
    assert!(
        !other.is_cordoned()
            && other
                .annotation("scheduled-events/out-of-service")
                .is_none()
    );

    // A token that is bound to no pod, as `kubectl create token` issues it.
    let unbound = cluster.folder.path().join("unbound");
    cluster.write_agent_kubeconfig(&unbound, None);
    let unbound = cluster.block_on(client(&unbound));
    for node in [&cluster.node, &other.node] {
        let answer = refusal(cluster.block_on(change(&unbound, node, false)));
        assert!(answer.contains(NODE), "{answer}");
    }
    // These policies do not limit others.
    other.patch_node("test", &json!({"metadata": {"labels": {"test": "others"}}}));
}

#[test]
fn a_pod_removes_pods_from_its_own_node_only() {
    let Some(cluster) = Cluster::real(Access::ChartWithAll) else {
        return;
    };
    let other = Cluster::real(Access::ChartWithAll).unwrap();
    cluster.wait_for_policies(&other, Access::ChartWithAll);
    other.add_pod("web-1", |_| {});
    // A pod of the other node in the same namespace as those of this one.
    cluster.add_pod("web-1", |_| {});
    cluster.add_pod("web-2", |_| {});
    cluster.add_pod("elsewhere-1", |pod| {
        pod["spec"]["nodeName"] = json!(other.node);
    });
    let agent = cluster.block_on(cluster.agent_client());
    for (namespace, name) in [
        (&other.namespace, "web-1"),
        (&cluster.namespace, "elsewhere-1"),
    ] {
        let pods = Api::<Pod>::namespaced(agent.clone(), namespace);
        let answer = refusal(cluster.block_on(pods.evict(name, &EvictParams::default())));
        assert!(
            answer.starts_with("422 ") && answer.contains(EVICTIONS),
            "{answer}"
        );
        let answer = refusal(cluster.block_on(pods.delete(name, &DeleteParams::default())));
        assert!(
            answer.starts_with("422 ") && answer.contains(DELETIONS),
            "{answer}"
        );
    }
    let pods = Api::<Pod>::namespaced(agent, &cluster.namespace);
    cluster
        .block_on(pods.evict("web-1", &EvictParams::default()))
        .unwrap();
    cluster
        .block_on(pods.delete("web-2", &DeleteParams::default()))
        .unwrap();
    cluster.wait_for("both to end", || {
        (cluster.pod_names() == ["elsewhere-1"]).then_some(())
    });
    assert!(other.pod("web-1").is_some());
}

/// The server checks the types in the policies' expressions, and warns in their status.
#[test]
fn the_policies_have_no_warnings() {
    use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

    let Some(cluster) = Cluster::real(Access::ChartWithAll) else {
        return;
    };
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client.clone());
    for suffix in ["", "-pods", "-evictions"] {
        let name = format!("{}{suffix}", cluster.agents);
        let checked = cluster.wait_for("the check of types", || {
            let policy = cluster.block_on(policies.get(&name)).unwrap();
            policy
                .status
                .filter(|status| status.observed_generation.is_some())?
                .type_checking
        });
        let warnings = checked.expression_warnings.unwrap_or_default();
        assert_eq!(warnings, [], "{name}");
    }
}

/// With the credential of a pod on the node, everything works as with all rights.
#[test]
fn a_drain_needs_nothing_that_the_policies_forbid() {
    let Some(cluster) = Cluster::real(Access::ChartWithAll) else {
        return;
    };
    let other = Cluster::real(Access::ChartWithAll).unwrap();
    cluster.wait_for_policies(&other, Access::ChartWithAll);
    cluster.add_pod("web-1", |_| {});
    let reboot: Value = event("A", "Reboot", Some(900));
    for command in ["drain", "uncordon"] {
        let output = cluster.run(command, &reboot);
        assert!(output.status.success(), "{}", text(&output));
        for word in ["forbidden", "may be", "cannot"] {
            assert!(!text(&output).contains(word), "{}", text(&output));
        }
    }
    assert_eq!(cluster.pod_names(), [""; 0]);
    assert!(!cluster.is_cordoned());
}
