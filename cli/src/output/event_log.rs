//! The Event Log of Windows: entries for this machine's events and for diagnostics, with ids that
//! never change.
//!
//! A service and `watch --event-log` call [`open`], after which entries are added. A thread adds
//! them, since the Event Log may be slow, or not run yet: polling never waits for it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use scheduled_events_core::Change;
use scheduled_events_core::record::EventMembers;
use scheduled_events_windows::event_log::{EventLog, Level};

use crate::output::format::{LAST_CALL, cell, printable, sentence};
use scheduled_events::record::{GateOutcome, HookOutcome, Record, TimedRecord};
use scheduled_events_text::stream::EXIT_OUTPUT_WAIT;

/// The name of the source in the Event Log, which is that of the service.
pub(crate) const SOURCE: &str = "scheduled-events";

/// The most entries that wait for the Event Log. Further ones are lost, and counted.
const QUEUE_MAX: usize = 1024;

/// The delay before the next attempt to open the Event Log.
const OPEN_RETRY: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// The subject of an entry. The numbers are public: alerts select by them. docs/run/windows.md lists
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Watching = 100,
    Stopped = 101,
    Scheduled = 110,
    Started = 111,
    StartedWithoutNotice = 112,
    Rescheduled = 113,
    Updated = 114,
    Completed = 115,
    Cancelled = 116,
    Ended = 117,
    Advised = 118,
    AdviceWithdrawn = 119,
    Decision = 120,
    Approved = 130,
    NotApproved = 131,
    Prepared = 140,
    NotPrepared = 141,
    LastCall = 142,
    Recovered = 150,
    NotRecovered = 151,
    Problem = 160,
    Untracked = 161,
    NoAdvice = 162,
    Note = 200,
    Warning = 201,
    Error = 202,
    CommandOutput = 210,
}

impl Entry {
    const fn level(self) -> Level {
        match self {
            Self::Error => Level::Error,
            Self::Started
            | Self::StartedWithoutNotice
            | Self::NotApproved
            | Self::NotPrepared
            | Self::LastCall
            | Self::NotRecovered
            | Self::Problem
            | Self::Untracked
            | Self::NoAdvice
            | Self::Warning => Level::Warning,
            _ => Level::Information,
        }
    }

    const fn of_change(change: Change) -> Self {
        match change {
            Change::Scheduled => Self::Scheduled,
            Change::Started => Self::Started,
            Change::StartedWithoutNotice => Self::StartedWithoutNotice,
            Change::Rescheduled => Self::Rescheduled,
            Change::Updated => Self::Updated,
            Change::Completed => Self::Completed,
            Change::Cancelled => Self::Cancelled,
            Change::Ended => Self::Ended,
            Change::Advised => Self::Advised,
            Change::AdviceWithdrawn => Self::AdviceWithdrawn,
        }
    }
}

/// From now on, entries are added, as soon as the Event Log runs. `report` prints why it cannot be
/// opened yet.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn open(report: fn(&str, &str)) -> io::Result<()> {
    if QUEUE.get().is_none() {
        let _ = QUEUE.set(Queue::new(move || open_log(report))?);
    }
    Ok(())
}

/// Adds an entry. Without the log, no information is lost: standard output, standard error and the
/// audit file have it, too.
pub(crate) fn add(entry: Entry, text: &str) {
    if let Some(queue) = QUEUE.get() {
        queue.add(entry, text);
    }
}

/// Waits until all entries are added, for a limited time.
pub(crate) fn flush_on_exit() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(EXIT_OUTPUT_WAIT);
    }
}

/// Opens the log, as soon as that is possible. Returns the function that adds an entry.
fn open_log(report: fn(&str, &str)) -> impl FnMut(Entry, &str) -> io::Result<()> {
    let mut is_reported = false;
    let log = loop {
        match EventLog::open(SOURCE) {
            Ok(log) => break log,
            Err(error) if !is_reported => {
                is_reported = true;
                report(
                    "warning",
                    &format!("cannot open the Event Log yet: {error}; this is tried again"),
                );
            }
            Err(_) => {}
        }
        thread::sleep(OPEN_RETRY);
    };
    move |entry, text| log.report(entry.level(), entry as u32, text)
}

/// The entries that wait for the thread that adds them.
struct Queue {
    entries: SyncSender<Queued>,
    lost: Arc<AtomicU64>,
}

enum Queued {
    Entry(Entry, String),
    /// Dropped once all entries before it are added.
    Flush {
        _done: Sender<()>,
    },
}

impl Queue {
    fn new<Report: FnMut(Entry, &str) -> io::Result<()>>(
        open: impl FnOnce() -> Report + Send + 'static,
    ) -> io::Result<Self> {
        let (entries, queue) = mpsc::sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        thread::Builder::new().spawn(move || write(&queue, &counted, open()))?;
        Ok(Self { entries, lost })
    }

    fn add(&self, entry: Entry, text: &str) {
        if self
            .entries
            .try_send(Queued::Entry(entry, text.to_owned()))
            .is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self, wait: Duration) {
        let (sender, done) = mpsc::channel();
        if self
            .entries
            .try_send(Queued::Flush { _done: sender })
            .is_ok()
        {
            let _ = done.recv_timeout(wait);
        }
    }
}

/// Adds the entries to the log.
fn write(
    queue: &Receiver<Queued>,
    lost: &AtomicU64,
    mut report: impl FnMut(Entry, &str) -> io::Result<()>,
) {
    for queued in queue {
        let Queued::Entry(entry, text) = queued else {
            continue;
        };
        if report(entry, &text).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let count = lost.swap(0, Ordering::Relaxed);
        if count > 0
            && report(
                Entry::Warning,
                &format!("lost {count} entries: the Event Log did not accept them"),
            )
            .is_err()
        {
            lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Adds a diagnostic. A label that is no severity belongs to a command's output.
pub(crate) fn diagnostic(label: &str, message: &str) {
    match label {
        "error" => add(Entry::Error, &printable(message)),
        "warning" => add(Entry::Warning, &printable(message)),
        "note" => add(Entry::Note, &printable(message)),
        _ => add(
            Entry::CommandOutput,
            &format!("{label}: {}", printable(message)),
        ),
    }
}

/// Adds a record, unless it is about another machine's event.
pub(crate) fn record(timed: &TimedRecord<'_>) {
    if QUEUE.get().is_none() {
        return;
    }
    match &timed.record {
        Record::Change { change, event } if event.mine != Some(false) => {
            let start = event
                .not_before
                .map_or(String::new(), |time| format!("; starts at {time}"));
            let text = event
                .description
                .map(|text| sentence(&text.to_string()))
                .filter(|text| !text.is_empty());
            let text = text.map_or(String::new(), |text| format!("; {text}"));
            add(
                Entry::of_change(*change),
                &format!("{}: {}{start}{text}", change.word(), named(event)),
            );
        }
        Record::Decision {
            action,
            reason,
            event,
            ..
        } if event.mine != Some(false) => {
            add(
                Entry::Decision,
                &format!("{}: {}; {reason}", action.word(), named(event)),
            );
        }
        Record::Approval { status, events, .. } => {
            let (entry, word) = match status {
                Some(200..=299) => (Entry::Approved, "approved"),
                _ => (Entry::NotApproved, "not approved"),
            };
            let status = status.map_or("no response".to_owned(), |status| {
                format!("status {status}")
            });
            for event in *events {
                add(entry, &format!("{word}: {}; {status}", named(event)));
            }
        }
        // Its result follows.
        Record::Prepare {
            outcome: HookOutcome::Begun,
            ..
        } => {}
        Record::Prepare { outcome, event, .. } => match outcome {
            HookOutcome::Ready => add(Entry::Prepared, &format!("prepared: {}", named(event))),
            _ => add(
                Entry::NotPrepared,
                &format!("not prepared: {}; {}", named(event), outcome.word()),
            ),
        },
        Record::Gate {
            outcome: GateOutcome::LastCall,
            event,
            ..
        } => {
            add(
                Entry::LastCall,
                &format!("last call: {}; {LAST_CALL}", named(event)),
            );
        }
        Record::Recover {
            outcome: Some(outcome),
            event,
            ..
        } => match outcome {
            HookOutcome::Done | HookOutcome::NoCommand | HookOutcome::DryRun => {
                add(
                    Entry::Recovered,
                    &format!("recovered: {}; {}", named(event), outcome.word()),
                );
            }
            _ => add(
                Entry::NotRecovered,
                &format!("not recovered: {}; {}", named(event), outcome.word()),
            ),
        },
        Record::Problem {
            event,
            member,
            kind,
            ..
        } => {
            let place = event.map_or("the document".to_owned(), |event| format!("event {event}"));
            let member = member.map_or(String::new(), |member| format!(", {member}"));
            add(
                Entry::Problem,
                &format!("problem: {place}{member}: {}", kind.word()),
            );
        }
        Record::Untracked { own, others } => {
            let text = format!(
                "untracked: {own} events of this machine and {others} of others are not followed"
            );
            add(Entry::Untracked, &text);
        }
        Record::NoAdvice { api_version } => {
            let text = format!("no advice: the service does not know API version {api_version}");
            add(Entry::NoAdvice, &text);
        }
        // Failed polls are printed as notes.
        _ => {}
    }
}

fn named(event: &EventMembers<'_>) -> String {
    let event_type = event
        .event_type
        .map_or("-".to_owned(), |word| cell(&word.to_string()));
    format!("{event_type} {}", sentence(&event.event_id.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_hangs_delays_nothing_and_what_is_lost_is_counted() {
        let (release, released) = mpsc::channel();
        let (sender, added) = mpsc::channel();
        let queue = Queue::new(move || {
            // Until it is released, the log can be neither opened nor used.
            let _ = released.recv();
            move |entry, text: &str| {
                sender.send((entry, text.to_owned())).unwrap();
                if text == "refused" {
                    Err(io::ErrorKind::Other.into())
                } else {
                    Ok(())
                }
            }
        })
        .unwrap();
        queue.add(Entry::Note, "refused");
        for number in 0..QUEUE_MAX + 10 {
            queue.add(Entry::Note, &number.to_string());
        }
        queue.flush(Duration::ZERO);
        release.send(()).unwrap();
        // The queue is no longer full.
        let first = added.recv().unwrap();
        queue.flush(Duration::from_secs(60));
        drop(queue);
        let found: Vec<_> = [first]
            .into_iter()
            .chain(added)
            .map(|(entry, text)| (entry as u32, text))
            .collect();
        let numbers: Vec<_> = found
            .iter()
            .filter_map(|(_, text)| text.parse::<usize>().ok())
            .collect();
        assert_eq!(numbers, (0..QUEUE_MAX - 1).collect::<Vec<_>>());
        assert_eq!(found[0], (200, "refused".to_owned()));
        assert_eq!(
            found[2],
            (
                201,
                "lost 12 entries: the Event Log did not accept them".to_owned()
            )
        );
        assert_eq!(found.len(), QUEUE_MAX + 1);
    }

    #[test]
    fn the_documentation_has_every_id() {
        let page = include_str!("../../../docs/run/windows.md");
        for change in Change::ALL {
            let id = Entry::of_change(change) as u32;
            assert!(
                page.contains(&format!("| {id} | `{}` |", change.word())),
                "{id} {change}"
            );
        }
        for entry in [
            Entry::Watching,
            Entry::Stopped,
            Entry::Decision,
            Entry::Approved,
            Entry::NotApproved,
            Entry::Prepared,
            Entry::NotPrepared,
            Entry::LastCall,
            Entry::Recovered,
            Entry::NotRecovered,
            Entry::Problem,
            Entry::Untracked,
            Entry::NoAdvice,
            Entry::Note,
            Entry::Warning,
            Entry::Error,
            Entry::CommandOutput,
        ] {
            assert!(
                page.contains(&format!("\n| {} | ", entry as u32)),
                "{entry:?}"
            );
        }
    }
}
