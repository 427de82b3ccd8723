//! The command `check`: whether the node exists, and whether the API server allows what `drain`, `uncordon` and `announce` do. Nothing
//! is changed.

use scheduled_events_common::rights::{Right, check_rights};
use scheduled_events_text::finding::Finding;

use crate::api::{NodeApi, NodeError};
use crate::config::{AtDeadline, Config, NodeConfig};
use crate::name::node_name;

/// The namespace of Events about nodes.
const EVENTS: &str = "default";

/// What was found of this machine's node.
pub async fn check(config: &Config, node: Option<&str>) -> Vec<Finding<String>> {
    let failed =
        |found: String, advice: &str| vec![Finding::fail("node".to_owned(), found, advice)];
    let name = match node_name(node, config).await {
        Ok(name) => name,
        Err(error) => return failed(error.to_string(), "set `node.name`"),
    };
    let api = match NodeApi::connect(&name).await {
        Ok(api) => api,
        Err(error) => {
            let advice = "run it in the pod, or with the kubeconfig of the hooks";
            return failed(error.to_string(), advice);
        }
    };
    let mut findings = match api.get().await {
        Ok(_) => vec![Finding::ok("node".to_owned(), format!("{name} exists")).naming([&name])],
        Err(NodeError::NotFound) => failed(
            format!("there is no node {name}"),
            "use --node, NODE_NAME or `node.name`; kubectl get nodes lists the names",
        ),
        Err(error) => failed(
            format!("{name} cannot be read: {error}"),
            "see the rights below; without any, the credential or the server's address is wrong",
        ),
    };
    findings.extend(check_rights(api.client(), &rights(&config.node, &name)).await);
    findings
}

/// What the hooks need with this configuration.
pub fn rights(config: &NodeConfig, node: &str) -> Vec<Right> {
    let mut rights = vec![
        Right::new("get", "", "nodes").of(node),
        Right::new("patch", "", "nodes").of(node),
        Right::new("patch", "", "nodes/status").of(node),
        Right::new("list", "", "pods"),
        Right::new("watch", "", "pods"),
        Right::new("create", "", "pods/eviction"),
    ];
    if config.at_deadline == AtDeadline::Force {
        rights.push(Right::new("delete", "", "pods"));
    }
    rights.push(Right::new("create", "events.k8s.io", "events").within(EVENTS));
    rights
}
