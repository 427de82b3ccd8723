//! What an answer of the gate would lead to: for a host that stores the state with a preparation before it allows the preparation.

use super::Session;
use super::command::{AnswerOutcome, Attempts};
use super::event_progress::EventProgress;
use super::gate::GateAnswer;
use super::recovery::Recovery;
use super::step::Step;
use crate::error::BufferTooSmall;
use crate::time::UnixMillis;
use crate::tracker::TrackedEvent;

/// The preparation that follows if the gate answers yes. See [`Session::would_prepare`].
///
/// ```
/// use scheduled_events_core::{
///     Action, AnswerOutcome, GateAnswer, Policy, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames,
/// };
///
/// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
/// let config = SessionConfig { policy, gate: true, ..SessionConfig::new(VmNames::new(&["vm"])) };
/// let mut session = Session::<16>::new(&config)?;
/// let now = UnixMillis(1_600_000_000_000);
/// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}]}"#;
/// assert!(matches!(session.take_step(now), Step::Get { .. }));
/// session.on_response(&Response { status: 200, body, ..Response::default() }, now);
/// let attempt = loop {
///     if let Step::Gate { attempt, .. } = session.take_step(now) { break attempt }
/// };
/// // The gate has answered yes, which the session does not know yet.
/// let mut file = vec![0; Session::<16>::SNAPSHOT_MAX];
/// if let Some(ahead) = session.would_prepare(attempt, now) {
///     assert_eq!(ahead.event().event_id().as_str(), "a");
///     assert_eq!(ahead.out_of_service_since(), Some(now));
///     ahead.snapshot(&mut file)?;
/// }
/// assert_eq!(session.gate_answered(attempt, GateAnswer::Open, now), AnswerOutcome::Accepted);
/// assert!(matches!(session.take_step(now), Step::Prepare { .. }));
/// # let mut same = vec![0; Session::<16>::SNAPSHOT_MAX];
/// # session.snapshot(&mut same)?;
/// # assert_eq!(file, same);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WouldPrepare<'s, const N: usize> {
    session: &'s Session<N>,
    event: &'s TrackedEvent,
    pub(super) slot: u16,
    /// What differs from the session then.
    pub(super) progress: EventProgress,
    pub(super) machine: Recovery,
    pub(super) attempts: Attempts,
}

impl<const N: usize> Session<N> {
    /// The preparation that follows at once if the gate answers [`GateAnswer::Open`] to the question with this attempt number;
    /// `None` if none does. Nothing changes by asking.
    ///
    /// A preparation that a stored snapshot does not have is forgotten by a restart, and its machine stays out of service. Most
    /// hosts store one between [`Step::Prepare`] and its command. One that rather does not prepare at all than without a
    /// stored snapshot stores this one, and answers [`GateAnswer::Closed`] if it cannot.
    ///
    /// [`WouldPrepare`] has an example with a gate.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, UnixMillis, VmNames};
    ///
    /// let session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// assert!(session.would_prepare(1, UnixMillis(0)).is_none()); // no question has this number
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn would_prepare(&self, attempt: u32, now: UnixMillis) -> Option<WouldPrepare<'_, N>> {
        let is_asked = |progress: &EventProgress| {
            progress
                .question
                .is_some_and(|(_, question)| question.attempt == attempt)
        };
        let (slot, event, known) = self.tracked().find(|(_, _, known)| is_asked(known))?;
        let mut ahead = WouldPrepare {
            session: self,
            event,
            slot,
            progress: known.clone(),
            machine: self.machine.clone(),
            attempts: self.attempts,
        };
        let answer = ahead
            .progress
            .gate_answered(attempt, GateAnswer::Open, self.polls, now);
        let WouldPrepare {
            progress,
            machine,
            attempts,
            ..
        } = &mut ahead;
        let mut next = || progress.next_step(event, self.context(now), attempts, machine);
        // Whatever is still to be reported comes first, and is not reported by asking.
        let mut step = next();
        while let Some(Step::Report(_)) = step {
            step = next();
        }
        let prepares = matches!(step, Some(Step::Prepare { .. }));
        progress.changes = known.changes;
        (prepares && answer == AnswerOutcome::Accepted).then_some(ahead)
    }
}

impl<'s, const N: usize> WouldPrepare<'s, N> {
    /// The event that is prepared for.
    pub const fn event(&self) -> &'s TrackedEvent {
        self.event
    }

    /// Since when this machine is out of service then; `None` if the preparation is for another machine.
    pub const fn out_of_service_since(&self) -> Option<UnixMillis> {
        self.machine.due_since
    }

    /// Writes the snapshot that the session has then, as [`Session::snapshot`] does.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the length of the snapshot.
    pub fn snapshot(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        self.session.write_snapshot(Some(self), buffer)
    }
}
