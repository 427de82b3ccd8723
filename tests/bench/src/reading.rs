//! What every reader does with the fields it finds: the same as c/reading.h. A checksum over all fields shows that none was
//! left out, and is cheap compared with reading.

use scheduled_events_core::UnixSeconds;

/// The members that are read, in the order of the checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Member {
    EventId,
    EventType,
    ResourceType,
    Resources,
    EventStatus,
    NotBefore,
    Description,
    EventSource,
    DurationInSeconds,
}

impl Member {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "EventId" => Self::EventId,
            "EventType" => Self::EventType,
            "ResourceType" => Self::ResourceType,
            "Resources" => Self::Resources,
            "EventStatus" => Self::EventStatus,
            "NotBefore" => Self::NotBefore,
            "Description" => Self::Description,
            "EventSource" => Self::EventSource,
            "DurationInSeconds" => Self::DurationInSeconds,
            _ => return None,
        })
    }
}

/// The fields of one event, each as one number.
#[derive(Default)]
pub struct Record {
    fields: [u64; 9],
    seen: u16,
}

impl Record {
    /// Records that a member occurs; `None` when it occurs twice.
    pub fn first_time(&mut self, member: Member) -> Option<()> {
        let bit = 1 << member as u16;
        let first = self.seen & bit == 0;
        self.seen |= bit;
        first.then_some(())
    }

    pub fn keep(&mut self, member: Member, field: u64) {
        self.fields[member as usize] = field;
    }

    pub fn keep_text(&mut self, member: Member, text: &str) {
        self.keep(member, digest(text.as_bytes()));
    }

    /// Keeps `NotBefore`; `None` for an invalid date.
    pub fn keep_not_before(&mut self, text: &str) -> Option<()> {
        self.keep(Member::NotBefore, not_before(text)?.0 as u64);
        Some(())
    }

    pub fn fold_into(&self, sum: u64) -> u64 {
        self.fields.iter().fold(sum, |sum, field| fold(sum, *field))
    }
}

pub fn fold(sum: u64, field: u64) -> u64 {
    sum.rotate_left(5).wrapping_add(field)
}

/// A text's length, first and last byte.
pub fn digest(text: &[u8]) -> u64 {
    match text {
        [] => 0,
        [first, .., last] => text.len() as u64 | u64::from(*first) << 32 | u64::from(*last) << 40,
        [only] => 1 | u64::from(*only) << 32 | u64::from(*only) << 40,
    }
}

/// Parses a date with core, for every parser alike, since this benchmark is about JSON.
#[inline(never)]
pub fn not_before(text: &str) -> Option<UnixSeconds> {
    UnixSeconds::parse(text)
}

/// The same for C.
///
/// # Safety
/// `text` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bench_not_before(text: *const u8, length: usize) -> i64 {
    // SAFETY: the caller guarantees it, and NULL comes with length 0.
    let text = if length == 0 {
        &[]
    } else {
        unsafe { core::slice::from_raw_parts(text, length) }
    };
    // SAFETY: all dates in the documents of this benchmark are ASCII: see documents and strictness.
    let text = unsafe { core::str::from_utf8_unchecked(text) };
    not_before(text).map_or(i64::MIN, |moment| moment.0)
}
