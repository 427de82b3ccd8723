//! An event as it appears outside the machine: a row of Resource Graph and a message of Event Grid,
//! from the same facts.

use std::time::SystemTime;

use serde_json::Value;

use crate::http::wire;
use crate::resource::{
    LOCATION, RESOURCE_GROUP, SUBSCRIPTION, TAGS, ZONE, event_id, machine_id, scale_set_id,
    target_id, uniform,
};
use crate::timeline::document::{DocumentEvent, EventStatus};
use scheduled_events_core::UnixSeconds;

/// The row of an event in the table `maintenanceresources`.
pub(crate) fn event_row(event: &DocumentEvent, status: EventStatus, epoch: SystemTime) -> Value {
    let (target, name) = (target_id(&event.facts.resources), &event.facts.event_id);
    let id = text(&event_id(&target, name));
    let properties = wire::properties(event, status, epoch, Some(&target));
    row(
        &id,
        &text(name),
        "microsoft.maintenance/scheduledevents",
        &format!(r#""properties":{properties}"#),
    )
}

/// The rows of the table `resources`: machines that are in no scale set, and scale sets, whose
/// machines are no resources of their own there.
pub(crate) fn resource_rows(machines: &[String]) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    let tags = TAGS
        .map(|(name, value)| format!(r#""{name}":"{value}""#))
        .join(",");
    for machine in machines {
        let (id, name, resource_type) = uniform(machine).map_or_else(
            || {
                (
                    machine_id(machine),
                    machine.as_str(),
                    "microsoft.compute/virtualmachines",
                )
            },
            |(set, _)| {
                (
                    scale_set_id(set),
                    set,
                    "microsoft.compute/virtualmachinescalesets",
                )
            },
        );
        let more = format!(r#""tags":{{{tags}}},"properties":{{}}"#);
        if !rows.iter().any(|row| row["id"] == id) {
            rows.push(row(&text(&id), &text(name), resource_type, &more));
        }
    }
    rows
}

/// A row from the JSON of its id, its name and its other columns.
fn row(id: &str, name: &str, resource_type: &str, more: &str) -> Value {
    let row = format!(
        r#"{{"id":{id},"name":{name},"type":"{resource_type}","location":"{LOCATION}","resourceGroup":"{RESOURCE_GROUP}",
        "subscriptionId":"{SUBSCRIPTION}","zones":["{ZONE}"],{more}}}"#
    );
    // It is valid JSON: all texts in it are escaped, or need no escaping.
    serde_json::from_str(&row).unwrap_or_default()
}

/// A message in the schema of Event Grid. Its outer id is that of the message, not of the event.
pub(crate) fn message(
    outer_id: &str,
    event: &DocumentEvent,
    status: EventStatus,
    epoch: SystemTime,
    changed: SystemTime,
) -> String {
    let name = &event.facts.event_id;
    let id = text(&event_id(&target_id(&event.facts.resources), name));
    let since = changed
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = UnixSeconds(i64::try_from(since.as_secs()).unwrap_or_default()).to_string();
    let time = format!(
        "{}.{:06}Z",
        seconds.trim_end_matches('Z'),
        since.subsec_micros()
    );
    let properties = wire::properties(event, status, epoch, None);
    format!(
        r#"{{"id":"{outer_id}","topic":"/subscriptions/{SUBSCRIPTION}","subject":{id},"eventType":"Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted","eventTime":"{time}","dataVersion":"1","metadataVersion":"1","data":{{"resourceInfo":{{"id":{id},"name":"{name}","type":"microsoft.maintenance/scheduledevents","location":"{LOCATION}","tags":{{}},"properties":{properties}}},"operationalInfo":{{"resourceEventTime":"{time}"}},"apiVersion":"2020-03-01"}}}}"#
    )
}

/// A text as JSON.
fn text(text: &str) -> String {
    // A text cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{Scenario, Timeline};

    /// An event that is announced, with a time.
    fn event() -> DocumentEvent {
        let mut timeline = Timeline::new(
            &Scenario::builtin("user-reboot").expect("known"),
            "WestNO_0",
            60.0,
            7,
        );
        timeline.advance(Duration::from_secs(1));
        timeline.document().events[0].clone()
    }

    #[test]
    fn fact_a_message_has_the_members_of_event_grid_and_of_a_document() {
        let (event, epoch) = (event(), SystemTime::UNIX_EPOCH);
        let text = message(
            "outer",
            &event,
            EventStatus::Scheduled,
            epoch,
            epoch + Duration::from_millis(1500),
        );
        let message: Value = serde_json::from_str(&text).expect("JSON");
        let info = &message["data"]["resourceInfo"];
        assert_eq!(
            (&message["id"], &message["subject"]),
            (&json!("outer"), &info["id"])
        );
        assert_eq!(message["eventTime"], "1970-01-01T00:00:01.500000Z");
        assert_eq!(
            message["data"]["operationalInfo"]["resourceEventTime"],
            message["eventTime"]
        );
        assert_eq!(info["name"], event.facts.event_id);
        let mut members: Vec<_> = info["properties"]
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
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
    fn fact_advice_is_a_message_with_its_own_type_and_status() {
        let scenario = Scenario::builtin("rebalance").expect("known");
        let mut timeline = Timeline::new(&scenario, "WestNO_0", 60.0, 7);
        timeline.advance(Duration::from_secs(1));
        let (event, epoch) = (
            timeline.document().events[0].clone(),
            SystemTime::UNIX_EPOCH,
        );
        let properties = |status| {
            let text = message("outer", &event, status, epoch, epoch);
            let message: Value = serde_json::from_str(&text).expect("JSON");
            message["data"]["resourceInfo"]["properties"].clone()
        };
        let announced = properties(event.status());
        assert_eq!(
            (
                &announced["EventType"],
                &announced["EventStatus"],
                &announced["NotBefore"]
            ),
            (
                &json!("SpotRebalanceRecommendation"),
                &json!("Advisory"),
                &json!("")
            )
        );
        assert_eq!(properties(EventStatus::Canceled)["EventStatus"], "Canceled");
    }

    #[test]
    fn fact_only_a_scheduled_event_has_a_not_before() {
        for (status, word) in [
            (EventStatus::Scheduled, "Scheduled"),
            (EventStatus::Started, "Started"),
            (EventStatus::Completed, "Completed"),
            (EventStatus::Canceled, "Canceled"),
        ] {
            let text = wire::properties(&event(), status, SystemTime::UNIX_EPOCH, None);
            let properties: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(properties["EventStatus"], word);
            let not_before = properties["NotBefore"].as_str().expect("a text");
            assert_eq!(
                !not_before.is_empty(),
                status == EventStatus::Scheduled,
                "{word}: {not_before}"
            );
        }
    }

    #[test]
    fn fact_a_row_has_the_columns_of_resource_graph() {
        let row = event_row(&event(), EventStatus::Completed, SystemTime::UNIX_EPOCH);
        assert_eq!(
            (&row["name"], &row["type"]),
            (
                &row["properties"]["EventId"],
                &json!("microsoft.maintenance/scheduledevents")
            )
        );
        let target = row["properties"]["TargetResourceId"]
            .as_str()
            .expect("a text");
        assert!(
            row["id"]
                .as_str()
                .is_some_and(|id| id.starts_with(target) && id.len() > target.len())
        );
        assert_eq!(
            (&row["resourceGroup"], &row["zones"]),
            (&json!(RESOURCE_GROUP), &json!([ZONE]))
        );
    }

    #[test]
    fn instances_of_a_scale_set_are_no_resources_of_their_own() {
        let names = ["WestNO_0", "WestNO_1", "db"].map(str::to_owned);
        let rows = resource_rows(&names);
        let types: Vec<_> = rows
            .iter()
            .map(|row| row["type"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(
            types,
            [
                "microsoft.compute/virtualmachinescalesets",
                "microsoft.compute/virtualmachines"
            ]
        );
        assert_eq!(rows[1]["tags"]["environment"], "test");
    }
}
