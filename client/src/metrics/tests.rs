use std::thread;

use scheduled_events_core::{
    Document, OpenFailures, Response, Session, SessionConfig, Step, Text, UnixMillis, VmNames,
};
use scheduled_events_test_support::wait;

use super::*;

const NOW: UnixMillis = UnixMillis(1_600_000_000_000);

/// Metrics after one poll of this document. A session needs a large stack while it is made.
fn polled(body: &str) -> Metrics {
    let body = body.to_owned();
    let poll = move || {
        let mut metrics = Metrics::new();
        let config = SessionConfig::new(VmNames::new(&["vm_0"]));
        let mut session = Box::new(Session::new(&config).unwrap());
        while !matches!(session.take_step(NOW), Step::Get { .. }) {}
        let response = Response {
            status: 200,
            retry_after: None,
            body: body.as_bytes(),
        };
        let outcome = session.on_response(&response, NOW);
        assert_eq!(outcome, RequestOutcome::Document);
        metrics.polled(&Poll {
            outcome,
            duration: Duration::from_millis(3),
            time: NOW.seconds(),
            session: &session,
        });
        metrics
    };
    wait::join(
        thread::Builder::new()
            .stack_size(64 << 20)
            .spawn(poll)
            .unwrap(),
    )
}

fn event(id: &str, event_type: &str, resource: &str) -> String {
    let text = |text: &str| serde_json::to_string(text).unwrap();
    format!(
        r#"{{"EventId":{},"EventType":{},"EventStatus":"Scheduled","ResourceType":"VirtualMachine","Resources":[{}],
        "NotBefore":"Sun, 13 Sep 2020 12:36:40 GMT","EventSource":"Platform","DurationInSeconds":5}}"#,
        text(id),
        text(event_type),
        text(resource)
    )
}

fn document(events: &[String]) -> String {
    format!(
        r#"{{"DocumentIncarnation":1,"Events":[{}]}}"#,
        events.join(",")
    )
}

/// The value of a sample, as the text has it.
fn value<'a>(text: &'a str, sample: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        line.strip_prefix("scheduled_events_")?
            .strip_prefix(sample)?
            .strip_prefix(' ')
    })
}

#[test]
fn everything_that_may_be_counted_starts_at_zero() {
    let text = Metrics::new().text();
    for sample in [
        r#"polls_total{result="document"}"#,
        r#"polls_total{result="status-5xx"}"#,
        r#"changes_total{change="started-without-notice"}"#,
        r#"decisions_total{action="hold"}"#,
        r#"approvals_total{result="accepted"}"#,
        r#"commands_total{kind="gate",outcome="another-approves"}"#,
        r#"events{type="Preempt",status="Scheduled",mine="true"}"#,
        "poll_duration_seconds_count",
        "notice_seconds_count",
        "interruption_seconds_count",
        "last_calls_total",
        "state_save_failures_total",
        "records_dropped_total",
        "last_document_timestamp_seconds",
        "blind_seconds",
        "preparation_failed",
        "recovery_failed",
        "approval_failed",
        "last_call",
        "started_without_notice",
        "state_not_saved",
        "last_dropped_record_timestamp_seconds",
        "out_of_service",
        "config_reload_failed",
    ] {
        assert_eq!(value(&text, sample), Some("0"), "{sample} in\n{text}");
    }
    // The names of families are those of their samples: this is not OpenMetrics' text.
    assert!(
        text.contains("# TYPE scheduled_events_polls_total counter\n"),
        "{text}"
    );
    assert!(
        !text.contains("# EOF") && !text.contains("_total_total"),
        "{text}"
    );
    assert!(text.contains(concat!(
        "scheduled_events_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\"} 1\n"
    )));
}

#[test]
fn every_end_of_a_poll_has_a_result_that_is_listed() {
    let Err(broken) = Document::parse(b"{") else {
        panic!("a document")
    };
    let causes = [
        Cause::Timeout,
        Cause::Unreachable,
        Cause::ConnectionLost,
        Cause::TooLarge,
        Cause::Redirect(302),
        Cause::Status(304),
        Cause::Status(404),
        Cause::Status(503),
        Cause::EmptyBody,
        Cause::NotADocument {
            error: broken,
            position: broken.position(b"{"),
        },
    ];
    let failed = causes.map(|cause| RequestOutcome::PollFailed {
        cause,
        retry_in_ms: 0,
    });
    let answered = [
        RequestOutcome::Document,
        RequestOutcome::Unchanged,
        RequestOutcome::Stale,
    ];
    let mut results: Vec<_> = answered
        .into_iter()
        .chain(failed)
        .filter_map(poll_result)
        .collect();
    let mut listed = POLL_RESULTS;
    results.sort_unstable();
    listed.sort_unstable();
    assert_eq!(results, listed);
    assert_eq!(poll_result(RequestOutcome::Approved), None);
}

#[test]
fn hostile_words_are_escaped_or_other() {
    let id = "a\"b\\c\nd} 1";
    let text = polled(&document(&[
        event(id, "Freeze", "vm_0"),
        event("e2", "Zap\"} 1\n# TYPE x", "vm_0"),
        event("e3", "freeze", "vm_1"),
    ]))
    .text();
    let escaped = r#"event_info{event_id="a\"b\\c\nd} 1",type="Freeze",status="Scheduled"}"#;
    assert_eq!(value(&text, escaped), Some("1"), "{text}");
    assert_eq!(
        value(
            &text,
            r#"event_info{event_id="e2",type="Other",status="Scheduled"}"#
        ),
        Some("1"),
        "{text}"
    );
    // Another machine's event is counted and not named.
    assert_eq!(
        value(
            &text,
            r#"events{type="Other",status="Scheduled",mine="false"}"#
        ),
        Some("1"),
        "{text}"
    );
    assert!(!text.contains("e3") && !text.contains("Zap"), "{text}");
    for line in text.lines() {
        assert!(
            line.starts_with("# HELP scheduled_events_")
                || line.starts_with("# TYPE ")
                || line.starts_with("scheduled_events_")
        );
    }
}

#[test]
fn events_that_are_over_leave_no_id_and_count_zero() {
    let mut metrics = polled(&document(&[event("e1", "Reboot", "vm_0")]));
    let text = metrics.text();
    assert_eq!(
        value(
            &text,
            r#"events{type="Reboot",status="Scheduled",mine="true"}"#
        ),
        Some("1"),
        "{text}"
    );
    assert_eq!(
        value(&text, r#"next_start_timestamp_seconds{type="Reboot"}"#),
        Some("1600000600"),
        "{text}"
    );
    assert_eq!(
        value(&text, "last_document_timestamp_seconds"),
        Some("1600000000"),
        "{text}"
    );
    assert_eq!(
        value(&text, "poll_duration_seconds_sum"),
        Some("0.003"),
        "{text}"
    );
    metrics.count_events(&mut std::iter::empty());
    let text = metrics.text();
    assert_eq!(
        value(
            &text,
            r#"events{type="Reboot",status="Scheduled",mine="true"}"#
        ),
        Some("0"),
        "{text}"
    );
    assert!(
        !text.contains("e1") && !text.contains("next_start_timestamp_seconds"),
        "{text}"
    );
}

#[test]
fn notice_and_interruption_are_those_of_this_machine() {
    let mut metrics = Metrics::new();
    let mut change = |id: &str, change: Change, mine: bool, seconds: i64| {
        let event = EventMembers {
            not_before: Some(UnixSeconds(1_000)),
            mine: Some(mine),
            ..EventMembers::unknown(Text::plain(id))
        };
        metrics.record(&Record::Change { change, event }.at(UnixSeconds(seconds)));
    };
    for (id, mine) in [("a", true), ("b", false)] {
        change(id, Change::Scheduled, mine, 100);
        change(id, Change::Started, mine, 900);
        change(id, Change::Completed, mine, 912);
    }
    // Without notice, and its end is written in another case.
    change("c", Change::StartedWithoutNotice, true, 2_000);
    change("C", Change::Completed, true, 2_030);
    // Cancelled, so that nothing was interrupted.
    change("d", Change::Scheduled, true, 990);
    change("d", Change::Cancelled, true, 995);
    let text = metrics.text();
    for (sample, expected) in [
        ("notice_seconds_count", "3"),
        ("notice_seconds_sum", "910"),
        (r#"notice_seconds_bucket{le="0"}"#, "1"),
        ("interruption_seconds_count", "2"),
        ("interruption_seconds_sum", "42"),
        (r#"changes_total{change="started"}"#, "2"),
    ] {
        assert_eq!(value(&text, sample), Some(expected), "{sample} in\n{text}");
    }
    assert!(metrics.started.is_empty());
}

#[test]
fn approvals_are_counted_by_event_and_result() {
    let mut metrics = Metrics::new();
    for status in [Some(200), Some(400), Some(503), Some(302), None] {
        metrics.record(
            &Record::Approval {
                event_ids: &["a", "b"],
                status,
                events: &[],
            }
            .at(UnixSeconds(0)),
        );
    }
    let text = metrics.text();
    for result in APPROVAL_RESULTS {
        assert_eq!(
            value(&text, &format!(r#"approvals_total{{result="{result}"}}"#)),
            Some("2"),
            "{text}"
        );
    }
}

#[test]
fn a_gate_that_is_closed_has_not_failed() {
    let metrics = Metrics::new();
    let failed = |code| CommandOutcome::Failed {
        code,
        reason: String::new(),
    };
    let _ = metrics.text();
    assert!(!metrics.is_changed());
    for (kind, outcome) in [
        (CommandKind::Gate, failed(Some(1))),
        (CommandKind::Gate, failed(Some(GATE_ANOTHER_APPROVES))),
        (CommandKind::Gate, failed(None)),
        (CommandKind::Prepare, failed(Some(GATE_ANOTHER_APPROVES))),
    ] {
        metrics
            .commands()
            .ended(kind, &outcome, Duration::from_secs(2));
    }
    assert!(metrics.is_changed());
    let text = metrics.text();
    for (kind, outcome) in [
        ("gate", "closed"),
        ("gate", "another-approves"),
        ("gate", "failed"),
        ("prepare", "failed"),
    ] {
        let sample = format!(r#"commands_total{{kind="{kind}",outcome="{outcome}"}}"#);
        assert_eq!(value(&text, &sample), Some("1"), "{sample} in\n{text}");
    }
    assert_eq!(
        value(&text, r#"command_duration_seconds_sum{kind="gate"}"#),
        Some("6"),
        "{text}"
    );
}

#[test]
fn the_status_is_a_change_only_if_it_differs() {
    let mut metrics = Metrics::new();
    let status = |out_of_service, save_failures| WatchStatus {
        answered: true,
        is_polling: true,
        out_of_service,
        save_failures,
        ..WatchStatus::default()
    };
    for (out, failures, is_changed) in [
        (false, 0, true),
        (false, 0, false),
        (true, 0, true),
        (true, 2, true),
        (true, 2, false),
    ] {
        metrics.status(status(out, failures), 0);
        assert_eq!(metrics.is_changed(), is_changed);
        let text = metrics.text();
        assert_eq!(
            value(&text, "out_of_service"),
            Some(if out { "1" } else { "0" })
        );
        assert_eq!(
            value(&text, "state_save_failures_total"),
            Some(failures.to_string().as_str())
        );
    }
    metrics.status(status(true, 2), 7);
    assert!(metrics.is_changed());
    assert_eq!(value(&metrics.text(), "records_dropped_total"), Some("7"));
}

/// Fault 43 of `tests/field-faults.md`.
#[test]
fn what_has_failed_stays_until_it_is_resolved() {
    let mut metrics = Metrics::new();
    let failing = WatchStatus {
        open_failures: OpenFailures {
            preparations: 2,
            recoveries: 1,
            approvals: 1,
            last_calls: 1,
        },
        is_unsaved: true,
        blind_for: Duration::from_millis(12_900),
        clock_offset_seconds: Some(-7),
        ..WatchStatus::default()
    };
    let samples = [
        ("preparation_failed", "2"),
        ("recovery_failed", "1"),
        ("approval_failed", "1"),
        ("last_call", "1"),
        ("state_not_saved", "1"),
        ("blind_seconds", "12"),
    ];
    assert_eq!(value(&metrics.text(), "clock_offset_seconds"), None);
    metrics.status(failing, 1);
    let text = metrics.text();
    for (sample, expected) in samples {
        assert_eq!(value(&text, sample), Some(expected), "{sample} in\n{text}");
    }
    assert_eq!(value(&text, "clock_offset_seconds"), Some("-7"));
    let dropped = |text: &str| {
        let time = value(text, "last_dropped_record_timestamp_seconds");
        time.and_then(|time| time.parse::<i64>().ok()).unwrap()
    };
    assert!(wall_clock().abs_diff(dropped(&text)) < 60, "{text}");
    metrics.status(WatchStatus::default(), 1);
    let text = metrics.text();
    for (sample, _) in samples {
        assert_eq!(value(&text, sample), Some("0"), "{sample} in\n{text}");
    }
    assert!(dropped(&text) > 0, "{text}");
}

#[test]
fn an_event_that_started_without_notice_counts_until_it_is_over() {
    let mut metrics = Metrics::new();
    let record = |change| {
        let event = EventMembers {
            mine: Some(true),
            ..EventMembers::unknown(Text::plain("a"))
        };
        Record::Change { change, event }.at(UnixSeconds(0))
    };
    for (change, expected) in [
        (Change::StartedWithoutNotice, "1"),
        (Change::Updated, "1"),
        (Change::Completed, "0"),
        (Change::Started, "0"),
    ] {
        metrics.record(&record(change));
        let text = metrics.text();
        assert_eq!(
            value(&text, "started_without_notice"),
            Some(expected),
            "{change}"
        );
    }
}
