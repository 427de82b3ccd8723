//! `status`: shows the common registers, for people or as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use scheduled_events_core::UnixSeconds;
use serde_json::json;

use crate::config::window::opening;
use crate::config::{Config, GroupConfig};
use crate::daemon::message;
use crate::driver::{MARKS, marks_prefix, now};
use crate::engine::{self, Aged, Engine, EngineError, StoreTime, check_clock};
use crate::event::Event;
use crate::group::shares;
use crate::members::{self, Member, Presence, SilenceLimits, presence};
use crate::protocol::Why;
use crate::register::{
    EventRegister, GroupRegister, MachineRegister, MarkRegister, Next, Progress, Stamp,
};
use crate::store::{list, problem};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_common::output::{moment, output_width, print};
use scheduled_events_common::table::Table;
use scheduled_events_text::table::wrap;

/// The longest id that is shown; tables wider than the terminal cut ids further.
const ID_MAX: usize = 128;
const ID_SHORT: usize = 8;

/// A machine's register, and how old it is by the store's clock.
#[derive(Clone)]
struct Machine {
    register: MachineRegister,
    presence: Presence,
    age: Option<Duration>,
}

impl Machine {
    fn state(&self) -> &'static str {
        match self.presence {
            _ if self.register.leaving => "leaving",
            Presence::Beating => "beating",
            Presence::Silent | Presence::Gone => "silent",
        }
    }
}

/// How far an event is, as its machines report.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Announced,
    Approved,
    Started,
    /// It is over, and these machines are not back in service.
    Over {
        recovering: Vec<Name>,
    },
}

impl Stage {
    const fn word(&self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Approved => "approved",
            Self::Started => "started",
            Self::Over { .. } => "over",
        }
    }

    /// Whether it may still start.
    const fn is_ahead(&self) -> bool {
        matches!(self, Self::Announced | Self::Approved)
    }
}

/// All registers.
struct Registers {
    /// By the event's id and the rest of its key.
    events: Vec<(String, EventRegister)>,
    groups: Vec<(String, GroupRegister)>,
    machines: BTreeMap<Name, Machine>,
    /// Why some registers cannot be shown.
    problems: Vec<String>,
    /// The time by which maintenance windows are open.
    time: Timestamp,
}

/// Prints who is out of service or about to be, who is not ready, and why nothing moves.
///
/// # Errors
/// The store does not answer.
pub async fn status(config: &Config, json: bool) -> Result<(), Failure> {
    let engine = engine::open(config).await.map_err(Failure::usage)?;
    let registers = Registers::read(&*engine, config)
        .await
        .map_err(|error| Failure::refused(error.to_string()))?;
    print(&if json {
        registers.json(&config.groups)
    } else {
        registers.text(&config.groups, output_width())
    })?;
    let Some((last, others)) = registers.problems.split_last() else {
        return Ok(());
    };
    for problem in others {
        log::line(&format!("error: {problem}"));
    }
    Err(Failure::refused(last))
}

impl Registers {
    async fn read(engine: &dyn Engine, config: &Config) -> Result<Self, EngineError> {
        // Only such an engine keeps marks in registers of their own.
        let (marks, mut problems) = match engine.split_registers() {
            Some(_) => list::<MarkRegister>(engine, MARKS).await?,
            None => Default::default(),
        };
        let (events, more) = list::<EventRegister>(engine, "events/").await?;
        problems.extend(more);
        let with_marks = |(key, mut event): (String, EventRegister)| {
            let prefix = marks_prefix(&key);
            for (_, part) in marks.iter().filter(|(key, _)| key.starts_with(&prefix)) {
                event.marks.insert(part.machine.clone(), part.marked());
            }
            (key.split('/').nth(1).unwrap_or_default().to_owned(), event)
        };
        let events = events.into_iter().map(with_marks).collect();
        let (groups, more) = list::<GroupRegister>(engine, "groups/").await?;
        problems.extend(more);
        let groups = groups.into_iter().map(|(key, group)| {
            (
                key.strip_prefix("groups/").unwrap_or(&key).to_owned(),
                group,
            )
        });
        let patience = SilenceLimits::of(config);
        let (mut machines, listed) = (BTreeMap::new(), engine.list_aged("machines/").await?);
        if !listed.is_empty() {
            problems.extend(check_clock(engine).err());
        }
        let clock = engine.clock();
        for Aged {
            key,
            register,
            written,
        } in listed
        {
            let register = match members::listed(&key, &register.value) {
                Ok(register) => register,
                Err(invalid) => {
                    problems.push(problem(&key, &invalid));
                    continue;
                }
            };
            let Some(name) = register.machine.clone() else {
                continue;
            };
            let presence = presence(&register, written, clock, patience);
            let written = written.or(register.written.map(StoreTime));
            let age = clock
                .zip(written)
                .and_then(|(clock, written)| clock.now.since(written));
            machines.insert(
                name,
                Machine {
                    register,
                    presence,
                    age,
                },
            );
        }
        let problems = problems.iter().map(ToString::to_string).collect();
        Ok(Self {
            events,
            groups: groups.collect(),
            machines,
            problems,
            time: engine::time(engine),
        })
    }

    /// The tables, as wide as the terminal if possible: wider tables show only the beginnings of
    /// the ids.
    fn text(&self, groups: &[GroupConfig], width: Option<usize>) -> String {
        let tables = self.tables(groups, ID_MAX, None);
        let is_wide = |width| tables.lines().any(|line| line.chars().count() > width);
        let mut text = if width.is_some_and(is_wide) {
            self.tables(groups, ID_SHORT, width)
        } else {
            tables
        };
        let indented = |line: &str| {
            // Two columns for the indent.
            wrap(line, width.map(|width| width.saturating_sub(2))).join("\n  ")
        };
        if let Some(line) = self.ungrouped(groups) {
            let _ = writeln!(text, "\n{}", indented(&line));
        }
        for line in message::differing_groups(groups, &self.members()) {
            let _ = writeln!(text, "\n{}", indented(&line.to_string()));
        }
        for (index, (id, event)) in self.events.iter().enumerate() {
            let line = self.line(groups, id, event);
            let before = if index == 0 { "\n" } else { "" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{before}{}", indented(&line));
        }
        text
    }

    /// What becomes of an event, or what it waits for.
    fn line(&self, groups: &[GroupConfig], id: &str, event: &EventRegister) -> String {
        let shown = cut(written(id, event), ID_MAX);
        match (self.stage(id, event), &event.go) {
            (Stage::Over { recovering }, _) if recovering.is_empty() => format!("{shown} is over"),
            (Stage::Over { recovering }, _) => {
                let recovering = message::list(&recovering);
                format!("{shown} is over; not back in service yet: {recovering}")
            }
            (Stage::Started, None) if !event.was_decided => {
                format!("{shown} has started without a decision")
            }
            (Stage::Started, _) => format!("{shown} has started"),
            (Stage::Approved, _) => format!("{shown} is approved"),
            (Stage::Announced, Some(go)) => {
                format!(
                    "{shown} was decided {}: {} posts the approval, or the next machine",
                    ago(Some(go.at)),
                    go.by
                )
            }
            (Stage::Announced, None) => {
                let why = self.why(groups, id, event).unwrap_or_default();
                if event.not_before.is_some_and(|at| at < now()) {
                    format!("{shown}: NotBefore has passed without a decision; {why}")
                } else {
                    format!("{shown} waits: {why}")
                }
            }
        }
    }

    /// How far this machine is with the event, as of its last heartbeat.
    fn progress(&self, id: &str, event: &EventRegister, machine: &Name) -> Option<Progress> {
        let events = &self.machines.get(machine)?.register.events;
        events
            .get(&written(id, event).to_ascii_lowercase())
            .copied()
    }

    fn stage(&self, id: &str, event: &EventRegister) -> Stage {
        let reported = event
            .resources
            .iter()
            .filter_map(|machine| Some((self.progress(id, event, machine)?, machine)));
        let reported: Vec<_> = reported.collect();
        let of = |progress: Progress| {
            let is_it = move |(reported, _): &&(Progress, &Name)| *reported == progress;
            reported
                .iter()
                .filter(is_it)
                .map(|(_, name)| (*name).clone())
        };
        // A machine that reports late has not heard of the end yet.
        let is_over = of(Progress::Over).chain(of(Progress::Recovering)).count() > 0;
        if is_over && of(Progress::Started).count() == 0 {
            let recovering = of(Progress::Recovering).collect();
            Stage::Over { recovering }
        } else if is_over || of(Progress::Started).count() > 0 {
            Stage::Started
        } else if of(Progress::Approved).count() > 0 {
            Stage::Approved
        } else {
            Stage::Announced
        }
    }

    /// An event's id as the service wrote it, from a key of a register.
    fn written_id<'a>(&'a self, id: &'a str) -> &'a str {
        let events = self.events.iter();
        let mut ids = events.map(|(key, event)| written(key, event));
        ids.find(|known| known.eq_ignore_ascii_case(id))
            .unwrap_or(id)
    }

    /// The events, the groups and the machines. Ids are cut to `id_max` characters.
    fn tables(&self, groups: &[GroupConfig], id_max: usize, width: Option<usize>) -> String {
        let mut text = String::new();
        let none = |what: &str| match self.problems.len() {
            0 => what.to_owned(),
            _ => format!("{what}, as far as the registers can be read"),
        };
        let mut events = Table::new(&["EVENT", "TYPE", "MACHINE", "STATE", "SINCE", "NOT BEFORE"]);
        for (id, event) in &self.events {
            let is_ahead = self.stage(id, event).is_ahead();
            for (index, name) in event.resources.iter().enumerate() {
                let (state, since) = self.state_of(id, event, name);
                let first = (
                    written(id, event),
                    event.event_type.as_str(),
                    event.not_before,
                );
                let (id, event_type, not_before) = if index == 0 { first } else { ("", "", None) };
                let time = |seconds: Stamp| UnixSeconds(seconds.try_into().unwrap_or(i64::MAX));
                events.row([
                    cut(id, id_max),
                    event_type.escape_debug().to_string(),
                    name.to_string(),
                    state.into(),
                    ago(since),
                    not_before.map_or(String::new(), |at| {
                        let from = if is_ahead { now() } else { at };
                        moment(time(at), time(from))
                    }),
                ]);
            }
        }
        events.write_within(
            width,
            &mut text,
            &none("no event was announced to the gate"),
        );
        let mut group_rows =
            Table::new(&["GROUP", "LIMIT", "OUT", "MACHINE", "FOR EVENT", "SINCE"]);
        for (name, group) in &self.groups {
            let mut first = true;
            for (id, claim) in &group.claims {
                for machine in &claim.slots {
                    let (limit, out) = (group.limit.to_string(), group.held().len().to_string());
                    let cells = if first {
                        [name.clone(), limit, out]
                    } else {
                        [const { String::new() }; 3]
                    };
                    let [name, limit, out] = cells;
                    let id = cut(self.written_id(id), id_max);
                    group_rows.row([
                        name,
                        limit,
                        out,
                        machine.to_string(),
                        id,
                        ago(Some(claim.at)),
                    ]);
                    first = false;
                }
            }
        }
        let nexts = self
            .groups
            .iter()
            .filter_map(|(name, group)| Some((name, group.next.as_ref()?)));
        for (name, next) in nexts {
            for (index, machine) in next.slots.iter().enumerate() {
                let first = if index == 0 {
                    name.clone()
                } else {
                    String::new()
                };
                let id = cut(self.written_id(&next.event_id), id_max);
                group_rows.row([
                    first,
                    String::new(),
                    "next".into(),
                    machine.to_string(),
                    id,
                    String::new(),
                ]);
            }
        }
        text.push('\n');
        group_rows.write(&mut text, &none("no place is taken"));
        if !groups.is_empty() {
            let mut members = Table::new(&["GROUP", "AT MOST", "MEMBERS"]);
            for group in groups {
                let names = self.members_of(group);
                members.row([
                    group.name.get_ref().clone(),
                    group.max_unavailable.to_string(),
                    match names.len() {
                        0 => "none".to_owned(),
                        count => format!("{count}: {}", message::list(&names)),
                    },
                ]);
            }
            text.push('\n');
            members.write(&mut text, "");
        }
        let mut machines = Table::new(&["MACHINE", "ZONE", "FORCED", "HEARTBEAT", "STATE"]);
        for (name, machine) in &self.machines {
            let zone = machine
                .register
                .zone
                .clone()
                .unwrap_or_default()
                .escape_debug()
                .to_string();
            let age = machine.age.map_or("unknown".to_owned(), |age| {
                format!(
                    "{} ago",
                    humantime::format_duration(Duration::from_secs(age.as_secs()))
                )
            });
            machines.row([
                name.to_string(),
                zone,
                machine.register.forced.to_string(),
                age,
                machine.state().into(),
            ]);
        }
        text.push('\n');
        machines.write(&mut text, &none("no daemon is registered"));
        text
    }

    fn json(&self, groups: &[GroupConfig]) -> String {
        let mut records = Vec::new();
        for (id, event) in &self.events {
            let stage = self.stage(id, event);
            let machines = event.resources.iter().map(|name| {
                let (word, since) = self.state_of(id, event, name);
                json!({ "machine": name, "state": word, "since": since })
            });
            records.push(json!({
                "record": "event",
                "event_id": written(id, event),
                "event_type": event.event_type,
                "state": stage.word(),
                "not_before": event.not_before,
                "machines": machines.collect::<Vec<_>>(),
                "decided_by": event.go.as_ref().map(|go| &go.by),
                "decided_at": event.go.as_ref().map(|go| go.at),
                "waits_for": (stage == Stage::Announced).then(|| self.why(groups, id, event)).flatten(),
            }));
        }
        for (name, group) in &self.groups {
            let claims = group.claims.iter();
            let claims = claims.map(
                |(id, claim)| json!({ "event_id": self.written_id(id), "machines": claim.slots, "since": claim.at }),
            );
            let claims = claims.collect::<Vec<_>>();
            let out = group.held();
            let next = group.next.as_ref().map(|next| Next {
                event_id: self.written_id(&next.event_id).to_owned(),
                ..next.clone()
            });
            records
                .push(json!({ "record": "group", "group": name, "limit": group.limit, "out": out, "claims": claims, "next": next }));
        }
        for group in groups {
            let (name, at_most) = (group.name.get_ref(), group.max_unavailable.to_string());
            let members = self.members_of(group);
            records.push(json!({ "record": "members", "group": name, "max_unavailable": at_most, "machines": members }));
        }
        let members = self.members();
        for group in groups {
            let differences = group.differences(&members);
            let others: BTreeMap<_, _> = differences
                .iter()
                .filter_map(|(name, limit)| Some((name, limit.as_ref()?.to_string())))
                .collect();
            let differs: Vec<_> = differences.iter().map(|(name, _)| name).collect();
            if !differs.is_empty() {
                let (name, limit) = (group.name.get_ref(), group.max_unavailable.to_string());
                records.push(json!({
                    "record": "limits-differ",
                    "group": name,
                    "limit": limit,
                    "others": others,
                    "differs": differs,
                }));
            }
        }
        for (name, machine) in &self.machines {
            records.push(json!({
                "record": "machine",
                "machine": name,
                "zone": machine.register.zone,
                "groups": groups.iter().filter(|group| group.has(name)).map(|group| group.name.get_ref()).collect::<Vec<_>>(),
                "forced": machine.register.forced,
                "forced_events": machine.register.forced_events,
                "beat": machine.register.beat,
                "at": machine.register.at,
                "state": machine.state(),
                "silent_for": machine.age.map(|age| age.as_secs()),
            }));
        }
        records.iter().fold(String::new(), |text, record| {
            text + &record.to_string() + "\n"
        })
    }

    /// The registered machines of a group.
    fn members_of(&self, group: &GroupConfig) -> Vec<Name> {
        let names = self.machines.keys();
        names.filter(|name| group.has(name)).cloned().collect()
    }

    /// Names the machines that no limit applies to.
    fn ungrouped(&self, groups: &[GroupConfig]) -> Option<String> {
        let is_free = |name: &&Name| !groups.iter().any(|group| group.has(name));
        let names: Vec<_> = self.machines.keys().filter(is_free).cloned().collect();
        (!groups.is_empty() && !names.is_empty()).then(|| {
            format!(
                "in no [[group]] of this configuration, so that no limit counts: {}",
                message::list(&names)
            )
        })
    }

    fn members(&self) -> Vec<Member> {
        let member = |(name, machine): (&Name, &Machine)| Member {
            name: name.clone(),
            register: machine.register.clone(),
            presence: machine.presence,
        };
        self.machines.iter().map(member).collect()
    }

    /// The state that a machine reports, or else that of its mark, and since when it applies.
    fn state_of(
        &self,
        id: &str,
        event: &EventRegister,
        machine: &Name,
    ) -> (&'static str, Option<Stamp>) {
        match self.progress(id, event, machine) {
            Some(Progress::Approved) => return ("approved", None),
            Some(Progress::Started) => return ("started", None),
            Some(Progress::Recovering) => return ("recovering", None),
            Some(Progress::Over) => return ("over", None),
            Some(Progress::Unknown) | None => {}
        }
        match event.marks.get(machine) {
            None => ("not heard of", None),
            Some(marked) if event.is_ready(machine) => ("ready", Some(marked.at)),
            Some(marked) => ("not ready", Some(marked.at)),
        }
    }

    /// What an event waits for; `None` if it is decided.
    fn why(&self, groups: &[GroupConfig], id: &str, event: &EventRegister) -> Option<String> {
        if event.go.is_some() {
            return None;
        }
        let missing: Vec<_> = event
            .resources
            .iter()
            .filter(|name| !event.is_ready(name))
            .cloned()
            .collect();
        if missing.is_empty() {
            let is_beating = |name: &Name| {
                let machine = self.machines.get(name);
                machine.is_some_and(|machine| machine.presence == Presence::Beating)
            };
            let silent = event.resources.iter().filter(|name| !is_beating(name));
            let silent: Vec<_> = silent.cloned().collect();
            return Some(if silent.is_empty() {
                "all machines are ready, and one of them is about to decide".to_owned()
            } else {
                Why::Silent(silent).to_string()
            });
        }
        let mut why = format!("not ready: {}", message::list(&missing));
        let silent: Vec<_> = missing
            .iter()
            .filter(|name| !self.machines.contains_key(name))
            .cloned()
            .collect();
        if !silent.is_empty() {
            let _ = write!(
                why,
                "; no daemon is registered on: {}",
                message::list(&silent)
            );
        }
        let announced = Event::new(id, &event.event_type, event.resources.clone());
        // It waits for neither a place nor a window.
        if announced.is_urgent {
            return Some(why);
        }
        let shares = shares(groups, &announced, Some(&self.members()));
        for (name, group) in &self.groups {
            let is_known = || {
                groups.iter().any(|config| {
                    name.split('/')
                        .next()
                        .is_some_and(|name| config.is_named(name))
                })
            };
            let share = shares.iter().find(|(share, _)| share.group == *name);
            let silent: BTreeSet<_> = share
                .map(|(_, seen)| seen.silent.clone())
                .unwrap_or_default();
            let silent: BTreeSet<_> = silent.difference(&event.resources).cloned().collect();
            let is_full = group
                .held()
                .into_iter()
                .chain(&silent)
                .collect::<BTreeSet<_>>()
                .len()
                >= group.limit as usize;
            let is_admitted = match share {
                Some((share, _)) => group.admits(id, &share.slots, group.limit, &silent),
                None => is_known() || !is_full || group.claims.contains_key(id),
            };
            let others = group.claims.iter().filter(|(other, _)| *other != id);
            let held: BTreeSet<_> = others
                .flat_map(|(_, claim)| &claim.slots)
                .chain(&silent)
                .cloned()
                .collect();
            if !is_admitted && !held.is_empty() {
                let state = if is_full {
                    "is full"
                } else {
                    "has too few places for this event"
                };
                let held: Vec<_> = held.into_iter().collect();
                let _ = write!(why, "; the group {name} {state}: {}", message::list(&held));
                if !silent.is_empty() {
                    let silent: Vec<_> = silent.into_iter().collect();
                    let _ = write!(why, "; silent: {}", message::list(&silent));
                }
            }
        }
        for group in groups
            .iter()
            .filter(|group| event.resources.iter().any(|name| group.has(name)))
        {
            if let Some(opens) = opening(&group.windows, self.time) {
                let name = group.name.get_ref();
                let _ = write!(
                    why,
                    "; outside the maintenance windows of the group {name} until {opens:.0}"
                );
            }
        }
        Some(why)
    }
}

/// An event's id as the service wrote it; from an earlier version's register, as its key has it.
fn written<'a>(id: &'a str, event: &'a EventRegister) -> &'a str {
    event.event_id.as_deref().unwrap_or(id)
}

/// An id from outside, escaped and cut to its first `max` characters.
fn cut(id: &str, max: usize) -> String {
    let escaped = id.escape_debug().to_string();
    match escaped.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &escaped[..end]),
        None => escaped,
    }
}

/// The age of a moment, by this machine's clock.
fn ago(at: Option<Stamp>) -> String {
    let Some(at) = at else { return String::new() };
    let seconds = Duration::from_secs(now().saturating_sub(at));
    format!("{} ago", humantime::format_duration(seconds))
}

#[cfg(test)]
mod tests;
