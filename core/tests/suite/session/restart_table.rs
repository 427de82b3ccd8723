//! What a session keeps across a restart.

use scheduled_events_core::{
    Action, BufferTooSmall, EventKind, EventTypes, Leader, Policy, Rule, Scope, SnapshotError,
    TrackedEvent, UnixMillis,
};

use crate::common::{Host, OTHER, START, Setup, Spec, VM, event, host, invariants, setup};

/// A scenario with all kinds of steps. The process is killed once, after this many steps.
fn scenario(killed_after: usize) -> Host<4> {
    let mut host = host::<4>(Action::Prepare);
    host.dies_after_steps = Some(killed_after);
    let freeze = event("b").event_type("Freeze").resources(&[OTHER]);
    for events in [
        vec![],
        vec![event("a")],
        vec![event("a").not_before(1000), freeze.clone()],
        vec![event("a").not_before(1000), freeze.started()],
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
    host.dies_after_steps = None;
    host.serve(&[]);
    assert!(host.session.is_idle());
    host
}

#[test]
fn a_restart_at_any_point_only_repeats_interrupted_steps() {
    let steps_of = |host: &Host<4>, dropped: &[&str]| {
        let mut steps: Vec<_> = host
            .trace
            .iter()
            .filter(|entry| entry.what.is_step())
            .map(|entry| entry.what.to_string())
            .collect();
        // A new process repeats decisions and interrupted steps.
        steps.retain(|line| {
            !line.contains('(') && !dropped.iter().any(|word| line.starts_with(word))
        });
        steps.sort();
        steps
    };
    let uninterrupted = scenario(usize::MAX);
    assert!(steps_of(&uninterrupted, &[]).contains(&String::from("post a")));
    for killed_after in 0..uninterrupted.trace.len() {
        let host = scenario(killed_after);
        let interrupted = ["prepare", "post"];
        assert_eq!(
            steps_of(&host, &interrupted),
            steps_of(&uninterrupted, &interrupted),
            "killed after step {killed_after}"
        );
        invariants::all(&host.trace, &host.setup)
            .unwrap_or_else(|breach| panic!("killed after step {killed_after}: {breach}"));
        let count = |line: &str| {
            steps_of(&host, &[])
                .iter()
                .filter(|step| *step == line)
                .count()
        };
        assert!(
            matches!((count("prepare a"), count("post a")), (1 | 2, 1 | 2)),
            "killed after step {killed_after}"
        );
    }
}

#[test]
fn two_restarts_in_a_row_keep_the_need_to_recover() {
    let mut host = host::<4>(Action::Prepare);
    host.serve(&[event("a")]);
    host.restart();
    // The process reads the document and is killed before it issues the preparation again.
    host.dies_after_steps = Some(1);
    host.serve(&[event("a")]);
    host.take_steps();
    host.serve(&[]);
    assert_eq!(host.take_steps(), ["a: cancelled", "recover a"]);
}

#[test]
fn a_clock_set_back_during_a_restart_does_not_delay_an_approval() {
    let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
    policy.leader = Some(Leader::Rank { take_over_after: 5 });
    let mut host = Host::<4>::new(Setup::new(policy));
    let events = [event("a"), event("b").resources(&["leader", VM])];
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
    // All three were prepared for, so that none can be forgotten.
    let mut small = setup(Action::Prepare).session::<2>();
    assert_eq!(small.restore(&snapshot), Err(SnapshotError::TooManyEvents));
    assert_eq!(small.events().count(), 0);
    let needed = host.session.snapshot(&mut [0; 10]).unwrap_err().needed;
    assert_eq!(needed, snapshot.len());
    for (size, written) in [
        (needed, Ok(needed)),
        (needed - 1, Err(BufferTooSmall { needed })),
    ] {
        assert_eq!(host.session.snapshot(&mut vec![0; size]), written);
    }
    for (place, byte) in snapshot.iter().enumerate() {
        let mut damaged = snapshot.clone();
        damaged[place] = byte ^ 1;
        assert_eq!(
            small.restore(&damaged),
            Err(SnapshotError::Damaged),
            "byte {place}"
        );
    }
}

/// Which events of a snapshot a session of this capacity tracks, and what it then reports as not tracked and approves.
fn restored<const N: usize>(
    host: &Host<16>,
    snapshot: &[u8],
    events: &[Spec],
) -> (Vec<String>, Vec<String>) {
    let mut small = Host::<N>::new(host.setup.clone());
    small.now = host.now;
    small.last_get = host.now;
    small.session.restore(snapshot).unwrap();
    assert!(small.session.is_changed(), "the snapshot has more");
    let mut ids: Vec<_> = small
        .session
        .events()
        .map(|event| event.event_id().to_string())
        .collect();
    ids.sort();
    small.restart();
    small.serve(events);
    small.serve(&[]);
    let mut steps = small.take_steps();
    assert!(
        steps.iter().any(|step| step.starts_with("recover ")),
        "{steps:?}"
    );
    steps.retain(|step| {
        ["not tracked", "post"]
            .iter()
            .any(|word| step.starts_with(word))
    });
    (ids, steps)
}

#[test]
fn a_session_that_tracks_fewer_events_restores_those_that_matter() {
    let others = ["b", "c", "d", "e"].map(|id| event(id).resources(&[OTHER]));
    let approve = Rule {
        event_types: EventTypes::of(&[EventKind::Freeze]),
        scope: Scope::Any,
        ..Rule::new(Action::Approve)
    };
    let prepare = Rule {
        event_types: EventTypes::of(&[EventKind::Preempt]),
        ..Rule::new(Action::Prepare)
    };
    let mut policy = Policy::new(&[approve, prepare]).unwrap();
    policy.leader = Some(Leader::Everyone);
    let mut host = Host::<16>::new(Setup::new(policy));
    let own = [
        event("week").not_before(604_800),
        event("soon").not_before(7200),
        event("prepared").event_type("Preempt").not_before(86_400),
        event("approved").event_type("Freeze").not_before(604_000),
    ];
    let freeze = event("foreign").event_type("Freeze").resources(&[OTHER]);
    let all = [&others[..2], &own[..], &others[2..], &[freeze]].concat();
    host.serve(&all);
    host.ready("prepared");
    host.serve(&all);
    let snapshot = host.snapshot();

    let rest = |own, others| format!("not tracked: {own} own, {others} others");
    for ((ids, steps), expected, untracked) in [
        (
            restored::<5>(&host, &snapshot, &all),
            &["approved", "foreign", "prepared", "soon", "week"][..],
            rest(0, 4),
        ),
        (
            restored::<4>(&host, &snapshot, &all),
            &["approved", "prepared", "soon", "week"],
            rest(0, 5),
        ),
        (
            restored::<3>(&host, &snapshot, &all),
            &["approved", "prepared", "soon"],
            rest(1, 5),
        ),
        (
            restored::<1>(&host, &snapshot, &all),
            &["prepared"],
            rest(3, 5),
        ),
    ] {
        assert_eq!(ids, expected);
        // What was approved is not approved again.
        assert_eq!(steps, [untracked, rest(0, 0)], "{expected:?}");
    }
}
