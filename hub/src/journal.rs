//! The audit file of all machines, and the log.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use scheduled_events::audit::Audit;
use scheduled_events::record::{EventRecord, Record, TimedRecord};
use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::EventMembers;
use scheduled_events_fleet::log;
use serde::Serialize;
use tokio::sync::oneshot;

/// Keeps every record.
pub struct Journal {
    audit: Arc<Audit>,
    /// Who waits for a sync that has not begun.
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
    is_syncing: Cell<bool>,
}

/// A record of one machine.
#[derive(Serialize)]
struct OfMachine<'a> {
    #[serde(flatten)]
    record: &'a TimedRecord<'a>,
    resource_id: &'a str,
}

/// A message that cannot be read.
#[derive(Serialize)]
struct SetAside<'a> {
    record: &'static str,
    why: &'a str,
    content: &'a str,
    time: UnixSeconds,
}

/// So much of a message that cannot be read is kept.
const CONTENT_MAX: usize = 4096;

impl Journal {
    /// Opens the audit file.
    ///
    /// # Errors
    /// A sentence about the file.
    pub fn open(path: &Path) -> Result<Self, String> {
        let audit = Audit::open(path, |note| log::printable(&format!("{}: {note}", note.severity().word())))?;
        Ok(Self { audit: Arc::new(audit), waiting: RefCell::default(), is_syncing: Cell::default() })
    }

    /// Keeps a record of a machine.
    pub fn record(&self, resource_id: &str, record: Record<'_>, time: UnixSeconds) {
        let record = record.at(time);
        self.audit.record_as(&OfMachine { record: &record, resource_id }, time);
    }

    /// Keeps a record about an event of a machine.
    pub fn event(
        &self,
        resource_id: &str,
        event: &EventRecord,
        record: impl for<'a> FnOnce(EventMembers<'a>) -> Record<'a>,
        time: UnixSeconds,
    ) {
        let names = event.resource_names();
        self.record(resource_id, record(event.members(names.as_deref())), time);
    }

    /// Keeps a message that cannot be read, or the start of a long one.
    pub fn set_aside(&self, why: &str, content: &[u8], time: UnixSeconds) {
        let content = String::from_utf8_lossy(&content[..content.len().min(CONTENT_MAX)]);
        self.audit.record_as(&SetAside { record: "set-aside", why, content: &content, time }, time);
    }

    /// Waits until all records so far are on disk, or for two seconds if the disk hangs. All that wait share one sync.
    pub async fn sync(self: &Rc<Self>) {
        let (sender, synced) = oneshot::channel();
        self.waiting.borrow_mut().push(sender);
        if !self.is_syncing.replace(true) {
            let journal = self.clone();
            // A task of its own: who waits may be given up.
            tokio::task::spawn_local(async move {
                loop {
                    let waiting = journal.waiting.take();
                    if waiting.is_empty() {
                        break;
                    }
                    let audit = journal.audit.clone();
                    // A thread that panics leaves nothing to wait for.
                    let _ = tokio::task::spawn_blocking(move || audit.sync_unless_stalled()).await;
                    // Dropping a sender says so.
                    drop(waiting);
                }
                journal.is_syncing.set(false);
            });
        }
        let _ = synced.await;
    }

    /// How many records the file lacks.
    pub fn lost(&self) -> u64 {
        self.audit.lost()
    }

    /// Writes what is left.
    pub fn finish(&self) {
        self.audit.finish();
    }
}
