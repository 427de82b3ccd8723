//! The document: checked once, then read without errors.

use core::mem::MaybeUninit;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use scheduled_events_core::{Document, Event, EventCursor, Incarnation, Text};

use crate::boundary::{Result, boundary, value_boundary};
use crate::error::schedev_error;
use crate::event::schedev_event;
use crate::memory::{bytes, check, optional_output, output};
use crate::opaque::{Held, seal, unseal, unseal_started};
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_NULL, SCHEDEV_ERROR_PARSE,
};
use crate::text::schedev_text;

/// A document that was checked: a view of the caller's bytes, which must stay as they are while it is used. Opaque; it
/// may be copied, and there is nothing to free.
#[repr(C)]
pub struct schedev_document {
    /// Not for the caller.
    pub opaque: [u64; 96],
}

pub(crate) struct HeldDocument {
    pub(crate) view: Document<'static>,
    /// Tells whether a cursor is of this document.
    pub(crate) mark: Mark,
}

/// Tells documents apart: by where their bytes are, and by their numbers, since the next one may lie where the last one
/// did. Documents that two threads read at once may have one number, but not one place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    data: *const u8,
    number: usize,
}

impl Mark {
    fn new(body: &[u8]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // Two plain instructions, where an addition that no thread can miss would be a dear one.
        let number = NUMBER.load(Ordering::Relaxed).wrapping_add(1);
        NUMBER.store(number, Ordering::Relaxed);
        Self { data: body.as_ptr(), number }
    }
}

impl Held for HeldDocument {
    const TAG: u64 = 0x646f_6375_6d65_6e74;
}

/// Checks a document and keeps a view of it.
///
/// Parsing is strict about form: the bytes must be one JSON text (RFC 8259, UTF-8, a leading byte order mark allowed)
/// that is an object with an array Events, in which no known member stands twice. It is tolerant about meaning: unknown
/// members and words are skipped or kept, and what is odd in one event is a schedev_problem of that event.
///
/// There is no limit on events or resources but the length of the input. Time is linear in it; nothing is allocated.
///
/// @param data      the body of the answer; it is not changed, and must outlive what is read from the document.
/// @param len       its length in bytes.
/// @param document  receives the view.
/// @param error     receives kind and place where the document is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_parse(
    data: *const c_char,
    len: usize,
    document: *mut schedev_document,
    error: *mut schedev_error,
) -> schedev_status {
    // SAFETY: the conventions of the header.
    boundary(|| unsafe { parse(data, len, &mut [], |_, _| (), document, error) })
}

/// Reads a document into the caller's memory, and shows its events on the way.
///
/// # Safety
/// The conventions of the header.
unsafe fn parse(
    data: *const c_char,
    len: usize,
    room: &mut [Text<'static>],
    mut show: impl FnMut(&Event<'static>, Option<&[Text<'static>]>),
    document: *mut schedev_document,
    error: *mut schedev_error,
) -> Result {
    check(document)?;
    // SAFETY: the conventions of the header. What is borrowed for 'static here lives, as the caller promises, as long as
    // what is read from the document is used.
    let (body, error) = unsafe { (bytes(data, len)?, optional_output(error)?) };
    match Document::parse_each(body, room, |event, _, names| show(event, names)) {
        Ok(view) => {
            // SAFETY: `document` was checked, and is the caller's to write.
            unsafe { seal(&raw mut (*document).opaque, HeldDocument { view, mark: Mark::new(body) }) };
            Ok(())
        }
        Err(refused) => {
            error.write(schedev_error::at(refused, refused.position(body)));
            Err(SCHEDEV_ERROR_PARSE)
        }
    }
}

/// The most names that schedev_event_callback is given with an event.
pub const SCHEDEV_NAMES_AT_ONCE_MAX: usize = 16;

/// Shown an event by schedev_document_parse_each(). It must return normally: neither longjmp() nor an exception may
/// leave it.
///
/// @param context  what was passed to schedev_document_parse_each().
/// @param event    the event, good until the callback returns; a copy is good as long as the document's bytes.
/// @param names    the names in the event's Resources, good as long as the event; NULL where they are more than
///                 SCHEDEV_NAMES_AT_ONCE_MAX, and then schedev_event_next_resources() reads them.
/// @param count    how many they are; 0 where names is NULL.
pub type schedev_event_callback = Option<
    unsafe extern "C" fn(context: *mut c_void, event: *const schedev_event, names: *const schedev_text, count: usize),
>;

/// Checks a document as schedev_document_parse() does, and shows each event, and the names in its Resources, while it
/// reads it. That takes half the time of going over the events afterwards, which reads them a second time.
///
/// Nothing that was shown counts where the call fails. An event that repeats an id is shown too: where
/// schedev_document_event_count() is less than what was shown, schedev_document_next() gives those that stand.
///
/// @param data      the body of the answer; it is not changed, and must outlive what is read from the document.
/// @param len       its length in bytes.
/// @param on_event  shown each event, in the document's order.
/// @param context   passed on to on_event.
/// @param document  receives the view.
/// @param error     receives kind and place where the document is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_parse_each(
    data: *const c_char,
    len: usize,
    on_event: schedev_event_callback,
    context: *mut c_void,
    document: *mut schedev_document,
    error: *mut schedev_error,
) -> schedev_status {
    boundary(|| {
        let on_event = on_event.ok_or(SCHEDEV_ERROR_NULL)?;
        let mut shown = MaybeUninit::<schedev_event>::uninit();
        let mut views = [const { MaybeUninit::<schedev_text>::uninit() }; SCHEDEV_NAMES_AT_ONCE_MAX];
        let mut room = [Text::plain(""); SCHEDEV_NAMES_AT_ONCE_MAX];
        let show = |event: &Event<'static>, names: Option<&[Text<'static>]>| {
            for (view, name) in views.iter_mut().zip(names.unwrap_or_default()) {
                view.write(schedev_text::of(*name));
            }
            let (views, count) = names.map_or((core::ptr::null(), 0), |names| (views.as_ptr().cast(), names.len()));
            // SAFETY: the place is this function's own, and the callback is what the header asks for. As many views are
            // written as there are names, since `room` holds no more.
            unsafe {
                schedev_event::write(shown.as_mut_ptr(), event);
                on_event(context, shown.as_ptr(), views, count);
            }
        };
        // SAFETY: the conventions of the header.
        unsafe { parse(data, len, &mut room, show, document, error) }
    })
}

/// What stands in an incarnation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_incarnation_kind {
    /// No incarnation, or one that cannot be understood.
    SCHEDEV_INCARNATION_ABSENT = 0,
    /// A whole number.
    SCHEDEV_INCARNATION_NUMBER = 1,
    /// A text.
    SCHEDEV_INCARNATION_TEXT = 2,
}

use schedev_incarnation_kind::*;

/// The document's incarnation, which changes with every change of the document. Compare it for equality only: it skips
/// numbers, and starts again when nobody polled for a day.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_incarnation {
    /// A schedev_incarnation_kind.
    pub kind: u32,
    /// The number; 0 for the other kinds.
    pub number: u64,
    /// The text; empty for the other kinds.
    pub text: schedev_text,
}

/// The document's incarnation.
///
/// @param document     the document.
/// @param incarnation  receives it.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a document that was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_incarnation(
    document: *const schedev_document,
    incarnation: *mut schedev_incarnation,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (held, place) = unsafe { (held_document(document)?, output(incarnation)?) };
        let (kind, number, text) = match held.view.incarnation() {
            Incarnation::Number(number) => (SCHEDEV_INCARNATION_NUMBER, number, schedev_text::NONE),
            Incarnation::Text(text) => (SCHEDEV_INCARNATION_TEXT, 0, schedev_text::of(text)),
            Incarnation::Absent => (SCHEDEV_INCARNATION_ABSENT, 0, schedev_text::NONE),
        };
        place.write(schedev_incarnation { kind: kind as u32, number, text });
        Ok(())
    })
}

/// How many events schedev_document_next() gives.
///
/// @param document  the document.
/// @return the count; 0 for NULL, or for a document that was not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_event_count(document: *const schedev_document) -> usize {
    value_boundary(0, || {
        // SAFETY: the conventions of the header.
        Ok(unsafe { held_document(document) }?.view.events().len())
    })
}

/// The document behind the pointer.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn held_document<'a>(document: *const schedev_document) -> Result<&'a HeldDocument> {
    check(document)?;
    // SAFETY: the caller's promise is the same; the pointer was checked.
    unsafe { unseal(&raw const (*document).opaque) }
}

/// Where an iteration over a document's events stands. Opaque; start with SCHEDEV_CURSOR_INIT. It is tied to the
/// document's bytes, and may be copied.
#[repr(C)]
pub struct schedev_event_cursor {
    /// Not for the caller.
    pub opaque: [u64; 8],
}

struct HeldPlace {
    of: Mark,
    cursor: EventCursor,
}

impl Held for HeldPlace {
    const TAG: u64 = 0x6576_656e_7473_2e2e;
}

/// The next event, in the document's order. An element of Events that is no object, has no EventId, or repeats one is
/// left out, and stands among the problems.
///
/// All but the first are read a second time for it, since nothing is stored: where that counts, see
/// schedev_document_parse_each().
///
/// @param document  the document.
/// @param cursor    where the iteration stands; moved on. It starts as SCHEDEV_CURSOR_INIT.
/// @param event     receives the event.
/// @return SCHEDEV_OK; SCHEDEV_END when there are no more; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a document or
///         cursor that was not initialised, or a cursor of another document.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_next(
    document: *const schedev_document,
    cursor: *mut schedev_event_cursor,
    event: *mut schedev_event,
) -> schedev_status {
    boundary(|| {
        check(cursor)?;
        check(event)?;
        // SAFETY: the conventions of the header.
        let document = unsafe { held_document(document) }?;
        // SAFETY: the conventions of the header; the pointer was checked.
        let held: Option<&mut HeldPlace> = unsafe { unseal_started(&raw mut (*cursor).opaque) }?;
        let mut position = match held {
            Some(held) if held.of != document.mark => return Err(SCHEDEV_ERROR_ARGUMENT),
            Some(held) => held.cursor,
            None => EventCursor::default(),
        };
        let next = document.view.next_event(&mut position).ok_or(SCHEDEV_END)?;
        // SAFETY: the conventions of the header; the pointers were checked.
        unsafe {
            schedev_event::write(event, &next);
            seal(&raw mut (*cursor).opaque, HeldPlace { of: document.mark, cursor: position });
        }
        Ok(())
    })
}
