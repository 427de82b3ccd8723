//! A strict reader of JSON (RFC 8259) over bytes that the caller keeps: no storage, no recursion, one pass.
//!
//! `scan` reads objects and arrays, `scalar` strings and numbers, `number` the value of a number, `text` decodes strings,
//! `escape` their escapes, `block` reads many bytes at a time. `fast_path` compares the text with what is expected, and is optional.

mod block;
mod escape;
#[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
pub(crate) mod fast_path;
mod number;
mod scalar;
mod scan;
mod text;

pub(crate) use number::{Integer, integer};
pub(crate) use scalar::Quoted;
pub use scan::MAX_DEPTH;
pub(crate) use scan::{Scanner, Value};
pub use text::Text;
