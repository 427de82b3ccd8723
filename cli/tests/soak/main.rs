//! A day of polls, or `SOAK_POLLS`: memory, file descriptors and threads do not grow, and the
//! records account for every event. Before that, `crowd`: documents of ten thousand events.
//!
//! Time passes ten thousand times faster for the watcher's clock and the spacing of its requests.
//! Everything else is real: a process with a watcher, HTTP over one connection, a state file and
//! commands. The service runs in this process, which measures the watcher's.

mod crowd;
#[path = "../suite/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events::hooks::{CommandEvent, CommandLine};
use scheduled_events::imds::Imds;
use scheduled_events::policy_file;
use scheduled_events::record::{EventRecord, HookOutcome, TimedRecord, write_json};
use scheduled_events::state::StateFile;
use scheduled_events::watch::{Host, Note, PrepareReply, RecoverReply, StopReason, Watcher};
use serde_json::{Value, json};

use support::{FakeService, Folder, PREPARE_ALL, Reply, Request, VM, document, freeze, with};

/// How many times faster time passes.
const SPEED: u32 = 10_000;

/// A day, at a poll a second.
const DAY: u64 = 86_400;

/// The number of polls between the starts of two events.
const EVENT_EVERY: u64 = 300;

/// The number of polls before the end in which no event starts, so that its end is reported.
const LAST_EVENT: u64 = 10 * EVENT_EVERY;

/// How often the process is measured.
const SAMPLES: u64 = 24;

/// The largest accepted growth of memory after the first samples, in KiB.
const GROWTH_MAX: i64 = 256;

fn main() -> ExitCode {
    let polls = env::var("SOAK_POLLS")
        .ok()
        .filter(|polls| !polls.is_empty());
    let polls = polls.map_or(DAY, |polls| polls.parse().expect("SOAK_POLLS is a number"));
    if let Ok(endpoint) = env::var("SOAK_ENDPOINT") {
        return watch(&endpoint, polls);
    }
    crowd::run();
    supervise(polls)
}

/// The measured process: a watcher that prints its records and runs commands.
fn watch(endpoint: &str, polls: u64) -> ExitCode {
    let imds = Imds::new(endpoint).expect("an endpoint").at_speed(SPEED);
    let state =
        StateFile::open(env::var("SOAK_STATE").expect("a path").as_ref()).expect("a state file");
    let mut watcher = Watcher::builder()
        .imds(imds)
        .vm_names([VM])
        .policy(policy_file::parse(PREPARE_ALL).expect("a policy"))
        .max_polls(Some(polls))
        .state(Some(state))
        .build()
        .expect("a watcher");
    let reason = watcher.run_with(&mut SoakHost {
        command: CommandLine::parse("true").expect("a command"),
    });
    assert_eq!(reason, StopReason::PollsDone { answered: true });
    ExitCode::SUCCESS
}

/// Prints every record, and runs a command for each preparation and each recovery.
struct SoakHost {
    command: CommandLine,
}

impl Host for SoakHost {
    fn record(&mut self, record: &TimedRecord<'_>) {
        write_json(record, std::io::stdout().lock()).expect("a reader");
    }

    fn note(&mut self, note: &Note) {
        assert!(
            !matches!(note, Note::StateNotSaved(_) | Note::StateQuarantined { .. }),
            "{note:?}"
        );
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        let reply = Arc::new(Mutex::new(Some(reply)));
        self.command.start(event, &[], None, move |event| {
            if let CommandEvent::Ended(ended) = event {
                let reply = reply.lock().expect("no panic").take();
                reply
                    .expect("one end")
                    .report(ended.for_record(HookOutcome::Ready));
            }
        });
    }

    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        let reply = Arc::new(Mutex::new(Some(reply)));
        self.command.start(&events[0], &[], None, move |event| {
            if let CommandEvent::Ended(ended) = event {
                let reply = reply.lock().expect("no panic").take();
                reply
                    .expect("one end")
                    .report(ended.for_record(HookOutcome::Done));
            }
        });
    }
}

/// The state of the service, and the samples of the process.
struct Scenario {
    polls_wanted: u64,
    polls: u64,
    posts: u64,
    failed_polls: u64,
    failed_posts: u64,
    began: Instant,
    /// The current event: its number, its stage, and the poll at which this stage began.
    event: Option<(u64, Stage, u64)>,
    events: u64,
    /// The events whose records are complete.
    complete: Arc<AtomicU64>,
    incarnation: u64,
    body: String,
    process: Option<u32>,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Scheduled,
    Approved,
    Started,
}

/// The resources of the process.
#[derive(Clone, Copy, Debug)]
struct Sample {
    poll: u64,
    memory_kib: i64,
    files: usize,
    threads: usize,
}

/// The kind of an event: most are this machine's, some are another machine's or start without
/// notice.
fn kind(number: u64) -> &'static str {
    match number % 10 {
        3 => "foreign",
        7 => "unannounced",
        _ => "own",
    }
}

impl Scenario {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.is_post() {
            self.posts += 1;
            // Every fourth one fails.
            if self.posts % 4 == 1 {
                self.failed_posts += 1;
                return Reply::new(503, "", "");
            }
            if let Some((number, Stage::Scheduled, _)) = self.event {
                self.event = Some((number, Stage::Approved, self.polls));
            }
            return Reply::new(200, "", "");
        }
        self.polls += 1;
        // Between two events, when no command runs.
        if self
            .polls
            .is_multiple_of((self.polls_wanted / SAMPLES).next_multiple_of(EVENT_EVERY))
        {
            self.samples
                .extend(self.process.map(|process| sample(process, self.polls)));
        }
        let fault = match self.polls % 1_000 {
            500 => Some(Reply::new(500, "", "{}")),
            600 => Some(Reply::new(200, "", "")),
            // The next poll needs a new connection.
            700 => Some(Reply::raw("").close()),
            _ => None,
        };
        if let Some(fault) = fault {
            self.failed_polls += 1;
            return fault;
        }
        self.advance();
        Reply::new(200, "", &self.body)
    }

    fn advance(&mut self) {
        // No event starts so late that its end would not be reported, and none before the commands
        // of the last one have ended: they take the machine's time, while the watcher's clock runs
        // ahead.
        let last = self.polls + LAST_EVENT > self.polls_wanted;
        let done = self.complete.load(Ordering::Relaxed) == self.events;
        let next = match self.event {
            None if !last && done && self.polls.is_multiple_of(EVENT_EVERY) => {
                self.events += 1;
                let stage = if kind(self.events) == "unannounced" {
                    Stage::Started
                } else {
                    Stage::Scheduled
                };
                Some((self.events, stage, self.polls))
            }
            Some((number, Stage::Scheduled, since))
                if kind(number) == "foreign" && self.polls > since + 20 =>
            {
                Some((number, Stage::Started, self.polls))
            }
            Some((number, Stage::Approved, since)) if self.polls > since + 20 => {
                Some((number, Stage::Started, self.polls))
            }
            Some((_, Stage::Started, since)) if self.polls > since + 20 => None,
            same => same,
        };
        if next == self.event && !self.body.is_empty() {
            return;
        }
        self.event = next;
        self.incarnation += 1;
        let events: Vec<_> = next
            .into_iter()
            .map(|(number, stage, _)| self.shown(number, stage))
            .collect();
        self.body = document(self.incarnation, &events);
    }

    fn shown(&self, number: u64, stage: Stage) -> Value {
        let machine = if kind(number) == "foreign" {
            "WestNO_1"
        } else {
            VM
        };
        let event = with(
            freeze(&format!("event-{number}")),
            &json!({ "Resources": [machine] }),
        );
        if stage == Stage::Started {
            return with(event, &json!({ "EventStatus": "Started", "NotBefore": "" }));
        }
        // An hour ahead by the watcher's clock.
        let start =
            SystemTime::now() + self.began.elapsed() * (SPEED - 1) + Duration::from_secs(3600);
        with(
            event,
            &json!({ "NotBefore": httpdate::fmt_http_date(start) }),
        )
    }
}

/// Measures the process while it waits for its response, after the threads of the last commands
/// have ended.
fn sample(process: u32, poll: u64) -> Sample {
    thread::sleep(Duration::from_millis(20));
    let count = |what| {
        fs::read_dir(format!("/proc/{process}/{what}"))
            .expect("a process")
            .count()
    };
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let memory = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .expect("RssAnon");
    let memory_kib = memory
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    Sample {
        poll,
        memory_kib,
        files: count("fd"),
        threads: count("task"),
    }
}

/// Serves the measured process, reads its records, and checks the result.
fn supervise(polls: u64) -> ExitCode {
    let folder = Folder::new();
    let mut accounts = Accounts::default();
    let service = Arc::new(Mutex::new(Scenario {
        polls_wanted: polls,
        polls: 0,
        posts: 0,
        failed_polls: 0,
        failed_posts: 0,
        began: Instant::now(),
        event: None,
        events: 0,
        complete: Arc::clone(&accounts.complete),
        incarnation: 0,
        body: String::new(),
        process: None,
        samples: Vec::new(),
    }));
    let fake = FakeService::start();
    fake.forget_requests();
    let shared = Arc::clone(&service);
    fake.intercept(move |request| {
        // The fake service answers the request for the machine's id.
        (request.is_get() || request.is_post())
            .then(|| shared.lock().expect("a lock").answer(request))
    });
    let mut child = support::launch(env::current_exe().expect("a path"))
        .env("SOAK_ENDPOINT", fake.url())
        .env("SOAK_STATE", folder.path("state"))
        .env("SOAK_POLLS", polls.to_string())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the measured process");
    service.lock().expect("a lock").process = Some(child.id());
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        accounts.add(&serde_json::from_str(&line.expect("a line")).expect("a record"));
    }
    let status = support::wait::ended(&mut child);
    let service = service.lock().expect("a lock");
    assert!(status.success(), "{status}");
    service.check(&mut accounts);
    ExitCode::SUCCESS
}

/// The records of each event, in order. Complete events are dropped.
#[derive(Default)]
struct Accounts {
    open: HashMap<String, Vec<String>>,
    complete: Arc<AtomicU64>,
    wrong: Vec<String>,
    failed_polls: u64,
    failed_approvals: u64,
}

impl Accounts {
    fn add(&mut self, record: &Value) {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let (id, word) = match record["record"].as_str().expect("a kind") {
            "change" => (text("event_id"), text("change")),
            "decision" => (text("event_id"), text("action")),
            "prepare" | "recover" => (text("event_id"), text("outcome")),
            "approval" if record["status"] == 200 => (
                record["event_ids"][0].as_str().expect("an id").to_owned(),
                "approved".to_owned(),
            ),
            "approval" => return self.failed_approvals += 1,
            "poll-failed" => return self.failed_polls += 1,
            _ => return self.wrong.push(record.to_string()),
        };
        let all = self.open.entry(id.clone()).or_default();
        all.push(word);
        let number = id
            .strip_prefix("event-")
            .and_then(|number| number.parse().ok())
            .expect("an event");
        let expected: &[&str] = match kind(number) {
            "foreign" => &["scheduled", "hold", "started", "completed"],
            "unannounced" => &["started-without-notice", "hold", "completed"],
            _ => &[
                "scheduled",
                "prepare",
                "begun",
                "ready",
                "approved",
                "started",
                "completed",
                "done",
            ],
        };
        if all == expected {
            self.open.remove(&id);
            self.complete.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Scenario {
    fn check(&self, accounts: &mut Accounts) {
        // During the first samples the process still allocates its buffers.
        let settled: Vec<_> = self.samples.iter().skip(self.samples.len() / 8).collect();
        let (first, last) = (
            settled.first().expect("samples"),
            settled.last().expect("samples"),
        );
        let growth = last.memory_kib - first.memory_kib;
        let range = |of: fn(&Sample) -> usize| {
            let all = settled.iter().map(|sample| of(sample));
            (
                all.clone().min().unwrap_or_default(),
                all.max().unwrap_or_default(),
            )
        };
        let (files, threads) = (range(|sample| sample.files), range(|sample| sample.threads));
        println!(
            "{} polls in {} s: memory {} KiB after {} polls, {growth:+} KiB at the end; files {} to {}, threads {} to {}; \
             {} events, {} complete; {} failed polls, {} failed approvals",
            self.polls,
            self.began.elapsed().as_secs(),
            first.memory_kib,
            first.poll,
            files.0,
            files.1,
            threads.0,
            threads.1,
            self.events,
            accounts.complete.load(Ordering::Relaxed),
            accounts.failed_polls,
            accounts.failed_approvals,
        );
        if env::var("SOAK_SAMPLES").is_ok() {
            for sample in &self.samples {
                println!("{sample:?}");
            }
        }
        assert_eq!(self.polls, self.polls_wanted, "polls");
        assert!(
            accounts.wrong.is_empty() && accounts.open.is_empty(),
            "{:?} {:?}",
            accounts.wrong,
            accounts.open
        );
        assert_eq!(
            accounts.complete.load(Ordering::Relaxed),
            self.events,
            "events"
        );
        let failed = (accounts.failed_polls, accounts.failed_approvals);
        assert_eq!(
            failed,
            (self.failed_polls, self.failed_posts),
            "failed polls and approvals"
        );
        assert!(
            self.events > 0 || self.polls_wanted < LAST_EVENT + 2 * EVENT_EVERY,
            "there was no event"
        );
        assert!(
            growth <= GROWTH_MAX,
            "memory grew by {growth} KiB: {:#?}",
            self.samples
        );
        assert_eq!(files.0, files.1, "file descriptors: {:#?}", self.samples);
        assert_eq!(threads.0, threads.1, "threads: {:#?}", self.samples);
    }
}
