//! Events that stop the worker, and those that do not.

use std::time::{Duration, Instant};

use scheduled_events_replay::Scenario;
use serde_json::json;

use super::{Fixture, preempt};
use crate::support::{
    FakeService, WHILE_TEST_RUNS, eventually, freeze, in_future, play_at, started, together, with,
};

/// The built-in scenarios, from the announcement to the end of the event.
#[test]
fn in_each_scenario_the_worker_is_stopped_or_not_and_runs_in_the_end() {
    let stops = ["start", "end", "start"];
    let rows: [(&str, &[&str], &[&str]); 8] = [
        ("preempt", &[], &stops),
        ("terminate", &[], &stops),
        ("redeploy", &[], &stops),
        ("user-reboot", &[], &stops),
        ("live-migration", &[], &["start"]),
        ("cancelled", &[], &["start"]),
        ("cancelled", &["--stop-on", "Freeze"], &stops),
        ("preempt", &["--stop-on", "terminate,reboot"], &["start"]),
    ];
    together(rows, |(scenario, options, expected)| {
        let text = Scenario::builtin_source(scenario).expect("a scenario");
        // An eviction is over in a minute, and must not fall between two polls of a busy machine.
        let speed = if scenario == "preempt" { 4.0 } else { 60.0 };
        let (fixture, server) = (Fixture::new(), play_at(speed, text, &[]));
        let run = fixture.run(
            &server.url(),
            &[options, &["--approve", "--grace", "30s"]].concat(),
            &fixture.worker(),
        );
        eventually("the end of the event", || server.finished().then_some(()));
        let polls = server.requests().len();
        eventually("a poll after the event", || {
            (server.requests().len() >= polls + 3).then_some(())
        });
        fixture.await_lines(
            "start",
            expected.iter().filter(|word| **word == "start").count(),
        );
        assert_eq!(fixture.lines(), expected, "{scenario} {options:?}");
        run.terminate();
        assert_eq!(run.finish().with_code(0).stdout, "");
    });
}

#[test]
fn an_event_stops_the_worker_after_a_last_checkpoint_and_its_end_starts_it_again_through_resume_and_warm_up()
 {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let (warmup, checkpoint) = (
        fixture.logging("warm-up"),
        fixture.logging("\"$SCHEDULED_EVENTS_PHASE $SCHEDULED_EVENTS_EVENT_TYPE\""),
    );
    let resume = fixture.logging("resume");
    let options = [
        "--warmup",
        &warmup,
        "--checkpoint",
        &checkpoint,
        "--resume",
        &resume,
        "--grace",
        "30s",
    ];
    let run = fixture.run(&service.url(), &options, &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    fixture.await_lines("end", 1);
    // Nothing starts while the event is open, and without --approve nothing is approved.
    service.await_polls(5);
    assert_eq!(
        fixture.lines(),
        ["warm-up", "start", "checkpoint Preempt", "end"]
    );
    service.show(3, &[with(started("a"), &json!({ "EventType": "Preempt" }))]);
    service.await_polls(5);
    assert_eq!(fixture.lines().len(), 4);
    service.show(4, &[]);
    fixture.await_lines("start", 2);
    assert_eq!(fixture.lines()[4..], ["resume", "warm-up", "start"]);
    assert!(service.posted().is_empty());
    run.terminate();
    let finished = run.finish().with_code(0);
    assert!(
        finished
            .stderr
            .contains("Preempt is not approved: there is no --approve"),
        "{}",
        finished.stderr
    );
}

#[test]
fn checkpoints_are_made_regularly_while_the_worker_runs() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = fixture.logging("$SCHEDULED_EVENTS_WORKER_PID");
    let script = fixture
        .worker()
        .replace("echo start", "echo start; echo $$ > $LOG.pid; true");
    let run = fixture.run(
        &service.url(),
        &["--checkpoint", &checkpoint, "--every", "1s"],
        &script,
    );
    let pid = eventually("a process", || {
        crate::support::lines(&format!("{}.pid", fixture.log)).pop()
    });
    fixture.await_lines(&pid, 2);
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn an_event_that_is_cancelled_during_the_last_checkpoint_leaves_the_worker_running() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = format!(
        "sh -c 'echo saving >> {}; while {WHILE_TEST_RUNS}; do sleep 0.1; done'",
        fixture.log
    );
    let run = fixture.run(
        &service.url(),
        &["--checkpoint", &checkpoint],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    fixture.await_lines("saving", 1);
    service.show(3, &[]);
    run.wait_for_stderr("the event is over: the worker goes on");
    service.await_polls(3);
    assert_eq!(fixture.lines(), ["start", "saving"]);
    run.terminate();
    run.finish().with_code(0);
}

/// The checkpoint would take for ever; the event starts in eight seconds, and the grace is one
/// second.
#[test]
fn a_checkpoint_ends_two_seconds_and_the_grace_before_the_event() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = format!(
        "sh -c 'trap \"echo cut >> {log}; exit 0\" TERM; echo saving >> {log}; while {WHILE_TEST_RUNS}; do sleep 0.05; done'",
        log = fixture.log
    );
    let run = fixture.run(
        &service.url(),
        &["--checkpoint", &checkpoint, "--grace", "1s"],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    let event = with(
        preempt("a"),
        &json!({ "NotBefore": in_future(Duration::from_secs(8)) }),
    );
    let shown = Instant::now();
    service.show(2, &[event]);
    fixture.await_lines("saving", 1);
    fixture.await_lines("cut", 1);
    // NotBefore has whole seconds, so it is up to one second earlier.
    assert!(
        shown.elapsed() >= Duration::from_secs(8 - 1 - 3),
        "cut after {:?}",
        shown.elapsed()
    );
    fixture.await_lines("end", 1);
    run.wait_for_stderr("the last checkpoint is not complete: stopping the worker, which has 1 s");
    run.wait_for_stderr("the worker has stopped");
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn the_policy_decides_in_place_of_stop_on() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let policy = fixture.folder.file(
        "policy.toml",
        "[[rule]]\nevent = [\"Freeze\"]\naction = \"prepare\"\n[[rule]]\nevent = [\"Preempt\"]\naction = \"approve\"\n",
    );
    let run = fixture.run(
        &service.url(),
        &["--policy", &policy, "--approve"],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    // Approved while the worker runs.
    service.show(2, &[preempt("a")]);
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    assert_eq!(fixture.lines(), ["start"]);
    service.show(3, &[freeze("b")]);
    fixture.await_lines("end", 1);
    eventually("an approval", || {
        (service.posted() == ["a", "b"]).then_some(())
    });
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn an_eviction_that_was_not_announced_stops_the_worker_at_once_and_another_event_does_not() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = fixture.logging("checkpoint");
    let run = fixture.run(
        &service.url(),
        &["--approve", "--checkpoint", &checkpoint],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    service.show(2, &[with(started("a"), &json!({ "EventType": "Reboot" }))]);
    run.wait_for_stderr("Reboot had started when it was first seen: the worker goes on");
    assert_eq!(fixture.lines(), ["start"]);
    service.show(3, &[with(started("b"), &json!({ "EventType": "Preempt" }))]);
    run.wait_for_stderr("Preempt has started: stopping the worker");
    fixture.await_lines("end", 1);
    service.await_polls(5);
    assert_eq!((fixture.lines().len(), service.posted()), (2, Vec::new()));
    service.show(4, &[]);
    fixture.await_lines("start", 2);
    assert_eq!(fixture.lines(), ["start", "end", "start"]);
    run.terminate();
    run.finish().with_code(0);
}

/// The machine is out of service for the announced event. The eviction begins before it or after
/// it, and ends before it, after it, or with it.
#[test]
fn an_eviction_that_was_not_announced_beside_an_announced_event_does_not_keep_the_worker_down() {
    let eviction = with(started("a"), &json!({ "EventType": "Preempt" }));
    let announced = preempt("b");
    let both = [eviction.clone(), announced.clone()];
    for (first, second) in [
        (0, Some(0)),
        (0, Some(1)),
        (0, None),
        (1, Some(0)),
        (1, Some(1)),
        (1, None),
    ] {
        let (fixture, service) = (Fixture::new(), FakeService::start());
        let run = fixture.run(&service.url(), &[], &fixture.worker());
        fixture.await_lines("start", 1);
        service.show(2, &both[first..=first]);
        fixture.await_lines("end", 1);
        service.show(3, &both);
        service.await_polls(3);
        if let Some(left) = second {
            service.show(4, &both[left..=left]);
            service.await_polls(3);
        }
        assert_eq!(fixture.lines(), ["start", "end"]);
        service.show(5, &[]);
        fixture.await_lines("start", 2);
        run.terminate();
        run.finish().with_code(0);
    }
}

#[test]
fn an_eviction_that_starts_before_the_rule_prepares_for_it_stops_the_worker() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let policy = fixture.folder.file(
        "policy.toml",
        "[[rule]]\naction = \"prepare\"\nprepare_before = \"1m\"\n",
    );
    let run = fixture.run(&service.url(), &["--policy", &policy], &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    service.await_polls(3);
    assert_eq!(fixture.lines(), ["start"]);
    service.show(3, &[with(started("a"), &json!({ "EventType": "Preempt" }))]);
    fixture.await_lines("end", 1);
    service.show(4, &[]);
    fixture.await_lines("start", 2);
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn another_machines_event_does_nothing() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    service.show(2, &[with(preempt("a"), &json!({ "Resources": ["other"] }))]);
    let run = fixture.run(&service.url(), &["--approve"], &fixture.worker());
    fixture.await_lines("start", 1);
    service.await_polls(5);
    assert_eq!(
        (fixture.lines(), service.posted()),
        (vec!["start".to_owned()], Vec::new())
    );
    run.terminate();
    run.finish().with_code(0);
}
