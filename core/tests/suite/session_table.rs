//! What a session does, as tables: its pace, what it believes, what it keeps, and what it asks of its host.

use scheduled_events_core::{
    Action, Cause, Change, Document, EventKind, EventTypes, Leader, Member, Policy, Preparation, ProblemKind, Report,
    RequestOutcome, Response, Rule, Scope, Session, SessionConfig, SessionConfigError, Step, TrackedEvent, Tracker,
    UnixSeconds, VmNames, limits,
};

use crate::common::{Host, OTHER, START, Setup, Spec, VM, What, document, event, laws};

fn setup(action: Action) -> Setup {
    Setup::new(Policy::new(&[Rule::new(action)]).unwrap())
}

fn host<const N: usize>(action: Action) -> Host<N> {
    Host::new(setup(action))
}

fn hear<const N: usize>(host: &mut Host<N>, events: &[Spec]) -> Vec<String> {
    host.serve(events);
    host.heard()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

/// When GETs were sent, in milliseconds after the start.
fn polls<const N: usize>(host: &Host<N>) -> Vec<i64> {
    let polls = host.trace.iter().filter(|entry| matches!(entry.what, What::Get(_)));
    polls.map(|entry| entry.at.0 - START.0).collect()
}

// Pace.

#[test]
fn one_poll_a_second_and_time_for_the_service_to_wake_up() {
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
    host.until_get();
    let timeouts: Vec<_> = host
        .trace
        .iter()
        .filter_map(|entry| match entry.what {
            What::Get(timeout) => Some(timeout),
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
fn back_off_by_cause() {
    let steady = [1000, 1000, 1000, 1000, 1000, 1000];
    let doubling = [1000, 2000, 4000, 8000, 10_000, 10_000];
    let hopeless = [10_000; 6];
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
        (Cause::Status(400), hopeless),
        (Cause::Status(401), hopeless),
        (Cause::Status(403), hopeless),
        (Cause::Status(405), hopeless),
        (Cause::Status(418), hopeless),
        (Cause::Redirect(302), hopeless),
        (Cause::EmptyBody, steady),
    ] {
        let mut host = host::<4>(Action::Hold);
        for full in delays {
            host.until_get();
            let sent = host.last_get;
            let outcome = match cause {
                Cause::Status(status) | Cause::Redirect(status) => host.serve_status(status),
                Cause::EmptyBody => host.serve_body("", &[]),
                cause => host.fail(cause),
            };
            let RequestOutcome::PollFailed { cause: told, retry_in_ms } = outcome else { panic!("{outcome:?}") };
            assert_eq!(told, cause);
            assert!(retry_in_ms <= full && retry_in_ms >= full / 2, "{cause:?}: {retry_in_ms} of {full}");
            host.until_get();
            assert_eq!(host.last_get.millis_since(sent), u64::from(retry_in_ms), "{cause:?}");
        }
        // One answer, and the pace is as before.
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
    // Approvals keep the pause too.
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a")]);
    host.answer(&Response { status: 429, retry_after: Some(20), ..Response::default() }, &[]);
    host.ready("a");
    host.heard();
    host.until_get();
    assert_eq!(host.heard(), ["post a"]);
    assert!(host.now.millis_since(START) >= 21_000);
    // What succeeded asks for no pause.
    let body = br#"{"Events":[]}"#;
    let mut host = self::host::<4>(Action::Hold);
    host.answer(&Response { status: 200, retry_after: Some(50), body, ..Response::default() }, &[]);
    host.until_get();
    assert_eq!(polls(&host), [0, 1000]);
}

#[test]
fn never_more_than_five_requests_a_second() {
    let mut host = host::<64>(Action::Approve);
    host.post_status = Some(500);
    let events: Vec<_> = (0..60).map(|n| event(&format!("e{n}"))).collect();
    while host.now.millis_since(START) < 60_000 {
        host.serve(&events);
    }
    let requests = host.trace.iter().filter(|entry| matches!(entry.what, What::Get(_) | What::Post(_)));
    let times: Vec<_> = requests.map(|entry| entry.at.0).collect();
    assert!(times.windows(6).all(|six| six[5] - six[0] >= 1000));
}

#[test]
fn approvals_that_fail_do_not_keep_it_from_polling() {
    // Each POST hangs until its time is up, or is refused at once: there is always another one due.
    for (count, post_takes, post_status) in
        [(2, 10_000, None), (8, 10_000, None), (64, 0, Some(500)), (64, 100, Some(400))]
    {
        let mut host = host::<64>(Action::Approve);
        (host.post_takes, host.post_status) = (post_takes, post_status);
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
    host.heard();
    for _ in 0..3 {
        let outcome = host.serve_status(304);
        assert!(matches!(outcome, RequestOutcome::PollFailed { cause: Cause::Status(304), .. }), "{outcome:?}");
    }
    assert_eq!(host.heard(), nothing());
    assert_eq!(host.session.events().count(), 1);
}

// Belief.

#[test]
fn a_superseded_document_is_believed_when_it_stays() {
    let mut host = host::<4>(Action::Hold);
    let (old, new) = (document(1, &[event("a")]), document(2, &[]));
    host.serve_body(&old, &[event("a")]);
    host.serve_body(&new, &[]);
    host.heard();
    for second in 0..10 {
        assert_eq!(host.serve_body(&old, &[event("a")]), RequestOutcome::Stale, "after {second} s");
    }
    assert_eq!(host.heard(), nothing());
    assert_eq!(host.serve_body(&old, &[event("a")]), RequestOutcome::Document);
    assert_eq!(host.heard(), ["a: scheduled", "a: hold (a rule matches)"]);
    // Two servers that answer in turn, one of them behind.
    for _ in 0..20 {
        assert_eq!(host.serve_body(&new, &[]), RequestOutcome::Stale);
        assert_eq!(host.serve_body(&old, &[event("a")]), RequestOutcome::Unchanged);
    }
    assert_eq!(host.heard(), nothing());
    // Without an incarnation, equal bytes are no sign of age.
    let plain = r#"{"Events":[]}"#;
    host.serve_body(plain, &[]);
    assert_eq!(host.heard(), ["a: cancelled"]);
    host.serve(&[event("b")]);
    assert_eq!(host.serve_body(plain, &[]), RequestOutcome::Document);
}

#[test]
fn the_last_four_superseded_documents_are_known() {
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
fn what_has_started_is_not_prepared_for_because_a_document_unstarts_it() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a").started()]);
    host.heard();
    assert_eq!(hear(&mut host, &[event("a")]), nothing());
    assert_eq!(hear(&mut host, &[]), ["a: completed"]);
}

#[test]
fn an_end_that_a_word_tells_is_told_once_however_long_the_recovery_takes() {
    for (word, change) in [("Completed", "completed"), ("Canceled", "cancelled")] {
        let mut host = host::<4>(Action::Prepare);
        host.recovers = false;
        host.serve(&[event("a")]);
        host.ready("a");
        host.heard();
        let over = [event("a").status(word)];
        assert_eq!(hear(&mut host, &over), [format!("a: {change}"), String::from("recover a")]);
        for _ in 0..3 {
            assert_eq!(hear(&mut host, &over), nothing(), "{word}");
        }
    }
}

#[test]
fn of_many_events_with_one_id_the_first_decides() {
    let mut events = vec![event("a").of(&[OTHER]); 20];
    events[19] = event("A");
    let mut host = host::<4>(Action::Approve);
    host.serve(&events[..1]);
    host.heard();
    host.serve(&events);
    let said = host.heard();
    assert!(said.iter().all(|line| line == "problem: repeated"), "{said:?}");
}

#[test]
fn repeated_ids_that_the_document_does_not_omit_are_reported_and_ignored() {
    // More events than the document compares.
    const FIRST: usize = 1050;
    let mut events: Vec<_> = (0..FIRST).map(|n| event(&format!("e{n}"))).collect();
    events.extend(["e1040", "E1041"].map(|id| event(id).started()));
    let body = document(1, &events);
    let response = Response { status: 200, body: body.as_bytes(), ..Response::default() };
    let mut session = Box::new(setup(Action::Hold).session::<1100>());
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
            assert!(body[problem.offset..].to_ascii_lowercase().starts_with(&format!(r#""e{}""#, index - 10)));
        }
        assert_eq!(problems.len(), 2);
    }
    assert_eq!(session.events().count(), FIRST);
}

#[test]
fn flicker() {
    for action in [Action::Approve, Action::Prepare] {
        let mut host = host::<4>(action);
        host.serve(&[event("a")]);
        if action == Action::Prepare {
            host.ready("a");
        }
        host.serve(&[]);
        host.heard();
        // A new life, in which it is prepared for again, since it was recovered from; but never approved twice.
        for _ in 0..3 {
            host.serve(&[event("A")]);
            for id in host.preparing.clone() {
                host.ready(&id);
            }
            host.serve(&[]);
        }
        let said = host.heard();
        let count = |line: &str| said.iter().filter(|said| *said == line).count();
        assert_eq!((count("A: scheduled"), count("A: ended"), count("post A")), (3, 3, 0), "{said:?}");
        assert_eq!(count("prepare A"), if action == Action::Prepare { 3 } else { 0 });
    }
}

#[test]
fn what_comes_back_before_the_recovery_waits_for_it() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    host.serve(&[]);
    host.ready("a");
    host.heard();
    let again = document(77, &[event("a")]);
    host.serve_body(&again, &[event("a")]);
    assert_eq!(host.heard(), nothing());
    host.recovered("a");
    host.serve_body(&again, &[event("a")]);
    assert_eq!(host.heard(), ["a: scheduled", "a: prepare (a rule matches)", "prepare a"]);
}

// Capacity.

#[test]
fn own_events_first_and_the_earliest_of_them() {
    let others: Vec<_> = (0..5).map(|n| event(&format!("o{n}")).of(&[OTHER])).collect();
    let mut host = host::<2>(Action::Hold);
    host.serve(&others);
    assert!(host.heard().contains(&String::from("no room for 0 own, 3 others")));
    let own = [event("week").at(604_800), event("day").at(86_400), event("minute").at(60)];
    let followed = |host: &Host<2>| {
        let mut ids: Vec<_> = host.session.events().map(|event| event.event_id().to_string()).collect();
        ids.sort();
        ids
    };
    // In whichever order they stand and come.
    host.serve(&[&others[..], &own[..2]].concat());
    assert_eq!(followed(&host), ["day", "week"]);
    assert!(host.heard().contains(&String::from("no room for 0 own, 5 others")));
    host.serve(&[&others[..], &own[..]].concat());
    assert_eq!(followed(&host), ["day", "minute"]);
    assert!(host.heard().contains(&String::from("no room for 1 own, 5 others")));
    host.serve(&[&own[1..], &own[..1], &others[..]].concat());
    assert_eq!(followed(&host), ["day", "minute"]);
    assert_eq!(host.heard(), nothing());
    // And when there is room again, it is taken, without a new document.
    let rest = [own[0].clone(), own[2].clone()];
    host.serve(&rest);
    host.serve_body(&document(host.incarnation, &rest), &rest);
    assert_eq!(followed(&host), ["minute", "week"]);
    let said = host.heard();
    assert_eq!(said.last().map(String::as_str), Some("no room for 0 own, 0 others"), "{said:?}");
}

#[test]
fn what_is_approved_is_dropped_last() {
    let approve = Rule { event_types: EventTypes::of(&[EventKind::Freeze]), ..Rule::new(Action::Approve) };
    let policy = Policy::new(&[approve, Rule::new(Action::Hold)]).unwrap();
    let mut host = Host::<2>::new(Setup::new(policy));
    let both = [event("approved").typed("Freeze").at(604_800), event("held").typed("Reboot").at(86_400)];
    host.serve(&both);
    host.serve(&both);
    assert!(host.heard().contains(&String::from("post approved")));
    host.serve(&[&both[..], &[event("soon").typed("Reboot").at(60)]].concat());
    let mut ids: Vec<_> = host.session.events().map(|event| event.event_id().to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["approved", "soon"]);
}

#[test]
fn what_was_prepared_for_is_never_dropped() {
    let mut host = host::<1>(Action::Prepare);
    host.serve(&[event("late").at(604_800)]);
    host.heard();
    let both = [event("late").at(604_800), event("soon").at(30)];
    assert_eq!(hear(&mut host, &both), ["no room for 1 own, 0 others"]);
    host.ready("late");
    assert_eq!(host.heard(), ["post late"]);
    assert_eq!(hear(&mut host, &[]), ["late: ended", "recover late", "no room for 0 own, 0 others"]);
}

#[test]
fn an_end_is_held_against_the_time_of_day() {
    for (ahead_ms, change) in [(800_000, "cancelled"), (900_000, "ended"), (i64::MAX, "ended"), (i64::MIN, "cancelled")]
    {
        let mut host = host::<1>(Action::Hold);
        host.serve(&[event("a").at(900)]);
        host.heard();
        host.session.set_time_of_day_ahead(ahead_ms);
        assert_eq!(hear(&mut host, &[]), [format!("a: {change}")], "{ahead_ms}");
    }
}

// Approvals.

#[test]
fn approvals_go_out_32_at_a_time() {
    let mut host = host::<64>(Action::Approve);
    let events: Vec<_> = (0..40).map(|n| event(&format!("C7061BAC-AFDC-4513-B24B-AA5F13A161{n:02}"))).collect();
    host.serve(&events);
    let posts: Vec<_> = host
        .trace
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Post(ids) => Some(ids.len()),
            _ => None,
        })
        .collect();
    assert_eq!(posts, [32, 8]);
    laws::never_twice(&host.trace, &host.setup).unwrap();
}

#[test]
fn an_approval_of_one_event_takes_no_other_along_before_its_turn() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Leader::Rank { take_over_after: 30 };
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("later").of(&[OTHER, VM]), event("now"), event("last").of(&[OTHER, "x", VM])];
    let mut posts = Vec::new();
    while host.now.millis_since(START) < 70_000 {
        host.serve(&events);
        let second = host.now.millis_since(START) / 1000;
        posts.extend(host.heard().into_iter().filter(|line| line.starts_with("post")).map(|line| (second, line)));
    }
    let expected = [(0, "post now"), (30, "post later"), (60, "post last")];
    assert_eq!(posts, expected.map(|(second, line)| (second, String::from(line))));
}

#[test]
fn a_body_may_be_exactly_as_long_as_the_limit() {
    for (last, posts) in [(64 - 1, vec![26]), (64, vec![26]), (64 - 2, vec![26])] {
        // Twenty-six ids, whose body has the limit's 2,048 bytes where the last one has 64.
        let mut host = Host::<32>::new(setup(Action::Approve));
        let id = |n: usize| format!("{n:0width$}", width = if n == 25 { last } else { 63 });
        host.serve(&(0..26).map(|n| event(&id(n))).collect::<Vec<_>>());
        let sent: Vec<_> = host.heard().into_iter().filter(|line| line.starts_with("post")).collect();
        assert_eq!(sent.iter().map(|line| line.split(' ').count() - 1).collect::<Vec<_>>(), posts);
    }
    let ids: Vec<_> = (0..26).map(|n| "x".repeat(if n == 25 { 64 } else { 63 })).collect();
    assert_eq!(scheduled_events_core::StartRequests::new(&ids).len(), limits::BODY_MAX);
}

#[test]
fn many_approvals_do_not_make_it_forget_the_first() {
    let events: Vec<_> = (0..40).map(|n| event(&format!("e{n}"))).collect();
    let mut host = host::<64>(Action::Approve);
    host.serve(&events);
    host.serve(&events[1..]);
    for _ in 0..20 {
        host.serve(&events[..39]);
        host.serve(&events[..38]);
    }
    host.serve(&events);
    laws::never_twice(&host.trace, &host.setup).unwrap();
}

#[test]
fn what_was_refused_together_is_tried_alone() {
    let mut host = host::<4>(Action::Approve);
    host.post_status = Some(400);
    let events = [event("a"), event("b"), event("c")];
    host.serve(&events);
    host.post_status = Some(200);
    for _ in 0..3 {
        host.serve(&events);
    }
    let said = host.heard();
    let mut posts: Vec<_> = said.iter().filter(|line| line.starts_with("post")).collect();
    posts.sort();
    posts.dedup();
    assert_eq!(posts, ["post a", "post a b c", "post b", "post c"]);
}

#[test]
fn an_id_that_is_too_long_is_followed_and_never_approved() {
    let long = event("x").odd("EventId");
    let mut host = host::<4>(Action::Approve);
    let said = hear(&mut host, &[long.clone(), event("a")]);
    assert!(said.contains(&format!("{}: hold (unreadable EventId)", long.kept_id())), "{said:?}");
    assert!(said.contains(&String::from("problem: too-long")));
    assert_eq!(said.last().map(String::as_str), Some("post a"));
    assert_eq!(hear(&mut host, &[event("a")]), [format!("{}: cancelled", long.kept_id())]);
}

#[test]
fn a_rule_that_changes_its_mind_does_not_approve_what_is_not_ready() {
    let short = Rule { max_duration: Some(8), ..Rule::new(Action::Approve) };
    let policy = Policy::new(&[short, Rule::new(Action::Prepare)]).unwrap();
    for (answer, expected) in [
        (None, nothing()),
        (Some(Preparation::Failed), nothing()),
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
        let mut said = host.heard();
        assert!(said.contains(&String::from("a: approve (short interruption)")));
        said.retain(|line| line.starts_with("post"));
        said.dedup();
        assert_eq!(said, expected, "{answer:?}");
    }
}

#[test]
fn dry_run_says_what_it_would_do_and_does_not() {
    for (action, word) in [(Action::Approve, "approve"), (Action::Prepare, "prepare")] {
        let mut host = Host::<4>::new(Setup { dry_run: true, ..setup(action) });
        let said = hear(&mut host, &[event("a")]);
        assert_eq!(said, [String::from("a: scheduled"), format!("a: {word} (a rule matches)")]);
        assert_eq!(hear(&mut host, &[event("a").started()]), ["a: started"]);
        assert_eq!(hear(&mut host, &[]), ["a: completed"]);
    }
}

#[test]
fn what_is_gone_is_not_approved_while_it_is_recovered_from() {
    let mut host = host::<4>(Action::Prepare);
    (host.post_status, host.recovers) = (Some(500), false);
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[]);
    assert_eq!(host.heard().last().map(String::as_str), Some("recover a"));
    host.post_status = Some(200);
    for _ in 0..20 {
        host.serve(&[]);
    }
    assert_eq!(host.heard(), nothing());
}

// Names.

#[test]
fn names_learnt_late() {
    let mut host = Host::<4>::new(Setup { names: vec![], ..setup(Action::Approve) });
    let events = [event("a"), event("b").of(&[OTHER])];
    let body = document(1, &events);
    host.serve_body(&body, &events);
    let said = host.heard();
    assert!(said.contains(&String::from("a: hold (VM name unknown)")), "{said:?}");
    assert_eq!(host.session.events().filter(|event| event.mine().is_none()).count(), 2);
    host.set_names(&[VM]);
    assert_eq!(host.serve_body(&body, &events), RequestOutcome::Document);
    let said = host.heard();
    assert_eq!(said, ["a: approve (a rule matches)", "b: hold (another VM's event)", "post a"]);
}

#[test]
fn nothing_is_approved_by_a_name_that_was_given_up() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Leader::Rank { take_over_after: 1 };
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("a").of(&["leader", VM])];
    host.serve(&events);
    host.set_names(&["other name"]);
    host.pass(5);
    host.fail(Cause::Timeout);
    assert_eq!(host.heard(), ["a: scheduled", "a: approve (a rule matches)"]);
    assert_eq!(hear(&mut host, &events), ["a: hold (another VM's event)"]);
}

#[test]
fn nothing_is_prepared_for_by_a_name_that_was_given_up() {
    let mut session = setup(Action::Prepare).session::<4>();
    assert!(matches!(session.next(START), Step::Get { .. }));
    let body = document(1, &[event("a")]);
    session.on_response(&Response { status: 200, body: body.as_bytes(), ..Response::default() }, START);
    session.set_names(VmNames::new(&["other name"])).unwrap();
    let mut said = Vec::new();
    while let Step::Report(report) = session.next(START) {
        said.push(report.to_string());
    }
    assert_eq!(said, ["a: scheduled", "a: prepare (a rule matches)"]);
    assert!(matches!(session.next(START), Step::Wait { until } if until == START.plus(1000)));
}

#[test]
fn underscored_names() {
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
        let body = document(1, &[event("a").of(&resources)]);
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

// The host's side.

#[test]
fn answers_that_nobody_waits_for_do_nothing() {
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
fn idle_is_when_nothing_is_announced_and_nothing_left() {
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
    host.settle();
    assert!(host.session.is_idle() && host.session.has_seen_event());
    // An older document again, and nobody knows yet which to believe.
    assert_eq!(host.serve_body(&document(2, &[event("a")]), &[]), RequestOutcome::Stale);
    assert!(!host.session.is_idle());
    host.serve(&[]);
    assert!(host.session.is_idle());
    host.restart();
    assert!(!host.session.is_idle() && host.session.has_seen_event());
}

#[test]
fn what_is_left_to_report_is_not_idle() {
    // A problem, and room that is there again, each in a document without an event to follow.
    let mut session = setup(Action::Hold).session::<1>();
    session.next(START);
    let problem = br#"{"Events":[{}]}"#;
    session.on_response(&Response { status: 200, body: problem, ..Response::default() }, START);
    assert!(!session.is_idle());
    assert!(matches!(session.next(START), Step::Report(_)));
    assert!(session.is_idle());

    let mut host = Host::<1>::new(setup(Action::Hold));
    host.serve(&[event("a"), event("b")]);
    host.until_get();
    let empty = document(9, &[]);
    host.session.on_response(&Response { status: 200, body: empty.as_bytes(), ..Response::default() }, host.now);
    let mut said = Vec::new();
    while let Step::Report(report) = host.session.next(host.now) {
        said.push(report.to_string());
        assert_eq!(host.session.is_idle(), said.len() == 2, "{said:?}");
    }
    assert_eq!(said, ["a: cancelled", "not tracked: 0 own events, 0 of other machines"]);
}

#[test]
fn what_is_posted_is_told_while_it_is_under_way() {
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
    // It waits for the answer, as long as a request may take, and says nothing else.
    assert!(matches!(session.next(at), Step::Wait { until } if until == at.plus(limits::TIMEOUT_MS)));
    assert!(session.awaits_answer());
    assert_eq!(session.on_response(&Response { status: 299, ..Response::default() }, at), RequestOutcome::Approved);
    assert!(posted(&session).is_empty() && !session.awaits_answer());
    assert!(session.events().all(TrackedEvent::is_approved));
}

#[test]
fn a_tracker_forgets_what_a_word_has_ended() {
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
        let told = tracker.observe(&document, names, UnixSeconds(0), |change, event| {
            changes.push((event.event_id().to_string(), change));
        });
        assert_eq!(told, Ok(0));
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
fn a_rule_that_extends_to_others_follows_them_like_own_ones() {
    let any = Rule { scope: Scope::Any, ..Rule::new(Action::Prepare) };
    let mut host = Host::<4>::new(Setup::new(Policy::new(&[any]).unwrap()));
    let others = [event("a").of(&[OTHER]), event("t").of(&[OTHER]).typed("Terminate")];
    let said = hear(&mut host, &others);
    assert!(said.contains(&String::from("prepare a")) && !said.contains(&String::from("prepare t")), "{said:?}");
    host.ready("a");
    assert_eq!(host.heard(), ["post a"]);
    let mut said = hear(&mut host, &[]);
    said.sort();
    assert_eq!(said, ["a: ended", "recover a", "t: cancelled"]);
}
