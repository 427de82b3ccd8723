//! The store of the state that must survive a restart: a register for each machine, on one of the
//! fleet's engines.
//!
//! By default the registers are in a folder of this machine, and a lock allows one hub. With a
//! store that several hubs share, one of them is active and the others are on standby: the active
//! one renews its lease, the register `hub/holder`, and another one takes over once the lease was
//! silent for long enough by its own clock. Each register names its writer. Before a hub acts on a
//! machine, it writes the machine's register, which is refused once another hub has written it.
//! Before it runs a command or sends an approval, it checks whether its turn may be over: a hub
//! that was wrongly considered dead begins nothing. What it has begun is not undone: a command runs
//! until this process ends it, and a request that Azure has not answered may still arrive, some
//! [`REQUEST_TIME`] later.
//!
//! [`REQUEST_TIME`]: crate::azure::transport::REQUEST_TIME

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use scheduled_events::files::lock::{FileLock, LockError};
use scheduled_events::hooks::register_commands;
use scheduled_events_common::hexadecimal::hexadecimal;
use scheduled_events_common::log;
use scheduled_events_common::toml_file::LoadError;
use scheduled_events_core::EventOrder;
use scheduled_events_gate::config::Config as FleetConfig;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_gate::engine::{self, Engine, EngineError, OpenError, Revision, Swap};
use scheduled_events_gate::store::{self, Invalid};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::config::{Config, TAKE_OVER_AFTER};

/// The prefix of the machines' keys.
const MACHINES: &str = "hub/machines/";

/// The register of the active hub.
const HOLDER: &str = "hub/holder";

/// How many requests to the engine run at a time.
const REQUESTS_AT_ONCE: usize = 16;

/// The time limit of one request to the engine.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The pauses between attempts to write.
pub const RETRY: Duration = Duration::from_millis(500);

/// How long a renewal of the lease waits for others that want one, too.
const RENEWAL_GATHER: Duration = Duration::from_millis(100);

/// How often failing requests are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// How many times within the time until a take-over the active hub renews its lease.
const BEATS: u32 = 5;

/// The saved state of a machine that has an open event, or is out of service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The hub that wrote it.
    pub writer: String,
    /// The machine.
    #[serde(flatten)]
    pub machine: MachineFacts,
    /// The snapshot of its session, in Base64.
    pub session: String,
    /// Its events.
    pub events: Vec<SavedEvent>,
    /// What each event waits for, for people.
    #[serde(default)]
    pub waits_for: Vec<String>,
    /// Since when it is out of service, in seconds since 1970; `None` if it is in service.
    #[serde(default)]
    pub out_of_service_since: Option<i64>,
}

/// The facts about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Its id in Azure Resource Manager.
    pub resource_id: String,
    /// Its name in the `Resources` of events.
    pub name: String,
    /// Its region, empty if unknown.
    #[serde(default)]
    pub location: String,
    /// Its availability zone, empty if unknown or without one.
    #[serde(default)]
    pub zone: String,
    /// Whether its own watcher acts.
    #[serde(default)]
    pub has_agent: bool,
}

/// The saved state of an event of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedEvent {
    /// The event's id as a key.
    pub key: String,
    /// The newest message or row about it, as received.
    pub message: String,
    /// The resource for the approval.
    pub resource_id: String,
    /// Its progress.
    pub order: EventOrder,
}

/// Why this hub must no longer act.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// Another hub has taken over.
    Taken,
    /// Another hub may take over.
    Silent,
    /// Another version of this program uses the store.
    OtherVersion,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "another hub has taken over",
            Self::Silent => "the store has not answered for so long that another hub may take over",
            Self::OtherVersion => {
                "another version of this program has written it: run the same version everywhere"
            }
        })
    }
}

impl Error for StoreError {}

/// Why registers cannot be used: those of the hub, or those of a fleet.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegistersError {
    /// The folder for the states of machines cannot be used.
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another process uses that folder.
    Lock(LockError),
    /// The configuration of the fleet or the store cannot be used.
    Config(LoadError),
    /// The engine that it names cannot be opened.
    Open(OpenError),
    /// The engine does not answer, or refuses.
    Engine(EngineError),
}

impl fmt::Display for RegistersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { path, error } => {
                write!(f, "cannot use the folder {}: {error}", path.display())
            }
            Self::Lock(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl Error for RegistersError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Folder { error, .. } => Some(error),
            Self::Lock(error) => error.source(),
            Self::Config(error) => error.source(),
            Self::Open(error) => error.source(),
            Self::Engine(error) => error.source(),
        }
    }
}

/// The last written state of a machine.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    revision: Option<Revision>,
    saved: Option<Saved>,
    /// Whether a write has failed, so that it is unknown whether it was carried out.
    is_uncertain: bool,
}

impl Entry {
    /// Whether nothing was written yet.
    pub const fn is_new(&self) -> bool {
        self.revision.is_none() && !self.is_uncertain
    }

    /// Whether this state was written last.
    pub fn has(&self, saved: &Saved) -> bool {
        self.saved.as_ref() == Some(saved)
    }
}

/// The registers.
pub struct Store {
    engine: Box<dyn Engine>,
    /// Identifies this process.
    writer: String,
    requests: Semaphore,
    /// The active hub, as this one last read it.
    holder: RefCell<Option<Revision>>,
    take_over_after: Option<Duration>,
    last_beat: Cell<Instant>,
    /// When the request for the last renewal was sent.
    renewed: Cell<Instant>,
    /// Wakes those who wait for a renewal, and asks for one.
    renewal: Notify,
    renewal_wanted: Notify,
    /// When a failed request was last logged.
    logged: Cell<Option<Instant>>,
    /// How many writes of machines' states have failed.
    failures: Cell<u64>,
    _lock: FileLock,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Holder {
    writer: String,
    beat: u64,
    /// Its `take_over_after`, in milliseconds: another hub waits at least for that long.
    #[serde(default)]
    take_over_after_ms: u64,
}

impl Store {
    /// Opens the registers of a configuration, and ends commands that an earlier process left
    /// running.
    ///
    /// # Errors
    /// The folder cannot be used, or the store's configuration is invalid.
    pub async fn open(config: &Config) -> Result<Self, RegistersError> {
        let folder = &config.state;
        open_folder(folder).map_err(|error| RegistersError::Folder {
            path: folder.clone(),
            error,
        })?;
        let path = folder.join("lock");
        let lock =
            FileLock::acquire_at(&path, &path, "state folder").map_err(RegistersError::Lock)?;
        let ended = register_commands(lock.commands());
        if ended > 0 {
            log::line(&format!(
                "ended {ended} commands that an earlier process left running; they are run again"
            ));
        }
        let engine = match &config.store {
            // This process holds the lock.
            None => Box::new(FolderEngine::of_one_process(folder)),
            Some(file) => open_registers(file).await?,
        };
        let take_over_after = config
            .store
            .as_ref()
            .map(|_| config.take_over_after.unwrap_or(TAKE_OVER_AFTER));
        Ok(Self {
            engine,
            writer: format!(
                "{:016x}-{}",
                scheduled_events::watch::seed(),
                std::process::id()
            ),
            requests: Semaphore::new(REQUESTS_AT_ONCE),
            holder: RefCell::default(),
            take_over_after,
            last_beat: Cell::new(Instant::now()),
            renewed: Cell::new(Instant::now()),
            renewal: Notify::new(),
            renewal_wanted: Notify::new(),
            logged: Cell::default(),
            failures: Cell::default(),
            _lock: lock,
        })
    }

    /// Waits until this hub is the active one.
    pub async fn await_turn(&self) {
        let Some(patience) = self.take_over_after else {
            return;
        };
        let (mut seen, mut since, mut has_said) = (None::<Option<Revision>>, Instant::now(), false);
        let mut has_warned = false;
        loop {
            match self
                .request(store::read::<Holder>(&*self.engine, HOLDER))
                .await
            {
                Ok((holder, revision)) => {
                    if seen.as_ref() != Some(&revision) {
                        (seen, since) = (Some(revision.clone()), Instant::now());
                    }
                    let others = Duration::from_millis(holder.take_over_after_ms);
                    if revision.is_some()
                        && !others.is_zero()
                        && others != patience
                        && !std::mem::replace(&mut has_warned, true)
                    {
                        log::line(&format!(
                            "warning: `take_over_after` is {patience:?}, and that of the hub that works is {others:?}: set the same for \
                             both; the longer one counts"
                        ));
                    }
                    if revision.is_none() || since.elapsed() >= patience.max(others) {
                        let next = self.as_holder(holder.beat + 1);
                        self.last_beat.set(Instant::now());
                        let written = self
                            .request(store::swap(&*self.engine, HOLDER, revision.as_ref(), &next))
                            .await;
                        match written {
                            Ok(Swap::Done(revision)) => {
                                self.holder.replace(Some(revision));
                                log::line("this hub works");
                                return;
                            }
                            // Another hub was faster.
                            Ok(Swap::Conflict) => {}
                            Err(why) => self.log_failure(&format!(
                                "error: no hub works, and this one cannot take over: the store can be read, but not written: {why}"
                            )),
                        }
                    } else if !std::mem::replace(&mut has_said, true) {
                        log::line("another hub works; standing by");
                    }
                }
                Err(why) => self.log_failure(&format!("warning: the store does not answer: {why}")),
            }
            sleep(patience / BEATS).await;
        }
    }

    fn as_holder(&self, beat: u64) -> Holder {
        let patience = self.take_over_after.unwrap_or_default();
        Holder {
            writer: self.writer.clone(),
            beat,
            take_over_after_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Waits until this hub's lease was renewed by a request that is later than this call: what was
    /// kept before is where other hubs look, and none has taken over. It is renewed soon.
    pub async fn renewed(&self) {
        if self.take_over_after.is_none() {
            return;
        }
        let begin = Instant::now();
        loop {
            let renewal = self.renewal.notified();
            if self.renewed.get() > begin && self.has_turn() {
                return;
            }
            self.renewal_wanted.notify_one();
            renewal.await;
        }
    }

    /// Until when this hub may act unless the store answers. Another one may take over soon after.
    fn turn_ends(&self, patience: Duration) -> Instant {
        self.last_beat.get() + patience * (BEATS - 1) / BEATS
    }

    /// Whether this hub is still active: it may have been suspended for so long that another one
    /// has taken over.
    pub fn has_turn(&self) -> bool {
        self.take_over_after
            .is_none_or(|patience| Instant::now() < self.turn_ends(patience))
    }

    /// Renews this hub's lease. Returns why it must stop.
    pub async fn hold(&self) -> StoreError {
        let Some(patience) = self.take_over_after else {
            return std::future::pending().await;
        };
        for beat in 1.. {
            let end = self.turn_ends(patience);
            match timeout_at(end, self.beat(beat, patience / BEATS)).await {
                Ok(Some(why)) => return why,
                // A single late renewal does no harm: this hub has refused all actions that were
                // due meanwhile.
                Ok(None) if Instant::now() < end => {}
                _ => return StoreError::Silent,
            }
        }
        unreachable!("the loop has no end")
    }

    /// Renews this hub's lease once, and repeats the write until the store answers. Returns why
    /// this hub must stop, if it must. Writes of machines' states do not delay it, however many
    /// there are.
    async fn beat(&self, beat: u64, pause: Duration) -> Option<StoreError> {
        let next = self.as_holder(beat);
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                () = async {
                    self.renewal_wanted.notified().await;
                    sleep(RENEWAL_GATHER).await;
                } => {}
            }
            let sent = Instant::now();
            let expected = self.holder.borrow().clone();
            let why = match in_time(
                pause,
                store::swap(&*self.engine, HOLDER, expected.as_ref(), &next),
            )
            .await
            {
                Ok(Swap::Done(revision)) => {
                    self.holder.replace(Some(revision));
                    self.last_beat.set(Instant::now());
                    self.renewed.set(sent);
                    self.renewal.notify_waiters();
                    return None;
                }
                Ok(Swap::Conflict) => {
                    match in_time(pause, store::read::<Holder>(&*self.engine, HOLDER)).await {
                        // An earlier write was carried out although its answer was lost.
                        Ok((holder, revision)) if holder.writer == self.writer => {
                            self.holder.replace(revision);
                            continue;
                        }
                        Ok(_) => return Some(StoreError::Taken),
                        Err(why) => why,
                    }
                }
                Err(why) => why,
            };
            self.log_failure(&format!("warning: the store does not answer: {why}"));
        }
    }

    /// Gives up the lease, so that another hub need not wait.
    pub async fn release(&self) {
        if let Some(revision) = self.holder.take() {
            let _ = self.request(self.engine.delete(HOLDER, &revision)).await;
        }
    }

    /// All saved machines. A register that cannot be read is logged and left as it is.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn load(&self) -> Result<Vec<(Saved, Entry)>, EngineError> {
        let (found, problems) = read_all(&*self.engine).await?;
        for why in problems {
            log::printable(&format!("error: {why}"));
        }
        // Each is written again before any action.
        let entry = |revision| Entry {
            revision: Some(revision),
            ..Entry::default()
        };
        Ok(found
            .into_iter()
            .map(|(saved, revision)| (saved, entry(revision)))
            .collect())
    }

    /// Saves the state of a machine, and returns whether it is saved. With a store, the write is
    /// repeated until it succeeds: another hub may have taken over. Without one, urgent actions for
    /// the machine do not wait.
    ///
    /// # Errors
    /// Another hub has taken over.
    pub async fn save(&self, entry: &mut Entry, mut saved: Saved) -> Result<bool, StoreError> {
        saved.writer.clone_from(&self.writer);
        let key = key(&saved.machine.resource_id);
        let mut shortened = None;
        loop {
            let kept = shortened.as_ref().unwrap_or(&saved);
            match self
                .request(store::swap(
                    &*self.engine,
                    &key,
                    entry.revision.as_ref(),
                    kept,
                ))
                .await
            {
                Ok(Swap::Done(revision)) => {
                    *entry = Entry {
                        revision: Some(revision),
                        saved: Some(Saved {
                            writer: String::new(),
                            ..saved
                        }),
                        is_uncertain: false,
                    };
                    return Ok(true);
                }
                Ok(Swap::Conflict) if !self.adopt(entry, &key).await? => return Ok(false),
                Ok(Swap::Conflict) => {}
                Err(_) if store::encode(&key, kept).is_err() && shortened.is_none() => {
                    shortened = Some(shorten(&key, saved.clone()));
                }
                Err(why) => {
                    entry.is_uncertain = true;
                    if !self
                        .may_repeat(&format!(
                            "error: cannot keep the state of a machine, so only a last call prepares it: {why}"
                        ))
                        .await
                    {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// How many writes of machines' states have failed.
    pub const fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// Logs a failed request, at most once in a while.
    fn log_failure(&self, why: &str) {
        if self
            .logged
            .get()
            .is_none_or(|at| at.elapsed() >= LOG_INTERVAL)
        {
            self.logged.set(Some(Instant::now()));
            log::printable(&format!("{why}; this is tried again"));
        }
    }

    /// Logs a failed write, and waits until it may be repeated. Returns whether it must be.
    async fn may_repeat(&self, why: &str) -> bool {
        self.failures.set(self.failures.get() + 1);
        self.log_failure(why);
        if self.take_over_after.is_some() {
            sleep(RETRY).await;
        }
        self.take_over_after.is_some()
    }

    /// Removes the saved state of a machine. Returns whether none is left, and repeats the request
    /// as [`Self::save`] does.
    ///
    /// # Errors
    /// Another hub has taken over.
    pub async fn remove(&self, entry: &mut Entry, resource_id: &str) -> Result<bool, StoreError> {
        let key = key(resource_id);
        loop {
            if entry.is_uncertain && !self.adopt(entry, &key).await? {
                return Ok(false);
            }
            let Some(revision) = entry.revision.clone() else {
                return Ok(true);
            };
            match self.request(self.engine.delete(&key, &revision)).await {
                Ok(true) => *entry = Entry::default(),
                Ok(false) if !self.adopt(entry, &key).await? => return Ok(false),
                Ok(false) => {}
                Err(why) => {
                    entry.is_uncertain = true;
                    if !self
                        .may_repeat(&format!(
                            "error: cannot remove the state of a machine: {why}"
                        ))
                        .await
                    {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Handles a refused write. The cause may be an earlier write of this process, whose answer was
    /// lost, or a damaged register: no hub can use that, so this one writes it anew. Returns
    /// whether the engine has answered, as [`Self::save`] does.
    async fn adopt(&self, entry: &mut Entry, key: &str) -> Result<bool, StoreError> {
        let found = loop {
            match self.request(self.engine.read(key)).await {
                Ok(found) => break found,
                Err(why) => {
                    if !self
                        .may_repeat(&format!("error: cannot read the state of a machine: {why}"))
                        .await
                    {
                        return Ok(false);
                    }
                }
            }
        };
        // Nobody has written it since this hub last read or wrote it.
        let is_unchanged =
            found.as_ref().map(|register| &register.revision) == entry.revision.as_ref();
        let is_own = match found
            .as_ref()
            .map(|register| store::check::<Saved>(&register.value))
        {
            None => entry.is_uncertain,
            Some(Ok(saved)) => is_unchanged || entry.is_uncertain && saved.writer == self.writer,
            Some(Err(Invalid::Damaged(error))) => {
                log::printable(&format!(
                    "error: the register {key} is damaged, and is written anew: {error}"
                ));
                true
            }
            // Only a register of a machine can be a copy.
            Some(Err(Invalid::Format(_) | Invalid::Copy(_))) => {
                return Err(StoreError::OtherVersion);
            }
        };
        if !is_own {
            return Err(StoreError::Taken);
        }
        *entry = Entry {
            revision: found.map(|register| register.revision),
            ..Entry::default()
        };
        Ok(true)
    }

    async fn request<T>(
        &self,
        reply: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        // The semaphore is never closed.
        let _permit = self.requests.acquire().await;
        in_time(REQUEST_TIME, reply).await
    }
}

/// Makes the folder, for this user alone, or checks the one that exists.
fn open_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    check_folder(folder, rustix::process::geteuid().as_raw(), &own_groups()?)
}

/// The groups of this process.
///
/// # Errors
/// As `getgroups` fails.
pub fn own_groups() -> io::Result<Vec<u32>> {
    let mut groups = rustix::process::getgroups()?;
    groups.push(rustix::process::getegid());
    Ok(groups
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect())
}

/// Checks a folder that exists, for a hub of this user and these groups: a link, or a folder of another user
/// or that others may write, could be made another one.
///
/// # Errors
/// What was found, and what to do.
pub fn check_folder(folder: &Path, user: u32, groups: &[u32]) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    // Kubernetes gives the folders of a volume to the group `fsGroup` of its pod, and sets this bit.
    let is_volume = found.mode() & 0o2000 != 0 && groups.contains(&found.gid());
    let others = if is_volume { 0o002 } else { 0o022 };
    let why = if found.is_symlink() {
        "it is a link, expected the folder itself"
    } else if found.uid() != user && found.uid() != 0 {
        "it belongs to another user, expected a folder of the hub's user"
    } else if found.mode() & others != 0 {
        "others may write there, expected a folder that only the hub's user may write: chmod go-w"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

async fn in_time<T>(
    time: Duration,
    reply: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    timeout(time, reply)
        .await
        .unwrap_or_else(|_| Err(EngineError("no answer".into())))
}

/// The states that the active hub has saved, for people, and why some cannot be read. This locks
/// and changes nothing.
///
/// # Errors
/// The engine does not answer, or its configuration is invalid.
pub async fn look(config: &Config) -> Result<(Vec<Saved>, Vec<String>), RegistersError> {
    let engine = match &config.store {
        None => Box::new(FolderEngine::new(&config.state)),
        Some(file) => open_registers(file).await?,
    };
    let (found, problems) = read_all(&*engine).await.map_err(RegistersError::Engine)?;
    Ok((
        found.into_iter().map(|(saved, _)| saved).collect(),
        problems,
    ))
}

/// All saved machines, and why some cannot be read.
async fn read_all(
    engine: &dyn Engine,
) -> Result<(Vec<(Saved, Revision)>, Vec<String>), EngineError> {
    let (mut machines, mut problems) = (Vec::new(), Vec::new());
    for (key, register) in engine.list(MACHINES).await? {
        match store::decode(&key, &register.value) {
            Ok(saved) => machines.push((saved, register.revision)),
            Err(why) => problems.push(why.to_string()),
        }
    }
    Ok((machines, problems))
}

/// The engine of the registers that a fleet's configuration names.
///
/// # Errors
/// [`RegistersError::Config`] or [`RegistersError::Open`].
pub async fn open_registers(file: &Path) -> Result<Box<dyn Engine>, RegistersError> {
    let config = FleetConfig::load(file).map_err(RegistersError::Config)?;
    engine::open(&config).await.map_err(RegistersError::Open)
}

/// Leaves out the longest messages until a register can hold the rest. After a restart, Resource
/// Graph returns those events again.
fn shorten(key: &str, mut saved: Saved) -> Saved {
    while store::encode(key, &saved).is_err()
        && let Some(longest) = saved
            .events
            .iter_mut()
            .max_by_key(|event| event.message.len())
        && !longest.message.is_empty()
    {
        longest.message.clear();
    }
    saved
}

/// The key of a machine's register. ARM compares ids without case.
fn key(resource_id: &str) -> String {
    let digest = Sha256::digest(resource_id.to_ascii_lowercase());
    format!("{MACHINES}{}", hexadecimal(&digest[..16]))
}

#[cfg(test)]
pub(crate) mod tests;
