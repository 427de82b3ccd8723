//! The configuration of a supervisor.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use scheduled_events_core::spot::Phase;

use super::eviction::{checkpoint_deadline, stopping};
use super::held_lock::HeldLock;
use super::message::{Announcement, rounded};
use super::phase_file::PhaseFile;
use crate::output::format::duration;
use scheduled_events::hooks::CommandLine;

/// The options of a [`Supervisor`](super::supervisor::Supervisor).
pub(crate) struct RunOptions {
    /// The worker's program and its arguments.
    pub(crate) worker: Vec<OsString>,
    /// The time between asking the worker to stop and killing it.
    pub(crate) grace: Duration,
    /// The time between two checkpoints.
    pub(crate) every: Option<Duration>,
    pub(crate) commands: RunCommands,
    /// Whether events may be approved once the worker is gone.
    pub(crate) approve: bool,
    /// The lock of `--lock`.
    pub(crate) lock: Option<HeldLock>,
    /// The file that keeps the phase, with the phase of the last run.
    pub(crate) phase_file: Option<PhaseFile>,
    /// The state file: before an approval, the workers of other runs in its folder must be gone,
    /// too.
    pub(crate) state_file: Option<PathBuf>,
    /// Prints a diagnostic: its label, and a text that may come from outside.
    pub(crate) log: fn(&str, &str),
    /// Called in each new phase.
    pub(crate) on_phase: Box<dyn Fn(Phase)>,
}

impl RunOptions {
    /// What is done to a worker that runs when this event is announced, with the time that it truly has.
    pub(super) fn stopping(&self, announcement: &Announcement) -> String {
        let now = Instant::now();
        let saves = self.commands.checkpoint.is_some();
        let until = checkpoint_deadline(announcement.start, self.grace);
        let for_checkpoint = until.saturating_duration_since(now);
        if saves && !for_checkpoint.is_zero() {
            let most = match rounded(for_checkpoint) {
                0 => "less than a second".to_owned(),
                seconds => format!("{} at most", duration(seconds)),
            };
            format!("saving a checkpoint for {most}, then stopping the worker")
        } else {
            stopping(announcement.start, now, self.grace)
        }
    }
}

/// The user's commands beside the worker.
#[derive(Default)]
pub(crate) struct RunCommands {
    pub(crate) warmup: Option<CommandLine>,
    pub(crate) checkpoint: Option<CommandLine>,
    pub(crate) stop: Option<CommandLine>,
    pub(crate) resume: Option<CommandLine>,
}

#[cfg(test)]
mod tests {
    use scheduled_events::limits::COMMAND_GRACE;
    use scheduled_events::record::EventRecord;

    use super::*;

    #[test]
    fn a_checkpoint_that_has_hardly_any_time_is_not_said_to_have_none() {
        let grace = Duration::from_secs(10);
        let options = RunOptions {
            worker: Vec::new(),
            grace,
            every: None,
            commands: RunCommands {
                checkpoint: Some(CommandLine::parse("true").expect("a command")),
                ..RunCommands::default()
            },
            approve: false,
            lock: None,
            phase_file: None,
            state_file: None,
            log: |_, _| {},
            on_phase: Box::new(|_| {}),
        };
        for (millis, expected) in [
            (400, "saving a checkpoint for less than a second, "),
            (20_400, "saving a checkpoint for 20 s at most, "),
        ] {
            let start = Instant::now() + grace + COMMAND_GRACE + Duration::from_millis(millis);
            let announcement = Announcement {
                event: EventRecord::default(),
                start: Some(start),
            };
            let said = options.stopping(&announcement);
            // A slow machine has none left.
            let is_late = said.starts_with("stopping the worker");
            assert!(said.starts_with(expected) || is_late, "{said}");
        }
    }
}
