//! `status`: shows the machine and its events from the state file of a watcher. It never uses the
//! network.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anstyle::Style;
use scheduled_events_core::{Action, Text, UnixSeconds, WaitsFor};

use crate::args::StatusArgs;
use crate::error::CommandError;
use crate::output::format::{
    cell, count, date_and_time, duration, from_now, now, printable, sentence,
};
use crate::output::style::{BAD, BOLD, CAUTION, DIM, GOOD, PLAIN};
use crate::output::table::Table;
use crate::output::terminal;
use crate::output::{print, print_record};
use scheduled_events::record::{EventRecord, Record, event_key};
use scheduled_events::state::{InspectError, Inspection, Sight, WaitingEvent};
use scheduled_events_core::wire::ADVICE_API_VERSION;

pub(crate) fn status(args: &StatusArgs) -> Result<(), CommandError> {
    let inspection = Inspection::of(&args.state).map_err(|error| explain(&args.state, &error))?;
    let report = Report::new(inspection, now());
    if args.output.json {
        report.print_records()?;
    } else {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = report.write(&mut text);
        print(&text)?;
    }
    if report.sees() {
        Ok(())
    } else {
        Err(CommandError::printed())
    }
}

fn explain(path: &Path, error: &InspectError) -> CommandError {
    let text = format!("the state file {} {error}", path.display());
    match error {
        InspectError::Missing => CommandError::usage(format!(
            "{text}; give the path of `watch --state FILE` with --state, or start a watcher that has one"
        )),
        InspectError::Unreadable(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            CommandError::usage(format!(
                "{text}; run this as the user of the watcher, or as root"
            ))
        }
        InspectError::Damaged(_) => CommandError::document(text),
        _ => CommandError::usage(text),
    }
}

struct Report {
    inspection: Inspection,
    saved: UnixSeconds,
    /// By the service's clock if the watcher knows it, as all times of the state.
    now: UnixSeconds,
    /// For how long the watcher has not reported, if that is too long.
    overdue: Option<Duration>,
    /// The events, this machine's first.
    events: Vec<(EventRecord, WaitingEvent)>,
}

impl Report {
    /// The report at this time of this machine's clock.
    fn new(inspection: Inspection, own: UnixSeconds) -> Self {
        let seconds = inspection
            .saved
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let state = &inspection.state;
        let mut waiting = state.status.waiting.clone();
        let mut events: Vec<_> = Vec::new();
        for event in &state.events {
            let key = event_key(&event.event_id);
            let known = waiting
                .iter()
                .position(|waiting| event_key(&waiting.event_id) == key);
            // An event that was dropped in favour of others is kept for the recovery.
            let waits =
                known.map_or_else(|| recovery_only(event), |index| waiting.swap_remove(index));
            events.push((event.clone(), waits));
        }
        for waits in waiting {
            events.push((
                EventRecord {
                    event_id: waits.event_id.clone(),
                    ..EventRecord::default()
                },
                waits,
            ));
        }
        events.sort_by_key(|(event, _)| {
            (
                event.mine == Some(false),
                event.not_before.map_or(i64::MAX, |at| at.0),
            )
        });
        // When the file was saved is known by this machine's clock.
        let now = inspection.sight.as_ref().map_or(own, Sight::now);
        let saved = i64::try_from(seconds).unwrap_or(i64::MAX);
        Self {
            saved: UnixSeconds(saved.saturating_add(now.since(own))),
            now,
            overdue: inspection.sight.as_ref().and_then(Sight::overdue),
            events,
            inspection,
        }
    }

    /// Whether the watcher is known to be blind, or to hang.
    fn blind(&self) -> Option<bool> {
        let sight = self.inspection.sight.as_ref()?;
        Some(sight.blind || self.overdue.is_some())
    }

    /// Whether events are seen. Of the program of a snapshot, nothing is known.
    fn sees(&self) -> bool {
        let sees = self.inspection.watched && self.blind() == Some(false);
        sees || self.inspection.snapshot_only && !self.inspection.watched
    }

    /// Why events are not seen, if they are not.
    fn blindness(&self) -> Option<String> {
        let sight = self.inspection.sight.as_ref()?;
        if let Some(age) = self.overdue {
            let age = duration(age.as_secs());
            return Some(format!(
                "the watcher has not reported for {age}: it hangs, is stopped, or cannot write beside its state file"
            ));
        }
        let since = match sight.last_document {
            _ if !sight.blind => return None,
            Some(at) => format!("no document since {}", moment(at, self.now)),
            None => format!(
                "no document since the start at {}",
                moment(sight.started, self.now)
            ),
        };
        let cause = sight.cause.as_deref().map_or_else(
            || "no answer".to_owned(),
            |cause| format!("the last one: {}", printable(cause)),
        );
        let polls = count(sight.failed_polls as usize, "poll");
        Some(format!("{since}; {polls} failed, {cause}"))
    }

    /// Since when the watcher sees no advice, if it wants to.
    fn advice_unseen_since(&self) -> Option<UnixSeconds> {
        let sight = self.inspection.sight.as_ref();
        sight
            .filter(|_| self.inspection.watched)?
            .advice_unseen_since
    }

    fn print_records(&self) -> Result<(), CommandError> {
        let status = &self.inspection.state.status;
        let sight = self.inspection.sight.as_ref();
        print_record(&Record::Status {
            in_service: !status.out_of_service,
            since: status.since,
            recovery_attempt: status.recovery_attempt,
            recovery_since: status.recovery_since,
            recovery_failures: status.recovery_failures.into(),
            recovery_retry_at: status.recovery_retry_at,
            events: self.events.len(),
            watched: self.inspection.watched,
            process: self.inspection.process,
            saved: self.saved,
            outdated: self.inspection.is_outdated(),
            blind: self.blind(),
            last_document: sight.and_then(|sight| sight.last_document),
            failed_polls: sight.map(|sight| sight.failed_polls),
            cause: sight
                .and_then(|sight| sight.cause.as_deref())
                .map(Text::plain),
            config_reload_failed: sight
                .and_then(|sight| sight.reload_failure.as_deref())
                .map(Text::plain),
        })?;
        for (event, waits) in &self.events {
            let names = event.resource_names();
            print_record(&Record::Waiting {
                waits_for: waits.waits_for,
                since: waits.since,
                until: waits.until,
                attempt: waits.attempt,
                action: waits.action,
                rule: waits.rule,
                reason: waits.reason.as_deref().map(Text::plain),
                last_call: waits.last_call,
                event: event.members(names.as_deref()),
            })?;
        }
        Ok(())
    }

    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let (status, now) = (&self.inspection.state.status, self.now);
        let blindness = self.blindness();
        if let Some(why) = &blindness {
            writeln!(output, "{BAD}blind{BAD:#}: {why}")?;
        } else if self.inspection.watched && self.inspection.sight.is_none() {
            writeln!(
                output,
                "{CAUTION}unknown whether documents arrive{CAUTION:#}: the watcher has not reported it"
            )?;
        }
        if let Some(since) = self.advice_unseen_since() {
            writeln!(
                output,
                "{CAUTION}advice cannot be seen{CAUTION:#} since {}: the service brings no document in API version {ADVICE_API_VERSION}",
                moment(since, now)
            )?;
        }
        let sight = self.inspection.sight.as_ref();
        if let Some(why) = sight.and_then(|sight| sight.reload_failure.as_deref()) {
            writeln!(
                output,
                "{CAUTION}the configuration was not read again{CAUTION:#}, and the one before counts: {}",
                printable(why)
            )?;
        }
        let (word, style) = if status.out_of_service {
            ("out of service", BAD)
        } else {
            ("in service", GOOD)
        };
        let since = status.since.map_or(String::new(), |since| {
            format!(" since {}", moment(since, now))
        });
        writeln!(output, "{style}{word}{style:#}{since}")?;
        if status.out_of_service {
            writeln!(output, "{}", self.recovery(now))?;
        }
        writeln!(output)?;
        let is_shown = |(event, waits): &&(EventRecord, WaitingEvent)| {
            event.mine != Some(false) || acts(waits)
        };
        let shown: Vec<_> = self.events.iter().filter(is_shown).collect();
        if self.events.is_empty() {
            let then = if blindness.is_some() {
                " in the last document"
            } else {
                ""
            };
            writeln!(output, "no events{then}")?;
        }
        if !shown.is_empty() {
            table(&shown, now).print(&mut *output, terminal::output_width())?;
        }
        let others = self.events.len() - shown.len();
        if others > 0 {
            writeln!(
                output,
                "{DIM}{} of other machines (--json prints them){DIM:#}",
                count(others, "event")
            )?;
        }
        writeln!(output)?;
        let saved = moment(self.saved, now);
        match (self.inspection.watched, self.inspection.process) {
            (true, Some(process)) => writeln!(
                output,
                "{DIM}process {process} watches; last change at {saved}{DIM:#}"
            )?,
            (true, None) => writeln!(
                output,
                "{DIM}a process watches; last change at {saved}{DIM:#}"
            )?,
            (false, _) if self.inspection.snapshot_only => {
                writeln!(
                    output,
                    "{DIM}this is the snapshot that a program saved at {saved}{DIM:#}"
                )?;
            }
            (false, _) => {
                writeln!(
                    output,
                    "{CAUTION}nothing watches{CAUTION:#}; this is what the last watcher saved at {saved}"
                )?;
                if self.inspection.is_outdated() == Some(true) {
                    writeln!(
                        output,
                        "The machine was started since, or the file is another machine's."
                    )?;
                }
            }
        }
        Ok(())
    }

    fn recovery(&self, now: UnixSeconds) -> String {
        let status = &self.inspection.state.status;
        let failed = match status.recovery_failures {
            0 => String::new(),
            failures => format!("; it failed {}", count(failures.into(), "time")),
        };
        match (
            status.recovery_attempt,
            status.recovery_since,
            status.recovery_retry_at,
        ) {
            (Some(attempt), since, _) => {
                let since = since.map_or(String::new(), |since| {
                    format!(" since {}", moment(since, now))
                });
                format!("the recovery runs{since}, attempt {attempt}{failed}")
            }
            (_, _, Some(at)) => format!(
                "the recovery is pending: next attempt at {}{failed}",
                moment(at, now)
            ),
            _ => format!(
                "the recovery is pending until nothing keeps the machine out of service{failed}"
            ),
        }
    }
}

/// Whether this machine acts on the event.
fn acts(waits: &WaitingEvent) -> bool {
    matches!(waits.action, Some(Action::Approve | Action::Prepare)) || waits.attempt.is_some()
}

/// The progress of an event that is no longer tracked.
fn recovery_only(event: &EventRecord) -> WaitingEvent {
    WaitingEvent {
        event_id: event.event_id.clone(),
        waits_for: WaitsFor::Recovery,
        since: None,
        until: None,
        attempt: None,
        action: None,
        rule: None,
        reason: None,
        last_call: false,
    }
}

fn table(events: &[&(EventRecord, WaitingEvent)], now: UnixSeconds) -> Table {
    let mut table = Table::with_headings(["", "TYPE", "STATUS", "PROGRESS"]);
    for (event, waits) in events {
        let word = |word: &Option<String>| word.as_deref().map_or("-".to_owned(), cell);
        let mark = match event.mine {
            Some(true) => "*",
            Some(false) => "",
            None => "?",
        };
        table.row([
            (mark.to_owned(), BOLD),
            (word(&event.event_type), BOLD),
            (word(&event.event_status), PLAIN),
            (progress(waits, now), style_of(waits.waits_for)),
        ]);
        table.below(sentence(&event.event_id), DIM);
        if let Some(text) = event.description.as_deref().filter(|text| !text.is_empty()) {
            table.below(sentence(text), DIM);
        }
    }
    table
}

const fn style_of(waits_for: WaitsFor) -> Style {
    match waits_for {
        WaitsFor::Start => GOOD,
        WaitsFor::StartUnapproved | WaitsFor::StartUnprepared | WaitsFor::End => BAD,
        _ => CAUTION,
    }
}

/// The progress of the event, in words.
fn progress(waits: &WaitingEvent, now: UnixSeconds) -> String {
    let at = |time: Option<UnixSeconds>| {
        time.map_or("at an unknown time".to_owned(), |time| {
            format!("at {}", moment(time, now))
        })
    };
    let start = waits.until.map_or("its start is unknown".to_owned(), |at| {
        format!("starts not before {}", moment(at, now))
    });
    let runs = || {
        let since = waits.since.map_or(String::new(), |since| {
            format!(" since {}", moment(since, now))
        });
        waits
            .attempt
            .map(|attempt| format!("runs{since}, attempt {attempt}"))
    };
    let rule = waits
        .rule
        .map_or(String::new(), |rule| format!(" by rule {rule}"));
    // Reasons not to approve, for events that a rule prepares for or approves, start with the words
    // of the sentence.
    let reason = waits
        .reason
        .as_deref()
        .map(|reason| reason.strip_prefix("not approved: ").unwrap_or(reason));
    let reason = reason.map_or(String::new(), |reason| format!(": {}", printable(reason)));
    let ask = |phase: &str| match (waits.attempt, waits.until) {
        (Some(attempt), _) => format!("the gate is asked {phase}, attempt {attempt}"),
        (None, Some(_)) => format!(
            "waits for the gate {phase}; asked again {}",
            at(waits.until)
        ),
        (None, None) => format!("waits for the gate {phase}"),
    };
    let progress = match waits.waits_for {
        WaitsFor::Document => "waits for the next document".to_owned(),
        WaitsFor::DueTime => {
            let of_rule = waits
                .rule
                .map_or(String::new(), |rule| format!(" of rule {rule}"));
            let due = waits
                .until
                .map_or("an unknown time".to_owned(), |due| moment(due, now));
            format!("not due before {due} (prepare_before{of_rule})")
        }
        WaitsFor::GateToPrepare => ask("before the preparation"),
        WaitsFor::GateToApprove => ask("before the approval"),
        WaitsFor::Preparation => match runs() {
            Some(runs) => format!("preparation {runs}"),
            None => "the preparation is about to start".to_owned(),
        },
        WaitsFor::Turn => format!("other machines approve first; this one {}", at(waits.until)),
        WaitsFor::Approval => match waits.until {
            Some(_) => format!("the approval failed; next attempt {}", at(waits.until)),
            None => "the approval is about to be posted".to_owned(),
        },
        WaitsFor::Start => format!("approved; {start}"),
        WaitsFor::StartUnapproved => match waits.action {
            Some(Action::Ignore) => format!("ignored{rule}; {start}"),
            // Only the time is a reason to wait.
            Some(Action::Approve | Action::Prepare)
                if waits.until.is_some_and(|start| start <= now)
                    && waits
                        .reason
                        .as_deref()
                        .is_some_and(|reason| !reason.starts_with("not approved: ")) =>
            {
                format!("not approved in time; {start}")
            }
            Some(Action::Approve | Action::Prepare) => {
                format!("not approved{rule}{reason}; {start}")
            }
            _ => format!("held{rule}{reason}; {start}"),
        },
        WaitsFor::StartUnprepared => format!("not approved: the preparation failed; {start}"),
        WaitsFor::CancelledCommand => {
            "waits for the end of a command that was cancelled".to_owned()
        }
        WaitsFor::End => "in progress".to_owned(),
        WaitsFor::Withdrawal => match waits.action {
            Some(Action::Prepare) => format!("advice, prepared for{rule}; until it is withdrawn"),
            Some(Action::Ignore) => format!("advice, ignored{rule}; until it is withdrawn"),
            _ => "advice, reported; until it is withdrawn".to_owned(),
        },
        WaitsFor::Recovery => match (runs(), waits.until) {
            (Some(runs), _) => format!("over; recovery {runs}"),
            (None, Some(_)) => format!("over; next attempt to recover {}", at(waits.until)),
            (None, None) => "over; waits for the recovery".to_owned(),
        },
        other => other.word().to_owned(),
    };
    if waits.last_call {
        format!("{progress}; prepared by the last call, without the gate")
    } else {
        progress
    }
}

/// A time of day with its zone, and its distance from now.
fn moment(time: UnixSeconds, now: UnixSeconds) -> String {
    let ((date, clock), (today, _)) = (date_and_time(time), date_and_time(now));
    let date = if date == today {
        String::new()
    } else {
        format!("{date} ")
    };
    format!("{date}{clock} UTC ({})", from_now(time, now))
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::Reason;

    use super::*;
    use scheduled_events::state::{MachineStatus, State};

    const NOW: UnixSeconds = UnixSeconds(1_649_715_600);

    fn waits(waits_for: WaitsFor) -> WaitingEvent {
        WaitingEvent {
            waits_for,
            ..recovery_only(&EventRecord {
                event_id: "a".into(),
                ..EventRecord::default()
            })
        }
    }

    fn later(seconds: i64) -> UnixSeconds {
        UnixSeconds(NOW.0 + seconds)
    }

    #[test]
    fn each_word_has_a_sentence() {
        let reason = Some("a rule\u{1b} matches".to_owned());
        for (waits, expected) in [
            (
                WaitingEvent {
                    since: Some(later(-90)),
                    attempt: Some(2),
                    ..waits(WaitsFor::Preparation)
                },
                "preparation runs since 22:18:30 UTC (1 min 30 s ago), attempt 2",
            ),
            (
                WaitingEvent {
                    until: Some(later(86_400)),
                    rule: Some(3),
                    ..waits(WaitsFor::DueTime)
                },
                "not due before 2022-04-12 22:20:00 UTC (in 1 d) (prepare_before of rule 3)",
            ),
            (
                WaitingEvent {
                    until: Some(later(60)),
                    ..waits(WaitsFor::Start)
                },
                "approved; starts not before 22:21:00 UTC (in 1 min)",
            ),
            (
                WaitingEvent {
                    rule: Some(2),
                    action: Some(Action::Hold),
                    reason,
                    ..waits(WaitsFor::StartUnapproved)
                },
                "held by rule 2: a rule\\u{1b} matches; its start is unknown",
            ),
            (
                WaitingEvent {
                    rule: Some(1),
                    action: Some(Action::Prepare),
                    reason: Some(Reason::SeveralMachines.to_string()),
                    ..waits(WaitsFor::StartUnapproved)
                },
                "not approved by rule 1: several VMs, set a gate or leader; its start is unknown",
            ),
            (
                WaitingEvent {
                    until: Some(later(-60)),
                    rule: Some(1),
                    action: Some(Action::Prepare),
                    reason: Some(Reason::Rule.to_string()),
                    ..waits(WaitsFor::StartUnapproved)
                },
                "not approved in time; starts not before 22:19:00 UTC (1 min ago)",
            ),
            (
                WaitingEvent {
                    until: Some(later(5)),
                    ..waits(WaitsFor::GateToPrepare)
                },
                "waits for the gate before the preparation; asked again at 22:20:05 UTC (in 5 s)",
            ),
            (
                WaitingEvent {
                    until: Some(later(5)),
                    last_call: true,
                    ..waits(WaitsFor::GateToPrepare)
                },
                "waits for the gate before the preparation; asked again at 22:20:05 UTC (in 5 s); prepared by the last call, \
                 without the gate",
            ),
            (
                WaitingEvent {
                    until: Some(later(5)),
                    ..waits(WaitsFor::Recovery)
                },
                "over; next attempt to recover at 22:20:05 UTC (in 5 s)",
            ),
        ] {
            assert_eq!(progress(&waits, NOW), expected);
        }
        for waits_for in WaitsFor::ALL {
            assert!(
                progress(&waits(waits_for), NOW).contains(' '),
                "{waits_for} has no sentence"
            );
        }
    }

    #[test]
    fn the_text_shows_the_machine_its_own_events_first_and_sums_up_what_it_only_watches() {
        let event = |id: &str, mine| EventRecord {
            event_id: id.into(),
            event_type: Some("Reboot".into()),
            event_status: Some("Scheduled".into()),
            mine: Some(mine),
            ..EventRecord::default()
        };
        let of = |id: &str, waits_for| WaitingEvent {
            event_id: id.into(),
            ..waits(waits_for)
        };
        let status = MachineStatus {
            out_of_service: true,
            since: Some(later(-60)),
            recovery_failures: 2,
            recovery_retry_at: Some(later(20)),
            waiting: vec![
                of("B", WaitsFor::StartUnapproved),
                of("c", WaitsFor::Start),
                of("a", WaitsFor::End),
            ],
            ..MachineStatus::default()
        };
        let state = State {
            events: vec![event("b", false), event("a", true), event("d", true)],
            status,
            ..State::default()
        };
        let saved = UNIX_EPOCH + Duration::from_secs(NOW.0.unsigned_abs() - 30);
        let inspection = Inspection {
            state,
            saved,
            watched: false,
            snapshot_only: false,
            process: None,
            sight: None,
        };
        let report = Report::new(inspection, NOW);
        assert!(!report.sees());
        let mut text = Vec::new();
        report
            .write(&mut anstream::StripStream::new(&mut text))
            .unwrap();
        let expected = "out of service since 22:19:00 UTC (1 min ago)\n\
                        the recovery is pending: next attempt at 22:20:20 UTC (in 20 s); it failed 2 times\n\n   \
                        TYPE    STATUS     PROGRESS\n\
                        *  Reboot  Scheduled  in progress\n   a\n\
                        *  Reboot  Scheduled  over; waits for the recovery\n   d\n\
                        ?  -       -          approved; its start is unknown\n   c\n\
                        1 event of other machines (--json prints them)\n\n\
                        nothing watches; this is what the last watcher saved at 22:19:30 UTC (30 s ago)\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
