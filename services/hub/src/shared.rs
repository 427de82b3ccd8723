//! The state that all machines share.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use scheduled_events::clock::Clock;
use scheduled_events::record::Record;
use scheduled_events_core::{OpenFailures, Policy, UnixMillis};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::approvals::Approvals;
use crate::azure::arm::Arm;
use crate::config::Config;
use crate::gates::{GateError, Gates};
use crate::hooks::Pool;
use crate::journal::Journal;
use crate::message::Message;
use crate::metrics::Metrics;
use crate::notice::key_of;
use crate::store::Store;

/// The state that all machines share.
pub struct Shared {
    /// The configuration.
    pub config: Config,
    /// The policy that it names.
    pub policy: Policy,
    /// The store of the machines' states.
    pub store: Rc<Store>,
    /// The audit file.
    pub journal: Rc<Journal>,
    /// Sends approvals.
    pub approvals: Rc<Approvals>,
    /// Limits concurrent preparations.
    pub pool: Rc<Pool>,
    /// Allows as many more for events that start soon.
    pub reserve: Rc<Pool>,
    /// Limits concurrent recoveries, in the order of their requests. They wait for no preparation:
    /// one that hangs ends only with its event, which can be days later.
    pub recoveries: Rc<Pool>,
    /// The gates of the events.
    pub gates: Rc<Gates>,
    /// The counters.
    pub metrics: Metrics,
    /// The time of this machine. Decisions about events use [`Self::time_of_day`].
    pub clock: Clock,
    /// When Resource Graph last answered, in seconds since 1970; 0 before the first answer.
    pub reconciled_at: Cell<i64>,
    /// Wakes those who hold messages of the queue: this hub ends.
    pub stopping: Notify,
    /// The machines that are followed, by their [keys](key_of).
    pub machines: RefCell<HashMap<String, UnboundedSender<Message>>>,
    /// What has failed for a machine and is not resolved yet, by its key.
    failures: RefCell<HashMap<String, OpenFailures>>,
}

impl Shared {
    /// The shared state of a hub with this configuration.
    ///
    /// # Errors
    /// The configuration of the fleet is invalid, or the audit file cannot be read.
    pub fn new(
        config: Config,
        policy: Policy,
        arm: Arm,
        store: Rc<Store>,
        journal: Rc<Journal>,
    ) -> Result<Rc<Self>, GateError> {
        let pool = || Pool::new(config.hooks.at_once);
        Ok(Rc::new(Self {
            pool: pool(),
            reserve: pool(),
            recoveries: pool(),
            approvals: Approvals::new(arm, store.clone()),
            gates: Gates::new(&config)?,
            metrics: Metrics::default(),
            clock: Clock::start(),
            reconciled_at: Cell::default(),
            stopping: Notify::new(),
            machines: RefCell::default(),
            failures: RefCell::default(),
            policy,
            store,
            journal,
            config,
        }))
    }

    /// The time of day that `NotBefore` refers to: Azure's, if this machine's clock differs much
    /// from it.
    pub fn time_of_day(&self) -> UnixMillis {
        self.approvals.time_of_day(self.clock.time_of_day())
    }

    /// Writes a record of a machine.
    pub fn record(&self, resource_id: &str, record: Record<'_>) {
        self.gates.record(resource_id, &record);
        self.journal
            .record(resource_id, record, self.clock.time_of_day().seconds());
    }

    /// The machine that is followed under this key.
    pub fn machine(&self, key: &str) -> Option<UnboundedSender<Message>> {
        self.machines.borrow().get(key).cloned()
    }

    /// Adds a machine that is followed.
    pub fn remember(&self, resource_id: &str, sender: UnboundedSender<Message>) {
        self.machines
            .borrow_mut()
            .insert(key_of(resource_id), sender);
    }

    /// Removes a machine that is no longer followed.
    pub fn forget(&self, resource_id: &str) {
        self.machines.borrow_mut().remove(&key_of(resource_id));
        self.failures.borrow_mut().remove(&key_of(resource_id));
    }

    /// Sets what has failed for a machine and is not resolved yet.
    pub fn set_failures(&self, resource_id: &str, failures: OpenFailures) {
        let (key, mut all) = (key_of(resource_id), self.failures.borrow_mut());
        if failures == OpenFailures::default() {
            all.remove(&key);
        } else {
            all.insert(key, failures);
        }
    }

    /// What has failed for all machines and is not resolved yet.
    pub fn failures(&self) -> OpenFailures {
        let mut sum = OpenFailures::default();
        for failures in self.failures.borrow().values() {
            sum.preparations += failures.preparations;
            sum.recoveries += failures.recoveries;
            sum.approvals += failures.approvals;
        }
        sum
    }
}
