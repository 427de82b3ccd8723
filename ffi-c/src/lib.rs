//! The C library `libscheduled_events`: `scheduled-events-core` with a C ABI.
//!
//! C programs include `include/scheduled_events.h`, which is generated from the comments and declarations here. Its opening
//! comment states the conventions that every function keeps. Rust programs use `scheduled-events-core` directly.
//!
//! How to read this crate:
//!
//! * `boundary.rs` and the files of `abi/` are the mechanisms of the ABI: catch panics, check what C passes, read structs that
//!   grow, keep Rust values in the caller's memory.
//! * Every other file or folder is one object of the header. A function checks its arguments, calls core and copies the result into
//!   a plain struct. It decides nothing and allocates nothing.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// Every function has the same safety requirement, the conventions of the header. The comments here become the header's,
// so they are written for C.
#![allow(clippy::missing_safety_doc, clippy::doc_markdown)]
// Types and constants have their C names. A constant's name starts with its enumeration's, so glob imports are safe.
#![allow(non_camel_case_types, clippy::enum_glob_use)]

mod boundary;
#[macro_use]
mod abi;

mod approval;
mod document;
mod error;
mod json;
mod names;
mod notification;
mod policy;
mod record;
mod session;
mod spot;
mod status;
mod terminate;
mod text;
mod time;
mod tracker;
mod words;

pub use abi::pointers::Flag;
pub use abi::version::*;
pub use approval::*;
pub use document::event::*;
pub use document::member::*;
pub use document::problem::*;
pub use document::*;
pub use error::*;
pub use names::*;
pub use notification::*;
pub use policy::*;
pub use record::*;
pub use session::notified::*;
pub use session::snapshot::*;
pub use session::step::*;
pub use session::waiting::*;
pub use session::*;
pub use spot::*;
pub use status::*;
pub use terminate::*;
pub use text::*;
pub use time::*;
pub use tracker::*;
pub use words::*;
