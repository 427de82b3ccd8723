//! What Resource Graph may return: refusals, partial answers, and rows that nobody expects.

use std::fs;
use std::time::{Duration, Instant};

use scheduled_events_test_support::wait;
use serde_json::json;

use crate::control::{Control, LaterPages};
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

#[test]
fn a_refusal_is_logged_at_once() {
    let control = Control::start();
    control.with(|world| world.queries_refused = Some(503));
    for management in ["http://127.0.0.1:1", &control.url()] {
        let mut hub = Hub::new(management, None, "");
        let begin = Instant::now();
        hub.start();
        wait::until("a warning", || {
            hub.read("log")
                .contains("cannot ask Resource Graph")
                .then_some(())
        });
        // Five attempts take fifteen.
        assert!(
            begin.elapsed() < Duration::from_secs(14),
            "{:?}: {}",
            begin.elapsed(),
            hub.read("log")
        );
    }
}

#[test]
fn the_pages_before_one_that_does_not_come_count() {
    for later_pages in [LaterPages::Refused, LaterPages::Paused, LaterPages::Circle] {
        let control = Control::start();
        let mut hub = Hub::new(&control.url(), None, "");
        let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
        control.with(|world| {
            world.rows = vec![
                row(&machine, &id, "Scheduled", &["db"]),
                row(
                    &resource("virtualMachines", "web"),
                    &event_id(2),
                    "Scheduled",
                    &["web"],
                ),
            ];
            world.later_pages = Some(later_pages);
        });
        hub.start();
        hub.await_hook(&format!("prepare-db-{id}"));
        if matches!(later_pages, LaterPages::Circle) {
            wait::until("a warning", || {
                hub.read("log")
                    .contains("does not end its pages")
                    .then_some(())
            });
            let asked = control.with(|world| world.queries.len());
            assert!(asked < 20, "{asked} queries");
        }
    }
}

#[test]
fn a_name_that_no_machine_can_have_does_not_hide_the_other_machines_of_its_event() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    control.with(|world| world.rows = vec![row(&set, &id, "Scheduled", &["no name", "front_0"])]);
    hub.start();
    hub.await_hook(&format!("prepare-front_0-{id}"));
    hub.await_record("the gate", |record| {
        record["record"] == "gate" && record["outcome"] == "closed"
    });
    assert!(
        control.with(|world| world.approvals.is_empty()),
        "nobody knows whether the other one is ready"
    );
}

#[test]
fn an_event_that_names_no_machine_is_that_of_its_resource_or_set_aside() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "reconcile = \"1s\"");
    let (machine, set) = (
        resource("virtualMachines", "db"),
        resource("virtualMachineScaleSets", "front"),
    );
    let (first, second, third) = (event_id(1), event_id(2), event_id(3));
    let mut without = row(&machine, &second, "Scheduled", &[]);
    without["properties"]
        .as_object_mut()
        .expect("an object")
        .remove("Resources");
    control.with(|world| {
        world.rows = vec![
            row(&machine, &first, "Scheduled", &[]),
            without,
            row(&set, &third, "Scheduled", &[]),
        ];
    });
    queue.send(&message(
        "/subscriptions/x",
        &event_id(4),
        "Scheduled",
        &["db"],
    ));
    hub.start();
    for id in [&first, &second] {
        let record = hub.await_record("the event", |record| record["event_id"] == id.as_str());
        assert_eq!(
            (&record["change"], &record["resource_id"]),
            (&json!("scheduled"), &json!(machine))
        );
    }
    hub.await_record("the event of a set", |record| {
        let has = |member: &str, text: &str| {
            record[member]
                .as_str()
                .is_some_and(|found| found.contains(text))
        };
        record["record"] == "set-aside" && has("content", &third) && has("why", "names no machine")
    });
    hub.await_record("the message", |record| {
        record["record"] == "set-aside"
            && record["content"]
                .as_str()
                .is_some_and(|found| found.contains(&event_id(4)))
    });
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    let asked = || control.with(|world| world.queries.len());
    let before = asked();
    wait::until("more queries", || (asked() >= before + 3).then_some(()));
    assert_eq!(
        hub.read("log").matches("names no machine").count(),
        1,
        "{}",
        hub.read("log")
    );
    for id in [&third, &event_id(4)] {
        assert_eq!(control.approvals_of(id), 0);
    }
}

#[test]
fn a_place_that_no_variable_can_hold_is_left_out() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "");
    let ids = [event_id(1), event_id(2)];
    let of = |name: &str, id: &str, location: &str| {
        let mut row = row(&resource("virtualMachines", name), id, "Scheduled", &[name]);
        row["location"] = json!(location);
        row
    };
    control.with(|world| {
        world.rows = vec![
            of("zero", &ids[0], "west\0europe"),
            of("long", &ids[1], &"x".repeat(200_000)),
        ];
    });
    hub.start();
    hub.await_hook(&format!("prepare-zero-{}", ids[0]));
    hub.await_hook(&format!("prepare-long-{}", ids[1]));
}

/// Longer than a register can hold.
#[test]
fn an_event_with_a_long_text_is_followed_and_does_not_hold_up_others() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let long = |status: &str| {
        let mut row = row(&machine, &id, status, &["db"]);
        row["properties"]["Description"] = json!("\"".repeat(100_000));
        row
    };
    control.with(|world| world.rows = vec![long("Scheduled")]);
    hub.start();
    hub.await_hook(&format!("prepare-db-{id}"));
    let other = row(
        &resource("virtualMachines", "web"),
        &event_id(2),
        "Scheduled",
        &["web"],
    );
    control.with(|world| world.rows.push(other));
    hub.await_hook(&format!("prepare-web-{}", event_id(2)));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["event_ids"][0] == id.as_str()
    });
    hub.kill();
    control.with(|world| world.rows = vec![long("Completed")]);
    hub.start();
    hub.await_hook(&format!("recover-db-{id}"));
}

/// A machine of a scale set has an id with its number, and one with its name.
#[test]
fn a_machine_under_two_ids_is_one_machine() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (set, machine) = (
        resource("virtualMachineScaleSets", "front"),
        resource("virtualMachines", "FRONT_0"),
    );
    let (first, second) = (event_id(1), event_id(2));
    hub.start();
    queue.send(&message(&set, &first, "Scheduled", &["front_0"]));
    hub.await_hook(&format!("prepare-front_0-{first}"));
    queue.send(&message(&machine, &second, "Scheduled", &["FRONT_0"]));
    hub.await_record("the second preparation", |record| {
        record["record"] == "prepare"
            && record["outcome"] == "ready"
            && record["event_id"] == second.as_str()
    });
    control.change(&queue, &set, &first, "Completed", &["front_0"]);
    hub.await_record("the first end", |record| record["change"] == "completed");
    control.change(&queue, &machine, &second, "Completed", &["FRONT_0"]);
    let recovery = hub.await_record("the recovery", |record| record["record"] == "recover");
    assert_eq!(
        recovery["event_ids"].as_array().map(Vec::len),
        Some(2),
        "{recovery}: it was put back too early"
    );
}

/// There is no capacity for nine events, and the one that starts first takes the place of another
/// one.
#[test]
fn a_machine_whose_event_made_place_for_another_one_is_forgotten_in_the_end() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    fs::write(
        hub.path("policy.toml"),
        "[[rule]]\naction = \"hold\"\nscope = \"mine\"\n",
    )
    .expect("written");
    let machine = resource("virtualMachines", "db");
    let rows = |status: &str| -> Vec<_> {
        let mut rows: Vec<_> = (1..=9)
            .map(|number| row(&machine, &event_id(number), status, &["db"]))
            .collect();
        rows[8]["properties"]["NotBefore"] = json!("Mon, 20 Sep 2038 18:29:47 GMT");
        rows
    };
    control.with(|world| world.rows = rows("Scheduled"));
    hub.start();
    let has = |line: &str| hub.read("hub.prom").contains(line).then_some(());
    hub.await_record("the ninth event", |record| {
        record["event_id"] == event_id(9).as_str()
    });
    wait::until("all events", || has("hub_events 9\n"));
    control.with(|world| world.rows = rows("Completed"));
    wait::until("no machine", || has("hub_machines 0\n"));
}

/// An answer of Resource Graph may be older than the one before it.
#[test]
fn an_event_is_not_approved_without_a_machine_that_one_row_does_not_name() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"6s\"");
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = front_0 || exec sleep 1000\n");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    let show = |machines: &[&str]| {
        control.with(|world| world.rows = vec![row(&set, &id, "Scheduled", machines)]);
    };
    show(&["front_0", "front_1"]);
    hub.start();
    hub.await_record("the preparation", |record| {
        record["record"] == "prepare" && record["outcome"] == "ready"
    });
    let queries = || control.with(|world| world.queries.len());
    let before = queries();
    show(&["front_0"]);
    wait::until("a query", || (queries() > before).then_some(()));
    show(&["front_0", "front_1"]);
    hub.await_record("the row", |record| record["change"] == "updated");
    let before = queries();
    wait::until("two queries", || (queries() >= before + 2).then_some(()));
    assert!(
        control.with(|world| world.approvals.is_empty()),
        "the other machine is not ready"
    );
    // It is really no longer named.
    show(&["front_0"]);
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
}
