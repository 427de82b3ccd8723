//! Registers in Leases, beyond the checks of every engine in `tests/suite/conformance.rs`.

use std::process::Stdio;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use scheduled_events_gate::engine::kubernetes::KubernetesEngine;
use scheduled_events_gate::engine::{Engine, Revision, Swap};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::cluster::{Cluster, text};

/// Runs a check with an engine of the cluster.
fn with_engine(check: impl AsyncFnOnce(KubernetesEngine)) {
    let cluster = Cluster::start();
    let client = cluster.agent_client();
    block_on(async {
        check(KubernetesEngine::new(
            client.await,
            Some(cluster.agents.clone()),
        ))
        .await;
    });
}

fn block_on(check: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(check);
}

fn done(swap: Swap) -> Revision {
    match swap {
        Swap::Done(revision) => revision,
        Swap::Conflict => panic!("a conflict"),
    }
}

#[test]
fn registers_are_listed_page_by_page() {
    with_engine(async |engine| {
        let keys: Vec<_> = (0..230)
            .map(|number| format!("machines/{number:03}"))
            .collect();
        for key in &keys {
            done(engine.swap(key, None, key).await.unwrap());
        }
        let found: Vec<_> = engine
            .list("machines/")
            .await
            .unwrap()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(found, keys);
    });
}

#[test]
fn the_longest_key_and_a_long_value_fit_and_what_is_too_long_is_an_error() {
    with_engine(async |engine| {
        let error = engine
            .swap("events/too-long", None, &"v".repeat(256 * 1024))
            .await
            .unwrap_err();
        assert!(error.0.contains("Too long"), "{error}");
        let key = format!("events/{}", "k".repeat(193));
        done(
            engine
                .swap(&key, None, &"v".repeat(200 * 1024))
                .await
                .unwrap(),
        );
        assert_eq!(
            engine.read(&key).await.unwrap().unwrap().value.len(),
            200 * 1024
        );
    });
}

/// Somebody edits Leases by hand. Their names still say which registers they are.
#[test]
fn a_lease_without_its_key_or_its_label_is_its_register_all_the_same() {
    let cluster = Cluster::start();
    let client = cluster.admin_client();
    block_on(async {
        let client = client.await;
        let leases = Api::<Lease>::namespaced(client.clone(), &cluster.agents);
        let engine = KubernetesEngine::new(client, Some(cluster.agents.clone()));
        let keys = [
            "groups/web",
            "groups/db/zone-1",
            "groups/_",
            "machines/westno_0",
            "machines/-.c3.a4-b",
        ];
        for key in keys {
            done(engine.swap(key, None, key).await.unwrap());
        }
        let listed = async |prefix: &str| {
            let found = engine.list(prefix).await.unwrap().into_iter();
            found
                .map(|(key, register)| (key, register.value))
                .collect::<Vec<_>>()
        };
        let intact = [listed("groups/").await, listed("machines/").await];
        assert_eq!((intact[0].len(), intact[1].len()), (3, 2));
        let edit = async |metadata: Value| {
            for lease in leases.list(&ListParams::default()).await.unwrap() {
                let patch = json!({ "metadata": metadata });
                let name = lease.metadata.name.unwrap();
                let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
                leases.patch(&name, &parameters, &patch).await.unwrap();
            }
        };
        for metadata in [
            json!({ "annotations": { "scheduled-events/key": null } }),
            json!({ "annotations": { "scheduled-events/key": "groups/other" } }),
            json!({ "labels": null }),
        ] {
            edit(metadata.clone()).await;
            assert_eq!(
                [listed("groups/").await, listed("machines/").await],
                intact,
                "{metadata}"
            );
            for key in keys {
                let found = engine.read(key).await.unwrap().expect("a register");
                assert_eq!(found.value, key, "{metadata}");
                // The next write repairs it.
                done(engine.swap(key, Some(&found.revision), key).await.unwrap());
            }
        }
        let labelled = ListParams::default().labels("scheduled-events/register=groups");
        let repaired = leases.list(&labelled).await.unwrap().items;
        assert_eq!(repaired.len(), 3);
        // A Lease of another program, and one whose key cannot be found out.
        let lost = format!(
            "scheduled-events-machines-{}-0123456789abcdef",
            "x".repeat(30)
        );
        for name in ["leader", &lost] {
            let lease = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
            leases.create(&PostParams::default(), &lease).await.unwrap();
        }
        assert_eq!(listed("groups/").await, intact[0]);
        let machines = listed("machines/").await;
        let (key, value) = &machines[2];
        assert_eq!(
            (machines.len(), key.as_str()),
            (3, format!("machines/{}", "x".repeat(30)).as_str())
        );
        assert!(value.contains(&lost), "it is named: {value}");
    });
}

/// An operator sees and deletes what the daemons cannot read.
#[test]
fn a_lease_whose_key_cannot_be_found_out_is_named_and_can_be_deleted() {
    let cluster = Cluster::start();
    let config = format!(
        "machine = \"a\"\nengine = \"kubernetes\"\nkubernetes.namespace = {:?}\n",
        cluster.agents
    );
    std::fs::write(cluster.folder.path().join("fleet.toml"), config).unwrap();
    let fleet = |arguments: &[&str]| {
        let output = wait::output(cluster.fleet(arguments).stdin(Stdio::null()));
        (output.status.code(), text(&output))
    };
    let keys = [
        "events/a-b-c-d-e-f-g-h-i-j",
        "groups/web_",
        "machines/west.no--_-...--_-_-0",
    ];
    block_on(async {
        let client = cluster.admin_client().await;
        let leases = Api::<Lease>::namespaced(client.clone(), &cluster.agents);
        let engine = KubernetesEngine::new(client, Some(cluster.agents.clone()));
        for key in keys {
            let value = r#"{"format":1,"event_type":"Reboot","resources":["a"],"marks":{}}"#;
            done(engine.swap(key, None, value).await.unwrap());
        }
        for lease in leases.list(&ListParams::default()).await.unwrap() {
            let patch = json!({ "metadata": { "annotations": { "scheduled-events/key": null } } });
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
            let name = lease.metadata.name.unwrap();
            leases.patch(&name, &parameters, &patch).await.unwrap();
        }
        // What is left of the other key is the key of this one.
        let intact = r#"{"format":1,"limit":1,"claims":{"e":{"slots":["a"],"by":["a"],"at":1}}}"#;
        done(engine.swap("groups/web", None, intact).await.unwrap());
    });
    let delete = |problem: &str| {
        let key = problem.split_once("delete-register ").expect(problem).1;
        let key = key.split('`').next().expect("a key");
        let (code, output) = fleet(&["delete-register", key]);
        assert_eq!(code, Some(0), "{key}: {output}");
        let expected =
            format!("deleted the register {key}, which was: the Lease scheduled-events-");
        assert!(output.contains(&expected), "{output}");
    };
    let (code, output) = fleet(&["status"]);
    assert_eq!(code, Some(1), "{output}");
    let problems = output
        .lines()
        .filter(|line| line.contains("cannot be read"));
    let problems: Vec<_> = problems.collect();
    assert_eq!(problems.len(), keys.len(), "{output}");
    problems.into_iter().for_each(delete);
    let (code, output) = fleet(&["status"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("web "), "it stays: {output}");
}

/// It is no conflict: nobody else has written.
#[test]
fn a_namespace_that_does_not_exist_is_an_error_that_names_it() {
    let cluster = Cluster::start();
    let client = cluster.admin_client();
    block_on(async {
        let engine = KubernetesEngine::new(client.await, Some("no-such-namespace".into()));
        assert_eq!(engine.read("machines/a").await, Ok(None));
        let error = engine.swap("machines/a", None, "a").await.unwrap_err();
        let expected = "cannot create the Lease of machines/a: namespaces ";
        assert!(
            error.0.starts_with(expected) && error.0.contains("no-such-namespace"),
            "{error}"
        );
    });
}
