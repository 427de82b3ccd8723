//! The client as a state machine without I/O: it decides what to do next, and the host does it.
//!
//! [`Session`] says what a host may call when, in four kinds of methods. `client/examples/host.rs` is a whole host in under a
//! hundred lines, and the watcher of the crate `scheduled-events` a large one.
//!
//! | methods | kind | file |
//! |---|---|---|
//! | `take_step` | 1 | `next_step`: chooses the step; `pending`: the step for one event |
//! | `on_response`, `on_response_with`, `on_failure`, `repeat_answered` | 2 | `response`; `documents` recognises repeated and stale documents; `apply` updates the events |
//! | `prepared`, `recovered`, `gate_answered` | 2 | `answers` |
//! | `on_notification` | 3 | `apply/notified` |
//! | `new`, `set_names`, `set_machine_id`, `set_time_of_day_ahead` | 3 | this file; `config`: the configuration |
//! | `restore`, `saved`, `snapshot`, `is_changed` | 3, 4 | `snapshot` |
//! | `would_prepare` | 4 | `would_prepare` |
//! | `waiting`, `recovery` | 4 | `waiting` |
//! | `posted`, `recovering`, `events`, `is_idle` and others | 4 | this file |
//!
//! Below them: `step` is what a session asks of its host. `event_progress` is what it keeps about one event, with a `command` that the
//! host runs for it, and the answers of the `gate`; `last_call` is when the machine prepares although the gate has not answered yes.
//! `recovery` is how far the machine is on its way back into service, and `recovering` the events that it is for. `approvals`
//! selects and writes approvals. `pacer` says when the next request may be sent, `versions` which version of the API it names, and `limits` has every constant with its reason.

mod answers;
mod apply;
mod approvals;
mod command;
mod config;
mod documents;
mod event_progress;
mod gate;
mod last_call;
pub mod limits;
mod next_step;
mod open_failures;
mod pacer;
mod pending;
mod recovering;
mod recovery;
mod response;
mod snapshot;
mod step;
mod versions;
mod waiting;
mod would_prepare;

pub use apply::NotificationOutcome;
pub use command::{AnswerOutcome, GatePhase, Preparation};
pub use config::{SessionConfig, SessionConfigError, SessionSource};
pub use gate::GateAnswer;
pub use last_call::LastCall;
pub use open_failures::OpenFailures;
pub use recovering::Recovering;
pub use response::{Cause, RequestOutcome, Response};
pub use snapshot::{SnapshotError, snapshot_length};
pub use step::{Report, Step, Untracked};
pub use versions::ApiVersion;
pub use waiting::{RecoveryStatus, Waiting, WaitsFor};
pub use would_prepare::WouldPrepare;

use crate::event::Problem;
use crate::event_id::EventId;
use crate::fixed_str;
use crate::hash::Hash;
use crate::names::VmNames;
use crate::policy::{Leader, Policy};
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Flags, TrackedEvent, Tracker};
use approvals::{ApprovalSlots, ApprovedIds};
use command::Attempts;
use documents::Documents;
use event_progress::EventProgress;
use limits::{BODY_MAX, INTERVAL_MIN_MS, NAME_MAX, NAMES_MAX, PROBLEMS_MAX};
use pacer::Pacer;
use recovery::Recovery;
use versions::Versions;

/// The client as a state machine without I/O: call [`take_step`](Self::take_step), do what it returns, and report the result.
///
/// It has four kinds of methods:
///
/// 1. **The step.** [`take_step`](Self::take_step) returns what to do now, and records that it was issued. Call it after each call
///    of the kinds 2 and 3, and when a wait is over, until it returns [`Step::Wait`].
/// 2. **Results of steps.** [`on_response`](Self::on_response) or [`on_failure`](Self::on_failure) completes the request in progress,
///    of which there is at most one; [`repeat_answered`](Self::repeat_answered) before it says that the answer is one to a repetition. [`prepared`](Self::prepared), [`recovered`](Self::recovered) and
///    [`gate_answered`](Self::gate_answered) complete the attempt whose number the step has: in any order, at any time, each once,
///    and also after [`Step::Cancel`]. A result that nothing waits for changes nothing.
/// 3. **What the host learns by itself**: [a notification](Self::on_notification), the [names](Self::set_names) and the
///    [id](Self::set_machine_id) of this machine, the [time of day](Self::set_time_of_day_ahead), and that a snapshot was
///    [stored](Self::saved). [`restore`](Self::restore) comes before the first step.
/// 4. **Questions**, which take `&self` and change nothing: [`snapshot`](Self::snapshot), [`waiting`](Self::waiting),
///    [`events`](Self::events) and all others.
///
/// A host keeps four rules:
///
/// - **Store, then act.** If the session [`is_changed`](Self::is_changed) after a step, store a snapshot before you do what the step
///   asks. After a crash in between, the step is issued again if it still makes sense.
/// - **One clock.** `now` is in milliseconds of a clock that never jumps. If it does go back, no delay becomes longer.
/// - **A step borrows the session.** Copy what you need after the next call.
/// - **Nothing blocks.** While a request or a command runs, go on taking steps.
///
/// A session tracks up to `N` events. It schedules polls, reports changes, decides, asks the host to prepare, approves
/// events when the host is ready, retries failed requests, and asks the host to recover. A request or a preparation in
/// progress does not block anything else.
///
/// The machine is either in service or out of service. The first preparation for one of its events takes it out of service,
/// and it is recovered once nothing keeps it out: no event of this machine that was prepared for, and none that has started.
///
/// An approved event is not approved again. This includes the last `N` that are gone, in case one of them returns.
///
/// The caller provides the time, in milliseconds of a clock that never jumps: read the wall clock once, then add the
/// time that a monotonic clock measures. If the wall clock is adjusted later, pass the difference to
/// [`set_time_of_day_ahead`](Self::set_time_of_day_ahead).
///
/// ```
/// use scheduled_events_core::{SessionConfig, Policy, Response, Session, Step, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig { policy: Policy::sample(), ..SessionConfig::new(VmNames::new(&["vm"])) })?;
/// let mut now = UnixMillis(1_600_000_000_000);
/// let (mut reports, mut posted) = (Vec::new(), Vec::new());
/// for _ in 0..20 {
///     match session.take_step(now) {
///         Step::Get { .. } => {
///             // A host sends GET /metadata/scheduledevents?api-version=2020-07-01 with `Metadata: true`.
///             let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"a","EventStatus":"Scheduled",
///                 "EventType":"Reboot","Resources":["vm"],"EventSource":"User"}]}"#;
///             session.on_response(&Response { status: 200, body, ..Response::default() }, now);
///         }
///         Step::Post { body, .. } => {
///             posted.push(String::from_utf8(body.to_vec())?);
///             session.on_response(&Response { status: 200, ..Response::default() }, now);
///         }
///         Step::Report(report) => reports.push(report.to_string()),
///         Step::Wait { until } => now = until,
///         _ => unreachable!("this policy prepares for nothing"),
///     }
/// }
/// assert_eq!(reports, ["a: scheduled", "a: approve (user-initiated)"]);
/// assert_eq!(posted, [r#"{"StartRequests":[{"EventId":"a"}]}"#]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use scheduled_events_core::{
///     Action, AnswerOutcome, Policy, Preparation, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames,
/// };
///
/// // A reboot that is prepared for, from its notice to the recovery.
/// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
/// let mut session = Session::<16>::new(&SessionConfig { policy, ..SessionConfig::new(VmNames::new(&["vm"])) })?;
/// let mut body = &br#"{"DocumentIncarnation":1,"Events":[{"EventId":"a","EventStatus":"Scheduled",
///     "EventType":"Reboot","Resources":["vm"]}]}"#[..];
/// let (mut now, mut done) = (UnixMillis(1_600_000_000_000), Vec::new());
/// while !(session.has_seen_event() && session.is_idle()) {
///     match session.take_step(now) {
///         Step::Get { .. } => {
///             assert!(session.awaits_answer());
///             session.on_response(&Response { status: 200, body, ..Response::default() }, now);
///             assert!(session.events().count() <= 1);
///         }
///         Step::Prepare { event, attempt, .. } => {
///             done.push(format!("prepare for {}", event.event_id().as_str()));
///             assert_eq!(session.prepared(attempt, Preparation::Ready), AnswerOutcome::Accepted);
///             assert_eq!(session.out_of_service_since(), Some(now));
///         }
///         Step::Post { .. } => {
///             done.push(format!("approve {}", session.posted().next().unwrap().as_str()));
///             session.on_response(&Response { status: 200, ..Response::default() }, now);
///             body = br#"{"DocumentIncarnation":2,"Events":[]}"#;
///         }
///         Step::Recover { events, attempt, .. } => {
///             assert_eq!(events.last().event_id().as_str(), "a");
///             assert_eq!(session.recovery().unwrap().attempt, Some(attempt));
///             done.push("recover".to_owned());
///             assert_eq!(session.recovered(attempt, true, now), AnswerOutcome::Accepted);
///             assert_eq!(session.in_service_since(), Some(now));
///         }
///         Step::Report(_) => {} // log it
///         Step::Wait { until } => now = until,
///         Step::Gate { .. } | Step::Cancel { .. } => unreachable!("there is no gate, and the event does not change"),
///     }
/// }
/// assert_eq!(done, ["prepare for a", "approve a", "recover"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // They are independent of each other.
pub struct Session<const N: usize> {
    // Configuration.
    policy: Policy,
    dry_run: bool,
    has_gate: bool,
    last_call: LastCall,
    prepare_retries: Option<u32>,
    recover_all: bool,
    source: SessionSource,

    // Who this machine is.
    names: heapless::Vec<heapless::String<NAME_MAX, u8>, NAMES_MAX>,
    underscored: bool,
    /// Whether the names or the policy changed after the current decisions were made.
    is_undecided: bool,
    /// Hashes of the ids of this machine and of its boot; 0 if they are unknown.
    machine_id: u64,
    boot_id: u64,

    // Time.
    /// The last time that the caller passed to `take_step`.
    clock: UnixMillis,
    /// Whether a snapshot was restored since the last step.
    is_restored: bool,
    /// How far the time of day is ahead of the caller's clock.
    time_of_day_ahead_ms: i64,

    // Requests, and the documents that they brought.
    pacer: Pacer,
    request: Request,
    /// The body of a POST.
    body: heapless::Vec<u8, BODY_MAX>,
    /// How many polls have begun.
    polls: u32,
    versions: Versions,
    documents: Documents,

    // Events.
    tracker: Tracker<N>,
    /// Indexed by the slots of the tracker.
    progress: heapless::Vec<EventProgress, N, u16>,
    /// How many events of the newest document are not over.
    open_events: usize,
    event_seen: bool,
    approved_ids: ApprovedIds<N>,
    attempts: Attempts,

    // This machine's way back into service.
    /// The recovery of this machine.
    machine: Recovery,
    /// When the last recovery of this machine succeeded.
    recovered_at: Option<UnixMillis>,
    /// The event that the recovery is for, if it was dropped for others: the newest of those.
    last_ended: Option<TrackedEvent>,

    // Reports that are not about one event.
    /// The problems of the newest document.
    problems: heapless::Vec<Problem, PROBLEMS_MAX>,
    problems_reported: usize,
    untracked: Untracked,
    untracked_unreported: bool,

    /// The checksum of the snapshot that was stored last.
    saved: Option<u64>,
}

/// The request in progress.
#[derive(Clone, Debug)]
enum Request {
    None,
    Get,
    /// A POST that approves the events in these slots.
    Post(ApprovalSlots),
    /// A POST that was answered just now. Its events keep their slots until the next step.
    Answered(ApprovalSlots),
}

impl<const N: usize> Session<N> {
    /// Creates a session that tracks no events yet.
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
            is_undecided: false,
            dry_run: config.dry_run,
            has_gate: config.gate,
            last_call: config.last_call,
            prepare_retries: config.prepare_retries,
            recover_all: config.recover_all,
            machine_id: id_hash(config.machine_id),
            boot_id: id_hash(config.boot_id),
            source: config.source,
            time_of_day_ahead_ms: 0,
            pacer: Pacer::new(config.interval_ms, config.seed),
            request: Request::None,
            body: heapless::Vec::new(),
            versions: Versions::default(),
            documents: Documents::default(),
            open_events: 0,
            tracker: Tracker::with_seed(config.seed),
            progress: heapless::Vec::new(),
            machine: Recovery::default(),
            recovered_at: None,
            last_ended: None,
            attempts: Attempts::default(),
            polls: 0,
            clock: UnixMillis(i64::MIN),
            is_restored: false,
            approved_ids: ApprovedIds::new(),
            saved: None,
            problems: heapless::Vec::new(),
            problems_reported: 0,
            untracked: Untracked::default(),
            untracked_unreported: false,
            event_seen: false,
        };
        session.set_names(config.names)?;
        match config.api_version {
            ApiVersion::Auto => {}
            ApiVersion::Advice => session.versions.needs_advice = true,
            ApiVersion::Fixed("") => return Err(SessionConfigError::ApiVersion),
            ApiVersion::Fixed(version) => {
                session.versions.fixed =
                    fixed_str::from_str(version).ok_or(SessionConfigError::ApiVersion)?;
            }
        }
        if config.gate {
            // The gate decides which machine approves.
            session.policy.leader = Some(Leader::Everyone);
        }
        Ok(session)
    }

    /// Sets or replaces the names of this machine. The next poll decides about all events again; until then, the
    /// session does not prepare or approve. About an event that only notifications have shown, the next one of it decides.
    ///
    /// # Errors
    /// [`SessionConfigError`] for names outside the [`limits`]. The previous names are kept then.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// // The machine's name is asked for while the first polls run.
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
    /// session.set_names(VmNames::new(&["web_0"]))?;
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn set_names(&mut self, names: VmNames<'_>) -> Result<(), SessionConfigError> {
        let mut kept = heapless::Vec::new();
        for name in names.iter() {
            let name = fixed_str::from_str(name).ok_or(SessionConfigError::NameTooLong)?;
            kept.push(name)
                .map_err(|_| SessionConfigError::TooManyNames)?;
        }
        self.names = kept;
        self.underscored = names.is_underscored();
        self.decide_again();
        Ok(())
    }

    /// Replaces the policy. The next poll decides about all events again; until then, the session does not prepare or approve.
    /// A preparation that was issued goes on, and what it led to counts: a changed rule changes only what may be approved.
    /// About an event that only notifications have shown, the next one of it decides.
    ///
    /// ```
    /// use scheduled_events_core::{Policy, Session, SessionConfig, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["web_0"])))?;
    /// // The operator has changed the file.
    /// session.set_policy(Policy::sample());
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        if self.has_gate {
            // The gate decides which machine approves.
            self.policy.leader = Some(Leader::Everyone);
        }
        self.decide_again();
    }

    fn decide_again(&mut self) {
        self.is_undecided = self.source != SessionSource::Notifications;
        for (slot, progress) in (0..self.tracker.slots_used()).zip(&mut self.progress) {
            // No document may ever show it.
            if self
                .tracker
                .get(slot)
                .is_some_and(|event| event.flags.has(Flags::NOTIFIED))
            {
                progress.decision = None;
            }
        }
        self.documents.apply_again();
    }

    /// Sets the id of this machine, if it was not known when the session was made. See
    /// [`SessionConfig::machine_id`](crate::SessionConfig::machine_id).
    ///
    /// # Errors
    /// [`SnapshotError::OtherMachine`] if the session was restored from the snapshot of another machine. The session is
    /// empty then, as after [`new`](Self::new).
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, SnapshotError, VmNames};
    ///
    /// let config = SessionConfig::new(VmNames::UNKNOWN);
    /// let mut snapshot = vec![0; Session::<16>::SNAPSHOT_MAX];
    /// let original = Session::<16>::new(&SessionConfig { machine_id: "13f56399-bd52-4150-9748-7190aae1ff21", ..config.clone() })?;
    /// original.snapshot(&mut snapshot)?;
    ///
    /// let mut clone = Session::<16>::new(&config)?;
    /// clone.restore(&snapshot)?;
    /// assert_eq!(clone.set_machine_id("f11dff32-6ef1-46f2-bc5d-c7a9a7bbd8b5"), Err(SnapshotError::OtherMachine));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_machine_id(&mut self, machine_id: &str) -> Result<(), SnapshotError> {
        let id = id_hash(machine_id);
        let is_other = self.machine_id != 0 && id != 0 && self.machine_id != id;
        if is_other {
            self.reset();
        }
        if id != 0 {
            self.machine_id = id;
        }
        if is_other {
            Err(SnapshotError::OtherMachine)
        } else {
            Ok(())
        }
    }

    /// Sets how many milliseconds the time of day is ahead of the caller's clock; initially 0. A `NotBefore` is a time
    /// of day: it is reached sooner if the wall clock was set forward or the machine was suspended.
    ///
    /// ```
    /// use std::time::{Duration, Instant, SystemTime};
    ///
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
    /// let (start, start_of_day) = (Instant::now(), SystemTime::now());
    /// // Later: how far the wall clock went beyond the time that has passed.
    /// let ahead = start_of_day.elapsed().unwrap_or(Duration::ZERO).saturating_sub(start.elapsed());
    /// session.set_time_of_day_ahead(ahead.as_millis().try_into()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn set_time_of_day_ahead(&mut self, milliseconds: i64) {
        self.time_of_day_ahead_ms = milliseconds;
    }

    /// Since when this machine is out of service: since the first preparation that it was not recovered from. `None` if it
    /// is in service.
    pub const fn out_of_service_since(&self) -> Option<UnixMillis> {
        self.machine.due_since
    }

    /// Records that this machine is out of service, as is known without a snapshot: it is recovered once an event of it has ended
    /// and nothing keeps it out. If it is out of service already, nothing changes.
    ///
    /// ```
    /// use scheduled_events_core::{Response, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// session.set_out_of_service(now); // the snapshot that records it is damaged
    /// let mut poll = |body, now| {
    ///     while !matches!(session.take_step(now), Step::Get { .. }) {}
    ///     session.on_response(&Response { status: 200, body, ..Response::default() }, now);
    /// };
    /// poll(br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","Resources":["vm"]}]}"#, now);
    /// poll(br#"{"Events":[]}"#, now.plus(1000));
    /// let now = now.plus(1000);
    /// while !matches!(session.take_step(now), Step::Recover { own: true, .. }) {}
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn set_out_of_service(&mut self, now: UnixMillis) {
        if !self.machine.is_due() {
            self.machine.require(now);
        }
    }

    /// Since when this machine is in service: since its last recovery. `None` if it is out of service, and if it never was, so
    /// that this is not known.
    pub const fn in_service_since(&self) -> Option<UnixMillis> {
        if self.machine.is_due() {
            None
        } else {
            self.recovered_at
        }
    }

    /// The events that the recovery of this machine is for: those that ended while it was out of service, each once, the one
    /// that ended last first. If there are too many events to track, some may be missing, but not that one.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// let session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// let ids: Vec<_> = session.recovering().map(|event| event.event_id().as_str()).collect();
    /// assert!(ids.is_empty()); // nothing took the machine out of service
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn recovering(&self) -> impl Iterator<Item = &TrackedEvent> {
        let (tracked, dropped) = (self.tracker.slots(), self.last_ended.as_ref());
        recovering::Iter::of(Recovering::of(tracked, &self.progress, dropped))
    }

    /// The open events that keep this machine out of service: those that it prepared for, and those that have started. Of other open
    /// events the machine may not be out yet.
    ///
    /// ```
    /// use scheduled_events_core::{Action, EventKind, EventTypes, Policy, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let event_types = EventTypes::of(&[EventKind::Reboot]);
    /// let policy = Policy::new(&[Rule { event_types, ..Rule::new(Action::Prepare) }])?;
    /// let mut session = Session::<16>::new(&SessionConfig { policy, ..SessionConfig::new(VmNames::new(&["vm"])) })?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.take_step(now), Step::Get { .. }));
    /// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]},
    ///     {"EventId":"b","EventStatus":"Scheduled","EventType":"Freeze","Resources":["vm"]}]}"#;
    /// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
    /// while !matches!(session.take_step(now), Step::Prepare { .. }) {}
    /// assert!(session.keeping_out().map(|event| event.event_id().as_str()).eq(["a"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keeping_out(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.tracked()
            .filter(|(_, event, progress)| progress.keeps_out(event))
            .map(|(_, event, _)| event)
    }

    /// The ids of the events that the POST in progress approves, and after its result of those that it was for, until the next
    /// step or notification.
    ///
    /// ```
    /// use scheduled_events_core::{Policy, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig { policy: Policy::sample(), ..SessionConfig::new(VmNames::new(&["vm"])) })?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"],"EventSource":"User"}]}"#;
    /// assert!(matches!(session.take_step(now), Step::Get { .. }));
    /// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
    /// while !matches!(session.take_step(now.plus(200)), Step::Post { .. }) {}
    /// session.on_response(&Response { status: 200, ..Response::default() }, now.plus(300));
    /// assert!(session.posted().map(|id| id.as_str()).eq(["a"])); // for the record of the approval
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn posted(&self) -> impl Iterator<Item = &EventId> {
        let slots = match &self.request {
            Request::Post(slots) | Request::Answered(slots) => slots.as_slice(),
            Request::None | Request::Get => &[],
        };
        slots
            .iter()
            .filter_map(|&slot| self.tracker.get(slot))
            .map(TrackedEvent::event_id)
    }

    /// Whether the POST in progress approves the event in this slot: the slot is not used for another one then.
    fn is_being_approved(&self, slot: u16) -> bool {
        matches!(&self.request, Request::Post(slots) if slots.contains(&slot))
    }

    /// Forgets which events the last POST was for: from now on, others may get their slots.
    fn forget_answered(&mut self) {
        if matches!(self.request, Request::Answered(_)) {
            self.request = Request::None;
        }
    }

    /// Since when advice cannot be seen: the version of the API that has it brings no documents, several times in a row, while the other
    /// one does. `None` if it can be seen, and if nothing needs it. Advice that was announced holds for
    /// [`ADVICE_UNSEEN_MAX_MS`](limits::ADVICE_UNSEEN_MAX_MS), which restarts do not make longer, unless the service says that it does not know that version.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// let session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// assert_eq!(session.advice_unseen_since(), None);
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn advice_unseen_since(&self) -> Option<UnixMillis> {
        self.versions.advice_unseen_since()
    }

    /// Whether a request is in progress, so that its result must be passed to the session.
    pub const fn awaits_answer(&self) -> bool {
        matches!(self.request, Request::Get | Request::Post(_))
    }

    /// The tracked events. This includes events that are gone and not recovered from yet.
    pub fn events(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.tracker.iter()
    }

    /// Whether the session has ever seen an event, in this run or before the snapshot that it restored.
    pub const fn has_seen_event(&self) -> bool {
        self.event_seen
    }

    /// Whether the newest document, read since the start, has no events and nothing is left to report, prepare or
    /// recover. A session is not idle while it does not know whether a document is stale.
    pub fn is_idle(&self) -> bool {
        (self.documents.is_settled() || self.source == SessionSource::Notifications)
            && self.open_events == 0
            && self.tracker.is_empty()
            && !self.machine.is_due()
            && self.problems_reported >= self.problems.len()
            && !self.untracked_unreported
            && !self.versions.has_report()
    }

    /// The tracked events with their slots and their progress.
    fn tracked(&self) -> impl Iterator<Item = (u16, &TrackedEvent, &EventProgress)> {
        let slots = (0..self.tracker.slots_used()).zip(&self.progress);
        slots.filter_map(|(slot, progress)| Some((slot, self.tracker.get(slot)?, progress)))
    }

    /// Calls `work` with the names of this machine, which are taken out meanwhile, since they are borrowed while the session
    /// changes.
    fn with_names<T>(&mut self, work: impl FnOnce(&mut Self, VmNames<'_>) -> T) -> T {
        let names = core::mem::take(&mut self.names);
        let mut list = [""; NAMES_MAX];
        for (place, name) in list.iter_mut().zip(&names) {
            *place = name;
        }
        let known = VmNames::new(list.get(..names.len()).unwrap_or_default());
        let result = work(
            self,
            if self.underscored {
                known.underscored()
            } else {
                known
            },
        );
        self.names = names;
        result
    }

    fn time_of_day(&self, now: UnixMillis) -> UnixSeconds {
        UnixMillis(now.0.saturating_add(self.time_of_day_ahead_ms)).seconds()
    }

    fn set_progress(&mut self, slot: u16, new: EventProgress) {
        match self.progress.get_mut(usize::from(slot)) {
            Some(progress) => *progress = new,
            // The tracker uses its slots in order, so this is the next one, and both have the same capacity.
            None => drop(self.progress.push(new)),
        }
    }

    /// Stops tracking an event, but remembers whether it was approved.
    fn forget_event(&mut self, slot: u16) {
        if let Some(event) = self.tracker.get(slot).filter(|event| event.is_approved()) {
            self.approved_ids.insert(event.event_id.hash());
        }
        self.tracker.remove(slot);
    }

    /// Returns to the state of a new session, with the same configuration and the same pacing.
    fn reset(&mut self) {
        self.tracker.clear();
        self.progress.clear();
        self.machine = Recovery::default();
        self.recovered_at = None;
        self.last_ended = None;
        self.request = Request::None;
        self.documents = Documents::default();
        self.versions.forget();
        self.open_events = 0;
        self.approved_ids = ApprovedIds::new();
        self.saved = None;
        self.problems.clear();
        self.problems_reported = 0;
        self.untracked = Untracked::default();
        self.untracked_unreported = false;
        self.event_seen = false;
        self.is_restored = false;
    }
}

/// The hash of an id that identifies a machine or its boot; 0 for an empty one. Programs write the same id with or without
/// hyphens, in capitals, and with the line feed of the file that it is from: none of that counts.
fn id_hash(id: &str) -> u64 {
    let mut hash = Hash::new();
    let digits = id
        .bytes()
        .filter(|byte| *byte != b'-' && !byte.is_ascii_whitespace());
    digits.for_each(|byte| hash.byte(byte.to_ascii_lowercase()));
    if id.trim_ascii().is_empty() {
        0
    } else {
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_same_however_it_is_written() {
        let id = id_hash("02f5e1ba-9a6c");
        for same in ["02F5E1BA-9A6C", "02f5e1ba9a6c", "02f5e1ba-9a6c\n"] {
            assert_eq!(id_hash(same), id, "{same:?}");
        }
        assert_ne!(id_hash("02f5e1ba-9a6d"), id);
        assert_eq!((id_hash(""), id_hash("\n")), (0, 0));
    }
}
