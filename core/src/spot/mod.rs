//! Spot machines: what an eviction does to a machine, and the life cycle of a workload that lives with it.
//!
//! Both are pure: tables and transitions, without clock or I/O. Their source is Microsoft's guidance for interruptible
//! workloads on Spot VMs; each item names the section.
//!
//! * [`Phase`]: warm-up, processing, evicted, shutdown, recover, resume. [`Phase::next`] is the whole life cycle.
//! * [`EvictionType`], [`EvictionPolicy`] and [`EvictionEffect`]: when a machine is evicted, and what it loses.
//! * [`SpotState`]: whether a machine runs, is stopped or deleted, and what is paid for it.
//!
//! ```
//! use scheduled_events_core::spot::{EvictionPolicy, Phase, Signal};
//!
//! // A notice arrives while the workload processes; it stops, and starts again after the machine was allocated again.
//! let phase = Phase::Processing.next(Signal::Notice).and_then(|phase| phase.next(Signal::Stopped));
//! assert_eq!(phase, Some(Phase::Shutdown));
//! let phase = phase.and_then(|phase| phase.next(Signal::Restarted));
//! assert_eq!(phase, Some(Phase::Recover));
//!
//! assert!(EvictionPolicy::Deallocate.effect().keeps_data_disks);
//! assert!(!EvictionPolicy::Delete.effect().keeps_data_disks);
//! ```

mod eviction;
mod lifecycle;

pub use eviction::{
    Allocation, Charges, EvictionCause, EvictionEffect, EvictionPolicy, EvictionType, MaxPrice,
    Replacement, SPOT_TRANSITIONS, SpotInput, SpotState, SpotTransition,
};
pub use lifecycle::{Phase, Signal};
