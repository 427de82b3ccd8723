//! A naive model of a session: a list of events that is searched linearly.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{
    Action, Change, EventKind, EventTypes, Leader, Policy, Preparation, Rule, Scope, UnixMillis,
};

use crate::common::{Entry, Exchange, START, Spec};

/// A rule of the model.
#[derive(Clone, Debug)]
pub(crate) struct PlainRule {
    /// The type that it matches; `None` for all.
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

/// The policy with these rules.
pub(crate) fn policy(rules: &[PlainRule], leader: Leader) -> Policy {
    let mut policy = Policy::new(&rules.iter().map(PlainRule::rule).collect::<Vec<_>>()).unwrap();
    policy.leader = leader;
    policy
}

/// A decision: the action, its reason, the rule, and the seconds to wait before the approval, if it is ever approved.
type ModelDecision = (Action, &'static str, Option<usize>, Option<u32>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Preparing {
    No,
    Running,
    /// Interrupted by a restart.
    Interrupted,
    Ready,
    Failed,
}

/// An event, from when it is first seen until nothing is left to do for it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Exchange happened to it so far.
struct ModelEvent {
    newest: Spec,
    first_seen: UnixMillis,
    scheduled_once: bool,
    started: bool,
    not_before: Option<i64>,
    approved: bool,
    gone: bool,
    preparing: Preparing,
    recovering: bool,
    decision: Option<ModelDecision>,
    failures: u32,
    /// The next approval is posted not before the first time, and soon after the second.
    again: Option<(UnixMillis, UnixMillis)>,
}

/// The model of a session.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    rules: Vec<PlainRule>,
    leader: Leader,
    names: Vec<&'static str>,
    /// Whether no decision was made for these names yet.
    renamed: bool,
    events: Vec<(String, ModelEvent)>,
    approved: HashSet<String>,
    /// The steps expected since the last comparison, by event.
    expected: HashMap<String, Vec<String>>,
}

impl Model {
    pub(crate) fn new(rules: &[PlainRule], leader: Leader, names: &[&'static str]) -> Self {
        Self {
            rules: rules.to_vec(),
            leader,
            names: names.to_vec(),
            renamed: false,
            events: Vec::new(),
            approved: HashSet::new(),
            expected: HashMap::new(),
        }
    }

    fn expect(&mut self, id: &str, line: &impl ToString) {
        self.expected.entry(id.to_owned()).or_default().push(line.to_string());
    }

    /// Applies a document.
    pub(crate) fn document(&mut self, events: &[Spec], now: UnixMillis) {
        let events: Vec<_> = events.iter().map(readable).collect();
        let seconds = now.seconds().0 - START.seconds().0;
        for (id, mut event) in std::mem::take(&mut self.events) {
            let found = events.iter().find(|spec| spec.id == id);
            if !event.gone {
                let there = found.filter(|spec| spec.is_open());
                event.gone = there.is_none();
                let change = match there {
                    Some(spec) => event.change_to(spec),
                    None => Some(event.end(found, seconds)),
                };
                if let Some(change) = change {
                    self.expect(&id, &change);
                }
            }
            self.events.push((id, event));
        }
        for spec in events.iter().filter(|spec| spec.is_open()) {
            if !self.events.iter().any(|(id, _)| *id == spec.id) {
                let started = spec.status == Some("Started");
                self.expect(&spec.id, &if started { Change::StartedWithoutNotice } else { Change::Scheduled });
                self.events
                    .push((spec.id.clone(), ModelEvent::of(spec, started, self.approved.contains(&spec.id), now)));
            }
        }
        for (id, mut event) in std::mem::take(&mut self.events) {
            // `Started` is final, whatever a later document contains.
            let unstarted = event.started && event.newest.status != Some("Started");
            if !event.gone && !unstarted {
                let decision = self.decide(&event.newest);
                let reported_as_change = event.decision.is_some() && decision.1 == "already started";
                if event.decision != Some(decision) && !reported_as_change {
                    self.expect(&id, &format!("{} ({})", decision.0.word(), decision.1));
                }
                event.decision = Some(decision);
                if decision.0 == Action::Prepare && matches!(event.preparing, Preparing::No | Preparing::Interrupted) {
                    self.expect(&id, &"prepare");
                    event.preparing = Preparing::Running;
                }
            }
            self.events.push((id, event));
        }
        self.renamed = false;
        self.recover();
    }

    /// Expects a recovery for each gone event whose preparation was issued and is not in progress.
    fn recover(&mut self) {
        for (id, mut event) in std::mem::take(&mut self.events) {
            if event.gone && event.preparing == Preparing::No {
                continue;
            }
            if event.gone && event.preparing != Preparing::Running && !event.recovering {
                self.expect(&id, &"recover");
                event.recovering = true;
            }
            self.events.push((id, event));
        }
    }

    pub(crate) fn prepared(&mut self, id: &str, preparation: Preparation) {
        let ready = preparation == Preparation::Ready;
        self.event(id).preparing = if ready { Preparing::Ready } else { Preparing::Failed };
        self.recover();
    }

    pub(crate) fn recovered(&mut self, id: &str) {
        self.events.retain(|(known, _)| known != id);
    }

    pub(crate) fn restarted(&mut self) {
        for (_, event) in &mut self.events {
            if event.preparing == Preparing::Running {
                event.preparing = Preparing::Interrupted;
            }
            event.recovering = false;
            event.decision = None;
            event.again = None;
        }
        self.recover();
    }

    pub(crate) fn named(&mut self, names: &[&'static str]) {
        self.names = names.to_vec();
        self.renamed = true;
    }

    fn event(&mut self, id: &str) -> &mut ModelEvent {
        &mut self.events.iter_mut().find(|(known, _)| known == id).unwrap().1
    }

    /// Applies the rules in order.
    fn decide(&self, spec: &Spec) -> ModelDecision {
        match spec.invalid {
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

    /// Compares the steps since the last comparison with the expected ones, and checks the approvals.
    pub(crate) fn compare(&mut self, trace: &[Entry]) -> Result<(), String> {
        let mut steps: HashMap<String, Vec<String>> = HashMap::new();
        for Entry { at, what } in trace {
            let (id, line) = match what {
                Exchange::Change(id, change) => (id, change.to_string()),
                Exchange::Decision(id, decision) => (id, format!("{} ({})", decision.action.word(), decision.reason)),
                Exchange::Prepare(id) => (id, String::from("prepare")),
                Exchange::Recover(id) => (id, String::from("recover")),
                Exchange::Post(ids) => {
                    for id in ids {
                        self.posted(id, *at)?;
                    }
                    continue;
                }
                Exchange::Approved(ids) => {
                    for id in ids {
                        self.approved.insert(id.clone());
                        self.event(id).approved = true;
                    }
                    continue;
                }
                Exchange::Refused(ids) => {
                    for id in ids {
                        self.event(id).refused(*at);
                    }
                    continue;
                }
                _ => continue,
            };
            steps.entry(id.clone()).or_default().push(line);
        }
        let expected = std::mem::take(&mut self.expected);
        if steps != expected {
            return Err(format!("the steps are {steps:?}, expected {expected:?}"));
        }
        Ok(())
    }

    /// Returns an error if an approval should have been posted by this time.
    pub(crate) fn overdue(&self, now: UnixMillis) -> Result<(), String> {
        match self.events.iter().find(|(_, event)| event.approvable().is_some_and(|(_, by)| by <= now)) {
            Some((id, _)) if !self.renamed => Err(format!("{id} was not posted")),
            _ => Ok(()),
        }
    }

    fn posted(&mut self, id: &str, at: UnixMillis) -> Result<(), String> {
        if self.approved.contains(id) {
            return Err(format!("{id} posted again"));
        }
        match self.event(id).approvable() {
            Some((from, _)) if from <= at && !self.renamed => Ok(()),
            other => Err(format!("{id} posted at {at:?}, approvable: {other:?}")),
        }
    }
}

/// The event without its invalid member.
fn readable(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    match spec.invalid {
        Some("EventType") => spec.event_type = None,
        Some("EventStatus") => spec.status = None,
        Some("EventSource") => spec.source = None,
        Some("DurationInSeconds") => spec.duration = None,
        Some("Resources") => spec.resources.clear(),
        _ => {}
    }
    spec
}

impl ModelEvent {
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
            decision: None,
            failures: 0,
            again: None,
        }
    }

    /// Updates the event. Returns the most important change.
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

    /// Classifies the end of an event that is gone or has a final status.
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

    /// The earliest and the latest time for the approval; `None` while it is not allowed.
    fn approvable(&self) -> Option<(UnixMillis, UnixMillis)> {
        let (action, _, _, wait) = self.decision?;
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
