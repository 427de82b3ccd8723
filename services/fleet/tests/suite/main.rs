//! Tests that need more than one module: engines against real servers, and the daemon with the
//! command.

mod blob;
mod by_hand;
mod changes;
mod check;
#[path = "../kubernetes/cluster/mod.rs"]
#[allow(dead_code)]
mod cluster;
mod conformance;
mod etcd_access;
#[path = "../kubernetes/fake/mod.rs"]
#[allow(dead_code)]
mod fake;
mod fixture;
mod gate;
mod groups;
mod invalid_marks;
mod last_call;
mod lost_state;
mod members;
mod operator;
mod order;
// It has the fields of all features.
mod secrets;
mod service;
mod slow_machines;
mod take_over;
mod three_machines;

scheduled_events_test_support::nothing_is_left_over!();
