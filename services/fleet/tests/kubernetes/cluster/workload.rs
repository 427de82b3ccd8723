//! The workload of a test's node: pods, their controllers and their budgets.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::Cluster;

impl Cluster {
    /// A pod on the node that runs, is ready and has a controller, with this change.
    pub(crate) fn add_pod(&self, name: &str, change: impl FnOnce(&mut Value)) -> Pod {
        let owner: ConfigMap = self.create(
            Some(&self.namespace),
            json!({"metadata": {"name": format!("owner-of-{name}")}}),
        );
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name,
            "uid": owner.metadata.uid, "controller": true}]);
        self.add_bare_pod(&self.namespace, name, |pod| {
            pod["metadata"]["ownerReferences"] = owner;
            change(pod);
        })
    }

    fn add_bare_pod(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name.split('-').next()}},
            "spec": {"nodeName": self.node, "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "main", "image": "example.invalid/none"}]},
        });
        change(&mut pod);
        let phase = pod["status"]["phase"]
            .as_str()
            .unwrap_or("Running")
            .to_owned();
        let made: Pod = self.create(Some(namespace), pod);
        self.set_pod_status(namespace, name, &phase);
        made
    }

    /// A pod of a `DaemonSet` of its own, for this node only. The set's controller adopts it.
    pub(crate) fn add_daemon_pod(
        &self,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Pod {
        let pod = self.add_bare_pod(namespace, name, change);
        let app = name.split('-').next();
        let template = json!({"metadata": {"labels": {"app": app}}, "spec": {
            "nodeSelector": {"kubernetes.io/hostname": self.node}, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "example.invalid/none"}]}});
        let spec = json!({"selector": {"matchLabels": {"app": app}}, "template": template,
            "updateStrategy": {"type": "OnDelete"}});
        let set: DaemonSet = self.create(
            Some(namespace),
            json!({"metadata": {"name": name}, "spec": spec}),
        );
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        if self.fake.is_some() {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": set.metadata.uid,
                "controller": true}]);
            let patch = Patch::Merge(json!({"metadata": {"ownerReferences": owner}}));
            self.block_on(pods.patch(name, &PatchParams::default(), &patch))
                .unwrap();
        }
        self.wait_for("the controller of the DaemonSet", || {
            let owners = self
                .block_on(pods.get(name))
                .unwrap()
                .metadata
                .owner_references;
            owners
                .into_iter()
                .flatten()
                .any(|owner| owner.kind == "DaemonSet")
                .then_some(())
        });
        pod
    }

    pub(crate) fn add_budget(&self, app: &str, min_available: u32) {
        self.add_named_budget(app, app, min_available);
    }

    pub(crate) fn add_named_budget(&self, name: &str, app: &str, min_available: u32) {
        let spec =
            json!({"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}});
        self.create::<PodDisruptionBudget>(
            Some(&self.namespace),
            json!({"metadata": {"name": name}, "spec": spec}),
        );
    }

    pub(crate) fn delete_budget(&self, app: &str) {
        let budgets = self.api::<PodDisruptionBudget>();
        self.block_on(budgets.delete(app, &DeleteParams::default()))
            .unwrap();
    }

    /// Waits until the budgets' controller knows them and their pods: before that, the server
    /// refuses evictions for another reason.
    pub(crate) fn wait_for_budgets(&self) {
        self.wait_for("the controller of the budgets", || {
            let budgets = self
                .block_on(
                    self.api::<PodDisruptionBudget>()
                        .list(&ListParams::default()),
                )
                .unwrap();
            budgets
                .iter()
                .all(|budget| self.is_processed(budget))
                .then_some(())
        });
    }

    fn is_processed(&self, budget: &PodDisruptionBudget) -> bool {
        let selector = budget
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.as_ref()?.match_labels.as_ref());
        let selector: Vec<_> = selector
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let pods = self
            .block_on(
                self.api::<Pod>()
                    .list(&ListParams::default().labels(&selector.join(","))),
            )
            .unwrap();
        let runs = |pod: &&Pod| {
            pod.metadata.deletion_timestamp.is_none()
                && pod
                    .status
                    .as_ref()
                    .is_some_and(|status| status.phase.as_deref() == Some("Running"))
        };
        let healthy = pods.iter().filter(runs).count();
        budget.status.as_ref().is_some_and(|status| {
            status.observed_generation == budget.metadata.generation
                && usize::try_from(status.current_healthy).is_ok_and(|current| current == healthy)
        })
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Pod> {
        self.block_on(self.api::<Pod>().get_opt(name)).unwrap()
    }

    /// The names of this test's pods, except the agent's.
    pub(crate) fn pod_names(&self) -> Vec<String> {
        let pods = self
            .block_on(self.api::<Pod>().list(&ListParams::default()))
            .unwrap();
        pods.into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect()
    }
}
