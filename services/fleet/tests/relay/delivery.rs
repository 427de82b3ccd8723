//! Which records are forwarded, when, and how many times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scheduled_events_test_support::wait;
use serde_json::json;

use crate::audit_file::change;
use crate::receiver::{Answer, Received, Receiver};
use crate::support::{Fixture, saved_position, target, wait_until};

/// The numbers of the records in these requests.
fn sequences(received: &[Received]) -> Vec<u64> {
    received
        .iter()
        .map(|received| received.json()["sequence"].as_u64().unwrap())
        .collect()
}

#[test]
fn records_reach_a_webhook_in_order_and_a_restart_goes_on_after_the_last() {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.configure(&target("hook", "webhook", &server.url("/events?x=1"), ""));
    let mut audit = fixture.audit();
    audit.append(&change("scheduled", 1));
    let relay = fixture.start();
    let received = server.wait_for(1);
    assert_eq!(
        (received[0].method.as_str(), received[0].target.as_str()),
        ("POST", "/events?x=1")
    );
    assert_eq!(received[0].header("content-type"), Some("application/json"));
    let record = received[0].json();
    assert_eq!(record["machine"], "WestNO_0");
    assert_eq!(record["change"], "scheduled");
    audit.append(
        &json!({"record": "poll-failed", "cause": "timeout", "retry_in_ms": 1000, "time": "2026-11-22T22:20:59Z"}),
    );
    server.wait_for(2);
    relay.terminate();
    assert_eq!(saved_position(&fixture.path("state"), "hook"), Some(2));
    audit.append(&change("started", 1));
    let relay = fixture.start();
    server.wait_for(3);
    audit.append(&change("completed", 1));
    let received = server.wait_for(4);
    assert_eq!(sequences(&received), [1, 2, 3, 4]);
    relay.terminate();
    assert_eq!(fixture.log(), "");
}

#[test]
fn a_test_reaches_each_target_once_and_prints_what_each_answers() {
    let fixture = Fixture::new();
    let (good, bad) = (
        Receiver::accepting(),
        Receiver::start(|_, _| Some(Answer::status(403))),
    );
    let targets = target("hook", "webhook", &good.url("/"), "")
        + &target("chat", "slack", &good.url("/chat"), "")
        + &target("closed", "webhook", &bad.url("/"), "");
    fixture.configure(&targets);
    let output = wait::output(fixture.command().arg("--test"));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "ok    target hook    accepted the message",
            "ok    target chat    accepted the message"
        ]
    );
    assert!(
        lines[2].starts_with("FAIL  target closed  did not accept the message: status 403")
            && lines[3].trim_start().starts_with("-> correct the target"),
        "{printed}"
    );
    // An announcement and its end, which say that they are a test; what was refused is not repeated.
    let hooks: Vec<_> = good
        .wait_for(4)
        .into_iter()
        .filter(|sent| sent.target == "/")
        .collect();
    let change = |sent: &Received| sent.json()["change"].as_str().unwrap().to_owned();
    assert_eq!(
        hooks.iter().map(change).collect::<Vec<_>>(),
        ["scheduled", "cancelled"]
    );
    assert!(
        hooks[0].json()["description"]
            .as_str()
            .unwrap()
            .contains("test")
    );
    assert_eq!(bad.wait_for(1).len(), 1);
    assert!(!fixture.path("state").exists(), "no position is saved");
}

/// The target does not answer from the relay's first start on, and the relay is started again.
#[test]
fn what_was_rotated_away_before_the_first_delivery_is_a_gap() {
    for (before, start) in [(0, "oldest"), (3, "oldest"), (3, "end"), (0, "end")] {
        let fixture = Fixture::new();
        let mut audit = fixture.audit();
        let mut append = |count: usize| {
            for number in 0..count {
                audit.append(&change("scheduled", number));
            }
        };
        append(before);
        let closed = Receiver::start(|_, _| Some(Answer::status(503)));
        let more = format!("start = {start:?}");
        fixture.configure(&target("hook", "webhook", &closed.url("/"), &more));
        let relay = fixture.start();
        wait_until("a saved state", || fixture.path("state/hook.json").exists());
        append(2);
        closed.wait_for(1);
        relay.terminate();
        // All of those are rotated away.
        let text = fs::read_to_string(fixture.path("audit")).unwrap();
        append(1);
        let all = fs::read_to_string(fixture.path("audit")).unwrap();
        fs::write(fixture.path("audit"), all.strip_prefix(&text).unwrap()).unwrap();
        let server = Receiver::accepting();
        fixture.configure(&target("hook", "webhook", &server.url("/"), &more));
        let _relay = fixture.start();
        let received = server.wait_for(2);
        let lost = if start == "end" { 2 } else { before + 2 };
        let gap = received[0].json();
        assert_eq!(
            (&gap["record"], &gap["lost"]),
            (&json!("gap"), &json!(lost)),
            "{before} {start}: {gap}"
        );
        assert_eq!(received[1].json()["sequence"], json!(before + 3));
    }
}

#[test]
fn rotation_loses_nothing_and_what_was_rotated_away_is_a_gap() {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let mut audit = fixture.audit();
    // About three records each.
    audit.size_max = 1500;
    let relay = fixture.start();
    for number in 0..40 {
        audit.append(&change("scheduled", number));
        if number % 7 == 0 {
            audit.append_torn();
        }
        if number % 10 == 0 {
            // The relay must read each file while it is kept.
            server.wait_for(number + 1);
        }
        if number % 3 == 0 {
            server.wait_for(number.saturating_sub(2));
        }
    }
    let received = server.wait_for(40);
    assert_eq!(sequences(&received), (1..=40).collect::<Vec<_>>());
    relay.terminate();
    for number in 0..40 {
        audit.append(&change("scheduled", number));
    }
    let relay = fixture.start();
    let received = server.wait("the last record", |received| {
        received
            .last()
            .is_some_and(|received| received.json()["sequence"] == 80)
    });
    relay.terminate();
    let gap = received[40].json();
    assert_eq!(gap["record"], "gap");
    let first = received[41].json()["sequence"].as_u64().unwrap();
    assert!(first > 50, "{first}");
    assert_eq!(gap["lost"], first - 41);
    assert_eq!(sequences(&received[41..]), (first..=80).collect::<Vec<_>>());
    assert!(
        fixture.log().contains("were rotated away"),
        "{}",
        fixture.log()
    );
}

#[test]
fn truncated_removed_and_replaced_files_are_read_on() {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let mut audit = fixture.audit();
    for number in 0..5 {
        audit.append(&change("scheduled", number));
    }
    let relay = fixture.start();
    server.wait_for(5);
    // Truncated, and at once longer than before.
    audit.truncate();
    for number in 0..10 {
        audit.append(&change("scheduled", number));
    }
    assert_eq!(
        sequences(&server.wait_for(15)),
        (1..=15).collect::<Vec<_>>()
    );
    relay.terminate();
    // Other files, whose numbers begin again: all of their records are forwarded, since none was
    // before.
    fs::remove_file(fixture.path("audit")).unwrap();
    let mut audit = fixture.audit();
    for number in 0..3 {
        audit.append(&change("cancelled", number));
    }
    let relay = fixture.start();
    assert_eq!(sequences(&server.wait_for(18)[15..]), [1, 2, 3]);
    // The same while it runs, and with numbers that it has already read.
    fs::remove_file(fixture.path("audit")).unwrap();
    let mut audit = fixture.audit();
    for number in 0..5 {
        audit.append(&change("completed", number));
    }
    assert_eq!(sequences(&server.wait_for(23)[18..]), [1, 2, 3, 4, 5]);
    relay.terminate();
    assert!(
        fixture.log().contains("the audit file is another one"),
        "{}",
        fixture.log()
    );
}

#[test]
fn a_target_that_is_down_delays_no_other_and_gets_everything_later() {
    let fixture = Fixture::new();
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let down =
        Receiver::start(move |_, _| is_up.load(Ordering::SeqCst).then(|| Answer::status(204)));
    let server = Receiver::accepting();
    let refused = target("refused", "webhook", "http://127.0.0.1:9/", "");
    let targets = target("down", "webhook", &down.url("/"), "") + &refused;
    fixture.configure(&(targets + &target("hook", "webhook", &server.url("/"), "")));
    let mut audit = fixture.audit();
    let relay = fixture.start();
    for number in 0..20 {
        audit.append(&change("scheduled", number));
    }
    server.wait_for(20);
    down.wait_for(2);
    relay.wait_for_log("target down: cannot deliver");
    relay.wait_for_log("target refused: cannot deliver");
    up.store(true, Ordering::SeqCst);
    down.wait("all records", |received| {
        received
            .iter()
            .filter(|received| received.status == 204)
            .count()
            == 20
    });
    assert_eq!(sequences(&down.accepted()), (1..=20).collect::<Vec<_>>());
    relay.wait_for_log("target down: delivers again");
    relay.terminate();
    assert_eq!(saved_position(&fixture.path("state"), "refused"), Some(0));
    // Each failure is logged once, not with each attempt.
    let log = fixture.log();
    assert_eq!(
        log.matches("target refused: cannot deliver").count(),
        1,
        "{log}"
    );
}

#[test]
fn a_target_is_asked_again_when_it_asked_for_and_errors_lose_nothing() {
    let fixture = Fixture::new();
    let server = Receiver::start(|_, count| {
        let (status, retry) = [
            (429, Some("3")),
            (503, None),
            (500, None),
            (401, None),
            (302, None),
        ]
        .get(count)
        .copied()
        .unwrap_or((202, None));
        let mut answer = Answer::with(status, "no\u{1b}[2J");
        answer
            .headers
            .extend(retry.map(|retry| ("retry-after", retry.to_owned())));
        answer
            .headers
            .push(("location", "http://127.0.0.1:9/".to_owned()));
        Some(answer)
    });
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let mut audit = fixture.audit();
    audit.append(&change("scheduled", 1));
    let relay = fixture.start();
    server.wait_for(1);
    let first = Instant::now();
    server.wait_for(2);
    assert!(
        first.elapsed() > Duration::from_millis(2_500),
        "{:?}",
        first.elapsed()
    );
    server.wait_for(6);
    audit.append(&change("started", 1));
    assert_eq!(sequences(&server.wait_for(7)), [1, 1, 1, 1, 1, 1, 2]);
    relay.terminate();
    let log = fixture.log();
    assert!(
        log.contains("status 429 Too Many Requests\n")
            && log.contains("redirects are not followed"),
        "{log}"
    );
}

#[test]
fn a_record_that_is_rejected_is_kept_and_does_not_hold_up_the_next() {
    let fixture = Fixture::new();
    let server = Receiver::start(|received, _| {
        let is_bad = received.json()["event_id"] == "00000000-0000-4000-8000-000000000001";
        Some(Answer::status(if is_bad { 422 } else { 200 }))
    });
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let mut audit = fixture.audit();
    for number in 0..3 {
        audit.append(&change("scheduled", number));
    }
    let relay = fixture.start();
    server.wait("the third record", |received| {
        received
            .iter()
            .any(|received| received.json()["sequence"] == 3)
    });
    wait_until("the state", || {
        saved_position(&fixture.path("state"), "hook") == Some(3)
    });
    relay.terminate();
    assert_eq!(sequences(&server.accepted()), [1, 3]);
    assert_eq!(sequences(&server.received()), [1, 2, 2, 2, 2, 2, 3]);
    let kept = fs::read_to_string(fixture.path("state").join("hook.rejected")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        (&kept["sequence"], &kept["machine"]),
        (&2.into(), &"WestNO_0".into())
    );
}

#[test]
fn a_target_gets_the_records_that_it_is_configured_for() {
    let fixture = Fixture::new();
    let (changes, others) = (Receiver::accepting(), Receiver::accepting());
    let targets = target(
        "changes",
        "webhook",
        &changes.url("/"),
        "records = [\"change\"]\nevent = [\"Reboot\"]",
    );
    fixture
        .configure(&(targets + &target("others", "webhook", &others.url("/"), "scope = \"any\"")));
    let mut audit = fixture.audit();
    let mut foreign = change("scheduled", 1);
    foreign["mine"] = false.into();
    let mut freeze = change("scheduled", 2);
    freeze["event_type"] = "Freeze".into();
    let mut unknown = change("scheduled", 3);
    unknown["mine"] = serde_json::Value::Null;
    let failed =
        json!({"record": "poll-failed", "cause": "timeout", "time": "2026-11-22T22:20:59Z"});
    for record in [
        &foreign,
        &freeze,
        &unknown,
        &failed,
        &change("scheduled", 4),
    ] {
        audit.append(record);
    }
    let relay = fixture.start();
    others.wait_for(5);
    assert_eq!(sequences(&changes.wait_for(2)), [3, 5]);
    relay.terminate();
}

#[test]
fn a_second_relay_with_the_same_state_is_refused() {
    let fixture = Fixture::new();
    fixture.configure(&target("hook", "webhook", "http://127.0.0.1:9/", ""));
    let relay = fixture.start();
    wait_until("the state", || {
        fixture.path("state").join("hook.json").exists()
    });
    let output = wait::output(&mut fixture.command());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another process relays"));
    relay.terminate();
}

#[test]
fn a_relay_tells_that_there_is_no_audit_file() {
    let fixture = Fixture::new();
    fixture.configure(&target("hook", "webhook", "http://127.0.0.1:9/", ""));
    let relay = fixture.start();
    let name = fixture.path("audit").display().to_string();
    let message =
        format!("warning: the audit file {name} does not exist yet: nothing is forwarded");
    relay.wait_for_log(&message);
}

#[test]
fn a_target_can_begin_at_the_end() {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.configure(&target(
        "hook",
        "webhook",
        &server.url("/"),
        "start = \"end\"",
    ));
    let mut audit = fixture.audit();
    for number in 0..2000 {
        audit.append(&change("scheduled", number));
    }
    fixture
        .start()
        .kill_when(|| saved_position(&fixture.path("state"), "hook") == Some(2000));
    audit.append(&change("started", 1));
    let relay = fixture.start();
    assert_eq!(sequences(&server.wait_for(1)), [2001]);
    relay.terminate();
}

#[test]
fn a_state_that_is_unreadable_is_kept_and_everything_is_sent_again() {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let mut audit = fixture.audit();
    audit.append(&change("scheduled", 1));
    let relay = fixture.start();
    server.wait_for(1);
    relay.terminate();
    let state = fixture.path("state");
    fs::write(state.join("hook.json"), "{\"position\":").unwrap();
    let relay = fixture.start();
    assert_eq!(sequences(&server.wait_for(2)), [1, 1]);
    relay.terminate();
    assert_eq!(
        fs::read_to_string(state.join("hook.unreadable")).unwrap(),
        "{\"position\":"
    );
    assert!(
        fixture.log().contains("is no state file"),
        "{}",
        fixture.log()
    );
}

#[test]
fn what_the_watcher_itself_records_is_forwarded() {
    let program = std::env::var_os("SCHEDULED_EVENTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/scheduled-events"),
        PathBuf::from,
    );
    assert!(
        program.exists(),
        "{} does not exist; build it: cargo build --package scheduled-events-cli",
        program.display()
    );
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let relay = fixture.start();
    let policy = fixture.write("policy.toml", "[[rule]]\naction = \"prepare\"\n");
    let watch = [
        "--prepare",
        "true",
        "--recover",
        "true",
        "--until-idle",
        "--interval",
        "200ms",
        "--policy",
    ];
    // The replay server runs the watcher, sets its endpoint, and ends with it.
    let mut command = Command::new(&program);
    command
        .args(["replay", "user-reboot", "--speed", "10", "--"])
        .arg(&program)
        .arg("watch")
        .args(watch)
        .arg(policy)
        .arg("--state")
        .arg(fixture.path("watch-state"))
        .arg("--audit")
        .arg(fixture.path("audit"));
    let output = wait::output(&mut command);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(fixture.path("audit")).unwrap();
    let received = server.wait_for(text.lines().count());
    relay.terminate();
    // The watcher names the machine itself.
    let expected: Vec<_> = text.lines().collect();
    let bodies: Vec<_> = received
        .iter()
        .map(|received| String::from_utf8(received.body.clone()).unwrap())
        .collect();
    assert_eq!(bodies, expected);
    assert!(
        bodies
            .iter()
            .any(|body| body.contains("\"change\":\"completed\"")),
        "{bodies:#?}"
    );
}
