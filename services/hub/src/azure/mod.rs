//! What the hub asks of Azure: tokens, Resource Manager, Resource Graph and a Storage queue.
//!
//! `transport` is HTTP for Azure's own crates, `identity` gives tokens, `arm` sends requests to Resource Manager and approves
//! events, `graph` asks Resource Graph, and `queue` reads the queue that Event Grid fills.

pub mod arm;
pub mod graph;
pub mod identity;
pub mod queue;
pub mod transport;
