//! The timing and the sizes of a [`Session`](crate::Session) and of what its hosts share, each with its reason. See
//! `docs/inside/wire.md`, section 1.

/// The default time between two polls, as Microsoft's page recommends ("Polling frequency").
pub const INTERVAL_MS: u32 = 1_000;

/// The shortest time between two polls: the metadata service answers 429 above five requests per second.
pub const INTERVAL_MIN_MS: u32 = 200;

/// The shortest time between two requests of any kind, for the same reason.
pub const REQUEST_SPACING_MS: u32 = 200;

/// The timeout of the first request after the start, and of one after a long silence: the service takes up to two minutes
/// to start.
pub const FIRST_TIMEOUT_MS: u32 = 130_000;

/// After so long without an answer, one request may take [`FIRST_TIMEOUT_MS`]: the service stops after a day without
/// requests.
pub const SILENCE_MS: u32 = 86_400_000;

/// The timeout of every other request: a sixth of the shortest notice, which is 30 seconds.
pub const TIMEOUT_MS: u32 = 5_000;

/// How long a host may take to connect.
pub const CONNECT_TIMEOUT_MS: u32 = 2_000;

/// The longest time from the start of a poll to the start of the next one, whatever back-off or `Retry-After` say: a third
/// of the shortest notice. A longer interval between polls replaces it.
pub const POLL_GAP_MAX_MS: u32 = 10_000;

/// The back-off after the first failure. It doubles with each further one.
pub const BACK_OFF_FIRST_MS: u32 = 1_000;

/// The longest back-off.
pub const BACK_OFF_MAX_MS: u32 = 10_000;

/// The delay before a failed preparation is tried again. It doubles with each further failure.
pub const PREPARE_RETRY_FIRST_MS: u32 = 5_000;

/// The longest delay before a failed preparation is tried again.
pub const PREPARE_RETRY_MAX_MS: u32 = 60_000;

/// The delay before a failed recovery is tried again. It doubles with each further failure.
pub const RECOVERY_RETRY_FIRST_MS: u32 = 5_000;

/// The longest delay before a failed recovery is tried again.
pub const RECOVERY_RETRY_MAX_MS: u32 = 300_000;

/// How long a gate may take to answer one question, before that counts as not yet: a third of the shortest notice.
pub const GATE_TIME_MS: u32 = 10_000;

/// The exit code by which a gate's command says [`AnotherApproves`](crate::GateAnswer::AnotherApproves): `EX_TEMPFAIL` of
/// `sysexits.h`, which no failing program returns by accident. 0 opens the gate, and any other code means not yet.
pub const GATE_ANOTHER_APPROVES: i32 = 75;

/// The delay before a gate that is not open is asked again.
pub const GATE_RETRY_MS: u32 = 5_000;

/// The last call is at most so many seconds before an event's `NotBefore`: the machine prepares then although its gate has not
/// answered yes.
pub const LAST_CALL_MAX_S: u32 = 300;

/// With a notice of fewer seconds, the machine does not wait for its gate.
pub const LAST_CALL_NOTICE_MIN_S: u32 = 60;

/// How long a gate has for its first answer, even after the last call: one that answers at once is not taken for missing.
pub const LAST_CALL_ANSWER_MS: u32 = 1_000;

/// The notice of an event without a known `NotBefore`, in seconds, as far as the last call depends on it: the shortest that Azure
/// gives to any event but a `Preempt`.
pub const NOTICE_IF_UNKNOWN_S: u32 = 600;

/// The longest wait of a session that does not poll.
pub const WAIT_MAX_MS: u32 = 3_600_000;

/// How long an event must not name this machine any more until it is over for it.
pub const LEAVE_MS: u32 = 2_000;

/// How long a document that was superseded earlier is treated as stale when it is served again. For so long, too, documents of another
/// version of the API than those before do not end the maintenance that they lack.
pub const STALE_GRACE_MS: u32 = 10_000;

/// The largest number of names of this machine.
pub const NAMES_MAX: usize = 8;

/// The longest name of this machine, in bytes.
pub const NAME_MAX: usize = 128;

/// The largest number of events that one POST approves.
pub const BATCH_MAX: usize = 32;

/// The longest version of the API that a host can fix, in bytes.
pub const API_VERSION_MAX: usize = 32;

/// A version of the API that the service did not know is tried again after so long.
pub const VERSION_RETRY_MS: u32 = 86_400_000;

/// So often in a row, the version that has advice brings no document, while the other one does: then it pauses, so that requests
/// without an answer do not halve the pace of polls for ever.
pub const VERSION_MISSES_MAX: u8 = 4;

/// The first pause of that version. It doubles with each further request for it without a document, up to [`VERSION_RETRY_MS`].
pub const VERSION_PAUSE_MS: u32 = 60_000;

/// For so long, advice that cannot be seen any more still holds. Then the machine may return into service: an eviction has a
/// notice of its own in every version, and a machine that waits for the end of advice that nobody can see waits for ever.
pub const ADVICE_UNSEEN_MAX_MS: u32 = 3_600_000;

/// The longest body of a POST: enough for one id in which every byte is escaped, and for 32 GUIDs.
pub const BODY_MAX: usize = 2_048;

/// How many problems of a document are reported: the first ones.
pub const PROBLEMS_MAX: usize = 16;

/// The longest record that a host keeps in its audit file, in bytes. A longer one is lost, and counted in a `gap` record.
pub const RECORD_MAX: usize = 1 << 20;

/// The number of earlier audit files that a host keeps, `FILE.1` and so on. The oldest is replaced.
pub const AUDIT_FILES_MAX: u32 = 4;
