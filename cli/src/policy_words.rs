//! What a policy does, in words: a table of event types and sources, and what is never approved.
//!
//! Every cell is a decision of core about an event that is made for it. So the words follow the rules, and nothing here reads
//! a rule but its bounds, which say where decisions may differ.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use scheduled_events_core::{
    Action, Decision, Document, EventKind, Leader, Policy, Reason, SourceKind, UnixSeconds, VmNames,
};

use crate::output::style::{BOLD, DIM, PLAIN, action_style};
use crate::output::table::Table;

/// When the events of the table start, if they have a start.
const START: UnixSeconds = UnixSeconds(2_000_000_000);

/// This machine's name in the events of the table, and that of another one.
const MINE: &str = "this-machine";
const OTHER: &str = "another-machine";

/// A policy, and what a watcher with it has.
pub(crate) struct PolicyWords {
    policy: Policy,
    has_gate: bool,
    /// Whether there is a command that prepares; `None` if that is not known.
    prepares: Option<bool>,
}

/// What is done about an event.
#[derive(Clone, Copy, PartialEq)]
struct Outcome {
    action: Action,
    rule: Option<u16>,
    reason: Reason,
    approve_after: Option<u32>,
    prepare_before: Option<u32>,
}

/// The outcomes for one type and one source, each under its condition.
type Rows = Vec<(String, Outcome)>;

/// An event to decide about.
#[derive(Clone, Copy)]
struct Case {
    kind: EventKind,
    source: SourceKind,
    duration: Option<u32>,
    notice: Option<u32>,
    resources: &'static [&'static str],
    status: &'static str,
}

/// The values of a duration or a notice between which no rule distinguishes.
struct Axis {
    name: &'static str,
    /// The first value of each range, and whether it is the lower bound of a rule, rather than what follows an upper one. The
    /// last range has no end.
    starts: Vec<(u32, bool)>,
}

impl Axis {
    fn new(name: &'static str, bounds: impl Iterator<Item = (Option<u32>, Option<u32>)>) -> Self {
        let after = |max: u32| Some((max.checked_add(1)?, false));
        let starts =
            bounds.flat_map(|(min, max)| [min.map(|min| (min, true)), max.and_then(after)]);
        let mut starts: Vec<_> = starts.flatten().chain([(0, true)]).collect();
        starts.sort_unstable();
        starts.dedup_by_key(|(start, _)| *start);
        Self { name, starts }
    }

    /// A value of each range, and the unknown one.
    fn values(&self) -> impl Iterator<Item = Option<u32>> {
        self.starts
            .iter()
            .map(|(start, _)| Some(*start))
            .chain([None])
    }

    /// Ranges with equal outcomes, each in words; no words if all are equal.
    fn ranges<T: PartialEq + Clone>(&self, outcomes: &[T]) -> Vec<(String, T)> {
        let (Some((unknown, known)), name) = (outcomes.split_last(), self.name) else {
            return Vec::new();
        };
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (index, outcome) in known.iter().enumerate() {
            match runs.last_mut() {
                Some((first, last)) if known[*first] == *outcome => *last = index,
                _ => runs.push((index, index)),
            }
        }
        if runs.len() == 1 && known[0] == *unknown {
            return vec![(String::new(), unknown.clone())];
        }
        let text = |seconds: u32| {
            humantime::format_duration(Duration::from_secs(u64::from(seconds))).to_string()
        };
        let mut is_unknown_named = false;
        let mut ranges: Vec<_> = runs
            .iter()
            .map(|&(first, last)| {
                let (from, is_bound) = self.starts[first];
                let next = self.starts.get(last + 1).copied();
                let lower = if is_bound {
                    format!("at least {}", text(from))
                } else {
                    format!("over {}", text(from - 1))
                };
                let upper = next.map(|(next, is_bound)| {
                    if is_bound {
                        format!("under {}", text(next))
                    } else {
                        format!("at most {}", text(next - 1))
                    }
                });
                let mut words = match (from, upper) {
                    (0, None) => format!("{name} known"),
                    (0, Some(upper)) => format!("{name} {upper}"),
                    (_, None) => format!("{name} {lower}"),
                    (_, Some(upper)) => format!("{name} {lower}, {upper}"),
                };
                if next.is_none() && known[first] == *unknown {
                    is_unknown_named = true;
                    words += " or unknown";
                }
                (words, known[first].clone())
            })
            .collect();
        if !is_unknown_named {
            ranges.push((format!("{name} unknown"), unknown.clone()));
        }
        ranges
    }
}

impl PolicyWords {
    /// The words for a policy. `prepares` is whether there is a command that prepares, if that is known.
    pub(crate) fn new(policy: &Policy, has_gate: bool, prepares: Option<bool>) -> Self {
        let mut policy = policy.clone();
        if has_gate {
            // As a session does: the gate takes the leader's place.
            policy.leader = Some(Leader::Everyone);
        }
        Self {
            policy,
            has_gate,
            prepares,
        }
    }

    /// Writes the table, and what is never approved and why.
    pub(crate) fn write(&self, output: &mut impl Write, width: Option<usize>) -> io::Result<()> {
        self.table().print(&mut *output, width)?;
        writeln!(output, "\n{BOLD}Events of several machines{BOLD:#}")?;
        lines(self.several()).print(&mut *output, width)?;
        writeln!(output, "\n{BOLD}Never approved{BOLD:#}")?;
        lines(self.never()).print(&mut *output, width)
    }

    /// Which types of events of this machine alone are approved, and which are prepared for, in a line.
    pub(crate) fn summary(&self) -> String {
        let (approved, prepared) = (self.types(Action::Approve), self.types(Action::Prepare));
        if approved.is_empty() && prepared.is_empty() {
            return "never approves, and prepares for nothing".to_owned();
        }
        let mut parts = Vec::new();
        if !approved.is_empty() {
            parts.push(format!("approves {approved}"));
        }
        if !prepared.is_empty() {
            parts.push(format!("prepares for {prepared}, and approves then"));
            if self.policy.leader.is_none() {
                parts.push(
                    "events of several machines are prepared for and not approved: no gate, no leader"
                        .to_owned(),
                );
            }
        }
        parts.join("; ")
    }

    /// The types whose events have this action, always or under conditions.
    fn types(&self, action: Action) -> String {
        let found = EventKind::ALL.map(|kind| {
            let cases = self.cases(&[MINE]).filter(|case| case.kind == kind);
            let actions: Vec<_> = cases
                .map(|case| self.decide(&case).action == action)
                .collect();
            let is_always = !actions.contains(&false);
            let conditions = if is_always { "" } else { " with conditions" };
            (kind, actions.contains(&true).then_some(conditions))
        });
        // Advice is no maintenance, and only a rule that names it says anything about it.
        let maintenance = |kind| kind != EventKind::SpotRebalanceRecommendation;
        let mut names = Vec::new();
        let (_, first) = found[0];
        let others = found.iter().filter(|(kind, _)| maintenance(*kind));
        let are_alike = others.clone().all(|(_, conditions)| *conditions == first);
        if let Some(conditions) = first.filter(|_| are_alike) {
            names.push(format!("any type{conditions}"));
        }
        for (kind, conditions) in found {
            if let Some(conditions) = conditions.filter(|_| !are_alike || !maintenance(kind)) {
                names.push(format!("{}{conditions}", kind.word()));
            }
        }
        names.join(", ")
    }

    /// What is done about the events of this machine alone.
    fn table(&self) -> Table {
        let mut table = Table::with_headings(["EVENT", "SOURCE", "WHAT IS DONE"]);
        for kind in EventKind::ALL {
            let mut name = Some(word(kind));
            for (sources, rows) in self.by_source(kind) {
                let mut source = Some(sources);
                for (condition, outcome) in rows {
                    let separator = if condition.is_empty() { "" } else { ": " };
                    table.row([
                        (name.take().unwrap_or_default().to_owned(), BOLD),
                        (source.take().unwrap_or_default(), PLAIN),
                        (
                            condition + separator + &self.what(&outcome),
                            self.style(&outcome),
                        ),
                    ]);
                }
            }
        }
        table
    }

    /// The sources that a type's outcomes depend on, each with its outcomes.
    fn by_source(&self, kind: EventKind) -> Vec<(String, Rows)> {
        let mut all: Vec<(Vec<&str>, Rows)> = Vec::new();
        for source in SourceKind::ALL {
            let rows = self.rows(kind, source);
            match all.iter_mut().find(|(_, known)| *known == rows) {
                Some((sources, _)) => sources.push(source.word()),
                None => all.push((vec![source.word()], rows)),
            }
        }
        if let [(sources, _)] = &mut all[..] {
            *sources = vec!["any"];
        }
        let joined = all.into_iter();
        joined
            .map(|(sources, rows)| (sources.join(", "), rows))
            .collect()
    }

    fn rows(&self, kind: EventKind, source: SourceKind) -> Rows {
        let (durations, notices) = self.axes();
        let case = Case {
            kind,
            source,
            ..Case::MINE
        };
        let by_notice = |duration| {
            let outcomes = notices.values().map(|notice| {
                self.decide(&Case {
                    duration,
                    notice,
                    ..case
                })
            });
            notices.ranges(&outcomes.collect::<Vec<_>>())
        };
        let grid: Vec<_> = durations.values().map(by_notice).collect();
        let mut rows = Vec::new();
        for (duration, by_notice) in durations.ranges(&grid) {
            for (notice, outcome) in by_notice {
                let both = [duration.as_str(), notice.as_str()];
                let both: Vec<_> = both.into_iter().filter(|words| !words.is_empty()).collect();
                rows.push((both.join(", "), outcome));
            }
        }
        rows
    }

    fn axes(&self) -> (Axis, Axis) {
        let rules = self.policy.rules();
        let durations = rules
            .iter()
            .map(|rule| (rule.min_duration, rule.max_duration));
        let notices = rules.iter().map(|rule| (rule.min_notice, rule.max_notice));
        (
            Axis::new("duration", durations),
            Axis::new("notice", notices),
        )
    }

    /// All events of the table, with these resources.
    fn cases(&self, resources: &'static [&'static str]) -> impl Iterator<Item = Case> {
        let (durations, notices) = self.axes();
        let values: Vec<_> = durations
            .values()
            .flat_map(|duration| notices.values().map(move |notice| (duration, notice)))
            .collect();
        let kinds = EventKind::ALL.into_iter();
        let both = kinds.flat_map(|kind| SourceKind::ALL.map(|source| (kind, source)));
        both.flat_map(move |(kind, source)| {
            values
                .clone()
                .into_iter()
                .map(move |(duration, notice)| Case {
                    kind,
                    source,
                    duration,
                    notice,
                    resources,
                    ..Case::MINE
                })
        })
    }

    fn decide(&self, case: &Case) -> Outcome {
        let mut resources = String::new();
        for name in case.resources {
            let separator = if resources.is_empty() { "" } else { "," };
            let _ = write!(resources, "{separator}\"{name}\"");
        }
        let start = case.notice.map_or(String::new(), |_| START.to_string());
        // Azure's word for an unknown duration is -1.
        let duration = case.duration.map_or(-1, i64::from);
        // Advice has a status of its own, and no start.
        let (status, start) = match case.kind {
            EventKind::SpotRebalanceRecommendation => ("Advisory", ""),
            _ => (case.status, &*start),
        };
        let body = format!(
            r#"{{"Events":[{{"EventId":"e","EventType":"{}","EventStatus":"{status}","Resources":[{resources}],
                "NotBefore":"{start}","EventSource":"{}","DurationInSeconds":{duration}}}]}}"#,
            case.kind, case.source,
        );
        let now = START.minus(case.notice.unwrap_or_default());
        let names = [MINE];
        let names = VmNames::new(&names);
        let event = Document::parse(body.as_bytes()).ok();
        let decision = event.and_then(|document| {
            let event = document.events().next()?;
            Some(self.policy.decide(&event, names, now))
        });
        // The document is a valid one.
        let Some(decision) = decision else {
            return Outcome::HELD;
        };
        self.outcome(&decision)
    }

    fn outcome(&self, decision: &Decision) -> Outcome {
        let rule = decision.rule.map(|rule| usize::from(rule) - 1);
        let rule = rule.and_then(|index| self.policy.rules().get(index));
        Outcome {
            action: decision.action,
            rule: decision.rule,
            reason: decision.reason,
            approve_after: decision.approve_after,
            prepare_before: rule
                .filter(|_| decision.act_from.is_some())
                .and_then(|rule| rule.prepare_before),
        }
    }

    fn style(&self, outcome: &Outcome) -> Style {
        if self.is_held(outcome) {
            return action_style(Action::Hold);
        }
        action_style(outcome.action)
    }

    /// Whether there is nothing that could prepare.
    fn is_held(&self, outcome: &Outcome) -> bool {
        outcome.action == Action::Prepare && self.prepares == Some(false)
    }

    fn approves(&self, outcome: &Outcome) -> bool {
        outcome.approve_after.is_some() && !self.is_held(outcome)
    }

    /// What is done, as a few words.
    fn what(&self, outcome: &Outcome) -> String {
        let before = outcome.prepare_before.map_or(String::new(), |before| {
            let before = Duration::from_secs(u64::from(before));
            format!(" at most {} before it", humantime::format_duration(before))
        });
        let gate = if self.has_gate {
            ", both once the gate says yes"
        } else {
            ""
        };
        let what = match outcome.action {
            Action::Approve if self.has_gate => format!("approve once the gate says yes{before}"),
            Action::Approve => format!("approve{before}"),
            Action::Prepare if self.is_held(outcome) => {
                "report only: there is no `prepare` command".to_owned()
            }
            Action::Prepare if outcome.approve_after.is_some() => {
                format!("prepare{before}, then approve{gate}")
            }
            Action::Prepare => format!("prepare; {}", unapproved(outcome.reason)),
            Action::Hold if outcome.is_by_rule() => "report only".to_owned(),
            Action::Hold => format!("report only: {}", outcome.reason),
            Action::Ignore => "ignore".to_owned(),
        };
        match outcome.rule {
            Some(rule) => format!("{what} (rule {rule})"),
            None => what,
        }
    }

    /// What differs for events that name several machines.
    fn several(&self) -> Vec<(String, String)> {
        let mut by_words: Vec<(&str, Vec<u16>)> = Vec::new();
        for case in self.cases(&[MINE]) {
            let alone = self.decide(&case);
            let decide = |resources| self.decide(&Case { resources, ..case });
            let (first, later) = (decide(&[MINE, OTHER]), decide(&[OTHER, MINE]));
            let Some(rule) = alone.rule.filter(|_| self.approves(&alone)) else {
                continue;
            };
            let words = match (alone.action, first.approve_after, later.approve_after) {
                _ if self.has_gate => {
                    "approved once the gate says yes, which decides for all of them"
                }
                (Action::Prepare, None, None) => "prepared for, not approved: no gate, no leader",
                (Action::Prepare, Some(_), None) => {
                    "prepared for on each machine, approved by the first in Resources alone, once that one is ready"
                }
                (_, Some(_), None) => "approved by the first machine in Resources alone",
                (_, Some(_), Some(0)) => "approved by each machine as soon as it is ready",
                _ => {
                    "approved by the first machine in Resources, and by each later one if those before it have not"
                }
            };
            match by_words.iter_mut().find(|(known, _)| *known == words) {
                Some((_, rules)) if rules.contains(&rule) => {}
                Some((_, rules)) => rules.push(rule),
                None => by_words.push((words, vec![rule])),
            }
        }
        if by_words.is_empty() {
            return vec![("none is approved".to_owned(), String::new())];
        }
        let named = by_words.into_iter();
        named
            .map(|(words, rules)| (rules_text(rules), words.to_owned()))
            .collect()
    }

    /// What is never approved, and why.
    fn never(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for kind in EventKind::ALL {
            let cases = self.cases(&[MINE]).filter(|case| case.kind == kind);
            let outcomes: Vec<_> = cases.map(|case| self.decide(&case)).collect();
            if outcomes.iter().any(|outcome| self.approves(outcome)) {
                continue;
            }
            let mut reasons: Vec<String> = Vec::new();
            for outcome in &outcomes {
                let reason = self.why(outcome);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            group(&mut all, word(kind), reasons.join("; "));
        }
        if let [(reason, kinds)] = &all[..]
            && kinds.len() == EventKind::ALL.len()
        {
            return vec![("every event".to_owned(), reason.clone())];
        }
        let mut lines: Vec<_> = all
            .into_iter()
            .map(|(reason, kinds)| (kinds.join(", "), reason))
            .collect();
        if let Some((_, why)) = self
            .several()
            .iter()
            .find(|(_, words)| words.contains("not approved"))
        {
            lines.push(("events of several machines".to_owned(), why.clone()));
        }
        let others: Vec<_> = self
            .cases(&[OTHER])
            .map(|case| self.decide(&case))
            .collect();
        let is_mine = |outcome: &&Outcome| !self.approves(outcome);
        if let Some(held) = others.iter().find(is_mine) {
            let is_part = others.iter().any(|outcome| self.approves(outcome));
            let (name, outcome) = if is_part {
                let terminate = Case {
                    kind: EventKind::Terminate,
                    resources: &[OTHER],
                    ..Case::MINE
                };
                ("Terminate of other machines", self.decide(&terminate))
            } else {
                ("events of other machines", *held)
            };
            lines.push((name.to_owned(), self.why(&outcome)));
        }
        let started = self.decide(&Case {
            status: "Started",
            ..Case::MINE
        });
        lines.push(("events that have started".to_owned(), self.why(&started)));
        lines.push((
            "events that cannot be read".to_owned(),
            "prepared for by what can be read".to_owned(),
        ));
        lines
    }

    /// Why an event is not approved.
    fn why(&self, outcome: &Outcome) -> String {
        match (outcome.rule, outcome.action) {
            _ if self.is_held(outcome) => "there is no `prepare` command".to_owned(),
            (Some(rule), Action::Hold) if outcome.is_by_rule() => format!("held by rule {rule}"),
            (Some(rule), Action::Ignore) => format!("ignored by rule {rule}"),
            (Some(_), Action::Prepare) => format!("prepared for, {}", unapproved(outcome.reason)),
            _ => outcome.reason.to_string(),
        }
    }
}

impl Case {
    /// An event of this machine alone.
    const MINE: Self = Self {
        kind: EventKind::Freeze,
        source: SourceKind::Platform,
        duration: None,
        notice: None,
        resources: &[MINE],
        status: "Scheduled",
    };
}

impl Outcome {
    const HELD: Self = Self {
        action: Action::Hold,
        rule: None,
        reason: Reason::NoRule,
        approve_after: None,
        prepare_before: None,
    };

    /// Whether the action is that of the rule, and not that of core in its place.
    fn is_by_rule(&self) -> bool {
        let is_of_rule = matches!(
            self.reason,
            Reason::UserInitiated | Reason::ShortInterruption | Reason::Rule
        );
        self.rule.is_some() && is_of_rule
    }
}

/// Why an event that is prepared for is not approved.
fn unapproved(reason: Reason) -> String {
    match reason {
        Reason::SeveralMachines => "not approved: no gate, no leader".to_owned(),
        Reason::StartUnknown => "not approved: its start is unknown".to_owned(),
        Reason::AdviceUnapproved => "not approved: advice never is".to_owned(),
        reason => format!("not approved: {reason}"),
    }
}

/// The type as a row names it.
const fn word(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Other => "any other type",
        kind => kind.word(),
    }
}

fn group(all: &mut Vec<(String, Vec<String>)>, name: &str, reason: String) {
    match all.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, names)) => names.push(name.to_owned()),
        None => all.push((reason, vec![name.to_owned()])),
    }
}

fn rules_text(mut rules: Vec<u16>) -> String {
    rules.sort_unstable();
    let numbers: Vec<_> = rules.iter().map(u16::to_string).collect();
    let word = if numbers.len() == 1 { "rule" } else { "rules" };
    format!("{word} {}", numbers.join(", "))
}

fn lines(lines: Vec<(String, String)>) -> Table {
    let mut table = Table::default();
    for (name, words) in lines {
        let words = Some((words, DIM)).filter(|(words, _)| !words.is_empty());
        table.row([(format!("  {name}"), PLAIN)].into_iter().chain(words));
    }
    table
}

#[cfg(test)]
mod tests {
    use scheduled_events::policy_file::parse;

    use super::*;

    fn summary(policy: &Policy, has_gate: bool) -> String {
        PolicyWords::new(policy, has_gate, None).summary()
    }

    #[test]
    fn policies_are_in_a_line() {
        assert_eq!(
            summary(&Policy::observe(), false),
            "never approves, and prepares for nothing"
        );
        assert_eq!(
            summary(&Policy::sample(), false),
            "approves any type with conditions"
        );
        let drain =
            parse("[[rule]]\nevent = [\"Reboot\", \"Redeploy\"]\naction = \"prepare\"\n").unwrap();
        assert_eq!(
            summary(&drain, true),
            "prepares for Reboot, Redeploy, and approves then"
        );
        assert!(summary(&drain, false).ends_with("no gate, no leader"));
        let every = parse("[[rule]]\naction = \"prepare\"\n").unwrap();
        assert!(summary(&every, true).starts_with("prepares for any type, and"));
    }

    #[test]
    fn a_rule_that_is_never_reached_does_nothing() {
        let held = "[[rule]]\naction = \"hold\"\n[[rule]]\naction = \"approve\"\n";
        assert_eq!(
            summary(&parse(held).unwrap(), false),
            "never approves, and prepares for nothing"
        );
    }
}
