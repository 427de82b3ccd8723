//! The replay server: a local imitation of Azure's metadata service, for tests and demonstrations.
//!
//! It serves a [`Scenario`] over HTTP as the service does: the same documents, the same refusals, and
//! events that wait for an approval or for their `NotBefore`. A [`Fault`] makes it misbehave in one of the ways
//! that clients have met in practice.
//!
//! ```
//! use std::io::{Read, Write};
//! use scheduled_events::replay::{ServerConfig, Scenario, Server};
//!
//! let scenario = Scenario::builtin("live-migration").expect("a built-in name");
//! let server = Server::start(ServerConfig::new(scenario).speed(60.0).fault("post.status:500@1".parse()?))?;
//!
//! let mut stream = std::net::TcpStream::connect(server.addr())?;
//! stream.write_all(
//!     b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n\
//!       Host: 169.254.169.254\r\nMetadata: true\r\nConnection: close\r\n\r\n",
//! )?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert!(answer.ends_with(r#"{"DocumentIncarnation":1,"Events":[]}"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request whose `Host` is neither an IP address nor `localhost` gets a 400, so that no web page in a browser on this machine
//! reaches the server through a name of its own (DNS rebinding). What the real service does is not known.
//!
//! The server does *not* imitate the limit of five requests a second (use `status:429`) and the approvals of other tenants of the host.
//! Idleness switches it off only with `idle-off:24h`.
//!
//! Read the files in this order:
//!
//! | File | Content |
//! |---|---|
//! | [`scenario`], `scenario_file`, `scenario_text`, `builtin`, `names` | parse and write scenarios; the table of built-in ones; placeholders in names |
//! | [`timeline`], `event_timeline`, [`document`] | play a scenario: a pure state machine with time as an argument, and what it produces |
//! | `scenario_clock`, `event_id` | the scenario's time: speed and pauses; ids of events |
//! | `fault_kind`, [`fault`], `fault_plan` | the table of fault kinds; parse a fault; combine the faults of a request |
//! | `recording` | make a scenario of what a watcher saw |
//! | `wire`, `instance`, `route` | write documents and refusals; instance metadata; route requests |
//! | [`verdict`] | check which rules of the wire contract a client keeps |
//! | `service`, [`report`] | process requests: the service without its sockets; what it reports |
//! | `http`, `connection`, [`server`] | HTTP on a socket; one connection; the port and its threads |
//! | [`control`] | control of a server while it plays: pause, step, add, inject, approve, begin again |
//!
//! `docs/wire.md` describes the service that is imitated.

mod builtin;
mod connection;
pub mod control;
pub mod document;
mod event_id;
mod event_timeline;
pub mod fault;
mod fault_kind;
mod fault_plan;
mod http;
mod instance;
mod names;
pub(crate) mod recording;
pub mod report;
mod route;
pub mod scenario;
mod scenario_clock;
mod scenario_file;
mod scenario_text;
pub mod server;
mod service;
pub mod timeline;
pub mod verdict;
mod wire;

pub use control::{ControlError, PlayStatus};
pub use document::{ReplayDocument, TransitionKind};
pub use fault::{Fault, FaultError};
pub use report::{RecordedRequest, ReplayEvent};
pub use scenario::{Scenario, ScenarioError};
pub use server::{Machine, Server, ServerConfig};
pub use timeline::Timeline;
pub use verdict::{Finding, Verdict};
