//! Nodes and Leases against a Kubernetes API server: the imitation of this folder, or with
//! `KUBERNETES_TEST_CONFIG` (a kubeconfig with all rights) a real one. `run` starts a real one
//! where it can.

mod advice;
mod check;
mod cluster;
mod conditions;
mod end_to_end;
mod fake;
mod gate;
mod leases;
mod manifests;
mod nodes;
mod own_node;
mod probe;
mod serve;

scheduled_events_test_support::nothing_is_left_over!();
