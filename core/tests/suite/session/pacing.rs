//! When a session polls and approves: interval, back-off, `Retry-After` and request spacing.

use scheduled_events_core::{
    Action, Cause, RequestOutcome, Response, Session, SessionConfig, Step, VmNames, limits,
};

use crate::common::{Exchange, Host, START, VM, event, host, no_steps, setup};

/// When GETs were sent, in milliseconds after the start.
fn polls<const N: usize>(host: &Host<N>) -> Vec<i64> {
    let polls = host
        .trace
        .iter()
        .filter(|entry| matches!(entry.what, Exchange::Get(_)));
    polls.map(|entry| entry.at.0 - START.0).collect()
}

#[test]
fn polls_each_second_with_a_long_first_timeout() {
    let mut host = host::<4>(Action::Hold);
    for _ in 0..4 {
        host.serve(&[]);
    }
    assert_eq!(polls(&host), [0, 1000, 2000, 3000]);

    assert_eq!(timeouts(&host), [130_000, 5_000, 5_000, 5_000]);
}

/// The timeouts of the polls.
fn timeouts<const N: usize>(host: &Host<N>) -> Vec<u32> {
    let timeouts = host.trace.iter().filter_map(|entry| match entry.what {
        Exchange::Get(timeout) => Some(timeout),
        _ => None,
    });
    timeouts.collect()
}

#[test]
fn only_one_request_after_the_start_or_a_day_of_silence_may_take_long() {
    const DAY: u32 = 86_400;
    let mut host = host::<4>(Action::Hold);
    for _ in 0..3 {
        host.fail(Cause::Timeout);
    }
    host.serve(&[]);
    assert_eq!(timeouts(&host), [130_000, 5_000, 5_000, 5_000]);
    host.clear();
    let answered = host.now;
    while host.now.millis_since(answered) < u64::from(2 * DAY + 100) * 1000 {
        host.advance_to_poll();
        host.polling = false;
        host.session.on_failure(Cause::Unreachable, host.now);
    }
    let long: Vec<_> = host
        .trace
        .iter()
        .filter(|entry| entry.what == Exchange::Get(130_000))
        .collect();
    let after: Vec<_> = long
        .iter()
        .map(|entry| entry.at.millis_since(answered) / 1000 / u64::from(DAY))
        .collect();
    assert_eq!(after, [1, 2]);
    // An answer makes the service responsive again.
    host.serve(&[]);
    host.clear();
    host.serve(&[]);
    assert_eq!(timeouts(&host), [5_000]);
}

#[test]
fn a_poll_is_due_an_interval_after_the_last_one_was_sent() {
    let mut session = setup(Action::Hold).session::<4>();
    assert!(matches!(session.take_step(START), Step::Get { .. }));
    assert!(session.awaits_answer());
    let late = START.plus(700);
    session.on_response(
        &Response {
            status: 200,
            body: br#"{"Events":[]}"#,
            ..Response::default()
        },
        late,
    );
    assert!(matches!(session.take_step(late), Step::Wait { until } if until == START.plus(1000)));
}

#[test]
fn back_off_depends_on_the_cause() {
    let steady = [1000, 1000, 1000, 1000, 1000, 1000];
    let doubling = [1000, 2000, 4000, 8000, 10_000, 10_000];
    let permanent = [10_000; 6];
    for (cause, delays) in [
        (Cause::Timeout, doubling),
        (Cause::Unreachable, doubling),
        (Cause::ConnectionLost, doubling),
        (Cause::TooLarge, doubling),
        (Cause::Status(404), doubling),
        (Cause::Status(408), doubling),
        (Cause::Status(410), doubling),
        (Cause::Status(429), doubling),
        (Cause::Status(500), doubling),
        (Cause::Status(503), doubling),
        (Cause::Status(400), permanent),
        (Cause::Status(401), permanent),
        (Cause::Status(403), permanent),
        (Cause::Status(405), permanent),
        (Cause::Status(418), permanent),
        (Cause::Redirect(302), permanent),
        (Cause::EmptyBody, steady),
    ] {
        let mut host = host::<4>(Action::Hold);
        for full in delays {
            host.advance_to_poll();
            let sent = host.last_get;
            let outcome = match cause {
                Cause::Status(status) | Cause::Redirect(status) => host.serve_status(status),
                Cause::EmptyBody => host.serve_body("", &[]),
                cause => host.fail(cause),
            };
            let RequestOutcome::PollFailed {
                cause: reported,
                retry_in_ms,
            } = outcome
            else {
                panic!("{outcome:?}")
            };
            assert_eq!(reported, cause);
            assert!(
                retry_in_ms <= full && retry_in_ms >= full / 2,
                "{cause:?}: {retry_in_ms} of {full}"
            );
            host.advance_to_poll();
            assert_eq!(
                host.last_get.millis_since(sent),
                u64::from(retry_in_ms),
                "{cause:?}"
            );
        }
        // One success restores the interval.
        host.serve(&[]);
        assert!(matches!(
            host.fail(Cause::Timeout),
            RequestOutcome::PollFailed {
                retry_in_ms: 500..=1000,
                ..
            }
        ));
    }
}

#[test]
fn a_410_is_retried_for_more_than_75_seconds() {
    let mut host = host::<4>(Action::Hold);
    while host.now.millis_since(START) < 100_000 {
        host.serve_status(410);
    }
    assert!(
        polls(&host)
            .windows(2)
            .all(|pair| pair[1] - pair[0] <= 10_000)
    );
}

#[test]
fn retry_after_is_honoured_up_to_the_longest_time_between_polls() {
    for (status, seconds, pause) in [
        (429, 7, 7000),
        (503, 30, 10_000),
        (500, 60, 10_000),
        (429, 3600, 10_000),
        (429, u32::MAX, 10_000),
    ] {
        let mut host = host::<4>(Action::Approve);
        let answer = Response {
            status,
            retry_after: Some(seconds),
            ..Response::default()
        };
        let outcome = host.answer(&answer, &[]);
        assert!(
            matches!(outcome, RequestOutcome::PollFailed { retry_in_ms, .. } if retry_in_ms == pause),
            "{outcome:?}"
        );
        host.serve(&[event("a")]);
        assert_eq!(polls(&host), [0, i64::from(pause)], "{status}");
    }
    // The pause applies to approvals too.
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a")]);
    host.answer(
        &Response {
            status: 429,
            retry_after: Some(20),
            ..Response::default()
        },
        &[],
    );
    host.ready("a");
    host.take_steps();
    host.advance_to_poll();
    assert!(host.now.millis_since(START) >= 11_000);
    host.serve(&[event("a")]);
    assert_eq!(host.take_steps(), ["post a"]);
    // `Retry-After` of a success is ignored.
    let body = br#"{"Events":[]}"#;
    let mut host = self::host::<4>(Action::Hold);
    host.answer(
        &Response {
            status: 200,
            retry_after: Some(50),
            body,
        },
        &[],
    );
    host.advance_to_poll();
    assert_eq!(polls(&host), [0, 1000]);
}

#[test]
fn a_preempt_is_seen_in_time_whatever_the_service_answered_before() {
    // Every answer takes as long as it may, or asks for a long pause; approvals that are due fail as slowly.
    for retry_after in [None, Some(5), Some(3600)] {
        let mut host = host::<4>(Action::Approve);
        (host.post_status, host.post_takes_ms) = (None, limits::TIMEOUT_MS);
        host.serve(&[event("a")]);
        while host.now.millis_since(START) < 300_000 {
            host.advance_to_poll();
            host.now = host.now.plus(limits::TIMEOUT_MS);
            host.answer(
                &Response {
                    status: 503,
                    retry_after,
                    ..Response::default()
                },
                &[],
            );
        }
        let longest = polls(&host).windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(10_000), "{longest:?} ms from poll to poll");
        // The pause that the service asks for is for approvals, too.
        let posted = host
            .take_steps()
            .iter()
            .filter(|line| *line == "post a")
            .count();
        assert!(posted > 3 || retry_after.is_some(), "approvals are blocked");
    }
    // A longer interval was chosen.
    let config = SessionConfig {
        interval_ms: 60_000,
        ..SessionConfig::new(VmNames::new(&[VM]))
    };
    let mut session = Session::<4>::new(&config).unwrap();
    assert!(matches!(session.take_step(START), Step::Get { .. }));
    session.on_response(
        &Response {
            status: 200,
            body: br#"{"Events":[]}"#,
            ..Response::default()
        },
        START,
    );
    assert!(
        matches!(session.take_step(START), Step::Wait { until } if until == START.plus(60_000))
    );
}

#[test]
fn at_most_five_requests_per_second() {
    let mut host = host::<64>(Action::Approve);
    host.post_status = Some(500);
    let events: Vec<_> = (0..60).map(|n| event(&format!("e{n}"))).collect();
    while host.now.millis_since(START) < 60_000 {
        host.serve(&events);
    }
    let requests = host
        .trace
        .iter()
        .filter(|entry| matches!(entry.what, Exchange::Get(_) | Exchange::Post(_)));
    let times: Vec<_> = requests.map(|entry| entry.at.0).collect();
    assert!(times.windows(6).all(|six| six[5] - six[0] >= 1000));
}

#[test]
fn failing_approvals_do_not_block_polling() {
    // Each POST times out or is refused immediately, so that there is always another one due.
    for (count, post_takes_ms, post_status) in [
        (2, 5_000, None),
        (8, 5_000, None),
        (64, 0, Some(500)),
        (64, 100, Some(400)),
    ] {
        let mut host = host::<64>(Action::Approve);
        (host.post_takes_ms, host.post_status) = (post_takes_ms, post_status);
        let events: Vec<_> = (0..count).map(|n| event(&format!("e{n}"))).collect();
        for _ in 0..60 {
            host.serve(&events);
        }
        let longest = polls(&host).windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(
            longest <= Some(i64::from(post_takes_ms) + 1_400),
            "{count} events, {longest:?} ms without a poll"
        );
    }
}

#[test]
fn slow_polls_do_not_block_approvals() {
    // Each poll takes longer than its timeout, as on a disk or a processor with a lot of other work.
    for poll_takes_ms in [5_001, 6_000, 30_000] {
        let mut host = host::<4>(Action::Approve);
        let mut lines = Vec::new();
        for _ in 0..6 {
            host.advance_to_poll();
            host.now = host.now.plus(poll_takes_ms);
            host.serve(&[event("a")]);
            lines.extend(host.take_steps());
        }
        assert!(
            lines.iter().any(|line| line == "post a"),
            "{poll_takes_ms} ms a poll: {lines:?}"
        );
    }
}

#[test]
fn a_304_is_a_failed_poll_that_ends_no_event() {
    let mut host = host::<4>(Action::Hold);
    host.serve(&[event("a")]);
    host.take_steps();
    for _ in 0..3 {
        let outcome = host.serve_status(304);
        assert!(
            matches!(
                outcome,
                RequestOutcome::PollFailed {
                    cause: Cause::Status(304),
                    ..
                }
            ),
            "{outcome:?}"
        );
    }
    assert_eq!(host.take_steps(), no_steps());
    assert_eq!(host.session.events().count(), 1);
}
