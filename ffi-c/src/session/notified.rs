//! Notifications in a session: where its events come from, and what it makes of a notification.

use scheduled_events_core::{
    Notification, NotificationOrder, NotificationOutcome, SessionSource, UnixMillis,
};

use super::object::{SCHEDEV_SESSION_EVENTS_MAX, schedev_session};
use crate::abi::pointers::{check, optional_output};
use crate::abi::tagged::{self, Holder, object, object_mut, started};
use crate::boundary::{Result, boundary};
use crate::notification::schedev_notification;
use crate::status::schedev_status::{self, SCHEDEV_ERROR_ARGUMENT};
use crate::text::{core_event_id, schedev_text};

/// Where the events of a session come from.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_session_source {
    /// The documents of the machine's metadata service, which the session polls.
    SCHEDEV_SESSION_SOURCE_DOCUMENTS = 0,
    /// Notifications outside the machine, for schedev_session_on_notification(). The session never polls. Send what
    /// schedev_acknowledge_request() writes for the ids of schedev_session_posted() in place of the body of
    /// SCHEDEV_STEP_POST, and pass its response on. After a restart, pass the notifications that are known, such as the rows of
    /// Resource Graph, before you call schedev_session_next(). The posted events can be of the machine and of its set: send a
    /// request for each of these resources, and report a failure if one fails.
    SCHEDEV_SESSION_SOURCE_NOTIFICATIONS = 1,
    /// Documents and notifications: an event is the same one in both. A notification makes an event known before the document
    /// has it, and reports its end; in between, the document counts.
    SCHEDEV_SESSION_SOURCE_BOTH = 2,
}

use schedev_session_source::*;

pub(crate) fn core_source(source: u32) -> Result<SessionSource> {
    match source {
        number if number == SCHEDEV_SESSION_SOURCE_DOCUMENTS as u32 => Ok(SessionSource::Documents),
        number if number == SCHEDEV_SESSION_SOURCE_NOTIFICATIONS as u32 => {
            Ok(SessionSource::Notifications)
        }
        number if number == SCHEDEV_SESSION_SOURCE_BOTH as u32 => Ok(SessionSource::Both),
        _ => Err(SCHEDEV_ERROR_ARGUMENT),
    }
}

/// What a session made of a notification.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_notification_outcome {
    /// The session follows the event, which is as the notification says. If it is over, its end is reported next.
    SCHEDEV_NOTIFICATION_OUTCOME_APPLIED = 1,
    /// The notification is late, its event is over or was never followed, a document says more about it, or the source of the
    /// session is documents alone.
    SCHEDEV_NOTIFICATION_OUTCOME_IGNORED = 2,
    /// The session follows as many events as it can. Pass the notification again when one of them is over.
    SCHEDEV_NOTIFICATION_OUTCOME_UNTRACKED = 3,
}

use schedev_notification_outcome::*;

/// What is known of the last SCHEDEV_SESSION_EVENTS_MAX events from their notifications, which arrive at least once and in any
/// order. It recognises those that are late, also after the end of their event. Opaque; initialise it with
/// SCHEDEV_NOTIFICATION_ORDER_INIT. It may be copied. Sessions of several machines may share one: pass each notification to all
/// of them before the next one.
///
/// If there are more events, those that are over are forgotten first. After a restart, start with a new one.
#[repr(C)]
pub struct schedev_notification_order {
    /// Private.
    pub opaque: [u64; 1024],
}

// SAFETY: the member consists of integers.
unsafe impl Holder for schedev_notification_order {
    type Value = NotificationOrder<SCHEDEV_SESSION_EVENTS_MAX>;
    const TAG: u64 = u64::from_be_bytes(*b"order...");
    const OFFSET: usize = core::mem::offset_of!(Self, opaque);
}

/// The order in the caller's memory, which starts with the first use.
///
/// # Safety
/// The conventions of the header.
unsafe fn order_mut<'a>(
    order: *mut schedev_notification_order,
) -> Result<&'a mut NotificationOrder<SCHEDEV_SESSION_EVENTS_MAX>> {
    if checked!(started(order)).is_none() {
        // SAFETY: `started` has checked the pointer, and the caller has exclusive access.
        unsafe { tagged::write(order, NotificationOrder::new()) };
    }
    // SAFETY: the same conventions.
    unsafe { object_mut(order) }
}

/// Records that an event is over, as a document says that does not have it any more. With SCHEDEV_SESSION_SOURCE_BOTH, call
/// it for each SCHEDEV_STEP_CHANGE with SCHEDEV_CHANGE_COMPLETED, SCHEDEV_CHANGE_CANCELLED,
/// SCHEDEV_CHANGE_ENDED or SCHEDEV_CHANGE_ADVICE_WITHDRAWN, so that a late notification does not start the event again.
///
/// @param order     the order.
/// @param event_id  the event's id.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the order is neither initialised nor zeroed;
///         SCHEDEV_ERROR_UTF8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_notification_order_end(
    order: *mut schedev_notification_order,
    event_id: schedev_text,
) -> schedev_status {
    boundary(|| {
        let event_id = &event_id;
        let event_id = checked!(core_event_id(event_id));
        checked!(order_mut(order)).end(&event_id);
        Ok(())
    })
}

/// Applies a notification, if the session's source includes notifications. Then call schedev_session_next(), as after each
/// result. Pass repeated notifications, too: after a restart, nothing is approved before its event was seen again.
///
/// A session compares the names in Resources alone, and machines of two resource groups can have the same name: pass the
/// notifications of this machine only. See schedev_machine_id().
///
/// @param session       the session.
/// @param order         what is known of events from the notifications before it.
/// @param notification  the notification, as schedev_notifications_next() gave it; its event and its time count. It is not needed
///                      after the call.
/// @param now_ms        the time, as for schedev_session_next().
/// @param outcome       receives a schedev_notification_outcome; may be NULL.
/// @return SCHEDEV_OK, also if the notification is ignored; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session or the
///         notification is not initialised, or if the order is neither initialised nor zeroed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_on_notification(
    session: *mut schedev_session,
    order: *mut schedev_notification_order,
    notification: *const schedev_notification,
    now_ms: i64,
    outcome: *mut u32,
) -> schedev_status {
    boundary(|| {
        check(notification)?;
        let (session, output) = (
            checked!(object_mut(session)),
            checked!(optional_output(outcome)),
        );
        // SAFETY: the pointer was checked; any bytes are a valid flag and a valid number, and `object` checks the event.
        let (event, has_time, time) = unsafe {
            let event = object(&raw const (*notification).event)?;
            (
                event,
                (&raw const (*notification).has_time).read(),
                (&raw const (*notification).time_ms).read(),
            )
        };
        let order = checked!(order_mut(order));
        let notification =
            Notification::new(event.event, has_time.is_on().then_some(UnixMillis(time)));
        let arrival = order.observe(&notification);
        output.write(
            match session.on_notification(&notification, arrival, UnixMillis(now_ms)) {
                NotificationOutcome::Applied => SCHEDEV_NOTIFICATION_OUTCOME_APPLIED,
                NotificationOutcome::Ignored => SCHEDEV_NOTIFICATION_OUTCOME_IGNORED,
                NotificationOutcome::Untracked => SCHEDEV_NOTIFICATION_OUTCOME_UNTRACKED,
            } as u32,
        );
        Ok(())
    })
}
