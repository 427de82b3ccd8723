//! The instance metadata that the service serves as JSON (`docs/inside/wire.md`, sections 1 and 5).
//!
//! Everything but the name, and the ids that depend on it, is invented and the same on every
//! machine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::http::route::parameters;
use crate::resource::{LOCATION, RESOURCE_GROUP, SUBSCRIPTION, TAGS, ZONE, machine_id, uniform};

/// The members of `compute`, each with the first version that has it.
const MEMBERS: [(&str, &str); 14] = [
    ("location", "2017-04-02"),
    ("name", "2017-04-02"),
    ("osType", "2017-04-02"),
    ("placementGroupId", "2017-08-01"),
    ("platformFaultDomain", "2017-04-02"),
    ("platformUpdateDomain", "2017-04-02"),
    ("resourceGroupName", "2017-08-01"),
    ("resourceId", "2019-03-11"),
    ("subscriptionId", "2017-08-01"),
    ("tags", "2017-08-01"),
    ("tagsList", "2019-06-04"),
    ("vmId", "2017-04-02"),
    ("vmScaleSetName", "2017-12-01"),
    ("zone", "2017-12-01"),
];

/// An id that differs between machines: the same for the same name.
pub(crate) fn vm_id(vm_name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    vm_name.hash(&mut hasher);
    format!(
        "00000000-0000-4000-8000-{:012x}",
        hasher.finish() & 0xffff_ffff_ffff
    )
}

/// The object `compute` of the machine with this name, with the members that `version` has.
pub(crate) fn compute(vm_name: &str, version: &str) -> Value {
    let members = MEMBERS.iter().filter(|(_, since)| *since <= version);
    Value::Object(
        members
            .map(|(member, _)| ((*member).to_owned(), value(vm_name, member)))
            .collect::<Map<_, _>>(),
    )
}

fn value(vm_name: &str, member: &str) -> Value {
    match member {
        "location" => json!(LOCATION),
        "name" => json!(vm_name),
        "osType" => json!("Linux"),
        "platformFaultDomain" | "platformUpdateDomain" => json!("0"),
        "resourceGroupName" => json!(RESOURCE_GROUP),
        "resourceId" => json!(machine_id(vm_name)),
        "subscriptionId" => json!(SUBSCRIPTION),
        "tags" => json!(
            TAGS.map(|(name, value)| format!("{name}:{value}"))
                .join(";")
        ),
        "tagsList" => TAGS
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect(),
        "vmId" => json!(vm_id(vm_name)),
        "vmScaleSetName" => json!(uniform(vm_name).map(|(set, _)| set).unwrap_or_default()),
        "zone" => json!(ZONE),
        // The service writes an empty text for members that a machine does not have.
        _ => json!(""),
    }
}

/// A token of the machine's managed identity, for the resource that the request's target names. It
/// gives no access: it is a text that names the machine. All members are texts.
pub(crate) fn token(vm_name: &str, target: &str) -> String {
    const LIFE: u64 = 24 * 60 * 60;
    let parameters = parameters(target.split_once('?').map_or("", |(_, query)| query));
    let value = |wanted: &str| {
        parameters
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
    };
    // A text cannot fail.
    let text = |text: String| serde_json::to_string(&text).unwrap_or_default();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    format!(
        r#"{{"access_token":{},"client_id":{},"expires_in":"{LIFE}","expires_on":"{}","not_before":"{now}","resource":{},"token_type":"Bearer"}}"#,
        text(format!("token-of-{vm_name}")),
        text(value("client_id").unwrap_or_else(|| vm_id(vm_name))),
        now + LIFE,
        text(value("resource").unwrap_or_default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_a_scale_set_name_it() {
        let compute = compute("WestNO_7", "2021-12-13");
        assert_eq!(compute["vmScaleSetName"], "WestNO");
        let id = compute["resourceId"].as_str().unwrap_or_default();
        assert!(
            id.ends_with("/virtualMachineScaleSets/WestNO/virtualMachines/7"),
            "{id}"
        );
        assert_eq!(
            compute["tags"],
            "environment:test;served-by:scheduled-events"
        );
        assert_eq!(compute["tagsList"][1]["value"], "scheduled-events");
    }

    #[test]
    fn other_machines_have_no_scale_set() {
        for name in ["db-node", "flex_a1b2c3d4", "_3", "x_", ""] {
            let compute = compute(name, "2021-12-13");
            assert_eq!(
                (&compute["name"], &compute["vmScaleSetName"]),
                (&json!(name), &json!(""))
            );
            assert!(
                compute["resourceId"]
                    .as_str()
                    .is_some_and(|id| id.ends_with(&format!("/virtualMachines/{name}")))
            );
        }
    }

    #[test]
    fn a_token_names_its_machine_and_is_for_what_was_asked() {
        let token = token(
            "WestNO_7",
            "/x?resource=https%3A%2F%2Fstorage.azure.com%2F&client_id=c",
        );
        let token: Value = serde_json::from_str(&token).expect("JSON");
        assert_eq!(token["access_token"], "token-of-WestNO_7");
        assert_eq!(
            (&token["resource"], &token["client_id"]),
            (&json!("https://storage.azure.com/"), &json!("c"))
        );
        let number = |name: &str| {
            token[name]
                .as_str()
                .and_then(|text| text.parse::<u64>().ok())
        };
        assert_eq!(
            number("expires_on"),
            number("not_before")
                .zip(number("expires_in"))
                .map(|(from, life)| from + life)
        );
    }

    #[test]
    fn members_of_later_versions_are_left_out() {
        assert!(
            compute("a", "2017-03-01")
                .as_object()
                .is_some_and(Map::is_empty)
        );
        let compute = compute("a", "2019-06-01");
        assert!(compute.get("resourceId").is_some() && compute.get("tagsList").is_none());
        assert_ne!(vm_id("a"), vm_id("b"));
    }
}
