//! `--approve`: only once the worker is gone, and those of other runs.

use serde_json::json;

use super::{Fixture, preempt};
use crate::support::{FakeService, WHILE_TEST_RUNS, eventually, with};

#[test]
fn an_event_is_approved_only_once_the_worker_is_gone() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let go = fixture.folder.path("go");
    let script = fixture.worker_that(&format!(
        "echo ending >> $LOG; while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.05; done; echo end >> $LOG; exit 0"
    ));
    let run = fixture.run(&service.url(), &["--approve", "--grace", "60s"], &script);
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    fixture.await_lines("ending", 1);
    service.await_polls(5);
    assert!(service.posted().is_empty());
    std::fs::write(&go, "").expect("a file");
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    assert_eq!(fixture.lines(), ["start", "ending", "end"]);
    run.terminate();
    run.finish().with_code(143);
}

/// The grandchild ignores SIGTERM, has a session of its own, and its parent has ended.
#[test]
fn after_the_grace_all_that_the_worker_started_is_killed_before_the_approval() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let grandchild = format!(
        "trap \"\" TERM; echo $$ >> $LOG.pids; while {WHILE_TEST_RUNS}; do sleep 0.05; done"
    );
    let script = format!(
        "LOG={}; export LOG; setsid sh -c '{grandchild}' & trap \"\" TERM; echo $$ >> $LOG.pids; \
         while {WHILE_TEST_RUNS}; do sleep 0.05; done",
        fixture.log
    );
    let run = fixture.run(&service.url(), &["--approve", "--grace", "1s"], &script);
    let pids = eventually("two processes", || {
        Some(crate::support::lines(&format!("{}.pids", fixture.log))).filter(|pids| pids.len() == 2)
    });
    service.show(2, &[preempt("a")]);
    let runs = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| !state.starts_with('Z'))
    };
    eventually("an approval", || {
        let posted = service.posted();
        // Checked after the request arrived, which was sent when both were gone.
        (!posted.is_empty()).then(|| assert!(!pids.iter().any(runs)))
    });
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn of_several_runs_with_state_in_one_folder_the_last_worker_that_ends_allows_the_approval() {
    let (one, service) = (Fixture::new(), FakeService::start());
    let two = Fixture {
        folder: crate::support::Folder::new(),
        log: one.folder.path("log-2"),
    };
    let (state_one, state_two) = (one.folder.path("state-1"), one.folder.path("state-2"));
    let go = one.folder.path("go");
    let slow = two.worker_that(&format!(
        "echo ending >> $LOG; while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.05; done; echo end >> $LOG; exit 0"
    ));
    let first = one.run(
        &service.url(),
        &["--approve", "--state", &state_one],
        &one.worker(),
    );
    let second = two.run(
        &service.url(),
        &["--approve", "--grace", "60s", "--state", &state_two],
        &slow,
    );
    one.await_lines("start", 1);
    two.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    one.await_lines("end", 1);
    two.await_lines("ending", 1);
    first.wait_for_stderr("Preempt is not approved: workers of other runs are not gone: 1");
    service.await_polls(6);
    assert!(service.posted().is_empty());
    std::fs::write(&go, "").expect("a file");
    eventually("an approval", || service.posted().first().cloned());
    assert_eq!(two.lines(), ["start", "ending", "end"]);
    for run in [first, second] {
        run.terminate();
        run.finish().with_code(143);
    }
}

/// The script of a worker whose own process ends on SIGTERM, and whose child saves until the file
/// `go` exists.
fn ends_before_its_child(fixture: &Fixture, go: &str) -> String {
    let save = format!(
        "echo saving >> $LOG; while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.05; done"
    );
    format!(
        "LOG={}; export LOG; sh -c 'trap \"{save}; echo saved >> $LOG; exit 0\" TERM; echo start >> $LOG; \
         while {WHILE_TEST_RUNS}; do sleep 0.05; done' & wait",
        fixture.log
    )
}

#[test]
fn what_another_runs_worker_has_started_counts_after_its_own_process_has_ended() {
    let (one, service) = (Fixture::new(), FakeService::start());
    let two = Fixture {
        folder: crate::support::Folder::new(),
        log: one.folder.path("log-2"),
    };
    let go = one.folder.path("go");
    let (state_one, state_two) = (one.folder.path("state-1"), one.folder.path("state-2"));
    let first = one.run(
        &service.url(),
        &["--approve", "--state", &state_one],
        &one.worker(),
    );
    let slow = ends_before_its_child(&two, &go);
    let second = two.run(
        &service.url(),
        &["--approve", "--grace", "60s", "--state", &state_two],
        &slow,
    );
    one.await_lines("start", 1);
    two.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    one.await_lines("end", 1);
    two.await_lines("saving", 1);
    first.wait_for_stderr("workers of other runs are not gone: 1");
    service.await_polls(8);
    assert!(service.posted().is_empty());
    // The same holds once no process has the lock.
    second.kill();
    service.await_polls(8);
    assert!(service.posted().is_empty());
    std::fs::write(&go, "").expect("a file");
    eventually("an approval", || service.posted().first().cloned());
    assert_eq!(two.lines(), ["start", "saving", "saved"]);
    first.terminate();
    first.finish().with_code(143);
}

/// The holder of a lock removes workers that are gone, wherever it can see them: here it cannot.
#[test]
fn a_worker_in_a_lock_that_is_held_counts_wherever_it_runs() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let (state, other) = (
        fixture.folder.path("state"),
        fixture.folder.path("other.lock"),
    );
    crate::support::write_private(
        &other,
        "17        \nanother boot\n4194305 1 worker-17-1-0\n",
    );
    let lock = std::fs::File::open(&other).expect("a file");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let run = fixture.run(
        &service.url(),
        &["--approve", "--state", &state],
        &fixture.worker(),
    );
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    run.wait_for_stderr("workers of other runs are not gone: 1");
    service.await_polls(8);
    assert!(service.posted().is_empty());
    drop(lock);
    eventually("an approval", || service.posted().first().cloned());
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn an_event_is_approved_only_once_the_stop_command_has_ended() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let go = fixture.folder.path("go");
    let stop = fixture.folder.file(
        "stop.sh",
        format!(
            "kill $SCHEDULED_EVENTS_WORKER_PID; echo uploading >> {log}; while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.05; \
             done; echo uploaded >> {log}\n",
            log = fixture.log
        ),
    );
    let options = [
        "--approve",
        "--grace",
        "60s",
        "--stop-command",
        &format!("sh {stop}"),
    ];
    let run = fixture.run(&service.url(), &options, &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    fixture.await_lines("end", 1);
    fixture.await_lines("uploading", 1);
    service.await_polls(5);
    // The next worker does not run beside it either.
    service.show(3, &[]);
    service.await_polls(5);
    assert!(service.posted().is_empty());
    assert_eq!(
        fixture
            .lines()
            .iter()
            .filter(|line| *line == "start")
            .count(),
        1
    );
    std::fs::write(&go, "").expect("a file");
    fixture.await_lines("start", 2);
    assert_eq!(fixture.lines().last().map(String::as_str), Some("start"));
    run.terminate();
    run.finish().with_code(0);
}

/// A worker whose supervisor was killed still counts.
#[test]
fn a_worker_that_lost_its_supervisor_keeps_another_run_from_approving() {
    let (one, service) = (Fixture::new(), FakeService::start());
    let two = Fixture {
        folder: crate::support::Folder::new(),
        log: one.folder.path("log-2"),
    };
    let (state_one, state_two) = (one.folder.path("state-1"), one.folder.path("state-2"));
    let first = one.run(
        &service.url(),
        &["--approve", "--state", &state_one],
        &one.worker(),
    );
    let second = two.run(&service.url(), &["--state", &state_two], &two.worker());
    one.await_lines("start", 1);
    two.await_lines("start", 1);
    // It is registered by then.
    second.wait_for_stderr("started the worker");
    second.kill();
    service.show(2, &[preempt("a")]);
    first.wait_for_stderr("workers of other runs are not gone: 1");
    assert!(service.posted().is_empty());
    // The next run of the second worker ends the processes that were left running.
    let next = two.run(&service.url(), &["--state", &state_two], &two.worker());
    two.await_lines("end", 1);
    next.wait_for_stderr("ended 1 process that the last run left running");
    next.terminate();
    first.terminate();
    next.finish();
    first.finish().with_code(143);
}

#[test]
fn an_event_that_affects_other_machines_too_is_not_approved() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let both = with(
        preempt("a"),
        &json!({ "Resources": [crate::support::VM, "other"] }),
    );
    let run = fixture.run(&service.url(), &["--approve"], &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[both]);
    fixture.await_lines("end", 1);
    run.wait_for_stderr("Preempt is not approved: it affects other machines, too");
    service.await_polls(3);
    assert!(service.posted().is_empty());
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn fault_33_an_event_that_names_this_machine_twice_is_approved() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let vm = crate::support::VM;
    let twice = with(
        preempt("a"),
        &json!({ "Resources": [vm, vm.to_uppercase()] }),
    );
    let run = fixture.run(&service.url(), &["--approve"], &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[twice]);
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    run.terminate();
    run.finish();
}
