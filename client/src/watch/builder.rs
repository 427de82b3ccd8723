//! How a watcher is configured.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use scheduled_events_core::{ApiVersion, GateAnswer, GatePhase, LastCall, Policy, limits};

use super::Watcher;
use super::error::WatcherError;
use super::functions::{Functions, Task};
use super::host::Note;
use crate::imds::{AUTO_API_VERSION, Imds};
use crate::record::TimedRecord;
use crate::state::{LoadResult, StateFile};

/// Configures a [`Watcher`]. Without anything, it observes the machine that it runs on: one poll a second, nothing is prepared for or
/// approved.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events::imds::{API_VERSION, Imds};
/// use scheduled_events::watch::Watcher;
/// use scheduled_events_core::{GateAnswer, LastCall, Policy};
///
/// let state = std::env::temp_dir().join(format!("watcher-builder-example-{}", std::process::id()));
/// let watcher = Watcher::builder()
///     // What is asked for, where, and how often.
///     .endpoint("http://169.254.169.254") // the default, as is `.imds(Imds::default())`
///     .api_version(API_VERSION) // without it, the version that the policy needs
///     .vm_names(["web_0"])
///     .interval(Duration::from_secs(2))
///     .timeout(Some(Duration::from_secs(10)))
///     // What is decided and done.
///     .policy(Policy::sample())
///     .prepare(|task| Ok(println!("drain for {}", task.event().event_id)))
///     .recover(|_| Ok(println!("back in service")))
///     .gate(|_, phase| if phase.word() == "approve" { GateAnswer::Open } else { GateAnswer::Closed })
///     .last_call(LastCall::Standard)
///     .prepare_retries(Some(3))
///     .recover_all(true)
///     // What is reported, and kept.
///     .on_record(|record| println!("{record}"))
///     .on_note(|note| eprintln!("{note}"))
///     .state_file(&state)
///     // When to stop.
///     .until_idle(true)
///     .max_polls(Some(86_400))
///     .build()?;
/// # drop(watcher);
/// // It only looks, at advice, too, and asks the gate of its host.
/// let watcher = Watcher::builder().imds(Imds::default()).advice(true).asks_gate(true).dry_run(true).build()?;
/// # drop(watcher);
/// // An option out of range, or a state file that cannot be used.
/// assert!(Watcher::builder().interval(Duration::ZERO).build().is_err());
/// # let _ = (std::fs::remove_file(&state), std::fs::remove_file(state.with_extension("lock")));
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[must_use = "a builder does nothing until its watcher runs"]
pub struct WatcherBuilder {
    imds: Result<Imds, WatcherError>,
    state: StateOption,
    options: Options,
    functions: Functions,
}

/// Where the state is kept.
enum StateOption {
    None,
    Path(PathBuf),
    Open(Box<(StateFile, LoadResult)>),
}

/// What the watcher's loop reads of the configuration.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is an option of its own.
pub(super) struct Options {
    pub(super) api_version: String,
    advice: bool,
    pub(super) vm_names: Vec<String>,
    pub(super) policy: Policy,
    pub(super) interval: Duration,
    pub(super) dry_run: bool,
    pub(super) gate: bool,
    pub(super) last_call: LastCall,
    pub(super) prepare_retries: Option<u32>,
    pub(super) recover_all: bool,
    pub(super) until_idle: bool,
    pub(super) max_polls: Option<u64>,
    timeout: Option<Duration>,
}

impl fmt::Debug for WatcherBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatcherBuilder")
            .field("imds", &self.imds)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl WatcherBuilder {
    pub(super) fn new() -> Self {
        Self {
            imds: Ok(Imds::default()),
            state: StateOption::None,
            options: Options {
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
            },
            functions: Functions::default(),
        }
    }

    /// Asks the metadata service at this URL, as [`Imds::new`] does. The default is the one of every Azure machine. The environment is
    /// not read: to run under `scheduled-events replay`, pass the variable `SCHEDULED_EVENTS_ENDPOINT`, if it is set.
    pub fn endpoint(self, url: impl AsRef<str>) -> Self {
        Self {
            imds: Imds::new(url.as_ref()).map_err(WatcherError::from),
            ..self
        }
    }

    /// Sends requests with this client, in place of an endpoint. The version of the API is that of [`api_version`](Self::api_version),
    /// not the client's.
    pub fn imds(self, imds: Imds) -> Self {
        Self {
            imds: Ok(imds),
            ..self
        }
    }

    /// The rules that decide about events. The default observes.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// Keeps what was done in this file, so that a restart neither prepares twice nor forgets to recover. [`build`](Self::build)
    /// opens it; a second watcher with the same file is refused.
    pub fn state_file(self, path: impl Into<PathBuf>) -> Self {
        Self {
            state: StateOption::Path(path.into()),
            ..self
        }
    }

    /// The same with a file that is open already: for a program that does more with it.
    #[doc(hidden)]
    pub fn state(self, state: Option<(StateFile, LoadResult)>) -> Self {
        Self {
            state: state.map_or(StateOption::None, |state| {
                StateOption::Open(Box::new(state))
            }),
            ..self
        }
    }

    /// Calls this function, on a thread of its own, to prepare the machine for an event whose rule asks for it. The event may be
    /// approved once it returns `Ok`. If it returns an error or panics, it is called again while there is time. Without a function, an event
    /// whose rule says to prepare is held.
    pub fn prepare(
        mut self,
        function: impl Fn(&Task) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.functions.on_prepare(function);
        self
    }

    /// Calls this function, on a thread of its own, to take the machine back into service, once nothing keeps it out. If it returns
    /// an error or panics, it is called again.
    pub fn recover(
        mut self,
        function: impl Fn(&Task) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.functions.on_recover(function);
        self
    }

    /// Calls this function, on a thread of its own, before each preparation and each approval, to ask whether this machine may go
    /// on. Unless the answer is [`GateAnswer::Open`], it is called again every few seconds.
    pub fn gate(
        mut self,
        function: impl Fn(&Task, GatePhase) -> GateAnswer + Send + Sync + 'static,
    ) -> Self {
        self.functions.on_gate(function);
        self.asks_gate(true)
    }

    /// Calls this function with each record, on the watcher's thread. `{record}` is a short line.
    pub fn on_record(mut self, function: impl FnMut(&TimedRecord<'_>) + Send + 'static) -> Self {
        self.functions.on_record(function);
        self
    }

    /// Calls this function with each message for the log, on the watcher's thread. Without it, they are lost.
    pub fn on_note(mut self, function: impl FnMut(&Note) + Send + 'static) -> Self {
        self.functions.on_note(function);
        self
    }

    /// This machine's names. Without any, the watcher asks the metadata service.
    pub fn vm_names<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.options.vm_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// The version of the API, or [`AUTO_API_VERSION`], the default: [`API_VERSION`](crate::imds::API_VERSION), and the one that
    /// shows advice if a rule or [`advice`](Self::advice) needs it and the service has it.
    pub fn api_version(mut self, version: impl Into<String>) -> Self {
        self.options.api_version = version.into();
        self
    }

    /// Whether advice is needed, whatever the rules are.
    pub fn advice(mut self, advice: bool) -> Self {
        self.options.advice = advice;
        self
    }

    /// The time between two polls, at least [`limits::INTERVAL_MIN_MS`]. The default is a second.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.options.interval = interval;
        self
    }

    /// Decides and reports, but neither prepares, approves nor recovers, runs no hook and writes no state file.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.options.dry_run = dry_run;
        self
    }

    /// Asks [`Host::gate`](super::Host::gate) before each preparation and each approval.
    pub fn asks_gate(mut self, asks: bool) -> Self {
        self.options.gate = asks;
        self
    }

    /// When to prepare although the gate has not answered yes.
    pub fn last_call(mut self, last_call: LastCall) -> Self {
        self.options.last_call = last_call;
        self
    }

    /// How often a failed preparation is run again at most, for one event as it is; `None`, the default, for as often as there is
    /// time.
    pub fn prepare_retries(mut self, retries: Option<u32>) -> Self {
        self.options.prepare_retries = retries;
        self
    }

    /// Recovers after every event of this machine that has started, not only after those that were prepared for.
    pub fn recover_all(mut self, recover_all: bool) -> Self {
        self.options.recover_all = recover_all;
        self
    }

    /// Stops once an event was seen and none is left.
    pub fn until_idle(mut self, until_idle: bool) -> Self {
        self.options.until_idle = until_idle;
        self
    }

    /// Stops after this number of polls, once what runs then has ended. Nothing is started after the last poll's wait, and nothing
    /// approved.
    pub fn max_polls(mut self, max_polls: Option<u64>) -> Self {
        self.options.max_polls = max_polls;
        self
    }

    /// An upper bound for the timeout of each request. Without it, the first request may take two minutes, since it may have to
    /// activate the service.
    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Makes the watcher. With a state file it continues where the last run stopped.
    ///
    /// # Errors
    /// [`WatcherError`]: an endpoint or an option that is refused, or a state file that cannot be used.
    pub fn build(self) -> Result<Watcher, WatcherError> {
        let state = match self.state {
            StateOption::None => None,
            StateOption::Open(state) => Some(*state),
            StateOption::Path(path) if self.options.dry_run => {
                Some(StateFile::open_read_only(&path)?)
            }
            StateOption::Path(path) => Some(StateFile::open(&path)?),
        };
        // It checks the version, which is a part of the URL.
        let imds = self.imds?.with_api_version(&self.options.api_version)?;
        Watcher::new(imds, self.options, state, self.functions)
    }
}

impl Options {
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
