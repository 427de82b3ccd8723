//! What a session is to say, worked out the slow and obvious way: a list of lives, gone through again and again.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{
    Action, Change, EventKind, EventTypes, Leader, Policy, Preparation, Rule, Scope, UnixMillis,
};

use crate::common::{Entry, START, Spec, What};

/// A rule in plain words.
#[derive(Clone, Debug)]
pub(crate) struct PlainRule {
    /// The one type that it matches; `None` for all.
    pub(crate) event_type: Option<&'static str>,
    pub(crate) max_duration: Option<i64>,
    pub(crate) scope: Scope,
    pub(crate) action: Action,
}

impl PlainRule {
    pub(crate) const fn all(action: Action) -> Self {
        Self { event_type: None, max_duration: None, scope: Scope::Mine, action }
    }

    fn rule(&self) -> Rule {
        let event_types = match self.event_type {
            Some("Freeze") => EventTypes::of(&[EventKind::Freeze]),
            Some("Preempt") => EventTypes::of(&[EventKind::Preempt]),
            Some(other) => panic!("{other} is not used here"),
            None => EventTypes::ANY,
        };
        let max_duration = self.max_duration.map(|seconds| u32::try_from(seconds).unwrap());
        Rule { event_types, max_duration, scope: self.scope, ..Rule::new(self.action) }
    }
}

/// The policy that these rules make.
pub(crate) fn policy(rules: &[PlainRule], leader: Leader) -> Policy {
    let mut policy = Policy::new(&rules.iter().map(PlainRule::rule).collect::<Vec<_>>()).unwrap();
    policy.leader = leader;
    policy
}

/// A decision: the action, why, by which rule, and the seconds to wait before the approval, if ever.
type Verdict = (Action, &'static str, Option<usize>, Option<u32>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Preparing {
    No,
    Running,
    /// Begun by a process that is no more.
    Lost,
    Ready,
    Failed,
}

/// An event, from when it is first seen until nothing is left to do about it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // What happened to it so far.
struct Life {
    newest: Spec,
    first_seen: UnixMillis,
    scheduled_once: bool,
    started: bool,
    not_before: Option<i64>,
    approved: bool,
    gone: bool,
    preparing: Preparing,
    recovering: bool,
    verdict: Option<Verdict>,
    failures: u32,
    /// Not again before the first of these moments, but soon after the second.
    again: Option<(UnixMillis, UnixMillis)>,
}

/// What is to be said.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    rules: Vec<PlainRule>,
    leader: Leader,
    names: Vec<&'static str>,
    /// Nothing was decided yet for these names.
    renamed: bool,
    lives: Vec<(String, Life)>,
    approved: HashSet<String>,
    /// Since the last comparison, by event.
    expected: HashMap<String, Vec<String>>,
}

impl Model {
    pub(crate) fn new(rules: &[PlainRule], leader: Leader, names: &[&'static str]) -> Self {
        Self {
            rules: rules.to_vec(),
            leader,
            names: names.to_vec(),
            renamed: false,
            lives: Vec::new(),
            approved: HashSet::new(),
            expected: HashMap::new(),
        }
    }

    fn say(&mut self, id: &str, line: &impl ToString) {
        self.expected.entry(id.to_owned()).or_default().push(line.to_string());
    }

    /// A document was read.
    pub(crate) fn document(&mut self, events: &[Spec], now: UnixMillis) {
        let events: Vec<_> = events.iter().map(readable).collect();
        let seconds = now.seconds().0 - START.seconds().0;
        for (id, mut life) in std::mem::take(&mut self.lives) {
            let found = events.iter().find(|spec| spec.id == id);
            if !life.gone {
                let there = found.filter(|spec| spec.is_live());
                life.gone = there.is_none();
                let change = match there {
                    Some(spec) => life.change_to(spec),
                    None => Some(life.end(found, seconds)),
                };
                if let Some(change) = change {
                    self.say(&id, &change);
                }
            }
            self.lives.push((id, life));
        }
        for spec in events.iter().filter(|spec| spec.is_live()) {
            if !self.lives.iter().any(|(id, _)| *id == spec.id) {
                let started = spec.status == Some("Started");
                self.say(&spec.id, &if started { Change::StartedWithoutNotice } else { Change::Scheduled });
                self.lives.push((spec.id.clone(), Life::of(spec, started, self.approved.contains(&spec.id), now)));
            }
        }
        for (id, mut life) in std::mem::take(&mut self.lives) {
            // What has started stays so, whatever a later document says.
            let unstarted = life.started && life.newest.status != Some("Started");
            if !life.gone && !unstarted {
                let verdict = self.decide(&life.newest);
                let told_as_change = life.verdict.is_some() && verdict.1 == "already started";
                if life.verdict != Some(verdict) && !told_as_change {
                    self.say(&id, &format!("{} ({})", verdict.0.word(), verdict.1));
                }
                life.verdict = Some(verdict);
                if verdict.0 == Action::Prepare && matches!(life.preparing, Preparing::No | Preparing::Lost) {
                    self.say(&id, &"prepare");
                    life.preparing = Preparing::Running;
                }
            }
            self.lives.push((id, life));
        }
        self.renamed = false;
        self.recover();
    }

    /// Whatever is gone and was prepared for is recovered from, once a preparation under way has ended.
    fn recover(&mut self) {
        for (id, mut life) in std::mem::take(&mut self.lives) {
            if life.gone && life.preparing == Preparing::No {
                continue;
            }
            if life.gone && life.preparing != Preparing::Running && !life.recovering {
                self.say(&id, &"recover");
                life.recovering = true;
            }
            self.lives.push((id, life));
        }
    }

    pub(crate) fn prepared(&mut self, id: &str, preparation: Preparation) {
        let ready = preparation == Preparation::Ready;
        self.life(id).preparing = if ready { Preparing::Ready } else { Preparing::Failed };
        self.recover();
    }

    pub(crate) fn recovered(&mut self, id: &str) {
        self.lives.retain(|(known, _)| known != id);
    }

    pub(crate) fn restarted(&mut self) {
        for (_, life) in &mut self.lives {
            if life.preparing == Preparing::Running {
                life.preparing = Preparing::Lost;
            }
            life.recovering = false;
            life.verdict = None;
            life.again = None;
        }
        self.recover();
    }

    pub(crate) fn named(&mut self, names: &[&'static str]) {
        self.names = names.to_vec();
        self.renamed = true;
    }

    fn life(&mut self, id: &str) -> &mut Life {
        &mut self.lives.iter_mut().find(|(known, _)| known == id).unwrap().1
    }

    /// The rules, from the top.
    fn decide(&self, spec: &Spec) -> Verdict {
        match spec.odd {
            Some("EventType") => return (Action::Hold, "unreadable EventType", None, None),
            Some("EventStatus") => return (Action::Hold, "unreadable EventStatus", None, None),
            Some("EventSource") => return (Action::Hold, "unreadable EventSource", None, None),
            Some("DurationInSeconds") => return (Action::Hold, "unreadable DurationInSeconds", None, None),
            Some("Resources") => return (Action::Hold, "unreadable Resources", None, None),
            _ => {}
        }
        match spec.status {
            Some("Scheduled") => {}
            Some("Started") => return (Action::Hold, "already started", None, None),
            _ => return (Action::Hold, "not Scheduled", None, None),
        }
        if self.names.is_empty() {
            return (Action::Hold, "VM name unknown", None, None);
        }
        let rank = spec.resources.iter().position(|resource| self.names.contains(resource));
        let duration = spec.duration.filter(|&seconds| seconds != -1);
        for (number, rule) in self.rules.iter().enumerate() {
            let by_type = rule.event_type.is_none() || rule.event_type == spec.event_type;
            let by_duration = rule.max_duration.is_none_or(|max| duration.is_some_and(|seconds| seconds <= max));
            let by_scope = match rule.scope {
                Scope::Mine => rank.is_some(),
                Scope::Others => rank.is_none(),
                Scope::Any => true,
            };
            if !(by_type && by_duration && by_scope) {
                continue;
            }
            let number = Some(number);
            let reason = if rule.max_duration.is_some() { "short interruption" } else { "a rule matches" };
            if matches!(rule.action, Action::Hold | Action::Ignore) {
                return (rule.action, reason, number, None);
            }
            if rank.is_none() && spec.event_type == Some("Terminate") {
                return (Action::Hold, "another VM's Terminate", number, None);
            }
            let wait = match (rank, self.leader) {
                (None | Some(0), _) | (_, Leader::Everyone) => Some(0),
                (Some(_), Leader::FirstResource) => None,
                (Some(rank), Leader::Rank { take_over_after }) => Some(u32::try_from(rank).unwrap() * take_over_after),
            };
            if wait.is_none() && rule.action == Action::Approve {
                return (Action::Hold, "another VM leads", number, None);
            }
            return (rule.action, reason, number, wait);
        }
        let reason = match rank {
            _ if self.rules.is_empty() => "the policy only observes",
            Some(_) => "no rule matches",
            None => "another VM's event",
        };
        (Action::Hold, reason, None, None)
    }

    /// Compares what happened since the last time, approvals among it, with what had to.
    pub(crate) fn compare(&mut self, trace: &[Entry]) -> Result<(), String> {
        let mut said: HashMap<String, Vec<String>> = HashMap::new();
        for Entry { at, what } in trace {
            let (id, line) = match what {
                What::Change(id, change) => (id, change.to_string()),
                What::Decision(id, decision) => (id, format!("{} ({})", decision.action.word(), decision.reason)),
                What::Prepare(id) => (id, String::from("prepare")),
                What::Recover(id) => (id, String::from("recover")),
                What::Post(ids) => {
                    for id in ids {
                        self.posted(id, *at)?;
                    }
                    continue;
                }
                What::Approved(ids) => {
                    for id in ids {
                        self.approved.insert(id.clone());
                        self.life(id).approved = true;
                    }
                    continue;
                }
                What::Refused(ids) => {
                    for id in ids {
                        self.life(id).refused(*at);
                    }
                    continue;
                }
                _ => continue,
            };
            said.entry(id.clone()).or_default().push(line);
        }
        let expected = std::mem::take(&mut self.expected);
        if said != expected {
            return Err(format!("said {said:?} instead of {expected:?}"));
        }
        Ok(())
    }

    /// Whether something should have been posted by this moment.
    pub(crate) fn overdue(&self, now: UnixMillis) -> Result<(), String> {
        match self.lives.iter().find(|(_, life)| life.approvable().is_some_and(|(_, by)| by <= now)) {
            Some((id, _)) if !self.renamed => Err(format!("{id} was not posted")),
            _ => Ok(()),
        }
    }

    fn posted(&mut self, id: &str, at: UnixMillis) -> Result<(), String> {
        if self.approved.contains(id) {
            return Err(format!("{id} posted again"));
        }
        match self.life(id).approvable() {
            Some((from, _)) if from <= at && !self.renamed => Ok(()),
            other => Err(format!("{id} posted at {at:?}, approvable: {other:?}")),
        }
    }
}

/// The event without the member that cannot be read.
fn readable(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    match spec.odd {
        Some("EventType") => spec.event_type = None,
        Some("EventStatus") => spec.status = None,
        Some("EventSource") => spec.source = None,
        Some("DurationInSeconds") => spec.duration = None,
        Some("Resources") => spec.resources.clear(),
        _ => {}
    }
    spec
}

impl Life {
    fn of(spec: &Spec, started: bool, approved: bool, now: UnixMillis) -> Self {
        Self {
            newest: spec.clone(),
            first_seen: now,
            scheduled_once: spec.is_scheduled(),
            started,
            not_before: spec.not_before,
            approved,
            gone: false,
            preparing: Preparing::No,
            recovering: false,
            verdict: None,
            failures: 0,
            again: None,
        }
    }

    /// One word for all that changed: the weightiest.
    fn change_to(&mut self, spec: &Spec) -> Option<Change> {
        let before = std::mem::replace(&mut self.newest, spec.clone());
        let starts = spec.status == Some("Started");
        let status = |spec: &Spec| spec.status.filter(|word| matches!(*word, "Scheduled" | "Started"));
        let other_members = (before.event_type, &before.resources, before.source, before.duration.filter(|&n| n != -1))
            != (spec.event_type, &spec.resources, spec.source, spec.duration.filter(|&n| n != -1));
        if self.started {
            return other_members.then_some(Change::Updated);
        }
        let noticed = self.scheduled_once;
        self.scheduled_once |= spec.is_scheduled();
        if starts {
            self.started = true;
            return Some(if noticed { Change::Started } else { Change::StartedWithoutNotice });
        }
        if spec.not_before.is_some() && spec.not_before != self.not_before {
            self.not_before = spec.not_before;
            return Some(Change::Rescheduled);
        }
        (other_members || status(&before) != status(spec)).then_some(Change::Updated)
    }

    /// The word for an event that is gone, or about which a last word is said.
    fn end(&self, last: Option<&Spec>, seconds: i64) -> Change {
        match last.and_then(|spec| spec.status) {
            _ if self.started => Change::Completed,
            Some("Canceled") => Change::Cancelled,
            Some("Completed") if self.scheduled_once => Change::Completed,
            _ if self.newest.is_scheduled() && !self.approved && self.not_before.is_some_and(|at| seconds < at) => {
                Change::Cancelled
            }
            _ => Change::Ended,
        }
    }

    /// From when on it may be approved, and by when it must; `None` while it may not.
    fn approvable(&self) -> Option<(UnixMillis, UnixMillis)> {
        let (action, _, _, wait) = self.verdict?;
        let allowed = match action {
            Action::Approve => !matches!(self.preparing, Preparing::Running | Preparing::Failed),
            Action::Prepare => self.preparing == Preparing::Ready,
            Action::Hold | Action::Ignore => false,
        };
        if !allowed || self.gone || self.started || self.approved || !self.newest.is_scheduled() {
            return None;
        }
        let turn = self.first_seen.plus(wait? * 1000);
        Some(self.again.map_or((turn, turn), |(from, by)| (from.max(turn), by.max(turn))))
    }

    fn refused(&mut self, at: UnixMillis) {
        self.failures += 1;
        let longest = (1000 << (self.failures - 1).min(4)).min(10_000);
        self.again = Some((at.plus(longest / 2), at.plus(longest)));
    }
}
