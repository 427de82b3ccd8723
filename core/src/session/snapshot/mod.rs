//! What survives a restart: the tracked events, what the session keeps about each, and which events were approved.

mod format;

pub use format::{SnapshotError, snapshot_length};

use super::command::Attempts;
use super::event_progress::{EventProgress, PreparationState};
use super::{Session, SessionSource, WouldPrepare};
use crate::error::BufferTooSmall;
use crate::hash::Hash;
use crate::slice_writer::SliceWriter;
use crate::tracker::{Flags, TrackedEvent};
use format::{
    APPROVED_ID_BYTES, EVENT_BYTES_MAX, FRAME_BYTES, HEAD_BYTES, MAGIC, PROGRESS_BYTES, Reader,
    VERSION, VERSION_MIN, Writer, known_time,
};

impl<const N: usize> Session<N> {
    /// The greatest length of a snapshot, in bytes.
    pub const SNAPSHOT_MAX: usize =
        FRAME_BYTES + N * (EVENT_BYTES_MAX + PROGRESS_BYTES + APPROVED_ID_BYTES);

    /// Writes a snapshot to the start of `buffer` and returns its length, about a hundred bytes per event and at most
    /// [`SNAPSHOT_MAX`](Self::SNAPSHOT_MAX).
    ///
    /// Store one if the session [`is_changed`](Self::is_changed), before you do what a [`Step`](crate::Step) asks. Other data
    /// may follow it.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the length of the snapshot.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// let config = SessionConfig::new(VmNames::UNKNOWN);
    /// let mut session = Session::<16>::new(&config)?;
    /// let mut buffer = vec![0; Session::<16>::SNAPSHOT_MAX];
    /// if session.is_changed() {
    ///     let length = session.snapshot(&mut buffer)?;
    ///     // Write the file here.
    ///     session.saved();
    ///     assert!(length < 100);
    /// }
    /// assert!(!session.is_changed());
    ///
    /// // After a restart.
    /// let mut session = Session::<16>::new(&config)?;
    /// session.restore(&buffer)?;
    /// assert!(!session.is_changed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        self.write_snapshot(None, buffer)
    }

    /// Writes the snapshot of the session as it is, or as it would be.
    pub(super) fn write_snapshot(
        &self,
        ahead: Option<&WouldPrepare<'_, N>>,
        buffer: &mut [u8],
    ) -> Result<usize, BufferTooSmall> {
        let needed = self.write(ahead, &mut [], 0).0;
        let length = self.write(ahead, buffer, needed).0;
        if length <= buffer.len() {
            Ok(length)
        } else {
            Err(BufferTooSmall { needed: length })
        }
    }

    /// Whether a snapshot would differ from the one that was stored last, so that it is worth storing: the one that was
    /// restored, or the state at the time of [`saved`](Self::saved). It is true for a new session.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
    /// assert!(session.is_changed()); // it was never stored
    /// session.saved();
    /// assert!(!session.is_changed());
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn is_changed(&self) -> bool {
        self.saved != Some(self.checksum())
    }

    /// Records that a snapshot of the session as it is now was stored.
    ///
    /// ```
    /// use scheduled_events_core::{Session, SessionConfig, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::UNKNOWN))?;
    /// session.saved();
    /// assert!(!session.is_changed());
    /// # Ok::<(), scheduled_events_core::SessionConfigError>(())
    /// ```
    pub fn saved(&mut self) {
        self.saved = Some(self.checksum());
    }

    /// The checksum of the snapshot.
    fn checksum(&self) -> u64 {
        self.write(None, &mut [], self.write(None, &mut [], 0).0).1
    }

    /// Writes as much of the snapshot as fits, with this length in its head. Returns the length that it needs, and its
    /// checksum.
    #[inline(never)] // It is called in several places.
    fn write(
        &self,
        ahead: Option<&WouldPrepare<'_, N>>,
        buffer: &mut [u8],
        length: usize,
    ) -> (usize, u64) {
        let machine = ahead.map_or(&self.machine, |ahead| &ahead.machine);
        let attempts = ahead.map_or(self.attempts, |ahead| ahead.attempts);
        let mut writer = Writer {
            out: SliceWriter::new(buffer),
            hash: Hash::new(),
        };
        writer.bytes(MAGIC);
        writer.byte(VERSION);
        writer.u32(u32::try_from(length).unwrap_or(u32::MAX));
        writer.u64(self.machine_id);
        writer.u64(self.boot_id);
        writer.byte(u8::from(self.event_seen));
        writer.u32(attempts.0);
        writer.time(machine.due_since);
        writer.time(self.recovered_at);
        writer.byte(machine.failures);
        let (unseen_since, misses) = self.versions.unseen();
        writer.time(unseen_since);
        writer.byte(misses);
        writer.u16(u16::try_from(self.approved_ids.len()).unwrap_or(u16::MAX));
        for hash in self.approved_ids.iter() {
            writer.u64(hash);
        }
        writer.byte(u8::from(self.last_ended.is_some()));
        if let Some(event) = &self.last_ended {
            writer.event(event);
        }
        writer.u16(u16::try_from(self.tracker.len()).unwrap_or(u16::MAX));
        for (slot, event, progress) in self.tracked() {
            let changed = ahead.filter(|ahead| ahead.slot == slot);
            writer.event(event);
            writer.progress(changed.map_or(progress, |ahead| &ahead.progress));
        }
        let checksum = writer.hash.finish();
        writer.u64(checksum);
        (writer.out.length(), checksum)
    }

    /// Continues from the snapshot at the start of `bytes`. Policy, names and pacing remain as configured.
    ///
    /// Steps whose result is not in the snapshot are issued again: a preparation or a recovery in progress, and a change
    /// that was not reported. Nothing is approved before a document confirms that the event is still `Scheduled`, and
    /// nothing is recovered before a document shows what keeps the machine out of service. If the machine was rebooted since,
    /// as [`SessionConfig::boot_id`](crate::SessionConfig::boot_id) shows, what was ready and not approved is prepared for
    /// again.
    ///
    /// A session with another [`source`](crate::SessionConfig::source) may have written the snapshot. Its events end as this
    /// session learns it: without documents, only by a notification.
    ///
    /// A session with a greater `N` may have written the snapshot. Of more than `N` events, those with a preparation or a
    /// recovery are tracked, then this machine's own with the earliest deadlines, then others. The next document counts the rest
    /// as [`Untracked`](crate::Untracked).
    ///
    /// # Errors
    /// [`SnapshotError`] for bytes that no session of this machine wrote. The session is empty then, as after
    /// [`new`](Self::new).
    ///
    /// ```
    /// use scheduled_events_core::{Document, Response, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let config = SessionConfig::new(VmNames::new(&["vm"]));
    /// let now = UnixMillis(1_600_000_000_000);
    /// let mut before = Session::<16>::new(&config)?;
    /// assert!(matches!(before.take_step(now), Step::Get { .. }));
    /// let body = br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","Resources":["vm"]}]}"#;
    /// before.on_response(&Response { status: 200, body, ..Response::default() }, now);
    /// let mut snapshot = vec![0; Session::<16>::SNAPSHOT_MAX];
    /// before.snapshot(&mut snapshot)?;
    ///
    /// let mut after = Session::<16>::new(&config)?;
    /// after.restore(&snapshot)?;
    /// assert!(after.has_seen_event());
    /// assert_eq!(after.events().next().unwrap().event_id().as_str(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.reset();
        let result = self.read_snapshot(bytes);
        if result.is_err() {
            self.reset();
        }
        let has_advice = self.events().any(TrackedEvent::is_advice);
        self.versions.has_worked |= has_advice;
        result
    }

    fn read_snapshot(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let damaged = SnapshotError::Damaged;
        let snapshot = bytes
            .get(..snapshot_length(bytes).ok_or(damaged)?)
            .ok_or(damaged)?;
        let (content, checksum) = snapshot.split_last_chunk::<8>().ok_or(damaged)?;
        let checksum = u64::from_le_bytes(*checksum);
        if Hash::of(content) != checksum {
            return Err(damaged);
        }
        let (head, rest) = content.split_at_checked(HEAD_BYTES).ok_or(damaged)?;
        let version = *head.get(MAGIC.len()).ok_or(damaged)?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let mut reader = Reader { rest };
        let (machine_id, boot_id) = reader.u64().zip(reader.u64()).ok_or(damaged)?;
        let differ = |one, other| one != 0 && other != 0 && one != other;
        if differ(machine_id, self.machine_id) {
            return Err(SnapshotError::OtherMachine);
        }
        let was_rebooted = differ(boot_id, self.boot_id);
        if self.machine_id == 0 {
            self.machine_id = machine_id;
        }
        let count = self.read_head(&mut reader, version).ok_or(damaged)?;
        for _ in 0..count {
            let (mut event, mut progress) = reader
                .event()
                .zip(reader.progress(version))
                .ok_or(damaged)?;
            if self.source != SessionSource::Both {
                // No document is awaited that lets go of it.
                event.flags.set(Flags::END_NOTIFIED, false);
            }
            let repeated = self.tracker.find(&event.event_id).is_some();
            if repeated || progress.changes.has_end() && !event.is_gone() {
                return Err(damaged);
            }
            if was_rebooted
                && progress.preparation == PreparationState::Ready
                && !event.is_approved()
            {
                progress.void_preparation();
            }
            if self.make_space(&event, &progress)? {
                let slot = self
                    .tracker
                    .place(event)
                    .ok_or(SnapshotError::TooManyEvents)?;
                self.set_progress(slot, progress);
            }
        }
        // A machine that is out of service has an event to recover from, some time; one that is in service has none.
        let has_ended = self.last_ended.is_some()
            || self
                .tracked()
                .any(|(_, _, progress)| progress.ended.is_some());
        let is_kept_out = || {
            self.tracked()
                .any(|(_, event, progress)| progress.keeps_out(event))
        };
        let is_consistent = if self.machine.is_due() {
            has_ended || is_kept_out()
        } else {
            !has_ended
        };
        if !reader.rest.is_empty() || !is_consistent {
            return Err(damaged);
        }
        self.saved = Some(checksum);
        self.is_restored = true;
        Ok(())
    }

    /// Makes space for a restored event: stops tracking the one that matters least, which may be the restored one. Returns
    /// whether that is to be tracked.
    fn make_space(
        &mut self,
        event: &TrackedEvent,
        progress: &EventProgress,
    ) -> Result<bool, SnapshotError> {
        if self.tracker.len() < N {
            return Ok(true);
        }
        let least = self
            .tracked()
            .filter_map(|(slot, known, progress)| Some((progress.dispensability(known)?, slot)))
            .max();
        match (progress.dispensability(event), least) {
            (Some(rank), least) if least.is_none_or(|(highest, _)| rank >= highest) => {
                if event.is_approved() {
                    self.approved_ids.insert(event.event_id.hash());
                }
                // The recovery is for it all the same.
                if progress.ended.is_some() {
                    self.last_ended = Some(event.clone());
                }
                Ok(false)
            }
            (_, Some((_, slot))) => {
                self.evict(slot);
                Ok(true)
            }
            _ if self.evict_ended() => Ok(true),
            _ => Err(SnapshotError::TooManyEvents),
        }
    }

    /// Reads what precedes the events, and returns their number.
    fn read_head(&mut self, reader: &mut Reader<'_>, version: u8) -> Option<u16> {
        self.event_seen = reader.flag()?;
        self.attempts = Attempts(reader.u32()?);
        self.machine.due_since = known_time(reader.i64()?);
        self.recovered_at = known_time(reader.i64()?);
        self.machine.failures = reader.byte()?;
        if version > VERSION_MIN {
            self.versions
                .resume(known_time(reader.i64()?), reader.byte()?)?;
        }
        for _ in 0..reader.u16()? {
            self.approved_ids.insert(reader.u64()?);
        }
        self.last_ended = if reader.flag()? {
            Some(reader.event()?)
        } else {
            None
        };
        reader.u16()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::event_id::{EVENT_ID_MAX, EventId};
    use crate::fixed_str;
    use crate::names::VmNames;
    use crate::session::SessionConfig;
    use crate::time::{UnixMillis, UnixSeconds};
    use crate::tracker::{TYPE_MAX, TrackedStatus};

    /// Offsets in a snapshot of one event whose id is `a` and whose type is empty.
    const VERSION_AT: usize = 4;
    const LENGTH_AT: usize = 5;
    const MACHINE_AT: usize = LENGTH_AT + 4;
    const SEEN_AT: usize = MACHINE_AT + 8 + 8;
    const OUT_AT: usize = SEEN_AT + 1 + 4;
    const MISSES_AT: usize = OUT_AT + 8 + 8 + 1 + 8;
    const APPROVED_AT: usize = MISSES_AT + 1;
    const LAST_ENDED_AT: usize = APPROVED_AT + 2;
    const COUNT_AT: usize = LAST_ENDED_AT + 1;
    const ID_AT: usize = COUNT_AT + 2;
    const TYPE_AT: usize = ID_AT + 2;
    const STATUS_AT: usize = TYPE_AT + 1;
    const FLAGS_AT: usize = STATUS_AT + 1;
    const CHANGES_AT: usize = FLAGS_AT + 1 + 8 + 4 + 4 + 8 + 8;
    const PREPARATION_AT: usize = CHANGES_AT + 2;
    const FAILURES_AT: usize = PREPARATION_AT + 1;
    const OWN_AT: usize = FAILURES_AT + 1;
    const ENDED_AT: usize = OWN_AT + 1;
    const FAILED_AT: usize = ENDED_AT + 8 + 8;
    const LENGTH: usize = FAILED_AT + 1 + 4;

    fn session() -> Session<2> {
        Session::new(&SessionConfig::new(VmNames::UNKNOWN)).unwrap()
    }

    fn event(id: &str, event_type: &str) -> TrackedEvent {
        TrackedEvent {
            event_id: EventId::from_str(id).unwrap(),
            event_type: fixed_str::from_str(event_type).unwrap(),
            status: TrackedStatus::Scheduled,
            flags: Flags::default(),
            not_before: UnixSeconds(7),
            duration: 5,
            digest: 3,
        }
    }

    /// A snapshot of one event, without its checksum.
    fn content() -> Vec<u8> {
        let mut session = session();
        let slot = session.tracker.place(event("a", "")).unwrap();
        session.set_progress(slot, EventProgress::new(UnixMillis(0), UnixSeconds(0)));
        let mut buffer = [0; 256];
        let length = session.snapshot(&mut buffer).unwrap();
        assert_eq!(length, LENGTH + 8);
        buffer[..LENGTH].to_vec()
    }

    #[test]
    fn the_longest_snapshot_has_the_length_that_is_documented() {
        const LONGEST: usize = Session::<2>::SNAPSHOT_MAX;
        let mut session = session();
        for letter in ["a", "b"] {
            let event = event(&letter.repeat(EVENT_ID_MAX), &letter.repeat(TYPE_MAX));
            let slot = session.tracker.place(event).unwrap();
            session.set_progress(slot, EventProgress::new(UnixMillis(0), UnixSeconds(0)));
            session.approved_ids.insert(Hash::of(letter.as_bytes()));
        }
        session.last_ended = Some(event(&"c".repeat(EVENT_ID_MAX), &"c".repeat(TYPE_MAX)));
        assert_eq!(session.snapshot(&mut [0; LONGEST]), Ok(LONGEST));
        assert_eq!(
            session.snapshot(&mut [0; LONGEST - 1]),
            Err(BufferTooSmall { needed: LONGEST })
        );
    }

    /// The content with its length and its checksum.
    fn sealed(content: &[u8]) -> Vec<u8> {
        let mut content = content.to_vec();
        let length = u32::try_from(content.len() + 8).unwrap();
        if let Some(place) = content.get_mut(LENGTH_AT..LENGTH_AT + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        content.extend(Hash::of(&content).to_le_bytes());
        content
    }

    fn restore(content: &[u8]) -> Result<(), SnapshotError> {
        let whole = sealed(content);
        let mut session = session();
        let result = session.restore(&whole);
        if result.is_err() {
            assert!(session.tracker.is_empty() && !session.event_seen);
        } else {
            // The same is written again, except for what a restart interrupts.
            let mut again = [0; 512];
            let length = session.snapshot(&mut again).unwrap();
            assert_eq!(length, whole.len());
        }
        result
    }

    #[test]
    fn invalid_content_is_refused_even_with_a_valid_checksum() {
        let damaged = Err(SnapshotError::Damaged);
        let gone = Flags::GONE;
        for (at, bytes, expected) in [
            (VERSION_AT, &[4][..], Ok(())),
            (VERSION_AT, &[2], Err(SnapshotError::UnknownVersion(2))),
            // Version 3 has less.
            (VERSION_AT, &[3], damaged),
            (VERSION_AT, &[5], Err(SnapshotError::UnknownVersion(5))),
            (MACHINE_AT, &[7], Ok(())),
            (SEEN_AT, &[1], Ok(())),
            (SEEN_AT, &[2], damaged),
            // Out of service, and nothing to recover from.
            (OUT_AT, &[7, 0, 0, 0, 0, 0, 0, 0], damaged),
            (MISSES_AT, &[4], Ok(())),
            (MISSES_AT, &[5], damaged),
            (APPROVED_AT, &[1, 0], damaged),
            (LAST_ENDED_AT, &[2], damaged),
            (COUNT_AT, &[0, 0], damaged),
            (COUNT_AT, &[2, 0], damaged),
            (COUNT_AT, &[0, 1], damaged),
            (ID_AT, &[65], damaged),
            (ID_AT, &[255], damaged),
            (ID_AT, &[1, 0xff], damaged),
            (TYPE_AT, &[29], damaged),
            (STATUS_AT, &[0], Ok(())),
            (STATUS_AT, &[2], Ok(())),
            (STATUS_AT, &[3], Ok(())),
            (STATUS_AT, &[4], damaged),
            (FLAGS_AT, &[63], Ok(())),
            // An end that was reported is an end.
            (FLAGS_AT, &[64], Ok(())),
            (FLAGS_AT, &[128], damaged),
            (FLAGS_AT, &[128 + 32], Ok(())),
            (CHANGES_AT, &[0], Ok(())),
            (CHANGES_AT, &[0b1_1111], Ok(())),
            // An end is reported only for a gone event.
            (CHANGES_AT, &[0b10_0000], damaged),
            (CHANGES_AT, &[0b1000_0000], damaged),
            (CHANGES_AT, &[0, 0b1], Ok(())),
            (CHANGES_AT, &[0, 0b10], damaged),
            (CHANGES_AT, &[0, 0b100], damaged),
            (PREPARATION_AT, &[1], Ok(())),
            (PREPARATION_AT, &[2], Ok(())),
            (PREPARATION_AT, &[3], Ok(())),
            (PREPARATION_AT, &[4], Ok(())),
            (PREPARATION_AT, &[5], Ok(())),
            (PREPARATION_AT, &[16 + 3], Ok(())),
            (PREPARATION_AT, &[6], damaged),
            (PREPARATION_AT, &[32 + 3], damaged),
            (FAILURES_AT, &[255], Ok(())),
            (FAILED_AT, &[255, 255, 255, 255, 255], Ok(())),
            (OWN_AT, &[1], Ok(())),
            (OWN_AT, &[2], damaged),
            // In service, and something to recover from.
            (ENDED_AT, &[7, 0, 0, 0, 0, 0, 0, 0], damaged),
        ] {
            let mut changed = content();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(restore(&changed), expected, "{bytes:?} at {at}");
        }
        let bits = [
            (CHANGES_AT, 0b10_0000),
            (CHANGES_AT, 0b1000_0000),
            (CHANGES_AT, 0),
        ];
        for (at, byte) in bits
            .into_iter()
            .chain([(PREPARATION_AT, 4), (PREPARATION_AT, 0)])
        {
            let mut changed = content();
            changed[FLAGS_AT] = gone;
            changed[at] = byte;
            assert_eq!(restore(&changed), Ok(()), "{byte} at {at}, of a gone event");
        }
        // The same event twice, and bytes after the last event.
        let mut twice = content();
        twice[COUNT_AT] = 2;
        twice.extend_from_within(ID_AT..);
        assert_eq!(restore(&twice), damaged);
        twice[LENGTH + 1] = b'b';
        assert_eq!(restore(&twice), Ok(()));
        // Out of service for an event that ended, or for one that is open and was prepared for.
        for reason in [(ENDED_AT, 7), (PREPARATION_AT, 3)] {
            let mut out = content();
            out[OUT_AT..OUT_AT + 8].fill(0);
            (out[OWN_AT], out[reason.0]) = (1, reason.1);
            assert_eq!(restore(&out), Ok(()), "{reason:?}");
        }
        assert_eq!(restore(&[&content()[..], &[0]].concat()), damaged);
        for length in 0..LENGTH {
            assert_eq!(
                restore(&content()[..length]),
                damaged,
                "cut to {length} bytes"
            );
        }
        for short in [&b""[..], b"1234567"] {
            assert_eq!(session().restore(short), damaged);
        }
    }

    #[test]
    fn a_snapshot_of_version_3_is_read() {
        let mut old = content();
        old[VERSION_AT] = 3;
        old[PREPARATION_AT] = 4;
        old.truncate(FAILED_AT);
        old.drain(MISSES_AT - 8..=MISSES_AT);
        let mut session = session();
        session.restore(&sealed(&old)).unwrap();
        // It is written with what it lacked: nothing is known about what failed.
        let mut again = [0; 256];
        let length = session.snapshot(&mut again).unwrap();
        assert_eq!(length, LENGTH + 8);
        assert_eq!(again[FAILED_AT..LENGTH], [0; 5]);
    }

    #[test]
    fn what_follows_a_snapshot_is_ignored() {
        let whole = sealed(&content());
        let mut session = session();
        assert_eq!(session.restore(&[&whole[..], b"and more"].concat()), Ok(()));
        assert_eq!(session.tracker.len(), 1);
        for length in 0..whole.len() {
            assert_eq!(
                session.restore(&whole[..length]),
                Err(SnapshotError::Damaged),
                "{length} bytes"
            );
        }
        for claimed in [
            0,
            8,
            HEAD_BYTES + 7,
            whole.len() - 1,
            whole.len() + 1,
            usize::MAX,
        ] {
            let mut other = [&whole[..], b"and more"].concat();
            other[LENGTH_AT..MACHINE_AT].copy_from_slice(&claimed.to_le_bytes()[..4]);
            assert_eq!(
                session.restore(&other),
                Err(SnapshotError::Damaged),
                "{claimed}"
            );
        }
    }

    #[test]
    fn a_session_is_changed_until_it_was_saved() {
        let mut session = session();
        assert!(session.is_changed());
        session.saved();
        assert!(!session.is_changed());
        session.event_seen = true;
        assert!(session.is_changed());
        let mut buffer = [0; 256];
        let length = session.snapshot(&mut buffer).unwrap();
        assert!(
            session.is_changed(),
            "a snapshot that was taken is not stored yet"
        );
        session.restore(&buffer[..length]).unwrap();
        assert!(!session.is_changed());
        session.restore(b"damaged").unwrap_err();
        assert!(session.is_changed());
    }

    #[test]
    fn a_preparation_in_progress_is_restored_as_void() {
        for (written, restored) in [(0, 0), (1, 2), (2, 2), (3, 3), (4, 4)] {
            let mut content = content();
            content[PREPARATION_AT] = written;
            let content = sealed(&content);
            let mut session = session();
            session.restore(&content).unwrap();
            // What is not what the file has is worth storing.
            assert_eq!(session.is_changed(), written != restored);
            let mut again = [0; 256];
            session.snapshot(&mut again).unwrap();
            let mut expected = content[..LENGTH].to_vec();
            expected[PREPARATION_AT] = restored;
            assert_eq!(again[..LENGTH], expected);
        }
    }
}
