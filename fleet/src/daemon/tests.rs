//! What the daemon does for others and for itself, with registers in memory.

use super::*;
use crate::engine::memory::MemoryEngine;
use crate::engine::{Reply as EngineReply, Versioned};
use crate::gate::Why;

const CONFIG: &str = "engine = \"folder\"\nfolder.path = \"/x\"\n\
    [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 1\nper_zone = true\n";

fn machine_register(name: &str, zone: &str) -> String {
    let register =
        MachineRegister { machine: Some(name.into()), zone: Some(zone.into()), ..MachineRegister::default() };
    serde_json::to_string(&register).expect("JSON")
}

async fn claims(daemon: &Daemon) -> Vec<String> {
    let groups = daemon.engine.list("groups/").await.expect("the groups");
    groups.into_iter().filter(|(_, group)| group.value.contains("slots")).map(|(key, _)| key).collect()
}

fn run(test: impl AsyncFnOnce(Rc<Daemon>)) {
    run_with(CONFIG, test);
}

/// In virtual time, which passes when nothing else happens.
fn run_with(config: &str, test: impl AsyncFnOnce(Rc<Daemon>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let config = Config::parse(config).expect("a configuration");
    let daemon = || Daemon::new(config, "a".into(), Some("1".into()), Box::new(MemoryEngine::default()));
    runtime.expect("a runtime").block_on(async { test(daemon()).await });
}

/// The same with an audit file.
fn run_with_audit(config: &str, test: impl AsyncFnOnce(Rc<Daemon>)) {
    let folder = tempfile::tempdir().expect("a folder");
    run_with(&format!("audit = \"{}/audit\"\n{config}", folder.path().display()), test);
}

async fn put(daemon: &Daemon, key: &str, value: &str) {
    let revision = daemon.engine.read(key).await.expect("read").map(|found| found.revision);
    let swap = daemon.engine.swap(key, revision.as_ref(), value).await.expect("written");
    assert!(matches!(swap, Swap::Done(_)));
}

async fn beat(daemon: &Daemon, name: &str, beat: u64) {
    let register = MachineRegister { machine: Some(name.into()), beat, ..MachineRegister::default() };
    put(daemon, &machine_key(&name.into()), &serde_json::to_string(&register).expect("JSON")).await;
}

/// Whether the event's register has a mark of this machine.
async fn is_ready(daemon: &Daemon, event: &Event, name: &str) -> bool {
    let (register, _) = driver::read::<EventRegister>(&*daemon.engine, &event.key()).await.expect("read");
    register.is_ready(&name.into())
}

async fn group(daemon: &Daemon, key: &str) -> GroupRegister {
    driver::read(&*daemon.engine, key).await.expect("a group").0
}

fn event(resources: &[&str]) -> Event {
    Event::new("e", "Reboot", resources.iter().map(|&name| name.into()).collect())
}

/// Appends a record to the audit file.
fn append(daemon: &Daemon, record: &str) {
    use std::io::Write as _;

    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&daemon.config.audit).expect("a file");
    writeln!(file, "{record}").expect("written");
}

/// Appends a record to the audit file, and lets the daemon read it.
fn record(daemon: &Daemon, record: &str) {
    append(daemon, record);
    daemon.audit.borrow_mut().read_new(Instant::now()).expect("read");
}

fn is_over(daemon: &Daemon, id: &str) {
    record(daemon, &format!("{{\"record\":\"change\",\"change\":\"completed\",\"event_id\":{id:?}}}"));
}

#[test]
fn the_registers_of_events_that_are_over_are_deleted_although_nobody_asked_about_them() {
    run_with_audit(CONFIG, async |daemon| {
        for key in ["events/past/0", "marks/past/0/b", "events/past/1", "events/open/0", "marks/open/0/b"] {
            put(&daemon, key, "{}").await;
        }
        is_over(&daemon, "PAST");
        let keys = async || {
            let mut keys = daemon.engine.list("events/").await.expect("the events");
            keys.extend(daemon.engine.list("marks/").await.expect("the marks"));
            keys.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        let all = keys().await;
        sleep(EVENT_KEPT / 2).await;
        daemon.delete_past_events().await.expect("no problem");
        assert_eq!(keys().await, all, "they stay for people to look at");
        sleep(EVENT_KEPT / 2).await;
        daemon.delete_past_events().await.expect("no problem");
        assert_eq!(keys().await, ["events/open/0", "marks/open/0/b"]);
        // It does so by itself, and an event is never over because of its age.
        put(&daemon, "events/past/0", "{}").await;
        let _ = timeout(3 * CLEAN_UP_INTERVAL, daemon.maintain()).await;
        assert_eq!(keys().await, ["events/open/0", "marks/open/0/b"]);
    });
}

#[test]
fn the_register_of_an_event_is_deleted_once_all_of_its_machines_are_forgotten() {
    run(async |daemon| {
        let event = |machines: &str| format!(r#"{{"event_type":"Reboot","resources":[{machines}],"marks":{{}}}}"#);
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
        let looks = async |times: u32| {
            for _ in 0..times {
                daemon.look_at_machines().await.expect("the machines");
                daemon.delete_past_events().await.expect("no problem");
            }
        };
        looks(3).await;
        assert_eq!(keys().await, all, "a machine that is silent for long can come back");
        let register = daemon.engine.read(&machine_key(&"gone".into())).await.expect("read").expect("a register");
        assert!(daemon.engine.delete(&machine_key(&"gone".into()), &register.revision).await.expect("deleted"));
        looks(1).await;
        assert_eq!(keys().await, all, "it is not deleted at the first look");
        put(&daemon, "events/e1/0", &event(r#""gone""#)).await;
        looks(1).await;
        assert_eq!(keys().await, all, "somebody has changed it");
        beat(&daemon, "GONE", 1).await;
        looks(1).await;
        assert_eq!(keys().await, all, "the machine is back");
        let register = daemon.engine.read(&machine_key(&"gone".into())).await.expect("read").expect("a register");
        assert!(daemon.engine.delete(&machine_key(&"gone".into()), &register.revision).await.expect("deleted"));
        looks(2).await;
        assert_eq!(keys().await, ["events/e2/0", "events/e3/0"]);
    });
}

/// Both read and write in their turn, so that no swap is refused.
#[test]
fn another_process_of_the_same_name_is_noticed() {
    run(async |daemon| {
        let is_alone = async || {
            daemon.beat_once().await.expect("a heartbeat");
            let beat = driver::read::<MachineRegister>(&*daemon.engine, "machines/a").await.expect("read").0.beat;
            (!daemon.problems.has(&["the machine's name"]), beat)
        };
        assert_eq!(is_alone().await, (true, 1));
        assert_eq!(is_alone().await, (true, 2));
        beat(&daemon, "A", 3).await;
        assert_eq!(is_alone().await, (false, 4));
        assert!(daemon.metrics().engine_up, "the store answers");
        assert_eq!(is_alone().await, (true, 5));
        // It was freed by hand.
        let register = daemon.engine.read("machines/a").await.expect("read").expect("a register");
        assert!(daemon.engine.delete("machines/a", &register.revision).await.expect("deleted"));
        assert_eq!(is_alone().await, (true, 6));
        // An old value, as a file server may have for a moment, is this process's own.
        daemon.beat.set(9);
        assert_eq!(is_alone().await, (true, 10));
        // The reply to its last heartbeat was lost, or it was started again.
        beat(&daemon, "A", 11).await;
        daemon.knows_beat.set(false);
        assert_eq!(is_alone().await, (true, 12));
    });
}

#[test]
fn an_event_of_other_machines_has_no_answer() {
    run(async |daemon| {
        for question in [Question::Prepare, Question::Approve] {
            let answer = daemon.answer(question, event(&["b", "c"])).await;
            assert_eq!(answer, Err("the event does not affect a".to_owned()));
        }
        assert_eq!(daemon.engine.list("").await, Ok(Vec::new()), "nothing was written");
    });
}

/// Counts the looks at all groups.
#[derive(Default)]
struct Counting {
    registers: MemoryEngine,
    looks: Rc<Cell<u32>>,
}

impl Engine for Counting {
    fn read<'a>(&'a self, key: &'a str) -> EngineReply<'a, Option<Versioned>> {
        self.registers.read(key)
    }

    fn swap<'a>(&'a self, key: &'a str, expected: Option<&'a Revision>, value: &'a str) -> EngineReply<'a, Swap> {
        self.registers.swap(key, expected, value)
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> EngineReply<'a, bool> {
        self.registers.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        self.looks.set(self.looks.get() + u32::from(prefix == "groups/"));
        self.registers.list(prefix)
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
    assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
    let lives = async |time| {
        let before = looks.get();
        let _ = timeout(time, daemon.maintain()).await;
        looks.get() - before
    };
    // Each call of `maintain` begins with a look.
    let beat = daemon.config.heartbeat;
    assert_eq!(lives(beat / 2).await, 1);
    record(&daemon, "{\"record\":\"prepare\",\"event_id\":\"e\",\"outcome\":\"ready\"}");
    is_over(&daemon, "e");
    let recovered = "{\"record\":\"recover\",\"event_id\":\"e\",\"event_ids\":[\"e\"],\"outcome\":\"done\"}";
    let ends = async {
        sleep(beat / 2).await;
        record(&daemon, recovered);
    };
    let (count, ()) = tokio::join!(lives(beat * 3 / 4), ends);
    assert_eq!(count, 2, "at once");
    let minutes = Duration::from_secs(5 * 60);
    let count = lives(minutes).await;
    assert!(f64::from(count) <= minutes.as_secs_f64() / beat.as_secs_f64() + 1.0, "{count} looks in {minutes:?}");
    assert_eq!(group(&daemon, "groups/db").await.held().len(), 1, "it is a pause");
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

    fn swap<'a>(&'a self, _: &'a str, _: Option<&'a Revision>, _: &'a str) -> EngineReply<'a, Swap> {
        down()
    }

    fn delete<'a>(&'a self, _: &'a str, _: &'a Revision) -> EngineReply<'a, bool> {
        down()
    }

    fn list<'a>(&'a self, _: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        down()
    }
}

#[tokio::test]
async fn only_a_preempt_of_one_machine_has_an_answer_without_the_store() {
    let config = Config::parse(CONFIG).expect("a configuration");
    let daemon = Daemon::new(config, "a".into(), None, Box::new(Down));
    for question in [Question::Prepare, Question::Approve] {
        for (event_type, resources, is_answered) in
            [("Preempt", ["a", "a"], true), ("Preempt", ["a", "b"], false), ("Reboot", ["a", "a"], false)]
        {
            let event = Event::new("e", event_type, resources.map(Into::into).into());
            let answer = daemon.answer(question, event).await;
            let expected = if is_answered { Ok(Answer::Open) } else { Err("it is down".to_owned()) };
            assert_eq!(answer, expected, "{event_type} of {resources:?}");
        }
    }
}

#[test]
fn a_slot_of_another_machine_is_freed_once_the_event_is_over_and_the_machine_silent() {
    run_with_audit(CONFIG, async |daemon| {
        let claim = r#"{"slots":["silent","alive","never-seen"],"by":["silent"],"at":1}"#;
        let register = format!(r#"{{"limit":1,"claims":{{"past":{claim},"open":{claim}}}}}"#);
        put(&daemon, "groups/db", &register).await;
        is_over(&daemon, "past");
        let slots = async |id: &str| {
            let register = group(&daemon, "groups/db").await;
            let slots = register.claims.get(id).map(|claim| claim.slots.clone()).unwrap_or_default();
            slots.iter().map(Name::to_string).collect::<Vec<_>>().join(" ")
        };
        let all = "alive never-seen silent";
        beat(&daemon, "silent", 1).await;
        for round in 0..=12 {
            beat(&daemon, "alive", round).await;
            daemon.look_at_machines().await.expect("the machines");
            daemon.look_at_groups().await.expect("the groups");
            assert_eq!(slots("open").await, all, "round {round}");
            assert_eq!(slots("past").await, if round == 12 { "alive" } else { all }, "round {round}");
            sleep(daemon.config.heartbeat).await;
        }
    });
}

#[test]
fn a_claim_that_was_freed_by_hand_is_not_relied_on() {
    let config = CONFIG.replace("per_zone = true", "");
    run_with(&config, async |daemon| {
        assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
        let register = r#"{"limit":1,"claims":{"other":{"slots":["b"],"by":["b"],"at":1}}}"#;
        put(&daemon, "groups/db", register).await;
        daemon.look_at_groups().await.expect("the groups");
        let answer = daemon.answer(Question::Approve, event(&["a"])).await;
        assert!(matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))), "{answer:?}");
    });
}

#[test]
fn a_percentage_is_of_the_machines_that_are_alive() {
    let config = CONFIG.replace("max_unavailable = 1\nper_zone = true", "max_unavailable = \"30%\"");
    run_with(&config, async |daemon| {
        let live: Vec<_> = (0..9).map(|index| format!("live_{index}")).collect();
        for index in 0..100 {
            beat(&daemon, &format!("gone_{index}"), 7).await;
        }
        for round in 0..2 {
            for name in &live {
                beat(&daemon, name, round).await;
            }
            daemon.look_at_machines().await.expect("the machines");
            assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
            // A daemon that has just started does not know who is alive, and is careful.
            daemon.events.borrow_mut().clear();
            let taken = group(&daemon, "groups/db").await.limit;
            assert_eq!(taken, [1, 3][usize::try_from(round).expect("a round")]);
        }
        sleep(daemon.config.silent_after).await;
        assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
        assert_eq!(group(&daemon, "groups/db").await.limit, 1, "all others are silent");
    });
}

#[test]
fn a_machine_counts_in_its_zone_before_it_is_in_the_store() {
    run(async |daemon| {
        // The store did not answer when the daemon was started, and knows a zone that this machine has left.
        daemon.engine.swap("machines/a", None, &machine_register("a", "3")).await.expect("written");
        daemon.engine.swap("machines/b", None, &machine_register("b", "2")).await.expect("written");
        assert_eq!(daemon.answer(Question::Prepare, event(&["a", "b"])).await, Ok(Answer::Open));
        assert_eq!(claims(&daemon).await, ["groups/db/zone-1", "groups/db/zone-2"]);
    });
}

#[test]
fn a_zone_that_becomes_known_later_counts_from_then_on() {
    run(async |daemon| {
        assert_eq!(daemon.answer(Question::Prepare, event(&["a", "b"])).await, Ok(Answer::Open));
        daemon.engine.swap("machines/b", None, &machine_register("b", "2")).await.expect("written");
        daemon.look_at_machines().await.expect("the machines");
        let answer = daemon.answer(Question::Approve, event(&["a", "b"])).await.expect("an answer");
        assert!(matches!(answer, Answer::Closed(_)), "{answer:?}");
        assert!(claims(&daemon).await.contains(&"groups/db/zone-2".to_owned()), "{:?}", claims(&daemon).await);
    });
}

/// A store whose registers with these beginnings do not answer now.
#[derive(Default)]
struct Unreliable {
    registers: MemoryEngine,
    down: Rc<RefCell<Vec<&'static str>>>,
}

impl Unreliable {
    fn is_down(&self, key: &str) -> bool {
        self.down.borrow().iter().any(|prefix| key.starts_with(prefix))
    }
}

impl Engine for Unreliable {
    fn read<'a>(&'a self, key: &'a str) -> EngineReply<'a, Option<Versioned>> {
        if self.is_down(key) { down() } else { self.registers.read(key) }
    }

    fn swap<'a>(&'a self, key: &'a str, expected: Option<&'a Revision>, value: &'a str) -> EngineReply<'a, Swap> {
        if self.is_down(key) { down() } else { self.registers.swap(key, expected, value) }
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> EngineReply<'a, bool> {
        if self.is_down(key) { down() } else { self.registers.delete(key, expected) }
    }

    fn list<'a>(&'a self, prefix: &'a str) -> EngineReply<'a, Vec<(String, Versioned)>> {
        if self.is_down(prefix) { down() } else { self.registers.list(prefix) }
    }
}

/// A daemon with an event that is over, for which another machine holds a slot, and a store that can be down.
fn run_with_slot_of_another(test: impl AsyncFnOnce(Rc<Daemon>, Rc<RefCell<Vec<&'static str>>>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("audit = \"{}/audit\"\n{CONFIG}", folder.path().display());
    let config = Config::parse(&config).expect("a configuration");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let engine = Unreliable::default();
        let down = engine.down.clone();
        let daemon = Daemon::new(config, "a".into(), Some("1".into()), Box::new(engine));
        beat(&daemon, "other", 1).await;
        let register = r#"{"limit":1,"claims":{"past":{"slots":["other"],"by":["other"],"at":1}}}"#;
        put(&daemon, "groups/db", register).await;
        is_over(&daemon, "past");
        test(daemon, down).await;
    });
}

#[test]
fn time_in_which_the_store_was_down_is_no_silence_of_another_machine() {
    run_with_slot_of_another(async |daemon, down| {
        let holds = async || group(&daemon, "groups/db").await.claims.contains_key("past");
        let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
        run(daemon.config.heartbeat).await;
        down.borrow_mut().push("");
        run(daemon.config.silent_after * 3).await;
        down.borrow_mut().clear();
        // The other machine could not raise its heartbeat either, and does so a moment later than this one looks.
        run(daemon.config.heartbeat).await;
        assert!(holds().await, "it had no time to show that it is alive");
        beat(&daemon, "other", 2).await;
        run(daemon.config.silent_after * 3 / 4).await;
        assert!(holds().await);
        run(daemon.config.silent_after / 2).await;
        assert!(!holds().await, "now it is silent");
    });
}

#[test]
fn heartbeats_that_cannot_be_read_are_no_silence() {
    // They could be read once, never, or there were none when they could be.
    for (was_read, has_register) in [(true, true), (false, true), (true, false)] {
        run_with_slot_of_another(async |daemon, down| {
            let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
            if !has_register {
                let key = machine_key(&"other".into());
                let register = daemon.engine.read(&key).await.expect("read").expect("a register");
                assert!(daemon.engine.delete(&key, &register.revision).await.expect("deleted"));
            }
            if was_read {
                run(daemon.config.heartbeat).await;
            }
            down.borrow_mut().push("machines/");
            run(daemon.config.silent_after * 3).await;
            assert!(group(&daemon, "groups/db").await.claims.contains_key("past"), "{was_read} {has_register}");
        });
    }
}

const TWO_GROUPS: &str = "engine = \"folder\"\nfolder.path = \"/x\"\n\
    [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 2\n\
    [[group]]\nname = \"web\"\nmachines = [\"*\"]\nmax_unavailable = 2\n";

/// The event gets another machine, and one of the groups does not admit that one.
#[test]
fn a_machine_that_is_out_of_service_gives_no_slot_back() {
    run_with(TWO_GROUPS, async |daemon| {
        assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
        let mut web = group(&daemon, "groups/web").await;
        let slots = ["c".into()].into();
        let claim = crate::gate::GroupChange::Claim { event_id: "other".into(), by: "c".into(), slots, limit: 2 };
        claim.apply(&mut web, 1);
        put(&daemon, "groups/web", &serde_json::to_string(&web).expect("JSON")).await;
        let answer = daemon.answer(Question::Approve, event(&["a", "b"])).await;
        assert!(matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))), "{answer:?}");
        for key in ["groups/db", "groups/web"] {
            assert!(group(&daemon, key).await.held().contains(&Name::from("a")), "{key}: it is prepared");
        }
    });
}

#[test]
fn a_group_that_is_full_takes_no_slot_of_another_group() {
    run_with(TWO_GROUPS, async |daemon| {
        let register = r#"{"limit":2,"claims":{"other":{"slots":["c","d"],"by":["c"],"at":1}}}"#;
        put(&daemon, "groups/web", register).await;
        let answer = daemon.answer(Question::Prepare, event(&["a"])).await;
        assert!(matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))), "{answer:?}");
        assert_eq!(daemon.engine.read("groups/db").await, Ok(None), "it was not even written");
    });
}

/// Marks machines as ready in the event's register.
async fn mark(daemon: &Daemon, event: &Event, names: &[&str]) {
    let (mut register, _) = driver::read::<EventRegister>(&*daemon.engine, &event.key()).await.expect("read");
    (register.event_type, register.resources) = (event.event_type.clone(), event.resources.clone());
    for name in names {
        crate::gate::EventChange::Mark((*name).into(), Mark::Ready).apply(&mut register, 1);
    }
    put(daemon, &event.key(), &serde_json::to_string(&register).expect("JSON")).await;
}

/// A mark that another machine has removed with the rest of a register is made again.
#[test]
fn a_mark_that_is_lost_is_made_again() {
    run_with(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let closed = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
        assert_eq!(daemon.answer(Question::Approve, event.clone()).await, closed);
        put(&daemon, &event.key(), &serde_json::to_string(&EventRegister::default()).expect("JSON")).await;
        assert_eq!(daemon.answer(Question::Approve, event.clone()).await, closed);
        assert!(is_ready(&daemon, &event, "a").await);
    });
}

#[test]
fn what_was_decided_before_an_event_was_over_does_not_count_when_it_comes_back() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        assert_eq!(daemon.answer(Question::Prepare, event.clone()).await, Ok(Answer::Open));
        mark(&daemon, &event, &["b"]).await;
        assert_eq!(daemon.answer(Question::Approve, event.clone()).await, Ok(Answer::Open));
        record(&daemon, r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#);
        record(&daemon, r#"{"record":"change","change":"cancelled","event_id":"e"}"#);
        record(&daemon, r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#);
        daemon.look_at_groups().await.expect("the groups");
        record(&daemon, r#"{"record":"change","change":"scheduled","event_id":"E"}"#);
        assert_eq!(daemon.answer(Question::Prepare, event.clone()).await, Ok(Answer::Open));
        assert!(group(&daemon, "groups/db").await.held().contains(&Name::from("a")), "it prepares without a slot");
        let answer = daemon.answer(Question::Approve, event.clone()).await;
        assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["b".into()]))));
        mark(&daemon, &event, &["b"]).await;
        for _ in 0..2 {
            assert_eq!(daemon.answer(Question::Approve, event.clone()).await, Ok(Answer::Open), "it is decided once");
        }
    });
}

#[test]
fn marks_that_were_made_since_an_event_came_back_stay() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        is_over(&daemon, "e");
        record(&daemon, r#"{"record":"change","change":"scheduled","event_id":"e"}"#);
        mark(&daemon, &event, &["b"]).await;
        assert_eq!(daemon.answer(Question::Approve, event).await, Ok(Answer::Open));
    });
}

#[test]
fn an_event_that_started_is_forced_only_if_nobody_can_have_decided() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let started = |id: &str| {
            record(&daemon, &format!(r#"{{"record":"change","change":"started","event_id":"{id}","mine":true}}"#));
        };
        let forced = async || {
            daemon.count_forced().await.expect("counted");
            daemon.forced.borrow().as_ref().map(|forced| forced.events.join(" ")).unwrap_or_default()
        };
        // Another machine has decided and approved.
        let decided = r#"{"event_type":"Reboot","resources":["a","b"],"marks":{},"go":{"by":"b","at":1}}"#;
        put(&daemon, "events/decided/0", decided).await;
        started("decided");
        assert_eq!(forced().await, "");
        // This one has approved a Preempt that names it alone.
        record(&daemon, r#"{"record":"approval","event_ids":["preempt"],"status":200}"#);
        started("preempt");
        assert_eq!(forced().await, "");
        // An approval that was refused is none, and nor is another machine's event this machine's.
        record(&daemon, r#"{"record":"approval","event_ids":["refused"],"status":400}"#);
        started("refused");
        record(&daemon, r#"{"record":"change","change":"started","event_id":"other","mine":false}"#);
        assert_eq!(forced().await, "refused");
        assert_eq!(forced().await, "refused");
        // The registers of one that is over are deleted, so that nothing is known of it.
        started("over");
        is_over(&daemon, "over");
        assert_eq!(forced().await, "refused");
        // One that is open has registers, or nobody was asked.
        started("unknown");
        assert_eq!(forced().await, "refused unknown");
        started("unknown");
        assert_eq!(forced().await, "refused unknown", "it is counted once");
        // What was approved before an event was over does not count when it comes back.
        is_over(&daemon, "preempt");
        record(&daemon, r#"{"record":"change","change":"scheduled","event_id":"preempt"}"#);
        started("preempt");
        assert_eq!(forced().await, "refused unknown preempt");
        // The last ids are kept.
        for index in 0..FORCED_KEPT {
            started(&format!("later-{index}"));
            forced().await;
        }
        let kept = daemon.forced.borrow().clone().expect("counted");
        assert_eq!((kept.count, kept.events.len()), (3 + FORCED_KEPT as u64, FORCED_KEPT));
        assert_eq!(kept.events[0], "later-0");
    });
}

#[test]
fn a_machine_that_is_back_in_service_is_not_ready_whether_or_not_it_has_slots() {
    for groups in ["engine = \"folder\"\nfolder.path = \"/x\"\n", TWO_GROUPS] {
        run_with_audit(groups, async |daemon| {
            let event = event(&["a", "b"]);
            let closed = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
            assert_eq!(daemon.answer(Question::Prepare, event.clone()).await, Ok(Answer::Open));
            record(&daemon, r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#);
            assert_eq!(daemon.answer(Question::Approve, event.clone()).await, closed);
            record(&daemon, r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#);
            daemon.withdraw_marks().await.expect("withdrawn");
            assert!(!is_ready(&daemon, &event, "a").await);
        });
    }
}

#[test]
fn an_event_that_is_over_for_long_is_forgotten() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
        assert_eq!((daemon.metrics().events, daemon.open_events().len()), (1, 1));
        is_over(&daemon, "e");
        assert_eq!((daemon.metrics().events, daemon.events.borrow().len()), (0, 1));
        assert!(timeout(EVENT_KEPT + daemon.config.heartbeat, daemon.maintain()).await.is_err());
        assert!(daemon.events.borrow().is_empty());
        assert_eq!(daemon.engine.list("events/").await, Ok(Vec::new()));
    });
}

#[test]
fn a_mark_stays_while_the_watcher_asks() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
        for _ in 0..3 {
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["b".into()]))));
            run(ASKED_AGAIN_WITHIN * 3 / 4).await;
            assert!(is_ready(&daemon, &event, "a").await);
        }
        run(ASKED_AGAIN_WITHIN / 2).await;
        assert!(!is_ready(&daemon, &event, "a").await, "it does not ask any more");
        // Its slots stay: the machine may be out of service.
        assert!(group(&daemon, "groups/db").await.held().contains(&Name::from("a")));
        // A decision is never taken back.
        mark(&daemon, &event, &["b"]).await;
        assert_eq!(daemon.answer(Question::Approve, event.clone()).await, Ok(Answer::Open));
        run(ASKED_AGAIN_WITHIN * 2).await;
        record(&daemon, r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#);
        run(ASKED_AGAIN_WITHIN).await;
        assert!(is_ready(&daemon, &event, "a").await);
        assert!(group(&daemon, "groups/db").await.held().contains(&Name::from("a")), "Azure may start it");
    });
}

#[test]
fn only_a_recovery_that_is_done_frees_a_slot() {
    for (outcome, is_free) in
        [("failed", false), ("timed-out", false), ("cancelled", false), ("done", true), ("no-command", true)]
    {
        run_with_audit(TWO_GROUPS, async |daemon| {
            assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
            record(&daemon, r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#);
            record(&daemon, r#"{"record":"change","change":"ended","event_id":"e"}"#);
            record(&daemon, &format!(r#"{{"record":"recover","event_ids":["e"],"outcome":"{outcome}"}}"#));
            assert!(timeout(3 * daemon.config.heartbeat, daemon.maintain()).await.is_err());
            assert_eq!(group(&daemon, "groups/db").await.held().is_empty(), is_free, "{outcome}");
        });
    }
}

/// The daemon looks at the audit file four times a second, and the watcher asks about an event that came back at once.
#[test]
fn a_question_counts_what_was_recorded_just_before_it() {
    for is_prepared_at_once in [false, true] {
        run_with_audit(TWO_GROUPS, async |daemon| {
            let event = event(&["a", "b"]);
            assert_eq!(daemon.answer(Question::Prepare, event.clone()).await, Ok(Answer::Open));
            mark(&daemon, &event, &["b"]).await;
            assert_eq!(daemon.answer(Question::Approve, event.clone()).await, Ok(Answer::Open));
            record(&daemon, r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#);
            append(&daemon, r#"{"record":"change","change":"cancelled","event_id":"e"}"#);
            append(&daemon, r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#);
            append(&daemon, r#"{"record":"change","change":"scheduled","event_id":"e"}"#);
            if is_prepared_at_once {
                // The record of the return came late: the preparation was allowed before it.
                append(&daemon, r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#);
            } else {
                assert_eq!(daemon.answer(Question::Prepare, event.clone()).await, Ok(Answer::Open));
                assert!(!is_ready(&daemon, &event, "a").await && !is_ready(&daemon, &event, "b").await);
            }
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["b".into()]))), "{is_prepared_at_once}");
            // A daemon that is started again reads that it was asked since.
            mark(&daemon, &event, &["b"]).await;
            assert_eq!(daemon.answer(Question::Approve, event.clone()).await, Ok(Answer::Open));
            append(&daemon, r#"{"record":"gate","event_id":"e","phase":"approve","outcome":"open"}"#);
            let mut audit = Audit::new(&daemon.config.audit);
            audit.read_new(Instant::now()).expect("read");
            assert!(!audit.has_returned("e"));
        });
    }
}

#[test]
fn a_recovery_before_a_question_gives_nothing_back_after_it() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
        record(&daemon, r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#);
        // `NotBefore` has moved, and moves back: the machine recovers, and prepares again.
        append(&daemon, r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#);
        assert_eq!(daemon.answer(Question::Prepare, event(&["a"])).await, Ok(Answer::Open));
        daemon.audit.borrow_mut().read_new(Instant::now()).expect("read");
        daemon.withdraw_marks().await.expect("no problem");
        assert!(group(&daemon, "groups/db").await.held().contains(&Name::from("a")), "it prepares");
        // Once it is back in service, it needs no slot.
        record(&daemon, r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#);
        daemon.withdraw_marks().await.expect("no problem");
        for key in ["groups/db", "groups/web"] {
            assert!(group(&daemon, key).await.held().is_empty(), "{key}");
        }
    });
}

#[test]
fn a_mark_ends_with_the_event() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let closed = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
        assert_eq!(daemon.answer(Question::Approve, event.clone()).await, closed);
        is_over(&daemon, "e");
        daemon.withdraw_marks().await.expect("withdrawn");
        assert!(!is_ready(&daemon, &event, "a").await);
    });
}

#[test]
fn a_mark_that_an_earlier_process_made_is_withdrawn_unless_the_watcher_asks() {
    for (id, asks) in [("e", false), ("e", true), ("an id/of another form", false)] {
        run_with(TWO_GROUPS, async |daemon| {
            let event = Event { id: id.to_owned(), ..event(&["a", "B"]) };
            mark(&daemon, &event, &["a"]).await;
            let others = Event::new("others", "Reboot", ["b", "c"].map(Into::into).into());
            mark(&daemon, &others, &["b"]).await;
            let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
            run(ASKED_AGAIN_WITHIN / 2).await;
            assert!(is_ready(&daemon, &event, "a").await, "the watcher may still ask");
            if asks {
                let answer = daemon.answer(Question::Approve, event.clone()).await;
                assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["B".into()]))));
            }
            run(ASKED_AGAIN_WITHIN * 3 / 4).await;
            assert_eq!(is_ready(&daemon, &event, "a").await, asks, "{id}");
            // That is done once. Marks of others are theirs.
            let registers = async || daemon.engine.list("events/").await.expect("the events");
            let before = registers().await;
            assert!(before.iter().any(|(key, found)| *key == others.key() && !found.value.contains("\"a\"")));
            if !asks {
                mark(&daemon, &event, &["a"]).await;
                let before = registers().await;
                run(ASKED_AGAIN_WITHIN * 2).await;
                assert_eq!(registers().await, before);
            }
        });
    }
}
