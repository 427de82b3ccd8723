//! `capture`: keeps every exchange with the service.
//!
//! A watcher that does nothing polls, so that the capture shows what a client of this project meets. Its requests, and those of
//! `probe`, go through one trace, which writes the lines of the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scheduled_events_core::record::ResourceList;
use scheduled_events_core::{Change, Policy, RequestOutcome, UnixSeconds};

use super::probe::{Probe, run_probes};
use crate::args::{CaptureArgs, OutputArgs};
use crate::audit_lines::read_audit;
use crate::endpoint::connect;
use crate::error::CommandError;
use crate::output::format::{count, printable};
use crate::output::{self, check_written};
use crate::startup::{patiently, stop_on_signals, survive_size_limit};
use crate::watch::printer::{RecordPrinter, Stamp, print_note};
use scheduled_events::audit::{Audit, earlier_files};
use scheduled_events::files::sibling;
use scheduled_events::imds;
use scheduled_events::record::{EventRecord, Record, TimedRecord};
use scheduled_events::watch::{
    Host, Note, Poll, PrepareReply, RecoverReply, StopReason, WatchStatus, Watcher,
};
use scheduled_events_replay::capture::{CapturedExchange, CapturedFailure, Mask};

pub(crate) fn capture(args: CaptureArgs) -> Result<(), CommandError> {
    let imds = connect(&args.service)?;
    survive_size_limit()?;
    check_whole(&args)?;
    // It is an audit file of exchanges: private, locked, bounded, and numbered.
    let audit = Audit::open_as("capture", &args.to, print_note).map_err(CommandError::usage)?;
    let audit = Arc::new(audit);
    let masker = args.mask.then(|| Masker::open(&args.to)).transpose()?;
    let captured = Arc::new(Mutex::new((masker, 0_usize)));
    let imds = {
        let (audit, captured) = (Arc::clone(&audit), Arc::clone(&captured));
        imds.with_trace(move |exchange| {
            let mut exchange = captured_exchange(exchange, SystemTime::now());
            let time = UnixSeconds(exchange.unix_ms.div_euclid(1000));
            {
                let mut captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
                let (masker, number) = &mut *captured;
                if let Some(masker) = masker {
                    masker.exchange(&mut exchange);
                }
                *number += 1;
                audit.record_as(&exchange, time);
            }
            // What comes right before the end of the machine is the most wanted.
            audit.sync_unless_stalled();
        })
    };
    patiently(output::start_writers)?;
    let printer = RecordPrinter::new(&OutputArgs { json: false }, false, Stamp::of_log());
    printer.message(&format!(
        "capturing what {} answers to {}; press Ctrl-C to stop",
        imds.endpoint(),
        printable(&args.to.display().to_string())
    ));
    let (probes, received) = mpsc::channel();
    let asking = {
        let imds = imds.clone();
        let received = Arc::new(Mutex::new(received));
        patiently(|| {
            let (imds, received) = (imds.clone(), Arc::clone(&received));
            thread::Builder::new().spawn(move || run_probes(&imds, &received))
        })?
    };
    let mut host = CaptureHost {
        printer,
        probes: Some(probes),
        probe: args.probe,
        approve: args.approve,
        has_answer: false,
    };
    let mut watch = Watcher::builder()
        .imds(imds)
        .api_version(args.service.api_version)
        .vm_names(args.machine.vm_name)
        .policy(Policy::observe())
        .interval(args.interval)
        .until_idle(args.until_idle)
        .build()
        .map_err(CommandError::usage)?;
    stop_on_signals(&watch.handle(), None)?;
    let ended = watch.run_with(&mut host);
    host.probes = None;
    if ended == StopReason::Idle {
        // What was asked for at the end is part of the evidence.
        let _ = asking.join();
    }
    host.printer.finish();
    let lost = audit.finish();
    let (masker, number) = &*captured.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(masker) = masker {
        masker.names.finish();
    }
    let file = printable(&args.to.display().to_string());
    let lost = usize::try_from(lost).unwrap_or(usize::MAX);
    host.printer.message(&format!(
        "{} in {file}; see `scheduled-events contract {file}`",
        count(number.saturating_sub(lost), "exchange")
    ));
    output::flush_on_exit();
    if lost > 0 {
        return Err(CommandError::usage(format!(
            "{file} lacks {}, which could not be written",
            count(lost, "exchange")
        )));
    }
    check_written()
}

/// The file that has what the mask replaces, beside the capture.
fn names_file(capture: &Path) -> PathBuf {
    sibling(capture, "names")
}

/// Checks that a capture which is continued stays masked by the same names, or not masked.
fn check_whole(args: &CaptureArgs) -> Result<(), CommandError> {
    // An earlier file may be left alone.
    let has_lines = earlier_files(&args.to)
        .chain([args.to.clone()])
        .any(|file| fs::metadata(file).is_ok_and(|file| file.len() > 0));
    let names = names_file(&args.to);
    if !has_lines || names.exists() == args.mask {
        return Ok(());
    }
    let shown = |path: &Path| printable(&path.display().to_string());
    let (file, names) = (shown(&args.to), shown(&names));
    Err(CommandError::usage(if args.mask {
        format!(
            "{file} has lines, but {names}, which has what replaces their names, is missing; use another file"
        )
    } else {
        format!("{file} is masked; add --mask, or use another file")
    }))
}

/// Masks exchanges, and keeps what it replaces, so that the next run replaces it by the same.
struct Masker {
    mask: Mask,
    names: Audit,
}

impl Masker {
    fn open(capture: &Path) -> Result<Self, CommandError> {
        let file = names_file(capture);
        // Private, locked and bounded, too.
        let names = Audit::open_as("file of names", &file, print_note);
        let names = names.map_err(CommandError::usage)?;
        let mut mask = Mask::default();
        read_audit(&file, &mut |line| mask.restore(line))?;
        Ok(Self { mask, names })
    }

    fn exchange(&mut self, exchange: &mut CapturedExchange) {
        self.mask.exchange(exchange);
        let new = self.mask.take_new();
        let time = UnixSeconds(exchange.unix_ms.div_euclid(1000));
        for replacement in &new {
            self.names.record_as(replacement, time);
        }
        if !new.is_empty() {
            self.names.sync_unless_stalled();
        }
    }
}

/// An exchange that has just ended, for the file.
pub(super) fn captured_exchange(
    exchange: &imds::Exchange<'_>,
    ended: SystemTime,
) -> CapturedExchange {
    let sent = ended.checked_sub(exchange.time).unwrap_or(ended);
    let sent = sent.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    CapturedExchange {
        time: UnixSeconds(millis(sent).div_euclid(1000)).to_string(),
        unix_ms: millis(sent),
        took_ms: millis(exchange.time),
        method: exchange.method.to_owned(),
        target: exchange.target.to_owned(),
        request_headers: exchange.request_headers.iter().map(owned).collect(),
        request_body: text(exchange.request_body),
        status: exchange.head.map(|head| head.status),
        headers: exchange
            .head
            .map_or_else(Vec::new, |head| head.headers.clone()),
        body: text(exchange.body),
        failure: exchange.result.err().map(|cause| CapturedFailure {
            cause: cause.word().to_owned(),
            detail: exchange.detail.unwrap_or_default().to_owned(),
        }),
        sequence: None,
    }
}

/// Prints what is seen, and asks for probes.
struct CaptureHost {
    printer: RecordPrinter,
    probes: Option<Sender<Probe>>,
    probe: bool,
    approve: bool,
    has_answer: bool,
}

impl CaptureHost {
    fn send(&self, probe: Probe) {
        if let Some(probes) = &self.probes {
            // The thread ends last.
            let _ = probes.send(probe);
        }
    }

    /// Asks for what a change calls for. The approval comes first: the versions take seconds, and an eviction has few.
    fn ask_about(&self, change: Change, id: &str, is_own: bool) {
        if self.approve && change == Change::Scheduled && is_own {
            self.send(Probe::Approval(id.to_owned()));
        }
        let is_new = matches!(
            change,
            Change::Scheduled | Change::Started | Change::StartedWithoutNotice | Change::Advised
        );
        if self.probe && is_new {
            self.send(Probe::Versions);
        }
    }
}

impl Host for CaptureHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        self.printer.record(record);
        let Record::Change { change, event, .. } = &record.record else {
            return;
        };
        let names = event.resources.iter().flat_map(ResourceList::iter);
        let is_own = event.mine == Some(true) && names.count() == 1;
        self.ask_about(*change, &event.event_id.to_string(), is_own);
    }

    fn polled(&mut self, poll: &Poll<'_>) {
        // The first request switches the service on; others wait for it.
        let has_failed = matches!(poll.outcome, RequestOutcome::PollFailed { .. });
        if !self.has_answer && !has_failed {
            self.has_answer = true;
            if self.probe {
                self.send(Probe::Refusals);
                self.send(Probe::Versions);
            }
        }
    }

    fn note(&mut self, note: &Note) {
        print_note(note);
    }

    fn heartbeat(&mut self, status: WatchStatus<'_>) -> Option<Duration> {
        self.printer.heartbeat(status)
    }

    fn prepare(&mut self, _event: &EventRecord, reply: PrepareReply) {
        reply.failed();
    }

    fn recover(&mut self, _events: &[EventRecord], reply: RecoverReply) {
        reply.done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_approved_before_all_else() {
        let (probes, received) = mpsc::channel();
        let host = CaptureHost {
            printer: RecordPrinter::new(&OutputArgs { json: false }, false, Stamp::of_log()),
            probes: Some(probes),
            probe: true,
            approve: true,
            has_answer: true,
        };
        host.ask_about(Change::Scheduled, "a", true);
        host.ask_about(Change::Scheduled, "others", false);
        let probes: Vec<_> = received.try_iter().collect();
        assert!(matches!(
            &probes[..],
            [Probe::Approval(id), Probe::Versions, Probe::Versions] if id == "a"
        ));
    }
}
