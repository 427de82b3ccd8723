//! Stopping the worker before an event: a last checkpoint, SIGTERM or the stop command, SIGKILL
//! after the grace.

use std::time::Instant;

use super::hooks::Purpose;
use super::stop_progress::{KILL_INTERVAL, Stop};
use super::supervisor::Supervisor;
use super::worker::Worker;

impl Supervisor {
    /// Takes the next step of stopping the worker.
    pub(crate) fn tick_stop(&mut self) {
        let now = Instant::now();
        let Some(mut stop) = self.stop.take() else {
            return;
        };
        let runs = self.worker.as_mut().is_some_and(Worker::runs);
        // Read after that, so that the end of a worker that no longer runs is known.
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
            let is_late = now >= stop.checkpoint_by
                || self.options.commands.checkpoint.is_none()
                || self.ending.is_some();
            if is_late {
                self.checkpoint
                    .iter()
                    .for_each(|checkpoint| checkpoint.running().cancel());
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
        // The commands may still upload data that the worker has saved. They end at their
        // deadlines.
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
        let Some(worker) = &mut self.worker else {
            return;
        };
        match &self.options.commands.stop {
            None => worker.terminate(),
            Some(command) => {
                let (event, worker) = (stop.event.as_ref(), Some(worker.id()));
                let purpose = Purpose {
                    label: "stop",
                    event,
                    worker,
                    deadline: Some(kill_at),
                };
                stop.command = Some(self.commands.start(command, &purpose));
            }
        }
    }
}
