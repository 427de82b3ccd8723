//! One event of the document.

use scheduled_events_core::{
    EVENT_ID_MAX, Event, EventSource, EventStatus, EventType, Member, NotBefore, ResourceNames,
};

use crate::boundary::{Result, boundary};
use crate::memory::{Flag, check, output};
use crate::names::{schedev_names, with_names};
use crate::opaque::{Held, seal, unseal, unseal_mut, unseal_started};
use crate::problem::member_number;
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};
use crate::text::schedev_text;

/// The longest EventId, in bytes. A real one is a GUID of 36.
pub const SCHEDEV_EVENT_ID_MAX_BYTES: usize = 64;

const _: () = assert!(SCHEDEV_EVENT_ID_MAX_BYTES == EVENT_ID_MAX);

/// The impact that an event will have.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_event_type {
    /// The event names no type.
    SCHEDEV_EVENT_TYPE_NONE = 0,
    /// The machine pauses for a few seconds; memory, open files and connections survive.
    SCHEDEV_EVENT_TYPE_FREEZE = 1,
    /// The machine restarts; memory is lost.
    SCHEDEV_EVENT_TYPE_REBOOT = 2,
    /// The machine moves to another host; memory and temporary disks are lost.
    SCHEDEV_EVENT_TYPE_REDEPLOY = 3,
    /// The spot machine is evicted; temporary disks are lost. Notice: 30 seconds at least.
    SCHEDEV_EVENT_TYPE_PREEMPT = 4,
    /// The machine is to be deleted.
    SCHEDEV_EVENT_TYPE_TERMINATE = 5,
    /// A word that this library does not know; the event's text has it.
    SCHEDEV_EVENT_TYPE_OTHER = 255,
}

/// How far an event has come. One that is over is absent from the document.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_event_status {
    /// The event names no status.
    SCHEDEV_EVENT_STATUS_NONE = 0,
    /// Announced; it can be approved.
    SCHEDEV_EVENT_STATUS_SCHEDULED = 1,
    /// Under way.
    SCHEDEV_EVENT_STATUS_STARTED = 2,
    /// A word that this library does not know; the event's text has it.
    SCHEDEV_EVENT_STATUS_OTHER = 255,
}

/// Who caused an event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_event_source {
    /// The event names no source.
    SCHEDEV_EVENT_SOURCE_NONE = 0,
    /// Azure itself.
    SCHEDEV_EVENT_SOURCE_PLATFORM = 1,
    /// A person or program with rights on the machine.
    SCHEDEV_EVENT_SOURCE_USER = 2,
    /// A word that this library does not know; the event's text has it.
    SCHEDEV_EVENT_SOURCE_OTHER = 255,
}

use schedev_event_source::*;
use schedev_event_status::*;
use schedev_event_type::*;

/// One event: a maintenance, an eviction or a deletion of one or more machines.
///
/// The members are a reading: texts view the document's bytes, or constants of the library, and are empty where the
/// document says nothing. What the document says in a way that cannot be understood is absent too, and a
/// schedev_problem. The struct may be copied. It is for reading: functions that take an event, schedev_decide() among
/// them, look at the document's own words, not at what a caller wrote over these members.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_event {
    /// EventId: opaque, the same through the event's life. Compare it without ASCII case, echo it unchanged.
    pub event_id: schedev_text,
    /// EventType, the word itself.
    pub event_type_text: schedev_text,
    /// EventStatus, the word itself.
    pub event_status_text: schedev_text,
    /// EventSource, the word itself.
    pub event_source_text: schedev_text,
    /// ResourceType: "VirtualMachine" so far.
    pub resource_type: schedev_text,
    /// Description: a sentence for people.
    pub description: schedev_text,
    /// NotBefore as it stands, where no time can be read from it.
    pub not_before_unreadable: schedev_text,
    /// NotBefore: the event does not start before this moment, unless it is approved. Seconds since
    /// 1970-01-01T00:00:00Z, if has_not_before.
    pub not_before_seconds: i64,
    /// Where the event stands in the document's Events, elements that are left out counted, from 0.
    pub index: usize,
    /// EventType, a schedev_event_type.
    pub event_type: u32,
    /// EventStatus, a schedev_event_status.
    pub event_status: u32,
    /// EventSource, a schedev_event_source.
    pub event_source: u32,
    /// DurationInSeconds: how long the interruption is expected to last, if has_duration.
    pub duration_seconds: u32,
    /// The first member with a problem among those that decisions rest on, a schedev_member; SCHEDEV_MEMBER_NONE where
    /// there is none. An event that has one is held, whatever a policy says.
    pub unreliable_member: u32,
    /// Whether NotBefore is known. It is blank once an event has started.
    pub has_not_before: Flag,
    /// Whether the duration is known; Azure writes -1 where it is not.
    pub has_duration: Flag,
    /// Whether ResourceType is there.
    pub has_resource_type: Flag,
    /// Whether Resources is there.
    pub has_resources: Flag,
    /// Whether Description is there.
    pub has_description: Flag,
    /// Not for the caller.
    pub opaque: [u64; 48],
}

struct HeldEvent {
    event: Event<'static>,
    /// Where the id stands, which tells events apart.
    id: *const u8,
    /// Where schedev_event_resource() stands: the names from `next_index` on.
    names: Option<ResourceNames<'static>>,
    next_index: usize,
}

impl Held for HeldEvent {
    const TAG: u64 = 0x6576_656e_742e_2e2e;
}

impl schedev_event {
    /// Writes the reading of an event.
    ///
    /// # Safety
    /// `place` is aligned and can be written.
    pub(crate) unsafe fn write(place: *mut Self, event: &Event<'static>) {
        // SAFETY: the caller's promise. Each member is written as soon as it is known, and the opaque words once: together
        // they would be kept on the stack, and copied.
        unsafe {
            let id = schedev_text::of(event.event_id());
            id.write(&raw mut (*place).event_id);

            let number = event.event_type().map_or(SCHEDEV_EVENT_TYPE_NONE, |word| number_of_type(&word));
            (&raw mut (*place).event_type).write(number as u32);
            event
                .text(Member::EventType)
                .map_or(schedev_text::NONE, schedev_text::of)
                .write(&raw mut (*place).event_type_text);

            let number = event.event_status().map_or(SCHEDEV_EVENT_STATUS_NONE, |word| number_of_status(&word));
            (&raw mut (*place).event_status).write(number as u32);
            event
                .text(Member::EventStatus)
                .map_or(schedev_text::NONE, schedev_text::of)
                .write(&raw mut (*place).event_status_text);

            let number = event.event_source().map_or(SCHEDEV_EVENT_SOURCE_NONE, |word| number_of_source(&word));
            (&raw mut (*place).event_source).write(number as u32);
            event
                .text(Member::EventSource)
                .map_or(schedev_text::NONE, schedev_text::of)
                .write(&raw mut (*place).event_source_text);

            let resource_type = event.resource_type().map(schedev_text::of);
            (&raw mut (*place).has_resource_type).write(Flag::new(resource_type.is_some()));
            resource_type.unwrap_or(schedev_text::NONE).write(&raw mut (*place).resource_type);

            let description = event.description().map(schedev_text::of);
            (&raw mut (*place).has_description).write(Flag::new(description.is_some()));
            description.unwrap_or(schedev_text::NONE).write(&raw mut (*place).description);

            let (seconds, unreadable) = match event.not_before() {
                NotBefore::At(moment) => (Some(moment.0), schedev_text::NONE),
                NotBefore::Unset => (None, schedev_text::NONE),
                NotBefore::Unreadable(text) => (None, schedev_text::of(text)),
            };
            (&raw mut (*place).has_not_before).write(Flag::new(seconds.is_some()));
            (&raw mut (*place).not_before_seconds).write(seconds.unwrap_or(0));
            unreadable.write(&raw mut (*place).not_before_unreadable);

            let duration = event.duration_in_seconds();
            (&raw mut (*place).has_duration).write(Flag::new(duration.is_some()));
            (&raw mut (*place).duration_seconds).write(duration.unwrap_or(0));
            (&raw mut (*place).has_resources).write(Flag::new(event.resources().is_present()));
            (&raw mut (*place).unreliable_member).write(member_of_unreliable(event));
            (&raw mut (*place).index).write(event.index());

            // Last, since what was just read from the document is copied faster once it is in memory.
            let held = HeldEvent { event: *event, id: id.data.cast(), names: None, next_index: 0 };
            seal(&raw mut (*place).opaque, held);
        }
    }
}

fn number_of_type(word: &EventType<'_>) -> schedev_event_type {
    match word {
        EventType::Freeze => SCHEDEV_EVENT_TYPE_FREEZE,
        EventType::Reboot => SCHEDEV_EVENT_TYPE_REBOOT,
        EventType::Redeploy => SCHEDEV_EVENT_TYPE_REDEPLOY,
        EventType::Preempt => SCHEDEV_EVENT_TYPE_PREEMPT,
        EventType::Terminate => SCHEDEV_EVENT_TYPE_TERMINATE,
        EventType::Other(_) => SCHEDEV_EVENT_TYPE_OTHER,
    }
}

fn number_of_status(word: &EventStatus<'_>) -> schedev_event_status {
    match word {
        EventStatus::Scheduled => SCHEDEV_EVENT_STATUS_SCHEDULED,
        EventStatus::Started => SCHEDEV_EVENT_STATUS_STARTED,
        EventStatus::Other(_) => SCHEDEV_EVENT_STATUS_OTHER,
    }
}

fn number_of_source(word: &EventSource<'_>) -> schedev_event_source {
    match word {
        EventSource::Platform => SCHEDEV_EVENT_SOURCE_PLATFORM,
        EventSource::User => SCHEDEV_EVENT_SOURCE_USER,
        EventSource::Other(_) => SCHEDEV_EVENT_SOURCE_OTHER,
    }
}

fn member_of_unreliable(event: &Event<'_>) -> u32 {
    event.unreliable_member().map_or(0, |member| member_number(Some(member)))
}

/// Core's own event behind the pointer.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn core_event<'a>(event: *const schedev_event) -> Result<&'a Event<'static>> {
    // SAFETY: the caller's promise is the same.
    Ok(&unsafe { held_event(event) }?.event)
}

/// What the event behind the pointer holds.
///
/// # Safety
/// The conventions of the header.
unsafe fn held_event<'a>(event: *const schedev_event) -> Result<&'a HeldEvent> {
    check(event)?;
    // SAFETY: the caller's promise is the same; the pointer was checked.
    unsafe { unseal(&raw const (*event).opaque) }
}

/// The name of a machine that the event concerns, by its place in Resources. Elements that are no strings do not count.
///
/// Asking for 0, 1, 2 and so on goes over Resources once: the event remembers where it stands, which is why it is not
/// const. Going back starts again at the front. Where the event must not change, use schedev_event_next_resources().
///
/// @param event  the event.
/// @param index  the place, from 0.
/// @param name   receives the name.
/// @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for an event that
///         was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_event_resource(
    event: *mut schedev_event,
    index: usize,
    name: *mut schedev_text,
) -> schedev_status {
    boundary(|| {
        check(event)?;
        // SAFETY: the conventions of the header; the pointer was checked.
        let (held, name): (&mut HeldEvent, _) = unsafe { (unseal_mut(&raw mut (*event).opaque)?, output(name)?) };
        if held.names.is_none() || index < held.next_index {
            held.names = Some(held.event.resources().iter());
            held.next_index = 0;
        }
        let names = held.names.as_mut().ok_or(SCHEDEV_END)?;
        let ahead = index.saturating_sub(held.next_index);
        held.next_index = index.saturating_add(1);
        if let Some(found) = names.nth(ahead) {
            name.write(schedev_text::of(found));
            return Ok(());
        }
        // The names are used up; what comes next starts at the front.
        held.names = None;
        Err(SCHEDEV_END)
    })
}

/// Where an iteration over an event's Resources stands. Opaque; start with SCHEDEV_CURSOR_INIT. It is tied to the
/// document's bytes, and may be copied. An event is known by where its id stands: in a buffer that is used again, give
/// each event a fresh one.
#[repr(C)]
pub struct schedev_resource_cursor {
    /// Not for the caller.
    pub opaque: [u64; 10],
}

struct HeldNames {
    names: ResourceNames<'static>,
    of: *const u8,
}

impl Held for HeldNames {
    const TAG: u64 = 0x6e61_6d65_732e_2e2e;
}

/// The next names in the event's Resources, as many as the array has room for: a few dozen places spare most of the
/// calls, however many machines the event concerns. Elements that are no strings are skipped.
///
/// @param event     the event.
/// @param cursor    where the iteration stands; moved on. It starts as SCHEDEV_CURSOR_INIT.
/// @param names     receives the names, from the front.
/// @param capacity  the names that the array has room for, at least 1.
/// @param count     receives how many were written, at least 1. Fewer than capacity were the last.
/// @return SCHEDEV_OK; SCHEDEV_END when there are no more; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for an event or
///         cursor that was not initialised, a cursor of another event, or a capacity of 0.
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
        check(cursor)?;
        check(names)?;
        if capacity == 0 {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        // SAFETY: the conventions of the header.
        let (event, count) = unsafe { (held_event(event)?, output(count)?) };
        // SAFETY: the conventions of the header; the pointer was checked.
        let held: Option<&mut HeldNames> = unsafe { unseal_started(&raw mut (*cursor).opaque) }?;
        // SAFETY: the array has room for `capacity` names; `cursor` was checked, and is the caller's to write.
        let written = unsafe {
            match held {
                Some(held) if held.of != event.id => return Err(SCHEDEV_ERROR_ARGUMENT),
                Some(held) => write_names(&mut held.names, names, capacity),
                None => {
                    let mut left = event.event.resources().iter();
                    let written = write_names(&mut left, names, capacity);
                    if written > 0 {
                        seal(&raw mut (*cursor).opaque, HeldNames { names: left, of: event.id });
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

/// Writes as many names as there is room for; how many they were.
///
/// # Safety
/// `places` are `capacity` places that can be written.
#[inline(never)] // Inside the entry point the compiler makes calls, for each name, of what it inlines here.
unsafe fn write_names(names: &mut ResourceNames<'static>, places: *mut schedev_text, capacity: usize) -> usize {
    let mut written: usize = 0;
    for name in names.by_ref().take(capacity) {
        // SAFETY: the array has room for `capacity` names, and `written` is less.
        unsafe { schedev_text::of(name).write(places.add(written)) };
        written = written.wrapping_add(1);
    }
    written
}

/// Where this machine stands in the event's Resources.
///
/// @param event  the event.
/// @param names  the names of this machine; NULL where they are unknown.
/// @param rank   receives the place, from 0.
/// @return SCHEDEV_OK; SCHEDEV_END where the event does not name this machine, or the names are unknown;
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
        // SAFETY: the conventions of the header.
        unsafe {
            let (event, place) = (core_event(event)?, output(rank)?);
            place.write(with_names(names, |names| names.rank(event))?.ok_or(SCHEDEV_END)?);
        }
        Ok(())
    })
}
