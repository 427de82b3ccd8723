//! What changed between one document and the next.

use std::ffi::{CStr, c_char, c_void};

use scheduled_events_core::{Change, EventId, TrackedEvent, TrackedStatus, Tracker, UnixSeconds};

use crate::boundary::{Result, boundary, value_boundary};
use crate::document::{held_document, schedev_document};
use crate::event::schedev_event_status::{
    SCHEDEV_EVENT_STATUS_OTHER, SCHEDEV_EVENT_STATUS_SCHEDULED, SCHEDEV_EVENT_STATUS_STARTED,
};
use crate::memory::{Flag, check, input, optional_output, output};
use crate::names::{schedev_names, with_names};
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_MEMORY_TOO_SMALL, SCHEDEV_ERROR_NULL,
    SCHEDEV_ERROR_TRACKER_FULL, SCHEDEV_ERROR_UNKNOWN_EVENT,
};
use crate::text::schedev_text;

/// The most events that a tracker remembers.
pub const SCHEDEV_TRACKER_EVENTS_MAX: usize = 256;

/// A change in the life of one event. SCHEDULED or STARTED_WITHOUT_NOTICE comes first; then RESCHEDULED and UPDATED, any
/// number of times; STARTED at most once, after SCHEDULED; and one of COMPLETED, CANCELLED and ENDED last.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_change {
    /// Seen for the first time, not started yet.
    SCHEDEV_CHANGE_SCHEDULED = 1,
    /// Under way, and seen scheduled before.
    SCHEDEV_CHANGE_STARTED = 2,
    /// Under way when it was first seen, as after a hardware failure.
    SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE = 3,
    /// NotBefore moved.
    SCHEDEV_CHANGE_RESCHEDULED = 4,
    /// Another member changed.
    SCHEDEV_CHANGE_UPDATED = 5,
    /// It was under way, and is gone.
    SCHEDEV_CHANGE_COMPLETED = 6,
    /// It was scheduled, not approved, NotBefore still ahead, and is gone.
    SCHEDEV_CHANGE_CANCELLED = 7,
    /// It was scheduled, approved or past NotBefore, and is gone: whether it happened cannot be told.
    SCHEDEV_CHANGE_ENDED = 8,
}

use schedev_change::*;

const CHANGES: [(schedev_change, Change, &CStr); 8] = [
    (SCHEDEV_CHANGE_SCHEDULED, Change::Scheduled, c"scheduled"),
    (SCHEDEV_CHANGE_STARTED, Change::Started, c"started"),
    (SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE, Change::StartedWithoutNotice, c"started-without-notice"),
    (SCHEDEV_CHANGE_RESCHEDULED, Change::Rescheduled, c"rescheduled"),
    (SCHEDEV_CHANGE_UPDATED, Change::Updated, c"updated"),
    (SCHEDEV_CHANGE_COMPLETED, Change::Completed, c"completed"),
    (SCHEDEV_CHANGE_CANCELLED, Change::Cancelled, c"cancelled"),
    (SCHEDEV_CHANGE_ENDED, Change::Ended, c"ended"),
];

pub(crate) fn change_number(change: Change) -> u32 {
    CHANGES.iter().find(|(_, known, _)| *known == change).map_or(0, |(number, ..)| *number as u32)
}

/// A schedev_change as a word: "started-without-notice".
///
/// @param change  a schedev_change, or any other number.
/// @return a constant text that ends with NUL; "unknown" for a number that has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_change_word(change: u32) -> *const c_char {
    let known = CHANGES.iter().find(|(number, ..)| *number as u32 == change);
    known.map_or(c"unknown", |(_, _, word)| word).as_ptr()
}

/// What is remembered of an event after its document is gone. Its texts view the memory of the tracker or the session
/// that it comes from, and are good until that is told or asked the next thing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_tracked_event {
    /// The event's id, as it was first spelt. Of an id beyond SCHEDEV_EVENT_ID_MAX_BYTES it is the beginning and a hash.
    pub event_id: schedev_text,
    /// The event's type as the wire spells it, at most 28 bytes of it; empty where the event names none.
    pub event_type_text: schedev_text,
    /// The last NotBefore that was known, in seconds since 1970-01-01T00:00:00Z, if has_not_before. Documents blank it
    /// when the event starts.
    pub not_before_seconds: i64,
    /// The last expected interruption, if has_duration.
    pub duration_seconds: u32,
    /// A schedev_event_status; SCHEDEV_EVENT_STATUS_OTHER also where it never had one. It never goes back from started.
    pub event_status: u32,
    /// Whether NotBefore was ever known.
    pub has_not_before: Flag,
    /// Whether the duration is known.
    pub has_duration: Flag,
    /// Whether it is known if the event concerns this machine; it is not while the names are unknown.
    pub has_mine: Flag,
    /// Whether the event concerns this machine, if has_mine.
    pub mine: Flag,
    /// Whether an approval of the event succeeded.
    pub approved: Flag,
}

impl schedev_tracked_event {
    pub(crate) const NONE: Self = Self {
        event_id: schedev_text::NONE,
        event_type_text: schedev_text::NONE,
        not_before_seconds: 0,
        duration_seconds: 0,
        event_status: 0,
        has_not_before: Flag::new(false),
        has_duration: Flag::new(false),
        has_mine: Flag::new(false),
        mine: Flag::new(false),
        approved: Flag::new(false),
    };

    pub(crate) fn of(event: &TrackedEvent) -> Self {
        let status = match event.status() {
            TrackedStatus::Scheduled => SCHEDEV_EVENT_STATUS_SCHEDULED,
            TrackedStatus::Started => SCHEDEV_EVENT_STATUS_STARTED,
            TrackedStatus::Unclear => SCHEDEV_EVENT_STATUS_OTHER,
        };
        Self {
            event_id: schedev_text::plain(event.event_id().as_str()),
            event_type_text: schedev_text::plain(event.event_type()),
            not_before_seconds: event.not_before().map_or(0, |moment| moment.0),
            duration_seconds: event.duration_in_seconds().unwrap_or(0),
            event_status: status as u32,
            has_not_before: Flag::new(event.not_before().is_some()),
            has_duration: Flag::new(event.duration_in_seconds().is_some()),
            has_mine: Flag::new(event.mine().is_some()),
            mine: Flag::new(event.mine() == Some(true)),
            approved: Flag::new(event.is_approved()),
        }
    }
}

/// Remembers the events of the last document and tells what the next one changes. It lives in memory that the caller
/// hands over; there is nothing to free. A session has its own: this is for hosts that do everything else themselves.
pub struct schedev_tracker {
    tag: u64,
    tracker: Tracker<SCHEDEV_TRACKER_EVENTS_MAX>,
}

const TAG: u64 = 0x7472_6163_6b65_7221;

/// Where an object of type `T` starts in memory that a caller hands over: at the first aligned byte. The object is never
/// dropped, which loses nothing: core owns no resources.
///
/// # Safety
/// `memory` is NULL, or points to `size` bytes that the caller can write.
pub(crate) unsafe fn place_in<T>(memory: *mut c_void, size: usize) -> Result<*mut T> {
    if memory.is_null() {
        return Err(SCHEDEV_ERROR_NULL);
    }
    let start = memory.cast::<u8>().align_offset(align_of::<T>());
    if start.checked_add(size_of::<T>()).is_none_or(|end| end > size) {
        return Err(SCHEDEV_ERROR_MEMORY_TOO_SMALL);
    }
    // SAFETY: `start` lies within the `size` bytes, checked above.
    Ok(unsafe { memory.cast::<u8>().add(start) }.cast())
}

/// The bytes that `place_in` asks for, wherever the memory starts.
pub(crate) const fn size_in<T>() -> usize {
    size_of::<T>() + align_of::<T>() - 1
}

/// The event id that a text spells.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn event_id(text: schedev_text) -> Result<EventId> {
    // SAFETY: the caller's promise is the same.
    Ok(EventId::new(&unsafe { text.read() }?))
}

/// Told of each change by schedev_tracker_observe(). It must return normally: neither longjmp() nor an exception may
/// leave it; and it must not call functions with the same tracker.
///
/// @param context  what was passed to schedev_tracker_observe().
/// @param change   a schedev_change.
/// @param event    what is now known of the event, good until the callback returns.
pub type schedev_change_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, change: u32, event: *const schedev_tracked_event)>;

/// The bytes of memory that a tracker takes, wherever that memory starts.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_tracker_size() -> usize {
    size_in::<schedev_tracker>()
}

/// Makes a tracker that has seen nothing.
///
/// @param memory   where it is to live, at any alignment; it must not move while the tracker is used.
/// @param size     the bytes there, at least schedev_tracker_size().
/// @param tracker  receives the tracker, which lies in that memory.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_init(
    memory: *mut c_void,
    size: usize,
    tracker: *mut *mut schedev_tracker,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (place, tracker) = unsafe { (place_in::<schedev_tracker>(memory, size)?, output(tracker)?) };
        // SAFETY: `place_in` found room for it.
        unsafe { place.write(schedev_tracker { tag: TAG, tracker: Tracker::new() }) };
        tracker.write(place);
        Ok(())
    })
}

/// The tracker behind the pointer.
///
/// # Safety
/// The conventions of the header.
unsafe fn open<'a>(tracker: *const schedev_tracker) -> Result<&'a schedev_tracker> {
    // SAFETY: the caller's promise is the same. The tag comes first to be read, before anything relies on the rest.
    unsafe {
        check(tracker)?;
        if (&raw const (*tracker).tag).read() != TAG {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        input(tracker)
    }
}

/// The tracker behind the pointer, to be changed.
///
/// # Safety
/// The conventions of the header.
unsafe fn open_mut<'a>(tracker: *mut schedev_tracker) -> Result<&'a mut schedev_tracker> {
    // SAFETY: the caller's promise is the same; a pointer that is not const is the caller's alone during the call.
    unsafe {
        open(tracker)?;
        Ok(&mut *tracker)
    }
}

/// Takes a document and tells each change: those of known events first, then those that are gone, then new ones.
///
/// Give it documents only: a failed poll, an empty body or a 304 says nothing, so it ends nothing.
///
/// @param tracker      the tracker.
/// @param document     the newest document.
/// @param names        the names of this machine; NULL where they are unknown.
/// @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z.
/// @param on_change    told of each change; may be NULL.
/// @param context      passed on to on_change.
/// @param needed       receives how many events the document holds where they are too many; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TRACKER_FULL beyond SCHEDEV_TRACKER_EVENTS_MAX events, and then nothing is changed
///         and nothing told; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a tracker or document that was not
///         initialised; SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_observe(
    tracker: *mut schedev_tracker,
    document: *const schedev_document,
    names: *const schedev_names,
    now_seconds: i64,
    on_change: schedev_change_callback,
    context: *mut c_void,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        unsafe {
            let (tracker, document, needed) = (open_mut(tracker)?, held_document(document)?, optional_output(needed)?);
            let tell = |change, event: &TrackedEvent| {
                if let Some(on_change) = on_change {
                    let known = schedev_tracked_event::of(event);
                    on_change(context, change_number(change), &raw const known);
                }
            };
            let now = UnixSeconds(now_seconds);
            let observed = with_names(names, |names| tracker.tracker.observe(&document.view, names, now, tell))?;
            observed.map(|_| ()).map_err(|full| {
                needed.write(full.needed);
                SCHEDEV_ERROR_TRACKER_FULL
            })
        }
    })
}

/// Notes that an approval of this event succeeded, by which CANCELLED and ENDED are told apart.
///
/// @param tracker   the tracker.
/// @param event_id  the event's id.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a tracker that was
///         not initialised; SCHEDEV_ERROR_UTF8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_approved(
    tracker: *mut schedev_tracker,
    event_id: schedev_text,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (tracker, id) = unsafe { (open_mut(tracker)?, self::event_id(event_id)?) };
        if tracker.tracker.approved(&id) { Ok(()) } else { Err(SCHEDEV_ERROR_UNKNOWN_EVENT) }
    })
}

/// How many events are tracked.
///
/// @param tracker  the tracker.
/// @return the count; 0 for NULL, or for a tracker that was not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_event_count(tracker: *const schedev_tracker) -> usize {
    value_boundary(0, || {
        // SAFETY: the conventions of the header.
        Ok(unsafe { open(tracker) }?.tracker.len())
    })
}

/// One of the events that were in the last document, in no particular order.
///
/// @param tracker  the tracker.
/// @param index    from 0 up to schedev_tracker_event_count().
/// @param event    receives the event, whose texts are good until the next document is observed.
/// @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a tracker that
///         was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_event(
    tracker: *const schedev_tracker,
    index: usize,
    event: *mut schedev_tracked_event,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (tracker, place) = unsafe { (open(tracker)?, output(event)?) };
        place.write(schedev_tracked_event::of(tracker.tracker.iter().nth(index).ok_or(SCHEDEV_END)?));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_id_is_the_same_whether_it_is_escaped_or_not() {
        let plain = "x".repeat(100);
        let escaped = plain.replacen('x', "\\u0078", 1);
        let view = schedev_text { escaped: Flag::new(true), ..schedev_text::plain(&escaped) };
        // SAFETY: both views are of texts that live.
        let (escaped, plain) = unsafe { (event_id(view), event_id(schedev_text::plain(&plain))) };
        assert_eq!(escaped, plain);
    }

    #[test]
    fn words_are_those_of_core() {
        for (_, change, word) in CHANGES {
            assert_eq!(word.to_str().unwrap(), change.word());
        }
    }
}
