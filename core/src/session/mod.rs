//! The whole client as a state machine: it says what to do next, and is told what came of it.

pub mod limits;
mod pace;
mod response;
mod snapshot;
mod work;

use limits::{BATCH_MAX, BODY_MAX, INTERVAL_MIN_MS, INTERVAL_MS, NAME_MAX, NAMES_MAX, PROBLEMS_MAX};
use pace::Pace;
pub use response::{Cause, RequestOutcome, Response};
pub use snapshot::SnapshotError;
use work::{Prepare, Recovery, Work};

use core::fmt;

use crate::approval::StartRequests;
use crate::error::Problem;
use crate::event_id::EventId;
use crate::names::VmNames;
use crate::policy::{Decision, Policy};
use crate::short;
use crate::time::UnixMillis;
use crate::tracker::{Change, TrackedEvent, Tracker};

/// How many approved events are remembered after they are gone.
const REMEMBERED_APPROVALS: usize = 16;

/// The whole client, without I/O: ask [`next`](Self::next) what to do, do it, and tell what came of it.
///
/// A session follows up to `N` events at a time. It keeps the pace of polling, tells changes, decides, says when to
/// prepare, approves when the host is ready, repeats what failed, and says when to recover. While a request is under
/// way, or the host prepares, it goes on with everything else.
///
/// An event that was approved is not approved again, the last sixteen that are gone included, should one of them come back.
///
/// Time comes from the caller, in milliseconds that never step: anchor the wall clock once and add what a monotonic
/// clock says has passed. Where the wall clock was set since,
/// [`set_time_of_day_ahead`](Self::set_time_of_day_ahead) tells by how much.
///
/// ```
/// use scheduled_events_core::{SessionConfig, Policy, Response, Session, Step, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig { policy: Policy::sample(), ..SessionConfig::new(VmNames::new(&["vm"])) })?;
/// let mut now = UnixMillis(1_600_000_000_000);
/// let (mut said, mut posted) = (Vec::new(), Vec::new());
/// for _ in 0..20 {
///     match session.next(now) {
///         Step::Get { .. } => {
///             // A real host sends GET /metadata/scheduledevents?api-version=2020-07-01 with `Metadata: true`.
///             let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"a","EventStatus":"Scheduled",
///                 "EventType":"Reboot","Resources":["vm"],"EventSource":"User"}]}"#;
///             session.on_response(&Response { status: 200, body, ..Response::default() }, now);
///         }
///         Step::Post { body, .. } => {
///             posted.push(String::from_utf8(body.to_vec())?);
///             session.on_response(&Response { status: 200, ..Response::default() }, now);
///         }
///         Step::Report(report) => said.push(report.to_string()),
///         Step::Wait { until } => now = until,
///         Step::Prepare { .. } | Step::Recover { .. } => unreachable!("the policy does not ask for it"),
///     }
/// }
/// assert_eq!(said, ["a: scheduled", "a: approve (user-initiated)"]);
/// assert_eq!(posted, [r#"{"StartRequests":[{"EventId":"a"}]}"#]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Independent facts, not a state spelt in bits.
pub struct Session<const N: usize> {
    policy: Policy,
    names: heapless::Vec<heapless::String<NAME_MAX, u8>, NAMES_MAX>,
    underscored: bool,
    /// Whether the decisions are about the names before these.
    renamed: bool,
    dry_run: bool,
    /// How far the time of day is ahead of the clock that never steps.
    time_of_day_ahead_ms: i64,
    pace: Pace,
    request: Request,
    tracker: Tracker<N>,
    /// By the tracker's slots.
    work: heapless::Vec<Work, N, u16>,
    /// No slot before this one has anything to say.
    quiet_before: u16,
    documents: Documents,
    approvals: Approvals,
    problems: heapless::Vec<Problem, PROBLEMS_MAX>,
    /// How many of them were reported.
    problems_told: usize,
    untracked: Untracked,
    untracked_unreported: bool,
    event_seen: bool,
    body: heapless::Vec<u8, BODY_MAX>,
}

/// The request that is under way.
#[derive(Clone, Debug)]
enum Request {
    None,
    Get,
    /// The slots of the events that it approves.
    Post(heapless::Vec<u16, BATCH_MAX>),
}

/// What is known of the documents that were read.
#[derive(Clone, Debug, Default)]
struct Documents {
    /// Hash of the newest.
    newest: Option<u64>,
    /// Hashes of those before it.
    superseded: [u64; 4],
    next: usize,
    /// Since when a superseded one is being served again.
    stale_since: Option<UnixMillis>,
    /// Whether the newest is to be taken in again although it is known.
    reread: bool,
    /// Whether the newest was new when it was read last.
    fresh: bool,
    /// How many events the newest holds.
    events: usize,
}

/// Hashes of approved events' ids, so that an event that flickers is not approved again.
#[derive(Clone, Debug, Default)]
struct Approvals {
    hashes: [u64; REMEMBERED_APPROVALS],
    next: u8,
}

/// How a session is to behave.
#[derive(Clone, Debug)]
pub struct SessionConfig<'a> {
    /// This machine's names; [`VmNames::UNKNOWN`] until they are known. At most [`limits::NAMES_MAX`] of at most
    /// [`limits::NAME_MAX`] bytes.
    pub names: VmNames<'a>,
    /// What to do about events.
    pub policy: Policy,
    /// Milliseconds between two polls, [`limits::INTERVAL_MIN_MS`] at least.
    pub interval_ms: u32,
    /// Decide and report, but neither prepare nor approve.
    pub dry_run: bool,
    /// Any number that differs between machines; it spreads retries.
    pub seed: u64,
}

impl<'a> SessionConfig<'a> {
    /// The defaults: the policy [`Policy::observe`], a poll each second.
    pub const fn new(names: VmNames<'a>) -> Self {
        Self { names, policy: Policy::observe(), interval_ms: INTERVAL_MS, dry_run: false, seed: 0 }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionConfigError {
    /// The interval is below [`limits::INTERVAL_MIN_MS`].
    IntervalTooShort,
    /// There are more than [`limits::NAMES_MAX`] names.
    TooManyNames,
    /// A name is longer than [`limits::NAME_MAX`] bytes.
    NameTooLong,
}

impl fmt::Display for SessionConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntervalTooShort => write!(f, "the interval must be {INTERVAL_MIN_MS} ms at least"),
            Self::TooManyNames => write!(f, "a session knows {NAMES_MAX} names at most"),
            Self::NameTooLong => write!(f, "a name has {NAME_MAX} bytes at most"),
        }
    }
}

impl core::error::Error for SessionConfigError {}

/// What the host is to do next.
#[derive(Debug)]
pub enum Step<'s> {
    /// Send the GET, and pass the answer to [`on_response`](Session::on_response), or its absence to
    /// [`on_failure`](Session::on_failure).
    Get {
        /// How long the request may take, in milliseconds.
        timeout_ms: u32,
    },
    /// Send this body with POST, and feed back what comes of it likewise. [`Session::posted`] names the events.
    Post {
        /// The body, JSON.
        body: &'s [u8],
        /// How long the request may take, in milliseconds.
        timeout_ms: u32,
    },
    /// Nothing to do before this moment; ask again then, or when there is something to tell.
    Wait {
        /// When to ask again.
        until: UnixMillis,
    },
    /// Get ready for the event, and say [`prepared`](Session::prepared). `not_before` tells how long there is.
    Prepare {
        /// The event, this machine's or one that a rule extends to.
        event: &'s TrackedEvent,
    },
    /// The event is gone: take the machine back into service, and say [`recovered`](Session::recovered).
    Recover {
        /// The event, as it was last seen.
        event: &'s TrackedEvent,
    },
    /// Something to tell people.
    Report(Report<'s>),
}

/// Something to tell people.
#[derive(Clone, Copy, Debug)]
pub enum Report<'s> {
    /// A change of one event.
    Change {
        /// What changed.
        change: Change,
        /// The event, as it is known now.
        event: &'s TrackedEvent,
    },
    /// A decision that is new, or differs from the last one about the event.
    Decision {
        /// The decision.
        decision: Decision,
        /// The event.
        event: &'s TrackedEvent,
    },
    /// Something odd in the newest document, whose bytes the offset refers to.
    Problem(Problem),
    /// The document holds more events than the session; reported when the numbers change.
    Untracked(Untracked),
}

impl fmt::Display for Report<'_> {
    /// One line. Ids are as the wire has them: escape them before they reach a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change { change, event } => write!(f, "{}: {change}", event.event_id()),
            Self::Decision { decision, event } => {
                write!(f, "{}: {} ({})", event.event_id(), decision.action.word(), decision.reason)
            }
            Self::Problem(problem) => write!(f, "{} at byte {}", problem.kind.word(), problem.offset),
            Self::Untracked(untracked) => {
                write!(f, "no room for {} own events and {} of other machines", untracked.own, untracked.others)
            }
        }
    }
}

/// Events that a session has no room for. One that has to make room for this machine's own is told anew, as if it were
/// another one, should there be room again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// This machine's own events: the ones with the latest deadlines. An error: the session is too small.
    pub own: usize,
    /// Events of other machines.
    pub others: usize,
}

/// The host's answer to [`Step::Prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Ready: Azure may go ahead.
    Ready,
    /// Not ready, and not going to be: the event is never approved.
    Failed,
}

impl<const N: usize> Session<N> {
    /// A session that has seen nothing.
    ///
    /// # Errors
    /// [`SessionConfigError`] for an interval or names outside the [`limits`].
    pub fn new(config: &SessionConfig<'_>) -> Result<Self, SessionConfigError> {
        if config.interval_ms < INTERVAL_MIN_MS {
            return Err(SessionConfigError::IntervalTooShort);
        }
        let mut session = Self {
            policy: config.policy.clone(),
            names: heapless::Vec::new(),
            underscored: false,
            renamed: false,
            dry_run: config.dry_run,
            time_of_day_ahead_ms: 0,
            pace: Pace::new(config.interval_ms, config.seed),
            request: Request::None,
            tracker: Tracker::new(),
            work: heapless::Vec::new(),
            quiet_before: 0,
            documents: Documents::default(),
            approvals: Approvals::default(),
            problems: heapless::Vec::new(),
            problems_told: 0,
            untracked: Untracked::default(),
            untracked_unreported: false,
            event_seen: false,
            body: heapless::Vec::new(),
        };
        session.set_names(config.names)?;
        Ok(session)
    }

    /// Sets this machine's names once they are known, or anew. The next poll decides all events again; until then none
    /// is prepared for or approved.
    ///
    /// # Errors
    /// [`SessionConfigError`] for names outside the [`limits`]; the names then stay as they were.
    pub fn set_names(&mut self, names: VmNames<'_>) -> Result<(), SessionConfigError> {
        let mut kept = heapless::Vec::new();
        for name in names.iter() {
            let name = short::kept(name).ok_or(SessionConfigError::NameTooLong)?;
            kept.push(name).map_err(|_| SessionConfigError::TooManyNames)?;
        }
        self.names = kept;
        self.underscored = names.is_underscored();
        self.renamed = true;
        self.documents.reread();
        Ok(())
    }

    /// Tells how many milliseconds the time of day is ahead of the clock that the session is asked by, at first none. A
    /// `NotBefore` is a moment of the day; it comes sooner where the wall clock was set on, or the machine stood still.
    pub const fn set_time_of_day_ahead(&mut self, milliseconds: i64) {
        self.time_of_day_ahead_ms = milliseconds;
    }

    /// What to do now. Ask after every answer that was fed back, and when a wait is over.
    ///
    /// Requests come one at a time: until the answer to one is fed back, only other steps are said.
    pub fn next(&mut self, now: UnixMillis) -> Step<'_> {
        self.pace.clock_is(now);
        match self.due(now) {
            Due::Change(slot, change) => match self.tracker.get(slot) {
                Some(event) => Step::Report(Report::Change { change, event }),
                None => Step::Wait { until: now },
            },
            Due::Decision(slot, decision) => match self.tracker.get(slot) {
                Some(event) => Step::Report(Report::Decision { decision, event }),
                None => Step::Wait { until: now },
            },
            Due::Prepare(slot) => match self.tracker.get(slot) {
                Some(event) => Step::Prepare { event },
                None => Step::Wait { until: now },
            },
            Due::Recover(slot) => match self.tracker.get(slot) {
                Some(event) => Step::Recover { event },
                None => Step::Wait { until: now },
            },
            Due::Problem(problem) => Step::Report(Report::Problem(problem)),
            Due::Untracked => Step::Report(Report::Untracked(self.untracked)),
            Due::Post => Step::Post { body: &self.body, timeout_ms: limits::TIMEOUT_MS },
            Due::Get => Step::Get { timeout_ms: self.pace.timeout_ms() },
            Due::Nothing(until) => Step::Wait { until },
        }
    }

    /// Chooses the next step and notes that it was said.
    fn due(&mut self, now: UnixMillis) -> Due {
        if let Some(due) = self.due_for_events() {
            return due;
        }
        if let Some(&problem) = self.problems.get(self.problems_told) {
            self.problems_told = self.problems_told.saturating_add(1);
            return Due::Problem(problem);
        }
        if core::mem::take(&mut self.untracked_unreported) {
            return Due::Untracked;
        }
        if !matches!(self.request, Request::None) {
            return Due::Nothing(now.plus(limits::TIMEOUT_MS));
        }
        let approve_at = self.approve_at();
        let post_at = approve_at.map(|at| at.max(self.pace.request_at()));
        let poll_at = self.pace.poll_at();
        // Approvals first, but they take turns with polls, or those that fail over and over would leave no room.
        let poll_waits = poll_at <= now && self.pace.posted_last();
        if !poll_waits && post_at.is_some_and(|at| at <= now) && self.write_approval(now) {
            self.pace.posted(now);
            return Due::Post;
        }
        if poll_at <= now {
            self.pace.polled(now);
            self.request = Request::Get;
            return Due::Get;
        }
        Due::Nothing(post_at.map_or(poll_at, |at| at.min(poll_at)))
    }

    /// Reports, preparations and recoveries, event by event, each event's in the order in which they belong.
    fn due_for_events(&mut self) -> Option<Due> {
        while self.quiet_before < self.tracker.slots_used() {
            let slot = self.quiet_before;
            if let (Some(event), Some(work)) = (self.tracker.get(slot), self.work.get_mut(usize::from(slot))) {
                if let Some(change) = work.change.take() {
                    return Some(Due::Change(slot, change));
                }
                if core::mem::take(&mut work.decision_unreported)
                    && let Some(decision) = work.decision
                {
                    return Some(Due::Decision(slot, decision));
                }
                if !event.is_gone() {
                    if work.wants_preparation() && !self.dry_run && !self.renamed {
                        work.prepare = Prepare::Running;
                        return Some(Due::Prepare(slot));
                    }
                } else if work.is_done() {
                    self.drop_event(slot);
                } else if work.recovery == Recovery::NotYet && work.prepare != Prepare::Running {
                    // What is still preparing is let finish first.
                    work.recovery = Recovery::Running;
                    return Some(Due::Recover(slot));
                }
            }
            self.quiet_before = slot.saturating_add(1);
        }
        None
    }

    /// The earliest moment at which an event may be approved.
    fn approve_at(&self) -> Option<UnixMillis> {
        if self.dry_run || self.renamed {
            return None;
        }
        let slots = (0..self.tracker.slots_used()).zip(&self.work);
        slots.filter_map(|(slot, work)| work.approve_at(self.tracker.get(slot)?)).min()
    }

    /// Writes one approval of the events that are due. One whose approval failed goes alone, so that an id which the
    /// service refuses cannot hold the others up.
    fn write_approval(&mut self, now: UnixMillis) -> bool {
        let mut slots = heapless::Vec::new();
        let mut ids: heapless::Vec<&EventId, BATCH_MAX> = heapless::Vec::new();
        for (slot, work) in (0..self.tracker.slots_used()).zip(&self.work) {
            let Some(event) = self.tracker.get(slot) else { continue };
            if work.approve_at(event).is_none_or(|at| at > now) {
                continue;
            }
            let alone = work.approval.failures > 0;
            if alone && !ids.is_empty() {
                continue;
            }
            if ids.push(&event.event_id).is_err() || StartRequests::new(&ids).len() > BODY_MAX {
                ids.truncate(slots.len());
                break;
            }
            // As many slots as ids have room.
            let _ = slots.push(slot);
            if alone {
                break;
            }
        }
        let approval = StartRequests::new(&ids);
        self.body.clear();
        if ids.is_empty()
            || self.body.resize_default(approval.len()).is_err()
            || approval.write(&mut self.body).is_err()
        {
            return false;
        }
        self.request = Request::Post(slots);
        true
    }

    /// The host's answer to [`Step::Prepare`]. `false` where no preparation of this event is under way.
    pub fn prepared(&mut self, event_id: &str, preparation: Preparation) -> bool {
        let Some((slot, work)) = self.work_of(event_id) else { return false };
        if work.prepare != Prepare::Running {
            return false;
        }
        work.prepare = match preparation {
            Preparation::Ready => Prepare::Ready,
            Preparation::Failed => Prepare::Failed,
        };
        self.quiet_before = self.quiet_before.min(slot);
        true
    }

    /// The host's answer to [`Step::Recover`], whatever came of it; the event is forgotten. `false` where no recovery
    /// of this event is under way.
    pub fn recovered(&mut self, event_id: &str) -> bool {
        let Some((slot, work)) = self.work_of(event_id) else { return false };
        if work.recovery != Recovery::Running {
            return false;
        }
        work.recovery = Recovery::Done;
        self.quiet_before = self.quiet_before.min(slot);
        true
    }

    fn work_of(&mut self, event_id: &str) -> Option<(u16, &mut Work)> {
        let slot = self.tracker.find(&EventId::kept(event_id)?)?;
        Some((slot, self.work.get_mut(usize::from(slot))?))
    }

    /// The ids of the events that the POST under way approves.
    pub fn posted(&self) -> impl Iterator<Item = &EventId> {
        let slots = match &self.request {
            Request::Post(slots) => slots.as_slice(),
            Request::None | Request::Get => &[],
        };
        slots.iter().filter_map(|&slot| self.tracker.get(slot)).map(TrackedEvent::event_id)
    }

    /// Whether a request is under way, whose answer was not fed back yet.
    pub const fn awaits_answer(&self) -> bool {
        !matches!(self.request, Request::None)
    }

    /// The events that are followed, those among them that are gone and not recovered from yet.
    pub fn events(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.tracker.iter()
    }

    /// Whether an event was seen, in this run or before the snapshot.
    pub const fn has_seen_event(&self) -> bool {
        self.event_seen
    }

    /// Whether the newest document, read since the start, announces nothing, and nothing is left to report, to prepare
    /// or to recover from. While an older document is served again, and it is not known yet which of them to believe, the
    /// session is not idle.
    pub fn is_idle(&self) -> bool {
        self.documents.newest.is_some()
            && self.documents.events == 0
            && self.documents.stale_since.is_none()
            && self.tracker.is_empty()
            && self.problems_told >= self.problems.len()
            && !self.untracked_unreported
    }

    fn put_work(&mut self, slot: u16, work: Work) {
        match self.work.get_mut(usize::from(slot)) {
            Some(place) => *place = work,
            // Slots are given out in order, so this one is the next.
            None => drop(self.work.push(work)),
        }
        self.quiet_before = self.quiet_before.min(slot);
    }

    /// Forgets an event, but not that it was approved.
    fn drop_event(&mut self, slot: u16) {
        if let Some(event) = self.tracker.get(slot).filter(|event| event.is_approved()) {
            self.approvals.push(event.event_id.hash());
        }
        self.tracker.remove(slot);
    }

    fn forget(&mut self) {
        self.tracker.clear();
        self.work.clear();
        self.quiet_before = 0;
        self.request = Request::None;
        self.documents = Documents::default();
        self.approvals = Approvals::default();
        self.problems.clear();
        self.problems_told = 0;
        self.untracked = Untracked::default();
        self.untracked_unreported = false;
        self.event_seen = false;
    }
}

enum Due {
    Change(u16, Change),
    Decision(u16, Decision),
    Prepare(u16),
    Recover(u16),
    Problem(Problem),
    Untracked,
    Post,
    Get,
    Nothing(UnixMillis),
}
