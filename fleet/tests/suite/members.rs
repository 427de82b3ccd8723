//! Machines that die, are replaced, are renamed, or whose clock jumps: real daemons on a shared folder.

use std::path::Path;
use std::time::{Duration, Instant};

use scheduled_events_fleet::engine::Engine;
use scheduled_events_fleet::engine::folder::FolderEngine;
use scheduled_events_test_support::clock::control_wall_clock;
use serde_json::{Value, json};

use crate::fixture::{block_on, wait_for};
use crate::gate::{Asked, Fleet, Gate, event};

/// A machine is silent soon, and forgotten soon after.
const QUICK: &str = "heartbeat = \"200ms\"\nsilent_after = \"3s\"\nforget_after = \"6s\"\nreturn_within = \"1s\"";

fn group(max_unavailable: u32) -> String {
    format!("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = {max_unavailable}\n")
}

fn engine(fleet: &Fleet) -> FolderEngine {
    FolderEngine::new(&fleet.path().join("registers"))
}

/// The keys and the values of the registers.
fn registers(fleet: &Fleet, prefix: &str) -> Vec<(String, String)> {
    let found = block_on(engine(fleet).list(prefix)).expect("the registers");
    found.into_iter().map(|(key, register)| (key, register.value)).collect()
}

/// The state of a machine in `status`.
fn state_of(gate: &Gate, machine: &str) -> Option<String> {
    let status = gate.status(&["--json"]);
    let records = status.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    let mut machines = records.filter(|record| record["record"] == "machine" && record["machine"] == machine);
    machines.next().map(|record| record["state"].as_str().expect("a state").to_owned())
}

fn wait_for_state(gate: &Gate, machine: &str, state: &str) {
    wait_for(state, || (state_of(gate, machine).as_deref() == Some(state)).then_some(()));
}

#[test]
fn a_dead_machine_counts_as_out_of_service_until_it_is_back() {
    let fleet = Fleet::new(&group(1));
    let lasting = QUICK.replace("forget_after = \"6s\"", "forget_after = \"1h\"");
    let mut gates = ["web_1", "web_2", "web_3"].map(|machine| fleet.start_with(machine, None, &lasting));
    for machine in ["web_1", "web_2", "web_3"] {
        wait_for_state(&gates[0], machine, "beating");
    }
    gates[1].daemon = None;
    wait_for_state(&gates[0], "web_2", "silent");
    let mine = event("e", "Reboot", &["web_1"]);
    let refused = |gate: &Gate| match gate.ask("prepare", &mine) {
        Asked::NotYet(why) => assert!(why.ends_with("at most 1 may be: web_2; silent: web_2"), "{why}"),
        answer => panic!("found {answer:?}, expected not yet"),
    };
    refused(&gates[0]);
    // A daemon that is started again takes the dead one for dead, and nobody else.
    gates[0].daemon = None;
    gates[0].start_daemon();
    refused(&gates[0]);
    gates[1].start_daemon();
    gates[0].wait_for_yes("prepare", &mine);
}

/// Everything that a set replaces, twice: no place is held afterwards, no register is left, and nobody typed anything.
#[test]
fn nothing_is_left_of_machines_that_were_replaced() {
    let fleet = Fleet::new(&group(3));
    let leaves = |machine: &str| {
        let mut gate = fleet.start_with(machine, None, QUICK);
        let end = event(&format!("end-of-{machine}"), "Terminate", &[machine]);
        gate.wait_for_yes("prepare", &end);
        gate.record(
            json!({ "record": "prepare", "event_id": end["event_id"], "event_type": "Terminate", "outcome": "ready" }),
        );
        let key = format!("machines/{machine}");
        wait_for("a machine that leaves", || {
            registers(&fleet, "machines/").into_iter().find(|(found, value)| *found == key && value.contains("leaving"))
        });
        gate.daemon = None;
    };
    for generation in 1..=2 {
        std::thread::scope(|scope| {
            for number in 0..3 {
                scope.spawn(move || leaves(&format!("web_{generation}_{number}")));
            }
        });
    }
    let last = fleet.start_with("web_last", None, QUICK);
    let mine = event("mine", "Reboot", &["web_last"]);
    last.wait_for_yes("prepare", &mine);
    last.prepared("mine");
    last.recovered("mine");
    wait_for("an empty store", || {
        let keys = |prefix: &str| registers(&fleet, prefix).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        let claims = registers(&fleet, "groups/").into_iter().any(|(_, value)| value.contains("slots"));
        let events = keys("events/").into_iter().filter(|key| !key.starts_with("events/mine/")).count();
        (keys("machines/") == ["machines/web_last"] && !claims && events == 0).then_some(())
    });
}

#[test]
fn a_machine_that_is_renamed_leaves_no_place_behind() {
    let fleet = Fleet::new(&group(1));
    let mut gate = fleet.start_with("web_old", None, QUICK);
    assert_eq!(gate.ask("prepare", &event("e", "Reboot", &["web_old"])), Asked::Yes);
    gate.prepared("e");
    gate.daemon = None;
    let text = std::fs::read_to_string(&gate.config).expect("the configuration");
    std::fs::write(&gate.config, text.replace("machine = \"web_old\"", "machine = \"web_new\"")).expect("written");
    gate.start_daemon();
    gate.recovered("e");
    wait_for("a place that is free", || {
        registers(&fleet, "groups/").iter().all(|(_, value)| !value.contains("slots")).then_some(())
    });
    gate.wait_for_yes("prepare", &event("next", "Reboot", &["web_new"]));
    wait_for("the old name's end", || {
        (registers(&fleet, "machines/").len() == 1 && state_of(&gate, "web_old").is_none()).then_some(())
    });
}

#[test]
fn the_clock_of_a_machine_may_jump_by_a_day() {
    let fleet = Fleet::new(&group(1));
    let mut gates = ["web_1", "web_2"].map(|machine| fleet.start_with(machine, None, QUICK));
    let shift = fleet.path().join("shift");
    let set = |seconds: &str| {
        // Atomically, since the clock is read at any moment.
        let new = fleet.path().join("new");
        std::fs::write(&new, seconds).expect("written");
        std::fs::rename(&new, &shift).expect("renamed");
    };
    set("+0");
    gates[1].daemon = None;
    gates[1].start_daemon_with(|command| control_wall_clock(command, Path::new(&shift)));
    wait_for_state(&gates[0], "web_2", "beating");
    for (round, seconds) in ["+86400", "-86400", "+0"].into_iter().enumerate() {
        set(seconds);
        // Longer than a machine may be silent, and forgotten.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(4) {
            assert_eq!(state_of(&gates[0], "web_2").as_deref(), Some("beating"), "{seconds}");
            assert_eq!(state_of(&gates[1], "web_1").as_deref(), Some("beating"), "{seconds}");
        }
        for (gate, machine) in gates.iter().zip(["web_1", "web_2"]) {
            let id = format!("{machine}-{round}");
            gate.wait_for_yes("prepare", &event(&id, "Reboot", &[machine]));
            gate.prepared(&id);
            gate.recovered(&id);
        }
    }
}
