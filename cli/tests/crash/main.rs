//! Crash tests: the program is killed repeatedly as it enters a system call, and must keep all its
//! guarantees.
//!
//! Its commands imitate an application, in a file: `--prepare` takes it out of service, and
//! `--recover` puts it back. In the end it is in service, and it was never put back while an event
//! kept it out.
//!
//! The program itself is unchanged. `strace` sends SIGKILL as a thread enters its n-th `write`,
//! `fsync`, `rename`, `sendto` and so on; or the harness kills it once the application has acted,
//! while each sync takes long. A seed chooses the events, the faults of the service, the commands,
//! and where up to four runs are killed; the last run continues to its end. `CRASH_SEEDS` sets the
//! number of seeds (1000), `CRASH_SEED` plays a single one. A seed does not fix how the system
//! schedules threads, so playing it again may differ.
//!
//! A kill ends the process, but not the machine: data that was written but not synced is kept.
//! `the_state_file_is_synced_before_it_is_renamed` checks the syncs.
//!
//! Read `plan` (the meaning of a seed), `service` (its metadata service), this file (how a seed is
//! played), `oracle` (the guarantees).

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

use oracle::{Guarantee, Transcript};
use scheduled_events::state::{LoadResult, PendingHook, StateFile};

use plan::{CALLS, CHANGES, COMMANDS, Kill, Plan};
use service::{Service, actions, api_version, application, marks};
use support::{FakeService, Folder, PATIENCE, PREPARE_ALL, VM, command, freeze, lines};

/// The number of seeds that are played at the same time: they mostly wait for the next poll.
const AT_A_TIME: usize = 48;

/// How long a sync takes if the program is killed once the application has acted.
const SLOW_SYNC: Duration = Duration::from_millis(100);

/// A policy that approves all events of this machine at once.
const APPROVE_ALL: &str = "[[rule]]\naction = \"approve\"\n";

/// How the program runs, apart from the kills.
#[derive(Clone, Copy)]
struct Trial {
    /// Further injections of strace, which simulate a defect.
    tamper: &'static [&'static str],
    /// The timeout of a run.
    timeout: Duration,
}

/// The unchanged program.
const UNCHANGED: Trial = Trial {
    tamper: &[],
    timeout: Duration::from_secs(2 * PATIENCE.as_secs()),
};

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
        let all: Vec<_> = arguments
            .iter()
            .map(String::as_str)
            .chain(["--api-version", &version])
            .collect();
        let mut command = command(&all);
        if kill.is_some() || !trial.tamper.is_empty() {
            command = under_strace(&command, kill, trial.tamper);
        }
        command.env("RUN", runs.len().to_string());
        let mut run = support::Run::start(command);
        let deadline = Instant::now() + trial.timeout;
        let number = runs.len();
        let at_command = kill.filter(|kill| kill.is_at_command());
        let has_acted = |kill: Kill| {
            actions(&marks_folder)
                .iter()
                .any(|action| action.run == number && action.word == kill.call)
        };
        while run.is_running() && Instant::now() < deadline && !at_command.is_some_and(has_acted) {
            thread::sleep(Duration::from_millis(if at_command.is_some() {
                5
            } else {
                20
            }));
        }
        let acted = at_command.is_some_and(has_acted);
        let timed_out = run.is_running() && !acted;
        let mut finished = if timed_out || acted {
            run.kill()
        } else {
            run.finish()
        };
        // A run that was to be stopped may have ended by itself, which the next run shows.
        let stopped = kill.is_some_and(|kill| kill.politely) && finished.code == Some(0);
        ended = finished.code == Some(0) && !stopped;
        runs.push(oracle::Run {
            kill,
            killed: kill.is_some() && finished.code.is_none() && !timed_out || stopped,
            code: finished.code,
            records: finished.records(),
            pending_hooks: pending_hooks(&folder.path("state"), &mut finished.stderr),
            stderr: finished.stderr,
        });
        if ended || timed_out {
            break;
        }
    }
    await_hooks(&marks_folder);
    let log = service.log();
    Transcript {
        plan,
        runs,
        approvals: log.approvals.clone(),
        marks: marks(&marks_folder),
        actions: actions(&marks_folder),
        early: log.early.clone(),
        ended,
    }
}

/// The program's arguments. The hooks leave marks by opening files, and make no system call at
/// which the program is killed.
fn arguments(plan: &Plan, folder: &Folder, marks: &str, url: &str) -> Vec<String> {
    let marking = |word: &str, code: u8, pause: u64| {
        let mark = format!(": > {marks}/$RUN.{word}.$SCHEDULED_EVENTS_EVENT_ID.$$");
        let pause = if pause == 0 {
            String::new()
        } else {
            format!("sleep 0.{pause:03}; ")
        };
        // One write, which is atomic. The program does more of them before it starts the first
        // command.
        let act = if COMMANDS.contains(&word) {
            format!(
                "echo $RUN {word} $SCHEDULED_EVENTS_EVENT_ID >> {}; ",
                application(marks)
            )
        } else {
            String::new()
        };
        format!("sh -c '{mark}.begin; {act}{pause}{mark}.end; exit {code}'")
    };
    let policy = folder.file(
        "policy.toml",
        if plan.prepares {
            PREPARE_ALL
        } else {
            APPROVE_ALL
        },
    );
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
        option(
            "--prepare",
            marking("prepare", u8::from(!plan.preparation_succeeds), plan.pause),
        );
        option("--recover", marking("recover", 0, plan.pause));
    }
    if plan.has_hooks {
        for change in CHANGES {
            option(
                "--on",
                format!(
                    "{change}={}",
                    marking("on-$SCHEDULED_EVENTS_CHANGE", 0, plan.pause)
                ),
            );
        }
    }
    arguments
}

/// The program under strace, which kills it. The tracer is a grandchild, so that the child process
/// is the program itself.
fn under_strace(command: &Command, kill: Option<Kill>, tamper: &[&str]) -> Command {
    let kill_call = |kill: &Kill| {
        if kill.is_at_command() {
            "fsync"
        } else {
            kill.call
        }
    };
    let traced: Vec<_> = kill
        .iter()
        .map(kill_call)
        .chain(tamper.iter().map(|tamper| call_of(tamper)))
        .collect();
    let mut expressions = vec![format!("trace={}", traced.join(","))];
    expressions.extend(tamper.iter().map(|tamper| format!("inject={tamper}")));
    if kill.is_some_and(Kill::is_at_command) {
        expressions.push(format!(
            "inject=fsync:delay_enter={}",
            SLOW_SYNC.as_micros()
        ));
    } else if let Some(Kill {
        call,
        nth,
        politely,
    }) = kill
    {
        let signal = if politely { "TERM" } else { "KILL" };
        expressions.push(format!("inject={call}:signal={signal}:when={nth}"));
    }
    // Not with --seccomp-bpf, which would be faster but loses the signals.
    let mut wrapper = vec!["strace", "-D", "-f", "-qqq", "-o", "/dev/null"];
    wrapper.extend(expressions.iter().flat_map(|expression| ["-e", expression]));
    support::wrap(&wrapper, command)
}

fn call_of(tamper: &str) -> &str {
    tamper.split(':').next().expect("a call")
}

/// The pending hooks in the state file after a run. Damage is added to the diagnostics, as the next
/// run would report it.
fn pending_hooks(path: &str, stderr: &mut String) -> Vec<PendingHook> {
    match StateFile::open(Path::new(path))
        .expect("a state file that nobody holds")
        .1
    {
        LoadResult::Missing => Vec::new(),
        LoadResult::State(state) => state.hooks,
        LoadResult::Damaged { reason, .. } => {
            stderr.push_str("the state file cannot be used: ");
            stderr.push_str(&reason.to_string());
            Vec::new()
        }
    }
}

/// Waits for the hooks of killed runs.
fn await_hooks(folder: &str) {
    let deadline = Instant::now() + PATIENCE;
    let alive = |mark: &service::Mark| Path::new(&format!("/proc/{}", mark.process)).exists();
    while marks(folder).iter().any(alive) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Plays the seeds, many at a time, and passes each transcript to `check`.
fn play_all(seeds: std::ops::Range<u64>, trial: Trial, check: impl Fn(&Transcript) + Sync) {
    let next = AtomicU64::new(seeds.start);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    check(&play(Plan::new(seed), trial));
                }
            });
        }
    });
}

fn number(name: &str) -> Option<u64> {
    env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .map(|value| value.parse().expect("a number"))
}

/// Totals over all seeds, which show whether the harness still kills anything.
#[derive(Default)]
struct Totals {
    runs: usize,
    kills: BTreeMap<&'static str, u64>,
    approvals: usize,
    approvals_failed: usize,
    commands: usize,
    commands_again: usize,
    violations: Vec<String>,
}

impl Totals {
    fn add(&mut self, seen: &Transcript) {
        self.runs += seen.runs.len();
        for kill in seen
            .runs
            .iter()
            .filter(|run| run.killed)
            .filter_map(|run| run.kill)
        {
            *self.kills.entry(kill.call).or_default() += 1;
        }
        self.approvals += seen.approvals.len();
        self.approvals_failed += seen
            .approvals
            .iter()
            .filter(|approval| approval.status != Some(200))
            .count();
        let mut begun: Vec<_> = seen
            .marks
            .iter()
            .filter(|mark| !mark.ended)
            .map(|mark| (&mark.word, &mark.id))
            .collect();
        self.commands += begun.len();
        begun.sort();
        begun.dedup();
        self.commands_again += seen.marks.iter().filter(|mark| !mark.ended).count() - begun.len();
        let findings = oracle::check(seen);
        if !findings.is_empty() {
            self.violations
                .push(format!("seed {}: {findings:#?}\n{seen}", seen.plan.seed));
        }
    }
}

#[test]
fn killed_at_any_system_call_it_keeps_all_guarantees() {
    let seeds = match number("CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CRASH_SEEDS").unwrap_or(1000),
    };
    let since = Instant::now();
    let totals = Mutex::new(Totals::default());
    play_all(seeds.clone(), UNCHANGED, |seen| {
        totals.lock().expect("a lock").add(seen);
    });
    let totals = totals.into_inner().expect("a lock");
    let kills: u64 = totals.kills.values().sum();
    let by_call: Vec<_> = totals
        .kills
        .iter()
        .map(|(call, kills)| format!("{call} {kills}"))
        .collect();
    // Directly to stderr, since the test runner hides the output of a passing test.
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
    assert!(
        totals.violations.is_empty(),
        "{} seeds violated a guarantee:\n{}",
        totals.violations.len(),
        totals.violations.join("\n")
    );
    if seeds.end - seeds.start >= 100 {
        assert!(kills >= seeds.end - seeds.start, "too few kills");
        for call in CALLS.iter().map(|(call, ..)| call).chain(&COMMANDS) {
            assert!(
                totals.kills.contains_key(call),
                "no run was killed at {call}"
            );
        }
    }
}

/// A crash of the machine loses data that was not synced, which no kill shows. So this checks the
/// system calls themselves.
#[test]
fn the_state_file_is_synced_before_it_is_renamed() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let folder = Folder::new();
    let (file, calls) = (folder.path("state"), folder.path("calls"));
    let watch = [
        "watch",
        "--endpoint",
        &service.url(),
        "--state",
        &file,
        "--vm-name",
        VM,
        "--max-polls",
        "2",
    ];
    let mut traced = support::launch("strace");
    traced.args([
        "-f",
        "-qqq",
        "-y",
        "-e",
        "trace=write,fsync,fdatasync,rename,renameat,renameat2",
        "-o",
        &calls,
    ]);
    traced.arg(support::PROGRAM).args(watch);
    let output = support::wait::output(&mut traced);
    assert!(output.status.success(), "{output:?}");
    // Each line starts with a thread id, and -y adds file names: `12
    // fsync(7</tmp/folder/state.tmp>) = 0`.
    let calls = lines(&calls);
    let folder = folder.path("");
    let folder = folder.trim_end_matches('/');
    let mut replaced = 0;
    for (index, call) in calls.iter().enumerate() {
        if !call.contains(" rename") || !call.contains(&format!("\"{file}\"")) {
            continue;
        }
        replaced += 1;
        let temporary = call.split('"').nth(1).expect("a path");
        let of_temporary = |name: &str| {
            calls[..index]
                .iter()
                .rposition(|call| call.contains(name) && call.contains(&format!("<{temporary}>")))
        };
        let (written, synced) = (of_temporary(" write("), of_temporary("sync("));
        assert!(
            written.is_some() && synced > written,
            "not synced before line {index} of {calls:#?}"
        );
        let next = calls[index + 1..]
            .iter()
            .find(|call| !call.contains(" write(2<"));
        let folder_synced = next
            .is_some_and(|call| call.contains("fsync(") && call.contains(&format!("<{folder}>")));
        assert!(
            folder_synced,
            "the folder is not synced after line {index} of {calls:#?}"
        );
    }
    assert!(replaced >= 2, "{calls:#?}");
}

/// A program whose state file is never replaced: each rename reports success and does nothing.
const DEFECTIVE_SEEDS: u64 = 100;
const DEFECTIVE: Trial = Trial {
    tamper: &["rename:retval=0"],
    timeout: Duration::from_secs(15),
};

#[test]
fn a_program_that_saves_nothing_is_detected() {
    let detected = Mutex::new(BTreeMap::<Guarantee, u64>::new());
    play_all(0..DEFECTIVE_SEEDS, DEFECTIVE, |seen| {
        for (guarantee, _) in oracle::check(seen) {
            *detected
                .lock()
                .expect("a lock")
                .entry(guarantee)
                .or_default() += 1;
        }
    });
    let detected = detected.into_inner().expect("a lock");
    let _ = writeln!(
        std::io::stderr().lock(),
        "a program that saves nothing, {DEFECTIVE_SEEDS} seeds: {detected:?}"
    );
    for guarantee in [
        Guarantee::PreparedAgain,
        Guarantee::ChangeAgain,
        Guarantee::RecoveryForgotten,
        Guarantee::HookLost,
    ] {
        assert!(
            detected.contains_key(&guarantee),
            "{guarantee} was not detected, but {detected:?}"
        );
    }
}
