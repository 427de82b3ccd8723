//! A place lasts until its machine is back: watchers are killed at any moment, machines boot
//! slowly, recoveries fail.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{EtcdServer, block_on, wait_for};
use crate::three_machines::{MACHINES, Machine, POLICY, replay_of_one, wait_for_free_places};

/// How long the test checks that a place stays taken.
const STAYS: Duration = Duration::from_secs(2);

/// A machine with an event of its own, and another one that sees the event.
struct Story<'a> {
    root: &'a Path,
    etcd: &'a EtcdServer,
    url: &'a str,
    machine: Machine,
    other: Machine,
}

fn wait_for_record(machine: &Machine, kind: &str, is_wanted: impl Fn(&Value) -> bool) {
    wait_for(kind, || {
        machine
            .records(kind)
            .into_iter()
            .find(|record| is_wanted(record))
    });
}

impl Story<'_> {
    fn is_taken(&self) -> bool {
        let engine = self.etcd.engine();
        let group = wait_for("etcd", || block_on(engine.read("groups/web")).ok());
        group.is_some_and(|group| group.value.contains(MACHINES[0]))
    }

    /// Checks that the machine's place stays taken, whatever other machines see of it.
    fn stays(&self, why: &str) {
        let begin = Instant::now();
        while begin.elapsed() < STAYS {
            assert!(self.is_taken(), "{why}: its place is free");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn start_watcher(&mut self) {
        self.machine.start_watcher(self.root, self.url);
    }

    /// Waits until the event is over for the other machine, which sees all events of the set.
    fn wait_for_the_end(&self) {
        wait_for_record(&self.other, "change", |record| {
            record["change"] == "completed"
        });
    }

    fn hold_recovery(&self) {
        std::fs::write(self.machine.folder.join("hold"), "").expect("written");
    }

    fn let_recover(&self) {
        std::fs::remove_file(self.machine.folder.join("hold")).expect("removed");
    }
}

type Part = fn(&mut Story<'_>);

fn killed_while_it_prepares(story: &mut Story<'_>) {
    wait_for_record(&story.machine, "prepare", |record| {
        record["outcome"] == "begun"
    });
    story.machine.watcher = None;
    story.stays("the watcher was killed while it prepared");
    story.start_watcher();
    story.machine.allow_preparation();
    story.wait_for_the_end();
}

fn killed_between_preparation_and_recovery(story: &mut Story<'_>) {
    story.machine.allow_preparation();
    wait_for_record(&story.machine, "approval", |record| record["status"] == 200);
    // Its boot takes longer than the event lasts, and it is silent.
    (story.machine.watcher, story.machine.daemon) = (None, None);
    story.wait_for_the_end();
    story.stays("the machine boots");
    story.machine.start_daemon();
    story.stays("its daemon is back, and its watcher is not");
    story.start_watcher();
}

fn killed_while_it_recovers(story: &mut Story<'_>) {
    story.hold_recovery();
    story.machine.allow_preparation();
    wait_for_record(&story.machine, "change", |record| {
        record["change"] == "completed"
    });
    story.machine.watcher = None;
    story.stays("the watcher was killed while it recovered");
    story.start_watcher();
    story.stays("it recovers again");
    story.let_recover();
}

fn a_recovery_that_fails_ten_times(story: &mut Story<'_>) {
    std::fs::write(story.machine.folder.join("fail"), "10").expect("written");
    story.machine.allow_preparation();
    for times in 1..=10 {
        wait_for("a recovery that fails", || {
            let failed = story
                .machine
                .records("recover")
                .iter()
                .filter(|record| record["outcome"] == "failed")
                .count();
            (failed >= times).then_some(())
        });
        assert!(story.is_taken(), "its recovery has failed {times} times");
        if times == 10 {
            story.stays("its recovery has failed ten times");
        }
        // A watcher that has just started tries it at once; one that has run for long waits for
        // minutes in the end.
        story.machine.watcher = None;
        story.start_watcher();
    }
}

#[test]
fn a_place_is_free_only_once_its_machine_has_recovered() {
    let stories: [(&str, Part); 4] = [
        ("killed while it prepares", killed_while_it_prepares),
        (
            "killed between preparation and recovery",
            killed_between_preparation_and_recovery,
        ),
        ("killed while it recovers", killed_while_it_recovers),
        (
            "a recovery that fails ten times",
            a_recovery_that_fails_ten_times,
        ),
    ];
    std::thread::scope(|scope| {
        for (what, part) in stories {
            scope.spawn(move || {
                let (root, etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
                let root = root.path();
                std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
                let (_replay, url) = replay_of_one(root);
                let [machine, other] = [MACHINES[0], MACHINES[1]].map(|name| {
                    let mut machine = Machine::new(name, root, &etcd, &url);
                    // Each is silent soon, and others free its place a quarter of an hour after the
                    // event, as by default.
                    machine.configure("silent_after = \"3s\"");
                    machine.start_daemon();
                    machine.start_watcher(root, &url);
                    machine
                });
                let mut story = Story {
                    root,
                    etcd: &etcd,
                    url: &url,
                    machine,
                    other,
                };
                part(&mut story);
                println!("{what}: waiting for its place");
                wait_for_free_places(&etcd);
                let recoveries = story.machine.records("recover");
                assert!(
                    recoveries.iter().any(|record| record["outcome"] == "done"),
                    "{what}: {recoveries:?}"
                );
            });
        }
    });
}
