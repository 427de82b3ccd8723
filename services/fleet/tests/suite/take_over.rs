//! Processes are killed in the middle of the story of docs/run/fleet.md: another machine posts the
//! decided approval, and a restarted daemon continues.

use std::os::unix::fs::PermissionsExt as _;

use scheduled_events_test_support::wait;
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{EtcdServer, FLEET_COMMAND, wait_for};
use crate::three_machines::{MACHINES, Machine, POLICY, replay, wait_for_free_places};

/// The gate of each machine. The first machine that may approve is killed at that moment, with its
/// daemon and its watcher.
const DEADLY_GATE: &str = r#"#!/bin/sh
"$FLEET" --config "$1/fleet.toml" ask
code=$?
if [ $code = 0 ] && [ "$SCHEDULED_EVENTS_PHASE" = approve ] && mkdir "$1/../killed" 2>/dev/null; then
    kill -9 "$(cat "$1/daemon")" "$(cat "$1/watcher")"
    basename "$1" >"$1/../killed/part" && mv "$1/../killed/part" "$1/../killed/machine"
fi
exit $code
"#;

fn write_processes(machine: &Machine) {
    for (name, process) in [("daemon", &machine.daemon), ("watcher", &machine.watcher)] {
        let id = process.as_ref().expect("a process").0.id();
        std::fs::write(machine.folder.join(name), id.to_string()).expect("written");
    }
}

fn wait_for_the_end(machine: &mut Machine) {
    let watcher = machine.watcher.as_mut().expect("a watcher");
    let status = wait_for("the end of the watcher", || {
        watcher.0.try_wait().expect("its state")
    });
    assert!(status.success(), "{}: {status}", machine.name);
}

#[test]
fn another_machine_posts_for_one_that_is_killed_after_its_decision() {
    let (root, etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
    let root = root.path();
    std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
    let gate = root.join("gate");
    std::fs::write(&gate, DEADLY_GATE.replace("$FLEET", FLEET_COMMAND)).expect("a gate");
    std::fs::set_permissions(&gate, std::fs::Permissions::from_mode(0o700)).expect("it can be run");
    let (_replay, url) = replay(root);
    let mut machines = MACHINES.map(|name| Machine::new(name, root, &etcd, &url));
    for machine in &mut machines {
        machine.start_daemon();
        let command = format!("'{}' '{}'", gate.display(), machine.folder.display());
        machine.start_watcher_with(root, &url, &command);
        write_processes(machine);
    }
    // Only now a machine can decide.
    machines.iter().for_each(Machine::allow_preparation);
    let killed = wait_for("a decision", || {
        std::fs::read_to_string(root.join("killed/machine")).ok()
    });
    let killed = killed.trim();
    println!("{killed} decided, and was killed");
    for machine in machines.iter_mut().filter(|machine| machine.name != killed) {
        wait_for_the_end(machine);
    }
    let by = |machine: &Machine| {
        machine
            .records("approval")
            .into_iter()
            .map(|record| (machine.name, record))
            .collect()
    };
    let approvals: Vec<(&str, Value)> = machines.iter().flat_map::<Vec<_>, _>(by).collect();
    // Both others may have posted: a watcher asks every five seconds, and by then each has had its
    // turn. A duplicate does no harm.
    assert!(
        approvals.iter().any(|(_, record)| record["status"] == 200),
        "{approvals:?}"
    );
    assert!(
        approvals.iter().all(|(name, _)| *name != killed),
        "{approvals:?}"
    );

    // The machine comes back, recovers, and gives its place back.
    let machine = machines
        .iter_mut()
        .find(|machine| machine.name == killed)
        .expect("the machine");
    machine.start_daemon();
    machine.start_watcher(root, &url);
    wait_for_the_end(machine);
    assert_eq!(
        machine.records("recover").pop().expect("a recovery")["outcome"],
        "done"
    );
    wait_for_free_places(&etcd);
}

#[test]
fn a_daemon_that_is_killed_and_started_again_goes_on() {
    let (root, etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
    let root = root.path();
    std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
    let (_replay, url) = replay(root);
    let mut machines = MACHINES.map(|name| Machine::new(name, root, &etcd, &url));
    for machine in &mut machines {
        machine.start_daemon();
        machine.start_watcher(root, &url);
    }
    machines[0].allow_preparation();
    wait_for("a machine that is ready", || {
        let output = wait::output(machines[0].fleet().arg("status")).stdout;
        let status = String::from_utf8(output).expect("text");
        status
            .lines()
            .any(|line| line.contains("WestNO_0") && line.contains(" ready "))
            .then_some(())
    });
    // All are killed. When they start again, they know only what the registers and the audit files
    // contain.
    for machine in &mut machines {
        machine.daemon = None;
    }
    machines.iter_mut().for_each(Machine::start_daemon);
    assert!(
        machines
            .iter()
            .all(|machine| machine.records("approval").is_empty()),
        "somebody approved"
    );
    machines.iter().for_each(Machine::allow_preparation);
    machines.iter_mut().for_each(wait_for_the_end);
    let approvals: Vec<_> = machines
        .iter()
        .flat_map(|machine| machine.records("approval"))
        .collect();
    assert_eq!(approvals.len(), 1, "{approvals:?}");
    assert_eq!(approvals[0]["status"], 200);
    // Daemons that did not take the places give them back.
    wait_for_free_places(&etcd);
}
