//! The end of the worker before an event: a last checkpoint, SIGTERM or the stop command, SIGKILL
//! after the grace.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::hooks::Started;
use super::message::{Announcement, rounded};
use super::timer::Timer;
use super::worker::Worker;
use crate::output::format::duration;
use scheduled_events::limits::{COMMAND_GRACE, RUN_NOTICE};
use scheduled_events::record::EventRecord;
use scheduled_events::watch::PrepareReply;

/// How often to check whether all processes of the worker are gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// An event that stops the worker.
pub(super) struct Eviction {
    /// What still runs.
    pub(super) remaining: Remaining,
    /// Receivers of the report that the worker is gone.
    pub(super) preparing: Vec<PrepareReply>,
    /// Whether an event of the last run may be open, too, which has no receiver in `preparing`.
    pub(super) keeps_out: bool,
    /// Whether an event that had started was over before the worker had stopped for it.
    pub(super) starts_again: bool,
}

/// What an eviction waits for.
pub(super) enum Remaining {
    /// The resume or the warm-up command, which was cancelled.
    Command(Started),
    Worker(Worker, Box<Stop>),
}

impl Eviction {
    /// Adjusts the deadlines to another event that is announced meanwhile.
    pub(super) fn hasten(&mut self, announcement: &Announcement, grace: Duration) {
        let Remaining::Worker(_, stop) = &mut self.remaining else {
            return;
        };
        stop.start = [stop.start, announcement.start].into_iter().flatten().min();
        if let Progress::Saving { until, .. } = &mut stop.progress {
            *until = checkpoint_deadline(announcement.start, grace).min(*until);
        }
    }

    /// When the next step is due.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let Remaining::Worker(_, stop) = &self.remaining else {
            return None;
        };
        let soon = now + CHECK_INTERVAL;
        Some(match stop.progress {
            Progress::Saving { until, .. } => until.min(soon),
            Progress::Ending { .. } => soon,
        })
    }

    /// The command without which it does not end.
    pub(super) fn command(&self) -> Option<&Started> {
        match &self.remaining {
            Remaining::Command(command) => Some(command),
            Remaining::Worker(_, stop) => match &stop.progress {
                Progress::Saving { .. } => None,
                Progress::Ending { command, .. } => command.as_ref(),
            },
        }
    }

    /// The preparation of this attempt, which is no longer needed.
    pub(super) fn take_preparing(&mut self, attempt: u32) -> Option<PrepareReply> {
        let is_it = |reply: &PrepareReply| reply.attempt() == attempt;
        let index = self.preparing.iter().position(is_it)?;
        Some(self.preparing.remove(index))
    }

    /// Whether no event is left, and nothing was done to the worker that cannot be undone.
    pub(super) fn can_go_on(&self) -> bool {
        let is_saving = |stop: &Stop| matches!(stop.progress, Progress::Saving { .. });
        self.preparing.is_empty()
            && !self.keeps_out
            && matches!(&self.remaining, Remaining::Worker(_, stop) if is_saving(stop))
    }
}

/// The progress of stopping the worker.
pub(super) struct Stop {
    pub(super) event: Option<EventRecord>,
    /// When the event may start, as far as that is known.
    pub(super) start: Option<Instant>,
    pub(super) progress: Progress,
}

pub(super) enum Progress {
    /// A last checkpoint is saved.
    Saving {
        /// The deadline: before the event, the grace and the time that a command has to end.
        until: Instant,
        has_begun: bool,
    },
    /// The worker was asked to end, which cannot be undone.
    Ending {
        kill: Timer,
        /// The stop command, while it runs.
        command: Option<Started>,
    },
}

/// What a step depends on.
pub(super) struct Observed {
    /// How the worker's own process has ended, if it has.
    pub(super) ended: Option<ExitStatus>,
    /// Whether any process of the worker still runs.
    pub(super) runs: bool,
    pub(super) checkpoint: Checkpoint,
    /// Whether a signal asked this program to end.
    pub(super) is_leaving: bool,
}

/// The checkpoint command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// There is none.
    Absent,
    Idle,
    Runs,
}

/// What to do now to stop the worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StopStep {
    Wait,
    /// Save a last checkpoint, until then.
    Save(Instant),
    /// Cancel a checkpoint that still runs, and ask the worker to end.
    AskToEnd,
    Kill,
    /// The worker has ended before it was asked to.
    OwnEnd(ExitStatus),
    /// The worker and all of its processes have ended.
    Gone(Option<ExitStatus>),
}

impl Stop {
    pub(super) fn new(announcement: Option<&Announcement>, grace: Duration) -> Self {
        Self {
            event: announcement.map(|announcement| announcement.event.clone()),
            start: announcement.and_then(|announcement| announcement.start),
            progress: Progress::Saving {
                until: checkpoint_deadline(
                    announcement.and_then(|announcement| announcement.start),
                    grace,
                ),
                has_begun: false,
            },
        }
    }

    /// Returns what to do now.
    pub(super) fn step(&mut self, now: Instant, observed: &Observed) -> StopStep {
        match &mut self.progress {
            Progress::Saving { until, has_begun } => {
                if let Some(status) = observed.ended.filter(|_| !observed.is_leaving) {
                    return StopStep::OwnEnd(status);
                }
                if *until <= now || observed.is_leaving {
                    return StopStep::AskToEnd;
                }
                match observed.checkpoint {
                    Checkpoint::Runs => StopStep::Wait,
                    Checkpoint::Idle if !*has_begun => {
                        *has_begun = true;
                        StopStep::Save(*until)
                    }
                    Checkpoint::Idle | Checkpoint::Absent => StopStep::AskToEnd,
                }
            }
            Progress::Ending { kill, command } => {
                // The commands may still upload data that the worker has saved. They end at their
                // deadlines.
                let commands_run = command.is_some() || observed.checkpoint == Checkpoint::Runs;
                if !observed.runs && !commands_run {
                    StopStep::Gone(observed.ended)
                } else if kill.is_due(now) && observed.runs {
                    StopStep::Kill
                } else {
                    StopStep::Wait
                }
            }
        }
    }

    /// What to say when the worker is asked to end now; `None` if that was said when the event was
    /// announced.
    pub(super) fn asking(
        &self,
        now: Instant,
        observed: &Observed,
        grace: Duration,
    ) -> Option<String> {
        let Progress::Saving { has_begun, .. } = self.progress else {
            return None;
        };
        let stopping = stopping(self.start, now, grace);
        match observed.checkpoint {
            Checkpoint::Absent => None,
            _ if observed.is_leaving && !has_begun => Some(
                "the last checkpoint is skipped, because this program was asked to end".to_owned(),
            ),
            Checkpoint::Runs if has_begun => {
                Some(format!("the last checkpoint is not complete: {stopping}"))
            }
            _ if has_begun => Some(stopping),
            _ => {
                let left = self.start.map_or("an unknown time".to_owned(), |start| {
                    duration(rounded(start.saturating_duration_since(now)))
                });
                Some(format!(
                    "the last checkpoint is skipped, with {left} left: {stopping}"
                ))
            }
        }
    }

    /// Whether the command that ended was the stop command.
    pub(super) fn command_ended(&mut self, number: u64) -> bool {
        match &mut self.progress {
            Progress::Saving { .. } => false,
            Progress::Ending { command, .. } => {
                command.take_if(|command| command.is(number)).is_some()
            }
        }
    }
}

/// What is done to a worker that is asked to end now. It has the grace, or the time until the event.
pub(super) fn stopping(start: Option<Instant>, now: Instant, grace: Duration) -> String {
    let rest = start.map_or(grace, |start| {
        start.saturating_duration_since(now).min(grace)
    });
    match rounded(rest) {
        0 if !grace.is_zero() => "stopping the worker, which may be ended at any moment".to_owned(),
        seconds => format!(
            "stopping the worker, which has {} to end",
            duration(seconds)
        ),
    }
}

/// The deadline of a checkpoint. If the start of the event is unknown, the shortest notice of an
/// eviction is assumed.
pub(super) fn checkpoint_deadline(start: Option<Instant>, grace: Duration) -> Instant {
    let now = Instant::now();
    let start = start.unwrap_or(now + RUN_NOTICE);
    start
        .checked_sub(grace + COMMAND_GRACE)
        .map_or(now, |by| by.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// A worker that runs, without a checkpoint in progress.
    fn runs() -> Observed {
        Observed {
            ended: None,
            runs: true,
            checkpoint: Checkpoint::Idle,
            is_leaving: false,
        }
    }

    fn saving() -> Observed {
        Observed {
            checkpoint: Checkpoint::Runs,
            ..runs()
        }
    }

    /// The progress of an eviction in a minute.
    fn stop(now: Instant) -> Stop {
        let announcement = Announcement {
            event: EventRecord::default(),
            start: Some(now + seconds(60)),
        };
        Stop::new(Some(&announcement), GRACE)
    }

    #[test]
    fn a_last_checkpoint_follows_a_regular_one_and_ends_before_the_event() {
        let now = Instant::now();
        let mut stop = stop(now);
        let until = now + seconds(53);
        for (at, observed, expected) in [
            (0, saving(), StopStep::Wait),
            (1, runs(), StopStep::Save(until)),
            (2, saving(), StopStep::Wait),
            (53, saving(), StopStep::AskToEnd),
            (3, runs(), StopStep::AskToEnd),
        ] {
            assert_eq!(stop.step(now + seconds(at), &observed), expected);
        }
    }

    #[test]
    fn what_makes_a_last_checkpoint_impossible_or_useless_ends_it() {
        let now = Instant::now();
        let ended = Some(ExitStatus::default());
        let (is_leaving, checkpoint) = (true, Checkpoint::Absent);
        for (observed, expected) in [
            (
                Observed {
                    checkpoint,
                    ..runs()
                },
                StopStep::AskToEnd,
            ),
            (
                Observed {
                    is_leaving,
                    ..saving()
                },
                StopStep::AskToEnd,
            ),
            (
                Observed { ended, ..saving() },
                StopStep::OwnEnd(ExitStatus::default()),
            ),
            (
                Observed {
                    ended,
                    is_leaving,
                    ..saving()
                },
                StopStep::AskToEnd,
            ),
        ] {
            assert_eq!(stop(now).step(now, &observed), expected);
        }
    }

    #[test]
    fn a_worker_is_gone_once_its_processes_and_the_commands_have_ended() {
        let now = Instant::now();
        let mut stop = stop(now);
        stop.progress = Progress::Ending {
            kill: Timer::kill_after(GRACE),
            command: None,
        };
        let ended = Some(ExitStatus::default());
        let gone = |checkpoint| Observed {
            ended,
            runs: false,
            checkpoint,
            ..runs()
        };
        for (at, observed, expected) in [
            (0, runs(), StopStep::Wait),
            (6, runs(), StopStep::Kill),
            (6, runs(), StopStep::Wait),
            (7, Observed { ended, ..runs() }, StopStep::Kill),
            (8, gone(Checkpoint::Runs), StopStep::Wait),
            (8, gone(Checkpoint::Idle), StopStep::Gone(ended)),
        ] {
            assert_eq!(stop.step(now + seconds(at), &observed), expected);
        }
    }
}
