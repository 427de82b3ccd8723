//! The timeline of one event: its script, and its state. All times are the scenario's.

use std::sync::Arc;
use std::time::Duration;

use crate::scenario::names;
use crate::scenario::{EventScript, Reschedule};
use crate::timeline::clock::ScenarioClock;
use crate::timeline::document::{DocumentEvent, EventFacts, EventStatus, TransitionKind};

#[derive(Clone, Debug)]
pub(crate) struct EventTimeline {
    pub(crate) facts: Arc<EventFacts>,
    /// The number of the script, and of the copy of its event.
    pub(crate) script: (usize, u32),
    pub(crate) group: Option<String>,
    pub(crate) phase: Phase,
    without_notice: bool,
    pub(crate) approved: bool,
    /// Whether a person at the controls approved it.
    pub(crate) is_manual: bool,
    appears: Duration,
    notice: Duration,
    pub(crate) starts_after_approval: Duration,
    starts_after: Option<Duration>,
    started_for: Duration,
    cancelled_after: Option<Duration>,
    reschedule: Option<Reschedule>,
    // Times since the first document, set as the event proceeds.
    not_before: Duration,
    /// `NotBefore` in real time, as documents show it.
    shown_not_before: Duration,
    /// The start, by an approval or without one.
    pub(crate) starts: Option<Duration>,
    starts_alone: Option<Duration>,
    cancelled: Option<Duration>,
    rescheduled: Option<(Duration, Duration)>,
    started: Option<Duration>,
    ends: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Scheduled,
    Started,
    Gone,
}

/// A change of `NotBefore` by less is not shown: documents have whole seconds.
const SHOWN_FROM: Duration = Duration::from_millis(1);

impl EventTimeline {
    pub(crate) fn new(script: &EventScript, number: (usize, u32), facts: EventFacts) -> Self {
        Self {
            facts: Arc::new(facts),
            script: number,
            group: script.approval_group.clone(),
            phase: Phase::Pending,
            without_notice: script.without_notice,
            approved: false,
            is_manual: false,
            appears: script.appears,
            notice: script.notice,
            starts_after_approval: script.starts_after_approval,
            starts_after: script.starts_after,
            started_for: script.started_for,
            cancelled_after: script.cancelled_after,
            reschedule: script.reschedule,
            not_before: Duration::ZERO,
            shown_not_before: Duration::ZERO,
            starts: None,
            starts_alone: None,
            cancelled: None,
            rescheduled: None,
            started: None,
            ends: Duration::ZERO,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Scheduled | Phase::Started)
    }

    pub(crate) fn view(&self) -> DocumentEvent {
        let started = self.phase == Phase::Started;
        DocumentEvent {
            facts: self.facts.clone(),
            started,
            not_before: (!started && !self.facts.is_advice()).then_some(self.shown_not_before),
        }
    }

    /// `EventStatus` outside the machine, where the end is reported (`docs/inside/wire.md`, section 6);
    /// `None` before the event appears.
    pub(crate) fn status(&self) -> Option<EventStatus> {
        match self.phase {
            Phase::Pending => None,
            Phase::Scheduled => Some(self.facts.announced()),
            Phase::Started => Some(EventStatus::Started),
            Phase::Gone if self.started.is_some() => Some(EventStatus::Completed),
            Phase::Gone => Some(EventStatus::Canceled),
        }
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        match self.phase {
            Phase::Pending => Some(self.appears),
            // It never starts, and an approval has no effect.
            Phase::Scheduled if self.facts.is_advice() => self.cancelled,
            Phase::Scheduled => {
                let others = [
                    self.starts,
                    self.starts_alone,
                    self.cancelled,
                    self.rescheduled.map(|(due, _)| due),
                ];
                others.into_iter().flatten().chain([self.not_before]).min()
            }
            Phase::Started => Some(self.ends),
            Phase::Gone => None,
        }
    }

    /// Applies the transition that is due at `due`, which must be [`Self::next_due`].
    pub(crate) fn step(&mut self, due: Duration, clock: &ScenarioClock) -> TransitionKind {
        match self.phase {
            Phase::Pending if self.without_notice => {
                self.start(due);
                TransitionKind::Appeared
            }
            Phase::Pending => {
                self.phase = Phase::Scheduled;
                self.set_not_before(due.saturating_add(self.notice), clock);
                self.starts_alone = self.starts_after.map(|after| due.saturating_add(after));
                self.cancelled = self.cancelled_after.map(|after| due.saturating_add(after));
                self.rescheduled = self.reschedule.map(|reschedule| {
                    let at = due.saturating_add(reschedule.after);
                    (at, at.saturating_add(reschedule.notice))
                });
                TransitionKind::Appeared
            }
            Phase::Scheduled if self.cancelled.is_some_and(|at| at <= due) => {
                self.phase = Phase::Gone;
                TransitionKind::Cancelled
            }
            Phase::Scheduled => match self.rescheduled {
                Some((at, not_before)) if at <= due => {
                    self.rescheduled = None;
                    self.set_not_before(not_before, clock);
                    TransitionKind::Rescheduled
                }
                _ => {
                    self.start(due);
                    TransitionKind::Started
                }
            },
            Phase::Started | Phase::Gone => {
                self.phase = Phase::Gone;
                TransitionKind::Gone
            }
        }
    }

    /// Shows `NotBefore` according to the clock. Returns whether that changes it for an event that
    /// waits for it.
    pub(crate) fn show_not_before(&mut self, clock: &ScenarioClock) -> bool {
        if self.phase != Phase::Scheduled || self.facts.is_advice() {
            return false;
        }
        let before = self.shown_not_before;
        self.set_not_before(self.not_before, clock);
        let is_moved = before.abs_diff(self.shown_not_before) >= SHOWN_FROM;
        if !is_moved {
            self.shown_not_before = before;
        }
        is_moved
    }

    /// The script of this event alone, as it was played.
    pub(crate) fn played(&self, script: &EventScript) -> EventScript {
        let mut played = script.clone();
        played.count = 1;
        played.resources = script
            .resources
            .iter()
            .map(|name| names::of_copy(name, self.script.1))
            .collect();
        let started = self.started.or(self.starts).filter(|_| self.is_manual);
        if let Some(after) = started.map(|at| at.saturating_sub(self.appears))
            && (after < self.notice || self.reschedule.is_some())
        {
            played.starts_after = Some(after);
        }
        played
    }

    fn set_not_before(&mut self, not_before: Duration, clock: &ScenarioClock) {
        self.not_before = not_before;
        self.shown_not_before = clock.real_at(not_before);
    }

    fn start(&mut self, now: Duration) {
        self.phase = Phase::Started;
        self.started = Some(now);
        self.ends = now.saturating_add(self.started_for);
    }
}
