//! Rules and commands, read again on SIGHUP. What cannot be read changes nothing.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events::hooks::{self, CommandLine};
use scheduled_events::metrics::CommandMetrics;
use scheduled_events::policy_file::PolicySource;
use scheduled_events::watch::WatcherHandle;
use scheduled_events_core::{Change, Policy};

use crate::args::{Command, WatchArgs};
use crate::config::{self, InForce, load_policy_with};
use crate::output::diagnose;
use crate::own_files::check_files;
use crate::watch::{needs_advice, runs_commands, warn};

/// After this long, a reading that has not ended is reported with the next signal.
const READING_MAX: Duration = Duration::from_secs(5);

/// The options that are read again. A restart applies all others.
const READ_AGAIN: [&str; 6] = [
    "policy",
    "prepare",
    "recover",
    "gate",
    "prepare_timeout",
    "on",
];

/// What a watcher decides with and runs.
pub(crate) struct Reloaded {
    pub(crate) policy: Policy,
    pub(crate) prepare: Option<CommandLine>,
    pub(crate) recover: Option<CommandLine>,
    pub(crate) gate: Option<CommandLine>,
    pub(crate) prepare_timeout: Option<Duration>,
    pub(crate) on: Vec<(Change, CommandLine)>,
}

/// The newest result of reading the configuration again, until the watcher takes it.
pub(crate) type Pending = Arc<Mutex<Option<Result<Reloaded, String>>>>;

/// Reads the command line's configuration again.
pub(crate) struct Reloader {
    arguments: Vec<OsString>,
    metrics: CommandMetrics,
    pending: Pending,
    /// The reading in progress: one at a time, so that the last one counts.
    reading: Mutex<Option<Reading>>,
    has_gate: bool,
    /// The command that recovers, which a reload may replace.
    recover: Mutex<Option<CommandLine>>,
    /// The options that only a restart applies.
    fixed: Vec<(String, Vec<String>)>,
}

/// A reading of the file that is in progress.
struct Reading {
    since: Instant,
    /// Whether the file may have changed since.
    again: bool,
}

impl Reloader {
    /// `None` for a watcher without a configuration file, and for one on a terminal, which SIGHUP says is gone.
    pub(crate) fn new(
        args: &WatchArgs,
        arguments: &[OsString],
        in_force: &InForce,
        metrics: CommandMetrics,
    ) -> Option<Self> {
        args.config.config.as_ref()?;
        if io::stdin().is_terminal() || io::stderr().is_terminal() {
            return None;
        }
        Some(Self {
            arguments: arguments.to_vec(),
            metrics,
            pending: Pending::default(),
            reading: Mutex::default(),
            has_gate: args.gate.is_some(),
            recover: Mutex::new(args.recover.clone()),
            fixed: fixed(in_force, args),
        })
    }

    pub(crate) fn pending(&self) -> Pending {
        Arc::clone(&self.pending)
    }

    /// Reads the file on a thread of its own, since a disk may not answer, and lets the watcher take the result.
    pub(crate) fn start(self: &Arc<Self>, handle: &WatcherHandle) {
        let mut reading = lock(&self.reading);
        if let Some(reading) = &mut *reading {
            reading.again = true;
            let time = reading.since.elapsed();
            if time >= READING_MAX {
                let seconds = time.as_secs();
                let why =
                    format!("reading it has not ended after {seconds} s: its disk does not answer");
                self.pass(Err(why), handle);
            }
            return;
        }
        let (reloader, own) = (Arc::clone(self), handle.clone());
        let started = thread::Builder::new().spawn(move || {
            while {
                let result = reloader.try_read();
                reloader.pass(result, &own);
                reloader.reads_again()
            } {}
        });
        match started {
            Ok(_) => *reading = Some(Reading::now()),
            Err(error) => diagnose(
                "error",
                &format!("cannot read the configuration again: {error}"),
            ),
        }
    }

    /// Ends the reading, unless the file may have changed since it began.
    fn reads_again(&self) -> bool {
        let mut reading = lock(&self.reading);
        *reading = reading
            .take()
            .filter(|reading| reading.again)
            .map(|_| Reading::now());
        reading.is_some()
    }

    fn pass(&self, result: Result<Reloaded, String>, handle: &WatcherHandle) {
        *lock(&self.pending) = Some(result);
        handle.reload();
    }

    fn try_read(&self) -> Result<Reloaded, String> {
        let merged = config::parse(&self.arguments).map_err(config::ParseError::into_message)?;
        let Command::Watch(args) = merged.cli.command else {
            return Err(String::new());
        };
        let (mut preset, mut content) = (None, Vec::new());
        let policy = load_policy_with(&args.policy.policy, &args.config, |source| match source {
            PolicySource::Preset(name) => preset = Some(name),
            PolicySource::File(text) => content = text.to_vec(),
        })
        .map_err(|error| error.message)?;
        check_files(&args).map_err(|error| error.message)?;
        if args.gate.is_some() != self.has_gate {
            return Err(
                "`gate` was added or removed, which only a restart applies; restart the watcher"
                    .to_owned(),
            );
        }
        let mut args = args;
        let mut recover = lock(&self.recover);
        if args.recover.is_none() && recover.is_some() {
            // The machine may be out of service.
            args.recover.clone_from(&recover);
            diagnose(
                "warning",
                "`recover` was removed, which only a restart applies",
            );
        } else {
            recover.clone_from(&args.recover);
        }
        drop(recover);
        warn(&args, &policy);
        let now = fixed(&merged.in_force, &args);
        for (key, _) in now.iter().filter(|new| !self.fixed.contains(new)) {
            let text = format!("`{key}` has changed, which only a restart applies");
            diagnose("warning", &text);
        }
        if runs_commands(&args) {
            // Refused, it is tried again with the first command.
            let _ = hooks::reserve_thread();
        }
        // Nothing is refused any more.
        self.metrics
            .set_policy(preset.map_or(PolicySource::File(&content), PolicySource::Preset));
        Ok(Reloaded {
            policy,
            prepare: args.prepare,
            recover: args.recover,
            gate: args.gate,
            prepare_timeout: args.prepare_timeout,
            on: args.on,
        })
    }
}

impl Reading {
    fn now() -> Self {
        Self {
            since: Instant::now(),
            again: false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All options that only a restart applies, those without a value, too.
fn fixed(in_force: &InForce, args: &WatchArgs) -> Vec<(String, Vec<String>)> {
    let (values, unset) = in_force.values();
    let set = values
        .into_iter()
        .map(|value| (value.key, value.texts.unwrap_or_default()));
    let unset = unset.into_iter().map(|key| (key, vec![String::new()]));
    let advice = format!("{}", needs_advice(&args.on));
    let all = set.chain(unset);
    let all = all.filter(|(key, _)| !READ_AGAIN.contains(&key.as_str()));
    all.chain([("on.advised".to_owned(), vec![advice])])
        .collect()
}
