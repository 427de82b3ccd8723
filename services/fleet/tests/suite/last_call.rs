//! Whatever happens to the daemon, the store or a free place: a machine prepares by its last call,
//! and no machine approves.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_test_support::clock::control_wall_clock;
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{EtcdServer, Process, block_on, wait_for};
use crate::three_machines::{MACHINES, Machine, POLICY, replay};

/// How long before `NotBefore`: three seconds after the event is first seen, whose notice is 15
/// minutes.
const LAST_CALL: &str = "14m57s";

/// Watches as a machine, with the gate of its configuration.
fn watch(machine: &Machine, root: &Path, url: &str) -> Process {
    let mut command = machine.watch(root, url, &machine.gate());
    command.args(["--last-call", LAST_CALL, "--prepare", "true", "--quiet"]);
    Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn stop(process: &Process) {
    kill_process(Pid::from_child(&process.0), Signal::STOP).expect("sent");
}

/// Makes something fail.
type Failure = fn(&mut Machine, &mut EtcdServer);

fn nothing(_: &mut Machine, _: &mut EtcdServer) {}

fn no_place(_: &mut Machine, etcd: &mut EtcdServer) {
    let group = r#"{"format":1,"limit":1,"claims":{"other":{"slots":["westno_5"],"by":["westno_5"],"at":1}}}"#;
    block_on(etcd.engine().swap("groups/web", None, group)).expect("written");
}

#[test]
fn a_machine_prepares_by_its_last_call_and_nobody_approves() {
    // Before the event is announced, and once the gate has answered that it is closed.
    let failures: [(&str, Failure, Failure); 6] = [
        (
            "no daemon runs",
            |machine, _| machine.daemon = None,
            nothing,
        ),
        (
            "the daemon is stopped",
            |machine, _| stop(machine.daemon.as_ref().expect("a daemon")),
            nothing,
        ),
        (
            "the store is gone",
            |_, etcd| drop(etcd.process.0.kill()),
            nothing,
        ),
        (
            "the store accepts connections and does not answer",
            |_, etcd| stop(&etcd.process),
            nothing,
        ),
        ("no place is free", no_place, nothing),
        (
            "the store goes while the machine waits for a place",
            no_place,
            |_, etcd| drop(etcd.process.0.kill()),
        ),
    ];
    std::thread::scope(|scope| {
        for (what, fail, fail_later) in failures {
            scope.spawn(move || {
                let (root, mut etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
                let root = root.path();
                std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
                let (_replay, url) = replay(root);
                let mut machine = Machine::new(MACHINES[0], root, &etcd, &url);
                machine.start_daemon();
                fail(&mut machine, &mut etcd);
                let _watcher = watch(&machine, root, &url);
                wait_for(what, || machine.records("gate").pop());
                fail_later(&mut machine, &mut etcd);
                wait_for(what, || {
                    machine
                        .records("prepare")
                        .into_iter()
                        .find(|record| record["outcome"] == "ready")
                });
                let calls = machine
                    .records("gate")
                    .into_iter()
                    .filter(|record| record["outcome"] == "last-call");
                assert_eq!(calls.count(), 1, "{what}");
                let outcomes: Vec<_> = machine
                    .records("prepare")
                    .iter()
                    .map(|record| record["outcome"].clone())
                    .collect();
                assert_eq!(outcomes, ["begun", "ready"].map(Value::from), "{what}");
                std::thread::sleep(Duration::from_secs(2));
                assert!(
                    machine.records("approval").is_empty(),
                    "{what}: it was approved"
                );
            });
        }
    });
}

/// By its own clock, the event of 15 minutes' notice starts in three minutes.
#[test]
fn a_clock_that_is_12_minutes_ahead_makes_no_last_call_early() {
    let (root, mut etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
    let root = root.path();
    std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
    let (_replay, url) = replay(root);
    let mut machine = Machine::new(MACHINES[0], root, &etcd, &url);
    machine.start_daemon();
    no_place(&mut machine, &mut etcd);
    let clock = root.join("clock");
    std::fs::write(&clock, "+720").expect("written");
    let mut command = machine.watch(root, &url, &machine.gate());
    command.args(["--prepare", "true"]);
    control_wall_clock(&mut command, &clock);
    let log = std::fs::File::create(root.join("log")).expect("a log");
    let _watcher = Process::start(command.stdout(Stdio::null()).stderr(log));
    wait_for("a refusal", || machine.records("gate").pop());
    std::thread::sleep(Duration::from_secs(5));
    let outcomes: Vec<_> = machine
        .records("gate")
        .into_iter()
        .map(|record| record["outcome"].clone())
        .collect();
    assert!(!outcomes.is_empty(), "the gate was asked");
    assert!(
        outcomes.iter().all(|outcome| outcome == "closed"),
        "{outcomes:?}"
    );
    assert!(machine.records("prepare").is_empty());
    let log = std::fs::read_to_string(root.join("log")).expect("the log");
    assert!(log.contains("this machine's clock is ahead"), "{log}");
}
