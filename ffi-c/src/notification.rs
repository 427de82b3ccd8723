//! Notifications: what Event Grid and Resource Graph say about events outside the machine, and the request that approves
//! them there.

use std::ffi::c_char;

use scheduled_events_core::approval::{ACKNOWLEDGE_API_VERSION, AcknowledgeError, acknowledge};
use scheduled_events_core::{NotificationCursor, NotificationState, Notifications, ResourceId};

use crate::abi::pointers::{Flag, bytes, check, list, optional_output, output, output_buffer};
use crate::abi::tagged::{self, Holder, object, started};
use crate::boundary::{boundary, value_boundary};
use crate::document::event::schedev_event;
use crate::error::schedev_error;
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_EVENT_ID, SCHEDEV_ERROR_INTERNAL,
    SCHEDEV_ERROR_PARSE, SCHEDEV_ERROR_RESOURCE_ID,
};
use crate::text::{ReadableText, core_text, schedev_text};

/// Parsed notifications: a view of the caller's bytes, which must stay unchanged while it is used. Opaque. It may be copied,
/// and there is nothing to free.
#[repr(C)]
pub struct schedev_notifications {
    /// Private.
    pub opaque: [u64; 24],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_notifications {
    type Value = ParsedNotifications;
    const TAG: u64 = u64::from_be_bytes(*b"notified");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// Notifications and their identity.
pub struct ParsedNotifications {
    view: Notifications<'static>,
    identity: Identity,
}

/// Which notifications a cursor belongs to: where their bytes are. Core accepts any cursor without a panic or an invalid
/// read, so a cursor that is not recognised gives wrong notifications at worst.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    data: *const u8,
    len: usize,
}

/// Parses notifications: a message of Event Grid in its own schema or in that of CloudEvents 1.0, an array of them, a row of
/// Resource Graph, or its answer with an array of rows. A Storage queue holds messages in Base64, which the program decodes.
///
/// The body must be valid JSON (RFC 8259, UTF-8, with or without a byte order mark), an object or an array, and must not
/// repeat a known member of an object. What is no Scheduled Event of a machine is left out and counted. The time is linear in
/// the length, and nothing is allocated. Azure publishes these in preview.
///
/// @param data           the body. It must outlive the notifications and all that is read from them.
/// @param len            its length in bytes.
/// @param notifications  receives the notifications.
/// @param error          receives what is wrong and where if the body is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_notifications_parse(
    data: *const c_char,
    len: usize,
    notifications: *mut schedev_notifications,
    error: *mut schedev_error,
) -> schedev_status {
    boundary(|| {
        check(notifications)?;
        let (body, error) = (checked!(bytes(data, len)), checked!(optional_output(error)));
        match Notifications::parse(body) {
            Ok(view) => {
                let identity = Identity {
                    data: body.as_ptr(),
                    len: body.len(),
                };
                // SAFETY: `notifications` was checked, and is an output.
                unsafe { tagged::write(notifications, ParsedNotifications { view, identity }) };
                Ok(())
            }
            Err(refused) => {
                error.write(schedev_error::new(refused, refused.position(body)));
                Err(SCHEDEV_ERROR_PARSE)
            }
        }
    })
}

/// Returns how many messages and rows are left out: other topics, the maintenance of AKS, a validation, and what has no event
/// that can be identified.
///
/// @param notifications  the notifications.
/// @return the number; 0 if notifications is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_notifications_left_out(
    notifications: *const schedev_notifications,
) -> usize {
    value_boundary(0, || Ok(checked!(object(notifications)).view.left_out()))
}

/// Returns the code of Event Grid's validation. A web hook answers {"validationResponse": code}.
///
/// @param notifications  the notifications.
/// @param code           receives the code.
/// @return SCHEDEV_OK; SCHEDEV_END if there is none; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if notifications is not
///         initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_notifications_validation_code(
    notifications: *const schedev_notifications,
    code: *mut schedev_text,
) -> schedev_status {
    boundary(|| {
        let (notifications, code) = (checked!(object(notifications)), checked!(output(code)));
        code.write(schedev_text::from_core(
            notifications.view.validation_code().ok_or(SCHEDEV_END)?,
        ));
        Ok(())
    })
}

/// How far an event is, as a notification says.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_notification_state {
    /// The event has no status.
    SCHEDEV_NOTIFICATION_STATE_NONE = 0,
    /// Announced. It can be approved.
    SCHEDEV_NOTIFICATION_STATE_SCHEDULED = 1,
    /// In progress.
    SCHEDEV_NOTIFICATION_STATE_STARTED = 2,
    /// Over.
    SCHEDEV_NOTIFICATION_STATE_COMPLETED = 3,
    /// Over, and it did not start.
    SCHEDEV_NOTIFICATION_STATE_CANCELED = 4,
    /// Advice, which is never approved.
    SCHEDEV_NOTIFICATION_STATE_ADVISORY = 5,
    /// A word that this library does not know. See event_status_text of the event.
    SCHEDEV_NOTIFICATION_STATE_OTHER = 255,
}

use schedev_notification_state::*;

/// One notification: that an event is in some state. The struct may be copied; its texts are views of the caller's bytes.
///
/// Notifications arrive at least once and in any order. An event goes from Scheduled to Started to Completed or Canceled,
/// never back: ignore a notification of an earlier state, and one that is older than what is known of the same state.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_notification {
    /// The event, with the members that it has in a document.
    pub event: schedev_event,
    /// The id of the message, if has_id. A message that is delivered again has the same one; a row of Resource Graph has none.
    pub id: schedev_text,
    /// The resource that the event is of, as received: a machine, or the set that its machines are in, with or without the
    /// event after it. Empty if it is absent.
    pub resource_id: schedev_text,
    /// When the event changed, or if that is unknown, when the message was sent: milliseconds since 1970-01-01T00:00:00Z, if
    /// has_time. A row of Resource Graph has no time.
    pub time_ms: i64,
    /// A schedev_notification_state.
    pub state: u32,
    /// Whether there is an id.
    pub has_id: Flag,
    /// Whether there is a time.
    pub has_time: Flag,
    /// For later versions: zero.
    pub reserved: [u64; 4],
}

fn state_number(state: &NotificationState<'_>) -> schedev_notification_state {
    match state {
        NotificationState::Scheduled => SCHEDEV_NOTIFICATION_STATE_SCHEDULED,
        NotificationState::Advisory => SCHEDEV_NOTIFICATION_STATE_ADVISORY,
        NotificationState::Started => SCHEDEV_NOTIFICATION_STATE_STARTED,
        NotificationState::Completed => SCHEDEV_NOTIFICATION_STATE_COMPLETED,
        NotificationState::Canceled => SCHEDEV_NOTIFICATION_STATE_CANCELED,
        NotificationState::Other(text) if text.is_empty() => SCHEDEV_NOTIFICATION_STATE_NONE,
        NotificationState::Other(_) => SCHEDEV_NOTIFICATION_STATE_OTHER,
    }
}

/// A position among notifications. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied. Start a new cursor for
/// each body.
#[repr(C)]
pub struct schedev_notification_cursor {
    /// Private.
    pub opaque: [u64; 24],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_notification_cursor {
    type Value = Position;
    const TAG: u64 = u64::from_be_bytes(*b"notices.");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// The value of a cursor.
pub struct Position {
    notifications: Identity,
    position: NotificationCursor,
}

/// Gives the next notification, in the order of the body.
///
/// @param notifications  the notifications.
/// @param cursor         the position, which moves to the next one. Start with SCHEDEV_CURSOR_INIT.
/// @param notification   receives the notification.
/// @return SCHEDEV_OK; SCHEDEV_END after the last one; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the notifications or the
///         cursor are not initialised, or if the cursor belongs to others.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_notifications_next(
    notifications: *const schedev_notifications,
    cursor: *mut schedev_notification_cursor,
    notification: *mut schedev_notification,
) -> schedev_status {
    boundary(|| {
        check(notification)?;
        let notifications = checked!(object(notifications));
        let mut position = match checked!(started(cursor)) {
            Some(started) if started.notifications != notifications.identity => {
                return Err(SCHEDEV_ERROR_ARGUMENT);
            }
            Some(started) => started.position,
            None => NotificationCursor::default(),
        };
        let next = notifications
            .view
            .next_notification(&mut position)
            .ok_or(SCHEDEV_END)?;
        // SAFETY: both pointers were checked and are outputs; each member is written once.
        unsafe {
            schedev_event::write(&raw mut (*notification).event, next.event());
            (&raw mut (*notification).id).write(
                next.id()
                    .map_or(schedev_text::NONE, schedev_text::from_core),
            );
            (&raw mut (*notification).resource_id)
                .write(schedev_text::from_core(next.resource_id()));
            (&raw mut (*notification).time_ms).write(next.time().map_or(0, |time| time.0));
            (&raw mut (*notification).state).write(state_number(&next.state()) as u32);
            (&raw mut (*notification).has_id).write(Flag::new(next.id().is_some()));
            (&raw mut (*notification).has_time).write(Flag::new(next.time().is_some()));
            (&raw mut (*notification).reserved).write([0; 4]);
            tagged::write(
                cursor,
                Position {
                    notifications: notifications.identity,
                    position,
                },
            );
        }
        Ok(())
    })
}

/// Writes the id of one of an event's machines, as Azure Resource Manager has it. Compare such ids ignoring ASCII case.
///
/// To get the size first, pass NULL and 0.
///
/// @param resource_id  the resource that the event is of: resource_id of a schedev_notification.
/// @param name         a name from the Resources of the event.
/// @param buffer       receives the id, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity     the size of the buffer in bytes.
/// @param needed       receives the length of the id in bytes, without the NUL, even if the buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_RESOURCE_ID if resource_id
///         is not the id of a machine or a set, or no machine can have the name; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_machine_id(
    resource_id: schedev_text,
    name: schedev_text,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let (resource_id, name) = (&resource_id, &name);
        let (resource_id, name) = (checked!(core_text(resource_id)), checked!(core_text(name)));
        let resource = ResourceId::parse(resource_id).map_err(|_| SCHEDEV_ERROR_RESOURCE_ID)?;
        let machine = resource
            .machine(name)
            .map_err(|_| SCHEDEV_ERROR_RESOURCE_ID)?;
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        let length = machine
            .write(&mut [])
            .map_or_else(|small| small.needed, str::len);
        buffer.fill_text(length, |target| {
            Ok(machine
                .write(target)
                .map_err(|_| SCHEDEV_ERROR_INTERNAL)?
                .len())
        })
    })
}

/// The longest path that schedev_acknowledge_request() writes for names in ASCII, and a NUL.
pub const SCHEDEV_ACKNOWLEDGE_PATH_MAX_BYTES: usize = 512;

const _: () = assert!(
    // Subscription and event, the group, the name, and the words around them.
    2 * 36 + 90 + 80 + 210 + ACKNOWLEDGE_API_VERSION.len() < SCHEDEV_ACKNOWLEDGE_PATH_MAX_BYTES
);

/// Writes the request to Azure Resource Manager that approves events outside the machine: POST, to the path after
/// https://management.azure.com, with the body, which is empty for one event and JSON for several. An approval lets Azure
/// start the events now, for all machines in their Resources. In preview at Azure.
///
/// To get the sizes first, pass NULL and 0 for both buffers.
///
/// @param resource_id    the resource that the events are of: resource_id of a schedev_notification.
/// @param ids            the ids of the events, GUIDs.
/// @param count          the number of ids, at least 1.
/// @param path           receives the path with its query, and a NUL after it if a byte is left; NULL if path_capacity is 0.
/// @param path_capacity  the size of path in bytes.
/// @param path_needed    receives the length of the path, without the NUL, even if a buffer is too small.
/// @param body           receives the body, and a NUL after it if a byte is left; NULL if body_capacity is 0.
/// @param body_capacity  the size of body in bytes.
/// @param body_needed    receives the length of the body, without the NUL, even if a buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_RESOURCE_ID if resource_id is not the id of a machine or a
///         set; SCHEDEV_ERROR_EVENT_ID if an id is not a GUID; SCHEDEV_ERROR_ARGUMENT if count is 0; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_acknowledge_request(
    resource_id: schedev_text,
    ids: *const schedev_text,
    count: usize,
    path: *mut c_char,
    path_capacity: usize,
    path_needed: *mut usize,
    body: *mut c_char,
    body_capacity: usize,
    body_needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let resource_id = &resource_id;
        let resource_id = checked!(core_text(resource_id));
        let ids = checked!(list(ids, count));
        // SAFETY: the ids do not outlive this call.
        let ids = unsafe { ReadableText::checked(ids) }?;
        let resource = ResourceId::parse(resource_id).map_err(|_| SCHEDEV_ERROR_RESOURCE_ID)?;
        let request = acknowledge(resource, ids).map_err(|error| match error {
            AcknowledgeError::EventId { .. } => SCHEDEV_ERROR_EVENT_ID,
            _ => SCHEDEV_ERROR_ARGUMENT,
        })?;
        let (path_len, body_len) = (request.path_len(), request.body_len());
        let mut path = checked!(output_buffer(path, path_capacity, path_needed));
        let mut body = checked!(output_buffer(body, body_capacity, body_needed));
        if path_len > path_capacity || body_len > body_capacity {
            // One that is large enough stays as it was, too.
            (path, body) = (path.emptied(), body.emptied());
        }
        let path = path.fill_text(path_len, |target| {
            Ok(request
                .write_path(target)
                .map_err(|_| SCHEDEV_ERROR_INTERNAL)?
                .len())
        });
        let body = body.fill_text(body_len, |target| {
            request
                .write_body(target)
                .map_err(|_| SCHEDEV_ERROR_INTERNAL)
        });
        path.and(body)
    })
}
