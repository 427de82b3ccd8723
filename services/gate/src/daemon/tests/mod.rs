//! The daemon's work for other machines and for its own, with registers in memory.

mod decisions;
mod marks;
mod members;
mod problems;
mod slots;

use super::*;
use crate::engine::memory::MemoryEngine;
use crate::engine::{Clock, Reply as EngineReply, Revision, StoreTime, Swap, Versioned};
use tokio::time::timeout;

use crate::protocol::Why;
use crate::register::{GroupRegister, Mark};

const CONFIG: &str = "engine = \"folder\"\nfolder.path = \"/x\"\n\
    [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 1\nper_zone = true\n";

const TWO_GROUPS: &str = "engine = \"folder\"\nfolder.path = \"/x\"\n\
    [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 2\n\
    [[group]]\nname = \"web\"\nmachines = [\"*\"]\nmax_unavailable = 2\n";

/// An event's register that contains nothing but a machine.
const EMPTY_EVENT: &str = r#"{"format":1,"event_type":"","resources":["a"],"marks":{},"go":null}"#;

fn machine_register(name: &str, zone: &str) -> String {
    let register = MachineRegister {
        machine: Some(name.into()),
        zone: Some(zone.into()),
        ..MachineRegister::default()
    };
    store::encode("", &register).expect("JSON")
}

async fn claims(daemon: &Daemon) -> Vec<String> {
    let groups = daemon.engine.list("groups/").await.expect("the groups");
    groups
        .into_iter()
        .filter(|(_, group)| group.value.contains("slots"))
        .map(|(key, _)| key)
        .collect()
}

/// One store for several daemons.
struct Shared(Rc<MemoryEngine>);

impl Engine for Shared {
    fn read<'a>(&'a self, key: &'a str) -> EngineReply<'a, Option<Versioned>> {
        self.0.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> EngineReply<'a, Swap> {
        self.0.swap(key, expected, value)
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> EngineReply<'a, bool> {
        self.0.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        self.0.list(prefix)
    }

    fn clock(&self) -> Option<Clock> {
        self.0.clock()
    }
}

/// Machines that share a store in memory, in virtual time, each with an audit file.
struct Fleet {
    folder: tempfile::TempDir,
    store: Rc<MemoryEngine>,
    config: String,
}

impl Fleet {
    /// A daemon of this machine that has just started, without background tasks.
    fn start(&self, name: &str) -> Rc<Daemon> {
        let config = format!(
            "audit = \"{}/{name}\"\n{}",
            self.folder.path().display(),
            self.config
        );
        let config = Config::parse(&config).expect("a configuration");
        Daemon::new(
            config,
            name.into(),
            None,
            Box::new(Shared(self.store.clone())),
        )
    }

    /// Runs the background tasks of these daemons for this long.
    async fn run(&self, daemons: &[&Rc<Daemon>], time: Duration) {
        let mut running = tokio::task::JoinSet::new();
        for daemon in daemons {
            let daemon = (*daemon).clone();
            running.spawn_local(async move { daemon.maintain().await });
        }
        sleep(time).await;
        running.abort_all();
        while running.join_next().await.is_some() {}
    }
}

fn run_fleet(config: &str, test: impl AsyncFnOnce(Fleet)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let folder = tempfile::tempdir().expect("a folder");
        test(Fleet {
            folder,
            store: Rc::default(),
            config: config.to_owned(),
        })
        .await;
    });
}

fn run(test: impl AsyncFnOnce(Rc<Daemon>)) {
    run_with(CONFIG, test);
}

/// Runs the test in virtual time, which advances when nothing else happens.
fn run_with(config: &str, test: impl AsyncFnOnce(Rc<Daemon>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let config = Config::parse(config).expect("a configuration");
    let daemon = || {
        Daemon::new(
            config,
            "a".into(),
            Some("1".into()),
            Box::new(MemoryEngine::default()),
        )
    };
    runtime
        .expect("a runtime")
        .block_on(async { test(daemon()).await });
}

/// The same, with an audit file.
fn run_with_audit(config: &str, test: impl AsyncFnOnce(Rc<Daemon>)) {
    let folder = tempfile::tempdir().expect("a folder");
    run_with(
        &format!("audit = \"{}/audit\"\n{config}", folder.path().display()),
        test,
    );
}

/// A daemon with an audit file and this store.
fn run_on(config: &str, engine: &Unreliable, test: impl AsyncFnOnce(Rc<Daemon>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("audit = \"{}/audit\"\n{config}", folder.path().display());
    let config = Config::parse(&config).expect("a configuration");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let daemon = || Daemon::new(config, "a".into(), None, Box::new(engine.clone()));
    runtime
        .expect("a runtime")
        .block_on(async { test(daemon()).await });
}

async fn put(daemon: &Daemon, key: &str, value: &str) {
    let revision = daemon
        .engine
        .read(key)
        .await
        .expect("read")
        .map(|found| found.revision);
    let swap = daemon
        .engine
        .swap(key, revision.as_ref(), value)
        .await
        .expect("written");
    assert!(matches!(swap, Swap::Done(_)));
}

/// Writes another machine's heartbeat.
async fn beat(daemon: &Daemon, name: &str, beat: u64) {
    let written = daemon.engine.clock().map(|clock| clock.now.0);
    let register = MachineRegister {
        machine: Some(name.into()),
        beat,
        written,
        ..MachineRegister::default()
    };
    put(
        daemon,
        &machine_key(&name.into()),
        &store::encode("", &register).expect("JSON"),
    )
    .await;
}

/// Whether the event's register has a mark of this machine.
async fn is_ready(daemon: &Daemon, event: &Event, name: &str) -> bool {
    let (register, _) = store::read::<EventRegister>(&*daemon.engine, &event.key())
        .await
        .expect("read");
    register.is_ready(&name.into())
}

async fn group(daemon: &Daemon, key: &str) -> GroupRegister {
    store::read(&*daemon.engine, key).await.expect("a group").0
}

fn event(resources: &[&str]) -> Event {
    Event::new(
        "e",
        "Reboot",
        resources.iter().map(|&name| name.into()).collect(),
    )
}

/// Appends a record to the audit file.
fn append(daemon: &Daemon, record: &str) {
    use std::io::Write as _;

    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&daemon.config.audit)
        .expect("a file");
    writeln!(file, "{record}").expect("written");
}

/// Appends a record to the audit file, and lets the daemon read it.
fn record(daemon: &Daemon, record: &str) {
    append(daemon, record);
    daemon.read_records().expect("read");
}

fn is_over(daemon: &Daemon, id: &str) {
    record(
        daemon,
        &format!("{{\"record\":\"change\",\"change\":\"completed\",\"event_id\":{id:?}}}"),
    );
}

#[test]
fn the_registers_of_events_that_are_over_are_deleted_although_nobody_asked_about_them() {
    run_with_audit(CONFIG, async |daemon| {
        for key in [
            "events/past/0",
            "marks/past/0/b",
            "events/past/1",
            "events/open/0",
            "marks/open/0/b",
        ] {
            put(&daemon, key, EMPTY_EVENT).await;
        }
        is_over(&daemon, "PAST");
        let keys = async || {
            let mut keys = daemon.engine.list("events/").await.expect("the events");
            keys.extend(daemon.engine.list("marks/").await.expect("the marks"));
            keys.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        let all = keys().await;
        let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
        run(EVENT_KEPT / 2).await;
        assert_eq!(keys().await, all, "they stay for people to look at");
        // An event's age alone never ends it.
        run(EVENT_KEPT).await;
        assert_eq!(keys().await, ["events/open/0", "marks/open/0/b"]);
    });
}

#[test]
fn the_register_of_an_event_is_deleted_once_all_of_its_machines_are_forgotten() {
    run(async |daemon| {
        let event = |machines: &str| {
            format!(r#"{{"format":1,"event_type":"Reboot","resources":[{machines}],"marks":{{}}}}"#)
        };
        beat(&daemon, "alive", 1).await;
        beat(&daemon, "gone", 1).await;
        put(&daemon, "events/e1/0", &event(r#""gone""#)).await;
        put(&daemon, "events/e2/0", &event(r#""gone", "alive""#)).await;
        put(&daemon, "events/e3/0", &event(r#""a", "gone""#)).await;
        let keys = async || {
            let keys = daemon.engine.list("events/").await.expect("the events");
            keys.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        let all = keys().await;
        let lives = async |time: Duration| {
            for round in 0..time.as_secs() / daemon.config.heartbeat.as_secs() {
                beat(&daemon, "alive", round).await;
                daemon.look_at_machines().await.expect("the machines");
                if daemon.machines.borrow().has_forgotten {
                    daemon.delete_past_events().await.expect("no problem");
                }
                sleep(daemon.config.heartbeat).await;
            }
        };
        lives(daemon.config.forget_after).await;
        assert_eq!(
            keys().await,
            all,
            "a machine that is silent for long can come back"
        );
        lives(2 * daemon.config.silent_after).await;
        assert_eq!(keys().await, ["events/e2/0", "events/e3/0"]);
        assert_eq!(
            (
                daemon.engine.read("machines/gone").await,
                daemon.metrics().forgotten
            ),
            (Ok(None), 1)
        );
    });
}

/// Machines are updated one by one: this version would lose a later version's additions to a
/// register.
#[test]
fn a_register_of_another_format_is_not_deleted() {
    const LATER: &str = r#"{"format":9,"later":true}"#;
    run_with_audit(CONFIG, async |daemon| {
        for key in ["machines/a", "marks/past/0/b", "events/past/1"] {
            put(&daemon, key, LATER).await;
        }
        put(&daemon, "events/past/0", EMPTY_EVENT).await;
        put(&daemon, "events/past/2", EMPTY_EVENT).await;
        put(&daemon, "marks/past/2/b", "[").await;
        let problem = daemon.leave().await.expect_err("another format");
        assert!(
            problem
                .0
                .starts_with("the register machines/a has format 9, "),
            "{problem}"
        );
        is_over(&daemon, "past");
        sleep(EVENT_KEPT).await;
        daemon.delete_past_events().await.expect("no problem");
        let registers = daemon.engine.list("").await.expect("the registers");
        let keys: Vec<_> = registers.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "events/past/0",
                "events/past/1",
                "machines/a",
                "marks/past/0/b"
            ]
        );
    });
}

/// Both read and write in turn, so that no swap is refused.
#[test]
fn another_process_of_the_same_name_is_noticed() {
    run(async |daemon| {
        let mut heartbeat = Heartbeat::default();
        let is_alone = async |heartbeat: &mut Heartbeat| {
            daemon.beat_once(heartbeat).await.expect("a heartbeat");
            let beat = store::read::<MachineRegister>(&*daemon.engine, "machines/a")
                .await
                .expect("read")
                .0
                .beat;
            (daemon.problems.of(Subject::MachineName).is_none(), beat)
        };
        assert_eq!(is_alone(&mut heartbeat).await, (true, 1));
        assert_eq!(is_alone(&mut heartbeat).await, (true, 2));
        beat(&daemon, "A", 3).await;
        assert_eq!(is_alone(&mut heartbeat).await, (false, 4));
        assert!(daemon.metrics().engine_up, "the store answers");
        // The mark of one would count for both.
        for event_type in ["Reboot", "Preempt"] {
            let event = Event::new("e", event_type, ["a".into()].into());
            let answer = daemon.answer(Question::Approve, event).await;
            assert!(
                answer
                    .expect_err("no answer")
                    .to_string()
                    .contains("heartbeat of a: give each machine its own `machine`")
            );
        }
        assert_eq!(
            daemon.engine.list("events/").await,
            Ok(Vec::new()),
            "nothing was written"
        );
        assert_eq!(is_alone(&mut heartbeat).await, (true, 5));
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        // An operator freed it.
        let register = daemon
            .engine
            .read("machines/a")
            .await
            .expect("read")
            .expect("a register");
        assert!(
            daemon
                .engine
                .delete("machines/a", &register.revision)
                .await
                .expect("deleted")
        );
        assert_eq!(is_alone(&mut heartbeat).await, (true, 6));
        // The reply to its last heartbeat was lost, or its daemon restarted.
        beat(&daemon, "A", 11).await;
        heartbeat.last = None;
        assert_eq!(is_alone(&mut heartbeat).await, (true, 12));
    });
}

#[tokio::test]
async fn a_heartbeat_of_an_earlier_process_that_arrives_late_is_none_of_another_machine() {
    for (late, is_alone) in [(0, true), (1, true), (2, false)] {
        let engine = Unreliable::default();
        engine.late.set(late);
        let daemon = Daemon::new(
            Config::parse(CONFIG).expect("a configuration"),
            "a".into(),
            None,
            Box::new(engine),
        );
        let mut heartbeat = Heartbeat::default();
        daemon.beat_once(&mut heartbeat).await.expect("an answer");
        assert_eq!(
            daemon.problems.of(Subject::MachineName).is_none(),
            is_alone,
            "{late}"
        );
    }
}

#[test]
fn windows_are_open_by_the_clock_of_the_store() {
    let config = "engine = \"folder\"\nfolder.path = \"/x\"\n\
        [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 1\n\
        windows = [{ days = [\"Sun\"], from = \"00:00\", to = \"00:00\" }]\n";
    // Whatever day this machine's own clock has.
    for (time, is_open) in [
        ("2026-11-29T12:00:00Z", true),
        ("2026-11-30T12:00:00Z", false),
    ] {
        run_fleet(config, async |fleet| {
            let shown: jiff::Timestamp = time.parse().expect("a time");
            let shown = shown.as_millisecond().cast_unsigned();
            fleet.store.set_clock(StoreTime(shown));
            let daemon = fleet.start("a");
            let answer = daemon.answer(Question::Prepare, event(&["a"])).await;
            let is_closed = matches!(answer, Ok(Answer::Closed(Why::Window { .. })));
            assert!(
                if is_open {
                    answer == Ok(Answer::Open)
                } else {
                    is_closed
                },
                "{time}: {answer:?}"
            );
        });
    }
}

#[test]
fn an_event_of_other_machines_has_no_answer() {
    run(async |daemon| {
        for question in [Question::Prepare, Question::Approve] {
            let answer = daemon.answer(question, event(&["b", "c"])).await;
            let answer = answer.map_err(|error| error.to_string());
            assert_eq!(answer, Err("the event does not affect a".to_owned()));
        }
        assert_eq!(
            daemon.engine.list("").await,
            Ok(Vec::new()),
            "nothing was written"
        );
    });
}

/// Counts the reads of all groups.
#[derive(Default)]
struct Counting {
    registers: MemoryEngine,
    looks: Rc<Cell<u32>>,
}

impl Engine for Counting {
    fn read<'a>(&'a self, key: &'a str) -> EngineReply<'a, Option<Versioned>> {
        self.registers.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> EngineReply<'a, Swap> {
        self.registers.swap(key, expected, value)
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> EngineReply<'a, bool> {
        self.registers.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        self.looks
            .set(self.looks.get() + u32::from(prefix == "groups/"));
        self.registers.list(prefix)
    }

    fn clock(&self) -> Option<Clock> {
        self.registers.clock()
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_with_a_pause_is_looked_at_once_and_then_with_each_heartbeat() {
    let folder = tempfile::tempdir().expect("a folder");
    let pause = "max_unavailable = 1\npause = \"10m\"\n";
    let config = CONFIG.replace("max_unavailable = 1\nper_zone = true\n", pause);
    let config = format!("audit = \"{}/audit\"\n{config}", folder.path().display());
    let engine = Counting::default();
    let looks = engine.looks.clone();
    let config = Config::parse(&config).expect("a configuration");
    let daemon = Daemon::new(config, "a".into(), None, Box::new(engine));
    assert_eq!(
        daemon.answer(Question::Prepare, event(&["a"])).await,
        Ok(Answer::Open)
    );
    let lives = async |time| {
        let before = looks.get();
        let _ = timeout(time, daemon.maintain()).await;
        looks.get() - before
    };
    // Each call of `maintain` begins with a read.
    let beat = daemon.config.heartbeat;
    assert_eq!(lives(beat / 2).await, 1);
    record(
        &daemon,
        "{\"record\":\"prepare\",\"event_id\":\"e\",\"outcome\":\"ready\"}",
    );
    is_over(&daemon, "e");
    let recovered =
        "{\"record\":\"recover\",\"event_id\":\"e\",\"event_ids\":[\"e\"],\"outcome\":\"done\"}";
    let ends = async {
        sleep(beat / 2).await;
        record(&daemon, recovered);
    };
    let (count, ()) = tokio::join!(lives(beat * 3 / 4), ends);
    assert_eq!(count, 2, "at once");
    let minutes = Duration::from_secs(5 * 60);
    let count = lives(minutes).await;
    assert!(
        f64::from(count) <= minutes.as_secs_f64() / beat.as_secs_f64() + 1.0,
        "{count} looks in {minutes:?}"
    );
    assert_eq!(
        group(&daemon, "groups/db").await.held().len(),
        1,
        "it is a pause"
    );
    lives(2 * minutes).await;
    assert_eq!(group(&daemon, "groups/db").await.held().len(), 0);
}

/// A store that does not answer.
struct Down;

fn down<'a, T: 'a>() -> EngineReply<'a, T> {
    Box::pin(std::future::ready(Err(EngineError("it is down".into()))))
}

impl Engine for Down {
    fn read<'a>(&'a self, _: &'a str) -> EngineReply<'a, Option<Versioned>> {
        down()
    }

    fn swap<'a>(
        &'a self,
        _: &'a str,
        _: Option<&'a Revision>,
        _: &'a str,
    ) -> EngineReply<'a, Swap> {
        down()
    }

    fn delete<'a>(&'a self, _: &'a str, _: &'a Revision) -> EngineReply<'a, bool> {
        down()
    }

    fn list<'a>(&'a self, _: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        down()
    }

    fn clock(&self) -> Option<Clock> {
        None
    }
}

/// Which part of a write is lost. If it is the reply, the write is carried out.
#[derive(Clone, Copy, Default, PartialEq)]
enum Lost {
    #[default]
    Nothing,
    Request,
    Reply,
}

/// Registers of which those with these key prefixes cannot be reached, or none of which answer.
#[derive(Clone, Default)]
struct Unreliable {
    registers: Rc<MemoryEngine>,
    down: Rc<RefCell<Vec<&'static str>>>,
    hangs: Rc<Cell<bool>>,
    /// Which part of a write is lost.
    loses: Rc<Cell<Lost>>,
    /// How many heartbeats of an earlier process arrive just before the next writes.
    late: Rc<Cell<u64>>,
}

impl Unreliable {
    fn call<'a, T: 'a>(&self, key: &str, reply: EngineReply<'a, T>) -> EngineReply<'a, T> {
        if self.hangs.get() {
            return Box::pin(std::future::pending());
        }
        if self
            .down
            .borrow()
            .iter()
            .any(|prefix| key.starts_with(prefix))
        {
            down()
        } else {
            reply
        }
    }
}

impl Engine for Unreliable {
    fn read<'a>(&'a self, key: &'a str) -> EngineReply<'a, Option<Versioned>> {
        self.call(key, self.registers.read(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> EngineReply<'a, Swap> {
        let swap = async move {
            if let Some(left) = self.late.get().checked_sub(1) {
                self.late.set(left);
                let found = self.registers.read(key).await?.map(|found| found.revision);
                self.registers
                    .swap(key, found.as_ref(), &machine_register("a", "1"))
                    .await?;
            }
            if self.loses.get() == Lost::Request {
                return down().await;
            }
            let done = self.registers.swap(key, expected, value).await;
            if self.loses.get() == Lost::Reply {
                down().await
            } else {
                done
            }
        };
        self.call(key, Box::pin(swap))
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> EngineReply<'a, bool> {
        self.call(
            key,
            Box::pin(async move { self.registers.delete(key, expected).await }),
        )
    }

    fn list<'a>(&'a self, prefix: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        self.call(prefix, self.registers.list(prefix))
    }

    fn clock(&self) -> Option<Clock> {
        self.registers.clock()
    }
}

#[tokio::test]
async fn only_a_preempt_of_one_machine_has_an_answer_without_the_store() {
    let config = Config::parse(CONFIG).expect("a configuration");
    let daemon = Daemon::new(config, "a".into(), None, Box::new(Down));
    for question in [Question::Prepare, Question::Approve] {
        for (event_type, resources, is_answered) in [
            ("Preempt", ["a", "a"], true),
            ("Preempt", ["a", "b"], false),
            ("Reboot", ["a", "a"], false),
        ] {
            let event = Event::new("e", event_type, resources.map(Into::into).into());
            let answer = daemon.answer(question, event).await;
            let expected = if is_answered {
                Ok(Answer::Open)
            } else {
                Err(EngineError("it is down".to_owned()).into())
            };
            assert_eq!(answer, expected, "{event_type} of {resources:?}");
        }
    }
}
