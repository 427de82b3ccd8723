//! Times.

use std::ffi::c_char;

use scheduled_events_core::UnixSeconds;

use crate::abi::pointers::{output, output_buffer, utf8};
use crate::boundary::boundary;
use crate::status::schedev_status::{self, SCHEDEV_ERROR_INTERNAL, SCHEDEV_ERROR_TIME};

const _: () = assert!(
    UnixSeconds::WRITTEN_MAX < 32,
    "the header documents a buffer of 32 bytes"
);

/// Parses a time: RFC 1123 ("Mon, 19 Sep 2016 18:29:47 GMT") or ISO 8601 ("2018-04-12T16:58:30.1458776Z"). Fractions of a
/// second are cut off. A time with an offset is converted to UTC; one without an offset is UTC.
///
/// @param data     the text, UTF-8; NULL if len is 0.
/// @param len      its length in bytes.
/// @param seconds  receives the seconds since 1970-01-01T00:00:00Z, without leap seconds.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TIME if it is not a valid time; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_time_parse(
    data: *const c_char,
    len: usize,
    seconds: *mut i64,
) -> schedev_status {
    boundary(|| {
        let (text, seconds) = (checked!(utf8(data, len)), checked!(output(seconds)));
        seconds.write(UnixSeconds::parse(text).ok_or(SCHEDEV_ERROR_TIME)?.0);
        Ok(())
    })
}

/// Formats a time as RFC 3339 in UTC, such as "2022-04-11T22:26:58Z".
///
/// @param seconds   the seconds since 1970-01-01T00:00:00Z.
/// @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes; 32 bytes are enough for every time.
/// @param needed    receives the length of the text in bytes, without the NUL, even if the buffer is too small.
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
        let length = moment
            .write(&mut [])
            .map_or_else(|small| small.needed, str::len);
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        buffer.fill_text(length, |target| {
            moment
                .write(target)
                .map(str::len)
                .map_err(|_| SCHEDEV_ERROR_INTERNAL)
        })
    })
}
