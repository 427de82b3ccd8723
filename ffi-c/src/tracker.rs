//! Trackers: what changed between two documents.

use std::ffi::{CStr, c_char, c_void};

use scheduled_events_core::{Change, TrackedEvent, TrackedStatus, Tracker, UnixSeconds, VmNames};

use crate::abi::pointers::{Flag, memory_for, memory_size, optional_output, output};
use crate::abi::tagged::{self, Holder, object, object_mut};
use crate::boundary::{boundary, value_boundary};
use crate::document::event::schedev_event_status::{
    SCHEDEV_EVENT_STATUS_ADVISORY, SCHEDEV_EVENT_STATUS_OTHER, SCHEDEV_EVENT_STATUS_SCHEDULED,
    SCHEDEV_EVENT_STATUS_STARTED,
};
use crate::document::schedev_document;
use crate::names::{schedev_names, with_names};
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_TRACKER_FULL, SCHEDEV_ERROR_UNKNOWN_EVENT,
};
use crate::text::{core_event_id, schedev_text};

/// The maximum number of events of a tracker.
pub const SCHEDEV_TRACKER_EVENTS_MAX: usize = 256;

/// A change of an event. The first one is SCHEDULED or STARTED_WITHOUT_NOTICE. RESCHEDULED and UPDATED follow any number
/// of times, and STARTED at most once, after SCHEDULED. The last one is COMPLETED, CANCELLED or ENDED. Advice has
/// ADVISED first and ADVICE_WITHDRAWN last. A document can
/// change an event in two ways: then RESCHEDULED is reported first, and UPDATED second.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_change {
    /// New, and not started.
    SCHEDEV_CHANGE_SCHEDULED = 1,
    /// Started; it was Scheduled before.
    SCHEDEV_CHANGE_STARTED = 2,
    /// New, and already started, as after a hardware failure.
    SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE = 3,
    /// NotBefore changed.
    SCHEDEV_CHANGE_RESCHEDULED = 4,
    /// Another member changed.
    SCHEDEV_CHANGE_UPDATED = 5,
    /// Gone after it had started.
    SCHEDEV_CHANGE_COMPLETED = 6,
    /// Gone before NotBefore, while it was Scheduled and not approved.
    SCHEDEV_CHANGE_CANCELLED = 7,
    /// Gone while it was Scheduled, after its approval or after NotBefore: it is unknown whether it took place.
    SCHEDEV_CHANGE_ENDED = 8,
    /// Advice is new.
    SCHEDEV_CHANGE_ADVISED = 9,
    /// Advice is gone. What it advised of may happen all the same.
    SCHEDEV_CHANGE_ADVICE_WITHDRAWN = 10,
}

use schedev_change::*;

const CHANGES: [(schedev_change, Change, &CStr); 10] = [
    (SCHEDEV_CHANGE_SCHEDULED, Change::Scheduled, c"scheduled"),
    (SCHEDEV_CHANGE_STARTED, Change::Started, c"started"),
    (
        SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE,
        Change::StartedWithoutNotice,
        c"started-without-notice",
    ),
    (
        SCHEDEV_CHANGE_RESCHEDULED,
        Change::Rescheduled,
        c"rescheduled",
    ),
    (SCHEDEV_CHANGE_UPDATED, Change::Updated, c"updated"),
    (SCHEDEV_CHANGE_COMPLETED, Change::Completed, c"completed"),
    (SCHEDEV_CHANGE_CANCELLED, Change::Cancelled, c"cancelled"),
    (SCHEDEV_CHANGE_ENDED, Change::Ended, c"ended"),
    (SCHEDEV_CHANGE_ADVISED, Change::Advised, c"advised"),
    (
        SCHEDEV_CHANGE_ADVICE_WITHDRAWN,
        Change::AdviceWithdrawn,
        c"advice-withdrawn",
    ),
];

pub(crate) fn change_number(change: Change) -> u32 {
    CHANGES
        .iter()
        .find(|(_, known, _)| *known == change)
        .map_or(0, |(number, ..)| *number as u32)
}

/// The change of a number.
pub(crate) fn change_of(number: u32) -> Option<Change> {
    CHANGES
        .iter()
        .find(|(known, ..)| *known as u32 == number)
        .map(|(_, change, _)| *change)
}

/// Returns a schedev_change as a word, such as "started-without-notice".
///
/// @param change  a schedev_change, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_change_word(change: u32) -> *const c_char {
    let known = CHANGES.iter().find(|(number, ..)| *number as u32 == change);
    known.map_or(c"unknown", |(_, _, word)| word).as_ptr()
}

/// What a tracker or a session keeps of an event. The texts are views of the memory of that tracker or session, valid
/// until the next call that takes it as a pointer that is not const. The other members are in the newest document, as long as
/// the event is: schedev_document_find() returns them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_tracked_event {
    /// The event's id, as first seen. An id of more than SCHEDEV_EVENT_ID_MAX_BYTES is cut and ends with a hash.
    pub event_id: schedev_text,
    /// The event's type as the newest document with a readable type spells it, cut to 28 bytes; empty if it has none.
    pub event_type_text: schedev_text,
    /// The last known NotBefore, in seconds since 1970-01-01T00:00:00Z, if has_not_before. It is kept when the event
    /// starts, although documents blank it then.
    pub not_before_seconds: i64,
    /// The expected length of the interruption in the newest document in which it is readable, if has_duration.
    pub duration_seconds: u32,
    /// A schedev_event_status: STARTED from its start on, SCHEDULED, ADVISORY for advice, or OTHER if it never had one of these.
    pub event_status: u32,
    /// Whether not_before_seconds is known.
    pub has_not_before: Flag,
    /// Whether duration_seconds is known.
    pub has_duration: Flag,
    /// Whether mine is known. It is not while the names of this machine are unknown.
    pub has_mine: Flag,
    /// Whether the event concerns this machine, if has_mine.
    pub mine: Flag,
    /// Whether the event was approved.
    pub approved: Flag,
    /// For later versions: zero.
    pub reserved: [u64; 4],
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
        reserved: [0; 4],
    };

    pub(crate) fn from_core(event: &TrackedEvent) -> Self {
        let status = match event.status() {
            TrackedStatus::Scheduled => SCHEDEV_EVENT_STATUS_SCHEDULED,
            TrackedStatus::Started => SCHEDEV_EVENT_STATUS_STARTED,
            TrackedStatus::Advisory => SCHEDEV_EVENT_STATUS_ADVISORY,
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
            reserved: [0; 4],
        }
    }
}

/// Keeps the events of the last document and reports what the next one changes. It lives in the caller's memory, and
/// there is nothing to free. A session has its own tracker; this one is for programs that do not use a session.
pub struct schedev_tracker(#[allow(dead_code)] tagged::Tagged<Tracker<SCHEDEV_TRACKER_EVENTS_MAX>>);

// SAFETY: the struct is a `Tagged` value.
unsafe impl Holder for schedev_tracker {
    type Value = Tracker<SCHEDEV_TRACKER_EVENTS_MAX>;
    const TAG: u64 = u64::from_be_bytes(*b"tracker.");
    const OFFSET: usize = 0;
}

/// Called by schedev_tracker_observe() for each change. It must return normally: neither longjmp() nor a C++ exception may
/// leave it. It must not call functions with the same tracker.
///
/// @param context  what was passed to schedev_tracker_observe().
/// @param change   a schedev_change.
/// @param event    the event after the change, valid until the callback returns.
pub type schedev_change_callback = Option<
    unsafe extern "C" fn(context: *mut c_void, change: u32, event: *const schedev_tracked_event),
>;

/// Returns the size of memory that a tracker needs, in bytes, whatever the alignment of the memory.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_tracker_size() -> usize {
    memory_size::<schedev_tracker>()
}

/// Initialises a tracker without events.
///
/// @param memory   the memory for the tracker, with any alignment. It must not move while the tracker is used.
/// @param size     its size in bytes, at least schedev_tracker_size().
/// @param tracker  receives the tracker, a pointer into that memory.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_init(
    memory: *mut c_void,
    size: usize,
    tracker: *mut *mut schedev_tracker,
) -> schedev_status {
    boundary(|| {
        let (place, output) = (
            checked!(memory_for(memory, size)),
            checked!(output(tracker)),
        );
        // SAFETY: `memory_for` returns an aligned place that is large enough.
        unsafe { tagged::write(place, Tracker::new()) };
        output.write(place);
        Ok(())
    })
}

/// Compares a document with the last one and reports each change: first those of events that are still there, then the
/// events that are gone, then the new ones.
///
/// Pass documents only: a failed poll, an empty body or a 304 does not end an event. If several events have one id, the
/// first one counts and the others are ignored. Those among the first events of a document are its problems, which
/// schedev_document_next_problem() returns; the tracker counts the others.
///
/// @param tracker      the tracker.
/// @param document     the newest document.
/// @param names        the names of this machine; NULL if they are unknown.
/// @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z.
/// @param on_change    called for each change; may be NULL.
/// @param context      passed to on_change.
/// @param ignored      receives how many events the tracker ignored because of their ids; may be NULL.
/// @param needed       receives the number of events of the document if it has too many; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TRACKER_FULL if the document has more than SCHEDEV_TRACKER_EVENTS_MAX events, and
///         then nothing is changed or reported; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the tracker or the document
///         is not initialised; SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_observe(
    tracker: *mut schedev_tracker,
    document: *const schedev_document,
    names: *const schedev_names,
    now_seconds: i64,
    on_change: schedev_change_callback,
    context: *mut c_void,
    ignored: *mut usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let (tracker, document) = (checked!(object_mut(tracker)), checked!(object(document)));
        let (ignored, needed) = (
            checked!(optional_output(ignored)),
            checked!(optional_output(needed)),
        );
        let report = |change, event: &TrackedEvent| {
            if let Some(on_change) = on_change {
                let event = schedev_tracked_event::from_core(event);
                // SAFETY: the callback keeps the conventions of the header, and the event lives through the call.
                unsafe { on_change(context, change_number(change), &raw const event) };
            }
        };
        let now = UnixSeconds(now_seconds);
        let observe = |names: VmNames<'_>| tracker.observe(&document.view, names, now, report);
        match checked!(with_names(names, observe)) {
            Ok(count) => {
                ignored.write(count);
                Ok(())
            }
            Err(full) => {
                needed.write(full.needed);
                Err(SCHEDEV_ERROR_TRACKER_FULL)
            }
        }
    })
}

/// Records that an event was approved. If the event disappears while it is Scheduled, this is what distinguishes ENDED
/// from CANCELLED.
///
/// @param tracker   the tracker.
/// @param event_id  the event's id.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the tracker is not
///         initialised; SCHEDEV_ERROR_UTF8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_approved(
    tracker: *mut schedev_tracker,
    event_id: schedev_text,
) -> schedev_status {
    boundary(|| {
        let event_id = &event_id;
        let event_id = checked!(core_event_id(event_id));
        let tracker = checked!(object_mut(tracker));
        if tracker.approved(&event_id) {
            Ok(())
        } else {
            Err(SCHEDEV_ERROR_UNKNOWN_EVENT)
        }
    })
}

/// Returns the number of events in the tracker.
///
/// @param tracker  the tracker.
/// @return the number; 0 if tracker is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_event_count(tracker: *const schedev_tracker) -> usize {
    value_boundary(0, || {
        let tracker = checked!(object(tracker));
        Ok(tracker.len())
    })
}

/// Returns one event of the last document. The events are in no particular order.
///
/// @param tracker  the tracker.
/// @param index    the index, from 0 to schedev_tracker_event_count() - 1.
/// @param event    receives the event. Its texts are valid until the next document is observed.
/// @return SCHEDEV_OK; SCHEDEV_END if there are fewer events; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the tracker is
///         not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_tracker_event(
    tracker: *const schedev_tracker,
    index: usize,
    event: *mut schedev_tracked_event,
) -> schedev_status {
    boundary(|| {
        let (tracker, output) = (checked!(object(tracker)), checked!(output(event)));
        output.write(schedev_tracked_event::from_core(
            tracker.iter().nth(index).ok_or(SCHEDEV_END)?,
        ));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ids_are_equal_escaped_or_not() {
        let plain = "x".repeat(100);
        let escaped = plain.replacen('x', "\\u0078", 1);
        let view = schedev_text {
            escaped: Flag::new(true),
            ..schedev_text::plain(&escaped)
        };
        // SAFETY: both texts are alive.
        let (escaped, plain) = unsafe {
            (
                core_event_id(&view),
                core_event_id(&schedev_text::plain(&plain)),
            )
        };
        assert_eq!(escaped, plain);
    }

    #[test]
    fn words_are_those_of_core() {
        for (_, change, word) in CHANGES {
            assert_eq!(word.to_str().unwrap(), change.word());
        }
    }
}
