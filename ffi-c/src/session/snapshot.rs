//! Snapshots: what a session keeps across a restart.

use std::ffi::c_char;

use scheduled_events_core::{Session, SnapshotError};

use super::object::{SCHEDEV_SESSION_EVENTS_MAX, schedev_session};
use crate::abi::pointers::{bytes, output_buffer};
use crate::abi::tagged::{object, object_mut};
use crate::boundary::{boundary, value_boundary};
use crate::status::schedev_status::{
    self, SCHEDEV_ERROR_INTERNAL, SCHEDEV_ERROR_SNAPSHOT_DAMAGED,
    SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE, SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
    SCHEDEV_ERROR_SNAPSHOT_VERSION,
};

/// The largest snapshot, in bytes.
pub const SCHEDEV_SNAPSHOT_MAX_BYTES: usize = 12_288;

const _: () =
    assert!(Session::<SCHEDEV_SESSION_EVENTS_MAX>::SNAPSHOT_MAX <= SCHEDEV_SNAPSHOT_MAX_BYTES);

/// How much of a state file to read, in bytes: the command and Python track 1,024 events, so that their snapshots can be larger
/// than SCHEDEV_SNAPSHOT_MAX_BYTES, but not than this.
pub const SCHEDEV_STATE_READ_BYTES: usize = 196_608;

const _: () = assert!(Session::<1_024>::SNAPSHOT_MAX <= SCHEDEV_STATE_READ_BYTES);

/// Whether a snapshot is worth storing: it would differ from the one that was restored, or from the session as it was when
/// schedev_session_saved() was called. Ask after each step, and store the snapshot before acting on the step. Most polls change
/// nothing.
///
/// @param session  the session.
/// @return whether it has changed, which is true for a new session; false if session is NULL or not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_changed(session: *const schedev_session) -> bool {
    value_boundary(false, || {
        let session = checked!(object(session));
        Ok(session.is_changed())
    })
}

/// Records that a snapshot of the session as it is now was stored. Call it once the file is safe, before the next call that
/// changes the session.
///
/// @param session  the session.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_saved(session: *mut schedev_session) -> schedev_status {
    boundary(|| {
        let session = checked!(object_mut(session));
        session.saved();
        Ok(())
    })
}

/// Writes what the session must remember across a restart, in a binary format with a version and a checksum. The command
/// `scheduled-events watch --state` and Python read it, too, if machine_id and boot_id of the configuration are what they use:
/// vmId, see SCHEDEV_VM_ID_PATH, and the contents of /proc/sys/kernel/random/boot_id.
///
/// @param session   the session.
/// @param buffer    receives the snapshot; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes; SCHEDEV_SNAPSHOT_MAX_BYTES are always enough.
/// @param needed    receives the length of the snapshot in bytes, even if the buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_snapshot(
    session: *const schedev_session,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let session = checked!(object(session));
        let length = session
            .snapshot(&mut [])
            .unwrap_or_else(|small| small.needed);
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        buffer.fill(length, |target| {
            session.snapshot(target).map_err(|_| SCHEDEV_ERROR_INTERNAL)
        })
    })
}

/// Restores a session from a snapshot, which may be one of the command or of Python: a state file of theirs starts with one, within
/// the first SCHEDEV_STATE_READ_BYTES. Policy, names and interval stay as the session was configured.
///
/// Of more than SCHEDEV_SESSION_EVENTS_MAX events, those with a preparation or a recovery are restored, then this machine's own
/// with the earliest deadlines, then others. SCHEDEV_STEP_UNTRACKED counts those of the next document that are left out.
///
/// Steps that were given and not answered are given again: a preparation or a recovery that had not ended, a change that
/// had not been reported. Nothing is approved until a document confirms that the event is still Scheduled, and nothing is
/// recovered until a document shows what keeps the machine out of service. If the machine was rebooted since, as the boot_id
/// of the configuration shows, events that it was ready for and that were not approved are prepared for again.
///
/// @param session  the session. Its present state is lost.
/// @param data     the snapshot, and any data after it, which is ignored; NULL if len is 0.
/// @param len      the length of both in bytes.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_SNAPSHOT_DAMAGED, SCHEDEV_ERROR_SNAPSHOT_VERSION,
///         SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS (a preparation or a recovery is pending for more events than fit) or
///         SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE (it has another machine_id), and the session is as after schedev_session_init(); SCHEDEV_ERROR_NULL or SCHEDEV_ERROR_ARGUMENT (the session is not
///         initialised), and it is unchanged.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_session_restore(
    session: *mut schedev_session,
    data: *const c_char,
    len: usize,
) -> schedev_status {
    boundary(|| {
        let (session, snapshot) = (checked!(object_mut(session)), checked!(bytes(data, len)));
        session.restore(snapshot).map_err(|error| match error {
            SnapshotError::UnknownVersion(_) => SCHEDEV_ERROR_SNAPSHOT_VERSION,
            SnapshotError::TooManyEvents => SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
            SnapshotError::OtherMachine => SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE,
            _ => SCHEDEV_ERROR_SNAPSHOT_DAMAGED,
        })
    })
}
