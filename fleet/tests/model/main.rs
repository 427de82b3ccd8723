//! The gate's protocol, checked in every interleaving: `make model-fleet`.
//!
//! The invariants:
//! - S1: an event is approved only after the decision, and the decision is made only over the marks of all.
//! - S2: when it was decided, all machines of the event were ready.
//! - S3: nobody is approved who is not ready.
//! - S4: of a group, at most so many machines are out of service as its limit says, or those of one event.
//!   A machine that is silent counts, at the time at which slots are taken.
//! - S5: no slot of a machine that lives is free before it has recovered.
//! - L1: from wherever things are, once the faults end and before `NotBefore`, somebody approves.
//!
//! A check that cannot fail is none: each invariant is also shown to break when a part of the protocol is taken away.

mod state;
mod world;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use scheduled_events_fleet::gate::Part;
use state::{Action, Outcome, Phase, Presence, Setup, Status};
use stateright::{Checker, Model, Property, UniformChooser};
use world::World;

struct GateModel {
    setup: Setup,
    parts: Vec<Vec<Part>>,
    /// From one of so many states L1 is tried.
    liveness_of: u64,
    /// The properties that are checked.
    names: &'static [&'static str],
}

impl GateModel {
    fn new(setup: Setup, liveness_of: u64, names: &'static [&'static str]) -> Self {
        let parts = setup.parts();
        Self { setup, parts, liveness_of, names }
    }
}

impl Model for GateModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.setup)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(&self.setup, &self.parts, actions);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        state.after(&self.setup, &self.parts, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("S1", |_, world: &World| !world.broken.s1),
            Property::always("S2", |_, world: &World| !world.broken.s2),
            Property::always("S3", |_, world: &World| !world.broken.s3),
            Property::always("S4", |model: &Self, world: &World| !world.broken.s4 && holds_s4(&model.setup, world)),
            Property::always("S5", |_, world: &World| !world.broken.s5),
            Property::always("L1", |model: &Self, world: &World| {
                let mut hasher = DefaultHasher::new();
                world.hash(&mut hasher);
                !hasher.finish().is_multiple_of(model.liveness_of) || leads_to_approval(model, world)
            }),
            // The model reaches what it is about.
            Property::sometimes("both approved", |_, world: &World| {
                world.status.iter().all(|status| matches!(status, Status::Approved | Status::Over { approved: true }))
            }),
        ];
        properties.retain(|property| self.names.contains(&property.name));
        properties
    }
}

fn holds_s4(setup: &Setup, world: &World) -> bool {
    setup.groups.iter().all(|(members, limit)| {
        let out: Vec<_> = members.iter().filter(|&&machine| world.is_out(setup, machine)).collect();
        out.len() <= *limit as usize
            || setup.events.iter().any(|event| out.iter().all(|machine| event.contains(machine)))
    })
}

/// Whether every event is approved that can be, if from now on nothing fails and everybody gets a turn.
fn leads_to_approval(model: &GateModel, start: &World) -> bool {
    let (setup, parts) = (&model.setup, &model.parts);
    let mut world = start.clone();
    let is_open = |world: &World, event: usize| world.status[event] == Status::Scheduled;
    // A machine that ended for good before the decision is never ready.
    let can_be_approved = |world: &World, event: usize| {
        let all_live = setup.events[event].iter().all(|&machine| world.is_alive(machine));
        all_live
            || world.event_registers[event].current.go.is_some()
                && setup.events[event].iter().any(|&machine| world.is_alive(machine))
    };
    for _ in 0..200 {
        let before = world.clone();
        for machine in (0..setup.machines).filter(|&machine| start.is_alive(machine)) {
            for event in 0..setup.events.len() {
                if let Some(action) = usual_action(model, &world, machine, event) {
                    world.apply(setup, parts, action);
                }
            }
        }
        for machine in 0..setup.machines {
            if world.presence[machine] == Presence::Silent {
                world.apply(setup, parts, Action::Forget(machine));
            }
        }
        for event in 0..setup.events.len() {
            match world.status[event] {
                Status::Scheduled if world.posted[event] => world.apply(setup, parts, Action::Deliver(event)),
                Status::Scheduled if !can_be_approved(&world, event) => {
                    world.apply(setup, parts, Action::NotBefore(event));
                }
                Status::Approved | Status::Forced => world.apply(setup, parts, Action::End(event)),
                Status::Scheduled | Status::Over { .. } => {}
            }
        }
        if !(0..setup.events.len()).any(|event| is_open(&world, event)) {
            return true;
        }
        if world == before {
            return false;
        }
    }
    false
}

/// What a machine does next about an event, if nothing fails.
fn usual_action(model: &GateModel, world: &World, machine: usize, event: usize) -> Option<Action> {
    let mut actions = Vec::new();
    world.actions(&model.setup, &model.parts, &mut actions);
    let phase = world.involved[machine][event].phase;
    let is_usual = |action: &Action| match *action {
        // A machine whose turn it is not waits until it is.
        Action::Step(m, e, Outcome::Waited) | Action::Prepared(m, e) | Action::Post(m, e) | Action::Recover(m, e) => {
            (m, e) == (machine, event)
        }
        Action::Free { by, .. } => by == machine && matches!(phase, Phase::Done | Phase::NotConcerned),
        _ => false,
    };
    let usual_step = Action::Step(machine, event, Outcome::Usual);
    actions.iter().copied().find(is_usual).or_else(|| actions.contains(&usual_step).then_some(usual_step))
}

/// Checks that all properties hold in all states.
fn check(name: &str, setup: Setup, liveness_of: u64) {
    let started = Instant::now();
    let model = GateModel::new(setup, liveness_of, &["S1", "S2", "S3", "S4", "S5", "L1", "both approved"]);
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (states, transitions) = (checker.unique_state_count(), checker.state_count());
    let seconds = started.elapsed().as_secs_f32();
    println!("{name}: {states} states, {transitions} transitions, depth {}, {seconds:.1} s", checker.max_depth());
    checker.assert_properties();
}

/// How a broken invariant is looked for.
#[derive(Clone, Copy)]
enum Search {
    /// In all states, the next ones first.
    Breadth,
    /// By walking at random, with a fixed seed.
    Random,
}

/// Checks that this property is found to be broken.
fn check_broken(name: &str, setup: Setup, search: Search, property: &'static [&'static str; 1]) {
    let started = Instant::now();
    let checker = GateModel::new(setup, 1, property).checker().threads(2).timeout(Duration::from_secs(300));
    let (path, states) = match search {
        Search::Breadth => {
            let checker = checker.spawn_bfs().join();
            (checker.discovery(property[0]), checker.state_count())
        }
        Search::Random => {
            let checker = checker.spawn_simulation(1, UniformChooser).join();
            (checker.discovery(property[0]), checker.state_count())
        }
    };
    let [property] = property;
    let path = path.unwrap_or_else(|| panic!("{name}: {property} was not found to be broken")).into_actions();
    let seconds = started.elapsed().as_secs_f32();
    println!("{name}: {property} is broken after {} actions; {states} transitions, {seconds:.1} s", path.len());
    if std::env::var_os("SHOW_PATHS").is_some() {
        for action in &path {
            println!("    {action:?}");
        }
    }
}

#[test]
fn all_invariants_hold_without_faults() {
    check("no faults", Setup::three_machines(), 16);
}

#[test]
fn all_invariants_hold_with_a_crash() {
    check("a crash", Setup { crashes: 1, ..Setup::three_machines() }, 64);
}

#[test]
fn all_invariants_hold_with_a_dead_machine() {
    check("a machine ends for good", Setup { deaths: 1, ..Setup::three_machines() }, 64);
}

#[test]
fn all_invariants_hold_with_lost_replies() {
    let setup = Setup { lost_replies: true, crashes: 1, deaths: 1, ..two_machines() };
    check("two machines: lost replies, a crash, a machine ends for good", setup, 16);
}

#[test]
fn all_invariants_hold_with_stale_reads() {
    let setup = Setup { atomic: false, stale_reads: true, crashes: 1, ..two_machines() };
    check("two machines: every read apart, stale reads, a crash", setup, 64);
}

#[test]
fn all_invariants_hold_with_marks_apart() {
    let setup = Setup { marks_apart: true, atomic: false, stale_reads: true, crashes: 1, ..two_machines() };
    check("two machines: marks apart, every read apart, stale reads, a crash", setup, 64);
}

#[test]
fn all_invariants_hold_with_two_groups() {
    let groups = vec![(vec![0, 1], 1), (vec![1], 1)];
    check("two machines, two groups", Setup { groups, ..two_machines() }, 16);
}

/// Two machines, and an event of both beside one of the second.
fn two_machines() -> Setup {
    Setup { machines: 2, events: vec![vec![0, 1], vec![1]], groups: vec![(vec![0, 1], 1)], ..Setup::three_machines() }
}

#[test]
fn plain_writes_break_every_safety_invariant() {
    let plain = |setup: Setup| Setup { atomic: false, plain_writes: true, not_before: false, ..setup };
    // What two machines and one event break is broken with more of them.
    let pair = Setup { events: vec![vec![0, 1]], groups: vec![(vec![0, 1], 2)], crashes: 1, ..two_machines() };
    check_broken("plain writes, two machines", plain(pair.clone()), Search::Breadth, &["S1"]);
    check_broken("plain writes, two machines", plain(pair.clone()), Search::Breadth, &["S2"]);
    check_broken("plain writes, two machines", plain(pair), Search::Breadth, &["S3"]);
    check_broken("plain writes, three machines", plain(Setup::three_machines()), Search::Random, &["S4"]);
}

#[test]
fn slots_that_expire_break_the_limit() {
    let setup = Setup { slots_expire: true, ..Setup::three_machines() };
    check_broken("slots that expire", setup.clone(), Search::Breadth, &["S4"]);
    check_broken("slots that expire", setup, Search::Breadth, &["S5"]);
}

#[test]
fn silent_machines_that_do_not_count_break_the_limit() {
    let setup = Setup { ignores_silence: true, deaths: 1, ..Setup::three_machines() };
    check_broken("silent machines do not count", setup, Search::Breadth, &["S4"]);
}

#[test]
fn without_take_over_an_approval_can_be_missing() {
    let setup = Setup { no_take_over: true, deaths: 1, ..two_machines() };
    check_broken("no take-over", setup, Search::Breadth, &["L1"]);
}
