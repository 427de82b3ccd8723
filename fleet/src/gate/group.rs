//! Which of an event's machines belong to which group, how many of a group may be out of service, and when.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::event::Event;
use super::protocol::Share;
use super::register::MachineRegister;
use super::window::{Closed, opening};
use crate::config::{GroupConfig, Limit};
use crate::names::Name;

impl GroupConfig {
    /// Whether the group has this name, as in the key of its register.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.get_ref().eq_ignore_ascii_case(name)
    }

    /// Whether the group has this machine.
    pub fn has(&self, machine: &Name) -> bool {
        self.machines.iter().any(|pattern| machine.matches(pattern))
    }

    /// How many of so many machines may be out of service together.
    pub fn limit_of(&self, machines: usize) -> u32 {
        match self.max_unavailable {
            Limit::Count(count) => count,
            Limit::Percent(percent) => {
                let machines = u32::try_from(machines).unwrap_or(u32::MAX / 100).min(u32::MAX / 100);
                (machines * percent / 100).max(1)
            }
        }
    }
}

/// The groups of an event whose windows are closed now, by the name as in their registers' keys.
pub fn closed_windows(groups: &[GroupConfig], event: &Event, now: Timestamp) -> BTreeMap<String, Closed> {
    let concerned = groups.iter().filter(|group| event.resources.iter().any(|name| group.has(name)));
    let closed = concerned.filter_map(|group| {
        let opens = opening(&group.windows, now)?;
        let can_wait = event.not_before.is_none_or(|start| start >= opens);
        Some((group.name.get_ref().to_ascii_lowercase(), Closed { opens, can_wait }))
    });
    closed.collect()
}

/// What an event takes of each group. `known` are the machines that have a register: a percentage is of those of them that are
/// alive, of those that the configuration names in full, and of the event's. Registers outlive their machines: the machines
/// that autoscaling has removed must not admit more of those that are left.
pub fn shares(
    groups: &[GroupConfig],
    event: &Event,
    known: &[MachineRegister],
    is_alive: impl Fn(&Name) -> bool,
) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for group in groups {
        let slots: BTreeSet<Name> = event.resources.iter().filter(|name| group.has(name)).cloned().collect();
        if slots.is_empty() {
            continue;
        }
        let zone_of = |name: &Name| {
            let machine = known.iter().find(|machine| machine.machine.as_ref() == Some(name));
            machine.and_then(|machine| machine.zone.clone()).unwrap_or_default()
        };
        let mut members: BTreeSet<Name> = slots.clone();
        let known_names = known.iter().filter_map(|machine| machine.machine.clone());
        members.extend(known_names.filter(|name| group.has(name) && is_alive(name)));
        members.extend(group.machines.iter().filter(|name| !name.contains('*')).map(|name| Name::from(name.as_str())));
        if !group.per_zone {
            let limit = group.limit_of(members.len());
            shares.push(Share { group: group.key(None), slots, limit });
            continue;
        }
        let zones: BTreeSet<String> = slots.iter().map(zone_of).collect();
        for zone in zones {
            let in_zone = |name: &&Name| zone_of(name) == zone;
            let slots = slots.iter().filter(in_zone).cloned().collect();
            let limit = group.limit_of(members.iter().filter(in_zone).count());
            shares.push(Share { group: group.key(Some(&zone)), slots, limit });
        }
    }
    shares
}

impl GroupConfig {
    /// The name of the group's register, or of its part for a zone.
    fn key(&self, zone: Option<&str>) -> String {
        let name = self.name.get_ref().to_ascii_lowercase();
        match zone {
            None => name,
            Some("") => format!("{name}/no-zone"),
            Some(zone) => format!("{name}/zone-{}", Name::from(zone).key()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn machine(name: &str, zone: &str) -> MachineRegister {
        MachineRegister { machine: Some(name.into()), zone: Some(zone.into()), ..MachineRegister::default() }
    }

    fn shares_of(groups: &str, resources: &[&str], known: &[MachineRegister]) -> Vec<(String, usize, u32)> {
        let config =
            Config::parse(&format!("engine = \"folder\"\nfolder.path = \"/x\"\n{groups}")).expect("a configuration");
        let event = Event::new("e", "Reboot", resources.iter().map(|&name| name.into()).collect());
        let shares = shares(&config.groups, &event, known, |name| !name.matches("gone*"));
        shares.into_iter().map(|share| (share.group, share.slots.len(), share.limit)).collect()
    }

    #[test]
    fn a_percentage_is_of_the_machines_that_are_known() {
        let group = "[[group]]\nname = \"Web\"\nmachines = [\"web_*\"]\nmax_unavailable = \"30%\"";
        let known: Vec<_> = (0..10).map(|index| machine(&format!("WEB_{index}"), "1")).collect();
        assert_eq!(shares_of(group, &["web_0", "db_0"], &known), [("web".to_owned(), 1, 3)]);
        // Rounded down, and at least one.
        assert_eq!(shares_of(group, &["web_0", "db_0"], &known[..9]), [("web".to_owned(), 1, 2)]);
        assert_eq!(shares_of(group, &["web_0"], &[]), [("web".to_owned(), 1, 1)]);
        // Machines that are gone do not count, although they have registers.
        let with_gone: Vec<_> =
            known.iter().cloned().chain((0..100).map(|index| machine(&format!("gone_{index}"), "1"))).collect();
        let any = group.replace("web_*", "*");
        assert_eq!(shares_of(&any, &["web_0"], &with_gone), [("web".to_owned(), 1, 3)]);
        // Machines that the configuration names in full count, whether or not they were ever seen.
        let named = "[[group]]\nname = \"db\"\nmachines = [\"a\", \"b\", \"c\", \"d\"]\nmax_unavailable = \"50%\"";
        assert_eq!(shares_of(named, &["B"], &[]), [("db".to_owned(), 1, 2)]);
        assert_eq!(shares_of(named, &["x"], &known), []);
    }

    #[test]
    fn a_group_may_count_each_zone() {
        let group = "[[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = \"50%\"\nper_zone = true";
        let known = ["a1", "a2", "a3", "a4"].map(|name| machine(name, "1")).into_iter();
        let known: Vec<_> = known.chain(["b1", "b2"].map(|name| machine(name, "2"))).collect();
        let expected =
            [("db/no-zone".to_owned(), 1, 1), ("db/zone-1".to_owned(), 2, 2), ("db/zone-2".to_owned(), 1, 1)];
        assert_eq!(shares_of(group, &["a1", "a2", "b1", "x"], &known), expected);
    }
}
