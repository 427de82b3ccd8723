//! What survives a restart: the session's snapshot, the event records and the hooks that have not ended.

use std::collections::BTreeMap;
use std::time::Instant;

use scheduled_events_core::{Action, Reason, Session, UnixMillis, Waiting, WaitsFor};

use super::host::Note;
use crate::clock::ClockMonitor;
use crate::failure_log::FailureLog;
use crate::files::is_disk_full;
use crate::limits::{EVENTS_MAX, LOCK_CHECK, SAVE_RETRY};
use crate::session::EventRecords;
use crate::state::{
    Damage, LoadResult, MachineStatus, PendingHook, Sight, State, StateFile, StateFileError,
};

/// What an event waits for and why, without times: these alone are no reason to write the file.
type Wait = (WaitsFor, Option<u32>, Option<(Action, Option<u16>, Reason)>);

/// The state file, what it holds, and when to write it again.
#[derive(Default)]
pub(super) struct Persistence {
    file: Option<StateFile>,
    /// What the events wait for according to the file.
    saved_waits: Vec<Wait>,
    /// The hooks that have not ended, by numbers of this run.
    hooks: BTreeMap<u64, PendingHook>,
    next_hook: u64,
    /// Whether the hooks differ from those in the file.
    hooks_changed: bool,
    /// When the lock was checked last without writing.
    lock_checked: Option<Instant>,
    /// When a failed write is repeated.
    retry_at: Option<Instant>,
    failures: FailureLog,
    /// Why the report beside the file could not be written.
    sight_failures: FailureLog,
    /// The number of failed writes.
    failed: u64,
}

impl Persistence {
    /// Restores what the file held into the session. Returns the event records, and what the log should say.
    pub(super) fn restore(
        &mut self,
        session: &mut Session<EVENTS_MAX>,
        file: &StateFile,
        loaded: LoadResult,
    ) -> Result<(EventRecords, Option<Note>), StateFileError> {
        let quarantined = match loaded {
            LoadResult::Missing => None,
            LoadResult::Damaged { quarantine, reason } => Some((quarantine, reason)),
            LoadResult::State(state) => match session.restore(&state.session) {
                Ok(()) => {
                    let events = state.events.len();
                    self.hooks = (0..).zip(state.hooks).collect();
                    let note = (events > 0).then_some(Note::StateRestored { events });
                    return Ok((EventRecords::new(state.events), note));
                }
                Err(error) => {
                    let reason = Damage::Snapshot(error);
                    Some((file.quarantine(&reason)?, reason))
                }
            },
        };
        let note = quarantined.map(|(path, reason)| Note::StateQuarantined {
            path,
            reason: reason.to_string(),
        });
        Ok((EventRecords::default(), note))
    }

    /// Moves the file out of the way and forgets what it held. Returns what the log should say.
    pub(super) fn quarantine(&mut self, reason: &Damage) -> Note {
        self.hooks.clear();
        self.hooks_changed = true;
        let moved = self.file.as_ref().map(|file| file.quarantine(reason));
        match moved {
            Some(Ok(path)) => Note::StateQuarantined {
                path,
                reason: reason.to_string(),
            },
            Some(Err(error)) => Note::StateNotSaved(error.to_string()),
            None => Note::StateNotSaved(reason.to_string()),
        }
    }

    /// Writes to the file from now on, and for the first time at once: whether that is possible is better known now than when
    /// the first event appears. If the disk is full, writing is tried again; returns what the log should say then.
    pub(super) fn write_to(
        &mut self,
        file: StateFile,
        session: &mut Session<EVENTS_MAX>,
        events: &EventRecords,
        clock: &ClockMonitor,
    ) -> Result<Option<Note>, StateFileError> {
        let state = self.state(session, events, clock);
        let error = match file.save(&state) {
            Ok(()) => {
                session.saved();
                self.saved_waits = waits(session, clock.clock.now());
                self.file = Some(file);
                return Ok(None);
            }
            Err(error) => error,
        };
        // A disk that is full now is no reason not to watch: what the file holds is restored, and writing is tried again.
        if !is_disk_full(&error) {
            let path = file.path().to_owned();
            return Err(StateFileError::NotWritten { path, error });
        }
        let reason = format!("{}: {error}", file.path().display());
        self.file = Some(file);
        self.failed += 1;
        self.hooks_changed = true;
        self.retry_at = Some(Instant::now() + SAVE_RETRY);
        Ok(self
            .failures
            .reports(&reason)
            .then_some(Note::StateNotSaved(reason)))
    }

    /// The hooks that the last run did not complete. They are forgotten here, to be added again.
    pub(super) fn take_hooks(&mut self) -> Vec<PendingHook> {
        std::mem::take(&mut self.hooks).into_values().collect()
    }

    /// The number of the next hook.
    pub(super) fn next_hook(&mut self) -> u64 {
        self.next_hook += 1;
        self.next_hook
    }

    /// Remembers that a change was reported, and its hook if one was started. Both are saved together: after a crash before that,
    /// the change is reported again, and the hook started again.
    pub(super) fn change_reported(&mut self, number: u64, hook: Option<PendingHook>) {
        self.hooks.extend(hook.map(|hook| (number, hook)));
        self.hooks_changed = true;
    }

    /// Forgets a hook that has ended. The next save includes that; after a crash before it, the hook runs again.
    pub(super) fn complete_hook(&mut self, number: u64) {
        self.hooks.remove(&number);
        self.hooks_changed = true;
    }

    pub(super) fn has_hooks(&self) -> bool {
        !self.hooks.is_empty()
    }

    /// Writes the file if anything changed. A failure stops nothing: the state in memory is right, and the write is repeated.
    /// Returns what the log should say.
    pub(super) fn save(
        &mut self,
        session: &mut Session<EVENTS_MAX>,
        events: &EventRecords,
        clock: &ClockMonitor,
    ) -> Option<Note> {
        if self.file.is_none() || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        let file = self.file.as_ref()?;
        let waits = waits(session, clock.clock.now());
        let written = if session.is_changed() || self.hooks_changed || waits != self.saved_waits {
            let state = self.state(session, events, clock);
            file.save(&state).map(|()| {
                session.saved();
                self.saved_waits = waits;
                self.hooks_changed = false;
            })
        } else if self
            .lock_checked
            .is_none_or(|at| at.elapsed() >= LOCK_CHECK)
        {
            // A process that has replaced the lock is to be noticed while nothing happens, too.
            self.lock_checked = Some(Instant::now());
            file.check_lock()
        } else {
            return None;
        };
        let Err(error) = written else {
            self.retry_at = None;
            return self.failures.succeeded().then_some(Note::StateResumed);
        };
        let reason = format!("{}: {error}", file.path().display());
        self.failed += 1;
        self.retry_at = Some(Instant::now() + SAVE_RETRY);
        self.failures
            .reports(&reason)
            .then_some(Note::StateNotSaved(reason))
    }

    /// Reports beside the file whether documents arrive. Returns what the log should say.
    pub(super) fn report_sight(&mut self, sight: &Sight) -> Option<Note> {
        let file = self.file.as_ref()?;
        let Err(error) = file.report_sight(sight) else {
            self.sight_failures.succeeded();
            return None;
        };
        let reason = format!("{}.sight: {error}", file.path().display());
        self.sight_failures
            .reports(&reason)
            .then_some(Note::SightNotReported(reason))
    }

    /// Removes that report: nothing watches any more.
    pub(super) fn remove_sight(&self) {
        if let Some(file) = &self.file {
            file.remove_sight();
        }
    }

    /// Whether there is a file.
    pub(super) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// How often the file could not be written.
    pub(super) fn failed_saves(&self) -> u64 {
        self.failed
    }

    /// Whether the last attempt to write the file failed.
    pub(super) const fn is_failing(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Lets the next save write at once, even if the last one failed just now.
    pub(super) fn retry_now(&mut self) {
        self.retry_at = None;
    }

    fn state(
        &self,
        session: &Session<EVENTS_MAX>,
        events: &EventRecords,
        clock: &ClockMonitor,
    ) -> State {
        let mut snapshot = Vec::new();
        if let Err(small) = session.snapshot(&mut snapshot) {
            snapshot.resize(small.needed, 0);
            // It has this length now.
            let _ = session.snapshot(&mut snapshot);
        }
        State {
            session: snapshot,
            events: events.tracked(session),
            hooks: self.hooks.values().cloned().collect(),
            status: MachineStatus::of(session, clock.clock.now(), clock.ahead_ms()),
        }
    }
}

fn waits(session: &Session<EVENTS_MAX>, now: UnixMillis) -> Vec<Wait> {
    let why = |waiting: &Waiting| {
        waiting
            .decision
            .map(|decision| (decision.action, decision.rule, decision.reason))
    };
    session
        .waiting(now)
        .map(|(_, waiting)| (waiting.waits_for, waiting.attempt, why(&waiting)))
        .collect()
}
