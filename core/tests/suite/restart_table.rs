//! What a session keeps across a restart, wherever it comes.

use scheduled_events_core::{Action, BufferTooSmall, Leader, Policy, Rule, SnapshotError, TrackedEvent, UnixMillis};

use crate::common::{Host, OTHER, START, Setup, VM, event, laws};

fn setup(action: Action) -> Setup {
    Setup::new(Policy::new(&[Rule::new(action)]).unwrap())
}

fn host<const N: usize>(action: Action) -> Host<N> {
    Host::new(setup(action))
}

/// A story with everything in it, whose host dies once.
fn story(dies_at: usize) -> Host<4> {
    let mut host = host::<4>(Action::Prepare);
    host.dies_after = Some(dies_at);
    let freeze = event("b").typed("Freeze").of(&[OTHER]);
    for events in [
        vec![],
        vec![event("a")],
        vec![event("a").at(1000), freeze.clone()],
        vec![event("a").at(1000), freeze.started()],
        vec![event("a").started()],
        vec![],
        vec![],
    ] {
        host.serve(&events);
        host.serve(&events);
        for id in host.preparing.clone() {
            host.ready(&id);
        }
    }
    host.dies_after = None;
    host.serve(&[]);
    assert!(host.session.is_idle());
    host
}

#[test]
fn a_restart_at_any_point_changes_nothing_but_repeats_what_was_interrupted() {
    let said = |host: &Host<4>, dropped: &[&str]| {
        let mut said: Vec<_> =
            host.trace.iter().filter(|entry| entry.what.is_said()).map(|entry| entry.what.to_string()).collect();
        // A new process says its decisions anew, and what it could not see through.
        said.retain(|line| !line.contains('(') && !dropped.iter().any(|word| line.starts_with(word)));
        said.sort();
        said
    };
    let straight = story(usize::MAX);
    assert!(said(&straight, &[]).contains(&String::from("post a")));
    for dies_at in 0..straight.trace.len() {
        let host = story(dies_at);
        let interrupted = ["prepare", "post"];
        assert_eq!(said(&host, &interrupted), said(&straight, &interrupted), "dies after {dies_at}");
        laws::all(&host.trace, &host.setup).unwrap_or_else(|breach| panic!("dies after {dies_at}: {breach}"));
        let count = |line: &str| said(&host, &[]).iter().filter(|said| *said == line).count();
        assert!(matches!((count("prepare a"), count("post a")), (1 | 2, 1 | 2)), "dies after {dies_at}");
    }
}

#[test]
fn two_restarts_in_a_row_do_not_forget_a_preparation() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a")]);
    host.restart();
    // The document is read, and the process ends before the preparation is said again.
    host.dies_after = Some(1);
    host.serve(&[event("a")]);
    host.heard();
    host.serve(&[]);
    assert_eq!(host.heard(), ["a: cancelled", "recover a"]);
}

#[test]
fn a_clock_set_back_across_a_restart_does_not_hold_an_approval_up() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Leader::Rank { take_over_after: 5 };
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("a"), event("b").of(&["leader", VM])];
    host.post_status = Some(500);
    host.serve(&events);
    host.restart();
    host.now = UnixMillis(START.0 - 3_600_000);
    host.last_get = host.now;
    host.post_status = Some(200);
    for _ in 0..8 {
        host.serve(&events);
    }
    assert!(host.session.events().all(TrackedEvent::is_approved));
}

#[test]
fn a_snapshot_is_restored_whole_or_not_at_all() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a"), event("b"), event("c")]);
    let snapshot = host.snapshot();
    assert!(snapshot.len() < 500, "{}", snapshot.len());
    let mut small = setup(Action::Prepare).session::<2>();
    assert_eq!(small.restore(&snapshot), Err(SnapshotError::TooManyEvents));
    assert_eq!(small.events().count(), 0);
    let needed = host.session.snapshot(&mut [0; 10]).unwrap_err().needed;
    assert_eq!(needed, snapshot.len());
    for (room, written) in [(needed, Ok(needed)), (needed - 1, Err(BufferTooSmall { needed }))] {
        assert_eq!(host.session.snapshot(&mut vec![0; room]), written);
    }
    for (place, byte) in snapshot.iter().enumerate() {
        let mut damaged = snapshot.clone();
        damaged[place] = byte ^ 1;
        assert_eq!(small.restore(&damaged), Err(SnapshotError::Damaged), "byte {place}");
    }
}
