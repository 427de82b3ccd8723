//! The last call: when the machine prepares for an event although the gate has not answered yes.
//!
//! Azure starts an event at its `NotBefore` whether anybody approved it or not. So a gate may delay a preparation and withhold an
//! approval, but a gate that is missing, hangs or stays closed must not be the reason why a machine goes down unprepared.

use super::limits::{LAST_CALL_MAX_S, LAST_CALL_NOTICE_MIN_S, NOTICE_IF_UNKNOWN_S};
use crate::policy::EventKind;
use crate::time::UnixSeconds;

/// How long before its `NotBefore` an event is prepared for although the gate has not answered yes. Approving it still takes the
/// gate's yes.
///
/// The gate has at least [`LAST_CALL_ANSWER_MS`](super::limits::LAST_CALL_ANSWER_MS) for its first answer, unless an earlier
/// question to it was cancelled and has no answer yet. If `NotBefore` is unknown, [`NOTICE_IF_UNKNOWN_S`] after the event was
/// first seen takes its place.
///
/// ```
/// use scheduled_events_core::{LastCall, UnixSeconds};
///
/// let noticed = UnixSeconds(1_600_000_000);
/// let at = |last_call: LastCall, event_type, notice| {
///     let from = last_call.from(event_type, noticed, Some(UnixSeconds(noticed.0 + notice)))?;
///     Some(from.since(noticed))
/// };
/// assert_eq!(at(LastCall::Standard, "Reboot", 900), Some(600)); // 5 minutes before its start
/// assert_eq!(at(LastCall::Standard, "Redeploy", 240), Some(120)); // half of the notice
/// assert_eq!(at(LastCall::Standard, "Preempt", 30), Some(0)); // at once
/// assert_eq!(at(LastCall::Standard, "Reboot", -60), Some(-60)); // the clock was ahead when it was noticed
/// assert_eq!(at(LastCall::Before(60), "Reboot", 900), Some(840));
/// assert_eq!(at(LastCall::Never, "Reboot", 900), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LastCall {
    /// Half of the notice before `NotBefore`, at most [`LAST_CALL_MAX_S`]. At once for a `Preempt`, and for a notice of less than
    /// [`LAST_CALL_NOTICE_MIN_S`].
    #[default]
    Standard,
    /// So many seconds before `NotBefore`.
    Before(u32),
    /// Never: the machine does not prepare without the gate's yes, and Azure takes it down unprepared.
    Never,
}

impl LastCall {
    /// The time of day from which an event of this type is prepared for without the gate's yes; `None` for never. `noticed` is
    /// when this `NotBefore` was first seen.
    pub fn from(
        self,
        event_type: &str,
        noticed: UnixSeconds,
        not_before: Option<UnixSeconds>,
    ) -> Option<UnixSeconds> {
        let start = not_before.unwrap_or(UnixSeconds(
            noticed.0.saturating_add(NOTICE_IF_UNKNOWN_S.into()),
        ));
        let notice = start.since(noticed);
        match self {
            Self::Never => None,
            Self::Before(seconds) => Some(start.minus(seconds)),
            Self::Standard
                if event_type == EventKind::Preempt.word()
                    || notice < LAST_CALL_NOTICE_MIN_S.into() =>
            {
                Some(noticed.min(start))
            }
            Self::Standard => Some(start.minus(
                u32::try_from(notice / 2).map_or(LAST_CALL_MAX_S, |half| half.min(LAST_CALL_MAX_S)),
            )),
        }
    }
}
