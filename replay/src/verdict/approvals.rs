//! The machine's events, and how the client approves them.

use std::sync::Arc;
use std::time::Duration;

use super::exchange::Exchange;
use super::finding::Findings;
use super::polls::{POLL_GAP_MAX, is_to_be_repeated, seconds};
use super::rules::Rule;
use super::shown::{AlteredEvents, ShownStatus};
use crate::fault::plan::RequestKind;
use crate::http::route;
use crate::timeline::document::{DocumentEvent, EventFacts, TransitionKind};

/// The times of an event of the machine, all since the server started.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_core::{Document, StartRequests};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let scenario = Scenario::builtin("user-reboot").ok_or("a built-in name")?;
/// let server = Server::start(ServerConfig::new(scenario).speed(60.0))?;
/// let url = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
/// // A client that polls until there is an event, and approves it.
/// loop {
///     let response = ureq::get(&url).header("Metadata", "true").call()?.body_mut().read_to_vec()?;
///     let Some(event) = Document::parse(&response)?.events().next() else { continue };
///     let mut body = [0; 128];
///     let length = StartRequests::new(&[event.event_id()]).write(&mut body)?;
///     ureq::post(&url).header("Metadata", "true").send(&body[..length])?;
///     break;
/// }
/// let verdict = server.verdict(0);
/// let times = &verdict.events()[0];
/// assert_eq!(times.event_type, "Reboot");
/// assert!(times.approval_delay() > Some(Duration::ZERO));
/// assert!(times.share_of_notice().is_some_and(|share| share > 0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventTimes {
    /// `EventId`.
    pub event_id: String,
    /// `EventType`.
    pub event_type: String,
    /// When it appeared.
    pub announced: Duration,
    /// `NotBefore`, the last one; `None` without notice.
    pub not_before: Option<Duration>,
    /// When the client first received it.
    pub seen: Option<Duration>,
    /// When the client first approved it, with status 200.
    pub approved: Option<Duration>,
    /// When it was Started.
    pub started: Option<Duration>,
    /// When it left the document.
    pub ended: Option<Duration>,
}

impl EventTimes {
    /// From the announcement to the approval.
    pub fn approval_delay(&self) -> Option<Duration> {
        Some(self.approved?.saturating_sub(self.announced))
    }

    /// The share of the notice that had passed at the approval: 0 at the announcement, 1 at
    /// `NotBefore`.
    pub fn share_of_notice(&self) -> Option<f64> {
        let notice = self
            .not_before?
            .checked_sub(self.announced)
            .filter(|notice| !notice.is_zero())?;
        Some(self.approval_delay()?.as_secs_f64() / notice.as_secs_f64())
    }

    fn is_waiting(&self) -> bool {
        self.not_before.is_some() && self.started.is_none() && self.ended.is_none()
    }
}

/// The events of the machine, and the client's knowledge about them.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is about a fact of its own.
pub(crate) struct OwnEvents {
    times: Vec<EventTimes>,
    /// In the same order.
    known: Vec<ClientKnowledge>,
    /// Events that a fault changed, as the client was shown them.
    shown: AlteredEvents,
    /// Whether the client approved anything.
    approves: bool,
    /// Whether an event of another machine was announced.
    pub(super) has_other: bool,
    /// Whether the scenario has an event of the machine from its beginning on, other than advice.
    is_named: bool,
    /// Whether a document showed the client an event of the machine, and of any machine.
    has_seen_own: bool,
    pub(super) has_seen_any: bool,
}

#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is about a fact of its own.
struct ClientKnowledge {
    /// Whether the client polled while the event was Scheduled, and in a version that does not show
    /// it.
    polled: bool,
    hidden: bool,
    /// Whether the client's last document showed it, and whether any did.
    is_shown: bool,
    was_shown: bool,
    seen_scheduled: bool,
    /// Whether a document showed it so that nobody may approve it.
    was_unreadable: bool,
    /// Since when the client knows that it is Started.
    seen_started: Option<Duration>,
    /// When the client was first answered that it is approved.
    accepted: Option<Duration>,
    /// When a document first lacked it after its end.
    seen_gone: Option<Duration>,
    /// Whether any client approved it.
    is_approved: bool,
    /// Nothing has to follow it: it may be withdrawn, and needs no approval.
    is_advice: bool,
    /// For how long it was Scheduled, if that was too short to expect a poll, and there was none.
    unpolled: Option<Duration>,
    /// Whether a failed approval was not repeated before there was no time left.
    is_unrepeated: bool,
    /// Whether an approval of it was answered in time with a 200, and whether there was any.
    was_accepted: bool,
    is_tried: bool,
    /// When an approval failed that the client must repeat, and its answer.
    failed: Option<(Duration, String)>,
    /// Whether a document forbade the client to repeat it, and whether it did not although it had to.
    may_not_repeat: bool,
    gave_up: bool,
}

impl OwnEvents {
    pub(crate) fn new(is_named: bool) -> Self {
        Self {
            is_named,
            ..Self::default()
        }
    }

    /// Whether a document showed the client what it has to deal with: an event of its machine, or of
    /// any if there is none of it.
    pub(super) fn were_seen(&self) -> bool {
        let has_own = self.is_named || self.known.iter().any(|known| !known.is_advice);
        self.has_seen_own || !has_own && self.has_seen_any
    }

    pub(crate) fn times(&self) -> &[EventTimes] {
        &self.times
    }

    /// Since when an event of the machine is announced that the client's last document showed: it
    /// polls until that is over. After the approval of an event that removes the machine, no client is
    /// left to poll.
    pub(crate) fn shown_since(&self) -> Option<Duration> {
        let open = self.to_the_end().filter(|(_, known)| known.is_shown);
        open.map(|(times, _)| times.announced).min()
    }

    /// The events that a client has to see to their end.
    fn to_the_end(&self) -> impl Iterator<Item = (&EventTimes, &ClientKnowledge)> {
        let removes = |kind: &str| matches!(kind, "Preempt" | "Terminate");
        self.times
            .iter()
            .zip(&self.known)
            .filter(move |(times, known)| {
                // A client that was answered with a 200 cannot know of a fault.
                let is_approved = known.is_approved || times.approved.is_some();
                known.was_shown && !known.is_advice && !(is_approved && removes(&times.event_type))
            })
    }

    pub(crate) fn transition(
        &mut self,
        kind: TransitionKind,
        event: &DocumentEvent,
        not_before: Option<Duration>,
        at: Duration,
        gap_max: Duration,
        findings: &mut Findings,
    ) {
        if kind == TransitionKind::Appeared {
            self.times.push(EventTimes {
                event_id: event.facts.event_id.clone(),
                event_type: event.facts.event_type.clone(),
                announced: at,
                not_before,
                started: event.started.then_some(at),
                ..EventTimes::default()
            });
            return self.known.push(ClientKnowledge {
                is_advice: event.facts.is_advice(),
                ..ClientKnowledge::default()
            });
        }
        let Some(index) = self.position(&event.facts.event_id) else {
            return;
        };
        let (times, known) = (&mut self.times[index], &mut self.known[index]);
        if times.is_waiting()
            && !matches!(kind, TransitionKind::Approved | TransitionKind::Rescheduled)
        {
            check_waiting(times, known, at, gap_max, findings);
        }
        match kind {
            TransitionKind::Approved => known.is_approved = true,
            TransitionKind::Rescheduled => times.not_before = not_before,
            TransitionKind::Started => times.started = Some(at),
            TransitionKind::Cancelled | TransitionKind::Gone => times.ended = Some(at),
            TransitionKind::Appeared => {}
        }
    }

    /// Notes that an event of any machine has ended.
    pub(crate) fn ended(&mut self, event_id: &str) {
        self.shown.ended(event_id);
    }

    pub(crate) fn exchange(
        &mut self,
        exchange: &Exchange<'_>,
        machine: &str,
        findings: &mut Findings,
    ) {
        if exchange.is_poll() {
            let waiting = self
                .times
                .iter()
                .zip(&mut self.known)
                .filter(|(times, _)| times.is_waiting());
            waiting.for_each(|(_, known)| known.polled = true);
        }
        self.shown.exchange(exchange, machine, findings);
        for facts in exchange.hidden {
            if let Some(index) = self.position(&facts.event_id) {
                self.known[index].hidden = true;
            }
        }
        if exchange.is_intact && exchange.shows_other {
            findings.check(Rule::ApprovedOther);
        }
        if exchange.is_poll() && exchange.is_intact && exchange.status == Some(200) {
            self.has_seen_any |= exchange.shows_any;
            self.has_seen_own |= exchange.shown.iter().any(|(facts, _)| !facts.is_advice());
            for (times, known) in self.times.iter().zip(&mut self.known) {
                known.is_shown = false;
                // A version that has no such event says nothing about it.
                let is_of = |facts: &Arc<EventFacts>| facts.event_id == times.event_id;
                if !exchange.hidden.iter().any(is_of) {
                    known.seen_gone.get_or_insert(exchange.answered);
                }
            }
        }
        for (facts, is_started) in exchange.shown.iter().filter(|_| exchange.is_intact) {
            if let Some(index) = self.position(&facts.event_id) {
                let (times, known) = (&mut self.times[index], &mut self.known[index]);
                let shown = self.shown.in_answer(exchange, &facts.event_id);
                if exchange.is_altered && shown.is_none() {
                    // Without its EventId nobody can know it.
                    continue;
                }
                let is_known = shown.is_none_or(|event| event.is_own);
                let is_approvable =
                    shown.is_none_or(|event| event.unreadable.is_none()) && is_known;
                known.is_shown = is_known;
                known.was_shown |= is_known;
                known.seen_gone = None;
                if !is_known {
                    findings.check(Rule::ApprovedOther);
                }
                known.was_unreadable |= !is_approvable;
                known.may_not_repeat |= !is_approvable;
                times.seen.get_or_insert(exchange.answered);
                if shown.is_some_and(|event| event.status == ShownStatus::Other) {
                    findings.check(Rule::ApprovedStarted);
                }
                if shown.map_or(*is_started, |event| event.status == ShownStatus::Started) {
                    known.seen_started.get_or_insert(exchange.answered);
                    findings.check(Rule::ApprovedStarted);
                }
                let is_waiting =
                    shown.map_or(!is_started, |event| event.status == ShownStatus::Scheduled);
                known.seen_scheduled |= is_approvable && is_waiting;
                if known.accepted.is_some() && is_waiting {
                    findings.check(Rule::ApprovedAgain);
                }
                if shown.map_or(known.is_advice, |event| event.is_advice) {
                    findings.check(Rule::ApprovedAdvice);
                }
            }
        }
        if exchange.is_poll() && exchange.is_intact && exchange.status == Some(200) {
            // What a document lacked is over for the client, and another event when it is shown again.
            let lacked = self
                .known
                .iter_mut()
                .filter(|known| known.seen_gone.is_some());
            lacked.for_each(|known| {
                known.accepted = None;
                known.may_not_repeat = true;
            });
        }
        self.approves |= exchange.is_approval();
        if exchange.kind == Some(RequestKind::EventsPost) {
            self.post(exchange, findings);
        }
    }

    fn post(&mut self, exchange: &Exchange<'_>, findings: &mut Findings) {
        let at = exchange.arrived;
        if let Err(refusal) = route::start_requests(&exchange.request.body) {
            let message = String::from_utf8_lossy(&refusal.body).into_owned();
            return findings.add(
                Rule::StartRequests,
                at,
                None,
                format!("the body is refused with 400: {message}"),
            );
        }
        for (id, facts) in exchange.approves {
            self.judge(id, facts.as_deref(), exchange, findings);
        }
    }

    /// Judges an approval by what the client was shown before it.
    fn judge(
        &mut self,
        id: &str,
        facts: Option<&EventFacts>,
        exchange: &Exchange<'_>,
        findings: &mut Findings,
    ) {
        let at = exchange.arrived;
        let index = self.position(id);
        let (is_own, is_advice, noun, resources) = match (self.shown.before(at, id), facts) {
            (Some(shown), _) => {
                if let Some(reason) = &shown.unreadable {
                    let message = format!(
                        "found the {} in StartRequests, shown with {reason}",
                        shown.noun
                    );
                    findings.add(Rule::ApprovedUnreadable, at, Some(id), message);
                } else if shown.status == ShownStatus::Other {
                    let message = format!(
                        "found the {} in StartRequests, shown as neither Scheduled nor Started",
                        shown.noun
                    );
                    findings.add(Rule::ApprovedStarted, at, Some(id), message);
                }
                let (noun, resources) = (shown.noun.as_str(), &shown.resources[..]);
                (shown.is_own, shown.is_advice, noun, resources)
            }
            (None, Some(facts)) => {
                let (noun, resources) = (facts.event_type.as_str(), &facts.resources[..]);
                (index.is_some(), facts.is_advice(), noun, resources)
            }
            (None, None) => {
                let message = format!("found {id}, which no document has");
                return findings.add(Rule::StartRequests, at, Some(id), message);
            }
        };
        findings.check(Rule::StartRequests);
        if is_advice {
            let message =
                format!("found the {noun} in StartRequests, which an approval does not change");
            findings.add(Rule::ApprovedAdvice, at, Some(id), message);
        }
        if !is_own {
            let resources = if resources.is_empty() {
                "no machine".to_owned()
            } else {
                resources.join(", ")
            };
            let message = format!("found the {noun} of {resources} in StartRequests");
            findings.add(Rule::ApprovedOther, at, Some(id), message);
        }
        if let Some(index) = index {
            self.approve(index, exchange, findings);
        }
    }

    fn approve(&mut self, index: usize, exchange: &Exchange<'_>, findings: &mut Findings) {
        let (times, known) = (&mut self.times[index], &mut self.known[index]);
        let (at, id) = (exchange.arrived, times.event_id.as_str());
        let kind = times.event_type.as_str();
        // A response may have been decided while this request was in progress.
        let is_before = |since: Option<Duration>| since.is_some_and(|since| since < at);
        let found = if is_before(known.seen_gone) {
            let message = format!("found the {kind} in StartRequests, which has left the document");
            Some((Rule::StartRequests, message))
        } else if is_before(known.seen_started) {
            Some((Rule::ApprovedStarted, format!("found the Started {kind}")))
        } else if is_before(known.accepted) {
            let since = times
                .approved
                .map_or(Duration::ZERO, |since| at.saturating_sub(since));
            let since = seconds(since);
            let message = format!("found the {kind} again, {since} after its approval");
            Some((Rule::ApprovedAgain, message))
        } else {
            None
        };
        if let Some((rule, message)) = found {
            findings.add(rule, at, Some(id), message);
        }
        // It may have been in a document that was delayed.
        times.seen.get_or_insert(at);
        if known.failed.is_some() {
            findings.check(Rule::GaveUp);
        }
        known.is_tried = true;
        known.failed = is_to_be_repeated(exchange).then(|| (exchange.answered, exchange.answer()));
        known.may_not_repeat = false;
        if exchange.status == Some(200) {
            times.approved.get_or_insert(at);
            if exchange.is_intact {
                known.accepted.get_or_insert(exchange.answered);
                known.was_accepted = true;
            }
        }
    }

    /// Adds the findings from the silence until now.
    pub(crate) fn conclude(&mut self, now: Duration, gap_max: Duration, findings: &mut Findings) {
        for (times, known) in self.times.iter().zip(&mut self.known) {
            if times.is_waiting() {
                check_waiting(times, known, now, gap_max, findings);
            }
            if known.is_unrepeated {
                findings.uncheck(Rule::GaveUp);
            }
            if known.unpolled.is_some() {
                findings.uncheck(Rule::MissedEvent);
            }
            let is_expected = known.seen_scheduled && !known.was_unreadable;
            if !self.approves || !is_expected || times.started.is_none() {
                continue;
            }
            findings.check(Rule::NotApproved);
            let was_tried = known.is_tried && !known.gave_up;
            if !known.is_approved && times.approved.is_none() && !was_tried {
                let (id, kind) = (times.event_id.as_str(), &times.event_type);
                let message =
                    format!("found no approval of the {kind}, which it was shown as Scheduled");
                findings.add(
                    Rule::NotApproved,
                    times.started.unwrap_or(now),
                    Some(id),
                    message,
                );
            }
        }
        if self.has_unseen() {
            findings.uncheck(Rule::NotApproved);
        }
        let mut to_the_end = self.to_the_end().peekable();
        if to_the_end.peek().is_some() && to_the_end.all(|(_, known)| !known.is_shown) {
            findings.check(Rule::StopsPolling);
        }
    }

    /// Whether an event has started after a notice that the client was not shown.
    fn has_unseen(&self) -> bool {
        let mut events = self.times.iter().zip(&self.known);
        events.any(|(times, known)| {
            let had_notice = times.not_before.is_some() && times.started > Some(times.announced);
            had_notice && !known.seen_scheduled && !known.was_unreadable && !known.is_advice
        })
    }

    /// Whether a failed approval was not repeated before there was no time left.
    pub(super) fn has_unrepeated(&self) -> bool {
        self.known.iter().any(|known| known.is_unrepeated)
    }

    /// Why a rule about events was not checked, and whether a lower speed may help.
    pub(super) fn reason(&self, rule: Rule) -> (String, bool) {
        let has_any = |is: fn(&ClientKnowledge) -> bool| self.known.iter().any(is);
        let own = !self.times.is_empty();
        match rule {
            Rule::MissedEvent => {
                let unpolled = self.known.iter().filter_map(|known| known.unpolled);
                unpolled.max().map_or_else(
                    || {
                        (
                            "no event of its machine was announced with a notice".into(),
                            false,
                        )
                    },
                    |waited| {
                        let waited = seconds(waited);
                        let when = "no poll while an event of its machine was Scheduled, for";
                        (format!("{when} {waited}"), true)
                    },
                )
            }
            Rule::StopsPolling if has_any(|known| known.was_shown && !known.is_advice) => (
                "the removal of its machine leaves no client that could poll".into(),
                false,
            ),
            Rule::StopsPolling => (
                "no document showed it an event of its machine other than advice".into(),
                own,
            ),
            Rule::StartRequests => ("it approved nothing".into(), own),
            Rule::ApprovedOther => (
                "no document showed it a Scheduled event of another machine".into(),
                self.has_other,
            ),
            Rule::ApprovedUnreadable => (
                "no document showed it an event that cannot be read whole".into(),
                false,
            ),
            Rule::ApprovedStarted => {
                let lasted = self
                    .times
                    .iter()
                    .filter_map(|times| times.ended?.checked_sub(times.started?));
                let lasted = lasted.max().map_or_else(String::new, |time| {
                    format!(", which one was for {}", seconds(time))
                });
                (
                    format!("no document showed it an event of its machine as Started{lasted}"),
                    own,
                )
            }
            Rule::ApprovedAgain if has_any(|known| known.was_accepted) => (
                "no document showed it an event as Scheduled after its approval".into(),
                true,
            ),
            Rule::ApprovedAgain => ("no approval of it was soon answered with a 200".into(), own),
            Rule::ApprovedAdvice => ("no document showed it advice".into(), false),
            _ if self.approves && self.has_unseen() => (
                "an event of its machine was not shown to it as Scheduled".into(),
                true,
            ),
            _ if self.approves => (
                "no event has started of which each document showed it that it may be approved"
                    .into(),
                true,
            ),
            _ => ("it approved nothing".into(), own),
        }
    }

    fn position(&self, event_id: &str) -> Option<usize> {
        self.times
            .iter()
            .position(|times| times.event_id.eq_ignore_ascii_case(event_id))
    }
}

/// Checks how the client treated an event while it was waiting, until `at`. `gap_max`: the longest time
/// without a poll that is no finding.
fn check_waiting(
    times: &EventTimes,
    known: &mut ClientKnowledge,
    at: Duration,
    gap_max: Duration,
    findings: &mut Findings,
) {
    let waited = at.saturating_sub(times.announced);
    let (id, kind) = (times.event_id.as_str(), &times.event_type);
    let message = if known.hidden && !known.seen_scheduled {
        Some(format!(
            "found only polls with versions that do not show the {kind}"
        ))
    } else if !known.polled && waited > gap_max {
        Some(format!(
            "found no poll in the {} for which the {kind} was Scheduled",
            seconds(waited)
        ))
    } else {
        None
    };
    if known.polled || waited > gap_max {
        findings.check(Rule::MissedEvent);
    } else {
        known.unpolled = Some(waited);
    }
    if let Some(message) = message {
        findings.add(Rule::MissedEvent, at, Some(id), message);
    }
    let Some((since, answer)) = known.failed.take().filter(|_| !known.is_approved) else {
        return;
    };
    let silence = at.saturating_sub(since);
    if silence <= POLL_GAP_MAX || known.may_not_repeat {
        known.is_unrepeated = true;
    } else {
        known.gave_up = true;
        let message = format!(
            "found no further approval of the {kind} for {} after {answer}",
            seconds(silence)
        );
        findings.add(Rule::GaveUp, at, Some(id), message);
    }
}
