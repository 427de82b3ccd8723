//! The channel through which other threads reach a watcher.

use std::sync::mpsc::Sender;

use scheduled_events_core::Preparation;

use crate::imds::{HttpResponse, RequestFailure};
use crate::record::HookOutcome;

/// Something that happened on another thread.
pub(super) enum Message {
    /// The request in flight was answered, or failed.
    Response(Result<HttpResponse, RequestFailure>),
    /// The machine's own name, or why it is unknown.
    Name(Result<String, String>),
    /// A preparation ended.
    Prepared { event_id: String, preparation: Preparation, outcome: HookOutcome },
    /// A recovery ended.
    Recovered { event_id: String, outcome: HookOutcome },
    /// The hook of this number ended.
    Completed(u64),
    /// Somebody wants the watcher to stop.
    Stop,
}

/// Reports the result of a preparation or a recovery, from any thread.
#[derive(Clone, Debug)]
pub struct Reply {
    event_id: String,
    sender: Sender<Message>,
}

impl Reply {
    pub(super) fn new(event_id: String, sender: Sender<Message>) -> Self {
        Self { event_id, sender }
    }

    /// Reports that the preparation ended. The record shows `outcome`.
    pub fn prepared(&self, preparation: Preparation, outcome: HookOutcome) {
        let _ = self.sender.send(Message::Prepared { event_id: self.event_id.clone(), preparation, outcome });
    }

    /// Reports that the recovery ended. The record shows `outcome`.
    pub fn recovered(&self, outcome: HookOutcome) {
        let _ = self.sender.send(Message::Recovered { event_id: self.event_id.clone(), outcome });
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
