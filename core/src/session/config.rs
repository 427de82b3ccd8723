//! The configuration of a session.

use core::fmt;

use super::ApiVersion;
use super::last_call::LastCall;
use super::limits::{API_VERSION_MAX, INTERVAL_MIN_MS, INTERVAL_MS, NAME_MAX, NAMES_MAX};
use crate::names::VmNames;
use crate::policy::Policy;
use crate::words::words;

/// The configuration of a [`Session`](crate::Session).
///
/// ```
/// use scheduled_events_core::{Policy, Session, SessionConfig, VmNames};
///
/// let config = SessionConfig {
///     policy: Policy::sample(),
///     dry_run: true,
///     seed: 0x5eed, // from the system's random numbers
///     ..SessionConfig::new(VmNames::new(&["WestNO_0"]))
/// };
/// assert_eq!(config.interval_ms, 1_000);
/// let session = Session::<64>::new(&config)?;
/// assert!(!session.has_seen_event());
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionConfig<'a> {
    /// The names of this machine, or [`VmNames::UNKNOWN`] until they are known: at most
    /// [`NAMES_MAX`] names of at most [`NAME_MAX`] bytes.
    pub names: VmNames<'a>,
    /// What to do about events.
    pub policy: Policy,
    /// The time between two polls, in milliseconds: at least [`INTERVAL_MIN_MS`].
    pub interval_ms: u32,
    /// Decide and report, but do not prepare or approve.
    pub dry_run: bool,
    /// Ask the host's gate before each preparation and each approval, with [`Step::Gate`](crate::Step::Gate). The policy's
    /// `leader` is ignored then.
    pub gate: bool,
    /// When to prepare although the gate has not answered yes. Without a gate it has no effect.
    pub last_call: LastCall,
    /// How often a failed preparation is issued again at most, for one event as it is; `None` for as often as there is time.
    pub prepare_retries: Option<u32>,
    /// Recover after every event of this machine that was seen `Started`, not only after those that were prepared for.
    pub recover_all: bool,
    /// A number that differs between machines and runs, best a random one. It spreads retries over time, and ids of events
    /// over the tracker's table.
    pub seed: u64,
    /// Where events come from.
    pub source: SessionSource,
    /// Which version of the API requests name.
    pub api_version: ApiVersion<'a>,
    /// An id of this machine that a clone does not have, such as `vmId`; empty if it is unknown. A snapshot of another
    /// machine is refused.
    pub machine_id: &'a str,
    /// An id of this boot of the machine; empty if it is unknown. What was ready before a reboot is not ready after it.
    pub boot_id: &'a str,
}

impl<'a> SessionConfig<'a> {
    /// The defaults: the policy [`Policy::observe`] and one poll per second.
    pub const fn new(names: VmNames<'a>) -> Self {
        Self {
            names,
            policy: Policy::observe(),
            interval_ms: INTERVAL_MS,
            dry_run: false,
            gate: false,
            last_call: LastCall::Standard,
            prepare_retries: None,
            recover_all: false,
            seed: 0,
            source: SessionSource::Documents,
            api_version: ApiVersion::Auto,
            machine_id: "",
            boot_id: "",
        }
    }
}

/// Where the events of a session come from.
///
/// ```
/// use scheduled_events_core::{Session, SessionConfig, SessionSource, Step, UnixMillis, VmNames};
///
/// let mut config = SessionConfig::new(VmNames::new(&["vm"]));
/// assert_eq!(config.source, SessionSource::Documents);
/// config.source = SessionSource::Notifications;
/// assert_eq!(config.source.word(), "notifications");
/// // There is nothing to poll.
/// assert!(matches!(Session::<16>::new(&config)?.take_step(UnixMillis(0)), Step::Wait { .. }));
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionSource {
    /// The documents of the machine's metadata service, which the session polls.
    #[default]
    Documents,
    /// Notifications outside the machine, passed to [`on_notification`](crate::Session::on_notification). The session never
    /// asks to poll. After a restart, pass the notifications that are known, such as the rows of Resource Graph, before you
    /// call [`take_step`](crate::Session::take_step). A gate that opens for an approval needs no poll to confirm the event.
    ///
    /// The events of one [`Step::Post`](crate::Step::Post) can be of the machine and of its set: send a request for each of
    /// these resources, and report a failure if one fails.
    Notifications,
    /// Documents and notifications: an event is the same one in both. What the document says about an event counts; a
    /// notification makes an event known before the document has it, and says that it is over.
    Both,
}

words!(SessionSource {
    Documents => "documents",
    Notifications => "notifications",
    Both => "both",
});

/// Why a configuration is invalid.
///
/// ```
/// use scheduled_events_core::{Session, SessionConfig, SessionConfigError, VmNames};
///
/// let config = SessionConfig { interval_ms: 50, ..SessionConfig::new(VmNames::UNKNOWN) };
/// let error = Session::<16>::new(&config).err().unwrap();
/// assert_eq!(error, SessionConfigError::IntervalTooShort);
/// assert_eq!(error.to_string(), "the poll interval is too short: the minimum is 200 ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionConfigError {
    /// The interval is shorter than [`INTERVAL_MIN_MS`].
    IntervalTooShort,
    /// There are more than [`NAMES_MAX`] names.
    TooManyNames,
    /// A name is longer than [`NAME_MAX`] bytes.
    NameTooLong,
    /// The fixed version of the API is empty, or longer than [`API_VERSION_MAX`].
    ApiVersion,
}

impl fmt::Display for SessionConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntervalTooShort => write!(
                f,
                "the poll interval is too short: the minimum is {INTERVAL_MIN_MS} ms"
            ),
            Self::TooManyNames => write!(f, "too many machine names: the maximum is {NAMES_MAX}"),
            Self::NameTooLong => write!(
                f,
                "a machine name is too long: the maximum is {NAME_MAX} bytes"
            ),
            Self::ApiVersion => write!(
                f,
                "the API version is empty or too long: the maximum is {API_VERSION_MAX} bytes"
            ),
        }
    }
}

impl core::error::Error for SessionConfigError {}
