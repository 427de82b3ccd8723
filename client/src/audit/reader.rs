//! Reads the audit file as it grows, in the process that reads it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::iter;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::earlier_files;
use crate::limits::AUDIT_LINE_MAX;
use crate::platform;

/// How much is read at once, in bytes.
const CHUNK: usize = 256 * 1024;

/// Reads the lines of an audit file from the oldest one on, and as they are appended, through rotation, truncation and replacement.
/// Lines of much more than [`AUDIT_LINE_MAX`] bytes are skipped.
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
/// reader.sync()?; // after a crash of the machine, the second line will be there
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AuditReader {
    path: PathBuf,
    refuses_links: bool,
    /// The open files, the oldest first. The first one is read.
    files: VecDeque<OpenFile>,
    /// Whether the earlier files were read. Files that are rotated later were read before.
    has_read_earlier: bool,
    /// The oldest earlier file that could not be read, and why.
    unread: Option<(PathBuf, io::Error)>,
    has_file: bool,
}

/// Lines of one file.
///
/// ```
/// use scheduled_events::audit::AuditReader;
///
/// # let path = std::env::temp_dir().join(format!("lines-example-{}", std::process::id()));
/// std::fs::write(&path, "first\nsecond\n")?;
/// let mut reader = AuditReader::new(&path).refuse_links();
/// let lines = reader.read_some(1)?;
/// assert!(lines.lines == [b"first"] && lines.from_start);
/// reader.sync()?; // after a crash of the machine, the line will be there
/// let lines = reader.read_some(1)?;
/// assert!(lines.lines == [b"second"] && !lines.from_start);
/// assert!(reader.read_some(1)?.lines.is_empty());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct AuditLines {
    /// The lines, without their line feeds.
    pub lines: Vec<Vec<u8>>,
    /// Whether they are the first lines of a file, of one that was read before if its content is another one.
    pub from_start: bool,
}

impl AuditReader {
    /// A reader of the audit file at `path` and of those before it.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            refuses_links: false,
            files: VecDeque::new(),
            has_read_earlier: false,
            unread: None,
            has_file: false,
        }
    }

    /// The same reader, for which a link or what is no regular file is an error.
    ///
    /// ```
    /// use scheduled_events::audit::AuditReader;
    ///
    /// // A folder is in its place.
    /// let mut reader = AuditReader::new(&std::env::temp_dir()).refuse_links();
    /// assert!(reader.read_some(1).is_err());
    /// ```
    #[must_use]
    pub fn refuse_links(mut self) -> Self {
        self.refuses_links = true;
        self
    }

    /// Calls `each` with the lines that were appended since the last call: at first, with all lines, the oldest first. A line
    /// keeps its line feed. There need not be a file.
    ///
    /// # Errors
    /// Those of the file system. An earlier file that cannot be read is left out, and is the error of each call once the lines after it
    /// are read; when it can be read, the next call begins with all files again. If the current one cannot be read, the next call
    /// goes on where this one stopped, or with the file that has replaced it.
    pub fn read_new(&mut self, each: &mut dyn FnMut(&str)) -> io::Result<()> {
        loop {
            let lines = self.read_some(usize::MAX)?.lines;
            if lines.is_empty() {
                return Ok(());
            }
            for mut line in lines {
                line.push(b'\n');
                each(&String::from_utf8_lossy(&line));
            }
        }
    }

    /// The next lines, at most `max`; none if there are no more.
    ///
    /// ```
    /// use scheduled_events::audit::AuditReader;
    ///
    /// let path = std::env::temp_dir().join(format!("audit-some-example-{}", std::process::id()));
    /// std::fs::write(&path, "one\ntwo\n")?;
    /// let mut reader = AuditReader::new(&path);
    /// assert_eq!(reader.read_some(1)?.lines, [b"one"]);
    /// assert_eq!(reader.read_some(9)?.lines, [b"two"]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`read_new`](Self::read_new).
    pub fn read_some(&mut self, max: usize) -> io::Result<AuditLines> {
        loop {
            let is_last = self.files.len() == 1;
            let Some(file) = self.files.front_mut() else {
                let unread;
                (self.files, self.has_file, unread) = self.open_all()?;
                self.unread = unread.or(self.unread.take());
                if self.files.is_empty() {
                    self.has_read_earlier = true;
                    return self.end();
                }
                continue;
            };
            // Checked before the rest of the file is read: nobody writes to a rotated file.
            let is_current = is_last
                && std::fs::metadata(&self.path)
                    .is_ok_and(|found| file.identity == identity(&found));
            self.has_read_earlier |= is_last;
            self.has_file = is_current;
            match file.read_lines(max) {
                Ok(lines) if !lines.lines.is_empty() => return Ok(lines),
                Ok(_) if is_current => return self.end(),
                Ok(_) => {
                    if !self.open_next()? {
                        return self.end();
                    }
                }
                Err(error) => {
                    if !self.has_read_earlier && !is_last {
                        let unread = self.files.pop_front().map(|file| (file.name, error));
                        self.unread = self.unread.take().or(unread);
                        continue;
                    }
                    if !is_current {
                        // What is left of a file that was replaced is lost: another attempt could fail for ever.
                        self.files.pop_front();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// All lines that can be read are read.
    fn end(&mut self) -> io::Result<AuditLines> {
        let Some((name, error)) = &self.unread else {
            return Ok(AuditLines::default());
        };
        let error = io::Error::new(error.kind(), format!("{}: {error}", name.display()));
        match self.open(name).and_then(|file| read_at(&file, &mut [0], 0)) {
            Ok(_) => {
                self.files.clear();
                self.has_read_earlier = false;
            }
            Err(now) if now.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        self.unread = None;
        Err(error)
    }

    fn open(&self, name: &Path) -> io::Result<File> {
        if !self.refuses_links {
            return File::open(name);
        }
        let file = platform::open_no_link(name)?;
        if !file.metadata()?.is_file() {
            let problem = format!("{} is not a regular file", name.display());
            return Err(io::Error::other(problem));
        }
        Ok(file)
    }

    /// Makes the file durable that has the lines that were read last.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        self.files
            .front()
            .map_or(Ok(()), |file| file.file.sync_data())
    }

    /// Goes to the file after the first one. Returns false if there is none.
    fn open_next(&mut self) -> io::Result<bool> {
        if self.files.len() == 1 {
            let (mut files, has_current, _) = self.open_all()?;
            let read = self.files.front().map(|file| file.identity);
            // More than one if the file was rotated twice since the last read.
            match files.iter().position(|file| Some(file.identity) == read) {
                Some(index) => drop(files.drain(..=index)),
                None if has_current => drop(files.drain(..files.len() - 1)),
                None => files.clear(),
            }
            if files.is_empty() {
                return Ok(false);
            }
            self.files.append(&mut files);
        }
        self.files.pop_front();
        Ok(true)
    }

    /// Opens the files that exist, the oldest first. Returns whether there is one at the path itself, and the oldest earlier one that
    /// cannot be opened.
    fn open_all(&self) -> io::Result<OpenFiles> {
        let (mut files, mut has_current) = (VecDeque::<OpenFile>::new(), false);
        let mut unread = None;
        // In this order a file that is renamed meanwhile is seen once or twice, and never missed.
        for name in iter::once(self.path.clone()).chain(earlier_files(&self.path).rev()) {
            let is_current = name == self.path;
            let file = match self.open(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) if !is_current => {
                    unread = Some((name, error));
                    continue;
                }
                opened => opened?,
            };
            has_current |= is_current;
            let identity = identity(&file.metadata()?);
            if files.iter().all(|other| other.identity != identity) {
                files.push_front(OpenFile {
                    name,
                    file,
                    identity,
                    offset: 0,
                    last: Vec::new(),
                    in_long_line: false,
                });
            }
        }
        Ok((files, has_current, unread))
    }

    /// Whether there was a file at the last read.
    pub const fn has_file(&self) -> bool {
        self.has_file
    }

    /// Whether the earlier files were read.
    pub const fn has_read_earlier(&self) -> bool {
        self.has_read_earlier
    }
}

/// The open files, whether one of them is the current one, and an earlier one that could not be opened.
type OpenFiles = (VecDeque<OpenFile>, bool, Option<(PathBuf, io::Error)>);

/// The device and the inode of a file.
fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// A file that is read line by line.
#[derive(Debug)]
struct OpenFile {
    /// Its name when it was opened.
    name: PathBuf,
    file: File,
    identity: (u64, u64),
    /// Where the next line begins.
    offset: u64,
    /// The line before `offset`, without its line feed.
    last: Vec<u8>,
    /// Whether `offset` is within a line that is too long.
    in_long_line: bool,
}

impl OpenFile {
    /// The next whole lines, at most `max`; from the beginning, if the file does not have the line that was read last at its place.
    fn read_lines(&mut self, max: usize) -> io::Result<AuditLines> {
        if !self.is_intact()? {
            (self.offset, self.in_long_line) = (0, false);
            self.last.clear();
        }
        let from_start = self.offset == 0;
        let (mut lines, mut size) = (Vec::new(), CHUNK);
        loop {
            let mut bytes = vec![0; size];
            let count = read_at(&self.file, &mut bytes, self.offset)?;
            bytes.truncate(count);
            let mut start = 0;
            while lines.len() < max
                && let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n')
            {
                let line = &bytes[start..start + length];
                if !std::mem::take(&mut self.in_long_line) {
                    lines.push(line.to_vec());
                }
                start += length + 1;
                self.offset += length as u64 + 1;
            }
            if let Some(last) = lines.last().filter(|_| start > 0) {
                self.last.clone_from(last);
            }
            if !lines.is_empty() || count < size {
                return Ok(AuditLines { lines, from_start });
            }
            if start > 0 {
                size = CHUNK;
            } else if size < AUDIT_LINE_MAX {
                size *= 2;
            } else {
                self.offset += count as u64;
                self.last.clear();
                self.in_long_line = true;
            }
        }
    }

    /// Whether the file still has the line that was read last, at its place.
    fn is_intact(&self) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        if length <= self.offset || self.last.is_empty() {
            return Ok(length >= self.offset);
        }
        let mut bytes = vec![0; self.last.len() + 1];
        let start = self.offset - bytes.len() as u64;
        let count = read_at(&self.file, &mut bytes, start)?;
        Ok(count == bytes.len() && bytes.pop() == Some(b'\n') && bytes == self.last)
    }
}

/// Fills the buffer from `offset` up to the end of the file, at most.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
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
        let unreadable = File::options().write(true).open(&path).expect("the file");
        let file = std::mem::replace(&mut reader.files[0].file, unreadable);
        assert_eq!(read(&mut reader), (false, String::new()));
        reader.files[0].file = file;
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

    #[test]
    fn an_earlier_file_that_cannot_be_read_keeps_nobody_from_the_newer_ones() {
        for refuses_links in [false, true] {
            let folder = folder(&format!("audit-reader-earlier-{refuses_links}"));
            let path = folder.join("audit");
            let earlier = folder.join("audit.2");
            // Even root cannot read it: it cannot be opened as a file, or is opened and not read.
            std::fs::create_dir(&earlier).expect("a folder");
            line(&folder.join("audit.1"), "second\n");
            line(&path, "third\n");
            let mut reader = AuditReader::new(&path);
            if refuses_links {
                reader = reader.refuse_links();
            }
            let read = |reader: &mut AuditReader| {
                let mut lines = String::new();
                let read = reader.read_new(&mut |line| lines += line);
                (read.map_err(|error| error.to_string()), lines)
            };
            let (failed, lines) = read(&mut reader);
            assert_eq!(lines, "second\nthird\n");
            assert!(failed.is_err_and(|why| why.contains("audit.2")));
            line(&path, "fourth\n");
            let (failed, lines) = read(&mut reader);
            assert_eq!((failed.is_err(), lines.as_str()), (true, "fourth\n"));
            // Once it can be read, everything is read again, in its order.
            std::fs::remove_dir(&earlier).expect("removed");
            line(&earlier, "first\n");
            assert!(read(&mut reader).0.is_err() && !reader.has_read_earlier());
            let all = "first\nsecond\nthird\nfourth\n";
            assert_eq!(read(&mut reader), (Ok(()), all.to_owned()));
            std::fs::remove_dir_all(&folder).expect("removed");
        }
    }

    #[test]
    fn a_file_that_is_rotated_twice_between_two_reads_is_read() {
        let folder = folder("audit-reader-twice");
        let path = folder.join("audit");
        let (mut reader, mut lines) = (AuditReader::new(&path), String::new());
        line(&path, "first\n");
        reader.read_new(&mut |line| lines += line).expect("read");
        line(&path, "second\n");
        std::fs::rename(&path, folder.join("audit.2")).expect("renamed");
        line(&folder.join("audit.1"), "third\n");
        line(&path, "fourth\n");
        reader.read_new(&mut |line| lines += line).expect("read");
        assert_eq!(lines, "first\nsecond\nthird\nfourth\n");
        // Written anew, and longer.
        lines.clear();
        std::fs::write(&path, "other\nlines\n").expect("written");
        reader.read_new(&mut |line| lines += line).expect("read");
        assert_eq!(lines, "other\nlines\n");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn nothing_of_a_line_that_is_too_long_is_read() {
        let folder = folder("audit-reader-long");
        let path = folder.join("audit");
        let long = "x".repeat(5 * AUDIT_LINE_MAX / 2);
        line(&path, &format!("é\n{long}\nlast\n"));
        let (mut reader, mut lines) = (AuditReader::new(&path), String::new());
        reader.read_new(&mut |line| lines += line).expect("read");
        assert_eq!(lines, "é\nlast\n");
        // A letter is complete only with the next read.
        let mut file = File::options().append(true).open(&path).expect("the file");
        for (part, expected) in [(&b"\xc3"[..], ""), (b"\xa9\n", "é\n")] {
            lines.clear();
            file.write_all(part).expect("written");
            reader.read_new(&mut |line| lines += line).expect("read");
            assert_eq!(lines, expected);
        }
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
                let inode = reader.files.front().map_or(0, |file| file.identity.1);
                is_read.store(inode, Ordering::SeqCst);
            }
        });
        reader.read_new(&mut |_| records += 1).expect("read");
        assert_eq!(records, FILES);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
