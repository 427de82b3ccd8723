//! What a host answers through: one type for each question, each answered once, from any thread.
//!
//! A reply that is dropped without an answer, as at a panic, answers that the attempt failed.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use scheduled_events_core::{GateAnswer, GatePhase};

use super::message::{Answer, Message};
use crate::record::HookOutcome;

/// An attempt that is sent its answer when it is dropped.
#[derive(Debug)]
struct Attempt {
    number: u32,
    event_id: String,
    answer: Answer,
    /// Why it failed, as far as the log does not have it yet.
    reason: Option<String>,
    sender: Option<Sender<Message>>,
}

impl Attempt {
    /// `answer` is what it is sent if it is dropped without another one; without a sender, nothing is.
    const fn new(
        number: u32,
        event_id: String,
        answer: Answer,
        sender: Option<Sender<Message>>,
    ) -> Self {
        Self {
            number,
            event_id,
            answer,
            reason: None,
            sender,
        }
    }

    fn answer(mut self, answer: Answer) {
        self.answer = answer;
    }

    fn fail(mut self, reason: String) {
        self.reason = Some(reason);
    }

    fn leave_open(mut self) {
        self.sender = None;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Message::Answered {
                attempt: self.number,
                event_id: std::mem::take(&mut self.event_id),
                answer: self.answer,
                reason: self.reason.take(),
            });
        }
    }
}

/// What all replies have.
macro_rules! reply {
    ($name:ident) => {
        impl $name {
            /// The number of the attempt, by which [`Host::cancel`](super::Host::cancel) names it.
            pub const fn attempt(&self) -> u32 {
                self.attempt.number
            }

            /// Answers nothing: the result is unknown, and the watcher waits for it as long as it runs. A restart repeats the
            /// attempt.
            pub fn leave_open(self) {
                self.attempt.leave_open();
            }
        }
    };
}

reply!(PrepareReply);
reply!(RecoverReply);
reply!(GateReply);

/// Answers whether the machine is prepared. Dropped without an answer, it answers that the preparation failed, which is then tried
/// again.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::watch::{Host, PrepareReply, RecoverReply, Watcher};
/// use scheduled_events_core::{Action, Policy, Rule};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
/// use std::thread;
/// use std::time::Duration;
///
/// #[derive(Default)]
/// struct Machine {
///     attempts: Vec<u32>,
/// }
///
/// impl Host for Machine {
///     fn prepare(&mut self, _event: &EventRecord, reply: PrepareReply) {
///         self.attempts.push(reply.attempt());
///         // Polling goes on meanwhile.
///         thread::spawn(move || {
///             thread::sleep(Duration::from_millis(100)); // the connections end
///             reply.ready();
///         });
///     }
///     fn recover(&mut self, _events: &[EventRecord], reply: RecoverReply) {
///         reply.done();
///     }
/// }
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?).speed(60.0))?;
/// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
/// let mut machine = Machine::default();
/// Watcher::builder().endpoint(server.url()).policy(policy).until_idle(true).build()?.run_with(&mut machine);
/// assert_eq!(machine.attempts.len(), 1);
///
/// /// What a command that has ended means, if it has.
/// fn answer(reply: PrepareReply, exit_code: Option<i32>) {
///     let has_time = reply.time_left().is_none_or(|left| left > Duration::from_secs(60));
///     match exit_code {
///         Some(0) => reply.ready(),
///         Some(78) if has_time && !reply.by_last_call() => reply.abandoned(),
///         Some(_) => reply.failed(), // as `reply.report(HookOutcome::Failed)`
///         None => reply.leave_open(),
///     }
/// }
/// # let _ = (answer, |reply: PrepareReply| reply.report(scheduled_events::record::HookOutcome::Failed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a dropped reply answers that the preparation failed"]
pub struct PrepareReply {
    attempt: Attempt,
    by_last_call: bool,
    due: Option<Instant>,
}

impl PrepareReply {
    pub(super) fn new(
        number: u32,
        event_id: String,
        by_last_call: bool,
        time_left: Option<Duration>,
        sender: Sender<Message>,
    ) -> Self {
        Self {
            attempt: Attempt::new(
                number,
                event_id,
                Answer::Prepared(HookOutcome::Failed),
                Some(sender),
            ),
            by_last_call,
            due: time_left.and_then(|left| Instant::now().checked_add(left)),
        }
    }

    /// A reply to nobody, for tests of a host.
    ///
    /// ```
    /// use scheduled_events::watch::PrepareReply;
    ///
    /// let reply = PrepareReply::detached(1);
    /// assert_eq!((reply.attempt(), reply.by_last_call(), reply.time_left()), (1, false, None));
    /// reply.ready();
    /// ```
    pub fn detached(attempt: u32) -> Self {
        Self {
            attempt: Attempt::new(
                attempt,
                String::new(),
                Answer::Prepared(HookOutcome::Failed),
                None,
            ),
            by_last_call: false,
            due: None,
        }
    }

    /// Whether this is a preparation by the last call: the gate has not answered yes.
    pub const fn by_last_call(&self) -> bool {
        self.by_last_call
    }

    /// How much time is left until the event may start; `None` if that is unknown. A wrong clock of this machine does not change it.
    pub fn time_left(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// The machine is ready for the event, which may be approved.
    pub fn ready(self) {
        self.report(HookOutcome::Ready);
    }

    /// The preparation failed. It is tried again while there is time.
    pub fn failed(self) {
        self.report(HookOutcome::Failed);
    }

    /// The preparation failed, and is not tried again: the event is held.
    pub fn abandoned(self) {
        self.report(HookOutcome::Abandoned);
    }

    /// Reports this outcome of the preparation, which the record shows; [`HookOutcome::preparation`] says what it leads to.
    pub fn report(self, outcome: HookOutcome) {
        self.attempt.answer(Answer::Prepared(outcome));
    }

    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn fail(self, reason: String) {
        self.attempt.fail(reason);
    }
}

/// Answers whether the machine is back in service. Dropped without an answer, it answers that the recovery failed, which is then
/// tried again.
///
/// ```
/// use scheduled_events::record::HookOutcome;
/// use scheduled_events::watch::RecoverReply;
///
/// fn answer(reply: RecoverReply, is_healthy: Option<bool>) {
///     println!("recovery {}", reply.attempt());
///     match is_healthy {
///         Some(true) => reply.done(),
///         Some(false) => reply.failed(), // as `reply.report(HookOutcome::Failed)`
///         None => reply.leave_open(),
///     }
/// }
/// # let _ = (answer, |reply: RecoverReply| reply.report(HookOutcome::Failed));
/// ```
#[derive(Debug)]
#[must_use = "a dropped reply answers that the recovery failed"]
pub struct RecoverReply {
    attempt: Attempt,
}

impl RecoverReply {
    pub(super) const fn new(number: u32, event_id: String, sender: Sender<Message>) -> Self {
        Self {
            attempt: Attempt::new(
                number,
                event_id,
                Answer::Recovered(HookOutcome::Failed),
                Some(sender),
            ),
        }
    }

    /// The machine is back in service.
    pub fn done(self) {
        self.report(HookOutcome::Done);
    }

    /// The recovery failed. It is tried again.
    pub fn failed(self) {
        self.report(HookOutcome::Failed);
    }

    /// Reports this outcome of the recovery, which the record shows; see [`HookOutcome::has_recovered`].
    pub fn report(self, outcome: HookOutcome) {
        self.attempt.answer(Answer::Recovered(outcome));
    }

    pub(super) fn fail(self, reason: String) {
        self.attempt.fail(reason);
    }
}

/// Answers whether this machine may go on. Dropped without an answer, it answers not yet, and the question is asked again.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::watch::{GateReply, Host};
/// use scheduled_events_core::GatePhase;
///
/// struct Fleet {
///     has_spare_machine: bool,
/// }
///
/// impl Host for Fleet {
///     fn gate(&mut self, _event: &EventRecord, reply: GateReply) {
///         println!("question {}", reply.attempt());
///         match reply.phase() {
///             GatePhase::Prepare if !self.has_spare_machine => reply.closed(),
///             _ => reply.open(), // as `reply.report(GateAnswer::Open)`
///         }
///     }
/// }
/// # use scheduled_events_core::GateAnswer;
/// # let _ = (|reply: GateReply| reply.report(GateAnswer::Open), |reply: GateReply| reply.leave_open());
/// ```
#[derive(Debug)]
#[must_use = "a dropped reply answers not yet"]
pub struct GateReply {
    attempt: Attempt,
    phase: GatePhase,
}

impl GateReply {
    pub(super) const fn new(
        number: u32,
        event_id: String,
        phase: GatePhase,
        sender: Sender<Message>,
    ) -> Self {
        Self {
            attempt: Attempt::new(
                number,
                event_id,
                Answer::Gate(phase, GateAnswer::Closed),
                Some(sender),
            ),
            phase,
        }
    }

    /// Whether the question is to prepare or to approve.
    pub const fn phase(&self) -> GatePhase {
        self.phase
    }

    /// Yes, go on.
    pub fn open(self) {
        self.report(GateAnswer::Open);
    }

    /// Not yet: ask again.
    pub fn closed(self) {
        self.report(GateAnswer::Closed);
    }

    /// Answers with this value.
    pub fn report(self, answer: GateAnswer) {
        let phase = self.phase;
        self.attempt.answer(Answer::Gate(phase, answer));
    }
}
