//! The gate of a fleet, on registers in a folder.

use scheduled_events::record::{HookOutcome, Record};
use scheduled_events_core::Change;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_gate::engine::{Reply, Revision, Swap};
use scheduled_events_gate::register::{GroupRegister, MachineRegister};
use scheduled_events_gate::store;
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

/// The fleet of the registers in a folder, whose audit file has these lines.
fn fleet(folder: &Path, audit: &str) -> Fleet {
    let path = |name: &str| folder.join(name);
    let group = "[[group]]\nname = \"front\"\nmachines = [\"front_*\"]\nmax_unavailable = 1\n";
    let text = format!(
        "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\naudit = \"{}\"\nheartbeat = \"1s\"\n{group}",
        path("registers").display(),
        path("unused").display(),
    );
    std::fs::create_dir_all(path("registers")).expect("a folder");
    std::fs::write(path("fleet.toml"), text).expect("written");
    std::fs::write(path("audit"), audit).expect("written");
    Fleet::open(&path("fleet.toml"), &path("audit")).expect("valid")
}

/// The record of a preparation for the event `a` of this type.
fn prepared(event_type: &str) -> String {
    format!(
        "{{\"record\":\"prepare\",\"event_id\":\"a\",\"event_type\":\"{event_type}\",\"outcome\":\"begun\",\"resource_id\":\"{MACHINE}\"}}\n"
    )
}

fn machine(id: &str) -> MachineFacts {
    MachineFacts {
        resource_id: id.into(),
        name: "front_1".into(),
        ..MachineFacts::default()
    }
}

fn block_on(work: impl Future<Output = ()>) {
    scheduled_events_common::program::block_on(work)
        .unwrap_or_else(|failure| panic!("{}", failure.message));
}

/// Waits until the register of the machine says that it leaves, which it does if it is out of
/// service for the end of its life.
async fn await_leaving(folder: &Path) {
    let engine = FolderEngine::new(&folder.join("registers"));
    let is_leaving = async || {
        let (register, _) = store::read::<MachineRegister>(&engine, "machines/front_1")
            .await
            .expect("a register");
        register.leaving
    };
    timeout(Duration::from_secs(30), async {
        while !is_leaving().await {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("it is out of service");
}

fn terminate(id: &str) -> EventRecord {
    EventRecord {
        event_type: Some("Terminate".into()),
        ..event(id)
    }
}

#[test]
fn a_copy_of_a_register_shows_no_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let fleet = fleet(folder.path(), "");
        let engine = FolderEngine::new(&folder.path().join("registers"));
        let register = MachineRegister {
            machine: Some("front_1".into()),
            ..MachineRegister::default()
        };
        for (key, agents) in [("machines/front_1-copy", 0), ("machines/front_1", 1)] {
            let written = store::swap(&engine, key, None, &register).await;
            assert!(matches!(written, Ok(Swap::Done(_))), "{written:?}");
            let found = fleet.agents().await.expect("registers");
            assert_eq!(found.len(), agents, "{key}");
        }
    });
}

#[test]
fn a_machine_that_its_session_knows_to_be_out_of_service_is_so_without_records() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let fleet = fleet(folder.path(), "");
        fleet.join(&machine(MACHINE), &[terminate("A")]).await;
        await_leaving(folder.path()).await;
    });
}

#[test]
fn what_the_records_have_as_back_in_service_stays_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let recovered = format!(
        "{{\"record\":\"recover\",\"event_id\":\"a\",\"event_ids\":[\"a\"],\"outcome\":\"done\",\"resource_id\":\"{MACHINE}\"}}\n"
    );
    block_on(async {
        let mut fleet = fleet(folder.path(), &recovered);
        // Without an engine, the history waits.
        fleet.config.engine = None;
        let is_in_service = || fleet.histories.borrow()[&key_of(MACHINE)].is_in_service();
        fleet.join(&machine(MACHINE), &[terminate("A")]).await;
        assert!(is_in_service());
        fleet
            .join(&machine(MACHINE), &[terminate("A"), terminate("B")])
            .await;
        assert!(!is_in_service());
    });
}

#[test]
fn earlier_records_count_for_a_machine_that_did_not_join_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let prepared = prepared("Terminate");
    for has_new_record in [false, true] {
        block_on(async {
            let fleet = fleet(folder.path(), &prepared);
            if has_new_record {
                let event = event("b");
                let record = Record::Change {
                    change: Change::Scheduled,
                    event: event.members(None),
                };
                fleet.record(MACHINE, &record);
            }
            fleet
                .ask(GatePhase::Prepare, &machine(MACHINE), &event("b"))
                .await;
            await_leaving(folder.path()).await;
        });
        std::fs::remove_dir_all(folder.path().join("registers")).expect("removed");
    }
}

#[test]
fn a_machine_that_could_not_join_gives_its_place_back_later() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let earlier = fleet(folder.path(), "");
        let answer = earlier
            .ask(GatePhase::Prepare, &machine(MACHINE), &event("a"))
            .await
            .answer;
        assert_eq!(answer, GateAnswer::Open);
        earlier
            .found(&key_of(MACHINE))
            .expect("a member")
            .maintenance
            .borrow()
            .abort();

        let mut next = fleet(folder.path(), "");
        next.config.return_within = Duration::from_secs(1);
        let engine = next.config.engine.take();
        next.join(&machine(MACHINE), &[]).await;
        assert!(
            !next.has_left(&machine(MACHINE)).await,
            "it may have a place"
        );
        next.config.engine = engine;
        timeout(Duration::from_secs(60), async {
            while !next.has_left(&machine(MACHINE)).await {
                sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .expect("it leaves");
        let engine = FolderEngine::new(&folder.path().join("registers"));
        let (group, _) = store::read::<GroupRegister>(&engine, "groups/front")
            .await
            .expect("a register");
        assert!(group.held().is_empty(), "{group:?}");
    });
}

/// The recovery is in no record: another hub ran it.
#[test]
fn a_place_that_only_old_records_claim_is_given_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let prepared = prepared("Reboot");
    block_on(async {
        let mut fleet = fleet(folder.path(), &prepared);
        fleet.config.return_within = Duration::from_secs(1);
        fleet
            .ask(GatePhase::Prepare, &machine(MACHINE), &event("b"))
            .await;
        timeout(Duration::from_secs(60), async {
            while !fleet.has_left(&machine(MACHINE)).await {
                sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .expect("it leaves");
    });
}

#[test]
fn a_machine_that_leaves_is_a_member_again_with_its_next_event_and_no_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let fleet = fleet(folder.path(), "");
    let changed = |machine: &MachineFacts, id: &str, change| {
        let event = event(id);
        let event = event.members(None);
        fleet.record(&machine.resource_id, &Record::Change { change, event });
    };
    let ended = |machine: &MachineFacts, id: &str| changed(machine, id, Change::Completed);
    let over = |machine: &MachineFacts, id: &str| {
        let event = event(id);
        ended(machine, id);
        let outcome = Some(HookOutcome::Done);
        let recovery = Record::Recover {
            event_ids: &[id],
            outcome,
            event: event.members(None),
        };
        fleet.record(&machine.resource_id, &recovery);
    };
    block_on(async {
        let engine = FolderEngine::new(&path("registers"));
        let is_member = async || {
            engine
                .read("machines/front_1")
                .await
                .expect("an answer")
                .is_some()
        };
        // A fifth of the time, a heartbeat is in progress.
        let slow = Slow(
            FolderEngine::new(&path("registers")),
            Duration::from_millis(200),
            Duration::ZERO,
        );
        fleet.insert(
            key_of(MACHINE),
            Daemon::in_hub(
                fleet.config.clone(),
                Name::from("front_1"),
                None,
                Rc::new(slow),
                begun(),
            ),
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
            changed(&machine, id, Change::Scheduled);
            assert_eq!(
                fleet.ask(phase, &machine, &event(id)).await.answer,
                GateAnswer::Open
            );
            sleep(Duration::from_secs(2)).await;
            assert!(
                is_member().await
                    && !fleet.has_left(&machine).await
                    && fleet.members.borrow().len() == 1
            );
            let agents = fleet.agents().await.expect("an answer");
            assert!(agents.is_empty(), "it is not taken for an agent's");
            if phase == GatePhase::Prepare {
                over(&machine, id);
            } else {
                // It was never out of service, and no recovery is recorded.
                ended(&machine, id);
            }
            timeout(Duration::from_secs(60), async {
                while !fleet.has_left(&machine).await {
                    sleep(Duration::from_millis(100)).await;
                }
            })
            .await
            .expect("it leaves");
            sleep(Duration::from_secs(2)).await;
            assert!(!is_member().await && fleet.members.borrow().is_empty());
            assert_eq!(engine.list("events/").await.expect("an answer").len(), 0);
        }
    });
}

/// A hub that starts again has all machines of an event at once.
#[test]
fn machines_that_join_together_share_a_list_of_the_events() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let fleet = fleet(folder.path(), "");
        let store = Hindered::new(folder.path(), Duration::from_millis(300));
        let lists = store.lists.clone();
        assert!(fleet.engine.set(shared(store)).is_ok());
        let machines: Vec<_> = (0..50)
            .map(|number| MachineFacts {
                name: format!("front_{number}"),
                ..machine(&format!("{MACHINE}{number}"))
            })
            .collect();
        for machine in &machines {
            fleet.join(machine, &[]).await;
        }
        let registers = FolderEngine::new(&folder.path().join("registers"));
        let have_joined = async || {
            let joined = registers.list("machines/").await.expect("an answer");
            joined.len() == machines.len()
        };
        timeout(Duration::from_secs(60), async {
            while !have_joined().await {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("they have looked for their earlier marks");
        let count = lists.get();
        // Two, and one more each time that this process was stopped while they joined; fifty if each machine listed them.
        assert!((1..=25).contains(&count), "{count} lists");
    });
}

/// A store of which each call takes a while, or fails.
struct Hindered {
    engine: FolderEngine,
    delay: Duration,
    fails: Rc<Cell<bool>>,
    /// How often the events were listed.
    lists: Rc<Cell<usize>>,
}

impl Hindered {
    /// On the registers in a folder.
    fn new(folder: &Path, delay: Duration) -> Self {
        Self {
            engine: FolderEngine::new(&folder.join("registers")),
            delay,
            fails: Rc::default(),
            lists: Rc::default(),
        }
    }

    fn after<'a, T: 'a>(&'a self, reply: Reply<'a, T>) -> Reply<'a, T> {
        Box::pin(async move {
            sleep(self.delay).await;
            if self.fails.get() {
                return Err(EngineError("it is down".into()));
            }
            reply.await
        })
    }
}

/// The store, as the machines of the hub share it.
fn shared(store: impl Engine + 'static) -> Rc<dyn Engine> {
    Rc::new(SharedEngine::new(Rc::new(store)))
}

/// Such a store on the registers in a folder, and whether it fails.
fn hindered(folder: &Path, delay: Duration) -> (Rc<dyn Engine>, Rc<Cell<bool>>) {
    let store = Hindered::new(folder, delay);
    let fails = store.fails.clone();
    (shared(store), fails)
}

impl Engine for Hindered {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.after(self.engine.read(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        self.after(self.engine.swap(key, expected, value))
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.after(self.engine.delete(key, expected))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        self.lists
            .set(self.lists.get() + usize::from(prefix == "events/"));
        self.after(self.engine.list(prefix))
    }

    fn clock(&self) -> Option<engine::Clock> {
        self.engine.clock()
    }
}

fn preempt(id: &str) -> EventRecord {
    EventRecord {
        event_type: Some("Preempt".into()),
        ..event(id)
    }
}

/// Starts the machine's own daemon, and waits until the registers have it.
async fn own_daemon(fleet: &Fleet, folder: &Path, heartbeat: Duration) -> JoinHandle<()> {
    let engine = FolderEngine::new(&folder.join("registers"));
    let mut config = fleet.config.clone();
    config.heartbeat = heartbeat;
    let daemon = Daemon::new(config, Name::from("front_1"), None, Box::new(engine));
    let maintenance = maintain(&daemon);
    let registers = FolderEngine::new(&folder.join("registers"));
    timeout(Duration::from_secs(30), async {
        loop {
            let (register, _) = store::read::<MachineRegister>(&registers, "machines/front_1")
                .await
                .expect("an answer");
            if register.beat > 0 && !register.by_hub {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("a register");
    maintenance
}

/// Asks for the approval without a pause for this long.
async fn approvals(fleet: &Fleet, event: &EventRecord, time: Duration) -> Vec<GateAnswer> {
    let (end, mut answers) = (Instant::now() + time, Vec::new());
    while answers.is_empty() || Instant::now() < end {
        answers.push(
            fleet
                .ask(GatePhase::Approve, &machine(MACHINE), event)
                .await
                .answer,
        );
        sleep(Duration::from_millis(20)).await;
    }
    answers
}

/// Its own watcher still prepares.
#[test]
fn a_preempt_is_not_approved_for_a_machine_whose_own_daemon_takes_part() {
    // The hub's heartbeats may be more frequent than the daemon's.
    for (delay, heartbeat, is_prepared) in [
        (0, 1, true),
        (0, 1, false),
        (0, 60, true),
        (400, 1, true),
        (400, 60, true),
        (400, 1, false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (delay, heartbeat) = (Duration::from_millis(delay), Duration::from_secs(heartbeat));
        block_on(async {
            let fleet = fleet(folder.path(), "");
            let (store, _) = hindered(folder.path(), delay);
            assert!(fleet.engine.set(store).is_ok());
            let _own = own_daemon(&fleet, folder.path(), heartbeat).await;
            let agents = fleet.agents().await.expect("an answer");
            assert!(agents.contains(&Name::from("front_1")), "{agents:?}");
            if is_prepared {
                let asked = Instant::now();
                let answer = fleet
                    .ask(GatePhase::Prepare, &machine(MACHINE), &preempt("a"))
                    .await
                    .answer;
                let took = asked.elapsed();
                assert_eq!(answer, GateAnswer::Open);
                assert!(delay.is_zero() || took < delay, "it has waited: {took:?}");
            }
            let answers = approvals(&fleet, &preempt("a"), Duration::from_secs(3)).await;
            let is_closed = |answer: &GateAnswer| *answer == GateAnswer::Closed;
            assert!(
                answers.iter().all(is_closed),
                "{delay:?}, {heartbeat:?}, {is_prepared}: {answers:?}"
            );
        });
    }
}

#[test]
fn a_daemon_that_starts_while_the_hub_acts_ends_its_approvals_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let mut fleet = fleet(folder.path(), "");
        // The hub's next heartbeat, which would notice it, is far away.
        fleet.config.heartbeat = Duration::from_secs(60);
        for event in [preempt("a"), event("b")] {
            let answer = approvals(&fleet, &event, Duration::ZERO).await;
            assert_eq!(answer, [GateAnswer::Open], "nobody else acts for it");
        }
        let _own = own_daemon(&fleet, folder.path(), Duration::from_secs(60)).await;
        for event in [preempt("a"), event("b")] {
            let answer = approvals(&fleet, &event, Duration::ZERO).await;
            assert_eq!(answer, [GateAnswer::Closed]);
        }
    });
}

/// A hub cannot know then whether the machine has a daemon of its own.
#[test]
fn a_preempt_is_prepared_for_at_once_and_not_approved_while_the_store_is_down() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let fleet = fleet(folder.path(), "");
        let (store, fails) = hindered(folder.path(), Duration::from_millis(100));
        fails.set(true);
        assert!(fleet.engine.set(store).is_ok());
        let answer = fleet
            .ask(GatePhase::Prepare, &machine(MACHINE), &preempt("a"))
            .await
            .answer;
        assert_eq!(answer, GateAnswer::Open);
        let answers = approvals(&fleet, &preempt("a"), Duration::from_secs(1)).await;
        let is_closed = |answer: &GateAnswer| *answer == GateAnswer::Closed;
        assert!(answers.iter().all(is_closed), "{answers:?}");
        let asked = fleet
            .ask(GatePhase::Approve, &machine(MACHINE), &preempt("a"))
            .await;
        assert!(!asked.has_agent);
        // It answers again.
        fails.set(false);
        let answers = approvals(&fleet, &preempt("a"), Duration::from_secs(5)).await;
        assert_eq!(answers.last(), Some(&GateAnswer::Open), "{answers:?}");
        // It has failed since: what was known before no longer counts.
        fails.set(true);
        let answers = approvals(&fleet, &preempt("a"), Duration::ZERO).await;
        assert_eq!(answers, [GateAnswer::Closed]);
    });
}
