//! Notifications: the corpus that all languages read, and requests that approve outside the machine.

use std::fs;

use proptest::prelude::*;
use scheduled_events_core::approval::{ACKNOWLEDGE_API_VERSION, AcknowledgeError, acknowledge};
use scheduled_events_core::{
    MachineId, Notification, NotificationCursor, Notifications, ResourceId, Text, VmNames,
};
use serde_json::{Value, json};

use crate::corpus::{corpus, event_reading};

fn reading(notification: &Notification<'_>) -> Value {
    let mut event = event_reading(notification.event(), VmNames::UNKNOWN);
    event.as_object_mut().unwrap().remove("mine");
    let machines = notification.machines().ok().map(|machines| {
        let ids = machines.map(|machine| machine.ok().map(|machine| machine.to_string()));
        ids.collect::<Vec<_>>()
    });
    json!({
        "id": notification.id(),
        "time_ms": notification.time().map(|time| time.0),
        "resource_id": notification.resource_id(),
        "state": notification.state(),
        "machines": machines,
        "event": event,
    })
}

/// What was read, in the form of the files of expected results.
fn reading_of(body: &[u8]) -> Value {
    match Notifications::parse(body) {
        Ok(notifications) => {
            let read: Vec<_> = notifications
                .iter()
                .map(|notification| reading(&notification))
                .collect();
            assert_eq!(read.len(), notifications.len());
            json!({
                "notifications": read,
                "left_out": notifications.left_out(),
                "validation_code": notifications.validation_code(),
            })
        }
        Err(error) => {
            let position = error.position(body);
            json!({"error": {"kind": error.kind.word(), "line": position.line, "column": position.column}})
        }
    }
}

fn cases() -> Vec<(String, Vec<u8>, Value)> {
    let folder = corpus().join("notifications");
    let mut cases = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .strip_suffix(".expected.json")
        else {
            continue;
        };
        let expected = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        cases.push((
            name.to_owned(),
            fs::read(folder.join(format!("{name}.json"))).unwrap(),
            expected,
        ));
    }
    cases
}

#[test]
fn every_notification_of_the_corpus_reads_as_expected() {
    let cases = cases();
    assert!(cases.len() >= 30, "only {} cases were found", cases.len());
    for (name, body, mut expected) in cases {
        expected
            .as_object_mut()
            .unwrap()
            .remove("about")
            .expect("each case says what it tests");
        let reading = reading_of(&body);
        assert_eq!(
            reading, expected,
            "{name}: {reading:#}, expected {expected:#}"
        );
    }
}

#[test]
fn bodies_that_are_cut_off_anywhere_are_refused() {
    for (name, body, expected) in cases() {
        if expected.get("error").is_some() {
            continue;
        }
        let whole = body.trim_ascii_end().len();
        for end in (0..whole).step_by(if whole > 1_500 { 13 } else { 1 }) {
            assert!(
                Notifications::parse(&body[..end]).is_err(),
                "{name}: the first {end} bytes are accepted"
            );
        }
    }
}

#[test]
fn a_cursor_of_other_notifications_does_not_panic() {
    let cases = cases();
    let parsed: Vec<_> = cases
        .iter()
        .filter_map(|(_, body, _)| Notifications::parse(body).ok())
        .collect();
    for one in &parsed {
        let mut cursor = NotificationCursor::default();
        while one.next_notification(&mut cursor).is_some() {
            for other in &parsed {
                let mut cursor = cursor;
                for _ in 0..20 {
                    let _ = other.next_notification(&mut cursor);
                }
            }
        }
    }
}

/// The whole life of a message with many resources takes time linear in its length.
#[test]
fn a_message_with_many_resources_is_read_once_for_each() {
    let resource = r#"{"resourceId":"x","armResource":{"properties":{"EventId":"a"}}}"#;
    let body = format!(
        r#"{{"id":"{}","eventType":"microsoft.maintenance/scheduledevents/write","data":{{"resources":[{}]}}}}"#,
        "i".repeat(1_000_000),
        vec![resource; 20_000].join(",")
    );
    let notifications = Notifications::parse(body.as_bytes()).unwrap();
    assert_eq!(
        notifications
            .iter()
            .filter(|read| read.id().is_some_and(|id| id.raw().len() == 1_000_000))
            .count(),
        20_000
    );
}

const GROUP: &str = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/Web-1/providers/Microsoft.Compute";
const IDS: [&str; 2] = [
    "743C15D8-a994-46fc-93af-b84ee33f9a14",
    "3da1b9aa-5204-4335-8c33-c54e315dcffe",
];

/// The path and the body of a request.
fn request(resource: &str, ids: &[&str]) -> Result<(String, String), AcknowledgeError> {
    let request = acknowledge(ResourceId::parse(Text::plain(resource)).unwrap(), ids)?;
    let (mut path, mut body) = (vec![0; request.path_len()], vec![0; request.body_len()]);
    assert_eq!(request.method(), "POST");
    assert_eq!(request.write_body(&mut body), Ok(body.len()));
    let path_len = path.len();
    if let Some(short) = path.get_mut(1..) {
        assert_eq!(request.write_path(short).unwrap_err().needed, path_len);
    }
    Ok((
        request.write_path(&mut path).unwrap().to_owned(),
        String::from_utf8(body).unwrap(),
    ))
}

#[test]
fn one_event_is_in_the_path_and_several_are_in_the_body() {
    let start = GROUP.replace("/resourceGroups/", "/resourcegroups/");
    let events = "providers/Microsoft.Maintenance/scheduledevents";
    let version = format!("?api-version={ACKNOWLEDGE_API_VERSION}");
    for (resource, sent) in [
        ("virtualMachines/db", "virtualMachines/db"),
        (
            "VIRTUALMACHINES/DB/providers/microsoft.maintenance/scheduledevents/e",
            "virtualMachines/DB",
        ),
        ("availabilitySets/pair", "availabilitySets/pair"),
        (
            "virtualMachineScaleSets/front",
            "virtualMachineScaleSets/front",
        ),
        // An event of a scale set is the set's.
        (
            "virtualMachineScaleSets/front/virtualMachines/3",
            "virtualMachineScaleSets/front",
        ),
        ("virtualMachines/zo\u{eb}(1)", "virtualMachines/zo%C3%AB(1)"),
    ] {
        let resource = format!("{GROUP}/{resource}");
        let (path, body) = request(&resource, &IDS[..1]).unwrap();
        assert_eq!(
            path,
            format!("{start}/{sent}/{events}/{}/acknowledge{version}", IDS[0])
        );
        assert_eq!(body, "");
        let (path, body) = request(&resource, &IDS).unwrap();
        assert_eq!(path, format!("{start}/{sent}/{events}{version}"));
        assert_eq!(
            serde_json::from_str::<Value>(&body).unwrap(),
            json!({"value": IDS})
        );
    }
    let resource = format!("{GROUP}/virtualMachines/db");
    assert_eq!(request(&resource, &[]), Err(AcknowledgeError::NoEvent));
    for wrong in [
        "",
        "743c15d8",
        "743c15d8-a994-46fc-93af-b84ee33f9a14x",
        "{743c15d8-a994-46fc-93af-b84ee33f9a1}",
        "743c15d8-a994-46fc-93af-b84ee33f9a1/",
    ] {
        assert_eq!(
            request(&resource, &[IDS[0], wrong]),
            Err(AcknowledgeError::EventId { index: 1 }),
            "{wrong}"
        );
    }
}

proptest! {
    /// Whatever is refused or accepted, the path has the form of Azure's, and no character of another meaning.
    #[test]
    fn nothing_else_gets_into_the_path(group in "\\PC{0,12}", name in "\\PC{0,12}", id in "[-0-9a-fA-F/.?#%]{30,38}") {
        let resource = format!("/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/{name}");
        if ResourceId::parse(Text::plain(&resource)).is_ok() {
            let (path, _) = request(&resource, &IDS[..1]).unwrap();
            prop_assert!(path.is_ascii() && path.matches('/').count() == 13 && path.matches('?').count() == 1, "{path}");
            prop_assert!(path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.()%?=".contains(&byte)), "{path}");
            prop_assert!(!path.contains("/./") && !path.contains("/../"), "{path}");
        }
        let resource = format!("{GROUP}/virtualMachines/db");
        if let Ok((path, _)) = request(&resource, &[&id]) {
            let part = format!("/{id}/");
            prop_assert!(path.contains(&part) && id.len() == 36 && !id.contains(['/', '.', '?', '#', '%']));
        }
    }

    /// Ids are equal exactly if their parts are without ASCII case, and equal ids have equal hashes and forms.
    #[test]
    fn ids_of_machines_are_compared_as_arm_does(one in "[aB]{1,2}_?[0-9]{0,2}", other in "[Ab]{1,2}_?[0-9]{0,2}", set in "[aB]{1,2}") {
        let resource = format!("{GROUP}/virtualMachineScaleSets/{set}");
        let resource = ResourceId::parse(Text::plain(&resource)).unwrap();
        let (Ok(one_id), Ok(other_id)) = (resource.machine(Text::plain(&one)), resource.machine(Text::plain(&other))) else {
            return Ok(());
        };
        prop_assert_eq!(one_id == other_id, one.eq_ignore_ascii_case(&other));
        prop_assert_eq!(std::collections::HashSet::from([one_id, other_id]).len(), if one_id == other_id { 1 } else { 2 });
        prop_assert_eq!(one_id.name().to_string().to_lowercase(), one.to_lowercase());
        prop_assert!(one_id.is_named(&one.to_uppercase()));
        // Written in either form it is the same machine.
        let written = one_id.to_string();
        let upper = written.to_uppercase();
        prop_assert_eq!(MachineId::parse(Text::plain(&upper)).unwrap(), one_id);
        let plain = format!("{GROUP}/virtualMachines/{one}");
        prop_assert_eq!(MachineId::parse(Text::plain(&plain)).unwrap(), one_id);
        let mut buffer = vec![0; written.len()];
        prop_assert_eq!(one_id.write(&mut buffer), Ok(&*written));
    }
}
