//! Crashes and restarts: what was done is not done again, what was begun is finished, and the state file is never
//! trusted blindly, nor lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Finished, Folder, PREPARE_ALL, Reply, Run, Stage, VM, eventually, freeze, lines, started};

/// A service, a state file, and commands that note that they ran and wait for a file to go on.
struct Bench {
    stage: Stage,
    folder: Folder,
    policy: String,
    state: String,
    log: String,
    prepare: String,
    recover: String,
}

impl Bench {
    /// With a machine that has one event.
    fn new() -> Self {
        let folder = Folder::new();
        let log = folder.path("log");
        let command = |word: &str| {
            let go = folder.path(&format!("{word}-may-end"));
            // It gives up with the test, since a crash leaves it behind.
            format!(
                "sh -c 'echo {word} $SCHEDULED_EVENTS_EVENT_ID >> {log}; while ! test -e {go} && test -e {policy}; do sleep \
                 0.05; done'",
                policy = folder.path("policy.toml"),
            )
        };
        let bench = Self {
            prepare: command("prepare"),
            recover: command("recover"),
            stage: Stage::start(),
            policy: folder.file("policy.toml", PREPARE_ALL),
            state: folder.path("state"),
            log,
            folder,
        };
        bench.stage.show(2, &[freeze("a")]);
        bench
    }

    fn start(&self) -> Run {
        let Self { policy, state, prepare, recover, .. } = self;
        let arguments = ["--policy", policy, "--state", state, "--prepare", prepare, "--recover", recover];
        Run::watch(&self.stage.url(), &[&arguments[..], &["--vm-name", VM, "--until-idle"]].concat())
    }

    /// Lets the commands of this word end, those to come as well.
    fn let_end(&self, word: &str) {
        self.folder.file(&format!("{word}-may-end"), "");
    }

    fn ran(&self) -> Vec<String> {
        lines(&self.log)
    }

    fn await_command(&self, line: &str) {
        eventually(line, || self.ran().iter().any(|ran| ran == line).then_some(()));
    }

    /// Plays the rest to a run that was started again, to its end.
    fn play_to_the_end(&self, mut run: Run) -> Finished {
        self.let_end("prepare");
        self.let_end("recover");
        eventually("an approval", || self.stage.posted().first().cloned());
        self.stage.show(3, &[started("a")]);
        run.change("started", "a");
        self.stage.show(4, &[]);
        run.finish().with_code(0)
    }
}

fn approved(run: &mut Run) {
    run.record("an approval", |record| record["record"] == "approval" && record["status"] == 200);
}

fn ready(run: &mut Run) {
    run.record("a preparation", |record| record["record"] == "prepare" && record["outcome"] == "ready");
}

#[test]
fn killed_while_it_prepares_it_prepares_again_and_approves_and_recovers_once() {
    let bench = Bench::new();
    let run = bench.start();
    bench.await_command("prepare a");
    run.kill();
    let finished = bench.play_to_the_end(bench.start());
    assert_eq!(bench.ran(), ["prepare a", "prepare a", "recover a"]);
    assert_eq!(bench.stage.posted(), ["a"]);
    // That it is scheduled was told before.
    assert_eq!(finished.changes("a"), ["started", "completed"]);
}

#[test]
fn killed_after_ready_and_before_the_approval_it_approves_without_preparing_again() {
    let bench = Bench::new();
    let mut run = bench.start();
    bench.await_command("prepare a");
    // A poll without an answer keeps the approval waiting, since requests go one at a time.
    bench.stage.intercept(|_| Some(Reply::raw("").after(Duration::from_secs(600))));
    bench.stage.await_polls(1);
    bench.let_end("prepare");
    ready(&mut run);
    run.kill();
    assert!(bench.stage.posted().is_empty());
    bench.stage.intercept(|_| None);
    let finished = bench.play_to_the_end(bench.start());
    assert_eq!(bench.ran(), ["prepare a", "recover a"]);
    assert_eq!(bench.stage.posted(), ["a"]);
    assert_eq!(finished.approved(), ["a"]);
}

#[test]
fn killed_while_an_approval_is_under_way_it_approves_again() {
    let bench = Bench::new();
    bench.let_end("prepare");
    bench.stage.intercept(|request| request.is_post().then(|| Reply::raw("").after(Duration::from_secs(600))));
    let run = bench.start();
    eventually("a POST", || bench.stage.posted().first().cloned());
    run.kill();
    bench.stage.intercept(|_| None);
    let mut run = bench.start();
    approved(&mut run);
    let finished = bench.play_to_the_end(run);
    assert_eq!(bench.ran(), ["prepare a", "recover a"]);
    // Whether the first one took effect was never said.
    assert_eq!(bench.stage.posted(), ["a", "a"]);
    assert_eq!(finished.approved(), ["a"]);
}

#[test]
fn killed_after_the_approval_it_neither_prepares_nor_approves_again_and_recovers_once() {
    let bench = Bench::new();
    bench.let_end("prepare");
    let mut run = bench.start();
    approved(&mut run);
    run.kill();
    let run = bench.start();
    bench.stage.await_polls(4);
    let finished = bench.play_to_the_end(run);
    assert_eq!(bench.ran(), ["prepare a", "recover a"]);
    assert_eq!(bench.stage.posted(), ["a"]);
    assert!(finished.approved().is_empty());
    assert_eq!(finished.changes("a"), ["started", "completed"]);
    assert!(finished.stderr.contains("taking up the last run's state, 1 events"), "{}", finished.stderr);
}

#[test]
fn an_event_that_ended_while_nobody_watched_is_recovered_from_once() {
    for was_started in [true, false] {
        let bench = Bench::new();
        bench.let_end("prepare");
        bench.let_end("recover");
        let mut run = bench.start();
        approved(&mut run);
        if was_started {
            bench.stage.show(3, &[started("a")]);
            run.change("started", "a");
            bench.stage.await_polls(2);
        }
        run.kill();
        bench.stage.show(4, &[]);
        // The event is in the state file only, and that is enough to end on.
        let finished = bench.start().finish().with_code(0);
        assert_eq!(finished.changes("a"), [if was_started { "completed" } else { "ended" }]);
        assert_eq!(finished.of_kind("recover").len(), 1);
        assert_eq!(bench.ran(), ["prepare a", "recover a"]);
        assert_eq!(bench.stage.posted(), ["a"]);
    }
}

#[test]
fn killed_while_it_recovers_it_recovers_again_and_after_that_never() {
    let bench = Bench::new();
    bench.let_end("prepare");
    let mut run = bench.start();
    approved(&mut run);
    bench.stage.show(3, &[]);
    bench.await_command("recover a");
    run.kill();

    bench.let_end("recover");
    // Another event keeps the watch from ending by itself.
    bench.stage.show(4, &[crate::support::with(freeze("b"), &serde_json::json!({ "Resources": ["other"] }))]);
    let mut run = bench.start();
    let recovered = run.record("a recovery", |record| record["record"] == "recover");
    assert_eq!(recovered["outcome"], "done");
    assert_eq!(bench.ran(), ["prepare a", "recover a", "recover a"]);
    run.kill();

    bench.stage.show(5, &[]);
    let finished = bench.start().finish().with_code(0);
    assert!(finished.of_kind("recover").is_empty() && finished.changes("a").is_empty(), "{}", finished.stdout);
    assert_eq!(bench.ran().len(), 3);
}

#[test]
fn killed_after_a_failed_preparation_it_still_never_approves_and_recovers() {
    let bench = Bench::new();
    let arguments =
        ["--policy", &bench.policy, "--state", &bench.state, "--prepare", "false", "--recover", &bench.recover];
    let start = || Run::watch(&bench.stage.url(), &[&arguments[..], &["--until-idle"]].concat());
    let mut run = start();
    run.record("a preparation", |record| record["record"] == "prepare" && record["outcome"] == "failed");
    run.kill();
    let run = start();
    bench.stage.await_polls(4);
    assert!(bench.stage.posted().is_empty());
    bench.let_end("recover");
    bench.stage.show(3, &[]);
    let finished = run.finish().with_code(0);
    assert!(finished.of_kind("prepare").is_empty());
    assert_eq!(bench.ran(), ["recover a"]);
}

#[test]
fn a_command_for_a_change_that_a_crash_or_a_stop_cut_off_runs_again_and_after_its_end_never() {
    for stop in [false, true] {
        let bench = Bench::new();
        let on = format!("scheduled={}", bench.prepare.replace("prepare", "on"));
        let arguments = ["--state", &bench.state, "--vm-name", VM, "--until-idle", "--on", &on];
        let start = || Run::watch(&bench.stage.url(), &arguments);
        let mut run = start();
        bench.await_command("on a");
        // That the event is scheduled is told and kept.
        run.record("a decision", |record| record["record"] == "decision");
        bench.stage.await_polls(2);
        if stop {
            ends_soon(run);
        } else {
            run.kill();
        }
        let run = start();
        eventually("the command again", || (bench.ran() == ["on a", "on a"]).then_some(()));
        bench.let_end("on");
        bench.stage.await_polls(3);
        run.kill();
        bench.stage.show(3, &[]);
        let finished = start().finish().with_code(0);
        assert_eq!(finished.changes("a"), ["cancelled"]);
        assert_eq!(bench.ran(), ["on a", "on a"]);
    }
}

#[test]
fn a_new_run_waits_for_an_event_unless_the_state_file_knows_of_one() {
    let bench = Bench::new();
    bench.stage.show(2, &[]);
    let mut run = bench.start();
    bench.stage.await_polls(4);
    assert!(run.is_running(), "it ended without having seen an event");
    run.kill();
    // Nor does an empty state file count as one.
    let mut run = bench.start();
    bench.stage.await_polls(4);
    assert!(run.is_running());
}

/// A state file of a run that has approved an event.
fn state_of_an_approved_event(bench: &Bench) -> Vec<u8> {
    bench.let_end("prepare");
    let mut run = bench.start();
    approved(&mut run);
    run.kill();
    fs::read(&bench.state).expect("a state file")
}

#[test]
fn a_damaged_state_file_is_reported_set_aside_and_kept() {
    let bench = Bench::new();
    let whole = state_of_an_approved_event(&bench);
    assert_eq!(fs::metadata(&bench.state).expect("a file").permissions().mode() & 0o777, 0o600);
    bench.stage.show(3, &[]);
    let mut changed = whole.clone();
    let middle = whole.len() / 2;
    changed[middle] ^= 1;
    let mut damaged = vec![b"not a state file".to_vec(), vec![0xff; 100], changed, [&whole[..], b"more"].concat()];
    damaged.extend([0, 1, 20, 34, 40, middle, whole.len() - 1].map(|length| whole[..length].to_vec()));
    for (number, content) in (1..).zip(&damaged) {
        fs::write(&bench.state, content).expect("a file");
        let arguments = ["--state", &bench.state, "--vm-name", VM, "--max-polls", "1"];
        let finished = Run::watch(&bench.stage.url(), &arguments).finish().with_code(0);
        let kept = format!("{}.damaged-{number}", bench.state);
        assert!(finished.stderr.contains("warning: the state file was damaged"), "{number}: {}", finished.stderr);
        assert!(finished.stderr.contains(&kept), "{}", finished.stderr);
        assert_eq!(&fs::read(&kept).expect("it is kept"), content);
        // A run that could not remember must not pretend to.
        assert!(!finished.stderr.contains("taking up"), "{}", finished.stderr);
    }
}

#[test]
fn a_state_file_whose_snapshot_is_damaged_under_a_right_checksum_is_set_aside_too() {
    let bench = Bench::new();
    let whole = String::from_utf8(state_of_an_approved_event(&bench)).expect("text");
    let (head, content) = whole.split_once('\n').expect("two lines");
    let snapshot = content.split('"').nth(3).expect("the snapshot");
    let changed = content.replacen(&snapshot[8..10], "77", 1);
    let (form, _) = head.rsplit_once(' ').expect("a checksum");
    let forged = format!("{form} {:08x}\n{changed}", crc32fast::hash(changed.as_bytes()));
    fs::write(&bench.state, forged).expect("a file");
    let arguments = ["--state", &bench.state, "--vm-name", VM, "--max-polls", "1"];
    let finished = Run::watch(&bench.stage.url(), &arguments).finish().with_code(0);
    assert!(finished.stderr.contains("warning: the state file was damaged"), "{}", finished.stderr);
    assert!(Path::new(&format!("{}.damaged-1", bench.state)).exists());
}

#[test]
fn a_temporary_file_that_a_crash_left_is_no_hindrance() {
    let bench = Bench::new();
    let whole = state_of_an_approved_event(&bench);
    fs::write(format!("{}.tmp", bench.state), &whole[..whole.len() / 2]).expect("a file");
    let finished = bench.play_to_the_end(bench.start());
    assert_eq!(bench.stage.posted(), ["a"]);
    assert!(!finished.stderr.contains("damaged"), "{}", finished.stderr);
}

#[test]
fn a_dry_run_recovers_from_nothing_and_leaves_the_state_to_the_next_run() {
    let bench = Bench::new();
    let run = bench.start();
    bench.let_end("prepare");
    eventually("an approval", || bench.stage.posted().first().cloned());
    run.kill();
    bench.stage.show(3, &[]);
    let before = fs::read(&bench.state).expect("a state file");
    let arguments =
        ["--state", &bench.state, "--recover", &bench.recover, "--vm-name", VM, "--dry-run", "--until-idle"];
    let finished = Run::watch(&bench.stage.url(), &arguments).finish().with_code(0);
    assert_eq!(finished.of_kind("recover")[0]["outcome"], "dry-run");
    assert_eq!(fs::read(&bench.state).expect("the state file"), before);
    bench.let_end("recover");
    let finished = bench.start().finish().with_code(0);
    assert_eq!(finished.of_kind("recover")[0]["outcome"], "done");
    assert_eq!(bench.ran(), ["prepare a", "recover a"]);
}

#[test]
fn a_state_file_in_a_folder_that_cannot_be_written_is_refused_at_once() {
    let bench = Bench::new();
    // Whoever runs the tests may write into any folder, so the folder is none.
    for folder in [bench.folder.path("missing"), bench.policy.clone()] {
        let state = format!("{folder}/state");
        let finished =
            crate::support::run(&["watch", "--endpoint", &bench.stage.url(), "--state", &state]).with_code(2);
        assert!(
            finished.stderr.starts_with(&format!("error: cannot use the state file {state}: ")),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stderr.lines().count(), 1);
    }
    // A folder in the file's place, and a device, which stays one.
    let inner = bench.folder.path("inner");
    fs::create_dir(&inner).expect("a folder");
    for state in [inner.as_str(), "/dev/null"] {
        let finished = crate::support::run(&["watch", "--endpoint", &bench.stage.url(), "--state", state]).with_code(2);
        let refusal = format!("error: cannot use the state file {state}: it is no regular file");
        assert!(finished.stderr.starts_with(&refusal), "{}", finished.stderr);
    }
    assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    assert!(bench.stage.requests().is_empty());
}

#[test]
fn a_state_file_that_can_no_longer_be_written_is_told_and_the_watch_goes_on() {
    let bench = Bench::new();
    bench.stage.show(1, &[]);
    let state = bench.folder.path("inner/state");
    fs::create_dir(bench.folder.path("inner")).expect("a folder");
    let mut run = Run::watch(&bench.stage.url(), &["--state", &state, "--policy", "sample"]);
    bench.stage.await_polls(2);
    fs::remove_dir_all(bench.folder.path("inner")).expect("a folder");
    bench.stage.show(2, &[freeze("a")]);
    approved(&mut run);
    let words = "error: the state file could not be written, so a restart would forget";
    run.says(words);
    // It is tried again with the polls, and not told again.
    bench.stage.await_polls(8);
    assert_eq!(run.stderr().matches(words).count(), 1, "{}", run.stderr());
}

#[test]
fn a_terminal_that_is_closed_ends_the_watch_and_its_commands_unless_that_is_ignored() {
    let bench = Bench::new();
    let run = bench.start();
    bench.await_command("prepare a");
    crate::support::signal(run.id(), Signal::HUP);
    assert!(run.finish().with_code(0).stderr.contains("was terminated, because the watcher stops"));
    let arguments = ["watch", "--json", "--endpoint", &bench.stage.url(), "--interval", "200ms", "--vm-name", VM];
    // As nohup does it.
    let ignoring =
        crate::support::behind(&["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"], &crate::support::command(&arguments));
    let run = Run::start(ignoring);
    bench.stage.await_polls(2);
    crate::support::signal(run.id(), Signal::HUP);
    bench.stage.await_polls(4);
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn a_second_process_on_the_same_state_file_is_refused_and_told_who_has_it() {
    let bench = Bench::new();
    let first = bench.start();
    bench.stage.await_polls(2);
    let second = bench.start().finish().with_code(2);
    assert!(second.stderr.contains(&format!("in use by process {};", first.id())), "{}", second.stderr);
    assert_eq!(second.stderr.lines().count(), 1, "{}", second.stderr);
    assert!(second.stdout.is_empty());
    // The lock goes with its process, however that ends.
    first.kill();
    let mut third = bench.start();
    bench.await_command("prepare a");
    assert!(third.is_running());
}

/// The longest that a stop may take: two seconds, and some more for a busy machine.
const STOP: Duration = Duration::from_secs(4);

fn ends_soon(run: Run) -> Finished {
    let since = Instant::now();
    run.terminate();
    let finished = run.finish().with_code(0);
    assert!(since.elapsed() < STOP, "it took {:?} to end", since.elapsed());
    finished
}

#[test]
fn sigterm_ends_it_with_its_state_saved_and_its_commands_ended_with_all_they_started() {
    let bench = Bench::new();
    let pids = bench.folder.path("pids");
    // Neither the shell nor what it started ends politely.
    let stubborn = format!("sh -c 'trap \"\" TERM; sleep 600 & echo $$ $! > {pids}; wait; wait; sleep 600'");
    let arguments = ["--policy", &bench.policy, "--state", &bench.state, "--prepare", &stubborn, "--on"];
    let on = format!("scheduled={}", stubborn.replace(&pids, &format!("{pids}-on")));
    let run = Run::watch(&bench.stage.url(), &[&arguments[..], &[&on]].concat());
    let started = eventually("the commands", || {
        let pids: Vec<_> = [lines(&pids), lines(&format!("{pids}-on"))].concat();
        (pids.len() == 2).then(|| pids.join(" "))
    });
    ends_soon(run);
    for pid in started.split(' ') {
        eventually("the end of a command", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
        });
    }
    assert!(bench.stage.posted().is_empty());
    // What was known is known again; the preparation was not finished, so it is begun anew.
    let run = bench.start();
    bench.await_command("prepare a");
    let finished = bench.play_to_the_end(run);
    assert_eq!(finished.changes("a"), ["started", "completed"]);
    assert_eq!(bench.stage.posted(), ["a"]);
}

#[test]
fn sigterm_ends_it_while_a_poll_or_the_question_for_the_name_gets_no_answer() {
    for names in [&["--vm-name", VM][..], &[]] {
        let bench = Bench::new();
        bench.stage.intercept(|_| Some(Reply::raw("").after(Duration::from_secs(600))));
        let run = Run::watch(&bench.stage.url(), &[names, &["--state", &bench.state]].concat());
        eventually("a request", || bench.stage.requests().first().cloned());
        ends_soon(run);
    }
}

#[test]
fn what_still_runs_when_the_last_poll_is_done_is_ended_too() {
    let bench = Bench::new();
    let pids = bench.folder.path("pids");
    let prepare = format!("sh -c 'sleep 600 & echo $$ $! > {pids}; wait'");
    let arguments = ["--policy", &bench.policy, "--prepare", &prepare, "--max-polls", "6"];
    Run::watch(&bench.stage.url(), &arguments).finish().with_code(0);
    for pid in lines(&pids).concat().split(' ') {
        eventually("the end of a command", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
        });
    }
}
