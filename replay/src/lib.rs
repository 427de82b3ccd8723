#![doc = include_str!("../README.md")]
//!
//! A request whose `Host` is neither an IP address nor `localhost` gets a 400, so that no web page
//! in a browser on this machine reaches the server through a name of its own (DNS rebinding). The
//! behaviour of the real service is not known.
//!
//! The server does *not* imitate the limit of five requests a second (use `status:429`) and the
//! approvals of other tenants of the host. Idleness switches it off only with `idle-off:24h`.
//!
//! Read the folders and files in this order; each uses only those before it:
//!
//! | Place | Content |
//! |---|---|
//! | `suggest`, [`markup`] | suggestions for misspelled words; text as XML and HTML, for reports and pictures |
//! | [`capture`], [`contract`] | exchanges with a real service, masked or not; which rules of the wire contract they show it to keep |
//! | [`scenario`] | parse, write and record scenarios; the table of built-in ones |
//! | [`timeline`] | play a scenario: a pure state machine with time as an argument, and what it produces |
//! | [`fault`] | the table of fault kinds; parse a fault; combine the faults of a request |
//! | `resource` | the machines' ids at Azure |
//! | `http` | requests and responses on a stream; documents and refusals; routes; instance metadata |
//! | `control_plane` | Azure's services outside the machines: approvals, queries, messages |
//! | [`verdict`] | check which rules of the wire contract a client keeps, and report it |
//! | [`report`], `service` | the reports of a server; process requests: the service without its sockets |
//! | [`server`] | the port and its threads; control while it plays: pause, step, add, inject, approve, begin again |
//! | `error` | one error for all of them |
//!
//! `docs/inside/wire.md` describes the service that is imitated, and `docs/use/replay.md` how to use it from
//! the command line.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod capture;
pub mod contract;
mod control_plane;
mod error;
pub mod fault;
mod http;
pub mod markup;
pub mod report;
mod resource;
pub mod scenario;
pub mod server;
mod service;
mod suggest;
pub mod timeline;
pub mod verdict;

pub use control_plane::queue::{QueueAddress, QueueAddressError};
pub use error::Error;
pub use fault::{Fault, FaultError};
pub use report::{RecordedRequest, ReplayEvent};
pub use scenario::{Scenario, ScenarioError};
pub use scheduled_events_core::wire::ADVICE_API_VERSION;
pub use server::control::{self, ControlError, PlayStatus};
pub use server::{ConfigError, ControlPlane, Machine, Server, ServerConfig};
pub use timeline::Timeline;
pub use timeline::document::{self, ReplayDocument, TransitionKind};
pub use verdict::{Finding, Verdict};
