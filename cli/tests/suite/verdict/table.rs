//! Imitations of clients, wrong and right ones: `clients.py` has them, and runs them at three speeds.

use super::*;
use crate::support::{PROGRAM, wait};

const CLIENTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/suite/verdict/clients.py"
);

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/verdict-table.md");

/// With this environment variable, the test writes the page.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_VERDICT_TABLE";

#[test]
fn each_wrong_client_is_found_or_not_checked_at_every_speed() {
    let mode = match std::env::var_os(WRITE) {
        Some(_) => "--write",
        None => "--test",
    };
    let mut python = std::process::Command::new("python3");
    let run = python.args([CLIENTS, mode, PROGRAM, PAGE]);
    let output = wait::output_within(Duration::from_secs(15 * 60), run);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn a_finding_has_its_event_its_time_and_its_rule() {
    let tested = test_client(
        SHORT,
        &["--seed", "7"],
        &["python3", CLIENTS, "approves-at-every-poll"],
    );
    let finding = tested.of_kind("finding")[0];
    let event = tested.of_kind("event")[0];
    assert_eq!(finding["event_id"], event["event_id"]);
    assert!(
        finding["at_ms"].as_u64() > event["approved_ms"].as_u64(),
        "{finding} {event}"
    );
    let rule = tested
        .of_kind("rule")
        .into_iter()
        .find(|rule| rule["rule"] == finding["rule"])
        .expect("a rule");
    assert_eq!(
        (&rule["section"], &rule["item"]),
        (&Value::from(1), &Value::from("Status codes"))
    );
    let stderr = &tested.finished.stderr;
    assert!(
        stderr.contains("error: 1 of 1 client broke the wire contract"),
        "{stderr}"
    );
    let stdout = &tested.finished.stdout;
    assert!(
        stdout.contains("(docs/inside/wire.md, section 1, Status codes)"),
        "{stdout}"
    );
    // The times of the event: announced, seen within a poll, approved at once, 1 s of 6 s at most.
    let share = event["share_of_notice"].as_f64().expect("a share");
    assert!((0.0..0.7).contains(&share), "{event}");
    assert!(
        event["seen_ms"].as_u64() <= event["approved_ms"].as_u64(),
        "{event}"
    );
}
