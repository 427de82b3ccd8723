//! Status codes.

use std::ffi::{CStr, c_char};

/// The result of a call. 0 is success, 1 is the end of an iteration, and everything else is an error. A call that fails
/// writes nothing but `needed` and a schedev_error.
///
/// The numbers never change. Later versions may add some: treat an unknown number as an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_status {
    /// Success.
    SCHEDEV_OK = 0,
    /// No more items, or no item at this index. Not an error.
    SCHEDEV_END = 1,
    /// A pointer is NULL that must not be, or NULL was passed with a length that is not 0.
    SCHEDEV_ERROR_NULL = 2,
    /// An argument has an invalid value; or an object is not initialised; or a cursor belongs to another object.
    SCHEDEV_ERROR_ARGUMENT = 3,
    /// A text is not UTF-8.
    SCHEDEV_ERROR_UTF8 = 4,
    /// The buffer is too small for the result; `needed` has the size.
    SCHEDEV_ERROR_BUFFER_TOO_SMALL = 5,
    /// The bytes are not a Scheduled Events document. The schedev_error says what is wrong and where.
    SCHEDEV_ERROR_PARSE = 6,
    /// The text is not a valid time.
    SCHEDEV_ERROR_TIME = 7,
    /// The policy has more than SCHEDEV_RULES_MAX rules.
    SCHEDEV_ERROR_TOO_MANY_RULES = 8,
    /// There are more than SCHEDEV_NAMES_MAX names.
    SCHEDEV_ERROR_TOO_MANY_NAMES = 9,
    /// A name has more than SCHEDEV_NAME_MAX_BYTES bytes.
    SCHEDEV_ERROR_NAME_TOO_LONG = 10,
    /// The interval is shorter than SCHEDEV_INTERVAL_MIN_MS.
    SCHEDEV_ERROR_INTERVAL_TOO_SHORT = 11,
    /// The memory is too small for the object.
    SCHEDEV_ERROR_MEMORY_TOO_SMALL = 12,
    /// The document has more events than the tracker can hold. The tracker is unchanged.
    SCHEDEV_ERROR_TRACKER_FULL = 13,
    /// There is no such event, or no step with this attempt number waits for this answer.
    SCHEDEV_ERROR_UNKNOWN_EVENT = 14,
    /// The snapshot is incomplete, was changed, or is not a snapshot.
    SCHEDEV_ERROR_SNAPSHOT_DAMAGED = 15,
    /// The snapshot was written by a later version of this library.
    SCHEDEV_ERROR_SNAPSHOT_VERSION = 16,
    /// A preparation or a recovery is pending for more events than a session can hold.
    SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS = 17,
    /// Another machine wrote the snapshot: the disk was cloned.
    SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE = 18,
    /// Azure refuses the notification profile or its time-out. The schedev_error has the schedev_profile_rule.
    SCHEDEV_ERROR_PROFILE = 19,
    /// The text is not the id of a machine, a scale set or an availability set in Azure Resource Manager.
    SCHEDEV_ERROR_RESOURCE_ID = 20,
    /// The id of an event is not a GUID.
    SCHEDEV_ERROR_EVENT_ID = 21,
    /// A bug in this library was caught. Initialise the objects that were passed again.
    SCHEDEV_ERROR_INTERNAL = 255,
}

use schedev_status::*;

pub(crate) const ALL: [schedev_status; 23] = [
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
    SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE,
    SCHEDEV_ERROR_PROFILE,
    SCHEDEV_ERROR_RESOURCE_ID,
    SCHEDEV_ERROR_EVENT_ID,
    SCHEDEV_ERROR_INTERNAL,
];

impl schedev_status {
    const fn message(self) -> &'static CStr {
        match self {
            SCHEDEV_OK => c"success",
            SCHEDEV_END => c"no more items",
            SCHEDEV_ERROR_NULL => c"a pointer is NULL that must not be",
            SCHEDEV_ERROR_ARGUMENT => {
                c"an argument has an invalid value, or an object is not initialised"
            }
            SCHEDEV_ERROR_UTF8 => c"a text is not UTF-8",
            SCHEDEV_ERROR_BUFFER_TOO_SMALL => c"the buffer is too small",
            SCHEDEV_ERROR_PARSE => c"not a Scheduled Events document",
            SCHEDEV_ERROR_TIME => c"not a valid time",
            SCHEDEV_ERROR_TOO_MANY_RULES => c"a policy can have at most 32 rules",
            SCHEDEV_ERROR_TOO_MANY_NAMES => c"a machine can have at most 8 names",
            SCHEDEV_ERROR_NAME_TOO_LONG => c"a name can have at most 128 bytes",
            SCHEDEV_ERROR_INTERVAL_TOO_SHORT => c"the interval must be at least 200 ms",
            SCHEDEV_ERROR_MEMORY_TOO_SMALL => c"the memory is too small for the object",
            SCHEDEV_ERROR_TRACKER_FULL => c"the document has more events than the tracker can hold",
            SCHEDEV_ERROR_UNKNOWN_EVENT => c"no such event, or nothing waits for this answer",
            SCHEDEV_ERROR_SNAPSHOT_DAMAGED => c"the snapshot is damaged",
            SCHEDEV_ERROR_SNAPSHOT_VERSION => c"the snapshot was written by a later version",
            SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS => {
                c"the snapshot has more pending events than a session can hold"
            }
            SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE => c"the snapshot is of another machine",
            SCHEDEV_ERROR_PROFILE => c"Azure refuses the notification profile or its time-out",
            SCHEDEV_ERROR_RESOURCE_ID => {
                c"not the id of a machine or a set in Azure Resource Manager"
            }
            SCHEDEV_ERROR_EVENT_ID => c"the id of an event is not a GUID",
            SCHEDEV_ERROR_INTERNAL => c"internal error",
        }
    }
}

/// Returns a status as a message for people.
///
/// @param code  a schedev_status, or any other number.
/// @return a static string, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_status_message(code: u32) -> *const c_char {
    let known = ALL.iter().find(|status| **status as u32 == code);
    known
        .map_or(c"unknown status", |status| status.message())
        .as_ptr()
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
        assert!(
            SCHEDEV_ERROR_TOO_MANY_RULES
                .message()
                .to_str()
                .unwrap()
                .contains(&MAX_RULES.to_string())
        );
        assert!(
            SCHEDEV_ERROR_TOO_MANY_NAMES
                .message()
                .to_str()
                .unwrap()
                .contains(&limits::NAMES_MAX.to_string())
        );
        assert!(
            SCHEDEV_ERROR_NAME_TOO_LONG
                .message()
                .to_str()
                .unwrap()
                .contains(&limits::NAME_MAX.to_string())
        );
        let interval = SCHEDEV_ERROR_INTERVAL_TOO_SHORT.message().to_str().unwrap();
        assert!(interval.contains(&limits::INTERVAL_MIN_MS.to_string()));
    }
}
