//! Imitates the watcher's audit file. Held by `client/src/audit/file.rs`: each line ends with its
//! number; the file is synced and renamed to `FILE.1`, after that one to `FILE.2`, and so on to
//! `FILE.4`, before a line that would exceed its size; a crash's unfinished line gets a line feed.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The writer.
pub(crate) struct AuditFile {
    pub(crate) path: PathBuf,
    file: File,
    pub(crate) sequence: u64,
    /// The size at which it is rotated.
    pub(crate) size_max: u64,
}

impl AuditFile {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        Self {
            path: path.to_owned(),
            file,
            sequence: 0,
            size_max: 8 << 20,
        }
    }

    /// Appends a record.
    pub(crate) fn append(&mut self, record: &Value) {
        self.sequence += 1;
        let object = record.to_string();
        let line = format!(
            "{},\"sequence\":{}}}\n",
            object.strip_suffix('}').unwrap(),
            self.sequence
        );
        let length = self.file.metadata().unwrap().len();
        if length > 0 && length + line.len() as u64 > self.size_max {
            self.rotate();
        }
        self.file.write_all(line.as_bytes()).unwrap();
    }

    /// Appends the start of a line, as a crash leaves it, and the line feed that the next start of
    /// the watcher writes after it.
    pub(crate) fn append_torn(&mut self) {
        self.file
            .write_all(b"{\"record\":\"change\",\"chan")
            .unwrap();
        self.file.write_all(b"\n").unwrap();
    }

    pub(crate) fn rotate(&mut self) {
        self.file.sync_data().unwrap();
        let numbered = |number: u32| match number {
            0 => self.path.clone(),
            number => PathBuf::from(format!("{}.{number}", self.path.display())),
        };
        let mut free = 1;
        while free < 4 && numbered(free).exists() {
            free += 1;
        }
        for number in (0..free).rev() {
            fs::rename(numbered(number), numbered(number + 1)).unwrap();
        }
        self.file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)
            .unwrap();
    }

    pub(crate) fn truncate(&mut self) {
        self.file.set_len(0).unwrap();
    }
}

/// A record of a change, with an event of this machine.
pub(crate) fn change(change: &str, number: usize) -> Value {
    json!({
        "record": "change", "change": change,
        "event_id": format!("00000000-0000-4000-8000-{number:012x}"),
        "event_type": "Reboot", "event_status": "Scheduled", "resource_type": "VirtualMachine",
        "resources": ["WestNO_0"], "not_before": "2026-11-22T22:26:58Z",
        "description": "Virtual machine is going to be restarted as requested by authorized user.",
        "event_source": "User", "duration_in_seconds": -1, "mine": true, "time": "2026-11-22T22:20:59Z",
    })
}
