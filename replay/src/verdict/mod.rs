//! The verdict on a client: which rules of the wire contract it keeps, from its requests alone.
//!
//! A [`Server`](crate::Server) keeps one verdict for each machine, and
//! [`Server::verdict`](crate::Server::verdict) returns it at any time. A client is checked against
//! what it received: a document that a fault damaged or delayed counts as not received, and an
//! approval whose answer was damaged as not accepted, so that the client is not blamed for a fault
//! of the service.
//!
//! All times are real times since the server started; the speed of the replay does not change them.
//!
//! ```
//! use scheduled_events_replay::verdict::{Outcome, Rule};
//! use scheduled_events_replay::{Scenario, Server, ServerConfig};
//!
//! let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
//! let verdict = server.finish();
//! assert!(!verdict.is_clean()); // there was no client
//! assert_eq!(verdict.outcome(Rule::PollGap), Outcome::NotChecked);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// - `rules`: the table of rules, each with its place in `docs/inside/wire.md`.
// - `finding`: a client's violation of a rule, and how often each rule was checked.
// - `exchange`: the input of a verdict, a request and its answer, and the checks of one request.
// - `polls`: the checks of the polls' times. `approvals`: the machine's events and their
//   approvals. `shown`: what the client was shown of events that a fault changed. `fallback`: the check of a client that tries a version.
// - `exit`: how the process of a client ended.
// - `report`: verdicts as `JUnit` XML, NDJSON and HTML.

mod approvals;
mod exchange;
mod exit;
mod fallback;
mod finding;
mod polls;
pub mod report;
mod rules;
mod shown;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::timeline::document::{Transition, TransitionKind};
pub use approvals::EventTimes;
use approvals::OwnEvents;
pub(crate) use exchange::Exchange;
pub use exit::ClientExit;
use fallback::Fallback;
pub(crate) use finding::Findings;
pub use finding::{FINDINGS_MAX, Finding};
use polls::Polls;
pub use polls::{POLL_GAP_MAX, PollTimes};
pub use rules::{Level, Rule};

/// Which rules a client keeps.
///
/// ```
/// use std::io::{Read, Write};
///
/// use scheduled_events_replay::verdict::{Outcome, Rule};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
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
/// assert_eq!(verdict.exit(), None); // `Server::client_exited` was not called
/// assert!(verdict.breaks_a_rule() && !verdict.was_tested()); // it was shown no event
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Verdict {
    machine: String,
    findings: Findings,
    polls: Polls,
    fallback: Fallback,
    events: OwnEvents,
    exit: Option<ClientExit>,
    /// Whether a client may have used the control plane: one of it alone asks no machine's service.
    pub(crate) has_outside: bool,
    /// The time and the speed at which the findings were concluded.
    now: Duration,
    speed: f64,
}

/// Whether a client keeps a rule.
///
/// ```
/// use scheduled_events_replay::verdict::{Outcome, Rule};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let verdict = server.verdict(0);
/// assert!(Rule::ALL.iter().all(|rule| verdict.outcome(*rule) == Outcome::NotChecked)); // there was no client
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did whenever it had the opportunity not to.
    Passed,
    /// It did not, and the rule's level is [`Level::Must`].
    Failed,
    /// It did not, and the rule's level is [`Level::Should`].
    Warned,
    /// The client had no opportunity to break it; [`Verdict::reason`] says why.
    NotChecked,
}

impl Outcome {
    /// The word in reports, such as `not-checked`.
    ///
    /// ```
    /// use scheduled_events_replay::verdict::Outcome;
    ///
    /// assert_eq!(Outcome::Failed.word(), "broken");
    /// ```
    pub const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "broken",
            Self::Warned => "warned",
            Self::NotChecked => "not-checked",
        }
    }
}

/// Why nothing was tested. `Display` writes it as the end of a sentence about the client.
///
/// ```
/// use scheduled_events_replay::verdict::Untested;
///
/// assert_eq!(Untested::NoEvent.to_string(), "was shown no event, so nothing was tested");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untested {
    /// It sent no request for a document that the service accepted.
    NeverPolled,
    /// No document showed it an event.
    NoEvent,
    /// The scenario has an event of its machine, and no document showed it that.
    NoEventOfItsOwn,
}

impl fmt::Display for Untested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::NeverPolled => "never polled",
            Self::NoEvent => "was shown no event",
            Self::NoEventOfItsOwn => "was shown no event of its own",
        };
        write!(f, "{what}, so nothing was tested")
    }
}

impl Verdict {
    /// `is_named`: whether the scenario has an event of the machine.
    pub(crate) fn new(machine: String, is_named: bool) -> Self {
        Self {
            machine,
            findings: Findings::default(),
            polls: Polls::default(),
            fallback: Fallback::default(),
            events: OwnEvents::new(is_named),
            exit: None,
            has_outside: false,
            now: Duration::ZERO,
            speed: 1.0,
        }
    }

    /// The name of the client's machine.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Whether the client was [tested](Self::was_tested), broke no rule of level [`Level::Must`], and
    /// did not end with a failure. Rules may be [not checked](Outcome::NotChecked).
    pub fn is_clean(&self) -> bool {
        self.was_tested() && !self.has_failed()
    }

    /// Whether a document showed the client an event of its machine, or of any machine if the scenario
    /// has none of its own: without one, nothing is tested.
    pub fn was_tested(&self) -> bool {
        self.events.were_seen()
    }

    /// Why nothing was tested; `None` if the client was [tested](Self::was_tested).
    ///
    /// ```
    /// use scheduled_events_replay::verdict::Untested;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// assert_eq!(server.finish().untested(), Some(Untested::NeverPolled));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn untested(&self) -> Option<Untested> {
        if self.was_tested() {
            None
        } else if self.polls.times().count == 0 {
            Some(Untested::NeverPolled)
        } else if self.events.has_seen_any {
            Some(Untested::NoEventOfItsOwn)
        } else {
            Some(Untested::NoEvent)
        }
    }

    /// Whether the run has tested the client: [`Outcome::Failed`] if it has not, and
    /// [`Outcome::NotChecked`] if it never polled and may have used the control plane alone.
    ///
    /// ```
    /// use scheduled_events_replay::verdict::Outcome;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// assert_eq!(server.finish().tested(), Outcome::Failed); // there was no client
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tested(&self) -> Outcome {
        match self.untested() {
            None => Outcome::Passed,
            Some(Untested::NeverPolled) if self.has_outside => Outcome::NotChecked,
            Some(_) => Outcome::Failed,
        }
    }

    /// Whether the client broke a rule of level [`Level::Must`], or ended with a failure.
    pub(crate) fn has_failed(&self) -> bool {
        let exit = self.exit.map(ClientExit::outcome);
        exit == Some(Outcome::Failed) || self.breaks_a_rule()
    }

    /// Whether the client broke a rule of level [`Level::Must`].
    pub fn breaks_a_rule(&self) -> bool {
        self.rules_with(Outcome::Failed).next().is_some()
    }

    /// How the client's process ended, if that is known; see
    /// [`Server::client_exited`](crate::Server::client_exited).
    pub fn exit(&self) -> Option<ClientExit> {
        self.exit
    }

    /// Ends a test: panics with the verdict as text unless it is [clean](Self::is_clean).
    ///
    /// # Panics
    /// When the client broke a rule of level [`Level::Must`], ended with a failure, or was not
    /// [tested](Self::was_tested).
    ///
    /// ```should_panic
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let scenario = Scenario::builtin("preempt").expect("a built-in name");
    /// let server = Server::start(ServerConfig::new(scenario)).expect("a free port");
    /// // The client was started with another endpoint.
    /// server.finish().assert_clean();
    /// ```
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "{self}");
    }

    /// The rules with this outcome, in the order of [`Rule::ALL`].
    ///
    /// ```
    /// use scheduled_events_replay::verdict::{Outcome, Rule};
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// let verdict = server.verdict(0);
    /// assert_eq!(verdict.rules_with(Outcome::NotChecked).count(), Rule::ALL.len()); // there was no client
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rules_with(&self, outcome: Outcome) -> impl Iterator<Item = Rule> + '_ {
        let rules = Rule::ALL.iter().copied();
        rules.filter(move |rule| self.outcome(*rule) == outcome)
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

    /// Why a rule was not checked, as a sentence without its end; `None` if it was.
    ///
    /// ```
    /// use scheduled_events_replay::verdict::Rule;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// assert_eq!(server.finish().reason(Rule::PollGap).as_deref(), Some("it never polled"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reason(&self, rule: Rule) -> Option<String> {
        if self.outcome(rule) != Outcome::NotChecked {
            return None;
        }
        let (mut reason, needs_time) = self.reason_and_remedy(rule);
        if needs_time && self.speed > 1.0 {
            let _ = write!(reason, "; use a lower speed than {}", self.speed);
        }
        Some(reason)
    }

    /// Whether a lower speed may show more: some rules were not checked because of this one.
    pub(crate) fn is_too_fast(&self) -> bool {
        self.speed > 1.0
            && self
                .rules_with(Outcome::NotChecked)
                .any(|rule| self.reason_and_remedy(rule).1)
    }

    /// Why a rule was not checked, and whether a lower speed may help.
    fn reason_and_remedy(&self, rule: Rule) -> (String, bool) {
        let gap_max = self.polls.gap_max();
        let fixed = |reason: &str| (reason.to_owned(), false);
        match rule {
            Rule::Url | Rule::Route | Rule::UserAgent => {
                fixed("it sent no request that could be read")
            }
            Rule::Header if self.findings.is_checked(Rule::Version) => fixed(
                "it asked only in the version of the preview, which does not require the header",
            ),
            Rule::Header | Rule::Version => {
                fixed("it sent no request to a path that the service has")
            }
            Rule::RequestRate => {
                let span = polls::seconds(polls::RATE_SPAN);
                (format!("it sent requests for less than {span}"), true)
            }
            Rule::Redirect => fixed("no redirect led to where the server sees who follows"),
            Rule::Fallback if self.fallback.is_refused() => {
                fixed("its version was refused, and the run ended before its next poll")
            }
            Rule::Fallback => fixed("it asked for no version that only newer services have"),
            Rule::FirstRequest => fixed("the answer to its first poll began within two seconds"),
            _ if self.polls.times().count == 0 => fixed("it never polled"),
            Rule::PollGap => {
                let observed = polls::seconds(self.polls.observed());
                let needed = polls::seconds(gap_max);
                (
                    format!("it polled for {observed}; a gap is longer than {needed}"),
                    true,
                )
            }
            Rule::BackOff => fixed(
                "no poll followed three in a row from which a client backs off: without a readable answer, or with 401, 403, 404, 408, 410, 429 or 5xx",
            ),
            Rule::GaveUp if self.polls.has_failed() => (
                "its last poll failed, and the run ended before the next one".to_owned(),
                true,
            ),
            Rule::GaveUp if self.events.has_unrepeated() => (
                "its approval failed, and the event was not open and approvable for 15 s after that"
                    .to_owned(),
                true,
            ),
            Rule::GaveUp => fixed("none of its requests failed that it has to repeat"),
            Rule::StopsPolling if self.events.shown_since().is_some() => {
                let silence = polls::seconds(self.polls.silence(self.now));
                let needed = polls::seconds(gap_max);
                if self.findings.count(Rule::GaveUp) > 0 {
                    return fixed("its silence at the end is a finding of gave-up");
                }
                (
                    format!(
                        "the run ended {silence} after its last poll; it may poll again within {needed}"
                    ),
                    true,
                )
            }
            _ => self.events.reason(rule),
        }
    }

    /// The findings, oldest first: the first [`FINDINGS_MAX`] of each rule.
    pub fn findings(&self) -> &[Finding] {
        &self.findings.list
    }

    /// The number of findings about a rule, including those that are not kept.
    pub fn count(&self, rule: Rule) -> u64 {
        self.findings.count(rule)
    }

    /// The number of polls, and the times between them.
    pub fn polls(&self) -> PollTimes {
        self.polls.times()
    }

    /// When each event of the machine was announced, seen, approved and started, in the order in
    /// which they appeared.
    pub fn events(&self) -> &[EventTimes] {
        self.events.times()
    }

    /// Applies a request and its answer.
    pub(crate) fn exchange(&mut self, exchange: &Exchange<'_>) {
        exchange.check(&mut self.findings);
        self.polls.exchange(exchange, &mut self.findings);
        self.fallback.exchange(exchange, &mut self.findings);
        self.events
            .exchange(exchange, &self.machine, &mut self.findings);
    }

    /// Applies a transition of the scenario, which started at a time.
    pub(crate) fn transition(&mut self, transition: &Transition, start: Duration) {
        let Transition::Event {
            at, kind, event, ..
        } = transition
        else {
            return;
        };
        if matches!(kind, TransitionKind::Cancelled | TransitionKind::Gone) {
            self.events.ended(&event.facts.event_id);
        }
        if names(&event.facts.resources, &self.machine) {
            let not_before = event.not_before.map(|offset| start + offset);
            self.polls
                .note_silence(start + *at, self.events.shown_since(), None, false);
            let gap_max = self.polls.gap_max();
            let at = start + *at;
            self.events
                .transition(*kind, event, not_before, at, gap_max, &mut self.findings);
        } else {
            self.events.has_other = true;
        }
    }

    /// Notes how the client's process ended.
    pub(crate) fn client_exited(&mut self, exit: ClientExit) {
        self.exit = Some(exit);
    }

    /// Notes that the client has ended.
    pub(crate) fn client_ended(&mut self, now: Duration, over: Option<Duration>) {
        self.fallback.client_ended();
        self.polls
            .note_silence(now, self.events.shown_since(), over, true);
    }

    /// Whether the client waits for its first response.
    pub(crate) fn waits(&self) -> bool {
        self.polls.is_waiting()
    }

    /// Notes that a poll waits for its answer.
    pub(crate) fn poll_waits(&mut self, at: Duration) {
        self.polls.waits(at);
    }

    /// Adds the findings from the silence until now. `over`: when the scenario ended.
    pub(crate) fn conclude(&mut self, now: Duration, speed: f64, over: Option<Duration>) {
        (self.now, self.speed) = (now, speed);
        self.polls
            .note_silence(now, self.events.shown_since(), over, false);
        self.polls.conclude(&mut self.findings);
        self.fallback.conclude(now, &mut self.findings);
        let gap_max = self.polls.gap_max();
        self.events.conclude(now, gap_max, &mut self.findings);
    }

    /// The findings since the last call.
    pub(crate) fn take_new(&mut self) -> Vec<Finding> {
        let new = self.findings.list[self.findings.taken..].to_vec();
        self.findings.taken = self.findings.list.len();
        new
    }
}

/// Whether the names include this machine's.
pub(crate) fn names(resources: &[String], machine: &str) -> bool {
    resources
        .iter()
        .any(|name| name.eq_ignore_ascii_case(machine))
}
