//! `drain` and `uncordon`, as hooks of a watcher run them.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::cluster::chart::Access;
use crate::cluster::{Cluster, event, text};
use crate::fake::{AnsweredRequest, Fault, FaultKind};

const RECORD: &str = "scheduled-events/out-of-service";
const PROGRESS: &str = "scheduled-events/progress";

#[test]
fn a_node_is_drained_and_put_back() {
    let cluster = Cluster::start();
    cluster.add_pod("web-1", |_| {});
    let reboot = event("A", "Reboot", Some(900));
    cluster.succeed("drain", &reboot);
    assert_eq!(cluster.pod_names(), [""; 0]);
    assert!(cluster.is_cordoned());
    assert_eq!(cluster.taints(), [RECORD]);
    assert!(cluster.annotation(RECORD).unwrap().contains("\"id\":\"A\""));
    assert_eq!(cluster.annotation(PROGRESS).unwrap(), "drained");
    assert_eq!(
        cluster.condition().unwrap(),
        ("True".into(), "Reboot".into())
    );

    cluster.succeed("uncordon", &reboot);
    assert!(!cluster.is_cordoned());
    assert_eq!(cluster.taints(), [""; 0]);
    assert_eq!(
        (cluster.annotation(RECORD), cluster.annotation(PROGRESS)),
        (None, None)
    );
    assert_eq!(
        cluster.condition().unwrap(),
        ("False".into(), "NoEvent".into())
    );
    let reasons = cluster.event_reasons();
    assert_eq!(
        reasons,
        [
            "ScheduledEventDrain",
            "ScheduledEventDrained",
            "ScheduledEventOver"
        ]
    );
    // A repetition changes nothing.
    let before = without_its_controller(&cluster);
    cluster.succeed("uncordon", &reboot);
    assert_eq!(without_its_controller(&cluster), before);
}

#[test]
fn the_condition_shows_a_drain_by_the_last_call() {
    let cluster = Cluster::start();
    let message = || cluster.pending().and_then(|found| found.message).unwrap();
    let variables = [("SCHEDULED_EVENTS_LAST_CALL", "1")];
    let output =
        wait::output_of(cluster.hook_with(&variables, "drain", &event("A", "Reboot", Some(900))));
    assert!(output.status.success(), "{}", text(&output));
    let by_last_call = "; drained by the last call, without the gate's yes";
    assert!(message().ends_with(by_last_call), "{}", message());
    // Changes that are shown later, even of another event, leave it there.
    for (change, id) in [("started", "A"), ("scheduled", "B")] {
        let variables = [("SCHEDULED_EVENTS_CHANGE", change)];
        let output = wait::output_of(cluster.hook_with(
            &variables,
            "announce",
            &event(id, "Reboot", Some(900)),
        ));
        assert!(output.status.success(), "{}", text(&output));
        assert!(
            message().starts_with(&format!("Reboot {id} ")) && message().ends_with(by_last_call),
            "{}",
            message()
        );
    }
    // The next one has its gate's yes.
    cluster.succeed("uncordon", &event("A", "Reboot", Some(900)));
    cluster.succeed("drain", &event("B", "Reboot", Some(900)));
    assert!(!message().contains("last call"));
}

/// By default a kubelet runs at most 110 pods.
#[test]
fn a_full_node_is_drained() {
    let cluster = Cluster::start();
    for number in 0..110 {
        cluster.add_pod(&format!("web-{number}"), |_| {});
    }
    let begin = Instant::now();
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    println!("110 pods were drained in {:?}", begin.elapsed());
    assert_eq!(cluster.pod_names(), [""; 0]);
    // Each was evicted once.
    assert!(cluster.fake.is_none() || cluster.evictions(201) == 110);
}

#[test]
fn a_budget_is_respected_and_asked_again() {
    let cluster = Cluster::start();
    cluster.add_budget("web", 2);
    cluster.add_pod("web-1", |_| {});
    cluster.add_pod("web-2", |_| {});
    cluster.add_pod("other-1", |_| {});
    let drain = cluster.hook("drain", &event("A", "Reboot", Some(50)));
    cluster.wait_for("the pod without a budget to go", || {
        (cluster.pod_names() == ["web-1", "web-2"]).then_some(())
    });
    cluster.wait_for("the budget on the node", || {
        cluster
            .annotation(PROGRESS)
            .filter(|text| text.contains("disruption budget web"))
    });
    cluster.wait_for_refusals(4);
    assert_eq!(cluster.pod_names(), ["web-1", "web-2"]);
    cluster.delete_budget("web");
    let output = wait::output_of(drain);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(cluster.pod_names(), [""; 0]);
}

#[test]
fn an_overloaded_server_is_left_alone_for_as_long_as_it_asks() {
    let cluster = Cluster::imitated();
    let fake = cluster.fake();
    fake.add_fault(Fault {
        method: "POST",
        path: "/eviction",
        times: 1,
        kind: FaultKind::Refuse(429, Some(3)),
    });
    for name in ["web-1", "web-2", "web-3"] {
        cluster.add_pod(name, |_| {});
    }
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    let evictions = cluster.seen("POST", "/eviction");
    let refused = evictions
        .iter()
        .find(|eviction| eviction.code == 429)
        .expect("a refused eviction");
    // Requests that were sent before the answer arrived do not count.
    let again = evictions
        .iter()
        .filter(|eviction| eviction.path == refused.path)
        .nth(1)
        .expect("a second try");
    assert!(
        again.at - refused.at >= Duration::from_secs(3),
        "{:?}",
        again.at - refused.at
    );
}

#[test]
fn mirror_daemonset_and_finished_pods_stay() {
    let cluster = Cluster::start();
    cluster.add_daemon_pod(&cluster.namespace, "agent-1", |_| {});
    cluster.add_pod("mirror-1", |pod| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    });
    cluster.add_pod("done-1", |pod| {
        pod["status"] = json!({"phase": "Succeeded"});
    });
    cluster.add_pod("failed-1", |pod| pod["status"] = json!({"phase": "Failed"}));
    cluster.add_pod("web-1", |_| {});
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(
        cluster.pod_names(),
        ["agent-1", "done-1", "failed-1", "mirror-1"]
    );
}

#[test]
fn data_in_an_empty_dir_is_lost_only_if_the_configuration_says_so() {
    let cluster = Cluster::start();
    let volumes = json!([{"name": "scratch", "emptyDir": {}}]);
    cluster.add_pod("cache-1", |pod| pod["spec"]["volumes"] = volumes.clone());
    cluster.add_pod("bare-1", |pod| {
        pod["metadata"]["ownerReferences"] = json!([]);
    });
    cluster.add_pod("web-1", |_| {});
    let output = cluster.fail("drain", &event("A", "Reboot", Some(20)));
    assert!(
        output.contains("cache-1 has an emptyDir volume (node.empty_dir)"),
        "{output}"
    );
    assert!(output.contains("bare-1 has no controller"), "{output}");
    assert_eq!(cluster.pod_names(), ["bare-1", "cache-1"]);

    cluster.configure("empty_dir = \"leave\"\nunmanaged = \"evict\"");
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(cluster.pod_names(), ["cache-1"]);
    cluster.configure("empty_dir = \"evict\"");
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(cluster.pod_names(), [""; 0]);
}

#[test]
fn data_in_an_empty_dir_holds_nothing_up_where_the_event_takes_it_anyway() {
    let cluster = Cluster::start();
    cluster.add_pod("cache-1", |pod| {
        pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    });
    let output = cluster.fail("drain", &event("A", "Freeze", Some(20)));
    assert!(
        output.contains("cache-1 has an emptyDir volume"),
        "{output}"
    );
    cluster.succeed("drain", &event("B", "Redeploy", Some(900)));
    assert_eq!(cluster.pod_names(), [""; 0]);
}

#[test]
fn a_node_leaves_the_load_balancers_while_it_is_out_of_service() {
    const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    let cluster = Cluster::start();
    let label = || {
        cluster
            .node()
            .metadata
            .labels
            .and_then(|mut labels| labels.remove(LABEL))
    };
    cluster.configure("exclude_from_load_balancers = true");
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(label().as_deref(), Some("scheduled-events"));
    cluster.succeed("uncordon", &event("A", "Reboot", None));
    assert_eq!(label(), None);
    // A label that an operator has set before stays.
    cluster.patch_node(
        "kubectl-label",
        &json!({"metadata": {"labels": {LABEL: ""}}}),
    );
    cluster.succeed("drain", &event("B", "Reboot", Some(900)));
    cluster.succeed("uncordon", &event("B", "Reboot", None));
    assert_eq!(label().as_deref(), Some(""));
}

#[test]
fn grace_periods_end_before_the_event_starts() {
    let cluster = Cluster::start();
    cluster.add_pod("slow-1", |pod| {
        pod["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    });
    cluster.add_pod("quick-1", |pod| {
        pod["spec"]["terminationGracePeriodSeconds"] = json!(20);
    });
    // Both take two seconds to end.
    for (name, grace) in [("slow-2", 3600), ("quick-2", 20)] {
        cluster.add_pod(name, |pod| {
            pod["metadata"]["labels"]["ends-after"] = json!("2");
            pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        });
    }
    let drain = cluster.hook("drain", &event("A", "Reboot", Some(600)));
    let grace = cluster.wait_for("the deletion", || {
        cluster
            .pod("slow-2")?
            .metadata
            .deletion_grace_period_seconds
    });
    assert!((500..=595).contains(&grace), "{grace}");
    let quick = cluster.wait_for("the deletion", || {
        cluster
            .pod("quick-2")?
            .metadata
            .deletion_grace_period_seconds
    });
    assert_eq!(quick, 20);
    let output = wait::output_of(drain);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        cluster.pod_names(),
        [""; 0],
        "a pod counts until it is gone"
    );
}

#[test]
fn at_the_deadline_the_drain_fails_and_the_node_stays_cordoned() {
    let cluster = Cluster::start();
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let output = cluster.fail("drain", &event("A", "Reboot", Some(20)));
    assert!(output.contains("not drained in time"), "{output}");
    assert!(
        output.contains("web-1 The disruption budget web needs 1 healthy pods"),
        "{output}"
    );
    assert_eq!(cluster.pod_names(), ["web-1"]);
    assert!(cluster.is_cordoned());
    assert!(
        cluster
            .event_reasons()
            .contains(&"ScheduledEventDrainFailed".to_owned())
    );
    cluster.succeed("uncordon", &event("A", "Reboot", None));
    assert!(!cluster.is_cordoned());
}

#[test]
fn with_force_pods_are_deleted_past_their_budget_before_the_event_starts() {
    let cluster = Cluster::with_access(Access::ChartWithAll);
    cluster.configure("at_deadline = \"force\"");
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let begin = Instant::now();
    cluster.succeed("drain", &event("A", "Preempt", Some(30)));
    assert_eq!(cluster.pod_names(), [""; 0]);
    // Half of the thirty seconds, less the margin.
    assert!(
        begin.elapsed() >= Duration::from_secs(10),
        "the budget has its time first: {:?}",
        begin.elapsed()
    );
    assert!(cluster.fake.is_none() || cluster.evictions(429) >= 2);
}

#[test]
fn a_node_that_somebody_else_cordoned_stays_cordoned() {
    let cluster = Cluster::start();
    cluster.patch_node("kubectl-cordon", &json!({"spec": {"unschedulable": true}}));
    let before = cluster.node();
    cluster.succeed("drain", &event("A", "Redeploy", Some(900)));
    let output = cluster.succeed("uncordon", &event("A", "Redeploy", None));
    assert!(
        output.contains("stays cordoned, because kubectl-cordon cordoned it"),
        "{output}"
    );
    assert_eq!(without_versions(cluster.node()), without_versions(before));
}

#[test]
fn a_cordon_that_somebody_else_renewed_stays() {
    let cluster = Cluster::start();
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    cluster.patch_node(
        "kubectl-uncordon",
        &json!({"spec": {"unschedulable": null}}),
    );
    cluster.patch_node("kubectl-cordon", &json!({"spec": {"unschedulable": true}}));
    cluster.succeed("drain", &event("B", "Reboot", Some(900)));
    cluster.succeed("uncordon", &event("B", "Reboot", None));
    assert!(cluster.is_cordoned());
    assert_eq!(cluster.taints(), [""; 0]);
}

#[test]
fn a_drain_that_was_killed_goes_on_where_it_was() {
    let cluster = Cluster::start();
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let reboot = event("A", "Reboot", Some(50));
    let mut first = cluster.hook("drain", &reboot);
    cluster.wait_for_refusals(1);
    first.kill().unwrap();
    wait::ended(&mut first);
    assert!(cluster.is_cordoned());
    let record = cluster.annotation(RECORD);
    let second = cluster.hook("drain", &reboot);
    cluster.wait_for_refusals(2);
    cluster.delete_budget("web");
    let output = wait::output_of(second);
    assert!(
        output.status.success() && text(&output).contains("still cordoned"),
        "{}",
        text(&output)
    );
    assert_eq!(cluster.annotation(RECORD), record);
    cluster.succeed("uncordon", &reboot);
    assert!(!cluster.is_cordoned());
}

#[test]
fn a_cordon_whose_answer_was_lost_is_still_ours() {
    let cluster = Cluster::imitated();
    let fake = cluster.fake();
    fake.add_fault(Fault {
        method: "PATCH",
        path: "/nodes/",
        times: 1,
        kind: FaultKind::Lose,
    });
    let output = cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert!(
        output.contains("cannot cordon node") && output.contains("still cordoned"),
        "{output}"
    );
    fake.add_fault(Fault {
        method: "PATCH",
        path: "/nodes/",
        times: 1,
        kind: FaultKind::Lose,
    });
    cluster.succeed("uncordon", &event("A", "Reboot", None));
    assert!(!cluster.is_cordoned());
    assert_eq!(cluster.taints(), [""; 0]);
}

#[test]
fn taints_of_others_survive_whenever_they_come_and_go() {
    let cluster = Cluster::start();
    let autoscaler =
        json!({"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"});
    cluster.patch_node(
        "cluster-autoscaler",
        &json!({"spec": {"taints": [autoscaler]}}),
    );
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(cluster.taints(), ["ToBeDeletedByClusterAutoscaler", RECORD]);
    cluster.change_taints("kured", |taints| {
        taints.push(json!({"key": "weave.works/kured-node-reboot", "effect": "PreferNoSchedule"}));
    });
    cluster.succeed("uncordon", &event("A", "Reboot", None));
    assert_eq!(
        cluster.taints(),
        [
            "ToBeDeletedByClusterAutoscaler",
            "weave.works/kured-node-reboot"
        ]
    );
}

#[test]
fn a_taint_that_comes_between_reading_and_writing_is_not_lost() {
    let cluster = Cluster::imitated();
    let fake = cluster.fake();
    let autoscaler =
        json!({"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"});
    let before_next_patch = |taints: Value| {
        let kind = FaultKind::Precede(json!({"spec": {"taints": taints}}));
        fake.add_fault(Fault {
            method: "PATCH",
            path: "/nodes/",
            times: 1,
            kind,
        });
    };
    before_next_patch(json!([autoscaler]));
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    assert_eq!(
        cluster.taints(),
        ["DeletionCandidateOfClusterAutoscaler", RECORD]
    );
    assert!(
        cluster
            .seen("PATCH", "/nodes/")
            .iter()
            .any(|patch| patch.code == 409)
    );
    // It disappears again when the node comes back.
    let ours = json!({"key": RECORD, "value": "Reboot", "effect": "NoSchedule"});
    before_next_patch(json!([ours]));
    cluster.succeed("uncordon", &event("A", "Reboot", None));
    assert_eq!(cluster.taints(), [""; 0]);
    assert!(!cluster.is_cordoned());
}

/// A controller writes the node all the time.
#[test]
fn a_node_that_always_changed_meanwhile_is_asked_for_once_a_second_and_not_for_ever() {
    let cluster = Cluster::imitated();
    let fake = cluster.fake();
    let conflict = || Fault {
        method: "PATCH",
        path: "/nodes/",
        times: u32::MAX,
        kind: FaultKind::Refuse(409, None),
    };
    fake.add_fault(conflict());
    let asked = || cluster.seen("PATCH", "/nodes/").len();
    let output = cluster.fail("drain", &event("A", "Reboot", Some(12)));
    assert!(output.contains("it changed meanwhile"), "{output}");
    assert!((1..60).contains(&asked()), "{}", asked());
    fake.remove_faults();
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    fake.add_fault(conflict());
    cluster.configure("ready_timeout = \"2s\"");
    let before = asked();
    let output = cluster.fail("uncordon", &event("A", "Reboot", None));
    assert!(output.contains("it changed meanwhile"), "{output}");
    assert!(
        (1..30).contains(&(asked() - before)),
        "{}",
        asked() - before
    );
}

#[test]
fn a_watch_whose_version_is_too_old_begins_again() {
    let cluster = Cluster::imitated();
    let fake = cluster.fake();
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let drain = cluster.hook("drain", &event("A", "Reboot", Some(50)));
    cluster.wait_for_refusals(1);
    let lists = cluster.seen("GET", "/api/v1/pods").len();
    fake.compact();
    cluster.add_pod("late-1", |_| {});
    cluster.wait_for("the pods to be listed again", || {
        (cluster.seen("GET", "/api/v1/pods").len() > lists + 1).then_some(())
    });
    cluster.delete_budget("web");
    let output = wait::output_of(drain);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        cluster.pod_names(),
        [""; 0],
        "a pod that came meanwhile is evicted, too"
    );
}

#[test]
fn a_pod_with_two_budgets_is_reported() {
    let cluster = Cluster::start();
    // The controller reads the pods of every new budget, and for a new pod only one of its budgets.
    cluster.add_pod("web-1", |_| {});
    cluster.add_budget("web", 0);
    cluster.add_named_budget("second", "web", 0);
    let output = cluster.fail("drain", &event("A", "Reboot", Some(12)));
    assert!(
        output.contains("more than one PodDisruptionBudget"),
        "{output}"
    );
}

#[test]
fn uncordon_waits_until_the_node_is_ready() {
    let cluster = Cluster::start();
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    cluster.set_ready(false);
    cluster.configure("ready_timeout = \"2s\"");
    let output = cluster.fail("uncordon", &event("A", "Reboot", None));
    assert!(
        output.contains("the node is not ready: the test says so"),
        "{output}"
    );
    assert!(cluster.is_cordoned());
    cluster.configure("");
    let uncordon = cluster.hook("uncordon", &event("A", "Reboot", None));
    cluster.set_ready(true);
    let output = wait::output_of(uncordon);
    assert!(output.status.success(), "{}", text(&output));
    assert!(!cluster.is_cordoned());
}

#[test]
fn a_status_from_before_the_boot_is_no_readiness() {
    let cluster = Cluster::start();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    cluster.set_boot_id(boot_id.trim());
    cluster.succeed("drain", &event("A", "Reboot", Some(900)));
    cluster.set_boot_id("of-another-boot");
    cluster.configure("ready_timeout = \"2s\"");
    let output = cluster.fail("uncordon", &event("A", "Reboot", None));
    assert!(
        output.contains("the node's status is from before the boot"),
        "{output}"
    );
    cluster.set_boot_id(boot_id.trim());
    cluster.succeed("uncordon", &event("A", "Reboot", None));
}

#[test]
fn what_is_no_event_of_this_machine_drains_nothing() {
    let cluster = Cluster::start();
    let mut other = event("A", "Reboot", Some(900));
    other["mine"] = json!(false);
    for (input, expected) in [
        (other, "does not name this machine"),
        (json!([1]), "standard input is not an event"),
    ] {
        let output = cluster.run("drain", &input);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
    assert!(!cluster.is_cordoned());
}

/// A role is replaced, a credential is renewed, the kubelet registers the node again.
#[test]
fn a_right_or_a_node_that_is_missing_for_a_moment_delays_a_drain_and_a_recovery() {
    for code in [401, 403, 404] {
        let cluster = Cluster::imitated();
        let refuse = |method, path| {
            cluster.fake().add_fault(Fault {
                method,
                path,
                times: 2,
                kind: FaultKind::Refuse(code, None),
            });
        };
        cluster.add_pod("web-1", |_| {});
        refuse("GET", "/nodes/");
        if code != 404 {
            refuse("POST", "/eviction");
            refuse("GET", "/pods");
        }
        let output = cluster.succeed("drain", &event("A", "Reboot", Some(900)));
        let reason = if code == 404 {
            "there is no node"
        } else {
            "cannot cordon node"
        };
        assert!(output.contains(reason), "{code}: {output}");
        assert_eq!(output.matches(" yet: ").count(), 1, "said once: {output}");
        let refusals = output.matches("cannot follow the pods: ").count();
        assert_eq!(refusals, usize::from(code != 404), "said once: {output}");
        refuse("PATCH", "/nodes/");
        let output = cluster.succeed("uncordon", &event("A", "Reboot", None));
        assert!(
            output.contains("not back in service yet"),
            "{code}: {output}"
        );
        assert!(!cluster.is_cordoned());
    }
}

#[test]
fn a_missing_node_or_right_is_reported() {
    let cluster = Cluster::with_access(Access::None);
    cluster.configure("timeout = \"4s\"");
    let output = cluster.fail("drain", &event("A", "Reboot", None));
    assert!(
        output.contains("cannot cordon node") && output.contains("is forbidden"),
        "{output}"
    );
    let cluster = Cluster::start();
    cluster.configure("timeout = \"4s\"");
    let output = wait::output(&mut cluster.fleet(&["drain", "--node", "nowhere"]));
    assert!(
        text(&output).contains("there is no node nowhere"),
        "{}",
        text(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn certificates_are_always_verified() {
    let cluster = Cluster::imitated();
    let other = Cluster::imitated();
    // The address of one server, and the authority of another.
    let path = cluster.folder.path().join("agent");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let theirs = std::fs::read_to_string(other.folder.path().join("agent")).unwrap();
    let theirs: Value = serde_json::from_str(&theirs).unwrap();
    let ca = "certificate-authority-data";
    config["clusters"][0]["cluster"][ca] = theirs["clusters"][0]["cluster"][ca].clone();
    std::fs::write(&path, config.to_string()).unwrap();
    let output = cluster.fail("drain", &event("A", "Reboot", Some(3)));
    assert!(output.contains("certificate"), "{output}");
    config["clusters"][0]["cluster"]
        .as_object_mut()
        .unwrap()
        .remove(ca);
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    std::fs::write(&path, config.to_string()).unwrap();
    let output = cluster.run("drain", &event("A", "Reboot", Some(3)));
    assert!(
        text(&output).contains("certificates are always verified"),
        "{}",
        text(&output)
    );
    assert!(!cluster.is_cordoned());
}

/// The node without the members that every change of it changes, and without those for people. On a
/// real cluster, also without those that its controller writes, which it may do late: it taints
/// cordoned nodes.
fn without_its_controller(cluster: &Cluster) -> Node {
    let node = cluster.node();
    if cluster.fake.is_some() {
        return node;
    }
    let mut node = without_versions(node);
    if let Some(spec) = &mut node.spec {
        let mut taints = spec.taints.take().unwrap_or_default();
        taints.retain(|taint| !taint.key.starts_with("node.kubernetes.io/"));
        spec.taints = (!taints.is_empty()).then_some(taints);
    }
    node
}

fn without_versions(mut node: Node) -> Node {
    node.metadata.resource_version = None;
    node.metadata.managed_fields = None;
    // A controller of a real cluster adds it to every node at some time.
    if let Some(annotations) = &mut node.metadata.annotations {
        annotations.remove("node.alpha.kubernetes.io/ttl");
        if annotations.is_empty() {
            node.metadata.annotations = None;
        }
    }
    let conditions = node
        .status
        .as_mut()
        .and_then(|status| status.conditions.as_mut());
    if let Some(conditions) = conditions {
        conditions.retain(|condition| condition.type_ == "Ready");
    }
    node
}

impl Cluster {
    /// Runs a hook that must succeed, and returns what it printed.
    fn succeed(&self, command: &str, event: &Value) -> String {
        let output = self.run(command, event);
        assert!(output.status.success(), "{command}: {}", text(&output));
        text(&output)
    }

    /// Runs a hook that must fail.
    fn fail(&self, command: &str, event: &Value) -> String {
        let output = self.run(command, event);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{command}: {}",
            text(&output)
        );
        text(&output)
    }

    /// The agent's requests, where the test can read them.
    fn seen(&self, method: &str, path: &str) -> Vec<AnsweredRequest> {
        let seen = self
            .fake
            .as_ref()
            .map(crate::fake::FakeApi::seen)
            .unwrap_or_default();
        seen.into_iter()
            .filter(|seen| seen.agent && seen.method == method && seen.path.contains(path))
            .collect()
    }

    fn evictions(&self, code: u16) -> usize {
        self.seen("POST", "/eviction")
            .iter()
            .filter(|eviction| eviction.code == code)
            .count()
    }

    /// Waits until a budget has refused this many evictions. On a real cluster, the first one shows
    /// on the node, and the others follow once a second while less than a minute is left.
    fn wait_for_refusals(&self, count: usize) {
        if self.fake.is_some() {
            self.wait_for("evictions", || (self.evictions(429) >= count).then_some(()));
        } else {
            self.wait_for("the budget on the node", || {
                self.annotation(PROGRESS)
                    .filter(|text| text.contains("disruption budget"))
            });
            std::thread::sleep(Duration::from_secs(count as u64));
        }
    }
}
