//! The other machines, as the store shows them when somebody asks.

use std::rc::Rc;

use tokio::time::Instant;

use super::Daemon;
use super::message::{SMALLEST, differing_limits};
use crate::engine::{Aged, EngineError, Reply, Revision};
use crate::gate::driver::{Members, change_group};
use crate::gate::members::{Member, Patience, Presence, presence};
use crate::gate::{Event, GroupChange, GroupRegister, MachineRegister, Seen, Share, shares, store};
use crate::log;
use crate::names::Name;

impl Members for Daemon {
    fn look<'a>(&'a self, event: &'a Event) -> Reply<'a, Vec<(Share, Seen)>> {
        Box::pin(async move {
            let members = self.look_at_machines().await?;
            Ok(shares(&self.config.groups, event, Some(&members)))
        })
    }
}

impl Daemon {
    /// What was seen of the machines within the time of a heartbeat.
    pub(super) fn recent_members(&self) -> Option<Rc<[Member]>> {
        let members = self.members.borrow();
        members.as_ref().filter(|(at, _)| at.elapsed() < self.config.heartbeat).map(|(_, members)| members.clone())
    }

    /// Looks at all machines, and forgets those that are gone.
    pub(super) async fn look_at_machines(&self) -> Result<Rc<[Member]>, EngineError> {
        let listed = self.engine.list_aged("machines/").await?;
        let mut members = vec![Member {
            name: self.machine.clone(),
            // Its own register may not be written yet, and its zone counts from the first question on.
            register: self.register(),
            presence: Presence::Beating,
        }];
        let (mut gone, mut result) = (Vec::new(), Ok(()));
        self.has_doubts.set(false);
        for aged in listed {
            let (member, problem) = self.judge(&aged);
            result = result.and(problem);
            if member.name == self.machine {
                continue;
            }
            if member.presence == Presence::Gone {
                gone.push((member.clone(), aged.key, aged.register.revision));
            }
            members.push(member);
        }
        self.problems.report("the machines", result);
        self.report_limits(&members);
        let members: Rc<[Member]> = members.into();
        *self.members.borrow_mut() = Some((Instant::now(), members.clone()));
        for (member, key, revision) in gone {
            // What cannot be deleted holds up no question.
            let result = self.forget_machine(&member, &key, &revision).await;
            self.problems.report("the forgotten machines", result);
        }
        Ok(members)
    }

    /// Where the limits of a group differ, all machines are to have one configuration.
    fn report_limits(&self, members: &[Member]) {
        let others = differing_limits(&self.config.groups, members);
        let result = if others.is_empty() { Ok(()) } else { Err(others.join("; ") + SMALLEST) };
        self.problems.report("the limits", result.map_err(EngineError));
    }

    /// A machine as its register shows it. Of one whose register cannot be read nothing is known, but that it is there: it counts as
    /// silent, and holds up nobody's register.
    fn judge(&self, aged: &Aged) -> (Member, Result<(), EngineError>) {
        let of_key = Name::from(aged.key.trim_start_matches("machines/"));
        let register = match store::decode::<MachineRegister>(&aged.key, &aged.register.value) {
            Ok(register) => register,
            Err(problem) => {
                let register = MachineRegister::default();
                return (Member { name: of_key, register, presence: Presence::Silent }, Err(problem));
            }
        };
        let name = register.machine.clone().unwrap_or(of_key);
        let mut presence = presence(&register, aged.written, self.engine.clock(), self.patience());
        let mut sightings = self.sightings.borrow_mut();
        match presence {
            Presence::Beating => sightings.forget(&name),
            Presence::Silent => {}
            Presence::Gone => {
                let revision = Some(&aged.register.revision);
                if !sightings.confirm(&name, revision, self.config.silent_after, Instant::now()) {
                    // Looked at again with the next heartbeat.
                    presence = Presence::Silent;
                    self.has_doubts.set(true);
                }
            }
        }
        (Member { name, register, presence }, Ok(()))
    }

    pub(super) fn patience(&self) -> Patience {
        Patience { silent_after: self.config.silent_after, forget_after: self.config.forget_after }
    }

    /// Whether a machine is silent, for certain: its heartbeat has stopped, and did not go on while this process looked.
    pub(super) async fn is_silent(&self, name: &Name) -> Result<bool, EngineError> {
        let (register, revision) = store::read::<MachineRegister>(&*self.engine, &super::machine_key(name)).await?;
        // A machine without a register has no daemon: it is as silent as one whose daemon has ended.
        let is_beating =
            revision.is_some() && presence(&register, None, self.engine.clock(), self.patience()) == Presence::Beating;
        let mut sightings = self.sightings.borrow_mut();
        if is_beating {
            sightings.forget(name);
            return Ok(false);
        }
        Ok(sightings.confirm(name, revision.as_ref(), self.config.silent_after, Instant::now()))
    }

    /// Deletes the register of a machine that is gone. The slots of one that was about to leave are free; others keep theirs until
    /// their event is over.
    async fn forget_machine(&self, member: &Member, key: &str, revision: &Revision) -> Result<(), EngineError> {
        let name = &member.name;
        let (groups, _) = store::list::<GroupRegister>(&*self.engine, "groups/").await?;
        for (key, group) in groups {
            let group_name = key.strip_prefix("groups/").unwrap_or(&key);
            let mut changes = group.releases(|_, holder| member.register.leaving && holder == name);
            let next = group.next.filter(|next| next.by == *name);
            changes.extend(next.map(|next| GroupChange::Unreserve { event_id: next.event_id }));
            change_group(&*self.engine, group_name, &changes, 1).await?;
            for change in changes {
                log::line(&format!("{change} in the group {group_name}: the machine has left"));
            }
        }
        if self.engine.delete(key, revision).await? {
            self.sightings.borrow_mut().forget(name);
            self.forgotten.set(self.forgotten.get() + 1);
            self.has_forgotten.set(true);
            let why = if member.register.leaving { "it was about to leave, and is silent" } else { "it is silent" };
            let patience = if member.register.leaving { self.config.silent_after } else { self.config.forget_after };
            log::line(&format!("forgot {name}: {why} for {} or longer", humantime::format_duration(patience)));
        }
        Ok(())
    }
}
