//! What `run` says about each event, and what it waits for.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Fixture, preempt};
use crate::support::{FakeService, eventually, freeze, in_future, started, together, with};

/// A minute more, for slow machines.
const WEEK: Duration = Duration::from_secs(7 * 86_400 + 60);

fn event(id: &str, event_type: &str, ahead: Duration) -> Value {
    with(
        freeze(id),
        &json!({ "EventType": event_type, "NotBefore": in_future(ahead) }),
    )
}

/// Advice, which has no `NotBefore`.
fn advice(id: &str) -> Value {
    with(
        freeze(id),
        &json!({
            "EventType": "SpotRebalanceRecommendation",
            "EventStatus": "Advisory",
            "NotBefore": "",
        }),
    )
}

#[test]
fn fault_36_a_worker_stopped_at_once_by_a_failure_that_is_predicted_for_next_week() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let run = fixture.run(&service.url(), &[], &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[event("a", "Redeploy", WEEK)]);
    run.wait_for_stderr("Redeploy is announced, in 7 d: the worker goes on until 38 s before that");
    service.await_polls(3);
    assert_eq!(fixture.lines(), ["start"]);
    service.show(3, &[event("a", "Redeploy", Duration::from_secs(30))]);
    run.wait_for_stderr("Redeploy: rescheduled, and may start in ");
    fixture.await_lines("end", 1);
    assert!(service.posted().is_empty());
    run.wait_for_stderr("the worker has stopped");
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn the_worker_goes_on_until_the_time_to_stop_it_unless_something_is_won_before() {
    let seconds = Duration::from_secs;
    let policy_folder = Fixture::new();
    let late = policy_folder.folder.file(
        "late.toml",
        "[[rule]]\naction = \"prepare\"\nprepare_before = \"20m\"\n",
    );
    let plain = policy_folder
        .folder
        .file("plain.toml", "[[rule]]\naction = \"prepare\"\n");
    let rows: [(&[&str], Duration, bool); 9] = [
        // A notice of less than two minutes.
        (&[], seconds(110), true),
        (&[], seconds(180), false),
        (&["--grace", "3min"], seconds(180), true),
        (&["--stop-before", "20s"], seconds(60), false),
        (&["--stop-before", "1h"], seconds(1800), true),
        (&["--approve"], WEEK, true),
        (&["--approve", "--stop-before", "1h"], WEEK, false),
        (&["--approve", "--policy", &late], WEEK, false),
        (&["--policy", &plain], WEEK, false),
    ];
    together(rows, |(options, ahead, stops)| {
        let (fixture, service) = (Fixture::new(), FakeService::start());
        let run = fixture.run(&service.url(), options, &fixture.worker());
        fixture.await_lines("start", 1);
        service.show(2, &[event("a", "Reboot", ahead)]);
        if stops {
            fixture.await_lines("end", 1);
        } else {
            run.wait_for_stderr("the worker goes on until");
            service.await_polls(3);
            assert_eq!(fixture.lines(), ["start"], "{options:?} {ahead:?}");
        }
        if stops && options.contains(&"--approve") {
            eventually("an approval", || (service.posted() == ["a"]).then_some(()));
        }
        run.terminate();
        run.finish();
    });
}

#[test]
fn the_worker_is_stopped_when_its_time_has_come() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let options = ["--stop-before", "6s", "--grace", "2s"];
    let run = fixture.run(&service.url(), &options, &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[event("a", "Reboot", Duration::from_secs(10))]);
    run.wait_for_stderr("the worker goes on until 6 s before");
    assert_eq!(fixture.lines(), ["start"]);
    run.wait_for_stderr("s: stopping the worker, which has 2 s to end");
    fixture.await_lines("end", 1);
    run.wait_for_stderr("the worker has stopped");
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn a_time_to_stop_that_is_shorter_than_the_grace_is_refused() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let run = fixture.run(&service.url(), &["--stop-before", "5s"], &fixture.worker());
    let finished = run.finish().with_code(2);
    assert!(
        finished
            .stderr
            .contains("--stop-before is shorter than --grace"),
        "{}",
        finished.stderr
    );
}

#[test]
fn fault_37_no_line_for_a_skipped_checkpoint_an_unknown_type_and_a_type_that_is_not_named() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = fixture.logging("checkpoint");
    let run = fixture.run(
        &service.url(),
        &["--checkpoint", &checkpoint],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    let minutes = |count: u64| Duration::from_secs(count * 60 + 30);
    service.show(
        2,
        &[
            event("a", "Freeze", minutes(10)),
            event("b", "Defrost", minutes(11)),
            with(
                event("c", "Freeze", minutes(12)),
                &json!({ "EventStatus": "Postponed" }),
            ),
        ],
    );
    let reason = "min: the worker goes on, since --stop-on does not name this type";
    for line in [
        &format!("Freeze is announced, in 10 {reason}"),
        &format!("Defrost is announced, in 11 {reason}"),
        "Freeze is announced, in 12 min: the worker goes on: not Scheduled",
    ] {
        eventually(line, || {
            let (before, after) = line.split_once(" min").expect("minutes");
            // The seconds depend on how fast the machine is.
            let has = |said: &str| said.contains(before) && said.ends_with(after);
            run.stderr().lines().any(has).then_some(())
        });
    }
    // A notice of six seconds has none for a checkpoint: the worker has eight to end.
    service.show(3, &[event("d", "Preempt", Duration::from_secs(6))]);
    run.wait_for_stderr("the last checkpoint is skipped, with ");
    fixture.await_lines("end", 1);
    assert_eq!(fixture.lines(), ["start", "end"]);
    run.wait_for_stderr("the worker has stopped");
    run.terminate();
    let text = run.finish().with_code(143).stderr;
    let skipped = text
        .lines()
        .find(|line| line.contains("is skipped"))
        .expect("a line");
    // NotBefore has whole seconds, and the worker has no more than them.
    let left = ["6 s", "5 s", "4 s", "3 s", "2 s", "1 s"]
        .into_iter()
        .find(|left| skipped.contains(&format!("with {left} left: stopping")))
        .expect("the time that is left");
    assert!(
        skipped.ends_with(&format!("which has {left} to end")),
        "{skipped}"
    );
}

#[test]
fn each_checkpoint_that_was_saved_has_a_line() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = fixture.logging("checkpoint");
    let run = fixture.run(
        &service.url(),
        &["--checkpoint", &checkpoint, "--every", "1s"],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    run.wait_for_stderr("note: saved a checkpoint\n");
    service.show(2, &[preempt("a")]);
    run.wait_for_stderr("note: saved a checkpoint, for Preempt");
    run.wait_for_stderr("stopping the worker, which has 8 s to end");
    fixture.await_lines("end", 1);
    service.show(3, &[event("b", "Reboot", WEEK), preempt("a")]);
    run.wait_for_stderr(
        "Reboot is announced, in 7 d: it does not stop the worker until 38 s before",
    );
    run.wait_for_stderr("the worker has stopped");
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn an_event_that_starts_or_ends_while_the_worker_goes_on_has_a_line() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let run = fixture.run(&service.url(), &[], &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[freeze("a")]);
    run.wait_for_stderr("Freeze is announced");
    service.show(3, &[started("a")]);
    run.wait_for_stderr("Freeze: started");
    service.show(4, &[]);
    run.wait_for_stderr("Freeze: completed");
    assert_eq!(fixture.lines(), ["start"]);
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn an_event_that_the_last_run_saw_has_a_line_in_the_next_one_too() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    service.show(2, &[event("a", "Reboot", WEEK)]);
    for _ in 0..2 {
        let run = fixture.run(&service.url(), &["--state", "state"], &fixture.worker());
        run.wait_for_stderr("Reboot is announced, in 7 d: ");
        run.terminate();
        run.finish();
    }
}

#[test]
fn advice_saves_one_checkpoint_and_stops_nothing() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = fixture.logging("$SCHEDULED_EVENTS_EVENT_TYPE");
    let run = fixture.run(
        &service.url(),
        &["--approve", "--checkpoint", &checkpoint],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    service.show(2, &[advice("a")]);
    run.wait_for_stderr("saved a checkpoint, for SpotRebalanceRecommendation");
    service.show(
        3,
        &[with(advice("a"), &json!({ "EventStatus": "Scheduled" }))],
    );
    service.await_polls(4);
    service.show(4, &[]);
    run.wait_for_stderr("SpotRebalanceRecommendation: withdrawn");
    // Another advice.
    service.show(5, &[advice("b")]);
    let word = "SpotRebalanceRecommendation";
    fixture.await_lines(word, 2);
    assert_eq!(fixture.lines(), ["start", word, word]);
    assert!(service.posted().is_empty());
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn advice_that_becomes_an_eviction_has_one_line_for_it() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let run = fixture.run(
        &service.url(),
        &["--on-advice", "checkpoint", "--checkpoint", "true"],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    service.show(2, &[advice("a")]);
    run.wait_for_stderr("saved a checkpoint, for SpotRebalanceRecommendation");
    service.show(3, &[preempt("a")]);
    run.wait_for_stderr("Preempt is announced, in 1 min");
    fixture.await_lines("end", 1);
    let said = run.stderr();
    assert!(!said.contains("rescheduled"), "{said}");
    run.terminate();
    run.finish();
}

#[test]
fn advice_for_which_the_last_run_saved_a_checkpoint_has_none_in_the_next_one() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let checkpoint = fixture.logging("checkpoint");
    service.show(2, &[advice("a")]);
    for line in [
        "saved a checkpoint, for SpotRebalanceRecommendation",
        "the last run did what is to be done",
    ] {
        let options = ["--checkpoint", &checkpoint, "--state", "state"];
        let run = fixture.run(&service.url(), &options, &fixture.worker());
        run.wait_for_stderr(line);
        run.terminate();
        run.finish().with_code(0);
    }
    let saved = fixture
        .lines()
        .iter()
        .filter(|line| *line == "checkpoint")
        .count();
    assert_eq!(saved, 1);
}

#[test]
fn advice_has_a_line_whatever_is_done_about_it() {
    let rows: [(&[&str], &str, bool); 5] = [
        (&[], "goes on, since there is no --checkpoint", false),
        (
            &["--on-advice", "ignore"],
            "goes on, since --on-advice says so",
            false,
        ),
        (
            &["--checkpoint", "true", "--on-advice", "ignore"],
            "goes on, since --on-advice says so",
            false,
        ),
        (
            &["--on-advice", "stop"],
            "an eviction may follow at any time: stopping the worker",
            true,
        ),
        (
            &["--stop-on", "SpotRebalanceRecommendation"],
            "an eviction may follow at any time: stopping the worker",
            true,
        ),
    ];
    together(rows, |(options, line, stops)| {
        let (fixture, service) = (Fixture::new(), FakeService::start());
        let options = [options, &["--approve"]].concat();
        let run = fixture.run(&service.url(), &options, &fixture.worker());
        fixture.await_lines("start", 1);
        service.show(2, &[advice("a")]);
        run.wait_for_stderr(line);
        if stops {
            fixture.await_lines("end", 1);
        }
        service.await_polls(3);
        assert_eq!(fixture.lines().len(), 1 + usize::from(stops));
        service.show(3, &[]);
        run.wait_for_stderr("SpotRebalanceRecommendation: withdrawn");
        fixture.await_lines("start", 1 + usize::from(stops));
        assert!(service.posted().is_empty());
        run.terminate();
        run.finish().with_code(0);
    });
}

#[test]
fn a_checkpoint_on_advice_needs_a_command() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let run = fixture.run(
        &service.url(),
        &["--on-advice", "checkpoint"],
        &fixture.worker(),
    );
    assert!(run.finish().with_code(2).stderr.contains("--checkpoint"));
}
