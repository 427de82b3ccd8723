//! The output of the gate's command, logged once: it runs every few seconds, and most often repeats its output.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use scheduled_events_core::GatePhase;

use scheduled_events::record::event_key;

/// The most questions whose lines are kept.
const QUESTIONS_MAX: usize = 256;

/// The most lines of an answer that are kept: those after them are logged each time.
const LINES_MAX: usize = 64;

/// The lines of the last answer to each question.
#[derive(Clone, Default)]
pub(super) struct GateLines(Arc<Mutex<HashMap<(String, GatePhase), Lines>>>);

#[derive(Default)]
struct Lines {
    last: Vec<String>,
    now: Vec<String>,
}

impl GateLines {
    /// The question is asked, for the first time or again.
    pub(super) fn ask(&self, event_id: &str, phase: GatePhase) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let question = (event_key(event_id), phase);
        if questions.len() >= QUESTIONS_MAX && !questions.contains_key(&question) {
            questions.clear();
        }
        let lines = questions.entry(question).or_default();
        lines.last = std::mem::take(&mut lines.now);
    }

    /// Whether to log this line: the last answer to the same question did not have it.
    pub(super) fn is_new(&self, event_id: &str, phase: GatePhase, line: &str) -> bool {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lines) = questions.get_mut(&(event_key(event_id), phase)) else {
            return true;
        };
        if lines.now.len() < LINES_MAX {
            lines.now.push(line.to_owned());
        }
        !lines.last.iter().any(|last| last == line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_new_unless_the_last_answer_had_it() {
        let lines = GateLines::default();
        let ask = |id: &str, said: &[&str]| {
            lines.ask(id, GatePhase::Prepare);
            let is_new = said
                .iter()
                .map(|line| lines.is_new(id, GatePhase::Prepare, line));
            is_new.collect::<Vec<_>>()
        };
        assert_eq!(ask("a", &["not ready: b"]), [true]);
        assert_eq!(ask("A", &["not ready: b"]), [false]);
        assert_eq!(ask("a", &["not ready: b, c", "x"]), [true, true]);
        assert_eq!(ask("a", &["x", "not ready: b"]), [false, true]);
        assert_eq!(ask("b", &["not ready: b"]), [true], "another event");
        lines.ask("a", GatePhase::Approve);
        assert!(
            lines.is_new("a", GatePhase::Approve, "x"),
            "another question"
        );
        let many: Vec<_> = (0..2 * LINES_MAX)
            .map(|number| number.to_string())
            .collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        ask("many", &many);
        let again = ask("many", &many);
        assert_eq!(again.iter().filter(|is_new| **is_new).count(), LINES_MAX);
        for number in 0..2 * QUESTIONS_MAX {
            lines.ask(&number.to_string(), GatePhase::Prepare);
        }
        assert!(lines.0.lock().unwrap().len() <= QUESTIONS_MAX);
    }
}
