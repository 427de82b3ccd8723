//! What a restart finds: states of an earlier process, and another configuration.

use std::fs;
use std::path::PathBuf;

use scheduled_events_test_support::wait;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource};

/// The files of the machines' states, the newest version of each.
fn states(hub: &Hub) -> Vec<PathBuf> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix('.')?.parse::<u64>().ok();
    let folders = fs::read_dir(hub.path("state/hub/machines")).into_iter().flatten().flatten();
    let newest = |folder: PathBuf| fs::read_dir(folder).ok()?.flatten().map(|file| file.path()).max_by_key(number);
    folders.filter_map(|folder| newest(folder.path())).collect()
}

/// Starts the hub with another setting.
fn start_with(hub: &mut Hub, old: &str, new: &str) {
    let config = hub.read("hub.toml");
    assert!(config.contains(old), "{old}");
    fs::write(hub.path("hub.toml"), config.replace(old, new)).expect("written");
    hub.start();
}

#[test]
fn a_state_that_cannot_be_used_costs_neither_the_event_nor_the_hub() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the approval", |record| record["record"] == "approval");
    wait::until("the end of all messages", || (queue.length() == 0).then_some(()));
    hub.kill();
    let [state] = &states(&hub)[..] else { panic!("one state") };
    let text = fs::read_to_string(state).expect("text");
    let (before, rest) = text.split_once("\"session\":\"").expect("a session");
    let (_, after) = rest.split_once('"').expect("its end");
    fs::write(state, format!("{before}\"session\":\"c2V2AgAAAA==\"{after}")).expect("written");
    hub.start();
    queue.send(&message(&machine, &id, "Started", &["db"]));
    queue.send(&message(&machine, &id, "Completed", &["db"]));
    hub.await_hook(&format!("recover-db-{id}"));
    assert_eq!(hub.process.as_mut().expect("it runs").0.try_wait().expect("its state"), None, "{}", hub.read("log"));
}

#[test]
fn a_machine_that_has_an_agent_by_now_is_left_to_it() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    fs::write(hub.path("policy.toml"), "[[rule]]\naction = \"approve\"\nscope = \"mine\"\n").expect("written");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    wait::until("a query", || (!control.with(|world| world.queries.is_empty())).then_some(()));
    control.with(|world| world.refusals = vec![(503, "", serde_json::Value::Null); 1000]);
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("a refusal", |record| record["record"] == "approval" && record["status"] == 503);
    hub.kill();
    control.with(|world| world.refusals.clear());
    start_with(&mut hub, "[hooks]", "agents = { machines = [\"db\"] }\n[hooks]");
    queue.send(&message(&machine, &id, "Started", &["db"]));
    hub.await_record("the start", |record| record["change"] == "started");
    assert_eq!(control.with(|world| world.approvals.len()), 0);
}
