//! Documents of ten thousand other machines' events, each one different from the last: the
//! watcher's memory and its state file stay small, and the one event of this machine is handled as
//! if it were alone.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{
    FakeService, Folder, PREPARE_ALL, Reply, Request, Run, VM, freeze, started, with,
};

/// The number of other machines' events in each document.
const CROWD: usize = 10_000;

/// How many of them end, and how many others appear, in each document.
const TURNOVER: usize = 100;

/// The number of documents that differ, each in a poll. The own event may take more polls; their
/// documents have the events of the last.
const POLLS: usize = 12;

/// The most memory that the watcher may use, in KiB.
const MEMORY_MAX_KIB: u64 = 64 << 10;

/// The largest state file, in bytes.
const STATE_MAX: u64 = 1 << 20;

/// The service, with the progress of this machine's event.
#[derive(Default)]
struct Service {
    polls: usize,
    approved: bool,
    approved_at: usize,
}

impl Service {
    fn answer(&mut self, request: &Request, others: &[String]) -> Reply {
        if request.is_post() {
            assert_eq!(request.ids(), ["own"]);
            (self.approved, self.approved_at) = (true, self.polls);
            return Reply::new(200, "", "");
        }
        self.polls += 1;
        let first = self.polls.min(POLLS) * TURNOVER;
        let mut events = others[first..first + CROWD].to_vec();
        // In the middle, so that most of the crowd's events are not before it.
        let own = match self.approved {
            false if self.polls > 2 => Some(freeze("own")),
            true if self.polls <= self.approved_at + 3 => Some(started("own")),
            _ => None,
        };
        events.splice(CROWD / 2..CROWD / 2, own.map(|event| event.to_string()));
        let body = format!(
            r#"{{"DocumentIncarnation":{},"Events":[{}]}}"#,
            self.polls,
            events.join(",")
        );
        Reply::new(200, "", body)
    }
}

/// Events in JSON.
fn others(numbers: Range<usize>) -> Vec<String> {
    let other = |number| {
        let id = format!("C7061BAC-AFDC-4513-B24B-{number:012}");
        with(
            freeze(&id),
            &json!({ "Resources": [format!("WestNO_{}", number + 1)] }),
        )
        .to_string()
    };
    numbers.map(other).collect()
}

/// Lets the command watch the crowd, and checks its resources and its actions.
pub(crate) fn run() {
    let began = Instant::now();
    let folder = Folder::new();
    let state = folder.path("state");
    let fake = FakeService::start();
    fake.forget_requests();
    let (service, others) = (
        Arc::new(Mutex::new(Service::default())),
        others(0..CROWD + POLLS * TURNOVER),
    );
    let shared = Arc::clone(&service);
    fake.intercept(move |request| {
        let is_for_it = request.is_get() || request.is_post();
        is_for_it.then(|| shared.lock().expect("a lock").answer(request, &others))
    });
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let recovered = folder.path("recovered");
    let recover = format!("touch {recovered}");
    let commands = [
        "--policy",
        &policy,
        "--prepare",
        "true",
        "--recover",
        &recover,
        "--state",
        &state,
        "--vm-name",
        VM,
    ];
    let watcher = Run::watch(&fake.url(), &commands);
    // Poll by poll, so that no time limit covers all of them. Records are parsed afterwards, since
    // that takes the watcher's time.
    for poll in 1..=5 * POLLS {
        let polls = || service.lock().expect("a lock").polls;
        crate::support::eventually("the next poll", || (polls() >= poll).then_some(()));
        if poll >= POLLS && Path::new(&recovered).exists() {
            break;
        }
    }
    assert!(Path::new(&recovered).exists(), "no recovery");
    let memory = watcher.memory_peak_kb();
    let size = fs::metadata(&state).expect("a state file").len();
    let status = crate::support::run(&["status", "--json", "--state", &state]).with_code(0);
    watcher.terminate();
    let finished = watcher.finish().with_code(0);
    println!(
        "{CROWD} other machines' events in each of {POLLS} documents, in {} s: {memory} KiB of memory at the peak, {size} bytes of \
         state file",
        began.elapsed().as_secs()
    );
    let own: Vec<_> = finished
        .records()
        .iter()
        .filter(|record| record["event_id"] == "own")
        .map(word)
        .collect();
    assert_eq!(
        own,
        [
            "scheduled",
            "prepare",
            "begun",
            "ready",
            "started",
            "completed",
            "done"
        ]
    );
    assert_eq!(finished.approved(), ["own"]);
    assert!(finished.of_kind("poll-failed").is_empty());
    // Events that ended are followed until that is reported; others take their places in the next
    // document.
    let followed = status.of_kind("status")[0]["events"]
        .as_u64()
        .expect("a number");
    assert!(
        (1024 - TURNOVER as u64..=1024).contains(&followed),
        "{followed} events are followed"
    );
    assert!(memory < MEMORY_MAX_KIB, "{memory} KiB of memory");
    assert!(size < STATE_MAX, "{size} bytes of state file");
}

/// The report of a record about its event.
fn word(record: &Value) -> String {
    let known = ["change", "action", "outcome"]
        .iter()
        .find_map(|name| record[*name].as_str());
    known.unwrap_or_default().to_owned()
}
