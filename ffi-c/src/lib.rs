//! The C library `libscheduled_events`: everything of `scheduled-events-core` behind a C ABI.
//!
//! C sees `include/scheduled_events.h`, which is generated from the comments and declarations here; its opening chapter
//! states the conventions that every function keeps. Rust programs want `scheduled-events-core` itself.
//!
//! How it is made:
//!
//! * One file for each object. Nothing here decides anything: a function checks its arguments, calls core and copies
//!   the result into a plain struct.
//! * Whatever iterates or is kept is core's own value in the caller's memory, behind a tag that tells an initialised
//!   object from zeroed or stray memory (`opaque.rs`). Nothing allocates.
//! * Every entry point runs inside one panic boundary (`boundary.rs`), although core does not panic.
//! * `unsafe` is used for what C hands over: pointers with lengths, and memory to put objects in (`memory.rs`).

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// What a caller owes every function is the conventions of the header, stated there once; the comments here become the
// header's, so they are written for C.
#![allow(clippy::missing_safety_doc, clippy::doc_markdown)]
// Types and constants carry their C names, so that one search finds them in every language; a variant's name starts with
// its enumeration's, so a glob brings in nothing unawares.
#![allow(non_camel_case_types, clippy::enum_glob_use)]

mod approval;
mod boundary;
mod document;
mod error;
mod event;
mod memory;
mod names;
mod opaque;
mod policy;
mod problem;
mod session;
mod snapshot;
mod status;
mod step;
mod text;
mod time;
mod tracker;
mod version;
#[cfg(test)]
mod walk;

pub use approval::*;
pub use document::*;
pub use error::*;
pub use event::*;
pub use memory::Flag;
pub use names::*;
pub use policy::*;
pub use problem::*;
pub use session::*;
pub use snapshot::*;
pub use status::*;
pub use step::*;
pub use text::*;
pub use time::*;
pub use tracker::*;
pub use version::*;
