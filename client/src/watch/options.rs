//! What a watcher is configured with.

use std::time::Duration;

use scheduled_events_core::{ApiVersion, LastCall, Policy, limits};

use crate::imds::AUTO_API_VERSION;

/// The options of a [`Watcher`](super::Watcher).
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::watch::WatcherOptions;
/// use scheduled_events_core::Policy;
///
/// let options = WatcherOptions {
///     policy: Policy::sample(),
///     interval: Duration::from_secs(5),
///     dry_run: true,
///     ..WatcherOptions::default()
/// };
/// assert!(options.vm_names.is_empty()); // the watcher asks the metadata service
/// ```
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // They are independent of each other.
pub struct WatcherOptions {
    /// The API version to request, or [`AUTO_API_VERSION`]: [`API_VERSION`](crate::imds::API_VERSION), and the one that shows
    /// advice if a rule or [`advice`](Self::advice) needs it and the service has it.
    pub api_version: String,
    /// Whether the host needs advice, whatever the rules are.
    pub advice: bool,
    /// This machine's names. If empty, the watcher asks the metadata service.
    pub vm_names: Vec<String>,
    /// The rules that decide about events.
    pub policy: Policy,
    /// The time between two polls, at least [`limits::INTERVAL_MIN_MS`].
    pub interval: Duration,
    /// Decide and report, but neither prepare, approve nor recover, run no hook and write no state file. Open that with
    /// [`StateFile::open_read_only`](crate::state::StateFile::open_read_only).
    pub dry_run: bool,
    /// Ask the host before each preparation and each approval; see [`Host::gate`](super::Host::gate).
    pub gate: bool,
    /// When to prepare although the gate has not answered yes.
    pub last_call: LastCall,
    /// How often a failed preparation is run again at most, for one event as it is; `None` for as often as there is time.
    pub prepare_retries: Option<u32>,
    /// Recover after every event of this machine that has started, not only after those that were prepared for.
    pub recover_all: bool,
    /// Stop once an event was seen and none is left.
    pub until_idle: bool,
    /// Stop after this number of polls, once the commands that run then have ended. Nothing is started after the last poll's
    /// wait, and nothing approved.
    pub max_polls: Option<u64>,
    /// An upper bound for the timeout of each request. Without it, the first request may take two minutes, since it may have to
    /// activate the service.
    pub timeout: Option<Duration>,
}

impl Default for WatcherOptions {
    /// Observes the machine, with the API version that the rules need and one poll a second.
    fn default() -> Self {
        Self {
            api_version: AUTO_API_VERSION.to_owned(),
            advice: false,
            vm_names: Vec::new(),
            policy: Policy::observe(),
            interval: Duration::from_millis(u64::from(limits::INTERVAL_MS)),
            dry_run: false,
            gate: false,
            last_call: LastCall::Standard,
            prepare_retries: None,
            recover_all: false,
            until_idle: false,
            max_polls: None,
            timeout: None,
        }
    }
}

impl WatcherOptions {
    /// Which version the session asks for.
    pub(super) fn version(&self) -> ApiVersion<'_> {
        match self.api_version.as_str() {
            AUTO_API_VERSION if self.advice => ApiVersion::Advice,
            AUTO_API_VERSION => ApiVersion::Auto,
            version => ApiVersion::Fixed(version),
        }
    }

    /// The timeout of a request to which the session gives `timeout_ms`.
    pub(super) fn request_timeout(&self, timeout_ms: u32) -> Duration {
        let usual = Duration::from_millis(u64::from(timeout_ms));
        self.timeout.map_or(usual, |timeout| timeout.min(usual))
    }
}
