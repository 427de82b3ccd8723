//! The tests are the kubelet of their node: they register the node and renew its lease, as the
//! node's controller expects, and end pods that are being deleted.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use super::{Cluster, client};

/// The namespace of the leases of nodes.
const NODE_LEASES: &str = "kube-node-lease";
/// How often a kubelet renews the lease of its node.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A kubelet that runs until it is dropped.
pub(crate) struct Kubelet {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// For the pods of this namespace.
    pub(crate) fn start(kubeconfig: PathBuf, node: String, namespace: String) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = client(&kubeconfig).await;
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                let mut heartbeat = Instant::now();
                while !ended.load(Ordering::Relaxed) {
                    if heartbeat.elapsed() >= HEARTBEAT {
                        renew_lease(&client, &node).await;
                        heartbeat = Instant::now();
                    }
                    end_pods(&pods).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            wait::join(thread);
        }
    }
}

/// Ends pods that are being deleted: at once, or after the seconds in the label `ends-after`.
async fn end_pods(pods: &Api<Pod>) {
    for pod in pods
        .list(&ListParams::default())
        .await
        .map(|list| list.items)
        .unwrap_or_default()
    {
        if has_ended(&pod) {
            let _ = pods
                .delete(
                    &pod.metadata.name.unwrap(),
                    &DeleteParams::default().grace_period(0),
                )
                .await;
        }
    }
}

/// Whether a pod that is being deleted has ended by itself, or its grace period is over.
fn has_ended(pod: &Pod) -> bool {
    let Some(end) = &pod.metadata.deletion_timestamp else {
        return false;
    };
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let begin = end.0 - SignedDuration::from_secs(grace);
    let label = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get("ends-after")?.parse().ok());
    let takes = SignedDuration::from_secs(label.unwrap_or(0)).min(SignedDuration::from_secs(grace));
    Timestamp::now() >= begin + takes
}

/// Without it the node's controller reports the node as unknown after some 40 seconds, and evicts
/// its pods.
async fn renew_lease(client: &Client, node: &str) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASES);
    let patch = json!({"spec": {"renewTime": Timestamp::now().strftime("%FT%T%.6fZ").to_string()}});
    let _ = leases
        .patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await;
}

impl Cluster {
    /// Registers the node, with the members that every node has.
    pub(crate) fn register_node(&self) {
        let labels = json!({"kubernetes.io/hostname": self.node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
        let node: Node = self.create(
            None,
            json!({"metadata": {"name": self.node, "labels": labels}}),
        );
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node.metadata.uid}]);
        let renewed = Timestamp::now().strftime("%FT%T%.6fZ").to_string();
        self.create::<Lease>(
            Some(NODE_LEASES),
            json!({"metadata": {"name": self.node, "ownerReferences": owner},
                "spec": {"holderIdentity": self.node, "leaseDurationSeconds": 40, "renewTime": renewed}}),
        );
        for pressure in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            self.set_condition(pressure, "False", "none");
        }
        self.set_ready(true);
        // The server adds this taint to every new node, and the node's controller removes it.
        self.wait_for("the node to be ready", || {
            let taints = self
                .node()
                .spec
                .and_then(|spec| spec.taints)
                .unwrap_or_default();
            taints
                .iter()
                .all(|taint| taint.key != "node.kubernetes.io/not-ready")
                .then_some(())
        });
    }

    /// Sets the node's own status, as its kubelet reports it.
    pub(crate) fn set_ready(&self, ready: bool) {
        let (status, message) = if ready {
            ("True", "ready")
        } else {
            ("False", "the test says so")
        };
        self.set_condition("Ready", status, message);
    }

    fn set_condition(&self, kind: &str, status: &str, message: &str) {
        let now = Timestamp::now().strftime("%FT%TZ").to_string();
        let condition = json!({"type": kind, "status": status, "reason": "Test", "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        self.patch_status(&json!({"status": {"conditions": [condition]}}));
    }

    /// Sets the id of the boot that the kubelet reports.
    pub(crate) fn set_boot_id(&self, boot_id: &str) {
        let info = json!({"architecture": "", "bootID": boot_id, "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
            "systemUUID": ""});
        self.patch_status(&json!({"status": {"nodeInfo": info}}));
    }

    /// Reports that a pod runs and is ready, or this phase.
    pub(crate) fn set_pod_status(&self, namespace: &str, name: &str, phase: &str) {
        let ready = if phase == "Running" { "True" } else { "False" };
        let conditions: Vec<Value> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
            .iter()
            .map(|kind| json!({"type": kind, "status": if kind.ends_with("Ready") { ready } else { "True" }}))
            .collect();
        let patch = Patch::Strategic(json!({"status": {"phase": phase, "conditions": conditions}}));
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        self.block_on(pods.patch_status(name, &PatchParams::default(), &patch))
            .unwrap();
    }
}
