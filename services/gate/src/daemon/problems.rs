//! The daemon's current problems: for the log, for systemd's status and for the metrics.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use scheduled_events_common::log;

/// The shortest time between two log lines about one problem of one subject.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// How long after a failure the daemon tries again: it must not ask a store that refuses four times
/// a second.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A subject that can have a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Heartbeat,
    Machines,
    ForgottenMachines,
    Groups,
    Holders,
    LastCall,
    Marks,
    EarlierMarks,
    Events,
    PastEvents,
    ForcedEvents,
    AuditFile,
    MetricsFile,
    MachineName,
    Limits,
    OwnDocument,
}

impl Subject {
    /// Whether its problems are problems of the store: the store does not answer, or a register in
    /// it cannot be read.
    fn is_of_the_store(self) -> bool {
        match self {
            Self::Heartbeat
            | Self::Machines
            | Self::ForgottenMachines
            | Self::Groups
            | Self::Holders
            | Self::LastCall
            | Self::Marks
            | Self::EarlierMarks
            | Self::Events
            | Self::PastEvents
            | Self::ForcedEvents => true,
            Self::AuditFile
            | Self::MetricsFile
            | Self::MachineName
            | Self::Limits
            | Self::OwnDocument => false,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Heartbeat => "the heartbeat",
            Self::Machines => "the machines",
            Self::ForgottenMachines => "the forgotten machines",
            Self::Groups => "the groups",
            Self::Holders => "the holders of slots",
            Self::LastCall => "the last call",
            Self::Marks => "the marks",
            Self::EarlierMarks => "the marks of an earlier process",
            Self::Events => "the events",
            Self::PastEvents => "past events",
            Self::ForcedEvents => "forced events",
            Self::AuditFile => "the audit file",
            Self::MetricsFile => "the metrics file",
            Self::MachineName => "the machine's name",
            Self::Limits => "the limits",
            Self::OwnDocument => "the machine's own document",
        })
    }
}

/// The subjects that have a problem now.
#[derive(Default)]
pub(super) struct Problems(RefCell<BTreeMap<Subject, Problem>>);

/// Why something does not work, and what was logged about it.
struct Problem {
    why: String,
    failed_at: Instant,
    logged: String,
    logged_at: Instant,
}

impl Problems {
    /// Logs a problem and its end.
    pub(super) fn report(&self, what: Subject, result: Result<(), impl fmt::Display>) {
        let mut problems = self.0.borrow_mut();
        match result {
            Ok(()) => {
                if problems.remove(&what).is_some() {
                    log::line(&format!("{what}: works again"));
                }
            }
            Err(error) => {
                let why = error.to_string();
                let is_new = match problems.entry(what) {
                    Entry::Occupied(mut problem) => problem.get_mut().becomes(why.clone()),
                    Entry::Vacant(none) => {
                        none.insert(Problem::new(&why));
                        true
                    }
                };
                if is_new {
                    log::line(&format!("warning: {what}: {why}"));
                }
            }
        }
    }

    /// Whether it is time to try this: it has no problem, or its last failure is some time ago.
    pub(super) fn is_due(&self, what: Subject) -> bool {
        self.0
            .borrow()
            .get(&what)
            .is_none_or(|problem| problem.failed_at.elapsed() >= RETRY_INTERVAL)
    }

    /// Whether any problem is one of the store.
    pub(super) fn are_of_the_store(&self) -> bool {
        self.0.borrow().keys().any(|what| what.is_of_the_store())
    }

    /// The problem of this subject, if it has one.
    pub(super) fn of(&self, what: Subject) -> Option<String> {
        self.0
            .borrow()
            .get(&what)
            .map(|problem| problem.why.clone())
    }

    /// Those of these subjects, in words.
    pub(super) fn texts(&self, is_shown: impl Fn(Subject) -> bool) -> Vec<String> {
        let problems = self.0.borrow();
        let problems = problems.iter().filter(|(what, _)| is_shown(**what));
        problems
            .map(|(what, problem)| format!("{what}: {}", problem.why.escape_debug()))
            .collect()
    }
}

impl Problem {
    fn new(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            failed_at: Instant::now(),
            logged: why.to_owned(),
            logged_at: Instant::now(),
        }
    }

    /// Sets the text, and returns whether to log it: if it differs from the last one, but not too
    /// often. With two endpoints that fail in turn, each attempt has a text of its own.
    fn becomes(&mut self, why: String) -> bool {
        (self.why, self.failed_at) = (why, Instant::now());
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
        let mut problem = Problem::new("a");
        let mut lines = 0;
        for _ in 0..60 {
            for word in ["b", "a"] {
                lines += u32::from(problem.becomes(text(word)));
                sleep(Duration::from_secs(1)).await;
            }
        }
        assert_eq!((lines, problem.why.as_str()), (1, "a"));
        assert!(
            problem.becomes(text("c"))
                && !problem.becomes(text("c"))
                && !problem.becomes(text("d"))
        );
        sleep(LOG_PAUSE).await;
        assert!(problem.becomes(text("d")), "the newest is not lost");
    }
}
