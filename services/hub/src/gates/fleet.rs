//! The gate of a fleet, in which the hub takes part for machines without an agent.
//!
//! For each such machine that has an event, the hub runs the daemon that the machine would run: it
//! asks for the machine, marks it, and gives its place back. The hub passes it the machine's records,
//! which show that the event is over and that the machine is back in service. The machine is a
//! member of the fleet only for that time, so that it never counts as silent.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::audit::AuditReader;
use scheduled_events::record::{EventRecord, ReadRecord, Record};
use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_core::{GateAnswer, GatePhase};
use scheduled_events_gate::config::Config;
use scheduled_events_gate::daemon::{Daemon, machine_key};
use scheduled_events_gate::driver::Question;
use scheduled_events_gate::engine::{self, Aged, Engine, EngineError, StoreTime, Versioned};
use scheduled_events_gate::event::Event;
use scheduled_events_gate::history::History;
use scheduled_events_gate::members::{Presence, SilenceLimits, listed, presence};
use scheduled_events_gate::protocol::Answer;
use scheduled_events_gate::store::Invalid;
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::engine::SharedEngine;
use super::{Asked, GateError};
use crate::notice::key_of;
use crate::store::{MachineFacts, RegistersError};

/// How long leaving may take. The machine's next event waits for it.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// How long reading the registers of all machines may take.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// The gate of a fleet.
pub(super) struct Fleet {
    config: Config,
    /// What is known about machines that do not take part, by their [keys](key_of): at first what
    /// the audit file has, from an earlier process on this computer.
    histories: RefCell<HashMap<String, History>>,
    /// The machines that take part, by their [keys](key_of).
    members: RefCell<HashMap<String, Rc<Member>>>,
    /// The keys of machines that an earlier process may have prepared.
    restored: RefCell<HashSet<String>>,
    /// The engine of all machines. It is kept, since it learns the store's clock.
    engine: OnceCell<Rc<dyn Engine>>,
}

/// A machine that takes part.
struct Member {
    daemon: Rc<Daemon>,
    maintenance: RefCell<JoinHandle<()>>,
    /// The last answer, so that each answer is logged once.
    answer: RefCell<String>,
    /// Since when it has no event and is in service.
    idle_since: Cell<Option<Instant>>,
}

impl Fleet {
    /// The gate of this configuration. `audit` is the hub's audit file.
    ///
    /// # Errors
    /// The configuration is invalid, or the audit file cannot be read.
    pub(super) fn open(file: &Path, audit: &Path) -> Result<Self, GateError> {
        let config = Config::load(file).map_err(GateError::Config)?;
        let histories = earlier(audit).map_err(|error| GateError::Audit {
            path: audit.to_owned(),
            error,
        })?;
        Ok(Self {
            config,
            histories: RefCell::new(histories),
            members: RefCell::default(),
            restored: RefCell::default(),
            engine: OnceCell::new(),
        })
    }

    /// Applies a record of a machine.
    pub(super) fn record(&self, resource_id: &str, record: &Record<'_>) {
        let key = key_of(resource_id);
        if let Some(member) = self.found(&key) {
            member.daemon.record(record);
        } else {
            let mut histories = self.histories.borrow_mut();
            let history = histories.entry(key).or_insert_with(begun);
            history.apply(record, Instant::now());
        }
    }

    /// Asks the gate for a machine.
    pub(super) async fn ask(
        &self,
        phase: GatePhase,
        machine: &MachineFacts,
        event: &EventRecord,
    ) -> Asked {
        let question = if phase == GatePhase::Prepare {
            Question::Prepare
        } else {
            Question::Approve
        };
        let answered = self.answer(question, machine, event).await;
        let has_agent = matches!(answered, Ok(None));
        let (answer, why) = match answered {
            Ok(Some(Answer::Open)) => (GateAnswer::Open, String::new()),
            Ok(Some(Answer::AnotherApproves { by })) => {
                (GateAnswer::AnotherApproves, format!("{by} approves"))
            }
            Ok(Some(Answer::Closed(why))) => (GateAnswer::Closed, why.to_string()),
            Ok(None) => {
                let why = "its own daemon takes part, and asks for it";
                (GateAnswer::Closed, why.to_owned())
            }
            Err(problem) => (GateAnswer::Closed, problem.to_string()),
        };
        let member = self.found(&key_of(&machine.resource_id));
        let is_new = member.is_none_or(|member| member.answer.replace(why.clone()) != why);
        if is_new && !why.is_empty() {
            log::printable(&format!("gate {}: {why}", machine.name));
        }
        Asked { answer, has_agent }
    }

    /// The machines that have a daemon of their own, which may be silent for a while.
    pub(super) async fn agents(&self) -> Result<HashSet<Name>, RegistersError> {
        let engine = self.engine().await?;
        let listed = timeout(LOOK_TIME, engine.list_aged("machines/")).await;
        let listed = listed
            .unwrap_or_else(|_| Err(EngineError("no answer".into())))
            .map_err(RegistersError::Engine)?;
        let of = |aged: Aged| self.agent_of(&*engine, &aged.key, &aged.register, aged.written);
        Ok(listed.into_iter().filter_map(of).collect())
    }

    /// The machine of a register, if the register is its own daemon's.
    fn agent_of(
        &self,
        engine: &dyn Engine,
        key: &str,
        found: &Versioned,
        written: Option<StoreTime>,
    ) -> Option<Name> {
        let of_key = Name::from(key.trim_start_matches("machines/"));
        // Nothing but its existence is known about a machine whose register cannot be read.
        let register = match listed(key, &found.value) {
            Ok(register) => register,
            Err(Invalid::Copy(_)) => return None,
            Err(_) => return Some(of_key),
        };
        let limits = SilenceLimits::of(&self.config);
        let presence = presence(&register, written, engine.clock(), limits);
        let is_agent = !register.by_hub && presence != Presence::Gone;
        is_agent.then(|| register.machine.unwrap_or(of_key))
    }

    /// Looks whether a machine has a daemon of its own now: the registers of all machines are
    /// read every few minutes only, and a heartbeat of this hub may be older, too. Two participants with one name would both hold its turn to
    /// approve.
    async fn look_for_agent(&self, machine: &MachineFacts) -> Result<bool, RegistersError> {
        let engine = self.engine().await?;
        let register = machine_key(&Name::from(machine.name.as_str()));
        let read = timeout(LOOK_TIME, engine.read(&register)).await;
        let found = read
            .unwrap_or_else(|_| Err(EngineError("no answer".into())))
            .map_err(RegistersError::Engine)?;
        let agent = found.and_then(|found| self.agent_of(&*engine, &register, &found, None));
        Ok(agent.is_some())
    }

    /// Adds a machine that has an event from an earlier run, and may have a place. If it is out of
    /// service, it may be so for each of the events in `out_for`: the records of an earlier process
    /// may be on another computer, or lost.
    pub(super) async fn join(&self, machine: &MachineFacts, out_for: &[EventRecord]) {
        let key = key_of(&machine.resource_id);
        if !out_for.is_empty() {
            let mut histories = self.histories.borrow_mut();
            let history = histories.entry(key.clone()).or_insert_with(begun);
            for event in out_for {
                history.expect_recovery(&event.members(None));
            }
        }
        self.restored.borrow_mut().insert(key);
        if let Err(why) = self.member(machine).await {
            log::printable(&format!(
                "warning: {} cannot join the fleet: {why}",
                machine.resource_id
            ));
        }
    }

    /// `None` if the machine's own daemon takes part: then it is not asked for here.
    async fn answer(
        &self,
        question: Question,
        machine: &MachineFacts,
        event: &EventRecord,
    ) -> Result<Option<Answer>, Box<dyn Error>> {
        let event = Event::from(event);
        let is_member = self.found(&key_of(&machine.resource_id)).is_some();
        // The preparation for a Preempt does not wait for the store. Its approval does, since the
        // machine's own watcher may still prepare, and its daemon may have started since the last
        // look.
        let looks = question == Question::Approve || !is_member && !event.is_urgent;
        if looks && self.look_for_agent(machine).await? {
            return Ok(None);
        }
        let member = self.member(machine).await?;
        member.idle_since.set(None);
        Ok(Some(member.daemon.answer(question, event).await?))
    }

    async fn member(&self, machine: &MachineFacts) -> Result<Rc<Member>, RegistersError> {
        let key = key_of(&machine.resource_id);
        if let Some(member) = self.found(&key) {
            return Ok(member);
        }
        let engine = self.engine().await?;
        // Another event of this machine may have asked meanwhile.
        if let Some(member) = self.found(&key) {
            return Ok(member);
        }
        let zone = Some(machine.zone.clone()).filter(|zone| !zone.is_empty());
        let history = self.histories.borrow_mut().remove(&key);
        if history.is_some() {
            // It may lack what happened since its last record, such as the recovery.
            self.restored.borrow_mut().insert(key.clone());
        }
        let daemon = Daemon::in_hub(
            self.config.clone(),
            Name::from(machine.name.as_str()),
            zone,
            engine,
            history.unwrap_or_else(begun),
        );
        Ok(self.insert(key, daemon))
    }

    async fn engine(&self) -> Result<Rc<dyn Engine>, RegistersError> {
        let open = async || {
            let opened = engine::open(&self.config).await;
            let engine = opened.map_err(RegistersError::Open)?;
            Ok(Rc::new(SharedEngine::new(engine.into())) as Rc<dyn Engine>)
        };
        self.engine.get_or_try_init(open).await.cloned()
    }

    fn insert(&self, key: String, daemon: Rc<Daemon>) -> Rc<Member> {
        let maintenance = RefCell::new(maintain(&daemon));
        let (answer, idle_since) = (RefCell::default(), Cell::default());
        let member = Rc::new(Member {
            daemon,
            maintenance,
            answer,
            idle_since,
        });
        self.members.borrow_mut().insert(key, member.clone());
        member
    }

    fn found(&self, key: &str) -> Option<Rc<Member>> {
        self.members.borrow().get(key).cloned()
    }

    /// Whether a machine without an event that is in service has left the fleet. It leaves once it
    /// has given back its place.
    pub(super) async fn has_left(&self, machine: &MachineFacts) -> bool {
        let resource_id = &machine.resource_id;
        let key = key_of(resource_id);
        let is_restored = self.restored.borrow().contains(&key);
        let member = match self.found(&key) {
            Some(member) => member,
            // It could not join, and may have a place. The reason was logged.
            None if is_restored && !machine.has_agent => match self.member(machine).await {
                Ok(member) => member,
                Err(_) => return false,
            },
            None => {
                self.histories.borrow_mut().remove(&key);
                self.restored.borrow_mut().remove(&key);
                return true;
            }
        };
        if !member.daemon.may_leave() {
            let since = member.idle_since.get().unwrap_or_else(Instant::now);
            member.idle_since.set(Some(since));
            // The records of an earlier process may be on another machine, or lost. This process
            // knows the machine's state.
            if is_restored && since.elapsed() >= self.patience() {
                member.idle_since.set(None);
                let given_back = timeout(LEAVE_TIME, member.daemon.give_back()).await;
                if let Err(why) =
                    given_back.unwrap_or_else(|_| Err(EngineError("no answer".into())))
                {
                    log::printable(&format!(
                        "warning: {resource_id} cannot give back its place yet: {why}"
                    ));
                }
            }
            return false;
        }
        // A heartbeat that is written at the same time would leave a register of a silent machine.
        member.maintenance.borrow().abort();
        let left = timeout(LEAVE_TIME, member.daemon.leave()).await;
        let left = left.unwrap_or_else(|_| Err(EngineError("no answer".into())));
        if left != Ok(true) {
            member.maintenance.replace(maintain(&member.daemon));
            if let Err(why) = left {
                log::printable(&format!(
                    "warning: {resource_id} cannot leave the fleet yet: {why}"
                ));
            }
            return false;
        }
        self.members.borrow_mut().remove(&key);
        self.restored.borrow_mut().remove(&key);
        true
    }

    /// How long a place from an earlier process is kept for a machine that is in service, if no
    /// record shows that.
    fn patience(&self) -> Duration {
        self.config
            .groups
            .iter()
            .fold(self.config.return_within, |patience, group| {
                patience.max(group.pause)
            })
    }
}

/// The history of a machine of which this process knows all.
fn begun() -> History {
    let mut history = History::default();
    history.end_past();
    history
}

/// What the hub's audit file says about the machines, by their [keys](key_of).
fn earlier(audit: &Path) -> io::Result<HashMap<String, History>> {
    #[derive(Deserialize)]
    struct OfMachine {
        resource_id: String,
    }

    let (mut histories, now) = (HashMap::<_, History>::new(), Instant::now());
    AuditReader::new(audit).read_new(&mut |line| {
        if let Some(record) = ReadRecord::from_line(line)
            && let Ok(OfMachine { resource_id }) = serde_json::from_str(line)
        {
            let history = histories.entry(key_of(&resource_id)).or_default();
            record.with(|record| history.apply(record, now));
        }
    })?;
    histories.values_mut().for_each(History::end_past);
    Ok(histories)
}

fn maintain(daemon: &Rc<Daemon>) -> JoinHandle<()> {
    let daemon = daemon.clone();
    tokio::task::spawn_local(async move { daemon.maintain().await })
}
