//! Machines that die, are replaced, are renamed, or whose clock jumps: real daemons on a shared
//! folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scheduled_events_common::names::Name;
use scheduled_events_gate::register::GroupRegister;
use scheduled_events_test_support::clock::control_wall_clock;
use serde_json::{Value, json};

use crate::fixture::{self, block_on, restore, wait_for};
use crate::gate::{AskAnswer, Fleet, Gate, event};
use crate::groups::{not_yet, starts_in};

/// Settings with which a machine is silent soon, and forgotten soon after.
const QUICK: &str =
    "heartbeat = \"200ms\"\nsilent_after = \"8s\"\nforget_after = \"16s\"\nreturn_within = \"1s\"";

fn group(max_unavailable: u32) -> String {
    format!(
        "[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = {max_unavailable}\n"
    )
}

/// The keys and the values of the registers.
fn registers(fleet: &Fleet, prefix: &str) -> Vec<(String, String)> {
    fixture::registers(&*block_on(fleet.engine()), prefix)
}

/// The state of a machine in `status`.
fn state_of(gate: &Gate, machine: &str) -> Option<String> {
    let status = gate.status_or_failure(&["--json"]).ok()?;
    let records = status
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    let mut machines =
        records.filter(|record| record["record"] == "machine" && record["machine"] == machine);
    machines
        .next()
        .map(|record| record["state"].as_str().expect("a state").to_owned())
}

fn wait_for_state(gate: &Gate, machine: &str, state: &str) {
    wait_for(state, || {
        (state_of(gate, machine).as_deref() == Some(state)).then_some(())
    });
}

#[test]
fn a_machine_in_a_folder_is_not_silent_until_its_second_heartbeat() {
    let fleet = Fleet::new(&group(1));
    let rarely = "heartbeat = \"10m\"\nsilent_after = \"1h\"\nforget_after = \"2h\"";
    let _gate = fleet.start_with("web_1", None, rarely);
    // A folder shows its time with a write: the first heartbeat is repeated with it.
    wait_for("the folder's time in the register", || {
        let found = registers(&fleet, "machines/");
        let register = found.first()?;
        let register: Value = serde_json::from_str(&register.1).expect("JSON");
        register["written"].as_u64()
    });
}

#[test]
fn a_dead_machine_counts_as_out_of_service_until_it_is_back() {
    let fleet = Fleet::new(&group(1));
    let lasting = QUICK.replace("forget_after = \"16s\"", "forget_after = \"1h\"");
    let mut gates =
        ["web_1", "web_2", "web_3"].map(|machine| fleet.start_with(machine, None, &lasting));
    for machine in ["web_1", "web_2", "web_3"] {
        wait_for_state(&gates[0], machine, "beating");
    }
    gates[1].daemon = None;
    wait_for_state(&gates[0], "web_2", "silent");
    let mine = event("e", "Reboot", &["web_1"]);
    let refused = |gate: &Gate| match gate.ask("prepare", &mine) {
        AskAnswer::NotYet(why) => assert!(
            why.ends_with("at most 1 may be: web_2; silent: web_2"),
            "{why}"
        ),
        answer => panic!("found {answer:?}, expected not yet"),
    };
    refused(&gates[0]);
    // A restarted daemon considers only the dead machine dead.
    gates[0].daemon = None;
    gates[0].start_daemon();
    refused(&gates[0]);
    gates[1].start_daemon();
    gates[0].wait_for_yes("prepare", &mine);
}

/// All machines of a set are replaced, twice: afterwards no place is held and no register is left,
/// and nobody typed anything.
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
            registers(&fleet, "machines/")
                .into_iter()
                .find(|(found, value)| *found == key && value.contains("leaving"))
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
        let keys = |prefix: &str| {
            registers(&fleet, prefix)
                .into_iter()
                .map(|(key, _)| key)
                .collect::<Vec<_>>()
        };
        let claims = registers(&fleet, "groups/")
            .into_iter()
            .any(|(_, value)| value.contains("slots"));
        let events = keys("events/")
            .into_iter()
            .filter(|key| !key.starts_with("events/mine/"))
            .count();
        (keys("machines/") == ["machines/web_last"] && !claims && events == 0).then_some(())
    });
}

/// Two machines are deleted while they hold a place for an event of three: the end of one was
/// announced, that of the other was not.
#[test]
fn nothing_is_left_of_machines_that_a_scale_in_deletes_during_an_event() {
    let fleet = Fleet::new(&group(3));
    let [stays, mut announced, mut unannounced] =
        ["web_1", "web_2", "web_3"].map(|machine| fleet.start_with(machine, None, QUICK));
    let all = event("e", "Reboot", &["web_1", "web_2", "web_3"]);
    for gate in [&stays, &announced, &unannounced] {
        gate.wait_for_yes("prepare", &all);
        gate.prepared("e");
    }
    announced.record(json!({ "record": "prepare", "event_id": "end", "event_type": "Terminate", "outcome": "ready" }));
    wait_for("a machine that leaves", || {
        registers(&fleet, "machines/")
            .iter()
            .any(|(_, value)| value.contains("leaving"))
            .then_some(())
    });
    unannounced.daemon = None;
    wait_for_state(&stays, "web_3", "silent");
    // The event names the machine that is left. A machine that still runs, or may run, keeps its
    // place.
    let left = event("e", "Reboot", &["web_1"]);
    stays.wait_for_yes("prepare", &left);
    assert!(
        ["web_2", "web_3"]
            .into_iter()
            .all(|machine| has_place(&fleet, machine))
    );
    announced.daemon = None;
    stays.prepared("e");
    stays.wait_for_yes("approve", &left);
    stays.recovered("e");
    // A machine that reads the machines before it takes a place forgets those that are gone.
    let mut looks = 0;
    wait_for("no place and no register of theirs", || {
        looks += 1;
        let id = format!("next-{looks}");
        let _ = stays.ask("prepare", &event(&id, "Reboot", &["web_1"]));
        stays.recovered(&id);
        let machines: Vec<_> = registers(&fleet, "machines/")
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        let is_held = ["web_2", "web_3"]
            .into_iter()
            .any(|machine| has_place(&fleet, machine));
        (machines == ["machines/web_1"] && !is_held).then_some(())
    });
}

#[test]
fn a_machine_that_is_renamed_leaves_no_place_behind() {
    let fleet = Fleet::new(&group(1));
    let mut gate = fleet.start_with("web_old", None, QUICK);
    assert_eq!(
        gate.ask("prepare", &event("e", "Reboot", &["web_old"])),
        AskAnswer::Yes
    );
    gate.prepared("e");
    gate.daemon = None;
    let text = std::fs::read_to_string(&gate.config).expect("the configuration");
    std::fs::write(
        &gate.config,
        text.replace("machine = \"web_old\"", "machine = \"web_new\""),
    )
    .expect("written");
    gate.start_daemon();
    gate.recovered("e");
    wait_for("a place that is free", || {
        registers(&fleet, "groups/")
            .iter()
            .all(|(_, value)| !value.contains("slots"))
            .then_some(())
    });
    gate.wait_for_yes("prepare", &event("next", "Reboot", &["web_new"]));
    wait_for("the old name's end", || {
        (registers(&fleet, "machines/").len() == 1 && state_of(&gate, "web_old").is_none())
            .then_some(())
    });
}

/// Whether a machine has a place in the group. A reservation does not count.
fn has_place(fleet: &Fleet, machine: &str) -> bool {
    let groups = registers(fleet, "groups/").into_iter();
    let mut groups =
        groups.map(|(_, value)| serde_json::from_str::<GroupRegister>(&value).expect("a group"));
    groups.any(|group| group.held().contains(&Name::from(machine)))
}

#[test]
fn a_place_that_comes_back_from_a_backup_is_given_back_again() {
    let fleet = Fleet::new(&group(1));
    let gate = fleet.start_with("web_1", None, QUICK);
    assert_eq!(
        gate.ask("prepare", &event("e", "Reboot", &["web_1"])),
        AskAnswer::Yes
    );
    gate.prepared("e");
    // An idle machine reads nothing: the difference in its own register shows it that it must read.
    let backup = ["groups/", "machines/"]
        .map(|prefix| registers(&fleet, prefix))
        .concat();
    assert!(has_place(&fleet, "web_1"));
    gate.recovered("e");
    wait_for("a free place", || {
        (!has_place(&fleet, "web_1")).then_some(())
    });
    restore(&*block_on(fleet.engine()), &backup);
    wait_for("a free place", || {
        (!has_place(&fleet, "web_1")).then_some(())
    });
}

#[test]
fn a_place_of_a_machine_that_never_comes_back_is_freed() {
    let fleet = Fleet::new(&group(1));
    let [mut gone, other] =
        ["web_1", "web_2"].map(|machine| fleet.start_with(machine, None, QUICK));
    let last = event("e", "Reboot", &["web_1"]);
    gone.wait_for_yes("prepare", &last);
    gone.prepared("e");
    gone.wait_for_yes("approve", &last);
    gone.daemon = None;
    wait_for_state(&other, "web_1", "silent");
    // It may still run, so silence alone frees nothing.
    std::thread::sleep(Duration::from_secs(3));
    assert!(has_place(&fleet, "web_1"));
    other.record(
        json!({ "record": "change", "change": "completed", "event_id": "e", "mine": false }),
    );
    wait_for("a free place", || {
        (!has_place(&fleet, "web_1")).then_some(())
    });
    // It counts as out of service until it is forgotten.
    other.wait_for_yes("prepare", &event("next", "Reboot", &["web_2"]));
}

#[test]
fn a_machine_that_prepares_at_its_last_call_counts_as_out_of_service() {
    let fleet = Fleet::new(&group(1));
    let [a, b, c] =
        ["web_1", "web_2", "web_3"].map(|machine| fleet.start_with(machine, None, QUICK));
    a.wait_for_yes("prepare", &event("e", "Reboot", &["web_1"]));
    let (late, next) = (
        event("late", "Reboot", &["web_2"]),
        event("next", "Reboot", &["web_3"]),
    );
    assert_ne!(b.ask("prepare", &late), AskAnswer::Yes);
    b.record(json!({ "record": "gate", "event_id": "late", "event_type": "Reboot", "phase": "prepare", "outcome": "last-call" }));
    b.record(json!({ "record": "prepare", "event_id": "late", "outcome": "begun" }));
    wait_for("its place", || has_place(&fleet, "web_2").then_some(()));
    assert_ne!(
        b.ask("prepare", &late),
        AskAnswer::Yes,
        "no place is free all the same"
    );
    a.prepared("e");
    a.recovered("e");
    wait_for("the end of the first event", || {
        (!has_place(&fleet, "web_1")).then_some(())
    });
    let why = not_yet(c.ask("prepare", &next));
    assert_eq!(
        why,
        "1 of the group web are out of service or about to be, at most 1 may be: web_2"
    );
    b.prepared("late");
    b.recovered("late");
    c.wait_for_yes("prepare", &next);
}

/// The wall clock of a process, which the test sets.
struct WallClock(PathBuf);

impl WallClock {
    fn new(folder: &Path) -> Self {
        let clock = Self(folder.join("shift"));
        clock.set("+0");
        clock
    }

    /// How many seconds it is off.
    fn set(&self, seconds: &str) {
        // Atomically, since the process reads the clock at any moment.
        let new = self.0.with_extension("new");
        std::fs::write(&new, seconds).expect("written");
        std::fs::rename(&new, &self.0).expect("renamed");
    }
}

/// While the clock jumps, no machine counts as silent or is forgotten, and events continue in the
/// order of their `NotBefore`.
fn jumps_by_a_day(gates: &[Gate; 3], clock: &WallClock) {
    let [a, b, holder] = gates;
    for (round, seconds) in ["+86400", "-86400", "+0"].into_iter().enumerate() {
        clock.set(seconds);
        for (gate, machine) in [(a, "web_2"), (b, "web_1"), (a, "web_3")] {
            wait_for_state(gate, machine, "beating");
        }
        // Longer than a machine may be silent.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(9) {
            for (gate, machine) in [(a, "web_2"), (b, "web_1")] {
                let state = wait_for("a status", || state_of(gate, machine));
                assert_eq!(state, "beating", "{seconds}");
            }
        }
        let ends = |gate: &Gate, id: &str| {
            gate.prepared(id);
            gate.recovered(id);
        };
        for ((first, one), (second, other)) in
            [((a, "web_1"), (b, "web_2")), ((b, "web_2"), (a, "web_1"))]
        {
            let of = |machine: &str, hours| {
                let id = format!("{machine}-{hours}-{round}");
                (starts_in(event(&id, "Reboot", &[machine]), hours), id)
            };
            let ((held, held_id), (earlier, earlier_id), (later, later_id)) = (
                of("web_3", if one == "web_1" { 3 } else { 4 }),
                of(one, 1),
                of(other, 2),
            );
            holder.wait_for_yes("prepare", &held);
            // It is refused, and reserves the group.
            assert_ne!(first.ask("prepare", &earlier), AskAnswer::Yes, "{seconds}");
            ends(holder, &held_id);
            let reserved = format!("is reserved for an earlier event: {earlier_id}");
            wait_for("a free place", || {
                not_yet(second.ask("prepare", &later))
                    .contains(&reserved)
                    .then_some(())
            });
            first.wait_for_yes("prepare", &earlier);
            ends(first, &earlier_id);
            second.wait_for_yes("prepare", &later);
            ends(second, &later_id);
        }
    }
}

const MACHINES: [&str; 3] = ["web_1", "web_2", "web_3"];

#[test]
fn the_clock_of_a_machine_may_jump_by_a_day() {
    let fleet = Fleet::new(&group(1));
    let mut gates = MACHINES.map(|machine| fleet.start_with(machine, None, QUICK));
    let clock = WallClock::new(fleet.path());
    gates[1].daemon = None;
    gates[1].start_daemon_with(|command| control_wall_clock(command, &clock.0));
    wait_for_state(&gates[0], "web_2", "beating");
    jumps_by_a_day(&gates, &clock);
}

#[test]
fn the_clock_of_the_store_may_jump_by_a_day() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = WallClock::new(folder.path());
    let azurite =
        crate::fixture::Azurite::start_with(|command| control_wall_clock(command, &clock.0));
    let fleet = Fleet::on_blob(&group(1), &azurite.url);
    let gates = MACHINES.map(|machine| fleet.start_with(machine, None, QUICK));
    jumps_by_a_day(&gates, &clock);
}
