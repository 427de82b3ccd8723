//! One step of the protocol, by the code that ships.
//!
//! A step depends on little of the world, so each is computed once and then cached: millions of
//! transitions are some thousand steps.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use scheduled_events_common::names::Name;
use scheduled_events_gate::protocol::{Answer, Participant};
use scheduled_events_gate::protocol::{GateStep, GroupHealth, Progress};
use scheduled_events_gate::register::{
    EventChange, EventRegister, GroupChange, GroupRegister, Mark, Marked,
};

use crate::kept::{Kept, Quick};
use crate::state::{
    GROUPS, MACHINES, Outcome, Participation, Phase, Register, Rule, Setup, event_id, name,
};

/// A machine that takes a step about an event, and everything that the step depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    pub(crate) at: (usize, usize),
    pub(crate) outcome: Outcome,
    pub(crate) involved: Participation,
    pub(crate) event_register: Register<EventRegister>,
    pub(crate) group_registers: [Register<GroupRegister>; GROUPS],
    /// Which machines are silent.
    pub(crate) silent: [bool; MACHINES],
    /// Which are forgotten.
    pub(crate) forgotten: [bool; MACHINES],
    /// Whether the machine's document shows the event changed.
    pub(crate) is_changed: bool,
    /// The number of a new round.
    pub(crate) new_round: u64,
    /// Whether nobody can still post.
    pub(crate) posts_are_over: bool,
}

/// The effects of a step.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) involved: Participation,
    pub(crate) event_register: Register<EventRegister>,
    pub(crate) group_registers: [Register<GroupRegister>; GROUPS],
    pub(crate) kind: Kind,
    /// Whether it wrote the decision.
    pub(crate) decides: bool,
    /// Whether it did so without the marks of all machines, or let a machine post without a decision.
    pub(crate) lacks_marks: bool,
    /// Whether it claimed slots, so that now more machines of a group are out of service than
    /// allowed.
    pub(crate) exceeds: bool,
    /// The event and the machine that it overtook: it claimed slots that the group reserved for
    /// this event, which is earlier, at the request of this machine.
    pub(crate) overtakes: Option<(usize, usize)>,
}

/// The kind of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A read of the event's register, or an answer, which depends on it.
    Read,
    /// A read of that register, or of a group's, that has an older value.
    ReadOfStale {
        of_event: bool,
    },
    Change,
    Other,
}

/// A checked model: its setup and the protocol's participants.
pub(crate) struct Protocol {
    pub(crate) setup: Setup,
    participants: Vec<Vec<[Participant; 2]>>,
    /// Identifies the model to which a cached step belongs.
    number: usize,
}

type Steps = HashMap<Moment, Taken, BuildHasherDefault<Quick>>;

thread_local! {
    static REMEMBERED: RefCell<(usize, Steps)> = RefCell::default();
}

impl Protocol {
    pub(crate) fn new(setup: Setup, number: usize) -> Self {
        let participants = setup.participants();
        Self {
            setup,
            participants,
            number,
        }
    }

    pub(crate) fn take(&self, moment: Moment) -> Taken {
        let known = REMEMBERED.with_borrow(|(number, steps)| {
            steps
                .get(&moment)
                .copied()
                .filter(|_| *number == self.number)
        });
        known.unwrap_or_else(|| {
            let taken = self.take_anew(moment);
            REMEMBERED.with_borrow_mut(|(number, steps)| {
                if *number != self.number {
                    (*number, *steps) = (self.number, Steps::default());
                }
                steps.insert(moment, taken);
            });
            taken
        })
    }

    fn take_anew(&self, moment: Moment) -> Taken {
        let Moment {
            outcome,
            involved,
            event_register,
            group_registers,
            ..
        } = moment;
        let mut taken = Taken {
            involved,
            event_register,
            group_registers,
            kind: Kind::Other,
            decides: false,
            lacks_marks: false,
            exceeds: false,
            overtakes: None,
        };
        let participant = &Participant {
            new_round: moment.new_round,
            ..self.participant(&moment).clone()
        };
        let posts_are_over = moment.posts_are_over || !self.setup.has(Rule::PostsAreOver);
        let next = |phase, progress: &Progress, has_waited| {
            Participation::next(phase, progress, participant, has_waited, posts_are_over)
        };
        let mut progress = (*involved.progress).clone();
        if involved.phase == Phase::Releasing {
            taken.involved = self.release(participant, &mut taken, progress);
            return taken;
        }
        let phase = involved.phase.asking();
        let has_waited = outcome == Outcome::Waited;
        let mut step = next(phase, &progress, has_waited);
        while self.setup.atomic
            && !matches!(
                step,
                GateStep::ChangeEvent(_) | GateStep::ChangeGroup(..) | GateStep::Answer(_)
            )
        {
            self.read(&moment, participant, &mut progress, &step);
            step = next(phase, &progress, has_waited);
        }
        taken.kind = match step {
            GateStep::ReadEvent if event_register.is_stale() => {
                Kind::ReadOfStale { of_event: true }
            }
            GateStep::ReadGroup(index)
                if group_registers[self.group_of(participant, index)].is_stale() =>
            {
                Kind::ReadOfStale { of_event: false }
            }
            GateStep::ReadEvent | GateStep::Answer(_) => Kind::Read,
            GateStep::ChangeEvent(_) | GateStep::ChangeGroup(..) => Kind::Change,
            GateStep::ReadGroup(_)
            | GateStep::LookAtMembers
            | GateStep::LookAtParticipants
            | GateStep::LookAtReserver(_) => Kind::Other,
        };
        match step {
            GateStep::ChangeEvent(change) => {
                self.change_event(participant, &mut taken, &mut progress, change, outcome);
            }
            GateStep::ChangeGroup(index, change) => {
                self.change_group(&moment, &mut taken, &mut progress, index, &change);
            }
            step => self.read(&moment, participant, &mut progress, &step),
        }
        taken.involved.phase = phase;
        if let GateStep::Answer(answer) = next(phase, &progress, has_waited) {
            let is_decided = taken.event_register.current.go.is_some();
            forget_reads(&mut progress);
            taken.involved.phase = match (phase, answer) {
                (Phase::AskPrepare, Answer::Open) => {
                    taken.involved.is_ready = false;
                    taken.involved.is_for_longer = moment.is_changed;
                    Phase::Preparing
                }
                (Phase::AskPrepare, _) => Phase::Idle,
                (_, Answer::Open) => {
                    taken.lacks_marks |= !is_decided;
                    Phase::Posting
                }
                _ => Phase::Ready,
            };
        }
        if self.setup.atomic {
            forget_reads(&mut progress);
        }
        taken.involved.progress = Kept::new(progress);
        taken
    }

    fn participant(&self, moment: &Moment) -> &Participant {
        let (machine, event) = moment.at;
        &self.participants[machine][event][usize::from(moment.is_changed)]
    }

    /// A read, if the step is one.
    fn read(
        &self,
        moment: &Moment,
        participant: &Participant,
        progress: &mut Progress,
        step: &GateStep,
    ) {
        match step {
            GateStep::ReadEvent => {
                let register = moment.event_register.read(moment.outcome);
                let mut shown = self.event_shown(participant, register);
                // As the machine believes to have written it.
                let is_unwritten = progress.mark() == Some(Mark::Withdrawn)
                    && shown.is_ready(&participant.machine);
                let is_void = is_unwritten && shown.go.is_some();
                if is_unwritten && !self.setup.has(Rule::Withdrawal)
                    || is_void && !self.setup.has(Rule::VoidDecision)
                {
                    let shown = Arc::make_mut(&mut shown);
                    shown.marks.remove(&participant.machine);
                    shown.go = None;
                }
                progress.saw_event(shown);
            }
            &GateStep::ReadGroup(index) => {
                let register =
                    moment.group_registers[self.group_of(participant, index)].read(moment.outcome);
                progress.saw_group(index, self.shown(register));
            }
            GateStep::LookAtMembers => {
                progress.saw_members(self.health(participant, moment.silent));
            }
            GateStep::LookAtParticipants => {
                let is_silent = |&other: &usize| {
                    let counts = self.setup.has(Rule::SilentMarks);
                    counts && (moment.silent[other] || moment.forgotten[other])
                };
                let silent = (0..self.setup.machines).filter(is_silent).map(name);
                let others = silent.filter(|name| {
                    *name != participant.machine && participant.event.resources.contains(name)
                });
                progress.saw_silent(others.collect());
            }
            GateStep::LookAtReserver(machine) => {
                let is_silent = (0..self.setup.machines)
                    .any(|other| name(other) == *machine && moment.silent[other]);
                progress.saw_reserver(
                    machine.clone(),
                    is_silent && self.setup.has(Rule::SilenceCounts),
                );
            }
            GateStep::ChangeEvent(_) | GateStep::ChangeGroup(..) | GateStep::Answer(_) => {}
        }
    }

    fn change_event(
        &self,
        participant: &Participant,
        taken: &mut Taken,
        progress: &mut Progress,
        mut change: EventChange,
        outcome: Outcome,
    ) {
        let mut seen = progress.event().expect("it was read").clone();
        let register = &mut taken.event_register;
        let is_same = seen.is_about(&participant.event);
        let is_done_by_half = match &change {
            EventChange::Begin { .. } => {
                is_same && seen.go.is_some() && !self.setup.has(Rule::VoidDecision)
            }
            EventChange::Go(_) => seen.go.is_some() && !self.setup.has(Rule::ConfirmedDecision),
            EventChange::Mark(_, Mark::Withdrawn) => !self.setup.has(Rule::Withdrawal),
            EventChange::Mark(..) => false,
        };
        if is_done_by_half {
            // The machine goes on as if it had done it.
            let mut value = (*seen).clone();
            change.apply(&mut value, 0);
            progress.wrote_event(&change, Arc::new(value));
            return;
        }
        match &change {
            EventChange::Mark(machine, Mark::Ready) if !self.setup.has(Rule::AllMarks) => {
                change = EventChange::Go(machine.clone());
            }
            _ => {}
        }
        if self.setup.marks_apart
            && matches!(change, EventChange::Mark(..))
            && (seen.round, &seen.go) == (register.current.round, &register.current.go)
        {
            seen = register.current.shared();
        }
        let mut value = (*seen).clone();
        change.apply(&mut value, 0);
        // As the driver counts; but a decision that is confirmed counts once, or the states would not end.
        if self.setup.restores > 0 && seen.go.is_none() {
            let is_round = matches!(change, EventChange::Begin { .. });
            let known = if is_round { progress.writes() } else { 0 };
            value.writes = seen.writes.max(known) + 1;
        }
        let fits = !self.setup.has(Rule::Swaps)
            || *self.event_shown(participant, register.current) == *seen;
        let is_done = fits && outcome != Outcome::RequestLost;
        if is_done {
            register.put(value, self.setup.stale_reads);
            taken.decides = matches!(change, EventChange::Go(_));
            taken.lacks_marks = taken.decides
                && !participant
                    .event
                    .resources
                    .iter()
                    .all(|name| register.current.is_ready(name));
        }
        match outcome {
            Outcome::ReplyLost | Outcome::RequestLost => progress.event_unknown(),
            _ if is_done => {
                let shown = self.event_shown(participant, register.current);
                progress.wrote_event(&change, shown);
            }
            _ => progress.event_conflict(),
        }
    }

    fn change_group(
        &self,
        moment: &Moment,
        taken: &mut Taken,
        progress: &mut Progress,
        index: usize,
        change: &GroupChange,
    ) {
        let participant = self.participant(moment);
        let seen = progress.group(index).expect("it was read").clone();
        let at = self.group_of(participant, index);
        let register = &mut taken.group_registers[at];
        let before = register.current;
        let fits = !self.setup.has(Rule::Swaps) || self.shown(before) == seen;
        let is_done = fits && moment.outcome != Outcome::RequestLost;
        if is_done {
            // A value that a defect hides exists all the same.
            let mut value = if self.setup.has(Rule::Swaps) {
                (*before).clone()
            } else {
                (*seen).clone()
            };
            change.apply(&mut value, 0);
            register.put(value, self.setup.stale_reads);
            let is_new = matches!(change, GroupChange::Claim { event_id, slots, .. } if !before.has(event_id, slots));
            // Where a read and a swap are separate, a machine can fall silent between them.
            if is_new && self.setup.atomic {
                taken.exceeds = self.exceeds(participant, at, &register.current, moment.silent);
                taken.overtakes = self.overtaken(moment, at, &before);
            }
        }
        match moment.outcome {
            Outcome::ReplyLost | Outcome::RequestLost => progress.group_unknown(index),
            _ if is_done => progress.wrote_group(index, change, self.shown(register.current)),
            _ => progress.group_conflict(index),
        }
    }

    /// A machine that is back in service takes itself out of the groups: it reads, and swaps. With
    /// plain writes anything can happen between the two, so the value that was read is kept.
    fn release(
        &self,
        participant: &Participant,
        taken: &mut Taken,
        mut progress: Progress,
    ) -> Participation {
        for index in 0..participant.shares.len() {
            let register = &mut taken.group_registers[self.group_of(participant, index)];
            if let Some(seen) = progress.group(index).cloned() {
                let is_it = |id: &str, holder: &Name| {
                    *id == participant.event.id && *holder == participant.machine
                };
                let Some(change) = seen.releases(is_it).pop() else {
                    continue;
                };
                if !self.setup.has(Rule::Swaps) || *register.current == *seen {
                    let mut value = (*seen).clone();
                    change.apply(&mut value, 0);
                    register.put(value, self.setup.stale_reads);
                    progress.wrote_group(index, &change, register.current.shared());
                } else {
                    progress.group_conflict(index);
                }
            } else {
                progress.saw_group(index, register.current.shared());
            }
            return Participation {
                progress: Kept::new(progress),
                ..taken.involved
            };
        }
        Participation::new(Phase::Done)
    }

    /// The register of an event that a reader gets: as it is, unless a rule is removed.
    fn event_shown(
        &self,
        participant: &Participant,
        register: Kept<EventRegister>,
    ) -> Arc<EventRegister> {
        let is_known = register.resources.is_subset(&participant.named);
        let is_wrong = !self.setup.has(Rule::Rounds) && register.round != 0
            || !self.setup.has(Rule::Newcomers) && !is_known;
        let mut shown = register.shared();
        if !self.setup.has(Rule::OlderStore) {
            Arc::make_mut(&mut shown).writes = 0;
        }
        if !self.setup.has(Rule::AllMarks) && shown.go.is_some() {
            let (mark, at, round) = (Mark::Ready, 0, shown.round);
            let marked = Marked { mark, at, round };
            let resources = shown.resources.iter().cloned();
            let marks = resources.map(|name| (name, marked)).collect();
            Arc::make_mut(&mut shown).marks = marks;
        }
        if is_wrong && !shown.is_about(&participant.event) {
            let shown = Arc::make_mut(&mut shown);
            shown.duration = participant.event.duration;
            shown.resources.clone_from(&participant.event.resources);
            if !self.setup.has(Rule::Newcomers) {
                // It begins a round without them.
                shown.duration = Some(1);
            }
        }
        shown
    }

    /// The part of a group's register that a reader gets: all, unless a rule is removed.
    fn shown(&self, register: Kept<GroupRegister>) -> Arc<GroupRegister> {
        if self.setup.has(Rule::Next) && self.setup.has(Rule::LateCounts) {
            return register.shared();
        }
        let mut shown = (*register).clone();
        shown.next.take_if(|_| !self.setup.has(Rule::Next));
        if !self.setup.has(Rule::LateCounts) {
            shown.claims.retain(|_, claim| {
                claim.slots.retain(|machine| !claim.late.contains(machine));
                !claim.slots.is_empty()
            });
        }
        Arc::new(shown)
    }

    /// The state of the machines of each of a participant's groups.
    fn health(&self, participant: &Participant, silent: [bool; MACHINES]) -> Arc<[GroupHealth]> {
        let health = |index: usize| {
            let (members, limit) = &self.setup.groups[self.group_of(participant, index)];
            let counts =
                |machine: &&usize| silent[**machine] && self.setup.has(Rule::SilenceCounts);
            GroupHealth {
                limit: *limit,
                silent: members
                    .iter()
                    .filter(counts)
                    .map(|&machine| name(machine))
                    .collect(),
            }
        };
        (0..participant.shares.len()).map(health).collect()
    }

    /// Whether more machines than allowed hold slots or are silent, including machines outside this
    /// participant's event.
    fn exceeds(
        &self,
        participant: &Participant,
        at: usize,
        register: &GroupRegister,
        silent: [bool; MACHINES],
    ) -> bool {
        let (members, limit) = &self.setup.groups[at];
        let held = register.held();
        let is_out = |machine: &&usize| silent[**machine] || held.contains(&name(**machine));
        let out: Vec<_> = members.iter().filter(is_out).collect();
        out.len() > *limit as usize
            && !out
                .iter()
                .all(|machine| participant.event.resources.contains(&name(**machine)))
    }

    /// The next event of a group and the machine that reserved the group for it, if the event is
    /// earlier than that of a new claim, and both together exceed the capacity.
    fn overtaken(
        &self,
        moment: &Moment,
        at: usize,
        before: &GroupRegister,
    ) -> Option<(usize, usize)> {
        let next = before.next.as_ref()?;
        let event = (0..moment.at.1).find(|&event| event_id(event) == next.event_id)?;
        let by = (0..self.setup.machines).find(|&machine| name(machine) == next.by)?;
        let own = &self.participant(moment).event.resources;
        let (members, limit) = &self.setup.groups[at];
        let taken: BTreeSet<_> = before
            .held()
            .into_iter()
            .chain(&next.slots)
            .chain(own)
            .collect();
        let out = members
            .iter()
            .filter(|&&machine| moment.silent[machine] || taken.contains(&name(machine)))
            .count();
        (out > *limit as usize).then_some((event, by))
    }

    /// The register of a participant's group.
    fn group_of(&self, participant: &Participant, index: usize) -> usize {
        let at = participant.shares[index]
            .group
            .strip_prefix("group-")
            .and_then(|at| at.parse().ok());
        at.filter(|&at: &usize| at < self.setup.groups.len())
            .expect("a group of the setup")
    }
}

fn forget_reads(progress: &mut Progress) {
    progress.forget_reads();
    progress.recall_members(None);
}
