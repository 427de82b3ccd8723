//! A client's violations of the rules.

use std::fmt;
use std::time::Duration;

use super::rules::Rule;

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
/// let finding = Finding { rule, at: Duration::from_secs(40), event_id: None, message };
/// assert!(finding.to_string().contains("found no poll for 20 s"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The time since the server started.
    pub at: Duration,
    /// The event that it is about.
    pub event_id: Option<String>,
    /// A description. It may contain text that the client sent.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, message, .. } = self;
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
    /// Notes that a rule applies.
    pub(crate) fn check(&mut self, rule: Rule) {
        self.checked[rule as usize] = true;
    }

    pub(crate) fn add(
        &mut self,
        rule: Rule,
        at: Duration,
        event_id: Option<&str>,
        message: String,
    ) {
        self.check(rule);
        let count = &mut self.counts[rule as usize];
        *count += 1;
        if *count <= FINDINGS_MAX as u64 {
            self.list.push(Finding {
                rule,
                at,
                event_id: event_id.map(str::to_owned),
                message,
            });
        }
    }

    /// Notes that a rule applies, and the finding if it is broken.
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

    pub(crate) fn is_checked(&self, rule: Rule) -> bool {
        self.checked[rule as usize]
    }

    pub(crate) fn count(&self, rule: Rule) -> u64 {
        self.counts[rule as usize]
    }
}
