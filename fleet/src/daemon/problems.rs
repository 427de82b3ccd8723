//! What does not work in the daemon now: for the log, for systemd's status and for the metrics.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::EngineError;
use crate::log;

/// The shortest time between two log lines about one problem of one part.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// The parts of the daemon that have a problem.
#[derive(Default)]
pub(super) struct Problems(RefCell<BTreeMap<&'static str, Problem>>);

/// Why a part of the daemon does not work, and what was logged of it.
struct Problem {
    why: String,
    logged: String,
    logged_at: Instant,
}

impl Problems {
    /// Logs a problem and its end.
    pub(super) fn report(&self, what: &'static str, result: Result<(), EngineError>) {
        let mut problems = self.0.borrow_mut();
        match result {
            Ok(()) => {
                if problems.remove(what).is_some() {
                    log::line(&format!("{what}: works again"));
                }
            }
            Err(error) => {
                let why = error.to_string();
                let is_new = match problems.entry(what) {
                    Entry::Occupied(mut problem) => problem.get_mut().becomes(why.clone()),
                    Entry::Vacant(none) => {
                        none.insert(Problem { why: why.clone(), logged: why.clone(), logged_at: Instant::now() });
                        true
                    }
                };
                if is_new {
                    log::line(&format!("warning: {what}: {why}"));
                }
            }
        }
    }

    /// Whether one of these parts has a problem.
    pub(super) fn has(&self, parts: &[&str]) -> bool {
        let problems = self.0.borrow();
        parts.iter().any(|part| problems.contains_key(part))
    }

    /// All of them, each with a `; ` before it. The audit file is a problem only once the watcher runs.
    pub(super) fn texts(&self) -> Vec<String> {
        let problems = self.0.borrow();
        let problems = problems.iter().filter(|(what, _)| **what != "the audit file");
        problems.map(|(what, problem)| format!("; {what}: {}", problem.why.escape_debug())).collect()
    }
}

impl Problem {
    /// Returns whether this is to be logged: other words than the last ones, but not all the time. With two endpoints that fail in
    /// turn, each attempt has words of its own.
    fn becomes(&mut self, why: String) -> bool {
        self.why = why;
        let is_new = self.why != self.logged && self.logged_at.elapsed() >= LOG_PAUSE;
        if is_new {
            self.logged.clone_from(&self.why);
            self.logged_at = Instant::now();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_problem_whose_words_change_all_the_time_is_logged_once_a_minute() {
        let text = |word: &str| word.to_owned();
        let mut problem = Problem { why: text("a"), logged: text("a"), logged_at: Instant::now() };
        let mut lines = 0;
        for _ in 0..60 {
            for word in ["b", "a"] {
                lines += u32::from(problem.becomes(text(word)));
                sleep(Duration::from_secs(1)).await;
            }
        }
        assert_eq!((lines, problem.why.as_str()), (1, "a"));
        assert!(problem.becomes(text("c")) && !problem.becomes(text("c")) && !problem.becomes(text("d")));
        sleep(LOG_PAUSE).await;
        assert!(problem.becomes(text("d")), "the newest is not lost");
    }
}
