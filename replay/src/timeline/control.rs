//! Control of a timeline while it plays: pause, speed, step, added events.

use std::time::Duration;

use super::Timeline;
use super::document::{ApprovalResult, Transition, TransitionKind};
use crate::scenario::{EventScript, MAX_EVENTS, Scenario};

impl Timeline {
    /// Stops the scenario's time. Approvals are still accepted; their effects follow after
    /// [`resume`](Self::resume).
    pub fn pause(&mut self, now: Duration) {
        self.advance(now);
        if !self.clock.is_paused() {
            self.clock.pause(self.now);
        }
    }

    /// Continues the scenario's time after [`pause`](Self::pause). All due times move by the length
    /// of the pause.
    pub fn resume(&mut self, now: Duration) {
        self.advance(now);
        if self.clock.is_paused() {
            self.clock.resume(self.now);
            self.reschedule();
        }
    }

    /// Changes the speed. A speed that is not a positive finite number counts as 1.
    pub fn set_speed(&mut self, speed: f64, now: Duration) {
        self.advance(now);
        self.clock.set_speed(speed, self.now);
        self.reschedule();
    }

    /// Applies the next due change now, paused or not: the scenario's time jumps there. Returns
    /// false if no change is left.
    pub fn step(&mut self, now: Duration) -> bool {
        self.advance(now);
        let Some(due) = self.next_step() else {
            return false;
        };
        self.clock.jump(due, self.now);
        self.apply(due, self.now);
        true
    }

    /// Adds an event, which appears its `appears` after `now`. Returns false if there would be more
    /// than [`MAX_EVENTS`] events.
    pub fn add(&mut self, mut script: EventScript, now: Duration) -> bool {
        self.advance(now);
        let count = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        if count.saturating_add(script.count) > MAX_EVENTS {
            return false;
        }
        script.appears = script.appears.saturating_add(self.scenario_time());
        self.push(script);
        self.advance(now);
        true
    }

    /// Approves an event as [`approve`](Self::approve) does, in place of a client. In
    /// [`played`](Self::played) it starts without an approval.
    pub fn approve_manually(&mut self, event_id: &str, now: Duration) -> ApprovalResult {
        let result = self.approve(event_id, now);
        if result == ApprovalResult::Accepted
            && let Some(event) = self
                .position(event_id)
                .and_then(|index| self.events.get_mut(index))
        {
            event.is_manual = true;
        }
        result
    }

    /// The scenario as played so far and as planned from now on: it includes the events that were
    /// added, and those that were approved manually start as early as they did.
    pub fn played(&self, scenario: &Scenario) -> Scenario {
        let mut events = Vec::new();
        for (number, script) in self.scripts.iter().enumerate() {
            let copies = self.events.iter().filter(|event| event.script.0 == number);
            if copies.clone().any(|event| event.is_manual) {
                events.extend(copies.map(|event| event.played(script)));
            } else {
                events.push(script.clone());
            }
        }
        Scenario {
            events,
            ..scenario.clone()
        }
    }

    /// The scenario's time: real time times the speed, without pauses.
    pub fn scenario_time(&self) -> Duration {
        self.clock.scenario_at(self.now)
    }

    /// How much faster than real time the scenario plays.
    pub fn speed(&self) -> f64 {
        self.clock.speed()
    }

    /// Whether the timeline is paused.
    pub fn is_paused(&self) -> bool {
        self.clock.is_paused()
    }

    /// Updates each event's published `NotBefore` to the time that applies from now on.
    fn reschedule(&mut self) {
        let clock = self.clock;
        let moved: Vec<_> = self
            .events
            .iter_mut()
            .filter_map(|event| event.show_not_before(&clock).then(|| event.view()))
            .collect();
        if moved.is_empty() {
            return;
        }
        self.incarnation = self.incarnation.wrapping_add(1);
        let (at, incarnation) = (self.now, self.incarnation);
        let kind = TransitionKind::Rescheduled;
        self.transitions
            .extend(moved.into_iter().map(|event| Transition::Event {
                at,
                kind,
                event,
                incarnation,
            }));
        self.publish(at);
    }
}
