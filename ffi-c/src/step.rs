//! What a session says, and what it is told.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{Cause, Report, RequestOutcome, Step};

use crate::error::schedev_error;
use crate::memory::Flag;
use crate::policy::schedev_decision;
use crate::problem::schedev_problem;
use crate::text::schedev_text;
use crate::tracker::{change_number, schedev_tracked_event};

/// What the host is to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_step_kind {
    /// Nothing to do before until_ms. Ask again then, or when there is something to tell the session.
    SCHEDEV_STEP_WAIT = 1,
    /// Send GET http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01 with the header "Metadata: true",
    /// past all proxies; then feed the answer to schedev_session_on_response(), or its absence to schedev_session_on_failure(). Do not follow redirects.
    SCHEDEV_STEP_GET = 2,
    /// Send body with POST to the same URL, with the same header, and feed back what comes of it likewise.
    /// schedev_session_posted() names the events that it approves.
    SCHEDEV_STEP_POST = 3,
    /// Get ready for event, and say so with schedev_session_prepared(), now or later.
    SCHEDEV_STEP_PREPARE = 4,
    /// event is gone: take the machine back into service, and say so with schedev_session_recovered(), now or later.
    SCHEDEV_STEP_RECOVER = 5,
    /// To report: change happened to event.
    SCHEDEV_STEP_CHANGE = 6,
    /// To report: decision about event is new, or differs from the last one.
    SCHEDEV_STEP_DECISION = 7,
    /// To report: something is odd in the newest document, to whose bytes problem refers.
    SCHEDEV_STEP_PROBLEM = 8,
    /// To report: the document holds more events than the session; the numbers of those it has no room for changed.
    SCHEDEV_STEP_UNTRACKED = 9,
}

use schedev_step_kind::*;

/// What the host is to do next: the kind, and the members that the kind says. The others are zero. Texts, the body
/// included, view the session's memory and are good until the session is told or asked the next thing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_step {
    /// A schedev_step_kind. Skip one that you do not know.
    pub kind: u32,
    /// GET, POST: how long the request may take, in milliseconds. The very first may take over two minutes.
    pub timeout_ms: u32,
    /// WAIT: when to ask again, in milliseconds on the same clock as the now_ms of the call.
    pub until_ms: i64,
    /// POST: the body, JSON.
    pub body: schedev_text,
    /// PREPARE, RECOVER, CHANGE, DECISION: the event.
    pub event: schedev_tracked_event,
    /// DECISION: the decision.
    pub decision: schedev_decision,
    /// PROBLEM: the problem.
    pub problem: schedev_problem,
    /// CHANGE: a schedev_change.
    pub change: u32,
    /// UNTRACKED: this machine's own events without room, those with the latest deadlines. The session is too small.
    pub untracked_own: usize,
    /// UNTRACKED: other machines' events without room.
    pub untracked_others: usize,
    /// For later versions; zero.
    pub reserved: [u64; 4],
}

impl schedev_step {
    const NONE: Self = Self {
        kind: 0,
        timeout_ms: 0,
        until_ms: 0,
        body: schedev_text::NONE,
        event: schedev_tracked_event::NONE,
        decision: schedev_decision::NONE,
        problem: schedev_problem::NONE,
        change: 0,
        untracked_own: 0,
        untracked_others: 0,
        reserved: [0; 4],
    };

    pub(crate) fn of(step: &Step<'_>) -> Self {
        let mut said = Self::NONE;
        let (kind, event) = match step {
            Step::Wait { until } => {
                said.until_ms = until.0;
                (SCHEDEV_STEP_WAIT, None)
            }
            Step::Get { timeout_ms } => {
                said.timeout_ms = *timeout_ms;
                (SCHEDEV_STEP_GET, None)
            }
            Step::Post { body, timeout_ms } => {
                said.body = schedev_text { data: body.as_ptr().cast(), len: body.len(), escaped: Flag::new(false) };
                said.timeout_ms = *timeout_ms;
                (SCHEDEV_STEP_POST, None)
            }
            Step::Prepare { event } => (SCHEDEV_STEP_PREPARE, Some(*event)),
            Step::Recover { event } => (SCHEDEV_STEP_RECOVER, Some(*event)),
            Step::Report(Report::Change { change, event }) => {
                said.change = change_number(*change);
                (SCHEDEV_STEP_CHANGE, Some(*event))
            }
            Step::Report(Report::Decision { decision, event }) => {
                said.decision = schedev_decision::of(decision);
                (SCHEDEV_STEP_DECISION, Some(*event))
            }
            Step::Report(Report::Problem(problem)) => {
                said.problem = schedev_problem::of(problem);
                (SCHEDEV_STEP_PROBLEM, None)
            }
            Step::Report(Report::Untracked(untracked)) => {
                said.untracked_own = untracked.own;
                said.untracked_others = untracked.others;
                (SCHEDEV_STEP_UNTRACKED, None)
            }
        };
        said.kind = kind as u32;
        if let Some(event) = event {
            said.event = schedev_tracked_event::of(event);
        }
        said
    }
}

/// What an answer, or its absence, led to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_outcome_kind {
    /// A new document was taken in.
    SCHEDEV_OUTCOME_DOCUMENT = 1,
    /// The document is the one that was read last.
    SCHEDEV_OUTCOME_UNCHANGED = 2,
    /// A document that had been superseded came again; it is not believed unless it stays.
    SCHEDEV_OUTCOME_STALE = 3,
    /// The poll failed and ended nothing; the next comes after retry_in_ms. cause says why.
    SCHEDEV_OUTCOME_POLL_FAILED = 4,
    /// The approval succeeded.
    SCHEDEV_OUTCOME_APPROVED = 5,
    /// The approval failed, and is repeated later as long as the event is Scheduled. cause says why.
    SCHEDEV_OUTCOME_APPROVAL_FAILED = 6,
    /// No request was under way; nothing was done.
    SCHEDEV_OUTCOME_UNEXPECTED = 7,
    /// An outcome that this version of the header does not name.
    SCHEDEV_OUTCOME_OTHER = 255,
}

/// Why a request failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_cause {
    /// It did not fail.
    SCHEDEV_CAUSE_NONE = 0,
    /// No answer in time.
    SCHEDEV_CAUSE_TIMEOUT = 1,
    /// No connection could be made.
    SCHEDEV_CAUSE_UNREACHABLE = 2,
    /// The connection broke, or the answer is no HTTP.
    SCHEDEV_CAUSE_CONNECTION_LOST = 3,
    /// The answer is larger than the host accepts.
    SCHEDEV_CAUSE_TOO_LARGE = 4,
    /// A redirect, which is never followed; http_status has the status.
    SCHEDEV_CAUSE_REDIRECT = 5,
    /// Another status than was hoped for; http_status has it.
    SCHEDEV_CAUSE_STATUS = 6,
    /// 200 with an empty body, which says nothing.
    SCHEDEV_CAUSE_EMPTY_BODY = 7,
    /// The body is no document; error has kind and place.
    SCHEDEV_CAUSE_NOT_A_DOCUMENT = 8,
    /// A cause that this version of the header does not name.
    SCHEDEV_CAUSE_OTHER = 255,
}

use schedev_cause::*;
use schedev_outcome_kind::*;

/// The causes that a host can tell, all causes' words behind them.
const CAUSES: [(schedev_cause, Option<Cause>, &CStr); 9] = [
    (SCHEDEV_CAUSE_NONE, None, c"none"),
    (SCHEDEV_CAUSE_TIMEOUT, Some(Cause::Timeout), c"timeout"),
    (SCHEDEV_CAUSE_UNREACHABLE, Some(Cause::Unreachable), c"unreachable"),
    (SCHEDEV_CAUSE_CONNECTION_LOST, Some(Cause::ConnectionLost), c"connection-lost"),
    (SCHEDEV_CAUSE_TOO_LARGE, Some(Cause::TooLarge), c"too-large"),
    (SCHEDEV_CAUSE_REDIRECT, None, c"redirect"),
    (SCHEDEV_CAUSE_STATUS, None, c"status"),
    (SCHEDEV_CAUSE_EMPTY_BODY, None, c"empty-body"),
    (SCHEDEV_CAUSE_NOT_A_DOCUMENT, None, c"not-a-document"),
];

/// The cause of this number, where it is one that a host can tell.
pub(crate) fn told_cause(number: u32) -> Option<Cause> {
    CAUSES.iter().find(|(cause, ..)| *cause as u32 == number).and_then(|(_, cause, _)| *cause)
}

/// A schedev_cause as a word: "timeout".
///
/// @param cause  a schedev_cause, or any other number.
/// @return a constant text that ends with NUL; "other" for a number that has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_cause_word(cause: u32) -> *const c_char {
    let known = CAUSES.iter().find(|(number, ..)| *number as u32 == cause);
    known.map_or(c"other", |(_, _, word)| word).as_ptr()
}

/// What an answer, or its absence, led to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_outcome {
    /// A schedev_outcome_kind.
    pub kind: u32,
    /// A schedev_cause, where something failed.
    pub cause: u32,
    /// The HTTP status, where that is the cause.
    pub http_status: u32,
    /// POLL_FAILED: milliseconds until the next poll.
    pub retry_in_ms: u32,
    /// What is wrong with the body, where that is the cause.
    pub error: schedev_error,
    /// For later versions; zero.
    pub reserved: [u64; 2],
}

impl schedev_outcome {
    pub(crate) fn of(outcome: &RequestOutcome) -> Self {
        let (kind, cause, retry_in_ms) = match outcome {
            RequestOutcome::Document => (SCHEDEV_OUTCOME_DOCUMENT, None, 0),
            RequestOutcome::Unchanged => (SCHEDEV_OUTCOME_UNCHANGED, None, 0),
            RequestOutcome::Stale => (SCHEDEV_OUTCOME_STALE, None, 0),
            RequestOutcome::PollFailed { cause, retry_in_ms } => {
                (SCHEDEV_OUTCOME_POLL_FAILED, Some(*cause), *retry_in_ms)
            }
            RequestOutcome::Approved => (SCHEDEV_OUTCOME_APPROVED, None, 0),
            RequestOutcome::ApprovalFailed { cause } => (SCHEDEV_OUTCOME_APPROVAL_FAILED, Some(*cause), 0),
            RequestOutcome::Unexpected => (SCHEDEV_OUTCOME_UNEXPECTED, None, 0),
            _ => (SCHEDEV_OUTCOME_OTHER, None, 0),
        };
        let mut http_status = 0;
        let mut error = schedev_error::NONE;
        let cause = match cause {
            None => SCHEDEV_CAUSE_NONE,
            Some(Cause::Timeout) => SCHEDEV_CAUSE_TIMEOUT,
            Some(Cause::Unreachable) => SCHEDEV_CAUSE_UNREACHABLE,
            Some(Cause::ConnectionLost) => SCHEDEV_CAUSE_CONNECTION_LOST,
            Some(Cause::TooLarge) => SCHEDEV_CAUSE_TOO_LARGE,
            Some(Cause::Redirect(status)) => {
                http_status = u32::from(status);
                SCHEDEV_CAUSE_REDIRECT
            }
            Some(Cause::Status(status)) => {
                http_status = u32::from(status);
                SCHEDEV_CAUSE_STATUS
            }
            Some(Cause::EmptyBody) => SCHEDEV_CAUSE_EMPTY_BODY,
            Some(Cause::NotADocument { error: refused, position }) => {
                error = schedev_error::at(refused, position);
                SCHEDEV_CAUSE_NOT_A_DOCUMENT
            }
            Some(_) => SCHEDEV_CAUSE_OTHER,
        };
        Self { kind: kind as u32, cause: cause as u32, http_status, retry_in_ms, error, reserved: [0; 2] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_core() {
        for cause in [
            Cause::Timeout,
            Cause::Unreachable,
            Cause::ConnectionLost,
            Cause::TooLarge,
            Cause::Redirect(302),
            Cause::Status(500),
            Cause::EmptyBody,
        ] {
            let shown = schedev_outcome::of(&RequestOutcome::ApprovalFailed { cause });
            // SAFETY: the words end with NUL.
            let word = unsafe { CStr::from_ptr(schedev_cause_word(shown.cause)) };
            assert_eq!(word.to_str(), Ok(cause.word()));
        }
    }
}
