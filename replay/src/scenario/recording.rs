//! Converts the records of a watcher to a scenario, so that `replay` can play it again.
//!
//! The input is the records of `watch`: an audit file, or its standard output with `--json`; or the
//! exchanges of `capture`, whose documents show the same changes. The scenario consists of the changes of each event and its approvals. Records have whole seconds,
//! and so do the times of the scenario.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::time::Duration;

use scheduled_events_core::wire::UNDERSCORED_API_VERSION;
use scheduled_events_core::{
    Change, Document, Event, EventId, NotBefore, Text, Tracker, UnixSeconds, VmNames,
};
use serde_json::{Map, Value};

use super::{MAX_DURATION, Scenario, ScenarioError};
use crate::capture::{CapturedExchange, Mask};

impl Scenario {
    /// The text of a scenario file that plays a watcher's records: an audit file, the output of
    /// `watch --json`, or the exchanges of `capture`.
    ///
    /// # Errors
    /// [`RecordingError`]: there is no event, or there are more than a scenario can have.
    ///
    /// ```
    /// use scheduled_events_replay::Scenario;
    ///
    /// assert!(Scenario::recorded("").is_err());
    /// // The output of `watch --json`, with the members that count.
    /// let audit = r#"
    /// {"record":"change","time":"2026-03-01T10:00:00Z","change":"scheduled","event_id":"A1","event_type":"Reboot","event_status":"Scheduled","resource_type":"VirtualMachine","resources":["WestNO_0"],"not_before":"2026-03-01T10:15:00Z","mine":true}
    /// {"record":"change","time":"2026-03-01T10:15:00Z","change":"started","event_id":"A1","event_type":"Reboot","event_status":"Started","resource_type":"VirtualMachine","resources":["WestNO_0"],"not_before":null,"mine":true}
    /// "#;
    /// let scenario = Scenario::parse(&Scenario::recorded(audit).unwrap()).unwrap();
    /// assert_eq!(scenario.events[0].event_type, "Reboot");
    /// ```
    pub fn recorded(lines: &str) -> Result<String, RecordingError> {
        let mut recording = Recording::default();
        lines.lines().for_each(|line| recording.add(line));
        recording.scenario(false)
    }
}

/// Why records make no scenario.
///
/// ```
/// use scheduled_events_replay::Scenario;
/// use scheduled_events_replay::scenario::RecordingError;
///
/// assert_eq!(Scenario::recorded("no record"), Err(RecordingError::NoRecord));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingError {
    /// There is no record of a watcher: it is no audit file, and not a watcher's output as JSON Lines.
    NoRecord,
    /// The watcher saw no event.
    NoEvent,
    /// What was seen is more than a scenario can have.
    Invalid(ScenarioError),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => write!(f, "it has no record of a watcher"),
            Self::NoEvent => write!(
                f,
                "no event was seen in this time, so there is nothing to play"
            ),
            Self::Invalid(error) => {
                write!(f, "what was seen cannot be a scenario: {}", error.message())
            }
        }
    }
}

impl Error for RecordingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::NoRecord | Self::NoEvent => None,
        }
    }
}

/// The records of a watcher, as far as they were read.
///
/// ```
/// use scheduled_events_replay::scenario::Recording;
///
/// let mut recording = Recording::default();
/// recording.add("no record");
/// assert_eq!((recording.unreadable, recording.lost), (1, 0));
/// assert!(recording.scenario(true).is_err()); // there is no event
/// ```
#[derive(Default)]
pub struct Recording {
    events: Vec<Recorded>,
    /// The index of each event, by its key.
    index: HashMap<EventId, usize>,
    first: Option<UnixSeconds>,
    last: Option<UnixSeconds>,
    /// The number of records that the audit file lost.
    pub lost: u64,
    /// The number of lines that are not records.
    pub unreadable: u64,
    captured: Option<Box<Captured>>,
}

/// What the documents of a capture have shown.
struct Captured {
    /// The version of the first document: those of other versions lack members.
    version: String,
    own_name: Option<String>,
    tracker: Tracker<CAPTURED_EVENTS_MAX>,
}

/// The most events at once in a capture.
const CAPTURED_EVENTS_MAX: usize = 1024;

/// The members of an event in a record that a scenario needs.
struct Members {
    event_id: String,
    event_type: Option<String>,
    resources: Option<Vec<String>>,
    not_before: Option<UnixSeconds>,
    description: Option<String>,
    event_source: Option<String>,
    duration_in_seconds: Option<u32>,
    mine: Option<bool>,
}

impl Members {
    /// The members of an event in a document, or of one that has left it.
    fn captured(event_id: &EventId, event: Option<&Event<'_>>, mine: Option<bool>) -> Self {
        let text = |text: Option<Text<'_>>| text.map(|text| text.to_string());
        Self {
            event_id: event_id.as_str().to_owned(),
            event_type: event
                .and_then(Event::event_type)
                .map(|word| word.to_string()),
            resources: event.map(|event| {
                event
                    .resources()
                    .into_iter()
                    .map(|name| name.to_string())
                    .collect()
            }),
            not_before: match event.map(Event::not_before) {
                Some(NotBefore::At(time)) => Some(time),
                _ => None,
            },
            description: text(event.and_then(Event::description)),
            event_source: event
                .and_then(Event::event_source)
                .map(|word| word.to_string()),
            duration_in_seconds: event.and_then(Event::duration_in_seconds),
            mine,
        }
    }

    /// The members of a record; `None` if one has another type than records have.
    fn of(record: &Map<String, Value>) -> Option<Self> {
        let member = |name: &str| record.get(name).filter(|value| !value.is_null());
        let text = |name: &str| {
            member(name).map_or(Some(None), |value| Some(Some(value.as_str()?.to_owned())))
        };
        let names = |value: &Value| {
            value
                .as_array()?
                .iter()
                .map(|name| Some(name.as_str()?.to_owned()))
                .collect::<Option<Vec<_>>>()
        };
        let time = |value: &Value| value.as_str().and_then(UnixSeconds::parse);
        let seconds = |value: &Value| {
            value
                .as_u64()
                .and_then(|seconds| u32::try_from(seconds).ok())
        };
        Some(Self {
            event_id: text("event_id")??,
            event_type: text("event_type")?,
            resources: member("resources").map_or(Some(None), |value| names(value).map(Some))?,
            not_before: member("not_before").map_or(Some(None), |value| time(value).map(Some))?,
            description: text("description")?,
            event_source: text("event_source")?,
            duration_in_seconds: member("duration_in_seconds")
                .map_or(Some(None), |value| seconds(value).map(Some))?,
            mine: member("mine").map_or(Some(None), |value| value.as_bool().map(Some))?,
        })
    }
}

/// One event: its members as first seen, and its course.
struct Recorded {
    members: Members,
    appeared: UnixSeconds,
    without_notice: bool,
    /// Whether it was advice when it was first seen. What becomes of it under the same id is left out.
    is_advice: bool,
    /// `NotBefore` as last seen, and when it changed.
    moved: Option<(UnixSeconds, UnixSeconds)>,
    moves: usize,
    approved: Option<UnixSeconds>,
    started: Option<UnixSeconds>,
    ended: Option<(Change, UnixSeconds)>,
    /// Whether other members changed, which a scenario cannot show.
    updated: bool,
}

impl Recording {
    /// Adds a line. Records of other kinds, and later sightings of a known event, change nothing.
    pub fn add(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if let Some(exchange) = CapturedExchange::parse(line) {
            return self.exchange(&exchange);
        }
        let Ok(Value::Object(record)) = serde_json::from_str::<Value>(line) else {
            self.unreadable += 1;
            return;
        };
        let word = |name: &str| record.get(name).and_then(Value::as_str);
        let (Some(kind), Some(time)) = (word("record"), word("time").and_then(UnixSeconds::parse))
        else {
            return;
        };
        self.note_time(time);
        match kind {
            "change" => {
                let change = Change::ALL
                    .into_iter()
                    .find(|change| Some(change.word()) == word("change"));
                match (change, Members::of(&record)) {
                    (Some(change), Some(event)) => self.change(change, event, time),
                    _ => self.unreadable += 1,
                }
            }
            "approval"
                if record
                    .get("status")
                    .and_then(Value::as_u64)
                    .is_some_and(|code| code / 100 == 2) =>
            {
                let ids = record
                    .get("event_ids")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                for id in ids.filter_map(Value::as_str) {
                    self.approved(id, time);
                }
            }
            "gap" => self.lost += record.get("lost").and_then(Value::as_u64).unwrap_or(1),
            _ => {}
        }
    }

    fn note_time(&mut self, time: UnixSeconds) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    fn approved(&mut self, id: &str, time: UnixSeconds) {
        let index = self.index.get(&key(id));
        if let Some(event) = index.and_then(|index| self.events.get_mut(*index)) {
            event.approved.get_or_insert(time);
        }
    }

    /// Adds an exchange of a capture.
    fn exchange(&mut self, exchange: &CapturedExchange) {
        let time = exchange.service_time();
        self.note_time(time);
        let captured = self.captured.get_or_insert_with(|| {
            Box::new(Captured {
                version: String::new(),
                own_name: None,
                tracker: Tracker::new(),
            })
        });
        let (Some(body), version) = (exchange.answer(), exchange.api_version()) else {
            return;
        };
        if exchange.is_own_name() {
            captured.own_name = Some(body.trim().to_owned()).filter(|name| !name.is_empty());
        } else if exchange.is_approval() {
            for id in exchange.approves() {
                let id = key(&id);
                self.approved(id.as_str(), time);
                if let Some(captured) = &mut self.captured {
                    captured.tracker.approved(&id);
                }
            }
        } else if exchange.is_poll()
            && let Some(version) = version
            && let Ok(document) = Document::parse(body.as_bytes())
        {
            if captured.version.is_empty() {
                version.clone_into(&mut captured.version);
            }
            if captured.version == version {
                self.document(&document, time);
            }
        }
    }

    fn document(&mut self, document: &Document<'_>, time: UnixSeconds) {
        let Some(captured) = &mut self.captured else {
            return;
        };
        let own: Vec<_> = captured.own_name.as_deref().into_iter().collect();
        let names = VmNames::new(&own);
        let is_underscored = captured.version == UNDERSCORED_API_VERSION;
        let names = if is_underscored {
            names.underscored()
        } else {
            names
        };
        let mut changes = Vec::new();
        let observed = captured
            .tracker
            .observe(document, names, time, |change, event| {
                changes.push((change, event.event_id().clone(), event.mine()));
            });
        self.unreadable += u64::from(observed.is_err());
        for (change, id, mine) in changes {
            let event = document
                .events()
                .find(|event| EventId::new(&event.event_id()) == id);
            let mut members = Members::captured(&id, event.as_ref(), mine);
            if is_underscored {
                let names = members.resources.iter_mut().flatten();
                names
                    .filter(|name| name.starts_with('_'))
                    .for_each(|name| *name = name[1..].to_owned());
            }
            self.change(change, members, time);
        }
    }

    fn change(&mut self, change: Change, event: Members, time: UnixSeconds) {
        let known = self.index.get(&key(&event.event_id)).copied();
        let Some(recorded) = known.and_then(|index| self.events.get_mut(index)) else {
            // The end of an event whose beginning is not in the file.
            if !change.is_end() {
                self.index.insert(key(&event.event_id), self.events.len());
                self.events.push(Recorded::new(change, event, time));
            }
            return;
        };
        match change {
            Change::Started => recorded.started = recorded.started.or(Some(time)),
            Change::Rescheduled => {
                if let Some(not_before) = event.not_before {
                    recorded.moves += 1;
                    let since = recorded.moved.map_or(time, |(since, _)| since);
                    recorded.moved = Some((since, not_before));
                }
            }
            Change::Updated => recorded.updated = true,
            end if end.is_end() => recorded.ended = recorded.ended.or(Some((end, time))),
            _ => {}
        }
    }

    /// The scenario as the text of a file, which [`Scenario::parse`] accepts. With `mask`, it has
    /// no names, no ids and no times of the day.
    ///
    /// # Errors
    /// [`RecordingError`]: there is no event, or there are more than a scenario can have.
    pub fn scenario(&self, mask: bool) -> Result<String, RecordingError> {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return Err(RecordingError::NoRecord);
        };
        if self.events.is_empty() {
            return Err(RecordingError::NoEvent);
        }
        let own = self.own_names();
        let names = Names::new(&self.events, own.first().map(String::as_str), mask);
        let mut text = String::from("# Recorded by `scheduled-events record`.\n");
        if !mask {
            let _ = writeln!(text, "# From {first} to {last}.");
            if let Some(own) = own.first() {
                let _ = writeln!(text, "# The VM was {}.", quoted(own));
            }
        }
        match own.len() {
            0 => text += "# No event was the VM's own.\n",
            1 => {}
            // Each of them explains the records.
            _ => {
                text += "# Other names fit as well: all its events name several VMs, and the first one is taken for it.\n";
            }
        }
        let mut ids_and_addresses = mask.then(Mask::default);
        let machines = names.count();
        let _ = writeln!(
            text,
            "about = \"A recording: {} of {}.\"",
            plural(self.events.len(), "event"),
            plural(machines, "VM")
        );
        for event in &self.events {
            event.write(&mut text, first, &names, ids_and_addresses.as_mut());
        }
        match Scenario::parse(&text) {
            Ok(_) => Ok(text),
            Err(error) => Err(RecordingError::Invalid(error)),
        }
    }

    /// The names that may be the VM's: all of its own events have them, and no other event has.
    fn own_names(&self) -> Vec<String> {
        let resources = |event: &Recorded| -> HashSet<String> {
            let names = event.members.resources.iter().flatten();
            names.map(|name| name.to_ascii_lowercase()).collect()
        };
        let captured = self.captured.as_ref();
        if let Some(own) = captured.and_then(|captured| captured.own_name.as_ref()) {
            let mut names = self
                .events
                .iter()
                .filter_map(|event| event.members.resources.as_ref())
                .flatten();
            let is_named = names.any(|name| name.eq_ignore_ascii_case(own));
            return is_named.then(|| own.clone()).into_iter().collect();
        }
        let is_own = |event: &&Recorded| event.members.mine == Some(true);
        let Some(own) = self.events.iter().find(is_own) else {
            return Vec::new();
        };
        let mut possible = resources(own);
        for event in &self.events {
            let names = resources(event);
            possible.retain(|name| names.contains(name) == is_own(&event));
        }
        let mut names = own.members.resources.clone().unwrap_or_default();
        names.retain(|name| possible.contains(&name.to_ascii_lowercase()));
        names
    }
}

impl Recorded {
    fn new(change: Change, members: Members, time: UnixSeconds) -> Self {
        let starts = matches!(change, Change::Started | Change::StartedWithoutNotice);
        Self {
            appeared: time,
            without_notice: starts,
            is_advice: change == Change::Advised,
            moved: None,
            moves: 0,
            approved: None,
            started: starts.then_some(time),
            ended: None,
            updated: false,
            members,
        }
    }

    /// Writes the event; with a mask, without names, ids and addresses.
    fn write(&self, text: &mut String, first: UnixSeconds, names: &Names, mask: Option<&mut Mask>) {
        let members = &self.members;
        text.push_str("\n[[event]]\n");
        if mask.is_none() {
            let _ = writeln!(text, "# EventId {}", quoted(&members.event_id));
        }
        if self.updated {
            text.push_str("# Other members changed later; these are the first ones.\n");
        }
        if self.moves > 1 {
            let _ = writeln!(
                text,
                "# It was rescheduled {} times; this is the last NotBefore.",
                self.moves
            );
        }
        let word = |word: &Option<String>, default: &str| {
            quoted(
                word.as_deref()
                    .filter(|word| !word.is_empty())
                    .unwrap_or(default),
            )
        };
        let _ = writeln!(
            text,
            "event_type = {}",
            word(&members.event_type, "Unknown")
        );
        let _ = writeln!(
            text,
            "event_source = {}",
            word(&members.event_source, "Platform")
        );
        let description = members
            .description
            .as_deref()
            .filter(|text| mask.is_none() || !names.occur_in(text))
            .unwrap_or_default();
        let description =
            mask.map_or_else(|| description.to_owned(), |mask| mask.text(description));
        let _ = writeln!(text, "description = {}", quoted(&description));
        let duration = members.duration_in_seconds.map_or(-1, i64::from);
        let _ = writeln!(text, "duration_in_seconds = {duration}");
        let resources = members
            .resources
            .iter()
            .flatten()
            .map(|name| quoted(&names.in_scenario(name)));
        let _ = writeln!(
            text,
            "resources = [{}]",
            resources.collect::<Vec<_>>().join(", ")
        );
        time(text, "appears", self.appeared.since(first));
        if self.is_advice {
            text.push_str("event_status = \"Advisory\"\n");
            let ended = self.ended.map(|(_, at)| at.since(self.appeared));
            return time(text, "cancelled_after", ended.unwrap_or(FOREVER));
        }
        if self.without_notice {
            text.push_str("without_notice = true\n");
            let ended = self.ended.map(|(_, at)| at.since(self.appeared));
            time(text, "started_for", ended.unwrap_or(FOREVER));
        } else {
            self.write_timing(text);
        }
    }

    fn write_timing(&self, text: &mut String) {
        let end = self.ended.map(|(_, at)| at);
        // An unknown start: as long as the event was Scheduled.
        let unknown = || {
            self.started
                .or(end)
                .map_or(FOREVER, |at| at.since(self.appeared))
        };
        let notice = self
            .members
            .not_before
            .map_or_else(unknown, |at| at.since(self.appeared))
            .max(1);
        let mut last_notice = notice;
        time(text, "notice", notice);
        if let Some((since, not_before)) = self.moved {
            let after = since
                .since(self.appeared)
                .clamp(0, notice.saturating_sub(1));
            let moved = not_before.since(since).max(1);
            last_notice = after.saturating_add(moved);
            let (after, moved) = (duration(after), duration(moved));
            let _ = writeln!(text, "reschedule = {{ after = {after}, notice = {moved} }}");
        }
        if let Some((Change::Cancelled, at)) = self.ended {
            time(
                text,
                "cancelled_after",
                at.since(self.appeared)
                    .clamp(0, last_notice.saturating_sub(1)),
            );
        }
        // An event that was never seen Started began and ended between two polls.
        let over = self
            .ended
            .filter(|(change, _)| *change == Change::Ended)
            .map(|(_, at)| at);
        if let Some(began) = self.started.or(over) {
            let after = began.since(self.appeared);
            if let Some(approved) = self.approved.filter(|at| *at <= began) {
                time(text, "starts_after_approval", began.since(approved));
            } else if after < last_notice && (self.moved.is_some() || after < notice) {
                time(text, "starts_after", after.max(0));
            }
            let lasted = end.map_or(FOREVER, |end| end.since(began));
            time(text, "started_for", lasted);
        }
    }
}

/// An event without a recorded end lasts for an hour.
const FOREVER: i64 = 60 * 60;

/// The names of the machines, and the name of each in the scenario.
struct Names {
    in_scenario: BTreeMap<String, String>,
}

impl Names {
    fn new(events: &[Recorded], own: Option<&str>, mask: bool) -> Self {
        let mut in_scenario = BTreeMap::new();
        if let Some(own) = own {
            in_scenario.insert(own.to_ascii_lowercase(), "{vm}".to_owned());
        }
        let mut peers = 0;
        for name in events
            .iter()
            .filter_map(|event| event.members.resources.as_ref())
            .flatten()
        {
            in_scenario
                .entry(name.to_ascii_lowercase())
                .or_insert_with(|| {
                    // A brace would begin a placeholder.
                    if mask || name.is_empty() || name.contains('{') {
                        peers += 1;
                        format!("{{peer:{peers}}}")
                    } else {
                        name.clone()
                    }
                });
        }
        Self { in_scenario }
    }

    fn count(&self) -> usize {
        self.in_scenario.len()
    }

    fn in_scenario(&self, name: &str) -> String {
        self.in_scenario
            .get(&name.to_ascii_lowercase())
            .cloned()
            .unwrap_or_default()
    }

    fn occur_in(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        self.in_scenario
            .keys()
            .any(|name| !name.is_empty() && text.contains(name.as_str()))
    }
}

fn time(text: &mut String, member: &str, seconds: i64) {
    let _ = writeln!(text, "{member} = {}", duration(seconds));
}

/// A time as a string of TOML: a negative time becomes zero, and the longest is that of a scenario.
fn duration(seconds: i64) -> String {
    let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).min(MAX_DURATION);
    format!("\"{}\"", humantime::format_duration(time))
}

/// A basic string of TOML that is safe to print: it escapes everything except printable ASCII.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ if u32::from(c) <= 0xffff => drop(write!(out, "\\u{:04X}", u32::from(c))),
            _ => drop(write!(out, "\\U{:08X}", u32::from(c))),
        }
    }
    out + "\""
}

fn key(event_id: &str) -> EventId {
    EventId::new(&Text::plain(event_id))
}

fn plural(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::EventScript;

    fn change(word: &str, at: u32, members: &str) -> String {
        format!(
            "{{\"record\":\"change\",\"change\":\"{word}\",\"event_id\":\"A\",\"event_type\":\"Freeze\",\"resources\":[\"web_3\"],\
             \"not_before\":\"2026-01-01T00:10:00Z\",\"mine\":true,\"time\":\"2026-01-01T00:{:02}:{:02}Z\"{members}}}",
            at / 60,
            at % 60
        )
    }

    fn recorded(lines: &[String], mask: bool) -> Result<String, RecordingError> {
        let mut recording = Recording::default();
        for line in lines {
            recording.add(line);
        }
        recording.scenario(mask)
    }

    #[test]
    fn the_name_of_the_machine_is_found_among_many_in_linear_time() {
        let names: Vec<_> = (0..1_000)
            .map(|number| format!("\"web_{number}\""))
            .collect();
        let names = names.join(",");
        let mut recording = Recording::default();
        for number in 0..300 {
            let line = change("scheduled", 0, "").replace("\"web_3\"", &names);
            recording.add(&line.replace("\"A\"", &format!("\"{number}\"")));
        }
        let own = change("scheduled", 0, "").replace("\"A\"", "\"own\"");
        recording.add(&own.replace("web_3", "WEB_7"));
        let other = own.replace("\"own\"", "\"other\"").replace("true", "false");
        recording.add(&other);
        let started = std::time::Instant::now();
        assert_eq!(recording.own_names(), ["web_7"]);
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    fn event(lines: &[String]) -> EventScript {
        let text = recorded(lines, false).unwrap_or_else(|error| panic!("{error}"));
        Scenario::parse(&text).unwrap().events.remove(0)
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const APPROVAL: &str = r#"{"record":"approval","event_ids":["a"],"status":200,"events":[],"time":"2026-01-01T00:00:20Z"}"#;

    #[test]
    fn times_are_those_that_were_seen() {
        let begin = r#"{"record":"poll-failed","cause":"timeout","time":"2026-01-01T00:00:00Z"}"#
            .to_owned();
        let lines = [
            begin,
            change("scheduled", 15, ""),
            APPROVAL.into(),
            change("started", 33, ""),
            change("completed", 93, ""),
        ];
        let approved = event(&lines);
        assert_eq!((approved.appears, approved.notice), (secs(15), secs(585)));
        assert_eq!(
            (approved.starts_after_approval, approved.starts_after),
            (secs(13), None)
        );
        assert_eq!(
            (approved.started_for, approved.resources),
            (secs(60), vec!["{vm}".to_owned()])
        );

        let by_another = event(&[
            change("scheduled", 15, ""),
            change("started", 33, ""),
            change("completed", 93, ""),
        ]);
        assert_eq!(
            (by_another.starts_after, by_another.started_for),
            (Some(secs(18)), secs(60))
        );
        let on_time = event(&[
            change("scheduled", 0, ""),
            change("started", 601, ""),
            change("completed", 700, ""),
        ]);
        assert_eq!(
            (on_time.starts_after, on_time.notice, on_time.started_for),
            (None, secs(600), secs(99))
        );
        let cancelled = event(&[change("scheduled", 0, ""), change("cancelled", 100, "")]);
        assert_eq!(cancelled.cancelled_after, Some(secs(100)));
        let between_polls = event(&[
            change("scheduled", 0, ""),
            APPROVAL.into(),
            change("ended", 25, ""),
        ]);
        assert_eq!(
            (
                between_polls.starts_after_approval,
                between_polls.started_for
            ),
            (secs(5), secs(0))
        );
        let failed = event(&[
            change("started-without-notice", 0, ""),
            change("completed", 61, ""),
        ]);
        assert!(failed.without_notice && failed.started_for == secs(61));
        let moved = [
            change("scheduled", 0, ""),
            change("rescheduled", 60, "").replace("00:10:00", "00:20:00"),
        ];
        let moved = event(&moved).reschedule.unwrap();
        assert_eq!((moved.after, moved.notice), (secs(60), secs(19 * 60)));
        // A watcher that started late, and one whose clock was wrong.
        assert_eq!(event(&[change("scheduled", 3000, "")]).notice, secs(1));
    }

    #[test]
    fn text_from_outside_stays_text() {
        let evil = r#","description":"a\"\n[[event]]\u202e\ud83d\ude00","event_source":"x\\","resources":["web_3","{pear}"]"#;
        let line = change("scheduled", 0, "")
            .replace(r#","resources":["web_3"]"#, "")
            .replace('}', &format!("{evil}}}"));
        let text = recorded(&[line], false).unwrap();
        let event = Scenario::parse(&text).unwrap().events.remove(0);
        assert_eq!(event.description, "a\"\n[[event]]\u{202e}😀");
        assert_eq!(
            (event.event_source.as_str(), event.resources),
            ("x\\", vec!["{vm}".into(), "{peer:1}".into()])
        );
        assert!(
            text.bytes()
                .all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)),
            "{text}"
        );
    }

    #[test]
    fn masking_leaves_no_name_and_no_id() {
        let other = change("scheduled", 5, "")
            .replace(r#""A""#, r#""B-SECRET""#)
            .replace("web_3", "db_secret");
        let other = other.replace(
            r#""mine":true"#,
            r#""mine":false,"description":"for DB_Secret""#,
        );
        let text = recorded(&[change("scheduled", 0, ""), other], true).unwrap();
        let lower = text.to_ascii_lowercase();
        assert!(
            !lower.contains("secret") && !lower.contains("web") && !lower.contains("2026"),
            "{text}"
        );
        let events = Scenario::parse(&text).unwrap().events;
        assert_eq!(events[0].resources, ["{vm}"]);
        assert_eq!(events[1].resources, ["{peer:1}"]);
        assert!(text.contains("2 events of 2 VMs"), "{text}");
    }

    #[test]
    fn what_holds_no_event_is_refused() {
        assert!(
            recorded(&[], false)
                .unwrap_err()
                .to_string()
                .contains("no record of a watcher")
        );
        assert!(recorded(&["no JSON".into(), r#"{"record":"event"}"#.into()], false).is_err());
        assert!(
            recorded(&[APPROVAL.into()], false)
                .unwrap_err()
                .to_string()
                .contains("no event")
        );
        let mut recording = Recording::default();
        for line in [
            "no JSON",
            "",
            r#"{"record":"gap","lost":17,"time":"2026-01-01T00:00:00Z"}"#,
        ] {
            recording.add(line);
        }
        assert_eq!((recording.lost, recording.unreadable), (17, 1));
    }
}
