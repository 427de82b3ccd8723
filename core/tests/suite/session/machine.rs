//! This machine's service: what takes it out, what brings it back, and what a preparation is good for.

use std::slice;

use scheduled_events_core::{Action, Policy, Preparation, Rule, Scope, SnapshotError, UnixMillis};

use crate::common::{Host, OTHER, START, Setup, VM, event, host, no_steps, setup, steps_after};

#[test]
fn recovers_once_after_the_last_of_several_prepared_events() {
    let mut host = host::<4>(Action::Prepare);
    assert_eq!(host.session.out_of_service_since(), None);
    host.serve(&[event("a"), event("b")]);
    host.ready("a");
    host.ready("b");
    assert_eq!(host.session.out_of_service_since(), Some(START));
    host.take_steps();
    // The first reboot is over; the second one was approved and starts: the application must stay stopped.
    assert_eq!(steps_after(&mut host, &[event("b")]), ["a: ended"]);
    assert_eq!(
        steps_after(&mut host, &[event("b").started()]),
        ["b: started"]
    );
    host.advance(3600);
    assert_eq!(host.take_steps(), no_steps());
    assert_eq!(
        steps_after(&mut host, &[]),
        ["b: completed", "recover b (a b)"]
    );
    assert_eq!(host.session.out_of_service_since(), None);
    assert!(host.session.is_idle());
}

#[test]
fn an_event_that_is_merely_approved_does_not_keep_the_machine_out_until_it_starts() {
    let short = Rule {
        max_duration: Some(8),
        ..Rule::new(Action::Approve)
    };
    let policy = Policy::new(&[short, Rule::new(Action::Prepare)]).unwrap();
    let freeze = event("freeze").event_type("Freeze").duration(5);
    let mut host = Host::<4>::new(Setup::new(policy.clone()));
    host.serve(&[event("reboot"), freeze.clone()]);
    host.ready("reboot");
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, slice::from_ref(&freeze)),
        ["reboot: ended", "recover reboot"]
    );

    let mut host = Host::<4>::new(Setup::new(policy));
    host.serve(&[event("reboot"), freeze.clone().started()]);
    host.ready("reboot");
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, &[freeze.started()]),
        ["reboot: ended"]
    );
    assert_eq!(
        steps_after(&mut host, &[]),
        ["freeze: completed", "recover freeze (freeze reboot)"]
    );
}

#[test]
fn a_preparation_that_becomes_due_cancels_the_recovery() {
    let mut host = host::<4>(Action::Prepare);
    (host.recovers, host.cancels) = (false, false);
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[]);
    assert_eq!(
        host.take_steps().last().map(String::as_str),
        Some("recover a")
    );
    let steps = [
        "b: scheduled",
        "b: prepare (a rule matches)",
        "cancel the recovery of a",
    ];
    assert_eq!(steps_after(&mut host, &[event("b")]), steps);
    // The preparation waits until the recovery has ended.
    assert_eq!(steps_after(&mut host, &[event("b")]), no_steps());
    host.end_cancelled();
    host.run();
    assert_eq!(host.take_steps(), ["prepare b"]);
    host.ready("b");
    host.take_steps();
    assert_eq!(steps_after(&mut host, &[]), ["b: ended", "recover b (a b)"]);
    host.recovered("b");
    assert_eq!(host.session.out_of_service_since(), None);
}

#[test]
fn a_recovery_that_fails_is_tried_again_until_it_succeeds() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[]);
    host.take_steps();
    let mut delays = Vec::new();
    for _ in 0..9 {
        host.recovery_ended("a", true, false);
        let failed = host.now;
        while host.recovering.is_empty() {
            host.serve(&[]);
        }
        delays.push(host.now.millis_since(failed) / 1000);
        assert!(host.session.out_of_service_since().is_some());
    }
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    assert!(host.take_steps().iter().all(|line| line == "recover a"));
    // A clock that is set back does not delay the next attempt further.
    host.recovery_ended("a", true, false);
    host.now = UnixMillis(START.0 - 86_400_000);
    host.last_get = host.now;
    let set_back = host.now;
    while host.recovering.is_empty() {
        host.serve(&[]);
    }
    assert!(host.now.millis_since(set_back) <= 301_000);
    // A restart tries it again at once, as soon as a document shows that nothing keeps the machine out.
    host.restart();
    host.run();
    assert!(host.recovering.is_empty());
    host.serve(&[]);
    host.recovered("a");
    assert!(host.session.out_of_service_since().is_none());
}

#[test]
fn another_type_or_a_longer_duration_voids_the_preparation() {
    let freeze = || event("a").event_type("Freeze").duration(9);
    for (other, voids) in [
        (freeze().event_type("Redeploy"), true),
        (freeze().duration(10), true),
        (freeze().duration(-1), true),
        (freeze().duration(8), false),
        (freeze().not_before(600), false),
        (freeze().source("User"), false),
        (freeze().resources(&[VM, OTHER]), false),
    ] {
        let mut setup = setup(Action::Prepare);
        setup.policy.leader = Some(scheduled_events_core::Leader::FirstResource);
        // While the command runs: it is ended, and another one is started.
        let mut host = Host::<4>::new(setup.clone());
        host.serve(&[freeze()]);
        host.take_steps();
        host.serve(slice::from_ref(&other));
        let steps: Vec<_> = host
            .take_steps()
            .into_iter()
            .filter(|line| !line.contains(':'))
            .collect();
        assert_eq!(
            steps,
            if voids {
                vec!["cancel a", "prepare a"]
            } else {
                vec![]
            },
            "{other:?}"
        );
        host.ready("a");
        assert_eq!(host.take_steps(), ["post a"]);
        // After it is ready, and not approved yet.
        let mut host = Host::<4>::new(setup);
        host.post_status = Some(500);
        host.serve(&[freeze()]);
        host.ready("a");
        host.serve(slice::from_ref(&other));
        host.take_steps();
        host.post_status = Some(200);
        for _ in 0..4 {
            host.serve(slice::from_ref(&other));
        }
        assert_eq!(
            host.take_steps(),
            if voids {
                no_steps()
            } else {
                vec![String::from("post a")]
            },
            "{other:?}"
        );
        assert_eq!(host.preparing.len(), usize::from(voids));
    }
}

#[test]
fn a_preparation_that_was_abandoned_is_repeated_for_another_event_only() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a").event_type("Freeze").duration(9)]);
    host.prepared("a", Preparation::Abandoned);
    host.take_steps();
    let redeploy = event("a").event_type("Redeploy").duration(9);
    assert_eq!(
        steps_after(&mut host, slice::from_ref(&redeploy)),
        ["a: updated", "prepare a"]
    );
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
    assert_eq!(
        host.session.events().next().unwrap().event_type(),
        "Redeploy"
    );
}

#[test]
fn what_cannot_be_read_or_is_not_scheduled_voids_nothing() {
    let freeze = || event("a").event_type("Freeze").duration(9);
    for unclear in [
        freeze().duration(60).invalid("EventSource"),
        freeze().invalid("DurationInSeconds"),
        freeze().duration(60).status("Queued"),
        freeze().event_type("Redeploy").started(),
    ] {
        let mut host = host::<4>(Action::Prepare);
        host.serve(&[freeze()]);
        host.serve(slice::from_ref(&unclear));
        let steps = host.take_steps();
        assert!(
            !steps.contains(&String::from("cancel a")),
            "{unclear:?}: {steps:?}"
        );
        host.ready("a");
    }
    // But what it says counts once it can be read.
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[freeze()]);
    host.serve(&[freeze().duration(60).invalid("EventSource")]);
    host.serve(&[freeze().duration(60)]);
    assert!(
        host.take_steps()
            .ends_with(&[String::from("cancel a"), String::from("prepare a")])
    );
}

#[test]
fn a_preparation_goes_on_after_the_start_and_is_cancelled_at_the_end() {
    let mut host = host::<4>(Action::Prepare);
    host.cancels = false;
    host.serve(&[event("a")]);
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, &[event("a").started()]),
        ["a: started"]
    );
    assert_eq!(steps_after(&mut host, &[]), ["a: completed", "cancel a"]);
    assert_eq!(steps_after(&mut host, &[]), no_steps());
    host.end_cancelled();
    host.run();
    assert_eq!(host.take_steps(), ["recover a"]);
}

#[test]
fn an_event_that_names_this_machine_no_longer_is_over_for_it_after_two_seconds() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.take_steps();
    let elsewhere = event("a").resources(&[OTHER]);
    assert_eq!(
        steps_after(&mut host, slice::from_ref(&elsewhere)),
        ["a: updated", "a: hold (another VM's event)"]
    );
    // Empty or unreadable resources decide nothing.
    host.serve(&[event("a").resources(&[])]);
    host.serve(&[event("a").invalid("Resources")]);
    assert!(!host.take_steps().contains(&String::from("recover a")));
    host.serve(slice::from_ref(&elsewhere));
    assert!(host.take_steps().contains(&String::from("recover a")));
    // It is this machine's again: prepared for anew.
    assert!(steps_after(&mut host, &[event("a")]).contains(&String::from("prepare a")));
    // The same document again counts as another one.
    host.serve(slice::from_ref(&elsewhere));
    host.take_steps();
    let body = crate::common::document(host.incarnation, slice::from_ref(&elsewhere));
    host.serve_body(&body, slice::from_ref(&elsewhere));
    assert_eq!(host.take_steps(), no_steps());
    host.serve_body(&body, &[elsewhere]);
    assert_eq!(host.take_steps(), ["cancel a", "recover a"]);
}

#[test]
fn an_unprepared_event_is_recovered_from_only_if_that_was_configured() {
    for (recover_all, last) in [(false, "a: completed"), (true, "recover a")] {
        let mut host = Host::<4>::new(Setup {
            recover_all,
            ..setup(Action::Hold)
        });
        host.serve(&[
            event("a").started(),
            event("b").resources(&[OTHER]).started(),
        ]);
        assert_eq!(host.session.out_of_service_since().is_some(), recover_all);
        host.take_steps();
        host.serve(&[event("b").resources(&[OTHER]).started()]);
        assert_eq!(host.take_steps().last().map(String::as_str), Some(last));
        host.serve(&[]);
        assert!(host.session.is_idle());
    }
}

#[test]
fn events_of_other_machines_are_recovered_from_one_by_one() {
    let any = Rule {
        scope: Scope::Any,
        ..Rule::new(Action::Prepare)
    };
    let mut host = Host::<4>::new(Setup::new(Policy::new(&[any]).unwrap()));
    let (mine, others) = (
        event("mine"),
        [
            event("x").resources(&[OTHER]),
            event("y").resources(&["vm_2"]),
        ],
    );
    host.serve(&[&[mine.clone()][..], &others].concat());
    for id in ["mine", "x", "y"] {
        host.ready(id);
    }
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, &[mine.clone(), others[1].clone()]),
        ["x: ended", "recover x"]
    );
    assert_eq!(
        steps_after(&mut host, &[others[1].clone()]),
        ["mine: ended", "recover mine"]
    );
    assert_eq!(steps_after(&mut host, &[]), ["y: ended", "recover y"]);
}

#[test]
fn both_a_new_time_and_another_change_are_reported() {
    let mut host = host::<4>(Action::Hold);
    host.serve(&[event("a")]);
    host.take_steps();
    let changed = event("a").not_before(300).duration(60);
    assert_eq!(
        steps_after(&mut host, &[changed]),
        ["a: rescheduled", "a: updated"]
    );
}

#[test]
fn more_than_sixteen_approved_events_that_return_are_not_approved_again() {
    let events: Vec<_> = (0..60).map(|n| event(&format!("e{n}"))).collect();
    let mut host = host::<64>(Action::Approve);
    for _ in 0..3 {
        host.serve(&events);
        host.serve(&events);
        host.serve(&[]);
        host.restart();
    }
    crate::common::invariants::no_event_is_approved_twice(&host.trace, &host.setup).unwrap();
}

#[test]
fn a_snapshot_of_another_machine_is_refused() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    let snapshot = host.snapshot();
    for (machine_id, expected) in [
        ("this machine", Ok(())),
        ("", Ok(())),
        ("its clone", Err(SnapshotError::OtherMachine)),
    ] {
        let mut session = Setup {
            machine_id,
            ..setup(Action::Prepare)
        }
        .session::<4>();
        assert_eq!(session.restore(&snapshot), expected);
        assert_eq!(session.events().count(), usize::from(expected.is_ok()));
        // The id may also become known later; it is kept by a session that does not know it.
        let mut session = Setup {
            machine_id: "",
            ..setup(Action::Prepare)
        }
        .session::<4>();
        session.restore(&snapshot).unwrap();
        assert_eq!(session.set_machine_id(machine_id), expected);
        assert_eq!(session.events().count(), usize::from(expected.is_ok()));
    }
}

#[test]
fn what_was_ready_before_a_reboot_is_prepared_for_again() {
    for (boot_id, approved, prepares) in [
        ("first boot", false, false),
        ("", false, false),
        ("second boot", false, true),
        ("second boot", true, false),
    ] {
        let mut host = host::<4>(Action::Prepare);
        host.post_status = Some(if approved { 200 } else { 500 });
        host.serve(&[event("a")]);
        host.ready("a");
        host.setup.boot_id = boot_id;
        host.restart();
        host.post_status = Some(500);
        host.take_steps();
        host.serve(&[event("a")]);
        assert_eq!(
            host.take_steps().contains(&String::from("prepare a")),
            prepares,
            "{boot_id}, {approved}"
        );
        // The recovery is due whatever was rebooted.
        host.post_status = Some(200);
        host.serve(&[]);
        assert_eq!(
            host.take_steps().last().map(String::as_str),
            Some("recover a")
        );
    }
}

#[test]
fn after_a_restart_the_recovery_waits_for_a_document() {
    let mut host = host::<4>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[]);
    assert_eq!(host.recovering.len(), 1);
    host.restart();
    host.take_steps();
    // Another event started meanwhile.
    let steps = steps_after(&mut host, &[event("b").started()]);
    assert_eq!(
        steps,
        ["b: started-without-notice", "b: hold (already started)"]
    );
    assert_eq!(
        steps_after(&mut host, &[]),
        ["b: completed", "recover b (a b)"]
    );
}

#[test]
fn a_recovery_names_the_last_event_even_if_there_is_no_room_for_it() {
    let mut host = Host::<2>::new(setup(Action::Prepare));
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[event("b"), event("c")]);
    let mut ids: Vec<_> = host
        .session
        .recovering()
        .map(|event| event.event_id().to_string())
        .collect();
    assert_eq!(ids, ["a"]);
    host.restart();
    host.serve(&[event("b"), event("c")]);
    ids = host.preparing.clone();
    ids.sort();
    assert_eq!(ids, ["b", "c"]);
    host.ready("b");
    host.ready("c");
    host.take_steps();
    host.serve(&[]);
    let last = host.take_steps().pop().unwrap();
    assert!(
        last.starts_with("recover ") && last.ends_with("(a b c)"),
        "{last}"
    );
    assert!(host.session.out_of_service_since().is_none());
}

#[test]
fn a_recovery_names_an_event_once_that_ended_returned_and_ended_again() {
    let mut host = Host::<2>::new(setup(Action::Prepare));
    host.serve(&[event("a")]);
    host.ready("a");
    // The event that ended gives its slot to another machine's.
    for _ in 0..2 {
        host.serve(&[event("b"), event("x").resources(&["vm_9"])]);
    }
    host.ready("b");
    // It returns, and is tracked once that one is over.
    for _ in 0..2 {
        host.serve(&[event("a"), event("b")]);
    }
    host.ready("a");
    host.serve(&[]);
    let last = host.take_steps().pop().unwrap();
    assert!(
        last.starts_with("recover ") && last.ends_with("(a b)"),
        "{last}"
    );
}
