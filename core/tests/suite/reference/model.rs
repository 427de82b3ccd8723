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
        Self {
            event_type: None,
            max_duration: None,
            scope: Scope::Mine,
            action,
        }
    }

    fn rule(&self) -> Rule {
        let event_types = match self.event_type {
            Some("Freeze") => EventTypes::of(&[EventKind::Freeze]),
            Some("Preempt") => EventTypes::of(&[EventKind::Preempt]),
            Some(other) => panic!("{other} is not used here"),
            None => EventTypes::ANY,
        };
        let max_duration = self
            .max_duration
            .map(|seconds| u32::try_from(seconds).unwrap());
        Rule {
            event_types,
            max_duration,
            scope: self.scope,
            ..Rule::new(self.action)
        }
    }
}

/// The policy with these rules.
pub(crate) fn policy(rules: &[PlainRule], leader: Leader) -> Policy {
    let mut policy = Policy::new(&rules.iter().map(PlainRule::rule).collect::<Vec<_>>()).unwrap();
    policy.leader = Some(leader);
    policy
}

/// A decision: the action, its reason, the rule, and the seconds to wait before the approval, if it is ever approved.
type ModelDecision = (Action, &'static str, Option<usize>, Option<u32>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Preparing {
    No,
    Running,
    /// Interrupted by a restart, or for the event as it was.
    Void,
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
    /// Whether the command of a preparation runs that does not count any more.
    cancelled: bool,
    /// Whether it is this machine's, and since when it does not name this machine.
    own: bool,
    unnamed_since: Option<UnixMillis>,
    /// When it ended, if the machine was out of service then.
    ended: Option<UnixMillis>,
    /// Whether the other machine, whose event it is, is out of service, and is being recovered.
    other_is_out: bool,
    recovering: bool,
    /// Whether that recovery is cancelled, since the event has returned.
    cancels_recovery: bool,
    /// The type and the duration in the last document that showed it readable.
    interruption: (Option<&'static str>, i64),
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
    /// Whether a document was read since the start.
    has_document: bool,
    /// Whether this machine is out of service, and the event by which its recovery in progress is named.
    is_out: bool,
    recovering: Option<String>,
    /// The events by which a recovery of this machine that is due may be named: those that ended last.
    recovery_candidates: Vec<String>,
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
            has_document: false,
            is_out: false,
            recovering: None,
            recovery_candidates: Vec::new(),
            events: Vec::new(),
            approved: HashSet::new(),
            expected: HashMap::new(),
        }
    }

    fn expect(&mut self, id: &str, line: &impl ToString) {
        self.expected
            .entry(id.to_owned())
            .or_default()
            .push(line.to_string());
    }

    /// Applies a document.
    pub(crate) fn document(&mut self, events: &[Spec], now: UnixMillis) {
        let events: Vec<_> = events.iter().map(readable).collect();
        let seconds = now.seconds().0 - START.seconds().0;
        let is_out = self.is_out;
        for (id, mut event) in std::mem::take(&mut self.events) {
            let found = events.iter().find(|spec| spec.id == id);
            let there = found.filter(|spec| spec.is_open());
            if !event.gone {
                event.gone = there.is_none();
                let changes = match there {
                    Some(spec) => event.change_to(spec),
                    None => vec![event.end(found, seconds)],
                };
                for change in changes {
                    self.expect(&id, &change);
                }
                if event.gone {
                    event.cancelled |= event.preparing == Preparing::Running;
                    event.ended = event.ended.or((event.own && is_out).then_some(now));
                    if event.own && is_out {
                        event.ended = Some(now);
                    }
                }
            } else if let Some(spec) = there {
                let started = spec.status == Some("Started");
                self.expect(
                    &id,
                    &if started {
                        Change::StartedWithoutNotice
                    } else {
                        Change::Scheduled
                    },
                );
                event = ModelEvent {
                    cancelled: event.cancelled,
                    recovering: event.recovering,
                    cancels_recovery: event.recovering,
                    ended: event.ended,
                    other_is_out: event.other_is_out,
                    ..ModelEvent::of(spec, started, event.approved, now)
                };
            }
            self.events.push((id, event));
        }
        for spec in events.iter().filter(|spec| spec.is_open()) {
            if !self.events.iter().any(|(id, _)| *id == spec.id) {
                let started = spec.status == Some("Started");
                self.expect(
                    &spec.id,
                    &if started {
                        Change::StartedWithoutNotice
                    } else {
                        Change::Scheduled
                    },
                );
                self.events.push((
                    spec.id.clone(),
                    ModelEvent::of(spec, started, self.approved.contains(&spec.id), now),
                ));
            }
        }
        let (was_out, was_recovering) = (self.is_out, self.recovering.is_some());
        for (id, mut event) in std::mem::take(&mut self.events) {
            if !event.gone {
                self.note_owner(&mut event, was_out, was_recovering, now);
            }
            // `Started` is final, whatever a later document contains.
            let unstarted = event.started && event.newest.status != Some("Started");
            if !event.gone && !unstarted {
                let decision = self.decide(&event.newest);
                let reported_as_change =
                    event.decision.is_some() && decision.1 == "already started";
                // After a restart; without retries, a failed preparation is the last one.
                let is_abandoned = event.decision.is_none()
                    && event.preparing == Preparing::Failed
                    && decision.0 == Action::Prepare;
                if event.decision != Some(decision) && !reported_as_change && !is_abandoned {
                    self.expect(&id, &format!("{} ({})", decision.0.word(), decision.1));
                }
                event.decision = Some(decision);
            }
            self.events.push((id, event));
        }
        self.renamed = false;
        self.has_document = true;
        self.act();
    }

    /// Notes whether the newest document names this machine.
    fn note_owner(
        &mut self,
        event: &mut ModelEvent,
        was_out: bool,
        was_recovering: bool,
        now: UnixMillis,
    ) {
        let spec = &event.newest;
        if self.names.is_empty() {
            return;
        }
        if spec.names(&self.names) {
            if event.other_is_out && !event.own {
                event.other_is_out = false;
                self.is_out = true;
                if event.preparing != Preparing::No && was_recovering {
                    if let Some(recovering) = self.recovering.take() {
                        self.expect(
                            &format!("recovery of this machine, named by {recovering}"),
                            &"cancel",
                        );
                    }
                    // It may have undone what the preparation did.
                    if event.preparing != Preparing::Failed {
                        event.cancelled |= event.preparing == Preparing::Running;
                        event.preparing = Preparing::Void;
                    }
                }
                if event.preparing == Preparing::No {
                    event.ended = Some(now);
                }
            }
            (event.own, event.unnamed_since) = (true, None);
        } else if event.own && spec.invalid != Some("Resources") && !spec.resources.is_empty() {
            let since = *event.unnamed_since.get_or_insert(now);
            if now.millis_since(since) >= 2000 {
                (event.own, event.unnamed_since) = (false, None);
                if was_out {
                    event.cancelled |= event.preparing == Preparing::Running;
                    event.preparing = Preparing::No;
                    event.ended = Some(now);
                }
            }
        }
    }

    /// Expects everything that is due: cancellations, preparations and recoveries.
    fn act(&mut self) {
        for (id, mut event) in std::mem::take(&mut self.events) {
            if std::mem::take(&mut event.cancelled) {
                self.expect(&id, &"cancel");
            }
            if std::mem::take(&mut event.cancels_recovery) {
                event.recovering = false;
                self.expect(&id, &"cancel the recovery");
            }
            let wanted = !event.gone
                && event
                    .decision
                    .is_some_and(|decision| decision.0 == Action::Prepare);
            if wanted && !self.renamed && matches!(event.preparing, Preparing::No | Preparing::Void)
            {
                if event.own {
                    if let Some(recovering) = self.recovering.take() {
                        self.expect(
                            &format!("recovery of this machine, named by {recovering}"),
                            &"cancel",
                        );
                    }
                    self.is_out = true;
                } else {
                    event.other_is_out = true;
                }
                if std::mem::take(&mut event.recovering) {
                    self.expect(&id, &"cancel the recovery");
                }
                self.expect(&id, &"prepare");
                event.preparing = Preparing::Running;
            }
            self.events.push((id, event));
        }
        for (id, mut event) in std::mem::take(&mut self.events) {
            let is_over = event.gone || event.preparing == Preparing::No;
            if event.other_is_out && is_over && !event.recovering {
                self.expect(&id, &"recover");
                event.recovering = true;
            }
            if !event.gone || event.ended.is_some() || event.other_is_out || event.recovering {
                self.events.push((id, event));
            }
        }
        let keeps_out = |event: &ModelEvent| {
            event.own && !event.gone && (event.started || event.preparing != Preparing::No)
        };
        if !self.is_out || self.recovering.is_some() || self.renamed || !self.has_document {
            return;
        }
        if self.events.iter().any(|(_, event)| keeps_out(event)) {
            return;
        }
        // The one that ended last; of several, the last in the session's own order.
        let ended: Vec<_> = self
            .events
            .iter()
            .filter_map(|(id, event)| Some((event.ended?, id.clone())))
            .collect();
        let last = ended.iter().map(|(at, _)| *at).max();
        let candidates: Vec<_> = ended
            .into_iter()
            .filter(|(at, _)| Some(*at) == last)
            .map(|(_, id)| id)
            .collect();
        self.recovery_candidates = candidates;
    }

    pub(crate) fn prepared(&mut self, id: &str, preparation: Preparation) {
        let ready = preparation == Preparation::Ready;
        self.event(id).preparing = if ready {
            Preparing::Ready
        } else {
            Preparing::Failed
        };
        self.act();
    }

    pub(crate) fn recovered(&mut self, id: &str, own: bool) {
        if own {
            (self.recovering, self.is_out) = (None, false);
            for (_, event) in &mut self.events {
                event.ended = None;
            }
        } else {
            let event = self.event(id);
            (event.recovering, event.other_is_out) = (false, false);
        }
        self.act();
    }

    pub(crate) fn restarted(&mut self) {
        self.recovering = None;
        self.recovery_candidates.clear();
        self.has_document = false;
        for (_, event) in &mut self.events {
            if event.preparing == Preparing::Running {
                event.preparing = Preparing::Void;
            }
            event.cancelled = false;
            (event.recovering, event.cancels_recovery) = (false, false);
            event.decision = None;
            event.again = None;
            event.unnamed_since = None;
        }
        self.act();
    }

    pub(crate) fn named(&mut self, names: &[&'static str]) {
        self.names = names.to_vec();
        self.renamed = true;
    }

    fn event(&mut self, id: &str) -> &mut ModelEvent {
        &mut self
            .events
            .iter_mut()
            .find(|(known, _)| known == id)
            .unwrap()
            .1
    }

    /// Applies the rules in order.
    fn decide(&self, spec: &Spec) -> ModelDecision {
        let unreadable = match spec.invalid {
            Some("EventType") => Some("unreadable EventType"),
            Some("EventStatus") => Some("unreadable EventStatus"),
            Some("EventSource") => Some("unreadable EventSource"),
            Some("DurationInSeconds") => Some("unreadable DurationInSeconds"),
            Some("Resources") => Some("unreadable Resources"),
            _ => None,
        };
        let hold = |reason| (Action::Hold, unreadable.unwrap_or(reason), None, None);
        let status = spec.status.filter(|_| spec.invalid != Some("EventStatus"));
        match status {
            Some("Scheduled") | None => {}
            Some("Started") => return hold("already started"),
            Some(_) => return hold("not Scheduled"),
        }
        if self.names.is_empty() {
            return hold("VM name unknown");
        }
        let resources: &[&str] = match spec.invalid {
            Some("Resources") => &[],
            _ => &spec.resources,
        };
        let event_type = spec
            .event_type
            .filter(|_| spec.invalid != Some("EventType"));
        let doubt = unreadable
            .or_else(|| event_type.is_none().then_some("no EventType"))
            .or_else(|| status.is_none().then_some("no EventStatus"));
        let rank = resources
            .iter()
            .position(|resource| self.names.contains(resource));
        let duration = spec
            .duration
            .filter(|&seconds| seconds != -1 && spec.invalid != Some("DurationInSeconds"));
        for (number, rule) in self.rules.iter().enumerate() {
            let by_type = rule.event_type.is_none() || rule.event_type == event_type;
            let by_duration = rule
                .max_duration
                .is_none_or(|max| duration.is_some_and(|seconds| seconds <= max));
            let by_scope = match rule.scope {
                Scope::Mine => rank.is_some(),
                Scope::Others => rank.is_none(),
                Scope::Any => true,
            };
            if !(by_type && by_duration && by_scope) || resources.is_empty() {
                continue;
            }
            let number = Some(number);
            let reason = if rule.max_duration.is_some() {
                "short interruption"
            } else {
                "a rule matches"
            };
            let is_others_end = rank.is_none() && event_type == Some("Terminate");
            match (rule.action, doubt) {
                (Action::Approve | Action::Prepare, _) if is_others_end => {
                    return (Action::Hold, "another VM's Terminate", number, None);
                }
                (Action::Approve, Some(doubt)) => return (Action::Hold, doubt, None, None),
                (action, Some(doubt)) => return (action, doubt, number, None),
                (Action::Hold | Action::Ignore, None) => {
                    return (rule.action, reason, number, None);
                }
                (Action::Approve | Action::Prepare, None) => {}
            }
            let wait = match (rank, self.leader) {
                (None | Some(0), _) | (_, Leader::Everyone) => Some(0),
                (Some(_), Leader::FirstResource) => None,
                (Some(rank), Leader::Rank { take_over_after }) => {
                    Some(u32::try_from(rank).unwrap() * take_over_after)
                }
            };
            if wait.is_none() && rule.action == Action::Approve {
                return (Action::Hold, "another VM leads", number, None);
            }
            return (rule.action, reason, number, wait);
        }
        let reason = match rank {
            _ if self.rules.is_empty() => "the policy only observes",
            Some(_) => "no rule matches",
            None if resources.is_empty() => "no VM in Resources",
            None => "another VM's event",
        };
        (Action::Hold, doubt.unwrap_or(reason), None, None)
    }

    /// Compares the steps since the last comparison with the expected ones, and checks the approvals.
    pub(crate) fn compare(&mut self, trace: &[Entry]) -> Result<(), String> {
        let mut steps: HashMap<String, Vec<String>> = HashMap::new();
        for Entry { at, what } in trace {
            let recovery;
            let (id, line) = match what {
                Exchange::Change(id, change) => (id, change.to_string()),
                Exchange::Decision(id, decision) => (
                    id,
                    format!("{} ({})", decision.action.word(), decision.reason),
                ),
                Exchange::Prepare(id) => (id, String::from("prepare")),
                Exchange::Recover(id, _) => {
                    if !self.recovery_candidates.contains(id) {
                        return Err(format!(
                            "recovered from {id}, expected {:?}",
                            self.recovery_candidates
                        ));
                    }
                    self.recovery_candidates.clear();
                    self.recovering = Some(id.clone());
                    continue;
                }
                Exchange::RecoverOther(id) => (id, String::from("recover")),
                Exchange::Cancel(id) => (id, String::from("cancel")),
                Exchange::CancelRecoveryOther(id) => (id, String::from("cancel the recovery")),
                Exchange::CancelRecovery(id) => {
                    recovery = format!("recovery of this machine, named by {id}");
                    (&recovery, String::from("cancel"))
                }
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
        if !self.recovery_candidates.is_empty() {
            return Err(format!("no recovery of {:?}", self.recovery_candidates));
        }
        if steps != expected {
            return Err(format!("the steps are {steps:?}, expected {expected:?}"));
        }
        Ok(())
    }

    /// Returns an error if an approval should have been posted by this time.
    pub(crate) fn overdue(&self, now: UnixMillis) -> Result<(), String> {
        match self
            .events
            .iter()
            .find(|(_, event)| event.approvable().is_some_and(|(_, by)| by <= now))
        {
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

/// What an event interrupts, and for how long; an unknown duration is the longest.
fn interruption(spec: &Spec) -> (Option<&'static str>, i64) {
    (
        spec.event_type,
        spec.duration
            .filter(|&seconds| seconds != -1)
            .unwrap_or(i64::MAX),
    )
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
            cancelled: false,
            own: false,
            unnamed_since: None,
            ended: None,
            other_is_out: false,
            recovering: false,
            cancels_recovery: false,
            interruption: interruption(spec),
            decision: None,
            failures: 0,
            again: None,
        }
    }

    /// Updates the event. Returns the changes.
    fn change_to(&mut self, spec: &Spec) -> Vec<Change> {
        let before = std::mem::replace(&mut self.newest, spec.clone());
        let starts = spec.status == Some("Started");
        let status = |spec: &Spec| {
            spec.status
                .filter(|word| matches!(*word, "Scheduled" | "Started"))
        };
        let other_members = (
            before.event_type,
            &before.resources,
            before.source,
            before.duration.filter(|&n| n != -1),
        ) != (
            spec.event_type,
            &spec.resources,
            spec.source,
            spec.duration.filter(|&n| n != -1),
        );
        if spec.invalid.is_none() && status(spec).is_some() {
            let new = interruption(spec);
            let is_other = self.interruption.0.is_some() && new.0 != self.interruption.0;
            let voids = is_other || new.1 > self.interruption.1;
            self.interruption = new;
            if voids && spec.is_scheduled() && !self.started && self.preparing != Preparing::No {
                self.cancelled |= self.preparing == Preparing::Running;
                self.preparing = Preparing::Void;
            }
        }
        let mut changes: Vec<_> = other_members
            .then_some(Change::Updated)
            .into_iter()
            .collect();
        if self.started {
            return changes;
        }
        let noticed = self.scheduled_once;
        self.scheduled_once |= spec.is_scheduled();
        if starts {
            self.started = true;
            return vec![if noticed {
                Change::Started
            } else {
                Change::StartedWithoutNotice
            }];
        }
        if spec.not_before.is_some() && spec.not_before != self.not_before {
            self.not_before = spec.not_before;
            changes.insert(0, Change::Rescheduled);
        }
        if changes.is_empty() && status(&before) != status(spec) {
            changes.push(Change::Updated);
        }
        changes
    }

    /// Classifies the end of an event that is gone or has a final status.
    fn end(&self, last: Option<&Spec>, seconds: i64) -> Change {
        match last.and_then(|spec| spec.status) {
            _ if self.started => Change::Completed,
            Some("Canceled") => Change::Cancelled,
            Some("Completed") if self.scheduled_once => Change::Completed,
            _ if self.newest.is_scheduled()
                && !self.approved
                && self.not_before.is_some_and(|at| seconds < at) =>
            {
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
            Action::Prepare => self.preparing == Preparing::Ready, // The machine is out of service then.
            Action::Hold | Action::Ignore => false,
        };
        if !allowed || self.gone || self.started || self.approved || !self.newest.is_scheduled() {
            return None;
        }
        let turn = self.first_seen.plus(wait? * 1000);
        Some(
            self.again
                .map_or((turn, turn), |(from, by)| (from.max(turn), by.max(turn))),
        )
    }

    fn refused(&mut self, at: UnixMillis) {
        self.failures += 1;
        let longest = (1000 << (self.failures - 1).min(4)).min(10_000);
        self.again = Some((at.plus(longest / 2), at.plus(longest)));
    }
}
