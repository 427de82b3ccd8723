//! What a watcher did and sees, as metrics for Prometheus. `docs/run/monitoring.md` describes each one.
//!
//! [`Metrics`] counts. It is driven by what a watcher passes to its host: records, polls and its status; and by the ends of commands,
//! through [`CommandMetrics`]. [`exposition`] is the text format, and [`MetricsFile`] writes it to the file that `node_exporter`'s textfile
//! collector reads.
//!
//! Every label has a small, fixed set of values: a type that Azure adds later is `Other`. The one exception is the info metric of
//! this machine's open events, which has their ids.

pub mod exposition;
mod file;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scheduled_events_core::record::EventMembers;
use sha2::{Digest, Sha256};

use scheduled_events_core::{
    Action, Cause, Change, EventKind, GateAnswer, RequestOutcome, TrackedEvent, TrackedStatus,
    UnixSeconds,
};

#[doc(inline)]
pub use crate::hooks::CommandOutcome;
use crate::limits::GATE_ANOTHER_APPROVES;
use crate::policy_file::PolicySource;
use crate::record::{GateOutcome, Record, TimedRecord, event_key};
use crate::watch::{Poll, WatchStatus};

use exposition::{Family, FamilyKind, number};
pub use file::{MetricsFile, MetricsFileError};

/// How a poll ended, beyond the statuses of HTTP, which [`status_class`] has.
const POLL_RESULTS: [&str; 13] = [
    "document",
    "unchanged",
    "stale",
    "timeout",
    "unreachable",
    "connection-lost",
    "too-large",
    "empty-body",
    "not-a-document",
    "redirect",
    "status-4xx",
    "status-5xx",
    "status-other",
];

/// What an approval led to.
const APPROVAL_RESULTS: [&str; 5] = [
    "accepted",
    "no-response",
    "status-4xx",
    "status-5xx",
    "status-other",
];

/// Upper bounds of the buckets, in seconds. Metadata answers in milliseconds, and the first time after a day in two minutes.
const POLL_BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 130.0,
];

/// A preparation may take as long as the notice.
const COMMAND_BUCKETS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// An eviction has 30 seconds, a reboot 15 minutes, a failure that was predicted up to a week. 0 is no notice.
const NOTICE_BUCKETS: [f64; 10] = [
    0.0, 10.0, 30.0, 60.0, 300.0, 600.0, 900.0, 3600.0, 86_400.0, 604_800.0,
];

/// A freeze takes a few seconds, a reboot some minutes.
const INTERRUPTION_BUCKETS: [f64; 9] = [1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0];

/// How the names of all metrics start.
const PREFIX: &str = "scheduled_events_";

/// Defines the families and their table. The texts of help are sentences without a full stop.
macro_rules! families {
    ($($member:ident $name:literal $kind:expr, $help:literal;)+) => {
        struct Families {
            $($member: Family,)+
            /// Whether anything changed since the text was made.
            changed: bool,
        }

        impl Families {
            const fn new() -> Self {
                Self { $($member: Family::new($name, $help, $kind),)+ changed: true }
            }

            fn all(&self) -> [&Family; [$($name),+].len()] {
                [$(&self.$member),+]
            }
        }
    };
}

families! {
    build "build_info" FamilyKind::Gauge, "The version of scheduled-events";
    policy "policy_info" FamilyKind::Gauge, "The policy, and the SHA-256 of its file";
    polls "polls_total" FamilyKind::Counter, "Polls of the metadata service by result";
    poll_duration "poll_duration_seconds" FamilyKind::Histogram(&POLL_BUCKETS), "Time that a poll took, answered or not";
    last_document "last_document_timestamp_seconds" FamilyKind::Gauge,
        "When a poll was last answered with a document; 0 before the first";
    events "events" FamilyKind::Gauge, "Events that are open, by type, status and whether they name this machine";
    event_info "event_info" FamilyKind::Gauge, "Each open event of this machine";
    next_start "next_start_timestamp_seconds" FamilyKind::Gauge,
        "The earliest NotBefore of this machine's events that have not started, by type";
    out_of_service "out_of_service" FamilyKind::Gauge, "1 while the machine is out of service, else 0";
    blind "blind_seconds" FamilyKind::Gauge, "For how long no document has arrived, once that is too long; else 0";
    clock_offset "clock_offset_seconds" FamilyKind::Gauge,
        "How far this machine's clock is ahead of the metadata service's; less than 0 if it lags, 0 within two seconds";
    preparation_failed "preparation_failed" FamilyKind::Gauge,
        "Open events for which the machine could not prepare, until it has";
    recovery_failed "recovery_failed" FamilyKind::Gauge, "Machines that could not be recovered, until they are";
    approval_failed "approval_failed" FamilyKind::Gauge,
        "Events that are announced and whose approval was not accepted, until it is";
    last_call "last_call" FamilyKind::Gauge,
        "Open events that the machine prepared for although the gate has not answered yes, until it does";
    started_without_notice "started_without_notice" FamilyKind::Gauge,
        "Open events of this machine that started without notice";
    state_not_saved "state_not_saved" FamilyKind::Gauge, "1 while the state file cannot be written, else 0";
    last_dropped "last_dropped_record_timestamp_seconds" FamilyKind::Gauge,
        "When the output or the audit file last lacked a record; 0 if none did";
    changes "changes_total" FamilyKind::Counter, "Changes of events, those of other machines included";
    decisions "decisions_total" FamilyKind::Counter, "Decisions of the policy about events";
    commands "commands_total" FamilyKind::Counter, "Commands that ended, by what they were for and how they ended";
    command_duration "command_duration_seconds" FamilyKind::Histogram(&COMMAND_BUCKETS), "Time that commands took";
    last_calls "last_calls_total" FamilyKind::Counter, "Preparations that began although the gate had not answered yes";
    approvals "approvals_total" FamilyKind::Counter, "Approvals that were posted, one for each event, by result";
    notice "notice_seconds" FamilyKind::Histogram(&NOTICE_BUCKETS),
        "Time from the first sight of an event of this machine to its NotBefore; 0 without notice";
    interruption "interruption_seconds" FamilyKind::Histogram(&INTERRUPTION_BUCKETS),
        "Time for which an event of this machine was seen as started, until it was over";
    state_save_failures "state_save_failures_total" FamilyKind::Counter, "Failed attempts to write the state file";
    records_dropped "records_dropped_total" FamilyKind::Counter, "Records that the output or the audit file lacks";
    config_reload_failed "config_reload_failed" FamilyKind::Gauge,
        "1 if the configuration could not be read again when that was last tried, else 0";
}

/// The families, which the threads of commands count in, too.
type Shared = Arc<Mutex<Families>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Families> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The metrics of one watcher: a [`Host`](crate::watch::Host) passes on what it is notified of.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::metrics::{CommandKind, CommandOutcome, Metrics};
/// use scheduled_events::record::Record;
/// use scheduled_events::watch::WatchStatus;
/// use scheduled_events_core::UnixSeconds;
///
/// let mut metrics = Metrics::new();
/// let record = Record::Approval { event_ids: &["a"], status: Some(200), events: &[] };
/// metrics.record(&record.at(UnixSeconds(0)));
/// let commands = metrics.commands(); // for the threads of commands
/// commands.ended(CommandKind::Prepare, &CommandOutcome::Succeeded, Duration::from_secs(3));
/// let status = WatchStatus { is_polling: true, out_of_service: true, ..WatchStatus::default() };
/// metrics.status(status, 0);
/// assert!(metrics.is_changed());
/// assert!(metrics.text().contains("scheduled_events_out_of_service 1\n"));
/// metrics.status(WatchStatus { out_of_service: false, ..status }, 0);
/// assert!(metrics.text().contains("scheduled_events_commands_total{kind=\"prepare\",outcome=\"succeeded\"} 1\n"));
/// assert!(!metrics.is_changed());
/// ```
pub struct Metrics {
    families: Shared,
    /// The numbers of events by type, status and `mine`. What was counted once stays, with 0.
    counts: BTreeMap<[&'static str; 3], u32>,
    /// This machine's events that have started.
    started: HashMap<String, Start>,
    /// How many records were dropped so far.
    dropped: u64,
}

/// The start of an event.
#[derive(Clone, Copy)]
struct Start {
    seen: UnixSeconds,
    without_notice: bool,
}

/// Counts commands, on any thread. [`Metrics`] has an example.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::metrics::{CommandKind, CommandOutcome, Metrics};
///
/// let commands = Metrics::new().commands();
/// std::thread::spawn(move || commands.ended(CommandKind::Gate, &CommandOutcome::Succeeded, Duration::ZERO));
/// ```
#[derive(Clone)]
pub struct CommandMetrics(Shared);

/// What a command is for: a label of its metrics. [`CommandMetrics::ended`] takes it.
///
/// ```
/// use scheduled_events::metrics::CommandKind;
///
/// assert_ne!(CommandKind::Prepare, CommandKind::Recover);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A preparation.
    Prepare,
    /// A recovery.
    Recover,
    /// A question to the gate.
    Gate,
    /// A command for a change.
    Change,
}

impl CommandKind {
    const ALL: [Self; 4] = [Self::Prepare, Self::Recover, Self::Gate, Self::Change];

    const fn word(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Recover => "recover",
            Self::Gate => "gate",
            Self::Change => "change",
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counters start at 0: an increase from nothing to 1 is none to Prometheus.
    pub fn new() -> Self {
        let mut families = Families::new();
        families
            .build
            .set(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        for result in POLL_RESULTS {
            families.polls.add(&[("result", result)], 0.0);
        }
        for change in Change::ALL {
            families.changes.add(&[("change", change.word())], 0.0);
        }
        for action in Action::ALL {
            families.decisions.add(&[("action", action.word())], 0.0);
        }
        for result in APPROVAL_RESULTS {
            families.approvals.add(&[("result", result)], 0.0);
        }
        for kind in CommandKind::ALL {
            let gate = (kind == CommandKind::Gate).then_some(["closed", "another-approves"]);
            for outcome in ["succeeded", "failed", "timed-out", "not-started"]
                .into_iter()
                .chain(gate.into_iter().flatten())
            {
                families
                    .commands
                    .add(&[("kind", kind.word()), ("outcome", outcome)], 0.0);
            }
        }
        for histogram in [
            &mut families.poll_duration,
            &mut families.notice,
            &mut families.interruption,
        ] {
            histogram.add(&[], 0.0);
        }
        for single in [
            &mut families.last_document,
            &mut families.out_of_service,
            &mut families.config_reload_failed,
            &mut families.blind,
            &mut families.preparation_failed,
            &mut families.recovery_failed,
            &mut families.approval_failed,
            &mut families.last_call,
            &mut families.started_without_notice,
            &mut families.state_not_saved,
            &mut families.last_dropped,
        ] {
            single.set(&[], 0.0);
        }
        for total in [
            &mut families.last_calls,
            &mut families.state_save_failures,
            &mut families.records_dropped,
        ] {
            total.add(&[], 0.0);
        }
        let families = Arc::new(Mutex::new(families));
        let mut metrics = Self {
            families,
            counts: BTreeMap::new(),
            started: HashMap::new(),
            dropped: 0,
        };
        metrics.count_events(&mut std::iter::empty());
        metrics
    }

    /// Notes the policy: `observe` or `sample`, or the content of its file, as it is. Machines with the same file have the same label.
    ///
    /// ```
    /// use scheduled_events::metrics::Metrics;
    /// use scheduled_events::policy_file::PolicySource;
    ///
    /// let mut metrics = Metrics::new();
    /// metrics.set_policy(PolicySource::Preset("observe"));
    /// assert!(metrics.text().contains("scheduled_events_policy_info{policy=\"observe\",sha256=\"\"} 1\n"));
    /// metrics.set_policy(PolicySource::File(b""));
    /// assert!(metrics.text().contains("policy=\"file\",sha256=\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"} 1\n"));
    /// ```
    pub fn set_policy(&mut self, source: PolicySource<'_>) {
        self.commands().set_policy(source);
    }

    /// Counts a record.
    pub fn record(&mut self, timed: &TimedRecord<'_>) {
        let mut families = lock(&self.families);
        match &timed.record {
            Record::Change { change, event } => {
                families.changes.add(&[("change", change.word())], 1.0);
                if event.mine == Some(true) {
                    on_own_change(&mut families, &mut self.started, *change, event, timed.time);
                }
            }
            Record::Decision { action, .. } => {
                families.decisions.add(&[("action", action.word())], 1.0);
            }
            Record::Gate {
                outcome: GateOutcome::LastCall,
                ..
            } => families.last_calls.add(&[], 1.0),
            Record::Approval {
                event_ids, status, ..
            } => {
                let result = match status {
                    None => "no-response",
                    Some(200..=299) => "accepted",
                    Some(status) => status_class(*status),
                };
                families
                    .approvals
                    .add(&[("result", result)], number(event_ids.len()));
            }
            _ => return,
        }
        families.changed = true;
    }

    /// Counts a poll, and the events that are open now.
    ///
    /// ```
    /// use scheduled_events::metrics::Metrics;
    /// use scheduled_events::record::TimedRecord;
    /// use scheduled_events::watch::{Host, Poll, Watcher};
    ///
    /// struct Counting(Metrics);
    ///
    /// impl Host for Counting {
    ///     fn record(&mut self, record: &TimedRecord<'_>) {
    ///         self.0.record(record);
    ///     }
    ///     fn polled(&mut self, poll: &Poll<'_>) {
    ///         self.0.polled(poll);
    ///     }
    /// }
    ///
    /// // Nothing listens on port 1.
    /// let mut host = Counting(Metrics::new());
    /// Watcher::builder().endpoint("http://127.0.0.1:1").max_polls(Some(1)).build()?.run_with(&mut host);
    /// assert!(host.0.text().contains("scheduled_events_polls_total{result=\"unreachable\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn polled(&mut self, poll: &Poll<'_>) {
        let Some(result) = poll_result(poll.outcome) else {
            return;
        };
        let mut families = lock(&self.families);
        families.changed = true;
        families.polls.add(&[("result", result)], 1.0);
        families
            .poll_duration
            .observe(&[], poll.duration.as_secs_f64());
        if matches!(
            poll.outcome,
            RequestOutcome::Document | RequestOutcome::Unchanged
        ) {
            families.last_document.set(&[], seconds(poll.time.0));
            drop(families);
            self.count_events(&mut poll.events());
        }
    }

    fn count_events(&mut self, events: &mut dyn Iterator<Item = &TrackedEvent>) {
        let mut families = lock(&self.families);
        self.counts.values_mut().for_each(|count| *count = 0);
        for kind in EventKind::ALL {
            for status in ["Scheduled", "Started"] {
                self.counts
                    .entry([kind.word(), status, "true"])
                    .or_default();
            }
        }
        families.event_info.clear();
        families.next_start.clear();
        let mut next_starts = BTreeMap::new();
        for event in events {
            let (kind, status) = (kind_of(event.event_type()), status_of(event.status()));
            let mine = match event.mine() {
                Some(true) => "true",
                Some(false) => "false",
                None => "unknown",
            };
            *self.counts.entry([kind, status, mine]).or_default() += 1;
            // Another machine's event is on that machine.
            if event.mine() == Some(false) {
                continue;
            }
            let labels = [
                ("event_id", event.event_id().as_str()),
                ("type", kind),
                ("status", status),
            ];
            families.event_info.set(&labels, 1.0);
            if event.status() == TrackedStatus::Scheduled
                && let Some(start) = event.not_before()
            {
                let next = next_starts.entry(kind).or_insert(start.0);
                *next = start.0.min(*next);
            }
        }
        for (kind, start) in next_starts {
            families.next_start.set(&[("type", kind)], seconds(start));
        }
        for ([kind, status, mine], count) in &self.counts {
            families.events.set(
                &[("type", kind), ("status", status), ("mine", mine)],
                f64::from(*count),
            );
        }
    }

    /// Notes the state of the watcher, and how many records were dropped so far.
    pub fn status(&mut self, status: WatchStatus<'_>, dropped: u64) {
        let mut guard = lock(&self.families);
        let families = &mut *guard;
        let open = status.open_failures;
        let mut changed = false;
        for (family, value) in [
            (&mut families.out_of_service, number(status.out_of_service)),
            (&mut families.blind, number(status.blind_for.as_secs())),
            (&mut families.preparation_failed, number(open.preparations)),
            (&mut families.recovery_failed, number(open.recoveries)),
            (&mut families.approval_failed, number(open.approvals)),
            (&mut families.last_call, number(open.last_calls)),
            (&mut families.state_not_saved, number(status.is_unsaved)),
            (
                &mut families.state_save_failures,
                number(status.save_failures),
            ),
            (&mut families.records_dropped, number(dropped)),
        ] {
            changed |= family.set(&[], value);
        }
        if let Some(offset) = status.clock_offset_seconds {
            changed |= families.clock_offset.set(&[], seconds(offset));
        }
        if dropped > self.dropped {
            self.dropped = dropped;
            // By this machine's clock, as the time of a file is.
            families.last_dropped.set(&[], seconds(wall_clock()));
        }
        families.changed |= changed;
    }

    /// Notes whether the configuration could be read again.
    ///
    /// ```
    /// let mut metrics = scheduled_events::metrics::Metrics::new();
    /// metrics.reloaded(false);
    /// assert!(metrics.text().contains("scheduled_events_config_reload_failed 1\n"));
    /// ```
    pub fn reloaded(&mut self, succeeded: bool) {
        let mut families = lock(&self.families);
        families.changed |= families.config_reload_failed.set(&[], number(!succeeded));
    }

    /// What counts commands: on other threads, too.
    pub fn commands(&self) -> CommandMetrics {
        CommandMetrics(Arc::clone(&self.families))
    }

    /// Whether something changed since [`text`](Self::text) was called.
    pub fn is_changed(&self) -> bool {
        lock(&self.families).changed
    }

    /// The metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut families = lock(&self.families);
        families.changed = false;
        let mut text = String::new();
        for family in families.all().iter().filter(|family| !family.is_empty()) {
            family.write(PREFIX, &mut text);
        }
        text
    }
}

fn on_own_change(
    families: &mut Families,
    started: &mut HashMap<String, Start>,
    change: Change,
    event: &EventMembers<'_>,
    time: UnixSeconds,
) {
    let key = event_key(&event.event_id.to_string());
    let between =
        |start: UnixSeconds, end: UnixSeconds| seconds(end.0.saturating_sub(start.0).max(0));
    match change {
        Change::Scheduled => {
            if let Some(start) = event.not_before {
                families.notice.observe(&[], between(time, start));
            }
        }
        Change::Started | Change::StartedWithoutNotice => {
            if change == Change::StartedWithoutNotice {
                families.notice.observe(&[], 0.0);
            }
            let start = Start {
                seen: time,
                without_notice: change == Change::StartedWithoutNotice,
            };
            started.insert(key, start);
        }
        _ if change.is_end() => {
            if let Some(start) = started.remove(&key) {
                families
                    .interruption
                    .observe(&[], between(start.seen, time));
            }
        }
        _ => {}
    }
    let without_notice = started.values().filter(|start| start.without_notice);
    families
        .started_without_notice
        .set(&[], number(without_notice.count()));
}

impl CommandMetrics {
    /// As [`Metrics::set_policy`], for a policy that is read while the watcher runs.
    ///
    /// ```
    /// use scheduled_events::metrics::Metrics;
    /// use scheduled_events::policy_file::PolicySource;
    ///
    /// let metrics = Metrics::new();
    /// metrics.commands().set_policy(PolicySource::Preset("sample"));
    /// assert!(metrics.text().contains("policy=\"sample\""));
    /// ```
    pub fn set_policy(&self, source: PolicySource<'_>) {
        let (policy, sha256) = match source {
            PolicySource::Preset(name) => (name, String::new()),
            PolicySource::File(content) => ("file", hexadecimal(&Sha256::digest(content))),
        };
        let mut families = lock(&self.0);
        families.policy.clear();
        families
            .policy
            .set(&[("policy", policy), ("sha256", &sha256)], 1.0);
        families.changed = true;
    }

    /// Counts a command that has ended.
    pub fn ended(&self, kind: CommandKind, outcome: &CommandOutcome, duration: Duration) {
        let mut families = lock(&self.0);
        families.changed = true;
        let outcome = outcome_word(kind, outcome);
        families
            .commands
            .add(&[("kind", kind.word()), ("outcome", outcome)], 1.0);
        families
            .command_duration
            .observe(&[("kind", kind.word())], duration.as_secs_f64());
    }
}

fn wall_clock() -> i64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.map_or(0, |time| time.as_secs().try_into().unwrap_or(i64::MAX))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(digit).collect()
}

/// A time or a duration as a sample.
#[allow(clippy::cast_precision_loss)] // No time of events is that large.
const fn seconds(seconds: i64) -> f64 {
    seconds as f64
}

fn outcome_word(kind: CommandKind, outcome: &CommandOutcome) -> &'static str {
    match outcome {
        CommandOutcome::Succeeded => "succeeded",
        // A gate's exit code is an answer.
        CommandOutcome::Failed {
            code: Some(GATE_ANOTHER_APPROVES),
            ..
        } if kind == CommandKind::Gate => GateAnswer::AnotherApproves.word(),
        CommandOutcome::Failed { code: Some(_), .. } if kind == CommandKind::Gate => {
            GateAnswer::Closed.word()
        }
        CommandOutcome::Failed { .. } => "failed",
        CommandOutcome::DeadlinePassed => "timed-out",
        CommandOutcome::Stopped => "stopped",
        CommandOutcome::Cancelled => "cancelled",
        CommandOutcome::NotStarted(_) => "not-started",
    }
}

/// The result of a poll, or `None` if it was none.
fn poll_result(outcome: RequestOutcome) -> Option<&'static str> {
    match outcome {
        RequestOutcome::Document => Some("document"),
        RequestOutcome::Unchanged => Some("unchanged"),
        RequestOutcome::Stale => Some("stale"),
        RequestOutcome::PollFailed {
            cause: Cause::Status(status),
            ..
        } => Some(status_class(status)),
        RequestOutcome::PollFailed { cause, .. } => Some(cause.word()),
        _ => None,
    }
}

const fn status_class(status: u16) -> &'static str {
    match status {
        400..=499 => "status-4xx",
        500..=599 => "status-5xx",
        _ => "status-other",
    }
}

/// The type of an event as a label: one of Azure's words today, or `Other`.
fn kind_of(event_type: &str) -> &'static str {
    let known = EventKind::ALL
        .into_iter()
        .find(|kind| kind.word() == event_type);
    known.unwrap_or(EventKind::Other).word()
}

const fn status_of(status: TrackedStatus) -> &'static str {
    match status {
        TrackedStatus::Scheduled => "Scheduled",
        TrackedStatus::Started => "Started",
        TrackedStatus::Advisory => "Advisory",
        TrackedStatus::Unclear => "Other",
    }
}

#[cfg(test)]
mod tests;
