//! Kills at random moments: nothing is lost, and repetitions are counted.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::audit_file::change;
use crate::receiver::{Answer, Receiver};
use crate::support::{Fixture, target};

/// How often the process is killed.
const KILLS: u64 = 25;

#[test]
fn nothing_is_lost_when_the_process_is_killed() {
    let fixture = Fixture::new();
    // A slow server that sometimes fails, so that kills hit requests in flight.
    let server = Receiver::start(|_, count| {
        thread::sleep(Duration::from_millis(5));
        Some(Answer::status(if count % 13 == 7 { 503 } else { 200 }))
    });
    fixture.configure(&target("hook", "webhook", &server.url("/"), ""));
    let mut audit = fixture.audit();
    audit.size_max = 20_000;
    let mut written = 0;
    // Any sequence serves that differs from kill to kill.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..KILLS {
        let relay = fixture.start();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        for _ in 0..8 {
            written += 1;
            audit.append(&change("scheduled", written));
        }
        thread::sleep(Duration::from_millis(random % 300));
        relay.kill();
    }
    let relay = fixture.start();
    let received = server.wait("the last record", |received| {
        received.last().is_some_and(|received| {
            received.status == 200 && received.json()["sequence"] == written
        })
    });
    relay.terminate();
    let mut counts = BTreeMap::new();
    let mut newest = 0;
    for received in received.iter().filter(|received| received.status == 200) {
        let sequence = received.json()["sequence"].as_u64().unwrap();
        *counts.entry(sequence).or_insert(0_u64) += 1;
        // In order: a record follows its predecessor, or is repeated after a kill.
        assert!(sequence <= newest + 1, "{sequence} after {newest}");
        newest = newest.max(sequence);
    }
    assert_eq!(
        counts.keys().copied().collect::<Vec<_>>(),
        (1..=written as u64).collect::<Vec<_>>()
    );
    let repeated: u64 = counts.values().map(|count| count - 1).sum();
    println!("{written} records, {KILLS} kills, {repeated} repeated");
    // A kill repeats at most the one request whose acceptance was not saved.
    assert!(repeated <= KILLS, "{repeated}");
}
