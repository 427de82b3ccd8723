//! The load that a fleet puts on its store: the daemon that ships, many times in one process, over
//! real sockets to a real etcd, Azurite and a real API server, and in a folder.
//!
//! `make cost-fleet` runs it, and `tests/bench/tables.py` writes the tables of
//! `docs/inside/performance.md`. It counts requests and bytes, and measures only processor time, so a busy
//! machine makes little difference.
//!
//! `meter`: counts. `processor`: processor time. `stores`: the stores, each counted by a meter.
//! `fleet`: the machines.

#[path = "../suite/fixture.rs"]
#[allow(dead_code)]
mod fixture;
mod fleet;
mod meter;
mod processor;
mod stores;

use std::path::Path;
use std::time::Duration;

use fleet::Fleet;
use meter::Count;
use serde_json::{Value, json};
use stores::{Kind, Store};

/// How long an idle fleet is measured: two heartbeats of each machine.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The numbers of machines of the events.
const EVENTS: [usize; 3] = [1, 10, 100];

/// How many reads of registers are still fast enough: the machines of an event read all machines'
/// registers.
const READS_MAX: usize = 200_000;

/// Numbers in an environment variable, separated by spaces.
fn numbers(name: &str, usual: &[usize]) -> Vec<usize> {
    let text = std::env::var(name).unwrap_or_default();
    let numbers: Vec<_> = text
        .split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect();
    if numbers.is_empty() {
        usual.to_vec()
    } else {
        numbers
    }
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

/// The requests of an idle fleet in [`IDLE_TIME`].
async fn idle(kind: Kind, machines: usize) -> Value {
    let store = Store::start(kind).await;
    let fleet = Fleet::start(&store, machines, "30s").await;
    let mut windows = 0;
    let (count, [of_daemons, of_store]) = loop {
        let (before, daemons, server) = (
            store.count(),
            processor::of_this_thread(),
            store.processor_time(),
        );
        tokio::time::sleep(IDLE_TIME).await;
        let count = store.count() - before;
        let times = [
            (processor::of_this_thread(), daemons),
            (store.processor_time(), server),
        ];
        let times = times.map(|(now, before)| now.saturating_sub(before));
        println!(
            "{}, {machines} idle machines: {count:?}, processor {times:?}",
            kind.name()
        );
        if (count.writes, count.reads, count.lists) == (2 * machines as u64, 0, 0) {
            break (count, times);
        }
        // On a busy machine a part of the start, or a heartbeat, is late.
        windows += 1;
        assert!(
            windows < 5,
            "found {count:?}, expected two heartbeats of each machine and nothing else"
        );
    };
    drop(fleet);
    let mut row = row(kind, machines, &count);
    row["daemons_ms"] = json!(of_daemons.as_secs_f64() * 1000.0);
    row["store_ms"] = json!(of_store.as_secs_f64() * 1000.0);
    row
}

/// The requests for events of a group of this many machines, each from the first question until the
/// last slot is free.
async fn events(kind: Kind, group: usize) -> Vec<Value> {
    // Blob storage has one request for each, and the API server sends 1.6 KB: all daemons of this
    // process read them on one thread.
    let is_cheap = matches!(kind, Kind::Etcd | Kind::Folder);
    let is_worth_it = |&machines: &usize| is_cheap || machines * group <= READS_MAX;
    let (sizes, left_out): (Vec<_>, Vec<_>) = EVENTS
        .into_iter()
        .filter(|&size| size <= group)
        .partition(is_worth_it);
    for machines in left_out {
        println!(
            "NOT RUN {}: an event of {machines} of {group} machines reads each register so many times",
            kind.name()
        );
    }
    let store = Store::start(kind).await;
    // No heartbeat comes between. Machines without an event are only registers.
    let daemons = sizes.iter().copied().max().expect("an event");
    let fleet = Fleet::start(&store, daemons, "10m").await;
    fleet.add_registers(group).await;
    let mut rows = Vec::new();
    for machines in sizes {
        let before = store.count();
        fleet.have_event(machines).await;
        let count = store.count() - before;
        println!(
            "{}, an event of {machines} of {group} machines: {count:?}",
            kind.name()
        );
        let mut row = row(kind, machines, &count);
        row["group"] = json!(group);
        rows.push(row);
    }
    rows
}

/// Runs the work for all sizes in parallel, since nothing depends on how long it takes.
fn side_by_side<T: Send>(sizes: &[usize], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = sizes
            .iter()
            .map(|&size| scope.spawn(move || work(size)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("figures"))
            .collect()
    })
}

#[test]
#[ignore = "it takes minutes, and writes the figures of docs/inside/performance.md: make cost-fleet"]
fn cost() {
    let wanted = std::env::var("ENGINES").unwrap_or_default();
    let is_wanted = |kind: &Kind| {
        wanted.trim().is_empty() || wanted.split_whitespace().any(|name| name == kind.name())
    };
    let kinds: Vec<_> = Kind::ALL
        .into_iter()
        .filter(is_wanted)
        .filter(|kind| kind.is_here())
        .collect();
    let (sizes, groups) = (
        numbers("MACHINES", &[10, 100, 1000]),
        numbers("GROUP_SIZES", &[10, 1000, 10_000]),
    );
    let (mut idle_rows, mut event_rows) = (Vec::new(), Vec::new());
    for kind in kinds {
        idle_rows.extend(side_by_side(&sizes, |machines| {
            fixture::block_on(idle(kind, machines))
        }));
        event_rows
            .extend(side_by_side(&groups, |group| fixture::block_on(events(kind, group))).concat());
    }
    let report = json!({
        "date": jiff::Timestamp::now().strftime("%F").to_string(),
        "seconds": IDLE_TIME.as_secs(),
        "idle": idle_rows,
        "events": event_rows,
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/performance");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("fleet.json"), format!("{report:#}\n")).expect("written");
}

scheduled_events_test_support::nothing_is_left_over!();
