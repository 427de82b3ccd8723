//! Carries out the steps of the protocol on an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::engine::{
    Engine, EngineError, Reply, Revision, SplitRegister, SplitRegisters, SplitWrite, Swap,
};
use crate::event::Event;
use crate::protocol::{Answer, GateStep, GroupHealth, Participant, Progress, Share};
use crate::register::{
    EventChange, EventRegister, GroupChange, GroupRegister, Mark, MarkRegister, Marked, Stamp,
};
use crate::store::{self, decode, encode, read, swap};
use scheduled_events_common::names::Name;
use scheduled_events_common::random::{number, part_of};

/// Up to how many machines an event keeps their marks in its own register. Marks of larger events
/// are registers of their own, where the engine has such: in one register, from 1,000 machines on,
/// the marks refuse each other for so long that answers are late (docs/inside/performance.md).
const MARKS_IN_EVENT_MAX: usize = 64;

/// Approximate time of one register write; N writers at once need about N times as long.
const CHANGE_TIME: Duration = Duration::from_millis(4);

/// The longest time by which machines see a change of an event's machines at different times.
pub(crate) const DOCUMENTS_AGREE_WITHIN: Duration = Duration::from_secs(60);

/// How long after a decision that is void somebody may still post because of it: a yes is followed
/// by a poll, and a POST by its time-outs. The hub's way to its POST is bounded by it.
pub const POST_TIME: Duration = Duration::from_secs(15);

/// The longest pause before a write to a register that other machines write, too. A question is
/// answered within eight seconds.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// A question to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// May this machine prepare?
    Prepare,
    /// May this machine approve?
    Approve,
    /// Not a question: this machine is no longer ready, unless the decision was made already.
    Withdraw,
    /// Not a question: this machine is not ready any more, whatever was decided.
    Unready,
    /// Not a question: this machine is back in service, and the event is not over.
    StandDown,
}

/// Looks at the machines that have a register.
pub trait Members {
    /// What an event takes of each group, in the order of the groups' names, and the current state
    /// of the groups' machines.
    fn look<'a>(&'a self, event: &'a Event) -> Reply<'a, Vec<(Share, GroupHealth)>>;

    /// Whether a machine seems to be silent, or is forgotten. One such observation frees none of
    /// its slots.
    fn seems_silent<'a>(&'a self, machine: &'a Name) -> Reply<'a, bool>;

    /// Which of these machines seem to be silent.
    fn silent_of<'a>(&'a self, machines: &'a BTreeSet<Name>) -> Reply<'a, BTreeSet<Name>>;
}

/// A run of the gate's protocol for one participant, with this process's knowledge about the event.
#[derive(Debug)]
pub struct GateRun {
    participant: Participant,
    /// The key of the event's register.
    key: String,
    progress: Progress,
    event_revision: Option<Revision>,
    /// The marks that are registers of their own, as of `marks_moment`.
    marks: BTreeMap<Name, Marked>,
    marks_moment: Option<Revision>,
    /// The latest moment that this process knows: an earlier one is of a store that came back from a
    /// backup.
    latest_moment: u64,
    group_revisions: Vec<Option<Revision>>,
    /// The round of the decision, and when this process first saw that.
    go_seen: Option<(u64, Instant)>,
    /// The machines that the register names, and no document of this machine, and since when.
    newcomers: BTreeMap<Name, Instant>,
    /// The machines that this machine's document does not name any more, and since when.
    dropped: BTreeMap<Name, Instant>,
    /// The round that follows one which was decided, and since when this process has known that.
    void_since: Option<(u64, Instant)>,
    /// Whether the register, as it was last read, names this machine.
    is_named: bool,
    /// Whether the register, as it was last read, names more machines than it has marks of.
    is_large: bool,
}

impl GateRun {
    /// Starts without knowledge of what this process did.
    pub fn new(participant: Participant) -> Self {
        let key = participant.event.key();
        Self::at(key, participant)
    }

    /// The same, with the event's register under this key: earlier versions of this program use
    /// another one.
    pub(crate) fn at(key: String, participant: Participant) -> Self {
        let group_revisions = vec![None; participant.shares.len()];
        Self {
            participant,
            key,
            progress: Progress::default(),
            event_revision: None,
            marks: BTreeMap::new(),
            marks_moment: None,
            latest_moment: 0,
            group_revisions,
            go_seen: None,
            newcomers: BTreeMap::new(),
            dropped: BTreeMap::new(),
            void_since: None,
            is_named: false,
            is_large: false,
        }
    }

    /// The participant.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    /// Sets the event as it is now, and the groups' limits, which may be new: a percentage depends on
    /// the number of machines, and a window on the time. The groups themselves may be new, too, once
    /// the zone of a machine is known. What was confirmed for other limits does not count then.
    pub fn set_shares(&mut self, participant: &Participant) {
        self.participant.closed.clone_from(&participant.closed);
        let before = self.participant.event.not_before;
        let named = &participant.event.resources;
        for name in self.participant.event.resources.difference(named) {
            self.dropped.insert(name.clone(), Instant::now());
        }
        self.dropped.retain(|name, since| {
            !named.contains(name) && since.elapsed() < DOCUMENTS_AGREE_WITHIN
        });
        self.participant.dropped = self.dropped.keys().cloned().collect();
        self.participant.named.extend(named.iter().cloned());
        self.participant.event.clone_from(&participant.event);
        if before != participant.event.not_before {
            // The new mark brings the new time into the register.
            self.progress.forget_mark();
        }
        let slots = |participant: &Participant| {
            participant
                .shares
                .iter()
                .map(|share| (share.group.clone(), share.slots.clone()))
                .collect()
        };
        let (before, now): (Vec<_>, Vec<_>) = (slots(&self.participant), slots(participant));
        if before != now {
            self.participant.shares.clone_from(&participant.shares);
            self.group_revisions = vec![None; participant.shares.len()];
            self.progress.forget_claims();
        }
        for (share, new) in self.participant.shares.iter_mut().zip(&participant.shares) {
            share.limit = new.limit;
        }
    }

    /// Sets what was recently read of the machines, for the shares that were set last.
    pub fn recall_members(&mut self, members: Option<Vec<GroupHealth>>) {
        self.progress.recall_members(members.map(Into::into));
    }

    /// Whether the event is undecided, as far as is known, and this machine may be marked as ready:
    /// this process marked it, the reply to a write was lost, or an earlier process marked it and
    /// this one has changed nothing yet.
    pub fn may_be_ready(&self) -> bool {
        let has_mark = !self.participant.is_alone_and_urgent();
        has_mark && !self.is_decided() && self.progress.mark() != Some(Mark::Withdrawn)
    }

    /// Whether this process has claimed slots.
    pub fn has_slots(&self) -> bool {
        self.progress.claimed().next().is_some()
    }

    /// Whether this process knows that the approval is decided.
    pub fn is_decided(&self) -> bool {
        self.go_seen.is_some()
    }

    /// Whether this process knows that the approval is decided, for this machine, too.
    pub fn is_decided_for_it(&self) -> bool {
        self.is_decided() && self.is_named
    }

    /// Whether, because of a decision that is void, the event may have been approved for this machine,
    /// too, and its start not be in this machine's document yet.
    pub fn may_be_approved(&self) -> bool {
        let since = self.void_since.filter(|_| self.is_named);
        since.is_some_and(|(_, at)| at.elapsed() < DOCUMENTS_AGREE_WITHIN)
    }

    /// Whether, as far as this process knows, a decision was void for too long for that.
    pub(crate) fn is_void_for_long(&self) -> bool {
        self.void_since
            .is_some_and(|(_, at)| at.elapsed() >= DOCUMENTS_AGREE_WITHIN)
    }

    /// Whether a group is reserved for this participant's event.
    pub fn is_next(&self) -> bool {
        self.participant.is_next_in_a_group(&self.progress)
    }

    /// Handles a group's register without this machine's claim: an operator freed it, and the
    /// machine claims it again.
    pub fn saw_group(&mut self, group: &str, register: &GroupRegister) {
        let Some(index) = self
            .participant
            .shares
            .iter()
            .position(|share| share.group == group)
        else {
            return;
        };
        let claim = register.claims.get(&self.participant.event.id);
        if !claim.is_some_and(|claim| claim.by.contains(&self.participant.machine)) {
            self.progress.lost_claim(index);
        }
    }

    /// Asks the gate, and carries out all steps up to the answer.
    ///
    /// # Errors
    /// The engine does not answer, or holds an invalid register. The steps up to then remain, and
    /// the caller can ask again.
    pub async fn ask(
        &mut self,
        engine: &dyn Engine,
        members: &dyn Members,
        question: Question,
    ) -> Result<Answer, EngineError> {
        self.progress.forget_reads();
        self.participant.new_round = number();
        let mut conflicts = 0;
        loop {
            let is_done = match self.next_step(question) {
                GateStep::Answer(answer) => return Ok(answer),
                GateStep::ChangeEvent(change) => self.commit_event(engine, &change).await?,
                GateStep::ChangeGroup(index, change) => {
                    self.commit_group(engine, index, &change).await?
                }
                read => {
                    if let Some(writers) = self.writers(engine, question, &read) {
                        pause(writers, conflicts).await;
                    }
                    self.fetch(engine, members, read).await?;
                    continue;
                }
            };
            conflicts = if is_done { 0 } else { conflicts + 1 };
        }
    }

    /// The protocol's next step, from what is known.
    fn next_step(&self, question: Question) -> GateStep {
        let since_go = self.go_seen.map_or(Duration::ZERO, |(_, at)| at.elapsed());
        let posts_are_over = self
            .void_since
            .is_some_and(|(_, at)| at.elapsed() >= POST_TIME);
        match question {
            Question::Prepare => self.participant.prepare(&self.progress, posts_are_over),
            Question::Approve => self.participant.approve(&self.progress, Some(since_go)),
            Question::Withdraw => self.participant.withdraw(&self.progress),
            Question::Unready => self.participant.unready(&self.progress),
            Question::StandDown => self
                .participant
                .stand_down(&self.progress, self.may_be_approved()),
        }
    }

    /// About how many machines are about to change the register that a step reads; `None` if it
    /// reads none that this machine changes.
    fn writers(&self, engine: &dyn Engine, question: Question, read: &GateStep) -> Option<usize> {
        match read {
            // All machines of an event ask at the same time whether they may prepare, and mark
            // themselves.
            GateStep::ReadEvent
                if question == Question::Prepare && self.split_registers(engine).is_none() =>
            {
                Some(self.participant.event.resources.len())
            }
            GateStep::ReadEvent => Some(1),
            // The event's other machines are about to take the same slots.
            GateStep::ReadGroup(index) => Some(self.participant.shares[*index].slots.len()),
            _ => None,
        }
    }

    /// Reads what a step needs.
    async fn fetch(
        &mut self,
        engine: &dyn Engine,
        members: &dyn Members,
        read: GateStep,
    ) -> Result<(), EngineError> {
        match read {
            GateStep::ReadEvent => {
                let register = self.read_event(engine).await?;
                self.saw_event(Arc::new(register));
            }
            GateStep::ReadGroup(index) => {
                let key = group_key(&self.participant.shares[index].group);
                let (register, revision) = store::read(engine, &key).await?;
                self.group_revisions[index] = revision;
                self.progress.saw_group(index, Arc::new(register));
            }
            GateStep::LookAtMembers => {
                let looked = members.look(&self.participant.event).await?;
                let (shares, health): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
                self.set_shares(&Participant {
                    shares,
                    ..self.participant.clone()
                });
                self.progress.saw_members(health.into());
            }
            GateStep::LookAtReserver(machine) => {
                let is_silent = members.seems_silent(&machine).await?;
                self.progress.saw_reserver(machine, is_silent);
            }
            GateStep::LookAtParticipants => {
                let Participant {
                    event,
                    machine,
                    dropped,
                    ..
                } = &self.participant;
                let others = event
                    .resources
                    .union(dropped)
                    .filter(|name| *name != machine);
                let silent = members.silent_of(&others.cloned().collect()).await?;
                self.progress.saw_silent(silent);
            }
            GateStep::ChangeEvent(_) | GateStep::ChangeGroup(..) | GateStep::Answer(_) => {}
        }
        Ok(())
    }

    /// Changes the event's register; `false` if another machine did so meanwhile.
    ///
    /// The caller may drop this future while the swap is in progress. Then it is unknown whether the
    /// swap was carried out.
    async fn commit_event(
        &mut self,
        engine: &dyn Engine,
        change: &EventChange,
    ) -> Result<bool, EngineError> {
        let before = self.progress.clone();
        self.progress.event_unknown();
        let changed = self.change_event(engine, change, &before).await?;
        self.progress = before;
        let is_done = changed.is_some();
        if let Some(register) = changed.map(Arc::new) {
            self.progress.wrote_event(change, register.clone());
            self.saw_event(register);
        } else {
            self.progress.event_conflict();
        }
        Ok(is_done)
    }

    /// Changes a group's register, as [`Self::commit_event`] does the event's.
    async fn commit_group(
        &mut self,
        engine: &dyn Engine,
        index: usize,
        change: &GroupChange,
    ) -> Result<bool, EngineError> {
        let group = self.progress.group(index);
        let mut register = group.map(|group| (**group).clone()).unwrap_or_default();
        change.apply(&mut register, now());
        let key = group_key(&self.participant.shares[index].group);
        let before = self.progress.clone();
        self.progress.group_unknown(index);
        let expected = self.group_revisions[index].as_ref();
        let swap = swap(engine, &key, expected, &register).await?;
        self.progress = before;
        match swap {
            Swap::Done(revision) => {
                self.group_revisions[index] = Some(revision);
                self.progress.wrote_group(index, change, Arc::new(register));
                Ok(true)
            }
            Swap::Conflict => {
                self.progress.group_conflict(index);
                Ok(false)
            }
        }
    }

    /// The engine's interface to marks in registers of their own, if this event uses it.
    fn split_registers<'e>(&self, engine: &'e dyn Engine) -> Option<&'e dyn SplitRegisters> {
        let is_large = self.participant.event.resources.len() > MARKS_IN_EVENT_MAX;
        (is_large || self.is_large)
            .then(|| engine.split_registers())
            .flatten()
    }

    /// Reads the event's register. If it is large and this machine's document is not, or is no longer,
    /// it is read again in the other form.
    async fn read_event(&mut self, engine: &dyn Engine) -> Result<EventRegister, EngineError> {
        let was_split = self.split_registers(engine).is_some();
        let register = self.read_form(engine).await?;
        self.is_large = register.resources.len() > MARKS_IN_EVENT_MAX;
        if self.split_registers(engine).is_some() == was_split {
            return Ok(register);
        }
        self.marks_moment = None;
        self.read_form(engine).await
    }

    async fn read_form(&mut self, engine: &dyn Engine) -> Result<EventRegister, EngineError> {
        let key = self.key.clone();
        let Some(split) = self.split_registers(engine) else {
            let (register, revision) = read(engine, &key).await?;
            self.event_revision = revision;
            return Ok(register);
        };
        let whole = split
            .read_parts(&key, &marks_prefix(&key), self.marks_moment.as_ref())
            .await?;
        self.saw_parts(&key, whole)
    }

    /// Changes the event's register; `None` if another machine did so meanwhile.
    async fn change_event(
        &mut self,
        engine: &dyn Engine,
        change: &EventChange,
        before: &Progress,
    ) -> Result<Option<EventRegister>, EngineError> {
        let key = self.key.clone();
        let mut register = before
            .event()
            .map(|event| (**event).clone())
            .unwrap_or_default();
        let is_round = matches!(change, EventChange::Begin { .. });
        // A change of an older register leaves it older, for others, too: only a new round counts on.
        let known = if is_round { before.writes() } else { 0 };
        let writes = register.writes.max(known) + 1;
        let Some(split) = self.split_registers(engine) else {
            self.describe(&mut register);
            change.apply(&mut register, now());
            register.writes = writes;
            return match swap(engine, &key, self.event_revision.as_ref(), &register).await? {
                Swap::Done(revision) => {
                    self.event_revision = Some(revision);
                    Ok(Some(register))
                }
                Swap::Conflict => Ok(None),
            };
        };
        let is_go = matches!(change, EventChange::Go(_));
        if is_go {
            // The decision must see all marks as they are now, not marks that were collected in
            // several reads.
            self.marks_moment = None;
            register = self.read_event(engine).await?;
            let is_ready =
                |name: &Name| *name == self.participant.machine || register.is_ready(name);
            // Nobody has decided meanwhile.
            let is_as_read = before
                .event()
                .is_some_and(|event| (event.round, &event.go) == (register.round, &register.go));
            if !is_as_read
                || self.progress.is_older()
                || !self.participant.event.resources.iter().all(is_ready)
            {
                return Ok(None);
            }
        }
        let time = register.not_before;
        self.describe(&mut register);
        let is_new_time = register.not_before != time;
        change.apply(&mut register, now());
        let machine = &self.participant.machine;
        let Marked { mark, at, round } = register.marks[machine];
        let mark = encode(
            &key,
            &MarkRegister {
                machine: machine.clone(),
                mark,
                at,
                round,
            },
        )?;
        // A mark alone does not change the register, unless it changes the time: so marks do not
        // conflict with each other.
        register.marks.clear();
        let is_written = is_go || is_round || is_new_time || self.event_revision.is_none();
        if is_written {
            register.writes = writes;
        }
        let value = is_written.then(|| encode(&key, &register)).transpose()?;
        let change = SplitWrite {
            key: &key,
            expected: self.event_revision.as_ref(),
            value: value.as_deref(),
            prefix: &marks_prefix(&key),
            part: (&machine.key(), &mark),
            since: self.marks_moment.as_ref(),
            needs_unchanged_parts: is_go,
        };
        match split.change_part(change).await? {
            Some(whole) => {
                if is_round {
                    self.latest_moment = number_of(&whole.moment);
                }
                self.saw_parts(&key, whole).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Fills in the members of the register that are for people.
    fn describe(&self, register: &mut EventRegister) {
        register.event_id = Some(self.participant.event.written_id.clone());
        register.not_before = self
            .participant
            .event
            .not_before_seconds()
            .or(register.not_before);
    }

    /// Assembles the event's register from what was read.
    fn saw_parts(&mut self, key: &str, whole: SplitRegister) -> Result<EventRegister, EngineError> {
        if self.marks_moment.is_none() || whole.register.is_none() {
            self.marks.clear();
        }
        for (_, value) in &whole.parts {
            let part: MarkRegister = decode(key, value)?;
            self.marks.insert(part.machine.clone(), part.marked());
        }
        let moment = number_of(&whole.moment);
        if moment < self.latest_moment {
            self.progress.saw_older_marks();
        }
        self.latest_moment = self.latest_moment.max(moment);
        self.marks_moment = Some(whole.moment);
        let mut register = EventRegister::default();
        self.event_revision = None;
        if let Some(found) = whole.register {
            register = decode(key, &found.value)?;
            self.event_revision = Some(found.revision);
        }
        register.marks.clone_from(&self.marks);
        Ok(register)
    }

    fn saw_event(&mut self, register: Arc<EventRegister>) {
        let now = Instant::now();
        // Since when it has been so in this round.
        let since = |known: Option<(u64, Instant)>, is_so: bool| {
            let known = known.filter(|(round, _)| *round == register.round);
            is_so.then(|| known.unwrap_or((register.round, now)))
        };
        self.go_seen = since(self.go_seen, register.go.is_some());
        self.void_since = since(self.void_since, register.was_decided);
        self.is_named = register.resources.contains(&self.participant.machine);
        let named = &mut self.participant.named;
        let mut known = std::mem::take(&mut self.newcomers);
        for name in &register.resources {
            if named.contains(name) {
                continue;
            }
            let since = known.remove(name).unwrap_or(now);
            if since.elapsed() >= DOCUMENTS_AGREE_WITHIN {
                // It was in the event, and is not any more.
                named.insert(name.clone());
            } else {
                self.newcomers.insert(name.clone(), since);
            }
        }
        self.progress.saw_event(register);
    }
}

/// Applies these changes to a group's register, whatever it contains. About this many machines
/// change it at the same time.
///
/// # Errors
/// The engine does not answer, or holds an invalid group.
pub async fn change_group(
    engine: &dyn Engine,
    group: &str,
    changes: &[GroupChange],
    machines: usize,
) -> Result<(), EngineError> {
    if changes.is_empty() {
        return Ok(());
    }
    let key = group_key(group);
    for conflicts in 0.. {
        pause(machines, conflicts).await;
        let (before, revision) = read::<GroupRegister>(engine, &key).await?;
        let mut register = before.clone();
        for change in changes {
            change.apply(&mut register, now());
        }
        if register == before
            || swap(engine, &key, revision.as_ref(), &register).await? != Swap::Conflict
        {
            break;
        }
    }
    Ok(())
}

/// The prefix of the keys of an event's marks, where these are registers of their own.
pub fn marks_prefix(event_key: &str) -> String {
    format!("{MARKS}{}/", event_key.trim_start_matches("events/"))
}

/// The prefix of the keys of all marks.
pub const MARKS: &str = "marks/";

/// The key of a group's register.
pub fn group_key(group: &str) -> String {
    format!("groups/{group}")
}

/// A moment as a number; 0 if the engine has no such.
fn number_of(moment: &Revision) -> u64 {
    moment.0.parse().unwrap_or(0)
}

/// Seconds since 1970, for people; no decision depends on them.
pub fn now() -> Stamp {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Lets other machines finish: machines that change one register must neither do so together, nor
/// return together after a refusal.
async fn pause(machines: usize, conflicts: u32) {
    let machines = u32::try_from(machines).unwrap_or(u32::MAX);
    let longest = CHANGE_TIME
        .saturating_mul(machines)
        .saturating_mul(1 << conflicts.min(10))
        .min(PAUSE_MAX);
    tokio::time::sleep(part_of(longest)).await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::engine::memory::MemoryEngine;
    use crate::engine::{Clock, Versioned};

    /// Nobody is in a group.
    struct Nobody;

    impl Members for Nobody {
        fn look<'a>(&'a self, _: &'a Event) -> Reply<'a, Vec<(Share, GroupHealth)>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }

        fn seems_silent<'a>(&'a self, _: &'a Name) -> Reply<'a, bool> {
            Box::pin(std::future::ready(Ok(false)))
        }

        fn silent_of<'a>(&'a self, _: &'a BTreeSet<Name>) -> Reply<'a, BTreeSet<Name>> {
            Box::pin(std::future::ready(Ok(BTreeSet::new())))
        }
    }

    /// An engine that can carry out a swap and lose the reply.
    #[derive(Default)]
    struct Silent {
        registers: MemoryEngine,
        is_silent: Cell<bool>,
    }

    impl Engine for Silent {
        fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
            self.registers.read(key)
        }

        fn swap<'a>(
            &'a self,
            key: &'a str,
            expected: Option<&'a Revision>,
            value: &'a str,
        ) -> Reply<'a, Swap> {
            Box::pin(async move {
                let swap = self.registers.swap(key, expected, value).await;
                if self.is_silent.get() {
                    std::future::pending().await
                } else {
                    swap
                }
            })
        }

        fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
            self.registers.delete(key, expected)
        }

        fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
            self.registers.list(prefix)
        }

        fn clock(&self) -> Option<Clock> {
            self.registers.clock()
        }
    }

    /// The daemon gives up an answer after some seconds. Whether a swap in progress was carried out
    /// is unknown then.
    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_given_up_leaves_nothing_that_is_relied_on() {
        let engine = Silent::default();
        let event = Event::new("e", "Reboot", ["a", "b"].map(Into::into).into());
        let key = event.key();
        let mut involvement = GateRun::new(Participant::new(
            "a".into(),
            event,
            Vec::new(),
            Duration::ZERO,
        ));
        assert_eq!(
            involvement.ask(&engine, &Nobody, Question::Prepare).await,
            Ok(Answer::Open)
        );
        engine.is_silent.set(true);
        let question = involvement.ask(&engine, &Nobody, Question::Approve);
        assert!(
            tokio::time::timeout(Duration::from_secs(8), question)
                .await
                .is_err()
        );
        engine.is_silent.set(false);
        let is_ready = async || {
            read::<EventRegister>(&engine, &key)
                .await
                .expect("a register")
                .0
                .is_ready(&"a".into())
        };
        assert!(is_ready().await, "the swap was carried out");
        assert_eq!(
            involvement.ask(&engine, &Nobody, Question::Prepare).await,
            Ok(Answer::Open)
        );
        assert!(
            !is_ready().await,
            "the machine prepares, and is still marked as ready"
        );
    }
}
