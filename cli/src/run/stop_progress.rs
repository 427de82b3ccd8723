//! The progress of stopping the worker before an event.

use std::time::{Duration, Instant};

use super::hooks::Started;
use super::message::Announcement;
use scheduled_events::limits::{COMMAND_GRACE, RUN_NOTICE};
use scheduled_events::record::EventRecord;

/// How often to check whether all processes of the worker are gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How often to search for new processes of a worker that is being killed.
pub(crate) const KILL_INTERVAL: Duration = Duration::from_millis(250);

/// The progress of stopping the worker.
pub(crate) struct Stop {
    pub(super) event: Option<EventRecord>,
    /// The deadline of a checkpoint: before the event, the grace and the time that a command has to
    /// end.
    pub(super) checkpoint_by: Instant,
    pub(super) has_saved: bool,
    /// When the worker is killed, once it was asked to end.
    pub(super) kill_at: Option<Instant>,
    pub(super) command: Option<Started>,
}

impl Stop {
    pub(crate) fn new(announcement: Option<&Announcement>, grace: Duration) -> Self {
        let event = announcement.map(|announcement| announcement.event.clone());
        let checkpoint_by = checkpoint_by(
            announcement.and_then(|announcement| announcement.start),
            grace,
        );
        Self {
            event,
            checkpoint_by,
            has_saved: false,
            kill_at: None,
            command: None,
        }
    }

    /// Adjusts the deadlines to another event that is announced meanwhile.
    pub(crate) fn hasten(&mut self, announcement: &Announcement, grace: Duration) {
        self.checkpoint_by = self
            .checkpoint_by
            .min(checkpoint_by(announcement.start, grace));
    }

    /// When the next step is due.
    pub(crate) fn next(&self) -> Instant {
        let soon = Instant::now() + CHECK_INTERVAL;
        if self.has_asked() {
            soon
        } else {
            self.checkpoint_by.min(soon)
        }
    }

    /// Whether the worker was asked to end, which cannot be undone.
    pub(crate) fn has_asked(&self) -> bool {
        self.kill_at.is_some()
    }

    /// The stop command, while it runs.
    pub(crate) fn command(&self) -> Option<&Started> {
        self.command.as_ref()
    }

    /// Whether the command that ended was the stop command.
    pub(crate) fn command_ended(&mut self, number: u64) -> bool {
        self.command.take_if(|command| command.is(number)).is_some()
    }
}

/// The deadline of a checkpoint. If the start of the event is unknown, the shortest notice of an
/// eviction is assumed.
fn checkpoint_by(start: Option<Instant>, grace: Duration) -> Instant {
    let now = Instant::now();
    let start = start.unwrap_or(now + RUN_NOTICE);
    start
        .checked_sub(grace + COMMAND_GRACE)
        .map_or(now, |by| by.max(now))
}
