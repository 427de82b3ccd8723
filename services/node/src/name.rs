//! Finds this machine's node.

use std::error::Error;
use std::fmt;

use crate::config::Config;
use scheduled_events_common::metadata::{self, Compute, MetadataError};

/// The node's name is not configured, and the metadata service has no answer.
#[derive(Debug)]
pub struct NameUnknown(pub MetadataError);

impl fmt::Display for NameUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the node's name is unknown: use --node, NODE_NAME, or `node.name` in the configuration ({})",
            self.0
        )
    }
}

impl Error for NameUnknown {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// The name of this machine's node: from the command line, the environment variable `NODE_NAME`,
/// the configuration, the machine's name, or instance metadata.
///
/// # Errors
/// There is none of these.
pub async fn node_name(argument: Option<&str>, config: &Config) -> Result<String, NameUnknown> {
    let given = argument.map(str::to_owned).or_else(|| {
        std::env::var("NODE_NAME")
            .ok()
            .filter(|name| !name.is_empty())
    });
    let known = given
        .or_else(|| config.node.name.clone())
        .or_else(|| config.machine.as_deref().map(node_of_machine));
    if let Some(known) = known {
        return Ok(known);
    }
    let compute = metadata::compute(&config.metadata).await;
    compute.map(|found| node_of(&found)).map_err(NameUnknown)
}

/// The node of a machine as instance metadata describes it.
fn node_of(compute: &Compute) -> String {
    match compute.os_profile.computer_name.as_str() {
        "" => node_of_machine(&compute.name),
        computer_name => computer_name.to_ascii_lowercase(),
    }
}

/// The node of the machine with this name, as Azure names nodes: the host name in lower case. An
/// instance of a scale set, `aks-pool-12-vmss_41`, has the host name `aks-pool-12-vmss000015`: the
/// number in base 36, with six digits.
pub fn node_of_machine(machine: &str) -> String {
    let instance = machine
        .rsplit_once('_')
        .and_then(|(set, number)| Some((set, number.parse::<u32>().ok()?)));
    match instance {
        Some((set, number)) => format!("{set}{}", base_36(number)).to_ascii_lowercase(),
        None => machine.to_ascii_lowercase(),
    }
}

fn base_36(mut number: u32) -> String {
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the guide: the kind of machine, its name in events, and its node's name.
    #[test]
    fn the_guide_has_these_names() {
        let page = include_str!("../../../docs/run/kubernetes.md");
        let (_, table) = page
            .split_once("| machine | name in events | host name |")
            .expect("the table");
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let names = rows.map(|row| row.split('`').skip(1).step_by(2).collect::<Vec<_>>());
        let mut derived = 0;
        for names in names {
            match names[..] {
                [machine, node] => {
                    assert_eq!(node_of_machine(machine), node);
                    derived += 1;
                }
                // Such a name cannot be derived.
                [_] => {}
                _ => panic!("{names:?}"),
            }
        }
        assert!(derived >= 3, "the table has {derived} names");
    }

    #[test]
    fn instance_metadata_knows_the_host_name() {
        for (answer, node) in [
            (
                r#"{"name":"web_3fa85f64","osProfile":{"computerName":"WEBq7x2ka"}}"#,
                "webq7x2ka",
            ),
            (
                r#"{"name":"aks-pool-12-vmss_41","osProfile":{"adminUsername":"azureuser"}}"#,
                "aks-pool-12-vmss000015",
            ),
            (r#"{"name":"Web-1"}"#, "web-1"),
        ] {
            let compute: Compute = serde_json::from_str(answer).expect("an answer");
            assert_eq!(node_of(&compute), node, "{answer}");
        }
    }

    #[test]
    fn host_names_of_scale_sets_and_of_single_machines() {
        for (machine, node) in [
            ("aks-pool-12-vmss_0", "aks-pool-12-vmss000000"),
            ("aks-pool-12-vmss_9", "aks-pool-12-vmss000009"),
            ("aks-pool-12-vmss_10", "aks-pool-12-vmss00000a"),
            ("aks-pool-12-vmss_41", "aks-pool-12-vmss000015"),
            ("AKS-Pool_35", "aks-pool00000z"),
            ("aks-agentpool-35404701-0", "aks-agentpool-35404701-0"),
            ("Web_Server", "web_server"),
        ] {
            assert_eq!(node_of_machine(machine), node);
        }
    }
}
