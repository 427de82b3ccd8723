//! The machines' ids at Azure: the same inside, in the instance metadata, and outside, in the
//! control plane.
//!
//! The ids derive from the machines' names; the rest is invented and the same for every machine.

/// The subscription of all machines.
pub(crate) const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// The resource group of all machines.
pub(crate) const RESOURCE_GROUP: &str = "replay";

pub(crate) const LOCATION: &str = "westeurope";
pub(crate) const ZONE: &str = "1";
pub(crate) const TAGS: [(&str, &str); 2] =
    [("environment", "test"), ("served-by", "scheduled-events")];

/// The availability set of machines that are in no scale set, when one event names several of them.
const AVAILABILITY_SET: &str = "replay";

/// The scale set and the instance id of a machine in a scale set with uniform orchestration, whose
/// names are `{scale-set}_{instance-id}`.
pub(crate) fn uniform(vm_name: &str) -> Option<(&str, &str)> {
    let (set, id) = vm_name.rsplit_once('_')?;
    (!set.is_empty() && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
        .then_some((set, id))
}

/// The id of a resource of `Microsoft.Compute`.
fn compute_id(resource_type: &str, name: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/{resource_type}/{name}"
    )
}

/// The id of a machine, as in its instance metadata.
pub(crate) fn machine_id(vm_name: &str) -> String {
    match uniform(vm_name) {
        Some((set, id)) => format!("{}/virtualMachines/{id}", scale_set_id(set)),
        None => compute_id("virtualMachines", vm_name),
    }
}

pub(crate) fn scale_set_id(set: &str) -> String {
    compute_id("virtualMachineScaleSets", set)
}

/// The resource that an event belongs to outside the machine: the one machine, or the set of all
/// its `Resources` (`docs/inside/wire.md`, section 6).
pub(crate) fn target_id(resources: &[String]) -> String {
    let mut sets = resources
        .iter()
        .map(|name| uniform(name).map(|(set, _)| set));
    let is_one = |names: &[String]| {
        let mut pairs = names.windows(2);
        pairs.all(|pair| pair[0].eq_ignore_ascii_case(&pair[1]))
    };
    match (sets.next().flatten(), resources) {
        (Some(first), _)
            if sets.all(|set| set.is_some_and(|set| set.eq_ignore_ascii_case(first))) =>
        {
            scale_set_id(first)
        }
        (None, [first, ..]) if is_one(resources) => machine_id(first),
        _ => compute_id("availabilitySets", AVAILABILITY_SET),
    }
}

/// The id of an event of this resource.
pub(crate) fn event_id(target: &str, event_id: &str) -> String {
    format!("{target}/providers/microsoft.maintenance/scheduledevents/{event_id}")
}

/// The length of a GUID.
pub(crate) const GUID_LENGTH: usize = 36;

/// Whether a text has the form of a GUID, as the ids of Azure's events have.
///
/// ```
/// use scheduled_events_replay::capture::is_guid;
///
/// assert!(is_guid("6A7B1C2D-0000-1111-2222-333344445555"));
/// assert!(!is_guid("shop-web-frontend-of-the-east-side-01"));
/// ```
pub fn is_guid(text: &str) -> bool {
    text.len() == GUID_LENGTH
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_resource_an_event_belongs_to_the_machine_or_to_the_set() {
        let target = |names: &[&str]| {
            target_id(
                &names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let ends = |names: &[&str], end: &str| {
            assert!(target(names).ends_with(end), "{names:?}: {}", target(names));
        };
        ends(&["WestNO_0"], "/virtualMachineScaleSets/WestNO");
        ends(
            &["WestNO_0", "WestNO_11"],
            "/virtualMachineScaleSets/WestNO",
        );
        ends(&["db-node"], "/virtualMachines/db-node");
        ends(&["db-node", "DB-node"], "/virtualMachines/db-node");
        ends(&["WestNO_0", "westno_0"], "/virtualMachineScaleSets/WestNO");
        ends(&["db-node", "db-node_1"], "/availabilitySets/replay");
        ends(&["WestNO_0", "EastNO_0"], "/availabilitySets/replay");
        ends(&[], "/availabilitySets/replay");
        assert_eq!(target(&["db-node"]), machine_id("db-node"));
        assert!(
            event_id(&target(&["db-node"]), "ID")
                .ends_with("/providers/microsoft.maintenance/scheduledevents/ID")
        );
    }
}
