//! The audit file of all machines, and the log.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use scheduled_events::audit::{Audit, AuditError};
use scheduled_events::record::{Record, TimedRecord};
use scheduled_events_common::log;
use scheduled_events_core::UnixSeconds;
use serde::Serialize;
use tokio::sync::oneshot;

/// Writes every record.
pub struct Journal {
    audit: Arc<Audit>,
    /// The callers that wait for a sync that has not begun.
    waiting: RefCell<Vec<oneshot::Sender<bool>>>,
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

/// How much of a message that cannot be read is kept.
const CONTENT_MAX: usize = 4096;

impl Journal {
    /// Opens the audit file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn open(path: &Path) -> Result<Self, AuditError> {
        let audit = Audit::open(path, |note| {
            log::printable(&format!("{}: {note}", note.severity().word()));
        })?;
        Ok(Self {
            audit: Arc::new(audit),
            waiting: RefCell::default(),
            is_syncing: Cell::default(),
        })
    }

    /// Writes a record of a machine.
    pub fn record(&self, resource_id: &str, record: Record<'_>, time: UnixSeconds) {
        self.audit.record_as(
            &OfMachine {
                record: &record.at(time),
                resource_id,
            },
            time,
        );
    }

    /// Writes a record of a message that cannot be read, with its content or the start of a long
    /// one.
    pub fn set_aside(&self, why: &str, content: &[u8], time: UnixSeconds) {
        let content = String::from_utf8_lossy(&content[..content.len().min(CONTENT_MAX)]);
        self.audit.record_as(
            &SetAside {
                record: "set-aside",
                why,
                content: &content,
                time,
            },
            time,
        );
    }

    /// Waits until all records so far are on disk, or for two seconds if the disk hangs. All
    /// callers that wait share one sync. Returns whether the records are on disk.
    pub async fn sync(self: &Rc<Self>) -> bool {
        let (sender, synced) = oneshot::channel();
        self.waiting.borrow_mut().push(sender);
        if !self.is_syncing.replace(true) {
            let journal = self.clone();
            // A task of its own: the caller that waits may be dropped.
            tokio::task::spawn_local(async move {
                loop {
                    let waiting = journal.waiting.take();
                    if waiting.is_empty() {
                        break;
                    }
                    let audit = journal.audit.clone();
                    // A thread that panics leaves nothing to wait for.
                    let synced =
                        tokio::task::spawn_blocking(move || audit.sync_unless_stalled()).await;
                    let synced = synced.unwrap_or_default();
                    for waiting in waiting {
                        let _ = waiting.send(synced);
                    }
                }
                journal.is_syncing.set(false);
            });
        }
        synced.await.unwrap_or_default()
    }

    /// Waits until there is capacity for another record, which is so unless many machines have an
    /// event at the same time. If the file cannot be written, nothing waits for it.
    pub async fn capacity(self: &Rc<Self>) {
        while self.audit.is_half_full() && self.sync().await {}
    }

    /// How many records are missing in the file.
    pub fn lost(&self) -> u64 {
        self.audit.lost()
    }

    /// Writes the remaining records.
    pub fn finish(&self) {
        self.audit.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_machines_at_a_time_fit() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = scheduled_events_common::program::block_on(async {
            let journal =
                Rc::new(Journal::open(&folder.path().join("audit")).expect("an audit file"));
            // As many names as an event of a large scale set has.
            let resource_id = "x".repeat(200_000);
            let machine = async |_| {
                for _ in 0..3 {
                    journal.capacity().await;
                    assert!(!journal.audit.is_half_full());
                    journal.record(
                        &resource_id,
                        Record::Gap {
                            lost: 1,
                            since: UnixSeconds(0),
                        },
                        UnixSeconds(0),
                    );
                }
            };
            tokio::join!(
                machine(0),
                machine(1),
                machine(2),
                machine(3),
                machine(4),
                machine(5),
                machine(6),
                machine(7)
            );
            journal.lost()
        });
        assert_eq!(
            done.unwrap_or_else(|failure| panic!("{}", failure.message)),
            0
        );
    }
}
