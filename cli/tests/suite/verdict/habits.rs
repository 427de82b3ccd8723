//! Imitations of real clients, each with a habit that the verdict detects.

use super::*;
use crate::support::together;

const CLIENTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/suite/verdict/clients.py"
);

/// An event of this machine with a notice that is longer than any pause that a client may make.
const LONG: &str = r#"
    about = "A Freeze of this VM with a notice of 17 seconds."
    [[event]]
    event_type = "Freeze"
    appears = "1s"
    notice = "17s"
    started_for = "1s"
"#;

/// One event of this machine.
const OWN: &str = r#"
    about = "A Freeze of this VM."
    [[event]]
    event_type = "Freeze"
    notice = "4s"
    started_for = "1s"
"#;

/// A Freeze that hides a Preempt.
const TWO: &str = r#"
    about = "A Freeze and a Preempt of this VM."
    [[event]]
    event_type = "Freeze"
    notice = "8s"
    starts_after_approval = "6s"
    started_for = "2s"
    [[event]]
    event_type = "Preempt"
    appears = "2s"
    notice = "4s"
    started_for = "1s"
"#;

/// A Preempt, which removes the machine.
const REMOVED: &str = r#"
    about = "A Preempt of this VM."
    [[event]]
    event_type = "Preempt"
    appears = "1s"
    notice = "8s"
    started_for = "1s"
"#;

/// A client, the scenario and the faults that show its habit, the rules that it breaks, and the
/// rules with a warning.
struct Habit {
    client: &'static str,
    scenario: &'static str,
    faults: &'static [&'static str],
    broken: &'static [&'static str],
    warned: &'static [&'static str],
}

const HABIT: Habit = Habit {
    client: "",
    scenario: SHORT,
    faults: &[],
    broken: &[],
    warned: &[],
};

const HABITS: &[Habit] = &[
    Habit {
        client: "careful",
        ..HABIT
    },
    Habit {
        client: "rare-poll",
        scenario: LONG,
        broken: &["poll-gap", "missed-event"],
        ..HABIT
    },
    Habit {
        client: "drain-in-the-loop",
        scenario: LONG,
        broken: &["poll-gap"],
        ..HABIT
    },
    Habit {
        client: "node-sample",
        broken: &["approved-other", "approved-started"],
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        faults: &["repeated-id"],
        broken: &["approved-unreadable"],
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        faults: &["member:EventType"],
        broken: &["approved-unreadable"],
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        faults: &["member:EventStatus"],
        broken: &["approved-unreadable"],
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        faults: &["member:Resources"],
        broken: &["approved-other", "approved-unreadable"],
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        faults: &[r#"member:DurationInSeconds,"unknown""#],
        broken: &["approved-unreadable"],
        ..HABIT
    },
    Habit {
        client: "approves-any-id",
        scenario: OWN,
        faults: &["member:EventSource,7"],
        broken: &["approved-unreadable"],
        ..HABIT
    },
    Habit {
        client: "approves-at-every-poll",
        broken: &["approved-again"],
        ..HABIT
    },
    Habit {
        client: "ignores-the-answer",
        scenario: LONG,
        faults: &["post.status:500@1"],
        broken: &["gave-up"],
        warned: &["not-approved"],
    },
    Habit {
        client: "ends-at-any-status",
        faults: &["get.status:503@3"],
        broken: &["gave-up"],
        ..HABIT
    },
    Habit {
        client: "ends-at-the-fourth-error",
        scenario: LONG,
        faults: &["get.status:410@2-"],
        broken: &["gave-up"],
        ..HABIT
    },
    Habit {
        client: "stops-after-one-event",
        broken: &["stops-polling"],
        ..HABIT
    },
    Habit {
        client: "first-event-only",
        scenario: TWO,
        warned: &["not-approved"],
        ..HABIT
    },
    Habit {
        client: "follows-redirects",
        faults: &["get.redirect:302,/elsewhere@2"],
        broken: &["url", "redirect"],
        ..HABIT
    },
    Habit {
        client: "follows-redirects",
        faults: &["get.redirect:302@2"],
        broken: &["url", "redirect"],
        ..HABIT
    },
    Habit {
        client: "impatient",
        faults: &["first-call-delay:4"],
        warned: &["first-request"],
        ..HABIT
    },
    Habit {
        client: "no-back-off",
        faults: &["get.status:429@2-8"],
        warned: &["back-off"],
        ..HABIT
    },
    Habit {
        client: "busy",
        broken: &["request-rate"],
        ..HABIT
    },
    Habit {
        client: "old-version",
        scenario: TWO,
        broken: &["missed-event"],
        ..HABIT
    },
    Habit {
        client: "newer-version",
        ..HABIT
    },
    Habit {
        client: "newer-version",
        faults: &["unknown-version:404"],
        ..HABIT
    },
    Habit {
        client: "blind",
        broken: &["version-fallback"],
        ..HABIT
    },
    Habit {
        client: "no-header-in-post",
        broken: &["header"],
        ..HABIT
    },
    Habit {
        client: "behind-a-proxy",
        broken: &["route"],
        ..HABIT
    },
    Habit {
        client: "asks-a-proxy",
        broken: &["route"],
        ..HABIT
    },
    Habit {
        client: "object-in-place-of-a-list",
        broken: &["start-requests"],
        warned: &["not-approved"],
        ..HABIT
    },
    Habit {
        client: "every-15-seconds",
        scenario: LONG,
        ..HABIT
    },
    Habit {
        client: "one-poll",
        scenario: LONG,
        broken: &["poll-gap", "missed-event"],
        ..HABIT
    },
    Habit {
        client: "ends-with-its-machine",
        scenario: REMOVED,
        ..HABIT
    },
    Habit {
        client: "asks-for-a-token",
        ..HABIT
    },
    Habit {
        client: "nameless",
        warned: &["user-agent"],
        ..HABIT
    },
];

#[test]
fn each_habit_is_found_and_nothing_else() {
    together(HABITS, |habit| {
        let faults: Vec<_> = habit
            .faults
            .iter()
            .flat_map(|fault| ["--fault", fault])
            .collect();
        let tested = test_client(habit.scenario, &faults, &["python3", CLIENTS, habit.client]);
        let found = (tested.rules("failed"), tested.rules("warned"));
        let name = habit.client;
        assert_eq!(
            found,
            (habit.broken.to_vec(), habit.warned.to_vec()),
            "{name}\n{:#?}\n{}",
            tested.messages(),
            tested.finished.stdout
        );
        // A client that ends with an error passes its exit code on.
        let ends_itself = name.starts_with("ends-at");
        let expected = i32::from(!habit.broken.is_empty() || ends_itself);
        assert_eq!(
            tested.finished.code,
            Some(expected),
            "{name}\n{}",
            tested.finished.stderr
        );
        for finding in tested.of_kind("finding") {
            let message = finding["message"].as_str().expect("text");
            assert!(
                message.contains("found ")
                    || message.contains("it ended")
                    || message.contains("the "),
                "{name}: {message}"
            );
            assert!(finding["at_ms"].as_u64().is_some(), "{name}: {finding}");
        }
    });
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
