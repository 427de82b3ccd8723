//! Core and other parsers, each reading every field of a document into the same checksum.

mod c;
pub mod core;
mod jiter;
mod serde;

use crate::documents::{Form, Size};

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

/// All competitors, core first, and a line for each that is missing, with how to install it.
pub fn all() -> (Vec<Competitor>, Vec<&'static str>) {
    let mut competitors = vec![core::COMPETITOR, core::TWICE];
    competitors.extend(serde::COMPETITORS);
    competitors.push(jiter::COMPETITOR);
    let mut absent = Vec::new();
    c::list(&mut competitors, &mut absent);
    (competitors, absent)
}
