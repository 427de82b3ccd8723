//! The scenarios, played to their end.

use super::*;

struct Expected {
    name: &'static str,
    /// Type, source, description, duration and resources of each event in document order.
    events: Vec<(&'static str, &'static str, &'static str, i64, Vec<String>)>,
    /// What happens to each event, approvals left out, which is the same at every pace.
    course: &'static [Change],
    /// The incarnations of the whole scenario, if events do not mingle.
    incarnations: Option<&'static [u64]>,
}

const USUAL: &[Change] = &[Change::Appeared, Change::Started, Change::Gone];
const HOST: &str = "Host server is undergoing maintenance.";
const RESTART: &str = "Virtual machine is going to be restarted as requested by authorized user.";

fn expectations() -> Vec<Expected> {
    let names = |numbers: &[u32]| numbers.iter().map(|number| format!("WestNO_{number}")).collect::<Vec<_>>();
    let one = |name, event_type, source, description, duration, vms: &[u32]| Expected {
        name,
        events: vec![(event_type, source, description, duration, names(vms))],
        course: USUAL,
        incarnations: Some(&[1, 2, 3, 4]),
    };
    let many = |name, count: u32| Expected {
        events: (0..count).map(|vm| ("Terminate", "User", "", -1, names(&[vm]))).collect(),
        ..one(name, "", "", "", 0, &[])
    };
    let migration = "Virtual machine is being paused because of a memory-preserving Live Migration operation.";
    let redeploy = "Virtual machine is going to be redeployed as requested by authorized user.";
    let failure = "Virtual machine has encountered a failure.";
    vec![
        one("live-migration", "Freeze", "Platform", migration, 5, &[0, 1]),
        one("host-maintenance", "Freeze", "Platform", HOST, 9, &[0]),
        one("user-reboot", "Reboot", "User", RESTART, -1, &[0]),
        one("user-redeploy", "Redeploy", "User", redeploy, -1, &[0]),
        one("redeploy", "Redeploy", "Platform", failure, -1, &[0]),
        Expected {
            course: &[Change::Appeared, Change::Cancelled],
            incarnations: Some(&[1, 2, 3]),
            ..one("cancelled", "Freeze", "Platform", HOST, 30, &[0])
        },
        one("preempt", "Preempt", "Platform", "", -1, &[0]),
        one("terminate", "Terminate", "User", "", -1, &[0]),
        many("terminate-pair", 2),
        Expected {
            course: &[Change::Appeared, Change::Gone],
            incarnations: Some(&[1, 2, 3]),
            ..one("hardware-failure", "Reboot", "Platform", failure, -1, &[0, 1])
        },
        Expected {
            course: &[Change::Appeared, Change::Rescheduled, Change::Started, Change::Gone],
            incarnations: Some(&[1, 2, 3, 4, 5]),
            ..one("rescheduled", "Freeze", "Platform", HOST, 9, &[0])
        },
        Expected {
            events: vec![("Freeze", "Platform", HOST, 6, names(&[0])), ("Reboot", "User", RESTART, -1, names(&[0]))],
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

/// Plays a scenario to its end, approving all there is at first sight, and checks every document.
fn play(expected: &Expected) {
    let name = expected.name;
    let (sender, receiver) = mpsc::channel();
    let speed = if name == "preempt" { 60.0 } else { 600.0 };
    let server = start(builtin(name).speed(speed).observer(sender));
    let first = document(&server);
    assert!(events(&first).is_empty(), "{name}");
    let mut incarnations = vec![first["DocumentIncarnation"].as_u64().expect("number")];
    let mut courses: HashMap<String, Vec<Change>> = HashMap::new();
    let mut ids: Vec<Option<String>> = vec![None; expected.events.len()];
    let mut approved = false;
    loop {
        let event = receiver.recv_timeout(PATIENCE).expect("the scenario goes on");
        let (incarnation, change) = match event {
            ReplayEvent::Event { change: Change::Approved, .. } => continue,
            ReplayEvent::Event { change, event_id, incarnation, .. } => {
                courses.entry(event_id).or_default().push(change);
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
        if change == Some(Change::Appeared) || !approved {
            let ids: Vec<_> = events(&seen).iter().map(|event| event["EventId"].as_str().expect("id")).collect();
            if !ids.is_empty() {
                assert_eq!(approve(&server, &ids).status, 200, "{name}");
                approved = true;
            }
        }
    }
    assert!(server.finished(), "{name}");
    assert!(events(&document(&server)).is_empty(), "{name}");
    assert_eq!(courses.len(), expected.events.len(), "{name}");
    assert!(courses.values().all(|course| course == expected.course), "{name}: {courses:?}");
    if let Some(wanted) = expected.incarnations {
        assert_eq!(incarnations, wanted, "{name}");
    }
}

fn check(name: &str, document: &Value, expected: &Expected, ids: &mut [Option<String>]) {
    for event in events(document) {
        let index = expected
            .events
            .iter()
            .position(|wanted| event["EventType"] == wanted.0 && event["Resources"] == serde_json::json!(wanted.4))
            .unwrap_or_else(|| panic!("{name}: {event}"));
        let (_, source, description, duration, _) = &expected.events[index];
        assert_eq!(event["EventSource"], *source, "{name}");
        assert_eq!(event["Description"], *description, "{name}");
        assert_eq!(event["DurationInSeconds"], *duration, "{name}");
        let not_before = event["NotBefore"].as_str().expect("text");
        match event["EventStatus"].as_str() {
            Some("Scheduled") => {
                let time = httpdate::parse_http_date(not_before).expect("RFC 1123");
                // Not a century away in either direction; the moment itself is the state machine's test.
                let distance = time.duration_since(SystemTime::now()).unwrap_or_else(|error| error.duration());
                assert!(distance < Duration::from_secs(120), "{name}: {not_before}");
            }
            Some("Started") => assert_eq!(not_before, "", "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        let id = event["EventId"].as_str().expect("text").to_owned();
        assert!(id.len() == 36 && id == id.to_ascii_uppercase(), "{name}: {id}");
        assert_eq!(*ids[index].get_or_insert_with(|| id.clone()), id, "{name}");
    }
}

#[test]
fn every_builtin_scenario_plays_to_its_end() {
    let expectations = expectations();
    let names: Vec<_> = expectations.iter().map(|it| it.name).collect();
    assert_eq!(names, Scenario::builtins().map(|(name, _)| name).collect::<Vec<_>>());
    thread::scope(|scope| {
        let plays: Vec<_> = expectations.iter().map(|expected| scope.spawn(|| play(expected))).collect();
        for (play, name) in plays.into_iter().zip(names) {
            play.join().unwrap_or_else(|_| panic!("{name} failed, see above"));
        }
    });
}

#[test]
fn without_an_approval_events_wait_for_not_before() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("terminate-pair").speed(1200.0).observer(sender));
    assert!(!server.finished());
    document(&server);
    let moments: Vec<_> = receiver
        .iter()
        .take_while(|event| *event != ReplayEvent::Finished)
        .filter_map(|event| match event {
            ReplayEvent::Event { change, incarnation, not_before, .. } => {
                Some((change, incarnation, not_before.is_some()))
            }
            _ => None,
        })
        .collect();
    let twice = |change, incarnation, dated| [(change, incarnation, dated); 2];
    let wanted = [twice(Change::Appeared, 2, true), twice(Change::Started, 3, false), twice(Change::Gone, 4, false)];
    assert_eq!(moments, wanted.concat());
    assert!(server.finished());
}

#[test]
fn time_begins_with_the_first_document() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("preempt").speed(1e6).observer(sender).fault("status:503@1-2".parse().expect("fault")));
    get(&server, NAME);
    approve(&server, &["x"]);
    get(&server, EVENTS);
    // At this speed the whole scenario would be over by now if it had begun.
    assert_eq!(receiver.recv_timeout(PATIENCE).expect("name").to_string(), format!("GET {NAME} -> 200"));
    assert_eq!(
        receiver.recv_timeout(PATIENCE).expect("post").to_string(),
        format!("POST {EVENTS} -> 503 (fault: status:503@1-2)")
    );
    assert!(matches!(receiver.recv_timeout(PATIENCE), Ok(ReplayEvent::Answered { status: Some(503), .. })));
    assert_eq!(receiver.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    assert!(!server.finished());
    document(&server);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(ReplayEvent::PlaybackStarted));
    drop(server);
    assert!(receiver.iter().count() >= 1, "the stream ends with the server");
}
