//! Moments, read and written.

use std::ffi::c_char;

use scheduled_events_core::UnixSeconds;

use crate::boundary::boundary;
use crate::memory::{fill, output, utf8};
use crate::status::schedev_status::{self, SCHEDEV_ERROR_INTERNAL, SCHEDEV_ERROR_TIME};

const _: () = assert!(UnixSeconds::WRITTEN_MAX < 32, "what the header says of the buffer");

/// Reads a time: RFC 1123 ("Mon, 19 Sep 2016 18:29:47 GMT") or ISO 8601 ("2018-04-12T16:58:30.1458776Z"). Fractions of
/// a second are cut off, an offset is converted, and no offset means UTC.
///
/// @param data     the text, UTF-8; NULL where len is 0.
/// @param len      its length in bytes.
/// @param seconds  receives the seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TIME for what is no time; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_time_parse(data: *const c_char, len: usize, seconds: *mut i64) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (text, seconds) = unsafe { (utf8(data, len)?, output(seconds)?) };
        seconds.write(UnixSeconds::parse(text).ok_or(SCHEDEV_ERROR_TIME)?.0);
        Ok(())
    })
}

/// Writes a moment as RFC 3339 in UTC, such as "2022-04-11T22:26:58Z".
///
/// @param seconds   seconds since 1970-01-01T00:00:00Z.
/// @param buffer    receives the text, and a NUL where there is room for it; NULL where capacity is 0.
/// @param capacity  the bytes that the buffer holds; 32 are enough for any moment and its NUL.
/// @param needed    receives the length of the text in bytes, the NUL not counted, also where it does not fit.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_time_format(
    seconds: i64,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let moment = UnixSeconds(seconds);
        let length = moment.write(&mut []).map_or_else(|small| small.needed, str::len);
        // SAFETY: the conventions of the header.
        unsafe {
            fill((buffer, capacity, needed), length, true, |target| {
                moment.write(target).map(str::len).map_err(|_| SCHEDEV_ERROR_INTERNAL)
            })
        }
    })
}
