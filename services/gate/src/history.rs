//! What a machine's records say about its events: which are over, which it was taken out of service
//! for, and whether it is back.
//!
//! The daemon of a machine applies the records of the watcher's audit file; the hub applies those
//! that it makes for a machine without an agent. Both apply the records of an earlier process
//! first: the hub as far as its audit file is on this computer.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use scheduled_events::record::{GateOutcome, HookOutcome, Record};
use scheduled_events_core::record::EventMembers;
use scheduled_events_core::{Change, GatePhase};
use tokio::time::Instant;

use crate::register::Progress;

/// How long after an event's end it is certain that no preparation was started: the record of a
/// preparation follows the event's end, as that of a recovery does.
const RECORD_TIME: Duration = Duration::from_secs(10);

/// The most events in a machine's register.
const PROGRESS_MAX: usize = 32;

/// The history of a machine's events. Ids are in lower case.
///
/// ```
/// use scheduled_events::record::ReadRecord;
/// use scheduled_events_gate::history::History;
/// use tokio::time::Instant;
///
/// let mut history = History::default();
/// let mut apply = |line: &str| {
///     let record = ReadRecord::from_line(line).unwrap();
///     record.with(|record| history.apply(record, Instant::now()));
/// };
/// apply(r#"{"record":"prepare","event_id":"A","outcome":"begun","mine":true}"#);
/// apply(r#"{"record":"change","change":"completed","event_id":"A","mine":true}"#);
/// assert!(history.over_since("a").is_some());
/// assert!(!history.is_in_service(), "it has yet to recover");
/// ```
#[derive(Debug, Default)]
pub struct History {
    events: HashMap<String, EventHistory>,
    /// Whether the records of an earlier process were applied. This process knows later questions
    /// without their records.
    has_past: bool,
    /// This machine's events that started without its approval, oldest first. Another machine may
    /// have approved them.
    pub(crate) started: VecDeque<String>,
    /// Events that are over, and since when, oldest first. Other machines may hold slots for them.
    pub(crate) ended: VecDeque<(String, Instant)>,
    /// Events for which this machine prepares although the gate has not answered yes, oldest first.
    /// It may hold no slot for them.
    pub(crate) last_calls: VecDeque<String>,
    /// Those of which the watcher has not said since that the machine is ready.
    pub(crate) called: HashSet<String>,
    /// The event that this machine began to prepare for last.
    last_prepared: Option<String>,
}

/// What is known about an event.
#[derive(Debug, Default)]
struct EventHistory {
    /// The id as the service wrote it; empty if no record has it.
    written_id: String,
    effect: Effect,
    /// Whether the records would show a preparation: they have the announcement, or the watcher was
    /// allowed to prepare.
    is_known_from_start: bool,
    occurrence: Occurrence,
    /// Whether the event was over and came back under its id, and, as far as is known, nobody has
    /// asked about it since.
    has_returned: bool,
    /// Whether the last call has come, and the preparation is about to begin.
    is_called: bool,
    service: Service,
}

/// What an event does to this machine, according to its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Effect {
    /// The machine comes back after it.
    #[default]
    Interrupts,
    /// The machine does not come back.
    Removes,
    /// It evicts a spot machine, this one or another one. It takes no slots.
    Evicts { this: bool },
}

/// How far an event is. Its id can come back: then it is another occurrence.
#[derive(Debug, Default)]
struct Occurrence {
    /// Whether this machine approved it.
    was_approved: bool,
    /// Whether it has started for this machine. A machine can recover from such an event without a
    /// preparation: `watch --recover-all` does that.
    has_started: bool,
    over_since: Option<Instant>,
}

/// Whether an event takes this machine out of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Service {
    /// No record says so.
    #[default]
    Untouched,
    /// A rule prepared for it, and it names only other machines.
    PreparedForOthers,
    /// This machine was prepared for it, or tried a preparation or a recovery.
    Out,
    /// It has recovered, at this time.
    Back(Instant),
}

impl Effect {
    fn of(event_type: &str, mine: Option<bool>) -> Self {
        // Another machine's departure does not take this one away.
        let this = mine != Some(false);
        match event_type {
            "Terminate" if this => Self::Removes,
            "Preempt" => Self::Evicts { this },
            _ => Self::Interrupts,
        }
    }

    /// Whether this machine does not come back.
    const fn is_final(self) -> bool {
        matches!(self, Self::Removes | Self::Evicts { this: true })
    }

    const fn takes_slots(self) -> bool {
        !matches!(self, Self::Evicts { .. })
    }
}

impl EventHistory {
    /// The event is in a document: if it was over, this is another occurrence.
    fn announce(&mut self) {
        if self.occurrence.over_since.is_some() {
            self.occurrence = Occurrence::default();
            self.has_returned = true;
        }
    }

    const fn is_out(&self) -> bool {
        matches!(self.service, Service::Out)
    }

    /// Whether the machine is back in service although the event has not started.
    const fn is_back_early(&self) -> bool {
        let Occurrence {
            has_started,
            over_since,
            ..
        } = &self.occurrence;
        !*has_started && over_since.is_none() && matches!(self.service, Service::Back(_))
    }
}

impl History {
    /// Applies a record, which was written or read now.
    pub fn apply(&mut self, record: &Record<'_>, now: Instant) {
        match *record {
            Record::Change { change, event } => {
                self.apply_type(&event);
                self.apply_change(change, &event, now);
            }
            Record::Gate {
                phase,
                outcome,
                event,
                ..
            } => {
                self.apply_type(&event);
                self.was_asked(&event);
                if phase == GatePhase::Approve {
                    self.called.remove(&key(&event));
                }
                if outcome == GateOutcome::LastCall {
                    // One for another machine takes no slot for this one.
                    self.of(&event).is_called = event.mine != Some(false);
                }
            }
            Record::Prepare { outcome, event, .. } => {
                self.apply_type(&event);
                self.was_asked(&event);
                let known = self.of(&event);
                // A preparation for another machine does not take this one out of service.
                if event.mine != Some(false) {
                    known.service = Service::Out;
                } else if known.service != Service::Out {
                    known.service = Service::PreparedForOthers;
                }
                if std::mem::take(&mut known.is_called) {
                    self.last_calls.push_back(key(&event));
                    self.called.insert(key(&event));
                }
                // Preparations for two events may overlap.
                if event.mine != Some(false) && outcome == HookOutcome::Begun {
                    self.last_prepared = Some(key(&event));
                }
            }
            Record::Recover {
                event_ids,
                outcome: Some(outcome),
                event,
            } => {
                self.apply_type(&event);
                self.apply_recovery(event_ids, outcome, event.mine, now);
            }
            Record::Approval {
                event_ids,
                status: Some(200..300),
                ..
            } => {
                for id in event_ids {
                    self.event(id).occurrence.was_approved = true;
                }
            }
            _ => {}
        }
    }

    /// The records of an earlier process could not all be read, and are applied from the beginning.
    pub(crate) fn begin_again(&mut self) {
        self.started.clear();
        self.ended.clear();
        self.last_calls.clear();
        self.called.clear();
    }

    /// All records of an earlier process are applied. From now on, this process knows without a
    /// record what it is asked.
    pub fn end_past(&mut self) {
        self.has_past = true;
    }

    /// Records that this machine is out of service, which the watcher knows, and that its recovery
    /// may be from this event. If a recovery from it is recorded, the machine is out for another.
    pub fn expect_recovery(&mut self, event: &EventMembers<'_>) {
        self.apply_type(event);
        let service = &mut self.of(event).service;
        if !matches!(service, Service::Back(_)) {
            *service = Service::Out;
        }
    }

    fn apply_type(&mut self, event: &EventMembers<'_>) {
        if let Some(event_type) = event.event_type
            && !event.event_id.is_empty()
        {
            let is_advice = event_type == "SpotRebalanceRecommendation"
                || event
                    .event_status
                    .is_some_and(|status| status == "Advisory");
            self.of(event).effect = if is_advice {
                // The eviction that it advises of is an event of its own.
                Effect::Interrupts
            } else {
                Effect::of(&event_type.to_string(), event.mine)
            };
        }
    }

    fn apply_change(&mut self, change: Change, event: &EventMembers<'_>, now: Instant) {
        let known = self.of(event);
        match change {
            Change::Completed | Change::Cancelled | Change::Ended | Change::AdviceWithdrawn => {
                if known.occurrence.over_since.is_none() {
                    known.occurrence.over_since = Some(now);
                    self.ended.push_back((key(event), now));
                }
            }
            Change::Started | Change::StartedWithoutNotice => {
                known.announce();
                known.occurrence.has_started |= event.mine != Some(false);
                if !known.occurrence.was_approved && event.mine == Some(true) {
                    self.started.push_back(key(event));
                }
            }
            change => {
                known.announce();
                known.is_known_from_start |= matches!(change, Change::Scheduled | Change::Advised);
            }
        }
    }

    fn apply_recovery(
        &mut self,
        event_ids: &[&str],
        outcome: HookOutcome,
        mine: Option<bool>,
        now: Instant,
    ) {
        let service = match outcome {
            // It does nothing.
            HookOutcome::DryRun => return,
            HookOutcome::Done | HookOutcome::NoCommand => Service::Back(now),
            // A recovery from another machine's event is no recovery of this machine.
            _ if mine == Some(false) => return,
            _ => Service::Out,
        };
        for id in event_ids {
            self.event(id).service = service;
        }
    }

    /// The watcher has asked about the event, this process or an earlier one.
    fn was_asked(&mut self, event: &EventMembers<'_>) {
        if !self.has_past {
            self.of(event).has_returned = false;
        }
    }

    fn of(&mut self, event: &EventMembers<'_>) -> &mut EventHistory {
        let known = self.events.entry(key(event)).or_default();
        if known.written_id.is_empty() {
            known.written_id = event.event_id.to_string();
        }
        // The event has grown: the preparation is this machine's, too.
        if known.service == Service::PreparedForOthers && event.mine != Some(false) {
            known.service = Service::Out;
        }
        known
    }

    fn event(&mut self, id: &str) -> &mut EventHistory {
        self.events.entry(id.to_ascii_lowercase()).or_default()
    }

    /// The event's id as the service wrote it, as far as it is known.
    pub(crate) fn written_id<'a>(&'a self, id: &'a str) -> &'a str {
        let known = self.events.get(id).map(|event| event.written_id.as_str());
        known.filter(|id| !id.is_empty()).unwrap_or(id)
    }

    /// How far this machine is with its events, at most [`PROGRESS_MAX`]. One that ended some time ago is left out, unless the machine is
    /// still out of service for it.
    pub(crate) fn progress(&self, over_within: Duration) -> BTreeMap<String, Progress> {
        let progress = |event: &EventHistory| {
            let Occurrence {
                was_approved,
                has_started,
                over_since,
            } = event.occurrence;
            match over_since {
                // A machine that does not come back is gone with its event.
                Some(_) if event.is_out() && !event.effect.is_final() => Some(Progress::Recovering),
                Some(since) => (since.elapsed() < over_within).then_some(Progress::Over),
                None if has_started => Some(Progress::Started),
                None => was_approved.then_some(Progress::Approved),
            }
        };
        let mut all: Vec<_> = self
            .events
            .iter()
            .filter_map(|(id, event)| Some((progress(event)?, id)))
            .collect();
        // What is over matters least.
        all.sort_unstable();
        let shown = all.into_iter().take(PROGRESS_MAX);
        shown.map(|(progress, id)| (id.clone(), progress)).collect()
    }

    /// When the event ended; `None` if it has not, or if nothing is known.
    pub fn over_since(&self, id: &str) -> Option<Instant> {
        self.events.get(id)?.occurrence.over_since
    }

    /// The ids of the events that ended at least `time` ago.
    pub(crate) fn over_for(&self, time: Duration) -> impl Iterator<Item = &str> {
        let is_old = move |event: &EventHistory| {
            let since = event.occurrence.over_since;
            since.is_some_and(|since| since.elapsed() >= time)
        };
        self.events
            .iter()
            .filter(move |(_, event)| is_old(event))
            .map(|(id, _)| id.as_str())
    }

    /// Since when this machine is back in service after an event that is over; `None` if it is not,
    /// or if nothing is known. If the record of a preparation may be lost, or if the event has
    /// started without one, the machine is back once the time for a recovery has passed.
    pub(crate) fn in_service_since(
        &self,
        id: &str,
        now: Instant,
        return_within: Duration,
    ) -> Option<Instant> {
        let event = self.events.get(id)?;
        let over_since = event.occurrence.over_since?;
        match event.service {
            Service::Back(recovered) => Some(recovered.max(over_since)),
            Service::Out => None,
            Service::Untouched | Service::PreparedForOthers => {
                let is_certain = event.is_known_from_start && !event.occurrence.has_started;
                let recovery_time = if is_certain {
                    Duration::ZERO
                } else {
                    return_within
                };
                Some(over_since).filter(|over| now - *over >= recovery_time + RECORD_TIME)
            }
        }
    }

    /// Whether this machine went back into service although the event has not started, because the
    /// preparation was no longer needed.
    pub(crate) fn is_back_early(&self, id: &str) -> bool {
        self.events.get(id).is_some_and(EventHistory::is_back_early)
    }

    /// The ids of the events from which it did.
    pub(crate) fn back_early(&self) -> impl Iterator<Item = &str> {
        let back = self
            .events
            .iter()
            .filter(|(_, event)| event.is_back_early());
        back.map(|(id, _)| id.as_str())
    }

    /// Whether this machine has prepared for an event after which it does not come back, and has
    /// not recovered since. If it prepared for another event after that, it may come back.
    pub(crate) fn is_leaving(&self) -> bool {
        let is_final = |event: &EventHistory| event.effect.is_final() && event.is_out();
        let may_come_back =
            |event: &EventHistory| !is_final(event) && event.occurrence.over_since.is_none();
        let last = self.last_prepared.as_ref();
        let last = last.and_then(|id| self.events.get(id));
        self.events.values().any(is_final) && !last.is_some_and(may_come_back)
    }

    /// Whether this machine is known to be out of service for an event that takes slots.
    pub(crate) fn is_out_for(&self, id: &str) -> bool {
        self.events
            .get(id)
            .is_some_and(|event| event.is_out() && event.effect.takes_slots())
    }

    /// Whether, according to its records, this machine is in service.
    pub fn is_in_service(&self) -> bool {
        !self.events.values().any(EventHistory::is_out)
    }

    /// Whether the event was over and came back, and nobody has asked about it since.
    pub(crate) fn has_returned(&self, id: &str) -> bool {
        self.events.get(id).is_some_and(|event| event.has_returned)
    }

    /// Records that the watcher has said that the machine is ready.
    pub(crate) fn forget_call(&mut self, id: &str) {
        self.called.remove(id);
    }

    /// Records that the watcher asks about the event.
    pub(crate) fn forget_return(&mut self, id: &str) {
        self.event(id).has_returned = false;
    }

    /// Records that the watcher was allowed to prepare. An earlier preparation that this machine
    /// has recovered from no longer counts; one by the last call, without a recovery, does.
    pub(crate) fn expect_preparation(&mut self, id: &str) {
        let event = self.event(id);
        event.is_known_from_start = true;
        if matches!(event.service, Service::Back(_)) {
            event.service = Service::Untouched;
        }
    }
}

/// The event's id, as the history has it.
fn key(event: &EventMembers<'_>) -> String {
    event.event_id.to_string().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use scheduled_events::record::ReadRecord;

    use super::*;

    #[test]
    fn a_machine_that_prepared_for_another_event_after_that_may_come_back() {
        let (mut history, now) = (History::default(), Instant::now());
        let mut is_leaving = |line: &str| {
            let record = ReadRecord::from_line(line).expect("a record");
            record.with(|record| history.apply(record, now));
            history.is_leaving()
        };
        assert!(is_leaving(
            r#"{"record":"prepare","event_id":"A","outcome":"ready","event_type":"Terminate","mine":true}"#
        ));
        assert!(!is_leaving(
            r#"{"record":"prepare","event_id":"B","outcome":"begun","event_type":"Reboot","mine":true}"#
        ));
        assert!(is_leaving(
            r#"{"record":"change","change":"completed","event_id":"B","event_type":"Reboot","mine":true}"#
        ));
        // A scale-in may delete a machine that is out of service.
        assert!(is_leaving(
            r#"{"record":"prepare","event_id":"C","outcome":"begun","event_type":"Terminate","mine":true}"#
        ));
    }

    #[test]
    fn a_machine_that_ends_an_earlier_preparation_is_leaving_all_the_same() {
        let (mut history, now) = (History::default(), Instant::now());
        for line in [
            r#"{"record":"prepare","event_id":"A","outcome":"begun","event_type":"Reboot","mine":true}"#,
            r#"{"record":"prepare","event_id":"B","outcome":"begun","event_type":"Preempt","mine":true}"#,
            r#"{"record":"prepare","event_id":"A","outcome":"ready","event_type":"Reboot","mine":true}"#,
        ] {
            apply(&mut history, &[line], now);
        }
        assert!(history.is_leaving());
    }

    #[test]
    fn the_progress_of_an_event_is_known_until_some_time_after_its_end() {
        let (mut history, now) = (History::default(), Instant::now());
        let progress = |history: &History| {
            let all = history.progress(Duration::from_secs(60));
            all.into_iter().collect::<Vec<_>>()
        };
        let of = |progress| vec![("a".to_owned(), progress)];
        for (line, expected) in [
            (
                r#"{"record":"change","change":"scheduled","event_id":"A","mine":true}"#,
                vec![],
            ),
            (
                r#"{"record":"prepare","event_id":"A","outcome":"begun","mine":true}"#,
                vec![],
            ),
            (
                r#"{"record":"approval","event_ids":["A"],"status":200}"#,
                of(Progress::Approved),
            ),
            (
                r#"{"record":"change","change":"started","event_id":"A","mine":true}"#,
                of(Progress::Started),
            ),
            (
                r#"{"record":"change","change":"completed","event_id":"A","mine":true}"#,
                of(Progress::Recovering),
            ),
            (
                r#"{"record":"recover","event_id":"A","event_ids":["A"],"outcome":"done","mine":true}"#,
                of(Progress::Over),
            ),
        ] {
            apply(&mut history, &[line], now);
            assert_eq!(progress(&history), expected, "{line}");
        }
        assert_eq!(history.written_id("a"), "A");
        assert_eq!(history.written_id("b"), "b");
        assert!(history.progress(Duration::ZERO).is_empty());
    }

    fn apply(history: &mut History, lines: &[&str], now: Instant) {
        for line in lines {
            let record = ReadRecord::from_line(line).expect("a record");
            record.with(|record| history.apply(record, now));
        }
    }

    #[test]
    fn advice_that_is_withdrawn_is_over_and_takes_no_machine_away() {
        let start = Instant::now();
        for members in [
            r#""event_type":"SpotRebalanceRecommendation","event_status":"Scheduled""#,
            r#""event_type":"Preempt","event_status":"Advisory""#,
        ] {
            let line = |record: &str| {
                format!(r#"{{"event_id":"a",{members},"resources":["m"],"mine":true,{record}}}"#)
            };
            let mut history = History::default();
            let advised = line(r#""record":"change","change":"advised""#);
            let begun = line(r#""record":"prepare","outcome":"begun""#);
            apply(&mut history, &[&advised, &begun], start);
            assert!(history.is_out_for("a"), "it holds its slot: {members}");
            assert!(!history.is_leaving(), "the eviction is another event");
            let withdrawn = line(r#""record":"change","change":"advice-withdrawn""#);
            apply(&mut history, &[&withdrawn], start);
            assert!(history.over_since("a").is_some(), "{members}");
            let back = line(r#""record":"recover","event_ids":["a"],"outcome":"done""#);
            apply(&mut history, &[&back], start);
            let since = history.in_service_since("a", start, Duration::from_secs(60));
            assert_eq!(since, Some(start), "its slot is free");
        }
    }

    #[test]
    fn a_preparation_for_another_machine_leaves_this_one_in_service() {
        let start = Instant::now();
        let later = start + Duration::from_secs(3600);
        let prepared = r#"{"record":"prepare","event_id":"o","event_type":"Reboot","outcome":"begun","mine":false}"#;
        let named = r#"{"record":"change","change":"updated","event_id":"o","mine":true}"#;
        let no_longer = r#"{"record":"change","change":"updated","event_id":"o","mine":false}"#;
        let over = r#"{"record":"change","change":"completed","event_id":"o","mine":true}"#;
        let history = |lines: &[&str]| {
            let mut history = History::default();
            apply(&mut history, lines, start);
            history
        };
        let of_another = history(&[prepared]);
        assert!(of_another.is_in_service() && !of_another.is_out_for("o"));
        // From when on the event names this machine, the preparation is its own.
        for lines in [
            &[prepared, named, over][..],
            &[named, prepared, named, over],
            &[
                &prepared.replace("false", "true"),
                no_longer,
                prepared,
                over,
            ],
        ] {
            let own = history(lines);
            assert!(!own.is_in_service() && own.is_out_for("o"), "{lines:?}");
            let within = Duration::from_secs(60);
            assert_eq!(own.in_service_since("o", later, within), None, "{lines:?}");
        }
    }
}
