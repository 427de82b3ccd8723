//! An event as it is outside the machine: a row of Resource Graph and a message of Event Grid, from the same facts.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::http::instance::vm_id;
use crate::http::wire;
use crate::resource::{
    LOCATION, RESOURCE_GROUP, SUBSCRIPTION, TAGS, ZONE, event_id, machine_id, scale_set_id, target_id, uniform,
};
use crate::timeline::document::{DocumentEvent, EventStatus};

/// The type of an event, as a resource.
const EVENT_TYPE: &str = "microsoft.maintenance/scheduledevents";

/// The type of a message about an event.
const MESSAGE_TYPE: &str = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted";

/// The row of an event in the table `maintenanceresources`.
pub(crate) fn event_row(event: &DocumentEvent, status: EventStatus, epoch: SystemTime) -> Value {
    let target = target_id(&event.facts.resources);
    let mut properties = wire::properties(event, status, epoch);
    properties["TargetResourceId"] = json!(target);
    json!({
        "id": event_id(&target, &event.facts.event_id),
        "name": event.facts.event_id,
        "type": EVENT_TYPE,
        "location": LOCATION,
        "resourceGroup": RESOURCE_GROUP,
        "subscriptionId": SUBSCRIPTION,
        "zones": [ZONE],
        "properties": properties,
    })
}

/// The rows of the table `resources`: machines that are in no scale set, and the scale sets of the others, whose machines are no
/// resources of their own there.
pub(crate) fn resource_rows(machines: &[String]) -> Vec<Value> {
    let row = |id: String, name: &str, resource_type: &str, properties: Value| {
        json!({
            "id": id,
            "name": name,
            "type": resource_type,
            "location": LOCATION,
            "resourceGroup": RESOURCE_GROUP,
            "subscriptionId": SUBSCRIPTION,
            "zones": [ZONE],
            "tags": TAGS.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>(),
            "properties": properties,
        })
    };
    let mut rows: Vec<Value> = Vec::new();
    for name in machines {
        let found = match uniform(name) {
            Some((set, _)) => row(scale_set_id(set), set, "microsoft.compute/virtualmachinescalesets", json!({})),
            None => row(machine_id(name), name, "microsoft.compute/virtualmachines", json!({"vmId": vm_id(name)})),
        };
        if !rows.iter().any(|row| row["id"] == found["id"]) {
            rows.push(found);
        }
    }
    rows
}

/// A message in the schema of Event Grid. Its outer id is that of the delivery, not of the event.
pub(crate) fn message(
    outer_id: &str,
    event: &DocumentEvent,
    status: EventStatus,
    epoch: SystemTime,
    changed: SystemTime,
) -> Value {
    let id = event_id(&target_id(&event.facts.resources), &event.facts.event_id);
    let time = humantime::format_rfc3339_micros(changed).to_string();
    json!({
        "id": outer_id,
        "topic": format!("/subscriptions/{SUBSCRIPTION}"),
        "subject": id,
        "eventType": MESSAGE_TYPE,
        "eventTime": time,
        "dataVersion": "1",
        "metadataVersion": "1",
        "data": {
            "resourceInfo": {
                "id": id,
                "name": event.facts.event_id,
                "type": EVENT_TYPE,
                "location": LOCATION,
                "tags": {},
                "properties": wire::properties(event, status, epoch),
            },
            "operationalInfo": { "resourceEventTime": time },
            "apiVersion": "2020-03-01",
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Scenario, Timeline};

    /// An event that is announced, with a time.
    fn event() -> DocumentEvent {
        let mut timeline = Timeline::new(&Scenario::builtin("user-reboot").expect("known"), "WestNO_0", 60.0, 7);
        timeline.advance(Duration::from_secs(1));
        timeline.document().events[0].clone()
    }

    #[test]
    fn fact_a_message_has_the_members_of_event_grid_and_of_a_document() {
        let (event, epoch) = (event(), SystemTime::UNIX_EPOCH);
        let message = message("outer", &event, EventStatus::Scheduled, epoch, epoch + Duration::from_millis(1500));
        let info = &message["data"]["resourceInfo"];
        assert_eq!((&message["id"], &message["subject"]), (&json!("outer"), &info["id"]));
        assert_eq!(message["eventTime"], "1970-01-01T00:00:01.500000Z");
        assert_eq!(message["data"]["operationalInfo"]["resourceEventTime"], message["eventTime"]);
        assert_eq!(info["name"], event.facts.event_id);
        let mut members: Vec<_> =
            info["properties"].as_object().expect("an object").keys().map(String::as_str).collect();
        members.sort_unstable();
        let expected = [
            "Description",
            "DurationInSeconds",
            "EventId",
            "EventSource",
            "EventStatus",
            "EventType",
            "NotBefore",
            "ResourceType",
            "Resources",
        ];
        assert_eq!(members, expected);
    }

    #[test]
    fn fact_only_a_scheduled_event_has_a_not_before() {
        for (status, word) in [
            (EventStatus::Scheduled, "Scheduled"),
            (EventStatus::Started, "Started"),
            (EventStatus::Completed, "Completed"),
            (EventStatus::Canceled, "Canceled"),
        ] {
            let properties = wire::properties(&event(), status, SystemTime::UNIX_EPOCH);
            assert_eq!(properties["EventStatus"], word);
            let not_before = properties["NotBefore"].as_str().expect("a text");
            assert_eq!(!not_before.is_empty(), status == EventStatus::Scheduled, "{word}: {not_before}");
        }
    }

    #[test]
    fn fact_a_row_has_the_columns_of_resource_graph() {
        let row = event_row(&event(), EventStatus::Completed, SystemTime::UNIX_EPOCH);
        assert_eq!((&row["name"], &row["type"]), (&row["properties"]["EventId"], &json!(EVENT_TYPE)));
        let target = row["properties"]["TargetResourceId"].as_str().expect("a text");
        assert!(row["id"].as_str().is_some_and(|id| id.starts_with(target) && id.len() > target.len()));
        assert_eq!((&row["resourceGroup"], &row["zones"]), (&json!(RESOURCE_GROUP), &json!([ZONE])));
    }

    #[test]
    fn instances_of_a_scale_set_are_no_resources_of_their_own() {
        let names = ["WestNO_0", "WestNO_1", "db"].map(str::to_owned);
        let rows = resource_rows(&names);
        let types: Vec<_> = rows.iter().map(|row| row["type"].as_str().unwrap_or_default()).collect();
        assert_eq!(types, ["microsoft.compute/virtualmachinescalesets", "microsoft.compute/virtualmachines"]);
        assert_eq!(rows[1]["tags"]["environment"], "test");
    }
}
