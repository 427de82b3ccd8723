//! Reads the watcher's audit file into the [history](crate::history).
//!
//! The daemon reads the file from the beginning, rotated files included, so a restarted daemon
//! knows as much as before. It skips lines that are not records about events.

use std::io;
use std::path::Path;

use scheduled_events::audit::AuditReader;
use scheduled_events::record::ReadRecord;
use tokio::time::Instant;

use crate::history::History;

/// The audit file, as far as it was read.
#[derive(Debug)]
pub(super) struct AuditFile {
    reader: AuditReader,
}

impl AuditFile {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            reader: AuditReader::new(path).refuse_links(),
        }
    }

    /// Applies the records that were appended since the last call.
    pub(super) fn read_new(&mut self, history: &mut History, now: Instant) -> io::Result<()> {
        if !self.reader.has_read_earlier() {
            // After a failure, reading starts again from the beginning.
            history.begin_again();
        }
        self.reader.read_new(&mut |line| {
            if let Some(record) = ReadRecord::from_line(line) {
                record.with(|record| history.apply(record, now));
            }
        })?;
        history.end_past();
        Ok(())
    }

    /// Whether there is a file.
    pub(super) fn exists(&self) -> bool {
        self.reader.has_file()
    }
}

/// A file with the history in it, for tests.
#[cfg(test)]
pub(super) mod testing {
    use std::ops::{Deref, DerefMut};

    use super::*;

    pub(in super::super) struct Audit {
        pub(super) file: AuditFile,
        history: History,
    }

    impl Audit {
        pub(in super::super) fn new(path: &Path) -> Self {
            let (file, history) = (AuditFile::new(path), History::default());
            Self { file, history }
        }

        pub(in super::super) fn read_new(&mut self, now: Instant) -> io::Result<()> {
            self.file.read_new(&mut self.history, now)
        }
    }

    impl Deref for Audit {
        type Target = History;

        fn deref(&self) -> &History {
            &self.history
        }
    }

    impl DerefMut for Audit {
        fn deref_mut(&mut self) -> &mut History {
            &mut self.history
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use std::time::Duration;

    use super::testing::Audit;
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
        assert!(!audit.file.exists());
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
