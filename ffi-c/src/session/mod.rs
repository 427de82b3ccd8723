//! Sessions: the whole client as a state machine.

pub(crate) mod notified;
mod object;
pub(crate) mod snapshot;
pub(crate) mod step;
pub(crate) mod waiting;

use std::ffi::{c_char, c_void};

use scheduled_events_core::{
    AnswerOutcome, ApiVersion, GateAnswer, LastCall, Policy, Preparation, Response, Session,
    SessionConfig, SessionConfigError, UnixMillis, VmNames, limits,
};

use crate::abi::pointers::{Flag, Output, bytes, memory_for, memory_size, optional_output, output};
use crate::abi::struct_size::{Growing, sized};
use crate::abi::tagged::{self, object, object_mut};
use crate::boundary::{Result, boundary, value_boundary};
use crate::names::{schedev_names, with_names};
use crate::policy::{core_policy, schedev_policy};
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_INTERVAL_TOO_SHORT,
    SCHEDEV_ERROR_NAME_TOO_LONG, SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE,
    SCHEDEV_ERROR_TOO_MANY_NAMES, SCHEDEV_ERROR_UNKNOWN_EVENT,
};
use crate::text::{core_text, schedev_text};
use crate::tracker::schedev_tracked_event;

use notified::core_source;
use notified::schedev_session_source::SCHEDEV_SESSION_SOURCE_DOCUMENTS;
pub use object::{SCHEDEV_SESSION_EVENTS_MAX, schedev_session};
use step::{reported_cause, schedev_outcome, schedev_step};

/// The default time between two polls, in milliseconds.
pub const SCHEDEV_INTERVAL_MS: u32 = 1000;
/// The shortest time between two polls, in milliseconds.
pub const SCHEDEV_INTERVAL_MIN_MS: u32 = 200;

/// For last_call_seconds: half of the notice before NotBefore, at most five minutes; at once for a Preempt, and for a notice of
/// less than a minute.
pub const SCHEDEV_LAST_CALL_STANDARD: u32 = 0;
/// For last_call_seconds: never. Without the gate's yes, Azure takes the machine down unprepared.
pub const SCHEDEV_LAST_CALL_NEVER: u32 = 4_294_967_295;
/// For schedev_session_config: a failed preparation is given again as often as there is time.
pub const SCHEDEV_PREPARE_RETRIES_UNLIMITED: u8 = 255;

const _: () = assert!(
    SCHEDEV_INTERVAL_MS == limits::INTERVAL_MS
        && SCHEDEV_INTERVAL_MIN_MS == limits::INTERVAL_MIN_MS
);

/// The configuration of a session. Initialise it with SCHEDEV_SESSION_CONFIG_INIT: a policy that only observes, unknown
/// names and ids, one poll per second, no gate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_session_config {
    /// sizeof(schedev_session_config).
    pub struct_size: usize,
    /// The policy; NULL is schedev_policy_observe(). It is copied.
    pub policy: *const schedev_policy,
    /// The names of this machine; NULL if they are unknown. They are copied.
    pub names: *const schedev_names,
    /// A number that differs between machines, such as a random one. It spreads retries over time.
    pub seed: u64,
    /// The time between two polls in milliseconds, at least SCHEDEV_INTERVAL_MIN_MS.
    pub interval_ms: u32,
    /// Whether to only decide and report: no preparation, no approval.
    pub dry_run: Flag,
    /// Whether to ask a gate before each preparation and each approval, with SCHEDEV_STEP_GATE. The policy's leader is
    /// ignored then.
    pub gate: Flag,
    /// Whether to recover after every event of this machine that was seen Started, not only after those that were prepared
    /// for.
    pub recover_all: Flag,
    /// How often a failed preparation is given again at most, for one event as it is; 0 for never, or
    /// SCHEDEV_PREPARE_RETRIES_UNLIMITED.
    pub prepare_retries: u8,
    /// An id of this machine that a clone does not have, such as vmId in the instance metadata; empty if it is unknown. A
    /// snapshot of another machine is refused. It can have any length, but no JSON escapes; only its hash is kept, in which
    /// hyphens, white space and ASCII case do not count.
    pub machine_id: schedev_text,
    /// An id of this boot of the machine, such as the contents of /proc/sys/kernel/random/boot_id; empty if it is unknown.
    /// What was ready before a reboot is not ready after it. The limits are those of machine_id.
    pub boot_id: schedev_text,
    /// Only with gate: how many seconds before NotBefore the machine prepares although the gate has not answered yes, or
    /// SCHEDEV_LAST_CALL_STANDARD, or SCHEDEV_LAST_CALL_NEVER. Azure starts an event at NotBefore whether it was approved or not.
    /// Approving still takes the gate's yes.
    pub last_call_seconds: u32,
    /// Where events come from: a schedev_session_source.
    pub source: u32,
    /// The version of the API that every request names, at most 32 bytes without escapes. If it is empty, the session chooses:
    /// SCHEDEV_API_VERSION, and SCHEDEV_ADVICE_API_VERSION for GET if needs_advice or a rule matches
    /// SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION, as long as the service knows it. See api_version of schedev_step.
    pub api_version: schedev_text,
    /// Whether the program needs advice although no rule names it.
    pub needs_advice: Flag,
}

// SAFETY: pointers, integers and flags, those of the texts included.
unsafe impl Growing for schedev_session_config {
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        policy: core::ptr::null(),
        names: core::ptr::null(),
        seed: 0,
        interval_ms: SCHEDEV_INTERVAL_MS,
        dry_run: Flag::new(false),
        gate: Flag::new(false),
        recover_all: Flag::new(false),
        prepare_retries: SCHEDEV_PREPARE_RETRIES_UNLIMITED,
        machine_id: schedev_text::NONE,
        boot_id: schedev_text::NONE,
        last_call_seconds: SCHEDEV_LAST_CALL_STANDARD,
        source: SCHEDEV_SESSION_SOURCE_DOCUMENTS as u32,
        api_version: schedev_text::NONE,
        needs_advice: Flag::new(false),
    };
}

/// An HTTP response. Initialise it with SCHEDEV_RESPONSE_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_response {
    /// sizeof(schedev_response).
    pub struct_size: usize,
    /// The body; NULL if body_len is 0.
    pub body: *const c_char,
    /// The length of the body in bytes.
    pub body_len: usize,
    /// The status code.
    pub http_status: u32,
    /// The Retry-After header in seconds, if has_retry_after. If the header has a date, convert it.
    pub retry_after_seconds: u32,
    /// Whether the response has a Retry-After header.
    pub has_retry_after: Flag,
}

// SAFETY: a pointer, integers and a flag.
unsafe impl Growing for schedev_response {
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        body: core::ptr::null(),
        body_len: 0,
        http_status: 0,
        retry_after_seconds: 0,
        has_retry_after: Flag::new(false),
    };
}

/// The result of a preparation, for schedev_session_prepared().
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_preparation {
    /// The host is ready for the event.
    SCHEDEV_PREPARATION_READY = 1,
    /// The host could not prepare. SCHEDEV_STEP_PREPARE is given again after 5 seconds, later each time and at most a minute later,
    /// while the event is Scheduled, its start is not nearer than this attempt took, and prepare_retries are left.
    SCHEDEV_PREPARATION_FAILED = 2,
    /// The host could not prepare, and need not be asked again. The event is not approved, unless it becomes another one that is
    /// prepared for anew.
    SCHEDEV_PREPARATION_ABANDONED = 3,
}

/// The answer of the gate, for schedev_session_gate_answered().
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_gate_answer {
    /// Go on.
    SCHEDEV_GATE_ANSWER_OPEN = 1,
    /// Another machine approves the event for this one, too. In the phase SCHEDEV_GATE_PHASE_PREPARE it is as CLOSED.
    SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES = 2,
    /// Not yet.
    SCHEDEV_GATE_ANSWER_CLOSED = 3,
}

use schedev_gate_answer::*;
use schedev_preparation::*;

fn config_status(error: SessionConfigError) -> schedev_status {
    match error {
        SessionConfigError::IntervalTooShort => SCHEDEV_ERROR_INTERVAL_TOO_SHORT,
        SessionConfigError::TooManyNames => SCHEDEV_ERROR_TOO_MANY_NAMES,
        SessionConfigError::NameTooLong => SCHEDEV_ERROR_NAME_TOO_LONG,
        _ => SCHEDEV_ERROR_ARGUMENT,
    }
}

/// Returns the size of memory that a session needs, in bytes, whatever the alignment of the memory.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_session_size() -> usize {
    memory_size::<schedev_session>()
}

/// Initialises a session.
///
/// @param memory   the memory for the session, with any alignment. It must not move while the session is used.
/// @param size     its size in bytes, at least schedev_session_size().
/// @param config   the configuration, which is copied.
/// @param session  receives the session, a pointer into that memory.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if a struct_size is
///         invalid, a constant unknown, or if machine_id, boot_id or api_version has escapes, or api_version is too long; SCHEDEV_ERROR_INTERVAL_TOO_SHORT;
///         SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_init(
    memory: *mut c_void,
    size: usize,
    config: *const schedev_session_config,
    session: *mut *mut schedev_session,
) -> schedev_status {
    boundary(|| {
        let config: schedev_session_config = checked!(sized(config));
        let (output, source) = (checked!(output(session)), core_source(config.source)?);
        let policy = checked!(policy_or_observe(config.policy));
        let (machine_id, boot_id) = (&config.machine_id, &config.boot_id);
        let (machine_id, boot_id) = (
            checked!(core_text(machine_id)),
            checked!(core_text(boot_id)),
        );
        let machine_id = machine_id.as_str().ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        let boot_id = boot_id.as_str().ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        let api_version = &config.api_version;
        let api_version = checked!(core_text(api_version))
            .as_str()
            .ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        let place = checked!(memory_for(memory, size));
        let init = |names: VmNames<'_>| {
            let session = Session::new(&SessionConfig {
                policy,
                interval_ms: config.interval_ms,
                dry_run: config.dry_run.is_on(),
                gate: config.gate.is_on(),
                last_call: match config.last_call_seconds {
                    SCHEDEV_LAST_CALL_STANDARD => LastCall::Standard,
                    SCHEDEV_LAST_CALL_NEVER => LastCall::Never,
                    seconds => LastCall::Before(seconds),
                },
                prepare_retries: match config.prepare_retries {
                    SCHEDEV_PREPARE_RETRIES_UNLIMITED => None,
                    retries => Some(retries.into()),
                },
                recover_all: config.recover_all.is_on(),
                seed: config.seed,
                source,
                machine_id,
                boot_id,
                api_version: match api_version {
                    "" if config.needs_advice.is_on() => ApiVersion::Advice,
                    "" => ApiVersion::Auto,
                    version => ApiVersion::Fixed(version),
                },
                ..SessionConfig::new(names)
            })?;
            // SAFETY: `memory_for` returns an aligned place that is large enough.
            unsafe { tagged::write(place, session) };
            Ok(())
        };
        checked!(with_names(config.names, init)).map_err(config_status)?;
        output.write(place);
        Ok(())
    })
}

/// Sets the names of this machine. The next document is decided with them, and the next notification of an event that no
/// document has shown.
///
/// @param session  the session.
/// @param names    the names, which are copied; NULL if they are unknown.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT if the session is not initialised. After an error the names are unchanged.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_set_names(
    session: *mut schedev_session,
    names: *const schedev_names,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        let set = |names: VmNames<'_>| session.set_names(names);
        checked!(with_names(names, set)).map_err(config_status)
    })
}

/// Sets another policy, such as after the operator has changed it. The events are decided again with the next document; what only
/// notifications have shown, with the next one of it. A preparation that was given goes on, and what it led to counts.
///
/// @param session  the session.
/// @param policy   the policy, which is copied; NULL is schedev_policy_observe().
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised, if
///         struct_size is invalid, or a constant unknown. After an error the policy is unchanged.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_set_policy(
    session: *mut schedev_session,
    policy: *const schedev_policy,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        session.set_policy(checked!(policy_or_observe(policy)));
        Ok(())
    })
}

/// A policy that may be NULL.
///
/// # Safety
/// The conventions of the header.
unsafe fn policy_or_observe(policy: *const schedev_policy) -> Result<Policy> {
    if policy.is_null() {
        Ok(Policy::observe())
    } else {
        Ok(checked!(core_policy(policy)))
    }
}

/// Sets the id of this machine, if it was not known to schedev_session_init(): the metadata service may not have answered then.
///
/// @param session     the session.
/// @param machine_id  the id, as in schedev_session_config. An empty one changes nothing.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE if the session was restored from the snapshot of another machine, and
///         it has this id and is otherwise as after schedev_session_init(); SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the
///         session is not initialised, or if the id has escapes; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_set_machine_id(
    session: *mut schedev_session,
    machine_id: schedev_text,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        let machine_id = &machine_id;
        let machine_id = checked!(core_text(machine_id))
            .as_str()
            .ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        session
            .set_machine_id(machine_id)
            .map_err(|_| SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE)
    })
}

/// Returns the next step. Call it after each call that changes the session, and when a wait is over. There is one request
/// at a time: until its response or failure is passed back, only other steps are given.
///
/// Each step is given once. Store a snapshot before you perform it, if it must not be given again after a restart.
///
/// @param session  the session.
/// @param now_ms   the time, in milliseconds since 1970-01-01T00:00:00Z, from a clock that does not step: read the wall
///                 clock once and add the time that a monotonic clock measures.
/// @param step     receives the step.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_next(
    session: *mut schedev_session,
    now_ms: i64,
    step: *mut schedev_step,
) -> schedev_status {
    boundary(|| {
        let (value, output) = (checked!(object_mut(session)), checked!(output(step)));
        output.write(schedev_step::from_core(
            &value.take_step(UnixMillis(now_ms)),
            now_ms,
            session,
        ));
        Ok(())
    })
}

/// Passes the response to the request in progress. Only a document can end an event.
///
/// @param session   the session.
/// @param response  the response. It is not needed after the call.
/// @param now_ms    the time, as for schedev_session_next().
/// @param outcome   receives the result; may be NULL.
/// @return SCHEDEV_OK, also if the request failed, see outcome; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session
///         is not initialised, if struct_size is invalid, or if http_status is above 65535.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_on_response(
    session: *mut schedev_session,
    response: *const schedev_response,
    now_ms: i64,
    outcome: *mut schedev_outcome,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        let response: schedev_response = checked!(sized(response));
        let output = checked!(optional_output(outcome));
        let response = Response {
            status: u16::try_from(response.http_status).map_err(|_| SCHEDEV_ERROR_ARGUMENT)?,
            retry_after: response
                .has_retry_after
                .is_on()
                .then_some(response.retry_after_seconds),
            body: checked!(bytes(response.body, response.body_len)),
        };
        output.write(schedev_outcome::from_core(
            &session.on_response(&response, UnixMillis(now_ms)),
        ));
        Ok(())
    })
}

/// Returns the version of the API for the requests that are sent beside the GET in progress while it has no answer: the one that every
/// service knows. See timeout_ms of schedev_step.
///
/// @param session  the session.
/// @return the version, valid until the session is initialised again; empty if session is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_repeat_version(
    session: *const schedev_session,
) -> schedev_text {
    value_boundary(schedev_text::NONE, || {
        let session = checked!(object(session));
        Ok(schedev_text::plain(session.repeat_version()))
    })
}

/// Says that the response which is passed on next is one to such a request, and so in that version: what it does not have may still be
/// there. Call it before schedev_session_on_response().
///
/// @param session  the session.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_repeat_answered(
    session: *mut schedev_session,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        session.repeat_answered();
        Ok(())
    })
}

/// Reports that the request in progress got no response.
///
/// @param session  the session.
/// @param cause    SCHEDEV_CAUSE_TIMEOUT, SCHEDEV_CAUSE_UNREACHABLE, SCHEDEV_CAUSE_CONNECTION_LOST or
///                 SCHEDEV_CAUSE_TOO_LARGE.
/// @param now_ms   the time, as for schedev_session_next().
/// @param outcome  receives the result; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised, or for another
///         cause.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_on_failure(
    session: *mut schedev_session,
    cause: u32,
    now_ms: i64,
    outcome: *mut schedev_outcome,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (
            checked!(object_mut(session)),
            checked!(optional_output(outcome)),
        );
        let cause = reported_cause(cause).ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        output.write(schedev_outcome::from_core(
            &session.on_failure(cause, UnixMillis(now_ms)),
        ));
        Ok(())
    })
}

/// Reports the result of a preparation, after SCHEDEV_STEP_PREPARE. Report it also if the preparation was cancelled: only
/// then can the next one for the event start.
///
/// @param session      the session.
/// @param attempt      the attempt number of the step.
/// @param preparation  a schedev_preparation.
/// @param accepted     receives whether the result counts: false if the attempt was cancelled, as SCHEDEV_STEP_CANCEL
///                     reported or will report; may be NULL.
/// @return SCHEDEV_OK, also if the result does not count; SCHEDEV_ERROR_UNKNOWN_EVENT if the session does not wait for the
///         result of a preparation with this attempt number, and nothing changed; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT if the session is not initialised, or for another preparation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_prepared(
    session: *mut schedev_session,
    attempt: u32,
    preparation: u32,
    accepted: *mut Flag,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (
            checked!(object_mut(session)),
            checked!(optional_output(accepted)),
        );
        let preparation = match preparation {
            number if number == SCHEDEV_PREPARATION_READY as u32 => Preparation::Ready,
            number if number == SCHEDEV_PREPARATION_FAILED as u32 => Preparation::Failed,
            number if number == SCHEDEV_PREPARATION_ABANDONED as u32 => Preparation::Abandoned,
            _ => return Err(SCHEDEV_ERROR_ARGUMENT),
        };
        write_accepted(session.prepared(attempt, preparation), output)
    })
}

/// Reports the end of a recovery, after SCHEDEV_STEP_RECOVER. One that is not done is given again, after 5 seconds at first
/// and 5 minutes at last, until it is done or a preparation replaces it. Report the end also if the recovery was cancelled.
///
/// @param session   the session.
/// @param attempt   the attempt number of the step.
/// @param done      whether the machine is back in service.
/// @param now_ms    the time, as for schedev_session_next().
/// @param accepted  receives whether the result counts: false if the attempt was cancelled; may be NULL.
/// @return SCHEDEV_OK, also if the result does not count; SCHEDEV_ERROR_UNKNOWN_EVENT if the session does not wait for the
///         result of a recovery with this attempt number, and nothing changed; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT
///         if the session is not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_recovered(
    session: *mut schedev_session,
    attempt: u32,
    done: Flag,
    now_ms: i64,
    accepted: *mut Flag,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (
            checked!(object_mut(session)),
            checked!(optional_output(accepted)),
        );
        write_accepted(
            session.recovered(attempt, done.is_on(), UnixMillis(now_ms)),
            output,
        )
    })
}

/// Reports the answer of the gate, after SCHEDEV_STEP_GATE. A gate that is not open is asked again after 5 seconds, until
/// NotBefore. An event is approved only if a poll that began after the answer shows it unchanged. Report an answer also if
/// the question was cancelled.
///
/// @param session   the session.
/// @param attempt   the attempt number of the step.
/// @param answer    a schedev_gate_answer.
/// @param now_ms    the time, as for schedev_session_next().
/// @param accepted  receives whether the answer counts: false if the attempt was cancelled; may be NULL.
/// @return SCHEDEV_OK, also if the answer does not count; SCHEDEV_ERROR_UNKNOWN_EVENT if the session does not wait for the
///         answer to a question with this attempt number, and nothing changed; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT
///         if the session is not initialised, or for another answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_gate_answered(
    session: *mut schedev_session,
    attempt: u32,
    answer: u32,
    now_ms: i64,
    accepted: *mut Flag,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (
            checked!(object_mut(session)),
            checked!(optional_output(accepted)),
        );
        let answer = match answer {
            number if number == SCHEDEV_GATE_ANSWER_OPEN as u32 => GateAnswer::Open,
            number if number == SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES as u32 => {
                GateAnswer::AnotherApproves
            }
            number if number == SCHEDEV_GATE_ANSWER_CLOSED as u32 => GateAnswer::Closed,
            _ => return Err(SCHEDEV_ERROR_ARGUMENT),
        };
        write_accepted(
            session.gate_answered(attempt, answer, UnixMillis(now_ms)),
            output,
        )
    })
}

/// Writes what the session made of an answer.
fn write_accepted(outcome: AnswerOutcome, output: Output<Flag>) -> Result {
    let accepted = match outcome {
        AnswerOutcome::Accepted => true,
        AnswerOutcome::Cancelled => false,
        AnswerOutcome::Unexpected => return Err(SCHEDEV_ERROR_UNKNOWN_EVENT),
    };
    output.write(Flag::new(accepted));
    Ok(())
}

/// Returns the id of an event that the recovery of this machine is for: those that ended while the machine was out of
/// service, the one that ended last first. After a SCHEDEV_STEP_RECOVER for another machine, the step's event is not among them, and the recovery is for
/// that event only.
///
/// @param session   the session.
/// @param index     the index, from 0.
/// @param event_id  receives the id, valid until the next call that changes the session.
/// @return SCHEDEV_OK; SCHEDEV_END if there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
///         initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_recovering(
    session: *const schedev_session,
    index: usize,
    event_id: *mut schedev_text,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (checked!(object(session)), checked!(output(event_id)));
        let event = session.recovering().nth(index).ok_or(SCHEDEV_END)?;
        output.write(schedev_text::plain(event.event_id().as_str()));
        Ok(())
    })
}

/// Returns since when this machine is out of service: since the first preparation that it was not recovered from.
///
/// @param session   the session.
/// @param since_ms  receives the time, on the clock of schedev_session_next().
/// @return SCHEDEV_OK; SCHEDEV_END if the machine is in service; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session
///         is not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_out_of_service_since(
    session: *const schedev_session,
    since_ms: *mut i64,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (checked!(object(session)), checked!(output(since_ms)));
        output.write(session.out_of_service_since().ok_or(SCHEDEV_END)?.0);
        Ok(())
    })
}

/// Returns since when advice cannot be seen: the version of the API that has it brings no documents, several times in a row, while the
/// other one does. It is asked for again after a minute, then less often. Advice that was announced holds for an hour.
///
/// @param session   the session.
/// @param since_ms  receives the time, on the clock of schedev_session_next().
/// @return SCHEDEV_OK; SCHEDEV_END if advice can be seen, or nothing needs it; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the
///         session is not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_advice_unseen_since(
    session: *const schedev_session,
    since_ms: *mut i64,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (checked!(object(session)), checked!(output(since_ms)));
        output.write(session.advice_unseen_since().ok_or(SCHEDEV_END)?.0);
        Ok(())
    })
}

/// Returns the id of an event that the POST in progress approves, and after its result of one that it was for, until the
/// next call of schedev_session_next() or schedev_session_on_notification().
///
/// @param session   the session.
/// @param index     the index, from 0.
/// @param event_id  receives the id, valid until the next call that changes the session.
/// @return SCHEDEV_OK; SCHEDEV_END if there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
///         initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_posted(
    session: *const schedev_session,
    index: usize,
    event_id: *mut schedev_text,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (checked!(object(session)), checked!(output(event_id)));
        output.write(schedev_text::plain(
            session.posted().nth(index).ok_or(SCHEDEV_END)?.as_str(),
        ));
        Ok(())
    })
}

/// Returns one event that the session follows. Events that are gone are followed until they are recovered from.
///
/// @param session  the session.
/// @param index    the index, from 0.
/// @param event    receives the event. Its texts are valid until the next call that changes the session.
/// @return SCHEDEV_OK; SCHEDEV_END if there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
///         initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_event(
    session: *const schedev_session,
    index: usize,
    event: *mut schedev_tracked_event,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (checked!(object(session)), checked!(output(event)));
        output.write(schedev_tracked_event::from_core(
            session.events().nth(index).ok_or(SCHEDEV_END)?,
        ));
        Ok(())
    })
}

/// Whether the session has seen an event, including before a restored snapshot was taken.
///
/// @param session  the session.
/// @return whether it has; false if session is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_has_seen_event(session: *const schedev_session) -> bool {
    value_boundary(false, || {
        let session = checked!(object(session));
        Ok(session.has_seen_event())
    })
}

/// Whether nothing is left to do: a document was read since the start, the newest one has no events, and nothing waits to
/// be reported, prepared or recovered. With SCHEDEV_SESSION_SOURCE_NOTIFICATIONS, documents do not count.
///
/// @param session  the session.
/// @return whether it is idle; false if session is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_is_idle(session: *const schedev_session) -> bool {
    value_boundary(false, || {
        let session = checked!(object(session));
        Ok(session.is_idle())
    })
}
