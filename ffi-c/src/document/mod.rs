//! The document: parsed once, then read without errors.

pub(crate) mod event;
pub(crate) mod member;
pub(crate) mod problem;

use std::ffi::c_char;

use scheduled_events_core::{
    Document, Event, EventCursor, EventId, Incarnation, ParseError, Position,
};

use crate::abi::pointers::{Output, bytes, check, optional_output, output};
use crate::abi::tagged::{self, Holder, object, started};
use crate::boundary::{Result, boundary, value_boundary};
use crate::document::event::schedev_event;
use crate::error::schedev_error;
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_PARSE,
};
use crate::text::{core_event_id, schedev_text};

/// A parsed document: a view of the caller's bytes, which must stay unchanged while the document is used. Opaque. It may
/// be copied, and there is nothing to free.
#[repr(C)]
pub struct schedev_document {
    /// Private.
    pub opaque: [u64; 96],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_document {
    type Value = ParsedDocument;
    const TAG: u64 = u64::from_be_bytes(*b"document");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// A document and its identity.
pub struct ParsedDocument {
    pub(crate) view: Document<'static>,
    pub(crate) identity: Identity,
}

impl ParsedDocument {
    /// The event of this id.
    #[cold] // Smaller: it is called for what is logged.
    pub(crate) fn find(&self, event_id: &EventId) -> Option<Event<'static>> {
        self.view
            .events()
            .find(|event| EventId::new(&event.event_id()) == *event_id)
    }

    /// The line and column of an offset.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let Identity { data, len, .. } = self.identity;
        // SAFETY: the document was parsed from these bytes, which live and do not change as long as it is used.
        Position::of(unsafe { core::slice::from_raw_parts(data, len) }, offset)
    }
}

/// Which document a cursor belongs to: where its bytes are, and its incarnation if that is a number.
///
/// This recognises a cursor of another document unless both documents were parsed from the same memory, with the same
/// length and the same incarnation. Core accepts any cursor without a panic or an invalid read, so a cursor that is not
/// recognised gives wrong events at worst.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    data: *const u8,
    len: usize,
    incarnation: Option<u64>,
}

impl Identity {
    fn new(body: &[u8], view: &Document<'_>) -> Self {
        let incarnation = if let Incarnation::Number(number) = view.incarnation() {
            Some(number)
        } else {
            None
        };
        Self {
            data: body.as_ptr(),
            len: body.len(),
            incarnation,
        }
    }
}

/// Parses a document.
///
/// The document must be valid JSON (RFC 8259, UTF-8, with or without a byte order mark), an object with an array
/// "Events", and must not repeat a known member of an object. Everything else is tolerated: unknown members are skipped,
/// unknown words are kept, and each invalid member of an event is reported as a schedev_problem.
///
/// The number of events and resources is not limited. The time is linear in the length, and nothing is allocated.
///
/// @param data      the body of the HTTP response. It must outlive the document and all that is read from it.
/// @param len       its length in bytes.
/// @param document  receives the document.
/// @param error     receives what is wrong and where if the document is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_parse(
    data: *const c_char,
    len: usize,
    document: *mut schedev_document,
    error: *mut schedev_error,
) -> schedev_status {
    boundary(|| {
        check(document)?;
        let (body, error) = (checked!(bytes(data, len)), checked!(optional_output(error)));
        let parsed = Document::parse(body);
        // SAFETY: `document` was checked, and is an output.
        unsafe { write_parsed(document, error, body, &parsed) }
    })
}

/// Writes the result of parsing: the document, or why it was refused.
///
/// # Safety
/// `document` is aligned and may be written.
unsafe fn write_parsed(
    document: *mut schedev_document,
    error: Output<schedev_error>,
    body: &'static [u8],
    parsed: &core::result::Result<Document<'static>, ParseError>,
) -> Result {
    match *parsed {
        Ok(view) => {
            let value = ParsedDocument {
                view,
                identity: Identity::new(body, &view),
            };
            // SAFETY: the caller of this function allows the write.
            unsafe { tagged::write(document, value) };
            Ok(())
        }
        Err(refused) => {
            error.write(schedev_error::new(refused, refused.position(body)));
            Err(SCHEDEV_ERROR_PARSE)
        }
    }
}

/// The kind of an incarnation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_incarnation_kind {
    /// The document has no incarnation, or an invalid one.
    SCHEDEV_INCARNATION_ABSENT = 0,
    /// An integer.
    SCHEDEV_INCARNATION_NUMBER = 1,
    /// A string.
    SCHEDEV_INCARNATION_TEXT = 2,
}

use schedev_incarnation_kind::*;

/// The document's incarnation, which changes whenever the document changes. Compare it for equality only: it skips
/// numbers, and it starts again after a day without polls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_incarnation {
    /// A schedev_incarnation_kind.
    pub kind: u32,
    /// The integer; 0 for other kinds.
    pub number: u64,
    /// The string; empty for other kinds.
    pub text: schedev_text,
    /// For later versions: zero.
    pub reserved: [u64; 2],
}

/// Returns the document's incarnation.
///
/// @param document     the document.
/// @param incarnation  receives the incarnation.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the document is not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_incarnation(
    document: *const schedev_document,
    incarnation: *mut schedev_incarnation,
) -> schedev_status {
    boundary(|| {
        let (document, incarnation) = (checked!(object(document)), checked!(output(incarnation)));
        let (kind, number, text) = match document.view.incarnation() {
            Incarnation::Number(number) => (SCHEDEV_INCARNATION_NUMBER, number, schedev_text::NONE),
            Incarnation::Text(text) => (SCHEDEV_INCARNATION_TEXT, 0, schedev_text::from_core(text)),
            Incarnation::Absent => (SCHEDEV_INCARNATION_ABSENT, 0, schedev_text::NONE),
        };
        incarnation.write(schedev_incarnation {
            kind: kind as u32,
            number,
            text,
            reserved: [0; 2],
        });
        Ok(())
    })
}

/// Returns the number of events that schedev_document_next() gives.
///
/// @param document  the document.
/// @return the number; 0 if document is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_event_count(document: *const schedev_document) -> usize {
    value_boundary(0, || {
        let document = checked!(object(document));
        Ok(document.view.events().len())
    })
}

/// A position among the events of a document. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied.
///
/// Start a new cursor for each document. A cursor of another document is refused with SCHEDEV_ERROR_ARGUMENT, unless that
/// document was in the same memory with the same length and incarnation: then which events follow is unspecified.
#[repr(C)]
pub struct schedev_event_cursor {
    /// Private.
    pub opaque: [u64; 8],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_event_cursor {
    type Value = EventPosition;
    const TAG: u64 = u64::from_be_bytes(*b"events..");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// The value of a cursor: the next event of a document.
pub struct EventPosition {
    document: Identity,
    position: EventCursor,
}

/// Gives the next event, in the order of the document. Elements of Events that are not objects, have no EventId or repeat
/// one are left out; schedev_document_next_problem() reports them. Only the first 64 ids of a document are compared; trackers
/// and sessions compare all of them.
///
/// Nothing is stored, so that each event but the first is read a second time.
///
/// @param document  the document.
/// @param cursor    the position, which moves to the next event. Start with SCHEDEV_CURSOR_INIT.
/// @param event     receives the event.
/// @return SCHEDEV_OK; SCHEDEV_END after the last event; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the document or
///         the cursor is not initialised, or if the cursor belongs to another document.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_next(
    document: *const schedev_document,
    cursor: *mut schedev_event_cursor,
    event: *mut schedev_event,
) -> schedev_status {
    boundary(|| {
        check(event)?;
        let document = checked!(object(document));
        let mut position = match checked!(started(cursor)) {
            Some(started) if started.document != document.identity => {
                return Err(SCHEDEV_ERROR_ARGUMENT);
            }
            Some(started) => started.position,
            None => EventCursor::default(),
        };
        let next = document.view.next_event(&mut position).ok_or(SCHEDEV_END)?;
        // SAFETY: both pointers were checked and are outputs.
        unsafe {
            schedev_event::write(event, &next);
            tagged::write(
                cursor,
                EventPosition {
                    document: document.identity,
                    position,
                },
            );
        }
        Ok(())
    })
}

/// Finds the event of this id: the first one, ASCII case ignored. With the id of a schedev_tracked_event and the newest
/// document, it returns what sessions and trackers do not keep, such as Description and Resources.
///
/// @param document  the document.
/// @param event_id  the id.
/// @param event     receives the event.
/// @return SCHEDEV_OK; SCHEDEV_END if there is no such event; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_ARGUMENT
///         if the document is not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_find(
    document: *const schedev_document,
    event_id: schedev_text,
    event: *mut schedev_event,
) -> schedev_status {
    boundary(|| {
        check(event)?;
        let document = checked!(object(document));
        let event_id = &event_id;
        let event_id = checked!(core_event_id(event_id));
        let found = document.find(&event_id).ok_or(SCHEDEV_END)?;
        // SAFETY: the pointer was checked and is an output.
        unsafe { schedev_event::write(event, &found) };
        Ok(())
    })
}
