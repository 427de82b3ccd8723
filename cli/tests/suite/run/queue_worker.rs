//! The example `examples/queue-worker` under `run`: three workers that are killed and evicted at
//! random moments.
//!
//! `QUEUE_SECONDS` sets the duration (20), `QUEUE_SEED` the sequence of faults. A seed does not fix
//! how the system schedules processes.

use std::env;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::preempt;
use crate::support::{FakeService, Folder, PATIENCE, Run, VM, command, eventually, quoted, signal};

const WORKERS: usize = 3;

/// A random number generator: `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let text = env::var(name).ok().filter(|text| !text.is_empty());
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

fn start(number: usize, service: &FakeService, queue: &Path, folder: &Folder) -> Run {
    let worker = PathBuf::from("../examples/queue-worker/worker.py")
        .canonicalize()
        .expect("the example");
    let (worker, queue) = (
        worker.to_str().expect("a plain path"),
        queue.to_str().expect("a plain path"),
    );
    let (name, url) = (format!("w{number}"), service.url());
    let resume = format!(
        "python3 {} {} --release {name}",
        quoted(worker),
        quoted(queue)
    );
    let state = folder.path(&format!("{name}.state"));
    let mut command = command(&[
        "run",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--approve",
        "--grace",
        "2s",
        "--state",
        &state,
        "--resume",
        &resume,
        "--",
        "python3",
        worker,
        queue,
        &name,
    ]);
    command.env("WORKER_SECONDS", "0.05");
    Run::start(command)
}

/// The process of a run's worker, if it has one.
fn worker_of(run: &Run) -> Option<u32> {
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a plain name")
        })
        .collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

#[test]
fn three_workers_that_are_killed_and_evicted_lose_no_message() {
    let (seconds, seed) = (setting("QUEUE_SECONDS", 20), setting("QUEUE_SEED", 1));
    let (folder, service, mut random) = (Folder::new(), FakeService::start(), Random(seed));
    let queue = folder.as_path().join("queue");
    for part in ["waiting", "claimed", "done"] {
        std::fs::create_dir_all(queue.join(part)).expect("a folder");
    }
    let mut sent = Vec::new();
    let mut enqueue = |count: u64| {
        for _ in 0..count {
            let name = format!("m{:06}", sent.len());
            let hidden = queue.join(format!(".{name}"));
            std::fs::write(&hidden, format!("text of {name}")).expect("a file");
            std::fs::rename(hidden, queue.join("waiting").join(&name)).expect("a message");
            sent.push(name);
        }
    };
    let mut runs: Vec<_> = (0..WORKERS)
        .map(|number| start(number, &service, &queue, &folder))
        .collect();
    let (mut kills, mut evictions, mut incarnation) = (0, 0, 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let more = random.below(20);
        enqueue(more);
        thread::sleep(Duration::from_millis(random.below(700)));
        let victim = usize::try_from(random.below(3)).expect("a small number");
        match random.below(8) {
            // The worker of an evicted machine stops in time, or the next case cuts it off.
            0 => {
                evictions += 1;
                incarnation += 2;
                service.show(incarnation, &[preempt(&format!("e{evictions}"))]);
                // Not a number of polls: all three may just have ended, and are started again
                // below.
                thread::sleep(Duration::from_millis(random.below(800)));
                service.show(incarnation + 1, &[]);
            }
            1 => signal(runs[victim].id(), Signal::TERM),
            2 | 3 => signal(runs[victim].id(), Signal::KILL),
            _ => {
                // It may have ended just now.
                let pid = worker_of(&runs[victim])
                    .and_then(|worker| rustix::process::Pid::from_raw(worker.cast_signed()));
                let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
            }
        }
        kills += 1;
        for (number, run) in runs.iter_mut().enumerate() {
            if !run.is_running() {
                // As a service manager does.
                *run = start(number, &service, &queue, &folder);
            }
        }
    }
    enqueue(1);
    std::fs::write(queue.join("closed"), "").expect("a file");
    // From here on without faults: all complete the remaining work. A run that was just killed is
    // started again.
    let (mut deadline, mut done) = (Instant::now() + PATIENCE, 0);
    let mut left: Vec<_> = runs.into_iter().enumerate().collect();
    while !left.is_empty() {
        for (number, mut run) in std::mem::take(&mut left) {
            if run.is_running() {
                left.push((number, run));
            } else if run.finish().code != Some(0) {
                left.push((number, start(number, &service, &queue, &folder)));
            }
        }
        let done_by_now = files(&queue.join("done")).len();
        if done_by_now > done {
            (deadline, done) = (Instant::now() + PATIENCE, done_by_now);
        }
        let stderr = || {
            left.iter()
                .map(|(_, run)| run.stderr())
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert!(
            Instant::now() < deadline,
            "{} runs have not ended\n{}",
            left.len(),
            stderr()
        );
        thread::sleep(Duration::from_millis(50));
    }
    eventually("an empty queue", || {
        files(&queue.join("waiting")).is_empty().then_some(())
    });
    let journal = crate::support::lines(queue.join("journal").to_str().expect("a plain path"));
    let again = journal.len() - sent.len();
    println!(
        "queue worker, seed {seed}: {} messages, none lost, {again} begun again after an interruption; {kills} kills, of them {evictions} evictions",
        sent.len()
    );
    assert_eq!(files(&queue.join("done")), sent);
    for name in sent {
        assert_eq!(
            std::fs::read_to_string(queue.join("done").join(&name)).expect("a result"),
            format!("TEXT OF {}", name.to_uppercase())
        );
    }
}
