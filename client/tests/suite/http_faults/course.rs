//! A row, played: the real command against the replay server, and what came of it.
//!
//! The courses run all at once, since they mostly wait: the first test that asks starts them, and each takes its own.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use scheduled_events::replay::{ReplayEvent, Scenario, Server, ServerConfig};

use super::row::{ALWAYS, Again, Never, Row, SLACK};
use super::rows::ROWS;
use crate::support::{Finished, Folder, PREPARE_ALL, Request, Run, Stage, VM, lines, of_replay};

/// How long an answer, an approval without one, and a busy machine may keep the next poll waiting, beside the pause.
const LONGEST: Duration = Duration::from_secs(30);

/// The first call alone may take two minutes.
const PATIENCE: Duration = Duration::from_secs(240);

/// How a row went.
pub(crate) struct Course {
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    pub(crate) finished: Finished,
    pub(crate) requests: Vec<Request>,
    /// The faults that each of the requests met.
    faults: Vec<String>,
    /// What a server that must not be asked was asked.
    pub(crate) witnessed: Vec<Request>,
    pub(crate) memory_peak_kb: Option<u64>,
    /// The commands that ran.
    ran: Vec<String>,
}

fn play(name: &'static str, row: Row) -> Course {
    let witness = Stage::start();
    let (observer, events) = mpsc::channel();
    let scenario = Scenario::parse(row.scenario).unwrap_or_else(|error| panic!("{error}\n{}", row.scenario));
    let mut config = ServerConfig::new(scenario).speed(60.0).vm_name(VM).observer(observer);
    for fault in row.faults {
        config = config.fault(fault.replace("{witness}", &witness.url()).parse().expect(fault));
    }
    let server = Server::start(config).expect("a port");

    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let log = folder.path("log");
    let prepare = format!("sh -c 'echo prepare >> {log}; sleep 3'");
    let recover = format!("sh -c 'echo recover >> {log}'");
    // The name is given, so that the first request is the first poll.
    let mut arguments = vec!["--vm-name", VM, "--until-idle"];
    arguments.extend(if row.prepares { ["--policy", &policy] } else { ["--policy", "sample"] });
    if row.prepares {
        arguments.extend(["--prepare", &prepare, "--recover", &recover]);
    }
    let mut run = Run::watch(&server.url(), &arguments);
    let measured = row.never.iter().any(|never| matches!(never, Never::HoldMegabytes(_)));
    let memory_peak_kb = measured.then(|| {
        // Everything that was too large has come by then, and the event is not over yet.
        run.record("an approval", |record| record["record"] == "approval" && record["status"] == 200);
        run.memory_peak_kb()
    });
    let finished = run.finish_within(PATIENCE);

    let faults = events.try_iter().filter_map(|event| match event {
        ReplayEvent::Answered { faults, .. } => Some(faults.join(" ")),
        _ => None,
    });
    let (requests, faults) = (of_replay(&server.requests()), faults.collect::<Vec<_>>());
    assert_eq!(requests.len(), faults.len(), "{name}");
    Course { name, row, finished, requests, faults, witnessed: witness.requests(), memory_peak_kb, ran: lines(&log) }
}

/// How the row of this name went, once it is over.
pub(crate) fn course(name: &'static str) -> Course {
    static RUNNING: LazyLock<Mutex<HashMap<&'static str, JoinHandle<Course>>>> = LazyLock::new(|| {
        // Who asks for some tests only shall not leave the other courses behind, running.
        let all = std::env::args().skip(1).all(|argument| argument.starts_with("--"));
        let wanted = ROWS.iter().filter(|_| all);
        Mutex::new(wanted.map(|&(name, row)| (name, thread::spawn(move || play(name, row)))).collect())
    });
    let running = RUNNING.lock().expect("a lock").remove(name);
    let row = || ROWS.iter().find(|(known, _)| *known == name).expect(name).1;
    running.map_or_else(|| play(name, row()), |running| running.join().expect("the course is run"))
}

impl Course {
    /// The faults that a request met, as they are written.
    pub(crate) fn faults_of(&self, index: usize) -> &str {
        &self.faults[index]
    }

    pub(crate) fn posts(&self) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.is_post()).collect()
    }

    /// The polls, with their place among all requests.
    pub(crate) fn gets(&self) -> Vec<(usize, &Request)> {
        self.requests.iter().enumerate().filter(|(_, request)| request.is_get()).collect()
    }

    /// The ids of the events that were told of, in order of the alphabet.
    pub(crate) fn ids(&self) -> Vec<String> {
        let changes = self.finished.of_kind("change");
        let mut ids: Vec<_> = changes.iter().map(|told| told["event_id"].as_str().expect("an id").to_owned()).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Checks all that the row says.
    pub(crate) fn holds(&self) {
        let Self { name, row, finished, .. } = self;
        for never in ALWAYS.iter().chain(row.never) {
            never.check(self);
        }
        assert_eq!(self.ids().len(), row.events, "{name}\n{}", finished.stdout);
        assert_eq!(self.posts().len(), row.posts, "{name}\n{}", finished.stdout);
        assert_eq!(self.ran, row.runs, "{name}");
        for words in row.says {
            assert!(finished.stderr.contains(words), "{name}: {words:?} was not said\n{}", finished.stderr);
        }
        if row.says.is_empty() {
            assert_eq!(finished.stderr, "", "{name}");
        }
        // The faults are not a row's decoration.
        for fault in row.faults {
            let kind = fault.split([':', '@']).next().expect("a kind");
            assert!(self.faults.iter().any(|met| met.contains(kind)), "{name} never met {fault}");
        }
        self.tells_its_failures();
    }

    /// Each failed poll is told with its cause and the time until the next one, and the next one comes then.
    fn tells_its_failures(&self) {
        let Self { name, row, finished, .. } = self;
        let failures = finished.of_kind("poll-failed");
        let mut causes: Vec<_> = failures.iter().map(|failure| failure["cause"].as_str().expect("a word")).collect();
        causes.dedup();
        assert_eq!(causes, row.told, "{name}\n{}", finished.stderr);
        if row.told.is_empty() {
            return;
        }
        let gets = self.gets();
        let hit: Vec<_> = (0..gets.len()).filter(|&poll| !self.faults[gets[poll].0].is_empty()).collect();
        assert_eq!(failures.len(), hit.len(), "{name}: each poll that met a fault failed\n{}", finished.stderr);
        let mut in_a_row = 0;
        for (index, (&poll, failure)) in hit.iter().zip(&failures).enumerate() {
            in_a_row = if index > 0 && hit[index - 1] + 1 == poll { in_a_row + 1 } else { 1 };
            let retry = failure["retry_in_ms"].as_u64().expect("milliseconds");
            let (least, most) = row.again.bounds(in_a_row);
            assert!((least..=most).contains(&retry), "{name}: failure {index}: {failure}, {least} to {most} expected");
            let gap = gets[poll + 1].1.arrived.duration_since(gets[poll].1.arrived);
            let retry = Duration::from_millis(retry);
            assert!(gap + SLACK > retry, "{name}: poll {poll} was followed by another after {gap:?}, not {retry:?}");
            // An approval may come between, and the machine may be busy.
            assert!(gap < retry + LONGEST, "{name}: poll {poll} was followed by another only after {gap:?}");
        }
        assert!(!matches!(row.again, Again::NoFailure));
    }
}
