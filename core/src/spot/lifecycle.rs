//! The life cycle of an interruptible workload.

use crate::words::words;

/// Where an interruptible workload is in its life cycle.
///
/// The guide's section "Application states" describes the stages start, shutdown, recover and resume; the phases are the
/// states between which they lead:
///
/// ```text
///            WarmedUp              Notice              Stopped
///   Warmup ───────────► Processing ──────► Evicted ──────────────► Shutdown
///     ▲                     ▲                 │                        │
///     │ Resumed             └─────────────────┘ Withdrawn              │ Withdrawn, Restarted
///     │                                                                ▼
///   Resume ◄──────────────────────────────────────────────────────── Recover
///                              Recovered
/// ```
///
/// A notice leads from every phase to `Evicted`, except from `Shutdown`. A restart without notice leads from every phase in
/// which something may have been processed to `Recover`: evictions can be forced.
///
/// Advice, `Advised`, stops nothing, since the eviction may never come: a workload that processes saves a checkpoint, and goes on.
///
/// ```
/// use scheduled_events_core::spot::{Phase, Signal};
///
/// let mut phase = Phase::Processing;
/// assert!(phase.processes());
/// for signal in [Signal::Notice, Signal::Stopped, Signal::Restarted] {
///     phase = phase.next(signal).unwrap();
/// }
/// assert_eq!(phase.word(), "recover");
/// assert!(!phase.processes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The workload checks that it is healthy and ready, and processes nothing yet. "Start".
    Warmup,
    /// The workload processes, and saves checkpoints regularly. "Start".
    Processing,
    /// An event that stops the workload is announced. It saves a last checkpoint, drains connections, flushes logs and
    /// stops, in less than 30 seconds and best in less than ten. "Shutdown".
    Evicted,
    /// The workload is stopped, and the machine may go away at any time. "Shutdown".
    Shutdown,
    /// The machine is back: allocated, recreated, or never gone. The workload restores its latest checkpoint, and deals with a
    /// shutdown that was forced. "Recover".
    Recover,
    /// The context is restored as well as possible, and processing is about to continue, through a warm-up. "Resume".
    Resume,
}

words!(Phase {
    Warmup => "warm-up",
    Processing => "processing",
    Evicted => "evicted",
    Shutdown => "shutdown",
    Recover => "recover",
    Resume => "resume",
});

/// What moves a workload from one [`Phase`] to the next.
///
/// ```
/// use scheduled_events_core::spot::{Phase, Signal};
///
/// assert_eq!(Phase::Warmup.next(Signal::WarmedUp), Some(Phase::Processing));
/// assert_eq!(Signal::WarmedUp.word(), "warmed-up");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The warm-up succeeded: the workload is healthy.
    WarmedUp,
    /// An event was announced that stops the workload.
    Notice,
    /// The machine may be evicted soon, or not at all ([advice](crate::Event::is_advice)). The workload saves a checkpoint, and
    /// goes on; one that rather moves away at once takes it as a `Notice`.
    Advised,
    /// The event was cancelled, or is over and the machine still runs.
    Withdrawn,
    /// The workload has stopped, with its last checkpoint or without it.
    Stopped,
    /// The machine or the program that keeps the workload has started again.
    Restarted,
    /// The latest checkpoint is restored, if there is one.
    Recovered,
    /// The workload is about to process again.
    Resumed,
}

words!(Signal {
    WarmedUp => "warmed-up",
    Notice => "notice",
    Advised => "advised",
    Withdrawn => "withdrawn",
    Stopped => "stopped",
    Restarted => "restarted",
    Recovered => "recovered",
    Resumed => "resumed",
});

impl Phase {
    /// The phase after this signal; `None` if the signal has no meaning in this phase, which then continues.
    ///
    /// ```
    /// use scheduled_events_core::spot::{Phase, Signal};
    ///
    /// assert_eq!(Phase::Processing.next(Signal::Notice), Some(Phase::Evicted));
    /// // Cancelled before the workload has stopped: it continues.
    /// assert_eq!(Phase::Evicted.next(Signal::Withdrawn), Some(Phase::Processing));
    /// // There is time to save a checkpoint, and no reason to stop.
    /// assert_eq!(Phase::Processing.next(Signal::Advised), Some(Phase::Processing));
    /// // A machine that was evicted without notice.
    /// assert_eq!(Phase::Processing.next(Signal::Restarted), Some(Phase::Recover));
    /// // Nothing is processed while the machine may go away.
    /// assert_eq!(Phase::Shutdown.next(Signal::WarmedUp), None);
    /// ```
    #[allow(clippy::match_same_arms)] // An arm for each transition, in the order of the diagram.
    pub const fn next(self, signal: Signal) -> Option<Self> {
        Some(match (self, signal) {
            (Self::Warmup, Signal::WarmedUp) => Self::Processing,
            (Self::Warmup | Self::Processing | Self::Recover | Self::Resume, Signal::Notice) => {
                Self::Evicted
            }
            (Self::Processing, Signal::Advised) => Self::Processing,
            (Self::Evicted, Signal::Withdrawn) => Self::Processing,
            (Self::Evicted, Signal::Stopped) => Self::Shutdown,
            (Self::Shutdown, Signal::Withdrawn) => Self::Recover,
            // Nothing was processed before the first warm-up ended, so there is nothing to recover.
            (Self::Warmup, Signal::Restarted) => Self::Warmup,
            (
                Self::Processing | Self::Evicted | Self::Shutdown | Self::Recover | Self::Resume,
                Signal::Restarted,
            ) => Self::Recover,
            (Self::Recover, Signal::Recovered) => Self::Resume,
            (Self::Resume, Signal::Resumed) => Self::Warmup,
            _ => return None,
        })
    }

    /// Whether the workload may process in this phase. In `Evicted` it completes what it has begun.
    pub const fn processes(self) -> bool {
        matches!(self, Self::Processing | Self::Evicted)
    }
}
