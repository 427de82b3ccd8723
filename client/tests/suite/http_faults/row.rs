//! One row: a way to misbehave, what the client is held to meanwhile, and how the page words it.
//!
//! Each column of the page is printed from the value that the test checks, so that neither can say what the other does
//! not.

use std::time::Duration;

use scheduled_events_core::limits;

use super::course::Course;
use crate::support::assert_well_behaved;

/// A way to misbehave, and what the client is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// What the service does; the page's first column.
    pub(crate) service: &'static str,
    /// The replay server's faults. `{witness}` stands for the address of a server that must not be asked.
    pub(crate) faults: &'static [&'static str],
    /// What the replay server plays.
    pub(crate) scenario: &'static str,
    /// Whether the policy is to prepare, with a command that takes three seconds; otherwise it is `sample`.
    pub(crate) prepares: bool,
    /// The causes that failed polls give in their records, in order, repetitions left out; none where none may fail.
    pub(crate) told: &'static [&'static str],
    /// How soon the next poll comes after a failed one.
    pub(crate) again: Again,
    /// What standard error must hold; with nothing here it must stay empty.
    pub(crate) says: &'static [&'static str],
    /// How many approvals are posted.
    pub(crate) posts: usize,
    /// How many events are told of.
    pub(crate) events: usize,
    /// The changes that are told of each.
    pub(crate) changes: &'static [&'static str],
    /// The commands that run.
    pub(crate) runs: &'static [&'static str],
    /// What is never done, beside [`ALWAYS`].
    pub(crate) never: &'static [Never],
}

/// A freeze that is announced from the first document on, waits for its approval, and starts soon after. It lasts so
/// long that no time-out makes a poll miss it.
pub(crate) const FREEZE: &str = r#"
    about = "A freeze of five seconds, started by its approval."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "2h"
    starts_after_approval = "30s"
    started_for = "15min"
"#;

/// What most rows have in common.
pub(crate) const ROW: Row = Row {
    service: "",
    faults: &[],
    scenario: FREEZE,
    prepares: false,
    told: &[],
    again: Again::NoFailure,
    says: &[],
    posts: 1,
    events: 1,
    changes: &["scheduled", "started", "completed"],
    runs: &[],
    never: &[],
};

/// How soon the next poll comes after a failed one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Again {
    /// No poll may fail.
    NoFailure,
    /// At the usual pace.
    AtOnce,
    /// After the back-off: longer with each failure in a row, spread by chance.
    BackOff,
    /// As late as the back-off ever gets, since it will not get better soon.
    Late,
    /// When `Retry-After` says, in seconds. A date has whole seconds, so up to one is lost.
    Asked(u32),
    /// As late as `Retry-After` is honoured, since it asks for more.
    AskedTooMuch,
    /// Each failure in its own way, as other rows tell.
    Any,
}

impl Again {
    /// The least and the most milliseconds that the client may tell, after so many failures in a row.
    pub(crate) fn bounds(self, in_a_row: u32) -> (u64, u64) {
        let full = (u64::from(limits::BACK_OFF_FIRST_MS) << (in_a_row - 1).min(8)).min(limits::BACK_OFF_MAX_MS.into());
        match self {
            Self::NoFailure => panic!("no poll may fail"),
            Self::AtOnce => (0, limits::INTERVAL_MIN_MS.into()),
            Self::BackOff => (full / 2, full),
            Self::Late => (limits::BACK_OFF_MAX_MS.into(), limits::BACK_OFF_MAX_MS.into()),
            Self::Asked(seconds) => (u64::from(seconds) * 1000 - 1000, u64::from(seconds) * 1000),
            Self::AskedTooMuch => [u64::from(limits::RETRY_AFTER_MAX_S) * 1000; 2].into(),
            Self::Any => (0, full),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::NoFailure => "at the usual pace".into(),
            Self::AtOnce => "at the usual pace: the service answers".into(),
            Self::BackOff => "after the back-off".into(),
            Self::Late => format!("after {} s", limits::BACK_OFF_MAX_MS / 1000),
            Self::Asked(seconds) => format!("after {seconds} s, as asked"),
            Self::AskedTooMuch => format!("after {} s, whatever is asked", limits::RETRY_AFTER_MAX_S),
            Self::Any => "as told in the row of each".into(),
        }
    }
}

/// What is never done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {
    /// Ends, or panics, before each event is over.
    End,
    /// Takes an event for gone, started or new when it is not.
    Mistake,
    /// Approves an event again after a 2xx, or another one.
    ApproveTwice,
    /// Sends more than five requests within a second, approvals counted, or one without `Metadata: true`, to a proxy,
    /// or with a wish for compression.
    Misask,
    /// Repeats an approval sooner than its own back-off lets it.
    HurryApprovals,
    /// Asks the place where a redirect points.
    FollowRedirect,
    /// Holds more than this many megabytes of memory.
    HoldMegabytes(u64),
    /// Asks for anything, approvals included, before so many seconds are over.
    AskWithin(u32),
    /// Gives up on an answer sooner than after so many seconds.
    GiveUpWithin(u32),
    /// Approves at all.
    Approve,
    /// Approves before a preparation of the event, as it was announced last, is done.
    ApproveUnprepared,
}

/// What is never done, in any row.
pub(crate) const ALWAYS: &[Never] =
    &[Never::End, Never::Mistake, Never::ApproveTwice, Never::Misask, Never::HurryApprovals];

impl Never {
    /// Continues the sentence "Never …".
    pub(crate) fn text(self) -> String {
        match self {
            Self::End => "ends the watch, or panics, before each event is over".into(),
            Self::Mistake => "tells a change of an event that the documents do not show".into(),
            Self::ApproveTwice => "approves an event again after a 2xx, nor any other event".into(),
            Self::Misask => "sends more than five requests within a second, approvals counted; leaves out \
                             `Metadata: true`; asks through a proxy; asks for compression"
                .into(),
            Self::HurryApprovals => "repeats a failed approval before its own back-off is over".into(),
            Self::FollowRedirect => "asks where the redirect points".into(),
            Self::HoldMegabytes(most) => format!("holds more than {most} MB"),
            Self::AskWithin(seconds) => format!("asks or approves anything for {seconds} s"),
            Self::GiveUpWithin(seconds) => format!("gives up on the answer within {seconds} s"),
            Self::Approve => "approves it".into(),
            Self::ApproveUnprepared => "approves before a preparation since the last announcement is done".into(),
        }
    }

    pub(crate) fn check(self, course: &Course) {
        let Course { name, row, finished, .. } = course;
        match self {
            Self::End => {
                assert_eq!(finished.code, Some(0), "{name}\n{}\n{}", finished.stdout, finished.stderr);
                assert!(!finished.stderr.contains("panicked"), "{name}: {}", finished.stderr);
            }
            Self::Mistake => {
                for id in course.ids() {
                    assert_eq!(finished.changes(&id), row.changes, "{name}\n{}\n{}", finished.stdout, finished.stderr);
                }
            }
            Self::ApproveTwice => {
                assert_eq!(finished.of_kind("approval").len(), course.posts().len(), "{name}: each POST is told");
                let mut approved = finished.approved();
                approved.sort();
                let wanted = if row.posts == 0 { Vec::new() } else { course.ids() };
                assert_eq!(approved, wanted, "{name}\n{}", finished.stdout);
                let wanted = |id: &String| course.ids().contains(id);
                assert!(course.posts().iter().flat_map(|post| post.ids()).all(|id| wanted(&id)), "{name}");
            }
            Self::Misask => assert_well_behaved(&course.requests),
            Self::HurryApprovals => {
                let posts = course.posts();
                let repeated = posts.windows(2).filter(|two| two[0].ids() == two[1].ids());
                for (attempt, two) in (1..).zip(repeated) {
                    let gap = two[1].arrived.duration_since(two[0].arrived);
                    let (least, _) = Again::BackOff.bounds(attempt);
                    assert!(gap + SLACK > Duration::from_millis(least), "{name}: approval {attempt}: {gap:?}");
                }
            }
            Self::FollowRedirect => {
                assert!(row.faults.iter().any(|fault| fault.contains("{witness}")), "{name} has no witness");
                assert!(course.witnessed.is_empty(), "{name}: {:?}", course.witnessed);
            }
            Self::HoldMegabytes(most) => {
                let peak = course.memory_peak_kb.expect("it is measured at the approval");
                assert!(peak < most * 1024, "{name}: {peak} kB");
            }
            Self::AskWithin(seconds) => {
                let mut met = false;
                for (index, request) in course.requests.iter().enumerate() {
                    if !course.faults_of(index).contains("retry-after") {
                        continue;
                    }
                    let Some(next) = course.requests.get(index + 1) else { continue };
                    let pause = next.arrived.duration_since(request.arrived);
                    assert!(pause + SLACK > Duration::from_secs(seconds.into()), "{name}: {pause:?}");
                    met = true;
                }
                assert!(met, "{name} never met a Retry-After");
            }
            Self::GiveUpWithin(seconds) => {
                let least = Duration::from_secs(seconds.into());
                let (index, _) = course
                    .gets()
                    .into_iter()
                    .find(|(index, _)| !course.faults_of(*index).is_empty())
                    .unwrap_or_else(|| panic!("{name} met no fault"));
                let request = &course.requests[index];
                let waited = course.requests[index + 1].arrived.duration_since(request.arrived);
                assert!(waited + SLACK > least, "{name}: {waited:?}");
            }
            Self::Approve => assert!(course.posts().is_empty(), "{name}"),
            Self::ApproveUnprepared => {
                // Since the last time that the event was announced.
                let records = finished.records();
                let announced = records.iter().rposition(|record| record["change"] == "scheduled");
                let since = &records[announced.expect("an announcement")..];
                let at = |kind: &str| since.iter().position(|record| record["record"] == kind);
                let prepared = at("prepare").expect("a preparation");
                assert_eq!(since[prepared]["outcome"], "ready", "{name}");
                assert!(at("approval").is_none_or(|approved| prepared < approved), "{name}\n{}", finished.stdout);
                let before = &records[..announced.expect("an announcement")];
                assert!(before.iter().all(|record| record["record"] != "approval"), "{name}\n{}", finished.stdout);
            }
        }
    }
}

/// A request may be seen that much later than it was sent.
pub(crate) const SLACK: Duration = Duration::from_millis(300);
