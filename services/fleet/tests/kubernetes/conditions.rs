//! The conditions that the configuration adds for other programs.

use k8s_openapi::api::core::v1::NodeCondition;
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::cluster::{Cluster, event, text};
use crate::end_to_end::replay;

const LIFECYCLE: &str = "conditions = [\"lifecycle\"]";

/// The status and the reason of a condition; none if the node does not have it.
fn status(cluster: &Cluster, kind: &str) -> Option<(String, String)> {
    let found = cluster.condition_named(kind)?;
    Some((found.status, found.reason.unwrap_or_default()))
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn announce(cluster: &Cluster, change: &str, event: &Value) {
    let variables = [("SCHEDULED_EVENTS_CHANGE", change)];
    let output = wait::output_of(cluster.hook_with(&variables, "announce", event));
    assert!(output.status.success(), "{}", text(&output));
}

fn run(cluster: &Cluster, command: &str, event: &Value, code: i32) {
    let output = cluster.run(command, event);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output));
}

/// What somebody else sets.
fn set(cluster: &Cluster, kind: &str, reason: &str, message: &str) -> NodeCondition {
    cluster.patch_status(&json!({"status": {"conditions": [{
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastHeartbeatTime": "2026-11-01T00:00:00Z", "lastTransitionTime": "2026-11-01T00:00:00Z"
    }]}}));
    cluster.condition_named(kind).unwrap()
}

#[test]
fn the_lifecycle_conditions_follow_a_drain() {
    let cluster = Cluster::start();
    let reboot = event("A", "Reboot", Some(900));
    // By default the node has none.
    run(&cluster, "drain", &reboot, 0);
    run(&cluster, "uncordon", &reboot, 0);
    for kind in [
        "MaintenancePlanned",
        "DrainInProgress",
        "Drained",
        "Terminating",
        "PreemptionScheduled",
    ] {
        assert_eq!(status(&cluster, kind), None, "{kind}");
    }

    cluster.configure(LIFECYCLE);
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let drain = cluster.hook("drain", &reboot);
    cluster.wait_for("the drain", || {
        status(&cluster, "DrainInProgress").filter(|found| found.0 == "True")
    });
    assert_eq!(
        status(&cluster, "DrainInProgress"),
        Some(is("True", "Reboot")),
        "while a budget holds it up"
    );
    assert_eq!(
        status(&cluster, "MaintenancePlanned"),
        Some(is("True", "Reboot"))
    );
    assert_eq!(status(&cluster, "Drained"), None);
    cluster.delete_budget("web");
    let output = wait::output_of(drain);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        status(&cluster, "DrainInProgress"),
        Some(is("False", "DrainCompleted"))
    );
    assert_eq!(
        status(&cluster, "Drained"),
        Some(is("True", "DrainCompleted"))
    );

    run(&cluster, "uncordon", &reboot, 0);
    for kind in ["MaintenancePlanned", "Drained"] {
        assert_eq!(
            status(&cluster, kind),
            Some(is("False", "NoEvent")),
            "{kind}"
        );
    }
    assert_eq!(status(&cluster, "MaintenanceInProgress"), None);
}

#[test]
fn a_drain_that_fails_leaves_the_node_not_drained() {
    let cluster = Cluster::start();
    cluster.configure(&format!("{LIFECYCLE}\nmargin = \"1s\""));
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    run(&cluster, "drain", &event("A", "Reboot", Some(4)), 1);
    assert_eq!(
        status(&cluster, "DrainInProgress"),
        Some(is("False", "DrainFailed"))
    );
    assert_eq!(status(&cluster, "Drained"), None);
    assert_eq!(
        status(&cluster, "MaintenancePlanned"),
        Some(is("True", "Reboot"))
    );
}

#[test]
fn the_lifecycle_conditions_follow_the_events_of_the_machine() {
    let cluster = Cluster::start();
    let (_server, address) = replay("scale-in", "1");
    cluster.configure_with(&address, LIFECYCLE);
    let freeze = event("A", "Freeze", Some(900));
    announce(&cluster, "scheduled", &freeze);
    assert_eq!(
        status(&cluster, "MaintenancePlanned"),
        Some(is("True", "Freeze"))
    );
    assert_eq!(status(&cluster, "MaintenanceInProgress"), None);
    announce(&cluster, "started", &freeze);
    assert_eq!(
        status(&cluster, "MaintenancePlanned"),
        Some(is("False", "NoEvent"))
    );
    assert_eq!(
        status(&cluster, "MaintenanceInProgress"),
        Some(is("True", "Freeze"))
    );
    announce(&cluster, "completed", &freeze);
    assert_eq!(
        status(&cluster, "MaintenanceInProgress"),
        Some(is("False", "NoEvent"))
    );
}

#[test]
fn a_condition_that_somebody_else_set_is_theirs() {
    let cluster = Cluster::start();
    cluster.configure("conditions = [\"lifecycle\", \"Terminating\"]");
    let planned = set(
        &cluster,
        "MaintenancePlanned",
        "MaintenanceWindow",
        "a rack is replaced on Friday",
    );
    let terminating = set(&cluster, "Terminating", "TerminationRequested", "theirs");
    let preempt = event("A", "Preempt", Some(60));
    run(&cluster, "drain", &preempt, 0);
    assert_eq!(
        status(&cluster, "Drained"),
        Some(is("True", "DrainCompleted"))
    );
    run(&cluster, "uncordon", &preempt, 0);
    assert_eq!(status(&cluster, "Drained"), Some(is("False", "NoEvent")));
    for before in [planned, terminating] {
        assert_eq!(cluster.condition_named(&before.type_), Some(before));
    }
}

#[test]
fn a_preempt_is_announced_to_those_who_replace_the_machine() {
    let cluster = Cluster::start();
    cluster.configure("conditions = [\"Terminating\", \"PreemptionScheduled\"]");
    // Only for a Preempt.
    let reboot = event("R", "Reboot", Some(900));
    run(&cluster, "drain", &reboot, 0);
    run(&cluster, "uncordon", &reboot, 0);
    assert_eq!(status(&cluster, "Terminating"), None);

    let mut preempt = event("A", "Preempt", Some(60));
    preempt["not_before"] = json!("2099-08-01T05:41:02Z");
    announce(&cluster, "scheduled", &preempt);
    assert_eq!(
        status(&cluster, "Terminating"),
        Some(is("True", "TerminationRequested"))
    );
    let message = || {
        let found = cluster.condition_named("PreemptionScheduled").unwrap();
        (found.reason.unwrap(), found.message.unwrap())
    };
    let expected = "Preempt Scheduled: Sat, 01 Aug 2099 05:41:02 GMT. EventId: A";
    assert_eq!(
        message(),
        ("SpotEvictionIncoming".into(), expected.into()),
        "as Karpenter reads it"
    );
    announce(&cluster, "started", &preempt);
    assert_eq!(message().1, "Preempt Started. EventId: A");
    run(&cluster, "drain", &preempt, 0);
    // An eviction that Azure calls off.
    run(&cluster, "uncordon", &preempt, 0);
    for kind in ["Terminating", "PreemptionScheduled"] {
        assert_eq!(
            status(&cluster, kind),
            Some(is("False", "NoEvent")),
            "{kind}"
        );
    }
}

#[test]
fn an_unknown_word_for_conditions_is_refused() {
    let cluster = Cluster::start();
    cluster.configure("conditions = [\"drained\"]");
    let output = cluster.run("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("`lifecycle`"), "{}", text(&output));
}
