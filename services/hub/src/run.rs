//! `run`: sources, machines, and reports about them, until the hub is stopped.

use std::error::Error;
use std::fmt;
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use scheduled_events::audit::AuditError;
use scheduled_events::policy_file::{self, LoadError};
use scheduled_events_common::http::HttpError;
use scheduled_events_common::log;
use scheduled_events_common::supervision::Supervisor;
use scheduled_events_common::supervision::{asked_to_stop, notify_stopping};
use scheduled_events_core::Action;
use scheduled_events_gate::engine::EngineError;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};

use crate::azure::arm::Arm;
use crate::azure::identity::{Identity, IdentityError};
use crate::azure::queue::{Queue, QueueError};
use crate::config::{Approve, Config, SettingError};
use crate::dispatch::{Dispatch, StateLost};
use crate::gates::GateError;
use crate::journal::Journal;
use crate::message::Message;
use crate::metrics::Gauges;
use crate::shared::Shared;
use crate::source::{
    MESSAGES_AT_ONCE, ask_graph, check_access, confirm_by, confirm_doubts, read_queue,
};
use crate::store::{RegistersError, Store, StoreError};

/// How long commands have to end when the hub stops.
const STOP_TIME: Duration = Duration::from_secs(15);

/// How long messages may take to be given back to the queue.
const GIVE_BACK_TIME: Duration = Duration::from_secs(3);

/// How often the metrics file is written.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// How many files and sockets may be open: some 300, and two for each of the 768 commands that can
/// run at a time.
const OPEN_FILES: u64 = 4096;

/// Why the hub cannot start, or has stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The policy cannot be loaded.
    Policy(LoadError),
    /// A setting is invalid.
    Setting(SettingError),
    /// HTTP cannot be set up.
    Http(HttpError),
    /// The identity cannot be used.
    Identity(IdentityError),
    /// The queue cannot be used.
    Queue(QueueError),
    /// The audit file cannot be used.
    Audit(AuditError),
    /// The store cannot be opened.
    Store(RegistersError),
    /// The states of machines cannot be read.
    States(EngineError),
    /// The gate of the fleet cannot be used.
    Gate(GateError),
    /// The system reports no signals.
    Signals(io::Error),
    /// Another hub works, or may do so from now on.
    Turn(StoreError),
    /// The state of a machine cannot be kept.
    State(StateLost),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::States(error) => write!(f, "cannot read the states of machines: {error}"),
            error => fmt::Display::fmt(error.inner(), f),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::States(error) => Some(error),
            error => error.inner().source(),
        }
    }
}

impl RunError {
    /// Whether only a person can change that: a restart finds the same settings.
    pub const fn is_of_settings(&self) -> bool {
        matches!(
            self,
            Self::Policy(_) | Self::Setting(_) | Self::Gate(GateError::Config(_))
        )
    }

    /// The error of what failed.
    fn inner(&self) -> &(dyn Error + 'static) {
        match self {
            Self::Policy(error) => error,
            Self::Setting(error) => error,
            Self::Http(error) => error,
            Self::Identity(error) => error,
            Self::Queue(error) => error,
            Self::Audit(error) => error,
            Self::Store(error) => error,
            Self::States(error) => error,
            Self::Gate(error) => error,
            Self::Signals(error) => error,
            Self::Turn(error) => error,
            Self::State(error) => error,
        }
    }
}

/// Runs the hub until it is stopped.
///
/// # Errors
/// A file or a service cannot be used, or another hub has taken over.
pub async fn run(config: Config) -> Result<(), RunError> {
    allow_open_files();
    let policy = policy_file::load(&config.policy).map_err(RunError::Policy)?;
    warn(
        &config,
        policy
            .rules()
            .iter()
            .any(|rule| rule.action == Action::Prepare),
    );
    let identity = Identity::new(&config.identity, config.cloud).map_err(RunError::Identity)?;
    let management = config.management_url().map_err(RunError::Setting)?;
    let arm = Arm::new(management, identity.clone()).map_err(RunError::Http)?;
    let queue = config
        .queue
        .as_ref()
        .map(|queue| Queue::new(queue, &identity))
        .transpose()
        .map_err(RunError::Queue)?
        .map(Rc::new);
    let journal = Rc::new(Journal::open(&config.audit).map_err(RunError::Audit)?);
    let store = Rc::new(Store::open(&config).await.map_err(RunError::Store)?);
    let (stop, mut stopped) = mpsc::channel(1);
    let asked_to_stop = asked_to_stop().map_err(RunError::Signals)?;
    tokio::pin!(asked_to_stop);
    let mut supervisor = Supervisor::new();
    supervisor.show("waiting for its turn");
    tokio::select! {
        () = store.await_turn() => {}
        () = keep_alive(&supervisor) => {}
        () = &mut asked_to_stop => return Ok(()),
    }
    let kept = tokio::select! {
        kept = store.load() => kept.map_err(RunError::States)?,
        why = store.hold() => return Err(RunError::Turn(why)),
        () = keep_alive(&supervisor) => return Ok(()),
        () = &mut asked_to_stop => {
            store.release().await;
            return Ok(());
        }
    };
    let shared =
        Shared::new(config, policy, arm.clone(), store, journal).map_err(RunError::Gate)?;
    let dispatch = Dispatch::new(shared.clone(), stop);
    log::line(&format!(
        "running: {} machines from an earlier run",
        kept.len()
    ));
    confirm_by(&arm, &dispatch);
    dispatch.restore(kept);
    let slots = Arc::new(Semaphore::new(MESSAGES_AT_ONCE as usize));
    let sources = async {
        let access = check_access(arm.clone(), dispatch.clone());
        let doubts = confirm_doubts(dispatch.clone());
        let graph = ask_graph(arm, dispatch.clone(), shared.config.reconcile);
        let queue = async {
            match queue {
                Some(queue) => {
                    read_queue(queue, identity, dispatch.clone(), slots.clone()).await;
                }
                None => pending().await,
            }
        };
        tokio::join!(access, graph, doubts, queue);
    };
    let result = tokio::select! {
        () = sources => Ok(()),
        () = supervise(&dispatch, &mut supervisor) => Ok(()),
        why = shared.store.hold() => Err(RunError::Turn(why)),
        Some(why) = stopped.recv() => Err(RunError::State(why)),
        () = &mut asked_to_stop => Ok(()),
    };
    notify_stopping();
    shared.approvals.withdraw_all();
    let machines: Vec<_> = shared.machines.borrow().values().cloned().collect();
    for machine in &machines {
        let _ = machine.send(Message::Stop);
    }
    let give_back = async || {
        // A hub that takes over, or this one after its restart, need not wait for them.
        shared.stopping.notify_waiters();
        let _ = timeout(GIVE_BACK_TIME, slots.acquire_many(MESSAGES_AT_ONCE)).await;
    };
    if result.is_err() {
        // It deletes none any more.
        give_back().await;
    }
    // A task that ends drops its inbox.
    let all_stopped = async {
        for machine in &machines {
            machine.closed().await;
        }
    };
    let _ = timeout(STOP_TIME, all_stopped).await;
    give_back().await;
    shared.store.release().await;
    shared.journal.finish();
    result
}

/// Allows this process and its commands [`OPEN_FILES`], or as many as the system permits. Most
/// systems allow 1,024 by default.
fn allow_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit is `None`.
    if current.is_some_and(|current| current < OPEN_FILES) {
        let current = Some(maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES)));
        // With fewer open files, it can run fewer commands.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

/// Reports that this process works, while it is on standby or starts.
async fn keep_alive(supervisor: &Supervisor) {
    loop {
        supervisor.keep_alive(Duration::ZERO);
        sleep(supervisor.interval()).await;
    }
}

/// Reports the hub's state to the service manager and in the metrics file.
async fn supervise(dispatch: &Rc<Dispatch>, supervisor: &mut Supervisor) {
    let mut written = None::<Instant>;
    loop {
        let shared = &dispatch.shared;
        let gauges = Gauges {
            machines: shared.machines.borrow().len(),
            events: dispatch.open_events().len(),
            failures: shared.failures(),
            waiting: shared.pool.waiting() + shared.recoveries.waiting(),
            lost: shared.journal.lost(),
            save_failures: shared.store.failures(),
            requests: shared.approvals.sent.get(),
            reconciled: shared.reconciled_at.get(),
        };
        supervisor.show(&format!(
            "{} events, {} machines",
            gauges.events, gauges.machines
        ));
        // The loop runs on the same thread as everything else: each round shows that nothing hangs.
        supervisor.keep_alive(Duration::ZERO);
        if let Some(path) = &shared.config.metrics
            && written.is_none_or(|at| at.elapsed() >= METRICS_INTERVAL)
        {
            shared.metrics.write(path, gauges);
            written = Some(Instant::now());
        }
        sleep(supervisor.interval()).await;
    }
}

/// Warns about settings that are valid, but most likely not intended.
fn warn(config: &Config, prepares: bool) {
    let warning = |text: &str| log::line(&format!("warning: {text}"));
    if prepares && config.hooks.prepare.is_none() {
        warning(
            "the policy has a rule with action `prepare`, but there is no `hooks.prepare`: events that match it are held",
        );
    }
    if !prepares && config.hooks.prepare.is_some() {
        warning(
            "the policy has no rule with action `prepare`: `hooks.prepare` and `hooks.recover` are never run",
        );
    }
    if config.approve == Approve::Never && config.hooks.prepare.is_some() {
        warning(
            "`approve` is \"never\": nothing is prepared for, what would be done is recorded; set `approve = \"arm\"`",
        );
    }
    for command in [&config.hooks.prepare, &config.hooks.recover]
        .into_iter()
        .flatten()
    {
        if !command.program_exists() {
            let program = &command.words()[0];
            log::printable(&format!(
                "warning: cannot find the program {program:?}, or it is not executable; commands are run without a shell"
            ));
        }
    }
}
