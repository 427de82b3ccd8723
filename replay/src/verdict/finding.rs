//! A client's violations of the rules.

use std::fmt;
use std::time::Duration;

use super::rules::{Level, Rule};

/// The most findings that are kept for each rule. Others are only counted.
pub const FINDINGS_MAX: usize = 20;

/// A client's violation of a rule. `Display` writes it as a line of a log.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::Finding;
/// use scheduled_events_replay::verdict::Rule;
///
/// let (rule, message) = (Rule::PollGap, "found no poll for 20 s".to_owned());
/// let finding = Finding { rule, at: Duration::from_secs(40), event_id: None, message, times: 3 };
/// assert_eq!(finding.text(), "found no poll for 20 s, 3 times");
/// assert!(finding.to_string().contains(&finding.text()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The time since the server started; of the first, if there were several.
    pub at: Duration,
    /// The event that it is about.
    pub event_id: Option<String>,
    /// A description. It may contain text that the client sent.
    pub message: String,
    /// How often: findings about one event whose messages differ in numbers only are one finding.
    pub times: u64,
}

impl Finding {
    /// The description, with the number of times.
    pub fn text(&self) -> String {
        match self.times {
            0 | 1 => self.message.clone(),
            times => format!("{}, {times} times", self.message),
        }
    }

    fn is_of_kind(&self, rule: Rule, event_id: Option<&str>, message: &str) -> bool {
        let without_numbers = |text: &str| {
            let mut text = text.to_owned();
            text.retain(|char| !char.is_ascii_digit());
            text
        };
        self.rule == rule
            && self.event_id.as_deref() == event_id
            && without_numbers(&self.message) == without_numbers(message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, .. } = self;
        let message = self.text();
        write!(
            f,
            "{rule}: {message} (docs/inside/wire.md, section {}, {})",
            rule.section(),
            rule.item()
        )
    }
}

/// The findings of a verdict, and how often each rule was checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    pub(crate) taken: usize,
    checked: [bool; Rule::ALL.len()],
    counts: [u64; Rule::ALL.len()],
}

impl Findings {
    /// Notes that the client had the opportunity to break a rule.
    pub(crate) fn check(&mut self, rule: Rule) {
        self.checked[rule as usize] = true;
    }

    /// Takes back that a rule was kept: the run ended before that was certain.
    pub(crate) fn uncheck(&mut self, rule: Rule) {
        self.checked[rule as usize] = false;
    }

    pub(crate) fn add(
        &mut self,
        rule: Rule,
        at: Duration,
        event_id: Option<&str>,
        message: String,
    ) {
        self.check(rule);
        self.counts[rule as usize] += 1;
        let mut known = self.list.iter_mut();
        if let Some(same) = known.find(|known| known.is_of_kind(rule, event_id, &message)) {
            same.times += 1;
            return;
        }
        let kept = self.list.iter().filter(|known| known.rule == rule);
        if kept.count() < FINDINGS_MAX {
            self.list.push(Finding {
                rule,
                at,
                event_id: event_id.map(str::to_owned),
                message,
                times: 1,
            });
        }
    }

    /// Notes that the client had the opportunity to break a rule, and the finding if it did.
    pub(crate) fn expect(
        &mut self,
        kept: bool,
        rule: Rule,
        at: Duration,
        message: impl FnOnce() -> String,
    ) {
        self.check(rule);
        if !kept {
            self.add(rule, at, None, message());
        }
    }

    /// How often rules were broken that a client must keep.
    pub(crate) fn broken(&self) -> u64 {
        let must = Rule::ALL.iter().filter(|rule| rule.level() == Level::Must);
        must.map(|rule| self.count(*rule)).sum()
    }

    pub(crate) fn is_checked(&self, rule: Rule) -> bool {
        self.checked[rule as usize]
    }

    pub(crate) fn count(&self, rule: Rule) -> u64 {
        self.counts[rule as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_one_kind_are_one_with_a_number() {
        let mut findings = Findings::default();
        let mut add = |second: u64, id, message: &str| {
            let at = Duration::from_secs(second);
            findings.add(Rule::PollGap, at, id, message.to_owned());
        };
        add(1, None, "found no poll for 16.0 s");
        add(2, None, "found no poll for 120.5 s");
        add(3, None, "found no poll for 16.0 s after status 503");
        add(4, Some("A"), "found no poll for 16.0 s");
        for _ in 0..100 {
            add(5, None, "found no poll for 17.0 s");
        }
        let kinds: Vec<_> = findings
            .list
            .iter()
            .map(|found| (found.at.as_secs(), found.times))
            .collect();
        assert_eq!(kinds, [(1, 102), (3, 1), (4, 1)]);
        assert_eq!(findings.count(Rule::PollGap), 104);
        assert_eq!(
            findings.list[0].text(),
            "found no poll for 16.0 s, 102 times"
        );
    }
}
