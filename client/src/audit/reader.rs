//! Reads the audit file as it grows, in the process that reads it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::earlier_files;
use crate::limits::AUDIT_LINE_MAX;

/// Reads the lines of an audit file from the oldest one on, and as they are appended, through rotation and truncation. Lines of more than
/// [`AUDIT_LINE_MAX`] bytes are skipped.
///
/// ```
/// use scheduled_events::audit::AuditReader;
///
/// # let folder = std::env::temp_dir().join(format!("reader-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("audit");
/// std::fs::write(folder.join("audit.1"), "first\n")?;
/// std::fs::write(&path, "second\nthi")?;
/// let (mut reader, mut lines) = (AuditReader::new(&path), Vec::new());
/// reader.read_new(&mut |line| lines.push(line.to_owned()))?;
/// assert_eq!(lines, ["first\n", "second\n"]);
/// assert!(reader.has_file() && reader.has_read_earlier());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AuditReader {
    path: PathBuf,
    /// The open file, with its device and inode.
    reader: Option<(BufReader<File>, (u64, u64))>,
    /// Whether the earlier files were read. Files that are rotated later were read before.
    has_read_earlier: bool,
    /// A line that is not complete yet.
    partial: String,
}

impl AuditReader {
    /// A reader of the audit file at `path` and of those before it.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            reader: None,
            has_read_earlier: false,
            partial: String::new(),
        }
    }

    /// Calls `each` with the lines that were appended since the last call: at first, with all lines, the oldest first. A line
    /// keeps its line feed. There need not be a file.
    ///
    /// # Errors
    /// Those of the file system. If the earlier files could not be read, the next call begins with them again. If the current one
    /// could not, the next call goes on where this one stopped, or with the file that has replaced it.
    pub fn read_new(&mut self, each: &mut dyn FnMut(&str)) -> io::Result<()> {
        if !self.has_read_earlier {
            // A file that is rotated meanwhile is read twice.
            for name in earlier_files(&self.path) {
                match File::open(&name) {
                    Ok(file) => self.read_lines(&mut BufReader::new(file), each)?,
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                self.partial.clear();
            }
            self.has_read_earlier = true;
        }
        loop {
            if let Some((mut reader, identity)) = self.reader.take() {
                // Checked before the rest of the file is read: nobody writes to a rotated file.
                let is_current = std::fs::metadata(&self.path)
                    .is_ok_and(|found| identity == (found.dev(), found.ino()));
                // Whether it was truncated.
                let read = self.read_lines(&mut reader, each).and_then(|()| {
                    Ok(reader.get_ref().metadata()?.len() < reader.stream_position()?)
                });
                if is_current && !matches!(read, Ok(true)) {
                    self.reader = Some((reader, identity));
                    return read.map(|_| ());
                }
                self.partial.clear();
                // What is left of a file that was replaced is lost: another attempt could fail for ever.
                read?;
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

    fn read_lines(
        &mut self,
        reader: &mut BufReader<File>,
        each: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        loop {
            let mut bytes = Vec::new();
            let read =
                io::Read::take(&mut *reader, AUDIT_LINE_MAX as u64).read_until(b'\n', &mut bytes);
            // Also what was read before a failure.
            self.partial.push_str(&String::from_utf8_lossy(&bytes));
            if read? == 0 {
                return Ok(());
            }
            if self.partial.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                each(&line);
            } else if self.partial.len() >= AUDIT_LINE_MAX {
                self.partial.clear();
            }
        }
    }

    /// Whether there was a file at the last read.
    pub const fn has_file(&self) -> bool {
        self.reader.is_some()
    }

    /// Whether the earlier files were read.
    pub const fn has_read_earlier(&self) -> bool {
        self.has_read_earlier
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    fn line(file: &Path, text: &str) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .expect("the file");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_file_that_cannot_be_read_for_a_moment_is_read_on_where_it_failed() {
        let folder = folder("audit-reader-moment");
        let path = folder.join("audit");
        let mut reader = AuditReader::new(&path);
        let read = |reader: &mut AuditReader| {
            let mut lines = String::new();
            let read = reader.read_new(&mut |line| lines += line);
            (read.is_ok(), lines)
        };
        line(&path, "first\nsec");
        assert_eq!(read(&mut reader), (true, "first\n".to_owned()));
        // No one may read a file that is open for writing, not even root.
        let (file, identity) = reader.reader.take().expect("an open file");
        let unreadable = File::options().write(true).open(&path).expect("the file");
        reader.reader = Some((BufReader::new(unreadable), identity));
        assert_eq!(read(&mut reader), (false, String::new()));
        if let Some((kept, _)) = &mut reader.reader {
            *kept = file;
        }
        line(&path, "ond\n");
        assert_eq!(read(&mut reader), (true, "second\n".to_owned()));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_folder_in_place_of_the_file_stops_the_reader_only_as_long_as_it_is_there() {
        let folder = folder("audit-reader-folder");
        let path = folder.join("audit");
        std::fs::create_dir(&path).expect("a folder");
        let (mut reader, mut lines) = (AuditReader::new(&path), Vec::new());
        let mut read = || reader.read_new(&mut |line| lines.push(line.to_owned()));
        assert!(read().is_err() && read().is_err());
        std::fs::remove_dir(&path).expect("removed");
        line(&path, "first\n");
        // The folder is still open.
        let _ = read();
        read().expect("the file");
        assert_eq!(lines, ["first\n"]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// The test rotates each file as soon as it has a record, at any moment of a read.
    #[test]
    fn no_record_is_lost_that_is_written_just_before_the_file_is_rotated() {
        const FILES: u64 = 300;
        let folder = folder("audit-reader");
        let path = folder.join("audit");
        let inode = || std::fs::metadata(&path).expect("the file").ino();
        // Counts records that were read. The test could miss one whose file is rotated twice
        // between two reads.
        let (is_read, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        line(&path, "");
        let (mut reader, mut records) = (AuditReader::new(&path), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..FILES {
                    while is_read.load(Ordering::SeqCst) != inode() {
                        std::thread::yield_now();
                    }
                    line(&path, "{\"record\":\"x\"}\n");
                    std::fs::rename(&path, folder.join("audit.old")).expect("renamed");
                    line(&path, "");
                }
                is_over.store(true, Ordering::SeqCst);
            });
            while !is_over.load(Ordering::SeqCst) {
                reader.read_new(&mut |_| records += 1).expect("read");
                let file = reader.reader.as_ref();
                let inode = file.map_or(0, |(_, (_, inode))| *inode);
                is_read.store(inode, Ordering::SeqCst);
            }
        });
        reader.read_new(&mut |_| records += 1).expect("read");
        assert_eq!(records, FILES);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
