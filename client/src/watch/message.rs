//! The channel through which other threads reach a watcher.

use std::sync::mpsc::Sender;
use std::thread;

use scheduled_events_core::{GateAnswer, GatePhase, Preparation};

use crate::imds::{HttpResponse, RequestFailure};
use crate::record::HookOutcome;

/// Something that happened on another thread.
pub(super) enum Message {
    /// The request in flight was answered, or failed.
    Response(Result<HttpResponse, RequestFailure>),
    /// The machine's own name, or why it is unknown.
    Name(Result<String, String>),
    /// The machine's `vmId`, or why it is unknown.
    MachineId(Result<String, String>),
    /// A preparation ended.
    Prepared { attempt: u32, event_id: String, preparation: Preparation, outcome: HookOutcome },
    /// A recovery ended.
    Recovered { attempt: u32, event_id: String, outcome: HookOutcome },
    /// The gate answered.
    Gate { attempt: u32, event_id: String, phase: GatePhase, answer: GateAnswer },
    /// The hook of this number ended.
    Completed(u64),
    /// Somebody wants the watcher to stop.
    Stop,
}

/// Asks on a thread of its own, which sends the answer as a message. A refused thread is an answer, too.
pub(super) fn ask(
    responses: &Sender<Message>,
    question: impl FnOnce() -> Result<String, String> + Send + 'static,
    message: fn(Result<String, String>) -> Message,
) {
    let sender = responses.clone();
    let started = thread::Builder::new().spawn(move || {
        let _ = sender.send(message(question()));
    });
    if let Err(error) = started {
        let _ = responses.send(message(Err(error.to_string())));
    }
}

/// Reports the result of a preparation, a recovery or a question to the gate, from any thread. Each attempt is to be answered
/// once, also if it was cancelled.
#[derive(Clone, Debug)]
pub struct Reply {
    attempt: u32,
    event_id: String,
    sender: Sender<Message>,
}

impl Reply {
    pub(super) fn new(attempt: u32, event_id: String, sender: Sender<Message>) -> Self {
        Self { attempt, event_id, sender }
    }

    /// The number of the attempt, by which [`Host::cancel`](super::Host::cancel) names it.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Reports that the preparation ended. The record shows `outcome`.
    pub fn prepared(&self, preparation: Preparation, outcome: HookOutcome) {
        let (attempt, event_id) = (self.attempt, self.event_id.clone());
        let _ = self.sender.send(Message::Prepared { attempt, event_id, preparation, outcome });
    }

    /// Reports that the recovery ended. The record shows `outcome`. One that failed is tried again.
    pub fn recovered(&self, outcome: HookOutcome) {
        let (attempt, event_id) = (self.attempt, self.event_id.clone());
        let _ = self.sender.send(Message::Recovered { attempt, event_id, outcome });
    }

    /// Reports what the gate answered.
    pub fn gate(&self, phase: GatePhase, answer: GateAnswer) {
        let (attempt, event_id) = (self.attempt, self.event_id.clone());
        let _ = self.sender.send(Message::Gate { attempt, event_id, phase, answer });
    }
}

/// Reports that the hook of a change has ended, from any thread.
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
#[derive(Clone, Debug)]
pub struct WatcherHandle(pub(super) Sender<Message>);

impl WatcherHandle {
    /// Stops the watcher soon. It saves its state before [`run`](super::Watcher::run) returns.
    pub fn stop(&self) {
        let _ = self.0.send(Message::Stop);
    }
}
