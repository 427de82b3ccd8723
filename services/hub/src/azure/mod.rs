//! The hub's requests to Azure: tokens, Resource Manager, Resource Graph and a Storage queue.
//!
//! `transport` is the HTTP client for Azure's own crates, `identity` provides tokens, `arm` sends
//! requests to Resource Manager and approves events, `graph` queries Resource Graph, and `queue`
//! reads the queue that Event Grid fills.

pub mod arm;
pub mod graph;
pub mod identity;
pub mod queue;
pub mod transport;
