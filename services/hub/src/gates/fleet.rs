//! The gate of a fleet, in which the hub takes part for machines without an agent.
//!
//! For each such machine that has an event, the hub runs the daemon that the machine would run: it
//! asks for the machine, marks it, and gives its place back. The daemon reads in an audit file of
//! the machine's own that the event is over and that the machine is back in service. The machine is
//! a member of the fleet only for that time, so that it never counts as silent.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::record::EventRecord;
use scheduled_events_common::hexadecimal::hexadecimal;
use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_core::{GateAnswer, GatePhase};
use scheduled_events_gate::config::Config;
use scheduled_events_gate::daemon::Daemon;
use scheduled_events_gate::driver::Question;
use scheduled_events_gate::engine::{self, Aged, Engine, EngineError};
use scheduled_events_gate::event::Event;
use scheduled_events_gate::members::{Presence, SilenceLimits, presence};
use scheduled_events_gate::protocol::Answer;
use scheduled_events_gate::register::MachineRegister;
use scheduled_events_gate::store::decode;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::journal::Journal;
use crate::notice::key_of;
use crate::store::MachineFacts;

/// How long leaving may take. The machine's next event waits for it.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// How long reading the registers of all machines may take.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// An address where no server listens: the metadata service of the hub's machine knows nothing
/// about other machines.
const NO_METADATA: &str = "http://127.0.0.1:1";

/// The gate of a fleet.
pub(super) struct Fleet {
    config: Config,
    /// The folder of the audit files.
    folder: PathBuf,
    journal: Rc<Journal>,
    /// The machines that take part, by their [keys](key_of).
    members: RefCell<HashMap<String, Rc<Member>>>,
    /// The keys of machines that an earlier process may have prepared.
    restored: RefCell<HashSet<String>>,
    /// The engine for reading all machines. It is kept, since it learns the store's clock.
    engine: OnceCell<Box<dyn Engine>>,
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
    /// The gate of this configuration. The machines' audit files are in `folder`.
    ///
    /// # Errors
    /// A sentence: the configuration is invalid, or the folder cannot be created.
    pub(super) fn open(file: &Path, folder: &Path, journal: Rc<Journal>) -> Result<Self, String> {
        let mut config = Config::load(file)?;
        config.metadata = NO_METADATA.into();
        config.metrics_file = None;
        config.by_hub = true;
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
        let (members, restored, engine) = (RefCell::default(), RefCell::default(), OnceCell::new());
        Ok(Self {
            config,
            folder: folder.to_owned(),
            journal,
            members,
            restored,
            engine,
        })
    }

    /// Asks the gate for a machine.
    pub(super) async fn ask(
        &self,
        phase: GatePhase,
        machine: &MachineFacts,
        event: &EventRecord,
    ) -> GateAnswer {
        let question = if phase == GatePhase::Prepare {
            Question::Prepare
        } else {
            Question::Approve
        };
        let (answer, why) = match self.answer(question, machine, event).await {
            Ok(Answer::Open) => (GateAnswer::Open, String::new()),
            Ok(Answer::AnotherApproves { by }) => {
                (GateAnswer::AnotherApproves, format!("{by} approves"))
            }
            Ok(Answer::Closed(why)) => (GateAnswer::Closed, why.to_string()),
            Err(problem) => (GateAnswer::Closed, problem),
        };
        let member = self.found(&key_of(&machine.resource_id));
        let is_new = member.is_none_or(|member| member.answer.replace(why.clone()) != why);
        if is_new && !why.is_empty() {
            log::printable(&format!("gate {}: {why}", machine.name));
        }
        answer
    }

    /// The machines that have a daemon of their own, which may be silent for a while.
    pub(super) async fn agents(&self) -> Result<HashSet<Name>, String> {
        let engine = self
            .engine
            .get_or_try_init(|| engine::open(&self.config))
            .await?;
        let listed = timeout(LOOK_TIME, engine.list_aged("machines/")).await;
        let listed = listed
            .map_err(|_| "no answer")?
            .map_err(|why| why.to_string())?;
        let Config {
            silent_after,
            forget_after,
            ..
        } = self.config;
        let name = |aged: Aged| {
            let of_key = Name::from(aged.key.trim_start_matches("machines/"));
            // Nothing but its existence is known about a machine whose register cannot be read.
            let Ok(register) = decode::<MachineRegister>(&aged.key, &aged.register.value) else {
                return Some(of_key);
            };
            let presence = presence(
                &register,
                aged.written,
                engine.clock(),
                SilenceLimits {
                    silent_after,
                    forget_after,
                },
            );
            let is_agent = !register.by_hub && presence != Presence::Gone;
            is_agent.then(|| register.machine.unwrap_or(of_key))
        };
        Ok(listed.into_iter().filter_map(name).collect())
    }

    /// Adds a machine that has an event from an earlier run, and may have a place.
    pub(super) async fn join(&self, machine: &MachineFacts) {
        self.restored
            .borrow_mut()
            .insert(key_of(&machine.resource_id));
        if let Err(why) = self.member(machine).await {
            log::printable(&format!(
                "warning: {} cannot join the fleet: {why}",
                machine.resource_id
            ));
        }
    }

    async fn answer(
        &self,
        question: Question,
        machine: &MachineFacts,
        event: &EventRecord,
    ) -> Result<Answer, String> {
        let asked = serde_json::to_value(event).and_then(serde_json::from_value::<Event>);
        let asked = asked.map_err(|error| error.to_string())?;
        let key = key_of(&machine.resource_id);
        let is_new = self.found(&key).is_none() && !self.restored.borrow().contains(&key);
        let member = self.member(machine).await?;
        if is_new {
            self.journal.begin_copy(&key, event);
        }
        member.idle_since.set(None);
        member.daemon.answer(question, asked).await
    }

    async fn member(&self, machine: &MachineFacts) -> Result<Rc<Member>, String> {
        let key = key_of(&machine.resource_id);
        if let Some(member) = self.found(&key) {
            return Ok(member);
        }
        let mut config = self.config.clone();
        config.audit = self.audit(&key);
        self.journal.copy(&key, &config.audit);
        let engine = engine::open(&config).await?;
        // Another event of this machine may have asked meanwhile.
        if let Some(member) = self.found(&key) {
            return Ok(member);
        }
        let zone = Some(machine.zone.clone()).filter(|zone| !zone.is_empty());
        let daemon = Daemon::new(config, Name::from(machine.name.as_str()), zone, engine);
        Ok(self.insert(key, daemon))
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
    pub(super) async fn has_left(&self, resource_id: &str) -> bool {
        let key = key_of(resource_id);
        let Some(member) = self.found(&key) else {
            return true;
        };
        if self.journal.write_copy(&key).is_err() {
            return false;
        }
        if !member.daemon.may_leave() {
            let since = member.idle_since.get().unwrap_or_else(Instant::now);
            member.idle_since.set(Some(since));
            // The records of an earlier process may be on another machine, or lost. This process
            // knows the machine's state.
            if self.restored.borrow().contains(&key) && since.elapsed() >= self.patience() {
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
        self.journal.end_copy(&key);
        let _ = std::fs::remove_file(self.audit(&key));
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

    fn audit(&self, key: &str) -> PathBuf {
        self.folder
            .join(format!("{}.audit", hexadecimal(&Sha256::digest(key)[..16])))
    }
}

fn maintain(daemon: &Rc<Daemon>) -> JoinHandle<()> {
    let daemon = daemon.clone();
    tokio::task::spawn_local(async move { daemon.maintain().await })
}

#[cfg(test)]
mod tests {
    use scheduled_events::record::{HookOutcome, Record};
    use scheduled_events_core::{Change, UnixSeconds};
    use scheduled_events_gate::engine::folder::FolderEngine;
    use tokio::time::sleep;

    use super::*;
    use crate::store::tests::Slow;

    const MACHINE: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web/providers\
                           /Microsoft.Compute/virtualMachineScaleSets/front/virtualMachines/1";

    fn event(id: &str) -> EventRecord {
        let resources = Some(vec!["front_1".to_owned()]);
        EventRecord {
            event_id: id.into(),
            event_type: Some("Reboot".into()),
            resources,
            ..EventRecord::default()
        }
    }

    #[test]
    fn a_machine_that_leaves_is_a_member_again_with_its_next_event_and_no_longer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let group = "[[group]]\nname = \"front\"\nmachines = [\"front_*\"]\nmax_unavailable = 1\n";
        let text = format!(
            "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\naudit = \"{}\"\nheartbeat = \"1s\"\n{group}",
            path("registers").display(),
            path("unused").display(),
        );
        std::fs::create_dir(path("registers")).expect("a folder");
        std::fs::write(path("fleet.toml"), text).expect("written");
        let journal = Rc::new(Journal::open(&path("audit")).expect("an audit file"));
        let fleet =
            Fleet::open(&path("fleet.toml"), &path("gate"), journal.clone()).expect("valid");
        let machine = |id: &str| MachineFacts {
            resource_id: id.into(),
            name: "front_1".into(),
            ..MachineFacts::default()
        };
        let ended = |machine: &MachineFacts, id: &str| {
            let event = event(id);
            let change = Record::Change {
                change: Change::Completed,
                event: event.members(None),
            };
            journal.record(&machine.resource_id, change, UnixSeconds(0));
        };
        let over = |machine: &MachineFacts, id: &str| {
            let event = event(id);
            ended(machine, id);
            let outcome = Some(HookOutcome::Done);
            let recovery = Record::Recover {
                event_ids: &[id],
                outcome,
                event: event.members(None),
            };
            journal.record(&machine.resource_id, recovery, UnixSeconds(0));
        };
        let done = scheduled_events_common::program::block_on(async {
            let engine = FolderEngine::new(&path("registers"));
            let is_member = async || {
                engine
                    .read("machines/front_1")
                    .await
                    .expect("an answer")
                    .is_some()
            };
            // A fifth of the time, a heartbeat is in progress.
            let mut config = fleet.config.clone();
            config.audit = fleet.audit(&key_of(MACHINE));
            journal.copy(&key_of(MACHINE), &config.audit);
            let slow = Slow(
                FolderEngine::new(&path("registers")),
                Duration::from_millis(200),
                Duration::ZERO,
            );
            fleet.insert(
                key_of(MACHINE),
                Daemon::new(config, Name::from("front_1"), None, Box::new(slow)),
            );
            // The id of the next event, and its name of the machine, differ in case.
            let named = MACHINE.replace(
                "virtualMachineScaleSets/front/virtualMachines/1",
                "virtualMachines/FRONT_1",
            );
            for (machine, id, phase) in [
                (machine(MACHINE), "a", GatePhase::Prepare),
                (machine(&named.to_lowercase()), "b", GatePhase::Prepare),
                (machine(MACHINE), "c", GatePhase::Approve),
            ] {
                assert_eq!(
                    fleet.ask(phase, &machine, &event(id)).await,
                    GateAnswer::Open
                );
                sleep(Duration::from_secs(2)).await;
                assert!(
                    is_member().await
                        && !fleet.has_left(&machine.resource_id).await
                        && fleet.members.borrow().len() == 1
                );
                assert_eq!(
                    fleet.agents().await,
                    Ok(HashSet::new()),
                    "it is not taken for an agent's"
                );
                if id == "a" {
                    // The disk is full for a while.
                    std::fs::rename(path("gate"), path("away")).expect("renamed");
                    over(&machine, id);
                    std::fs::rename(path("away"), path("gate")).expect("renamed");
                } else if phase == GatePhase::Prepare {
                    over(&machine, id);
                } else {
                    // It was never out of service, and no recovery is recorded.
                    ended(&machine, id);
                }
                timeout(Duration::from_secs(60), async {
                    while !fleet.has_left(&machine.resource_id).await {
                        sleep(Duration::from_millis(100)).await;
                    }
                })
                .await
                .expect("it leaves");
                sleep(Duration::from_secs(2)).await;
                assert!(!is_member().await && fleet.members.borrow().is_empty());
                assert_eq!(engine.list("events/").await.expect("an answer").len(), 0);
                assert_eq!(
                    std::fs::read_dir(path("gate")).expect("a folder").count(),
                    0
                );
            }
        });
        done.unwrap_or_else(|failure| panic!("{}", failure.message));
    }
}
