//! The session, subject by subject.

mod advice;
mod approvals;
mod clock;
mod documents;
mod gate;
mod host;
mod machine;
mod pacing;
mod restart_table;
mod retries;
mod versions;
mod waiting;
