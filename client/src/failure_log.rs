//! Which failures a log shows: a new one at once, and one that lasts from time to time.

use std::time::Instant;

use crate::limits::SAVE_FAILURE_REPEAT;

/// The failure that was reported last, until the same attempt succeeds.
///
/// ```
/// use scheduled_events::failure_log::FailureLog;
///
/// let mut log = FailureLog::default();
/// assert!(log.reports("the disk is full"));
/// assert!(!log.reports("the disk is full")); // not again within five minutes
/// assert!(log.succeeded());
/// ```
#[derive(Debug, Default)]
pub struct FailureLog(Option<(String, Instant)>);

impl FailureLog {
    /// Whether to report this failure: it is another one than the last, or the last report is some time ago.
    pub fn reports(&mut self, reason: &str) -> bool {
        let is_known =
            |(known, at): &(String, Instant)| known == reason && at.elapsed() < SAVE_FAILURE_REPEAT;
        let is_new = !self.0.as_ref().is_some_and(is_known);
        if is_new {
            self.0 = Some((reason.to_owned(), Instant::now()));
        }
        is_new
    }

    /// Records a success. Returns whether a failure was reported before.
    pub fn succeeded(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_until_it_is_another_one_or_over() {
        let mut log = FailureLog::default();
        assert!(!log.succeeded());
        assert_eq!(
            ["full", "full", "read-only", "full"].map(|reason| log.reports(reason)),
            [true, false, true, true]
        );
        assert!(log.succeeded() && !log.succeeded());
        assert!(log.reports("full"));
    }
}
