//! Reads from the watcher's audit file which events are over, and whether this machine has
//! recovered.
//!
//! The daemon reads the file from the beginning, rotated files included, so a restarted daemon
//! knows as much as before. It skips lines that are not records, and records of unknown kinds.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

/// The longest record that is read; longer ones are skipped.
const LINE_MAX: u64 = 1024 * 1024;

/// How many rotated files there may be.
const ROTATED_MAX: u32 = 9;

/// How long after an event's end the daemon waits before it is certain that no preparation was
/// started: the record of a preparation follows the event's end, as that of a recovery does.
const RECORD_TIME: Duration = Duration::from_secs(10);

/// The history of events in the audit file.
#[derive(Debug)]
pub(super) struct Audit {
    path: PathBuf,
    /// The open file, with its device and inode.
    reader: Option<(BufReader<File>, (u64, u64))>,
    /// Whether the rotated files were read. Files that are rotated later were read before.
    has_read_rotated: bool,
    /// Whether the questions to an earlier process were read. This process knows later questions
    /// without the file.
    has_read_history: bool,
    /// A line that is not complete yet.
    partial: String,
    events: HashMap<String, EventHistory>,
    /// This machine's events that started without its approval, oldest first. Another machine may
    /// have approved them.
    pub(super) started: VecDeque<String>,
    /// Events that are over, and since when, oldest first. Other machines may hold slots for them.
    pub(super) ended: VecDeque<(String, Instant)>,
    /// Events for which this machine prepares although the gate has not answered yes, oldest first.
    /// It may hold no slot for them.
    pub(super) last_calls: VecDeque<String>,
    /// How many records were read.
    pub(super) records: u64,
}

/// The records about an event.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
struct EventHistory {
    /// Whether the machine does not come back after the event.
    is_final: bool,
    /// Whether the event takes no slots.
    is_urgent: bool,
    /// Whether the last call has come, and the preparation is about to begin.
    is_called: bool,
    over_since: Option<Instant>,
    /// Whether the records would show a preparation: they have the announcement, or the watcher was
    /// allowed to prepare.
    is_known_from_start: bool,
    /// Whether it has started. A machine can recover from such an event without a preparation:
    /// `watch --recover-all` does that.
    has_started: bool,
    /// Whether this machine was prepared for it, or tried a preparation or a recovery.
    was_prepared: bool,
    /// Since when this machine is back in service after an event that is over; `None` if it is not,
    /// or if nothing is known. If the record of a preparation may be lost, or if the event started
    /// without one, the machine counts as back only `return_within` after the end.
    recovered_since: Option<Instant>,
    was_approved: bool,
    /// Whether the event was over and came back under its id, and, as far as is known, nobody has
    /// asked about it since.
    has_returned: bool,
}

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "record")]
    kind: String,
    #[serde(default)]
    event_id: String,
    #[serde(default)]
    event_ids: Vec<String>,
    #[serde(default)]
    event_type: Option<String>,
    #[serde(default)]
    change: String,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    mine: Option<bool>,
}

impl EventHistory {
    fn returns_if_over(&mut self) {
        if self.over_since.take().is_some() {
            (self.has_returned, self.was_approved, self.has_started) = (true, false, false);
        }
    }
}

impl Audit {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            reader: None,
            has_read_rotated: false,
            has_read_history: false,
            partial: String::new(),
            events: HashMap::new(),
            started: VecDeque::new(),
            ended: VecDeque::new(),
            last_calls: VecDeque::new(),
            records: 0,
        }
    }

    /// Reads the records that were appended since the last call.
    pub(super) fn read_new(&mut self, now: Instant) -> io::Result<()> {
        self.read_files(now)?;
        self.has_read_history = true;
        Ok(())
    }

    fn read_files(&mut self, now: Instant) -> io::Result<()> {
        if !self.has_read_rotated {
            // After a failure, reading starts again from the beginning.
            self.started.clear();
            self.ended.clear();
            self.last_calls.clear();
            // Oldest first. A file that is rotated meanwhile is read twice.
            for number in (1..=ROTATED_MAX).rev() {
                let mut name = self.path.clone().into_os_string();
                name.push(format!(".{number}"));
                match File::open(&name) {
                    Ok(file) => self.read_lines(&mut BufReader::new(file), now)?,
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                self.partial.clear();
            }
            self.has_read_rotated = true;
        }
        loop {
            if let Some((mut reader, identity)) = self.reader.take() {
                // Checked before the rest of the file is read: nobody writes to a rotated file.
                let is_current = std::fs::metadata(&self.path)
                    .is_ok_and(|found| identity == (found.dev(), found.ino()));
                self.read_lines(&mut reader, now)?;
                let is_truncated = reader.get_ref().metadata()?.len() < reader.stream_position()?;
                if is_current && !is_truncated {
                    self.reader = Some((reader, identity));
                    return Ok(());
                }
                self.partial.clear();
            }
            match File::open(&self.path) {
                Ok(file) => {
                    let metadata = file.metadata()?;
                    self.reader = Some((BufReader::new(file), (metadata.dev(), metadata.ino())));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn read_lines(&mut self, reader: &mut BufReader<File>, now: Instant) -> io::Result<()> {
        loop {
            let mut bytes = Vec::new();
            let read = io::Read::take(&mut *reader, LINE_MAX).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(());
            }
            self.partial.push_str(&String::from_utf8_lossy(&bytes));
            if self.partial.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                if let Ok(record) = serde_json::from_str(&line) {
                    self.apply(&record, now);
                }
            } else if self.partial.len() as u64 >= LINE_MAX {
                self.partial.clear();
            }
        }
    }

    fn apply(&mut self, record: &Record, now: Instant) {
        self.records += 1;
        if let Some(event_type) = record
            .event_type
            .as_deref()
            .filter(|_| !record.event_id.is_empty())
        {
            let event = self.event(&record.event_id);
            // Another machine's departure does not take this one away.
            event.is_final =
                matches!(event_type, "Terminate" | "Preempt") && record.mine != Some(false);
            event.is_urgent = event_type == "Preempt";
        }
        match record.kind.as_str() {
            "change" => {
                let event = self.event(&record.event_id);
                match record.change.as_str() {
                    "completed" | "cancelled" | "ended" => {
                        if event.over_since.is_none() {
                            event.over_since = Some(now);
                            self.ended
                                .push_back((record.event_id.to_ascii_lowercase(), now));
                        }
                    }
                    "started" | "started-without-notice" => {
                        event.returns_if_over();
                        event.has_started |= record.mine != Some(false);
                        if !event.was_approved && record.mine == Some(true) {
                            self.started.push_back(record.event_id.to_ascii_lowercase());
                        }
                    }
                    // An id that comes back is an open event again.
                    change => {
                        event.returns_if_over();
                        event.is_known_from_start |= change == "scheduled";
                    }
                }
            }
            "prepare" => {
                let was_asked_before = !self.has_read_history;
                let event = self.event(&record.event_id);
                (event.was_prepared, event.recovered_since) = (true, None);
                event.has_returned &= !was_asked_before;
                if std::mem::take(&mut event.is_called) {
                    self.last_calls
                        .push_back(record.event_id.to_ascii_lowercase());
                }
            }
            "gate" if record.outcome == "last-call" => {
                let was_asked_before = !self.has_read_history;
                let event = self.event(&record.event_id);
                // A preparation for another machine does not take this one out of service.
                event.is_called = record.mine != Some(false);
                event.has_returned &= !was_asked_before;
            }
            "gate" if !self.has_read_history => self.event(&record.event_id).has_returned = false,
            // A dry run does nothing, and a recovery from another machine's event is no recovery of
            // this machine.
            "recover" if record.outcome != "dry-run" => {
                let is_done = matches!(record.outcome.as_str(), "done" | "no-command");
                for id in record
                    .event_ids
                    .iter()
                    .filter(|_| is_done || record.mine != Some(false))
                {
                    let event = self.event(id);
                    event.was_prepared |= !is_done;
                    event.recovered_since = is_done.then_some(now);
                }
            }
            "approval"
                if record
                    .status
                    .is_some_and(|status| (200..300).contains(&status)) =>
            {
                for id in &record.event_ids {
                    self.event(id).was_approved = true;
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, id: &str) -> &mut EventHistory {
        self.events.entry(id.to_ascii_lowercase()).or_default()
    }

    /// When the event ended; `None` if it has not, or if nothing is known.
    pub(super) fn over_since(&self, id: &str) -> Option<Instant> {
        self.events.get(id)?.over_since
    }

    /// The ids of the events that ended at least `time` ago.
    pub(super) fn over_for(&self, time: Duration) -> impl Iterator<Item = &str> {
        let is_old = move |event: &EventHistory| {
            event
                .over_since
                .is_some_and(|since| since.elapsed() >= time)
        };
        self.events
            .iter()
            .filter(move |(_, event)| is_old(event))
            .map(|(id, _)| id.as_str())
    }

    /// Since when this machine is back in service after an event that is over; `None` if it is not,
    /// or if nothing is known. If the record of a preparation may be lost, or if the event has
    /// started without one, the machine is back once the time for a recovery has passed.
    pub(super) fn in_service_since(
        &self,
        id: &str,
        now: Instant,
        return_within: Duration,
    ) -> Option<Instant> {
        let event = self.events.get(id)?;
        let over_since = event.over_since?;
        match event.recovered_since {
            Some(recovered) => Some(recovered.max(over_since)),
            None if event.was_prepared => None,
            None => {
                let is_certain = event.is_known_from_start && !event.has_started;
                let recovery_time = if is_certain {
                    Duration::ZERO
                } else {
                    return_within
                };
                Some(over_since).filter(|over| now - *over >= recovery_time + RECORD_TIME)
            }
        }
    }

    /// Whether this machine went back into service although the event is not over, because the
    /// preparation was no longer needed.
    pub(super) fn is_back_early(&self, id: &str) -> bool {
        self.events
            .get(id)
            .is_some_and(|event| event.over_since.is_none() && event.recovered_since.is_some())
    }

    /// Whether this machine has prepared for an event after which it does not come back, and has
    /// not recovered since.
    pub(super) fn is_leaving(&self) -> bool {
        self.events
            .values()
            .any(|event| event.is_final && event.was_prepared && event.recovered_since.is_none())
    }

    /// Whether this machine is known to be out of service for an event that takes slots.
    pub(super) fn is_out_for(&self, id: &str) -> bool {
        let is_out = |event: &EventHistory| {
            event.was_prepared && event.recovered_since.is_none() && !event.is_urgent
        };
        self.events.get(id).is_some_and(is_out)
    }

    /// Whether the watcher has run, and its records have this machine in service.
    pub(super) fn is_in_service(&self) -> bool {
        self.exists()
            && !self
                .events
                .values()
                .any(|event| event.was_prepared && event.recovered_since.is_none())
    }

    /// Whether the event was over and came back, and nobody has asked about it since.
    pub(super) fn has_returned(&self, id: &str) -> bool {
        self.events.get(id).is_some_and(|event| event.has_returned)
    }

    /// Records that the watcher asks about the event.
    pub(super) fn forget_return(&mut self, id: &str) {
        self.event(id).has_returned = false;
    }

    /// Records that the watcher was allowed to prepare. An earlier preparation that this machine
    /// has recovered from no longer counts; one by the last call, without a recovery, does.
    pub(super) fn expect_preparation(&mut self, id: &str) {
        let event = self.event(id);
        event.is_known_from_start = true;
        if event.recovered_since.take().is_some() {
            event.was_prepared = false;
        }
    }

    /// Whether there is a file.
    pub(super) fn exists(&self) -> bool {
        self.reader.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    const RETURN_WITHIN: Duration = Duration::from_secs(15 * 60);

    #[test]
    fn rotated_files_are_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let mut audit = Audit::new(&path);
        line(
            &folder.path().join("audit.1"),
            "{\"record\":\"change\",\"change\":\"started\",\"event_id\":\"A1\",\"mine\":true}\n\
             {\"record\":\"change\",\"change\":\"ended\",\"event_id\":\"A1\",\"mine\":true}\n",
        );
        let start = Instant::now();
        // The watcher renames the file before it creates the next one, and an operator may remove
        // it.
        for look in 0..3 {
            audit
                .read_new(start + Duration::from_secs(look))
                .expect("read");
            assert_eq!(
                (audit.started.len(), audit.over_since("a1")),
                (1, Some(start)),
                "look {look}"
            );
        }
    }

    fn line(file: &Path, text: &str) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .expect("the file");
        file.write_all(text.as_bytes()).expect("written");
    }

    /// The test rotates each file as soon as it has a record, at any moment of a read.
    #[test]
    fn no_record_is_lost_that_is_written_just_before_the_file_is_rotated() {
        const FILES: u64 = 300;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let inode = || std::fs::metadata(&path).expect("the file").ino();
        // Counts records that were read. The test could miss one whose file is rotated twice
        // between two reads.
        let (is_read, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        line(&path, "");
        let mut audit = Audit::new(&path);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..FILES {
                    while is_read.load(Ordering::SeqCst) != inode() {
                        std::thread::yield_now();
                    }
                    line(&path, "{\"record\":\"x\"}\n");
                    std::fs::rename(&path, folder.path().join("audit.old")).expect("renamed");
                    line(&path, "");
                }
                is_over.store(true, Ordering::SeqCst);
            });
            while !is_over.load(Ordering::SeqCst) {
                audit.read_new(Instant::now()).expect("read");
                let inode = audit.reader.as_ref().map_or(0, |(_, (_, inode))| *inode);
                is_read.store(inode, Ordering::SeqCst);
            }
        });
        audit.read_new(Instant::now()).expect("read");
        assert_eq!(audit.records, FILES);
    }

    #[test]
    fn an_event_that_comes_back_is_open_again_whatever_its_status() {
        for change in ["scheduled", "started", "started-without-notice"] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("audit");
            let mut audit = Audit::new(&path);
            let record = |change| {
                format!("{{\"record\":\"change\",\"change\":\"{change}\",\"event_id\":\"e\"}}\n")
            };
            line(&path, &record("ended"));
            audit.read_new(Instant::now()).expect("read");
            assert!(audit.over_since("e").is_some());
            line(&path, &record(change));
            audit.read_new(Instant::now()).expect("read");
            assert!(
                audit.over_since("e").is_none() && audit.has_returned("e"),
                "{change}"
            );
        }
    }

    #[test]
    fn a_yes_after_the_last_call_leaves_the_machine_out_of_service() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let last_call = r#"{"record":"gate","event_id":"e","event_type":"Terminate","outcome":"last-call","mine":true}"#;
        line(&path, &format!("{last_call}\n"));
        let mut audit = Audit::new(&path);
        audit.read_new(Instant::now()).expect("read");
        assert!(
            audit.last_calls.is_empty() && audit.is_in_service(),
            "the preparation has not begun"
        );
        line(
            &path,
            "{\"record\":\"prepare\",\"event_id\":\"e\",\"outcome\":\"begun\"}\n",
        );
        audit.read_new(Instant::now()).expect("read");
        assert_eq!(audit.last_calls, ["e"]);
        audit.expect_preparation("e");
        assert!(audit.is_out_for("e") && audit.is_leaving() && !audit.is_in_service());
        // Another machine's event takes this machine neither out of service nor away.
        line(
            &path,
            &format!(
                "{}\n",
                last_call.replace("true", "false").replace("\"e\"", "\"o\"")
            ),
        );
        line(
            &path,
            "{\"record\":\"prepare\",\"event_id\":\"o\",\"outcome\":\"begun\"}\n",
        );
        line(
            &path,
            "{\"record\":\"recover\",\"event_id\":\"e\",\"event_ids\":[\"e\"],\"outcome\":\"done\"}\n",
        );
        audit.read_new(Instant::now()).expect("read");
        assert!(audit.last_calls.len() == 1 && !audit.is_leaving());
        // A preparation that it has recovered from no longer counts.
        audit.expect_preparation("e");
        assert!(!audit.is_out_for("e"));
    }

    #[test]
    fn what_may_have_been_lost_counts_until_a_recovery_is_recorded() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let started = r#"{"record":"change","change":"started","event_id":"e","mine":true}"#;
        let over = r#"{"record":"change","change":"completed","event_id":"e","mine":true}"#;
        let recovery = |outcome: &str, mine: bool| {
            format!(
                r#"{{"record":"recover","event_id":"e","event_ids":["e"],"outcome":{outcome:?},"mine":{mine}}}"#
            )
        };
        let read = |lines: &[&str]| {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("audit");
            line(&path, &format!("{}\n", lines.join("\n")));
            let mut audit = Audit::new(&path);
            audit.read_new(start).expect("read");
            audit
        };
        let audit = read(&[started, over]);
        assert_eq!(
            audit.in_service_since("e", after(909), RETURN_WITHIN),
            None,
            "it may have been prepared"
        );
        assert_eq!(
            audit.in_service_since("e", after(910), RETURN_WITHIN),
            Some(start)
        );
        // A machine can recover from an event without a preparation.
        let scheduled = started.replace("started", "scheduled");
        assert_eq!(
            read(&[&scheduled, started, over]).in_service_since("e", after(909), RETURN_WITHIN),
            None
        );
        assert_eq!(
            read(&[&scheduled, over]).in_service_since("e", after(10), RETURN_WITHIN),
            Some(start)
        );
        let of_another = started.replace("true", "false");
        assert_eq!(
            read(&[&scheduled, &of_another, over]).in_service_since("e", after(10), RETURN_WITHIN),
            Some(start)
        );
        for outcome in ["failed", "timed-out", "stopped", "cancelled"] {
            let failed = recovery(outcome, true);
            for lines in [vec![started, over, &failed], vec![&failed]] {
                let audit = read(&lines);
                assert!(!audit.is_in_service(), "{outcome}");
                assert_eq!(
                    audit.in_service_since("e", after(3600), RETURN_WITHIN),
                    None,
                    "{outcome}"
                );
            }
            let audit = read(&[started, over, &failed, &recovery("done", true)]);
            assert!(audit.is_in_service(), "{outcome}");
            assert_eq!(
                audit.in_service_since("e", start, RETURN_WITHIN),
                Some(start),
                "{outcome}"
            );
        }
        assert!(
            read(&[&recovery("failed", false)]).is_in_service(),
            "another machine's"
        );
        assert!(read(&[&recovery("dry-run", true)]).is_in_service());
        // This process allowed the preparation, so it would know of it.
        let mut audit = read(&[over]);
        audit.expect_preparation("e");
        assert_eq!(
            audit.in_service_since("e", after(10), RETURN_WITHIN),
            Some(start)
        );
    }

    #[test]
    fn a_preparation_that_has_begun_counts_until_a_recovery_is_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let start = Instant::now();
        let later = start + Duration::from_secs(3600);
        line(
            &path,
            "{\"record\":\"prepare\",\"event_id\":\"e\",\"outcome\":\"begun\"}\n",
        );
        // The watcher is killed, and starts again after the event.
        line(
            &path,
            "{\"record\":\"change\",\"change\":\"ended\",\"event_id\":\"e\"}\n",
        );
        let mut audit = Audit::new(&path);
        audit.read_new(start).expect("read");
        assert_eq!(audit.in_service_since("e", later, RETURN_WITHIN), None);
        assert!(!audit.is_in_service() && audit.is_out_for("e"));
        line(
            &path,
            "{\"record\":\"recover\",\"event_id\":\"e\",\"event_ids\":[\"e\"],\"outcome\":\"done\"}\n",
        );
        audit.read_new(later).expect("read");
        assert_eq!(
            audit.in_service_since("e", later, RETURN_WITHIN),
            Some(later)
        );
        assert!(audit.is_in_service() && !audit.is_out_for("e"));
    }

    #[test]
    fn an_event_is_over_once_the_machine_has_recovered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let mut audit = Audit::new(&path);
        let start = Instant::now();
        audit.read_new(start).expect("no file is no error");
        assert!(!audit.exists());
        line(
            &path,
            "{\"record\":\"change\",\"change\":\"scheduled\",\"event_id\":\"A1\",\"mine\":true}\nnot a record\n",
        );
        line(
            &path,
            "{\"record\":\"prepare\",\"event_id\":\"A1\",\"outcome\":\"ready\"}\n",
        );
        audit.read_new(start).expect("read");
        assert_eq!(audit.over_since("a1"), None);
        // The reader keeps half a line until the rest arrives.
        line(&path, "{\"record\":\"change\",\"change\":\"comp");
        audit.read_new(start).expect("read");
        line(&path, "leted\",\"event_id\":\"A1\"}\n");
        audit.read_new(start).expect("read");
        assert_eq!(audit.over_since("a1"), Some(start));
        let later = start + Duration::from_secs(3600);
        assert_eq!(
            audit.in_service_since("a1", later, RETURN_WITHIN),
            None,
            "it was prepared, and has not recovered"
        );
        // The file is rotated before the daemon has read all of it.
        for change in ["scheduled", "completed"] {
            line(
                &path,
                &format!("{{\"record\":\"change\",\"change\":\"{change}\",\"event_id\":\"b\"}}\n"),
            );
        }
        std::fs::rename(&path, folder.path().join("audit.1")).expect("renamed");
        line(
            &path,
            "{\"record\":\"recover\",\"event_id\":\"A1\",\"event_ids\":[\"A1\"],\"outcome\":\"done\"}\n",
        );
        audit.read_new(later).expect("read");
        assert_eq!(
            audit.in_service_since("a1", later, RETURN_WITHIN),
            Some(later)
        );
        assert_eq!(audit.over_since("b"), Some(later));
        assert_eq!(
            audit.in_service_since("b", later, RETURN_WITHIN),
            None,
            "the record of a preparation could follow"
        );
        assert!(
            audit
                .in_service_since("b", later + Duration::from_secs(10), RETURN_WITHIN)
                .is_some()
        );
        // A process that starts later reads all files.
        let mut second = Audit::new(&path);
        second.read_new(later).expect("read");
        assert_eq!(
            second.in_service_since("a1", later, RETURN_WITHIN),
            Some(later)
        );
    }
}
