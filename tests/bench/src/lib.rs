//! Shared by the benchmarks: the documents, the readers and the timing.

pub mod competitors;
pub mod documents;
pub mod follow;
pub mod measure;
pub mod reading;
pub mod report;
pub mod strictness;
