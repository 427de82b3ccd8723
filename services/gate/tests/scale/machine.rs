//! A machine: core's session in place of the watcher, and the daemon that ships. Both can be
//! killed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::limits::GATE_TIME;
use scheduled_events_common::names::Name;
use scheduled_events_core::{
    Action, Cause, GateAnswer, GatePhase, LastCall, Policy, Preparation, Report, Response, Rule,
    Session, SessionConfig, Step, UnixMillis, VmNames,
};
use scheduled_events_gate::config::Config;
use scheduled_events_gate::daemon::{AnswerError, Daemon};
use scheduled_events_gate::driver::Question;
use scheduled_events_gate::event::Event;
use scheduled_events_gate::protocol::Answer;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, sleep_until, timeout};

use crate::engine::{Connection, Server};
use crate::random::Random;
use crate::service::Service;
use crate::world::World;

/// More events than any simulation has.
type Watcher = Session<16>;

pub(crate) struct Machine {
    number: usize,
    name: String,
    config: Config,
    audit: PathBuf,
    service: Rc<Service>,
    server: Rc<Server>,
    world: Rc<RefCell<World>>,
    random: RefCell<Random>,
    /// How long a preparation takes, in milliseconds.
    drain: (u64, u64),
    has_parts: bool,
    /// The content of the state file.
    state: RefCell<Vec<u8>>,
    daemon: RefCell<Option<Rc<Daemon>>>,
}

/// The results that the watcher receives.
enum WatcherMessage {
    Response(u16, Rc<[u8]>),
    Failure(Cause),
    Prepared(u32, Preparation),
    Recovered(u32),
    Gate(u32, GateAnswer),
}

/// The session's next step, without what it borrows.
enum Task {
    Get,
    Post(Vec<u8>, Vec<String>),
    Wait(UnixMillis),
    Prepare(String, u32),
    Recover(Vec<String>, u32),
    Gate(String, GatePhase, u32),
    Cancel(u32),
    Change(Value),
    Nothing,
}

/// Which process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Watcher,
    Daemon,
    Both,
}

impl Machine {
    #[allow(clippy::too_many_arguments)] // They are the connections of a machine.
    pub(crate) fn new(
        number: usize,
        name: &str,
        folder: &Path,
        groups: &str,
        (drain, has_parts): ((u64, u64), bool),
        (service, server, world): (Rc<Service>, Rc<Server>, Rc<RefCell<World>>),
        random: Random,
    ) -> Rc<Self> {
        let audit = folder.join(name);
        let config = format!(
            "machine = {name:?}\nengine = \"folder\"\nfolder.path = \"/nowhere\"\naudit = {:?}\n{groups}",
            audit.display().to_string()
        );
        Rc::new(Self {
            number,
            name: name.to_owned(),
            config: Config::parse(&config).expect("a configuration"),
            audit,
            service,
            server,
            world,
            random: RefCell::new(random),
            drain,
            has_parts,
            state: RefCell::default(),
            daemon: RefCell::default(),
        })
    }

    /// Runs both processes. `kills` lists when which process is killed, and how long it is down;
    /// `None`: for ever.
    pub(crate) async fn live(self: Rc<Self>, mut kills: Vec<(Duration, Victim, Option<Duration>)>) {
        kills.sort_by_key(|(at, ..)| *at);
        let begin = tokio::time::Instant::now();
        let (mut watcher, mut daemon) = (JoinSet::new(), JoinSet::new());
        watcher.spawn_local(self.clone().watch());
        daemon.spawn_local(self.clone().run_daemon());
        for (at, victim, down) in kills {
            sleep_until(begin + at).await;
            if victim != Victim::Watcher {
                daemon.abort_all();
                killed(&mut daemon).await;
                *self.daemon.borrow_mut() = None;
            }
            if victim != Victim::Daemon {
                watcher.abort_all();
                killed(&mut watcher).await;
                self.world.borrow_mut().stops_preparing(self.number);
            }
            let Some(down) = down else {
                self.world.borrow_mut().dies(self.number);
                return;
            };
            sleep(down).await;
            if victim != Victim::Watcher {
                daemon.spawn_local(self.clone().run_daemon());
            }
            if victim != Victim::Daemon {
                watcher.spawn_local(self.clone().watch());
            }
        }
        tokio::select! {
            ended = watcher.join_next() => panic!("the watcher ended: {ended:?}"),
            ended = daemon.join_next() => panic!("the daemon ended: {ended:?}"),
        }
    }

    async fn run_daemon(self: Rc<Self>) {
        // Daemons do not start at the same moment.
        sleep(self.between((0, 10_000))).await;
        let engine = Box::new(Connection {
            server: self.server.clone(),
            has_parts: self.has_parts,
        });
        let daemon = Daemon::new(
            self.config.clone(),
            Name::from(self.name.as_str()),
            None,
            engine,
        );
        *self.daemon.borrow_mut() = Some(daemon.clone());
        daemon.maintain().await;
    }

    fn between(&self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(self.random.borrow_mut().between(least, most))
    }

    /// The watcher: carries out the session's steps, as the command does.
    async fn watch(self: Rc<Self>) {
        let names = [self.name.as_str()];
        let config = SessionConfig {
            policy: Policy::new(&[Rule::new(Action::Prepare)]).expect("one rule"),
            gate: true,
            // A last call may take more machines out of service than the limit of S4.
            last_call: LastCall::Never,
            seed: self.random.borrow_mut().next(),
            ..SessionConfig::new(VmNames::new(&names))
        };
        sleep(self.between((0, 1000))).await;
        let mut session = Box::new(Watcher::new(&config).expect("a session"));
        if !self.state.borrow().is_empty() {
            session.restore(&self.state.borrow()).expect("a snapshot");
        }
        let mut audit = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.audit)
            .expect("the audit file");
        let (sender, mut receiver) = unbounded_channel();
        // Everything that it started ends with it.
        let mut tasks = JoinSet::new();
        let mut commands: HashMap<u32, AbortHandle> = HashMap::new();
        loop {
            let now = self.service.now();
            let task = task(&mut session, now, &self.name);
            if session.is_changed() {
                let mut buffer = vec![0; Watcher::SNAPSHOT_MAX];
                let length = session.snapshot(&mut buffer).expect("a snapshot");
                buffer.truncate(length);
                *self.state.borrow_mut() = buffer;
                session.saved();
            }
            match task {
                Task::Nothing => {}
                Task::Change(record) => write(&mut audit, &record),
                Task::Get => {
                    let (machine, sender) = (self.clone(), sender.clone());
                    tasks.spawn_local(async move {
                        let _ = sender.send(match machine.service.get().await {
                            Ok((status, body)) => WatcherMessage::Response(status, body),
                            Err(cause) => WatcherMessage::Failure(cause),
                        });
                    });
                }
                Task::Post(body, ids) => {
                    let (machine, sender) = (self.clone(), sender.clone());
                    let mut audit = audit.try_clone().expect("the audit file");
                    tasks.spawn_local(async move {
                        let result = machine.service.post(&body).await;
                        let status = result.ok();
                        write(
                            &mut audit,
                            &json!({"record": "approval", "event_ids": ids, "status": status}),
                        );
                        let _ = sender.send(match result {
                            Ok(status) => WatcherMessage::Response(status, Rc::default()),
                            Err(cause) => WatcherMessage::Failure(cause),
                        });
                    });
                }
                Task::Prepare(id, attempt) => {
                    let command =
                        tasks.spawn_local(self.clone().prepare(id, attempt, sender.clone()));
                    commands.insert(attempt, command);
                }
                Task::Recover(ids, attempt) => {
                    let command =
                        tasks.spawn_local(self.clone().recover(ids, attempt, sender.clone()));
                    commands.insert(attempt, command);
                }
                Task::Gate(id, phase, attempt) => {
                    let command =
                        tasks.spawn_local(self.clone().ask(id, phase, attempt, sender.clone()));
                    commands.insert(attempt, command);
                }
                Task::Cancel(attempt) => {
                    if let Some(command) = commands.remove(&attempt) {
                        command.abort();
                    }
                    self.world.borrow_mut().stops_preparing(self.number);
                    let _ = session.prepared(attempt, Preparation::Failed);
                    let _ = session.gate_answered(attempt, GateAnswer::Closed, now);
                    let _ = session.recovered(attempt, false, now);
                }
                Task::Wait(until) => {
                    let message = tokio::select! {
                        message = receiver.recv() => message,
                        () = sleep_until(self.service.instant(until)) => None,
                    };
                    let now = self.service.now();
                    match message {
                        None => {}
                        Some(WatcherMessage::Response(status, body)) => {
                            session.on_response(
                                &Response {
                                    status,
                                    body: &body,
                                    retry_after: None,
                                },
                                now,
                            );
                        }
                        Some(WatcherMessage::Failure(cause)) => {
                            session.on_failure(cause, now);
                        }
                        Some(WatcherMessage::Prepared(attempt, preparation)) => {
                            let _ = session.prepared(attempt, preparation);
                        }
                        Some(WatcherMessage::Recovered(attempt)) => {
                            let _ = session.recovered(attempt, true, now);
                        }
                        Some(WatcherMessage::Gate(attempt, answer)) => {
                            let _ = session.gate_answered(attempt, answer, now);
                        }
                    }
                    while let Some(ended) = tasks.try_join_next() {
                        assert!(!ended.is_err_and(|error| error.is_panic()), "a task failed");
                    }
                }
            }
        }
    }

    async fn prepare(
        self: Rc<Self>,
        id: String,
        attempt: u32,
        sender: UnboundedSender<WatcherMessage>,
    ) {
        let index = self.world.borrow().event_index(&id);
        self.world.borrow_mut().prepares(self.number, index);
        sleep(self.between(self.drain)).await;
        self.world.borrow_mut().is_ready(self.number, index);
        self.audit(&json!({"record": "prepare", "event_id": id, "outcome": "ready"}));
        let _ = sender.send(WatcherMessage::Prepared(attempt, Preparation::Ready));
    }

    async fn recover(
        self: Rc<Self>,
        ids: Vec<String>,
        attempt: u32,
        sender: UnboundedSender<WatcherMessage>,
    ) {
        self.world.borrow_mut().recovers(self.number);
        sleep(self.between((500, 3_000))).await;
        self.world.borrow_mut().has_recovered(self.number);
        self.audit(
            &json!({"record": "recover", "event_id": ids[0], "event_ids": ids, "outcome": "done"}),
        );
        let _ = sender.send(WatcherMessage::Recovered(attempt));
    }

    async fn ask(
        self: Rc<Self>,
        id: String,
        phase: GatePhase,
        attempt: u32,
        sender: UnboundedSender<WatcherMessage>,
    ) {
        let resources = self
            .service
            .script(&id)
            .resources
            .iter()
            .map(|name| Name::from(name.as_str()))
            .collect();
        let event = Event::new(&id, "Reboot", resources);
        let question = match phase {
            GatePhase::Prepare => Question::Prepare,
            GatePhase::Approve => Question::Approve,
        };
        let daemon = self.daemon.borrow().clone();
        // Without a daemon there is no answer.
        let answer = match daemon {
            Some(daemon) => timeout(GATE_TIME, daemon.answer(question, event))
                .await
                .unwrap_or(Err(AnswerError::Late)),
            None => Err(AnswerError::Late),
        };
        let answer = match answer {
            Ok(Answer::Open) => GateAnswer::Open,
            Ok(Answer::AnotherApproves { .. }) => GateAnswer::AnotherApproves,
            Ok(Answer::Closed(_)) | Err(_) => GateAnswer::Closed,
        };
        let _ = sender.send(WatcherMessage::Gate(attempt, answer));
    }

    fn audit(&self, record: &Value) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.audit)
            .expect("the audit file");
        write(&mut file, record);
    }
}

/// Waits until the killed process is gone.
async fn killed(process: &mut JoinSet<()>) {
    while let Some(ended) = process.join_next().await {
        assert!(
            !ended.is_err_and(|error| error.is_panic()),
            "it failed before it was killed"
        );
    }
}

fn write(file: &mut File, record: &Value) {
    file.write_all(format!("{record}\n").as_bytes())
        .expect("written");
}

/// The session's next step.
fn task(session: &mut Watcher, now: UnixMillis, name: &str) -> Task {
    match session.take_step(now) {
        Step::Get { .. } => Task::Get,
        Step::Post { body, .. } => {
            let body = body.to_vec();
            let ids = session.posted().map(|id| id.as_str().to_owned()).collect();
            Task::Post(body, ids)
        }
        Step::Wait { until } => Task::Wait(until),
        Step::Prepare { event, attempt, .. } => {
            Task::Prepare(event.event_id().as_str().to_owned(), attempt)
        }
        Step::Recover {
            events, attempt, ..
        } => {
            let ids = events.iter().map(|event| event.event_id().to_string());
            Task::Recover(ids.collect(), attempt)
        }
        Step::Gate {
            event,
            phase,
            attempt,
        } => Task::Gate(event.event_id().as_str().to_owned(), phase, attempt),
        Step::Cancel { attempt } => Task::Cancel(attempt),
        Step::Report(Report::Change { change, event }) => Task::Change(json!({
            "record": "change",
            "change": change.to_string(),
            "event_id": event.event_id().as_str(),
            "mine": event.mine(),
        })),
        Step::Report(Report::Untracked(_) | Report::Problem(_)) => {
            panic!("{name}: every event is tracked and readable")
        }
        Step::Report(Report::Decision { .. } | Report::LastCall { .. } | Report::NoAdvice) => {
            Task::Nothing
        }
    }
}
