//! The body that approves events.

use std::ffi::c_char;

use scheduled_events_core::{StartRequests, WriteDecoded};

use crate::boundary::boundary;
use crate::memory::{fill, list};
use crate::status::schedev_status::{self, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_INTERNAL};
use crate::text::schedev_text;

/// Writes the POST body that approves events: {"StartRequests":[{"EventId":"..."}]}. It lets Azure start them early, for
/// all their Resources. Ids are echoed as they were read.
///
/// To learn the size beforehand pass NULL and 0.
///
/// @param ids       the ids, such as those of schedev_event.
/// @param count     how many, at least 1.
/// @param buffer    receives the body, and a NUL behind it where there is room for one; NULL where capacity is 0.
/// @param capacity  the bytes that the buffer holds.
/// @param needed    receives the length of the body in bytes, the NUL not counted, also where it does not fit.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is as it was; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT for no ids at all; SCHEDEV_ERROR_UTF8.
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
        // SAFETY: the conventions of the header.
        let ids = unsafe { list(ids, count) }?;
        if ids.is_empty() {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        for id in ids {
            // Checked here, so that it can be displayed below.
            // SAFETY: the conventions of the header.
            unsafe { id.read() }?;
        }
        // SAFETY: `Id` displays what was checked above, and only during this call. The layout is the same.
        let ids = unsafe { core::slice::from_raw_parts(ids.as_ptr().cast::<Id>(), ids.len()) };
        let approval = StartRequests::new(ids);
        // SAFETY: the conventions of the header.
        unsafe {
            fill((buffer, capacity, needed), approval.len(), true, |target| {
                approval.write(target).map_err(|_| SCHEDEV_ERROR_INTERNAL)
            })
        }
    })
}

/// An id that was checked to be readable.
#[repr(transparent)]
struct Id(schedev_text);

impl WriteDecoded for Id {
    fn write_decoded(&self, tell: impl FnMut(&str)) {
        // SAFETY: the view is valid during the call that made this, which has checked that it can be read.
        if let Ok(text) = unsafe { self.0.read() } {
            text.write_decoded(tell);
        }
    }
}
