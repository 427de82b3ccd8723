//! Messages from other threads to a supervisor.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use scheduled_events::hooks::CommandOutcome;
use scheduled_events::record::EventRecord;
use scheduled_events::watch::{GateReply, PrepareReply, RecoverReply};

/// A message from another thread.
pub(crate) enum RunMessage {
    /// An event that stops the worker was announced.
    Prepare(Announcement, PrepareReply),
    /// The attempt is no longer needed.
    Cancel(u32),
    /// No event keeps the worker from running.
    Recover(Option<EventRecord>, RecoverReply),
    /// Asks whether this event may be approved. `at_once` if a rule approves it without stopping
    /// the worker.
    Approve {
        event: EventRecord,
        at_once: bool,
        reply: GateReply,
    },
    /// A document was read: whether, by the watcher's state, events keep the worker from running.
    Answered { out_of_service: bool },
    /// The machine's id is known, and with it whether the state is its own.
    Identified { state_is_own: bool },
    /// An event that ends the machine started before the worker was stopped for it.
    Started(EventRecord),
    /// Azure advises to leave the machine: save a checkpoint.
    Advised(EventRecord),
    /// No such event is left. If the machine is out of service, other events keep the worker from
    /// running.
    Over { out_of_service: bool },
    /// A signal arrived.
    Signal(i32),
    /// The worker's own process has ended.
    WorkerEnded,
    /// The command with this number has ended.
    CommandEnded(u64, CommandOutcome),
}

/// An event that stops the worker.
pub(crate) struct Announcement {
    pub(crate) event: EventRecord,
    /// When the event may start, as far as that is known.
    pub(crate) start: Option<Instant>,
}

impl Announcement {
    /// The whole seconds until the event may start, as far as that is known.
    pub(super) fn seconds_left(&self) -> Option<i64> {
        let left = self.start?.saturating_duration_since(Instant::now());
        Some(i64::try_from(rounded(left)).unwrap_or(i64::MAX))
    }
}

/// A time in seconds, rounded.
pub(super) fn rounded(time: Duration) -> u64 {
    time.saturating_add(Duration::from_millis(500)).as_secs()
}

/// Sends messages to a supervisor, from any thread.
#[derive(Clone)]
pub(crate) struct RunHandle(pub(crate) Sender<RunMessage>);

impl RunHandle {
    pub(crate) fn prepare(&self, announcement: Announcement, reply: PrepareReply) {
        self.send(RunMessage::Prepare(announcement, reply));
    }

    pub(crate) fn cancel(&self, attempt: u32) {
        self.send(RunMessage::Cancel(attempt));
    }

    pub(crate) fn recover(&self, event: Option<EventRecord>, reply: RecoverReply) {
        self.send(RunMessage::Recover(event, reply));
    }

    pub(crate) fn approve(&self, event: EventRecord, at_once: bool, reply: GateReply) {
        self.send(RunMessage::Approve {
            event,
            at_once,
            reply,
        });
    }

    pub(crate) fn answered(&self, out_of_service: bool) {
        self.send(RunMessage::Answered { out_of_service });
    }

    pub(crate) fn identified(&self, state_is_own: bool) {
        self.send(RunMessage::Identified { state_is_own });
    }

    pub(crate) fn started(&self, event: EventRecord) {
        self.send(RunMessage::Started(event));
    }

    pub(crate) fn advised(&self, advice: EventRecord) {
        self.send(RunMessage::Advised(advice));
    }

    pub(crate) fn over(&self, out_of_service: bool) {
        self.send(RunMessage::Over { out_of_service });
    }

    pub(crate) fn signal(&self, signal: i32) {
        self.send(RunMessage::Signal(signal));
    }

    pub(crate) fn send(&self, message: RunMessage) {
        // Fails once the supervisor has ended.
        let _ = self.0.send(message);
    }
}
