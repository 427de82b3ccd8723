//! Rules and commands, read again on SIGHUP. What cannot be read changes nothing.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

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
    /// One reading at a time, so that the last one counts.
    reading: Mutex<()>,
    has_gate: bool,
    /// The options that only a restart applies.
    fixed: Vec<(String, Vec<String>)>,
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
            fixed: fixed(in_force, args),
        })
    }

    pub(crate) fn pending(&self) -> Pending {
        Arc::clone(&self.pending)
    }

    /// Reads the file on a thread of its own, since a disk may not answer, and lets the watcher take the result.
    pub(crate) fn start(self: &Arc<Self>, handle: &WatcherHandle) {
        let (reloader, handle) = (Arc::clone(self), handle.clone());
        let started = thread::Builder::new().spawn(move || {
            reloader.read();
            handle.reload();
        });
        if let Err(error) = started {
            diagnose(
                "error",
                &format!("cannot read the configuration again: {error}"),
            );
        }
    }

    fn read(&self) {
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.try_read();
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    fn try_read(&self) -> Result<Reloaded, String> {
        let merged = config::parse(&self.arguments).map_err(config::ParseError::into_message)?;
        let Command::Watch(args) = merged.cli.command else {
            return Err(String::new());
        };
        let (mut preset, mut content) = (None, Vec::new());
        let policy = load_policy_with(
            &args.policy.policy,
            args.config.config.as_deref(),
            |source| match source {
                PolicySource::Preset(name) => preset = Some(name),
                PolicySource::File(text) => content = text.to_vec(),
            },
        )
        .map_err(|error| error.message)?;
        check_files(&args).map_err(|error| error.message)?;
        if args.gate.is_some() != self.has_gate {
            return Err(
                "`gate` was added or removed, which only a restart applies; restart the watcher"
                    .to_owned(),
            );
        }
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
