//! The same on every machine: big-endian or little, 32 bits or 64. Small enough for an interpreter of the language.

use scheduled_events_core::{
    Action, Policy, Preparation, Response, Rule, Session, SessionConfig, Step, TrackedEvent, UnixMillis, UnixSeconds,
    VmNames,
};

const BODY: &[u8] = br#"{"DocumentIncarnation":18446744073709551615,"Events":[
    {"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123","EventStatus":"Scheduled","EventType":"Freeze","Resources":["vm"],
     "NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":"caf\u00e9 \ud83d\ude00","DurationInSeconds":4294967294},
    {"EventId":"b","EventStatus":"Started","EventType":"Reboot","Resources":["other"],"NotBefore":""}]}"#;
const NOW: UnixSeconds = UnixSeconds(1_649_715_600);

fn session() -> Session<4> {
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).unwrap();
    Session::new(&SessionConfig { policy, seed: 1, ..SessionConfig::new(VmNames::new(&["vm"])) }).unwrap()
}

/// Lives until `steps` things were said, and tells them.
fn live(session: &mut Session<4>, steps: usize) -> Vec<String> {
    let mut now = UnixMillis::from(NOW);
    let mut said = Vec::new();
    while said.len() < steps {
        match session.next(now) {
            Step::Get { .. } => {
                session.on_response(&Response { status: 200, body: BODY, ..Response::default() }, now);
            }
            Step::Post { body, .. } => {
                said.push(String::from_utf8(body.to_vec()).unwrap());
                session.on_response(&Response { status: 200, ..Response::default() }, now);
            }
            Step::Prepare { event } => {
                let id = event.event_id().clone();
                said.push(format!("prepare {id}"));
                session.prepared(id.as_str(), Preparation::Ready);
            }
            Step::Recover { .. } => unreachable!("nothing ends here"),
            Step::Report(report) => said.push(report.to_string()),
            Step::Wait { until } => now = until,
        }
    }
    said
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[test]
fn a_snapshot_has_the_same_bytes_on_every_machine() {
    let mut session = session();
    let said = live(&mut session, 6);
    let expected = [
        "C7061BAC-AFDC-4513-B24B-AA5F13A16123: scheduled",
        "C7061BAC-AFDC-4513-B24B-AA5F13A16123: prepare (a rule matches)",
        "prepare C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "b: started-without-notice",
        "b: hold (already started)",
        r#"{"StartRequests":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]}"#,
    ];
    assert_eq!(said, expected);

    let mut snapshot = [0; 512];
    let length = session.snapshot(&mut snapshot).unwrap();
    // Written by version 1. When this changes, snapshots of older versions must still be told from newer ones.
    assert_eq!(hexadecimal(&snapshot[..length]), include_str!("portable.snapshot.hex").trim());

    let mut restarted = self::session();
    restarted.restore(&snapshot[..length]).unwrap();
    assert_eq!(restarted.events().count(), 2);
    assert!(restarted.events().any(TrackedEvent::is_approved));
}
