//! What goes wrong in other clients of Scheduled Events, and does not here: a test for each fault of reading, deciding
//! and approving. Those of talking HTTP and of running are tested where that is done.

use scheduled_events_core::{
    Action, Cause, Document, Incarnation, Leader, NotBefore, Policy, Preparation, ProblemKind, RequestOutcome,
    Response, Rule, SnapshotError, TrackedEvent, UnixSeconds, VmNames,
};

use crate::common::{Host, OTHER, START, Setup, Spec, VM, document, event};

fn policy(action: Action) -> Policy {
    Policy::new(&[Rule::new(action)]).unwrap()
}

fn host(action: Action) -> Host<8> {
    Host::new(Setup::new(policy(action)))
}

/// Serves a document and tells what is said about it.
fn hear(host: &mut Host<8>, events: &[Spec]) -> Vec<String> {
    host.serve(events);
    host.heard()
}

#[test]
fn fault_01_one_ill_typed_member_rejects_the_document() {
    // A number spelt as a text, or an incarnation beyond 63 bits, fails the whole read, and the eviction is missed.
    for incarnation in ["18446744073709551615", "99999999999999999999", "-1", "1.5", "\"2\"", "true", "{}"] {
        let body = format!(
            r#"{{"DocumentIncarnation":{incarnation},"Events":[
                {{"EventId":"odd","EventType":7,"DurationInSeconds":"soon","NotBefore":[],"Resources":"{VM}"}},
                {{"EventId":"p","EventType":"Preempt","EventStatus":"Scheduled","Resources":["{VM}"],
                  "DurationInSeconds":"30"}}]}}"#
        );
        let mut host = host(Action::Approve);
        assert_eq!(host.serve_body(&body, &[event("odd").odd("EventType"), event("p")]), RequestOutcome::Document);
        assert!(host.heard().contains(&String::from("post p")), "{incarnation}");
    }
}

#[test]
fn fault_02_an_unreadable_not_before_is_taken_for_now() {
    // What cannot be read becomes the zero time, which has passed, so the machine is drained and handed over at once.
    for (value, unset) in
        [("\"soon\"", false), ("\"20170702\"", false), ("17", false), ("\"\"", true), ("\" \"", true), ("null", true)]
    {
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
    // Blank once the event has started: neither a second preparation nor a forgotten deadline.
    let mut host = host(Action::Prepare);
    assert_eq!(hear(&mut host, &[event("a")]), ["a: scheduled", "a: prepare (a rule matches)", "prepare a"]);
    host.ready("a");
    assert_eq!(hear(&mut host, &[event("a").started()]), ["post a", "a: started"]);
    assert_eq!(host.session.events().next().unwrap().not_before(), Some(UnixSeconds(START.seconds().0 + 900)));
}

#[test]
fn fault_03_only_one_form_of_time_is_read() {
    // The service writes RFC 1123, its mock servers write ISO 8601; clients know one of the two.
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
fn fault_04_names_are_matched_by_case_or_in_part() {
    // A name in other case is missed, `vm1` is found in `vm10`, and a name without `_` crashes the client.
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
        assert_eq!(VmNames::new(names).owns(&event), Some(mine), "{resource} for {names:?}");
    }
}

#[test]
fn fault_05_only_the_first_event_or_resource_looked_at() {
    // A freeze that stands first hides the eviction behind it; a machine that stands second does not find itself.
    let events = [event("f").of(&[OTHER]).typed("Freeze"), event("p").of(&["x", OTHER, VM]).typed("Preempt")];
    let body = document(1, &events);
    let document = Document::parse(body.as_bytes()).unwrap();
    let last = document.events().last().unwrap();
    assert_eq!(VmNames::new(&[VM]).rank(&last), Some(2));
    let mut host = host(Action::Prepare);
    assert!(hear(&mut host, &events).contains(&String::from("prepare p")));
}

#[test]
fn fault_06_an_error_read_as_no_events() {
    // The body of a 429 is JSON too; without a look at the status it says that every event is over.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.heard();
    for status in [204, 301, 400, 404, 405, 410, 429, 500, 503] {
        let body = br#"{"error":"throttled","DocumentIncarnation":9,"Events":[]}"#;
        let outcome = host.answer(&Response { status, body, ..Response::default() }, &[]);
        assert!(matches!(outcome, RequestOutcome::PollFailed { .. }), "{status}: {outcome:?}");
    }
    assert_eq!(host.session.events().count(), 1);
    assert_eq!(host.heard(), Vec::<String>::new());
}

#[test]
fn fault_07_the_incarnation_compared_as_a_growing_number() {
    // It starts again after a day without polls, skips numbers, and is wider than 32 bits; then nothing is new any more.
    let mut host = host(Action::Hold);
    for (incarnation, id) in [("279", "a"), ("0", "b"), ("2", "c"), ("18446744073709551615", "d"), ("\"1\"", "e")] {
        let body = document(1, &[event(id)]).replace(":1,", &format!(":{incarnation},"));
        assert_eq!(host.serve_body(&body, &[event(id)]), RequestOutcome::Document);
        assert!(host.heard().contains(&format!("{id}: scheduled")), "{incarnation}");
    }
    let body = br#"{"DocumentIncarnation":18446744073709551615,"Events":[]}"#;
    assert_eq!(Document::parse(body).unwrap().incarnation(), Incarnation::Number(u64::MAX));
}

#[test]
fn fault_08_an_empty_200_ends_every_event() {
    // No bytes at all crash the reader, or are read as an empty list.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.heard();
    for body in ["", " ", "\r\n"] {
        let outcome = host.serve_body(body, &[]);
        assert!(matches!(outcome, RequestOutcome::PollFailed { cause: Cause::EmptyBody, .. }), "{outcome:?}");
    }
    assert_eq!((host.heard().len(), host.session.events().count()), (0, 1));
}

#[test]
fn fault_09_other_machines_events_and_started_ones_approved() {
    // Every event of the document is approved, whoever it is for and however far it is; or another's eviction shuts
    // this machine down.
    for action in [Action::Approve, Action::Prepare] {
        let mut host = host(action);
        let said = hear(&mut host, &[event("o").of(&[OTHER]).typed("Preempt"), event("s").started()]);
        assert_eq!(
            said,
            ["s: started-without-notice", "s: hold (already started)", "o: scheduled", "o: hold (another VM's event)"]
        );
    }
}

#[test]
fn fault_10_approved_after_a_failed_drain_and_at_every_poll() {
    // The result of the drain is not looked at, nor that of the POST, and the next poll approves again.
    let mut failing = host(Action::Prepare);
    failing.serve(&[event("a")]);
    failing.prepared("a", Preparation::Failed);
    failing.heard();
    for _ in 0..20 {
        failing.serve(&[event("a")]);
    }
    assert_eq!(failing.heard(), Vec::<String>::new());

    let mut repeating = host(Action::Approve);
    repeating.post_status = Some(403);
    repeating.serve(&[event("a")]);
    assert!(repeating.session.events().all(|event| !event.is_approved()));
    repeating.post_status = Some(200);
    for _ in 0..20 {
        repeating.serve(&[event("a")]);
    }
    assert!(repeating.session.events().all(TrackedEvent::is_approved));
    let posts = repeating.heard().iter().filter(|line| *line == "post a").count();
    assert_eq!(posts, 2);
}

#[test]
fn fault_11_a_failed_approval_never_retried() {
    // The document is handled only when it changes, and it does not change because of a POST that failed.
    for status in [Some(500), Some(429), Some(400), None] {
        let mut host = host(Action::Approve);
        host.post_status = status;
        let events = [event("a")];
        host.serve(&events);
        host.post_status = Some(200);
        for _ in 0..3 {
            host.serve_body(&document(1, &events), &events);
        }
        assert!(host.session.events().all(TrackedEvent::is_approved), "{status:?}");
    }
}

#[test]
fn fault_12_the_last_of_two_own_events_wins() {
    // One variable holds the event: the machine is drained for the one and another is approved.
    let mut host = host(Action::Prepare);
    host.serve(&[event("reboot"), event("freeze").typed("Freeze").at(4 * 86_400)]);
    host.heard();
    host.ready("reboot");
    assert_eq!(host.heard(), ["post reboot"]);
    assert_eq!(host.preparing, ["freeze"]);
}

#[test]
fn fault_13_marked_as_handled_before_it_is() {
    // The id goes to the list of known ones first; an error after that loses the event.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.restart();
    host.heard();
    assert_eq!(hear(&mut host, &[event("a")]), ["a: prepare (a rule matches)", "prepare a"]);

    host.dies_after = Some(1); // With the approval sent, and its answer on the way.
    host.ready("a");
    assert_eq!(host.heard(), ["post a"]);
    host.until_get();
    assert_eq!(hear(&mut host, &[event("a")]), ["a: prepare (a rule matches)", "post a"]);
}

#[test]
fn fault_14_what_vanished_is_always_taken_for_finished() {
    // Started and gone, cancelled in time, and gone when it was due are one and the same there.
    let ends = |action: Action, pass: u32, last: Spec| {
        let mut host = host(action);
        host.serve(&[event("a")]);
        host.serve(&[last]);
        host.pass(pass);
        host.heard();
        hear(&mut host, &[])
    };
    assert_eq!(ends(Action::Hold, 0, event("a").started()), ["a: completed"]);
    assert_eq!(ends(Action::Hold, 0, event("a").at(901)), ["a: cancelled"]);
    assert_eq!(ends(Action::Hold, 1000, event("a").at(901)), ["a: ended"]);
    assert_eq!(ends(Action::Approve, 0, event("a").at(901)), ["a: ended"]);
}

#[test]
fn fault_15_recovery_when_the_event_starts() {
    // The machine goes back into service at the moment when it is about to go down.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.heard();
    assert_eq!(hear(&mut host, &[event("a").started()]), ["a: started"]);
    host.pass(3600);
    assert_eq!(hear(&mut host, &[event("a").started()]), Vec::<String>::new());
    assert_eq!(hear(&mut host, &[]), ["a: completed", "recover a"]);
}

#[test]
fn fault_16_a_stranger_among_the_resources_blocks_for_ever() {
    // Approval waits for every machine named, of which one is unknown; or a hold outlives its event.
    for leader in [Leader::FirstResource, Leader::Rank { take_over_after: 30 }, Leader::Everyone] {
        let mut policy = policy(Action::Prepare);
        policy.leader = leader;
        let mut host = Host::<8>::new(Setup::new(policy));
        host.serve(&[event("a").of(&[VM, "stranger"])]);
        host.heard();
        host.ready("a");
        assert_eq!(host.heard(), ["post a"], "{leader:?}");
    }
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.serve(&[]);
    host.heard();
    host.prepared("a", Preparation::Failed);
    assert_eq!(host.heard(), ["recover a"]);
    host.serve(&[]);
    assert!(host.session.is_idle());
}

#[test]
fn fault_17_a_restart_prepares_again_or_forgets_to_recover() {
    // What was begun is kept in memory only, or in a form that a later version, or a half-written file, breaks.
    let mut host = host(Action::Prepare);
    host.serve(&[event("a")]);
    host.ready("a");
    host.restart();
    host.heard();
    assert_eq!(hear(&mut host, &[event("a")]), ["a: prepare (a rule matches)"]);
    host.restart();
    assert_eq!(hear(&mut host, &[]), ["a: ended", "recover a"]);

    let snapshot = host.snapshot();
    let mut session = host.setup.session::<8>();
    for end in 0..snapshot.len() {
        assert_eq!(session.restore(&snapshot[..end]), Err(SnapshotError::Damaged));
    }
}

#[test]
fn fault_18_nobody_takes_over_from_a_dead_leader() {
    // The first machine named approves after a fixed sleep; when it is down, nobody does.
    let mut policy = policy(Action::Approve);
    policy.leader = Leader::Rank { take_over_after: 30 };
    let mut host = Host::<8>::new(Setup::new(policy));
    let events = [event("a").of(&["dead", "dead too", VM])];
    host.serve(&events);
    host.heard();
    let mut waited = 0;
    while host.heard() != ["post a"] {
        host.serve(&events);
        waited += 1;
        assert!(waited <= 61);
    }
    assert!(waited >= 59, "{waited}");
    // And when the leader lives, the event has started before that.
    assert_eq!(hear(&mut host, &[event("a").of(&["dead", "dead too", VM]).started()]), ["a: started"]);
}

#[test]
fn what_is_odd_is_told_and_not_swallowed() {
    // Beside the list: a client that skips what it cannot read must say so.
    let body = r#"{"Events":[7,{"EventType":"Reboot"},{"EventId":"a","NotBefore":"soon"},{"EventId":"A"}]}"#;
    let document = Document::parse(body.as_bytes()).unwrap();
    let kinds: Vec<_> = document.problems().map(|problem| (problem.event.unwrap(), problem.kind)).collect();
    let expected = [
        (0, ProblemKind::NotAnObject),
        (1, ProblemKind::Missing),
        (2, ProblemKind::UnreadableTime),
        (3, ProblemKind::Repeated),
    ];
    assert_eq!(kinds, expected);
}
