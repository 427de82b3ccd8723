//! Commands that misbehave.

use std::fs;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource};

/// A preparation hangs, and only one command may run.
#[test]
fn a_machine_is_put_back_although_the_preparation_of_another_one_hangs() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = db || exec sleep 1000\n");
    let config = hub.read("hub.toml").replace("[hooks]", "[hooks]\nat_once = 1");
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the approval", |record| record["record"] == "approval" && record["status"] == 200);
    queue.send(&message(&resource("virtualMachines", "slow"), &event_id(2), "Scheduled", &["slow"]));
    hub.await_record("the other command", |record| {
        record["record"] == "prepare" && record["event_id"] == event_id(2).as_str()
    });
    queue.send(&message(&machine, &id, "Completed", &["db"]));
    hub.await_hook(&format!("recover-db-{id}"));
}
