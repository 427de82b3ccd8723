//! The channel through which other threads reach a watcher.

use std::sync::mpsc::Sender;
use std::thread;

use scheduled_events_core::{GateAnswer, GatePhase};

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
    /// An attempt was answered.
    Answered {
        attempt: u32,
        event_id: String,
        answer: Answer,
        /// Why it failed, if the log is to say so.
        reason: Option<String>,
    },
    /// The hook of this number ended.
    Completed(u64),
    /// The host has another policy.
    Reload,
    /// Somebody wants the watcher to stop.
    Stop,
}

/// The answer to an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Prepared(HookOutcome),
    Recovered(HookOutcome),
    Gate(GatePhase, GateAnswer),
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

/// Reports that the hook of a change has ended, from any thread. One that is dropped reports nothing: whether the hook has run is
/// unknown, and a restart runs it again.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::watch::{Completion, Host, Watcher};
/// use scheduled_events_core::Change;
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
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
/// }
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("user-reboot").ok_or("a built-in name")?).speed(60.0))?;
/// let mut pager = Pager::default();
/// Watcher::builder().endpoint(server.url()).max_polls(Some(2)).build()?.run_with(&mut pager);
/// assert_eq!(pager.changes, [Change::Scheduled]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Completion {
    number: u64,
    sender: Sender<Message>,
}

impl Completion {
    pub(super) fn new(number: u64, sender: Sender<Message>) -> Self {
        Self { number, sender }
    }

    /// Reports that the hook has ended, successfully or not.
    pub fn complete(self) {
        let _ = self.sender.send(Message::Completed(self.number));
    }
}

/// Stops a watcher from another thread, such as a signal handler's.
///
/// ```
/// use scheduled_events::watch::{Watcher, WatcherHandle};
///
/// let watcher = Watcher::builder().build()?;
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
    /// use scheduled_events::watch::Watcher;
    ///
    /// let watcher = Watcher::builder().build()?;
    /// // On the thread that waits for SIGHUP.
    /// watcher.handle().reload();
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn reload(&self) {
        let _ = self.0.send(Message::Reload);
    }
}
