//! The replay server: a local imitation of Azure's metadata service, to put under the tests of a client of Scheduled Events.
//!
//! It serves a [`Scenario`] over HTTP as the service does: the same documents, the same refusals, and events that wait for an
//! approval or for their `NotBefore`. A [`Fault`] makes it misbehave in one of the ways that clients have met in practice, and
//! a [`Verdict`] names the rules of the service that the client broke. The client is any program or library that speaks HTTP;
//! here it is a loop of ten lines:
//!
//! ```
//! use scheduled_events_replay::{Scenario, Server, ServerConfig};
//!
//! // Your client: it approves what is announced, and polls until nothing is.
//! fn approve_all(endpoint: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     let url = format!("{endpoint}/metadata/scheduledevents?api-version=2020-07-01");
//!     for announced in [true, false] {
//!         while {
//!             std::thread::sleep(std::time::Duration::from_millis(200)); // at most five requests a second
//!             let body = ureq::get(&url).header("Metadata", "true").call()?.body_mut().read_to_string()?;
//!             let document: serde_json::Value = serde_json::from_str(&body)?;
//!             for event in document["Events"].as_array().into_iter().flatten().filter(|event| event["EventStatus"] == "Scheduled") {
//!                 let approval = serde_json::json!({ "StartRequests": [{ "EventId": event["EventId"] }] });
//!                 ureq::post(&url).header("Metadata", "true").send(approval.to_string())?;
//!             }
//!             document["Events"].as_array().is_none_or(Vec::is_empty) == announced
//!         } {}
//!     }
//!     Ok(())
//! }
//!
//! // Its test: a reboot at sixty times the speed.
//! let scenario = Scenario::builtin("user-reboot").ok_or("a built-in name")?;
//! let server = Server::start(ServerConfig::new(scenario).speed(60.0))?;
//! approve_all(&server.url())?;
//! let verdict = server.verdict(0);
//! assert!(verdict.is_clean(), "{:#?}", verdict.findings());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request whose `Host` is neither an IP address nor `localhost` gets a 400, so that no web page in a browser on this machine
//! reaches the server through a name of its own (DNS rebinding). What the real service does is not known.
//!
//! The server does *not* imitate the limit of five requests a second (use `status:429`) and the approvals of other tenants of the host.
//! Idleness switches it off only with `idle-off:24h`.
//!
//! Read the folders and files in this order; each uses only those before it:
//!
//! | Place | Content |
//! |---|---|
//! | `suggest`, [`markup`] | a word that was meant; text as XML and HTML, for reports and pictures |
//! | [`scenario`] | parse, write and record scenarios; the table of built-in ones |
//! | [`timeline`] | play a scenario: a pure state machine with time as an argument, and what it produces |
//! | [`fault`] | the table of fault kinds; parse a fault; combine the faults of a request |
//! | `resource` | who the machines are at Azure |
//! | `http` | requests and responses on a stream; documents and refusals; routes; instance metadata |
//! | `control_plane` | what Azure has outside the machines: approvals, queries, messages |
//! | [`verdict`] | check which rules of the wire contract a client keeps, and report it |
//! | [`report`], `service` | what a server reports; process requests: the service without its sockets |
//! | [`server`] | the port and its threads; control while it plays: pause, step, add, inject, approve, begin again |
//!
//! `docs/wire.md` describes the service that is imitated, and `docs/replay.md` how to use it from the command line.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod control_plane;
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
pub use fault::{Fault, FaultError};
pub use report::{RecordedRequest, ReplayEvent};
pub use scenario::{Scenario, ScenarioError};
pub use server::control::{self, ControlError, PlayStatus};
pub use server::{ControlPlane, Machine, Server, ServerConfig};
pub use timeline::Timeline;
pub use timeline::document::{self, ReplayDocument, TransitionKind};
pub use verdict::{Finding, Verdict};
