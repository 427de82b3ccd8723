//! What each event waits for, and how far the recovery of the machine is: for people and for monitoring.
//!
//! It follows from the same state as the next step, and changes nothing.

use super::Session;
use super::command::{Command, GatePhase};
use super::event_progress::EventProgress;
use super::pending::{Context, Pending};
use super::recovery::Recovery;
use crate::policy::{Decision, Reason};
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::TrackedEvent;
use crate::words::words;

/// What has to happen next for an event.
///
/// ```
/// use scheduled_events_core::WaitsFor;
///
/// let in_progress = |waits_for| matches!(waits_for, WaitsFor::Preparation | WaitsFor::Recovery);
/// assert!(in_progress(WaitsFor::Preparation) && !in_progress(WaitsFor::Start));
/// assert_eq!(WaitsFor::StartUnapproved.word(), "start-unapproved");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitsFor {
    /// The next document: the first one since the start or since the names changed, or the one that has to confirm the event
    /// after the gate opened.
    Document,
    /// The time before which the rule neither prepares nor approves ([`Rule::prepare_before`](crate::Rule::prepare_before)).
    DueTime,
    /// The gate, which was asked or is asked again, before the preparation.
    GateToPrepare,
    /// The preparation, which runs or is about to start, or which failed and is tried again.
    Preparation,
    /// The gate before the approval.
    GateToApprove,
    /// The machines before this one, which approve first, as the policy's [`Leader::Rank`](crate::Leader::Rank) says.
    Turn,
    /// The approval, which is about to be posted, or posted again after a failure.
    Approval,
    /// The start of the event: it is approved.
    Start,
    /// The start of the event without an approval: the decision is not to approve it, or its `NotBefore` has passed before the gate opened.
    StartUnapproved,
    /// The start of the event without an approval: the preparation failed.
    StartUnprepared,
    /// The end of a command that is not needed any more. Only then the next one starts.
    CancelledCommand,
    /// The end of the event, which has started.
    End,
    /// The withdrawal of the advice, or the eviction that it advised of.
    Withdrawal,
    /// The recovery: the event is over.
    Recovery,
}

words!(WaitsFor {
    Document => "document",
    DueTime => "due-time",
    GateToPrepare => "gate-to-prepare",
    Preparation => "preparation",
    GateToApprove => "gate-to-approve",
    Turn => "turn",
    Approval => "approval",
    Start => "start",
    StartUnapproved => "start-unapproved",
    StartUnprepared => "start-unprepared",
    CancelledCommand => "cancelled-command",
    End => "end",
    Withdrawal => "withdrawal",
    Recovery => "recovery",
});

/// What a tracked event waits for, with the facts that explain it. See [`Session::waiting`].
///
/// ```
/// use scheduled_events_core::{Action, Policy, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames, WaitsFor};
///
/// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
/// let mut session = Session::<16>::new(&SessionConfig { policy, ..SessionConfig::new(VmNames::new(&["vm"])) })?;
/// let now = UnixMillis(1_600_000_000_000);
/// assert!(matches!(session.take_step(now), Step::Get { .. }));
/// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}]}"#;
/// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
/// while let Step::Report(_) = session.take_step(now) {}
/// // The preparation was issued, and the host works on it.
/// let (_, waiting) = session.waiting(now).next().unwrap();
/// assert_eq!(waiting.waits_for, WaitsFor::Preparation);
/// assert_eq!((waiting.since, waiting.attempt), (Some(now.seconds()), Some(1)));
/// assert_eq!(waiting.rule(), Some(1));
/// assert_eq!(waiting.reason().unwrap().to_string(), "a rule matches");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What has to happen next.
    pub waits_for: WaitsFor,
    /// Since when what it waits for runs: the host's command with the number `attempt`.
    pub since: Option<UnixSeconds>,
    /// When it happens at the earliest, or is tried again.
    pub until: Option<UnixSeconds>,
    /// The number of the attempt that runs.
    pub attempt: Option<u32>,
    /// Whether the machine prepares, or has prepared, by the last call: the gate has not answered yes since.
    pub by_last_call: bool,
    /// What the policy decided about the event in the newest document. `None` until the first document after a start.
    pub decision: Option<Decision>,
}

/// The recovery of a machine that is out of service. See [`Session::recovery`].
///
/// ```
/// use scheduled_events_core::{RecoveryStatus, UnixSeconds};
///
/// let describe = |recovery: &RecoveryStatus| match recovery.retry_at {
///     Some(time) => format!("failed {} times, tried again at {time}", recovery.failures),
///     None => "running".to_owned(),
/// };
/// let failed = RecoveryStatus { attempt: None, since: None, failures: 2, retry_at: Some(UnixSeconds(1_600_000_010)) };
/// assert_eq!(describe(&failed), "failed 2 times, tried again at 2020-09-13T12:26:50Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// The number of the attempt that runs; `None` if none does.
    pub attempt: Option<u32>,
    /// Since when it runs.
    pub since: Option<UnixSeconds>,
    /// How often it failed in a row.
    pub failures: u8,
    /// When it is tried again after a failure; `None` while an event keeps the machine out of service.
    pub retry_at: Option<UnixSeconds>,
}

impl Waiting {
    /// The rule that decided, from 1, if one did.
    pub fn rule(&self) -> Option<u16> {
        self.decision.and_then(|decision| decision.rule)
    }

    /// Why the policy decided so.
    pub fn reason(&self) -> Option<Reason> {
        self.decision.map(|decision| decision.reason)
    }
}

impl<const N: usize> Session<N> {
    /// What each tracked event waits for at the time `now`, in no particular order. Nothing changes by asking. All times are
    /// times of day.
    ///
    /// ```
    /// use scheduled_events_core::{Response, Session, SessionConfig, Step, UnixMillis, VmNames, WaitsFor};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.take_step(now), Step::Get { .. }));
    /// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}]}"#;
    /// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
    /// let (event, waiting) = session.waiting(now).next().unwrap();
    /// assert_eq!((event.event_id().as_str(), waiting.waits_for), ("a", WaitsFor::StartUnapproved));
    /// assert_eq!(waiting.reason().unwrap().to_string(), "the policy only observes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiting(&self, now: UnixMillis) -> impl Iterator<Item = (&TrackedEvent, Waiting)> {
        let context = self.context(now);
        let machine = self.shown_machine();
        self.tracked().map(move |(_, event, progress)| {
            let shown = progress.shown(event, context, &machine);
            let waiting = Waiting {
                waits_for: shown.waits_for,
                since: shown.command.map(|command| self.time_of_day(command.since)),
                until: shown.until.map(|until| match until {
                    Until::Clock(at) => self.time_of_day(at),
                    Until::TimeOfDay(at) => at,
                }),
                attempt: shown.command.map(|command| command.attempt),
                by_last_call: progress.by_last_call,
                decision: progress.decision,
            };
            (event, waiting)
        })
    }

    /// How far the recovery of this machine is; `None` if the machine is in service.
    pub fn recovery(&self) -> Option<RecoveryStatus> {
        let machine = Some(self.shown_machine()).filter(Recovery::is_due)?;
        Some(RecoveryStatus {
            attempt: machine.command.map(|command| command.attempt),
            since: machine
                .command
                .map(|command| self.time_of_day(command.since)),
            failures: machine.failures,
            retry_at: machine.retry_at().map(|at| self.time_of_day(at)),
        })
    }

    /// This machine's recovery. A failed one is not tried again at its time if an event keeps the machine out of service.
    fn shown_machine(&self) -> Recovery {
        let mut machine = self.machine.clone();
        if !self.may_recover() {
            machine.retry_at = None;
        }
        machine
    }
}

/// [`Waiting`] before its times are known as times of day.
struct Shown {
    waits_for: WaitsFor,
    command: Option<Command>,
    until: Option<Until>,
}

#[derive(Clone, Copy)]
enum Until {
    /// On the caller's clock.
    Clock(UnixMillis),
    TimeOfDay(UnixSeconds),
}

impl Shown {
    fn new(waits_for: WaitsFor) -> Self {
        Self {
            waits_for,
            command: None,
            until: None,
        }
    }

    fn of_command(waits_for: WaitsFor, command: Command) -> Self {
        let waits_for = if command.is_cancelled() {
            WaitsFor::CancelledCommand
        } else {
            waits_for
        };
        Self {
            command: Some(command),
            ..Self::new(waits_for)
        }
    }

    fn until(waits_for: WaitsFor, until: Option<Until>) -> Self {
        Self {
            until,
            ..Self::new(waits_for)
        }
    }
}

impl EventProgress {
    /// What people see of the event: what the host works on, or else what is pending.
    fn shown(&self, event: &TrackedEvent, context: Context, machine: &Recovery) -> Shown {
        if let Some(command) = self.command {
            return Shown::of_command(WaitsFor::Preparation, command);
        }
        let start = event.not_before().map(Until::TimeOfDay);
        let later = |at: UnixMillis| Some(Until::Clock(at)).filter(|_| at > context.now);
        let pending = self.pending(event, context, machine);
        // A question to the gate that the preparation did not wait for may still be open.
        match pending {
            Pending::Retry(at) => return Shown::until(WaitsFor::Preparation, later(at)),
            Pending::StartUnprepared => return Shown::until(WaitsFor::StartUnprepared, start),
            _ => {}
        }
        if let Some((phase, question)) = self.question {
            let waits_for = match phase {
                GatePhase::Prepare => WaitsFor::GateToPrepare,
                GatePhase::Approve => WaitsFor::GateToApprove,
            };
            return Shown::of_command(waits_for, question);
        }
        if let Some(command) = self.recovery.command {
            return Shown::of_command(WaitsFor::Recovery, command);
        }
        match pending {
            Pending::Recovery => {
                let recovery = if self.recovery.is_due() {
                    &self.recovery
                } else {
                    machine
                };
                Shown {
                    command: recovery.command,
                    ..Shown::until(WaitsFor::Recovery, recovery.retry_at().map(Until::Clock))
                }
            }
            Pending::End => Shown::new(WaitsFor::End),
            Pending::Withdrawal => Shown::new(WaitsFor::Withdrawal),
            Pending::Start => Shown::until(WaitsFor::Start, start),
            Pending::Decision | Pending::Confirmation => Shown::new(WaitsFor::Document),
            Pending::DueTime(_) => {
                let from = self.decision.and_then(|decision| decision.act_from);
                Shown::until(WaitsFor::DueTime, from.map(Until::TimeOfDay))
            }
            Pending::GateToPrepare { ask_at, .. } | Pending::LateYes(ask_at) => {
                Shown::until(WaitsFor::GateToPrepare, later(ask_at))
            }
            Pending::RecoveryGivesWay(command) => {
                Shown::of_command(WaitsFor::CancelledCommand, command)
            }
            Pending::Preparation => Shown::new(WaitsFor::Preparation),
            Pending::Retry(at) => Shown::until(WaitsFor::Preparation, later(at)),
            Pending::StartUnprepared => Shown::until(WaitsFor::StartUnprepared, start),
            Pending::RecoveryOfPrepared(command) => Shown::of_command(WaitsFor::Recovery, command),
            Pending::StartUnapproved => Shown::until(WaitsFor::StartUnapproved, start),
            Pending::GateToApprove(ask_at) => Shown::until(WaitsFor::GateToApprove, later(ask_at)),
            Pending::Approval(at) if at > context.now && self.approval_failures == 0 => {
                Shown::until(WaitsFor::Turn, later(at))
            }
            Pending::Approval(at) => Shown::until(WaitsFor::Approval, later(at)),
        }
    }
}
