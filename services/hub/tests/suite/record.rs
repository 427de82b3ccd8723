//! A message is news, and Resource Graph is the record: what somebody who may write to the queue can
//! not do, and what is asked for before an approval.

use std::fs;
use std::time::Duration;

use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::control::Control;
use crate::fixture::{Hub, SUBSCRIPTION, TestQueue, event_id, message, resource, row};

fn is_approved(record: &Value) -> bool {
    record["record"] == "approval" && record["status"] == 200
}

fn await_queries(control: &Control, more: usize) {
    let queries = || control.with(|world| world.queries.len());
    let before = queries();
    wait::until("more queries", || {
        (queries() >= before + more).then_some(())
    });
}

fn runs(hub: &Hub, name: &str) -> bool {
    hub.path("hooks").join(name).exists()
}

/// The row has the end soon after the message.
#[test]
fn a_message_ends_an_event_once_a_row_agrees() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    control.change(&queue, &machine, &id, "Scheduled", &["db"]);
    hub.await_record("the approval", is_approved);
    for status in ["Completed", "Canceled"] {
        queue.send(&message(&machine, &id, status, &["db"]));
    }
    await_queries(&control, 8);
    assert!(
        !runs(&hub, &format!("recover-db-{id}")),
        "eight answers of Resource Graph say that it is not over: {}",
        hub.read("log")
    );
    assert!(queue.length() > 0, "a restart must read it again");
    control.with(|world| world.rows = vec![row(&machine, &id, "Completed", &["db"])]);
    hub.await_hook(&format!("recover-db-{id}"));
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
}

/// Resource Graph may not keep what is over.
#[test]
fn a_message_ends_an_event_that_resource_graph_lacks_after_a_minute() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the approval", is_approved);
    queue.send(&message(&machine, &id, "Completed", &["db"]));
    std::thread::sleep(Duration::from_secs(40));
    assert!(!runs(&hub, &format!("recover-db-{id}")), "too early");
    hub.await_hook(&format!("recover-db-{id}"));
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
}

#[test]
fn a_message_about_an_end_hides_no_event_of_resource_graph() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    queue.send(&message(&machine, &id, "Completed", &["db"]));
    wait::until("the end of the message", || {
        (queue.length() == 0).then_some(())
    });
    control.with(|world| world.rows = vec![row(&machine, &id, "Scheduled", &["db"])]);
    hub.await_hook(&format!("prepare-db-{id}"));
    hub.await_record("the approval", is_approved);
}

/// Sent before the event's row, or while a machine prepares. `a_message_about_a_start_…` in
/// `dispatch/claims.rs` has what follows after ten minutes.
#[test]
fn a_message_about_a_start_forbids_no_preparation() {
    for is_first in [true, false] {
        let (control, queue) = (Control::start(), TestQueue::start());
        let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
        hub.prepare_with("until test -e $(dirname $0)/go; do sleep 0.05; done\n");
        let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
        let announce =
            || control.with(|world| world.rows = vec![row(&machine, &id, "Scheduled", &["db"])]);
        hub.start();
        control.await_query();
        if !is_first {
            announce();
            hub.await_record("its command", |record| record["outcome"] == "begun");
        }
        queue.send(&message(&machine, &id, "Started", &["db"]));
        // That about a known event stays for a restart.
        let await_message = |length| {
            wait::until("the message's end", || {
                (queue.length() == length).then_some(())
            });
        };
        if is_first {
            await_message(0);
        }
        announce();
        await_queries(&control, 8);
        fs::write(hub.path("go"), "").expect("written");
        hub.await_record("the end of its command", |record| {
            record["record"] == "prepare" && record["outcome"] == "ready"
        });
        wait::until("why it is not approved", || {
            hub.read("log")
                .contains("is not Scheduled any more, and no row of Resource Graph does")
                .then_some(())
        });
        assert_eq!(control.approvals_of(&id), 0, "its row may be late");
        assert_eq!(queue.length() == 0, is_first);
        let has_started = |record: &Value| record["change"].to_string().contains("started");
        assert!(!hub.records().iter().any(has_started));
        control.with(|world| world.rows = vec![row(&machine, &id, "Started", &["db"])]);
        hub.await_record("its start", |record| record["change"] == "started");
        await_message(0);
    }
}

#[test]
fn a_message_that_names_fewer_machines_approves_nothing_that_the_others_prepare_for() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = front_1 && exec sleep 1000\nexit 0\n");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.start();
    control.change(&queue, &set, &id, "Scheduled", &["front_0", "front_1"]);
    hub.await_record("the other machine", |record| {
        record["record"] == "prepare"
            && record["outcome"] == "begun"
            && record["resource_id"]
                .as_str()
                .is_some_and(|id| id.ends_with('1'))
    });
    for number in 0..5 {
        let mut forged = message(&set, &id, "Scheduled", &["front_0"]);
        forged["eventTime"] = json!(format!("2026-11-04T18:02:1{number}Z"));
        queue.send(&forged);
        await_queries(&control, 2);
    }
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(control.approvals_of(&id), 0, "{}", hub.read("log"));
    let cancelled = |record: &Value| record["outcome"] == "cancelled";
    assert!(
        !hub.records().iter().any(cancelled),
        "it must prepare still"
    );
}

/// Between the message and the approval, the event gets another machine, and no message says so.
#[test]
fn before_an_approval_the_row_of_the_event_counts() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.prepare_with(
        "test $SCHEDULED_EVENTS_MACHINE = front_1 && exec sleep 1000\n\
         until test -e $(dirname $0)/go; do sleep 0.05; done\n",
    );
    hub.start();
    control.await_query();
    queue.send(&message(&set, &id, "Scheduled", &["front_0"]));
    hub.await_record("its command", |record| record["outcome"] == "begun");
    control.with(|world| world.rows = vec![row(&set, &id, "Scheduled", &["front_0", "front_1"])]);
    fs::write(hub.path("go"), "").expect("written");
    hub.await_record("the other machine", |record| {
        record["record"] == "prepare"
            && record["resource_id"]
                .as_str()
                .is_some_and(|id| id.ends_with('1'))
    });
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(control.approvals_of(&id), 0, "the other one is not ready");
}

#[test]
fn an_event_without_a_row_is_approved_by_its_message_and_the_log_says_so() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let machine = resource("virtualMachines", "db");
    hub.start();
    control.await_query();
    for (number, why) in [(1, "has no row of it yet"), (2, "does not answer")] {
        if number == 2 {
            control.with(|world| world.queries_refused = Some(403));
        }
        queue.send(&message(&machine, &event_id(number), "Scheduled", &["db"]));
        hub.await_record("the approval", |record| {
            is_approved(record) && record["event_ids"][0] == event_id(number)
        });
        wait::until(why, || hub.read("log").contains(why).then_some(()));
    }
}

#[test]
fn an_event_whose_row_cannot_be_read_is_not_approved() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let mut deep = json!([]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let mut unreadable = row(&machine, &id, "Scheduled", &["db"]);
    unreadable["properties"]["Description"] = deep;
    hub.start();
    control.await_query();
    control.with(|world| world.rows = vec![unreadable]);
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    wait::until("the reason", || {
        hub.read("log")
            .contains("has a row that cannot be read")
            .then_some(())
    });
    assert_eq!(control.approvals_of(&id), 0);
}

/// Killed before its approval arrives; meanwhile the event gets another machine, and its row cannot be
/// read, or is missing.
#[test]
fn an_event_of_an_earlier_run_is_approved_only_with_its_row() {
    for is_missing in [true, false] {
        let (control, queue) = (Control::start(), TestQueue::start());
        let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
        let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
        hub.start();
        control.await_query();
        control.with(|world| world.approvals_refused = Some(503));
        queue.send(&message(&set, &id, "Scheduled", &["front_0"]));
        hub.await_record("a refusal", |record| record["status"] == 503);
        hub.kill();
        control.with(|world| {
            world.approvals_refused = None;
            if !is_missing {
                let mut row = row(&set, &id, "Scheduled", &["front_0", "front_1"]);
                row["id"] = json!("nowhere");
                world.rows = vec![row];
            }
        });
        hub.start();
        await_queries(&control, 3);
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!(control.approvals_of(&id), 0, "missing: {is_missing}");
        control.with(|world| world.rows = vec![row(&set, &id, "Scheduled", &["front_0"])]);
        hub.await_record("the approval", is_approved);
    }
}

/// Two machines of one group, and two groups with a machine of one name.
#[test]
fn events_with_one_id_of_two_resources_are_two_events() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    hub.prepare_with(
        "case $SCHEDULED_EVENTS_RESOURCE_ID in */other/*) exec sleep 1000;; esac\n\
         exec sh $(dirname $0)/hook prepare\n",
    );
    let (one, two) = (
        resource("virtualMachines", "db"),
        resource("virtualMachines", "web"),
    );
    let other = one.replace("/resourceGroups/web/", "/resourceGroups/other/");
    let id = event_id(1);
    hub.start();
    for (resource, name) in [(&one, "db"), (&two, "web"), (&other, "db")] {
        control.with(|world| {
            world.rows.push(row(resource, &id, "Scheduled", &[name]));
        });
        queue.send(&message(resource, &id, "Scheduled", &[name]));
    }
    hub.await_hook(&format!("prepare-db-{id}"));
    hub.await_hook(&format!("prepare-web-{id}"));
    let approvals = |group: &str| control.approvals_of(&format!("/resourcegroups/{group}/"));
    wait::until("both approvals", || (approvals("web") == 2).then_some(()));
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(
        approvals("other"),
        0,
        "its machine is not ready: {:?}",
        control.with(|world| world.approvals.clone())
    );
}

#[test]
fn an_event_of_a_machine_that_it_does_not_list_is_that_machines() {
    for resources in [None, Some(json!(null)), Some(json!([]))] {
        let (control, queue) = (Control::start(), TestQueue::start());
        let mut hub = Hub::new(&control.url(), Some(&queue), "");
        let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
        let mut message = message(&machine, &id, "Scheduled", &["db"]);
        let properties = message["data"]["resourceInfo"]["properties"]
            .as_object_mut()
            .expect("an object");
        match resources {
            Some(value) => properties.insert("Resources".into(), value),
            None => properties.remove("Resources"),
        };
        hub.start();
        queue.send(&message);
        hub.await_hook(&format!("prepare-db-{id}"));
        hub.await_record("the approval", is_approved);
    }
}

#[test]
fn a_machine_whose_subscription_is_not_configured_any_more_is_reported_and_left() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    control.await_query();
    control.with(|world| world.approvals_refused = Some(503));
    control.change(&queue, &machine, &id, "Scheduled", &["db"]);
    hub.await_record("a refusal", |record| record["status"] == 503);
    hub.kill();
    control.with(|world| world.approvals_refused = None);
    let config = hub.read("hub.toml");
    let other = SUBSCRIPTION.replace("00000000-", "00000001-");
    fs::write(
        hub.path("hub.toml"),
        config.replace(
            &format!("subscriptions = [\"{SUBSCRIPTION}\"]"),
            &format!("subscriptions = [\"{other}\"]"),
        ),
    )
    .expect("written");
    hub.start();
    wait::until("the report", || {
        hub.read("log")
            .contains("is out of service, but `subscriptions` does not have its subscription")
            .then_some(())
    });
    await_queries(&control, 3);
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(control.approvals_of(&id), 0);
    let status = wait::output(hub.command().arg("status"));
    assert!(String::from_utf8_lossy(&status.stdout).contains("db"));
    // It is followed again.
    hub.kill();
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    hub.await_record("the approval", is_approved);
}

#[test]
fn only_the_documented_answer_is_an_approval() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let answers = [
        json!({"error": {"message": "no code"}}),
        json!({"error": "a text"}),
        json!({"error": ["a list"]}),
        json!({"Error": {"code": "Conflict"}}),
        json!({"error": null, "value": "Successfully Approved"}),
        json!({"value": "Not approved"}),
        json!({"value": ["Successfully Approved"]}),
        json!("Successfully Approved"),
    ];
    for answer in answers {
        control.with(|world| world.refusals = vec![(200, "", answer.clone())]);
        let approve = hub
            .command()
            .args(["approve", "--yes", &machine, &id])
            .output()
            .expect("it runs");
        assert_eq!(approve.status.code(), Some(1), "{answer}: {approve:?}");
    }
    hub.start();
    await_queries(&control, 1);
    control.with(|world| {
        world
            .refusals
            .push((202, "", json!({"value": "Successfully Approved"})));
    });
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the approval", is_approved);
    assert_eq!(control.with(|world| world.approvals.len()), 1);
    assert!(hub.read("log").contains("this approves nothing"));
}

#[test]
fn an_event_of_another_resource_is_not_approved_by_hand() {
    let control = Control::start();
    let hub = Hub::new(&control.url(), None, "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    control.with(|world| {
        world.rows = vec![row(&machine, &id, "Scheduled", &["db"])];
    });
    let other = resource("virtualMachines", "web");
    for yes in [&[][..], &["--yes"]] {
        let approve = hub
            .command()
            .arg("approve")
            .args(yes)
            .args([&other, &id])
            .output()
            .expect("it runs");
        let why = String::from_utf8_lossy(&approve.stderr).into_owned();
        assert!(
            approve.status.code() == Some(1) && why.contains("virtualMachines/db"),
            "{why}"
        );
    }
    assert_eq!(control.approvals_of(&id), 0);
}
