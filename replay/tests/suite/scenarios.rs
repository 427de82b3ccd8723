//! Plays the built-in scenarios to their end.

use super::*;

struct Expected {
    name: &'static str,
    /// Type, source, description, duration and resources of each event in document order.
    events: Vec<(&'static str, &'static str, &'static str, i64, Vec<String>)>,
    /// The transitions of each event without approvals, which are the same at every speed.
    transitions: &'static [TransitionKind],
    /// The incarnations of the scenario, if its events do not overlap.
    incarnations: Option<&'static [u64]>,
}

const USUAL: &[TransitionKind] = &[
    TransitionKind::Appeared,
    TransitionKind::Started,
    TransitionKind::Gone,
];
const HOST: &str = "Host server is undergoing maintenance.";
const RESTART: &str = "Virtual machine is going to be restarted as requested by authorized user.";

fn expectations() -> Vec<Expected> {
    let names = |numbers: &[u32]| {
        numbers
            .iter()
            .map(|number| format!("WestNO_{number}"))
            .collect::<Vec<_>>()
    };
    let one = |name, event_type, source, description, duration, vms: &[u32]| Expected {
        name,
        events: vec![(event_type, source, description, duration, names(vms))],
        transitions: USUAL,
        incarnations: Some(&[1, 2, 3, 4]),
    };
    let many = |name, count: u32| Expected {
        events: (0..count)
            .map(|vm| ("Terminate", "User", "", -1, names(&[vm])))
            .collect(),
        ..one(name, "", "", "", 0, &[])
    };
    let migration =
        "Virtual machine is being paused because of a memory-preserving Live Migration operation.";
    let redeploy = "Virtual machine is going to be redeployed as requested by authorized user.";
    let failure = "Virtual machine has encountered a failure.";
    vec![
        one(
            "live-migration",
            "Freeze",
            "Platform",
            migration,
            5,
            &[0, 1],
        ),
        one("host-maintenance", "Freeze", "Platform", HOST, 9, &[0]),
        one("user-reboot", "Reboot", "User", RESTART, -1, &[0]),
        one("user-redeploy", "Redeploy", "User", redeploy, -1, &[0]),
        one("redeploy", "Redeploy", "Platform", failure, -1, &[0]),
        Expected {
            transitions: &[TransitionKind::Appeared, TransitionKind::Cancelled],
            incarnations: Some(&[1, 2, 3]),
            ..one("cancelled", "Freeze", "Platform", HOST, 30, &[0])
        },
        one("preempt", "Preempt", "Platform", "", -1, &[0]),
        one("terminate", "Terminate", "User", "", -1, &[0]),
        many("terminate-pair", 2),
        Expected {
            transitions: &[TransitionKind::Appeared, TransitionKind::Gone],
            incarnations: Some(&[1, 2, 3]),
            ..one(
                "hardware-failure",
                "Reboot",
                "Platform",
                failure,
                -1,
                &[0, 1],
            )
        },
        Expected {
            transitions: &[
                TransitionKind::Appeared,
                TransitionKind::Rescheduled,
                TransitionKind::Started,
                TransitionKind::Gone,
            ],
            incarnations: Some(&[1, 2, 3, 4, 5]),
            ..one("rescheduled", "Freeze", "Platform", HOST, 9, &[0])
        },
        Expected {
            events: vec![
                ("Freeze", "Platform", HOST, 6, names(&[0])),
                ("Reboot", "User", RESTART, -1, names(&[0])),
            ],
            incarnations: None,
            ..one("reboot-during-freeze", "", "", "", 0, &[])
        },
        Expected {
            incarnations: Some(&[279, 280, 1, 2, 3]),
            ..one("incarnation-reset", "Freeze", "Platform", HOST, 9, &[0])
        },
        many("scale-in", 200),
    ]
}

/// Plays a scenario to its end, approves the first events, and checks every document.
fn play(expected: &Expected) {
    let name = expected.name;
    let (sender, receiver) = mpsc::channel();
    let speed = if name == "preempt" { 60.0 } else { 600.0 };
    let server = start(builtin(name).speed(speed).observer(sender));
    let first = document(&server);
    assert!(events(&first).is_empty(), "{name}");
    let mut incarnations = vec![first["DocumentIncarnation"].as_u64().expect("number")];
    let mut transitions: HashMap<String, Vec<TransitionKind>> = HashMap::new();
    let mut ids: Vec<Option<String>> = vec![None; expected.events.len()];
    let mut approved = false;
    loop {
        let event = receiver.recv_timeout(PATIENCE).expect("another event");
        let (incarnation, change) = match event {
            ReplayEvent::Event {
                change: TransitionKind::Approved,
                ..
            } => continue,
            ReplayEvent::Event {
                change,
                event_id,
                incarnation,
                ..
            } => {
                transitions.entry(event_id).or_default().push(change);
                (incarnation, Some(change))
            }
            ReplayEvent::IncarnationReset { incarnation } => (incarnation, None),
            ReplayEvent::Finished => break,
            _ => continue,
        };
        if incarnations.last() == Some(&incarnation) {
            continue;
        }
        incarnations.push(incarnation);
        let seen = document(&server);
        check(name, &seen, expected, &mut ids);
        if change == Some(TransitionKind::Appeared) || !approved {
            let ids: Vec<_> = events(&seen)
                .iter()
                .map(|event| event["EventId"].as_str().expect("id"))
                .collect();
            if !ids.is_empty() {
                assert_eq!(approve(&server, &ids).status, 200, "{name}");
                approved = true;
            }
        }
    }
    assert!(server.finished(), "{name}");
    assert!(events(&document(&server)).is_empty(), "{name}");
    assert_eq!(transitions.len(), expected.events.len(), "{name}");
    assert!(
        transitions
            .values()
            .all(|seen| seen == expected.transitions),
        "{name}: {transitions:?}"
    );
    if let Some(wanted) = expected.incarnations {
        assert_eq!(incarnations, wanted, "{name}");
    }
}

fn check(name: &str, document: &Value, expected: &Expected, ids: &mut [Option<String>]) {
    for event in events(document) {
        let index = expected
            .events
            .iter()
            .position(|wanted| {
                event["EventType"] == wanted.0 && event["Resources"] == serde_json::json!(wanted.4)
            })
            .unwrap_or_else(|| panic!("{name}: {event}"));
        let (_, source, description, duration, _) = &expected.events[index];
        assert_eq!(event["EventSource"], *source, "{name}");
        assert_eq!(event["Description"], *description, "{name}");
        assert_eq!(event["DurationInSeconds"], *duration, "{name}");
        let not_before = event["NotBefore"].as_str().expect("text");
        match event["EventStatus"].as_str() {
            Some("Scheduled") => {
                let time = httpdate::parse_http_date(not_before).expect("RFC 1123");
                // Only approximately: the unit tests of the timeline check the exact time.
                let distance = time
                    .duration_since(SystemTime::now())
                    .unwrap_or_else(|error| error.duration());
                assert!(distance < Duration::from_secs(120), "{name}: {not_before}");
            }
            Some("Started") => assert_eq!(not_before, "", "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        let id = event["EventId"].as_str().expect("text").to_owned();
        assert!(
            id.len() == 36 && id == id.to_ascii_uppercase(),
            "{name}: {id}"
        );
        assert_eq!(*ids[index].get_or_insert_with(|| id.clone()), id, "{name}");
    }
}

#[test]
fn every_builtin_scenario_plays_to_its_end() {
    let expectations = expectations();
    let names: Vec<_> = expectations.iter().map(|it| it.name).collect();
    assert_eq!(
        names,
        // `advice` plays the others, which older versions do not show.
        Scenario::builtins()
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with("rebalance"))
            .collect::<Vec<_>>()
    );
    thread::scope(|scope| {
        let plays: Vec<_> = expectations
            .iter()
            .map(|expected| scope.spawn(|| play(expected)))
            .collect();
        for (play, name) in plays.into_iter().zip(names) {
            play.join()
                .unwrap_or_else(|_| panic!("scenario {name} failed"));
        }
    });
}

#[test]
fn an_unapproved_event_starts_at_not_before() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("terminate-pair").speed(1200.0).observer(sender));
    assert!(!server.finished());
    document(&server);
    let moments: Vec<_> = receiver
        .iter()
        .take_while(|event| *event != ReplayEvent::Finished)
        .filter_map(|event| match event {
            ReplayEvent::Event {
                change,
                incarnation,
                not_before,
                ..
            } => Some((change, incarnation, not_before.is_some())),
            _ => None,
        })
        .collect();
    let twice = |change, incarnation, dated| [(change, incarnation, dated); 2];
    let wanted = [
        twice(TransitionKind::Appeared, 2, true),
        twice(TransitionKind::Started, 3, false),
        twice(TransitionKind::Gone, 4, false),
    ];
    assert_eq!(moments, wanted.concat());
    assert!(server.finished());
}

#[test]
fn the_scenario_starts_with_the_first_document() {
    let (sender, receiver) = mpsc::channel();
    let server = start(
        builtin("preempt")
            .speed(1e6)
            .observer(sender)
            .fault("status:503@1-2".parse().expect("fault")),
    );
    get(&server, NAME);
    approve(&server, &["x"]);
    get(&server, EVENTS);
    // At this speed the scenario would be over by now if it had started.
    assert_eq!(
        receiver.recv_timeout(PATIENCE).expect("name").to_string(),
        format!("GET {NAME} -> 200")
    );
    assert_eq!(
        receiver.recv_timeout(PATIENCE).expect("post").to_string(),
        format!("POST {EVENTS} -> 503 (fault: status:503@1-2)")
    );
    assert!(matches!(
        receiver.recv_timeout(PATIENCE),
        Ok(ReplayEvent::Answered {
            status: Some(503),
            ..
        })
    ));
    assert_eq!(
        receiver.recv_timeout(Duration::from_millis(20)),
        Err(RecvTimeoutError::Timeout)
    );
    assert!(!server.finished());
    document(&server);
    assert_eq!(
        receiver.recv_timeout(PATIENCE),
        Ok(ReplayEvent::ScenarioStarted)
    );
    drop(server);
    assert!(
        receiver.iter().count() >= 1,
        "the channel closes when the server is dropped"
    );
}
