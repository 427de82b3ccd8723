//! Machines: the daemon that ships, with the questions and records of a simulated watcher.

use std::cell::Cell;
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use scheduled_events_gate::config::Config;
use scheduled_events_gate::daemon::Daemon;
use scheduled_events_gate::driver::Question;
use scheduled_events_gate::engine::{Engine, Swap};
use scheduled_events_gate::event::Event;
use scheduled_events_gate::protocol::Answer;
use scheduled_events_gate::register::GroupRegister;
use scheduled_events_gate::store;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::stores::Store;

/// How long a daemon takes to finish its work at the start.
const SETTLE_TIME: Duration = Duration::from_secs(25);

const START_PAUSE: Duration = Duration::from_millis(20);

/// How many registers are written at a time.
const BATCH: usize = 64;

/// How often a watcher repeats its question to a gate.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// The longest preparation; each machine's takes another time.
const PREPARE_TIME: Duration = Duration::from_secs(10);

/// Idle machines of one group, of which as many as there are daemons may be out of service
/// together.
pub(crate) struct Fleet {
    machines: Vec<Machine>,
    /// An engine whose requests are not counted.
    observer: Box<dyn Engine>,
    events: Cell<u32>,
    _running: JoinSet<()>,
    _folder: TempDir,
}

struct Machine {
    name: String,
    audit: PathBuf,
    daemon: Rc<Daemon>,
}

impl Fleet {
    /// Starts this many machines with this heartbeat, and waits until they are idle.
    pub(crate) async fn start(store: &Store, count: usize, heartbeat: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let (mut running, mut machines) = (JoinSet::new(), Vec::new());
        for number in 0..count {
            let name = format!("cost-vmss_{number}");
            let audit = folder.path().join(&name);
            std::fs::write(&audit, "").expect("written");
            let config = format!(
                "engine = \"folder\"\nfolder.path = \"/nowhere\"\naudit = \"{}\"\nmetadata = \"http://127.0.0.1:1\"\n\
                 heartbeat = \"{heartbeat}\"\nsilent_after = \"40m\"\nforget_after = \"1h\"\nreturn_within = \"2h\"\n\
                 [[group]]\nname = \"cost\"\nmachines = [\"cost-*\"]\nmax_unavailable = {count}\n",
                audit.display()
            );
            let config = Config::parse(&config).expect("a configuration");
            let daemon = Daemon::new(config, name.as_str().into(), None, store.engine().await);
            let runs = daemon.clone();
            running.spawn_local(async move { runs.maintain().await });
            machines.push(Machine {
                name,
                audit,
                daemon,
            });
            // Machines do not all start at the same moment.
            sleep(START_PAUSE).await;
        }
        sleep(SETTLE_TIME).await;
        let observer = store.observer().await;
        Self {
            machines,
            observer,
            events: Cell::default(),
            _running: running,
            _folder: folder,
        }
    }

    /// Fills the group up to this many machines with machines that are only registers: no event
    /// affects them.
    pub(crate) async fn add_registers(&self, group: usize) {
        let first = &self.machines[0].name;
        let found = self
            .observer
            .read(&format!("machines/{first}"))
            .await
            .expect("read")
            .expect("a register");
        let names: Vec<_> = (self.machines.len()..group)
            .map(|number| format!("cost-vmss_{number}"))
            .collect();
        for batch in names.chunks(BATCH) {
            let writes = batch.iter().map(async |name| {
                let value = found
                    .value
                    .replace(&format!("\"{first}\""), &format!("\"{name}\""));
                let key = format!("machines/{name}");
                let swap = self
                    .observer
                    .swap(&key, None, &value)
                    .await
                    .expect("an answer");
                assert!(matches!(swap, Swap::Done(_)), "{name} is there already");
            });
            join_all(writes).await;
        }
    }

    /// Runs one event of the first `count` machines, from the first question until all slots are
    /// free.
    pub(crate) async fn have_event(&self, count: usize) {
        self.events.set(self.events.get() + 1);
        let id = format!("00000000-0000-4000-8000-{:012}", self.events.get());
        let affected = &self.machines[..count];
        let resources = affected
            .iter()
            .map(|machine| machine.name.as_str().into())
            .collect();
        let event = Event::new(&id, "Reboot", resources);
        join_all(
            affected
                .iter()
                .enumerate()
                .map(|(number, machine)| machine.prepares(&event, number)),
        )
        .await;
        for machine in affected {
            machine.record(
                &json!({"record": "change", "change": "started", "event_id": id, "mine": true}),
            );
        }
        sleep(Duration::from_secs(1)).await;
        for machine in affected {
            machine.record(
                &json!({"record": "change", "change": "completed", "event_id": id, "mine": true}),
            );
            machine.record(
                &json!({"record": "recover", "event_id": id, "event_ids": [id], "outcome": "done"}),
            );
        }
        loop {
            sleep(Duration::from_millis(200)).await;
            let (group, _) = store::read::<GroupRegister>(&*self.observer, "groups/cost")
                .await
                .expect("the group");
            if group.claims.is_empty() {
                break;
            }
        }
        // By then the daemon has begun its next task.
        sleep(Duration::from_secs(2)).await;
    }
}

impl Machine {
    /// Asks, prepares, and asks until somebody approves.
    async fn prepares(&self, event: &Event, number: usize) {
        self.ask_until(Question::Prepare, event).await;
        for outcome in ["begun", "ready"] {
            self.record(&json!({"record": "prepare", "event_id": event.id, "outcome": outcome}));
            let share = u32::try_from(number * 37 % 100).expect("a share");
            sleep(PREPARE_TIME * share / 200).await;
        }
        if self.ask_until(Question::Approve, event).await == Answer::Open {
            self.record(&json!({"record": "approval", "event_ids": [event.id], "status": 200}));
        }
    }

    async fn ask_until(&self, question: Question, event: &Event) -> Answer {
        loop {
            match self.daemon.answer(question, event.clone()).await {
                Ok(answer @ (Answer::Open | Answer::AnotherApproves { .. })) => return answer,
                Ok(Answer::Closed(_)) => {}
                Err(why) => println!("{}: {why}", self.name),
            }
            sleep(ASK_INTERVAL).await;
        }
    }

    fn record(&self, record: &Value) {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&self.audit)
            .expect("the audit file");
        writeln!(file, "{record}").expect("written");
    }
}
