//! The agent of a test's node: a pod of a `DaemonSet` on it, with the service account and the
//! rights of the chart. On a real server its credential is a token that is bound to this pod, as a
//! kubelet mounts it.

use std::path::Path;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::Cluster;
use super::chart::{Access, objects_about_rights};

impl Cluster {
    /// The pod, its account and its rights.
    pub(crate) fn add_agent(&self, access: Access) -> Pod {
        if self.fake.is_none() {
            for object in objects_about_rights(&self.agents, access) {
                self.create_any(object);
            }
        }
        self.add_daemon_pod(&self.agents, "agent", |pod| {
            pod["spec"]["serviceAccountName"] = json!(self.agents);
        })
    }

    fn create_any(&self, object: Value) {
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let namespace = namespace.as_deref();
        match object["kind"].as_str().unwrap() {
            "ServiceAccount" => drop(self.create::<ServiceAccount>(namespace, object)),
            "ClusterRole" => drop(self.create::<ClusterRole>(None, object)),
            "ClusterRoleBinding" => drop(self.create::<ClusterRoleBinding>(None, object)),
            "Role" => drop(self.create::<Role>(namespace, object)),
            "RoleBinding" => drop(self.create::<RoleBinding>(namespace, object)),
            "ValidatingAdmissionPolicy" => {
                drop(self.create::<ValidatingAdmissionPolicy>(None, object));
            }
            "ValidatingAdmissionPolicyBinding" => {
                drop(self.create::<ValidatingAdmissionPolicyBinding>(None, object));
            }
            other => panic!("{other} is not expected"),
        }
    }

    /// Removes objects outside the namespaces of this test. Only on a real server.
    pub(crate) fn remove_rights(&self) {
        let parameters = DeleteParams::default();
        self.block_on(async {
            for object in objects_about_rights(&self.agents, Access::ChartWithAll) {
                let (name, client) = (
                    object["metadata"]["name"].as_str().unwrap(),
                    self.client.clone(),
                );
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                // The cluster's owner has to remove the rest: its name shows that it comes from
                // these tests.
                match object["kind"].as_str().unwrap() {
                    "ClusterRole" => drop(
                        Api::<ClusterRole>::all(client)
                            .delete(name, &parameters)
                            .await,
                    ),
                    "ClusterRoleBinding" => {
                        drop(
                            Api::<ClusterRoleBinding>::all(client)
                                .delete(name, &parameters)
                                .await,
                        );
                    }
                    "Role" => drop(
                        Api::<Role>::namespaced(client, namespace)
                            .delete(name, &parameters)
                            .await,
                    ),
                    "RoleBinding" => {
                        drop(
                            Api::<RoleBinding>::namespaced(client, namespace)
                                .delete(name, &parameters)
                                .await,
                        );
                    }
                    "ValidatingAdmissionPolicy" => {
                        drop(
                            Api::<ValidatingAdmissionPolicy>::all(client)
                                .delete(name, &parameters)
                                .await,
                        );
                    }
                    "ValidatingAdmissionPolicyBinding" => {
                        drop(
                            Api::<ValidatingAdmissionPolicyBinding>::all(client)
                                .delete(name, &parameters)
                                .await,
                        );
                    }
                    _ => {}
                }
            }
        });
    }

    /// Writes a kubeconfig with a token of the agent's service account, bound to this pod or to
    /// none. Only on a real server.
    pub(crate) fn write_agent_kubeconfig(&self, path: &Path, pod: Option<&Pod>) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.agents);
        let bound_object_ref = pod.map(|pod| BoundObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        });
        let spec = TokenRequestSpec {
            bound_object_ref,
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec,
            ..TokenRequest::default()
        };
        let parameters = PostParams::default();
        let answer = self
            .block_on(accounts.create_token_request(&self.agents, &parameters, &request))
            .unwrap();
        let admin = Kubeconfig::read_from(self.folder.path().join("admin")).unwrap();
        let context = admin.current_context.as_deref().expect("a current context");
        let context = admin
            .contexts
            .iter()
            .find(|named| named.name == context)
            .and_then(|named| named.context.clone());
        let cluster = context.expect("its context").cluster;
        let cluster = admin
            .clusters
            .iter()
            .find(|named| named.name == cluster)
            .expect("its cluster");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "agent",
            "clusters": [{"name": "real", "cluster": cluster.cluster}],
            "users": [{"name": "agent", "user": {"token": answer.status.expect("a token").token}}],
            "contexts": [{"name": "agent", "context": {"cluster": "real", "user": "agent", "namespace": self.agents}}],
        });
        std::fs::write(path, config.to_string()).unwrap();
    }
}
