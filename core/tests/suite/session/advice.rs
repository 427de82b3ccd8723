//! Advice, which is not maintenance: fault 27 of `tests/field-faults.md`.

use scheduled_events_core::{
    Action, Document, EventKind, EventTypes, GateAnswer, LastCall, Policy, Preparation, Reason,
    Rule, Scope, UnixSeconds, VmNames, WaitsFor,
};

use crate::common::{Host, OTHER, START, Setup, Spec, VM, document, event, invariants, no_steps};

const ADVICE: &str = "SpotRebalanceRecommendation";

fn advice(id: &str) -> Spec {
    Spec {
        not_before: None,
        ..event(id).event_type(ADVICE).status("Advisory")
    }
}

fn preempt(id: &str) -> Spec {
    event(id).event_type("Preempt").not_before(30)
}

fn rule(kind: EventKind, action: Action) -> Rule {
    Rule {
        event_types: EventTypes::of(&[kind]),
        ..Rule::new(action)
    }
}

/// Prepares for advice and for everything else.
fn prepares() -> Setup {
    let advice = rule(EventKind::SpotRebalanceRecommendation, Action::Prepare);
    Setup::new(Policy::new(&[advice, Rule::new(Action::Prepare)]).unwrap())
}

fn posts<const N: usize>(host: &Host<N>) -> bool {
    host.trace
        .iter()
        .any(|entry| entry.what.to_string().starts_with("post"))
}

#[test]
fn rules_that_do_not_name_advice_do_not_match_it() {
    let all_others = EventTypes::of(&EventKind::ALL[..6]);
    for (event_types, action) in [
        (EventTypes::ANY, Action::Approve),
        (EventTypes::ANY, Action::Prepare),
        (all_others, Action::Prepare),
        (EventTypes::of(&[EventKind::Other]), Action::Prepare),
        (EventTypes::of(&[EventKind::Preempt]), Action::Approve),
    ] {
        let rule = Rule {
            event_types,
            ..Rule::new(action)
        };
        let words = [
            (ADVICE, "Advisory"),
            (ADVICE, "Scheduled"),
            (ADVICE, "Started"),
            (ADVICE, "Queued"),
            ("Preempt", "Advisory"),
            ("Cool", "Advisory"),
        ];
        for (event_type, status) in words {
            let mut host = Host::<4>::new(Setup::new(Policy::new(&[rule]).unwrap()));
            let announced = event("a").event_type(event_type).status(status);
            host.serve(&[announced]);
            let expected = ["a: advised", "a: hold (advice: no rule names it)"];
            assert_eq!(host.take_steps(), expected, "{event_type} {status}");
            let (_, waiting) = host.session.waiting(host.now).next().unwrap();
            assert_eq!(waiting.waits_for, WaitsFor::Withdrawal);
            host.serve(&[]);
            assert_eq!(host.take_steps(), ["a: advice-withdrawn"]);
            assert_eq!(host.session.out_of_service_since(), None);
        }
    }
}

#[test]
fn no_rule_approves_advice() {
    let kind = EventKind::SpotRebalanceRecommendation;
    for (action, scope, resources, expected) in [
        (
            Action::Approve,
            Scope::Mine,
            VM,
            "hold (advice: never approved)",
        ),
        (
            Action::Approve,
            Scope::Any,
            OTHER,
            "hold (advice: never approved)",
        ),
        (Action::Hold, Scope::Mine, VM, "hold (a rule matches)"),
        (Action::Ignore, Scope::Mine, VM, "ignore (a rule matches)"),
        (
            Action::Hold,
            Scope::Mine,
            OTHER,
            "hold (another VM's event)",
        ),
        (
            Action::Prepare,
            Scope::Mine,
            VM,
            "prepare (advice: never approved)",
        ),
        (
            Action::Prepare,
            Scope::Others,
            OTHER,
            "prepare (advice: never approved)",
        ),
    ] {
        let rule = Rule {
            scope,
            ..rule(kind, action)
        };
        for gate in [false, true] {
            let mut host = Host::<4>::new(Setup {
                gate,
                ..Setup::new(Policy::new(&[rule]).unwrap())
            });
            let advice = advice("a").resources(&[resources]);
            for _ in 0..5 {
                host.serve(std::slice::from_ref(&advice));
                if !host.preparing.is_empty() {
                    host.ready("a");
                }
                host.advance(60);
            }
            let steps = host.take_steps();
            assert_eq!(
                steps[..2],
                ["a: advised".to_owned(), format!("a: {expected}")]
            );
            let mut rest = Vec::new();
            if action == Action::Prepare {
                rest.extend(gate.then_some("gate prepare a"));
                rest.push("prepare a");
            }
            assert_eq!(steps[2..], rest, "gate {gate}");
            host.serve(&[]);
            invariants::all(&host.trace, &host.setup).unwrap();
        }
    }
}

#[test]
fn a_decision_about_advice_has_its_reason() {
    let names = VmNames::new(&[VM]);
    let decide = |policy: &Policy, spec: Spec, names| {
        let body = document(1, &[spec]);
        let document = Document::parse(body.as_bytes()).unwrap();
        let event = document.events().next().unwrap();
        policy.decide(&event, names, START.seconds())
    };
    let kind = EventKind::SpotRebalanceRecommendation;
    let prepare = Policy::new(&[rule(kind, Action::Prepare)]).unwrap();
    let decision = decide(&prepare, advice("a"), names);
    assert_eq!((decision.action, decision.rule), (Action::Prepare, Some(1)));
    assert_eq!((decision.approve_after, decision.act_from), (None, None));
    let observed = decide(&Policy::observe(), advice("a"), names);
    assert_eq!(observed.reason, Reason::Observing);
    let unknown = decide(&prepare, advice("a"), VmNames::UNKNOWN);
    assert_eq!(unknown.reason, Reason::NameUnknown);
    let over = decide(&prepare, advice("a").status("Completed"), names);
    assert_eq!(over.reason, Reason::NotScheduled);
    // With a time, a rule can wait for it.
    let early = Policy::new(&[Rule {
        prepare_before: Some(60),
        ..rule(kind, Action::Prepare)
    }])
    .unwrap();
    let decision = decide(&early, advice("a").not_before(900), names);
    let from = UnixSeconds(START.seconds().0 + 840);
    assert_eq!(
        (decision.act_from, decision.approve_after),
        (Some(from), None)
    );
    // What cannot be read forbids nothing but approving, which there is none of.
    let invalid = decide(&prepare, advice("a").invalid("DurationInSeconds"), names);
    assert_eq!(invalid.action, Action::Prepare);
}

#[test]
fn advice_that_is_withdrawn_is_recovered_from() {
    let mut host = Host::<4>::new(prepares());
    host.serve(&[advice("a")]);
    host.ready("a");
    let prepared = [
        "a: advised",
        "a: prepare (advice: never approved)",
        "prepare a",
    ];
    assert_eq!(host.take_steps(), prepared);
    assert!(host.session.out_of_service_since().is_some());
    // Whatever changes of it, it stays.
    host.serve(&[advice("a").not_before(900)]);
    host.serve(&[advice("a").not_before(900).status("Started")]);
    host.serve(&[advice("a").not_before(900).status("Queued").source("User")]);
    assert_eq!(host.take_steps(), ["a: rescheduled", "a: updated"]);
    // A restart remembers that it is advice, and neither prepares twice nor forgets to recover.
    host.restart();
    host.serve(&[advice("a").not_before(900)]);
    host.advance(3600);
    assert_eq!(
        host.take_steps(),
        ["a: updated", "a: prepare (advice: never approved)"]
    );
    host.serve(&[]);
    assert_eq!(host.take_steps(), ["a: advice-withdrawn", "recover a"]);
    assert!(host.session.is_idle());
    invariants::all(&host.trace, &host.setup).unwrap();
}

#[test]
fn an_eviction_after_advice_keeps_the_machine_out_until_it_is_over() {
    let mut host = Host::<4>::new(prepares());
    host.serve(&[advice("a")]);
    host.ready("a");
    host.take_steps();
    host.serve(&[advice("a"), preempt("p")]);
    host.ready("p");
    host.serve(&[advice("a"), preempt("p")]);
    let steps = [
        "p: scheduled",
        "p: prepare (a rule matches)",
        "prepare p",
        "post p",
    ];
    assert_eq!(host.take_steps(), steps);
    host.serve(&[preempt("p").started()]);
    assert_eq!(host.take_steps(), ["a: advice-withdrawn", "p: started"]);
    host.serve(&[]);
    assert_eq!(host.take_steps(), ["p: completed", "recover p (a p)"]);
    invariants::all(&host.trace, &host.setup).unwrap();
}

#[test]
fn advice_that_becomes_an_eviction_is_prepared_for_again_and_then_approved() {
    for advised in [advice("a"), preempt("a").status("Advisory")] {
        let mut host = Host::<4>::new(prepares());
        host.serve(&[advised]);
        host.ready("a");
        host.take_steps();
        host.serve(&[preempt("a")]);
        assert!(host.take_steps().ends_with(&["prepare a".to_owned()]));
        assert!(!posts(&host), "it was prepared for as advice");
        host.ready("a");
        assert_eq!(host.take_steps(), ["post a"]);
        host.serve(&[]);
        invariants::all(&host.trace, &host.setup).unwrap();
    }
}

#[test]
fn an_event_that_becomes_advice_is_not_approved_any_more() {
    let approve = Setup::new(
        Policy::new(&[
            rule(EventKind::SpotRebalanceRecommendation, Action::Hold),
            Rule::new(Action::Approve),
        ])
        .unwrap(),
    );
    let mut host = Host::<4>::new(approve);
    host.post_status = Some(500);
    host.serve(&[preempt("a")]);
    assert!(posts(&host));
    host.clear();
    for _ in 0..30 {
        host.serve(&[preempt("a").status("Advisory")]);
    }
    let mut steps = host.take_steps();
    let advised = steps.iter().position(|step| step == "a: advised").unwrap();
    assert_eq!(steps.split_off(advised + 1), ["a: hold (a rule matches)"]);
    host.serve(&[]);
    assert_eq!(host.take_steps(), ["a: advice-withdrawn"]);
}

#[test]
fn a_gate_is_asked_before_the_preparation_and_there_is_no_last_call() {
    for last_call in [LastCall::Standard, LastCall::Before(60)] {
        let mut host = Host::<4>::new(Setup {
            gate: true,
            last_call,
            ..prepares()
        });
        host.gate_answer = Some(GateAnswer::Closed);
        let advice = [advice("a").not_before(120)];
        for _ in 0..40 {
            host.serve(&advice);
            host.advance(10);
        }
        let steps = host.take_steps();
        let asked = steps.iter().skip(2).all(|step| step == "gate prepare a");
        // Also after its `NotBefore`: it does not start then.
        assert!(asked && steps.len() > 40, "{steps:?}");
        host.gate_answer = Some(GateAnswer::Open);
        host.advance(10);
        host.serve(&advice);
        assert!(host.take_steps().contains(&"prepare a".to_owned()));
        host.ready("a");
        host.serve(&advice);
        assert_eq!(host.take_steps(), no_steps());
        host.serve(&[]);
        invariants::all(&host.trace, &host.setup).unwrap();
    }
}

#[test]
fn a_preparation_for_advice_that_failed_is_tried_again_while_the_advice_is_there() {
    let mut host = Host::<4>::new(prepares());
    let advice = [advice("a").not_before(30)];
    host.serve(&advice);
    for _ in 0..5 {
        assert!(host.prepared("a", Preparation::Failed));
        host.take_steps();
        host.advance(61);
        host.serve(&advice);
        assert_eq!(host.take_steps(), ["prepare a"]);
    }
    assert!(host.prepared("a", Preparation::Abandoned));
    host.advance(61);
    host.serve(&advice);
    assert_eq!(host.take_steps(), no_steps());
    let (_, waiting) = host.session.waiting(host.now).next().unwrap();
    assert_eq!(waiting.waits_for, WaitsFor::Withdrawal);
}
