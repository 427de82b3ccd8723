//! The clock of the caller steps, and the time of day that the service's answers show does not.

use scheduled_events_core::{Action, EventKind, EventTypes, Policy, Preparation, Rule, UnixMillis};

use crate::common::{Host, START, Setup, event};

const DAY_MS: i64 = 86_400_000;
/// When the clock steps, in seconds after the start.
const STEP: i64 = 20;

/// The steps of a conversation of two and a half minutes, in which the caller's clock steps by so
/// many milliseconds: for each, the second that has really passed, and the step.
fn steps(by_ms: i64) -> Vec<(i64, String)> {
    let freeze = Rule {
        event_types: EventTypes::of(&[EventKind::Freeze]),
        ..Rule::new(Action::Hold)
    };
    let prepare = Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Prepare)
    };
    let policy = Policy::new(&[freeze, prepare]).unwrap();
    let mut host = Host::<4>::new(Setup::new(policy));
    let mut steps = Vec::new();
    for second in 0..150 {
        // `near` is to be prepared for after 30 s; `far` is prepared for too early by a clock that is
        // a day ahead, and `freeze` is over too late by one that is a day behind.
        let mut events = vec![event("near").not_before(330)];
        if second < 110 {
            events.push(event("far").not_before(80_000));
            events.push(event("freeze").event_type("Freeze").not_before(60));
        }
        host.now = UnixMillis(START.0 + second * 1000);
        if second >= STEP {
            host.now = UnixMillis(host.now.0 + by_ms);
            host.session.set_time_of_day_ahead(-by_ms);
        }
        if second == STEP {
            host.last_get = host.now;
        }
        host.run();
        if host.polling {
            host.serve(&events);
        }
        if host.preparing.contains(&"near".to_owned()) {
            host.ready("near");
        }
        steps.extend(host.take_steps().into_iter().map(|step| (second, step)));
    }
    steps
}

/// Fault 31 of `tests/field-faults.md`.
#[test]
fn fault_31_a_clock_that_steps_by_a_day_changes_no_decision() {
    let expected = steps(0);
    let words: Vec<_> = expected.iter().map(|(_, step)| step.as_str()).collect();
    assert_eq!(
        words,
        [
            "near: scheduled",
            "near: prepare (a rule matches)",
            "far: scheduled",
            "far: prepare (a rule matches)",
            "freeze: scheduled",
            "freeze: hold (a rule matches)",
            "prepare near",
            "post near",
            "far: cancelled",
            "freeze: ended",
        ]
    );
    for by_ms in [DAY_MS, -DAY_MS, 600_000, -600_000] {
        let found = steps(by_ms);
        assert_eq!(
            found.iter().map(|(_, step)| step).collect::<Vec<_>>(),
            expected.iter().map(|(_, step)| step).collect::<Vec<_>>(),
            "{by_ms}"
        );
        // The next poll is at most 10 s away, whatever the clock shows.
        for ((at, step), (expected, _)) in found.iter().zip(&expected) {
            assert!(
                (*expected..=expected + 10).contains(at),
                "{step} after {at} s in place of {expected} s, {by_ms}"
            );
        }
    }
}

/// When the clock jumps: with a restart, so that times of a snapshot are involved.
#[derive(Clone, Copy, Debug)]
enum Jump {
    BeforeItIsDue,
    AfterAFailure,
}

/// The steps of a maintenance, each with the number of the poll that it follows. The caller's clock jumps once by this much, and
/// the time of day is known from the service.
fn maintenance(when: Jump, jump_ms: i64) -> Vec<(usize, String)> {
    let policy = Policy::new(&[Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Prepare)
    }])
    .unwrap();
    let mut host = Host::<4>::new(Setup::new(policy));
    let mut steps = Vec::new();
    let announced = [event("a").not_before(900)];
    let jump = |host: &mut Host<4>| {
        host.restart();
        host.now = UnixMillis(host.now.0 + jump_ms);
        host.session.set_time_of_day_ahead(-jump_ms);
    };
    for poll in 0..2_000 {
        match poll {
            100 if matches!(when, Jump::BeforeItIsDue) => jump(&mut host),
            0..1_000 => {}
            // The event is over after its start.
            _ => {
                host.serve(&[]);
                steps.extend(host.take_steps().into_iter().map(|step| (poll, step)));
                continue;
            }
        }
        host.serve(&announced);
        let new = host.take_steps();
        let is_due = new.iter().any(|step| step.starts_with("prepare a"));
        steps.extend(new.into_iter().map(|step| (poll, step)));
        if is_due {
            // The first attempt fails, and is tried again by the caller's clock.
            if steps
                .iter()
                .filter(|(_, step)| step.starts_with("prepare a"))
                .count()
                == 1
            {
                host.prepared("a", Preparation::Failed);
                if matches!(when, Jump::AfterAFailure) {
                    jump(&mut host);
                }
            } else {
                host.ready("a");
            }
            steps.extend(host.take_steps().into_iter().map(|step| (poll, step)));
        }
    }
    steps
}

#[test]
fn fault_31_a_clock_that_jumps_by_a_day_between_two_runs_changes_no_decision() {
    for when in [Jump::BeforeItIsDue, Jump::AfterAFailure] {
        let expected = maintenance(when, 0);
        let at = |word: &str| {
            let found = expected.iter().find(|(_, step)| step.starts_with(word));
            found.unwrap_or_else(|| panic!("{word}: {expected:?}")).0
        };
        assert!(at("prepare a") < at("post a"), "{expected:?}");
        assert!(at("post a") < at("recover a"), "{expected:?}");
        for days in [1, -1] {
            assert_eq!(
                maintenance(when, days * DAY_MS),
                expected,
                "{when:?} {days}"
            );
        }
    }
}
