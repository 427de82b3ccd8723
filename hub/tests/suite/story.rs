//! Stories from a message to the end of an event.

use scheduled_events_test_support::wait;
use serde_json::json;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource};

#[test]
fn a_machine_without_an_agent_is_drained_approved_and_put_back() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));

    let got = hub.await_hook(&format!("prepare-db-{id}"));
    for line in [
        &format!("SCHEDULED_EVENTS_RESOURCE_ID={machine}") as &str,
        "SCHEDULED_EVENTS_MACHINE=db",
        "SCHEDULED_EVENTS_LOCATION=westeurope",
        "SCHEDULED_EVENTS_EVENT_TYPE=Reboot",
        &format!("\"resource_id\":\"{machine}\""),
    ] {
        assert!(got.contains(line), "{line} in {got}");
    }
    hub.await_record("the approval", |record| record["record"] == "approval" && record["status"] == 200);
    let path = format!(
        "{}/providers/Microsoft.Maintenance/scheduledevents/{id}/acknowledge?api-version=2025-10-01-preview",
        machine.replace("resourceGroups", "resourcegroups")
    );
    assert_eq!(control.with(|world| world.approvals.clone()), [(path, json!(null))]);

    queue.send(&message(&machine, &id, "Started", &["db"]));
    queue.send(&message(&machine, &id, "Completed", &["db"]));
    hub.await_hook(&format!("recover-db-{id}"));
    hub.await_record("the recovery", |record| record["record"] == "recover" && record["outcome"] == "done");
    let changes: Vec<_> = hub.records().into_iter().filter(|record| record["record"] == "change").collect();
    let words: Vec<_> = changes.iter().map(|record| record["change"].as_str().expect("a word")).collect();
    assert_eq!(words, ["scheduled", "started", "completed"]);
    assert!(changes.iter().all(|record| record["resource_id"] == machine && record["mine"] == true), "{changes:?}");
    wait::until("the end of all messages", || (queue.length() == 0).then_some(()));
}
