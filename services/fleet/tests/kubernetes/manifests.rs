//! The objects that `packaging/kubernetes` installs: valid, with no right too many and none too
//! few.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PodSpec, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use scheduled_events_gate::config::{Config, EngineKind};
use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::engine::kubernetes::KubernetesEngine;
use scheduled_events_node::config::{Config as NodeFile, NodeConfig};
use scheduled_events_relay::file::RelayFile;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::chart::{hub, objects, of_kind, own_evictions};
use crate::cluster::{Cluster, event, text};
use crate::fake::rbac::Right;

/// Reads an object as its type, and compares the members that the type has with those of the file.
fn check<T: DeserializeOwned + serde::Serialize>(object: &Value) {
    let known: T =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    let known = serde_json::to_value(&known).unwrap();
    assert_same(&known, object, &object["kind"].to_string());
}

fn assert_same(known: &Value, given: &Value, path: &str) {
    match (known, given) {
        (Value::Object(known), Value::Object(given)) => {
            for (key, value) in given {
                let Some(found) = known.get(key) else {
                    panic!("{path}: the API has no member {key}")
                };
                assert_same(found, value, &format!("{path}.{key}"));
            }
        }
        (Value::Array(known), Value::Array(given)) if known.len() == given.len() => {
            known
                .iter()
                .zip(given)
                .for_each(|(known, given)| assert_same(known, given, path));
        }
        (known, given) => assert_eq!(known, given, "{path}"),
    }
}

#[test]
fn every_object_is_valid() {
    let mut kinds = BTreeSet::new();
    for object in objects().into_iter().chain(own_evictions()).chain(hub()) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        match kind.as_str() {
            "Namespace" => check::<Namespace>(&object),
            "ServiceAccount" => check::<ServiceAccount>(&object),
            "ClusterRole" => check::<ClusterRole>(&object),
            "ClusterRoleBinding" => check::<ClusterRoleBinding>(&object),
            "Role" => check::<Role>(&object),
            "RoleBinding" => check::<RoleBinding>(&object),
            "ConfigMap" => check::<ConfigMap>(&object),
            "DaemonSet" => check::<DaemonSet>(&object),
            "Deployment" => check::<Deployment>(&object),
            "NetworkPolicy" => check::<NetworkPolicy>(&object),
            "ValidatingAdmissionPolicy" => check::<ValidatingAdmissionPolicy>(&object),
            "ValidatingAdmissionPolicyBinding" => {
                check::<ValidatingAdmissionPolicyBinding>(&object);
            }
            other => panic!("{other} is not expected"),
        }
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), 12, "{kinds:?}");
}

#[test]
fn the_pods_run_as_nobody_and_write_nothing_but_their_volumes() {
    let set: DaemonSet = of_kind("DaemonSet").remove(0);
    check_pod(set.spec.unwrap().template.spec.unwrap());
}

#[test]
fn the_hub_has_no_rights_in_the_cluster_and_its_pods_are_as_confined() {
    let kinds: Vec<_> = hub()
        .into_iter()
        .map(|object| object["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "NetworkPolicy",
            "ServiceAccount",
            "ConfigMap",
            "ConfigMap",
            "Deployment"
        ]
    );
    let deployment: Deployment = serde_json::from_value(hub().pop().unwrap()).unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    check_pod(pod);
}

fn check_pod(pod: PodSpec) {
    let context = pod.security_context.unwrap();
    assert_eq!(context.run_as_non_root, Some(true));
    assert!(context.run_as_user > Some(0));
    assert_eq!(context.seccomp_profile.unwrap().type_, "RuntimeDefault");
    assert_ne!(pod.host_network, Some(true));
    assert_eq!((pod.host_pid, pod.host_ipc), (None, None));
    assert!(
        pod.volumes
            .unwrap()
            .iter()
            .all(|volume| volume.host_path.is_none())
    );
    for container in pod
        .containers
        .iter()
        .chain(pod.init_containers.iter().flatten())
    {
        let context = container.security_context.as_ref().unwrap();
        assert_eq!(
            context.read_only_root_filesystem,
            Some(true),
            "{}",
            container.name
        );
        assert_eq!(
            context.allow_privilege_escalation,
            Some(false),
            "{}",
            container.name
        );
        let capabilities = context.capabilities.as_ref().unwrap();
        assert_eq!(
            (capabilities.drop.as_deref(), capabilities.add.as_deref()),
            (Some(&["ALL".to_owned()][..]), None)
        );
    }
}

#[test]
fn the_configuration_is_one_that_the_program_reads() {
    let map: ConfigMap = of_kind("ConfigMap").remove(0);
    let config = Config::parse(&map.data.unwrap()["fleet.toml"]).unwrap();
    assert_eq!(config.engine, Some(EngineKind::Kubernetes));
    assert_eq!(
        config.kubernetes.namespace.as_deref(),
        Some("scheduled-events")
    );
}

#[test]
fn the_rights_are_those_that_are_used() {
    let cluster = Cluster::imitated();
    cluster.add_pod("web-1", |_| {});
    for command in ["drain", "uncordon"] {
        let output = cluster.run(command, &event("A", "Reboot", Some(900)));
        assert!(
            output.status.success() && !text(&output).contains("forbidden"),
            "{}",
            text(&output)
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine =
            KubernetesEngine::new(cluster.agent_client().await, Some(cluster.agents.clone()));
        engine.swap("groups/web", None, "one").await.unwrap();
        let register = engine.read("groups/web").await.unwrap().unwrap();
        engine
            .swap("groups/web", Some(&register.revision), "two")
            .await
            .unwrap();
        let listed = engine.list("groups/").await.unwrap();
        assert!(
            engine
                .delete("groups/web", &listed[0].1.revision)
                .await
                .unwrap()
        );
    });
    assert_eq!(cluster.fake().unused_rights(), Vec::<Right>::new());
}

#[test]
fn the_page_shows_the_defaults_and_a_relay() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/run/kubernetes.md"
    ))
    .unwrap();
    let blocks: Vec<_> = page
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let [block, rule, relay] = blocks[..] else {
        panic!("{} blocks", blocks.len())
    };
    assert!(Config::parse(block).is_ok());
    let mut node = NodeFile::parse(block).unwrap().node;
    node.name = None;
    assert_eq!(node, NodeConfig::default());
    // The rule for advice is the one that the chart adds.
    let chart = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/kubernetes/chart/templates/configmap.yaml"
    ))
    .unwrap();
    assert!(rule.lines().all(|line| chart.contains(line)), "{rule}");
    // The relay's folder is on the volume that the chart mounts, and so are the files that it
    // reads.
    let relay = RelayFile::parse(relay).unwrap();
    assert!(relay.relay.state.starts_with("/var/lib/scheduled-events/"));
    assert_eq!(
        relay.audit.to_str(),
        Some("/var/lib/scheduled-events/audit")
    );
}
