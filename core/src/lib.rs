//! What happens next to an Azure virtual machine, read from the Scheduled Events document.
//!
//! Azure announces reboots, freezes, redeploys, spot evictions and terminations to the software inside a virtual
//! machine through one small JSON document. This crate reads that document, tells what changed since the last one,
//! decides what to do about it and writes the approval. It is the part that a privileged agent can link without
//! worry: it never allocates, never recurses, never panics, and works in time linear in its input. Its only `unsafe`
//! calls SSE2 on x86-64, in one small module; on other processors the compiler forbids any.
//!
//! ```
//! use scheduled_events_core::{Action, Document, Policy, StartRequests, UnixSeconds, VmNames};
//!
//! let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123",
//!     "EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["WestNO_0"],
//!     "NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","EventSource":"Platform","DurationInSeconds":5}]}"#;
//!
//! let document = Document::parse(body)?;
//! let names = VmNames::new(&["WestNO_0"]);
//! let now = UnixSeconds::parse("2022-04-11T22:20:00Z").ok_or("not a time")?;
//! for event in document.events() {
//!     let decision = Policy::sample().decide(&event, names, now);
//!     assert_eq!(decision.action, Action::Approve); // a freeze of five seconds
//!
//!     let mut approval = [0; 256];
//!     let length = StartRequests::new(&[event.event_id()]).write(&mut approval)?;
//!     assert!(approval[..length].starts_with(br#"{"StartRequests":[{"EventId":"C7061BAC-"#));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The parts, each built on the ones before it:
//!
//! * [`Document`] and [`Event`]: a checked view of the caller's bytes. What is odd in one event is a [`Problem`] of
//!   that event; everything else stands.
//! * [`Tracker`]: what changed between two documents, as [`Change`]s.
//! * [`Policy`]: which event is approved, prepared for, held or ignored, and why ([`Decision`]).
//! * [`StartRequests`]: the body that approves events.
//! * [`Session`]: the whole client as a state machine without I/O; it says when to poll, what to post, when to prepare
//!   and when to recover, and survives restarts through a snapshot.
//! * [`record`]: what a host logs about all this, as records for any serde writer.
//!
//! # What this crate does not do
//!
//! No network, no files, no threads, no clock: time is an argument everywhere, and the caller carries bytes to and
//! from the metadata service. It keeps no text of an event beyond its id and type. It knows nothing of Kubernetes,
//! load balancers or clusters: *prepare* and *recover* are said, and the host does them.
#![no_std]
#![cfg_attr(all(target_arch = "x86_64", target_feature = "sse2"), deny(unsafe_code))]
#![cfg_attr(not(all(target_arch = "x86_64", target_feature = "sse2")), forbid(unsafe_code))]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::string_slice,
        clippy::unreachable
    )
)]

#[cfg(test)]
extern crate std;

mod approval;
mod document;
mod duplicate_ids;
mod error;
mod event;
mod event_id;
mod fixed_str;
mod hash;
mod json;
mod members;
mod names;
mod policy;
pub mod record;
mod session;
mod slice_writer;
mod time;
mod tracker;
mod words;

pub use approval::{StartRequests, WriteDecoded};
pub use document::{Document, EventCursor, Events, Incarnation, Problems};
pub use duplicate_ids::DUPLICATE_ID_WINDOW;
pub use error::{BufferTooSmall, ParseError, ParseErrorKind, Position};
pub use event::{
    Event, EventLayout, EventSource, EventStatus, EventType, Member, NotBefore, Problem, ProblemKind, ResourceNames,
    Resources,
};
pub use event_id::{EVENT_ID_MAX, EventId};
pub use json::{MAX_DEPTH, Text};
pub use members::Members;
pub use names::VmNames;
pub use policy::{
    Action, Decision, EventKind, EventSources, EventTypes, Leader, MAX_RULES, Policy, Reason, Rule, Scope, SourceKind,
    TooManyRules,
};
pub use session::{
    Cause, Preparation, Report, RequestOutcome, Response, Session, SessionConfig, SessionConfigError, SnapshotError,
    Step, Untracked, limits,
};
pub use time::{UnixMillis, UnixSeconds};
pub use tracker::{Change, TrackedEvent, TrackedStatus, Tracker, TrackerFull};
