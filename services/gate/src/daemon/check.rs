//! `check`: what the gate of this machine needs. Nothing is written.

use std::time::SystemTime;

use tokio::time::{Instant, timeout};

use scheduled_events_common::names::Name;
use scheduled_events_text::finding::Finding;
use scheduled_events_text::words::{count, duration};

use super::message::{CheckReply, differing_groups, list};
use super::problems::Subject;
use super::{ANSWER_TIME, AnswerError, Daemon};
use crate::config::{GroupConfig, Limit};
use crate::engine::{EngineError, StoreTime, check_clock};
use crate::event::Event;
use crate::group::shares;
use crate::members::{Member, Presence};

impl Daemon {
    /// What the daemon reports about itself.
    pub(super) async fn check_reply(&self) -> CheckReply {
        CheckReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: self.machine.to_string(),
            runs_for: self.started_at.elapsed().as_secs(),
            // The limits have findings of their own.
            problems: self
                .problems
                .texts(|what| what != Subject::Limits && self.counts(what)),
            findings: self.check().await,
        }
    }

    /// Checks the store and the groups of this machine.
    pub async fn check(&self) -> Vec<Finding<String>> {
        let begin = Instant::now();
        let read = timeout(ANSWER_TIME, self.all_machines()).await;
        let (members, invalid) = match read {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => return vec![self.no_answer(&error.to_string())],
            Err(_) => return vec![self.no_answer(&AnswerError::Late.to_string())],
        };
        let milliseconds = begin.elapsed().as_millis();
        let answered = format!(
            "{} answered in {milliseconds} ms{}",
            self.store(),
            self.clock()
        );
        let mut findings = vec![if let Err(error) = check_clock(&*self.engine) {
            Finding::fail(
                "store".to_owned(),
                error.to_string(),
                "let what is between this machine and the store keep the header",
            )
        } else if invalid.is_empty() {
            Finding::ok("store".to_owned(), answered)
        } else {
            let invalid: Vec<_> = invalid.iter().map(ToString::to_string).collect();
            Finding::warn(
                "store".to_owned(),
                format!("{answered}; {}", invalid.join("; ")),
                "see to it that its machine is in service before you delete it",
            )
        }];
        findings.extend(self.check_groups(&members));
        findings.extend(self.check_limits(&members));
        findings
    }

    /// The machines that have a register, and why some registers cannot be read. This machine's own one may not be written yet.
    async fn all_machines(&self) -> Result<(Vec<Member>, Vec<EngineError>), EngineError> {
        let mut members = vec![Member {
            name: self.machine.clone(),
            register: self.register(),
            presence: Presence::Beating,
        }];
        let mut invalid = Vec::new();
        for aged in self.engine.list_aged("machines/").await? {
            let (member, problem) = self.judge(&aged);
            invalid.extend(problem.err());
            members.extend(member.filter(|member| member.name != self.machine));
        }
        Ok((members, invalid))
    }

    fn store(&self) -> String {
        let engine = self.config.engine;
        engine.map_or("the store".to_owned(), |engine| {
            format!("{engine:?}").to_lowercase()
        })
    }

    /// The store's clock beside this machine's: no decision compares them, but people do.
    fn clock(&self) -> String {
        let Some(clock) = self.engine.clock() else {
            return String::new();
        };
        let own = StoreTime::from(SystemTime::now());
        let seconds = own.0.abs_diff(clock.now.0) / 1000;
        match seconds {
            // Stores report whole seconds.
            0..=1 => ", and its clock is as this machine's".to_owned(),
            _ if clock.now > own => format!(", and its clock is {} ahead", duration(seconds)),
            _ => format!(", and its clock is {} behind", duration(seconds)),
        }
    }

    fn no_answer(&self, why: &str) -> Finding<String> {
        Finding::fail(
            "store".to_owned(),
            format!("{}: {why}", self.store()),
            "see whether it runs, and whether this machine may use it; until then, the gate answers \"not yet\"",
        )
    }

    /// The groups of this machine, and how many of each may be out of service.
    fn check_groups(&self, members: &[Member]) -> Vec<Finding<String>> {
        let check = || "group".to_owned();
        let machine = &self.machine;
        if self.config.groups.is_empty() {
            let found = "there is no [[group]]: any number of machines may be out of service";
            return vec![Finding::ok(check(), found)];
        }
        let own: Vec<_> = self
            .config
            .groups
            .iter()
            .filter(|group| group.has(machine))
            .collect();
        if own.is_empty() {
            let found = format!("{machine} is in no [[group]]: no limit counts for it");
            return vec![Finding::warn(
                check(),
                found,
                "add it to `machines` of a group, on all machines",
            )];
        }
        own.into_iter()
            .map(|group| {
                let of_group = members
                    .iter()
                    .filter(|member| group.has(&member.name) && member.presence != Presence::Gone);
                let found = in_words(group, machine, of_group.count());
                // As for an event of this machine: in its zone, if the group has zones.
                let event = Event::new("", "", [machine.clone()].into());
                let shares = shares(std::slice::from_ref(group), &event, Some(members));
                let silent: Vec<Name> = shares
                    .into_iter()
                    .flat_map(|(_, health)| health.silent)
                    .collect();
                if silent.is_empty() {
                    return Finding::ok(check(), found);
                }
                let found = format!(
                    "{found}; silent, so that they count as out of service: {}",
                    list(&silent)
                );
                let advice = "start the daemons there; a machine that will not come back: scheduled-events-fleet free MACHINE";
                Finding::warn(check(), found, advice).naming(&silent)
            })
            .collect()
    }

    /// Whether all machines have the same configuration of this machine's groups.
    fn check_limits(&self, members: &[Member]) -> Vec<Finding<String>> {
        let check = || "limits".to_owned();
        let groups = &self.config.groups;
        if groups.is_empty() {
            return Vec::new();
        }
        let differences = differing_groups(groups, members);
        if differences.is_empty() {
            let found = match members.len() - 1 {
                0 => "no other machine is registered".to_owned(),
                others => format!("as on {}", count(others, "other machine")),
            };
            return vec![Finding::ok(check(), found)];
        }
        differences
            .into_iter()
            .map(|difference| {
                Finding::warn(
                    check(),
                    difference.to_string(),
                    "make the [[group]] equal on all machines, and restart the daemons that were changed",
                )
                .naming(&difference.machines)
            })
            .collect()
    }
}

/// A group of the machine with its limit.
fn in_words(group: &GroupConfig, machine: &Name, members: usize) -> String {
    let name = group.name.get_ref();
    let limit = group.max_unavailable;
    let most = match limit {
        _ if group.per_zone => format!("{limit} in each zone"),
        Limit::Count(limit) => format!("{limit} of {members}"),
        Limit::Percent(_) => {
            let now = group.limit_of(Some(members));
            format!("{limit}, now {now} of {members},")
        }
    };
    let others = match members - 1 {
        0 => "alone".to_owned(),
        others => format!("with {}", count(others, "other machine")),
    };
    format!("{machine} is in the group {name} {others}; at most {most} may be out of service")
}
