//! Whether documents arrive: a watcher without one for too long is blind, and says so.

use std::time::Duration;

use scheduled_events_core::{UnixMillis, UnixSeconds};

use super::host::Note;
use crate::limits::{BLIND_AFTER, CLOCK_DEVIATION_MIN, SIGHT_INTERVAL};
use crate::platform::boot_time;
use crate::state::{Sight, SightReport};

/// Measures real time, including that for which the machine was suspended.
pub(super) struct SightMonitor {
    /// How long no document may arrive.
    limit: Duration,
    started: Duration,
    last_document: Option<Duration>,
    failed_polls: u32,
    /// Why the policy could not be read again, if it was tried last.
    reload_failure: Option<String>,
    /// Since when no document arrives, once that is too long.
    blind_since: Option<UnixSeconds>,
    reported: Option<Reported>,
}

/// What was reported last.
struct Reported {
    at: Duration,
    failing: bool,
    answered: bool,
    sees_advice: bool,
    /// How far the time of day was ahead of the clock here, in milliseconds.
    ahead_ms: i64,
}

impl SightMonitor {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            limit: BLIND_AFTER.max(interval.saturating_mul(3)),
            started: boot_time(),
            last_document: None,
            failed_polls: 0,
            reload_failure: None,
            blind_since: None,
            reported: None,
        }
    }

    /// A document arrived. Returns what the log should say.
    pub(super) fn on_document(&mut self) -> Option<Note> {
        let dark = self.dark();
        self.last_document = Some(boot_time());
        self.failed_polls = 0;
        let was_blind = self.blind_since.take().is_some();
        if was_blind {
            self.reported = None;
        }
        was_blind.then_some(Note::SeesAgain { after: dark })
    }

    /// The policy was read again, or could not be.
    pub(super) fn reload_failed(&mut self, reason: Option<String>) {
        self.reload_failure = reason;
        self.reported = None;
    }

    pub(super) fn on_failure(&mut self) {
        self.failed_polls = self.failed_polls.saturating_add(1);
    }

    /// Checks whether the last document is too old at this time of day. Returns what the log should say.
    pub(super) fn check(&mut self, cause: Option<&str>, now: UnixMillis) -> Option<Note> {
        let dark = self.dark();
        if self.blind_since.is_some() || dark < self.limit {
            return None;
        }
        self.blind_since = Some(UnixMillis(now.0.saturating_sub(millis(dark))).seconds());
        self.reported = None;
        Some(Note::Blind {
            after: dark,
            failed_polls: self.failed_polls,
            cause: cause.map(str::to_owned),
        })
    }

    pub(super) const fn blind_since(&self) -> Option<UnixSeconds> {
        self.blind_since
    }

    /// For how long it has been blind; zero if it is not.
    pub(super) fn blind_for(&self) -> Duration {
        self.blind_since.map_or(Duration::ZERO, |_| self.dark())
    }

    /// How soon to [check](Self::check) again; `None` if it is blind.
    pub(super) fn check_in(&self) -> Option<Duration> {
        let left = self.limit.saturating_sub(self.dark());
        self.blind_since.is_none().then_some(left)
    }

    /// How soon the next [report](Self::report) is due.
    pub(super) fn report_in(&self) -> Duration {
        self.reported.as_ref().map_or(Duration::ZERO, |reported| {
            SIGHT_INTERVAL.saturating_sub(boot_time().saturating_sub(reported.at))
        })
    }

    /// The report for those who look at the state, if it is time for one.
    /// `advice_unseen` is for how long advice cannot be seen.
    pub(super) fn report(
        &mut self,
        cause: Option<&str>,
        advice_unseen: Option<Duration>,
        now: UnixMillis,
    ) -> Option<Sight> {
        let time = boot_time();
        let new = Reported {
            at: time,
            failing: self.failed_polls > 0,
            answered: self.last_document.is_some(),
            sees_advice: advice_unseen.is_none(),
            ahead_ms: now.0.saturating_sub(millis(time)),
        };
        if self
            .reported
            .as_ref()
            .is_some_and(|last| !new.differs(last))
        {
            return None;
        }
        self.reported = Some(new);
        let report = SightReport {
            blind: self.blind_since.is_some(),
            since_document: self.last_document.map(|at| time.saturating_sub(at)),
            since_start: time.saturating_sub(self.started),
            failed_polls: self.failed_polls,
            cause,
            advice_unseen,
            reload_failure: self.reload_failure.as_deref(),
        };
        Some(Sight::new(&report, now))
    }

    /// For how long no document has arrived.
    fn dark(&self) -> Duration {
        boot_time().saturating_sub(self.last_document.unwrap_or(self.started))
    }
}

impl Reported {
    /// Whether this is to be reported after the last report.
    fn differs(&self, last: &Self) -> bool {
        let age = self.at.saturating_sub(last.at);
        let drift = Duration::from_millis(self.ahead_ms.abs_diff(last.ahead_ms));
        age >= SIGHT_INTERVAL
            || (self.failing, self.answered) != (last.failing, last.answered)
            || self.sees_advice != last.sees_advice
            // A faster clock, which is for demonstrations, always drifts.
            || drift > CLOCK_DEVIATION_MIN && age >= SIGHT_INTERVAL / 5
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_600_000_000_000);

    #[test]
    fn a_watcher_without_documents_is_blind_and_says_so_once() {
        let mut sight = SightMonitor::new(Duration::from_secs(1));
        assert_eq!(sight.limit, BLIND_AFTER);
        assert_eq!(sight.check(None, NOW), None);
        sight.limit = Duration::ZERO;
        sight.on_failure();
        let Some(Note::Blind {
            failed_polls: 1,
            cause: Some(cause),
            ..
        }) = sight.check(Some("status 500"), NOW)
        else {
            panic!("it is not blind")
        };
        assert_eq!(cause, "status 500");
        assert_eq!(sight.check(None, NOW), None);
        assert!(
            sight
                .report(None, None, NOW)
                .is_some_and(|report| report.blind)
        );
        assert!(
            sight.report(None, None, NOW).is_none(),
            "it was reported just now"
        );
        sight.limit = BLIND_AFTER;
        assert!(matches!(sight.on_document(), Some(Note::SeesAgain { .. })));
        assert_eq!((sight.on_document(), sight.blind_since()), (None, None));
        let report = sight.report(None, None, NOW).unwrap();
        assert!(!report.blind && report.failed_polls == 0);
    }

    #[test]
    fn a_long_interval_is_no_blindness() {
        let sight = SightMonitor::new(Duration::from_secs(60));
        assert_eq!(sight.limit, Duration::from_secs(180));
    }
}
