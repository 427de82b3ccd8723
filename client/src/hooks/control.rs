//! What the caller sees of a running command: how to end it, what it does, and how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Something that a running command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    /// It printed a line. Control characters are not removed.
    Line(String),
    /// It cannot be started now, because the system refuses a process or a thread, for this reason. Starting is repeated. This is
    /// reported for the first command, and from time to time.
    Refused(String),
    /// It ended.
    Ended(CommandOutcome),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// With exit code 0.
    Succeeded,
    /// With another exit code or by a signal, as described.
    Failed {
        /// The exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// What happened.
        reason: String,
    },
    /// It was ended because its deadline had passed.
    DeadlinePassed,
    /// It was ended through [`RunningCommand::terminate`] or [`RunningCommand::kill`].
    Stopped,
    /// It was ended through [`RunningCommand::cancel`].
    Cancelled,
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// A command that was started.
#[derive(Clone, Debug)]
pub struct RunningCommand {
    control: Arc<Mutex<Control>>,
}

/// What the caller wants of a command, and whether it has ended.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) deadline: Option<Instant>,
    pub(super) end: Option<End>,
    /// The strongest signal that was sent to all that belongs to the command.
    pub(super) signalled: Option<End>,
    pub(super) has_ended: bool,
    /// Whether the end was reported.
    pub(super) is_reported: bool,
}

/// How the caller ended a command, the stronger way last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Cancel,
    Terminate,
    Kill,
}

impl Control {
    /// Why it is time for the command to end, if it is.
    pub(super) fn reason_to_end(&self) -> Option<CommandOutcome> {
        match self.deadline {
            _ if self.end == Some(End::Cancel) => Some(CommandOutcome::Cancelled),
            _ if self.end.is_some() => Some(CommandOutcome::Stopped),
            Some(deadline) if deadline <= Instant::now() => Some(CommandOutcome::DeadlinePassed),
            _ => None,
        }
    }
}

impl RunningCommand {
    pub(super) fn new(deadline: Option<Instant>) -> Self {
        let control = Control { deadline, end: None, signalled: None, has_ended: false, is_reported: false };
        Self { control: Arc::new(Mutex::new(control)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the command and all its children to terminate, and kills them after
    /// [`COMMAND_GRACE`](crate::limits::COMMAND_GRACE): the watcher stops.
    pub fn terminate(&self) {
        self.end(End::Terminate);
    }

    /// The same, because the command is not needed any more.
    pub fn cancel(&self) {
        self.end(End::Cancel);
    }

    /// Kills the command and all its children.
    pub fn kill(&self) {
        self.end(End::Kill);
    }

    fn end(&self, end: End) {
        let mut control = self.lock();
        control.end = control.end.max(Some(end));
    }

    /// Whether the command has ended and that was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.lock().is_reported
    }

    /// Whether everything that belongs to the command was sent the signal that the caller asked for. Finding it takes time on a
    /// machine with many processes.
    pub(crate) fn is_signalled(&self) -> bool {
        let control = self.lock();
        control.has_ended || control.signalled >= control.end
    }

    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}
