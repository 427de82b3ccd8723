//! The verdict on a client: which rules of the wire contract it keeps, from its requests alone.
//!
//! A [`Server`](super::Server) keeps one verdict for each machine, and [`Server::verdict`](super::Server::verdict) returns it at
//! any time. A client is checked against what it was shown: a document that a fault damaged or delayed counts as not shown, and
//! an approval whose answer was damaged as not accepted, so that no fault of the service is blamed on the client.
//!
//! All times are real times since the server started; the speed of the replay does not change them.
//!
//! - `rules`: the table of rules, each with its place in `docs/wire.md`.
//! - `exchange`: what a verdict is made from, a request and its answer, and the checks of one request.
//! - `polls`: the checks of the polls' times. `approvals`: the machine's events and their approvals.
//! - [`report`]: verdicts as `JUnit` XML, NDJSON and HTML.
//!
//! ```
//! use scheduled_events::replay::verdict::{Outcome, Rule};
//! use scheduled_events::replay::{Scenario, Server, ServerConfig};
//!
//! let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
//! let verdict = server.verdict(0);
//! assert!(verdict.is_clean());
//! assert_eq!(verdict.outcome(Rule::PollGap), Outcome::NotChecked);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod approvals;
mod exchange;
mod polls;
pub mod report;
mod rules;

use std::fmt;
use std::time::Duration;

use super::document::Transition;
pub use approvals::EventTimes;
use approvals::OwnEvents;
pub(super) use exchange::Exchange;
use polls::Polls;
pub use polls::{POLL_GAP_MAX, PollTimes};
pub use rules::{Level, Rule};

/// The most findings that are kept for each rule. Others are counted.
pub const FINDINGS_MAX: usize = 20;

/// Which rules a client keeps.
///
/// ```
/// use std::io::{Read, Write};
///
/// use scheduled_events::replay::verdict::{Outcome, Rule};
/// use scheduled_events::replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// // A client that forgets the header `Metadata: true`.
/// let mut stream = std::net::TcpStream::connect(server.addr())?;
/// stream.write_all(
///     b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n\
///       Host: 169.254.169.254\r\nConnection: close\r\n\r\n",
/// )?;
/// stream.read_to_string(&mut String::new())?;
///
/// let verdict = server.verdict(0);
/// assert_eq!(verdict.machine(), "WestNO_0");
/// assert!(!verdict.is_clean());
/// assert!(verdict.findings().iter().any(|finding| finding.rule == Rule::Header));
/// assert_eq!((verdict.outcome(Rule::Header), verdict.count(Rule::Header)), (Outcome::Failed, 1));
/// assert_eq!(verdict.outcome(Rule::PollGap), Outcome::NotChecked);
/// assert_eq!((verdict.polls().count, verdict.events().len()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Verdict {
    machine: String,
    findings: Findings,
    polls: Polls,
    events: OwnEvents,
}

/// Something that a client did against a rule. `Display` writes it as a line of a log.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::replay::Finding;
/// use scheduled_events::replay::verdict::Rule;
///
/// let (rule, message) = (Rule::PollGap, "found no poll for 20 s".to_owned());
/// let finding = Finding { rule, at: Duration::from_secs(40), event_id: None, message };
/// assert!(finding.to_string().contains("found no poll for 20 s"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// When, since the server started.
    pub at: Duration,
    /// The event that it is about.
    pub event_id: Option<String>,
    /// What was found. It may contain text that the client sent.
    pub message: String,
}

/// Whether a client keeps a rule.
///
/// ```
/// use scheduled_events::replay::verdict::{Outcome, Rule};
/// use scheduled_events::replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let verdict = server.verdict(0);
/// assert!(Rule::ALL.iter().all(|rule| verdict.outcome(*rule) == Outcome::NotChecked)); // there was no client
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did whenever the rule applied.
    Passed,
    /// It did not, and the rule's level is [`Level::Must`].
    Failed,
    /// It did not, and the rule's level is [`Level::Should`].
    Warned,
    /// The rule never applied: for example, the client approved nothing.
    NotChecked,
}

impl Verdict {
    pub(super) fn new(machine: String) -> Self {
        Self { machine, findings: Findings::default(), polls: Polls::default(), events: OwnEvents::default() }
    }

    /// The name of the client's machine.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Whether the client broke no rule of level [`Level::Must`].
    pub fn is_clean(&self) -> bool {
        Rule::ALL.iter().all(|rule| self.outcome(*rule) != Outcome::Failed)
    }

    /// Whether the client keeps a rule.
    pub fn outcome(&self, rule: Rule) -> Outcome {
        match (self.findings.count(rule), rule.level()) {
            (0, _) if self.findings.is_checked(rule) => Outcome::Passed,
            (0, _) => Outcome::NotChecked,
            (_, Level::Must) => Outcome::Failed,
            (_, Level::Should) => Outcome::Warned,
        }
    }

    /// The findings, oldest first: of each rule the first [`FINDINGS_MAX`].
    pub fn findings(&self) -> &[Finding] {
        &self.findings.list
    }

    /// The number of findings about a rule, those included that are not kept.
    pub fn count(&self, rule: Rule) -> u64 {
        self.findings.count(rule)
    }

    /// The number of polls, and the times between them.
    pub fn polls(&self) -> PollTimes {
        self.polls.times()
    }

    /// When each event of the machine was announced, seen, approved and started, in the order in which they appeared.
    pub fn events(&self) -> &[EventTimes] {
        self.events.times()
    }

    /// Applies a request and its answer.
    pub(super) fn exchange(&mut self, exchange: &Exchange<'_>) {
        exchange.check(&mut self.findings);
        self.polls.exchange(exchange, &mut self.findings);
        self.events.exchange(exchange, &mut self.findings);
    }

    /// Applies what happened in the scenario, which started at a time.
    pub(super) fn transition(&mut self, transition: &Transition, start: Duration) {
        if let Transition::Event { at, kind, event, .. } = transition
            && names(&event.facts.resources, &self.machine)
        {
            let not_before = event.not_before.map(|offset| start + offset);
            self.polls.note_silence(start + *at, self.events.open_since(), false, false);
            self.events.transition(*kind, event, not_before, start + *at, &mut self.findings);
        }
    }

    /// Notes that the client has ended.
    pub(super) fn client_ended(&mut self, now: Duration, is_over: bool) {
        self.polls.note_silence(now, self.events.open_since(), is_over, true);
    }

    /// Adds what silence shows until now. `is_over`: the scenario has ended.
    pub(super) fn conclude(&mut self, now: Duration, is_over: bool) {
        self.polls.note_silence(now, self.events.open_since(), is_over, false);
        self.polls.conclude(&mut self.findings);
        self.events.conclude(now, &mut self.findings);
    }

    /// The findings that were made since the last call.
    pub(super) fn take_new(&mut self) -> Vec<Finding> {
        let new = self.findings.list[self.findings.taken..].to_vec();
        self.findings.taken = self.findings.list.len();
        new
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, message, .. } = self;
        write!(f, "{rule}: {message} (docs/wire.md, section {}, {})", rule.section(), rule.item())
    }
}

/// Whether the names have this machine's.
pub(super) fn names(resources: &[String], machine: &str) -> bool {
    resources.iter().any(|name| name.eq_ignore_ascii_case(machine))
}

/// The findings of a verdict, and how often each rule was checked.
#[derive(Clone, Debug, Default)]
struct Findings {
    list: Vec<Finding>,
    taken: usize,
    checked: [bool; Rule::ALL.len()],
    counts: [u64; Rule::ALL.len()],
}

impl Findings {
    /// Notes that a rule applies.
    fn check(&mut self, rule: Rule) {
        self.checked[rule as usize] = true;
    }

    fn add(&mut self, rule: Rule, at: Duration, event_id: Option<&str>, message: String) {
        self.check(rule);
        let count = &mut self.counts[rule as usize];
        *count += 1;
        if *count <= FINDINGS_MAX as u64 {
            self.list.push(Finding { rule, at, event_id: event_id.map(str::to_owned), message });
        }
    }

    /// Notes that a rule applies, and what was found if it is broken.
    fn expect(&mut self, kept: bool, rule: Rule, at: Duration, message: impl FnOnce() -> String) {
        self.check(rule);
        if !kept {
            self.add(rule, at, None, message());
        }
    }

    fn is_checked(&self, rule: Rule) -> bool {
        self.checked[rule as usize]
    }

    fn count(&self, rule: Rule) -> u64 {
        self.counts[rule as usize]
    }
}
