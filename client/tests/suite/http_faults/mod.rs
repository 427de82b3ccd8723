//! Every way in which the metadata service is known to misbehave, met by the real command: nothing ends but what ended,
//! the event is approved exactly once, and what failed is told and repeated.
//!
//! `rows` has what the replay server can do, each row a test and a line of `docs/faults.md`; `by_hand` has what takes a
//! service under a test's hand.

mod by_hand;
mod course;
mod page;
mod row;
mod rows;
