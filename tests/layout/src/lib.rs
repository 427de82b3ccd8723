//! The layout of the repository, as its tests check it: which file imports which, and which crate depends on which.
//!
//! * [`code`]: a source text without comments, texts and tests, as words.
//! * [`imports`]: the files of a crate, and which of them imports which.
//! * [`circles`]: files that import each other in a circle.
//! * [`files`]: what is in the repository's folders.

pub mod circles;
pub mod code;
pub mod files;
pub mod imports;
