//! What has failed and is not resolved yet: for monitoring.

use super::Session;
use super::event_progress::EventProgress;
use crate::tracker::{TrackedEvent, TrackedStatus};

/// What has failed and is not resolved yet. See [`Session::open_failures`].
///
/// ```
/// use scheduled_events_core::OpenFailures;
///
/// let failures = OpenFailures { preparations: 1, ..OpenFailures::default() };
/// assert!(failures != OpenFailures::default()); // somebody must look
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFailures {
    /// Events that are not over and whose last preparation failed. One that is tried again counts until it succeeds.
    pub preparations: usize,
    /// Machines whose last recovery failed: this one, and others that a rule's scope extends to. One that is tried again counts until
    /// it succeeds.
    pub recoveries: usize,
    /// Events that are still Scheduled and whose last approval was not accepted.
    pub approvals: usize,
    /// Events that are not over and that the machine prepared for by the last call: the gate has not answered yes since.
    pub last_calls: usize,
}

impl<const N: usize> Session<N> {
    /// What has failed and is not resolved yet. A restart forgets a last call, and a failed recovery of another machine, which is
    /// tried again at once.
    ///
    /// ```
    /// use scheduled_events_core::{Action, Policy, Preparation, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
    /// let mut session = Session::<16>::new(&SessionConfig { policy, ..SessionConfig::new(VmNames::new(&["vm"])) })?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.take_step(now), Step::Get { .. }));
    /// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}]}"#;
    /// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
    /// let attempt = loop {
    ///     if let Step::Prepare { attempt, .. } = session.take_step(now) {
    ///         break attempt;
    ///     }
    /// };
    /// session.prepared(attempt, Preparation::Failed);
    /// assert_eq!(session.open_failures().preparations, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_failures(&self) -> OpenFailures {
        let own = OpenFailures {
            recoveries: usize::from(self.machine.is_due() && self.machine.failures > 0),
            ..OpenFailures::default()
        };
        self.tracked()
            .fold(own, |sum, (_, event, progress)| progress.add_to(sum, event))
    }
}

impl EventProgress {
    fn add_to(&self, sum: OpenFailures, event: &TrackedEvent) -> OpenFailures {
        let is_open = !event.is_gone();
        let is_unapproved = event.status() == TrackedStatus::Scheduled && !event.is_approved();
        let add = |count: usize, fails: bool| count.saturating_add(usize::from(fails));
        OpenFailures {
            preparations: add(
                sum.preparations,
                is_open && (self.has_failed() || self.failed.is_any()),
            ),
            recoveries: add(
                sum.recoveries,
                self.recovery.is_due() && self.recovery.failures > 0,
            ),
            approvals: add(
                sum.approvals,
                is_open && is_unapproved && self.approval_failures > 0,
            ),
            last_calls: add(sum.last_calls, is_open && self.lacks_yes()),
        }
    }
}
