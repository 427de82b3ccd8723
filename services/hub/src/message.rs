//! The messages that a machine receives.

use std::rc::Rc;

use scheduled_events::hooks::CommandOutcome;
use scheduled_events_core::{Arrival, GateAnswer};
use tokio::sync::mpsc;

use crate::azure::arm::ArmError;
use crate::hooks::Permit;
use crate::notice::Notice;

/// A message that a machine receives.
pub enum Message {
    /// One of its events changed. `done` is dropped once the notice is kept.
    Notice {
        /// The new notice.
        notice: Rc<Notice>,
        /// How it relates to earlier notices about the same event.
        arrival: Arrival,
        /// Dropped once the notice is kept.
        done: Vec<Done>,
    },
    /// A command may start.
    Permit {
        /// The attempt that waited for it.
        attempt: u32,
        /// Dropped when the command has ended.
        permit: Permit,
    },
    /// A command ended.
    Ended {
        /// Its attempt.
        attempt: u32,
        /// How it ended.
        ended: CommandOutcome,
    },
    /// The gate answered.
    Gate {
        /// The attempt that asked.
        attempt: u32,
        /// The answer.
        answer: GateAnswer,
    },
    /// Azure's answer to an approval, for each event.
    Approved(Vec<(Result<(), ArmError>, String)>),
    /// Whether the machine's own watcher acts.
    Agent(bool),
    /// The hub stops, and its commands end.
    Stop,
}

/// Notifies [`Kept`], when it is dropped, that a notice is kept.
pub type Done = mpsc::Sender<()>;

/// Waits until notices are kept: until each [`Done`] is dropped.
#[derive(Debug)]
pub struct Kept(mpsc::Receiver<()>);

impl Kept {
    /// A new pair. Each receiver of a notice gets a clone of the [`Done`].
    pub fn new() -> (Done, Self) {
        let (done, kept) = mpsc::channel(1);
        (done, Self(kept))
    }

    /// Waits until the notices are kept.
    pub async fn wait(mut self) {
        // Nothing is ever sent, so this ends when the last sender is dropped.
        let _ = self.0.recv().await;
    }
}
