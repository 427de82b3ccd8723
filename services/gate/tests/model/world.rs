//! Some machines, some events and their registers, and all actions.
//!
//! Each machine runs the protocol that ships, step by step: between two steps anything else can
//! happen. The model adds the world around it: the metadata service, the registers, the machines'
//! drains and recoveries, and the faults.

use std::hash::{Hash, Hasher};

use scheduled_events_common::names::Name;
use scheduled_events_gate::register::{
    EventChange, EventRegister, GroupChange, GroupRegister, Mark,
};

use crate::kept::Kept;
use crate::state::{
    Action, Broken, Outcome, Participation, Phase, Presence, Register, Rule, Setup, Status,
};
use crate::state::{EVENTS, GROUPS, MACHINES, event_id, is_changed, name};
use crate::step::{Kind, Moment, Protocol, Taken};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) status: [Status; EVENTS],
    pub(crate) event_registers: [Register<EventRegister>; EVENTS],
    pub(crate) group_registers: [Register<GroupRegister>; GROUPS],
    /// By machine and event.
    pub(crate) involved: [[Participation; EVENTS]; MACHINES],
    pub(crate) presence: [Presence; MACHINES],
    /// Whether a machine's register states that it is about to leave. A change is written at once.
    leaving: [bool; MACHINES],
    /// Whether a POST for the event is in flight.
    pub(crate) posted: [bool; EVENTS],
    /// How many times each event has changed.
    changed: [u8; EVENTS],
    /// As how many times changed each machine sees it.
    pub(crate) seen: [[u8; EVENTS]; MACHINES],
    changes: u8,
    crashes: u8,
    deaths: u8,
    losses: u8,
    silences: u8,
    failures: u8,
    copies: u8,
    restores: u8,
    backup: Option<Kept<EventRegister>>,
    /// Which machines have not read the first event's register as it is. Only a restored one asks for it.
    unread: [bool; MACHINES],
    pub(crate) broken: Broken,
}

impl Hash for World {
    /// Hashing takes most of the time: small values are packed into one number.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.event_registers
            .iter()
            .for_each(|register| register.hash(state));
        self.group_registers
            .iter()
            .for_each(|register| register.hash(state));
        let mut packed = 0_u128;
        let mut pack = |number: u8, bits: u32| packed = packed << bits | u128::from(number);
        for involved in self.involved.as_flattened() {
            involved.progress.hash(state);
            pack(involved.phase as u8, 4);
            pack(involved.is_ready.into(), 1);
            pack(involved.is_for_longer.into(), 1);
            pack(involved.is_late.into(), 1);
            pack(involved.has_failed.into(), 1);
        }
        for status in self.status {
            pack(
                match status {
                    Status::Scheduled => 0,
                    Status::Approved => 1,
                    Status::Forced => 2,
                    Status::Over { approved } => 3 + u8::from(approved),
                },
                3,
            );
        }
        self.presence
            .iter()
            .for_each(|presence| pack(*presence as u8, 2));
        let Broken {
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            l2,
            l3,
        } = self.broken;
        for flag in [s1, s2, s3, s4, s5, s6, l2, l3] {
            pack(flag.into(), 1);
        }
        for flags in [&self.leaving[..], &self.posted, &self.unread] {
            for &flag in flags {
                pack(flag.into(), 1);
            }
        }
        for left in [
            self.crashes,
            self.deaths,
            self.losses,
            self.silences,
            self.failures,
            self.changes,
            self.copies,
            self.restores,
        ] {
            pack(left, 3);
        }
        for count in self.changed.iter().chain(self.seen.as_flattened()) {
            pack(*count, 2);
        }
        state.write_u128(packed);
        self.backup.iter().for_each(|backup| backup.hash(state));
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let is_concerned = |machine: usize, event: usize| {
            setup
                .events
                .get(event)
                .is_some_and(|machines| machines.contains(&machine))
        };
        let involvement = |machine, event| {
            Participation::new(if is_concerned(machine, event) {
                Phase::Idle
            } else {
                Phase::NotConcerned
            })
        };
        let is_there = |event| event < setup.events.len();
        Self {
            status: std::array::from_fn(|event| {
                if is_there(event) {
                    Status::Scheduled
                } else {
                    Status::Over { approved: true }
                }
            }),
            event_registers: [Register::default(); EVENTS],
            group_registers: [Register::default(); GROUPS],
            involved: std::array::from_fn(|machine| {
                std::array::from_fn(|event| involvement(machine, event))
            }),
            presence: [Presence::Beating; MACHINES],
            leaving: [false; MACHINES],
            posted: [false; EVENTS],
            changed: [0; EVENTS],
            seen: [[0; EVENTS]; MACHINES],
            changes: setup.changes,
            crashes: setup.crashes,
            deaths: setup.deaths,
            losses: setup.losses,
            silences: setup.silences,
            failures: setup.failures,
            copies: setup.copies,
            restores: setup.restores,
            backup: None,
            unread: [false; MACHINES],
            broken: Broken::default(),
        }
    }

    /// All possible actions.
    pub(crate) fn actions(&self, protocol: &Protocol, actions: &mut Vec<Action>) {
        let setup = &protocol.setup;
        for machine in 0..setup.machines {
            let presence = self.presence[machine];
            if !presence.is_alive() {
                match presence {
                    Presence::Ended => actions.push(Action::Quiet(machine)),
                    Presence::Silent => actions.push(Action::Forget(machine)),
                    _ => {}
                }
                continue;
            }
            for event in 0..setup.events.len() {
                self.actions_of(protocol, machine, event, actions);
            }
            if self.crashes > 0 {
                actions.push(Action::Crash {
                    machine,
                    state_kept: false,
                });
                if self.involved[machine]
                    .iter()
                    .any(|involved| involved.is_ready)
                {
                    actions.push(Action::Crash {
                        machine,
                        state_kept: true,
                    });
                }
            }
            if self.losses > 0 {
                actions.push(Action::LoseState(machine));
            }
            if self.deaths > 0 || self.is_taken(setup, machine) {
                actions.push(Action::Die(machine));
            }
            match presence {
                Presence::Hushed => actions.push(Action::Resume(machine)),
                _ if self.silences > 0 => actions.push(Action::Hush(machine)),
                _ => {}
            }
            if self.copies > 0 && self.knows_first_event(machine) {
                actions.push(Action::Copy(machine));
            }
        }
        if self.restores > 0 {
            actions.push(Action::BackUp);
            let is_read =
                |machine: usize| !self.presence[machine].is_alive() || !self.unread[machine];
            let is_read = (0..setup.machines).all(is_read);
            if self.backup.is_some() && is_read && !self.may_be_posted(0) {
                actions.push(Action::Restore);
            }
        }
        for event in 0..setup.events.len() {
            if self.posted[event] {
                actions.extend([Action::Deliver(event), Action::LosePost(event)]);
            }
            if !matches!(self.status[event], Status::Over { .. }) {
                self.views(setup, event, actions);
            }
            match self.status[event] {
                Status::Scheduled => {
                    // Between the last call and `NotBefore` there is time for steps that involve no
                    // other machine.
                    let waits = setup.last_call
                        && setup.has(Rule::LastCall)
                        && self.has_late_starter(setup, event);
                    if setup.not_before && !waits && !setup.is_advice(event) {
                        actions.push(Action::NotBefore(event));
                    }
                    if setup.is_final(event) || setup.is_advice(event) {
                        actions.push(Action::Cancel(event));
                    }
                    if event == 0 && self.changes > 0 {
                        actions.push(Action::Change(event));
                    }
                }
                // Documents agree by then.
                Status::Approved | Status::Forced if self.is_seen(event) => {
                    actions.push(Action::End(event));
                }
                Status::Approved | Status::Forced => {}
                Status::Over { .. } => self.actions_of_others(setup, event, actions),
            }
            if !setup.has(Rule::NoExpiry) {
                let machines =
                    (0..setup.machines).filter(|&machine| self.holds_slot(machine, event));
                actions.extend(machines.map(|machine| Action::Expire { event, machine }));
            }
        }
    }

    /// The changes that machines' documents may show next: one may be left out.
    fn views(&self, setup: &Setup, event: usize, actions: &mut Vec<Action>) {
        let machines = (0..setup.machines).filter(|&machine| self.presence[machine].is_alive());
        for machine in machines {
            let newer = self.seen[machine][event] + 1..=self.changed[event];
            actions.extend(newer.map(|changes| Action::See(machine, event, changes)));
        }
    }

    /// Whether all machines see the event as it is.
    fn is_seen(&self, event: usize) -> bool {
        let mut machines = self.presence.iter().zip(&self.seen);
        machines.all(|(presence, seen)| !presence.is_alive() || seen[event] == self.changed[event])
    }

    /// The actions of other machines about the slots of an event that is over.
    fn actions_of_others(&self, setup: &Setup, event: usize, actions: &mut Vec<Action>) {
        if !self.presence.contains(&Presence::Beating) {
            return;
        }
        let may_free =
            |machine: &usize| self.presence[*machine].is_gone() || !setup.has(Rule::SilenceFirst);
        let holders = (0..setup.machines)
            .filter(may_free)
            .filter(|&machine| self.holds_slot(machine, event));
        actions.extend(holders.map(|holder| Action::Free { holder, event }));
    }

    pub(crate) fn actions_of(
        &self,
        protocol: &Protocol,
        machine: usize,
        event: usize,
        actions: &mut Vec<Action>,
    ) {
        let setup = &protocol.setup;
        let (status, involved) = (self.status[event], self.involved[machine][event]);
        let is_over = matches!(status, Status::Over { .. });
        let has_daemon = self.presence[machine] == Presence::Beating;
        if involved.is_late
            && has_daemon
            && !involved.has_recovered()
            && !self.is_occupied(machine, event)
        {
            actions.push(Action::Occupy(machine, event));
        }
        let releases_early =
            is_over && !involved.has_recovered() && !setup.has(Rule::KeptUntilRecovery)
                || involved.phase == Phase::Lost && !setup.has(Rule::OwnDocument);
        if releases_early && self.holds_slot(machine, event) {
            actions.push(Action::ReleaseEarly(machine, event));
        }
        match involved.phase {
            Phase::Releasing if has_daemon => {
                actions.push(Action::Step(machine, event, Outcome::Usual));
            }
            Phase::NotConcerned | Phase::Releasing | Phase::Done => {}
            Phase::Lost if is_over && !setup.has(Rule::NoGhosts) => {}
            // The watcher ends its work on an event that is over.
            _ if is_over => actions.push(Action::Recover(machine, event)),
            Phase::Idle | Phase::Lost | Phase::Ready if status != Status::Scheduled => {}
            Phase::Preparing => {
                actions.push(Action::Prepared(machine, event));
                if self.failures > 0 && status == Status::Scheduled {
                    actions.push(Action::Fail(machine, event));
                }
            }
            Phase::Posting => actions.push(Action::Post(machine, event)),
            Phase::Idle | Phase::Lost | Phase::AskPrepare | Phase::Ready | Phase::AskApprove => {
                if has_daemon {
                    self.steps(protocol, (machine, event), actions);
                }
                // Advice has no last call: nothing takes the machine down.
                let is_called = setup.last_call
                    && setup.has(Rule::LastCall)
                    && status == Status::Scheduled
                    && (!setup.cut_off || !has_daemon)
                    && !setup.is_advice(event);
                if is_called && involved.phase.is_in_service() {
                    actions.push(Action::LastCall(machine, event));
                }
            }
        }
    }

    /// The next step of the protocol, and how it can end.
    fn steps(
        &self,
        protocol: &Protocol,
        (machine, event): (usize, usize),
        actions: &mut Vec<Action>,
    ) {
        let setup = &protocol.setup;
        let mut can_end = |outcome| actions.push(Action::Step(machine, event, outcome));
        can_end(Outcome::Usual);
        let kind = self.take(protocol, (machine, event), Outcome::Usual).kind;
        if setup.lost_replies && kind == Kind::Change {
            can_end(Outcome::ReplyLost);
            can_end(Outcome::RequestLost);
        }
        if setup.stale_reads && matches!(kind, Kind::ReadOfStale { .. }) {
            can_end(Outcome::Stale);
        }
        let is_decided = self.event_registers[event].current.go.is_some();
        let reads_event = matches!(kind, Kind::Read | Kind::ReadOfStale { of_event: true });
        if reads_event && is_decided && setup.has(Rule::TakeOver) {
            can_end(Outcome::Waited);
        }
    }

    fn take(&self, protocol: &Protocol, at: (usize, usize), outcome: Outcome) -> Taken {
        protocol.take(Moment {
            at,
            outcome,
            involved: self.involved[at.0][at.1],
            event_register: self.event_registers[at.1],
            group_registers: self.group_registers,
            silent: self.presence.map(Presence::is_silent),
            forgotten: self
                .presence
                .map(|presence| presence == Presence::Forgotten),
            is_changed: is_changed(self.seen[at.0][at.1]),
            new_round: self.new_round(at.1),
            posts_are_over: !self.may_be_posted(at.1),
        })
    }

    /// Whether a machine posts an approval, or is about to.
    fn may_be_posted(&self, event: usize) -> bool {
        let posts = |involved: &[Participation; EVENTS]| involved[event].phase == Phase::Posting;
        self.posted[event] || self.involved.iter().any(posts)
    }

    /// The number of a new round of an event: the first that is nowhere.
    fn new_round(&self, event: usize) -> u64 {
        let Register { current, previous } = self.event_registers[event];
        let mut rounds = 1_u128 | 1 << current.round | 1 << previous.round;
        for involved in &self.involved {
            if let Some(read) = involved[event].progress.event() {
                rounds |= 1 << read.round;
            }
        }
        rounds.trailing_ones().into()
    }

    /// The world after an action; `None` if the action changes nothing.
    pub(crate) fn after(&self, protocol: &Protocol, action: Action) -> Option<Self> {
        let mut next = *self;
        next.apply(protocol, action);
        (next != *self).then_some(next)
    }

    pub(crate) fn apply(&mut self, protocol: &Protocol, action: Action) {
        let setup = &protocol.setup;
        match action {
            Action::Step(machine, event, outcome) => self.step(protocol, (machine, event), outcome),
            Action::LastCall(machine, event) => {
                // What is drained stays drained: the drain runs once more.
                let is_longer = is_changed(self.seen[machine][event]);
                let involved = &mut self.involved[machine][event];
                (involved.phase, involved.is_late) = (Phase::Preparing, true);
                involved.is_for_longer = is_longer;
                involved.is_ready &= !setup.cut_off;
                self.leaving[machine] |= setup.is_final(event);
            }
            Action::Occupy(machine, event) => {
                let change = GroupChange::Occupy {
                    event_id: event_id(event).to_owned(),
                    machine: name(machine),
                };
                for (register, (members, _)) in self.group_registers.iter_mut().zip(&setup.groups) {
                    if members.contains(&machine) {
                        change_group(setup, register, std::slice::from_ref(&change));
                    }
                }
            }
            Action::Prepared(machine, event) => {
                let involved = &mut self.involved[machine][event];
                (involved.phase, involved.is_ready) = (Phase::Ready, true);
                involved.has_failed = false;
            }
            Action::Fail(machine, event) => {
                self.failures -= 1;
                // What an earlier drain has drained stays drained. The gate's yes remains valid, so the next attempt needs no
                // question; without one, the watcher asks, or has its last call again.
                let involved = &mut self.involved[machine][event];
                involved.has_failed = true;
                if involved.is_late {
                    involved.phase = Phase::AskPrepare;
                }
            }
            Action::Post(machine, event) => {
                self.involved[machine][event].phase = Phase::Ready;
                self.posted[event] |= self.status[event] == Status::Scheduled;
            }
            Action::Deliver(event) => {
                self.posted[event] = false;
                if setup.is_advice(event) {
                    self.broken.s6 = true;
                } else if self.status[event] == Status::Scheduled {
                    self.status[event] = Status::Approved;
                    let register = self.event_registers[event].current;
                    self.broken.s1 |= register.go.is_none() && !register.was_decided;
                    self.broken.s3 |= !self.all_ready(setup, event);
                }
            }
            Action::Change(event) => {
                self.changes -= 1;
                self.changed[event] += 1;
            }
            Action::See(machine, event, changes) => self.see(setup, machine, event, changes),
            Action::LosePost(event) => self.posted[event] = false,
            Action::NotBefore(event) => {
                self.broken.l2 |= setup.last_call && self.has_late_starter(setup, event);
                self.status[event] = Status::Forced;
            }
            Action::Cancel(event) => {
                self.status[event] = Status::Over { approved: false };
                self.unreserve(setup, |next, _| next == event_id(event));
            }
            Action::End(event) => {
                self.status[event] = Status::Over {
                    approved: self.status[event] == Status::Approved,
                };
                self.posted[event] = false;
                // At the latest: the machine that reserved the group takes the reservation back
                // some time after the last question of its watcher.
                self.unreserve(setup, |next, _| next == event_id(event));
            }
            Action::Recover(machine, event) => {
                self.involved[machine][event] = Participation::new(Phase::Releasing);
                if setup.is_final(event) && setup.has(Rule::LeavingTakenBack) {
                    self.leaving[machine] = false;
                }
            }
            Action::ReleaseEarly(machine, event) => {
                self.release(setup, machine, |id| id == event_id(event));
            }
            Action::Free { holder, event } => {
                self.release(setup, holder, |id| id == event_id(event));
            }
            Action::Crash {
                machine,
                state_kept,
            } => {
                self.crashes -= 1;
                self.restart(machine, state_kept, Phase::Idle);
            }
            Action::LoseState(machine) => {
                self.losses -= 1;
                self.leaving[machine] = false;
                self.restart(machine, false, Phase::Lost);
            }
            Action::Die(machine) => {
                if !self.is_taken(setup, machine) {
                    self.deaths -= 1;
                }
                self.presence[machine] = if setup.ends_unseen {
                    Presence::Ended
                } else {
                    Presence::Silent
                };
            }
            Action::Quiet(machine) => self.presence[machine] = Presence::Silent,
            Action::Hush(machine) => {
                self.silences -= 1;
                self.presence[machine] = Presence::Hushed;
            }
            Action::Resume(machine) => {
                self.presence[machine] = Presence::Beating;
                if setup.has(Rule::EarlierMarks) {
                    self.withdraw_earlier(setup, machine);
                }
            }
            Action::Forget(machine) => {
                self.presence[machine] = Presence::Forgotten;
                self.unreserve(setup, |_, by| *by == name(machine));
                if self.leaving[machine] {
                    self.release(setup, machine, |_| true);
                }
            }
            Action::Expire { event, machine } => {
                self.release(setup, machine, |id| id == event_id(event));
            }
            Action::BackUp => self.backup = Some(self.event_registers[0].current),
            Action::Restore => {
                self.restores -= 1;
                let backup = self.backup.take().expect("there is one");
                self.event_registers[0].put((*backup).clone(), setup.stale_reads);
            }
            Action::Copy(machine) => {
                self.copies -= 1;
                self.ask_as_copy(setup, machine);
            }
        }
    }

    /// Whether the first event's register, as it is about the machine, may get a mark.
    fn knows_first_event(&self, machine: usize) -> bool {
        let register = self.event_registers[0].current;
        self.status[0] == Status::Scheduled && register.resources.contains(&name(machine))
    }

    /// A machine's copy prepares: it does as the gate tells the machine itself, but claims nothing.
    fn ask_as_copy(&mut self, setup: &Setup, machine: usize) {
        let register = self.event_registers[0].current;
        let mut value = (*register).clone();
        let by = name(machine);
        let change = if !setup.has(Rule::Copies) {
            EventChange::Mark(by, Mark::Ready)
        } else if register.go.is_some() {
            let event = Box::new(setup.participant(machine, 0, self.seen[machine][0]).event);
            let round = self.new_round(0);
            EventChange::Begin { by, event, round }
        } else {
            EventChange::Mark(by, Mark::Withdrawn)
        };
        change.apply(&mut value, 0);
        self.event_registers[0].put(value, setup.stale_reads);
    }

    /// All documents show the events as they are.
    pub(crate) fn see_all(&mut self, protocol: &Protocol) {
        let mut actions = Vec::new();
        for event in 0..protocol.setup.events.len() {
            if !matches!(self.status[event], Status::Over { .. }) {
                self.views(&protocol.setup, event, &mut actions);
            }
        }
        // The last view of a machine is the newest.
        for action in actions {
            if let Action::See(machine, event, changes) = action
                && changes == self.changed[event]
            {
                self.see(&protocol.setup, machine, event, changes);
            }
        }
    }

    /// A machine's document shows a change. The preparation for an event that now takes longer does
    /// not count, and an approval follows only another question.
    fn see(&mut self, setup: &Setup, machine: usize, event: usize, changes: u8) {
        let before = std::mem::replace(&mut self.seen[machine][event], changes);
        if is_changed(before) == is_changed(changes) {
            return;
        }
        // What has started voids nothing.
        let is_longer =
            is_changed(changes) && setup.joins.is_none() && self.status[event] == Status::Scheduled;
        let involved = &mut self.involved[machine][event];
        involved.phase = match involved.phase {
            Phase::NotConcerned if setup.machines_of(event, changes).contains(&machine) => {
                Phase::Idle
            }
            phase @ (Phase::NotConcerned | Phase::Lost | Phase::Releasing | Phase::Done) => phase,
            _ if is_longer => Phase::Idle,
            Phase::Posting | Phase::AskApprove => Phase::Ready,
            Phase::AskPrepare => Phase::Idle,
            phase => phase,
        };
        let mut progress = (*involved.progress).clone();
        progress.forget_reads();
        involved.progress = Kept::new(progress);
    }

    /// The processes of a machine are restarted. The application stays as it is, until it is
    /// prepared again.
    fn restart(&mut self, machine: usize, state_kept: bool, phase: Phase) {
        for involved in &mut self.involved[machine] {
            involved.progress = Kept::default();
            involved.phase = match involved.phase {
                Phase::NotConcerned | Phase::Done => involved.phase,
                // The audit file shows that the machine has recovered.
                Phase::Releasing if phase == Phase::Idle => involved.phase,
                Phase::Ready | Phase::AskApprove | Phase::Posting if state_kept => Phase::Ready,
                _ => phase,
            };
        }
    }

    /// Withdraws the marks of a machine that its process has not made.
    fn withdraw_earlier(&mut self, setup: &Setup, machine: usize) {
        for (register, involved) in self.event_registers.iter_mut().zip(self.involved[machine]) {
            let is_known = involved.progress.mark().is_some();
            if !is_known
                && register.current.go.is_none()
                && register.current.is_ready(&name(machine))
            {
                let mut value = (*register.current).clone();
                EventChange::Mark(name(machine), Mark::Withdrawn).apply(&mut value, 0);
                value.writes += u64::from(setup.restores > 0);
                register.put(value, setup.stale_reads);
            }
        }
    }

    /// Frees a machine's slots in all groups. The machine may still be out of service.
    fn release(&mut self, setup: &Setup, machine: usize, is_of: impl Fn(&str) -> bool) {
        let is_free_too_early = |event: usize| {
            let is_gone = !self.presence[machine].is_alive()
                && (matches!(self.status[event], Status::Over { .. })
                    || self.has_left(setup, machine));
            is_of(event_id(event))
                && self.holds_slot(machine, event)
                && !is_gone
                && self.is_out_for(machine, event)
        };
        self.broken.s5 |= (0..setup.events.len()).any(is_free_too_early);
        for register in &mut self.group_registers {
            let changes = register
                .current
                .releases(|id, holder| is_of(id) && *holder == name(machine));
            change_group(setup, register, &changes);
        }
    }

    /// The next step of the protocol.
    fn step(&mut self, protocol: &Protocol, (machine, event): (usize, usize), outcome: Outcome) {
        let taken = self.take(protocol, (machine, event), outcome);
        // A machine that is cut off cannot take part in what was decided before that.
        let is_first = self.event_registers[event].current.go.is_none();
        let decides = taken.decides && (is_first || !protocol.setup.cut_off);
        self.involved[machine][event] = taken.involved;
        if event == 0 && protocol.setup.restores > 0 {
            // What it changes, it has read.
            if self.event_registers[0].current != taken.event_register.current {
                self.unread = [true; MACHINES];
            }
            self.unread[machine] = false;
        }
        self.event_registers[event] = taken.event_register;
        self.group_registers = taken.group_registers;
        self.leaving[machine] |=
            protocol.setup.is_final(event) && taken.involved.phase == Phase::Preparing;
        self.broken.s1 |= taken.lacks_marks;
        self.broken.s6 |= taken.decides && protocol.setup.is_advice(event);
        let setup = &protocol.setup;
        let is_longer = is_changed(self.seen[machine][event]) && setup.joins.is_none();
        let is_for_less = |&machine: &usize| !self.involved[machine][event].is_for_longer;
        self.broken.s2 |= decides
            && (!self.all_ready(setup, event)
                || is_longer && setup.events[event].iter().any(is_for_less));
        self.broken.s4 |= taken.exceeds;
        self.broken.l3 |= taken.overtakes.is_some_and(|(next, by)| {
            self.status[next] == Status::Scheduled && self.presence[by] == Presence::Beating
        });
    }

    /// Removes the reservations of groups for which `is_past` returns true, given the event's id
    /// and the machine that made it.
    fn unreserve(&mut self, setup: &Setup, is_past: impl Fn(&str, &Name) -> bool) {
        for register in &mut self.group_registers {
            let next = register
                .current
                .next
                .as_ref()
                .filter(|next| is_past(&next.event_id, &next.by));
            if let Some(event_id) = next.map(|next| next.event_id.clone()) {
                change_group(setup, register, &[GroupChange::Unreserve { event_id }]);
            }
        }
    }

    /// Whether a living machine has not begun to prepare for an event.
    fn has_late_starter(&self, setup: &Setup, event: usize) -> bool {
        let is_late = |&machine: &usize| {
            let involved = self.involved[machine][event];
            self.presence[machine].is_alive()
                && involved.phase.is_in_service()
                && !involved.has_failed
        };
        setup.events[event].iter().any(is_late)
    }

    /// Whether an event is taking the machine away.
    pub(crate) fn is_taken(&self, setup: &Setup, machine: usize) -> bool {
        let takes = |event: usize| {
            setup.is_final(event)
                && setup.events[event].contains(&machine)
                && matches!(self.status[event], Status::Approved | Status::Forced)
        };
        (0..setup.events.len()).any(takes)
    }

    /// Whether a machine has ended that had prepared for an event after which it does not come
    /// back.
    fn has_left(&self, setup: &Setup, machine: usize) -> bool {
        let is_prepared =
            |event: usize| setup.is_final(event) && !self.involved[machine][event].has_recovered();
        self.leaving[machine] && (0..setup.events.len()).any(is_prepared)
    }

    pub(crate) fn holds_slot(&self, machine: usize, event: usize) -> bool {
        let claims = |register: &Register<GroupRegister>| {
            let claim = register.current.claims.get(event_id(event));
            claim.is_some_and(|claim| claim.slots.contains(&name(machine)))
        };
        self.group_registers.iter().any(claims)
    }

    /// Whether a register states that a machine is out of service by a last call.
    fn is_occupied(&self, machine: usize, event: usize) -> bool {
        let says = |register: &Register<GroupRegister>| {
            let claim = register.current.claims.get(event_id(event));
            claim.is_some_and(|claim| claim.late.contains(&name(machine)))
        };
        self.group_registers.iter().any(says)
    }

    /// Whether every machine of the event has been drained and still is.
    fn all_ready(&self, setup: &Setup, event: usize) -> bool {
        let is_ready = |&machine: &usize| self.involved[machine][event].is_ready;
        // Nobody can know of a machine that was added and has not been heard of.
        let prepares = |&machine: &usize| {
            let involved = self.involved[machine][event];
            involved.phase == Phase::Preparing && !involved.is_ready
        };
        setup.events[event].iter().all(is_ready) && !setup.joins.iter().any(prepares)
    }

    /// Whether this machine is out of service for an event: drained or being drained, or affected
    /// by an approved event, until it has recovered. A dead machine is out until the event is over.
    fn is_out_for(&self, machine: usize, event: usize) -> bool {
        let involved = self.involved[machine][event];
        let is_drained =
            involved.is_ready || involved.has_failed || involved.phase == Phase::Preparing;
        match self.status[event] {
            _ if involved.phase == Phase::NotConcerned => false,
            Status::Scheduled | Status::Forced => is_drained,
            Status::Approved => true,
            Status::Over { approved } => {
                self.presence[machine].is_alive()
                    && (is_drained || approved && !involved.has_recovered())
            }
        }
    }

    /// Whether the gate took this machine out of service: it is not out by its last call, and has
    /// not left for good.
    fn counts(&self, setup: &Setup, machine: usize) -> bool {
        let has_left =
            self.presence[machine] == Presence::Forgotten && self.has_left(setup, machine);
        let is_out = |event: usize| {
            self.is_out_for(machine, event) && !self.involved[machine][event].is_late
        };
        !has_left && (0..setup.events.len()).any(is_out)
    }

    /// Whether S4 holds in this state.
    pub(crate) fn keeps_limits(&self, setup: &Setup) -> bool {
        setup.groups.iter().all(|(members, limit)| {
            let out = || {
                members
                    .iter()
                    .filter(|&&machine| self.counts(setup, machine))
            };
            out().count() <= *limit as usize
                || setup
                    .events
                    .iter()
                    .any(|event| out().all(|machine| event.contains(machine)))
        })
    }
}

/// Changes a group's register, whatever its value is.
fn change_group(setup: &Setup, register: &mut Register<GroupRegister>, changes: &[GroupChange]) {
    let mut group = (*register.current).clone();
    for change in changes {
        change.apply(&mut group, 0);
    }
    if group != *register.current {
        register.put(group, setup.stale_reads);
    }
}
