//! What the benches share: the documents, whoever reads them, and how they are timed.

pub mod documents;
pub mod follow;
pub mod measure;
pub mod reading;
pub mod report;
pub mod rivals;
pub mod strictness;
