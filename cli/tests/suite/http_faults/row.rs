//! A row: a fault of the service, the required behaviour of the client, and the text for
//! `docs/inside/faults.md`.
//!
//! The test checks the same value that each column of the page shows, so the two cannot differ.

use std::time::Duration;

use scheduled_events_core::limits;

use super::scenario_run::ScenarioRun;
use crate::support::assert_well_behaved;

/// A fault of the service, and the required behaviour of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The service's behaviour: the first column of the page.
    pub(crate) service: &'static str,
    /// The faults of the replay server. `{witness}` is the address of a server that must receive no
    /// request.
    pub(crate) faults: &'static [&'static str],
    /// The scenario of the replay server.
    pub(crate) scenario: &'static str,
    /// Whether the policy prepares, with a command that takes three seconds. Otherwise it is
    /// `sample`.
    pub(crate) prepares: bool,
    /// Whether a command waits for advice, which only a newer version of the service shows.
    pub(crate) wants_advice: bool,
    /// The causes in the records of failed polls, in order and without repetitions; empty if no
    /// poll may fail.
    pub(crate) causes: &'static [&'static str],
    /// The time from a failed poll to the next one.
    pub(crate) retry: RetryDelay,
    /// Texts that standard error must contain; without any, it must be empty.
    pub(crate) stderr: &'static [&'static str],
    /// The number of POSTs.
    pub(crate) posts: usize,
    /// The number of reported events.
    pub(crate) events: usize,
    /// The reported changes of each event.
    pub(crate) changes: &'static [&'static str],
    /// The hooks that run.
    pub(crate) hooks: &'static [&'static str],
    /// The client's forbidden actions, in addition to [`ALWAYS`].
    pub(crate) never: &'static [Never],
}

/// A Freeze that is in the first document, and starts half a second after its approval for eight
/// seconds.
pub(crate) const FREEZE: &str = r#"
    about = "A Freeze of five seconds, started by its approval."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "2h"
    starts_after_approval = "30s"
    started_for = "8min"
"#;

/// The defaults of a row.
pub(crate) const ROW: Row = Row {
    service: "",
    faults: &[],
    scenario: FREEZE,
    prepares: false,
    wants_advice: false,
    causes: &[],
    retry: RetryDelay::NoFailure,
    stderr: &[],
    posts: 1,
    events: 1,
    changes: &["scheduled", "started", "completed"],
    hooks: &[],
    never: &[],
};

/// The time from a failed poll to the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RetryDelay {
    /// No poll may fail.
    NoFailure,
    /// The usual interval.
    Interval,
    /// At once, since another version of the API may be answered.
    AtOnce,
    /// The back-off, which grows with each failure in a row and has random jitter.
    BackOff,
    /// The longest back-off, because a repeated request would fail again.
    LongestBackOff,
    /// The seconds of `Retry-After`. A date has whole seconds, so it may be up to one less.
    RetryAfter(u32),
    /// The limit for `Retry-After`, which is longer.
    RetryAfterLimit,
    /// Different for each failure, as in its own row.
    Any,
}

impl RetryDelay {
    /// The least and the most milliseconds after this many failures in a row.
    pub(crate) fn bounds(self, in_a_row: u32) -> (u64, u64) {
        let full = (u64::from(limits::BACK_OFF_FIRST_MS) << (in_a_row - 1).min(8))
            .min(limits::BACK_OFF_MAX_MS.into());
        // The time until the next poll is counted from the start of the last one.
        let limit = u64::from(limits::POLL_GAP_MAX_MS);
        let left = limit - u64::from(limits::TIMEOUT_MS);
        match self {
            Self::NoFailure => panic!("no poll may fail"),
            Self::Interval | Self::AtOnce => (0, limits::INTERVAL_MIN_MS.into()),
            Self::BackOff => ((full / 2).min(left), full),
            Self::LongestBackOff | Self::RetryAfterLimit => (left, limit),
            Self::RetryAfter(seconds) => {
                (u64::from(seconds) * 1000 - 1000, u64::from(seconds) * 1000)
            }
            Self::Any => (0, full),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::NoFailure | Self::Interval => "as usual".into(),
            Self::AtOnce => "at once, in the usual version".into(),
            Self::BackOff => "back-off".into(),
            Self::LongestBackOff => format!("after {} s", limits::BACK_OFF_MAX_MS / 1000),
            Self::RetryAfter(seconds) => format!("after {seconds} s, as requested"),
            Self::RetryAfterLimit => {
                format!("after {} s, the limit", limits::POLL_GAP_MAX_MS / 1000)
            }
            Self::Any => "as in the row of each fault".into(),
        }
    }
}

/// A forbidden action of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {
    /// Stop, or panic, before all events have ended.
    StopEarly,
    /// Report that an event started, changed or ended when the documents do not show it.
    ReportFalseChange,
    /// Approve an event again after a 2xx, or approve another event.
    ApproveTwice,
    /// Send more than five requests in a second, approvals included; or a request without
    /// `Metadata: true`, to a proxy, or with `Accept-Encoding`.
    SendBadRequests,
    /// Repeat an approval before its back-off is over.
    RepeatApprovalEarly,
    /// Send a request to the target of a redirect.
    FollowRedirect,
    /// Use more than this many megabytes of memory.
    UseMemory(u64),
    /// Send a request, approvals included, within this many seconds.
    RequestWithin(u32),
    /// Time out within this many seconds.
    TimeOutWithin(u32),
    /// Approve an event.
    Approve,
}

/// The client's forbidden actions in every row.
pub(crate) const ALWAYS: &[Never] = &[
    Never::StopEarly,
    Never::ReportFalseChange,
    Never::ApproveTwice,
    Never::SendBadRequests,
    Never::RepeatApprovalEarly,
];

impl Never {
    /// Continues the sentence "The client never …".
    pub(crate) fn text(self) -> String {
        match self {
            Self::StopEarly => "stops, or panics, before all events have ended".into(),
            Self::ReportFalseChange => {
                "reports a change of an event that the documents do not show".into()
            }
            Self::ApproveTwice => {
                "approves an event again after a 2xx, or approves another event".into()
            }
            Self::SendBadRequests => {
                "sends more than five requests in a second, approvals included; omits \
                                      `Metadata: true`; uses a proxy; requests compression"
                    .into()
            }
            Self::RepeatApprovalEarly => {
                "repeats a failed approval before its back-off is over".into()
            }
            Self::FollowRedirect => "sends a request to the target".into(),
            Self::UseMemory(most) => format!("uses more than {most} MB of memory"),
            Self::RequestWithin(seconds) => format!("sends a request within {seconds} s"),
            Self::TimeOutWithin(seconds) => format!("times out within {seconds} s"),
            Self::Approve => "approves the event".into(),
        }
    }

    pub(crate) fn check(self, run: &ScenarioRun) {
        let ScenarioRun {
            name,
            row,
            finished,
            ..
        } = run;
        match self {
            Self::StopEarly => {
                assert_eq!(
                    finished.code,
                    Some(0),
                    "{name}\n{}\n{}",
                    finished.stdout,
                    finished.stderr
                );
                assert!(
                    !finished.stderr.contains("panicked"),
                    "{name}: {}",
                    finished.stderr
                );
            }
            Self::ReportFalseChange => {
                for id in run.ids() {
                    assert_eq!(
                        finished.changes(&id),
                        row.changes,
                        "{name}\n{}\n{}",
                        finished.stdout,
                        finished.stderr
                    );
                }
            }
            Self::ApproveTwice => {
                assert_eq!(
                    finished.of_kind("approval").len(),
                    run.posts().len(),
                    "{name}: as many approvals are reported as sent"
                );
                let mut approved = finished.approved();
                approved.sort();
                let wanted = if row.posts == 0 {
                    Vec::new()
                } else {
                    run.ids()
                };
                assert_eq!(approved, wanted, "{name}\n{}", finished.stdout);
                let wanted = |id: &String| run.ids().contains(id);
                assert!(
                    run.posts()
                        .iter()
                        .flat_map(|post| post.ids())
                        .all(|id| wanted(&id)),
                    "{name}"
                );
            }
            Self::SendBadRequests => assert_well_behaved(&run.requests),
            Self::RepeatApprovalEarly => {
                let posts = run.posts();
                let repeated = posts.windows(2).filter(|two| two[0].ids() == two[1].ids());
                for (attempt, two) in (1..).zip(repeated) {
                    let gap = two[1].arrived.duration_since(two[0].arrived);
                    let (least, _) = RetryDelay::BackOff.bounds(attempt);
                    assert!(
                        gap + SLACK > Duration::from_millis(least),
                        "{name}: approval {attempt}: {gap:?}"
                    );
                }
            }
            Self::FollowRedirect => {
                assert!(
                    row.faults.iter().any(|fault| fault.contains("{witness}")),
                    "{name}: no fault has a witness"
                );
                assert!(run.witnessed.is_empty(), "{name}: {:?}", run.witnessed);
            }
            Self::UseMemory(most) => {
                assert!(
                    run.memory_peak_kb.is_some() || !cfg!(target_os = "linux"),
                    "{name}: it is not measured"
                );
                assert!(
                    run.memory_peak_kb.is_none_or(|peak| peak < most * 1024),
                    "{name}: {:?} kB",
                    run.memory_peak_kb
                );
            }
            Self::RequestWithin(seconds) => {
                let mut met = false;
                for (index, request) in run.requests.iter().enumerate() {
                    if !run.faults_of(index).contains("retry-after") {
                        continue;
                    }
                    let Some(next) = run.requests.get(index + 1) else {
                        continue;
                    };
                    let pause = next.arrived.duration_since(request.arrived);
                    assert!(
                        pause + SLACK > Duration::from_secs(seconds.into()),
                        "{name}: {pause:?}"
                    );
                    met = true;
                }
                assert!(met, "{name}: no Retry-After was sent");
            }
            Self::TimeOutWithin(seconds) => {
                let least = Duration::from_secs(seconds.into());
                let (index, _) = run
                    .gets()
                    .into_iter()
                    .find(|(index, _)| !run.faults_of(*index).is_empty())
                    .unwrap_or_else(|| panic!("{name}: no poll met a fault"));
                let request = &run.requests[index];
                let waited = run.requests[index + 1]
                    .arrived
                    .duration_since(request.arrived);
                assert!(waited + SLACK > least, "{name}: {waited:?}");
            }
            Self::Approve => assert!(run.posts().is_empty(), "{name}"),
        }
    }
}

/// The time that a request may take to arrive.
pub(crate) const SLACK: Duration = Duration::from_millis(300);
