//! Signals: they are passed on to the worker, and some ask this program to end.

use super::state::State;
use super::supervisor::{Supervisor, exit_code_of_signal};
use crate::platform;

impl Supervisor {
    pub(super) fn on_signal(&mut self, signal: i32) {
        let worker = self.state.worker();
        let has_worker = worker.is_some();
        if let Some(worker) = worker {
            if platform::terminates(signal) {
                worker.terminate();
            } else {
                worker.pass_on(signal);
            }
        }
        let hangs_up = !has_worker && platform::hangs_up(signal);
        if !platform::asks_to_end(signal) && !hangs_up {
            return;
        }
        let first = *self.ending.get_or_insert(signal);
        match &mut self.state {
            State::Processing(processing) if platform::terminates(signal) => {
                processing.kill_after(self.options.grace);
            }
            State::Processing(processing) => processing.wait_for_end(self.options.grace),
            // The worker is being stopped already.
            State::Evicted(_) if has_worker => {}
            _ => self.exit(exit_code_of_signal(first)),
        }
    }
}
