//! The session in the caller's memory.

use scheduled_events_core::Session;

use crate::abi::tagged::{self, Holder};

/// The maximum number of events that a session follows. If a document has more, this machine's events come first; the
/// others are counted and reported.
pub const SCHEDEV_SESSION_EVENTS_MAX: usize = 64;

/// The client as a state machine without I/O. Call schedev_session_next() for the next step, perform it, and pass the
/// result back. A session lives in the caller's memory, and there is nothing to free.
///
/// A session schedules polls, reports changes, decides, asks for preparations, approves events when the host is ready,
/// retries what failed, and asks for recoveries. While a request or a preparation is in progress, it goes on with
/// everything else.
///
/// The machine is either in service or out of service. The first preparation for one of its events takes it out of service.
/// It is recovered once nothing keeps it out: no event of this machine that was prepared for, and none that has started.
pub struct schedev_session(#[allow(dead_code)] tagged::Tagged<Session<SCHEDEV_SESSION_EVENTS_MAX>>);

// SAFETY: the struct is a `Tagged` value.
unsafe impl Holder for schedev_session {
    type Value = Session<SCHEDEV_SESSION_EVENTS_MAX>;
    const TAG: u64 = u64::from_be_bytes(*b"session.");
    const OFFSET: usize = 0;
}
