//! The audit file: every record of a watcher, with a number that shows whether any is missing.
//!
//! A thread writes it, so the watcher never waits for the disk, except before a preparation and an approval: [`Audit::sync`] waits
//! until all records so far are durable, or for [`AUDIT_WAIT`]. Records wait in a bounded queue while they cannot be written. Those beyond it are lost
//! and counted in a `gap` record, in their place among the others. Numbers have no gaps: they count the lines of the file.

// `file` appends and rotates, `reader` reads, `error` says why a file cannot be used; this file has the queue and the thread.

mod error;
mod file;
#[cfg(unix)]
mod reader;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scheduled_events_core::UnixSeconds;
use serde::Serialize;

use crate::failure_log::FailureLog;
use crate::limits::{AUDIT_FILES_MAX, AUDIT_QUEUE_MAX, AUDIT_RETRY, AUDIT_WAIT};
use crate::record::{Record, TimedRecord, write_json};
use crate::watch::Note;

pub use error::AuditError;

use file::AuditFile;
#[cfg(unix)]
pub use reader::{AuditLines, AuditReader};

/// How often starting the thread is tried while somebody waits for it.
const THREAD_RETRY: Duration = Duration::from_millis(50);

/// The names of the files before the audit file at `path`, the oldest first: `FILE.4` to `FILE.1`. Not all need exist.
///
/// ```
/// use std::path::Path;
///
/// let files: Vec<_> = scheduled_events::audit::earlier_files(Path::new("/var/log/audit")).collect();
/// assert_eq!(files.last().map(|file| file.as_path()), Some(Path::new("/var/log/audit.1")));
/// ```
pub fn earlier_files(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> + use<> {
    let name = path.as_os_str().to_owned();
    (1..=AUDIT_FILES_MAX).rev().map(move |number| {
        let mut name = name.clone();
        name.push(format!(".{number}"));
        name.into()
    })
}

/// Writes the records of a watcher to the audit file.
///
/// ```
/// use scheduled_events::audit::Audit;
/// use scheduled_events::record::Record;
/// use scheduled_events_core::UnixSeconds;
///
/// # let folder = std::env::temp_dir().join(format!("audit-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("audit");
/// let audit = Audit::open(&path, |note| eprintln!("{note:?}"))?;
/// let record = Record::Approval { event_ids: &["a"], status: Some(200), events: &[] };
/// audit.record(&record.at(UnixSeconds(0)));
/// audit.sync(); // the record is on the disk, or could not be written
/// audit.sync_unless_stalled(); // the same, but many callers together wait once
/// assert!(audit.lost() == 0 && !audit.is_half_full());
/// audit.finish();
/// let line = std::fs::read_to_string(&path)?;
/// assert!(line.starts_with(r#"{"record":"approval","event_ids":["a"]"#));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Audit {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// How many records were durable when a wait for more was in vain.
    stalled_at: Mutex<Option<u64>>,
    #[cfg(test)]
    refuse_thread: std::sync::atomic::AtomicBool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    file: Mutex<AuditFile>,
    /// Reports to the log.
    report: Box<dyn Fn(&Note) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The bytes of the records in the queue, including the one that is being written.
    bytes: usize,
    /// The number of items so far, of those that are written, and of those that are durable.
    added: u64,
    written: u64,
    durable: u64,
    /// The number of items that somebody needs to be durable, and how often that was requested.
    needed: u64,
    requests: u64,
    /// The number of failed attempts to write.
    failures: u64,
    /// The number of records that did not fit.
    lost: u64,
    ended: bool,
}

/// What is written as one line.
enum Item {
    Record(String),
    /// Records that did not fit into the queue.
    Gap {
        lost: u64,
        since: UnixSeconds,
        until: UnixSeconds,
        /// Whose records they are, with the id of the machine.
        machine: Option<String>,
        vm_id: Option<String>,
    },
}

impl Item {
    fn line(&self) -> String {
        match self {
            Self::Record(line) => line.clone(),
            Self::Gap {
                lost,
                since,
                until,
                machine,
                vm_id,
            } => line(
                &Record::Gap {
                    lost: *lost,
                    since: *since,
                }
                .at(*until)
                .of_machine(machine.as_deref(), vm_id.as_deref()),
            ),
        }
    }

    fn bytes(&self) -> usize {
        if let Self::Record(line) = self {
            line.len()
        } else {
            0
        }
    }

    fn lost(&self) -> u64 {
        if let Self::Gap { lost, .. } = self {
            *lost
        } else {
            0
        }
    }
}

impl Audit {
    /// Opens the audit file at `path` and starts the thread that writes it, or does that later if the system refuses a thread.
    /// `report` is called by both threads.
    ///
    /// # Errors
    /// [`AuditError`]. The rules are those of a state file.
    pub fn open(
        path: &Path,
        report: impl Fn(&Note) + Send + Sync + 'static,
    ) -> Result<Self, AuditError> {
        Self::open_as("audit file", path, report)
    }

    /// The same for a file with lines of another kind, such as a capture. `what` is what it is, for messages.
    ///
    /// # Errors
    /// [`AuditError`]. The rules are those of a state file.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use scheduled_events::audit::Audit;
    ///
    /// let refused = Audit::open_as("capture", Path::new("/no/such/folder/x"), |_| {}).map(|_| ());
    /// let message = refused.unwrap_err().to_string();
    /// assert!(message.starts_with("cannot use the capture /no/such/folder/x: "));
    /// ```
    pub fn open_as(
        what: &'static str,
        path: &Path,
        report: impl Fn(&Note) + Send + Sync + 'static,
    ) -> Result<Self, AuditError> {
        let file = Mutex::new(AuditFile::open_as(what, path)?);
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared {
            queue,
            changed,
            file,
            report: Box::new(report),
        });
        let audit = Self {
            shared,
            writer: Mutex::default(),
            stalled_at: Mutex::default(),
            #[cfg(test)]
            refuse_thread: false.into(),
        };
        audit.start_writer();
        Ok(audit)
    }

    /// Adds a record to the file soon. Does not wait.
    pub fn record(&self, record: &TimedRecord<'_>) {
        self.add(record, record.time, (record.machine, record.vm_id));
    }

    /// The same for a record that has more members than those of core, or another definition. Its first member is `record`.
    ///
    /// ```
    /// use scheduled_events::audit::Audit;
    /// use scheduled_events::record::{Record, TimedRecord};
    /// use scheduled_events_core::UnixSeconds;
    ///
    /// #[derive(serde::Serialize)]
    /// struct OfMachine<'a> {
    ///     #[serde(flatten)]
    ///     record: &'a TimedRecord<'a>,
    ///     machine: &'a str,
    /// }
    ///
    /// # let folder = std::env::temp_dir().join(format!("audit-as-example-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("audit");
    /// let audit = Audit::open(&path, |note| eprintln!("{note:?}"))?;
    /// let record = Record::Approval { event_ids: &["a"], status: Some(200), events: &[] };
    /// let record = record.at(UnixSeconds(0));
    /// audit.record_as(&OfMachine { record: &record, machine: "web_0" }, record.time);
    /// audit.finish();
    /// let line = std::fs::read_to_string(&path)?;
    /// assert!(line.contains(r#""machine":"web_0""#));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_as(&self, record: &impl Serialize, time: UnixSeconds) {
        self.add(record, time, (None, None));
    }

    fn add(
        &self,
        record: &impl Serialize,
        time: UnixSeconds,
        (machine, vm_id): (Option<&str>, Option<&str>),
    ) {
        self.start_writer();
        let line = line(record);
        let mut queue = self.shared.queue();
        let bytes = queue.bytes.saturating_add(line.len());
        queue.lost += u64::from(bytes > AUDIT_QUEUE_MAX);
        if bytes <= AUDIT_QUEUE_MAX {
            queue.bytes = bytes;
            queue.push(Item::Record(line));
        } else if let Some(Item::Gap { lost, until, .. }) = queue.items.back_mut() {
            *lost = lost.saturating_add(1);
            *until = time;
        } else {
            queue.push(Item::Gap {
                lost: 1,
                since: time,
                until: time,
                machine: machine.map(str::to_owned),
                vm_id: vm_id.map(str::to_owned),
            });
        }
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Whether half of the records that may wait do so. A program that adds many at a time calls [`sync`](Self::sync) then, so that none
    /// is lost because others are being synced.
    pub fn is_half_full(&self) -> bool {
        self.shared.queue().bytes > AUDIT_QUEUE_MAX / 2
    }

    /// The number of records that the file lacks, or will lack.
    pub fn lost(&self) -> u64 {
        self.shared.queue().lost
    }

    /// Waits until all records so far are durable: until they cannot be written, or for [`AUDIT_WAIT`] at most. Returns whether they are.
    pub fn sync(&self) -> bool {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + AUDIT_WAIT;
        let mut queue = shared.queue();
        let (needed, failures) = (queue.added, queue.failures);
        queue.needed = needed;
        queue.requests += 1;
        shared.changed.notify_all();
        while queue.durable < needed && queue.failures == failures {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *lock(&self.stalled_at) = Some(queue.durable);
                drop(queue);
                (shared.report)(&Note::AuditNotSynced);
                return false;
            }
            let started = self.start_writer();
            let wait = if started {
                left
            } else {
                left.min(THREAD_RETRY)
            };
            queue = shared
                .changed
                .wait_timeout(queue, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        queue.durable >= needed
    }

    /// The same, but returns at once while the disk hangs: if nothing has become durable since a wait was in vain. Many preparations
    /// that begin together wait once.
    pub fn sync_unless_stalled(&self) -> bool {
        let durable = self.shared.queue().durable;
        let is_stalled = *lock(&self.stalled_at) == Some(durable);
        !is_stalled && self.sync()
    }

    /// Writes what is left, as [`sync`](Self::sync) does, and reports what cannot be written: how many records, which it also returns.
    pub fn finish(&self) -> u64 {
        self.sync();
        let mut queue = self.shared.queue();
        queue.ended = true;
        let lost = |item: &Item| item.lost().max(1);
        let lost: u64 = queue.items.iter().map(lost).sum();
        drop(queue);
        self.shared.changed.notify_all();
        if lost > 0 {
            (self.shared.report)(&Note::AuditGap { lost });
        }
        lost
    }

    /// Starts the thread unless it runs. Returns whether it does.
    fn start_writer(&self) -> bool {
        let mut writer = lock(&self.writer);
        if writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
            return true;
        }
        #[cfg(test)]
        if self.refuse_thread.load(std::sync::atomic::Ordering::SeqCst) {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        *writer = thread::Builder::new()
            .spawn(move || shared.write_queue())
            .ok();
        writer.is_some()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn push(&mut self, item: Item) {
        self.items.push_back(item);
        self.added += 1;
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Writes what comes through the queue.
    fn write_queue(&self) {
        let mut file = lock(&self.file);
        let mut failures = FailureLog::default();
        let mut queue = self.queue();
        loop {
            let result = if let Some(item) = queue.items.pop_front() {
                drop(queue);
                let result = file.append(&item.line());
                if result.is_ok() && item.lost() > 0 {
                    (self.report)(&Note::AuditGap { lost: item.lost() });
                }
                queue = self.queue();
                if result.is_ok() {
                    queue.bytes -= item.bytes();
                    queue.written += 1;
                } else {
                    queue.items.push_front(item);
                }
                result
            } else if queue.durable < queue.needed {
                let written = queue.written;
                drop(queue);
                let result = file.sync();
                queue = self.queue();
                if result.is_ok() {
                    queue.durable = written;
                    self.changed.notify_all();
                }
                result
            } else if queue.ended {
                return;
            } else {
                queue = self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.failures += u64::from(result.is_err());
            let requests = queue.requests;
            self.changed.notify_all();
            drop(queue);
            let failed = result.is_err();
            match result.map_err(|error| format!("{}: {error}", file.path().display())) {
                Ok(()) if failures.succeeded() => (self.report)(&Note::AuditResumed),
                Err(reason) if failures.reports(&reason) => {
                    (self.report)(&Note::AuditNotWritten(reason));
                }
                _ => {}
            }
            queue = self.queue();
            if !failed {
                continue;
            }
            let is_waiting = |queue: &mut Queue| queue.requests == requests && !queue.ended;
            let waited = self
                .changed
                .wait_timeout_while(queue, AUDIT_RETRY, is_waiting);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            // What is left was reported as lost.
            if queue.ended {
                return;
            }
        }
    }
}

fn line(record: &impl Serialize) -> String {
    let mut line = Vec::new();
    // Writing to memory does not fail.
    let _ = write_json(record, &mut line);
    String::from_utf8(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::{self, Receiver};

    use serde_json::Value;

    use super::*;

    const TIME: UnixSeconds = UnixSeconds(1_600_000_000);

    fn open(name: &str) -> (PathBuf, Audit, Receiver<Note>) {
        let folder = std::env::temp_dir().join(format!(
            "scheduled-events-audit-{name}-{}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit");
        let (sender, notes) = mpsc::channel();
        let audit = Audit::open(&path, move |note| drop(sender.send(note.clone()))).unwrap();
        (path, audit, notes)
    }

    fn add(audit: &Audit, number: usize, name: &str) {
        let time = UnixSeconds(TIME.0 + i64::try_from(number).unwrap());
        audit.record(
            &Record::Scenario {
                name,
                about: &number.to_string(),
            }
            .at(time),
        );
    }

    /// Syncs as often as a slow disk needs.
    fn flush(audit: &Audit) {
        let is_durable = |audit: &Audit| {
            let queue = audit.shared.queue();
            queue.durable == queue.added
        };
        while !is_durable(audit) {
            audit.sync();
        }
    }

    /// The next note that does not depend on the speed of the disk.
    fn next(notes: &Receiver<Note>) -> Note {
        notes
            .iter()
            .find(|note| *note != Note::AuditNotSynced)
            .unwrap()
    }

    /// Windows removes no folder with open files.
    fn close(audit: Audit) {
        audit.finish();
        if let Some(writer) = lock(&audit.writer).take() {
            writer.join().unwrap();
        }
        // Windows removes no file that is open.
        drop(audit);
    }

    fn read(path: &Path) -> Vec<Value> {
        fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn after_a_sync_all_records_are_in_the_file() {
        let (path, audit, _) = open("sync");
        audit.sync();
        for number in 0..100 {
            add(&audit, number, "x");
            if number % 10 == 9 {
                flush(&audit);
                assert_eq!(read(&path).len(), number + 1);
            }
        }
        for (line, number) in read(&path).iter().zip(0..) {
            assert_eq!(
                (&line["about"], &line["sequence"]),
                (&number.to_string().into(), &(number + 1).into())
            );
        }
        close(audit);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_a_gap_in_its_place() {
        let (path, audit, notes) = open("gap");
        let text = "x".repeat(AUDIT_QUEUE_MAX / 4);
        let file = Arc::clone(&audit.shared);
        // The thread needs the file, and has it while it runs.
        audit.finish();
        lock(&audit.writer).take().unwrap().join().unwrap();
        audit.shared.queue().ended = false;
        audit.refuse_thread.store(true, SeqCst);
        for number in 0..6 {
            add(&audit, number, &text);
        }
        add(&audit, 6, "small");
        add(&audit, 7, &text);
        assert!(file.file.try_lock().is_ok());
        audit.refuse_thread.store(false, SeqCst);
        flush(&audit);
        add(&audit, 8, "later");
        flush(&audit);
        let found = read(&path);
        let kinds: Vec<_> = found
            .iter()
            .map(|line| line["record"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "scenario", "scenario", "scenario", "gap", "scenario", "gap", "scenario"
            ]
        );
        let gap = &found[3];
        assert_eq!(
            (&gap["lost"], &gap["since"]),
            (&3.into(), &"2020-09-13T12:26:43Z".into())
        );
        assert_eq!(
            (&gap["time"], &gap["sequence"]),
            (&"2020-09-13T12:26:45Z".into(), &4.into())
        );
        assert_eq!(
            (&found[4]["name"], &found[5]["lost"], &found[6]["name"]),
            (&"small".into(), &1.into(), &"later".into())
        );
        let gaps = [Note::AuditGap { lost: 3 }, Note::AuditGap { lost: 1 }];
        assert_eq!([next(&notes), next(&notes)], gaps);
        drop(file);
        close(audit);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_sync_waits_a_bounded_time_for_a_slow_disk_or_a_refused_thread() {
        let (path, audit, notes) = open("slow");
        audit.finish();
        lock(&audit.writer).take().unwrap().join().unwrap();
        audit.shared.queue().ended = false;
        audit.refuse_thread.store(true, SeqCst);
        add(&audit, 0, "x");
        let started = Instant::now();
        audit.sync();
        assert!(started.elapsed() >= AUDIT_WAIT);
        assert_eq!(notes.try_recv(), Ok(Note::AuditNotSynced));
        // Others that only need to be in the file do not wait again.
        add(&audit, 2, "x");
        let started = Instant::now();
        audit.sync_unless_stalled();
        assert!(started.elapsed() < AUDIT_WAIT && notes.try_recv().is_err());
        // Once there is a thread, nothing is lost.
        audit.refuse_thread.store(false, SeqCst);
        add(&audit, 1, "x");
        flush(&audit);
        assert_eq!(read(&path).len(), 3);
        close(audit);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_failed_write_is_repeated_and_a_sync_does_not_wait_for_it() {
        let (path, audit, notes) = open("fails");
        let link = path.with_extension("link");
        fs::rename(&path, &link).unwrap();
        std::os::unix::fs::symlink(&link, &path).unwrap();
        add(&audit, 0, "x");
        audit.sync();
        assert!(matches!(next(&notes), Note::AuditNotWritten(_)));
        fs::remove_file(&path).unwrap();
        flush(&audit);
        assert_eq!(read(&path).len(), 1);
        assert_eq!(next(&notes), Note::AuditResumed);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&link, &path).unwrap();
        add(&audit, 1, "x");
        audit.finish();
        let left: Vec<_> = (0..2).map(|_| next(&notes)).collect();
        assert!(left.contains(&Note::AuditGap { lost: 1 }), "{left:?}");
        lock(&audit.writer).take().unwrap().join().unwrap();
        assert!(fs::read(&link).unwrap().is_empty());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
