//! Which documents a session accepts, and which of their events it tracks.

use std::slice;

use scheduled_events_core::{
    Action, Change, Document, EventKind, EventTypes, Member, Policy, Preparation, ProblemKind,
    Report, RequestOutcome, Response, Rule, Step, Tracker, UnixSeconds, VmNames,
};

use crate::common::{
    Host, OTHER, START, Setup, VM, document, event, host, no_steps, setup, steps_after,
};

#[test]
fn a_stale_document_is_accepted_if_it_stays() {
    let mut host = host::<4>(Action::Hold);
    let (old, new) = (document(1, &[event("a")]), document(2, &[]));
    host.serve_body(&old, &[event("a")]);
    host.serve_body(&new, &[]);
    host.take_steps();
    for second in 0..10 {
        assert_eq!(
            host.serve_body(&old, &[event("a")]),
            RequestOutcome::Stale,
            "after {second} s"
        );
    }
    assert_eq!(host.take_steps(), no_steps());
    assert_eq!(
        host.serve_body(&old, &[event("a")]),
        RequestOutcome::Document
    );
    assert_eq!(
        host.take_steps(),
        ["a: scheduled", "a: hold (a rule matches)"]
    );
    // Two servers answer alternately, and one of them is outdated.
    for _ in 0..20 {
        assert_eq!(host.serve_body(&new, &[]), RequestOutcome::Stale);
        assert_eq!(
            host.serve_body(&old, &[event("a")]),
            RequestOutcome::Unchanged
        );
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
    let bodies: Vec<_> = (1..=6)
        .map(|incarnation| document(incarnation, &events))
        .collect();
    for body in &bodies {
        assert_eq!(host.serve_body(body, &events), RequestOutcome::Document);
    }
    for body in &bodies[1..5] {
        assert_eq!(host.serve_body(body, &events), RequestOutcome::Stale);
    }
    assert_eq!(
        host.serve_body(&bodies[0], &events),
        RequestOutcome::Document
    );
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
        assert_eq!(
            steps_after(&mut host, &over),
            [format!("a: {change}"), String::from("recover a")]
        );
        for _ in 0..3 {
            assert_eq!(steps_after(&mut host, &over), no_steps(), "{word}");
        }
    }
}

#[test]
fn the_first_of_several_events_with_one_id_counts() {
    let mut events = vec![event("a").resources(&[OTHER]); 20];
    events[19] = event("A").resources(&["vm_7"]);
    let mut host = host::<4>(Action::Approve);
    host.serve(&events[..1]);
    host.take_steps();
    host.serve(&events);
    let steps = host.take_steps();
    assert!(
        steps.iter().all(|line| line == "problem: repeated"),
        "{steps:?}"
    );
}

/// Fault 32 of `tests/field-faults.md`: another machine's event of the same id does not hide this machine's, whichever comes first.
#[test]
fn an_own_event_is_never_hidden_by_another_entry_and_not_approved() {
    let other = event("d-1").event_type("Reboot").resources(&[OTHER]);
    let own = event("D-1").event_type("Preempt");
    for known in [false, true] {
        let mut host = host::<4>(Action::Prepare);
        if known {
            host.serve(slice::from_ref(&other));
            host.take_steps();
        }
        host.serve(&[other.clone(), own.clone()]);
        let steps = host.take_steps().join("\n");
        assert!(
            steps.contains("prepare (unreadable EventId)") && steps.contains("problem: repeated"),
            "{steps}"
        );
        assert!(!host.preparing.is_empty(), "{steps}");
        let id = host.preparing[0].clone();
        host.prepared(&id, Preparation::Ready);
        host.run();
        host.advance(5000);
        assert!(
            !host
                .take_steps()
                .iter()
                .any(|step| step.contains("approve"))
        );
        // Alone again, it can be approved; if it was known as another one, after another preparation.
        host.serve(slice::from_ref(&own));
        let steps = host.take_steps().join("\n");
        let next = if known { "prepare" } else { "post" };
        assert!(steps.contains(next), "{steps}");
    }
}

#[test]
fn repeated_ids_that_the_document_does_not_omit_are_reported_and_ignored() {
    // The document compares the first 64 ids only.
    const FIRST: usize = 70;
    let mut events: Vec<_> = (0..FIRST).map(|n| event(&format!("e{n}"))).collect();
    events.extend(["e66", "E67"].map(|id| event(id).started()));
    let body = document(1, &events);
    let response = Response {
        status: 200,
        body: body.as_bytes(),
        ..Response::default()
    };
    let mut session = setup(Action::Hold).session::<80>();
    for started in [false, true] {
        let now = if started { START.plus(1000) } else { START };
        assert!(matches!(session.take_step(now), Step::Get { .. }));
        if started {
            // The same events again: now the first ones are known.
            let body = document(2, &events);
            session.on_response(
                &Response {
                    body: body.as_bytes(),
                    ..response
                },
                now,
            );
        } else {
            session.on_response(&response, now);
        }
        let (mut problems, mut others) = (Vec::new(), 0);
        while let Step::Report(report) = session.take_step(now) {
            match report {
                Report::Problem(problem) => problems.push(problem),
                _ => others += 1,
            }
        }
        assert_eq!(others, if started { 0 } else { 2 * FIRST });
        for (problem, index) in problems.iter().zip(FIRST..) {
            assert_eq!(problem.event, Some(index));
            assert_eq!(
                (problem.member, problem.kind),
                (Some(Member::EventId), ProblemKind::Repeated)
            );
            assert!(
                body[problem.offset..]
                    .to_ascii_lowercase()
                    .starts_with(&format!(r#""e{}""#, index - 4))
            );
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
        assert_eq!(
            (count("A: scheduled"), count("A: ended"), count("post A")),
            (3, 3, 0),
            "{steps:?}"
        );
        assert_eq!(
            count("prepare A"),
            if action == Action::Prepare { 3 } else { 0 }
        );
    }
}

#[test]
fn an_event_that_returns_starts_anew_at_once() {
    let mut host = host::<4>(Action::Prepare);
    (host.recovers, host.cancels) = (false, false);
    host.serve(&[event("a")]);
    host.serve(&[]);
    let steps = [
        "a: scheduled",
        "a: prepare (a rule matches)",
        "prepare a",
        "a: cancelled",
        "cancel a",
    ];
    assert_eq!(host.take_steps(), steps);
    // The preparation still runs when the event returns: the next one waits for its end.
    assert_eq!(
        steps_after(&mut host, &[event("a")]),
        ["a: scheduled", "a: prepare (a rule matches)"]
    );
    host.end_cancelled();
    host.run();
    assert_eq!(host.take_steps(), ["prepare a"]);
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
    host.serve(&[]);
    assert_eq!(host.take_steps(), ["a: ended", "recover a"]);
    // It returns during the recovery, which is cancelled; it is prepared for again, and not approved again.
    let again = [
        "a: scheduled",
        "a: prepare (a rule matches)",
        "cancel the recovery of a",
    ];
    assert_eq!(steps_after(&mut host, &[event("a")]), again);
    host.end_cancelled();
    host.run();
    assert_eq!(host.take_steps(), ["prepare a"]);
    host.ready("a");
    assert_eq!(steps_after(&mut host, &[]), ["a: ended", "recover a"]);
}

#[test]
fn own_events_and_earliest_deadlines_are_tracked_first() {
    let others: Vec<_> = (0..5)
        .map(|n| event(&format!("o{n}")).resources(&[OTHER]))
        .collect();
    let mut host = host::<2>(Action::Hold);
    host.serve(&others);
    assert!(
        host.take_steps()
            .contains(&String::from("not tracked: 0 own, 3 others"))
    );
    let own = [
        event("week").not_before(604_800),
        event("day").not_before(86_400),
        event("minute").not_before(60),
    ];
    let followed = |host: &Host<2>| {
        let mut ids: Vec<_> = host
            .session
            .events()
            .map(|event| event.event_id().to_string())
            .collect();
        ids.sort();
        ids
    };
    // The order in the document does not matter.
    host.serve(&[&others[..], &own[..2]].concat());
    assert_eq!(followed(&host), ["day", "week"]);
    assert!(
        host.take_steps()
            .contains(&String::from("not tracked: 0 own, 5 others"))
    );
    host.serve(&[&others[..], &own[..]].concat());
    assert_eq!(followed(&host), ["day", "minute"]);
    assert!(
        host.take_steps()
            .contains(&String::from("not tracked: 1 own, 5 others"))
    );
    host.serve(&[&own[1..], &own[..1], &others[..]].concat());
    assert_eq!(followed(&host), ["day", "minute"]);
    assert_eq!(host.take_steps(), no_steps());
    // Free capacity is used even if the document does not change.
    let rest = [own[0].clone(), own[2].clone()];
    host.serve(&rest);
    host.serve_body(&document(host.incarnation, &rest), &rest);
    assert_eq!(followed(&host), ["minute", "week"]);
    let steps = host.take_steps();
    assert_eq!(
        steps.last().map(String::as_str),
        Some("not tracked: 0 own, 0 others"),
        "{steps:?}"
    );
}

#[test]
fn approved_events_are_evicted_last() {
    let approve = Rule {
        event_types: EventTypes::of(&[EventKind::Freeze]),
        ..Rule::new(Action::Approve)
    };
    let policy = Policy::new(&[approve, Rule::new(Action::Hold)]).unwrap();
    let mut host = Host::<2>::new(Setup::new(policy));
    let both = [
        event("approved").event_type("Freeze").not_before(604_800),
        event("held").event_type("Reboot").not_before(86_400),
    ];
    host.serve(&both);
    host.serve(&both);
    assert!(host.take_steps().contains(&String::from("post approved")));
    host.serve(
        &[
            &both[..],
            &[event("soon").event_type("Reboot").not_before(60)],
        ]
        .concat(),
    );
    let mut ids: Vec<_> = host
        .session
        .events()
        .map(|event| event.event_id().to_string())
        .collect();
    ids.sort();
    assert_eq!(ids, ["approved", "soon"]);
}

#[test]
fn a_prepared_event_is_never_evicted() {
    let mut host = host::<1>(Action::Prepare);
    host.serve(&[event("late").not_before(604_800)]);
    host.take_steps();
    let both = [
        event("late").not_before(604_800),
        event("soon").not_before(30),
    ];
    assert_eq!(
        steps_after(&mut host, &both),
        ["not tracked: 1 own, 0 others"]
    );
    host.ready("late");
    assert_eq!(host.take_steps(), ["post late"]);
    assert_eq!(
        steps_after(&mut host, &[]),
        [
            "late: ended",
            "recover late",
            "not tracked: 0 own, 0 others"
        ]
    );
}

#[test]
fn an_event_that_is_still_to_be_recovered_from_is_never_evicted() {
    let policy = Policy::new(&[Rule {
        prepare_before: Some(3600),
        ..Rule::new(Action::Prepare)
    }])
    .unwrap();
    let mut host = Host::<1>::new(Setup::new(policy));
    host.recovers = false;
    host.post_status = Some(500);
    host.serve(&[event("a").not_before(900)]);
    host.ready("a");
    // It is too early for it now, so the machine returns to service, and the first recovery fails.
    let later = event("a").not_before(604_800);
    host.serve(slice::from_ref(&later));
    assert!(host.take_steps().contains(&String::from("recover a")));
    host.recovery_ended("a", true, false);
    host.serve(&[later, event("b").not_before(7200)]);
    host.advance(60);
    assert!(host.take_steps().contains(&String::from("recover a")));
}

#[test]
fn an_own_event_takes_the_place_of_one_that_is_not_own_any_more_though_a_recovery_names_it() {
    let mut host = host::<2>(Action::Prepare);
    host.recovers = false;
    host.serve(&[event("a")]);
    host.ready("a");
    host.serve(&[]);
    let mut events = vec![event("a").resources(&["vm_9"]), event("b")];
    for _ in 0..2 {
        host.serve(&events);
    }
    events.push(event("c"));
    host.serve(&events);
    let ids: Vec<_> = host
        .session
        .events()
        .map(|event| event.event_id().to_string())
        .collect();
    assert!(ids.contains(&String::from("c")), "{ids:?}");
}

#[test]
fn an_end_is_classified_by_the_time_of_day() {
    for (ahead_ms, change) in [
        (800_000, "cancelled"),
        (900_000, "ended"),
        (i64::MAX, "ended"),
        (i64::MIN, "cancelled"),
    ] {
        let mut host = host::<1>(Action::Hold);
        host.serve(&[event("a").not_before(900)]);
        host.take_steps();
        host.session.set_time_of_day_ahead(ahead_ms);
        assert_eq!(
            steps_after(&mut host, &[]),
            [format!("a: {change}")],
            "{ahead_ms}"
        );
    }
}

#[test]
fn an_event_with_a_too_long_id_is_tracked_and_never_approved() {
    let long = event("x").invalid("EventId");
    let mut host = host::<4>(Action::Approve);
    let steps = steps_after(&mut host, &[long.clone(), event("a")]);
    assert!(
        steps.contains(&format!("{}: hold (unreadable EventId)", long.tracked_id())),
        "{steps:?}"
    );
    assert!(steps.contains(&String::from("problem: too-long")));
    assert_eq!(steps.last().map(String::as_str), Some("post a"));
    assert_eq!(
        steps_after(&mut host, &[event("a")]),
        [format!("{}: cancelled", long.tracked_id())]
    );
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

/// A document that makes the search for repeated ids as long as it can be: it takes seconds if each event is compared with all.
#[test]
fn repeated_ids_cost_no_more_however_many_events_follow() {
    let text = "x".repeat(4_000);
    let foreign = |id: &str, text: &str| {
        format!(r#"{{"EventId":"{id}","Resources":["b"],"Description":"{text}"}}"#)
    };
    let mut events: Vec<_> = (0..63).map(|n| foreign(&format!("e{n}"), &text)).collect();
    events.insert(1, foreign("E0", &text));
    events.extend((0..20_000).map(|n| foreign(&format!("x{n}"), "")));
    let body = format!(r#"{{"Events":[{}]}}"#, events.join(","));
    let parsed = Document::parse(body.as_bytes()).unwrap();
    let names = VmNames::new(&["db_0"]);
    assert_eq!(parsed.events_for(names).count(), 63 + 20_000);
}
