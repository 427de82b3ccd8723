//! Events, and the names in their Resources.

use scheduled_events_core::{
    EVENT_ID_MAX, Event, EventSource, EventStatus, EventType, NotBefore, ResourceNames, Text,
};

use crate::abi::pointers::{Flag, check, output};
use crate::abi::tagged::{self, Holder, object, object_mut, started};
use crate::boundary::boundary;
use crate::document::member::member_number;
use crate::names::{schedev_names, with_names};
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};
use crate::text::schedev_text;

/// The longest EventId, in bytes. Azure's are GUIDs of 36.
pub const SCHEDEV_EVENT_ID_MAX_BYTES: usize = 64;

const _: () = assert!(SCHEDEV_EVENT_ID_MAX_BYTES == EVENT_ID_MAX);

/// What happens to the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_event_type {
    /// The event has no type.
    SCHEDEV_EVENT_TYPE_NONE = 0,
    /// The machine pauses for a few seconds. Memory, open files and connections are kept.
    SCHEDEV_EVENT_TYPE_FREEZE = 1,
    /// The machine restarts. Memory is lost.
    SCHEDEV_EVENT_TYPE_REBOOT = 2,
    /// The machine moves to another host. Memory and temporary disks are lost.
    SCHEDEV_EVENT_TYPE_REDEPLOY = 3,
    /// The spot machine is evicted, with a notice of at least 30 seconds. Temporary disks are lost.
    SCHEDEV_EVENT_TYPE_PREEMPT = 4,
    /// The machine is deleted.
    SCHEDEV_EVENT_TYPE_TERMINATE = 5,
    /// Advice: the spot machine may be evicted soon, or not at all.
    SCHEDEV_EVENT_TYPE_SPOT_REBALANCE_RECOMMENDATION = 6,
    /// A type that this library does not know. See event_type_text.
    SCHEDEV_EVENT_TYPE_OTHER = 255,
}

/// The progress of an event. An event that is over is no longer in the document.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_event_status {
    /// The event has no status.
    SCHEDEV_EVENT_STATUS_NONE = 0,
    /// Announced. It can be approved.
    SCHEDEV_EVENT_STATUS_SCHEDULED = 1,
    /// In progress.
    SCHEDEV_EVENT_STATUS_STARTED = 2,
    /// Advice, which never starts.
    SCHEDEV_EVENT_STATUS_ADVISORY = 3,
    /// A status that this library does not know. See event_status_text.
    SCHEDEV_EVENT_STATUS_OTHER = 255,
}

/// Who caused an event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_event_source {
    /// The event has no source.
    SCHEDEV_EVENT_SOURCE_NONE = 0,
    /// Azure.
    SCHEDEV_EVENT_SOURCE_PLATFORM = 1,
    /// A user who has access to the machine's resource.
    SCHEDEV_EVENT_SOURCE_USER = 2,
    /// A source that this library does not know. See event_source_text.
    SCHEDEV_EVENT_SOURCE_OTHER = 255,
}

use schedev_event_source::*;
use schedev_event_status::*;
use schedev_event_type::*;

/// One event: a maintenance, an eviction or a deletion of one or more machines.
///
/// Texts are views of the document's bytes. Members that are absent or invalid in the document are empty here; invalid
/// ones are also reported as schedev_problem. The struct may be copied. Writing to its members has no effect on functions
/// that take an event, such as schedev_decide(): they read the document.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_event {
    /// EventId. It identifies the event for its whole life. Compare it ignoring ASCII case.
    pub event_id: schedev_text,
    /// EventType, as the document spells it.
    pub event_type_text: schedev_text,
    /// EventStatus, as the document spells it.
    pub event_status_text: schedev_text,
    /// EventSource, as the document spells it.
    pub event_source_text: schedev_text,
    /// ResourceType: "VirtualMachine".
    pub resource_type: schedev_text,
    /// Description: a sentence for people.
    pub description: schedev_text,
    /// NotBefore as the document spells it, if it is not a valid time.
    pub not_before_unreadable: schedev_text,
    /// NotBefore: the event does not start before this time unless it is approved. Seconds since 1970-01-01T00:00:00Z,
    /// if has_not_before.
    pub not_before_seconds: i64,
    /// The index of the event in Events, elements that are left out counted, from 0.
    pub index: usize,
    /// EventType: a schedev_event_type.
    pub event_type: u32,
    /// EventStatus: a schedev_event_status.
    pub event_status: u32,
    /// EventSource: a schedev_event_source.
    pub event_source: u32,
    /// DurationInSeconds: the expected length of the interruption, if has_duration.
    pub duration_seconds: u32,
    /// The first invalid member among those that decisions depend on: a schedev_member, SCHEDEV_MEMBER_NONE if all are
    /// valid. An event with an invalid one is never approved, whatever the policy.
    pub unreliable_member: u32,
    /// Whether NotBefore is known. It is blank after the start of the event.
    pub has_not_before: Flag,
    /// Whether the duration is known. Azure writes -1 if it is not.
    pub has_duration: Flag,
    /// Whether the event has a ResourceType.
    pub has_resource_type: Flag,
    /// Whether the event has Resources.
    pub has_resources: Flag,
    /// Whether the event has a Description.
    pub has_description: Flag,
    /// Whether it is advice and no maintenance: the type is SPOT_REBALANCE_RECOMMENDATION, or the status ADVISORY. There is nothing
    /// to approve.
    pub advice: Flag,
    /// Private.
    pub opaque: [u64; 48],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_event {
    type Value = EventView;
    const TAG: u64 = u64::from_be_bytes(*b"event...");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// An event, and the position of `schedev_event_resource`.
pub struct EventView {
    pub(crate) event: Event<'static>,
    /// Where the id is in the document. It identifies the event for cursors.
    id: *const u8,
    /// The names after those that `schedev_event_resource` has passed.
    names: Option<ResourceNames<'static>>,
    /// The index of the next of `names`.
    next_index: usize,
}

impl schedev_event {
    /// Writes the view of an event.
    ///
    /// # Safety
    /// `place` is aligned and may be written.
    pub(crate) unsafe fn write(place: *mut Self, event: &Event<'static>) {
        let text =
            |text: Option<Text<'_>>| text.map_or(schedev_text::NONE, schedev_text::from_core);
        let (event_type, event_status, event_source) = (
            event.event_type(),
            event.event_status(),
            event.event_source(),
        );
        let (resource_type, description) = (event.resource_type(), event.description());
        let (not_before, not_before_unreadable) = match event.not_before() {
            NotBefore::At(moment) => (Some(moment.0), None),
            NotBefore::Unset => (None, None),
            NotBefore::Unreadable(text) => (None, Some(text)),
        };
        let duration = event.duration_in_seconds();
        let event_id = event.event_id();
        let view = EventView {
            event: *event,
            id: event_id.raw().as_ptr(),
            names: None,
            next_index: 0,
        };
        // SAFETY: the caller of this function allows the writes.
        unsafe {
            place.write(Self {
                event_id: text(Some(event_id)),
                event_type_text: text(event_type.map(|word| word.text())),
                event_status_text: text(event_status.map(|word| word.text())),
                event_source_text: text(event_source.map(|word| word.text())),
                resource_type: text(resource_type),
                description: text(description),
                not_before_unreadable: text(not_before_unreadable),
                not_before_seconds: not_before.unwrap_or(0),
                index: event.index(),
                event_type: event_type.map_or(SCHEDEV_EVENT_TYPE_NONE, |word| type_number(&word))
                    as u32,
                event_status: event_status
                    .map_or(SCHEDEV_EVENT_STATUS_NONE, |word| status_number(&word))
                    as u32,
                event_source: event_source
                    .map_or(SCHEDEV_EVENT_SOURCE_NONE, |word| source_number(&word))
                    as u32,
                duration_seconds: duration.unwrap_or(0),
                unreliable_member: member_number(event.unreliable_member()),
                has_not_before: Flag::new(not_before.is_some()),
                has_duration: Flag::new(duration.is_some()),
                has_resource_type: Flag::new(resource_type.is_some()),
                has_resources: Flag::new(event.resources().is_present()),
                has_description: Flag::new(description.is_some()),
                advice: Flag::new(event.is_advice()),
                opaque: [0; 48],
            });
            tagged::write(place, view);
        }
    }
}

fn type_number(word: &EventType<'_>) -> schedev_event_type {
    match word {
        EventType::Freeze => SCHEDEV_EVENT_TYPE_FREEZE,
        EventType::Reboot => SCHEDEV_EVENT_TYPE_REBOOT,
        EventType::Redeploy => SCHEDEV_EVENT_TYPE_REDEPLOY,
        EventType::Preempt => SCHEDEV_EVENT_TYPE_PREEMPT,
        EventType::Terminate => SCHEDEV_EVENT_TYPE_TERMINATE,
        EventType::SpotRebalanceRecommendation => SCHEDEV_EVENT_TYPE_SPOT_REBALANCE_RECOMMENDATION,
        EventType::Other(_) => SCHEDEV_EVENT_TYPE_OTHER,
    }
}

fn status_number(word: &EventStatus<'_>) -> schedev_event_status {
    match word {
        EventStatus::Scheduled => SCHEDEV_EVENT_STATUS_SCHEDULED,
        EventStatus::Started => SCHEDEV_EVENT_STATUS_STARTED,
        EventStatus::Advisory => SCHEDEV_EVENT_STATUS_ADVISORY,
        EventStatus::Other(_) => SCHEDEV_EVENT_STATUS_OTHER,
    }
}

fn source_number(word: &EventSource<'_>) -> schedev_event_source {
    match word {
        EventSource::Platform => SCHEDEV_EVENT_SOURCE_PLATFORM,
        EventSource::User => SCHEDEV_EVENT_SOURCE_USER,
        EventSource::Other(_) => SCHEDEV_EVENT_SOURCE_OTHER,
    }
}

/// Returns one name of the event's Resources. Elements that are not strings are not counted.
///
/// A loop from 0 upwards reads Resources once, because the event remembers its position; that is why it is not const. A
/// lower index starts from the beginning again. schedev_event_next_resources() does the same for a const event.
///
/// @param event  the event.
/// @param index  the index of the name, from 0.
/// @param name   receives the name.
/// @return SCHEDEV_OK; SCHEDEV_END if there are fewer names; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the event is
///         not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_event_resource(
    event: *mut schedev_event,
    index: usize,
    name: *mut schedev_text,
) -> schedev_status {
    boundary(|| {
        let (view, name) = (checked!(object_mut(event)), checked!(output(name)));
        if view.names.is_none() || index < view.next_index {
            view.names = Some(view.event.resources().iter());
            view.next_index = 0;
        }
        let names = view.names.as_mut().ok_or(SCHEDEV_END)?;
        let mut skipped = index.saturating_sub(view.next_index);
        view.next_index = index.saturating_add(1);
        // As `nth` does, whose code is twice as large.
        let found = loop {
            let found = names.next();
            if skipped == 0 || found.is_none() {
                break found;
            }
            skipped = skipped.saturating_sub(1);
        };
        if let Some(found) = found {
            name.write(schedev_text::from_core(found));
            return Ok(());
        }
        // All names were read: the next call starts from the beginning.
        view.names = None;
        Err(SCHEDEV_END)
    })
}

/// A position among the Resources of an event. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied.
///
/// Start a new cursor for each event. A cursor of another event is refused with SCHEDEV_ERROR_ARGUMENT, unless that event
/// was parsed from the same memory.
#[repr(C)]
pub struct schedev_resource_cursor {
    /// Private.
    pub opaque: [u64; 10],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_resource_cursor {
    type Value = ResourcePosition;
    const TAG: u64 = u64::from_be_bytes(*b"names...");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// The value of a cursor: the next names of an event.
pub struct ResourcePosition {
    /// Where the id of the event is.
    id: *const u8,
    names: ResourceNames<'static>,
}

/// Gives the next names of the event's Resources, as many as the array holds. Elements that are not strings are skipped.
///
/// @param event     the event.
/// @param cursor    the position, which moves on. Start with SCHEDEV_CURSOR_INIT.
/// @param names     receives the names.
/// @param capacity  the number of names that the array holds, at least 1.
/// @param count     receives the number of names written, at least 1. If it is less than capacity, there are no more.
/// @return SCHEDEV_OK; SCHEDEV_END after the last name; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the event or the
///         cursor is not initialised, if the cursor belongs to another event, or if capacity is 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_event_next_resources(
    event: *const schedev_event,
    cursor: *mut schedev_resource_cursor,
    names: *mut schedev_text,
    capacity: usize,
    count: *mut usize,
) -> schedev_status {
    boundary(|| {
        check(names)?;
        if capacity == 0 {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        let (view, count) = (checked!(object(event)), checked!(output(count)));
        let written = match checked!(started(cursor)) {
            Some(position) if position.id != view.id => return Err(SCHEDEV_ERROR_ARGUMENT),
            // SAFETY: `names` was checked and holds `capacity` names.
            Some(position) => unsafe { write_names(&mut position.names, names, capacity) },
            None => {
                let mut rest = view.event.resources().iter();
                // SAFETY: `names` was checked and holds `capacity` names; `started` has checked the cursor.
                unsafe {
                    let written = write_names(&mut rest, names, capacity);
                    if written > 0 {
                        tagged::write(
                            cursor,
                            ResourcePosition {
                                id: view.id,
                                names: rest,
                            },
                        );
                    }
                    written
                }
            }
        };
        if written == 0 {
            return Err(SCHEDEV_END);
        }
        count.write(written);
        Ok(())
    })
}

/// Writes at most `capacity` names; returns how many it wrote.
///
/// # Safety
/// `array` is aligned, and `capacity` names may be written to it.
#[inline(never)] // Inlined, the compiler does not inline the iterator any more.
unsafe fn write_names(
    names: &mut ResourceNames<'static>,
    array: *mut schedev_text,
    capacity: usize,
) -> usize {
    let mut written: usize = 0;
    for name in names.by_ref().take(capacity) {
        // SAFETY: `written` is less than `capacity`.
        unsafe { array.add(written).write(schedev_text::from_core(name)) };
        written = written.wrapping_add(1);
    }
    written
}

/// Returns the position of this machine in the event's Resources.
///
/// @param event  the event.
/// @param names  the names of this machine; NULL if they are unknown.
/// @param rank   receives the index of the first of these names, from 0.
/// @return SCHEDEV_OK; SCHEDEV_END if the event does not name this machine, or if the names are unknown;
///         SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_TOO_MANY_NAMES;
///         SCHEDEV_ERROR_NAME_TOO_LONG.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_event_rank(
    event: *const schedev_event,
    names: *const schedev_names,
    rank: *mut usize,
) -> schedev_status {
    boundary(|| {
        let (view, rank) = (checked!(object(event)), checked!(output(rank)));
        let find = |names: scheduled_events_core::VmNames<'_>| names.rank(&view.event);
        rank.write(checked!(with_names(names, find)).ok_or(SCHEDEV_END)?);
        Ok(())
    })
}
