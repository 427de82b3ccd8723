//! Some machines, some events and their registers, and everything that can happen next.
//!
//! Each machine runs the protocol that ships, step by step: between two steps anything else can happen. What the model adds is
//! the world around it: the metadata service, the registers, the machines' drains and recoveries, and the faults.

use std::sync::Arc;

use scheduled_events_fleet::gate::{
    Answer, EventChange, EventRegister, GroupChange, GroupRegister, Part, Progress, Seen, Step,
};
use scheduled_events_fleet::names::Name;

use crate::state::{Action, Broken, Involvement, Outcome, Phase, Presence, Register, Setup, Status, name};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) status: Vec<Status>,
    pub(crate) event_registers: Vec<Register<EventRegister>>,
    pub(crate) group_registers: Vec<Register<GroupRegister>>,
    /// By machine and event.
    pub(crate) involved: Vec<Vec<Involvement>>,
    pub(crate) presence: Vec<Presence>,
    /// Whether a POST for the event is on its way.
    pub(crate) posted: Vec<bool>,
    crashes: u8,
    deaths: u8,
    pub(crate) broken: Broken,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let involvement = |machine: usize, event: usize| {
            let is_concerned = setup.events[event].contains(&machine);
            let phase = if is_concerned { Phase::Idle } else { Phase::NotConcerned };
            Involvement { phase, is_ready: false, progress: Progress::default() }
        };
        let of_machine = |machine| (0..setup.events.len()).map(|event| involvement(machine, event)).collect();
        Self {
            status: vec![Status::Scheduled; setup.events.len()],
            event_registers: vec![Register::default(); setup.events.len()],
            group_registers: vec![Register::default(); setup.groups.len()],
            involved: (0..setup.machines).map(of_machine).collect(),
            presence: vec![Presence::Beating; setup.machines],
            posted: vec![false; setup.events.len()],
            crashes: setup.crashes,
            deaths: setup.deaths,
            broken: Broken::default(),
        }
    }

    /// Everything that can happen next.
    pub(crate) fn actions(&self, setup: &Setup, parts: &[Vec<Part>], actions: &mut Vec<Action>) {
        for machine in (0..setup.machines).filter(|&machine| self.is_alive(machine)) {
            for event in 0..setup.events.len() {
                self.actions_of(setup, parts, machine, event, actions);
            }
            if self.crashes > 0 {
                actions.push(Action::Crash { machine, state_kept: false });
                if self.involved[machine].iter().any(|involved| involved.is_ready) {
                    actions.push(Action::Crash { machine, state_kept: true });
                }
            }
            if self.deaths > 0 {
                actions.push(Action::Die(machine));
            }
        }
        for machine in 0..setup.machines {
            if self.presence[machine] == Presence::Silent {
                actions.push(Action::Forget(machine));
            }
        }
        for event in 0..setup.events.len() {
            if self.posted[event] {
                actions.extend([Action::Deliver(event), Action::LosePost(event)]);
            }
            match self.status[event] {
                Status::Scheduled if setup.not_before => actions.push(Action::NotBefore(event)),
                Status::Approved | Status::Forced => actions.push(Action::End(event)),
                Status::Scheduled | Status::Over { .. } => {}
            }
            if setup.slots_expire {
                let machines = (0..setup.machines).filter(|&machine| self.holds_slot(machine, event));
                actions.extend(machines.map(|machine| Action::Expire { event, machine }));
            }
        }
    }

    fn actions_of(&self, setup: &Setup, parts: &[Vec<Part>], machine: usize, event: usize, actions: &mut Vec<Action>) {
        let status = self.status[event];
        let involved = &self.involved[machine][event];
        let is_over = matches!(status, Status::Over { .. });
        match involved.phase {
            Phase::NotConcerned | Phase::Done => {}
            Phase::Releasing => actions.push(Action::Step(machine, event, Outcome::Usual)),
            // The watcher ends what it does about an event that is over.
            _ if is_over => actions.push(Action::Recover(machine, event)),
            Phase::Idle | Phase::Ready if status != Status::Scheduled => {}
            Phase::Preparing => actions.push(Action::Prepared(machine, event)),
            Phase::Posting => actions.push(Action::Post(machine, event)),
            Phase::Idle | Phase::AskPrepare | Phase::Ready | Phase::AskApprove => {
                let part = &parts[machine][event];
                actions.push(Action::Step(machine, event, Outcome::Usual));
                let next = if setup.atomic {
                    self.read_until_change(setup, part, (machine, event), false).next(part, false)
                } else {
                    involved.next(part, false)
                };
                if setup.lost_replies && matches!(next, Step::ChangeEvent(_) | Step::ChangeGroup(..)) {
                    actions.push(Action::Step(machine, event, Outcome::ReplyLost));
                    actions.push(Action::Step(machine, event, Outcome::RequestLost));
                }
                let stale = match next {
                    Step::ReadEvent => self.event_registers[event].is_stale(),
                    Step::ReadGroup(index) => self.group(setup, part, index).1.is_stale(),
                    _ => false,
                };
                if setup.stale_reads && stale {
                    actions.push(Action::Step(machine, event, Outcome::Stale));
                }
                let is_decided = self.event_registers[event].current.go.is_some();
                let reads_event = matches!(next, Step::ReadEvent | Step::Answer(_));
                if reads_event && is_decided && !setup.no_take_over {
                    actions.push(Action::Step(machine, event, Outcome::Waited));
                }
            }
        }
        let is_silent = |other: &usize| matches!(self.presence[*other], Presence::Silent | Presence::Forgotten);
        if is_over && (0..setup.machines).any(|other| is_silent(&other)) {
            let dead = (0..setup.machines).filter(|other| is_silent(other) && self.holds_slot(*other, event));
            actions.extend(dead.map(|dead| Action::Free { by: machine, dead, event }));
        }
    }

    /// What is after an action. `None`: it changes nothing.
    pub(crate) fn after(&self, setup: &Setup, parts: &[Vec<Part>], action: Action) -> Option<Self> {
        let mut next = self.clone();
        next.apply(setup, parts, action);
        (next != *self).then_some(next)
    }

    pub(crate) fn apply(&mut self, setup: &Setup, parts: &[Vec<Part>], action: Action) {
        match action {
            Action::Step(machine, event, outcome) => {
                self.step(setup, &parts[machine][event], (machine, event), outcome);
            }
            Action::Prepared(machine, event) => {
                let involved = &mut self.involved[machine][event];
                (involved.phase, involved.is_ready) = (Phase::Ready, true);
            }
            Action::Post(machine, event) => {
                self.involved[machine][event].phase = Phase::Ready;
                self.posted[event] |= self.status[event] == Status::Scheduled;
            }
            Action::Deliver(event) => {
                self.posted[event] = false;
                if self.status[event] == Status::Scheduled {
                    self.status[event] = Status::Approved;
                    self.broken.s1 |= self.event_registers[event].current.go.is_none();
                    self.broken.s3 |= !self.all_ready(setup, event);
                }
            }
            Action::LosePost(event) => self.posted[event] = false,
            Action::NotBefore(event) => {
                self.status[event] = Status::Forced;
                self.unreserve(setup, event);
            }
            Action::End(event) => {
                self.status[event] = Status::Over { approved: self.status[event] == Status::Approved };
                self.posted[event] = false;
            }
            Action::Recover(machine, event) => {
                let involved = &mut self.involved[machine][event];
                *involved = Involvement { phase: Phase::Releasing, is_ready: false, progress: Progress::default() };
            }
            Action::Free { dead, event, .. } => self.release(setup, parts, dead, event),
            Action::Crash { machine, state_kept } => {
                self.crashes -= 1;
                for involved in &mut self.involved[machine] {
                    involved.progress = Progress::default();
                    involved.phase = match involved.phase {
                        Phase::NotConcerned | Phase::Releasing | Phase::Done => involved.phase,
                        Phase::Ready | Phase::AskApprove | Phase::Posting if state_kept => Phase::Ready,
                        _ => Phase::Idle,
                    };
                }
            }
            Action::Die(machine) => {
                self.deaths -= 1;
                self.presence[machine] = Presence::Silent;
            }
            Action::Forget(machine) => self.presence[machine] = Presence::Forgotten,
            Action::Expire { event, machine } => {
                // The machine may be out of service still.
                self.broken.s5 |= self.is_alive(machine) && self.is_out(setup, machine);
                self.release(setup, parts, machine, event);
            }
        }
    }

    /// Frees a machine's slots, in all groups.
    fn release(&mut self, setup: &Setup, parts: &[Vec<Part>], machine: usize, event: usize) {
        let part = &parts[machine][event];
        for register in &mut self.group_registers {
            let mut group = (*register.current).clone();
            let is_it = |id: &str, holder: &Name| *id == part.event.id && *holder == part.machine;
            for change in group.releases(is_it) {
                change.apply(&mut group, 0);
            }
            if group != *register.current {
                register.put(Arc::new(group), setup.stale_reads);
            }
        }
        debug_assert!(setup.slots_expire || !self.holds_slot(machine, event));
    }

    /// The next step of the protocol.
    fn step(&mut self, setup: &Setup, part: &Part, (machine, event): (usize, usize), outcome: Outcome) {
        let mut involved = self.involved[machine][event].clone();
        if involved.phase == Phase::Releasing {
            self.step_of_release(setup, part, (machine, event));
            return;
        }
        involved.phase = involved.phase.asking();
        if setup.atomic {
            involved = self.read_until_change(setup, part, (machine, event), outcome == Outcome::Waited);
        }
        match involved.next(part, outcome == Outcome::Waited) {
            Step::ReadEvent => involved.progress.saw_event(self.event_registers[event].read(outcome)),
            Step::ReadGroup(index) => {
                let register = self.group(setup, part, index).1.read(outcome);
                involved.progress.saw_group(index, register);
            }
            Step::LookAtMembers => involved.progress.saw_members(self.seen(setup, part)),
            Step::ChangeEvent(change) => {
                let register = &mut self.event_registers[event];
                let mut seen = involved.progress.event().expect("it was read").clone();
                if setup.marks_apart && matches!(change, EventChange::Mark(..)) && seen.go == register.current.go {
                    seen = register.current.clone();
                }
                let mut value = (*seen).clone();
                change.apply(&mut value, 0);
                let value = Arc::new(value);
                let fits = setup.plain_writes || register.current == seen;
                let is_done = fits && outcome != Outcome::RequestLost;
                if is_done {
                    register.put(value.clone(), setup.stale_reads);
                }
                match outcome {
                    Outcome::ReplyLost | Outcome::RequestLost => involved.progress.event_unknown(),
                    _ if is_done => involved.progress.wrote_event(&change, value),
                    _ => involved.progress.event_conflict(),
                }
                if is_done && matches!(change, EventChange::Go(_)) {
                    self.broken.s2 |= !self.all_ready(setup, event);
                    self.broken.s1 |=
                        !part.event.resources.iter().all(|name| self.event_registers[event].current.is_ready(name));
                }
            }
            Step::ChangeGroup(index, change) => {
                let seen = involved.progress.group(index).expect("it was read").clone();
                let mut value = (*seen).clone();
                change.apply(&mut value, 0);
                let (value, at) = (Arc::new(value), self.group(setup, part, index).0);
                let register = &mut self.group_registers[at];
                let is_done = (setup.plain_writes || register.current == seen) && outcome != Outcome::RequestLost;
                if is_done {
                    register.put(value.clone(), setup.stale_reads);
                    let is_new =
                        matches!(&change, GroupChange::Claim { event_id, slots, .. } if !seen.has(event_id, slots));
                    // Between a look and a swap that are apart a machine can fall silent.
                    self.broken.s4 |= is_new && setup.atomic && self.exceeds(setup, part, index, &value);
                }
                match outcome {
                    Outcome::ReplyLost | Outcome::RequestLost => involved.progress.group_unknown(index),
                    _ if is_done => involved.progress.wrote_group(index, &change, value),
                    _ => involved.progress.group_conflict(index),
                }
            }
            Step::Answer(_) => {}
        }
        if let Step::Answer(answer) = involved.next(part, outcome == Outcome::Waited) {
            let is_decided = involved.progress.event().is_some_and(|event| event.go.is_some());
            involved.progress.forget_reads();
            involved.progress.recall_members(None);
            involved.phase = match (involved.phase, answer) {
                (Phase::AskPrepare, Answer::Open) => {
                    // After the decision this machine is only put again into the state that it is in.
                    involved.is_ready &= is_decided;
                    Phase::Preparing
                }
                (Phase::AskPrepare, _) => Phase::Idle,
                (_, Answer::Open) => Phase::Posting,
                _ => Phase::Ready,
            };
        }
        if setup.atomic {
            involved.progress.forget_reads();
            involved.progress.recall_members(None);
        }
        self.involved[machine][event] = involved;
    }

    /// What a machine knows after it has read what it needs for its next change or its answer.
    fn read_until_change(&self, setup: &Setup, part: &Part, at: (usize, usize), has_waited: bool) -> Involvement {
        let mut involved = self.involved[at.0][at.1].clone();
        involved.phase = involved.phase.asking();
        loop {
            match involved.next(part, has_waited) {
                Step::ReadEvent => involved.progress.saw_event(self.event_registers[at.1].current.clone()),
                Step::ReadGroup(index) => {
                    involved.progress.saw_group(index, self.group(setup, part, index).1.current.clone());
                }
                Step::LookAtMembers => involved.progress.saw_members(self.seen(setup, part)),
                Step::ChangeEvent(_) | Step::ChangeGroup(..) | Step::Answer(_) => return involved,
            }
        }
    }

    /// What is seen of the machines of each of a part's groups.
    fn seen(&self, setup: &Setup, part: &Part) -> Arc<[Seen]> {
        let seen = |index: usize| {
            let (at, _) = self.group(setup, part, index);
            let silent = |machine: &&usize| self.presence[**machine] == Presence::Silent && !setup.ignores_silence;
            let silent = setup.groups[at].0.iter().filter(silent).map(|&machine| name(machine)).collect();
            Seen { limit: setup.groups[at].1, silent }
        };
        (0..part.shares.len()).map(seen).collect()
    }

    /// Whether more machines hold slots or are silent than may, and others than those of this part's event.
    fn exceeds(&self, setup: &Setup, part: &Part, index: usize, register: &GroupRegister) -> bool {
        let (members, limit) = &setup.groups[self.group(setup, part, index).0];
        let held = register.held();
        let is_out = |machine: &&usize| self.presence[**machine] == Presence::Silent || held.contains(&name(**machine));
        let out: Vec<_> = members.iter().filter(is_out).collect();
        out.len() > *limit as usize && !out.iter().all(|machine| part.event.resources.contains(&name(**machine)))
    }

    pub(crate) fn is_alive(&self, machine: usize) -> bool {
        self.presence[machine] == Presence::Beating
    }

    /// Back in service, a machine takes itself out of the groups: it reads, and swaps. With plain writes anything can happen
    /// between the two, so that the value that was read is kept.
    fn step_of_release(&mut self, setup: &Setup, part: &Part, (machine, event): (usize, usize)) {
        let involved = &mut self.involved[machine][event];
        for index in 0..part.shares.len() {
            let at =
                setup.groups.iter().enumerate().position(|(at, _)| part.shares[index].group == format!("group-{at}"));
            let register = &mut self.group_registers[at.expect("a group of the setup")];
            let Some(seen) = involved.progress.group(index).cloned() else {
                involved.progress.saw_group(index, register.current.clone());
                return;
            };
            let is_it = |id: &str, holder: &Name| *id == part.event.id && *holder == part.machine;
            let Some(change) = seen.releases(is_it).pop() else { continue };
            let mut value = (*seen).clone();
            change.apply(&mut value, 0);
            if setup.plain_writes || register.current == seen {
                let value = Arc::new(value);
                register.put(value.clone(), setup.stale_reads);
                involved.progress.wrote_group(index, &change, value);
            } else {
                involved.progress.group_conflict(index);
            }
            return;
        }
        *involved = Involvement { phase: Phase::Done, is_ready: false, progress: Progress::default() };
    }

    /// The event does not wait for slots any more: the group is not reserved for it.
    fn unreserve(&mut self, setup: &Setup, event: usize) {
        let change = GroupChange::Unreserve { event_id: format!("event-{event}") };
        for register in &mut self.group_registers {
            let mut group = (*register.current).clone();
            change.apply(&mut group, 0);
            if group != *register.current {
                register.put(Arc::new(group), setup.stale_reads);
            }
        }
    }

    /// The register of a part's group, and its index.
    fn group(&self, setup: &Setup, part: &Part, index: usize) -> (usize, &Register<GroupRegister>) {
        let at = (0..setup.groups.len()).find(|at| part.shares[index].group == format!("group-{at}"));
        let at = at.expect("a group of the setup");
        (at, &self.group_registers[at])
    }

    fn holds_slot(&self, machine: usize, event: usize) -> bool {
        let id = format!("event-{event}");
        let holds =
            |group: &GroupRegister| group.claims.get(&id).is_some_and(|claim| claim.slots.contains(&name(machine)));
        self.group_registers.iter().any(|register| holds(&register.current))
    }

    /// Whether every machine of the event has been drained and is still.
    fn all_ready(&self, setup: &Setup, event: usize) -> bool {
        setup.events[event].iter().all(|&machine| self.involved[machine][event].is_ready)
    }

    /// Whether this machine is out of service because of us: drained or being drained, or affected by an event that was approved,
    /// until it has recovered. A dead machine is so until the event is over.
    pub(crate) fn is_out(&self, setup: &Setup, machine: usize) -> bool {
        (0..setup.events.len()).filter(|event| setup.events[*event].contains(&machine)).any(|event| {
            let involved = &self.involved[machine][event];
            let has_recovered = matches!(involved.phase, Phase::Releasing | Phase::Done);
            let is_drained = involved.is_ready || involved.phase == Phase::Preparing;
            match self.status[event] {
                Status::Scheduled | Status::Forced => is_drained,
                Status::Approved => true,
                Status::Over { approved } => self.is_alive(machine) && (is_drained || approved && !has_recovered),
            }
        })
    }
}
