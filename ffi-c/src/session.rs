//! The whole client as a state machine without I/O.

use std::ffi::{c_char, c_void};

use scheduled_events_core::{
    Policy, Preparation, Response, Session, SessionConfig, SessionConfigError, UnixMillis, VmNames, limits,
};

use crate::boundary::{Result, boundary, value_boundary};
use crate::memory::{Flag, Grows, bytes, check, input, optional_output, output, sized};
use crate::names::{schedev_names, with_names};
use crate::policy::{core_policy, schedev_policy};
use crate::status::schedev_status::{
    self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_INTERVAL_TOO_SHORT, SCHEDEV_ERROR_NAME_TOO_LONG,
    SCHEDEV_ERROR_TOO_MANY_NAMES, SCHEDEV_ERROR_UNKNOWN_EVENT,
};
use crate::step::{schedev_outcome, schedev_step, told_cause};
use crate::text::schedev_text;
use crate::tracker::{event_id, place_in, schedev_tracked_event, size_in};

/// The most events that a session follows at a time. This machine's own come first; others beyond it are counted and
/// reported.
pub const SCHEDEV_SESSION_EVENTS_MAX: usize = 64;
/// The usual time between two polls, in milliseconds.
pub const SCHEDEV_INTERVAL_MS: u32 = 1000;
/// The shortest time between two polls, in milliseconds.
pub const SCHEDEV_INTERVAL_MIN_MS: u32 = 200;

const _: () = assert!(SCHEDEV_INTERVAL_MS == limits::INTERVAL_MS && SCHEDEV_INTERVAL_MIN_MS == limits::INTERVAL_MIN_MS);

/// The whole client as a state machine without I/O: ask schedev_session_next() what to do, do it, and tell what came of
/// it. It lives in memory that the caller hands over; there is nothing to free.
///
/// A session keeps the pace of polling, tells changes, decides, says when to prepare, approves when the host is ready,
/// repeats what failed, and says when to recover. While a request is under way, or the host prepares, it goes on with
/// everything else.
pub struct schedev_session {
    tag: u64,
    pub(crate) session: Session<SCHEDEV_SESSION_EVENTS_MAX>,
}

const TAG: u64 = 0x7365_7373_696f_6e21;

/// How a session is to behave. Start from SCHEDEV_SESSION_CONFIG_INIT: the policy that only observes, unknown names, a
/// poll each second.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_session_config {
    /// sizeof(schedev_session_config), which lets the struct grow.
    pub struct_size: usize,
    /// What to do about events; NULL is schedev_policy_observe(). It is copied.
    pub policy: *const schedev_policy,
    /// The names of this machine; NULL until they are known. They are copied.
    pub names: *const schedev_names,
    /// Any number that differs between machines; it spreads retries.
    pub seed: u64,
    /// Milliseconds between two polls, SCHEDEV_INTERVAL_MIN_MS at least.
    pub interval_ms: u32,
    /// Decide and report, but neither prepare nor approve.
    pub dry_run: Flag,
}

// SAFETY: pointers, numbers and a flag; there has been one version.
unsafe impl Grows for schedev_session_config {
    const SIZES: &'static [usize] = &[size_of::<Self>()];
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        policy: core::ptr::null(),
        names: core::ptr::null(),
        seed: 0,
        interval_ms: SCHEDEV_INTERVAL_MS,
        dry_run: Flag::new(false),
    };
}

/// An HTTP answer. Start from SCHEDEV_RESPONSE_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_response {
    /// sizeof(schedev_response), which lets the struct grow.
    pub struct_size: usize,
    /// The body; NULL where body_len is 0.
    pub body: *const c_char,
    /// Its length in bytes.
    pub body_len: usize,
    /// The status code.
    pub http_status: u32,
    /// The Retry-After header, if has_retry_after; the host converts a date.
    pub retry_after_seconds: u32,
    /// Whether there is a Retry-After header.
    pub has_retry_after: Flag,
}

// SAFETY: pointers, numbers and flags; there has been one version.
unsafe impl Grows for schedev_response {
    const SIZES: &'static [usize] = &[size_of::<Self>()];
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        body: core::ptr::null(),
        body_len: 0,
        http_status: 0,
        retry_after_seconds: 0,
        has_retry_after: Flag::new(false),
    };
}

/// The host's answer to SCHEDEV_STEP_PREPARE.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_preparation {
    /// Ready: Azure may go ahead.
    SCHEDEV_PREPARATION_READY = 1,
    /// Not ready, and not going to be: the event is never approved.
    SCHEDEV_PREPARATION_FAILED = 2,
}

use schedev_preparation::*;

/// The session behind the pointer.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn open<'a>(session: *const schedev_session) -> Result<&'a schedev_session> {
    // SAFETY: the caller's promise is the same. The tag comes first to be read, before anything relies on the rest.
    unsafe {
        check(session)?;
        if (&raw const (*session).tag).read() != TAG {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        input(session)
    }
}

/// The session behind the pointer, to be changed.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn open_mut<'a>(session: *mut schedev_session) -> Result<&'a mut schedev_session> {
    // SAFETY: the caller's promise is the same; a pointer that is not const is the caller's alone during the call.
    unsafe {
        open(session)?;
        Ok(&mut *session)
    }
}

fn refused(error: SessionConfigError) -> schedev_status {
    match error {
        SessionConfigError::IntervalTooShort => SCHEDEV_ERROR_INTERVAL_TOO_SHORT,
        SessionConfigError::TooManyNames => SCHEDEV_ERROR_TOO_MANY_NAMES,
        SessionConfigError::NameTooLong => SCHEDEV_ERROR_NAME_TOO_LONG,
        _ => SCHEDEV_ERROR_ARGUMENT,
    }
}

/// The bytes of memory that a session takes, wherever that memory starts.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_session_size() -> usize {
    size_in::<schedev_session>()
}

/// Makes a session that has seen nothing.
///
/// @param memory   where it is to live, at any alignment; it must not move while the session is used.
/// @param size     the bytes there, at least schedev_session_size().
/// @param config   how it is to behave; it is not needed after the call.
/// @param session  receives the session, which lies in that memory.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a wrong
///         struct_size or unknown constants; SCHEDEV_ERROR_INTERVAL_TOO_SHORT; SCHEDEV_ERROR_TOO_MANY_NAMES;
///         SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_init(
    memory: *mut c_void,
    size: usize,
    config: *const schedev_session_config,
    session: *mut *mut schedev_session,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header; the config starts with its size.
        let (config, session) = unsafe { (sized(config)?, output(session)?) };
        let policy = if config.policy.is_null() {
            Policy::observe()
        } else {
            // SAFETY: the conventions of the header.
            unsafe { core_policy(config.policy) }?
        };
        // SAFETY: the conventions of the header.
        let place = unsafe { place_in::<schedev_session>(memory, size) }?;
        let make = |names: VmNames<'_>| {
            let made = Session::new(&SessionConfig {
                names,
                policy,
                interval_ms: config.interval_ms,
                dry_run: config.dry_run.is_on(),
                seed: config.seed,
            });
            // SAFETY: `place_in` found room for it.
            made.map(|session| unsafe { place.write(schedev_session { tag: TAG, session }) })
        };
        // SAFETY: the conventions of the header.
        unsafe { with_names(config.names, make) }?.map_err(refused)?;
        session.write(place);
        Ok(())
    })
}

/// Sets this machine's names once they are known, or anew. The next poll decides all events again.
///
/// @param session  the session.
/// @param names    the names, which are copied; NULL where they are unknown.
/// @return SCHEDEV_OK; otherwise the names stay as they were: SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG;
///         SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_set_names(
    session: *mut schedev_session,
    names: *const schedev_names,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        unsafe {
            let session = open_mut(session)?;
            with_names(names, |names| session.session.set_names(names))?.map_err(refused)
        }
    })
}

/// What to do now. Ask after everything that was told, and when a wait is over. Requests come one at a time: until the
/// answer to one is fed back, only other steps are said.
///
/// A step is said once. Take a snapshot after it, and store that before acting on it, where a restart must not repeat it.
///
/// @param session  the session.
/// @param now_ms   the time, in milliseconds since 1970-01-01T00:00:00Z on a clock that does not step: read the wall
///                 clock once, and add what a monotonic clock says has passed.
/// @param step     receives what to do.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_next(
    session: *mut schedev_session,
    now_ms: i64,
    step: *mut schedev_step,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (session, place) = unsafe { (open_mut(session)?, output(step)?) };
        place.write(schedev_step::of(&session.session.next(UnixMillis(now_ms))));
        Ok(())
    })
}

/// Takes the answer to the request under way. Only a document can end an event; every other answer says nothing.
///
/// @param session   the session.
/// @param response  the answer; it is not needed after the call.
/// @param now_ms    the time, as for schedev_session_next().
/// @param outcome   receives what it led to; may be NULL.
/// @return SCHEDEV_OK, also where the request failed, which the outcome tells; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised, a wrong struct_size, or a status above 65535.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_on_response(
    session: *mut schedev_session,
    response: *const schedev_response,
    now_ms: i64,
    outcome: *mut schedev_outcome,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header; the response starts with its size.
        let (session, response, place) = unsafe { (open_mut(session)?, sized(response)?, optional_output(outcome)?) };
        // SAFETY: the conventions of the header.
        let body = unsafe { bytes(response.body, response.body_len)? };
        let response = Response {
            status: u16::try_from(response.http_status).map_err(|_| SCHEDEV_ERROR_ARGUMENT)?,
            retry_after: response.has_retry_after.is_on().then_some(response.retry_after_seconds),
            body,
        };
        place.write(schedev_outcome::of(&session.session.on_response(&response, UnixMillis(now_ms))));
        Ok(())
    })
}

/// Notes that the request under way got no usable answer.
///
/// @param session  the session.
/// @param cause    SCHEDEV_CAUSE_TIMEOUT, SCHEDEV_CAUSE_UNREACHABLE, SCHEDEV_CAUSE_CONNECTION_LOST or SCHEDEV_CAUSE_TOO_LARGE.
/// @param now_ms   the time, as for schedev_session_next().
/// @param outcome  receives what it led to; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised, or another
///         cause.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_on_failure(
    session: *mut schedev_session,
    cause: u32,
    now_ms: i64,
    outcome: *mut schedev_outcome,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (session, place) = unsafe { (open_mut(session)?, optional_output(outcome)?) };
        let cause = told_cause(cause).ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        place.write(schedev_outcome::of(&session.session.on_failure(cause, UnixMillis(now_ms))));
        Ok(())
    })
}

/// The host's answer to SCHEDEV_STEP_PREPARE.
///
/// @param session      the session.
/// @param event_id     the id of the step's event.
/// @param preparation  a schedev_preparation.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT where no preparation of this event is under way;
///         SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised, or another preparation;
///         SCHEDEV_ERROR_UTF8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_prepared(
    session: *mut schedev_session,
    event_id: schedev_text,
    preparation: u32,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header. The id may view the session's own memory, so it is copied first.
        let id = unsafe { self::event_id(event_id) }?;
        // SAFETY: the conventions of the header.
        let session = unsafe { open_mut(session) }?;
        let preparation = match preparation {
            number if number == SCHEDEV_PREPARATION_READY as u32 => Preparation::Ready,
            number if number == SCHEDEV_PREPARATION_FAILED as u32 => Preparation::Failed,
            _ => return Err(SCHEDEV_ERROR_ARGUMENT),
        };
        let known = session.session.prepared(id.as_str(), preparation);
        if known { Ok(()) } else { Err(SCHEDEV_ERROR_UNKNOWN_EVENT) }
    })
}

/// The host's answer to SCHEDEV_STEP_RECOVER, whatever came of it; the event is forgotten.
///
/// @param session   the session.
/// @param event_id  the id of the step's event.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT where no recovery of this event is under way; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised; SCHEDEV_ERROR_UTF8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_recovered(
    session: *mut schedev_session,
    event_id: schedev_text,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header. The id may view the session's own memory, so it is copied first.
        let id = unsafe { self::event_id(event_id) }?;
        // SAFETY: the conventions of the header.
        let session = unsafe { open_mut(session) }?;
        if session.session.recovered(id.as_str()) { Ok(()) } else { Err(SCHEDEV_ERROR_UNKNOWN_EVENT) }
    })
}

/// The id of an event that the POST under way approves.
///
/// @param session   the session.
/// @param index     from 0.
/// @param event_id  receives the id, which is good until the session is told or asked the next thing.
/// @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that
///         was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_posted(
    session: *const schedev_session,
    index: usize,
    event_id: *mut schedev_text,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (session, place) = unsafe { (open(session)?, output(event_id)?) };
        place.write(schedev_text::plain(session.session.posted().nth(index).ok_or(SCHEDEV_END)?.as_str()));
        Ok(())
    })
}

/// One of the events that are followed, those among them that are gone and not recovered from yet.
///
/// @param session  the session.
/// @param index    from 0.
/// @param event    receives the event, whose texts are good until the session is told or asked the next thing.
/// @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that
///         was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_event(
    session: *const schedev_session,
    index: usize,
    event: *mut schedev_tracked_event,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (session, place) = unsafe { (open(session)?, output(event)?) };
        place.write(schedev_tracked_event::of(session.session.events().nth(index).ok_or(SCHEDEV_END)?));
        Ok(())
    })
}

/// Whether an event was seen, in this run or before the snapshot.
///
/// @param session  the session.
/// @return whether; false for NULL, or for a session that was not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_has_seen_event(session: *const schedev_session) -> bool {
    value_boundary(false, || {
        // SAFETY: the conventions of the header.
        Ok(unsafe { open(session) }?.session.has_seen_event())
    })
}

/// Whether the newest document, read since the start, announces nothing, and nothing is left to report, to prepare or to
/// recover from.
///
/// @param session  the session.
/// @return whether; false for NULL, or for a session that was not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_is_idle(session: *const schedev_session) -> bool {
    value_boundary(false, || {
        // SAFETY: the conventions of the header.
        Ok(unsafe { open(session) }?.session.is_idle())
    })
}
