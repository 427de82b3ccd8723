//! Crashes at every boundary: the real command is killed, again and again, as it enters a system call, and in the end
//! every promise must have been kept.
//!
//! Nothing in the command knows of this. `strace` sends SIGKILL as a thread enters its n-th `write`, `fsync`, `rename`,
//! `sendto`… A seed chooses the events, what goes wrong at the service, the commands, and where up to four runs are
//! killed; the last run goes on to its end. `CRASH_SEEDS` says how many seeds (a thousand), `CRASH_SEED` plays a single
//! one. A seed fixes what is tried, not how the system schedules the threads, so that playing one again may differ.
//!
//! A kill ends the process and not the machine: what was written and not synced is still there. That files are synced
//! before they take effect is looked at in `the_state_file_is_on_disk_before_it_takes_effect`.

mod oracle;
mod plan;
mod service;
#[path = "../suite/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oracle::{Broken, Transcript, judge};
use scheduled_events::state::{Found, Owed, StateFile};

use plan::{CALLS, CHANGES, Kill, Plan};
use service::{Service, api_version, marks};
use support::{Folder, PATIENCE, PREPARE_ALL, Stage, VM, command, freeze, lines};

/// Seeds at a time: most of it is waiting for the next poll.
const AT_A_TIME: usize = 48;

/// What every event of this machine is approved by at once.
const APPROVE_ALL: &str = "[[rule]]\naction = \"approve\"\n";

/// How the command is run beside being killed.
#[derive(Clone, Copy)]
struct Trial {
    /// More for strace: what a defective command would do.
    tamper: &'static [&'static str],
    /// How long the last run may take.
    patience: Duration,
}

/// The command as it is.
const SOUND: Trial = Trial { tamper: &[], patience: Duration::from_secs(2 * PATIENCE.as_secs()) };

/// Plays one seed to its end.
fn play(plan: Plan, trial: Trial) -> Transcript {
    let folder = Folder::new();
    let marks_folder = folder.path("marks");
    std::fs::create_dir(&marks_folder).expect("a folder");
    let service = Service::start(&plan, &marks_folder);
    let arguments = arguments(&plan, &folder, &marks_folder, &service.url());
    let mut runs = Vec::new();
    let mut ended = false;
    for kill in plan.kills.iter().copied().map(Some).chain([None]) {
        let version = api_version(plan.seed, runs.len());
        let all: Vec<_> = arguments.iter().map(String::as_str).chain(["--api-version", &version]).collect();
        let mut command = command(&all);
        if kill.is_some() || !trial.tamper.is_empty() {
            command = under_strace(&command, kill, trial.tamper);
        }
        command.env("RUN", runs.len().to_string());
        let mut run = support::Run::start(command);
        let deadline = Instant::now() + trial.patience;
        while run.is_running() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let goes_on = run.is_running();
        let mut finished = if goes_on { run.kill() } else { run.finish() };
        // Whether one that may have been stopped has ended by itself, the next one knows.
        let stopped = kill.is_some_and(|kill| kill.politely) && finished.code == Some(0);
        ended = finished.code == Some(0) && !stopped;
        runs.push(oracle::Run {
            kill,
            killed: kill.is_some() && finished.code.is_none() && !goes_on || stopped,
            code: finished.code,
            records: finished.records(),
            owed: owed(&folder.path("state"), &mut finished.stderr),
            stderr: finished.stderr,
        });
        if ended || goes_on {
            break;
        }
    }
    await_commands(&marks_folder);
    let log = service.log();
    Transcript {
        plan,
        runs,
        approvals: log.approvals.clone(),
        marks: marks(&marks_folder),
        early: log.early.clone(),
        ended,
    }
}

/// The command's arguments. Its commands leave marks by opening files, and make no call at which the command is killed.
fn arguments(plan: &Plan, folder: &Folder, marks: &str, url: &str) -> Vec<String> {
    let leaves = |word: &str, code: u8, pause: u64| {
        let mark = format!(": > {marks}/$RUN.{word}.$SCHEDULED_EVENTS_EVENT_ID.$$");
        let pause = if pause == 0 { String::new() } else { format!("sleep 0.{pause:03}; ") };
        format!("sh -c '{mark}.begin; {pause}{mark}.end; exit {code}'")
    };
    let policy = folder.file("policy.toml", if plan.prepares { PREPARE_ALL } else { APPROVE_ALL });
    let mut arguments = vec!["watch".to_owned(), "--json".into(), "--until-idle".into()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--endpoint", url.to_owned());
    option("--interval", "200ms".into());
    if !plan.asks_name {
        option("--vm-name", VM.into());
    }
    option("--state", folder.path("state"));
    option("--policy", policy);
    if plan.prepares {
        option("--prepare", leaves("prepare", u8::from(!plan.prepares_well), plan.pause));
        option("--recover", leaves("recover", 0, plan.pause));
    }
    if plan.tells {
        for change in CHANGES {
            option("--on", format!("{change}={}", leaves("on-$SCHEDULED_EVENTS_CHANGE", 0, plan.pause)));
        }
    }
    arguments
}

/// The command under strace, which kills it where it is told to. The tracer is a grandchild, so that the process that is
/// waited for is the command itself.
fn under_strace(command: &Command, kill: Option<Kill>, tamper: &[&str]) -> Command {
    let mut traced = Command::new("strace");
    // Not with --seccomp-bpf, which would be faster, but loses the signals.
    traced.args(["-D", "-f", "-qqq", "-o", "/dev/null"]);
    let calls: Vec<_> = kill.iter().map(|kill| kill.call).chain(tamper.iter().map(|tamper| call_of(tamper))).collect();
    traced.args(["-e", &format!("trace={}", calls.join(","))]);
    for tamper in tamper {
        traced.args(["-e", &format!("inject={tamper}")]);
    }
    if let Some(Kill { call, nth, politely }) = kill {
        let signal = if politely { "TERM" } else { "KILL" };
        traced.args(["-e", &format!("inject={call}:signal={signal}:when={nth}")]);
    }
    traced.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    traced
}

fn call_of(tamper: &str) -> &str {
    tamper.split(':').next().expect("a call")
}

/// What a run's state file says is still to be done, after its end. One that is damaged is complained of as the next run
/// would.
fn owed(path: &str, stderr: &mut String) -> Vec<Owed> {
    match StateFile::open(Path::new(path)).expect("a state file that nobody holds").1 {
        Found::Nothing => Vec::new(),
        Found::State(state) => state.owed,
        Found::Damaged { why, .. } => {
            stderr.push_str("the state file is damaged: ");
            stderr.push_str(&why);
            Vec::new()
        }
    }
}

/// A command outlives the run that started it, unless that run was asked to stop.
fn await_commands(folder: &str) {
    let deadline = Instant::now() + PATIENCE;
    let alive = |mark: &service::Mark| Path::new(&format!("/proc/{}", mark.process)).exists();
    while marks(folder).iter().any(alive) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Plays seeds, many at a time, and hands each transcript to `look`.
fn play_all(seeds: std::ops::Range<u64>, trial: Trial, look: impl Fn(&Transcript) + Sync) {
    let next = AtomicU64::new(seeds.start);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    look(&play(Plan::new(seed), trial));
                }
            });
        }
    });
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().filter(|value| !value.is_empty()).map(|value| value.parse().expect("a number"))
}

/// What came about, so that a harness which no longer kills anything is noticed.
#[derive(Default)]
struct Totals {
    runs: usize,
    kills: BTreeMap<&'static str, u64>,
    approvals: usize,
    approvals_failed: usize,
    commands: usize,
    commands_again: usize,
    broken: Vec<String>,
}

impl Totals {
    fn add(&mut self, seen: &Transcript) {
        self.runs += seen.runs.len();
        for kill in seen.runs.iter().filter(|run| run.killed).filter_map(|run| run.kill) {
            *self.kills.entry(kill.call).or_default() += 1;
        }
        self.approvals += seen.approvals.len();
        self.approvals_failed += seen.approvals.iter().filter(|approval| approval.status != Some(200)).count();
        let mut begun: Vec<_> =
            seen.marks.iter().filter(|mark| !mark.ended).map(|mark| (&mark.word, &mark.id)).collect();
        self.commands += begun.len();
        begun.sort();
        begun.dedup();
        self.commands_again += seen.marks.iter().filter(|mark| !mark.ended).count() - begun.len();
        let findings = judge(seen);
        if !findings.is_empty() {
            self.broken.push(format!("seed {}: {findings:#?}\n{seen}", seen.plan.seed));
        }
    }
}

#[test]
fn killed_at_any_boundary_it_keeps_every_promise() {
    let seeds = match number("CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CRASH_SEEDS").unwrap_or(1000),
    };
    let since = Instant::now();
    let totals = Mutex::new(Totals::default());
    play_all(seeds.clone(), SOUND, |seen| totals.lock().expect("a lock").add(seen));
    let totals = totals.into_inner().expect("a lock");
    let kills: u64 = totals.kills.values().sum();
    let by_call: Vec<_> = totals.kills.iter().map(|(call, kills)| format!("{call} {kills}")).collect();
    // Written past the test runner, which keeps what a passing test prints.
    let _ = writeln!(
        std::io::stderr().lock(),
        "{} seeds in {} s: {} runs, {kills} kills ({}), {} approvals of which {} failed, {} commands of which {} again",
        seeds.end - seeds.start,
        since.elapsed().as_secs(),
        totals.runs,
        by_call.join(", "),
        totals.approvals,
        totals.approvals_failed,
        totals.commands,
        totals.commands_again,
    );
    assert!(totals.broken.is_empty(), "{} seeds broke a promise:\n{}", totals.broken.len(), totals.broken.join("\n"));
    if seeds.end - seeds.start >= 100 {
        assert!(kills >= seeds.end - seeds.start, "too few kills");
        for (call, ..) in CALLS {
            assert!(totals.kills.contains_key(call), "nothing was killed at {call}");
        }
    }
}

/// A crash of the whole machine takes what was not synced, and no kill shows that. So the calls themselves are looked at.
#[test]
fn the_state_file_is_on_disk_before_it_takes_effect() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let folder = Folder::new();
    let (file, calls) = (folder.path("state"), folder.path("calls"));
    let watch = ["watch", "--endpoint", &stage.url(), "--state", &file, "--vm-name", VM, "--max-polls", "2"];
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qqq", "-y", "-e", "trace=write,fsync,fdatasync,rename,renameat,renameat2", "-o", &calls]);
    traced.arg(env!("CARGO_BIN_EXE_scheduled-events")).args(watch);
    let output = traced.output().expect("strace");
    assert!(output.status.success(), "{output:?}");
    // Each line begins with a thread's number, and -y names the files: `12 fsync(7</tmp/folder/state.tmp>) = 0`.
    let calls = lines(&calls);
    let folder = folder.path("");
    let folder = folder.trim_end_matches('/');
    let mut replaced = 0;
    for (place, call) in calls.iter().enumerate() {
        if !call.contains(" rename") || !call.contains(&format!("\"{file}\"")) {
            continue;
        }
        replaced += 1;
        let temporary = call.split('"').nth(1).expect("a path");
        let of_temporary = |name: &str| {
            calls[..place].iter().rposition(|call| call.contains(name) && call.contains(&format!("<{temporary}>")))
        };
        let (written, synced) = (of_temporary(" write("), of_temporary("sync("));
        assert!(written.is_some() && synced > written, "not synced before line {place} of {calls:#?}");
        let next = calls[place + 1..].iter().find(|call| !call.contains(" write(2<"));
        let folder_synced = next.is_some_and(|call| call.contains("fsync(") && call.contains(&format!("<{folder}>")));
        assert!(folder_synced, "the folder is not synced after line {place} of {calls:#?}");
    }
    assert!(replaced >= 2, "{calls:#?}");
}

/// A command whose state file never takes effect: each rename says that it succeeded, and does nothing.
const FORGETFUL_SEEDS: u64 = 100;
const FORGETFUL: Trial = Trial { tamper: &["rename:retval=0"], patience: Duration::from_secs(15) };

#[test]
fn a_command_that_forgets_is_caught() {
    let caught = Mutex::new(BTreeMap::<Broken, u64>::new());
    play_all(0..FORGETFUL_SEEDS, FORGETFUL, |seen| {
        for (broken, _) in judge(seen) {
            *caught.lock().expect("a lock").entry(broken).or_default() += 1;
        }
    });
    let caught = caught.into_inner().expect("a lock");
    let _ = writeln!(std::io::stderr().lock(), "a command that forgets, {FORGETFUL_SEEDS} seeds: {caught:?}");
    for broken in [Broken::PreparedAgain, Broken::ChangeAgain, Broken::RecoveryForgotten, Broken::CommandLost] {
        assert!(caught.contains_key(&broken), "{broken} was not caught, but {caught:?}");
    }
}
