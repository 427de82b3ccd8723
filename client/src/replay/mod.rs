//! The replay server: Azure's metadata service, imitated for tests and demonstrations.
//!
//! It plays a [`Scenario`] over HTTP as the real service does: the same documents, the same refusals,
//! events that wait for an approval or for their `NotBefore`. On demand it misbehaves, with a [`Fault`]
//! for each failure that clients have met in the field.
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
//! What is *not* imitated: the limit of five requests a second (use `status:429`), switching off after
//! 24 hours without a request, and the approval of other tenants on the same host.
//!
//! | Part | Does |
//! |---|---|
//! | [`scenario`] | reads scenarios, knows the built-in ones |
//! | [`playback`] | plays one, as a pure state machine with time as an argument |
//! | [`fault`] | reads faults and says which of them hit a request |
//! | [`server`] | serves all that over TCP |

mod builtin;
mod connection;
mod course;
pub mod fault;
mod guid;
mod http;
mod names;
mod plan;
pub mod playback;
mod route;
pub mod scenario;
pub mod server;
mod service;
mod wire;

pub use fault::{Fault, FaultError};
pub use playback::{Change, Playback};
pub use scenario::{Scenario, ScenarioError};
pub use server::{RecordedRequest, ReplayEvent, Server, ServerConfig};

/// The candidate that `word` is plausibly a misspelling of: at most a third of it differs.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&word, candidate), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
