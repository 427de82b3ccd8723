//! Crashes and restarts: completed work is not repeated, started work is finished, and a damaged
//! state file is neither used nor lost.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
#[cfg(unix)]
use std::thread;
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

#[cfg(unix)]
use rustix::process::Signal;

#[cfg(unix)]
use crate::support::STATE_NOT_WRITTEN;
use crate::support::{
    FakeService, Finished, Folder, PREPARE_ALL, Reply, Run, VM, eventually, freeze, helper, lines,
    started, write_private,
};

/// A service with one event, a state file, and commands that log that they ran and wait for a file.
struct Fixture {
    service: FakeService,
    folder: Folder,
    policy: String,
    state: String,
    log: String,
    prepare: String,
    recover: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        let log = folder.path("log");
        let command = |word: &str| {
            let go = folder.path(&format!("{word}-may-end"));
            helper(&[
                format!("append {log} {word} $EVENT_ID"),
                format!("await {go}"),
            ])
        };
        let fixture = Self {
            prepare: command("prepare"),
            recover: command("recover"),
            service: FakeService::start(),
            policy: folder.file("policy.toml", PREPARE_ALL),
            state: folder.path("state"),
            log,
            folder,
        };
        fixture.service.show(2, &[freeze("a")]);
        fixture
    }

    fn start(&self) -> Run {
        let Self {
            policy,
            state,
            prepare,
            recover,
            ..
        } = self;
        let arguments = [
            "--policy",
            policy,
            "--state",
            state,
            "--prepare",
            prepare,
            "--recover",
            recover,
        ];
        Run::watch(
            &self.service.url(),
            &[&arguments[..], &["--vm-name", VM, "--until-idle"]].concat(),
        )
    }

    /// Lets the commands of this word end, including future ones.
    fn let_end(&self, word: &str) {
        self.folder.file(&format!("{word}-may-end"), "");
    }

    fn ran(&self) -> Vec<String> {
        lines(&self.log)
    }

    fn await_command(&self, line: &str) {
        eventually(line, || {
            self.ran().iter().any(|ran| ran == line).then_some(())
        });
    }

    /// Lets the event take place, and waits for the run's end.
    fn play_to_the_end(&self, mut run: Run) -> Finished {
        self.let_end("prepare");
        self.let_end("recover");
        eventually("an approval", || self.service.posted().first().cloned());
        self.service.show(3, &[started("a")]);
        run.change("started", "a");
        self.service.show(4, &[]);
        run.finish().with_code(0)
    }
}

fn approved(run: &mut Run) {
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
}

fn ready(run: &mut Run) {
    run.record("a preparation", |record| {
        record["record"] == "prepare" && record["outcome"] == "ready"
    });
}

#[test]
fn after_a_kill_during_a_preparation_it_prepares_again_and_approves_and_recovers_once() {
    let fixture = Fixture::new();
    let run = fixture.start();
    fixture.await_command("prepare a");
    run.kill();
    let finished = fixture.play_to_the_end(fixture.start());
    assert_eq!(fixture.ran(), ["prepare a", "prepare a", "recover a"]);
    assert_eq!(fixture.service.posted(), ["a"]);
    // The first run reported that it is scheduled.
    assert_eq!(finished.changes("a"), ["started", "completed"]);
}

#[test]
fn after_a_kill_between_ready_and_the_approval_it_approves_without_preparing_again() {
    let fixture = Fixture::new();
    let mut run = fixture.start();
    fixture.await_command("prepare a");
    // A poll without a response delays the approval, since there is one request at a time.
    fixture
        .service
        .intercept(|_| Some(Reply::raw("").after(Duration::from_secs(600))));
    fixture.service.await_polls(1);
    fixture.let_end("prepare");
    ready(&mut run);
    run.kill();
    assert!(fixture.service.posted().is_empty());
    fixture.service.intercept(|_| None);
    let finished = fixture.play_to_the_end(fixture.start());
    assert_eq!(fixture.ran(), ["prepare a", "recover a"]);
    assert_eq!(fixture.service.posted(), ["a"]);
    assert_eq!(finished.approved(), ["a"]);
}

#[test]
fn after_a_kill_during_an_approval_it_approves_again() {
    let fixture = Fixture::new();
    fixture.let_end("prepare");
    fixture.service.intercept(|request| {
        request
            .is_post()
            .then(|| Reply::raw("").after(Duration::from_secs(600)))
    });
    let run = fixture.start();
    eventually("a POST", || fixture.service.posted().first().cloned());
    run.kill();
    fixture.service.intercept(|_| None);
    let mut run = fixture.start();
    approved(&mut run);
    let finished = fixture.play_to_the_end(run);
    assert_eq!(fixture.ran(), ["prepare a", "recover a"]);
    // The result of the first approval is unknown.
    assert_eq!(fixture.service.posted(), ["a", "a"]);
    assert_eq!(finished.approved(), ["a"]);
}

#[test]
fn after_a_kill_after_the_approval_it_neither_prepares_nor_approves_again_and_recovers_once() {
    let fixture = Fixture::new();
    fixture.let_end("prepare");
    let mut run = fixture.start();
    approved(&mut run);
    run.kill();
    let run = fixture.start();
    fixture.service.await_polls(4);
    let finished = fixture.play_to_the_end(run);
    assert_eq!(fixture.ran(), ["prepare a", "recover a"]);
    assert_eq!(fixture.service.posted(), ["a"]);
    assert!(finished.approved().is_empty());
    assert_eq!(finished.changes("a"), ["started", "completed"]);
    assert!(
        finished
            .stderr
            .contains("restored the state of the last run: 1 event"),
        "{}",
        finished.stderr
    );
}

#[test]
fn an_event_that_ended_between_two_runs_is_recovered_from_once() {
    for was_started in [true, false] {
        let fixture = Fixture::new();
        fixture.let_end("prepare");
        fixture.let_end("recover");
        let mut run = fixture.start();
        approved(&mut run);
        if was_started {
            fixture.service.show(3, &[started("a")]);
            run.change("started", "a");
            fixture.service.await_polls(2);
        }
        run.kill();
        fixture.service.show(4, &[]);
        // The event is known from the state file only, which counts for --until-idle.
        let finished = fixture.start().finish().with_code(0);
        assert_eq!(
            finished.changes("a"),
            [if was_started { "completed" } else { "ended" }]
        );
        assert_eq!(finished.of_kind("recover").len(), 1);
        assert_eq!(fixture.ran(), ["prepare a", "recover a"]);
        assert_eq!(fixture.service.posted(), ["a"]);
    }
}

#[test]
fn after_a_kill_during_a_recovery_it_recovers_again_once() {
    let fixture = Fixture::new();
    fixture.let_end("prepare");
    let mut run = fixture.start();
    approved(&mut run);
    fixture.service.show(3, &[]);
    fixture.await_command("recover a");
    run.kill();

    fixture.let_end("recover");
    // Another event keeps the watcher running.
    fixture.service.show(
        4,
        &[crate::support::with(
            freeze("b"),
            &serde_json::json!({ "Resources": ["other"] }),
        )],
    );
    let mut run = fixture.start();
    let recovered = run.record("a recovery", |record| record["record"] == "recover");
    assert_eq!(recovered["outcome"], "done");
    assert_eq!(fixture.ran(), ["prepare a", "recover a", "recover a"]);
    run.kill();

    fixture.service.show(5, &[]);
    let finished = fixture.start().finish().with_code(0);
    assert!(
        finished.of_kind("recover").is_empty() && finished.changes("a").is_empty(),
        "{}",
        finished.stdout
    );
    assert_eq!(fixture.ran().len(), 3);
}

#[test]
fn after_a_failed_preparation_and_a_kill_it_does_not_approve_and_recovers() {
    let fixture = Fixture::new();
    let fails = helper(&["exit 78"]);
    let arguments = [
        "--policy",
        &fixture.policy,
        "--state",
        &fixture.state,
        "--prepare",
        &fails,
        "--recover",
        &fixture.recover,
    ];
    let start = || {
        Run::watch(
            &fixture.service.url(),
            &[&arguments[..], &["--until-idle"]].concat(),
        )
    };
    let mut run = start();
    run.record("a preparation", |record| {
        record["record"] == "prepare" && record["outcome"] == "abandoned"
    });
    run.kill();
    let run = start();
    fixture.service.await_polls(4);
    assert!(fixture.service.posted().is_empty());
    fixture.let_end("recover");
    fixture.service.show(3, &[]);
    let finished = run.finish().with_code(0);
    assert!(finished.of_kind("prepare").is_empty());
    assert_eq!(fixture.ran(), ["recover a"]);
}

#[test]
fn a_hook_that_a_kill_or_a_stop_interrupted_runs_again_until_it_has_ended() {
    for stop in [false, true] {
        let fixture = Fixture::new();
        let on = format!("scheduled={}", fixture.prepare.replace("prepare", "on"));
        let arguments = [
            "--state",
            &fixture.state,
            "--vm-name",
            VM,
            "--until-idle",
            "--on",
            &on,
        ];
        let start = || Run::watch(&fixture.service.url(), &arguments);
        let mut run = start();
        fixture.await_command("on a");
        // The change is reported and saved.
        run.record("a decision", |record| record["record"] == "decision");
        fixture.service.await_polls(2);
        if stop {
            run.stop();
        } else {
            run.kill();
        }
        let run = start();
        eventually("the command again", || {
            (fixture.ran() == ["on a", "on a"]).then_some(())
        });
        fixture.let_end("on");
        fixture.service.await_polls(3);
        run.kill();
        fixture.service.show(3, &[]);
        let finished = start().finish().with_code(0);
        assert_eq!(finished.changes("a"), ["cancelled"]);
        assert_eq!(fixture.ran(), ["on a", "on a"]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_a_killed_watcher_left_running_is_ended_before_it_starts_again() {
    let fixture = Fixture::new();
    let (pids, daemon) = (fixture.folder.path("pids"), fixture.folder.path("daemon"));
    // It ignores SIGTERM, and its child has another session.
    let prepare =
        format!("sh -c 'trap \"\" TERM; setsid sleep 600 & echo $$ $! >> {pids}; wait; sleep 600'");
    let on = format!("scheduled=sh -c 'sleep 600 & echo $! > {daemon}'");
    let arguments = [
        "--policy",
        &fixture.policy,
        "--state",
        &fixture.state,
        "--vm-name",
        VM,
    ];
    let start = || {
        Run::watch(
            &fixture.service.url(),
            &[&arguments[..], &["--prepare", &prepare, "--on", &on]].concat(),
        )
    };
    let is_running = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/stat"));
        status.is_ok_and(|status| !status.contains(") Z "))
    };
    let run = start();
    let first = eventually("the command", || lines(&pids).first().cloned());
    eventually("a service", || lines(&daemon).first().cloned());
    fixture.service.await_polls(2);
    run.kill();
    assert!(first.split(' ').all(is_running), "{first}");
    let run = start();
    run.wait_for_stderr("note: ended 1 command that the last run left running");
    eventually("the command again", || {
        (lines(&pids).len() == 2).then_some(())
    });
    assert!(!first.split(' ').any(is_running), "{first}");
    // Processes stay that a command left running when it ended by itself.
    let daemon = lines(&daemon).concat();
    assert!(is_running(&daemon), "{daemon}");
    crate::support::signal(daemon.parse().expect("a number"), Signal::KILL);
    run.terminate();
    run.finish().with_code(0);
    let second = lines(&pids)[1].clone();
    eventually("the end", || {
        (!second.split(' ').any(is_running)).then_some(())
    });
}

#[test]
fn until_idle_waits_for_an_event_unless_the_state_file_has_one() {
    let fixture = Fixture::new();
    fixture.service.show(2, &[]);
    let mut run = fixture.start();
    fixture.service.await_polls(4);
    assert!(run.is_running(), "it ended without an event");
    run.kill();
    // A state file without events does not count.
    let mut run = fixture.start();
    fixture.service.await_polls(4);
    assert!(run.is_running());
}

/// A state file of a run that has approved an event.
fn state_of_an_approved_event(fixture: &Fixture) -> Vec<u8> {
    fixture.let_end("prepare");
    let mut run = fixture.start();
    approved(&mut run);
    run.kill();
    fs::read(&fixture.state).expect("a state file")
}

#[test]
fn a_damaged_state_file_is_reported_and_quarantined() {
    let fixture = Fixture::new();
    let whole = state_of_an_approved_event(&fixture);
    #[cfg(unix)]
    assert_eq!(
        fs::metadata(&fixture.state)
            .expect("a file")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    fixture.service.show(3, &[]);
    let mut changed = whole.clone();
    let middle = whole.len() / 2;
    changed[middle] ^= 1;
    let mut damaged = vec![
        b"not a state file".to_vec(),
        vec![0xff; 100],
        changed,
        [&whole[..], b"more"].concat(),
    ];
    damaged
        .extend([0, 1, 20, 34, 40, middle, whole.len() - 1].map(|length| whole[..length].to_vec()));
    for (number, content) in (1..).zip(&damaged) {
        write_private(&fixture.state, content);
        let arguments = [
            "--state",
            &fixture.state,
            "--vm-name",
            VM,
            "--max-polls",
            "1",
        ];
        let finished = Run::watch(&fixture.service.url(), &arguments)
            .finish()
            .with_code(0);
        let kept = format!("{}.damaged-{number}", fixture.state);
        assert!(
            finished
                .stderr
                .contains("warning: the state file cannot be used"),
            "{number}: {}",
            finished.stderr
        );
        assert!(finished.stderr.contains(&kept), "{}", finished.stderr);
        assert_eq!(&fs::read(&kept).expect("it is kept"), content);
        assert!(!finished.stderr.contains("restored"), "{}", finished.stderr);
    }
}

#[test]
fn a_state_file_with_a_damaged_snapshot_and_a_correct_checksum_is_quarantined() {
    let fixture = Fixture::new();
    let mut forged = state_of_an_approved_event(&fixture);
    let line = b"\nscheduled-events state 2 ";
    let end = forged
        .windows(line.len())
        .rposition(|window| window == line)
        .expect("the line after the snapshot");
    forged[12] ^= 1;
    let checksum = end + line.len();
    let content = [&forged[..end], &forged[checksum + 9..]].concat();
    forged[checksum..checksum + 8].copy_from_slice(
        format!(
            "{:08x}",
            crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&content)
        )
        .as_bytes(),
    );
    write_private(&fixture.state, forged);
    let arguments = [
        "--state",
        &fixture.state,
        "--vm-name",
        VM,
        "--max-polls",
        "1",
    ];
    let finished = Run::watch(&fixture.service.url(), &arguments)
        .finish()
        .with_code(0);
    assert!(
        finished
            .stderr
            .contains("warning: the state file cannot be used"),
        "{}",
        finished.stderr
    );
    assert!(Path::new(&format!("{}.damaged-1", fixture.state)).exists());
}

#[test]
fn a_temporary_file_of_a_crashed_run_is_replaced() {
    let fixture = Fixture::new();
    let whole = state_of_an_approved_event(&fixture);
    fs::write(format!("{}.tmp", fixture.state), &whole[..whole.len() / 2]).expect("a file");
    let finished = fixture.play_to_the_end(fixture.start());
    assert_eq!(fixture.service.posted(), ["a"]);
    assert!(!finished.stderr.contains("damaged"), "{}", finished.stderr);
}

#[test]
fn a_dry_run_runs_no_command_and_changes_no_file() {
    let fixture = Fixture::new();
    state_of_an_approved_event(&fixture);
    fixture.service.show(3, &[]);
    let before = fs::read(&fixture.state).expect("a state file");
    fs::remove_file(format!("{}.lock", fixture.state)).expect("a lock");
    let names = fixture.folder.names();
    let on = format!("ended={}", fixture.recover.replace("recover", "on"));
    let dry = [
        "--recover",
        &fixture.recover,
        "--on",
        &on,
        "--vm-name",
        VM,
        "--dry-run",
        "--until-idle",
    ];
    let finished = Run::watch(
        &fixture.service.url(),
        &[&["--state", &fixture.state], &dry[..]].concat(),
    )
    .finish()
    .with_code(0);
    assert_eq!(finished.of_kind("recover")[0]["outcome"], "dry-run");
    assert_eq!(finished.changes("a"), ["ended"]);
    assert_eq!(fs::read(&fixture.state).expect("the state file"), before);
    assert_eq!(fixture.folder.names(), names);
    // A damaged file is not moved, and no new one is created.
    let (damaged, new) = (fixture.folder.path("damaged"), fixture.folder.path("new"));
    write_private(&damaged, "damaged");
    let refused = Run::watch(
        &fixture.service.url(),
        &[&["--state", &damaged], &dry[..]].concat(),
    )
    .finish();
    assert!(refused.with_code(2).stderr.contains("is damaged"));
    let arguments = [
        "--state",
        &new,
        "--dry-run",
        "--max-polls",
        "2",
        "--vm-name",
        VM,
    ];
    Run::watch(&fixture.service.url(), &arguments)
        .finish()
        .with_code(0);
    fs::remove_file(damaged).expect("the damaged file");
    assert_eq!(fixture.folder.names(), names);

    fixture.let_end("recover");
    let finished = fixture.start().finish().with_code(0);
    assert_eq!(finished.of_kind("recover")[0]["outcome"], "done");
    assert_eq!(fixture.ran(), ["prepare a", "recover a"]);
}

#[test]
fn an_unusable_path_of_the_state_file_is_a_usage_error() {
    let fixture = Fixture::new();
    // Read-only folders would not do, since root can write in them.
    for (folder, reason) in [
        (fixture.folder.path("missing"), "does not exist; create it"),
        (fixture.policy.clone(), "is not a folder"),
    ] {
        let state = format!("{folder}/state");
        let finished = crate::support::run(&[
            "watch",
            "--endpoint",
            &fixture.service.url(),
            "--state",
            &state,
        ])
        .with_code(2);
        assert!(
            finished
                .stderr
                .starts_with(&format!("error: cannot use the state file {state}: ")),
            "{}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains(&folder) && finished.stderr.contains(reason),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stderr.lines().count(), 1);
    }
    // A folder, and a device, which must not be replaced.
    let inner = fixture.folder.path("inner");
    fs::create_dir(&inner).expect("a folder");
    let paths = [inner.as_str(), "/dev/null"];
    for state in if cfg!(unix) { &paths[..] } else { &paths[..1] } {
        let finished = crate::support::run(&[
            "watch",
            "--endpoint",
            &fixture.service.url(),
            "--state",
            state,
        ])
        .with_code(2);
        let refusal = format!("error: cannot use the state file {state}: not a regular file");
        assert!(finished.stderr.starts_with(&refusal), "{}", finished.stderr);
    }
    #[cfg(unix)]
    assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    assert!(fixture.service.requests().is_empty());
}

#[test]
#[cfg(unix)] // Windows removes no folder with open files.
fn a_failure_to_write_the_state_file_is_reported_once_and_stops_nothing() {
    let fixture = Fixture::new();
    fixture.service.show(1, &[]);
    let state = fixture.folder.path("inner/state");
    fs::create_dir(fixture.folder.path("inner")).expect("a folder");
    let mut run = Run::watch(
        &fixture.service.url(),
        &["--state", &state, "--policy", "sample"],
    );
    fixture.service.await_polls(2);
    fs::remove_dir_all(fixture.folder.path("inner")).expect("a folder");
    fixture.service.show(2, &[freeze("a")]);
    approved(&mut run);
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    // Further attempts follow a second apart.
    fixture.service.await_polls(8);
    assert_eq!(
        run.stderr().matches(STATE_NOT_WRITTEN).count(),
        1,
        "{}",
        run.stderr()
    );
    fs::create_dir(fixture.folder.path("inner")).expect("a folder");
    run.wait_for_stderr("note: the state file is written again");
    assert!(fs::exists(&state).expect("a folder"));
}

#[test]
#[cfg(unix)] // It takes a signal.
fn sighup_stops_the_watcher_and_its_commands_unless_it_was_started_with_it_ignored() {
    let fixture = Fixture::new();
    let run = fixture.start();
    fixture.await_command("prepare a");
    crate::support::signal(run.id(), Signal::HUP);
    assert!(
        run.finish()
            .with_code(0)
            .stderr
            .contains("was terminated, because this program stops")
    );
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &fixture.service.url(),
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    // As nohup does.
    let ignoring = crate::support::wrap(
        &["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"],
        &crate::support::command(&arguments),
    );
    let run = Run::start(ignoring);
    fixture.service.await_polls(2);
    crate::support::signal(run.id(), Signal::HUP);
    fixture.service.await_polls(4);
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn a_second_process_on_the_same_state_file_is_rejected_with_the_id_of_the_first() {
    let fixture = Fixture::new();
    let first = fixture.start();
    fixture.service.await_polls(2);
    let second = fixture.start().finish().with_code(2);
    assert!(
        second
            .stderr
            .contains(&format!("in use by process {};", first.id())),
        "{}",
        second.stderr
    );
    assert_eq!(second.stderr.lines().count(), 1, "{}", second.stderr);
    assert!(second.stdout.is_empty());
    // A kill releases the lock.
    first.kill();
    let mut third = fixture.start();
    fixture.await_command("prepare a");
    assert!(third.is_running());
}

/// The longest accepted time to stop: two seconds, and more for a busy machine.
#[cfg(unix)]
const STOP_MAX: Duration = Duration::from_secs(40);

#[cfg(unix)]
fn stop_in_time(run: Run) -> Finished {
    let since = Instant::now();
    let finished = run.stop();
    assert!(
        since.elapsed() < STOP_MAX,
        "it took {:?} to stop",
        since.elapsed()
    );
    finished
}

#[test]
#[cfg(unix)] // It takes a signal.
fn sigterm_saves_the_state_and_ends_the_commands_with_their_children() {
    let fixture = Fixture::new();
    let pids = fixture.folder.path("pids");
    // The shell and its child ignore SIGTERM.
    let stubborn =
        format!("sh -c 'trap \"\" TERM; sleep 600 & echo $$ $! > {pids}; wait; wait; sleep 600'");
    let arguments = [
        "--policy",
        &fixture.policy,
        "--state",
        &fixture.state,
        "--prepare",
        &stubborn,
        "--on",
    ];
    let on = format!(
        "scheduled={}",
        stubborn.replace(&pids, &format!("{pids}-on"))
    );
    let run = Run::watch(&fixture.service.url(), &[&arguments[..], &[&on]].concat());
    let started = eventually("the commands", || {
        let pids: Vec<_> = [lines(&pids), lines(&format!("{pids}-on"))].concat();
        (pids.len() == 2).then(|| pids.join(" "))
    });
    stop_in_time(run);
    for pid in started.split(' ') {
        eventually("the end of a command", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
                .then_some(())
        });
    }
    assert!(fixture.service.posted().is_empty());
    // The event is known from the state file. The preparation was interrupted, so it starts again.
    let run = fixture.start();
    fixture.await_command("prepare a");
    let finished = fixture.play_to_the_end(run);
    assert_eq!(finished.changes("a"), ["started", "completed"]);
    assert_eq!(fixture.service.posted(), ["a"]);
}

#[test]
#[cfg(unix)] // It takes a signal.
fn sigterm_stops_the_watcher_while_a_request_has_no_response() {
    for names in [&["--vm-name", VM][..], &[]] {
        let fixture = Fixture::new();
        fixture
            .service
            .intercept(|_| Some(Reply::raw("").after(Duration::from_secs(600))));
        let run = Run::watch(
            &fixture.service.url(),
            &[names, &["--state", &fixture.state]].concat(),
        );
        eventually("a request", || fixture.service.requests().first().cloned());
        stop_in_time(run);
    }
}

#[test]
#[cfg(unix)] // It takes a signal.
fn commands_that_run_after_the_last_poll_may_end_and_a_signal_ends_them() {
    let fixture = Fixture::new();
    let arguments = [
        &[
            "--policy",
            &fixture.policy,
            "--prepare",
            &fixture.prepare,
            "--state",
            &fixture.state,
        ],
        &["--vm-name", VM, "--max-polls", "3"][..],
    ]
    .concat();
    let mut run = Run::watch(&fixture.service.url(), &arguments);
    fixture.await_command("prepare a");
    eventually("the last poll", || {
        (fixture.service.polls() == 3).then_some(())
    });
    thread::sleep(Duration::from_millis(500));
    assert!(run.is_running(), "{}", run.stderr());
    fixture.let_end("prepare");
    let finished = run.finish().with_code(0);
    let outcomes: Vec<_> = finished
        .of_kind("prepare")
        .iter()
        .map(|record| record["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["begun", "ready"]);
    // Nothing was started afterwards; the next run approves.
    assert!(fixture.service.posted().is_empty() && fixture.service.polls() == 3);
    Run::watch(&fixture.service.url(), &arguments)
        .finish()
        .with_code(0);
    assert_eq!(
        (fixture.service.posted(), fixture.ran().len()),
        (vec!["a".to_owned()], 1)
    );

    let fixture = Fixture::new();
    let pids = fixture.folder.path("pids");
    let prepare = format!("sh -c 'sleep 600 & echo $$ $! > {pids}; wait'");
    let arguments = [
        "--policy",
        &fixture.policy,
        "--prepare",
        &prepare,
        "--vm-name",
        VM,
        "--max-polls",
        "2",
    ];
    let run = Run::watch(&fixture.service.url(), &arguments);
    let pids = eventually("a preparation", || lines(&pids).first().cloned());
    stop_in_time(run);
    for pid in pids.split(' ') {
        eventually("the end of a command", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
                .then_some(())
        });
    }
}
