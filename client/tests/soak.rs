//! A day of polls, or as many as `SOAK_POLLS` says: memory, file descriptors and threads stay as they are, and every
//! event that the service announced is accounted for in the records.
//!
//! Time passes ten thousand times faster, for the watch's clock and for the pace of its requests; all else is real: a
//! process with the watch, its HTTP client over a connection that is kept alive, its state file, and its commands. The
//! service runs in another process, this one, which looks at the first from outside.

#[path = "suite/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events::hooks::{CommandLine, Ended as CommandEnded, Told};
use scheduled_events::imds::{API_VERSION, Imds};
use scheduled_events::policy_file;
use scheduled_events::record::{EventRecord, HookOutcome, TimedRecord, write_json};
use scheduled_events::state::StateFile;
use scheduled_events::watch::{Ended, Host, Note, Options, Reply as Answer, Watch};
use scheduled_events_core::Preparation;
use serde_json::{Value, json};

use support::{Folder, PREPARE_ALL, Reply, Request, Stage, VM, document, freeze, with};

/// How many times faster time passes.
const SPEED: u32 = 10_000;

/// A day, at a poll a second.
const DAY: u64 = 86_400;

/// An event begins so many polls after the last one, at the earliest.
const EVENT_EVERY: u64 = 300;

/// How often the process is looked at.
const LOOKS: u64 = 24;

/// How much more memory the process may have at the end than after its first looks, in KiB.
const GROWTH_MAX: i64 = 256;

fn main() -> ExitCode {
    let polls = env::var("SOAK_POLLS").ok().filter(|polls| !polls.is_empty());
    let polls = polls.map_or(DAY, |polls| polls.parse().expect("SOAK_POLLS is a number"));
    match env::var("SOAK_ENDPOINT") {
        Ok(endpoint) => watch(&endpoint, polls),
        Err(_) => look_after(polls),
    }
}

/// The process that is looked at: a watch that tells its records and runs commands.
fn watch(endpoint: &str, polls: u64) -> ExitCode {
    let imds = Imds::new(endpoint, API_VERSION, false).expect("an endpoint").at_speed(SPEED);
    let options = Options {
        api_version: API_VERSION.to_owned(),
        vm_names: vec![VM.to_owned()],
        policy: policy_file::parse(PREPARE_ALL).expect("a policy"),
        interval: Duration::from_secs(1),
        dry_run: false,
        until_idle: false,
        max_polls: Some(polls),
        timeout: None,
    };
    let state = StateFile::open(env::var("SOAK_STATE").expect("a path").as_ref()).expect("a state file");
    let mut watch = Watch::new(imds, options, Some(state)).expect("a watch");
    let ended = watch.run(&mut Runner { command: CommandLine::parse("true").expect("a command") });
    assert!(matches!(ended, Ended::Polls { answered: true }), "{ended:?}");
    ExitCode::SUCCESS
}

/// Tells every record, and runs a command for each preparation and each recovery.
struct Runner {
    command: CommandLine,
}

impl Host for Runner {
    fn record(&mut self, record: &TimedRecord<'_>, _event: Option<&EventRecord>) {
        write_json(record, std::io::stdout().lock()).expect("a reader");
    }

    fn note(&mut self, note: Note<'_>) {
        assert!(!matches!(note, Note::StateNotSaved(_) | Note::StateDamaged(_)), "{note:?}");
    }

    fn prepare(&mut self, event: &EventRecord, _time_left: Option<Duration>, reply: Answer) {
        self.command.start(event, &[], None, move |told| match told {
            Told::Ended(CommandEnded::Well) => reply.prepared(Preparation::Ready, HookOutcome::Ready),
            Told::Ended(_) => reply.prepared(Preparation::Failed, HookOutcome::Failed),
            Told::Line(_) => {}
        });
    }

    fn rescheduled(&mut self, _event: &EventRecord, _time_left: Option<Duration>) {}

    fn recover(&mut self, event: &EventRecord, _still_open: usize, reply: Answer) {
        self.command.start(event, &[], None, move |told| {
            if told == Told::Ended(CommandEnded::Well) {
                reply.recovered(HookOutcome::Done);
            }
        });
    }
}

/// The service, and what it sees of the process.
struct Service {
    polls_wanted: u64,
    polls: u64,
    posts: u64,
    failed_polls: u64,
    failed_posts: u64,
    began: Instant,
    /// The event that is on: its number, how far it is, and the poll at which that began.
    event: Option<(u64, Stand, u64)>,
    events: u64,
    incarnation: u64,
    body: String,
    process: Option<u32>,
    looks: Vec<Look>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Scheduled,
    Approved,
    Started,
}

/// What the process takes.
#[derive(Clone, Copy, Debug)]
struct Look {
    poll: u64,
    memory_kib: i64,
    files: usize,
    threads: usize,
}

/// What is announced, by turns: most events are this machine's, some are another's or start without notice.
fn kind(number: u64) -> &'static str {
    match number % 10 {
        3 => "foreign",
        7 => "sudden",
        _ => "own",
    }
}

impl Service {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.is_post() {
            self.posts += 1;
            // Every fourth fails at first.
            if self.posts % 4 == 1 {
                self.failed_posts += 1;
                return Reply::new(503, "", "");
            }
            if let Some((number, Stand::Scheduled, _)) = self.event {
                self.event = Some((number, Stand::Approved, self.polls));
            }
            return Reply::new(200, "", "");
        }
        self.polls += 1;
        // Always at the same place between two events, where nothing of the last one still runs.
        if self.polls.is_multiple_of((self.polls_wanted / LOOKS).next_multiple_of(EVENT_EVERY)) {
            self.looks.extend(self.process.map(|process| look(process, self.polls)));
        }
        let fault = match self.polls % 1_000 {
            500 => Some(Reply::new(500, "", "{}")),
            600 => Some(Reply::new(200, "", "")),
            // The next one needs a new connection.
            700 => Some(Reply::raw("").close()),
            _ => None,
        };
        if let Some(fault) = fault {
            self.failed_polls += 1;
            return fault;
        }
        self.move_on();
        Reply::new(200, "", &self.body)
    }

    fn move_on(&mut self) {
        // An event is over long before the polls are, so that all of it is told.
        let last = self.polls + 2 * EVENT_EVERY > self.polls_wanted;
        let next = match self.event {
            None if !last && self.polls.is_multiple_of(EVENT_EVERY) => {
                self.events += 1;
                let stand = if kind(self.events) == "sudden" { Stand::Started } else { Stand::Scheduled };
                Some((self.events, stand, self.polls))
            }
            Some((number, Stand::Scheduled, since)) if kind(number) == "foreign" && self.polls > since + 20 => {
                Some((number, Stand::Started, self.polls))
            }
            Some((number, Stand::Approved, since)) if self.polls > since + 20 => {
                Some((number, Stand::Started, self.polls))
            }
            Some((_, Stand::Started, since)) if self.polls > since + 20 => None,
            same => same,
        };
        if next == self.event && !self.body.is_empty() {
            return;
        }
        self.event = next;
        self.incarnation += 1;
        let events: Vec<_> = next.into_iter().map(|(number, stand, _)| self.shown(number, stand)).collect();
        self.body = document(self.incarnation, &events);
    }

    fn shown(&self, number: u64, stand: Stand) -> Value {
        let machine = if kind(number) == "foreign" { "WestNO_1" } else { VM };
        let event = with(freeze(&format!("event-{number}")), &json!({ "Resources": [machine] }));
        if stand == Stand::Started {
            return with(event, &json!({ "EventStatus": "Started", "NotBefore": "" }));
        }
        // An hour ahead on the clock that the watch goes by.
        let start = SystemTime::now() + self.began.elapsed() * (SPEED - 1) + Duration::from_secs(3600);
        with(event, &json!({ "NotBefore": httpdate::fmt_http_date(start) }))
    }
}

/// Looks while the process waits for its answer, once the threads that it needed for the request have ended.
fn look(process: u32, poll: u64) -> Look {
    thread::sleep(Duration::from_millis(20));
    let count = |what| fs::read_dir(format!("/proc/{process}/{what}")).expect("a process").count();
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    let memory_kib = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    Look { poll, memory_kib, files: count("fd"), threads: count("task") }
}

/// Serves the other process, reads its records, and judges.
fn look_after(polls: u64) -> ExitCode {
    let folder = Folder::new();
    let service = Arc::new(Mutex::new(Service {
        polls_wanted: polls,
        polls: 0,
        posts: 0,
        failed_polls: 0,
        failed_posts: 0,
        began: Instant::now(),
        event: None,
        events: 0,
        incarnation: 0,
        body: String::new(),
        process: None,
        looks: Vec::new(),
    }));
    let stage = Stage::start();
    stage.forget_requests();
    let shared = Arc::clone(&service);
    stage.intercept(move |request| Some(shared.lock().expect("a lock").answer(request)));
    let mut child = Command::new(env::current_exe().expect("a path"))
        .env("SOAK_ENDPOINT", stage.url())
        .env("SOAK_STATE", folder.path("state"))
        .env("SOAK_POLLS", polls.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    service.lock().expect("a lock").process = Some(child.id());
    let mut accounts = Accounts::default();
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        accounts.take(&serde_json::from_str(&line.expect("a line")).expect("a record"));
    }
    let status = child.wait().expect("a child");
    let service = service.lock().expect("a lock");
    assert!(status.success(), "{status}");
    service.judge(&mut accounts);
    ExitCode::SUCCESS
}

/// What was told of each event, in its order; what is as it must be is forgotten.
#[derive(Default)]
struct Accounts {
    open: HashMap<String, Vec<String>>,
    settled: u64,
    wrong: Vec<String>,
    failed_polls: u64,
    failed_approvals: u64,
}

impl Accounts {
    fn take(&mut self, record: &Value) {
        let word = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let (id, told) = match record["record"].as_str().expect("a kind") {
            "change" => (word("event_id"), word("change")),
            "decision" => (word("event_id"), word("action")),
            "prepare" | "recover" => (word("event_id"), word("outcome")),
            "approval" if record["status"] == 200 => {
                (record["event_ids"][0].as_str().expect("an id").to_owned(), "approved".to_owned())
            }
            "approval" => return self.failed_approvals += 1,
            "poll-failed" => return self.failed_polls += 1,
            _ => return self.wrong.push(record.to_string()),
        };
        let all = self.open.entry(id.clone()).or_default();
        all.push(told);
        let number = id.strip_prefix("event-").and_then(|number| number.parse().ok()).expect("an event");
        let expected: &[&str] = match kind(number) {
            "foreign" => &["scheduled", "hold", "started", "completed"],
            "sudden" => &["started-without-notice", "hold", "completed"],
            _ => &["scheduled", "prepare", "ready", "approved", "started", "completed", "done"],
        };
        if all == expected {
            self.open.remove(&id);
            self.settled += 1;
        }
    }
}

impl Service {
    fn judge(&self, accounts: &mut Accounts) {
        // The first looks are at a process that still fills its buffers.
        let settled: Vec<_> = self.looks.iter().skip(self.looks.len() / 8).collect();
        let (first, last) = (settled.first().expect("looks"), settled.last().expect("looks"));
        let growth = last.memory_kib - first.memory_kib;
        let range = |of: fn(&Look) -> usize| {
            let all = settled.iter().map(|look| of(look));
            (all.clone().min().unwrap_or_default(), all.max().unwrap_or_default())
        };
        let (files, threads) = (range(|look| look.files), range(|look| look.threads));
        println!(
            "{} polls in {} s: memory {} KiB after {} polls, {growth:+} KiB at the end; files {} to {}, threads {} to {}; \
             {} events, {} accounted for; {} failed polls, {} failed approvals",
            self.polls,
            self.began.elapsed().as_secs(),
            first.memory_kib,
            first.poll,
            files.0,
            files.1,
            threads.0,
            threads.1,
            self.events,
            accounts.settled,
            accounts.failed_polls,
            accounts.failed_approvals,
        );
        if env::var("SOAK_LOOKS").is_ok() {
            for look in &self.looks {
                println!("{look:?}");
            }
        }
        assert_eq!(self.polls, self.polls_wanted, "polls");
        assert!(accounts.wrong.is_empty() && accounts.open.is_empty(), "{:?} {:?}", accounts.wrong, accounts.open);
        assert_eq!(accounts.settled, self.events, "events");
        let failed = (accounts.failed_polls, accounts.failed_approvals);
        assert_eq!(failed, (self.failed_polls, self.failed_posts), "failed polls and approvals");
        assert!(self.events > 0 || self.polls_wanted < 3 * EVENT_EVERY, "nothing happened");
        assert!(growth <= GROWTH_MAX, "memory grew by {growth} KiB: {:#?}", self.looks);
        assert_eq!(files.0, files.1, "file descriptors: {:#?}", self.looks);
        assert_eq!(threads.0, threads.1, "threads: {:#?}", self.looks);
    }
}
