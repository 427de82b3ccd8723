//! Whether a watcher gets documents: a small file beside the state file, `FILE.sight`, for those who look at the state.
//!
//! The state file is written when something changes, and so not while nothing is seen. This one is written every few seconds, never
//! synced, and removed when the watcher stops: it says nothing about a watcher that does not run.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scheduled_events_core::{UnixMillis, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::files::{open_no_link, replace_unsynced, sibling};
use crate::limits::{SIGHT_FILE_MAX, SIGHT_OVERDUE};
use crate::platform;

/// What a watcher that runs reports about itself. [`Inspection`](super::Inspection) has it.
///
/// ```
/// use scheduled_events::state::Sight;
///
/// let line = |sight: &Sight| match (sight.blind, &sight.cause) {
///     (true, Some(cause)) => format!("{} polls failed: {cause}", sight.failed_polls),
///     (true, None) => "no answer".to_owned(),
///     (false, _) => "documents arrive".to_owned(),
/// };
/// # let _ = line;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    process: u32,
    /// When this was written, on a clock that no one sets.
    steady_ms: u64,
    /// The same moment as the time of day, by the service's clock where the watcher knows it.
    time_ms: i64,
    /// Whether no document arrived for 10 seconds, or for three intervals if that is longer.
    pub blind: bool,
    /// When the last document arrived; `None` before the first one.
    pub last_document: Option<UnixSeconds>,
    /// When the watcher started.
    pub started: UnixSeconds,
    /// How many polls failed since the last document.
    pub failed_polls: u32,
    /// Why the last poll failed, if it did.
    pub cause: Option<String>,
    /// Since when advice cannot be seen although documents may arrive: see
    /// [`Session::advice_unseen_since`](scheduled_events_core::Session::advice_unseen_since).
    pub advice_unseen_since: Option<UnixSeconds>,
    /// Why the configuration could not be read again, if that was tried last.
    #[serde(default)]
    pub reload_failure: Option<String>,
}

/// What a [`Sight`] is made of: how long ago things happened.
pub(crate) struct SightReport<'a> {
    pub(crate) blind: bool,
    pub(crate) since_document: Option<Duration>,
    pub(crate) since_start: Duration,
    pub(crate) failed_polls: u32,
    pub(crate) cause: Option<&'a str>,
    pub(crate) advice_unseen: Option<Duration>,
    pub(crate) reload_failure: Option<&'a str>,
}

impl Sight {
    /// The report at this time of day.
    pub(crate) fn new(report: &SightReport<'_>, now: UnixMillis) -> Self {
        let ago = |time: Duration| UnixMillis(now.0.saturating_sub(millis(time))).seconds();
        Self {
            process: std::process::id(),
            steady_ms: steady_now().as_millis().try_into().unwrap_or(u64::MAX),
            time_ms: now.0,
            blind: report.blind,
            last_document: report.since_document.map(ago),
            started: ago(report.since_start),
            failed_polls: report.failed_polls,
            advice_unseen_since: report.advice_unseen.map(ago),
            cause: report.cause.map(short),
            reload_failure: report.reload_failure.map(short),
        }
    }

    /// The time of day now, by the service's clock where the watcher knows it. It does not change when this machine's clock is set.
    ///
    /// ```
    /// use scheduled_events::state::Sight;
    ///
    /// // Written when the machine started, at a time far ahead.
    /// let report = r#"{"process":1,"steady_ms":0,"time_ms":4000000000000,"blind":false,"last_document":null,"started":"2026-01-01T00:00:00Z","failed_polls":0,"cause":null}"#;
    /// let sight: Sight = serde_json::from_str(report)?;
    /// assert!(sight.now().0 > 4_000_000_000);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn now(&self) -> UnixSeconds {
        UnixMillis(self.time_ms.saturating_add(millis(self.age()))).seconds()
    }

    /// For how long the watcher has not reported, if that is too long: it hangs, is stopped, or cannot write the file.
    ///
    /// ```
    /// use scheduled_events::state::Sight;
    ///
    /// // Written when the machine started.
    /// let report = r#"{"process":1,"steady_ms":0,"time_ms":0,"blind":false,"last_document":null,"started":"2026-01-01T00:00:00Z","failed_polls":0,"cause":null}"#;
    /// let sight: Sight = serde_json::from_str(report)?;
    /// assert!(sight.overdue().is_some());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn overdue(&self) -> Option<Duration> {
        Some(self.age()).filter(|age| *age > SIGHT_OVERDUE)
    }

    fn age(&self) -> Duration {
        steady_now().saturating_sub(Duration::from_millis(self.steady_ms))
    }

    /// Reads the report of this process beside a state file; `None` if there is none.
    pub(super) fn read(state: &Path, process: u32) -> Option<Self> {
        let mut bytes = Vec::new();
        let path = sibling(state, "sight");
        // A pipe or a device could take forever.
        fs::symlink_metadata(&path)
            .ok()
            .filter(fs::Metadata::is_file)?;
        open_no_link(&path)
            .ok()?
            .take(SIGHT_FILE_MAX)
            .read_to_end(&mut bytes)
            .ok()?;
        serde_json::from_slice(&bytes)
            .ok()
            .filter(|sight: &Self| sight.process == process)
    }

    pub(super) fn write(&self, state: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        replace_unsynced(&sibling(state, "sight"), &text)
    }

    pub(super) fn remove(state: &Path) {
        // What is left is not read without the process that wrote it.
        let _ = fs::remove_file(sibling(state, "sight"));
    }
}

fn short(reason: &str) -> String {
    reason.chars().take(256).collect()
}

/// A clock that all processes share and nobody sets. Windows has none here, so that the wall clock counts.
fn steady_now() -> Duration {
    if cfg!(windows) {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    } else {
        platform::boot_time()
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_only_as_its_process() {
        let folder =
            std::env::temp_dir().join(format!("scheduled-events-sight-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let state = folder.join("state");
        let report = SightReport {
            blind: true,
            since_document: Some(Duration::from_secs(42)),
            since_start: Duration::from_secs(100),
            failed_polls: 7,
            cause: Some("status 500"),
            advice_unseen: Some(Duration::from_secs(50)),
            reload_failure: None,
        };
        let sight = Sight::new(&report, UnixMillis(1_600_000_000_000));
        assert_eq!(sight.last_document, Some(UnixSeconds(1_599_999_958)));
        assert_eq!(sight.started, UnixSeconds(1_599_999_900));
        let unseen = sight.advice_unseen_since;
        assert_eq!(unseen, Some(UnixSeconds(1_599_999_950)));
        assert!(sight.overdue().is_none());
        assert!((0..60).contains(&sight.now().since(UnixSeconds(1_600_000_000))));
        sight.write(&state).unwrap();
        let process = std::process::id();
        assert_eq!(Sight::read(&state, process), Some(sight));
        assert_eq!(Sight::read(&state, process + 1), None);
        fs::write(folder.join("state.sight"), "{").unwrap();
        assert_eq!(Sight::read(&state, process), None);
        Sight::remove(&state);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_watcher_that_does_not_report_is_overdue() {
        let report = SightReport {
            blind: false,
            since_document: Some(Duration::ZERO),
            since_start: Duration::ZERO,
            failed_polls: 0,
            cause: None,
            advice_unseen: None,
            reload_failure: None,
        };
        let mut sight = Sight::new(&report, UnixMillis(1_600_000_000_000));
        let back = u64::try_from(SIGHT_OVERDUE.as_millis()).unwrap() + 1_000;
        // A machine that has just been started has no time before.
        if sight.steady_ms > back {
            sight.steady_ms -= back;
            assert!(sight.overdue().is_some());
            assert!(sight.now().since(UnixSeconds(1_600_000_000)) > 15);
        }
    }
}
