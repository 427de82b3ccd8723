//! Machines whose own watcher acts: the hub only reports.

use std::fs;

use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::control::Control;
use crate::fixture::{Hub, SUBSCRIPTION, TestQueue, event_id, message, resource, row};

/// A resource with the agents' tag, as Resource Graph has it.
fn tagged(id: &str) -> Value {
    json!({"id": id, "tags": {"agent": "yes"}})
}

/// Waits until the tags were queried this many times from now on.
fn await_tags(control: &Control, times: usize) {
    let asked = || {
        control.with(|world| {
            world
                .queries
                .iter()
                .filter(|query| query.starts_with("resources"))
                .count()
        })
    };
    let before = asked();
    wait::until("queries for tags", || {
        (asked() >= before + times).then_some(())
    });
}

fn assert_nothing_was_done(hub: &Hub, control: &Control) {
    assert_eq!(
        fs::read_dir(hub.path("hooks")).expect("a folder").count(),
        0,
        "{}",
        hub.read("audit")
    );
    assert_eq!(control.with(|world| world.approvals.len()), 0);
}

#[test]
fn an_instance_of_a_scale_set_has_an_agent_by_its_name_or_by_the_tag_of_its_set() {
    for (agents, tag) in [
        ("machines = [\"front_*\"], tag = \"agent\"", false),
        ("tag = \"agent\"", true),
    ] {
        let control = Control::start();
        let set = resource("virtualMachineScaleSets", "front");
        control.with(|world| {
            world.rows = vec![row(&set, &event_id(1), "Scheduled", &["front_0"])];
            world.rows.extend(tag.then(|| tagged(&set)));
        });
        let mut hub = Hub::new(
            &control.url(),
            None,
            &format!("reconcile = \"1s\"\nagents = {{ {agents} }}"),
        );
        hub.start();
        hub.await_record("the event", |record| record["record"] == "change");
        await_tags(&control, 3);
        assert_nothing_was_done(&hub, &control);
    }
}

#[test]
fn nothing_is_done_before_the_tags_are_known() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let (machine, other) = (
        resource("virtualMachines", "db"),
        resource("virtualMachines", "web"),
    );
    control.with(|world| {
        world.rows = vec![tagged(&machine)];
        // An answer without tags is an error, and does not mean that there are none.
        world
            .refusals
            .push((200, "", json!({"data": [tagged(&machine), {"tags": {}}]})));
        world.refusals.push((503, "", json!({})));
    });
    let mut hub = Hub::new(&control.url(), Some(&queue), "agents = { tag = \"agent\" }");
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    queue.send(&message(&other, &event_id(2), "Scheduled", &["web"]));
    hub.start();
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.await_record("the other event", |record| {
        record["resource_id"] == machine.as_str()
    });
    assert!(
        !hub.path("hooks")
            .join(format!("prepare-db-{}", event_id(1)))
            .exists()
    );
    assert_eq!(control.with(|world| world.approvals.len()), 1);
}

#[test]
fn an_open_event_of_a_machine_whose_tag_is_removed_is_acted_upon() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    control.with(|world| world.rows = vec![tagged(&machine)]);
    let mut hub = Hub::new(
        &control.url(),
        Some(&queue),
        "reconcile = \"1s\"\nagents = { tag = \"agent\" }",
    );
    hub.start();
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the event", |record| record["record"] == "change");
    await_tags(&control, 2);
    assert_nothing_was_done(&hub, &control);
    // Resource Graph does not have the event yet.
    control.with(|world| world.rows.clear());
    hub.await_hook(&format!("prepare-db-{id}"));
}

/// An identity that may read events may not be allowed to read resources, or no longer.
#[test]
fn tags_that_cannot_be_read_any_more_hide_no_event() {
    let control = Control::start();
    let (machine, other, id) = (
        resource("virtualMachines", "db"),
        resource("virtualMachines", "web"),
        event_id(1),
    );
    control.with(|world| world.rows = vec![tagged(&machine)]);
    let mut hub = Hub::new(
        &control.url(),
        None,
        "reconcile = \"1s\"\nagents = { tag = \"agent\" }",
    );
    hub.start();
    await_tags(&control, 2);
    control.with(|world| {
        world.tags_refused = true;
        world.rows = vec![
            row(&machine, &event_id(2), "Scheduled", &["db"]),
            row(&other, &id, "Scheduled", &["web"]),
        ];
    });
    hub.await_hook(&format!("prepare-web-{id}"));
    wait::until("a warning", || {
        hub.read("log")
            .contains("cannot ask Resource Graph")
            .then_some(())
    });
    hub.await_record("the other event", |record| {
        record["resource_id"] == machine.as_str()
    });
    assert!(
        !hub.path("hooks")
            .join(format!("prepare-db-{}", event_id(2)))
            .exists(),
        "its watcher acts"
    );
}

/// Resource Graph leaves the rows of such a subscription out, and reports nothing.
#[test]
fn a_subscription_whose_rights_are_lost_keeps_its_agents() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let other = SUBSCRIPTION.replace("00000000-", "00000001-");
    let own = resource("virtualMachines", "web");
    let machine = resource("virtualMachines", "db").replace(SUBSCRIPTION, &other);
    control.with(|world| world.rows = vec![tagged(&machine), tagged(&own)]);
    let mut hub = Hub::new(
        &control.url(),
        Some(&queue),
        "reconcile = \"1s\"\nagents = { tag = \"agent\" }",
    );
    let one = format!("subscriptions = [\"{SUBSCRIPTION}\"]");
    let both = format!("subscriptions = [\"{SUBSCRIPTION}\", \"{other}\"]");
    let config = hub.read("hub.toml").replace(&one, &both);
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    await_tags(&control, 2);
    control.with(|world| world.without_rights = Some(other));
    await_tags(&control, 3);
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    hub.await_record("the event", |record| record["record"] == "decision");
    await_tags(&control, 5);
    assert_nothing_was_done(&hub, &control);
}
