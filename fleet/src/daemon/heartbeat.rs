//! This machine's register: the heartbeat, and what others need to know of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::{Daemon, Forced, machine_key};
use crate::engine::{EngineError, Swap};
use crate::gate::{MachineRegister, driver, store};

/// How soon a heartbeat that failed is tried again by a machine that does not come back.
const LEAVING_RETRY: Duration = Duration::from_secs(2);

impl Daemon {
    pub(super) async fn beat_for_ever(&self) {
        loop {
            let result = self.beat_once().await;
            // What a machine that leaves has to say cannot wait for the next heartbeat: a Preempt has 30 seconds.
            let is_urgent = result.is_err() && self.is_leaving.get();
            let pause = if is_urgent { self.config.heartbeat.min(LEAVING_RETRY) } else { self.config.heartbeat };
            self.problems.report("the heartbeat", result);
            tokio::select! {
                () = sleep(pause) => {}
                () = self.has_changed.notified() => {}
            }
        }
    }

    /// Raises the heartbeat: one write over the last one of this process, without a read. The register is read only at the start,
    /// after a reply that was lost, and when somebody else has changed it.
    pub(super) async fn beat_once(&self) -> Result<(), EngineError> {
        let key = machine_key(&self.machine);
        let mut last = self.last_beat.take();
        let (is_first, mut is_alone) = (last.is_none(), true);
        for attempt in 0..2 {
            if last.is_none() {
                let (found, revision) = store::read::<MachineRegister>(&*self.engine, &key).await?;
                self.forced.borrow_mut().get_or_insert_with(|| Forced::of(&found));
                // One that is gone was freed by hand, or forgotten.
                is_alone &= is_first || found.beat <= self.beat.get();
                self.beat.set(self.beat.get().max(found.beat));
                last = revision;
            }
            let beat = self.beat.get() + 1;
            match store::swap(&*self.engine, &key, last.as_ref(), &MachineRegister { beat, ..self.register() }).await? {
                Swap::Done(revision) => {
                    self.beat.set(beat);
                    *self.last_beat.borrow_mut() = Some(revision);
                    break;
                }
                // Another process has written between a read and a write of this one.
                Swap::Conflict => is_alone &= attempt == 0 && !is_first,
            }
            last = None;
        }
        let why = || EngineError(format!("another process raises the heartbeat of {} too", self.machine));
        self.problems.report("the machine's name", if is_alone { Ok(()) } else { Err(why()) });
        Ok(())
    }

    /// The limits of this machine's groups.
    fn limits(&self) -> BTreeMap<String, String> {
        let own = self.config.groups.iter().filter(|group| group.has(&self.machine));
        own.map(|group| (group.register_name(), group.max_unavailable.to_string())).collect()
    }

    /// What this machine's register says, but for the beat.
    pub(super) fn register(&self) -> MachineRegister {
        let forced = self.forced.borrow().clone().unwrap_or_default();
        MachineRegister {
            machine: Some(self.machine.clone()),
            beat: 0,
            written: self.engine.clock().map(|clock| clock.now.0),
            leaving: self.is_leaving.get(),
            limits: self.limits(),
            zone: self.zone.clone(),
            forced: forced.count,
            forced_events: forced.events,
            at: driver::now(),
        }
    }
}
