//! What an eviction does to a Spot machine, as Microsoft's guidance states it.

use crate::words::words;

/// When a Spot machine is evicted, chosen when it is created. Section "Understand eviction", (1) "Eviction type".
///
/// ```
/// use scheduled_events_core::spot::{EvictionCause, EvictionType};
///
/// assert!(EvictionType::CapacityOnly.is_evicted_for(EvictionCause::Capacity));
/// assert_eq!(EvictionType::CapacityOnly.word(), "capacity-only");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionType {
    /// Only when there is no excess capacity any more. For reliability.
    CapacityOnly,
    /// Also when the price exceeds the maximum price, even if there is capacity. For low cost.
    PriceOrCapacity,
}

words!(EvictionType {
    CapacityOnly => "capacity-only",
    PriceOrCapacity => "price-or-capacity",
});

/// Why a machine is evicted.
///
/// ```
/// use scheduled_events_core::spot::{EvictionCause, EvictionType};
///
/// let causes = EvictionCause::ALL.into_iter().filter(|cause| EvictionType::CapacityOnly.is_evicted_for(*cause));
/// assert_eq!(causes.map(EvictionCause::word).collect::<Vec<_>>(), ["capacity"]);
/// assert_eq!(EvictionCause::Price.word(), "price");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionCause {
    /// Azure needs the capacity for machines with priority.
    Capacity,
    /// The price exceeds the machine's maximum price.
    Price,
}

words!(EvictionCause {
    Capacity => "capacity",
    Price => "price",
});

impl EvictionType {
    /// Whether a machine of this type is evicted for this cause.
    ///
    /// ```
    /// use scheduled_events_core::spot::{EvictionCause, EvictionType};
    ///
    /// assert!(!EvictionType::CapacityOnly.is_evicted_for(EvictionCause::Price));
    /// assert!(EvictionType::PriceOrCapacity.is_evicted_for(EvictionCause::Price));
    /// ```
    pub const fn is_evicted_for(self, cause: EvictionCause) -> bool {
        matches!(
            (self, cause),
            (_, EvictionCause::Capacity) | (Self::PriceOrCapacity, EvictionCause::Price)
        )
    }
}

/// What an eviction does to the machine, chosen when it is created. Section "Understand eviction", (2) "Eviction policy".
///
/// ```
/// use scheduled_events_core::spot::{EvictionPolicy, SpotState};
///
/// assert_eq!(EvictionPolicy::Deallocate.effect().state, SpotState::Stopped);
/// assert_eq!(EvictionPolicy::Deallocate.word(), "deallocate");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionPolicy {
    /// "Stop/Deallocate": the machine is stopped, and can be started again. For a workload that can wait for capacity.
    Deallocate,
    /// "Delete": the machine is deleted. For a workload that can change its location or the size of its machine.
    Delete,
}

words!(EvictionPolicy {
    Deallocate => "deallocate",
    Delete => "delete",
});

/// What an eviction leaves of a machine. It always takes the compute capacity and the IP addresses that are not static: "losing
/// compute capacity and all non-static IP addresses".
///
/// ```
/// use scheduled_events_core::spot::{Charges, EvictionPolicy};
///
/// let effect = EvictionPolicy::Deallocate.effect();
/// // The disks remain and are paid for, and the machine still counts against the quota.
/// assert!(effect.keeps_data_disks && effect.occupies_cores);
/// assert_eq!(effect.state.charges(), Charges::Disks);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionEffect {
    /// The state of the machine afterwards.
    pub state: SpotState,
    /// Whether the data disks remain, and with them what the workload wrote there. "The VM data disks remain"; "The Delete
    /// policy deletes the VM and any data disk".
    pub keeps_data_disks: bool,
    /// Whether a checkpoint on the machine's own file system can be read afterwards. With `Delete` it cannot: "you can't persist
    /// any progress or data on the file system".
    pub keeps_local_checkpoints: bool,
    /// Whether static IP addresses remain. `None`: the guidance does not state it for a deleted machine.
    pub keeps_static_addresses: Option<bool>,
    /// Whether the machine still counts against the subscription's quota. "The VM occupies cores in the subscription".
    pub occupies_cores: bool,
    /// How the capacity comes back.
    pub replacement: Replacement,
}

/// How a machine comes back after an eviction. Section "Orchestrate eviction recovery", (1) "Replace VMs".
///
/// ```
/// use scheduled_events_core::spot::{EvictionPolicy, Replacement};
///
/// assert_eq!(EvictionPolicy::Deallocate.effect().replacement, Replacement::Reallocate);
/// assert_eq!(EvictionPolicy::Delete.effect().replacement.word(), "recreate");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// The same machine is allocated again, in the same region and zone and of the same size, once there is capacity. Its
    /// programs start as after a boot, and find their disks.
    Reallocate,
    /// Another machine is created, also in another zone or region or of another size, by something outside the machine. It
    /// finds only what was saved elsewhere.
    Recreate,
}

words!(Replacement {
    Reallocate => "reallocate",
    Recreate => "recreate",
});

impl EvictionPolicy {
    /// What an eviction with this policy leaves. Its cause makes no difference.
    ///
    /// ```
    /// use scheduled_events_core::spot::{EvictionPolicy, Replacement};
    ///
    /// let effect = EvictionPolicy::Deallocate.effect();
    /// assert!(effect.keeps_local_checkpoints && effect.occupies_cores);
    /// assert_eq!(EvictionPolicy::Delete.effect().replacement, Replacement::Recreate);
    /// ```
    pub const fn effect(self) -> EvictionEffect {
        match self {
            Self::Deallocate => EvictionEffect {
                state: SpotState::Stopped,
                keeps_data_disks: true,
                keeps_local_checkpoints: true,
                keeps_static_addresses: Some(true),
                occupies_cores: true,
                replacement: Replacement::Reallocate,
            },
            Self::Delete => EvictionEffect {
                state: SpotState::Deleted,
                keeps_data_disks: false,
                keeps_local_checkpoints: false,
                keeps_static_addresses: None,
                occupies_cores: false,
                replacement: Replacement::Recreate,
            },
        }
    }
}

/// The state of a Spot machine. Section "Spot VM states".
///
/// ```
/// use scheduled_events_core::spot::{Allocation, EvictionPolicy, MaxPrice, SpotInput, SpotState};
///
/// let allocation = Allocation { max_price: MaxPrice::Unlimited, has_capacity: true, policy: EvictionPolicy::Delete };
/// let deployed = SpotState::after(None, SpotInput::Deploy, allocation).unwrap();
/// assert_eq!(deployed.to, SpotState::Running);
/// assert_eq!(deployed.to.word(), "running");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpotState {
    /// It runs.
    Running,
    /// It is stopped and deallocated, and can be started again.
    Stopped,
    /// It does not exist any more.
    Deleted,
}

words!(SpotState {
    Running => "running",
    Stopped => "stopped",
    Deleted => "deleted",
});

/// What is done to a machine.
///
/// ```
/// use scheduled_events_core::spot::{Allocation, EvictionPolicy, MaxPrice, SpotInput, SpotState};
///
/// // Without capacity a stopped machine stays stopped: no row matches, and the request fails.
/// let allocation = Allocation { max_price: MaxPrice::Unlimited, has_capacity: false, policy: EvictionPolicy::Deallocate };
/// assert_eq!(SpotState::after(Some(SpotState::Stopped), SpotInput::Restart, allocation), None);
/// assert_eq!(SpotInput::Restart.word(), "restart");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpotInput {
    /// An operator creates it.
    Deploy,
    /// Azure evicts machines.
    Evict,
    /// Azure advises to leave the machine: it may evict it, or not. [Advice](crate::Event::is_advice)
    Advise,
    /// An operator starts it again.
    Restart,
}

words!(SpotInput {
    Deploy => "deploy",
    Evict => "evict",
    Advise => "advise",
    Restart => "restart",
});

/// A machine's maximum price beside the current one.
///
/// ```
/// use scheduled_events_core::spot::{Allocation, EvictionPolicy, MaxPrice, SpotInput, SpotState};
///
/// // A machine without a maximum price is not evicted while there is capacity.
/// let allocation = Allocation { max_price: MaxPrice::Unlimited, has_capacity: true, policy: EvictionPolicy::Delete };
/// let row = SpotState::after(Some(SpotState::Running), SpotInput::Evict, allocation).unwrap();
/// assert_eq!(row.to, SpotState::Running);
/// assert_eq!(MaxPrice::Unlimited.word(), "unlimited");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxPrice {
    /// No maximum, which Azure writes as -1: the machine is never evicted for its price.
    Unlimited,
    /// At least the current price.
    Sufficient,
    /// Below the current price.
    Exceeded,
}

words!(MaxPrice {
    Unlimited => "unlimited",
    Sufficient => "sufficient",
    Exceeded => "exceeded",
});

/// What is paid for a machine.
///
/// ```
/// use scheduled_events_core::spot::{Charges, EvictionPolicy};
///
/// assert_eq!(EvictionPolicy::Deallocate.effect().state.charges(), Charges::Disks);
/// assert_eq!(EvictionPolicy::Delete.effect().state.charges().word(), "nothing");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charges {
    /// The machine, at most at its maximum price, and its disks.
    MachineAndDisks,
    /// Its disks only.
    Disks,
    /// Nothing: the disks are deleted.
    Nothing,
}

words!(Charges {
    MachineAndDisks => "machine-and-disks",
    Disks => "disks",
    Nothing => "nothing",
});

/// What decides about a machine besides its state. All three are known when something is done to it.
///
/// ```
/// use scheduled_events_core::spot::{Allocation, EvictionPolicy, MaxPrice, SpotInput, SpotState};
///
/// let allocation = Allocation { max_price: MaxPrice::Sufficient, has_capacity: false, policy: EvictionPolicy::Delete };
/// let row = SpotState::after(Some(SpotState::Running), SpotInput::Evict, allocation).unwrap();
/// assert_eq!(row.to, SpotState::Deleted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// The maximum price beside the current one.
    pub max_price: MaxPrice,
    /// Whether there is excess capacity for machines of this size in this place.
    pub has_capacity: bool,
    /// The eviction policy.
    pub policy: EvictionPolicy,
}

/// One row of the guide's table "Spot VM states". `None` is an empty cell: any value matches.
///
/// ```
/// use scheduled_events_core::spot::{SPOT_TRANSITIONS, SpotState};
///
/// // No row restarts a machine that was deleted.
/// assert!(SPOT_TRANSITIONS.iter().all(|row| row.from != Some(SpotState::Deleted)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpotTransition {
    /// The state before; `None` is the guide's `*`.
    pub from: Option<SpotState>,
    /// What is done.
    pub input: SpotInput,
    /// The price that the row requires. `Sufficient` includes `Unlimited`: a maximum of -1 is never exceeded.
    pub max_price: Option<MaxPrice>,
    /// The capacity that the row requires.
    pub has_capacity: Option<bool>,
    /// The policy that the row requires.
    pub policy: Option<EvictionPolicy>,
    /// The state afterwards, which also decides what is paid: the guide's column "Output".
    pub to: SpotState,
}

impl SpotTransition {
    fn matches(self, state: Option<SpotState>, input: SpotInput, allocation: Allocation) -> bool {
        let price = match self.max_price {
            Some(MaxPrice::Sufficient) => allocation.max_price != MaxPrice::Exceeded,
            required => required.is_none_or(|required| required == allocation.max_price),
        };
        price
            && self.input == input
            && self.from.is_none_or(|from| Some(from) == state)
            && self
                .has_capacity
                .is_none_or(|required| required == allocation.has_capacity)
            && self
                .policy
                .is_none_or(|required| required == allocation.policy)
    }
}

/// The rows of the guide's table "Spot VM states", in its order, and one for advice, which the guide does not have.
pub const SPOT_TRANSITIONS: [SpotTransition; 10] = {
    use {EvictionPolicy as Policy, MaxPrice as Price, SpotInput as Input, SpotState as State};
    const fn row(
        from: Option<State>,
        input: Input,
        required: (Option<Price>, Option<bool>, Option<Policy>),
        to: State,
    ) -> SpotTransition {
        let (max_price, has_capacity, policy) = required;
        SpotTransition {
            from,
            input,
            max_price,
            has_capacity,
            policy,
            to,
        }
    }
    let (running, stopped) = (Some(State::Running), Some(State::Stopped));
    let (below, enough) = (Some(Price::Exceeded), Some(Price::Sufficient));
    let (deallocate, delete) = (Some(Policy::Deallocate), Some(Policy::Delete));
    [
        row(
            None,
            Input::Deploy,
            (enough, Some(true), None),
            State::Running,
        ),
        row(
            running,
            Input::Evict,
            (Some(Price::Unlimited), Some(true), None),
            State::Running,
        ),
        row(
            running,
            Input::Evict,
            (None, Some(false), deallocate),
            State::Stopped,
        ),
        row(
            running,
            Input::Evict,
            (None, Some(false), delete),
            State::Deleted,
        ),
        row(
            running,
            Input::Evict,
            (below, None, deallocate),
            State::Stopped,
        ),
        row(running, Input::Evict, (below, None, delete), State::Deleted),
        row(
            stopped,
            Input::Restart,
            (below, None, deallocate),
            State::Stopped,
        ),
        row(
            stopped,
            Input::Restart,
            (below, None, delete),
            State::Deleted,
        ),
        row(
            stopped,
            Input::Restart,
            (enough, Some(true), None),
            State::Running,
        ),
        row(running, Input::Advise, (None, None, None), State::Running),
    ]
};

impl SpotState {
    /// What becomes of a machine: the first row of [`SPOT_TRANSITIONS`] that matches. `state` is `None` for a machine that does
    /// not exist yet. `None` if the guide has no row, as for a restart without capacity: the state stays, and the request fails.
    ///
    /// ```
    /// use scheduled_events_core::spot::{Allocation, EvictionPolicy, MaxPrice, SpotInput, SpotState};
    ///
    /// let allocation = Allocation {
    ///     max_price: MaxPrice::Exceeded,
    ///     has_capacity: true,
    ///     policy: EvictionPolicy::Deallocate,
    /// };
    /// let row = SpotState::after(Some(SpotState::Running), SpotInput::Evict, allocation).unwrap();
    /// assert_eq!(row.to, SpotState::Stopped);
    /// ```
    pub fn after(
        state: Option<Self>,
        input: SpotInput,
        allocation: Allocation,
    ) -> Option<&'static SpotTransition> {
        SPOT_TRANSITIONS
            .iter()
            .find(|row| row.matches(state, input, allocation))
    }

    /// What is paid for a machine in this state.
    ///
    /// ```
    /// use scheduled_events_core::spot::{Charges, SpotState};
    ///
    /// assert_eq!(SpotState::Stopped.charges(), Charges::Disks);
    /// ```
    pub const fn charges(self) -> Charges {
        match self {
            Self::Running => Charges::MachineAndDisks,
            Self::Stopped => Charges::Disks,
            Self::Deleted => Charges::Nothing,
        }
    }
}
