//! Daemons without watchers: a session for each machine would take too long, so a task asks in its
//! place.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Resource, getrlimit, setrlimit};
use scheduled_events_common::names::Name;
use scheduled_events_gate::config::Config;
use scheduled_events_gate::daemon::Daemon;
use scheduled_events_gate::driver::Question;
use scheduled_events_gate::event::Event;
use scheduled_events_gate::protocol::Answer;
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};

use crate::engine::{Connection, Count, Server};
use crate::random::Random;
use crate::world::{Status, World};

/// The watcher's pause between two questions.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Daemons that share a store, in virtual time.
struct Crowd {
    names: Vec<String>,
    server: Rc<Server>,
    world: Rc<RefCell<World>>,
    random: RefCell<Random>,
    limit: usize,
}

/// The result of one event for each machine, all announced together.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) violations: Vec<String>,
    /// The time until the last one was over.
    pub(crate) duration: Duration,
    pub(crate) questions: u64,
    /// By how many places an event was later than in the order of `NotBefore`, at most.
    pub(crate) overtaken: usize,
    pub(crate) on_events: Count,
    pub(crate) on_groups: Count,
    pub(crate) on_machines: Count,
}

impl Queue {
    /// All operations except heartbeats.
    pub(crate) fn operations(&self) -> u64 {
        let Count { reads, lists, .. } = self.on_machines;
        self.on_events.operations() + self.on_groups.operations() + reads + lists
    }

    pub(crate) fn bytes(&self) -> u64 {
        [self.on_events, self.on_groups, self.on_machines]
            .map(|count| count.bytes)
            .into_iter()
            .sum()
    }
}

/// The maximum number of machines of one process: each has its audit file open.
pub(crate) fn most_machines() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the limit may be raised to its maximum");
    limit.maximum.map_or(usize::MAX, |files| {
        usize::try_from(files)
            .expect("a number of files")
            .saturating_sub(100)
    })
}

pub(crate) fn in_virtual_time<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), simulation)
}

/// The requests and bytes of this many idle machines in this time.
pub(crate) fn idle(machines: usize, time: Duration) -> Count {
    in_virtual_time(async {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = folder.path().join("audit");
        std::fs::write(&audit, "").expect("written");
        let crowd = Crowd::new(machines, 1, 1);
        let mut running = JoinSet::new();
        for number in 0..machines {
            let daemon = crowd.daemon(number, &audit);
            let late = crowd.between((0, 30_000));
            running.spawn_local(async move {
                sleep(late).await;
                daemon.maintain().await;
            });
        }
        // By now, all have looked for leftovers of an earlier process.
        sleep(Duration::from_secs(60)).await;
        let total = || ["events", "groups", "machines"].map(|kind| crowd.server.count(kind));
        let before = total();
        sleep(time).await;
        let mut grown = Count::default();
        for (before, after) in before.into_iter().zip(total()) {
            grown.reads += after.reads - before.reads;
            grown.writes += after.writes - before.writes;
            grown.lists += after.lists - before.lists;
            grown.bytes += after.bytes - before.bytes;
        }
        grown
    })
}

/// One event for each machine, all announced at once in one group, of which `limit` may be out of
/// service.
pub(crate) fn queue(machines: usize, limit: usize) -> Queue {
    in_virtual_time(async {
        let (folder, begin) = (tempfile::tempdir().expect("a folder"), Instant::now());
        let crowd = Rc::new(Crowd::new(machines, limit, machines));
        let granted = Rc::new(RefCell::new(Vec::new()));
        let (mut daemons, mut watchers) = (JoinSet::new(), JoinSet::new());
        for number in 0..machines {
            let audit = folder.path().join(&crowd.names[number]);
            let daemon = crowd.daemon(number, &audit);
            let (late, maintained) = (crowd.between((0, 30_000)), daemon.clone());
            daemons.spawn_local(async move {
                sleep(late).await;
                maintained.maintain().await;
            });
            let (crowd, granted) = (crowd.clone(), granted.clone());
            watchers
                .spawn_local(async move { crowd.watch(number, &daemon, &audit, &granted).await });
        }
        let mut questions = 0;
        while let Some(ended) = watchers.join_next().await {
            questions += ended.expect("a watcher");
        }
        daemons.abort_all();
        while daemons.join_next().await.is_some() {}
        let places = granted
            .borrow()
            .iter()
            .enumerate()
            .map(|(at, place)| at.saturating_sub(*place))
            .max();
        let violations = crowd.world.borrow().violations.clone();
        let [on_events, on_groups, on_machines] =
            ["events", "groups", "machines"].map(|kind| crowd.server.count(kind));
        let overtaken = places.expect("an event");
        Queue {
            violations,
            duration: begin.elapsed(),
            questions,
            overtaken,
            on_events,
            on_groups,
            on_machines,
        }
    })
}

impl Crowd {
    /// Starts the machines. The first `events` machines have an event of their own.
    fn new(machines: usize, limit: usize, events: usize) -> Self {
        let names: Vec<String> = (0..machines)
            .map(|number| format!("vm_{number:05}"))
            .collect();
        let events = (0..events.min(machines))
            .map(|number| (Self::id(number), vec![number]))
            .collect();
        let world = World::new(
            names.iter().map(|name| Name::from(name.as_str())).collect(),
            limit,
            events,
        );
        let world = Rc::new(RefCell::new(world));
        let server = Server::new(1, world.clone());
        Self {
            names,
            server,
            world,
            random: RefCell::new(Random::new(2)),
            limit,
        }
    }

    fn id(number: usize) -> String {
        format!("00000000-0000-4000-8000-{number:012x}")
    }

    fn between(&self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(self.random.borrow_mut().between(least, most))
    }

    fn daemon(&self, number: usize, audit: &Path) -> Rc<Daemon> {
        let name = &self.names[number];
        let config = format!(
            "machine = {name:?}\nengine = \"folder\"\nfolder.path = \"/nowhere\"\naudit = {:?}\n\
             [[group]]\nname = \"all\"\nmachines = [\"*\"]\nmax_unavailable = {}\n",
            audit.display().to_string(),
            self.limit
        );
        let engine = Connection {
            server: self.server.clone(),
            has_parts: true,
        };
        let config = Config::parse(&config).expect("a configuration");
        Daemon::new(config, Name::from(name.as_str()), None, Box::new(engine))
    }

    /// Asks, prepares, approves and recovers. Returns how many questions the daemon received.
    async fn watch(
        &self,
        number: usize,
        daemon: &Daemon,
        audit: &Path,
        granted: &RefCell<Vec<usize>>,
    ) -> u64 {
        let (id, count) = (Self::id(number), self.names.len());
        let record = |record: Value| {
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(audit)
                .expect("the audit file");
            file.write_all(format!("{record}\n").as_bytes())
                .expect("written");
        };
        let change = |change: &str| {
            record(json!({ "record": "change", "change": change, "event_id": id, "mine": true }));
        };
        // The position of the event in the order of `NotBefore`. Those of neighbours differ by
        // much: 7919 is a prime.
        let place = number * 7919 % count;
        let not_before = 1_700_000_000 + 60 * i64::try_from(place).expect("a small number");
        let resources = [Name::from(self.names[number].as_str())].into();
        let not_before = Some(Timestamp::from_second(not_before).expect("a time"));
        let event = Event {
            not_before,
            ..Event::new(&id, "Reboot", resources)
        };
        let mut questions = 0;
        let mut ask_until_open = async |question| loop {
            questions += 1;
            match daemon.answer(question, event.clone()).await {
                Ok(Answer::Open) => return,
                Ok(Answer::Closed(_)) => sleep(ASKED_AGAIN_AFTER).await,
                answer => panic!("found {answer:?}"),
            }
        };
        // Watchers do not poll at the same moment.
        sleep(Duration::from_secs(40) + self.between((0, 1000))).await;
        change("scheduled");
        ask_until_open(Question::Prepare).await;
        granted.borrow_mut().push(place);
        self.world.borrow_mut().prepares(number, number);
        record(json!({ "record": "prepare", "event_id": id, "outcome": "begun" }));
        sleep(self.between((10_000, 30_000))).await;
        self.world.borrow_mut().is_ready(number, number);
        record(json!({ "record": "prepare", "event_id": id, "outcome": "ready" }));
        ask_until_open(Question::Approve).await;
        self.world.borrow_mut().approved(number);
        sleep(Duration::from_secs(15)).await;
        self.world
            .borrow_mut()
            .set_status(number, Status::Over { approved: true });
        change("completed");
        self.world.borrow_mut().recovers(number);
        sleep(self.between((500, 3_000))).await;
        self.world.borrow_mut().has_recovered(number);
        record(
            json!({ "record": "recover", "event_id": id, "event_ids": [id], "outcome": "done", "mine": true }),
        );
        questions
    }
}
