//! Control of a server while it plays.

use scheduled_events_replay::document::ApprovalResult;

use super::*;

/// The time until the next change, in whole seconds, rounded up.
fn next_change(server: &Server) -> Option<u64> {
    server.status().next_change.map(|left| left.as_secs() + 1)
}

fn not_before(document: &Value) -> SystemTime {
    httpdate::parse_http_date(document["Events"][0]["NotBefore"].as_str().expect("a text"))
        .expect("a date")
}

fn changes(receiver: &mpsc::Receiver<ReplayEvent>) -> Vec<(TransitionKind, u64)> {
    let events = receiver.try_iter().filter_map(|event| match event {
        ReplayEvent::Event {
            change,
            incarnation,
            ..
        } => Some((change, incarnation)),
        _ => None,
    });
    events.collect()
}

#[test]
fn a_paused_scenario_waits_and_an_event_is_rescheduled_afterwards() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("user-reboot").observer(sender));
    assert!(!server.step(), "nothing is due before the first document");
    document(&server);
    server.pause();
    assert_eq!(
        (server.status().is_paused, server.status().next_change),
        (true, None)
    );
    assert!(server.step());
    let first = document(&server);
    assert_eq!(
        (
            first["DocumentIncarnation"].as_u64(),
            server.status().scenario_time
        ),
        (Some(2), Duration::from_secs(10))
    );
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(document(&server), first, "nothing changes in a pause");
    server.resume();
    let second = document(&server);
    assert_eq!(second["DocumentIncarnation"], 3);
    let moved = not_before(&second)
        .duration_since(not_before(&first))
        .expect("later");
    assert!(moved >= Duration::from_secs(1), "{moved:?}");
    assert_eq!(next_change(&server), Some(900));
    assert_eq!(
        changes(&receiver),
        [
            (TransitionKind::Appeared, 2),
            (TransitionKind::Rescheduled, 3)
        ]
    );
}

#[test]
fn steps_play_a_scenario_to_its_end() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("rescheduled").observer(sender));
    document(&server);
    let kinds = |receiver| {
        changes(receiver)
            .into_iter()
            .map(|(kind, _)| kind)
            .collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    while server.step() {
        seen.extend(kinds(&receiver));
    }
    let wanted = [
        TransitionKind::Appeared,
        TransitionKind::Rescheduled,
        TransitionKind::Started,
        TransitionKind::Gone,
    ];
    assert_eq!(seen, wanted);
    assert!(server.status().is_finished && server.finished() && !server.step());
}

#[test]
fn another_speed_reschedules_what_waits() {
    let server = start(ServerConfig::new(
        Scenario::parse(STEADY).expect("a scenario"),
    ));
    let first = document(&server);
    assert_eq!(next_change(&server), Some(3600));
    server.set_speed(60.0).expect("a speed");
    let second = document(&server);
    assert_eq!(
        (next_change(&server), server.status().speed),
        (Some(60), 60.0)
    );
    let earlier = not_before(&first)
        .duration_since(not_before(&second))
        .expect("earlier");
    assert!(earlier > Duration::from_secs(3500), "{earlier:?}");
    assert_eq!(
        second["DocumentIncarnation"].as_u64(),
        first["DocumentIncarnation"]
            .as_u64()
            .map(|number| number + 1)
    );
    for bad in [0.0, -1.0, f64::NAN] {
        assert!(server.set_speed(bad).is_err());
    }
}

#[test]
fn events_are_added_and_approved_and_saved() {
    let scenario = builtin("terminate-pair").scenario;
    let server = start(builtin("terminate-pair"));
    document(&server);
    let added = Scenario::parse(
        "about = \"x\"\n[[event]]\nevent_type = \"Freeze\"\nresources = [\"{peer:1}\"]\n",
    );
    server
        .add_event(added.expect("a scenario").events.remove(0))
        .expect("there are few events");
    let now = document(&server);
    assert_eq!(now["Events"][0]["Resources"][0], "WestNO_1");
    let id = now["Events"][0]["EventId"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert_eq!(server.approve(&id), ApprovalResult::Accepted);
    assert_eq!(server.approve(&id), ApprovalResult::WithoutEffect);
    assert_eq!(server.approve("x"), ApprovalResult::Unknown);
    assert_eq!(next_change(&server), Some(5));
    assert_eq!(server.event(&id).expect("it is known").event_type, "Freeze");
    assert!(server.step());
    let text = server.played(&scenario).to_toml();
    let played = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(
        played.events[..1],
        scenario.events[..],
        "what was not touched stays as it is"
    );
    assert_eq!(
        (played.events.len(), &played.events[1].resources),
        (2, &vec!["{peer:1}".to_owned()])
    );
    let starts = played.events[1]
        .starts_after
        .expect("it was approved manually");
    assert!(
        starts >= Duration::from_secs(5) && starts < PATIENCE,
        "{starts:?}"
    );
    let scale_in = Scenario::builtin("scale-in")
        .expect("a built-in name")
        .events
        .remove(0);
    for _ in 0..4 {
        server.add_event(scale_in.clone()).expect("at most 803");
    }
    assert!(
        server
            .add_event(scale_in)
            .unwrap_err()
            .to_string()
            .contains("at most 1000")
    );
}

#[test]
fn an_event_that_is_added_after_the_end_is_played() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("preempt").observer(sender));
    document(&server);
    while server.step() {}
    assert_eq!(
        receiver
            .try_iter()
            .filter(|event| *event == ReplayEvent::Finished)
            .count(),
        1
    );
    server
        .add_event(
            Scenario::parse(STEADY)
                .expect("a scenario")
                .events
                .remove(0),
        )
        .expect("there are few events");
    assert!(!server.finished());
    assert_eq!(document(&server)["Events"][0]["EventType"], "Freeze");
    while server.step() {}
    assert_eq!(
        receiver
            .try_iter()
            .filter(|event| *event == ReplayEvent::Finished)
            .count(),
        1
    );
}

#[test]
fn a_fault_is_injected_into_the_requests_of_one_machine() {
    let server = start(builtin("preempt").machines(2));
    let status = |machine: usize| {
        raw(
            server.machines()[machine].addr,
            head("GET", EVENTS, "").as_bytes(),
        )
        .status
    };
    assert_eq!((status(0), status(1)), (200, 200));
    server
        .inject_fault(1, "status:503@1".parse().expect("a fault"))
        .expect("injected");
    assert_eq!((status(0), status(1), status(1)), (200, 503, 200));
    assert_eq!(server.faults(1)[0].to_string(), "status:503@2");
    server
        .inject_fault(0, "status:410".parse().expect("a fault"))
        .expect("injected");
    assert_eq!((status(0), status(1)), (410, 200));
    let late = server
        .inject_fault(0, "first-call-delay:1".parse().expect("a fault"))
        .unwrap_err()
        .to_string();
    assert!(late.contains("slow-headers"), "{late}");
    server.clear_faults(0);
    assert_eq!((status(0), server.faults(0).len()), (200, 0));
}

#[test]
fn a_server_begins_again_at_the_same_address() {
    let (sender, receiver) = mpsc::channel();
    let server = start(
        builtin("preempt")
            .observer(sender)
            .fault("status:503@1".parse().expect("a fault")),
    );
    assert_eq!(get(&server, EVENTS).status, 503);
    document(&server);
    assert!(server.step());
    let (sender, again) = mpsc::channel();
    server
        .begin_again(
            builtin("user-reboot")
                .seed(7)
                .observer(sender)
                .findings(true),
        )
        .expect("a speed");
    assert_eq!(receiver.iter().count(), 4, "the first channel ends");
    assert!(
        !server.status().has_started && server.requests().is_empty() && server.faults(0).is_empty()
    );
    assert_eq!(document(&server)["DocumentIncarnation"], 1);
    assert_eq!(
        again.recv_timeout(PATIENCE),
        Ok(ReplayEvent::ScenarioStarted)
    );
    assert!(server.step());
    let now = document(&server);
    assert_eq!(
        (
            now["Events"][0]["EventType"].as_str(),
            server.verdict(0).polls().documents
        ),
        (Some("Reboot"), 2)
    );
    let same = start(builtin("user-reboot").seed(7));
    document(&same);
    assert!(same.step());
    assert_eq!(
        document(&same)["Events"][0]["EventId"],
        now["Events"][0]["EventId"]
    );
    assert!(server.begin_again(builtin("preempt").speed(0.0)).is_err());
}
