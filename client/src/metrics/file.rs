//! The metrics file: replaced as a whole, at most once a second, by a thread of its own.
//!
//! The watcher never waits for the disk: it hands over the newest text, which takes the place of one that is not written yet.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure_log::FailureLog;
use crate::files::{PathError, folder_of, replace_readable};
use crate::limits::{EXIT_METRICS_WAIT, METRICS_INTERVAL};
use crate::watch::Note;

/// Writes texts to a metrics file.
///
/// ```
/// use scheduled_events::metrics::{Metrics, MetricsFile};
///
/// # let folder = std::env::temp_dir().join(format!("metrics-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("scheduled_events.prom");
/// let mut file = MetricsFile::new(&path, |note| eprintln!("{note:?}"))?;
/// file.start_writer()?;
/// assert!(file.wait().is_zero()); // nothing was written in the last second
/// file.write(Metrics::new().text());
/// file.finish(Metrics::new().text());
/// assert!(std::fs::read_to_string(&path)?.starts_with("# HELP "));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MetricsFile {
    shared: Arc<Shared>,
    written: Option<Instant>,
}

struct Shared {
    path: PathBuf,
    slot: Mutex<Slot>,
    changed: Condvar,
    /// Reports to the log.
    report: Box<dyn Fn(&Note) + Send + Sync>,
}

/// Why there can be no metrics file at a path.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::error::PathError;
/// use scheduled_events::metrics::MetricsFile;
///
/// let refused = MetricsFile::new(Path::new("/no/such/folder/events.prom"), |_| {});
/// assert!(refused.is_err_and(|refused| matches!(refused.error, PathError::FolderMissing { .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct MetricsFileError {
    /// The path.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: PathError,
}

impl fmt::Display for MetricsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, error } = self;
        write!(f, "cannot use the metrics file {}: {error}", path.display())
    }
}

impl std::error::Error for MetricsFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// What the thread is to do.
#[derive(Default)]
struct Slot {
    /// The newest text, until it is written.
    text: Option<String>,
    /// Whether the thread writes or has failed to write a text.
    is_busy: bool,
    ended: bool,
}

impl MetricsFile {
    /// A metrics file at `path`. `report` is called by the thread that writes.
    ///
    /// # Errors
    /// [`MetricsFileError`]: its folder does not exist, or the path is a link or no regular file.
    pub fn new(
        path: &Path,
        report: impl Fn(&Note) + Send + Sync + 'static,
    ) -> Result<Self, MetricsFileError> {
        check(path).map_err(|error| MetricsFileError {
            path: path.to_owned(),
            error,
        })?;
        let shared = Shared {
            path: path.to_owned(),
            slot: Mutex::default(),
            changed: Condvar::new(),
            report: Box::new(report),
        };
        Ok(Self {
            shared: Arc::new(shared),
            written: None,
        })
    }

    /// Starts the thread that writes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start_writer(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .spawn(move || shared.write_texts())
            .map(drop)
    }

    /// How long until the file may be written again; zero if it may be now.
    pub fn wait(&self) -> Duration {
        self.written.map_or(Duration::ZERO, |at| {
            METRICS_INTERVAL.saturating_sub(at.elapsed())
        })
    }

    /// Writes the text soon. Does not wait.
    pub fn write(&mut self, text: String) {
        self.written = Some(Instant::now());
        self.shared.slot().text = Some(text);
        self.shared.changed.notify_all();
    }

    /// Writes a last text, and waits for that, but not for long.
    pub fn finish(&mut self, text: String) {
        self.write(text);
        let mut slot = self.shared.slot();
        slot.ended = true;
        let is_open = |slot: &mut Slot| slot.text.is_some() || slot.is_busy;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(slot, EXIT_METRICS_WAIT, is_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_texts(&self) {
        let mut failures = FailureLog::default();
        let mut slot = self.slot();
        loop {
            let Some(text) = slot.text.take() else {
                slot.is_busy = false;
                self.changed.notify_all();
                if slot.ended {
                    return;
                }
                slot = self
                    .changed
                    .wait(slot)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            slot.is_busy = true;
            drop(slot);
            let result = replace_readable(&self.path, text.as_bytes());
            let failed = result.is_err();
            match result.map_err(|error| format!("{}: {error}", self.path.display())) {
                Ok(()) if failures.succeeded() => (self.report)(&Note::MetricsResumed),
                Err(reason) if failures.reports(&reason) => {
                    (self.report)(&Note::MetricsNotWritten(reason));
                }
                _ => {}
            }
            slot = self.slot();
            if failed && !slot.ended {
                // Repeated with this text, unless there is another one by then.
                let is_waiting = |slot: &mut Slot| !slot.ended;
                let waited = self
                    .changed
                    .wait_timeout_while(slot, METRICS_INTERVAL, is_waiting);
                slot = waited.unwrap_or_else(PoisonError::into_inner).0;
                slot.text.get_or_insert(text);
            }
        }
    }
}

/// Checks what will not change by itself, for an error that helps.
fn check(path: &Path) -> Result<(), PathError> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        let folder = folder.to_owned();
        return Err(PathError::FolderMissing { folder });
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(PathError::Link),
        Ok(found) if !found.is_file() => Err(PathError::NotAFile),
        // Writing it reports all other errors.
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::mpsc::{self, Receiver};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!(
            "scheduled-events-metrics-{name}-{}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn open(path: &Path) -> (MetricsFile, Receiver<Note>) {
        let (sender, notes) = mpsc::channel();
        let file = MetricsFile::new(path, move |note| drop(sender.send(note.clone()))).unwrap();
        file.start_writer().unwrap();
        (file, notes)
    }

    #[test]
    fn a_file_is_replaced_and_everybody_may_read_it() {
        let folder = folder("replaced");
        let path = folder.join("a.prom");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let reader = fs::File::open(&path).unwrap();
        // What a crash left.
        fs::write(folder.join("a.prom.new"), "torn").unwrap();
        let (mut file, _) = open(&path);
        assert_eq!(file.wait(), Duration::ZERO);
        file.write("first".to_owned());
        assert!(!file.wait().is_zero() && file.wait() <= METRICS_INTERVAL);
        file.finish("last".to_owned());
        assert_eq!(fs::read_to_string(&path).unwrap(), "last");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(io::read_to_string(reader).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn no_link_is_followed() {
        let folder = folder("links");
        let (path, target) = (folder.join("a.prom"), folder.join("target"));
        fs::write(&target, "precious").unwrap();
        let (mut file, _) = open(&path);
        for link in [&path, &folder.join("a.prom.new")] {
            symlink(&target, link).unwrap();
        }
        file.finish("text".to_owned());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");

        fs::remove_file(&path).unwrap();
        symlink(&target, &path).unwrap();
        for (path, words) in [
            (path, "is a link"),
            (folder.join("no/a.prom"), "create it"),
            (folder.clone(), "not a"),
        ] {
            let error = MetricsFile::new(&path, |_| {})
                .map(drop)
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failure_is_reported_once_and_writing_is_tried_again() {
        let folder = folder("failure");
        let path = folder.join("gone").join("a.prom");
        fs::create_dir(folder.join("gone")).unwrap();
        let (mut file, notes) = open(&path);
        fs::remove_dir(folder.join("gone")).unwrap();
        let next = || notes.recv_timeout(Duration::from_secs(60)).expect("a note");
        file.write("one".to_owned());
        let Note::MetricsNotWritten(reason) = next() else {
            panic!("another note")
        };
        assert!(reason.contains("a.prom"), "{reason}");
        // It fails at least once more, and that is not reported.
        thread::sleep(METRICS_INTERVAL * 2);
        assert_eq!(notes.try_recv().ok(), None);
        fs::create_dir(folder.join("gone")).unwrap();
        assert_eq!(next(), Note::MetricsResumed);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        fs::remove_dir_all(folder).unwrap();
        // A stop does not wait for a file that cannot be written.
        let since = Instant::now();
        file.finish("two".to_owned());
        assert!(since.elapsed() < EXIT_METRICS_WAIT + Duration::from_secs(30));
    }
}
