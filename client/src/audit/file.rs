//! The audit file and its predecessors: appends lines with a sequence number, and rotates.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::AuditError;
use crate::files::lock::FileLock;
use crate::files::{PathError, check_file, check_path, is_disk_full, sibling, sync_folder};
use crate::limits::{AUDIT_FILE_MAX, AUDIT_FILES_MAX, AUDIT_QUEUE_MAX};
use crate::platform;

/// How each line starts.
const START: &[u8] = b"{\"record\":\"";

/// How much of a file is read to see whether it is an audit file, in bytes.
const START_MAX: u64 = 64 * 1024;

/// The audit file, locked for this process.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    lock: FileLock,
    file: File,
    /// The number of the last line.
    sequence: u64,
    /// Whether the file's last line has no end. The next line must not continue it.
    torn: bool,
    /// The size at which the file is rotated, in bytes.
    size_max: u64,
}

impl AuditFile {
    /// Opens and locks the file at `path`, which need not exist. A line that a crash left unfinished gets its end.
    ///
    /// # Errors
    /// The rules are those of [`StateFile::open`](crate::state::StateFile::open). The file and those that it was renamed to must also be
    /// empty or audit files. They are unchanged otherwise.
    ///
    /// `what` is what the file is, for messages.
    pub(super) fn open_as(what: &'static str, path: &Path) -> Result<Self, AuditError> {
        let failed = |error| AuditError::Io {
            what,
            path: path.to_owned(),
            error,
        };
        // All of them before anything is created.
        for number in 0..=AUDIT_FILES_MAX {
            let path = numbered(path, number);
            match check_path(&path) {
                Ok(()) => check_content(&path, what)?,
                Err(error) => return Err(AuditError::Path { what, path, error }),
            }
        }
        let lock = FileLock::acquire(path, what)?;
        let (file, torn) = open(path).map_err(failed)?;
        let mut last = None;
        for number in 0..=AUDIT_FILES_MAX {
            let path = numbered(path, number);
            if let Ok(earlier) = platform::open_no_link(&path) {
                platform::make_private(&earlier).map_err(failed)?;
            }
            // The newest file is empty if the last run ended while it rotated.
            if last.is_none() {
                last = last_sequence(&path).map_err(failed)?;
            }
        }
        let sequence = last.unwrap_or(0);
        let mut audit = Self {
            path: path.to_owned(),
            lock,
            file,
            sequence,
            torn,
            size_max: AUDIT_FILE_MAX,
        };
        match audit.end_torn_line() {
            // It is tried again with the next line.
            Err(error) if !is_disk_full(&error) => return Err(failed(error)),
            _ => {}
        }
        Ok(audit)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record: a JSON object in one line. Its last member becomes `sequence`.
    ///
    /// # Errors
    /// An error of the system, or another process may use the file. The file then has the lines from before.
    pub(super) fn append(&mut self, record: &str) -> io::Result<()> {
        let object = record
            .trim_end()
            .strip_suffix('}')
            .ok_or(io::ErrorKind::InvalidInput)?;
        let line = format!(
            "{object},\"sequence\":{}}}\n",
            self.sequence.saturating_add(1)
        );
        self.lock.check(&self.path)?;
        self.reopen_if_moved()?;
        let length = self.file.metadata()?.len();
        if length > 0 && length.saturating_add(line.len() as u64) > self.size_max {
            self.rotate()?;
        }
        self.end_torn_line()?;
        self.write(line.as_bytes())?;
        self.sequence = self.sequence.saturating_add(1);
        Ok(())
    }

    /// Makes all lines durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn end_torn_line(&mut self) -> io::Result<()> {
        if self.torn {
            self.write(b"\n")?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes all of the bytes or none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        self.file.write_all(bytes).inspect_err(|_| {
            if self.file.set_len(before).is_err() {
                self.torn = true;
            }
        })
    }

    /// Opens the file again if somebody moved or removed it.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        match platform::is_same_file(&self.file, &self.path) {
            Ok(true) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                (self.file, self.torn) = open(&self.path)?;
                Ok(())
            }
        }
    }

    /// Renames the file to `FILE.1`, after that one to `FILE.2`, and so on, and starts a new one. A file that has the highest number
    /// is replaced.
    fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        // A crash or an error may have left a free number, up to which the files move.
        let mut free = 1;
        while free < AUDIT_FILES_MAX && is_file(&numbered(&self.path, free))? {
            free += 1;
        }
        is_file(&numbered(&self.path, free))?;
        for number in (0..free).rev() {
            fs::rename(
                numbered(&self.path, number),
                numbered(&self.path, number + 1),
            )?;
        }
        (self.file, self.torn) = open(&self.path)?;
        sync_folder(&self.path)
    }
}

/// `FILE`, `FILE.1`, `FILE.2`, and so on.
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        path.to_owned()
    } else {
        sibling(path, &number.to_string())
    }
}

/// Checks that a file which exists is empty or starts as an audit file does. A line that a crash left unfinished may be its first
/// one, and some file systems show bytes as zero that a crash lost.
fn check_content(path: &Path, what: &'static str) -> Result<(), AuditError> {
    let mut start = Vec::new();
    match platform::open_no_link(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened
            .and_then(|file| file.take(START_MAX).read_to_end(&mut start))
            .map_err(|error| AuditError::Io {
                what,
                path: path.to_owned(),
                error,
            })?,
    };
    let written = start
        .iter()
        .position(|byte| *byte != 0)
        .map_or(&[][..], |zeros| &start[zeros..]);
    if written.iter().zip(START).all(|(one, other)| one == other) {
        return Ok(());
    }
    Err(AuditError::NotAnAuditFile {
        what,
        path: path.to_owned(),
    })
}

/// Whether there is a file. Anything else of that name, such as a link, is an error.
fn is_file(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(io::Error::other(format!(
            "{} is not a regular file; remove it",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the file for appending, and for this user alone if it is new. Returns also whether its last line has no end.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    let mut file = platform::private(options.read(true).append(true).create(true)).open(path)?;
    check_file(&file).map_err(|error| io::Error::other(PathError::Refused(error).to_string()))?;
    platform::make_private(&file)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, last != [b'\n']))
}

/// The number of the last line that has one.
fn last_sequence(path: &Path) -> io::Result<Option<u64>> {
    #[derive(Deserialize)]
    struct Line {
        sequence: u64,
    }

    let mut file = match platform::open_no_link(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // No line is longer than what the queue holds.
    let tail = AUDIT_FILE_MAX + 2 * AUDIT_QUEUE_MAX as u64;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(tail)))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    Ok(lines
        .find_map(|line| serde_json::from_str::<Line>(&String::from_utf8_lossy(line)).ok())
        .map(|line| line.sequence))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn open_audit(path: &Path) -> Result<AuditFile, AuditError> {
        AuditFile::open_as("audit file", path)
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!(
            "scheduled-events-audit-{name}-{}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn sequences(path: &Path) -> Vec<u64> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        let value = |line: &str| serde_json::from_str::<Value>(line).ok()?["sequence"].as_u64();
        text.lines().filter_map(value).collect()
    }

    const RECORD: &str = "{\"record\":\"x\"}\n";

    #[test]
    fn files_rotate_at_their_size_and_the_oldest_is_replaced() {
        let folder = folder("rotates");
        let path = folder.join("audit");
        let mut audit = open_audit(&path).unwrap();
        // Two lines of one digit, or of two.
        audit.size_max = 70;
        for _ in 0..13 {
            audit.append(RECORD).unwrap();
        }
        assert_eq!(sequences(&path), [13]);
        let of = |number| sequences(&numbered(&path, number));
        assert_eq!(
            [of(1), of(2), of(3), of(4)],
            [vec![11, 12], vec![9, 10], vec![7, 8], vec![5, 6]]
        );
        assert!(!numbered(&path, 5).exists());
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "{\"record\":\"x\",\"sequence\":13}\n"
        );
        // A run that ended between a rename and the next file.
        drop(audit);
        fs::rename(&path, folder.join("away")).unwrap();
        fs::remove_file(numbered(&path, 2)).unwrap();
        let mut audit = open_audit(&path).unwrap();
        audit.size_max = 70;
        for _ in 0..3 {
            audit.append(RECORD).unwrap();
        }
        assert_eq!(sequences(&path), [15]);
        // The free number is used, so that no file is lost.
        assert_eq!(
            [of(1), of(2), of(3), of(4)],
            [vec![13, 14], vec![11, 12], vec![7, 8], vec![5, 6]]
        );
        drop(audit);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_longer_than_a_file_has_a_file_of_its_own() {
        let folder = folder("long");
        let path = folder.join("audit");
        let mut audit = open_audit(&path).unwrap();
        audit.size_max = 5;
        audit.append(RECORD).unwrap();
        audit.append(RECORD).unwrap();
        assert_eq!(
            (sequences(&path), sequences(&numbered(&path, 1))),
            (vec![2], vec![1])
        );
        drop(audit);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_unfinished_line_gets_its_end_wherever_the_crash_was() {
        let folder = folder("unfinished");
        let path = folder.join("audit");
        let whole = "{\"record\":\"x\",\"sequence\":41}\n{\"record\":\"x\",\"sequence\":42}\n";
        let first = whole.len() / 2;
        for length in 0..=whole.len() {
            let _ = fs::remove_file(&path);
            let mut file = platform::private(OpenOptions::new().write(true).create(true))
                .open(&path)
                .unwrap();
            file.write_all(&whole.as_bytes()[..length]).unwrap();
            let mut audit = open_audit(&path).unwrap();
            audit.append(RECORD).unwrap();
            let found = sequences(&path);
            // The end of the line is all that lacks.
            let expected = match length {
                _ if length + 1 < first => vec![1],
                _ if length + 1 < whole.len() => vec![41, 42],
                _ => vec![41, 42, 43],
            };
            assert_eq!(found, expected, "{length}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_second_user_is_rejected() {
        let folder = folder("second");
        let path = folder.join("audit");
        let first = open_audit(&path).unwrap();
        let error = open_audit(&path).unwrap_err().to_string();
        let process = std::process::id();
        assert!(
            error.contains(&format!(
                "in use by process {process}, which is this one; use another audit file"
            )),
            "{error}"
        );
        drop(first);
        assert!(open_audit(&path).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_was_moved_or_removed_is_created_again() {
        let folder = folder("moved");
        let path = folder.join("audit");
        let mut audit = open_audit(&path).unwrap();
        audit.append(RECORD).unwrap();
        fs::rename(&path, folder.join("moved")).unwrap();
        audit.append(RECORD).unwrap();
        assert_eq!(
            (sequences(&folder.join("moved")), sequences(&path)),
            (vec![1], vec![2])
        );
        // A program that rotates logs creates the next file itself.
        fs::rename(&path, folder.join("moved")).unwrap();
        drop(
            platform::private(OpenOptions::new().write(true).create_new(true))
                .open(&path)
                .unwrap(),
        );
        audit.append(RECORD).unwrap();
        assert_eq!(
            (sequences(&folder.join("moved")), sequences(&path)),
            (vec![2], vec![3])
        );
        // Windows removes no lock that is held.
        if cfg!(windows) {
            return;
        }
        fs::remove_file(folder.join("audit.lock")).unwrap();
        fs::write(folder.join("audit.lock"), "12345\n").unwrap();
        assert!(
            audit
                .append(RECORD)
                .unwrap_err()
                .to_string()
                .contains("another process may use the audit file")
        );
        assert_eq!(sequences(&path), [3]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_with_the_name_of_the_lock_is_not_overwritten() {
        let folder = folder("no-lock");
        let (path, lock) = (folder.join("au"), folder.join("au.lock"));
        for text in ["precious", "precious 1\n2\n", " x"] {
            fs::write(&lock, text).unwrap();
            #[cfg(unix)]
            let before = fs::metadata(&lock).unwrap().permissions();
            let error = open_audit(&path).unwrap_err().to_string();
            assert!(
                error.ends_with("au.lock is not a lock file; choose another path"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&lock).unwrap(), text);
            #[cfg(unix)]
            assert_eq!(fs::metadata(&lock).unwrap().permissions(), before);
        }
        // What a full disk or a loss of power leaves.
        for text in ["", "12", "\n", "\0\0\0\0"] {
            fs::write(&lock, text).unwrap();
            drop(open_audit(&path).unwrap());
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_refused_file_leaves_no_lock_and_those_that_others_can_read_are_made_private() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = folder("modes");
        let path = folder.join("audit");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for number in 0..2 {
            fs::write(numbered(&path, number), "").unwrap();
            set(&numbered(&path, number), 0o644);
        }
        set(&numbered(&path, 1), 0o666);
        assert!(
            open_audit(&path)
                .unwrap_err()
                .to_string()
                .contains("can be written by others")
        );
        assert!(!folder.join("audit.lock").exists(), "a lock was left");
        set(&numbered(&path, 1), 0o644);
        drop(open_audit(&path).unwrap());
        for number in 0..2 {
            let mode = fs::metadata(numbered(&path, number))
                .unwrap()
                .permissions()
                .mode()
                & 0o777;
            assert_eq!(mode, 0o600, "{number}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn no_link_is_written_or_renamed() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = folder("link");
        let path = folder.join("audit");
        let precious = folder.join("precious");
        fs::write(&precious, "precious").unwrap();
        for number in [0, 1, AUDIT_FILES_MAX] {
            symlink(&precious, numbered(&path, number)).unwrap();
            let error = open_audit(&path).unwrap_err().to_string();
            assert!(
                error.contains("it is a link; give the path that it leads to"),
                "{error}"
            );
            fs::remove_file(numbered(&path, number)).unwrap();
        }
        let mut audit = open_audit(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // One that appears later.
        audit.size_max = 5;
        audit.append(RECORD).unwrap();
        symlink(&precious, numbered(&path, 1)).unwrap();
        assert!(
            audit
                .append(RECORD)
                .unwrap_err()
                .to_string()
                .contains("is not a regular file; remove it")
        );
        fs::remove_file(numbered(&path, 1)).unwrap();
        fs::rename(&path, folder.join("moved")).unwrap();
        symlink(&precious, &path).unwrap();
        assert!(audit.append(RECORD).is_err());
        fs::remove_file(&path).unwrap();
        audit.append(RECORD).unwrap();
        assert_eq!(sequences(&path), [2]);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        drop(audit);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        let error = open_audit(&path).unwrap_err().to_string();
        assert!(
            error.contains("it can be written by others (mode 0622); remove it"),
            "{error}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
