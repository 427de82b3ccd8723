//! `check node`: whether the node exists, and each right of the hooks.

use std::collections::BTreeSet;
use std::process::Command;

use scheduled_events_gate::engine::kubernetes::rights as rights_to_leases;
use scheduled_events_node::check::rights as rights_to_node;
use scheduled_events_node::config::Config;
use scheduled_events_test_support::wait;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::chart::{Access, rights};
use crate::fake::{Fault, FaultKind};

/// The lines that are no `ok`: check, what was found, what to do.
type Bad = Vec<(String, String, String)>;

/// The exit code, the number of lines that are `ok`, and the others.
fn check(command: &mut Command) -> (i32, usize, Bad) {
    let output = wait::output(command);
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut good, mut bad) = (0, Vec::new());
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let member = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        match member("outcome").as_str() {
            "ok" => good += 1,
            outcome => {
                assert_eq!(outcome, "fail", "{line}");
                bad.push((member("check"), member("found"), member("do")));
            }
        }
    }
    (output.status.code().unwrap(), good, bad)
}

fn node(cluster: &Cluster) -> (i32, usize, Bad) {
    check(&mut cluster.fleet(&["check", "node", "--json"]))
}

#[test]
fn the_rights_that_are_checked_are_those_of_the_chart() {
    let all = |config: &str| -> BTreeSet<_> {
        let config = Config::parse(config).unwrap();
        let rights = rights_to_node(&config.node, "web-0")
            .into_iter()
            .chain(rights_to_leases("scheduled-events"));
        let three = |verb: &str, group: &str, resource: &str| {
            (verb.to_owned(), group.to_owned(), resource.to_owned())
        };
        rights
            .map(|right| three(right.verb, right.group, right.resource))
            .collect()
    };
    assert_eq!(all(""), rights(Access::Chart));
    let force = "node = { at_deadline = \"force\" }";
    assert_eq!(all(force), rights(Access::ChartWithAll));
}

#[test]
fn an_agent_with_all_rights_passes() {
    let cluster = Cluster::start();
    cluster.configure("");
    assert_eq!(node(&cluster), (0, 8, vec![]));
    let output = wait::output(&mut cluster.fleet(&["check"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with(&format!(
            "ok  node   {} exists\nok  right  get nodes ",
            cluster.node
        )) && text.contains("\nok  right  create pods/eviction\n")
            && text.ends_with("\n8 checks, 0 failures, 0 warnings\n"),
        "{text}"
    );
}

#[test]
fn a_right_that_is_missing_is_named_with_its_rule() {
    let cluster = Cluster::with_access(Access::ChartWithoutEvictions);
    cluster.configure("");
    let (code, good, bad) = node(&cluster);
    assert_eq!((code, good, bad.len()), (1, 7, 1), "{bad:?}");
    let (what, found, todo) = &bad[0];
    assert_eq!(what, "right");
    assert!(
        found.starts_with("create pods/eviction: not allowed"),
        "{found}"
    );
    assert_eq!(
        todo,
        "add to its ClusterRole: apiGroups: [\"\"], resources: [pods/eviction], verbs: [create]"
    );
}

#[test]
fn an_agent_without_rights_gets_all_rules() {
    let cluster = Cluster::with_access(Access::None);
    cluster.configure("");
    let (code, good, bad) = node(&cluster);
    assert_eq!((code, good, bad.len()), (1, 0, 8), "{bad:?}");
    let (check, found, _) = &bad[0];
    assert!(
        check == "node" && found.contains(" cannot be read: "),
        "{found}"
    );
    for (check, found, todo) in &bad[1..] {
        assert!(
            check == "right" && found.contains(": not allowed") && todo.contains("apiGroups: ["),
            "{found}: {todo}"
        );
    }
}

#[test]
fn a_drain_by_force_needs_one_more() {
    let cluster = Cluster::start();
    cluster.configure("at_deadline = \"force\"");
    let (code, good, bad) = node(&cluster);
    assert_eq!((code, good, bad.len()), (1, 8, 1), "{bad:?}");
    assert!(bad[0].1.starts_with("delete pods: not allowed"), "{bad:?}");
}

#[test]
fn registers_in_leases_need_rights_in_their_namespace() {
    let cluster = Cluster::with_access(Access::None);
    let text = format!(
        "machine = \"WestNO_0\"\nengine = \"kubernetes\"\nkubernetes = {{ namespace = {:?} }}\nsocket = {:?}\n",
        cluster.agents,
        cluster.folder.path().join("socket"),
    );
    std::fs::write(cluster.folder.path().join("fleet.toml"), text).unwrap();
    let (code, _, bad) = check(&mut cluster.fleet(&["check", "gate", "--json"]));
    assert_eq!(code, 1);
    let checks: Vec<_> = bad.iter().map(|(check, ..)| check.as_str()).collect();
    let right = "right";
    assert_eq!(
        checks,
        ["daemon", "store", right, right, right, right, right]
    );
    let (_, found, todo) = &bad[6];
    let place = format!("in the namespace {}", cluster.agents);
    assert!(
        found.starts_with(&format!("delete leases {place}: not allowed"))
            && todo.starts_with(&format!(
                "add to a Role of it {place}: apiGroups: [coordination.k8s.io]"
            )),
        "{bad:?}"
    );
}

#[test]
fn a_node_that_does_not_exist_and_a_server_that_does_not_answer_are_failures() {
    let cluster = Cluster::imitated();
    cluster.configure("");
    let (code, good, bad) = check(&mut cluster.fleet(&["check", "node", "--json", "--node", "x"]));
    assert_eq!((code, good, bad.len()), (1, 7, 1), "{bad:?}");
    assert_eq!(
        (bad[0].0.as_str(), bad[0].1.as_str()),
        ("node", "there is no node x")
    );

    cluster.fake().add_fault(Fault {
        method: "POST",
        path: "/selfsubjectaccessreviews",
        times: 1,
        kind: FaultKind::Refuse(403, None),
    });
    let (code, good, bad) = node(&cluster);
    assert_eq!((code, good, bad.len()), (1, 1, 1), "{bad:?}");
    assert!(
        bad[0]
            .1
            .starts_with("the API server does not tell whether it allows get nodes"),
        "{bad:?}"
    );

    let none = cluster.folder.path().join("none");
    let mut command = cluster.fleet(&["check", "node", "--json"]);
    let (code, good, bad) = check(command.env("KUBECONFIG", none));
    assert_eq!((code, good, bad.len()), (1, 0, 1), "{bad:?}");
    assert!(
        bad[0].0 == "node" && bad[0].1.contains("no kubeconfig"),
        "{bad:?}"
    );

    let mut command = cluster.fleet(&["check", "node", "--json"]);
    let text = "metadata = \"http://127.0.0.1:1\"\n";
    std::fs::write(cluster.folder.path().join("fleet.toml"), text).unwrap();
    let (code, good, bad) = check(command.env_remove("NODE_NAME"));
    assert_eq!((code, good, bad.len()), (1, 0, 1), "{bad:?}");
    assert!(
        bad[0].1.starts_with("the node's name is unknown"),
        "{bad:?}"
    );
}
