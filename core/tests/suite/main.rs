//! Core's integration tests, in one program so that they link once. Each module has one subject.

mod batches;
mod common;
mod conformance;
mod corpus;
mod field_faults;
mod invariants;
mod meanwhile;
mod notifications;
mod notified;
mod policy_table;
mod reference;
mod scenarios;
mod session;
mod spot;
mod terminate;
mod views;
mod words;
