//! The results of what the host runs: of preparations, recoveries and questions to the gate.

use super::command::{AnswerOutcome, Preparation};
use super::event_progress::EventProgress;
use super::gate::GateAnswer;
use super::{Session, SessionSource};
use crate::time::UnixMillis;

impl<const N: usize> Session<N> {
    /// Reports the result of [`Step::Prepare`](super::Step::Prepare) with this attempt number, also if it was cancelled.
    ///
    /// The time that the attempt took ends with the last call of [`take_step`](Self::take_step).
    pub fn prepared(&mut self, attempt: u32, preparation: Preparation) -> AnswerOutcome {
        let (retries, now) = (self.prepare_retries, self.clock);
        self.each_progress(|progress| progress.prepared(attempt, preparation, retries, now))
    }

    /// Reports that the recovery with this attempt number ended. One that is not `done` is issued again, after 5 seconds at
    /// first and 5 minutes at last, until it succeeds or a preparation replaces it.
    pub fn recovered(&mut self, attempt: u32, done: bool, now: UnixMillis) -> AnswerOutcome {
        match self.machine.answer(attempt, done, now) {
            AnswerOutcome::Unexpected => {
                self.each_progress(|progress| progress.recovery.answer(attempt, done, now))
            }
            outcome => {
                if !self.machine.is_due() {
                    self.recovered_at = Some(now);
                    self.last_ended = None;
                    for progress in &mut self.progress {
                        progress.ended = None;
                    }
                }
                outcome
            }
        }
    }

    /// Reports the answer to [`Step::Gate`](super::Step::Gate) with this attempt number. A gate that is not open is asked again after five
    /// seconds. An event is approved only if a poll that began after the answer shows it unchanged. That poll does not
    /// wait for the end of the interval.
    ///
    /// ```
    /// use scheduled_events_core::{
    ///     Action, AnswerOutcome, GateAnswer, GatePhase, Policy, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames,
    /// };
    ///
    /// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
    /// let config = SessionConfig { policy, gate: true, ..SessionConfig::new(VmNames::new(&["vm"])) };
    /// let mut session = Session::<16>::new(&config)?;
    /// let mut now = UnixMillis(1_600_000_000_000);
    /// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}]}"#;
    /// loop {
    ///     match session.take_step(now) {
    ///         Step::Get { .. } => drop(session.on_response(&Response { status: 200, body, ..Response::default() }, now)),
    ///         Step::Gate { phase, attempt, .. } => {
    ///             assert_eq!(phase, GatePhase::Prepare);
    ///             assert_eq!(session.gate_answered(attempt, GateAnswer::Open, now), AnswerOutcome::Accepted);
    ///         }
    ///         Step::Prepare { .. } => break, // the gate is open
    ///         Step::Wait { until } => now = until,
    ///         _ => {}
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gate_answered(
        &mut self,
        attempt: u32,
        answer: GateAnswer,
        now: UnixMillis,
    ) -> AnswerOutcome {
        let polls = self.polls;
        let is_polling = self.source != SessionSource::Notifications;
        let mut awaits_confirmation = false;
        let outcome = self.each_progress(|progress| {
            let outcome = progress.gate_answered(attempt, answer, polls, now);
            if !is_polling {
                progress.confirm(u32::MAX);
            }
            awaits_confirmation |=
                outcome == AnswerOutcome::Accepted && progress.awaits_confirmation();
            outcome
        });
        if awaits_confirmation {
            self.pacer.poll_soon(now);
        }
        outcome
    }

    /// The first outcome other than `Unexpected`.
    fn each_progress(
        &mut self,
        mut answer: impl FnMut(&mut EventProgress) -> AnswerOutcome,
    ) -> AnswerOutcome {
        let outcomes = self.progress.iter_mut().map(&mut answer);
        let mut expected = outcomes.filter(|outcome| *outcome != AnswerOutcome::Unexpected);
        expected.next().unwrap_or(AnswerOutcome::Unexpected)
    }
}
