//! What a call came to.

use std::ffi::{CStr, c_char};

/// What a call came to. 0 is success and 1 the end of an iteration; everything from 2 on is an error, and a call that
/// returns an error has written nothing, `needed` and a `schedev_error` excepted.
///
/// The numbers never change and are never used again. Later versions may add some: treat one that you do not know as an
/// error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_status {
    /// It is done.
    SCHEDEV_OK = 0,
    /// There is nothing more, or nothing at that index. Not an error.
    SCHEDEV_END = 1,
    /// A pointer that must not be NULL is, or NULL comes with a length that is not 0.
    SCHEDEV_ERROR_NULL = 2,
    /// A value is none of those that the parameter can have; or an object was never initialised; or a cursor belongs to
    /// another object.
    SCHEDEV_ERROR_ARGUMENT = 3,
    /// A text that the caller passed is not UTF-8.
    SCHEDEV_ERROR_UTF8 = 4,
    /// The buffer cannot hold the result; `needed` tells what it takes.
    SCHEDEV_ERROR_BUFFER_TOO_SMALL = 5,
    /// The bytes are no Scheduled Events document; the `schedev_error` tells why and where.
    SCHEDEV_ERROR_PARSE = 6,
    /// The text is no time, or one that does not exist.
    SCHEDEV_ERROR_TIME = 7,
    /// A policy has more than SCHEDEV_RULES_MAX rules.
    SCHEDEV_ERROR_TOO_MANY_RULES = 8,
    /// More than SCHEDEV_NAMES_MAX names were passed.
    SCHEDEV_ERROR_TOO_MANY_NAMES = 9,
    /// A name has more than SCHEDEV_NAME_MAX_BYTES bytes.
    SCHEDEV_ERROR_NAME_TOO_LONG = 10,
    /// The interval is below SCHEDEV_INTERVAL_MIN_MS.
    SCHEDEV_ERROR_INTERVAL_TOO_SHORT = 11,
    /// The memory that the caller hands over is smaller than the object's size.
    SCHEDEV_ERROR_MEMORY_TOO_SMALL = 12,
    /// The document holds more events than the tracker; nothing changed.
    SCHEDEV_ERROR_TRACKER_FULL = 13,
    /// No such event is followed, or it does not wait for this answer.
    SCHEDEV_ERROR_UNKNOWN_EVENT = 14,
    /// The bytes are no snapshot, or not a whole one, or were changed. The session is empty.
    SCHEDEV_ERROR_SNAPSHOT_DAMAGED = 15,
    /// A later version of this library wrote the snapshot. The session is empty.
    SCHEDEV_ERROR_SNAPSHOT_VERSION = 16,
    /// The snapshot holds more events than a session. The session is empty.
    SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS = 17,
    /// A defect of this library was caught. Initialise the objects that took part anew.
    SCHEDEV_ERROR_INTERNAL = 255,
}

use schedev_status::*;

pub(crate) const ALL: [schedev_status; 19] = [
    SCHEDEV_OK,
    SCHEDEV_END,
    SCHEDEV_ERROR_NULL,
    SCHEDEV_ERROR_ARGUMENT,
    SCHEDEV_ERROR_UTF8,
    SCHEDEV_ERROR_BUFFER_TOO_SMALL,
    SCHEDEV_ERROR_PARSE,
    SCHEDEV_ERROR_TIME,
    SCHEDEV_ERROR_TOO_MANY_RULES,
    SCHEDEV_ERROR_TOO_MANY_NAMES,
    SCHEDEV_ERROR_NAME_TOO_LONG,
    SCHEDEV_ERROR_INTERVAL_TOO_SHORT,
    SCHEDEV_ERROR_MEMORY_TOO_SMALL,
    SCHEDEV_ERROR_TRACKER_FULL,
    SCHEDEV_ERROR_UNKNOWN_EVENT,
    SCHEDEV_ERROR_SNAPSHOT_DAMAGED,
    SCHEDEV_ERROR_SNAPSHOT_VERSION,
    SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
    SCHEDEV_ERROR_INTERNAL,
];

impl schedev_status {
    const fn message(self) -> &'static CStr {
        match self {
            SCHEDEV_OK => c"done",
            SCHEDEV_END => c"there is nothing more",
            SCHEDEV_ERROR_NULL => c"a pointer that must not be NULL is NULL",
            SCHEDEV_ERROR_ARGUMENT => c"an argument is out of range, or an object was not initialised",
            SCHEDEV_ERROR_UTF8 => c"a text is not UTF-8",
            SCHEDEV_ERROR_BUFFER_TOO_SMALL => c"the buffer is too small",
            SCHEDEV_ERROR_PARSE => c"the bytes are no Scheduled Events document",
            SCHEDEV_ERROR_TIME => c"the text is no time",
            SCHEDEV_ERROR_TOO_MANY_RULES => c"a policy holds 32 rules at most",
            SCHEDEV_ERROR_TOO_MANY_NAMES => c"a machine has 8 names at most",
            SCHEDEV_ERROR_NAME_TOO_LONG => c"a name has 128 bytes at most",
            SCHEDEV_ERROR_INTERVAL_TOO_SHORT => c"the interval must be 200 ms at least",
            SCHEDEV_ERROR_MEMORY_TOO_SMALL => c"the memory is smaller than the object",
            SCHEDEV_ERROR_TRACKER_FULL => c"the document holds more events than the tracker",
            SCHEDEV_ERROR_UNKNOWN_EVENT => c"no such event waits for this",
            SCHEDEV_ERROR_SNAPSHOT_DAMAGED => c"the snapshot is damaged",
            SCHEDEV_ERROR_SNAPSHOT_VERSION => c"a later version wrote the snapshot",
            SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS => c"the snapshot holds more events than a session",
            SCHEDEV_ERROR_INTERNAL => c"internal error",
        }
    }
}

/// What a status means, in a few words for a person.
///
/// @param code  a schedev_status, or any other number.
/// @return a constant text that ends with NUL; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_status_message(code: u32) -> *const c_char {
    let known = ALL.iter().find(|status| **status as u32 == code);
    known.map_or(c"unknown status", |status| status.message()).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_message_of_its_own() {
        let mut seen = Vec::new();
        for code in 0..300 {
            // SAFETY: the messages are constant and end with NUL.
            let message = unsafe { CStr::from_ptr(schedev_status_message(code)) };
            if message == c"unknown status" {
                assert!(ALL.iter().all(|status| *status as u32 != code));
            } else {
                assert!(!seen.contains(&message), "{message:?}");
                seen.push(message);
            }
        }
        assert_eq!(seen.len(), ALL.len());
    }

    #[test]
    fn messages_name_the_limits_that_hold() {
        use scheduled_events_core::{MAX_RULES, limits};
        assert!(SCHEDEV_ERROR_TOO_MANY_RULES.message().to_str().unwrap().contains(&MAX_RULES.to_string()));
        assert!(SCHEDEV_ERROR_TOO_MANY_NAMES.message().to_str().unwrap().contains(&limits::NAMES_MAX.to_string()));
        assert!(SCHEDEV_ERROR_NAME_TOO_LONG.message().to_str().unwrap().contains(&limits::NAME_MAX.to_string()));
        let interval = SCHEDEV_ERROR_INTERVAL_TOO_SHORT.message().to_str().unwrap();
        assert!(interval.contains(&limits::INTERVAL_MIN_MS.to_string()));
    }
}
