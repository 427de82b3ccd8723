//! Which of an event's machines belong to which group, how many of a group may be out of service,
//! and when.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::config::window::{Closed, WindowConfig, opening};
use crate::config::{GroupConfig, Limit};
use crate::event::Event;
use crate::members::{Member, Presence};
use crate::protocol::{GroupHealth, Share};
use scheduled_events_common::hexadecimal::hexadecimal;
use scheduled_events_common::names::Name;

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

    /// The machines that configure this group differently, each with its limit if that differs. A
    /// machine may be in the group by this configuration, by its own, or by both.
    pub fn differences(&self, members: &[Member]) -> Vec<(Name, Option<Limit>)> {
        let (name, digest) = (self.register_name(), self.digest());
        let difference = |Member {
                              name: machine,
                              register,
                              ..
                          }: &Member| {
            let limit = register
                .limits
                .get(&name)
                .and_then(|limit| limit.parse().ok());
            let limit = limit.filter(|limit| *limit != self.max_unavailable);
            let has_other = |digests: &BTreeMap<_, _>| digests.get(&name) != Some(&digest);
            (limit.is_some() || register.digests.as_ref().is_some_and(has_other))
                .then(|| (machine.clone(), limit))
        };
        let concerned = members.iter().filter(|member| {
            member.presence != Presence::Gone
                && (self.has(&member.name) || member.register.limits.contains_key(&name))
        });
        concerned.filter_map(difference).collect()
    }

    /// A digest of the settings that must be equal on all machines. It leaves out settings that are
    /// absent, so that a setting that a later version adds makes no difference until it is used.
    pub fn digest(&self) -> String {
        let patterns: BTreeSet<_> = self
            .machines
            .iter()
            .map(|pattern| pattern.to_ascii_lowercase())
            .collect();
        let mut text = format!(
            "machines={patterns:?};max_unavailable={}",
            self.max_unavailable
        );
        if self.per_zone {
            text.push_str(";per_zone");
        }
        if !self.pause.is_zero() {
            let _ = write!(text, ";pause={:?}", self.pause);
        }
        let windows: BTreeSet<_> = self.windows.iter().map(WindowConfig::canonical).collect();
        if !windows.is_empty() {
            let _ = write!(text, ";windows={windows:?}");
        }
        hexadecimal(&Sha256::digest(text)[..6])
    }

    /// How many of the machines may be out of service together. A percentage of an unknown number
    /// is no limit, so that it refuses nothing before the machines were counted.
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
                let machines = u32::try_from(machines)
                    .unwrap_or(u32::MAX / 100)
                    .min(u32::MAX / 100);
                (machines * percent / 100).max(1)
            }
        }
    }
}

/// The groups of an event whose windows are closed now, by the names in their registers' keys.
pub fn closed_windows(
    groups: &[GroupConfig],
    event: &Event,
    now: Timestamp,
) -> BTreeMap<String, Closed> {
    // They are for maintenance. What advice advises of does not wait for them.
    let concerned = groups
        .iter()
        .filter(|_| !event.is_advice)
        .filter(|group| event.resources.iter().any(|name| group.has(name)));
    let closed = concerned.filter_map(|group| {
        let opens = opening(&group.windows, now)?;
        let can_wait = event.not_before.is_none_or(|start| start >= opens);
        Some((
            group.name.get_ref().to_ascii_lowercase(),
            Closed { opens, can_wait },
        ))
    });
    closed.collect()
}

/// What an event takes of each group, in the order of the groups' names, and the state of the
/// machines. A percentage refers to the members: machines with a register that are not gone,
/// machines that the configuration names in full, and the event's machines. Without `members` their
/// number is unknown, and so are the zones.
pub fn shares(
    groups: &[GroupConfig],
    event: &Event,
    members: Option<&[Member]>,
) -> Vec<(Share, GroupHealth)> {
    let mut shares: Vec<(Share, GroupHealth)> = Vec::new();
    let known = || members.unwrap_or_default().iter();
    for group in groups {
        let slots: BTreeSet<Name> = event
            .resources
            .iter()
            .filter(|name| group.has(name))
            .cloned()
            .collect();
        if slots.is_empty() {
            continue;
        }
        let zone_of = |name: &Name| {
            let machine = known().find(|member| member.name == *name);
            machine
                .and_then(|machine| machine.register.zone.clone())
                .unwrap_or_default()
        };
        let mut all: BTreeSet<Name> = slots.clone();
        let present =
            known().filter(|member| group.has(&member.name) && member.presence != Presence::Gone);
        all.extend(present.clone().map(|member| member.name.clone()));
        all.extend(
            group
                .machines
                .iter()
                .filter(|name| !name.contains('*'))
                .map(|name| Name::from(name.as_str())),
        );
        let silent = present
            .filter(|member| member.presence == Presence::Silent)
            .map(|member| member.name.clone());
        let silent: BTreeSet<Name> = silent.collect();
        // Where configurations differ, the smallest limit counts.
        let others = group.differences(members.unwrap_or_default());
        let limit_of = |machines: usize| {
            let machines = members.is_some().then_some(machines);
            let others = others
                .iter()
                .filter_map(|(_, limit)| limit.map(|limit| limit.of(machines)));
            others
                .chain([group.limit_of(machines)])
                .min()
                .unwrap_or_default()
        };
        if !group.per_zone {
            let limit = limit_of(all.len());
            shares.push((
                Share {
                    group: group.key(None),
                    slots,
                    limit,
                },
                GroupHealth { limit, silent },
            ));
            continue;
        }
        let zones: BTreeSet<String> = slots.iter().map(zone_of).collect();
        for zone in zones {
            let in_zone = |name: &&Name| zone_of(name) == zone;
            let of_zone = |names: &BTreeSet<Name>| {
                names
                    .iter()
                    .filter(in_zone)
                    .cloned()
                    .collect::<BTreeSet<_>>()
            };
            let limit = limit_of(of_zone(&all).len());
            let health = GroupHealth {
                limit,
                silent: of_zone(&silent),
            };
            shares.push((
                Share {
                    group: group.key(Some(&zone)),
                    slots: of_zone(&slots),
                    limit,
                },
                health,
            ));
        }
    }
    shares.sort_by(|(a, _), (b, _)| a.group.cmp(&b.group));
    shares
}

impl GroupConfig {
    /// The name of the group's register for machines of this zone.
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
    use crate::register::MachineRegister;

    fn machine(name: &str, zone: &str) -> Member {
        let register = MachineRegister {
            zone: Some(zone.into()),
            ..MachineRegister::default()
        };
        let presence = match name.split('_').next() {
            Some("gone") => Presence::Gone,
            Some("silent") => Presence::Silent,
            _ => Presence::Beating,
        };
        Member {
            name: name.into(),
            register,
            presence,
        }
    }

    /// The name of each group's register, how many slots the event takes of it, its limit, and how
    /// many machines are silent.
    fn shares_of(
        groups: &str,
        resources: &[&str],
        members: Option<&[Member]>,
    ) -> Vec<(String, usize, u32, usize)> {
        let config = Config::parse(&format!(
            "engine = \"folder\"\nfolder.path = \"/x\"\n{groups}"
        ))
        .expect("a configuration");
        let event = Event::new(
            "e",
            "Reboot",
            resources.iter().map(|&name| name.into()).collect(),
        );
        let shares = shares(&config.groups, &event, members).into_iter();
        shares
            .map(|(share, health)| {
                (
                    share.group,
                    share.slots.len(),
                    health.limit,
                    health.silent.len(),
                )
            })
            .collect()
    }

    fn group(settings: &str) -> GroupConfig {
        let text = format!(
            "engine = \"folder\"\nfolder.path = \"/x\"\n[[group]]\nname = \"Web\"\n{settings}"
        );
        let config = Config::parse(&text).unwrap_or_else(|(_, error)| panic!("{text}: {error}"));
        config.groups.into_iter().next().expect("a group")
    }

    #[test]
    fn windows_are_for_maintenance_and_not_for_advice() {
        let window = "windows = [{ from = \"03:00\", to = \"04:00\" }]";
        let groups = [group(&format!(
            "machines = [\"web\"]\nmax_unavailable = 1\n{window}"
        ))];
        let now = "2026-11-28T12:00:00Z".parse().expect("a time");
        for (event_type, is_closed) in [("Reboot", true), ("SpotRebalanceRecommendation", false)] {
            let event = Event::new("e", event_type, ["web".into()].into());
            assert_eq!(!closed_windows(&groups, &event, now).is_empty(), is_closed);
        }
    }

    #[test]
    fn a_digest_is_of_what_the_settings_mean() {
        let settings = "machines = [\"web_*\", \"DB\"]\nmax_unavailable = 2\npause = \"1m\"\nwindows = [\n\
            { days = [\"Mon\", \"Tue\"], from = \"01:00\", to = \"02:00\", time_zone = \"Europe/Oslo\" },\n\
            { from = \"03:00\", to = \"04:00\" }]\n";
        let digest = group(settings).digest();
        let with = |from: &str, to: &str| {
            assert!(settings.contains(from), "{from}");
            group(&settings.replace(from, to)).digest()
        };
        for (from, to) in [
            (r#""web_*", "DB""#, r#""db", "WEB_*", "db""#),
            (r#""Mon", "Tue""#, r#""tue", "MON", "tue""#),
            (r#"pause = "1m""#, "pause = \"60s\"\nper_zone = false"),
            (
                r#"{ from = "03:00""#,
                r#"{ time_zone = "UTC", from = "03:00""#,
            ),
        ] {
            assert_eq!(with(from, to), digest, "{from} and {to} mean the same");
        }
        let changes = [
            (r#", "DB""#, ""),
            ("max_unavailable = 2", "max_unavailable = 1"),
            ("max_unavailable = 2", "max_unavailable = \"2%\""),
            (r#"pause = "1m""#, r#"pause = "2m""#),
            (r#"pause = "1m""#, "pause = \"1m\"\nper_zone = true"),
            (r#", "Tue""#, ""),
            ("02:00", "02:01"),
            ("03:00", "03:01"),
            (r#", time_zone = "Europe/Oslo""#, ""),
        ];
        let digests: BTreeSet<_> = changes
            .iter()
            .map(|(from, to)| with(from, to))
            .chain([digest])
            .collect();
        assert_eq!(digests.len(), changes.len() + 1, "{digests:?}");
    }

    #[test]
    fn machines_with_another_configuration_of_a_group_are_found() {
        let here = group("machines = [\"web_*\"]\nmax_unavailable = 2\n");
        let member = |name: &str, limit: Option<&str>, digest: Option<&str>| {
            let of_group = |text: &str| ("web".to_owned(), text.to_owned());
            let limits = limit.map(of_group).into_iter().collect();
            let digests = digest.map(|text| {
                if text.is_empty() {
                    BTreeMap::new()
                } else {
                    [of_group(text)].into()
                }
            });
            let register = MachineRegister {
                limits,
                digests,
                ..MachineRegister::default()
            };
            Member {
                name: name.into(),
                register,
                presence: Presence::Beating,
            }
        };
        let same = here.digest();
        let gone = Member {
            presence: Presence::Gone,
            ..member("web_8", Some("1"), Some("other"))
        };
        let members = [
            member("web_1", Some("2"), Some(&same)),
            member("web_2", Some("2"), None),
            member("web_3", Some("1"), None),
            member("web_4", Some("1"), Some("other")),
            member("web_5", Some("2"), Some("other")),
            member("web_6", None, Some("")),
            member("web_7", None, None),
            gone,
            member("app_1", Some("1"), Some("other")),
            member("app_2", None, Some("")),
        ];
        let found: Vec<_> = here
            .differences(&members)
            .into_iter()
            .map(|(name, limit)| (name.to_string(), limit))
            .collect();
        let one = Some(Limit::Count(1));
        let expected = [
            ("web_3", one),
            ("web_4", one),
            ("web_5", None),
            ("web_6", None),
            ("app_1", one),
        ];
        assert_eq!(
            found,
            expected.map(|(name, limit)| (name.to_owned(), limit))
        );
        // The limit of a machine that is in the group only by its own configuration counts, too.
        let event = Event::new("e", "Reboot", ["web_1".into()].into());
        let limits = |members: &[Member]| {
            shares(std::slice::from_ref(&here), &event, Some(members))[0]
                .1
                .limit
        };
        assert_eq!((limits(&members[..2]), limits(&members[8..])), (2, 1));
    }

    #[test]
    fn a_percentage_is_of_the_members() {
        let group = "[[group]]\nname = \"Web\"\nmachines = [\"web_*\"]\nmax_unavailable = \"30%\"";
        let known: Vec<_> = (0..10)
            .map(|index| machine(&format!("WEB_{index}"), "1"))
            .collect();
        assert_eq!(
            shares_of(group, &["web_0", "db_0"], Some(&known)),
            [("web".to_owned(), 1, 3, 0)]
        );
        // Rounded down, and at least one.
        assert_eq!(
            shares_of(group, &["web_0", "db_0"], Some(&known[..9])),
            [("web".to_owned(), 1, 2, 0)]
        );
        assert_eq!(
            shares_of(group, &["web_0"], Some(&[])),
            [("web".to_owned(), 1, 1, 0)]
        );
        assert_eq!(
            shares_of(group, &["web_0"], None),
            [("web".to_owned(), 1, u32::MAX, 0)],
            "nobody was counted"
        );
        // Machines that are gone do not count, although they have registers. Silent machines count
        // as machines, and as silent.
        let more = |name: &'static str, count| {
            (0..count).map(move |index| machine(&format!("{name}_{index}"), "1"))
        };
        let others: Vec<_> = known
            .iter()
            .cloned()
            .chain(more("gone", 100))
            .chain(more("silent", 10))
            .collect();
        let any = group.replace("web_*", "*");
        assert_eq!(
            shares_of(&any, &["web_0"], Some(&others)),
            [("web".to_owned(), 1, 6, 10)]
        );
        // Machines that the configuration names in full count even if nobody has ever seen them.
        let named = "[[group]]\nname = \"db\"\nmachines = [\"a\", \"b\", \"c\", \"d\"]\nmax_unavailable = \"50%\"";
        assert_eq!(
            shares_of(named, &["B"], Some(&[])),
            [("db".to_owned(), 1, 2, 0)]
        );
        assert_eq!(shares_of(named, &["x"], Some(&known)), []);
    }

    #[test]
    fn a_group_may_count_each_zone() {
        let group = "[[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = \"50%\"\nper_zone = true";
        let known = ["a1", "a2", "a3", "silent_4"]
            .map(|name| machine(name, "1"))
            .into_iter();
        let known: Vec<_> = known
            .chain(["b1", "b2"].map(|name| machine(name, "2")))
            .collect();
        let expected = [
            ("db/no-zone".to_owned(), 1, 1, 0),
            ("db/zone-1".to_owned(), 2, 2, 1),
            ("db/zone-2".to_owned(), 1, 1, 0),
        ];
        assert_eq!(
            shares_of(group, &["a1", "a2", "b1", "x"], Some(&known)),
            expected
        );
    }
}
