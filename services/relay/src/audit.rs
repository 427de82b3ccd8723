//! Reads the audit file after a position, which outlives this process.
//!
//! The watcher numbers its lines across all files of a rotation. The position is therefore the
//! number of a line, together with a digest of the line: if the line with that number differs, the
//! files were replaced, and all of them are read. [`AuditReader`] knows only what it has read
//! itself.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use scheduled_events::audit::AuditReader;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use scheduled_events_common::hexadecimal::hexadecimal;

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
}

impl Line {
    /// The line, if it is a JSON object with a number. A crash can leave other lines.
    fn new(bytes: &[u8]) -> Option<Self> {
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
        })
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
    /// Continues after the position and the lines that are found; `None` before the position is
    /// searched for.
    reader: Option<AuditReader>,
    /// What the search has read after the position.
    found: VecDeque<Line>,
}

impl Tail {
    /// A reader of the audit file at `path`, after this position; without one, from the oldest
    /// line.
    pub fn new(path: &Path, position: Option<Position>) -> Self {
        Self {
            path: path.to_owned(),
            position,
            reader: None,
            found: VecDeque::new(),
        }
    }

    /// The position before the oldest line that exists: from now on, a line that is rotated away
    /// unread is a lost one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn position_before_all(path: &Path) -> io::Result<Position> {
        let first = Self::new(path, None).read(1)?.lines.into_iter().next();
        Ok(Position {
            sequence: first.map_or(0, |line| line.position.sequence.saturating_sub(1)),
            digest: String::new(),
        })
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
        // Whether the reader has just searched all files, and whether it begins one.
        let (mut is_searched, mut from_start) = (false, false);
        loop {
            let Some(reader) = &mut self.reader else {
                batch.replaced |= self.search()?;
                is_searched = true;
                continue;
            };
            if self.found.is_empty() {
                let next = reader.read_some(max)?;
                if next.lines.is_empty() {
                    return Ok(batch);
                }
                from_start |= next.from_start;
                self.found = next
                    .lines
                    .iter()
                    .filter_map(|line| Line::new(line))
                    .collect();
            }
            let (Some(first), last) = (self.found.front(), self.position.as_ref()) else {
                continue;
            };
            // The files may have been replaced, or rotated away.
            if from_start
                && !is_searched
                && last.is_some_and(|last| last.sequence + 1 != first.position.sequence)
            {
                self.reader = None;
                continue;
            }
            reader.sync()?;
            let count = max.min(self.found.len());
            batch.lines.extend(self.found.drain(..count));
            for line in &batch.lines {
                let expected = self
                    .position
                    .as_ref()
                    .map_or(line.position.sequence, |last| last.sequence + 1);
                batch.lost += line.position.sequence.saturating_sub(expected);
                self.position = Some(line.position.clone());
            }
            return Ok(batch);
        }
    }

    /// Reads up to the position: up to its line, or otherwise up to where it was before lines were
    /// lost. Returns whether these files differ from those that had it; all of them are read then.
    fn search(&mut self) -> io::Result<bool> {
        let new_reader = || AuditReader::new(&self.path).refuse_links();
        let mut reader = new_reader();
        self.found.clear();
        let mut replaced = false;
        if let Some(position) = &self.position {
            'files: loop {
                let next = reader.read_some(usize::MAX)?.lines;
                if next.is_empty() {
                    break;
                }
                let mut lines = next.iter().filter_map(|line| Line::new(line));
                while let Some(line) = lines.next() {
                    // Without a line as new as the position's, the numbers began again.
                    replaced = true;
                    match line.position.sequence.cmp(&position.sequence) {
                        Ordering::Less => continue,
                        Ordering::Equal if line.position != *position => break 'files,
                        Ordering::Equal => {}
                        Ordering::Greater => self.found.push_back(line),
                    }
                    self.found.extend(lines);
                    replaced = false;
                    break 'files;
                }
            }
        }
        if replaced {
            reader = new_reader();
            self.position = None;
        }
        self.reader = Some(reader);
        Ok(replaced)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scheduled_events::limits::AUDIT_LINE_MAX;

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
