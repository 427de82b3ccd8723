//! Restores random bytes with a valid checksum: the result is an error and an empty session, or a usable session.

use arbitrary::Unstructured;
use scheduled_events_core::{
    Action, AnswerOutcome, Policy, Preparation, Response, Rule, Session, SessionConfig,
    SnapshotError, Step, UnixMillis, VmNames,
};

pub const CAPACITY: usize = 6;
const START: UnixMillis = UnixMillis(1_700_000_000_000);

pub fn run(data: &[u8]) {
    restore(data);
    restore(&with_checksum(data));
    let _ = modified(&mut Unstructured::new(data));
}

fn session<const N: usize>() -> Session<N> {
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).unwrap();
    Session::new(&SessionConfig {
        policy,
        seed: 1,
        ..SessionConfig::new(VmNames::new(&["vm"]))
    })
    .unwrap()
}

/// Appends the checksum of a snapshot.
fn with_checksum(content: &[u8]) -> Vec<u8> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    let (words, rest) = content.as_chunks::<8>();
    let words = words
        .iter()
        .map(|bytes| word(bytes))
        .chain([word(rest), content.len() as u64]);
    let state = words.fold(FACTOR, |state: u64, word| {
        (state.rotate_left(23) ^ word).wrapping_mul(FACTOR)
    });
    let checksum = (state ^ state >> 32).wrapping_mul(FACTOR);
    [content, &(checksum ^ checksum >> 29).to_le_bytes()].concat()
}

/// Restores a valid snapshot with some bytes changed, removed or inserted.
fn modified(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut content = valid_snapshot(u)?;
    content.truncate(content.len() - 8);
    for _ in 0..u.int_in_range(0..=4)? {
        let at = u.choose_index(content.len())?;
        match u.int_in_range(0..=5)? {
            0 => drop(content.remove(at)),
            1 => content.insert(at, u.arbitrary()?),
            2 => content[at] ^= 1 << u.int_in_range(0..=7)?,
            _ => content[at] = u.arbitrary()?,
        }
        if content.is_empty() {
            return Ok(());
        }
    }
    restore(&with_checksum(&content));
    Ok(())
}

/// The snapshot of a session after some steps.
fn valid_snapshot(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut session = session::<CAPACITY>();
    let mut now = START;
    let body = br#"{"DocumentIncarnation":1,"Events":[
        {"EventId":"a","EventType":"Freeze","EventStatus":"Scheduled","Resources":["vm"],"NotBefore":"2023-11-15T00:00:00Z"},
        {"EventId":"b","EventType":"Preempt","EventStatus":"Started","Resources":["vm","vm_2"],"DurationInSeconds":9},
        {"EventId":"c","EventType":"Reboot","EventStatus":"Scheduled","Resources":["other"]}]}"#;
    let mut documents = 0;
    for _ in 0..u.int_in_range(0..=40)? {
        match session.take_step(now) {
            Step::Get { .. } => {
                documents += 1;
                let body = if documents > 2 {
                    &br#"{"Events":[]}"#[..]
                } else {
                    body
                };
                session.on_response(
                    &Response {
                        status: 200,
                        body,
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Post { .. } => {
                session.on_response(
                    &Response {
                        status: 200,
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Prepare { attempt, .. } => {
                if u.ratio(2, 3)? {
                    assert_eq!(
                        session.prepared(attempt, Preparation::Ready),
                        AnswerOutcome::Accepted
                    );
                }
            }
            Step::Cancel { attempt } => {
                if u.ratio(2, 3)? {
                    let _ = session.prepared(attempt, Preparation::Failed);
                }
            }
            Step::Wait { until } => now = until,
            Step::Recover { .. } | Step::Gate { .. } | Step::Report(_) => {}
        }
    }
    Ok(written(&session))
}

fn written<const N: usize>(session: &Session<N>) -> Vec<u8> {
    let needed = session.snapshot(&mut []).unwrap_err().needed;
    let mut snapshot = vec![0; needed];
    assert_eq!(session.snapshot(&mut snapshot), Ok(needed));
    snapshot
}

fn restore(snapshot: &[u8]) {
    restore_into::<CAPACITY>(snapshot);
    // Most events have to be left out.
    restore_into::<1>(snapshot);
}

fn restore_into<const N: usize>(snapshot: &[u8]) {
    let mut session = session::<N>();
    match session.restore(snapshot) {
        Err(error) => {
            assert_eq!(session.events().count(), 0, "{error}");
            assert!(!session.has_seen_event());
            if error == SnapshotError::TooManyEvents {
                let mut larger =
                    Session::<400>::new(&SessionConfig::new(VmNames::UNKNOWN)).unwrap();
                let _ = larger.restore(snapshot);
            }
        }
        Ok(()) => check_usable(session),
    }
}

/// A restored session issues its pending steps and becomes idle and in service, approves nothing before it has read a document, and
/// writes the same snapshot again.
fn check_usable<const N: usize>(mut session: Session<N>) {
    let first = written(&session);
    let mut again = self::session::<N>();
    assert_eq!(
        again.restore(&first),
        Ok(()),
        "what was restored can be restored"
    );
    assert!(!again.is_changed(), "what was restored needs not be stored");
    assert_eq!(written(&again), first);

    let mut ids: Vec<_> = session
        .events()
        .map(|event| event.event_id().as_str().to_ascii_lowercase())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), session.events().count(), "ids are unique");

    let mut now = START;
    let mut recovered = Vec::new();
    for round in 0..2_000 {
        match session.take_step(now) {
            Step::Get { .. } => {
                assert!(round < 1_990);
                session.on_response(
                    &Response {
                        status: 200,
                        body: br#"{"Events":[]}"#,
                        ..Response::default()
                    },
                    now,
                );
                if session.is_idle() {
                    break;
                }
            }
            Step::Post { .. } => panic!("an approval before a document"),
            Step::Prepare { .. } => panic!("a preparation before a document"),
            Step::Gate { .. } | Step::Cancel { .. } => {
                panic!("a step for something that never began")
            }
            Step::Recover {
                events,
                own,
                attempt,
            } => {
                let whose = if own {
                    None
                } else {
                    Some(events.last().event_id().clone())
                };
                assert!(!recovered.contains(&whose), "recovers twice");
                assert_eq!(
                    session.recovered(attempt, true, now),
                    AnswerOutcome::Accepted
                );
                recovered.push(whose);
            }
            Step::Wait { until } => {
                assert!(until > now, "waits for a time in the past");
                now = until;
            }
            Step::Report(report) => drop(report.to_string()),
        }
    }
    assert_eq!(session.out_of_service_since(), None);
    assert!(
        session.is_idle(),
        "not idle without events: {}",
        session.events().count()
    );
}
