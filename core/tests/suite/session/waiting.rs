//! What each event waits for, and how far the recovery is.

use scheduled_events_core::{
    Action, GateAnswer, Leader, Policy, Preparation, RecoveryStatus, Rule, UnixSeconds, Waiting,
    WaitsFor,
};

use crate::common::{Host, OTHER, START, Setup, VM, event, host, setup};

/// What the event waits for; nothing may change by asking.
fn waiting<const N: usize>(host: &Host<N>, id: &str) -> Waiting {
    let before = host.snapshot();
    let found = host
        .session
        .waiting(host.now)
        .find(|(event, _)| event.event_id().as_str() == id);
    let (_, waiting) = found.expect("a tracked event");
    assert_eq!(host.snapshot(), before);
    waiting
}

fn waits_for<const N: usize>(host: &Host<N>, id: &str) -> WaitsFor {
    waiting(host, id).waits_for
}

fn after_start(seconds: i64) -> UnixSeconds {
    UnixSeconds(START.seconds().0 + seconds)
}

#[test]
fn an_event_that_is_prepared_for_waits_for_one_thing_after_the_other() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a").not_before(600)]);
    let running = waiting(&host, "a");
    assert_eq!(
        (running.waits_for, running.attempt, running.rule()),
        (WaitsFor::Preparation, Some(1), Some(1))
    );
    assert_eq!(running.since, Some(START.seconds()));
    host.post_status = Some(500);
    host.ready("a");
    let posted = waiting(&host, "a");
    assert_eq!(posted.waits_for, WaitsFor::Approval);
    assert!(
        posted.until.is_some(),
        "the approval failed, and is tried again: {posted:?}"
    );
    host.post_status = Some(200);
    host.serve(&[event("a").not_before(600)]);
    host.serve(&[event("a").not_before(600)]);
    let approved = waiting(&host, "a");
    assert_eq!(
        (approved.waits_for, approved.until),
        (WaitsFor::Start, Some(after_start(600)))
    );
    host.serve(&[event("a").started()]);
    assert_eq!(waits_for(&host, "a"), WaitsFor::End);
    host.serve(&[]);
    let over = waiting(&host, "a");
    assert_eq!(
        (over.waits_for, over.attempt),
        (WaitsFor::Recovery, Some(2))
    );
    assert!(over.since.is_some());
}

#[test]
fn a_decision_that_does_not_approve_is_explained() {
    let mut observer = Host::<4>::new(Setup::new(Policy::observe()));
    observer.serve(&[event("a").not_before(60)]);
    let held = waiting(&observer, "a");
    assert_eq!(
        (held.waits_for, held.rule(), held.until),
        (WaitsFor::StartUnapproved, None, Some(after_start(60)))
    );
    assert_eq!(
        held.reason().map(|reason| reason.to_string()).as_deref(),
        Some("the policy only observes")
    );
    for action in [Action::Hold, Action::Ignore] {
        let mut host = host::<4>(action);
        host.serve(&[event("a")]);
        let held = waiting(&host, "a");
        assert_eq!(
            (held.waits_for, held.rule()),
            (WaitsFor::StartUnapproved, Some(1))
        );
        assert_eq!(held.decision.map(|decision| decision.action), Some(action));
    }
    // Prepared for, but nobody knows whether the other machines are ready.
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a").resources(&[VM, OTHER])]);
    assert_eq!(waits_for(&host, "a"), WaitsFor::Preparation);
    host.ready("a");
    assert_eq!(waits_for(&host, "a"), WaitsFor::StartUnapproved);
    let mut host = crate::common::host::<4>(Action::Prepare);
    host.serve(&[event("a").not_before(60)]);
    host.prepared("a", Preparation::Abandoned);
    assert_eq!(waits_for(&host, "a"), WaitsFor::StartUnprepared);
}

#[test]
fn the_time_of_the_rule_and_the_turn_of_this_machine_are_waited_for() {
    let rule = Rule {
        prepare_before: Some(100),
        ..Rule::new(Action::Prepare)
    };
    let mut host = Host::<4>::new(Setup::new(Policy::new(&[rule]).unwrap()));
    host.serve(&[event("a").not_before(600)]);
    let early = waiting(&host, "a");
    assert_eq!(
        (early.waits_for, early.until),
        (WaitsFor::DueTime, Some(after_start(500)))
    );

    let mut setup = setup(Action::Approve);
    setup.policy.leader = Some(Leader::Rank {
        take_over_after: 30,
    });
    let mut host = Host::<4>::new(setup);
    host.serve(&[event("a").resources(&[OTHER, VM])]);
    let second = waiting(&host, "a");
    assert_eq!(
        (second.waits_for, second.until),
        (WaitsFor::Turn, Some(after_start(30)))
    );
}

#[test]
fn the_gate_is_waited_for_in_both_phases() {
    let mut host = Host::<4>::new(Setup {
        gate: true,
        ..setup(Action::Prepare)
    });
    host.gate_answer = None;
    host.serve(&[event("a")]);
    let asked = waiting(&host, "a");
    assert_eq!(
        (asked.waits_for, asked.attempt),
        (WaitsFor::GateToPrepare, Some(1))
    );
    host.answer_gate(GateAnswer::Closed);
    let closed = waiting(&host, "a");
    assert_eq!(
        (closed.waits_for, closed.attempt),
        (WaitsFor::GateToPrepare, None)
    );
    assert_eq!(closed.until, Some(UnixSeconds(host.now.seconds().0 + 5)));
    host.advance(5);
    host.run();
    host.answer_gate(GateAnswer::Open);
    host.run();
    host.ready("a");
    assert_eq!(waits_for(&host, "a"), WaitsFor::GateToApprove);
    host.answer_gate(GateAnswer::Open);
    // A poll has to confirm the event.
    assert_eq!(waits_for(&host, "a"), WaitsFor::Document);
}

/// Azure starts the event without an approval then, and no gate is asked for one.
#[test]
fn once_the_start_has_passed_no_gate_is_waited_for() {
    let mut host = Host::<4>::new(Setup {
        gate: true,
        ..setup(Action::Prepare)
    });
    host.gate_answer = None;
    host.serve(&[event("a").not_before(600)]);
    host.answer_gate(GateAnswer::Open);
    host.run();
    host.ready("a");
    host.answer_gate(GateAnswer::Closed);
    assert_eq!(waits_for(&host, "a"), WaitsFor::GateToApprove);
    host.advance(600);
    host.serve(&[event("a").not_before(600)]);
    let late = waiting(&host, "a");
    assert_eq!(
        (late.waits_for, late.until),
        (WaitsFor::StartUnapproved, Some(after_start(600)))
    );

    // The same after the last call.
    let mut host = Host::<4>::new(Setup {
        gate: true,
        ..setup(Action::Prepare)
    });
    host.gate_answer = Some(GateAnswer::Closed);
    host.serve(&[event("a").not_before(600)]);
    host.advance(300);
    host.serve(&[event("a").not_before(600)]);
    host.ready("a");
    assert_eq!(waits_for(&host, "a"), WaitsFor::GateToPrepare);
    host.advance(300);
    host.serve(&[event("a").not_before(600)]);
    assert_eq!(waits_for(&host, "a"), WaitsFor::StartUnapproved);
}

#[test]
fn after_a_restart_the_first_document_is_waited_for_and_the_times_in_and_out_of_service_are_kept() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    assert_eq!(
        (
            host.session.in_service_since(),
            host.session.out_of_service_since()
        ),
        (None, Some(START))
    );
    host.restart();
    assert_eq!(waits_for(&host, "a"), WaitsFor::Document);
    assert_eq!(host.session.out_of_service_since(), Some(START));
    host.serve(&[]);
    host.recovery_ended("a", true, false);
    let failed = host.session.recovery().expect("out of service");
    let retry_at = Some(UnixSeconds(host.now.seconds().0 + 5));
    assert_eq!(
        failed,
        RecoveryStatus {
            attempt: None,
            since: None,
            failures: 1,
            retry_at
        }
    );
    assert_eq!(waiting(&host, "a").until, retry_at);
    while host.recovering.is_empty() {
        host.serve(&[]);
    }
    assert!(
        host.session
            .recovery()
            .is_some_and(|recovery| recovery.attempt.is_some() && recovery.since.is_some())
    );
    host.recovered("a");
    let since = host.session.in_service_since();
    assert_eq!((since, host.session.recovery()), (Some(host.now), None));
    host.restart();
    assert_eq!(host.session.in_service_since(), since);
}

#[test]
fn a_failed_recovery_has_no_time_while_an_event_keeps_the_machine_out_of_service() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    host.serve(&[]);
    host.recovery_ended("a", true, false);
    assert!(waiting(&host, "a").until.is_some());
    host.serve(&[event("b").started()]);
    let times = |host: &Host<4>| {
        (
            host.session.recovery().expect("out of service").retry_at,
            waiting(host, "a").until,
        )
    };
    assert_eq!(times(&host), (None, None));
    host.advance(60);
    host.serve(&[event("b").started()]);
    assert!(host.recovering.is_empty());
    assert_eq!(times(&host), (None, None));
}

#[test]
fn a_command_that_is_not_needed_any_more_is_waited_for() {
    let mut host = host::<4>(Action::Prepare);
    host.cancels = false;
    host.serve(&[event("a").event_type("Freeze").duration(9)]);
    host.serve(&[event("a").event_type("Redeploy").duration(9)]);
    assert_eq!(waits_for(&host, "a"), WaitsFor::CancelledCommand);
    host.end_cancelled();
    host.run();
    assert_eq!(waits_for(&host, "a"), WaitsFor::Preparation);
}
