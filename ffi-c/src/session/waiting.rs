//! What each event of a session waits for, and the time of day that it is compared with.

use scheduled_events_core::{UnixMillis, Waiting, WaitsFor};

use super::object::schedev_session;
use crate::abi::pointers::{Flag, output};
use crate::abi::tagged::{object, object_mut};
use crate::boundary::boundary;
use crate::policy::schedev_decision;
use crate::status::schedev_status::{self, SCHEDEV_END};
use crate::tracker::schedev_tracked_event;

/// What has to happen next for an event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_waits_for {
    /// The next document: the first one since the start or since the names changed, or the one that has to confirm the event
    /// after the gate opened.
    SCHEDEV_WAITS_FOR_DOCUMENT = 1,
    /// The time before which the rule neither prepares nor approves, see prepare_before_seconds of schedev_rule.
    SCHEDEV_WAITS_FOR_DUE_TIME = 2,
    /// The gate before the preparation.
    SCHEDEV_WAITS_FOR_GATE_TO_PREPARE = 3,
    /// The preparation, which runs or is about to start, or which failed and is tried again.
    SCHEDEV_WAITS_FOR_PREPARATION = 4,
    /// The gate before the approval.
    SCHEDEV_WAITS_FOR_GATE_TO_APPROVE = 5,
    /// The machines before this one, which approve first: SCHEDEV_LEADER_RANK.
    SCHEDEV_WAITS_FOR_TURN = 6,
    /// The approval, which is about to be posted, or posted again after a failure.
    SCHEDEV_WAITS_FOR_APPROVAL = 7,
    /// The start of the event: it is approved.
    SCHEDEV_WAITS_FOR_START = 8,
    /// The start of the event without an approval: the decision is not to approve it, or its NotBefore has passed before the
    /// gate opened.
    SCHEDEV_WAITS_FOR_START_UNAPPROVED = 9,
    /// The start of the event without an approval: the preparation failed.
    SCHEDEV_WAITS_FOR_START_UNPREPARED = 10,
    /// The end of what runs for an attempt that was cancelled.
    SCHEDEV_WAITS_FOR_CANCELLED_COMMAND = 11,
    /// The end of the event, which has started.
    SCHEDEV_WAITS_FOR_END = 12,
    /// The withdrawal of the advice, or the eviction that it advised of.
    SCHEDEV_WAITS_FOR_WITHDRAWAL = 13,
    /// The recovery: the event is over.
    SCHEDEV_WAITS_FOR_RECOVERY = 14,
    /// Something that this version of the header does not name.
    SCHEDEV_WAITS_FOR_OTHER = 255,
}

use schedev_waits_for::*;

fn number(waits_for: WaitsFor) -> u32 {
    let number = match waits_for {
        WaitsFor::Document => SCHEDEV_WAITS_FOR_DOCUMENT,
        WaitsFor::DueTime => SCHEDEV_WAITS_FOR_DUE_TIME,
        WaitsFor::GateToPrepare => SCHEDEV_WAITS_FOR_GATE_TO_PREPARE,
        WaitsFor::Preparation => SCHEDEV_WAITS_FOR_PREPARATION,
        WaitsFor::GateToApprove => SCHEDEV_WAITS_FOR_GATE_TO_APPROVE,
        WaitsFor::Turn => SCHEDEV_WAITS_FOR_TURN,
        WaitsFor::Approval => SCHEDEV_WAITS_FOR_APPROVAL,
        WaitsFor::Start => SCHEDEV_WAITS_FOR_START,
        WaitsFor::StartUnapproved => SCHEDEV_WAITS_FOR_START_UNAPPROVED,
        WaitsFor::StartUnprepared => SCHEDEV_WAITS_FOR_START_UNPREPARED,
        WaitsFor::CancelledCommand => SCHEDEV_WAITS_FOR_CANCELLED_COMMAND,
        WaitsFor::End => SCHEDEV_WAITS_FOR_END,
        WaitsFor::Withdrawal => SCHEDEV_WAITS_FOR_WITHDRAWAL,
        WaitsFor::Recovery => SCHEDEV_WAITS_FOR_RECOVERY,
        _ => SCHEDEV_WAITS_FOR_OTHER,
    };
    number as u32
}

/// What an event of a session waits for, and why. All times are times of day, in seconds since 1970-01-01T00:00:00Z.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_waiting {
    /// The event.
    pub event: schedev_tracked_event,
    /// What the policy decided about it in the newest document, if has_decision.
    pub decision: schedev_decision,
    /// Since when attempt runs, if has_attempt.
    pub since_seconds: i64,
    /// When what it waits for happens at the earliest, or is tried again, if has_until.
    pub until_seconds: i64,
    /// A schedev_waits_for.
    pub waits_for: u32,
    /// The number of the preparation, recovery or question to the gate that runs, if has_attempt.
    pub attempt: u32,
    /// Whether the event waits for something that runs.
    pub has_attempt: Flag,
    /// Whether until_seconds is known.
    pub has_until: Flag,
    /// Whether decision is known. It is not before the first document after a start.
    pub has_decision: Flag,
    /// Whether the machine prepares, or has prepared, by the last call: the gate has not answered yes since.
    pub by_last_call: Flag,
    /// For later versions: zero.
    pub reserved: [u64; 4],
}

impl schedev_waiting {
    fn from_core(event: schedev_tracked_event, waiting: &Waiting) -> Self {
        let decision = waiting.decision.as_ref();
        Self {
            event,
            decision: decision.map_or(schedev_decision::NONE, schedev_decision::from_core),
            since_seconds: waiting.since.map_or(0, |since| since.0),
            until_seconds: waiting.until.map_or(0, |until| until.0),
            waits_for: number(waiting.waits_for),
            attempt: waiting.attempt.unwrap_or(0),
            has_attempt: Flag::new(waiting.attempt.is_some()),
            has_until: Flag::new(waiting.until.is_some()),
            has_decision: Flag::new(decision.is_some()),
            by_last_call: Flag::new(waiting.by_last_call),
            reserved: [0; 4],
        }
    }
}

/// Returns what one event of the session waits for: what a status page shows. Asking changes nothing.
///
/// @param session  the session.
/// @param index    the index, from 0; the same event as for schedev_session_event().
/// @param now_ms   the time, as for schedev_session_next().
/// @param waiting  receives the event and what it waits for. Its texts are valid until the next call that changes the session.
/// @return SCHEDEV_OK; SCHEDEV_END if there are fewer events; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
///         initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_waiting(
    session: *const schedev_session,
    index: usize,
    now_ms: i64,
    waiting: *mut schedev_waiting,
) -> schedev_status {
    boundary(|| {
        let (session, output) = (checked!(object(session)), checked!(output(waiting)));
        let found = session.waiting(UnixMillis(now_ms)).nth(index);
        let (event, waiting) = found.ok_or(SCHEDEV_END)?;
        let event = schedev_tracked_event::from_core(event);
        output.write(schedev_waiting::from_core(event, &waiting));
        Ok(())
    })
}

/// Sets how far the time of day is ahead of now_ms of schedev_session_next(), which must not step; initially 0. NotBefore is a time of
/// day: it is reached sooner if the system clock was set forward, or if the machine was suspended while the clock of now_ms stood
/// still.
///
/// @param session   the session.
/// @param ahead_ms  the time of day minus now_ms, in milliseconds; negative if the system clock was set back.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_set_time_of_day_ahead(
    session: *mut schedev_session,
    ahead_ms: i64,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        session.set_time_of_day_ahead(ahead_ms);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_to_wait_has_a_number() {
        for (index, waits_for) in WaitsFor::ALL.into_iter().enumerate() {
            assert_eq!(number(waits_for) as usize, index + 1);
        }
    }
}
