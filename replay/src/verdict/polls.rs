//! The times of polls: gaps, the rate, back-off, and whether a client continues after a fault.

use std::collections::VecDeque;
use std::time::Duration;

use super::exchange::Exchange;
use super::finding::Findings;
use super::rules::Rule;
use crate::fault::plan::RequestKind;
use crate::http::route;

/// The longest time between two polls, from the answer of one to the next: half of the shortest
/// notice, which is that of a Preempt.
pub const POLL_GAP_MAX: Duration = Duration::from_secs(15);

/// The tolerance for a gap: a client that sleeps for 15 seconds wakes up a little later.
const GAP_RESERVE: Duration = Duration::from_millis(500);

/// Up to this time a client may do what a `Retry-After` asks for: the shortest notice.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// How long a client may wait for its first response, in addition to [`POLL_GAP_MAX`]: two minutes,
/// and a reserve.
const FIRST_RESPONSE_MAX: Duration = Duration::from_secs(130);

/// From when on a first poll without an answer may be sent again: five seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_millis(4_500);

/// The numbers of requests that are too many within a time: a client that sends five a second needs a
/// second for six, and six seconds for 31, but a busy machine may delay the first of them.
const TOO_MANY: [(usize, Duration); 2] = [(6, Duration::from_millis(700)), (31, RATE_SPAN)];

/// From this time between the first and the last request on, a client keeps to the rate.
pub(super) const RATE_SPAN: Duration = Duration::from_millis(5_500);

/// From this delay on, the check whether a client waits for the first response counts.
const FIRST_DELAY: Duration = Duration::from_secs(2);

/// From this time between two requests on, it need not grow.
const BACK_OFF_ENOUGH: Duration = Duration::from_secs(5);

/// The number of polls, and the times between them, each from the answer of one to the arrival of
/// the next.
///
/// ```
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let url = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
/// for _ in 0..2 {
///     ureq::get(&url).header("Metadata", "true").call()?;
/// }
/// let polls = server.verdict(0).polls();
/// assert_eq!((polls.count, polls.documents), (2, 2));
/// assert!(polls.longest_gap >= polls.average_gap);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollTimes {
    /// The number of polls that the service accepted, including those that a fault answered.
    pub count: u64,
    /// The number of polls that were answered with a document.
    pub documents: u64,
    /// The longest time between two polls.
    pub longest_gap: Duration,
    /// The average time between two polls.
    pub average_gap: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Polls {
    count: u64,
    documents: u64,
    longest_gap: Duration,
    all_gaps: Duration,
    last: Option<Poll>,
    /// The arrival of the first poll, while it waits for its answer.
    first_waiting: Option<Duration>,
    /// When the first of the polls was answered.
    first_answered: Option<Duration>,
    /// The arrivals of the last 31 requests of any kind, the newest first, and of the very first.
    requests: VecDeque<Duration>,
    first_request: Option<Duration>,
    /// The times to the next poll after each failure in a row, with whether each is long enough.
    after_failures: Vec<(Duration, bool)>,
    /// The finding from the silence since the last poll, if it continues.
    silence: Option<(Duration, Rule, String)>,
    /// Whether the client has ended by itself since the last poll.
    has_ended: bool,
    /// The paths to which the service has redirected.
    redirects: Vec<String>,
}

/// The last poll.
#[derive(Clone, Debug)]
struct Poll {
    arrived: Duration,
    answered: Duration,
    /// The answer, if it had no document.
    failure: Option<String>,
    /// If the failure is one after which a client backs off: the time to the next poll that is long
    /// enough.
    back_off: Option<Duration>,
    /// For how long the answer asks not to be asked again.
    asked: Duration,
    /// Whether the client may have waited for the answer, or for its end.
    is_slow: bool,
}

impl Polls {
    pub(crate) fn times(&self) -> PollTimes {
        let gaps = u32::try_from(self.count.saturating_sub(1)).unwrap_or(u32::MAX);
        PollTimes {
            count: self.count,
            documents: self.documents,
            longest_gap: self.longest_gap,
            average_gap: self.all_gaps.checked_div(gaps).unwrap_or_default(),
        }
    }

    pub(crate) fn exchange(&mut self, exchange: &Exchange<'_>, findings: &mut Findings) {
        self.check_rate(exchange.arrived, findings);
        self.check_redirect(exchange, findings);
        if exchange.is_poll() {
            self.poll(exchange, findings);
        } else if exchange.kind == Some(RequestKind::EventsPost) && !exchange.has_failed() {
            // The service works again, so the next failure is the first one.
            self.after_failures.clear();
            self.last.iter_mut().for_each(|last| last.back_off = None);
        }
    }

    fn check_rate(&mut self, at: Duration, findings: &mut Findings) {
        if self.requests.front().is_some_and(|last| at < *last) {
            // Its answer was delayed, so that it is recorded after later ones.
            return;
        }
        self.requests.push_front(at);
        self.requests.truncate(TOO_MANY[1].0);
        if at.saturating_sub(*self.first_request.get_or_insert(at)) >= RATE_SPAN {
            findings.check(Rule::RequestRate);
        }
        let message = TOO_MANY.iter().find_map(|(many, least)| {
            let span = at.saturating_sub(*self.requests.get(many - 1)?);
            (span < *least).then(|| format!("found {many} requests within {}", seconds(span)))
        });
        if let Some(message) = message {
            findings.add(Rule::RequestRate, at, None, message);
            self.requests.clear();
        }
    }

    fn check_redirect(&mut self, exchange: &Exchange<'_>, findings: &mut Findings) {
        let (target, at) = (&exchange.request.target, exchange.arrived);
        if exchange.kind.is_none() && self.redirects.iter().any(|path| path == target) {
            findings.add(
                Rule::Redirect,
                at,
                None,
                format!("found a request for {target}, where it was redirected to"),
            );
        }
        if let Some(location) = exchange.location {
            let (path, is_observed) = followed(location, exchange);
            if is_observed {
                findings.check(Rule::Redirect);
            }
            let is_new = !self.redirects.iter().any(|known| known == path);
            if is_new && !is_asked_anyway(path) {
                self.redirects.push(path.to_owned());
            }
        }
    }

    fn poll(&mut self, exchange: &Exchange<'_>, findings: &mut Findings) {
        let at = exchange.arrived;
        let failed = exchange.has_failed();
        self.count += 1;
        self.check_first(exchange, findings);
        if self.last.as_ref().is_some_and(|last| at < last.arrived) {
            // The client abandoned it and sent another one, or waits for both.
            self.documents += u64::from(!failed);
            return;
        }
        self.silence = None;
        self.has_ended = false;
        let first_answered = *self.first_answered.get_or_insert(exchange.answered);
        if let Some(last) = &self.last {
            let gap = at.saturating_sub(last.answered);
            self.longest_gap = self.longest_gap.max(gap);
            self.all_gaps += gap;
            let message = || match &last.failure {
                Some(failure) => format!("found no poll for {} after {failure}", seconds(gap)),
                None => format!("found no poll for {}", seconds(gap)),
            };
            if gap > self.gap_max() {
                findings.add(Rule::PollGap, at, None, message());
            } else if at.saturating_sub(first_answered) >= self.gap_max() {
                findings.check(Rule::PollGap);
            }
            if last.failure.is_some() {
                findings.check(Rule::GaveUp);
            }
            if let Some(enough) = last.back_off {
                let is_enough = gap >= enough;
                self.after_failures.push((gap, is_enough));
                self.check_back_off(at, findings);
            } else {
                self.after_failures.clear();
            }
        }
        self.documents += u64::from(!failed);
        let needs_back_off = exchange.is_broken
            || matches!(
                exchange.status,
                None | Some(401 | 403 | 404 | 408 | 410 | 429 | 500..)
            );
        self.last = Some(Poll {
            arrived: at,
            answered: exchange.answered,
            failure: failed.then(|| exchange.answer()),
            back_off: needs_back_off.then(|| {
                let asked = exchange.retry_after.unwrap_or(BACK_OFF_ENOUGH);
                asked.min(BACK_OFF_ENOUGH)
            }),
            asked: exchange.retry_after.unwrap_or_default(),
            is_slow: exchange.is_slow,
        });
    }

    /// Notes that a poll waits for its answer.
    pub(crate) fn waits(&mut self, at: Duration) {
        if self.count == 0 {
            self.first_waiting.get_or_insert(at);
        }
    }

    /// Whether the first poll waits for its answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.first_waiting.is_some()
    }

    /// Checks whether a client waits for the first response.
    fn check_first(&mut self, exchange: &Exchange<'_>, findings: &mut Findings) {
        let at = exchange.arrived;
        let Some(first) = self.first_waiting.take() else {
            return;
        };
        if at <= first {
            // This is its answer.
            if exchange.answered.saturating_sub(at) >= FIRST_DELAY {
                findings.check(Rule::FirstRequest);
            }
            return;
        }
        // One that is sent again beside it, after the time that every other poll may take, is no impatience.
        let gap = at.saturating_sub(first);
        if gap >= PATIENCE {
            return findings.check(Rule::FirstRequest);
        }
        let message = format!(
            "found another poll before the first response, after {}",
            seconds(gap)
        );
        findings.add(Rule::FirstRequest, at, None, message);
    }

    fn check_back_off(&mut self, at: Duration, findings: &mut Findings) {
        let gaps = &self.after_failures[..];
        // A busy machine delays the first ones, too. Polls that overlap have no time between them.
        let smallest = gaps.iter().map(|(gap, _)| *gap);
        let smallest = smallest.filter(|gap| !gap.is_zero()).min();
        let (Some(smallest), Some(last)) = (smallest, gaps.last_chunk::<3>()) else {
            return;
        };
        findings.check(Rule::BackOff);
        // Jitter can halve a time, and each time is twice the last, up to a limit.
        let is_short = |(gap, is_enough): &(Duration, bool)| !is_enough && *gap < smallest * 3 / 2;
        if last.iter().all(is_short) {
            let [one, two, three] = last.map(|(gap, _)| seconds(gap));
            let message = format!("found polls {one}, {two} and {three} after failures in a row");
            findings.add(Rule::BackOff, at, None, message);
        }
    }

    /// The longest time without a poll that is no finding.
    pub(crate) fn gap_max(&self) -> Duration {
        let last = self.last.as_ref();
        let is_slow = self.is_waiting() || last.is_some_and(|last| last.is_slow);
        let asked = last.map_or(Duration::ZERO, |last| last.asked.min(RETRY_AFTER_MAX));
        if self.documents == 0 && is_slow {
            POLL_GAP_MAX + FIRST_RESPONSE_MAX
        } else {
            POLL_GAP_MAX.max(asked) + GAP_RESERVE
        }
    }

    /// Notes the finding from the silence since the last poll, until the next one. `shown_since`:
    /// since when an event of the machine is announced that the last document showed. `over`: when the
    /// scenario ended.
    pub(crate) fn note_silence(
        &mut self,
        now: Duration,
        shown_since: Option<Duration>,
        over: Option<Duration>,
        has_ended: bool,
    ) {
        self.has_ended |= has_ended;
        let Some(last) = self.last.as_ref().filter(|_| self.silence.is_none()) else {
            return;
        };
        let silent_for = |until: Duration| until.saturating_sub(last.answered);
        let gap = silent_for(now);
        let silence = if has_ended {
            "it ended".to_owned()
        } else {
            format!("found no poll for {}", seconds(gap))
        };
        // Once the scenario is over, nothing is left to poll for.
        let was_silent = silent_for(over.map_or(now, |over| over.min(now))) > self.gap_max();
        let gives_up = match (over, shown_since) {
            (Some(_), None) => was_silent,
            _ => has_ended || gap > self.gap_max(),
        };
        self.silence = match &last.failure {
            Some(failure) if gives_up => {
                Some((now, Rule::GaveUp, format!("{silence} after {failure}")))
            }
            _ if shown_since.is_some_and(|since| {
                has_ended || now.saturating_sub(last.answered.max(since)) > self.gap_max()
            }) =>
            {
                let message =
                    format!("{silence} while the last document showed an event of its machine");
                Some((now, Rule::StopsPolling, message))
            }
            // It may end by itself, but not be silent: the next event may come at any time.
            _ if was_silent && !self.has_ended => Some((now, Rule::PollGap, silence)),
            _ => None,
        };
    }

    /// Adds the finding from the silence at the end.
    pub(crate) fn conclude(&mut self, findings: &mut Findings) {
        if let Some((at, rule, message)) = self.silence.take() {
            return findings.add(rule, at, None, message);
        }
        if self.has_failed() {
            // Whether it repeats that is unknown.
            findings.uncheck(Rule::GaveUp);
        }
        if let Some(first) = self.first_waiting.filter(|_| self.has_ended) {
            let message = "it ended before the first response".to_owned();
            findings.add(Rule::FirstRequest, first, None, message);
        }
    }

    /// Whether the last poll failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.failure.is_some())
    }

    /// How long the client was polling, from its first answer to its last.
    pub(crate) fn observed(&self) -> Duration {
        let last = self.last.as_ref().map(|last| last.answered);
        let span = self.first_answered.zip(last);
        span.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }

    /// The time since the last answer.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        self.last
            .as_ref()
            .map_or(Duration::ZERO, |last| now.saturating_sub(last.answered))
    }
}

/// The path and query that a client asks for when it follows a redirect, and whether this server sees
/// that it does: not if the path is on another server, if any client asks for it anyway, or if
/// libraries resolve it in different ways.
fn followed<'a>(location: &'a str, exchange: &Exchange<'_>) -> (&'a str, bool) {
    let (location, _) = location.split_once('#').unwrap_or((location, ""));
    let (scheme, rest) = match location.split_once("://") {
        Some((scheme, rest)) => (scheme, Some(rest)),
        None => ("http", location.strip_prefix("//")),
    };
    let (authority, path) = match rest {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", location),
    };
    let mut hosts = exchange.request.header("Host");
    let is_here = scheme.eq_ignore_ascii_case("http")
        && (rest.is_none() || hosts.any(|host| host.eq_ignore_ascii_case(authority)));
    let (target, _) = path.split_once('?').unwrap_or((path, ""));
    let is_sent_as_it_is = target.starts_with('/')
        && !target.split('/').any(|part| matches!(part, "." | ".."))
        && path
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~/?=&".contains(&byte));
    let path = if path.is_empty() { "/" } else { path };
    (path, is_here && is_sent_as_it_is && !is_asked_anyway(path))
}

fn is_asked_anyway(path: &str) -> bool {
    let (target, _) = path.split_once('?').unwrap_or((path, ""));
    route::is_known("GET", target)
}

/// Whether a request with this answer had no effect, and the client must repeat it.
pub(crate) fn is_to_be_repeated(exchange: &Exchange<'_>) -> bool {
    exchange.kind == Some(RequestKind::EventsPost)
        && match exchange.status {
            None => true,
            Some(status) => matches!(status, 300..=399 | 401 | 403 | 404 | 408 | 410 | 429 | 500..),
        }
}

/// A time in seconds for a message.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
