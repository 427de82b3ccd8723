//! What a supervisor does at the moment: one state at a time, with what only that state needs.

use std::time::{Duration, Instant};

use super::eviction::{Eviction, Remaining};
use super::hooks::Started;
use super::timer::Timer;
use super::worker::Worker;
use scheduled_events::failure_log::FailureLog;

/// What a supervisor does.
///
/// | state | is left for | when |
/// |---|---|---|
/// | `Identifying` | `Resuming` | the machine's id shows that the last run was here, or is unknown for too long |
/// | | `WarmingUp` | the last run was another machine's |
/// | `Resuming` | `WarmingUp` | the resume command succeeds, or there is none |
/// | `WarmingUp` | `Processing` | the warm-up command succeeds, or there is none, and the worker starts |
/// | | `Spawning` | the system refuses the worker for a reason that may go away |
/// | `Spawning` | `Processing` | the worker starts |
/// | any of these and `Processing` | `Evicted` | an event that stops the worker is announced, has started, or is not over after all |
/// | `Evicted` | `Processing` | the event is cancelled before the worker was asked to end |
/// | | `Shutdown` | everything has ended |
/// | `Shutdown` | `Resuming` | no event keeps the worker from running, or that is unknown for too long |
/// | all | `Exited` | the worker ends by itself or cannot be started, or a signal asks this program to end |
///
/// `Evicted` leads to `Shutdown` at once if nothing runs. A failed start of the worker or of a
/// command before it leads to `Shutdown`, not to `Exited`, if the watcher waits for the recovery,
/// which it then repeats. [`next`](Self::next) has what is due in a state.
pub(super) enum State {
    /// After a boot: waits for the machine's id, which shows whether there is something to resume.
    /// A copied disk has the files of another machine.
    Identifying { until: Instant },
    /// The resume command runs.
    Resuming(Started),
    /// The warm-up command runs.
    WarmingUp(Started),
    /// The system refuses the worker for now, and starting it is tried again.
    Spawning(Spawning),
    /// The worker runs.
    Processing(Processing),
    /// The worker is being stopped, or what ran before it.
    Evicted(Eviction),
    /// Nothing runs. `answer_by` is set if the last run stopped the worker for an event, since this
    /// boot: how long to wait for a document that shows whether it may start.
    Shutdown { answer_by: Option<Instant> },
    /// This program ends with this exit code.
    Exited(u8),
}

impl State {
    /// The state in which nothing runs and nothing is due.
    pub(super) const IDLE: Self = Self::Shutdown { answer_by: None };

    /// When something is due, unless a message arrives before.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Identifying { until } => Some(*until),
            Self::Spawning(spawning) => Some(spawning.retry_at),
            Self::Processing(processing) => processing.next(now),
            Self::Evicted(eviction) => eviction.next(now),
            Self::Shutdown { answer_by } => *answer_by,
            Self::Resuming(_) | Self::WarmingUp(_) | Self::Exited(_) => None,
        }
    }

    pub(super) fn worker(&mut self) -> Option<&mut Worker> {
        match self {
            Self::Processing(processing) => Some(&mut processing.worker),
            Self::Evicted(eviction) => match &mut eviction.remaining {
                Remaining::Worker(worker, _) => Some(worker),
                Remaining::Command(_) => None,
            },
            _ => None,
        }
    }

    /// The command without which the state is not left.
    pub(super) fn command(&self) -> Option<&Started> {
        match self {
            Self::Resuming(command) | Self::WarmingUp(command) => Some(command),
            Self::Evicted(eviction) => eviction.command(),
            _ => None,
        }
    }
}

/// The attempts to start the worker.
pub(super) struct Spawning {
    pub(super) retry_at: Instant,
    pub(super) failures: FailureLog,
}

/// A worker that runs.
pub(super) struct Processing {
    pub(super) worker: Worker,
    /// The regular checkpoints.
    checkpoints: Option<Timer>,
    /// How the worker ends, once a signal asked this program to end.
    leaving: Option<Leaving>,
}

/// What happens to a worker after a signal that asked this program to end.
enum Leaving {
    /// It may handle the signal and go on, as interactive programs do. Then it is kept.
    MayGoOn { until: Instant },
    /// It is killed.
    Killed(Timer),
}

impl Processing {
    pub(super) fn new(worker: Worker, every: Option<Duration>) -> Self {
        Self {
            worker,
            checkpoints: every.map(|every| Timer::new(every, every)),
            leaving: None,
        }
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        let leaving = self.leaving.as_ref().map(|leaving| match leaving {
            Leaving::MayGoOn { until } => *until,
            Leaving::Killed(timer) => timer.at(),
        });
        let checkpoint = self.checkpoints.as_ref().map(Timer::at);
        let check = self.worker.check_within().map(|wait| now + wait);
        [leaving, checkpoint, check].into_iter().flatten().min()
    }

    /// Waits whether the worker goes on.
    pub(super) fn wait_for_end(&mut self, grace: Duration) {
        self.checkpoints = None;
        self.leaving.get_or_insert(Leaving::MayGoOn {
            until: Instant::now() + grace,
        });
    }

    /// Kills the worker after the grace, unless that was decided before.
    pub(super) fn kill_after(&mut self, grace: Duration) {
        self.checkpoints = None;
        if !matches!(self.leaving, Some(Leaving::Killed(_))) {
            self.leaving = Some(Leaving::Killed(Timer::kill_after(grace)));
        }
    }

    /// Whether the worker still runs, although it has had the grace to end.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        matches!(self.leaving, Some(Leaving::MayGoOn { until }) if until <= now)
            && self.worker.ended().is_none()
    }

    /// Keeps the worker as before the signal.
    pub(super) fn stay(&mut self, every: Option<Duration>) {
        self.leaving = None;
        self.checkpoints = every.map(|every| Timer::new(every, every));
    }

    /// Whether to kill the worker now.
    pub(super) fn is_kill_due(&mut self, now: Instant) -> bool {
        match &mut self.leaving {
            Some(Leaving::Killed(timer)) => timer.is_due(now),
            _ => false,
        }
    }

    /// Whether to save a checkpoint now.
    pub(super) fn is_checkpoint_due(&mut self, now: Instant) -> bool {
        self.checkpoints
            .as_mut()
            .is_some_and(|timer| timer.is_due(now))
    }
}
