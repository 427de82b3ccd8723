//! Preparations that failed: fault 29 of `tests/field-faults.md`.

use scheduled_events_core::limits::{PREPARE_RETRY_FIRST_MS, PREPARE_RETRY_MAX_MS};
use scheduled_events_core::{
    Action, GateAnswer, LastCall, OpenFailures, Preparation, UnixMillis, UnixSeconds, WaitsFor,
};

use crate::common::{Entry, Exchange, Host, START, Setup, Spec, event, host, setup};

/// Polls until `Step::Prepare` is issued, and returns after how many milliseconds that was.
fn retried_after<const N: usize>(host: &mut Host<N>, events: &[Spec]) -> Option<u64> {
    let since = host.now;
    while host.now.millis_since(since) < 200_000 {
        host.serve(events);
        if !host.preparing.is_empty() {
            let at = host.now;
            return Some(at.millis_since(since));
        }
    }
    None
}

fn is_near(measured: Option<u64>, expected: u32) -> bool {
    // A retry does not wait for a poll, but this host looks after each one.
    measured.is_some_and(|measured| {
        (u64::from(expected)..=u64::from(expected) + 1_500).contains(&measured)
    })
}

#[test]
fn a_preparation_that_failed_is_tried_again_later_each_time_and_then_approved() {
    let events = [event("a")];
    let mut host = host::<4>(Action::Prepare);
    host.serve(&events);
    let mut delay = PREPARE_RETRY_FIRST_MS;
    for _ in 0..6 {
        assert!(host.prepared("a", Preparation::Failed));
        let (_, waiting) = host.session.waiting(host.now).next().unwrap();
        assert_eq!(waiting.waits_for, WaitsFor::Preparation);
        let until = waiting.until.expect("the time of the next attempt");
        assert_eq!(until, host.now.plus(delay).seconds());
        let after = retried_after(&mut host, &events);
        assert!(is_near(after, delay), "{after:?}, expected {delay}");
        delay = (2 * delay).min(PREPARE_RETRY_MAX_MS);
    }
    host.take_steps();
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
}

#[test]
fn the_last_attempt_must_still_fit_in_before_the_start() {
    // The start is in 100 s. An attempt that takes 40 s is made at 0 s and at 45 s, and not at 95 s.
    let events = [event("a").not_before(100)];
    let mut host = host::<4>(Action::Prepare);
    host.serve(&events);
    let begin = host.now;
    for retried in [true, false] {
        let attempt = host.now;
        while host.now.millis_since(attempt) < 40_000 {
            host.serve(&events);
        }
        assert!(host.prepared("a", Preparation::Failed));
        let after = retried_after(&mut host, &events);
        assert_eq!(
            after.is_some(),
            retried,
            "{} ms",
            host.now.millis_since(begin)
        );
    }
    let (_, waiting) = host.session.waiting(host.now).next().unwrap();
    assert_eq!(waiting.waits_for, WaitsFor::StartUnprepared);
    // More time: it is tried again.
    let later = [event("a").not_before(900)];
    assert!(retried_after(&mut host, &later).is_some());
}

#[test]
fn a_preparation_that_was_abandoned_or_has_no_retries_left_is_not_tried_again() {
    let events = [event("a")];
    for (retries, answer, attempts) in [
        (None, Preparation::Abandoned, 1),
        (Some(0), Preparation::Failed, 1),
        (Some(2), Preparation::Failed, 3),
    ] {
        let mut host = Host::<4>::new(Setup {
            prepare_retries: retries,
            ..setup(Action::Prepare)
        });
        host.serve(&events);
        for attempt in 1..=attempts {
            assert!(host.prepared("a", answer));
            let again = retried_after(&mut host, &events);
            assert_eq!(
                again.is_some(),
                attempt < attempts,
                "{retries:?} {answer:?}"
            );
        }
        assert!(
            !host
                .take_steps()
                .iter()
                .any(|step| step.starts_with("post"))
        );
        // Neither after a restart, since that is part of the snapshot. No decision says that it would be.
        host.restart();
        let before = host.trace.len();
        host.serve(&events);
        let prepares = |entry: &Entry| matches!(&entry.what, Exchange::Decision(_, decision) if decision.action == Action::Prepare);
        assert!(!host.trace[before..].iter().any(prepares));
        assert_eq!(retried_after(&mut host, &events), None);
        // The machine was taken out of service, and comes back after the event.
        host.serve(&[]);
        assert!(
            host.take_steps()
                .iter()
                .any(|step| step.starts_with("recover"))
        );
    }
}

#[test]
fn it_is_not_tried_again_once_the_event_has_started_or_is_to_be_held() {
    for after in [event("a").started(), event("a").status("Frozen")] {
        let mut host = host::<4>(Action::Prepare);
        host.serve(&[event("a")]);
        host.prepared("a", Preparation::Failed);
        assert_eq!(retried_after(&mut host, &[after]), None);
    }
}

#[test]
fn a_restart_forgets_neither_the_number_of_attempts_nor_the_delay() {
    let events = [event("a")];
    let mut host = Host::<4>::new(Setup {
        prepare_retries: Some(2),
        ..setup(Action::Prepare)
    });
    host.serve(&events);
    for delay in [PREPARE_RETRY_FIRST_MS, 2 * PREPARE_RETRY_FIRST_MS] {
        host.prepared("a", Preparation::Failed);
        host.restart();
        let after = retried_after(&mut host, &events);
        assert!(is_near(after, delay), "{after:?}, expected {delay}");
        // A restart interrupts an attempt, which runs again and does not count.
        host.restart();
        let after = retried_after(&mut host, &events);
        assert!(is_near(after, 0), "{after:?}");
    }
    host.prepared("a", Preparation::Failed);
    host.restart();
    assert_eq!(retried_after(&mut host, &events), None);
}

#[test]
fn a_clock_that_jumps_during_a_restart_does_not_change_the_delay() {
    let events = [event("a").not_before(700_000)];
    for jump in [-86_400_000, 86_400_000] {
        let mut host = host::<4>(Action::Prepare);
        host.serve(&events);
        host.prepared("a", Preparation::Failed);
        host.restart();
        host.now = UnixMillis(host.now.0 + jump);
        let after = retried_after(&mut host, &events);
        assert!(is_near(after, PREPARE_RETRY_FIRST_MS), "{after:?}");
    }
}

/// At its time it would not fit in any more, but at once it does.
#[test]
fn the_last_attempt_is_made_earlier_if_it_would_come_too_late() {
    let events = [event("a").not_before(90)];
    // An attempt takes 40 s, so the last one can begin at 50 s. The one that fails after about 46 s would be repeated after 56 s:
    // it is repeated half-way, after about 48 s.
    let mut host = host::<4>(Action::Prepare);
    host.serve(&events);
    host.prepared("a", Preparation::Failed);
    assert!(is_near(
        retried_after(&mut host, &events),
        PREPARE_RETRY_FIRST_MS
    ));
    let begin = host.now;
    while host.now.millis_since(begin) < 40_000 {
        host.serve(&events);
    }
    host.prepared("a", Preparation::Failed);
    let left = host.session.waiting(host.now).next().unwrap().1;
    assert_eq!(left.waits_for, WaitsFor::Preparation);
    let after = retried_after(&mut host, &events).expect("another attempt");
    assert!(after < 4_000, "{after}");
    // One that fails at once is not repeated faster and faster until the start.
    let mut attempts = 0;
    while host.now < START.plus(90_000) {
        attempts += usize::from(host.prepared("a", Preparation::Failed));
        host.serve(&events);
    }
    assert!(attempts < 8, "{attempts}");
}

#[test]
fn a_retry_and_a_last_call_do_not_run_side_by_side() {
    // The gate is open, and closed after the first attempt. The last call is 60 s before the start.
    let events = [event("a").not_before(300)];
    let mut host = Host::<4>::new(Setup {
        gate: true,
        last_call: LastCall::Before(60),
        ..setup(Action::Prepare)
    });
    host.gate_answer = Some(GateAnswer::Open);
    host.serve(&events);
    host.prepared("a", Preparation::Failed);
    host.gate_answer = Some(GateAnswer::Closed);
    // Another description: the gate is asked again, and does not let the machine prepare.
    let changed = [event("a").not_before(300).source("User")];
    let start = UnixSeconds(START.seconds().0 + 300);
    let mut issued = Vec::new();
    while host.now.seconds() < start {
        host.serve(&changed);
        assert!(host.preparing.len() <= 1);
        if !host.preparing.is_empty() && issued.len() < 2 {
            issued.push(host.now);
            host.prepared("a", Preparation::Failed);
        }
    }
    let last_call = UnixMillis(1000 * (start.0 - 60));
    assert!(
        issued[0] >= last_call && issued[0] < last_call.plus(6_000),
        "{issued:?}"
    );
    assert!(issued.len() == 2, "{issued:?}");
}

/// The gate's yes is about the event as it is: the model of the fleet's gate relies on that.
#[test]
fn a_retry_asks_a_gate_that_said_yes_only_after_a_restart() {
    let events = [event("a")];
    let mut host = Host::<4>::new(Setup {
        gate: true,
        ..setup(Action::Prepare)
    });
    host.gate_answer = Some(GateAnswer::Open);
    let asked_for = |host: &mut Host<4>| {
        let before = host.trace.len();
        assert!(retried_after(host, &events).is_some());
        let asks = |entry: &&Entry| entry.what.to_string().starts_with("gate");
        host.trace[before..].iter().filter(asks).count()
    };
    assert_eq!(asked_for(&mut host), 1);
    host.prepared("a", Preparation::Failed);
    assert_eq!(asked_for(&mut host), 0);
    host.prepared("a", Preparation::Failed);
    host.restart();
    assert_eq!(asked_for(&mut host), 1);
}

/// Fault 43 of `tests/field-faults.md`.
#[test]
fn a_failed_preparation_is_an_open_failure_until_one_succeeds_or_the_event_is_over() {
    let events = [event("a")];
    for succeeds in [true, false] {
        let mut host = host::<4>(Action::Prepare);
        host.serve(&events);
        assert_eq!(host.session.open_failures(), OpenFailures::default());
        assert!(host.prepared("a", Preparation::Failed));
        assert_eq!(host.session.open_failures().preparations, 1);
        assert!(retried_after(&mut host, &events).is_some());
        // It is open while the next attempt runs.
        assert_eq!(host.session.open_failures().preparations, 1);
        if succeeds {
            host.ready("a");
        } else {
            assert!(host.prepared("a", Preparation::Abandoned));
            host.serve(&[event("a").started()]);
            assert_eq!(host.session.open_failures().preparations, 1);
            host.serve(&[]);
        }
        assert_eq!(host.session.open_failures().preparations, 0);
    }
}

/// The last attempt was made earlier than the delay says, and succeeds: the approval does not wait for the rest of the delay.
#[test]
fn an_approval_does_not_wait_for_the_time_of_a_retry_that_was_made_earlier() {
    let events = [event("a").not_before(100)];
    let mut host = host::<4>(Action::Prepare);
    host.serve(&events);
    // Four attempts that fail at once, then one that takes long: the delay is a minute, and half-way to the last moment is sooner.
    for _ in 0..4 {
        assert!(host.prepared("a", Preparation::Failed));
        assert!(retried_after(&mut host, &events).is_some());
    }
    assert!(host.prepared("a", Preparation::Failed));
    let after = retried_after(&mut host, &events).expect("an attempt before the start");
    assert!(after < u64::from(PREPARE_RETRY_MAX_MS), "{after}");
    host.take_steps();
    let ready_at = host.now;
    host.ready("a");
    host.serve(&events);
    assert_eq!(host.take_steps(), ["post a"]);
    assert!(host.now.millis_since(ready_at) < 2_000);
}
