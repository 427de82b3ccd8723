//! What the host of a session sets, calls and asks: names, limits, answers and idleness.

use scheduled_events_core::{
    Action, AnswerOutcome, Cause, GateAnswer, Leader, Policy, Preparation, RequestOutcome,
    Response, Rule, Session, SessionConfig, SessionConfigError, Step, VmNames, limits,
};

use crate::common::{Host, OTHER, START, Setup, VM, document, event, host, setup, steps_after};

#[test]
fn events_are_decided_again_when_the_names_become_known() {
    let mut host = Host::<4>::new(Setup {
        names: vec![],
        ..setup(Action::Approve)
    });
    let events = [event("a"), event("b").resources(&[OTHER])];
    let body = document(1, &events);
    host.serve_body(&body, &events);
    let steps = host.take_steps();
    assert!(
        steps.contains(&String::from("a: hold (VM name unknown)")),
        "{steps:?}"
    );
    assert_eq!(
        host.session
            .events()
            .filter(|event| event.mine().is_none())
            .count(),
        2
    );
    host.set_names(&[VM]);
    assert_eq!(host.serve_body(&body, &events), RequestOutcome::Document);
    let steps = host.take_steps();
    assert_eq!(
        steps,
        [
            "a: approve (a rule matches)",
            "b: hold (another VM's event)",
            "post a"
        ]
    );
}

#[test]
fn nothing_is_approved_by_a_decision_for_previous_names() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Some(Leader::Rank { take_over_after: 1 });
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("a").resources(&["leader", VM])];
    host.serve(&events);
    host.set_names(&["other name"]);
    host.advance(5);
    host.fail(Cause::Timeout);
    assert_eq!(
        host.take_steps(),
        ["a: scheduled", "a: approve (a rule matches)"]
    );
    assert_eq!(
        steps_after(&mut host, &events),
        ["a: hold (another VM's event)"]
    );
}

#[test]
fn nothing_is_prepared_by_a_decision_for_previous_names() {
    let mut session = setup(Action::Prepare).session::<4>();
    assert!(matches!(session.take_step(START), Step::Get { .. }));
    let body = document(1, &[event("a")]);
    session.on_response(
        &Response {
            status: 200,
            body: body.as_bytes(),
            ..Response::default()
        },
        START,
    );
    session.set_names(VmNames::new(&["other name"])).unwrap();
    let mut steps = Vec::new();
    while let Step::Report(report) = session.take_step(START) {
        steps.push(report.to_string());
    }
    assert_eq!(steps, ["a: scheduled", "a: prepare (a rule matches)"]);
    assert!(matches!(session.take_step(START), Step::Wait { until } if until == START.plus(1000)));
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
        let names = if underscored {
            names.underscored()
        } else {
            names
        };
        let policy = setup(Action::Approve).policy;
        let mut session = Session::<4>::new(&SessionConfig {
            policy,
            ..SessionConfig::new(names)
        })
        .unwrap();
        session.take_step(START);
        let body = document(1, &[event("a").resources(&resources)]);
        session.on_response(
            &Response {
                status: 200,
                body: body.as_bytes(),
                ..Response::default()
            },
            START,
        );
        session.take_step(START);
        let Step::Report(decision) = session.take_step(START) else {
            panic!("no decision")
        };
        assert!(
            decision
                .to_string()
                .starts_with(&format!("a: {expected} (")),
            "{resources:?}: {decision}"
        );
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
        let config = SessionConfig {
            interval_ms,
            ..SessionConfig::new(VmNames::new(names))
        };
        assert_eq!(Session::<4>::new(&config).err(), expected, "{names:?}");
    }
}

#[test]
fn unexpected_answers_do_nothing() {
    let mut host = host::<4>(Action::Prepare);
    let body = br#"{"Events":[]}"#;
    assert_eq!(
        host.session.on_response(
            &Response {
                status: 200,
                body,
                ..Response::default()
            },
            START
        ),
        RequestOutcome::Unexpected
    );
    assert_eq!(
        host.session.on_failure(Cause::Timeout, START),
        RequestOutcome::Unexpected
    );
    assert!(!host.prepared("a", Preparation::Ready));
    assert_eq!(
        host.session.recovered(1, true, START),
        AnswerOutcome::Unexpected
    );
    host.serve(&[event("a")]);
    assert_eq!(
        host.session.recovered(1, true, START),
        AnswerOutcome::Unexpected
    );
    assert_eq!(
        host.session.prepared(0, Preparation::Ready),
        AnswerOutcome::Unexpected
    );
    assert_eq!(
        host.session.gate_answered(1, GateAnswer::Open, START),
        AnswerOutcome::Unexpected
    );
    host.ready("a");
    assert!(!host.prepared("a", Preparation::Failed));
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
    assert_eq!(
        host.serve_body(&document(2, &[event("a")]), &[]),
        RequestOutcome::Stale
    );
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
    session.take_step(START);
    let problem = br#"{"Events":[{}]}"#;
    session.on_response(
        &Response {
            status: 200,
            body: problem,
            ..Response::default()
        },
        START,
    );
    assert!(!session.is_idle());
    assert!(matches!(session.take_step(START), Step::Report(_)));
    assert!(session.is_idle());

    let mut host = Host::<1>::new(setup(Action::Hold));
    host.serve(&[event("a"), event("b")]);
    host.advance_to_poll();
    let empty = document(9, &[]);
    host.session.on_response(
        &Response {
            status: 200,
            body: empty.as_bytes(),
            ..Response::default()
        },
        host.now,
    );
    let mut steps = Vec::new();
    while let Step::Report(report) = host.session.take_step(host.now) {
        steps.push(report.to_string());
        assert_eq!(host.session.is_idle(), steps.len() == 2, "{steps:?}");
    }
    assert_eq!(
        steps,
        [
            "a: cancelled",
            "not tracked: 0 own events, 0 of other machines"
        ]
    );
}
