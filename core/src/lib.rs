//! Azure Scheduled Events: parse the document, track events, decide, and approve.
//!
//! Azure announces reboots, freezes, redeploys, spot evictions and terminations to the software in a virtual machine
//! with a small JSON document. This crate parses that document, reports what changed since the last one, decides what to
//! do and writes the approval. It is made for privileged agents: it never allocates, never recurses, never panics, and
//! takes time linear in its input. The only `unsafe` code calls SSE2 instructions on x86-64 and NEON instructions on ARM64, in
//! one small module; on other processors the crate forbids `unsafe`.
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
//! ```text
//!            ┌───────────────────────── Session: what to do next ─────────────────────────┐
//!            │                                                                            │
//!  bytes ────┼─► Document ─┬─► Tracker ─► Change: scheduled, started, completed, …        │
//!  (GET)     │   of Events │                                                              │
//!            │             └─► Policy ──► Decision: approve, prepare, hold, ignore        │
//!            │                                     │                                      │
//!  bytes ◄───┼──────────────────────── StartRequests                                      │
//!  (POST)    └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The parts, each built on the ones before it:
//!
//! * [`Document`] and [`Event`]: a checked view of the caller's bytes. An invalid value in one event is a [`Problem`] of
//!   that event and affects nothing else.
//! * [`Tracker`]: what changed between two documents, as [`Change`]s.
//! * [`Policy`]: whether an event is approved, prepared for, held or ignored, and why ([`Decision`]).
//! * [`StartRequests`]: the request body that approves events.
//! * [`Notifications`]: what Event Grid and Resource Graph say about events outside the machine; [`approval::acknowledge`]:
//!   the request that approves them there.
//! * [`Session`]: the client as a state machine without I/O. It decides when to poll, what to post, when to prepare and
//!   when to recover, and continues after a restart from a snapshot.
//! * [`record`]: what a host logs, as records for any serde writer.
//! * [`spot`]: what an eviction does to a Spot machine, and the life cycle of a workload that lives with it.
//! * [`wire`]: the paths, the version and the header of requests; [`api_version`]: what each version added.
//! * [`terminate`]: the part of a scale set's model that announces deletions.
//!
//! The types of one event, from the document to a program that keeps it:
//!
//! | type | memory | made from | by |
//! |---|---|---|---|
//! | [`Event`] | borrows the document's bytes | the document | [`Document::events`] |
//! | [`EventLayout`] | owns offsets, no text | an `Event`, which it makes again from a copy of the text | [`Event::layout`], [`EventLayout::event`] |
//! | [`TrackedEvent`] | owns what decisions need: id and type, no other text | documents, one after another | [`Tracker::observe`], and a [`Session`] |
//! | [`Step`] and [`Report`] | borrow the session | its `TrackedEvent`s | [`Session::take_step`] |
//! | [`record::EventMembers`] | borrows: what records show | an `Event`, a `TrackedEvent`, or an `EventRecord` | `from_event`, `from_tracked`, `members` |
//! | `record::EventRecord` of `scheduled-events` | owns all members | each of those three, and JSON | `new`, `of_tracked`, `from` |
//! | `session::OwnedStep` of `scheduled-events` | owns `EventRecord`s | a `Step` | `OwnedStep::new` |
//!
//! # Features
//!
//! * `fast-path` (default): reads documents in the form in which Azure writes them faster, on 64-bit processors. The
//!   results are the same without it.
//! * `json`: `write_json` of a [`Record`](record::Record), which writes JSON to a slice with serde-json-core. A program that calls it links
//!   panics, which that crate has and never reaches; nothing else changes.
//!
//! # What this crate does not do
//!
//! It has no network, files, threads or clock: the time is always an argument, and the caller exchanges bytes with the
//! metadata service. The tracker stores no text of an event but its id and type. The crate knows nothing of Kubernetes,
//! load balancers or clusters: it asks the host to *prepare* and to *recover*, and the host knows how.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    deny(unsafe_code)
)]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    forbid(unsafe_code)
)]
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

pub mod api_version;
pub mod approval;
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
mod notification;
mod policy;
pub mod record;
mod session;
mod slice_writer;
pub mod spot;
pub mod terminate;
mod time;
mod tracker;
pub mod wire;
mod words;

pub use approval::{StartRequests, WriteDecoded};
pub use document::{Document, EventCursor, Events, EventsFor, Incarnation, Problems};
pub use duplicate_ids::DUPLICATE_ID_WINDOW;
pub use error::{BufferTooSmall, ParseError, ParseErrorKind, Position, Positions};
pub use event::{
    Event, EventLayout, EventSource, EventStatus, EventType, Member, NotBefore, Problem,
    ProblemKind, ResourceNames, Resources,
};
pub use event_id::{EVENT_ID_MAX, EventId};
pub use json::{MAX_DEPTH, Text};
pub use members::Members;
pub use names::VmNames;
pub use notification::{
    Arrival, EventOrder, MachineId, Notification, NotificationCursor, NotificationIter,
    NotificationOrder, NotificationState, Notifications, ResourceId, ResourceIdError, ResourceKind,
};
pub use policy::{
    Action, Decision, EventKind, EventSources, EventTypes, Leader, MAX_RULES, Policy, Reason, Rule,
    Scope, SourceKind, TooManyRules,
};
pub use session::{
    AnswerOutcome, ApiVersion, Cause, GateAnswer, GatePhase, LastCall, NotificationOutcome,
    OpenFailures, Preparation, Recovering, RecoveryStatus, Report, RequestOutcome, Response,
    Session, SessionConfig, SessionConfigError, SessionSource, SnapshotError, Step, Untracked,
    Waiting, WaitsFor, WouldPrepare, limits, snapshot_length,
};
pub use time::{TickClock, UnixMillis, UnixSeconds};
pub use tracker::{Change, TrackedEvent, TrackedStatus, Tracker, TrackerFull};
