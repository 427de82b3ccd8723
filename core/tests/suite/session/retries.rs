//! Preparations that failed: fault 29 of `tests/field-faults.md`.

use scheduled_events_core::limits::{PREPARE_RETRY_FIRST_MS, PREPARE_RETRY_MAX_MS};
use scheduled_events_core::{
    Action, GateAnswer, LastCall, OpenFailures, Preparation, UnixMillis, UnixSeconds, WaitsFor,
};

use crate::common::{Host, START, Setup, Spec, event, host, setup};

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
        // Neither after a restart, since that is part of the snapshot.
        host.restart();
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
fn a_restart_tries_again_at_once() {
    let events = [event("a")];
    let mut host = host::<4>(Action::Prepare);
    host.serve(&events);
    host.prepared("a", Preparation::Failed);
    host.restart();
    let after = retried_after(&mut host, &events);
    assert!(is_near(after, 0), "{after:?}");
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
