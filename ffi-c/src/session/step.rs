//! Steps of a session, and outcomes of its requests.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{Cause, GatePhase, Report, RequestOutcome, Step};

use super::object::schedev_session;
use crate::abi::pointers::Flag;
use crate::document::problem::schedev_problem;
use crate::error::schedev_error;
use crate::policy::schedev_decision;
use crate::text::schedev_text;
use crate::tracker::{change_number, schedev_tracked_event};

/// What the program has to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_step_kind {
    /// Nothing to do until until_ms, unless a preparation, a recovery or a question to the gate ends earlier.
    SCHEDEV_STEP_WAIT = 1,
    /// Send GET http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01 with the header "Metadata: true",
    /// and with the version in api_version, without a proxy, and do not follow redirects; SCHEDEV_ENDPOINT and the macros after it have the parts. Pass the
    /// response to schedev_session_on_response(), or call schedev_session_on_failure() if there is none.
    SCHEDEV_STEP_GET = 2,
    /// Send body with POST to the same URL, in the same way, with the same header. schedev_session_posted() returns the ids
    /// of the events that it approves, also after the result.
    SCHEDEV_STEP_POST = 3,
    /// Prepare for event, which takes the machine out of service. Call schedev_session_prepared() with attempt when that has
    /// ended, now or later.
    SCHEDEV_STEP_PREPARE = 4,
    /// No event keeps the machine out of service any more: return it to service. Call schedev_session_recovered() with
    /// attempt when that has ended, now or later. event is the one that ended last; schedev_session_recovering() returns the
    /// ids of all events that the recovery is for, that one first. For another machine that a rule covers, the step is given when its event
    /// is over.
    SCHEDEV_STEP_RECOVER = 5,
    /// To report: event changed, see change.
    SCHEDEV_STEP_CHANGE = 6,
    /// To report: decision about event, which is new or has changed.
    SCHEDEV_STEP_DECISION = 7,
    /// To report: problem in the newest document.
    SCHEDEV_STEP_PROBLEM = 8,
    /// To report: the document has more events than the session can follow, see untracked_own and untracked_others.
    SCHEDEV_STEP_UNTRACKED = 9,
    /// Only if the configuration has gate: ask whether the machine may go on, see gate_phase. Call
    /// schedev_session_gate_answered() with attempt when the answer is known, now or later.
    SCHEDEV_STEP_GATE = 10,
    /// End what runs for attempt, and report its result as usual. The result does not count, but until then no other step
    /// is given for the event, except a preparation by the last call, or for the recovery. A program in which nothing runs during schedev_session_next() does not
    /// get this step.
    SCHEDEV_STEP_CANCEL = 11,
    /// To report: the last call for event. The machine prepares for it although the gate has not answered yes; approving it still takes
    /// that.
    SCHEDEV_STEP_LAST_CALL = 12,
    /// To report, once: the service does not know the version of the API that has advice. It is tried again once a day.
    SCHEDEV_STEP_NO_ADVICE = 13,
}

/// What SCHEDEV_STEP_GATE asks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_gate_phase {
    /// Before the preparation: may this machine go out of service?
    SCHEDEV_GATE_PHASE_PREPARE = 1,
    /// Before the approval: may the event start, on all machines that it affects?
    SCHEDEV_GATE_PHASE_APPROVE = 2,
}

use schedev_gate_phase::*;
use schedev_step_kind::*;

/// What the program has to do next. Each member names the kinds that it belongs to; for others it is zero. Texts are views
/// of the session's memory, valid until the next call that changes the session.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_step {
    /// A schedev_step_kind. Ignore a step of an unknown kind.
    pub kind: u32,
    /// GET, POST: the time-out of the request in milliseconds. For the first request it is over two minutes: then do not rely on one
    /// connection. After 5 s send the GET again beside it, and then every 10 s, at most three at a time, each with a time-out of less
    /// than 20 s and the version of schedev_session_repeat_version(). The first answer counts; if it is one to such a request, call schedev_session_repeat_answered()
    /// before schedev_session_on_response().
    pub timeout_ms: u32,
    /// All kinds: the now_ms of the call that returned the step.
    pub now_ms: i64,
    /// WAIT: when to call schedev_session_next() again, on the same clock as now_ms.
    pub until_ms: i64,
    /// PREPARE, RECOVER, GATE: the number to return with the answer. CANCEL: the number of the step to end. No two steps of
    /// a session have the same number, also across restarts.
    pub attempt: u32,
    /// GATE: a schedev_gate_phase.
    pub gate_phase: u32,
    /// GET, POST: the version of the API. It has no escapes.
    pub api_version: schedev_text,
    /// POST: the body, which is JSON: body_len bytes, without a NUL.
    pub body: *const c_char,
    /// POST: the length of the body in bytes.
    pub body_len: usize,
    /// PREPARE, RECOVER, GATE, CHANGE, DECISION, LAST_CALL: the event.
    pub event: schedev_tracked_event,
    /// DECISION: the decision.
    pub decision: schedev_decision,
    /// PROBLEM: the problem.
    pub problem: schedev_problem,
    /// CHANGE: a schedev_change.
    pub change: u32,
    /// PREPARE: whether it is the last call: the gate has not answered yes.
    pub by_last_call: Flag,
    /// RECOVER: whether it is this machine that recovers, from all events that ended while it was out of service. Otherwise it is the
    /// event's other machine, from this event only.
    pub own: Flag,
    /// UNTRACKED: the number of this machine's events that are not followed, those with the latest NotBefore.
    pub untracked_own: usize,
    /// UNTRACKED: the number of other machines' events that are not followed.
    pub untracked_others: usize,
    /// RECOVER: private, for schedev_step_json().
    pub session: *const schedev_session,
    /// For later versions: zero.
    pub reserved: [u64; 4],
}

impl schedev_step {
    pub(crate) const NONE: Self = Self {
        kind: 0,
        timeout_ms: 0,
        now_ms: 0,
        until_ms: 0,
        attempt: 0,
        gate_phase: 0,
        api_version: schedev_text::NONE,
        body: core::ptr::null(),
        body_len: 0,
        event: schedev_tracked_event::NONE,
        decision: schedev_decision::NONE,
        problem: schedev_problem::NONE,
        change: 0,
        by_last_call: Flag::new(false),
        own: Flag::new(false),
        untracked_own: 0,
        untracked_others: 0,
        session: core::ptr::null(),
        reserved: [0; 4],
    };

    /// `session` is where the step is from.
    pub(crate) fn from_core(step: &Step<'_>, now_ms: i64, session: *const schedev_session) -> Self {
        let mut result = Self {
            now_ms,
            ..Self::NONE
        };
        let (kind, event) = match step {
            Step::Wait { until } => {
                result.until_ms = until.0;
                (SCHEDEV_STEP_WAIT, None)
            }
            Step::Get {
                api_version,
                timeout_ms,
            } => {
                result.api_version = schedev_text::plain(api_version);
                result.timeout_ms = *timeout_ms;
                (SCHEDEV_STEP_GET, None)
            }
            Step::Post {
                body,
                api_version,
                timeout_ms,
            } => {
                result.api_version = schedev_text::plain(api_version);
                result.body = body.as_ptr().cast();
                result.body_len = body.len();
                result.timeout_ms = *timeout_ms;
                (SCHEDEV_STEP_POST, None)
            }
            Step::Prepare {
                event,
                by_last_call,
                attempt,
            } => {
                result.attempt = *attempt;
                result.by_last_call = Flag::new(*by_last_call);
                (SCHEDEV_STEP_PREPARE, Some(*event))
            }
            Step::Recover {
                events,
                own,
                attempt,
            } => {
                result.attempt = *attempt;
                result.own = Flag::new(*own);
                result.session = if *own { session } else { core::ptr::null() };
                (SCHEDEV_STEP_RECOVER, Some(events.last()))
            }
            Step::Gate {
                event,
                phase,
                attempt,
            } => {
                result.attempt = *attempt;
                result.gate_phase = match phase {
                    GatePhase::Prepare => SCHEDEV_GATE_PHASE_PREPARE,
                    GatePhase::Approve => SCHEDEV_GATE_PHASE_APPROVE,
                } as u32;
                (SCHEDEV_STEP_GATE, Some(*event))
            }
            Step::Cancel { attempt } => {
                result.attempt = *attempt;
                (SCHEDEV_STEP_CANCEL, None)
            }
            Step::Report(Report::Change { change, event }) => {
                result.change = change_number(*change);
                (SCHEDEV_STEP_CHANGE, Some(*event))
            }
            Step::Report(Report::Decision { decision, event }) => {
                result.decision = schedev_decision::from_core(decision);
                (SCHEDEV_STEP_DECISION, Some(*event))
            }
            Step::Report(Report::LastCall { event }) => (SCHEDEV_STEP_LAST_CALL, Some(*event)),
            Step::Report(Report::Problem(problem)) => {
                result.problem = schedev_problem::from_core(problem);
                (SCHEDEV_STEP_PROBLEM, None)
            }
            Step::Report(Report::Untracked(untracked)) => {
                result.untracked_own = untracked.own;
                result.untracked_others = untracked.others;
                (SCHEDEV_STEP_UNTRACKED, None)
            }
            Step::Report(Report::NoAdvice) => (SCHEDEV_STEP_NO_ADVICE, None),
        };
        result.kind = kind as u32;
        if let Some(event) = event {
            result.event = schedev_tracked_event::from_core(event);
        }
        result
    }
}

/// The kinds of outcome of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_outcome_kind {
    /// A new document was applied.
    SCHEDEV_OUTCOME_DOCUMENT = 1,
    /// The document is the same as the last one.
    SCHEDEV_OUTCOME_UNCHANGED = 2,
    /// The service returned an older document again. It is ignored unless the service keeps returning it.
    SCHEDEV_OUTCOME_STALE = 3,
    /// The poll failed, see cause. It ends no event. The next poll follows after retry_in_ms.
    SCHEDEV_OUTCOME_POLL_FAILED = 4,
    /// The approval succeeded; schedev_session_posted() returns the ids of its events.
    SCHEDEV_OUTCOME_APPROVED = 5,
    /// The approval failed, see cause. It is tried again as long as the event is Scheduled.
    SCHEDEV_OUTCOME_APPROVAL_FAILED = 6,
    /// No request was in progress. Nothing was done.
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
    /// No response in time.
    SCHEDEV_CAUSE_TIMEOUT = 1,
    /// The connection could not be established.
    SCHEDEV_CAUSE_UNREACHABLE = 2,
    /// The connection was lost, or the response is not HTTP.
    SCHEDEV_CAUSE_CONNECTION_LOST = 3,
    /// The response is larger than the program accepts.
    SCHEDEV_CAUSE_TOO_LARGE = 4,
    /// A redirect, which must not be followed; see http_status.
    SCHEDEV_CAUSE_REDIRECT = 5,
    /// Another status than 200, such as 304 or 503; see http_status.
    SCHEDEV_CAUSE_STATUS = 6,
    /// Status 200 with an empty body.
    SCHEDEV_CAUSE_EMPTY_BODY = 7,
    /// The body is not a document; see error.
    SCHEDEV_CAUSE_NOT_A_DOCUMENT = 8,
    /// A cause that this version of the header does not name.
    SCHEDEV_CAUSE_OTHER = 255,
}

use schedev_cause::*;
use schedev_outcome_kind::*;

/// The causes, those that a program can report, and their words.
const CAUSES: [(schedev_cause, Option<Cause>, &CStr); 9] = [
    (SCHEDEV_CAUSE_NONE, None, c"none"),
    (SCHEDEV_CAUSE_TIMEOUT, Some(Cause::Timeout), c"timeout"),
    (
        SCHEDEV_CAUSE_UNREACHABLE,
        Some(Cause::Unreachable),
        c"unreachable",
    ),
    (
        SCHEDEV_CAUSE_CONNECTION_LOST,
        Some(Cause::ConnectionLost),
        c"connection-lost",
    ),
    (SCHEDEV_CAUSE_TOO_LARGE, Some(Cause::TooLarge), c"too-large"),
    (SCHEDEV_CAUSE_REDIRECT, None, c"redirect"),
    (SCHEDEV_CAUSE_STATUS, None, c"status"),
    (SCHEDEV_CAUSE_EMPTY_BODY, None, c"empty-body"),
    (SCHEDEV_CAUSE_NOT_A_DOCUMENT, None, c"not-a-document"),
];

/// The cause of a number, if a program can report it.
pub(crate) fn reported_cause(number: u32) -> Option<Cause> {
    CAUSES
        .iter()
        .find(|(cause, ..)| *cause as u32 == number)
        .and_then(|(_, cause, _)| *cause)
}

/// Returns a schedev_cause as a word, such as "timeout".
///
/// @param cause  a schedev_cause, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_cause_word(cause: u32) -> *const c_char {
    let known = CAUSES.iter().find(|(number, ..)| *number as u32 == cause);
    known.map_or(c"other", |(_, _, word)| word).as_ptr()
}

/// The outcome of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_outcome {
    /// A schedev_outcome_kind.
    pub kind: u32,
    /// A schedev_cause, if the request failed.
    pub cause: u32,
    /// The HTTP status, if that is the cause.
    pub http_status: u32,
    /// POLL_FAILED: the time until the next poll in milliseconds.
    pub retry_in_ms: u32,
    /// What is wrong with the body, if that is the cause.
    pub error: schedev_error,
    /// For later versions: zero.
    pub reserved: [u64; 2],
}

impl schedev_outcome {
    pub(crate) fn from_core(outcome: &RequestOutcome) -> Self {
        let (kind, cause, retry_in_ms) = match outcome {
            RequestOutcome::Document => (SCHEDEV_OUTCOME_DOCUMENT, None, 0),
            RequestOutcome::Unchanged => (SCHEDEV_OUTCOME_UNCHANGED, None, 0),
            RequestOutcome::Stale => (SCHEDEV_OUTCOME_STALE, None, 0),
            RequestOutcome::PollFailed { cause, retry_in_ms } => {
                (SCHEDEV_OUTCOME_POLL_FAILED, Some(*cause), *retry_in_ms)
            }
            RequestOutcome::Approved => (SCHEDEV_OUTCOME_APPROVED, None, 0),
            RequestOutcome::ApprovalFailed { cause } => {
                (SCHEDEV_OUTCOME_APPROVAL_FAILED, Some(*cause), 0)
            }
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
            Some(Cause::NotADocument {
                error: refused,
                position,
            }) => {
                error = schedev_error::new(refused, position);
                SCHEDEV_CAUSE_NOT_A_DOCUMENT
            }
            Some(_) => SCHEDEV_CAUSE_OTHER,
        };
        Self {
            kind: kind as u32,
            cause: cause as u32,
            http_status,
            retry_in_ms,
            error,
            reserved: [0; 2],
        }
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
            let shown = schedev_outcome::from_core(&RequestOutcome::ApprovalFailed { cause });
            // SAFETY: the words end with NUL.
            let word = unsafe { CStr::from_ptr(schedev_cause_word(shown.cause)) };
            assert_eq!(word.to_str(), Ok(cause.word()));
        }
    }
}
