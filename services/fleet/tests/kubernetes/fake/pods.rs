//! Pods end in two steps: the API server marks them, and the kubelet removes them once they have
//! ended. Evictions are deletions that disruption budgets may refuse.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::store::{Refusal, Selector, Store, Target};

const BUDGETS: &str = "policy/poddisruptionbudgets";

/// Deletes an object; a pod on a node only once its kubelet deletes it with a grace period of 0.
pub(crate) fn delete(
    store: &mut Store,
    target: &Target,
    options: &Value,
) -> Result<Value, Refusal> {
    let before = store.get(target)?.clone();
    let name = target.name.clone().unwrap_or_default();
    let wanted = &options["preconditions"];
    for member in ["uid", "resourceVersion"] {
        let found = &before["metadata"][member];
        if !wanted[member].is_null() && wanted[member] != *found {
            let message = format!(
                "Operation cannot be fulfilled on {} \"{name}\": the {member} in the precondition ({}) does not match ({found})",
                target.resource, wanted[member]
            );
            return Err(Refusal::new(409, "Conflict", message));
        }
    }
    let grace = options["gracePeriodSeconds"].as_i64();
    let grace = grace
        .or_else(|| before["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30);
    let finished = matches!(
        before["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    let runs = target.resource == "pods" && !before["spec"]["nodeName"].is_null() && !finished;
    if !runs || grace == 0 {
        return store.put(target, &name, None);
    }
    let earlier = before["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if earlier.is_some_and(|earlier| earlier <= grace) {
        return Ok(before);
    }
    let mut pod = before;
    let end = Timestamp::now() + SignedDuration::from_secs(grace);
    pod["metadata"]["deletionTimestamp"] = json!(end.strftime("%FT%TZ").to_string());
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    store.put(target, &name, Some(pod))
}

/// Evicts a pod, if its disruption budget allows it.
pub(crate) fn evict(
    store: &mut Store,
    target: &Target,
    eviction: &Value,
) -> Result<Value, Refusal> {
    if eviction["apiVersion"] != "policy/v1" || eviction["kind"] != "Eviction" {
        return Err(Refusal::new(
            400,
            "BadRequest",
            "the object provided is unrecognized",
        ));
    }
    let pod_target = Target {
        subresource: None,
        ..target.clone()
    };
    let pod = store.get(&pod_target)?.clone();
    let ends = !pod["metadata"]["deletionTimestamp"].is_null();
    let runs = !matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed" | "Pending")
    );
    if !ends && runs {
        check_budget(store, target, &pod)?;
    }
    delete(store, &pod_target, &eviction["deleteOptions"])?;
    Ok(
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// Imitates the budgets' controller: it reports that it knows each budget, and how many of its pods
/// are ready.
pub(crate) fn process_budgets(store: &mut Store) {
    let selector = Selector::default();
    for mut budget in store
        .list(BUDGETS, &selector)
        .into_iter()
        .cloned()
        .collect::<Vec<_>>()
    {
        let namespace = budget["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let in_namespace = Selector::parse(Some(namespace.clone()), None, None);
        let pods = store.list("/pods", &in_namespace);
        let healthy = pods
            .into_iter()
            .filter(|pod| selects(&budget, pod) && is_healthy(pod))
            .count();
        let status = json!({"observedGeneration": budget["metadata"]["generation"], "currentHealthy": healthy,
            "desiredHealthy": needed(&budget), "expectedPods": healthy,
            "disruptionsAllowed": healthy.saturating_sub(needed(&budget))});
        if budget["status"] != status {
            budget["status"] = status;
            let name = budget["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let target = Target {
                group: "policy".into(),
                version: "v1".into(),
                namespace: Some(namespace),
                resource: "poddisruptionbudgets".into(),
                name: Some(name.clone()),
                subresource: None,
            };
            store.put(&target, &name, Some(budget)).expect("a status");
        }
    }
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let wanted = budget["spec"]["selector"]["matchLabels"].as_object();
    wanted.is_some_and(|wanted| {
        wanted
            .iter()
            .all(|(key, value)| pod["metadata"]["labels"][key] == *value)
    })
}

/// Whether a pod is ready and not being deleted.
fn is_healthy(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready && pod["metadata"]["deletionTimestamp"].is_null()
}

fn needed(budget: &Value) -> usize {
    usize::try_from(
        budget["spec"]["minAvailable"]
            .as_u64()
            .expect("minAvailable, as a number"),
    )
    .unwrap()
}

fn check_budget(store: &Store, target: &Target, pod: &Value) -> Result<(), Refusal> {
    let in_namespace = Selector::parse(target.namespace.clone(), None, None);
    let budgets = store.list(BUDGETS, &in_namespace);
    let budgets: Vec<_> = budgets
        .into_iter()
        .filter(|budget| selects(budget, pod))
        .collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Refusal::new(500, "InternalError", message));
        }
    };
    let pods = store.list("/pods", &in_namespace);
    let healthy = pods
        .into_iter()
        .filter(|pod| selects(budget, pod) && is_healthy(pod))
        .count();
    let needed = needed(budget);
    if healthy > needed {
        return Ok(());
    }
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut refusal = Refusal::new(429, "TooManyRequests", message);
    let cause = format!(
        "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    );
    refusal.details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    Err(refusal)
}
