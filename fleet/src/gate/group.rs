//! Which of an event's machines belong to which group, how many of a group may be out of service, and when.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::event::Event;
use super::members::{Member, Presence};
use super::protocol::{Seen, Share};
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

    /// The group's name, as in the keys of its registers.
    pub fn register_name(&self) -> String {
        self.name.get_ref().to_ascii_lowercase()
    }

    /// The machines whose configuration has another limit of this group, each with it.
    pub fn other_limits(&self, members: &[Member]) -> Vec<(Name, Limit)> {
        let name = self.register_name();
        let present = members.iter().filter(|member| member.presence != Presence::Gone && self.has(&member.name));
        let limit = |member: &Member| Some((member.name.clone(), member.register.limits.get(&name)?.parse().ok()?));
        present.filter_map(limit).filter(|(_, limit)| *limit != self.max_unavailable).collect()
    }

    /// How many of so many machines may be out of service together. A share of an unknown number is without limit, so that nothing
    /// is refused because of it before the machines were counted.
    pub fn limit_of(&self, machines: Option<usize>) -> u32 {
        self.max_unavailable.of(machines)
    }
}

impl Limit {
    fn of(self, machines: Option<usize>) -> u32 {
        match (self, machines) {
            (Self::Count(count), _) => count,
            (Self::Percent(_), None) => u32::MAX,
            (Self::Percent(percent), Some(machines)) => {
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

/// What an event takes of each group, in the order of their names, and what is seen of the machines. A percentage is of the members:
/// those with a register that are not gone, those that the configuration names in full, and the event's. Without `members` it is
/// unknown, and so are the zones.
pub fn shares(groups: &[GroupConfig], event: &Event, members: Option<&[Member]>) -> Vec<(Share, Seen)> {
    let mut shares: Vec<(Share, Seen)> = Vec::new();
    let known = || members.unwrap_or_default().iter();
    for group in groups {
        let slots: BTreeSet<Name> = event.resources.iter().filter(|name| group.has(name)).cloned().collect();
        if slots.is_empty() {
            continue;
        }
        let zone_of = |name: &Name| {
            let machine = known().find(|member| member.name == *name);
            machine.and_then(|machine| machine.register.zone.clone()).unwrap_or_default()
        };
        let mut all: BTreeSet<Name> = slots.clone();
        let present = known().filter(|member| group.has(&member.name) && member.presence != Presence::Gone);
        all.extend(present.clone().map(|member| member.name.clone()));
        all.extend(group.machines.iter().filter(|name| !name.contains('*')).map(|name| Name::from(name.as_str())));
        let silent = present.filter(|member| member.presence == Presence::Silent).map(|member| member.name.clone());
        let silent: BTreeSet<Name> = silent.collect();
        // Where configurations differ, the smallest limit counts.
        let others = group.other_limits(members.unwrap_or_default());
        let limit_of = |machines: usize| {
            let machines = members.is_some().then_some(machines);
            let others = others.iter().map(|(_, limit)| limit.of(machines));
            others.chain([group.limit_of(machines)]).min().unwrap_or_default()
        };
        if !group.per_zone {
            let limit = limit_of(all.len());
            shares.push((Share { group: group.key(None), slots, limit }, Seen { limit, silent }));
            continue;
        }
        let zones: BTreeSet<String> = slots.iter().map(zone_of).collect();
        for zone in zones {
            let in_zone = |name: &&Name| zone_of(name) == zone;
            let of_zone = |names: &BTreeSet<Name>| names.iter().filter(in_zone).cloned().collect::<BTreeSet<_>>();
            let limit = limit_of(of_zone(&all).len());
            let seen = Seen { limit, silent: of_zone(&silent) };
            shares.push((Share { group: group.key(Some(&zone)), slots: of_zone(&slots), limit }, seen));
        }
    }
    shares.sort_by(|(a, _), (b, _)| a.group.cmp(&b.group));
    shares
}

impl GroupConfig {
    /// The name of the group's register that has a machine of this zone.
    pub fn register_of(&self, zone: Option<&str>) -> String {
        self.key(self.per_zone.then(|| zone.unwrap_or_default()))
    }

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
    use crate::gate::MachineRegister;

    fn machine(name: &str, zone: &str) -> Member {
        let register = MachineRegister { zone: Some(zone.into()), ..MachineRegister::default() };
        let presence = match name.split('_').next() {
            Some("gone") => Presence::Gone,
            Some("silent") => Presence::Silent,
            _ => Presence::Beating,
        };
        Member { name: name.into(), register, presence }
    }

    /// The name of each group's register, how many slots the event takes of it, its limit, and how many machines are silent.
    fn shares_of(groups: &str, resources: &[&str], members: Option<&[Member]>) -> Vec<(String, usize, u32, usize)> {
        let config =
            Config::parse(&format!("engine = \"folder\"\nfolder.path = \"/x\"\n{groups}")).expect("a configuration");
        let event = Event::new("e", "Reboot", resources.iter().map(|&name| name.into()).collect());
        let shares = shares(&config.groups, &event, members).into_iter();
        shares.map(|(share, seen)| (share.group, share.slots.len(), seen.limit, seen.silent.len())).collect()
    }

    #[test]
    fn a_percentage_is_of_the_members() {
        let group = "[[group]]\nname = \"Web\"\nmachines = [\"web_*\"]\nmax_unavailable = \"30%\"";
        let known: Vec<_> = (0..10).map(|index| machine(&format!("WEB_{index}"), "1")).collect();
        assert_eq!(shares_of(group, &["web_0", "db_0"], Some(&known)), [("web".to_owned(), 1, 3, 0)]);
        // Rounded down, and at least one.
        assert_eq!(shares_of(group, &["web_0", "db_0"], Some(&known[..9])), [("web".to_owned(), 1, 2, 0)]);
        assert_eq!(shares_of(group, &["web_0"], Some(&[])), [("web".to_owned(), 1, 1, 0)]);
        assert_eq!(shares_of(group, &["web_0"], None), [("web".to_owned(), 1, u32::MAX, 0)], "nobody was counted");
        // Machines that are gone do not count, although they have registers, and silent ones count as machines and as silent.
        let more = |name: &'static str, count| (0..count).map(move |index| machine(&format!("{name}_{index}"), "1"));
        let others: Vec<_> = known.iter().cloned().chain(more("gone", 100)).chain(more("silent", 10)).collect();
        let any = group.replace("web_*", "*");
        assert_eq!(shares_of(&any, &["web_0"], Some(&others)), [("web".to_owned(), 1, 6, 10)]);
        // Machines that the configuration names in full count, whether or not they were ever seen.
        let named = "[[group]]\nname = \"db\"\nmachines = [\"a\", \"b\", \"c\", \"d\"]\nmax_unavailable = \"50%\"";
        assert_eq!(shares_of(named, &["B"], Some(&[])), [("db".to_owned(), 1, 2, 0)]);
        assert_eq!(shares_of(named, &["x"], Some(&known)), []);
    }

    #[test]
    fn a_group_may_count_each_zone() {
        let group = "[[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = \"50%\"\nper_zone = true";
        let known = ["a1", "a2", "a3", "silent_4"].map(|name| machine(name, "1")).into_iter();
        let known: Vec<_> = known.chain(["b1", "b2"].map(|name| machine(name, "2"))).collect();
        let expected =
            [("db/no-zone".to_owned(), 1, 1, 0), ("db/zone-1".to_owned(), 2, 2, 1), ("db/zone-2".to_owned(), 1, 1, 0)];
        assert_eq!(shares_of(group, &["a1", "a2", "b1", "x"], Some(&known)), expected);
    }
}
