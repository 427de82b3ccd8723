//! What is odd in a document that is not refused.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{Member, Problem, ProblemKind, Problems};

use crate::boundary::boundary;
use crate::document::{Mark, held_document, schedev_document};
use crate::memory::{Flag, check, output};
use crate::opaque::{Held, seal, unseal_started};
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};

/// The members that the document and its events define.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words are the wire's own.
pub enum schedev_member {
    /// None of them.
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
    (SCHEDEV_MEMBER_EVENT_STATUS, Some(Member::EventStatus), c"EventStatus"),
    (SCHEDEV_MEMBER_EVENT_TYPE, Some(Member::EventType), c"EventType"),
    (SCHEDEV_MEMBER_RESOURCE_TYPE, Some(Member::ResourceType), c"ResourceType"),
    (SCHEDEV_MEMBER_RESOURCES, Some(Member::Resources), c"Resources"),
    (SCHEDEV_MEMBER_NOT_BEFORE, Some(Member::NotBefore), c"NotBefore"),
    (SCHEDEV_MEMBER_DESCRIPTION, Some(Member::Description), c"Description"),
    (SCHEDEV_MEMBER_EVENT_SOURCE, Some(Member::EventSource), c"EventSource"),
    (SCHEDEV_MEMBER_DURATION_IN_SECONDS, Some(Member::DurationInSeconds), c"DurationInSeconds"),
    (SCHEDEV_MEMBER_DOCUMENT_INCARNATION, Some(Member::DocumentIncarnation), c"DocumentIncarnation"),
    (SCHEDEV_MEMBER_EVENTS, Some(Member::Events), c"Events"),
];

pub(crate) fn member_number(member: Option<Member>) -> u32 {
    let known = MEMBERS.iter().find(|(_, known, _)| *known == member);
    known.map_or(SCHEDEV_MEMBER_OTHER, |(number, ..)| *number) as u32
}

/// A member's name on the wire: "EventId".
///
/// @param member  a schedev_member, or any other number.
/// @return a constant text that ends with NUL; empty for a number that has no name.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_member_name(member: u32) -> *const c_char {
    let known = MEMBERS.iter().find(|(number, ..)| *number as u32 == member);
    known.map_or(c"", |(_, _, name)| name).as_ptr()
}

/// What is odd about a member.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_problem_kind {
    /// The event has no EventId: it is left out.
    SCHEDEV_PROBLEM_MISSING = 1,
    /// An event with this EventId stands earlier in the document: this one is left out.
    SCHEDEV_PROBLEM_REPEATED = 2,
    /// The EventId is empty.
    SCHEDEV_PROBLEM_EMPTY = 3,
    /// The EventId has more than SCHEDEV_EVENT_ID_MAX_BYTES bytes.
    SCHEDEV_PROBLEM_TOO_LONG = 4,
    /// The member's value has a type that it cannot have.
    SCHEDEV_PROBLEM_WRONG_TYPE = 5,
    /// An element of Events is no object: it is left out.
    SCHEDEV_PROBLEM_NOT_AN_OBJECT = 6,
    /// A number that is larger or smaller than its meaning allows.
    SCHEDEV_PROBLEM_OUT_OF_RANGE = 7,
    /// A number with a fraction, or a text that is no number, where a whole number is meant.
    SCHEDEV_PROBLEM_NOT_AN_INTEGER = 8,
    /// A NotBefore that is neither RFC 1123 nor ISO 8601, or a date that does not exist.
    SCHEDEV_PROBLEM_UNREADABLE_TIME = 9,
    /// A kind that this version of the header does not name.
    SCHEDEV_PROBLEM_OTHER = 255,
}

use schedev_problem_kind::*;

const KINDS: [(schedev_problem_kind, ProblemKind, &CStr); 9] = [
    (SCHEDEV_PROBLEM_MISSING, ProblemKind::Missing, c"missing"),
    (SCHEDEV_PROBLEM_REPEATED, ProblemKind::Repeated, c"repeated"),
    (SCHEDEV_PROBLEM_EMPTY, ProblemKind::Empty, c"empty"),
    (SCHEDEV_PROBLEM_TOO_LONG, ProblemKind::TooLong, c"too-long"),
    (SCHEDEV_PROBLEM_WRONG_TYPE, ProblemKind::WrongType, c"wrong-type"),
    (SCHEDEV_PROBLEM_NOT_AN_OBJECT, ProblemKind::NotAnObject, c"not-an-object"),
    (SCHEDEV_PROBLEM_OUT_OF_RANGE, ProblemKind::OutOfRange, c"out-of-range"),
    (SCHEDEV_PROBLEM_NOT_AN_INTEGER, ProblemKind::NotAnInteger, c"not-an-integer"),
    (SCHEDEV_PROBLEM_UNREADABLE_TIME, ProblemKind::UnreadableTime, c"unreadable-time"),
];

/// A schedev_problem_kind as a word: "unreadable-time".
///
/// @param kind  a schedev_problem_kind, or any other number.
/// @return a constant text that ends with NUL; "other" for a number that has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_problem_kind_word(kind: u32) -> *const c_char {
    let known = KINDS.iter().find(|(number, ..)| *number as u32 == kind);
    known.map_or(c"other", |(_, _, word)| word).as_ptr()
}

/// Something odd in one event, or in the document's own members, that does not refuse the document.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_problem {
    /// A schedev_problem_kind.
    pub kind: u32,
    /// A schedev_member; SCHEDEV_MEMBER_NONE where no member is concerned, as for an element that is no object.
    pub member: u32,
    /// Where the event stands in the document's Events, elements that are left out counted, from 0.
    pub event_index: usize,
    /// The first byte of the value concerned, or of the event where a member is missing, from 0.
    pub offset: usize,
    /// Whether an event is concerned, not the document itself.
    pub has_event: Flag,
}

impl schedev_problem {
    pub(crate) const NONE: Self = Self { kind: 0, member: 0, event_index: 0, offset: 0, has_event: Flag::new(false) };

    pub(crate) fn of(problem: &Problem) -> Self {
        let kind = KINDS.iter().find(|(_, kind, _)| *kind == problem.kind);
        Self {
            kind: kind.map_or(SCHEDEV_PROBLEM_OTHER, |(number, ..)| *number) as u32,
            member: member_number(problem.member),
            event_index: problem.event.unwrap_or(0),
            offset: problem.offset,
            has_event: Flag::new(problem.event.is_some()),
        }
    }
}

/// Where an iteration over a document's problems stands. Opaque; start with SCHEDEV_CURSOR_INIT. It is tied to the
/// document's bytes, and may be copied.
#[repr(C)]
pub struct schedev_problem_cursor {
    /// Not for the caller.
    pub opaque: [u64; 128],
}

struct HeldProblems {
    problems: Problems<'static>,
    of: Mark,
}

impl Held for HeldProblems {
    const TAG: u64 = 0x7072_6f62_6c65_6d73;
}

/// The next problem: the document's own first, then those of each event, in the order in which they stand.
///
/// @param document  the document.
/// @param cursor    where the iteration stands; moved on. It starts as SCHEDEV_CURSOR_INIT.
/// @param problem   receives the problem.
/// @return SCHEDEV_OK; SCHEDEV_END when there are no more; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a document or
///         cursor that was not initialised, or a cursor of another document.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_next_problem(
    document: *const schedev_document,
    cursor: *mut schedev_problem_cursor,
    problem: *mut schedev_problem,
) -> schedev_status {
    boundary(|| {
        check(cursor)?;
        // SAFETY: the conventions of the header.
        let (document, problem) = unsafe { (held_document(document)?, output(problem)?) };
        // SAFETY: the conventions of the header.
        let held: Option<&mut HeldProblems> = unsafe { unseal_started(&raw mut (*cursor).opaque) }?;
        let found = match held {
            Some(held) if held.of != document.mark => return Err(SCHEDEV_ERROR_ARGUMENT),
            Some(held) => held.problems.next().ok_or(SCHEDEV_END)?,
            None => {
                let mut problems = document.view.problems();
                let first = problems.next().ok_or(SCHEDEV_END)?;
                // SAFETY: the conventions of the header; the pointer was checked.
                unsafe { seal(&raw mut (*cursor).opaque, HeldProblems { problems, of: document.mark }) };
                first
            }
        };
        problem.write(schedev_problem::of(&found));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_are_those_of_core() {
        for (_, member, name) in MEMBERS {
            assert_eq!(name.to_str().unwrap(), member.map_or("", Member::name));
        }
        for (_, kind, word) in KINDS {
            assert_eq!(word.to_str().unwrap(), kind.word());
        }
    }
}
