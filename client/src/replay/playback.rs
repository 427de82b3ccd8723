//! A scenario in motion: a pure state machine with time as an argument.
//!
//! Every event goes Scheduled → Started → gone, or a shorter way; each change of the document raises
//! the incarnation by one, and changes at one moment are one change (WIRE 3 and 5). Time is the span
//! since the start of the playback; the caller owns the clock.
//!
//! ```
//! use std::time::Duration;
//! use scheduled_events::replay::{Playback, Scenario};
//!
//! let scenario = Scenario::builtin("user-reboot").expect("a built-in name");
//! // At speed 60, ten seconds pass in a sixth of a second.
//! let mut playback = Playback::new(&scenario, "WestNO_0", 60.0, 7);
//! playback.advance(Duration::from_secs(1));
//! let document = playback.document();
//! assert_eq!(document.incarnation, 2);
//! assert!(!document.events[0].started);
//!
//! playback.approve(&document.events[0].facts.event_id, Duration::from_secs(1));
//! playback.advance(Duration::from_secs(2));
//! assert!(playback.document().events[0].started);
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::course::{Live, Phase, scale};
use super::guid::Guids;
use super::scenario::Scenario;

/// A scenario being played.
#[derive(Clone, Debug)]
pub struct Playback {
    events: Vec<Live>,
    incarnation: u64,
    /// When, and to what, the incarnation is set; taken once it has happened.
    reset: Option<(Duration, u64)>,
    now: Duration,
    /// Every document so far with the moment it came up, the first at zero.
    history: Vec<(Duration, Arc<Document>)>,
    transitions: Vec<Transition>,
}

/// What a request is answered with, before it is written for some version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// `DocumentIncarnation`.
    pub incarnation: u64,
    /// The events on at that moment, in the scenario's order.
    pub events: Vec<Event>,
}

/// One event as a document shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What never changes.
    pub facts: Arc<Facts>,
    /// `EventStatus`: Started, or else Scheduled.
    pub started: bool,
    /// `NotBefore` since the start of the playback; nothing once Started.
    pub not_before: Option<Duration>,
}

/// What an event is from its first document to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `EventId`, an upper-case GUID.
    pub event_id: String,
    /// `EventType`.
    pub event_type: String,
    /// `EventSource`.
    pub event_source: String,
    /// `Description`.
    pub description: String,
    /// `DurationInSeconds`.
    pub duration_in_seconds: i64,
    /// `Resources`, placeholders filled in.
    pub resources: Vec<String>,
}

/// Something that happened to an event, or to the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Since the start of the playback.
    pub at: Duration,
    /// What happened.
    pub change: Change,
    /// The event it happened to; nothing for [`Change::IncarnationReset`].
    pub event: Option<Event>,
    /// The incarnation of the document that shows it first.
    pub incarnation: u64,
}

/// The kinds of [`Transition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// In the document for the first time, Scheduled, or Started if it comes without notice.
    Appeared,
    /// Approved by a request; the document does not show it.
    Approved,
    /// `NotBefore` has moved.
    Rescheduled,
    /// From Scheduled to Started.
    Started,
    /// From Scheduled to gone.
    Cancelled,
    /// From Started to gone.
    Gone,
    /// The incarnation was set anew.
    IncarnationReset,
}

/// What became of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The first one of a Scheduled event.
    Accepted,
    /// Approved before, Started or gone: valid and without effect.
    WithoutEffect,
    /// No event with this `EventId` has appeared yet.
    Unknown,
}

impl Playback {
    /// Sets a scenario up for the VM called `vm_name`.
    ///
    /// All delays are divided by `speed`; one that is not a positive finite number counts as 1. The
    /// `EventIds` follow from `id_seed`: the same seed gives the same ones.
    pub fn new(scenario: &Scenario, vm_name: &str, speed: f64, id_seed: u64) -> Self {
        let mut ids = Guids(id_seed);
        let events: Vec<Live> = scenario
            .events
            .iter()
            .flat_map(|script| (0..script.count).map(move |index| (script, index)))
            .map(|(script, index)| Live::new(script, index, vm_name, speed, ids.next()))
            .collect();
        let document = Document { incarnation: scenario.first_incarnation, events: Vec::new() };
        Self {
            events,
            incarnation: scenario.first_incarnation,
            reset: scenario.incarnation_reset.map(|reset| (scale(reset.after, speed), reset.to)),
            now: Duration::ZERO,
            history: vec![(Duration::ZERO, Arc::new(document))],
            transitions: Vec::new(),
        }
    }

    /// Lets everything happen that is due by `now`. An earlier `now` than the last changes nothing.
    pub fn advance(&mut self, now: Duration) {
        while let Some(due) = self.next_due().filter(|&due| due <= now) {
            self.step(due);
        }
        self.now = self.now.max(now);
    }

    /// Approves an event, compared without ASCII case, after advancing to `now`.
    ///
    /// It starts after its own delay; in an approval group, once no other Scheduled member is left
    /// unapproved (WIRE 3, the rule for Terminate). `NotBefore` remains the latest moment.
    pub fn approve(&mut self, event_id: &str, now: Duration) -> Approval {
        self.advance(now);
        let now = self.now;
        let Some(index) = self.position(event_id) else {
            return Approval::Unknown;
        };
        let Some(event) = self.events.get_mut(index) else {
            return Approval::Unknown;
        };
        if event.phase != Phase::Scheduled || event.approved {
            return Approval::WithoutEffect;
        }
        event.approved = true;
        self.transitions.push(Transition {
            at: now,
            change: Change::Approved,
            event: Some(event.view()),
            incarnation: self.incarnation,
        });
        self.release(now);
        self.advance(now);
        Approval::Accepted
    }

    /// Whether an event with this `EventId` has appeared so far; it may be gone again.
    pub fn knows(&self, event_id: &str) -> bool {
        self.position(event_id).is_some()
    }

    /// The current document.
    pub fn document(&self) -> Arc<Document> {
        self.document_at(self.now)
    }

    /// The document from before the start of the playback, which has no events.
    pub fn first_document(&self) -> Arc<Document> {
        self.history[0].1.clone()
    }

    /// The document as it was at `time`.
    pub fn document_at(&self, time: Duration) -> Arc<Document> {
        let upto = self.history.partition_point(|(since, _)| *since <= time);
        self.history[upto.saturating_sub(1)].1.clone()
    }

    /// When something happens next if nobody approves anything.
    pub fn next_due(&self) -> Option<Duration> {
        let events = self.events.iter().filter_map(Live::next_due);
        events.chain(self.reset.map(|(due, _)| due)).min()
    }

    /// Whether every event has appeared and gone, and nothing else is to come.
    pub fn finished(&self) -> bool {
        self.next_due().is_none()
    }

    /// Takes what has happened since the last call, oldest first.
    pub fn take_transitions(&mut self) -> Vec<Transition> {
        std::mem::take(&mut self.transitions)
    }

    fn position(&self, event_id: &str) -> Option<usize> {
        self.events
            .iter()
            .position(|event| event.phase != Phase::Pending && event.facts.event_id.eq_ignore_ascii_case(event_id))
    }

    /// Everything due at exactly `due` becomes one change of the document.
    fn step(&mut self, due: Duration) {
        self.now = due;
        let first_new = self.transitions.len();
        for event in &mut self.events {
            if event.next_due() == Some(due) {
                let before = event.view();
                let change = event.step(due);
                let gone = matches!(change, Change::Cancelled | Change::Gone);
                let event = Some(if gone { before } else { event.view() });
                self.transitions.push(Transition { at: due, change, event, incarnation: 0 });
            }
        }
        self.incarnation = self.incarnation.wrapping_add(1);
        if let Some((at, to)) = self.reset
            && at <= due
        {
            self.reset = None;
            self.incarnation = to;
            let change = Change::IncarnationReset;
            self.transitions.push(Transition { at: due, change, event: None, incarnation: to });
        }
        for transition in &mut self.transitions[first_new..] {
            transition.incarnation = self.incarnation;
        }
        let events = self.events.iter().filter(|event| event.is_on()).map(Live::view).collect();
        let document = Document { incarnation: self.incarnation, events };
        self.history.push((due, Arc::new(document)));
        // A start, an end or a cancellation may have been what others of the group waited for.
        self.release(due);
    }

    /// Gives a starting moment to approved events that need not wait for others any longer.
    fn release(&mut self, now: Duration) {
        let held: Vec<String> = self
            .events
            .iter()
            .filter(|event| event.phase == Phase::Scheduled && !event.approved)
            .filter_map(|event| event.group.clone())
            .collect();
        for event in &mut self.events {
            let waits = event.group.as_ref().is_some_and(|group| held.contains(group));
            if event.phase == Phase::Scheduled && event.approved && event.starts.is_none() && !waits {
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

    fn play(text: &str) -> Playback {
        let scenario = Scenario::parse(&format!("about = \"A test.\"\n{text}")).expect(text);
        Playback::new(&scenario, "WestNO_0", 1.0, 1)
    }

    fn builtin(name: &str) -> Playback {
        Playback::new(&Scenario::builtin(name).expect(name), "WestNO_0", 1.0, 1)
    }

    fn id(playback: &Playback, index: usize) -> String {
        playback.document().events[index].facts.event_id.clone()
    }

    /// Each event's status letter, in document order.
    fn states(playback: &Playback) -> String {
        playback.document().events.iter().map(|event| if event.started { 'S' } else { 's' }).collect()
    }

    const FREEZE: &str = "[[event]]\nevent_type = \"Freeze\"\nappears = \"10s\"\nnotice = \"100s\"\n\
                          starts_after_approval = \"5s\"\nstarted_for = \"50s\"\n";

    #[test]
    fn an_unapproved_event_starts_at_not_before() {
        let mut playback = play(FREEZE);
        let mut seen = Vec::new();
        for second in 0..=200 {
            playback.advance(secs(second));
            seen.push((playback.document().incarnation, states(&playback)));
        }
        seen.dedup();
        assert_eq!(seen, [(1, String::new()), (2, "s".into()), (3, "S".into()), (4, String::new())]);
        assert!(playback.finished());
        let moments: Vec<_> =
            playback.take_transitions().iter().map(|it| (it.at.as_secs(), it.change, it.incarnation)).collect();
        assert_eq!(moments, [(10, Change::Appeared, 2), (110, Change::Started, 3), (160, Change::Gone, 4)]);
    }

    #[test]
    fn an_approved_event_starts_early_and_keeps_its_id() {
        let mut playback = play(FREEZE);
        assert_eq!(playback.approve("0", secs(1)), Approval::Unknown);
        playback.advance(secs(20));
        let event_id = id(&playback, 0);
        assert_eq!(playback.document().events[0].not_before, Some(secs(110)));
        assert_eq!(playback.approve(&event_id.to_ascii_lowercase(), secs(20)), Approval::Accepted);
        assert_eq!(playback.approve(&event_id, secs(21)), Approval::WithoutEffect);
        assert_eq!(states(&playback), "s");
        assert_eq!(playback.next_due(), Some(secs(25)));
        playback.advance(secs(25));
        assert_eq!(states(&playback), "S");
        assert_eq!((id(&playback, 0), playback.document().events[0].not_before), (event_id.clone(), None));
        assert_eq!(playback.approve(&event_id, secs(26)), Approval::WithoutEffect);
        playback.advance(secs(75));
        assert!(playback.finished() && playback.knows(&event_id));
        assert_eq!(playback.approve(&event_id, secs(80)), Approval::WithoutEffect);
    }

    #[test]
    fn an_approval_never_puts_the_start_off() {
        let mut playback = play(FREEZE);
        playback.advance(secs(10));
        let event_id = id(&playback, 0);
        playback.approve(&event_id, secs(108));
        assert_eq!(playback.next_due(), Some(secs(110)));
    }

    #[test]
    fn a_group_waits_for_all_or_for_not_before() {
        for second_approval in [Some(20), None] {
            let mut playback = builtin("terminate-pair");
            playback.advance(secs(10));
            let (first, second) = (id(&playback, 0), id(&playback, 1));
            assert_ne!(first, second);
            assert_eq!(playback.approve(&second, secs(12)), Approval::Accepted);
            playback.advance(secs(19));
            assert_eq!(states(&playback), "ss");
            if let Some(at) = second_approval {
                playback.approve(&first, secs(at));
                playback.advance(secs(at + 5));
            } else {
                playback.advance(secs(309));
                assert_eq!(states(&playback), "ss");
                playback.advance(secs(310));
            }
            assert_eq!((states(&playback).as_str(), playback.document().incarnation), ("SS", 3));
        }
    }

    #[test]
    fn a_group_member_that_goes_its_own_way_releases_the_others() {
        let mut playback = play(
            "[[event]]\nevent_type = \"Terminate\"\nnotice = \"10s\"\napproval_group = \"g\"\n\
             [[event]]\nevent_type = \"Terminate\"\nnotice = \"100s\"\napproval_group = \"g\"\n",
        );
        playback.advance(secs(0));
        let second = id(&playback, 1);
        playback.approve(&second, secs(1));
        playback.advance(secs(10));
        assert_eq!(states(&playback), "Ss");
        playback.advance(secs(15));
        assert_eq!(states(&playback), "SS");
    }

    #[test]
    fn cancelled_rescheduled_reset_and_without_notice() {
        let mut playback = builtin("cancelled");
        playback.advance(secs(10));
        let event_id = id(&playback, 0);
        playback.approve(&event_id, secs(11));
        playback.advance(secs(2000));
        let changes: Vec<_> = playback.take_transitions().iter().map(|it| it.change).collect();
        assert_eq!(changes, [Change::Appeared, Change::Approved, Change::Cancelled]);

        let mut playback = builtin("rescheduled");
        playback.advance(secs(10));
        assert_eq!(playback.document().events[0].not_before, Some(secs(910)));
        playback.advance(secs(310));
        assert_eq!(playback.document().events[0].not_before, Some(secs(1210)));
        assert_eq!(playback.document().incarnation, 3);

        let mut playback = builtin("incarnation-reset");
        playback.advance(secs(119));
        assert_eq!(playback.document().incarnation, 280);
        let before = playback.document().events.clone();
        playback.advance(secs(120));
        assert_eq!((playback.document().incarnation, &playback.document().events), (1, &before));
        playback.advance(secs(910));
        assert_eq!(playback.document().incarnation, 2);

        let mut playback = builtin("hardware-failure");
        playback.advance(secs(10));
        assert_eq!(states(&playback), "S");
        assert_eq!(playback.document().events[0].facts.resources, ["WestNO_0", "WestNO_1"]);
    }

    #[test]
    fn many_events_at_one_moment_are_one_change() {
        let mut playback = builtin("scale-in");
        playback.advance(secs(10));
        let document = playback.document();
        assert_eq!((document.incarnation, document.events.len()), (2, 200));
        assert_eq!(document.events[0].facts.resources, ["WestNO_0"]);
        assert_eq!(document.events[199].facts.resources, ["WestNO_199"]);
        let mut ids: Vec<_> = document.events.iter().map(|it| it.facts.event_id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 200);
    }

    #[test]
    fn earlier_documents_are_kept() {
        let mut playback = play(FREEZE);
        playback.advance(secs(120));
        let at = |seconds| playback.document_at(secs(seconds)).incarnation;
        assert_eq!((at(0), at(9), at(10), at(109), at(110), at(999)), (1, 1, 2, 2, 3, 3));
    }

    #[test]
    fn speed_divides_every_delay_and_odd_speeds_do_no_harm() {
        let scenario = Scenario::builtin("user-reboot").expect("known");
        let mut playback = Playback::new(&scenario, "vm", 60.0, 1);
        playback.advance(secs(1));
        assert_eq!(playback.document().events[0].not_before, Some(Duration::from_nanos(166_666_667) + secs(15)));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX] {
            let mut playback = Playback::new(&scenario, "vm", speed, 1);
            playback.advance(Duration::MAX);
            assert!(playback.finished(), "{speed}");
        }
    }

    /// Approvals at any moment, for every built-in scenario: what a client may rely on holds.
    #[test]
    fn random_approvals_keep_the_rules() {
        let mut random = Guids(9);
        for (name, _) in Scenario::builtins() {
            let scenario = Scenario::builtin(name).expect("known");
            for _ in 0..20 {
                let mut playback = Playback::new(&scenario, "WestNO_0", 1.0, 1);
                let mut before = playback.document();
                let mut ended = Vec::new();
                let mut second = 0;
                while !playback.finished() {
                    second += 1 + random.next_u64() % 60;
                    playback.advance(secs(second));
                    let document = playback.document();
                    assert_eq!(document.incarnation == before.incarnation, document == before);
                    for event in &before.events {
                        let now = document.events.iter().find(|it| it.facts == event.facts);
                        assert!(!event.started || now.is_none_or(|now| now.started), "{name}");
                        if now.is_none() {
                            ended.push(event.facts.event_id.clone());
                        }
                    }
                    for event in &document.events {
                        assert!(!ended.contains(&event.facts.event_id), "{name}: it came back");
                        assert_eq!(event.not_before.is_none(), event.started, "{name}");
                        assert!(event.not_before.is_none_or(|at| at > secs(second)), "{name}");
                        if random.next_u64().is_multiple_of(40) {
                            playback.approve(&event.facts.event_id, secs(second));
                        }
                    }
                    before = document;
                }
                assert!(playback.document().events.is_empty(), "{name}");
            }
        }
    }
}
