//! An event of two machines: what one of them is no longer ready for is not approved.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scheduled_events_core::{Action, Policy, Rule};
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_gate::engine::{Clock, Engine, Reply, Revision, Swap, Versioned};
use serde_json::Value;
use tokio::time::sleep;

use super::tests::{PATIENCE, SUBSCRIPTION, approving, with_hub};
use super::*;
use crate::notice::read;
use crate::store::tests::with_engine;

const EVENT: &str = "c7061bac-afdc-4513-b24b-aa5f13a16123";

fn resource(kind: &str, name: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/web/providers/Microsoft.Compute/{kind}/{name}"
    )
}

/// A row of an event that takes so many seconds.
fn row(id: &str, status: &str, seconds: u32, machines: &[&str]) -> Notices {
    let row = json!({
        "id": format!("{}/providers/microsoft.maintenance/scheduledevents/{id}", resource("availabilitySets", "db")),
        "type": "microsoft.maintenance/scheduledevents",
        "properties": {
            "EventId": id, "EventType": "Reboot", "EventStatus": status, "ResourceType": "VirtualMachine",
            "Resources": machines, "DurationInSeconds": seconds,
        },
    });
    read(row.to_string().as_bytes()).expect("it can be read")
}

/// An engine that answers no write of a value with this text.
struct Stuck {
    engine: FolderEngine,
    text: Rc<Cell<Option<&'static str>>>,
    /// Whether a write waits.
    waits: Rc<Cell<bool>>,
}

impl Engine for Stuck {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.engine.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            while self.text.get().is_some_and(|text| value.contains(text)) {
                self.waits.set(true);
                sleep(Duration::from_millis(10)).await;
            }
            self.engine.swap(key, expected, value).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.engine.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        self.engine.list(prefix)
    }

    fn clock(&self) -> Option<Clock> {
        self.engine.clock()
    }
}

/// A hub with its files.
struct World<'a> {
    dispatch: Rc<Dispatch>,
    folder: &'a Path,
    approvals: Arc<AtomicUsize>,
    stuck: Rc<Cell<Option<&'static str>>>,
    waits: Rc<Cell<bool>>,
}

impl World<'_> {
    /// Preparations of this machine end from now on; until then, they run.
    fn let_end(&self, machine: &str) {
        fs::write(self.folder.join(machine), "").expect("written");
    }

    fn hold_up(&self, machine: &str) {
        fs::remove_file(self.folder.join(machine)).expect("removed");
    }

    fn audit(&self) -> String {
        fs::read_to_string(self.folder.join("audit")).unwrap_or_default()
    }

    /// How many records of a machine about the event are of this kind and have this outcome.
    fn count(&self, machine: &str, kind: &str, outcome: &str) -> usize {
        let audit = self.audit();
        let records = audit
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let is_it = |record: &Value| {
            record["record"] == kind
                && record["outcome"] == outcome
                && record["event_id"] == EVENT
                && record["resource_id"]
                    .as_str()
                    .is_some_and(|id| id.ends_with(machine))
        };
        records.filter(is_it).count()
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "{what}: {}", self.audit());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// The machine has asked whether the event may be approved, and another one is not ready.
    async fn until_asked(&self, machine: &str) {
        self.until(machine, || {
            self.sent() > 0 || self.count(machine, "gate", "closed") > 0
        })
        .await;
    }

    fn sent(&self) -> usize {
        self.approvals.load(Ordering::SeqCst)
    }

    /// An approval would be sent by now.
    async fn assert_unapproved(&self) {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(self.sent(), 0, "{}", self.audit());
    }
}

/// Runs work with a hub whose preparations last until the test lets them end.
fn with_world(work: impl AsyncFnOnce(World<'_>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let approvals = Arc::<AtomicUsize>::default();
    let control = approving(&approvals);
    let script = folder.join("prepare");
    let text = format!(
        "until test -e {}/$SCHEDULED_EVENTS_MACHINE; do sleep 0.05; done\n",
        folder.display()
    );
    fs::write(&script, text).expect("written");
    let more = format!(
        "management = \"{}\"\napprove = \"arm\"\nagents = {{ tag = \"agent\" }}\n\
         hooks = {{ prepare = \"sh {}\", recover = \"true\" }}\n",
        control.url(),
        script.display()
    );
    let (stuck, waits) = (Rc::<Cell<_>>::default(), Rc::<Cell<_>>::default());
    let engine = Stuck {
        engine: FolderEngine::new(folder),
        text: stuck.clone(),
        waits: waits.clone(),
    };
    let store = with_engine(folder, Box::new(engine));
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).expect("a policy");
    with_hub(folder, &more, policy, store, async |dispatch, _stopped| {
        dispatch.set_agents(&[]);
        let world = World {
            dispatch: dispatch.clone(),
            folder,
            approvals,
            stuck,
            waits,
        };
        work(world).await;
        dispatch.shared.journal.finish();
    });
}

/// Its state cannot be written for a while. Meanwhile the event takes longer, and as long as before
/// again, for which the other machine is ready first.
#[test]
fn a_machine_that_has_not_learned_yet_that_the_event_changed_is_not_ready() {
    with_world(async |world| {
        let both = ["db-0", "db-1"];
        world.let_end("db-0");
        drop(world.dispatch.deliver(row(EVENT, "Scheduled", 5, &both)));
        world.until_asked("db-0").await;
        world.hold_up("db-0");
        world.stuck.set(Some("\"name\":\"db-0\""));
        let other = EVENT.replace("c7061bac", "c7061bad");
        drop(
            world
                .dispatch
                .deliver(row(&other, "Scheduled", 5, &["db-0"])),
        );
        world.until("a write", || world.waits.get()).await;
        for seconds in [900, 5] {
            drop(
                world
                    .dispatch
                    .deliver(row(EVENT, "Scheduled", seconds, &both)),
            );
        }
        world.let_end("db-1");
        world.until_asked("db-1").await;
        world.assert_unapproved().await;
        // It learns of it, and prepares again.
        world.stuck.set(None);
        world
            .until("a preparation", || {
                world.count("db-0", "prepare", "begun") > 1
            })
            .await;
        world.assert_unapproved().await;
        world.let_end("db-0");
        world.until("the approval", || world.sent() > 0).await;
        assert_eq!(world.count("db-0", "prepare", "ready"), 2);
    });
}

/// Its own watcher acts from then on, and the hub does not know when that is ready.
#[test]
fn an_event_is_not_approved_once_a_machine_that_is_prepared_has_an_agent() {
    for (first, last, are_rights_known) in [("db-0", "db-1", true), ("db-1", "db-0", false)] {
        with_world(async |world| {
            // With many subscriptions, it takes a while to find out which can be read.
            if are_rights_known {
                world.dispatch.set_refused(HashSet::new());
            }
            let tagged = [resource("virtualMachines", "db-0")];
            drop(
                world
                    .dispatch
                    .deliver(row(EVENT, "Scheduled", 5, &["db-0", "db-1"])),
            );
            world.let_end(first);
            world.until_asked(first).await;
            world
                .until("both", || world.count(last, "prepare", "begun") > 0)
                .await;
            world.dispatch.set_agents(&tagged);
            world.let_end(last);
            world
                .until("the end", || world.count(last, "prepare", "ready") > 0)
                .await;
            world.assert_unapproved().await;
            // The hub puts it back all the same.
            drop(
                world
                    .dispatch
                    .deliver(row(EVENT, "Completed", 5, &["db-0", "db-1"])),
            );
            for machine in [first, last] {
                world
                    .until("the recovery", || {
                        world.count(machine, "recover", "done") > 0
                    })
                    .await;
            }
        });
    }
}

/// It was tagged by mistake.
#[test]
fn an_event_is_approved_once_the_tag_of_a_machine_that_is_prepared_is_removed() {
    with_world(async |world| {
        world.dispatch.set_refused(HashSet::new());
        drop(
            world
                .dispatch
                .deliver(row(EVENT, "Scheduled", 5, &["db-0", "db-1"])),
        );
        world.let_end("db-0");
        world.until_asked("db-0").await;
        world
            .dispatch
            .set_agents(&[resource("virtualMachines", "db-0")]);
        world.let_end("db-1");
        world.until_asked("db-1").await;
        world.assert_unapproved().await;
        world.dispatch.set_agents(&[]);
        world.until("the approval", || world.sent() > 0).await;
    });
}

/// The machine that is ready last has the gate's yes, and is about to approve.
#[test]
fn an_approval_is_not_sent_once_another_machine_of_the_event_has_an_agent() {
    with_world(async |world| {
        drop(
            world
                .dispatch
                .deliver(row(EVENT, "Scheduled", 5, &["db-0", "db-1"])),
        );
        world.let_end("db-0");
        world.until_asked("db-0").await;
        world.stuck.set(Some("\"waits_for\":[\"approval\"]"));
        world.let_end("db-1");
        world.until("a write", || world.waits.get()).await;
        world
            .dispatch
            .set_agents(&[resource("virtualMachines", "db-0")]);
        sleep(Duration::from_millis(200)).await;
        world.stuck.set(None);
        world.assert_unapproved().await;
    });
}
