//! The rights that `packaging/kubernetes` grants, as the tests use them: the objects of its
//! kustomize base, which is the chart as rendered by default, as a release of any name.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde::de::{Deserialize, DeserializeOwned};
use serde_json::{Value, json};

use crate::fake::rbac::Right;

/// The name of the base's release, and of its namespace.
const BASE: &str = "scheduled-events";
/// The kinds that determine the agent's rights.
const ABOUT_RIGHTS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// The rights of a test's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The chart's default.
    Chart,
    /// The chart with `node.at_deadline: force`, which `packaging/kubernetes/check` compares with
    /// this, and the policy about evictions.
    ChartWithAll,
    /// The chart's default without evictions.
    ChartWithoutEvictions,
    /// Nothing.
    None,
}

/// The objects of the kustomize base.
pub(crate) fn objects() -> Vec<Value> {
    objects_of(&["base/namespace.yaml", "base/scheduled-events.yaml"])
}

/// The objects that the chart adds with `ownEvictionsOnly`.
pub(crate) fn own_evictions() -> Vec<Value> {
    objects_of(&["own-evictions/policy.yaml"])
}

/// The hub's objects, with the chart's example values.
pub(crate) fn hub() -> Vec<Value> {
    objects_of(&["hub/hub.yaml"])
}

fn objects_of(files: &[&str]) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/kubernetes");
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        let documents = serde_yaml::Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).unwrap());
        objects.extend(documents.filter(|object| !object.is_null()));
    }
    objects
}

/// The objects of the base that have this kind.
pub(crate) fn of_kind<T: DeserializeOwned>(kind: &str) -> Vec<T> {
    let objects = objects()
        .into_iter()
        .filter(|object| object["kind"] == kind);
    objects
        .map(|object| serde_json::from_value(object).unwrap())
        .collect()
}

/// The objects about the rights of a release, whose name is also that of its namespace.
pub(crate) fn objects_about_rights(release: &str, access: Access) -> Vec<Value> {
    let is_wanted = |object: &Value| match access {
        Access::None => object["kind"] == "ServiceAccount",
        _ => ABOUT_RIGHTS.iter().any(|kind| object["kind"] == *kind),
    };
    let more = if access == Access::ChartWithAll {
        own_evictions()
    } else {
        Vec::new()
    };
    let mut objects: Vec<_> = objects()
        .into_iter()
        .chain(more)
        .filter(is_wanted)
        .collect();
    for object in &mut objects {
        rename(object, release);
        if access == Access::ChartWithoutEvictions && object["kind"] == "ClusterRole" {
            let rules = object["rules"].as_array_mut().unwrap();
            rules.retain(|rule| rule["resources"] != json!(["pods/eviction"]));
        }
        if access == Access::ChartWithAll && object["kind"] == "ClusterRole" {
            let rules = object["rules"].as_array_mut().unwrap();
            let pods = rules
                .iter_mut()
                .find(|rule| rule["resources"] == json!(["pods"]))
                .unwrap();
            pods["verbs"].as_array_mut().unwrap().push(json!("delete"));
        }
    }
    objects
}

fn rename(value: &mut Value, release: &str) {
    match value {
        Value::String(text) => *text = text.replace(BASE, release),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, release)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| rename(member, release)),
        _ => {}
    }
}

/// All rights of the service account, whatever the namespace.
pub(crate) fn rights(access: Access) -> BTreeSet<Right> {
    let objects = objects_about_rights(BASE, access);
    let of_kind = |kind: &'static str| {
        objects
            .iter()
            .filter(move |object| object["kind"] == kind)
            .cloned()
    };
    let roles = of_kind("Role").map(|role| serde_json::from_value::<Role>(role).unwrap().rules);
    let cluster = of_kind("ClusterRole")
        .map(|role| serde_json::from_value::<ClusterRole>(role).unwrap().rules);
    roles
        .chain(cluster)
        .flat_map(Option::unwrap_or_default)
        .flat_map(|rule| rights_of_rule(&rule))
        .collect()
}

fn rights_of_rule(rule: &PolicyRule) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            assert!(group != "*" && resource != "*");
            rights.extend(
                rule.verbs
                    .iter()
                    .map(|verb| (verb.clone(), group.clone(), resource.clone())),
            );
        }
    }
    rights
}
