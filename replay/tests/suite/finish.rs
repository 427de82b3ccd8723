//! The end of a test: `finish`, `assert_clean`, and a server that is dropped without them.

use std::panic;
use std::process::Command;

use scheduled_events_replay::Verdict;
use scheduled_events_replay::verdict::{Outcome, Rule};

use super::*;

/// The text with which `assert_clean` panics, if it does.
fn panic_of(verdict: &Verdict) -> Option<String> {
    let verdict = panic::AssertUnwindSafe(verdict);
    let panicked = panic::catch_unwind(|| verdict.assert_clean()).err()?;
    Some(*panicked.downcast::<String>().expect("a text"))
}

#[test]
fn a_client_that_ends_in_the_middle_of_its_event_is_not_clean() {
    let server = start(steady());
    assert_eq!(statuses(&document(&server)), ["Scheduled"]);
    // Until then it has broken nothing.
    assert!(server.verdict(0).is_clean());
    let verdict = server.finish();
    assert_eq!(verdict.outcome(Rule::StopsPolling), Outcome::Failed);
    let text = panic_of(&verdict).expect("a panic");
    assert!(
        text.starts_with("WestNO_0: not clean; ") && text.contains("broken at "),
        "{text}"
    );
    assert!(text.contains("stops-polling: it ended"), "{text}");
    // Asking again changes nothing.
    assert_eq!(server.finish().count(Rule::StopsPolling), 1);
}

#[test]
fn a_client_that_polls_to_the_end_of_its_event_is_clean() {
    let server = start(steady());
    let id = event_id(&document(&server), 0);
    assert_eq!(approve(&server, &[&id]).status, 200);
    while server.step() {}
    assert!(
        document(&server)["Events"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let verdict = server.finish();
    assert_eq!(panic_of(&verdict), None, "{verdict}");
}

#[test]
fn a_client_is_judged_by_what_it_was_shown_not_by_what_happened_since() {
    let server = start(steady());
    let id = event_id(&document(&server), 0);
    approve(&server, &[&id]);
    // The event ends, and the client with it, without another poll.
    while server.step() {}
    let verdict = server.finish();
    assert_eq!(verdict.outcome(Rule::StopsPolling), Outcome::Failed);
}

#[test]
fn what_a_client_had_no_opportunity_to_do_is_not_checked_and_the_verdict_says_why() {
    let server = start(steady().speed(60.0));
    let id = event_id(&document(&server), 0);
    approve(&server, &[&id]);
    while server.step() {}
    document(&server);
    let verdict = server.finish();
    for (rule, reason) in [
        (
            Rule::PollGap,
            "a gap is longer than 15.5 s; use a lower speed than 60",
        ),
        (
            Rule::RequestRate,
            "it sent requests for less than 5.5 s; use a lower speed than 60",
        ),
        (
            Rule::GaveUp,
            "none of its requests failed that it has to repeat",
        ),
        (
            Rule::ApprovedAgain,
            "no document showed it an event as Scheduled after its approval; use a lower speed than 60",
        ),
        (Rule::ApprovedAdvice, "no document showed it advice"),
    ] {
        let found = verdict.reason(rule).expect("a reason");
        assert!(found.ends_with(reason), "{rule}: {found}");
        assert!(verdict.to_string().contains(reason), "{verdict}");
    }
    for rule in [
        Rule::StopsPolling,
        Rule::MissedEvent,
        Rule::StartRequests,
        Rule::NotApproved,
    ] {
        assert_eq!(
            (verdict.outcome(rule), verdict.reason(rule)),
            (Outcome::Passed, None),
            "{rule}"
        );
    }
    // Every rule that was not checked has a reason.
    for rule in verdict.rules_with(Outcome::NotChecked) {
        assert!(
            verdict
                .reason(rule)
                .is_some_and(|reason| !reason.is_empty()),
            "{rule}"
        );
    }
}

#[test]
fn a_client_that_does_not_wait_for_the_first_response_is_found_before_that_comes() {
    let server = start(steady().fault("first-call-delay:60".parse().expect("a fault")));
    let mut first = connect(server.addr());
    first
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("sent");
    // Nothing shows that the server has read it.
    thread::sleep(Duration::from_secs(1));
    document(&server);
    let verdict = server.verdict(0);
    assert_eq!(verdict.outcome(Rule::FirstRequest), Outcome::Warned);
}

#[test]
fn what_the_service_refuses_is_a_finding_whatever_the_reason() {
    let body = r#"{"StartRequests":[{"EventId":"A"}]}"#;
    let wrong_host = "Host: metadata.example\r\nMetadata: true\r\n";
    let right = "Host: 169.254.169.254\r\nMetadata: true\r\n";
    for (method, target, fields, reason) in [
        ("GET", format!("{EVENTS}&x=1&x=1"), right, "x is repeated"),
        ("POST", format!("{EVENTS}&x=1&x=1"), right, "x is repeated"),
        ("GET", EVENTS.to_owned(), wrong_host, "The Host header"),
        ("POST", EVENTS.to_owned(), wrong_host, "The Host header"),
    ] {
        let server = start(steady());
        document(&server);
        let length = body.len();
        let request =
            format!("{method} {target} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
        assert_eq!(raw(server.addr(), request.as_bytes()).status, 400);
        let verdict = server.verdict(0);
        assert_eq!(verdict.outcome(Rule::Url), Outcome::Failed, "{request}");
        let finding = verdict.findings().iter().find(|one| one.rule == Rule::Url);
        let message = &finding.expect("a finding").message;
        assert!(
            message.starts_with(&format!("{method} {target} is refused: ")),
            "{message}"
        );
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_client_whose_every_approval_is_refused_has_approved_nothing() {
    let server = start(steady());
    document(&server);
    let request =
        "POST /metadata/scheduledevents HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(raw(server.addr(), request.as_bytes()).status, 400);
    assert!(server.step());
    assert_eq!(statuses(&document(&server)), ["Started"]);
    let verdict = server.verdict(0);
    assert_eq!(
        verdict.outcome(Rule::NotApproved),
        Outcome::Warned,
        "{verdict}"
    );
}

#[test]
fn a_client_that_never_polled_is_not_clean() {
    let verdict = start(steady()).finish();
    assert!(!verdict.is_clean());
    let text = panic_of(&verdict).expect("a panic");
    assert!(
        text.starts_with("WestNO_0: not tested; 0 rules kept, 0 broken, "),
        "{text}"
    );
}

#[test]
fn a_client_that_was_shown_a_started_event_of_another_machine_alone_was_shown_one() {
    let others = STEADY.replace("notice", "resources = [\"{peer:1}\"]\nnotice");
    let server = start(ServerConfig::new(Scenario::parse(&others).expect("valid")));
    document(&server);
    let scheduled = server.verdict(0);
    assert!(scheduled.was_tested(), "{scheduled}");

    let started = "started-without-scheduled".parse().expect("a fault");
    let server = start(ServerConfig::new(Scenario::parse(&others).expect("valid")).fault(started));
    assert!(events(&document(&server)).is_empty());
    assert!(!server.verdict(0).was_tested());
    assert!(server.step());
    assert_eq!(statuses(&document(&server)), ["Started"]);
    let verdict = server.verdict(0);
    assert!(verdict.was_tested(), "{verdict}");
}

#[test]
fn one_client_of_several_that_is_not_clean_makes_the_verdict() {
    let server = start(steady().machines(2));
    let id = event_id(&document(&server), 0);
    assert_eq!(approve(&server, &[&id]).status, 200);
    while server.step() {}
    document(&server);
    let verdict = server.finish();
    assert_eq!((verdict.machine(), verdict.is_clean()), ("WestNO_1", false));
    assert!(server.verdict(0).is_clean());
}

/// The test that drops a server is run by another one, which reads its output.
const DROPS: &str = "FINISH_TEST_DROPS";

#[test]
fn a_dropped_server_runs_in_another_process() {
    let Ok(how) = std::env::var(DROPS) else {
        return;
    };
    let config = match how.as_str() {
        "stand-in" => steady().without_verdict(),
        _ => steady(),
    };
    let server = Server::start(config).expect("a port");
    if how != "no client" {
        document(&server);
    }
    match how.as_str() {
        "finished" => drop(server.finish()),
        "judged" => drop(server.verdict(0)),
        _ => {}
    }
}

#[test]
fn a_server_that_is_dropped_without_a_verdict_says_so() {
    let advice =
        "1 request of a client, and no verdict: end the test with server.finish().assert_clean()";
    for (how, is_expected) in [
        ("unjudged", true),
        ("no client", false),
        ("stand-in", false),
        ("finished", false),
        ("judged", false),
    ] {
        let test = "finish::a_dropped_server_runs_in_another_process";
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        let output = program
            .args(["--exact", test])
            .env(DROPS, how)
            .output()
            .expect("this program");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{how}: {stderr}");
        assert_eq!(stderr.contains(advice), is_expected, "{how}: {stderr}");
    }
}
