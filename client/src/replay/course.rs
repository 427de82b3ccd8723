//! The course of one event: when it appears, starts and goes.

use std::sync::Arc;
use std::time::Duration;

use super::names;
use super::playback::{Change, Event, Facts};
use super::scenario::{EventScript, Reschedule};

/// The longest a delay may become by a speed far below one: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// An event: its script at the playback's speed, and how far it has come.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) facts: Arc<Facts>,
    pub(super) group: Option<String>,
    pub(super) phase: Phase,
    without_notice: bool,
    pub(super) approved: bool,
    appears: Duration,
    notice: Duration,
    pub(super) starts_after_approval: Duration,
    started_for: Duration,
    cancelled_after: Option<Duration>,
    reschedule: Option<Reschedule>,
    // Moments since the start of the playback, filled in as the event goes on.
    not_before: Duration,
    pub(super) starts: Option<Duration>,
    cancelled: Option<Duration>,
    rescheduled: Option<(Duration, Duration)>,
    ends: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Scheduled,
    Started,
    Gone,
}

impl Live {
    pub(super) fn new(script: &EventScript, index: u32, vm_name: &str, speed: f64, event_id: String) -> Self {
        let facts = Facts {
            event_id,
            event_type: script.event_type.clone(),
            event_source: script.event_source.clone(),
            description: script.description.clone(),
            duration_in_seconds: script.duration_in_seconds,
            resources: script.resources.iter().map(|name| names::expand(name, vm_name, index)).collect(),
        };
        Self {
            facts: Arc::new(facts),
            group: script.approval_group.clone(),
            phase: Phase::Pending,
            without_notice: script.without_notice,
            approved: false,
            appears: scale(script.appears, speed),
            notice: scale(script.notice, speed),
            starts_after_approval: scale(script.starts_after_approval, speed),
            started_for: scale(script.started_for, speed),
            cancelled_after: script.cancelled_after.map(|after| scale(after, speed)),
            reschedule: script.reschedule.map(|reschedule| Reschedule {
                after: scale(reschedule.after, speed),
                notice: scale(reschedule.notice, speed),
            }),
            not_before: Duration::ZERO,
            starts: None,
            cancelled: None,
            rescheduled: None,
            ends: Duration::ZERO,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self.phase, Phase::Scheduled | Phase::Started)
    }

    pub(super) fn view(&self) -> Event {
        let started = self.phase == Phase::Started;
        Event { facts: self.facts.clone(), started, not_before: (!started).then_some(self.not_before) }
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        match self.phase {
            Phase::Pending => Some(self.appears),
            Phase::Scheduled => {
                let start = self.starts.map_or(self.not_before, |starts| starts.min(self.not_before));
                let others = [self.cancelled, self.rescheduled.map(|(due, _)| due)];
                others.into_iter().flatten().chain([start]).min()
            }
            Phase::Started => Some(self.ends),
            Phase::Gone => None,
        }
    }

    /// What happens at `due`, which is the event's own [`Self::next_due`].
    pub(super) fn step(&mut self, due: Duration) -> Change {
        match self.phase {
            Phase::Pending if self.without_notice => {
                self.start(due);
                Change::Appeared
            }
            Phase::Pending => {
                self.phase = Phase::Scheduled;
                self.not_before = due.saturating_add(self.notice);
                self.cancelled = self.cancelled_after.map(|after| due.saturating_add(after));
                self.rescheduled = self.reschedule.map(|reschedule| {
                    let at = due.saturating_add(reschedule.after);
                    (at, at.saturating_add(reschedule.notice))
                });
                Change::Appeared
            }
            Phase::Scheduled if self.cancelled.is_some_and(|at| at <= due) => {
                self.phase = Phase::Gone;
                Change::Cancelled
            }
            Phase::Scheduled => match self.rescheduled {
                Some((at, not_before)) if at <= due => {
                    self.rescheduled = None;
                    self.not_before = not_before;
                    Change::Rescheduled
                }
                _ => {
                    self.start(due);
                    Change::Started
                }
            },
            Phase::Started | Phase::Gone => {
                self.phase = Phase::Gone;
                Change::Gone
            }
        }
    }

    fn start(&mut self, now: Duration) {
        self.phase = Phase::Started;
        self.ends = now.saturating_add(self.started_for);
    }
}

/// A span at a speed; see [`Playback::new`](super::playback::Playback::new).
pub(super) fn scale(duration: Duration, speed: f64) -> Duration {
    if !(speed.is_finite() && speed > 0.0) {
        return duration.min(LONGEST);
    }
    Duration::try_from_secs_f64(duration.as_secs_f64() / speed).map_or(LONGEST, |it| it.min(LONGEST))
}
