//! An event of two machines, one of which has a watcher and a fleet's gate: it is approved once both are ready.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scheduled_events_fleet::cli::block_on;
use scheduled_events_fleet::config::Config;
use scheduled_events_fleet::daemon::Daemon;
use scheduled_events_fleet::engine;
use scheduled_events_fleet::gate::driver::Question;
use scheduled_events_fleet::gate::{Answer, Event};
use scheduled_events_fleet::names::Name;
use scheduled_events_test_support::wait;
use serde_json::Value;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource};

/// Writes the configuration of a fleet with the group `front`.
fn fleet(folder: &Path) -> PathBuf {
    let registers = folder.join("registers");
    fs::create_dir(&registers).expect("a folder");
    let group = "[[group]]\nname = \"front\"\nmachines = [\"front_*\"]\nmax_unavailable = 2\n";
    let text = format!(
        "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\naudit = \"{}\"\nheartbeat = \"1s\"\nsilent_after = \"10s\"\n{group}",
        registers.display(),
        folder.join("audit").display(),
    );
    let file = folder.join("fleet.toml");
    fs::write(&file, text).expect("written");
    file
}

/// Waits until `front_1` has given back its place and is a member of the fleet no more.
fn await_leave(hub: &Hub, file: &Path) {
    let is_member = || {
        let read = block_on(async {
            let engine = engine::open(&Config::load(file).expect("valid")).await.expect("an engine");
            engine.read("machines/front_1").await
        });
        read.unwrap_or_else(|failure| panic!("{}", failure.message)).expect("an answer").is_some()
    };
    wait::until("the end of its membership", || {
        std::thread::sleep(Duration::from_millis(200));
        (!is_member()).then_some(())
    });
    let copies = || fs::read_dir(hub.path("state").join("gate")).expect("a folder").count();
    wait::until("the end of its audit file", || (copies() == 0).then_some(()));
}

#[test]
fn the_hub_takes_part_in_a_fleets_gate_for_a_machine_without_an_agent() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet(folder.path());
    let more = format!("gate = \"{}\"\nagents = {{ machines = [\"front_0\"] }}", file.display());
    let mut hub = Hub::new(&control.url(), Some(&queue), &more);
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.start();
    let names = ["front_0", "front_1"];
    queue.send(&message(&set, &id, "Scheduled", &names));
    // The machine without an agent is ready; the other one has not even been asked.
    hub.await_record("the preparation", |record| record["record"] == "prepare" && record["outcome"] == "ready");
    let is_gate = |answer: &'static str| {
        move |record: &Value| record["record"] == "gate" && record["phase"] == "approve" && record["outcome"] == answer
    };
    hub.await_record("the gate", is_gate("closed"));
    assert!(control.with(|world| world.approvals.is_empty()));

    // The other machine's own daemon asks for it, as its watcher makes it do.
    let event = Event::new(&id, "Reboot", names.map(Name::from).into_iter().collect::<BTreeSet<_>>());
    let answers = block_on(async {
        let config = Config::load(&file).expect("valid");
        let engine = engine::open(&config).await.expect("an engine");
        let daemon = Daemon::new(config, Name::from("front_0"), None, engine);
        let prepared = daemon.answer(Question::Prepare, event.clone()).await;
        (prepared, daemon.answer(Question::Approve, event).await)
    });
    let (prepared, approved) = answers.unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(prepared, Ok(Answer::Open));
    assert!(matches!(approved, Ok(Answer::Open | Answer::AnotherApproves { .. })), "{approved:?}");
    hub.await_record("the approval", |record| record["record"] == "approval" && record["status"] == 200);

    // After the recovery the place is given back, and the machine is a member no more.
    queue.send(&message(&set, &id, "Completed", &names));
    hub.await_record("the recovery", |record| record["record"] == "recover" && record["outcome"] == "done");
    await_leave(&hub, &file);
}

#[test]
fn two_events_of_a_machine_pass_the_gate_side_by_side() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet(folder.path());
    let mut hub = Hub::new(&control.url(), Some(&queue), &format!("gate = \"{}\"", file.display()));
    let (set, ids) = (resource("virtualMachineScaleSets", "front"), [event_id(1), event_id(2)]);
    hub.start();
    let send = |status: &str| {
        queue.send(&Value::from(ids.each_ref().map(|id| message(&set, id, status, &["front_1"])).to_vec()));
    };
    send("Scheduled");
    let is_approved = |record: &&Value| record["record"] == "approval" && record["status"] == 200;
    let approved = || -> usize {
        let ids = |record: Value| record["event_ids"].as_array().map_or(0, Vec::len);
        hub.records().iter().filter(is_approved).cloned().map(ids).sum()
    };
    wait::until("both approvals", || (approved() == 2).then_some(()));
    send("Completed");
    hub.await_record("the recovery", |record| record["record"] == "recover" && record["outcome"] == "done");
    await_leave(&hub, &file);
}

/// The place is in the fleet's store, and nobody else gives it back.
#[test]
fn a_place_is_given_back_although_the_hub_starts_again_meanwhile() {
    // On the same machine, and on another one, which has the states of the machines and not their audit files.
    for is_moved in [false, true] {
        let (control, queue) = (Control::start(), TestQueue::start());
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = fleet(folder.path());
        let mut hub = Hub::new(&control.url(), Some(&queue), &format!("gate = \"{}\"", file.display()));
        let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
        hub.start();
        queue.send(&message(&set, &id, "Scheduled", &["front_1"]));
        hub.await_record("the approval", |record| record["record"] == "approval" && record["status"] == 200);
        hub.kill();
        if is_moved {
            fs::remove_dir_all(hub.path("state/gate")).expect("removed");
        }
        hub.start();
        queue.send(&message(&set, &id, "Completed", &["front_1"]));
        hub.await_record("the recovery", |record| record["record"] == "recover" && record["outcome"] == "done");
        // Before it could give the place back.
        hub.kill();
        hub.start();
        await_leave(&hub, &file);
    }
}
