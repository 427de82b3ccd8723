//! The main job, by the real command: who is asked, what is told, what is approved, and when it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Folder, PATIENCE, Run, Stage, VM, assert_well_behaved, command, document, eventually, freeze, in_future,
};
use crate::support::{of_replay, play, started, with};

/// Half a second after the first poll a freeze appears; it starts soon after its approval, and lasts a while.
const FREEZE: &str = r#"
    about = "A freeze of five seconds, started by its approval."
    [[event]]
    event_type = "Freeze"
    description = "Host server is undergoing maintenance."
    duration_in_seconds = 5
    appears = "30s"
    notice = "1h"
    starts_after_approval = "18s"
    started_for = "2min"
"#;

/// An endpoint where nobody listens: the port is reserved for a service that nobody runs.
const NOWHERE: &str = "http://127.0.0.2:9";

#[test]
fn a_short_freeze_is_told_approved_once_and_followed_to_its_end_past_any_proxy() {
    let server = play(FREEZE, &[]);
    let url = server.url();
    let arguments =
        ["watch", "--json", "--endpoint", &url, "--policy", "sample", "--until-idle", "--interval", "200ms"];
    let mut watch = command(&arguments);
    for proxy in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        watch.env(proxy, NOWHERE);
    }
    let finished = Run::start(watch).finish().with_code(0);

    let requests = of_replay(&server.requests());
    assert_well_behaved(&requests);
    assert!(requests[0].is_name(), "the name is asked before the first poll: {requests:?}");
    assert!(requests[0].target.contains("format=text"));
    assert_eq!(requests.iter().filter(|request| request.is_name()).count(), 1);
    let posts: Vec<_> = requests.iter().filter(|request| request.is_post()).collect();
    assert_eq!(posts.len(), 1, "exactly one POST");
    assert_eq!(posts[0].header("Content-Type"), ["application/json"]);
    let id = posts[0].ids().remove(0);

    assert_eq!(finished.changes(&id), ["scheduled", "started", "completed"]);
    assert_eq!(finished.approved(), [id.as_str()]);
    let words: Vec<_> = finished.records().iter().map(|record| record["record"].as_str().unwrap().to_owned()).collect();
    assert_eq!(words, ["change", "decision", "approval", "change", "change"]);
    let records = finished.records();
    assert_eq!(records[0]["event_type"], "Freeze");
    assert_eq!(records[0]["event_status"], "Scheduled");
    assert_eq!(records[0]["mine"], true);
    assert_eq!(
        records[1],
        json!({"record": "decision", "event_id": id, "action": "approve", "rule": 2, "reason": "short interruption",
            "time": records[1]["time"]})
    );
    // The start that was announced stays known when the document blanks it.
    assert_eq!(records[3]["not_before"], records[0]["not_before"]);
    assert!(finished.stderr.contains(&format!("this machine is {VM}")), "{}", finished.stderr);
}

#[test]
fn a_server_slower_than_the_interval_does_not_keep_the_watch_from_ending() {
    // When an answer comes, the next poll is due already, so there is never a moment without anything to do.
    let server = play(FREEZE, &["slow-headers:0.4"]);
    let url = server.url();
    let mut arguments = vec!["watch", "--json", "--endpoint", &url, "--vm-name", VM, "--policy", "sample"];
    arguments.extend(["--until-idle", "--interval", "200ms"]);
    let finished = Run::start(command(&arguments)).finish().with_code(0);
    assert_eq!(finished.records().last().map(|record| record["change"].clone()), Some(json!("completed")));
}

#[test]
fn the_records_of_a_watch_are_spelt_as_documented() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--vm-name", VM, "--until-idle"]);
    run.record("an approval", |record| record["record"] == "approval");
    stage.show(3, &[]);
    let stdout = run.finish().with_code(0).stdout;
    let lines: Vec<_> = stdout.lines().collect();
    assert!(
        lines[0].starts_with(
            r#"{"record":"change","change":"scheduled","event_id":"a","event_type":"Freeze","event_status":"Scheduled","resource_type":"VirtualMachine","resources":["WestNO_0"],"not_before":"20"#
        ),
        "{stdout}"
    );
    assert!(lines[0].contains(r#","mine":true,"time":"20"#) && lines[0].ends_with("Z\"}"), "{stdout}");
    let decision =
        r#"{"record":"decision","event_id":"a","action":"approve","rule":2,"reason":"short interruption","time":"20"#;
    assert!(lines[1].starts_with(decision), "{stdout}");
    assert!(lines[2].starts_with(r#"{"record":"approval","event_ids":["a"],"status":200,"time":"20"#), "{stdout}");
    // Approved and gone before anybody saw it start: what became of it cannot be told.
    assert!(lines[3].starts_with(r#"{"record":"change","change":"ended","event_id":"a""#), "{stdout}");
    assert_eq!(lines.len(), 4, "{stdout}");
}

#[test]
fn while_the_name_is_unknown_everything_is_held_and_once_it_is_learnt_the_event_is_approved() {
    let stage = Stage::start();
    stage.set_name(None);
    stage.show(2, &[freeze("a")]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--until-idle"]);
    assert_eq!(run.change("scheduled", "a")["mine"], Value::Null);
    let held = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!((&held["action"], &held["reason"]), (&json!("hold"), &json!("VM name unknown")));
    stage.await_polls(3);
    assert!(stage.posted().is_empty());
    run.says("own name could not be asked");

    stage.set_name(Some(VM));
    let decided = run.record("another decision", |record| record["action"] == "approve");
    assert_eq!(decided["rule"], 2);
    run.record("an approval", |record| record["record"] == "approval");
    stage.show(3, &[started("a")]);
    run.change("started", "a");
    stage.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
    assert_eq!(stage.posted(), ["a"]);
    assert_well_behaved(&stage.requests());
}

#[test]
fn the_question_for_the_name_counts_among_the_five_requests_a_second() {
    let stage = Stage::start();
    let run = Run::watch(&stage.url(), &["--max-polls", "6"]);
    run.finish().with_code(0);
    let requests = stage.requests();
    let gap = requests[1].arrived.duration_since(requests[0].arrived);
    assert!(requests[0].is_name() && gap > Duration::from_millis(120), "the first poll follows after {gap:?}");
    assert_well_behaved(&requests);
}

#[test]
fn a_given_name_is_not_asked_for_and_compares_without_case() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--vm-name", "other", "--vm-name", "westno_0"]);
    run.record("an approval", |record| record["record"] == "approval");
    assert!(!stage.requests().iter().any(crate::support::Request::is_name));
}

#[test]
fn an_event_of_a_machine_whose_name_begins_with_ours_is_left_alone() {
    let stage = Stage::start();
    let names = ["WestNO_01", "WestNO_0a", "xWestNO_0", "WestNO_", "_WestNO_0", "WestNO_0 "];
    let others = |index: usize, name: &str| {
        let event = with(freeze(&format!("other-{index}")), &json!({ "Resources": [name], "EventSource": "User" }));
        with(event, &json!({ "EventType": "Terminate" }))
    };
    let mut events: Vec<_> = names.iter().enumerate().map(|(index, name)| others(index, name)).collect();
    events.push(freeze("own"));
    stage.show(2, &events);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample"]);
    run.record("an approval", |record| record["record"] == "approval");
    stage.await_polls(3);
    for (index, name) in names.iter().enumerate() {
        assert_eq!(run.change("scheduled", &format!("other-{index}"))["mine"], false, "{name:?}");
    }
    assert_eq!(stage.posted(), ["own"]);
}

#[test]
fn two_own_events_are_decided_each_for_itself_whichever_comes_first() {
    let stage = Stage::start();
    let days = Duration::from_secs(4 * 86_400);
    let far = with(freeze("far"), &json!({ "NotBefore": in_future(days), "DurationInSeconds": 30 }));
    let reboot =
        with(freeze("reboot"), &json!({ "EventType": "Reboot", "EventSource": "User", "DurationInSeconds": -1 }));
    stage.show(2, &[freeze("near"), reboot, far]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--until-idle"]);
    eventually("two approvals", || (stage.posted().len() == 2).then_some(()));
    stage.await_polls(2);
    let mut posted = stage.posted();
    posted.sort();
    assert_eq!(posted, ["near", "reboot"]);
    let far = run.record("a decision", |record| record["record"] == "decision" && record["event_id"] == "far");
    assert_eq!((&far["action"], &far["reason"]), (&json!("hold"), &json!("no rule matches")));

    // One of them ends; the others are none the worse.
    stage.show(3, &[started("near"), freeze("far")]);
    run.change("ended", "reboot");
    stage.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(finished.changes("near"), ["scheduled", "started", "completed"]);
    // Its NotBefore came closer, and its duration is known now: such a freeze is approved.
    assert_eq!(finished.changes("far")[..2], ["scheduled", "rescheduled"]);
}

#[test]
fn of_two_hundred_events_only_the_own_one_is_approved_and_every_one_is_told() {
    let stage = Stage::start();
    let event = |index: usize| {
        let name = format!("WestNO_{index}");
        with(
            freeze(&format!("event-{index}")),
            &json!({ "Resources": [name], "EventType": "Terminate", "EventSource": "User" }),
        )
    };
    // The own one stands last.
    let events: Vec<_> = (0..200).rev().map(event).collect();
    stage.show(2, &events);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--until-idle"]);
    run.record("an approval", |record| record["record"] == "approval");
    stage.await_polls(2);
    assert_eq!(stage.posted(), ["event-0"]);
    stage.show(3, &[]);
    let finished = run.finish().with_code(0);
    for index in 0..200 {
        let last = if index == 0 { "ended" } else { "cancelled" };
        assert_eq!(finished.changes(&format!("event-{index}")), ["scheduled", last]);
    }
}

#[test]
fn two_hundred_own_events_are_approved_once_each_in_few_requests() {
    let stage = Stage::start();
    let events: Vec<_> = (0..200).map(|index| freeze(&format!("D5F7C1B2-0000-4000-8000-{index:012}"))).collect();
    stage.show(2, &events);
    let run = Run::watch(&stage.url(), &["--policy", "sample", "--vm-name", VM, "--until-idle"]);
    eventually("all approvals", || (stage.posted().len() >= 200).then_some(()));
    stage.await_polls(2);
    let mut posted = stage.posted();
    posted.sort();
    posted.dedup();
    assert_eq!((posted.len(), stage.posted().len()), (200, 200));
    assert_well_behaved(&stage.requests());
    stage.show(3, &[]);
    assert_eq!(run.finish().with_code(0).approved().len(), 200);
}

#[test]
fn among_a_thousand_machines_the_leader_approves_and_with_everyone_each_does() {
    let folder = Folder::new();
    let mut names: Vec<_> = (1..1000).map(|index| format!("WestNO_{index}")).collect();
    names.push(VM.to_owned());
    let event = with(freeze("a"), &json!({ "Resources": names }));

    let stage = Stage::start();
    stage.show(2, std::slice::from_ref(&event));
    let mut run = Run::watch(&stage.url(), &["--policy", "sample"]);
    let held = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!((&held["action"], &held["reason"]), (&json!("hold"), &json!("another VM leads")));
    stage.await_polls(2);
    assert!(stage.posted().is_empty());

    let policy = folder.file("everyone.toml", "leader = \"everyone\"\n[[rule]]\naction = \"approve\"\n");
    let note = folder.path("event");
    let on = format!("scheduled=sh -c 'cat > {note}.part && mv {note}.part {note}'");
    let mut run = Run::watch(&stage.url(), &["--policy", &policy, "--on", &on]);
    run.record("an approval", |record| record["record"] == "approval");
    let told = eventually("a command", || std::fs::read_to_string(&note).ok());
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["resources"].as_array().map(Vec::len), Some(1000));
    assert_eq!(stage.posted(), ["a"]);
}

#[test]
fn a_silent_leader_is_replaced_when_the_policy_ranks_the_machines() {
    let folder = Folder::new();
    let policy = folder
        .file("rank.toml", "leader = { mode = \"rank\", take_over_after = \"1s\" }\n[[rule]]\naction = \"approve\"\n");
    let stage = Stage::start();
    stage.show(2, &[with(freeze("a"), &json!({ "Resources": ["silent", VM] }))]);
    let mut run = Run::watch(&stage.url(), &["--policy", &policy]);
    run.record("an approval", |record| record["record"] == "approval");
    let requests = stage.requests();
    let seen = requests.iter().find(|request| request.is_get()).expect("a poll").arrived;
    let approved = requests.iter().find(|request| request.is_post()).expect("a POST").arrived;
    assert!(approved.duration_since(seen) > Duration::from_millis(900), "its turn was not awaited");
}

#[test]
fn a_dry_run_decides_and_neither_prepares_nor_approves() {
    let folder = Folder::new();
    let policy = folder.file("prepare.toml", crate::support::PREPARE_ALL);
    let ran = folder.path("ran");
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    for policy in [policy.as_str(), "sample"] {
        let prepare = format!("touch {ran}");
        let arguments =
            ["--policy", policy, "--dry-run", "--max-polls", "5", "--prepare", &prepare, "--recover", &prepare];
        let finished = Run::watch(&stage.url(), &arguments).finish().with_code(0);
        let decisions = finished.of_kind("decision");
        assert_eq!(decisions.len(), 1, "{decisions:?}");
        assert_eq!(decisions[0]["action"], if policy == "sample" { "approve" } else { "prepare" });
    }
    assert!(stage.posted().is_empty());
    assert!(!std::path::Path::new(&ran).exists());
}

#[test]
fn the_policy_observe_is_the_default_and_never_approves() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let finished = Run::watch(&stage.url(), &["--max-polls", "4"]).finish().with_code(0);
    assert_eq!(finished.of_kind("decision")[0]["reason"], "the policy only observes");
    assert!(stage.posted().is_empty());
}

#[test]
fn max_polls_ends_after_so_many_with_zero_or_with_one_where_none_was_answered() {
    let stage = Stage::start();
    Run::watch(&stage.url(), &["--max-polls", "3"]).finish().with_code(0);
    assert_eq!(stage.polls(), 3);

    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let finished = Run::watch(&stage.url(), &["--max-polls", "2", "--policy", "sample"]).finish().with_code(0);
    assert_eq!(finished.approved(), ["a"]);

    let stage = Stage::start();
    stage.intercept(|_| Some(crate::support::Reply::new(503, "", "busy")));
    let finished = Run::watch(&stage.url(), &["--max-polls", "2"]).finish().with_code(1);
    assert!(finished.stderr.contains("error: no poll of http://127.0.0.1:"), "{}", finished.stderr);
    assert_eq!(finished.of_kind("poll-failed").len(), 2);

    let finished = Run::watch(NOWHERE, &["--max-polls", "1", "--vm-name", VM]).finish().with_code(1);
    assert_eq!(finished.of_kind("poll-failed")[0]["cause"], "unreachable");
}

#[test]
fn polls_keep_their_interval() {
    let stage = Stage::start();
    let url = stage.url();
    let arguments = ["watch", "--json", "--endpoint", &url, "--interval", "600ms", "--max-polls", "4", "--vm-name", VM];
    Run::start(command(&arguments)).finish().with_code(0);
    let requests = stage.requests();
    let span = requests[3].arrived.duration_since(requests[0].arrived);
    assert!(span > Duration::from_millis(1500) && span < PATIENCE, "four polls within {span:?}");
}

#[test]
fn people_get_sentences_and_records_go_to_standard_output_only() {
    let stage = Stage::start();
    stage.show_body(&document(7, &[freeze("a")]));
    let url = stage.url();
    let arguments =
        ["watch", "--endpoint", &url, "--policy", "sample", "--max-polls", "6", "--interval", "200ms", "--vm-name", VM];
    let finished = Run::start(command(&arguments)).finish().with_code(0);
    for words in ["watching http://127.0.0.1:", "scheduled", "Freeze", "approve", "approved", "status 200"] {
        assert!(finished.stdout.contains(words), "{words}: {}", finished.stdout);
    }
    // No terminal, so no colours.
    assert!(!finished.stdout.contains('\u{1b}'), "{}", finished.stdout);
    assert_eq!(finished.stderr, "");
}

#[test]
fn an_event_that_is_over_by_a_word_of_other_servers_is_over() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a"), freeze("b")]);
    let mut run = Run::watch(&stage.url(), &["--until-idle"]);
    run.change("scheduled", "b");
    stage.show(3, &[with(freeze("a"), &json!({ "EventStatus": "Canceled" })), started("b")]);
    run.change("cancelled", "a");
    run.change("started", "b");
    stage.show(4, &[with(freeze("b"), &json!({ "EventStatus": "Completed" }))]);
    run.change("completed", "b");
    run.finish().with_code(0);
}

#[test]
fn the_first_api_version_spells_names_with_an_underscore() {
    let stage = Stage::start();
    stage.show(2, &[with(freeze("a"), &json!({ "Resources": ["_WestNO_0"] }))]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--api-version", "2017-03-01"]);
    run.record("an approval", |record| record["record"] == "approval");
    let events: Vec<_> = stage.requests().into_iter().filter(|request| !request.is_name()).collect();
    assert!(events.iter().all(|request| request.target.ends_with("?api-version=2017-03-01")), "{events:?}");
}
