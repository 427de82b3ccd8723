//! A fleet in one process: up to a thousand machines with the session and the daemon that ship, in
//! virtual time.
//!
//! `make scale-fleet` runs it. The seed determines how the machines, the engine and the metadata
//! service fail. The same seed gives the same faults; steps that are due at the same time can run
//! in another order.
//!
//! `random`: numbers. `world`: the true state, and the invariants. `engine` and `service`: the
//! services that the machines talk to. `machine`: a machine. `fleet`: all together. `crowd`: many
//! daemons without sessions. `marks`: the marks of one large event. `page`: the table and the picture of `docs/inside/performance.md`.

mod crowd;
mod engine;
mod fleet;
mod machine;
mod marks;
mod page;
mod random;
mod service;
mod world;

use std::time::{Duration, Instant};

use fleet::{Fleet, Outcome, Setup, Totals};

/// The number of seeds to try. `SEEDS=…` changes it, and `SEED=…` tries one.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    number("SEED").map_or_else(
        || 0..number("SEEDS").unwrap_or(usual),
        |seed| seed..seed + 1,
    )
}

#[test]
fn fleets_with_faults() {
    let mut total = Totals::default();
    let started = Instant::now();
    for seed in seeds(100) {
        let outcome = Fleet::run(&Setup::random(seed));
        assert!(
            outcome.violations.is_empty(),
            "SEED={seed}: {:#?}",
            outcome.violations
        );
        total.add(&outcome);
    }
    println!("{total} ({:.0} s)", started.elapsed().as_secs_f64());
}

/// A check that cannot fail proves nothing. The model shows the same for S2, S3 and S4, which break
/// too seldom here.
#[test]
fn plain_writes_are_found() {
    // With the decision in the register of the marks, a late mark overwrites it.
    let setup = |seed| Setup {
        has_plain_writes: true,
        has_parts: false,
        ..Setup::random(seed)
    };
    let is_found = |seed| {
        Fleet::run(&setup(seed))
            .violations
            .iter()
            .any(|found| found.contains(": S1: "))
    };
    assert!(
        (0..400).any(is_found),
        "plain writes were not found to break S1"
    );
}

/// Runs one event of all machines, without faults.
fn measure(machines: usize, seed: u64, has_parts: bool) -> Outcome {
    let started = Instant::now();
    let outcome = Fleet::run(&Setup {
        has_parts,
        ..Setup::one_event(machines, seed)
    });
    assert!(
        outcome.violations.is_empty(),
        "{machines} machines: {:#?}",
        outcome.violations
    );
    println!(
        "{machines} machines, parts {has_parts}: {outcome:?} ({:.1} s)",
        started.elapsed().as_secs_f64()
    );
    outcome
}

#[test]
fn operations_grow_with_the_number_of_machines_and_no_faster() {
    let small = measure(10, 1, true);
    let large = measure(150, 1, true);
    let per_machine = |outcome: &Outcome, machines: u64| outcome.on_events.operations() / machines;
    assert!(
        per_machine(&large, 150) <= 3 * per_machine(&small, 10).max(8),
        "{large:?}"
    );
    is_approved_soon(&large);
}

/// At most a second after the last machine is ready, also with a thousand machines.
fn is_approved_soon(outcome: &Outcome) {
    let latency = outcome.ready_to_approved.expect("it was approved");
    assert!(latency <= Duration::from_secs(1), "{latency:?}");
}

/// All machines mark themselves, take their slots and free them at once, each kind in one register.
#[test]
fn few_changes_of_a_common_register_are_refused() {
    let outcome = measure(300, 1, false);
    assert!(outcome.on_events.conflicts <= 2 * 300, "{outcome:?}");
    assert!(outcome.on_groups.conflicts <= 2 * 300, "{outcome:?}");
}

/// An idle machine costs the same, however many there are.
#[test]
fn ten_thousand_idle_machines_cost_no_more_each_than_ten() {
    let largest = crowd::most_machines().min(10_000);
    let time = Duration::from_secs(90);
    let costs = [10, 100, 1000, largest].map(|machines| {
        let count = crowd::idle(machines, time);
        println!(
            "{machines} idle machines for {} s: {count:?}",
            time.as_secs()
        );
        assert_eq!((count.reads, count.lists), (0, 0), "{machines} machines");
        (machines as u64, count)
    });
    let (few, least) = costs[0];
    for (machines, count) in costs {
        for (what, many, few) in [
            ("requests", count.operations() * few, least.operations()),
            ("bytes", count.bytes * few, least.bytes),
        ] {
            // Within 10 %.
            let few = few * machines;
            assert!(
                many.abs_diff(few) * 10 <= few,
                "{machines} machines: {what}: {many} instead of {few}"
            );
        }
    }
}

/// This many events of one machine each, all at once in one group, of which ten machines may be out
/// of service.
fn measure_queue(machines: usize) -> crowd::Queue {
    let started = Instant::now();
    let queue = crowd::queue(machines, 10);
    assert!(
        queue.violations.is_empty(),
        "{machines} machines: {:#?}",
        queue.violations
    );
    let (operations, bytes) = (queue.operations(), queue.bytes());
    println!(
        "{machines} events at once: the last one is over after {:.0} s; {} questions, {operations} operations, {} of them refused, {bytes} \
         bytes; one went {} places later than by its NotBefore ({:.1} s)",
        queue.duration.as_secs_f64(),
        queue.questions,
        queue.on_groups.conflicts,
        queue.overtaken,
        started.elapsed().as_secs_f64()
    );
    queue
}

/// The more events there are, the longer the last one waits: if each asked the store all the time,
/// the operations would grow with the square of their number.
#[test]
fn the_operations_of_many_events_at_once_do_not_grow_with_the_square_of_their_number() {
    let [small, large] = [(50, 4_000), (200, 30_000)].map(|(machines, most)| {
        let queue = measure_queue(machines);
        assert!(
            queue.operations() <= most.min(4 * queue.questions),
            "{machines} machines, at most {most}: {queue:?}"
        );
        // Events that were announced together do not ask the store together.
        assert!(
            queue.on_groups.conflicts <= machines as u64,
            "{machines} machines: {queue:?}"
        );
        queue
    });
    let (few, many) = (
        small.bytes() * large.questions,
        large.bytes() * small.questions,
    );
    // Only the machine that is next reads all machines with each heartbeat, however many wait.
    assert!(
        many <= 2 * few,
        "bytes for each question: {small:?} {large:?}"
    );
}

/// It takes five minutes: each machine reads its audit file four times a second.
#[test]
#[ignore = "its figures are in docs/inside/performance.md: make performance-fleet"]
fn performance_of_a_thousand_events_at_once() {
    assert!(
        crowd::most_machines() >= 1000,
        "so many files may not be open"
    );
    let queue = measure_queue(1000);
    assert!(queue.operations() <= 300_000, "{queue:?}");
}

#[test]
#[ignore = "it writes the figures of docs/inside/performance.md: make performance-fleet"]
fn performance() {
    let mut rows = Vec::new();
    for machines in [1, 10, 100, 1000] {
        let seeds = if machines <= 100 { 1..=5 } else { 1..=1 };
        let outcomes: Vec<_> = seeds.map(|seed| measure(machines, seed, true)).collect();
        if machines == 1000 {
            outcomes.iter().for_each(is_approved_soon);
        }
        rows.push((machines, outcomes));
        page::write(&rows);
    }
}

/// Why an engine keeps the marks of large events in registers of their own. `MACHINES=3000` tries
/// that many; in one register that may take an hour.
#[test]
#[ignore = "its figures are in docs/inside/performance.md: make performance-fleet"]
fn performance_of_the_marks_of_one_event() {
    let wanted = std::env::var("MACHINES").unwrap_or("64 300 1000".to_owned());
    for machines in wanted.split_whitespace() {
        let machines = machines.parse().expect("a number");
        for has_parts in [false, true] {
            println!("{}", marks::measure(machines, has_parts));
        }
    }
}
