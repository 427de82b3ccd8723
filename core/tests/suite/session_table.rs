//! Tables of what a session does: pacing, documents, capacity, approvals, names, and the calls of its host.

use scheduled_events_core::{
    Action, Cause, Change, Document, EventKind, EventTypes, Leader, Member, Policy, Preparation, ProblemKind, Report,
    RequestOutcome, Response, Rule, Scope, Session, SessionConfig, SessionConfigError, Step, TrackedEvent, Tracker,
    UnixSeconds, VmNames, limits,
};

use crate::common::{Exchange, Host, OTHER, START, Setup, Spec, VM, document, event, invariants};

fn setup(action: Action) -> Setup {
    Setup::new(Policy::new(&[Rule::new(action)]).unwrap())
}

fn host<const N: usize>(action: Action) -> Host<N> {
    Host::new(setup(action))
}

fn steps_after<const N: usize>(host: &mut Host<N>, events: &[Spec]) -> Vec<String> {
    host.serve(events);
    host.take_steps()
}

fn no_steps() -> Vec<String> {
    Vec::new()
}

/// When GETs were sent, in milliseconds after the start.
fn polls<const N: usize>(host: &Host<N>) -> Vec<i64> {
    let polls = host.trace.iter().filter(|entry| matches!(entry.what, Exchange::Get(_)));
    polls.map(|entry| entry.at.0 - START.0).collect()
}

// Pacing.

#[test]
fn polls_each_second_with_a_long_first_timeout() {
    let mut host = host::<4>(Action::Hold);
    for _ in 0..4 {
        host.serve(&[]);
    }
    assert_eq!(polls(&host), [0, 1000, 2000, 3000]);

    let mut host = self::host::<4>(Action::Hold);
    host.fail(Cause::Timeout);
    host.serve_status(500);
    host.serve(&[]);
    host.fail(Cause::Timeout);
    host.advance_to_poll();
    let timeouts: Vec<_> = host
        .trace
        .iter()
        .filter_map(|entry| match entry.what {
            Exchange::Get(timeout) => Some(timeout),
            _ => None,
        })
        .collect();
    assert_eq!(timeouts, [130_000, 130_000, 130_000, 10_000, 10_000]);
}

#[test]
fn a_poll_is_due_an_interval_after_the_last_one_was_sent() {
    let mut session = setup(Action::Hold).session::<4>();
    assert!(matches!(session.next(START), Step::Get { .. }));
    assert!(session.awaits_answer());
    let late = START.plus(700);
    session.on_response(&Response { status: 200, body: br#"{"Events":[]}"#, ..Response::default() }, late);
    assert!(matches!(session.next(late), Step::Wait { until } if until == START.plus(1000)));
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
            let RequestOutcome::PollFailed { cause: reported, retry_in_ms } = outcome else { panic!("{outcome:?}") };
            assert_eq!(reported, cause);
            assert!(retry_in_ms <= full && retry_in_ms >= full / 2, "{cause:?}: {retry_in_ms} of {full}");
            host.advance_to_poll();
            assert_eq!(host.last_get.millis_since(sent), u64::from(retry_in_ms), "{cause:?}");
        }
        // One success restores the interval.
        host.serve(&[]);
        assert!(matches!(host.fail(Cause::Timeout), RequestOutcome::PollFailed { retry_in_ms: 500..=1000, .. }));
    }
}

#[test]
fn a_410_is_retried_for_more_than_75_seconds() {
    let mut host = host::<4>(Action::Hold);
    while host.now.millis_since(START) < 100_000 {
        host.serve_status(410);
    }
    assert!(polls(&host).windows(2).all(|pair| pair[1] - pair[0] <= 10_000));
}

#[test]
fn retry_after_is_honoured_up_to_a_minute() {
    for (status, seconds, pause) in
        [(429, 7, 7000), (503, 30, 30_000), (500, 60, 60_000), (429, 3600, 60_000), (429, u32::MAX, 60_000)]
    {
        let mut host = host::<4>(Action::Approve);
        let answer = Response { status, retry_after: Some(seconds), ..Response::default() };
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
    host.answer(&Response { status: 429, retry_after: Some(20), ..Response::default() }, &[]);
    host.ready("a");
    host.take_steps();
    host.advance_to_poll();
    assert_eq!(host.take_steps(), ["post a"]);
    assert!(host.now.millis_since(START) >= 21_000);
    // `Retry-After` of a success is ignored.
    let body = br#"{"Events":[]}"#;
    let mut host = self::host::<4>(Action::Hold);
    host.answer(&Response { status: 200, retry_after: Some(50), body }, &[]);
    host.advance_to_poll();
    assert_eq!(polls(&host), [0, 1000]);
}

#[test]
fn at_most_five_requests_per_second() {
    let mut host = host::<64>(Action::Approve);
    host.post_status = Some(500);
    let events: Vec<_> = (0..60).map(|n| event(&format!("e{n}"))).collect();
    while host.now.millis_since(START) < 60_000 {
        host.serve(&events);
    }
    let requests = host.trace.iter().filter(|entry| matches!(entry.what, Exchange::Get(_) | Exchange::Post(_)));
    let times: Vec<_> = requests.map(|entry| entry.at.0).collect();
    assert!(times.windows(6).all(|six| six[5] - six[0] >= 1000));
}

#[test]
fn failing_approvals_do_not_block_polling() {
    // Each POST times out or is refused immediately, so that there is always another one due.
    for (count, post_takes_ms, post_status) in
        [(2, 10_000, None), (8, 10_000, None), (64, 0, Some(500)), (64, 100, Some(400))]
    {
        let mut host = host::<64>(Action::Approve);
        (host.post_takes_ms, host.post_status) = (post_takes_ms, post_status);
        let events: Vec<_> = (0..count).map(|n| event(&format!("e{n}"))).collect();
        for _ in 0..60 {
            host.serve(&events);
        }
        let longest = polls(&host).windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(10_000 + 1_400), "{count} events, {longest:?} ms without a poll");
    }
}

#[test]
fn a_304_is_a_failed_poll_that_ends_no_event() {
    let mut host = host::<4>(Action::Hold);
    host.serve(&[event("a")]);
    host.take_steps();
    for _ in 0..3 {
        let outcome = host.serve_status(304);
        assert!(matches!(outcome, RequestOutcome::PollFailed { cause: Cause::Status(304), .. }), "{outcome:?}");
    }
    assert_eq!(host.take_steps(), no_steps());
    assert_eq!(host.session.events().count(), 1);
}

// Stale and repeated documents.

#[test]
fn a_stale_document_is_accepted_if_it_stays() {
    let mut host = host::<4>(Action::Hold);
    let (old, new) = (document(1, &[event("a")]), document(2, &[]));
    host.serve_body(&old, &[event("a")]);
    host.serve_body(&new, &[]);
    host.take_steps();
    for second in 0..10 {
        assert_eq!(host.serve_body(&old, &[event("a")]), RequestOutcome::Stale, "after {second} s");
    }
    assert_eq!(host.take_steps(), no_steps());
    assert_eq!(host.serve_body(&old, &[event("a")]), RequestOutcome::Document);
    assert_eq!(host.take_steps(), ["a: scheduled", "a: hold (a rule matches)"]);
    // Two servers answer alternately, and one of them is outdated.
    for _ in 0..20 {
        assert_eq!(host.serve_body(&new, &[]), RequestOutcome::Stale);
        assert_eq!(host.serve_body(&old, &[event("a")]), RequestOutcome::Unchanged);
    }
    assert_eq!(host.take_steps(), no_steps());
    // Without an incarnation, equal bytes do not mean that a document is old.
    let plain = r#"{"Events":[]}"#;
    host.serve_body(plain, &[]);
    assert_eq!(host.take_steps(), ["a: cancelled"]);
    host.serve(&[event("b")]);
    assert_eq!(host.serve_body(plain, &[]), RequestOutcome::Document);
}

#[test]
fn the_last_four_superseded_documents_are_recognised() {
    let mut host = host::<4>(Action::Hold);
    let events = [event("a")];
    let bodies: Vec<_> = (1..=6).map(|incarnation| document(incarnation, &events)).collect();
    for body in &bodies {
        assert_eq!(host.serve_body(body, &events), RequestOutcome::Document);
    }
    for body in &bodies[1..5] {
        assert_eq!(host.serve_body(body, &events), RequestOutcome::Stale);
    }
    assert_eq!(host.serve_body(&bodies[0], &events), RequestOutcome::Document);
}

#[test]
fn a_started_event_is_not_prepared_for_if_a_document_shows_it_as_scheduled() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a").started()]);
    host.take_steps();
    assert_eq!(steps_after(&mut host, &[event("a")]), no_steps());
    assert_eq!(steps_after(&mut host, &[]), ["a: completed"]);
}

#[test]
fn a_final_status_is_reported_once_even_if_the_recovery_takes_long() {
    for (word, change) in [("Completed", "completed"), ("Canceled", "cancelled")] {
        let mut host = host::<4>(Action::Prepare);
        host.recovers = false;
        host.serve(&[event("a")]);
        host.ready("a");
        host.take_steps();
        let over = [event("a").status(word)];
        assert_eq!(steps_after(&mut host, &over), [format!("a: {change}"), String::from("recover a")]);
        for _ in 0..3 {
            assert_eq!(steps_after(&mut host, &over), no_steps(), "{word}");
        }
    }
}

#[test]
fn the_first_of_several_events_with_one_id_counts() {
    let mut events = vec![event("a").resources(&[OTHER]); 20];
    events[19] = event("A");
    let mut host = host::<4>(Action::Approve);
    host.serve(&events[..1]);
    host.take_steps();
    host.serve(&events);
    let steps = host.take_steps();
    assert!(steps.iter().all(|line| line == "problem: repeated"), "{steps:?}");
}

#[test]
fn repeated_ids_that_the_document_does_not_omit_are_reported_and_ignored() {
    // The document compares the first 64 ids only.
    const FIRST: usize = 70;
    let mut events: Vec<_> = (0..FIRST).map(|n| event(&format!("e{n}"))).collect();
    events.extend(["e66", "E67"].map(|id| event(id).started()));
    let body = document(1, &events);
    let response = Response { status: 200, body: body.as_bytes(), ..Response::default() };
    let mut session = setup(Action::Hold).session::<80>();
    for started in [false, true] {
        let now = if started { START.plus(1000) } else { START };
        assert!(matches!(session.next(now), Step::Get { .. }));
        if started {
            // The same events again: now the first ones are known.
            let body = document(2, &events);
            session.on_response(&Response { body: body.as_bytes(), ..response }, now);
        } else {
            session.on_response(&response, now);
        }
        let (mut problems, mut others) = (Vec::new(), 0);
        while let Step::Report(report) = session.next(now) {
            match report {
                Report::Problem(problem) => problems.push(problem),
                _ => others += 1,
            }
        }
        assert_eq!(others, if started { 0 } else { 2 * FIRST });
        for (problem, index) in problems.iter().zip(FIRST..) {
            assert_eq!(problem.event, Some(index));
            assert_eq!((problem.member, problem.kind), (Some(Member::EventId), ProblemKind::Repeated));
            assert!(body[problem.offset..].to_ascii_lowercase().starts_with(&format!(r#""e{}""#, index - 4)));
        }
        assert_eq!(problems.len(), 2);
    }
    assert_eq!(session.events().count(), FIRST);
}

#[test]
fn an_event_that_comes_and_goes_is_approved_once() {
    for action in [Action::Approve, Action::Prepare] {
        let mut host = host::<4>(action);
        host.serve(&[event("a")]);
        if action == Action::Prepare {
            host.ready("a");
        }
        host.serve(&[]);
        host.take_steps();
        // It is a new event and prepared for again, since it was recovered from, but it is not approved twice.
        for _ in 0..3 {
            host.serve(&[event("A")]);
            for id in host.preparing.clone() {
                host.ready(&id);
            }
            host.serve(&[]);
        }
        let steps = host.take_steps();
        let count = |line: &str| steps.iter().filter(|step| *step == line).count();
        assert_eq!((count("A: scheduled"), count("A: ended"), count("post A")), (3, 3, 0), "{steps:?}");
        assert_eq!(count("prepare A"), if action == Action::Prepare { 3 } else { 0 });
    }
}

#[test]
fn an_event_that_returns_during_its_recovery_waits_for_it() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    host.serve(&[]);
    host.ready("a");
    host.take_steps();
    let again = document(77, &[event("a")]);
    host.serve_body(&again, &[event("a")]);
    assert_eq!(host.take_steps(), no_steps());
    host.recovered("a");
    host.serve_body(&again, &[event("a")]);
    assert_eq!(host.take_steps(), ["a: scheduled", "a: prepare (a rule matches)", "prepare a"]);
}

// Capacity.

#[test]
fn own_events_and_earliest_deadlines_are_tracked_first() {
    let others: Vec<_> = (0..5).map(|n| event(&format!("o{n}")).resources(&[OTHER])).collect();
    let mut host = host::<2>(Action::Hold);
    host.serve(&others);
    assert!(host.take_steps().contains(&String::from("not tracked: 0 own, 3 others")));
    let own = [event("week").not_before(604_800), event("day").not_before(86_400), event("minute").not_before(60)];
    let followed = |host: &Host<2>| {
        let mut ids: Vec<_> = host.session.events().map(|event| event.event_id().to_string()).collect();
        ids.sort();
        ids
    };
    // The order in the document does not matter.
    host.serve(&[&others[..], &own[..2]].concat());
    assert_eq!(followed(&host), ["day", "week"]);
    assert!(host.take_steps().contains(&String::from("not tracked: 0 own, 5 others")));
    host.serve(&[&others[..], &own[..]].concat());
    assert_eq!(followed(&host), ["day", "minute"]);
    assert!(host.take_steps().contains(&String::from("not tracked: 1 own, 5 others")));
    host.serve(&[&own[1..], &own[..1], &others[..]].concat());
    assert_eq!(followed(&host), ["day", "minute"]);
    assert_eq!(host.take_steps(), no_steps());
    // Free capacity is used even if the document does not change.
    let rest = [own[0].clone(), own[2].clone()];
    host.serve(&rest);
    host.serve_body(&document(host.incarnation, &rest), &rest);
    assert_eq!(followed(&host), ["minute", "week"]);
    let steps = host.take_steps();
    assert_eq!(steps.last().map(String::as_str), Some("not tracked: 0 own, 0 others"), "{steps:?}");
}

#[test]
fn approved_events_are_evicted_last() {
    let approve = Rule { event_types: EventTypes::of(&[EventKind::Freeze]), ..Rule::new(Action::Approve) };
    let policy = Policy::new(&[approve, Rule::new(Action::Hold)]).unwrap();
    let mut host = Host::<2>::new(Setup::new(policy));
    let both = [
        event("approved").event_type("Freeze").not_before(604_800),
        event("held").event_type("Reboot").not_before(86_400),
    ];
    host.serve(&both);
    host.serve(&both);
    assert!(host.take_steps().contains(&String::from("post approved")));
    host.serve(&[&both[..], &[event("soon").event_type("Reboot").not_before(60)]].concat());
    let mut ids: Vec<_> = host.session.events().map(|event| event.event_id().to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["approved", "soon"]);
}

#[test]
fn a_prepared_event_is_never_evicted() {
    let mut host = host::<1>(Action::Prepare);
    host.serve(&[event("late").not_before(604_800)]);
    host.take_steps();
    let both = [event("late").not_before(604_800), event("soon").not_before(30)];
    assert_eq!(steps_after(&mut host, &both), ["not tracked: 1 own, 0 others"]);
    host.ready("late");
    assert_eq!(host.take_steps(), ["post late"]);
    assert_eq!(steps_after(&mut host, &[]), ["late: ended", "recover late", "not tracked: 0 own, 0 others"]);
}

#[test]
fn an_end_is_classified_by_the_time_of_day() {
    for (ahead_ms, change) in [(800_000, "cancelled"), (900_000, "ended"), (i64::MAX, "ended"), (i64::MIN, "cancelled")]
    {
        let mut host = host::<1>(Action::Hold);
        host.serve(&[event("a").not_before(900)]);
        host.take_steps();
        host.session.set_time_of_day_ahead(ahead_ms);
        assert_eq!(steps_after(&mut host, &[]), [format!("a: {change}")], "{ahead_ms}");
    }
}

// Approvals.

#[test]
fn a_request_approves_at_most_32_events() {
    let mut host = host::<64>(Action::Approve);
    let events: Vec<_> = (0..40).map(|n| event(&format!("C7061BAC-AFDC-4513-B24B-AA5F13A161{n:02}"))).collect();
    host.serve(&events);
    let posts: Vec<_> = host
        .trace
        .iter()
        .filter_map(|entry| match &entry.what {
            Exchange::Post(ids) => Some(ids.len()),
            _ => None,
        })
        .collect();
    assert_eq!(posts, [32, 8]);
    invariants::no_event_is_approved_twice(&host.trace, &host.setup).unwrap();
}

#[test]
fn an_event_is_not_approved_before_its_turn_together_with_another() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Leader::Rank { take_over_after: 30 };
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("later").resources(&[OTHER, VM]), event("now"), event("last").resources(&[OTHER, "x", VM])];
    let mut posts = Vec::new();
    while host.now.millis_since(START) < 70_000 {
        host.serve(&events);
        let second = host.now.millis_since(START) / 1000;
        posts.extend(host.take_steps().into_iter().filter(|line| line.starts_with("post")).map(|line| (second, line)));
    }
    let expected = [(0, "post now"), (30, "post later"), (60, "post last")];
    assert_eq!(posts, expected.map(|(second, line)| (second, String::from(line))));
}

#[test]
fn a_body_can_have_exactly_the_maximum_length() {
    for (last, posts) in [(64 - 1, vec![26]), (64, vec![26]), (64 - 2, vec![26])] {
        // Twenty-six ids. If the last one has 64 bytes, the body has exactly `BODY_MAX` bytes.
        let mut host = Host::<32>::new(setup(Action::Approve));
        let id = |n: usize| format!("{n:0width$}", width = if n == 25 { last } else { 63 });
        host.serve(&(0..26).map(|n| event(&id(n))).collect::<Vec<_>>());
        let sent: Vec<_> = host.take_steps().into_iter().filter(|line| line.starts_with("post")).collect();
        assert_eq!(sent.iter().map(|line| line.split(' ').count() - 1).collect::<Vec<_>>(), posts);
    }
    let ids: Vec<_> = (0..26).map(|n| "x".repeat(if n == 25 { 64 } else { 63 })).collect();
    assert_eq!(scheduled_events_core::StartRequests::new(&ids).len(), limits::BODY_MAX);
}

#[test]
fn tracked_approvals_are_not_forgotten_after_many_others() {
    let events: Vec<_> = (0..40).map(|n| event(&format!("e{n}"))).collect();
    let mut host = host::<64>(Action::Approve);
    host.serve(&events);
    host.serve(&events[1..]);
    for _ in 0..20 {
        host.serve(&events[..39]);
        host.serve(&events[..38]);
    }
    host.serve(&events);
    invariants::no_event_is_approved_twice(&host.trace, &host.setup).unwrap();
}

#[test]
fn events_refused_together_are_retried_alone() {
    let mut host = host::<4>(Action::Approve);
    host.post_status = Some(400);
    let events = [event("a"), event("b"), event("c")];
    host.serve(&events);
    host.post_status = Some(200);
    for _ in 0..3 {
        host.serve(&events);
    }
    let steps = host.take_steps();
    let mut posts: Vec<_> = steps.iter().filter(|line| line.starts_with("post")).collect();
    posts.sort();
    posts.dedup();
    assert_eq!(posts, ["post a", "post a b c", "post b", "post c"]);
}

#[test]
fn an_event_with_a_too_long_id_is_tracked_and_never_approved() {
    let long = event("x").invalid("EventId");
    let mut host = host::<4>(Action::Approve);
    let steps = steps_after(&mut host, &[long.clone(), event("a")]);
    assert!(steps.contains(&format!("{}: hold (unreadable EventId)", long.tracked_id())), "{steps:?}");
    assert!(steps.contains(&String::from("problem: too-long")));
    assert_eq!(steps.last().map(String::as_str), Some("post a"));
    assert_eq!(steps_after(&mut host, &[event("a")]), [format!("{}: cancelled", long.tracked_id())]);
}

#[test]
fn a_change_to_approve_does_not_approve_during_or_after_a_failed_preparation() {
    let short = Rule { max_duration: Some(8), ..Rule::new(Action::Approve) };
    let policy = Policy::new(&[short, Rule::new(Action::Prepare)]).unwrap();
    for (answer, expected) in [
        (None, no_steps()),
        (Some(Preparation::Failed), no_steps()),
        (Some(Preparation::Ready), vec![String::from("post a")]),
    ] {
        let mut host = Host::<4>::new(Setup::new(policy.clone()));
        host.post_status = Some(500); // Not approved before the rule changes.
        host.serve(&[event("a")]);
        if let Some(answer) = answer {
            host.prepared("a", answer);
        }
        host.post_status = Some(200);
        host.serve(&[event("a").duration(5)]);
        host.serve(&[event("a").duration(5)]);
        let mut steps = host.take_steps();
        assert!(steps.contains(&String::from("a: approve (short interruption)")));
        steps.retain(|line| line.starts_with("post"));
        steps.dedup();
        assert_eq!(steps, expected, "{answer:?}");
    }
}

#[test]
fn a_dry_run_reports_and_does_nothing_else() {
    for (action, word) in [(Action::Approve, "approve"), (Action::Prepare, "prepare")] {
        let mut host = Host::<4>::new(Setup { dry_run: true, ..setup(action) });
        let steps = steps_after(&mut host, &[event("a")]);
        assert_eq!(steps, [String::from("a: scheduled"), format!("a: {word} (a rule matches)")]);
        assert_eq!(steps_after(&mut host, &[event("a").started()]), ["a: started"]);
        assert_eq!(steps_after(&mut host, &[]), ["a: completed"]);
    }
}

#[test]
fn a_gone_event_is_not_approved_during_its_recovery() {
    let mut host = host::<4>(Action::Prepare);
    (host.post_status, host.recovers) = (Some(500), false);
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[]);
    assert_eq!(host.take_steps().last().map(String::as_str), Some("recover a"));
    host.post_status = Some(200);
    for _ in 0..20 {
        host.serve(&[]);
    }
    assert_eq!(host.take_steps(), no_steps());
}

// Names.

#[test]
fn events_are_decided_again_when_the_names_become_known() {
    let mut host = Host::<4>::new(Setup { names: vec![], ..setup(Action::Approve) });
    let events = [event("a"), event("b").resources(&[OTHER])];
    let body = document(1, &events);
    host.serve_body(&body, &events);
    let steps = host.take_steps();
    assert!(steps.contains(&String::from("a: hold (VM name unknown)")), "{steps:?}");
    assert_eq!(host.session.events().filter(|event| event.mine().is_none()).count(), 2);
    host.set_names(&[VM]);
    assert_eq!(host.serve_body(&body, &events), RequestOutcome::Document);
    let steps = host.take_steps();
    assert_eq!(steps, ["a: approve (a rule matches)", "b: hold (another VM's event)", "post a"]);
}

#[test]
fn nothing_is_approved_by_a_decision_for_previous_names() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Leader::Rank { take_over_after: 1 };
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("a").resources(&["leader", VM])];
    host.serve(&events);
    host.set_names(&["other name"]);
    host.advance(5);
    host.fail(Cause::Timeout);
    assert_eq!(host.take_steps(), ["a: scheduled", "a: approve (a rule matches)"]);
    assert_eq!(steps_after(&mut host, &events), ["a: hold (another VM's event)"]);
}

#[test]
fn nothing_is_prepared_by_a_decision_for_previous_names() {
    let mut session = setup(Action::Prepare).session::<4>();
    assert!(matches!(session.next(START), Step::Get { .. }));
    let body = document(1, &[event("a")]);
    session.on_response(&Response { status: 200, body: body.as_bytes(), ..Response::default() }, START);
    session.set_names(VmNames::new(&["other name"])).unwrap();
    let mut steps = Vec::new();
    while let Step::Report(report) = session.next(START) {
        steps.push(report.to_string());
    }
    assert_eq!(steps, ["a: scheduled", "a: prepare (a rule matches)"]);
    assert!(matches!(session.next(START), Step::Wait { until } if until == START.plus(1000)));
}

#[test]
fn underscored_names_match() {
    for (resources, underscored, expected) in [
        (["_vm_1"], true, "approve"),
        (["vm_1"], true, "approve"),
        (["_vm_1"], false, "hold"),
        (["vm_1"], false, "approve"),
    ] {
        let names = VmNames::new(&["vm_1"]);
        let names = if underscored { names.underscored() } else { names };
        let policy = setup(Action::Approve).policy;
        let mut session = Session::<4>::new(&SessionConfig { policy, ..SessionConfig::new(names) }).unwrap();
        session.next(START);
        let body = document(1, &[event("a").resources(&resources)]);
        session.on_response(&Response { status: 200, body: body.as_bytes(), ..Response::default() }, START);
        session.next(START);
        let Step::Report(decision) = session.next(START) else { panic!("no decision") };
        assert!(decision.to_string().starts_with(&format!("a: {expected} (")), "{resources:?}: {decision}");
    }
}

#[test]
fn names_and_interval_have_limits() {
    let long = "x".repeat(limits::NAME_MAX + 1);
    let many = ["n"; limits::NAMES_MAX + 1];
    for (names, interval_ms, expected) in [
        (&[VM][..], 199, Some(SessionConfigError::IntervalTooShort)),
        (&[VM], 200, None),
        (&many, 1000, Some(SessionConfigError::TooManyNames)),
        (&many[1..], 1000, None),
        (&[&long], 1000, Some(SessionConfigError::NameTooLong)),
        (&[&long[1..]], 1000, None),
    ] {
        let config = SessionConfig { interval_ms, ..SessionConfig::new(VmNames::new(names)) };
        assert_eq!(Session::<4>::new(&config).err(), expected, "{names:?}");
    }
}

// Calls of the host.

#[test]
fn unexpected_answers_do_nothing() {
    let mut host = host::<4>(Action::Prepare);
    let body = br#"{"Events":[]}"#;
    assert_eq!(
        host.session.on_response(&Response { status: 200, body, ..Response::default() }, START),
        RequestOutcome::Unexpected
    );
    assert_eq!(host.session.on_failure(Cause::Timeout, START), RequestOutcome::Unexpected);
    assert!(!host.prepared("a", Preparation::Ready));
    assert!(!host.session.recovered("a"));
    host.serve(&[event("a")]);
    assert!(!host.session.recovered("a"));
    host.ready("A"); // Ids are compared without case.
    assert!(!host.prepared("a", Preparation::Failed));
    assert!(!host.prepared(&"a".repeat(100), Preparation::Ready));
}

#[test]
fn is_idle_without_events_and_without_pending_steps() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    assert!(!host.session.is_idle());
    host.serve(&[]);
    assert!(host.session.is_idle() && !host.session.has_seen_event());
    host.serve(&[event("a")]);
    assert!(!host.session.is_idle());
    host.ready("a");
    host.serve(&[]);
    assert!(!host.session.is_idle());
    host.recovered("a");
    host.run();
    assert!(host.session.is_idle() && host.session.has_seen_event());
    // An older document is served again: it is not known yet which one is stale.
    assert_eq!(host.serve_body(&document(2, &[event("a")]), &[]), RequestOutcome::Stale);
    assert!(!host.session.is_idle());
    host.serve(&[]);
    assert!(host.session.is_idle());
    host.restart();
    assert!(!host.session.is_idle() && host.session.has_seen_event());
}

#[test]
fn is_not_idle_with_pending_reports() {
    // A problem and free capacity, each in a document without events to track.
    let mut session = setup(Action::Hold).session::<1>();
    session.next(START);
    let problem = br#"{"Events":[{}]}"#;
    session.on_response(&Response { status: 200, body: problem, ..Response::default() }, START);
    assert!(!session.is_idle());
    assert!(matches!(session.next(START), Step::Report(_)));
    assert!(session.is_idle());

    let mut host = Host::<1>::new(setup(Action::Hold));
    host.serve(&[event("a"), event("b")]);
    host.advance_to_poll();
    let empty = document(9, &[]);
    host.session.on_response(&Response { status: 200, body: empty.as_bytes(), ..Response::default() }, host.now);
    let mut steps = Vec::new();
    while let Step::Report(report) = host.session.next(host.now) {
        steps.push(report.to_string());
        assert_eq!(host.session.is_idle(), steps.len() == 2, "{steps:?}");
    }
    assert_eq!(steps, ["a: cancelled", "not tracked: 0 own events, 0 of other machines"]);
}

#[test]
fn posted_lists_the_events_of_the_post_in_progress() {
    let mut session = setup(Action::Approve).session::<4>();
    let posted = |session: &Session<4>| session.posted().map(ToString::to_string).collect::<Vec<_>>();
    assert!(posted(&session).is_empty() && !session.awaits_answer());
    session.next(START);
    assert!(posted(&session).is_empty() && session.awaits_answer());
    let body = document(1, &[event("a"), event("b")]);
    session.on_response(&Response { status: 200, body: body.as_bytes(), ..Response::default() }, START);
    while let Step::Report(_) = session.next(START) {}
    let at = START.plus(limits::REQUEST_SPACING_MS);
    assert!(matches!(session.next(at), Step::Post { .. }));
    assert_eq!(posted(&session), ["a", "b"]);
    // It waits for the response for the timeout of the request, and returns no other step.
    assert!(matches!(session.next(at), Step::Wait { until } if until == at.plus(limits::TIMEOUT_MS)));
    assert!(session.awaits_answer());
    assert_eq!(session.on_response(&Response { status: 299, ..Response::default() }, at), RequestOutcome::Approved);
    assert!(posted(&session).is_empty() && !session.awaits_answer());
    assert!(session.events().all(TrackedEvent::is_approved));
}

#[test]
fn a_tracker_forgets_events_with_a_final_status() {
    let mut tracker = Tracker::<1>::new();
    let mut changes = Vec::new();
    let names = VmNames::new(&[VM]);
    for events in [
        [event("a")],
        [event("a").status("Completed")],
        [event("a").status("Completed")],
        [event("b")],
        [event("b").status("Canceled")],
        [event("a").started()],
    ] {
        let body = document(1, &events);
        let document = Document::parse(body.as_bytes()).unwrap();
        let observed = tracker.observe(&document, names, UnixSeconds(0), |change, event| {
            changes.push((event.event_id().to_string(), change));
        });
        assert_eq!(observed, Ok(0));
    }
    let [a, b] = ["a", "b"].map(String::from);
    let expected = [
        (a.clone(), Change::Scheduled),
        (a.clone(), Change::Completed),
        (b.clone(), Change::Scheduled),
        (b, Change::Cancelled),
        (a, Change::StartedWithoutNotice),
    ];
    assert_eq!(changes, expected);
    assert_eq!(tracker.len(), 1);
}

#[test]
fn a_rule_for_any_machine_prepares_and_approves_events_of_others() {
    let any = Rule { scope: Scope::Any, ..Rule::new(Action::Prepare) };
    let mut host = Host::<4>::new(Setup::new(Policy::new(&[any]).unwrap()));
    let others = [event("a").resources(&[OTHER]), event("t").resources(&[OTHER]).event_type("Terminate")];
    let steps = steps_after(&mut host, &others);
    assert!(steps.contains(&String::from("prepare a")) && !steps.contains(&String::from("prepare t")), "{steps:?}");
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
    let mut steps = steps_after(&mut host, &[]);
    steps.sort();
    assert_eq!(steps, ["a: ended", "recover a", "t: cancelled"]);
}
