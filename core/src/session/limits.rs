//! The pace and the sizes of a [`Session`](crate::Session), each with the reason for it.

/// The usual time between two polls, which Microsoft's page recommends ("Polling frequency").
pub const INTERVAL_MS: u32 = 1_000;

/// The shortest time between two polls: the metadata service answers 429 past five requests a second.
pub const INTERVAL_MIN_MS: u32 = 200;

/// The shortest time between two requests of any kind, for the same reason.
pub const REQUEST_SPACING_MS: u32 = 200;

/// How long the first request may take: the service needs up to two minutes to wake up.
pub const FIRST_TIMEOUT_MS: u32 = 130_000;

/// How long any later request may take.
pub const TIMEOUT_MS: u32 = 10_000;

/// The back-off after one failure; it doubles with each further one.
pub const BACK_OFF_FIRST_MS: u32 = 1_000;

/// The longest back-off: a third of the shortest notice, which is 30 seconds.
pub const BACK_OFF_MAX_MS: u32 = 10_000;

/// The longest `Retry-After` that is honoured.
pub const RETRY_AFTER_MAX_S: u32 = 60;

/// How long a document that was superseded before is taken for a stale answer when it shows up again.
pub const STALE_GRACE_MS: u32 = 10_000;

/// The most names of this machine, and the longest of them in bytes.
pub const NAMES_MAX: usize = 8;
/// The longest name of this machine in bytes.
pub const NAME_MAX: usize = 128;

/// The most events that one POST approves.
pub const BATCH_MAX: usize = 32;

/// The longest POST body: room for one id of the worst spelling, and for 32 real ones.
pub const BODY_MAX: usize = 2_048;

/// How many problems of a document are reported, the first ones.
pub const PROBLEMS_MAX: usize = 16;
