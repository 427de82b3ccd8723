//! Plays a scenario: a pure state machine with time as an argument.
//!
//! An event goes from Scheduled to Started and then leaves the document, or takes a shorter way.
//! Each change of the document raises the incarnation by one; changes at the same moment are one
//! change of the document (`docs/inside/wire.md`, sections 2, 3 and 5). Time is the span since the first
//! document; the caller owns the clock.
//!
//! ```
//! use std::time::Duration;
//! use scheduled_events_replay::{Timeline, Scenario};
//!
//! let scenario = Scenario::builtin("user-reboot").expect("a built-in name");
//! // At speed 60, ten seconds pass in a sixth of a second.
//! let mut timeline = Timeline::new(&scenario, "WestNO_0", 60.0, 7);
//! timeline.advance(Duration::from_secs(1));
//! let document = timeline.document();
//! assert_eq!(document.incarnation, 2);
//! assert!(!document.events[0].started);
//!
//! timeline.approve(&document.events[0].facts.event_id, Duration::from_secs(1));
//! timeline.advance(Duration::from_secs(2));
//! assert!(timeline.document().events[0].started);
//! ```

// `event` is the course of one event, `event_id` its id, `clock` the scenario's time, and
// `document` the output. `control` changes a timeline while it plays.

mod clock;
mod control;
pub mod document;
mod event;
pub(crate) mod event_id;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::scenario::names;
use crate::scenario::{EventScript, IncarnationReset, Scenario};
use crate::timeline::clock::ScenarioClock;
use crate::timeline::document::{
    ApprovalResult, DocumentEvent, EventFacts, EventStatus, ReplayDocument, Transition,
    TransitionKind,
};
use crate::timeline::event::{EventTimeline, Phase};
use crate::timeline::event_id::EventIds;

/// The timeline of a scenario: its past documents and its next transitions.
///
/// Pausing, another speed and [`step`](Self::step) move the due times. An event that waits for its
/// `NotBefore` is rescheduled then: its documents never promise a time that does not hold.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::{Scenario, Timeline};
///
/// let mut timeline = Timeline::new(&Scenario::builtin("preempt").unwrap(), "spot_3", 60.0, 7);
/// assert!(timeline.first_document().events.is_empty());
/// timeline.advance(Duration::from_secs(1));
/// let id = timeline.document().events[0].facts.event_id.clone();
/// assert!(timeline.knows(&id));
/// assert_eq!(timeline.facts(&id).unwrap().event_type, "Preempt");
/// assert!(timeline.document_at(Duration::ZERO).events.is_empty());
/// // Nobody approves it: it goes on by itself.
/// while let Some(due) = timeline.next_due() {
///     timeline.advance(due);
/// }
/// assert!(timeline.finished());
/// assert_eq!(timeline.take_transitions().len(), 3); // appeared, started, gone
/// ```
///
/// It can be paused, played step by step and at another speed, and events can be added:
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::document::ApprovalResult;
/// use scheduled_events_replay::{Scenario, Timeline};
///
/// let scenario = Scenario::builtin("preempt").unwrap();
/// let mut timeline = Timeline::new(&scenario, "spot_3", 1.0, 7);
/// timeline.pause(Duration::from_secs(4));
/// assert!(timeline.is_paused());
/// // The event appears ten seconds after the start, whenever that is.
/// assert!(timeline.step(Duration::from_secs(6)));
/// assert_eq!(timeline.scenario_time(), Duration::from_secs(10));
/// let id = timeline.document().events[0].facts.event_id.clone();
/// assert_eq!(timeline.approve_manually(&id, Duration::from_secs(7)), ApprovalResult::Accepted);
/// timeline.resume(Duration::from_secs(8));
/// timeline.set_speed(60.0, Duration::from_secs(8));
/// assert_eq!(timeline.speed(), 60.0);
/// assert!(timeline.add(Scenario::builtin("user-reboot").unwrap().events[0].clone(), Duration::from_secs(8)));
/// assert_eq!(timeline.played(&scenario).events.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The scripts, in the order of the events: each event has the number of its script. Scripts
    /// that were added come last.
    scripts: Vec<EventScript>,
    events: Vec<EventTimeline>,
    ids: EventIds,
    vm_name: String,
    clock: ScenarioClock,
    incarnation: u64,
    /// When the incarnation starts again, and at which number; `None` once that has happened.
    reset: Option<IncarnationReset>,
    now: Duration,
    /// Every document so far with the time of its first appearance, starting at zero.
    history: Vec<(Duration, Arc<ReplayDocument>)>,
    transitions: Vec<Transition>,
}

impl Timeline {
    /// Creates the timeline of a scenario for the VM `vm_name`.
    ///
    /// All delays are divided by `speed`; a speed that is not a positive finite number counts as 1.
    /// The same `id_seed` gives the same `EventIds`.
    pub fn new(scenario: &Scenario, vm_name: &str, speed: f64, id_seed: u64) -> Self {
        let document = ReplayDocument {
            incarnation: scenario.first_incarnation,
            events: Vec::new(),
        };
        let mut timeline = Self {
            scripts: Vec::new(),
            events: Vec::new(),
            ids: EventIds(id_seed),
            vm_name: vm_name.to_owned(),
            clock: ScenarioClock::new(speed),
            incarnation: scenario.first_incarnation,
            reset: scenario.incarnation_reset,
            now: Duration::ZERO,
            history: vec![(Duration::ZERO, Arc::new(document))],
            transitions: Vec::new(),
        };
        for script in &scenario.events {
            timeline.push(script.clone());
        }
        timeline
    }

    fn push(&mut self, script: EventScript) {
        let number = self.scripts.len();
        for index in 0..script.count {
            let facts = EventFacts {
                event_id: self.ids.next(),
                event_type: script.event_type.clone(),
                event_source: script.event_source.clone(),
                description: script.description.clone(),
                duration_in_seconds: script.duration_in_seconds,
                resources: script
                    .resources
                    .iter()
                    .map(|name| names::expand(name, &self.vm_name, index))
                    .collect(),
                is_advisory: script.is_advisory,
            };
            self.events
                .push(EventTimeline::new(&script, (number, index), facts));
        }
        self.scripts.push(script);
    }

    /// Applies everything that is due by `now`. A `now` before the last one changes nothing.
    pub fn advance(&mut self, now: Duration) {
        while !self.clock.is_paused()
            && let Some(due) = self.next_step()
            && let at = self.clock.real_at(due)
            && at <= now
        {
            self.apply(due, at);
        }
        self.now = self.now.max(now);
    }

    /// Approves an event, compared without ASCII case, after advancing to `now`.
    ///
    /// The event starts after its `starts_after_approval`, or at `NotBefore` if that is earlier. In
    /// an approval group, the delay begins when all Scheduled events of the group are approved
    /// (`docs/inside/wire.md`, section 3, Terminate). An approval of advice has no effect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events_replay::{Scenario, Timeline};
    ///
    /// let mut timeline = Timeline::new(&Scenario::builtin("user-reboot").unwrap(), "web_0", 60.0, 7);
    /// timeline.advance(Duration::from_secs(1));
    /// let id = timeline.document().events[0].facts.event_id.clone();
    /// timeline.approve(&id, Duration::from_secs(1));
    /// timeline.advance(Duration::from_secs(2));
    /// assert!(timeline.document().events[0].started);
    /// ```
    pub fn approve(&mut self, event_id: &str, now: Duration) -> ApprovalResult {
        self.advance(now);
        let now = self.now;
        let Some(index) = self.position(event_id) else {
            return ApprovalResult::Unknown;
        };
        let Some(event) = self.events.get_mut(index) else {
            return ApprovalResult::Unknown;
        };
        if event.phase != Phase::Scheduled || event.approved || event.facts.is_advice() {
            return ApprovalResult::WithoutEffect;
        }
        event.approved = true;
        self.transitions.push(Transition::Event {
            at: now,
            kind: TransitionKind::Approved,
            event: event.view(),
            incarnation: self.incarnation,
        });
        self.release(self.clock.scenario_at(now));
        self.advance(now);
        ApprovalResult::Accepted
    }

    /// Whether an event with this `EventId` has appeared. It may have ended.
    pub fn knows(&self, event_id: &str) -> bool {
        self.position(event_id).is_some()
    }

    /// The members that never change of the event with this `EventId`, if it has appeared.
    pub fn facts(&self, event_id: &str) -> Option<Arc<EventFacts>> {
        self.position(event_id)
            .and_then(|index| self.events.get(index))
            .map(|event| event.facts.clone())
    }

    /// The names of the machines that the events have, other than advice, in lower case.
    pub(crate) fn machines(&self) -> HashSet<String> {
        let events = self.events.iter().filter(|event| !event.facts.is_advice());
        let names = events.flat_map(|event| &event.facts.resources);
        names.map(|name| name.to_ascii_lowercase()).collect()
    }

    /// Every event that has appeared, the ended ones too, with its status outside the machine.
    pub(crate) fn appeared(&self) -> impl Iterator<Item = (DocumentEvent, EventStatus)> {
        self.events
            .iter()
            .filter_map(|event| Some((event.view(), event.status()?)))
    }

    /// The current document.
    pub fn document(&self) -> Arc<ReplayDocument> {
        self.document_at(self.now)
    }

    /// The document before the first event appeared.
    pub fn first_document(&self) -> Arc<ReplayDocument> {
        self.history[0].1.clone()
    }

    /// The document at `time`.
    pub fn document_at(&self, time: Duration) -> Arc<ReplayDocument> {
        let upto = self.history.partition_point(|(since, _)| *since <= time);
        self.history[upto.saturating_sub(1)].1.clone()
    }

    /// When the next transition happens if no event is approved before. `None` while the timeline
    /// is paused.
    pub fn next_due(&self) -> Option<Duration> {
        self.next_step()
            .filter(|_| !self.clock.is_paused())
            .map(|due| self.clock.real_at(due))
    }

    /// Whether every event has ended and nothing else is due.
    pub fn finished(&self) -> bool {
        self.next_step().is_none()
    }

    /// The scenario's time of the next transition.
    fn next_step(&self) -> Option<Duration> {
        let events = self.events.iter().filter_map(EventTimeline::next_due);
        events.chain(self.reset.map(|reset| reset.after)).min()
    }

    /// Removes and returns the transitions since the last call, oldest first.
    pub fn take_transitions(&mut self) -> Vec<Transition> {
        std::mem::take(&mut self.transitions)
    }

    fn position(&self, event_id: &str) -> Option<usize> {
        self.events.iter().position(|event| {
            event.phase != Phase::Pending && event.facts.event_id.eq_ignore_ascii_case(event_id)
        })
    }

    /// Applies everything due at exactly `due`, which is `at` in real time, as one change of the
    /// document.
    fn apply(&mut self, due: Duration, at: Duration) {
        self.now = at;
        let mut changes = Vec::new();
        for event in &mut self.events {
            if event.next_due() == Some(due) {
                let before = event.view();
                let kind = event.step(due, &self.clock);
                let ended = matches!(kind, TransitionKind::Cancelled | TransitionKind::Gone);
                changes.push((kind, if ended { before } else { event.view() }));
            } else if event.show_not_before(&self.clock) {
                changes.push((TransitionKind::Rescheduled, event.view()));
            }
        }
        let reset = self.reset.take_if(|reset| reset.after <= due);
        self.incarnation = reset.map_or(self.incarnation.wrapping_add(1), |reset| reset.to);
        let incarnation = self.incarnation;
        let events = changes.into_iter().map(|(kind, event)| Transition::Event {
            at,
            kind,
            event,
            incarnation,
        });
        self.transitions.extend(events);
        if reset.is_some() {
            self.transitions
                .push(Transition::IncarnationReset { at, incarnation });
        }
        self.publish(at);
        // Other events of the group may have waited for a start or a cancellation.
        self.release(due);
    }

    fn publish(&mut self, at: Duration) {
        let events = self
            .events
            .iter()
            .filter(|event| event.is_open())
            .map(EventTimeline::view)
            .collect();
        let document = ReplayDocument {
            incarnation: self.incarnation,
            events,
        };
        self.history.push((at, Arc::new(document)));
    }

    /// Schedules the start of approved events whose group has no unapproved event left, from a time
    /// of the scenario on.
    fn release(&mut self, now: Duration) {
        let incomplete: Vec<String> = self
            .events
            .iter()
            .filter(|event| event.phase == Phase::Scheduled && !event.approved)
            .filter_map(|event| event.group.clone())
            .collect();
        for event in &mut self.events {
            let waits = event
                .group
                .as_ref()
                .is_some_and(|group| incomplete.contains(group));
            if event.phase == Phase::Scheduled && event.approved && event.starts.is_none() && !waits
            {
                event.starts = Some(now.saturating_add(event.starts_after_approval));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn play(text: &str) -> Timeline {
        let scenario = Scenario::parse(&format!("about = \"A test.\"\n{text}")).expect(text);
        Timeline::new(&scenario, "WestNO_0", 1.0, 1)
    }

    fn builtin(name: &str) -> Timeline {
        Timeline::new(&Scenario::builtin(name).expect(name), "WestNO_0", 1.0, 1)
    }

    fn id(timeline: &Timeline, index: usize) -> String {
        timeline.document().events[index].facts.event_id.clone()
    }

    /// Each event's status letter, in document order.
    fn states(timeline: &Timeline) -> String {
        timeline
            .document()
            .events
            .iter()
            .map(|event| if event.started { 'S' } else { 's' })
            .collect()
    }

    /// The changes of events since the last call: second, kind and incarnation.
    fn changes(timeline: &mut Timeline) -> Vec<(u64, TransitionKind, u64)> {
        let transitions = timeline.take_transitions().into_iter();
        let changes = transitions.filter_map(|transition| match transition {
            Transition::Event {
                at,
                kind,
                incarnation,
                ..
            } => Some((at.as_secs(), kind, incarnation)),
            Transition::IncarnationReset { .. } => None,
        });
        changes.collect()
    }

    const FREEZE: &str = "[[event]]\nevent_type = \"Freeze\"\nappears = \"10s\"\nnotice = \"100s\"\n\
                          starts_after_approval = \"5s\"\nstarted_for = \"50s\"\n";

    #[test]
    fn an_unapproved_event_starts_at_not_before() {
        let mut timeline = play(FREEZE);
        let mut seen = Vec::new();
        for second in 0..=200 {
            timeline.advance(secs(second));
            seen.push((timeline.document().incarnation, states(&timeline)));
        }
        seen.dedup();
        assert_eq!(
            seen,
            [
                (1, String::new()),
                (2, "s".into()),
                (3, "S".into()),
                (4, String::new())
            ]
        );
        assert!(timeline.finished());
        assert_eq!(
            changes(&mut timeline),
            [
                (10, TransitionKind::Appeared, 2),
                (110, TransitionKind::Started, 3),
                (160, TransitionKind::Gone, 4)
            ]
        );
    }

    #[test]
    fn an_approved_event_starts_early_and_keeps_its_id() {
        let mut timeline = play(FREEZE);
        assert_eq!(timeline.approve("0", secs(1)), ApprovalResult::Unknown);
        timeline.advance(secs(20));
        let event_id = id(&timeline, 0);
        assert_eq!(timeline.document().events[0].not_before, Some(secs(110)));
        assert_eq!(
            timeline.approve(&event_id.to_ascii_lowercase(), secs(20)),
            ApprovalResult::Accepted
        );
        assert_eq!(
            timeline.approve(&event_id, secs(21)),
            ApprovalResult::WithoutEffect
        );
        assert_eq!(states(&timeline), "s");
        assert_eq!(timeline.next_due(), Some(secs(25)));
        timeline.advance(secs(25));
        assert_eq!(states(&timeline), "S");
        assert_eq!(
            (id(&timeline, 0), timeline.document().events[0].not_before),
            (event_id.clone(), None)
        );
        assert_eq!(
            timeline.approve(&event_id, secs(26)),
            ApprovalResult::WithoutEffect
        );
        timeline.advance(secs(75));
        assert!(timeline.finished() && timeline.knows(&event_id));
        assert_eq!(
            timeline.approve(&event_id, secs(80)),
            ApprovalResult::WithoutEffect
        );
    }

    #[test]
    fn an_approval_never_delays_the_start() {
        let mut timeline = play(FREEZE);
        timeline.advance(secs(10));
        let event_id = id(&timeline, 0);
        timeline.approve(&event_id, secs(108));
        assert_eq!(timeline.next_due(), Some(secs(110)));
    }

    #[test]
    fn a_group_waits_for_all_approvals_or_for_not_before() {
        for second_approval in [Some(20), None] {
            let mut timeline = builtin("terminate-pair");
            timeline.advance(secs(10));
            let (first, second) = (id(&timeline, 0), id(&timeline, 1));
            assert_ne!(first, second);
            assert_eq!(
                timeline.approve(&second, secs(12)),
                ApprovalResult::Accepted
            );
            timeline.advance(secs(19));
            assert_eq!(states(&timeline), "ss");
            if let Some(at) = second_approval {
                timeline.approve(&first, secs(at));
                timeline.advance(secs(at + 5));
            } else {
                timeline.advance(secs(309));
                assert_eq!(states(&timeline), "ss");
                timeline.advance(secs(310));
            }
            assert_eq!(
                (states(&timeline).as_str(), timeline.document().incarnation),
                ("SS", 3)
            );
        }
    }

    #[test]
    fn a_group_member_that_starts_at_its_not_before_releases_the_others() {
        let mut timeline = play(
            "[[event]]\nevent_type = \"Terminate\"\nnotice = \"10s\"\napproval_group = \"g\"\n\
             [[event]]\nevent_type = \"Terminate\"\nnotice = \"100s\"\napproval_group = \"g\"\n",
        );
        timeline.advance(secs(0));
        let second = id(&timeline, 1);
        timeline.approve(&second, secs(1));
        timeline.advance(secs(10));
        assert_eq!(states(&timeline), "Ss");
        timeline.advance(secs(15));
        assert_eq!(states(&timeline), "SS");
    }

    #[test]
    fn an_event_may_start_early_without_an_approval() {
        let mut timeline = play(
            "[[event]]\nevent_type = \"Freeze\"\nnotice = \"100s\"\nstarts_after = \"20s\"\nstarts_after_approval = \"5s\"\n\
             [[event]]\nevent_type = \"Freeze\"\nnotice = \"100s\"\nstarts_after = \"20s\"\nstarts_after_approval = \"30s\"\n",
        );
        timeline.advance(secs(0));
        let (first, second) = (id(&timeline, 0), id(&timeline, 1));
        timeline.approve(&first, secs(1));
        timeline.approve(&second, secs(1));
        timeline.advance(secs(6));
        assert_eq!(states(&timeline), "Ss");
        timeline.advance(secs(20));
        assert_eq!(states(&timeline), "SS");
    }

    #[test]
    fn plays_cancellation_rescheduling_incarnation_reset_and_missing_notice() {
        let mut timeline = builtin("cancelled");
        timeline.advance(secs(10));
        let event_id = id(&timeline, 0);
        timeline.approve(&event_id, secs(11));
        timeline.advance(secs(2000));
        let kinds = changes(&mut timeline).into_iter().map(|(_, kind, _)| kind);
        assert!(kinds.eq([
            TransitionKind::Appeared,
            TransitionKind::Approved,
            TransitionKind::Cancelled
        ]));

        let mut timeline = builtin("rescheduled");
        timeline.advance(secs(10));
        assert_eq!(timeline.document().events[0].not_before, Some(secs(910)));
        timeline.advance(secs(310));
        assert_eq!(timeline.document().events[0].not_before, Some(secs(1210)));
        assert_eq!(timeline.document().incarnation, 3);

        let mut timeline = builtin("incarnation-reset");
        timeline.advance(secs(119));
        assert_eq!(timeline.document().incarnation, 280);
        let before = timeline.document().events.clone();
        timeline.advance(secs(120));
        assert_eq!(
            (timeline.document().incarnation, &timeline.document().events),
            (1, &before)
        );
        timeline.advance(secs(910));
        assert_eq!(timeline.document().incarnation, 2);

        let mut timeline = builtin("hardware-failure");
        timeline.advance(secs(10));
        assert_eq!(states(&timeline), "S");
        assert_eq!(
            timeline.document().events[0].facts.resources,
            ["WestNO_0", "WestNO_1"]
        );
    }

    #[test]
    fn events_at_the_same_time_are_one_change_of_the_document() {
        let mut timeline = builtin("scale-in");
        timeline.advance(secs(10));
        let document = timeline.document();
        assert_eq!((document.incarnation, document.events.len()), (2, 200));
        assert_eq!(document.events[0].facts.resources, ["WestNO_0"]);
        assert_eq!(document.events[199].facts.resources, ["WestNO_199"]);
        let mut ids: Vec<_> = document
            .events
            .iter()
            .map(|it| it.facts.event_id.clone())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 200);
    }

    #[test]
    fn document_at_returns_past_documents() {
        let mut timeline = play(FREEZE);
        timeline.advance(secs(120));
        let at = |seconds| timeline.document_at(secs(seconds)).incarnation;
        assert_eq!(
            (at(0), at(9), at(10), at(109), at(110), at(999)),
            (1, 1, 2, 2, 3, 3)
        );
    }

    #[test]
    fn speed_divides_every_delay_and_invalid_speeds_count_as_one() {
        let scenario = Scenario::builtin("user-reboot").expect("known");
        let mut timeline = Timeline::new(&scenario, "vm", 60.0, 1);
        timeline.advance(secs(1));
        assert_eq!(
            timeline.document().events[0].not_before,
            Some(Duration::from_nanos(166_666_667) + secs(15))
        );
        for speed in [
            0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
            f64::MAX,
        ] {
            let mut timeline = Timeline::new(&scenario, "vm", speed, 1);
            timeline.advance(Duration::MAX);
            assert!(timeline.finished(), "{speed}");
        }
    }

    /// Approves at random times in every built-in scenario, and checks the guarantees for clients.
    #[test]
    fn random_approvals_keep_the_invariants() {
        let mut random = EventIds(9);
        for (name, _) in Scenario::builtins() {
            let scenario = Scenario::builtin(name).expect("known");
            for _ in 0..20 {
                let mut timeline = Timeline::new(&scenario, "WestNO_0", 1.0, 1);
                let mut before = timeline.document();
                let mut ended = Vec::new();
                let mut second = 0;
                while !timeline.finished() {
                    second += 1 + random.next_u64() % 60;
                    timeline.advance(secs(second));
                    let document = timeline.document();
                    assert_eq!(
                        document.incarnation == before.incarnation,
                        document == before
                    );
                    for event in &before.events {
                        let now = document.events.iter().find(|it| it.facts == event.facts);
                        assert!(
                            !event.started || now.is_none_or(|now| now.started),
                            "{name}"
                        );
                        if now.is_none() {
                            ended.push(event.facts.event_id.clone());
                        }
                    }
                    for event in &document.events {
                        assert!(
                            !ended.contains(&event.facts.event_id),
                            "{name}: an ended event came back"
                        );
                        let has_time = !event.started && !event.facts.is_advice();
                        assert_eq!(event.not_before.is_some(), has_time, "{name}");
                        assert!(
                            event.not_before.is_none_or(|at| at > secs(second)),
                            "{name}"
                        );
                        if random.next_u64().is_multiple_of(40) {
                            timeline.approve(&event.facts.event_id, secs(second));
                        }
                    }
                    before = document;
                }
                assert!(timeline.document().events.is_empty(), "{name}");
            }
        }
    }
}
