//! What a machine receives.

use std::rc::Rc;

use scheduled_events::hooks::CommandOutcome;
use scheduled_events_core::{Arrival, GateAnswer};
use tokio::sync::mpsc;

use crate::azure::arm::ArmError;
use crate::hooks::Permit;
use crate::notice::Notice;

/// What a machine receives.
pub enum Message {
    /// An event of it changed. `done` is dropped once that is kept.
    Notice {
        /// What is known now.
        notice: Rc<Notice>,
        /// How it relates to earlier ones about the same event.
        arrival: Arrival,
        /// Dropped once it is kept.
        done: Option<Done>,
    },
    /// A command may start.
    Permit {
        /// The attempt that waited for it.
        attempt: u32,
        /// Dropped when the command has ended.
        permit: Permit,
    },
    /// A command has ended.
    Ended {
        /// Its attempt.
        attempt: u32,
        /// How.
        ended: CommandOutcome,
    },
    /// The gate answered.
    Gate {
        /// The attempt that asked.
        attempt: u32,
        /// The answer.
        answer: GateAnswer,
    },
    /// Azure answered to an approval: for each event.
    Approved(Vec<(Result<(), ArmError>, String)>),
    /// Whether the machine's own watcher acts.
    Agent(bool),
    /// The hub stops: commands are ended.
    Stop,
}

/// Notifies its waiter that something is kept, when it is dropped.
pub type Done = mpsc::Sender<()>;
