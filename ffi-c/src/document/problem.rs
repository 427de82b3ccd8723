//! Problems: what is invalid in a document that is accepted.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{Member, Problem, ProblemKind, Problems};

use crate::abi::pointers::{Flag, output};
use crate::abi::tagged::{self, Holder, object, started};
use crate::boundary::boundary;
use crate::document::member::{member_number, member_of};
use crate::document::{Identity, schedev_document};
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};

/// What is wrong with a member.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_problem_kind {
    /// The event has no EventId. It is left out.
    SCHEDEV_PROBLEM_MISSING = 1,
    /// An earlier event of the document has the same EventId. This one is left out. Only the first 64 ids of a document are
    /// compared.
    SCHEDEV_PROBLEM_REPEATED = 2,
    /// The EventId, the EventType or the EventStatus is empty. An empty type or status is read as absent.
    SCHEDEV_PROBLEM_EMPTY = 3,
    /// The EventId has more than SCHEDEV_EVENT_ID_MAX_BYTES bytes.
    SCHEDEV_PROBLEM_TOO_LONG = 4,
    /// The value has the wrong JSON type.
    SCHEDEV_PROBLEM_WRONG_TYPE = 5,
    /// An element of Events is not an object. It is left out.
    SCHEDEV_PROBLEM_NOT_AN_OBJECT = 6,
    /// The number is outside the range that its meaning allows.
    SCHEDEV_PROBLEM_OUT_OF_RANGE = 7,
    /// The value is not an integer: a number with a fraction, or a string that is not a number.
    SCHEDEV_PROBLEM_NOT_AN_INTEGER = 8,
    /// NotBefore is neither an RFC 1123 nor an ISO 8601 time, or a date that does not exist.
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
    (
        SCHEDEV_PROBLEM_WRONG_TYPE,
        ProblemKind::WrongType,
        c"wrong-type",
    ),
    (
        SCHEDEV_PROBLEM_NOT_AN_OBJECT,
        ProblemKind::NotAnObject,
        c"not-an-object",
    ),
    (
        SCHEDEV_PROBLEM_OUT_OF_RANGE,
        ProblemKind::OutOfRange,
        c"out-of-range",
    ),
    (
        SCHEDEV_PROBLEM_NOT_AN_INTEGER,
        ProblemKind::NotAnInteger,
        c"not-an-integer",
    ),
    (
        SCHEDEV_PROBLEM_UNREADABLE_TIME,
        ProblemKind::UnreadableTime,
        c"unreadable-time",
    ),
];

/// Returns a schedev_problem_kind as a word, such as "unreadable-time".
///
/// @param kind  a schedev_problem_kind, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_problem_kind_word(kind: u32) -> *const c_char {
    let known = KINDS.iter().find(|(number, ..)| *number as u32 == kind);
    known.map_or(c"other", |(_, _, word)| word).as_ptr()
}

/// An invalid part of a document: a member of an event, a member of the document, or an element of Events. The rest of
/// the document is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_problem {
    /// A schedev_problem_kind.
    pub kind: u32,
    /// A schedev_member; SCHEDEV_MEMBER_NONE if the problem is not in a member, as for an element that is not an object.
    pub member: u32,
    /// The index of the event in Events, elements that are left out counted, from 0.
    pub event_index: usize,
    /// The offset of the invalid value in the document, or of the event if a member is missing.
    pub offset: usize,
    /// Whether the problem is in an event, not in the document itself.
    pub has_event: Flag,
    /// For later versions: zero.
    pub reserved: [u64; 2],
}

impl schedev_problem {
    pub(crate) const NONE: Self = Self {
        kind: 0,
        member: 0,
        event_index: 0,
        offset: 0,
        has_event: Flag::new(false),
        reserved: [0; 2],
    };

    pub(crate) fn from_core(problem: &Problem) -> Self {
        let kind = KINDS.iter().find(|(_, kind, _)| *kind == problem.kind);
        Self {
            kind: kind.map_or(SCHEDEV_PROBLEM_OTHER, |(number, ..)| *number) as u32,
            member: member_number(problem.member),
            event_index: problem.event.unwrap_or(0),
            offset: problem.offset,
            has_event: Flag::new(problem.event.is_some()),
            reserved: [0; 2],
        }
    }

    /// Core's member.
    pub(crate) fn core_member(&self) -> Option<Member> {
        member_of(self.member)
    }

    /// Core's kind; `None` if it has no name here.
    pub(crate) fn core_kind(&self) -> Option<ProblemKind> {
        KINDS
            .iter()
            .find(|(number, ..)| *number as u32 == self.kind)
            .map(|(_, kind, _)| *kind)
    }
}

/// A position among the problems of a document. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied. As for
/// schedev_event_cursor, start a new one for each document.
#[repr(C)]
pub struct schedev_problem_cursor {
    /// Private.
    pub opaque: [u64; 128],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_problem_cursor {
    type Value = ProblemPosition;
    const TAG: u64 = u64::from_be_bytes(*b"problems");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// The value of a cursor: the next problems of a document.
pub struct ProblemPosition {
    document: Identity,
    problems: Problems<'static>,
}

/// Gives the next problem: those of the document itself first, then those of each event, in the order of the document.
///
/// @param document  the document.
/// @param cursor    the position, which moves to the next problem. Start with SCHEDEV_CURSOR_INIT.
/// @param problem   receives the problem.
/// @return SCHEDEV_OK; SCHEDEV_END after the last problem; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the document or
///         the cursor is not initialised, or if the cursor belongs to another document.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_document_next_problem(
    document: *const schedev_document,
    cursor: *mut schedev_problem_cursor,
    problem: *mut schedev_problem,
) -> schedev_status {
    boundary(|| {
        let (document, problem) = (checked!(object(document)), checked!(output(problem)));
        let next = match checked!(started(cursor)) {
            Some(started) if started.document != document.identity => {
                return Err(SCHEDEV_ERROR_ARGUMENT);
            }
            Some(started) => started.problems.next().ok_or(SCHEDEV_END)?,
            None => {
                let mut problems = document.view.problems();
                let first = problems.next().ok_or(SCHEDEV_END)?;
                // SAFETY: `started` has checked the pointer, and a cursor is an output.
                unsafe {
                    tagged::write(
                        cursor,
                        ProblemPosition {
                            document: document.identity,
                            problems,
                        },
                    );
                };
                first
            }
        };
        problem.write(schedev_problem::from_core(&next));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_core() {
        for (_, kind, word) in KINDS {
            assert_eq!(word.to_str().unwrap(), kind.word());
        }
    }
}
