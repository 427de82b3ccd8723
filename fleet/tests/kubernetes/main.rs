//! Nodes and Leases against a Kubernetes API server: the fake one of this folder, or with `KUBERNETES_TEST_CONFIG` (a
//! kubeconfig with all rights) a real cluster.

mod cluster;
mod end_to_end;
mod fake;
mod leases;
mod manifests;
mod nodes;
mod serve;
