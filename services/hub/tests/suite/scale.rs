//! Ten thousand open events in one process, and then as many again. It takes minutes in a debug
//! build, so it runs by name.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_test_support::wait;
use serde_json::Value;

use crate::control::Control;
use crate::fixture::{Hub, event_id, resource, row};

const SETS: u32 = 100;
const MACHINES: u32 = 100;

#[test]
#[ignore = "by name: make scale-hub"]
fn ten_thousand_events_are_approved_in_lists_and_forgotten() {
    let control = Control::start();
    let rows = |round: u32, status: &str| -> Vec<Value> {
        let all = (0..SETS).flat_map(|set| (0..MACHINES).map(move |machine| (set, machine)));
        let row = |(set, machine)| {
            let name = format!("set{set}");
            let id = event_id((round * SETS + set) * MACHINES + machine);
            row(
                &resource("virtualMachineScaleSets", &name),
                &id,
                status,
                &[&format!("{name}_{machine}")],
            )
        };
        all.map(row).collect()
    };
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"5s\"");
    hub.approve_unprepared();
    hub.start();
    let process = hub.process.as_ref().expect("it runs").0.id();
    let metric = |name: &str| {
        let text = hub.read("hub.prom");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("scheduled_events_hub_{name} ")))?
            .to_owned();
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    let all = u64::from(SETS * MACHINES);
    let state = || folder_kib(&hub.path("state")) / all;
    let mut peaks = Vec::new();
    for round in 0..2 {
        control.with(|world| world.rows = rows(round, "Scheduled"));
        // Not all, which would take minutes on a busy machine.
        let approved = || metric("approvals_total{result=\"approved\"}");
        let mut approvals = all * u64::from(round);
        while approvals < all * u64::from(round + 1) {
            approvals = patiently("another approval", || {
                approved().filter(|&now| now > approvals)
            });
        }
        let requests = metric("approval_requests_total").expect("a metric");
        let (peak, state_then) = (peak_kib(process) / all, state());
        peaks.push(peak);
        control.with(|world| world.rows = rows(round, "Completed"));
        let mut machines = all + 1;
        while machines > 0 {
            machines = patiently("a machine less", || {
                metric("machines").filter(|&now| now < machines)
            });
        }
        println!(
            "{approvals} events: {requests} requests to approve, {peak} KiB of memory, {state_then} KiB of state and {} ms of the \
             processor a machine",
            processor_ms(process) / approvals
        );
        assert_eq!(approvals, all * u64::from(round + 1));
        assert!(
            peak <= 64 && state_then <= 16,
            "more than a machine may take"
        );
        assert!(
            requests <= approvals / 5,
            "{requests} requests for {approvals} events"
        );
        assert_eq!(state(), 0, "what is kept of machines is removed");
        // The audit files hold little more than one round.
        let ids: HashSet<Value> = (0..SETS * MACHINES)
            .map(|event| event_id(round * SETS * MACHINES + event).into())
            .collect();
        let completed: HashSet<Value> = hub
            .records()
            .into_iter()
            .filter(|record| record["change"] == "completed")
            .map(|mut record| record["event_id"].take())
            .collect();
        assert_eq!(
            ids.difference(&completed).count(),
            0,
            "without a record of their end"
        );
    }
    // Events that are over take no memory, except for the record of the last 20,000 events.
    assert!(peaks[1] <= peaks[0] * 5 / 4, "{peaks:?} KiB a machine");
}

/// Waits four times as long as `wait::until`: ten thousand machines at once keep a busy computer from
/// all else.
fn patiently<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + 4 * wait::LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The peak memory of a process.
fn peak_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let peak = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
    status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .and_then(peak)
        .expect("a size")
}

/// The processor time of a process, which Linux counts in hundredths of a second.
fn processor_ms(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).expect("its status");
    // The name, in parentheses, may have spaces.
    let words = status.rsplit(')').next().expect("words").split_whitespace();
    words
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().expect("a number") * 10)
        .sum()
}

/// The disk space of the files and folders below a folder.
fn folder_kib(folder: &Path) -> u64 {
    let size = |entry: &DirEntry| entry.metadata().map_or(0, |metadata| metadata.blocks() / 2);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| size(&entry) + folder_kib(&entry.path()))
        .sum()
}
