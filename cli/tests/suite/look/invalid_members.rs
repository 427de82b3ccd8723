//! Events of which something cannot be read: faults 28 and 32 to 34 of `tests/field-faults.md`.

use serde_json::{Value, json};

use crate::support::{
    FakeService, Folder, PREPARE_ALL, Run, VM, command, freeze, helper, lines, run, run_with_input,
    with,
};

/// What `check` decides about the events of a document, under a policy that prepares for everything: action and reason.
fn decided(events: &Value) -> Vec<(String, String)> {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let arguments = ["check", "--json", "--vm-name", VM, "--policy", &policy];
    let body = json!({ "Events": events }).to_string();
    let finished = run_with_input(&arguments, body.as_bytes()).with_code(0);
    let decisions = finished.of_kind("decision");
    let word = |decision: &Value, member: &str| decision[member].as_str().unwrap_or("").to_owned();
    decisions
        .iter()
        .map(|decision| (word(decision, "action"), word(decision, "reason")))
        .collect()
}

fn without(member: &str) -> Value {
    let mut event = freeze("a");
    event.as_object_mut().expect("an object").remove(member);
    event
}

#[test]
fn fault_28_what_cannot_be_read_is_prepared_for_and_the_reason_names_it() {
    for (event, reason) in [
        (
            with(freeze("a"), &json!({"DurationInSeconds": "unknown"})),
            "unreadable DurationInSeconds",
        ),
        (
            with(freeze("a"), &json!({"DurationInSeconds": {"s": 1}})),
            "unreadable DurationInSeconds",
        ),
        (
            with(freeze("a"), &json!({"EventSource": 1})),
            "unreadable EventSource",
        ),
        (
            with(freeze("a"), &json!({"EventStatus": 7})),
            "unreadable EventStatus",
        ),
        (
            with(freeze("a"), &json!({"EventType": []})),
            "unreadable EventType",
        ),
        (
            with(freeze("a"), &json!({"Resources": [VM, 7]})),
            "unreadable Resources",
        ),
        (without("EventStatus"), "no EventStatus"),
        (without("EventType"), "no EventType"),
    ] {
        assert_eq!(
            decided(&json!([event])),
            [("prepare".into(), reason.into())],
            "{event}"
        );
    }
}

#[test]
fn fault_28_the_machine_is_drained_and_nothing_is_approved() {
    let folder = Folder::new();
    let (policy, log) = (folder.file("policy.toml", PREPARE_ALL), folder.path("log"));
    let prepare = helper(&[format!("append {log} prepare $EVENT_ID")]);
    let service = FakeService::start();
    let preempt = json!({ "EventType": "Preempt", "DurationInSeconds": "unknown" });
    service.show(2, &[with(freeze("a"), &preempt)]);
    let arguments = ["--policy", &policy, "--prepare", &prepare, "--until-idle"];
    let mut run = Run::watch(&service.url(), &arguments);
    run.record("the preparation", |record| record["outcome"] == "ready");
    service.await_polls(3);
    assert!(service.posted().is_empty());
    service.show(3, &[]);
    run.finish().with_code(0);
    assert_eq!(lines(&log), ["prepare a"]);
}

#[test]
fn fault_32_an_own_event_that_repeats_an_id_is_listed_decided_about_and_waited_for() {
    let other = with(freeze("d-1"), &json!({ "Resources": ["WestNO_9"] }));
    let own = with(freeze("D-1"), &json!({ "EventType": "Preempt" }));
    let events = json!([other, own]);
    assert_eq!(
        decided(&events),
        [("prepare".into(), "unreadable EventId".into())]
    );
    let service = FakeService::start();
    service.show(2, &[other, own]);
    let url = service.url();
    let listed = run(&["list", "--json", "--endpoint", &url, "--vm-name", VM]).with_code(0);
    let shown = &listed.of_kind("event")[0];
    assert_eq!(
        (&shown["event_type"], &shown["mine"]),
        (&json!("Preempt"), &json!(true))
    );
    assert_eq!(listed.of_kind("problem")[0]["kind"], "repeated");
    // Also while the name has to be asked for.
    let words = ["wait", "--mine", "--type", "Preempt", "--endpoint", &url];
    let waiting = Run::start(command(&words));
    let finished = waiting.finish().with_code(0);
    assert!(finished.stdout.contains("Preempt"), "{}", finished.stdout);
}

#[test]
fn fault_33_a_repeated_name_is_one_machine() {
    let twice = with(
        freeze("a"),
        &json!({ "Resources": [VM, VM.to_uppercase()] }),
    );
    assert_eq!(
        decided(&json!([twice])),
        [("prepare".into(), "a rule matches".into())]
    );
}

#[test]
fn fault_34_an_event_that_names_no_machine_is_not_another_machines() {
    let mut event = without("Resources");
    event["ResourceName"] = json!([VM]);
    assert_eq!(
        decided(&json!([event])),
        [("hold".into(), "no VM in Resources".into())]
    );
}
