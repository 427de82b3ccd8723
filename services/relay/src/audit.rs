//! Reads the audit file as it grows, through rotation, truncation and replacement.
//!
//! The watcher renames `FILE` to `FILE.1`, that one to `FILE.2` and so on, and numbers its lines
//! across all of them. The position is therefore the number of a line, together with a digest of
//! the line: if the line with that number differs, the files were replaced, and all of them are
//! read.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::iter;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use scheduled_events::audit::earlier_files;
use scheduled_events::limits::AUDIT_LINE_MAX;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use scheduled_events_common::hexadecimal::hexadecimal;

/// How much is read at once, in bytes.
const CHUNK: usize = 256 * 1024;

/// A line that was delivered: its number and a digest of its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The member `sequence`.
    pub sequence: u64,
    /// The first 64 bits of its SHA-256, in hexadecimal digits.
    pub digest: String,
}

/// A line of the audit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its text, without the line feed.
    pub text: String,
    /// Its number and digest.
    pub position: Position,
    /// Where it begins in its file.
    start: u64,
}

impl Line {
    /// The line, if it is a JSON object with a number. A crash can leave other lines.
    fn new(bytes: &[u8], start: u64) -> Option<Self> {
        #[derive(Deserialize)]
        struct Numbered {
            sequence: u64,
        }

        // Serde also reads a structure from an array.
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| text.starts_with('{'))?;
        let sequence = serde_json::from_str::<Numbered>(text).ok()?.sequence;
        Some(Self {
            text: text.to_owned(),
            position: Position {
                sequence,
                digest: digest(bytes),
            },
            start,
        })
    }

    /// Where the line after it begins.
    fn end(&self) -> u64 {
        self.start + self.text.len() as u64 + 1
    }
}

/// The first 64 bits of the SHA-256 of `bytes`, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes)[..8])
}

/// The lines of one read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The lines, in their order.
    pub lines: Vec<Line>,
    /// How many lines before the first one no longer exist.
    pub lost: u64,
    /// Whether the files differ from those before, and all of them are read.
    pub replaced: bool,
}

/// Reads the lines after a position.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// The last line that was read.
    position: Option<Position>,
    reader: Option<Reader>,
}

impl Tail {
    /// A reader of the audit file at `path`, after this position; without one, from the oldest
    /// line.
    pub fn new(path: &Path, position: Option<Position>) -> Self {
        Self {
            path: path.to_owned(),
            position,
            reader: None,
        }
    }

    /// Goes to the end of the existing lines, and returns the position of the last one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn skip_to_end(&mut self) -> io::Result<Option<Position>> {
        while !self.read(usize::MAX)?.lines.is_empty() {}
        Ok(self.position.clone())
    }

    /// The next lines, at most `max`. They are durable: after a crash of the machine, no other
    /// lines can have their numbers.
    ///
    /// # Errors
    /// Those of the file system. The next call continues where this one began.
    pub fn read(&mut self, max: usize) -> io::Result<Batch> {
        let result = self.read_next(max);
        if result.is_err() {
            self.reader = None;
        }
        result
    }

    fn read_next(&mut self, max: usize) -> io::Result<Batch> {
        let mut batch = Batch::default();
        loop {
            let Some(mut reader) = self.reader.take() else {
                let Some((reader, replaced)) = locate(&self.path, self.position.as_ref())? else {
                    return Ok(batch);
                };
                self.use_located(reader, replaced, &mut batch);
                continue;
            };
            if !reader.is_intact()? {
                continue;
            }
            // Examined before the lines are read: these then include all lines from before the
            // rename.
            let moved = !is_same_file(&reader.file, &self.path);
            let lines = reader.read_lines(max)?;
            if !lines.is_empty() {
                reader.file.sync_data()?;
                self.reader = Some(reader);
                for line in &lines {
                    let expected = self
                        .position
                        .as_ref()
                        .map_or(line.position.sequence, |last| last.sequence + 1);
                    batch.lost += line.position.sequence.saturating_sub(expected);
                    self.position = Some(line.position.clone());
                }
                batch.lines = lines;
                return Ok(batch);
            }
            if moved
                && let Some((next, replaced)) = locate(&self.path, self.position.as_ref())?
                && identity(&next.file)? != identity(&reader.file)?
            {
                self.use_located(next, replaced, &mut batch);
                continue;
            }
            self.reader = Some(reader);
            return Ok(batch);
        }
    }

    fn use_located(&mut self, reader: Reader, replaced: bool, batch: &mut Batch) {
        if replaced {
            self.position = None;
            batch.replaced = true;
        }
        self.reader = Some(reader);
    }
}

/// A file that is read line by line.
#[derive(Debug)]
struct Reader {
    file: File,
    /// Where the next line begins.
    offset: u64,
    /// The length of the line before `offset` with its line feed, and its digest.
    last: Option<(usize, String)>,
    /// Whether `offset` is within a line that is too long.
    in_long_line: bool,
}

impl Reader {
    fn new(file: File) -> Self {
        Self {
            file,
            offset: 0,
            last: None,
            in_long_line: false,
        }
    }

    /// Continues at `offset`, after this line.
    fn go_to(&mut self, offset: u64, last: Option<&Line>) {
        self.offset = offset;
        self.last = last.map(|line| (line.text.len() + 1, line.position.digest.clone()));
        self.in_long_line = false;
    }

    /// Whether the file still has the line that was read last, at its place.
    fn is_intact(&self) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        let Some((last, expected)) = self.last.as_ref().filter(|_| length > self.offset) else {
            return Ok(length >= self.offset);
        };
        let mut bytes = vec![0; *last];
        match self
            .file
            .read_exact_at(&mut bytes, self.offset - *last as u64)
        {
            Ok(()) => Ok(bytes.pop() == Some(b'\n') && digest(&bytes) == *expected),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next whole lines, at most `max`. Lines that are not records are skipped.
    fn read_lines(&mut self, max: usize) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        let mut size = CHUNK;
        loop {
            let mut bytes = vec![0; size];
            let count = read_at(&self.file, &mut bytes, self.offset)?;
            bytes.truncate(count);
            let mut start = 0;
            while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n')
                && lines.len() < max
            {
                let line = Line::new(&bytes[start..start + length], self.offset)
                    .filter(|_| !self.in_long_line);
                self.in_long_line = false;
                start += length + 1;
                self.offset += length as u64 + 1;
                self.last = line
                    .as_ref()
                    .map(|line| (length + 1, line.position.digest.clone()));
                lines.extend(line);
            }
            if !lines.is_empty() || count < size {
                return Ok(lines);
            }
            if start > 0 {
                size = CHUNK;
            } else if size < AUDIT_LINE_MAX {
                size *= 2;
            } else {
                self.offset += count as u64;
                self.last = None;
                self.in_long_line = true;
            }
        }
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

/// The file with the line after `position`, and whether these files differ from those that had
/// `position`; `None` if there is no file.
fn locate(path: &Path, position: Option<&Position>) -> io::Result<Option<(Reader, bool)>> {
    let mut readers = open_all(path)?;
    let mut replaced = false;
    let mut first = 0;
    if let Some(position) = position {
        match find(&mut readers, position)? {
            Found::At(index) => first = index,
            Found::Replaced => {
                replaced = true;
                for reader in &mut readers {
                    reader.go_to(0, None);
                }
            }
        }
    }
    for index in first..readers.len() {
        let reader = &mut readers[index];
        let (offset, last) = (reader.offset, reader.last.clone());
        if let Some(line) = reader.read_lines(1)?.pop() {
            // The text before the line is no record.
            reader.go_to(line.start, None);
            reader.last = last.filter(|_| offset == line.start);
            return Ok(Some((readers.swap_remove(index), replaced)));
        }
    }
    Ok(readers.pop().map(|reader| (reader, replaced)))
}

/// Where a position is.
enum Found {
    /// In or before the file with this index. The file's reader continues after it.
    At(usize),
    /// Nowhere: the numbers began again, or another line has its number.
    Replaced,
}

fn find(readers: &mut [Reader], position: &Position) -> io::Result<Found> {
    let mut later = None;
    for (index, reader) in readers.iter_mut().enumerate().rev() {
        let mut is_first = true;
        loop {
            let lines = reader.read_lines(usize::MAX)?;
            if is_first
                && lines
                    .first()
                    .is_some_and(|line| line.position.sequence > position.sequence)
            {
                reader.go_to(0, None);
                later = Some(index);
                break;
            }
            if lines.is_empty() {
                if is_first {
                    break;
                }
                // The position's line was at the end of this file, and is lost, or never was in
                // these files.
                return Ok(later.map_or(Found::Replaced, Found::At));
            }
            is_first = false;
            for line in lines {
                if line.position == *position {
                    reader.go_to(line.end(), Some(&line));
                    return Ok(Found::At(index));
                }
                if line.position.sequence == position.sequence {
                    return Ok(Found::Replaced);
                }
                if line.position.sequence > position.sequence {
                    reader.go_to(line.start, None);
                    return Ok(Found::At(index));
                }
            }
        }
    }
    Ok(Found::At(later.unwrap_or(readers.len().saturating_sub(1))))
}

/// Opens the files that exist, the oldest first.
fn open_all(path: &Path) -> io::Result<Vec<Reader>> {
    let mut readers: Vec<Reader> = Vec::new();
    let mut identities = Vec::new();
    // In this order a file that is renamed meanwhile is seen once or twice, and never missed.
    for name in iter::once(path.to_owned()).chain(earlier_files(path).rev()) {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let file = match OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&name)
        {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!(
                "{} is not a regular file",
                name.display()
            )));
        }
        let identity = identity(&file)?;
        if !identities.contains(&identity) {
            identities.push(identity);
            readers.push(Reader::new(file));
        }
    }
    readers.reverse();
    Ok(readers)
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Whether the path names this file.
fn is_same_file(file: &File, path: &Path) -> bool {
    let found = path
        .symlink_metadata()
        .map(|metadata| (metadata.dev(), metadata.ino()));
    matches!((found, identity(file)), (Ok(found), Ok(expected)) if found == expected)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(sequence: u64) -> String {
        format!("{{\"record\":\"x\",\"sequence\":{sequence}}}\n")
    }

    fn sequences(batch: &Batch) -> Vec<u64> {
        batch
            .lines
            .iter()
            .map(|line| line.position.sequence)
            .collect()
    }

    #[test]
    fn a_line_is_read_once_it_is_complete_and_what_is_no_record_is_passed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let mut tail = Tail::new(&path, None);
        assert_eq!(tail.read(9).unwrap(), Batch::default());
        fs::write(&path, line(1).trim_end()).unwrap();
        assert_eq!(tail.read(9).unwrap(), Batch::default());
        let long = "x".repeat(5 * AUDIT_LINE_MAX / 2);
        let text = [
            &line(1),
            "\0\0\0\n",
            "[1]\n",
            "\u{fffd}\n",
            &long,
            "\n",
            &line(2),
            &line(3),
        ]
        .concat();
        fs::write(&path, text).unwrap();
        assert_eq!(sequences(&tail.read(1).unwrap()), [1]);
        assert_eq!(sequences(&tail.read(9).unwrap()), [2, 3]);
        assert_eq!(tail.read(9).unwrap(), Batch::default());
    }

    #[test]
    fn a_position_is_found_in_whatever_files_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let of = |numbers: std::ops::RangeInclusive<u64>| numbers.map(line).collect::<String>();
        let at = |sequence: u64| Position {
            sequence,
            digest: digest(line(sequence).trim_end().as_bytes()),
        };
        fs::write(folder.path().join("audit.2"), of(3..=5)).unwrap();
        fs::write(folder.path().join("audit.1"), of(6..=8)).unwrap();
        fs::write(&path, "").unwrap();
        let other = Position {
            sequence: 6,
            digest: "0123456789abcdef".to_owned(),
        };
        for (position, first, lost, replaced) in [
            (None, Some(3), 0, false),
            (Some(at(1)), Some(3), 1, false),
            (Some(at(2)), Some(3), 0, false),
            (Some(at(4)), Some(5), 0, false),
            (Some(at(5)), Some(6), 0, false),
            (Some(at(8)), None, 0, false),
            // Numbers began again, and another line has the number.
            (Some(at(20)), Some(3), 0, true),
            (Some(other), Some(3), 0, true),
        ] {
            let batch = Tail::new(&path, position.clone()).read(1).unwrap();
            let found = batch.lines.first().map(|line| line.position.sequence);
            assert_eq!(
                (found, batch.lost, batch.replaced),
                (first, lost, replaced),
                "{position:?}"
            );
        }
        // A file between two others is missing.
        fs::remove_file(folder.path().join("audit.1")).unwrap();
        fs::write(&path, of(9..=9)).unwrap();
        let mut tail = Tail::new(&path, Some(at(4)));
        assert_eq!(sequences(&tail.read(9).unwrap()), [5]);
        let batch = tail.read(9).unwrap();
        assert_eq!((sequences(&batch), batch.lost), (vec![9], 3));
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        Tail::new(&path, None).read(1).unwrap_err();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        Tail::new(&path, None).read(1).unwrap_err();
    }
}
