//! An event of two machines, one of which has a watcher and a fleet's gate: it is approved once both are ready.

use std::collections::BTreeSet;
use std::fs;
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

#[test]
fn the_hub_takes_part_in_a_fleets_gate_for_a_machine_without_an_agent() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let registers = folder.path().join("registers");
    fs::create_dir(&registers).expect("a folder");
    let file = folder.path().join("fleet.toml");
    let group = "[[group]]\nname = \"front\"\nmachines = [\"front_*\"]\nmax_unavailable = 2\n";
    let text = format!(
        "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\naudit = \"{}\"\nheartbeat = \"1s\"\nsilent_after = \"10s\"\n{group}",
        registers.display(),
        folder.path().join("audit").display(),
    );
    fs::write(&file, text).expect("written");
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
    let is_member = || {
        let read = block_on(async {
            let engine = engine::open(&Config::load(&file).expect("valid")).await.expect("an engine");
            engine.read("machines/front_1").await
        });
        read.unwrap_or_else(|failure| panic!("{}", failure.message)).expect("an answer").is_some()
    };
    wait::until("the end of its membership", || {
        std::thread::sleep(Duration::from_millis(200));
        (!is_member()).then_some(())
    });
    assert_eq!(fs::read_dir(hub.path("state").join("gate")).expect("a folder").count(), 0);
}
