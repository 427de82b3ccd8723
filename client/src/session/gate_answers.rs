//! Which answers of the gate were reported.

use std::collections::HashMap;

use scheduled_events_core::{GateAnswer, GatePhase};

use crate::record::event_key;

/// The last answer of the gate about each event. A closed gate is asked every few seconds, and an answer is reported once.
///
/// ```
/// use scheduled_events::session::GateAnswers;
/// use scheduled_events_core::{GateAnswer, GatePhase};
///
/// let mut answers = GateAnswers::default();
/// let mut is_new = |answer| answers.is_new("a", GatePhase::Prepare, answer);
/// assert!(is_new(GateAnswer::Closed) && !is_new(GateAnswer::Closed) && is_new(GateAnswer::Open));
/// ```
#[derive(Clone, Debug, Default)]
pub struct GateAnswers(HashMap<(String, GatePhase), GateAnswer>);

impl GateAnswers {
    /// Remembers an answer. Returns whether it is the first one about the event in this phase, or differs from the one before.
    pub fn is_new(&mut self, event_id: &str, phase: GatePhase, answer: GateAnswer) -> bool {
        self.0.insert((event_key(event_id), phase), answer) != Some(answer)
    }

    /// Forgets all events but those that are known by these [keys](event_key).
    ///
    /// ```
    /// use scheduled_events::session::GateAnswers;
    /// use scheduled_events_core::{GateAnswer, GatePhase};
    ///
    /// let mut answers = GateAnswers::default();
    /// assert!(answers.is_new("a", GatePhase::Prepare, GateAnswer::Open));
    /// answers.retain(|_| false);
    /// assert!(answers.is_new("a", GatePhase::Prepare, GateAnswer::Open));
    /// ```
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|(key, _), _| is_known(key));
    }
}
