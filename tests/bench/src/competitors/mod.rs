//! Core and other parsers, each reading every field of a document into the same checksum. `all` lists them.

mod all;
mod c;
pub mod core;
mod jiter;
mod serde;

use crate::documents::{Form, Size};
pub use all::all;

/// A parser to compare.
pub struct Competitor {
    pub name: &'static str,
    pub version: &'static str,
    /// How it is set up, and where that is an advantage.
    pub note: &'static str,
    /// Prepares for one document, outside the measured time; `None` if it cannot read such a document at all.
    pub prepare: fn(&[u8], Size, Form) -> Option<Reader>,
}

/// Reads the document once and returns its checksum, or `None` if the parser rejects the document.
pub type Reader = Box<dyn FnMut() -> Option<u64>>;
