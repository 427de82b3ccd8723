//! `watch`: its requests, reports and approvals, and when it ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    FakeService, Folder, PATIENCE, PREPARE_ALL, Request, Run, VM, assert_well_behaved, command,
    document, eventually, freeze, in_future,
};
use crate::support::{about_event_of, of_replay, play, started, with};

/// At sixty times the speed: a freeze appears after half a second, starts soon after its approval,
/// and lasts ten seconds.
const FREEZE: &str = r#"
    about = "A freeze of five seconds, started by its approval."
    [[event]]
    event_type = "Freeze"
    description = "Host server is undergoing maintenance."
    duration_in_seconds = 5
    appears = "30s"
    notice = "1h"
    starts_after_approval = "18s"
    started_for = "10min"
"#;

/// An endpoint without a listener: the port of the discard service, which no machine runs.
const NOWHERE: &str = "http://127.0.0.2:9";

#[test]
fn a_short_freeze_is_reported_approved_once_and_tracked_to_its_end_without_a_proxy() {
    let server = play(FREEZE, &[]);
    let url = server.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--policy",
        "sample",
        "--until-idle",
        "--interval",
        "200ms",
    ];
    let mut watch = command(&arguments);
    for proxy in [
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ] {
        watch.env(proxy, NOWHERE);
    }
    let finished = Run::start(watch).finish().with_code(0);

    let requests = of_replay(&server.requests());
    assert_well_behaved(&requests);
    assert!(
        requests[0].is_name(),
        "the name is requested before the first poll: {requests:?}"
    );
    assert!(requests[0].target.contains("format=text"));
    assert_eq!(
        requests.iter().filter(|request| request.is_name()).count(),
        1
    );
    let posts: Vec<_> = requests
        .iter()
        .filter(|request| request.is_post())
        .collect();
    assert_eq!(posts.len(), 1, "exactly one POST");
    assert_eq!(posts[0].header("Content-Type"), ["application/json"]);
    let id = posts[0].ids().remove(0);

    assert_eq!(finished.changes(&id), ["scheduled", "started", "completed"]);
    assert_eq!(finished.approved(), [id.as_str()]);
    let words: Vec<_> = finished
        .records()
        .iter()
        .map(|record| record["record"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        words,
        ["change", "decision", "approval", "change", "change"]
    );
    let records = finished.records();
    assert_eq!(records[0]["event_type"], "Freeze");
    assert_eq!(records[0]["event_status"], "Scheduled");
    // The approval has the members of the record `event`.
    let approved = records[2]["events"][0].as_object().unwrap().clone();
    assert!(
        approved.contains_key("resources") && !approved.contains_key("record"),
        "{approved:?}"
    );
    for (name, value) in approved {
        assert_eq!(value, records[0][&name], "{name}");
    }
    assert_eq!(records[0]["mine"], true);
    assert_eq!(
        records[1],
        about_event_of(
            &records[0],
            &json!({"record": "decision", "action": "approve", "rule": 2, "reason": "short interruption",
                "time": records[1]["time"]})
        )
    );
    // The announced start is kept when the document no longer has it.
    assert_eq!(records[3]["not_before"], records[0]["not_before"]);
    assert!(
        finished.stderr.contains(&format!("this machine is {VM}")),
        "{}",
        finished.stderr
    );
}

#[test]
fn until_idle_ends_with_a_server_that_is_slower_than_the_interval() {
    // The next poll is already due when a response arrives, so the session never waits.
    let server = play(FREEZE, &["slow-headers:0.4"]);
    let url = server.url();
    let mut arguments = vec![
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--policy",
        "sample",
    ];
    arguments.extend(["--until-idle", "--interval", "200ms"]);
    let finished = Run::start(command(&arguments)).finish().with_code(0);
    assert_eq!(
        finished
            .records()
            .last()
            .map(|record| record["change"].clone()),
        Some(json!("completed"))
    );
}

#[test]
fn records_are_written_as_documented() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = Run::watch(
        &service.url(),
        &["--policy", "sample", "--vm-name", VM, "--until-idle"],
    );
    run.record("an approval", |record| record["record"] == "approval");
    service.show(3, &[]);
    let stdout = run.finish().with_code(0).stdout;
    let lines: Vec<_> = stdout.lines().collect();
    assert!(
        lines[0].starts_with(
            r#"{"record":"change","change":"scheduled","event_id":"a","event_type":"Freeze","event_status":"Scheduled","resource_type":"VirtualMachine","resources":["WestNO_0"],"not_before":"20"#
        ),
        "{stdout}"
    );
    assert!(
        lines[0].contains(r#","mine":true,"time":"20"#)
            && lines[0].ends_with("Z\",\"machine\":\"WestNO_0\"}"),
        "{stdout}"
    );
    let decision = r#"{"record":"decision","event_id":"a","action":"approve","rule":2,"reason":"short interruption","event_type":"Freeze","event_status":"Scheduled","resource_type":"VirtualMachine","resources":["WestNO_0"],"not_before":"20"#;
    assert!(lines[1].starts_with(decision), "{stdout}");
    assert!(
        lines[2].starts_with(
            r#"{"record":"approval","event_ids":["a"],"status":200,"events":[{"event_id":"a","event_type":"Freeze","#
        ),
        "{stdout}"
    );
    assert!(
        lines[2].contains(r#","mine":true}],"time":"20"#),
        "{stdout}"
    );
    // Approved, and gone before it was seen started: whether it took place is unknown.
    assert!(
        lines[3].starts_with(r#"{"record":"change","change":"ended","event_id":"a""#),
        "{stdout}"
    );
    assert_eq!(lines.len(), 4, "{stdout}");
}

#[test]
fn events_are_held_until_the_name_is_known_and_approved_then() {
    let service = FakeService::start();
    service.set_name(None);
    service.show(2, &[freeze("a")]);
    let mut run = Run::watch(&service.url(), &["--policy", "sample", "--until-idle"]);
    assert_eq!(run.change("scheduled", "a")["mine"], Value::Null);
    let held = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!(
        (&held["action"], &held["reason"]),
        (&json!("hold"), &json!("VM name unknown"))
    );
    service.await_polls(3);
    assert!(service.posted().is_empty());
    run.wait_for_stderr("cannot determine this machine's own name");

    service.set_name(Some(VM));
    let decided = run.record("another decision", |record| record["action"] == "approve");
    assert_eq!(decided["rule"], 2);
    run.record("an approval", |record| record["record"] == "approval");
    service.show(3, &[started("a")]);
    run.change("started", "a");
    service.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
    assert_eq!(service.posted(), ["a"]);
    assert_well_behaved(&service.requests());
}

#[test]
fn the_request_for_the_name_counts_towards_the_request_rate() {
    let service = FakeService::start();
    let start = Instant::now();
    let run = Run::watch(&service.url(), &["--max-polls", "6"]);
    run.finish().with_code(0);
    // Seven requests 200 ms apart. A busy machine only makes it longer.
    let lasted = start.elapsed();
    let requests = service.requests();
    assert!(requests[0].is_name() && requests.len() == 7, "{requests:?}");
    assert!(
        lasted > Duration::from_millis(1150),
        "seven requests within {lasted:?}"
    );
    assert_well_behaved(&requests);
}

#[test]
fn a_given_name_is_not_requested_and_is_compared_without_case() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = Run::watch(
        &service.url(),
        &[
            "--policy",
            "sample",
            "--vm-name",
            "other",
            "--vm-name",
            "westno_0",
        ],
    );
    run.record("an approval", |record| record["record"] == "approval");
    assert!(!service.requests().iter().any(Request::is_name));
}

#[test]
fn events_of_machines_with_similar_names_are_not_approved() {
    let service = FakeService::start();
    let names = [
        "WestNO_01",
        "WestNO_0a",
        "xWestNO_0",
        "WestNO_",
        "_WestNO_0",
        "WestNO_0 ",
    ];
    let others = |index: usize, name: &str| {
        let event = with(
            freeze(&format!("other-{index}")),
            &json!({ "Resources": [name], "EventSource": "User" }),
        );
        with(event, &json!({ "EventType": "Terminate" }))
    };
    let mut events: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| others(index, name))
        .collect();
    events.push(freeze("own"));
    service.show(2, &events);
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    run.record("an approval", |record| record["record"] == "approval");
    service.await_polls(3);
    for (index, name) in names.iter().enumerate() {
        assert_eq!(
            run.change("scheduled", &format!("other-{index}"))["mine"],
            false,
            "{name:?}"
        );
    }
    assert_eq!(service.posted(), ["own"]);
}

#[test]
fn own_events_are_decided_independently() {
    let service = FakeService::start();
    let days = Duration::from_secs(4 * 86_400);
    let far = with(
        freeze("far"),
        &json!({ "NotBefore": in_future(days), "DurationInSeconds": 30 }),
    );
    let reboot = with(
        freeze("reboot"),
        &json!({ "EventType": "Reboot", "EventSource": "User", "DurationInSeconds": -1 }),
    );
    service.show(2, &[freeze("near"), reboot, far]);
    let mut run = Run::watch(&service.url(), &["--policy", "sample", "--until-idle"]);
    eventually("two approvals", || {
        (service.posted().len() == 2).then_some(())
    });
    service.await_polls(2);
    let mut posted = service.posted();
    posted.sort();
    assert_eq!(posted, ["near", "reboot"]);
    let far = run.record("a decision", |record| {
        record["record"] == "decision" && record["event_id"] == "far"
    });
    assert_eq!(
        (&far["action"], &far["reason"]),
        (&json!("hold"), &json!("no rule matches"))
    );

    // One of them ends, which does not affect the others.
    service.show(3, &[started("near"), freeze("far")]);
    run.change("ended", "reboot");
    service.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(
        finished.changes("near"),
        ["scheduled", "started", "completed"]
    );
    // Its NotBefore moved, and its duration is short now.
    assert_eq!(finished.changes("far")[..2], ["scheduled", "rescheduled"]);
}

#[test]
fn of_two_hundred_events_all_are_reported_and_only_the_own_one_is_approved() {
    let service = FakeService::start();
    let event = |index: usize| {
        let name = format!("WestNO_{index}");
        with(
            freeze(&format!("event-{index}")),
            &json!({ "Resources": [name], "EventType": "Terminate", "EventSource": "User" }),
        )
    };
    // The own event is the last one.
    let events: Vec<_> = (0..200).rev().map(event).collect();
    service.show(2, &events);
    let mut run = Run::watch(&service.url(), &["--policy", "sample", "--until-idle"]);
    run.record("an approval", |record| record["record"] == "approval");
    service.await_polls(2);
    assert_eq!(service.posted(), ["event-0"]);
    service.show(3, &[]);
    let finished = run.finish().with_code(0);
    for index in 0..200 {
        let last = if index == 0 { "ended" } else { "cancelled" };
        assert_eq!(
            finished.changes(&format!("event-{index}")),
            ["scheduled", last]
        );
    }
}

#[test]
fn two_hundred_own_events_are_each_approved_once() {
    let service = FakeService::start();
    let events: Vec<_> = (0..200)
        .map(|index| freeze(&format!("D5F7C1B2-0000-4000-8000-{index:012}")))
        .collect();
    service.show(2, &events);
    let run = Run::watch(
        &service.url(),
        &["--policy", "sample", "--vm-name", VM, "--until-idle"],
    );
    eventually("all approvals", || {
        (service.posted().len() >= 200).then_some(())
    });
    service.await_polls(2);
    let mut posted = service.posted();
    posted.sort();
    posted.dedup();
    assert_eq!((posted.len(), service.posted().len()), (200, 200));
    assert_well_behaved(&service.requests());
    service.show(3, &[]);
    assert_eq!(run.finish().with_code(0).approved().len(), 200);
}

#[test]
fn of_a_thousand_machines_only_the_leader_approves_unless_the_policy_lets_everyone() {
    let folder = Folder::new();
    let mut names: Vec<_> = (1..1000).map(|index| format!("WestNO_{index}")).collect();
    names.push(VM.to_owned());
    let event = with(freeze("a"), &json!({ "Resources": names }));

    let service = FakeService::start();
    service.show(2, std::slice::from_ref(&event));
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    let held = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!(
        (&held["action"], &held["reason"]),
        (&json!("hold"), &json!("another VM leads"))
    );
    service.await_polls(2);
    assert!(service.posted().is_empty());

    let policy = folder.file(
        "everyone.toml",
        "leader = \"everyone\"\n[[rule]]\naction = \"approve\"\n",
    );
    let note = folder.path("event");
    let on = format!(
        "scheduled={}",
        crate::support::helper(&[format!("input {note}")])
    );
    let mut run = Run::watch(&service.url(), &["--policy", &policy, "--on", &on]);
    run.record("an approval", |record| record["record"] == "approval");
    let input = eventually("the hook", || std::fs::read_to_string(&note).ok());
    let input: Value = serde_json::from_str(&input).expect("JSON");
    assert_eq!(input["resources"].as_array().map(Vec::len), Some(1000));
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn with_a_rank_policy_the_second_machine_approves_after_the_take_over_delay() {
    let folder = Folder::new();
    let policy = folder.file(
        "rank.toml",
        "leader = { mode = \"rank\", take_over_after = \"1s\" }\n[[rule]]\naction = \"approve\"\n",
    );
    let service = FakeService::start();
    service.show(
        2,
        &[with(freeze("a"), &json!({ "Resources": ["silent", VM] }))],
    );
    let mut run = Run::watch(&service.url(), &["--policy", &policy]);
    run.record("an approval", |record| record["record"] == "approval");
    let requests = service.requests();
    let seen = requests
        .iter()
        .find(|request| request.is_get())
        .expect("a poll")
        .arrived;
    let approved = requests
        .iter()
        .find(|request| request.is_post())
        .expect("a POST")
        .arrived;
    assert!(
        approved.duration_since(seen) > Duration::from_millis(900),
        "it approved before its turn"
    );
}

#[test]
fn a_dry_run_decides_but_neither_prepares_nor_approves() {
    let folder = Folder::new();
    let policy = folder.file("prepare.toml", crate::support::PREPARE_ALL);
    let ran = folder.path("ran");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    for policy in [policy.as_str(), "sample"] {
        let prepare = format!("touch {ran}");
        let arguments = [
            "--policy",
            policy,
            "--dry-run",
            "--max-polls",
            "5",
            "--prepare",
            &prepare,
            "--recover",
            &prepare,
        ];
        let finished = Run::watch(&service.url(), &arguments).finish().with_code(0);
        let decisions = finished.of_kind("decision");
        assert_eq!(decisions.len(), 1, "{decisions:?}");
        assert_eq!(
            decisions[0]["action"],
            if policy == "sample" {
                "approve"
            } else {
                "prepare"
            }
        );
    }
    assert!(service.posted().is_empty());
    assert!(!std::path::Path::new(&ran).exists());
}

#[test]
fn the_lines_of_a_dry_run_say_what_would_be_done() {
    let folder = Folder::new();
    let policy = folder.file("prepare.toml", crate::support::PREPARE_ALL);
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let url = service.url();
    for (policy, would) in [
        (policy.as_str(), "would prepare  Freeze"),
        ("sample", "would approve  Freeze"),
    ] {
        let arguments = [
            "watch",
            "--endpoint",
            &url,
            "--vm-name",
            VM,
            "--policy",
            policy,
            "--dry-run",
            "--max-polls",
            "3",
        ];
        let finished = Run::start(command(&arguments)).finish().with_code(0);
        let lines: Vec<_> = finished.stdout.lines().collect();
        assert!(
            lines[0].starts_with("dry run, which does nothing: watching http://"),
            "{lines:?}"
        );
        assert!(lines.iter().any(|line| line.contains(would)), "{lines:?}");
    }
}

#[test]
fn the_policy_observe_is_the_default_and_never_approves() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let finished = Run::watch(&service.url(), &["--max-polls", "4"])
        .finish()
        .with_code(0);
    assert_eq!(
        finished.of_kind("decision")[0]["reason"],
        "the policy only observes"
    );
    assert!(service.posted().is_empty());
}

#[test]
fn max_polls_exits_with_1_only_if_no_poll_was_answered() {
    let service = FakeService::start();
    Run::watch(&service.url(), &["--max-polls", "3"])
        .finish()
        .with_code(0);
    assert_eq!(service.polls(), 3);

    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let finished = Run::watch(&service.url(), &["--max-polls", "2", "--policy", "sample"])
        .finish()
        .with_code(0);
    assert_eq!(finished.approved(), ["a"]);

    let service = FakeService::start();
    service.intercept(|_| Some(crate::support::Reply::new(503, "", "busy")));
    let finished = Run::watch(&service.url(), &["--max-polls", "2"])
        .finish()
        .with_code(1);
    assert!(
        finished
            .stderr
            .contains("error: no poll of http://127.0.0.1:"),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.of_kind("poll-failed").len(), 2);

    let finished = Run::watch(NOWHERE, &["--max-polls", "1", "--vm-name", VM])
        .finish()
        .with_code(1);
    assert_eq!(finished.of_kind("poll-failed")[0]["cause"], "unreachable");
}

#[test]
fn polls_are_an_interval_apart() {
    let service = FakeService::start();
    let url = service.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "600ms",
        "--max-polls",
        "4",
        "--vm-name",
        VM,
    ];
    Run::start(command(&arguments)).finish().with_code(0);
    let requests = service.requests();
    let span = requests[3].arrived.duration_since(requests[0].arrived);
    assert!(
        span > Duration::from_millis(1500) && span < PATIENCE,
        "four polls within {span:?}"
    );
}

#[test]
fn readable_output_goes_to_standard_output_without_colours_for_a_pipe() {
    let service = FakeService::start();
    service.show_body(&document(7, &[freeze("a")]));
    let url = service.url();
    let arguments = [
        "watch",
        "--endpoint",
        &url,
        "--policy",
        "sample",
        "--max-polls",
        "6",
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    let finished = Run::start(command(&arguments)).finish().with_code(0);
    for words in [
        "watching http://127.0.0.1:",
        "scheduled",
        "Freeze",
        "approve",
        "approved",
        "status 200",
    ] {
        assert!(
            finished.stdout.contains(words),
            "{words}: {}",
            finished.stdout
        );
    }
    assert!(!finished.stdout.contains('\u{1b}'), "{}", finished.stdout);
    assert_eq!(finished.stderr, "");
}

#[test]
fn an_event_with_the_status_canceled_or_completed_has_ended() {
    let service = FakeService::start();
    service.show(2, &[freeze("a"), freeze("b")]);
    let mut run = Run::watch(&service.url(), &["--until-idle"]);
    run.change("scheduled", "b");
    service.show(
        3,
        &[
            with(freeze("a"), &json!({ "EventStatus": "Canceled" })),
            started("b"),
        ],
    );
    run.change("cancelled", "a");
    run.change("started", "b");
    service.show(
        4,
        &[with(freeze("b"), &json!({ "EventStatus": "Completed" }))],
    );
    run.change("completed", "b");
    run.finish().with_code(0);
}

#[test]
fn the_first_api_version_has_names_with_an_underscore() {
    let service = FakeService::start();
    service.show(
        2,
        &[with(freeze("a"), &json!({ "Resources": ["_WestNO_0"] }))],
    );
    let mut run = Run::watch(
        &service.url(),
        &["--policy", "sample", "--api-version", "2017-03-01"],
    );
    run.record("an approval", |record| record["record"] == "approval");
    let events: Vec<_> = service
        .requests()
        .into_iter()
        .filter(|request| !request.is_name())
        .collect();
    assert!(
        events
            .iter()
            .all(|request| request.target.ends_with("?api-version=2017-03-01")),
        "{events:?}"
    );
}

#[test]
fn an_id_has_one_case_in_all_records_requests_and_commands() {
    let service = FakeService::start();
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let ids = folder.path("ids");
    let log = crate::support::helper(&[format!("append {ids} $EVENT_ID")]);
    let state = folder.path("state");
    let arguments = [
        "--policy",
        &policy,
        "--prepare",
        &log,
        "--recover",
        &log,
        "--state",
        &state,
        "--vm-name",
        VM,
    ];
    let mut run = Run::watch(
        &service.url(),
        &[&arguments[..], &["--until-idle"]].concat(),
    );
    service.show(2, &[freeze("C7061bac-AFDC")]);
    run.change("scheduled", "C7061bac-AFDC");
    // The service compares ids without case, and may change their case.
    service.show(
        3,
        &[with(
            freeze("c7061BAC-afdc"),
            &json!({ "Description": "another" }),
        )],
    );
    run.record("an update", |record| record["change"] == "updated");
    crate::support::eventually("an approval", || service.posted().first().cloned());
    service.show(4, &[started("C7061BAC-AFDC")]);
    run.record("the start", |record| record["change"] == "started");
    service.show(5, &[]);
    let finished = run.finish().with_code(0);
    let of = |record: &Value| {
        record["event_id"]
            .as_str()
            .or(record["event_ids"][0].as_str())
            .map(str::to_owned)
    };
    let found: Vec<_> = finished.records().iter().filter_map(of).collect();
    assert!(
        found.len() >= 7 && found.iter().all(|id| id == "C7061bac-AFDC"),
        "{}",
        finished.stdout
    );
    assert_eq!(service.posted(), ["C7061bac-AFDC"]);
    assert_eq!(crate::support::lines(&ids), ["C7061bac-AFDC"; 2]);
}
