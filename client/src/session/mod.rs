//! What every host of core's [`Session`](scheduled_events_core::Session) needs beside it: whole events, steps that borrow nothing of
//! the session, records, and which answers of the gate were reported. [`watch`](crate::watch) is such a host.
//!
//! A host has one loop, with one place that stores the state and then acts: see [`OwnedStep`].

mod events;
mod gate_answers;
mod records;

pub use events::EventRecords;
pub use gate_answers::GateAnswers;
pub use records::{with_approval, with_recovery, with_report};

use scheduled_events_core::{GatePhase, Report, Step, TrackedEvent, UnixMillis};

use crate::record::EventRecord;

/// A [`Step`] that borrows nothing of its session, so that a host can store the state before it acts.
///
/// ```
/// use scheduled_events::session::{EventRecords, OwnedStep};
/// use scheduled_events_core::{Session, SessionConfig, UnixMillis, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
/// let events = EventRecords::default();
/// let step = OwnedStep::new(session.take_step(UnixMillis(0)), |event| events.of(event));
/// if step.is_stored_first() && session.is_changed() {
///     // Write the snapshot and the events here.
///     session.saved();
/// }
/// assert!(matches!(step, OwnedStep::Get { timeout_ms: 130_000, .. })); // now do it
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The members are those of `Step`.
pub enum OwnedStep {
    Get {
        api_version: String,
        timeout_ms: u32,
    },
    Post {
        body: Vec<u8>,
        api_version: String,
        timeout_ms: u32,
    },
    Wait {
        until: UnixMillis,
    },
    Prepare {
        event: EventRecord,
        by_last_call: bool,
        attempt: u32,
    },
    /// `events` has at least one event, the one that ended last first.
    Recover {
        events: Vec<EventRecord>,
        own: bool,
        attempt: u32,
    },
    Gate {
        event: EventRecord,
        phase: GatePhase,
        attempt: u32,
    },
    Cancel {
        attempt: u32,
    },
    Report(Report<EventRecord>),
}

impl OwnedStep {
    /// Copies a step; `of` returns what the host knows of an event.
    pub fn new(step: Step<'_>, of: impl Fn(&TrackedEvent) -> EventRecord) -> Self {
        match step {
            Step::Get {
                api_version,
                timeout_ms,
            } => Self::Get {
                api_version: api_version.to_owned(),
                timeout_ms,
            },
            Step::Post {
                body,
                api_version,
                timeout_ms,
            } => Self::Post {
                body: body.to_vec(),
                api_version: api_version.to_owned(),
                timeout_ms,
            },
            Step::Wait { until } => Self::Wait { until },
            Step::Prepare {
                event,
                by_last_call,
                attempt,
            } => Self::Prepare {
                event: of(event),
                by_last_call,
                attempt,
            },
            Step::Recover {
                events,
                own,
                attempt,
            } => Self::Recover {
                events: events.iter().map(of).collect(),
                own,
                attempt,
            },
            Step::Gate {
                event,
                phase,
                attempt,
            } => Self::Gate {
                event: of(event),
                phase,
                attempt,
            },
            Step::Cancel { attempt } => Self::Cancel { attempt },
            Step::Report(report) => Self::Report(report.map(of)),
        }
    }

    /// Whether the host stores the state of the session before it does this: before what a restart must not do twice or forget,
    /// and before it waits. A report that is not stored is repeated, and a question is asked again.
    pub const fn is_stored_first(&self) -> bool {
        matches!(
            self,
            Self::Get { .. }
                | Self::Post { .. }
                | Self::Wait { .. }
                | Self::Prepare { .. }
                | Self::Recover { .. }
        )
    }
}
