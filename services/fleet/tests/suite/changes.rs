//! Events that change while machines prepare, as machines see them whose documents are of different
//! times: real daemons on a shared folder.

use scheduled_events_gate::engine::Engine as _;
use scheduled_events_gate::engine::folder::FolderEngine;
use serde_json::{Value, json};

use crate::fixture::{block_on, wait_for};
use crate::gate::{AskAnswer, Fleet, Gate, event};
use crate::groups::not_yet;

const ALL: [&str; 3] = ["a", "b", "c"];

fn of(event_type: &str, machines: &[&str], seconds: u64) -> Value {
    let mut event = event("e", event_type, machines);
    event["duration_in_seconds"] = json!(seconds);
    event
}

/// The machine prepares, and asks for the approval once, which others still prevent.
fn is_ready(gate: &Gate, event: &Value) {
    gate.wait_for_yes("prepare", event);
    gate.prepared("e");
    not_yet(gate.ask("approve", event));
}

/// All of them are ready, and one of them decides.
fn is_approved(gates: &[&Gate], event: &Value) {
    let asks = |gate: &&Gate| gate.ask("approve", event) == AskAnswer::Yes;
    wait_for("the approval", || gates.iter().any(asks).then_some(()));
}

#[test]
fn a_machine_whose_document_is_late_approves_nothing_while_others_prepare_again() {
    let fleet = Fleet::new("");
    let [a, b, c] = ALL.map(|machine| fleet.start(machine, None));
    let (short, long) = (of("Reboot", &ALL, 5), of("Reboot", &ALL, 900));
    is_ready(&a, &short);
    is_ready(&b, &short);
    c.wait_for_yes("prepare", &short);
    for gate in [&a, &b] {
        gate.wait_for_yes("prepare", &long);
    }
    c.prepared("e");
    assert_eq!(not_yet(c.ask("approve", &short)), "not ready: a, b");
    // The other two are ready first, and wait for this one.
    for gate in [&a, &b] {
        gate.prepared("e");
        assert!(not_yet(gate.ask("approve", &long)).contains("not ready: "));
    }
    assert_eq!(not_yet(c.ask("approve", &short)), "not ready: a, b");
    c.wait_for_yes("prepare", &long);
    c.prepared("e");
    is_approved(&[&a, &b, &c], &long);
}

#[test]
fn marks_of_before_an_event_changed_and_changed_back_do_not_count() {
    let fleet = Fleet::new("");
    let [a, b, c] = ALL.map(|machine| fleet.start(machine, None));
    let (short, long) = (of("Reboot", &ALL, 5), of("Reboot", &ALL, 900));
    is_ready(&a, &short);
    is_ready(&b, &short);
    for gate in [&a, &b] {
        gate.wait_for_yes("prepare", &long);
    }
    // The third one has seen nothing of it, and what the other two began goes on.
    is_ready(&c, &short);
    assert_eq!(not_yet(c.ask("approve", &short)), "not ready: a, b");
    for gate in [&a, &b] {
        gate.prepared("e");
    }
    is_approved(&[&a, &b, &c], &short);
}

#[test]
fn a_decision_of_before_an_event_changed_and_changed_back_does_not_count() {
    let fleet = Fleet::new("");
    let [a, b] = ["a", "b"].map(|machine| fleet.start(machine, None));
    let [reboot, redeploy] = ["Reboot", "Redeploy"].map(|kind| of(kind, &["a", "b"], 5));
    is_ready(&a, &reboot);
    b.wait_for_yes("prepare", &reboot);
    b.prepared("e");
    // The other one counts as silent until its second heartbeat. The POST fails.
    b.wait_for_yes("approve", &reboot);
    let why = not_yet(a.ask("prepare", &redeploy));
    assert!(why.contains("somebody may still approve it"), "{why}");
    a.wait_for_yes("prepare", &redeploy);
    a.wait_for_yes("prepare", &reboot);
    assert_eq!(not_yet(b.ask("approve", &reboot)), "not ready: a");
    a.prepared("e");
    is_approved(&[&a, &b], &reboot);
}

#[test]
fn a_machine_that_joins_an_event_is_waited_for_by_those_that_do_not_see_it() {
    let fleet = Fleet::new("");
    let [a, b, c] = ALL.map(|machine| fleet.start(machine, None));
    let (two, three) = (of("Reboot", &["a", "b"], 5), of("Reboot", &ALL, 5));
    is_ready(&a, &two);
    b.wait_for_yes("prepare", &two);
    c.wait_for_yes("prepare", &three);
    b.prepared("e");
    let why = "documents differ: the event of other machines affects c, too";
    for gate in [&a, &b] {
        assert_eq!(not_yet(gate.ask("approve", &two)), why);
    }
    for gate in [&a, &b] {
        not_yet(gate.ask("approve", &three));
    }
    c.prepared("e");
    is_approved(&[&a, &b, &c], &three);
}

/// The fleet is updated machine by machine while an event is open. Machines with the earlier version
/// would decide with a mark that this one made before.
#[test]
fn a_machine_that_was_updated_leaves_no_mark_to_earlier_versions() {
    for is_decided in [false, true] {
        let fleet = Fleet::new("");
        let engine = FolderEngine::new(&fleet.path().join("registers"));
        let key = "events/e/00112233445566778899aabb";
        let ready = json!({ "mark": "ready", "at": 1 });
        let go = is_decided.then(|| json!({ "by": "b", "at": 1 }));
        let register = json!({
            "format": 1, "event_type": "Reboot", "duration": 5, "resources": ["a", "b"],
            "marks": { "a": ready, "b": ready }, "go": go,
        });
        block_on(engine.swap(key, None, &register.to_string())).expect("written");
        let a = fleet.start("a", None);
        let reboot = of("Reboot", &["a", "b"], 5);
        // What earlier versions have marked counts for nothing.
        assert_eq!(not_yet(a.ask("approve", &reboot)), "not ready: b");
        let found = block_on(engine.read(key))
            .expect("read")
            .expect("a register");
        let left: Value = serde_json::from_str(&found.value).expect("JSON");
        assert_eq!(left["format"], 1, "they can read it");
        assert_eq!(left["marks"]["a"]["mark"], "withdrawn");
        assert_eq!(left["go"], Value::Null);
        a.wait_for_yes("prepare", &reboot);
    }
}
