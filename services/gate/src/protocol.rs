//! The protocol of one machine and one event: which register to read or to change next, and when to
//! answer.
//!
//! This module does no I/O and awaits nothing: [`Participant`] holds what stays the same while a
//! question is answered, [`Progress`] what this process knows so far, and [`Participant::prepare`],
//! [`Participant::approve`] and [`Participant::withdraw`] return the next [`GateStep`]. The caller
//! carries it out, reports its result to [`Progress`], and asks for the next step, until the step
//! is an answer.
//!
//! This process relies only on what it confirmed by a swap of its own. So the age of a value that
//! was read makes no difference, since a swap over an old value is refused. Nor does it matter what
//! an earlier process of this machine did, or whether the reply to a swap was lost: the process
//! takes the step again.
//!
//! An event has one register, whatever becomes of it, and its marks count for the round in which
//! they were made. Who sees another event than the register's begins a round, whether its own
//! document is newer or older: nobody is ready in it before saying so again. So machines whose
//! documents differ take turns in beginning rounds, and nothing is decided until they agree. Only a
//! machine that the event names newly needs more, since the others would decide without it: a
//! register that names more machines than any document of this machine is left as it is, and so is
//! one that names a machine which its last document lacks and whose daemon runs, for a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::config::window::Closed;
use crate::event::Event;
use crate::register::{EventChange, EventRegister, GroupChange, GroupRegister, Mark, Next};
use scheduled_events_common::names::Name;

/// What an event takes of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// The group's register.
    pub group: String,
    /// The machines of the group that the event affects.
    pub slots: BTreeSet<Name>,
    /// How many machines of the group may be out of service together: until the machines were read,
    /// the highest possible number.
    pub limit: u32,
}

/// The state of the machines of a group, as read from their registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupHealth {
    /// How many of the group's machines may be out of service together.
    pub limit: u32,
    /// The machines whose heartbeat has stopped. They count as out of service.
    pub silent: BTreeSet<Name>,
}

/// A machine that takes part in an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    /// This machine.
    pub machine: Name,
    /// The event.
    pub event: Event,
    /// What the event takes of each group, in the order of the groups' names; empty if the event is
    /// urgent.
    pub shares: Vec<Share>,
    /// The delay after which the next machine takes over the posting of a decided approval.
    pub take_over_after: Duration,
    /// The groups whose maintenance windows are closed now.
    pub closed: BTreeMap<String, Closed>,
    /// The machines of the event in any of this machine's documents, as far as this process knows.
    pub named: BTreeSet<Name>,
    /// Those of them that its document does not name any more, for less than a minute.
    pub dropped: BTreeSet<Name>,
    /// The number of the round that this machine begins, if it does: one that no other round has.
    pub new_round: u64,
}

/// This process's knowledge about one event's registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// The event's register as it was last read.
    event: Option<Arc<EventRegister>>,
    /// How many times it had been written, at the most, when this process read or wrote it.
    writes: u64,
    /// Whether it was older than that when it was last read: the store came back from a backup. Marks
    /// in it may have been withdrawn since.
    is_older: bool,
    /// The groups' registers as they were last read, in the order of [`Participant::shares`].
    groups: Vec<Option<Arc<GroupRegister>>>,
    /// The state of the groups' machines, in the order of [`Participant::shares`].
    members: Option<Arc<[GroupHealth]>>,
    /// Whether `members` was read during this question. An earlier state may refuse, but never
    /// admits.
    has_looked: bool,
    /// Whether the machines that reserved the groups are silent, as read during this question.
    reservers: BTreeMap<Name, bool>,
    /// The event's machines that are silent, and the dropped ones, as read during this question.
    silent: Option<BTreeSet<Name>>,
    /// This machine's mark, if this process made it.
    mark: Option<Mark>,
    /// Whether this machine wrote the decision during this question.
    has_decided: bool,
    /// The groups in which this process has made its claim.
    claimed: BTreeSet<usize>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateStep {
    /// Read the event's register, and report it to [`Progress::saw_event`].
    ReadEvent,
    /// Read a group's register, and report it to [`Progress::saw_group`].
    ReadGroup(usize),
    /// Read the registers of the groups' machines, and report the result to
    /// [`Progress::saw_members`].
    LookAtMembers,
    /// Read whether this machine, which reserved a group, is silent, and report that to
    /// [`Progress::saw_reserver`].
    LookAtReserver(Name),
    /// Read which of the event's other machines, and of the dropped ones, are silent, and report that to
    /// [`Progress::saw_silent`].
    LookAtParticipants,
    /// Change the event's register from the value that was last read, and report the result to
    /// [`Progress::wrote_event`], [`Progress::event_conflict`] or [`Progress::event_unknown`].
    ChangeEvent(EventChange),
    /// Change a group's register from the value that was last read, and report the result to
    /// [`Progress::wrote_group`], [`Progress::group_conflict`] or [`Progress::group_unknown`].
    ChangeGroup(usize, GroupChange),
    /// The answer to the question.
    Answer(Answer),
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Open,
    /// The approval is decided, and another machine posts it.
    AnotherApproves {
        /// The machine that decided.
        by: Name,
    },
    /// Not yet.
    Closed(Why),
}

/// Why the gate is closed. A new reason also needs its text in `daemon/message.rs`, a decision in
/// the two `matches!` of `daemon/mod.rs`, and a branch in the function `why` of `cli/status.rs`,
/// which derives the reasons from the registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The event is advice, which nobody approves.
    Advice,
    /// An earlier decision about the event is void, and somebody may still post the approval.
    MayBePosted,
    /// A moment ago a daemon on another computer had this machine's name.
    MayBeCopy,
    /// These machines are not ready.
    NotReady(Vec<Name>),
    /// All machines are marked as ready, and these are silent: they cannot say that they are not
    /// ready any more.
    Silent(Vec<Name>),
    /// Other machines' documents name these machines, too.
    DocumentsDiffer(Vec<Name>),
    /// Other machines of the group are out of service.
    NoSlot {
        /// The group.
        group: String,
        /// The machines that are out of service, including silent ones.
        held: Vec<Name>,
        /// Which of them are silent.
        silent: BTreeSet<Name>,
        /// How many may be out of service.
        limit: u32,
    },
    /// The group is reserved for another event, which is earlier.
    Reserved {
        /// The group.
        group: String,
        /// The event that it is reserved for.
        next: Next,
    },
    /// It is outside the maintenance windows of this group.
    Window {
        /// The group.
        group: String,
        /// When it opens, and whether the event can wait.
        closed: Closed,
    },
}

impl Participant {
    /// This machine in an event, with all windows open.
    pub fn new(
        machine: Name,
        event: Event,
        mut shares: Vec<Share>,
        take_over_after: Duration,
    ) -> Self {
        if event.is_urgent {
            shares.clear();
        }
        shares.sort_by(|a, b| a.group.cmp(&b.group));
        Self {
            machine,
            named: event.resources.clone(),
            dropped: BTreeSet::new(),
            event,
            shares,
            take_over_after,
            closed: BTreeMap::new(),
            new_round: 0,
        }
    }

    /// May this machine prepare? From now on it is not ready. `posts_are_over` is whether nobody can
    /// still post because of a decision of an [earlier round](EventRegister::was_decided).
    pub fn prepare(&self, progress: &Progress, posts_are_over: bool) -> GateStep {
        if self.is_alone_and_urgent() {
            return GateStep::Answer(Answer::Open);
        }
        let Some(event) = &progress.event else {
            return GateStep::ReadEvent;
        };
        // Whatever was decided, this machine is about to be not ready.
        let differs = !event.is_about(&self.event) || progress.is_older;
        let Some(newcomers) = self.newcomers(progress, event) else {
            return GateStep::LookAtParticipants;
        };
        if differs && newcomers.is_empty() || event.go.is_some() {
            return self.begin(progress, event);
        }
        if progress.mark != Some(Mark::Withdrawn) || event.is_ready(&self.machine) {
            return self.mark(Mark::Withdrawn);
        }
        self.take_slots(progress, false).unwrap_or(GateStep::Answer(
            if event.was_decided && !posts_are_over {
                Answer::Closed(Why::MayBePosted)
            } else {
                Answer::Open
            },
        ))
    }

    /// May this machine approve? It is ready. `since_go` is how long this process has known the
    /// decision.
    ///
    /// The write of `go` is followed by another round: the machine that wrote it answers yes, the
    /// others answer that another one approves until their turn has come, and then write it, too.
    pub fn approve(&self, progress: &Progress, since_go: Option<Duration>) -> GateStep {
        if self.event.is_advice {
            return GateStep::Answer(Answer::Closed(Why::Advice));
        }
        if self.is_alone_and_urgent() {
            return GateStep::Answer(Answer::Open);
        }
        let Some(event) = &progress.event else {
            return GateStep::ReadEvent;
        };
        if !event.is_about(&self.event) || progress.is_older {
            return match self.newcomers(progress, event) {
                Some(newcomers) if !newcomers.is_empty() => {
                    GateStep::Answer(Answer::Closed(Why::DocumentsDiffer(newcomers)))
                }
                _ => self.begin(progress, event),
            };
        }
        let missing = || {
            self.event
                .resources
                .iter()
                .filter(|name| **name != self.machine && !event.is_ready(name))
        };
        let all_are_ready = missing().next().is_none();
        if let Some(go) = event.go.as_ref().filter(|_| all_are_ready) {
            let is_my_turn = since_go.is_some_and(|waited| waited >= self.turn_after(&go.by));
            if progress.has_decided {
                return GateStep::Answer(Answer::Open);
            }
            if !is_my_turn {
                return GateStep::Answer(Answer::AnotherApproves { by: go.by.clone() });
            }
            // The marks must count now, not only when it was decided.
            return match self.silent(progress) {
                None => GateStep::LookAtParticipants,
                Some(silent) if silent.is_empty() => self.decide(),
                Some(silent) => GateStep::Answer(Answer::Closed(Why::Silent(silent))),
            };
        }
        if let Some(step) = self.take_slots(progress, true) {
            // Without slots this machine must not count as ready, whatever it was before.
            let is_refused = matches!(step, GateStep::Answer(_));
            return if is_refused && progress.mark != Some(Mark::Withdrawn) {
                self.mark(Mark::Withdrawn)
            } else {
                step
            };
        }
        // An event that can wait has slots only if it began in a window. It then finishes, even
        // after the window's end.
        let waits_for_not_before = self.shares.iter().find_map(|share| {
            let (group, closed) = self.window_of(share)?;
            (!closed.can_wait).then(|| Why::Window {
                group: group.to_owned(),
                closed: *closed,
            })
        });
        // A mark counts as long as its machine can withdraw it.
        let silent = self.silent(progress);
        if all_are_ready && waits_for_not_before.is_none() {
            match &silent {
                None => return GateStep::LookAtParticipants,
                Some(silent) if silent.is_empty() => return self.decide(),
                Some(_) => {}
            }
        }
        // The register may have been deleted since, and the mark with it, or be of another round.
        if progress.mark != Some(Mark::Ready) || !event.is_ready(&self.machine) {
            return self.mark(Mark::Ready);
        }
        GateStep::Answer(Answer::Closed(match waits_for_not_before {
            Some(why) if all_are_ready => why,
            None if all_are_ready => Why::Silent(silent.unwrap_or_default()),
            _ => Why::NotReady(missing().cloned().collect()),
        }))
    }

    /// This machine is no longer ready, unless the decision was made already.
    pub fn withdraw(&self, progress: &Progress) -> GateStep {
        let Some(event) = &progress.event else {
            return GateStep::ReadEvent;
        };
        // The register may be about the event as it was before, as machines whose documents are late see it.
        if event.go.is_some() || progress.mark == Some(Mark::Withdrawn) {
            return GateStep::Answer(Answer::Open);
        }
        self.mark(Mark::Withdrawn)
    }

    /// This machine is not ready any more, whatever was decided: the machine that posts again
    /// relies on its mark.
    pub fn unready(&self, progress: &Progress) -> GateStep {
        match &progress.event {
            Some(event) if event.go.is_some() && event.resources.contains(&self.machine) => {
                self.begin(progress, event)
            }
            _ => self.withdraw(progress),
        }
    }

    /// This machine is back in service although the event is not over: it is not ready, and needs
    /// no slot, unless the event may be [approved](crate::driver::GateRun::may_be_approved).
    pub fn stand_down(&self, progress: &Progress, may_be_approved: bool) -> GateStep {
        let step = self.unready(progress);
        if !matches!(step, GateStep::Answer(_)) {
            return step;
        }
        if may_be_approved {
            return GateStep::Answer(Answer::Closed(Why::MayBePosted));
        }
        let holds = |index, group: &GroupRegister| {
            let claim = group.claims.get(&self.event.id);
            progress.claimed.contains(&index)
                || claim.is_some_and(|claim| claim.is_of(&self.machine))
        };
        let next = (0..self.shares.len()).find_map(|index| match progress.group(index) {
            None => Some(GateStep::ReadGroup(index)),
            Some(group) => holds(index, group).then(|| self.give_back(index, true)),
        });
        next.unwrap_or(step)
    }

    fn give_back(&self, index: usize, is_back: bool) -> GateStep {
        let (event_id, by) = (self.event.id.clone(), self.machine.clone());
        GateStep::ChangeGroup(
            index,
            GroupChange::GiveBack {
                event_id,
                by,
                is_back,
            },
        )
    }

    fn mark(&self, mark: Mark) -> GateStep {
        GateStep::ChangeEvent(EventChange::Mark(self.machine.clone(), mark))
    }

    /// The machines of a register that none of this machine's documents has named: they may have been
    /// added to the event, and prepare, and this machine's document is about to show them. Also those
    /// that it does not name any more, if their daemons run: it may be an old one. `None` if it must be
    /// [read](GateStep::LookAtParticipants) whether they do.
    fn newcomers(&self, progress: &Progress, register: &EventRegister) -> Option<Vec<Name>> {
        let names = register.resources.iter();
        let mut newcomers: Vec<_> = names
            .clone()
            .filter(|name| !self.named.contains(name))
            .cloned()
            .collect();
        let mut dropped = names.filter(|name| self.dropped.contains(name)).peekable();
        if dropped.peek().is_some() {
            let silent = progress.silent.as_ref()?;
            newcomers.extend(dropped.filter(|name| !silent.contains(name)).cloned());
        }
        Some(newcomers)
    }

    /// Which of the event's machines are silent; `None` if that was not read.
    fn silent(&self, progress: &Progress) -> Option<Vec<Name>> {
        let silent = progress.silent.as_ref()?;
        Some(
            silent
                .intersection(&self.event.resources)
                .cloned()
                .collect(),
        )
    }

    /// Begins a round. If the register names newcomers, it keeps them.
    fn begin(&self, progress: &Progress, register: &EventRegister) -> GateStep {
        let Some(newcomers) = self.newcomers(progress, register) else {
            return GateStep::LookAtParticipants;
        };
        let event = if newcomers.is_empty() {
            self.event.clone()
        } else {
            register.event(&self.event.id)
        };
        GateStep::ChangeEvent(EventChange::Begin {
            by: self.machine.clone(),
            event: Box::new(event),
            round: self.new_round,
        })
    }

    fn decide(&self) -> GateStep {
        GateStep::ChangeEvent(EventChange::Go(self.machine.clone()))
    }

    /// No other machine is concerned, and there is no time.
    pub(super) fn is_alone_and_urgent(&self) -> bool {
        self.event.is_urgent
            && self
                .event
                .resources
                .iter()
                .all(|name| *name == self.machine)
    }

    /// The next step towards slots in all groups; `None` if this machine has them. If one group
    /// refuses it, it claims no slots, and gives back those that it has claimed in others. A
    /// machine that is out of service keeps them, because it needs them.
    fn take_slots(&self, progress: &Progress, is_out_of_service: bool) -> Option<GateStep> {
        let missing: Vec<_> = (0..self.shares.len())
            .filter(|index| !progress.claimed.contains(index))
            .collect();
        let next = *missing.first()?;
        if let Some(&unread) = missing
            .iter()
            .find(|&&index| progress.group(index).is_none())
        {
            return Some(GateStep::ReadGroup(unread));
        }
        if let Some((index, why)) = missing
            .iter()
            .find_map(|&index| Some((index, self.refusal(progress, index)?)))
        {
            if let Some(next) = self.reservation(progress, index, &why) {
                let limit = progress
                    .health(index)
                    .map_or(self.shares[index].limit, |health| health.limit);
                return Some(GateStep::ChangeGroup(
                    index,
                    GroupChange::Reserve { next, limit },
                ));
            }
            // A machine that holds a slot may be gone by now, and so may the machine that reserved
            // the group. Events that wait after the next one watch only the group and that machine.
            match &why {
                Why::NoSlot { .. }
                    if progress.members.is_none() && self.is_next(progress, index) =>
                {
                    return Some(GateStep::LookAtMembers);
                }
                Why::Reserved { next, .. } if !progress.reservers.contains_key(&next.by) => {
                    return Some(GateStep::LookAtReserver(next.by.clone()));
                }
                _ => {}
            }
            return Some(match progress.claimed.last() {
                Some(&claimed) if !is_out_of_service && progress.group(claimed).is_none() => {
                    GateStep::ReadGroup(claimed)
                }
                Some(&claimed) if !is_out_of_service => self.give_back(claimed, false),
                _ => GateStep::Answer(Answer::Closed(why)),
            });
        }
        let slots = &self.shares[next].slots;
        // Only a machine that would get slots reads the state of the others. The event keeps the
        // slots that it has, even if machines have fallen silent since.
        let is_begun = |&index: &usize| self.is_begun(progress, index);
        if !progress.has_looked && !missing.iter().all(is_begun) {
            return Some(GateStep::LookAtMembers);
        }
        let limit = progress
            .health(next)
            .map_or(self.shares[next].limit, |health| health.limit);
        let (event_id, by, slots) = (self.event.id.clone(), self.machine.clone(), slots.clone());
        Some(GateStep::ChangeGroup(
            next,
            GroupChange::Claim {
                event_id,
                by,
                slots,
                limit,
            },
        ))
    }

    /// Why a group, as it was last read, does not admit the event.
    fn refusal(&self, progress: &Progress, index: usize) -> Option<Why> {
        let (share, group) = (&self.shares[index], progress.group(index)?);
        // An event that has begun continues, and one that cannot wait is prepared for: Azure starts
        // it at `NotBefore`.
        let is_begun = self.is_begun(progress, index);
        if let Some((group, closed)) = self
            .window_of(share)
            .filter(|(_, closed)| closed.can_wait && !is_begun)
        {
            return Some(Why::Window {
                group: group.to_owned(),
                closed: *closed,
            });
        }
        let GroupHealth { limit, silent } =
            progress
                .health(index)
                .cloned()
                .unwrap_or_else(|| GroupHealth {
                    limit: share.limit,
                    ..GroupHealth::default()
                });
        if group.admits(&self.event.id, &share.slots, limit, &silent) {
            let next = self.earlier(progress, index).filter(|_| !is_begun)?;
            // Both may have their slots.
            let slots = share.slots.union(&next.slots).cloned().collect();
            let fits = group.admits(&self.event.id, &slots, limit, &silent)
                && slots.len() <= limit as usize;
            return (!fits).then(|| Why::Reserved {
                group: share.group.clone(),
                next: next.clone(),
            });
        }
        let held = group
            .held()
            .into_iter()
            .chain(&silent)
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        Some(Why::NoSlot {
            group: share.group.clone(),
            held,
            silent,
            limit,
        })
    }

    /// The event that is in line before this one.
    fn earlier<'a>(&self, progress: &'a Progress, index: usize) -> Option<&'a Next> {
        progress
            .next(index)
            .filter(|next| next.order() < self.as_next(index).order())
    }

    /// Whether a group, as it was last read, is reserved for this participant's event.
    pub fn is_next_in_a_group(&self, progress: &Progress) -> bool {
        (0..self.shares.len()).any(|index| self.is_next(progress, index))
    }

    fn is_next(&self, progress: &Progress, index: usize) -> bool {
        progress
            .next(index)
            .is_some_and(|next| next.event_id == self.event.id)
    }

    /// This participant's event as the next one.
    fn as_next(&self, index: usize) -> Next {
        let not_before = self.event.not_before_seconds();
        let (event_id, slots, by) = (
            self.event.id.clone(),
            self.shares[index].slots.clone(),
            self.machine.clone(),
        );
        Next {
            event_id,
            slots,
            by,
            not_before,
        }
    }

    /// The reservation of a group that refuses this event, if this machine should make one: the
    /// group has none, or one for a later event.
    fn reservation(&self, progress: &Progress, index: usize, why: &Why) -> Option<Next> {
        let own = self.as_next(index);
        let is_refused = matches!(why, Why::NoSlot { .. });
        let is_first = progress
            .next(index)
            .is_none_or(|next| own.order() < next.order());
        let is_new = |next: &Next| {
            (&next.event_id, &next.slots, next.not_before)
                != (&own.event_id, &own.slots, own.not_before)
        };
        let is_moved = self.is_next(progress, index)
            && progress.group(index)?.next.as_ref().is_some_and(is_new);
        (is_refused && (is_first || is_moved)).then_some(own)
    }

    /// Whether the event already has the slots of this share.
    fn is_begun(&self, progress: &Progress, index: usize) -> bool {
        progress
            .group(index)
            .is_some_and(|group| group.has(&self.event.id, &self.shares[index].slots))
    }

    /// The group of a share, if its windows are closed.
    fn window_of(&self, share: &Share) -> Option<(&str, &Closed)> {
        // The share may belong to a zone.
        let group = share.group.split('/').next().unwrap_or_default();
        self.closed
            .get_key_value(group)
            .map(|(group, closed)| (group.as_str(), closed))
    }

    /// How long after the decision this machine posts: at once if it decided, otherwise in the
    /// order of the names.
    fn turn_after(&self, decided_by: &Name) -> Duration {
        if *decided_by == self.machine {
            return Duration::ZERO;
        }
        let before = self
            .event
            .resources
            .iter()
            .filter(|name| *name != decided_by && **name < self.machine)
            .count();
        self.take_over_after
            .saturating_mul(u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1))
    }
}

impl Progress {
    /// Sets the event's register as read.
    pub fn saw_event(&mut self, register: Arc<EventRegister>) {
        self.is_older |= register.writes < self.writes;
        self.writes = self.writes.max(register.writes);
        self.event = Some(register);
    }

    /// Sets that the event's marks were older than before when they were last read.
    pub fn saw_older_marks(&mut self) {
        self.is_older = true;
    }

    /// Whether the event's register or its marks were older than before when they were last read.
    pub const fn is_older(&self) -> bool {
        self.is_older
    }

    /// How many times the event's register had been written, at the most, when this process read or
    /// wrote it.
    pub const fn writes(&self) -> u64 {
        self.writes
    }

    /// Sets a group's register as read.
    pub fn saw_group(&mut self, index: usize, register: Arc<GroupRegister>) {
        if self.groups.len() <= index {
            self.groups.resize(index + 1, None);
        }
        self.groups[index] = Some(register);
    }

    /// Sets the state of the machines as read.
    pub fn saw_members(&mut self, members: Arc<[GroupHealth]>) {
        (self.members, self.has_looked) = (Some(members), true);
    }

    /// Sets whether a machine that reserved a group is silent.
    pub fn saw_reserver(&mut self, machine: Name, is_silent: bool) {
        self.reservers.insert(machine, is_silent);
    }

    /// Sets which of the event's other machines, and of the dropped ones, are silent, as read.
    pub fn saw_silent(&mut self, silent: BTreeSet<Name>) {
        self.silent = Some(silent);
    }

    /// Sets the state of the machines as read recently; `None` if it was not.
    pub fn recall_members(&mut self, members: Option<Arc<[GroupHealth]>>) {
        (self.members, self.has_looked) = (members, false);
    }

    /// Reports that a change of the event's register was carried out, and returned this register.
    pub fn wrote_event(&mut self, change: &EventChange, register: Arc<EventRegister>) {
        // In a round that has just begun no older mark counts.
        self.is_older &= !matches!(change, EventChange::Begin { .. });
        self.saw_event(register);
        self.has_decided = matches!(change, EventChange::Go(_));
        self.mark = Some(match change {
            EventChange::Mark(_, mark) => *mark,
            EventChange::Begin { .. } => Mark::Withdrawn,
            EventChange::Go(_) => Mark::Ready,
        });
    }

    /// Reports that a change of a group's register was carried out, and returned this register.
    pub fn wrote_group(
        &mut self,
        index: usize,
        change: &GroupChange,
        register: Arc<GroupRegister>,
    ) {
        self.saw_group(index, register);
        match change {
            GroupChange::Claim { .. } => {
                self.claimed.insert(index);
            }
            GroupChange::GiveBack { .. } | GroupChange::Release { .. } => {
                self.claimed.remove(&index);
            }
            GroupChange::Occupy { .. }
            | GroupChange::Reserve { .. }
            | GroupChange::Unreserve { .. } => {}
        }
    }

    /// Reports that another machine changed the event's register meanwhile.
    pub fn event_conflict(&mut self) {
        self.event = None;
    }

    /// Reports that it is unknown whether the event's register was changed.
    pub fn event_unknown(&mut self) {
        self.event = None;
        self.mark = None;
    }

    /// Forgets the mark, so that it is made again.
    pub fn forget_mark(&mut self) {
        self.mark = None;
    }

    /// Reports that another machine changed a group's register meanwhile.
    pub fn group_conflict(&mut self, index: usize) {
        if let Some(group) = self.groups.get_mut(index) {
            *group = None;
        }
    }

    /// Reports that it is unknown whether a group's register was changed.
    pub fn group_unknown(&mut self, index: usize) {
        self.group_conflict(index);
        self.claimed.remove(&index);
    }

    /// Forgets what was read, before another question. What was confirmed stays.
    pub fn forget_reads(&mut self) {
        self.has_decided = false;
        self.event = None;
        self.groups.clear();
        self.reservers.clear();
        self.silent = None;
        self.has_looked = false;
    }

    /// Forgets the claims, because the groups have changed.
    pub fn forget_claims(&mut self) {
        self.recall_members(None);
        self.groups.clear();
        self.claimed.clear();
    }

    /// Reports that the claim in a group is gone although this machine did not give it back: an
    /// operator freed it.
    pub fn lost_claim(&mut self, index: usize) {
        self.claimed.remove(&index);
    }

    /// The event's register as it was last read.
    pub fn event(&self) -> Option<&Arc<EventRegister>> {
        self.event.as_ref()
    }

    /// A group's register as it was last read.
    pub fn group(&self, index: usize) -> Option<&Arc<GroupRegister>> {
        self.groups.get(index).and_then(Option::as_ref)
    }

    /// The event for which a group is reserved, unless the machine that was refused is silent, so
    /// that the reservation no longer counts. That machine takes the reservation back once its
    /// event has begun. The time of day does not matter: a machine's clock may be wrong.
    fn next(&self, index: usize) -> Option<&Next> {
        let next = self.group(index)?.next.as_ref()?;
        (self.reservers.get(&next.by) != Some(&true)).then_some(next)
    }

    /// The state of a group's machines.
    fn health(&self, index: usize) -> Option<&GroupHealth> {
        self.members.as_ref()?.get(index)
    }

    /// The groups in which this process has made its claim.
    pub fn claimed(&self) -> impl Iterator<Item = usize> {
        self.claimed.iter().copied()
    }

    /// This machine's mark, if this process made it.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }
}
