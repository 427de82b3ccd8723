//! Stopping the worker before an event: a last checkpoint, SIGTERM or the stop command, SIGKILL after the grace.

use std::time::{Duration, Instant};

use super::commands::{Purpose, Started};
use super::message::Announcement;
use super::supervisor::Supervisor;
use super::worker::Worker;
use crate::limits::{COMMAND_GRACE, RUN_NOTICE};
use crate::record::EventRecord;

/// How often it is checked whether all that the worker started is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How often a worker that is being killed is searched for new processes.
pub(super) const KILL_INTERVAL: Duration = Duration::from_millis(250);

/// How far the worker is stopped.
pub(super) struct Stop {
    event: Option<EventRecord>,
    /// When a checkpoint must have ended: before the event, the grace and the time that a command has to end.
    checkpoint_by: Instant,
    has_saved: bool,
    /// When the worker is killed, once it was asked to end.
    kill_at: Option<Instant>,
    command: Option<Started>,
}

impl Stop {
    pub(super) fn new(announcement: Option<&Announcement>, grace: Duration) -> Self {
        let event = announcement.map(|announcement| announcement.event.clone());
        let checkpoint_by = checkpoint_by(announcement.and_then(|announcement| announcement.start), grace);
        Self { event, checkpoint_by, has_saved: false, kill_at: None, command: None }
    }

    /// Another event is announced meanwhile.
    pub(super) fn hasten(&mut self, announcement: &Announcement, grace: Duration) {
        self.checkpoint_by = self.checkpoint_by.min(checkpoint_by(announcement.start, grace));
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Instant {
        let soon = Instant::now() + CHECK_INTERVAL;
        if self.has_asked() { soon } else { self.checkpoint_by.min(soon) }
    }

    /// Whether the worker was asked to end, which cannot be undone.
    pub(super) fn has_asked(&self) -> bool {
        self.kill_at.is_some()
    }

    /// The stop command, while it runs.
    pub(super) fn command(&self) -> Option<&Started> {
        self.command.as_ref()
    }

    /// Whether it was the stop command that ended.
    pub(super) fn command_ended(&mut self, number: u64) -> bool {
        self.command.take_if(|command| command.is(number)).is_some()
    }
}

/// When a checkpoint must have ended. The least notice of an eviction is assumed if the start of the event is unknown.
fn checkpoint_by(start: Option<Instant>, grace: Duration) -> Instant {
    let now = Instant::now();
    let start = start.unwrap_or(now + RUN_NOTICE);
    start.checked_sub(grace + COMMAND_GRACE).map_or(now, |by| by.max(now))
}

impl Supervisor {
    /// Does the next thing to stop the worker.
    pub(super) fn tick_stop(&mut self) {
        let now = Instant::now();
        let Some(mut stop) = self.stop.take() else { return };
        let ended = self.worker.as_mut().and_then(Worker::ended);
        if self.worker.is_none() {
            // Before the worker, a command may still be ending.
            if self.runs_before_worker() {
                self.stop = Some(stop);
            } else {
                self.on_gone(None);
            }
            return;
        }
        let Some(kill_at) = stop.kill_at else {
            if let Some(status) = ended.filter(|_| self.ending.is_none()) {
                return self.on_own_end(status);
            }
            let is_late =
                now >= stop.checkpoint_by || self.options.commands.checkpoint.is_none() || self.ending.is_some();
            if is_late {
                self.checkpoint.iter().for_each(|checkpoint| checkpoint.running().cancel());
                self.ask_to_end(&mut stop);
            } else if self.checkpoint.is_none() && stop.has_saved {
                self.ask_to_end(&mut stop);
            } else if self.checkpoint.is_none() {
                stop.has_saved = true;
                self.start_checkpoint(stop.event.as_ref(), Some(stop.checkpoint_by));
            }
            self.stop = Some(stop);
            return;
        };
        let runs = self.worker.as_mut().is_some_and(Worker::runs);
        // The commands may still upload what the worker has saved. They end at their deadlines.
        if !runs && stop.command.is_none() && self.checkpoint.is_none() {
            return self.on_gone(ended);
        }
        if now >= kill_at {
            if let Some(worker) = self.worker.as_mut().filter(|_| runs) {
                worker.kill();
            }
            stop.kill_at = Some(now + KILL_INTERVAL);
        }
        self.stop = Some(stop);
    }

    /// Asks the worker to end. After the grace it is killed.
    fn ask_to_end(&mut self, stop: &mut Stop) {
        let kill_at = Instant::now() + self.options.grace;
        stop.kill_at = Some(kill_at);
        let Some(worker) = &mut self.worker else { return };
        match &self.options.commands.stop {
            None => worker.terminate(),
            Some(command) => {
                let (event, worker) = (stop.event.as_ref(), Some(worker.id()));
                let purpose = Purpose { label: "stop", event, worker, deadline: Some(kill_at) };
                stop.command = Some(self.commands.start(command, &purpose));
            }
        }
    }
}
