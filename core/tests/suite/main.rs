//! Core's integration tests, in one program so that they link once. Each module has one subject.

mod batches;
mod common;
mod conformance;
mod corpus;
mod field_faults;
mod invariants;
mod policy_table;
mod reference;
mod restart_table;
mod session_approvals;
mod session_documents;
mod session_gate;
mod session_host;
mod session_machine;
mod session_pacing;
mod session_waiting;
mod spot;
mod terminate;
mod views;
mod words;
