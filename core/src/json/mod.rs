//! A strict reader of RFC 8259, over bytes that the caller keeps: no storage, no recursion, one pass.

mod ahead;
mod block;
mod number;
mod scan;
mod text;

pub(crate) use ahead::{Separator, Usual, plain_string_like, short_integer, value};
pub(crate) use block::{PlainEnds, WORDS_ARE_WIDE};
pub(crate) use number::{Integer, integer};
pub use scan::MAX_DEPTH;
pub(crate) use scan::{Quoted, Scanner, Value};
pub use text::Text;
