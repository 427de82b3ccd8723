//! The gate's protocol, checked in every interleaving: `make model-fleet`.
//!
//! The invariants:
//! - S1: an event is approved only after the decision, and the decision uses the marks of all
//!   machines.
//! - S2: at the decision, all machines of the event were ready, for the event as the machine that
//!   decides sees it.
//! - S3: no machine is approved that is not ready, whatever its document or another one's shows, and
//!   none that has joined the event and prepares.
//! - S4: the gate takes at most as many machines of a group out of service as its limit allows, or
//!   those of one event. A machine that is silent, or out by its last call, counts at the time at
//!   which slots are taken.
//! - S5: no slot is free before its machine has recovered, or is gone.
//! - S6: nobody decides about advice, and nobody approves it.
//! - L1: from every state, once the faults end and before `NotBefore`, somebody approves. Machines
//!   that are out by their last calls can prevent it.
//! - L2: every living machine has begun to prepare by `NotBefore`.
//! - L3: no machine takes slots that an earlier, refused event needs.
//! - no ghosts: from every state, once the faults end and the events are over, no slot is held.
//!
//! A check that cannot fail proves nothing: `rules.rs` removes each rule of the protocol, and shows
//! which invariant breaks.

mod kept;
mod rest;
mod rules;
mod state;
mod step;
mod world;

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kept::Quick;
use rest::Rest;
use state::{Action, Setup, Status};
use stateright::{Checker, Model, Property};
use step::Protocol;
use world::World;

struct GateModel {
    protocol: Protocol,
    /// Liveness is checked from one in this many states.
    rest_of: u64,
    /// The properties that are checked.
    names: &'static [&'static str],
}

impl GateModel {
    fn new(setup: Setup, rest_of: u64, names: &'static [&'static str]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        Self {
            protocol: Protocol::new(setup, NUMBER.fetch_add(1, Ordering::Relaxed)),
            rest_of,
            names,
        }
    }

    /// The end of the state's fair continuation; `None` if liveness is not checked from this state.
    /// Two properties of each state need it, and each check has its own threads.
    fn rest(&self, world: &World) -> Option<Rest> {
        thread_local! {
            static LAST: Cell<Option<(World, Rest)>> = const { Cell::new(None) };
        }
        let mut hasher = Quick::default();
        world.hash(&mut hasher);
        if !hasher.finish().is_multiple_of(self.rest_of) {
            return None;
        }
        let known = LAST.get().filter(|(last, _)| last == world);
        let rest = known.map_or_else(|| Rest::after(&self.protocol, *world), |(_, rest)| rest);
        LAST.set(Some((*world, rest)));
        Some(rest)
    }
}

impl Model for GateModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.protocol.setup)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(&self.protocol, actions);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        state.after(&self.protocol, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("S1", |_, world: &World| !world.broken.s1),
            Property::always("S2", |_, world: &World| !world.broken.s2),
            Property::always("S3", |_, world: &World| !world.broken.s3),
            Property::always("S4", |model: &Self, world: &World| {
                !world.broken.s4 && world.keeps_limits(&model.protocol.setup)
            }),
            Property::always("S5", |_, world: &World| !world.broken.s5),
            Property::always("S6", |_, world: &World| !world.broken.s6),
            Property::always("L1", |model: &Self, world: &World| {
                model.rest(world).is_none_or(|rest| rest.all_approved)
            }),
            Property::always("L2", |_, world: &World| !world.broken.l2),
            Property::always("L3", |_, world: &World| !world.broken.l3),
            Property::always("no ghosts", |model: &Self, world: &World| {
                model.rest(world).is_none_or(|rest| rest.all_free)
            }),
            // The model reaches the states that it is about.
            Property::sometimes("all approved", |model: &Self, world: &World| {
                world.status.iter().enumerate().all(|(event, status)| {
                    matches!(status, Status::Approved | Status::Over { approved: true })
                        || model.protocol.setup.is_advice(event)
                })
            }),
        ];
        properties.retain(|property| self.names.contains(&property.name));
        properties
    }
}

/// All properties.
const ALL: &[&str] = &[
    "S1",
    "S2",
    "S3",
    "S4",
    "S5",
    "S6",
    "L1",
    "L2",
    "L3",
    "no ghosts",
    "all approved",
];

/// Checks that all properties hold in all states.
fn check(name: &str, setup: Setup, rest_of: u64) {
    check_these(ALL, name, setup, rest_of);
}

/// Checks that these properties hold in all states.
fn check_these(names: &'static [&'static str], name: &str, setup: Setup, rest_of: u64) {
    let started = Instant::now();
    // Depth first needs the least memory, and no path is needed.
    let checker = GateModel::new(setup, rest_of, names)
        .checker()
        .threads(2)
        .spawn_dfs()
        .join();
    let (states, transitions) = (checker.unique_state_count(), checker.state_count());
    let seconds = started.elapsed().as_secs_f32();
    println!(
        "{name}: {states} states, {transitions} transitions, depth {}, {seconds:.1} s",
        checker.max_depth()
    );
    checker.assert_properties();
}

#[test]
fn all_invariants_hold_without_faults() {
    check("no faults", Setup::three_machines(), 16);
}

#[test]
fn all_invariants_hold_with_a_crash() {
    check(
        "a crash",
        Setup {
            crashes: 1,
            ..Setup::three_machines()
        },
        64,
    );
}

#[test]
fn all_invariants_hold_with_a_dead_machine() {
    check(
        "a machine ends for good",
        Setup {
            deaths: 1,
            ..Setup::three_machines()
        },
        64,
    );
}

/// Another machine posts what was decided before.
#[test]
fn all_invariants_hold_with_a_dead_machine_that_is_not_silent_yet() {
    check(
        "two machines: a machine ends for good, and is silent later",
        Setup {
            deaths: 1,
            ends_unseen: true,
            ..Setup::two_machines()
        },
        16,
    );
}

#[test]
fn all_invariants_hold_with_lost_replies() {
    let setup = Setup {
        lost_replies: true,
        crashes: 1,
        deaths: 1,
        ..Setup::two_machines()
    };
    check(
        "two machines: lost replies, a crash, a machine ends for good",
        setup,
        16,
    );
}

#[test]
fn all_invariants_hold_with_stale_reads() {
    let setup = Setup {
        atomic: false,
        stale_reads: true,
        crashes: 1,
        ..Setup::two_machines()
    };
    check(
        "two machines: every read apart, stale reads, a crash",
        setup,
        64,
    );
}

#[test]
fn all_invariants_hold_with_marks_apart() {
    let setup = Setup {
        marks_apart: true,
        atomic: false,
        stale_reads: true,
        crashes: 1,
        ..Setup::two_machines()
    };
    check(
        "two machines: marks apart, every read apart, stale reads, a crash",
        setup,
        64,
    );
}

#[test]
fn all_invariants_hold_with_events_that_change() {
    check(
        "two machines: an event takes longer, and then less long, documents differ, a crash",
        Setup {
            changes: 2,
            crashes: 1,
            ..Setup::one_event()
        },
        16,
    );
    check(
        "two machines: an event takes longer, marks apart, every read apart, stale reads, a crash",
        Setup {
            changes: 1,
            crashes: 1,
            atomic: false,
            stale_reads: true,
            marks_apart: true,
            ..Setup::one_event()
        },
        64,
    );
    check(
        "two machines: an event takes longer, lost replies, last calls",
        Setup {
            changes: 1,
            lost_replies: true,
            last_call: true,
            ..Setup::one_event()
        },
        16,
    );
    check(
        "three machines: an event takes longer, and then less long",
        Setup {
            changes: 2,
            events: vec![vec![0, 1, 2]],
            groups: vec![(vec![0, 1, 2], 3)],
            machines: 3,
            ..Setup::one_event()
        },
        64,
    );
    check(
        "three machines: one joins an event",
        Setup {
            crashes: 1,
            ..Setup::one_joins()
        },
        16,
    );
}

#[test]
fn all_invariants_hold_with_two_groups() {
    let groups = vec![(vec![0, 1], 1), (vec![1], 1)];
    check(
        "two machines, two groups",
        Setup {
            groups,
            ..Setup::two_machines()
        },
        16,
    );
}

#[test]
fn all_invariants_hold_with_last_calls() {
    check(
        "two machines: last calls",
        Setup {
            last_call: true,
            ..Setup::two_machines()
        },
        16,
    );
    let setup = Setup {
        last_call: true,
        crashes: 1,
        deaths: 1,
        ..Setup::an_event_each()
    };
    check(
        "an event of each of two machines: last calls, a crash, a machine ends for good",
        setup,
        16,
    );
    let setup = Setup {
        last_call: true,
        silences: 1,
        lost_replies: true,
        ..Setup::an_event_each()
    };
    check(
        "an event of each of two machines: last calls, lost replies, a daemon is silent for a while",
        setup,
        16,
    );
}

#[test]
fn all_invariants_hold_with_a_silent_daemon() {
    check(
        "two machines: a daemon is silent for a while",
        Setup {
            silences: 1,
            ..Setup::two_machines()
        },
        16,
    );
}

/// Without S3: once it is decided, a machine that is cut off can keep nobody from posting.
#[test]
fn nobody_decides_about_a_machine_that_is_cut_off_and_prepares_again() {
    const NAMES: &[&str] = &[
        "S1",
        "S2",
        "S4",
        "S5",
        "L1",
        "L2",
        "no ghosts",
        "all approved",
    ];
    check_these(
        NAMES,
        "two machines: last calls, a crash while a daemon is silent",
        Setup::cut_off(),
        16,
    );
}

/// Without S1: a backup may be older than the decision.
#[test]
fn nobody_decides_by_the_marks_of_a_backup() {
    const NAMES: &[&str] = &[
        "S2",
        "S3",
        "S4",
        "S5",
        "S6",
        "L1",
        "L2",
        "no ghosts",
        "all approved",
    ];
    check_these(
        NAMES,
        "two machines: a backup of the store is restored, a crash",
        Setup::restored(),
        16,
    );
}

#[test]
fn all_invariants_hold_with_a_copy_of_a_machine() {
    check("two machines: a copy of one, a crash", Setup::copied(), 16);
}

#[test]
fn all_invariants_hold_with_lost_state() {
    let setup = Setup {
        losses: 1,
        deaths: 1,
        ..Setup::two_machines()
    };
    check(
        "two machines: a lost disk, a machine ends for good",
        setup,
        16,
    );
}

#[test]
fn all_invariants_hold_with_machines_that_leave() {
    let setup = Setup {
        terminates: true,
        crashes: 1,
        deaths: 1,
        ..Setup::two_machines()
    };
    check(
        "two machines: a Terminate, a crash, a machine ends for good",
        setup,
        16,
    );
}

#[test]
fn all_invariants_hold_with_preparations_that_are_tried_again() {
    check(
        "two machines: two preparations fail",
        Setup {
            failures: 2,
            ..Setup::two_machines()
        },
        16,
    );
    let setup = Setup {
        failures: 1,
        last_call: true,
        crashes: 1,
        lost_replies: true,
        ..Setup::an_event_each()
    };
    check(
        "an event of each of two machines: a preparation fails, last calls, lost replies, a crash",
        setup,
        16,
    );
}

#[test]
fn all_invariants_hold_with_advice() {
    let of_one = Setup {
        events: vec![vec![1], vec![0, 1]],
        advice: true,
        ..Setup::two_machines()
    };
    check(
        "two machines: advice for one, a preparation fails, a crash, a machine ends for good",
        Setup {
            failures: 1,
            crashes: 1,
            deaths: 1,
            ..of_one.clone()
        },
        16,
    );
    check(
        "two machines: advice for one, last calls, lost replies, a preparation fails",
        Setup {
            failures: 1,
            last_call: true,
            lost_replies: true,
            ..of_one
        },
        16,
    );
}
