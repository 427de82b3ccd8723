//! What takes a service under a test's hand.

use std::net::TcpListener;

use scheduled_events::replay::{Scenario, Server, ServerConfig};
use serde_json::json;

use super::row::FREEZE;
use crate::support::{Reply, Run, Stage, VM, document, eventually, freeze, started, with};

#[test]
fn a_429_whose_body_breaks_off_still_asks_for_patience() {
    let stage = Stage::start();
    let mut answers = 0;
    stage.intercept(move |_| {
        answers += 1;
        let bytes = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 100\r\n\r\nThrottle";
        (answers == 1).then(|| Reply::raw(bytes).close())
    });
    let mut run = Run::watch(&stage.url(), &["--vm-name", VM]);
    let failed = run.record("a failure", |record| record["record"] == "poll-failed");
    assert_eq!(failed["cause"], "status-429");
    assert!(failed["retry_in_ms"].as_u64() > Some(2_000), "{failed}");
}

#[test]
fn a_service_that_is_not_there_yet_is_found_once_it_is() {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    let mut run = Run::watch(&format!("http://{address}"), &["--policy", "sample", "--vm-name", VM]);
    for failure in 0..2 {
        let told = run.record("a failure", |told| {
            told["cause"] == "unreachable" && told["retry_in_ms"].as_u64() >= Some(failure * 1_000)
        });
        assert!(told["retry_in_ms"].as_u64() <= Some(4_000), "{told}");
    }
    run.says("warning: connection failed");
    let scenario = Scenario::parse(FREEZE).expect("a scenario");
    let _server = Server::start(ServerConfig::new(scenario).speed(60.0).vm_name(VM).listen(address)).expect("the port");
    run.record("an approval", |record| record["record"] == "approval" && record["status"] == 200);
}

#[test]
fn a_content_length_that_is_no_length_is_survived() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let mut answers = vec!["HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\0\0\0\0"];
    stage.intercept(move |_| answers.pop().map(|bytes| Reply::raw(bytes).close()));
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--vm-name", VM]);
    run.record("an approval", |record| record["record"] == "approval");
    let failures = run.records().iter().filter(|record| record["record"] == "poll-failed").count();
    assert_eq!(failures, 3, "{}", run.stdout());
}

#[test]
fn an_old_document_that_shows_up_again_ends_nothing() {
    let old = document(2, &[freeze("first"), freeze("second")]);
    let new = document(3, &[freeze("first"), freeze("second"), freeze("third")]);
    let stage = Stage::start();
    stage.show_body(&old);
    let mut run = Run::watch(&stage.url(), &["--policy", "observe"]);
    run.change("scheduled", "second");
    stage.show_body(&new);
    run.change("scheduled", "third");
    // One of several servers behind the address lags behind.
    for _ in 0..3 {
        stage.show_body(&old);
        stage.await_polls(2);
        stage.show_body(&new);
        stage.await_polls(2);
    }
    run.says("an old document was served again");
    assert!(run.records().iter().all(|record| record["change"].is_null() || record["change"] == "scheduled"));
    assert_eq!(run.records().iter().filter(|record| record["record"] == "change").count(), 3);
}

#[test]
fn an_event_that_flickers_is_not_approved_again() {
    let stage = Stage::start();
    let other = || with(freeze("other"), &json!({ "Resources": ["other"] }));
    stage.show(2, &[freeze("a"), other()]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample"]);
    run.record("an approval", |record| record["record"] == "approval");
    for round in 0..3 {
        stage.show(3 + 2 * round, &[other()]);
        stage.await_polls(2);
        stage.show(4 + 2 * round, &[freeze("a"), other()]);
        stage.await_polls(2);
    }
    stage.await_polls(2);
    assert_eq!(stage.posted(), ["a"]);
    stage.show(20, &[started("a"), other()]);
    run.change("started", "a");
    assert!(run.is_running());
}

#[test]
fn an_approval_is_given_up_once_its_event_has_left_scheduled() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    stage.set_post_status(500);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--until-idle"]);
    eventually("two attempts", || (stage.posted().len() >= 2).then_some(()));
    stage.show(3, &[started("a")]);
    run.change("started", "a");
    stage.set_post_status(200);
    let attempts = stage.posted().len();
    stage.await_polls(12);
    assert_eq!(stage.posted().len(), attempts, "a Started event was approved");
    stage.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert!(finished.approved().is_empty());
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
}

#[test]
fn an_id_that_the_service_refuses_does_not_hold_up_the_others() {
    let stage = Stage::start();
    stage.show(2, &[freeze("bad"), freeze("good")]);
    stage.intercept(|request| {
        let bad = request.is_post() && request.ids().iter().any(|id| id == "bad");
        bad.then(|| Reply::new(400, "", r#"{"error":"Bad request. There is no event bad"}"#))
    });
    let mut run = Run::watch(&stage.url(), &["--policy", "sample"]);
    let done = run.record("an approval", |record| record["record"] == "approval" && record["status"] == 200);
    assert_eq!(done["event_ids"], json!(["good"]));
}

#[test]
fn a_request_that_is_refused_for_good_is_not_hammered() {
    for status in [400, 405] {
        let stage = Stage::start();
        stage.intercept(move |_| Some(Reply::new(status, "", "{}")));
        let mut run = Run::watch(&stage.url(), &["--vm-name", VM]);
        let failed = run.record("a failure", |record| record["record"] == "poll-failed");
        assert_eq!(
            failed,
            json!({"record": "poll-failed", "cause": format!("status-{status}"), "retry_in_ms": 10_000})
        );
    }
}
