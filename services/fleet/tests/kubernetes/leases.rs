//! Registers in Leases, beyond the checks of every engine in `tests/suite/conformance.rs`.

use scheduled_events_gate::engine::kubernetes::KubernetesEngine;
use scheduled_events_gate::engine::{Engine, Revision, Swap};

use crate::cluster::Cluster;

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
