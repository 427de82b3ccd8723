//! Faults seen in other clients of Scheduled Events: one test for each fault in reading, deciding and approving. Faults in
//! HTTP and process handling are tested in `cli/tests/suite/field_faults.rs`.

use scheduled_events_core::{
    Action, Cause, Document, Incarnation, Leader, NotBefore, Policy, Preparation, ProblemKind,
    RequestOutcome, Response, Rule, SnapshotError, TrackedEvent, UnixSeconds, VmNames,
};

use crate::common::{Host, OTHER, START, Setup, Spec, VM, document, event, steps_after};

fn policy(action: Action) -> Policy {
    Policy::new(&[Rule::new(action)]).unwrap()
}

fn host(action: Action) -> Host<8> {
    Host::new(Setup::new(policy(action)))
}

#[test]
fn fault_01_one_ill_typed_member_rejects_the_document() {
    // A number written as a string, or an incarnation above 63 bits, fails the whole document, and an eviction is missed.
    for incarnation in [
        "18446744073709551615",
        "99999999999999999999",
        "-1",
        "1.5",
        "\"2\"",
        "true",
        "{}",
    ] {
        let body = format!(
            r#"{{"DocumentIncarnation":{incarnation},"Events":[
                {{"EventId":"odd","EventType":7,"DurationInSeconds":"soon","NotBefore":[],"Resources":"{VM}"}},
                {{"EventId":"p","EventType":"Preempt","EventStatus":"Scheduled","Resources":["{VM}"],
                  "DurationInSeconds":"30"}}]}}"#
        );
        let mut host = host(Action::Approve);
        assert_eq!(
            host.serve_body(&body, &[event("odd").invalid("EventType"), event("p")]),
            RequestOutcome::Document
        );
        assert!(
            host.take_steps().contains(&String::from("post p")),
            "{incarnation}"
        );
    }
}

#[test]
fn fault_02_an_unreadable_not_before_is_taken_for_now() {
    // The unreadable time becomes zero, which is in the past, so the event is approved immediately.
    for (value, unset) in [
        ("\"soon\"", false),
        ("\"20170702\"", false),
        ("17", false),
        ("\"\"", true),
        ("\" \"", true),
        ("null", true),
    ] {
        let body = format!(
            r#"{{"Events":[{{"EventId":"a","EventStatus":"Scheduled","EventType":"Freeze","NotBefore":{value},
                "Resources":["{VM}"]}}]}}"#
        );
        let document = Document::parse(body.as_bytes()).unwrap();
        let event = document.events().next().unwrap();
        assert_eq!(event.not_before() == NotBefore::Unset, unset, "{value}");
        assert_eq!(event.not_before().moment(), None, "{value}");
        let decision = policy(Action::Prepare).decide(&event, VmNames::new(&[VM]), START.seconds());
        assert_eq!(decision.time_left, None, "{value}");
    }
    // It is empty after the start: the event is not prepared for again, and the deadline is kept.
    let mut host = host(Action::Prepare);
    assert_eq!(
        steps_after(&mut host, &[event("a")]),
        ["a: scheduled", "a: prepare (a rule matches)", "prepare a"]
    );
    host.ready("a");
    assert_eq!(
        steps_after(&mut host, &[event("a").started()]),
        ["post a", "a: started"]
    );
    assert_eq!(
        host.session.events().next().unwrap().not_before(),
        Some(UnixSeconds(START.seconds().0 + 900))
    );
}

#[test]
fn fault_03_only_one_form_of_time_is_read() {
    // The service writes RFC 1123 and its mock servers write ISO 8601, but clients read only one of them.
    for time in [
        "Mon, 11 Apr 2022 22:26:58 GMT",
        "Sun, 11 Apr 2022 22:26:58 GMT",
        "2022-04-11T22:26:58Z",
        "2022-04-11T22:26:58.145Z",
        "2022-04-11T22:26:58.1458776Z",
        "2022-04-11T22:26:58",
    ] {
        let body = format!(r#"{{"Events":[{{"EventId":"a","NotBefore":"{time}"}}]}}"#);
        let document = Document::parse(body.as_bytes()).unwrap();
        assert_eq!(document.problems().count(), 0, "{time}");
        let moment = document.events().next().unwrap().not_before().moment();
        assert_eq!(moment, Some(UnixSeconds(1_649_716_018)), "{time}");
    }
}

#[test]
fn fault_04_names_compared_by_case_or_partially() {
    // A name in another case is missed, `vm1` matches `vm10`, and a name without `_` crashes the client.
    for (resource, names, mine) in [
        ("VM1", &["vm1"][..], true),
        ("vm10", &["vm1"], false),
        ("vm1", &["vm10"], false),
        ("web_0000ny", &["WEB_0000NY"], true),
        ("web_862", &["web_0000ny"], false),
        ("web", &["web_0"], false),
        ("a_b_c_1", &["a_b_c_1"], true),
        ("_", &["vm1"], false),
        ("", &["vm1"], false),
        ("host", &["vm1", "HOST"], true),
    ] {
        let body = format!(r#"{{"Events":[{{"EventId":"a","Resources":["{resource}"]}}]}}"#);
        let document = Document::parse(body.as_bytes()).unwrap();
        let event = document.events().next().unwrap();
        assert_eq!(
            VmNames::new(names).owns(&event),
            Some(mine),
            "{resource} for {names:?}"
        );
    }
}

#[test]
fn fault_05_only_the_first_event_or_resource_looked_at() {
    // An eviction after a freeze is missed, and so is a machine that is not the first resource.
    let events = [
        event("f").resources(&[OTHER]).event_type("Freeze"),
        event("p")
            .resources(&["x", OTHER, VM])
            .event_type("Preempt"),
    ];
    let body = document(1, &events);
    let document = Document::parse(body.as_bytes()).unwrap();
    let last = document.events().last().unwrap();
    assert_eq!(VmNames::new(&[VM]).rank(&last), Some(2));
    let mut host = host(Action::Prepare);
    assert!(steps_after(&mut host, &events).contains(&String::from("prepare p")));
}

#[test]
fn fault_06_an_error_read_as_no_events() {
    // The body of a 429 is JSON without events, so a client that ignores the status ends every event.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.take_steps();
    for status in [204, 301, 400, 404, 405, 410, 429, 500, 503] {
        let body = br#"{"error":"throttled","DocumentIncarnation":9,"Events":[]}"#;
        let outcome = host.answer(
            &Response {
                status,
                body,
                ..Response::default()
            },
            &[],
        );
        assert!(
            matches!(outcome, RequestOutcome::PollFailed { .. }),
            "{status}: {outcome:?}"
        );
    }
    assert_eq!(host.session.events().count(), 1);
    assert_eq!(host.take_steps(), Vec::<String>::new());
}

#[test]
fn fault_07_the_incarnation_compared_as_a_growing_number() {
    // It restarts after a day without polls, skips numbers and exceeds 32 bits, so new documents are ignored.
    let mut host = host(Action::Hold);
    for (incarnation, id) in [
        ("279", "a"),
        ("0", "b"),
        ("2", "c"),
        ("18446744073709551615", "d"),
        ("\"1\"", "e"),
    ] {
        let body = document(1, &[event(id)]).replace(":1,", &format!(":{incarnation},"));
        assert_eq!(
            host.serve_body(&body, &[event(id)]),
            RequestOutcome::Document
        );
        assert!(
            host.take_steps().contains(&format!("{id}: scheduled")),
            "{incarnation}"
        );
    }
    let body = br#"{"DocumentIncarnation":18446744073709551615,"Events":[]}"#;
    assert_eq!(
        Document::parse(body).unwrap().incarnation(),
        Incarnation::Number(u64::MAX)
    );
}

#[test]
fn fault_08_an_empty_200_ends_every_event() {
    // An empty body crashes the client or is read as an empty list.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.take_steps();
    for body in ["", " ", "\r\n"] {
        let outcome = host.serve_body(body, &[]);
        assert!(
            matches!(
                outcome,
                RequestOutcome::PollFailed {
                    cause: Cause::EmptyBody,
                    ..
                }
            ),
            "{outcome:?}"
        );
    }
    assert_eq!(
        (host.take_steps().len(), host.session.events().count()),
        (0, 1)
    );
}

#[test]
fn fault_09_other_machines_events_and_started_ones_approved() {
    // Every event of the document is approved, whatever its resources and status, or another machine's eviction shuts
    // this one down.
    for action in [Action::Approve, Action::Prepare] {
        let mut host = host(action);
        let steps = steps_after(
            &mut host,
            &[
                event("o").resources(&[OTHER]).event_type("Preempt"),
                event("s").started(),
            ],
        );
        assert_eq!(
            steps,
            [
                "s: started-without-notice",
                "s: hold (already started)",
                "o: scheduled",
                "o: hold (another VM's event)"
            ]
        );
    }
}

#[test]
fn fault_10_approved_after_a_failed_drain_and_at_every_poll() {
    // The results of the drain and of the POST are ignored, and the next poll approves again.
    let mut failing = host(Action::Prepare);
    failing.serve(&[event("a")]);
    failing.prepared("a", Preparation::Failed);
    failing.take_steps();
    for _ in 0..20 {
        failing.serve(&[event("a")]);
    }
    assert!(
        !failing
            .take_steps()
            .iter()
            .any(|step| step.starts_with("post"))
    );

    let mut repeating = host(Action::Approve);
    repeating.post_status = Some(403);
    repeating.serve(&[event("a")]);
    assert!(repeating.session.events().all(|event| !event.is_approved()));
    repeating.post_status = Some(200);
    for _ in 0..20 {
        repeating.serve(&[event("a")]);
    }
    assert!(repeating.session.events().all(TrackedEvent::is_approved));
    let posts = repeating
        .take_steps()
        .iter()
        .filter(|line| *line == "post a")
        .count();
    assert_eq!(posts, 2);
}

#[test]
fn fault_11_a_failed_approval_never_retried() {
    // The document is processed only when it changes, and a failed POST does not change it.
    for status in [Some(500), Some(429), Some(400), None] {
        let mut host = host(Action::Approve);
        host.post_status = status;
        let events = [event("a")];
        host.serve(&events);
        host.post_status = Some(200);
        for _ in 0..3 {
            host.serve_body(&document(1, &events), &events);
        }
        assert!(
            host.session.events().all(TrackedEvent::is_approved),
            "{status:?}"
        );
    }
}

#[test]
fn fault_12_the_last_of_two_own_events_wins() {
    // One variable holds the event: the machine is drained for one event and approves another.
    let mut host = host(Action::Prepare);
    host.serve(&[
        event("reboot"),
        event("freeze").event_type("Freeze").not_before(4 * 86_400),
    ]);
    host.take_steps();
    host.ready("reboot");
    assert_eq!(host.take_steps(), ["post reboot"]);
    assert_eq!(host.preparing, ["freeze"]);
}

#[test]
fn fault_13_marked_as_handled_before_it_is() {
    // The id is stored as known first, so an error after that loses the event.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.restart();
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, &[event("a")]),
        ["a: prepare (a rule matches)", "prepare a"]
    );

    host.dies_after_steps = Some(1); // With the approval sent, and its answer on the way.
    host.ready("a");
    assert_eq!(host.take_steps(), ["post a"]);
    host.advance_to_poll();
    assert_eq!(
        steps_after(&mut host, &[event("a")]),
        ["a: prepare (a rule matches)", "post a"]
    );
}

#[test]
fn fault_14_what_vanished_is_always_taken_for_finished() {
    // A completed event, a cancelled one and one that vanished at its time are not distinguished.
    let ends = |action: Action, pass: u32, last: Spec| {
        let mut host = host(action);
        host.serve(&[event("a")]);
        host.serve(&[last]);
        host.advance(pass);
        host.take_steps();
        steps_after(&mut host, &[])
    };
    assert_eq!(
        ends(Action::Hold, 0, event("a").started()),
        ["a: completed"]
    );
    assert_eq!(
        ends(Action::Hold, 0, event("a").not_before(901)),
        ["a: cancelled"]
    );
    assert_eq!(
        ends(Action::Hold, 1000, event("a").not_before(901)),
        ["a: ended"]
    );
    assert_eq!(
        ends(Action::Approve, 0, event("a").not_before(901)),
        ["a: ended"]
    );
}

#[test]
fn fault_15_recovery_when_the_event_starts() {
    // The machine returns to service exactly when it goes down.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, &[event("a").started()]),
        ["a: started"]
    );
    host.advance(3600);
    assert_eq!(
        steps_after(&mut host, &[event("a").started()]),
        Vec::<String>::new()
    );
    assert_eq!(steps_after(&mut host, &[]), ["a: completed", "recover a"]);
}

#[test]
fn fault_16_a_stranger_among_the_resources_blocks_for_ever() {
    // The approval waits for every resource, one of which is unknown, or a hold outlives its event.
    for leader in [
        Leader::FirstResource,
        Leader::Rank {
            take_over_after: 30,
        },
        Leader::Everyone,
    ] {
        let mut policy = policy(Action::Prepare);
        policy.leader = Some(leader);
        let mut host = Host::<8>::new(Setup::new(policy));
        host.serve(&[event("a").resources(&[VM, "stranger"])]);
        host.take_steps();
        host.ready("a");
        assert_eq!(host.take_steps(), ["post a"], "{leader:?}");
    }
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.prepared("a", Preparation::Failed);
    host.take_steps();
    host.serve(&[]);
    assert_eq!(host.take_steps(), ["a: cancelled", "recover a"]);
    host.serve(&[]);
    assert!(host.session.is_idle());
}

#[test]
fn fault_17_a_restart_prepares_again_or_forgets_to_recover() {
    // The state is only in memory, or in a format that another version or a partial write breaks.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.restart();
    host.take_steps();
    assert_eq!(
        steps_after(&mut host, &[event("a")]),
        ["a: prepare (a rule matches)"]
    );
    host.restart();
    assert_eq!(steps_after(&mut host, &[]), ["a: ended", "recover a"]);

    let snapshot = host.snapshot();
    let mut session = host.setup.session::<8>();
    for end in 0..snapshot.len() {
        assert_eq!(
            session.restore(&snapshot[..end]),
            Err(SnapshotError::Damaged)
        );
    }
}

#[test]
fn fault_18_nobody_takes_over_from_a_dead_leader() {
    // The first resource approves after a fixed delay. If it is down, nobody approves.
    let mut policy = policy(Action::Approve);
    policy.leader = Some(Leader::Rank {
        take_over_after: 30,
    });
    let mut host = Host::<8>::new(Setup::new(policy));
    let events = [event("a").resources(&["dead", "dead too", VM])];
    host.serve(&events);
    host.take_steps();
    let mut polls = 0;
    while host.take_steps() != ["post a"] {
        host.serve(&events);
        polls += 1;
        assert!(polls <= 61);
    }
    assert!(polls >= 59, "{polls}");
    // If the leader is up, the event has started before that.
    assert_eq!(
        steps_after(
            &mut host,
            &[event("a").resources(&["dead", "dead too", VM]).started()]
        ),
        ["a: started"]
    );
}

#[test]
fn problems_are_reported() {
    // Not in the list: a client that skips what it cannot read must report it.
    let body = r#"{"Events":[7,{"EventType":"Reboot"},{"EventId":"a","NotBefore":"soon"},{"EventId":"A"}]}"#;
    let document = Document::parse(body.as_bytes()).unwrap();
    let kinds: Vec<_> = document
        .problems()
        .map(|problem| (problem.event.unwrap(), problem.kind))
        .collect();
    let expected = [
        (0, ProblemKind::NotAnObject),
        (1, ProblemKind::Missing),
        (2, ProblemKind::UnreadableTime),
        (3, ProblemKind::Repeated),
    ];
    assert_eq!(kinds, expected);
}
