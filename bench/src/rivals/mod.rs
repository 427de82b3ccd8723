//! Core and its rivals, each reading every field of a document into the same checksum.

mod c;
pub mod core;
mod jiter;
mod serde;

use crate::documents::{Form, Size};

/// Somebody who reads documents.
pub struct Rival {
    pub name: &'static str,
    pub version: &'static str,
    /// How it was set up, and where that favours it.
    pub note: &'static str,
    /// Gets ready for one document, out of the measured time; `None` where it cannot read such a one at all.
    pub prepare: fn(&[u8], Size, Form) -> Option<Reader>,
}

/// Reads the document once: its checksum, or `None` where the parser says that it is none.
pub type Reader = Box<dyn FnMut() -> Option<u64>>;

/// Everybody, core first; and who is not there, with what to do about it.
pub fn all() -> (Vec<Rival>, Vec<&'static str>) {
    let mut rivals = vec![core::RIVAL, core::TWICE];
    rivals.extend(serde::RIVALS);
    rivals.push(jiter::RIVAL);
    let mut absent = Vec::new();
    c::list(&mut rivals, &mut absent);
    (rivals, absent)
}
