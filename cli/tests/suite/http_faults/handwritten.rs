//! Cases that need more control over the service than the replay server gives.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use scheduled_events_replay::{Scenario, Server, ServerConfig};
use serde_json::json;

use super::row::FREEZE;
use crate::support::{
    FakeService, Folder, PREPARE_ALL, Reply, Run, VM, document, eventually, free_port, freeze,
    helper, lines, preparation_ended, started, with,
};

#[test]
fn retry_after_counts_even_if_the_body_of_the_429_is_short() {
    let service = FakeService::start();
    let mut answers = 0;
    service.intercept(move |_| {
        answers += 1;
        let bytes = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 100\r\n\r\nThrottle";
        (answers == 1).then(|| Reply::raw(bytes).close())
    });
    let mut run = Run::watch(&service.url(), &["--vm-name", VM]);
    let failed = run.record("a failure", |record| record["record"] == "poll-failed");
    assert_eq!(failed["cause"], "status-429");
    assert!(failed["retry_in_ms"].as_u64() > Some(2_000), "{failed}");
}

#[test]
fn polls_until_the_service_is_reachable() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut run = Run::watch(
        &format!("http://{address}"),
        &["--policy", "sample", "--vm-name", VM],
    );
    for failure in 0..2 {
        let record = run.record("a failure", |record| {
            record["cause"] == "unreachable"
                && record["retry_in_ms"].as_u64() >= Some(failure * 1_000)
        });
        assert!(record["retry_in_ms"].as_u64() <= Some(4_000), "{record}");
    }
    run.wait_for_stderr("warning: poll failed: connection failed");
    let scenario = Scenario::parse(FREEZE).expect("a scenario");
    let config = ServerConfig::new(scenario)
        .without_verdict()
        .speed(60.0)
        .vm_name(VM)
        .listen(address);
    let _server = Server::start(config).expect("the port");
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
}

#[test]
fn malformed_headers_are_failed_polls() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut answers = vec![
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        "\0\0\0\0",
    ];
    service.intercept(move |_| answers.pop().map(|bytes| Reply::raw(bytes).close()));
    let mut run = Run::watch(&service.url(), &["--policy", "sample", "--vm-name", VM]);
    run.record("an approval", |record| record["record"] == "approval");
    let failures = run
        .records()
        .iter()
        .filter(|record| record["record"] == "poll-failed")
        .count();
    assert_eq!(failures, 3, "{}", run.stdout());
}

#[test]
fn an_old_document_that_is_served_again_ends_no_event() {
    let old = document(2, &[freeze("first"), freeze("second")]);
    let new = document(3, &[freeze("first"), freeze("second"), freeze("third")]);
    let service = FakeService::start();
    service.show_body(&old);
    let mut run = Run::watch(&service.url(), &["--policy", "observe"]);
    run.change("scheduled", "second");
    service.show_body(&new);
    run.change("scheduled", "third");
    // As if several servers shared the address, and one were late.
    for _ in 0..3 {
        service.show_body(&old);
        service.await_polls(2);
        service.show_body(&new);
        service.await_polls(2);
    }
    run.wait_for_stderr("ignored an outdated document");
    assert_eq!(
        run.stderr().matches("outdated").count(),
        1,
        "once per change: {}",
        run.stderr()
    );
    assert!(
        run.records()
            .iter()
            .all(|record| record["change"].is_null() || record["change"] == "scheduled")
    );
    assert_eq!(
        run.records()
            .iter()
            .filter(|record| record["record"] == "change")
            .count(),
        3
    );
}

#[test]
fn an_event_that_is_absent_for_some_polls_is_not_approved_again() {
    let service = FakeService::start();
    let other = || with(freeze("other"), &json!({ "Resources": ["other"] }));
    service.show(2, &[freeze("a"), other()]);
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    run.record("an approval", |record| record["record"] == "approval");
    for round in 0..3 {
        service.show(3 + 2 * round, &[other()]);
        service.await_polls(2);
        service.show(4 + 2 * round, &[freeze("a"), other()]);
        service.await_polls(2);
    }
    service.await_polls(2);
    assert_eq!(service.posted(), ["a"]);
    service.show(20, &[started("a"), other()]);
    run.change("started", "a");
    assert!(run.is_running());
}

#[test]
fn an_approval_is_not_repeated_once_its_event_is_started() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    service.set_post_status(500);
    let mut run = Run::watch(&service.url(), &["--policy", "sample", "--until-idle"]);
    eventually("two attempts", || {
        (service.posted().len() >= 2).then_some(())
    });
    service.show(3, &[started("a")]);
    run.change("started", "a");
    service.set_post_status(200);
    let attempts = service.posted().len();
    service.await_polls(12);
    assert_eq!(
        service.posted().len(),
        attempts,
        "a Started event was approved"
    );
    service.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert!(finished.approved().is_empty());
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
}

#[test]
fn a_refused_id_does_not_delay_other_approvals() {
    let service = FakeService::start();
    service.show(2, &[freeze("bad"), freeze("good")]);
    service.intercept(|request| {
        let bad = request.is_post() && request.ids().iter().any(|id| id == "bad");
        bad.then(|| Reply::new(400, "", r#"{"error":"Bad request. There is no event bad"}"#))
    });
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    let done = run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    assert_eq!(done["event_ids"], json!(["good"]));
}

#[test]
fn a_permanent_error_is_retried_after_ten_seconds() {
    for status in [400, 405] {
        let service = FakeService::start();
        service.intercept(move |_| Some(Reply::new(status, "", "{}")));
        let mut run = Run::watch(&service.url(), &["--vm-name", VM]);
        let failed = run.record("a failure", |record| record["record"] == "poll-failed");
        assert_eq!(failed["cause"], format!("status-{status}"));
        // Counted from the start of the request.
        assert!(
            matches!(failed["retry_in_ms"].as_u64(), Some(5_000..=10_000)),
            "{failed}"
        );
    }
}

#[test]
fn a_retry_after_of_an_hour_is_limited_to_ten_seconds() {
    let service = FakeService::start();
    service.intercept(|_| Some(Reply::new(429, "Retry-After: 3600\r\n", "")));
    let mut run = Run::watch(&service.url(), &["--vm-name", VM]);
    let failed = run.record("a failure", |record| record["record"] == "poll-failed");
    assert_eq!(failed["cause"], "status-429");
    assert!(
        matches!(failed["retry_in_ms"].as_u64(), Some(5_000..=10_000)),
        "{failed}"
    );
    thread::sleep(Duration::from_secs(4));
    assert_eq!(
        service.requests().len(),
        1,
        "a request within 4 s, sooner than asked for"
    );
}

#[test]
fn an_event_that_vanishes_during_its_preparation_and_returns_is_prepared_for_again() {
    let folder = Folder::new();
    let (policy, log) = (folder.file("policy.toml", PREPARE_ALL), folder.path("log"));
    let prepare = helper(&[format!("append {log} prepare"), "sleep 2".to_owned()]);
    let recover = helper(&[format!("append {log} recover")]);
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = Run::watch(
        &service.url(),
        &[
            "--policy",
            &policy,
            "--prepare",
            &prepare,
            "--recover",
            &recover,
            "--vm-name",
            VM,
            "--until-idle",
        ],
    );
    eventually("the preparation", || {
        (lines(&log) == ["prepare"]).then_some(())
    });
    let other = || with(freeze("other"), &json!({ "Resources": ["other"] }));
    service.show(3, &[other()]);
    let cancelled = run.record("the end of the preparation", preparation_ended);
    assert_eq!(cancelled["outcome"], "cancelled");
    run.record("the recovery", |record| record["record"] == "recover");
    service.show(4, &[freeze("a"), other()]);
    run.record("an approval", |record| record["record"] == "approval");
    service.show(5, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(
        finished.changes("a"),
        ["scheduled", "cancelled", "scheduled", "ended"]
    );
    assert_eq!(lines(&log), ["prepare", "recover", "prepare", "recover"]);
}
