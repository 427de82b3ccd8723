//! How a snapshot is written and read, and why one cannot be restored.
//!
//! # Format, version 4
//!
//! Numbers are little-endian. A text is a length byte and that many bytes of UTF-8. A time is an `i64`, the smallest number
//! if it is unknown.
//!
//! | content | type |
//! |---|---|
//! | `SEVS` | 4 bytes |
//! | version | `u8` |
//! | length of the whole snapshot, its checksum included | `u32` |
//! | hashes of the ids of the machine and of its boot, 0 if unknown | 2 × `u64` |
//! | whether an event was ever seen | `u8`, 0 or 1 |
//! | last attempt number | `u32` |
//! | since when the machine is out of service, unknown if it is not | time |
//! | when the last recovery of the machine succeeded | time |
//! | failed recoveries in a row | `u8` |
//! | since when the version of the API that has advice brings no document | time |
//! | how many polls of that version in a row brought none, at most 4; one in progress at the start counts | `u8` |
//! | number of approved events that are gone | `u16` |
//! | hashes of their ids, the oldest first | `u64` each |
//! | whether an event that is no longer tracked is still to be recovered from | `u8`, 0 or 1 |
//! | that event, if there is one | as below, without what follows its digest |
//! | number of events | `u16` |
//! | the events | see below |
//! | checksum of everything before it | `u64` |
//!
//! Each event:
//!
//! | content | type |
//! |---|---|
//! | `EventId`, `EventType` | texts |
//! | status | `u8`, a `TrackedStatus` |
//! | flags | `u8`, the bits of `Flags` |
//! | `NotBefore` in seconds | time |
//! | `DurationInSeconds`, the largest number if unknown | `u32` |
//! | digest of the other members | `u32` |
//! | first seen, in milliseconds | time |
//! | when this `NotBefore` was first seen, in seconds | time |
//! | changes that are not reported yet | `u16`, the bits of `Changes` |
//! | preparation | `u8`, a `PreparationState`; 16 more if it is by the last call, and the gate has not answered yes since |
//! | failed approvals in a row | `u8` |
//! | whether it is this machine's | `u8`, 0 or 1 |
//! | when it ended, if the recovery of this machine is also for it | time |
//! | since when the other machine is out of service | time |
//! | failed preparations in a row | `u8` |
//! | how long the last one took, in milliseconds | `u32` |
//!
//! Version 3, which is read as well, has nothing about the version that has advice, and neither of the last two.
//!
//! A file may start with a snapshot and go on with other data, which every reader of snapshots ignores. Magic number, version,
//! length and checksum are in every version.
//!
//! A command in progress is not part of a snapshot: a restart interrupts it, so it is issued again.

use core::fmt;

use crate::event_id::{EVENT_ID_MAX, EventId};
use crate::fixed_str;
use crate::hash::Hash;
use crate::session::event_progress::{EventProgress, PreparationState};
use crate::slice_writer::SliceWriter;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Changes, Flags, TYPE_MAX, TrackedEvent, TrackedStatus};

/// Why a snapshot cannot be restored.
///
/// ```
/// use scheduled_events_core::{Session, SessionConfig, SnapshotError, VmNames};
///
/// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
/// assert_eq!(session.restore(b"an empty or torn file"), Err(SnapshotError::Damaged));
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes are not a snapshot, or they are truncated or modified.
    Damaged,
    /// The version of the format is unknown: another version of this crate wrote the snapshot.
    UnknownVersion(u8),
    /// The snapshot contains more events than the session can track that must not be forgotten: a preparation or a recovery
    /// is pending for each.
    TooManyEvents,
    /// Another machine wrote the snapshot: the disk was cloned.
    OtherMachine,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => {
                f.write_str("the snapshot is damaged: its checksum or its content is invalid")
            }
            Self::UnknownVersion(version) => {
                write!(
                    f,
                    "the snapshot has version {version}, expected {VERSION_MIN} to {VERSION}"
                )
            }
            Self::TooManyEvents => {
                f.write_str("the snapshot contains more pending events than the session can track")
            }
            Self::OtherMachine => f.write_str("the snapshot is of another machine"),
        }
    }
}

impl core::error::Error for SnapshotError {}

pub(super) const MAGIC: &[u8; 4] = b"SEVS";
/// Any change of the bytes raises it.
pub(super) const VERSION: u8 = 4;
/// The oldest version that a session reads. It lacks what is known of the version that has advice, and what follows when the other
/// machine went out of service.
pub(super) const VERSION_MIN: u8 = 3;

/// This bit of the preparation: it is by the last call.
const BY_LAST_CALL: u8 = 16;

/// A time that is unknown.
pub(super) const NO_TIME: i64 = i64::MIN;

/// The length of everything but the events and the approved ids, with an event that is no longer tracked.
pub(super) const FRAME_BYTES: usize =
    MAGIC.len() + 1 + 4 + 8 + 8 + 1 + 4 + 8 + 8 + 1 + (8 + 1) + 2 + (1 + EVENT_BYTES_MAX) + 2 + 8;
/// The greatest length of an event, and the length of what a session keeps about it.
pub(super) const EVENT_BYTES_MAX: usize = (1 + EVENT_ID_MAX) + (1 + TYPE_MAX) + 1 + 1 + 8 + 4 + 4;
pub(super) const PROGRESS_BYTES: usize = 8 + 8 + 2 + 1 + 1 + 1 + 8 + 8 + 1 + 4;
pub(super) const APPROVED_ID_BYTES: usize = 8;

/// The length of magic number, version and length.
pub(super) const HEAD_BYTES: usize = MAGIC.len() + 1 + 4;

/// The length of the snapshot at the start of these bytes, as its head has it; `None` if it is not the start of a snapshot. The
/// bytes may have another length, and only [`Session::restore`](crate::Session::restore) checks the content.
///
/// ```
/// use scheduled_events_core::{Session, SessionConfig, VmNames, snapshot_length};
///
/// let session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
/// let mut file = vec![0; 1024]; // other data may follow the snapshot
/// let length = session.snapshot(&mut file)?;
/// assert_eq!(snapshot_length(&file), Some(length));
/// assert_eq!(snapshot_length(b"something else"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn snapshot_length(bytes: &[u8]) -> Option<usize> {
    let (head, _) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let (_, length) = head.strip_prefix(MAGIC)?.split_last_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

/// Writes and hashes what it writes.
pub(super) struct Writer<'b> {
    pub(super) out: SliceWriter<'b>,
    pub(super) hash: Hash,
}

impl Writer<'_> {
    pub(super) fn byte(&mut self, byte: u8) {
        self.out.byte(byte);
        self.hash.byte(byte);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(byte);
        }
    }

    pub(super) fn u16(&mut self, number: u16) {
        self.bytes(&number.to_le_bytes());
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    pub(super) fn i64(&mut self, number: i64) {
        self.bytes(&number.to_le_bytes());
    }

    pub(super) fn time(&mut self, time: Option<UnixMillis>) {
        self.i64(time.map_or(NO_TIME, |time| time.0));
    }

    /// A text of at most 255 bytes.
    pub(super) fn text(&mut self, text: &str) {
        self.byte(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.bytes(text.as_bytes());
    }

    pub(super) fn event(&mut self, event: &TrackedEvent) {
        self.text(event.event_id.as_str());
        self.text(&event.event_type);
        self.byte(event.status as u8);
        self.byte(event.flags.0);
        self.i64(event.not_before.0);
        self.u32(event.duration);
        self.u32(event.digest);
    }

    pub(super) fn progress(&mut self, progress: &EventProgress) {
        self.i64(progress.first_seen.0);
        self.i64(progress.noticed.0);
        self.u16(progress.changes.bits());
        self.byte(
            progress.preparation as u8
                | if progress.by_last_call {
                    BY_LAST_CALL
                } else {
                    0
                },
        );
        self.byte(progress.approval_failures);
        self.byte(u8::from(progress.own));
        self.time(progress.ended);
        self.time(progress.recovery.due_since);
        self.byte(progress.failed.count);
        self.u32(progress.failed.took);
    }
}

pub(super) fn known_time(time: i64) -> Option<UnixMillis> {
    (time != NO_TIME).then_some(UnixMillis(time))
}

/// Reads what [`Writer`] wrote; `None` for anything else.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl Reader<'_> {
    pub(super) fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (first, rest) = self.rest.split_first_chunk::<LENGTH>()?;
        self.rest = rest;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Option<&str> {
        let length = self.byte()?;
        let (text, rest) = self.rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        core::str::from_utf8(text).ok()
    }

    pub(super) fn event(&mut self) -> Option<TrackedEvent> {
        let event_id = EventId::from_str(self.text()?)?;
        let event_type = fixed_str::from_str(self.text()?)?;
        let status = match self.byte()? {
            0 => TrackedStatus::Unclear,
            1 => TrackedStatus::Scheduled,
            2 => TrackedStatus::Started,
            3 => TrackedStatus::Advisory,
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

    pub(super) fn progress(&mut self, version: u8) -> Option<EventProgress> {
        let mut progress = EventProgress::new(UnixMillis(self.i64()?), UnixSeconds(self.i64()?));
        progress.changes = Changes::from_bits(self.u16()?)?;
        let preparation = self.byte()?;
        progress.preparation = match preparation & !BY_LAST_CALL {
            0 => PreparationState::NotIssued,
            // A restart interrupts a preparation in progress.
            1 | 2 => PreparationState::Void,
            3 => PreparationState::Ready,
            4 => PreparationState::Failed,
            5 => PreparationState::Abandoned,
            _ => return None,
        };
        // Whether one that has to run again does so by the last call is decided then.
        let has_run = matches!(
            progress.preparation,
            PreparationState::Ready | PreparationState::Abandoned
        );
        progress.by_last_call = has_run && preparation & BY_LAST_CALL != 0;
        progress.approval_failures = self.byte()?;
        progress.own = self.flag()?;
        progress.ended = known_time(self.i64()?);
        progress.recovery.due_since = known_time(self.i64()?);
        if version > VERSION_MIN {
            progress.failed.count = self.byte()?;
            progress.failed.took = self.u32()?;
        }
        Some(progress)
    }
}
