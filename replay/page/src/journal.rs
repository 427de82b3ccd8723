//! The journal of a run: entries for the page, and lines for the report.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use scheduled_events_replay::document::EventFacts;
use scheduled_events_replay::verdict::Level;
use scheduled_events_replay::verdict::report::TimelineLine;
use scheduled_events_replay::{ReplayEvent, TransitionKind};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::watch;

/// The most entries that are kept, and the most bytes of them. The oldest is dropped first.
const ENTRIES_MAX: usize = 100_000;
const BYTES_MAX: usize = 32 << 20;

/// The most lines of a report's timeline, as in reports of `scheduled-events replay`.
const LINES_MAX: usize = 10_000;

/// The most entries of one answer, and the size in bytes after which it ends.
const BATCH: usize = 5_000;
const BATCH_BYTES: usize = 2 << 20;

/// The most bytes of a record that a client posts.
pub(crate) const RECORD_MAX: usize = 64 << 10;

/// The journal of one run. Reading and writing takes a lock for a moment.
#[derive(Debug)]
pub(crate) struct Journal {
    /// When the run began, which is time zero.
    origin: Instant,
    state: Mutex<JournalState>,
    /// The number of entries so far, for readers that wait.
    count: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct JournalState {
    /// The entries as JSON, each with its time.
    entries: VecDeque<Box<RawValue>>,
    bytes: usize,
    /// The number of entries that were dropped.
    dropped: u64,
    lines: Vec<TimelineLine>,
}

/// An entry, as the page shows it. Times are milliseconds since the run began.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Entry<'a> {
    /// A request was answered, or a fault suppressed the response.
    Request {
        machine: usize,
        method: &'a str,
        target: &'a str,
        status: Option<u16>,
        faults: &'a [String],
        approves: &'a [String],
    },
    /// The control plane answered a request, or a message was sent.
    Outside {
        text: &'a str,
        failed: bool,
    },
    /// The scenario starts.
    Start,
    /// An event appeared, was approved, changed or ended.
    Event {
        change: &'static str,
        id: &'a str,
        #[serde(rename = "type")]
        event_type: &'a str,
        resources: &'a [String],
        not_before: Option<u64>,
        incarnation: u64,
        #[serde(flatten)]
        facts: Option<Facts<'a>>,
    },
    IncarnationReset {
        incarnation: u64,
    },
    Finding {
        machine: usize,
        rule: &'a str,
        must: bool,
        section: u8,
        item: &'a str,
        message: &'a str,
        event: Option<&'a str>,
    },
    Finish,
    /// A person's action at the page.
    Action {
        text: &'a str,
    },
    /// The faults of a machine changed.
    Faults {
        machine: usize,
        faults: &'a [String],
    },
    /// A line that a client logged.
    Record {
        machine: usize,
        record: &'a RawValue,
    },
}

/// The members of an event that an entry has when it appears.
#[derive(Debug, Serialize)]
pub(crate) struct Facts<'a> {
    source: &'a str,
    description: &'a str,
    duration: i64,
}

#[derive(Serialize)]
struct Timed<'a> {
    at: u64,
    #[serde(flatten)]
    entry: &'a Entry<'a>,
}

impl Journal {
    pub(crate) fn new(origin: Instant) -> Self {
        Self {
            origin,
            state: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Adds a report of the server.
    pub(crate) fn replay_event(
        &self,
        event: &ReplayEvent,
        facts: impl Fn(&str) -> Option<std::sync::Arc<EventFacts>>,
    ) {
        let now = self.now();
        let (machine, at) = match event {
            ReplayEvent::Answered { machine, .. } => (Some(*machine), now),
            ReplayEvent::Finding { machine, finding } => (Some(*machine), finding.at),
            _ => (None, now),
        };
        // Successful polls come every second and are not in the report, as in those of
        // `scheduled-events replay`.
        let is_routine = matches!(event, ReplayEvent::Answered { method, status: Some(200 | 304), faults, .. }
            if method == "GET" && faults.is_empty());
        let line = (!is_routine).then(|| TimelineLine {
            at,
            machine,
            text: event.to_string(),
        });
        let (known, text);
        let entry = match event {
            ReplayEvent::ControlPlane { status, faults, .. } => {
                text = event.to_string();
                Entry::Outside {
                    text: &text,
                    failed: !faults.is_empty() || status.is_none_or(|status| status >= 400),
                }
            }
            ReplayEvent::Message {
                failure, faults, ..
            } => {
                text = event.to_string();
                Entry::Outside {
                    text: &text,
                    failed: !faults.is_empty() || failure.is_some(),
                }
            }
            ReplayEvent::Answered {
                machine,
                method,
                target,
                approves,
                status,
                faults,
            } => Entry::Request {
                machine: *machine,
                method,
                target,
                status: *status,
                faults,
                approves,
            },
            ReplayEvent::ScenarioStarted => Entry::Start,
            ReplayEvent::Event {
                change,
                event_id,
                event_type,
                resources,
                started,
                is_advice,
                not_before,
                incarnation,
            } => {
                known = if *change == TransitionKind::Appeared {
                    facts(event_id)
                } else {
                    None
                };
                Entry::Event {
                    change: change_word(*change, *started, *is_advice),
                    id: event_id,
                    event_type,
                    resources,
                    not_before: not_before.map(|time| since_begin(time, now)),
                    incarnation: *incarnation,
                    facts: known.as_deref().map(|facts| Facts {
                        source: &facts.event_source,
                        description: &facts.description,
                        duration: facts.duration_in_seconds,
                    }),
                }
            }
            ReplayEvent::IncarnationReset { incarnation } => Entry::IncarnationReset {
                incarnation: *incarnation,
            },
            ReplayEvent::Finding { machine, finding } => Entry::Finding {
                machine: *machine,
                rule: finding.rule.id(),
                must: finding.rule.level() == Level::Must,
                section: finding.rule.section(),
                item: finding.rule.item(),
                message: &finding.message,
                event: finding.event_id.as_deref(),
            },
            ReplayEvent::Finished => Entry::Finish,
            _ => return,
        };
        self.push(at, &entry, line);
    }

    /// Adds a person's action.
    pub(crate) fn action(&self, text: &str) {
        let at = self.now();
        let line = TimelineLine {
            at,
            machine: None,
            text: format!("at the page: {text}"),
        };
        self.push(at, &Entry::Action { text }, Some(line));
    }

    /// Adds the faults of a machine after a change.
    pub(crate) fn faults(&self, machine: usize, faults: &[String]) {
        self.push(self.now(), &Entry::Faults { machine, faults }, None);
    }

    /// Adds a line that a client logged. Returns false if it is no JSON object, too long or too
    /// deep.
    pub(crate) fn record(&self, machine: usize, line: &[u8]) -> bool {
        let record = std::str::from_utf8(line)
            .ok()
            .filter(|line| line.len() <= RECORD_MAX);
        let record = record.and_then(|line| serde_json::from_str::<&RawValue>(line.trim()).ok());
        // The page shows each member, which takes a limited depth.
        let is_object =
            |record: &&RawValue| serde_json::from_str::<Map<String, Value>>(record.get()).is_ok();
        let Some(record) = record.filter(is_object) else {
            return false;
        };
        self.push(self.now(), &Entry::Record { machine, record }, None);
        true
    }

    /// The entries after the first `after`, as many as fit in one answer, and the number of the
    /// last one.
    pub(crate) fn after(&self, after: u64) -> (Vec<Box<RawValue>>, u64) {
        let state = self.lock();
        let skip = usize::try_from(after.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for entry in state.entries.iter().skip(skip).take(BATCH) {
            if bytes >= BATCH_BYTES {
                break;
            }
            bytes += entry.get().len();
            entries.push(entry.clone());
        }
        let next = after
            .max(state.dropped)
            .saturating_add(entries.len() as u64);
        (entries, next)
    }

    /// The number of entries that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Waits until there are more entries than `after`.
    pub(crate) async fn wait(&self, after: u64) {
        // The sender is part of self, so the channel is open.
        let _ = self
            .count
            .subscribe()
            .wait_for(|count| *count > after)
            .await;
    }

    pub(crate) fn lines(&self) -> Vec<TimelineLine> {
        self.lock().lines.clone()
    }

    fn push(&self, at: Duration, entry: &Entry<'_>, line: Option<TimelineLine>) {
        let timed = Timed {
            at: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            entry,
        };
        // Text and numbers can always be written as JSON.
        let Ok(json) = serde_json::value::to_raw_value(&timed) else {
            return;
        };
        let mut state = self.lock();
        state.bytes += json.get().len();
        state.entries.push_back(json);
        while (state.entries.len() > ENTRIES_MAX || state.bytes > BYTES_MAX)
            && let Some(oldest) = state.entries.pop_front()
        {
            state.bytes -= oldest.get().len();
            state.dropped += 1;
        }
        if let Some(line) = line
            && state.lines.len() < LINES_MAX
        {
            state.lines.push(line);
        }
        drop(state);
        self.count.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn change_word(change: TransitionKind, started: bool, is_advice: bool) -> &'static str {
    match change {
        TransitionKind::Appeared if is_advice => "advised",
        TransitionKind::Cancelled if is_advice => "withdrawn",
        TransitionKind::Appeared if started => "appeared-started",
        TransitionKind::Appeared => "appeared",
        TransitionKind::Approved => "approved",
        TransitionKind::Rescheduled => "rescheduled",
        TransitionKind::Started => "started",
        TransitionKind::Cancelled => "cancelled",
        _ => "ended",
    }
}

/// A wall time as milliseconds since the run began, which is `now` ago.
fn since_begin(time: SystemTime, now: Duration) -> u64 {
    let now = i128::try_from(now.as_millis()).unwrap_or(i128::MAX);
    let ahead = match time.duration_since(SystemTime::now()) {
        Ok(ahead) => i128::try_from(ahead.as_millis()).unwrap_or(i128::MAX),
        Err(error) => -i128::try_from(error.duration().as_millis()).unwrap_or(i128::MAX),
    };
    u64::try_from(now.saturating_add(ahead).max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(journal: &Journal, after: u64) -> Vec<String> {
        journal
            .after(after)
            .0
            .iter()
            .map(|entry| entry.get().to_owned())
            .collect()
    }

    #[test]
    fn entries_are_read_from_where_the_reader_was() {
        let journal = Journal::new(Instant::now());
        journal.action("a");
        journal.action("b");
        assert_eq!(texts(&journal, 0).len(), 2);
        assert!(
            texts(&journal, 1)[0].ends_with(r#""kind":"action","text":"b"}"#),
            "{:?}",
            texts(&journal, 1)
        );
        assert_eq!((journal.after(2).0.len(), journal.after(2).1), (0, 2));
        assert_eq!(journal.lines()[0].text, "at the page: a");
    }

    #[test]
    fn the_oldest_entries_are_dropped() {
        let journal = Journal::new(Instant::now());
        for number in 0..ENTRIES_MAX + 10 {
            journal.faults(number, &[]);
        }
        assert_eq!(journal.dropped(), 10);
        let (entries, next) = journal.after(0);
        assert_eq!((entries.len(), next), (BATCH, BATCH as u64 + 10));
        assert!(entries[0].get().contains(r#""machine":10,"#));
    }

    #[test]
    fn large_entries_are_dropped_and_read_in_parts() {
        let journal = Journal::new(Instant::now());
        let text = "x".repeat(1 << 20);
        for _ in 0..40 {
            journal.action(&text);
        }
        assert_eq!(journal.dropped(), 9);
        assert_eq!((journal.after(0).0.len(), journal.after(0).1), (2, 11));
        assert_eq!(journal.after(39).0.len(), 1);
    }

    #[test]
    fn records_are_objects_of_bounded_length() {
        let journal = Journal::new(Instant::now());
        assert!(journal.record(0, br#" {"record":"change","time":"x"} "#));
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
        for bad in [
            &b"[1]"[..],
            b"7",
            b"{",
            b"\xff",
            b"",
            &vec![b' '; RECORD_MAX + 1],
            deep.as_bytes(),
        ] {
            assert!(!journal.record(0, bad));
        }
        assert!(texts(&journal, 0)[0].contains(r#""record":{"record":"change","time":"x"}"#));
    }

    #[test]
    fn wall_times_become_times_of_the_run() {
        let now = SystemTime::now();
        let run = Duration::from_secs(100);
        let ahead = since_begin(now + Duration::from_secs(50), run);
        assert!((149_000..=150_000).contains(&ahead), "{ahead}");
        assert_eq!(since_begin(SystemTime::UNIX_EPOCH, run), 0);
    }
}
