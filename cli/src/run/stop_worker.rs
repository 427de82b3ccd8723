//! Stopping the worker before an event: carries out what [`Stop`](super::eviction::Stop) decides.

use std::time::Instant;

use super::eviction::{Checkpoint, Eviction, Observed, Progress, Remaining, StopStep};
use super::hooks::Purpose;
use super::state::State;
use super::supervisor::Supervisor;
use super::timer::Timer;

impl Supervisor {
    /// Takes the next step of stopping the worker.
    pub(super) fn tick_stop(&mut self, now: Instant) {
        let State::Evicted(Eviction {
            remaining: Remaining::Worker(worker, stop),
            ..
        }) = &mut self.state
        else {
            return;
        };
        let runs = worker.runs();
        let observed = Observed {
            runs,
            // Read after that, so that the end of a worker that no longer runs is known.
            ended: worker.ended(),
            checkpoint: match (&self.options.commands.checkpoint, &self.checkpoint) {
                (None, _) => Checkpoint::Absent,
                (Some(_), None) => Checkpoint::Idle,
                (Some(_), Some(_)) => Checkpoint::Runs,
            },
            is_leaving: self.ending.is_some(),
        };
        match stop.step(now, &observed) {
            StopStep::Wait => {}
            StopStep::Save(until) => {
                let event = stop.event.clone();
                self.start_checkpoint(event.as_ref(), Some(until));
            }
            StopStep::AskToEnd => {
                let grace = self.options.grace;
                let line = stop.asking(now, &observed, grace);
                if let Some(checkpoint) = &self.checkpoint {
                    checkpoint.running().cancel();
                }
                let command = self.options.commands.stop.as_ref().map(|command| {
                    let purpose = Purpose {
                        label: "stop",
                        event: stop.event.as_ref(),
                        worker: Some(worker.id()),
                        deadline: Some(Instant::now() + grace),
                    };
                    self.commands.start(command, &purpose)
                });
                if command.is_none() {
                    worker.terminate();
                }
                stop.progress = Progress::Ending {
                    kill: Timer::kill_after(grace),
                    command,
                };
                if let Some(line) = line {
                    self.log("warning", &line);
                }
            }
            StopStep::Kill => worker.kill(),
            StopStep::OwnEnd(status) => self.on_own_end(status),
            StopStep::Gone(status) => self.on_gone(status),
        }
    }
}
