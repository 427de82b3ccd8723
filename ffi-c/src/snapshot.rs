//! What survives a restart.

use std::ffi::c_char;

use scheduled_events_core::SnapshotError;

use crate::boundary::boundary;
use crate::event::SCHEDEV_EVENT_ID_MAX_BYTES;
use crate::memory::{bytes, fill};
use crate::session::{SCHEDEV_SESSION_EVENTS_MAX, open, open_mut, schedev_session};
use crate::status::schedev_status::{
    self, SCHEDEV_ERROR_INTERNAL, SCHEDEV_ERROR_SNAPSHOT_DAMAGED, SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
    SCHEDEV_ERROR_SNAPSHOT_VERSION,
};

/// The most bytes that a snapshot takes: a buffer of this size is never too small.
pub const SCHEDEV_SNAPSHOT_MAX_BYTES: usize = 8192;

const _: () = {
    // Magic, version, flags, sixteen hashes and a place among them, a count and a checksum; and for each event two texts
    // with their lengths, five numbers, and how far it has come.
    const HEAD: usize = 4 + 1 + 1 + 16 * 8 + 1 + 2 + 8;
    const EVENT: usize = (1 + SCHEDEV_EVENT_ID_MAX_BYTES) + (1 + 28) + 1 + 1 + 8 + 4 + 4 + 8 + 4;
    assert!(HEAD + SCHEDEV_SESSION_EVENTS_MAX * EVENT <= SCHEDEV_SNAPSHOT_MAX_BYTES);
};

/// Writes what a restart must not forget: binary, with a version and a checksum. Take one whenever the session was told
/// or said something, and store it before acting on what it said.
///
/// @param session   the session.
/// @param buffer    receives the snapshot; NULL where capacity is 0.
/// @param capacity  the bytes that the buffer holds; SCHEDEV_SNAPSHOT_MAX_BYTES are always enough.
/// @param needed    receives the length of the snapshot in bytes, also where it does not fit.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is as it was; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_snapshot(
    session: *const schedev_session,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let session = unsafe { open(session) }?;
        let length = session.session.snapshot(&mut []).unwrap_or_else(|small| small.needed);
        // SAFETY: the conventions of the header.
        unsafe {
            fill((buffer, capacity, needed), length, false, |target| {
                session.session.snapshot(target).map_err(|_| SCHEDEV_ERROR_INTERNAL)
            })
        }
    })
}

/// Takes up where a snapshot left off. Policy, names and pace stay as the session was configured.
///
/// What had been said and not been answered is said again: a preparation or a recovery that had not ended, a change that
/// had not been reported. Nothing is approved before the first document has confirmed that the event is still Scheduled.
///
/// @param session  the session; what it knew is forgotten.
/// @param data     the snapshot; NULL where len is 0.
/// @param len      its length in bytes.
/// @return SCHEDEV_OK; otherwise the session is empty: SCHEDEV_ERROR_SNAPSHOT_DAMAGED; SCHEDEV_ERROR_SNAPSHOT_VERSION;
///         SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS; or, and then it is as it was, SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_restore(
    session: *mut schedev_session,
    data: *const c_char,
    len: usize,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (session, snapshot) = unsafe { (open_mut(session)?, bytes(data, len)?) };
        session.session.restore(snapshot).map_err(|error| match error {
            SnapshotError::UnknownVersion(_) => SCHEDEV_ERROR_SNAPSHOT_VERSION,
            SnapshotError::TooManyEvents => SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
            _ => SCHEDEV_ERROR_SNAPSHOT_DAMAGED,
        })
    })
}
