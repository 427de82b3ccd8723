//! What a session asks its host to do.

use core::fmt;

use super::command::GatePhase;
use super::recovering::Recovering;
use crate::event::Problem;
use crate::policy::Decision;
use crate::time::UnixMillis;
use crate::tracker::{Change, TrackedEvent};
use crate::wire::ADVICE_API_VERSION;

/// What the host does next, as returned by [`Session::take_step`](crate::Session::take_step).
///
/// ```
/// use scheduled_events_core::{Session, SessionConfig, Step, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
/// // The first request may wait for the service to start.
/// let Step::Get { api_version, timeout_ms } = session.take_step(UnixMillis(1_600_000_000_000)) else { panic!("expected a poll") };
/// assert_eq!((api_version, timeout_ms), ("2020-07-01", 130_000));
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Step<'s> {
    /// Send a GET that names this version of the API. Pass the response to [`on_response`](crate::Session::on_response), or the failure to
    /// [`on_failure`](crate::Session::on_failure).
    Get {
        /// The version: see [`SessionConfig::api_version`](crate::SessionConfig::api_version).
        api_version: &'s str,
        /// The timeout of the request, in milliseconds. The first one may take long, since the service may have to start. Do not
        /// rely on one connection for so long: after [`TIMEOUT_MS`](super::limits::TIMEOUT_MS) send the GET again beside it, and
        /// then every ten seconds, at most three at a time, each with a timeout of less than twenty seconds and the version
        /// [`repeat_version`](crate::Session::repeat_version). Pass on the first answer; if it is one to a repetition, call
        /// [`repeat_answered`](crate::Session::repeat_answered) before.
        timeout_ms: u32,
    },
    /// Send this body with POST, and pass on the result as for a GET. [`Session::posted`](crate::Session::posted) lists
    /// the events that it approves, also after the result.
    Post {
        /// The body, JSON.
        body: &'s [u8],
        /// The version of the API.
        api_version: &'s str,
        /// The timeout of the request, in milliseconds.
        timeout_ms: u32,
    },
    /// There is nothing to do until this time. Call `take_step` again then, or earlier after any other call.
    Wait {
        /// When to call `take_step` again.
        until: UnixMillis,
    },
    /// Prepare for the event, then pass the result to [`prepared`](crate::Session::prepared). The machine counts as out of
    /// service from now on.
    Prepare {
        /// The event: of this machine, or of another one that a rule covers.
        event: &'s TrackedEvent,
        /// Whether it is the last call: the gate has not answered yes.
        by_last_call: bool,
        /// The number to return with the result.
        attempt: u32,
    },
    /// Take the machine back into service, then call [`recovered`](crate::Session::recovered). For this machine, it is
    /// issued once no event keeps it out of service; for another one that a rule covers, when its event is over.
    Recover {
        /// The events that it is for, as they were last seen, the one that ended last first.
        events: Recovering<'s>,
        /// Whether it is this machine that recovers: from all events that ended while it was out of service. Otherwise it is
        /// the event's other machine, from this event only.
        own: bool,
        /// The number to return with the result.
        attempt: u32,
    },
    /// Ask whether this machine may go on, then pass the answer to [`gate_answered`](crate::Session::gate_answered). Issued
    /// only with [`SessionConfig::gate`](crate::SessionConfig::gate).
    Gate {
        /// The event.
        event: &'s TrackedEvent,
        /// Whether it is about the preparation or the approval.
        phase: GatePhase,
        /// The number to return with the answer.
        attempt: u32,
    },
    /// End what runs for this attempt, and report its result as usual: it does not count, but until then nothing else is
    /// issued for the event, or for the recovery, except a preparation by the last call.
    Cancel {
        /// The number of the attempt.
        attempt: u32,
    },
    /// Show or log this report.
    Report(Report<&'s TrackedEvent>),
}

/// Information for people and logs, about an event that is an `E`: a [`TrackedEvent`] as the session reports it, or what the
/// host makes of that with [`map`](Self::map).
///
/// [`Record::from_report`](crate::record::Record::from_report) makes its record.
///
/// ```
/// use scheduled_events_core::{Report, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
/// let now = UnixMillis(1_600_000_000_000);
/// assert!(matches!(session.take_step(now), Step::Get { .. }));
/// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}]}"#;
/// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
/// let mut lines = Vec::new();
/// while let Step::Report(report) = session.take_step(now) {
///     lines.push(report.to_string());
/// }
/// assert_eq!(lines, ["a: scheduled", "a: hold (the policy only observes)"]);
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Report<E> {
    /// An event changed.
    Change {
        /// What changed.
        change: Change,
        /// The event after the change.
        event: E,
    },
    /// The policy decided about an event for the first time, or differently than before.
    Decision {
        /// The decision.
        decision: Decision,
        /// The event.
        event: E,
    },
    /// The last call: the machine prepares for the event although the gate has not answered yes. Approving it still takes the gate's
    /// yes. See [`SessionConfig::last_call`](crate::SessionConfig::last_call).
    LastCall {
        /// The event.
        event: E,
    },
    /// A problem in the newest document. Its offset refers to the body of that document.
    Problem(Problem),
    /// The number of events that the session cannot track changed.
    Untracked(Untracked),
    /// The service does not know the version of the API that has advice: there is none until it does. Reported once.
    NoAdvice,
}

impl<E> Report<E> {
    /// The event that it is about, if it is about one.
    ///
    /// ```
    /// use scheduled_events_core::{Change, Report, Untracked};
    ///
    /// let change = Report::Change { change: Change::Started, event: "a" };
    /// assert_eq!(change.event(), Some(&"a"));
    /// assert_eq!(Report::<&str>::Untracked(Untracked::default()).event(), None);
    /// ```
    pub const fn event(&self) -> Option<&E> {
        match self {
            Self::Change { event, .. }
            | Self::Decision { event, .. }
            | Self::LastCall { event } => Some(event),
            Self::Problem(_) | Self::Untracked(_) | Self::NoAdvice => None,
        }
    }

    /// The same report about a reference to the event, for [`map`](Self::map).
    ///
    /// ```
    /// use scheduled_events_core::{Change, Report};
    ///
    /// let report = Report::Change { change: Change::Started, event: "a".to_owned() };
    /// assert_eq!(report.as_ref().map(String::as_str).event(), Some(&"a"));
    /// ```
    pub const fn as_ref(&self) -> Report<&E> {
        match self {
            Self::Change { change, event } => Report::Change {
                change: *change,
                event,
            },
            Self::Decision { decision, event } => Report::Decision {
                decision: *decision,
                event,
            },
            Self::LastCall { event } => Report::LastCall { event },
            Self::Problem(problem) => Report::Problem(*problem),
            Self::Untracked(untracked) => Report::Untracked(*untracked),
            Self::NoAdvice => Report::NoAdvice,
        }
    }

    /// The same report with what `of` makes of its event, such as a copy that outlives the session's step.
    ///
    /// ```
    /// use scheduled_events_core::{Change, Report};
    ///
    /// let report = Report::Change { change: Change::Started, event: "a" };
    /// assert_eq!(report.map(str::to_owned).event(), Some(&"a".to_owned()));
    /// ```
    pub fn map<F>(self, of: impl FnOnce(E) -> F) -> Report<F> {
        match self {
            Self::Change { change, event } => Report::Change {
                change,
                event: of(event),
            },
            Self::Decision { decision, event } => Report::Decision {
                decision,
                event: of(event),
            },
            Self::LastCall { event } => Report::LastCall { event: of(event) },
            Self::Problem(problem) => Report::Problem(problem),
            Self::Untracked(untracked) => Report::Untracked(untracked),
            Self::NoAdvice => Report::NoAdvice,
        }
    }
}

impl fmt::Display for Report<&TrackedEvent> {
    /// Writes one line. Ids are written as received: escape control characters before you print it to a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change { change, event } => write!(f, "{}: {change}", event.event_id()),
            Self::Decision { decision, event } => {
                write!(
                    f,
                    "{}: {} ({})",
                    event.event_id(),
                    decision.action,
                    decision.reason
                )
            }
            Self::LastCall { event } => write!(
                f,
                "{}: last call: preparing without the gate's yes",
                event.event_id()
            ),
            Self::Problem(problem) => {
                write!(f, "{} at byte {}", problem.kind.word(), problem.offset)
            }
            Self::Untracked(Untracked { own, others }) => {
                write!(
                    f,
                    "not tracked: {own} own events, {others} of other machines"
                )
            }
            Self::NoAdvice => write!(
                f,
                "no advice: the service does not know API version {ADVICE_API_VERSION}"
            ),
        }
    }
}

/// How many events of the newest document exceed the capacity of the session.
///
/// An event of another machine that is evicted for one of this machine's is reported as new when it is tracked again.
///
/// ```
/// use scheduled_events_core::{Report, TrackedEvent, Untracked};
///
/// let untracked = Untracked { own: 0, others: 936 };
/// assert_eq!(Report::<&TrackedEvent>::Untracked(untracked).to_string(), "not tracked: 0 own events, 936 of other machines");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// Events of this machine, those with the latest deadlines. More than zero is an error: the session is too small.
    pub own: usize,
    /// Events of other machines.
    pub others: usize,
}
