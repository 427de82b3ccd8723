//! Runs the real command against the replay server with the faults of a row, and checks the result.

use std::sync::mpsc;
use std::time::Duration;

use scheduled_events_replay::{ReplayEvent, Scenario, Server, ServerConfig};

use super::row::{ALWAYS, Never, RetryDelay, Row, SLACK};
use crate::support::{
    FakeService, Finished, Folder, PREPARE_ALL, Request, Run, VM, helper, lines, of_replay,
};

/// How much later than announced the next poll may be: a slow response, an approval and a busy
/// machine delay it.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The longest run: the first response alone may take two minutes.
const PATIENCE: Duration = Duration::from_secs(240);

/// The result of a row.
pub(crate) struct ScenarioRun {
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    pub(crate) finished: Finished,
    pub(crate) requests: Vec<Request>,
    /// The faults that applied to each request.
    faults: Vec<String>,
    /// The requests to the server that must receive none.
    pub(crate) witnessed: Vec<Request>,
    pub(crate) memory_peak_kb: Option<u64>,
    /// The hooks that ran.
    hooks: Vec<String>,
}

/// Runs a row to its end.
pub(crate) fn run_row(name: &'static str, row: Row) -> ScenarioRun {
    let witness = FakeService::start();
    let (observer, events) = mpsc::channel();
    let scenario =
        Scenario::parse(row.scenario).unwrap_or_else(|error| panic!("{error}\n{}", row.scenario));
    let mut config = ServerConfig::new(scenario)
        .without_verdict()
        .speed(60.0)
        .vm_name(VM)
        .observer(observer);
    for fault in row.faults {
        config = config.fault(
            fault
                .replace("{witness}", &witness.url())
                .parse()
                .expect(fault),
        );
    }
    let server = Server::start(config).expect("a port");

    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let log = folder.path("log");
    let prepare = helper(&[format!("append {log} prepare"), "sleep 3".to_owned()]);
    let recover = helper(&[format!("append {log} recover")]);
    // With the name given, the first request is the first poll.
    let mut arguments = vec!["--vm-name", VM, "--until-idle"];
    arguments.extend(if row.prepares {
        ["--policy", &policy]
    } else {
        ["--policy", "sample"]
    });
    if row.prepares {
        arguments.extend(["--prepare", &prepare, "--recover", &recover]);
    }
    let on_advised = format!("advised={recover}");
    if row.wants_advice {
        arguments.extend(["--on", &on_advised]);
    }
    let mut run = Run::watch(&server.url(), &arguments);
    // Memory is read from /proc.
    let measured = cfg!(target_os = "linux")
        && row
            .never
            .iter()
            .any(|never| matches!(never, Never::UseMemory(_)));
    let memory_peak_kb = measured.then(|| {
        // By then the client has read everything that is too large, and the event has not ended.
        run.record("an approval", |record| {
            record["record"] == "approval" && record["status"] == 200
        });
        run.memory_peak_kb()
    });
    let finished = run.finish_within(PATIENCE);

    let faults = events.try_iter().filter_map(|event| match event {
        ReplayEvent::Answered { faults, .. } => Some(faults.join(" ")),
        _ => None,
    });
    let (requests, faults) = (of_replay(&server.requests()), faults.collect::<Vec<_>>());
    assert_eq!(requests.len(), faults.len(), "{name}");
    ScenarioRun {
        name,
        row,
        finished,
        requests,
        faults,
        witnessed: witness.requests(),
        memory_peak_kb,
        hooks: lines(&log),
    }
}

impl ScenarioRun {
    /// The faults that applied to a request, as written.
    pub(crate) fn faults_of(&self, index: usize) -> &str {
        &self.faults[index]
    }

    pub(crate) fn posts(&self) -> Vec<&Request> {
        self.requests
            .iter()
            .filter(|request| request.is_post())
            .collect()
    }

    /// The polls, with their index among all requests.
    pub(crate) fn gets(&self) -> Vec<(usize, &Request)> {
        self.requests
            .iter()
            .enumerate()
            .filter(|(_, request)| request.is_get())
            .collect()
    }

    /// The ids of the reported events, sorted.
    pub(crate) fn ids(&self) -> Vec<String> {
        let changes = self.finished.of_kind("change");
        let mut ids: Vec<_> = changes
            .iter()
            .map(|change| change["event_id"].as_str().expect("an id").to_owned())
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Checks everything that the row demands.
    pub(crate) fn check(&self) {
        let Self {
            name,
            row,
            finished,
            ..
        } = self;
        for never in ALWAYS.iter().chain(row.never) {
            never.check(self);
        }
        assert_eq!(self.ids().len(), row.events, "{name}\n{}", finished.stdout);
        assert_eq!(self.posts().len(), row.posts, "{name}\n{}", finished.stdout);
        assert_eq!(self.hooks, row.hooks, "{name}");
        for text in row.stderr {
            assert!(
                finished.stderr.contains(text),
                "{name}: standard error lacks {text:?}\n{}",
                finished.stderr
            );
        }
        if row.stderr.is_empty() {
            // A state file would need a request of its own, for the machine's id.
            let mut lines = finished.stderr.lines();
            let other = lines.find(|line| !line.starts_with("warning: there is no --state FILE"));
            assert_eq!(other, None, "{name}");
        }
        // Every fault of the row applied to some request.
        for fault in row.faults {
            let kind = fault.split([':', '@']).next().expect("a kind");
            assert!(
                self.faults.iter().any(|met| met.contains(kind)),
                "{name}: {fault} applied to no request"
            );
        }
        self.check_failed_polls();
    }

    /// Checks that each failed poll is reported with its cause and the time to the next poll, and
    /// that the next poll comes at that time.
    fn check_failed_polls(&self) {
        let Self {
            name,
            row,
            finished,
            ..
        } = self;
        let failures = finished.of_kind("poll-failed");
        let mut causes: Vec<_> = failures
            .iter()
            .map(|failure| failure["cause"].as_str().expect("a word"))
            .collect();
        causes.dedup();
        assert_eq!(causes, row.causes, "{name}\n{}", finished.stderr);
        if row.causes.is_empty() {
            return;
        }
        let gets = self.gets();
        let hit: Vec<_> = (0..gets.len())
            .filter(|&poll| !self.faults[gets[poll].0].is_empty())
            .collect();
        assert_eq!(
            failures.len(),
            hit.len(),
            "{name}: as many polls failed as met a fault\n{}",
            finished.stderr
        );
        let mut in_a_row = 0;
        for (index, (&poll, failure)) in hit.iter().zip(&failures).enumerate() {
            in_a_row = if index > 0 && hit[index - 1] + 1 == poll {
                in_a_row + 1
            } else {
                1
            };
            let retry = failure["retry_in_ms"].as_u64().expect("milliseconds");
            let (least, most) = row.retry.bounds(in_a_row);
            assert!(
                (least..=most).contains(&retry),
                "{name}: failure {index}: {failure}, expected {least} to {most}"
            );
            let gap = gets[poll + 1]
                .1
                .arrived
                .duration_since(gets[poll].1.arrived);
            let retry = Duration::from_millis(retry);
            assert!(
                gap + SLACK > retry,
                "{name}: the poll after {poll} came after {gap:?}, expected {retry:?}"
            );
            assert!(
                gap < retry + LONGEST_DELAY,
                "{name}: the poll after {poll} came after {gap:?}, expected {retry:?}"
            );
        }
        assert!(!matches!(row.retry, RetryDelay::NoFailure));
    }
}
