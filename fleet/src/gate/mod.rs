//! The gate: an event is approved once every machine that it affects is ready, and at most a set
//! number of machines of a group are out of service together.
//!
//! An approval counts for all machines of an event, and Azure accepts it from any of them, at any
//! time: no lock can stop a late one. So the decision is durable and made once, and posting it is
//! repeatable: after the decision any machine may post, and a duplicate does no harm.
//!
//! Read `event` for what the gate knows about an event, `register` for the shared state and its
//! changes, `store` for how it is written, `group` for who counts together, `members` for who runs,
//! `protocol` for who may do what, and `driver` for how an engine carries that out. `tests/model`
//! checks the protocol with every interleaving of three machines.

pub mod driver;
mod event;
mod group;
pub mod members;
mod protocol;
mod register;
pub mod store;

pub use event::{Event, events_prefix};
pub use group::{closed_windows, shares};
pub use protocol::{Answer, GateStep, GroupHealth, Participant, Progress, Share, Why};
pub use register::{
    Claim, EventChange, EventRegister, Go, GroupChange, GroupRegister, MachineRegister, Mark,
    MarkRegister, Marked, Next, Stamp,
};
