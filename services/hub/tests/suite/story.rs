//! Stories from a message to the end of an event.

use std::fs;
use std::time::Duration;

use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

/// The path that approves one event.
fn approval(resource: &str, id: &str) -> String {
    let resource = resource.replace("resourceGroups", "resourcegroups");
    format!(
        "{resource}/providers/Microsoft.Maintenance/scheduledevents/{id}/acknowledge?api-version=2025-10-01-preview"
    )
}

/// The changes of one machine, in the order of the audit file.
fn changes(hub: &Hub, machine: &str) -> Vec<String> {
    let is_its = |record: &Value| record["record"] == "change" && record["resource_id"] == machine;
    let word = |record: Value| record["change"].as_str().expect("a word").to_owned();
    hub.records().into_iter().filter(is_its).map(word).collect()
}

/// A message with advice, in either of its forms.
fn advice(machine: &str, id: &str, kind: &str, status: &str) -> Value {
    let mut message = message(machine, id, status, &["db"]);
    let properties = &mut message["data"]["resourceInfo"]["properties"];
    properties["EventType"] = kind.into();
    properties["NotBefore"] = "".into();
    message
}

#[test]
fn advice_prepares_only_by_a_rule_that_names_it_and_is_never_approved() {
    let named = "[[rule]]\nevent = [\"SpotRebalanceRecommendation\"]\naction = \"prepare\"\n";
    let any = "[[rule]]\naction = \"approve\"\n";
    for (kind, status) in [
        ("SpotRebalanceRecommendation", "Scheduled"),
        ("Preempt", "Advisory"),
    ] {
        for policy in [any.to_owned(), format!("{named}{any}")] {
            let (control, queue) = (Control::start(), TestQueue::start());
            let mut hub = Hub::new(&control.url(), Some(&queue), "");
            fs::write(hub.path("policy.toml"), &policy).expect("written");
            let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
            hub.start();
            queue.send(&advice(&machine, &id, kind, status));
            hub.await_record("the advice", |record| record["change"] == "advised");
            let prepares = policy.starts_with(named);
            if prepares {
                hub.await_hook(&format!("prepare-db-{id}"));
                hub.await_record("the preparation", |record| {
                    record["record"] == "prepare" && record["outcome"] == "ready"
                });
            }
            // What another event needs is done: so is what there is to do for the advice.
            let other = event_id(2);
            queue.send(&message(&machine, &other, "Scheduled", &["db"]));
            hub.await_record("the approval", |record| {
                record["record"] == "approval" && record["status"] == 200
            });
            control.change(&queue, &machine, &other, "Completed", &["db"]);
            let over = advice(&machine, &id, kind, "Completed");
            let row = over["data"]["resourceInfo"].clone();
            control.with(|world| world.rows.push(row));
            queue.send(&over);
            hub.await_record("the withdrawal", |record| {
                record["change"] == "advice-withdrawn"
            });
            if prepares {
                hub.await_record("the recovery", |record| {
                    record["record"] == "recover" && record["outcome"] == "done"
                });
            }
            let is_of_advice = |record: &Value| record["event_id"] == json!(id);
            let kinds = |kind: &str| {
                let records = hub.records().into_iter().filter(is_of_advice);
                records.filter(|record| record["record"] == kind).count()
            };
            assert_eq!(kinds("prepare") > 0, prepares, "{policy}");
            assert_eq!(
                control.with(|world| world.approvals.clone()),
                [(approval(&machine, &other), json!(null))],
                "only the other event"
            );
        }
    }
}

#[test]
fn a_machine_without_an_agent_is_drained_approved_and_put_back() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));

    let got = hub.await_hook(&format!("prepare-db-{id}"));
    for line in [
        &format!("SCHEDULED_EVENTS_RESOURCE_ID={machine}") as &str,
        "SCHEDULED_EVENTS_MACHINE=db",
        "SCHEDULED_EVENTS_LOCATION=westeurope",
        "SCHEDULED_EVENTS_EVENT_TYPE=Reboot",
        &format!("\"resource_id\":\"{machine}\""),
    ] {
        assert!(got.contains(line), "{line} in {got}");
    }
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    assert_eq!(
        control.with(|world| world.approvals.clone()),
        [(approval(&machine, &id), json!(null))]
    );

    queue.send(&message(&machine, &id, "Started", &["db"]));
    control.change(&queue, &machine, &id, "Completed", &["db"]);
    hub.await_hook(&format!("recover-db-{id}"));
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    assert_eq!(
        changes(&hub, &machine),
        ["scheduled", "started", "completed"]
    );
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    // No state is kept of a machine that is in service and has no event.
    let kept = || {
        fs::read_dir(hub.path("state").join("hub/machines"))
            .expect("a folder")
            .flatten()
            .count()
    };
    wait::until("an empty state", || {
        (hub.read("hub.prom").contains("hub_machines 0\n") && kept() == 0).then_some(())
    });
}

#[test]
fn three_machines_of_one_event_are_approved_once_when_all_are_ready() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    // One of them takes long.
    hub.prepare_with(
        "test $SCHEDULED_EVENTS_MACHINE = front_2 && until test -e $(dirname $0)/go; do sleep 0.05; done\nexit 0\n",
    );
    hub.start();
    queue.send(&message(
        &set,
        &id,
        "Scheduled",
        &["front_0", "front_1", "front_2"],
    ));
    let is_ready = |record: &&Value| record["record"] == "prepare" && record["outcome"] == "ready";
    wait::until("two machines", || {
        (hub.records().iter().filter(is_ready).count() == 2).then_some(())
    });
    for machine in ["/0", "/1"] {
        hub.await_record("a closed gate", |record| {
            let is_closed = record["phase"] == "approve" && record["outcome"] == "closed";
            is_closed
                && record["resource_id"]
                    .as_str()
                    .is_some_and(|id| id.ends_with(machine))
        });
    }
    assert_eq!(
        control.with(|world| world.approvals.len()),
        0,
        "the third machine is not ready"
    );
    fs::write(hub.path("go"), "").expect("written");
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    assert_eq!(
        control.with(|world| world.approvals.clone()),
        [(approval(&set, &id), json!(null))]
    );
}

#[test]
fn messages_in_reverse_and_repeated_change_nothing() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, first, second) = (resource("virtualMachines", "db"), event_id(1), event_id(2));
    // The end comes first.
    for status in ["Completed", "Started", "Scheduled", "Scheduled"] {
        queue.send(&message(&machine, &first, status, &["db"]));
    }
    hub.start();
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    for status in ["Scheduled", "Scheduled"] {
        queue.send(&message(&machine, &second, status, &["db"]));
    }
    hub.await_hook(&format!("prepare-db-{second}"));
    hub.await_record("the approval", |record| record["record"] == "approval");
    assert_eq!(changes(&hub, &machine), ["scheduled"]);
    assert!(
        !hub.path("hooks")
            .join(format!("prepare-db-{first}"))
            .exists(),
        "an event that is over was prepared for"
    );
}

#[test]
fn a_lost_message_costs_time_and_not_the_event() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    // The first answers are refusals: a quota, and a service that fails.
    control.with(|world| {
        world.refusals.push((503, "", json!({})));
        world.refusals.push((
            429,
            "x-ms-user-quota-resets-after: 00:00:04",
            json!({"error": {"code": "RateLimiting"}}),
        ));
        world.rows = vec![row(&machine, &id, "Scheduled", &["db"])];
    });
    hub.start();
    let got = hub.await_hook(&format!("prepare-db-{id}"));
    assert!(got.contains("SCHEDULED_EVENTS_ZONE=2"), "{got}");
    // Without the quota's time, the pause would be a second.
    let pause = control.with(|world| world.requested[1] - world.requested[0]);
    assert!(pause >= Duration::from_secs(4), "{pause:?}");
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    // The query for open events does not show that it is over: the hub queries it by its id.
    control.with(|world| world.rows = vec![row(&machine, &id, "Canceled", &["db"])]);
    hub.await_hook(&format!("recover-db-{id}"));
    assert_eq!(changes(&hub, &machine), ["scheduled", "cancelled"]);
    let named = format!("name in~ (\"{id}\")");
    assert!(control.with(|world| world.queries.iter().any(|query| query.contains(&named))));
}

#[test]
fn an_event_whose_id_is_none_of_azures_is_not_asked_for() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    let machine = resource("virtualMachines", "db");
    hub.start();
    queue.send(&message(&machine, "nobody", "Scheduled", &["db"]));
    hub.await_record("the event", |record| record["record"] == "change");
    let count = || control.with(|world| world.queries.len());
    let before = count();
    wait::until("two more queries", || (count() >= before + 2).then_some(()));
    // A query for no ids is an error at Azure, which would end the reconciliation.
    assert!(control.with(|world| {
        world
            .queries
            .iter()
            .all(|query| !query.contains("name in~"))
    }));
}

#[test]
fn a_killed_hub_forgets_nothing_and_repeats_only_what_it_was_doing() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.prepare_with(
        "echo x >>$(dirname $0)/runs\nuntil test -e $(dirname $0)/go; do sleep 0.05; done\n",
    );
    hub.start();
    // After the restart, its row is needed for the approval.
    control.change(&queue, &machine, &id, "Scheduled", &["db"]);
    let runs = |hub: &Hub| hub.read("runs").lines().count();
    wait::until("the preparation", || (runs(&hub) == 1).then_some(()));
    hub.kill();
    hub.start();
    // The first command was ended, and runs again.
    wait::until("the second preparation", || (runs(&hub) == 2).then_some(()));
    assert_eq!(control.with(|world| world.approvals.len()), 0);
    fs::write(hub.path("go"), "").expect("written");
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.await_state("start");
    hub.kill();
    hub.start();
    control.change(&queue, &machine, &id, "Completed", &["db"]);
    hub.await_hook(&format!("recover-db-{id}"));
    assert_eq!(runs(&hub), 2, "it was prepared again after it was approved");
    assert_eq!(
        control.with(|world| world.approvals.len()),
        1,
        "it was approved again"
    );
    assert_eq!(changes(&hub, &machine), ["scheduled", "completed"]);
}

#[test]
fn what_cannot_be_read_is_set_aside_and_what_is_not_ours_left_out() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    queue.send_text("bm90IEpTT04=");
    queue.send_text("not Base64!");
    queue.send(&json!({"eventType": "Microsoft.Storage.BlobCreated", "data": {}}));
    let other = resource("virtualMachines", "db").replace("00000000-", "11111111-");
    queue.send(&message(&other, &event_id(1), "Scheduled", &["db"]));
    // Azure renames a member.
    let mut unknown = message(
        &resource("virtualMachines", "db"),
        &event_id(2),
        "Scheduled",
        &["db"],
    );
    let info = &mut unknown["data"]["resourceInfo"];
    info["event"] = info["properties"].take();
    queue.send(&unknown);
    hub.start();
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    for line in [
        "messages_total{result=\"set-aside\"} 3",
        "messages_total{result=\"left-out\"} 1",
        "arrival=\"other-subscription\"} 1",
    ] {
        wait::until(line, || hub.read("hub.prom").contains(line).then_some(()));
    }
    let kept: Vec<_> = hub
        .records()
        .into_iter()
        .filter(|record| record["record"] == "set-aside")
        .collect();
    let has = |content: &str| kept.iter().any(|record| record["content"] == content);
    let contents = [&unknown.to_string(), "not JSON", "not Base64!"];
    assert!(kept.len() == 3 && contents.into_iter().all(has), "{kept:?}");
}

#[test]
fn what_is_set_aside_is_in_the_poison_queue() {
    let (control, queue, poison) = (Control::start(), TestQueue::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let name = poison.url.rsplit('/').next().expect("a name");
    fs::write(
        hub.path("hub.toml"),
        hub.read("hub.toml") + &format!("poison = \"{name}\"\n"),
    )
    .expect("written");
    // A message that a hub could never keep, as after twenty crashes.
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    (0..20).for_each(|_| queue.receive());
    let kept = queue.texts();
    queue.send_text("bm90IEpTT04=");
    hub.start();
    wait::until("both messages", || {
        (poison.texts().len() == 2).then_some(())
    });
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    let found = poison.texts();
    assert!(
        found.contains(&kept[0]) && found.contains(&"bm90IEpTT04=".to_owned()),
        "{found:?}"
    );
    let set_aside: Vec<_> = hub
        .records()
        .into_iter()
        .filter(|record| record["record"] == "set-aside")
        .collect();
    assert_eq!(set_aside.len(), 2, "{set_aside:?}");
    assert!(
        hub.read("log")
            .contains("it was received 21 times and never deleted"),
        "{}",
        hub.read("log")
    );
    assert!(!hub.path("hooks").join(format!("prepare-db-{id}")).exists());
}

#[test]
fn where_a_machine_has_an_agent_the_hub_only_watches() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(
        &control.url(),
        Some(&queue),
        "agents = { machines = [\"web*\"] }",
    );
    let (machine, id) = (resource("virtualMachines", "web-1"), event_id(1));
    hub.start();
    queue.send(&message(&machine, &id, "Scheduled", &["web-1"]));
    hub.await_record("its event", |record| record["record"] == "decision");
    // Everything is done meanwhile for a machine without an agent.
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(2),
        "Scheduled",
        &["db"],
    ));
    hub.await_record("the other machine's approval", |record| {
        record["record"] == "approval"
    });
    for status in ["Started", "Completed"] {
        control.change(&queue, &machine, &id, status, &["web-1"]);
    }
    hub.await_record("the end", |record| record["change"] == "completed");
    assert!(
        !hub.path("hooks")
            .join(format!("prepare-web-1-{id}"))
            .exists()
    );
    assert_eq!(control.with(|world| world.approvals.len()), 1);
}

#[test]
fn an_approval_that_is_refused_in_part_is_repeated_for_the_rest() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let set = resource("virtualMachineScaleSets", "front");
    let ids = [event_id(1), event_id(2)];
    let detail = json!([{"target": ids[0], "code": "Conflict", "message": "try again"}]);
    // The query at the start comes before any approval.
    hub.start();
    control.await_query();
    control.with(|world| {
        world.refusals.push((
            207,
            "",
            json!({"error": {"code": "MultiStatusResponse", "message": "", "details": detail}}),
        ));
    });
    // Both in one message, so that they are most likely due together.
    let both: Vec<_> = ids
        .iter()
        .zip(["front_0", "front_1"])
        .map(|(id, name)| message(&set, id, "Scheduled", &[name]))
        .collect();
    queue.send(&json!(both));
    let is_approved = |record: &&Value| record["record"] == "approval" && record["status"] == 200;
    wait::until("both approvals", || {
        (hub.records().iter().filter(is_approved).count() == 2).then_some(())
    });
    let requests = control.with(|world| world.approvals.clone());
    let of = |id: &str| {
        requests
            .iter()
            .filter(|(path, _)| *path == approval(&set, id))
            .count()
    };
    assert_eq!(
        of(&ids[0]),
        1,
        "what was refused is sent again, once: {requests:?}"
    );
    assert_eq!(requests.len(), 1 + of(&ids[1]), "{requests:?}");
}
