//! What a session approves, when, and in which requests.

use scheduled_events_core::{
    Action, Cause, Leader, Policy, Preparation, RequestOutcome, Response, Rule, Scope, Session,
    Step, TrackedEvent, limits,
};

use crate::common::{
    Exchange, Host, OTHER, START, Setup, VM, document, event, host, invariants, no_steps, setup,
    steps_after,
};

#[test]
fn a_request_approves_at_most_32_events() {
    let mut host = host::<64>(Action::Approve);
    let events: Vec<_> = (0..40)
        .map(|n| event(&format!("C7061BAC-AFDC-4513-B24B-AA5F13A161{n:02}")))
        .collect();
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
    policy.leader = Some(Leader::Rank {
        take_over_after: 30,
    });
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [
        event("later").resources(&[OTHER, VM]),
        event("now"),
        event("last").resources(&[OTHER, "x", VM]),
    ];
    let mut posts = Vec::new();
    while host.now.millis_since(START) < 70_000 {
        host.serve(&events);
        let second = host.now.millis_since(START) / 1000;
        posts.extend(
            host.take_steps()
                .into_iter()
                .filter(|line| line.starts_with("post"))
                .map(|line| (second, line)),
        );
    }
    let expected = [(0, "post now"), (30, "post later"), (60, "post last")];
    assert_eq!(
        posts,
        expected.map(|(second, line)| (second, String::from(line)))
    );
}

#[test]
fn a_body_can_have_exactly_the_maximum_length() {
    for (last, posts) in [(64 - 1, vec![26]), (64, vec![26]), (64 - 2, vec![26])] {
        // Twenty-six ids. If the last one has 64 bytes, the body has exactly `BODY_MAX` bytes.
        let mut host = Host::<32>::new(setup(Action::Approve));
        let id = |n: usize| format!("{n:0width$}", width = if n == 25 { last } else { 63 });
        host.serve(&(0..26).map(|n| event(&id(n))).collect::<Vec<_>>());
        let sent: Vec<_> = host
            .take_steps()
            .into_iter()
            .filter(|line| line.starts_with("post"))
            .collect();
        assert_eq!(
            sent.iter()
                .map(|line| line.split(' ').count() - 1)
                .collect::<Vec<_>>(),
            posts
        );
    }
    let ids: Vec<_> = (0..26)
        .map(|n| "x".repeat(if n == 25 { 64 } else { 63 }))
        .collect();
    assert_eq!(
        scheduled_events_core::StartRequests::new(&ids).len(),
        limits::BODY_MAX
    );
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
    let mut posts: Vec<_> = steps
        .iter()
        .filter(|line| line.starts_with("post"))
        .collect();
    posts.sort();
    posts.dedup();
    assert_eq!(posts, ["post a", "post a b c", "post b", "post c"]);
}

#[test]
fn an_event_that_is_refused_does_not_block_one_that_starts_soon() {
    // Each refusal asks for a pause, after which both are due.
    let mut host = host::<64>(Action::Approve);
    let refused: Vec<_> = (0..40).map(|n| event(&format!("bad{n}"))).collect();
    (host.post_status, host.post_retry_after) = (Some(503), Some(10));
    for _ in 0..3 {
        host.serve(&refused[..1]);
    }
    host.take_steps();
    let soon = event("soon")
        .event_type("Preempt")
        .not_before(host.now.seconds().0 - START.seconds().0 + 30);
    for events in [
        vec![refused[0].clone(), soon.clone()],
        [&refused[..], &[soon]].concat(),
    ] {
        let begun = host.now;
        while !host
            .take_steps()
            .iter()
            .any(|line| line.starts_with("post") && line.ends_with(" soon"))
        {
            assert!(host.now.millis_since(begun) < 25_000, "not posted in time");
            host.serve(&events);
        }
    }
}

#[test]
fn a_change_to_approve_does_not_approve_during_or_after_a_failed_preparation() {
    let short = Rule {
        max_duration: Some(8),
        ..Rule::new(Action::Approve)
    };
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
        let mut host = Host::<4>::new(Setup {
            dry_run: true,
            ..setup(action)
        });
        let steps = steps_after(&mut host, &[event("a")]);
        assert_eq!(
            steps,
            [
                String::from("a: scheduled"),
                format!("a: {word} (a rule matches)")
            ]
        );
        assert_eq!(
            steps_after(&mut host, &[event("a").started()]),
            ["a: started"]
        );
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
    assert_eq!(
        host.take_steps().last().map(String::as_str),
        Some("recover a")
    );
    host.post_status = Some(200);
    for _ in 0..20 {
        host.serve(&[]);
    }
    assert_eq!(host.take_steps(), no_steps());
}

#[test]
fn posted_lists_the_events_of_the_post_until_the_step_after_its_answer() {
    let mut session = setup(Action::Approve).session::<4>();
    let posted = |session: &Session<4>| {
        session
            .posted()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert!(posted(&session).is_empty() && !session.awaits_answer());
    session.take_step(START);
    assert!(posted(&session).is_empty() && session.awaits_answer());
    let body = document(1, &[event("a"), event("b")]);
    session.on_response(
        &Response {
            status: 200,
            body: body.as_bytes(),
            ..Response::default()
        },
        START,
    );
    while let Step::Report(_) = session.take_step(START) {}
    let at = START.plus(limits::REQUEST_SPACING_MS);
    assert!(matches!(session.take_step(at), Step::Post { .. }));
    assert_eq!(posted(&session), ["a", "b"]);
    // It waits for the response for the timeout of the request, and returns no other step.
    assert!(
        matches!(session.take_step(at), Step::Wait { until } if until == at.plus(limits::TIMEOUT_MS))
    );
    assert!(session.awaits_answer());
    assert_eq!(
        session.on_response(
            &Response {
                status: 299,
                ..Response::default()
            },
            at
        ),
        RequestOutcome::Approved
    );
    assert_eq!(posted(&session), ["a", "b"]);
    assert!(!session.awaits_answer());
    assert!(session.events().all(TrackedEvent::is_approved));
    // A second answer is for nothing, and the next step is about others.
    assert_eq!(
        session.on_failure(Cause::Timeout, at),
        RequestOutcome::Unexpected
    );
    assert_eq!(posted(&session), ["a", "b"]);
    assert!(matches!(session.take_step(at), Step::Wait { .. }));
    assert!(posted(&session).is_empty());
}

#[test]
fn a_rule_for_any_machine_prepares_and_approves_events_of_others() {
    let any = Rule {
        scope: Scope::Any,
        ..Rule::new(Action::Prepare)
    };
    let mut host = Host::<4>::new(Setup::new(Policy::new(&[any]).unwrap()));
    let others = [
        event("a").resources(&[OTHER]),
        event("t").resources(&[OTHER]).event_type("Terminate"),
    ];
    let steps = steps_after(&mut host, &others);
    assert!(
        steps.contains(&String::from("prepare a")) && !steps.contains(&String::from("prepare t")),
        "{steps:?}"
    );
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
    let mut steps = steps_after(&mut host, &[]);
    steps.sort();
    assert_eq!(steps, ["a: ended", "recover a", "t: cancelled"]);
}
