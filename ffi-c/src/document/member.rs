//! The members that documents and events define.

use std::ffi::{CStr, c_char};

use scheduled_events_core::Member;

/// The members that documents and events define.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the document.
pub enum schedev_member {
    /// No member.
    SCHEDEV_MEMBER_NONE = 0,
    SCHEDEV_MEMBER_EVENT_ID = 1,
    SCHEDEV_MEMBER_EVENT_STATUS = 2,
    SCHEDEV_MEMBER_EVENT_TYPE = 3,
    SCHEDEV_MEMBER_RESOURCE_TYPE = 4,
    SCHEDEV_MEMBER_RESOURCES = 5,
    SCHEDEV_MEMBER_NOT_BEFORE = 6,
    SCHEDEV_MEMBER_DESCRIPTION = 7,
    SCHEDEV_MEMBER_EVENT_SOURCE = 8,
    SCHEDEV_MEMBER_DURATION_IN_SECONDS = 9,
    SCHEDEV_MEMBER_DOCUMENT_INCARNATION = 10,
    SCHEDEV_MEMBER_EVENTS = 11,
    /// A member that this version of the header does not name.
    SCHEDEV_MEMBER_OTHER = 255,
}

use schedev_member::*;

const MEMBERS: [(schedev_member, Option<Member>, &CStr); 12] = [
    (SCHEDEV_MEMBER_NONE, None, c""),
    (SCHEDEV_MEMBER_EVENT_ID, Some(Member::EventId), c"EventId"),
    (
        SCHEDEV_MEMBER_EVENT_STATUS,
        Some(Member::EventStatus),
        c"EventStatus",
    ),
    (
        SCHEDEV_MEMBER_EVENT_TYPE,
        Some(Member::EventType),
        c"EventType",
    ),
    (
        SCHEDEV_MEMBER_RESOURCE_TYPE,
        Some(Member::ResourceType),
        c"ResourceType",
    ),
    (
        SCHEDEV_MEMBER_RESOURCES,
        Some(Member::Resources),
        c"Resources",
    ),
    (
        SCHEDEV_MEMBER_NOT_BEFORE,
        Some(Member::NotBefore),
        c"NotBefore",
    ),
    (
        SCHEDEV_MEMBER_DESCRIPTION,
        Some(Member::Description),
        c"Description",
    ),
    (
        SCHEDEV_MEMBER_EVENT_SOURCE,
        Some(Member::EventSource),
        c"EventSource",
    ),
    (
        SCHEDEV_MEMBER_DURATION_IN_SECONDS,
        Some(Member::DurationInSeconds),
        c"DurationInSeconds",
    ),
    (
        SCHEDEV_MEMBER_DOCUMENT_INCARNATION,
        Some(Member::DocumentIncarnation),
        c"DocumentIncarnation",
    ),
    (SCHEDEV_MEMBER_EVENTS, Some(Member::Events), c"Events"),
];

/// The number of a member.
pub(crate) fn member_number(member: Option<Member>) -> u32 {
    let known = MEMBERS.iter().find(|(_, known, _)| *known == member);
    known.map_or(SCHEDEV_MEMBER_OTHER, |(number, ..)| *number) as u32
}

/// The member of a number.
pub(crate) fn member_of(number: u32) -> Option<Member> {
    MEMBERS
        .iter()
        .find(|(known, ..)| *known as u32 == number)
        .and_then(|(_, member, _)| *member)
}

/// Returns the name of a member as documents spell it, such as "EventId".
///
/// @param member  a schedev_member, or any other number.
/// @return a static string; empty if the number has no name.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_member_name(member: u32) -> *const c_char {
    let known = MEMBERS.iter().find(|(number, ..)| *number as u32 == member);
    known.map_or(c"", |(_, _, name)| name).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_core() {
        for (number, member, name) in MEMBERS {
            assert_eq!(name.to_str().unwrap(), member.map_or("", Member::name));
            assert_eq!(member_of(number as u32), member);
        }
    }
}
