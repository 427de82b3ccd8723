//! What survives a restart: the tracked events and how far each has come.
//!
//! The form, version 1: `SEVS`, the version, flags, the approved ids' hashes, a count and that many events, and a
//! checksum over all of it. Numbers are little-endian.

use core::fmt;

use super::work::{Approval, Prepare, Recovery, Work};
use super::{REMEMBERED_APPROVALS, Session};
use crate::error::BufferTooSmall;
use crate::event_id::EventId;
use crate::hash::Hash;
use crate::room::Room;
use crate::short;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Change, Flags, TrackedEvent, TrackedStatus};

const MAGIC: &[u8; 4] = b"SEVS";
const VERSION: u8 = 1;

/// Why a snapshot was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes are no snapshot, or not a whole one, or were changed.
    Damaged,
    /// A later version of this crate wrote it.
    UnknownVersion(u8),
    /// It holds more events than the session has room for.
    TooManyEvents,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("the snapshot is damaged"),
            Self::UnknownVersion(version) => write!(f, "the snapshot has version {version}, which is not known here"),
            Self::TooManyEvents => f.write_str("the snapshot holds more events than the session"),
        }
    }
}

impl core::error::Error for SnapshotError {}

impl<const N: usize> Session<N> {
    /// Writes what a restart must not forget to the front of `buffer`, and tells its length in bytes: about a hundred
    /// for each event. Take one whenever the session was told something or said something, and store it before acting
    /// on what it said.
    ///
    /// # Errors
    /// [`BufferTooSmall`] when it does not fit; it tells the bytes needed.
    pub fn snapshot(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let mut writer = Writer { room: Room::new(buffer), hash: Hash::new() };
        writer.bytes(MAGIC);
        writer.byte(VERSION);
        writer.byte(u8::from(self.event_seen));
        for hash in self.approvals.hashes {
            writer.u64(hash);
        }
        writer.byte(self.approvals.next);
        writer.u16(u16::try_from(self.tracker.len()).unwrap_or(u16::MAX));
        for slot in 0..self.tracker.slots_used() {
            if let (Some(event), Some(work)) = (self.tracker.get(slot), self.work.get(usize::from(slot))) {
                writer.event(event);
                writer.work(work);
            }
        }
        let checksum = writer.hash.finish();
        writer.u64(checksum);
        writer.room.written().map(<[u8]>::len)
    }

    /// Takes up where a snapshot left off. Policy, names and pace stay as the session was configured.
    ///
    /// What had been said and not been answered when the snapshot was taken is said again: a preparation that had not
    /// ended, a recovery that had not ended, a change that had not been reported. Nothing is approved before the first
    /// document has confirmed that the event is still `Scheduled`.
    ///
    /// # Errors
    /// [`SnapshotError`] for bytes that no session wrote; the session is then empty, as it was.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.forget();
        let result = self.read_snapshot(snapshot);
        if result.is_err() {
            self.forget();
        }
        result
    }

    fn read_snapshot(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        let (content, checksum) = snapshot.split_last_chunk::<8>().ok_or(SnapshotError::Damaged)?;
        if Hash::of(content) != u64::from_le_bytes(*checksum) {
            return Err(SnapshotError::Damaged);
        }
        let mut reader = Reader { rest: content.strip_prefix(MAGIC).ok_or(SnapshotError::Damaged)? };
        match reader.byte() {
            Some(VERSION) => {}
            Some(version) => return Err(SnapshotError::UnknownVersion(version)),
            None => return Err(SnapshotError::Damaged),
        }
        let count = self.read_head(&mut reader).ok_or(SnapshotError::Damaged)?;
        if usize::from(count) > N {
            return Err(SnapshotError::TooManyEvents);
        }
        for _ in 0..count {
            let (event, work) = reader.event().zip(reader.work()).ok_or(SnapshotError::Damaged)?;
            let repeated = self.tracker.find(&event.event_id).is_some();
            let end = work.change.is_some_and(Change::is_end);
            if repeated || end && !event.is_gone() || work.recovery == Recovery::Done && !event.is_gone() {
                return Err(SnapshotError::Damaged);
            }
            let slot = self.tracker.place(event).ok_or(SnapshotError::TooManyEvents)?;
            self.put_work(slot, work);
        }
        if reader.rest.is_empty() { Ok(()) } else { Err(SnapshotError::Damaged) }
    }

    /// What comes before the events, and their count.
    fn read_head(&mut self, reader: &mut Reader<'_>) -> Option<u16> {
        self.event_seen = reader.flag()?;
        for hash in &mut self.approvals.hashes {
            *hash = reader.u64()?;
        }
        self.approvals.next = reader.byte().filter(|&next| usize::from(next) < REMEMBERED_APPROVALS)?;
        reader.u16()
    }
}

/// Writes and hashes.
struct Writer<'b> {
    room: Room<'b>,
    hash: Hash,
}

impl Writer<'_> {
    fn byte(&mut self, byte: u8) {
        self.room.byte(byte);
        self.hash.byte(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(byte);
        }
    }

    fn u16(&mut self, number: u16) {
        self.bytes(&number.to_le_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn i64(&mut self, number: i64) {
        self.bytes(&number.to_le_bytes());
    }

    /// A text of at most 255 bytes, as the tracked ones are.
    fn text(&mut self, text: &str) {
        self.byte(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.bytes(text.as_bytes());
    }

    fn event(&mut self, event: &TrackedEvent) {
        self.text(event.event_id.as_str());
        self.text(&event.event_type);
        self.byte(event.status as u8);
        self.byte(event.flags.0);
        self.i64(event.not_before.0);
        self.u32(event.duration);
        self.u32(event.digest);
    }

    fn work(&mut self, work: &Work) {
        self.i64(work.first_seen.0);
        self.byte(work.change.map_or(u8::MAX, |change| change as u8));
        self.byte(work.prepare as u8);
        self.byte(work.recovery as u8);
        self.byte(work.approval.failures);
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (first, rest) = self.rest.split_first_chunk::<LENGTH>()?;
        self.rest = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&str> {
        let length = self.byte()?;
        let (text, rest) = self.rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        core::str::from_utf8(text).ok()
    }

    fn event(&mut self) -> Option<TrackedEvent> {
        let event_id = EventId::kept(self.text()?)?;
        let event_type = short::kept(self.text()?)?;
        let status = match self.byte()? {
            0 => TrackedStatus::Unclear,
            1 => TrackedStatus::Scheduled,
            2 => TrackedStatus::Started,
            _ => return None,
        };
        let flags = Flags::from_bits(self.byte()?)?;
        let not_before = UnixSeconds(self.i64()?);
        Some(TrackedEvent {
            event_id,
            event_type,
            status,
            flags,
            not_before,
            duration: self.u32()?,
            digest: self.u32()?,
        })
    }

    fn work(&mut self) -> Option<Work> {
        let mut work = Work::new(UnixMillis(self.i64()?));
        work.change = match self.byte()? {
            u8::MAX => None,
            change => Some(*Change::ALL.get(usize::from(change))?),
        };
        // A command that was running when the snapshot was taken is gone with its process.
        work.prepare = match self.byte()? {
            0 => Prepare::NotYet,
            2 | 3 => Prepare::Interrupted,
            4 => Prepare::Ready,
            5 => Prepare::Failed,
            _ => return None,
        };
        work.recovery = match self.byte()? {
            0 | 1 => Recovery::NotYet,
            2 => Recovery::Done,
            _ => return None,
        };
        work.approval = Approval { failures: self.byte()?, ..Approval::default() };
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::names::VmNames;
    use crate::session::SessionConfig;

    /// Where the parts of a snapshot stand that holds one event, whose id is `a` and whose type is empty.
    const VERSION_AT: usize = 4;
    const SEEN_AT: usize = 5;
    const NEXT_AT: usize = 6 + 8 * REMEMBERED_APPROVALS;
    const COUNT_AT: usize = NEXT_AT + 1;
    const ID_AT: usize = COUNT_AT + 2;
    const TYPE_AT: usize = ID_AT + 2;
    const STATUS_AT: usize = TYPE_AT + 1;
    const FLAGS_AT: usize = STATUS_AT + 1;
    const CHANGE_AT: usize = FLAGS_AT + 1 + 8 + 4 + 4 + 8;
    const PREPARE_AT: usize = CHANGE_AT + 1;
    const RECOVERY_AT: usize = PREPARE_AT + 1;
    const FAILURES_AT: usize = RECOVERY_AT + 1;
    const LENGTH: usize = FAILURES_AT + 1;

    fn session() -> Session<2> {
        Session::new(&SessionConfig::new(VmNames::UNKNOWN)).unwrap()
    }

    /// A snapshot whose checksum is right, of one event.
    fn content() -> Vec<u8> {
        let mut session = session();
        let event = TrackedEvent {
            event_id: EventId::kept("a").unwrap(),
            event_type: heapless::String::new(),
            status: TrackedStatus::Scheduled,
            flags: Flags::default(),
            not_before: UnixSeconds(7),
            duration: 5,
            digest: 3,
        };
        let slot = session.tracker.place(event).unwrap();
        session.put_work(slot, Work::new(UnixMillis(0)));
        let mut buffer = [0; 256];
        let length = session.snapshot(&mut buffer).unwrap();
        assert_eq!(length, LENGTH + 8);
        buffer[..LENGTH].to_vec()
    }

    fn restore(content: &[u8]) -> Result<(), SnapshotError> {
        let whole = [content, &Hash::of(content).to_le_bytes()].concat();
        let mut session = session();
        let result = session.restore(&whole);
        if result.is_err() {
            assert!(session.tracker.is_empty() && !session.event_seen);
        } else {
            // What was read is written again, but for what a restart interrupts.
            let mut again = [0; 512];
            let length = session.snapshot(&mut again).unwrap();
            assert_eq!(length, whole.len());
        }
        result
    }

    #[test]
    fn what_no_session_wrote_is_refused_whatever_the_checksum_says() {
        let damaged = Err(SnapshotError::Damaged);
        let gone = Flags::GONE;
        for (at, bytes, expected) in [
            (VERSION_AT, &[1][..], Ok(())),
            (VERSION_AT, &[0], Err(SnapshotError::UnknownVersion(0))),
            (VERSION_AT, &[2], Err(SnapshotError::UnknownVersion(2))),
            (SEEN_AT, &[1], Ok(())),
            (SEEN_AT, &[2], damaged),
            (NEXT_AT, &[15], Ok(())),
            (NEXT_AT, &[16], damaged),
            (COUNT_AT, &[0, 0], damaged),
            (COUNT_AT, &[2, 0], damaged),
            (COUNT_AT, &[3, 0], Err(SnapshotError::TooManyEvents)),
            (COUNT_AT, &[0, 1], Err(SnapshotError::TooManyEvents)),
            (ID_AT, &[65], damaged),
            (ID_AT, &[255], damaged),
            (ID_AT, &[1, 0xff], damaged),
            (TYPE_AT, &[29], damaged),
            (STATUS_AT, &[0], Ok(())),
            (STATUS_AT, &[2], Ok(())),
            (STATUS_AT, &[3], damaged),
            (FLAGS_AT, &[63], Ok(())),
            (FLAGS_AT, &[64], damaged),
            (FLAGS_AT, &[128], damaged),
            (CHANGE_AT, &[0], Ok(())),
            (CHANGE_AT, &[4], Ok(())),
            // That an event ended is told of none that is still there.
            (CHANGE_AT, &[5], damaged),
            (CHANGE_AT, &[7], damaged),
            (CHANGE_AT, &[8], damaged),
            (CHANGE_AT, &[254], damaged),
            (PREPARE_AT, &[1], damaged),
            (PREPARE_AT, &[2], Ok(())),
            (PREPARE_AT, &[3], Ok(())),
            (PREPARE_AT, &[4], Ok(())),
            (PREPARE_AT, &[5], Ok(())),
            (PREPARE_AT, &[6], damaged),
            (RECOVERY_AT, &[1], Ok(())),
            // Nor was it recovered from.
            (RECOVERY_AT, &[2], damaged),
            (RECOVERY_AT, &[3], damaged),
            (FAILURES_AT, &[255], Ok(())),
        ] {
            let mut changed = content();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(restore(&changed), expected, "{bytes:?} at {at}");
        }
        for (at, byte) in [(CHANGE_AT, 5), (CHANGE_AT, 7), (CHANGE_AT, 0), (RECOVERY_AT, 2), (RECOVERY_AT, 0)] {
            let mut changed = content();
            changed[FLAGS_AT] = gone;
            changed[at] = byte;
            assert_eq!(restore(&changed), Ok(()), "{byte} at {at}, of an event that is gone");
        }
        // The same event twice, and what follows the last one.
        let mut twice = content();
        twice[COUNT_AT] = 2;
        twice.extend_from_within(ID_AT..);
        assert_eq!(restore(&twice), damaged);
        twice[LENGTH + 1] = b'b';
        assert_eq!(restore(&twice), Ok(()));
        assert_eq!(restore(&[&content()[..], &[0]].concat()), damaged);
        for length in 0..LENGTH {
            assert_eq!(restore(&content()[..length]), damaged, "cut to {length} bytes");
        }
        for short in [&b""[..], b"1234567"] {
            assert_eq!(session().restore(short), damaged);
        }
    }

    #[test]
    fn what_a_restart_interrupts_is_to_be_said_again() {
        for (said, kept) in [(0, 0), (2, 3), (3, 3), (4, 4), (5, 5)] {
            let mut content = content();
            content[PREPARE_AT] = said;
            content[RECOVERY_AT] = 1;
            content.extend(Hash::of(&content).to_le_bytes());
            let mut session = session();
            session.restore(&content).unwrap();
            let mut again = [0; 256];
            session.snapshot(&mut again).unwrap();
            let mut expected = content[..LENGTH].to_vec();
            (expected[PREPARE_AT], expected[RECOVERY_AT]) = (kept, 0);
            assert_eq!(again[..LENGTH], expected);
        }
    }
}
