//! The daemon's work besides answering: it frees slots, withdraws marks, and deletes registers that
//! nobody needs.
//!
//! It sends the store no request without a reason, which is: a slot that this machine holds, an
//! event that ended while this process ran and for which another machine may still hold a slot, or
//! a mark. Without a reason it reads the groups once in `return_within`: another machine may have
//! taken a slot for this one, whose watcher did not see the event.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::problems::Subject;
use super::{
    ANSWER_TIME, ASKED_AGAIN_WITHIN, AUDIT_INTERVAL, CORRECTED_WITHIN, Daemon, EVENT_KEPT,
    PendingEvent, Source,
};
use crate::config::GroupConfig;
use crate::driver::{self, GateRun, Question};
use crate::engine::{EngineError, Revision};
use crate::event::{Event, events_prefix};
use crate::members::Presence;
use crate::protocol::{Answer, Participant, Why};
use crate::register::{EventRegister, GroupChange, GroupRegister, MarkRegister};
use crate::store;
use crate::store::Invalid;
use scheduled_events_common::log;
use scheduled_events_common::names::Name;

/// What is known of the slots that this machine may hold or free, and when to read the groups.
pub(super) struct Slots {
    /// When to read the groups next; `None` if there is no reason to.
    pub(super) next_look: Option<Instant>,
    /// When they were read last.
    last_look: Instant,
    /// Whether this machine has claimed slots since the last read of the groups.
    has_claimed: bool,
    /// Events that are over, and for which other machines held slots at the last read.
    lingering: HashSet<String>,
    /// The events that have not started, from which this machine is back in service, and that this
    /// process was not asked about: nobody else voids their decisions and gives their claims back.
    /// Since when that is known.
    left: HashMap<String, Instant>,
    /// How many slots of others this process has freed.
    pub(super) freed: u64,
}

impl Slots {
    /// An earlier process may have left some.
    pub(super) fn new() -> Self {
        Self {
            next_look: Some(Instant::now()),
            last_look: Instant::now(),
            has_claimed: false,
            lingering: HashSet::new(),
            left: HashMap::new(),
            freed: 0,
        }
    }

    /// Whether this machine holds no slot: the groups are read for as long as it may hold one.
    pub(super) fn are_free(&self) -> bool {
        !self.has_claimed && self.next_look.is_none()
    }

    fn is_due(&self, now: Instant, idle: Option<Duration>) -> bool {
        let idle = idle.map(|time| self.last_look + time);
        self.next_look.or(idle).is_some_and(|at| now >= at)
    }
}

/// What only [`Daemon::run_upkeep`] knows, which has it as long as it runs.
pub(super) struct Upkeep {
    /// When to look for marks of an earlier process of this machine, at first at once; `None` if
    /// that is done.
    adopts_at: Option<Instant>,
    /// Whether registers of events that were over before this process started may still exist.
    has_past_events: bool,
    /// The keys of the events that were over for this machine in the last round.
    over: HashSet<String>,
}

impl Upkeep {
    pub(super) fn new() -> Self {
        Self {
            adopts_at: Some(Instant::now()),
            has_past_events: true,
            over: HashSet::new(),
        }
    }
}

impl Daemon {
    pub(super) async fn run_upkeep(&self) {
        let mut upkeep = self.upkeep.lock().await;
        let upkeep = &mut *upkeep;
        loop {
            if self.has_left_event() {
                upkeep.adopts_at = Some(Instant::now());
            }
            if upkeep.adopts_at.is_some_and(|at| Instant::now() >= at) {
                let adopt = self.adopt_marks(&mut upkeep.adopts_at);
                self.try_if_due(Subject::EarlierMarks, adopt).await;
            }
            let is_due = self.is_look_due();
            if self.has_own_to_free(&mut upkeep.over) || is_due {
                self.problems
                    .report(Subject::Groups, self.look_at_groups().await);
            }
            self.try_if_due(Subject::LastCall, self.occupy()).await;
            if self.machines.borrow().is_due(Instant::now()) {
                // It reports its result itself.
                let _ = self.look_at_machines().await;
            }
            let are_past = self.started_at.elapsed() >= EVENT_KEPT;
            if self.machines.borrow().has_forgotten || upkeep.has_past_events && are_past {
                let delete = async {
                    self.delete_past_events().await?;
                    upkeep.has_past_events &= !are_past;
                    Ok(())
                };
                self.try_if_due(Subject::PastEvents, delete).await;
            }
            self.try_if_due(Subject::Marks, self.withdraw_marks()).await;
            self.try_if_due(Subject::Events, self.forget_events()).await;
            self.last_upkeep.set(Instant::now());
            sleep(AUDIT_INTERVAL).await;
        }
    }

    /// Runs this task and reports its result, unless it failed a moment ago.
    async fn try_if_due(&self, what: Subject, task: impl Future<Output = Result<(), EngineError>>) {
        if self.problems.is_due(what) {
            self.problems.report(what, task.await);
        }
    }

    /// Takes slots for a machine that prepares without the gate's yes: it is out of service in any
    /// case, so it holds its slots whatever the limit is. The event's other machines take theirs as
    /// usual.
    async fn occupy(&self) -> Result<(), EngineError> {
        let Some(event_id) = self.history.borrow().last_calls.front().cloned() else {
            return Ok(());
        };
        // For an event before this process began, the recovery has been read, too.
        if self.history.borrow().is_out_for(&event_id) {
            for pending in self
                .events
                .borrow()
                .values()
                .filter(|pending| pending.event_id == event_id)
            {
                pending.may_be_late.set(true);
            }
            for group in self
                .config
                .groups
                .iter()
                .filter(|group| group.has(&self.machine))
            {
                let register = group.register_of(self.zone.as_deref());
                let change = GroupChange::Occupy {
                    event_id: event_id.clone(),
                    machine: self.machine.clone(),
                };
                driver::change_group(&*self.engine, &register, std::slice::from_ref(&change), 1)
                    .await?;
                log::line(&format!("warning: {}: last call", self.written(&change)));
            }
            self.has_claimed();
        }
        self.history.borrow_mut().last_calls.pop_front();
        Ok(())
    }

    /// This machine has claimed slots: the groups are read until it has given them back.
    pub(super) fn has_claimed(&self) {
        let at = Instant::now() + self.config.heartbeat;
        let mut slots = self.slots.borrow_mut();
        slots.has_claimed = true;
        slots.next_look = Some(slots.next_look.map_or(at, |next| next.min(at)));
    }

    /// Whether it is time to read the groups. Other machines may hold slots for an event that ended
    /// while this process ran: by the time at which these may be freed, it must be certain whether
    /// the machines are silent.
    fn is_look_due(&self) -> bool {
        let (mut history, mut slots) = (self.history.borrow_mut(), self.slots.borrow_mut());
        let delay = self
            .config
            .return_within
            .saturating_sub(self.config.silent_after);
        let mut has_ended = false;
        while history
            .ended
            .front()
            .is_some_and(|(_, at)| at.elapsed() >= delay)
        {
            has_ended = true;
            let ended = history.ended.pop_front();
            slots.lingering.extend(ended.map(|(id, _)| id));
        }
        // The hub gives slots back itself.
        let is_hub = matches!(self.source, Source::Hub);
        let idle = (!is_hub).then_some(self.config.return_within);
        has_ended || slots.is_due(Instant::now(), idle)
    }

    /// Whether an event that was asked about ended for this machine and is not among those that
    /// were `over` in the last round, so that its slots can be freed. If a pause or the engine
    /// prevents that, the daemon does it with a heartbeat.
    fn has_own_to_free(&self, over: &mut HashSet<String>) -> bool {
        let events = self.events.borrow();
        let ended = events
            .iter()
            .filter(|(_, pending)| self.is_back(&pending.event_id, Duration::ZERO));
        let now = ended.map(|(key, _)| key.clone()).collect();
        let before = std::mem::replace(over, now);
        !over.is_subset(&before)
    }

    pub(super) async fn look_at_groups(&self) -> Result<(), EngineError> {
        {
            let mut slots = self.slots.borrow_mut();
            // Again with the next heartbeat, unless there is no reason to.
            slots.last_look = Instant::now();
            slots.next_look = Some(slots.last_look + self.config.heartbeat);
            slots.has_claimed = false;
        }
        let (registers, problems) = store::list::<GroupRegister>(&*self.engine, "groups/").await?;
        let (mut lingering, mut holds_any) = (HashSet::new(), false);
        let (mut seen, mut document) = (Ok(()), Ok(()));
        let mut all_lost = HashSet::new();
        for (key, mut register) in registers {
            let group = key.strip_prefix("groups/").unwrap_or(&key).to_owned();
            let pause = self
                .group(&group)
                .map_or(Duration::ZERO, |group| group.pause);
            let (silent, result) = self.silent_holders(&register, &mut lingering).await;
            seen = seen.and(result);
            let mut lost = HashSet::new();
            for (id, claim) in &register.claims {
                if !claim.slots.contains(&self.machine) {
                    continue;
                }
                match self.is_lost(id).await {
                    Ok(true) => drop(lost.insert(id.clone())),
                    Ok(false) => {}
                    Err(error) => document = document.and(Err(error)),
                }
            }
            let releases = register.releases(|id, machine| {
                let is_own = *machine == self.machine;
                is_own && (self.is_back(id, pause) || lost.contains(id))
                    || !is_own && silent.contains(machine) && self.may_free(id, machine)
            });
            let mut changes = releases.clone();
            changes.extend(self.left_claims(&register));
            if let Some(next) = &register.next {
                if self.is_past(&next.event_id, &next.by) {
                    changes.push(GroupChange::Unreserve {
                        event_id: next.event_id.clone(),
                    });
                } else {
                    holds_any |= next.by == self.machine;
                }
            }
            driver::change_group(&*self.engine, &group, &changes, register.held().len()).await?;
            for change in &changes {
                log::line(&format!("{} in the group {group}", self.written(change)));
                change.apply(&mut register, driver::now());
            }
            let others = releases
                .iter()
                .filter(|change| !change.is_of(&self.machine))
                .count();
            self.slots.borrow_mut().freed += others as u64;
            holds_any |= register.held().contains(&self.machine);
            self.saw_group(&group, &register);
            all_lost.extend(lost);
        }
        let asked: BTreeSet<_> = {
            let events = self.events.borrow();
            let ids = events.values().map(|pending| pending.event_id.clone());
            ids.collect()
        };
        for id in asked {
            if !all_lost.contains(&id) {
                match self.is_lost(&id).await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    // It may hang: one attempt is enough.
                    Err(error) => {
                        document = document.and(Err(error));
                        break;
                    }
                }
            }
            self.forget_lost(&id).await?;
        }
        {
            let mut slots = self.slots.borrow_mut();
            if lingering.is_empty() && !holds_any && !slots.has_claimed {
                slots.next_look = None;
            }
            slots.lingering = lingering;
        }
        self.problems.report(Subject::Holders, seen);
        self.problems.report(Subject::OwnDocument, document);
        problems.into_iter().next().map_or(Ok(()), Err)
    }

    /// Forgets an event that is over for this machine although no record says so.
    async fn forget_lost(&self, id: &str) -> Result<(), EngineError> {
        let events: Vec<_> = {
            let events = self.events.borrow();
            let of_id = events.iter().filter(|(_, pending)| pending.event_id == id);
            of_id
                .map(|(key, pending)| (key.clone(), pending.clone()))
                .collect()
        };
        for (key, pending) in events {
            // A locked one is being asked. A mark is withdrawn first.
            let Ok(run) = pending.run.try_lock() else {
                continue;
            };
            if pending.is_waiting() || run.may_be_ready() {
                continue;
            }
            // The register of an event with other machines is theirs: they see its end.
            let resources = &run.participant().event.resources;
            if resources.iter().all(|name| *name == self.machine) {
                self.delete_readable(&key).await?;
            }
            // The watcher may have asked meanwhile.
            if !pending.is_waiting() {
                self.events.borrow_mut().remove(&key);
            }
        }
        Ok(())
    }

    /// Makes sure that no event relies on a claim that is gone.
    fn saw_group(&self, group: &str, register: &GroupRegister) {
        for pending in self.events.borrow().values() {
            // A locked one is being asked, and reads the register itself.
            if let Ok(mut run) = pending.run.try_lock() {
                run.saw_group(group, register);
            }
        }
    }

    /// Gives back the slots that this machine holds, whatever the records are. The caller knows
    /// that the machine has no event and is in service.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn give_back(&self) -> Result<(), EngineError> {
        let (registers, _) = store::list::<GroupRegister>(&*self.engine, "groups/").await?;
        for (key, mut register) in registers {
            let group = key.strip_prefix("groups/").unwrap_or(&key);
            let changes = register.releases(|_, machine| *machine == self.machine);
            driver::change_group(&*self.engine, group, &changes, register.held().len()).await?;
            for change in &changes {
                log::line(&format!(
                    "warning: {} in the group {group}, although no record says so",
                    self.written(change)
                ));
                change.apply(&mut register, driver::now());
            }
            self.saw_group(group, &register);
        }
        Ok(())
    }

    /// The other machines that hold slots of a group for an event that ended long ago, or does not
    /// name them any more, and that are silent for certain. The events to check again are added to `lingering`.
    async fn silent_holders(
        &self,
        register: &GroupRegister,
        lingering: &mut HashSet<String>,
    ) -> (BTreeSet<Name>, Result<(), EngineError>) {
        let (mut silent, mut result) = (BTreeSet::new(), Ok(()));
        for (id, claim) in &register.claims {
            let is_over = self.slots.borrow().lingering.contains(id)
                && self.history.borrow().over_since(id).is_some();
            let is_over_for = |machine: &&Name| {
                **machine != self.machine && (is_over || self.unnamed_since(id, machine).is_some())
            };
            for machine in claim.slots.iter().filter(is_over_for) {
                match self.is_silent(machine).await {
                    Ok(true) => drop(silent.insert(machine.clone())),
                    Ok(false) => {}
                    // A damaged register frees nothing on a guess, and does not delay others'
                    // slots.
                    Err(error) => result = result.and(Err(error)),
                }
                lingering.insert(id.clone());
            }
        }
        (silent, result)
    }

    /// The configuration of a group's register.
    fn group(&self, register: &str) -> Option<&GroupConfig> {
        let name = register.split('/').next().unwrap_or_default();
        self.config.groups.iter().find(|group| group.is_named(name))
    }

    /// Whether an event is over and this machine has been back in service for the pause.
    fn is_back(&self, id: &str, pause: Duration) -> bool {
        let now = Instant::now();
        let since = self
            .history
            .borrow()
            .in_service_since(id, now, self.config.return_within);
        since.is_some_and(|since| now - since >= pause)
    }

    /// Whether an event that a machine was refused no longer waits for a slot: it is over, or this
    /// machine's watcher does not ask.
    fn is_past(&self, id: &str, by: &Name) -> bool {
        // The watcher may have asked an earlier process a moment ago.
        let would_know = || *by == self.machine && self.started_at.elapsed() >= ASKED_AGAIN_WITHIN;
        self.history.borrow().over_since(id).is_some() || would_know() && !self.is_waiting(id)
    }

    /// Whether the watcher waits for an answer about an event, as far as its questions show.
    pub(super) fn is_waiting(&self, id: &str) -> bool {
        let events = self.events.borrow();
        let asks = |pending: &Rc<PendingEvent>| pending.event_id == id && pending.is_waiting();
        events.values().any(asks)
    }

    /// Whether an event ended, or ceased to name this machine, so long ago that others may free the
    /// machine's slot if it is silent.
    fn may_free(&self, id: &str, machine: &Name) -> bool {
        let over_since = self.history.borrow().over_since(id);
        over_since
            .or_else(|| self.unnamed_since(id, machine))
            .is_some_and(|since| since.elapsed() >= self.config.return_within)
    }

    /// Since when this machine's watcher asks about an event that does not name another machine, as
    /// far as this process knows.
    fn unnamed_since(&self, id: &str, machine: &Name) -> Option<Instant> {
        let events = self.events.borrow();
        let mut pending = events.values().filter(|pending| pending.event_id == id);
        let pending = pending.find(|pending| pending.is_waiting())?;
        // A locked one is being asked; the next read of the groups shows it.
        let run = pending.run.try_lock().ok()?;
        let names = &run.participant().event.resources;
        (!names.contains(machine)).then(|| pending.named_since.get())
    }

    /// Brings [`Slots::left`] up to date. Returns whether there is a new one.
    fn has_left_event(&self) -> bool {
        let (events, history) = (self.events.borrow(), self.history.borrow());
        let left = &mut self.slots.borrow_mut().left;
        let is_known = |id: &str| events.values().any(|pending| pending.event_id == id);
        left.retain(|id, _| history.is_back_early(id) && !is_known(id));
        let before = left.len();
        for id in history.back_early().filter(|id| !is_known(id)) {
            left.entry(id.to_owned()).or_insert_with(Instant::now);
        }
        left.len() > before
    }

    /// Gives back this machine's claims for such events, once they are not about to be approved
    /// because of a decision that was void.
    fn left_claims(&self, register: &GroupRegister) -> Vec<GroupChange> {
        let slots = self.slots.borrow();
        let is_over = |since: &Instant| since.elapsed() >= driver::DOCUMENTS_AGREE_WITHIN;
        let claims = register.claims.iter().filter(|(id, claim)| {
            slots.left.get(*id).is_some_and(is_over) && claim.is_of(&self.machine)
        });
        claims
            .map(|(id, _)| GroupChange::GiveBack {
                event_id: id.clone(),
                by: self.machine.clone(),
                is_back: true,
            })
            .collect()
    }

    /// Looks for marks of an earlier process of this machine. Nobody else withdraws them if the
    /// watcher does not ask again.
    /// Sets when to look again.
    async fn adopt_marks(&self, next: &mut Option<Instant>) -> Result<(), EngineError> {
        let (registers, mut problems) =
            store::list::<EventRegister>(&*self.engine, "events/").await?;
        // The task that reads the file reports one that cannot be read.
        let _ = self.read_records();
        for (key, register) in registers {
            let is_its = register.resources.contains(&self.machine);
            if !is_its || self.events.borrow().contains_key(&key) {
                continue;
            }
            let id = key.split('/').nth(1).unwrap_or_default();
            let event = register.event(id);
            // Nobody asks again about an event from which the machine is back.
            let is_unready = {
                let history = self.history.borrow();
                history.is_back_early(id) || history.called.contains(id)
            };
            let question = match (&register.go, is_unready) {
                (_, true) => Question::Unready,
                (None, false) => Question::Withdraw,
                (Some(_), false) => continue,
            };
            if let Err(problem) = self.ask_at(&key, event, question).await {
                if !self.is_damaged(&key).await? {
                    return Err(problem);
                }
                problems.push(problem);
            }
        }
        // Nobody decides with a register that cannot be read, which may have such a mark.
        self.has_adopted.send_replace(true);
        *next = (!problems.is_empty()).then(|| Instant::now() + CORRECTED_WITHIN);
        problems.into_iter().next().map_or(Ok(()), Err)
    }

    /// Whether the register of an event, or a mark of it, cannot be read: nobody decides with it.
    async fn is_damaged(&self, key: &str) -> Result<bool, EngineError> {
        if let Some(found) = self.engine.read(key).await?
            && store::check::<EventRegister>(&found.value).is_err()
        {
            return Ok(true);
        }
        let marks = self.marks(key).await?;
        let is_damaged = |value| store::check::<MarkRegister>(value).is_err();
        Ok(marks.iter().any(|(_, value)| is_damaged(value)))
    }

    /// Withdraws this machine's mark from events that it may prepare for, and voids the decision,
    /// because the question did not reach the store. Others count the mark again once the heartbeat
    /// goes on.
    pub(super) async fn withdraw_marks_of_preparations(&self) -> Result<(), EngineError> {
        // The task that reads the file reports one that cannot be read.
        let _ = self.read_records();
        let called = self.history.borrow().called.clone();
        let events: Vec<_> = self
            .events
            .borrow()
            .iter()
            .map(|(key, pending)| (key.clone(), pending.clone()))
            .collect();
        for (key, pending) in events {
            if !pending.may_prepare.get() && !called.contains(&pending.event_id) {
                continue;
            }
            let mut run = pending.run.lock().await;
            if !run.may_be_ready() && !run.is_decided() {
                continue;
            }
            let answer =
                timeout(ANSWER_TIME, run.ask(&*self.engine, self, Question::Unready)).await;
            let answer = answer.unwrap_or_else(|_| Err(EngineError("it does not answer".into())));
            if let Err(problem) = answer
                && !self.is_damaged(&key).await?
            {
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Withdraws this machine's marks, and the decisions, from registers of earlier versions of this
    /// program, which have one for each form of an event. Machines that still run such a version
    /// would decide with those marks, and this one makes no others there: once a process is enough.
    pub(super) async fn leave_earlier_registers(&self) -> Result<(), EngineError> {
        if self.has_left_earlier.get() {
            return Ok(());
        }
        // What cannot be read decides nothing.
        let (registers, _) = store::list::<EventRegister>(&*self.engine, "events/").await?;
        for (key, register) in registers {
            let id = key.split('/').nth(1).unwrap_or_default();
            let event = register.event(id);
            if key != event.key() && event.resources.contains(&self.machine) {
                if register.go.is_some() || register.was_decided {
                    self.earlier_decision_at.set(Some(Instant::now()));
                }
                self.ask_at(&key, event, Question::Prepare).await?;
            }
        }
        self.has_left_earlier.set(true);
        Ok(())
    }

    /// Asks about the event of a register that this process was not asked about, without a group.
    pub(super) async fn ask_at(
        &self,
        key: &str,
        event: Event,
        question: Question,
    ) -> Result<(), EngineError> {
        let after = self.config.take_over_after;
        let participant = Participant::new(self.machine.clone(), event, Vec::new(), after);
        let mut run = GateRun::at(key.to_owned(), participant);
        let answer = timeout(ANSWER_TIME, run.ask(&*self.engine, self, question)).await;
        answer.map_err(|_| EngineError("it does not answer".into()))??;
        Ok(())
    }

    /// Withdraws this machine's mark from events for which the watcher no longer waits for an
    /// approval.
    pub(super) async fn withdraw_marks(&self) -> Result<(), EngineError> {
        let events: Vec<_> = self.events.borrow().values().cloned().collect();
        let mut result = Ok(());
        for pending in events {
            let Ok(mut run) = pending.run.try_lock() else {
                continue;
            };
            let is_back_early = self.history.borrow().is_back_early(&pending.event_id);
            let is_over = self
                .history
                .borrow()
                .over_since(&pending.event_id)
                .is_some();
            let is_waiting = !is_over && pending.is_waiting();
            let may_be_ready = run.may_be_ready();
            let has_slots = run.has_slots() || pending.may_be_late.get();
            let may_give_back = has_slots && !run.may_be_approved();
            let prepares_soon = pending.may_prepare.get()
                && *pending.answer.borrow() == Some(Ok(Answer::Closed(Why::MayBePosted)));
            let question = match (is_back_early, is_waiting) {
                (true, true) if prepares_soon => continue,
                (true, _) if may_be_ready || run.is_decided_for_it() || may_give_back => {
                    Question::StandDown
                }
                (false, false) if may_be_ready => Question::Withdraw,
                _ => continue,
            };
            let answer = timeout(ANSWER_TIME, run.ask(&*self.engine, self, question)).await;
            let answer = answer.unwrap_or_else(|_| Err(EngineError("it does not answer".into())));
            let is_down = question == Question::StandDown && answer == Ok(Answer::Open);
            pending
                .may_be_late
                .set(pending.may_be_late.get() && !is_down);
            // A mark that cannot be withdrawn delays no other.
            result = result.and(answer.map(|_| ()));
        }
        result
    }

    /// Forgets events that are over, and later deletes their registers.
    async fn forget_events(&self) -> Result<(), EngineError> {
        let is_old = |id: &str| {
            self.history
                .borrow()
                .over_since(id)
                .is_some_and(|since| since.elapsed() >= EVENT_KEPT)
        };
        let old = {
            let events = self.events.borrow();
            let old = events
                .iter()
                .filter(|(_, pending)| is_old(&pending.event_id));
            old.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        for key in old {
            self.delete_readable(&key).await?;
            self.events.borrow_mut().remove(&key);
        }
        Ok(())
    }

    /// Deletes the register of an event, unless it cannot be read.
    async fn delete_readable(&self, key: &str) -> Result<(), EngineError> {
        let found = self.engine.read(key).await?;
        match found.filter(|found| store::decode::<EventRegister>(key, &found.value).is_ok()) {
            Some(found) => self.delete_event(key, &found.revision).await,
            None => Ok(()),
        }
    }

    /// Deletes the registers of events that were over before this process was asked anything, and
    /// of events whose machines are all forgotten: nobody else does. Runs once after the start, and
    /// after a machine was forgotten.
    pub(super) async fn delete_past_events(&self) -> Result<(), EngineError> {
        let past: HashSet<_> = self
            .history
            .borrow()
            .over_for(EVENT_KEPT)
            .map(events_prefix)
            .collect();
        let has_forgotten = self.machines.borrow().has_forgotten;
        if past.is_empty() && !has_forgotten {
            return Ok(());
        }
        let members = if has_forgotten {
            Some(self.look_at_machines().await?)
        } else {
            None
        };
        for (key, found) in self.engine.list("events/").await? {
            // A register that cannot be read stays.
            let Ok(event) = store::decode::<EventRegister>(&key, &found.value) else {
                continue;
            };
            let is_past = is_of(&key, &past);
            let is_abandoned = members.as_deref().is_some_and(|members| {
                let is_there = |name: &Name| {
                    members
                        .iter()
                        .any(|member| member.name == *name && member.presence != Presence::Gone)
                };
                !event.resources.iter().any(is_there)
            });
            if is_past || is_abandoned {
                self.delete_event(&key, &found.revision).await?;
            }
        }
        self.machines.borrow_mut().has_forgotten = false;
        Ok(())
    }

    /// The marks of an event that are registers of their own.
    async fn marks(&self, key: &str) -> Result<Vec<(String, String)>, EngineError> {
        let Some(split) = self.engine.split_registers() else {
            return Ok(Vec::new());
        };
        let prefix = driver::marks_prefix(key);
        Ok(split.read_parts(key, &prefix, None).await?.parts)
    }

    /// Deletes the register of an event and its marks, unless another writer has changed it
    /// meanwhile, or a later version of this program has written a mark.
    pub(super) async fn delete_event(
        &self,
        key: &str,
        revision: &Revision,
    ) -> Result<(), EngineError> {
        let Some(split) = self.engine.split_registers() else {
            return self.engine.delete(key, revision).await.map(drop);
        };
        let marks = self.marks(key).await?;
        let is_later =
            |value: &str| matches!(store::check::<MarkRegister>(value), Err(Invalid::Format(_)));
        if !marks.iter().any(|(_, value)| is_later(value)) {
            split
                .delete_parts(key, revision, &driver::marks_prefix(key))
                .await?;
        }
        Ok(())
    }
}

/// Whether the register with this key is of an event with one of these [prefixes](events_prefix).
pub(super) fn is_of(key: &str, events: &HashSet<String>) -> bool {
    key.rfind('/')
        .is_some_and(|end| events.contains(&key[..=end]))
}
