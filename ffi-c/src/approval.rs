//! The request body that approves events.

use std::ffi::c_char;

use scheduled_events_core::StartRequests;

use crate::abi::pointers::{list, output_buffer};
use crate::boundary::boundary;
use crate::status::schedev_status::{self, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_INTERNAL};
use crate::text::{ReadableText, schedev_text};

/// Writes the POST body that approves events: {"StartRequests":[{"EventId":"..."}]}. An approval lets Azure start the
/// events now, for all machines in their Resources.
///
/// To get the size first, pass NULL and 0.
///
/// @param ids       the ids of the events.
/// @param count     the number of ids, at least 1.
/// @param buffer    receives the body, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes.
/// @param needed    receives the length of the body in bytes, without the NUL, even if the buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT if count is 0; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_start_requests(
    ids: *const schedev_text,
    count: usize,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let ids = checked!(list(ids, count));
        if ids.is_empty() {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        // SAFETY: the ids do not outlive this call.
        let ids = unsafe { ReadableText::checked(ids) }?;
        let approval = StartRequests::new(ids);
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        buffer.fill_text(approval.len(), |target| {
            approval.write(target).map_err(|_| SCHEDEV_ERROR_INTERNAL)
        })
    })
}
