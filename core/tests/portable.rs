//! A snapshot has the same bytes on every platform, whatever its byte order and word size. Fast enough for Miri.

use scheduled_events_core::{
    Action, AnswerOutcome, Policy, Preparation, Response, Rule, Session, SessionConfig, Step,
    TrackedEvent, UnixMillis, UnixSeconds, VmNames,
};

const BODY: &[u8] = br#"{"DocumentIncarnation":18446744073709551615,"Events":[
    {"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123","EventStatus":"Scheduled","EventType":"Freeze","Resources":["vm"],
     "NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":"caf\u00e9 \ud83d\ude00","DurationInSeconds":4294967294},
    {"EventId":"b","EventStatus":"Started","EventType":"Reboot","Resources":["other"],"NotBefore":""}]}"#;
const NOW: UnixSeconds = UnixSeconds(1_649_715_600);

fn session() -> Session<4> {
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).unwrap();
    Session::new(&SessionConfig {
        policy,
        seed: 1,
        ..SessionConfig::new(VmNames::new(&["vm"]))
    })
    .unwrap()
}

/// Runs the session until it has issued `count` steps other than polls, and returns them.
fn run(session: &mut Session<4>, count: usize) -> Vec<String> {
    let mut now = UnixMillis::from(NOW);
    let mut steps = Vec::new();
    while steps.len() < count {
        match session.take_step(now) {
            Step::Get { .. } => {
                session.on_response(
                    &Response {
                        status: 200,
                        body: BODY,
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Post { body, .. } => {
                steps.push(String::from_utf8(body.to_vec()).unwrap());
                session.on_response(
                    &Response {
                        status: 200,
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Prepare { event, attempt, .. } => {
                steps.push(format!("prepare {}", event.event_id()));
                assert_eq!(
                    session.prepared(attempt, Preparation::Ready),
                    AnswerOutcome::Accepted
                );
            }
            Step::Recover { .. } | Step::Gate { .. } | Step::Cancel { .. } => {
                unreachable!("no event ends or changes, and there is no gate")
            }
            Step::Report(report) => steps.push(report.to_string()),
            Step::Wait { until } => now = until,
        }
    }
    steps
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn a_snapshot_has_the_same_bytes_on_every_platform() {
    let mut session = session();
    let steps = run(&mut session, 6);
    let expected = [
        "C7061BAC-AFDC-4513-B24B-AA5F13A16123: scheduled",
        "C7061BAC-AFDC-4513-B24B-AA5F13A16123: prepare (a rule matches)",
        "prepare C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "b: started-without-notice",
        "b: hold (already started)",
        r#"{"StartRequests":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]}"#,
    ];
    assert_eq!(steps, expected);

    let mut snapshot = [0; 512];
    let length = session.snapshot(&mut snapshot).unwrap();
    // Version 4. A change of the format must change the version.
    assert_eq!(
        hexadecimal(&snapshot[..length]),
        include_str!("portable.snapshot.hex").trim()
    );

    let mut restarted = self::session();
    restarted.restore(&snapshot[..length]).unwrap();
    assert_eq!(restarted.events().count(), 2);
    assert!(restarted.events().any(TrackedEvent::is_approved));

    // What version 3 wrote is read, and written as version 4.
    let old: Vec<u8> = include_str!("portable.snapshot-3.hex")
        .trim()
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    restarted.restore(&old).unwrap();
    let mut again = [0; 512];
    let again_length = restarted.snapshot(&mut again).unwrap();
    assert_eq!(again[..again_length], snapshot[..length]);
}
