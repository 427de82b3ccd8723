//! The channel through which other threads reach a watcher.

use std::sync::mpsc::Sender;
use std::thread;

use scheduled_events_core::{GateAnswer, GatePhase, Preparation};

use crate::imds::{HttpResponse, MetadataError, RequestFailure};
use crate::record::HookOutcome;

/// Something that happened on another thread.
pub(super) enum Message {
    /// The request in flight was answered, or failed.
    Response {
        answer: Result<HttpResponse, RequestFailure>,
        /// Whether a repetition of it was answered, which may have named another version.
        repeated: bool,
    },
    /// The machine's own name, or why it is unknown.
    Name(Result<String, String>),
    /// The machine's `vmId`, or why it is unknown.
    MachineId(Result<String, String>),
    /// A preparation ended.
    Prepared {
        attempt: u32,
        event_id: String,
        preparation: Preparation,
        outcome: HookOutcome,
    },
    /// A recovery ended.
    Recovered {
        attempt: u32,
        event_id: String,
        outcome: HookOutcome,
    },
    /// The gate answered.
    Gate {
        attempt: u32,
        event_id: String,
        phase: GatePhase,
        answer: GateAnswer,
    },
    /// The hook of this number ended.
    Completed(u64),
    /// The host has another policy.
    Reload,
    /// Somebody wants the watcher to stop.
    Stop,
}

/// Asks on a thread of its own, which sends the answer as a message. A refused thread is an answer, too.
pub(super) fn ask(
    responses: &Sender<Message>,
    question: impl FnOnce() -> Result<String, MetadataError> + Send + 'static,
    message: fn(Result<String, String>) -> Message,
) {
    let sender = responses.clone();
    let started = thread::Builder::new().spawn(move || {
        let _ = sender.send(message(question().map_err(|error| error.to_string())));
    });
    if let Err(error) = started {
        let _ = responses.send(message(Err(error.to_string())));
    }
}

/// Reports the result of a preparation, a recovery or a question to the gate, from any thread. Each attempt is to be answered
/// once, also if it was cancelled.
///
/// ```
/// use scheduled_events::imds::{API_VERSION, Imds};
/// use scheduled_events::record::{EventRecord, HookOutcome, TimedRecord};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
/// use scheduled_events::watch::{Host, Note, Reply, Watcher, WatcherOptions};
/// use scheduled_events_core::{Action, GateAnswer, GatePhase, Policy, Preparation, Rule};
/// use std::thread;
/// use std::time::Duration;
///
/// #[derive(Default)]
/// struct Machine {
///     attempts: Vec<u32>,
/// }
///
/// impl Host for Machine {
///     fn record(&mut self, _record: &TimedRecord<'_>) {}
///     fn note(&mut self, _note: &Note) {}
///     fn gate(&mut self, _event: &EventRecord, phase: GatePhase, reply: Reply) {
///         reply.gate(phase, GateAnswer::Open);
///     }
///     fn prepare(&mut self, _event: &EventRecord, _time_left: Option<Duration>, reply: Reply) {
///         self.attempts.push(reply.attempt());
///         // Polling goes on meanwhile.
///         thread::spawn(move || {
///             thread::sleep(Duration::from_millis(100)); // the connections end
///             reply.prepared(Preparation::Ready, HookOutcome::Ready);
///         });
///     }
///     fn recover(&mut self, _events: &[EventRecord], reply: Reply) {
///         reply.recovered(HookOutcome::Done);
///     }
/// }
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?).speed(60.0))?;
/// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
/// let options = WatcherOptions { policy, gate: true, until_idle: true, ..WatcherOptions::default() };
/// let mut machine = Machine::default();
/// Watcher::new(Imds::new(&server.url(), API_VERSION, false)?, options, None)?.run(&mut machine);
/// assert_eq!(machine.attempts.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    attempt: u32,
    event_id: String,
    by_last_call: bool,
    sender: Sender<Message>,
}

impl Reply {
    pub(super) fn new(attempt: u32, event_id: String, sender: Sender<Message>) -> Self {
        Self {
            attempt,
            event_id,
            by_last_call: false,
            sender,
        }
    }

    pub(super) fn with_last_call(self, by_last_call: bool) -> Self {
        Self {
            by_last_call,
            ..self
        }
    }

    /// The number of the attempt, by which [`Host::cancel`](super::Host::cancel) names it.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether this is a preparation by the last call: the gate has not answered yes.
    ///
    /// ```
    /// use scheduled_events::watch::Reply;
    ///
    /// /// What people see while the machine drains.
    /// fn message(reply: &Reply) -> &'static str {
    ///     if reply.by_last_call() { "draining without the gate" } else { "draining" }
    /// }
    /// # let _ = message;
    /// ```
    pub const fn by_last_call(&self) -> bool {
        self.by_last_call
    }

    /// Reports that the preparation ended. The record shows `outcome`.
    pub fn prepared(&self, preparation: Preparation, outcome: HookOutcome) {
        let (attempt, event_id) = (self.attempt, self.event_id.clone());
        let _ = self.sender.send(Message::Prepared {
            attempt,
            event_id,
            preparation,
            outcome,
        });
    }

    /// Reports that the recovery ended. The record shows `outcome`. One that failed is tried again.
    pub fn recovered(&self, outcome: HookOutcome) {
        let (attempt, event_id) = (self.attempt, self.event_id.clone());
        let _ = self.sender.send(Message::Recovered {
            attempt,
            event_id,
            outcome,
        });
    }

    /// Reports what the gate answered.
    pub fn gate(&self, phase: GatePhase, answer: GateAnswer) {
        let (attempt, event_id) = (self.attempt, self.event_id.clone());
        let _ = self.sender.send(Message::Gate {
            attempt,
            event_id,
            phase,
            answer,
        });
    }
}

/// Reports that the hook of a change has ended, from any thread.
///
/// ```
/// use scheduled_events::imds::{API_VERSION, Imds};
/// use scheduled_events::record::{EventRecord, TimedRecord};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
/// use scheduled_events::watch::{Completion, Host, Note, Reply, Watcher, WatcherOptions};
/// use scheduled_events_core::Change;
/// use std::time::Duration;
///
/// #[derive(Default)]
/// struct Pager {
///     changes: Vec<Change>,
/// }
///
/// impl Host for Pager {
///     fn changed(&mut self, change: Change, _event: &EventRecord, _: Option<Duration>, completion: Completion) -> bool {
///         self.changes.push(change);
///         std::thread::spawn(move || completion.complete()); // after the message was sent
///         true
///     }
/// #     fn record(&mut self, _record: &TimedRecord<'_>) {}
/// #     fn note(&mut self, _note: &Note) {}
/// #     fn prepare(&mut self, _event: &EventRecord, _time_left: Option<Duration>, _reply: Reply) {}
/// #     fn recover(&mut self, _events: &[EventRecord], _reply: Reply) {}
/// }
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?).speed(60.0))?;
/// let options = WatcherOptions { max_polls: Some(2), ..WatcherOptions::default() };
/// let mut pager = Pager::default();
/// Watcher::new(Imds::new(&server.url(), API_VERSION, false)?, options, None)?.run(&mut pager);
/// assert_eq!(pager.changes, [Change::Scheduled]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Completion {
    number: u64,
    sender: Sender<Message>,
}

impl Completion {
    pub(super) fn new(number: u64, sender: Sender<Message>) -> Self {
        Self { number, sender }
    }

    /// Reports that the hook has ended, successfully or not.
    pub fn complete(&self) {
        let _ = self.sender.send(Message::Completed(self.number));
    }
}

/// Stops a watcher from another thread, such as a signal handler's.
///
/// ```
/// use scheduled_events::imds::{API_VERSION, ENDPOINT, Imds};
/// use scheduled_events::watch::{Watcher, WatcherHandle, WatcherOptions};
///
/// let watcher = Watcher::new(Imds::new(ENDPOINT, API_VERSION, false)?, WatcherOptions::default(), None)?;
/// let handle: WatcherHandle = watcher.handle();
/// // On the thread that waits for SIGTERM.
/// handle.stop();
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WatcherHandle(pub(super) Sender<Message>);

impl WatcherHandle {
    /// Stops the watcher soon. It saves its state before [`run`](super::Watcher::run) returns.
    pub fn stop(&self) {
        let _ = self.0.send(Message::Stop);
    }

    /// Makes the watcher ask its host for another policy soon: see [`Host::reload`](super::Host::reload).
    ///
    /// ```
    /// use scheduled_events::imds::{API_VERSION, ENDPOINT, Imds};
    /// use scheduled_events::watch::{Watcher, WatcherOptions};
    ///
    /// let watcher = Watcher::new(Imds::new(ENDPOINT, API_VERSION, false)?, WatcherOptions::default(), None)?;
    /// // On the thread that waits for SIGHUP.
    /// watcher.handle().reload();
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn reload(&self) {
        let _ = self.0.send(Message::Reload);
    }
}
