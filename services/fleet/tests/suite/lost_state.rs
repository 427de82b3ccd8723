//! A daemon finds slots of its own machine that it does not know: its disk is new, or its audit
//! file is gone.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_test_support::TestServer;
use serde_json::json;

use crate::fixture::{block_on, wait_for};
use crate::gate::{AskAnswer, Fleet, answers, event};

/// Imitates the metadata service: its document has these events.
fn documents(events: Arc<Mutex<Vec<&'static str>>>) -> TestServer {
    let event = |id: &&str| json!({ "EventId": id, "EventType": "Reboot", "EventStatus": "Started", "Resources": ["web_1"] });
    answers(move || {
        let events: Vec<_> = events
            .lock()
            .expect("the events")
            .iter()
            .map(event)
            .collect();
        json!({ "DocumentIncarnation": 1, "Events": events }).to_string()
    })
}

#[test]
fn a_slot_that_nobody_knows_of_is_given_back_only_if_the_machines_own_document_does_not_have_the_event()
 {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 3\n");
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let claim = json!({ "slots": ["web_1", "web_2"], "by": ["web_1"], "at": 1 });
    let group = json!({ "format": 1, "limit": 3, "claims": { "OPEN": claim, "gone": claim } })
        .to_string()
        .to_lowercase();
    block_on(engine.swap("groups/web", None, &group)).expect("written");
    let events = Arc::new(Mutex::new(vec!["OPEN", "GONE"]));
    let metadata = documents(events.clone());
    let lines = "heartbeat = \"200ms\"\nreturn_within = \"2s\"";
    let gate = fleet.start_at("web_1", &metadata.url(), lines);
    let slots = |id: &str| {
        let group = block_on(engine.read("groups/web"))
            .expect("read")
            .expect("the group")
            .value;
        let group: serde_json::Value = serde_json::from_str(&group).expect("a group");
        group["claims"][id]["slots"].clone()
    };
    let both = json!(["web_1", "web_2"]);
    let stays = |why: &str| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(4) {
            assert_eq!(
                (slots("open"), slots("gone")),
                (both.clone(), both.clone()),
                "{why}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    // There is no watcher that could be in service.
    events.lock().expect("the events").pop();
    stays("no watcher runs");
    // The machine was out of service when its records ended.
    gate.record(json!({ "record": "prepare", "event_id": "other", "outcome": "begun" }));
    stays("the watcher is out of service");
    events.lock().expect("the events").push("GONE");
    gate.record(json!({ "record": "recover", "event_id": "other", "event_ids": ["other"], "outcome": "done" }));
    stays("both events are there");
    events.lock().expect("the events").pop();
    wait_for("a slot that is given back", || {
        (slots("gone") == json!(["web_2"])).then_some(())
    });
    assert_eq!(slots("open"), both, "its event is there");
    // It is logged after it was written.
    let log = || std::fs::read_to_string(gate.folder.join("log")).expect("the log");
    for line in [
        "gone is over although no record says so",
        "freed web_1 of gone in the group web",
    ] {
        wait_for(line, || log().contains(line).then_some(()));
    }
}

/// The audit file is lost, and its watcher, which has its state, takes long to read its first
/// document, and to recover.
#[test]
fn a_new_audit_file_without_records_is_no_sign_that_the_machine_is_back() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 1\n");
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let claims = json!({ "e": { "slots": ["web_1"], "by": ["web_1"], "at": 1 } });
    let group = json!({ "format": 1, "limit": 1, "claims": claims }).to_string();
    block_on(engine.swap("groups/web", None, &group)).expect("written");
    let metadata = documents(Arc::default());
    let lines = "heartbeat = \"200ms\"\nreturn_within = \"60s\"";
    let gate = fleet.start_at("web_1", &metadata.url(), lines);
    let holds = || {
        let found = block_on(engine.read("groups/web")).expect("read");
        found.expect("the group").value.contains("web_1")
    };
    let stays = |seconds: u64, why: &str| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            assert!(holds(), "{why}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    stays(1, "there is no file");
    std::fs::write(gate.folder.join("audit"), "").expect("written");
    stays(8, "the watcher has not read a document");
    gate.record(
        json!({ "record": "change", "change": "completed", "event_id": "e", "mine": true }),
    );
    stays(6, "it recovers");
    gate.recovered("e");
    wait_for("a free place", || (!holds()).then_some(()));
}

/// The watcher did not run, or its polls failed, while another machine took places for the event's
/// machines. Or the event was asked about, and no longer names this machine, or nobody recorded its
/// end.
#[test]
fn a_slot_of_an_event_that_ended_or_lost_this_machine_unseen_is_given_back_by_a_daemon_that_was_idle()
 {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 3\n");
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let of = |id: &str, machines: &[&str]| json!({ "EventId": id, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": machines });
    let both = ["web_1", "web_2"];
    let events = Arc::new(Mutex::new(vec![
        of("open", &both),
        of("grown", &["web_2"]),
        of("asked", &both),
    ]));
    let shown = events.clone();
    let metadata = answers(move || {
        let events = shown.lock().expect("the events");
        json!({ "DocumentIncarnation": 1, "Events": *events }).to_string()
    });
    let lines = "heartbeat = \"200ms\"\nreturn_within = \"2s\"\nsilent_after = \"1s\"";
    let gate = fleet.start_at("web_1", &metadata.url(), lines);
    gate.record(
        json!({ "record": "change", "change": "completed", "event_id": "other", "mine": false }),
    );
    // Its reads of the groups at the start are over.
    std::thread::sleep(Duration::from_secs(3));
    let claims = ["open", "grown", "gone"].map(|id| {
        let slots: &[&str] = &both;
        (
            id.to_owned(),
            json!({ "slots": slots, "by": ["web_2"], "at": 1 }),
        )
    });
    let group = json!({ "format": 1, "limit": 3, "claims": serde_json::Map::from_iter(claims) });
    let slots = |id: &str| {
        let found = block_on(engine.read("groups/web")).expect("read");
        let group = found.expect("the group").value;
        let group: serde_json::Value = serde_json::from_str(&group).expect("a group");
        group["claims"][id]["slots"].clone()
    };
    let revision = block_on(engine.read("groups/web"))
        .expect("read")
        .map(|found| found.revision);
    block_on(engine.swap("groups/web", revision.as_ref(), &group.to_string())).expect("written");
    for id in ["gone", "grown"] {
        wait_for(id, || (slots(id) == json!(["web_2"])).then_some(()));
    }
    assert_eq!(slots("open"), json!(both), "its event is there");
    // The watcher ends after it has asked.
    let asked = event("asked", "Reboot", &both);
    assert_eq!(gate.ask("prepare", &asked), AskAnswer::Yes);
    events
        .lock()
        .expect("the events")
        .retain(|event| event["EventId"] != "asked");
    wait_for("the place of an event that was asked about", || {
        (slots("asked") == json!(["web_2"])).then_some(())
    });
    assert_eq!(slots("open"), json!(both), "its event is still there");
}

/// Nobody recorded the end of an event that holds no place.
#[test]
fn an_event_that_ended_unseen_is_not_open_any_more() {
    let fleet = Fleet::new("");
    let events = Arc::new(Mutex::new(vec!["open", "gone"]));
    let metadata = documents(events.clone());
    let metrics = fleet.path().join("metrics");
    let lines = format!(
        "heartbeat = \"200ms\"\nreturn_within = \"2s\"\nsilent_after = \"1s\"\nmetrics_file = {metrics:?}"
    );
    let gate = fleet.start_at("web_1", &metadata.url(), &lines);
    gate.record(
        json!({ "record": "change", "change": "completed", "event_id": "other", "mine": false }),
    );
    for id in ["open", "gone"] {
        let event = event(id, "Reboot", &["web_1"]);
        assert_eq!(gate.ask("prepare", &event), AskAnswer::Yes);
    }
    let has_open = |count: usize| {
        let text = std::fs::read_to_string(&metrics).unwrap_or_default();
        text.contains(&format!("\nscheduled_events_fleet_events {count}\n"))
    };
    wait_for("two open events", || has_open(2).then_some(()));
    events.lock().expect("the events").pop();
    wait_for("one open event", || has_open(1).then_some(()));
    let status = gate.status(&["--json"]);
    assert!(status.contains("\"event_id\":\"open\""), "{status}");
    assert!(!status.contains("\"event_id\":\"gone\""), "{status}");
    // The watcher does not ask about it: it may wait for its start.
    std::thread::sleep(Duration::from_secs(6));
    assert!(has_open(1), "it is in the document");
}

/// The machine was out of service when its audit file was lost, or nobody prepared it before the
/// event started and `--recover-all` runs the recovery all the same, which fails at first: the node
/// of a cluster is not ready yet. Or the watcher was killed while it prepared, and did not run when
/// the event ended.
#[test]
fn a_slot_without_the_record_of_a_complete_preparation_is_kept_until_the_machine_has_recovered() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 1\n");
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let histories: [(&str, &[&str]); 4] = [
        ("e1", &["started", "completed"]),
        ("e2", &["started-without-notice", "completed"]),
        ("e3", &["scheduled", "started", "completed"]),
        ("e4", &["scheduled", "begun", "ended"]),
    ];
    let claim = json!({ "slots": ["web_1"], "by": ["web_1"], "at": 1 });
    let claims = json!({ "e1": claim, "e2": claim, "e3": claim, "e4": claim });
    let group = json!({ "format": 1, "limit": 1, "claims": claims }).to_string();
    block_on(engine.swap("groups/web", None, &group)).expect("written");
    let gate = fleet.start("web_1", None);
    let held = || {
        let group = block_on(engine.read("groups/web"))
            .expect("read")
            .expect("the group")
            .value;
        histories
            .map(|(id, _)| id)
            .into_iter()
            .filter(|id| group.contains(id))
            .collect::<Vec<_>>()
    };
    let stays = |seconds: u64, why: &str| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            assert_eq!(held(), ["e1", "e2", "e3", "e4"], "{why}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let recovery = |outcome: &str| {
        gate.record(json!({
            "record": "recover", "event_id": "e1", "event_ids": ["e1", "e2", "e3", "e4"], "outcome": outcome, "mine": true
        }));
    };
    for (id, changes) in histories {
        for change in changes {
            gate.record(match *change {
                "begun" => {
                    json!({ "record": "prepare", "outcome": "begun", "event_id": id, "mine": true })
                }
                change => {
                    json!({ "record": "change", "change": change, "event_id": id, "mine": true })
                }
            });
        }
    }
    // Longer than the record of a preparation takes.
    stays(12, "it may recover still");
    recovery("failed");
    stays(3, "its recovery has failed");
    recovery("done");
    wait_for("slots that are given back", || {
        held().is_empty().then_some(())
    });
}
