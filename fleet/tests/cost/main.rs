//! What a fleet asks of its store: the daemon that ships, many times in one process, over real sockets to a real etcd, Azurite and a
//! real API server, and in a folder.
//!
//! `make cost-fleet` runs it, and `bench/tables.py fleet` writes the tables of `docs/performance.md`. Requests and bytes are counted,
//! and no times are measured, so a busy machine makes no difference.
//!
//! `meter`: counts. `stores`: the stores, each with a meter in front. `fleet`: the machines.

#[path = "../suite/fixture.rs"]
#[allow(dead_code)]
mod fixture;
mod fleet;
mod meter;
mod stores;

use std::path::Path;
use std::time::Duration;

use fleet::Fleet;
use meter::Count;
use serde_json::{Value, json};
use stores::{Kind, Store};

/// So long an idle fleet is measured: two heartbeats of each machine.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// So many machines an event has, of a group of this many.
const EVENTS: [usize; 3] = [1, 10, 100];

/// Numbers in a variable of the environment, separated by spaces.
fn numbers(name: &str, usual: &[usize]) -> Vec<usize> {
    let text = std::env::var(name).unwrap_or_default();
    let numbers: Vec<_> = text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    if numbers.is_empty() { usual.to_vec() } else { numbers }
}

fn row(kind: Kind, machines: usize, count: &Count) -> Value {
    json!({
        "engine": kind.name(),
        "machines": machines,
        "writes": count.writes,
        "reads": count.reads,
        "lists": count.lists,
        "bytes": count.bytes,
    })
}

/// What an idle fleet asks for in [`IDLE_TIME`].
async fn idle(kind: Kind, machines: usize) -> Value {
    let store = Store::start(kind).await;
    let fleet = Fleet::start(&store, machines, "30s").await;
    let mut windows = 0;
    let count = loop {
        let before = store.count();
        tokio::time::sleep(IDLE_TIME).await;
        let count = store.count() - before;
        println!("{}, {machines} idle machines: {count:?}", kind.name());
        if (count.writes, count.reads, count.lists) == (2 * machines as u64, 0, 0) {
            break count;
        }
        // On a busy machine something of the start is late, or a heartbeat.
        windows += 1;
        assert!(windows < 5, "found {count:?}, expected two heartbeats of each machine and nothing else");
    };
    drop(fleet);
    row(kind, machines, &count)
}

/// What one event asks for, from the first question until the last slot is free.
async fn events(kind: Kind) -> Vec<Value> {
    let store = Store::start(kind).await;
    let group = EVENTS.into_iter().max().expect("an event");
    // No heartbeat comes between.
    let fleet = Fleet::start(&store, group, "10m").await;
    let mut rows = Vec::new();
    for machines in EVENTS {
        let before = store.count();
        fleet.have_event(machines).await;
        let count = store.count() - before;
        println!("{}, an event of {machines} of {group} machines: {count:?}", kind.name());
        let mut row = row(kind, machines, &count);
        row["group"] = json!(group);
        rows.push(row);
    }
    rows
}

#[test]
#[ignore = "it takes minutes, and writes the figures of docs/performance.md: make cost-fleet"]
fn cost() {
    let wanted = std::env::var("ENGINES").unwrap_or_default();
    let is_wanted = |kind: &Kind| wanted.trim().is_empty() || wanted.split_whitespace().any(|name| name == kind.name());
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(is_wanted).filter(|kind| kind.is_here()).collect();
    let sizes = numbers("MACHINES", &[10, 100]);
    let (mut idle_rows, mut event_rows) = (Vec::new(), Vec::new());
    for kind in kinds {
        // Nothing is timed, so fleets of several sizes can run side by side.
        std::thread::scope(|scope| {
            let run = |&machines: &usize| scope.spawn(move || fixture::block_on(idle(kind, machines)));
            let running: Vec<_> = sizes.iter().map(run).collect();
            idle_rows.extend(running.into_iter().map(|thread| thread.join().expect("figures")));
        });
        event_rows.extend(fixture::block_on(events(kind)));
    }
    let report = json!({
        "date": jiff::Timestamp::now().strftime("%F").to_string(),
        "seconds": IDLE_TIME.as_secs(),
        "idle": idle_rows,
        "events": event_rows,
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/performance");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("fleet.json"), format!("{report:#}\n")).expect("written");
}

scheduled_events_test_support::nothing_is_left_over!();
