//! Prints the records and notes of a watcher: as JSON Lines, or as lines for people.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anstyle::Style;
use scheduled_events_core::record::{EventMembers, ResourceList};
use scheduled_events_core::{Action, Change, UnixSeconds};
use unicode_width::UnicodeWidthStr as _;

use crate::args::OutputArgs;
use crate::output::format::{
    LAST_CALL, cell, date_and_time, distinct, duration, from_now, names, now, printable, sentence,
};
use crate::output::journal::{self, Priority};
use crate::output::status_line;
use crate::output::style::{BAD, CAUTION, DIM, GOOD, PLAIN, action_style};
use crate::output::table::wrap;
use crate::output::terminal;
use crate::output::{diagnose, is_quiet, print_progress, print_progress_record};
use crate::systemd;
use crate::watch::others_summary::OthersSummary;
use scheduled_events::record::{GateOutcome, HookOutcome, Record, TimedRecord};
use scheduled_events::watch::{Note, WatchStatus};

/// How soon a summary is complete: the reports of one poll follow each other at once.
const SUMMARY_DELAY: Duration = Duration::from_millis(50);

/// How often the status line is rewritten.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The form of the time on a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Date, time and time zone on each line, for logs that are searched.
    Full,
    /// The time only, below a line with the date when that changes, for terminals.
    Time,
    /// None: the journal keeps the time of each line. A record is one line, with a priority.
    Journal,
}

impl Stamp {
    /// The stamp for a log on standard output.
    pub(crate) fn of_log() -> Self {
        match terminal::output_width() {
            Some(_) => Self::Time,
            None if journal::has_output() => Self::Journal,
            None => Self::Full,
        }
    }

    /// The column at which lines below a record start.
    const fn indent(self) -> usize {
        match self {
            Self::Full => 40,
            Self::Time => 25,
            Self::Journal => 0,
        }
    }
}

/// Whether what is decided is done.
#[derive(Clone, Copy)]
enum Mode {
    Acts,
    DryRun,
}

/// Prints the records and notes of a watcher.
pub(crate) struct RecordPrinter {
    json: bool,
    /// Whether each event of other machines is printed.
    verbose: bool,
    mode: Mode,
    stamp: Stamp,
    /// The date that was printed last.
    date: String,
    others: OthersSummary,
    /// The event that was announced last, and when.
    announced: Option<(String, UnixSeconds)>,
    /// Whether `--verbose` was mentioned.
    hinted: bool,
    status_at: Option<Instant>,
    status: String,
}

impl RecordPrinter {
    pub(crate) fn new(output: &OutputArgs, verbose: bool, stamp: Stamp) -> Self {
        Self {
            json: output.json,
            verbose,
            mode: Mode::Acts,
            stamp,
            date: String::new(),
            others: OthersSummary::default(),
            announced: None,
            hinted: false,
            status_at: None,
            status: String::new(),
        }
    }

    /// The same for a dry run: a line says what would be done.
    pub(crate) fn dry_run(self, dry_run: bool) -> Self {
        let mode = if dry_run { Mode::DryRun } else { Mode::Acts };
        Self { mode, ..self }
    }

    const fn is_dry(&self) -> bool {
        matches!(self.mode, Mode::DryRun)
    }

    /// The word for an action, which a dry run does not take.
    const fn word_of(&self, action: Action) -> &'static str {
        match action {
            Action::Approve if self.is_dry() => "would approve",
            Action::Prepare if self.is_dry() => "would prepare",
            action => action.word(),
        }
    }

    /// Prints a record.
    pub(crate) fn record(&mut self, timed: &TimedRecord<'_>) {
        self.others.report();
        if self.json {
            print_progress_record(timed);
        } else if !self.is_said(timed) && !self.sum_up(timed) {
            self.print(timed);
        }
    }

    /// Whether a record repeats what the line of its event, which was just announced, has: advice that has become an eviction
    /// is scheduled, has a new time and another type at once.
    fn is_said(&mut self, timed: &TimedRecord<'_>) -> bool {
        let Record::Change { change, event } = &timed.record else {
            return false;
        };
        let this = Some((event.event_id.to_string(), timed.time));
        match change {
            Change::Scheduled => self.announced = this,
            Change::Rescheduled | Change::Updated => return self.announced == this,
            _ => {}
        }
        false
    }

    /// Adds a record to the summary, if it is about another machine's event and no action.
    fn sum_up(&mut self, timed: &TimedRecord<'_>) -> bool {
        let (word, event) = match &timed.record {
            Record::Change { change, event } => (Some(change.word()), event),
            Record::Decision { action, event, .. } => {
                let acts = matches!(action, Action::Approve | Action::Prepare);
                (acts.then(|| self.word_of(*action)), event)
            }
            _ => return false,
        };
        let is_other = event.mine == Some(false) && !self.verbose;
        if let Some(word) = word.filter(|_| is_other) {
            let machines = names(event.resources.iter().flat_map(ResourceList::iter));
            self.others
                .add(word, &type_of(event), &machines, timed.time);
        }
        is_other
    }

    /// Prints the summary of a poll once it is complete, and the status line on a terminal. Returns
    /// how soon to call again.
    pub(crate) fn heartbeat(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        if self.json {
            return None;
        }
        let summary = self.others.take();
        self.summary(summary);
        if !self.others.is_empty() {
            return Some(SUMMARY_DELAY);
        }
        let text = systemd::status(status);
        if text != self.status
            || self
                .status_at
                .is_none_or(|at| at.elapsed() >= STATUS_INTERVAL)
        {
            status_line::show(&format!("{} UTC  {text}", date_and_time(now()).1));
            self.status = text;
            self.status_at = Some(Instant::now());
        }
        None
    }

    /// Prints the pending summary, and removes the status line.
    pub(crate) fn finish(&mut self) {
        let summary = self.others.take_now();
        self.summary(summary);
        drop(status_line::hide());
    }

    fn summary(&mut self, summary: Option<(String, UnixSeconds)>) {
        let Some((text, time)) = summary else { return };
        let stamp = self.stamp(time);
        let hint = if std::mem::replace(&mut self.hinted, true) {
            ""
        } else {
            " (--verbose shows each event)"
        };
        if self.stamp == Stamp::Journal {
            print_progress(&format!(
                "{}others: {text}{hint}\n",
                Priority::Info.prefix()
            ));
            return;
        }
        print_progress(&format!(
            "{DIM}{stamp}  {:<13}  {text}{hint}{DIM:#}\n",
            "others"
        ));
    }

    /// The stamp of a line. Prints the date before it if that changed.
    fn stamp(&mut self, moment: UnixSeconds) -> String {
        let (date, time) = date_and_time(moment);
        if self.stamp == Stamp::Full {
            return format!("{date} {time} UTC");
        }
        if self.date != date {
            print_progress(&format!("{DIM}{date} (times in UTC){DIM:#}\n"));
            self.date = date;
        }
        time
    }

    fn print(&mut self, timed: &TimedRecord<'_>) {
        let (stamp, is_dry) = (self.stamp, self.is_dry());
        let decided = match &timed.record {
            Record::Decision { action, .. } => self.word_of(*action),
            _ => "",
        };
        let mut line =
            |word: &str, style: Style, event_type: &str, id: &dyn Display, rest: &str| {
                if self.stamp == Stamp::Journal {
                    log_record(timed, word, style, event_type, &id.to_string(), rest);
                    return;
                }
                let time = self.stamp(timed.time);
                let (event_type, id) = (cell(event_type), sentence(&id.to_string()));
                let line = format!(
                    "{DIM}{time}{DIM:#}  {style}{word:<13}{style:#}  {event_type:<9}  {id}  "
                );
                let width = format!("{time}  {word:<13}  {event_type:<9}  {id}  {rest}").width();
                if terminal::output_width().is_none_or(|columns| width <= columns) {
                    print_progress(&format!("{}\n", (line + rest).trim_end()));
                } else {
                    print_progress(&format!("{}\n", line.trim_end()));
                    self.below(rest);
                }
            };
        match &timed.record {
            Record::Change { change, event } => {
                let mut about = Vec::new();
                if !matches!(change, Change::Started) && !change.is_end() {
                    about.push(summary(event, timed.time));
                    let text = event.description.filter(|text| !text.is_empty());
                    about.extend(text.map(|text| sentence(&text.to_string())));
                }
                let is_journal = stamp == Stamp::Journal;
                let rest = if is_journal {
                    about.join("; ")
                } else {
                    String::new()
                };
                line(
                    change.word(),
                    change_style(*change),
                    &type_of(event),
                    &event.event_id,
                    &rest,
                );
                if !is_journal {
                    for text in &about {
                        self.below(text);
                    }
                }
            }
            Record::Decision {
                action,
                rule,
                reason,
                event,
            } => {
                let rule = rule.map_or(String::new(), |rule| format!(" (rule {rule})"));
                let text = format!("{reason}{rule}");
                line(
                    decided,
                    action_style(*action),
                    &type_of(event),
                    &event.event_id,
                    &text,
                );
            }
            Record::Approval {
                event_ids: _,
                status,
                events,
            } => {
                let (word, style) = match status {
                    Some(200..=299) => ("approved", GOOD),
                    _ => ("not approved", BAD),
                };
                let status =
                    status.map_or("no response".into(), |status| format!("status {status}"));
                for event in *events {
                    line(word, style, &type_of(event), &event.event_id, &status);
                }
            }
            // Its result follows.
            Record::Prepare {
                outcome: HookOutcome::Begun,
                ..
            } => {}
            Record::Gate {
                outcome: GateOutcome::LastCall,
                event,
                ..
            } => {
                line(
                    "last call",
                    BAD,
                    &type_of(event),
                    &event.event_id,
                    LAST_CALL,
                );
            }
            Record::Prepare { outcome, event, .. } => {
                let (word, style) = match outcome {
                    HookOutcome::Ready => ("prepared", GOOD),
                    _ => ("not prepared", BAD),
                };
                line(
                    word,
                    style,
                    &type_of(event),
                    &event.event_id,
                    outcome.word(),
                );
            }
            Record::Recover {
                outcome: Some(outcome),
                event,
                ..
            } => {
                let (word, style) = match outcome {
                    HookOutcome::DryRun if is_dry => ("would recover", PLAIN),
                    HookOutcome::Done => ("recovered", GOOD),
                    HookOutcome::NoCommand | HookOutcome::DryRun => ("recovered", PLAIN),
                    _ => ("not recovered", BAD),
                };
                line(
                    word,
                    style,
                    &type_of(event),
                    &event.event_id,
                    outcome.word(),
                );
            }
            Record::Problem {
                event,
                member,
                kind,
                line: row,
                column,
            } => {
                let place =
                    event.map_or("the document".to_owned(), |event| format!("event {event}"));
                let member = member.map_or(String::new(), |member| format!(", {member}"));
                let position = row
                    .zip(*column)
                    .map_or(String::new(), |(row, column)| format!(" at {row}:{column}"));
                line(
                    "problem",
                    CAUTION,
                    "-",
                    &format!("{place}{member}: {}{position}", kind.word()),
                    "",
                );
            }
            Record::Untracked { own, others } => {
                let text = format!(
                    "too many events: {own} of this machine and {others} of others are not followed"
                );
                line("untracked", BAD, "-", &text, "");
            }
            Record::NoAdvice { api_version } => {
                let text = format!(
                    "the service does not know API version {api_version}, which shows advice; it is tried again in a day"
                );
                line("no advice", CAUTION, "-", &text, "");
            }
            // Failed polls are printed as notes.
            _ => {}
        }
    }

    fn below(&self, text: &str) {
        let indent = self.stamp.indent();
        let width =
            terminal::output_width().map(|columns| columns.saturating_sub(indent).max(indent));
        for line in wrap(text, width) {
            print_progress(&format!("{}{DIM}{line}{DIM:#}\n", " ".repeat(indent)));
        }
    }

    /// Prints a line below the last record, for people only.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            self.below(text);
        }
    }

    /// Prints a line of its own, for people only.
    pub(crate) fn message(&self, text: &str) {
        if !self.json {
            let prefix = if self.stamp == Stamp::Journal {
                Priority::Info.prefix()
            } else {
                String::new()
            };
            for line in wrap(text, terminal::output_width()) {
                print_progress(&format!("{prefix}{line}\n"));
            }
        }
    }
}

/// Prints a record as one line of the journal, with fields by which `journalctl` can select.
fn log_record(
    timed: &TimedRecord<'_>,
    word: &str,
    style: Style,
    event_type: &str,
    id: &str,
    rest: &str,
) {
    if is_quiet() {
        return;
    }
    let priority = if style == BAD {
        Priority::Warning
    } else if style == CAUTION {
        Priority::Notice
    } else {
        Priority::Info
    };
    let line = format!("{word}: {} {}  {rest}", cell(event_type), sentence(id));
    let line = line.trim_end();
    let (event_type, id) = (printable(event_type), printable(id));
    let is_event = !matches!(
        timed.record,
        Record::Problem { .. } | Record::Untracked { .. } | Record::NoAdvice { .. }
    );
    let (machine, vm_id) = (timed.machine.map(printable), timed.vm_id.map(printable));
    let mut fields = vec![("SCHEDULED_EVENTS_RECORD", timed.record.kind())];
    if is_event {
        fields.extend([
            ("SCHEDULED_EVENTS_TYPE", &*event_type),
            ("SCHEDULED_EVENTS_ID", &*id),
        ]);
    }
    for (name, value) in [
        ("SCHEDULED_EVENTS_MACHINE", machine.as_deref()),
        ("SCHEDULED_EVENTS_VM_ID", vm_id.as_deref()),
    ] {
        fields.extend(value.map(|value| (name, value)));
    }
    if !journal::send(priority, line, &fields) {
        print_progress(&format!("{}{line}\n", priority.prefix()));
    }
}

/// Prints a note of a watcher to standard error.
pub(crate) fn print_note(note: &Note) {
    diagnose(note.severity().word(), &note.to_string());
}

const fn change_style(change: Change) -> Style {
    match change {
        Change::Scheduled | Change::Rescheduled | Change::Updated | Change::Advised => CAUTION,
        Change::Started | Change::StartedWithoutNotice => BAD,
        Change::Completed | Change::Cancelled | Change::Ended | Change::AdviceWithdrawn => GOOD,
    }
}

/// The type of an event, for a line.
fn type_of(event: &EventMembers<'_>) -> String {
    event
        .event_type
        .map_or("-".to_owned(), |word| word.to_string())
}

/// The facts that an operator needs first: start, duration, machines, initiator.
fn summary(event: &EventMembers<'_>, now: UnixSeconds) -> String {
    let start = match event.not_before {
        _ if event.event_status.is_some_and(|status| status == "Started") => {
            "in progress".to_owned()
        }
        Some(time) if time < now => format!("was due {}, at {time}", from_now(time, now)),
        Some(time) => format!("starts {}, at {time}", from_now(time, now)),
        None => "start time unknown".to_owned(),
    };
    let interruption = match event.duration_in_seconds {
        None => "duration unknown".to_owned(),
        Some(0) => "no interruption".to_owned(),
        Some(seconds) => format!("interruption of {}", duration(seconds.into())),
    };
    let source = event
        .event_source
        .map(|source| format!("; caused by {}", cell(&source.to_string())));
    let resources = distinct(event.resources.iter().flat_map(ResourceList::iter));
    let whose = match event.mine {
        Some(true) if resources.len() > 1 => " (including this machine)",
        Some(true) => " (this machine)",
        Some(false) => " (not this machine)",
        None => "",
    };
    format!(
        "{start}; {interruption}{}; affects {}{whose}",
        source.unwrap_or_default(),
        names(resources)
    )
}
