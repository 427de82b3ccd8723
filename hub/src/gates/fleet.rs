//! The gate of a fleet, in which the hub takes part for machines without an agent.
//!
//! For each of them that has an event the hub runs what the machine's own daemon would be: it asks for the machine, marks it, and gives its
//! place back. The daemon learns from an audit file of the machine's own that the event is over and that the machine is back in service. The
//! machine is a member of the fleet only that long, so that it is not taken for one that is silent.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::record::EventRecord;
use scheduled_events_core::{GateAnswer, GatePhase};
use scheduled_events_fleet::config::Config;
use scheduled_events_fleet::daemon::Daemon;
use scheduled_events_fleet::engine;
use scheduled_events_fleet::gate::driver::Question;
use scheduled_events_fleet::gate::{Answer, Event};
use scheduled_events_fleet::log;
use scheduled_events_fleet::names::Name;
use scheduled_events_fleet::relay::hexadecimal::hexadecimal;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::journal::Journal;
use crate::store::MachineFacts;

/// How often it is tried to leave.
const LEAVE_RETRY: Duration = Duration::from_secs(1);

/// Nobody listens here: the metadata service of the hub's machine knows nothing of others.
const NO_METADATA: &str = "http://127.0.0.1:1";

/// The gate of a fleet.
pub(super) struct Fleet {
    config: Config,
    /// The folder of the audit files.
    folder: PathBuf,
    journal: Rc<Journal>,
    members: RefCell<HashMap<String, Rc<Member>>>,
}

/// A machine that takes part.
struct Member {
    daemon: Rc<Daemon>,
    maintenance: JoinHandle<()>,
    /// How often it has asked.
    asked: Cell<u64>,
    /// The last answer, so that each is logged once.
    answer: RefCell<String>,
}

impl Fleet {
    /// The gate of this configuration. Audit files of machines are in `folder`.
    ///
    /// # Errors
    /// A sentence: the configuration is invalid, or the folder cannot be made.
    pub(super) fn open(file: &Path, folder: &Path, journal: Rc<Journal>) -> Result<Self, String> {
        let config = Config { metadata: NO_METADATA.into(), metrics_file: None, ..Config::load(file)? };
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
        Ok(Self { config, folder: folder.to_owned(), journal, members: RefCell::default() })
    }

    /// Asks for a machine.
    pub(super) async fn ask(&self, phase: GatePhase, machine: &MachineFacts, event: &EventRecord) -> GateAnswer {
        let question = if phase == GatePhase::Prepare { Question::Prepare } else { Question::Approve };
        let (answer, why) = match self.answer(question, machine, event).await {
            Ok(Answer::Open) => (GateAnswer::Open, String::new()),
            Ok(Answer::AnotherApproves { by }) => (GateAnswer::AnotherApproves, format!("{by} approves")),
            Ok(Answer::Closed(why)) => (GateAnswer::Closed, why.to_string()),
            Err(problem) => (GateAnswer::Closed, problem),
        };
        let member = self.members.borrow().get(&machine.resource_id).cloned();
        let is_new = member.is_none_or(|member| member.answer.replace(why.clone()) != why);
        if is_new && !why.is_empty() {
            log::printable(&format!("gate {}: {why}", machine.name));
        }
        answer
    }

    async fn answer(&self, question: Question, machine: &MachineFacts, event: &EventRecord) -> Result<Answer, String> {
        let event = serde_json::to_value(event).and_then(serde_json::from_value::<Event>);
        let event = event.map_err(|error| error.to_string())?;
        let member = self.member(machine).await?;
        member.asked.set(member.asked.get() + 1);
        member.daemon.answer(question, event).await
    }

    async fn member(&self, machine: &MachineFacts) -> Result<Rc<Member>, String> {
        if let Some(member) = self.members.borrow().get(&machine.resource_id) {
            return Ok(member.clone());
        }
        let config = Config { audit: self.audit(&machine.resource_id), ..self.config.clone() };
        self.journal.copy(&machine.resource_id, &config.audit);
        let engine = engine::open(&config).await?;
        // Another event of this machine may have asked meanwhile.
        if let Some(member) = self.members.borrow().get(&machine.resource_id) {
            return Ok(member.clone());
        }
        let zone = Some(machine.zone.clone()).filter(|zone| !zone.is_empty());
        let daemon = Daemon::new(config, Name::from(machine.name.as_str()), zone, engine);
        let running = daemon.clone();
        let maintenance = tokio::task::spawn_local(async move { running.maintain().await });
        let member = Rc::new(Member { daemon, maintenance, asked: Cell::default(), answer: RefCell::default() });
        self.members.borrow_mut().insert(machine.resource_id.clone(), member.clone());
        Ok(member)
    }

    /// A machine has no event any more and is in service: it leaves the fleet once it has given back its place.
    pub(super) async fn leave(&self, resource_id: &str) {
        let Some(member) = self.members.borrow().get(resource_id).cloned() else { return };
        let asked = member.asked.get();
        // Until it has an event again, or has left already.
        let may_leave = || {
            let found = self.members.borrow().get(resource_id).cloned();
            member.asked.get() == asked && found.is_some_and(|found| Rc::ptr_eq(&found, &member))
        };
        loop {
            sleep(LEAVE_RETRY).await;
            if !may_leave() {
                return;
            }
            let left = member.daemon.leave().await;
            if !may_leave() {
                return;
            }
            match left {
                Ok(true) => break,
                Ok(false) => {}
                Err(why) => log::printable(&format!("warning: {resource_id} cannot leave the fleet yet: {why}")),
            }
        }
        member.maintenance.abort();
        self.members.borrow_mut().remove(resource_id);
        self.journal.end_copy(resource_id);
        let _ = std::fs::remove_file(self.audit(resource_id));
    }

    fn audit(&self, resource_id: &str) -> PathBuf {
        let digest = Sha256::digest(resource_id.to_ascii_lowercase());
        self.folder.join(format!("{}.audit", hexadecimal(&digest[..16])))
    }
}
