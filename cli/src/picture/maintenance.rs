//! A maintenance from audit files: machines, their events, and the actions on each.

use std::collections::HashMap;

use scheduled_events_core::{Change, UnixSeconds};
use serde_json::Value;

use scheduled_events::record::{EventRecord, event_key};

/// Events that follow each other within this time belong to one maintenance, in seconds.
const PAUSE_MAX: i64 = 60 * 60;

/// The records of one machine's watcher.
pub(crate) struct AuditLane {
    /// The machine's name if neither records nor events have it: the file's name.
    fallback: String,
    /// The machine that the records name.
    named: Option<String>,
    events: Vec<Drawn>,
    /// The index of each event, by its key.
    index: HashMap<String, usize>,
    last: UnixSeconds,
    /// The number of lines that are not records.
    pub(crate) unreadable: u64,
}

/// An event, and its course.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) members: EventRecord,
    pub(crate) announced: UnixSeconds,
    /// `NotBefore` as last seen.
    pub(crate) not_before: Option<UnixSeconds>,
    pub(crate) started: Option<UnixSeconds>,
    /// When it left the document, and the kind of change.
    pub(crate) ended: Option<(UnixSeconds, Change)>,
    /// In the order of time.
    pub(crate) marks: Vec<Mark>,
    /// The time of the last record, for an event that has not ended.
    pub(crate) seen_until: UnixSeconds,
}

/// An action on an event, and its result in one word.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: UnixSeconds,
    pub(crate) kind: MarkKind,
    pub(crate) result: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    Prepared,
    Gate,
    Approved,
    Recovered,
    Rescheduled,
}

impl Drawn {
    /// Whether it is advice, by its type or by its status.
    pub(crate) fn is_advice(&self) -> bool {
        let is = |word: &Option<String>, name: &str| word.as_deref() == Some(name);
        is(&self.members.event_type, "SpotRebalanceRecommendation")
            || is(&self.members.event_status, "Advisory")
    }

    pub(crate) fn until(&self) -> UnixSeconds {
        self.ended.map_or(self.seen_until, |(at, _)| at)
    }
}

/// The machines to draw with their events, in the order of time.
pub(crate) struct Maintenance {
    pub(crate) lanes: Vec<(String, Vec<Drawn>)>,
}

impl AuditLane {
    pub(crate) fn new(fallback: String) -> Self {
        Self {
            fallback,
            named: None,
            events: Vec::new(),
            index: HashMap::new(),
            last: UnixSeconds(i64::MIN),
            unreadable: 0,
        }
    }

    /// The same lane, of the machine that its records name.
    pub(crate) fn of(self, machine: String) -> Self {
        Self {
            named: Some(machine),
            ..self
        }
    }

    /// Whether it has no events.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether its records name this machine.
    pub(crate) fn is_of(&self, machine: &str) -> bool {
        let named = self.named.as_ref();
        named.is_some_and(|named| named.eq_ignore_ascii_case(machine))
    }

    /// Adds a line of an audit file.
    pub(crate) fn add(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let Ok(record) = serde_json::from_str::<Value>(text) else {
            self.unreadable += 1;
            return;
        };
        let word = |name: &str| record.get(name).and_then(Value::as_str);
        // The lines of a capture are no records of a watcher.
        let kind = word("record").filter(|kind| *kind != "exchange");
        let (Some(kind), Some(time)) = (kind, word("time").and_then(UnixSeconds::parse)) else {
            self.unreadable += 1;
            return;
        };
        self.last = self.last.max(time);
        let kind = match kind {
            "change" => return self.change(time, word("change"), text),
            "approval" => MarkKind::Approved,
            "prepare" => MarkKind::Prepared,
            "gate" => MarkKind::Gate,
            "recover" => MarkKind::Recovered,
            _ => return,
        };
        let result = match (
            kind,
            word("outcome"),
            record.get("status").and_then(Value::as_u64),
        ) {
            (MarkKind::Approved, _, Some(status)) => format!("status {status}"),
            (MarkKind::Approved, ..) => "no response".to_owned(),
            // It begins, or has yet to begin.
            (_, None | Some("begun"), _) => return,
            (_, Some(outcome), _) => outcome.to_owned(),
        };
        let ids = record
            .get("event_ids")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let own_id = if record.get("event_ids").is_some() {
            None
        } else {
            word("event_id")
        };
        for id in ids.chain(own_id) {
            if let Some(event) = self
                .index
                .get(&event_key(id))
                .and_then(|index| self.events.get_mut(*index))
            {
                event.marks.push(Mark {
                    at: time,
                    kind,
                    result: result.clone(),
                });
            }
        }
    }

    fn change(&mut self, time: UnixSeconds, change: Option<&str>, text: &str) {
        let change = Change::ALL
            .into_iter()
            .find(|known| Some(known.word()) == change);
        let (Some(change), Ok(members)) = (change, serde_json::from_str::<EventRecord>(text))
        else {
            self.unreadable += 1;
            return;
        };
        let key = event_key(&members.event_id);
        let index = *self.index.entry(key).or_insert(self.events.len());
        if index == self.events.len() {
            self.events.push(Drawn {
                announced: time,
                not_before: members.not_before,
                started: None,
                ended: None,
                marks: Vec::new(),
                seen_until: time,
                members,
            });
        } else if members.not_before.is_some() {
            self.events[index].not_before = members.not_before;
        }
        let event = &mut self.events[index];
        match change {
            Change::Started | Change::StartedWithoutNotice => {
                event.started = event.started.or(Some(time));
            }
            end if end.is_end() => {
                event.ended = Some((time, end));
            }
            Change::Rescheduled => {
                let result = event
                    .not_before
                    .map(|at| at.to_string())
                    .unwrap_or_default();
                event.marks.push(Mark {
                    at: time,
                    kind: MarkKind::Rescheduled,
                    result,
                });
            }
            _ => {}
        }
    }

    /// The name that the records have, or else the one that all of its own events have and no other event has.
    fn machine(&self) -> String {
        if let Some(named) = &self.named {
            return named.clone();
        }
        let has = |event: &Drawn, name: &String| {
            event
                .members
                .resources
                .iter()
                .flatten()
                .any(|other| other.eq_ignore_ascii_case(name))
        };
        let is_own = |event: &&Drawn| event.members.mine == Some(true);
        let mut names = self
            .events
            .iter()
            .find(is_own)
            .and_then(|event| event.members.resources.clone())
            .unwrap_or_default();
        names.retain(|name| {
            self.events
                .iter()
                .all(|event| has(event, name) == is_own(&event))
        });
        // If several names fit, the file's name may decide.
        let file = self.fallback.to_ascii_lowercase();
        let index = names
            .iter()
            .position(|name| file.contains(&name.to_ascii_lowercase()))
            .unwrap_or_default();
        if names.is_empty() {
            self.fallback.clone()
        } else {
            names.swap_remove(index)
        }
    }
}

impl Maintenance {
    /// The maintenance that the event with this id belongs to; by default, the last one.
    ///
    /// # Errors
    /// A sentence: there is no event, or none with this id.
    pub(crate) fn choose(audits: Vec<AuditLane>, event_id: Option<&str>) -> Result<Self, String> {
        let mut lanes: Vec<(String, Vec<Drawn>)> = Vec::new();
        let mut others: Vec<Drawn> = Vec::new();
        for mut audit in audits {
            let name = audit.machine();
            for event in &mut audit.events {
                event.seen_until = audit.last;
            }
            let (own, other) = audit
                .events
                .into_iter()
                .partition(|event| event.members.mine != Some(false));
            lanes.push((name, own));
            others.extend(other);
        }
        // Events of machines without an audit file, as the other machines saw them.
        let watched = lanes.len();
        for event in others {
            let resources = event.members.resources.as_deref().unwrap_or_default();
            let has = |lane: &(String, Vec<Drawn>)| {
                resources
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(&lane.0))
            };
            if lanes.iter().take(watched).any(has) {
                continue;
            }
            let id = event_key(&event.members.event_id);
            match lanes.iter_mut().skip(watched).find(|lane| has(lane)) {
                Some((_, events))
                    if events
                        .iter()
                        .any(|known| event_key(&known.members.event_id) == id) => {}
                Some((_, events)) => events.push(event),
                None => {
                    lanes.push((
                        resources
                            .first()
                            .cloned()
                            .unwrap_or_else(|| "no machine".to_owned()),
                        vec![event],
                    ));
                }
            }
        }
        let all = || lanes.iter().flat_map(|(_, events)| events);
        let first = match event_id.map(event_key) {
            Some(key) => all().find(|event| event_key(&event.members.event_id) == key),
            None => all().max_by_key(|event| event.announced),
        };
        let first = first.ok_or_else(|| match event_id {
            Some(id) => format!("there is no event {id:?}"),
            None => "no event was seen, so there is nothing to draw".to_owned(),
        })?;
        // Events near those of the maintenance belong to it, too.
        let (mut from, mut until) = (first.announced, first.until());
        // In both directions, so that a long chain of events does not take a pass for each.
        let mut spans: Vec<_> = all()
            .map(|event| (event.announced, event.until()))
            .collect();
        spans.sort_unstable();
        loop {
            let before = (from, until);
            for &(announced, ended) in spans.iter().rev().chain(&spans) {
                if announced.since(until) <= PAUSE_MAX && from.since(ended) <= PAUSE_MAX {
                    (from, until) = (from.min(announced), until.max(ended));
                }
            }
            if (from, until) == before {
                break;
            }
        }
        for (_, events) in &mut lanes {
            events.retain(|event| event.announced >= from && event.announced <= until);
        }
        lanes.retain(|(_, events)| !events.is_empty());
        Ok(Self { lanes })
    }
}
