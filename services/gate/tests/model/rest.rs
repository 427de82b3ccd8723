//! The fair continuation of a state: from now on nothing fails, and every machine gets its turn.

use crate::state::{Action, Outcome, Presence, Status};
use crate::step::Protocol;
use crate::world::World;

/// The maximum number of rounds until nothing more happens.
const ROUNDS_MAX: usize = 200;

/// The result once all steps after the last fault are done.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    /// Whether every event is approved that can be.
    pub(crate) all_approved: bool,
    /// Whether no slot is held.
    pub(crate) all_free: bool,
}

impl Rest {
    pub(crate) fn after(protocol: &Protocol, mut world: World) -> Self {
        let setup = &protocol.setup;
        let mut all_approved = true;
        for _ in 0..ROUNDS_MAX {
            let before = world;
            world.see_all(protocol);
            for machine in 0..setup.machines {
                if world.presence[machine] == Presence::Hushed {
                    world.apply(protocol, Action::Resume(machine));
                }
                for event in 0..setup.events.len() {
                    if let Some(action) = usual_action(protocol, &world, machine, event) {
                        world.apply(protocol, action);
                    }
                }
                if world.presence[machine] == Presence::Silent {
                    world.apply(protocol, Action::Forget(machine));
                } else if world.presence[machine].is_alive() && world.is_taken(setup, machine) {
                    world.apply(protocol, Action::Die(machine));
                }
            }
            for event in 0..setup.events.len() {
                pass_time(protocol, &mut world, event);
            }
            if world != before {
                continue;
            }
            let Some(open) = world
                .status
                .iter()
                .position(|status| *status == Status::Scheduled)
            else {
                let ended = |&machine: &usize| world.presence[machine] == Presence::Ended;
                if let Some(machine) = (0..setup.machines).find(ended) {
                    world.apply(protocol, Action::Quiet(machine));
                    continue;
                }
                let is_free = |machine| {
                    (0..setup.events.len()).all(|event| !world.holds_slot(machine, event))
                };
                return Self {
                    all_approved,
                    all_free: (0..setup.machines).all(is_free),
                };
            };
            // Machines that are out by a last call can block each other, whatever the limit is:
            // then only `NotBefore` helps.
            let is_late = |machine: usize| {
                world.involved[machine]
                    .iter()
                    .any(|involved| involved.is_late)
            };
            all_approved &= (0..setup.machines).any(is_late);
            world.apply(protocol, Action::NotBefore(open));
        }
        Self {
            all_approved: false,
            all_free: false,
        }
    }
}

/// The metadata service's next step about an event, and that of other machines once it is over.
fn pass_time(protocol: &Protocol, world: &mut World, event: usize) {
    let machines = &protocol.setup.events[event];
    match world.status[event] {
        Status::Scheduled if world.posted[event] => world.apply(protocol, Action::Deliver(event)),
        Status::Scheduled if protocol.setup.is_advice(event) => {
            world.apply(protocol, Action::Cancel(event));
        }
        Status::Scheduled => {
            // The mark of a machine that ended counts until it is silent.
            let lives = |machine: &usize| world.presence[*machine].is_alive();
            let is_gone = |machine: &usize| world.presence[*machine].is_gone();
            let is_decided = world.event_registers[event].current.go.is_some();
            let can_be_approved = machines.iter().all(lives)
                || is_decided && machines.iter().any(lives) && !machines.iter().any(is_gone);
            if !can_be_approved {
                world.apply(protocol, Action::NotBefore(event));
            }
        }
        Status::Approved | Status::Forced => world.apply(protocol, Action::End(event)),
        Status::Over { .. } => {
            for holder in 0..protocol.setup.machines {
                if !world.presence[holder].is_alive() {
                    world.apply(protocol, Action::Free { holder, event });
                }
            }
        }
    }
}

/// A machine's next step about an event, if nothing fails.
fn usual_action(
    protocol: &Protocol,
    world: &World,
    machine: usize,
    event: usize,
) -> Option<Action> {
    if !world.presence[machine].is_alive() {
        return None;
    }
    let mut actions = Vec::new();
    world.actions_of(protocol, machine, event, &mut actions);
    let is_first = |action: &Action| match *action {
        // A machine waits until it is its turn.
        Action::Step(_, _, outcome) => outcome == Outcome::Waited,
        Action::Occupy(..) | Action::Prepared(..) | Action::Post(..) | Action::Recover(..) => true,
        _ => false,
    };
    let usual_step = Action::Step(machine, event, Outcome::Usual);
    actions
        .iter()
        .copied()
        .find(is_first)
        .or_else(|| actions.contains(&usual_step).then_some(usual_step))
}
