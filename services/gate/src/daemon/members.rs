//! The other machines, as the store shows them when a question needs them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::message::differing_groups;
use super::problems::Subject;
use super::{CORRECTED_WITHIN, Daemon};
use crate::driver::{Members, change_group};
use crate::engine::{Aged, Clock, EngineError, Reply, Revision, StoreTime};
use crate::event::Event;
use crate::group::shares;
use crate::members::{self, Member, Presence, Sightings, SilenceLimits, presence};
use crate::protocol::{GroupHealth, Share};
use crate::register::{GroupChange, GroupRegister, MachineRegister};
use crate::store::{self, Invalid};
use scheduled_events_common::log;
use scheduled_events_common::names::Name;

/// Up to how many machines are read one by one. The registers of more are listed.
const READ_ALONE_MAX: usize = 8;

/// What was read of the machines.
pub(super) struct Machines {
    /// The machines that were observed to be silent.
    sightings: Sightings,
    /// The machines as last read, and when.
    members: Option<(Instant, Rc<[Member]>)>,
    /// When to read them again although nobody asks: the last read failed, a machine seems to be
    /// gone, which is not certain yet, or an operator has to correct something.
    next_look: Option<Instant>,
    /// How many machines had other limits for a group at the last read.
    pub(super) differing: usize,
    /// How many machines this process has forgotten.
    pub(super) forgotten: u64,
    /// Whether a machine was forgotten, so that nobody else may delete the registers of its events.
    pub(super) has_forgotten: bool,
}

impl Machines {
    /// Nothing was read yet.
    pub(super) fn new(heartbeat: Duration) -> Self {
        Self {
            sightings: Sightings::new(heartbeat),
            members: None,
            next_look: None,
            differing: 0,
            forgotten: 0,
            has_forgotten: false,
        }
    }

    /// Whether to read the machines although nobody asks.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next_look.is_some_and(|at| now >= at)
    }
}

impl Members for Daemon {
    fn look<'a>(&'a self, event: &'a Event) -> Reply<'a, Vec<(Share, GroupHealth)>> {
        Box::pin(async move {
            let members = self.look_at_machines().await?;
            Ok(shares(&self.config.groups, event, Some(&members)))
        })
    }

    fn seems_silent<'a>(&'a self, machine: &'a Name) -> Reply<'a, bool> {
        Box::pin(async move {
            let key = super::machine_key(machine);
            let found = self.engine.read(&key).await?;
            let register =
                found.and_then(|found| store::decode::<MachineRegister>(&key, &found.value).ok());
            // It was forgotten, or its register cannot be read.
            let Some(register) = register else {
                return Ok(true);
            };
            let shown = register.written.zip(self.engine.clock());
            let silent_for = shown.and_then(|(written, Clock { now, steady_for })| {
                now.since(StoreTime(written)).map(|age| age.min(steady_for))
            });
            Ok(silent_for.is_some_and(|time| time >= self.config.silent_after))
        })
    }

    fn silent_of<'a>(&'a self, machines: &'a BTreeSet<Name>) -> Reply<'a, BTreeSet<Name>> {
        Box::pin(async move {
            let mut silent = BTreeSet::new();
            if machines.len() <= READ_ALONE_MAX {
                for machine in machines {
                    if !self.is_beating(machine).await?.0 {
                        silent.insert(machine.clone());
                    }
                }
                return Ok(silent);
            }
            let listed = self.engine.list_aged("machines/").await?;
            let members = listed.iter().filter_map(|aged| self.judge(aged).0);
            let beating: BTreeSet<_> = members
                .filter(|member| member.presence == Presence::Beating)
                .map(|member| member.name)
                .collect();
            Ok(machines.difference(&beating).cloned().collect())
        })
    }
}

impl Daemon {
    /// The machines as last read, if that was within the time of a heartbeat.
    pub(super) fn recent_members(&self) -> Option<Rc<[Member]>> {
        let machines = self.machines.borrow();
        machines
            .members
            .as_ref()
            .filter(|(at, _)| at.elapsed() < self.config.heartbeat)
            .map(|(_, members)| members.clone())
    }

    /// Reads the registers of all machines, and forgets machines that are gone.
    pub(super) async fn look_at_machines(&self) -> Result<Rc<[Member]>, EngineError> {
        let listed = self.engine.list_aged("machines/").await;
        let again_in = |time| self.machines.borrow_mut().next_look = Some(Instant::now() + time);
        let listed = listed.inspect_err(|error| {
            self.problems.report(Subject::Machines, Err(error.clone()));
            again_in(self.config.heartbeat);
        })?;
        let mut members = vec![Member {
            name: self.machine.clone(),
            // This machine's own register may not be written yet, and its zone counts from the
            // first question on.
            register: self.register(),
            presence: Presence::Beating,
        }];
        let (mut gone, mut has_doubts, mut result) = (Vec::new(), false, Ok(()));
        for aged in listed {
            let (member, problem) = self.judge(&aged);
            result = result.and(problem);
            let Some(mut member) = member.filter(|member| member.name != self.machine) else {
                continue;
            };
            if member.presence == Presence::Gone {
                if self.is_gone_for_certain(&member.name, &aged.register.revision) {
                    gone.push((member.clone(), aged.key, aged.register.revision));
                } else {
                    (member.presence, has_doubts) = (Presence::Silent, true);
                }
            }
            members.push(member);
        }
        let has_differences = self.report_limits(&members);
        let is_correct = result.is_ok() && !has_differences;
        self.problems.report(Subject::Machines, result);
        let members: Rc<[Member]> = members.into();
        self.machines.borrow_mut().members = Some((Instant::now(), members.clone()));
        let mut forgotten = Ok(());
        for (member, key, revision) in gone {
            // A register that cannot be deleted does not delay the question.
            forgotten = forgotten.and(self.forget_machine(&member, &key, &revision).await);
        }
        match () {
            () if has_doubts || forgotten.is_err() => again_in(self.config.heartbeat),
            () if !is_correct => again_in(CORRECTED_WITHIN),
            () => self.machines.borrow_mut().next_look = None,
        }
        self.problems.report(Subject::ForgottenMachines, forgotten);
        Ok(members)
    }

    /// Reports machines that have other limits for a group, and returns whether there are any: all
    /// machines must have the same configuration.
    fn report_limits(&self, members: &[Member]) -> bool {
        let groups = self.config.groups.iter();
        let machines: BTreeSet<_> = groups
            .flat_map(|group| group.differences(members))
            .map(|(name, _)| name)
            .collect();
        self.machines.borrow_mut().differing = machines.len();
        let others = differing_groups(&self.config.groups, members);
        let result = if others.is_empty() {
            Ok(())
        } else {
            let others: Vec<_> = others.iter().map(ToString::to_string).collect();
            Err(others.join("; "))
        };
        self.problems.report(Subject::Limits, result);
        !machines.is_empty()
    }

    /// A machine as its register shows it. A machine whose register cannot be read counts as
    /// silent, so that the damaged register delays no other; only its existence is known. A copy of
    /// a register is no machine.
    pub(super) fn judge(&self, aged: &Aged) -> (Option<Member>, Result<(), EngineError>) {
        let of_key = || Name::from(aged.key.trim_start_matches("machines/"));
        let register = match members::listed(&aged.key, &aged.register.value) {
            Ok(register) => register,
            Err(invalid) => {
                let problem = Err(store::problem(&aged.key, &invalid));
                let silent = || Member {
                    name: of_key(),
                    register: MachineRegister::default(),
                    presence: Presence::Silent,
                };
                let is_copy = matches!(invalid, Invalid::Copy(_));
                return ((!is_copy).then(silent), problem);
            }
        };
        let name = register.machine.clone().unwrap_or_else(of_key);
        let presence = presence(
            &register,
            aged.written,
            self.engine.clock(),
            self.patience(),
        );
        if presence == Presence::Beating {
            self.machines.borrow_mut().sightings.forget(&name);
        }
        let member = Member {
            name,
            register,
            presence,
        };
        (Some(member), Ok(()))
    }

    /// Whether a machine that seems to be gone was silent for long enough while this process
    /// watched.
    fn is_gone_for_certain(&self, name: &Name, revision: &Revision) -> bool {
        self.machines.borrow_mut().sightings.confirm(
            name,
            Some(revision),
            self.config.silent_after,
            Instant::now(),
        )
    }

    pub(super) fn patience(&self) -> SilenceLimits {
        SilenceLimits::of(&self.config)
    }

    /// Whether a machine is silent for certain: its heartbeat stopped, and did not resume while
    /// this process watched.
    pub(super) async fn is_silent(&self, name: &Name) -> Result<bool, EngineError> {
        let (is_beating, revision) = self.is_beating(name).await?;
        let sightings = &mut self.machines.borrow_mut().sightings;
        if is_beating {
            sightings.forget(name);
            return Ok(false);
        }
        Ok(sightings.confirm(
            name,
            revision.as_ref(),
            self.config.silent_after,
            Instant::now(),
        ))
    }

    /// Whether a machine's heartbeat shows that its daemon runs, and the revision that shows it. A machine
    /// without a register has no daemon: it counts like one whose daemon has ended.
    async fn is_beating(&self, name: &Name) -> Result<(bool, Option<Revision>), EngineError> {
        let (register, revision) =
            store::read::<MachineRegister>(&*self.engine, &super::machine_key(name)).await?;
        let presence = presence(&register, None, self.engine.clock(), self.patience());
        Ok((
            revision.is_some() && presence == Presence::Beating,
            revision,
        ))
    }

    /// Deletes the register of a machine that is gone, and frees its slots if it was about to
    /// leave. Other machines keep their slots until their event is over.
    async fn forget_machine(
        &self,
        member: &Member,
        key: &str,
        revision: &Revision,
    ) -> Result<(), EngineError> {
        let name = &member.name;
        let (groups, _) = store::list::<GroupRegister>(&*self.engine, "groups/").await?;
        for (key, group) in groups {
            let group_name = key.strip_prefix("groups/").unwrap_or(&key);
            let mut changes = group.releases(|_, holder| member.register.leaving && holder == name);
            let next = group.next.filter(|next| next.by == *name);
            changes.extend(next.map(|next| GroupChange::Unreserve {
                event_id: next.event_id,
            }));
            change_group(&*self.engine, group_name, &changes, 1).await?;
            for change in changes {
                log::line(&format!(
                    "{} in the group {group_name}: the machine has left",
                    self.written(&change)
                ));
            }
        }
        if self.engine.delete(key, revision).await? {
            let mut machines = self.machines.borrow_mut();
            machines.sightings.forget(name);
            machines.forgotten += 1;
            machines.has_forgotten = true;
            let why = if member.register.leaving {
                "it was about to leave, and is silent"
            } else {
                "it is silent"
            };
            let patience = if member.register.leaving {
                self.config.silent_after
            } else {
                self.config.forget_after
            };
            log::line(&format!(
                "forgot {name}: {why} for {} or longer",
                humantime::format_duration(patience)
            ));
        }
        Ok(())
    }
}
