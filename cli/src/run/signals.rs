//! Signals: they are passed on to the worker, and some ask this program to end.

use std::time::Instant;

use scheduled_events_core::spot::Phase;

use super::supervisor::{Supervisor, exit_code_of_signal};
use crate::platform;

impl Supervisor {
    pub(crate) fn on_signal(&mut self, signal: i32) {
        if let Some(worker) = &mut self.worker {
            if platform::terminates(signal) {
                worker.terminate();
            } else {
                worker.pass_on(signal);
            }
        }
        let hangs_up = self.worker.is_none() && platform::hangs_up(signal);
        if platform::asks_to_end(signal) || hangs_up {
            let is_first = self.ending.is_none();
            self.ending = self.ending.or(Some(signal));
            if let (None, Some(signal)) = (&self.worker, self.ending) {
                self.exit = Some(exit_code_of_signal(signal));
            }
            self.checkpoint_at = None;
            if self.phase == Phase::Evicted {
                return;
            }
            if platform::terminates(signal) {
                self.goes_on_at = None;
                self.kill_after_grace();
            } else if is_first {
                // A worker may handle SIGINT and continue, as interactive programs do.
                self.goes_on_at = Some(Instant::now() + self.options.grace);
            }
        }
    }

    pub(crate) fn kill_after_grace(&mut self) {
        self.kill_at = self.kill_at.or(Some(Instant::now() + self.options.grace));
    }

    /// Called when the worker has had the grace to end after a signal such as SIGINT.
    pub(crate) fn on_going_on(&mut self) {
        self.goes_on_at = None;
        if self
            .worker
            .as_mut()
            .is_some_and(|worker| worker.ended().is_none())
        {
            self.log("note", "the worker goes on after the signal");
            self.ending = None;
            self.checkpoint_at = self.options.every.map(|every| Instant::now() + every);
        }
    }
}
