//! This machine's register: the heartbeat, and what other machines need to know about this one.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::LazyLock;
use std::time::Duration;

use scheduled_events::clock::boot_id;
use scheduled_events_common::hexadecimal::hexadecimal;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout};

use super::problems::Subject;
use super::{ANSWER_TIME, AnswerError, Daemon, EVENT_KEPT, Source, UngatedStarts, machine_key};
use crate::config::GroupConfig;
use crate::driver;
use crate::engine::{EngineError, Revision, Swap, check_clock};
use crate::members::{Presence, presence};
use crate::register::MachineRegister;
use crate::store;

/// How soon a machine that does not come back repeats a failed heartbeat.
const LEAVING_RETRY: Duration = Duration::from_secs(2);

/// The heartbeat of this process. [`Daemon::run_heartbeat`] has it as long as it runs.
#[derive(Default)]
pub(super) struct Heartbeat {
    beat: u64,
    /// The revision of the last write, if its reply has arrived.
    pub(super) last: Option<Revision>,
    /// When this process last found the register written by the hub, or in the hub, by the machine
    /// itself.
    other_seen: Option<Instant>,
}

impl Daemon {
    pub(super) async fn run_heartbeat(&self) {
        let mut heartbeat = self.heartbeat.lock().await;
        let mut has_adopted = self.has_adopted.subscribe();
        // The sender is in this daemon, so it is not closed.
        let adopted = has_adopted.wait_for(|has_adopted| *has_adopted);
        let _ = self.late_is_reported(adopted).await;
        loop {
            let has_time = self.engine.clock().is_some();
            let result = self.late_is_reported(self.beat_once(&mut heartbeat)).await;
            // In a folder a write is the first answer with a time. Without one in its register, this
            // machine counts as silent.
            let is_untimed = !has_time && result.is_ok() && self.engine.clock().is_some();
            // The register of a machine that leaves cannot wait for the next heartbeat: a Preempt
            // has 30 seconds.
            let is_urgent = result.is_err() && self.history.borrow().is_leaving();
            let pause = if is_urgent {
                self.config.heartbeat.min(LEAVING_RETRY)
            } else if is_untimed {
                Duration::ZERO
            } else if self.copy_since.get().is_some() {
                self.doubt()
            } else {
                self.config.heartbeat
            };
            self.problems.report(Subject::Heartbeat, result);
            tokio::select! {
                () = sleep(pause) => {}
                () = self.has_changed.notified() => {}
            }
        }
    }

    /// Waits for a part of the heartbeat, and reports a store that does not answer in time: a mount may
    /// hang for ever.
    async fn late_is_reported<T>(&self, part: impl Future<Output = T>) -> T {
        let mut part = pin!(part);
        if let Ok(result) = timeout(ANSWER_TIME, &mut part).await {
            return result;
        }
        self.problems
            .report(Subject::Heartbeat, Err(AnswerError::Late));
        part.await
    }

    /// Raises the heartbeat with one write over the last one of this process, without a read. It
    /// reads the register only at the start, after a lost reply, and after another writer has
    /// changed it.
    pub(super) async fn beat_once(&self, heartbeat: &mut Heartbeat) -> Result<(), EngineError> {
        self.withdraw_marks_of_preparations().await?;
        let key = machine_key(&self.machine);
        let mut last = heartbeat.last.take();
        let (is_first, mut is_alone) = (last.is_none(), true);
        let mut has_other = false;
        for attempt in 0..2 {
            if last.is_none() {
                let (found, revision) = store::read::<MachineRegister>(&*self.engine, &key).await?;
                self.forced
                    .borrow_mut()
                    .get_or_insert_with(|| UngatedStarts::of(&found));
                // An operator freed a register that is gone, or a machine forgot it.
                is_alone &= is_first || found.beat <= heartbeat.beat;
                if self.is_of_another_kind(&found) {
                    has_other |= heartbeat.beat == 0;
                    heartbeat.other_seen = Some(Instant::now());
                }
                if is_first && heartbeat.beat == 0 && self.is_of_another_computer(&found) {
                    self.copy_since.set(Some(Instant::now()));
                }
                heartbeat.beat = heartbeat.beat.max(found.beat);
                last = revision;
            }
            let beat = heartbeat.beat + 1;
            match store::swap(
                &*self.engine,
                &key,
                last.as_ref(),
                &MachineRegister {
                    beat,
                    ..self.register()
                },
            )
            .await?
            {
                Swap::Done(revision) => {
                    (heartbeat.beat, heartbeat.last) = (beat, Some(revision));
                    break;
                }
                Swap::Conflict => {
                    // Another process has written between a read and a write of this one. If that
                    // happens once, at the start, it can be the last heartbeat of an earlier
                    // process.
                    is_alone &= attempt == 0;
                    // Or the registers come from a backup, and hold slots that were given back
                    // since.
                    self.slots.borrow_mut().next_look = Some(Instant::now());
                }
            }
            last = None;
        }
        // The machine's own daemon may beat less often than the hub: for as long as it may run, the
        // hub answers "not yet".
        has_other |= matches!(self.source, Source::Hub)
            && heartbeat
                .other_seen
                .is_some_and(|at| at.elapsed() < self.config.silent_after);
        let why = || {
            let machine = &self.machine;
            format!(
                "another process raises the heartbeat of {machine}: give each machine its own `machine`"
            )
        };
        let result = match (is_alone, has_other) {
            (true, false) => Ok(()),
            (true, true) => Err(format!(
                "{} and the hub both act for it, until one of them ends",
                self.machine
            )),
            (false, _) => Err(why()),
        };
        self.problems.report(Subject::MachineName, result);
        // The other one has raised its heartbeat since, if it runs, and both have found that.
        let is_certain = |since: Instant| since.elapsed() >= self.doubt();
        if is_alone && self.copy_since.get().is_some_and(is_certain) {
            self.copy_since.set(None);
        }
        // Only now, since an answer that waits for it depends on what it has found.
        if heartbeat.last.is_some() {
            self.has_beaten.send_replace(true);
        }
        check_clock(&*self.engine)
    }

    /// Whether this register, found at the start, shows that the hub acts for this machine, or the
    /// machine for itself while this is the hub. Both would hold the machine's turn to approve. If
    /// the hub has ended, nobody else raises the heartbeat until the next one of this process.
    fn is_of_another_kind(&self, found: &MachineRegister) -> bool {
        let limits = self.patience();
        found.beat > 0
            && found.by_hub != matches!(self.source, Source::Hub)
            && presence(found, None, self.engine.clock(), limits) != Presence::Gone
    }

    /// Whether a daemon that runs on another computer may have this machine's name. Before the first
    /// heartbeat the machine's register shows it.
    pub(super) async fn may_be_copy(&self) -> Result<bool, EngineError> {
        if *self.has_beaten.borrow() || matches!(self.source, Source::Hub) {
            return Ok(self.copy_since.get().is_some());
        }
        let key = machine_key(&self.machine);
        let (found, _) = store::read::<MachineRegister>(&*self.engine, &key).await?;
        Ok(self.is_of_another_computer(&found))
    }

    /// Whether this register, found at the start, is of a daemon that may still run on another
    /// computer: this one may be a copy of it. A daemon that was started again on this computer has
    /// no doubts.
    fn is_of_another_computer(&self, found: &MachineRegister) -> bool {
        found.beat > 0
            && !found.by_hub
            && !matches!(self.source, Source::Hub)
            && (found.boot.is_none() || found.boot != *BOOT)
            && presence(found, None, self.engine.clock(), self.patience()) == Presence::Beating
    }

    /// How long it takes until a daemon that has this machine's name, too, has raised its heartbeat.
    fn doubt(&self) -> Duration {
        self.config.heartbeat * 5 / 4
    }

    /// A text for each group of this machine, by the groups' names.
    fn of_groups(&self, text: impl Fn(&GroupConfig) -> String) -> BTreeMap<String, String> {
        let own = self
            .config
            .groups
            .iter()
            .filter(|group| group.has(&self.machine));
        own.map(|group| (group.register_name(), text(group)))
            .collect()
    }

    /// This machine's register, without the beat.
    pub(super) fn register(&self) -> MachineRegister {
        let forced = self.forced.borrow().clone().unwrap_or_default();
        MachineRegister {
            machine: Some(self.machine.clone()),
            beat: 0,
            written: self.engine.clock().map(|clock| clock.now.0),
            boot: BOOT.clone(),
            leaving: self.history.borrow().is_leaving(),
            by_hub: matches!(self.source, Source::Hub),
            limits: self.of_groups(|group| group.max_unavailable.to_string()),
            digests: Some(self.of_groups(GroupConfig::digest)),
            zone: self.zone.clone(),
            events: self.history.borrow().progress(EVENT_KEPT),
            forced: forced.count,
            forced_events: forced.events,
            at: driver::now(),
        }
    }
}

/// When this computer was started, hashed: the id itself is nobody else's business.
static BOOT: LazyLock<Option<String>> = LazyLock::new(|| {
    let id = boot_id();
    (!id.is_empty()).then(|| hexadecimal(&Sha256::digest(id.as_bytes())[..8]))
});
