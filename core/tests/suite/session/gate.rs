//! The gate, rules about the notice, and events of several machines.

use std::slice;

use scheduled_events_core::{
    Action, GateAnswer, LastCall, Leader, Policy, Response, Rule, Scope, Session, SessionConfig,
    Step, TrackedEvent, VmNames,
};

use crate::common::{Host, OTHER, Setup, Spec, VM, event, host, no_steps, setup, steps_after};

fn gated(action: Action, answer: Option<GateAnswer>) -> Host<4> {
    let mut host = Host::<4>::new(Setup {
        gate: true,
        ..setup(action)
    });
    host.gate_answer = answer;
    host
}

#[test]
fn the_gate_is_asked_before_the_preparation_and_before_the_approval() {
    let mut host = gated(Action::Prepare, None);
    host.serve(&[event("a").resources(&[OTHER, VM])]);
    assert_eq!(
        host.take_steps(),
        [
            "a: scheduled",
            "a: prepare (a rule matches)",
            "gate prepare a"
        ]
    );
    assert!(host.answer_gate(GateAnswer::Open));
    host.run();
    assert_eq!(host.take_steps(), ["prepare a"]);
    host.ready("a");
    assert_eq!(host.take_steps(), ["gate approve a"]);
    assert!(host.answer_gate(GateAnswer::Open));
    host.run();
    // The POST follows only a poll that began after the answer.
    assert_eq!(host.take_steps(), no_steps());
    host.serve(&[event("a").resources(&[OTHER, VM])]);
    assert_eq!(host.take_steps(), ["post a"]);
}

#[test]
fn a_poll_in_flight_does_not_confirm_the_gates_answer() {
    let mut host = gated(Action::Approve, None);
    host.serve(&[event("a")]);
    assert_eq!(
        host.take_steps().last().map(String::as_str),
        Some("gate approve a")
    );
    host.advance_to_poll();
    assert!(host.answer_gate(GateAnswer::Open));
    host.serve(&[event("a")]);
    assert_eq!(host.take_steps(), no_steps());
    host.serve(&[event("a")]);
    assert_eq!(host.take_steps(), ["post a"]);
}

#[test]
fn a_closed_gate_is_asked_every_five_seconds_until_the_event_may_start() {
    for answer in [GateAnswer::Closed, GateAnswer::AnotherApproves] {
        let mut host = gated(Action::Approve, Some(answer));
        let mut asked = Vec::new();
        for _ in 0..40 {
            host.serve(&[event("a").not_before(22)]);
            let asks = host
                .take_steps()
                .iter()
                .any(|line| line == "gate approve a");
            asked.extend(asks.then(|| host.last_get.millis_since(crate::common::START) / 1000));
        }
        assert_eq!(asked, [0, 5, 10, 15, 20]);
    }
}

fn polling_once_a_minute(action: Action) -> Session<4> {
    let policy = Policy::new(&[Rule::new(action)]).unwrap();
    let config = SessionConfig {
        policy,
        gate: true,
        interval_ms: 60_000,
        ..SessionConfig::new(VmNames::new(&[VM]))
    };
    Session::new(&config).unwrap()
}

#[test]
fn a_closed_gate_is_asked_again_in_time_however_long_the_interval() {
    let mut session = polling_once_a_minute(Action::Prepare);
    let mut now = crate::common::START;
    let body = crate::common::document(1, &[event("a")]);
    let mut asked = Vec::new();
    while now.millis_since(crate::common::START) < 20_000 {
        match session.take_step(now) {
            Step::Get { .. } => {
                session.on_response(
                    &Response {
                        status: 200,
                        body: body.as_bytes(),
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Gate { attempt, .. } => {
                asked.push(now.millis_since(crate::common::START) / 1000);
                let _ = session.gate_answered(attempt, GateAnswer::Closed, now);
            }
            Step::Wait { until } => now = until,
            _ => {}
        }
    }
    assert_eq!(asked, [0, 5, 10, 15]);
}

#[test]
fn a_gate_that_opens_for_the_approval_is_confirmed_at_once_however_long_the_interval() {
    let mut session = polling_once_a_minute(Action::Approve);
    let mut now = crate::common::START;
    let body = crate::common::document(1, &[event("a")]);
    let mut polled = Vec::new();
    loop {
        match session.take_step(now) {
            Step::Get { .. } => {
                polled.push(now.millis_since(crate::common::START));
                session.on_response(
                    &Response {
                        status: 200,
                        body: body.as_bytes(),
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Gate { attempt, .. } => {
                now = now.plus(10_000);
                let _ = session.gate_answered(attempt, GateAnswer::Open, now);
            }
            Step::Wait { until } => now = until,
            Step::Post { .. } => break,
            _ => {}
        }
    }
    assert_eq!(polled, [0, 10_000]);
    assert!(
        now.millis_since(crate::common::START) <= 10_200,
        "the requests are spaced, and no more"
    );
}

#[test]
fn only_a_yes_to_an_approval_is_confirmed_before_the_interval_ends() {
    let mut session = polling_once_a_minute(Action::Approve);
    let start = crate::common::START;
    let (mut now, mut asked, mut polled) = (start, Vec::new(), Vec::new());
    let documents = [vec![event("a"), event("b")], vec![event("b")]];
    let bodies = [
        crate::common::document(1, &documents[0]),
        crate::common::document(2, &documents[1]),
    ];
    while now.millis_since(start) < 115_000 {
        match session.take_step(now) {
            Step::Get { .. } => {
                // The yes for an event comes during the poll that shows that it is over.
                if let (1, Some((_, attempt))) =
                    (polled.len(), asked.iter().find(|(id, _)| id == "a"))
                {
                    let _ = session.gate_answered(*attempt, GateAnswer::Open, now);
                }
                let body = bodies[polled.len().min(1)].as_bytes();
                polled.push(now.millis_since(start));
                session.on_response(
                    &Response {
                        status: 200,
                        body,
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Gate { event, attempt, .. } => {
                let id = event.event_id().as_str().to_owned();
                if id == "b" {
                    let _ = session.gate_answered(attempt, GateAnswer::Closed, now);
                }
                asked.push((id, attempt));
            }
            Step::Wait { until } => now = until,
            _ => {}
        }
    }
    assert_eq!(polled, [0, 60_000, 60_200]);
    assert!(asked.len() > 20, "{asked:?}");
}

#[test]
fn a_change_closes_the_gate_again() {
    let mut host = gated(Action::Approve, None);
    host.cancels = false;
    host.serve(&[event("a")]);
    assert!(host.answer_gate(GateAnswer::Open));
    host.take_steps();
    // What was asked was another event.
    assert_eq!(
        steps_after(&mut host, &[event("a").not_before(600)]),
        ["a: rescheduled", "gate approve a"]
    );
    // While it is asked, the event changes again: the question is withdrawn.
    assert_eq!(
        steps_after(&mut host, &[event("a").not_before(500)]),
        ["a: rescheduled", "cancel a"]
    );
    host.end_cancelled();
    host.run();
    assert_eq!(host.take_steps(), ["gate approve a"]);
    assert!(host.answer_gate(GateAnswer::Open));
    assert_eq!(
        steps_after(&mut host, &[event("a").not_before(500)]),
        ["post a"]
    );
}

#[test]
fn the_gate_is_asked_before_each_attempt_to_approve() {
    let mut host = gated(Action::Approve, Some(GateAnswer::Open));
    host.post_status = Some(500);
    for _ in 0..12 {
        host.serve(&[event("a")]);
    }
    let steps = host.take_steps();
    let relevant: Vec<_> = steps.iter().filter(|line| !line.contains(':')).collect();
    assert!(relevant.len() > 4, "{steps:?}");
    for pair in relevant.chunks(2) {
        assert!(
            pair[0] == "gate approve a" && pair.get(1).is_none_or(|post| *post == "post a"),
            "{steps:?}"
        );
    }
}

/// Serves the event once a second for so long. Returns after how many seconds the machine began to prepare.
fn prepared_after(host: &mut Host<4>, spec: &Spec, seconds: i64) -> Option<i64> {
    for second in 0..seconds {
        host.serve(slice::from_ref(spec));
        if host.take_steps().contains(&format!("prepare {}", spec.id)) {
            return Some(second);
        }
    }
    None
}

#[test]
fn a_machine_prepares_by_the_last_call_whatever_the_gate_does() {
    for answer in [
        None,
        Some(GateAnswer::Closed),
        Some(GateAnswer::AnotherApproves),
    ] {
        for (event_type, notice, expected) in [
            ("Reboot", 900, 600),
            ("Reboot", 600, 300),
            ("Redeploy", 240, 120),
            ("Freeze", 60, 30),
            ("Freeze", 59, 0),
            ("Preempt", 30, 0),
            ("Preempt", 900, 0),
            ("Reboot", -5, 0),
        ] {
            let mut host = gated(Action::Prepare, answer);
            let spec = event("a").event_type(event_type).not_before(notice);
            let after = prepared_after(&mut host, &spec, 1000).expect("a preparation");
            // A gate that does not answer has a second for its first answer.
            let wait = i64::from(answer.is_none() && expected == 0 && notice > 0);
            assert_eq!(
                after,
                expected + wait,
                "{event_type} in {notice} s, {answer:?}"
            );
            host.ready("a");
            assert!(
                host.session
                    .waiting(host.now)
                    .all(|(_, waiting)| waiting.by_last_call)
            );
            // Nothing is approved, and the gate is asked as long as the event has not started.
            for _ in 0..10 {
                host.serve(slice::from_ref(&spec));
            }
            let steps = host.take_steps();
            assert!(
                steps.iter().all(|line| line == "gate prepare a"),
                "{steps:?}"
            );
        }
    }
}

#[test]
fn an_event_without_a_known_start_has_a_last_call_too() {
    let mut host = gated(Action::Prepare, Some(GateAnswer::Closed));
    let spec = Spec {
        not_before: None,
        ..event("a")
    };
    assert_eq!(prepared_after(&mut host, &spec, 1000), Some(300));
}

#[test]
fn the_last_call_is_when_the_host_chooses_or_never() {
    for (last_call, expected) in [
        (LastCall::Before(10), Some(890)),
        (LastCall::Before(3_600), Some(0)),
        (LastCall::Never, None),
    ] {
        let mut host = Host::<4>::new(Setup {
            gate: true,
            last_call,
            ..setup(Action::Prepare)
        });
        host.gate_answer = Some(GateAnswer::Closed);
        assert_eq!(
            prepared_after(&mut host, &event("a").not_before(900), 1000),
            expected,
            "{last_call:?}"
        );
    }
}

#[test]
fn after_the_last_call_the_gate_still_decides_about_the_approval() {
    let mut host = gated(Action::Prepare, Some(GateAnswer::Closed));
    let spec = event("a").not_before(120);
    assert_eq!(prepared_after(&mut host, &spec, 200), Some(60));
    let steps: Vec<_> = host
        .trace
        .iter()
        .map(|entry| entry.what.to_string())
        .collect();
    let (call, begin) = (["last call a"], ["prepare a"]);
    let place = |words: [&str; 1]| {
        steps
            .iter()
            .position(|line| line == words[0])
            .expect("a step")
    };
    assert!(place(call) < place(begin), "{steps:?}");
    host.ready("a");
    // A restart forgets neither.
    host.restart();
    host.serve(slice::from_ref(&spec));
    assert!(
        host.take_steps()
            .iter()
            .all(|line| !line.contains("approve a"))
    );
    assert!(
        host.session
            .waiting(host.now)
            .all(|(_, waiting)| waiting.by_last_call)
    );
    host.gate_answer = Some(GateAnswer::Open);
    let mut steps = Vec::new();
    for _ in 0..10 {
        host.serve(slice::from_ref(&spec));
        steps.extend(host.take_steps());
    }
    assert_eq!(steps, ["gate prepare a", "gate approve a", "post a"]);
    assert!(
        host.session
            .waiting(host.now)
            .all(|(_, waiting)| !waiting.by_last_call)
    );
}

/// The gate's yes was for a machine that needed no preparation.
#[test]
fn an_earlier_yes_to_the_approval_is_none_to_a_preparation_by_the_last_call() {
    let rule = |action, scope| Rule {
        scope,
        ..Rule::new(action)
    };
    let policy = Policy::new(&[
        rule(Action::Prepare, Scope::Mine),
        rule(Action::Approve, Scope::Others),
    ])
    .expect("two rules");
    let mut host = Host::<4>::new(Setup {
        gate: true,
        ..Setup::new(policy)
    });
    let spec = event("a").not_before(120).resources(&[OTHER]);
    host.serve(slice::from_ref(&spec));
    assert_eq!(
        host.take_steps().last().map(String::as_str),
        Some("gate approve a")
    );
    // By now this machine has the name that the event names.
    host.set_names(&[OTHER]);
    host.gate_answer = Some(GateAnswer::Closed);
    prepared_after(&mut host, &spec, 200).expect("a preparation");
    host.ready("a");
    let mut steps = Vec::new();
    for _ in 0..10 {
        host.serve(slice::from_ref(&spec));
        steps.extend(host.take_steps());
    }
    assert!(
        steps.iter().all(|line| line == "gate prepare a"),
        "{steps:?}"
    );
}

#[test]
fn a_preparation_by_the_last_call_waits_for_a_recovery_to_end() {
    let mut host = gated(Action::Prepare, Some(GateAnswer::Open));
    (host.recovers, host.cancels) = (false, false);
    let first = event("a").not_before(60);
    prepared_after(&mut host, &first, 10).expect("a preparation");
    host.ready("a");
    host.gate_answer = Some(GateAnswer::Closed);
    host.serve(&[]);
    assert_eq!(
        host.take_steps().last().map(String::as_str),
        Some("recover a")
    );
    let second = event("b").event_type("Preempt").not_before(30);
    for _ in 0..3 {
        host.serve(slice::from_ref(&second));
    }
    assert_eq!(
        host.take_steps().last().map(String::as_str),
        Some("cancel the recovery of a")
    );
    let waiting: Vec<_> = host
        .session
        .waiting(host.now)
        .map(|(_, waiting)| waiting.waits_for.word())
        .collect();
    assert_eq!(waiting, ["recovery", "cancelled-command"]);
}

#[test]
fn a_preparation_by_the_last_call_does_not_wait_for_a_question_that_hangs() {
    let mut host = gated(Action::Prepare, None);
    let spec = event("a").not_before(120);
    assert_eq!(prepared_after(&mut host, &spec, 200), Some(60));
    assert_eq!(host.asking.len(), 1);
    // Its answer counts when it comes, also while the machine prepares.
    assert!(host.answer_gate(GateAnswer::Open));
    host.ready("a");
    assert_eq!(host.take_steps(), ["gate approve a"]);
}

#[test]
fn another_notice_has_another_last_call() {
    let mut host = gated(Action::Prepare, Some(GateAnswer::Closed));
    assert_eq!(
        prepared_after(&mut host, &event("a").duration(30).not_before(900), 100),
        None
    );
    // It comes nearer: half of what is left.
    assert_eq!(
        prepared_after(&mut host, &event("a").duration(30).not_before(200), 200),
        Some(50)
    );
    // It becomes another event, which is prepared for anew, with a last call of its own.
    let longer = event("a").not_before(200).duration(3_600);
    assert_eq!(prepared_after(&mut host, &longer, 200), Some(0));
}

#[test]
fn an_event_of_several_machines_is_prepared_for_and_not_approved_without_gate_or_leader() {
    let shared = event("a").resources(&[VM, OTHER]);
    let mut host = host::<4>(Action::Prepare);
    host.serve(slice::from_ref(&shared));
    let steps = [
        "a: scheduled",
        "a: prepare (not approved: several VMs, set a gate or leader)",
        "prepare a",
    ];
    assert_eq!(host.take_steps(), steps);
    host.ready("a");
    for _ in 0..20 {
        host.serve(slice::from_ref(&shared));
    }
    assert_eq!(host.take_steps(), no_steps());
    // With a leader that was set explicitly it is, also with the one that is the default elsewhere.
    for leader in [
        Leader::FirstResource,
        Leader::Everyone,
        Leader::Rank {
            take_over_after: 30,
        },
    ] {
        let mut setup = setup(Action::Prepare);
        setup.policy.leader = Some(leader);
        let mut host = Host::<4>::new(setup);
        host.serve(slice::from_ref(&shared));
        host.ready("a");
        assert_eq!(
            host.take_steps().last().map(String::as_str),
            Some("post a"),
            "{leader:?}"
        );
    }
    // A rule with the action `approve` needs no other machine to be ready.
    let mut host = self::host::<4>(Action::Approve);
    host.serve(&[shared]);
    assert_eq!(host.take_steps().last().map(String::as_str), Some("post a"));
}

fn with_rule(rule: Rule) -> Host<4> {
    Host::new(Setup::new(Policy::new(&[rule]).unwrap()))
}

#[test]
fn an_event_far_ahead_is_prepared_for_when_its_time_comes() {
    let mut host = with_rule(Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Prepare)
    });
    let ahead = event("a").not_before(330);
    assert_eq!(
        steps_after(&mut host, slice::from_ref(&ahead)),
        ["a: scheduled", "a: prepare (a rule matches)"]
    );
    for second in 1..60 {
        host.serve(slice::from_ref(&ahead));
        let steps = host.take_steps();
        assert_eq!(
            steps.contains(&String::from("prepare a")),
            second == 30,
            "{second}: {steps:?}"
        );
    }
    // It moves out of the window: the preparation is withdrawn, and the machine recovered.
    host.serve(&[event("a").not_before(86_400)]);
    assert_eq!(
        host.take_steps(),
        ["a: rescheduled", "cancel a", "recover a"]
    );
    assert!(host.session.out_of_service_since().is_none());
    // It moves back: it is prepared for again, and approved.
    assert_eq!(
        steps_after(&mut host, &[event("a").not_before(100)]),
        ["a: rescheduled", "prepare a"]
    );
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
    // Once approved, it is not withdrawn.
    assert_eq!(
        steps_after(&mut host, &[event("a").not_before(86_400)]),
        ["a: rescheduled"]
    );
}

#[test]
fn an_event_far_ahead_is_approved_when_its_time_comes() {
    let mut host = with_rule(Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Approve)
    });
    for second in 0..40 {
        host.serve(&[event("a").not_before(330)]);
        let posted = host.session.events().any(TrackedEvent::is_approved);
        assert_eq!(posted, second >= 30, "{second}");
    }
}

#[test]
fn with_an_unknown_start_and_a_rule_about_it_an_event_is_prepared_for_and_not_approved() {
    let unknown = crate::common::Spec {
        not_before: None,
        ..event("a")
    };
    let mut host = with_rule(Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Prepare)
    });
    let steps = steps_after(&mut host, slice::from_ref(&unknown));
    assert_eq!(
        steps,
        [
            "a: scheduled",
            "a: prepare (not approved: NotBefore unknown)",
            "prepare a"
        ]
    );
    host.ready("a");
    assert_eq!(host.take_steps(), no_steps());
    let mut host = with_rule(Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Approve)
    });
    assert_eq!(
        steps_after(&mut host, &[unknown]),
        ["a: scheduled", "a: hold (not approved: NotBefore unknown)"]
    );
}

#[test]
fn notice_is_counted_from_the_first_sight_of_not_before() {
    let rule = Rule {
        min_notice: Some(60),
        max_notice: Some(600),
        ..Rule::new(Action::Approve)
    };
    for (not_before, approved) in [(59, false), (60, true), (600, true), (601, false)] {
        let mut host = with_rule(rule);
        host.serve(&[event("a").not_before(not_before)]);
        assert_eq!(
            host.session.events().any(TrackedEvent::is_approved),
            approved,
            "{not_before}"
        );
    }
    // Neither the passing of time nor a restart changes it.
    let mut host = with_rule(Rule {
        min_notice: Some(800),
        ..Rule::new(Action::Prepare)
    });
    host.serve(&[event("a").not_before(900)]);
    host.advance(500);
    host.restart();
    host.take_steps();
    host.serve(&[event("a").not_before(900)]);
    assert!(
        host.take_steps()
            .contains(&String::from("a: prepare (a rule matches)"))
    );
    // Another NotBefore is seen for the first time.
    host.serve(&[event("a").not_before(901)]);
    assert!(
        host.take_steps()
            .contains(&String::from("a: hold (no rule matches)"))
    );
    // An unknown one has no notice.
    let mut host = with_rule(rule);
    host.serve(&[crate::common::Spec {
        not_before: None,
        ..event("a")
    }]);
    assert!(
        host.take_steps()
            .contains(&String::from("a: hold (no rule matches)"))
    );
}
