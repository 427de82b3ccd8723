//! The C library `libscheduled_events`: `scheduled-events-core` with a C ABI.
//!
//! C programs include `include/scheduled_events.h`, which is generated from the comments and declarations here. Its opening
//! comment states the conventions that every function keeps. Rust programs use `scheduled-events-core` directly.
//!
//! How to read this crate:
//!
//! * `boundary.rs`, `pointers.rs`, `struct_size.rs` and `tagged.rs` are the four mechanisms of the ABI: catch panics, check
//!   what C passes, read structs that grow, keep Rust values in the caller's memory.
//! * Every other file is one object of the header. A function checks its arguments, calls core and copies the result into
//!   a plain struct. It decides nothing and allocates nothing.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// Every function has the same safety requirement, the conventions of the header. The comments here become the header's,
// so they are written for C.
#![allow(clippy::missing_safety_doc, clippy::doc_markdown)]
// Types and constants have their C names. A constant's name starts with its enumeration's, so glob imports are safe.
#![allow(non_camel_case_types, clippy::enum_glob_use)]

mod boundary;
#[macro_use]
mod pointers;
mod struct_size;
mod tagged;

mod approval;
mod document;
mod error;
mod event;
mod json;
mod member;
mod names;
mod policy;
mod problem;
mod record;
mod session;
mod snapshot;
mod spot;
mod status;
mod step;
mod terminate;
mod text;
mod time;
mod tracker;
mod version;
mod words;

#[cfg(test)]
mod abi_tests;

pub use approval::*;
pub use document::*;
pub use error::*;
pub use event::*;
pub use member::*;
pub use names::*;
pub use pointers::Flag;
pub use policy::*;
pub use problem::*;
pub use record::*;
pub use session::*;
pub use snapshot::*;
pub use spot::*;
pub use status::*;
pub use step::*;
pub use terminate::*;
pub use text::*;
pub use time::*;
pub use tracker::*;
pub use version::*;
pub use words::*;
