//! The host: the caller's side of a watcher, which acts and reports.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use scheduled_events_core::wire::{ADVICE_API_VERSION, API_VERSION};
use scheduled_events_core::{
    Change, OpenFailures, Policy, RequestOutcome, Session, TrackedEvent, UnixSeconds,
};

use super::message::Completion;
use super::reply::{GateReply, PrepareReply, RecoverReply};
use crate::imds::name_unknown;
use crate::limits::EVENTS_MAX;
use crate::record::{EventRecord, HookOutcome, TimedRecord};

/// Performs what a watcher decides: runs commands, calls functions, prints. Each method has a default, which does nothing: without
/// a preparation, an event whose rule asks for one is held. The default `gate` answers yes.
///
/// All methods are called on the watcher's thread and delay polling, so whatever takes time belongs on another thread; a reply can
/// be sent there. The functions of a [`WatcherBuilder`](super::WatcherBuilder) run on threads of their own.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::watch::{Host, PrepareReply, RecoverReply, Watcher};
/// use scheduled_events_core::{Action, Policy, Rule};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// #[derive(Default)]
/// struct Machine {
///     log: Vec<&'static str>,
/// }
///
/// impl Host for Machine {
///     fn prepare(&mut self, _event: &EventRecord, reply: PrepareReply) {
///         self.log.push("drained");
///         reply.ready();
///     }
///     fn recover(&mut self, _events: &[EventRecord], reply: RecoverReply) {
///         self.log.push("back in service");
///         reply.done();
///     }
/// }
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?).speed(60.0))?;
/// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
/// let mut machine = Machine::default();
/// Watcher::builder().endpoint(server.url()).policy(policy).until_idle(true).build()?.run_with(&mut machine);
/// assert_eq!(machine.log, ["drained", "back in service"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Host {
    /// Reports a record.
    fn record(&mut self, record: &TimedRecord<'_>) {
        let _ = record;
    }

    /// Reports a poll that ended: answered or failed. Unlike a record, that happens every second.
    fn polled(&mut self, poll: &Poll<'_>) {
        let _ = poll;
    }

    /// Reports something for the log, which is not a record.
    fn note(&mut self, note: &Note) {
        let _ = note;
    }

    /// Prepares the machine for the event. The host reports the result through `reply`, also if the attempt is cancelled.
    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        let _ = event;
        reply.report(HookOutcome::NoCommand);
    }

    /// Takes the machine back into service: nothing keeps it out any more. `events` are those that ended while it was out of
    /// service, the last one first. For another machine it is the one event that it was prepared for. The host reports the
    /// result through `reply`, also if the attempt is cancelled.
    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        let _ = events;
        reply.report(HookOutcome::NoCommand);
    }

    /// Asks whether this machine may go on; only with [`WatcherBuilder::asks_gate`](super::WatcherBuilder::asks_gate). The host
    /// reports the answer through `reply`, also if the attempt is cancelled.
    fn gate(&mut self, event: &EventRecord, reply: GateReply) {
        let _ = event;
        reply.open();
    }

    /// Ends the preparation, the recovery or the question with this attempt number. Its result does not count; until it is
    /// reported, nothing else is started in its place.
    fn cancel(&mut self, attempt: u32) {
        let _ = attempt;
    }

    /// Called once the machine's id is known, and so whether the restored state is its own. It is requested only for a watcher with a
    /// state file.
    fn identified(&mut self, state_is_own: bool) {
        let _ = state_is_own;
    }

    /// Called right before an approval is posted, to make durable what was recorded so far. It delays the approval, so it must not
    /// take longer than 2 seconds, whatever fails.
    fn before_approval(&mut self) {}

    /// Called after [`WatcherHandle::reload`](super::WatcherHandle::reload): returns the policy that counts from now on, or why it
    /// cannot be read. Then the one before counts, and [`Sight`](crate::state::Sight) has the reason. Whatever it replaces of itself,
    /// such as commands, it replaces here. Reading a file may take time, and so belongs on another thread, before `reload`.
    fn reload(&mut self) -> Option<Result<Policy, Box<dyn Error + Send + Sync>>> {
        None
    }

    /// Called several times per poll, for supervision. The watcher calls it again within the returned time unless something hangs.
    fn heartbeat(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        let _ = status;
        None
    }

    /// Starts the hooks for a change that was recorded, and returns whether there are any. The host reports their end through
    /// `completion`. Until then the watcher does not stop by itself; if it is stopped or killed, the next run calls this again.
    fn changed(
        &mut self,
        change: Change,
        event: &EventRecord,
        time_left: Option<Duration>,
        completion: Completion,
    ) -> bool {
        let _ = (change, event, time_left, completion);
        false
    }
}

/// A poll that ended.
///
/// ```
/// use scheduled_events::watch::{Host, Poll, Watcher};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// /// Counts polls and the events that they show.
/// #[derive(Default)]
/// struct Monitor {
///     polls: u64,
///     events: usize,
/// }
///
/// impl Host for Monitor {
///     fn polled(&mut self, poll: &Poll<'_>) {
///         self.polls += 1;
///         self.events = poll.events().count();
///         assert!(!poll.out_of_service()); // nothing was prepared for
///     }
/// }
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?))?;
/// let mut monitor = Monitor::default();
/// Watcher::builder().endpoint(server.url()).max_polls(Some(1)).build()?.run_with(&mut monitor);
/// assert_eq!((monitor.polls, monitor.events), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Poll<'a> {
    /// How it ended; never a result of an approval.
    pub outcome: RequestOutcome,
    /// How long it took.
    pub duration: Duration,
    /// When it ended.
    pub time: UnixSeconds,
    pub(crate) session: &'a Session<EVENTS_MAX>,
}

impl<'a> Poll<'a> {
    /// The events that are open after it, those of other machines included.
    pub fn events(&self) -> impl Iterator<Item = &'a TrackedEvent> + use<'a> {
        self.session.events().filter(|event| !event.is_gone())
    }

    /// Whether the machine is out of service: prepared for an event, and not recovered from it.
    pub fn out_of_service(&self) -> bool {
        self.session.out_of_service_since().is_some()
    }
}

/// The state of a watcher.
///
/// ```
/// use scheduled_events::watch::WatchStatus;
///
/// let line = |status: &WatchStatus<'_>| match status.failure {
///     Some(failure) => format!("the last poll failed: {failure}"),
///     None if status.out_of_service => "out of service".to_owned(),
///     None => format!("{} events", status.events),
/// };
/// let status = WatchStatus {
///     answered: true,
///     events: 1,
///     failure: Some("status 503"),
///     is_polling: true,
///     ..WatchStatus::default()
/// };
/// assert_eq!(line(&status), "the last poll failed: status 503");
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
pub struct WatchStatus<'a> {
    /// Whether a document was read since the start.
    pub answered: bool,
    /// Since when no document arrives, once that is longer than 10 seconds, or than three intervals.
    pub blind_since: Option<UnixSeconds>,
    /// For how long no document has arrived, once that is too long; zero before.
    pub blind_for: Duration,
    /// By how many seconds this machine's clock is ahead of the service's, less than zero if it lags; zero as long as it differs by no
    /// more than 2 seconds. `None` if no answer had a date.
    pub clock_offset_seconds: Option<i64>,
    /// The number of tracked events.
    pub events: usize,
    /// Why the last poll failed, if it did.
    pub failure: Option<&'a str>,
    /// Whether polls are still made, successfully or not. If not, the watcher has a defect, and a supervisor should restart it.
    pub is_polling: bool,
    /// Whether the machine is out of service.
    pub out_of_service: bool,
    /// What has failed and is not resolved yet.
    pub open_failures: OpenFailures,
    /// How often the state file could not be written, in this run.
    pub save_failures: u64,
    /// Whether the last attempt to write the state file failed.
    pub is_unsaved: bool,
}

/// A message for the log. `Display` writes it as a sentence without a full stop; [`severity`](Self::severity) classifies it.
///
/// ```
/// use scheduled_events::watch::{Note, Severity};
///
/// let note = Note::NameKnown("web_0".to_owned());
/// assert_eq!(note.severity(), Severity::Note);
/// assert!(note.to_string().contains("web_0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The machine's own name is known now.
    NameKnown(String),
    /// The machine's own name could not be determined, for this reason. All events are held until it is known.
    NameUnknown(String),
    /// The machine's `vmId` could not be determined, for this reason: a state of another machine, whose disk was copied, would
    /// not be noticed.
    MachineIdUnknown(String),
    /// The state file cannot be used, and was moved out of the way. The watcher starts without state.
    StateQuarantined {
        /// The file's new path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The state file could not be written, for this reason. The watcher continues and tries again.
    StateNotSaved(String),
    /// The state file is written again.
    StateResumed,
    /// The audit file could not be written, for this reason. The watcher continues, and the write is repeated.
    AuditNotWritten(String),
    /// The audit file is written again.
    AuditResumed,
    /// The records so far were not synced to the audit file in time. What waits for that continues.
    AuditNotSynced,
    /// Records are missing in the audit file.
    AuditGap {
        /// The number of records.
        lost: u64,
    },
    /// The metrics file could not be written, for this reason. The watcher continues, and the write is repeated.
    MetricsNotWritten(String),
    /// The metrics file is written again.
    MetricsResumed,
    /// The state of the last run was restored.
    StateRestored {
        /// The number of tracked events.
        events: usize,
    },
    /// The first poll has no answer for 5 seconds, and is sent again beside it.
    NoAnswerYet,
    /// The version of the API that has advice brings no documents any more, and the other one does. Noted once.
    AdviceUnseen,
    /// No document arrives: events may be announced unseen. Noted once, until one arrives.
    Blind {
        /// How long ago the last one arrived, or the watcher started.
        after: Duration,
        /// How many polls failed since.
        failed_polls: u32,
        /// Why the last one failed, if one did.
        cause: Option<String>,
    },
    /// A document arrived after the watcher was blind.
    SeesAgain {
        /// For how long there was none.
        after: Duration,
    },
    /// Whether documents arrive could not be reported beside the state file, for this reason. It is tried again.
    SightNotReported(String),
    /// Another policy counts, as [`Host::reload`] returned it.
    Reloaded {
        /// The number of its rules.
        rules: usize,
    },
    /// The policy could not be read again, for this reason. The one before counts.
    NotReloaded(String),
    /// A function that prepares or recovers returned an error.
    FunctionFailed {
        /// The id of the event.
        event_id: String,
        /// The error.
        reason: String,
    },
    /// A poll failed, for this reason.
    PollFailed(String),
    /// An approval failed, for this reason.
    ApprovalFailed(String),
    /// The service sent a document that it had already replaced.
    StaleDocument,
    /// The wall clock stepped too far, and the step is ignored.
    ClockStepIgnored,
    /// This machine's clock lags the service's, which counts for `NotBefore`, by this time.
    ClockLags(Duration),
    /// This machine's clock is ahead of the service's, which counts for `NotBefore`, by this time.
    ClockIsAhead(Duration),
}

/// How important a [`Note`] is.
///
/// ```
/// use scheduled_events::watch::{Note, Severity};
///
/// let severity = Note::PollFailed("status 503".to_owned()).severity();
/// assert_eq!(severity, Severity::Warning);
/// assert_eq!(severity.word(), "warning");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Note,
    /// Something failed that the watcher handles.
    Warning,
    /// Something failed that needs a person.
    Error,
}

impl Severity {
    /// The word that starts a diagnostic: `note`, `warning` or `error`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Note {
    /// How important the note is.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::NameKnown(_)
            | Self::StateRestored { .. }
            | Self::StateResumed
            | Self::SeesAgain { .. }
            | Self::Reloaded { .. }
            | Self::AuditResumed
            | Self::MetricsResumed => Severity::Note,
            Self::StateNotSaved(_)
            | Self::AuditNotWritten(_)
            | Self::AuditGap { .. }
            | Self::NotReloaded(_) => Severity::Error,
            Self::NameUnknown(_)
            | Self::MachineIdUnknown(_)
            | Self::StateQuarantined { .. }
            | Self::FunctionFailed { .. }
            | Self::PollFailed(_)
            | Self::ApprovalFailed(_)
            | Self::StaleDocument
            | Self::AuditNotSynced
            | Self::MetricsNotWritten(_)
            | Self::ClockStepIgnored
            | Self::NoAnswerYet
            | Self::AdviceUnseen
            | Self::Blind { .. }
            | Self::SightNotReported(_)
            | Self::ClockLags(_)
            | Self::ClockIsAhead(_) => Severity::Warning,
        }
    }
}

impl fmt::Display for Note {
    /// Texts from outside are written as they are: escape them before they reach a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameKnown(name) => write!(f, "this machine is {name}"),
            Self::NameUnknown(reason) => {
                write!(f, "{}; all events are held until it is known", name_unknown(reason))
            }
            Self::MachineIdUnknown(reason) => {
                write!(f, "cannot determine this machine's vmId ({reason}); the state file is taken to be this machine's")
            }
            Self::StateQuarantined { path, reason } => write!(
                f,
                "the state file cannot be used ({reason}); it was moved to {}, and this run starts without state",
                path.display()
            ),
            Self::StateNotSaved(reason) => {
                write!(f, "cannot write the state file, so a restart would lose the current state: {reason}")
            }
            Self::StateResumed => f.write_str("the state file is written again"),
            Self::AuditNotWritten(reason) => write!(f, "cannot write the audit file: {reason}"),
            Self::AuditResumed => f.write_str("the audit file is written again"),
            Self::MetricsNotWritten(reason) => write!(f, "cannot write the metrics file: {reason}"),
            Self::MetricsResumed => f.write_str("the metrics file is written again"),
            Self::AuditNotSynced => f.write_str("the audit file was not synced within 2 seconds; nothing waits for it"),
            Self::AuditGap { lost } => {
                write!(f, "the audit file lacks {lost} {}", if *lost == 1 { "record" } else { "records" })
            }
            Self::StateRestored { events } => {
                write!(f, "restored the state of the last run: {events} {}", if *events == 1 { "event" } else { "events" })
            }
            Self::NoAnswerYet => write!(
                f,
                "the metadata service has not answered yet: it may be starting, which takes up to two minutes, or a firewall drops the requests; asking again meanwhile",
            ),
            Self::AdviceUnseen => write!(
                f,
                "advice cannot be seen at present: the metadata service brings no document in API version {ADVICE_API_VERSION}, and it does in {API_VERSION}; asking for advice again after a minute, then less often",
            ),
            Self::Blind { after, failed_polls, cause } => {
                let cause = cause.as_deref().unwrap_or("none");
                write!(
                    f,
                    "blind: no document from the metadata service for {} s; failed polls: {failed_polls}; last failure: {cause}",
                    after.as_secs()
                )
            }
            Self::SeesAgain { after } => write!(
                f,
                "documents from the metadata service arrive again, after {} s without one",
                after.as_secs()
            ),
            Self::SightNotReported(reason) => {
                write!(f, "cannot report to `status` whether documents arrive: {reason}")
            }
            Self::Reloaded { rules } => write!(
                f,
                "the configuration was read again: {rules} {}",
                if *rules == 1 { "rule" } else { "rules" }
            ),
            Self::NotReloaded(reason) => {
                write!(f, "the configuration was not read again, and the one before counts: {reason}")
            }
            Self::FunctionFailed { event_id, reason } => {
                write!(f, "the function for the event {event_id} failed: {reason}")
            }
            Self::PollFailed(reason) => write!(f, "poll failed: {reason}"),
            Self::ApprovalFailed(reason) => write!(f, "approval failed: {reason}"),
            Self::StaleDocument => f.write_str("ignored an outdated document; it is accepted if the service keeps sending it"),
            Self::ClockStepIgnored => f.write_str(
                "the wall clock was set by more than an hour, which is ignored; restart the watcher if the clock is right now",
            ),
            Self::ClockLags(time) => write!(
                f,
                "this machine's clock lags the metadata service's, by which events are expected, by {} s; synchronise it",
                time.as_secs()
            ),
            Self::ClockIsAhead(time) => write!(
                f,
                "this machine's clock is ahead of the metadata service's, by which events are expected, by {} s; synchronise it",
                time.as_secs()
            ),
        }
    }
}
